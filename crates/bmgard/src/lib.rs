//! Error-bounded lossy compression of scientific floating-point fields.
//!
//! Values, a shape and an error bound go in; one self-describing archive comes out, from which every finite value comes back within
//! the bound, and every NaN, infinity and fill value bit for bit. The archive does not depend on the backend, the number of threads or
//! the machine.
//!
//! ```
//! use bmgard::{Compressor, Config, ErrorBound};
//! use ndarray::Array3;
//!
//! let field = Array3::from_shape_fn((20, 30, 40), |(z, y, x)| (0.1 * x as f32).sin() + 0.05 * (y + z) as f32);
//! let archive = Compressor::new(Config::new(ErrorBound::Absolute(1e-3)))?.compress(&field.view())?;
//! let decoded = bmgard::decompress::<f32>(&archive)?;
//! assert!(field.iter().zip(&decoded).all(|(x, y)| (x - y).abs() <= 1e-3));
//! # Ok::<(), bmgard::Error>(())
//! ```

#[cfg(not(target_endian = "little"))]
compile_error!("bmgard reads and writes little-endian values in place; big-endian hosts are not supported");

mod archive;
mod backend;
mod bits;
mod budget;
mod closed;
mod compressor;
mod config;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod conformance;
mod device;
mod engine;
mod error;
mod fill;
mod huffman;
mod info;
mod metrics;
mod packed;
mod patch;
mod pipeline;
mod plan;
#[cfg(feature = "cuda")]
mod resident;
mod shape;
mod special;
mod stages;
mod value;

pub use compressor::{Compressor, Summary, decompress, decompress_into, worst_case_size, worst_case_size_with};
pub use config::{BackendChoice, Config, ErrorBound, ErrorBudget, Mode, Tile};
pub use device::{Device, DeviceSeconds, devices};
pub use error::{Error, Result};
pub use fill::detect_fill;
pub use info::{ArchiveInfo, ChunkInfo, ClassInfo, SectionInfo, inspect};
pub use metrics::Comparison;
#[cfg(feature = "cuda")]
pub use resident::{DeviceMemory, DeviceTimes, device_times};
pub use shape::Shape;
pub use stages::{StageTimes, stage_times};
pub use value::{DType, Value};

/// The code in the README, compiled and run as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
