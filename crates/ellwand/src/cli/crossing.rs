//! From which size on non-temporal stores pay on this machine, out of its kept ceilings, told to the kernels.

use ellwand_core::{Ceiling, CeilingKind};

/// Tells the kernels of this process what `machine` measured here, if it did.
pub(super) fn tell_kernels() {
    // Every worker does this: it must cost next to nothing.
    let environment = ellwand_bench::environment::facts();
    let ceilings = super::ceilings::kept(&environment).unwrap_or_default();
    if let Some(bytes) = crossing(&ceilings) {
        ellwand_kernels::stores::measured(bytes);
    }
}

fn crossing(ceilings: &[Ceiling]) -> Option<u64> {
    ceilings.iter().find(|c| c.kind == CeilingKind::Streamed && c.device == "cpu").map(|c| c.value as u64)
}
