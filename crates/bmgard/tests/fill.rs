//! Valid values beside the fill value.

use std::io::Cursor;

use bmgard::{BackendChoice, Compressor, Config, ErrorBound, Mode, Shape, decompress};

#[test]
fn no_valid_value_comes_back_as_the_fill_value() {
    // Without levels a small value is 0 steps: it would decode to the fill value exactly.
    let shape = Shape::new(&[5000]).unwrap();
    let fill = 0.0f32;
    let values: Vec<f32> = (0..5000).map(|i| [fill, 0.1, -0.3].get(i % 50).copied().unwrap_or(7.0)).collect();
    let (local_levels, global_levels) = (Some(0), Some(0));
    let bound = ErrorBound::Absolute(0.5);
    let config =
        Config { mode: Mode::Paper, fill: Some(0.0), backend: BackendChoice::Cpu, local_levels, global_levels, ..Config::new(bound) };
    let mut archive = Cursor::new(Vec::new());
    let summary = Compressor::new(config).unwrap().compress_to(&values, &shape, &mut archive, &mut |_| {}).unwrap();
    let archive = archive.into_inner();
    assert!(archive.len() < 5000);
    let decoded = decompress::<f32>(&archive).unwrap();
    for (&x, &y) in values.iter().zip(&decoded) {
        assert_eq!(x == fill, y == fill, "{x} came back as {y}");
        assert!((x - y).abs() <= 0.5);
    }
    // The errors of what was patched for that are gone.
    let errors = values.iter().zip(&decoded).map(|(&x, &y)| (f64::from(x) - f64::from(y)).abs());
    assert_eq!(summary.max_abs_error, errors.fold(0.0, f64::max));
}
