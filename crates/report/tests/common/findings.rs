//! Synthetic measurements, and the findings they trigger.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    dead_code,
    unreachable_pub,
    reason = "each test takes what it needs"
)]

use ellwand_core::record::Record;
use ellwand_core::{Measurement, View, Work};
use ellwand_report::{Finding, Options, RULES, Report};

use super::common;

pub const MIB: u64 = 1 << 20;

/// 64 MiB in and out at this speed; the synthetic machine has a ceiling of 24 GB/s.
pub fn stream(bytes_per_s: f64) -> Measurement {
    let bytes = 64 * MIB;
    let seconds = bytes as f64 / bytes_per_s;
    common::measured(
        &common::lattice_case("w", 1000),
        "simd",
        seconds,
        Work::items("vectors", 1000).bytes(bytes / 2, bytes / 2),
    )
}

pub fn sized(batch: i64, implementation: &str, seconds: f64) -> Measurement {
    common::measured(&common::lattice_case("w", batch), implementation, seconds, Work::items("vectors", batch as u64))
}

pub fn findings(measurements: &[Measurement]) -> Vec<Finding> {
    let record: Record = common::through_text(&common::run(), measurements);
    Report::from_records(&[record], &Options::default()).unwrap().findings
}

pub fn of<'a>(rule: &str, findings: &'a [Finding]) -> Option<&'a Finding> {
    let of_view = |view: &View| matches!(view, View::Outliers(outliers) if outliers.id == rule);
    let known = RULES.iter().any(|known| known.id == rule) || common::views().iter().any(of_view);
    assert!(known, "no rule {rule}");
    findings.iter().find(|finding| finding.rule == rule)
}

#[track_caller]
pub fn speaks(rule: &str, measurements: &[Measurement]) -> Finding {
    let all = findings(measurements);
    let finding = of(rule, &all).unwrap_or_else(|| panic!("{rule} is silent: {all:#?}")).clone();
    assert!(!finding.evidence.is_empty() && !finding.title.is_empty() && !finding.next_experiment.is_empty());
    assert!(finding.evidence.iter().all(|evidence| evidence.value.is_finite()), "{finding:?}");
    if let Some(saving) = finding.saving_upper_bound {
        assert!((0.0..=1.0).contains(&saving), "{saving}");
    }
    finding
}

#[track_caller]
pub fn silent(rule: &str, measurements: &[Measurement]) {
    assert!(of(rule, &findings(measurements)).is_none(), "{rule} speaks");
}
