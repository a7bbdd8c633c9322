//! Closed tiles on the device.

use std::sync::Arc;

use bmgard_core::closed::{Predictor, TILE_NODES, TileShape};
use bytemuck::Pod;
use cust::memory::{DeviceCopy, DevicePointer};

use super::archive::Starts;
use super::boxes::{Boxes, WIDTHS, is_wide};
use super::choices::{Bytes, COUNTS, Chosen, OVERFLOW, TILES_WORST, Written, quantisers};
use super::levels::{DeviceValue, narrow};
use super::mail::{BAD, BROKEN, CLOSED};
use super::memory::Buffer;
use super::resident::{Place, Placed};
use super::{Cuda, failed, queue};
use crate::archive::{Chunk, ChunkHeader, ChunkKind, SectionId, chunk_size};
use crate::closed::plan::{Class, Plan, Strip};
use crate::closed::{self, CodedTiles, Parts, Task};
use crate::pipeline::{self, FieldPlan};
use crate::plan::{Dims, Levels};
use crate::special::Mask;
use crate::{Result, Value};

/// Threads of a block of `kernels_gpu::closed`, and of `kernels_gpu::rice`, a warp of which works on a tile.
pub(super) const BLOCK: u32 = 128;
const CODE_BLOCK: u32 = 128;
const CODE_TILES: u32 = CODE_BLOCK / 32;
/// Predictors by their codes.
pub(super) const CODES: usize = 10;
/// The most classes of a tile.
pub(super) const MOST_CLASSES: usize = 28;
/// `kernels_gpu::rice::DOES_NOT_FIT`.
const DOES_NOT_FIT: u32 = 2;
/// Layouts that are kept.
const KEPT: usize = 4;
/// A tile of the sample: the last of its strip, and one of those that fine levels look at.
const LAST: u32 = 1 << 31;
const FINE: u32 = 1 << 30;

/// `kernels_gpu::closed::Tiles`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
pub(super) struct Tiles {
    dims: [u32; 3],
    pub(super) tiles: [u32; 3],
    log2: [u32; 3],
    classes: u32,
}

/// A chunk's tiles, and what the kernels look up.
pub(super) struct Layout {
    pub(super) plan: Plan,
    pub(super) tiles: Tiles,
    pub(super) count: u32,
    /// `kernels_gpu::closed::Class`: level, axes, predictor, end. The predictors are those of the last chunk.
    pub(super) classes: Buffer<u32>,
    class_ends: Vec<u32>,
    /// Classes that do not need each other: where each such phase starts, and the number of classes.
    pub(super) phase_starts: Buffer<u32>,
    pub(super) phases: u32,
    /// `kernels_gpu::closed::Node`.
    pub(super) nodes: Buffer<u64>,
    /// The position of each node of a full tile.
    positions: Buffer<u16>,
    /// Values of a full closed box, as the kernels that choose have it.
    pub(super) box_values: u32,
    pub(super) boxes: Boxes,
    /// The tiles that predictors are chosen by, with their flags: those of fine levels first, and how many those and all are.
    pub(super) sample: Buffer<u32>,
    pub(super) fine: u32,
    pub(super) coarse: u32,
}

/// The position of each node of a full tile, in C order.
fn positions(plan: &Plan) -> Vec<u16> {
    let mut of_place = vec![0; TILE_NODES];
    plan.order.iter().enumerate().for_each(|(position, &place)| of_place[usize::from(place)] = position as u16);
    plan.place_of.iter().map(|&place| of_place[usize::from(place)]).collect()
}

/// Nodes of a full closed box along each axis.
fn box_extent(shape: TileShape) -> [usize; 3] {
    [0, 1, 2].map(|axis| shape.side(axis) + usize::from(shape.side(axis) > 1))
}

/// A class's nodes in a full closed box, in C order.
pub(super) fn class_nodes(shape: TileShape, class: Class) -> impl Iterator<Item = [usize; 3]> {
    let extent = box_extent(shape);
    let along = move |axis: usize| {
        let odd = class.axes >> axis & 1;
        (odd << class.level..extent[axis]).step_by(1 << shape.spacing_log2(class.level, axis))
    };
    along(0).flat_map(move |z| along(1).flat_map(move |y| along(2).map(move |x| [z, y, x])))
}

/// The position of a node's symbol in the tile that owns it; `positions` are those of a full tile's nodes, in C order.
pub(super) fn position(shape: TileShape, positions: &[u16], node: [usize; 3]) -> u16 {
    let [z, y, x] = [0, 1, 2].map(|axis| node[axis] % shape.side(axis));
    positions[(z * shape.side(1) + y) * shape.side(2) + x]
}

/// The nodes of the classes, one class after the other, and where each class ends.
fn nodes(plan: &Plan, positions: &[u16]) -> (Vec<u64>, Vec<u32>) {
    let extent = box_extent(plan.shape);
    let (mut nodes, mut ends) = (Vec::new(), Vec::with_capacity(plan.classes.len()));
    for &class in &plan.classes {
        nodes.extend(class_nodes(plan.shape, class).map(|node| {
            let [z, y, x] = node;
            let place = (z * extent[1] + y) * extent[2] + x;
            ((place << 12 | usize::from(position(plan.shape, positions, node))) as u64) << 32 | (z << 21 | y << 13 | x) as u64
        }));
        ends.push(nodes.len() as u32);
    }
    (nodes, ends)
}

/// Where each phase of classes starts, and the number of classes.
fn phase_starts(plan: &Plan) -> Vec<u32> {
    let phase = |class: &Class| (class.level, class.axes.count_ones());
    let starts = (0..plan.classes.len()).filter(|&i| i == 0 || phase(&plan.classes[i - 1]) != phase(&plan.classes[i]));
    starts.chain([plan.classes.len()]).map(|i| i as u32).collect()
}

/// The tiles that predictors are chosen by, with their flags, those of fine levels first.
fn sample(plan: &Plan) -> Vec<u32> {
    let mut strips = closed::sample(plan);
    strips.sort_by_key(|&(_, fine)| !fine);
    let tiles = |&(strip, fine): &(Strip, bool)| {
        let first = plan.tile_index(strip.tile) as u32;
        let flags = if fine { FINE } else { 0 };
        (0..strip.count as u32).map(move |i| (first + i) | flags | if i + 1 == strip.count as u32 { LAST } else { 0 })
    };
    strips.iter().flat_map(tiles).collect()
}

impl Layout {
    /// `None` where the kernels' indices or a sensible amount of memory do not suffice.
    fn new(cuda: &Cuda, plan: Plan) -> Result<Option<Self>> {
        let (nodes_in_chunk, places) = (plan.dims.iter().product::<usize>(), plan.tile_count() * TILE_NODES);
        // Tiles that stick out far have more places than nodes.
        if nodes_in_chunk >= (1 << 31) - TILE_NODES || places > 4 * nodes_in_chunk + (1 << 22) || plan.tile_count() >= FINE as usize {
            return Ok(None);
        }
        let positions = positions(&plan);
        let (nodes, ends) = nodes(&plan, &positions);
        let (starts, sample) = (phase_starts(&plan), sample(&plan));
        assert!(plan.classes.len() <= MOST_CLASSES);
        let tiles = Tiles {
            dims: narrow(plan.dims.map(|n| n as u64)),
            tiles: narrow(plan.tiles.map(|n| n as u64)),
            log2: plan.shape.log2().map(u32::from),
            classes: plan.classes.len() as u32,
        };
        let layout = Self {
            tiles,
            count: plan.tile_count() as u32,
            classes: cuda.buffer(4 * ends.len())?,
            class_ends: ends,
            phases: starts.len() as u32 - 1,
            phase_starts: cuda.upload(&starts)?,
            nodes: cuda.upload(&nodes)?,
            positions: cuda.upload(&positions)?,
            box_values: box_extent(plan.shape).iter().product::<usize>() as u32,
            boxes: Boxes::new(cuda, &plan, &positions)?,
            fine: sample.iter().filter(|&&tile| tile & FINE != 0).count() as u32,
            coarse: sample.len() as u32,
            sample: cuda.upload(&sample)?,
            plan,
        };
        layout.set_predictors(cuda, &layout.plan.fixed_predictors())?;
        Ok(Some(layout))
    }

    pub(super) fn set_predictors(&self, cuda: &Cuda, predictors: &[Predictor]) -> Result<()> {
        let classes = self.plan.classes.iter().zip(predictors).zip(&self.class_ends);
        let fields = |((class, predictor), &end): ((&Class, &Predictor), &u32)| {
            [class.level as u32, class.axes as u32, predictor.code().into(), end]
        };
        self.classes.write(&classes.flat_map(fields).collect::<Vec<_>>(), &cuda.stream)
    }
}

pub(super) fn address<S: Pod + DeviceCopy>(buffer: Option<&Buffer<S>>) -> DevicePointer<S> {
    buffer.map_or(DevicePointer::null(), Buffer::pointer)
}

/// A chunk's values and flags on the device.
#[derive(Clone, Copy)]
pub(super) struct Original<'a, T> {
    pub(super) values: &'a Buffer<T>,
    pub(super) mask: Option<&'a Buffer<u32>>,
}

/// Coded tiles in their slots.
struct Slots {
    slots: Buffer<u32>,
    slot_words: u32,
    lengths: Buffer<u16>,
    starts: Starts,
    bytes: u64,
    worst: f64,
    escapes: u64,
}

/// Where a chunk's anchors and coded tiles lie on the device.
#[derive(Clone, Copy)]
struct Source {
    /// The section's address and length.
    anchors: (u64, u64),
    lengths: u64,
    payload: u64,
    bytes: u64,
}

impl Cuda {
    fn flags(&self, mask: Option<&Mask>) -> Result<Option<Buffer<u32>>> {
        mask.map(|mask| self.upload(mask.words_u32())).transpose()
    }

    /// The layout of a chunk, which is kept for others of its shape.
    fn layout(&self, dims: Dims, shape: TileShape) -> Result<Option<Arc<Layout>>> {
        let mut layouts = self.layouts.borrow_mut();
        let same = |layout: &Arc<Layout>| layout.plan.shape == shape && layout.plan.dims == dims.map(|n| n as usize);
        if let Some(index) = layouts.iter().position(same) {
            // The last one used is the last.
            let layout = layouts.remove(index);
            layouts.push(Arc::clone(&layout));
            return Ok(Some(layout));
        }
        let Some(layout) = Layout::new(self, Plan::new(dims, shape))?.map(Arc::new) else { return Ok(None) };
        if layouts.len() == KEPT {
            layouts.remove(0);
        }
        layouts.push(Arc::clone(&layout));
        Ok(Some(layout))
    }

    /// Chooses, and codes a chunk's tiles into slots. What is written may lie in the memory of what was chosen.
    fn code<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        greatest: Option<T>,
    ) -> Result<(Chosen<T>, Written, Slots)> {
        if task.specials.is_none() {
            let chosen = self.choose(layout, task, original.values, greatest)?;
            let slots = self.encode_tiles(layout, task, original, &chosen, is_wide(greatest, task.bound))?;
            if !chosen.is_for_host(self) {
                let written = chosen.written(self, layout, task);
                return Ok((chosen, written, slots));
            }
        }
        let chosen = self.choose_with_host(layout, task, original)?;
        let slots = self.encode_tiles(layout, task, original, &chosen, false)?;
        let written = chosen.written(self, layout, task);
        Ok((chosen, written, slots))
    }

    /// Codes a chunk's tiles into slots. Symbols are narrow, unless that is told not to do, or found so.
    fn encode_tiles<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        chosen: &Chosen<T>,
        mut wide: bool,
    ) -> Result<Slots> {
        let tiles = layout.count;
        // The bits of the worst error, and whether symbols were too large.
        let found: Buffer<u64> = chosen.number(TILES_WORST, 2);
        let counts: Buffer<u64> = chosen.number(COUNTS, 1);
        let slot_words = (TILE_NODES * size_of::<T>() / 4) as u32;
        let slots: Buffer<u32> = self.buffer(tiles as usize * slot_words as usize)?;
        let lengths: Buffer<u16> = self.buffer(tiles as usize)?;
        loop {
            let symbols = self.symbols(layout, wide)?;
            self.quantise_tiles(layout, task, original, chosen, &found, wide, symbols.pointer(), None)?;
            queue!(
                self,
                format!("rice_encode_{}_{}", T::SUFFIX, WIDTHS[usize::from(wide)]),
                (tiles.div_ceil(CODE_TILES), CODE_BLOCK, 0),
                (
                    layout.tiles,
                    layout.positions.pointer(),
                    symbols.pointer(),
                    original.values.pointer(),
                    slots.pointer(),
                    slot_words,
                    lengths.pointer(),
                    counts.pointer()
                )
            )?;
            let starts = self.starts(tiles)?;
            self.scan::<u16>(&self.stream, lengths.pointer().as_raw(), &starts)?;
            self.mail.receive(starts.sum().as_raw(), 8, BROKEN, &self.stream)?;
            chosen.receive(self)?;
            self.stream.synchronize().map_err(failed)?;
            if self.mail.number(CLOSED + OVERFLOW) != 0 {
                wide = true;
                found.clear(&self.stream)?;
                counts.clear(&self.stream)?;
                continue;
            }
            let counts = self.mail.number(CLOSED + COUNTS);
            let (raw, escapes) = (counts as u32, counts >> 32);
            let (bytes, worst) = (self.mail.number(BROKEN), f64::from_bits(self.mail.number(CLOSED + TILES_WORST)));
            if raw > 0 {
                // The reconstructed values are wanted only here.
                let decoded: Buffer<T> = self.buffer(original.values.len())?;
                self.quantise_tiles(layout, task, original, chosen, &found, wide, symbols.pointer(), Some(&decoded))?;
                queue!(
                    self,
                    format!("closed_copy_raw_{}", T::SUFFIX),
                    (tiles, BLOCK, 0),
                    (layout.tiles, decoded.pointer(), lengths.pointer(), slots.pointer(), TILE_NODES as u32)
                )?;
            }
            return Ok(Slots { slots, slot_words, lengths, starts, bytes, worst, escapes });
        }
    }

    /// Room for the symbols of all tiles.
    fn symbols(&self, layout: &Layout, wide: bool) -> Result<Buffer<u8>> {
        self.buffer(layout.count as usize * TILE_NODES * if wide { 4 } else { 2 })
    }

    /// Queues moving coded tiles to their place.
    fn move_tiles(&self, tiles: &Slots, payload: u64) -> Result<()> {
        self.move_segments_to(&self.stream, &tiles.slots, tiles.slot_words, &tiles.lengths, &tiles.starts, payload)
    }

    /// Queues decoding a chunk's tiles, but for the special values. What tells whether they are such comes by mail. `beside` queues what
    /// may run beside the last and longest kernels.
    fn decode_tiles<T: Value + DeviceValue, R>(
        &self,
        layout: &Layout,
        parts: &Parts<T>,
        source: Source,
        values: &Buffer<T>,
        wide: bool,
        beside: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let Parts { scheme, anchor_step, specials } = parts;
        let tiles = layout.count;
        layout.set_predictors(self, &scheme.predictors)?;
        let mask = self.flags(specials.as_ref().map(|specials| &specials.mask))?;
        let steps = self.upload(&quantisers(scheme))?;
        let symbols = self.symbols(layout, wide)?;
        let starts = self.starts(tiles)?;
        self.scan::<u16>(&self.stream, source.lengths, &starts)?;
        let bad: Buffer<u32> = self.buffer(1)?;
        bad.clear(&self.stream)?;
        queue!(
            self,
            format!("rice_decode_{}_{}", T::SUFFIX, WIDTHS[usize::from(wide)]),
            (tiles.div_ceil(CODE_TILES), CODE_BLOCK, 0),
            (
                layout.tiles,
                layout.positions.pointer(),
                source.payload,
                source.payload + source.bytes,
                starts.offsets.pointer(),
                starts.bases.pointer(),
                source.lengths,
                symbols.pointer(),
                values.pointer(),
                bad.pointer()
            )
        )?;
        let besides = beside()?;
        let anchors = self.read_anchors(layout, source.anchors, *anchor_step, &bad)?;
        self.reconstruct_tiles(layout, &steps, mask.as_ref(), &anchors, wide, symbols.pointer(), values)?;
        self.mail.receive(starts.sum().as_raw(), 8, BROKEN, &self.stream)?;
        self.mail.receive(bad.pointer().as_raw(), 4, BAD, &self.stream)?;
        Ok(besides)
    }

    /// Whether what was decoded, once the stream has come there, were tiles.
    fn were_tiles(&self, source: Source) -> bool {
        self.mail.number(BROKEN) == source.bytes && self.mail.number(BAD) as u32 == 0
    }

    /// Whether it was not because symbols are wider than they were stored in.
    fn were_too_wide(&self) -> bool {
        self.mail.number(BAD) as u32 & DOES_NOT_FIT != 0
    }

    /// [`closed::code_chunk`].
    pub(super) fn code_closed<T: Value + DeviceValue>(&mut self, task: &Task<'_, T>) -> Result<closed::CodedChunk> {
        self.enter()?;
        let Some(layout) = self.layout(task.dims, task.shape)? else { return Ok(closed::code_chunk(task)) };
        let values: Buffer<T> = self.buffer(task.values.len())?;
        self.staging.upload(bytemuck::cast_slice(task.values), values.pointer().as_raw(), &self.stream)?;
        self.clock_start();
        let mask = self.flags(task.specials.map(|specials| &specials.mask))?;
        let original = Original { values: &values, mask: mask.as_ref() };
        let (chosen, written, tiles) = self.code(&layout, task, original, None)?;
        let payload: Buffer<u8> = self.buffer(tiles.bytes as usize)?;
        self.move_tiles(&tiles, payload.pointer().as_raw())?;
        self.clock_stop();
        let mut sections: closed::Sections = Vec::with_capacity(written.sections.len() + 2);
        for (id, bytes) in written.sections {
            let bytes = match bytes {
                Bytes::Host(bytes) => bytes,
                Bytes::Device(address, len) => self.fetch(address, len)?,
            };
            sections.push((id, bytes.into()));
        }
        drop(chosen);
        let lengths = bytemuck::cast_slice(&tiles.lengths.read(tiles.lengths.len(), &self.stream)?).to_vec();
        let mut out = vec![0; tiles.bytes as usize];
        self.staging.download(payload.pointer().as_raw(), &mut out, &self.stream)?;
        let coded = CodedTiles { lengths, payload: out, worst: tiles.worst, escapes: tiles.escapes };
        Ok(task.finish(written.steps, sections, written.worst, coded))
    }

    /// Compresses a chunk without special values into an archive on the device.
    pub(super) fn place_closed<T: Value + DeviceValue>(
        &mut self,
        field: &FieldPlan<T>,
        shape: TileShape,
        dims: Dims,
        values: &Buffer<T>,
        place: Place,
    ) -> Result<Placed> {
        let task = Task { shape, dims, values: &[], specials: None, bound: field.bound, forbidden: pipeline::forbidden(field) };
        let Some(layout) = self.layout(dims, shape)? else { return self.place_by_host(field, dims, values, place) };
        let greatest = field.statistics.min_max.map(|(min, max)| if -min > max { -min } else { max });
        let (chosen, written, tiles) = self.code(&layout, &task, Original { values, mask: None }, greatest)?;
        let Written { steps, sections: small, worst } = written;
        let mut parts: Vec<(SectionId, u64)> = small.iter().map(|(id, bytes)| (*id, bytes.len())).collect();
        parts.extend([(SectionId::TileLengths, 2 * tiles.lengths.len() as u64), (SectionId::Tiles, tiles.bytes)]);
        let size = chunk_size(steps.len(), parts.iter().map(|&(_, len)| len));
        if size >= chunk_size(0, [(values.len() * size_of::<T>()) as u64].into_iter()) {
            return self.place_raw(values, place);
        }
        place.fits(size)?;
        let mut at = place.address + size - parts.iter().map(|&(_, len)| len).sum::<u64>();
        let mut sections = Vec::with_capacity(parts.len());
        // The large one first: the host queues the others meanwhile.
        self.move_tiles(&tiles, place.address + size - tiles.bytes)?;
        for (index, (id, len)) in parts.into_iter().enumerate() {
            match small.get(index) {
                Some((_, Bytes::Host(bytes))) => self.put(bytes, at)?,
                Some((_, Bytes::Device(address, len))) => self.copy(*address, at, *len)?,
                None if id == SectionId::TileLengths => self.copy(tiles.lengths.pointer().as_raw(), at, len)?,
                None => {}
            }
            sections.push((id, at, len));
            at += len;
        }
        let header_crc = self.write_header(ChunkKind::Closed, Levels { local: 0, global: 0 }, &steps, &sections, place)?;
        drop(chosen);
        let max_abs_error = worst.max(tiles.worst);
        Ok(Placed { size, header_crc, max_abs_error, patched: tiles.escapes, specials: 0, raw: false })
    }

    /// Decodes a chunk without special values that lies at `address`; `false` where that is for the CPU. `spans` are its sections;
    /// `header_bytes` are the header's, and perhaps some after it.
    pub(super) fn restore_closed<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        header: &ChunkHeader,
        header_bytes: &[u8],
        address: u64,
        values: &Buffer<T>,
        spans: &[(u64, u64)],
    ) -> Result<bool> {
        let Some(shape) = header.tile else { return Ok(false) };
        let Some(layout) = self.layout(dims, shape)? else { return Ok(false) };
        let part = |id| header.section(id).map_or((address, 0), |section| (address + section.start, section.len));
        let (start, len) = part(SectionId::Predictors);
        let predictors = match header_bytes.get((start - address) as usize..(start - address + len) as usize) {
            Some(bytes) => bytes.into(),
            None => self.fetch(start, len)?.into(),
        };
        let ChunkHeader { kind, levels, tile, .. } = *header;
        let chunk = Chunk { kind, levels, steps: header.steps.clone(), sections: vec![(SectionId::Predictors, predictors)], tile };
        let parts = Parts::read(&layout.plan, dims, &chunk)?;
        let ((lengths, _), (payload, bytes)) = (part(SectionId::TileLengths), part(SectionId::Tiles));
        let source = Source { anchors: part(SectionId::Anchors), lengths, payload, bytes };
        let remainders = self.decode_tiles(&layout, &parts, source, values, false, || self.queue_checksums(spans))?;
        self.finish_all()?;
        drop(remainders);
        self.compare_checksums(header, spans)?;
        if self.were_too_wide() {
            self.decode_tiles(&layout, &parts, source, values, true, || Ok(()))?;
            self.finish_all()?;
        }
        Ok(self.were_tiles(source))
    }

    /// [`closed::decode_chunk`].
    pub(super) fn decode_closed<T: Value + DeviceValue>(
        &mut self,
        shape: TileShape,
        dims: Dims,
        chunk: &Chunk<'_>,
        out: &mut [T],
    ) -> Result<()> {
        self.enter()?;
        let Some(layout) = self.layout(dims, shape)? else { return closed::decode_chunk(shape, dims, chunk, out) };
        let parts = Parts::read(&layout.plan, dims, chunk)?;
        let (payload, anchors) = (chunk.section(SectionId::Tiles), chunk.section(SectionId::Anchors));
        let lengths: Buffer<u8> = self.upload(chunk.section(SectionId::TileLengths))?;
        let packed: Buffer<u8> = self.upload(anchors)?;
        let coded: Buffer<u8> = self.buffer(payload.len())?;
        self.staging.upload(payload, coded.pointer().as_raw(), &self.stream)?;
        let source = Source {
            anchors: (packed.pointer().as_raw(), anchors.len() as u64),
            lengths: lengths.pointer().as_raw(),
            payload: coded.pointer().as_raw(),
            bytes: payload.len() as u64,
        };
        let values: Buffer<T> = self.buffer(out.len())?;
        for wide in [false, true] {
            self.decode_tiles(&layout, &parts, source, &values, wide, || Ok(()))?;
            self.stream.synchronize().map_err(failed)?;
            if !self.were_too_wide() {
                break;
            }
        }
        self.staging.download(values.pointer().as_raw(), bytemuck::cast_slice_mut(out), &self.stream)?;
        if !self.were_tiles(source) {
            // The CPU says what is wrong.
            return closed::decode_chunk(shape, dims, chunk, out);
        }
        if let Some(specials) = parts.specials {
            specials.restore(out);
        }
        Ok(())
    }
}
