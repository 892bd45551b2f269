//! Rules about the work of devices and the work that the host does for it.

use ellwand_profile::{Kind, Part};

use super::{Confidence, Facts, ProfileFinding, Rule, Trigger, evidence};

const COPIES: [Kind; 3] = [Kind::HostToDevice, Kind::DeviceToHost, Kind::DeviceToDevice];

/// Median duration of all spans of a kind.
fn median(facts: &Facts, kind: Kind) -> Option<f64> {
    let spans = facts.spans_of(|site| site.kind == kind);
    ellwand_stats::median(&spans.into_iter().map(|span| facts.trace.duration_ns(span)).collect::<Vec<f64>>())
}

fn parts(facts: &Facts, parts: &[Part]) -> Vec<Trigger> {
    parts.iter().map(|part| evidence(part.word(), facts.share(*part), "share")).collect()
}

pub(super) fn launch_bound(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let share = facts.share(Part::Launch);
    let (Some(kernel), Some(launch)) = (median(facts, Kind::Kernel), median(facts, Kind::Launch)) else {
        return Vec::new();
    };
    if share < 0.1 || kernel >= 2.0 * launch {
        return Vec::new();
    }
    let mut numbers = parts(facts, &[Part::Launch, Part::Device]);
    numbers.push(evidence("median kernel", kernel, "ns"));
    numbers.push(evidence("median launch", launch, "ns"));
    let finding = rule.finding("Launching costs as much as computing", Confidence::High, numbers);
    vec![ProfileFinding { saving_upper_bound: Some(share), ..facts.located(finding, &[Kind::Launch]) }]
}

pub(super) fn transfer_bound(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let share = facts.share(Part::Transfer);
    if share < 0.2 {
        return Vec::new();
    }
    // Aggregated copies have no position in time, so how much of them is hidden is an estimate.
    let aggregated = facts.of_kind(&COPIES).any(|row| row.aggregated > 0);
    let confidence = if aggregated { Confidence::Medium } else { Confidence::High };
    let (mut moved, mut ns) = (0.0, 0.0);
    for row in facts.of_kind(&COPIES).filter(|row| row.counters.bytes > 0) {
        moved += row.counters.bytes as f64;
        ns += row.total_ns;
    }
    let mut numbers = parts(facts, &[Part::Transfer, Part::Device]);
    if ns > 0.0 {
        numbers.push(evidence("copied", moved, "B"));
        numbers.push(evidence("rate of copies", moved / ns * 1e9, "B/s"));
    }
    let finding = rule.finding("Copies to and from the device take the time", confidence, numbers);
    vec![ProfileFinding { saving_upper_bound: Some(share), ..facts.located(finding, &COPIES) }]
}

pub(super) fn sync_bound(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let (mut waits, mut calls) = (0.0, 0_u64);
    for row in facts.of_kind(&[Kind::Sync]) {
        waits += row.self_ns;
        calls = calls.saturating_add(row.count);
    }
    let host = facts.share(Part::Cpu) + facts.share(Part::Unmeasured) + facts.share(Part::Launch);
    let device = facts.share(Part::Device) + facts.share(Part::Transfer);
    let share = waits / facts.wall_ns();
    if share < 0.2 || host.min(device) < 0.1 {
        return Vec::new();
    }
    let numbers = vec![
        evidence("waiting for the device", share, "share"),
        evidence("synchronizations", calls as f64, ""),
        evidence("host alone", host, "share"),
        evidence("device alone", device, "share"),
    ];
    let finding = rule.finding("Host and device take turns", Confidence::Medium, numbers);
    // With perfect overlap, the shorter of the two would vanish.
    vec![ProfileFinding { saving_upper_bound: Some(host.min(device)), ..facts.located(finding, &[Kind::Sync]) }]
}
