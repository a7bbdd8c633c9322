//! Closed tiles on the device. The host chooses steps, and quantises the anchors.

use bmgard_core::closed::geometry::{GROUP, POOL};
use bmgard_core::closed::{Predictor, TILE_NODES, TileShape};
use bytemuck::Pod;
use cust::memory::{DeviceCopy, DevicePointer};

use super::archive::Starts;
use super::levels::{DeviceValue, narrow};
use super::mail::{BAD, BROKEN, WORST};
use super::memory::Buffer;
use super::resident::{Place, Placed};
use super::{Cuda, failed, queue};
use crate::archive::{Chunk, ChunkHeader, ChunkKind, SectionId, chunk_size};
use crate::closed::plan::{Class, Plan, Strip};
use crate::closed::{self, Choices, CodedTiles, FINE_LEVELS, Parts, Scheme, Task};
use crate::pipeline::{self, FieldPlan};
use crate::plan::{Dims, Levels};
use crate::special::Mask;
use crate::{Error, Result, Value};

/// Threads of a block of `kernels_gpu::closed`, and of `kernels_gpu::rice`, a warp of which works on a tile.
const BLOCK: u32 = 128;
const CODE_BLOCK: u32 = 128;
const CODE_TILES: u32 = CODE_BLOCK / 32;
/// Predictors by their codes.
const CODES: usize = 10;
/// A tile of the sample: the last of its strip, and one of those that fine levels look at.
const LAST: u32 = 1 << 31;
const FINE: u32 = 1 << 30;

/// `kernels_gpu::closed::Tiles`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Tiles {
    dims: [u32; 3],
    tiles: [u32; 3],
    log2: [u32; 3],
    classes: u32,
}

/// A chunk's tiles, and what the kernels look up.
struct Layout {
    tiles: Tiles,
    count: u32,
    /// `kernels_gpu::closed::Class`: level, axes, predictor, end.
    classes: Buffer<u32>,
    class_ends: Vec<u32>,
    /// `kernels_gpu::closed::Node`.
    nodes: Buffer<u64>,
    /// The position of each node of a full tile.
    positions: Buffer<u16>,
    /// Where streams end, in groups.
    ends: Buffer<u32>,
    streams: u32,
    /// Values of a full closed box.
    box_values: u32,
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

/// The nodes of the classes, one class after the other, and where each class ends.
fn nodes(plan: &Plan, positions: &[u16]) -> (Vec<u64>, Vec<u32>) {
    let shape = plan.shape;
    let extent = box_extent(shape);
    let (mut nodes, mut ends) = (Vec::new(), Vec::with_capacity(plan.classes.len()));
    for class in &plan.classes {
        let along = |axis: usize| {
            let odd = class.axes >> axis & 1 == 1;
            (if odd { 1 << class.level } else { 0 }..extent[axis]).step_by(1 << shape.spacing_log2(class.level, axis))
        };
        for (z, y) in along(0).flat_map(|z| along(1).map(move |y| (z, y))) {
            for x in along(2) {
                let [oz, oy, ox] = [z & (shape.side(0) - 1), y & (shape.side(1) - 1), x & (shape.side(2) - 1)];
                let position = positions[(oz * shape.side(1) + oy) * shape.side(2) + ox];
                let place = (z * extent[1] + y) * extent[2] + x;
                nodes.push(((place << 12 | usize::from(position)) as u64) << 32 | (z << 21 | y << 13 | x) as u64);
            }
        }
        ends.push(nodes.len() as u32);
    }
    (nodes, ends)
}

/// Where a tile's streams end, in groups.
fn stream_ends(plan: &Plan) -> Vec<u32> {
    let alone = plan.classes.iter().filter(|class| class.level < plan.shape.pooled_from());
    let mut end = POOL / GROUP;
    let mut ends = vec![end as u32];
    for class in alone {
        end += (1 << plan.shape.class_log2(class.level)) / GROUP;
        ends.push(end as u32);
    }
    ends
}

/// The steps of the levels, each with its inverse, the finest first.
fn quantisers<T: Value>(scheme: &Scheme<T>) -> Vec<T> {
    scheme.quantisers.iter().flat_map(|quantiser| [quantiser.step, quantiser.inverse]).collect()
}

impl Layout {
    /// `None` where the kernels' indices or a sensible amount of memory do not suffice.
    fn new(cuda: &Cuda, plan: &Plan) -> Result<Option<Self>> {
        let (nodes_in_chunk, places) = (plan.dims.iter().product::<usize>(), plan.tile_count() * TILE_NODES);
        // Tiles that stick out far have more places than nodes.
        if nodes_in_chunk >= (1 << 31) - TILE_NODES || places > 4 * nodes_in_chunk + (1 << 22) || plan.tile_count() >= FINE as usize {
            return Ok(None);
        }
        let positions = positions(plan);
        let (nodes, ends) = nodes(plan, &positions);
        let stream_ends = stream_ends(plan);
        let tiles = Tiles {
            dims: narrow(plan.dims.map(|n| n as u64)),
            tiles: narrow(plan.tiles.map(|n| n as u64)),
            log2: plan.shape.log2().map(u32::from),
            classes: plan.classes.len() as u32,
        };
        let mut layout = Self {
            tiles,
            count: plan.tile_count() as u32,
            classes: cuda.buffer(4 * ends.len())?,
            class_ends: ends,
            nodes: cuda.upload(&nodes)?,
            positions: cuda.upload(&positions)?,
            streams: stream_ends.len() as u32,
            ends: cuda.upload(&stream_ends)?,
            box_values: box_extent(plan.shape).iter().product::<usize>() as u32,
        };
        layout.set_predictors(cuda, plan, &plan.fixed_predictors())?;
        Ok(Some(layout))
    }

    fn set_predictors(&mut self, cuda: &Cuda, plan: &Plan, predictors: &[Predictor]) -> Result<()> {
        let classes = plan.classes.iter().zip(predictors).zip(&self.class_ends);
        let fields = |((class, predictor), &end): ((&Class, &Predictor), &u32)| {
            [class.level as u32, class.axes as u32, predictor.code().into(), end]
        };
        self.classes.write(&classes.flat_map(fields).collect::<Vec<_>>(), &cuda.stream)
    }

    /// Blocks, threads and shared memory of a kernel that works on closed boxes.
    fn launch<T>(&self, blocks: u32) -> (u32, u32, u32) {
        (blocks, BLOCK, self.box_values * size_of::<T>() as u32)
    }
}

fn address<S: Pod + DeviceCopy>(buffer: Option<&Buffer<S>>) -> DevicePointer<S> {
    buffer.map_or(DevicePointer::null(), Buffer::pointer)
}

/// A chunk's values and flags on the device.
#[derive(Clone, Copy)]
struct Original<'a, T> {
    values: &'a Buffer<T>,
    mask: Option<&'a Buffer<u32>>,
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

/// Where a chunk's coded tiles lie on the device.
#[derive(Clone, Copy)]
struct Source {
    lengths: u64,
    payload: u64,
    bytes: u64,
}

impl Cuda {
    fn flags(&self, mask: Option<&Mask>) -> Result<Option<Buffer<u32>>> {
        mask.map(|mask| self.upload(mask.words_u32())).transpose()
    }

    /// Steps, anchors and predictors of a chunk.
    fn choose<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        plan: Plan,
        task: &Task<'_, T>,
        original: Original<'_, T>,
    ) -> Result<Choices<T>> {
        let values = original.values.len();
        let stride = closed::stride(values);
        let spread: Buffer<T> = self.buffer(values.div_ceil(stride))?;
        let anchors: Buffer<T> = self.buffer(layout.count as usize)?;
        queue!(
            self,
            format!("closed_sample_{}", T::SUFFIX),
            (layout.count.max(spread.len() as u32).div_ceil(BLOCK), BLOCK, 0),
            (layout.tiles, original.values.pointer(), stride as u32, spread.len() as u32, anchors.pointer(), spread.pointer())
        )?;
        let spread = spread.read(spread.len(), &self.stream)?;
        let masked = |position: usize| task.specials.is_some_and(|specials| specials.mask.get(position));
        let spread: Vec<T> = (0..).step_by(stride).zip(spread).filter(|&(position, _)| !masked(position)).map(|(_, value)| value).collect();
        let anchors = anchors.read(layout.count as usize, &self.stream)?;
        let sample = Sample::new(self, layout, &plan)?;
        task.choose_with(plan, &anchors, &spread, |plan, scheme, grid| {
            self.choose_predictors(layout, plan, task, original, &sample, scheme, &grid.values)
        })
    }

    /// The predictors, and the share of symbols that are 0.
    fn choose_predictors<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        plan: &Plan,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        sample: &Sample<T>,
        scheme: &Scheme<T>,
        anchors: &[T],
    ) -> Result<(Vec<Predictor>, f64)> {
        let classes = plan.classes.len();
        let (steps, anchors) = (self.upload(&quantisers(scheme))?, self.upload(anchors)?);
        // Costs by code for each class; how many symbols are 0, and all; the codes.
        let numbers: Buffer<u64> = self.buffer(CODES * classes + 2 + classes)?;
        numbers.clear(&self.stream)?;
        let number = |i: usize| numbers.pointer().wrapping_offset(i as isize);
        for index in 0..=classes {
            let fine = plan.classes[index.min(classes - 1)].level < FINE_LEVELS;
            queue!(
                self,
                format!("closed_choose_{}", T::SUFFIX),
                layout.launch::<T>(if fine { sample.fine } else { sample.tiles.len() as u32 }),
                (
                    layout.tiles,
                    layout.classes.pointer(),
                    layout.nodes.pointer(),
                    steps.pointer(),
                    original.values.pointer(),
                    address(original.mask),
                    anchors.pointer(),
                    task.bound,
                    task.forbidden,
                    sample.tiles.pointer(),
                    index as u32,
                    sample.boxes.pointer(),
                    layout.box_values,
                    numbers.pointer(),
                    number(CODES * classes + 2),
                    number(CODES * classes)
                )
            )?;
        }
        let found = numbers.read(numbers.len(), &self.stream)?;
        let (zeros, all) = (found[CODES * classes], found[CODES * classes + 1]);
        let codes: &[u32] = bytemuck::cast_slice(&found[CODES * classes + 2..]);
        let predictors = codes.iter().zip(&plan.classes).map(|(&code, class)| Predictor::from_code(code as u8, class.axes));
        let predictors = predictors.collect::<Option<Vec<_>>>().ok_or_else(|| Error::Device("a class has no such predictor".into()))?;
        Ok((predictors, zeros as f64 / all.max(1) as f64))
    }

    /// Codes a chunk's tiles into slots.
    fn encode_tiles<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        original: Original<'_, T>,
        choices: &Choices<T>,
    ) -> Result<Slots> {
        let Choices { scheme, anchors, .. } = choices;
        let tiles = layout.count;
        let steps = self.upload(&quantisers(scheme))?;
        let mut escaped = vec![0u32; (tiles as usize).div_ceil(32)];
        anchors.escaped.iter().for_each(|&tile| escaped[tile / 32] |= 1 << (tile % 32));
        let (escaped, anchors) = (self.upload(&escaped)?, self.upload(&anchors.values)?);
        let symbols: Buffer<i32> = self.buffer(tiles as usize * TILE_NODES)?;
        let worst: Buffer<u64> = self.buffer(1)?;
        worst.clear(&self.stream)?;
        let quantise = |decoded: Option<&Buffer<T>>| {
            queue!(
                self,
                format!("closed_quantise_{}", T::SUFFIX),
                layout.launch::<T>(tiles),
                (
                    layout.tiles,
                    layout.classes.pointer(),
                    layout.nodes.pointer(),
                    steps.pointer(),
                    original.values.pointer(),
                    address(original.mask),
                    anchors.pointer(),
                    escaped.pointer(),
                    task.bound,
                    task.forbidden,
                    symbols.pointer(),
                    worst.pointer(),
                    address(decoded)
                )
            )
        };
        quantise(None)?;

        let slot_words = (TILE_NODES * size_of::<T>() / 4) as u32;
        let slots: Buffer<u32> = self.buffer(tiles as usize * slot_words as usize)?;
        let lengths: Buffer<u16> = self.buffer(tiles as usize)?;
        let counts: Buffer<u32> = self.buffer(2)?;
        counts.clear(&self.stream)?;
        queue!(
            self,
            format!("rice_encode_{}", T::SUFFIX),
            (tiles.div_ceil(CODE_TILES), CODE_BLOCK, 0),
            (
                layout.tiles,
                layout.streams,
                layout.ends.pointer(),
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
        self.mail.receive(worst.pointer().as_raw(), 8, WORST, &self.stream)?;
        self.mail.receive(counts.pointer().as_raw(), 8, BAD, &self.stream)?;
        self.stream.synchronize().map_err(failed)?;
        let (raw, escapes) = (self.mail.number(BAD) as u32, self.mail.number(BAD) >> 32);
        let (bytes, worst) = (self.mail.number(BROKEN), f64::from_bits(self.mail.number(WORST)));
        if raw > 0 {
            // The reconstructed values are wanted only here.
            let decoded: Buffer<T> = self.buffer(original.values.len())?;
            quantise(Some(&decoded))?;
            queue!(
                self,
                format!("closed_copy_raw_{}", T::SUFFIX),
                (tiles, BLOCK, 0),
                (layout.tiles, decoded.pointer(), lengths.pointer(), slots.pointer(), TILE_NODES as u32)
            )?;
        }
        Ok(Slots { slots, slot_words, lengths, starts, bytes, worst, escapes })
    }

    /// Queues moving coded tiles to their place.
    fn move_tiles(&self, tiles: &Slots, payload: u64) -> Result<()> {
        self.move_segments_to(&self.stream, &tiles.slots, tiles.slot_words, &tiles.lengths, &tiles.starts, payload)
    }

    /// Queues decoding a chunk's tiles, but for the special values. What tells whether they are such comes by mail.
    fn decode_tiles<T: Value + DeviceValue>(
        &self,
        layout: &mut Layout,
        parts: &Parts<T>,
        source: Source,
        values: &Buffer<T>,
    ) -> Result<()> {
        let Parts { plan, scheme, anchors, specials } = parts;
        let tiles = layout.count;
        layout.set_predictors(self, plan, &scheme.predictors)?;
        let mask = self.flags(specials.as_ref().map(|specials| &specials.mask))?;
        let (steps, anchors) = (self.upload(&quantisers(scheme))?, self.upload(anchors)?);
        let symbols: Buffer<i32> = self.buffer(tiles as usize * TILE_NODES)?;
        let starts = self.starts(tiles)?;
        self.scan::<u16>(&self.stream, source.lengths, &starts)?;
        let bad: Buffer<u32> = self.buffer(1)?;
        bad.clear(&self.stream)?;
        queue!(
            self,
            format!("rice_decode_{}", T::SUFFIX),
            (tiles.div_ceil(CODE_TILES), CODE_BLOCK, 0),
            (
                layout.tiles,
                layout.streams,
                layout.ends.pointer(),
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
        queue!(
            self,
            format!("closed_reconstruct_{}", T::SUFFIX),
            layout.launch::<T>(tiles),
            (
                layout.tiles,
                layout.classes.pointer(),
                layout.nodes.pointer(),
                steps.pointer(),
                symbols.pointer(),
                address(mask.as_ref()),
                anchors.pointer(),
                values.pointer()
            )
        )?;
        self.mail.receive(starts.sum().as_raw(), 8, BROKEN, &self.stream)?;
        self.mail.receive(bad.pointer().as_raw(), 4, BAD, &self.stream)
    }

    /// Whether what was decoded, once the stream has come there, were tiles.
    fn were_tiles(&self, source: Source) -> bool {
        self.mail.number(BROKEN) == source.bytes && self.mail.number(BAD) as u32 == 0
    }

    /// [`closed::code_chunk`].
    pub(super) fn code_closed<T: Value + DeviceValue>(&mut self, task: &Task<'_, T>) -> Result<closed::CodedChunk> {
        self.enter()?;
        let plan = Plan::new(task.dims, task.shape);
        let Some(mut layout) = Layout::new(self, &plan)? else { return Ok(closed::code_chunk(task)) };
        let values: Buffer<T> = self.buffer(task.values.len())?;
        self.staging.upload(bytemuck::cast_slice(task.values), values.pointer().as_raw(), &self.stream)?;
        self.clock_start();
        let mask = self.flags(task.specials.map(|specials| &specials.mask))?;
        let original = Original { values: &values, mask: mask.as_ref() };
        let choices = self.choose(&layout, plan, task, original)?;
        layout.set_predictors(self, &choices.plan, &choices.scheme.predictors)?;
        let tiles = self.encode_tiles(&layout, task, original, &choices)?;
        let payload: Buffer<u8> = self.buffer(tiles.bytes as usize)?;
        self.move_tiles(&tiles, payload.pointer().as_raw())?;
        self.clock_stop();
        let lengths = bytemuck::cast_slice(&tiles.lengths.read(tiles.lengths.len(), &self.stream)?).to_vec();
        let mut out = vec![0; tiles.bytes as usize];
        self.staging.download(payload.pointer().as_raw(), &mut out, &self.stream)?;
        let coded = CodedTiles { lengths, payload: out, worst: tiles.worst, escapes: tiles.escapes };
        Ok(task.finish(&choices, coded))
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
        let plan = Plan::new(dims, shape);
        let Some(mut layout) = Layout::new(self, &plan)? else { return self.place_by_host(field, dims, values, place) };
        let original = Original { values, mask: None };
        let choices = self.choose(&layout, plan, &task, original)?;
        layout.set_predictors(self, &choices.plan, &choices.scheme.predictors)?;
        let tiles = self.encode_tiles(&layout, &task, original, &choices)?;
        let small = task.sections(&choices);
        let mut parts: Vec<(SectionId, u64)> = small.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect();
        parts.extend([(SectionId::TileLengths, 2 * tiles.lengths.len() as u64), (SectionId::Tiles, tiles.bytes)]);
        let steps = choices.step_bits();
        let size = chunk_size(steps.len(), parts.iter().map(|&(_, len)| len));
        if size >= chunk_size(0, [(values.len() * size_of::<T>()) as u64].into_iter()) {
            return self.place_raw(values, place);
        }
        place.fits(size)?;
        let mut at = place.address + size - parts.iter().map(|&(_, len)| len).sum::<u64>();
        let mut sections = Vec::with_capacity(parts.len());
        for (index, (id, len)) in parts.into_iter().enumerate() {
            match small.get(index) {
                Some((_, bytes)) => self.put(bytes, at)?,
                None if id == SectionId::TileLengths => self.copy(tiles.lengths.pointer().as_raw(), at, len)?,
                None => self.move_tiles(&tiles, at)?,
            }
            sections.push((id, at, len));
            at += len;
        }
        let header_crc = self.write_header(ChunkKind::Closed, Levels { local: 0, global: 0 }, &steps, &sections, place)?;
        let max_abs_error = choices.anchors.worst.max(tiles.worst);
        Ok(Placed { size, header_crc, max_abs_error, patched: tiles.escapes, specials: 0, raw: false })
    }

    /// Decodes a chunk without special values that lies at `address`; `false` where that is for the CPU. `spans` are its sections.
    pub(super) fn restore_closed<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        header: &ChunkHeader,
        address: u64,
        values: &Buffer<T>,
        spans: &[(u64, u64)],
    ) -> Result<bool> {
        let Some(shape) = header.tile else { return Ok(false) };
        let part = |id| header.section(id).map_or((address, 0), |section| (address + section.start, section.len));
        let mut sections = Vec::with_capacity(2);
        for id in [SectionId::Predictors, SectionId::Anchors] {
            let (start, len) = part(id);
            sections.push((id, self.fetch(start, len)?.into()));
        }
        let ChunkHeader { kind, levels, tile, .. } = *header;
        let parts = Parts::read(shape, dims, &Chunk { kind, levels, steps: header.steps.clone(), sections, tile })?;
        let Some(mut layout) = Layout::new(self, &parts.plan)? else { return Ok(false) };
        let ((lengths, _), (payload, bytes)) = (part(SectionId::TileLengths), part(SectionId::Tiles));
        let source = Source { lengths, payload, bytes };
        let remainders = self.queue_checksums(spans)?;
        self.decode_tiles(&mut layout, &parts, source, values)?;
        self.finish_all()?;
        drop(remainders);
        self.compare_checksums(header, spans)?;
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
        let parts = Parts::read(shape, dims, chunk)?;
        let Some(mut layout) = Layout::new(self, &parts.plan)? else { return closed::decode_chunk(shape, dims, chunk, out) };
        let payload = chunk.section(SectionId::Tiles);
        let lengths: Buffer<u8> = self.upload(chunk.section(SectionId::TileLengths))?;
        let coded: Buffer<u8> = self.buffer(payload.len())?;
        self.staging.upload(payload, coded.pointer().as_raw(), &self.stream)?;
        let (lengths, start) = (lengths.pointer().as_raw(), coded.pointer().as_raw());
        let source = Source { lengths, payload: start, bytes: payload.len() as u64 };
        let values: Buffer<T> = self.buffer(out.len())?;
        self.decode_tiles(&mut layout, &parts, source, &values)?;
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

/// The tiles that predictors are chosen by.
struct Sample<T> {
    /// Their numbers and flags, those of fine levels first.
    tiles: Buffer<u32>,
    fine: u32,
    /// What is reconstructed of their closed boxes.
    boxes: Buffer<T>,
}

impl<T: DeviceValue> Sample<T> {
    fn new(cuda: &Cuda, layout: &Layout, plan: &Plan) -> Result<Self> {
        let mut strips = closed::sample(plan);
        strips.sort_by_key(|&(_, fine)| !fine);
        let tiles = |&(strip, fine): &(Strip, bool)| {
            let first = plan.tile_index(strip.tile) as u32;
            let flags = if fine { FINE } else { 0 };
            (0..strip.count as u32).map(move |i| (first + i) | flags | if i + 1 == strip.count as u32 { LAST } else { 0 })
        };
        let tiles: Vec<u32> = strips.iter().flat_map(tiles).collect();
        let fine = tiles.iter().filter(|&&tile| tile & FINE != 0).count() as u32;
        let boxes = cuda.buffer(tiles.len() * layout.box_values as usize)?;
        Ok(Self { tiles: cuda.upload(&tiles)?, fine, boxes })
    }
}
