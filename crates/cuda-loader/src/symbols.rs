//! The driver's functions, under the names that `cust` links to.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
use std::sync::OnceLock;

use crate::library;

/// A pointer of the driver's, to what it keeps to itself. So are pointers to functions here.
pub(crate) type Handle = *mut c_void;

/// `CUDA_SUCCESS`.
pub(crate) const SUCCESS: c_int = 0;
/// `CUDA_ERROR_NO_DEVICE`: what every function returns where there is no driver.
pub(crate) const NO_DEVICE: c_int = 100;
/// `CUDA_ERROR_NOT_SUPPORTED`: what a function returns that this driver does not have.
pub(crate) const NOT_SUPPORTED: c_int = 801;

/// Defines each function of the table so that it forwards to the driver's, and lists all in `ALL`.
macro_rules! driver_functions {
    ($($name:ident($($argument:ident: $ty:ty),* $(,)?);)*) => {
        $(
            // SAFETY: the driver's functions have these names in every program that links to the driver; this program links to them here.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $ty),*) -> c_int {
                type Function = unsafe extern "C" fn($($ty),*) -> c_int;
                static FUNCTION: OnceLock<Result<Function, c_int>> = OnceLock::new();
                // SAFETY: the driver documents this function with these arguments.
                match FUNCTION.get_or_init(|| unsafe { find(concat!(stringify!($name), "\0")) }) {
                    // SAFETY: passed on to the caller.
                    Ok(function) => unsafe { function($($argument),*) },
                    Err(code) => *code,
                }
            }
        )*

        /// Every function that `cust` may link to. Whoever refers to this table links them all.
        pub(crate) static ALL: &[Symbol] = &[
            $(Symbol($name as *const c_void),)*
            Symbol(cuGetErrorName as *const c_void),
            Symbol(cuGetErrorString as *const c_void),
        ];
    };
}

/// The address of a function defined here.
pub(crate) struct Symbol(pub(crate) *const c_void);

// SAFETY: the address of a function is the same for all threads, and nothing is read through it.
unsafe impl Sync for Symbol {}

/// The driver's function of a name that ends in NUL, or the error code to return in its place.
///
/// # Safety
///
/// `F` is a function pointer, of the type of that function.
unsafe fn find<F: Copy>(name: &'static str) -> Result<F, c_int> {
    let library = library().as_ref().map_err(|_| NO_DEVICE)?;
    // SAFETY: passed on to the caller.
    let symbol = unsafe { library.get::<F>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| NOT_SUPPORTED)
}

driver_functions! {
    cuArray3DCreate_v2(p_handle: *mut Handle, p_allocate_array: *const c_void);
    cuArray3DGetDescriptor_v2(p_array_descriptor: *mut c_void, h_array: Handle);
    cuArrayDestroy(h_array: Handle);
    cuCtxCreate_v2(pctx: *mut Handle, flags: c_uint, dev: c_int);
    cuCtxDestroy_v2(ctx: Handle);
    cuCtxGetApiVersion(ctx: Handle, version: *mut c_uint);
    cuCtxGetCacheConfig(pconfig: *mut c_uint);
    cuCtxGetCurrent(pctx: *mut Handle);
    cuCtxGetDevice(device: *mut c_int);
    cuCtxGetFlags(flags: *mut c_uint);
    cuCtxGetLimit(pvalue: *mut usize, limit: c_uint);
    cuCtxGetSharedMemConfig(p_config: *mut c_uint);
    cuCtxGetStreamPriorityRange(least_priority: *mut c_int, greatest_priority: *mut c_int);
    cuCtxPopCurrent_v2(pctx: *mut Handle);
    cuCtxPushCurrent_v2(ctx: Handle);
    cuCtxSetCacheConfig(config: c_uint);
    cuCtxSetCurrent(ctx: Handle);
    cuCtxSetLimit(limit: c_uint, value: usize);
    cuCtxSetSharedMemConfig(config: c_uint);
    cuCtxSynchronize();
    cuDestroyExternalMemory(ext_mem: Handle);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetAttribute(pi: *mut c_int, attrib: c_uint, dev: c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, dev: c_int);
    cuDevicePrimaryCtxRelease_v2(dev: c_int);
    cuDevicePrimaryCtxReset_v2(dev: c_int);
    cuDevicePrimaryCtxRetain(pctx: *mut Handle, dev: c_int);
    cuDevicePrimaryCtxSetFlags_v2(dev: c_int, flags: c_uint);
    cuDeviceTotalMem_v2(bytes: *mut usize, dev: c_int);
    cuDriverGetVersion(driver_version: *mut c_int);
    cuEventCreate(ph_event: *mut Handle, flags: c_uint);
    cuEventDestroy_v2(h_event: Handle);
    cuEventElapsedTime(p_milliseconds: *mut f32, h_start: Handle, h_end: Handle);
    cuEventQuery(h_event: Handle);
    cuEventRecord(h_event: Handle, h_stream: Handle);
    cuEventSynchronize(h_event: Handle);
    cuExternalMemoryGetMappedBuffer(
        dev_ptr: *mut c_ulonglong, ext_mem: Handle, buffer_desc: *const c_void,
    );
    cuFuncGetAttribute(pi: *mut c_int, attrib: c_uint, hfunc: Handle);
    cuFuncSetCacheConfig(hfunc: Handle, config: c_uint);
    cuFuncSetSharedMemConfig(hfunc: Handle, config: c_uint);
    cuGraphAddKernelNode(
        ph_graph_node: *mut Handle, h_graph: Handle, dependencies: *const Handle,
        num_dependencies: usize, node_params: *const c_void,
    );
    cuGraphCreate(ph_graph: *mut Handle, flags: c_uint);
    cuGraphDebugDotPrint(h_graph: Handle, path: *const c_char, flags: c_uint);
    cuGraphDestroy(h_graph: Handle);
    cuGraphGetEdges(h_graph: Handle, from: *mut Handle, to: *mut Handle, num_edges: *mut usize);
    cuGraphGetNodes(h_graph: Handle, nodes: *mut Handle, num_nodes: *mut usize);
    cuGraphKernelNodeGetParams(h_node: Handle, node_params: *mut c_void);
    cuGraphNodeGetType(h_node: Handle, kind: *mut c_uint);
    cuImportExternalMemory(ext_mem_out: *mut Handle, mem_handle_desc: *const c_void);
    cuInit(flags: c_uint);
    cuLaunchCooperativeKernel(
        f: Handle, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint,
        block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: Handle,
        kernel_params: *mut *mut c_void,
    );
    cuLaunchHostFunc(h_stream: Handle, host_function: Handle, user_data: *mut c_void);
    cuLaunchKernel(
        f: Handle, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint,
        block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: Handle,
        kernel_params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuLinkAddData_v2(
        state: Handle, kind: c_uint, data: *mut c_void, size: usize, name: *const c_char,
        num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void,
    );
    cuLinkComplete(state: Handle, cubin_out: *mut *mut c_void, size_out: *mut usize);
    cuLinkCreate_v2(
        num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void, state_out: *mut
        Handle,
    );
    cuLinkDestroy(state: Handle);
    cuMemAdvise(dev_ptr: c_ulonglong, count: usize, advice: c_uint, device: c_int);
    cuMemAllocAsync(dptr: *mut c_ulonglong, bytesize: usize, h_stream: Handle);
    cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize);
    cuMemAllocManaged(dptr: *mut c_ulonglong, bytesize: usize, flags: c_uint);
    cuMemAlloc_v2(dptr: *mut c_ulonglong, bytesize: usize);
    cuMemFreeAsync(dptr: c_ulonglong, h_stream: Handle);
    cuMemFreeHost(p: *mut c_void);
    cuMemFree_v2(dptr: c_ulonglong);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemPrefetchAsync(dev_ptr: c_ulonglong, count: usize, dst_device: c_int, h_stream: Handle);
    cuMemcpy2D_v2(p_copy: *const c_void);
    cuMemcpyAtoH_v2(dst_host: *mut c_void, src_array: Handle, src_offset: usize, byte_count: usize);
    cuMemcpyDtoDAsync_v2(
        dst_device: c_ulonglong, src_device: c_ulonglong, byte_count: usize, h_stream: Handle,
    );
    cuMemcpyDtoD_v2(dst_device: c_ulonglong, src_device: c_ulonglong, byte_count: usize);
    cuMemcpyDtoHAsync_v2(
        dst_host: *mut c_void, src_device: c_ulonglong, byte_count: usize, h_stream: Handle,
    );
    cuMemcpyDtoH_v2(dst_host: *mut c_void, src_device: c_ulonglong, byte_count: usize);
    cuMemcpyHtoA_v2(
        dst_array: Handle, dst_offset: usize, src_host: *const c_void, byte_count: usize,
    );
    cuMemcpyHtoDAsync_v2(
        dst_device: c_ulonglong, src_host: *const c_void, byte_count: usize, h_stream: Handle,
    );
    cuMemcpyHtoD_v2(dst_device: c_ulonglong, src_host: *const c_void, byte_count: usize);
    cuMemsetD16Async(dst_device: c_ulonglong, us: c_ushort, n: usize, h_stream: Handle);
    cuMemsetD16_v2(dst_device: c_ulonglong, us: c_ushort, n: usize);
    cuMemsetD32Async(dst_device: c_ulonglong, ui: c_uint, n: usize, h_stream: Handle);
    cuMemsetD32_v2(dst_device: c_ulonglong, ui: c_uint, n: usize);
    cuMemsetD8Async(dst_device: c_ulonglong, uc: c_uchar, n: usize, h_stream: Handle);
    cuMemsetD8_v2(dst_device: c_ulonglong, uc: c_uchar, n: usize);
    cuModuleGetFunction(hfunc: *mut Handle, hmod: Handle, name: *const c_char);
    cuModuleGetGlobal_v2(
        dptr: *mut c_ulonglong, bytes: *mut usize, hmod: Handle, name: *const c_char,
    );
    cuModuleLoad(module: *mut Handle, fname: *const c_char);
    cuModuleLoadData(module: *mut Handle, image: *const c_void);
    cuModuleLoadDataEx(
        module: *mut Handle, image: *const c_void, num_options: c_uint, options: *mut c_uint,
        option_values: *mut *mut c_void,
    );
    cuModuleUnload(hmod: Handle);
    cuOccupancyAvailableDynamicSMemPerBlock(
        dynamic_smem_size: *mut usize, func: Handle, num_blocks: c_int, block_size: c_int,
    );
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        num_blocks: *mut c_int, func: Handle, block_size: c_int, dynamic_smem_size: usize,
    );
    cuOccupancyMaxPotentialBlockSize(
        min_grid_size: *mut c_int, block_size: *mut c_int, func: Handle,
        block_size_to_dynamic_smem_size: Handle, dynamic_smem_size: usize, block_size_limit: c_int,
    );
    cuStreamCreateWithPriority(ph_stream: *mut Handle, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(h_stream: Handle);
    cuStreamGetFlags(h_stream: Handle, flags: *mut c_uint);
    cuStreamGetPriority(h_stream: Handle, priority: *mut c_int);
    cuStreamSynchronize(h_stream: Handle);
    cuStreamWaitEvent(h_stream: Handle, h_event: Handle, flags: c_uint);
    cuSurfObjectCreate(p_surf_object: *mut c_ulonglong, p_res_desc: *const c_void);
    cuSurfObjectDestroy(surf_object: c_ulonglong);
    cuSurfObjectGetResourceDesc(p_res_desc: *mut c_void, surf_object: c_ulonglong);
    cuTexObjectCreate(
        p_tex_object: *mut c_ulonglong, p_res_desc: *const c_void, p_tex_desc: *const c_void,
        p_res_view_desc: *const c_void,
    );
    cuTexObjectDestroy(tex_object: c_ulonglong);
    cuTexObjectGetResourceDesc(p_res_desc: *mut c_void, tex_object: c_ulonglong);
    cuTexObjectGetResourceViewDesc(p_res_view_desc: *mut c_void, tex_object: c_ulonglong);

    // Not in cust.
    cuFuncSetAttribute(hfunc: Handle, attrib: c_uint, value: c_int);
    cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, flags: c_uint);
    cuMemHostUnregister(p: *mut c_void);
}

/// The driver's name for an error code. Unlike the others it knows an answer without a driver: `cust` panics where it gets none.
// SAFETY: as for the functions of the table.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetErrorName(error: c_uint, name: *mut *const c_char) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { describe("cuGetErrorName\0", c"CUDA_ERROR_NO_DEVICE", error, name) }
}

/// The driver's words for an error code, with an answer without a driver too.
// SAFETY: as for the functions of the table.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetErrorString(error: c_uint, text: *mut *const c_char) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { describe("cuGetErrorString\0", c"no CUDA-capable device is detected: the CUDA driver was not found", error, text) }
}

/// Asks the driver's `function` for words on an error; without a driver, the only error is that there is none.
///
/// # Safety
///
/// `text` can be written to, and `function` is `cuGetErrorName` or `cuGetErrorString`, with a NUL.
unsafe fn describe(function: &'static str, without_driver: &'static CStr, error: c_uint, text: *mut *const c_char) -> c_int {
    type Function = unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_int;
    // SAFETY: both functions have this type.
    match unsafe { find::<Function>(function) } {
        // SAFETY: passed on to the caller.
        Ok(function) => unsafe { function(error, text) },
        Err(_) => {
            // SAFETY: passed on to the caller.
            unsafe { *text = without_driver.as_ptr() };
            SUCCESS
        }
    }
}
