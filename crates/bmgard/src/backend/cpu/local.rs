//! Local levels: tiles of 8 nodes per dimension, through the phases of `bmgard_core::tile`.

use bmgard_core::tile::{
    COARSE, COARSE_NODES, Geometry, MAX_PAIRS, Quantiser, Row, TILE, correct_columns, decompose_columns, project, recompose_columns,
};
use bmgard_core::{Real, Symbol};
use rayon::prelude::*;

use super::simd::simd;
use crate::backend::cpu::Mask;
use crate::plan::{Dims, Level};

/// Tiles of a 1-D array that one task works on.
const LINE_TILES: usize = 512;

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
    match d {
        3 => recompose_as::<T, 8, 8>(symbols, coarse, level, quantiser),
        2 => recompose_as::<T, 1, 8>(symbols, coarse, level, quantiser),
        _ => recompose_as::<T, 1, 1>(symbols, coarse, level, quantiser),
    }
}

/// How an array is cut into tasks along its slowest dimension: tiles in a task, fine values in a task, coarse values in a task.
struct Tasks {
    tiles: usize,
    fine: usize,
    coarse: usize,
}

impl Tasks {
    fn new<const NZ: usize, const NY: usize>(level: &Level) -> Self {
        let [_, nty, ntx] = level.tiles.map(|n| n as usize);
        let [_, ny, nx] = level.dims.map(|n| n as usize);
        if NZ > 1 {
            Self { tiles: nty * ntx, fine: TILE * ny * nx, coarse: COARSE * nty * COARSE * ntx * COARSE }
        } else if NY > 1 {
            Self { tiles: ntx, fine: TILE * nx, coarse: COARSE * ntx * COARSE }
        } else {
            Self { tiles: LINE_TILES, fine: LINE_TILES * TILE, coarse: LINE_TILES * COARSE }
        }
    }
}

/// A tile's place: the index of its first node per dimension, and the offset of its first coarse node within the task.
fn place<const NZ: usize, const NY: usize>(tile: usize, level: &Level, in_task: usize) -> ([usize; 3], usize) {
    let [_, nty, ntx] = level.tiles.map(|n| n as usize);
    let (tz, ty, tx) = (tile / (nty * ntx), tile / ntx % nty, tile % ntx);
    let coarse = if NZ > 1 {
        (ty * COARSE * ntx + tx) * COARSE
    } else if NY > 1 {
        tx * COARSE
    } else {
        in_task * COARSE
    };
    ([tz * TILE, ty * TILE, tx * TILE], coarse)
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
    let tasks = Tasks::new::<NZ, NY>(level);
    let mut symbols = vec![T::Symbol::from_i64(0); level.places];
    let mut coarse = vec![T::ZERO; level.coarse.iter().product::<u64>() as usize];
    symbols.par_chunks_mut(tasks.tiles * Geometry::<NZ, NY>::DETAILS).zip(coarse.par_chunks_mut(tasks.coarse)).enumerate().for_each(
        |(task, (symbols, coarse))| {
            decompose_tiles::<T, NZ, NY>(values, level, mask, quantiser, open_loop, task * tasks.tiles, symbols, coarse);
        },
    );
    (symbols, coarse)
}

fn recompose_as<T: Real, const NZ: usize, const NY: usize>(
    symbols: &[T::Symbol],
    coarse: &[T],
    level: &Level,
    quantiser: &Quantiser<T>,
) -> Vec<T> {
    let tasks = Tasks::new::<NZ, NY>(level);
    let mut values = vec![T::ZERO; level.dims.iter().product::<u64>() as usize];
    values
        .par_chunks_mut(tasks.fine)
        .zip(symbols.par_chunks(tasks.tiles * Geometry::<NZ, NY>::DETAILS))
        .zip(coarse.par_chunks(tasks.coarse))
        .enumerate()
        .for_each(|(task, ((values, symbols), coarse))| {
            recompose_tiles::<T, NZ, NY>(symbols, coarse, level, quantiser, task * tasks.tiles, task * tasks.fine, values);
        });
    values
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
        coarse: &mut [T],
    ) {
        let details = Geometry::<NZ, NY>::DETAILS;
        let dims = level.dims.map(|n| n as usize);
        for (in_task, symbols) in symbols.chunks_exact_mut(details).enumerate() {
            let (origin, corner) = place::<NZ, NY>(first_tile + in_task, level, in_task);
            let mut rows = [Row::default(); TILE * TILE];
            gather::<T, NZ, NY>(values, dims, origin, &mut rows);
            let live = Live::<NZ, NY>::new(dims, origin, mask);
            let mut along_x = [Row::default(); MAX_PAIRS];
            for (pair, row) in along_x.iter_mut().enumerate().take(Geometry::<NZ, NY>::PAIRS) {
                *row = rows[pair_row::<NZ, NY>(pair)].interpolated();
            }
            let store = |z: usize, y: usize, row: [T::Symbol; TILE]| {
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
                let out = &mut coarse[corner + pair_offset::<NZ, NY>(pair, level.coarse)..][..COARSE];
                let row = &rows[pair_row::<NZ, NY>(pair)].0;
                for j in 0..COARSE {
                    out[j] = row[COARSE_NODES[j]] + correction[j];
                }
            });
        }
    }

    /// `values` start at node `first_value` of the array, tiles at `first_tile`.
    fn recompose_tiles<T: Real, const NZ: usize, const NY: usize>(
        symbols: &[T::Symbol],
        coarse: &[T],
        level: &Level,
        quantiser: &Quantiser<T>,
        first_tile: usize,
        first_value: usize,
        values: &mut [T],
    ) {
        let details = Geometry::<NZ, NY>::DETAILS;
        let dims = level.dims.map(|n| n as usize);
        for (in_task, symbols) in symbols.chunks_exact(details).enumerate() {
            let (origin, corner) = place::<NZ, NY>(first_tile + in_task, level, in_task);
            let mut rows = [Row::default(); TILE * TILE];
            for (index, row) in rows.iter_mut().enumerate().take(Geometry::<NZ, NY>::ROWS) {
                let start = Geometry::<NZ, NY>::ROW_START[index] as usize;
                if Geometry::<NZ, NY>::is_coarse_row(index / NY, index % NY) {
                    for (i, x) in [1, 3, 5].into_iter().enumerate() {
                        row.0[x] = quantiser.value(symbols[start + i]);
                    }
                } else {
                    for (x, value) in row.0.iter_mut().enumerate() {
                        *value = quantiser.value(symbols[start + x]);
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
            let inside = [0, 1, 2].map(|axis| (dims[axis] - origin[axis]).min(TILE));
            recompose_columns::<_, NZ, NY>(&along_x, detail, |z, y, row| {
                if z < inside[0] && y < inside[1] {
                    let at = ((origin[0] + z) * dims[1] + origin[1] + y) * dims[2] + origin[2] - first_value;
                    values[at..at + inside[2]].copy_from_slice(&row.0[..inside[2]]);
                }
            });
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
