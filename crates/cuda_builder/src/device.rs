//! The LLVM module that is linked with the kernels: what `cuda_std`'s symbols are, and the shared arrays.

use std::fmt::Write;

use crate::ir::Module;

/// All that does not depend on the kernels.
const COMMON: &str = include_str!("device.ll");

/// The device module for a module of kernels.
pub(crate) fn module(kernels: &Module) -> String {
    let mut text = format!("{}\n{}\n\n{COMMON}", kernels.data_layout, kernels.triple);
    loads_and_stores(&mut text);
    read_modify_writes(&mut text);
    shared_arrays(&mut text, kernels);
    text
}

/// Whether the device module defines `symbol` for any module of kernels.
pub(crate) fn defines(symbol: &str) -> bool {
    let mut text = COMMON.to_owned();
    loads_and_stores(&mut text);
    read_modify_writes(&mut text);
    text.contains(&format!("@{symbol}("))
}

fn loads_and_stores(text: &mut String) {
    text.push_str("\n; --- atomic loads and stores at device scope\n\n");
    for (bits, bytes) in [(32, 4), (64, 8)] {
        for (name, ordering) in [("relaxed", "monotonic"), ("acquire", "acquire")] {
            writeln!(
                text,
                "define i{bits} @__cuda_std_atomic_load_{name}_{bits}_device(ptr %p) alwaysinline nounwind {{\n  \
                 %r = load atomic i{bits}, ptr %p syncscope(\"device\") {ordering}, align {bytes}\n  ret i{bits} %r\n}}"
            )
            .expect("a string takes all");
        }
        for (name, ordering) in [("relaxed", "monotonic"), ("release", "release")] {
            writeln!(
                text,
                "define void @__cuda_std_atomic_store_{name}_{bits}_device(ptr %p, i{bits} %v) alwaysinline nounwind {{\n  \
                 store atomic i{bits} %v, ptr %p syncscope(\"device\") {ordering}, align {bytes}\n  ret void\n}}"
            )
            .expect("a string takes all");
        }
    }
}

fn read_modify_writes(text: &mut String) {
    text.push_str("\n; --- relaxed read-modify-write\n\n");
    for (name, op) in [("add", "add"), ("and", "and"), ("or", "or"), ("xor", "xor"), ("min", "umin"), ("max", "umax"), ("exch", "xchg")] {
        for bits in [32, 64] {
            for scope in ["device", "block"] {
                writeln!(
                    text,
                    "define i{bits} @__cuda_std_atomic_{name}_u{bits}_{scope}(ptr %p, i{bits} %v) alwaysinline nounwind {{\n  \
                     %r = atomicrmw {op} ptr %p, i{bits} %v syncscope(\"{scope}\") monotonic\n  ret i{bits} %r\n}}"
                )
                .expect("a string takes all");
            }
            // The cast says that the address lies in shared memory, whatever the pointer went through.
            writeln!(
                text,
                "define i{bits} @__cuda_std_atomic_{name}_u{bits}_shared(ptr %p, i{bits} %v) alwaysinline nounwind {{\n  \
                 %q = addrspacecast ptr %p to ptr addrspace(3)\n  \
                 %r = atomicrmw {op} ptr addrspace(3) %q, i{bits} %v syncscope(\"block\") monotonic\n  ret i{bits} %r\n}}"
            )
            .expect("a string takes all");
        }
    }
}

fn shared_arrays(text: &mut String, kernels: &Module) {
    text.push_str("\n; --- static shared memory\n\n");
    for array in &kernels.shared {
        let (symbol, bytes, align) = (&array.symbol, array.bytes, array.align);
        let name = symbol.trim_start_matches("__cuda_std_");
        writeln!(
            text,
            "@{name} = internal addrspace(3) global [{bytes} x i8] undef, align {align}\n\
             define ptr @{symbol}(i64 %bytes, i64 %align) alwaysinline nounwind {{\n  \
             ret ptr addrspacecast (ptr addrspace(3) @{name} to ptr)\n}}"
        )
        .expect("a string takes all");
    }
}
