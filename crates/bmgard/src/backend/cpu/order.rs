//! The order of coding: which places of a segment are coded, and in which contexts.

use bmgard_core::tile::{Geometry, TILE};
use bmgard_core::{Symbol, axis};

use super::local::Live;
use crate::plan::{Level, LevelKind};
use crate::special::Mask;

/// The most places that a segment has.
pub(super) const MAX_SEGMENT: usize = 1024;

/// What is coded of a segment, in order.
#[derive(Clone, Copy)]
pub(super) enum Order<'a> {
    /// All places, with these classes.
    Whole(&'static [u8]),
    /// These places within the segment.
    Part { places: &'a [u16], classes: &'a [u8] },
}

/// Room for an order that is no constant.
pub(super) struct Room {
    places: [u16; MAX_SEGMENT],
    classes: [u8; MAX_SEGMENT],
}

impl Room {
    pub(super) fn new() -> Self {
        Self { places: [0; MAX_SEGMENT], classes: [0; MAX_SEGMENT] }
    }

    fn order(&self, count: usize) -> Order<'_> {
        Order::Part { places: &self.places[..count], classes: &self.classes[..count] }
    }
}

/// The classes of a segment's details where its tiles are whole.
struct Pattern<const NZ: usize, const NY: usize>;

impl<const NZ: usize, const NY: usize> Pattern<NZ, NY> {
    const CLASSES: [u8; MAX_SEGMENT] = {
        let mut classes = [0; MAX_SEGMENT];
        let mut place = 0;
        while place < MAX_SEGMENT {
            classes[place] = Geometry::<NZ, NY>::DETAIL_CLASS[place % Geometry::<NZ, NY>::DETAILS];
            place += 1;
        }
        classes
    };
}

impl<'a> Order<'a> {
    /// The order of a segment. Segments of whole tiles, nearly all, share a constant.
    pub(super) fn new(level: &Level, d: usize, mask: Option<&Mask>, segment: usize, room: &'a mut Room) -> Self {
        let first = segment * level.segment;
        let last = (first + level.segment).min(level.places);
        match (level.kind, d) {
            (LevelKind::Local, 3) => Self::of_tiles::<8, 8>(level, mask, first, last, room),
            (LevelKind::Local, 2) => Self::of_tiles::<1, 8>(level, mask, first, last, room),
            (LevelKind::Local, _) => Self::of_tiles::<1, 1>(level, mask, first, last, room),
            (LevelKind::Global, _) => Self::of_nodes(level, first, last, room),
            (LevelKind::Coarsest, _) => Self::Whole(&[0; MAX_SEGMENT][..last - first]),
        }
    }

    fn of_tiles<const NZ: usize, const NY: usize>(
        level: &Level,
        mask: Option<&Mask>,
        first: usize,
        last: usize,
        room: &'a mut Room,
    ) -> Self {
        let details = Geometry::<NZ, NY>::DETAILS;
        let [_, nty, ntx] = level.tiles.map(|n| n as usize);
        let dims = level.dims.map(|n| n as usize);
        let tiles = first / details..last / details;
        let live = |tile: usize| {
            let origin = [tile / (nty * ntx) * TILE, tile / ntx % nty * TILE, tile % ntx * TILE];
            Live::<NZ, NY>::new(dims, origin, mask)
        };
        if tiles.clone().all(|tile| matches!(live(tile), Live::All)) {
            return Self::Whole(&Pattern::<NZ, NY>::CLASSES[..last - first]);
        }
        let mut count = 0;
        for (tile, base) in tiles.zip((0..).step_by(details)) {
            let rows = match live(tile) {
                Live::All => [u8::MAX; TILE * TILE],
                Live::Some(rows) => rows,
            };
            for detail in 0..details {
                let node = usize::from(Geometry::<NZ, NY>::DETAIL_NODE[detail]);
                room.places[count] = (base + detail) as u16;
                room.classes[count] = Geometry::<NZ, NY>::DETAIL_CLASS[detail];
                count += usize::from(rows[node / TILE] >> (node % TILE) & 1);
            }
        }
        room.order(count)
    }

    fn of_nodes(level: &Level, first: usize, last: usize, room: &'a mut Room) -> Self {
        let [nz, ny, nx] = level.dims;
        let (mut place, mut count) = (first, 0);
        while place < last {
            let (row, x) = (place as u64 / nx, place as u64 % nx);
            let odd = u8::from(!axis::is_coarse(row / ny, nz)) + u8::from(!axis::is_coarse(row % ny, ny));
            let end = (place + (nx - x) as usize).min(last);
            // Loops that vectorise, because this is done for every segment anew.
            let (from, nodes) = (place - first, end - place);
            let last_of_row = x as usize + nodes == nx as usize;
            if odd > 0 {
                let (places, classes) = (&mut room.places[count..count + nodes], &mut room.classes[count..count + nodes]);
                places.iter_mut().enumerate().for_each(|(k, place)| *place = (from + k) as u16);
                let alternate = u8::from(nx > 2);
                classes.iter_mut().enumerate().for_each(|(k, class)| *class = odd - 1 + ((x as u8 ^ k as u8) & alternate));
                if let (true, Some(class)) = (last_of_row, classes.last_mut()) {
                    *class = odd - 1;
                }
                count += nodes;
            } else if nx > 2 {
                // The odd nodes, but for the last of the row.
                let skipped = (1 - x % 2) as usize;
                let found = (nodes - usize::from(last_of_row)).saturating_sub(skipped).div_ceil(2);
                let places = &mut room.places[count..count + found];
                places.iter_mut().enumerate().for_each(|(k, place)| *place = (from + skipped + 2 * k) as u16);
                room.classes[count..count + found].fill(0);
                count += found;
            }
            place = end;
        }
        room.order(count)
    }

    /// The class of each coded place.
    #[inline(always)]
    pub(super) fn classes(&self) -> &'a [u8] {
        match *self {
            Self::Whole(classes) => classes,
            Self::Part { classes, .. } => classes,
        }
    }

    /// The coded ones of a segment's symbols.
    #[inline(always)]
    pub(super) fn pack<'s, S: Symbol>(&self, symbols: &'s [S], room: &'s mut [S; MAX_SEGMENT]) -> &'s [S] {
        let Self::Part { places, .. } = self else {
            return symbols;
        };
        let packed = &mut room[..places.len()];
        packed.iter_mut().zip(*places).for_each(|(slot, &place)| *slot = symbols[usize::from(place)]);
        packed
    }

    /// The inverse of [`Self::pack`]; what is not coded stays as it is.
    #[inline(always)]
    pub(super) fn unpack<S: Symbol>(places: &[u16], packed: &[S], symbols: &mut [S]) {
        packed.iter().zip(places).for_each(|(&symbol, &place)| symbols[usize::from(place)] = symbol);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ChunkPlan, Dims, Levels, count};

    /// The order as the format says it, node by node.
    fn expected(level: &Level, d: usize, mask: Option<&Mask>) -> Vec<(usize, u8)> {
        let dims = level.dims;
        let mut out = Vec::new();
        if level.kind == LevelKind::Local {
            let [ntz, nty, ntx] = level.tiles;
            let mut place = 0;
            for tile in 0..ntz * nty * ntx {
                let origin = [tile / (nty * ntx) * 8, tile / ntx % nty * 8, tile % ntx * 8];
                let size = [if d == 3 { 8 } else { 1 }, if d > 1 { 8 } else { 1 }, 8];
                for node in 0..size[0] * size[1] * 8 {
                    let within = [node / 8 / size[1], node / 8 % size[1], node % 8];
                    let odd = (3 - d..3).filter(|&a| within[a] % 2 == 1 && within[a] != 7).count();
                    if odd > 0 {
                        let at = [0, 1, 2].map(|a| origin[a] + within[a]);
                        let node = (at[0] * dims[1] + at[1]) * dims[2] + at[2];
                        if (0..3).all(|a| at[a] < dims[a]) && mask.is_none_or(|m| !m.get(node as usize)) {
                            out.push((place, odd as u8 - 1));
                        }
                        place += 1;
                    }
                }
            }
        } else {
            for node in 0..level.places as u64 {
                let at = [node / dims[2] / dims[1], node / dims[2] % dims[1], node % dims[2]];
                let odd = (0..3).filter(|&a| !axis::is_coarse(at[a], dims[a])).count();
                match level.kind {
                    LevelKind::Coarsest => out.push((node as usize, 0)),
                    _ if odd > 0 => out.push((node as usize, odd as u8 - 1)),
                    _ => {}
                }
            }
        }
        out
    }

    #[test]
    fn orders_are_the_format_s() {
        let cases: [(Dims, usize); 6] =
            [([16, 24, 40], 3), ([17, 20, 31], 3), ([1, 64, 72], 2), ([1, 50, 201], 2), ([1, 1, 9000], 1), ([1, 1, 4097], 1)];
        for (dims, d) in cases {
            let plan = ChunkPlan::new(dims, d, Levels { local: 1, global: 1 });
            for masked in [0, 1, 7] {
                let mut mask = Mask::new(count(plan.levels[0].dims) as usize);
                (0..count(plan.levels[0].dims) as usize).filter(|i| masked > 0 && i / 50 % 9 < masked).for_each(|i| mask.set(i));
                for (index, level) in plan.levels.iter().enumerate() {
                    let mask = Some(&mask).filter(|_| index == 0 && masked > 0);
                    let mut got = Vec::new();
                    let mut room = Room::new();
                    for segment in 0..level.segments() {
                        let order = Order::new(level, d, mask, segment, &mut room);
                        let base = segment * level.segment;
                        let places: Vec<usize> = match order {
                            Order::Part { places, .. } => places.iter().map(|&p| base + usize::from(p)).collect(),
                            Order::Whole(classes) => (base..base + classes.len()).collect(),
                        };
                        got.extend(places.into_iter().zip(order.classes().iter().copied()));
                    }
                    assert_eq!(got, expected(level, d, mask), "{dims:?} {index} {masked}");
                }
            }
        }
    }
}
