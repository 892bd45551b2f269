//! From which footprint on non-temporal stores pay on this machine, out of its measured ceilings, told to the kernels.

use std::collections::BTreeMap;

use ellwand_core::implementation::Parallelism;
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

/// The footprint, in bytes read and written, between the largest at which a copy with ordinary stores on all threads was at
/// least as fast and the next one: their geometric mean. `None` where the two were not measured on both sides of a crossing.
fn crossing(ceilings: &[Ceiling]) -> Option<u64> {
    // The best of each kind by footprint: [ordinary, non-temporal].
    let mut best: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for ceiling in ceilings.iter().filter(|c| c.kind == CeilingKind::Copy && c.parallelism == Parallelism::Many) {
        let past = usize::from(ceiling.implementation.contains("non-temporal"));
        let slot = &mut best.entry(ceiling.footprint_bytes).or_default()[past];
        *slot = slot.max(ceiling.value);
    }
    best.retain(|_, [ordinary, past]| *ordinary > 0.0 && *past > 0.0);
    let below = best.iter().rev().find(|(_, [ordinary, past])| ordinary >= past).map(|(bytes, _)| *bytes)?;
    let above = best.range(below + 1..).next().map(|(bytes, _)| *bytes)?;
    Some((below as f64 * above as f64).sqrt() as u64)
}

#[cfg(test)]
mod tests {
    use ellwand_core::Provenance;

    use super::*;

    fn copy(implementation: &str, footprint_bytes: u64, value: f64) -> Ceiling {
        Ceiling {
            device: "cpu".into(),
            kind: CeilingKind::Copy,
            implementation: implementation.into(),
            parallelism: Parallelism::Many,
            footprint_bytes,
            level: String::new(),
            value,
            low: value,
            high: value,
            provenance: Provenance::Measured,
        }
    }

    #[test]
    fn the_crossing_lies_between_the_footprints_around_it() {
        let mut measured = vec![
            copy("parallel", 1 << 20, 9.0),
            copy("parallel-non-temporal", 1 << 20, 5.0),
            copy("parallel", 16 << 20, 8.0),
            copy("parallel-non-temporal", 16 << 20, 5.0),
            copy("parallel", 64 << 20, 3.0),
            copy("parallel-non-temporal", 64 << 20, 5.0),
        ];
        assert_eq!(crossing(&measured), Some(32 << 20));
        // A footprint of which only one kind was measured says nothing.
        measured.push(copy("parallel", 32 << 20, 7.0));
        assert_eq!(crossing(&measured), Some(32 << 20));
    }

    #[test]
    fn without_a_crossing_nothing_is_told() {
        assert_eq!(crossing(&[]), None);
        let always = [copy("parallel", 1, 1.0), copy("parallel-non-temporal", 1, 2.0)];
        let never = [copy("parallel", 1, 2.0), copy("parallel-non-temporal", 1, 1.0)];
        assert_eq!((crossing(&always), crossing(&never)), (None, None));
    }
}
