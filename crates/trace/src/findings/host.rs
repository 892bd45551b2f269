//! Rules about the recording itself and about host threads.

use std::collections::BTreeMap;

use ellwand_profile::{By, Kind, LaneKind, Part, Span, Total, Trace};

use crate::gaps::{self, Gaps};

use super::{Confidence, Facts, ProfileFinding, Rule, evidence};

pub(super) fn incomplete(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let Gaps { aggregated, lost, refused, details, .. } = Gaps::of(facts.trace);
    if lost == 0 && refused == 0 && details == 0 && aggregated == 0 {
        return Vec::new();
    }
    let title = if lost > 0 || refused > 0 || details > 0 {
        "The profile is incomplete"
    } else {
        "Only a part of the spans is kept; the totals are complete"
    };
    let kept = gaps::spans(facts.trace).count() as u64;
    let mut numbers = vec![("lost spans", lost), ("kept spans", kept), ("lost details", details)];
    if refused > 0 {
        numbers.push(("operations of devices with impossible times", refused));
    }
    if aggregated > 0 {
        numbers.push(("spans only in totals", aggregated));
    }
    let numbers = numbers.into_iter().map(|(name, value)| evidence(name, value as f64, "")).collect();
    vec![rule.finding(title, Confidence::High, numbers)]
}

pub(super) fn own_cost(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let share = facts.share(Part::Instrumentation);
    if share < 0.05 {
        return Vec::new();
    }
    let numbers = vec![
        evidence("instrumentation", share, "share"),
        evidence("spans", facts.operations.rows.iter().map(|row| row.count as f64).sum(), ""),
    ];
    let mut finding = rule.finding("The profiler takes much of the time", Confidence::High, numbers);
    finding.saving_upper_bound = Some(share);
    let mut rows: Vec<_> = facts.operations.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    finding.operations = rows.into_iter().take(3).map(|row| row.name().to_string()).collect();
    vec![finding]
}

pub(super) fn waiting(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let share = facts.share(Part::Wait);
    if share < 0.2 {
        return Vec::new();
    }
    let mut numbers =
        vec![evidence("waiting", share, "share"), evidence("waiting", facts.breakdown.ns(Part::Wait), "ns")];
    let kinds = [Kind::Wait, Kind::Sync];
    let most = own_waits(facts.trace).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let known =
        most.filter(|(_, ns)| *ns > 0.0).and_then(|(site, ns)| Some((facts.trace.sites.get(site as usize - 1)?, ns)));
    let waits = |site: u32| facts.trace.sites.get(site as usize - 1).is_some_and(|site| kinds.contains(&site.kind));
    // Elapsed time without CPU time can also mean that another program preempted the thread.
    let confidence = if most.is_some_and(|(site, _)| waits(site)) { Confidence::High } else { Confidence::Medium };
    let mut finding = rule.finding("Host threads wait", confidence, Vec::new());
    finding = facts.located(finding, &kinds);
    if let Some((site, ns)) = known {
        numbers.push(evidence(format!("waiting in {}", site.name), ns, "ns"));
        if !finding.operations.contains(&site.name) {
            finding.operations.push(site.name.clone());
        }
    }
    finding.evidence = numbers;
    finding.saving_upper_bound = Some(share);
    vec![finding]
}

/// Nanoseconds for which the spans of each site themselves wait: elapsed minus CPU time, without the waits of the spans
/// inside. Spans of a waiting kind without measured CPU time wait all the time.
fn own_waits(trace: &Trace) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    let waits = |site: u32, ns: f64, cpu: Option<u64>| {
        let kind = site.checked_sub(1).and_then(|at| trace.sites.get(at as usize)).map(|site| site.kind);
        let all = matches!(kind, Some(Kind::Wait | Kind::Sync)).then_some(ns);
        cpu.map(|cpu| (ns - cpu as f64).max(0.0)).or(all)
    };
    for lane in trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Thread) {
        let span = |span: &Span| {
            let cpu = lane.detail_of(span).and_then(|detail| detail.cpu_ns).filter(|_| !span.is_open());
            (span.parent, span.site, waits(span.site, trace.duration_ns(span), cpu))
        };
        let total = |total: &Total| (total.parent, total.site, waits(total.site, total.total_ns, total.sums.cpu_ns));
        let spans: Vec<_> = lane.spans.iter().map(span).collect();
        let totals: Vec<_> = lane.totals.iter().map(total).collect();
        for nodes in [spans, totals] {
            let mut own: Vec<f64> = nodes.iter().map(|(.., ns)| ns.unwrap_or(0.0)).collect();
            for (parent, _, ns) in &nodes {
                if let Some(around) = own.get_mut(*parent as usize) {
                    *around -= ns.unwrap_or(0.0);
                }
            }
            for ((_, site, _), ns) in nodes.iter().zip(own).filter(|((_, site, _), _)| *site > 0) {
                *sums.entry(*site).or_default() += ns.max(0.0);
            }
        }
    }
    sums
}

pub(super) fn allocation_churn(facts: &Facts, rule: &Rule) -> Vec<ProfileFinding> {
    let share = facts.share(Part::Allocation);
    let churns = |memory: &ellwand_profile::MemoryUse| {
        memory.allocations >= 1000 && memory.allocated_bytes / 10 >= memory.peak_bytes.max(1)
    };
    // Self time would be a better order of the rows, but allocations are only known including nested spans.
    let worst = facts
        .operations
        .rows
        .iter()
        .filter_map(|row| Some((row, row.memory.filter(churns)?)))
        .max_by_key(|(_, memory)| memory.allocated_bytes);
    if share < 0.05 && worst.is_none() {
        return Vec::new();
    }
    let mut numbers = vec![evidence("allocation", share, "share")];
    if let Some((row, memory)) = worst {
        numbers.push(evidence(format!("allocations in {}", row.name()), memory.allocations as f64, ""));
        numbers.push(evidence("allocated", memory.allocated_bytes as f64, "B"));
        numbers.push(evidence("peak", memory.peak_bytes as f64, "B"));
    }
    let confidence = if share >= 0.05 { Confidence::High } else { Confidence::Medium };
    let mut finding =
        facts.located(rule.finding("Memory is allocated and freed again", confidence, numbers), &[Kind::Allocation]);
    finding.operations.extend(worst.map(|(row, _)| row.name().to_string()));
    finding.saving_upper_bound = (share > 0.0).then_some(share);
    if finding.operations.is_empty() {
        let first = facts.trace.bottlenecks(1).into_iter().find(|one| one.by == By::Exposed);
        finding.operations.extend(first.map(|one| one.operation));
    }
    vec![finding]
}
