//! SZ3 and zfp, in the same process on the same values at the same bound.
//!
//! Both are called with the settings that their own programs have by default, on one thread: SZ3 with its interpolation-Lorenzo
//! algorithm and an absolute bound, zfp with a fixed accuracy. Their crates compile them for the target's baseline processor (no AVX
//! on x86-64, unless CFLAGS and CXXFLAGS say so), where bmgard finds out at run time what there is. Neither knows of fill values.

#![allow(unsafe_code, reason = "zfp has a C interface only")]

use std::ffi::c_void;

use bmgard::Shape;
use sz3::{Config, DimensionedData, ErrorBound, SZ3Compressible, SZ3Error};

use super::codec::Codec;
use crate::failure::{Failure, Kind, OrFail, Outcome};

/// Types that the rivals take.
pub trait Rival: SZ3Compressible + bytemuck::Pod {
    /// zfp's name of the type.
    const ZFP_TYPE: zfp_sys::zfp_type;
}

impl Rival for f32 {
    const ZFP_TYPE: zfp_sys::zfp_type = zfp_sys::zfp_type_zfp_type_float;
}

impl Rival for f64 {
    const ZFP_TYPE: zfp_sys::zfp_type = zfp_sys::zfp_type_zfp_type_double;
}

/// The dimensions longer than 1, slowest first; one at least.
fn dims(shape: &Shape) -> Vec<usize> {
    let dims: Vec<usize> = shape.dims().iter().filter(|&&n| n > 1).map(|&n| n as usize).collect();
    if dims.is_empty() { vec![1] } else { dims }
}

/// SZ3.
pub struct Sz3 {
    bound: f64,
    archive: Vec<u8>,
}

impl Sz3 {
    /// With this absolute bound.
    pub fn new(bound: f64) -> Self {
        Self { bound, archive: Vec::new() }
    }
}

impl<T: Rival> Codec<T> for Sz3 {
    fn name(&self) -> String {
        "SZ3 3.3.2".into()
    }

    fn backend(&self) -> String {
        "cpu".into()
    }

    fn threads(&self) -> usize {
        1
    }

    fn compress(&mut self, values: &[T], shape: &Shape) -> Outcome {
        let mut compress = || -> Result<(), SZ3Error> {
            let mut field = DimensionedData::<T, _>::build(&values);
            for n in dims(shape) {
                field = field.dim(n)?;
            }
            let config = Config::new(ErrorBound::Absolute(self.bound));
            self.archive.clear();
            sz3::compress_into_with_config(&field.finish()?, &config, &mut self.archive)
        };
        compress().or_fail(Kind::Failed, || "SZ3 failed")
    }

    fn archive_bytes(&self) -> u64 {
        self.archive.len() as u64
    }

    fn decompress(&mut self, values: &mut [T], shape: &Shape) -> Outcome {
        let decompress = || -> Result<(), SZ3Error> {
            let mut target = values;
            let mut field = DimensionedData::<T, _>::build_mut(&mut target);
            for n in dims(shape) {
                field = field.dim(n)?;
            }
            sz3::decompress_into_dimensioned(self.archive.as_slice(), &mut field.finish()?).map(|_| ())
        };
        decompress().or_fail(Kind::Failed, || "SZ3 failed")
    }
}

/// zfp.
pub struct Zfp {
    tolerance: f64,
    /// zfp writes whole words.
    archive: Vec<u64>,
    bytes: usize,
}

impl Zfp {
    /// With this tolerance.
    pub fn new(tolerance: f64) -> Self {
        Self { tolerance, archive: Vec::new(), bytes: 0 }
    }

    /// Runs `work` with a zfp stream of our settings and a field of these values, which `work` may write only where the caller has
    /// them mutably.
    fn with_field<T: Rival>(
        &mut self,
        values: *mut T,
        shape: &Shape,
        work: impl FnOnce(&mut Self, *mut zfp_sys::zfp_stream, *mut zfp_sys::zfp_field) -> usize,
    ) -> Outcome<usize> {
        let (kind, pointer) = (T::ZFP_TYPE, values.cast::<c_void>());
        // SAFETY: plain constructors; what they return is freed below, and the field's pointer and extent are those of the caller's
        // slice, which outlives the call.
        let done = unsafe {
            let field = match dims(shape)[..] {
                [x] => zfp_sys::zfp_field_1d(pointer, kind, x),
                [y, x] => zfp_sys::zfp_field_2d(pointer, kind, x, y),
                [z, y, x] => zfp_sys::zfp_field_3d(pointer, kind, x, y, z),
                [w, z, y, x] => zfp_sys::zfp_field_4d(pointer, kind, x, y, z, w),
                _ => std::ptr::null_mut(),
            };
            let stream = zfp_sys::zfp_stream_open(std::ptr::null_mut());
            let ready = !field.is_null() && !stream.is_null();
            let done = if ready {
                zfp_sys::zfp_stream_set_accuracy(stream, self.tolerance);
                work(self, stream, field)
            } else {
                0
            };
            zfp_sys::zfp_field_free(field);
            zfp_sys::zfp_stream_close(stream);
            done
        };
        if done == 0 { Err(Failure::new(Kind::Failed, "zfp failed")) } else { Ok(done) }
    }

    /// Runs `work` with the archive's bytes behind the stream.
    ///
    /// # Safety
    /// `stream` must be a valid zfp stream.
    unsafe fn with_bits(&mut self, stream: *mut zfp_sys::zfp_stream, work: impl FnOnce() -> usize) -> usize {
        let bytes = size_of_val(self.archive.as_slice());
        // SAFETY: the bit stream covers exactly the archive's words, and is closed before they can move.
        unsafe {
            let bits = zfp_sys::stream_open(self.archive.as_mut_ptr().cast(), bytes);
            zfp_sys::zfp_stream_set_bit_stream(stream, bits);
            zfp_sys::zfp_stream_rewind(stream);
            let done = work();
            zfp_sys::stream_close(bits);
            done
        }
    }
}

impl<T: Rival> Codec<T> for Zfp {
    fn name(&self) -> String {
        "zfp 1.0".into()
    }

    fn backend(&self) -> String {
        "cpu".into()
    }

    fn threads(&self) -> usize {
        1
    }

    fn compress(&mut self, values: &[T], shape: &Shape) -> Outcome {
        // zfp's field takes a mutable pointer for both directions; compression only reads through it.
        self.bytes = self.with_field(values.as_ptr().cast_mut(), shape, |this, stream, field| {
            // SAFETY: both are valid; the archive is given zfp's own bound of what it writes.
            unsafe {
                let most = zfp_sys::zfp_stream_maximum_size(stream, field);
                this.archive.resize(most.div_ceil(8), 0);
                this.with_bits(stream, || zfp_sys::zfp_compress(stream, field))
            }
        })?;
        Ok(())
    }

    fn archive_bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn decompress(&mut self, values: &mut [T], shape: &Shape) -> Outcome {
        // SAFETY: both are valid, the field's memory is the caller's mutable slice, and the archive is what `compress` wrote for the
        // same shape and tolerance.
        self.with_field(values.as_mut_ptr(), shape, |this, stream, field| unsafe {
            this.with_bits(stream, || zfp_sys::zfp_decompress(stream, field))
        })?;
        Ok(())
    }
}
