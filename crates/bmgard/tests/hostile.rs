//! Archives that were damaged, or made to do harm. The library promises:
//!
//! * Every truncation, every byte appended and every change of a single byte is an error: checksums cover all bytes.
//! * Checksums can be made to fit. Whatever the bytes, reading them ends in an error or in values of the shape that the archive claims,
//!   never in a panic, and in a time that follows from the lengths of the archive and of these values.
//! * No number in an archive is trusted for an allocation. Before there is memory for values, every chunk is known to have the bytes
//!   that so many values need. A constant chunk needs none: where the memory for what it claims cannot be had, that is an error, and
//!   `inspect` says beforehand how much it is.
//! * Parts that contradict each other are an error. (Parts that agree but decode to other values cannot be told from a good archive.)
//!
//! An allocator that has no block above 64 MiB to give stands guard over all tests here.

mod support;

use bmgard::{BackendChoice, Compressor, Config, Error, ErrorBound, Mode, Result, Shape, Value, decompress, decompress_into, inspect};
use support::bits;
use support::cases::paper;
use support::fields::{Field, Number, random};
use support::format::{
    ANCHORS, CODEBOOKS, CONSTANT, LENGTHS, MASK, MASK_FLAGS, MASK_VALUES, PACKED_ANCHORS, PACKED_LENGTHS, PACKED_TILES, PATCH_COUNTS,
    PATCH_OFFSETS, PATCH_VALUES, PAYLOAD, PREDICTORS, Parts, RAW, SIGNATURE, Section, TILE_LENGTHS, TILES, repair,
};

/// A good archive, and what it decodes to.
struct Sample {
    name: &'static str,
    archive: Vec<u8>,
    decoded: Vec<u64>,
}

impl Sample {
    fn new<T: Value>(name: &'static str, shape: &[u64], field: &Field, config: Config) -> Self {
        let values = field.values::<T>(shape, 3);
        let archive = Compressor::new(config).unwrap().compress_slice(&values, &Shape::new(shape).unwrap()).unwrap();
        let decoded = bits(&decompress::<T>(&archive).unwrap().into_raw_vec_and_offset().0);
        Self { name, archive, decoded }
    }

    /// The archive with something changed and its checksums right.
    fn with(&self, change: impl FnOnce(&mut Parts)) -> Vec<u8> {
        let mut parts = Parts::parse(&self.archive);
        change(&mut parts);
        parts.seal()
    }

    /// Asserts that a change, with right checksums, is found to be one.
    fn refuses(&self, what: &str, change: impl FnOnce(&mut Parts)) {
        let error = decode(&self.with(change)).map(|_| ());
        assert!(matches!(error, Err(Error::Corrupt(_))), "{}: {what}: {error:?}", self.name);
    }
}

fn waves_f32() -> Sample {
    Sample::new::<f32>("coded f32", &[12, 11, 10], &Field::Waves, paper(ErrorBound::Absolute(1e-2)))
}

fn patched_f64() -> Sample {
    let field = Field::Planted(Box::new(Field::Continents(Number::Of(-9999.0))), vec![(40, Number::Of(1e30)), (700, Number::Of(1e30))]);
    let config = Config { fill: Some(-9999.0), ..paper(ErrorBound::Absolute(1e-2)) };
    let sample = Sample::new::<f64>("coded f64 with fill and patches", &[9, 11, 10], &field, config);
    let chunk = &Parts::parse(&sample.archive).chunks[0];
    assert!([MASK, MASK_VALUES, PATCH_COUNTS, PATCH_OFFSETS, PATCH_VALUES].iter().all(|&id| chunk.has(id)));
    sample
}

fn line_f32() -> Sample {
    Sample::new::<f32>("coded f32, 1-D", &[9001], &Field::Rough(0.1), paper(ErrorBound::Absolute(0.2)))
}

fn raw_f32() -> Sample {
    Sample::new::<f32>("raw f32", &[5, 12], &Field::RandomBits, paper(ErrorBound::Absolute(1e-2)))
}

fn constant_f64() -> Sample {
    let field = Field::Cycle(vec![Number::Of(3.0), Number::Nan, Number::Of(3.0), Number::Of(1e20)]);
    let config = Config { fill: Some(1e20), ..paper(ErrorBound::RelativeToRange(1e-2)) };
    Sample::new::<f64>("constant f64 with fill and NaN", &[3, 20], &field, config)
}

fn chunks_f32() -> Sample {
    let field = Field::Slabs(vec![Field::Waves, Field::RandomBits, Field::Constant(Number::Of(1.0))]);
    let config = Config { max_chunk_bytes: 4096, ..paper(ErrorBound::Absolute(0.1)) };
    let sample = Sample::new::<f32>("coded, raw and constant chunks", &[20, 12, 9], &field, config);
    let mut kinds: Vec<u8> = Parts::parse(&sample.archive).chunks.iter().map(|chunk| chunk.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, [1, 2, 3]);
    sample
}

fn tiles_f32() -> Sample {
    let config = Config { mode: Mode::Fast, ..paper(ErrorBound::Absolute(1e-2)) };
    Sample::new::<f32>("closed tiles f32", &[18, 11, 17], &Field::Rough(0.1), config)
}

fn tiles_f64() -> Sample {
    let planted = vec![(0, Number::Of(1e30)), (37, Number::Of(-1e30)), (200, Number::Nan)];
    let patched = Field::Planted(Box::new(Field::Continents(Number::Of(-9999.0))), planted);
    let field = Field::Slabs(vec![patched, Field::AnyScale]);
    let tile = Some("4x32x32".parse().unwrap());
    let config = Config { mode: Mode::Fast, tile, fill: Some(-9999.0), ..paper(ErrorBound::Absolute(1e-2)) };
    let sample = Sample::new::<f64>("closed tiles f64 with fill, escapes and a raw tile", &[9, 9, 10], &field, config);
    let chunk = &inspect(&sample.archive).unwrap().chunks[0];
    assert!(chunk.masked_values > 0 && chunk.patched_values > 1 && chunk.raw_tiles == 1, "{chunk:?}");
    sample
}

fn tiles_line_f32() -> Sample {
    let config = Config { mode: Mode::Fast, ..paper(ErrorBound::Absolute(0.05)) };
    Sample::new::<f32>("closed tiles f32, 1-D", &[9001], &Field::Rough(0.1), config)
}

fn packed_f32() -> Sample {
    let config = Config { mode: Mode::Turbo, ..paper(ErrorBound::Absolute(1e-2)) };
    Sample::new::<f32>("packed tiles f32", &[9, 11, 37], &Field::Rough(0.1), config)
}

fn packed_f64() -> Sample {
    let planted = vec![(0, Number::Of(1e30)), (37, Number::Of(-1e30)), (200, Number::Nan)];
    let patched = Field::Planted(Box::new(Field::Continents(Number::Of(-9999.0))), planted);
    let field = Field::Slabs(vec![patched, Field::AnyScale]);
    let config = Config { mode: Mode::Turbo, fill: Some(-9999.0), ..paper(ErrorBound::Absolute(1e-2)) };
    let sample = Sample::new::<f64>("packed tiles f64 with fill, escapes and raw tiles", &[9, 9, 10], &field, config);
    let chunk = &inspect(&sample.archive).unwrap().chunks[0];
    assert!(chunk.masked_values > 0 && chunk.patched_values > 0 && chunk.raw_tiles > 0, "{chunk:?}");
    sample
}

fn packed_line_f32() -> Sample {
    let config = Config { mode: Mode::Turbo, ..paper(ErrorBound::Absolute(0.05)) };
    Sample::new::<f32>("packed tiles f32, 1-D", &[9001], &Field::Rough(0.1), config)
}

fn samples() -> [Sample; 12] {
    let coded = [waves_f32(), patched_f64(), line_f32(), raw_f32(), constant_f64(), chunks_f32()];
    let tiles = [tiles_f32(), tiles_f64(), tiles_line_f32(), packed_f32(), packed_f64(), packed_line_f32()];
    let mut all = coded.into_iter().chain(tiles);
    std::array::from_fn(|_| all.next().expect("there are twelve"))
}

/// Opens an archive in every way; the decoded bits.
fn decode(archive: &[u8]) -> Result<Vec<u64>> {
    fn decode_as<T: Value>(archive: &[u8]) -> Result<Vec<u64>> {
        let decoded = decompress::<T>(archive)?.into_raw_vec_and_offset().0;
        let mut again = vec![T::ZERO; decoded.len()];
        decompress_into(archive, &mut again, BackendChoice::Cpu, &mut |_| {}).unwrap();
        // Which NaN a damaged step makes of a value is the processor's choice.
        let same = |(x, y): (&T, &T)| x.bits() == y.bits() || (x.to_f64().is_nan() && y.to_f64().is_nan());
        assert!(decoded.iter().zip(&again).all(same), "the two ways to decode differ");
        Ok(bits(&decoded))
    }
    let info = inspect(archive);
    let decoded = match decode_as::<f32>(archive) {
        Err(Error::WrongType { .. }) => decode_as::<f64>(archive),
        decoded => decoded,
    };
    if let Ok(decoded) = &decoded {
        let shape = info.unwrap().shape;
        assert_eq!(shape.iter().product::<u64>(), decoded.len() as u64);
    }
    decoded
}

#[test]
fn the_format_is_as_documented() {
    for sample in samples() {
        let parts = Parts::parse(&sample.archive);
        assert!(parts.seal() == sample.archive, "{}", sample.name);
        assert_eq!((parts.version, parts.trailing.len()), (1, 0));
        assert_eq!(decode(&sample.archive).unwrap(), sample.decoded, "{}", sample.name);
        let mut repaired = sample.archive.clone();
        repair(&mut repaired);
        assert!(repaired == sample.archive, "{}", sample.name);
    }
}

#[test]
fn every_truncation_is_an_error() {
    for sample in samples() {
        for length in 0..sample.archive.len() {
            let cut = &sample.archive[..length];
            assert!(inspect(cut).is_err() && decode(cut).is_err(), "{}: the first {length} bytes", sample.name);
            // An error, too, when the checksums were made to fit what is left.
            let mut repaired = cut.to_vec();
            repair(&mut repaired);
            assert!(inspect(&repaired).is_err() && decode(&repaired).is_err(), "{}: the first {length} bytes, repaired", sample.name);
        }
    }
}

#[test]
fn every_byte_appended_is_an_error() {
    for sample in samples() {
        for byte in [0, 1, 0xFF] {
            let archive = [&sample.archive[..], &[byte]].concat();
            assert!(matches!(decode(&archive), Err(Error::Corrupt(_))), "{}", sample.name);
        }
        let twice = [&sample.archive[..], &sample.archive].concat();
        assert!(matches!(decode(&twice), Err(Error::Corrupt(_))), "{}", sample.name);
    }
}

#[test]
fn every_change_of_a_byte_is_an_error() {
    for sample in samples() {
        for position in 0..sample.archive.len() {
            for mask in [0x01, 0x80, 0xFF] {
                let mut changed = sample.archive.clone();
                changed[position] ^= mask;
                assert!(inspect(&changed).is_err() && decode(&changed).is_err(), "{}: byte {position} ^ {mask:#x}", sample.name);
            }
        }
    }
}

/// How many archives were read without an error.
fn read_without_error(archives: impl Iterator<Item = Vec<u8>>) -> usize {
    archives.filter(|archive| decode(archive).is_ok()).count()
}

#[test]
fn no_change_of_a_byte_with_repaired_checksums_panics() {
    for sample in samples() {
        // Every byte of the headers, and some of long payloads.
        let step = 1 + sample.archive.len() / 700;
        let positions = (0..sample.archive.len()).filter(|&position| position < 500 || position % step == 0);
        let changes = positions.flat_map(|position| [0x01, 0x10, 0xFF].map(|mask| (position, mask)));
        let read = read_without_error(changes.map(|(position, mask)| {
            let mut changed = sample.archive.clone();
            changed[position] ^= mask;
            repair(&mut changed);
            changed
        }));
        // The checksums were repaired indeed.
        assert!(read > 20, "{}: only {read}", sample.name);
    }
}

#[test]
fn no_set_of_changes_with_repaired_checksums_panics() {
    for sample in samples() {
        let read = read_without_error((0..1000).map(|round| {
            let mut changed = sample.archive.clone();
            for change in 0..1 + round % 4 {
                let word = random(round, change);
                let position = (word >> 32) as usize % changed.len();
                let length = 1 + (word >> 16) as usize % 5;
                for (offset, byte) in changed[position..].iter_mut().take(length).enumerate() {
                    *byte = match word & 3 {
                        0 => 0xFF,
                        1 => 0,
                        _ => random(word, offset as u64) as u8,
                    };
                }
            }
            repair(&mut changed);
            changed
        }));
        assert!(read > 5, "{}: only {read}", sample.name);
    }
}

#[test]
fn garbage_is_an_error() {
    assert!(matches!(decode(&[]), Err(Error::NotAnArchive(_))));
    assert!(matches!(decode(b"CDF\x01 and so on"), Err(Error::NotAnArchive(_))));
    assert!(matches!(decode(&SIGNATURE), Err(Error::NotAnArchive(_))));
    for round in 0..2000 {
        let garbage: Vec<u8> = (0..random(1, round) % 300).map(|i| random(round, i) as u8).collect();
        assert!(decode(&garbage).is_err());
        assert!(decode(&[&SIGNATURE[..], &garbage].concat()).is_err());
        // A body of garbage with a right length and checksum.
        let mut sealed = [&SIGNATURE[..], &[1, 0, 0, 0], &(garbage.len() as u32).to_le_bytes(), &garbage].concat();
        sealed.extend(crc32fast::hash(&sealed).to_le_bytes());
        assert!(decode(&sealed).is_err());
        // A good header before garbage.
        let header = waves_header();
        assert!(decode(&[header, &garbage].concat()).is_err());
    }
}

/// The header of an archive of one chunk.
fn waves_header() -> &'static [u8] {
    static ARCHIVE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| waves_f32().archive);
    &ARCHIVE[..16 + 4 + ARCHIVE[12] as usize]
}

#[test]
fn other_versions_are_named() {
    for version in [0, 2, 3, 0x100, 0xFFFF] {
        let archive = waves_f32().with(|parts| parts.version = version);
        for result in [decode(&archive).map(|_| ()), inspect(&archive).map(|_| ())] {
            match result {
                Err(Error::UnsupportedVersion { found, supported: 1 }) => assert_eq!(found, version),
                other => panic!("version {version}: {other:?}"),
            }
        }
    }
    // What follows is another version's business.
    let archive = [&SIGNATURE[..], &[2, 0], &[0xAB; 100]].concat();
    assert!(matches!(decode(&archive), Err(Error::UnsupportedVersion { found: 2, supported: 1 })));
}

#[test]
fn header_fields_that_mean_nothing_are_refused() {
    for sample in samples() {
        for code in [0, 3, 255] {
            sample.refuses("type", |parts| parts.dtype = code);
        }
        for code in [0, 4, 255] {
            sample.refuses("kind of bound", |parts| parts.bound_kind = code);
            sample.refuses("error budget", |parts| parts.budget = if parts.budget == code { 1 } else { code });
        }
        for code in [0, 2, 255] {
            sample.refuses("basis", |parts| parts.basis = if parts.basis == code { 1 } else { code });
            sample.refuses("coder", |parts| parts.coder = if parts.coder == code { 1 } else { code });
        }
        sample.refuses("flags", |parts| parts.flags |= 2);
        sample.refuses("flags", |parts| parts.flags |= 0x80);
        sample.refuses("zero", |parts| parts.zero = 1);
        sample.refuses("reserved", |parts| parts.reserved = 1);
        sample.refuses("reserved of the table", |parts| parts.chunks[0].table_reserved = 1);
        sample.refuses("tail", |parts| parts.tail[5] = 1);
        for sides in [[1, 1, 1], [0, 0, 11], [3, 4, 5], [255, 255, 255]] {
            sample.refuses("tile", |parts| parts.tail[..3].copy_from_slice(&sides));
        }
        sample.refuses("a longer body", |parts| parts.tail.push(0));
        sample.refuses("a shorter body", |parts| parts.tail.truncate(5));
        for value in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
            sample.refuses("bound asked for", |parts| parts.bound = value.to_bits());
        }
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            sample.refuses("bound", |parts| parts.abs_bound = value.to_bits());
        }
    }
}

#[test]
fn shapes_that_are_none_are_refused() {
    for sample in samples() {
        for dims in [&[][..], &[0], &[5, 0], &[1, 1, 1, 1, 1], &[1 << 60, 2], &[1 << 32, 1 << 32, 1 << 32], &[u64::MAX], &[1 << 63; 4]] {
            sample.refuses("dimensions", |parts| parts.dims = dims.to_vec());
        }
        for claimed in [0, 1, 4, 5, 255] {
            sample.refuses("number of dimensions", |parts| {
                parts.claimed_dims = Some(if parts.dims.len() == usize::from(claimed) { 3 } else { claimed });
            });
        }
        for axis in 0..3 {
            sample.refuses("no chunk", |parts| parts.chunk_dims[axis] = 0);
            sample.refuses("a chunk beyond the field", |parts| parts.chunk_dims[axis] = parts.effective()[axis] + 1);
            sample.refuses("a chunk beyond everything", |parts| parts.chunk_dims[axis] = u64::MAX);
        }
    }
}

/// Sizes that no machine has. They must be refused before memory is asked for: that is why the error is not one of memory.
#[test]
fn claims_of_huge_fields_are_refused_before_memory_is_asked_for() {
    const TERA: u64 = 1 << 40;
    let all = [waves_f32(), patched_f64(), line_f32(), raw_f32(), chunks_f32(), tiles_f32(), tiles_f64(), tiles_line_f32()];
    for sample in all {
        for dims in [&[TERA][..], &[1 << 60], &[1 << 20, 1 << 20], &[1 << 20, 1 << 20, 1 << 20], &[2, 2, 1 << 58], &[1 << 58, 2, 2]] {
            sample.refuses("one chunk", |parts| parts.reshape(dims));
            sample.refuses("one chunk, and one in the table", |parts| {
                parts.reshape(dims);
                parts.chunks.truncate(1);
            });
            // As many chunks as there are, but huge ones.
            sample.refuses("few chunks", |parts| {
                let count = parts.chunks.len() as u64;
                parts.reshape(dims);
                let longest = (0..3).max_by_key(|&axis| parts.chunk_dims[axis]).unwrap();
                parts.chunk_dims[longest] = parts.chunk_dims[longest].div_ceil(count);
            });
            sample.refuses("2^40 chunks and more", |parts| {
                parts.reshape(dims);
                parts.chunk_dims = parts.chunk_dims.map(|n| n.min(1 << 6).div_ceil(1 << 6));
            });
        }
        // 64 GiB and less may be in reach, but not of so few bytes.
        for len in [100_000_000, 1 << 30, 1 << 34] {
            sample.refuses("a large chunk", |parts| {
                parts.reshape(&[len]);
                parts.chunks.truncate(1);
            });
        }
    }
}

/// A constant field needs few bytes whatever its size, so its claim may be true; only the memory can be lacking.
#[test]
fn memory_that_cannot_be_had_is_an_error() {
    for dims in [&[1 << 40][..], &[1 << 60], &[1 << 20, 1 << 20, 1 << 20], &[100_000_000]] {
        let archive = constant_f64().with(|parts| {
            parts.reshape(dims);
            parts.chunks[0].sections.retain(|section| section.id == CONSTANT);
        });
        let error = decode(&archive).map(|values| values.len());
        assert!(matches!(error, Err(Error::InvalidShape { .. })), "{dims:?}: {error:?}");
        assert_eq!(inspect(&archive).unwrap().original_bytes, dims.iter().product::<u64>() * 8);
    }
}

#[test]
fn lengths_and_counts_that_lie_are_refused() {
    for sample in samples() {
        let count = Parts::parse(&sample.archive).chunks.len();
        for index in [0, count - 1] {
            let length = |parts: &Parts| parts.seal().len() as u64;
            for lie in [0, 1, 7, u64::from(u32::MAX), 1 << 40, 1 << 63, u64::MAX - 7, u64::MAX] {
                sample.refuses("length of a chunk", |parts| parts.chunks[index].claimed_length = Some(lie));
                for section in 0..Parts::parse(&sample.archive).chunks[index].sections.len() {
                    let is_true = |parts: &Parts| parts.chunks[index].sections[section].bytes.len() as u64 == lie;
                    sample.refuses("length of a section", |parts| {
                        let lie = if is_true(parts) { lie + 1 } else { lie };
                        parts.chunks[index].sections[section].claimed_length = Some(lie);
                    });
                }
            }
            sample.refuses("length of the archive as a chunk's", |parts| parts.chunks[index].claimed_length = Some(length(parts)));
            for lie in [0, 100, 1 << 28, u32::MAX] {
                sample.refuses("number of sections", |parts| parts.chunks[index].claimed_sections = Some(lie));
            }
            // One step is what packed tiles have.
            let steps = Parts::parse(&sample.archive).chunks[index].steps.len();
            for lie in [1, 200, 255].into_iter().filter(|&lie| usize::from(lie) != steps) {
                sample.refuses("number of steps", |parts| parts.chunks[index].claimed_steps = Some(lie));
            }
            sample.refuses("bytes after the sections", |parts| parts.chunks[index].trailing = vec![0; 3]);
        }
        sample.refuses("no chunk at all", |parts| parts.chunks.clear());
        sample.refuses("a chunk too many", |parts| parts.chunks.push(parts.chunks[0].clone()));
        sample.refuses("bytes after the chunks", |parts| parts.trailing = vec![0; 40]);
    }
}

#[test]
fn chunks_that_contradict_their_kind_are_refused() {
    for sample in samples() {
        for kind in [0, 4, 255] {
            sample.refuses("an unknown kind", |parts| parts.chunks[0].kind = if parts.chunks[0].kind == kind { 5 } else { kind });
        }
        for other in [1, 2] {
            sample.refuses("another kind", |parts| parts.chunks[0].kind = (parts.chunks[0].kind - 1 + other) % 3 + 1);
        }
        for id in [0, 9, 0xFF, 0x300, u32::MAX] {
            sample.refuses("an unknown section", |parts| parts.chunks[0].sections[0].id = id);
        }
        sample.refuses("a section twice", |parts| {
            let sections = &mut parts.chunks[0].sections;
            sections.insert(0, sections[0].clone());
        });
        sample.refuses("sections out of order", |parts| {
            let extra = Section { id: 0x2FF, claimed_length: None, bytes: vec![1] };
            parts.chunks[0].sections.insert(0, extra);
        });
        sample.refuses("a section of another kind of chunk", |parts| {
            let foreign = if parts.chunks[0].kind == 3 { RAW } else { CONSTANT };
            let at = parts.chunks[0].sections.partition_point(|section| section.id < foreign);
            parts.chunks[0].sections.insert(at, Section { id: foreign, claimed_length: None, bytes: vec![0; 8] });
        });
        sample.refuses("a section of a level that the chunk does not have", |parts| {
            parts.chunks[0].sections.push(Section { id: 0x2FF, claimed_length: None, bytes: vec![0; 8] });
        });
        sample.refuses("no sections", |parts| parts.chunks[0].sections.clear());
        for section in 0..Parts::parse(&sample.archive).chunks[0].sections.len() {
            let bytes = |parts: &Parts| parts.chunks[0].sections[section].bytes.clone();
            if bytes(&Parts::parse(&sample.archive)).is_empty() {
                continue;
            }
            sample.refuses("a section is missing", |parts| {
                parts.chunks[0].sections.remove(section);
            });
            sample.refuses("a section is empty", |parts| parts.chunks[0].sections[section].bytes.clear());
            sample.refuses("a section lacks its last byte", |parts| {
                parts.chunks[0].sections[section].bytes.pop();
            });
            // A mask may spell out its last run.
            if Parts::parse(&sample.archive).chunks[0].sections[section].id != MASK {
                sample.refuses("a section has a byte more", |parts| parts.chunks[0].sections[section].bytes.push(1));
            }
        }
    }
    for sample in [waves_f32(), patched_f64(), line_f32()] {
        for (local, global) in [(0, 0), (255, 0), (0, 255), (255, 255), (32, 60), (2, 2), (0, 3)] {
            sample.refuses("levels without their steps", |parts| (parts.chunks[0].local, parts.chunks[0].global) = (local, global));
            sample.refuses("other levels", |parts| {
                (parts.chunks[0].local, parts.chunks[0].global) = (local, global);
                parts.chunks[0].steps.resize((usize::from(local) + usize::from(global) + 1).min(255), 0);
            });
        }
    }
    for sample in [raw_f32(), constant_f64()] {
        sample.refuses("levels", |parts| parts.chunks[0].local = 1);
        sample.refuses("levels", |parts| parts.chunks[0].global = 255);
        sample.refuses("steps", |parts| parts.chunks[0].steps.push(0));
    }
}

#[test]
fn special_values_that_contradict_their_mask_are_refused() {
    for sample in [patched_f64(), constant_f64()] {
        let refuses = |what: &str, id: u32, bytes: &[u8]| sample.refuses(what, |parts| *parts.chunks[0].section(id) = bytes.to_vec());
        let overlong = [0xFF; 9];
        refuses("an endless varint", MASK, &[0xFF; 40]);
        refuses("a run of 2^64", MASK, &[&overlong[..], &[0x02]].concat());
        refuses("a run of 2^64 - 1", MASK, &[&overlong[..], &[0x01]].concat());
        refuses("two runs of 2^63", MASK, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01].repeat(2));
        refuses("a run beyond the chunk", MASK, &[5, 0xFF, 0xFF, 0x7F]);
        refuses("all values", MASK, &[0]);
        refuses("no values", MASK, &[0, 0]);
        refuses("many empty runs", MASK, &[0; 100_001]);
        refuses("a value for no run", MASK_VALUES, &[0; 9]);
        refuses("a value for too long a run", MASK_VALUES, &[&[0xFF, 0xFF, 0x7F][..], &[0; 8]].concat());
        refuses("a value for a run of 2^64 - 1", MASK_VALUES, &[&overlong[..], &[0x01], &[0; 8]].concat());
        refuses("half a value", MASK_VALUES, &[1, 0, 0, 0, 0]);
    }
}

#[test]
fn patches_that_contradict_each_other_are_refused() {
    let sample = patched_f64();
    let parts = Parts::parse(&sample.archive);
    let (counts, offsets) = (parts.clone().chunks[0].section(PATCH_COUNTS).clone(), parts.clone().chunks[0].section(PATCH_OFFSETS).clone());
    let patches = counts[0];
    assert!(patches >= 2 && offsets.len() == 2 * usize::from(patches));
    let refuses = |what: &str, id: u32, bytes: &[u8]| sample.refuses(what, |parts| *parts.chunks[0].section(id) = bytes.to_vec());
    for lie in [0, 1, u32::from(patches) - 1, u32::from(patches) + 1, 1 << 31, u32::MAX] {
        refuses("count", PATCH_COUNTS, &lie.to_le_bytes());
    }
    refuses("a block too many", PATCH_COUNTS, &[&counts[..], &[0; 4]].concat());
    let change = |at: usize, offset: u16| {
        let mut offsets = offsets.clone();
        offsets[2 * at..2 * at + 2].copy_from_slice(&offset.to_le_bytes());
        offsets
    };
    let last = usize::from(patches) - 1;
    refuses("an offset beyond the chunk", PATCH_OFFSETS, &change(last, 990));
    refuses("an offset beyond everything", PATCH_OFFSETS, &change(last, u16::MAX));
    refuses("offsets that do not ascend", PATCH_OFFSETS, &change(last, 0));
    refuses("an offset twice", PATCH_OFFSETS, &change(1, u16::from_le_bytes([offsets[0], offsets[1]])));
    sample.refuses("a value for each patch but one", |parts| parts.chunks[0].section(PATCH_VALUES).truncate(8 * last));
}

#[test]
fn codebooks_that_are_none_are_refused() {
    for sample in [waves_f32(), patched_f64(), line_f32()] {
        let refuses = |what: &str, bytes: &[u8]| sample.refuses(what, |parts| *parts.chunks[0].section(CODEBOOKS) = bytes.to_vec());
        let good = Parts::parse(&sample.archive).chunks[0].section(CODEBOOKS).clone();
        refuses("all lengths 15", &vec![0xFF; good.len()]);
        refuses("more tokens than there are", &[&[210][..], &[0; 200]].concat());
        refuses("all codes of one bit", &[&[208][..], &[0x11; 104]].concat());
        refuses("one book for every context", &good[..1 + usize::from(good[0]).div_ceil(2)]);
        refuses("no code in any book", &vec![0; Parts::parse(&sample.archive).chunks[0].steps.len() * 3 - 2]);
    }
}

#[test]
fn streams_that_make_no_sense_do_not_panic() {
    for sample in [waves_f32(), patched_f64(), line_f32()] {
        let levels = Parts::parse(&sample.archive).chunks[0].steps.len() as u32;
        for level in 0..levels {
            let (lengths, payload) = (LENGTHS + level, PAYLOAD + level);
            sample.refuses("longer segments", |parts| parts.chunks[0].section(lengths).fill(0xFF));
            sample.refuses("a segment too many", |parts| parts.chunks[0].section(lengths).extend([0, 0]));
            sample.refuses("a segment too few", |parts| {
                let lengths = parts.chunks[0].section(lengths);
                lengths.truncate(lengths.len() - 2);
            });
            for round in 0..100 {
                let _ = decode(&sample.with(|parts| {
                    let payload = parts.chunks[0].section(payload);
                    payload.iter_mut().enumerate().for_each(|(i, byte)| *byte = random(round, i as u64) as u8);
                }));
            }
            for byte in [0, 0x55, 0xFF] {
                let _ = decode(&sample.with(|parts| parts.chunks[0].section(payload).fill(byte)));
            }
            // Bytes go from a segment to the next.
            let _ = decode(&sample.with(|parts| {
                let lengths = parts.chunks[0].section(lengths);
                if lengths.len() >= 4 && lengths[0] > 0 && lengths[2] < 255 {
                    lengths[0] -= 1;
                    lengths[2] += 1;
                }
            }));
            // Steps of all kinds, in every level; f32 has garbage above its bits.
            for step in [0.0, -0.0, -1.0, f64::MAX, f64::NAN, f64::INFINITY, 5e-324] {
                for bits in [step.to_bits(), u64::from((step as f32).to_bits()), u64::from((step as f32).to_bits()) | 0xDEAD << 40] {
                    let _ = decode(&sample.with(|parts| parts.chunks[0].steps[level as usize] = bits));
                }
            }
        }
        // The greatest symbols that a codebook can write: token 206, whose 50 extra bits are all set.
        let _ = decode(&sample.with(|parts| {
            let book: Vec<u8> = [&[207][..], &[0; 103], &[0x01]].concat();
            let contexts = levels as usize * 3 - 2;
            *parts.chunks[0].section(CODEBOOKS) = book.repeat(contexts);
            (0..levels).for_each(|level| parts.chunks[0].section(PAYLOAD + level).fill(0xFE));
        }));
    }
    // Values of another type, or of a chunk that was cut otherwise.
    for sample in samples() {
        let _ = decode(&sample.with(|parts| parts.dtype = 3 - parts.dtype));
        let _ = decode(&sample.with(|parts| parts.dims.reverse()));
        let _ = decode(&sample.with(|parts| parts.dims.insert(0, 1)));
        let _ = decode(&sample.with(|parts| parts.chunks.reverse()));
        let len = sample.decoded.len() as u64;
        for dims in [vec![len], vec![len / 2, 2], vec![2, len / 2], vec![2, 2, len / 4]] {
            let _ = decode(&sample.with(|parts| parts.reshape(&dims)));
        }
    }
}

#[test]
fn a_raw_chunk_has_the_size_of_its_values() {
    let sample = raw_f32();
    for len in [59, 61, 30, 120, 1] {
        sample.refuses("another shape", |parts| parts.reshape(&[len]));
    }
    sample.refuses("f64", |parts| parts.dtype = 2);
    sample.refuses("a value less", |parts| {
        let raw = parts.chunks[0].section(RAW);
        raw.truncate(raw.len() - 4);
    });
}

/// Gives nothing above a limit, so that a test cannot take the machine's memory, and a large request fails where it is made.
mod allocator {
    #![allow(unsafe_code, reason = "an allocator cannot be written without")]

    use std::alloc::{GlobalAlloc, Layout, System};

    const LIMIT: usize = 64 << 20;

    struct Limited;

    // SAFETY: all is left to `System`, but that null is returned instead of large blocks, which every caller must expect.
    unsafe impl GlobalAlloc for Limited {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if layout.size() > LIMIT {
                return std::ptr::null_mut();
            }
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            if layout.size() > LIMIT {
                return std::ptr::null_mut();
            }
            // SAFETY: the caller keeps the contract of `alloc_zeroed`.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            if size > LIMIT {
                return std::ptr::null_mut();
            }
            // SAFETY: the caller keeps the contract of `realloc`.
            unsafe { System.realloc(block, layout, size) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps the contract of `dealloc`; every block is `System`'s.
            unsafe { System.dealloc(block, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Limited = Limited;
}

#[test]
fn tiles_that_make_no_sense_do_not_panic() {
    for sample in [tiles_f32(), tiles_f64(), tiles_line_f32()] {
        for code in [3, 7, 8 + 128, 10, 255] {
            sample.refuses("a predictor", |parts| parts.chunks[0].section(PREDICTORS)[0] = code);
        }
        sample.refuses("two axes for a class of one", |parts| parts.chunks[0].section(PREDICTORS)[0] = 9);
        for width in [65, 255] {
            sample.refuses("anchors", |parts| parts.chunks[0].section(ANCHORS)[0] = width);
        }
        let _ = decode(&sample.with(|parts| parts.chunks[0].section(ANCHORS)[1..].fill(0xFF)));
        sample.refuses("longer tiles", |parts| parts.chunks[0].section(TILE_LENGTHS).fill(0xFF));
        sample.refuses("empty tiles", |parts| parts.chunks[0].section(TILE_LENGTHS).fill(0));
        sample.refuses("a tile too many", |parts| parts.chunks[0].section(TILE_LENGTHS).extend([0, 0]));
        for kind in [1, 2, 3] {
            sample.refuses("another kind", |parts| parts.chunks[0].kind = kind);
        }
        for round in 0..300 {
            let _ = decode(&sample.with(|parts| {
                let tiles = parts.chunks[0].section(TILES);
                tiles.iter_mut().enumerate().for_each(|(i, byte)| *byte = random(round, i as u64) as u8);
            }));
        }
        for byte in [0, 0x55, 0xFF] {
            let _ = decode(&sample.with(|parts| parts.chunks[0].section(TILES).fill(byte)));
        }
        for level in 0..Parts::parse(&sample.archive).chunks[0].steps.len() {
            for step in [f64::MAX, 1.0, 1e-30, 5e-324] {
                for bits in [step.to_bits(), u64::from((step as f32).to_bits())] {
                    let _ = decode(&sample.with(|parts| parts.chunks[0].steps[level] = bits));
                }
            }
            for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
                let bits = if Parts::parse(&sample.archive).dtype == 1 { u64::from((step as f32).to_bits()) } else { step.to_bits() };
                sample.refuses("a step", |parts| parts.chunks[0].steps[level] = bits);
            }
        }
    }
    let sample = tiles_f64();
    let flags = Parts::parse(&sample.archive).chunks[0].section(MASK_FLAGS).clone();
    for at in 0..flags.len() {
        let _ = decode(&sample.with(|parts| parts.chunks[0].section(MASK_FLAGS)[at] ^= 0xFF));
    }
    sample.refuses("failures that are not there", |parts| parts.chunks[0].section(MASK_FLAGS)[10] = 0x7F);
    sample.refuses("a parameter", |parts| parts.chunks[0].section(MASK_FLAGS)[2] = 20);
}

#[test]
fn packed_tiles_that_make_no_sense_do_not_panic() {
    for sample in [packed_f32(), packed_f64(), packed_line_f32()] {
        let size = Parts::parse(&sample.archive).chunks[0].section(PACKED_ANCHORS).len();
        sample.refuses("longer tiles", |parts| parts.chunks[0].section(PACKED_LENGTHS).fill(0xFF));
        sample.refuses("empty tiles", |parts| parts.chunks[0].section(PACKED_LENGTHS).fill(0));
        sample.refuses("a tile too many", |parts| parts.chunks[0].section(PACKED_LENGTHS).extend([0, 0]));
        sample.refuses("an anchor too few", |parts| parts.chunks[0].section(PACKED_ANCHORS).truncate(size - 4));
        sample.refuses("half a word", |parts| parts.chunks[0].section(PACKED_TILES).extend([0, 0]));
        sample.refuses("a word too many", |parts| parts.chunks[0].section(PACKED_TILES).extend([0; 4]));
        for kind in [1, 2, 3, 4] {
            sample.refuses("another kind", |parts| parts.chunks[0].kind = kind);
        }
        sample.refuses("another tile", |parts| parts.tail[0] ^= 1);
        sample.refuses("two steps", |parts| parts.chunks[0].steps.push(1));
        let _ = decode(&sample.with(|parts| parts.chunks[0].section(PACKED_ANCHORS).fill(0xFF)));
        for round in 0..300 {
            let _ = decode(&sample.with(|parts| {
                let tiles = parts.chunks[0].section(PACKED_TILES);
                tiles.iter_mut().enumerate().for_each(|(i, byte)| *byte = random(round, i as u64) as u8);
            }));
            // One byte, which may be any part of a tile.
            let _ = decode(&sample.with(|parts| {
                let tiles = parts.chunks[0].section(PACKED_TILES);
                let at = random(round, 7) as usize % tiles.len();
                tiles[at] = random(round, 8) as u8;
            }));
        }
        for byte in [0, 0x55, 0xFF] {
            let _ = decode(&sample.with(|parts| parts.chunks[0].section(PACKED_TILES).fill(byte)));
        }
        // A word goes from a tile to the next.
        let _ = decode(&sample.with(|parts| {
            let lengths = parts.chunks[0].section(PACKED_LENGTHS);
            if lengths.len() >= 4 && lengths[0] > 0 {
                lengths[0] -= 1;
                lengths[2] += 1;
            }
        }));
        for step in [f64::MAX, 1.0, 1e-30, 5e-324] {
            for bits in [step.to_bits(), u64::from((step as f32).to_bits())] {
                let _ = decode(&sample.with(|parts| parts.chunks[0].steps[0] = bits));
            }
        }
        for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let bits = if Parts::parse(&sample.archive).dtype == 1 { u64::from((step as f32).to_bits()) } else { step.to_bits() };
            sample.refuses("a step", |parts| parts.chunks[0].steps[0] = bits);
        }
    }
}
