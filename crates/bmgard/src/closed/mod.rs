//! Closed tiles on the CPU: chunks of mode `fast`, forward and back. What is computed at each node stands in
//! [`bmgard_core::closed`]; here are the loops over tiles, the coded bits, and the encoder's choices.

pub(crate) mod anchors;
mod decode;
mod encode;
pub(crate) mod mask;
pub(crate) mod plan;
mod rows;
pub(crate) mod steps;
mod strip;
mod tile;

use std::borrow::Cow;
use std::convert::Infallible;

use bmgard_core::closed::{Kind, Predictor, TILE_NODES, TileShape};
use rayon::prelude::*;

use self::decode::{Coded, Decoder, Symbols};
#[cfg(feature = "cuda")]
pub(crate) use self::encode::sample;
pub(crate) use self::encode::{AnchorGrid, Scheme};
use self::encode::{Encoder, Source};
use self::plan::{Plan, Strip};
use self::tile::Coder;
use crate::archive::{Chunk, ChunkHeader, ChunkKind, SectionId};
use crate::backend::cpu::shared::Shared;
use crate::plan::{Dims, Levels, count};
use crate::special::Specials;
use crate::{ClassInfo, DType, Error, Result, Value};

/// A coded chunk, its worst error, and how many values are escaped.
pub(crate) type CodedChunk = (Chunk<'static>, f64, u64);

/// Sections of a chunk.
pub(crate) type Sections = Vec<(SectionId, Cow<'static, [u8]>)>;

/// A chunk to code: its values in C order (or none, where a backend has them), the special ones among them, and what must be kept.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a, T> {
    pub(crate) shape: TileShape,
    pub(crate) dims: Dims,
    pub(crate) values: &'a [T],
    pub(crate) specials: Option<&'a Specials<T>>,
    pub(crate) bound: f64,
    /// A fill value that valid values come near to, or NaN.
    pub(crate) forbidden: T,
}

/// What is decided, and coded once, before a chunk's tiles are coded.
pub(crate) struct Choices<T> {
    pub(crate) plan: Plan,
    /// The finest level's first, the anchors' last.
    pub(crate) steps: Vec<T>,
    pub(crate) scheme: Scheme<T>,
    pub(crate) anchors: AnchorGrid<T>,
}

/// A chunk's coded tiles.
pub(crate) struct CodedTiles {
    /// Bytes of each, little-endian.
    pub(crate) lengths: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) worst: f64,
    pub(crate) escapes: u64,
}

impl<T: Value> Task<'_, T> {
    fn source(&self) -> Source<'_, T> {
        Source { values: self.values, mask: self.specials.map(|specials| &specials.mask), bound: self.bound, forbidden: self.forbidden }
    }

    /// The first value of each tile.
    pub(crate) fn first_values(&self, plan: &Plan) -> Vec<T> {
        (0..plan.tile_count()).map(|index| self.values[encode::anchor_position(plan, plan.tile_at(index))]).collect()
    }

    /// Every so many of the values, those that are special left out.
    pub(crate) fn sample(&self) -> Vec<T> {
        let source = self.source();
        let positions = (0..self.values.len()).step_by(steps::stride(self.values.len()));
        positions.filter(|&position| !source.is_masked(position)).map(|position| self.values[position]).collect()
    }

    /// Quantises the anchors, and looks at a sample.
    fn choose(&self) -> Choices<T> {
        let plan = Plan::new(self.dims, self.shape);
        let source = self.source();
        let (anchors, sample) = (self.first_values(&plan), self.sample());
        let choose = |plan: &Plan, scheme: &Scheme<T>, grid: &AnchorGrid<T>| {
            Ok::<_, Infallible>(encode::choose(plan, &source, scheme, &grid.values))
        };
        match self.choose_with(plan, &anchors, &sample, choose) {
            Ok(choices) => choices,
            Err(never) => match never {},
        }
    }

    /// Likewise, from the tiles' first values and others that are not special; `choose` is [`encode::choose`].
    pub(crate) fn choose_with<E>(
        &self,
        plan: Plan,
        anchors: &[T],
        sample: &[T],
        mut choose: impl FnMut(&Plan, &Scheme<T>, &AnchorGrid<T>) -> std::result::Result<(Vec<Predictor>, f64), E>,
    ) -> std::result::Result<Choices<T>, E> {
        let source = self.source();
        let mut steps = steps::equal(&plan, source.bound, sample);
        let mut scheme = Scheme::new(&steps, plan.fixed_predictors());
        let mut grid = encode::anchors(&plan, &source, anchors, &scheme.anchors);
        let (predictors, zeros) = choose(&plan, &scheme, &grid)?;
        scheme.predictors = predictors;
        if zeros > steps::MOSTLY_ZEROS {
            steps = steps::shrinking(&plan, source.bound);
            scheme = Scheme::new(&steps, scheme.predictors);
            grid = encode::anchors(&plan, &source, anchors, &scheme.anchors);
            scheme.predictors = choose(&plan, &scheme, &grid)?.0;
        }
        Ok(Choices { plan, steps, scheme, anchors: grid })
    }

    /// The sections before those of the tiles.
    pub(crate) fn sections(&self, choices: &Choices<T>) -> Sections {
        let Choices { plan, scheme, anchors: grid, .. } = choices;
        let mut sections = mask::sections(self.specials, self.dims);
        sections.push((SectionId::Predictors, scheme.predictors.iter().map(|predictor| predictor.code()).collect::<Vec<_>>().into()));
        sections.push((SectionId::Anchors, anchors::write(plan, &grid.steps).into()));
        sections
    }

    /// The chunk of these steps, of the sections before those of the tiles, and of these tiles; `worst` is the anchors' worst error.
    pub(crate) fn finish(&self, steps: Vec<u64>, mut sections: Sections, worst: f64, tiles: CodedTiles) -> CodedChunk {
        sections.push((SectionId::TileLengths, tiles.lengths.into()));
        sections.push((SectionId::Tiles, tiles.payload.into()));
        let levels = Levels { local: 0, global: 0 };
        let chunk = Chunk { kind: ChunkKind::Closed, levels, steps, sections, tile: Some(self.shape) };
        (chunk, worst.max(tiles.worst), tiles.escapes)
    }
}

impl<T: Value> Choices<T> {
    /// The bits of the steps, for the chunk's header.
    pub(crate) fn step_bits(&self) -> Vec<u64> {
        step_bits(&self.steps)
    }
}

/// As above.
pub(crate) fn step_bits<T: Value>(steps: &[T]) -> Vec<u64> {
    steps.iter().map(|step| step.to_bits_u64()).collect()
}

/// Codes a chunk.
pub(crate) fn code_chunk<T: Value>(task: &Task<'_, T>) -> CodedChunk {
    let choices = task.choose();
    let Choices { plan, scheme, anchors: grid, .. } = &choices;
    let strips = code_strips(plan, &task.source(), scheme, &grid.values, &grid.escaped);
    let payload: Vec<&[u8]> = strips.iter().map(|strip| &strip.bytes[..]).collect();
    let tiles = CodedTiles {
        lengths: strips.iter().flat_map(|strip| &strip.lengths).flat_map(|length| length.to_le_bytes()).collect(),
        payload: payload.concat(),
        worst: strips.iter().fold(0.0, |worst, strip| strip.worst.max(worst)),
        escapes: strips.iter().map(|strip| strip.escapes).sum(),
    };
    task.finish(choices.step_bits(), task.sections(&choices), choices.anchors.worst, tiles)
}

/// The coded tiles of a strip.
struct CodedStrip {
    lengths: Vec<u16>,
    bytes: Vec<u8>,
    worst: f64,
    escapes: u64,
}

fn code_strips<T: Value>(plan: &Plan, source: &Source<'_, T>, scheme: &Scheme<T>, anchors: &[T], escaped: &[usize]) -> Vec<CodedStrip> {
    let strips = plan.strips();
    let new_buffers = || (Encoder::default(), Coder::new());
    let coded = strips.par_iter().map_init(new_buffers, |(encoder, coder), strip| {
        encoder.run(plan, strip, source, scheme, anchors);
        code_tiles(plan, strip, encoder, coder, anchors, escaped)
    });
    coded.collect()
}

fn code_tiles<T: Value>(
    plan: &Plan,
    strip: &Strip,
    encoder: &mut Encoder<T>,
    coder: &mut Coder,
    anchors: &[T],
    escaped: &[usize],
) -> CodedStrip {
    let mut out = CodedStrip { lengths: Vec::with_capacity(strip.count), bytes: Vec::new(), worst: encoder.worst, escapes: 0 };
    let mut escapes = std::mem::take(&mut encoder.escapes);
    for (tile, escapes) in escapes.iter_mut().enumerate() {
        let [z, y, x] = strip.tile;
        let at = [z, y, x + tile];
        let index = plan.tile_index(at);
        if escaped.binary_search(&index).is_ok() {
            escapes.push((0, anchors[index]));
        }
        let places = encoder.places[tile * TILE_NODES..].first_chunk().expect("there are as many places as tiles");
        let bytes = coder.encode(plan, places, escapes);
        let raw = plan.tile_nodes(at) * size_of::<T>();
        if bytes.len() < raw {
            out.escapes += escapes.len() as u64;
            out.lengths.push(bytes.len() as u16);
            out.bytes.extend_from_slice(bytes);
        } else {
            out.lengths.push(raw as u16);
            out.bytes.extend_from_slice(bytemuck::cast_slice(&encoder.tile_values(plan, strip, tile)));
        }
    }
    encoder.escapes = escapes;
    out
}

/// Checks that a chunk's sections have the sizes that its shape asks for.
pub(crate) fn sizes_fit(shape: TileShape, dims: Dims, chunk: &ChunkHeader) -> bool {
    let tiles = (0..3).map(|axis| dims[axis].div_ceil(shape.side(axis) as u64)).product::<u64>();
    let classes = (0..shape.levels()).map(|level| (1..8).filter(|&class| shape.has_class(level, class)).count()).sum::<usize>();
    let size = |id| chunk.section(id).map_or(0, |section| section.len);
    chunk.steps.len() == shape.levels() + 1 && size(SectionId::Predictors) == classes as u64 && size(SectionId::TileLengths) == 2 * tiles
}

/// Tiles whose symbols are kept at a time, at least.
const TILES_AT_ONCE: usize = 2048;

/// A chunk's parts but for its anchors and tiles.
pub(crate) struct Parts<T> {
    pub(crate) scheme: Scheme<T>,
    /// The anchors' step.
    #[cfg(feature = "cuda")]
    pub(crate) anchor_step: T,
    pub(crate) specials: Option<Specials<T>>,
}

impl<T: Value> Parts<T> {
    /// From a chunk whose sections have the right sizes.
    pub(crate) fn read(plan: &Plan, dims: Dims, chunk: &Chunk<'_>) -> Result<Self> {
        let specials = mask::specials(dims, chunk)?;
        let predictors = predictors(plan, chunk)?;
        let steps = chunk.steps.iter().map(|&bits| steps::read(bits)).collect::<Result<Vec<T>>>()?;
        Ok(Self {
            scheme: Scheme::new(&steps, predictors),
            #[cfg(feature = "cuda")]
            anchor_step: steps[steps.len() - 1],
            specials,
        })
    }

    /// A chunk's anchors, as the tiles that do not store them exactly have them.
    fn anchors(&self, plan: &Plan, chunk: &Chunk<'_>) -> Result<Vec<T>> {
        let steps = anchors::read(plan, chunk.section(SectionId::Anchors));
        let steps = steps.ok_or_else(|| Error::Corrupt("the anchors are not as many as tiles".into()))?;
        Ok(steps.into_iter().map(|steps| self.scheme.anchors.reconstruct(steps)).collect())
    }
}

/// Decodes a chunk, whose sections have the right sizes, into `out`, its nodes in C order; special values are put in place.
pub(crate) fn decode_chunk<T: Value>(shape: TileShape, dims: Dims, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
    debug_assert_eq!(out.len() as u64, count(dims));
    let plan = Plan::new(dims, shape);
    let parts = Parts::<T>::read(&plan, dims, chunk)?;
    let mut anchors = parts.anchors(&plan, chunk)?;
    let Parts { scheme, specials, .. } = parts;
    let mask = specials.as_ref().map(|specials| &specials.mask);
    let tiles = cut_tiles(&plan, chunk)?;

    let layer = plan.tiles[1] * plan.tiles[2];
    let layers = TILES_AT_ONCE.div_ceil(layer);
    let strips = plan.strips();
    let mut symbols = Symbols { first: 0, places: Vec::new(), escapes: Vec::new() };
    let shared = Shared::new(out);
    for first in (0..plan.tiles[0]).step_by(layers) {
        // The far faces of the last layer belong to the next one, which is kept for the next round.
        let end = plan.tiles[0].min(first + layers);
        let known = plan.tiles[0].min(end + 1);
        decode_tiles(&plan, &tiles, first * layer..known * layer, &mut symbols)?;
        for (anchor, escapes) in anchors[symbols.first..].iter_mut().zip(&symbols.escapes) {
            if let Some(&(0, value)) = escapes.first() {
                *anchor = value;
            }
        }
        let strips = strips.iter().filter(|strip| (first..end).contains(&strip.tile[0])).collect::<Vec<_>>();
        let coded = Coded { scheme: &scheme, anchors: &anchors, symbols: &symbols, mask };
        strips.par_iter().for_each_init(Decoder::default, |decoder, strip| {
            decoder.run(&plan, strip, coded, &shared);
        });
    }
    if let Some(specials) = specials {
        specials.restore(out);
    }
    Ok(())
}

/// The predictors of a chunk's classes.
pub(crate) fn predictors(plan: &Plan, chunk: &Chunk<'_>) -> Result<Vec<Predictor>> {
    let codes = chunk.section(SectionId::Predictors).iter().zip(&plan.classes);
    let predictors = codes.map(|(&code, class)| Predictor::from_code(code, class.axes)).collect::<Option<Vec<_>>>();
    predictors.ok_or_else(|| Error::Corrupt("a class has no such predictor".into()))
}

/// The bytes of each tile.
fn cut_tiles<'a>(plan: &Plan, chunk: &'a Chunk<'_>) -> Result<Vec<&'a [u8]>> {
    let mut rest = chunk.section(SectionId::Tiles);
    let lengths = chunk.section(SectionId::TileLengths).chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let mut tiles = Vec::with_capacity(plan.tile_count());
    for length in lengths {
        let (tile, after) =
            rest.split_at_checked(length.into()).ok_or_else(|| Error::Corrupt("tiles are longer than their bytes".into()))?;
        tiles.push(tile);
        rest = after;
    }
    if rest.is_empty() { Ok(tiles) } else { Err(Error::Corrupt("bytes follow the last tile".into())) }
}

/// Decodes the tiles of a range, which starts with those that are there already or goes beyond them.
fn decode_tiles<T: Value>(plan: &Plan, tiles: &[&[u8]], range: std::ops::Range<usize>, symbols: &mut Symbols<T>) -> Result<()> {
    let kept = (symbols.first + symbols.places.len()).saturating_sub(range.start);
    let dropped = symbols.places.len() - kept;
    symbols.places.drain(..dropped);
    symbols.escapes.drain(..dropped);
    symbols.first = range.start;
    let memory =
        |()| Error::InvalidShape { shape: format!("{:?}", plan.dims), reason: "there is not enough memory for its symbols".into() };
    if kept == 0 {
        // Memory that is zero already.
        symbols.places = bytemuck::allocation::try_zeroed_vec(range.len()).map_err(memory)?;
    } else {
        symbols.places.try_reserve_exact(range.len() - kept).map_err(|_| memory(()))?;
        symbols.places.resize(range.len(), [0; TILE_NODES]);
    }
    symbols.escapes.resize_with(range.len(), Vec::new);
    let places = symbols.places[kept..].par_iter_mut().zip(&mut symbols.escapes[kept..]);
    places.zip(range.start + kept..range.end).try_for_each(|((places, escapes), index)| {
        decode_tile(plan, index, tiles[index], places, escapes).ok_or_else(|| Error::Corrupt(format!("tile {index} is not one")))
    })
}

fn decode_tile<T: Value>(
    plan: &Plan,
    index: usize,
    bytes: &[u8],
    places: &mut [i32; TILE_NODES],
    escapes: &mut Vec<(u16, T)>,
) -> Option<()> {
    let tile = plan.tile_at(index);
    let (_, [nz, ny, nx]) = plan.tile_box(tile);
    if bytes.is_empty() {
        return Some(());
    }
    if bytes.len() > nz * ny * nx * size_of::<T>() {
        return None;
    }
    let side = |axis: usize| plan.shape.side(axis);
    if bytes.len() < nz * ny * nx * size_of::<T>() {
        tile::decode(plan, bytes, places, escapes)?;
        // Nodes beyond the field do not exist.
        let exists = |node: usize| node / (side(1) * side(2)) < nz && node / side(2) % side(1) < ny && node % side(2) < nx;
        return escapes.iter().all(|&(node, _)| exists(node.into())).then_some(());
    }
    let nodes = (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| (z * side(1) + y) * side(2) + x)));
    for (node, value) in nodes.zip(bytes.chunks_exact(size_of::<T>())) {
        escapes.push((node as u16, bytemuck::pod_read_unaligned(value)));
        places[usize::from(plan.place_of[node])] = tile::ESCAPED;
    }
    Some(())
}

/// What there is to say of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Values stored exactly, those of raw tiles left out.
    pub(crate) escapes: u64,
    /// NaN, infinities and fill values.
    pub(crate) masked: u64,
    /// Tiles whose symbols are all 0.
    pub(crate) zero: u64,
    /// Tiles stored as they are.
    pub(crate) raw: u64,
    pub(crate) classes: Vec<ClassInfo>,
}

/// Looks through a chunk's tiles.
pub(crate) fn survey(shape: TileShape, dims: Dims, dtype: DType, chunk: &Chunk<'_>) -> Result<Survey> {
    match dtype {
        DType::F32 => survey_as::<f32>(shape, dims, chunk),
        DType::F64 => survey_as::<f64>(shape, dims, chunk),
    }
}

fn survey_as<T: Value>(shape: TileShape, dims: Dims, chunk: &Chunk<'_>) -> Result<Survey> {
    let plan = Plan::new(dims, shape);
    let classes = plan.classes.iter().zip(predictors(&plan, chunk)?).map(|(class, predictor)| ClassInfo {
        spacing: 1 << class.level,
        axes: ["z", "y", "x"].iter().enumerate().filter(|(axis, _)| class.axes >> axis & 1 == 1).map(|(_, name)| *name).collect(),
        predictor: match predictor {
            Predictor::Axis(kind, axis) => format!("{} {}", if kind == Kind::Linear { "linear" } else { "cubic" }, ["z", "y", "x"][axis]),
            Predictor::Mean => "mean of cubics".into(),
            Predictor::Coons => "coons".into(),
        },
    });
    let mut survey = Survey { classes: classes.collect(), ..Survey::default() };
    if !chunk.section(SectionId::MaskFlags).is_empty() {
        survey.masked = mask::flags(dims, chunk)?.count();
    }
    let (mut places, mut escapes) = ([0; TILE_NODES], Vec::<(u16, T)>::new());
    for (index, bytes) in cut_tiles(&plan, chunk)?.into_iter().enumerate() {
        escapes.clear();
        let raw = bytes.len() == plan.tile_nodes(plan.tile_at(index)) * size_of::<T>();
        survey.zero += u64::from(bytes.is_empty());
        survey.raw += u64::from(raw);
        if !raw {
            decode_tile(&plan, index, bytes, &mut places, &mut escapes)
                .ok_or_else(|| Error::Corrupt(format!("tile {index} is not one")))?;
            survey.escapes += escapes.len() as u64;
        }
    }
    Ok(survey)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waves with noise, spikes that are escaped, and holes.
    fn field<T: Value>(dims: Dims) -> Vec<T> {
        (0..count(dims))
            .map(|i| {
                let noise = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / f64::from(1 << 24);
                let [z, y, x] = [i / (dims[1] * dims[2]), i / dims[2] % dims[1], i % dims[2]].map(|index| index as f64 * 0.11);
                T::from_f64(match i % 911 {
                    5 => f64::NAN,
                    7 => 1e30 * noise,
                    _ => (z + 0.5 * y).sin() + (x - y).cos() + 1e-3 * noise,
                })
            })
            .collect()
    }

    /// Decodes each tile alone, from the anchors and its own and its neighbours' symbols, and compares with the whole.
    fn each_tile_decodes_alone<T: Value>(shape: TileShape, dims: Dims) {
        let values = field::<T>(dims);
        let specials = Specials::find(&values, None);
        let forbidden = T::from_f64(f64::NAN);
        let (chunk, ..) = code_chunk(&Task { shape, dims, values: &values, specials: specials.as_ref(), bound: 1e-3, forbidden });
        let mut whole = vec![T::ZERO; values.len()];
        decode_chunk(shape, dims, &chunk, &mut whole).unwrap();

        let plan = Plan::new(dims, shape);
        let mask = specials.as_ref().map(|specials| &specials.mask);
        let steps: Vec<T> = chunk.steps.iter().map(|&bits| T::from_bits_u64(bits)).collect();
        let scheme = Scheme::new(&steps, predictors(&plan, &chunk).unwrap());
        let anchors = anchors::read(&plan, chunk.section(SectionId::Anchors)).unwrap();
        let anchors: Vec<T> = anchors.into_iter().map(|steps| scheme.anchors.reconstruct(steps)).collect();
        let tiles = cut_tiles(&plan, &chunk).unwrap();
        for strip in plan.strips_of(1) {
            // All others are unknown: their symbols would show.
            let mut symbols = Symbols { first: 0, places: vec![[12_345; TILE_NODES]; tiles.len()], escapes: vec![Vec::new(); tiles.len()] };
            let mut anchors_here = vec![T::from_f64(777.0); anchors.len()];
            for near in 0..8 {
                let tile = [0, 1, 2].map(|axis| strip.tile[axis] + (near >> axis & 1));
                if (0..3).all(|axis| tile[axis] < plan.tiles[axis]) {
                    let index = plan.tile_index(tile);
                    symbols.places[index] = [0; TILE_NODES];
                    symbols.escapes[index].clear();
                    decode_tile(&plan, index, tiles[index], &mut symbols.places[index], &mut symbols.escapes[index]).unwrap();
                    anchors_here[index] = symbols.escapes[index].first().filter(|(node, _)| *node == 0).map_or(anchors[index], |e| e.1);
                }
            }
            let mut alone = vec![T::ZERO; values.len()];
            let coded = Coded { scheme: &scheme, anchors: &anchors_here, symbols: &symbols, mask };
            Decoder::default().run(&plan, &strip, coded, &Shared::new(&mut alone));
            let (low, size) = plan.tile_box(strip.tile);
            for (z, y) in (0..size[0]).flat_map(|z| (0..size[1]).map(move |y| (z, y))) {
                let at = ((low[0] + z) * plan.dims[1] + low[1] + y) * plan.dims[2] + low[2];
                for position in at..at + size[2] {
                    let special = mask.is_some_and(|mask| mask.get(position));
                    assert!(special || alone[position].bits() == whole[position].bits(), "{shape:?} {dims:?} {position}");
                }
            }
        }
    }

    #[test]
    fn a_tile_decoded_alone_has_the_bits_of_the_whole() {
        for (shape, dims) in TileShape::ALL.into_iter().zip([
            [[33, 20, 70], [16, 48, 47], [1, 35, 34]],
            [[9, 33, 70], [5, 64, 65], [1, 70, 40]],
            [[33, 9, 70], [64, 5, 65], [40, 3, 33]],
            [[33, 70, 9], [64, 65, 5], [33, 40, 3]],
            [[1, 130, 129], [3, 65, 64], [1, 64, 65]],
            [[1, 1, 9000], [1, 3, 4097], [1, 1, 17]],
        ]) {
            for dims in dims {
                each_tile_decodes_alone::<f32>(shape, dims);
                each_tile_decodes_alone::<f64>(shape, dims);
            }
        }
    }
}
