//! Shapes of fields.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// The shape of a field, slowest dimension first, 1 to 4 dimensions, each of at least 1 node.
///
/// ```
/// let shape: bmgard::Shape = "100x500x500".parse()?;
/// assert_eq!(shape.dims(), [100, 500, 500]);
/// assert_eq!(shape.len(), 25_000_000);
/// # Ok::<(), bmgard::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: Vec<u64>,
    len: u64,
}

impl Shape {
    /// The most dimensions that a field may have.
    pub const MAX_DIMS: usize = 4;

    /// Makes a shape from its dimensions, slowest first.
    ///
    /// # Errors
    /// [`Error::InvalidShape`] for no dimension or more than four, for a dimension of 0, and where the number of values exceeds 2^60.
    pub fn new(dims: &[u64]) -> Result<Self> {
        let invalid = |reason: String| Error::InvalidShape { shape: join(dims), reason };
        if dims.is_empty() || dims.len() > Self::MAX_DIMS {
            return Err(invalid(format!("a field has 1 to {} dimensions, not {}", Self::MAX_DIMS, dims.len())));
        }
        if dims.contains(&0) {
            return Err(invalid("every dimension must be at least 1".into()));
        }
        let len = dims.iter().try_fold(1u64, |len, &n| len.checked_mul(n)).filter(|&len| len <= 1 << 60);
        let len = len.ok_or_else(|| invalid("more than 2^60 values".into()))?;
        Ok(Self { dims: dims.to_vec(), len })
    }

    /// The dimensions, slowest first.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// The number of values.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a shape is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The three dimensions that the transforms see, slowest first, and how many of them count (1 to 3): dimensions of length 1 are
    /// dropped, the two slowest of four are merged, and leading ones fill up.
    #[must_use]
    pub fn effective(&self) -> ([u64; 3], usize) {
        let mut dims: Vec<u64> = self.dims.iter().copied().filter(|&n| n > 1).collect();
        if dims.len() == 4 {
            let slowest = dims.remove(0);
            dims[0] *= slowest;
        }
        let count = dims.len().max(1);
        let mut out = [1; 3];
        for (slot, &n) in out.iter_mut().rev().zip(dims.iter().rev()) {
            *slot = n;
        }
        (out, count)
    }
}

fn join(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(&self.dims))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape({self})")
    }
}

impl FromStr for Shape {
    type Err = Error;

    /// Reads `NZxNYxNX`, slowest dimension first; `X` and `,` separate as well as `x`.
    fn from_str(text: &str) -> Result<Self> {
        let dims = text.split(['x', 'X', ',']).map(|part| part.trim().parse::<u64>());
        let dims = dims.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| Error::InvalidShape {
            shape: text.into(),
            reason: "write whole numbers joined by 'x', slowest dimension first, such as 100x500x500".into(),
        })?;
        Self::new(&dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective(dims: &[u64]) -> ([u64; 3], usize) {
        Shape::new(dims).unwrap().effective()
    }

    #[test]
    fn ones_are_dropped_and_four_dimensions_merge() {
        assert_eq!(effective(&[1]), ([1, 1, 1], 1));
        assert_eq!(effective(&[1, 1, 1]), ([1, 1, 1], 1));
        assert_eq!(effective(&[513, 513, 1]), ([1, 513, 513], 2));
        assert_eq!(effective(&[7, 1, 1, 1]), ([1, 1, 7], 1));
        assert_eq!(effective(&[2, 50, 125, 125]), ([100, 125, 125], 3));
        assert_eq!(effective(&[2, 50, 1, 125]), ([2, 50, 125], 3));
    }

    #[test]
    fn bad_shapes_say_why() {
        for text in ["", "x", "3x", "3x-1", "3.5", "0", "3x0", "1x2x3x4x5", "4294967296x4294967296x4294967296"] {
            let error = text.parse::<Shape>().unwrap_err();
            assert!(matches!(error, Error::InvalidShape { .. }), "{text}: {error}");
        }
        assert_eq!("3X4,5".parse::<Shape>().unwrap().dims(), [3, 4, 5]);
    }
}
