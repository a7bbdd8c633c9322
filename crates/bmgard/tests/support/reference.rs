//! A decoder written from `docs/format.md` alone, as plainly as it can be: if it and the library agree to the bit, the document says
//! all that another implementation needs, and the archive holds it.

use bmgard::Value;

use super::closed;
use super::format::{
    CODEBOOKS, CONSTANT, Chunk, LENGTHS, MASK, MASK_VALUES, PATCH_COUNTS, PATCH_OFFSETS, PATCH_VALUES, PAYLOAD, Parts, RAW,
};
use super::packed;

/// An array of three dimensions in C order.
#[derive(Clone)]
pub(super) struct Array<V> {
    pub(super) dims: [usize; 3],
    pub(super) values: Vec<V>,
}

impl<V: Copy> Array<V> {
    pub(super) fn filled(dims: [usize; 3], value: V) -> Self {
        Self { dims, values: vec![value; dims.iter().product()] }
    }

    pub(super) fn place(&self, [z, y, x]: [usize; 3]) -> usize {
        (z * self.dims[1] + y) * self.dims[2] + x
    }

    pub(super) fn get(&self, at: [usize; 3]) -> V {
        self.values[self.place(at)]
    }

    pub(super) fn set(&mut self, at: [usize; 3], value: V) {
        let place = self.place(at);
        self.values[place] = value;
    }

    /// Replaces every line along an axis by what `f` makes of it.
    fn along(&self, axis: usize, f: impl Fn(&[V]) -> Vec<V>) -> Self {
        let mut lines = nodes({
            let mut dims = self.dims;
            dims[axis] = 1;
            dims
        })
        .map(|start| {
            let line: Vec<V> = (0..self.dims[axis])
                .map(|i| {
                    let mut at = start;
                    at[axis] = i;
                    self.get(at)
                })
                .collect();
            (start, f(&line))
        })
        .peekable();
        let mut dims = self.dims;
        dims[axis] = lines.peek().unwrap().1.len();
        let mut out = Self::filled(dims, self.values[0]);
        for (start, line) in lines {
            for (i, value) in line.into_iter().enumerate() {
                let mut at = start;
                at[axis] = i;
                out.set(at, value);
            }
        }
        out
    }

    fn zip(&self, other: &Self, f: impl Fn(V, V) -> V) -> Self {
        assert_eq!(self.dims, other.dims);
        Self { dims: self.dims, values: self.values.iter().zip(&other.values).map(|(&a, &b)| f(a, b)).collect() }
    }
}

/// All indices in C order.
pub(super) fn nodes([nz, ny, nx]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..nz).flat_map(move |z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [z, y, x])))
}

fn average<T: Value>(a: T, b: T) -> T {
    (a + b) * T::HALF
}

pub(super) fn words(bytes: &[u8], size: usize) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(size).map(|word| word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

/// A section's bytes; none where the chunk does not have it.
pub(super) fn section(chunk: &Chunk, id: u32) -> &[u8] {
    chunk.sections.iter().find(|section| section.id == id).map_or(&[], |section| &section.bytes)
}

/// Decodes an archive.
pub fn decode<T: Value>(archive: &[u8]) -> Vec<T> {
    let parts = Parts::parse(archive);
    let dims = parts.effective().map(|n| n as usize);
    let d = if dims[0] > 1 {
        3
    } else if dims[1] > 1 {
        2
    } else {
        1
    };
    let size = parts.chunk_dims.map(|n| n as usize);
    let mut out = Array::filled(dims, T::ZERO);
    let grid = [0, 1, 2].map(|axis| dims[axis].div_ceil(size[axis]));
    for (at, chunk) in nodes(grid).zip(&parts.chunks) {
        let origin = [0, 1, 2].map(|axis| at[axis] * size[axis]);
        let dims = [0, 1, 2].map(|axis| size[axis].min(dims[axis] - origin[axis]));
        let decoded = if chunk.kind == 4 {
            assert_eq!((parts.basis, parts.coder), (2, 2));
            closed::decode(chunk, [0, 1, 2].map(|axis| 1 << parts.tail[axis]), dims)
        } else if chunk.kind == 5 {
            assert_eq!((parts.basis, parts.coder), (2, 3));
            packed::decode(chunk, [0, 1, 2].map(|axis| 1 << parts.tail[axis]), dims)
        } else {
            decode_chunk::<T>(chunk, dims, d)
        };
        for at in nodes(dims) {
            out.set([0, 1, 2].map(|axis| origin[axis] + at[axis]), decoded.get(at));
        }
    }
    out.values
}

fn decode_chunk<T: Value>(chunk: &Chunk, dims: [usize; 3], d: usize) -> Array<T> {
    let len: usize = dims.iter().product();
    let value = |bits| T::from_bits_u64(bits);
    if chunk.kind == 2 {
        return Array { dims, values: words(section(chunk, RAW), size_of::<T>()).map(value).collect() };
    }
    let special = mask(section(chunk, MASK), len);
    let mut out = match chunk.kind {
        3 => Array::filled(dims, value(words(section(chunk, CONSTANT), size_of::<T>()).next().unwrap())),
        _ => decode_levels(chunk, dims, d, &special),
    };
    let mut patches = words(section(chunk, PATCH_OFFSETS), 2).zip(words(section(chunk, PATCH_VALUES), size_of::<T>()));
    for (block, count) in words(section(chunk, PATCH_COUNTS), 4).enumerate() {
        for (offset, bits) in patches.by_ref().take(count as usize) {
            out.values[block * 65_536 + offset as usize] = value(bits);
        }
    }
    mask_values(section(chunk, MASK_VALUES), &special, &mut out.values);
    out
}

/// Puts special values in their places.
pub(super) fn mask_values<T: Value>(mut runs: &[u8], special: &[bool], out: &mut [T]) {
    let mut places = (0..out.len()).filter(|&place| special[place]);
    let mut puts = Vec::new();
    while !runs.is_empty() {
        let run = varint(&mut runs);
        let bits = words(&runs[..size_of::<T>()], size_of::<T>()).next().unwrap();
        runs = &runs[size_of::<T>()..];
        puts.extend(places.by_ref().take(run).map(|place| (place, T::from_bits_u64(bits))));
    }
    assert!(places.next().is_none());
    puts.into_iter().for_each(|(place, value)| out[place] = value);
}

fn varint(bytes: &mut &[u8]) -> usize {
    let length = bytes.iter().position(|&byte| byte < 0x80).unwrap() + 1;
    let value = bytes[..length].iter().rev().fold(0, |value, &byte| value << 7 | usize::from(byte & 0x7F));
    *bytes = &bytes[length..];
    value
}

fn mask(mut runs: &[u8], len: usize) -> Vec<bool> {
    let mut out = Vec::new();
    let mut set = false;
    let empty = runs.is_empty();
    while !runs.is_empty() {
        let run = varint(&mut runs);
        out.extend(std::iter::repeat_n(set, run));
        set = !set;
    }
    out.resize(len, set && !empty);
    out
}

/// Tokens in use by their code, written first bit first.
type Codebook = std::collections::HashMap<(usize, usize), usize>;

fn codebook(bytes: &mut &[u8]) -> Codebook {
    let used = usize::from(bytes[0]);
    let lengths: Vec<usize> = (0..used).map(|token| usize::from(bytes[1 + token / 2] >> (4 * (token % 2)) & 15)).collect();
    *bytes = &bytes[1 + used.div_ceil(2)..];
    let mut out = Codebook::new();
    let mut code = 0;
    for length in 1..=12 {
        code *= 2;
        for token in (0..used).filter(|&token| lengths[token] == length) {
            out.insert((length, code), token);
            code += 1;
        }
        assert!(code <= 1 << length);
    }
    out
}

pub(super) struct Bits<'a>(pub(super) &'a [u8], pub(super) usize);

impl Bits<'_> {
    pub(super) fn bit(&mut self) -> usize {
        let bit = self.0[self.1 / 8] >> (self.1 % 8) & 1;
        self.1 += 1;
        usize::from(bit)
    }

    fn token(&mut self, book: &Codebook) -> usize {
        let (mut length, mut code) = (0, 0);
        loop {
            length += 1;
            code = 2 * code + self.bit();
            assert!(length <= 12, "no such code");
            if let Some(&token) = book.get(&(length, code)) {
                return token;
            }
        }
    }

    /// A token, which may be escaped.
    fn any_token(&mut self, book: &Codebook) -> usize {
        let token = self.token(book);
        if token == 208 { (0..8).map(|bit| self.bit() << bit).sum() } else { token }
    }

    /// The symbol of a token, with its extra bits.
    fn symbol(&mut self, token: usize) -> i64 {
        if token == 0 {
            return 0;
        }
        let (class, negative) = ((token - 1) / 2, (token - 1) % 2 == 1);
        // c = 0 for m = 1, else 2e - 1 + (bit e-1 of m).
        let magnitude = if class == 0 {
            1
        } else {
            let e = class.div_ceil(2);
            let mut magnitude = (2 + (class - (2 * e - 1)) as i64) << (e - 1);
            for bit in 0..e - 1 {
                magnitude |= (self.bit() as i64) << bit;
            }
            magnitude
        };
        if negative { -magnitude } else { magnitude }
    }
}

/// The symbols of a level: for each segment the classes of its coded places in order; returns the symbols in the same order.
fn decode_stream(lengths: &[u8], payload: &[u8], segments: &[Vec<usize>], books: &[Codebook]) -> Vec<Vec<i64>> {
    assert_eq!(lengths.len(), 2 * segments.len());
    let mut rest = payload;
    let decoded = words(lengths, 2).zip(segments).map(|(length, classes)| {
        let (bytes, after) = rest.split_at(length as usize);
        rest = after;
        if length == 0 {
            return vec![0; classes.len()];
        }
        let mut bits = Bits(bytes, 0);
        let mut out = Vec::new();
        for group in classes.chunks(8) {
            let first = bits.any_token(&books[group[0]]);
            if first == 207 {
                out.extend(group.iter().map(|_| 0));
                continue;
            }
            out.push(bits.symbol(first));
            for &class in &group[1..] {
                let token = bits.any_token(&books[class]);
                assert!(token < 207);
                out.push(bits.symbol(token));
            }
        }
        // The last byte is filled with 0.
        assert_eq!(bits.1.div_ceil(8), bytes.len());
        while bits.1 % 8 != 0 {
            assert_eq!(bits.bit(), 0);
        }
        out
    });
    let decoded = decoded.collect();
    assert!(rest.is_empty());
    decoded
}

/// The coarse nodes of a tile in a dimension.
const TILE_COARSE: [usize; 5] = [0, 2, 4, 6, 7];

/// Whether a node is coarse in a dimension of a global level.
fn stays(i: usize, n: usize) -> bool {
    n <= 2 || i.is_multiple_of(2) || i == n - 1
}

fn decode_levels<T: Value>(chunk: &Chunk, dims: [usize; 3], d: usize, special: &[bool]) -> Array<T> {
    let (local, global) = (usize::from(chunk.local), usize::from(chunk.global));
    let counts = |axis: usize| axis >= 3 - d;
    let mut arrays = vec![dims];
    for level in 0..local + global {
        let dims = arrays[level];
        arrays.push([0, 1, 2].map(|axis| match dims[axis] {
            n if level < local && counts(axis) => n.div_ceil(8) * 5,
            n if level < local || n <= 2 => n,
            n => n / 2 + 1,
        }));
    }
    let mut books = section(chunk, CODEBOOKS);
    let mut books: Vec<Vec<Codebook>> = (0..=local + global)
        .map(|level| (0..if level == local + global { 1 } else { 3 }).map(|_| codebook(&mut books)).collect())
        .collect();
    let mut stream = |level: usize, segments: &[Vec<usize>]| {
        let id = level as u32;
        decode_stream(section(chunk, LENGTHS + id), section(chunk, PAYLOAD + id), segments, &std::mem::take(&mut books[level]))
    };

    // The coarsest array.
    let dims = arrays[local + global];
    let step = T::from_bits_u64(chunk.steps[local + global]).to_f64();
    let len: usize = dims.iter().product();
    let segments: Vec<Vec<usize>> = (0..len).step_by(1024).map(|first| vec![0; 1024.min(len - first)]).collect();
    let values = stream(local + global, &segments).into_iter().flat_map(|differences| {
        differences.into_iter().scan(0, |sum, difference| {
            *sum += difference;
            Some(T::from_f64(*sum as f64 * step))
        })
    });
    let mut now = Array { dims, values: values.collect() };

    for level in (0..local + global).rev() {
        let step = T::from_bits_u64(chunk.steps[level]);
        let coefficient = |symbol: i64| T::from_f64(symbol as f64) * step;
        let dims = arrays[level];
        if level >= local {
            let place = Array { dims, values: vec![(); dims.iter().product()] };
            let odd = |at: [usize; 3]| (0..3).filter(|&axis| !stays(at[axis], dims[axis])).count();
            let details: Vec<([usize; 3], usize)> = nodes(dims).map(|at| (at, odd(at))).filter(|&(_, odd)| odd > 0).collect();
            let mut segments = vec![Vec::new(); place.values.len().div_ceil(1024)];
            details.iter().for_each(|&(at, odd)| segments[place.place(at) / 1024].push(odd - 1));
            let mut detail = Array::filled(dims, T::ZERO);
            let symbols = stream(level, &segments).into_iter().flatten();
            details.iter().zip(symbols).for_each(|(&(at, _), symbol)| detail.set(at, coefficient(symbol)));
            now = global_level(&now, &detail);
        } else {
            let tiles = [0, 1, 2].map(|axis| if counts(axis) { dims[axis].div_ceil(8) } else { 1 });
            let tile_dims = [0, 1, 2].map(|axis| if counts(axis) { 8 } else { 1 });
            let odd = |at: [usize; 3]| (0..3).filter(|&axis| counts(axis) && !TILE_COARSE.contains(&at[axis])).count();
            let in_array = |tile: [usize; 3], at: [usize; 3]| [0, 1, 2].map(|axis| tile[axis] * tile_dims[axis] + at[axis]);
            let array = Array { dims, values: vec![(); dims.iter().product()] };
            let coded = |tile: [usize; 3]| {
                nodes(tile_dims).filter(move |&at| odd(at) > 0).filter(move |&at| {
                    let node = in_array(tile, at);
                    (0..3).all(|axis| node[axis] < dims[axis])
                })
            };
            let live = |tile: [usize; 3], at: [usize; 3]| level > 0 || !special[array.place(in_array(tile, at))];
            let per_segment = [256, 20, 2][d - 1];
            let all: Vec<[usize; 3]> = nodes(tiles).collect();
            let segments: Vec<Vec<usize>> = all
                .chunks(per_segment)
                .map(|tiles| {
                    let nodes = tiles.iter().flat_map(|&tile| coded(tile).filter(move |&at| live(tile, at)));
                    nodes.map(|at| odd(at) - 1).collect()
                })
                .collect();
            let mut symbols = stream(level, &segments).into_iter().flatten();
            let mut out = Array::filled(dims, T::ZERO);
            for tile in all {
                let mut detail = Array::filled(tile_dims, T::ZERO);
                for at in coded(tile).filter(|&at| live(tile, at)) {
                    detail.set(at, coefficient(symbols.next().unwrap()));
                }
                let coarse_dims = tile_dims.map(|n| if n == 8 { 5 } else { 1 });
                let corner = [0, 1, 2].map(|axis| tile[axis] * coarse_dims[axis]);
                let coarse = nodes(coarse_dims).map(|at| now.get([0, 1, 2].map(|axis| corner[axis] + at[axis])));
                let coarse = Array { dims: coarse_dims, values: coarse.collect() };
                let values = local_tile(&coarse, &detail, d);
                for at in nodes(tile_dims) {
                    let node = in_array(tile, at);
                    if (0..3).all(|axis| node[axis] < dims[axis]) {
                        out.set(node, values.get(at));
                    }
                }
            }
            now = out;
        }
    }
    now
}

/// Section 3.2.
fn local_tile<T: Value>(coarse: &Array<T>, detail: &Array<T>, d: usize) -> Array<T> {
    const W: [[i32; 8]; 5] = [
        [235, 218, -80, -58, 22, 14, -7, 0],
        [-40, 80, 246, 116, -44, -28, 14, 0],
        [11, -22, -44, 110, 240, 98, -49, 0],
        [-4, 8, 16, -40, -56, 152, 268, 0],
        [2, -4, -8, 20, 28, -76, 38, 344],
    ];
    let project = |v: &[T]| {
        let weight = |j: usize, i: usize| T::from_f64(f64::from(W[j][i]) / 344.0);
        let sum = |j: usize| (1..8).filter(|&i| W[j][i] != 0).fold(v[0] * weight(j, 0), |sum, i| v[i].fma(weight(j, i), sum));
        (0..5).map(sum).collect()
    };
    let correction = (3 - d..3).fold(detail.clone(), |now, axis| now.along(axis, project));
    let nodes = coarse.zip(&correction, |coarse, correction| coarse - correction);
    let interpolate = |r: &[T]| {
        let middle = |j: usize| average(r[j], r[j + 1]);
        vec![r[0], middle(0), r[1], middle(1), r[2], middle(2), r[3], r[4]]
    };
    let interpolated = (3 - d..3).rev().fold(nodes, |now, axis| now.along(axis, interpolate));
    interpolated.zip(detail, |interpolated, detail| interpolated + detail)
}

/// Section 3.3.
fn global_level<T: Value>(coarse: &Array<T>, detail: &Array<T>) -> Array<T> {
    let dims = detail.dims;
    let mut correction = detail.clone();
    for axis in (0..3).filter(|&axis| dims[axis] > 2) {
        let n = dims[axis];
        let fine: Vec<usize> = (0..n).filter(|&i| stays(i, n)).collect();
        let mass = |i: usize, k: usize| match i.abs_diff(k) {
            0 if i == 0 || i == n - 1 => 1.0 / 3.0,
            0 => 2.0 / 3.0,
            1 => 1.0 / 6.0,
            _ => 0.0,
        };
        let rows: Vec<Vec<(usize, T)>> = fine
            .iter()
            .map(|&f| {
                let near = (f.saturating_sub(2)..=f + 2).filter(|&i| i < n);
                let weight = |i: usize| {
                    let mut weight = mass(f, i);
                    for side in [f.wrapping_sub(1), f + 1] {
                        if side < n && !stays(side, n) {
                            weight += mass(side, i) / 2.0;
                        }
                    }
                    weight
                };
                near.map(|i| (i, weight(i))).filter(|&(_, weight)| weight != 0.0).map(|(i, weight)| (i, T::from_f64(weight))).collect()
            })
            .collect();
        let spacing: Vec<f64> = fine.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let last = fine.len() - 1;
        let (mut lower, mut inverse) = (Vec::new(), Vec::new());
        let mut carried = 0.0;
        for j in 0..=last {
            let before = if j == 0 { 0.0 } else { spacing[j - 1] };
            let after = if j == last { 0.0 } else { spacing[j] };
            let pivot = (before + after) / 3.0 - carried;
            let off = after / 6.0;
            lower.push(-T::from_f64(off / pivot));
            inverse.push(T::from_f64(1.0 / pivot));
            carried = off * (off / pivot);
        }
        correction = correction.along(axis, |v| {
            let b: Vec<T> = rows
                .iter()
                .map(|row| {
                    let (first, weight) = row[0];
                    row[1..].iter().fold(v[first] * weight, |sum, &(i, weight)| v[i].fma(weight, sum))
                })
                .collect();
            let mut out = Vec::new();
            for block in (0..=last).step_by(256) {
                let end = last.min(block + 255);
                let range = block.saturating_sub(48)..=last.min(end + 48);
                let mut b = b.clone();
                for j in range.clone().skip(1) {
                    b[j] = b[j - 1].fma(lower[j - 1], b[j]);
                }
                b[*range.end()] = b[*range.end()] * inverse[*range.end()];
                for j in range.rev().skip(1) {
                    b[j] = b[j + 1].fma(lower[j], b[j] * inverse[j]);
                }
                out.extend(&b[block..=end]);
            }
            out
        });
    }
    let mut now = coarse.zip(&correction, |coarse, correction| coarse - correction);
    for axis in (0..3).filter(|&axis| dims[axis] > 2) {
        let n = dims[axis];
        now = now.along(axis, |r| {
            (0..n)
                .map(|i| match i {
                    _ if i == n - 1 => r[r.len() - 1],
                    _ if i % 2 == 0 => r[i / 2],
                    _ => average(r[i / 2], r[i / 2 + 1]),
                })
                .collect()
        });
    }
    now.zip(detail, |interpolated, detail| interpolated + detail)
}
