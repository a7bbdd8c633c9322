//! Packed tiles on the device.

use std::sync::Arc;

use bmgard_core::closed::Quantiser;
use bmgard_core::packed::{PackedShape, TILE_NODES, sure_bound};
use cust::memory::{DeviceCopy, DevicePointer};
use cust::stream::Stream;

use super::levels::{DeviceValue, narrow};
use super::mail::{BAD, BROKEN, CHECKSUMS};
use super::memory::Buffer;
use super::resident::{Place, Placed};
use super::{Cuda, failed, queue};
use crate::archive::{Chunk, ChunkHeader, ChunkKind, SectionId, chunk_size, write_chunk_header};
use crate::closed::CodedChunk;
use crate::packed::plan::{Plan, Programs};
use crate::packed::{self, CodedTiles, Task};
use crate::pipeline::{self, FieldPlan};
use crate::plan::{Dims, Levels};
use crate::special::Mask;
use crate::{DType, Result, Value};

/// Threads of a block of `kernels_gpu::packed` and `kernels_gpu::packed_volume`, and the tiles that it works on.
const BLOCK: u32 = 128;
const TILES: u32 = BLOCK / 32;
const VOLUME_TILES: u32 = 4 * BLOCK / 32;
/// Shared memory of a block of the latter.
const VOLUME_SHARED: u32 = BLOCK / 32 * 7312;
/// Blocks that work on the tiles of a list, at most.
const LIST_BLOCKS: u32 = 1188;
/// Threads of a block that moves tiles, and the tiles that it moves.
const MOVE_BLOCK: u32 = 256;
const MOVED: u32 = 4 * MOVE_BLOCK / 32;
/// Threads of a block that sums bytes, and the bytes.
const CHECKSUM_BLOCK: u32 = 256;
const CHECKSUMMED: u64 = bmgard_core::crc::PIECE * CHECKSUM_BLOCK as u64 / 32;

/// `kernels_gpu::packed::Tiles`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Tiles {
    dims: [u32; 3],
    tiles: [u32; 3],
    log2: [u32; 3],
    variants: [u32; 3],
}

/// What tables are for: the dimensions, those that the field has, and the bytes of a value.
type Key = ([usize; 3], PackedShape, usize);

/// Tables of chunks that were worked on.
pub(super) type Tables = (Key, Arc<Buffer<u64>>);

/// A chunk's tiles, and what the kernels look up.
struct Layout {
    tiles: Tiles,
    count: u32,
    /// `kernels_gpu::packed::Table`, one for tiles of the same extents.
    tables: Arc<Buffer<u64>>,
    /// Whether inner tiles are for `kernels_gpu::packed_volume`.
    volume: bool,
}

impl Layout {
    /// `None` where the kernels' indices or a sensible amount of memory do not suffice.
    fn new<T: Value>(cuda: &Cuda, plan: &Plan) -> Result<Option<Self>> {
        let (nodes, places) = (plan.dims.iter().product::<usize>(), plan.tile_count() * TILE_NODES);
        // Tiles that stick out far have more places than nodes.
        if nodes >= (1 << 31) - TILE_NODES || places > 4 * nodes + (1 << 22) {
            return Ok(None);
        }
        let variants = [0, 1, 2].map(|axis| {
            let side = plan.shape.side(axis);
            u32::from(plan.dims[axis] >= side) + u32::from(plan.dims[axis] % side > 0)
        });
        let tiles = Tiles {
            dims: narrow(plan.dims.map(|n| n as u64)),
            tiles: narrow(plan.tiles.map(|n| n as u64)),
            log2: plan.shape.log2().map(u32::from),
            variants,
        };
        let volume = T::DTYPE == DType::F32 && plan.shape == PackedShape::VOLUME;
        Ok(Some(Self { tiles, count: plan.tile_count() as u32, tables: cuda.packed_tables::<T>(plan)?, volume }))
    }

    /// Blocks of `kernels_gpu::packed_volume`.
    fn volume_blocks(&self) -> u32 {
        let [z, y, x] = self.tiles.tiles;
        (z * y * x.div_ceil(4)).div_ceil(VOLUME_TILES / 4)
    }

    /// Blocks, threads and shared memory of `kernels_gpu::packed`, for all tiles or for a list of some.
    fn launch<T>(&self, all: bool) -> (u32, u32, u32) {
        let blocks = self.count.div_ceil(TILES);
        let shared = TILES * (512 * (size_of::<T>() as u32 + 4) + 64 + 4 * 504);
        (if all { blocks } else { blocks.min(LIST_BLOCKS) }, BLOCK, shared)
    }
}

/// Where the sections of a chunk's tiles go, one after the other: at a multiple of 4 bytes.
#[derive(Clone, Copy)]
struct Target {
    address: u64,
    /// Words that there is room for, besides lengths and anchors.
    room: u64,
}

/// What coding a chunk's tiles gave.
#[derive(Clone, Copy)]
struct Found {
    /// Nothing was put into place where they are more than there is room for.
    words: u64,
    worst: f64,
    escapes: u64,
    /// There are values that only a mask can keep: the tiles mean nothing.
    special: bool,
    /// Remainders of the sections.
    remainders: [u32; 3],
}

/// Numbers that encoding finds: the worst error, escapes, whether there are special values, how many tiles are listed, the words of all tiles,
/// and the sections' remainders.
const NUMBERS: usize = 7;
const LISTED: isize = 3;
const TOTAL: isize = 4;
const REMAINDERS: isize = 5;

/// Where a chunk's coded tiles lie on the device: the first two at multiples of 4 bytes.
#[derive(Clone, Copy)]
struct Source {
    payload: u64,
    words: u64,
    lengths: u64,
    anchors: u64,
}

/// Whether all rows of a chunk start at multiples of 16 bytes.
fn wide<T>(tiles: &Tiles, values: &Buffer<T>) -> u32
where
    T: DeviceValue,
{
    u32::from(values.pointer().as_raw().is_multiple_of(16) && tiles.dims[2].is_multiple_of(4))
}

impl Cuda {
    /// The tables of a chunk, made at first.
    fn packed_tables<T: Value>(&self, plan: &Plan) -> Result<Arc<Buffer<u64>>> {
        const KEPT: usize = 8;
        let key: Key = (plan.dims, plan.shape, size_of::<T>());
        let mut kept = self.packed.borrow_mut();
        if let Some((_, tables)) = kept.iter().find(|(other, _)| *other == key) {
            return Ok(Arc::clone(tables));
        }
        let tables = Arc::new(self.upload(&Programs::<T>::new(plan).tables(plan.shape))?);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((key, Arc::clone(&tables)));
        Ok(tables)
    }

    /// Codes a chunk's tiles, puts the sections into place and sums them.
    fn encode_packed<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        task: &Task<'_, T>,
        values: &Buffer<T>,
        mask: Option<&Buffer<u32>>,
        target: Target,
    ) -> Result<Found> {
        let tiles = layout.count;
        let slot_words = (TILE_NODES * size_of::<T>() / 4) as u32;
        let slots: Buffer<u32> = self.buffer(tiles as usize * slot_words as usize)?;
        let lengths: Buffer<u16> = self.buffer(tiles as usize)?;
        let anchors: Buffer<T> = self.buffer(tiles as usize)?;
        let numbers: Buffer<u64> = self.buffer(NUMBERS)?;
        numbers.clear(&self.stream)?;
        let number = |i: isize| numbers.pointer().wrapping_offset(i);
        let list: Buffer<u32> = self.buffer(tiles as usize)?;
        let Quantiser { step, inverse } = Quantiser::new(task.step());
        let volume = layout.volume && mask.is_none() && !task.forbidden.is_finite();
        if volume {
            queue!(
                self,
                "packed_volume_encode",
                (layout.volume_blocks(), BLOCK, VOLUME_SHARED),
                (
                    layout.tiles,
                    values.pointer(),
                    wide(&layout.tiles, values),
                    step,
                    inverse,
                    sure_bound::<T>(task.bound),
                    task.bound,
                    slots.pointer(),
                    slot_words,
                    lengths.pointer(),
                    anchors.pointer(),
                    number(0),
                    list.pointer(),
                    number(LISTED)
                )
            )?;
        }
        queue!(
            self,
            format!("packed_encode_{}", T::SUFFIX),
            layout.launch::<T>(!volume),
            (
                layout.tiles,
                layout.tables.pointer(),
                values.pointer(),
                mask.map_or(DevicePointer::null(), Buffer::pointer),
                step,
                inverse,
                task.bound,
                task.forbidden,
                slots.pointer(),
                slot_words,
                lengths.pointer(),
                anchors.pointer(),
                number(0),
                if volume { list.pointer() } else { DevicePointer::null() },
                number(LISTED)
            )
        )?;
        let starts = self.starts(tiles)?;
        self.scan::<u16>(&self.stream, lengths.pointer().as_raw(), &starts)?;
        queue!(
            self,
            "packed_move",
            (tiles.div_ceil(MOVED), MOVE_BLOCK, 0),
            (
                tiles,
                slots.pointer(),
                slot_words,
                lengths.pointer(),
                starts.offsets.pointer(),
                starts.bases.pointer(),
                anchors.pointer(),
                size_of::<T>() as u32 / 4,
                target.address,
                target.room,
                number(TOTAL)
            )
        )?;
        let most = target.room.min(u64::from(slot_words) * u64::from(tiles));
        self.packed_checksums::<T>(&self.stream, tiles, Target { room: most, ..target }, number(TOTAL), number(REMAINDERS))?;
        self.mail.receive_many(number(0).as_raw(), 8 * NUMBERS, CHECKSUMS, &self.stream)?;
        self.stream.synchronize().map_err(failed)?;
        let found = |i: isize| self.mail.number(CHECKSUMS + i as usize);
        Ok(Found {
            words: found(TOTAL),
            worst: f64::from_bits(found(0)),
            escapes: found(1),
            special: found(2) != 0,
            remainders: [0, 1, 2].map(|i| self.mail.word(CHECKSUMS + REMAINDERS as usize, i)),
        })
    }

    /// Queues the remainders of the sections at a target; `total` points to the number of words.
    fn packed_checksums<T: Value>(
        &self,
        stream: &Stream,
        tiles: u32,
        target: Target,
        total: DevicePointer<u64>,
        remainders: DevicePointer<u64>,
    ) -> Result<()> {
        let [lengths, anchors] = [2, size_of::<T>() as u64].map(|size| size * u64::from(tiles));
        let blocks: u64 = [4 * target.room, lengths, anchors].into_iter().map(|len| len.div_ceil(CHECKSUMMED)).sum();
        queue!(
            self,
            stream,
            "packed_checksums",
            (blocks as u32, CHECKSUM_BLOCK, 0),
            (target.address, total, target.room, lengths, anchors, remainders)
        )
    }

    /// Queues decoding a chunk's tiles, but for the special values. What tells whether they are such comes by mail.
    fn decode_packed_tiles<T: Value + DeviceValue>(
        &self,
        layout: &Layout,
        step: T,
        source: Source,
        mask: Option<&Buffer<u32>>,
        values: &Buffer<T>,
    ) -> Result<()> {
        let tiles = layout.count;
        let starts = self.starts(tiles)?;
        self.scan::<u16>(&self.stream, source.lengths, &starts)?;
        // How many tiles are listed, and whether one is bad.
        let numbers: Buffer<u32> = self.buffer(2)?;
        numbers.clear(&self.stream)?;
        let bad = numbers.pointer().wrapping_offset(1);
        let list: Buffer<u32> = self.buffer(tiles as usize)?;
        let volume = layout.volume && mask.is_none();
        if volume {
            queue!(
                self,
                "packed_volume_decode",
                (layout.volume_blocks(), BLOCK, VOLUME_SHARED),
                (
                    layout.tiles,
                    step,
                    source.payload,
                    source.words,
                    source.lengths,
                    starts.offsets.pointer(),
                    starts.bases.pointer(),
                    source.anchors,
                    values.pointer(),
                    wide(&layout.tiles, values),
                    list.pointer(),
                    numbers.pointer()
                )
            )?;
        }
        queue!(
            self,
            format!("packed_decode_{}", T::SUFFIX),
            layout.launch::<T>(!volume),
            (
                layout.tiles,
                layout.tables.pointer(),
                step,
                source.payload,
                source.words,
                source.lengths,
                starts.offsets.pointer(),
                starts.bases.pointer(),
                source.anchors,
                mask.map_or(DevicePointer::null(), Buffer::pointer),
                values.pointer(),
                bad,
                if volume { list.pointer() } else { DevicePointer::null() },
                numbers.pointer()
            )
        )?;
        self.mail.receive(starts.sum().as_raw(), 8, BROKEN, &self.stream)?;
        self.mail.receive(bad.as_raw(), 4, BAD, &self.stream)
    }

    /// Whether what was decoded, once the stream has come there, were tiles.
    fn were_packed(&self, source: Source) -> bool {
        self.mail.number(BROKEN) == source.words && self.mail.number(BAD) as u32 == 0
    }

    fn mask_words(&self, mask: Option<&Mask>) -> Result<Option<Buffer<u32>>> {
        mask.map(|mask| self.upload(mask.words_u32())).transpose()
    }

    /// [`packed::code_chunk`].
    pub(super) fn code_packed_tiles<T: Value + DeviceValue>(&mut self, task: &Task<'_, T>) -> Result<CodedChunk> {
        self.enter()?;
        let plan = Plan::new(task.dims, task.d);
        let Some(layout) = Layout::new::<T>(self, &plan)? else { return Ok(packed::code_chunk(task)) };
        let values: Buffer<T> = self.buffer(task.values.len())?;
        self.staging.upload(bytemuck::cast_slice(task.values), values.pointer().as_raw(), &self.stream)?;
        let mask = self.mask_words(task.specials.map(|specials| &specials.mask))?;
        let tiles = layout.count as usize;
        // Room for the longest tiles.
        let room = tiles * TILE_NODES * size_of::<T>() / 4;
        let sections: Buffer<u32> = self.buffer(room + (tiles * (2 + size_of::<T>())).div_ceil(4))?;
        let address = sections.pointer().as_raw();
        let found = self.encode_packed(&layout, task, &values, mask.as_ref(), Target { address, room: room as u64 })?;
        let mut out = vec![0; 4 * found.words as usize + tiles * (2 + size_of::<T>())];
        self.staging.download(address, &mut out, &self.stream)?;
        let anchors = out.split_off(out.len() - tiles * size_of::<T>());
        let lengths = out.split_off(out.len() - 2 * tiles);
        let coded = CodedTiles { payload: out, lengths, anchors, worst: found.worst, escapes: found.escapes };
        Ok(task.finish(coded))
    }

    /// Compresses a chunk without special values, as far as is known, into an archive on the device.
    pub(super) fn place_packed<T: Value + DeviceValue>(
        &mut self,
        field: &FieldPlan<T>,
        dims: Dims,
        values: &Buffer<T>,
        place: Place,
    ) -> Result<Placed> {
        let forbidden = pipeline::forbidden(field);
        let task = Task { d: field.d, dims, values: &[], specials: None, bound: field.bound, forbidden };
        let Some(layout) = Layout::new::<T>(self, &Plan::new(dims, field.d))? else {
            return self.place_by_host(field, dims, values, place);
        };
        let count = u64::from(layout.count);
        let sizes = |words: u64| [4 * words, 2 * count, size_of::<T>() as u64 * count];
        let fixed = chunk_size(1, sizes(0).into_iter());
        let raw = chunk_size(0, [(values.len() * size_of::<T>()) as u64].into_iter());
        let room = place.room.min(raw).saturating_sub(fixed) / 4;
        let payload = place.address + fixed - sizes(0).iter().sum::<u64>();
        let mut target = Target { address: payload, room };
        let aligned: Buffer<u8>;
        if !payload.is_multiple_of(4) {
            aligned = self.buffer((4 * room + 2 * count + size_of::<T>() as u64 * count) as usize)?;
            target.address = aligned.pointer().as_raw();
        }
        let found = self.encode_packed(&layout, &task, values, None, target)?;
        // All values may be the same.
        if found.special || found.words == 0 {
            return self.place_by_host(field, dims, values, place);
        }
        let sizes = sizes(found.words);
        let size = chunk_size(1, sizes.into_iter());
        if size >= raw {
            return self.place_raw(values, place);
        }
        place.fits(size)?;
        if target.address != payload {
            self.copy(target.address, payload, sizes.iter().sum())?;
        }
        let ids = [SectionId::PackedTiles, SectionId::PackedLengths, SectionId::PackedAnchors];
        let crc = |i: usize| bmgard_core::crc::finish(found.remainders[i], sizes[i]);
        let sections = [0, 1, 2].map(|i| (ids[i], crc(i), sizes[i]));
        let header = write_chunk_header(ChunkKind::Packed, Levels { local: 0, global: 0 }, &[task.step().to_bits_u64()], &sections);
        self.put(&header, place.address)?;
        let header_crc = crc32fast::hash(&header);
        Ok(Placed { size, header_crc, max_abs_error: found.worst, patched: found.escapes, specials: 0, raw: false })
    }

    /// Decodes a chunk without special values that lies at `address`; `false` where that is for the CPU. `spans` are its sections.
    pub(super) fn restore_packed<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        d: usize,
        header: &ChunkHeader,
        address: u64,
        values: &Buffer<T>,
        spans: &[(u64, u64)],
    ) -> Result<bool> {
        let Some(layout) = Layout::new::<T>(self, &Plan::new(dims, d))? else { return Ok(false) };
        let step = packed::step(&header.steps)?;
        let part = |id| header.section(id).map_or((address, 0), |section| (address + section.start, section.len));
        let [(payload, bytes), (lengths, _), (anchors, _)] =
            [SectionId::PackedTiles, SectionId::PackedLengths, SectionId::PackedAnchors].map(part);
        let mut source = Source { payload, words: bytes / 4, lengths, anchors };
        let remainders = self.queue_checksums(spans)?;
        let aligned: Buffer<u8>;
        if !payload.is_multiple_of(4) {
            // The lengths follow.
            let len = bytes + 2 * u64::from(layout.count);
            aligned = self.buffer(len as usize)?;
            source.payload = aligned.pointer().as_raw();
            source.lengths = source.payload + bytes;
            self.copy(payload, source.payload, len)?;
        }
        self.decode_packed_tiles(&layout, step, source, None, values)?;
        self.finish_all()?;
        drop(remainders);
        self.compare_checksums(header, spans)?;
        Ok(self.were_packed(source))
    }

    /// [`packed::decode_chunk`].
    pub(super) fn decode_packed_chunk<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        d: usize,
        chunk: &Chunk<'_>,
        out: &mut [T],
    ) -> Result<()> {
        self.enter()?;
        let Some(layout) = Layout::new::<T>(self, &Plan::new(dims, d))? else { return packed::decode_chunk(dims, d, chunk, out) };
        let step = packed::step(&chunk.steps)?;
        let specials = packed::specials::<T>(dims, chunk)?;
        let mask = self.mask_words(specials.as_ref().map(|specials| &specials.mask))?;
        let bytes = chunk.section(SectionId::PackedTiles);
        let payload: Buffer<u8> = self.buffer(bytes.len())?;
        self.staging.upload(bytes, payload.pointer().as_raw(), &self.stream)?;
        let lengths: Buffer<u8> = self.upload(chunk.section(SectionId::PackedLengths))?;
        let anchors: Buffer<u8> = self.upload(chunk.section(SectionId::PackedAnchors))?;
        let source = Source {
            payload: payload.pointer().as_raw(),
            words: bytes.len() as u64 / 4,
            lengths: lengths.pointer().as_raw(),
            anchors: anchors.pointer().as_raw(),
        };
        let values: Buffer<T> = self.buffer(out.len())?;
        self.decode_packed_tiles(&layout, step, source, mask.as_ref(), &values)?;
        self.staging.download(values.pointer().as_raw(), bytemuck::cast_slice_mut(out), &self.stream)?;
        if !self.were_packed(source) {
            // The CPU says what is wrong.
            return packed::decode_chunk(dims, d, chunk, out);
        }
        if let Some(specials) = specials {
            specials.restore(out);
        }
        Ok(())
    }
}
