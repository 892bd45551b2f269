//! From which size on non-temporal stores pay on this machine, out of its kept ceilings, passed to the kernels.

use ellwand_core::{Ceiling, CeilingKind};

/// Passes what `machine` measured here, if it did, to the kernels of this process.
pub(super) fn tell_kernels() {
    ellwand_simd::stores::measured_by(|| {
        let environment = ellwand_bench::environment::facts();
        crossing(&super::ceilings::kept(&environment).unwrap_or_default())
    });
}

fn crossing(ceilings: &[Ceiling]) -> Option<u64> {
    ceilings.iter().find(|c| c.kind == CeilingKind::Streamed && c.device == "cpu").map(|c| c.value as u64)
}
