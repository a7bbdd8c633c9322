//! Vector instructions chosen at run time.
#![allow(unsafe_code, reason = "calling a function that is compiled for more instructions than the target has")]

/// Runs `f` compiled with AVX2 and FMA where the processor has them. The bits are the same either way: without FMA instructions
/// `mul_add` is a slow but exact library call.
#[inline(always)]
pub(crate) fn with_simd<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both features.
            return unsafe { wide(f) };
        }
    }
    f()
}
