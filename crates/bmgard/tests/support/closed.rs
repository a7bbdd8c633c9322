//! Chunks of closed tiles, decoded as `docs/format.md` says, as plainly as it can be.

use bmgard::Value;

use super::format::{ANCHORS, Chunk, MASK_FLAGS, MASK_VALUES, PREDICTORS, TILE_LENGTHS, TILES};
use super::reference::{Array, Bits, mask_values, nodes, section, words};

/// A tile's sides and what follows from them.
struct Tiles {
    sides: [usize; 3],
    dims: [usize; 3],
    grid: [usize; 3],
}

/// The nodes that a level adds with the same odd axes.
#[derive(Clone, Copy, PartialEq)]
struct Class {
    s: usize,
    odd: [bool; 3],
}

impl Tiles {
    fn classes(&self) -> Vec<Class> {
        let mut out = Vec::new();
        let mut s = self.sides.iter().max().unwrap() / 2;
        while s >= 1 {
            for number in [1, 2, 4, 3, 5, 6, 7] {
                let odd = [number & 1 != 0, number & 2 != 0, number & 4 != 0];
                if (0..3).all(|axis| !odd[axis] || self.sides[axis] >= 2 * s) {
                    out.push(Class { s, odd });
                }
            }
            s /= 2;
        }
        out
    }

    fn spacing(&self, class: Class) -> [usize; 3] {
        self.sides.map(|side| side.min(2 * class.s))
    }

    /// Nodes of a class in a full tile along each axis.
    fn extents(&self, class: Class) -> [usize; 3] {
        let spacing = self.spacing(class);
        [0, 1, 2].map(|axis| self.sides[axis] / spacing[axis])
    }

    /// A node of a class in a tile, by its index in the class.
    fn node(&self, class: Class, index: [usize; 3]) -> [usize; 3] {
        let spacing = self.spacing(class);
        [0, 1, 2].map(|axis| index[axis] * spacing[axis] + if class.odd[axis] { class.s } else { 0 })
    }

    /// The nodes of a stream of a class of at least 64 nodes, in order.
    fn order(&self, class: Class) -> Vec<[usize; 3]> {
        let bits = self.extents(class).map(|n| n.ilog2() as usize);
        let mut taken = [0; 3];
        let mut axes = Vec::new();
        let mut take = |axes: &mut Vec<usize>, axis: usize| {
            axes.push(axis);
            taken[axis] += 1;
        };
        for axis in [2, 1, 0].into_iter().filter(|&axis| bits[axis] > 0).take(2) {
            take(&mut axes, axis);
        }
        for (axis, most) in [(2, 2), (1, 2), (0, 1)] {
            for bit in usize::from(axes.contains(&axis))..most {
                if axes.len() < 5 && bit < bits[axis] {
                    take(&mut axes, axis);
                }
            }
        }
        for axis in [2, 1, 0] {
            let so_far = axes.iter().filter(|&&other| other == axis).count();
            axes.extend(std::iter::repeat_n(axis, bits[axis] - so_far));
        }
        let index = |position: usize| {
            let (mut index, mut next) = ([0; 3], [0; 3]);
            for (bit, &axis) in axes.iter().enumerate() {
                index[axis] |= (position >> bit & 1) << next[axis];
                next[axis] += 1;
            }
            index
        };
        (0..1 << axes.len()).map(|position| self.node(class, index(position))).collect()
    }

    /// The nodes of all streams of a tile; nothing is coded at the first place of the pool.
    fn streams(&self) -> Vec<Vec<Option<[usize; 3]>>> {
        let mut pool = vec![None];
        let mut rest = Vec::new();
        for class in self.classes() {
            let extents = self.extents(class);
            if extents.iter().product::<usize>() < 64 {
                pool.extend(nodes(extents).map(|index| Some(self.node(class, index))));
            } else {
                rest.push(self.order(class).into_iter().map(Some).collect());
            }
        }
        assert_eq!(pool.len(), 64);
        [vec![pool], rest].concat()
    }
}

/// What an archive says of a node.
#[derive(Clone, Copy)]
enum Coded<T> {
    Symbol(i64),
    Exact(T),
}

pub(super) fn number(bits: &mut Bits<'_>, count: usize) -> u64 {
    (0..count).fold(0, |number, bit| number | (bits.bit() as u64) << bit)
}

fn value<T: Value>(bits: &mut Bits<'_>) -> T {
    T::from_bits_u64(number(bits, 8 * size_of::<T>()))
}

/// Decodes a chunk whose tiles have these sides.
pub(super) fn decode<T: Value>(chunk: &Chunk, sides: [usize; 3], dims: [usize; 3]) -> Array<T> {
    let tiles = Tiles { sides, dims, grid: [0, 1, 2].map(|axis| dims[axis].div_ceil(sides[axis])) };
    let special = mask(section(chunk, MASK_FLAGS), dims);
    let mut coded = Array::filled(dims, Coded::<T>::Symbol(0));
    let mut rest = section(chunk, TILES);
    let streams = tiles.streams();
    for (tile, length) in nodes(tiles.grid).zip(words(section(chunk, TILE_LENGTHS), 2)) {
        let (bytes, after) = rest.split_at(length as usize);
        rest = after;
        let origin = [0, 1, 2].map(|axis| tile[axis] * sides[axis]);
        let owned = [0, 1, 2].map(|axis| sides[axis].min(dims[axis] - origin[axis]));
        let at = |node: [usize; 3]| [0, 1, 2].map(|axis| origin[axis] + node[axis]);
        let exists = |node: [usize; 3]| (0..3).all(|axis| node[axis] < owned[axis]);
        if bytes.len() == owned.iter().product::<usize>() * size_of::<T>() {
            for (node, bits) in nodes(owned).zip(words(bytes, size_of::<T>())) {
                coded.set(at(node), Coded::Exact(T::from_bits_u64(bits)));
            }
        } else if !bytes.is_empty() {
            decode_tile(bytes, &streams, sides, |node, what| {
                if exists(node) {
                    coded.set(at(node), what);
                }
            });
        }
    }
    assert!(rest.is_empty());
    let mut out = reconstruct(chunk, &tiles, &coded, &special);
    mask_values(section(chunk, MASK_VALUES), &special, &mut out.values);
    out
}

fn decode_tile<T: Value>(bytes: &[u8], streams: &[Vec<Option<[usize; 3]>>], sides: [usize; 3], mut set: impl FnMut([usize; 3], Coded<T>)) {
    let mut bits = Bits(bytes, 0);
    let escapes = bits.bit() == 1;
    // The symbols in blocks of 128, groups of 32 and quads of 4, which are kept if they are live.
    let places: Vec<Option<[usize; 3]>> = streams.concat();
    let mut blocks: Vec<&[Option<[usize; 3]>]> = places.chunks(128).collect();
    blocks.retain(|_| bits.bit() == 1);
    let base = number(&mut bits, 5);
    let steps: Vec<u64> = blocks.iter().map(|_| number(&mut bits, 2)).collect();
    let parameters: Vec<u64> = steps.iter().map(|&step| if step == 3 { number(&mut bits, 5) } else { base + step }).collect();
    assert!(parameters.iter().all(|&k| k < 32));
    let mut live = |part: &[Option<[usize; 3]>], len: usize| -> Vec<Vec<Option<[usize; 3]>>> {
        let flags: Vec<bool> = part.chunks(len).map(|_| bits.bit() == 1).collect();
        part.chunks(len).zip(flags).filter(|(_, live)| *live).map(|(part, _)| part.to_vec()).collect()
    };
    let groups: Vec<Vec<_>> = blocks.iter().map(|block| live(block, 32)).collect();
    let quads: Vec<Vec<_>> = groups.iter().map(|groups| groups.iter().flat_map(|group| live(group, 4)).collect()).collect();
    let symbols: Vec<(Option<[usize; 3]>, usize)> =
        quads.iter().zip(parameters).flat_map(|(quads, k)| quads.concat().into_iter().map(move |place| (place, k as usize))).collect();
    let low: Vec<u64> = symbols.iter().map(|&(_, k)| number(&mut bits, k)).collect();
    let mut high: Vec<u64> = symbols.iter().map(|_| (0..).take_while(|_| bits.bit() == 0).count() as u64).collect();
    assert!(high.iter().all(|&high| high <= 24));
    high.iter_mut().filter(|high| **high == 24).for_each(|high| *high = number(&mut bits, 32));
    for (((place, k), low), high) in symbols.into_iter().zip(low).zip(high) {
        let folded = ((high << k) + low) as i64;
        if let Some(node) = place {
            set(node, Coded::Symbol(if folded % 2 == 0 { folded / 2 } else { -(folded + 1) / 2 }));
        }
    }
    if escapes {
        let count = number(&mut bits, 12) + 1;
        let places: Vec<usize> = (0..count).map(|_| number(&mut bits, 12) as usize).collect();
        assert!(places.is_sorted_by(|a, b| a < b));
        for place in places {
            set([place / (sides[1] * sides[2]), place / sides[2] % sides[1], place % sides[2]], Coded::Exact(value(&mut bits)));
        }
    }
    assert_eq!(bits.1.div_ceil(8), bytes.len());
    while !bits.1.is_multiple_of(8) {
        assert_eq!(bits.bit(), 0);
    }
}

fn anchors<T: Value>(chunk: &Chunk, tiles: &Tiles, step: f64) -> Array<T> {
    let bytes = section(chunk, ANCHORS);
    let mut bits = Bits(&bytes[1..], 0);
    let mut steps = Array::filled(tiles.grid, 0i64);
    for tile in nodes(tiles.grid) {
        let zigzag = number(&mut bits, bytes[0].into());
        let mut sum = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        for before in nodes([2; 3]).skip(1).filter(|before| (0..3).all(|axis| before[axis] <= tile[axis])) {
            let sign = if before.iter().sum::<usize>() % 2 == 1 { 1 } else { -1 };
            sum += sign * steps.get([0, 1, 2].map(|axis| tile[axis] - before[axis]));
        }
        steps.set(tile, sum);
    }
    Array { dims: tiles.grid, values: steps.values.iter().map(|&steps| finite(T::from_f64(steps as f64 * step))).collect() }
}

pub(super) fn finite<T: Value>(value: T) -> T {
    if value.is_finite() { value } else { T::ZERO }
}

fn reconstruct<T: Value>(chunk: &Chunk, tiles: &Tiles, coded: &Array<Coded<T>>, special: &[bool]) -> Array<T> {
    let step = |level: usize| T::from_bits_u64(chunk.steps[level]);
    let mut r = Array::filled(tiles.dims, T::ZERO);
    let grid = anchors::<T>(chunk, tiles, step(chunk.steps.len() - 1).to_f64());
    for tile in nodes(tiles.grid) {
        let node = [0, 1, 2].map(|axis| tile[axis] * tiles.sides[axis]);
        let exact = match coded.get(node) {
            Coded::Exact(value) => value,
            Coded::Symbol(_) => grid.get(tile),
        };
        r.set(node, exact);
    }
    let codes = section(chunk, PREDICTORS);
    assert_eq!(codes.len(), tiles.classes().len());
    for (class, &code) in tiles.classes().into_iter().zip(codes) {
        let step = step(class.s.ilog2() as usize);
        let extents = tiles.extents(class);
        for (tile, index) in nodes(tiles.grid).flat_map(|tile| nodes(extents).map(move |index| (tile, index))) {
            let low = [0, 1, 2].map(|axis| tile[axis] * tiles.sides[axis]);
            let within = tiles.node(class, index);
            let node = [0, 1, 2].map(|axis| low[axis] + within[axis]);
            if (0..3).any(|axis| node[axis] >= tiles.dims[axis]) {
                continue;
            }
            let high = [0, 1, 2].map(|axis| (low[axis] + tiles.sides[axis]).min(tiles.dims[axis] - 1));
            let p = predict(&r, class, code, node, low, high);
            let value = match coded.get(node) {
                Coded::Exact(value) => value,
                Coded::Symbol(_) if special[r.place(node)] => finite(T::ZERO.fma(step, p)),
                Coded::Symbol(symbol) => T::from_f64(symbol as f64).fma(step, p),
            };
            r.set(node, value);
        }
    }
    r
}

fn predict<T: Value>(r: &Array<T>, class: Class, code: u8, node: [usize; 3], low: [usize; 3], high: [usize; 3]) -> T {
    let s = class.s as isize;
    let neighbour = |steps: &[(usize, isize)]| {
        let mut at = node;
        for &(axis, step) in steps {
            at[axis] = at[axis].checked_add_signed(step * s)?;
        }
        (0..3).all(|axis| (low[axis]..=high[axis]).contains(&at[axis])).then(|| r.get(at))
    };
    let odd: Vec<usize> = (0..3).filter(|&axis| class.odd[axis]).collect();
    let one = |cubic: bool, axis: usize| {
        let at = |step| neighbour(&[(axis, step)]);
        let weights = match (at(-3), at(1), at(3)) {
            (Some(_), Some(_), Some(_)) if cubic => [-1.0 / 16.0, 9.0 / 16.0, 9.0 / 16.0, -1.0 / 16.0],
            (Some(_), Some(_), None) if cubic => [-1.0 / 8.0, 3.0 / 4.0, 3.0 / 8.0, 0.0],
            (None, Some(_), Some(_)) if cubic => [0.0, 3.0 / 8.0, 3.0 / 4.0, -1.0 / 8.0],
            (_, Some(_), _) => [0.0, 0.5, 0.5, 0.0],
            (Some(_), None, _) => [-0.5, 1.5, 0.0, 0.0],
            (None, None, _) => [0.0, 1.0, 0.0, 0.0],
        };
        let [a, b, c, d] = [-3, -1, 1, 3].map(|step| at(step).unwrap_or(T::ZERO));
        let [wa, wb, wc, wd] = weights.map(T::from_f64);
        b.fma(wb, c.fma(wc, a.fma(wa, d * wd)))
    };
    let third = T::from_f64(1.0 / 3.0);
    let mean = |values: Vec<T>| match values[..] {
        [a] => a,
        [a, b] => (a + b) * T::HALF,
        [a, b, c] => ((a + b) + c) * third,
        _ => unreachable!(),
    };
    let two_sided: Vec<usize> = odd.iter().copied().filter(|&axis| neighbour(&[(axis, 1)]).is_some()).collect();
    match code {
        0..=2 => one(false, code.into()),
        4..=6 => one(true, usize::from(code) - 4),
        _ if two_sided.is_empty() => mean(odd.iter().map(|&axis| neighbour(&[(axis, -1)]).unwrap()).collect()),
        8 => mean(two_sided.iter().map(|&axis| one(true, axis)).collect()),
        9 if two_sided.len() < odd.len() => mean(two_sided.iter().map(|&axis| one(false, axis)).collect()),
        9 => {
            let both = |axis: usize| neighbour(&[(axis, -1)]).unwrap() + neighbour(&[(axis, 1)]).unwrap();
            let corners = |a: usize, b: usize| {
                let at = |i, j| neighbour(&[(a, i), (b, j)]).unwrap();
                (at(-1, -1) + at(-1, 1)) + (at(1, -1) + at(1, 1))
            };
            match odd[..] {
                [a, b] => T::from_f64(-0.25).fma(corners(a, b), (both(a) + both(b)) * T::HALF),
                _ => {
                    let edges = (corners(0, 1) + corners(0, 2)) + corners(1, 2);
                    T::from_f64(-0.25).fma(edges, (both(0) + both(1)) + both(2)) * third
                }
            }
        }
        _ => unreachable!(),
    }
}

pub(super) fn mask(bytes: &[u8], dims: [usize; 3]) -> Vec<bool> {
    let mut out = Array::filled(dims, false);
    if bytes.is_empty() {
        return out.values;
    }
    let table = words(&bytes[..2], 2).next().unwrap();
    let mut codes = &bytes[36..];
    let mut kinds: Vec<_> = bytes[2..36]
        .chunks(17)
        .map(|entry| {
            let k = usize::from(entry[0]);
            let [count, length] = [&entry[1..9], &entry[9..]].map(|number| words(number, 8).next().unwrap());
            let (these, rest) = codes.split_at(length as usize);
            codes = rest;
            let mut bits = Bits(these, 0);
            let distances = (0..count).map(|_| {
                let mut n = 0;
                while bits.bit() == 1 {
                    n += 1;
                }
                (1 << (k + n)) + number(&mut bits, k + n) - (1 << k)
            });
            let mut distances = distances.collect::<Vec<u64>>().into_iter();
            (distances.next(), distances)
        })
        .collect();
    for [z, y, x] in nodes(dims) {
        let at = |back: [usize; 3]| z >= back[0] && y >= back[1] && x >= back[2] && out.get([z - back[0], y - back[1], x - back[2]]);
        let context = [[1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]].iter().enumerate().map(|(bit, &back)| usize::from(at(back)) << bit);
        let context = context.sum::<usize>();
        let predicted = table >> context & 1 == 1;
        let (until, distances) = &mut kinds[usize::from(context != 0 && context != 15)];
        let fails = *until == Some(0);
        *until = if fails { distances.next() } else { until.map(|until| until - 1) };
        out.set([z, y, x], predicted != fails);
    }
    assert!(codes.is_empty() && kinds.iter().all(|(until, _)| until.is_none()));
    out.values
}
