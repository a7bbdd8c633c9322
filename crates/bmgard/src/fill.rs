//! Recognising the value that marks missing data.

use rayon::prelude::*;

use crate::Value;

/// Values that programs and conventions use: netCDF's default, CMIP's, and others.
const USUAL: [f64; 8] = [9.969_209_968_386_869e36, 1e20, 1e36, -9999.0, -999.0, -1e10, -1e34, -32_768.0];

/// A usual value must be so many ranges of the other values away from them, and any other so many.
const USUAL_DISTANCE: f64 = 1.0;
const OTHER_DISTANCE: f64 = 10.0;

/// The share of values that an unusual one must make up.
const LEAST_SHARE: f64 = 1e-3;

/// How many values equal a candidate, and the extremes of all others.
#[derive(Clone, Copy)]
struct Rest {
    count: u64,
    min: f64,
    max: f64,
}

impl Rest {
    const EMPTY: Self = Self { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn of<T: Value>(values: &[T], candidate: Option<f64>) -> Self {
        let blocks = values.par_chunks(1 << 16).map(|block| {
            let mut rest = Self::EMPTY;
            for x in block.iter().filter(|x| x.is_finite()).map(|x| x.to_f64()) {
                if candidate == Some(x) {
                    rest.count += 1;
                } else {
                    (rest.min, rest.max) = (rest.min.min(x), rest.max.max(x));
                }
            }
            rest
        });
        blocks.reduce(|| Self::EMPTY, |a, b| Self { count: a.count + b.count, min: a.min.min(b.min), max: a.max.max(b.max) })
    }
}

/// Finds a fill value: the least or the greatest finite value of a field, if it repeats and stands far outside of all others. (One of
/// the values that are commonly used need not be as far away, nor as frequent.) Returns it with the number of values that equal it.
///
/// ```
/// let mut values: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
/// assert_eq!(bmgard::detect_fill(&values), None);
/// values[100..200].fill(-1e10);
/// assert_eq!(bmgard::detect_fill(&values), Some((-1e10, 100)));
/// ```
#[must_use]
pub fn detect_fill<T: Value>(values: &[T]) -> Option<(T, u64)> {
    let all = Rest::of(values, None);
    let mut candidates = [all.min, all.max];
    candidates.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
    candidates.into_iter().filter(|candidate| candidate.is_finite()).find_map(|candidate| {
        let rest = Rest::of(values, Some(candidate));
        let range = rest.max - rest.min;
        let gap = if candidate > rest.max { candidate - rest.max } else { rest.min - candidate };
        let usual = USUAL.iter().any(|&usual| T::from_f64(usual).to_f64() == candidate);
        let far = if usual { gap > USUAL_DISTANCE * range } else { range > 0.0 && gap > OTHER_DISTANCE * range };
        let frequent = rest.count >= 2 && (usual || rest.count as f64 >= LEAST_SHARE * values.len() as f64);
        (far && frequent && rest.min.is_finite()).then(|| (T::from_f64(candidate), rest.count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(fill: f64, every: usize) -> Vec<f32> {
        (0..10_000).map(|i| if i % every == 3 { fill as f32 } else { (i as f32 * 0.01).sin() * 20.0 }).collect()
    }

    #[test]
    fn usual_and_distant_values_are_found() {
        for fill in USUAL.into_iter().chain([1e30, -1e6, 12345.0]) {
            let found = detect_fill(&with(fill, 7));
            assert_eq!(found, Some((fill as f32, 1429)), "{fill}");
        }
        assert_eq!(detect_fill(&with(-9999.0, 4000)), Some((-9999.0, 3)));
    }

    #[test]
    fn what_belongs_to_the_data_is_not() {
        assert_eq!(detect_fill(&with(25.0, 7)), None);
        assert_eq!(detect_fill(&with(1e30, 9000)), None, "an outlier or two");
        assert_eq!(detect_fill::<f64>(&[]), None);
        assert_eq!(detect_fill(&[1e20; 5]), None);
        assert_eq!(detect_fill(&[f64::NAN, f64::INFINITY]), None);
        // Zeros and ones.
        assert_eq!(detect_fill(&[0.0, 1.0, 1.0, 0.0, 1.0]), None);
    }
}
