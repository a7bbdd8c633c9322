//! Packed tiles, the tiles of mode `turbo`: a field is cut into tiles of 512 nodes that know nothing of each other, and each is refined
//! from its corners, level by level.
//!
//! A tile has a power of two of nodes along each axis. At the field's end it has fewer: its last node then takes the *slot* of a full
//! tile's last one, all others keep theirs, and what has no node has no symbol. On the level of spacing s, from coarse to fine, the
//! nodes at odd multiples of s are added along z, then along y, then along x, each predicted from reconstructed nodes along that axis
//! alone ([`Stencil`]). So a node's axis is the last one along which its index is divisible by no more than s, the greatest power of two
//! that divides all its indices, those of first and last nodes left out.
//!
//! The corner with the least indices, the *anchor*, is stored as it is; the others are predicted to be like it. All residuals are
//! quantised with one step ([`crate::closed::Quantiser`]).
//!
//! Symbols have a fixed order ([`positions`]), in which 64 are a *part*, a thread's on the GPU, and 16 a *group*. All symbols of a group
//! are coded in the same number of bits: q + 2^(w-1) in w bits.

use crate::Real;

/// Nodes of a full tile.
pub const TILE_NODES: usize = 512;
/// Symbols of a part.
pub const PART: usize = 64;
/// Parts of a tile.
pub const PARTS: usize = TILE_NODES / PART;
/// Symbols of a group.
pub const GROUP: usize = 16;
/// Groups of a part: each has a nibble in the part's head.
pub const PART_GROUPS: usize = PART / GROUP;
/// The greatest width that nibbles tell as it is.
pub const NARROW: u32 = 15;

/// The sides of a tile, as binary logarithms, slowest dimension first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedShape([u8; 3]);

impl PackedShape {
    /// 4x8x16: rows are long, for memory's sake, and many fields change most along the slowest dimension.
    pub const VOLUME: Self = Self([2, 3, 4]);
    /// 16x32.
    pub const PLANE: Self = Self([0, 4, 5]);
    /// 512.
    pub const LINE: Self = Self([0, 0, 9]);

    /// The shape for a field of so many dimensions.
    #[must_use]
    pub const fn for_dimensions(d: usize) -> Self {
        match d {
            1 => Self::LINE,
            2 => Self::PLANE,
            _ => Self::VOLUME,
        }
    }

    /// The sides' binary logarithms.
    #[must_use]
    pub const fn log2(self) -> [u8; 3] {
        self.0
    }

    /// Nodes of a full tile along an axis.
    #[must_use]
    pub const fn side(self, axis: usize) -> usize {
        1 << self.0[axis]
    }

    /// The index in a full tile, in C order, of a node.
    #[must_use]
    pub const fn slot(self, node: [usize; 3]) -> usize {
        (((node[0] << self.0[1]) + node[1]) << self.0[2]) + node[2]
    }

    /// The inverse of [`PackedShape::slot`].
    #[must_use]
    pub const fn node(self, slot: usize) -> [usize; 3] {
        [slot >> (self.0[1] + self.0[2]), slot >> self.0[2] & (self.side(1) - 1), slot & (self.side(2) - 1)]
    }

    /// The binary logarithm of the spacing of the level that adds a full tile's node, and the axis; `None` for corners.
    #[must_use]
    pub const fn stage(self, node: [usize; 3]) -> Option<(u32, usize)> {
        let mut stage = None;
        let mut axis = 0;
        while axis < 3 {
            if node[axis] > 0 && node[axis] + 1 < self.side(axis) {
                let level = node[axis].trailing_zeros();
                match stage {
                    Some((least, _)) if least < level => {}
                    _ => stage = Some((level, axis)),
                }
            }
            axis += 1;
        }
        stage
    }
}

/// The slots of a stage's nodes, or of the corners in descending order, appended to a list.
const fn append(shape: PackedShape, stage: Option<(u32, usize)>, list: &mut [u16; TILE_NODES], mut len: usize) -> usize {
    let mut i = 0;
    while i < TILE_NODES {
        let slot = if stage.is_none() { TILE_NODES - 1 - i } else { i };
        let matches = match (shape.stage(shape.node(slot)), stage) {
            (None, None) => true,
            (Some((level, axis)), Some((wanted, along))) => level == wanted && axis == along,
            _ => false,
        };
        if matches {
            list[len] = slot as u16;
            len += 1;
        }
        i += 1;
    }
    len
}

/// The slots of all stages after (in the order of decoding, before) the one that comes first here, finest level first.
const fn finest_first(shape: PackedShape) -> [u16; TILE_NODES] {
    let (mut list, mut len, mut level) = ([0; TILE_NODES], 0, 0);
    while level < 9 {
        len = append(shape, Some((level, 2)), &mut list, len);
        len = append(shape, Some((level, 1)), &mut list, len);
        len = append(shape, Some((level, 0)), &mut list, len);
        level += 1;
    }
    append(shape, None, &mut list, len);
    list
}

/// The slots of a 4x8x16 tile by position.
///
/// Part l has the nodes of rows y = l that the finest level adds along x. The other symbols are spread so that groups hold symbols that
/// were predicted over the same distance: those added along y go to parts 0 to 2, a plane to each.
const fn volume_positions() -> [u16; TILE_NODES] {
    const X1: usize = 224;
    const Y1: usize = 108;
    const Z1: usize = 45;
    const X2: usize = 60;
    const Y2: usize = 30;
    const Z2: usize = 15;
    const FIRST: usize = 28;
    const REST: usize = PART - FIRST;
    let shape = PackedShape::VOLUME;
    let list = finest_first(shape);
    let (y1, z1) = (X1, X1 + Y1);
    let x2 = z1 + Z1;
    let (y2, z2) = (x2 + X2, x2 + X2 + Y2);
    let coarse = z2 + Z2;
    // Each of parts 3 to 7 has four of the symbols along x on the second level, to fill the group that the first ones leave open.
    const FILL: usize = 4;
    let mut rest = [0u16; 160];
    let mut len = 0;
    let ranges = [(x2 + 5 * FILL, x2 + X2), (y2, y2 + Y2), (z1, z1 + Z1), (z2, z2 + Z2), (coarse, TILE_NODES)];
    let mut range = 0;
    while range < ranges.len() {
        let mut i = ranges[range].0;
        while i < ranges[range].1 {
            rest[len] = list[i];
            len += 1;
            i += 1;
        }
        range += 1;
    }
    let mut positions = [0; TILE_NODES];
    let mut part = 0;
    while part < PARTS {
        let mut len = 0;
        let mut i = 0;
        while i < X1 {
            if shape.node(list[i] as usize)[1] == part {
                positions[part * PART + len] = list[i];
                len += 1;
            }
            i += 1;
        }
        i = 0;
        if part < 3 {
            while i < Y1 {
                if shape.node(list[y1 + i] as usize)[1] == 2 * part + 1 {
                    positions[part * PART + len] = list[y1 + i];
                    len += 1;
                }
                i += 1;
            }
        } else {
            while i < REST {
                let from = part - 3;
                positions[part * PART + len] = if i < FILL { list[x2 + FILL * from + i] } else { rest[(REST - FILL) * from + i - FILL] };
                len += 1;
                i += 1;
            }
        }
        part += 1;
    }
    positions
}

static VOLUME_POSITIONS: [u16; TILE_NODES] = volume_positions();
static PLANE_POSITIONS: [u16; TILE_NODES] = finest_first(PackedShape::PLANE);
static LINE_POSITIONS: [u16; TILE_NODES] = finest_first(PackedShape::LINE);

/// The slot of each position.
#[must_use]
pub fn positions(shape: PackedShape) -> &'static [u16; TILE_NODES] {
    match shape {
        PackedShape::VOLUME => &VOLUME_POSITIONS,
        PackedShape::PLANE => &PLANE_POSITIONS,
        _ => &LINE_POSITIONS,
    }
}

/// How a node is predicted along its axis, from distances to the nodes that are known there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stencil {
    /// To the node before it: the spacing of its level.
    pub before: u32,
    /// To the one after it: the same, or less if that is the last.
    pub after: u32,
    /// To the second node before it, on the finest level only: 3, or 0 where there is none.
    pub before2: u32,
    /// Likewise after it: 3, 2 or 0.
    pub after2: u32,
}

impl Stencil {
    /// For the node `index` of `count`, neither the first nor the last.
    #[inline(always)]
    #[must_use]
    pub const fn new(index: u32, count: u32) -> Self {
        let before = index & index.wrapping_neg();
        let left = count - 1 - index;
        let after = if left < before { left } else { before };
        if before > 1 {
            return Self { before, after, before2: 0, after2: 0 };
        }
        let after2 = if left < 3 { left & 2 } else { 3 };
        Self { before, after, before2: if index > 1 { 3 } else { 0 }, after2 }
    }

    /// The weights of the nodes in the order of [`Stencil::predict`]'s, for the field's type.
    #[inline(always)]
    #[must_use]
    pub fn weights<T: Real>(self) -> [T; 4] {
        let weights = match (self.before2, self.after2) {
            (0, 0) => [0.0, 0.0, f64::from(self.before) / f64::from(self.before + self.after), 0.0],
            (0, 2) => [0.0, 1.0 / 3.0, 1.0, -1.0 / 3.0],
            (0, _) => [0.0, 0.375, 0.75, -0.125],
            (_, 0) => [-0.125, 0.75, 0.375, 0.0],
            (_, 2) => [-0.05, 0.5, 0.75, -0.2],
            _ => [-0.0625, 0.5625, 0.5625, -0.0625],
        };
        weights.map(T::from_f64)
    }

    /// The prediction from the second node before, the one before, the one after, and the second after; those that the stencil lacks may
    /// be anything.
    #[inline(always)]
    #[must_use]
    pub fn predict<T: Real>(self, nodes: [T; 4], weights: [T; 4]) -> T {
        let [before2, before, after, after2] = nodes;
        match (self.before2, self.after2) {
            (0, 0) => linear(before, after, weights[2]),
            (0, _) => three(before, after, after2, [weights[1], weights[2], weights[3]]),
            (_, 0) => three(before, after, before2, [weights[1], weights[2], weights[0]]),
            _ => four(nodes, weights),
        }
    }
}

/// Between two nodes; `weight` is that of the second.
#[inline(always)]
pub fn linear<T: Real>(before: T, after: T, weight: T) -> T {
    (after - before).fma(weight, before)
}

/// From the two nearest nodes and another.
#[inline(always)]
pub fn three<T: Real>(before: T, after: T, other: T, weights: [T; 3]) -> T {
    before.fma(weights[0], after.fma(weights[1], other * weights[2]))
}

/// From two nodes before and two after.
#[inline(always)]
pub fn four<T: Real>(nodes: [T; 4], weights: [T; 4]) -> T {
    nodes[1].fma(weights[1], nodes[2].fma(weights[2], nodes[0].fma(weights[0], nodes[3] * weights[3])))
}

/// A number such that |v - r| is within the bound, computed in f64, if it is not above this number, computed in the field's type.
#[must_use]
pub fn sure_bound<T: Real>(bound: f64) -> T {
    // A difference rounded to f32 may be too small by 1 part in 2^24.
    let sure = if size_of::<T>() == 4 { bound * (1.0 - 1.0 / 4_194_304.0) } else { bound };
    let rounded = T::from_f64(sure);
    if !rounded.is_finite() {
        T::MAX
    } else if rounded.to_f64() > sure {
        // Positive numbers are ordered as their bits are.
        T::from_bits_u64(rounded.to_bits_u64() - 1)
    } else {
        rounded
    }
}

/// What is or-ed over a group's symbols to find their width.
#[inline(always)]
#[must_use]
pub const fn extent(symbol: i32) -> u32 {
    (symbol ^ (symbol >> 31)) as u32
}

/// The bits that symbols of this or-ed [`extent`] need; `any` tells whether one of them is not 0.
#[inline(always)]
#[must_use]
pub const fn width(extent: u32, any: bool) -> u32 {
    if any { 33 - extent.leading_zeros() } else { 0 }
}

/// What is added to the symbols of a group of this width.
#[inline(always)]
#[must_use]
pub const fn bias(width: u32) -> u32 {
    (1 << width) >> 1
}

/// What a tile's nibbles lack of its groups' widths, given the greatest.
#[inline(always)]
#[must_use]
pub const fn surplus(greatest: u32) -> u32 {
    greatest.saturating_sub(NARROW)
}

/// The nibble of a width.
#[inline(always)]
#[must_use]
pub const fn nibble(width: u32, surplus: u32) -> u32 {
    if width == 0 {
        0
    } else if width > surplus {
        width - surplus
    } else {
        1
    }
}

/// The width that a nibble stands for: at least the one that it was made of.
#[inline(always)]
#[must_use]
pub const fn nibble_width(nibble: u32, surplus: u32) -> u32 {
    if nibble == 0 { 0 } else { nibble + surplus }
}

/// The greatest surplus that a tile's head may have: symbols of 31 bits.
pub const MOST_SURPLUS: u32 = 31 - NARROW;

/// The head of a coded tile: which of its parts have symbols other than 0, its surplus, whether it has escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// A bit for each part.
    pub live: u32,
    /// See [`surplus`].
    pub surplus: u32,
    /// Whether escapes follow the parts.
    pub escapes: bool,
}

impl Head {
    /// As 16 bits.
    #[inline(always)]
    #[must_use]
    pub const fn to_bits(self) -> u16 {
        (self.live | self.surplus << 8 | (self.escapes as u32) << 13) as u16
    }

    /// From 16 bits; `None` where they are no head.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        let bits = bits as u32;
        let head = Self { live: bits & 0xFF, surplus: bits >> 8 & 0x1F, escapes: bits >> 13 & 1 == 1 };
        if bits >> 14 == 0 && head.surplus <= MOST_SURPLUS { Some(head) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const SHAPES: [PackedShape; 3] = [PackedShape::VOLUME, PackedShape::PLANE, PackedShape::LINE];

    #[test]
    fn every_slot_has_one_position() {
        for shape in SHAPES {
            let mut seen = [false; TILE_NODES];
            for &slot in positions(shape) {
                assert!(!std::mem::replace(&mut seen[usize::from(slot)], true));
                assert_eq!(shape.slot(shape.node(slot.into())), usize::from(slot));
            }
            assert_eq!(positions(shape)[TILE_NODES - 1], 0, "the anchor comes last");
        }
    }

    #[test]
    fn the_first_positions_of_a_part_are_a_row() {
        for (position, &slot) in VOLUME_POSITIONS.iter().enumerate() {
            let [z, y, x] = PackedShape::VOLUME.node(slot.into());
            let (part, within) = (position / PART, position % PART);
            if within < 28 {
                assert_eq!([z, y, x], [within / 7, part, 2 * (within % 7) + 1]);
            } else if part < 3 {
                let within = within - 28;
                assert_eq!([z, y, x], [within / 9, 2 * part + 1, (2 * (within % 9)).min(15)]);
            }
        }
    }

    #[test]
    fn nodes_are_predicted_from_nodes_that_come_before_them() {
        for shape in SHAPES {
            // Where a node comes in the order of decoding.
            let rank = |node: [usize; 3]| shape.stage(node).map_or((0, 0), |(level, axis)| (10 - level as usize, axis));
            for node in (0..TILE_NODES).map(|slot| shape.node(slot)) {
                let Some((_, axis)) = shape.stage(node) else { continue };
                let stencil = Stencil::new(node[axis] as u32, shape.side(axis) as u32);
                let at = |offset: i64| {
                    let mut other = node;
                    other[axis] = (node[axis] as i64 + offset) as usize;
                    other
                };
                let mut offsets = Vec::from([-i64::from(stencil.before), stencil.after.into()]);
                offsets.extend((stencil.before2 > 0).then_some(-3));
                offsets.extend((stencil.after2 > 0).then_some(i64::from(stencil.after2)));
                for offset in offsets {
                    assert!(rank(at(offset)) < rank(node), "{shape:?} {node:?} {offset}");
                }
            }
        }
    }

    #[test]
    fn polynomials_are_predicted_exactly() {
        for count in 3..=17u32 {
            for index in 1..count - 1 {
                let stencil = Stencil::new(index, count);
                let known = [stencil.before2, stencil.after2].into_iter().filter(|&distance| distance > 0).count() as i32;
                let distances = [-f64::from(stencil.before2), -f64::from(stencil.before), stencil.after.into(), stencil.after2.into()];
                for power in 0..2 + known {
                    let nodes = distances.map(|x| (x + 0.5).powi(power));
                    let error = stencil.predict(nodes, stencil.weights()) - 0.5f64.powi(power);
                    assert!(error.abs() < 1e-12, "{index} of {count}, power {power}: {error}");
                }
            }
        }
    }

    #[test]
    fn widths_hold_their_symbols() {
        for symbol in [0, 1, -1, 2, -2, 3, 7, -8, 8, 4_194_303, -4_194_303, 1_073_741_823, -1_073_741_824] {
            let width = width(extent(symbol), symbol != 0);
            assert!(width <= 31);
            let coded = symbol.wrapping_add(bias(width) as i32) as u32;
            assert!(u64::from(coded) < 1 << width, "{symbol} in {width}");
            assert!(width == 0 || symbol == -1 || u64::from(symbol.wrapping_add(bias(width - 1) as i32) as u32) >= 1 << (width - 1));
            for greatest in width..=31 {
                let surplus = surplus(greatest);
                let nibble = nibble(width, surplus);
                assert!(nibble <= NARROW && surplus <= MOST_SURPLUS && nibble_width(nibble, surplus) >= width);
            }
        }
    }

    #[test]
    fn what_is_within_the_sure_bound_is_within_the_bound() {
        for bound in [1e-3, 0.1, 1e-40, 1e30, 5e-324, f64::MAX, 1e-45, 3.7e-46] {
            let sure = f64::from(sure_bound::<f32>(bound));
            assert!(sure <= bound && (sure == f64::from(f32::MAX) || sure >= bound * 0.999_999 - 2e-45), "{bound}: {sure}");
            assert!(sure_bound::<f64>(bound) == bound);
        }
    }

    #[test]
    fn heads_come_back() {
        for head in [
            Head { live: 0, surplus: 0, escapes: true },
            Head { live: 255, surplus: 16, escapes: false },
            Head { live: 129, surplus: 3, escapes: true },
        ] {
            assert_eq!(Head::from_bits(head.to_bits()), Some(head));
        }
        assert!(Head::from_bits(1 << 14).is_none() && Head::from_bits(17 << 8).is_none());
    }
}
