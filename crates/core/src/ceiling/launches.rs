//! Bandwidths of a device, corrected for the launch that was timed with them.

use super::{Ceiling, CeilingKind, cost};
use crate::reading::Provenance;

/// Smallest share of the measured time that must remain after subtracting the launch.
const MOVES: f64 = 0.25;

/// Subtracts the launch from each measured bandwidth. Small arrays move in less time than a launch takes, so work of
/// several launches would otherwise seem faster than possible. Bandwidths dominated by the launch are dropped. Start-up
/// costs still weigh on small arrays, so each footprint gets the best bandwidth measured at its size or above.
pub(super) fn without_launches(ceilings: &[Ceiling]) -> Vec<Ceiling> {
    let call_s = cost(ceilings, CeilingKind::Call).map_or(0.0, |call| call.value);
    let bandwidth = |c: &Ceiling| c.footprint_bytes > 0 && c.kind.written_share().is_some() && c.value > 0.0;
    let derived = |c: &Ceiling, value: f64| {
        if value == c.value {
            return c.clone();
        }
        let factor = value / c.value;
        Ceiling { value, low: c.low * factor, high: c.high * factor, provenance: Provenance::Derived, ..c.clone() }
    };
    let without = |c: &Ceiling| {
        let whole = c.footprint_bytes as f64 / c.value;
        let moving = whole - call_s;
        (moving >= MOVES * whole).then(|| derived(c, c.footprint_bytes as f64 / moving))
    };
    let known: Vec<Ceiling> =
        ceilings.iter().filter_map(|c| if bandwidth(c) { without(c) } else { Some(c.clone()) }).collect();
    let fastest = |of: &Ceiling| {
        let larger = known.iter().filter(|c| c.kind == of.kind && c.footprint_bytes >= of.footprint_bytes);
        larger.map(|c| c.value).fold(of.value, f64::max)
    };
    known.iter().map(|c| if bandwidth(c) { derived(c, fastest(c)) } else { c.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::ceiling;
    use super::*;

    #[test]
    fn launches_are_subtracted_and_smaller_arrays_are_no_slower() {
        let measured = |footprint: u64, rate: f64| {
            let seconds = footprint as f64 / rate + 2e-6;
            ceiling(CeilingKind::Copy, footprint, footprint as f64 / seconds)
        };
        let all = [
            ceiling(CeilingKind::Call, 0, 2e-6),
            // Mostly launch, then a slow start, then cache and memory bandwidth.
            measured(64 << 10, 8e12),
            measured(4 << 20, 3e12),
            measured(32 << 20, 8e12),
            measured(512 << 20, 4e12),
            ceiling(CeilingKind::ToDevice, 32 << 20, 50e9),
            ceiling(CeilingKind::Fma, 0, 5e13),
        ];
        let known = without_launches(&all);
        let copies: Vec<(u64, f64)> = known
            .iter()
            .filter(|c| c.kind == CeilingKind::Copy)
            .map(|c| (c.footprint_bytes >> 20, (c.value * 1e-9).round()))
            .collect();
        assert_eq!(copies, [(4, 8000.0), (32, 8000.0), (512, 4000.0)]);
        assert_eq!(known.len(), all.len() - 1);
        assert_eq!((&known[0], &known[4..]), (&all[0], &all[5..]), "nothing else changes");
    }
}
