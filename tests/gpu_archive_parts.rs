//! The kernels that make and check parts of an archive in device memory, against the CPU: many sizes, every misalignment.

use bmgard::conformance::{Gpu, PatchSections, Value, apply_patches_cpu, write_patches_cpu};

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

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }
}

/// A device, or `None` where there is none and none is required.
fn gpu() -> Option<Gpu> {
    match Gpu::open() {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(std::env::var_os("BMGARD_REQUIRE_GPU").is_none(), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn checksums_are_those_of_the_host() {
    let Some(gpu) = gpu() else { return };
    let bytes = Random(1).bytes((9 << 20) + 16);
    let edges = [1 << 10, 1 << 14, 1 << 15, 1 << 17, 1 << 22].into_iter().flat_map(|size: usize| size - 5..=size + 5);
    let sizes = (0..=300).chain(edges).chain([100_003, 3_333_331, 4_194_304 + 16_384, 9 << 20]);
    for (case, size) in sizes.enumerate() {
        // All alignments of short ranges and of those near a piece's end; of the others some.
        let offsets = if size < 1 << 16 { 0..16 } else { case % 16..case % 16 + 1 };
        for offset in offsets {
            let range = &bytes[offset..offset + size];
            assert_eq!(gpu.checksum(range, offset).unwrap(), crc32fast::hash(range), "{size} bytes, {offset} behind an aligned address");
        }
    }
}

#[test]
fn checksums_of_zeros_and_ones_are_those_of_the_host() {
    let Some(gpu) = gpu() else { return };
    for byte in [0, 1, 0x80, 0xFF] {
        for size in [1, 4, 127, 16_384, 70_001] {
            let range = vec![byte; size];
            assert_eq!(gpu.checksum(&range, 1).unwrap(), crc32fast::hash(&range), "{size} times {byte}");
        }
    }
}

/// Takes 10 GB of the host's memory and 5 of the device's: only where `BMGARD_HUGE` is set.
#[test]
fn a_checksum_of_more_than_4_gib_is_that_of_the_host() {
    if std::env::var_os("BMGARD_HUGE").is_none() {
        println!("left out: BMGARD_HUGE is not set");
        return;
    }
    let Some(gpu) = gpu() else { return };
    let block = Random(2).bytes((1 << 20) + 13);
    let range: Vec<u8> = block.iter().copied().cycle().take((4 << 30) + 12_345).collect();
    assert_eq!(gpu.checksum(&range, 3).unwrap(), crc32fast::hash(&range));
}

/// The sum of all before each, and of all.
fn starts(sizes: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut end = 0;
    let mut starts = vec![0];
    starts.extend(sizes.map(|size| {
        end += size;
        end
    }));
    starts
}

#[test]
fn starts_are_those_of_the_host() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random(3);
    let sizes = [0, 1, 2, 3, 4, 5, 127, 128, 129, 1023, 1024, 1025, 2048, 5000, 262_143, 1 << 20, (1 << 20) + 1, 2_500_007];
    for (case, n) in sizes.into_iter().enumerate() {
        let small: Vec<u16> = (0..n).map(|_| random.next() as u16).collect();
        let largest = vec![u16::MAX; n];
        for sizes in [&small, &largest] {
            let expected = starts(sizes.iter().map(|&size| size.into()));
            assert!(gpu.scan(sizes, case % 4).unwrap() == expected, "{n} sizes of 16 bits");
        }
        // Their groups' sums fit 32 bits, all together do not.
        let large: Vec<u32> = (0..n).map(|_| random.below(1 << 22) as u32).collect();
        let expected = starts(large.iter().map(|&size| size.into()));
        assert!(gpu.scan_u32(&large, case % 4).unwrap() == expected, "{n} sizes of 32 bits");
    }
}

#[test]
fn segments_come_where_they_belong() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random(4);
    // Sizes below each end: tiny segments, some of them empty; all sizes; few large ones among small ones.
    for end in [1, 2, 6, 60, 129, 140, 600, 4000, 0] {
        for count in [0, 1, 3, 4, 31, 32, 33, 1023, 1025, 3000] {
            let segments: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let end = if end > 0 { end } else { [20, 20, 20, 3000][random.below(4) as usize] };
                    let size = random.below(end) as usize;
                    random.bytes(size)
                })
                .collect();
            for offset in 0..if count < 100 { 9 } else { 2 } {
                let moved = gpu.move_segments(&segments, offset).unwrap();
                assert!(moved == segments.concat(), "{count} segments of less than {end} bytes, {offset} behind an aligned address");
            }
        }
    }
}

/// Positions of which each is there with a probability of one in `rarity`; 0: none.
fn positions(random: &mut Random, n: usize, rarity: u64) -> Vec<u64> {
    (0..n as u64).filter(|_| rarity > 0 && random.below(rarity) == 0).collect()
}

fn bits<T: Value>(values: &[T]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits_u64()).collect()
}

/// What the device makes of the sections, which must be what the CPU makes of them: values or a refusal.
fn check_applied<T: Value>(gpu: &Gpu, sections: &PatchSections, decoded: &[T], offset: usize, name: &str) -> bool {
    let expected = apply_patches_cpu(sections, decoded);
    let found = gpu.apply_patches(sections, decoded, offset).unwrap();
    assert!(found.as_deref().map(bits) == expected.as_deref().map(bits), "{name}: applied patches differ");
    expected.is_some()
}

fn patches<T: Value>() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random(5);
    for (case, n) in [1, 31, 32, 33, 127, 129, 1023, 1024, 1025, 32_769, 65_535, 65_536, 65_537, 300_001, 4_000_000].into_iter().enumerate()
    {
        // Any bits, those of NaN too.
        let values: Vec<T> = (0..n).map(|_| T::from_bits_u64(random.next())).collect();
        let decoded: Vec<T> = (0..n).map(|_| T::from_bits_u64(random.next())).collect();
        for rarity in [0, 1, 2, 500, 100_000] {
            let positions = positions(&mut random, n, rarity);
            if positions.is_empty() {
                // Such a chunk has no sections of patches.
                continue;
            }
            let expected = write_patches_cpu(&positions, &values);
            for offset in [case % 8, 0] {
                let name = format!("{} patches of {n} {}, {offset} behind an aligned address", positions.len(), T::DTYPE);
                let found = gpu.write_patches(&positions, &values, offset).unwrap();
                assert!(found[0] == expected[0], "{name}: counts differ");
                assert!(found[1] == expected[1], "{name}: offsets differ");
                assert!(found[2] == expected[2], "{name}: values differ");
                assert!(check_applied(&gpu, &found, &decoded, offset, &name), "{name}");
            }
        }
    }
}

#[test]
fn patches_of_f32_are_those_of_the_host() {
    patches::<f32>();
}

#[test]
fn patches_of_f64_are_those_of_the_host() {
    patches::<f64>();
}

#[test]
fn patches_that_contradict_each_other_are_refused() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random(6);
    let n = 200_000;
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let decoded = vec![-1.0f32; n];
    let good = write_patches_cpu(&positions(&mut random, n, 50), &values);
    assert!(check_applied(&gpu, &good, &decoded, 1, "good patches"));
    let refused = |change: &dyn Fn(&mut PatchSections), name: &str| {
        let mut sections = good.clone();
        change(&mut sections);
        assert!(!check_applied(&gpu, &sections, &decoded, 1, name), "{name}");
    };
    refused(&|s| s[0][0] ^= 1, "one more or less");
    refused(&|s| s[0][3] = 0xFF, "a count of many more than there are values");
    refused(&|s| s[0][..8].copy_from_slice(&[0xFF; 8]), "counts whose sum wraps");
    refused(&|s| s[0][15] = 0x80, "a last count that is too large");
    refused(&|s| s[1].copy_within(0..2, 2), "an offset twice");
    refused(&|s| s[1].swap(2, 3), "offsets that do not ascend");
    refused(
        &|s| {
            let end = s[1].len();
            s[1][end - 2..].copy_from_slice(&[0xFF; 2]);
        },
        "an offset after the chunk's end",
    );
    // A patch counted in the block before its own, and then one in the block after it.
    let count = |s: &PatchSections, block: usize| u32::from_le_bytes(s[0][4 * block..][..4].try_into().unwrap());
    let shift = |s: &mut PatchSections, more: usize, fewer: usize| {
        let (a, b) = (count(s, more) + 1, count(s, fewer) - 1);
        s[0][4 * more..][..4].copy_from_slice(&a.to_le_bytes());
        s[0][4 * fewer..][..4].copy_from_slice(&b.to_le_bytes());
    };
    refused(&|s| shift(s, 0, 1), "a patch of the next block");
    refused(&|s| shift(s, 2, 1), "a patch of the block before");
    let missing = |s: &mut PatchSections| {
        for (section, bytes) in [(1, 2), (2, 4)] {
            let end = s[section].len() - bytes;
            s[section].truncate(end);
        }
    };
    refused(&missing, "a patch that is counted and missing");
    let counted = |s: &mut PatchSections| {
        s[1].extend([0xFF; 2]);
        s[2].extend([0; 4]);
    };
    refused(&counted, "a patch that is not counted");
}

#[test]
fn bytes_come_back_through_page_locked_memory() {
    let Some(gpu) = gpu() else { return };
    let bytes = Random(7).bytes((300 << 20) + 7);
    for size in [0, 1, 1 << 16, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 8 << 20, (64 << 20) + 5, 255 << 20, 300 << 20] {
        let offset = size % 7;
        assert!(gpu.staging(&bytes[offset..offset + size], offset).unwrap() == bytes[offset..offset + size], "{size} bytes");
    }
}
