//! Valid values beside the fill value.

use bmgard::{BackendChoice, Compressor, Config, ErrorBound, Shape, decompress};

#[test]
fn no_valid_value_comes_back_as_the_fill_value() {
    let shape = Shape::new(&[16, 24, 40]).unwrap();
    let fill = 0.0f32;
    let values: Vec<f32> = (0..shape.len()).map(|i| if i % 7 == 0 { fill } else { 0.02 * ((i * i % 101) as f32 - 50.3) }).collect();
    for bound in [0.5, 0.1, 1e-3] {
        let config = Config { fill: Some(0.0), backend: BackendChoice::Cpu, ..Config::new(ErrorBound::Absolute(bound)) };
        let archive = Compressor::new(config).unwrap().compress_slice(&values, &shape).unwrap();
        let decoded = decompress::<f32>(&archive).unwrap();
        for (&x, &y) in values.iter().zip(&decoded) {
            assert_eq!(x == fill, y == fill, "{x} came back as {y} within {bound}");
            assert!((f64::from(x) - f64::from(y)).abs() <= bound);
        }
    }
}
