; The device side of `cuda_std`: what its `__cuda_std_*` symbols are. The builder puts the kernel module's own data layout and triple
; in front, appends the atomics and shared arrays, links all with the kernels, and inlines every call.
; Whatever waits for other threads is `convergent`: no pass may copy it into a branch or move it across one.

; --- thread: indices and dimensions, with the ranges that the hardware promises

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()

define i32 @__cuda_std_thread_idx_x() alwaysinline nounwind {
  %r = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %r
}
define i32 @__cuda_std_thread_idx_y() alwaysinline nounwind {
  %r = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  ret i32 %r
}
define i32 @__cuda_std_thread_idx_z() alwaysinline nounwind {
  %r = call range(i32 0, 64) i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  ret i32 %r
}
define i32 @__cuda_std_block_idx_x() alwaysinline nounwind {
  %r = call range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  ret i32 %r
}
define i32 @__cuda_std_block_idx_y() alwaysinline nounwind {
  %r = call range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  ret i32 %r
}
define i32 @__cuda_std_block_idx_z() alwaysinline nounwind {
  %r = call range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  ret i32 %r
}
define i32 @__cuda_std_block_dim_x() alwaysinline nounwind {
  %r = call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  ret i32 %r
}
define i32 @__cuda_std_block_dim_y() alwaysinline nounwind {
  %r = call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  ret i32 %r
}
define i32 @__cuda_std_block_dim_z() alwaysinline nounwind {
  %r = call range(i32 1, 65) i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  ret i32 %r
}
define i32 @__cuda_std_grid_dim_x() alwaysinline nounwind {
  %r = call range(i32 1, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  ret i32 %r
}
define i32 @__cuda_std_grid_dim_y() alwaysinline nounwind {
  %r = call range(i32 1, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  ret i32 %r
}
define i32 @__cuda_std_grid_dim_z() alwaysinline nounwind {
  %r = call range(i32 1, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  ret i32 %r
}

; --- thread: barriers of the block, fences

declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent nounwind
declare i32 @llvm.nvvm.barrier.cta.red.popc.aligned.all(i32, i1) convergent nounwind
declare i1 @llvm.nvvm.barrier.cta.red.and.aligned.all(i32, i1) convergent nounwind
declare i1 @llvm.nvvm.barrier.cta.red.or.aligned.all(i32, i1) convergent nounwind
declare void @llvm.nvvm.membar.cta() nounwind
declare void @llvm.nvvm.membar.gl() nounwind
declare void @llvm.nvvm.nanosleep(i32) convergent nounwind
declare void @llvm.trap() cold noreturn nounwind

define void @__cuda_std_sync_threads() alwaysinline convergent nounwind {
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
}
define i32 @__cuda_std_sync_threads_count(i32 %predicate) alwaysinline convergent nounwind {
  %p = icmp ne i32 %predicate, 0
  %r = call i32 @llvm.nvvm.barrier.cta.red.popc.aligned.all(i32 0, i1 %p)
  ret i32 %r
}
define i32 @__cuda_std_sync_threads_and(i32 %predicate) alwaysinline convergent nounwind {
  %p = icmp ne i32 %predicate, 0
  %q = call i1 @llvm.nvvm.barrier.cta.red.and.aligned.all(i32 0, i1 %p)
  %r = zext i1 %q to i32
  ret i32 %r
}
define i32 @__cuda_std_sync_threads_or(i32 %predicate) alwaysinline convergent nounwind {
  %p = icmp ne i32 %predicate, 0
  %q = call i1 @llvm.nvvm.barrier.cta.red.or.aligned.all(i32 0, i1 %p)
  %r = zext i1 %q to i32
  ret i32 %r
}
define void @__cuda_std_block_fence() alwaysinline nounwind {
  call void @llvm.nvvm.membar.cta()
  ret void
}
define void @__cuda_std_device_fence() alwaysinline nounwind {
  call void @llvm.nvvm.membar.gl()
  ret void
}
define void @__cuda_std_nanosleep(i32 %nanos) alwaysinline convergent nounwind {
  call void @llvm.nvvm.nanosleep(i32 %nanos)
  ret void
}
define void @__cuda_std_trap() alwaysinline cold noreturn nounwind {
  call void @llvm.trap()
  unreachable
}

; --- warp

declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.nvvm.read.ptx.sreg.lanemask.lt()
declare i32 @llvm.nvvm.activemask() convergent nounwind
declare void @llvm.nvvm.bar.warp.sync(i32) convergent nounwind
declare i1 @llvm.nvvm.vote.all.sync(i32, i1) convergent nounwind
declare i1 @llvm.nvvm.vote.any.sync(i32, i1) convergent nounwind
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1) convergent nounwind
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32) convergent nounwind
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32) convergent nounwind
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32) convergent nounwind
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.add(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.and(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.or(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.xor(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.umin(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.umax(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.min(i32, i32) convergent nounwind
declare i32 @llvm.nvvm.redux.sync.max(i32, i32) convergent nounwind

define i32 @__cuda_std_lane_id() alwaysinline nounwind {
  %r = call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()
  ret i32 %r
}
define i32 @__cuda_std_lanemask_lt() alwaysinline nounwind {
  %r = call i32 @llvm.nvvm.read.ptx.sreg.lanemask.lt()
  ret i32 %r
}
define i32 @__cuda_std_activemask() alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.activemask()
  ret i32 %r
}
define void @__cuda_std_sync_warp(i32 %mask) alwaysinline convergent nounwind {
  call void @llvm.nvvm.bar.warp.sync(i32 %mask)
  ret void
}
define i32 @__cuda_std_vote_all(i32 %mask, i32 %predicate) alwaysinline convergent nounwind {
  %p = icmp ne i32 %predicate, 0
  %q = call i1 @llvm.nvvm.vote.all.sync(i32 %mask, i1 %p)
  %r = zext i1 %q to i32
  ret i32 %r
}
define i32 @__cuda_std_vote_any(i32 %mask, i32 %predicate) alwaysinline convergent nounwind {
  %p = icmp ne i32 %predicate, 0
  %q = call i1 @llvm.nvvm.vote.any.sync(i32 %mask, i1 %p)
  %r = zext i1 %q to i32
  ret i32 %r
}
define i32 @__cuda_std_vote_ballot(i32 %mask, i32 %predicate) alwaysinline convergent nounwind {
  %p = icmp ne i32 %predicate, 0
  %r = call i32 @llvm.nvvm.vote.ballot.sync(i32 %mask, i1 %p)
  ret i32 %r
}
define i32 @__cuda_std_shuffle_idx(i32 %mask, i32 %value, i32 %x, i32 %clamp) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %mask, i32 %value, i32 %x, i32 %clamp)
  ret i32 %r
}
define i32 @__cuda_std_shuffle_up(i32 %mask, i32 %value, i32 %x, i32 %clamp) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 %mask, i32 %value, i32 %x, i32 %clamp)
  ret i32 %r
}
define i32 @__cuda_std_shuffle_down(i32 %mask, i32 %value, i32 %x, i32 %clamp) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 %mask, i32 %value, i32 %x, i32 %clamp)
  ret i32 %r
}
define i32 @__cuda_std_shuffle_xor(i32 %mask, i32 %value, i32 %x, i32 %clamp) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 %mask, i32 %value, i32 %x, i32 %clamp)
  ret i32 %r
}
define i32 @__cuda_std_reduce_add(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.add(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_and(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.and(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_or(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.or(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_xor(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.xor(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_min_u32(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.umin(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_max_u32(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.umax(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_min_i32(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.min(i32 %value, i32 %mask)
  ret i32 %r
}
define i32 @__cuda_std_reduce_max_i32(i32 %mask, i32 %value) alwaysinline convergent nounwind {
  %r = call i32 @llvm.nvvm.redux.sync.max(i32 %value, i32 %mask)
  ret i32 %r
}

; --- shared memory whose size the launch gives

@__cuda_std_dynamic = external addrspace(3) global [0 x i8], align 16

define ptr @__cuda_std_dynamic_shared_mem() alwaysinline nounwind {
  ret ptr addrspacecast (ptr addrspace(3) @__cuda_std_dynamic to ptr)
}

; --- arithmetic

declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fma.f64(double, double, double)
declare float @llvm.roundeven.f32(float)
declare double @llvm.roundeven.f64(double)
declare float @llvm.nvvm.fmax.nan.f(float, float)
declare float @llvm.nvvm.fmin.nan.f(float, float)
declare i32 @llvm.nvvm.prmt(i32, i32, i32)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare i32 @llvm.fshr.i32(i32, i32, i32)

define float @__cuda_std_fma_f32(float %a, float %b, float %c) alwaysinline nounwind {
  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %r
}
define double @__cuda_std_fma_f64(double %a, double %b, double %c) alwaysinline nounwind {
  %r = call double @llvm.fma.f64(double %a, double %b, double %c)
  ret double %r
}
define float @__cuda_std_round_ties_even_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.roundeven.f32(float %x)
  ret float %r
}
define double @__cuda_std_round_ties_even_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.roundeven.f64(double %x)
  ret double %r
}
define float @__cuda_std_max_nan_f32(float %a, float %b) alwaysinline nounwind {
  %r = call float @llvm.nvvm.fmax.nan.f(float %a, float %b)
  ret float %r
}
define float @__cuda_std_min_nan_f32(float %a, float %b) alwaysinline nounwind {
  %r = call float @llvm.nvvm.fmin.nan.f(float %a, float %b)
  ret float %r
}
define i32 @__cuda_std_byte_permute(i32 %a, i32 %b, i32 %selector) alwaysinline nounwind {
  %r = call i32 @llvm.nvvm.prmt(i32 %a, i32 %b, i32 %selector)
  ret i32 %r
}
define i32 @__cuda_std_funnel_shift_left(i32 %high, i32 %low, i32 %bits) alwaysinline nounwind {
  %r = call i32 @llvm.fshl.i32(i32 %high, i32 %low, i32 %bits)
  ret i32 %r
}
define i32 @__cuda_std_funnel_shift_right(i32 %high, i32 %low, i32 %bits) alwaysinline nounwind {
  %r = call i32 @llvm.fshr.i32(i32 %high, i32 %low, i32 %bits)
  ret i32 %r
}

; Loads that may be moved across stores: what they read does not change while the kernel runs.
define i16 @__cuda_std_load_readonly_16(ptr %p) alwaysinline nounwind {
  %g = addrspacecast ptr %p to ptr addrspace(1)
  %r = load i16, ptr addrspace(1) %g, align 2, !invariant.load !0
  ret i16 %r
}
define i32 @__cuda_std_load_readonly_32(ptr %p) alwaysinline nounwind {
  %g = addrspacecast ptr %p to ptr addrspace(1)
  %r = load i32, ptr addrspace(1) %g, align 4, !invariant.load !0
  ret i32 %r
}
define i64 @__cuda_std_load_readonly_64(ptr %p) alwaysinline nounwind {
  %g = addrspacecast ptr %p to ptr addrspace(1)
  %r = load i64, ptr addrspace(1) %g, align 8, !invariant.load !0
  ret i64 %r
}

; Copies from global to shared memory that need no register, and that nothing waits for until it asks.

declare void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.ca.shared.global.8(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.wait.all()

define void @__cuda_std_copy_async_32(ptr %to, ptr %from) alwaysinline nounwind {
  %s = addrspacecast ptr %to to ptr addrspace(3)
  %g = addrspacecast ptr %from to ptr addrspace(1)
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %s, ptr addrspace(1) %g)
  ret void
}
define void @__cuda_std_copy_async_64(ptr %to, ptr %from) alwaysinline nounwind {
  %s = addrspacecast ptr %to to ptr addrspace(3)
  %g = addrspacecast ptr %from to ptr addrspace(1)
  call void @llvm.nvvm.cp.async.ca.shared.global.8(ptr addrspace(3) %s, ptr addrspace(1) %g)
  ret void
}
define void @__cuda_std_copy_async_wait() alwaysinline nounwind {
  call void @llvm.nvvm.cp.async.wait.all()
  ret void
}
!0 = !{}
