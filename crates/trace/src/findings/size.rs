//! The rule about operations that ran on the GPU at sizes for which the CPU is faster.

use super::{Confidence, Facts, ProfileFinding, Rule, evidence};
use crate::routing::{Routing, timings};

pub(super) fn too_small(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    for timings in timings(facts.trace) {
        let Ok(routing) = Routing::of(&timings.operation, &timings.cpu, &timings.gpu) else { continue };
        let lost = |timing: &crate::Timing| {
            let cpu = routing.cpu_ns(timing.size)?;
            Some((timing.ns - cpu).max(0.0))
        };
        let lost_ns: f64 = timings.gpu.iter().filter_map(lost).sum();
        let share = lost_ns / facts.wall_ns();
        if share < 0.01 {
            continue;
        }
        let mut numbers = vec![evidence("time lost on the GPU", lost_ns, "ns")];
        if let Some(crossover) = &routing.crossover {
            numbers.push(evidence("crossover size", crossover.size, ""));
            numbers.extend(crossover.low.map(|low| evidence("at least (95 %)", low, "")));
            numbers.extend(crossover.high.map(|high| evidence("at most (95 %)", high, "")));
        }
        let mut finding = rule.finding(
            format!("{} is too small for the GPU at some sizes", timings.operation),
            Confidence::Medium,
            numbers,
        );
        finding.saving_upper_bound = Some(share.min(1.0));
        finding.operations = vec![timings.operation.clone()];
        found.push(finding);
    }
    found
}
