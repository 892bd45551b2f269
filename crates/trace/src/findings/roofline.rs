//! Rules that compare declared work with the limits of the machine.

use ellwand_profile::{Row, Trace};

use super::{Ceilings, Confidence, Facts, ProfileFinding, Rule, evidence};

/// Share of a limit from which that limit bounds an operation, as in the speed-of-light rule of Nsight Compute.
const BOUND: f64 = 0.6;

/// Nanoseconds during which at least one thread is in the operation: concurrent calls share the limits.
fn busy_ns(facts: &Facts, row: &Row) -> f64 {
    if row.aggregated > 0 {
        return row.total_ns;
    }
    facts.busy_ns(facts.spans_of(|site| site.name == row.name()))
}

/// For bytes and for floating-point operations: the rate of an operation, and its share of the limit.
fn reached(facts: &Facts, row: &Row, ns: f64) -> [Option<(f64, f64)>; 2] {
    let Some(ceilings) = &facts.ceilings else { return [None; 2] };
    // The limits of the processors do not apply to a device.
    if row.device_ns > 0.0 || row.transfer_ns > 0.0 || row.lacks_work {
        return [None; 2];
    }
    let bytes = row.counters.bytes as f64;
    let limits = [ceilings.bandwidth(bytes / row.count.max(1) as f64), ceilings.flops_per_s];
    let work = [bytes, row.counters.flops];
    [0, 1].map(|of| {
        let (limit, rate): (Option<f64>, f64) = (limits[of], work[of] / ns * 1e9);
        limit.filter(|limit| *limit > 0.0 && rate > 0.0 && ns > 0.0).map(|limit| (rate, rate / limit))
    })
}

/// The shares of the machine's limits that operations with declared bytes or flops reach: name, share of the bandwidth
/// and of the arithmetic. Largest total time first.
pub fn reached_limits(trace: &Trace, ceilings: Ceilings) -> Vec<(String, [Option<f64>; 2])> {
    let facts = Facts::of(trace, Some(ceilings));
    let mut rows: Vec<&Row> = facts.operations.rows.iter().collect();
    rows.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
    let shares = |row: &Row| reached(&facts, row, busy_ns(&facts, row)).map(|one| one.map(|(_, share)| share));
    let all = rows.into_iter().map(|row| (row.name().to_string(), shares(row)));
    all.filter(|(_, shares)| shares.iter().any(Option::is_some)).collect()
}

fn bound(facts: &Facts, rule: &Rule, of: usize) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    for row in facts.operations.rows.iter().filter(|row| row.total_ns >= 0.05 * facts.wall_ns()) {
        let ns = busy_ns(facts, row);
        let reached = reached(facts, row, ns);
        let (Some((rate, share)), other) = (reached[of], reached[1 - of].map_or(0.0, |(_, share)| share)) else {
            continue;
        };
        if share < BOUND || share < other {
            continue;
        }
        let (what, unit) = if of == 0 { ("bandwidth", "B/s") } else { ("arithmetic", "flop/s") };
        let numbers =
            vec![evidence(format!("share of the {what} limit"), share, "share"), evidence("rate", rate, unit)];
        // Above the limit, the count of work or the limit is wrong, or calls read the same few bytes again and again.
        let (title, confidence) = if share > 1.05 {
            (
                format!("{} exceeds the {what} limit: the declared work or the limit is wrong", row.name()),
                Confidence::Low,
            )
        } else {
            (format!("{} runs near the {what} limit", row.name()), Confidence::High)
        };
        let mut finding = rule.finding(title, confidence, numbers);
        // At the limit, only less work saves time; faster execution saves at most the distance to the limit.
        finding.saving_upper_bound = Some(((1.0 - share).max(0.0) * ns / facts.wall_ns()).min(1.0));
        finding.operations = vec![row.name().to_string()];
        finding.ranges = facts.ranges(facts.spans_of(|site| site.name == row.name()));
        found.push(finding);
    }
    found
}

pub(super) fn bandwidth_bound(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    bound(facts, rule, 0)
}

pub(super) fn compute_bound(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    bound(facts, rule, 1)
}
