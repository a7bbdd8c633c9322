//! The CUDA backend against the CPU: identical archives, and identical values whichever of the two decodes, for every case of the
//! library's suite and both types.

#[path = "../crates/bmgard/tests/support/mod.rs"]
mod support;

use bmgard::{BackendChoice, Compressor, Config, Shape, Value, decompress_into};
use support::bits;
use support::cases::{Case, cases};

/// Why there is no device to test, or `None`.
fn skip() -> bool {
    match Compressor::new(Config { backend: BackendChoice::Cuda, ..Config::new(bmgard::ErrorBound::Absolute(1.0)) }) {
        Ok(_) => false,
        Err(error) => {
            assert!(std::env::var_os("BMGARD_REQUIRE_GPU").is_none(), "{error}");
            println!("skipped: {error}");
            true
        }
    }
}

fn decode<T: Value>(archive: &[u8], len: usize, backend: BackendChoice) -> Vec<u64> {
    let mut out = vec![T::from_f64(7.0); len];
    decompress_into(archive, &mut out, backend, &mut |_| {}).unwrap();
    bits(&out)
}

fn compare<T: Value>(case: &Case) -> Result<(), String> {
    let shape = Shape::new(&case.shape).unwrap();
    let values: Vec<T> = case.field.values(&case.shape, 1);
    let compress = |backend| Compressor::new(Config { backend, ..case.config.clone() }).unwrap().compress_slice(&values, &shape);
    let name = format!("{} {}", T::DTYPE, case.name);
    let (cpu, gpu) = match (compress(BackendChoice::Cpu), compress(BackendChoice::Cuda)) {
        (Ok(cpu), Ok(gpu)) => (cpu, gpu),
        (Err(cpu), Err(gpu)) if cpu.to_string() == gpu.to_string() => return Ok(()),
        (cpu, gpu) => return Err(format!("{name}: CPU {:?}, GPU {:?}", cpu.err(), gpu.err())),
    };
    if cpu != gpu {
        let at = cpu.iter().zip(&gpu).position(|(a, b)| a != b);
        return Err(format!("{name}: archives of {} and {} bytes differ at {at:?}", cpu.len(), gpu.len()));
    }
    let expected = decode::<T>(&cpu, values.len(), BackendChoice::Cpu);
    if decode::<T>(&cpu, values.len(), BackendChoice::Cuda) != expected {
        return Err(format!("{name}: decoded values differ"));
    }
    Ok(())
}

/// The cases whose names contain what `BMGARD_CASES` says, if it does.
fn chosen(mut cases: Vec<Case>) -> Vec<Case> {
    let name = std::env::var("BMGARD_CASES").unwrap_or_default();
    cases.retain(|case| case.name.contains(&name));
    cases
}

/// All cases, or every nth of them, as `BMGARD_EVERY` says: a sanitizer takes long.
fn suite<T: Value>() {
    if skip() {
        return;
    }
    let every = std::env::var("BMGARD_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let failures: Vec<String> = chosen(cases()).iter().step_by(every).filter_map(|case| compare::<T>(case).err()).collect();
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures[..failures.len().min(40)].join("\n"));
}

#[test]
fn archives_of_f32_fields_are_the_same() {
    suite::<f32>();
}

#[test]
fn archives_of_f64_fields_are_the_same() {
    suite::<f64>();
}
