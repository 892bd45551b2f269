//! Rules that compare declared work with the limits of the machine.

use ellwand_profile::{Row, Trace};

use super::{Ceilings, Confidence, Facts, Limits, ProfileFinding, Rule, evidence};

/// Share of a limit from which that limit bounds an operation, as in the speed-of-light rule of Nsight Compute.
const BOUND: f64 = 0.6;
/// Share of a limit above which that limit does not apply: less is the uncertainty of its measurement.
const EXCEEDED: f64 = 1.05;

/// The share of a limit that an operation reaches: of one thread's limit, unless the operation exceeds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Rate over limit.
    pub share: f64,
    /// True if the limit is that of all threads.
    pub of_all_threads: bool,
}

impl Reached {
    fn of(rate: f64, [one, all]: [Option<f64>; 2]) -> Option<Self> {
        let share = |limit: Option<f64>| limit.filter(|limit| *limit > 0.0).map(|limit| rate / limit);
        let of = |of_all_threads| move |share| Self { share, of_all_threads };
        let one = share(one).map(of(false));
        one.filter(|one| one.share <= EXCEEDED).or(share(all).map(of(true))).or(one)
    }

    /// Whose limit it is.
    pub fn threads(self) -> &'static str {
        if self.of_all_threads { "all threads" } else { "one thread" }
    }
}

/// Nanoseconds during which at least one thread is in the operation: concurrent calls share the limits.
fn busy_ns(facts: &Facts, row: &Row) -> f64 {
    if row.aggregated > 0 {
        return row.total_ns;
    }
    facts.busy_ns(facts.spans_of(|site| site.name == row.name()))
}

/// For bytes and for floating-point operations: the rate of an operation, and its share of the limit.
fn reached(facts: &Facts, row: &Row, ns: f64) -> [Option<(f64, Reached)>; 2] {
    let Some(ceilings) = &facts.ceilings else { return [None; 2] };
    // The limits of the processors do not apply to a device.
    if row.device_ns > 0.0 || row.transfer_ns > 0.0 || row.lacks_work {
        return [None; 2];
    }
    let bytes = row.counters.bytes as f64;
    let limits = [&ceilings.one_thread, &ceilings.all_threads];
    let bandwidths = limits.map(|limits: &Limits| limits.bandwidth(bytes / row.count.max(1) as f64));
    [(bytes, bandwidths), (row.counters.flops, limits.map(|limits| limits.flops_per_s))].map(|(work, limits)| {
        let rate = work / ns * 1e9;
        let known = rate > 0.0 && ns > 0.0;
        Reached::of(rate, limits).filter(|_| known).map(|reached| (rate, reached))
    })
}

/// The shares of the machine's limits that operations with declared bytes or flops reach: name, share of the bandwidth
/// and of the arithmetic. Largest total time first.
pub fn reached_limits(trace: &Trace, ceilings: Ceilings) -> Vec<(String, [Option<Reached>; 2])> {
    let facts = Facts::of(trace, Some(ceilings));
    let mut rows: Vec<&Row> = facts.operations.rows.iter().collect();
    rows.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
    let shares = |row: &Row| reached(&facts, row, busy_ns(&facts, row)).map(|one| one.map(|(_, reached)| reached));
    let all = rows.into_iter().map(|row| (row.name().to_string(), shares(row)));
    all.filter(|(_, shares)| shares.iter().any(Option::is_some)).collect()
}

fn bound(facts: &Facts, rule: &Rule, of: usize) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    for row in facts.operations.rows.iter().filter(|row| row.total_ns >= 0.05 * facts.wall_ns()) {
        let ns = busy_ns(facts, row);
        let reached = reached(facts, row, ns);
        let other = reached[1 - of].map_or(0.0, |(_, other)| other.share);
        let Some((rate, reached)) = reached[of] else { continue };
        let (share, threads) = (reached.share, reached.threads());
        if share < BOUND || share < other {
            continue;
        }
        let (what, unit) = if of == 0 { ("bandwidth", "B/s") } else { ("arithmetic", "flop/s") };
        let numbers = vec![
            evidence(format!("share of the {what} limit of {threads}"), share, "share"),
            evidence("rate", rate, unit),
        ];
        // Above the limit, the count of work or the limit is wrong, or calls read the same few bytes again and again.
        let (title, confidence) = if share > EXCEEDED {
            (
                format!(
                    "{} exceeds the {what} limit of {threads}: the declared work or the limit is wrong",
                    row.name()
                ),
                Confidence::Low,
            )
        } else {
            (format!("{} runs near the {what} limit of {threads}", row.name()), Confidence::High)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_compared_with_one_thread_unless_it_exceeds_its_limit() {
        let of = |one, all| Reached::of(90.0, [one, all]).map(|reached| (reached.share, reached.threads()));
        assert_eq!(of(Some(100.0), Some(200.0)), Some((0.9, "one thread")));
        assert_eq!(of(Some(50.0), Some(100.0)), Some((0.9, "all threads")));
        assert_eq!(of(Some(88.0), Some(180.0)).map(|(_, threads)| threads), Some("one thread"), "about the limit");
        assert_eq!(
            (of(None, Some(100.0)), of(Some(45.0), None)),
            (Some((0.9, "all threads")), Some((2.0, "one thread")))
        );
        assert_eq!(of(None, Some(0.0)), None);
    }
}
