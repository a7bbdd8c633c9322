//! The CUDA backend: kernels of the crate `kernels-gpu`, embedded as PTX, launched through `cust`.
#![allow(unsafe_code, reason = "kernel launches and uninitialised device memory")]

mod local;

use cust::context::{Context, CurrentContext};
use cust::device::{Device as CudaDevice, DeviceAttribute};
use cust::error::CudaError;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

pub(crate) use local::DeviceValue;

use crate::{Device, Error, Result};

/// The kernels, for compute capability 8.0 and later: the driver translates them for the device at hand.
const PTX: &str = include_str!("../../../../../kernels-gpu/ptx/kernels.ptx");

/// The least compute capability.
const LEAST_CAPABILITY: (u32, u32) = (8, 0);

/// One device with its context, kernels and stream.
pub(crate) struct Cuda {
    // Dropped in this order: the stream and the module live in the context.
    stream: Stream,
    module: Module,
    context: Context,
}

/// A failure of the driver while it worked.
fn failed(error: CudaError) -> Error {
    Error::Device(describe(error))
}

/// The driver's name for an error and its text.
fn describe(error: CudaError) -> String {
    format!("{error:?} ({error})")
}

fn unavailable(reason: impl Into<String>) -> Error {
    Error::BackendUnavailable { backend: "cuda", reason: reason.into() }
}

/// Initialises the driver; returns the number of devices.
fn initialise() -> Result<u32> {
    cuda_loader::driver_available().map_err(|error| unavailable(error.to_string()))?;
    cust::init(cust::CudaFlags::empty()).map_err(|error| unavailable(describe(error)))?;
    CudaDevice::num_devices().map_err(|error| unavailable(describe(error)))
}

fn capability(device: CudaDevice) -> std::result::Result<(u32, u32), CudaError> {
    let attribute = |attribute| device.get_attribute(attribute).map(|value| value.unsigned_abs());
    Ok((attribute(DeviceAttribute::ComputeCapabilityMajor)?, attribute(DeviceAttribute::ComputeCapabilityMinor)?))
}

/// The CUDA devices.
pub(crate) fn devices() -> Result<Vec<Device>> {
    let count = initialise()?;
    let describe_device = |index: u32| {
        let device = CudaDevice::get_device(index)?;
        Ok(Device {
            index,
            name: device.name()?,
            compute_capability: capability(device)?,
            memory_bytes: device.total_memory()? as u64,
            multiprocessors: device.get_attribute(DeviceAttribute::MultiprocessorCount)?.unsigned_abs(),
        })
    };
    (0..count).map(|index| describe_device(index).map_err(failed)).collect()
}

impl Cuda {
    /// Opens a device and loads the kernels.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] without a driver, a device of this index, or one that can run the kernels.
    pub(crate) fn open(index: u32) -> Result<Self> {
        let count = initialise()?;
        if index >= count {
            return Err(unavailable(format!("there is no device {index}: the driver knows {count}")));
        }
        let open = || {
            let device = CudaDevice::get_device(index)?;
            let capability = capability(device)?;
            if capability < LEAST_CAPABILITY {
                return Ok(Err(capability));
            }
            let context = Context::new(device)?;
            let module = Module::from_ptx(PTX, &[])?;
            let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
            Ok(Ok(Self { stream, module, context }))
        };
        match open() {
            Ok(Ok(cuda)) => Ok(cuda),
            Ok(Err((major, minor))) => {
                Err(unavailable(format!("device {index} has compute capability {major}.{minor}, but 8.0 is needed")))
            }
            Err(error) => Err(unavailable(describe(error))),
        }
    }

    /// Makes the device's context the calling thread's.
    fn enter(&self) -> Result<()> {
        CurrentContext::set_current(&self.context).map_err(failed)
    }
}
