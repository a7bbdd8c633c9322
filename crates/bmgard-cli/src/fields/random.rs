//! Random numbers as a function of seed, stream and position.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, 2014) with the position as its counter: position i of a stream is the output
//! after i + 1 steps from the stream's key. No state is shared, so any thread can make any part of a field.

/// An independent sequence of random numbers.
#[derive(Clone, Copy)]
pub struct Stream(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of this number under this seed.
    pub fn new(seed: u64, number: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(STEP)) ^ number.wrapping_mul(STEP)))
    }

    /// 64 random bits.
    pub fn bits(self, position: u64) -> u64 {
        mix(self.0.wrapping_add(position.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// Uniform in [0, 1).
    pub fn uniform(self, position: u64) -> f64 {
        (self.bits(position) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal, of mean 0 and variance 1: the sum of four 16-bit numbers, so that no elementary function is involved. (Fields
    /// add up many of these, and are normal to the eye of any test.)
    pub fn normal(self, position: u64) -> f64 {
        let bits = self.bits(position);
        let sum = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum::<u64>();
        // Four uniform numbers on [0, 1] have mean 2 and variance 1/3.
        (sum as f64 / 65535.0 - 2.0) * 1.732_050_807_568_877_2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_as_published() {
        // The reference implementation's first outputs for the seed 1234567.
        let stream = Stream(1_234_567);
        assert_eq!(stream.bits(0), 6_457_827_717_110_365_317);
        assert_eq!(stream.bits(1), 3_203_168_211_198_807_973);
    }

    #[test]
    fn moments() {
        let stream = Stream::new(5, 0);
        let n = 100_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for i in 0..n {
            let x = stream.normal(i);
            sum += x;
            squares += x * x;
        }
        assert!((sum / n as f64).abs() < 0.02);
        assert!((squares / n as f64 - 1.0).abs() < 0.02);
    }
}
