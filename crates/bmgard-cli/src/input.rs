//! Fields and archives from files and standard input.
//!
//! Files are mapped, so that a field larger than the memory can be read and no copy is made. A file that another program shortens
//! while it is mapped ends this process with SIGBUS; the output is not there then, as after any other end.

#![allow(unsafe_code, reason = "a file can be mapped in no other way")]

use std::fs::File;
use std::io::{Read, stdin};
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use bmgard::{DType, Shape, Value};
use memmap2::Mmap;
use ndarray::ArrayViewD;
use ndarray_npy::{ViewElement, ViewNpyError, ViewNpyExt};

use crate::args::LayoutArgs;
use crate::failure::{Failure, Kind, OrFail, Outcome};
use crate::names;

/// Whether a path stands for standard input or output.
pub fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How messages call an input.
pub fn name(path: &Path) -> String {
    if is_stdio(path) { "standard input".into() } else { path.display().to_string() }
}

/// The bytes of a file.
pub enum Bytes {
    /// Of an ordinary file.
    Mapped(Mmap),
    /// Of standard input, a pipe and the like.
    Read(Vec<u8>),
}

impl Bytes {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Outcome<Self> {
        let cannot = || format!("cannot read {}", name(path));
        if is_stdio(path) {
            let mut bytes = Vec::new();
            stdin().lock().read_to_end(&mut bytes).or_fail(Kind::BadFile, cannot)?;
            return Ok(Self::Read(bytes));
        }
        let file = File::open(path).or_fail(Kind::BadFile, cannot)?;
        if file.metadata().or_fail(Kind::BadFile, cannot)?.is_dir() {
            return Err(Failure::new(Kind::BadFile, format!("{}: it is a folder", cannot())));
        }
        Self::of(&file).or_fail(Kind::BadFile, cannot)
    }

    /// The whole of an open file.
    pub fn of(mut file: &File) -> std::io::Result<Self> {
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() > 0 {
            // SAFETY: the mapping is private to this value and read only. Another process that writes to the file meanwhile could
            // change bytes under a shared reference; that is inherent to reading a file that is being written, and every consumer
            // treats the bytes as untrusted: no invariant of a type depends on them.
            Ok(Self::Mapped(unsafe { Mmap::map(file)? }))
        } else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(Self::Read(bytes))
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

/// Values in the file that they came from, or in memory where that does not align them.
pub enum Values<T> {
    /// The last bytes of a file, from this offset on: aligned, and a whole number of values.
    InFile(Bytes, usize, PhantomData<T>),
    /// A copy.
    Owned(Vec<T>),
}

impl<T: Value> Values<T> {
    /// Takes the bytes from `start` on, whose number must be a multiple of the value's size.
    fn new(bytes: Bytes, start: usize) -> Self {
        if bytemuck::try_cast_slice::<u8, T>(&bytes[start..]).is_ok() {
            Self::InFile(bytes, start, PhantomData)
        } else {
            Self::Owned(bytemuck::pod_collect_to_vec(&bytes[start..]))
        }
    }
}

impl<T: Value> Deref for Values<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::InFile(bytes, start, _) => bytemuck::cast_slice(&bytes[*start..]),
            Self::Owned(values) => values,
        }
    }
}

/// Values of either type.
pub enum AnyValues {
    /// f32.
    F32(Values<f32>),
    /// f64.
    F64(Values<f64>),
}

/// Runs the same expression on the values of either type.
macro_rules! with_values {
    ($any:expr, $values:ident => $body:expr) => {
        match $any {
            $crate::input::AnyValues::F32($values) => $body,
            $crate::input::AnyValues::F64($values) => $body,
        }
    };
}
pub(crate) use with_values;

/// A field with its shape.
pub struct Field {
    /// The shape.
    pub shape: Shape,
    /// As many values as the shape has.
    pub values: AnyValues,
}

impl Field {
    /// The type.
    pub fn dtype(&self) -> DType {
        match self.values {
            AnyValues::F32(_) => DType::F32,
            AnyValues::F64(_) => DType::F64,
        }
    }

    /// Opens a field: explicit flags come first, then what the file's format or name tells, then `fallback`.
    pub fn open(path: &Path, layout: &LayoutArgs, fallback: Option<&Self>) -> Outcome<Self> {
        let bytes = Bytes::open(path)?;
        if bytes.starts_with(NPY_MAGIC) || names::is_npy(path) {
            return Self::from_npy(path, bytes, layout);
        }
        Self::from_raw(path, bytes, layout, fallback)
    }

    fn from_raw(path: &Path, bytes: Bytes, layout: &LayoutArgs, fallback: Option<&Self>) -> Outcome<Self> {
        let dtype = layout.dtype.or_else(|| names::dtype(path)).or(fallback.map(Self::dtype)).ok_or_else(|| {
            Failure::new(Kind::Usage, format!("the type of {}'s values is unknown: add --dtype f32 or --dtype f64", name(path)))
        })?;
        let (shape, origin) = match (&layout.shape, names::shape(path), fallback) {
            (Some(shape), ..) => (shape.clone(), "--shape"),
            (_, Some(shape), _) => (shape, "the file's name"),
            (.., Some(original)) => (original.shape.clone(), "the original"),
            _ => {
                let message = format!(
                    "the shape of {} is unknown: add --shape ({} bytes are {} values of {dtype})",
                    name(path),
                    bytes.len(),
                    bytes.len() / dtype.size()
                );
                return Err(Failure::new(Kind::Usage, message));
            }
        };
        // At most 2^60 values of 8 bytes: no overflow.
        if shape.len() * dtype.size() as u64 != bytes.len() as u64 {
            return Err(Failure::new(Kind::Usage, mismatch(path, bytes.len() as u64, &shape, dtype, origin)));
        }
        Ok(Self::new(shape, dtype, bytes, 0))
    }

    fn new(shape: Shape, dtype: DType, bytes: Bytes, start: usize) -> Self {
        let values = match dtype {
            DType::F32 => AnyValues::F32(Values::new(bytes, start)),
            DType::F64 => AnyValues::F64(Values::new(bytes, start)),
        };
        Self { shape, values }
    }

    fn from_npy(path: &Path, bytes: Bytes, layout: &LayoutArgs) -> Outcome<Self> {
        let bad = |failure: Failure| failure.context(format!("cannot read {} as NumPy's .npy", name(path)));
        check_npy_header(&bytes).map_err(bad)?;
        let (dims, dtype) = match npy_dims::<f32>(&bytes) {
            Err(ViewNpyError::WrongDescriptor(_)) => (npy_dims::<f64>(&bytes), DType::F64),
            result => (result, DType::F32),
        };
        let dims = dims.map_err(|error| bad(explain(error)))?.ok_or_else(|| {
            bad(Failure::new(
                Kind::BadFile,
                "its values are in Fortran order; save them in C order: np.save(path, np.ascontiguousarray(array))",
            ))
        })?;
        if let Some(wanted) = layout.dtype.filter(|&wanted| wanted != dtype) {
            return Err(bad(Failure::new(Kind::Usage, format!("it holds {dtype} values, but --dtype {wanted} was given"))));
        }
        let stored: u64 = dims.iter().product();
        let shape = match &layout.shape {
            Some(shape) if shape.len() == stored => shape.clone(),
            Some(shape) => {
                let message = format!("--shape {shape} has {} values, but the file's shape {dims:?} has {stored}", shape.len());
                return Err(bad(Failure::new(Kind::Usage, message)));
            }
            // NumPy's scalars have no dimension.
            None if dims.is_empty() => Shape::new(&[1])?,
            None => Shape::new(&dims).map_err(|error| {
                let failure = Failure::from(error).with_kind(Kind::BadFile);
                bad(if dims.len() > Shape::MAX_DIMS { failure.context("merge dimensions with --shape") } else { failure })
            })?,
        };
        let start = bytes.len() - stored as usize * dtype.size();
        Ok(Self::new(shape, dtype, bytes, start))
    }
}

/// What every .npy file begins with.
const NPY_MAGIC: &[u8] = b"\x93NUMPY";

/// The dimensions of an .npy file of this type, or `None` where its values are not in C order.
fn npy_dims<T: ViewElement>(bytes: &[u8]) -> Result<Option<Vec<u64>>, ViewNpyError> {
    let dims = |view: ArrayViewD<'_, T>| view.is_standard_layout().then(|| view.shape().iter().map(|&n| n as u64).collect());
    match ArrayViewD::<T>::view_npy(bytes) {
        // Old writers align the values to 16 bytes only, and a pipe's buffer to none: look at an aligned copy.
        Err(ViewNpyError::MisalignedData) => {
            let mut copy = vec![0u64; bytes.len() / 8 + 2];
            let copy: &mut [u8] = bytemuck::cast_slice_mut(&mut copy);
            let shift = npy_header_len(bytes).wrapping_neg() % 8;
            let copy = &mut copy[shift..shift + bytes.len()];
            copy.copy_from_slice(bytes);
            ArrayViewD::<T>::view_npy(copy).map(dims)
        }
        result => result.map(dims),
    }
}

/// The bytes before the values: magic, version, the header's length and the header.
fn npy_header_len(bytes: &[u8]) -> usize {
    match bytes {
        [_, _, _, _, _, _, 1, _, a, b, ..] => 10 + usize::from(u16::from_le_bytes([*a, *b])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => 12 + u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => 0,
    }
}

/// The deepest brackets of a header, structured types included.
const NPY_NESTING: usize = 8;

/// Refuses what `ndarray_npy` does not cope with: it allocates the header's length before it looks for the header, its parser takes time
/// exponential in the depth of brackets, and it panics at a dimension of 0 beside others whose product overflows.
fn check_npy_header(bytes: &[u8]) -> Outcome {
    let bad = |what: &str| Err(Failure::new(Kind::BadFile, what));
    if !bytes.starts_with(NPY_MAGIC) {
        return bad("it does not start with NumPy's signature");
    }
    let start = if bytes.get(6) == Some(&1) { 10 } else { 12 };
    let Some(header) = bytes.get(start.min(bytes.len())..npy_header_len(bytes)).filter(|_| bytes.len() >= start) else {
        return bad("it ends within its header");
    };
    let mut depth = 0usize;
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NPY_NESTING {
            return bad("its header is damaged: brackets within brackets");
        }
    }
    let text = String::from_utf8_lossy(header);
    let shape = text.rsplit_once("shape").and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
    if shape.is_some_and(|(shape, _)| shape.split(',').any(|n| n.trim().parse() == Ok(0u64))) {
        return bad("its shape has a dimension of 0; every dimension must be at least 1");
    }
    Ok(())
}

/// What is wrong with an .npy file and what to do about it.
fn explain(error: ViewNpyError) -> Failure {
    match error {
        ViewNpyError::WrongDescriptor(descriptor) => Failure::new(
            Kind::BadFile,
            format!("its values have type {descriptor}, but f32 and f64 are known; convert them: array.astype('<f4')"),
        ),
        ViewNpyError::NonNativeEndian => {
            Failure::new(Kind::BadFile, "its values are big-endian; convert them: array.astype('<f4'), or '<f8' for f64")
        }
        ViewNpyError::MissingBytes(missing) => Failure::new(Kind::BadFile, format!("it ends {missing} bytes too early")),
        ViewNpyError::ExtraBytes(extra) => Failure::new(Kind::BadFile, format!("it has {extra} bytes after its values")),
        error => Failure::new(Kind::BadFile, error),
    }
}

/// Names both sizes of a file that does not hold what its shape and type say, and shapes and types that would fit.
fn mismatch(path: &Path, actual: u64, shape: &Shape, dtype: DType, origin: &str) -> String {
    let size = dtype.size() as u64;
    let mut text = format!("{} has {actual} bytes, but shape {shape} (from {origin}) of {dtype} has {}", name(path), shape.len() * size);
    let hints = plausible(actual, shape, dtype);
    if hints.is_empty() {
        if !actual.is_multiple_of(size) {
            text += &format!("; {actual} is not a multiple of {size}, so the file is no plain array of {dtype} values");
        }
    } else {
        text += &format!("; {} would fit", hints.join(" or "));
    }
    text
}

/// Shapes and types close to the given ones that fit a file of this size.
fn plausible(actual: u64, shape: &Shape, dtype: DType) -> Vec<String> {
    let mut hints = Vec::new();
    let other = if dtype == DType::F32 { DType::F64 } else { DType::F32 };
    if shape.len() * other.size() as u64 == actual {
        hints.push(format!("--dtype {other}"));
    }
    let size = dtype.size() as u64;
    if actual == 0 || !actual.is_multiple_of(size) {
        return hints;
    }
    let count = actual / size;
    let dims = shape.dims();
    let inner: u64 = dims[1..].iter().product();
    if dims.len() > 1 && count.is_multiple_of(inner) {
        let mut dims = dims.to_vec();
        dims[0] = count / inner;
        hints.extend(Shape::new(&dims).ok().map(|shape| format!("--shape {shape}")));
    }
    for power in [3, 2] {
        let side = (count as f64).powf(1.0 / f64::from(power)).round() as u64;
        if side > 1 && side.checked_pow(power) == Some(count) {
            hints.push(format!("--shape {}", vec![side.to_string(); power as usize].join("x")));
        }
    }
    hints.dedup();
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npy_headers_that_the_reader_would_choke_on() {
        let file = |version: u8, text: &str| {
            let length = text.len() as u32;
            let mut bytes = [NPY_MAGIC, &[version, 0]].concat();
            bytes.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
            bytes.extend(text.as_bytes());
            bytes
        };
        let header = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let error = |bytes: &[u8]| check_npy_header(bytes).unwrap_err();
        for version in [1, 2, 3] {
            for shape in ["()", "(3,)", "(2, 10, 105)"] {
                assert!(check_npy_header(&file(version, &header(shape))).is_ok(), "{version} {shape}");
            }
            for shape in ["(0, 18446744073709551615)", "(0,)", "(3, 0)"] {
                assert_eq!(error(&file(version, &header(shape))).kind(), Kind::BadFile, "{version} {shape}");
            }
            assert!(check_npy_header(&file(version, &header(&("[".repeat(24) + "1" + &"]".repeat(24))))).is_err());
            let whole = file(version, &header("(3,)"));
            for end in 0..whole.len() {
                assert!(check_npy_header(&whole[..end]).is_err(), "{version} {end}");
            }
        }
        assert!(check_npy_header(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}").is_err());
    }

    #[test]
    fn plausible_shapes() {
        let hints = |bytes, shape: &str, dtype| plausible(bytes, &shape.parse().unwrap(), dtype);
        assert_eq!(hints(8000, "10x10x10", DType::F32), ["--dtype f64", "--shape 20x10x10"]);
        assert_eq!(hints(4 * 27000, "30x30x31", DType::F32), ["--shape 30x30x30"]);
        assert_eq!(hints(4 * 700, "10x10x10", DType::F32), ["--shape 7x10x10"]);
        assert!(hints(4001, "10x10x10", DType::F32).is_empty());
        assert!(hints(0, "10", DType::F32).is_empty());
        assert!(hints(8 * 11, "10x3", DType::F64).is_empty());
    }
}
