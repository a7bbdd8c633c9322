//! The committed kernels on the device at hand: compiled by its driver, do they compute what `cuda_std::selftest` says?
//!
//! Without a device the tests say that they are skipped, and fail if `BMGARD_REQUIRE_GPU` is set.

// A launch of a kernel is unsafe: nothing checks its arguments.
#![allow(unsafe_code)]

use cuda_std::selftest::{self, ARITHMETIC_RESULTS, BINS, BLOCK, WARP, WARP_RESULTS};
use cust::context::Context;
use cust::launch;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

/// The committed PTX; `BMGARD_SELFTEST_PTX` names another file, such as one without the builder's passes, to see what the driver at hand makes of it.
fn ptx() -> String {
    match std::env::var_os("BMGARD_SELFTEST_PTX") {
        Some(path) => std::fs::read_to_string(path).expect("BMGARD_SELFTEST_PTX names a file"),
        None => include_str!("../../../kernels-gpu/ptx/kernels.ptx").to_owned(),
    }
}

/// Elements that each test uses.
const N: usize = 64 * BLOCK;

/// A device with the kernels loaded.
struct Gpu {
    module: Module,
    stream: Stream,
    _context: Context,
}

impl Gpu {
    fn open() -> Option<Gpu> {
        let context = cuda_loader::driver_available().map_err(|e| e.to_string());
        match context.and_then(|()| cust::quick_init().map_err(|e| e.to_string())) {
            Ok(context) => Some(Gpu {
                module: Module::from_ptx(ptx(), &[]).expect("the driver takes the PTX"),
                stream: Stream::new(StreamFlags::NON_BLOCKING, None).unwrap(),
                _context: context,
            }),
            Err(why) => {
                assert!(std::env::var_os("BMGARD_REQUIRE_GPU").is_none(), "a GPU is required: {why}");
                eprintln!("skipped: {why}");
                None
            }
        }
    }

    /// Launches by `launch`, which gets the grid, the block and the stream for N threads in blocks of 128, and waits.
    fn run(&self, launch: impl FnOnce(u32, u32, &Stream) -> cust::error::CudaResult<()>) {
        launch((N / BLOCK) as u32, BLOCK as u32, &self.stream).unwrap();
        self.stream.synchronize().unwrap();
    }
}

fn device<T: cust::memory::DeviceCopy>(values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(values).unwrap()
}

fn host<T: cust::memory::DeviceCopy + Default>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    let mut values: Vec<T> = std::iter::repeat_with(T::default).take(buffer.len()).collect();
    buffer.copy_to(&mut values).unwrap();
    values
}

/// N numbers that look random and are the same in each run.
fn words(seed: u64) -> Vec<u32> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 32) as u32
    })
    .take(N)
    .collect()
}

/// N numbers between -3000 and 3000.
fn singles(seed: u64) -> Vec<f32> {
    words(seed).into_iter().map(|w| (w as i32 >> 8) as f32 / 2796.0).collect()
}

#[test]
fn copies_move_every_word() {
    let Some(gpu) = Gpu::open() else { return };
    let source: Vec<u64> = words(1).iter().zip(words(2)).map(|(&a, b)| (a as u64) << 32 | b as u64).collect();
    let (from, to) = (device(&source), device(&vec![0u64; N]));
    let kernel = gpu.module.get_function("selftest_copy").unwrap();
    // Fewer threads than words of 16 bytes, so that threads take several.
    gpu.run(|_, block, stream| {
        // SAFETY: both buffers have N / 2 words of 16 bytes.
        unsafe { launch!(kernel<<<3, block, 0, stream>>>(from.as_device_ptr(), to.as_device_ptr(), (N / 2) as u32)) }
    });
    assert_eq!(host(&to), source);
}

#[test]
fn narrow_stores_truncate() {
    let Some(gpu) = Gpu::open() else { return };
    let singles = singles(3);
    let doubles: Vec<f64> = words(4).into_iter().map(|w| (w as i32) as f64 * 0.73).collect();
    let (x, y) = (device(&singles), device(&doubles));
    let (out32, out16, out8) = (device(&vec![0u32; N]), device(&vec![0u16; 3 * N]), device(&vec![0u8; 3 * N]));
    let kernel = gpu.module.get_function("selftest_narrow_stores").unwrap();
    gpu.run(|grid, block, stream| {
        // SAFETY: the buffers are as long as the kernel says, and the grid has N threads in blocks of 128.
        unsafe {
            launch!(kernel<<<grid, block, 0, stream>>>(
                x.as_device_ptr(), y.as_device_ptr(), N as u32, out32.as_device_ptr(), out16.as_device_ptr(), out8.as_device_ptr()
            ))
        }
    });
    let (out32, out16, out8) = (host(&out32), host(&out16), host(&out8));
    for i in 0..N {
        let expected = selftest::narrow_stores(&singles, &doubles, i);
        let found = selftest::NarrowStores {
            out32: out32[i],
            out16: [out16[i], out16[N + i], out16[2 * N + i]],
            out8: [out8[i], out8[N + i], out8[2 * N + i]],
        };
        assert_eq!(found, expected, "element {i}");
    }
}

#[test]
fn arithmetic_has_the_bits_of_the_host() {
    let Some(gpu) = Gpu::open() else { return };
    let mut a = singles(5);
    a[7] = f32::MIN_POSITIVE / 3.0;
    a[8] = -0.0;
    let (b, c) = (singles(6), singles(7));
    let (da, db, dc, out) = (device(&a), device(&b), device(&c), device(&vec![0u64; ARITHMETIC_RESULTS * N]));
    let kernel = gpu.module.get_function("selftest_arithmetic").unwrap();
    gpu.run(|grid, block, stream| {
        // SAFETY: the buffers are as long as the kernel says.
        unsafe {
            launch!(kernel<<<grid, block, 0, stream>>>(
                da.as_device_ptr(), db.as_device_ptr(), dc.as_device_ptr(), N as u32, out.as_device_ptr()
            ))
        }
    });
    for (i, found) in host(&out).chunks(ARITHMETIC_RESULTS).enumerate() {
        let expected = selftest::arithmetic(a[i], b[i], c[i], f32::mul_add, f64::mul_add);
        assert_eq!(found, expected, "element {i}: {} {} {}", a[i], b[i], c[i]);
    }
}

#[test]
fn warps_vote_shuffle_and_reduce() {
    let Some(gpu) = Gpu::open() else { return };
    let mut values = words(8);
    values[..WARP].fill(1); // all odd
    values[WARP..2 * WARP].fill(2); // none odd
    // A lane's value also travels as an f32, and a shuffle must not change a NaN's bits.
    values[2 * WARP] = 0x7F80_0001;
    let (x, out) = (device(&values), device(&vec![0u32; WARP_RESULTS * N]));
    let kernel = gpu.module.get_function("selftest_warp").unwrap();
    gpu.run(|grid, block, stream| {
        // SAFETY: the buffers are as long as the kernel says, and the grid has N threads.
        unsafe { launch!(kernel<<<grid, block, 0, stream>>>(x.as_device_ptr(), out.as_device_ptr())) }
    });
    for (i, found) in host(&out).chunks(WARP_RESULTS).enumerate() {
        let warp = values[i / WARP * WARP..][..WARP].try_into().unwrap();
        assert_eq!(found, selftest::warp(warp, i % WARP), "thread {i}");
    }
}

#[test]
fn barriers_hold_where_branches_follow() {
    let Some(gpu) = Gpu::open() else { return };
    let mut values = words(9);
    let x = device(&values);
    let kernel = gpu.module.get_function("selftest_exchange").unwrap();
    gpu.run(|grid, block, stream| {
        // SAFETY: one value for each thread, and 4 bytes of shared memory for each thread of a block.
        unsafe { launch!(kernel<<<grid, block, 4 * block, stream>>>(x.as_device_ptr())) }
    });
    for block in values.chunks_mut(BLOCK) {
        selftest::exchange(block.try_into().unwrap());
    }
    assert_eq!(host(&x), values);
}

#[test]
fn atomics_count_every_value() {
    let Some(gpu) = Gpu::open() else { return };
    let values = words(10);
    let (x, counts) = (device(&values), device(&[0u64; BINS]));
    let kernel = gpu.module.get_function("selftest_count").unwrap();
    gpu.run(|grid, block, stream| {
        // SAFETY: one value for each thread, and 16 counters.
        unsafe { launch!(kernel<<<grid, block, 0, stream>>>(x.as_device_ptr(), counts.as_device_ptr())) }
    });
    let mut expected = [0u64; BINS];
    for &value in &values {
        expected[selftest::bin(value)] += 1;
    }
    assert_eq!(host(&counts), expected);
}
