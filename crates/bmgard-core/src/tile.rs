//! The local level of the projection basis: tiles of 8 nodes per dimension.
//!
//! In each dimension the nodes 0, 2, 4, 6 and 7 are coarse, so a tile of 8^d nodes keeps 5^d and gives 8^d - 5^d detail coefficients
//! c = u - Pi(R u), where R picks the coarse nodes and Pi is multilinear interpolation. The coefficients are quantised to c', and the
//! coarse nodes become R u + z(c') with the correction z = Mc^-1 Pi^T M, the L2 projection of c' onto the coarse grid; it is a tensor
//! product, in each dimension the constant 5x8 matrix [`WEIGHTS`]. Recomposition is R u = coarse - z(c'), u = Pi(R u) + c'. Because
//! the correction is taken of the quantised coefficients, which the decoder has too, quantisation errors of a level reach the result
//! once, not through the correction: |error| <= step / 2 + (the greatest error of the coarse nodes).
//!
//! The work is cut into phases over *lanes*. A lane of the column phases holds one x column of the tile (all z and y); a lane of the x
//! phase holds one (z, y) pair of coarse rows. On a GPU a lane is a thread (`Lanes` = f32 or f64), on a CPU eight lanes are one
//! [`Row`]. Both run the code below, so they give the same bits. The exact order of operations is part of the archive format.

use crate::{Real, Symbol};

/// Nodes of a tile in each dimension.
pub const TILE: usize = 8;
/// Coarse nodes of a tile in each dimension.
pub const COARSE: usize = 5;
/// Which nodes they are.
pub const COARSE_NODES: [usize; COARSE] = [0, 2, 4, 6, 7];
/// The most (z, y) pairs of coarse rows that a tile has.
pub const MAX_PAIRS: usize = COARSE * COARSE;

/// Mc^-1 Pi^T M of a tile in one dimension, times 344.
const WEIGHTS_344: [[i32; TILE]; COARSE] = [
    [235, 218, -80, -58, 22, 14, -7, 0],
    [-40, 80, 246, 116, -44, -28, 14, 0],
    [11, -22, -44, 110, 240, 98, -49, 0],
    [-4, 8, 16, -40, -56, 152, 268, 0],
    [2, -4, -8, 20, 28, -76, 38, 344],
];

/// Mc^-1 Pi^T M of a tile in one dimension; both backends round the entries to the field's type.
pub const WEIGHTS: [[f64; TILE]; COARSE] = {
    let mut weights = [[0.0; TILE]; COARSE];
    let mut j = 0;
    while j < COARSE {
        let mut i = 0;
        while i < TILE {
            weights[j][i] = WEIGHTS_344[j][i] as f64 / 344.0;
            i += 1;
        }
        j += 1;
    }
    weights
};

/// Whether node `i` of a tile is coarse in its dimension.
#[inline(always)]
#[must_use]
pub const fn is_coarse(i: usize) -> bool {
    i.is_multiple_of(2) || i == TILE - 1
}

/// The position among [`COARSE_NODES`] of the greatest coarse node that is not above `i`.
#[inline(always)]
#[must_use]
pub const fn coarse_slot(i: usize) -> usize {
    if i == TILE - 1 { COARSE - 1 } else { i / 2 }
}

/// A tile's geometry: `NZ` and `NY` are 8, or 1 for the dimensions that a 2-D or 1-D field lacks.
pub struct Geometry<const NZ: usize, const NY: usize>;

impl<const NZ: usize, const NY: usize> Geometry<NZ, NY> {
    /// Dimensions.
    pub const DIMS: usize = 1 + (NY > 1) as usize + (NZ > 1) as usize;
    /// Coarse nodes along z and y.
    pub const COARSE_Z: usize = if NZ > 1 { COARSE } else { 1 };
    /// Coarse nodes along y.
    pub const COARSE_Y: usize = if NY > 1 { COARSE } else { 1 };
    /// Rows (z, y) of 8 nodes.
    pub const ROWS: usize = NZ * NY;
    /// Rows that are coarse in z and y.
    pub const PAIRS: usize = Self::COARSE_Z * Self::COARSE_Y;
    /// Nodes of the tile.
    pub const NODES: usize = Self::ROWS * TILE;
    /// Coarse nodes of the tile.
    pub const COARSE_COUNT: usize = Self::PAIRS * COARSE;
    /// Detail coefficients of the tile: 387, 39 or 3.
    pub const DETAILS: usize = Self::NODES - Self::COARSE_COUNT;

    /// Whether row (z, y) is coarse in z and y; such a row has details at x = 1, 3 and 5 only.
    #[inline(always)]
    #[must_use]
    pub const fn is_coarse_row(z: usize, y: usize) -> bool {
        (NZ == 1 || is_coarse(z)) && (NY == 1 || is_coarse(y))
    }

    /// The number of details before row z * NY + y; details are ordered as the nodes, x fastest, the coarse ones left out.
    pub const ROW_START: [u16; 65] = {
        let mut starts = [0; 65];
        let mut row = 0;
        while row < Self::ROWS {
            let count = if Self::is_coarse_row(row / NY, row % NY) { TILE - COARSE } else { TILE };
            starts[row + 1] = starts[row] + count as u16;
            row += 1;
        }
        starts
    };

    /// Per detail, in order: its node's index in the tile ((z * NY + y) * 8 + x). The first [`Self::DETAILS`] entries count.
    pub const DETAIL_NODE: [u16; 387] = {
        let mut nodes = [0; 387];
        let (mut node, mut detail) = (0, 0);
        while node < Self::NODES {
            let row = node / TILE;
            if !(Self::is_coarse_row(row / NY, row % NY) && is_coarse(node % TILE)) {
                nodes[detail] = node as u16;
                detail += 1;
            }
            node += 1;
        }
        nodes
    };

    /// Per detail, in order: its class, the number of dimensions in which its node is not coarse, less 1.
    pub const DETAIL_CLASS: [u8; 387] = {
        let mut classes = [0; 387];
        let mut detail = 0;
        while detail < Self::DETAILS {
            let node = Self::DETAIL_NODE[detail] as usize;
            let (z, y, x) = (node / TILE / NY, node / TILE % NY, node % TILE);
            let odd = (NZ > 1 && !is_coarse(z)) as u8 + (NY > 1 && !is_coarse(y)) as u8 + !is_coarse(x) as u8;
            classes[detail] = odd - 1;
            detail += 1;
        }
        classes
    };

    /// Where row (z, y)'s detail at x stands among the tile's details. The node must be a detail node.
    #[inline(always)]
    #[must_use]
    pub const fn detail_index(z: usize, y: usize, x: usize) -> usize {
        Self::ROW_START[z * NY + y] as usize + if Self::is_coarse_row(z, y) { x / 2 } else { x }
    }
}

/// The steps of one level's quantiser, as exact values of the field's type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Quantiser<T> {
    /// The step: a symbol k stands for k * step.
    pub step: T,
    /// What a coefficient is multiplied with before rounding: 1 / step, rounded.
    pub inverse: T,
}

impl<T: Real> Quantiser<T> {
    /// The quantiser for a step given in f64: the step is rounded to the field's type and kept finite, so that k * step is never NaN.
    #[must_use]
    pub fn new(step: f64) -> Self {
        let step = T::from_f64(step);
        let step = if step.is_finite() { step } else { T::MAX };
        Self { step, inverse: T::from_f64(1.0 / step.to_f64()) }
    }

    /// The symbol k of a coefficient, k = round to nearest even of c * (1 / step), and its value k * step. What is not below
    /// [`Real::SYMBOL_LIMIT`] steps, and NaN, is 0: the value check stores what that breaks.
    #[inline(always)]
    pub fn quantise(&self, coefficient: T) -> (T::Symbol, T) {
        let (symbol, rounded) = (coefficient * self.inverse).round_to_symbol();
        (symbol, rounded * self.step)
    }

    /// The symbol of a value of the coarsest array, computed in f64: those values are not differences, and may be many more steps than
    /// an f32's mantissa holds. What is not below [`Real::COARSEST_LIMIT`] steps is 0.
    #[inline(always)]
    pub fn quantise_coarsest(&self, value: T) -> T::Symbol {
        let steps = value.to_f64() * (1.0 / self.step.to_f64());
        let (symbol, _) = if Real::abs(steps) < T::COARSEST_LIMIT { steps.round_to_symbol() } else { (0, 0.0) };
        T::Symbol::from_i64(symbol)
    }

    /// The value of a symbol of the coarsest array: k * step in f64, rounded to the field's type.
    #[inline(always)]
    pub fn coarsest_value(&self, symbol: T::Symbol) -> T {
        T::from_f64(symbol.to_i64() as f64 * self.step.to_f64())
    }

    /// The value of a symbol.
    #[inline(always)]
    pub fn value(&self, symbol: T::Symbol) -> T {
        T::from_symbol(symbol) * self.step
    }
}

/// One lane (a GPU thread's value) or several that go the same way (a CPU's vector).
pub trait Lanes: Copy {
    /// A lane's type.
    type Scalar: Real;
    /// A symbol per lane.
    type Symbols: Copy;
    /// A flag per lane.
    type Mask: Copy;

    /// a + b.
    fn add(self, other: Self) -> Self;
    /// a - b.
    fn sub(self, other: Self) -> Self;
    /// a * weight.
    fn scale(self, weight: Self::Scalar) -> Self;
    /// a * weight + sum, fused.
    fn fma(self, weight: Self::Scalar, sum: Self) -> Self;
    /// (a + b) / 2.
    fn average(self, other: Self) -> Self;
    /// The lanes whose flag is set; 0 elsewhere.
    fn keep(self, mask: Self::Mask) -> Self;
    /// [`Quantiser::quantise`] of each lane.
    fn quantise(self, quantiser: &Quantiser<Self::Scalar>) -> (Self::Symbols, Self);
}

impl<T: Real> Lanes for T {
    type Scalar = T;
    type Symbols = T::Symbol;
    type Mask = bool;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self - other
    }

    #[inline(always)]
    fn scale(self, weight: T) -> Self {
        self * weight
    }

    #[inline(always)]
    fn fma(self, weight: T, sum: Self) -> Self {
        Real::fma(self, weight, sum)
    }

    #[inline(always)]
    fn average(self, other: Self) -> Self {
        (self + other) * T::HALF
    }

    #[inline(always)]
    fn keep(self, mask: bool) -> Self {
        if mask { self } else { T::ZERO }
    }

    #[inline(always)]
    fn quantise(self, quantiser: &Quantiser<T>) -> (T::Symbol, Self) {
        quantiser.quantise(self)
    }
}

/// Eight lanes, written so that a compiler vectorises them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
pub struct Row<T>(pub [T; TILE]);

impl<T: Real> Row<T> {
    /// Fills the nodes 1, 3 and 5 of a row by interpolation between its coarse nodes.
    #[inline(always)]
    #[must_use]
    pub fn interpolated(self) -> Self {
        let mut row = self.0;
        row[1] = row[0].average(row[2]);
        row[3] = row[2].average(row[4]);
        row[5] = row[4].average(row[6]);
        Self(row)
    }

    #[inline(always)]
    fn map2(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        Self(core::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<T: Real> Lanes for Row<T> {
    type Scalar = T;
    type Symbols = [T::Symbol; TILE];
    type Mask = [bool; TILE];

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.map2(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.map2(other, |a, b| a - b)
    }

    #[inline(always)]
    fn scale(self, weight: T) -> Self {
        Self(self.0.map(|a| a * weight))
    }

    #[inline(always)]
    fn fma(self, weight: T, sum: Self) -> Self {
        self.map2(sum, |a, s| a.fma(weight, s))
    }

    #[inline(always)]
    fn average(self, other: Self) -> Self {
        self.map2(other, |a, b| (a + b) * T::HALF)
    }

    #[inline(always)]
    fn keep(self, mask: [bool; TILE]) -> Self {
        Self(core::array::from_fn(|i| if mask[i] { self.0[i] } else { T::ZERO }))
    }

    #[inline(always)]
    fn quantise(self, quantiser: &Quantiser<T>) -> (Self::Symbols, Self) {
        let mut symbols = [T::Symbol::from_i64(0); TILE];
        let mut values = [T::ZERO; TILE];
        for i in 0..TILE {
            (symbols[i], values[i]) = quantiser.quantise(self.0[i]);
        }
        (symbols, Self(values))
    }
}

/// Runs the body with each of 0..$n as the constant $i, $n being at most 5 or 8. On a GPU it is unrolled, so that arrays that are
/// indexed by $i stay in registers.
macro_rules! each {
    (5, $n:expr, |$i:ident| $body:block) => {
        each!(@ $n, $i, $body, 0 1 2 3 4)
    };
    (8, $n:expr, |$i:ident| $body:block) => {
        each!(@ $n, $i, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $n:expr, $i:ident, $body:block, $($k:literal)*) => {{
        #[cfg(not(target_arch = "nvptx64"))]
        for $i in 0..$n {
            $body
        }
        #[cfg(target_arch = "nvptx64")]
        {$({
            let $i: usize = $k;
            if $i < $n $body
        })*}
    }};
}

/// Adds node `i`'s term to the sums of the coarse nodes in one dimension, in the order of the nodes: sums start at node 0, and terms
/// of weight 0 are left out.
#[inline(always)]
fn accumulate<V: Lanes>(sums: &mut [V; COARSE], node: usize, value: V) {
    each!(5, COARSE, |j| {
        let weight = V::Scalar::from_f64(WEIGHTS[j][node]);
        if node == 0 {
            sums[j] = value.scale(weight);
        } else if WEIGHTS_344[j][node] != 0 {
            sums[j] = value.fma(weight, sums[j]);
        }
    });
}

/// One dimension of the correction: from the values at 8 nodes to those at the 5 coarse ones.
#[inline(always)]
#[must_use]
pub fn project<V: Lanes>(values: &[V; TILE]) -> [V; COARSE] {
    let mut sums = [values[0]; COARSE];
    each!(8, TILE, |i| {
        accumulate(&mut sums, i, values[i]);
    });
    sums
}

/// The z and y dimensions of the correction, fed row by row in the order of y.
struct ColumnSums<V, const NZ: usize, const NY: usize>([V; MAX_PAIRS]);

impl<V: Lanes, const NZ: usize, const NY: usize> ColumnSums<V, NZ, NY> {
    /// `column`: the coefficients at (z, y) for all z.
    #[inline(always)]
    fn add(&mut self, y: usize, column: &[V; TILE]) {
        let projected = if NZ > 1 { project(column) } else { [column[0]; COARSE] };
        each!(5, Geometry::<NZ, NY>::COARSE_Z, |j| {
            if NY > 1 {
                let mut sums =
                    [self.0[j * COARSE], self.0[j * COARSE + 1], self.0[j * COARSE + 2], self.0[j * COARSE + 3], self.0[j * COARSE + 4]];
                accumulate(&mut sums, y, projected[j]);
                each!(5, COARSE, |k| {
                    self.0[j * COARSE + k] = sums[k];
                });
            } else {
                self.0[j] = projected[j];
            }
        });
    }
}

/// The interpolants of a lane's column at (z, y) for all z; `coarse` holds its coarse rows, interpolated along x, pairs in the order z, y.
#[inline(always)]
fn interpolate_column<V: Lanes, const NZ: usize, const NY: usize>(coarse: &[V; MAX_PAIRS], y: usize) -> [V; TILE] {
    let mut along_y = [coarse[0]; COARSE];
    each!(5, Geometry::<NZ, NY>::COARSE_Z, |j| {
        let pair = j * Geometry::<NZ, NY>::COARSE_Y + if NY > 1 { coarse_slot(y) } else { 0 };
        along_y[j] = if NY == 1 || is_coarse(y) { coarse[pair] } else { coarse[pair].average(coarse[pair + 1]) };
    });
    let mut column = [along_y[0]; TILE];
    each!(8, NZ, |z| {
        if NZ > 1 {
            let j = coarse_slot(z);
            column[z] = if is_coarse(z) { along_y[j] } else { along_y[j].average(along_y[j + 1]) };
        }
    });
    column
}

/// Forward column phase: coefficients, their symbols, and the z and y dimensions of the correction.
///
/// `value(z, y)` is the lane's node; `coarse` its coarse rows, interpolated along x; `live(z, y)` is unset at nodes whose coefficient is
/// taken as 0 and not coded (padding, masked values). `store(z, y, symbols, coefficients)` takes the symbols of *all* nodes (0 at coarse
/// ones), and what they were before they were quantised.
/// `open_loop` takes the correction of the exact coefficients instead of the quantised ones, as MGARD does. The result, per pair of
/// coarse rows, goes into the x phase.
#[inline(always)]
pub fn decompose_columns<V: Lanes, const NZ: usize, const NY: usize>(
    value: impl Fn(usize, usize) -> V,
    coarse: &[V; MAX_PAIRS],
    live: impl Fn(usize, usize) -> V::Mask,
    quantiser: &Quantiser<V::Scalar>,
    open_loop: bool,
    mut store: impl FnMut(usize, usize, V::Symbols, V),
) -> [V; MAX_PAIRS] {
    let mut sums = ColumnSums::<V, NZ, NY>(*coarse);
    each!(8, NY, |y| {
        let interpolants = interpolate_column::<V, NZ, NY>(coarse, y);
        let mut column = interpolants;
        // All loads first: a compiler may not move them across the stores.
        each!(8, NZ, |z| {
            column[z] = value(z, y);
        });
        each!(8, NZ, |z| {
            let coefficient = column[z].sub(interpolants[z]).keep(live(z, y));
            let (symbols, quantised) = coefficient.quantise(quantiser);
            store(z, y, symbols, coefficient);
            column[z] = if open_loop { coefficient } else { quantised };
        });
        sums.add(y, &column);
    });
    sums.0
}

/// Inverse column phase, first part: the z and y dimensions of the correction of the decoded coefficients `detail(z, y)` (0 at coarse
/// nodes).
#[inline(always)]
pub fn correct_columns<V: Lanes, const NZ: usize, const NY: usize>(detail: impl Fn(usize, usize) -> V) -> [V; MAX_PAIRS] {
    let mut sums = ColumnSums::<V, NZ, NY>([detail(0, 0); MAX_PAIRS]);
    each!(8, NY, |y| {
        let mut column = [detail(0, y); TILE];
        each!(8, NZ, |z| {
            column[z] = detail(z, y);
        });
        sums.add(y, &column);
    });
    sums.0
}

/// Inverse column phase, second part: the values from the coarse rows (uncorrected, interpolated along x) and the decoded coefficients.
#[inline(always)]
pub fn recompose_columns<V: Lanes, const NZ: usize, const NY: usize>(
    coarse: &[V; MAX_PAIRS],
    detail: impl Fn(usize, usize) -> V,
    mut store: impl FnMut(usize, usize, V),
) {
    each!(8, NY, |y| {
        let interpolants = interpolate_column::<V, NZ, NY>(coarse, y);
        let mut column = interpolants;
        each!(8, NZ, |z| {
            column[z] = interpolants[z].add(detail(z, y));
        });
        each!(8, NZ, |z| {
            store(z, y, column[z]);
        });
    });
}

#[cfg(test)]
mod tests;
