//! The size from which non-temporal stores pay on this machine: copies with and without them, at sizes around that of
//! the last-level cache, in interleaved rounds.
//!
//! The sizes are close together, because the threshold changes a kernel's speed by up to a factor of 1.5. Near the
//! crossing the difference is below the noise, so the first size at which one variant is ahead decides nothing: the
//! threshold is the one that costs least over all sizes, interpolated between its two neighbours.

use std::collections::BTreeMap;

use ellwand_core::ceiling::{Ceiling, CeilingCase, CeilingKind};
use ellwand_core::device::DeviceKind;
use ellwand_core::implementation::{Implementation, Parallelism};
use ellwand_core::reading::Provenance;
use ellwand_core::record::{Environment, Measurement};
use ellwand_core::registry::Registry;
use ellwand_core::stats::quantile;

use crate::plan::Cell;

/// Copy sizes, in eighths of the last-level cache.
const EIGHTHS: [u64; 8] = [3, 4, 6, 8, 10, 12, 16, 24];

/// The cells to measure: copies on all CPU threads with both kinds of stores.
pub fn cells(registry: &Registry, environment: &Environment) -> Vec<Cell> {
    let Some(last) = environment.caches.last() else { return Vec::new() };
    let mut cells = Vec::new();
    for (row, past) in rows(registry) {
        let Some(workload) = registry.find(row.workload) else { continue };
        let all = registry.implementations(workload.name()).into_iter();
        let threaded = |one: &&Implementation| one.parallelism == Parallelism::Many && one.needs == DeviceKind::Cpu;
        let implementations: Vec<_> = all.filter(threaded).cloned().collect();
        if implementations.len() > 1 && implementations.iter().any(|one| one.name == past) {
            cells.extend(EIGHTHS.map(|eighths| Cell {
                allowed: None,
                workload: workload.clone(),
                case: row.case(workload.as_ref(), last.bytes / 8 * eighths),
                implementations: implementations.clone(),
            }));
        }
    }
    cells
}

/// Rows of the ceiling table for this threshold, each with the implementation that bypasses the caches.
fn rows(registry: &Registry) -> impl Iterator<Item = (&CeilingCase, &'static str)> {
    registry.ceilings.iter().filter_map(|row| Some((row, row.past?)))
}

/// The crossing as a ceiling; `None` if no crossing lies within the sizes.
pub(crate) fn ceiling(registry: &Registry, measurements: &[Measurement]) -> Option<Ceiling> {
    // Lower quartile of the time of each kind, by size: [ordinary, non-temporal].
    let mut seconds: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    let mut implementation = String::new();
    for m in measurements {
        let times: Vec<f64> = m.all_seconds();
        let Some(time) = quantile(&times, 0.25).filter(|time| *time > 0.0) else { continue };
        let past = rows(registry).any(|(row, past)| row.workload == m.case.workload && past == m.implementation);
        if past {
            implementation.clone_from(&m.implementation);
        }
        let slot = &mut seconds.entry(m.work.bytes_total()).or_insert([f64::INFINITY; 2])[usize::from(past)];
        *slot = slot.min(time);
    }
    let ratios: Vec<(u64, f64)> = seconds
        .into_iter()
        .filter(|(_, [ordinary, past])| ordinary.is_finite() && past.is_finite())
        .map(|(bytes, [ordinary, past])| (bytes, (ordinary / past).ln()))
        .collect();
    let (low, value, high) = crossing(&ratios)?;
    Some(Ceiling {
        kind: CeilingKind::Streamed,
        implementation,
        device: "cpu".into(),
        parallelism: Parallelism::Many,
        footprint_bytes: 0,
        level: String::new(),
        value,
        low,
        high,
        provenance: Provenance::Measured,
    })
}

/// The sizes on either side of the crossing and the crossing between them. `gains` holds the logarithm of the gain from
/// non-temporal stores at each size, in ascending order of size.
fn crossing(gains: &[(u64, f64)]) -> Option<(f64, f64, f64)> {
    // Loss from ordinary stores below index `first` and non-temporal ones from there on.
    let lost = |first: usize| -> f64 {
        let (below, above) = gains.split_at(first);
        let missed: f64 = below.iter().map(|(_, gain)| gain.max(0.0)).sum();
        missed + above.iter().map(|(_, gain)| (-gain).max(0.0)).sum::<f64>()
    };
    let first = (0..=gains.len()).min_by(|a, b| lost(*a).total_cmp(&lost(*b)))?;
    let ((low, before), (high, after)) = (gains.get(first.checked_sub(1)?)?, gains.get(first)?);
    let (low, high) = (*low as f64, *high as f64);
    let share = if before < after { (-before / (after - before)).clamp(0.0, 1.0) } else { 0.5 };
    Some((low, low * (high / low).powf(share), high))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(gains: &[(u64, f64)]) -> Option<[u64; 3]> {
        let gains: Vec<(u64, f64)> = gains.iter().map(|(mebi, gain)| (mebi * MIB, *gain)).collect();
        let (low, value, high) = crossing(&gains)?;
        Some([low, value, high].map(|bytes| (bytes / MIB as f64).round() as u64))
    }

    #[test]
    fn the_crossing_lies_where_the_gain_changes_its_sign() {
        assert_eq!(at(&[(16, -0.4), (32, -0.2), (64, 0.2), (128, 0.4)]), Some([32, 45, 64]));
        assert_eq!(at(&[(16, -0.4), (32, -0.1), (64, 0.3)]), Some([32, 38, 64]));
    }

    #[test]
    fn one_size_that_noise_turned_over_does_not_move_it_far() {
        assert_eq!(at(&[(16, 0.02), (24, -0.3), (32, -0.2), (40, 0.2), (48, -0.01), (64, 0.4)]), Some([32, 36, 40]));
    }

    #[test]
    fn without_a_crossing_nothing_is_claimed() {
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[(16, 0.1), (32, 0.2)]), None);
        assert_eq!(at(&[(16, -0.1), (32, -0.2)]), None);
    }
}
