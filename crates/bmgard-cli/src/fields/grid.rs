//! Walking over fields row by row.

use bmgard::Shape;
use rayon::prelude::*;

/// The dimensions of a field as four, slowest first, leading ones filled up.
pub struct Dims {
    /// The four dimensions.
    pub all: [usize; 4],
}

impl Dims {
    /// Of a shape.
    pub fn new(shape: &Shape) -> Self {
        let mut all = [1; 4];
        for (slot, &n) in all.iter_mut().rev().zip(shape.dims().iter().rev()) {
            *slot = n as usize;
        }
        Self { all }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.all.iter().product()
    }

    /// The length of a row: the fastest dimension.
    pub fn row(&self) -> usize {
        self.all[3]
    }

    /// How many dimensions are longer than 1.
    pub fn count(&self) -> usize {
        self.all.iter().filter(|&&n| n > 1).count()
    }

    /// The indices of a row in the three slower dimensions.
    pub fn of_row(&self, row: usize) -> [usize; 3] {
        let [_, b, c, _] = self.all;
        [row / (b * c), row / c % b, row % c]
    }

    /// Fills `values` row by row, in parallel: `fill(number of the row, the row)`.
    pub fn rows<V: Send>(&self, values: &mut [V], fill: impl Fn(usize, &mut [V]) + Sync) {
        // Short rows are bundled, or the bookkeeping costs more than the values.
        let bundle = (1 << 12) / self.row() + 1;
        values.par_chunks_mut(self.row() * bundle).enumerate().for_each(|(at, rows)| {
            for (offset, row) in rows.chunks_mut(self.row()).enumerate() {
                fill(at * bundle + offset, row);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_in_order() {
        let dims = Dims::new(&"3x2x5x7".parse().unwrap());
        let mut values = vec![0; dims.len()];
        dims.rows(&mut values, |number, row| row.iter_mut().for_each(|value| *value = number));
        assert!(values.iter().enumerate().all(|(position, &value)| value == position / 7));
        assert_eq!(dims.of_row(2 * 10 + 5 + 4), [2, 1, 4]);
        assert_eq!(dims.count(), 4);
    }
}
