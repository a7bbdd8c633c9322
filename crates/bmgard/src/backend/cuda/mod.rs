//! The CUDA backend: kernels of the crate `kernels-gpu`, embedded as PTX, launched through `cust`.
#![allow(unsafe_code, reason = "kernel launches and uninitialised device memory")]
#![allow(clippy::too_many_arguments, reason = "stages take what their kernels take")]

mod archive;
mod closed;
mod event;
mod levels;
mod mail;
mod memory;
mod packed;
mod resident;
mod selftest;
mod stages;
mod staging;
mod trials;

use std::cell::RefCell;
use std::io::Read;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cust::context::{Context, CurrentContext};
use cust::device::{Device as CudaDevice, DeviceAttribute};
use cust::error::CudaError;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use flate2::read::GzDecoder;

pub use levels::DeviceValue;
use mail::Mail;
pub(crate) use memory::Buffer;
use memory::Pool;
pub(crate) use resident::Place;
use staging::Staging;

use crate::{Device, Error, Result};

/// The kernels, for compute capability 8.0 and later: the driver translates them for the device at hand.
/// Packed by `build.rs`.
const PTX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.ptx.gz"));

/// The least compute capability.
const LEAST_CAPABILITY: (u32, u32) = (8, 0);

/// A device's context and kernels: loaded once in a process, and shared by all who use the device.
struct Loaded {
    // Dropped in this order: the module lives in the context.
    module: Module,
    context: Context,
    /// Whether the kernels give the CPU's results here; told once.
    tested: OnceLock<std::result::Result<(), String>>,
}

// SAFETY: both are handles of the driver, which may be used from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above; nothing here changes them.
unsafe impl Sync for Loaded {}

/// The length of a dimension and the bytes of a value, and the tables.
type Tables = ((u64, usize), Arc<Buffer<u64>>);

/// One user's stream and memory on a device.
pub(crate) struct Cuda {
    // Dropped in this order: memory and the stream live in the context.
    pool: Arc<Pool>,
    /// Tables of dimensions that were solved along, by length and bytes of a value.
    tables: RefCell<Vec<Tables>>,
    /// What kernels of packed tiles look up.
    packed: RefCell<Vec<packed::Tables>>,
    staging: Staging,
    mail: Mail,
    stream: Stream,
    /// For kernels that may run beside each other.
    side: Vec<Stream>,
    loaded: Arc<Loaded>,
}

/// Queues a kernel on the stream of `$cuda`. Its arguments must be what the kernel's own documentation asks for.
macro_rules! queue {
    ($cuda:expr, $name:expr, $launch:expr, ($($argument:expr),* $(,)?)) => {
        queue!($cuda, &$cuda.stream, $name, $launch, ($($argument),*))
    };
    ($cuda:expr, $stream:expr, $name:expr, $launch:expr, ($($argument:expr),* $(,)?)) => {{
        let run = || {
            let function = $cuda.loaded.module.get_function($name)?;
            let (blocks, threads, shared): (u32, u32, u32) = $launch;
            let stream = $stream;
            // SAFETY: callers pass buffers of the sizes that the kernel's documentation names.
            unsafe { cust::launch!(function<<<blocks, threads, shared, stream>>>($($argument),*)) }
        };
        run().map_err($crate::backend::cuda::failed)
    }};
}
use queue;

/// Streams beside the main one: levels after the finest are small, and take their time whatever their size.
const SIDE_STREAMS: usize = 4;

/// The one for checksums, which goes with none of the levels.
const CHECKSUM_STREAM: usize = SIDE_STREAMS;

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

impl Loaded {
    /// The device's context and kernels, loaded by the first call.
    fn get(index: u32) -> Result<Arc<Self>> {
        static LOADED: Mutex<Vec<(u32, Arc<Loaded>)>> = Mutex::new(Vec::new());
        let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = all.iter().find(|(other, _)| *other == index) {
            return Ok(Arc::clone(loaded));
        }
        let mut ptx = String::new();
        GzDecoder::new(PTX).read_to_string(&mut ptx)?;
        let load = || {
            let device = CudaDevice::get_device(index)?;
            let capability = capability(device)?;
            if capability < LEAST_CAPABILITY {
                return Ok(Err(capability));
            }
            let context = Context::new(device)?;
            let module = Module::from_ptx(&ptx, &[])?;
            stages::allow_shared_memory(&module)?;
            Ok(Ok(Self { module, context, tested: OnceLock::new() }))
        };
        match load() {
            Ok(Ok(loaded)) => {
                let loaded = Arc::new(loaded);
                all.push((index, Arc::clone(&loaded)));
                Ok(loaded)
            }
            Ok(Err((major, minor))) => {
                Err(unavailable(format!("device {index} has compute capability {major}.{minor}, but 8.0 is needed")))
            }
            Err(error) => Err(unavailable(describe(error))),
        }
    }
}

impl Cuda {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] without a driver, a device of this index, or one that can run the kernels and passes the
    /// self-test.
    pub(crate) fn open(index: u32) -> Result<Self> {
        let count = initialise()?;
        if index >= count {
            return Err(unavailable(format!("there is no device {index}: the driver knows {count}")));
        }
        let loaded = Loaded::get(index)?;
        CurrentContext::set_current(&loaded.context).map_err(|error| unavailable(describe(error)))?;
        let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).map_err(|error| unavailable(describe(error)));
        let side = (0..=CHECKSUM_STREAM).map(|_| stream()).collect::<Result<_>>()?;
        let mut cuda = Self {
            pool: Arc::default(),
            tables: RefCell::default(),
            packed: RefCell::default(),
            staging: Staging::default(),
            mail: Mail::new()?,
            stream: stream()?,
            side,
            loaded: Arc::clone(&loaded),
        };
        let tested = loaded.tested.get_or_init(|| selftest::run(&mut cuda));
        tested.clone().map_err(|reason| unavailable(format!("device {index} fails its self-test: {reason}")))?;
        Ok(cuda)
    }

    /// Makes the main stream wait for the others.
    fn join(&self) -> Result<()> {
        for side in &self.side {
            let done = event::Event::new()?;
            done.record(side)?;
            done.hold(&self.stream)?;
        }
        Ok(())
    }

    /// Makes the device's context the calling thread's.
    pub(crate) fn enter(&self) -> Result<()> {
        CurrentContext::set_current(&self.loaded.context).map_err(failed)
    }
}
