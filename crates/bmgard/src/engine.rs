//! The backends behind one face.

#[cfg(not(feature = "cuda"))]
use crate::Error;
use crate::archive::Chunk;
#[cfg(feature = "cuda")]
use crate::backend::cuda::Cuda;
use crate::backend::{Backend, FieldStatistics, cpu::Cpu};
use crate::pipeline::{self, Compressed, FieldPlan};
use crate::plan::Dims;
use crate::{BackendChoice, DeviceSeconds, Result, Value};

/// A backend that was opened.
pub(crate) enum Engine {
    Cpu(Cpu),
    #[cfg(feature = "cuda")]
    Cuda(Box<Cuda>),
}

/// Runs an expression for whichever backend it is.
macro_rules! with_backend {
    ($engine:expr, $backend:ident => $body:expr) => {
        match $engine {
            Engine::Cpu($backend) => $body,
            #[cfg(feature = "cuda")]
            Engine::Cuda($backend) => {
                let $backend = &mut **$backend;
                $body
            }
        }
    };
}

pub(crate) use with_backend;

impl Engine {
    /// Opens the backend for a choice; `Auto` takes the first device that answers and passes its self-test, else the CPU.
    ///
    /// # Errors
    /// [`crate::Error::BackendUnavailable`] where the backend asked for cannot be had.
    pub(crate) fn open(choice: BackendChoice) -> Result<Self> {
        match choice {
            BackendChoice::Cpu => Ok(Self::Cpu(Cpu)),
            BackendChoice::Cuda => Self::open_cuda(),
            BackendChoice::Auto => Ok(Self::open_cuda().unwrap_or(Self::Cpu(Cpu))),
        }
    }

    #[cfg(feature = "cuda")]
    fn open_cuda() -> Result<Self> {
        Cuda::open(0).map(|cuda| Self::Cuda(Box::new(cuda)))
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda() -> Result<Self> {
        Err(Error::BackendUnavailable { backend: "cuda", reason: "this build has no CUDA backend (feature `cuda`)".into() })
    }

    /// [`crate::Compressor::take_device_seconds`].
    pub(crate) fn take_device_seconds(&self) -> Option<DeviceSeconds> {
        match self {
            Self::Cpu(_) => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Some(cuda.take_seconds()),
        }
    }

    /// `cpu` or `cuda`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => "cuda",
        }
    }

    pub(crate) fn statistics<T: Value>(&mut self, values: &[T], fill: Option<T>) -> Result<FieldStatistics<T>> {
        with_backend!(self, backend => backend.statistics(values, fill))
    }

    /// [`pipeline::compress_chunk`].
    pub(crate) fn compress_chunk<'a, T: Value>(&mut self, field: &FieldPlan<T>, dims: Dims, values: &'a [T]) -> Result<Compressed<'a>> {
        with_backend!(self, backend => pipeline::compress_chunk(backend, field, dims, values))
    }

    /// [`pipeline::decompress_chunk`].
    pub(crate) fn decompress_chunk<T: Value>(&mut self, dims: Dims, d: usize, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
        with_backend!(self, backend => pipeline::decompress_chunk(backend, dims, d, chunk, out))
    }
}
