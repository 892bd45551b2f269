//! Rules about the quality of the measurements.

use ellwand_core::CeilingKind;
use ellwand_core::ceiling::cost;
use ellwand_core::view::{Outliers, View};

use super::{Class, Confidence, DiagnosisRule, Finding, Group, Limit, each, evidence, groups};
use crate::model::{Report, Row};
use crate::units::clean;

const WALL_OVER_CPU: f64 = 1.2;
const SWITCHED: f64 = 0.5;
const UNEVEN: f64 = 1.1;
const FAULTS: f64 = 0.5;
/// Costs below this share of the time are not worth mentioning.
const WORTH: f64 = 0.01;

pub(super) fn below_resolution(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let hit = group.worst(1.0, |row| Some(f64::from(u8::from(row.below_resolution))))?;
        Some(Finding {
            title: "an iteration is too short to measure; no time is reported".into(),
            evidence: vec![evidence("resolution", hit.row.resolution_s?, "s")],
            next_experiment: "let one iteration process more items".into(),
            ..group.finding(rule, Class::Caution, hit.row, hit.cases)
        })
    })
}

pub(super) fn contended(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        // CPU time shows directly how much was lost. A context switch need not cost anything (a sample of several
        // milliseconds nearly always has one), so switches count only without CPU time.
        let strength = |row: &Row| match row.wall_over_cpu {
            Some(ratio) => Some(ratio / WALL_OVER_CPU),
            None if row.held_up.is_some() => Some(1.0),
            None if row.median("cpu-time").is_some() => None,
            None => row.switched_share.map(|share| share / SWITCHED),
        };
        let hit = group.worst(1.0, strength)?;
        let mut numbers = Vec::new();
        numbers.extend(hit.row.wall_over_cpu.map(|ratio| evidence("wall over CPU time", ratio, "x")));
        numbers.extend(hit.row.held_up.map(|held| evidence("processors that it had", held.busy, "")));
        numbers.extend(hit.row.switched_share.map(|share| evidence("samples that lost the processor", share, "1")));
        numbers.extend(
            report.runs.get(group.run)?.environment.load.map(|load| evidence("load average at the start", load, "")),
        );
        // It gave up the processor, and no other program took it.
        let waits = hit.row.held_up.is_none()
            && hit.row.wall_over_cpu.is_some()
            && hit.row.switched_share.is_some_and(|share| share < 0.1);
        Some(Finding {
            title: if waits {
                "it waits, and no program here took its processor: elapsed times include waiting".into()
            } else if hit.row.held_up.is_some() {
                "other programs held it up: its time is longer than on an idle machine".into()
            } else if hit.row.wall_over_cpu.is_some() {
                "it shared the processor: elapsed times include waiting".into()
            } else {
                "the scheduler interrupted it often: elapsed times may include waiting".into()
            },
            evidence: numbers,
            next_experiment: if waits {
                "find what it waits for: a timer, a lock, a file, another process; in a virtual machine also the host"
                    .into()
            } else {
                "stop other work and run again; until then read the CPU time and the smallest times, which suffer least"
                    .into()
            },
            confidence: if hit.row.wall_over_cpu.is_some() { Confidence::High } else { Confidence::Low },
            strength: hit.value,
            ..group.finding(rule, Class::Caution, hit.row, hit.cases)
        })
    })
}

/// The fastest part of a slot hides costs that occur only in some iterations.
pub(super) fn uneven(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let hit = group.worst(UNEVEN, |row| Some(row.whole_slots_s()? / row.median("time")?))?;
        Some(Finding {
            title: "some iterations cost more than the others: its time is that of the fastest parts of its slots".into(),
            evidence: vec![
                evidence("mean CPU time over whole slots", hit.row.whole_slots_s()?, "s"),
                evidence("time", hit.row.median("time")?, "s"),
                evidence("ratio", hit.value, "x"),
            ],
            next_experiment: "look for a slow path that few calls take, and for page faults; on a busy machine it may be neighbours in shared \
                              caches, so run again when it is quiet; `compare` also judges the mean and the tail"
                .into(),
            confidence: Confidence::Low,
            strength: hit.value,
            ..group.finding(rule, Class::Caution, hit.row, hit.cases)
        })
    })
}

pub(super) fn page_faults(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let ceilings = &report.runs.get(group.run)?.environment.ceilings;
        let share = |row: &Row| {
            let fault = cost(ceilings, CeilingKind::PageFault)?;
            // Faults are counted over whole slots.
            let whole = row.whole_slots_s().unwrap_or(0.0).max(row.median("time")?);
            Some((row.faults_per_iteration? * fault.value / whole).min(1.0))
        };
        // Report faults whose cost is notable or unknown.
        let worth = |row: &Row| share(row).is_none_or(|share| share >= WORTH);
        let hit =
            group.worst(FAULTS, |row| row.faults_per_iteration.map(|faults| if worth(row) { faults } else { 0.0 }))?;
        let time = hit.row.median("time")?;
        let mut numbers =
            vec![evidence("faults per iteration", hit.value, ""), evidence("time per iteration", time, "s")];
        numbers.extend(share(hit.row).map(|share| evidence("share at the measured cost of a fault", share, "1")));
        // A fault may cost more than the measured cost, so the share is no bound.
        let limits = hit.row.diagnosis.as_ref().filter(|d| d.limit == Limit::PageFaults);
        Some(Finding {
            title: "page faults continue in the steady state: every call takes memory from the system".into(),
            evidence: numbers,
            saving_upper_bound: limits.and_then(|d| Some(d.changes.first()?.saving_upper_bound)),
            next_experiment: "keep the buffers between calls, or use an allocator that does not give large blocks back"
                .into(),
            confidence: Confidence::Medium,
            strength: hit.value,
            ..group.finding(rule, Class::Advice, hit.row, hit.cases)
        })
    })
}

/// Views of kind `outliers`: a few items dominate a mean, which then says little about the others.
pub(super) fn outliers(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    let found = |view: &Outliers, group: Group<'_>| {
        let outside = |row: &Row| view.share.iter().find_map(|(id, next)| Some((row.reading(id)?, id, next)));
        let share = |row: &Row| {
            let (mean, inside, (outside, ..)) = (row.reading(&view.mean)?, row.reading(&view.inside)?, outside(row)?);
            let share = 1.0 - inside * (1.0 - outside) / mean;
            (share.is_finite() && outside <= view.few).then(|| share.clamp(0.0, 1.0))
        };
        let hit = group.worst(view.most, share)?;
        let (_, id, next) = outside(hit.row)?;
        let read = |id: &str| {
            let reading = hit.row.readings.iter().find(|reading| reading.id == id)?;
            Some(evidence(clean(&reading.title), reading.value?, &reading.unit))
        };
        let mean = read(&view.mean)?;
        Some(Finding {
            rule: clean(&view.id),
            threshold: clean(&view.about),
            title: clean(&view.title),
            evidence: vec![
                evidence(format!("their share of {}", mean.name), hit.value, "1"),
                read(id)?,
                mean,
                read(&view.inside)?,
            ],
            next_experiment: clean(next),
            strength: hit.value,
            ..group.finding(rule, Class::Advice, hit.row, hit.cases)
        })
    };
    let mut findings = Vec::new();
    for view in &report.views {
        let View::Outliers(outliers) = view else { continue };
        let mine = groups(report).into_iter().filter(|group| view.is_about(&group.section.workload));
        findings.extend(mine.filter_map(|group| found(outliers, group)));
    }
    findings
}
