//! An archive is a function of values, shape and options: not of threads, memory layout or what was compressed before.

mod support;

use bmgard::{BackendChoice, Compressor, Config, ErrorBound, Shape, Value, decompress};
use ndarray::{Array1, Array2, Array3, Array4, Axis, ShapeBuilder, s};
use support::bits;
use support::cases::{Case, cases, paper};
use support::fields::{Field, Number};

const BOUND: ErrorBound = ErrorBound::RelativeToRange(1e-3);

fn compress<T: Value>(case: &Case) -> Vec<u8> {
    let values = case.field.values::<T>(&case.shape, 5);
    let config = Config { backend: BackendChoice::Cpu, ..case.config.clone() };
    Compressor::new(config).unwrap().compress_slice(&values, &Shape::new(&case.shape).unwrap()).unwrap()
}

/// Every 13th case of the suite, and fields large enough to keep several threads at work.
fn some_cases() -> Vec<Case> {
    let mut out: Vec<Case> = cases().into_iter().filter(|case| case.shape.iter().product::<u64>() > 500).step_by(13).collect();
    let config = |max_chunk_bytes| Config { max_chunk_bytes, fill: Some(2e20), ..paper(BOUND) };
    for (shape, max_chunk_bytes) in [(&[70, 71, 72][..], 1 << 20), (&[70, 71, 72], 1 << 30), (&[600, 500], 1 << 18), (&[300_007], 1 << 30)]
    {
        for field in [
            Field::Continents(Number::Of(2e20)),
            Field::Spikes(50, Number::Of(1e30)),
            Field::Cycle(vec![Number::NegativeZero, Number::Of(0.0)]),
        ] {
            out.push(Case { name: format!("{shape:?} {field:?}"), shape: shape.to_vec(), field, config: config(max_chunk_bytes) });
        }
    }
    out
}

fn threads_do_not_matter<T: Value>() {
    let pools = [1, 2, 3].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    for case in some_cases() {
        let [one, two, three] = pools.each_ref().map(|pool| {
            pool.install(|| {
                let archive = compress::<T>(&case);
                let decoded = bits(&decompress::<T>(&archive).unwrap().into_raw_vec_and_offset().0);
                (archive, decoded)
            })
        });
        assert!(one == two && two == three, "{}", case.name);
        assert!(one.0 == compress::<T>(&case), "{}: another run", case.name);
    }
}

#[test]
fn threads_do_not_matter_f32() {
    threads_do_not_matter::<f32>();
}

#[test]
fn threads_do_not_matter_f64() {
    threads_do_not_matter::<f64>();
}

/// One compressor for fields of many shapes and both types in turn gives what a fresh one gives; so does decoding in another order.
#[test]
fn a_compressor_remembers_nothing() {
    let config = Config { fill: Some(-1.0), max_chunk_bytes: 1 << 14, ..paper(BOUND) };
    let mut used = Compressor::new(config.clone()).unwrap();
    let shapes: [&[u64]; 9] = [&[40, 30, 20], &[1], &[5000], &[7, 7, 7], &[64, 64], &[3, 3, 3, 3], &[9, 9, 9], &[2], &[100, 1, 9]];
    let fields = [Field::Waves, Field::Continents(Number::Of(-1.0)), Field::RandomBits, Field::Constant(Number::Of(4.0))];
    let mut archives = Vec::new();
    for (index, shape) in shapes.iter().cycle().take(36).enumerate() {
        let field = &fields[index % fields.len()];
        let shape_of = Shape::new(shape).unwrap();
        let (single, double) = (field.values::<f32>(shape, index as u64), field.values::<f64>(shape, index as u64));
        let mut fresh = Compressor::new(config.clone()).unwrap();
        let archive = used.compress_slice(&single, &shape_of).unwrap();
        assert!(archive == fresh.compress_slice(&single, &shape_of).unwrap(), "{shape:?} {field:?} f32");
        // A field that is refused leaves nothing behind either.
        assert!(used.compress_slice(&single[1..], &shape_of).is_err());
        let wide = used.compress_slice(&double, &shape_of).unwrap();
        assert!(wide == fresh.compress_slice(&double, &shape_of).unwrap(), "{shape:?} {field:?} f64");
        archives.push((archive, single));
    }
    for (archive, values) in archives.iter().rev() {
        let decoded = decompress::<f32>(archive).unwrap().into_raw_vec_and_offset().0;
        support::assert_kept(values, &decoded, support::resolved_bound(values, &config), config.fill);
    }
}

/// Any view of an array gives the archive of its values in C order.
#[test]
fn memory_layout_does_not_matter() {
    let mut compressor = Compressor::new(paper(BOUND)).unwrap();
    let values: Vec<f32> = Field::Rough(1e-2).values(&[14, 15, 16], 9);
    let expected = compressor.compress_slice(&values, &Shape::new(&[14, 15, 16]).unwrap()).unwrap();
    let c_order = Array3::from_shape_vec((14, 15, 16), values.clone()).unwrap();
    assert!(compressor.compress(&c_order.view()).unwrap() == expected);

    let mut f_order = Array3::zeros((14, 15, 16).f());
    f_order.assign(&c_order);
    assert!(f_order.as_slice().is_none());
    assert!(compressor.compress(&f_order.view()).unwrap() == expected, "Fortran order");

    let mut padded = Array3::from_elem((20, 40, 50), f32::NAN);
    padded.slice_mut(s![3..17, 5..35;2, 1..49;3]).assign(&c_order);
    assert!(compressor.compress(&padded.slice(s![3..17, 5..35;2, 1..49;3])).unwrap() == expected, "a strided window");

    let mut backwards = c_order.clone();
    backwards.invert_axis(Axis(0));
    backwards.invert_axis(Axis(2));
    let mut upright = Array3::zeros((14, 15, 16));
    upright.assign(&backwards);
    let reversed = compressor.compress(&upright.view()).unwrap();
    assert!(reversed != expected);
    assert!(compressor.compress(&backwards.view()).unwrap() == reversed, "negative strides");

    let transposed = c_order.t();
    let copied: Vec<f32> = transposed.iter().copied().collect();
    let copied = compressor.compress_slice(&copied, &Shape::new(&[16, 15, 14]).unwrap()).unwrap();
    assert!(compressor.compress(&transposed).unwrap() == copied, "transposed");

    let row = Array2::from_shape_vec((1, 16), values[..16].to_vec()).unwrap();
    let broadcast = row.broadcast((9, 16)).unwrap();
    let repeated = Array2::from_shape_fn((9, 16), |(_, x)| values[x]);
    assert!(compressor.compress(&broadcast).unwrap() == compressor.compress(&repeated.view()).unwrap(), "strides of 0");
}

/// The archive of an array holds its own dimensions, whatever is dropped or merged inside.
#[test]
fn dimensions_come_back() {
    let mut compressor = Compressor::new(paper(BOUND)).unwrap();
    let four = Array4::from_shape_fn((2, 1, 5, 9), |(a, _, c, d)| (a * 100 + c * 10 + d) as f64);
    assert_eq!(decompress::<f64>(&compressor.compress(&four.view()).unwrap()).unwrap().shape(), [2, 1, 5, 9]);
    let one = Array1::from_elem(1, 3.5f32);
    assert_eq!(decompress::<f32>(&compressor.compress(&one.view()).unwrap()).unwrap().shape(), [1]);
    assert_eq!(decompress::<f32>(&compressor.compress(&one.view().into_dyn()).unwrap()).unwrap(), one.into_dyn());
}
