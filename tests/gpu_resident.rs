//! Fields and archives in device memory: the host's bytes and values, on a workspace that stops growing.

#[path = "../crates/bmgard/tests/support/mod.rs"]
mod support;

use bmgard::{BackendChoice, Compressor, Config, Error, ErrorBound, ErrorBudget, Mode, Shape, Value, conformance, worst_case_size_with};
use cust::memory::{CopyDestination, DeviceBuffer};
use support::bits;
use support::cases::{Case, cases, paper};
use support::format::{ANCHORS, Parts};

/// A compressor on the device, or `None` where there is none.
fn compressor(config: Config) -> Option<Compressor> {
    match Compressor::new(Config { backend: BackendChoice::Cuda, ..config }) {
        Ok(compressor) => Some(compressor),
        Err(error) => {
            assert!(std::env::var_os("BMGARD_REQUIRE_GPU").is_none(), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

fn absolute(bound: f64) -> Config {
    paper(ErrorBound::Absolute(bound))
}

fn upload<T: Value>(compressor: &mut Compressor, values: &[T]) -> DeviceBuffer<T> {
    let mut buffer = compressor.device_buffer(values.len()).unwrap();
    buffer.copy_from(values).unwrap();
    buffer
}

fn upload_bytes(compressor: &mut Compressor, bytes: &[u8]) -> DeviceBuffer<u8> {
    let mut buffer = compressor.device_bytes(bytes.len() as u64).unwrap();
    buffer.copy_from(bytes).unwrap();
    buffer
}

fn download<T: bytemuck::Zeroable + cust::memory::DeviceCopy>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    let mut out = vec![T::zeroed(); buffer.len()];
    buffer.copy_to(&mut out).unwrap();
    out
}

/// A smooth field with a little noise.
fn waves<T: Value>(shape: &[u64]) -> Vec<T> {
    let n: u64 = shape.iter().product();
    let noise = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as f64 * 1e-6;
    (0..n).map(|i| T::from_f64((i as f64 * 1e-3).sin() + (i as f64 * 0.11).cos() * 0.1 + noise(i))).collect()
}

fn check<T: Value>(case: &Case) -> Result<(), String> {
    let shape = Shape::new(&case.shape).unwrap();
    let values: Vec<T> = case.field.values(&case.shape, 1);
    let name = format!("{} {}", T::DTYPE, case.name);
    let Some(mut gpu) = compressor(case.config.clone()) else { return Ok(()) };
    let mut cpu = Compressor::new(Config { backend: BackendChoice::Cpu, ..case.config.clone() }).unwrap();
    let device = upload(&mut gpu, &values);
    let room = worst_case_size_with(&shape, T::DTYPE, case.config.max_chunk_bytes);
    let mut archive = gpu.device_bytes(room).unwrap();
    let summary = match (cpu.compress_slice(&values, &shape), gpu.compress_device(&device, &shape, &mut archive)) {
        (Ok(expected), Ok(summary)) => {
            let found = download(&archive);
            if found[..summary.compressed_bytes as usize] != expected {
                return Err(format!("{name}: archives of {} and {} bytes differ", expected.len(), summary.compressed_bytes));
            }
            summary
        }
        (Err(cpu), Err(gpu)) if cpu.to_string() == gpu.to_string() => return Ok(()),
        (cpu, gpu) => return Err(format!("{name}: host {:?}, device {:?}", cpu.err(), gpu.err())),
    };
    let archive = archive.index(..summary.compressed_bytes as usize);
    let mut decoded = upload(&mut gpu, &vec![T::from_f64(7.0); values.len()]);
    gpu.decompress_device(&archive, &mut decoded).map_err(|error| format!("{name}: {error}"))?;
    let mut host = vec![0u8; archive.len()];
    archive.copy_to(&mut host).unwrap();
    let expected: Vec<T> = bmgard::decompress(&host).unwrap().into_raw_vec_and_offset().0;
    if bits(&download(&decoded)) == bits(&expected) { Ok(()) } else { Err(format!("{name}: decoded values differ")) }
}

/// The cases whose names contain what `BMGARD_CASES` says, if it does.
fn chosen(mut cases: Vec<Case>) -> Vec<Case> {
    let name = std::env::var("BMGARD_CASES").unwrap_or_default();
    cases.retain(|case| case.name.contains(&name));
    cases
}

/// All cases, or every nth of them, as `BMGARD_EVERY` says: a sanitizer takes long.
fn suite<T: Value>() {
    let every = std::env::var("BMGARD_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let failures: Vec<String> = chosen(cases()).iter().step_by(every).filter_map(|case| check::<T>(case).err()).collect();
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures[..failures.len().min(40)].join("\n"));
}

#[test]
fn fields_of_f32_are_the_host_s() {
    suite::<f32>();
}

#[test]
fn fields_of_f64_are_the_host_s() {
    suite::<f64>();
}

/// Archives that need every kind of symbol: narrow ones, wide ones, escaped ones, segments that overflow their slots.
#[test]
fn loose_and_tight_bounds_are_the_host_s() {
    fn of<T: Value>(bound: f64, budget: ErrorBudget) {
        with::<T>(Config { error_budget: budget, ..absolute(bound) });
    }
    fn packed<T: Value>(bound: f64) {
        with::<T>(Config { mode: bmgard::Mode::Turbo, ..absolute(bound) });
    }
    fn with<T: Value>(config: Config) {
        let (bound, budget) = (config.error_bound, config.error_budget);
        let dims = [150, 152, 160];
        let (shape, values) = (Shape::new(&dims).unwrap(), waves::<T>(&dims));
        let Some(mut gpu) = compressor(config.clone()) else { return };
        let expected = Compressor::new(Config { backend: BackendChoice::Cpu, ..config }).unwrap().compress_slice(&values, &shape).unwrap();
        assert!(gpu.compress_slice(&values, &shape).unwrap() == expected, "{} {bound} {budget:?}", T::DTYPE);
        let device = upload(&mut gpu, &values);
        let mut gpu = compressor(gpu.config().clone()).unwrap();
        let mut archive = gpu.device_bytes(expected.len() as u64).unwrap();
        gpu.compress_device(&device, &shape, &mut archive).unwrap();
        assert!(download(&archive) == expected, "{} {bound} {budget:?}", T::DTYPE);
        let mut decoded = gpu.device_buffer::<T>(values.len()).unwrap();
        gpu.decompress_device(&archive, &mut decoded).unwrap();
        let host: Vec<T> = bmgard::decompress(&expected).unwrap().into_raw_vec_and_offset().0;
        assert!(bits(&download(&decoded)) == bits(&host), "{} {bound} {budget:?}", T::DTYPE);
        // Nothing but this field was there: all that it needs was told beforehand.
        let (used, most) = (gpu.device_memory().unwrap().bytes, gpu.device_workspace_bytes::<T>(&shape).unwrap().unwrap());
        assert!(0 < used && used <= most, "{} {bound} {budget:?}: {used} bytes, not {most}", T::DTYPE);
    }
    for bound in [0.3, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6] {
        packed::<f32>(bound);
        packed::<f64>(bound);
        of::<f32>(bound, ErrorBudget::Tight);
        of::<f64>(bound, ErrorBudget::Tight);
    }
    for bound in [1e-8, 1e-11, 1e-14] {
        of::<f64>(bound, ErrorBudget::Tight);
    }
    of::<f32>(1e-2, ErrorBudget::Mgard);
    of::<f64>(1e-3, ErrorBudget::Rigorous);
}

/// A field in closed tiles, through the host's memory and on the device, with blocks that wait for each other and without.
fn check_tiles<T: Value>(name: &str, dims: &[u64], bound: f64, value: impl Fn(u64) -> f64) {
    let shape = Shape::new(dims).unwrap();
    let values: Vec<T> = (0..shape.len()).map(|i| T::from_f64(value(i))).collect();
    let config = Config { mode: Mode::Fast, ..absolute(bound) };
    let expected = Compressor::new(Config { backend: BackendChoice::Cpu, ..config.clone() }).unwrap();
    let expected = { expected }.compress_slice(&values, &shape).unwrap();
    let host: Vec<T> = bmgard::decompress(&expected).unwrap().into_raw_vec_and_offset().0;
    for waiting in [true, false] {
        let name = format!("{} {name} {waiting}", T::DTYPE);
        let Some(mut gpu) = compressor(config.clone()) else { return };
        if !waiting {
            conformance::without_waiting_blocks(&mut gpu);
        }
        assert!(gpu.compress_slice(&values, &shape).unwrap() == expected, "{name}, through the host");
        let device = upload(&mut gpu, &values);
        let mut archive = gpu.device_bytes(expected.len() as u64).unwrap();
        for _ in 0..2 {
            gpu.compress_device(&device, &shape, &mut archive).unwrap();
            assert!(download(&archive) == expected, "{name}");
        }
        let mut decoded = gpu.device_buffer::<T>(values.len()).unwrap();
        gpu.decompress_device(&archive, &mut decoded).unwrap();
        assert!(bits(&download(&decoded)) == bits(&host), "{name}, decoded");
    }
}

fn wave(i: u64) -> f64 {
    (i as f64 * 1e-3).sin() + (i as f64 * 0.11).cos() * 0.1
}

/// Grids of tiles of all forms: one tile, and long lines along each axis.
#[test]
fn grids_of_tiles_are_the_host_s() {
    fn of<T: Value>() {
        for dims in [&[5, 6, 7][..], &[16, 16, 16], &[700], &[64 * 600, 65], &[65, 64 * 600], &[16 * 600, 17, 18], &[100, 150, 170]] {
            check_tiles::<T>(&format!("{dims:?}"), dims, 1e-3, wave);
            check_tiles::<T>(&format!("{dims:?}, mostly zeros"), dims, 0.2, wave);
        }
    }
    of::<f32>();
    of::<f64>();
    check_tiles::<f32>("5000 tiles in a line", &[4096 * 5000 + 17], 1e-3, wave);
}

/// Anchors that are stored exactly repeat the one before; those that are not may be far apart.
#[test]
fn all_kinds_of_anchors_are_the_host_s() {
    fn of<T: Value>() {
        let line =
            |tiles: std::ops::Range<u64>| move |i: u64| if i.is_multiple_of(4096) && tiles.contains(&(i / 4096)) { 1e30 } else { wave(i) };
        check_tiles::<T>("the first is exact", &[4096 * 9], 1e-3, line(0..1));
        check_tiles::<T>("the first are exact", &[4096 * 9], 1e-3, line(0..7));
        check_tiles::<T>("some are exact", &[4096 * 700], 1e-3, line(100..300));
        check_tiles::<T>("many are exact", &[4096 * 4200], 1e-3, line(3..4150));
        let cube = |every: u64| {
            move |i: u64| {
                let (z, y, x) = (i / 6000, i / 75 % 80, i % 75);
                let tile = z / 16 * 30 + y / 16 * 5 + x / 16;
                if z % 16 + y % 16 + x % 16 == 0 && tile % every < 2 { 1e30 } else { wave(i) }
            }
        };
        for every in [2, 3, 5, 7, 31] {
            check_tiles::<T>(&format!("{every}"), &[70, 80, 75], 1e-3, cube(every));
        }
        for (size, bound) in [(1e9, 1e-6), (1e9, 0.3), (1e5, 1e-4), (1.0, 1e-9), (1.0, 1e-7), (1e12, 1e-4)] {
            // Anchors far apart in a smooth field: each tile at another height.
            let steps =
                move |i: u64| (if (i / 6000 / 16 + i / 75 % 80 / 16 + i % 75 / 16).is_multiple_of(2) { size } else { -size }) + wave(i);
            check_tiles::<T>(&format!("steps of {size} at {bound}"), &[70, 80, 75], bound, steps);
        }
    }
    of::<f32>();
    of::<f64>();
}

/// Damaged anchors behind right checksums: refused as on the host, or decoded to the same values.
#[test]
fn damaged_anchors_are_what_they_are_on_the_host() {
    let dims = [40, 50, 90];
    let (shape, values) = (Shape::new(&dims).unwrap(), waves::<f32>(&dims));
    let config = Config { mode: Mode::Fast, ..absolute(1e-3) };
    let Some(mut gpu) = compressor(config) else { return };
    let good = Parts::parse(&gpu.compress_slice(&values, &shape).unwrap());
    let mut decoded = gpu.device_buffer::<f32>(values.len()).unwrap();
    let mut refused = 0;
    for case in 0..200u64 {
        let mut parts = good.clone();
        let anchors = parts.chunks[0].section(ANCHORS);
        let width = u64::from(anchors[0]);
        match case {
            0..66 => anchors[0] = case as u8,
            66 => anchors[0] = 255,
            67 => anchors.push(0),
            68 => anchors.truncate(1),
            69 => anchors.clear(),
            70 => anchors[1..].fill(0xFF),
            // As many as there should be, at other widths, of random bits.
            71..137 => {
                let (count, width) = ((anchors.len() as u64 - 1) * 8 / width, case - 71);
                assert_eq!(count, 3 * 4 * 6);
                anchors.resize(1 + (count * width).div_ceil(8) as usize, 0);
                anchors[0] = width as u8;
                (0..)
                    .zip(&mut anchors[1..])
                    .for_each(|(i, byte)| *byte = ((case << 32 | i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8);
            }
            _ => {
                let at = 1 + (case * 31) as usize % (anchors.len() - 1);
                anchors[at] ^= 1 << (case % 8);
            }
        }
        let archive = parts.seal();
        let device = upload_bytes(&mut gpu, &archive);
        let mut host = vec![0f32; values.len()];
        let expected = bmgard::decompress_into(&archive, &mut host, BackendChoice::Cpu, &mut |_| {});
        match (expected, gpu.decompress_device(&device, &mut decoded)) {
            (Ok(()), Ok(())) => assert!(bits(&download(&decoded)) == bits(&host), "case {case}"),
            (Err(expected), Err(found)) => {
                assert_eq!(found.to_string(), expected.to_string(), "case {case}");
                refused += 1;
            }
            (expected, found) => panic!("case {case}: host {expected:?}, device {found:?}"),
        }
    }
    assert!(refused >= 66, "{refused}");
}

#[test]
fn memory_is_taken_once_and_kept() {
    let dims = [60, 70, 80];
    let (shape, values) = (Shape::new(&dims).unwrap(), waves::<f32>(&dims));
    let Some(mut gpu) = compressor(absolute(1e-3)) else { return };
    let device = upload(&mut gpu, &values);
    let mut archive = gpu.device_bytes(worst_case_size_with(&shape, bmgard::DType::F32, 1 << 30)).unwrap();
    let mut decoded = gpu.device_buffer::<f32>(values.len()).unwrap();
    let round = |gpu: &mut Compressor, archive: &mut DeviceBuffer<u8>, decoded: &mut DeviceBuffer<f32>| {
        let summary = gpu.compress_device(&device, &shape, archive).unwrap();
        let bytes = archive.index(..summary.compressed_bytes as usize);
        gpu.decompress_device(&bytes, decoded).unwrap();
    };
    (0..2).for_each(|_| round(&mut gpu, &mut archive, &mut decoded));
    let (warm, free) = (gpu.device_memory().unwrap(), cust::memory::mem_get_info().unwrap().0);
    let first = download(&archive);
    (0..1000).for_each(|_| round(&mut gpu, &mut archive, &mut decoded));
    assert_eq!(gpu.device_memory().unwrap(), warm);
    assert!(Some(warm.bytes) <= gpu.device_workspace_bytes::<f32>(&shape).unwrap());
    assert!(cust::memory::mem_get_info().unwrap().0 >= free, "the device has less free memory than before");
    assert!(download(&archive) == first);
}

#[test]
fn a_compressor_gives_its_memory_back() {
    let dims = [60, 70, 80];
    let (shape, values) = (Shape::new(&dims).unwrap(), waves::<f32>(&dims));
    let work = || {
        let Some(mut gpu) = compressor(absolute(1e-3)) else { return false };
        let archive = gpu.compress_slice(&values, &shape).unwrap();
        gpu.decompress_into(&archive, &mut vec![0f32; values.len()], &mut |_| {}).unwrap();
        true
    };
    if !work() {
        return;
    }
    let free = cust::memory::mem_get_info().unwrap().0;
    (0..50).for_each(|_| assert!(work()));
    assert!(cust::memory::mem_get_info().unwrap().0 + (8 << 20) >= free);
}

#[test]
fn several_compressors_work_at_once() {
    if compressor(absolute(1.0)).is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let dims = [40 + 9 * thread, 50, 60];
                let (shape, values) = (Shape::new(&dims).unwrap(), waves::<f32>(&dims));
                let mut gpu = compressor(absolute(1e-3)).unwrap();
                let expected = Compressor::new(Config { backend: BackendChoice::Cpu, ..absolute(1e-3) }).unwrap();
                let expected = { expected }.compress_slice(&values, &shape).unwrap();
                for _ in 0..30 {
                    assert!(gpu.compress_slice(&values, &shape).unwrap() == expected);
                    let mut decoded = vec![0f32; values.len()];
                    gpu.decompress_into(&expected, &mut decoded, &mut |_| {}).unwrap();
                    assert!(values.iter().zip(&decoded).all(|(x, y)| (f64::from(*x) - f64::from(*y)).abs() <= 1e-3));
                }
            });
        }
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let dims = [40, 50, 60];
    let (shape, values) = (Shape::new(&dims).unwrap(), waves::<f32>(&dims));
    let Some(mut gpu) = compressor(absolute(1e-3)) else { return };
    let device = upload(&mut gpu, &values);
    for room in [1, 100, 200, 1000, 20_000] {
        let mut archive = gpu.device_bytes(room).unwrap();
        let error = gpu.compress_device(&device, &shape, &mut archive).unwrap_err();
        assert!(matches!(error, Error::OutputTooSmall { .. }), "{room}: {error}");
    }
    let other = Shape::new(&[40, 50, 61]).unwrap();
    let mut archive = gpu.device_bytes(1 << 20).unwrap();
    assert!(matches!(gpu.compress_device(&device, &other, &mut archive), Err(Error::LengthMismatch { .. })));
    let good = gpu.compress_slice(&values, &shape).unwrap();
    let archive = upload_bytes(&mut gpu, &good);
    let mut short = gpu.device_buffer::<f32>(10).unwrap();
    assert!(matches!(gpu.decompress_device(&archive, &mut short), Err(Error::LengthMismatch { .. })));
    let mut wrong = gpu.device_buffer::<f64>(values.len()).unwrap();
    assert!(matches!(gpu.decompress_device(&archive, &mut wrong), Err(Error::WrongType { .. })));
    let mut on_cpu = Compressor::new(Config { backend: BackendChoice::Cpu, ..absolute(1.0) }).unwrap();
    assert!(matches!(on_cpu.device_buffer::<f32>(10), Err(Error::BackendUnavailable { .. })));
}

/// Every byte of an archive is covered by a checksum, also on the device.
#[test]
fn damage_is_noticed() {
    let dims = [20, 33, 40];
    let (shape, values) = (Shape::new(&dims).unwrap(), waves::<f32>(&dims));
    let Some(mut gpu) = compressor(absolute(1e-3)) else { return };
    let good = gpu.compress_slice(&values, &shape).unwrap();
    let mut decoded = gpu.device_buffer::<f32>(values.len()).unwrap();
    for at in (0..good.len()).step_by(7).chain(good.len() - 40..good.len()) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let archive = upload_bytes(&mut gpu, &bad);
        assert!(gpu.decompress_device(&archive, &mut decoded).is_err(), "byte {at} of {}", good.len());
    }
    for len in (0..good.len()).step_by(97).skip(1) {
        let archive = upload_bytes(&mut gpu, &good[..len]);
        assert!(gpu.decompress_device(&archive, &mut decoded).is_err(), "{len} of {} bytes", good.len());
    }
    let archive = upload_bytes(&mut gpu, &good);
    gpu.decompress_device(&archive, &mut decoded).unwrap();
}
