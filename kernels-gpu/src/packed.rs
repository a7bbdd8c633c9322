//! Packed tiles of any shape, extents and type, with special values and escapes: a warp works on a tile.
//!
//! The numbers are [`bmgard_core::packed`]'s. What is done for each node stands in tables that the host makes, one for tiles of the same
//! extents. [`crate::packed_volume`] does the inner tiles of 3-D fields of f32 much faster, and leaves the others to these kernels.

use bmgard_core::Real;
use bmgard_core::closed::Quantiser;
use bmgard_core::packed::{Head, NARROW, PART_GROUPS, bias, extent, four, linear, nibble, nibble_width, surplus, three, width};
use cuda_std::atomic::intrinsics::{
    atomic_fetch_add_relaxed_u64_device, atomic_fetch_max_relaxed_u64_device, atomic_fetch_or_relaxed_u32_device,
    atomic_load_relaxed_64_device,
};
use cuda_std::prelude::*;

use crate::common::{load, masked, running_sum, split, store};
use crate::scan::start;

/// Threads of a block.
pub const BLOCK: u32 = 128;
const WARPS: u32 = BLOCK / 32;

/// The symbol of a special value's node.
const MASKED: i32 = i32::MIN;

/// How a chunk is cut into tiles.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Tiles {
    /// Nodes, slowest dimension first; fewer than 2^31 in all.
    pub(crate) dims: [u32; 3],
    /// Tiles.
    pub(crate) tiles: [u32; 3],
    /// The binary logarithms of a full tile's sides.
    pub(crate) log2: [u32; 3],
    /// Different extents along each axis.
    pub(crate) variants: [u32; 3],
}

impl Tiles {
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.tiles[0] * self.tiles[1] * self.tiles[2]
    }
}

/// What is done for one node: its slot, those of the nodes that it is predicted from, and how.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Step {
    slot: u16,
    from: [u16; 4],
    kind: u16,
    padding: [u16; 2],
}

/// Steps of a table, and stages of them that do not depend on each other.
const STEPS: usize = 512;
const STAGES: usize = 31;

/// Tiles of the same extents.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Table<T> {
    weights: [[T; 4]; STEPS],
    steps: [Step; STEPS],
    /// All nodes in C order: z << 24 | y << 19 | x << 9 | slot.
    nodes: [u32; STEPS],
    /// Where stages end, and how many there are.
    stage_ends: [u32; STAGES],
    stages: u32,
    /// A bit for each slot that has a node.
    exists: [u32; 16],
    /// The slots of symbols by position, and where groups end.
    order: [u16; STEPS],
    group_ends: [u16; 32],
}

/// A tile of a chunk.
struct Tile<T> {
    table: *const Table<T>,
    /// The position of its first node, and how far apart planes and rows are.
    first: u32,
    strides: [u32; 2],
    extents: [u32; 3],
}

impl<T> Tile<T> {
    /// # Safety
    /// `tables` has a table for each combination of variants.
    #[inline(always)]
    unsafe fn new(tiles: &Tiles, tables: *const Table<T>, index: u32) -> Self {
        let at = split(index, tiles.tiles);
        let origin = [0, 1, 2].map(|axis| at[axis] << tiles.log2[axis]);
        let extents = [0, 1, 2].map(|axis| (1 << tiles.log2[axis]).min(tiles.dims[axis] - origin[axis]));
        let variant = [0, 1, 2].map(|axis| if extents[axis] >> tiles.log2[axis] > 0 { 0 } else { tiles.variants[axis] - 1 });
        let number = (variant[0] * tiles.variants[1] + variant[1]) * tiles.variants[2] + variant[2];
        let strides = [tiles.dims[1] * tiles.dims[2], tiles.dims[2]];
        // SAFETY: the caller's.
        let table = unsafe { tables.add(number as usize) };
        Self { table, first: origin[0] * strides[0] + origin[1] * strides[1] + origin[2], strides, extents }
    }

    #[inline(always)]
    fn nodes(&self) -> u32 {
        self.extents[0] * self.extents[1] * self.extents[2]
    }

    /// The position and the slot of the i-th node in C order.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    unsafe fn node(&self, i: u32) -> (u32, usize) {
        // SAFETY: the caller's.
        let node = unsafe { (*self.table).nodes[i as usize] };
        let position = self.first + (node >> 24) * self.strides[0] + (node >> 19 & 31) * self.strides[1] + (node >> 9 & 1023);
        (position, (node & 511) as usize)
    }

    /// The position of a slot's node.
    #[inline(always)]
    fn position(&self, tiles: &Tiles, slot: u32) -> u32 {
        let [_, ly, lx] = tiles.log2;
        let slots = [slot >> (ly + lx), slot >> lx & ((1 << ly) - 1), slot & ((1 << lx) - 1)];
        let at = [0, 1, 2].map(|axis| slots[axis].min(self.extents[axis] - 1));
        self.first + at[0] * self.strides[0] + at[1] * self.strides[1] + at[2]
    }
}

/// A warp's shared memory.
struct Own<T> {
    nodes: *mut T,
    symbols: *mut i32,
    /// A bit for each slot: whether its value is stored exactly.
    exact: *mut u32,
    /// The bits of a coded tile but for its escapes.
    words: *mut u32,
}

/// Words of a coded tile but for its escapes, at most.
const WORDS: usize = 504;

/// Bytes of shared memory of a warp, for values of `size` bytes.
const fn own_bytes(size: usize) -> usize {
    512 * (size + 4) + 64 + 4 * WORDS
}

impl<T> Own<T> {
    #[inline(always)]
    fn get() -> Self {
        let warp = (thread::thread_idx_x() / 32) as usize;
        // SAFETY: the launch gives each warp this much.
        unsafe {
            let start = shared::dynamic_shared_mem::<u8>().add(warp * own_bytes(size_of::<T>()));
            let symbols = start.add(512 * size_of::<T>()) as *mut i32;
            let exact = symbols.add(512) as *mut u32;
            Self { nodes: start as *mut T, symbols, exact, words: exact.add(16) }
        }
    }
}

/// A step's prediction.
///
/// # Safety
/// The slots that it is made of are below 512.
#[inline(always)]
unsafe fn predict<T: Real>(step: Step, weights: [T; 4], nodes: *const T) -> T {
    // SAFETY: the caller's.
    unsafe {
        let node = |i: usize| *nodes.add(step.from[i] as usize);
        match step.kind {
            0 => *nodes,
            1 => linear(node(1), node(2), weights[2]),
            2 => three(node(1), node(2), node(3), [weights[1], weights[2], weights[3]]),
            3 => three(node(1), node(2), node(0), [weights[1], weights[2], weights[0]]),
            _ => four([node(0), node(1), node(2), node(3)], weights),
        }
    }
}

/// Where the bits of a lane's group start in a tile, in bits, and the 16-bit units that the tile's parts take with their heads.
///
/// # Safety
/// All lanes of the warp call it; `nibbles` are those of the lane's part.
#[inline(always)]
unsafe fn place(bits: u32, live: bool) -> (u32, u32, u32) {
    let lane = warp::lane_id();
    // SAFETY: all lanes are here.
    unsafe {
        let mut sum = bits;
        let other = warp::full::shuffle_up(sum, 1);
        sum += if lane % 4 >= 1 { other } else { 0 };
        let other = warp::full::shuffle_up(sum, 2);
        sum += if lane % 4 >= 2 { other } else { 0 };
        let halves = warp::full::shuffle(sum, lane | 3).div_ceil(16);
        let ends = running_sum(if lane % 4 == 0 { halves } else { 0 });
        let parts = warp::full::ballot(live);
        let head = 1 + parts.count_ones() / 4;
        (16 * (head + ends - halves) + sum - bits, head + warp::full::shuffle(ends, 31), parts)
    }
}

/// The numbers that encoding adds up: the bits of the worst error, escapes, and whether there are values that only a mask can keep.
pub(crate) const WORST: usize = 0;
const ESCAPES: usize = 1;
const SPECIAL: usize = 2;

/// Raises the bits of a number that is not negative to those of another.
///
/// # Safety
/// `number` points to it, and other threads only raise it.
#[inline(always)]
pub(crate) unsafe fn raise_alone(number: *mut u64, value: f64) {
    // Such numbers are ordered as their bits are.
    // SAFETY: the caller's.
    unsafe {
        if value.to_bits() > atomic_load_relaxed_64_device(number) {
            atomic_fetch_max_relaxed_u64_device(number, value.to_bits());
        }
    }
}

/// [`raise_alone`], to the greatest of the lanes' values.
///
/// # Safety
/// Likewise; all lanes of the warp call it.
#[inline(always)]
unsafe fn raise(number: *mut u64, value: f64) {
    let mut greatest = value;
    // SAFETY: the caller's.
    unsafe {
        let mut lanes = 16;
        while lanes > 0 {
            let other = warp::full::shuffle_xor(greatest, lanes);
            greatest = if other > greatest { other } else { greatest };
            lanes /= 2;
        }
        if warp::lane_id() == 0 {
            raise_alone(number, greatest);
        }
    }
}

/// # Safety
/// As the kernels below; all lanes of the warp call it.
#[inline(always)]
unsafe fn encode<T: Real>(
    tiles: &Tiles,
    tables: *const Table<T>,
    values: *const T,
    mask: *const u32,
    quantiser: &Quantiser<T>,
    bound: f64,
    forbidden: T,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
    anchors: *mut T,
    numbers: *mut u64,
    index: u32,
) {
    let lane = warp::lane_id();
    let own = Own::<T>::get();
    // SAFETY: the caller's; indices are those of the tables; lanes wait for each other before they read what others wrote.
    unsafe {
        let tile = Tile::new(tiles, tables, index);
        let table = &*tile.table;
        let n = tile.nodes();
        warp::full::sync();
        let (mut first, mut special) = (u32::MAX, false);
        let mut i = lane;
        while i < n {
            let (position, slot) = tile.node(i);
            let value = *values.add(position as usize);
            let missing = masked(mask, position);
            *own.nodes.add(slot) = value;
            *own.symbols.add(slot) = if missing { MASKED } else { 0 };
            if !missing {
                first = first.min(i);
                special |= !value.is_finite();
            }
            i += 32;
        }
        if lane < 16 {
            *own.exact.add(lane as usize) = 0;
        }
        let first = warp::full::reduce_min(first);
        if warp::full::any(special) && lane == 0 {
            atomic_fetch_max_relaxed_u64_device(numbers.add(SPECIAL), 1);
        }
        warp::full::sync();
        if first == u32::MAX {
            if lane == 0 {
                *anchors.add(index as usize) = T::ZERO;
                *lengths.add(index as usize) = 0;
            }
            return;
        }
        if lane == 0 {
            let (_, slot) = tile.node(first);
            let anchor = *own.nodes.add(slot);
            *own.nodes = anchor;
            *own.symbols = 0;
            *anchors.add(index as usize) = anchor;
        }
        warp::full::sync();

        let mut worst = 0.0f64;
        let (mut stage, mut begin) = (0, 0);
        while stage < table.stages {
            let end = table.stage_ends[stage as usize];
            let mut i = begin + lane;
            while i < end {
                let step = table.steps[i as usize];
                let slot = step.slot as usize;
                let prediction = predict(step, table.weights[i as usize], own.nodes);
                let value = *own.nodes.add(slot);
                if *own.symbols.add(slot) == MASKED {
                    *own.symbols.add(slot) = 0;
                    *own.nodes.add(slot) = quantiser.missing(prediction);
                } else {
                    let (symbol, reconstructed, fits) = quantiser.quantise(value, prediction);
                    let error = Real::abs(value.to_f64() - reconstructed.to_f64());
                    if fits && error <= bound && reconstructed != forbidden {
                        *own.symbols.add(slot) = symbol;
                        *own.nodes.add(slot) = reconstructed;
                        let error = (value - reconstructed).abs().to_f64();
                        let error = if error < bound { error } else { bound };
                        worst = if error > worst { error } else { worst };
                    } else {
                        shared::atomic_or_u32(own.exact.add(slot / 32), 1 << (slot % 32));
                    }
                }
                i += 32;
            }
            warp::full::sync();
            begin = end;
            stage += 1;
        }

        let escapes = warp::full::reduce_add(if lane < 16 { (*own.exact.add(lane as usize)).count_ones() } else { 0 });
        let group = [if lane == 0 { 0 } else { table.group_ends[lane as usize - 1] as u32 }, table.group_ends[lane as usize] as u32];
        let (mut extents, mut any) = (0, 0);
        let mut i = group[0];
        while i < group[1] {
            let symbol = *own.symbols.add(table.order[i as usize] as usize);
            extents |= extent(symbol);
            any |= symbol;
            i += 1;
        }
        let needed = width(extents, any != 0);
        let more = surplus(warp::full::reduce_max(needed));
        let nib = nibble(needed, more);
        let width = nibble_width(nib, more);
        let mut nibbles = nib << (4 * (lane % PART_GROUPS as u32));
        nibbles |= warp::full::shuffle_xor(nibbles, 1);
        nibbles |= warp::full::shuffle_xor(nibbles, 2);
        let (at, halves, live) = place(width * (group[1] - group[0]), nibbles != 0);
        let words = halves.div_ceil(2);
        let size = size_of::<T>() as u32 / 4;
        let escape_words = if escapes > 0 { (2 + 2 * escapes).div_ceil(4) + escapes * size } else { 0 };
        let slot = slots.add(index as usize * slot_words as usize);
        let length;
        if escapes == 0 && live == 0 {
            length = 0;
        } else if words + escape_words >= n * size {
            length = n * size;
            let mut i = lane;
            while i < n {
                store((slot as *mut T).add(i as usize), *values.add(tile.node(i).0 as usize));
                i += 32;
            }
        } else {
            length = words + escape_words;
            let mut i = lane;
            while i < words {
                *own.words.add(i as usize) = 0;
                i += 32;
            }
            warp::full::sync();
            // A bit for each part, of the four that its lanes give.
            let mut parts = 0;
            let mut part = 0;
            while part < 8 {
                parts |= (live >> (4 * part) & 1) << part;
                part += 1;
            }
            if lane == 0 {
                let head = Head { live: parts, surplus: more, escapes: escapes > 0 };
                shared::atomic_or_u32(own.words, head.to_bits() as u32);
            }
            if lane % 4 == 0 && nibbles != 0 {
                let half = 1 + (parts & ((1 << (lane / 4)) - 1)).count_ones();
                shared::atomic_or_u32(own.words.add((half / 2) as usize), nibbles << (16 * (half % 2)));
            }
            if width > 0 {
                let (mut word, mut fill, mut pending) = (at / 32, at % 32, 0u64);
                let mut i = group[0];
                while i < group[1] {
                    let symbol = *own.symbols.add(table.order[i as usize] as usize);
                    pending |= (symbol.wrapping_add(bias(width) as i32) as u32 as u64) << fill;
                    fill += width;
                    if fill >= 32 {
                        shared::atomic_or_u32(own.words.add(word as usize), pending as u32);
                        pending >>= 32;
                        word += 1;
                        fill -= 32;
                    }
                    i += 1;
                }
                if fill > 0 {
                    shared::atomic_or_u32(own.words.add(word as usize), pending as u32);
                }
            }
            warp::full::sync();
            let mut i = lane;
            while i < words {
                *slot.add(i as usize) = *own.words.add(i as usize);
                i += 32;
            }
            if escapes > 0 {
                let list = slot.add(words as usize) as *mut u16;
                let exact = slot.add((words + (2 + 2 * escapes).div_ceil(4)) as usize) as *mut T;
                if lane == 0 {
                    *list = escapes as u16;
                    if escapes % 2 == 0 {
                        *list.add(1 + escapes as usize) = 0;
                    }
                }
                let (mut before, mut word) = (0, 0);
                while word < 16 {
                    let flags = *own.exact.add(word);
                    if flags >> lane & 1 == 1 {
                        let i = (before + (flags & warp::lanemask_lt()).count_ones()) as usize;
                        *list.add(1 + i) = (32 * word as u32 + lane) as u16;
                        store(exact.add(i), *own.nodes.add(32 * word + lane as usize));
                    }
                    before += flags.count_ones();
                    word += 1;
                }
            }
        }
        // A raw tile has no errors.
        let coded = length < n * size;
        raise(numbers.add(WORST), if coded { worst } else { 0.0 });
        if lane == 0 {
            *lengths.add(index as usize) = length as u16;
            if coded && escapes > 0 {
                atomic_fetch_add_relaxed_u64_device(numbers.add(ESCAPES), escapes as u64);
            }
        }
    }
}

/// # Safety
/// As the kernels below; all lanes of the warp call it.
#[inline(always)]
unsafe fn decode<T: Real>(
    tiles: &Tiles,
    tables: *const Table<T>,
    quantiser: &Quantiser<T>,
    payload: *const u32,
    payload_words: u64,
    lengths: *const u16,
    offsets: *const u32,
    bases: *const u64,
    anchors: *const T,
    mask: *const u32,
    values: *mut T,
    index: u32,
) -> bool {
    let lane = warp::lane_id();
    let own = Own::<T>::get();
    // SAFETY: the caller's; nothing is read of the payload beyond the tile's words, which are inside; slots are checked where archives may
    // lie; lanes wait for each other before they read what others wrote.
    unsafe {
        let tile = Tile::new(tiles, tables, index);
        let table = &*tile.table;
        let n = tile.nodes();
        let size = size_of::<T>() as u32 / 4;
        let length = *lengths.add(index as usize) as u32;
        let at = start(offsets, bases, index);
        if length > n * size || at + length as u64 > payload_words {
            return false;
        }
        let words = payload.add(at as usize);
        warp::full::sync();
        if length == n * size {
            let mut i = lane;
            while i < n {
                *values.add(tile.node(i).0 as usize) = load((words as *const T).add(i as usize));
                i += 32;
            }
            return true;
        }
        let mut i = lane;
        while i < 512 {
            *own.symbols.add(i as usize) = 0;
            i += 32;
        }
        if lane < 16 {
            *own.exact.add(lane as usize) = 0;
        }
        if lane == 0 {
            *own.nodes = load(anchors.add(index as usize));
        }
        warp::full::sync();
        if length > 0 {
            let half = |i: u32| *words.add((i / 2) as usize) >> (16 * (i % 2)) & 0xFFFF;
            let Some(head) = Head::from_bits(half(0) as u16) else { return false };
            let part = lane / 4;
            let live = head.live >> part & 1 == 1;
            let i = 1 + (head.live & ((1 << part) - 1)).count_ones();
            let inside = !live || i < 2 * length;
            if !warp::full::all(inside) {
                return false;
            }
            let nibbles = if live { half(i) } else { 0 };
            let width = nibble_width(nibbles >> (4 * (lane % 4)) & NARROW, head.surplus);
            let group = [if lane == 0 { 0 } else { table.group_ends[lane as usize - 1] as u32 }, table.group_ends[lane as usize] as u32];
            let (bit, halves, _) = place(width * (group[1] - group[0]), live);
            let coded = halves.div_ceil(2);
            if coded > length || !head.escapes && coded != length {
                return false;
            }
            if width > 0 {
                let (mut word, mut used) = (bit / 32, bit % 32);
                let mut i = group[0];
                while i < group[1] {
                    let low = *words.add(word as usize) >> used;
                    let high = if used + width > 32 { *words.add(word as usize + 1) << (32 - used) } else { 0 };
                    let coded = (low | high) & ((1u32 << width) - 1);
                    *own.symbols.add(table.order[i as usize] as usize) = coded.wrapping_sub(bias(width)) as i32;
                    used += width;
                    word += used / 32;
                    used %= 32;
                    i += 1;
                }
            }
            if head.escapes {
                if coded >= length {
                    return false;
                }
                let count = half(2 * coded);
                let list_words = (2 + 2 * count).div_ceil(4);
                if count == 0 || coded + list_words + count * size != length {
                    return false;
                }
                let exact = words.add((coded + list_words) as usize) as *const T;
                let mut good = true;
                let mut i = lane;
                while i < count {
                    let slot = half(2 * coded + 1 + i);
                    let before = if i > 0 { half(2 * coded + i) } else { 0 };
                    let exists = slot < 512 && table.exists[(slot / 32 % 16) as usize] >> (slot % 32) & 1 == 1;
                    if exists && before < slot {
                        *own.nodes.add(slot as usize) = load(exact.add(i as usize));
                        shared::atomic_or_u32(own.exact.add(slot as usize / 32), 1 << (slot % 32));
                    } else {
                        good = false;
                    }
                    i += 32;
                }
                if !warp::full::all(good) {
                    return false;
                }
            }
            warp::full::sync();
        }

        let (mut stage, mut begin) = (0, 0);
        while stage < table.stages {
            let end = table.stage_ends[stage as usize];
            let mut i = begin + lane;
            while i < end {
                let step = table.steps[i as usize];
                let slot = step.slot as usize;
                if *own.exact.add(slot / 32) >> (slot % 32) & 1 == 0 {
                    let prediction = predict(step, table.weights[i as usize], own.nodes);
                    *own.nodes.add(slot) = if !mask.is_null() && masked(mask, tile.position(tiles, slot as u32)) {
                        quantiser.missing(prediction)
                    } else {
                        quantiser.reconstruct(*own.symbols.add(slot), prediction)
                    };
                }
                i += 32;
            }
            warp::full::sync();
            begin = end;
            stage += 1;
        }
        let mut i = lane;
        while i < n {
            let (position, slot) = tile.node(i);
            *values.add(position as usize) = *own.nodes.add(slot);
            i += 32;
        }
    }
    true
}

/// Runs the body for the numbers of the tiles that are left: those of a list, or all.
macro_rules! each_tile {
    ($tiles:expr, $list:expr, $listed:expr, |$index:ident| $body:expr) => {{
        let mut i = thread::block_idx_x() * WARPS + thread::thread_idx_x() / 32;
        let all = $list.is_null();
        let count = if all { $tiles.count() } else { *$listed };
        while i < count {
            let $index = if all { i } else { *$list.add(i as usize) };
            $body;
            i += thread::grid_dim_x() * WARPS;
        }
    }};
}

macro_rules! kernels {
    ($real:ident, $encode:ident, $decode:ident) => {
        /// Codes tiles. Words go to the tile's slot, their number to `lengths`. To `numbers` go the greatest bits of an error, how many
        /// values are escaped, and 1 if a value is not finite and not masked.
        ///
        /// Grid: any; block: 128 threads. Shared memory: 4 times 512 values, 512 words, 80 and 504 words, dynamic.
        ///
        /// # Safety
        ///
        /// `tables` points to a table for each combination of extents, `values` to the chunk's values, `mask` to a bit for each, or is
        /// null; `slots` to `slot_words` words for each tile, as many as its values have; `lengths` and `anchors` to a place for each,
        /// `numbers` to three. `list` points to the numbers of `listed` tiles, or is null: then all are coded.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $encode(
            tiles: Tiles,
            tables: *const Table<$real>,
            values: *const $real,
            mask: *const u32,
            step: $real,
            inverse: $real,
            bound: f64,
            forbidden: $real,
            slots: *mut u32,
            slot_words: u32,
            lengths: *mut u16,
            anchors: *mut $real,
            numbers: *mut u64,
            list: *const u32,
            listed: *const u32,
        ) {
            let quantiser = Quantiser { step, inverse };
            // SAFETY: the caller's; a warp's lanes go the same way.
            unsafe {
                each_tile!(tiles, list, listed, |index| encode(
                    &tiles, tables, values, mask, &quantiser, bound, forbidden, slots, slot_words, lengths, anchors, numbers, index
                ));
            }
        }

        /// The inverse. `bad` is set where a tile is not one.
        ///
        /// Grid: any; block: 128 threads. Shared memory: as above.
        ///
        /// # Safety
        ///
        /// As above; `payload` points to `payload_words` words, `offsets` and `bases` are what [`crate::scan`] makes of the lengths;
        /// `anchors` may be at any byte address.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $decode(
            tiles: Tiles,
            tables: *const Table<$real>,
            step: $real,
            payload: *const u32,
            payload_words: u64,
            lengths: *const u16,
            offsets: *const u32,
            bases: *const u64,
            anchors: *const $real,
            mask: *const u32,
            values: *mut $real,
            bad: *mut u32,
            list: *const u32,
            listed: *const u32,
        ) {
            let quantiser = Quantiser { step, inverse: <$real>::ZERO };
            // SAFETY: the caller's; a warp's lanes go the same way.
            unsafe {
                each_tile!(tiles, list, listed, |index| {
                    let good =
                        decode(&tiles, tables, &quantiser, payload, payload_words, lengths, offsets, bases, anchors, mask, values, index);
                    if !good && warp::lane_id() == 0 {
                        atomic_fetch_or_relaxed_u32_device(bad, 1);
                    }
                });
            }
        }
    };
}

kernels!(f32, packed_encode_f32, packed_decode_f32);
kernels!(f64, packed_encode_f64, packed_decode_f64);
