//! The nodes of a strip of tiles, refined level by level.

use bmgard_core::Real;
use bmgard_core::closed::predict::{self, Neighbours};
use bmgard_core::closed::{Kind, Predictor, Side};

use super::plan::{Class, Plan, Strip};
use super::rows::{self, AFTER, BEFORE, RowWeights};

/// One axis of a strip on a level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LevelAxis {
    /// Nodes that the level starts from.
    pub(super) even: usize,
    /// Nodes that it adds between them; 0 where it does not refine the axis.
    pub(super) odd: usize,
    /// The binary logarithm of the spacing of the former, and of the latter.
    pub(super) spacing: usize,
    /// The binary logarithm of the even nodes that a full tile owns.
    pub(super) extent: usize,
    refined: bool,
}

impl LevelAxis {
    pub(super) fn len(&self, odd: bool) -> usize {
        if odd { self.odd } else { self.even }
    }

    /// The neighbours of an odd node.
    fn side(&self, index: usize) -> Side {
        let (tile, index) = (index >> self.extent << self.extent, index & ((1 << self.extent) - 1));
        Side::new(index, self.extent, (self.even - 1 - tile).min(1 << self.extent))
    }

    /// Whether the last odd node has no neighbour after it.
    fn open(&self) -> bool {
        self.odd > 0 && self.odd == self.even
    }
}

/// The reconstructed values of a strip's closed box on one level: an array for each set of odd axes, 0 (the nodes that the level starts
/// from) included.
#[derive(Clone, Debug, Default)]
struct Lattice<T> {
    axes: [LevelAxis; 3],
    values: Vec<T>,
    starts: [usize; 8],
    stride: usize,
}

impl<T: Real> Lattice<T> {
    fn set(&mut self, axes: [LevelAxis; 3]) {
        self.axes = axes;
        self.stride = axes[2].even.max(axes[2].odd) + BEFORE + AFTER;
        let mut end = 0;
        for set in 0..8 {
            self.starts[set] = end;
            end += self.rows(set) * self.stride;
        }
        // What lies around rows is read with a weight of 0, so it must be finite, which all values of nodes are too.
        if self.values.len() < end {
            self.values.resize(end, T::ZERO);
        }
    }

    fn rows(&self, set: usize) -> usize {
        self.axes[0].len(set & 1 == 1) * self.axes[1].len(set & 2 == 2)
    }

    fn start(&self, set: usize, z: usize, y: usize) -> usize {
        self.starts[set] + (z * self.axes[1].len(set & 2 == 2) + y) * self.stride
    }

    /// A row with what surrounds it.
    #[inline(always)]
    fn padded(&self, set: usize, z: usize, y: usize) -> &[T] {
        &self.values[self.start(set, z, y)..][..self.stride]
    }

    #[inline(always)]
    fn row(&self, set: usize, z: usize, y: usize) -> &[T] {
        &self.padded(set, z, y)[BEFORE..]
    }

    #[inline(always)]
    fn row_mut(&mut self, set: usize, z: usize, y: usize) -> &mut [T] {
        let start = self.start(set, z, y) + BEFORE;
        let len = self.axes[2].len(set & 4 == 4);
        &mut self.values[start..][..len]
    }
}

/// The state of a strip while it is refined. It can be used for one strip after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes<T> {
    /// First node and last node of the closed box.
    pub(super) low: [usize; 3],
    high: [usize; 3],
    /// How many nodes from the low corner the strip's tiles own, along each axis.
    pub(super) owned: [usize; 3],
    now: Lattice<T>,
    before: Lattice<T>,
    weights: [RowWeights<T>; 2],
    scratch: [Vec<T>; 2],
}

/// A row of nodes of one class in the strip's box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its indices on the level.
    pub(super) z: usize,
    pub(super) y: usize,
    /// Its first node in the chunk, and the binary logarithm of the spacing of its nodes.
    pub(super) node: [usize; 3],
    pub(super) spacing: usize,
    pub(super) len: usize,
}

impl<T: Real> Nodes<T> {
    /// Starts a strip from the anchors of all tiles.
    pub(super) fn start(&mut self, plan: &Plan, strip: &Strip, anchors: &[T]) {
        let side = |axis| plan.shape.side(axis);
        self.low = [0, 1, 2].map(|axis| strip.tile[axis] * side(axis));
        self.high = [0, 1, 2].map(|axis| {
            let count = if axis == 2 { strip.count } else { 1 };
            // No node between two planes of tiles of one plane needs the next one.
            let last = self.low[axis] + if side(axis) == 1 { count - 1 } else { side(axis) * count };
            last.min(plan.dims[axis] - 1)
        });
        let count = [1, 1, strip.count];
        self.owned = [0, 1, 2].map(|axis| (side(axis) * count[axis]).min(plan.dims[axis] - self.low[axis]));
        let level = plan.shape.levels() - 1;
        self.now.set(self.axes(plan, level));
        self.set_weights();
        let [ez, ey, ex] = self.now.axes.map(|axis| axis.even);
        for (z, y) in (0..ez).flat_map(|z| (0..ey).map(move |y| (z, y))) {
            let first = plan.tile_index([strip.tile[0] + z, strip.tile[1] + y, strip.tile[2]]);
            self.now.row_mut(0, z, y).copy_from_slice(&anchors[first..][..ex]);
        }
    }

    fn axes(&self, plan: &Plan, level: usize) -> [LevelAxis; 3] {
        let extent = plan.shape.extent_log2(level);
        [0, 1, 2].map(|axis| {
            let (length, spacing) = (self.high[axis] - self.low[axis], plan.shape.spacing_log2(level, axis));
            let refined = plan.shape.refines(level, axis);
            let odd = if refined && length >> level > 0 { ((length - (1 << level)) >> (level + 1)) + 1 } else { 0 };
            LevelAxis { even: (length >> spacing) + 1, odd, spacing, extent: extent[axis], refined }
        })
    }

    /// The weights along x for the level.
    fn set_weights(&mut self) {
        let axis = self.now.axes[2];
        for (weights, kind) in self.weights.iter_mut().zip([Kind::Linear, Kind::Cubic]) {
            weights.set(kind, (0..axis.odd).map(|index| axis.side(index)));
        }
    }

    /// Goes on to the next level: its nodes to start from are all that this one has.
    pub(super) fn refine(&mut self, plan: &Plan, level: usize) {
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.set(self.axes(plan, level));
        self.set_weights();
        let [ez, ey, _] = self.now.axes.map(|axis| axis.even);
        for (z, y) in (0..ez).flat_map(|z| (0..ey).map(move |y| (z, y))) {
            merge_row(&self.before, z, y, self.now.row_mut(0, z, y));
        }
    }

    /// After the last level: copies the first values of a row of the box, counted in nodes from its low corner.
    pub(super) fn copy_row(&self, z: usize, y: usize, out: &mut [T]) {
        merge_row(&self.now, z, y, out);
    }

    /// The positions in the chunk of each row of the closed box.
    pub(super) fn box_rows(&self, plan: &Plan) -> impl Iterator<Item = std::ops::Range<usize>> + use<T> {
        let (low, high, dims) = (self.low, self.high, plan.dims);
        let rows = (low[0]..=high[0]).flat_map(move |z| (low[1]..=high[1]).map(move |y| (z * dims[1] + y) * dims[2]));
        rows.map(move |row| row + low[2]..row + high[2] + 1)
    }

    /// The rows of a class.
    pub(super) fn rows(&self, class: Class) -> impl Iterator<Item = Row> + use<T> {
        let (axes, low) = (self.now.axes, self.low);
        let odd = move |axis: usize| class.axes >> axis & 1;
        let at = move |axis: usize, index: usize| low[axis] + (index << axes[axis].spacing) + (odd(axis) << class.level);
        let len = axes[2].len(odd(2) == 1);
        let (nz, ny) = (axes[0].len(odd(0) == 1), if len > 0 { axes[1].len(odd(1) == 1) } else { 0 });
        let spacing = axes[2].spacing;
        (0..nz).flat_map(move |z| (0..ny).map(move |y| Row { z, y, node: [at(0, z), at(1, y), at(2, 0)], spacing, len }))
    }

    /// The values of a row.
    pub(super) fn row_mut(&mut self, class: Class, row: &Row) -> &mut [T] {
        self.now.row_mut(class.axes, row.z, row.y)
    }

    /// Predicts a row.
    pub(super) fn predict(&mut self, predictor: Predictor, class: Class, row: &Row, out: &mut [T]) {
        let out = &mut out[..row.len];
        let mut scratch = std::mem::take(&mut self.scratch);
        let lattice = &self.now;
        let axes = class.axes;
        match predictor {
            Predictor::Axis(kind, axis) => self.predict_along(kind, axis, axes, row, out),
            _ if self.two_sided(axes, row) == 0 => {
                // Two axes, neither of them x.
                let (z, y) = (row.z, row.y);
                out.copy_from_slice(&lattice.row(2, z, y)[..row.len]);
                rows::mean2(out, &lattice.row(1, z, y)[..row.len]);
            }
            Predictor::Mean => self.predict_mean(Kind::Cubic, axes, row, out, &mut scratch),
            Predictor::Coons if self.two_sided(axes, row) != axes => self.predict_mean(Kind::Linear, axes, row, out, &mut scratch),
            Predictor::Coons => {
                // The rows before and after along z or y, and those between two of the axes.
                let (z, y) = (row.z, row.y);
                let along_z = |set: usize| [lattice.row(set, z, y), lattice.row(set, z + 1, y)];
                let along_y = |set: usize| [lattice.row(set, z, y), lattice.row(set, z, y + 1)];
                let row = |set: usize, z: usize, y: usize| lattice.row(set, z, y);
                let four = |set: usize| [row(set, z, y), row(set, z, y + 1), row(set, z + 1, y), row(set, z + 1, y + 1)];
                let open = axes & 4 == 4 && lattice.axes[2].open();
                let inside = out.len() - usize::from(open);
                let all = &mut out[..inside];
                match axes {
                    3 => rows::coons_zy(all, along_z(2), along_y(1), four(0)),
                    5 => rows::coons_x(all, along_z(4), lattice.row(1, z, y), along_z(0)),
                    6 => rows::coons_x(all, along_y(4), lattice.row(2, z, y), along_y(0)),
                    _ => rows::coons3(all, along_z(6), along_y(5), lattice.row(3, z, y), four(4), along_z(2), along_y(1)),
                }
            }
        }
        // Predictors of several axes have another rule for a last node without a neighbour after it.
        if !matches!(predictor, Predictor::Axis(..)) && axes & 4 == 4 && lattice.axes[2].open() {
            let last = out.len() - 1;
            out[last] = self.predict_node(predictor, axes, [row.z, row.y, last]);
        }
        self.scratch = scratch;
    }

    /// The odd axes along which a row's nodes have neighbours after them, but perhaps for its last node.
    fn two_sided(&self, axes: usize, row: &Row) -> usize {
        (0..2).filter(|&axis| [row.z, row.y][axis] + 1 >= self.now.axes[axis].even).fold(axes, |axes, axis| axes & !(1 << axis))
    }

    /// The mean of the predictions along the two-sided axes.
    fn predict_mean(&self, kind: Kind, axes: usize, row: &Row, out: &mut [T], scratch: &mut [Vec<T>; 2]) {
        let two_sided = self.two_sided(axes, row);
        let mut odd = (0..3).filter(|axis| two_sided >> axis & 1 == 1);
        self.predict_along(kind, odd.next().unwrap_or(0), axes, row, out);
        let mut others = 0;
        for axis in odd {
            scratch[others].resize(out.len(), T::ZERO);
            self.predict_along(kind, axis, axes, row, &mut scratch[others]);
            others += 1;
        }
        match others {
            0 => {}
            1 => rows::mean2(out, &scratch[0]),
            _ => rows::mean3(out, &scratch[0], &scratch[1]),
        }
    }

    fn predict_along(&self, kind: Kind, axis: usize, axes: usize, row: &Row, out: &mut [T]) {
        let set = axes & !(1 << axis);
        if axis == 2 {
            return rows::along_x(out, self.now.padded(set, row.z, row.y), self.weights[kind as usize].rows());
        }
        let index = [row.z, row.y][axis];
        let side = self.now.axes[axis].side(index);
        // Where there is no neighbour, any row will do.
        let at = |near: bool, other: usize| {
            let index = if near { other } else { index };
            if axis == 0 { self.now.row(set, index, row.y) } else { self.now.row(set, row.z, index) }
        };
        let before3 = at(side.before3, index.wrapping_sub(1));
        let neighbours = [before3, at(true, index), at(side.after1, index + 1), at(side.after3, index + 2)];
        let [a, b, c, d] = side.weights(kind);
        rows::along(out, neighbours, [T::from_f64(a), T::from_f64(b), T::from_f64(c), T::from_f64(d)]);
    }

    fn predict_node(&self, predictor: Predictor, axes: usize, node: [usize; 3]) -> T {
        let value = |set: usize, node: [usize; 3]| self.now.row(set, node[0], node[1])[node[2]];
        let neighbours = [0, 1, 2].map(|axis| {
            (axes >> axis & 1 == 1).then(|| {
                let side = self.now.axes[axis].side(node[axis]);
                let near = [side.before3, true, side.after1, side.after3];
                let values = [0, 1, 2, 3].map(|i| {
                    let mut at = node;
                    if near[i] {
                        at[axis] = node[axis] + i - 1;
                        value(axes & !(1 << axis), at)
                    } else {
                        T::ZERO
                    }
                });
                Neighbours { values, side }
            })
        });
        predict::predict(predictor, &neighbours, |a, b| {
            let corner = |i: usize, j: usize| {
                let mut at = node;
                at[a] += i;
                at[b] += j;
                value(axes & !(1 << a) & !(1 << b), at)
            };
            predict::corners(corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1))
        })
    }
}

/// A row of all nodes that a level has: their indices count all of them.
fn merge_row<T: Real>(lattice: &Lattice<T>, z: usize, y: usize, out: &mut [T]) {
    let split = |axis: usize, index: usize| if lattice.axes[axis].refined { (index / 2, index % 2) } else { (index, 0) };
    let ((z, z_odd), (y, y_odd)) = (split(0, z), split(1, y));
    let set = z_odd | y_odd << 1;
    let even = lattice.row(set, z, y);
    if lattice.axes[2].odd > 0 {
        rows::interleave(out, even, lattice.row(set | 4, z, y));
    } else {
        out.copy_from_slice(&even[..out.len()]);
    }
}
