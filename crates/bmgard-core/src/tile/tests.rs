use std::vec;
use std::vec::Vec;

use super::*;

#[test]
fn counts_are_the_published_ones() {
    fn classes<const NZ: usize, const NY: usize>() -> [usize; 3] {
        let mut counts = [0; 3];
        for &class in &Geometry::<NZ, NY>::DETAIL_CLASS[..Geometry::<NZ, NY>::DETAILS] {
            counts[class as usize] += 1;
        }
        counts
    }
    assert_eq!(Geometry::<8, 8>::DETAILS, 387);
    assert_eq!(classes::<8, 8>(), [225, 135, 27]);
    assert_eq!(Geometry::<1, 8>::DETAILS, 39);
    assert_eq!(classes::<1, 8>(), [30, 9, 0]);
    assert_eq!(Geometry::<1, 1>::DETAILS, 3);
    for detail in 0..387 {
        let node = Geometry::<8, 8>::DETAIL_NODE[detail] as usize;
        assert_eq!(Geometry::<8, 8>::detail_index(node / 64, node / 8 % 8, node % 8), detail);
    }
}

/// Solves a dense system by elimination with pivots, right-hand sides in columns.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = a.len();
    for c in 0..n {
        let pivot = (c..n).max_by(|&i, &j| a[i][c].abs().total_cmp(&a[j][c].abs())).unwrap();
        a.swap(c, pivot);
        b.swap(c, pivot);
        for r in 0..n {
            if r != c {
                let f = a[r][c] / a[c][c];
                for k in 0..n {
                    a[r][k] -= f * a[c][k];
                }
                for k in 0..b[0].len() {
                    b[r][k] -= f * b[c][k];
                }
            }
        }
    }
    for (row, a) in b.iter_mut().zip(a.iter().enumerate()) {
        for value in row {
            *value /= a.1[a.0];
        }
    }
    b
}

fn mass(nodes: &[usize]) -> Vec<Vec<f64>> {
    let mut m = vec![vec![0.0; nodes.len()]; nodes.len()];
    for i in 0..nodes.len() - 1 {
        let h = (nodes[i + 1] - nodes[i]) as f64;
        m[i][i] += h / 3.0;
        m[i + 1][i + 1] += h / 3.0;
        m[i][i + 1] += h / 6.0;
        m[i + 1][i] += h / 6.0;
    }
    m
}

/// Linear interpolation from the coarse nodes, as an 8x5 matrix.
fn interpolation() -> Vec<Vec<f64>> {
    (0..TILE)
        .map(|i| {
            let mut row = vec![0.0; COARSE];
            if is_coarse(i) {
                row[coarse_slot(i)] = 1.0;
            } else {
                row[coarse_slot(i)] = 0.5;
                row[coarse_slot(i) + 1] = 0.5;
            }
            row
        })
        .collect()
}

#[test]
fn the_weights_are_the_l2_projection_of_a_dense_solve() {
    let all: Vec<usize> = (0..TILE).collect();
    let (fine, coarse, pi) = (mass(&all), mass(&COARSE_NODES), interpolation());
    let right: Vec<Vec<f64>> = (0..COARSE).map(|j| (0..TILE).map(|i| (0..TILE).map(|k| pi[k][j] * fine[k][i]).sum()).collect()).collect();
    for (row, expected) in solve(coarse, right).iter().zip(WEIGHTS) {
        for (a, b) in row.iter().zip(expected) {
            approx::assert_abs_diff_eq!(*a, b, epsilon = 1e-14);
        }
    }
}

/// A whole tile by rows: coefficients' symbols and corrected coarse nodes.
fn decompose<const NZ: usize, const NY: usize>(u: &[f64], q: &Quantiser<f64>, open_loop: bool) -> (Vec<i64>, Vec<f64>) {
    let geometry_pairs = Geometry::<NZ, NY>::PAIRS;
    let row = |z: usize, y: usize| Row::<f64>(core::array::from_fn(|x| u[(z * NY + y) * TILE + x]));
    let coarse_row = |pair: usize| {
        let (j, k) = (pair / Geometry::<NZ, NY>::COARSE_Y, pair % Geometry::<NZ, NY>::COARSE_Y);
        row(if NZ > 1 { COARSE_NODES[j] } else { 0 }, if NY > 1 { COARSE_NODES[k] } else { 0 })
    };
    let mut coarse = [Row::default(); MAX_PAIRS];
    for (pair, slot) in coarse.iter_mut().enumerate().take(geometry_pairs) {
        *slot = coarse_row(pair).interpolated();
    }
    let mut symbols = vec![0; Geometry::<NZ, NY>::NODES];
    let sums = decompose_columns::<_, NZ, NY>(
        row,
        &coarse,
        |_, _| [true; TILE],
        q,
        open_loop,
        |z, y, s, _| {
            symbols[(z * NY + y) * TILE..][..TILE].copy_from_slice(&s);
        },
    );
    let mut out = vec![];
    for (pair, sum) in sums.iter().enumerate().take(geometry_pairs) {
        let z = project(&sum.0);
        out.extend((0..COARSE).map(|j| coarse_row(pair).0[COARSE_NODES[j]] + z[j]));
    }
    (symbols, out)
}

#[test]
fn a_multilinear_field_has_no_details_and_exact_coarse_values() {
    let u: Vec<f64> = (0..512)
        .map(|i| {
            let (z, y, x) = ((i / 64) as f64, (i / 8 % 8) as f64, (i % 8) as f64);
            3.0 - 2.0 * x + 5.0 * y + 7.0 * z + x * y - 2.0 * y * z + 4.0 * x * z + 3.0 * x * y * z
        })
        .collect();
    let (symbols, coarse) = decompose::<8, 8>(&u, &Quantiser::new(1e-9), true);
    assert!(symbols.iter().all(|&k| k == 0));
    for (j, value) in coarse.iter().enumerate() {
        let (z, y, x) = (COARSE_NODES[j / 25], COARSE_NODES[j / 5 % 5], COARSE_NODES[j % 5]);
        assert_eq!(*value, u[(z * 8 + y) * 8 + x]);
    }
}

#[test]
fn the_corrected_coarse_nodes_are_the_l2_projection_in_three_dimensions() {
    // M-orthogonality of u - Pi(coarse) to every coarse hat function, with tensor-product mass matrices.
    let mut state = 1u64;
    let u: Vec<f64> = (0..512)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1 << 24) as f64
        })
        .collect();
    let (_, coarse) = decompose::<8, 8>(&u, &Quantiser::new(1e-12), true);
    let all: Vec<usize> = (0..TILE).collect();
    let (fine, pi) = (mass(&all), interpolation());
    let along = |v: &[f64], dims: [usize; 3], axis: usize, m: &dyn Fn(usize, usize) -> f64, rows: usize| -> (Vec<f64>, [usize; 3]) {
        let mut out_dims = dims;
        out_dims[axis] = rows;
        let mut out = vec![0.0; out_dims.iter().product()];
        for (i, slot) in out.iter_mut().enumerate() {
            let mut at = [i / (out_dims[1] * out_dims[2]), i / out_dims[2] % out_dims[1], i % out_dims[2]];
            let row = at[axis];
            for k in 0..dims[axis] {
                at[axis] = k;
                *slot += m(row, k) * v[(at[0] * dims[1] + at[1]) * dims[2] + at[2]];
            }
        }
        (out, out_dims)
    };
    let (mut interpolated, mut dims) = (coarse, [COARSE; 3]);
    for axis in 0..3 {
        (interpolated, dims) = along(&interpolated, dims, axis, &|i, j| pi[i][j], TILE);
    }
    let mut residual: Vec<f64> = u.iter().zip(&interpolated).map(|(a, b)| a - b).collect();
    for axis in 0..3 {
        (residual, dims) = along(&residual, dims, axis, &|i, j| (0..TILE).map(|k| pi[k][i] * fine[k][j]).sum(), COARSE);
    }
    assert!(residual.iter().all(|r| r.abs() < 1e-10), "{residual:?}");
}

#[test]
fn recomposition_inverts_decomposition_in_every_dimension() {
    fn check<const NZ: usize, const NY: usize>() {
        let n = Geometry::<NZ, NY>::NODES;
        let u: Vec<f64> = (0..n).map(|i| ((i * i * 7 + 3 * i) % 101) as f64 * 0.37).collect();
        let q = Quantiser::new(0.01);
        let (symbols, coarse) = decompose::<NZ, NY>(&u, &q, false);
        let detail = |z: usize, y: usize| Row::<f64>(core::array::from_fn(|x| q.value(symbols[(z * NY + y) * TILE + x])));
        let sums = correct_columns::<_, NZ, NY>(detail);
        let mut rows = [Row::default(); MAX_PAIRS];
        for pair in 0..Geometry::<NZ, NY>::PAIRS {
            let z = project(&sums[pair].0);
            for j in 0..COARSE {
                rows[pair].0[COARSE_NODES[j]] = coarse[pair * COARSE + j] - z[j];
            }
            rows[pair] = rows[pair].interpolated();
        }
        let mut decoded = vec![0.0; n];
        recompose_columns::<_, NZ, NY>(&rows, detail, |z, y, row| decoded[(z * NY + y) * TILE..][..TILE].copy_from_slice(&row.0));
        for (a, b) in u.iter().zip(&decoded) {
            // Coarse nodes are exact here: only the details' own quantisation is left.
            assert!((a - b).abs() <= 0.005 + 1e-12, "{a} {b}");
        }
    }
    check::<8, 8>();
    check::<1, 8>();
    check::<1, 1>();
}
