//! Chunks from device memory to device memory: the host sees headers, counts and codebooks only.

use bytemuck::Pod;
use cust::memory::{DeviceBuffer, DeviceCopy};
use cust::sys;

use super::archive::PatchSections;
use super::event::Event;
use super::levels::DeviceValue;
use super::mail::{CHECKSUMS, STATISTICS};
use super::memory::{Buffer, check};
use super::stages::{Coded, Source, patch_sizes};
use super::{CHECKSUM_STREAM, Cuda, SIDE_STREAMS, describe, failed, queue};
use crate::archive::{Chunk, ChunkHeader, ChunkKind, Section, SectionId, chunk_size, write_chunk_header};
use crate::backend::FieldStatistics;
use crate::pipeline::{self, FieldPlan, Queued, may_decode_to, stored_quantisers};
use crate::plan::{ChunkPlan, Dims, Levels};
use crate::{Error, Result, Value};

/// Threads of a block of `kernels_gpu::field`, the values that each looks at at once, and the most blocks.
const BLOCK: u32 = 256;
const AHEAD: u64 = 8;
const MOST_BLOCKS: u64 = 1 << 12;

/// A chunk that was put into an archive on the device.
pub(crate) struct Placed {
    pub(crate) size: u64,
    pub(crate) header_crc: u32,
    pub(crate) max_abs_error: f64,
    pub(crate) patched: u64,
    pub(crate) specials: u64,
    pub(crate) raw: bool,
}

/// Memory that an archive may take.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) room: u64,
}

impl Place {
    pub(super) fn fits(self, size: u64) -> Result<()> {
        if size <= self.room { Ok(()) } else { Err(Error::OutputTooSmall { missing: size - self.room }) }
    }
}

impl Cuda {
    /// The caller's values, which nothing else may write meanwhile.
    pub(crate) fn borrow<T>(address: u64, len: usize) -> Buffer<T>
    where
        T: DeviceValue,
    {
        Buffer::borrowed(address, len)
    }

    /// Memory of the caller's, of unspecified content.
    pub(crate) fn allocate<T: Pod + DeviceCopy>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        self.enter()?;
        // SAFETY: every bit pattern is a value of a plain type.
        let buffer = unsafe { DeviceBuffer::uninitialized(len) };
        buffer.map_err(|error| Error::Device(format!("{} for {len} values of {} bytes", describe(error), size_of::<T>())))
    }

    /// Memory for values of a chunk that are not one after the other in the field.
    pub(crate) fn scratch<T: DeviceValue>(&self, len: usize) -> Result<Buffer<T>> {
        self.enter()?;
        self.buffer(len)
    }

    /// How often device memory was allocated so far, and the bytes that are kept.
    pub(crate) fn memory(&self) -> (u64, u64) {
        self.pool.usage()
    }

    /// Queues a copy within the device's memory.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<()> {
        self.enter()?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's addresses have that many bytes.
        check(unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.stream.as_inner()) })
    }

    /// Copies bytes to the device.
    pub(crate) fn put(&mut self, bytes: &[u8], address: u64) -> Result<()> {
        self.enter()?;
        self.staging.upload(bytes, address, &self.stream)
    }

    /// Copies bytes to the host.
    pub(crate) fn fetch(&mut self, address: u64, len: u64) -> Result<Vec<u8>> {
        self.enter()?;
        let mut bytes = bytemuck::allocation::try_zeroed_vec(len as usize)
            .map_err(|()| Error::Device(format!("the host has no memory for {len} bytes")))?;
        self.staging.download(address, &mut bytes, &self.stream)?;
        Ok(bytes)
    }

    /// What `n` values are like.
    pub(crate) fn statistics_of<T: Value + DeviceValue>(&mut self, values: &Buffer<T>, fill: Option<T>) -> Result<FieldStatistics<T>> {
        self.enter()?;
        let n = values.len() as u64;
        let numbers: Buffer<u64> = self.buffer(3)?;
        numbers.write(&[u64::MAX, 0, 0], &self.stream)?;
        let number = |i: isize| numbers.pointer().wrapping_offset(i);
        let blocks = n.div_ceil(u64::from(BLOCK) * AHEAD).clamp(1, MOST_BLOCKS) as u32;
        queue!(
            self,
            format!("statistics_{}", T::SUFFIX),
            (blocks, BLOCK, 0),
            (n, values.pointer(), fill.unwrap_or(T::ZERO), u32::from(fill.is_some()), number(0), number(1), number(2))
        )?;
        (0..3).try_for_each(|i| self.mail.receive(number(i as isize).as_raw(), 8, STATISTICS + i, &self.stream))?;
        self.stream.synchronize().map_err(failed)?;
        let [least, greatest, specials] = [0, 1, 2].map(|i| self.mail.number(STATISTICS + i));
        // The inverse of the kernel's `key`.
        let value = |key: u64| T::from_f64(f64::from_bits(if key >> 63 == 1 { key & (u64::MAX >> 1) } else { !key }));
        Ok(FieldStatistics { min_max: (specials < n).then(|| (value(least), value(greatest))), specials })
    }

    /// Compresses a chunk into an archive, the same bytes as [`pipeline::compress_chunk`]'s. `statistics` are the chunk's own.
    pub(crate) fn place_chunk<T: Value + DeviceValue>(
        &mut self,
        field: &FieldPlan<T>,
        dims: Dims,
        values: &Buffer<T>,
        statistics: &FieldStatistics<T>,
        place: Place,
    ) -> Result<Placed> {
        if field.packed && statistics.specials == FieldStatistics::<T>::UNKNOWN {
            return self.place_packed_or_finish(field, dims, values, place);
        }
        let uniform = statistics.min_max.is_none_or(|(min, max)| min == max);
        if statistics.specials > 0 || uniform || field.fill.is_some_and(|fill| may_decode_to(fill, field)) {
            return self.place_by_host(field, dims, values, place);
        }
        if field.bound <= 0.0 {
            return self.place_raw(values, place);
        }
        if field.packed {
            return self.place_packed_or_finish(field, dims, values, place);
        }
        let placed = match field.tile {
            Some(shape) => self.place_closed(field, shape, dims, values, place),
            None => self.place_coded(field, dims, values, place),
        };
        if placed.is_err() {
            // What is queued must not outlive the memory that it works in.
            self.finish_all()?;
        }
        placed
    }

    fn place_packed_or_finish<T: Value + DeviceValue>(
        &mut self,
        field: &FieldPlan<T>,
        dims: Dims,
        values: &Buffer<T>,
        place: Place,
    ) -> Result<Placed> {
        let placed = self.place_packed(field, dims, values, place);
        if placed.is_err() {
            self.finish_all()?;
        }
        placed
    }

    /// A chunk that needs the host: special values are listed and replaced there.
    pub(super) fn place_by_host<T: Value + DeviceValue>(
        &mut self,
        field: &FieldPlan<T>,
        dims: Dims,
        values: &Buffer<T>,
        place: Place,
    ) -> Result<Placed> {
        let bytes = self.fetch(values.pointer().as_raw(), (values.len() * size_of::<T>()) as u64)?;
        let host: Vec<T> = bytemuck::pod_collect_to_vec(&bytes);
        let compressed = pipeline::compress_chunk(self, field, dims, &host)?;
        let header = compressed.chunk.write_header();
        place.fits(compressed.chunk.size())?;
        self.put(&header, place.address)?;
        let mut at = place.address + header.len() as u64;
        for (_, section) in &compressed.chunk.sections {
            self.put(section, at)?;
            at += section.len() as u64;
        }
        self.finish_all()?;
        Ok(Placed {
            size: at - place.address,
            header_crc: crc32fast::hash(&header),
            max_abs_error: compressed.max_abs_error,
            patched: compressed.patched,
            specials: compressed.specials,
            raw: compressed.chunk.kind == ChunkKind::Raw,
        })
    }

    /// A chunk as it is.
    pub(super) fn place_raw<T: Value + DeviceValue>(&mut self, values: &Buffer<T>, place: Place) -> Result<Placed> {
        let bytes = (values.len() * size_of::<T>()) as u64;
        let size = chunk_size(0, [bytes].into_iter());
        place.fits(size)?;
        let start = place.address + size - bytes;
        self.copy(values.pointer().as_raw(), start, bytes)?;
        let sections = [(SectionId::Raw, start, bytes)];
        let header_crc = self.write_header(ChunkKind::Raw, Levels { local: 0, global: 0 }, &[], &sections, place)?;
        Ok(Placed { size, header_crc, max_abs_error: 0.0, patched: 0, specials: 0, raw: true })
    }

    fn place_coded<T: Value + DeviceValue>(
        &mut self,
        field: &FieldPlan<T>,
        dims: Dims,
        values: &Buffer<T>,
        place: Place,
    ) -> Result<Placed> {
        let mut queued = Queued::new(self, field, dims, values, &None)?;
        let (patches, max_abs_error) = self.found(&queued.check)?;
        let payloads = queued.coded.iter_mut().map(|coded| self.finish_encode(coded)).collect::<Result<Vec<u64>>>()?;
        let (steps, codebooks) = (queued.steps(), queued.codebooks());
        let patch_ids = [SectionId::PatchCounts, SectionId::PatchOffsets, SectionId::PatchValues];
        let patch_sizes = patch_sizes::<T>(values.len() as u32, patches).map(|size| size as u64);
        let mut parts: Vec<(SectionId, u64)> = patch_ids.into_iter().zip(patch_sizes).filter(|_| patches > 0).collect();
        parts.push((SectionId::Codebooks, codebooks.len() as u64));
        parts.extend(queued.coded.iter().map(|coded| (SectionId::Lengths(coded.index as u8), 2 * coded.room.lengths.len() as u64)));
        parts.extend(queued.coded.iter().zip(&payloads).map(|(coded, &bytes)| (SectionId::Payload(coded.index as u8), bytes)));

        let size = chunk_size(steps.len(), parts.iter().map(|&(_, len)| len));
        if size >= chunk_size(0, [(values.len() * size_of::<T>()) as u64].into_iter()) {
            return self.place_raw(values, place);
        }
        place.fits(size)?;
        let mut at = place.address + size - parts.iter().map(|&(_, len)| len).sum::<u64>();
        let mut sections = Vec::with_capacity(parts.len());
        for (id, len) in parts {
            sections.push((id, at, len));
            at += len;
        }
        let start = |id| sections.iter().find(|&&(other, ..)| other == id).map_or(0, |&(_, start, _)| start);
        if patches > 0 {
            self.write_patch_sections(&queued.check, values, patch_ids.map(start))?;
        }
        self.staging.upload(&codebooks, start(SectionId::Codebooks), &self.stream)?;
        for coded in &queued.coded {
            let Coded { index, room, .. } = coded;
            self.copy(room.lengths.pointer().as_raw(), start(SectionId::Lengths(*index as u8)), 2 * room.lengths.len() as u64)?;
            let payload = start(SectionId::Payload(*index as u8));
            // Beside each other: the small ones take their time whatever their size.
            let stream = &self.side[index % SIDE_STREAMS];
            self.move_segments_to(stream, &room.slots, room.slot_words, &room.lengths, &room.starts, payload)?;
        }
        self.join()?;
        let levels = field.levels.clamped(dims, field.d);
        let header_crc = self.write_header(ChunkKind::Coded, levels, &steps, &sections, place)?;
        Ok(Placed { size, header_crc, max_abs_error, patched: patches, specials: 0, raw: false })
    }

    /// Writes a chunk's header once its sections (kind, address, bytes) are there; returns the header's checksum.
    pub(super) fn write_header(
        &mut self,
        kind: ChunkKind,
        levels: Levels,
        steps: &[u64],
        sections: &[(SectionId, u64, u64)],
        place: Place,
    ) -> Result<u32> {
        let spans: Vec<(u64, u64)> = sections.iter().map(|&(_, start, len)| (start, len)).collect();
        let remainders = self.queue_checksums(&spans)?;
        self.side[CHECKSUM_STREAM].synchronize().map_err(failed)?;
        let checksums = self.checksums(&spans);
        drop(remainders);
        let entries: Vec<_> = sections.iter().zip(checksums).map(|(&(id, _, len), crc)| (id, crc, len)).collect();
        let header = write_chunk_header(kind, levels, steps, &entries);
        self.put(&header, place.address)?;
        Ok(crc32fast::hash(&header))
    }

    /// Queues the checksums of spans of bytes, beside what comes next; [`Cuda::checksums`] has them once all streams have come here.
    pub(super) fn queue_checksums(&self, spans: &[(u64, u64)]) -> Result<Buffer<u32>> {
        let stream = &self.side[CHECKSUM_STREAM];
        let remainders: Buffer<u32> = self.buffer(spans.len())?;
        let ready = Event::new()?;
        ready.record(&self.stream)?;
        ready.hold(stream)?;
        remainders.clear(stream)?;
        for (index, &(start, len)) in spans.iter().enumerate() {
            self.checksum(stream, start, len, remainders.pointer().wrapping_offset(index as isize))?;
        }
        self.mail.receive_many(remainders.pointer().as_raw(), 4 * spans.len(), CHECKSUMS, stream)?;
        Ok(remainders)
    }

    fn checksums(&self, spans: &[(u64, u64)]) -> Vec<u32> {
        let finish = |(index, &(_, len)): (usize, &(u64, u64))| bmgard_core::crc::finish(self.mail.word(CHECKSUMS, index), len);
        spans.iter().enumerate().map(finish).collect()
    }

    /// Decodes a chunk that lies at `address` into values; its header was read and fits its shape. The inverse of
    /// [`Cuda::place_chunk`], and the same bits as [`pipeline::decompress_chunk`]'s.
    pub(crate) fn restore_chunk<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        d: usize,
        header: ChunkHeader,
        header_bytes: &[u8],
        address: u64,
        values: &Buffer<T>,
    ) -> Result<()> {
        self.enter()?;
        let bytes = (values.len() * size_of::<T>()) as u64;
        let spans: Vec<(u64, u64)> = header.sections.iter().map(|section| (address + section.start, section.len)).collect();
        match header.kind {
            ChunkKind::Coded if header.section(SectionId::MaskValues).is_none() => {
                let restored = self.restore_coded(dims, d, &header, header_bytes, address, values, &spans);
                if restored.is_err() {
                    self.finish_all()?;
                }
                restored
            }
            ChunkKind::Raw => {
                let remainders = self.queue_checksums(&spans)?;
                self.copy(spans[0].0, values.pointer().as_raw(), bytes)?;
                self.finish_all()?;
                drop(remainders);
                self.compare_checksums(&header, &spans)
            }
            ChunkKind::Closed if header.section(SectionId::MaskValues).is_none() => {
                let restored = self.restore_closed(dims, &header, address, values, &spans);
                match restored {
                    Ok(true) => Ok(()),
                    Ok(false) => self.restore_by_host(dims, d, header, address, values),
                    Err(error) => {
                        self.finish_all()?;
                        Err(error)
                    }
                }
            }
            ChunkKind::Packed if header.section(SectionId::MaskValues).is_none() => {
                match self.restore_packed(dims, d, &header, address, values, &spans) {
                    Ok(true) => Ok(()),
                    Ok(false) => self.restore_by_host(dims, d, header, address, values),
                    Err(error) => {
                        self.finish_all()?;
                        Err(error)
                    }
                }
            }
            _ => self.restore_by_host(dims, d, header, address, values),
        }
    }

    /// A chunk that needs the host: special values come back there.
    fn restore_by_host<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        d: usize,
        header: ChunkHeader,
        address: u64,
        values: &Buffer<T>,
    ) -> Result<()> {
        let len = header.sections.last().map_or(0, |section| section.start + section.len);
        let chunk = self.fetch(address, len)?;
        let chunk = Chunk::new(&chunk, header)?;
        let mut host = vec![T::ZERO; values.len()];
        pipeline::decompress_chunk(self, dims, d, &chunk, &mut host)?;
        self.put(bytemuck::cast_slice(&host), values.pointer().as_raw())?;
        self.stream.synchronize().map_err(failed)
    }

    fn restore_coded<T: Value + DeviceValue>(
        &mut self,
        dims: Dims,
        d: usize,
        header: &ChunkHeader,
        header_bytes: &[u8],
        address: u64,
        values: &Buffer<T>,
        spans: &[(u64, u64)],
    ) -> Result<()> {
        let plan = ChunkPlan::new(dims, d, header.levels);
        let quantisers = stored_quantisers::<T>(&header.steps);
        let part = |id| header.section(id).copied().unwrap_or(Section { id, crc: 0, start: 0, len: 0 });
        let books = part(SectionId::Codebooks);
        let fetched;
        let books = match header_bytes.get(books.start as usize..(books.start + books.len) as usize) {
            Some(bytes) => bytes,
            None => {
                fetched = self.fetch(address + books.start, books.len)?;
                &fetched
            }
        };
        let books = ChunkHeader::codebooks(&plan, books)?;
        let source = |level: u8| {
            let (lengths, payload) = (part(SectionId::Lengths(level)), part(SectionId::Payload(level)));
            let payload_start = address + payload.start;
            Source { lengths: address + lengths.start, payload: payload_start, limit: payload_start + payload.len }
        };
        let sources: Vec<Source> = (0..plan.levels.len() as u8).map(source).collect();
        let [counts, offsets, patch_values] = [SectionId::PatchCounts, SectionId::PatchOffsets, SectionId::PatchValues].map(part);
        let patches = offsets.len / 2;
        if patches > 0 && [counts.len, offsets.len, patch_values.len] != patch_sizes::<T>(values.len() as u32, patches).map(|n| n as u64) {
            return Err(Error::Corrupt("the patches contradict each other".into()));
        }
        let sections = PatchSections {
            counts: address + counts.start,
            offsets: address + offsets.start,
            values: address + patch_values.start,
            patches,
        };
        let remainders = self.queue_checksums(spans)?;
        self.reconstruct_into(&plan, &None, &books, &sources, &quantisers, (patches > 0).then_some(sections), values)?;
        drop(remainders);
        self.compare_checksums(header, spans)
    }

    /// # Errors
    /// [`Error::Corrupt`] where a section's checksum is not the one that its header says.
    pub(super) fn compare_checksums(&self, header: &ChunkHeader, spans: &[(u64, u64)]) -> Result<()> {
        let wrong = header.sections.iter().zip(self.checksums(spans)).find(|(section, crc)| section.crc != *crc);
        let wrong = wrong.map(|(section, _)| Error::Corrupt(format!("the checksum of {} is wrong", section.id.name())));
        wrong.map_or(Ok(()), Err)
    }
}
