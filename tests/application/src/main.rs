//! Compresses a field, decompresses it, and checks the bound.

use bmgard::{Compressor, Config, ErrorBound};
use ndarray::Array3;

const BOUND: f64 = 1e-3;

fn main() -> Result<(), bmgard::Error> {
    let field = Array3::from_shape_fn((40, 50, 60), |(z, y, x)| ((z + y) as f32 * 0.1).sin() + x as f32 * 0.01);
    let mut compressor = Compressor::new(Config::new(ErrorBound::Absolute(BOUND)))?;
    let archive = compressor.compress(&field.view())?;
    let decoded = bmgard::decompress::<f32>(&archive)?;
    assert_eq!(decoded.shape(), field.shape());
    let errors = field.iter().zip(&decoded).map(|(&x, &y)| (f64::from(x) - f64::from(y)).abs());
    let worst = errors.fold(0.0, f64::max);
    assert!(worst <= BOUND, "the worst error is {worst:e}, the bound {BOUND:e}");
    let ratio = (size_of::<f32>() * field.len()) as f64 / archive.len() as f64;
    println!("backend {}: ratio {ratio:.1}, worst error {worst:.2e}, bound {BOUND:e}", compressor.backend_name());
    Ok(())
}
