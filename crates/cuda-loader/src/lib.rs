#![doc = include_str!("../README.md")]
// The crate exists to call a C library that is found at run time.
#![allow(unsafe_code)]

#[allow(non_snake_case, reason = "the driver's own names")]
mod symbols;

use std::error::Error;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use libloading::Library;

/// The driver's file name, the same in every version.
const DRIVER: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// What any use of a GPU needs; other functions may come and go with versions.
const REQUIRED: &[&str] = &[
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuStreamCreateWithPriority",
    "cuStreamSynchronize",
    "cuEventRecord",
];

/// Why there is no CUDA driver to use.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system's loader does not find the driver's library, or cannot load it.
    #[error("no CUDA driver: {0}")]
    NotFound(String),
    /// The library lacks a function that every use of a GPU needs: it is not a driver, or one from before CUDA 7.
    #[error("the CUDA driver lacks the function {0}")]
    MissingSymbol(&'static str),
}

/// Whether a CUDA driver can be used here, and if not, why. Whether there is a device is the driver's to say: `cust::quick_init`.
pub fn driver_available() -> Result<(), LoadError> {
    link();
    let library = library().as_ref().map_err(Clone::clone)?;
    for &name in REQUIRED {
        // SAFETY: the symbol is looked up, not used.
        let symbol = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(name.as_bytes()) };
        symbol.map_err(|_| LoadError::MissingSymbol(name))?;
    }
    Ok(())
}

/// Makes the linker keep the driver's functions that this crate defines. A program that uses `cust` calls this, or another function of this crate, once somewhere.
pub fn link() {
    for symbol in symbols::ALL {
        std::hint::black_box(symbol.0);
    }
}

/// The driver's library, opened by the first call and never closed.
fn library() -> &'static Result<Library, LoadError> {
    static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    LIBRARY.get_or_init(|| open(DRIVER))
}

fn open(name: &str) -> Result<Library, LoadError> {
    // SAFETY: loading a library runs its initialisers; the driver's are made to be run so by any program.
    unsafe { Library::new(name) }.map_err(|error| {
        // The loader's own words are in the source of the error.
        let reason = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
        LoadError::NotFound(reason)
    })
}

/// An error code of the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DriverError(pub c_int);

impl DriverError {
    fn check(code: c_int) -> Result<(), Self> {
        if code == symbols::SUCCESS { Ok(()) } else { Err(DriverError(code)) }
    }

    /// The driver's name for the error: `CUDA_ERROR_INVALID_VALUE`.
    pub fn name(self) -> &'static str {
        let mut name = std::ptr::null();
        // SAFETY: `name` can be written to.
        let code = unsafe { symbols::cuGetErrorName(self.0 as c_uint, &mut name) };
        if code != symbols::SUCCESS || name.is_null() {
            return "an error that the CUDA driver does not know";
        }
        // SAFETY: the driver gives a string that ends in NUL and that it never changes or frees.
        unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("an error with an unreadable name")
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverError({}: {})", self.0, self.name())
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl Error for DriverError {}

/// What can be set on a function by [`set_function_attribute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum FunctionAttribute {
    /// The most dynamic shared memory, in bytes, that a launch may ask for: 48 KB unless set.
    MaxDynamicSharedSizeBytes = 8,
    /// The share of a multiprocessor's memory to use as shared memory, in per cent; -1 is the driver's choice.
    PreferredSharedMemoryCarveout = 9,
}

/// Sets an attribute of a kernel.
///
/// # Safety
///
/// `function` is a live `CUfunction`, as `cust::function::Function::to_raw` gives it.
pub unsafe fn set_function_attribute(function: *mut c_void, attribute: FunctionAttribute, value: i32) -> Result<(), DriverError> {
    // SAFETY: passed on to the caller.
    DriverError::check(unsafe { symbols::cuFuncSetAttribute(function, attribute as c_uint, value) })
}

/// Free and total memory, in bytes, of the device of the current context.
pub fn memory_info() -> Result<(usize, usize), DriverError> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both can be written to; without a context the driver says so.
    DriverError::check(unsafe { symbols::cuMemGetInfo_v2(&mut free, &mut total) })?;
    Ok((free, total))
}

/// Locks `bytes` bytes of host memory into RAM, so that copies to and from the device run at full speed and asynchronously.
///
/// # Safety
///
/// The memory is valid, and stays so until [`unregister_host_memory`].
pub unsafe fn register_host_memory(start: *mut c_void, bytes: usize) -> Result<(), DriverError> {
    // SAFETY: passed on to the caller.
    DriverError::check(unsafe { symbols::cuMemHostRegister_v2(start, bytes, 0) })
}

/// Unlocks what [`register_host_memory`] locked.
///
/// # Safety
///
/// `start` was registered, and no copy of that memory is under way.
pub unsafe fn unregister_host_memory(start: *mut c_void) -> Result<(), DriverError> {
    // SAFETY: passed on to the caller.
    DriverError::check(unsafe { symbols::cuMemHostUnregister(start) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = open("libno-such-driver.so.1").expect_err("there is no such library");
        assert!(error.to_string().contains("libno-such-driver.so.1"), "{error}");
    }

    #[test]
    fn errors_have_names_with_and_without_a_driver() {
        assert_eq!(DriverError(symbols::NO_DEVICE).to_string(), "CUDA_ERROR_NO_DEVICE (100)");
    }
}
