//! Rules about costs that do not grow with the work: calls, dispatch, launches, first-touch faults.

use super::{Class, DiagnosisRule, Finding, each, evidence};
use crate::model::{Report, Row};

const PER_ITEM: f64 = 3.0;
const FIRST_OVER_STEADY: f64 = 10.0;
const FIRST_S: f64 = 100e-6;
const HOST_OVER_DEVICE: f64 = 1.0;

fn per_item(row: &Row) -> Option<f64> {
    Some(row.median("time")? / row.work.items.max(1) as f64)
}

/// Compares the time per item of the smallest and the largest case that differ only in the number of items.
pub(super) fn small_cases(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let timed: Vec<&Row> = group.rows.iter().filter(|row| per_item(row).is_some()).copied().collect();
        let hits: Vec<(&Row, &Row, f64)> = timed.iter().filter_map(|small| pair(small, &timed)).collect();
        let Some((small, large, ratio)) = hits.iter().copied().max_by(|a, b| a.2.total_cmp(&b.2)) else {
            return group.not_triggered(rule, Class::Advice, timed.len());
        };
        let item = small.work.item.trim_end_matches('s');
        Some(Finding {
            title: format!("small cases cost more per {item}: its time falls {} from the smallest to the largest", crate::units::ratio(ratio)),
            evidence: vec![
                evidence(format!("time per {item} at {}", small.work.items), per_item(small)?, "s"),
                evidence(format!("at {}", large.work.items), per_item(large)?, "s"),
                evidence("time of the small call", small.median("time")?, "s"),
            ],
            saving_upper_bound: Some(1.0 - 1.0 / ratio),
            next_experiment: match small.device.as_str() {
                "cpu" => "batch small inputs into one call where you can; otherwise look for allocation, thread wake-ups and table building inside the call",
                _ => "batch small inputs into one launch where you can: a launch takes the same time whatever it does, and few blocks leave most of the device idle",
            }
            .into(),
            ..group.finding(rule, Class::Advice, small, (hits.len(), timed.len()))
        })
    })
}

/// The row to compare a small case with: the one with the most items that differs in a single parameter. Also returns
/// the ratio of times per item, if it reaches the threshold.
fn pair<'a>(small: &'a Row, timed: &[&'a Row]) -> Option<(&'a Row, &'a Row, f64)> {
    let large = timed.iter().copied().filter(|large| differs_in_one(small, large)).max_by_key(|row| row.work.items)?;
    let ratio = per_item(small)? / per_item(large)?;
    (small.work.items < large.work.items && ratio >= PER_ITEM).then_some((small, large, ratio))
}

/// True if two rows of the same implementation differ in exactly one parameter.
fn differs_in_one(a: &Row, b: &Row) -> bool {
    a.device == b.device
        && a.params.len() == b.params.len()
        && a.params.iter().zip(&b.params).all(|(x, y)| x.axis == y.axis)
        && a.params.iter().zip(&b.params).filter(|(x, y)| x.value != y.value).count() == 1
}

/// Finds cases in which launching takes the host longer than the device needs for the work. The device waits while a
/// slot is queued, so the wall time beyond the device time belongs to the host; if queueing and work overlap, the host
/// time is even longer.
pub(super) fn launching(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    // Starting and ending a slot also counts as wall time, which would dominate cold slots of one iteration.
    let device = |row: &Row| row.median("time").filter(|_| row.device != "cpu" && row.caches.is_warm());
    let host = |row: &Row| Some((row.median("wall-time")? - device(row)?).max(0.0));
    each(report, |group| {
        let hit = group.worst(HOST_OVER_DEVICE, |row| Some(host(row)? / device(row)?))?;
        let (device, host) = (device(hit.row)?, host(hit.row)?);
        Some(Finding {
            title: "the host takes longer to launch it than the device to run it: a program that launches it one by one waits for the host".into(),
            evidence: vec![
                evidence("on the device", device, "s"),
                evidence("on the host", host, "s"),
                evidence("ratio", hit.value, "x"),
            ],
            saving_upper_bound: Some(1.0 - device / host),
            next_experiment: "replay its launches as a graph, fuse kernels, or give each launch more work; the tables show only device times".into(),
            strength: hit.value,
            ..group.finding(rule, Class::Caution, hit.row, hit.cases)
        })
    })
}

pub(super) fn first_run(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let hit = group.worst(FIRST_OVER_STEADY, |row| {
            // A short first run is not worth mentioning, however much faster later ones are.
            let long = row.first_run_s.is_some_and(|first| first >= FIRST_S);
            row.first_over_steady.map(|ratio| if long { ratio } else { 0.0 })
        })?;
        Some(Finding {
            title: "the first run costs much more than the steady state".into(),
            evidence: vec![
                evidence("first run", hit.row.first_run_s?, "s"),
                evidence("steady state", hit.row.first_run_s? / hit.value, "s"),
                evidence("ratio", hit.value, "x"),
            ],
            next_experiment: "if your program calls it once, the first run is the cost that you pay: warm up early (touch the memory, start the threads), or keep buffers and threads alive between calls".into(),
            strength: hit.value,
            ..group.finding(rule, Class::Caution, hit.row, hit.cases)
        })
    })
}
