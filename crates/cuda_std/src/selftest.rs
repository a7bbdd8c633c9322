//! What the self-check kernels of `kernels-gpu` compute, as functions that a host can call to know the right results.
//!
//! Between the source of a kernel and what the device does stand three compilers, the last of them inside the driver of the machine at hand. These
//! kernels hold what was seen to go wrong there, or would go wrong unnoticed: stores narrower than their register, contracted multiply-adds, flushed
//! subnormal numbers, votes and barriers copied into branches. (Not in rust-cuda.)

/// Threads in a block of the kernels that exchange values.
pub const BLOCK: usize = 128;

/// Lanes in a warp.
pub const WARP: usize = 32;

/// Added to a small number, it leaves the number, rounded to the nearest integer, in the low bits of the sum.
pub const ROUND_F32: f32 = 12_582_912.0; // 1.5 * 2^23
/// [`ROUND_F32`] for f64.
pub const ROUND_F64: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// The bits of `factor * x` rounded to an integer. Their low 16 or 8 bits are stored: a store that converted the float instead would differ.
///
/// The factors make each store's value one that nothing else uses: only then does the compiler leave the truncation to the store.
#[inline(always)]
pub fn rounded_bits_f32(x: f32, factor: f32) -> u32 {
    (x * factor + ROUND_F32).to_bits()
}

/// The bits of `factor * x` rounded to an integer, of which the low 32, 16 or 8 are stored.
#[inline(always)]
pub fn rounded_bits_f64(x: f64, factor: f64) -> u64 {
    (x * factor + ROUND_F64).to_bits()
}

/// What the element of `singles` and `doubles` at `i` gives in the kernel of narrow stores, of `n` elements.
pub fn narrow_stores(singles: &[f32], doubles: &[f64], i: usize) -> NarrowStores {
    let block = i / BLOCK * BLOCK;
    let mirror = singles[block + BLOCK - 1 - i % BLOCK];
    NarrowStores {
        out32: rounded_bits_f64(doubles[i], 1.0) as u32,
        out16: [rounded_bits_f32(singles[i], 1.0) as u16, rounded_bits_f32(mirror, 5.0) as u16, rounded_bits_f64(doubles[i], 3.0) as u16],
        out8: [rounded_bits_f32(singles[i], 3.0) as u8, rounded_bits_f32(mirror, 7.0) as u8, rounded_bits_f64(doubles[i], 5.0) as u8],
    }
}

/// What [`narrow_stores`] gives for one element; the kernel writes each array of three `n` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowStores {
    /// From f64.
    pub out32: u32,
    /// From f32 directly, from f32 through shared memory, from f64.
    pub out16: [u16; 3],
    /// From f32 directly, from f32 through shared memory, from f64.
    pub out8: [u8; 3],
}

/// Results of [`arithmetic`] per element.
pub const ARITHMETIC_RESULTS: usize = 8;

/// Arithmetic whose bits must be those of the host: `fma` is the only thing that `core` does not have, so the caller brings it.
#[inline(always)]
pub fn arithmetic(
    a: f32,
    b: f32,
    c: f32,
    fma_f32: impl Fn(f32, f32, f32) -> f32,
    fma_f64: impl Fn(f64, f64, f64) -> f64,
) -> [u64; ARITHMETIC_RESULTS] {
    let (a64, b64, c64) = (a as f64 * 1.1, b as f64 * 0.7, c as f64 * 1.3);
    [
        (a * b + c).to_bits() as u64,
        fma_f32(a, b, c).to_bits() as u64,
        // Below the smallest normal number: must not be flushed to zero.
        (a * f32::MIN_POSITIVE * 0.001).to_bits() as u64,
        (a / b).to_bits() as u64,
        (a64 * b64 + c64).to_bits(),
        fma_f64(a64, b64, c64).to_bits(),
        (a64 / b64).to_bits(),
        (a64 as f32).to_bits() as u64,
    ]
}

/// Results of [`warp`] per lane.
pub const WARP_RESULTS: usize = 12;

/// What the lane `lane` of a warp with these values gets from votes, shuffles and reductions, in the order of the kernel.
pub fn warp(values: &[u32; WARP], lane: usize) -> [u32; WARP_RESULTS] {
    let mix = |i: usize| mix(values[i]);
    let ballot = |p: &dyn Fn(u32) -> bool| (0..WARP).fold(0u32, |mask, i| mask | (p(values[i]) as u32) << i);
    let odd = ballot(&|v| v & 1 == 1);
    let section = lane & !15;
    let reduce = |f: &dyn Fn(u32, u32) -> u32| values.iter().copied().reduce(f).unwrap_or_default();
    [
        odd,
        (odd & ((1 << lane) - 1)).count_ones(),
        values.iter().all(|v| v & 1 == 1) as u32,
        values.iter().any(|v| v & 1 == 1) as u32,
        values[(lane * 7 + 3) % WARP],
        if lane >= 3 { values[lane - 3] } else { values[lane] },
        if lane + 5 < WARP { values[lane + 5] } else { values[lane] },
        values[lane ^ 9],
        // A 64-bit shuffle within sections of 16 lanes.
        mix(section + (lane + 15) % 16) as u32 ^ (mix(section + (lane + 15) % 16) >> 32) as u32,
        reduce(&|a, b| a.wrapping_add(b)),
        reduce(&|a, b| a.min(b)),
        reduce(&|a, b| a.max(b)) ^ reduce(&|a, b| a | b),
    ]
}

/// A 64-bit value that depends on all bits of `v`.
#[inline(always)]
pub fn mix(v: u32) -> u64 {
    (v as u64 | 1 << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Rounds of [`exchange`].
pub const ROUNDS: u32 = 6;

/// The first threads of a block, which do something else than the others in [`exchange`].
pub const EDGE: usize = 19;

/// What the threads of a block hold after they have exchanged values through shared memory [`ROUNDS`] times.
///
/// In each round a thread at the edge (or, in odd rounds, one whose value has bit 3) takes from its mirror image, any other from its neighbour.
pub fn exchange(values: &mut [u32; BLOCK]) {
    for round in 0..ROUNDS {
        let before = *values;
        for (thread, value) in values.iter_mut().enumerate() {
            let mirrored = takes_mirror(thread as u32, before[thread], round);
            let other = before[partner(thread as u32, mirrored) as usize];
            *value = combine(before[thread], other, mirrored);
        }
    }
}

/// Whether a thread takes its mirror image's value in a round.
#[inline(always)]
pub fn takes_mirror(thread: u32, value: u32, round: u32) -> bool {
    if round & 1 == 0 { (thread as usize) < EDGE } else { value & 8 != 0 }
}

/// From which thread a thread takes a value.
#[inline(always)]
pub fn partner(thread: u32, mirrored: bool) -> u32 {
    if mirrored { BLOCK as u32 - 1 - thread } else { (thread + 1) % BLOCK as u32 }
}

/// What a thread makes of its own value and another's.
#[inline(always)]
pub fn combine(own: u32, other: u32, mirrored: bool) -> u32 {
    if mirrored { own.rotate_left(5) ^ other } else { own.wrapping_mul(0x9E37_79B1).wrapping_add(other) }
}

/// Shared counters of the kernel that counts.
pub const BINS: usize = 16;

/// The bin of a value.
#[inline(always)]
pub fn bin(value: u32) -> usize {
    (value >> 7) as usize % BINS
}
