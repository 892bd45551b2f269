//! Rules that compare declared work with what the machine can do.

use ellwand_profile::Row;

use super::{Confidence, Facts, Finding, Rule, evidence};

/// Share of a limit from which on it bounds an operation, as in the speed-of-light rule of Nsight Compute.
const BOUND: f64 = 0.6;

/// Shares of the limits that an operation reaches: bytes and floating-point operations.
fn reached(facts: &Facts, row: &Row) -> [Option<f64>; 2] {
    // Work that a device did in the background takes longer than the call that started it.
    let ns = row.total_ns.max(row.device_ns);
    let limits = facts.ceilings.map_or([None; 2], |ceilings| [ceilings.bytes_per_s, ceilings.flops_per_s]);
    let work = [row.counters.bytes as f64, row.counters.flops];
    [0, 1].map(|of| {
        let (limit, work): (Option<f64>, f64) = (limits[of], work[of]);
        limit.filter(|limit| *limit > 0.0 && work > 0.0 && ns > 0.0).map(|limit| work / ns * 1e9 / limit)
    })
}

fn bound(facts: &Facts, rule: &Rule, of: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in facts.operations.rows.iter().filter(|row| row.total_ns >= 0.05 * facts.wall_ns()) {
        let shares = reached(facts, row);
        let (Some(share), other) = (shares[of], shares[1 - of].unwrap_or(0.0)) else { continue };
        if share < BOUND || share < other {
            continue;
        }
        let ns = row.total_ns.max(row.device_ns);
        let (what, rate, unit) = match of {
            0 => ("bandwidth", row.counters.bytes as f64 / ns * 1e9, "B/s"),
            _ => ("arithmetic", row.counters.flops / ns * 1e9, "flop/s"),
        };
        let numbers =
            vec![evidence(format!("share of the {what} limit"), share, "share"), evidence("rate", rate, unit)];
        // Above the limit either the count of work or the limit is wrong.
        let (title, confidence) = if share > 1.05 {
            (
                format!("{} exceeds the {what} limit: the declared work or the limit is wrong", row.name()),
                Confidence::Low,
            )
        } else {
            (format!("{} runs near the {what} limit", row.name()), Confidence::High)
        };
        let mut finding = rule.finding(title, confidence, numbers);
        // At the limit only less work saves time; running it faster saves at most the distance to the limit.
        finding.saving_upper_bound = Some(((1.0 - share).max(0.0) * row.total_ns / facts.wall_ns()).min(1.0));
        finding.operations = vec![row.name().to_string()];
        let spans = facts.sites().filter(|(_, name, _)| *name == row.name()).flat_map(|(.., spans)| spans);
        finding.ranges = facts.ranges(spans.map(|(_, span)| span).collect());
        found.push(finding);
    }
    found
}

pub(super) fn bandwidth_bound(facts: &Facts, rule: &Rule) -> Vec<Finding> {
    bound(facts, rule, 0)
}

pub(super) fn compute_bound(facts: &Facts, rule: &Rule) -> Vec<Finding> {
    bound(facts, rule, 1)
}
