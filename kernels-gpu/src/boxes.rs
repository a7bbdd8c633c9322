//! Closed tiles, all of a chunk: prediction and quantisation, forward and back.
//!
//! The numbers are [`bmgard_core::closed`]'s; here is how threads share them. A block works on a tile, whose closed box is in shared
//! memory ([`BoxLayout`]). First each node's place gets what is known of it: its value, or its symbol as a number. Then a class after the
//! other is predicted, and a node's place gets its reconstructed value. So all reading of memory is under way at once, before anything
//! waits for it. Nodes on far faces are computed as their owners compute them, so that no block waits for another.
//!
//! What threads do is listed in *rounds*, a node for each thread. The finest level has seven of eight nodes: in whole boxes of the common
//! shapes a thread knows those that the tile owns by the bits of their positions, without a list.
//!
//! Nearly all tiles are *plain*: the box is whole, nothing is missing in the data, and no value is stored exactly. They are worked on
//! without looking closely, and where something turns out not to be plain the tile is worked on again.

use bmgard_core::Real;
use bmgard_core::closed::geometry::BoxLayout;
use bmgard_core::closed::predict::{self, Kind, Neighbours, Predictor, Side};
use bmgard_core::closed::{Quantiser, TILE_NODES, TileShape};
use cuda_std::atomic::intrinsics::{
    atomic_fetch_max_relaxed_u64_device, atomic_fetch_or_relaxed_u32_device, atomic_load_relaxed_64_device,
};
use cuda_std::prelude::*;

use crate::closed::{Class, Tile, Tiles};
use crate::common::masked;
use crate::unroll::{each8, each12};

/// Threads of a block.
pub const BLOCK: u32 = 128;

/// A thread's node of a round. Low word: x, y << 13, z << 20, its class's number << 26, and 1 << 31 where there is a node; high word: the
/// position of its symbol, its place in [`BoxLayout`] << 12, and 1 << 25 where a barrier follows the round. The nodes of a warp are of
/// one class; rounds without a barrier between them do not need each other.
pub type Node = u64;

const EXISTS: u32 = 1 << 31;
/// Where the index along each axis stands: the bits before it, and a mask.
const AXIS_BITS: [(u32, u32); 3] = [(20, 0x3F), (13, 0x7F), (0, 0x1FFF)];
const BARRIER: u32 = 1 << 25;

/// The same where the box is whole. Low word: the place, the class's number << 13; for the k-th odd axis 1 << (18 + 2 k) where there is
/// the node 3 spacings before and 2 << (18 + 2 k) where there is the one after; 1 << (24 + a) where the owner is the next tile along
/// axis a; 1 << 30 where a barrier follows, and 1 << 31 where there is a node. High word: the position of its symbol.
pub type PlainNode = u64;

const PLAIN_BARRIER: u32 = 1 << 30;

/// The rounds of a full closed box: of the coarse levels; of the finest level, but only what is on far faces; of the finest level.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rounds {
    /// Where the coarse levels' end.
    coarse: u32,
    /// Where those of far faces end.
    faces: u32,
    /// Where all end.
    all: u32,
}

/// The tiles' shape, if it is known when the kernel is built.
trait Shape {
    const SHAPE: Option<TileShape>;
}

struct Any;
struct Cube;
struct Square;

impl Shape for Any {
    const SHAPE: Option<TileShape> = None;
}

impl Shape for Cube {
    const SHAPE: Option<TileShape> = Some(TileShape::CUBE);
}

impl Shape for Square {
    const SHAPE: Option<TileShape> = Some(TileShape::SQUARE);
}

/// The shape, or one in its stead where it is not known: code for that is never run.
const fn known<S: Shape>() -> TileShape {
    match S::SHAPE {
        Some(shape) => shape,
        None => TileShape::CUBE,
    }
}

/// A greatest error, none of which is negative.
trait Greatest: Copy {
    /// The greater one, or NaN where one is.
    fn greater(self, other: Self) -> Self;
    /// The greatest of the warp.
    ///
    /// # Safety
    /// All lanes call it.
    unsafe fn of_warp(self) -> Self;
}

impl Greatest for f32 {
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        intrinsics::max_nan_f32(self, other)
    }

    #[inline(always)]
    unsafe fn of_warp(self) -> Self {
        // Numbers that are not negative are ordered as their bits are.
        // SAFETY: the caller's.
        f32::from_bits(unsafe { warp::full::reduce_max(self.to_bits()) })
    }
}

impl Greatest for f64 {
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        f64::from_bits(self.to_bits().max(other.to_bits()))
    }

    #[inline(always)]
    unsafe fn of_warp(self) -> Self {
        let (mut greatest, mut distance) = (self.to_bits(), 16);
        while distance > 0 {
            // SAFETY: the caller's.
            greatest = greatest.max(unsafe { warp::full::shuffle_xor(greatest, distance) });
            distance /= 2;
        }
        f64::from_bits(greatest)
    }
}

/// How symbols lie in memory.
trait Stored: intrinsics::ReadOnlyValue {
    /// Stands for a value that is stored exactly.
    const ESCAPED: Self;
    /// Magnitudes that fit are below this number and the type's own limit.
    const LIMIT: f64;
    fn new(symbol: i32) -> Self;
    /// The symbol as a number, NaN for one that is escaped.
    fn steps<T: Real>(self) -> T;
}

impl Stored for i16 {
    const ESCAPED: Self = i16::MIN;
    const LIMIT: f64 = 32_768.0;

    #[inline(always)]
    fn new(symbol: i32) -> Self {
        symbol as i16
    }

    #[inline(always)]
    fn steps<T: Real>(self) -> T {
        if self == Self::ESCAPED { nan() } else { T::from_residual(i32::from(self)) }
    }
}

impl Stored for i32 {
    const ESCAPED: Self = i32::MIN;
    const LIMIT: f64 = f64::INFINITY;

    #[inline(always)]
    fn new(symbol: i32) -> Self {
        symbol
    }

    #[inline(always)]
    fn steps<T: Real>(self) -> T {
        if self == Self::ESCAPED { nan() } else { T::from_residual(self) }
    }
}

/// The least magnitude that does not fit.
#[inline(always)]
fn limit<T: Real, P: Stored>() -> T {
    let limit = T::from_f64(P::LIMIT);
    if limit < T::RESIDUAL_LIMIT { limit } else { T::RESIDUAL_LIMIT }
}

#[inline(always)]
fn nan<T: Real>() -> T {
    T::from_f64(f64::NAN)
}

#[inline(always)]
fn is_nan<T: Real>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

/// A node and its place.
#[derive(Clone, Copy)]
struct At {
    /// Counted from the tile's first node.
    node: [u32; 3],
    place: u32,
    /// Its symbol's among those of the tile that owns it.
    position: u32,
}

impl At {
    #[inline(always)]
    fn new(node: Node) -> Self {
        let (low, high) = (node as u32, (node >> 32) as u32);
        Self { node: [low >> 20 & 0x3F, low >> 13 & 0x7F, low & 0x1FFF], place: high >> 12 & 0x1FFF, position: high & 0xFFF }
    }
}

/// A closed box in shared memory.
#[derive(Clone, Copy)]
struct Values<T> {
    values: *mut T,
    /// The weights of [`Side`]s: where there is the node 3 spacings before, 1 spacing after << 1, 3 spacings after << 2, cubic << 3.
    weights: *mut [T; 4],
    layout: BoxLayout,
    /// The greatest index along each axis.
    last: [u32; 3],
}

/// Sides, and kinds.
const SIDES: usize = 16;

/// The neighbours of a node along an axis: the one after it is `step` values behind `near`, the one before it.
///
/// # Safety
/// Those that `side` says are there.
#[inline(always)]
unsafe fn neighbours<T: Real>(near: *const T, step: usize, side: Side) -> Neighbours<T> {
    // SAFETY: the caller's.
    let values = unsafe {
        [
            if side.before3 { *near.sub(step) } else { T::ZERO },
            *near,
            if side.after1 { *near.add(step) } else { T::ZERO },
            if side.after3 { *near.add(2 * step) } else { T::ZERO },
        ]
    };
    Neighbours { values, side }
}

/// The sum of the nodes next to one along both of two axes, from the first of them on.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn corners<T: Real>(first: *const T, a: usize, b: usize) -> T {
    // SAFETY: the caller's.
    unsafe { predict::corners(*first, *first.add(b), *first.add(a), *first.add(a + b)) }
}

impl<T: Real> Values<T> {
    /// # Safety
    /// There is such a place.
    #[inline(always)]
    unsafe fn at(&self, place: u32) -> *mut T {
        // SAFETY: the caller's.
        unsafe { self.values.add(place as usize) }
    }

    #[inline(always)]
    fn contains(&self, node: [u32; 3]) -> bool {
        node[0] <= self.last[0] && node[1] <= self.last[1] && node[2] <= self.last[2]
    }

    /// Fills the table of weights.
    ///
    /// # Safety
    /// All threads of the block call it; a barrier must follow.
    #[inline(always)]
    unsafe fn fill_weights(&self) {
        let t = thread::thread_idx_x();
        if t < SIDES as u32 {
            let side = Side { before3: t & 1 != 0, after1: t & 2 != 0, after3: t & 4 != 0 };
            // SAFETY: there are so many.
            unsafe { *self.weights.add(t as usize) = side.weights(kind(t >> 1)).map(T::from_f64) };
        }
    }

    /// [`Neighbours::predict`].
    #[inline(always)]
    fn along(&self, axis: &Neighbours<T>, kind: Kind) -> T {
        let Side { before3, after1, after3 } = axis.side;
        let cubic = matches!(kind, Kind::Cubic);
        let index = u32::from(before3) | u32::from(after1) << 1 | u32::from(after3) << 2 | u32::from(cubic) << 3;
        // SAFETY: the table has an entry for each.
        predict::along(axis.values, unsafe { *self.weights.add(index as usize) })
    }

    /// The neighbours along an axis of a node of the finest level.
    ///
    /// # Safety
    /// The node is in the box and odd along the axis.
    #[inline(always)]
    unsafe fn neighbours(&self, at: &At, axis: usize) -> Neighbours<T> {
        let (index, last, spacing) = (at.node[axis], self.last[axis], 1);
        let (before, step) = self.layout.neighbours(0, axis);
        let side = Side { before3: index > 2 * spacing, after1: index + spacing <= last, after3: index + 3 * spacing <= last };
        // SAFETY: those that are looked at are in the box.
        unsafe { neighbours(self.at(at.place).sub(before as usize), step as usize, side) }
    }

    /// The sum of the nodes next to it along both of two axes.
    ///
    /// # Safety
    /// They are in the box.
    #[inline(always)]
    unsafe fn corners(&self, at: &At, a: usize, b: usize) -> T {
        let (a, b) = (self.layout.neighbours(0, a), self.layout.neighbours(0, b));
        // SAFETY: the caller's.
        unsafe { corners(self.at(at.place).sub((a.0 + b.0) as usize), a.1 as usize, b.1 as usize) }
    }

    /// # Safety
    /// The node is in the box, and of the class with the odd axes `AXES`.
    #[inline(always)]
    unsafe fn predict_all<const AXES: u32>(&self, predictor: Predictor, at: &At) -> T {
        // SAFETY: the caller's.
        unsafe {
            let axis = |axis: usize| if AXES >> axis & 1 == 1 { Some(self.neighbours(at, axis)) } else { None };
            let axes = [axis(0), axis(1), axis(2)];
            let corner = |a: usize, b: usize| self.corners(at, a, b);
            predict::predict_with(predictor, &axes, corner, |axis, kind| self.along(axis, kind))
        }
    }

    /// # Safety
    /// As above; the axis is an odd one.
    #[inline(always)]
    unsafe fn predict_along<const AXES: u32>(&self, kind: Kind, axis: u32, at: &At) -> T {
        // SAFETY: the caller's.
        unsafe {
            match axis {
                0 if AXES & 1 == 1 => self.along(&self.neighbours(at, 0), kind),
                1 if AXES & 2 == 2 => self.along(&self.neighbours(at, 1), kind),
                _ if AXES & 4 == 4 => self.along(&self.neighbours(at, 2), kind),
                _ => T::ZERO,
            }
        }
    }
}

const MEAN: u32 = Predictor::Mean.code() as u32;
const COONS: u32 = Predictor::Coons.code() as u32;

/// The kind in the code of a predictor along an axis.
#[inline(always)]
fn kind(code: u32) -> Kind {
    if code & 4 == 0 { Kind::Linear } else { Kind::Cubic }
}

/// What is done at a node.
trait Work<T> {
    /// The reconstructed value of a node of a plain tile, given what is known of it and its prediction.
    ///
    /// # Safety
    /// If it is owned, its symbol has such a position.
    unsafe fn plain(&mut self, position: u32, owned: bool, known: T, quantiser: Quantiser<T>, prediction: T) -> T;

    /// The same of any node.
    ///
    /// # Safety
    /// The node is in the tile's box.
    unsafe fn any(&mut self, tile: &Tile, at: &At, known: T, quantiser: Quantiser<T>, prediction: T) -> T;
}

/// A class, packed: its level, its odd axes << 4, its predictor's code << 8.
type Packed = u32;

/// What a class's nodes are predicted from: by odd axis, slowest first, what [`BoxLayout::neighbours`] says.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Stencil {
    before: [u32; 3],
    /// The predictor's code, with the number of the odd axis in place of the axis.
    code: u32,
    step: [u32; 3],
    packed: Packed,
    /// Where the index along the axis stands in a [`Node`]: the bits before it, and a mask.
    shift: [u32; 3],
    mask: [u32; 3],
    /// The greatest index along the axis.
    last: [u32; 3],
}

/// Classes and levels that a tile can have at most.
const CLASSES: usize = 32;
const LEVELS: usize = 12;

/// The nodes of a class of the finest level that a full tile owns, in the order of their positions.
struct Finest<S>(core::marker::PhantomData<S>);

impl<S: Shape> Finest<S> {
    /// Of each thread.
    const ROUNDS: usize = (1 << known::<S>().class_log2(0)) / BLOCK as usize;

    /// What each bit of a position is: the axis, and the bit of the node's index along it.
    const BITS: [(usize, u32); 12] = {
        let axes = known::<S>().position_axes(0);
        // The lowest bit of an index is its parity, which the class says.
        let (mut bits, mut next, mut bit) = ([(0, 0); 12], [1; 3], 0);
        while bit < known::<S>().class_log2(0) {
            let axis = axes[bit] as usize;
            bits[bit] = (axis, next[axis]);
            next[axis] += 1;
            bit += 1;
        }
        bits
    };

    /// A thread's node of a round.
    #[inline(always)]
    fn node(axes: u32, round: usize) -> At {
        let layout = const { known::<S>().box_layout() };
        let position = (thread::thread_idx_x() & (BLOCK - 1)) | (round as u32 * BLOCK);
        let mut node = [0u32; 3];
        each12!(|bit| {
            let (axis, shift) = Self::BITS[bit];
            // Parities are no bits of positions.
            if shift > 0 {
                node[axis] |= (position >> bit & 1) << shift;
            }
        });
        let odd = [axes & 1, axes >> 1 & 1, axes >> 2 & 1];
        let place = layout.place(node) + odd[0] * layout.plane + odd[1] * layout.row + odd[2] * layout.half;
        At {
            node: [node[0] | odd[0], node[1] | odd[1], node[2] | odd[2]],
            place,
            position: known::<S>().class_start(0, axes as usize) as u32 + position,
        }
    }

    /// The first class of the finest level.
    #[inline(always)]
    fn first_class(classes: u32) -> u32 {
        let count = const {
            let (mut count, mut axes) = (0, 1);
            while axes < 8 {
                count += known::<S>().has_class(0, axes) as u32;
                axes += 1;
            }
            count
        };
        classes - count
    }

    /// Works on the nodes of a class of a plain tile.
    ///
    /// # Safety
    /// All threads call it; the nodes that they are predicted from are reconstructed.
    #[inline(always)]
    unsafe fn refine_by<T: Real, const AXES: u32>(
        values: &Values<T>,
        quantiser: Quantiser<T>,
        work: &mut impl Work<T>,
        predict: impl Fn(&At) -> T,
    ) {
        let mut round = 0;
        while round < Self::ROUNDS {
            let at = Self::node(AXES, round);
            // SAFETY: the node is in the box.
            unsafe {
                let place = values.at(at.place);
                *place = work.plain(at.position, true, *place, quantiser, predict(&at));
            }
            round += 1;
        }
    }

    /// The same, the predictor given by the class.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn refine<T: Real + intrinsics::AsyncValue, const AXES: u32>(job: &Job<T>, class: &mut u32, work: &mut impl Work<T>) {
        if !const { known::<S>().has_class(0, AXES as usize) } {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            let code = (*job.stencils.add(*class as usize)).packed >> 8;
            *class += 1;
            let (values, quantiser) = (&job.values, job.quantiser(0));
            if const { AXES.is_power_of_two() } {
                let axis = const { AXES.trailing_zeros() };
                if code & 4 == 0 {
                    let predict = |at: &At| values.predict_along::<AXES>(Kind::Linear, axis, at);
                    Self::refine_by::<T, AXES>(values, quantiser, work, predict);
                } else {
                    let predict = |at: &At| values.predict_along::<AXES>(Kind::Cubic, axis, at);
                    Self::refine_by::<T, AXES>(values, quantiser, work, predict);
                }
            } else if code == COONS {
                let predict = |at: &At| values.predict_all::<AXES>(Predictor::Coons, at);
                Self::refine_by::<T, AXES>(values, quantiser, work, predict);
            } else if code == MEAN {
                let predict = |at: &At| values.predict_all::<AXES>(Predictor::Mean, at);
                Self::refine_by::<T, AXES>(values, quantiser, work, predict);
            } else {
                let predict = |at: &At| values.predict_along::<AXES>(kind(code), code & 3, at);
                Self::refine_by::<T, AXES>(values, quantiser, work, predict);
            }
        }
    }

    /// Brings the symbols of a class, as numbers. Returns whether some stand for exact values.
    ///
    /// # Safety
    /// `symbols` points to the tile's.
    #[inline(always)]
    unsafe fn load<T: Real, P: Stored, const AXES: u32>(values: &Values<T>, symbols: *const P) -> bool {
        let mut escaped = false;
        if const { known::<S>().has_class(0, AXES as usize) } {
            each8!(|round| {
                if round < Self::ROUNDS {
                    let at = Self::node(AXES, round);
                    // SAFETY: the caller's.
                    unsafe {
                        let steps: T = intrinsics::load_readonly(symbols.add(at.position as usize)).steps();
                        escaped |= is_nan(steps);
                        *values.at(at.place) = steps;
                    }
                }
            });
        }
        escaped
    }
}

/// The closed box of a block's tile, and what it is worked on with.
struct Job<T> {
    tile: Tile,
    /// Where the box is whole and the shape is known, all numbers in it are constants.
    values: Values<T>,
    nodes: *const Node,
    plain_nodes: *const PlainNode,
    rounds: Rounds,
    /// In shared memory: the classes, and each level's step and its inverse.
    stencils: *mut Stencil,
    quantisers: *mut T,
}

/// The tiles, with the sides that are known.
#[inline(always)]
fn with_shape<S: Shape>(tiles: &Tiles) -> Tiles {
    if S::SHAPE.is_none() {
        return *tiles;
    }
    let [z, y, x] = const { known::<S>().log2() };
    Tiles { log2: [z as u32, y as u32, x as u32], ..*tiles }
}

/// The greatest index along an axis of a whole box.
#[inline(always)]
fn whole(tile: &Tile, axis: usize) -> u32 {
    if tile.log2(axis) == 0 { 0 } else { 1 << tile.log2(axis) }
}

impl<T: Real + intrinsics::AsyncValue> Job<T> {
    #[inline(always)]
    fn new<S: Shape>(tiles: &Tiles, layout: BoxLayout, rounds: &Rounds, nodes: *const Node, plain_nodes: *const PlainNode) -> Self {
        let tile = Tile::new(with_shape::<S>(tiles), thread::block_idx_x());
        let layout = if S::SHAPE.is_some() { const { known::<S>().box_layout() } } else { layout };
        let weights = shared_array![[f64; 4]; SIDES].cast();
        let values = Values { values: shared::dynamic_shared_mem(), weights, layout, last: tile.last() };
        let (stencils, quantisers) = (shared_array![Stencil; CLASSES], shared_array![f64; 2 * LEVELS].cast());
        Self { tile, values, nodes, plain_nodes, rounds: *rounds, stencils, quantisers }
    }

    /// Whether the box is whole.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        let last = self.values.last;
        last[0] == whole(&self.tile, 0) && last[1] == whole(&self.tile, 1) && last[2] == whole(&self.tile, 2)
    }

    /// The same where the box is whole.
    #[inline(always)]
    fn of_whole(&self) -> Self {
        let last = [0, 1, 2].map(|axis| whole(&self.tile, axis));
        Self { values: Values { last, ..self.values }, ..*self }
    }

    /// Brings classes, steps and weights.
    ///
    /// # Safety
    /// All threads of the block call it; a barrier must follow. The pointers are as in the kernels below.
    #[inline(always)]
    unsafe fn start(&self, classes: *const Class, steps: *const T) {
        let t = thread::thread_idx_x();
        // SAFETY: there are so many.
        unsafe {
            self.values.fill_weights();
            if t < self.tile.classes() {
                let class = *classes.add(t as usize);
                let packed = class.level | class.axes << 4 | class.predictor << 8;
                let axis = |axis: usize| {
                    let (before, step) = self.values.layout.neighbours(class.level, axis);
                    (before, step, AXIS_BITS[axis], self.values.last[axis])
                };
                let ((z, y), x) = ((axis(0), axis(1)), axis(2));
                // The odd axes, one after the other.
                let first = if class.axes & 1 == 1 {
                    z
                } else if class.axes & 2 == 2 {
                    y
                } else {
                    x
                };
                let second = if class.axes & 3 == 3 { y } else { x };
                let along = (class.axes & ((1 << (class.predictor & 3)) - 1)).count_ones();
                *self.stencils.add(t as usize) = Stencil {
                    before: [first.0, second.0, x.0],
                    code: if class.predictor < MEAN { class.predictor & 4 | along } else { class.predictor },
                    step: [first.1, second.1, x.1],
                    packed,
                    shift: [first.2.0, second.2.0, x.2.0],
                    mask: [first.2.1, second.2.1, x.2.1],
                    last: [first.3, second.3, x.3],
                };
            }
            let levels = self.tile.log2(0).max(self.tile.log2(1)).max(self.tile.log2(2));
            if t < 2 * levels {
                *self.quantisers.add(t as usize) = intrinsics::load_readonly(steps.add(t as usize));
            }
        }
    }

    /// # Safety
    /// There is such a level, and a barrier followed [`Job::start`].
    #[inline(always)]
    unsafe fn quantiser(&self, level: u32) -> Quantiser<T> {
        // SAFETY: the caller's.
        unsafe { Quantiser { step: *self.quantisers.add(2 * level as usize), inverse: *self.quantisers.add(2 * level as usize + 1) } }
    }

    /// Puts the anchors at the corners of the box.
    ///
    /// # Safety
    /// All threads of the block call it; a barrier must follow. `anchor` may be called for the tile of each corner.
    #[inline(always)]
    unsafe fn put_anchors(&self, anchor: impl Fn(u32, [u32; 3]) -> T) {
        let t = thread::thread_idx_x();
        if t < 8 {
            let there = |axis: usize| t >> axis & 1 == 0 || self.tile.log2(axis) > 0;
            let node = [0, 1, 2].map(|axis| (t >> axis & 1) << self.tile.log2(axis));
            if there(0) && there(1) && there(2) && self.values.contains(node) {
                // SAFETY: the tile that owns it exists.
                unsafe { *self.values.at(self.values.layout.place(node)) = anchor(self.tile.owner(node), node) };
            }
        }
    }

    /// The thread's node of a round.
    ///
    /// # Safety
    /// There is such a round.
    #[inline(always)]
    unsafe fn node(&self, round: u32) -> Node {
        // SAFETY: the caller's.
        unsafe { intrinsics::load_readonly(self.nodes.add((round * BLOCK + thread::thread_idx_x()) as usize)) }
    }

    /// The round after one, of all (or of those up to the far faces').
    #[inline(always)]
    fn next(&self, round: u32, all: bool) -> u32 {
        if all && round + 1 == self.rounds.coarse { self.rounds.faces } else { round + 1 }
    }

    #[inline(always)]
    fn end(&self, all: bool) -> u32 {
        if all { self.rounds.all } else { self.rounds.faces }
    }

    /// # Safety
    /// There is such a round.
    #[inline(always)]
    unsafe fn plain_node(&self, round: u32) -> PlainNode {
        // SAFETY: the caller's.
        unsafe { intrinsics::load_readonly(self.plain_nodes.add((round * BLOCK + thread::thread_idx_x()) as usize)) }
    }

    /// The prediction of a node; `side` tells which neighbours along the k-th odd axis there are.
    ///
    /// # Safety
    /// Its class has `ODD` odd axes; the nodes that it is predicted from are reconstructed.
    #[inline(always)]
    unsafe fn predict<const ODD: usize>(&self, stencil: &Stencil, place: *mut T, side: impl Fn(usize) -> Side) -> T {
        // SAFETY: the caller's.
        unsafe {
            let neighbours = |k: usize| neighbours(place.sub(stencil.before[k] as usize), stencil.step[k] as usize, side(k));
            let corners = |a: usize, b: usize| {
                let first = place.sub((stencil.before[a] + stencil.before[b]) as usize);
                corners(first, stencil.step[a] as usize, stencil.step[b] as usize)
            };
            let along = |axis: &Neighbours<T>, kind: Kind| self.values.along(axis, kind);
            let code = stencil.code;
            if ODD == 1 {
                return along(&neighbours(0), kind(code));
            }
            if code >= MEAN {
                // The order of the odd axes is all that matters.
                let axes = [Some(neighbours(0)), Some(neighbours(1)), if ODD == 3 { Some(neighbours(2)) } else { None }];
                return if code == COONS {
                    predict::predict_with(Predictor::Coons, &axes, corners, along)
                } else {
                    predict::predict_with(Predictor::Mean, &axes, corners, along)
                };
            }
            match code & 3 {
                0 => along(&neighbours(0), kind(code)),
                1 => along(&neighbours(1), kind(code)),
                _ => along(&neighbours(2), kind(code)),
            }
        }
    }

    /// Works on a thread's node of a round of a whole box.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn plain_at<const ODD: usize>(&self, stencil: &Stencil, node: PlainNode, work: &mut impl Work<T>) {
        let (low, position) = (node as u32, (node >> 32) as u32);
        // SAFETY: the caller's.
        unsafe {
            let place = self.values.at(low & 0x1FFF);
            let side = |k: usize| Side { before3: low >> (18 + 2 * k) & 1 == 1, after1: true, after3: low >> (19 + 2 * k) & 1 == 1 };
            let prediction = self.predict::<ODD>(stencil, place, side);
            let quantiser = self.quantiser(stencil.packed & 15);
            *place = work.plain(position, low >> 24 & 7 == 0, *place, quantiser, prediction);
        }
    }

    /// Works on the nodes of all rounds of a whole box (or of those up to the far faces').
    ///
    /// # Safety
    /// All threads of the block call it, after a barrier.
    #[inline(always)]
    unsafe fn work_on_plain(&self, all: bool, work: &mut impl Work<T>) {
        // SAFETY: the caller's; all threads come to the barriers.
        unsafe {
            let mut round = 0;
            let mut after = self.plain_node(round);
            while round < self.end(all) {
                let node = after;
                round = self.next(round, all);
                // On its way while this one is worked on: there is one more round than are worked on.
                after = self.plain_node(round);
                if node as u32 & EXISTS != 0 {
                    let stencil = *self.stencils.add((node as u32 >> 13 & 31) as usize);
                    match (stencil.packed >> 4 & 7).count_ones() {
                        1 => self.plain_at::<1>(&stencil, node, work),
                        2 => self.plain_at::<2>(&stencil, node, work),
                        _ => self.plain_at::<3>(&stencil, node, work),
                    }
                }
                if node as u32 & PLAIN_BARRIER != 0 {
                    thread::sync_threads();
                }
            }
        }
    }

    /// Works on a thread's node of a round.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn any_at<const ODD: usize>(&self, stencil: &Stencil, node: Node, work: &mut impl Work<T>) {
        let at = At::new(node);
        // SAFETY: the caller's.
        unsafe {
            if self.values.contains(at.node) {
                let place = self.values.at(at.place);
                let side = |k: usize| {
                    let (index, last, spacing) =
                        (node as u32 >> stencil.shift[k] & stencil.mask[k], stencil.last[k], 1 << (stencil.packed & 15));
                    Side { before3: index > 2 * spacing, after1: index + spacing <= last, after3: index + 3 * spacing <= last }
                };
                let prediction = self.predict::<ODD>(stencil, place, side);
                let quantiser = self.quantiser(stencil.packed & 15);
                *place = work.any(&self.tile, &at, *place, quantiser, prediction);
            }
        }
    }

    /// Works on the nodes of all rounds.
    ///
    /// # Safety
    /// All threads of the block call it, after a barrier.
    #[inline(always)]
    unsafe fn work_on(&self, work: &mut impl Work<T>) {
        // SAFETY: the caller's; all threads come to the barriers.
        unsafe {
            let mut round = 0;
            let mut after = self.node(round);
            while round < self.end(true) {
                let node = after;
                round = self.next(round, true);
                after = self.node(round);
                if node as u32 & EXISTS != 0 {
                    let stencil = *self.stencils.add((node as u32 >> 26 & 31) as usize);
                    match (stencil.packed >> 4 & 7).count_ones() {
                        1 => self.any_at::<1>(&stencil, node, work),
                        2 => self.any_at::<2>(&stencil, node, work),
                        _ => self.any_at::<3>(&stencil, node, work),
                    }
                }
                if (node >> 32) as u32 & BARRIER != 0 {
                    thread::sync_threads();
                }
            }
        }
    }

    /// Works on all nodes of a plain tile but the anchors.
    ///
    /// # Safety
    /// All threads of the block call it, after a barrier.
    #[inline(always)]
    unsafe fn refine_plain<S: Shape>(&self, work: &mut impl Work<T>) {
        // SAFETY: the caller's; all threads come to the barriers.
        unsafe {
            // The stencils of far faces lie within them: they do not need the finest level's other nodes.
            self.work_on_plain(S::SHAPE.is_none(), work);
            if S::SHAPE.is_some() {
                let mut class = Finest::<S>::first_class(self.tile.classes());
                Finest::<S>::refine::<T, 1>(self, &mut class, work);
                Finest::<S>::refine::<T, 2>(self, &mut class, work);
                Finest::<S>::refine::<T, 4>(self, &mut class, work);
                thread::sync_threads();
                Finest::<S>::refine::<T, 3>(self, &mut class, work);
                Finest::<S>::refine::<T, 5>(self, &mut class, work);
                Finest::<S>::refine::<T, 6>(self, &mut class, work);
                thread::sync_threads();
                Finest::<S>::refine::<T, 7>(self, &mut class, work);
            }
        }
    }

    /// Starts to bring the box's original values.
    ///
    /// # Safety
    /// All threads of the block call it, and wait for the copies; `from` points to the chunk.
    #[inline(always)]
    unsafe fn load(&self, from: *const T) {
        let t = thread::thread_idx_x();
        let [z_end, y_end, x_end] = self.values.last.map(|last| last + 1);
        let lanes_log2 = self.tile.log2(2).min(7);
        let (lanes, rows, row) = (1 << lanes_log2, BLOCK >> lanes_log2, t >> lanes_log2);
        let side = [0, 1, 2].map(|axis| 1 << self.tile.log2(axis));
        let (nx, plane) = (self.tile.dims(2) as usize, self.tile.dims(1) as usize * self.tile.dims(2) as usize);
        let layout = &self.values.layout;
        // SAFETY: nodes of the box exist.
        unsafe {
            let origin = from.add(self.tile.index([0; 3]) as usize);
            let mut x = t & (lanes - 1);
            while x < x_end.min(side[2]) {
                let mut z = 0;
                let (mut here, mut there) = (origin.add(row as usize * nx + x as usize), self.values.at(layout.place([0, row, x])));
                while z < z_end {
                    let (mut i, mut value) = (0, here);
                    while i < side[1] / rows {
                        if row + i * rows < y_end {
                            intrinsics::copy_async(there.add((i * rows * layout.row) as usize), value);
                        }
                        (i, value) = (i + 1, value.wrapping_add(rows as usize * nx));
                    }
                    (z, here, there) = (z + 1, here.wrapping_add(plane), there.wrapping_add(layout.plane as usize));
                }
                // The far face along y.
                if y_end > side[1] && side[1] > 1 {
                    let mut z = row;
                    while z < z_end {
                        let value = origin.add(z as usize * plane + side[1] as usize * nx + x as usize);
                        intrinsics::copy_async(self.values.at(layout.place([z, side[1], x])), value);
                        z += rows;
                    }
                }
                x += lanes;
            }
            // The far face along x.
            if x_end > side[2] && side[2] > 1 {
                let (mut z, mut y) = (0, t);
                while z < z_end {
                    while y >= y_end {
                        (z, y) = (z + 1, y - y_end);
                    }
                    if z < z_end {
                        let value = origin.add(z as usize * plane + y as usize * nx + side[2] as usize);
                        intrinsics::copy_async(self.values.at(layout.place([z, y, side[2]])), value);
                    }
                    y += BLOCK;
                }
            }
        }
    }

    /// Copies the nodes that the tile owns to the chunk.
    ///
    /// # Safety
    /// All threads of the block call it, after a barrier; `out` points to the chunk.
    #[inline(always)]
    unsafe fn store(&self, out: *mut T) {
        let t = thread::thread_idx_x();
        let lanes_log2 = self.tile.log2(2).min(7);
        let (lanes, rows, row) = (1 << lanes_log2, BLOCK >> lanes_log2, t >> lanes_log2);
        let side = [0, 1, 2].map(|axis| 1 << self.tile.log2(axis));
        let end = [0, 1, 2].map(|axis| (self.values.last[axis] + 1).min(side[axis]));
        let (nx, plane) = (self.tile.dims(2) as usize, self.tile.dims(1) as usize * self.tile.dims(2) as usize);
        let layout = &self.values.layout;
        // SAFETY: nodes of the box exist.
        unsafe {
            let origin = out.add(self.tile.index([0; 3]) as usize);
            let mut x = t & (lanes - 1);
            while x < end[2] {
                let mut z = 0;
                let (mut here, mut there) = (origin.add(row as usize * nx + x as usize), self.values.at(layout.place([0, row, x])));
                while z < end[0] {
                    let (mut i, mut value) = (0, here);
                    while i < side[1] / rows {
                        if row + i * rows < end[1] {
                            *value = *there.add((i * rows * layout.row) as usize);
                        }
                        (i, value) = (i + 1, value.wrapping_add(rows as usize * nx));
                    }
                    (z, here, there) = (z + 1, here.wrapping_add(plane), there.wrapping_add(layout.plane as usize));
                }
                x += lanes;
            }
        }
    }

    /// Brings the symbols of all rounds' nodes, as numbers, from the tiles that own them. Returns whether some stand for exact values.
    ///
    /// # Safety
    /// `symbols` points to 4096 for each tile.
    #[inline(always)]
    unsafe fn load_listed<P: Stored>(&self, symbols: *const P) -> bool {
        let mut escaped = false;
        let mut round = 0;
        // SAFETY: nodes of the box exist, and so do their symbols.
        unsafe {
            while round < self.end(true) {
                let mut steps = [T::ZERO; 8];
                let mut places = [u32::MAX; 8];
                each8!(|k| {
                    if round < self.end(true) {
                        let node = self.node(round);
                        let at = At::new(node);
                        if node as u32 & EXISTS != 0 && self.values.contains(at.node) {
                            let symbol = self.tile.owner(at.node) as usize * TILE_NODES + at.position as usize;
                            steps[k] = intrinsics::load_readonly(symbols.add(symbol)).steps();
                            places[k] = at.place;
                        }
                        round = self.next(round, true);
                    }
                });
                each8!(|k| {
                    if places[k] != u32::MAX {
                        escaped |= is_nan(steps[k]);
                        *self.values.at(places[k]) = steps[k];
                    }
                });
            }
        }
        escaped
    }

    /// The same for a whole box, and for all rounds or those up to the far faces'.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn load_plain<P: Stored>(&self, all: bool, symbols: *const P) -> bool {
        let mut escaped = false;
        let mut round = 0;
        // SAFETY: nodes of the box exist, and so do their symbols.
        unsafe {
            let (row, plane) = (self.tile.tiles(2), self.tile.tiles(1) * self.tile.tiles(2));
            while round < self.end(all) {
                let mut steps = [T::ZERO; 8];
                let mut places = [u32::MAX; 8];
                each8!(|k| {
                    if round < self.end(all) {
                        let node = self.plain_node(round);
                        let low = node as u32;
                        if low & EXISTS != 0 {
                            let owner = thread::block_idx_x() + (low >> 24 & 1) * plane + (low >> 25 & 1) * row + (low >> 26 & 1);
                            let symbol = owner as usize * TILE_NODES + (node >> 32) as usize;
                            steps[k] = intrinsics::load_readonly(symbols.add(symbol)).steps();
                            places[k] = low & 0x1FFF;
                        }
                        round = self.next(round, all);
                    }
                });
                each8!(|k| {
                    if places[k] != u32::MAX {
                        escaped |= is_nan(steps[k]);
                        *self.values.at(places[k]) = steps[k];
                    }
                });
            }
        }
        escaped
    }

    /// Brings the symbols of a whole box's nodes, likewise.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn load_whole<S: Shape, P: Stored>(&self, symbols: *const P) -> bool {
        // SAFETY: the caller's.
        unsafe {
            if S::SHAPE.is_none() {
                return self.load_plain(true, symbols);
            }
            let own = symbols.add(thread::block_idx_x() as usize * TILE_NODES);
            let values = &self.values;
            let finest = Finest::<S>::load::<T, P, 1>(values, own)
                | Finest::<S>::load::<T, P, 2>(values, own)
                | Finest::<S>::load::<T, P, 4>(values, own)
                | Finest::<S>::load::<T, P, 3>(values, own)
                | Finest::<S>::load::<T, P, 5>(values, own)
                | Finest::<S>::load::<T, P, 6>(values, own)
                | Finest::<S>::load::<T, P, 7>(values, own);
            finest | self.load_plain(false, symbols)
        }
    }
}

/// Forward.
struct Quantise<T, P> {
    mask: *const u32,
    bound: f64,
    forbidden: T,
    /// The tile's own.
    symbols: *mut P,
    worst: T,
    /// Whether a symbol of a plain tile may be too large.
    suspect: bool,
    /// Whether a symbol did not fit `P`.
    overflow: bool,
}

impl<T: Real + Greatest, P: Stored> Work<T> for Quantise<T, P> {
    #[inline(always)]
    unsafe fn plain(&mut self, position: u32, owned: bool, known: T, quantiser: Quantiser<T>, prediction: T) -> T {
        let (symbol, reconstructed, fits) = quantiser.quantise_below(known, prediction, limit::<T, P>());
        self.suspect |= !fits;
        self.worst = self.worst.greater(Real::abs(known - reconstructed));
        if owned {
            // SAFETY: the caller's.
            unsafe { *self.symbols.add(position as usize) = P::new(symbol) };
        }
        reconstructed
    }

    #[inline(always)]
    unsafe fn any(&mut self, tile: &Tile, at: &At, known: T, quantiser: Quantiser<T>, prediction: T) -> T {
        let (symbol, mut reconstructed, fits) = quantiser.quantise(known, prediction);
        let exact = Real::abs(known.to_f64() - reconstructed.to_f64());
        let mut error = Real::abs(known - reconstructed);
        let mut stored = P::new(symbol);
        // SAFETY: the node exists, and so does its symbol.
        unsafe {
            if masked(self.mask, tile.index(at.node)) {
                (stored, reconstructed, error) = (P::new(0), quantiser.missing(prediction), T::ZERO);
            } else if fits && exact <= self.bound && reconstructed != self.forbidden {
                self.overflow |= f64::from(symbol.unsigned_abs()) >= P::LIMIT;
            } else {
                (stored, reconstructed, error) = (P::ESCAPED, known, T::ZERO);
            }
            self.worst = self.worst.greater(error);
            if tile.owns(at.node) {
                *self.symbols.add(at.position as usize) = stored;
            }
        }
        reconstructed
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn quantise<T: Real + Greatest + intrinsics::AsyncValue, P: Stored, S: Shape>(
    tiles: &Tiles,
    layout: BoxLayout,
    rounds: &Rounds,
    classes: *const Class,
    nodes: *const Node,
    plain_nodes: *const PlainNode,
    steps: *const T,
    values: *const T,
    mask: *const u32,
    anchors: *const T,
    escaped: *const u32,
    bound: f64,
    safe: T,
    forbidden: T,
    symbols: *mut P,
    found: *mut u64,
    decoded: *mut T,
) {
    let (index, t) = (thread::block_idx_x(), thread::thread_idx_x());
    let job = Job::<T>::new::<S>(tiles, layout, rounds, nodes, plain_nodes);
    // SAFETY: the caller's; all threads decide alike and come to the barriers.
    unsafe {
        let symbols = symbols.add(index as usize * TILE_NODES);
        let new = || Quantise::<T, P> { mask, bound, forbidden, symbols, worst: T::ZERO, suspect: false, overflow: false };
        let put_anchors = || {
            intrinsics::copy_async_wait();
            thread::sync_threads();
            job.put_anchors(|owner, _| intrinsics::load_readonly(anchors.add(owner as usize)));
            thread::sync_threads();
        };
        job.start(classes, steps);
        if t == 0 {
            *symbols.add(0) = if masked(escaped, index) { P::ESCAPED } else { P::new(0) };
        }
        let mut work = new();
        // Values that no node may have make all look closely.
        let plain = job.is_whole() && mask.is_null() && is_nan(forbidden);
        if plain {
            let job = job.of_whole();
            job.load(values);
            put_anchors();
            job.refine_plain::<S>(&mut work);
        }
        let suspect = work.suspect || is_nan(work.worst) || work.worst > safe;
        // Also a barrier: the box is used again.
        if !plain || thread::sync_threads_or(u32::from(suspect)) != 0 {
            let mut i = t + 1;
            while i < TILE_NODES as u32 && job.tile.nodes() < TILE_NODES as u32 {
                *symbols.add(i as usize) = P::new(0);
                i += BLOCK;
            }
            work = new();
            job.load(values);
            put_anchors();
            job.work_on(&mut work);
        }
        if !decoded.is_null() {
            job.store(decoded);
        }
        // Errors are rounded to the values' type, and none is beyond the bound.
        let worst = work.worst.of_warp().to_f64();
        let greatest = if worst < bound { worst.to_bits() } else { bound.to_bits() };
        let overflow = warp::full::any(work.overflow);
        if warp::lane_id() == 0 {
            if greatest > atomic_load_relaxed_64_device(found) {
                atomic_fetch_max_relaxed_u64_device(found, greatest);
            }
            if overflow {
                atomic_fetch_or_relaxed_u32_device(found.add(1).cast(), 1);
            }
        }
    }
}

/// Back.
struct Reconstruct<T> {
    mask: *const u32,
    exact: *const T,
}

impl<T: Real> Work<T> for Reconstruct<T> {
    #[inline(always)]
    unsafe fn plain(&mut self, _: u32, _: bool, known: T, quantiser: Quantiser<T>, prediction: T) -> T {
        quantiser.reconstruct_steps(known, prediction)
    }

    #[inline(always)]
    unsafe fn any(&mut self, tile: &Tile, at: &At, known: T, quantiser: Quantiser<T>, prediction: T) -> T {
        let index = tile.index(at.node);
        // SAFETY: the node exists.
        unsafe {
            if is_nan(known) {
                *self.exact.add(index as usize)
            } else if masked(self.mask, index) {
                quantiser.missing(prediction)
            } else {
                quantiser.reconstruct_steps(known, prediction)
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn reconstruct<T: Real + intrinsics::AsyncValue, P: Stored, S: Shape>(
    tiles: &Tiles,
    layout: BoxLayout,
    rounds: &Rounds,
    classes: *const Class,
    nodes: *const Node,
    plain_nodes: *const PlainNode,
    steps: *const T,
    symbols: *const P,
    mask: *const u32,
    anchors: *const T,
    values: *mut T,
) {
    let job = Job::<T>::new::<S>(tiles, layout, rounds, nodes, plain_nodes);
    // SAFETY: the caller's; all threads decide alike and come to the barriers. An exact value that another block reads is overwritten by
    // the same one.
    unsafe {
        let mut work = Reconstruct { mask, exact: values };
        job.start(classes, steps);
        let anchor = |owner: u32, node: [u32; 3]| {
            let steps: T = intrinsics::load_readonly(symbols.add(owner as usize * TILE_NODES)).steps();
            if is_nan(steps) { *values.add(job.tile.index(node) as usize) } else { intrinsics::load_readonly(anchors.add(owner as usize)) }
        };
        job.put_anchors(anchor);
        let whole = job.is_whole() && mask.is_null();
        let escaped = if whole { job.of_whole().load_whole::<S, P>(symbols) } else { job.load_listed(symbols) };
        if thread::sync_threads_or(u32::from(escaped)) == 0 && whole {
            let job = job.of_whole();
            job.refine_plain::<S>(&mut work);
            thread::sync_threads();
            job.store(values);
        } else {
            job.work_on(&mut work);
            job.store(values);
        }
    }
}

macro_rules! kernels {
    ($($real:ident $stored:ident $shape:ident $blocks:literal $quantise:ident $reconstruct:ident;)*) => {$(
        /// Predicts and quantises a chunk. `decoded` is null or gets the reconstructed values.
        ///
        /// Grid: a block for each tile; block: 128 threads. Shared memory: a closed box, dynamic.
        ///
        /// # Safety
        ///
        /// `classes` points to the classes in the order of work, `nodes` and `plain_nodes` to those of the rounds and of one more, `steps` to each level's
        /// step and its inverse, the finest first. `values` and `decoded` point to the chunk's values, `mask` to a bit for each (or is
        /// null), `anchors` to the reconstructed anchor of each tile, `escaped` to a bit for each tile, `symbols` to 4096 for each tile.
        /// `safe` is [`Quantiser::safe_difference`]. `found` points to the bits of a number that is not negative, which is raised to the
        /// greatest error, and to a number whose first bit is set where a symbol does not fit.
        #[kernel(max_threads = BLOCK, min_blocks = $blocks)]
        pub unsafe fn $quantise(
            tiles: Tiles,
            layout: BoxLayout,
            rounds: Rounds,
            classes: *const Class,
            nodes: *const Node,
            plain_nodes: *const PlainNode,
            steps: *const $real,
            values: *const $real,
            mask: *const u32,
            anchors: *const $real,
            escaped: *const u32,
            bound: f64,
            safe: $real,
            forbidden: $real,
            symbols: *mut $stored,
            found: *mut u64,
            decoded: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe {
                quantise::<$real, $stored, $shape>(
                    &tiles, layout, &rounds, classes, nodes, plain_nodes, steps, values, mask, anchors, escaped, bound, safe, forbidden, symbols, found,
                    decoded,
                );
            }
        }

        /// The inverse. `values` has the exact values in place where symbols stand for such.
        ///
        /// Grid: a block for each tile; block: 128 threads. Shared memory: a closed box, dynamic.
        ///
        /// # Safety
        ///
        /// As above.
        #[kernel(max_threads = BLOCK, min_blocks = $blocks)]
        pub unsafe fn $reconstruct(
            tiles: Tiles,
            layout: BoxLayout,
            rounds: Rounds,
            classes: *const Class,
            nodes: *const Node,
            plain_nodes: *const PlainNode,
            steps: *const $real,
            symbols: *const $stored,
            mask: *const u32,
            anchors: *const $real,
            values: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe {
                reconstruct::<$real, $stored, $shape>(&tiles, layout, &rounds, classes, nodes, plain_nodes, steps, symbols, mask, anchors, values);
            }
        }
    )*};
}

kernels! {
    f32 i16 Any 6 boxes_quantise_f32_i16 boxes_reconstruct_f32_i16;
    f32 i32 Any 6 boxes_quantise_f32_i32 boxes_reconstruct_f32_i32;
    f32 i16 Cube 8 boxes_quantise_f32_i16_cube boxes_reconstruct_f32_i16_cube;
    f32 i16 Square 8 boxes_quantise_f32_i16_square boxes_reconstruct_f32_i16_square;
    f64 i16 Any 5 boxes_quantise_f64_i16 boxes_reconstruct_f64_i16;
    f64 i32 Any 5 boxes_quantise_f64_i32 boxes_reconstruct_f64_i32;
    f64 i16 Cube 5 boxes_quantise_f64_i16_cube boxes_reconstruct_f64_i16_cube;
    f64 i16 Square 5 boxes_quantise_f64_i16_square boxes_reconstruct_f64_i16_square;
}
