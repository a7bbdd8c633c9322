//! How a chunk is cut into packed tiles, and how a tile of given extents is worked on.

use bmgard_core::Real;
use bmgard_core::packed::{GROUP, PackedShape, Stencil, TILE_NODES, positions};

use crate::plan::Dims;

/// The tiles of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nodes of the chunk, slowest dimension first.
    pub(crate) dims: [usize; 3],
    pub(crate) shape: PackedShape,
    /// The grid of tiles.
    pub(crate) tiles: [usize; 3],
}

/// A tile's place in the chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileBox {
    /// The position of its first node.
    pub(crate) first: usize,
    /// Its nodes along each axis.
    pub(crate) extents: [usize; 3],
    /// Of the chunk: how far apart planes and rows are.
    pub(crate) strides: [usize; 2],
}

impl TileBox {
    pub(crate) fn nodes(&self) -> usize {
        self.extents.iter().product()
    }

    /// The position of the first node of each row, z and y ascending.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { first, extents: [nz, ny, _], strides } = *self;
        (0..nz).flat_map(move |z| (0..ny).map(move |y| first + z * strides[0] + y * strides[1]))
    }
}

impl Plan {
    /// For a chunk of a field of `d` dimensions.
    pub(crate) fn new(dims: Dims, d: usize) -> Self {
        let shape = PackedShape::for_dimensions(d);
        let dims = dims.map(|n| n as usize);
        Self { dims, shape, tiles: [0, 1, 2].map(|axis| dims[axis].div_ceil(shape.side(axis))) }
    }

    pub(crate) fn tile_count(&self) -> usize {
        self.tiles.iter().product()
    }

    /// A tile by its number in C order of the grid.
    pub(crate) fn tile(&self, index: usize) -> TileBox {
        let at = [index / (self.tiles[1] * self.tiles[2]), index / self.tiles[2] % self.tiles[1], index % self.tiles[2]];
        let origin = [0, 1, 2].map(|axis| at[axis] * self.shape.side(axis));
        TileBox {
            first: (origin[0] * self.dims[1] + origin[1]) * self.dims[2] + origin[2],
            extents: [0, 1, 2].map(|axis| self.shape.side(axis).min(self.dims[axis] - origin[axis])),
            strides: [self.dims[1] * self.dims[2], self.dims[2]],
        }
    }
}

/// What is done for one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<T> {
    pub(super) slot: u16,
    /// The slots of the second node before it, the one before, the one after and the second after; 0 where there is none.
    pub(super) from: [u16; 4],
    pub(super) weights: [T; 4],
    /// `None` for corners, which are like the anchor.
    pub(super) stencil: Option<Stencil>,
}

impl<T: Real> Step<T> {
    /// The prediction in a tile by itself.
    pub(super) fn predict(&self, nodes: &[T; TILE_NODES]) -> T {
        match self.stencil {
            None => nodes[0],
            Some(stencil) => stencil.predict(self.from.map(|slot| nodes[usize::from(slot)]), self.weights),
        }
    }
}

/// Tiles of the same extents: what is done to each.
#[derive(Clone, Debug)]
pub(super) struct Program<T> {
    pub(super) extents: [usize; 3],
    /// In the order of decoding, the anchor left out.
    pub(super) steps: Vec<Step<T>>,
    /// The slots of the nodes along x of a row.
    pub(super) row: Vec<u16>,
    /// The slot of each row's first node, z and y ascending.
    pub(super) rows: Vec<u16>,
    /// The slots of symbols by position, those of missing nodes left out, and how many come before each group's end.
    pub(super) order: Vec<u16>,
    pub(super) group_ends: [u16; TILE_NODES / GROUP],
}

impl<T: Real> Program<T> {
    pub(super) fn new(shape: PackedShape, extents: [usize; 3]) -> Self {
        let slot_along = |axis: usize, index: usize| if index > 0 && index + 1 == extents[axis] { shape.side(axis) - 1 } else { index };
        let index_along = |axis: usize, slot: usize| {
            let last = slot > 0 && slot + 1 == shape.side(axis);
            let index = if last { extents[axis] - 1 } else { slot };
            (index < extents[axis] && slot_along(axis, index) == slot).then_some(index)
        };
        let exists = |slot: u16| {
            let node = shape.node(slot.into());
            (0..3).all(|axis| index_along(axis, node[axis]).is_some())
        };
        // Stages come in the opposite order there, and nodes of a stage do not depend on each other.
        let mut slots: Vec<u16> = (1..TILE_NODES as u16).filter(|&slot| exists(slot)).collect();
        let rank = |slot: u16| shape.stage(shape.node(slot.into())).map_or((0, 0), |(level, axis)| (u32::MAX - level, axis));
        slots.sort_by_key(|&slot| rank(slot));
        let steps = slots.into_iter().map(|slot| {
            let node = shape.node(slot.into());
            let Some((_, axis)) = shape.stage(node) else {
                return Step { slot, from: [0; 4], weights: [T::ZERO; 4], stencil: None };
            };
            let stencil = Stencil::new(node[axis] as u32, extents[axis] as u32);
            let distances = [-i64::from(stencil.before2), -i64::from(stencil.before), stencil.after.into(), stencil.after2.into()];
            let from = distances.map(|distance| {
                let mut other = node;
                other[axis] = slot_along(axis, (node[axis] as i64 + distance) as usize);
                if distance == 0 { 0 } else { shape.slot(other) as u16 }
            });
            Step { slot, from, weights: stencil.weights(), stencil: Some(stencil) }
        });
        let order: Vec<u16> = positions(shape).iter().copied().filter(|&slot| exists(slot)).collect();
        let mut group_ends = [0; TILE_NODES / GROUP];
        let mut end = 0;
        for (slots, out) in positions(shape).chunks(GROUP).zip(&mut group_ends) {
            end += slots.iter().filter(|&&slot| exists(slot)).count() as u16;
            *out = end;
        }
        let along = |axis: usize| (0..extents[axis]).map(move |index| slot_along(axis, index));
        let rows = along(0).flat_map(|z| along(1).map(move |y| shape.slot([z, y, 0]) as u16));
        Self { extents, steps: steps.collect(), row: along(2).map(|slot| slot as u16).collect(), rows: rows.collect(), order, group_ends }
    }

    /// The slots of all nodes in C order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().flat_map(|&row| self.row.iter().map(move |&x| usize::from(row + x)))
    }

    /// Whether a slot has a node.
    pub(super) fn has(&self, slot: u16) -> bool {
        self.order.contains(&slot)
    }
}

/// The programs of a chunk's tiles.
#[derive(Clone, Debug)]
pub(crate) struct Programs<T>(Vec<Program<T>>);

impl<T: Real> Programs<T> {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut programs = Vec::new();
        // Along each axis, tiles are of full size but for the last.
        let along = |axis: usize| {
            let side = plan.shape.side(axis);
            let (full, rest) = (plan.dims[axis] >= side, plan.dims[axis] % side);
            full.then_some(side).into_iter().chain((rest > 0).then_some(rest))
        };
        for z in along(0) {
            for y in along(1) {
                programs.extend(along(2).map(|x| Program::new(plan.shape, [z, y, x])));
            }
        }
        Self(programs)
    }

    /// How many there are, and which is that of a tile.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn index(&self, extents: [usize; 3]) -> usize {
        self.0.iter().position(|program| program.extents == extents).unwrap_or(0)
    }

    pub(super) fn get(&self, index: usize) -> &Program<T> {
        &self.0[index]
    }

    /// All programs as `kernels_gpu::packed::Table`s, one after the other.
    #[cfg(feature = "cuda")]
    pub(crate) fn tables(&self, shape: PackedShape) -> Vec<u64>
    where
        T: bytemuck::Pod,
    {
        let mut out = Vec::new();
        self.0.iter().for_each(|program| program.write_table(shape, &mut out));
        bytemuck::pod_collect_to_vec(&out)
    }
}

#[cfg(feature = "cuda")]
impl<T: Real + bytemuck::Pod> Program<T> {
    fn write_table(&self, shape: PackedShape, out: &mut Vec<u8>) {
        const STAGES: usize = 31;
        let padded = |bytes: Vec<u8>, len: usize| {
            assert!(bytes.len() <= len);
            let zeros = vec![0; len - bytes.len()];
            [bytes, zeros].concat()
        };
        let weights = self.steps.iter().flat_map(|step| bytemuck::bytes_of(&step.weights).to_vec()).collect();
        let step = |step: &Step<T>| {
            let kind = match step.stencil.map(|stencil| (stencil.before2, stencil.after2)) {
                None => 0,
                Some((0, 0)) => 1,
                Some((0, _)) => 2,
                Some((_, 0)) => 3,
                Some(_) => 4,
            };
            let [a, b, c, d] = step.from;
            [step.slot, a, b, c, d, kind, 0, 0]
        };
        let steps = self.steps.iter().flat_map(step).flat_map(u16::to_le_bytes).collect();
        let indices = |n: usize| 0..n as u32;
        let [nz, ny, nx] = self.extents;
        let places = indices(nz).flat_map(|z| indices(ny).flat_map(move |y| indices(nx).map(move |x| z << 24 | y << 19 | x << 9)));
        let nodes = places.zip(self.nodes()).flat_map(|(place, slot)| (place | slot as u32).to_le_bytes()).collect();
        let stage = |index: usize| shape.stage(shape.node(self.steps[index].slot.into()));
        let ends: Vec<u32> =
            (1..=self.steps.len()).filter(|&end| end == self.steps.len() || stage(end) != stage(end - 1)).map(|end| end as u32).collect();
        let stages = ends.len() as u32;
        let stage_ends = ends.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut exists = [0u32; TILE_NODES / 32];
        self.order.iter().for_each(|slot| exists[usize::from(slot / 32)] |= 1 << (slot % 32));
        out.extend(padded(weights, 4 * TILE_NODES * size_of::<T>()));
        out.extend(padded(steps, 16 * TILE_NODES));
        out.extend(padded(nodes, 4 * TILE_NODES));
        out.extend(padded(stage_ends, 4 * STAGES));
        out.extend(stages.to_le_bytes());
        out.extend(exists.into_iter().flat_map(u32::to_le_bytes));
        out.extend(padded(self.order.iter().flat_map(|slot| slot.to_le_bytes()).collect(), 2 * TILE_NODES));
        out.extend(self.group_ends.into_iter().flat_map(u16::to_le_bytes));
    }
}
