//! Packed tiles on the CPU: chunks of mode `turbo`, forward and back. What is computed at each node stands in [`bmgard_core::packed`];
//! here are the loops over tiles and their bits. Tiles of the same extents are worked on together, a vector's lane each.

mod batch;
pub(crate) mod plan;
mod tile;

use std::ops::Range;

use bmgard_core::closed::Quantiser;
use bmgard_core::packed::{TILE_NODES, extent, sure_bound, width};
use rayon::prelude::*;

use self::batch::{GROUPS, LANES, Nodes, Symbols};
use self::plan::{Plan, Program, Programs, TileBox};
use self::tile::{Coded, Opening, WORD, escapes_size, write_escapes};
use crate::archive::{Chunk, ChunkHeader, ChunkKind, SectionId};
use crate::backend::cpu::shared::Shared;
use crate::closed::{CodedChunk, mask, steps};
use crate::plan::{Dims, Levels, count};
use crate::special::{Mask, Specials};
use crate::{DType, Error, Result, Value};

/// A chunk to code: its values in C order (or none, where a backend has them), the special ones among them, and what must be kept.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a, T> {
    /// The dimensions of the field.
    pub(crate) d: usize,
    pub(crate) dims: Dims,
    pub(crate) values: &'a [T],
    pub(crate) specials: Option<&'a Specials<T>>,
    pub(crate) bound: f64,
    /// A fill value that valid values come near to, or NaN.
    pub(crate) forbidden: T,
}

/// A chunk's coded tiles.
pub(crate) struct CodedTiles {
    pub(crate) payload: Vec<u8>,
    /// Words of each, little-endian.
    pub(crate) lengths: Vec<u8>,
    /// Their bits.
    pub(crate) anchors: Vec<u8>,
    pub(crate) worst: f64,
    pub(crate) escapes: u64,
}

impl<T: Value> Task<'_, T> {
    fn mask(&self) -> Option<&Mask> {
        self.specials.map(|specials| &specials.mask)
    }

    /// The step of all symbols.
    pub(crate) fn step(&self) -> T {
        steps::widest(self.bound)
    }

    /// The chunk of these tiles.
    pub(crate) fn finish(&self, tiles: CodedTiles) -> CodedChunk {
        let mut sections = mask::sections(self.specials, self.dims);
        sections.push((SectionId::PackedTiles, tiles.payload.into()));
        sections.push((SectionId::PackedLengths, tiles.lengths.into()));
        sections.push((SectionId::PackedAnchors, tiles.anchors.into()));
        let levels = Levels { local: 0, global: 0 };
        let chunk = Chunk { kind: ChunkKind::Packed, levels, steps: vec![self.step().to_bits_u64()], sections, tile: None };
        (chunk, tiles.worst, tiles.escapes)
    }
}

/// Tiles that a thread works on at a time.
const UNIT: usize = 64;

fn units(plan: &Plan) -> Vec<Range<usize>> {
    let tiles = plan.tile_count();
    (0..tiles).step_by(UNIT).map(|first| first..tiles.min(first + UNIT)).collect()
}

/// Codes a chunk.
pub(crate) fn code_chunk<T: Value>(task: &Task<'_, T>) -> CodedChunk {
    let plan = Plan::new(task.dims, task.d);
    let programs = Programs::<T>::new(&plan);
    let units: Vec<CodedUnit<T>> =
        units(&plan).into_par_iter().map_init(Encoder::default, |encoder, tiles| encoder.run(&plan, &programs, task, tiles)).collect();
    let payload: Vec<&[u8]> = units.iter().map(|unit| &unit.bytes[..]).collect();
    task.finish(CodedTiles {
        payload: payload.concat(),
        lengths: units.iter().flat_map(|unit| &unit.lengths).flat_map(|length| length.to_le_bytes()).collect(),
        anchors: units.iter().flat_map(|unit| bytemuck::cast_slice::<T, u8>(&unit.anchors)).copied().collect(),
        worst: units.iter().fold(0.0, |worst, unit| unit.worst.max(worst)),
        escapes: units.iter().map(|unit| unit.escapes).sum(),
    })
}

/// The coded tiles of a unit.
struct CodedUnit<T> {
    bytes: Vec<u8>,
    lengths: Vec<u16>,
    anchors: Vec<T>,
    worst: f64,
    escapes: u64,
}

/// Buffers for one unit after another.
struct Encoder<T> {
    nodes: Box<Nodes<T>>,
    symbols: Box<Symbols>,
    widths: [[u8; LANES]; GROUPS],
    /// The tiles of a unit, each in a place of its own until all are there, and their bytes.
    slots: Vec<u8>,
    sizes: Vec<usize>,
}

impl<T: Value> Default for Encoder<T> {
    fn default() -> Self {
        let zeros = bytemuck::allocation::zeroed_box();
        Self {
            nodes: new_nodes(),
            symbols: zeros,
            widths: [[0; LANES]; GROUPS],
            slots: vec![0; UNIT * slot_size::<T>()],
            sizes: Vec::new(),
        }
    }
}

fn new_nodes<T: Value>() -> Box<Nodes<T>> {
    bytemuck::allocation::zeroed_box()
}

/// Room for a tile: coded without escapes, or raw.
fn slot_size<T>() -> usize {
    Coded::ROOM.max(TILE_NODES * size_of::<T>())
}

/// Whether a tile holds a special value.
fn is_masked(mask: Option<&Mask>, tile: &TileBox) -> bool {
    mask.is_some_and(|mask| tile.rows().any(|row| mask.any(row..row + tile.extents[2])))
}

impl<T: Value> Encoder<T> {
    fn run(&mut self, plan: &Plan, programs: &Programs<T>, task: &Task<'_, T>, tiles: Range<usize>) -> CodedUnit<T> {
        let mut out =
            CodedUnit { bytes: Vec::new(), lengths: vec![0; tiles.len()], anchors: vec![T::ZERO; tiles.len()], worst: 0.0, escapes: 0 };
        self.sizes.clear();
        self.sizes.resize(tiles.len(), 0);
        let boxes: Vec<(TileBox, usize)> = tiles
            .map(|index| {
                let tile = plan.tile(index);
                (tile, programs.index(tile.extents))
            })
            .collect();
        for index in 0..programs.len() {
            let program = programs.get(index);
            let members: Vec<usize> = (0..boxes.len()).filter(|&tile| boxes[tile].1 == index).collect();
            let (masked, plain): (Vec<usize>, Vec<usize>) = members.into_iter().partition(|&tile| is_masked(task.mask(), &boxes[tile].0));
            for tile in masked {
                self.code_alone(program, task, &boxes[tile].0, tile, &mut out);
            }
            for batch in plain.chunks(LANES) {
                self.code_batch(program, task, batch, &boxes, &mut out);
            }
        }
        out.bytes.reserve(self.sizes.iter().sum());
        for (slot, (&size, length)) in self.slots.chunks_exact(slot_size::<T>()).zip(self.sizes.iter().zip(&mut out.lengths)) {
            out.bytes.extend_from_slice(&slot[..size]);
            *length = (size / WORD) as u16;
        }
        out
    }

    fn slot(&mut self, tile: usize) -> &mut [u8] {
        &mut self.slots[tile * slot_size::<T>()..][..slot_size::<T>()]
    }

    /// Tiles without special values.
    fn code_batch(
        &mut self,
        program: &Program<T>,
        task: &Task<'_, T>,
        batch: &[usize],
        boxes: &[(TileBox, usize)],
        out: &mut CodedUnit<T>,
    ) {
        for (lane, &tile) in batch.iter().enumerate() {
            batch::load(program, task.values, &boxes[tile].0, &mut self.nodes, lane);
            out.anchors[tile] = self.nodes[0][lane];
        }
        let quantiser = Quantiser::new(task.step());
        let (mut worst, mut lost) = ([T::ZERO; LANES], [0; LANES]);
        batch::quantise(&program.steps, &quantiser, &mut self.nodes, &mut self.symbols, &mut worst, &mut lost);
        batch::widths(program, &self.symbols, &mut self.widths);
        let sure = sure_bound::<T>(task.bound);
        let unwanted = task.forbidden.is_finite();
        for (lane, &tile) in batch.iter().enumerate() {
            if lost[lane] != 0 || worst[lane] > sure || unwanted {
                self.code_alone(program, task, &boxes[tile].0, tile, out);
                continue;
            }
            let slot = &mut self.slots[tile * slot_size::<T>()..][..slot_size::<T>()];
            let size = batch::pack(program, &self.symbols, lane, &self.widths, &mut Coded(slot));
            if size < boxes[tile].0.nodes() * size_of::<T>() {
                self.sizes[tile] = size;
                out.worst = worst[lane].to_f64().min(task.bound).max(out.worst);
            } else {
                self.store_raw(task, &boxes[tile].0, tile);
            }
        }
    }

    fn store_raw(&mut self, task: &Task<'_, T>, tile: &TileBox, at: usize) {
        let mut size = 0;
        for row in tile.rows() {
            let values: &[u8] = bytemuck::cast_slice(&task.values[row..][..tile.extents[2]]);
            self.slot(at)[size..][..values.len()].copy_from_slice(values);
            size += values.len();
        }
        self.sizes[at] = size;
    }

    /// Any tile: each value is checked for itself.
    #[cold]
    fn code_alone(&mut self, program: &Program<T>, task: &Task<'_, T>, tile: &TileBox, at: usize, out: &mut CodedUnit<T>) {
        let quantiser = Quantiser::new(task.step());
        let (mut nodes, mut symbols, mut masked) = ([T::ZERO; TILE_NODES], [0; TILE_NODES], [false; TILE_NODES]);
        let mut slots = program.nodes();
        let mut first = None;
        for row in tile.rows() {
            for (position, slot) in (row..row + tile.extents[2]).zip(&mut slots) {
                nodes[slot] = task.values[position];
                masked[slot] = task.mask().is_some_and(|mask| mask.get(position));
                first = first.or((!masked[slot]).then_some(nodes[slot]));
            }
        }
        let Some(first) = first else {
            return;
        };
        if masked[0] {
            nodes[0] = first;
        }
        out.anchors[at] = nodes[0];
        let (mut worst, mut escapes) = (0.0f64, Vec::new());
        for step in &program.steps {
            let prediction = step.predict(&nodes);
            let slot = usize::from(step.slot);
            let value = nodes[slot];
            if masked[slot] {
                nodes[slot] = quantiser.missing(prediction);
                continue;
            }
            let (symbol, reconstructed, fits) = quantiser.quantise(value, prediction);
            let error = (value.to_f64() - reconstructed.to_f64()).abs();
            if fits && error <= task.bound && reconstructed != task.forbidden {
                symbols[slot] = symbol;
                nodes[slot] = reconstructed;
                worst = worst.max((value - reconstructed).abs().to_f64().min(task.bound));
            } else {
                escapes.push((step.slot, value));
            }
        }
        escapes.sort_unstable_by_key(|&(slot, _)| slot);
        let mut start = 0;
        for (&end, widths) in program.group_ends.iter().zip(&mut self.widths) {
            let slots = program.order[start..usize::from(end)].iter().map(|&slot| symbols[usize::from(slot)]);
            let (extents, any) = slots.fold((0, false), |(extents, any), symbol| (extents | extent(symbol), any | (symbol != 0)));
            widths[0] = width(extents, any) as u8;
            start = usize::from(end);
        }
        let symbol = |slot: u16| symbols[usize::from(slot)];
        let raw = tile.nodes() * size_of::<T>();
        let slot = &mut self.slots[at * slot_size::<T>()..][..slot_size::<T>()];
        let mut size = if escapes.is_empty() {
            Coded(slot).write(program, 0, &self.widths, symbol)
        } else {
            Coded(slot).write_with(program, 0, &self.widths, symbol, true)
        };
        if !escapes.is_empty() && size + escapes_size::<T>(escapes.len()) < raw {
            let mut bytes = Vec::new();
            write_escapes(&escapes, &mut bytes);
            self.slot(at)[size..][..bytes.len()].copy_from_slice(&bytes);
            size += bytes.len();
        } else if !escapes.is_empty() {
            size = raw;
        }
        if size < raw {
            self.sizes[at] = size;
            out.worst = worst.max(out.worst);
            out.escapes += escapes.len() as u64;
        } else {
            self.store_raw(task, tile, at);
        }
    }
}

/// Checks that a chunk's sections have the sizes that its shape asks for.
pub(crate) fn sizes_fit(dims: Dims, d: usize, value_size: usize, chunk: &ChunkHeader) -> bool {
    let tiles = Plan::new(dims, d).tile_count() as u64;
    let size = |id| chunk.section(id).map_or(0, |section| section.len);
    chunk.steps.len() == 1
        && size(SectionId::PackedTiles).is_multiple_of(WORD as u64)
        && size(SectionId::PackedLengths) == 2 * tiles
        && size(SectionId::PackedAnchors) == value_size as u64 * tiles
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::Corrupt(what.into())
}

/// Where each tile's bytes are.
fn cut_tiles(plan: &Plan, chunk: &Chunk<'_>) -> Result<Vec<Range<usize>>> {
    let lengths = chunk.section(SectionId::PackedLengths).chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let mut tiles = Vec::with_capacity(plan.tile_count());
    let mut at = 0;
    for length in lengths {
        let end = at + WORD * usize::from(length);
        tiles.push(at..end);
        at = end;
    }
    if at == chunk.section(SectionId::PackedTiles).len() { Ok(tiles) } else { Err(corrupt("tiles have other lengths than their bytes")) }
}

/// Decodes a chunk, whose sections have the right sizes, into `out`, its nodes in C order; special values are put in place.
pub(crate) fn decode_chunk<T: Value>(dims: Dims, d: usize, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
    debug_assert_eq!(out.len() as u64, count(dims));
    let plan = Plan::new(dims, d);
    let programs = Programs::<T>::new(&plan);
    let specials = mask::specials::<T>(dims, chunk)?;
    let source = Source {
        quantiser: Quantiser::new(steps::read(chunk.steps.first().copied().unwrap_or(0))?),
        tiles: cut_tiles(&plan, chunk)?,
        payload: chunk.section(SectionId::PackedTiles),
        anchors: chunk.section(SectionId::PackedAnchors),
        mask: specials.as_ref().map(|specials| &specials.mask),
    };
    let shared = Shared::new(out);
    let units = units(&plan).into_par_iter();
    units.map_init(Decoder::default, |decoder, tiles| decoder.run(&plan, &programs, &source, tiles, &shared)).collect::<Result<()>>()?;
    if let Some(specials) = specials {
        specials.restore(out);
    }
    Ok(())
}

/// What tiles are decoded from.
struct Source<'a, T> {
    quantiser: Quantiser<T>,
    tiles: Vec<Range<usize>>,
    payload: &'a [u8],
    anchors: &'a [u8],
    mask: Option<&'a Mask>,
}

impl<T: Value> Source<'_, T> {
    fn anchor(&self, tile: usize) -> T {
        bytemuck::pod_read_unaligned(&self.anchors[tile * size_of::<T>()..][..size_of::<T>()])
    }
}

/// Buffers for one unit after another.
struct Decoder<T> {
    nodes: Box<Nodes<T>>,
    symbols: Box<Symbols>,
    rows: Box<[T; TILE_NODES]>,
}

impl<T: Value> Default for Decoder<T> {
    fn default() -> Self {
        Self { nodes: new_nodes(), symbols: bytemuck::allocation::zeroed_box(), rows: bytemuck::allocation::zeroed_box() }
    }
}

impl<T: Value> Decoder<T> {
    fn run(&mut self, plan: &Plan, programs: &Programs<T>, source: &Source<'_, T>, tiles: Range<usize>, out: &Shared<'_, T>) -> Result<()> {
        let boxes: Vec<(TileBox, usize)> = tiles
            .clone()
            .map(|index| {
                let tile = plan.tile(index);
                (tile, programs.index(tile.extents))
            })
            .collect();
        let bad = |index: usize| corrupt(format!("tile {index} is not one"));
        for number in 0..programs.len() {
            let program = programs.get(number);
            let mut lane = 0;
            let mut batch = [0; LANES];
            for (index, (tile, _)) in tiles.clone().zip(&boxes).filter(|(_, (_, program))| *program == number) {
                let bytes = &source.payload[source.tiles[index].clone()];
                let raw = tile.nodes() * size_of::<T>();
                if bytes.len() == raw {
                    self.rows
                        .iter_mut()
                        .zip(bytes.chunks_exact(size_of::<T>()))
                        .for_each(|(to, value)| *to = bytemuck::pod_read_unaligned(value));
                    self.write(tile, out);
                    continue;
                }
                if bytes.len() > raw {
                    return Err(bad(index));
                }
                let opening = if bytes.is_empty() { None } else { Some(Opening::read(program, bytes).ok_or_else(|| bad(index))?) };
                if is_masked(source.mask, tile) || opening.is_some_and(|opening| opening.escapes) {
                    self.decode_alone(program, source, tile, index, bytes, opening.as_ref()).ok_or_else(|| bad(index))?;
                    self.write(tile, out);
                    continue;
                }
                if opening.is_some_and(|opening| opening.end() != bytes.len()) {
                    return Err(bad(index));
                }
                self.nodes[0][lane] = source.anchor(index);
                batch::unpack(program, opening.as_ref(), bytes, &mut self.symbols, lane);
                batch[lane] = index;
                lane += 1;
                if lane == LANES {
                    self.finish(program, source, &batch, plan, out);
                    lane = 0;
                }
            }
            self.finish(program, source, &batch[..lane], plan, out);
        }
        Ok(())
    }

    /// Puts the tiles of a batch together.
    fn finish(&mut self, program: &Program<T>, source: &Source<'_, T>, batch: &[usize], plan: &Plan, out: &Shared<'_, T>) {
        if batch.is_empty() {
            return;
        }
        batch::reconstruct(&program.steps, &source.quantiser, &mut self.nodes, &self.symbols);
        for (lane, &index) in batch.iter().enumerate() {
            batch::store(program, &self.nodes, lane, &mut self.rows);
            self.write(&plan.tile(index), out);
        }
    }

    /// Any coded tile; `None` where it is not one.
    #[cold]
    fn decode_alone(
        &mut self,
        program: &Program<T>,
        source: &Source<'_, T>,
        tile: &TileBox,
        index: usize,
        bytes: &[u8],
        opening: Option<&Opening>,
    ) -> Option<()> {
        let (mut nodes, mut symbols) = ([T::ZERO; TILE_NODES], [0; TILE_NODES]);
        let mut escapes = Vec::new();
        if let Some(opening) = opening {
            opening.symbols(program, bytes, |slot, symbol| symbols[usize::from(slot)] = symbol);
            if opening.escapes {
                escapes = opening.escapes::<T>(program, bytes)?;
            } else if opening.end() != bytes.len() {
                return None;
            }
        }
        let mut masked = [false; TILE_NODES];
        let mut slots = program.nodes();
        for row in tile.rows() {
            for (position, slot) in (row..row + tile.extents[2]).zip(&mut slots) {
                masked[slot] = source.mask.is_some_and(|mask| mask.get(position));
            }
        }
        nodes[0] = source.anchor(index);
        for step in &program.steps {
            let prediction = step.predict(&nodes);
            let slot = usize::from(step.slot);
            nodes[slot] = match escapes.binary_search_by_key(&step.slot, |&(slot, _)| slot) {
                Ok(escape) => escapes[escape].1,
                Err(_) if masked[slot] => source.quantiser.missing(prediction),
                Err(_) => source.quantiser.reconstruct(symbols[slot], prediction),
            };
        }
        self.rows.iter_mut().zip(program.nodes()).for_each(|(to, slot)| *to = nodes[slot]);
        Some(())
    }

    /// Puts a tile's rows in their places.
    fn write(&self, tile: &TileBox, out: &Shared<'_, T>) {
        for (row, values) in tile.rows().zip(self.rows.chunks(tile.extents[2])) {
            // SAFETY: every node is of one tile, and every tile of one unit.
            #[allow(unsafe_code, reason = "tiles are no contiguous parts of the chunk")]
            unsafe {
                out.write(row, values);
            }
        }
    }
}

/// What there is to say of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Values stored exactly, those of raw tiles left out.
    pub(crate) escapes: u64,
    /// NaN, infinities and fill values.
    pub(crate) masked: u64,
    /// Tiles whose symbols are all 0.
    pub(crate) zero: u64,
    /// Tiles stored as they are.
    pub(crate) raw: u64,
}

/// Looks through a chunk's tiles.
pub(crate) fn survey(dims: Dims, d: usize, dtype: DType, chunk: &Chunk<'_>) -> Result<Survey> {
    match dtype {
        DType::F32 => survey_as::<f32>(dims, d, chunk),
        DType::F64 => survey_as::<f64>(dims, d, chunk),
    }
}

fn survey_as<T: Value>(dims: Dims, d: usize, chunk: &Chunk<'_>) -> Result<Survey> {
    let plan = Plan::new(dims, d);
    let programs = Programs::<T>::new(&plan);
    let payload = chunk.section(SectionId::PackedTiles);
    let mut survey = Survey { masked: mask::specials::<T>(dims, chunk)?.map_or(0, |specials| specials.count), ..Survey::default() };
    for (index, bytes) in cut_tiles(&plan, chunk)?.into_iter().enumerate() {
        let (tile, bytes) = (plan.tile(index), &payload[bytes]);
        let raw = bytes.len() == tile.nodes() * size_of::<T>();
        survey.zero += u64::from(bytes.is_empty());
        survey.raw += u64::from(raw);
        if raw || bytes.is_empty() {
            continue;
        }
        let program = programs.get(programs.index(tile.extents));
        let bad = || corrupt(format!("tile {index} is not one"));
        let opening = Opening::read(program, bytes).ok_or_else(bad)?;
        if opening.escapes {
            survey.escapes += opening.escapes::<T>(program, bytes).ok_or_else(bad)?.len() as u64;
        }
    }
    Ok(survey)
}
