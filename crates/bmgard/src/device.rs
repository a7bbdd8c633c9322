//! GPUs.

use serde::Serialize;

use crate::Result;

/// A CUDA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The driver's number for it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
}

/// The CUDA devices of this machine.
///
/// # Errors
/// [`crate::Error::BackendUnavailable`] without a driver or a device, or where the library was built without the feature `cuda`;
/// [`crate::Error::Device`] where the driver fails.
pub fn devices() -> Result<Vec<Device>> {
    #[cfg(feature = "cuda")]
    return crate::backend::cuda::devices();
    #[cfg(not(feature = "cuda"))]
    return Err(crate::Error::BackendUnavailable { backend: "cuda", reason: "this build has no CUDA backend (feature `cuda`)".into() });
}
