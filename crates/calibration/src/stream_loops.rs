//! The inner loops of `copy`, `read` and `fill`, written with vector instructions so that the compiler cannot replace
//! them with a library call with a different store policy.
#![allow(unsafe_code)]

use ellwand_simd::isa::{Isa, Set};

/// The kind of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stores {
    /// The stores of the standard library.
    System,
    /// Vector stores through the caches.
    Ordinary,
    /// Non-temporal vector stores, which bypass the caches.
    NonTemporal,
}

/// The loops for one kind of store on this CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loops {
    stores: Stores,
    isa: Isa,
}

impl Loops {
    /// Loops for `stores`; `None` if the CPU lacks the instructions.
    pub(super) fn new(stores: Stores) -> Option<Self> {
        let isa = Isa::best();
        (stores == Stores::System || isa != Isa::BASELINE).then_some(Self { stores, isa })
    }

    pub(super) fn name(self) -> String {
        match self.stores {
            Stores::System => "standard library".into(),
            Stores::Ordinary => self.isa.name().into(),
            Stores::NonTemporal => format!("{} non-temporal", self.isa.name()),
        }
    }

    /// Copies as many words as the shorter slice holds.
    pub(super) fn copy(self, x: &[u64], y: &mut [u64]) {
        let n = x.len().min(y.len());
        let (x, y) = (&x[..n], &mut y[..n]);
        match (self.stores, self.isa.set()) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` detected this instruction set on this CPU.
            (Stores::Ordinary, Set::Avx512) => unsafe { x86::copy_avx512::<false>(x, y) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::NonTemporal, Set::Avx512) => unsafe { x86::copy_avx512::<true>(x, y) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::Ordinary, Set::Avx2) => unsafe { x86::copy_avx2::<false>(x, y) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::NonTemporal, Set::Avx2) => unsafe { x86::copy_avx2::<true>(x, y) },
            _ => y.copy_from_slice(x),
        }
    }

    /// Wrapping sum of the words.
    pub(super) fn sum(self, x: &[u64]) -> u64 {
        match (self.stores, self.isa.set()) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` detected this instruction set on this CPU.
            (Stores::Ordinary, Set::Avx512) => unsafe { x86::sum_avx512(x) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::Ordinary, Set::Avx2) => unsafe { x86::sum_avx2(x) },
            _ => x.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word)),
        }
    }

    /// Fills `y` with `word`.
    pub(super) fn fill(self, word: u64, y: &mut [u64]) {
        match (self.stores, self.isa.set()) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` detected this instruction set on this CPU.
            (Stores::Ordinary, Set::Avx512) => unsafe { x86::fill_avx512::<false>(word, y) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::NonTemporal, Set::Avx512) => unsafe { x86::fill_avx512::<true>(word, y) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::Ordinary, Set::Avx2) => unsafe { x86::fill_avx2::<false>(word, y) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Stores::NonTemporal, Set::Avx2) => unsafe { x86::fill_avx2::<true>(word, y) },
            _ => y.fill(word),
        }
    }
}

/// Independent sums, which the compiler vectorises at whatever width the caller enables.
#[inline(always)]
fn sum_in_lanes(x: &[u64]) -> u64 {
    let mut lanes = [0_u64; 64];
    let (chunks, rest) = x.as_chunks::<64>();
    for chunk in chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().chain(rest).fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_sfence, _mm256_loadu_si256, _mm256_set1_epi64x, _mm256_storeu_si256, _mm256_stream_si256,
        _mm512_loadu_si512, _mm512_set1_epi64, _mm512_storeu_si512, _mm512_stream_si512,
    };

    macro_rules! loops {
        ($feature:literal, $words:literal, $vector:ty, $load:ident, $store:ident, $stream:ident, $set:ident, $copy:ident, $fill:ident, $sum:ident) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $copy<const NON_TEMPORAL: bool>(x: &[u64], y: &mut [u64]) {
                // Non-temporal stores need an aligned address: the unaligned head is copied word by word.
                let head = if NON_TEMPORAL { y.as_ptr().align_offset($words * 8).min(y.len()) } else { 0 };
                y[..head].copy_from_slice(&x[..head]);
                let (x, y) = (&x[head..], &mut y[head..]);
                let whole = x.len().min(y.len()) / $words * $words;
                for at in (0..whole).step_by($words) {
                    // SAFETY: at + $words <= whole, which is within both slices; the store address is aligned as
                    // computed above.
                    unsafe {
                        let v = $load(x.as_ptr().add(at).cast::<$vector>());
                        let to = y.as_mut_ptr().add(at).cast::<$vector>();
                        if NON_TEMPORAL { $stream(to, v) } else { $store(to, v) }
                    }
                }
                y[whole..].copy_from_slice(&x[whole..]);
                if NON_TEMPORAL {
                    _mm_sfence();
                }
            }

            #[target_feature(enable = $feature)]
            pub(super) fn $fill<const NON_TEMPORAL: bool>(word: u64, y: &mut [u64]) {
                let head = if NON_TEMPORAL { y.as_ptr().align_offset($words * 8).min(y.len()) } else { 0 };
                y[..head].fill(word);
                let y = &mut y[head..];
                let whole = y.len() / $words * $words;
                let v = $set(word as i64);
                for at in (0..whole).step_by($words) {
                    // SAFETY: at + $words <= whole <= y.len(); the store address is aligned as computed above.
                    unsafe {
                        let to = y.as_mut_ptr().add(at).cast::<$vector>();
                        if NON_TEMPORAL { $stream(to, v) } else { $store(to, v) }
                    }
                }
                y[whole..].fill(word);
                if NON_TEMPORAL {
                    _mm_sfence();
                }
            }

            #[target_feature(enable = $feature)]
            pub(super) fn $sum(x: &[u64]) -> u64 {
                super::sum_in_lanes(x)
            }
        };
    }

    loops!(
        "avx2",
        4,
        __m256i,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_set1_epi64x,
        copy_avx2,
        fill_avx2,
        sum_avx2
    );
    loops!(
        "avx512f,avx512vl",
        8,
        __m512i,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_set1_epi64,
        copy_avx512,
        fill_avx512,
        sum_avx512
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_does_what_the_standard_library_does_at_every_length_and_offset() {
        let source: Vec<u64> = (0..300_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for loops in [Stores::System, Stores::Ordinary, Stores::NonTemporal].into_iter().filter_map(Loops::new) {
            for offset in 0..9 {
                for len in (0..80).chain([200, 291]) {
                    let x = &source[offset..offset + len];
                    let mut copied = vec![7_u64; len + 9];
                    loops.copy(x, &mut copied[offset..offset + len]);
                    assert_eq!(&copied[offset..offset + len], x, "{loops:?} {offset} {len}");
                    assert!(copied[..offset].iter().chain(&copied[offset + len..]).all(|word| *word == 7));
                    let mut filled = vec![7_u64; len + 9];
                    loops.fill(3, &mut filled[offset..offset + len]);
                    assert_eq!(filled.iter().filter(|word| **word == 3).count(), len, "{loops:?} {offset} {len}");
                    assert_eq!(
                        loops.sum(x),
                        x.iter().fold(0_u64, |s, w| s.wrapping_add(*w)),
                        "{loops:?} {offset} {len}"
                    );
                }
            }
        }
    }
}
