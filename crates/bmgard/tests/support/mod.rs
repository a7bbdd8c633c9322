//! What the test files share: fields, the cases of the suite, the strict check, and the suite that runs every case on one backend.

#![allow(dead_code, reason = "no test file uses all of it")]

pub mod cases;
pub mod closed;
pub mod fields;
pub mod format;
pub mod packed;
pub mod reference;

use std::io::{Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bmgard::{
    BackendChoice, Comparison, Compressor, Config, ErrorBound, Mode, Shape, Summary, Value, decompress, decompress_into, inspect,
};
use cases::Case;

/// Whether a value must come back bit for bit.
pub fn is_exact<T: Value>(x: T, fill: Option<f64>) -> bool {
    !x.is_finite() || fill.is_some_and(|fill| T::from_f64(fill) == x)
}

/// The bits of values: NaN has payloads, and 0 has a sign.
pub fn bits<T: Value>(values: &[T]) -> Vec<u64> {
    values.iter().map(|x| x.bits()).collect()
}

/// The promise, value by value: NaN, infinities and fill values bit for bit, all others within the bound in f64. Returns the greatest
/// error.
pub fn assert_kept<T: Value>(original: &[T], decoded: &[T], bound: f64, fill: Option<f64>) -> f64 {
    assert_eq!(original.len(), decoded.len());
    let mut worst = 0.0f64;
    for (position, (&x, &y)) in original.iter().zip(decoded).enumerate() {
        if is_exact(x, fill) {
            assert_eq!(x.bits(), y.bits(), "position {position}: {x} came back as {y}");
            continue;
        }
        let error = (x.to_f64() - y.to_f64()).abs();
        #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN difference must count as broken")]
        let broken = !(error <= bound);
        assert!(!broken, "position {position}: {x:?} came back as {y:?}, the bound is {bound:e}");
        worst = worst.max(error);
    }
    worst
}

/// The absolute bound that a configuration promises for these values.
pub fn resolved_bound<T: Value>(values: &[T], config: &Config) -> f64 {
    let valid = || values.iter().filter(|&&x| !is_exact(x, config.fill)).map(|x| x.to_f64());
    let max = valid().fold(f64::NEG_INFINITY, f64::max);
    let min = valid().fold(f64::INFINITY, f64::min);
    let scale = match config.error_bound {
        ErrorBound::Absolute(value) => return value,
        _ if min > max => 0.0,
        ErrorBound::RelativeToMax(_) => max.max(-min),
        ErrorBound::RelativeToRange(_) => max - min,
    };
    if scale == 0.0 { 0.0 } else { (config.error_bound.value() * scale.min(f64::MAX)).min(f64::MAX) }
}

/// Compresses values twice, decodes them in three ways, and checks everything that can be known of archive, summary and values. Returns
/// the archive.
pub fn check<T: Value>(values: &[T], shape: &[u64], config: &Config) -> Vec<u8> {
    let shape = Shape::new(shape).unwrap();
    let compressor = || Compressor::new(config.clone()).unwrap();

    // Into a writer that holds something already.
    let mut writer = Cursor::new(Vec::new());
    writer.write_all(b"before").unwrap();
    let mut progress = Vec::new();
    let summary = compressor().compress_to(values, &shape, &mut writer, &mut |done| progress.push(done)).unwrap();
    assert_eq!(writer.position(), writer.get_ref().len() as u64);
    let archive = writer.into_inner().split_off(6);
    assert_eq!(progress.last(), Some(&shape.len()));
    assert!(progress.is_sorted() && progress.len() as u64 == summary.chunks);

    // The same bytes again.
    assert!(compressor().compress_slice(values, &shape).unwrap() == archive, "another run gave other bytes");
    let worst_case = bmgard::worst_case_size_with(&shape, T::DTYPE, config.max_chunk_bytes);
    assert!(archive.len() as u64 <= worst_case, "{} bytes, the worst case is {worst_case}", archive.len());

    // Whatever the output held before is replaced.
    let mut decoded = vec![T::from_f64(f64::NAN); values.len()];
    decompress_into(&archive, &mut decoded, config.backend, &mut |_| {}).unwrap();
    let bound = resolved_bound(values, config);
    let worst = assert_kept(values, &decoded, bound, config.fill);
    let comparison = Comparison::new(values, &decoded, Some(bound), config.fill).unwrap();
    assert!(comparison.satisfied() && comparison.max_abs_error == worst, "{comparison:?}");
    let again = decompress::<T>(&archive).unwrap();
    let dims: Vec<u64> = again.shape().iter().map(|&n| n as u64).collect();
    assert_eq!(dims, shape.dims());
    assert!(bits(&again.into_raw_vec_and_offset().0) == bits(&decoded), "the two ways to decode differ");
    for (position, (x, y)) in reference::decode::<T>(&archive).iter().zip(&decoded).enumerate() {
        assert!(x.bits() == y.bits(), "position {position}: a decoder written from the document says {x:?}, not {y:?}");
    }

    // Mode turbo rounds the errors of f32 values to f32.
    let rounded = config.mode == Mode::Turbo && (summary.max_abs_error - worst).abs() <= worst * f64::from(f32::EPSILON);
    let worst = if rounded { summary.max_abs_error } else { worst };
    assert!(worst <= bound);
    let info = inspect(&archive).unwrap();
    let expected = Summary {
        original_bytes: size_of_val(values) as u64,
        compressed_bytes: archive.len() as u64,
        abs_bound: bound,
        max_abs_error: worst,
        values: values.len() as u64,
        exact_values: values.iter().filter(|&&x| is_exact(x, config.fill)).count() as u64,
        patched_values: info.chunks.iter().map(|chunk| chunk.patched_values).sum(),
        chunks: info.chunks.len() as u64,
        raw_chunks: info.chunks.iter().filter(|chunk| chunk.kind == "raw").count() as u64,
    };
    assert_eq!(summary, expected);
    assert_eq!((info.dtype, &info.shape[..], info.error_bound), (T::DTYPE, shape.dims(), config.error_bound));
    assert_eq!((info.abs_bound, info.original_bytes, info.compressed_bytes), (bound, summary.original_bytes, summary.compressed_bytes));
    assert_eq!(info.chunks.iter().map(|chunk| chunk.shape.iter().product::<u64>()).sum::<u64>(), shape.len());
    for chunk in &info.chunks {
        let raw = chunk.shape.iter().product::<u64>() * size_of::<T>() as u64;
        assert!(raw <= config.max_chunk_bytes, "a chunk of {raw} bytes");
        assert!(chunk.bytes <= raw + 24, "a chunk of {} bytes for {raw} raw ones", chunk.bytes);
    }
    archive
}

/// Runs one case; returns its archive.
pub fn run<T: Value>(case: &Case, backend: BackendChoice) -> Vec<u8> {
    let values = case.field.values::<T>(&case.shape, 1);
    check(&values, &case.shape, &Config { backend, ..case.config.clone() })
}

/// Runs all cases on one backend.
pub fn suite<T: Value>(backend: BackendChoice) {
    run_all::<T>(&cases::cases(), backend);
}

/// Runs one group of them.
pub fn suite_of<T: Value>(group: &str, backend: BackendChoice) {
    run_all::<T>(&cases::group(group), backend);
}

/// Runs cases to the end and names all that failed.
fn run_all<T: Value>(cases: &[Case], backend: BackendChoice) {
    let fails = |case: &&Case| catch_unwind(AssertUnwindSafe(|| run::<T>(case, backend))).is_err();
    let failed: Vec<&str> = cases.iter().filter(fails).map(|case| case.name.as_str()).collect();
    assert!(failed.is_empty(), "{} of {} cases failed for {}: {failed:#?}", failed.len(), cases.len(), T::DTYPE);
}
