//! Vector instructions chosen at run time.

/// Defines functions whose bodies are compiled twice, for the target and with AVX2 and FMA, and which run the second where the
/// processor has both. The bits are the same either way: without FMA instructions `mul_add` is a slow but exact library call. (A
/// closure would not do: it is too large to be inlined into two callers.)
macro_rules! simd {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$type:ident: Real $(, const $constant:ident: usize)*>($($arg:ident: $arg_type:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the body's captures")]
        $vis fn $name<$type: bmgard_core::Real $(, const $constant: usize)*>($($arg: $arg_type),*) {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the body's captures")]
            fn portable<$type: bmgard_core::Real $(, const $constant: usize)*>($($arg: $arg_type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments, reason = "the body's captures")]
                fn wide<$type: bmgard_core::Real $(, const $constant: usize)*>($($arg: $arg_type),*) {
                    portable::<$type $(, $constant)*>($($arg),*);
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has both features.
                    #[allow(unsafe_code, reason = "calling a function that is compiled for more instructions than the target has")]
                    return unsafe { wide::<$type $(, $constant)*>($($arg),*) };
                }
            }
            portable::<$type $(, $constant)*>($($arg),*);
        }
    )*};
}
pub(super) use simd;
