//! The size above which non-temporal stores pay on this machine: copies with and without them in interleaved rounds, at
//! sizes from a small share of the last-level cache upwards.
//!
//! The sizes are close together, because the threshold changes a kernel's speed by up to a factor of 1.5. Near the
//! crossing the difference is below the noise, so the first size at which one variant is ahead is no criterion: the
//! threshold is the one that costs least over all sizes, interpolated between its two neighbours.

use std::collections::BTreeMap;

use ellwand_core::ceiling::{Ceiling, CeilingCase, CeilingKind};
use ellwand_core::reading::Provenance;
use ellwand_core::record::{Environment, Measurement};
use ellwand_core::registry::Registry;
use ellwand_core::stats::quantile;

use crate::plan::Cell;

/// Copy sizes are multiples of this.
const PAGE: u64 = 4096;
/// Ratio of neighbouring copy sizes.
const STEP: f64 = std::f64::consts::SQRT_2;

/// Non-temporal stores pay for good after this many sizes in a row at which they gain more than [`AHEAD`]. Larger
/// arrays are then not tried, since touching their pages takes most of the time.
const IN_A_ROW: usize = 3;
const AHEAD: f64 = 0.05;

/// Copy sizes in bytes, ascending, up to three times the last level. They start at what the caches below the last level
/// hold, but at most at an eighth of the last level, because a guest may have a small share of it.
fn sizes(environment: &Environment) -> Vec<u64> {
    let Some((last, below)) = environment.caches.split_last() else { return Vec::new() };
    let eighth = last.bytes / 8;
    let first = below.last().map_or(eighth, |cache| eighth.min(environment.held(cache, true))).max(PAGE);
    let all = std::iter::successors(Some(first as f64), |bytes| Some(bytes * STEP));
    all.take_while(|bytes| *bytes <= 3.0 * last.bytes as f64).map(|bytes| bytes as u64 / PAGE * PAGE).collect()
}

/// The cells to measure: copies on one thread and on all, with both kinds of stores; none if computations on up to `data`
/// bytes are below any crossing. One thread crosses earlier: it has a smaller share of what the caches deliver.
pub fn cells(registry: &Registry, environment: &Environment, data: u64) -> Vec<Cell> {
    let mut sizes = sizes(environment);
    if sizes.first().is_some_and(|first| data < *first) {
        sizes.clear();
    }
    let mut cells = Vec::new();
    for (row, pair) in rows(registry) {
        let Some(workload) = registry.find(row.workload) else { continue };
        let all = registry.implementations(workload.name()).into_iter();
        let implementations: Vec<_> = all.filter(|one| pair.contains(&&*one.name)).cloned().collect();
        if implementations.len() == pair.len() {
            cells.extend(sizes.iter().map(|bytes| Cell {
                allowed: None,
                workload: workload.clone(),
                case: row.case(workload.as_ref(), *bytes),
                implementations: implementations.clone(),
            }));
        }
    }
    cells
}

/// Rows of the ceiling table for this threshold, each with its two implementations.
fn rows(registry: &Registry) -> impl Iterator<Item = (&CeilingCase, [&'static str; 2])> {
    registry.ceilings.iter().filter_map(|row| Some((row, row.past?)))
}

/// Logarithms of the gain from non-temporal stores by size, ascending.
fn gains(pair: [&str; 2], measurements: &[Measurement]) -> Vec<(u64, f64)> {
    // Median time of each kind, by size: [ordinary, non-temporal].
    let mut seconds: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for m in measurements {
        let times: Vec<f64> = m.all_seconds();
        let Some(time) = quantile(&times, 0.5).filter(|time| *time > 0.0) else { continue };
        let Some(which) = pair.iter().position(|name| *name == m.implementation) else { continue };
        let slot = &mut seconds.entry(m.work.bytes_total()).or_insert([f64::INFINITY; 2])[which];
        *slot = slot.min(time);
    }
    let both = seconds.into_iter().filter(|(_, [ordinary, past])| ordinary.is_finite() && past.is_finite());
    both.map(|(bytes, [ordinary, past])| (bytes, (ordinary / past).ln())).collect()
}

/// True if a larger copy by the implementations of `cell` would not change their crossing.
pub(crate) fn is_past(registry: &Registry, cell: &Cell, measurements: &[Measurement]) -> bool {
    let mine = |pair: &[&str; 2]| cell.implementations.iter().all(|one| pair.contains(&&*one.name));
    let pair = rows(registry).map(|(_, pair)| pair).find(mine);
    pair.is_some_and(|pair| is_ahead(&gains(pair, measurements)))
}

fn is_ahead(gains: &[(u64, f64)]) -> bool {
    // One size more than needed: noise in the first three ends nothing.
    gains.len() > IN_A_ROW && gains.iter().rev().take(IN_A_ROW).all(|(_, gain)| *gain > AHEAD)
}

/// The crossings as ceilings; without those that do not lie within the sizes.
pub(crate) fn ceilings(registry: &Registry, measurements: &[Measurement]) -> Vec<Ceiling> {
    let of = |(_, pair): (&CeilingCase, [&'static str; 2])| {
        let (low, value, high) = crossing(&gains(pair, measurements))?;
        let parallelism = measurements.iter().find(|m| m.implementation == pair[1])?.parallelism;
        Some(Ceiling {
            kind: CeilingKind::Streamed,
            implementation: pair[1].into(),
            device: "cpu".into(),
            parallelism,
            footprint_bytes: 0,
            level: String::new(),
            value,
            low,
            high,
            provenance: Provenance::Measured,
        })
    };
    rows(registry).filter_map(of).collect()
}

/// The sizes on either side of the crossing and the crossing between them; all three the smallest size if non-temporal
/// stores gain at every size. `gains` holds the logarithm of their gain at each size, in ascending order of size.
fn crossing(gains: &[(u64, f64)]) -> Option<(f64, f64, f64)> {
    // Loss from ordinary stores below index `first` and non-temporal ones from there on.
    let lost = |first: usize| -> f64 {
        let (below, above) = gains.split_at(first);
        let missed: f64 = below.iter().map(|(_, gain)| gain.max(0.0)).sum();
        missed + above.iter().map(|(_, gain)| (-gain).max(0.0)).sum::<f64>()
    };
    let first = (0..=gains.len()).min_by(|a, b| lost(*a).total_cmp(&lost(*b)))?;
    let (high, after) = gains.get(first)?;
    let (low, before) = first.checked_sub(1).map_or(&gains[0], |below| &gains[below]);
    let (low, high) = (*low as f64, *high as f64);
    let share = if before < after { (-before / (after - before)).clamp(0.0, 1.0) } else { 0.5 };
    Some((low, low * (high / low).powf(share), high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_core::record::Cache;

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
        assert_eq!(at(&[(16, 0.1), (32, 0.2)]), Some([16, 16, 16]), "at the smallest size already");
    }

    #[test]
    fn one_size_that_noise_turned_over_does_not_move_it_far() {
        assert_eq!(at(&[(16, 0.02), (24, -0.3), (32, -0.2), (40, 0.2), (48, -0.01), (64, 0.4)]), Some([32, 36, 40]));
    }

    #[test]
    fn sizes_begin_below_a_small_share_of_a_large_cache() {
        let cache = |mebi: u64| Cache { level: String::new(), bytes: mebi * MIB, shared_by: 1 };
        let of = |caches: &[u64]| {
            let caches = caches.iter().map(|mebi| cache(*mebi)).collect();
            sizes(&Environment { cores: 2, caches, ..Environment::default() })
        };
        for (caches, first, last) in [(&[1, 32][..], 2, 90), (&[2, 480], 4, 1024), (&[32], 4, 90), (&[1, 1], 0, 2)] {
            let found = of(caches);
            assert_eq!([found[0] / MIB, found[found.len() - 1] / MIB], [first, last], "{caches:?}: {found:?}");
            assert!(found.windows(2).all(|two| two[0] < two[1]) && found.iter().all(|bytes| bytes % PAGE == 0));
        }
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn larger_copies_are_left_out_once_stores_past_the_caches_pay() {
        let ahead = |gains: &[f64]| is_ahead(&gains.iter().map(|gain| (0, *gain)).collect::<Vec<_>>());
        assert!(ahead(&[-0.4, 0.1, 0.2, 0.1]) && ahead(&[0.1, 0.1, 0.2, 0.1]));
        assert!(!ahead(&[0.1, 0.2, 0.1]) && !ahead(&[-0.4, 0.1, 0.04, 0.1]) && !ahead(&[]));
    }

    #[test]
    fn without_a_crossing_nothing_is_claimed() {
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[(16, -0.1), (32, -0.2)]), None);
    }
}
