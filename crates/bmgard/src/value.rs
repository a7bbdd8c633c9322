//! Element types.

use std::fmt;
use std::str::FromStr;

use bmgard_core::Real;
use serde::Serialize;

use crate::{Error, Result};

/// The element type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl DType {
    /// Bytes per value.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "f32" | "float32" => Ok(Self::F32),
            "f64" | "float64" => Ok(Self::F64),
            _ => Err(Error::InvalidConfig(format!("unknown type {text:?}: f32 and f64 are known"))),
        }
    }
}

/// f32 or f64.
pub trait Value: Real + bytemuck::Pod + fmt::Debug + fmt::Display + sealed::Sealed {
    /// The type's name.
    const DTYPE: DType;

    /// The bit pattern, zero-extended.
    #[must_use]
    fn bits(self) -> u64 {
        self.to_bits_u64()
    }
}

impl Value for f32 {
    const DTYPE: DType = DType::F32;
}

impl Value for f64 {
    const DTYPE: DType = DType::F64;
}

mod sealed {
    #[cfg(feature = "cuda")]
    pub trait Sealed: crate::backend::cuda::DeviceValue {}
    #[cfg(not(feature = "cuda"))]
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
