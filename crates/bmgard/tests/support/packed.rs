//! Chunks of packed tiles, decoded as `docs/format.md` says, as plainly as it can be.

use bmgard::Value;

use super::closed::{finite, mask, number};
use super::format::{Chunk, MASK_FLAGS, MASK_VALUES, PACKED_ANCHORS, PACKED_LENGTHS, PACKED_TILES};
use super::reference::{Array, Bits, mask_values, nodes, section, words};

/// The level that adds a node of a full tile, and the axis; `None` for corners.
fn stage(node: [usize; 3], sides: [usize; 3]) -> Option<(u32, usize)> {
    let inner = (0..3).filter(|&axis| node[axis] > 0 && node[axis] < sides[axis] - 1);
    let level = inner.clone().map(|axis| node[axis].trailing_zeros()).min()?;
    inner.filter(|&axis| node[axis].trailing_zeros() == level).max().map(|axis| (level, axis))
}

/// The nodes of a full tile in the order of their symbols.
fn order(sides: [usize; 3]) -> Vec<[usize; 3]> {
    let all: Vec<[usize; 3]> = nodes(sides).collect();
    let of = |level: u32, axis: usize| all.iter().copied().filter(move |&node| stage(node, sides) == Some((level, axis)));
    let corners = || all.iter().copied().filter(|&node| stage(node, sides).is_none()).rev();
    if sides != [4, 8, 16] {
        let stages = (0..9).flat_map(|level| [2, 1, 0].map(|axis| (level, axis)));
        return stages.flat_map(|(level, axis)| of(level, axis)).chain(corners()).collect();
    }
    let x2: Vec<[usize; 3]> = of(1, 2).collect();
    let coarse = [(2, 2), (2, 1), (3, 2)].into_iter().flat_map(|(level, axis)| of(level, axis)).chain(corners());
    let rest: Vec<[usize; 3]> = x2[20..].iter().copied().chain(of(1, 1)).chain(of(0, 0)).chain(of(1, 0)).chain(coarse).collect();
    let part = |l: usize| -> Vec<[usize; 3]> {
        let row = of(0, 2).filter(|node| node[1] == l);
        match l {
            0..3 => row.chain(of(0, 1).filter(|node| node[1] == 2 * l + 1)).collect(),
            _ => row.chain(x2[4 * (l - 3)..][..4].iter().copied()).chain(rest[32 * (l - 3)..][..32].iter().copied()).collect(),
        }
    };
    (0..8).flat_map(part).collect()
}

/// What an archive says of a tile's nodes.
struct Coded<T> {
    symbols: Array<i64>,
    exact: Array<Option<T>>,
}

/// A tile at the end of the field, seen as a full one: its last node along an axis is the full tile's last.
struct Tile {
    sides: [usize; 3],
    counts: [usize; 3],
}

impl Tile {
    fn exists(&self, slot: [usize; 3]) -> bool {
        (0..3).all(|axis| {
            slot[axis] == 0 || slot[axis] < self.counts[axis] - 1 || slot[axis] == self.sides[axis] - 1 && self.counts[axis] > 1
        })
    }

    /// The place in a full tile of a node of this one.
    fn slot(&self, node: [usize; 3]) -> [usize; 3] {
        [0, 1, 2].map(|axis| if node[axis] > 0 && node[axis] == self.counts[axis] - 1 { self.sides[axis] - 1 } else { node[axis] })
    }
}

/// Decodes a chunk whose tiles have these sides.
pub(super) fn decode<T: Value>(chunk: &Chunk, sides: [usize; 3], dims: [usize; 3]) -> Array<T> {
    let grid = [0, 1, 2].map(|axis| dims[axis].div_ceil(sides[axis]));
    let special = mask(section(chunk, MASK_FLAGS), dims);
    let order = order(sides);
    let step = T::from_bits_u64(chunk.steps[0]);
    let mut out = Array::filled(dims, T::ZERO);
    let mut rest = section(chunk, PACKED_TILES);
    let anchors = words(section(chunk, PACKED_ANCHORS), size_of::<T>());
    for ((at, length), anchor) in nodes(grid).zip(words(section(chunk, PACKED_LENGTHS), 2)).zip(anchors) {
        let (bytes, after) = rest.split_at(4 * length as usize);
        rest = after;
        let origin = [0, 1, 2].map(|axis| at[axis] * sides[axis]);
        let tile = Tile { sides, counts: [0, 1, 2].map(|axis| sides[axis].min(dims[axis] - origin[axis])) };
        let place = |node: [usize; 3]| [0, 1, 2].map(|axis| origin[axis] + node[axis]);
        if bytes.len() == tile.counts.iter().product::<usize>() * size_of::<T>() {
            for (node, bits) in nodes(tile.counts).zip(words(bytes, size_of::<T>())) {
                out.set(place(node), T::from_bits_u64(bits));
            }
            continue;
        }
        let coded = decode_tile::<T>(bytes, &tile, &order);
        let mut r = Array::filled(sides, None);
        r.set([0; 3], Some(T::from_bits_u64(anchor)));
        for node in nodes(tile.counts) {
            let is_special = |slot: [usize; 3]| {
                let node = [0, 1, 2].map(|axis| slot[axis].min(tile.counts[axis] - 1));
                special[out.place(place(node))]
            };
            let value = value(&mut r, tile.slot(node), &tile, &coded, step, &is_special);
            out.set(place(node), value);
        }
    }
    assert!(rest.is_empty());
    mask_values(section(chunk, MASK_VALUES), &special, &mut out.values);
    out
}

fn decode_tile<T: Value>(bytes: &[u8], tile: &Tile, order: &[[usize; 3]]) -> Coded<T> {
    let mut coded = Coded { symbols: Array::filled(tile.sides, 0), exact: Array::filled(tile.sides, None) };
    if bytes.is_empty() {
        return coded;
    }
    let mut bits = Bits(bytes, 0);
    let live: Vec<bool> = (0..8).map(|_| bits.bit() == 1).collect();
    let surplus = number(&mut bits, 5);
    let escapes = bits.bit() == 1;
    assert_eq!(number(&mut bits, 2), 0);
    let widths: Vec<[u64; 4]> = live
        .iter()
        .map(|&live| [0; 4].map(|_: u64| if live { number(&mut bits, 4) } else { 0 }))
        .map(|nibbles| nibbles.map(|nibble| if nibble == 0 { 0 } else { nibble + surplus }))
        .collect();
    for (part, widths) in order.chunks(64).zip(widths) {
        for (group, width) in part.chunks(16).zip(widths).filter(|(_, width)| *width > 0) {
            for &slot in group.iter().filter(|&&slot| tile.exists(slot)) {
                coded.symbols.set(slot, number(&mut bits, width as usize) as i64 - (1 << (width - 1)));
            }
        }
        while !bits.1.is_multiple_of(16) {
            assert_eq!(bits.bit(), 0);
        }
    }
    let align = |bits: &mut Bits<'_>| {
        while !bits.1.is_multiple_of(32) {
            assert_eq!(bits.bit(), 0);
        }
    };
    align(&mut bits);
    if escapes {
        let count = number(&mut bits, 16);
        let slots: Vec<usize> = (0..count).map(|_| number(&mut bits, 16) as usize).collect();
        assert!(slots.is_sorted_by(|a, b| a < b) && slots[0] > 0);
        align(&mut bits);
        let [_, ny, nx] = tile.sides;
        for slot in slots {
            let slot = [slot / (ny * nx), slot / nx % ny, slot % nx];
            assert!(tile.exists(slot));
            coded.exact.set(slot, Some(T::from_bits_u64(number(&mut bits, 8 * size_of::<T>()))));
        }
    }
    assert_eq!(bits.1, 8 * bytes.len());
    coded
}

/// The value of a node, after those that it is predicted from.
fn value<T: Value>(
    r: &mut Array<Option<T>>,
    slot: [usize; 3],
    tile: &Tile,
    coded: &Coded<T>,
    step: T,
    special: &impl Fn([usize; 3]) -> bool,
) -> T {
    if let Some(value) = r.get(slot) {
        return value;
    }
    let prediction = match stage(slot, tile.sides) {
        None => r.get([0; 3]).unwrap(),
        Some((level, axis)) => {
            let count = tile.counts[axis];
            let mut known = |index: usize| {
                let mut other = slot;
                other[axis] = if index == count - 1 { tile.sides[axis] - 1 } else { index };
                value(r, other, tile, coded, step, special)
            };
            let (i, s) = (slot[axis], 1 << level);
            let after = (i + s).min(count - 1);
            let (a, b) = (known(i - s), known(after));
            let before2 = (s == 1 && i >= 3).then(|| known(i - 3));
            let after2 = (s == 1 && i + 1 < count - 1).then(|| (i + 3).min(count - 1));
            let near_end = after2 == Some(i + 2);
            let after2 = after2.map(&mut known);
            let w = |weight: f64| T::from_f64(weight);
            match (before2, after2) {
                (None, None) => (b - a).fma(w(s as f64 / (s + after - i) as f64), a),
                (Some(c), None) => a.fma(w(3.0 / 4.0), b.fma(w(3.0 / 8.0), c * w(-1.0 / 8.0))),
                (None, Some(d)) if near_end => a.fma(w(1.0 / 3.0), b.fma(w(1.0), d * w(-1.0 / 3.0))),
                (None, Some(d)) => a.fma(w(3.0 / 8.0), b.fma(w(3.0 / 4.0), d * w(-1.0 / 8.0))),
                (Some(c), Some(d)) if near_end => a.fma(w(1.0 / 2.0), b.fma(w(3.0 / 4.0), c.fma(w(-1.0 / 20.0), d * w(-1.0 / 5.0)))),
                (Some(c), Some(d)) => a.fma(w(9.0 / 16.0), b.fma(w(9.0 / 16.0), c.fma(w(-1.0 / 16.0), d * w(-1.0 / 16.0)))),
            }
        }
    };
    let value = match coded.exact.get(slot) {
        Some(exact) => exact,
        None if special(slot) => finite(T::ZERO.fma(step, prediction)),
        None => T::from_f64(coded.symbols.get(slot) as f64).fma(step, prediction),
    };
    r.set(slot, Some(value));
    value
}
