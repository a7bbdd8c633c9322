//! The pipeline's stages on the device.

use std::borrow::Cow;
use std::cell::RefCell;

use bmgard_core::closed::TileShape;
use bmgard_core::tile::Quantiser;
use bmgard_core::token::{ESCAPE, ESCAPED_BITS, TOKENS, ZERO_GROUP, token};
use cuda_loader::{FunctionAttribute, set_function_attribute};
use cust::error::{CudaError, CudaResult};
use cust::memory::{DeviceCopy, DevicePointer};
use cust::module::Module;

use super::archive::{PatchSections, Starts, groups, patch_blocks};
use super::event::Event;
use super::levels::{DeviceValue, LevelSymbols, Original, Stored, check_size, narrow, narrow_levels};
use super::mail::{BAD, BAD_PATCHES, BROKEN, WORST};
use super::memory::Buffer;
use super::{Cuda, SIDE_STREAMS, failed, queue};
use crate::archive::Chunk;
use crate::backend::cpu::Cpu;
use crate::backend::{Backend, FieldStatistics, Stream, Verdict};
use crate::closed;
use crate::huffman::{Codebook, Histogram, MAX_LENGTH};
use crate::packed;
use crate::patch::Patches;
use crate::plan::{CLASSES, ChunkPlan, Dims, Level, LevelKind, count};
use crate::special::Mask;
use crate::{Error, Result, Value};

/// `kernels_gpu::coding::CodedLevel`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct CodedLevel {
    kind: u32,
    dims: [u32; 3],
    tiles: [u32; 3],
    places: u32,
    segment: u32,
    segments: u32,
    stride: u32,
}

impl CodedLevel {
    fn new(level: &Level, d: usize) -> Result<Self> {
        check_size(level)?;
        let kind = match level.kind {
            LevelKind::Local => d as u32,
            LevelKind::Global => 4,
            LevelKind::Coarsest => 5,
        };
        Ok(Self {
            kind,
            dims: narrow(level.dims),
            tiles: narrow(level.tiles),
            places: level.places as u32,
            segment: level.segment as u32,
            segments: level.segments() as u32,
            stride: level.sample_stride() as u32,
        })
    }

    /// Blocks of a kernel whose warps each work on one of so many segments after another.
    fn blocks(segments: u32, warps: u32) -> u32 {
        /// More than run at once on any device of today.
        const MOST: u32 = 1 << 12;
        segments.div_ceil(warps).min(MOST)
    }
}

/// The kind of a level of three-dimensional tiles.
const TILES: u32 = 3;
/// Warps of a block of `kernels_gpu::coding` that counts.
const COUNT_WARPS: u32 = 2;
/// Counts of a level's three contexts.
const BOOKS: usize = CLASSES * TOKENS;
/// Symbols of -SMALL ..= SMALL - 1 have a table of codes of their own.
const SMALL: i64 = 128;
/// Bytes of shared memory that the warps of a block share to code with, and to decode with.
const ENCODE_SHARED: u32 = 7152;
const DECODE_SHARED: u32 = 24576 + 1024 + 784;
/// Lets the kernels that decode have more shared memory than a block has unless it is asked for: less than 99 KiB, which all devices have.
pub(super) fn allow_shared_memory(module: &Module) -> CudaResult<()> {
    for stored in [<f32 as DeviceValue>::STORED, <f64 as DeviceValue>::STORED].into_iter().flatten() {
        for kind in ["", "tiles_"] {
            let function = module.get_function(format!("decode_{kind}{}", stored.name))?;
            let most = FunctionAttribute::MaxDynamicSharedSizeBytes;
            // SAFETY: the function is one of the module's.
            let set = unsafe { set_function_attribute(function.to_raw().cast(), most, decode_shared(stored) as i32) };
            set.map_err(|_| CudaError::InvalidValue)?;
        }
    }
    Ok(())
}

/// Bytes of shared memory of a block that decodes.
fn decode_shared(stored: Stored) -> u32 {
    DECODE_SHARED + stored.decode_threads * (32 * stored.bytes as u32 + stored.bytes.max(4) as u32 + DECODE_RING)
}

/// Bytes of shared memory that every device gives a block.
const SHARED: u32 = 48 << 10;
/// Bytes of a lane's ring of words that wait to be decoded.
const DECODE_RING: u32 = 64;
/// Places of the largest segment and of a group after it.
const SEGMENT_PLACES: u32 = 1024 + 8;

/// The address of flags, or null.
fn address(mask: Option<&Buffer<u32>>) -> DevicePointer<u32> {
    mask.map_or(DevicePointer::null(), Buffer::pointer)
}

/// The flags that take part in coding a level.
fn coding_mask(mask: &Option<Buffer<u32>>, index: usize) -> Option<&Buffer<u32>> {
    mask.as_ref().filter(|_| index == 0)
}

/// A chunk's symbols, and what is needed to code them, which is allocated first: memory that other streams work in must not be what the
/// main stream was the last to use.
pub(crate) struct Symbols<T> {
    pub(super) levels: Vec<LevelSymbols<T>>,
    rooms: RefCell<Vec<Option<Room>>>,
    counts: Option<Buffer<u32>>,
    counted: Vec<Event>,
}

/// Device memory to code a level.
pub(super) struct Room {
    /// Codes by token and by small symbol.
    codes: Buffer<u32>,
    pub(super) slots: Buffer<u32>,
    pub(super) slot_words: u32,
    pub(super) lengths: Buffer<u16>,
    pub(super) starts: Starts,
    overflow: Buffer<u32>,
}

impl Room {
    fn new(cuda: &Cuda, level: &Level, stored: Stored) -> Result<Self> {
        let segments = level.segments();
        let slot_words = slot_words(level, stored.room[0]);
        Ok(Self {
            codes: cuda.buffer(BOOKS + CLASSES * 2 * SMALL as usize)?,
            slots: cuda.buffer(segments * slot_words as usize)?,
            slot_words,
            lengths: cuda.buffer(segments)?,
            starts: cuda.starts(segments as u32)?,
            overflow: cuda.buffer(1)?,
        })
    }
}

fn slot_words(level: &Level, bits: u32) -> u32 {
    (level.segment as u32 * bits).div_ceil(32) + 1
}

/// A level's bits in their slots, or on the way there.
pub(crate) struct Coded {
    pub(super) index: usize,
    level: CodedLevel,
    stored: Stored,
    symbols: DevicePointer<u8>,
    mask: DevicePointer<u32>,
    pub(super) room: Room,
    most_words: u32,
    done: Event,
}

/// What a check found, or will find.
pub(crate) struct Check {
    n: u32,
    flags: Buffer<u32>,
    counts: Buffer<u32>,
    starts: Starts,
    worst: Buffer<u64>,
    done: Event,
}

/// Where a level's coded segments lie on the device: their lengths, and their bytes, which end at `limit`.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) lengths: u64,
    pub(super) payload: u64,
    pub(super) limit: u64,
}

impl<T: Value + DeviceValue> Backend<T> for Cuda {
    type Values<'a> = Buffer<T>;
    type Mask<'a> = Option<Buffer<u32>>;
    type Symbols = Symbols<T>;
    type Check = Check;
    type Coded = Coded;

    /// On the host, which has the values: they would have to travel twice.
    fn statistics(&mut self, values: &[T], fill: Option<T>) -> Result<FieldStatistics<T>> {
        Cpu.statistics(values, fill)
    }

    fn load(&mut self, values: Cow<'_, [T]>) -> Result<Buffer<T>> {
        self.enter()?;
        let buffer: Buffer<T> = self.buffer(values.len())?;
        self.staging.upload(bytemuck::cast_slice(&values), buffer.pointer().as_raw(), &self.stream)?;
        Ok(buffer)
    }

    fn load_mask(&mut self, mask: Option<&Mask>) -> Result<Option<Buffer<u32>>> {
        self.enter()?;
        mask.map(|mask| self.upload(mask.words_u32())).transpose()
    }

    fn decompose(
        &mut self,
        plan: &ChunkPlan,
        values: &Buffer<T>,
        mask: &Option<Buffer<u32>>,
        quantisers: &[Quantiser<T>],
        range: f64,
        open_loop: bool,
    ) -> Result<Symbols<T>> {
        self.enter()?;
        let narrow = narrow_levels(plan, quantisers, range);
        let new = |(level, narrow)| LevelSymbols::new(self, level, narrow);
        let levels = plan.levels.iter().zip(narrow).map(new).collect::<Result<Vec<_>>>()?;
        let rooms = plan.levels.iter().zip(&levels).map(|(level, symbols)| Room::new(self, level, symbols.stored).map(Some));
        let counts: Buffer<u32> = self.buffer(plan.levels.len() * BOOKS)?;
        counts.clear(&self.stream)?;
        let mut symbols = Symbols {
            rooms: RefCell::new(rooms.collect::<Result<_>>()?),
            levels,
            counts: Some(counts),
            counted: plan.levels.iter().map(|_| Event::new()).collect::<Result<_>>()?,
        };
        let mut coarse: Option<Buffer<T>> = None;
        for (index, (level, &quantiser)) in plan.levels.iter().zip(quantisers).enumerate() {
            let now = coarse.as_ref().unwrap_or(values);
            let level_symbols = &mut symbols.levels[index];
            coarse = match level.kind {
                LevelKind::Local => {
                    Some(self.decompose_local(level, plan.d, now, coding_mask(mask, index), quantiser, open_loop, level_symbols)?)
                }
                LevelKind::Global => Some(self.decompose_global(level, now, quantiser, open_loop, level_symbols)?),
                LevelKind::Coarsest => {
                    self.difference(level, now, quantiser, level_symbols)?;
                    None
                }
            };
            if level.kind != LevelKind::Global {
                level_symbols.ready.record(&self.stream)?;
            }
            self.count(CodedLevel::new(level, plan.d)?, coding_mask(mask, index), &symbols, index)?;
        }
        Ok(symbols)
    }

    fn histograms(&mut self, _: &ChunkPlan, symbols: &Symbols<T>, _: &Option<Buffer<u32>>, index: usize) -> Result<[Histogram; CLASSES]> {
        self.enter()?;
        symbols.counted[index].synchronize()?;
        let counts: Vec<u32> = self.mail.counts(index, BOOKS);
        Ok(std::array::from_fn(|class| std::array::from_fn(|token| u64::from(counts[class * TOKENS + token]))))
    }

    fn encode(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Symbols<T>,
        mask: &Option<Buffer<u32>>,
        index: usize,
        books: &[Codebook],
    ) -> Result<Coded> {
        self.enter()?;
        let room = symbols.rooms.borrow_mut()[index].take();
        let room = room.ok_or_else(|| Error::Device("a level was coded before".into()))?;
        let (level, level_symbols) = (&plan.levels[index], &symbols.levels[index]);
        let stream = &self.side[encode_stream(index)];
        room.codes.write(&codes(books), stream)?;
        level_symbols.ready.hold(stream)?;
        let coded = Coded {
            index,
            level: CodedLevel::new(level, plan.d)?,
            stored: level_symbols.stored,
            symbols: level_symbols.pointer(),
            mask: address(coding_mask(mask, index)),
            room,
            most_words: slot_words(level, level_symbols.stored.room[1]),
            done: Event::new()?,
        };
        self.queue_encode(&coded)?;
        Ok(coded)
    }

    fn stream(&mut self, mut coded: Coded) -> Result<Stream> {
        self.enter()?;
        let bytes = self.finish_encode(&mut coded)?;
        let payload: Buffer<u8> = self.buffer(bytes as usize)?;
        let stream = &self.side[encode_stream(coded.index)];
        let Room { slots, slot_words, lengths, starts, .. } = &coded.room;
        self.move_segments_to(stream, slots, *slot_words, lengths, starts, payload.pointer().as_raw())?;
        let lengths = lengths.read(lengths.len(), stream)?;
        let mut out = vec![0; bytes as usize];
        self.staging.download(payload.pointer().as_raw(), &mut out, stream)?;
        Ok(Stream { lengths, payload: out })
    }

    fn decode(
        &mut self,
        plan: &ChunkPlan,
        mask: &Option<Buffer<u32>>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
    ) -> Result<Symbols<T>> {
        self.enter()?;
        let inputs = self.load_streams(plan, streams)?;
        let sources: Vec<Source> = inputs.iter().map(Input::source).collect();
        for optimistic in [true, false] {
            let decoding = self.queue_decode(plan, mask, books, &sources, optimistic)?;
            if self.decoded_well(&decoding)? {
                return Ok(decoding.symbols);
            }
        }
        Err(misfit())
    }

    fn recompose(&mut self, plan: &ChunkPlan, symbols: &Symbols<T>, quantisers: &[Quantiser<T>]) -> Result<Buffer<T>> {
        self.enter()?;
        let values = self.buffer(count(plan.levels[0].dims) as usize)?;
        self.recompose_into(plan, symbols, quantisers, &values)?;
        Ok(values)
    }

    fn check(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Symbols<T>,
        quantisers: &[Quantiser<T>],
        values: &Buffer<T>,
        mask: &Option<Buffer<u32>>,
        bound: f64,
    ) -> Result<Check> {
        self.enter()?;
        let n = values.len() as u32;
        let check = Check {
            n,
            flags: self.buffer(groups(n) as usize * 32)?,
            counts: self.buffer(groups(n) as usize)?,
            starts: self.starts(groups(n))?,
            worst: self.buffer(1)?,
            done: Event::new()?,
        };
        check.flags.clear(&self.stream)?;
        check.worst.clear(&self.stream)?;
        let original = Original { values, mask: mask.as_ref(), bound };
        let (level, finest) = (&plan.levels[0], &symbols.levels[0]);
        if level.kind == LevelKind::Local {
            let coarse = self.recompose_from(1, plan, symbols, quantisers)?;
            self.check_local(level, plan.d, finest, &coarse, quantisers[0], &original, &check.flags, &check.worst)?;
        } else {
            let decoded = self.recompose_from(0, plan, symbols, quantisers)?;
            self.check_values(&decoded, &original, &check.flags, &check.worst)?;
        }
        self.count_flags(&self.stream, n, &check.flags, &check.counts)?;
        self.scan::<u32>(&self.stream, check.counts.pointer().as_raw(), &check.starts)?;
        self.mail.receive(check.starts.sum().as_raw(), 8, BROKEN, &self.stream)?;
        self.mail.receive(check.worst.pointer().as_raw(), 8, WORST, &self.stream)?;
        check.done.record(&self.stream)?;
        Ok(check)
    }

    fn verdict(&mut self, check: Check, values: &Buffer<T>) -> Result<Verdict> {
        self.enter()?;
        let (patches, max_abs_error) = self.found(&check)?;
        let mut verdict = Verdict { max_abs_error, patches: Patches::default() };
        if patches > 0 {
            let sizes = patch_sizes::<T>(check.n, patches);
            let [counts, offsets, out]: [Buffer<u8>; 3] = [self.buffer(sizes[0])?, self.buffer(sizes[1])?, self.buffer(sizes[2])?];
            self.write_patch_sections(&check, values, [&counts, &offsets, &out].map(|section| section.pointer().as_raw()))?;
            let read = |section: &Buffer<u8>| section.read(section.len(), &self.stream);
            verdict.patches = Patches { counts: read(&counts)?, offsets: read(&offsets)?, values: read(&out)? };
        }
        Ok(verdict)
    }

    fn code_tiles(&mut self, task: &closed::Task<'_, T>) -> Result<closed::CodedChunk> {
        self.code_closed(task)
    }

    fn decode_tiles(&mut self, shape: TileShape, dims: Dims, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
        self.decode_closed(shape, dims, chunk, out)
    }

    fn code_packed(&mut self, task: &packed::Task<'_, T>) -> Result<closed::CodedChunk> {
        self.code_packed_tiles(task)
    }

    fn decode_packed(&mut self, dims: Dims, d: usize, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
        self.decode_packed_chunk(dims, d, chunk, out)
    }

    fn finish(&mut self) -> Result<()> {
        self.enter()?;
        self.finish_all()
    }

    fn store(&mut self, values: Buffer<T>, out: &mut [T]) -> Result<()> {
        self.enter()?;
        self.staging.download(values.pointer().as_raw(), bytemuck::cast_slice_mut(out), &self.stream)
    }

    fn reconstruct(
        &mut self,
        plan: &ChunkPlan,
        mask: &Option<Buffer<u32>>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
        quantisers: &[Quantiser<T>],
        out: &mut [T],
    ) -> Result<()> {
        self.enter()?;
        let inputs = self.load_streams(plan, streams)?;
        let sources: Vec<Source> = inputs.iter().map(Input::source).collect();
        let values: Buffer<T> = self.buffer(out.len())?;
        self.reconstruct_into(plan, mask, books, &sources, quantisers, None, &values)?;
        self.store(values, out)
    }
}

/// Bytes of the sections of patches: counts, offsets, values.
pub(super) fn patch_sizes<T>(n: u32, patches: u64) -> [usize; 3] {
    [4 * patch_blocks(n) as usize, 2 * patches as usize, size_of::<T>() * patches as usize]
}

/// Coded segments that were copied to the device.
struct Input {
    lengths: Buffer<u16>,
    payload: Buffer<u8>,
}

impl Input {
    fn source(&self) -> Source {
        let payload = self.payload.pointer().as_raw();
        Source { lengths: self.lengths.pointer().as_raw(), payload, limit: payload + self.payload.len() as u64 }
    }
}

fn misfit() -> Error {
    Error::Corrupt("a level's payload is not what its codebook writes".into())
}

/// The stream that a level is coded on: the finest is most of the work, the others follow each other.
pub(super) fn encode_stream(index: usize) -> usize {
    1 + usize::from(index > 0)
}

/// The stages' parts.
impl Cuda {
    /// Waits for all streams.
    pub(crate) fn finish_all(&self) -> Result<()> {
        self.side.iter().chain([&self.stream]).try_for_each(|stream| stream.synchronize().map_err(failed))
    }

    /// Queues counting a level's tokens, beside the main stream.
    fn count<T: DeviceValue>(&self, level: CodedLevel, mask: Option<&Buffer<u32>>, symbols: &Symbols<T>, index: usize) -> Result<()> {
        let (stream, level_symbols) = (&self.side[0], &symbols.levels[index]);
        level_symbols.ready.hold(stream)?;
        let Some(counts) = &symbols.counts else { return Ok(()) };
        let total = counts.pointer().wrapping_offset((index * BOOKS) as isize);
        let blocks = CodedLevel::blocks(level.segments.div_ceil(level.stride), COUNT_WARPS);
        queue!(
            self,
            stream,
            format!("count_tokens_{}", level_symbols.stored.name),
            (blocks, COUNT_WARPS * 32, 0),
            (level, level_symbols.pointer(), address(mask), total)
        )?;
        self.mail.receive_counts(total.as_raw(), BOOKS, index, stream)?;
        symbols.counted[index].record(stream)
    }

    /// Queues coding a level into its room.
    fn queue_encode(&self, coded: &Coded) -> Result<()> {
        let Coded { level, stored, room, .. } = coded;
        let stream = &self.side[encode_stream(coded.index)];
        room.overflow.clear(stream)?;
        let own = (SEGMENT_PLACES * (stored.bytes as u32 + 1)).next_multiple_of(16) + (room.slot_words * 4).next_multiple_of(16);
        let warps = ((SHARED - ENCODE_SHARED) / own).min(stored.threads / 32);
        queue!(
            self,
            stream,
            format!("encode_{}", stored.name),
            (CodedLevel::blocks(level.segments, warps), warps * 32, ENCODE_SHARED + warps * own),
            (
                *level,
                coded.symbols,
                coded.mask,
                room.codes.pointer(),
                room.slots.pointer(),
                room.slot_words,
                room.lengths.pointer(),
                room.overflow.pointer()
            )
        )?;
        self.scan::<u16>(stream, room.lengths.pointer().as_raw(), &room.starts)?;
        self.mail.receive(room.starts.sum().as_raw(), 8, coded.index, stream)?;
        self.mail.receive_overflow(room.overflow.pointer().as_raw(), coded.index, stream)?;
        coded.done.record(stream)
    }

    /// Waits for a level's bits; returns how many bytes they are. Segments that had no room in their slots are coded again, with more.
    pub(super) fn finish_encode(&self, coded: &mut Coded) -> Result<u64> {
        coded.done.synchronize()?;
        if self.mail.overflow(coded.index) {
            coded.room.slot_words = coded.most_words;
            coded.room.slots = self.buffer(coded.level.segments as usize * coded.most_words as usize)?;
            self.queue_encode(coded)?;
            coded.done.synchronize()?;
        }
        Ok(self.mail.number(coded.index))
    }

    /// How many values a check found that break the bound, and the greatest error of the others.
    pub(super) fn found(&self, check: &Check) -> Result<(u64, f64)> {
        check.done.synchronize()?;
        Ok((self.mail.number(BROKEN), f64::from_bits(self.mail.number(WORST))))
    }

    /// Queues the sections of the patches that a check found, to these addresses: counts, offsets, values.
    pub(super) fn write_patch_sections<T: DeviceValue>(&self, check: &Check, values: &Buffer<T>, sections: [u64; 3]) -> Result<()> {
        let [counts, offsets, out] = sections;
        self.count_patches(&self.stream, check.n, &check.counts, counts)?;
        self.write_patches(&self.stream, &check.flags, values, &check.starts, offsets, out)
    }

    fn load_streams(&mut self, plan: &ChunkPlan, streams: &[(Vec<u16>, &[u8])]) -> Result<Vec<Input>> {
        let mut inputs = Vec::with_capacity(streams.len());
        for (level, (lengths, payload)) in plan.levels.iter().zip(streams) {
            let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
            if lengths.len() != level.segments() || total != payload.len() as u64 {
                return Err(Error::Corrupt("a level's segment lengths do not match its payload".into()));
            }
            let input = Input { lengths: self.upload(lengths)?, payload: self.buffer(payload.len())? };
            self.staging.upload(payload, input.payload.pointer().as_raw(), &self.stream)?;
            inputs.push(input);
        }
        Ok(inputs)
    }

    /// Queues decoding all levels, each on a stream of its own. Levels whose books have no token that does not fit are taken to fit half
    /// the width of a symbol, if `optimistic` those with escaped tokens too.
    fn queue_decode<T: DeviceValue>(
        &self,
        plan: &ChunkPlan,
        mask: &Option<Buffer<u32>>,
        books: &[Codebook],
        sources: &[Source],
        optimistic: bool,
    ) -> Result<Decoding<T>> {
        let mut levels = Vec::with_capacity(plan.levels.len());
        let mut starts = Vec::with_capacity(plan.levels.len());
        for (level, books) in plan.levels.iter().zip(books.chunks(CLASSES)) {
            levels.push(LevelSymbols::new(self, level, fit_half::<T>(books, optimistic))?);
            starts.push(self.starts(level.segments() as u32)?);
        }
        let tables = self.decode_tables(plan, books)?;
        let bad: Buffer<u32> = self.buffer(1)?;
        bad.clear(&self.stream)?;
        let ready = Event::new()?;
        ready.record(&self.stream)?;
        // The coarsest first: it is the first to be recomposed.
        for (index, level) in plan.levels.iter().enumerate().rev() {
            let stream = &self.side[index.min(SIDE_STREAMS - 1)];
            let (symbols, source) = (&levels[index], &sources[index]);
            let coded = CodedLevel::new(level, plan.d)?;
            ready.hold(stream)?;
            self.scan::<u16>(stream, source.lengths, &starts[index])?;
            self.mail.receive(starts[index].sum().as_raw(), 8, index, stream)?;
            let threads = symbols.stored.decode_threads;
            queue!(
                self,
                stream,
                format!("decode_{}{}", if coded.kind == TILES { "tiles_" } else { "" }, symbols.stored.name),
                (coded.segments.div_ceil(threads), threads, decode_shared(symbols.stored)),
                (
                    coded,
                    source.payload,
                    source.limit,
                    starts[index].offsets.pointer(),
                    starts[index].bases.pointer(),
                    source.lengths,
                    address(coding_mask(mask, index)),
                    tables.pointer().wrapping_offset(((index * CLASSES) << MAX_LENGTH) as isize),
                    symbols.pointer(),
                    bad.pointer()
                )
            )?;
            symbols.ready.record(stream)?;
        }
        let symbols = Symbols { levels, rooms: RefCell::default(), counts: None, counted: Vec::new() };
        let payloads = sources.iter().map(|source| source.limit - source.payload).collect();
        Ok(Decoding { symbols, optimistic, payloads, bad, _inputs: (tables, starts) })
    }

    /// Queues making the decoders' tables, [`CLASSES`] for each level.
    fn decode_tables(&self, plan: &ChunkPlan, books: &[Codebook]) -> Result<Buffer<u16>> {
        let mut codes = Vec::with_capacity(plan.levels.len() * BOOKS);
        for book in books {
            codes.extend((0..TOKENS).map(|token| book.code(token)).map(|(code, length)| code as u32 | length << 24));
        }
        codes.resize(plan.levels.len() * BOOKS, 0);
        let (codes, count) = (self.upload(&codes)?, plan.levels.len() * CLASSES);
        let tables: Buffer<u16> = self.buffer(count << MAX_LENGTH)?;
        queue!(self, "fill_tables", (16 * count as u32, 256, 0), (codes.pointer(), tables.pointer()))?;
        Ok(tables)
    }

    /// Waits for the levels, and says whether all symbols fitted.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where bits are no codes.
    fn decoded_well<T>(&self, decoding: &Decoding<T>) -> Result<bool> {
        decoding.symbols.levels.iter().try_for_each(|level| level.ready.hold(&self.stream))?;
        self.mail.receive(decoding.bad.pointer().as_raw(), 4, BAD, &self.stream)?;
        self.finish_all()?;
        if decoding.payloads.iter().enumerate().any(|(level, &bytes)| self.mail.number(level) != bytes) {
            return Err(Error::Corrupt("a level's segment lengths do not match its payload".into()));
        }
        match self.mail.number(BAD) as u32 {
            0 => Ok(true),
            2 if decoding.optimistic => Ok(false),
            _ => Err(misfit()),
        }
    }

    /// Decodes and recomposes a chunk, and puts its patches in.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where bits are no codes, or lengths, payloads and patches contradict each other.
    pub(super) fn reconstruct_into<T: DeviceValue>(
        &self,
        plan: &ChunkPlan,
        mask: &Option<Buffer<u32>>,
        books: &[Codebook],
        sources: &[Source],
        quantisers: &[Quantiser<T>],
        patches: Option<PatchSections>,
        values: &Buffer<T>,
    ) -> Result<()> {
        let contradiction = || Error::Corrupt("the patches contradict each other".into());
        let starts = self.starts(patch_blocks(values.len() as u32))?;
        let bad: Buffer<u32> = self.buffer(1)?;
        for optimistic in [true, false] {
            let decoding = self.queue_decode(plan, mask, books, sources, optimistic)?;
            self.recompose_into(plan, &decoding.symbols, quantisers, values)?;
            if let Some(sections) = patches {
                bad.clear(&self.stream)?;
                self.scan::<u32>(&self.stream, sections.counts, &starts)?;
                self.apply_patches(&self.stream, sections, &starts, values, bad.pointer())?;
                self.mail.receive(starts.sum().as_raw(), 8, BROKEN, &self.stream)?;
                self.mail.receive(bad.pointer().as_raw(), 4, BAD_PATCHES, &self.stream)?;
            }
            if !self.decoded_well(&decoding)? {
                continue;
            }
            return match patches {
                Some(sections) if self.mail.number(BROKEN) != sections.patches || self.mail.number(BAD_PATCHES) as u32 != 0 => {
                    Err(contradiction())
                }
                _ => Ok(()),
            };
        }
        Err(misfit())
    }

    /// Queues putting a chunk together.
    fn recompose_into<T: DeviceValue>(
        &self,
        plan: &ChunkPlan,
        symbols: &Symbols<T>,
        quantisers: &[Quantiser<T>],
        values: &Buffer<T>,
    ) -> Result<()> {
        let coarse = if plan.levels.len() > 1 { Some(self.recompose_from(1, plan, symbols, quantisers)?) } else { None };
        self.recompose_level(0, plan, symbols, quantisers, coarse.as_ref(), values)
    }

    /// Queues the array that level `first` started from.
    fn recompose_from<T: DeviceValue>(
        &self,
        first: usize,
        plan: &ChunkPlan,
        symbols: &Symbols<T>,
        quantisers: &[Quantiser<T>],
    ) -> Result<Buffer<T>> {
        let mut now: Option<Buffer<T>> = None;
        for index in (first..plan.levels.len()).rev() {
            let values = self.buffer(count(plan.levels[index].dims) as usize)?;
            self.recompose_level(index, plan, symbols, quantisers, now.as_ref(), &values)?;
            now = Some(values);
        }
        now.ok_or_else(|| Error::Device("a chunk has no level".into()))
    }

    /// Queues the array that level `index` started from, given the one that it left; that one is overwritten.
    fn recompose_level<T: DeviceValue>(
        &self,
        index: usize,
        plan: &ChunkPlan,
        symbols: &Symbols<T>,
        quantisers: &[Quantiser<T>],
        coarse: Option<&Buffer<T>>,
        values: &Buffer<T>,
    ) -> Result<()> {
        let (level, symbols, quantiser) = (&plan.levels[index], &symbols.levels[index], quantisers[index]);
        symbols.ready.hold(&self.stream)?;
        match (level.kind, coarse) {
            (LevelKind::Local, Some(coarse)) => self.recompose_local(level, plan.d, symbols, coarse, quantiser, values),
            (LevelKind::Global, Some(coarse)) => self.recompose_global(level, symbols, coarse, quantiser, values),
            _ => self.accumulate(level, symbols, quantiser, values),
        }
    }
}

/// Levels that are being decoded, and what the kernels read, which stays until they are done.
struct Decoding<T> {
    symbols: Symbols<T>,
    optimistic: bool,
    /// Bytes of each level.
    payloads: Vec<u64>,
    bad: Buffer<u32>,
    _inputs: (Buffer<u16>, Vec<Starts>),
}

/// Whether all symbols that a level's books write are taken to fit half their width.
fn fit_half<T: DeviceValue>(books: &[Codebook], optimistic: bool) -> bool {
    // The tokens of the greatest magnitude that fits, 2^(bits - 1) - 1.
    let (greatest, _) = token(1 - (1i64 << (T::STORED[1].bits - 1)));
    books.iter().all(|book| {
        let used = |token: u32| book.code(token as usize).1 > 0;
        (greatest + 1..TOKENS as u32).all(|token| match token {
            ZERO_GROUP => true,
            ESCAPE => optimistic || !used(token),
            _ => !used(token),
        })
    })
}

/// Codes by token, escaped where there is none (code | length << 24), and code and extra bits by small symbol (| their number << 26), for
/// each of three contexts.
fn codes(books: &[Codebook]) -> Vec<u32> {
    let code = |class: usize, token: u32| {
        let Some(book) = books.get(class) else { return (0, 0) };
        match book.code(token as usize) {
            (_, 0) => {
                let (code, length) = book.code(ESCAPE as usize);
                if length > 0 { (code as u32 | token << length, length + ESCAPED_BITS) } else { (0, 0) }
            }
            (code, length) => (code as u32, length),
        }
    };
    let tokens = (0..CLASSES).flat_map(|class| (0..TOKENS as u32).map(move |token| (class, token)));
    let tokens = tokens.map(|(class, token)| code(class, token)).map(|(code, length)| code | length << 24);
    let small = (0..CLASSES).flat_map(|class| (-SMALL..SMALL).map(move |symbol| (class, symbol)));
    let small = small.map(|(class, symbol)| {
        let (token, extra) = token(symbol);
        let (code, length) = code(class, token);
        let raw = symbol.unsigned_abs() as u32 & ((1 << extra) - 1);
        code | raw << length | (length + extra) << 26
    });
    tokens.chain(small).collect()
}
