//! Closed tiles: prediction and quantisation, forward and back.
//!
//! The numbers are [`bmgard_core::closed`]'s; here is how threads share them. A block works on a tile. The reconstructed values of its
//! closed box are in shared memory; a class after the other is predicted from them and added to them, a thread working on every so many
//! nodes. Nodes on far faces are computed as their owners compute them, so that no block waits for another.
//!
//! A tile's symbols lie in the order in which [`crate::rice`] codes them. [`ESCAPED`] stands for a value that is stored exactly.

use bmgard_core::Real;
use bmgard_core::closed::predict::{self, Neighbours};
use bmgard_core::closed::{Anchors, Kind, Predictor, Quantiser, Side, TILE_NODES};
use cuda_std::atomic::intrinsics::{
    atomic_fetch_add_relaxed_u32_device, atomic_fetch_add_relaxed_u64_device, atomic_fetch_max_relaxed_u64_device,
    atomic_load_relaxed_32_device, atomic_load_relaxed_64_device, atomic_store_relaxed_32_device,
};
use cuda_std::prelude::*;

use crate::anchors;
use crate::common::{masked, split};
use crate::unroll::{each3, each10};

/// Threads of a block.
pub const BLOCK: u32 = 128;

/// The symbol of a value that is stored exactly.
pub const ESCAPED: i32 = i32::MIN;

/// How a chunk is cut into tiles.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Tiles {
    /// Nodes, slowest dimension first; fewer than 2^31 in all.
    dims: [u32; 3],
    /// Tiles.
    tiles: [u32; 3],
    /// The binary logarithms of a tile's sides.
    log2: [u32; 3],
    /// The number of classes.
    pub(crate) classes: u32,
}

/// A class, and its nodes in the list of all.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Class {
    level: u32,
    axes: u32,
    /// The predictor's code.
    pub(crate) predictor: u32,
    /// The end of its nodes, which start where those of the class before end.
    end: u32,
}

/// A node of a full closed box: z << 21 | y << 13 | x, and its place in the box << 12 | the position of its symbol.
pub type Node = u64;

/// A node as it is worked on.
#[derive(Clone, Copy)]
struct At {
    /// Counted from the tile's first node.
    node: [u32; 3],
    /// In shared memory.
    place: usize,
    /// Its symbol's among those of the tile that owns it.
    position: u32,
}

impl At {
    #[inline(always)]
    fn new(node: Node) -> Self {
        let (low, high) = (node as u32, (node >> 32) as u32);
        Self { node: [low >> 21, low >> 13 & 0xFF, low & 0x1FFF], place: (high >> 12) as usize, position: high & 0xFFF }
    }
}

/// A tile of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    all: Tiles,
    /// In the grid of tiles.
    pub(crate) at: [u32; 3],
    /// The first node, and how many the tile owns.
    origin: [u32; 3],
    pub(crate) owned: [u32; 3],
}

impl Tile {
    #[inline(always)]
    pub(crate) fn new(all: Tiles, index: u32) -> Self {
        let at = split(index, all.tiles);
        let origin = [0, 1, 2].map(|axis| at[axis] << all.log2[axis]);
        let owned = [0, 1, 2].map(|axis| (1 << all.log2[axis]).min(all.dims[axis] - origin[axis]));
        Self { all, at, origin, owned }
    }

    /// Tiles of a chunk.
    #[inline(always)]
    pub(crate) fn count(all: &Tiles) -> u32 {
        all.tiles[0] * all.tiles[1] * all.tiles[2]
    }

    /// Where the first node of a tile is in the chunk.
    #[inline(always)]
    pub(crate) fn first_node(all: &Tiles, at: [u32; 3]) -> u32 {
        let [z, y, x] = [0, 1, 2].map(|axis| at[axis] << all.log2[axis]);
        (z * all.dims[1] + y) * all.dims[2] + x
    }

    /// Whether a node, counted from the tile's first one, is the tile's.
    #[inline(always)]
    pub(crate) fn owns(&self, node: [u32; 3]) -> bool {
        node[0] < self.owned[0] && node[1] < self.owned[1] && node[2] < self.owned[2]
    }

    /// The nodes that the tile owns.
    #[inline(always)]
    pub(crate) fn nodes(&self) -> u32 {
        self.owned[0] * self.owned[1] * self.owned[2]
    }

    /// Where a node, counted from the tile's first one, is in the chunk.
    #[inline(always)]
    pub(crate) fn index(&self, node: [u32; 3]) -> u32 {
        let [z, y, x] = [0, 1, 2].map(|axis| self.origin[axis] + node[axis]);
        (z * self.all.dims[1] + y) * self.all.dims[2] + x
    }

    /// A node of a full tile in C order.
    #[inline(always)]
    pub(crate) fn node(&self, index: u32) -> [u32; 3] {
        let [_, ly, lx] = self.all.log2;
        [index >> (ly + lx), index >> lx & ((1 << ly) - 1), index & ((1 << lx) - 1)]
    }

    /// The i-th of the nodes that the tile owns.
    #[inline(always)]
    pub(crate) fn own_node(&self, i: u32) -> [u32; 3] {
        split(i, self.owned)
    }

    /// The greatest index in the closed box along each axis.
    #[inline(always)]
    fn last(&self) -> [u32; 3] {
        [0, 1, 2].map(|axis| {
            let log2 = self.all.log2[axis];
            let last = if log2 == 0 { 0 } else { 1 << log2 };
            last.min(self.all.dims[axis] - 1 - self.origin[axis])
        })
    }

    /// The number of the tile that owns a node of the closed box.
    #[inline(always)]
    fn owner(&self, node: [u32; 3]) -> u32 {
        let [z, y, x] = [0, 1, 2].map(|axis| self.at[axis] + (node[axis] >> self.all.log2[axis]));
        (z * self.all.tiles[1] + y) * self.all.tiles[2] + x
    }
}

/// The reconstructed values of a closed box.
#[derive(Clone, Copy)]
struct Values<T> {
    values: *mut T,
    last: [u32; 3],
    strides: [u32; 3],
}

impl<T: Real> Values<T> {
    #[inline(always)]
    fn new(tile: &Tile) -> Self {
        let extent = |axis: usize| (1 << tile.all.log2[axis]) + u32::from(tile.all.log2[axis] > 0);
        Self { values: shared::dynamic_shared_mem(), last: tile.last(), strides: [extent(1) * extent(2), extent(2), 1] }
    }

    #[inline(always)]
    fn place(&self, node: [u32; 3]) -> usize {
        (node[0] * self.strides[0] + node[1] * self.strides[1] + node[2]) as usize
    }

    #[inline(always)]
    fn contains(&self, node: [u32; 3]) -> bool {
        node[0] <= self.last[0] && node[1] <= self.last[1] && node[2] <= self.last[2]
    }

    /// # Safety
    /// The node is in the box.
    #[inline(always)]
    unsafe fn neighbours<const AXIS: usize>(&self, at: &At, level: u32) -> Neighbours<T> {
        let (index, last, spacing) = (at.node[AXIS], self.last[AXIS], 1 << level);
        let stride = (self.strides[AXIS] << level) as usize;
        let side = Side { before3: index > 2 * spacing, after1: index + spacing <= last, after3: index + 3 * spacing <= last };
        // SAFETY: those that are looked at are in the box.
        let values = unsafe {
            let near = self.values.add(at.place).sub(stride);
            [
                if side.before3 { *near.sub(2 * stride) } else { T::ZERO },
                *near,
                if side.after1 { *near.add(2 * stride) } else { T::ZERO },
                if side.after3 { *near.add(4 * stride) } else { T::ZERO },
            ]
        };
        Neighbours { values, side }
    }

    /// The odd axes of a node.
    ///
    /// # Safety
    /// The node is in the box, and of the class with the odd axes `AXES`.
    #[inline(always)]
    unsafe fn axes<const AXES: u32>(&self, at: &At, level: u32) -> [Option<Neighbours<T>>; 3] {
        // SAFETY: the caller's.
        unsafe {
            [
                if AXES & 1 == 1 { Some(self.neighbours::<0>(at, level)) } else { None },
                if AXES & 2 == 2 { Some(self.neighbours::<1>(at, level)) } else { None },
                if AXES & 4 == 4 { Some(self.neighbours::<2>(at, level)) } else { None },
            ]
        }
    }

    /// The sum of the nodes one spacing away along both of two axes.
    ///
    /// # Safety
    /// They are in the box.
    #[inline(always)]
    unsafe fn corners(&self, at: &At, level: u32, a: usize, b: usize) -> T {
        let (a, b) = ((self.strides[a] << level) as usize, (self.strides[b] << level) as usize);
        // SAFETY: the caller's.
        unsafe {
            let first = self.values.add(at.place).sub(a + b);
            predict::corners(*first, *first.add(2 * b), *first.add(2 * a), *first.add(2 * (a + b)))
        }
    }

    /// # Safety
    /// The node is in the box, and of the class with the odd axes `AXES`; its predictor has this code.
    #[inline(always)]
    unsafe fn predict<const AXES: u32>(&self, code: u32, at: &At, level: u32) -> T {
        const MEAN: u32 = Predictor::Mean.code() as u32;
        const COONS: u32 = Predictor::Coons.code() as u32;
        // SAFETY: the caller's.
        unsafe {
            if code < MEAN {
                let kind = if code & 4 == 0 { Kind::Linear } else { Kind::Cubic };
                return match code & 3 {
                    0 if AXES & 1 == 1 => self.neighbours::<0>(at, level).predict(kind),
                    1 if AXES & 2 == 2 => self.neighbours::<1>(at, level).predict(kind),
                    _ if AXES & 4 == 4 => self.neighbours::<2>(at, level).predict(kind),
                    _ => T::ZERO,
                };
            }
            let axes = self.axes::<AXES>(at, level);
            let corner = |a: usize, b: usize| self.corners(at, level, a, b);
            if code == COONS { predict::predict(Predictor::Coons, &axes, corner) } else { predict::predict(Predictor::Mean, &axes, corner) }
        }
    }
}

/// What is done at a node.
trait Work<T> {
    /// The reconstructed value of a node, given its prediction.
    ///
    /// # Safety
    /// The node is in the box.
    unsafe fn reconstruct(&mut self, tile: &Tile, at: &At, quantiser: Quantiser<T>, prediction: T) -> T;

    /// The anchor of the tile that owns a corner of the box.
    ///
    /// # Safety
    /// The node is one.
    unsafe fn anchor(&mut self, tile: &Tile, node: [u32; 3]) -> T;
}

/// Works on the nodes of a class.
///
/// # Safety
/// As for [`refine`].
#[inline(always)]
unsafe fn refine_class<T: Real, const AXES: u32>(
    tile: &Tile,
    values: &Values<T>,
    class: Class,
    quantiser: Quantiser<T>,
    nodes: *const Node,
    start: u32,
    work: &mut impl Work<T>,
) {
    let mut i = start + thread::thread_idx_x();
    // SAFETY: the caller's.
    unsafe {
        while i < class.end {
            let at = At::new(intrinsics::load_readonly(nodes.add(i as usize)));
            if values.contains(at.node) {
                let prediction = values.predict::<AXES>(class.predictor, &at, class.level);
                *values.values.add(at.place) = work.reconstruct(tile, &at, quantiser, prediction);
            }
            i += BLOCK;
        }
    }
}

/// The quantiser of a level.
///
/// # Safety
/// `steps` is as in the kernels below.
#[inline(always)]
unsafe fn quantiser<T: Real + intrinsics::ReadOnlyValue>(steps: *const T, level: u32) -> Quantiser<T> {
    // SAFETY: the caller's.
    unsafe {
        let step = steps.add(2 * level as usize);
        Quantiser { step: intrinsics::load_readonly(step), inverse: intrinsics::load_readonly(step.add(1)) }
    }
}

/// [`refine_class`] for a class.
///
/// # Safety
/// As for [`refine`].
#[inline(always)]
unsafe fn work_on<T: Real>(
    tile: &Tile,
    values: &Values<T>,
    class: Class,
    quantiser: Quantiser<T>,
    nodes: *const Node,
    start: u32,
    work: &mut impl Work<T>,
) {
    // SAFETY: the caller's.
    unsafe {
        match class.axes {
            1 => refine_class::<T, 1>(tile, values, class, quantiser, nodes, start, work),
            2 => refine_class::<T, 2>(tile, values, class, quantiser, nodes, start, work),
            3 => refine_class::<T, 3>(tile, values, class, quantiser, nodes, start, work),
            4 => refine_class::<T, 4>(tile, values, class, quantiser, nodes, start, work),
            5 => refine_class::<T, 5>(tile, values, class, quantiser, nodes, start, work),
            6 => refine_class::<T, 6>(tile, values, class, quantiser, nodes, start, work),
            _ => refine_class::<T, 7>(tile, values, class, quantiser, nodes, start, work),
        }
    }
}

/// Puts the anchors at the corners of a tile's closed box.
///
/// # Safety
/// All threads of the block call it; a barrier must follow.
#[inline(always)]
unsafe fn put_anchors<T: Real>(tile: &Tile, values: &Values<T>, work: &mut impl Work<T>) {
    let t = thread::thread_idx_x();
    if t < 8 {
        let there = |axis: usize| t >> axis & 1 == 0 || tile.all.log2[axis] > 0;
        let node = [0, 1, 2].map(|axis| (t >> axis & 1) << tile.all.log2[axis]);
        if there(0) && there(1) && there(2) && values.contains(node) {
            // SAFETY: the tile that owns it exists.
            unsafe { *values.values.add(values.place(node)) = work.anchor(tile, node) };
        }
    }
}

/// Works on all nodes of a tile's closed box.
///
/// # Safety
/// All threads of the block call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn refine<T: Real + intrinsics::ReadOnlyValue>(
    tile: &Tile,
    classes: *const Class,
    nodes: *const Node,
    steps: *const T,
    work: &mut impl Work<T>,
) -> Values<T> {
    let values = Values::<T>::new(tile);
    // SAFETY: the caller's; all threads come to the barriers.
    unsafe {
        put_anchors(tile, &values, work);
        thread::sync_threads();
        let (mut index, mut start) = (0, 0);
        while index < tile.all.classes {
            let class = *classes.add(index as usize);
            let quantiser = quantiser(steps, class.level);
            work_on(tile, &values, class, quantiser, nodes, start, work);
            (index, start) = (index + 1, class.end);
            // Classes of a level with as many odd axes do not need each other.
            let next = if index < tile.all.classes { *classes.add(index as usize) } else { Class { axes: 0, ..class } };
            if next.level != class.level || next.axes.count_ones() != class.axes.count_ones() {
                thread::sync_threads();
            }
        }
    }
    values
}

/// Copies the nodes that a tile owns to the chunk.
///
/// # Safety
/// All threads of the block call it, after a barrier; `out` points to the chunk.
#[inline(always)]
unsafe fn store<T: Real>(tile: &Tile, values: &Values<T>, out: *mut T) {
    let mut i = thread::thread_idx_x();
    while i < TILE_NODES as u32 {
        let node = tile.node(i);
        if tile.owns(node) {
            // SAFETY: the caller's; the node exists.
            unsafe { *out.add(tile.index(node) as usize) = *values.values.add(values.place(node)) };
        }
        i += BLOCK;
    }
}

/// Forward.
struct Quantise<T> {
    values: *const T,
    mask: *const u32,
    anchors: *const T,
    bound: f64,
    forbidden: T,
    /// The tile's own.
    symbols: *mut i32,
    worst: f64,
}

impl<T: Real + intrinsics::ReadOnlyValue> Quantise<T> {
    /// The symbol of a node, and what it is reconstructed to.
    ///
    /// # Safety
    /// The node is in the box.
    #[inline(always)]
    unsafe fn quantise(&mut self, tile: &Tile, at: &At, quantiser: Quantiser<T>, prediction: T) -> (i32, T) {
        let index = tile.index(at.node);
        // SAFETY: the node exists.
        unsafe { self.quantise_value(intrinsics::load_readonly(self.values.add(index as usize)), index, quantiser, prediction) }
    }

    /// The same of a value.
    ///
    /// # Safety
    /// It is that at an index of the chunk.
    #[inline(always)]
    unsafe fn quantise_value(&mut self, value: T, index: u32, quantiser: Quantiser<T>, prediction: T) -> (i32, T) {
        // SAFETY: the caller's.
        unsafe {
            let (symbol, reconstructed, fits) = quantiser.quantise(value, prediction);
            let error = Real::abs(value.to_f64() - reconstructed.to_f64());
            if masked(self.mask, index) {
                return (0, quantiser.missing(prediction));
            }
            if !(fits && error <= self.bound && reconstructed != self.forbidden) {
                return (ESCAPED, value);
            }
            if error > self.worst {
                self.worst = error;
            }
            (symbol, reconstructed)
        }
    }
}

impl<T: Real + intrinsics::ReadOnlyValue> Work<T> for Quantise<T> {
    #[inline(always)]
    unsafe fn reconstruct(&mut self, tile: &Tile, at: &At, quantiser: Quantiser<T>, prediction: T) -> T {
        // SAFETY: the caller's.
        unsafe {
            let (symbol, reconstructed) = self.quantise(tile, at, quantiser, prediction);
            if tile.owns(at.node) {
                *self.symbols.add(at.position as usize) = symbol;
            }
            reconstructed
        }
    }

    #[inline(always)]
    unsafe fn anchor(&mut self, tile: &Tile, node: [u32; 3]) -> T {
        // SAFETY: the tile exists.
        unsafe { intrinsics::load_readonly(self.anchors.add(tile.owner(node) as usize)) }
    }
}

/// Predictors by their codes.
const CODES: u32 = 10;
/// Classes of a level that do not need each other, at most.
const MOST_TOGETHER: u32 = 3;
/// A tile of the sample: the last of its strip, and one of those that fine levels look at.
const LAST: u32 = 1 << 31;
const FINE: u32 = 1 << 30;
/// Levels below this one are fine.
const FINE_LEVELS: u32 = 2;
/// Classes and phases of a tile, at most.
const MOST_CLASSES: usize = 28;
const MOST_PHASES: usize = 12;
/// Words from one counter to the next: blocks that look at one must not hinder those that count at another.
const APART: u32 = 16;
/// What was published, beside what it says.
const PUBLISHED: u32 = 1 << 31;

/// What predictors are chosen by: what all cost so far in the sample, and the counts of symbols.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Choice {
    /// For each scheme and class the costs of 10 predictors.
    costs: *mut u64,
    /// For each scheme and class the predictor's code.
    codes: *mut u32,
    /// For each scheme the symbols that are 0, and all.
    zeros: *mut u64,
    /// For each step, [`APART`] words from one to the next, how many blocks have made it; and after those of all steps, the same way,
    /// what [`Sampled::publish`] says of it.
    arrived: *mut u32,
    /// The number of schemes, of which the second is looked at if more than a share `threshold` of the first's symbols are 0.
    schemes: u32,
    /// Classes that do not need each other are worked on together: the number of such phases.
    phases: u32,
    threshold: f64,
}

/// A tile of the sample, in the hands of a block.
struct Sampled<'a, T, const THREADS: u32> {
    tiles: &'a Tiles,
    tile: Tile,
    values: Values<T>,
    /// Shared: level, axes, where its nodes start and end, of each class; and where each phase's classes start.
    classes: *const [u32; 4],
    starts: *const u32,
    nodes: *const Node,
    source: Quantise<T>,
    entry: u32,
    choice: Choice,
    scheme: u32,
    steps: *const T,
    /// Symbols of the tile's own nodes that are 0, and all.
    zeros: u32,
    all: u32,
}

impl<T: Real + intrinsics::ReadOnlyValue, const THREADS: u32> Sampled<'_, T, THREADS> {
    /// A class, and where its nodes start.
    ///
    /// # Safety
    /// There is such a class.
    #[inline(always)]
    unsafe fn class(&self, index: u32) -> (Class, u32) {
        // SAFETY: the caller's.
        let [level, axes, start, end] = unsafe { *self.classes.add(index as usize) };
        (Class { level, axes, predictor: 0, end }, start)
    }

    /// The classes of a phase: the first one, and that after the last.
    ///
    /// # Safety
    /// There is such a phase.
    #[inline(always)]
    unsafe fn phase(&self, phase: u32) -> (u32, u32) {
        // SAFETY: the caller's.
        unsafe { (*self.starts.add(phase as usize), *self.starts.add(phase as usize + 1)) }
    }

    /// The class of a phase of `count` that the calling warp works on, the first of its nodes for the calling thread, and how many threads
    /// share them; `None` for warps that are left over.
    #[inline(always)]
    fn share(count: u32) -> Option<(u32, u32, u32)> {
        let (warp, warps) = (thread::thread_idx_x() / 32, THREADS / 32);
        let each = match count {
            1 => warps,
            2 => warps / 2,
            _ => warps / 3,
        };
        let class = u32::from(warp >= each) + u32::from(warp >= 2 * each);
        (warp < count * each).then_some((class, thread::thread_idx_x() - 32 * each * class, 32 * each))
    }

    /// Puts the anchors at the corners of the box.
    ///
    /// # Safety
    /// All threads of the block call it; a barrier must follow.
    #[inline(always)]
    unsafe fn put_anchors(&self, levels: u32) {
        let t = thread::thread_idx_x();
        let (tile, log2) = (&self.tile, &self.tiles.log2);
        let there = |axis: usize| t >> axis & 1 == 0 || log2[axis] > 0;
        let node = [0, 1, 2].map(|axis| (t >> axis & 1) << log2[axis]);
        if t < 8 && there(0) && there(1) && there(2) && self.values.contains(node) {
            // SAFETY: the tile that owns it exists.
            unsafe {
                let value = if self.source.anchors.is_null() {
                    let quantiser = Anchors::new(*self.steps.add(2 * levels as usize));
                    let Quantise { values, bound, forbidden, .. } = self.source;
                    anchors::Source { values, quantiser, bound, forbidden }.anchor(tile.index(node)).value
                } else {
                    intrinsics::load_readonly(self.source.anchors.add(tile.owner(node) as usize))
                };
                *self.values.values.add(self.values.place(node)) = value;
            }
        }
    }

    /// The predictors of a phase that cost least, a byte each; where several do, those of the greatest codes.
    ///
    /// # Safety
    /// All lanes of a warp call it; the costs are complete.
    #[inline(always)]
    unsafe fn cheapest(&self, phase: u32) -> u32 {
        let lane = warp::lane_id();
        let (k, code) = (lane / CODES, lane % CODES);
        // SAFETY: the caller's.
        unsafe {
            let (from, end) = self.phase(phase);
            let mut own = u64::MAX;
            if k < end - from {
                let (class, _) = self.class(from + k);
                if Predictor::from_code(code as u8, class.axes as usize).is_some() {
                    let row = self.scheme * self.tiles.classes + from;
                    // Costs are far below 2^60.
                    own = atomic_load_relaxed_64_device(self.choice.costs.add((row * CODES + lane) as usize)) << 4 | (15 - code) as u64;
                }
            }
            // The least of each 10 lanes comes to the first of them.
            let mut distance = 8;
            while distance > 0 {
                let other = warp::full::shuffle_down(own, distance);
                own = if code + distance < CODES { own.min(other) } else { own };
                distance /= 2;
            }
            let best = 15 - (own as u32 & 15);
            let mut codes = 0;
            each3!(|k| { codes |= warp::full::shuffle(best, k as u32 * CODES) << (8 * k) });
            codes
        }
    }

    /// Says that this block has made a step. The last one tells the others, and what comes of it: the predictors of the step's phase, or
    /// whether the second scheme is to be looked at.
    ///
    /// # Safety
    /// All threads of the block call it, after a barrier; `blocks` of them make the step, `steps` are made in all.
    #[inline(always)]
    unsafe fn publish(&self, step: u32, steps: u32, phase: u32, blocks: u32) {
        if thread::thread_idx_x() >= 32 {
            return;
        }
        // SAFETY: the caller's; all lanes of the warp are here.
        unsafe {
            let mut before = 0;
            if warp::lane_id() == 0 {
                thread::device_fence();
                before = atomic_fetch_add_relaxed_u32_device(self.choice.arrived.add((step * APART) as usize), 1);
            }
            if warp::full::shuffle(before, 0) + 1 < blocks {
                return;
            }
            thread::device_fence();
            let found = if phase < self.choice.phases {
                self.cheapest(phase)
            } else {
                let zeros = [0, 1].map(|i| atomic_load_relaxed_64_device(self.choice.zeros.add(i)));
                anchors::scheme(zeros, self.choice.schemes, self.choice.threshold)
            };
            if warp::lane_id() == 0 {
                let to = self.choice.arrived.add(((steps + step) * APART) as usize);
                // The word is all that the others want to see.
                atomic_store_relaxed_32_device(to, PUBLISHED | found);
            }
        }
    }

    /// Quantises the nodes of a class, and counts symbols.
    ///
    /// # Safety
    /// The classes that it needs are in the box.
    #[inline(always)]
    unsafe fn quantise<const AXES: u32>(&mut self, class: Class, first: u32, stride: u32) {
        // SAFETY: the caller's.
        unsafe {
            let quantiser = quantiser(self.steps, class.level);
            let mut i = first;
            let mut next = self.node(i, class.end);
            while i < class.end {
                let at = At::new(next);
                i += stride;
                next = self.node(i, class.end);
                if self.values.contains(at.node) {
                    let index = self.tile.index(at.node);
                    let value = intrinsics::load_readonly(self.source.values.add(index as usize));
                    let prediction = self.values.predict::<AXES>(class.predictor, &at, class.level);
                    let (symbol, reconstructed) = self.source.quantise_value(value, index, quantiser, prediction);
                    *self.values.values.add(at.place) = reconstructed;
                    if self.tile.owns(at.node) {
                        self.zeros += u32::from(symbol == 0 || symbol == ESCAPED);
                        self.all += 1;
                    }
                }
            }
        }
    }

    /// A node, or nothing from `end` on: the next one is on its way while one is worked on.
    ///
    /// # Safety
    /// The nodes before `end` exist.
    #[inline(always)]
    unsafe fn node(&self, i: u32, end: u32) -> Node {
        // SAFETY: the caller's.
        if i < end { unsafe { intrinsics::load_readonly(self.nodes.add(i as usize)) } } else { 0 }
    }

    /// Adds what each predictor of a class costs to `sums`, of those whose codes' bits are set.
    ///
    /// # Safety
    /// All lanes of a warp call it; the classes that it needs are in the box.
    #[inline(always)]
    unsafe fn add_costs<const AXES: u32, const SOME: u32>(&self, class: Class, first: u32, stride: u32, sums: *mut u32) {
        // Nodes between two tiles of a strip count once.
        let end = if self.entry & LAST != 0 { u32::MAX } else { 1 << self.tiles.log2[2] };
        let mut costs = [0u32; CODES as usize];
        // SAFETY: the caller's.
        unsafe {
            if !warp::full::any(first < class.end) {
                return;
            }
            let quantiser = quantiser(self.steps, class.level);
            let mut i = first;
            let mut next = self.node(i, class.end);
            while i < class.end {
                let at = At::new(next);
                i += stride;
                next = self.node(i, class.end);
                let index = self.tile.index(at.node);
                if self.values.contains(at.node) && at.node[2] < end && !masked(self.source.mask, index) {
                    let value = intrinsics::load_readonly(self.source.values.add(index as usize));
                    let axes = self.values.axes::<AXES>(&at, class.level);
                    let corner = |a: usize, b: usize| self.values.corners(&at, class.level, a, b);
                    each10!(|code| {
                        if let Some(predictor) = Predictor::from_code(code as u8, AXES as usize)
                            && SOME >> code & 1 == 1
                        {
                            costs[code] += quantiser.cost(value, predict::predict(predictor, &axes, corner));
                        }
                    });
                }
            }
            each10!(|code| {
                if Predictor::from_code(code as u8, AXES as usize).is_some() && SOME >> code & 1 == 1 {
                    let sum = warp::full::reduce_add(costs[code]);
                    if warp::lane_id() == 0 && sum > 0 {
                        shared::atomic_add_u32(sums.add(code), sum);
                    }
                }
            });
        }
    }

    /// Quantises the nodes of a phase, whose predictors are `codes`.
    ///
    /// # Safety
    /// All threads of the block call it.
    #[inline(always)]
    unsafe fn settle(&mut self, phase: u32, codes: u32) {
        // SAFETY: the caller's; all threads come to the barrier.
        unsafe {
            let (from, end) = self.phase(phase);
            let t = thread::thread_idx_x();
            if thread::block_idx_x() == 0 && t < end - from {
                *self.choice.codes.add((self.scheme * self.tiles.classes + from + t) as usize) = codes >> (8 * t) & 0xFF;
            }
            if let Some((k, first, stride)) = Self::share(end - from) {
                let (class, start) = self.class(from + k);
                let (class, first) = (Class { predictor: codes >> (8 * k) & 0xFF, ..class }, start + first);
                match class.axes {
                    1 => self.quantise::<1>(class, first, stride),
                    2 => self.quantise::<2>(class, first, stride),
                    3 => self.quantise::<3>(class, first, stride),
                    4 => self.quantise::<4>(class, first, stride),
                    5 => self.quantise::<5>(class, first, stride),
                    6 => self.quantise::<6>(class, first, stride),
                    _ => self.quantise::<7>(class, first, stride),
                }
            }
            thread::sync_threads();
        }
    }

    /// Adds up what the predictors of a phase cost. `sums` are shared, and 0.
    ///
    /// # Safety
    /// All threads of the block call it; the phases before are in the box.
    #[inline(always)]
    unsafe fn cost(&self, phase: u32, sums: *mut u32) {
        // SAFETY: the caller's; all threads come to the barrier.
        unsafe {
            const ALL: u32 = (1 << CODES) - 1;
            let (from, end) = self.phase(phase);
            if let Some((k, first, stride)) = Self::share(end - from) {
                let (class, start) = self.class(from + k);
                let (first, sums) = (start + first, sums.add((k * CODES) as usize));
                match class.axes {
                    1 => self.add_costs::<1, ALL>(class, first, stride, sums),
                    2 => self.add_costs::<2, ALL>(class, first, stride, sums),
                    3 => self.add_costs::<3, ALL>(class, first, stride, sums),
                    4 => self.add_costs::<4, ALL>(class, first, stride, sums),
                    5 => self.add_costs::<5, ALL>(class, first, stride, sums),
                    6 => self.add_costs::<6, ALL>(class, first, stride, sums),
                    _ => {
                        // Not all at once: registers are scarce.
                        self.add_costs::<7, 0xFF>(class, first, stride, sums);
                        self.add_costs::<7, 0x300>(class, first, stride, sums);
                    }
                }
            }
            thread::sync_threads();
            let t = thread::thread_idx_x();
            if t < MOST_TOGETHER * CODES {
                let sum = *sums.add(t as usize);
                if sum > 0 {
                    let row = self.scheme * self.tiles.classes + from;
                    atomic_fetch_add_relaxed_u64_device(self.choice.costs.add((row * CODES + t) as usize), sum as u64);
                }
                *sums.add(t as usize) = 0;
            }
        }
    }

    /// Adds the counts of symbols to those of the scheme.
    ///
    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn count(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            let (some, all) = (warp::full::reduce_add(self.zeros), warp::full::reduce_add(self.all));
            if warp::lane_id() == 0 && all > 0 && self.entry & FINE != 0 {
                let zeros = self.choice.zeros.add(2 * self.scheme as usize);
                atomic_fetch_add_relaxed_u64_device(zeros, some as u64);
                atomic_fetch_add_relaxed_u64_device(zeros.add(1), all as u64);
            }
        }
        (self.zeros, self.all) = (0, 0);
    }
}

/// Fetches a tile's values into the cache, as far as its part in the sample needs them: nothing waits for them.
///
/// # Safety
/// `values` points to the chunk's values.
#[inline(always)]
unsafe fn prefetch<T: Real, const THREADS: u32>(tile: &Tile, values: *const T, fine: bool) {
    let ahead = 32 / size_of::<T>() as u32;
    let last = tile.last();
    let row = last[2] / ahead + 1;
    let all = (last[0] + 1) * (last[1] + 1) * row;
    let mut i = thread::thread_idx_x();
    while i < all {
        let [z, y, x] = split(i, [last[0] + 1, last[1] + 1, row]);
        if fine || (z | y) & ((1 << FINE_LEVELS) - 1) == 0 {
            // SAFETY: the node exists.
            let _ = unsafe { core::ptr::read_volatile(values.add(tile.index([z, y, x * ahead]) as usize)) };
        }
        i += THREADS;
    }
}

/// Waits for what is published, and returns it.
///
/// # Safety
/// All threads of the block call it; `found` is shared, and nobody else uses it; who publishes runs, or has run.
#[inline(always)]
unsafe fn wait(published: *const u32, found: *mut u32) -> u32 {
    // SAFETY: the caller's; all threads come to the barriers.
    unsafe {
        if thread::thread_idx_x() == 0 {
            let mut word = atomic_load_relaxed_32_device(published);
            let mut asked = 0;
            while word & PUBLISHED == 0 {
                // Who waits long does not ask often.
                asked += 1;
                if asked > 64 {
                    thread::nanosleep(200);
                }
                word = atomic_load_relaxed_32_device(published);
            }
            *found = word & !PUBLISHED;
        }
        thread::sync_threads();
        *found
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn choose<T: Real + intrinsics::ReadOnlyValue, const THREADS: u32>(
    tiles: Tiles,
    classes: *const Class,
    starts: *const u32,
    nodes: *const Node,
    levels: u32,
    schemes: *const T,
    values: *const T,
    mask: *const u32,
    anchors: *const T,
    bound: f64,
    forbidden: T,
    sample: *const u32,
    fine: u32,
    coarse: u32,
    choice: Choice,
    first: u32,
    end: u32,
    boxes: *mut T,
    box_values: u32,
) {
    let sums = shared_array![u32; (MOST_TOGETHER * CODES) as usize];
    let found = shared_array![u32; 1];
    let (class_table, phase_starts) = (shared_array![[u32; 4]; MOST_CLASSES], shared_array![u32; MOST_PHASES + 1]);
    let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
    // SAFETY: the caller's; all threads decide alike and come to the barriers.
    unsafe {
        let entry = *sample.add(block as usize);
        let tile = Tile::new(tiles, entry & (FINE - 1));
        let own = Values::<T>::new(&tile);
        if t < MOST_TOGETHER * CODES {
            *sums.add(t as usize) = 0;
        }
        if t < tiles.classes {
            let Class { level, axes, end, .. } = *classes.add(t as usize);
            let start = if t == 0 { 0 } else { (*classes.add(t as usize - 1)).end };
            *class_table.add(t as usize) = [level, axes, start, end];
        }
        if t <= choice.phases {
            *phase_starts.add(t as usize) = *starts.add(t as usize);
        }
        if first == 0 {
            prefetch::<T, THREADS>(&tile, values, entry & FINE != 0);
        }
        let kept = boxes.wrapping_add(block as usize * box_values as usize);
        if end - first == 1 && first > 0 {
            let mut i = t;
            while i < box_values {
                *own.values.add(i as usize) = *kept.add(i as usize);
                i += THREADS;
            }
        }
        thread::sync_threads();
        let source = Quantise { values, mask, anchors, bound, forbidden, symbols: core::ptr::null_mut(), worst: 0.0 };
        let mut work = Sampled::<T, THREADS> {
            tiles: &tiles,
            tile,
            values: own,
            classes: class_table,
            starts: phase_starts,
            nodes,
            source,
            entry,
            choice,
            scheme: 0,
            steps: schemes,
            zeros: 0,
            all: 0,
        };
        // A step quantises the phase before, and adds up the costs of its own; the last one has none.
        let steps = choice.phases + 1;
        let is_fine =
            |phase: u32| phase == choice.phases || (*class_table.add(*phase_starts.add(phase as usize) as usize))[0] < FINE_LEVELS;
        let mut step = first;
        while step < end {
            work.scheme = u32::from(step >= steps);
            work.steps = schemes.add((work.scheme * 2 * (levels + 1)) as usize);
            let phase = step - work.scheme * steps;
            let fine_only = is_fine(phase);
            if entry & FINE != 0 || !fine_only {
                let mut before = 0;
                if step > first {
                    before = wait(choice.arrived.add(((choice.schemes * steps + step - 1) * APART) as usize), found);
                } else if step > 0 {
                    if t < 32 {
                        let zeros = [0, 1].map(|i| atomic_load_relaxed_64_device(choice.zeros.add(i)));
                        let word =
                            if phase > 0 { work.cheapest(phase - 1) } else { anchors::scheme(zeros, choice.schemes, choice.threshold) };
                        if t == 0 {
                            *found = word;
                        }
                    }
                    thread::sync_threads();
                    before = *found;
                }
                if step == first && work.scheme == 1 && phase > 0 {
                    // Step by step each asks for itself.
                    let zeros = [0, 1].map(|i| atomic_load_relaxed_64_device(choice.zeros.add(i)));
                    if anchors::scheme(zeros, choice.schemes, choice.threshold) == 0 {
                        return;
                    }
                }
                if phase == 0 {
                    if work.scheme == 1 && before == 0 {
                        return;
                    }
                    work.put_anchors(levels);
                    thread::sync_threads();
                } else {
                    work.settle(phase - 1, before);
                }
                if phase < choice.phases {
                    work.cost(phase, sums);
                } else {
                    work.count();
                }
                thread::sync_threads();
                if step + 1 < end {
                    work.publish(step, choice.schemes * steps, phase, if fine_only { fine } else { coarse });
                }
            }
            step += 1;
        }
        if end - first == 1 {
            work.count();
            let mut i = t;
            while i < box_values {
                *kept.add(i as usize) = *own.values.add(i as usize);
                i += THREADS;
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn sample<T: Real>(tiles: Tiles, values: *const T, stride: u32, count: u32, anchors: *mut T, spread: *mut T) {
    let i = thread::index_1d();
    // SAFETY: the caller's.
    unsafe {
        if i < Tile::count(&tiles) {
            *anchors.add(i as usize) = *values.add(Tile::new(tiles, i).index([0; 3]) as usize);
        }
        if i < count {
            *spread.add(i as usize) = *values.add(i as usize * stride as usize);
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn quantise<T: Real + intrinsics::ReadOnlyValue>(
    tiles: Tiles,
    classes: *const Class,
    nodes: *const Node,
    steps: *const T,
    values: *const T,
    mask: *const u32,
    anchors: *const T,
    escaped: *const u32,
    bound: f64,
    forbidden: T,
    symbols: *mut i32,
    worst: *mut u64,
    decoded: *mut T,
) {
    let (index, t) = (thread::block_idx_x(), thread::thread_idx_x());
    let tile = Tile::new(tiles, index);
    // SAFETY: the caller's; whether nodes are missing is the same for all threads.
    unsafe {
        let symbols = symbols.add(index as usize * TILE_NODES);
        if tile.nodes() < TILE_NODES as u32 {
            let mut i = t;
            while i < TILE_NODES as u32 {
                *symbols.add(i as usize) = 0;
                i += BLOCK;
            }
            thread::sync_threads();
        }
        if t == 0 {
            *symbols = if masked(escaped, index) { ESCAPED } else { 0 };
        }
        let mut work = Quantise { values, mask, anchors, bound, forbidden, symbols, worst: 0.0 };
        let values = refine(&tile, classes, nodes, steps, &mut work);
        if !decoded.is_null() {
            store(&tile, &values, decoded);
        }
        let mut greatest = work.worst.to_bits();
        let mut distance = 16;
        while distance > 0 {
            greatest = greatest.max(warp::full::shuffle_xor(greatest, distance));
            distance /= 2;
        }
        if warp::lane_id() == 0 && greatest > atomic_load_relaxed_64_device(worst) {
            atomic_fetch_max_relaxed_u64_device(worst, greatest);
        }
    }
}

/// Back.
struct Reconstruct<T> {
    symbols: *const i32,
    mask: *const u32,
    anchors: *const T,
    exact: *const T,
}

impl<T: Real + intrinsics::ReadOnlyValue> Work<T> for Reconstruct<T> {
    #[inline(always)]
    unsafe fn reconstruct(&mut self, tile: &Tile, at: &At, quantiser: Quantiser<T>, prediction: T) -> T {
        // SAFETY: the node exists.
        unsafe {
            let place = tile.owner(at.node) as usize * TILE_NODES + at.position as usize;
            let symbol = intrinsics::load_readonly(self.symbols.add(place));
            if symbol == ESCAPED {
                *self.exact.add(tile.index(at.node) as usize)
            } else if masked(self.mask, tile.index(at.node)) {
                quantiser.missing(prediction)
            } else {
                quantiser.reconstruct(symbol, prediction)
            }
        }
    }

    #[inline(always)]
    unsafe fn anchor(&mut self, tile: &Tile, node: [u32; 3]) -> T {
        let owner = tile.owner(node) as usize;
        // SAFETY: the tile exists.
        unsafe {
            if intrinsics::load_readonly(self.symbols.add(owner * TILE_NODES)) == ESCAPED {
                *self.exact.add(tile.index(node) as usize)
            } else {
                intrinsics::load_readonly(self.anchors.add(owner))
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn reconstruct<T: Real + intrinsics::ReadOnlyValue>(
    tiles: Tiles,
    classes: *const Class,
    nodes: *const Node,
    steps: *const T,
    symbols: *const i32,
    mask: *const u32,
    anchors: *const T,
    values: *mut T,
) {
    let tile = Tile::new(tiles, thread::block_idx_x());
    // SAFETY: the caller's. An exact value that another block reads is overwritten by the same one.
    unsafe {
        let mut work = Reconstruct { symbols, mask, anchors, exact: values };
        let decoded = refine(&tile, classes, nodes, steps, &mut work);
        store(&tile, &decoded, values);
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn copy_raw<T: Real>(tiles: Tiles, values: *const T, lengths: *const u16, slots: *mut T, slot_values: u32) {
    let index = thread::block_idx_x();
    let tile = Tile::new(tiles, index);
    // SAFETY: the caller's.
    unsafe {
        if *lengths.add(index as usize) as u32 != tile.nodes() * size_of::<T>() as u32 {
            return;
        }
        let slot = slots.add(index as usize * slot_values as usize);
        let mut i = thread::thread_idx_x();
        while i < tile.nodes() {
            *slot.add(i as usize) = *values.add(tile.index(tile.own_node(i)) as usize);
            i += BLOCK;
        }
    }
}

macro_rules! kernels {
    ($real:ident, $quantise:ident, $reconstruct:ident, $copy_raw:ident, $choose:ident, $threads:tt, $sample:ident) => {
        /// Predicts and quantises a chunk. `decoded` is null or gets the reconstructed values.
        ///
        /// Grid: a block for each tile; block: 128 threads. Shared memory: the values of a full closed box, dynamic.
        ///
        /// # Safety
        ///
        /// `classes` points to the classes in the order of work, `nodes` to those of each in a full closed box, `steps` to each level's
        /// step and its inverse, the finest first. `values` and `decoded` point to the chunk's values, `mask` to a bit for each (or is
        /// null), `anchors` to the reconstructed anchor of each tile, `escaped` to a bit for each tile, `symbols` to 4096 for each tile;
        /// `worst` to the bits of a number that is not negative, which is raised to the greatest error.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $quantise(
            tiles: Tiles,
            classes: *const Class,
            nodes: *const Node,
            steps: *const $real,
            values: *const $real,
            mask: *const u32,
            anchors: *const $real,
            escaped: *const u32,
            bound: f64,
            forbidden: $real,
            symbols: *mut i32,
            worst: *mut u64,
            decoded: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe {
                quantise(tiles, classes, nodes, steps, values, mask, anchors, escaped, bound, forbidden, symbols, worst, decoded);
            }
        }

        /// The inverse. `values` has the exact values in place where symbols are [`ESCAPED`].
        ///
        /// Grid: a block for each tile; block: 128 threads. Shared memory: the values of a full closed box, dynamic.
        ///
        /// # Safety
        ///
        /// As above.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $reconstruct(
            tiles: Tiles,
            classes: *const Class,
            nodes: *const Node,
            steps: *const $real,
            symbols: *const i32,
            mask: *const u32,
            anchors: *const $real,
            values: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { reconstruct(tiles, classes, nodes, steps, symbols, mask, anchors, values) }
        }

        /// Chooses predictors by what their residuals cost in a sample of tiles: steps `first` to `end` of those of all schemes, one more
        /// than phases for each. A step chooses for the phase before it and quantises that, then adds up what its own predictors cost.
        ///
        /// Grid: a block for each tile of the sample; block: 320 threads (f32) or 192 (f64). Shared memory: the values of a full closed
        /// box, dynamic, and 624 bytes, static. Blocks wait for each other between steps, so where there are several it must be launched as a cooperative
        /// kernel; else one step after the other, and between those the boxes are kept in memory.
        ///
        /// # Safety
        ///
        /// As above; `starts` points to the first class of each phase, and the number of classes; `schemes` to each scheme's steps and
        /// inverses of `levels` levels, then two numbers of which the first is the anchors' step. `anchors` is null where no value is
        /// special: then they are computed of the values. `sample` points to the numbers of the sample's tiles with their flags, the
        /// `fine` ones first, `coarse` in all; `boxes` to `box_values` values for each if there is one step only. What `choice` points to
        /// was 0 before the first step, and has room for all schemes.
        #[kernel(max_threads = $threads, min_blocks = 2)]
        pub unsafe fn $choose(
            tiles: Tiles,
            classes: *const Class,
            starts: *const u32,
            nodes: *const Node,
            levels: u32,
            schemes: *const $real,
            values: *const $real,
            mask: *const u32,
            anchors: *const $real,
            bound: f64,
            forbidden: $real,
            sample: *const u32,
            fine: u32,
            coarse: u32,
            choice: Choice,
            first: u32,
            end: u32,
            boxes: *mut $real,
            box_values: u32,
        ) {
            // SAFETY: the caller's.
            unsafe {
                choose::<$real, $threads>(
                    tiles, classes, starts, nodes, levels, schemes, values, mask, anchors, bound, forbidden, sample, fine, coarse, choice,
                    first, end, boxes, box_values,
                );
            }
        }

        /// The first value of each tile, and every `stride`-th value.
        ///
        /// Grid: a thread for each tile and each of `count` values; block: 128 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `values` points to the chunk's values, `anchors` to a place for each tile, `spread` to `count` of them.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $sample(tiles: Tiles, values: *const $real, stride: u32, count: u32, anchors: *mut $real, spread: *mut $real) {
            // SAFETY: the caller's.
            unsafe { sample(tiles, values, stride, count, anchors, spread) }
        }

        /// Fills the slots of raw tiles, those as long as their values, with reconstructed values.
        ///
        /// Grid: a block for each tile; block: 128 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `values` points to the chunk's values, `lengths` to each tile's bytes, `slots` to `slot_values` for each tile.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $copy_raw(tiles: Tiles, values: *const $real, lengths: *const u16, slots: *mut $real, slot_values: u32) {
            // SAFETY: the caller's.
            unsafe { copy_raw(tiles, values, lengths, slots, slot_values) }
        }
    };
}

kernels!(f32, closed_quantise_f32, closed_reconstruct_f32, closed_copy_raw_f32, closed_choose_f32, 320, closed_sample_f32);
kernels!(f64, closed_quantise_f64, closed_reconstruct_f64, closed_copy_raw_f64, closed_choose_f64, 192, closed_sample_f64);
