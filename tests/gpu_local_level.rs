//! The kernels of a local level against the CPU, bit for bit, fused with the quantiser and not: every shape, both types, masks, special bit
//! patterns.

use bmgard::conformance::{Gpu, LocalLevel, Value};

/// A small generator (splitmix64): the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Values of an array of `dims`, by the kind's number.
fn field<T: Value>(dims: [u64; 3], kind: usize) -> Vec<T> {
    let mut random = Random(kind as u64 + dims[0] * 31 + dims[1] * 57 + dims[2]);
    let nodes = (0..dims[0]).flat_map(|z| (0..dims[1]).flat_map(move |y| (0..dims[2]).map(move |x| (z, y, x))));
    nodes
        .map(|(z, y, x)| match kind {
            0 => T::from_f64((0.11 * x as f64).sin() * (0.07 * y as f64).cos() + (0.13 * z as f64).sin() + 0.01 * random.unit()),
            1 => T::from_f64(random.unit() * 2.0 - 1.0),
            // Arbitrary bits: NaN, infinities, subnormals and every exponent.
            2 => T::from_bits_u64(random.next()),
            3 => T::from_f64(1e-42 * (random.unit() - 0.5)),
            _ => T::from_f64(if random.next().is_multiple_of(2) { -0.0 } else { 3e38 * (random.unit() - 0.5) }),
        })
        .collect()
}

fn bits<T: Value>(values: &[T]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits_u64()).collect()
}

/// Bits, but for NaN: which NaN an operation on two of them gives is the processor's choice, and no archive holds one that was computed.
fn same<T: Value>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits_u64() == b.to_bits_u64() || (a.to_f64().is_nan() && b.to_f64().is_nan()))
}

fn check<T: Value>(gpu: &Gpu, dims: [u64; 3], kind: usize, step: f64, masked: &[usize], open_loop: bool) {
    let name =
        format!("{} {dims:?}, kind {kind}, step {step:e}, {} masked, open loop {open_loop}", std::any::type_name::<T>(), masked.len());
    let values = field::<T>(dims, kind);
    let level = LocalLevel::new(dims, step, masked, open_loop);
    let expected = level.decompose_cpu(&values);
    let decoded = level.recompose_cpu(&expected);
    let fused = gpu.local_level(&level, &values).unwrap();
    let apart = gpu.local_level_apart(&level, &values).unwrap();
    for (kernels, (decomposed, recomposed)) in [("fused", fused), ("apart", apart)] {
        assert_eq!(decomposed.0, expected.0, "symbols of {name}, {kernels}");
        assert!(same(&decomposed.1, &expected.1), "coarse array of {name}, {kernels}");
        assert!(same(&recomposed, &decoded), "values of {name}, {kernels}");
        if kind < 2 {
            assert_eq!(bits(&recomposed), bits(&decoded), "values of {name}, {kernels}");
        }
    }
}

fn shapes() -> Vec<[u64; 3]> {
    let mut shapes =
        vec![[8, 8, 8], [16, 16, 64], [9, 10, 11], [8, 8, 128], [33, 17, 70], [83, 9, 15], [13, 91, 20], [24, 40, 101], [2, 3, 5]];
    shapes.extend((2..=17).map(|n| [n, 10, 33]));
    shapes.extend((2..=17).map(|n| [9, n, 34]));
    shapes.extend((2..=40).map(|n| [10, 9, n]));
    shapes
}

fn suite<T: Value>(gpu: &Gpu) {
    for dims in shapes() {
        for kind in 0..5 {
            let step = [1e-3, 0.05, 1e-2, 1e-44, 1e30][kind];
            check::<T>(gpu, dims, kind, step, &[], kind == 1);
        }
        let nodes: u64 = dims.iter().product();
        let masked: Vec<usize> = (0..nodes as usize).filter(|i| i * i % 7 < 2).collect();
        check::<T>(gpu, dims, 0, 1e-4, &masked, false);
        check::<T>(gpu, dims, 0, 1e-4, &masked, true);
    }
    check::<T>(gpu, [128, 120, 136], 0, 1e-5, &[], false);
}

#[test]
fn kernels_and_cpu_agree_bit_for_bit() {
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(error) => {
            assert!(std::env::var_os("BMGARD_REQUIRE_GPU").is_none(), "{error}");
            println!("skipped: {error}");
            return;
        }
    };
    suite::<f32>(&gpu);
    suite::<f64>(&gpu);
}
