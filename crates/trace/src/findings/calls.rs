//! Rules that compare calls of one operation with each other.

use std::collections::{BTreeMap, HashSet};

use ellwand_profile::{Kind, SiteInfo, Span};

use super::inputs::Inputs;
use super::{Confidence, Facts, ProfileFinding, Rule, evidence};
use crate::chrome::is_thread;
use crate::gaps::Gaps;

pub(super) fn first_call(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    let mut waits = HashSet::new();
    for (SiteInfo { name, kind, .. }, spans) in facts.sites().filter(|(_, spans)| spans.len() >= 5) {
        let Some(first) = spans.iter().map(|(.., span)| *span).min_by_key(|span| span.start) else { continue };
        let all: Vec<f64> = spans.iter().map(|(.., span)| facts.trace.duration_ns(span)).collect();
        let (Some(median), first_ns) = (ellwand_stats::median(&all), facts.trace.duration_ns(first)) else { continue };
        let share = (first_ns - median) / facts.wall_ns();
        if first_ns < 10.0 * median || share < 0.01 {
            continue;
        }
        let numbers = vec![
            evidence("first call", first_ns, "ns"),
            evidence("median call", median, "ns"),
            evidence("calls", spans.len() as f64, ""),
        ];
        let mut finding = rule.finding(format!("The first call of {name} is an outlier"), Confidence::High, numbers);
        finding.saving_upper_bound = Some(facts.saving(first_ns - median, [first]));
        finding.operations = vec![name.to_string()];
        finding.ranges = facts.ranges(vec![first]);
        if matches!(kind, Kind::Wait | Kind::Sync) {
            waits.insert(name.to_string());
        }
        found.push(finding);
    }
    // A long first wait explains its callers, but no warm-up shortens it.
    let mut found = outermost(found);
    found.retain(|finding| !finding.operations.iter().any(|name| waits.contains(name)));
    found
}

/// A slow inner call makes all its callers slow: of nested findings, keeps the innermost one that explains the others,
/// or else the outermost, whose cause may be several inner calls.
fn outermost(found: Vec<ProfileFinding>) -> Vec<ProfileFinding> {
    let contains = |outer: &ProfileFinding, inner: &ProfileFinding| match (outer.ranges.first(), inner.ranges.first()) {
        (Some(a), Some(b)) => a != b && a.0 <= b.0 && b.1 <= a.1,
        _ => false,
    };
    let explained = |one: &ProfileFinding| {
        let saving = one.saving_upper_bound.unwrap_or(0.0);
        found.iter().any(|other| contains(one, other) && other.saving_upper_bound.unwrap_or(0.0) >= 0.8 * saving)
    };
    let kept: Vec<&ProfileFinding> = found.iter().filter(|one| !explained(one)).collect();
    let outermost = kept.iter().filter(|one| !kept.iter().any(|other| contains(other, one)));
    outermost.map(|one| (*one).clone()).collect()
}

/// Calls of one operation with inputs of one size.
struct Group<'a> {
    size: &'a str,
    times: Vec<f64>,
    spans: Vec<&'a Span>,
}

impl Group<'_> {
    /// The median and the 99th percentile, if they differ by enough for the rule to report them.
    fn spread(&self) -> Option<(f64, f64)> {
        let (median, p99) = (ellwand_stats::median(&self.times)?, ellwand_stats::quantile(&self.times, 0.99)?);
        (self.times.len() >= 20 && median > 0.0 && p99 >= 3.0 * median).then_some((median, p99))
    }

    /// Time above the median.
    fn slow_ns(&self, median: f64) -> f64 {
        self.times.iter().map(|ns| (ns - median).max(0.0)).sum()
    }
}

pub(super) fn noisy(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    let inputs = Inputs::of(facts.trace);
    for (SiteInfo { name, .. }, spans) in facts.sites().filter(|(_, spans)| spans.len() >= 20) {
        let first = spans.iter().map(|(.., span)| span.start).min();
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        for (lane, index, span) in spans.into_iter().filter(|(.., span)| Some(span.start) != first) {
            let size = inputs.size(lane, index);
            let new = || Group { size: inputs.name(size), times: Vec::new(), spans: Vec::new() };
            let group = groups.entry(size).or_insert_with(new);
            group.times.push(facts.trace.duration_ns(span));
            group.spans.push(span);
        }
        let sizes = groups.len();
        let mut noisy: Vec<(f64, f64, f64, Group)> = groups
            .into_values()
            .filter_map(|group| group.spread().map(|(median, p99)| (group.slow_ns(median), median, p99, group)))
            .collect();
        let total: f64 = noisy.iter().flat_map(|(.., group)| &group.times).sum();
        if total < 0.05 * facts.wall_ns() {
            continue;
        }
        noisy.sort_by(|a, b| b.0.total_cmp(&a.0));
        let slow: f64 = noisy.iter().map(|(slow, ..)| slow).sum();
        let Some((_, median, p99, worst)) = noisy.first() else { continue };
        let mut numbers = vec![
            evidence("99th percentile over median", p99 / median, "x"),
            evidence("median", *median, "ns"),
            evidence("calls", worst.times.len() as f64, ""),
        ];
        if sizes > 1 {
            numbers.push(evidence("sizes with such calls", noisy.len() as f64, ""));
            numbers.push(evidence("sizes", sizes as f64, ""));
        }
        let title = match worst.size {
            "" => format!("Calls of {name} differ much"),
            size => format!("Calls of {name} with {size} differ much"),
        };
        let mut finding = rule.finding(title, Confidence::Medium, numbers);
        let spans: Vec<&Span> = noisy.into_iter().flat_map(|(.., group)| group.spans).collect();
        finding.saving_upper_bound = Some(facts.saving(slow, spans.iter().copied()));
        finding.operations = vec![name.to_string()];
        finding.ranges = facts.ranges(spans);
        found.push(finding);
    }
    found
}

/// The spans of one thread in one operation.
struct Share<'a> {
    busy_ns: f64,
    thread: &'a str,
    spans: Vec<&'a Span>,
    /// From the first span of the thread to its last.
    alive: (u64, u64),
}

pub(super) fn thread_imbalance(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    let gaps = Gaps::of(facts.trace);
    // If only some of a thread's spans are known, its work is not known.
    if gaps.sampled_out > 0 || gaps.last > 0 || gaps.lost > 0 {
        return found;
    }
    let aggregated: HashSet<&str> =
        facts.operations.rows.iter().filter(|row| row.aggregated > 0).map(|row| row.name()).collect();
    for (SiteInfo { name, .. }, spans) in facts.sites().filter(|(site, _)| !aggregated.contains(site.name.as_str())) {
        let mut lanes: BTreeMap<usize, Share> = BTreeMap::new();
        for (number, _, span) in spans {
            let lane = &facts.trace.lanes[number];
            if !is_thread(lane) || lane.is_of_many_threads() {
                continue;
            }
            let new = || Share { busy_ns: 0.0, thread: &lane.name, spans: Vec::new(), alive: extent(&lane.spans) };
            let own = lanes.entry(number).or_insert_with(new);
            own.busy_ns += facts.trace.duration_ns(span);
            own.spans.push(span);
        }
        let shares: Vec<Share> = lanes.into_values().collect();
        let mean = shares.iter().map(|own| own.busy_ns).sum::<f64>() / shares.len().max(1) as f64;
        let Some(busiest) = shares.iter().max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns)) else { continue };
        let most = busiest.busy_ns;
        if shares.len() < 2
            || most < UNEVEN * mean
            || most - mean < 0.05 * facts.wall_ns()
            || !overlap(&shares)
            || came_and_went(&shares, busiest)
        {
            continue;
        }
        let numbers = vec![
            evidence(format!("busiest thread ({})", busiest.thread), most, "ns"),
            evidence("mean over threads", mean, "ns"),
            evidence("busiest over mean", most / mean, "x"),
        ];
        let mut finding = rule.finding(format!("Threads share {name} unevenly"), Confidence::Medium, numbers);
        finding.saving_upper_bound = Some(facts.saving(most - mean, busiest.spans.iter().copied()));
        finding.operations = vec![name.to_string()];
        finding.ranges = facts.ranges(busiest.spans.clone());
        found.push(finding);
    }
    found
}

/// Smallest ratio of the busiest thread's time to the mean.
const UNEVEN: f64 = 1.2;

/// True if the threads began at different times and each did equal work per time that it lived: then no common piece of
/// work was divided among them.
fn came_and_went(shares: &[Share], busiest: &Share) -> bool {
    let lived = |share: &Share| share.alive.1.saturating_sub(share.alive.0).max(1) as f64;
    let starts = || shares.iter().map(|share| share.alive.0);
    let apart = starts().max().unwrap_or(0) - starts().min().unwrap_or(0);
    let rates = || shares.iter().map(|share| share.busy_ns / lived(share));
    let (most, mean) = (rates().fold(0.0, f64::max), rates().sum::<f64>() / shares.len() as f64);
    apart as f64 > 0.1 * lived(busiest) && most < UNEVEN * mean
}

/// First start and last end; both 0 without spans.
fn extent<'a>(spans: impl IntoIterator<Item = &'a Span>) -> (u64, u64) {
    let extent = spans.into_iter().fold(None, |extent: Option<(u64, u64)>, span| {
        let (start, end) = extent.unwrap_or((span.start, span.end));
        Some((start.min(span.start), end.max(span.end)))
    });
    extent.unwrap_or_default()
}

/// True if spans of two threads overlap in time. Threads that take turns do not share work.
fn overlap(shares: &[Share]) -> bool {
    let mut extents: Vec<(u64, u64)> = shares.iter().map(|share| extent(share.spans.iter().copied())).collect();
    extents.sort_unstable();
    extents.windows(2).any(|pair| pair[1].0 < pair[0].1)
}
