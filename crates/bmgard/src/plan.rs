//! How a field is cut into chunks and levels: a function of shape, type and options alone.

use bmgard_core::axis;
use bmgard_core::tile::{COARSE, TILE};

use crate::{Error, Result};

/// Three dimensions, slowest first; the leading ones are 1 for 2-D and 1-D fields.
pub(crate) type Dims = [u64; 3];

/// The most levels, local and global together.
pub(crate) const MAX_LEVELS: u32 = 64;

/// The default numbers of levels of `--mode paper`.
const PAPER_LEVELS: (u32, u32) = (1, 2);

pub(crate) fn count(dims: Dims) -> u64 {
    dims.iter().product()
}

/// The chunks of a field: boxes on a regular grid, in C order, the last of each dimension shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkGrid {
    pub(crate) dims: Dims,
    pub(crate) chunk: Dims,
}

impl ChunkGrid {
    /// Slabs along the slowest dimension, a multiple of the tile, of at most `limit` values each; where 8 planes are more than that,
    /// the next dimension is cut as well. Where there is room, slabs are a multiple of `tile`, too, whose sides are powers of two.
    pub(crate) fn new(dims: Dims, limit: u64, tile: Dims) -> Self {
        let mut chunk = dims;
        for axis in 0..3 {
            if count(chunk) <= limit {
                break;
            }
            let rest: u64 = chunk.iter().enumerate().filter(|&(other, _)| other != axis).map(|(_, n)| n).product();
            let unit = if limit / rest >= tile[axis] { tile[axis].max(TILE as u64) } else { TILE as u64 };
            let thickness = (limit / rest / unit * unit).max(TILE as u64);
            let pieces = dims[axis].div_ceil(thickness);
            chunk[axis] = dims[axis].div_ceil(pieces).next_multiple_of(unit).min(dims[axis]);
        }
        Self { dims, chunk }
    }

    fn pieces(&self) -> Dims {
        [0, 1, 2].map(|axis| self.dims[axis].div_ceil(self.chunk[axis]))
    }

    pub(crate) fn len(&self) -> u64 {
        count(self.pieces())
    }

    /// The origin and the dimensions of a chunk.
    pub(crate) fn chunk_box(&self, index: u64) -> (Dims, Dims) {
        let pieces = self.pieces();
        let at = [index / (pieces[1] * pieces[2]), index / pieces[2] % pieces[1], index % pieces[2]];
        let origin = [0, 1, 2].map(|axis| at[axis] * self.chunk[axis]);
        (origin, [0, 1, 2].map(|axis| self.chunk[axis].min(self.dims[axis] - origin[axis])))
    }

    /// Whether chunks are contiguous in the field.
    pub(crate) fn contiguous(&self) -> bool {
        let cut = (0..3).rfind(|&axis| self.chunk[axis] < self.dims[axis]);
        cut.is_none_or(|cut| self.dims[..cut].iter().all(|&n| n == 1))
    }
}

/// The number of dimensions of a field that the transforms see.
pub(crate) fn dimensions(dims: Dims) -> usize {
    if dims[0] > 1 {
        3
    } else if dims[1] > 1 {
        2
    } else {
        1
    }
}

/// Numbers of local and global levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) local: u32,
    pub(crate) global: u32,
}

impl Levels {
    /// The dimensions after a local level, where it is allowed: every dimension of the field has at least 8 nodes, and nodes get fewer.
    fn after_local(dims: Dims, d: usize) -> Option<Dims> {
        let long_enough = dims[3 - d..].iter().all(|&n| n >= TILE as u64);
        let coarse = local_coarse(dims, d);
        (long_enough && count(coarse) < count(dims)).then_some(coarse)
    }

    /// The greatest valid number of local levels.
    fn max_local(mut dims: Dims, d: usize) -> u32 {
        let mut local = 0;
        while let Some(coarse) = Self::after_local(dims, d) {
            dims = coarse;
            local += 1;
        }
        local.min(MAX_LEVELS / 2)
    }

    /// The greatest valid number of global levels after `local` valid local ones.
    fn max_global(mut dims: Dims, d: usize, local: u32) -> u32 {
        for _ in 0..local {
            dims = local_coarse(dims, d);
        }
        let mut global = 0;
        while dims.iter().any(|&n| n > 2) {
            dims = dims.map(axis::coarse_len);
            global += 1;
        }
        global
    }

    /// As many of these levels as are valid for the dimensions.
    pub(crate) fn clamped(self, dims: Dims, d: usize) -> Self {
        let local = self.local.min(Self::max_local(dims, d));
        Self { local, global: self.global.min(Self::max_global(dims, d, local)) }
    }

    /// The levels for a chunk of these dimensions: the defaults clamped, explicit numbers checked.
    pub(crate) fn choose(dims: Dims, d: usize, local: Option<u32>, global: Option<u32>) -> Result<Self> {
        let shape = dims[3 - d..].iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        let max_local = Self::max_local(dims, d);
        if let Some(asked) = local.filter(|&asked| asked > max_local) {
            return Err(Error::InvalidLevels {
                reason: format!(
                    "{asked} local levels do not fit {shape}: at most {max_local} do (a level needs at least {TILE} nodes in every dimension)"
                ),
            });
        }
        let local = local.unwrap_or(PAPER_LEVELS.0.min(max_local));
        let max_global = Self::max_global(dims, d, local);
        if let Some(asked) = global.filter(|&asked| asked > max_global) {
            return Err(Error::InvalidLevels {
                reason: format!("{asked} global levels do not fit {shape} after {local} local ones: at most {max_global} do"),
            });
        }
        Ok(Self { local, global: global.unwrap_or(PAPER_LEVELS.1.min(max_global)) })
    }

    pub(crate) fn total(self) -> usize {
        (self.local + self.global) as usize
    }
}

fn tiles(dims: Dims, d: usize) -> Dims {
    [0, 1, 2].map(|axis| if axis >= 3 - d { dims[axis].div_ceil(TILE as u64) } else { 1 })
}

fn local_coarse(dims: Dims, d: usize) -> Dims {
    let tiles = tiles(dims, d);
    [0, 1, 2].map(|axis| if axis >= 3 - d { tiles[axis] * COARSE as u64 } else { 1 })
}

/// What kind of level an array goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelKind {
    Local,
    Global,
    /// The array that remains at the end, quantised as it is.
    Coarsest,
}

/// One level of a chunk: the array of `dims` nodes that it starts from, and what it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) kind: LevelKind,
    pub(crate) dims: Dims,
    /// Tiles of a local level.
    pub(crate) tiles: Dims,
    pub(crate) coarse: Dims,
    /// Places for symbols, live or not: details of all tiles, or all nodes.
    pub(crate) places: usize,
    /// Places in a segment of the coded stream.
    pub(crate) segment: usize,
}

/// Nodes in a segment of a global or coarsest level.
const SEGMENT_NODES: usize = 1024;

/// Tiles in a segment of a local level, by the number of dimensions.
const SEGMENT_TILES: [usize; 4] = [0, 256, 20, 2];

/// Details of a tile, by the number of dimensions.
pub(crate) const TILE_DETAILS: [usize; 4] = [0, 3, 39, 387];

/// At least so many segments of a level are counted for its codebooks, where there are as many.
const SAMPLED_SEGMENTS: usize = 2048;

impl Level {
    pub(crate) fn segments(&self) -> usize {
        self.places.div_ceil(self.segment)
    }

    /// Coding contexts.
    pub(crate) fn contexts(&self) -> usize {
        if self.kind == LevelKind::Coarsest { 1 } else { CLASSES }
    }

    /// Codebooks are made from every n-th segment, the first included. Odd, so that the sample does not keep to a few columns of tiles.
    pub(crate) fn sample_stride(&self) -> usize {
        (self.segments() / SAMPLED_SEGMENTS) | 1
    }

    /// How many segments that are.
    pub(crate) fn sampled_segments(&self) -> usize {
        self.segments().div_ceil(self.sample_stride())
    }
}

/// All levels of a chunk, finest first, the coarsest array last.
#[derive(Clone, Debug)]
pub(crate) struct ChunkPlan {
    pub(crate) d: usize,
    pub(crate) levels: Vec<Level>,
}

/// Coding contexts of a level: one for each number of dimensions in which a detail is not coarse.
pub(crate) const CLASSES: usize = 3;

impl ChunkPlan {
    pub(crate) fn new(dims: Dims, d: usize, levels: Levels) -> Self {
        let mut out = Vec::new();
        let mut now = dims;
        for _ in 0..levels.local {
            let (tiles, coarse) = (tiles(now, d), local_coarse(now, d));
            let places = count(tiles) as usize * TILE_DETAILS[d];
            out.push(Level { kind: LevelKind::Local, dims: now, tiles, coarse, places, segment: SEGMENT_TILES[d] * TILE_DETAILS[d] });
            now = coarse;
        }
        let node_level =
            |kind, dims: Dims, coarse| Level { kind, dims, tiles: [0; 3], coarse, places: count(dims) as usize, segment: SEGMENT_NODES };
        for _ in 0..levels.global {
            let coarse = now.map(axis::coarse_len);
            out.push(node_level(LevelKind::Global, now, coarse));
            now = coarse;
        }
        out.push(node_level(LevelKind::Coarsest, now, now));
        Self { d, levels: out }
    }

    /// The number of coding contexts: [`CLASSES`] for every level, and one for the coarsest array.
    pub(crate) fn contexts(&self) -> usize {
        (self.levels.len() - 1) * CLASSES + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coarse_after(n: u64, local: u32) -> u64 {
        let plan = ChunkPlan::new([n, n, n], 3, Levels { local, global: 0 });
        plan.levels.last().unwrap().dims[0]
    }

    #[test]
    fn local_levels_shrink_as_published() {
        assert_eq!([512, 500, 100].map(|n| coarse_after(n, 1)), [320, 315, 65]);
        assert_eq!(coarse_after(100, 2), 45);
    }

    #[test]
    fn levels_are_clamped_by_default_and_checked_when_explicit() {
        let levels = |local, global| Levels { local, global };
        assert_eq!(Levels::choose([1, 1, 4], 1, None, None).unwrap(), levels(0, 2));
        assert_eq!(Levels::choose([1, 1, 1], 1, None, None).unwrap(), levels(0, 0));
        assert_eq!(Levels::choose([64, 64, 64], 3, None, None).unwrap(), levels(1, 2));
        assert_eq!(Levels::choose([10, 384, 320], 3, Some(0), Some(0)).unwrap(), levels(0, 0));
        let error = Levels::choose([1, 7, 100], 2, Some(1), None).unwrap_err().to_string();
        assert!(error.contains("at most 0"), "{error}");
        let error = Levels::choose([1, 1, 100], 1, Some(0), Some(99)).unwrap_err().to_string();
        assert!(error.contains("at most 7"), "{error}");
        // Lengths of 9 to 16 end at 10 nodes and would go on for ever.
        assert_eq!(Levels::max_local([1, 1, 16], 1), 1);
        assert_eq!(Levels::max_local([1, 1, 10], 1), 0);
    }

    #[test]
    fn chunks_tile_the_field_and_keep_the_limit() {
        for (dims, limit) in [
            ([100, 20, 30], 1 << 40),
            ([100, 20, 30], 6000),
            ([100, 200, 300], 512),
            ([1, 1, 100_000], 512),
            ([1, 1000, 77], 5000),
            ([17, 9, 1031], 600),
            ([1 << 20, 1 << 20, 1 << 20], 1 << 29),
        ] {
            let grid = ChunkGrid::new(dims, limit, [8; 3]);
            assert!(count(grid.chunk) <= limit, "{grid:?}");
            assert!((0..3).all(|a| grid.chunk[a] == dims[a] || grid.chunk[a].is_multiple_of(8)));
            if grid.len() < 100_000 {
                let total: u64 = (0..grid.len()).map(|i| count(grid.chunk_box(i).1)).sum();
                assert_eq!(total, count(dims));
            }
            let (origin, last) = grid.chunk_box(grid.len() - 1);
            assert_eq!([0, 1, 2].map(|a| origin[a] + last[a]), dims);
        }
        assert!(ChunkGrid::new([100, 20, 30], 6000, [8; 3]).contiguous());
        assert!(!ChunkGrid::new([100, 200, 300], 512, [8; 3]).contiguous());
        assert!(ChunkGrid::new([1, 1, 100_000], 512, [8; 3]).contiguous());
    }
}
