//! Archives of every format version, kept for ever: each must decode to the values that it held when it was written.
//!
//! `tests/archives/README.md` says what may be changed, and when.

// Its decoder, written from the format's document alone.
#[path = "../crates/bmgard/tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use bmgard::ErrorBound::{Absolute, RelativeToMax, RelativeToRange};
use bmgard::{BackendChoice, Compressor, Config, DType, ErrorBudget, Mode, Shape, Value, decompress_into, inspect};
use support::reference;

/// The folders there are, with the format's version; the last is what is written today.
const FOLDERS: [(&str, u16); 1] = [("v1", 1)];
const NEWEST: &str = FOLDERS[FOLDERS.len() - 1].0;

fn path(folder: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "archives", folder].iter().collect()
}

/// A line of `archives.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    /// The file's name without its extension.
    name: String,
    /// The CRC32 of the field that was compressed, little-endian, in C order.
    input: u32,
    /// The CRC32 of the field that comes back.
    decoded: u32,
}

impl Record {
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, input, decoded] = words[..] else { panic!("archives.txt: {line}") };
        let crc = |word| u32::from_str_radix(word, 16).unwrap();
        Self { name: name.into(), input: crc(input), decoded: crc(decoded) }
    }

    fn write(&self) -> String {
        format!("{:24} {:08x} {:08x}\n", self.name, self.input, self.decoded)
    }

    fn archive(&self, folder: &str) -> Vec<u8> {
        let path = path(folder).join(&self.name).with_extension("bmg");
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// The records of a folder.
fn records(folder: &str) -> Vec<Record> {
    static FREEZE: OnceLock<()> = OnceLock::new();
    FREEZE.get_or_init(|| {
        if std::env::var_os("BMGARD_FREEZE").is_some() {
            freeze();
        }
    });
    let text = fs::read_to_string(path(folder).join("archives.txt")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(Record::read).collect()
}

/// Writes the newest folder's archives anew.
fn freeze() {
    let folder = path(NEWEST);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut text = "# name, CRC32 of the field, CRC32 of the decoded field\n".to_owned();
    for case in cases() {
        let (record, archive) = match case.dtype {
            DType::F32 => case.freeze::<f32>(),
            DType::F64 => case.freeze::<f64>(),
        };
        fs::write(folder.join(&record.name).with_extension("bmg"), archive).unwrap();
        text += &record.write();
    }
    fs::write(folder.join("archives.txt"), text).unwrap();
}

fn crc<T: Value>(values: &[T]) -> u32 {
    let bytes = values.iter().flat_map(|value| value.bits().to_le_bytes()[..size_of::<T>()].to_vec());
    crc32fast::hash(&bytes.collect::<Vec<u8>>())
}

fn decode<T: Value>(archive: &[u8], len: u64) -> Vec<T> {
    let mut values = vec![T::from_f64(7.0); len as usize];
    decompress_into(archive, &mut values, BackendChoice::Cpu, &mut |_| {}).unwrap();
    values
}

/// What a field looks like. Only additions, multiplications and whole numbers go in, so that every machine makes the same bits.
#[derive(Clone, Copy)]
enum Look {
    /// Parabolas in every direction, with noise of this amplitude.
    Humps(f64),
    /// Humps times a million.
    Large,
    /// Humps with a continent of fill values, NaN of several kinds, infinities, -0, subnormals, and spikes that need patches.
    Special,
    /// Every kind of number and non-number.
    RandomBits,
    Constant,
    /// A constant, a NaN, an infinity and fill values.
    ConstantAndSpecial,
    /// Slabs of 8 planes: humps, random bits, a constant, in turn.
    Slabs,
}

const FILL: f64 = -9999.0;

impl Look {
    fn value<T: Value>(self, shape: &[u64], position: u64) -> T {
        let random = |salt: u64| {
            let mut z = (position + 1 + (salt << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        let hump = |t: f64| {
            let t = t - t.floor();
            4.0 * t * (1.0 - t)
        };
        let mut rest = position;
        let (mut sum, mut product, mut slowest) = (0.0, 1.0, 0);
        for (axis, &n) in shape.iter().enumerate().rev() {
            slowest = rest % n;
            let index = slowest as f64;
            rest /= n;
            sum += hump((2 * axis + 3) as f64 * index / 128.0 + 0.125 * axis as f64);
            product *= 0.5 + hump(index / 32.0);
        }
        let humps = 0.5 * sum + 0.25 * product;
        match self {
            Self::Humps(noise) => T::from_f64(humps + noise * ((random(1) >> 11) as f64 / (1u64 << 52) as f64 - 1.0)),
            Self::Large => T::from_f64(1e6 * humps),
            Self::Constant => T::from_f64(0.1),
            Self::RandomBits => T::from_bits_u64(random(2)),
            Self::Slabs => [Self::Humps(0.01), Self::RandomBits, Self::Constant][(slowest / 8 % 3) as usize].value(shape, position),
            Self::ConstantAndSpecial => match position {
                3 => T::from_f64(f64::INFINITY),
                5 => T::from_bits_u64(if size_of::<T>() == 4 { 0x7FC1_2345 } else { 0x7FF8_0000_DEAD_BEEF }),
                n if n % 16 > 12 => T::from_f64(FILL),
                _ => T::from_f64(0.1),
            },
            Self::Special => {
                let bits = |single: u32, double: u64| T::from_bits_u64(if size_of::<T>() == 4 { single.into() } else { double });
                match random(3) % 97 {
                    0 => bits(0x7FC1_2345, 0x7FF8_0000_DEAD_BEEF),
                    1 => bits(0xFF80_0001, 0xFFF0_0000_0000_0001),
                    2 => T::from_f64(f64::INFINITY),
                    3 => T::from_f64(f64::NEG_INFINITY),
                    4 => T::from_f64(-0.0),
                    5 => bits(1, 1),
                    6 => T::from_f64(1e12),
                    _ if sum < 1.0 => T::from_f64(FILL),
                    _ => T::from_f64(humps),
                }
            }
        }
    }
}

/// A field, and how it is compressed.
struct Case {
    name: String,
    dtype: DType,
    shape: &'static [u64],
    look: Look,
    config: Config,
}

/// The generators of the newest folder's archives.
fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |name: &str, shape: &'static [u64], look: Look, config: Config| {
        for dtype in [DType::F32, DType::F64] {
            let config = Config { backend: BackendChoice::Cpu, ..config.clone() };
            cases.push(Case { name: format!("{name}-{dtype}"), dtype, shape, look, config });
        }
    };
    let with = support::cases::paper;
    let budget = |error_budget, bound| Config { error_budget, ..with(bound) };
    let levels = |local, global, bound| Config { local_levels: Some(local), global_levels: Some(global), ..with(bound) };
    let range = RelativeToRange;

    add("one-value", &[1, 1, 1], Look::Humps(0.0), with(Absolute(1e-3)));
    add("1d", &[1501], Look::Humps(0.01), with(Absolute(1e-3)));
    add("2d", &[43, 58], Look::Humps(0.01), with(RelativeToMax(1e-3)));
    add("3d", &[17, 18, 19], Look::Humps(0.01), with(range(1e-2)));
    add("4d", &[2, 9, 1, 17], Look::Humps(0.01), with(range(1e-3)));
    add("4d-merged", &[3, 4, 9, 11], Look::Humps(0.1), with(range(1e-2)));
    add("rigorous", &[15, 16, 17], Look::Humps(0.02), budget(ErrorBudget::Rigorous, range(1e-2)));
    add("mgard", &[15, 16, 17], Look::Humps(0.02), budget(ErrorBudget::Mgard, range(1e-2)));
    add("rigorous-2d", &[50, 41], Look::Humps(0.02), budget(ErrorBudget::Rigorous, Absolute(1e-2)));
    add("mgard-1d", &[1000], Look::Humps(0.02), budget(ErrorBudget::Mgard, Absolute(1e-2)));
    add("global-only", &[13, 14, 15], Look::Humps(0.01), levels(0, 3, range(1e-2)));
    add("local-only", &[16, 17, 24], Look::Humps(0.01), levels(2, 0, range(1e-2)));
    add("no-levels", &[9, 10, 11], Look::Humps(0.01), levels(0, 0, range(1e-2)));
    add("long-symbols", &[10, 11, 12], Look::Large, with(Absolute(1e-3)));
    add("all-zero-symbols", &[20, 20, 20], Look::Humps(0.01), with(range(0.9)));
    add("special", &[14, 15, 16], Look::Special, Config { fill: Some(FILL), ..with(Absolute(1e-2)) });
    add("special-2d", &[40, 41], Look::Special, Config { fill: Some(FILL), ..with(Absolute(1e-2)) });
    add("random-bits", &[601], Look::RandomBits, with(Absolute(1e-3)));
    add("constant", &[30, 40], Look::Constant, with(range(1e-3)));
    add("constant-and-special", &[12, 11, 10], Look::ConstantAndSpecial, Config { fill: Some(FILL), ..with(range(1e-3)) });
    add("chunks", &[29, 8, 16], Look::Slabs, Config { max_chunk_bytes: 4096, ..with(Absolute(1e-2)) });
    add("chunks-2d", &[19, 150], Look::Humps(0.01), Config { max_chunk_bytes: 4096, ..with(Absolute(1e-2)) });

    let fast = |bound| Config { mode: Mode::Fast, ..Config::new(bound) };
    let tile = |tile: &str, config| Config { tile: Some(tile.parse().unwrap()), ..config };
    add("fast-1d", &[5001], Look::Humps(0.001), fast(Absolute(1e-3)));
    add("fast-2d", &[70, 67], Look::Humps(0.001), fast(RelativeToMax(1e-3)));
    add("fast-3d", &[19, 33, 20], Look::Humps(0.001), fast(range(1e-3)));
    add("fast-4d", &[3, 4, 17, 19], Look::Humps(0.01), fast(range(1e-2)));
    add("fast-4x32x32", &[9, 33, 40], Look::Humps(0.001), tile("4x32x32", fast(range(1e-2))));
    add("fast-32x4x32", &[33, 9, 33], Look::Humps(0.001), tile("32x4x32", fast(range(1e-2))));
    add("fast-32x32x4", &[33, 33, 6], Look::Humps(0.001), tile("32x32x4", fast(range(1e-2))));
    add("fast-64x64", &[3, 66, 65], Look::Humps(0.001), tile("64x64", fast(range(1e-2))));
    add("fast-long-symbols", &[10, 11, 12], Look::Large, fast(Absolute(1e-3)));
    add("fast-all-zero-symbols", &[20, 20, 20], Look::Humps(0.01), fast(range(0.9)));
    add("fast-special", &[14, 35, 16], Look::Special, Config { fill: Some(FILL), ..fast(Absolute(1e-2)) });
    add("fast-raw-tiles", &[29, 8, 16], Look::Slabs, tile("4x32x32", fast(Absolute(1e-2))));
    add("fast-chunks", &[29, 8, 16], Look::Slabs, Config { max_chunk_bytes: 4096, ..fast(Absolute(1e-2)) });

    let turbo = |bound| Config { mode: Mode::Turbo, ..Config::new(bound) };
    add("turbo-1d", &[1501], Look::Humps(0.001), turbo(Absolute(1e-3)));
    add("turbo-2d", &[35, 67], Look::Humps(0.001), turbo(RelativeToMax(1e-3)));
    add("turbo-3d", &[9, 17, 35], Look::Humps(0.001), turbo(range(1e-3)));
    add("turbo-4d", &[3, 4, 9, 19], Look::Humps(0.01), turbo(range(1e-2)));
    add("turbo-long-symbols", &[10, 11, 12], Look::Large, turbo(Absolute(1e-3)));
    add("turbo-all-zero-symbols", &[20, 20, 20], Look::Humps(0.01), turbo(range(0.9)));
    add("turbo-special", &[14, 35, 16], Look::Special, Config { fill: Some(FILL), ..turbo(Absolute(1e-2)) });
    add("turbo-raw-tiles", &[29, 8, 16], Look::Slabs, turbo(Absolute(1e-2)));
    add("turbo-chunks", &[29, 8, 16], Look::Slabs, Config { max_chunk_bytes: 4096, ..turbo(Absolute(1e-2)) });
    cases
}

impl Case {
    fn values<T: Value>(&self) -> Vec<T> {
        (0..self.shape.iter().product()).map(|position| self.look.value(self.shape, position)).collect()
    }

    fn compress<T: Value>(&self) -> (Vec<T>, Vec<u8>) {
        let values = self.values();
        let archive = Compressor::new(self.config.clone()).unwrap().compress_slice(&values, &Shape::new(self.shape).unwrap()).unwrap();
        (values, archive)
    }

    fn freeze<T: Value>(&self) -> (Record, Vec<u8>) {
        let (values, archive) = self.compress::<T>();
        let decoded = decode::<T>(&archive, values.len() as u64);
        support::assert_kept(&values, &decoded, inspect(&archive).unwrap().abs_bound, self.config.fill);
        (Record { name: self.name.clone(), input: crc(&values), decoded: crc(&decoded) }, archive)
    }
}

#[test]
fn archives_decode_to_what_they_held() {
    for (folder, version) in FOLDERS {
        let records = records(folder);
        let files = fs::read_dir(path(folder)).unwrap();
        let files: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        let expected = records.iter().map(|record| record.name.clone() + ".bmg").chain(["archives.txt".to_owned()]).collect();
        assert_eq!(files, expected);
        for record in records {
            let archive = record.archive(folder);
            let info = inspect(&archive).unwrap();
            assert_eq!(info.format_version, version, "{}", record.name);
            let len = info.shape.iter().product();
            let (found, documented) = match info.dtype {
                DType::F32 => (crc(&decode::<f32>(&archive, len)), crc(&reference::decode::<f32>(&archive))),
                DType::F64 => (crc(&decode::<f64>(&archive, len)), crc(&reference::decode::<f64>(&archive))),
            };
            assert_eq!(found, record.decoded, "{}: other values than it held", record.name);
            assert_eq!(documented, record.decoded, "{}: the decoder written from the document finds other values", record.name);
        }
    }
}

#[test]
fn the_same_fields_give_the_same_archives() {
    let (records, cases) = (records(NEWEST), cases());
    assert_eq!(records.len(), cases.len());
    let mut differ = vec![];
    for (record, case) in records.iter().zip(cases) {
        let (today, archive) = match case.dtype {
            DType::F32 => case.freeze::<f32>(),
            DType::F64 => case.freeze::<f64>(),
        };
        assert_eq!((&record.name, record.input), (&today.name, today.input), "this field was another when it was frozen");
        if archive != record.archive(NEWEST) {
            differ.push(format!("{} ({} bytes, were {})", record.name, archive.len(), record.archive(NEWEST).len()));
        }
    }
    assert!(
        differ.is_empty(),
        "{} archives are not what is written today; tests/archives/README.md says what to do:\n{}",
        differ.len(),
        differ.join("\n")
    );
}

/// What is frozen is worth it: every kind of chunk, section, bound, budget and type is there.
#[test]
fn the_archives_have_all_that_the_format_knows() {
    let infos: Vec<_> = records(NEWEST).iter().map(|record| inspect(&record.archive(NEWEST)).unwrap()).collect();
    for dtype in [DType::F32, DType::F64] {
        let infos = || infos.iter().filter(|info| info.dtype == dtype);
        let chunks = || infos().flat_map(|info| &info.chunks);
        let kinds: BTreeSet<&str> = chunks().map(|chunk| chunk.kind).collect();
        assert_eq!(kinds, BTreeSet::from(["closed", "coded", "constant", "packed", "raw"]));
        let sections: BTreeSet<&str> = chunks().flat_map(|chunk| &chunk.sections).map(|section| section.name.as_str()).collect();
        for what in ["raw", "mask", "patch", "constant", "codebooks", "lengths", "payload", "flags", "predictors", "anchors", "tiles"] {
            assert!(sections.iter().any(|name| name.contains(what)), "{dtype}: no section {what} among {sections:?}");
        }
        assert!(chunks().any(|chunk| chunk.patched_values > 0 && chunk.sections.iter().any(|section| section.name.contains("mask"))));
        assert!(infos().any(|info| info.chunks.iter().map(|chunk| chunk.kind).collect::<BTreeSet<_>>().len() == 3));
        let budgets: BTreeSet<String> = infos().filter_map(|info| info.error_budget).map(|budget| format!("{budget:?}")).collect();
        let bounds: BTreeSet<u8> = infos()
            .map(|info| match info.error_bound {
                Absolute(_) => 1,
                RelativeToMax(_) => 2,
                RelativeToRange(_) => 3,
            })
            .collect();
        let tiles: BTreeSet<String> = infos().filter_map(|info| info.tile).map(|tile| tile.to_string()).collect();
        assert_eq!(tiles.len(), 6);
        assert!(chunks().any(|chunk| chunk.raw_tiles > 0) && chunks().any(|chunk| chunk.zero_tiles > 0));
        assert!(chunks().any(|chunk| chunk.masked_values > 0 && chunk.patched_values > 0));
        let dimensions: BTreeSet<usize> = infos().map(|info| info.shape.len()).collect();
        assert_eq!((budgets.len(), bounds.len(), dimensions.len()), (3, 3, 4));
    }
}
