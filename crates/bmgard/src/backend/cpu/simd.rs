//! Vector instructions chosen at run time.

/// Defines functions whose bodies are compiled twice, for the target and with AVX2, FMA and BMI, and which run the second where the
/// processor has them. The bits are the same either way: without FMA instructions `mul_add` is a slow but exact library call. (A
/// closure would not do: it is too large to be inlined into two callers.)
macro_rules! simd {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$type:ident: $bound:path $(, const $constant:ident: $constant_type:ty)*>(
            $($arg:ident: $arg_type:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the body's captures")]
        $vis fn $name<$type: $bound $(, const $constant: $constant_type)*>($($arg: $arg_type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the body's captures")]
            fn portable<$type: $bound $(, const $constant: $constant_type)*>($($arg: $arg_type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
                #[allow(clippy::too_many_arguments, reason = "the body's captures")]
                fn wide<$type: $bound $(, const $constant: $constant_type)*>($($arg: $arg_type),*) $(-> $result)? {
                    portable::<$type $(, $constant)*>($($arg),*)
                }
                if $crate::backend::cpu::simd::wide_enough() {
                    // SAFETY: the processor has all these features.
                    #[allow(unsafe_code, reason = "calling a function that is compiled for more instructions than the target has")]
                    return unsafe { wide::<$type $(, $constant)*>($($arg),*) };
                }
            }
            portable::<$type $(, $constant)*>($($arg),*)
        }
    )*};
}
pub(crate) use simd;

/// Whether the processor has what the second version of [`simd`]'s functions is compiled for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn wide_enough() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
}
