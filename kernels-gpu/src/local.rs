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
use crate::unroll::{each5, each8};

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

/// The offset of pair (j, k) of coarse rows, at coarse column `slot`, in the coarse array.
#[inline(always)]
fn coarse_offset<const NZ: usize, const NY: usize>(level: &LocalLevel, place: &Place, j: usize, k: usize, slot: u32) -> u32 {
    const C: u32 = COARSE as u32;
    let (cz, cy) = (Geometry::<NZ, NY>::COARSE_Z as u32, Geometry::<NZ, NY>::COARSE_Y as u32);
    ((place.at[0] * cz + j as u32) * (level.tiles[1] * cy) + place.at[1] * cy + k as u32) * (level.tiles[2] * C) + place.at[2] * C + slot
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

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn decompose<
    T: Real + warp::WarpShuffleValue + intrinsics::ReadOnlyValue,
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
    let rows = shared::dynamic_shared_mem::<T>();
    let in_quad = warp::lane_id() / TILE as u32;
    // SAFETY: indices are clamped to the array; symbols and coarse nodes belong to the lane's tile, where it exists.
    unsafe {
        let rows = rows.add(warp_in_block() * ROWS);
        let column = place.origin[2].min(level.dims[2] - 1);
        let mut lines = [0u32; TILE];
        each8!(|y| {
            if y < NY {
                lines[y] = (place.origin[1] + y as u32).min(level.dims[1] - 1) * level.dims[2] + column;
            }
        });
        let plane = level.dims[1] * level.dims[2];
        let mut planes = [0u32; TILE];
        each8!(|z| {
            if z < NZ {
                planes[z] = (place.origin[0] + z as u32).min(level.dims[0] - 1) * plane;
            }
        });
        let node = |z: usize, y: usize| intrinsics::load_readonly(values.add((planes[z] + lines[y]) as usize));

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

        let coarse_column = is_coarse(place.x as usize);
        let mut along_x = [T::ZERO; MAX_PAIRS];
        each_pair!(|j, k| {
            let own = node(COARSE_NODES[j], COARSE_NODES[k]);
            if !STAGE {
                // f64 has no registers for them, and its symbols leave this place free.
                *rows.add((j * COARSE + k) * 32 + warp::lane_id() as usize) = own;
            }
            along_x[j * COARSE + k] = interpolate_x(own, coarse_column);
        });

        let tile_symbols = symbols.add((place.tile * Geometry::<NZ, NY>::DETAILS as u32) as usize);
        let staged = (shared::dynamic_shared_mem::<T>().add(WARPS * ROWS) as *mut P).add(warp_in_block() * STAGED);
        let target = if STAGE { staged.add(in_quad as usize * STAGE_STRIDE) } else { tile_symbols };
        let sums = decompose_columns::<T, NZ, NY>(
            // A coarse column's coarse rows are at hand.
            |z, y| {
                let own = along_x[coarse_slot(z) * COARSE + coarse_slot(y)];
                if !Geometry::<NZ, NY>::is_coarse_row(z, y) {
                    node(z, y)
                } else if coarse_column {
                    own
                } else if !STAGE {
                    *rows.add((coarse_slot(z) * COARSE + coarse_slot(y)) * 32 + warp::lane_id() as usize)
                } else {
                    node(z, y)
                }
            },
            &along_x,
            |z, y| live >> (z * NY + y) & 1 == 1,
            &quantiser,
            open_loop != 0,
            |z, y, symbol| {
                let symbol = P::new(symbol);
                let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as u32;
                if Geometry::<NZ, NY>::is_coarse_row(z, y) {
                    if (STAGE || place.exists) && !coarse_column {
                        *target.add((start + place.x / 2) as usize) = symbol;
                    }
                } else if STAGE || place.exists {
                    *target.add((start + place.x) as usize) = symbol;
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
                let (from, to) =
                    (staged.add(tile as usize * STAGE_STRIDE), symbols.add(((place.tile - in_quad + tile) * details) as usize));
                let mut detail = warp::lane_id();
                while detail < details {
                    *to.add(detail as usize) = *from.add(detail as usize);
                    detail += 32;
                }
                tile += 1;
            }
        }
        if place.exists && coarse_column {
            let slot = coarse_slot(place.x as usize) as u32;
            each_pair!(|j, k| {
                let correction = *rows.add((j * COARSE + k) * 32 + warp::lane_id() as usize);
                *coarse.add(coarse_offset::<NZ, NY>(&level, &place, j, k, slot) as usize) = along_x[j * COARSE + k] + correction;
            });
        }
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
    fn index(&self, z: usize, y: usize) -> u32 {
        self.corner + z as u32 * self.plane + y as u32 * self.row
    }
}

/// What becomes of the values that a lane recomposes: it takes the nodes of one y after the other.
trait Sink<T> {
    /// Is told of the nodes before they are computed.
    ///
    /// # Safety
    /// Nodes that are inside exist.
    unsafe fn start<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>);

    /// Takes those of this y.
    ///
    /// # Safety
    /// Nodes that are inside belong to the lane alone.
    unsafe fn take<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>, y: usize, values: &[T; TILE]);
}

/// Stores them.
struct Store<T>(*mut T);

impl<T: Real> Sink<T> for Store<T> {
    #[inline(always)]
    unsafe fn start<const NZ: usize, const NY: usize>(&mut self, _: &Nodes<NZ, NY>) {}

    #[inline(always)]
    unsafe fn take<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>, y: usize, values: &[T; TILE]) {
        each8!(|z| {
            if nodes.inside(z, y) {
                // SAFETY: the node is inside.
                unsafe { *self.0.add(nodes.index(z, y) as usize) = values[z] };
            }
        });
    }
}

/// Compares them with the original ones. With `STASH` those are loaded at the start, many at once, into the warp's shared memory.
struct Compare<T, const STASH: bool> {
    check: Check<T>,
    /// The lane's places there, 32 values apart.
    stash: *mut T,
}

/// Values of shared memory that a warp's stash needs.
const STASHED: usize = TILE * TILE * 32;

impl<T: Real + intrinsics::ReadOnlyValue, const STASH: bool> Sink<T> for Compare<T, STASH> {
    #[inline(always)]
    unsafe fn start<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>) {
        if !STASH {
            return;
        }
        // A loop that is not unrolled, because its end is not known: there are registers for two y at a time.
        let end = if nodes.inside == 0 { 0 } else { NY };
        let mut y = 0;
        while y < end {
            let mut loaded = [[T::ZERO; TILE]; 2];
            // SAFETY: the nodes exist; the places are the lane's own.
            unsafe {
                each8!(|z| {
                    if nodes.inside(z, y) {
                        loaded[0][z] = self.check.original(nodes.index(z, y));
                    }
                    if y + 1 < NY && nodes.inside(z, y + 1) {
                        loaded[1][z] = self.check.original(nodes.index(z, y + 1));
                    }
                });
                each8!(|z| {
                    *self.stash.add((z * TILE + y) * 32) = loaded[0][z];
                    if y + 1 < NY {
                        *self.stash.add((z * TILE + y + 1) * 32) = loaded[1][z];
                    }
                });
            }
            y += 2;
        }
    }

    #[inline(always)]
    unsafe fn take<const NZ: usize, const NY: usize>(&mut self, nodes: &Nodes<NZ, NY>, y: usize, values: &[T; TILE]) {
        let mut originals = *values;
        let mut sure = true;
        // SAFETY: nodes are inside where they are looked at.
        unsafe {
            each8!(|z| {
                if nodes.inside(z, y) {
                    originals[z] = if STASH { *self.stash.add((z * TILE + y) * 32) } else { self.check.original(nodes.index(z, y)) };
                }
            });
            each8!(|z| {
                if nodes.inside(z, y) {
                    sure &= self.check.is_sure(originals[z], values[z]);
                }
            });
            if !sure {
                each8!(|z| {
                    if nodes.inside(z, y) && !self.check.is_sure(originals[z], values[z]) {
                        self.check.look(nodes.index(z, y), originals[z], values[z]);
                    }
                });
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn recompose<T: Real + warp::WarpShuffleValue, P: Stored<T::Symbol>, const NZ: usize, const NY: usize, const KEEP: bool>(
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
        let load = |z: usize, y: usize| {
            let start = Geometry::<NZ, NY>::ROW_START[z * NY + y] as u32;
            if !Geometry::<NZ, NY>::is_coarse_row(z, y) {
                quantiser.value((*symbols.add((start + place.x) as usize)).get())
            } else if coarse_column {
                T::ZERO
            } else {
                quantiser.value((*symbols.add((start + place.x / 2) as usize)).get())
            }
        };
        // The coefficients are needed twice: f32 keeps them in registers, f64 has too few and loads them again.
        let mut details = [T::ZERO; TILE * TILE];
        if KEEP {
            each8!(|z| {
                if z < NZ {
                    each8!(|y| {
                        if y < NY {
                            details[z * TILE + y] = load(z, y);
                        }
                    });
                }
            });
        }
        let detail = |z: usize, y: usize| if KEEP { details[z * TILE + y] } else { load(z, y) };
        let sums = correct_columns::<T, NZ, NY>(detail);
        correct_rows::<T, NZ, NY>(&sums, rows);

        let slot = coarse_slot(place.x as usize) as u32;
        let tile = Place { at: [place.at[0], place.at[1], place.at[2].min(level.tiles[2] - 1)], ..place };
        let mut along_x = [T::ZERO; MAX_PAIRS];
        each_pair!(|j, k| {
            let mut value = T::ZERO;
            if coarse_column {
                let correction = *rows.add((j * COARSE + k) * 32 + warp::lane_id() as usize);
                value = *coarse.add(coarse_offset::<NZ, NY>(&level, &tile, j, k, slot) as usize) - correction;
            }
            along_x[j * COARSE + k] = interpolate_x(value, coarse_column);
        });

        let mut column = [T::ZERO; TILE];
        recompose_columns::<T, NZ, NY>(&along_x, detail, |z, y, value| {
            column[z] = value;
            if z == NZ - 1 {
                sink.take(&nodes, y, &column);
            }
        });
    }
}

macro_rules! kernels {
    ($real:ident, $stored:ident, $nz:literal, $ny:literal, $decompose:ident, $recompose:ident, $check:ident, $stage:literal, $keep:literal, $stash:literal, $blocks:literal) => {
        /// Forward local level: detail coefficients, quantised, and the corrected coarse array.
        ///
        /// `mask` has a bit for each node (32 a word, lowest first), set where the coefficient is not coded, or is null. Symbols are
        /// tile-major (387, 39 or 3 a tile in 3, 2 or 1 dimensions); the coarse array has 5 nodes for each tile and dimension.
        /// `open_loop` != 0: the correction is of the exact coefficients. Symbols must fit
        /// their type.
        ///
        /// Grid: ceil(tiles_z * tiles_y * ceil(tiles_x / 4) / 4) blocks; block: 128 threads. Shared memory, dynamic: 25 x 32 values a
        /// warp, and for f32 4 x 392 symbols a warp after all of those.
        ///
        /// # Safety
        ///
        /// `values` points to the array's nodes, fewer than 2^31; `mask` to ceil(nodes / 32) words or nowhere; `symbols` and `coarse` to
        /// those of all tiles, fewer than 2^31 each.
        #[kernel(max_threads = BLOCK)]
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
            unsafe { recompose::<_, _, $nz, $ny, $keep>(level, symbols, coarse, Quantiser { step, inverse: 0.0 }, &mut Store(values)) }
        }

        /// Inverse local level of which nothing is kept: the values are compared with the original ones ([`Check`]).
        ///
        /// Grid and block as above. Shared memory, dynamic: as above, and for f32 64 x 32 values a warp after all of that.
        ///
        /// # Safety
        ///
        /// As above; `broken` points to a bit for each node.
        #[kernel(max_threads = BLOCK, min_blocks = $blocks)]
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
                let stash = shared::dynamic_shared_mem::<$real>().add(WARPS * ROWS + warp_in_block() * STASHED + warp::lane_id() as usize);
                let mut sink = Compare::<_, $stash> { check: Check::new(values, mask, bound, broken, worst), stash };
                recompose::<_, _, $nz, $ny, $keep>(level, symbols, coarse, Quantiser { step, inverse: 0.0 }, &mut sink);
                sink.check.finish();
            }
        }
    };
}

kernels!(f32, i16, 8, 8, decompose_local_3d_f32_i16, recompose_local_3d_f32_i16, check_local_3d_f32_i16, true, true, true, 3);
kernels!(f32, i32, 8, 8, decompose_local_3d_f32_i32, recompose_local_3d_f32_i32, check_local_3d_f32_i32, true, true, true, 3);
kernels!(f64, i32, 8, 8, decompose_local_3d_f64_i32, recompose_local_3d_f64_i32, check_local_3d_f64_i32, false, false, false, 2);
kernels!(f64, i64, 8, 8, decompose_local_3d_f64_i64, recompose_local_3d_f64_i64, check_local_3d_f64_i64, false, false, false, 2);
kernels!(f32, i16, 1, 8, decompose_local_2d_f32_i16, recompose_local_2d_f32_i16, check_local_2d_f32_i16, true, true, true, 3);
kernels!(f32, i32, 1, 8, decompose_local_2d_f32_i32, recompose_local_2d_f32_i32, check_local_2d_f32_i32, true, true, true, 3);
kernels!(f64, i32, 1, 8, decompose_local_2d_f64_i32, recompose_local_2d_f64_i32, check_local_2d_f64_i32, false, true, false, 2);
kernels!(f64, i64, 1, 8, decompose_local_2d_f64_i64, recompose_local_2d_f64_i64, check_local_2d_f64_i64, false, true, false, 2);
kernels!(f32, i16, 1, 1, decompose_local_1d_f32_i16, recompose_local_1d_f32_i16, check_local_1d_f32_i16, true, true, true, 3);
kernels!(f32, i32, 1, 1, decompose_local_1d_f32_i32, recompose_local_1d_f32_i32, check_local_1d_f32_i32, true, true, true, 3);
kernels!(f64, i32, 1, 1, decompose_local_1d_f64_i32, recompose_local_1d_f64_i32, check_local_1d_f64_i32, false, true, false, 2);
kernels!(f64, i64, 1, 1, decompose_local_1d_f64_i64, recompose_local_1d_f64_i64, check_local_1d_f64_i64, false, true, false, 2);
