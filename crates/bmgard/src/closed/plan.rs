//! How a chunk is cut into tiles, and how tiles are worked on.

use bmgard_core::closed::{CLASSES, Kind, Predictor, TILE_NODES, TileShape};

use crate::plan::Dims;

/// A class of nodes: its level and its set of odd axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) level: usize,
    pub(crate) axes: usize,
}

/// Nodes along x of the tiles that are worked on together: rows long enough for vectors, few enough for the cache.
const STRIP: usize = 256;

/// Likewise, of the tiles in a sample: the shorter, the more places it is taken from. Archives depend on it.
const SAMPLE_STRIP: usize = 64;

/// Neighbouring tiles along x that are worked on together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    /// The first tile, in the grid of tiles.
    pub(crate) tile: [usize; 3],
    /// How many tiles.
    pub(crate) count: usize,
}

/// The tiles of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Nodes of the chunk, slowest dimension first.
    pub(crate) dims: [usize; 3],
    pub(crate) shape: TileShape,
    /// The grid of tiles.
    pub(crate) tiles: [usize; 3],
    /// In the order in which they are worked on.
    pub(crate) classes: Vec<Class>,
    /// The place of each position in the concatenated streams.
    pub(crate) order: Vec<u16>,
    /// The place of each node of a full tile, in C order.
    pub(crate) place_of: Vec<u16>,
}

impl Plan {
    pub(crate) fn new(dims: Dims, shape: TileShape) -> Self {
        let dims = dims.map(|n| n as usize);
        let tiles = [0, 1, 2].map(|axis| dims[axis].div_ceil(shape.side(axis)));
        let classes: Vec<Class> = (0..shape.levels())
            .rev()
            .flat_map(|level| CLASSES.into_iter().map(move |axes| Class { level, axes }))
            .filter(|class| shape.has_class(class.level, class.axes))
            .collect();
        let mut order: Vec<u16> = (0..TILE_NODES as u16).collect();
        let mut place_of = vec![0; TILE_NODES];
        for class in &classes {
            let start = shape.class_start(class.level, class.axes);
            let [ez, ey, ex] = shape.extent_log2(class.level);
            for index in 0..1 << (ez + ey + ex) {
                if class.level < shape.pooled_from() {
                    order[start + index] = shape.place(class.level, class.axes, index) as u16;
                }
                let lattice = [index >> (ey + ex), index >> ex & ((1 << ey) - 1), index & ((1 << ex) - 1)];
                let node = [0, 1, 2].map(|axis| {
                    let odd = class.axes >> axis & 1;
                    (lattice[axis] << shape.spacing_log2(class.level, axis)) + (odd << class.level)
                });
                place_of[(node[0] * shape.side(1) + node[1]) * shape.side(2) + node[2]] = (start + index) as u16;
            }
        }
        Self { dims, shape, tiles, classes, order, place_of }
    }

    pub(crate) fn tile_count(&self) -> usize {
        self.tiles.iter().product()
    }

    /// The number of a tile in C order of the grid.
    pub(crate) fn tile_index(&self, tile: [usize; 3]) -> usize {
        (tile[0] * self.tiles[1] + tile[1]) * self.tiles[2] + tile[2]
    }

    /// The place of a tile in the grid.
    pub(super) fn tile_at(&self, index: usize) -> [usize; 3] {
        [index / (self.tiles[1] * self.tiles[2]), index / self.tiles[2] % self.tiles[1], index % self.tiles[2]]
    }

    /// The first node of a tile, and how many it owns along each axis.
    pub(super) fn tile_box(&self, tile: [usize; 3]) -> ([usize; 3], [usize; 3]) {
        let origin = [0, 1, 2].map(|axis| tile[axis] * self.shape.side(axis));
        (origin, [0, 1, 2].map(|axis| self.shape.side(axis).min(self.dims[axis] - origin[axis])))
    }

    /// The nodes that a tile owns.
    pub(super) fn tile_nodes(&self, tile: [usize; 3]) -> usize {
        self.tile_box(tile).1.iter().product()
    }

    /// All tiles in strips, in C order of the grid. What is computed does not depend on the strips' length.
    pub(super) fn strips(&self) -> Vec<Strip> {
        self.strips_of((STRIP >> self.shape.log2()[2]).max(1))
    }

    /// All tiles in the strips that samples are made of.
    pub(super) fn sample_strips(&self) -> Vec<Strip> {
        self.strips_of((SAMPLE_STRIP >> self.shape.log2()[2]).max(1))
    }

    /// All tiles in strips of so many tiles each.
    pub(super) fn strips_of(&self, count: usize) -> Vec<Strip> {
        let [tz, ty, tx] = self.tiles;
        let rows = (0..tz).flat_map(|z| (0..ty).map(move |y| (z, y)));
        let strips = rows.flat_map(|(z, y)| (0..tx).step_by(count).map(move |x| [z, y, x]));
        strips.map(|tile| Strip { tile, count: count.min(tx - tile[2]) }).collect()
    }

    /// The predictors where nothing better is known: cubic along the one odd axis, Coons interpolation where there are more.
    pub(crate) fn fixed_predictors(&self) -> Vec<Predictor> {
        let single = |axes: usize| Predictor::Axis(Kind::Cubic, axes.trailing_zeros() as usize);
        self.classes.iter().map(|class| if class.axes.is_power_of_two() { single(class.axes) } else { Predictor::Coons }).collect()
    }
}
