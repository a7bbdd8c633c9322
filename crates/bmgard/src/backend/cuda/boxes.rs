//! Prediction and quantisation of all of a chunk's tiles, forward and back: what `kernels_gpu::boxes` looks up, and its launches.

use bmgard_core::closed::geometry::BoxLayout;
use bmgard_core::closed::{Quantiser, TileShape};
use cust::error::CudaResult;
use cust::memory::{DeviceCopy, DevicePointer};
use cust::module::Module;

use super::choices::Chosen;
use super::closed::{BLOCK, Layout, Original, address, class_nodes, position};
use super::levels::DeviceValue;
use super::memory::Buffer;
use super::stages::set_most_shared;
use super::{Cuda, queue};
use crate::closed::Task;
use crate::closed::plan::Plan;
use crate::{Result, Value};

/// Lanes of a warp, which work on one class in a round.
const WARP: usize = 32;
const ROUND: usize = BLOCK as usize;

/// `kernels_gpu::boxes::Node` and `kernels_gpu::boxes::PlainNode`.
const EXISTS: u64 = 1 << 31;
const BARRIER: u64 = 1 << (32 + 25);
const PLAIN_BARRIER: u64 = 1 << 30;

/// Names of the kernels that know the shape.
const KNOWN: [(TileShape, &str); 2] = [(TileShape::CUBE, "_cube"), (TileShape::SQUARE, "_square")];

/// The types that symbols are stored in, the narrow one first.
pub(super) const WIDTHS: [&str; 2] = ["i16", "i32"];

/// Magnitudes of symbols of the narrow type, at most.
const NARROW: f64 = 32_767.0;

/// `kernels_gpu::boxes::Rounds`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Rounds {
    coarse: u32,
    faces: u32,
    all: u32,
}

/// `bmgard_core::closed::BoxLayout`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Strides {
    half: u32,
    row: u32,
    plane: u32,
}

/// What threads do, round by round.
pub(super) struct Boxes {
    nodes: Buffer<u64>,
    plain_nodes: Buffer<u64>,
    rounds: Rounds,
    strides: Strides,
    /// Values of a closed box in shared memory.
    values: u32,
    shape: TileShape,
}

/// A node of a class, counted from the tile's first one.
#[derive(Clone, Copy)]
struct At {
    class: usize,
    node: [usize; 3],
}

/// The rounds of a shape.
struct List<'a> {
    plan: &'a Plan,
    /// Of each node of a full tile, in C order.
    positions: &'a [u16],
    layout: BoxLayout,
    nodes: Vec<u64>,
    plain_nodes: Vec<u64>,
}

impl List<'_> {
    fn side(&self, axis: usize) -> usize {
        self.plan.shape.side(axis)
    }

    /// A class's nodes in a full closed box: those that a full tile owns, by their positions, then those on far faces.
    fn class(&self, class: usize) -> (Vec<At>, Vec<At>) {
        let nodes = class_nodes(self.plan.shape, self.plan.classes[class]).map(|node| At { class, node });
        let (mut owned, far): (Vec<At>, Vec<At>) = nodes.partition(|at| (0..3).all(|axis| at.node[axis] < self.side(axis)));
        owned.sort_by_key(|at| self.position(at));
        (owned, far)
    }

    /// The position of a node's symbol in the tile that owns it.
    fn position(&self, at: &At) -> u64 {
        position(self.plan.shape, self.positions, at.node).into()
    }

    fn place(&self, at: &At) -> u64 {
        self.layout.place(at.node.map(|index| index as u32)).into()
    }

    fn entry(&self, at: &At) -> u64 {
        let [z, y, x] = at.node.map(|index| index as u64);
        EXISTS | (at.class as u64) << 26 | z << 20 | y << 13 | x | (self.place(at) << 12 | self.position(at)) << 32
    }

    fn plain_entry(&self, at: &At) -> u64 {
        let class = self.plan.classes[at.class];
        let mut entry = EXISTS | (at.class as u64) << 13 | self.place(at) | self.position(at) << 32;
        for (k, axis) in (0..3).filter(|axis| class.axes >> axis & 1 == 1).enumerate() {
            let (before3, after3) = (at.node[axis] >= 3 << class.level, at.node[axis] + (3 << class.level) <= self.side(axis));
            entry |= (u64::from(before3) | u64::from(after3) << 1) << (18 + 2 * k);
        }
        for axis in 0..3 {
            entry |= u64::from(at.node[axis] >= self.side(axis)) << (24 + axis);
        }
        entry
    }

    /// Adds the rounds of classes that do not need each other: each class starts with a warp, and a barrier follows.
    fn push(&mut self, classes: impl Iterator<Item = Vec<At>>) {
        let start = self.nodes.len();
        for nodes in classes {
            let entries: Vec<(u64, u64)> = nodes.iter().map(|at| (self.entry(at), self.plain_entry(at))).collect();
            self.nodes.extend(entries.iter().map(|entry| entry.0));
            self.plain_nodes.extend(entries.iter().map(|entry| entry.1));
            self.fill(WARP);
        }
        self.fill(ROUND);
        if self.nodes.len() > start {
            let last = self.nodes.len() - ROUND;
            self.nodes[last..].iter_mut().for_each(|node| *node |= BARRIER);
            self.plain_nodes[last..].iter_mut().for_each(|node| *node |= PLAIN_BARRIER);
        }
    }

    fn fill(&mut self, multiple: usize) {
        let len = self.nodes.len().next_multiple_of(multiple);
        self.nodes.resize(len, 0);
        self.plain_nodes.resize(len, 0);
    }

    fn rounds(&self) -> u32 {
        (self.nodes.len() / ROUND) as u32
    }
}

impl Boxes {
    pub(super) fn new(cuda: &Cuda, plan: &Plan, positions: &[u16]) -> Result<Self> {
        let layout = plan.shape.box_layout();
        let mut list = List { plan, positions, layout, nodes: Vec::new(), plain_nodes: Vec::new() };
        let all: Vec<(Vec<At>, Vec<At>)> = (0..plan.classes.len()).map(|class| list.class(class)).collect();
        // Classes of a level with as many odd axes.
        let phases: Vec<Vec<usize>> = (0..plan.shape.levels())
            .rev()
            .flat_map(|level| (1..=3).map(move |odd| (level, odd)))
            .map(|(level, odd)| {
                let is_in = |&class: &usize| plan.classes[class].level == level && plan.classes[class].axes.count_ones() == odd;
                (0..plan.classes.len()).filter(is_in).collect()
            })
            .collect();
        let (coarse, finest) = phases.split_at(phases.len() - 3);
        let whole = |class: &usize| [&all[*class].0[..], &all[*class].1[..]].concat();
        for phase in coarse {
            list.push(phase.iter().map(whole));
        }
        let coarse = list.rounds();
        for phase in finest {
            list.push(phase.iter().map(|class| all[*class].1.clone()));
        }
        let faces = list.rounds();
        for phase in finest {
            list.push(phase.iter().map(whole));
        }
        let rounds = Rounds { coarse, faces, all: list.rounds() };
        // One more, which is looked at but not worked on.
        let len = list.nodes.len() + ROUND;
        list.nodes.resize(len, 0);
        list.plain_nodes.resize(len, 0);
        let values = all.iter().flat_map(|(owned, far)| owned.iter().chain(far)).map(|at| list.place(at)).max();
        // The last corner is an anchor.
        let corner = [0, 1, 2].map(|axis| if plan.shape.side(axis) > 1 { plan.shape.side(axis) as u32 } else { 0 });
        let values = values.unwrap_or(0).max(layout.place(corner).into()) + 1;
        let BoxLayout { half, row, plane } = layout;
        Ok(Self {
            nodes: cuda.upload(&list.nodes)?,
            plain_nodes: cuda.upload(&list.plain_nodes)?,
            rounds,
            strides: Strides { half, row, plane },
            values: values as u32,
            shape: plan.shape,
        })
    }

    /// The name of a kernel: of a whole box's level by level, symbols narrow or wide.
    fn kernel<T: DeviceValue>(&self, what: &str, wide: bool) -> String {
        let known = KNOWN.iter().find(|(shape, _)| *shape == self.shape && !wide).map_or("", |(_, name)| name);
        format!("boxes_{what}_{}_{}{known}", T::SUFFIX, WIDTHS[usize::from(wide)])
    }

    fn launch<T>(&self, tiles: u32) -> (u32, u32, u32) {
        (tiles, BLOCK, self.values * size_of::<T>() as u32)
    }
}

/// Lets the kernels have as much shared memory as the largest closed box takes: less than 64 KiB, which all devices have.
pub(super) fn allow_shared_memory(module: &Module) -> CudaResult<()> {
    const MOST: i32 = 52 << 10;
    for what in ["quantise", "reconstruct"] {
        for width in WIDTHS {
            let function = module.get_function(format!("boxes_{what}_f64_{width}"))?;
            set_most_shared(&function, MOST)?;
        }
    }
    Ok(())
}

/// Whether symbols may not fit the narrow type: residuals are twice the range of the values at most, or nearly so.
pub(super) fn is_wide<T: Value>(greatest: Option<T>, bound: f64) -> bool {
    greatest.is_some_and(|greatest| greatest.to_f64() > NARROW * bound)
}

impl Cuda {
    /// Queues predicting and quantising a chunk's tiles. What is found goes to the places of `chosen` from [`super::choices::TILES_WORST`] on.
    pub(super) fn quantise_tiles<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        chosen: &Chosen<T>,
        found: &Buffer<u64>,
        wide: bool,
        symbols: DevicePointer<u8>,
        decoded: Option<&Buffer<T>>,
    ) -> Result<()> {
        let boxes = &layout.boxes;
        let Chosen { steps, anchors, escaped, .. } = chosen;
        queue!(
            self,
            boxes.kernel::<T>("quantise", wide),
            boxes.launch::<T>(layout.count),
            (
                layout.tiles,
                boxes.strides,
                boxes.rounds,
                layout.classes.pointer(),
                boxes.nodes.pointer(),
                boxes.plain_nodes.pointer(),
                steps.pointer(),
                original.values.pointer(),
                address(original.mask),
                anchors.pointer(),
                escaped.pointer(),
                task.bound,
                Quantiser::<T>::safe_difference(task.bound),
                task.forbidden,
                symbols,
                found.pointer(),
                address(decoded)
            )
        )
    }

    /// Queues the inverse.
    pub(super) fn reconstruct_tiles<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        steps: &Buffer<T>,
        mask: Option<&Buffer<u32>>,
        anchors: &Buffer<T>,
        wide: bool,
        symbols: DevicePointer<u8>,
        values: &Buffer<T>,
    ) -> Result<()> {
        let boxes = &layout.boxes;
        queue!(
            self,
            boxes.kernel::<T>("reconstruct", wide),
            boxes.launch::<T>(layout.count),
            (
                layout.tiles,
                boxes.strides,
                boxes.rounds,
                layout.classes.pointer(),
                boxes.nodes.pointer(),
                boxes.plain_nodes.pointer(),
                steps.pointer(),
                symbols,
                address(mask),
                anchors.pointer(),
                values.pointer()
            )
        )
    }
}
