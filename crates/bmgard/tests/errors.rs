//! What cannot be done is an error that says what would be right.

mod support;

use std::io::{self, Cursor, Seek, SeekFrom, Write};

use bmgard::{BackendChoice, Compressor, Config, DType, Error, ErrorBound, Result, Shape, decompress, decompress_into, inspect};
use ndarray::{Array2, Array3, ArrayD, IxDyn, arr0};
use support::cases::{LEVEL_SHAPES, greatest_levels, paper};
use support::fields::Field;

const BOUND: ErrorBound = ErrorBound::Absolute(1e-3);

fn compressor() -> Compressor {
    Compressor::new(paper(BOUND)).unwrap()
}

fn compress(values: &[f32], dims: &[u64], config: Config) -> Result<Vec<u8>> {
    Compressor::new(config)?.compress_slice(values, &Shape::new(dims)?)
}

#[test]
fn bounds_must_be_finite_and_positive() {
    for value in [0.0, -0.0, -1e-3, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for bound in [ErrorBound::Absolute(value), ErrorBound::RelativeToMax(value), ErrorBound::RelativeToRange(value)] {
            match Compressor::new(paper(bound)) {
                Err(Error::InvalidBound { value: named }) => assert_eq!(named.to_bits(), value.to_bits()),
                other => panic!("{bound:?}: {other:?}"),
            }
        }
    }
    let message = Compressor::new(paper(ErrorBound::Absolute(-2.5))).unwrap_err().to_string();
    assert!(message.contains("-2.5") && message.contains("greater than 0"), "{message}");
    assert!(Compressor::new(paper(ErrorBound::Absolute(5e-324))).is_ok());
}

#[test]
fn chunks_must_hold_a_tile() {
    for max_chunk_bytes in [0, 1, 4095] {
        let error = Compressor::new(Config { max_chunk_bytes, ..paper(BOUND) }).unwrap_err();
        assert!(matches!(error, Error::InvalidConfig(_)));
        assert!(error.to_string().contains("4096"), "{error}");
    }
    assert!(Compressor::new(Config { max_chunk_bytes: 4096, ..paper(BOUND) }).is_ok());
    assert!(Compressor::new(Config { max_chunk_bytes: u64::MAX, ..paper(BOUND) }).is_ok());
}

#[test]
fn lengths_must_match() {
    for actual in [0, 1, 23, 25] {
        match compress(&vec![1.0; actual], &[2, 3, 4], paper(BOUND)) {
            Err(Error::LengthMismatch { shape, expected: 24, actual: named }) => {
                assert_eq!((shape.as_str(), named), ("2x3x4", actual as u64))
            }
            other => panic!("{actual}: {other:?}"),
        }
    }
    let archive = compress(&[1.0; 24], &[2, 3, 4], paper(BOUND)).unwrap();
    for actual in [0, 23, 25] {
        let error = decompress_into(&archive, &mut vec![0f32; actual], BackendChoice::Cpu, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 24, .. }), "{error}");
    }
}

#[test]
fn arrays_have_one_to_four_dimensions_of_at_least_one() {
    let is_shape_error = |result: Result<Vec<u8>>| match result {
        Err(Error::InvalidShape { .. }) => {}
        other => panic!("{other:?}"),
    };
    is_shape_error(compressor().compress(&arr0(1f32).view()));
    is_shape_error(compressor().compress(&Array2::<f32>::zeros((0, 5)).view()));
    is_shape_error(compressor().compress(&Array3::<f64>::zeros((5, 0, 5)).view()));
    is_shape_error(compressor().compress(&ArrayD::<f32>::zeros(IxDyn(&[1, 1, 1, 1, 1])).view()));
    is_shape_error(compressor().compress(&ArrayD::<f64>::zeros(IxDyn(&[2, 2, 2, 2, 2])).view()));
}

#[test]
fn the_type_must_be_the_stored_one() {
    let single = compress(&[1.0, 2.0], &[2], paper(BOUND)).unwrap();
    let double = compressor().compress_slice(&[1.0f64, 2.0], &Shape::new(&[2]).unwrap()).unwrap();
    let wrong = |result: Result<()>, wanted: (DType, DType)| match result {
        Err(Error::WrongType { stored, requested }) => assert_eq!((stored, requested), wanted),
        other => panic!("{other:?}"),
    };
    wrong(decompress::<f64>(&single).map(|_| ()), (DType::F32, DType::F64));
    wrong(decompress::<f32>(&double).map(|_| ()), (DType::F64, DType::F32));
    wrong(decompress_into(&single, &mut [0f64; 2], BackendChoice::Cpu, &mut |_| {}), (DType::F32, DType::F64));
    assert_eq!((inspect(&single).unwrap().dtype, inspect(&double).unwrap().dtype), (DType::F32, DType::F64));
}

/// One level more than fits is an error that names the greatest number that does; that number works.
#[test]
fn explicit_levels_must_fit() {
    for dims in LEVEL_SHAPES {
        let values: Vec<f32> = Field::Waves.values(dims, 0);
        let with = |local_levels, global_levels| compress(&values, dims, Config { local_levels, global_levels, ..paper(BOUND) });
        let greatest = greatest_levels(dims);
        let refused = |result: Result<Vec<u8>>, asked: u32, greatest: u32| match result {
            Err(Error::InvalidLevels { reason }) => {
                assert!(reason.contains(&format!("{asked} ")) && reason.contains(&format!("at most {greatest} do")), "{reason}");
            }
            other => panic!("{dims:?}: {:?}", other.map(|archive| archive.len())),
        };
        for asked in [greatest.len() as u32, 100, u32::MAX] {
            refused(with(Some(asked), None), asked, greatest.len() as u32 - 1);
            refused(with(Some(asked), Some(0)), asked, greatest.len() as u32 - 1);
        }
        for (local, &global) in (0..).zip(&greatest) {
            assert!(with(Some(local), Some(global)).is_ok());
            for asked in [global + 1, 1000, u32::MAX] {
                refused(with(Some(local), Some(asked)), asked, global);
            }
        }
    }
}

/// Levels are those of a chunk, not of the field.
#[test]
fn explicit_levels_must_fit_the_chunks() {
    let values: Vec<f32> = Field::Waves.values(&[64, 64, 64], 0);
    let with = |max_chunk_bytes| compress(&values, &[64, 64, 64], Config { local_levels: Some(3), max_chunk_bytes, ..paper(BOUND) });
    assert_eq!(inspect(&with(1 << 30).unwrap()).unwrap().local_levels, 3);
    let message = with(4096).unwrap_err().to_string();
    assert!(message.contains("8x8x16") && message.contains("at most 1 do"), "{message}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_backend_that_was_not_built_is_named() {
    let error = Compressor::new(Config { backend: BackendChoice::Cuda, ..paper(BOUND) }).unwrap_err();
    assert!(matches!(error, Error::BackendUnavailable { backend: "cuda", .. }), "{error}");
    let archive = compress(&[1.0, 2.0], &[2], paper(BOUND)).unwrap();
    let error = decompress_into(&archive, &mut [0f32; 2], BackendChoice::Cuda, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::BackendUnavailable { backend: "cuda", .. }), "{error}");
}

/// A writer that takes so many bytes.
struct Full {
    inner: Cursor<Vec<u8>>,
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room = self.room.checked_sub(bytes.len()).ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

#[test]
fn a_writer_that_fails_is_an_error() {
    let values: Vec<f64> = Field::Noise.values(&[1000], 0);
    for room in [0, 10, 100, 150, 300, 1000] {
        let writer = Full { inner: Cursor::new(Vec::new()), room };
        let result = compressor().compress_to(&values, &Shape::new(&[1000]).unwrap(), writer, &mut |_| {});
        match result {
            Err(Error::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
            other => panic!("{room}: {other:?}"),
        }
    }
}
