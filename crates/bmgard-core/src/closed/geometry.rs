//! Tiles, classes, and the order of a tile's symbols.

/// Nodes of a tile.
pub const TILE_NODES: usize = 1 << TILE_LOG2;

const TILE_LOG2: u32 = 12;

/// The sets of odd axes (z = 1, y = 2, x = 4) in the order in which a level's classes are worked on.
pub const CLASSES: [usize; 7] = [1, 2, 4, 3, 5, 6, 7];

/// Symbols of the coarsest classes, which stand together: those of fewer than this many nodes in a tile. The first of their places
/// is the anchor's, whose symbol is always 0 here.
pub const POOL: usize = 64;

/// The most levels that a tile can have.
pub const MAX_LEVELS: usize = TILE_LOG2 as usize;

/// The sides of a tile, powers of two, slowest dimension first; their product is [`TILE_NODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileShape {
    log2: [u8; 3],
}

impl TileShape {
    /// 16x16x16, the default in three dimensions.
    pub const CUBE: Self = Self { log2: [4, 4, 4] };
    /// 64x64, the default in two dimensions.
    pub const SQUARE: Self = Self { log2: [0, 6, 6] };
    /// 4096, the default in one dimension.
    pub const LINE: Self = Self { log2: [0, 0, 12] };
    /// All shapes that there are.
    pub const ALL: [Self; 6] =
        [Self::CUBE, Self { log2: [2, 5, 5] }, Self { log2: [5, 2, 5] }, Self { log2: [5, 5, 2] }, Self::SQUARE, Self::LINE];

    /// The shape with these binary logarithms of the sides, if it is one of [`TileShape::ALL`].
    #[must_use]
    pub fn from_log2(log2: [u8; 3]) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.log2 == log2)
    }

    /// The binary logarithms of the sides, slowest dimension first.
    #[inline(always)]
    #[must_use]
    pub const fn log2(self) -> [u8; 3] {
        self.log2
    }

    /// The nodes along an axis.
    #[inline(always)]
    #[must_use]
    pub const fn side(self, axis: usize) -> usize {
        1 << self.log2[axis]
    }

    /// The number of levels: the spacing of the first is half the longest side, that of the last (level 0) is 1.
    #[inline(always)]
    #[must_use]
    pub const fn levels(self) -> usize {
        let [z, y, x] = self.log2;
        let longest = if z > y { z } else { y };
        (if x > longest { x } else { longest }) as usize
    }

    /// Whether a level refines an axis.
    #[inline(always)]
    #[must_use]
    pub const fn refines(self, level: usize, axis: usize) -> bool {
        self.log2[axis] as usize > level
    }

    /// Whether a class exists: its level refines all of its odd axes.
    #[inline(always)]
    #[must_use]
    pub const fn has_class(self, level: usize, class: usize) -> bool {
        let mut axis = 0;
        while axis < 3 {
            if class >> axis & 1 == 1 && !self.refines(level, axis) {
                return false;
            }
            axis += 1;
        }
        true
    }

    /// The binary logarithm of the spacing, along an axis that is not odd, of the nodes that a level starts from and adds.
    #[inline(always)]
    #[must_use]
    pub const fn spacing_log2(self, level: usize, axis: usize) -> usize {
        let side = self.log2[axis] as usize;
        if level + 1 < side { level + 1 } else { side }
    }

    /// The binary logarithms of a class's extents in a full tile: they depend on the level alone.
    #[inline(always)]
    #[must_use]
    pub const fn extent_log2(self, level: usize) -> [usize; 3] {
        let mut extent = [0; 3];
        let mut axis = 0;
        while axis < 3 {
            extent[axis] = self.log2[axis] as usize - self.spacing_log2(level, axis);
            axis += 1;
        }
        extent
    }

    /// The binary logarithm of the number of nodes of each class of a level in a full tile.
    #[inline(always)]
    #[must_use]
    pub const fn class_log2(self, level: usize) -> usize {
        let [z, y, x] = self.extent_log2(level);
        z + y + x
    }

    /// Where a class starts among the places of a tile: the anchor's place, then the classes in the order in which they are worked on,
    /// each in C order of its nodes in a full tile.
    #[inline(always)]
    #[must_use]
    pub const fn class_start(self, level: usize, class: usize) -> usize {
        // The nodes of the coarser levels are as many as those of a class of this one.
        let mut start = 1 << self.class_log2(level);
        let mut index = 0;
        while CLASSES[index] != class {
            if self.has_class(level, CLASSES[index]) {
                start += 1 << self.class_log2(level);
            }
            index += 1;
        }
        start
    }

    /// The finest level whose classes are in the pool; those of finer levels follow it one by one.
    #[inline(always)]
    #[must_use]
    pub const fn pooled_from(self) -> usize {
        let mut level = 0;
        while level < self.levels() && 1 << self.class_log2(level) >= POOL {
            level += 1;
        }
        level
    }

    /// The axis of each bit of a position among a class's symbols, lowest first, for a class of these extents. The bits of one axis ascend.
    ///
    /// Four symbols in a row are 2 nodes along each of the two fastest axes that have them, and a group is 4 rows of 8 nodes where
    /// the class is long enough: zeros come in such blocks.
    #[must_use]
    pub const fn position_axes(self, level: usize) -> [u8; TILE_LOG2 as usize] {
        let extent = self.extent_log2(level);
        let mut left = extent;
        let mut axes = [u8::MAX; TILE_LOG2 as usize];
        let mut at = 0;
        let mut axis = 3;
        while axis > 0 && at < 2 {
            axis -= 1;
            if left[axis] > 0 {
                axes[at] = axis as u8;
                left[axis] -= 1;
                at += 1;
            }
        }
        // The rest of the group, then the rest of the class, x fastest.
        let mut limit = GROUP_EXTENT;
        let mut round = 0;
        while round < 2 {
            let mut axis = 3;
            while axis > 0 {
                axis -= 1;
                while left[axis] > 0 && (round == 1 || (extent[axis] - left[axis] < limit[axis] && at < 5)) {
                    axes[at] = axis as u8;
                    left[axis] -= 1;
                    at += 1;
                }
            }
            round += 1;
            limit = [0; 3];
        }
        axes
    }

    /// The place of a position among the symbols of a class (or the pool, whose positions are places).
    #[must_use]
    pub const fn place(self, level: usize, class: usize, position: usize) -> usize {
        let axes = self.position_axes(level);
        let extent = self.extent_log2(level);
        let mut shift = [extent[1] + extent[2], extent[2], 0];
        let mut place = 0;
        let mut bit = 0;
        while bit < self.class_log2(level) {
            let axis = axes[bit] as usize;
            place |= (position >> bit & 1) << shift[axis];
            shift[axis] += 1;
            bit += 1;
        }
        self.class_start(level, class) + place
    }
}

/// Bits of a position in a group that each axis takes at most, before longer ones take more.
const GROUP_EXTENT: [usize; 3] = [1, 2, 2];

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn every_place_has_one_node_and_one_position() {
        for shape in TileShape::ALL {
            let mut nodes = vec![false; TILE_NODES];
            nodes[0] = true;
            let mut places = vec![0; TILE_NODES];
            places[0] = 1;
            let mut start = 1;
            for level in (0..shape.levels()).rev() {
                for class in CLASSES.into_iter().filter(|&class| shape.has_class(level, class)) {
                    assert_eq!(shape.class_start(level, class), start, "{shape:?} {level} {class}");
                    let [ez, ey, ex] = shape.extent_log2(level).map(|log2| 1usize << log2);
                    for (z, y, x) in (0..ez).flat_map(|z| (0..ey).flat_map(move |y| (0..ex).map(move |x| (z, y, x)))) {
                        let node = [0, 1, 2].map(|axis| {
                            let index = [z, y, x][axis] << shape.spacing_log2(level, axis);
                            index + if class >> axis & 1 == 1 { 1 << level } else { 0 }
                        });
                        let node = (node[0] * shape.side(1) + node[1]) * shape.side(2) + node[2];
                        assert!(!core::mem::replace(&mut nodes[node], true));
                    }
                    let count = 1 << shape.class_log2(level);
                    for position in 0..count {
                        places[shape.place(level, class, position)] += 1;
                    }
                    start += count;
                }
            }
            assert!(nodes.iter().all(|&seen| seen) && places.iter().all(|&count| count == 1), "{shape:?}");
            // The pool is what stands before the first class that is not in it.
            let first = shape.pooled_from() - 1;
            assert_eq!(shape.class_start(first, *CLASSES.iter().find(|&&class| shape.has_class(first, class)).unwrap()), POOL);
        }
    }
}
