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

/// What compressing values of the host's memory spent on a device, the copies of values and archive left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceSeconds {
    /// By the device's clock: from the first kernel's start to the last one's end, chunk by chunk. It includes what the device waits for
    /// the host between them.
    pub kernels: f64,
    /// By the host's: from the values in the device's memory to the coded bytes there, launches and waits included.
    pub device: f64,
}
