//! The one error type of the library.

use std::io;

use crate::DType;

/// What the library's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong. Each message names what was wrong and, where there is one, what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The error bound asked for is zero, negative, NaN or infinite.
    #[error("the error bound must be a finite number greater than 0, not {value}")]
    InvalidBound {
        /// The number that was given.
        value: f64,
    },
    /// The shape is empty, has a zero or has too many dimensions, or its values do not fit the address space.
    #[error("invalid shape {shape}: {reason}")]
    InvalidShape {
        /// The shape as given, slowest dimension first.
        shape: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// The number of values given differs from the shape's.
    #[error("shape {shape} has {expected} values, but {actual} were given")]
    LengthMismatch {
        /// The shape, slowest dimension first.
        shape: String,
        /// The number of values that the shape asks for.
        expected: u64,
        /// The number of values given.
        actual: u64,
    },
    /// The explicit numbers of levels do not fit the shape.
    #[error("{reason}")]
    InvalidLevels {
        /// Which number does not fit, and which numbers would.
        reason: String,
    },
    /// A combination of settings that makes no sense or does not exist yet.
    #[error("{0}")]
    InvalidConfig(String),
    /// The archive holds values of another type than the one asked for.
    #[error("the archive holds {stored} values, but {requested} was asked for")]
    WrongType {
        /// The type in the archive.
        stored: DType,
        /// The type asked for.
        requested: DType,
    },
    /// The bytes are not a bmgard archive.
    #[error("not a bmgard archive: {0}")]
    NotAnArchive(String),
    /// The archive was written by a format version that this release cannot read.
    #[error("the archive has format version {found}, but this release reads versions 1 to {supported}")]
    UnsupportedVersion {
        /// The version in the archive.
        found: u16,
        /// The newest version that this release reads.
        supported: u16,
    },
    /// The archive ends early, a checksum is wrong, or its parts contradict each other.
    #[error("the archive is damaged: {0}")]
    Corrupt(String),
    /// The backend asked for cannot be used: no driver, no device, or the library was built without it.
    #[error("backend {backend} is not available: {reason}")]
    BackendUnavailable {
        /// The backend's name.
        backend: &'static str,
        /// Why not, with the driver's own name for it where there is one.
        reason: String,
    },
    /// The memory given for an archive is too small.
    #[error("the memory given for the archive is at least {missing} bytes too small (worst_case_size says what is enough for any values)")]
    OutputTooSmall {
        /// How many bytes more are needed, at least.
        missing: u64,
    },
    /// The device or its driver failed while it worked.
    #[error("the device failed: {0}")]
    Device(String),
    /// Reading or writing failed.
    #[error("input or output failed")]
    Io(#[from] io::Error),
}
