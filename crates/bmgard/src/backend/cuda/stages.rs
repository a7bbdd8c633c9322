//! The pipeline's stages on the device.

use std::borrow::Cow;

use bmgard_core::tile::Quantiser;
use bmgard_core::token::TOKENS;
use cust::memory::{DeviceCopy, DevicePointer};

use super::levels::{DeviceValue, check_size, narrow};
use super::memory::Buffer;
use super::{Cuda, queue};
use crate::backend::cpu::Cpu;
use crate::backend::{Backend, FieldStatistics, Stream, Verdict};
use crate::huffman::{Codebook, Histogram, MAX_LENGTH};
use crate::plan::{CLASSES, ChunkPlan, Level, LevelKind};
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
        })
    }

    /// Blocks of a kernel whose threads each work on a segment.
    fn blocks(&self) -> u32 {
        self.segments.div_ceil(CODING_BLOCK)
    }

    /// Blocks of a kernel whose warps each work on one segment after another.
    fn warp_blocks(&self) -> u32 {
        /// More than run at once on any device of today.
        const MOST: u32 = 1 << 13;
        self.segments.div_ceil(CODING_BLOCK / 32).min(MOST)
    }
}

/// Threads of a block, as in `kernels_gpu::coding` and `kernels_gpu::field`.
const CODING_BLOCK: u32 = 64;
const MOVE_BLOCK: u32 = 256;
const CHECK_BLOCK: u32 = 256;
/// Values that a block checks.
const CHECKED: u32 = 1024;
/// Counts, codes or tables of a level's three contexts.
const BOOKS: usize = CLASSES * TOKENS;

/// The address of flags, or null.
fn address(mask: Option<&Buffer<u32>>) -> DevicePointer<u32> {
    mask.map_or(DevicePointer::null(), Buffer::pointer)
}

/// The flags that take part in coding a level.
fn coding_mask(mask: &Option<Buffer<u32>>, index: usize) -> Option<&Buffer<u32>> {
    mask.as_ref().filter(|_| index == 0)
}

impl<T: Value + DeviceValue> Backend<T> for Cuda {
    type Values<'a> = Buffer<T>;
    type Mask<'a> = Option<Buffer<u32>>;
    type Symbols = Vec<Buffer<T::Symbol>>;

    /// On the host, which has the values: they would have to travel twice.
    fn statistics(&mut self, values: &[T], fill: Option<T>) -> Result<FieldStatistics<T>> {
        Cpu.statistics(values, fill)
    }

    fn load(&mut self, values: Cow<'_, [T]>) -> Result<Buffer<T>> {
        self.enter()?;
        self.upload(&values)
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
        open_loop: bool,
    ) -> Result<Self::Symbols> {
        self.enter()?;
        let mut out = Vec::with_capacity(plan.levels.len());
        let mut coarse: Option<Buffer<T>> = None;
        for (index, (level, &quantiser)) in plan.levels.iter().zip(quantisers).enumerate() {
            let now = coarse.as_ref().unwrap_or(values);
            let (symbols, next) = match level.kind {
                LevelKind::Local => self.decompose_local(level, plan.d, now, coding_mask(mask, index), quantiser, open_loop)?,
                LevelKind::Global => self.decompose_global(level, now, quantiser, open_loop)?,
                LevelKind::Coarsest => {
                    out.push(self.difference(level, now, quantiser)?);
                    break;
                }
            };
            out.push(symbols);
            coarse = Some(next);
        }
        Ok(out)
    }

    fn histograms(&mut self, plan: &ChunkPlan, symbols: &Self::Symbols, mask: &Option<Buffer<u32>>) -> Result<Vec<Histogram>> {
        self.enter()?;
        let totals: Buffer<u32> = self.buffer(plan.levels.len() * BOOKS)?;
        totals.clear(&self.stream)?;
        for (index, (level, symbols)) in plan.levels.iter().zip(symbols).enumerate() {
            let coded = CodedLevel::new(level, plan.d)?;
            let total = totals.pointer().wrapping_offset((index * BOOKS) as isize);
            queue!(
                self,
                format!("count_tokens_{}", T::SUFFIX),
                (coded.warp_blocks(), CODING_BLOCK, 0),
                (coded, symbols.pointer(), address(coding_mask(mask, index)), total)
            )?;
        }
        let totals = totals.read(totals.len(), &self.stream)?;
        let mut histograms: Vec<Histogram> =
            totals.chunks_exact(TOKENS).map(|counts| std::array::from_fn(|t| u64::from(counts[t]))).collect();
        histograms.truncate(plan.contexts());
        Ok(histograms)
    }

    fn encode(&mut self, plan: &ChunkPlan, symbols: &Self::Symbols, mask: &Option<Buffer<u32>>, books: &[Codebook]) -> Result<Vec<Stream>> {
        self.enter()?;
        let mut out = Vec::with_capacity(plan.levels.len());
        for (index, ((level, symbols), books)) in plan.levels.iter().zip(symbols).zip(books.chunks(CLASSES)).enumerate() {
            let coded = CodedLevel::new(level, plan.d)?;
            let mut codes = vec![0u32; BOOKS];
            for (slot, (class, token)) in codes.iter_mut().zip((0..CLASSES).flat_map(|class| (0..TOKENS).map(move |token| (class, token))))
            {
                let (code, length) = books.get(class).map_or((0, 0), |book| book.code(token));
                *slot = code as u32 | length << 16;
            }
            let codes = self.upload(&codes)?;
            let symbol_bits = T::SYMBOL_BITS[usize::from(level.kind != LevelKind::Coarsest)];
            let slot_words = (coded.segment * symbol_bits).div_ceil(32) + 1;
            let slots: Buffer<u32> = self.buffer(coded.segments as usize * slot_words as usize)?;
            let lengths: Buffer<u16> = self.buffer(coded.segments as usize)?;
            queue!(
                self,
                format!("encode_{}", T::SUFFIX),
                (coded.warp_blocks(), CODING_BLOCK, slot_words * 4 * (CODING_BLOCK / 32)),
                (
                    coded,
                    symbols.pointer(),
                    address(coding_mask(mask, index)),
                    codes.pointer(),
                    slots.pointer(),
                    slot_words,
                    lengths.pointer()
                )
            )?;
            let lengths = lengths.read(lengths.len(), &self.stream)?;
            let offsets = offsets(&lengths)?;
            let bytes = offsets.last().map_or(0, |&end| end as usize);
            let (offsets, payload): (_, Buffer<u8>) = (self.upload(&offsets)?, self.buffer(bytes)?);
            queue!(
                self,
                "move_segments",
                (coded.segments.div_ceil(MOVE_BLOCK / 32), MOVE_BLOCK, 0),
                (coded.segments, slots.pointer(), slot_words, offsets.pointer(), payload.pointer())
            )?;
            out.push(Stream { lengths, payload: payload.read(bytes, &self.stream)? });
        }
        Ok(out)
    }

    fn decode(
        &mut self,
        plan: &ChunkPlan,
        mask: &Option<Buffer<u32>>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
    ) -> Result<Self::Symbols> {
        self.enter()?;
        let corrupt = |what: &str| Error::Corrupt(format!("a level's {what}"));
        let mut all_offsets = Vec::with_capacity(plan.levels.len());
        for (level, (lengths, payload)) in plan.levels.iter().zip(streams) {
            let offsets = offsets(lengths)?;
            if lengths.len() != level.segments() || offsets.last().map_or(0, |&end| end as usize) != payload.len() {
                return Err(corrupt("segment lengths do not match its payload"));
            }
            all_offsets.push(offsets);
        }
        let bad: Buffer<u32> = self.buffer(1)?;
        bad.clear(&self.stream)?;
        let mut out = Vec::with_capacity(plan.levels.len());
        // What the kernels read stays until they are done: they do not all run on the main stream.
        let mut inputs = Vec::with_capacity(plan.levels.len());
        for (index, ((level, (_, payload)), books)) in plan.levels.iter().zip(streams).zip(books.chunks(CLASSES)).enumerate() {
            let coded = CodedLevel::new(level, plan.d)?;
            let mut tables = Vec::with_capacity(CLASSES << MAX_LENGTH);
            books.iter().for_each(|book| tables.extend(decode_table(book)));
            tables.resize(CLASSES << MAX_LENGTH, 0);
            // Whole words: the kernel reads no bytes.
            let words: Buffer<u8> = self.buffer(payload.len().next_multiple_of(4))?;
            words.write(payload, &self.stream)?;
            words.clear_from(payload.len(), &self.stream)?;
            let (offsets, tables) = (self.upload(&all_offsets[index])?, self.upload(&tables)?);
            let symbols: Buffer<T::Symbol> = self.buffer(level.places)?;
            let stream = self.fork(index)?;
            queue!(
                self,
                stream,
                format!("decode_{}", T::SUFFIX),
                (coded.blocks(), CODING_BLOCK, 0),
                (
                    coded,
                    words.pointer(),
                    offsets.pointer(),
                    address(coding_mask(mask, index)),
                    tables.pointer(),
                    symbols.pointer(),
                    bad.pointer()
                )
            )?;
            out.push(symbols);
            inputs.push((words, offsets, tables));
        }
        self.join()?;
        match bad.read(1, &self.stream)?[..] {
            [0] => Ok(out),
            _ => Err(corrupt("payload is not what its codebook writes")),
        }
    }

    fn recompose(&mut self, plan: &ChunkPlan, symbols: &Self::Symbols, quantisers: &[Quantiser<T>]) -> Result<Buffer<T>> {
        self.enter()?;
        let mut now: Option<Buffer<T>> = None;
        for ((level, symbols), &quantiser) in plan.levels.iter().zip(symbols).zip(quantisers).rev() {
            now = Some(match (level.kind, now) {
                (LevelKind::Local, Some(coarse)) => self.recompose_local(level, plan.d, symbols, &coarse, quantiser)?,
                (LevelKind::Global, Some(coarse)) => self.recompose_global(level, symbols, &coarse, quantiser)?,
                _ => self.accumulate(level, symbols, quantiser)?,
            });
        }
        now.ok_or_else(|| Error::Device("a chunk has no level".into()))
    }

    fn verify(&mut self, values: &Buffer<T>, decoded: &Buffer<T>, mask: &Option<Buffer<u32>>, bound: f64) -> Result<Verdict> {
        self.enter()?;
        let n = values.len() as u32;
        let blocks = n.div_ceil(CHECKED);
        let (broken, worst): (Buffer<u32>, Buffer<u64>) = (self.buffer(blocks as usize)?, self.buffer(blocks as usize)?);
        let flags: Buffer<u32> = self.buffer(blocks as usize * 32)?;
        let mask = address(mask.as_ref());
        queue!(
            self,
            format!("check_{}", T::SUFFIX),
            (blocks, CHECK_BLOCK, 0),
            (n, values.pointer(), decoded.pointer(), mask, bound, flags.pointer(), broken.pointer(), worst.pointer())
        )?;
        let worst = worst.read(worst.len(), &self.stream)?;
        let broken = broken.read(broken.len(), &self.stream)?;
        let mut offsets = Vec::with_capacity(broken.len());
        let mut total = 0u32;
        for count in broken {
            offsets.push(total);
            total += count;
        }
        let max_abs_error = worst.into_iter().max().map_or(0.0, f64::from_bits);
        if total == 0 {
            return Ok(Verdict { max_abs_error, broken: Vec::new() });
        }
        let (offsets, positions): (_, Buffer<u32>) = (self.upload(&offsets)?, self.buffer(total as usize)?);
        queue!(self, "list_flags", (blocks, 32, 0), (flags.pointer(), offsets.pointer(), positions.pointer()))?;
        let positions = positions.read(total as usize, &self.stream)?;
        Ok(Verdict { max_abs_error, broken: positions.into_iter().map(u64::from).collect() })
    }

    fn finish(&mut self) -> Result<()> {
        self.enter()?;
        self.stream.synchronize().map_err(super::failed)
    }

    fn store(&mut self, values: Buffer<T>, out: &mut [T]) -> Result<()> {
        self.enter()?;
        values.read_into(out, &self.stream)
    }
}

/// For every 12 bits that may come next: token | length << 8; length 0 where no code starts so.
fn decode_table(book: &Codebook) -> Vec<u16> {
    let mut table = vec![0; 1 << MAX_LENGTH];
    for token in 0..TOKENS {
        let (code, length) = book.code(token);
        if length > 0 {
            table.iter_mut().skip(code as usize).step_by(1 << length).for_each(|entry| *entry = token as u16 | (length as u16) << 8);
        }
    }
    table
}

/// Where each segment starts, and where the last one ends.
fn offsets(lengths: &[u16]) -> Result<Vec<u32>> {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    let mut end = 0u32;
    offsets.push(0);
    for &length in lengths {
        end = end
            .checked_add(u32::from(length))
            .ok_or_else(|| Error::Device("a level of 4 GiB or more is too large for the kernels".into()))?;
        offsets.push(end);
    }
    Ok(offsets)
}
