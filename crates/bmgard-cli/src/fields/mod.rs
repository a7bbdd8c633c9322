//! Generated test fields.
//!
//! A field depends on its kind, shape, type and seed only, not on threads: random numbers are a function of the seed and of the
//! position (see [`random`]), sums are taken in a fixed order, and elementary functions come from one portable implementation.

mod grid;
mod random;
mod simple;
mod spectrum;

use bmgard::{Shape, Value};
use clap::ValueEnum;

/// Kinds of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Gaussian random field, spectrum k^-5/3 with a dissipation range, unit variance
    Turbulence,
    /// exp(1.5 g) of a Gaussian random field g with spectrum k^-1: positive, of large range
    Density,
    /// 2 + tanh of a perturbed layer: two plateaus and a rough interface
    Mixing,
    /// Sum of six plane waves: very smooth
    Waves,
    /// Uniform random numbers in [0, 1)
    Noise,
    /// One value everywhere
    Constant,
    /// 1 + the sum of the indices: linear in every direction (1, 2, 3, ... in one dimension)
    Ramp,
    /// Plateaus of 11 nodes a side at random heights
    Steps,
    /// Positive parts of a rough random field: mostly exact zeros
    Clouds,
    /// Waves with a continent of fill values; prints the --fill to use
    Fill,
    /// Waves sprinkled with NaN, infinities, -0, subnormals and the largest values
    Special,
    /// Random bit patterns: every kind of number and non-number
    RandomBits,
}

impl Kind {
    /// The kind's name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

/// A field and the value that marks missing data in it, where there is one.
pub struct Generated<T> {
    /// The values in C order.
    pub values: Vec<T>,
    /// The fill value.
    pub fill: Option<T>,
}

/// The element types that fields can be made of.
pub trait Element: Value + std::fmt::LowerExp + rustfft::FftNum + ndarray_npy::WritableElement {
    /// The nearest value. (`from_f64` is ambiguous: two of the traits above have one.)
    fn of(value: f64) -> Self;
}

impl Element for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }
}

impl Element for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// Makes a field.
pub fn generate<T: Element>(kind: Kind, shape: &Shape, seed: u64) -> Generated<T> {
    let dims = grid::Dims::new(shape);
    let mut fill = None;
    let values = match kind {
        Kind::Turbulence => spectrum::gaussian(&dims, 5.0 / 3.0, seed),
        Kind::Density => spectrum::density(&dims, seed),
        Kind::Mixing => spectrum::mixing(&dims, seed),
        Kind::Clouds => spectrum::clouds(&dims, seed),
        Kind::Waves => simple::waves(&dims, seed),
        Kind::Noise => simple::noise(&dims, seed),
        Kind::Constant => simple::constant(&dims),
        Kind::Ramp => simple::ramp(&dims),
        Kind::Steps => simple::steps(&dims, seed),
        Kind::Special => simple::special(&dims, seed),
        Kind::RandomBits => simple::random_bits(&dims, seed),
        Kind::Fill => {
            let (values, value) = simple::with_fill(&dims, seed);
            fill = Some(value);
            values
        }
    };
    Generated { values, fill }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits<T: Element>(kind: Kind, shape: &str, seed: u64, threads: usize) -> Vec<u64> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| generate::<T>(kind, &shape.parse().unwrap(), seed).values.iter().map(|v| v.to_bits_u64()).collect())
    }

    #[test]
    fn fields_depend_on_the_seed_and_not_on_threads() {
        for &kind in Kind::value_variants() {
            let one = bits::<f32>(kind, "13x20x17", 3, 1);
            assert_eq!(one.len(), 13 * 20 * 17);
            assert_eq!(one, bits::<f32>(kind, "13x20x17", 3, 3), "{kind:?}");
            let other = bits::<f32>(kind, "13x20x17", 4, 1);
            assert_eq!(one == other, matches!(kind, Kind::Constant | Kind::Ramp), "{kind:?}");
        }
    }

    #[test]
    fn every_shape_works() {
        for &kind in Kind::value_variants() {
            for shape in ["1", "2", "7", "1x1x1", "3x1", "16x17", "1x5x1x9", "2x3x4x5"] {
                let shape: Shape = shape.parse().unwrap();
                let field = generate::<f64>(kind, &shape, 1).values;
                assert_eq!(field.len() as u64, shape.len(), "{kind:?} {shape}");
                if !matches!(kind, Kind::Special | Kind::RandomBits) {
                    assert!(field.iter().all(|value| value.is_finite()), "{kind:?} {shape}");
                }
            }
        }
    }

    /// The bytes are what scripts and reports refer to by kind and seed: they must not change unawares.
    #[test]
    fn values_are_pinned() {
        let first = |kind| generate::<f64>(kind, &"6x7".parse().unwrap(), 1).values[..3].to_vec();
        assert_eq!(first(Kind::Ramp), [1.0, 2.0, 3.0]);
        let hash = |kind| {
            let bits = bits::<f64>(kind, "6x7", 1, 1);
            bits.iter().fold(0u64, |hash, bits| (hash ^ bits).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23))
        };
        for (kind, expected) in PINNED {
            assert_eq!(hash(kind), expected, "{kind:?}: {:#x}", hash(kind));
        }
    }

    const PINNED: [(Kind, u64); 4] = [
        (Kind::Noise, 0x735a_317e_d25b_93e4),
        (Kind::RandomBits, 0xcc6f_3ce6_eeb2_1f7f),
        (Kind::Steps, 0x4921_0c74_d121_3818),
        (Kind::Waves, 0x3f6b_1604_f2d2_4ebf),
    ];
}
