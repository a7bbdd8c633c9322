//! Fields to compress: functions of a shape and a seed, the same in every run.

use bmgard::Value;

/// A pseudo-random word, a function of a seed and a position (splitmix64).
pub fn random(seed: u64, position: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xA076_1D64_78BD_642F).wrapping_add(position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Evenly spread over -1 to 1.
pub fn uniform(seed: u64, position: u64) -> f64 {
    (random(seed, position) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A number that depends on the element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Rounded to the type.
    Of(f64),
    NegativeZero,
    /// The least positive number.
    Subnormal,
    /// The greatest subnormal number, negative.
    NegativeSubnormal,
    Max,
    Min,
    Infinity,
    NegativeInfinity,
    /// Quiet, with a payload.
    Nan,
    /// Signalling, with a payload.
    SignallingNan,
    /// Negative, all payload bits set.
    NegativeNan,
}

/// All that a transform could stumble over.
pub const ODD_NUMBERS: [Number; 8] = [
    Number::Nan,
    Number::SignallingNan,
    Number::NegativeNan,
    Number::Infinity,
    Number::NegativeInfinity,
    Number::NegativeZero,
    Number::Subnormal,
    Number::NegativeSubnormal,
];

impl Number {
    pub fn of<T: Value>(self) -> T {
        let bits = |single: u32, double: u64| T::from_bits_u64(if size_of::<T>() == 4 { u64::from(single) } else { double });
        match self {
            Self::Of(value) => T::from_f64(value),
            Self::NegativeZero => bits(0x8000_0000, 0x8000_0000_0000_0000),
            Self::Subnormal => bits(1, 1),
            Self::NegativeSubnormal => bits(0x807F_FFFF, 0x800F_FFFF_FFFF_FFFF),
            Self::Max => T::MAX,
            Self::Min => -T::MAX,
            Self::Infinity => bits(0x7F80_0000, 0x7FF0_0000_0000_0000),
            Self::NegativeInfinity => bits(0xFF80_0000, 0xFFF0_0000_0000_0000),
            Self::Nan => bits(0x7FC1_2345, 0x7FF8_0000_DEAD_BEEF),
            Self::SignallingNan => bits(0x7F80_0001, 0x7FF0_0001_0000_0001),
            Self::NegativeNan => bits(0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF),
        }
    }
}

/// What a field looks like.
#[derive(Clone, Debug)]
pub enum Field {
    /// Smooth, between -2.1 and 2.1.
    Waves,
    /// Waves times a factor.
    Scaled(f64),
    /// Waves with noise of this amplitude.
    Rough(f64),
    /// Uniform noise between -1 and 1.
    Noise,
    /// From one number to the other, along C order.
    Ramp(f64, f64),
    Constant(Number),
    /// These numbers in turn, along C order.
    Cycle(Vec<Number>),
    /// Two numbers, neighbours differ in every dimension.
    Checkerboard(Number, Number),
    /// Waves with blobs of a number.
    Continents(Number),
    /// Another field with numbers at positions in C order (modulo the length).
    Planted(Box<Field>, Vec<(usize, Number)>),
    /// Waves, about one value in this many replaced.
    Spikes(u64, Number),
    /// Whatever the bits say: all scales, both signs, NaN with payloads, infinities.
    RandomBits,
    /// Finite numbers of all scales and both signs.
    AnyScale,
    /// Odd multiples of a number, so that rounding meets ties.
    OddMultiples(f64),
    /// Powers of two, the greater the rarer: a histogram with a long tail.
    LongTail,
    /// By slabs of 8 planes of the slowest dimension, in turn.
    Slabs(Vec<Field>),
}

impl Field {
    /// The values in C order.
    pub fn values<T: Value>(&self, shape: &[u64], seed: u64) -> Vec<T> {
        let len: u64 = shape.iter().product();
        (0..len).map(|position| self.value(shape, seed, position)).collect()
    }

    fn value<T: Value>(&self, shape: &[u64], seed: u64, position: u64) -> T {
        match self {
            Self::Waves => T::from_f64(waves(shape, position)),
            Self::Scaled(factor) => T::from_f64(waves(shape, position) * factor),
            Self::Rough(amplitude) => T::from_f64(waves(shape, position) + amplitude * uniform(seed, position)),
            Self::Noise => T::from_f64(uniform(seed, position)),
            Self::Ramp(from, to) => {
                let last = shape.iter().product::<u64>().saturating_sub(1).max(1);
                T::from_f64(from + (to - from) * (position as f64 / last as f64))
            }
            Self::Constant(number) => number.of(),
            Self::Cycle(numbers) => numbers[(position % numbers.len() as u64) as usize].of(),
            Self::Checkerboard(even, odd) => {
                if indices(shape, position).sum::<u64>() % 2 == 0 {
                    even.of()
                } else {
                    odd.of()
                }
            }
            Self::Continents(number) => {
                let height = waves(shape, position) + 0.3 * uniform(seed, position / 5);
                if height > 0.5 { number.of() } else { T::from_f64(waves(shape, position)) }
            }
            Self::Planted(field, numbers) => {
                let len = shape.iter().product::<u64>();
                let planted = numbers.iter().find(|(at, _)| *at as u64 % len == position);
                planted.map_or_else(|| field.value(shape, seed, position), |(_, number)| number.of())
            }
            Self::Spikes(every, number) => {
                if random(seed, position).is_multiple_of(*every) {
                    number.of()
                } else {
                    T::from_f64(waves(shape, position))
                }
            }
            Self::RandomBits => T::from_bits_u64(random(seed, position)),
            Self::AnyScale => {
                let bits = random(seed, position);
                let value = T::from_bits_u64(bits);
                if value.is_finite() { value } else { T::from_f64(uniform(seed, position)) }
            }
            Self::OddMultiples(step) => T::from_f64((2.0 * (random(seed, position) % 201) as f64 - 201.0) * step),
            Self::LongTail => {
                let bits = random(seed, position);
                let magnitude = f64::from(2u32).powi(bits.trailing_zeros().min(40) as i32);
                T::from_f64(if bits >> 63 == 1 { -magnitude } else { magnitude })
            }
            Self::Slabs(fields) => {
                let slab = indices(shape, position).next().unwrap_or(0) / 8;
                fields[(slab % fields.len() as u64) as usize].value(shape, seed, position)
            }
        }
    }
}

/// A node's index in each dimension, slowest first.
fn indices(shape: &[u64], position: u64) -> impl Iterator<Item = u64> + '_ {
    (0..shape.len()).map(move |axis| position / shape[axis + 1..].iter().product::<u64>() % shape[axis])
}

fn waves(shape: &[u64], position: u64) -> f64 {
    let (mut phase, mut product) = (0.3, 1.0);
    for (axis, index) in indices(shape, position).enumerate() {
        let t = index as f64 / 16.0;
        phase += t * (1.0 + 0.37 * axis as f64);
        product *= (0.7 * t + axis as f64).cos();
    }
    phase.sin() + 0.5 * (2.7 * phase).cos() + 0.6 * product
}
