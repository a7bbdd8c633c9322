//! Archives of closed tiles on the device: those that are frozen, and damaged ones whose checksums fit. Either backend finds the same: the
//! same values, or an error.

#[path = "../crates/bmgard/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::PathBuf;

use bmgard::{BackendChoice, Compressor, Config, DType, Error, ErrorBound, Mode, Result, Shape, Value, decompress_into, inspect};
use support::fields::{Field, Number, random};
use support::format::{Parts, TILE_LENGTHS, TILES};

/// Whether there is no device to test.
fn skip() -> bool {
    match Compressor::new(Config { backend: BackendChoice::Cuda, ..Config::new(ErrorBound::Absolute(1.0)) }) {
        Ok(_) => false,
        Err(error) => {
            assert!(std::env::var_os("BMGARD_REQUIRE_GPU").is_none(), "{error}");
            println!("skipped: {error}");
            true
        }
    }
}

fn decode<T: Value>(archive: &[u8], len: usize, backend: BackendChoice) -> Result<Vec<T>> {
    let mut out = vec![T::from_f64(7.0); len];
    decompress_into(archive, &mut out, backend, &mut |_| {})?;
    Ok(out)
}

/// Decodes by both backends. Returns whether there was no error.
fn agree<T: Value>(archive: &[u8], len: usize, what: &str) -> bool {
    match (decode::<T>(archive, len, BackendChoice::Cpu), decode::<T>(archive, len, BackendChoice::Cuda)) {
        (Ok(cpu), Ok(gpu)) => {
            // Which NaN comes of values that no encoder writes is the processor's choice.
            let same = |(x, y): (&T, &T)| x.bits() == y.bits() || (x.to_f64().is_nan() && y.to_f64().is_nan());
            assert!(cpu.iter().zip(&gpu).all(same), "{what}: other values");
            true
        }
        (Err(cpu), Err(gpu)) => {
            // Which of several damaged tiles is named is a matter of time.
            assert!(matches!((&cpu, &gpu), (Error::Corrupt(_), Error::Corrupt(_))), "{what}: CPU {cpu}, GPU {gpu}");
            false
        }
        (cpu, gpu) => panic!("{what}: CPU {:?}, GPU {:?}", cpu.err(), gpu.err()),
    }
}

#[test]
fn frozen_archives_decode_to_the_same_values() {
    if skip() {
        return;
    }
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "archives", "v1"].iter().collect();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "bmg") {
            continue;
        }
        let archive = fs::read(&path).unwrap();
        let name = path.display().to_string();
        let info = inspect(&archive).unwrap();
        let len = info.shape.iter().product::<u64>() as usize;
        let good = match info.dtype {
            DType::F32 => agree::<f32>(&archive, len, &name),
            DType::F64 => agree::<f64>(&archive, len, &name),
        };
        assert!(good, "{name}");
        count += 1;
    }
    assert!(count > 50);
}

/// A change of some tiles, other ones for each seed.
fn damage(parts: &mut Parts, seed: u64) {
    let chunk = &mut parts.chunks[0];
    let mut lengths: Vec<usize> =
        chunk.section(TILE_LENGTHS).chunks(2).map(|bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))).collect();
    let tiles = chunk.section(TILES);
    let pick = |salt: u64, end: usize| (random(seed, salt) >> 8) as usize % end.max(1);
    for change in 0..1 + pick(1, 3) as u64 {
        let tile = pick(10 + change, lengths.len());
        let start: usize = lengths[..tile].iter().sum();
        let len = lengths[tile];
        if len == 0 {
            continue;
        }
        let at = pick(20 + change, len);
        match pick(30 + change, 8) {
            // A byte; often one of those before the low bits.
            0 => tiles[start + at] ^= 1 << pick(40, 8),
            1 => tiles[start + at % 24] ^= 1 + pick(40, 255) as u8,
            // All from some byte on.
            2 => tiles[start + at..start + len].iter_mut().zip(0..).for_each(|(byte, i)| *byte = random(seed, 1000 + i) as u8),
            3 => tiles[start + at..start + len].fill(0),
            4 => tiles[start + at..start + len].fill(0xFF),
            // Bytes less or more; the next tile's.
            5 => {
                tiles.drain(start + at..start + len);
                lengths[tile] = at;
            }
            6 => {
                tiles.insert(start + len, pick(40, 2) as u8);
                lengths[tile] = len + 1;
            }
            _ if tile + 1 < lengths.len() => {
                lengths[tile] -= at;
                lengths[tile + 1] += at;
            }
            _ => {}
        }
    }
    *chunk.section(TILE_LENGTHS) = lengths.into_iter().flat_map(|len| (len as u16).to_le_bytes()).collect();
}

fn damaged_archives_end_alike<T: Value>(shape: &[u64], field: &Field, config: Config) {
    let values = field.values::<T>(shape, 3);
    let config = Config { mode: Mode::Fast, backend: BackendChoice::Cpu, ..config };
    let archive = Compressor::new(config).unwrap().compress_slice(&values, &Shape::new(shape).unwrap()).unwrap();
    let name = format!("{} {shape:?} {field:?}", T::DTYPE);
    assert!(agree::<T>(&archive, values.len(), &name), "{name}");
    let mut errors = 0;
    for seed in 0..150 {
        let mut parts = Parts::parse(&archive);
        damage(&mut parts, seed);
        errors += usize::from(!agree::<T>(&parts.seal(), values.len(), &format!("{name}, damage {seed}")));
    }
    assert!((30..150).contains(&errors), "{name}: {errors} errors");
    // The device goes on.
    assert!(agree::<T>(&archive, values.len(), &name), "{name}");
}

#[test]
fn damaged_tiles_end_alike() {
    if skip() {
        return;
    }
    let bound = |bound| Config::new(ErrorBound::Absolute(bound));
    damaged_archives_end_alike::<f32>(&[40, 35, 50], &Field::Rough(0.1), bound(1e-3));
    damaged_archives_end_alike::<f32>(&[33, 33, 40], &Field::Waves, bound(1e-2));
    damaged_archives_end_alike::<f64>(&[40, 35, 50], &Field::Rough(0.1), bound(1e-9));
    damaged_archives_end_alike::<f64>(&[31, 40, 33], &Field::LongTail, bound(1e-3));
    damaged_archives_end_alike::<f32>(&[200, 150], &Field::Rough(0.01), bound(1e-3));
    damaged_archives_end_alike::<f64>(&[20_000], &Field::Rough(0.01), bound(1e-4));
    let planted = (0..40).map(|i| (i * 1009, if i % 2 == 0 { Number::Max } else { Number::Nan })).collect();
    damaged_archives_end_alike::<f32>(&[32, 20, 48], &Field::Planted(Box::new(Field::Rough(0.1)), planted), bound(1e-2));
}
