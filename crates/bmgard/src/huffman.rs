//! Canonical Huffman codes of limited length over the tokens of `bmgard_core::token`.

use bmgard_core::token::{ESCAPE, TOKENS};

/// The longest code, in bits; a decoder's table has 2^12 entries.
pub(crate) const MAX_LENGTH: usize = 12;

/// How often each token occurs.
pub(crate) type Histogram = [u64; TOKENS];

/// The code of every token of one context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Codebook {
    /// Bits per token, 0 where the token does not occur.
    lengths: [u8; TOKENS],
    /// The codes, first bit lowest.
    codes: [u16; TOKENS],
}

impl Codebook {
    /// The best code with at most [`MAX_LENGTH`] bits (package-merge; ties by token, so that the result is a function of the counts).
    /// A lone token gets one bit; an empty histogram an empty code.
    pub(crate) fn new(histogram: &Histogram) -> Self {
        let mut leaves: Vec<(u64, usize)> = (0..TOKENS).filter(|&t| histogram[t] > 0).map(|t| (histogram[t], t)).collect();
        leaves.sort_unstable();
        let mut lengths = [0; TOKENS];
        if let [(_, only)] = leaves[..] {
            lengths[only] = 1;
        } else if leaves.len() > 1 {
            // Package-merge: per depth, deepest first, weights of the leaves and of the pairs of the depth below, and whether it is a leaf.
            let mut depths: Vec<Vec<(u64, bool)>> = Vec::with_capacity(MAX_LENGTH);
            for _ in 0..MAX_LENGTH {
                let pairs = depths.last().map_or(&[][..], Vec::as_slice).chunks_exact(2);
                let pairs = pairs.map(|pair| (pair[0].0.saturating_add(pair[1].0), false));
                let mut packages: Vec<_> = leaves.iter().map(|&(weight, _)| (weight, true)).chain(pairs).collect();
                packages.sort_by_key(|&(weight, _)| weight); // stable: leaves come before pairs of the same weight
                depths.push(packages);
            }
            let mut taken = 2 * (leaves.len() - 1);
            for packages in depths.iter().rev() {
                let single = packages[..taken].iter().filter(|&&(_, leaf)| leaf).count();
                leaves[..single].iter().for_each(|&(_, token)| lengths[token] += 1);
                taken = 2 * (taken - single);
            }
        }
        Self { codes: canonical(&lengths), lengths }
    }

    /// The code for the tokens of a context, given their counts in a sample: tokens that it may lack are escaped.
    pub(crate) fn sampled(histogram: &Histogram) -> Self {
        let mut histogram = *histogram;
        histogram[ESCAPE as usize] = 1;
        Self::new(&histogram)
    }

    /// A token's code, first bit lowest, and its length.
    #[inline(always)]
    pub(crate) fn code(&self, token: usize) -> (u64, u32) {
        (u64::from(self.codes[token]), u32::from(self.lengths[token]))
    }

    /// The number of tokens up to the last that occurs, as one byte, then 4 bits for each of their lengths, low half first.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let used = self.lengths.iter().rposition(|&l| l > 0).map_or(0, |last| last + 1);
        out.push(used as u8);
        out.extend(self.lengths[..used].chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4));
    }

    /// Reads what [`Self::write`] wrote off the front of `bytes`; `None` where it is not a prefix code within the limits.
    pub(crate) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (&used, rest) = bytes.split_first()?;
        let used = usize::from(used);
        let packed = used.div_ceil(2);
        if used > TOKENS || rest.len() < packed {
            return None;
        }
        let mut lengths = [0; TOKENS];
        for (token, length) in lengths[..used].iter_mut().enumerate() {
            *length = rest[token / 2] >> (token % 2 * 4) & 15;
        }
        *bytes = &rest[packed..];
        let kraft: u32 = lengths
            .iter()
            .filter(|&&l| l > 0)
            .map(|&l| if usize::from(l) > MAX_LENGTH { u32::MAX / 256 } else { 1 << (MAX_LENGTH - usize::from(l)) })
            .sum();
        (kraft <= 1 << MAX_LENGTH).then(|| Self { codes: canonical(&lengths), lengths })
    }

    /// Calls `f(next bits, token, length)` for each of the 2^12 values of the next 12 bits that a code starts.
    pub(crate) fn for_each_start(&self, mut f: impl FnMut(usize, u32, u32)) {
        for (token, &length) in self.lengths.iter().enumerate().filter(|&(_, &l)| l > 0) {
            for bits in (usize::from(self.codes[token])..1 << MAX_LENGTH).step_by(1 << length) {
                f(bits, token as u32, u32::from(length));
            }
        }
    }
}

/// Codes of the given lengths: shorter ones first, then by token, counted up; bits reversed, so that the first is lowest.
fn canonical(lengths: &[u8; TOKENS]) -> [u16; TOKENS] {
    let mut codes = [0; TOKENS];
    let mut next = 0u16;
    for length in 1..=MAX_LENGTH as u8 {
        next <<= 1;
        for token in (0..TOKENS).filter(|&t| lengths[t] == length) {
            codes[token] = next.reverse_bits() >> (16 - length);
            next += 1;
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[(usize, u64)]) -> Histogram {
        let mut histogram = [0; TOKENS];
        for &(token, n) in counts {
            histogram[token] = n;
        }
        histogram
    }

    fn check(histogram: &Histogram) -> Codebook {
        let book = Codebook::new(histogram);
        let mut bytes = vec![];
        book.write(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!(Codebook::read(&mut rest).unwrap(), book);
        assert!(rest.is_empty());
        let mut table = vec![None; 1 << MAX_LENGTH];
        book.for_each_start(|bits, token, length| assert_eq!(table[bits].replace((token as usize, length)), None));
        for token in (0..TOKENS).filter(|&t| histogram[t] > 0) {
            let (code, length) = book.code(token);
            assert!((1..=MAX_LENGTH as u32).contains(&length));
            for noise in 0..1u64 << (MAX_LENGTH as u32 - length) {
                assert_eq!(table[(code | noise << length) as usize], Some((token, length)));
            }
        }
        book
    }

    #[test]
    fn ordinary_and_odd_histograms() {
        check(&[0; TOKENS]);
        check(&histogram(&[(7, 1)]));
        check(&histogram(&[(207, u64::MAX)]));
        check(&histogram(&[(0, 1), (207, u64::MAX / 2)]));
        check(&[1; TOKENS]);
        check(&std::array::from_fn(|t| 1 << (t % 60)));
        let mut fibonacci = [0u64; TOKENS];
        let (mut a, mut b) = (1u64, 1u64);
        for slot in fibonacci.iter_mut().take(80) {
            *slot = a;
            (a, b) = (b, a + b);
        }
        check(&fibonacci);
    }

    #[test]
    fn lengths_are_the_best_where_the_limit_does_not_bind() {
        let book = check(&histogram(&[(0, 45), (1, 13), (2, 12), (3, 16), (4, 9), (5, 5)]));
        assert_eq!([0, 1, 2, 3, 4, 5].map(|t| book.code(t).1), [1, 3, 3, 3, 4, 4]);
    }

    #[test]
    fn a_code_that_is_none_is_refused() {
        for bytes in [&[][..], &[2], &[3, 0x11, 1], &[2, 0xDD], &[255]] {
            assert!(Codebook::read(&mut &*bytes).is_none(), "{bytes:?}");
        }
    }
}
