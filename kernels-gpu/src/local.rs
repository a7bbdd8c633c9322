//! Local levels of the projection basis: one kernel takes tiles apart and quantises them, one puts them together again.
//!
//! The numbers are [`bmgard_core::tile`]'s; here is how threads share them. A warp works on 4 tiles that are neighbours along x: lane
//! 8 t + x holds the x column (all z and y) of tile t in registers, so that its loads and stores are whole lines. Neighbours along x are
//! reached by shuffles, and the x dimension of the correction goes through shared memory: a row of 8 sums for each (z, y) pair of coarse
//! rows and each tile, 100 rows to 32 lanes.

use core::num::NonZeroU32;

use bmgard_core::Real;
use bmgard_core::tile::{
    COARSE, COARSE_NODES, Geometry, Lanes, MAX_PAIRS, Quantiser, TILE, coarse_slot, correct_columns, decompose_columns, is_coarse, project,
    recompose_columns,
};
use cuda_std::prelude::*;

use crate::common::Stored;
use crate::field::Check;
use crate::unroll::{each4, each5, each8};

/// Threads of a block.
pub const BLOCK: u32 = 128;
/// Warps of a block.
const WARPS: usize = BLOCK as usize / 32;
/// Tiles of a warp.
const TILES: u32 = 4;
/// Values of a warp's shared rows.
const ROWS: usize = MAX_PAIRS * 32;
/// Words from one staged tile to the next: 8 more than a multiple of 32, so that a row of four tiles meets all banks.
const STAGE_STRIDE: usize = 392;
/// Words of a warp's staged symbols.
const STAGED: usize = STAGE_STRIDE * TILES as usize;

#[inline(always)]
fn warp_in_block() -> usize {
    (thread::thread_idx_x() / 32) as usize
}

/// The array of a local level, and its place in memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LocalLevel {
    /// Nodes, slowest dimension first; fewer than 2^31 in all.
    dims: [u32; 3],
    /// Tiles.
    tiles: [u32; 3],
}

/// A lane's place.
struct Place {
    /// The tile's index; beyond the last along x, its neighbour's.
    tile: u32,
    /// The lane's column within the tile, and whether its tile exists.
    x: u32,
    exists: bool,
    /// Index of the column's first node per dimension.
    origin: [u32; 3],
    /// The tile's index per dimension.
    at: [u32; 3],
}

/// Where the calling lane works; `None` for warps beyond the last.
#[inline(always)]
fn place<const NZ: usize, const NY: usize>(level: &LocalLevel) -> Option<Place> {
    let (warp, lane) = (thread::index_1d() / 32, warp::lane_id());
    let quads = level.tiles[2].div_ceil(TILES);
    if warp >= quads * level.tiles[1] * level.tiles[0] {
        return None;
    }
    // SAFETY: a level has at least one tile per dimension.
    let (quads, rows) = unsafe { (NonZeroU32::new_unchecked(quads), NonZeroU32::new_unchecked(level.tiles[1])) };
    let (row, quad) = (warp / quads, warp % quads);
    let (tz, ty) = (row / rows, row % rows);
    let tx = quad * TILES + lane / TILE as u32;
    let x = lane % TILE as u32;
    let exists = tx < level.tiles[2];
    let tile = row * level.tiles[2] + tx;
    Some(Place { tile, x, exists, origin: [tz * NZ as u32, ty * NY as u32, tx * TILE as u32 + x], at: [tz, ty, tx] })
}

/// The nodes of a lane's column that are inside the array: bit z * NY + y.
#[inline(always)]
fn inside<const NZ: usize, const NY: usize>(level: &LocalLevel, place: &Place) -> u64 {
    let (full_z, full_y) = (NZ as u32, NY as u32);
    let (nz, ny) = ((level.dims[0] - place.origin[0]).min(full_z), (level.dims[1] - place.origin[1]).min(full_y));
    if place.origin[2] >= level.dims[2] {
        return 0;
    }
    if nz == full_z && ny == full_y {
        return u64::MAX;
    }
    let row = (1u64 << ny) - 1;
    let mut bits = 0;
    let mut z = 0;
    while z < nz {
        bits |= row << (full_y * z);
        z += 1;
    }
    bits
}

/// The lane's place in the coarse array: the index of its first coarse node, and the ways along z and y.
#[derive(Clone, Copy)]
struct CoarseNodes {
    corner: u32,
    plane: u32,
    row: u32,
}

impl CoarseNodes {
    #[inline(always)]
    fn new<const NZ: usize, const NY: usize>(level: &LocalLevel, at: [u32; 3], slot: u32) -> Self {
        let (cz, cy) = (Geometry::<NZ, NY>::COARSE_Z as u32, Geometry::<NZ, NY>::COARSE_Y as u32);
        let row = level.tiles[2] * COARSE as u32;
        let plane = level.tiles[1] * cy * row;
        Self { corner: at[0] * cz * plane + at[1] * cy * row + at[2] * COARSE as u32 + slot, plane, row }
    }

    /// The address of the node in pair (j, k) of coarse rows.
    ///
    /// # Safety
    /// It exists.
    #[inline(always)]
    unsafe fn at<T>(&self, coarse: *const T, j: usize, k: usize) -> *const T {
        // SAFETY: the caller's.
        unsafe { coarse.add(self.corner as usize).add(self.plane as usize * j).add(self.row as usize * k) }
    }
}

/// Runs the body for each pair ($j, $k) of coarse rows of the tile.
macro_rules! each_pair {
    (|$j:ident, $k:ident| $body:block) => {
        each5!(|$j| {
            if $j < Geometry::<NZ, NY>::COARSE_Z {
                each5!(|$k| {
                    if $k < Geometry::<NZ, NY>::COARSE_Y $body
                });
            }
        })
    };
}

/// The x dimension of the correction. `sums`: the lane's, one for each pair of coarse rows. On return the warp's shared rows hold at
/// [pair][lane] the correction of the lane's node if its column is coarse.
///
/// # Safety
/// All lanes of the warp call it; `rows` points to the warp's own 25 x 32 values of shared memory.
#[inline(always)]
unsafe fn correct_rows<T: Real, const NZ: usize, const NY: usize>(sums: &[T; MAX_PAIRS], rows: *mut T) {
    let lane = warp::lane_id();
    // SAFETY: pairs are below 25 and lanes below 32; each item is one lane's alone between the barriers.
    unsafe {
        each_pair!(|j, k| {
            *rows.add((j * COARSE + k) * 32 + lane as usize) = sums[j * COARSE + k];
        });
        warp::full::sync();
        let mut item = lane;
        while item < Geometry::<NZ, NY>::PAIRS as u32 * TILES {
            let row = rows.add((item * TILE as u32) as usize);
            let mut values = [T::ZERO; TILE];
            each8!(|x| {
                values[x] = *row.add(x);
            });
            let projected = project(&values);
            each5!(|j| {
                *row.add(COARSE_NODES[j]) = projected[j];
            });
            item += 32;
        }
        warp::full::sync();
    }
}

/// Interpolates along x: columns 1, 3 and 5 of a tile from their neighbours.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn interpolate_x<T: Real + warp::WarpShuffleValue>(value: T, coarse_column: bool) -> T {
    // SAFETY: all lanes of the warp are here.
    let (left, right) = unsafe { (warp::full::shuffle_up(value, 1), warp::full::shuffle_down(value, 1)) };
    if coarse_column { value } else { left.average(right) }
}

/// Values of shared memory that a warp's stash needs: a value for each node of its tiles, lane by lane.
const fn stashed<const NZ: usize, const NY: usize>() -> usize {
    NZ * NY * 32
}

/// What is kept of a coefficient: its symbol, or, where the kernels that quantise are apart, itself.
trait Detail<T: Real>: Copy {
    fn new(symbol: T::Symbol, coefficient: T) -> Self;

    /// The coefficient that it stands for.
    fn value(self, quantiser: &Quantiser<T>) -> T;
}

macro_rules! details {
    ($($real:ident: $($stored:ident)*;)*) => {$(
        impl Detail<$real> for $real {
            #[inline(always)]
            fn new(_: <$real as Real>::Symbol, coefficient: $real) -> Self {
                coefficient
            }

            #[inline(always)]
            fn value(self, _: &Quantiser<$real>) -> $real {
                self
            }
        }

        $(
            impl Detail<$real> for $stored {
                #[inline(always)]
                fn new(symbol: <$real as Real>::Symbol, _: $real) -> Self {
                    Stored::new(symbol)
                }

                #[inline(always)]
                fn value(self, quantiser: &Quantiser<$real>) -> $real {
                    quantiser.value(self.get())
                }
            }
        )*
    )*};
}

details! {
    f32: i16 i32;
    f64: i32 i64;
}

/// Where a warp puts the details of its tiles: where they stay, or, with `STAGE`, in shared memory first.
struct Out<P, const STAGE: bool> {
    /// The lane's places at x and x / 2 of its tile's rows.
    full: *mut P,
    half: *mut P,
    staged: *const P,
    details: *mut P,
    stores: bool,
}

impl<P: Copy, const STAGE: bool> Out<P, STAGE> {
    /// By how much a staged tile's details are further on. Those of half a word lie as they will in memory, where every other tile starts
    /// in the middle of a word.
    #[inline(always)]
    fn odd(tile: u32) -> u32 {
        if size_of::<P>() == 2 { tile % 2 } else { 0 }
    }

    /// # Safety
    /// `details` are those of all tiles, `staged` the warp's shared memory if there is any.
    #[inline(always)]
    unsafe fn new<const NZ: usize, const NY: usize>(place: &Place, details: *mut P, staged: *mut P) -> Self {
        let in_quad = warp::lane_id() / TILE as u32;
        // SAFETY: the caller's; addresses of tiles that do not exist are not used.
        unsafe {
            let target = if STAGE {
                staged.add(in_quad as usize * STAGE_STRIDE + Self::odd(place.tile) as usize)
            } else {
                details.add((place.tile * Geometry::<NZ, NY>::DETAILS as u32) as usize)
            };
            let (full, half) = (target.add(place.x as usize), target.add(place.x as usize / 2));
            Self { full, half, staged, details, stores: STAGE || place.exists }
        }
    }

    /// Puts the lane's detail at (z, y) there, if it has one.
    ///
    /// # Safety
    /// As [`Out::new`].
    #[inline(always)]
    unsafe fn put<const NZ: usize, const NY: usize>(&self, place: &Place, z: usize, y: usize, detail: P) {
        let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as usize;
        // SAFETY: the caller's.
        unsafe {
            if Geometry::<NZ, NY>::is_coarse_row(z, y) {
                if self.stores && !is_coarse(place.x as usize) {
                    *self.half.add(start) = detail;
                }
            } else if self.stores {
                *self.full.add(start) = detail;
            }
        }
    }

    /// Moves what is staged.
    ///
    /// # Safety
    /// As [`Out::new`]; all lanes of the warp call it, behind a barrier.
    #[inline(always)]
    unsafe fn finish<const NZ: usize, const NY: usize>(&self, level: &LocalLevel, place: &Place) {
        if !STAGE {
            return;
        }
        let in_quad = warp::lane_id() / TILE as u32;
        let tiles = (level.tiles[2] - (place.at[2] - in_quad)).min(TILES);
        let details = Geometry::<NZ, NY>::DETAILS as u32;
        let mut tile = 0;
        // SAFETY: the caller's.
        unsafe {
            while tile < tiles {
                let number = place.tile - in_quad + tile;
                let odd = Self::odd(number);
                let (from, to) =
                    (self.staged.add(tile as usize * STAGE_STRIDE + odd as usize), self.details.add((number * details) as usize));
                if size_of::<P>() == 2 {
                    // A tile's details are odd in number: one is single, the first or the last.
                    let (from_words, to_words) = (from.add(odd as usize) as *const u32, to.add(odd as usize) as *mut u32);
                    let mut word = warp::lane_id();
                    while word < details / 2 {
                        *to_words.add(word as usize) = *from_words.add(word as usize);
                        word += 32;
                    }
                    let single = if odd == 1 { 0 } else { details - 1 };
                    if warp::lane_id() == 0 {
                        *to.add(single as usize) = *from.add(single as usize);
                    }
                } else {
                    let mut detail = warp::lane_id();
                    while detail < details {
                        *to.add(detail as usize) = *from.add(detail as usize);
                        detail += 32;
                    }
                }
                tile += 1;
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn decompose<
    T: Real + warp::WarpShuffleValue + intrinsics::AsyncValue,
    P: Stored<T::Symbol>,
    const NZ: usize,
    const NY: usize,
    const STAGE: bool,
>(
    level: LocalLevel,
    values: *const T,
    mask: *const u32,
    quantiser: Quantiser<T>,
    open_loop: u32,
    symbols: *mut P,
    coarse: *mut T,
) {
    let Some(place) = place::<NZ, NY>(&level) else { return };
    let start = shared::dynamic_shared_mem::<T>();
    let in_quad = warp::lane_id() / TILE as u32;
    // SAFETY: indices are clamped to the array; symbols and coarse nodes belong to the lane's tile, where it exists.
    unsafe {
        // The lane's nodes, all under way at once; the shared rows take their place when they are done with.
        let rows = start.add(warp_in_block() * stashed::<NZ, NY>());
        let stash = rows.add(warp::lane_id() as usize);
        let column = place.origin[2].min(level.dims[2] - 1);
        let plane = level.dims[1] * level.dims[2];
        let mut planes = [0u32; TILE];
        each8!(|z| {
            if z < NZ {
                planes[z] = (place.origin[0] + z as u32).min(level.dims[0] - 1) * plane;
            }
        });
        each8!(|y| {
            if y < NY {
                let line = values.add(((place.origin[1] + y as u32).min(level.dims[1] - 1) * level.dims[2] + column) as usize);
                each8!(|z| {
                    if z < NZ {
                        intrinsics::copy_async(stash.add((z * NY + y) * 32), line.add(planes[z] as usize));
                    }
                });
            }
        });
        let node = |z: usize, y: usize| *stash.add((z * NY + y) * 32);

        let mut live = if place.exists { inside::<NZ, NY>(&level, &place) } else { 0 };
        if !mask.is_null() && live != 0 {
            let mut row = 0;
            while row < (NZ * NY) as u32 {
                if live >> row & 1 == 1 {
                    let node = (place.origin[0] + row / NY as u32) * plane + (place.origin[1] + row % NY as u32) * level.dims[2] + column;
                    if *mask.add((node / 32) as usize) >> (node % 32) & 1 == 1 {
                        live &= !(1 << row);
                    }
                }
                row += 1;
            }
        }

        intrinsics::copy_async_wait();
        let coarse_column = is_coarse(place.x as usize);
        let mut along_x = [T::ZERO; MAX_PAIRS];
        each_pair!(|j, k| {
            along_x[j * COARSE + k] = interpolate_x(node(COARSE_NODES[j], COARSE_NODES[k]), coarse_column);
        });

        let tile_symbols = symbols.add((place.tile * Geometry::<NZ, NY>::DETAILS as u32) as usize);
        let staged = (start.add(WARPS * stashed::<NZ, NY>()) as *mut P).add(warp_in_block() * STAGED);
        // Symbols of half a word lie as they will in memory, where every other tile starts in the middle of a word.
        let odd = |tile: u32| if size_of::<P>() == 2 { tile % 2 } else { 0 };
        let target = if STAGE { staged.add(in_quad as usize * STAGE_STRIDE + odd(place.tile) as usize) } else { tile_symbols };
        let (full, half) = (target.add(place.x as usize), target.add(place.x as usize / 2));
        let sums = decompose_columns::<T, NZ, NY>(
            node,
            &along_x,
            |z, y| live >> (z * NY + y) & 1 == 1,
            &quantiser,
            open_loop != 0,
            |z, y, symbol, _| {
                let symbol = P::new(symbol);
                let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as usize;
                if Geometry::<NZ, NY>::is_coarse_row(z, y) {
                    if (STAGE || place.exists) && !coarse_column {
                        *half.add(start) = symbol;
                    }
                } else if STAGE || place.exists {
                    *full.add(start) = symbol;
                }
            },
        );
        correct_rows::<T, NZ, NY>(&sums, rows);

        if STAGE {
            // `correct_rows` ended with a barrier of the warp.
            let tiles = (level.tiles[2] - (place.at[2] - in_quad)).min(TILES);
            let details = Geometry::<NZ, NY>::DETAILS as u32;
            let mut tile = 0;
            while tile < tiles {
                let number = place.tile - in_quad + tile;
                let odd = odd(number);
                let (from, to) = (staged.add(tile as usize * STAGE_STRIDE + odd as usize), symbols.add((number * details) as usize));
                if size_of::<P>() == 2 {
                    // A tile's symbols are odd in number: one is single, the first or the last.
                    let (from_words, to_words) = (from.add(odd as usize) as *const u32, to.add(odd as usize) as *mut u32);
                    let mut word = warp::lane_id();
                    while word < details / 2 {
                        *to_words.add(word as usize) = *from_words.add(word as usize);
                        word += 32;
                    }
                    let single = if odd == 1 { 0 } else { details - 1 };
                    if warp::lane_id() == 0 {
                        *to.add(single as usize) = *from.add(single as usize);
                    }
                } else {
                    let mut detail = warp::lane_id();
                    while detail < details {
                        *to.add(detail as usize) = *from.add(detail as usize);
                        detail += 32;
                    }
                }
                tile += 1;
            }
        }
        if place.exists && coarse_column {
            let nodes = CoarseNodes::new::<NZ, NY>(&level, place.at, coarse_slot(place.x as usize) as u32);
            each_pair!(|j, k| {
                let correction = *rows.add((j * COARSE + k) * 32 + warp::lane_id() as usize);
                *nodes.at(coarse, j, k).cast_mut() = along_x[j * COARSE + k] + correction;
            });
        }
    }
}

/// Takes tiles apart without the quantiser: coefficients, and the coarse array as it was.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn decompose_apart<T: Real + warp::WarpShuffleValue + intrinsics::AsyncValue, const NZ: usize, const NY: usize>(
    level: LocalLevel,
    values: *const T,
    mask: *const u32,
    coefficients: *mut T,
    coarse: *mut T,
) {
    let Some(place) = place::<NZ, NY>(&level) else { return };
    let start = shared::dynamic_shared_mem::<T>();
    // SAFETY: indices are clamped to the array; symbols and coarse nodes belong to the lane's tile, where it exists.
    unsafe {
        // The lane's nodes, all under way at once; the shared rows take their place when they are done with.
        let rows = start.add(warp_in_block() * stashed::<NZ, NY>());
        let stash = rows.add(warp::lane_id() as usize);
        let column = place.origin[2].min(level.dims[2] - 1);
        let plane = level.dims[1] * level.dims[2];
        let mut planes = [0u32; TILE];
        each8!(|z| {
            if z < NZ {
                planes[z] = (place.origin[0] + z as u32).min(level.dims[0] - 1) * plane;
            }
        });
        each8!(|y| {
            if y < NY {
                let line = values.add(((place.origin[1] + y as u32).min(level.dims[1] - 1) * level.dims[2] + column) as usize);
                each8!(|z| {
                    if z < NZ {
                        intrinsics::copy_async(stash.add((z * NY + y) * 32), line.add(planes[z] as usize));
                    }
                });
            }
        });
        let node = |z: usize, y: usize| *stash.add((z * NY + y) * 32);

        let mut live = if place.exists { inside::<NZ, NY>(&level, &place) } else { 0 };
        if !mask.is_null() && live != 0 {
            let mut row = 0;
            while row < (NZ * NY) as u32 {
                if live >> row & 1 == 1 {
                    let node = (place.origin[0] + row / NY as u32) * plane + (place.origin[1] + row % NY as u32) * level.dims[2] + column;
                    if *mask.add((node / 32) as usize) >> (node % 32) & 1 == 1 {
                        live &= !(1 << row);
                    }
                }
                row += 1;
            }
        }

        intrinsics::copy_async_wait();
        let coarse_column = is_coarse(place.x as usize);
        let mut along_x = [T::ZERO; MAX_PAIRS];
        each_pair!(|j, k| {
            along_x[j * COARSE + k] = interpolate_x(node(COARSE_NODES[j], COARSE_NODES[k]), coarse_column);
        });

        let out = Out::<T, false>::new::<NZ, NY>(&place, coefficients, coefficients);
        decompose_columns::<T, NZ, NY>(
            node,
            &along_x,
            |z, y| live >> (z * NY + y) & 1 == 1,
            &Quantiser { step: T::ZERO, inverse: T::ZERO },
            true,
            |z, y, _, coefficient| out.put::<NZ, NY>(&place, z, y, coefficient),
        );
        if place.exists && coarse_column {
            let nodes = CoarseNodes::new::<NZ, NY>(&level, place.at, coarse_slot(place.x as usize) as u32);
            each_pair!(|j, k| {
                *nodes.at(coarse, j, k).cast_mut() = along_x[j * COARSE + k];
            });
        }
    }
}

/// Quantises coefficients and adds the correction to the coarse array.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn quantise<T: Real + intrinsics::ReadOnlyValue, P: Detail<T>, const NZ: usize, const NY: usize, const STAGE: bool>(
    level: LocalLevel,
    coefficients: *const T,
    quantiser: Quantiser<T>,
    open_loop: u32,
    symbols: *mut P,
    coarse: *mut T,
) {
    let Some(place) = place::<NZ, NY>(&level) else { return };
    let start = shared::dynamic_shared_mem::<T>();
    // SAFETY: coefficients, symbols and coarse nodes belong to the lane's tile, where it exists, else to the last one of its row.
    unsafe {
        let rows = start.add(warp_in_block() * ROWS);
        let coarse_column = is_coarse(place.x as usize);
        let last = place.tile - place.at[2] + place.at[2].min(level.tiles[2] - 1);
        let own = coefficients.add((last * Geometry::<NZ, NY>::DETAILS as u32) as usize);
        let (full, half) = (own.add(place.x as usize), own.add(place.x as usize / 2));
        let staged = (start.add(WARPS * ROWS) as *mut P).add(warp_in_block() * STAGED);
        let out = Out::<P, STAGE>::new::<NZ, NY>(&place, symbols, staged);
        let mut kept = [T::ZERO; TILE * TILE];
        each8!(|z| {
            each8!(|y| {
                if z < NZ && y < NY {
                    let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as usize;
                    if !Geometry::<NZ, NY>::is_coarse_row(z, y) {
                        kept[z * TILE + y] = intrinsics::load_readonly(full.add(start));
                    } else if !coarse_column {
                        kept[z * TILE + y] = intrinsics::load_readonly(half.add(start));
                    }
                }
            });
        });
        each8!(|z| {
            each8!(|y| {
                if z < NZ && y < NY {
                    let coefficient = kept[z * TILE + y];
                    let (symbol, quantised) = quantiser.quantise(coefficient);
                    out.put::<NZ, NY>(&place, z, y, P::new(symbol, coefficient));
                    if open_loop == 0 {
                        kept[z * TILE + y] = quantised;
                    }
                }
            });
        });
        let sums = correct_columns::<T, NZ, NY>(|z, y| kept[z * TILE + y]);
        correct_rows::<T, NZ, NY>(&sums, rows);
        out.finish::<NZ, NY>(&level, &place);
        if place.exists && coarse_column {
            let nodes = CoarseNodes::new::<NZ, NY>(&level, place.at, coarse_slot(place.x as usize) as u32);
            each_pair!(|j, k| {
                let node = nodes.at(coarse, j, k).cast_mut();
                *node = *node + *rows.add((j * COARSE + k) * 32 + warp::lane_id() as usize);
            });
        }
    }
}

/// Threads of a block that dequantises.
pub const DEQUANTISE_BLOCK: u32 = 256;

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn dequantise<T: Real, P: Detail<T>>(n: u32, symbols: *const P, quantiser: Quantiser<T>, coefficients: *mut T) {
    let i = thread::index_1d();
    if i < n {
        // SAFETY: the detail exists.
        unsafe { *coefficients.add(i as usize) = (*symbols.add(i as usize)).value(&quantiser) };
    }
}

/// The nodes of a lane's column: the index of the first, the ways along z and y, and which are inside the array.
#[derive(Clone, Copy)]
struct Nodes<const NZ: usize, const NY: usize> {
    corner: u32,
    plane: u32,
    row: u32,
    inside: u64,
}

impl<const NZ: usize, const NY: usize> Nodes<NZ, NY> {
    #[inline(always)]
    fn inside(&self, z: usize, y: usize) -> bool {
        z < NZ && self.inside >> (z * NY + y) & 1 == 1
    }

    #[inline(always)]
    fn index(&self, z: u32, y: u32) -> u32 {
        self.corner + z * self.plane + y * self.row
    }

    /// The node's address in an array.
    ///
    /// # Safety
    /// It is inside.
    #[inline(always)]
    unsafe fn at<T>(&self, values: *const T, z: usize, y: usize) -> *const T {
        // SAFETY: the caller's.
        unsafe { values.add(self.corner as usize).add(self.row as usize * y).add(self.plane as usize * z) }
    }
}

/// What becomes of the values that a lane recomposes: it takes the nodes of one y after the other.
trait Sink<T> {
    /// Is told of the nodes before they are computed.
    ///
    /// # Safety
    /// Nodes that are inside exist.
    unsafe fn start<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>);

    /// Is told that the first are about to be computed.
    fn ready(&mut self);

    /// Takes those of this y.
    ///
    /// # Safety
    /// Nodes that are inside belong to the lane alone.
    unsafe fn take<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>, y: usize, values: &[T; TILE]);

    /// Is told that all were taken.
    ///
    /// # Safety
    /// As [`Sink::take`].
    unsafe fn end<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>);
}

/// Stores them.
struct Store<T>(*mut T);

impl<T: Real> Sink<T> for Store<T> {
    #[inline(always)]
    unsafe fn start<const NZ: usize, const NY: usize>(&mut self, _: &Nodes<NZ, NY>) {}

    #[inline(always)]
    fn ready(&mut self) {}

    #[inline(always)]
    unsafe fn take<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>, y: usize, values: &[T; TILE]) {
        each8!(|z| {
            if nodes.inside(z, y) {
                // SAFETY: the node is inside.
                unsafe { *nodes.at(self.0, z, y).cast_mut() = values[z] };
            }
        });
    }

    #[inline(always)]
    unsafe fn end<const NZ: usize, const NY: usize>(&mut self, _: &Nodes<NZ, NY>) {}
}

/// Compares them with the original ones, which are loaded at the start, all under way at once, into the warp's shared memory. Few need a
/// close look: those take the originals' places there and wait for the end, so that the code for them stands once.
struct Compare<T> {
    check: Check<T>,
    /// The lane's places there, 32 values apart.
    stash: *mut T,
    /// The nodes that wait: bit z * NY + y.
    waiting: u64,
}

impl<T: Real + intrinsics::AsyncValue> Sink<T> for Compare<T> {
    #[inline(always)]
    unsafe fn start<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>) {
        each8!(|y| {
            each8!(|z| {
                if y < NY && nodes.inside(z, y) {
                    // SAFETY: the node exists; the place is the lane's own.
                    unsafe { intrinsics::copy_async(self.stash.add((z * NY + y) * 32), nodes.at(self.check.values, z, y)) };
                }
            });
        });
    }

    #[inline(always)]
    fn ready(&mut self) {
        intrinsics::copy_async_wait();
    }

    #[inline(always)]
    unsafe fn take<const NZ: usize, const NY: usize>(&mut self, _: &Nodes<NZ, NY>, y: usize, values: &[T; TILE]) {
        each8!(|z| {
            if z < NZ {
                // SAFETY: the place is the lane's own. What lies there for nodes outside the array does not matter: they are left out
                // at the end.
                unsafe {
                    let place = self.stash.add((z * NY + y) * 32);
                    if !self.check.is_sure(*place, values[z]) {
                        *place = values[z];
                        self.waiting |= 1 << (z * NY + y);
                    }
                }
            }
        });
    }

    #[inline(always)]
    unsafe fn end<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>) {
        let mut waiting = self.waiting & nodes.inside;
        while waiting != 0 {
            // Several loads under way at once: before the first errors are known, all nodes wait.
            let (mut rows, mut originals) = ([u32::MAX; 4], [T::ZERO; 4]);
            let index = |row: u32| nodes.index(row / NY as u32, row % NY as u32);
            // SAFETY: the nodes are inside.
            unsafe {
                each4!(|k| {
                    if waiting != 0 {
                        rows[k] = waiting.trailing_zeros();
                        waiting &= waiting - 1;
                        originals[k] = self.check.original(index(rows[k]));
                    }
                });
                each4!(|k| {
                    if rows[k] != u32::MAX {
                        self.check.look(index(rows[k]), originals[k], *self.stash.add(rows[k] as usize * 32));
                    }
                });
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn recompose<
    T: Real + warp::WarpShuffleValue + intrinsics::ReadOnlyValue,
    P: Detail<T>,
    const NZ: usize,
    const NY: usize,
    const RELOADED: usize,
>(
    level: LocalLevel,
    symbols: *const P,
    coarse: *const T,
    quantiser: Quantiser<T>,
    sink: &mut impl Sink<T>,
) {
    let Some(place) = place::<NZ, NY>(&level) else { return };
    let rows = shared::dynamic_shared_mem::<T>();
    // SAFETY: symbols and coarse nodes belong to the lane's tile, where it exists, else to the last one of its row.
    unsafe {
        let rows = rows.add(warp_in_block() * ROWS);
        let coarse_column = is_coarse(place.x as usize);
        let (plane, row) = (level.dims[1] * level.dims[2], level.dims[2]);
        let nodes = Nodes::<NZ, NY> {
            corner: place.origin[0] * plane + place.origin[1] * row + place.origin[2],
            plane,
            row,
            inside: if place.exists { inside::<NZ, NY>(&level, &place) } else { 0 },
        };
        sink.start(&nodes);
        let last = place.tile - place.at[2] + place.at[2].min(level.tiles[2] - 1);
        let symbols = symbols.add((last * Geometry::<NZ, NY>::DETAILS as u32) as usize);
        let (full, half) = (symbols.add(place.x as usize), symbols.add(place.x as usize / 2));
        let load = |z: usize, y: usize| {
            let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as usize;
            if !Geometry::<NZ, NY>::is_coarse_row(z, y) {
                (*full.add(start)).value(&quantiser)
            } else if coarse_column {
                T::ZERO
            } else {
                (*half.add(start)).value(&quantiser)
            }
        };
        // The coefficients are needed twice: registers keep them, but for those of the first y that are loaded again where there are too
        // few registers.
        let mut details = [T::ZERO; TILE * TILE];
        each8!(|z| {
            each8!(|y| {
                if z < NZ && y < NY {
                    details[z * TILE + y] = load(z, y);
                }
            });
        });
        let sums = correct_columns::<T, NZ, NY>(|z, y| details[z * TILE + y]);
        correct_rows::<T, NZ, NY>(&sums, rows);

        let slot = coarse_slot(place.x as usize) as u32;
        let at = [place.at[0], place.at[1], place.at[2].min(level.tiles[2] - 1)];
        let coarse_nodes = CoarseNodes::new::<NZ, NY>(&level, at, slot);
        let mut along_x = [T::ZERO; MAX_PAIRS];
        each_pair!(|j, k| {
            let mut value = T::ZERO;
            if coarse_column {
                let correction = *rows.add((j * COARSE + k) * 32 + warp::lane_id() as usize);
                value = intrinsics::load_readonly(coarse_nodes.at(coarse, j, k)) - correction;
            }
            along_x[j * COARSE + k] = interpolate_x(value, coarse_column);
        });

        sink.ready();
        let mut column = [T::ZERO; TILE];
        let detail = |z: usize, y: usize| if y < RELOADED { load(z, y) } else { details[z * TILE + y] };
        recompose_columns::<T, NZ, NY>(&along_x, detail, |z, y, value| {
            column[z] = value;
            if z == NZ - 1 {
                sink.take(&nodes, y, &column);
            }
        });
        sink.end(&nodes);
    }
}

macro_rules! kernels {
    ($real:ident, $stored:ident, $nz:literal, $ny:literal, $decompose:ident, $recompose:ident, $check:ident, $stage:literal, $reloaded:literal, $blocks:literal, $check_reloaded:literal, $check_blocks:literal) => {
        /// Forward local level: detail coefficients, quantised, and the corrected coarse array.
        ///
        /// `mask` has a bit for each node (32 a word, lowest first), set where the coefficient is not coded, or is null. Symbols are
        /// tile-major (387, 39 or 3 a tile in 3, 2 or 1 dimensions), from a multiple of 4 bytes on; the coarse array has 5 nodes for each tile and dimension.
        /// `open_loop` != 0: the correction is of the exact coefficients. Symbols must fit
        /// their type.
        ///
        /// Grid: ceil(tiles_z * tiles_y * ceil(tiles_x / 4) / 4) blocks; block: 128 threads. Shared memory, dynamic: 32 values for each of a
        /// tile's 64, 8 or 1 rows a warp, and for f32 4 x 392 symbols a warp after all of those.
        ///
        /// # Safety
        ///
        /// `values` points to the array's nodes, fewer than 2^31; `mask` to ceil(nodes / 32) words or nowhere; `symbols` and `coarse` to
        /// those of all tiles, fewer than 2^31 each.
        #[kernel(max_threads = BLOCK, min_blocks = $blocks)]
        pub unsafe fn $decompose(
            level: LocalLevel,
            values: *const $real,
            mask: *const u32,
            step: $real,
            inverse: $real,
            open_loop: u32,
            symbols: *mut $stored,
            coarse: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { decompose::<_, _, $nz, $ny, $stage>(level, values, mask, Quantiser { step, inverse }, open_loop, symbols, coarse) }
        }

        /// Inverse local level: the array from symbols and the corrected coarse array.
        ///
        /// Grid and block as the forward kernel's. Shared memory, dynamic: 25 x 32 values a warp.
        ///
        /// # Safety
        ///
        /// As the forward kernel's.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $recompose(level: LocalLevel, symbols: *const $stored, coarse: *const $real, step: $real, values: *mut $real) {
            // SAFETY: the caller's.
            unsafe { recompose::<_, _, $nz, $ny, $reloaded>(level, symbols, coarse, Quantiser { step, inverse: 0.0 }, &mut Store(values)) }
        }

        /// Inverse local level of which nothing is kept: the values are compared with the original ones ([`Check`]).
        ///
        /// Grid and block as above. Shared memory, dynamic: as above, and 32 values for each of a tile's rows a warp after all of that.
        ///
        /// # Safety
        ///
        /// As above; `broken` points to a bit for each node.
        #[kernel(max_threads = BLOCK, min_blocks = $check_blocks)]
        pub unsafe fn $check(
            level: LocalLevel,
            symbols: *const $stored,
            coarse: *const $real,
            step: $real,
            values: *const $real,
            mask: *const u32,
            bound: f64,
            broken: *mut u32,
            worst: *mut u64,
        ) {
            // SAFETY: the caller's.
            unsafe {
                let stash = shared::dynamic_shared_mem::<$real>();
                let stash = stash.add(WARPS * ROWS + warp_in_block() * stashed::<$nz, $ny>() + warp::lane_id() as usize);
                let mut sink = Compare { check: Check::new(values, mask, bound, broken, worst), stash, waiting: 0 };
                recompose::<_, _, $nz, $ny, $check_reloaded>(level, symbols, coarse, Quantiser { step, inverse: 0.0 }, &mut sink);
                sink.check.finish();
            }
        }
    };
}

kernels!(f32, i16, 8, 8, decompose_local_3d_f32_i16, recompose_local_3d_f32_i16, check_local_3d_f32_i16, true, 0, 4, 4, 4);
kernels!(f32, i32, 8, 8, decompose_local_3d_f32_i32, recompose_local_3d_f32_i32, check_local_3d_f32_i32, true, 0, 4, 4, 4);
kernels!(f64, i32, 8, 8, decompose_local_3d_f64_i32, recompose_local_3d_f64_i32, check_local_3d_f64_i32, false, 8, 2, 8, 2);
kernels!(f64, i64, 8, 8, decompose_local_3d_f64_i64, recompose_local_3d_f64_i64, check_local_3d_f64_i64, false, 8, 2, 8, 2);
kernels!(f32, i16, 1, 8, decompose_local_2d_f32_i16, recompose_local_2d_f32_i16, check_local_2d_f32_i16, true, 0, 4, 0, 4);
kernels!(f32, i32, 1, 8, decompose_local_2d_f32_i32, recompose_local_2d_f32_i32, check_local_2d_f32_i32, true, 0, 4, 0, 4);
kernels!(f64, i32, 1, 8, decompose_local_2d_f64_i32, recompose_local_2d_f64_i32, check_local_2d_f64_i32, false, 0, 4, 0, 4);
kernels!(f64, i64, 1, 8, decompose_local_2d_f64_i64, recompose_local_2d_f64_i64, check_local_2d_f64_i64, false, 0, 4, 0, 4);
kernels!(f32, i16, 1, 1, decompose_local_1d_f32_i16, recompose_local_1d_f32_i16, check_local_1d_f32_i16, true, 0, 4, 0, 4);
kernels!(f32, i32, 1, 1, decompose_local_1d_f32_i32, recompose_local_1d_f32_i32, check_local_1d_f32_i32, true, 0, 4, 0, 4);
kernels!(f64, i32, 1, 1, decompose_local_1d_f64_i32, recompose_local_1d_f64_i32, check_local_1d_f64_i32, false, 0, 4, 0, 4);
kernels!(f64, i64, 1, 1, decompose_local_1d_f64_i64, recompose_local_1d_f64_i64, check_local_1d_f64_i64, false, 0, 4, 0, 4);

macro_rules! apart_kernels {
    ($real:ident, $half:ident, $whole:ident, $stage:literal, $reloaded:literal, $blocks:literal, $decompose:ident, $recompose:ident, $quantise_half:ident, $quantise_whole:ident, $dequantise_half:ident, $dequantise_whole:ident) => {
        /// Forward local level without the quantiser: coefficients, tile-major, and the coarse array as it was. What a fused kernel saves
        /// is measured against this one and `quantise_local_..`.
        ///
        /// Grid, block and shared memory as those of the fused kernel, without symbols.
        ///
        /// # Safety
        ///
        /// As there.
        #[kernel(max_threads = BLOCK, min_blocks = $blocks)]
        pub unsafe fn $decompose(level: LocalLevel, values: *const $real, mask: *const u32, coefficients: *mut $real, coarse: *mut $real) {
            // SAFETY: the caller's.
            unsafe { decompose_apart::<$real, 8, 8>(level, values, mask, coefficients, coarse) }
        }

        /// Inverse local level of coefficients instead of symbols.
        ///
        /// Grid, block and shared memory as those of the fused kernel.
        ///
        /// # Safety
        ///
        /// As there.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $recompose(level: LocalLevel, coefficients: *const $real, coarse: *const $real, values: *mut $real) {
            // SAFETY: the caller's.
            unsafe {
                let quantiser = Quantiser { step: 1.0, inverse: 1.0 };
                recompose::<$real, $real, 8, 8, $reloaded>(level, coefficients, coarse, quantiser, &mut Store(values))
            }
        }

        apart_kernels!(@ $real, $half, $stage, $quantise_half, $dequantise_half);
        apart_kernels!(@ $real, $whole, $stage, $quantise_whole, $dequantise_whole);
    };
    (@ $real:ident, $stored:ident, $stage:literal, $quantise:ident, $dequantise:ident) => {
        /// Quantises coefficients, and corrects the coarse array.
        ///
        /// Grid and block as those of the fused kernel. Shared memory, dynamic: 25 x 32 values a warp, and for f32 4 x 392 symbols a warp
        /// after all of those.
        ///
        /// # Safety
        ///
        /// As there.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $quantise(
            level: LocalLevel,
            coefficients: *const $real,
            step: $real,
            inverse: $real,
            open_loop: u32,
            symbols: *mut $stored,
            coarse: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { quantise::<_, _, 8, 8, $stage>(level, coefficients, Quantiser { step, inverse }, open_loop, symbols, coarse) }
        }

        /// Coefficients from symbols.
        ///
        /// Grid: ceil(n / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// Both point to `n` details.
        #[kernel(max_threads = DEQUANTISE_BLOCK)]
        pub unsafe fn $dequantise(n: u32, symbols: *const $stored, step: $real, coefficients: *mut $real) {
            // SAFETY: the caller's.
            unsafe { dequantise(n, symbols, Quantiser { step, inverse: 0.0 }, coefficients) }
        }
    };
}

apart_kernels!(
    f32,
    i16,
    i32,
    true,
    0,
    4,
    decompose_local_apart_f32,
    recompose_local_apart_f32,
    quantise_local_f32_i16,
    quantise_local_f32_i32,
    dequantise_local_f32_i16,
    dequantise_local_f32_i32
);
apart_kernels!(
    f64,
    i32,
    i64,
    false,
    8,
    2,
    decompose_local_apart_f64,
    recompose_local_apart_f64,
    quantise_local_f64_i32,
    quantise_local_f64_i64,
    dequantise_local_f64_i32,
    dequantise_local_f64_i64
);
