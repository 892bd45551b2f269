//! Runs a kernel with the instruction set that an [`Isa`] proves.

use super::Kernel;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::baseline::Baseline;
use crate::isa::{Isa, Set};

/// Runs `kernel` with the instruction set `isa`.
pub fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` of this set proves that the CPU has it.
        Set::Avx512 => unsafe { on_avx512(Avx512::new(), kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { on_avx2(Avx2::new(), kernel) },
        Set::Baseline => on_baseline(kernel),
    }
}

/// Not inlined: together with its callers the code would be optimised as one large function, which takes the compiler longer.
#[inline(never)]
fn on_baseline<K: Kernel>(kernel: K) -> K::Out {
    kernel.run(Baseline)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn on_avx512<K: Kernel>(s: Avx512, kernel: K) -> K::Out {
    kernel.run(s)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn on_avx2<K: Kernel>(s: Avx2, kernel: K) -> K::Out {
    kernel.run(s)
}
