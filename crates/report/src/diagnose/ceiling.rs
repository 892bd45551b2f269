//! Rules about the distance to the measured peaks (Williams, Waterman, Patterson 2009).

use super::limit::ABOVE;
use super::{Class, Confidence, DiagnosisRule, Finding, Limit, each, evidence};
use crate::model::{Report, Row};

const FAR: f64 = 0.3;

fn share(row: &Row) -> Option<f64> {
    row.median("roofline-fraction")
}

/// The ceiling of a row; calibration rows define the ceilings and have none.
fn peak(row: &Row) -> Option<(String, f64, &'static str)> {
    let roof = row.roof.as_ref()?;
    let ceiling = &roof.ceiling;
    Some(if roof.memory_bound {
        (
            format!("measured {} {} bandwidth", ceiling.level, ceiling.kind.title()).replace("  ", " "),
            ceiling.value,
            "B/s",
        )
    } else {
        (format!("measured {} peak", ceiling.kind.title()), ceiling.value, "FLOP/s")
    })
}

pub(super) fn above(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let hit = group.worst(ABOVE, |row| {
            let d = row.diagnosis.as_ref()?;
            Some(if d.limit == Limit::AboveCeiling { d.share } else { 0.0 })
        })?;
        let (name, value, unit) = peak(hit.row)?;
        Some(Finding {
            title: "faster than the measured ceiling: the ceiling or the count of required work is wrong".into(),
            evidence: vec![evidence("share of the ceiling when undisturbed", hit.value, "1"), evidence(name, value, unit)],
            next_experiment: "measure the ceilings again on a quiet machine (`ellwand machine`), and check whether the work could stay in a faster cache \
                              or whether fewer bytes and operations are required than the workload states"
                .into(),
            strength: hit.value,
            ..group.finding(rule, Class::Fault, hit.row, hit.cases)
        })
    })
}

pub(super) fn far(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        // Fixed costs matter least at the largest case, and only the best implementation is worth advice. A limit that
        // explains the time is more useful than the distance to another one.
        let known = |row: &&Row| row.diagnosis.as_ref().is_some_and(|d| d.limit != Limit::Unexplained);
        let row = group.largest().filter(|row| row.best || group.section.implementations.len() == 1)?;
        let value = share(row)?;
        if known(&row) || value >= FAR {
            return group.not_triggered(rule, Class::Advice, 1);
        }
        let (name, peak, unit) = peak(row)?;
        let memory = row.roof.as_ref()?.memory_bound;
        let on_device = row.device != "cpu";
        let explanation = if on_device {
            "look at what warps wait for, at scattered accesses, at integer work that the operation count omits, and check whether blocks fill the device"
        } else if !row.caches.is_warm() {
            "cache lines that the processor does not prefetch, code and page tables wait for memory latency: compare with warm caches, and look at the order of accesses"
        } else if memory {
            "neither memory nor the counted operations explain the time: look for dependent instructions, branches, table look-ups or integer work that the operation count omits"
        } else {
            "the arithmetic units wait: look at the vector width that actually ran, at dependency chains and at conversions"
        };
        Some(Finding {
            title: "the fastest implementation is far from the measured ceiling".into(),
            evidence: vec![
                evidence("share of the ceiling", value, "1"),
                evidence(name, peak, unit),
                evidence("median time", row.median("time")?, "s"),
            ],
            saving_upper_bound: Some(1.0 - value),
            next_experiment: format!(
                "{explanation}; run it under {} with `run --once`",
                if on_device { "Nsight Compute" } else { "a sampling profiler" }
            ),
            confidence: Confidence::Medium,
            ..group.finding(rule, Class::Advice, row, (1, 1))
        })
    })
}
