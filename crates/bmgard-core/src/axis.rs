//! One dimension of a global level: which nodes are coarse, and the mass and projection coefficients.

/// The length after coarsening: the even nodes, and the last one where the length is even. Lengths up to 2 do not coarsen.
#[inline(always)]
#[must_use]
pub const fn coarse_len(n: u64) -> u64 {
    if n <= 2 { n } else { n / 2 + 1 }
}

/// Whether node `i` of `n` stays on the coarse grid.
#[inline(always)]
#[must_use]
pub const fn is_coarse(i: u64, n: u64) -> bool {
    n <= 2 || i.is_multiple_of(2) || i == n - 1
}

/// The fine index of coarse node `j` of a dimension of `n` nodes.
#[inline(always)]
#[must_use]
pub const fn fine_index(j: u64, n: u64) -> u64 {
    if n <= 2 {
        j
    } else if 2 * j < n {
        2 * j
    } else {
        n - 1
    }
}

/// The row of Pi^T M that belongs to coarse node `j`: its weights at the fine nodes f-2 ..= f+2 around f = [`fine_index`], for hat
/// functions on unit spacing (M: diagonal 2/3, at the ends 1/3; off-diagonal 1/6) and Pi linear interpolation. `n` is above 2.
#[must_use]
pub fn restriction_row(j: u64, n: u64) -> [f64; 5] {
    let mass = |i: i64, k: i64| {
        let last = n as i64 - 1;
        if i < 0 || k < 0 || i > last || k > last || (i - k).abs() > 1 {
            0.0
        } else if i != k {
            1.0 / 6.0
        } else if i == 0 || i == last {
            1.0 / 3.0
        } else {
            2.0 / 3.0
        }
    };
    let f = fine_index(j, n) as i64;
    let detail = |i: i64| i >= 0 && i < n as i64 && !is_coarse(i as u64, n);
    core::array::from_fn(|offset| {
        let k = f + offset as i64 - 2;
        let mut sum = mass(f, k);
        for side in [f - 1, f + 1] {
            if detail(side) {
                sum += 0.5 * mass(side, k);
            }
        }
        sum
    })
}

/// The coarse mass matrix, diagonal entry `j` and the off-diagonal entry to `j + 1` (0 for the last), for `n` above 2: with the coarse
/// spacings H, `(H[j-1] + H[j]) / 3` and `H[j] / 6`.
#[must_use]
pub fn coarse_mass(j: u64, n: u64) -> (f64, f64) {
    let spacing = |j: u64| (fine_index(j + 1, n) - fine_index(j, n)) as f64;
    let before = if j == 0 { 0.0 } else { spacing(j - 1) };
    let after = if j + 1 == coarse_len(n) { 0.0 } else { spacing(j) };
    ((before + after) / 3.0, after / 6.0)
}

/// Coarse nodes in a block of the solve with the coarse mass matrix.
pub const SOLVE_BLOCK: u64 = 256;

/// How far a block's solve reaches beyond it on either side. What lies `n` nodes away changes a solution by a factor of about
/// (2 - sqrt 3)^n, which is 4e-28 here: far below the rounding of f64. So long dimensions are solved in parallel, and blocks stay
/// independent of each other.
pub const SOLVE_OVERLAP: u64 = 48;

/// Block `index` of a dimension with `coarse` coarse nodes: the first node kept, the end of those kept, and the first node and the end
/// of the range that is solved for them.
#[inline(always)]
#[must_use]
pub const fn solve_block(index: u64, coarse: u64) -> [u64; 4] {
    let start = index * SOLVE_BLOCK;
    let end = if start + SOLVE_BLOCK < coarse { start + SOLVE_BLOCK } else { coarse };
    let first = start.saturating_sub(SOLVE_OVERLAP);
    let last = if end + SOLVE_OVERLAP < coarse { end + SOLVE_OVERLAP } else { coarse };
    [start, end, first, last]
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn lengths_and_indices_agree() {
        for n in 3..100 {
            let coarse: Vec<u64> = (0..n).filter(|&i| is_coarse(i, n)).collect();
            assert_eq!(coarse.len() as u64, coarse_len(n));
            let indices: Vec<u64> = (0..coarse_len(n)).map(|j| fine_index(j, n)).collect();
            assert_eq!(coarse, indices);
        }
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(coarse_len), [1, 2, 2, 3, 3, 5, 5]);
    }

    #[test]
    fn an_interior_row_is_the_published_one() {
        let row = restriction_row(3, 17);
        for (a, b) in row.iter().zip([1.0 / 12.0, 0.5, 5.0 / 6.0, 0.5, 1.0 / 12.0]) {
            approx::assert_relative_eq!(*a, b, max_relative = 1e-15);
        }
    }

    #[test]
    fn rows_of_both_matrices_have_the_same_sum() {
        // Both integrate a coarse hat function: the row sums of Pi^T M and of Mc = Pi^T M Pi are its integral.
        for n in 3..40 {
            for j in 0..coarse_len(n) {
                let before = if j == 0 { 0.0 } else { coarse_mass(j - 1, n).1 };
                let (diagonal, after) = coarse_mass(j, n);
                let sum: f64 = restriction_row(j, n).iter().sum();
                approx::assert_relative_eq!(sum, before + diagonal + after, max_relative = 1e-14);
            }
        }
    }
}
