//! Fields that need no transform.

use rustfft::num_complex::Complex;

use super::Element;
use super::grid::Dims;
use super::random::Stream;

const WAVES: usize = 6;

/// A function that sums plane waves, evaluated row by row.
struct PlaneWaves {
    /// Per dimension, wave and index: exp(i k x), amplitude and phase in the slowest.
    tables: [Vec<[Complex<f64>; WAVES]>; 4],
}

impl PlaneWaves {
    fn new(dims: &Dims, seed: u64, stream: u64) -> Self {
        let random = Stream::new(seed, stream);
        let longest = *dims.all.iter().max().unwrap_or(&1) as f64;
        let table = |dim: usize| {
            (0..dims.all[dim])
                .map(|index| {
                    std::array::from_fn(|wave| {
                        // Up to `wave + 1` periods over the longest dimension, in a random direction.
                        let direction = 2.0 * random.uniform((4 * wave + dim) as u64) - 1.0;
                        let k = std::f64::consts::TAU * direction * (wave + 1) as f64 / longest;
                        let (sin, cos) = libm::sincos(k * index as f64);
                        let value = Complex::new(cos, sin);
                        if dim > 0 {
                            return value;
                        }
                        let (sin, cos) = libm::sincos(std::f64::consts::TAU * random.uniform(1000 + wave as u64));
                        value * Complex::new(cos, sin) * (0.5 / (wave + 1) as f64)
                    })
                })
                .collect()
        };
        Self { tables: [table(0), table(1), table(2), table(3)] }
    }

    /// The values of a row, one after the other.
    fn row(&self, [a, b, c]: [usize; 3]) -> impl Iterator<Item = f64> + '_ {
        let factors: [Complex<f64>; WAVES] =
            std::array::from_fn(|wave| self.tables[0][a][wave] * self.tables[1][b][wave] * self.tables[2][c][wave]);
        self.tables[3].iter().map(move |table| factors.iter().zip(table).map(|(f, t)| f.re * t.re - f.im * t.im).sum())
    }
}

fn zeroed<T: Element>(dims: &Dims) -> Vec<T> {
    bytemuck::allocation::zeroed_vec(dims.len())
}

/// Fills a field position by position.
fn by_position<T: Element>(dims: &Dims, value: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let mut values = zeroed(dims);
    dims.rows(&mut values, |number, row| {
        let start = number * dims.row();
        for (slot, position) in row.iter_mut().zip(start..) {
            *slot = value(position as u64);
        }
    });
    values
}

/// Uniform random numbers.
pub fn noise<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let random = Stream::new(seed, 0);
    by_position(dims, |position| T::of(random.uniform(position)))
}

/// Random bit patterns.
pub fn random_bits<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let random = Stream::new(seed, 0);
    by_position(dims, |position| T::from_bits_u64(random.bits(position) >> (64 - 8 * size_of::<T>())))
}

/// One value.
pub fn constant<T: Element>(dims: &Dims) -> Vec<T> {
    vec![T::of(42.125); dims.len()]
}

/// 1 + the sum of the indices.
pub fn ramp<T: Element>(dims: &Dims) -> Vec<T> {
    let mut values = zeroed(dims);
    dims.rows(&mut values, |number, row| {
        let start = 1 + dims.of_row(number).iter().sum::<usize>();
        for (slot, value) in row.iter_mut().zip(start..) {
            *slot = T::of(value as f64);
        }
    });
    values
}

/// Plateaus whose side is no multiple of any tile's.
pub fn steps<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    const SIDE: usize = 11;
    let random = Stream::new(seed, 0);
    let mut values = zeroed(dims);
    dims.rows(&mut values, |number, row| {
        let outer = dims.of_row(number).iter().fold(0, |key, &index| key << 16 | (index / SIDE) as u64);
        for (index, slot) in row.iter_mut().enumerate() {
            let height = Stream::new(random.bits(outer), 1).uniform((index / SIDE) as u64);
            *slot = T::of((height * 16.0).floor());
        }
    });
    values
}

/// Plane waves.
pub fn waves<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let waves = PlaneWaves::new(dims, seed, 0);
    let mut values = zeroed(dims);
    dims.rows(&mut values, |number, row| {
        for (slot, value) in row.iter_mut().zip(waves.row(dims.of_row(number))) {
            *slot = T::of(value);
        }
    });
    values
}

/// Waves like a sea's temperature, with a continent of NetCDF's fill value for floats.
pub fn with_fill<T: Element>(dims: &Dims, seed: u64) -> (Vec<T>, T) {
    let fill = T::of(9.969_21e36);
    let (sea, land) = (PlaneWaves::new(dims, seed, 0), PlaneWaves::new(dims, seed, 1));
    let mut values = zeroed(dims);
    dims.rows(&mut values, |number, row| {
        let at = dims.of_row(number);
        for ((slot, sea), land) in row.iter_mut().zip(sea.row(at)).zip(land.row(at)) {
            *slot = if land > 0.3 { fill } else { T::of(15.0 + 10.0 * sea) };
        }
    });
    (values, fill)
}

/// Waves in which one value in 64 is something that breaks careless arithmetic.
pub fn special<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let random = Stream::new(seed, 2);
    let size = 8 * size_of::<T>() as u32;
    let exponent = T::of(f64::INFINITY).to_bits_u64();
    let mantissa_bits = if size == 32 { 23 } else { 52 };
    let mut values: Vec<T> = waves(dims, seed);
    dims.rows(&mut values, |number, row| {
        for (slot, position) in row.iter_mut().zip((number * dims.row()) as u64..) {
            let bits = random.bits(position);
            if !bits.is_multiple_of(64) {
                continue;
            }
            let sign = (bits >> 16 & 1) << (size - 1);
            let payload = bits >> 32 & ((1 << (mantissa_bits - 2)) - 1);
            *slot = match bits >> 8 & 7 {
                0 => T::from_bits_u64(sign | exponent | 1 << (mantissa_bits - 1) | payload),
                1 => T::from_bits_u64(sign | exponent | 1 | payload),
                2 | 3 => T::from_bits_u64(sign | exponent),
                4 => T::from_bits_u64(sign),
                5 => T::from_bits_u64(sign | payload | 1),
                6 => T::from_bits_u64(sign | (exponent - 1)),
                _ => T::from_bits_u64(sign | 1 << mantissa_bits),
            };
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(shape: &str) -> Dims {
        Dims::new(&shape.parse().unwrap())
    }

    #[test]
    fn special_has_everything() {
        let values: Vec<f32> = special(&dims("64x64x64"), 1);
        assert!(values.iter().any(|v| v.is_nan()));
        for wanted in [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE] {
            assert!(values.contains(&wanted), "{wanted}");
        }
        assert!(values.iter().any(|v| v.to_bits() == 1 << 31));
        assert!(values.iter().any(|v| v.is_subnormal()));
        let ordinary = values.iter().filter(|v| v.is_normal() && v.abs() < 10.0 && v.abs() > 1e-6).count();
        assert!(ordinary > values.len() * 9 / 10);
    }

    #[test]
    fn ramps_are_linear() {
        assert_eq!(ramp::<f32>(&dims("2x3")), [1.0, 2.0, 3.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn the_continent_is_part_of_the_field() {
        let (values, fill) = with_fill::<f32>(&dims("4x90x180"), 0);
        assert_eq!(format!("{fill:e}"), "9.96921e36");
        let land = values.iter().filter(|&&value| value == fill).count();
        assert!(land > values.len() / 20 && land < values.len() * 19 / 20, "{land} of {}", values.len());
    }
}
