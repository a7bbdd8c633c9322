//! The arithmetic that both backends share.

use core::fmt::Debug;
use core::ops::{Add, Mul, Neg, Sub};

/// An integer that holds a quantised coefficient: i32 for f32, i64 for f64.
pub trait Symbol: Copy + Debug + Default + Eq + Ord + Send + Sync + 'static {
    /// Widens.
    fn to_i64(self) -> i64;
    /// Narrows; the caller knows that it fits.
    fn from_i64(value: i64) -> Self;
    /// [`crate::token::token`] in the type's own width, and the magnitude.
    fn token(self) -> (u32, u32, u64);
    /// [`crate::token::value`] in the type's own width; what does not fit, as damaged archives may hold, is some value.
    fn from_token(token: u32, raw: u64) -> Self;
}

impl Symbol for i32 {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self)
    }

    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value as i32
    }

    #[inline(always)]
    fn token(self) -> (u32, u32, u64) {
        let magnitude = self.unsigned_abs();
        // 0 takes the way of 1, whose shifts are in range.
        let e = 31 - (magnitude | 1).leading_zeros();
        let below = e.saturating_sub(1);
        let class = 2 * e - u32::from(e > 0) + u32::from(e > 0 && magnitude >> below & 1 == 1);
        let token = 1 + 2 * class + u32::from(self < 0);
        (if magnitude == 0 { 0 } else { token }, below, u64::from(magnitude))
    }

    #[inline(always)]
    fn from_token(token: u32, raw: u64) -> Self {
        let class = token.saturating_sub(1) >> 1;
        let extra = class.saturating_sub(1) >> 1;
        let leading = if class == 0 { 1 } else { 2 | (class + 1) & 1 };
        let magnitude = (leading << (extra & 31) | raw as u32) as i32;
        let signed = if token & 1 == 0 { magnitude.wrapping_neg() } else { magnitude };
        if token == 0 { 0 } else { signed }
    }
}

impl Symbol for i64 {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self
    }

    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value
    }

    #[inline(always)]
    fn token(self) -> (u32, u32, u64) {
        let (token, extra) = crate::token::token(self);
        (token, extra, self.unsigned_abs())
    }

    #[inline(always)]
    fn from_token(token: u32, raw: u64) -> Self {
        crate::token::value(token, raw)
    }
}

/// f32 or f64, with the few operations that the numerical definition uses.
///
/// `+`, `-` and `*` are IEEE operations, each rounded on its own; a multiply-add is fused only through [`Real::fma`]. That is what
/// makes the bits of the CPU and of the GPU equal.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// The type of this type's quantised coefficients.
    type Symbol: Symbol;
    /// 0.
    const ZERO: Self;
    /// 1/2.
    const HALF: Self;
    /// The greatest finite value.
    const MAX: Self;
    /// Coefficients of at least this many steps are not coded: rounding by [`Real::round_to_symbol`] is exact below.
    const SYMBOL_LIMIT: Self;
    /// Values of the coarsest array of more than this many steps are not coded: differences of two symbols fit [`Real::Symbol`].
    const COARSEST_LIMIT: f64;

    /// self * b + c, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// Neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Rounded to nearest, ties to even.
    fn from_f64(value: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// The bit pattern, zero-extended.
    fn to_bits_u64(self) -> u64;
    /// The value with this bit pattern (its low half for f32).
    fn from_bits_u64(bits: u64) -> Self;
    /// The integer nearest to self (ties to even) and the same as a value, or zeros unless |self| < [`Real::SYMBOL_LIMIT`]
    /// (NaN included).
    fn round_to_symbol(self) -> (Self::Symbol, Self);
    /// The value of a symbol below the limit; exact.
    fn from_symbol(symbol: Self::Symbol) -> Self;

    /// 1.5 * 2^(mantissa bits): adding it leaves a number rounded to the nearest integer (ties to even) in the low bits.
    const ROUNDER: Self;
    /// Residuals of closed tiles are less than this many steps: [`Real::ROUNDER`] rounds right below, and the symbol fits an i32.
    const RESIDUAL_LIMIT: Self;
    /// The exponent field of 1.
    const EXPONENT_BIAS: u32;
    /// The symbol in a number to which [`Real::ROUNDER`] was added.
    fn rounded_symbol(self) -> i32;
    /// The value of a symbol of less than [`Real::RESIDUAL_LIMIT`]; exact.
    fn from_residual(symbol: i32) -> Self;
    /// The exponent field: 0 for 0 and subnormals.
    fn exponent_field(self) -> u32;
}

#[cfg(target_arch = "nvptx64")]
#[allow(unsafe_code, reason = "declares functions of the module that is linked in")]
mod device {
    // Defined by the LLVM module that `cuda_builder` links in: `fma.rn`.
    unsafe extern "C" {
        pub(super) safe fn __cuda_std_fma_f32(a: f32, b: f32, c: f32) -> f32;
        pub(super) safe fn __cuda_std_fma_f64(a: f64, b: f64, c: f64) -> f64;
    }
}

macro_rules! real {
    ($real:ident, $bits:ident, $symbol:ident, $device_fma:ident, $magic:expr, $limit:expr, $coarsest:expr, $residual:expr) => {
        impl Real for $real {
            type Symbol = $symbol;
            const ZERO: Self = 0.0;
            const HALF: Self = 0.5;
            const MAX: Self = $real::MAX;
            const SYMBOL_LIMIT: Self = $limit;
            const COARSEST_LIMIT: f64 = $coarsest;

            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return device::$device_fma(self, b, c);
                #[cfg(not(target_arch = "nvptx64"))]
                return self.mul_add(b, c);
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $real::from_bits(self.to_bits() & ($bits::MAX >> 1))
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $real
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn to_bits_u64(self) -> u64 {
                u64::from(self.to_bits())
            }

            #[inline(always)]
            fn from_bits_u64(bits: u64) -> Self {
                $real::from_bits(bits as $bits)
            }

            #[inline(always)]
            fn round_to_symbol(self) -> (Self::Symbol, Self) {
                // Adding 1.5 * 2^(mantissa bits) leaves the rounded integer in the low bits.
                const MAGIC: $real = $magic;
                let shifted = self + MAGIC;
                let symbol = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as $symbol;
                let inside = Real::abs(self) < Self::SYMBOL_LIMIT;
                (if inside { symbol } else { 0 }, if inside { shifted - MAGIC } else { 0.0 })
            }

            #[inline(always)]
            fn from_symbol(symbol: Self::Symbol) -> Self {
                // The inverse of the above: cheaper than a conversion on both backends, and exact.
                const MAGIC: $real = $magic;
                $real::from_bits(MAGIC.to_bits().wrapping_add(symbol as $bits)) - MAGIC
            }

            const ROUNDER: Self = $magic;
            const RESIDUAL_LIMIT: Self = $residual;
            const EXPONENT_BIAS: u32 = ($real::MAX_EXP - 1) as u32;

            #[inline(always)]
            fn rounded_symbol(self) -> i32 {
                self.to_bits().wrapping_sub(Self::ROUNDER.to_bits()) as i32
            }

            #[inline(always)]
            fn from_residual(symbol: i32) -> Self {
                $real::from_bits(Self::ROUNDER.to_bits().wrapping_add_signed(symbol.into())) - Self::ROUNDER
            }

            #[inline(always)]
            fn exponent_field(self) -> u32 {
                (self.to_bits() << 1 >> $real::MANTISSA_DIGITS) as u32
            }
        }
    };
}

real!(f32, u32, i32, __cuda_std_fma_f32, 12_582_912.0, 4_194_304.0, 1_073_741_824.0, 4_194_304.0); // 1.5 * 2^23, 2^22, 2^30, 2^22
real!(
    f64,
    u64,
    i64,
    __cuda_std_fma_f64,
    6_755_399_441_055_744.0, // 1.5 * 2^52
    1_125_899_906_842_624.0, // 2^50
    1_125_899_906_842_624.0,
    1_073_741_824.0 // 2^30
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_round_to_nearest_even_and_come_back() {
        for (x, k) in [
            (0.5f32, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (4_194_303.0, 4_194_303),
            (-4_194_303.5, -4_194_304),
            (-7.7, -8),
            (1e-30, 0),
        ] {
            assert_eq!(x.round_to_symbol(), (k, k as f32), "{x}");
            assert_eq!(f32::from_symbol(k), k as f32);
        }
        for (x, k) in [(0.5f64, 0i64), (-3.5, -4), (1e15 + 0.5, 1_000_000_000_000_000)] {
            assert_eq!(x.round_to_symbol(), (k, k as f64), "{x}");
            assert_eq!(f64::from_symbol(k), k as f64);
        }
    }

    #[test]
    fn narrow_tokens_are_the_wide_ones() {
        let edges = (0..32).flat_map(|e| (-2..=2i64).flat_map(move |d| [(1 << e) + d, -(1i64 << e) + d]));
        for value in (-3000..3000i64).chain(edges).filter(|&v| i32::try_from(v).is_ok()) {
            let (token, extra) = crate::token::token(value);
            assert_eq!((value as i32).token(), (token, extra, value.unsigned_abs()), "{value}");
            let raw = value.unsigned_abs() & ((1 << extra) - 1);
            assert_eq!((i32::from_token(token, raw), i64::from_token(token, raw)), (value as i32, value));
            assert_eq!(value.token(), (token, extra, value.unsigned_abs()));
        }
    }

    #[test]
    fn what_does_not_fit_is_zero() {
        for x in [4_194_304.0f32, -4_194_304.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(x.round_to_symbol(), (0, 0.0), "{x}");
        }
        for x in [f64::MAX, f64::NAN, f64::NEG_INFINITY, 1_125_899_906_842_624.0] {
            assert_eq!(x.round_to_symbol(), (0, 0.0), "{x}");
        }
    }
}
