//! Local levels: tiles of 8 nodes per dimension, through the phases of `bmgard_core::tile`.

use bmgard_core::Real;
use bmgard_core::tile::{
    COARSE, COARSE_NODES, Geometry, MAX_PAIRS, Quantiser, Row, TILE, correct_columns, decompose_columns, project, recompose_columns,
};
use rayon::prelude::*;

use super::check::{self, Checker};
use super::decode::Segments;
use super::shared::Shared;
use super::simd::simd;
use crate::backend::Verdict;
use crate::plan::{Dims, Level, TILE_DETAILS};
use crate::special::Mask;
use crate::{Result, Value};

/// Forward: the symbols of all tiles' details (tile-major) and the corrected coarse array. Nodes under `mask` and padded ones have the
/// symbol 0.
pub(crate) fn decompose<T: Real>(
    values: &[T],
    level: &Level,
    d: usize,
    mask: Option<&Mask>,
    quantiser: &Quantiser<T>,
    open_loop: bool,
) -> (Vec<T::Symbol>, Vec<T>) {
    match d {
        3 => decompose_as::<T, 8, 8>(values, level, mask, quantiser, open_loop),
        2 => decompose_as::<T, 1, 8>(values, level, mask, quantiser, open_loop),
        _ => decompose_as::<T, 1, 1>(values, level, mask, quantiser, open_loop),
    }
}

/// Inverse: the array that [`decompose`] started from, as the decoder sees it.
pub(crate) fn recompose<T: Real>(symbols: &[T::Symbol], coarse: &[T], level: &Level, d: usize, quantiser: &Quantiser<T>) -> Vec<T> {
    let mut values = vec![T::ZERO; level.dims.iter().product::<u64>() as usize];
    let out = Shared::new(&mut values);
    let task = task_places(level);
    symbols.par_chunks(task).enumerate().for_each(|(index, symbols)| {
        let tiles = Tiles { level, coarse, quantiser: *quantiser, first: index * task / TILE_DETAILS[d] };
        tiles.recompose(d, symbols, &out);
    });
    values
}

/// [`recompose`] into `values`, of symbols that are decoded task by task: they never leave the cache, and take no memory of their own.
///
/// # Errors
/// [`crate::Error::Corrupt`] where bits are no code.
pub(crate) fn decode_and_recompose<T: Real>(
    segments: &Segments<'_>,
    coarse: &[T],
    level: &Level,
    d: usize,
    mask: Option<&Mask>,
    quantiser: &Quantiser<T>,
    values: &mut [T],
) -> Result<()> {
    debug_assert_eq!(values.len() as u64, level.dims.iter().product::<u64>());
    let out = Shared::new(values);
    let task = task_places(level);
    (0..level.places.div_ceil(task)).into_par_iter().try_for_each_init(
        || vec![T::Symbol::default(); task],
        |symbols, index| {
            let symbols = &mut symbols[..task.min(level.places - index * task)];
            segments.decode(level, d, mask, index * TASK, symbols)?;
            let tiles = Tiles { level, coarse, quantiser: *quantiser, first: index * task / TILE_DETAILS[d] };
            tiles.recompose(d, symbols, &out);
            crate::Result::Ok(())
        },
    )
}

/// Checks the values that [`recompose`] would give against the original ones, and keeps none of them.
pub(crate) fn recompose_and_check<'a, T: Value>(
    symbols: &[T::Symbol],
    coarse: &[T],
    level: &Level,
    d: usize,
    quantiser: &Quantiser<T>,
    original: &[T],
    new_checker: impl Fn() -> Checker<'a> + Send + Sync,
) -> Verdict {
    let task = task_places(level);
    let checkers = symbols
        .par_chunks(task)
        .enumerate()
        .fold(new_checker, |mut checker, (index, symbols)| {
            let tiles = Tiles { level, coarse, quantiser: *quantiser, first: index * task / TILE_DETAILS[d] };
            match d {
                3 => check_tiles::<T, 8, 8>(&tiles, symbols, original, &mut checker),
                2 => check_tiles::<T, 1, 8>(&tiles, symbols, original, &mut checker),
                _ => check_tiles::<T, 1, 1>(&tiles, symbols, original, &mut checker),
            }
            checker
        })
        .collect();
    check::verdict(checkers, original)
}

/// Segments of the coded stream that one task works on. A task's tiles follow each other in C order; that is enough tasks for fields of
/// few planes of tiles too.
const TASK: usize = 16;

/// The symbols of a task.
fn task_places(level: &Level) -> usize {
    TASK * level.segment
}

/// The tiles of a task, from tile `first` on.
struct Tiles<'a, T> {
    level: &'a Level,
    coarse: &'a [T],
    quantiser: Quantiser<T>,
    first: usize,
}

impl<T: Real> Tiles<'_, T> {
    fn recompose(&self, d: usize, symbols: &[T::Symbol], out: &Shared<'_, T>) {
        match d {
            3 => recompose_tiles::<T, 8, 8>(self, symbols, out),
            2 => recompose_tiles::<T, 1, 8>(self, symbols, out),
            _ => recompose_tiles::<T, 1, 1>(self, symbols, out),
        }
    }
}

/// A tile's place: the index of its first node per dimension, and of its first node in the coarse array.
fn place<const NZ: usize, const NY: usize>(tile: usize, level: &Level) -> ([usize; 3], usize) {
    let [_, nty, ntx] = level.tiles.map(|n| n as usize);
    let [_, ncy, ncx] = level.coarse.map(|n| n as usize);
    let (tz, ty, tx) = (tile / (nty * ntx), tile / ntx % nty, tile % ntx);
    ([tz * TILE, ty * TILE, tx * TILE], (tz * COARSE * ncy + ty * COARSE) * ncx + tx * COARSE)
}

/// The offset of pair (j, k) of coarse rows in the coarse array, from the tile's first coarse node.
fn pair_offset<const NZ: usize, const NY: usize>(pair: usize, coarse: Dims) -> usize {
    let (j, k) = (pair / Geometry::<NZ, NY>::COARSE_Y, pair % Geometry::<NZ, NY>::COARSE_Y);
    (j * coarse[1] as usize + k) * coarse[2] as usize
}

/// The fine row (z, y) of a pair.
fn pair_row<const NZ: usize, const NY: usize>(pair: usize) -> usize {
    let (j, k) = (pair / Geometry::<NZ, NY>::COARSE_Y, pair % Geometry::<NZ, NY>::COARSE_Y);
    let z = if NZ > 1 { COARSE_NODES[j] } else { 0 };
    let y = if NY > 1 { COARSE_NODES[k] } else { 0 };
    z * NY + y
}

/// The x phase: the correction of a tile's coarse nodes from the sums of its columns; `out(pair, values)`.
#[inline(always)]
fn correct_rows<T: Real, const NZ: usize, const NY: usize>(sums: &[Row<T>; MAX_PAIRS], mut out: impl FnMut(usize, [T; COARSE])) {
    let pairs = Geometry::<NZ, NY>::PAIRS;
    for group in (0..pairs).step_by(TILE) {
        let lanes = (pairs - group).min(TILE);
        let mut columns = [Row::default(); TILE];
        for (x, column) in columns.iter_mut().enumerate() {
            for (lane, value) in column.0.iter_mut().enumerate().take(lanes) {
                *value = sums[group + lane].0[x];
            }
        }
        let projected = project(&columns);
        for lane in 0..lanes {
            out(group + lane, projected.map(|row| row.0[lane]));
        }
    }
}

fn decompose_as<T: Real, const NZ: usize, const NY: usize>(
    values: &[T],
    level: &Level,
    mask: Option<&Mask>,
    quantiser: &Quantiser<T>,
    open_loop: bool,
) -> (Vec<T::Symbol>, Vec<T>) {
    let mut symbols = vec![T::Symbol::default(); level.places];
    let mut coarse = vec![T::ZERO; level.coarse.iter().product::<u64>() as usize];
    let out = Shared::new(&mut coarse);
    let task = task_places(level);
    symbols.par_chunks_mut(task).enumerate().for_each(|(index, symbols)| {
        let first = index * task / Geometry::<NZ, NY>::DETAILS;
        decompose_tiles::<T, NZ, NY>(values, level, mask, quantiser, open_loop, first, symbols, &out);
    });
    (symbols, coarse)
}

simd! {
    fn decompose_tiles<T: Real, const NZ: usize, const NY: usize>(
        values: &[T],
        level: &Level,
        mask: Option<&Mask>,
        quantiser: &Quantiser<T>,
        open_loop: bool,
        first_tile: usize,
        symbols: &mut [T::Symbol],
        coarse: &Shared<'_, T>,
    ) {
        let details = Geometry::<NZ, NY>::DETAILS;
        let dims = level.dims.map(|n| n as usize);
        for (in_task, symbols) in symbols.chunks_exact_mut(details).enumerate() {
            let (origin, corner) = place::<NZ, NY>(first_tile + in_task, level);
            let mut rows = [Row::default(); TILE * TILE];
            gather::<T, NZ, NY>(values, dims, origin, &mut rows);
            let live = Live::<NZ, NY>::new(dims, origin, mask);
            let mut along_x = [Row::default(); MAX_PAIRS];
            for (pair, row) in along_x.iter_mut().enumerate().take(Geometry::<NZ, NY>::PAIRS) {
                *row = rows[pair_row::<NZ, NY>(pair)].interpolated();
            }
            let store = |z: usize, y: usize, row: [T::Symbol; TILE], _: Row<T>| {
                let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as usize;
                if Geometry::<NZ, NY>::is_coarse_row(z, y) {
                    symbols[start..start + 3].copy_from_slice(&[row[1], row[3], row[5]]);
                } else {
                    symbols[start..start + TILE].copy_from_slice(&row);
                }
            };
            let rows = &rows;
            let sums = match &live {
                Live::All => decompose_columns::<_, NZ, NY>(
                    |z, y| rows[z * NY + y],
                    &along_x,
                    |_, _| [true; TILE],
                    quantiser,
                    open_loop,
                    store,
                ),
                Live::Some(flags) => decompose_columns::<_, NZ, NY>(
                    |z, y| rows[z * NY + y],
                    &along_x,
                    |z, y| Live::<NZ, NY>::spread(flags[z * NY + y]),
                    quantiser,
                    open_loop,
                    store,
                ),
            };
            correct_rows::<T, NZ, NY>(&sums, |pair, correction| {
                let row = &rows[pair_row::<NZ, NY>(pair)].0;
                let corrected: [T; COARSE] = std::array::from_fn(|j| row[COARSE_NODES[j]] + correction[j]);
                // SAFETY: these coarse nodes are the tile's own.
                #[allow(unsafe_code, reason = "tiles of one array in parallel")]
                unsafe {
                    coarse.write(corner + pair_offset::<NZ, NY>(pair, level.coarse), &corrected);
                }
            });
        }
    }

    /// Writes the tiles' values to their places.
    fn recompose_tiles<T: Real, const NZ: usize, const NY: usize>(tiles: &Tiles<'_, T>, symbols: &[T::Symbol], out: &Shared<'_, T>) {
        recompose_each::<T, NZ, NY>(tiles, symbols, &mut Store(out));
    }

    /// Checks the tiles' values.
    fn check_tiles<T: Real, const NZ: usize, const NY: usize>(
        tiles: &Tiles<'_, T>,
        symbols: &[T::Symbol],
        original: &[T],
        checker: &mut Checker<'_>,
    ) {
        recompose_each::<T, NZ, NY>(tiles, symbols, &mut Check { original, checker });
    }
}

/// What takes the rows of recomposed tiles. (A closure would not be inlined, and so not be compiled for vectors.)
trait Sink<T> {
    /// Takes the values from node `at` on.
    fn row(&mut self, at: usize, row: &[T]);
}

/// Writes rows to their places.
struct Store<'a, 'b, T>(&'a Shared<'b, T>);

impl<T: Copy> Sink<T> for Store<'_, '_, T> {
    #[inline(always)]
    fn row(&mut self, at: usize, row: &[T]) {
        // SAFETY: these nodes are the tile's own.
        #[allow(unsafe_code, reason = "tiles of one array in parallel")]
        unsafe {
            self.0.write(at, row);
        }
    }
}

/// Checks rows.
struct Check<'a, 'b, T> {
    original: &'a [T],
    checker: &'a mut Checker<'b>,
}

impl<T: Real> Sink<T> for Check<'_, '_, T> {
    #[inline(always)]
    fn row(&mut self, at: usize, row: &[T]) {
        self.checker.check(at, &self.original[at..at + row.len()], row);
    }
}

/// Recomposes tiles, row by row.
#[inline(always)]
fn recompose_each<T: Real, const NZ: usize, const NY: usize>(tiles: &Tiles<'_, T>, symbols: &[T::Symbol], sink: &mut impl Sink<T>) {
    let Tiles { level, coarse, quantiser, first } = tiles;
    let dims = level.dims.map(|n| n as usize);
    for (tile, symbols) in (*first..).zip(symbols.chunks_exact(Geometry::<NZ, NY>::DETAILS)) {
        let (origin, corner) = place::<NZ, NY>(tile, level);
        let mut rows = [Row::default(); TILE * TILE];
        for (index, row) in rows.iter_mut().enumerate().take(Geometry::<NZ, NY>::ROWS) {
            let start = Geometry::<NZ, NY>::ROW_START[index] as usize;
            if Geometry::<NZ, NY>::is_coarse_row(index / NY, index % NY) {
                for (i, x) in [1, 3, 5].into_iter().enumerate() {
                    row.0[x] = quantiser.value(symbols[start + i]);
                }
            } else {
                let symbols = &symbols[start..start + TILE];
                for (x, value) in row.0.iter_mut().enumerate() {
                    *value = quantiser.value(symbols[x]);
                }
            }
        }
        let detail = |z: usize, y: usize| rows[z * NY + y];
        let sums = correct_columns::<_, NZ, NY>(detail);
        let mut along_x = [Row::default(); MAX_PAIRS];
        correct_rows::<T, NZ, NY>(&sums, |pair, correction| {
            let corrected = &coarse[corner + pair_offset::<NZ, NY>(pair, level.coarse)..][..COARSE];
            let mut row = Row::default();
            for j in 0..COARSE {
                row.0[COARSE_NODES[j]] = corrected[j] - correction[j];
            }
            along_x[pair] = row.interpolated();
        });
        let mut recomposed = [Row::default(); TILE * TILE];
        recompose_columns::<_, NZ, NY>(&along_x, detail, |z, y, row| recomposed[z * NY + y] = row);
        let inside = [0, 1, 2].map(|axis| (dims[axis] - origin[axis]).min(TILE));
        for z in 0..inside[0].min(NZ) {
            for y in 0..inside[1].min(NY) {
                let at = ((origin[0] + z) * dims[1] + origin[1] + y) * dims[2] + origin[2];
                let row = &recomposed[z * NY + y].0;
                // A constant length where it can be: no call to copy or compare.
                if inside[2] == TILE { sink.row(at, row) } else { sink.row(at, &row[..inside[2]]) }
            }
        }
    }
}

/// A tile's rows; beyond the array the last plane, row and node repeat.
#[inline(always)]
fn gather<T: Real, const NZ: usize, const NY: usize>(values: &[T], dims: [usize; 3], origin: [usize; 3], rows: &mut [Row<T>; TILE * TILE]) {
    let inside = dims[2] - origin[2];
    for z in 0..NZ {
        let plane = (origin[0] + z).min(dims[0] - 1);
        for y in 0..NY {
            let line = (plane * dims[1] + (origin[1] + y).min(dims[1] - 1)) * dims[2] + origin[2];
            let row = &mut rows[z * NY + y].0;
            if inside >= TILE {
                row.copy_from_slice(&values[line..line + TILE]);
            } else {
                row[..inside].copy_from_slice(&values[line..line + inside]);
                row[inside..].fill(values[line + inside - 1]);
            }
        }
    }
}

/// Which nodes of a tile have coded details: those inside the array and not masked.
pub(super) enum Live<const NZ: usize, const NY: usize> {
    All,
    /// A byte for each row, its first node lowest.
    Some([u8; TILE * TILE]),
}

impl<const NZ: usize, const NY: usize> Live<NZ, NY> {
    pub(super) fn new(dims: [usize; 3], origin: [usize; 3], mask: Option<&Mask>) -> Self {
        let sizes = [NZ, NY, TILE];
        let inside = [0, 1, 2].map(|axis| (dims[axis] - origin[axis]).min(sizes[axis]));
        if inside == sizes && mask.is_none() {
            return Self::All;
        }
        let in_row = u8::MAX >> (TILE - inside[2]);
        let mut rows = [0; TILE * TILE];
        for z in 0..inside[0] {
            for y in 0..inside[1] {
                let line = ((origin[0] + z) * dims[1] + origin[1] + y) * dims[2] + origin[2];
                rows[z * NY + y] = in_row & !mask.map_or(0, |mask| mask.get8(line));
            }
        }
        if rows[..NZ * NY].iter().all(|&row| row == u8::MAX) { Self::All } else { Self::Some(rows) }
    }

    /// A row's flags, spread out.
    #[inline(always)]
    fn spread(row: u8) -> [bool; TILE] {
        std::array::from_fn(|x| row >> x & 1 == 1)
    }
}
