//! Rules that compare implementations at the same case.

use ellwand_core::Parallelism;

use super::{Class, Confidence, DiagnosisRule, Finding, Group, each, evidence};
use crate::model::{ONLY, Report, Row};

const WEAK: f64 = 2.0;
const BUSY: f64 = 0.6;

/// A slow, simple baseline inflates speed-ups. Suggests the slowest other implementation as a fairer baseline, at the
/// case with the largest gap.
pub(super) fn weak_baseline(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    // Only for a baseline chosen by the user, here or for the run: warnings about the workload's default would appear in every
    // report.
    let is_option = |word: &str| word.starts_with('-') && word.trim_start_matches('-').starts_with("baseline");
    let named = |run: usize| report.runs.get(run).is_some_and(|run| run.command.split(' ').any(is_option));
    let is_chosen = |run: usize| report.options.baseline.is_some() || named(run);
    each(report, |group| {
        if !is_chosen(group.run) {
            return None;
        }
        let others = |row| group.peers(row).filter(|row| row.speedup.ratio.is_some());
        let mut hits: Vec<(&Row, &Row, &Row, f64)> = Vec::new();
        let mut seen = 0;
        for base in group.rows.iter().filter(|row| row.speedup.is_baseline) {
            let peers = others(base)
                .filter(|row| row.implementation != base.implementation && row.parallelism == Parallelism::Single);
            let slowest = peers.min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            let fastest = others(base).max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            let Some((sober, fastest)) = slowest.zip(fastest) else { continue };
            seen += 1;
            if ratio(sober) >= WEAK && fastest.implementation != sober.implementation {
                hits.push((base, sober, fastest, ratio(sober)));
            }
        }
        let Some((base, sober, fastest, gap)) = hits.iter().copied().max_by(|a, b| a.3.total_cmp(&b.3)) else {
            return group.not_triggered(rule, Class::Caution, seen);
        };
        let (own, other) = (sober.median("time")?, fastest.median("time")?);
        Some(Finding {
            title: format!(
                "{} is a weak baseline; against {} the speed-ups are smaller",
                base.implementation, sober.implementation
            ),
            evidence: vec![
                evidence(format!("{} over {}", fastest.implementation, base.implementation), ratio(fastest), "x"),
                evidence(
                    format!("{} over {} (ratio of medians)", fastest.implementation, sober.implementation),
                    own / other,
                    "x",
                ),
            ],
            next_experiment: format!(
                "state the speed-up against {} (`report --baseline {}`)",
                sober.implementation, sober.implementation
            ),
            implementation: None,
            strength: gap,
            ..group.finding(rule, Class::Caution, base, (hits.len(), seen))
        })
    })
}

fn ratio(row: &Row) -> f64 {
    row.speedup.ratio.unwrap_or(f64::NAN)
}

/// The same code on one thread, with its time: the counterpart that a view names, or else the only row whose
/// description differs in the threads alone. Other code says nothing about threads, even if it is faster.
fn on_one_thread<'a>(report: &Report, group: &Group<'a>, row: &'a Row) -> Option<(&'a Row, f64)> {
    let is_single = |other: &&Row| other.parallelism == Parallelism::Single && other.device == row.device;
    let single: Vec<&Row> = group.peers(row).filter(is_single).collect();
    let named = |other: &&&Row| {
        let pair = |(many, one): &(String, String)| *many == row.implementation && *one == other.implementation;
        report.implementations().any(|view| view.threaded.iter().any(pair))
    };
    let same = |other: &&&Row| !row.what_ran.is_empty() && way(&other.what_ran) == way(&row.what_ran);
    let only = |all: Vec<&'a Row>| if let [one] = all[..] { Some(one) } else { None };
    let one = single.iter().find(named).copied().or_else(|| only(single.iter().filter(same).copied().collect()))?;
    Some((one, one.median("time")?))
}

/// Removes the thread count from a description: `avx512, two passes` from `avx512, 2 threads, two passes`.
fn way(what_ran: &str) -> Vec<&str> {
    let counts = |part: &&str| {
        let mut words = part.split_whitespace();
        words.next().is_some_and(|word| word.parse::<u32>().is_ok())
            && words.next().is_some_and(|word| word.starts_with("thread"))
    };
    what_ran.split(", ").filter(|part| !counts(part)).collect()
}

pub(super) fn threads_do_not_pay(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let mut hits: Vec<(&Row, &Row, f64)> = Vec::new();
        let mut seen = 0;
        for row in group.rows.iter().filter(|row| row.parallelism == Parallelism::Many) {
            let Some(own) = row.median("time") else { continue };
            let Some((single, time)) = on_one_thread(report, &group, row) else { continue };
            // On a busy machine, threads wait for each other's processors.
            if row.held_up.is_some() || single.held_up.is_some() {
                continue;
            }
            seen += 1;
            // The 10th percentile of one exceeds the 90th of the other, so the difference is not only noise.
            let apart = row.stats("time").zip(single.stats("time")).is_some_and(|(many, one)| many.p10 > one.p90);
            // A difference below 5 % need not come from threads, and a run alone cannot establish it.
            if apart && own > 1.05 * time {
                hits.push((row, single, own / time));
            }
        }
        let Some((row, single, slower)) = hits.iter().copied().max_by_key(|(row, _, _)| row.work.items) else {
            return group.not_triggered(rule, Class::Advice, seen);
        };
        let upto = match group.section.place(row) {
            place if place == ONLY => String::new(),
            place => format!(" up to {place}"),
        };
        Some(Finding {
            title: format!("threads do not pay off{upto}: {} is faster on one thread", single.implementation),
            evidence: vec![
                evidence(group.implementation, row.median("time").unwrap_or(f64::NAN), "s"),
                evidence(single.implementation.clone(), single.median("time").unwrap_or(f64::NAN), "s"),
                evidence("slower by", slower, "x"),
            ],
            saving_upper_bound: Some(1.0 - 1.0 / slower),
            next_experiment: format!(
                "use {} below the size where the threads win, or give each thread more work",
                single.implementation
            ),
            ..group.finding(rule, Class::Advice, row, (hits.len(), seen))
        })
    })
}

/// Uses CPU time over wall time, the number of busy processors.
pub(super) fn threads_idle(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let row = group.largest().filter(|row| row.parallelism == Parallelism::Many && row.held_up.is_none())?;
        let cores = f64::from(report.runs.get(group.run)?.environment.cores);
        // Other programs lengthen the median more than the time that the diagnosis explains.
        let time = row.diagnosis.as_ref().map(|d| d.time_s).or_else(|| row.median("time"))?;
        let busy = row.median("cpu-time")? / time;
        if cores < 2.0 || busy >= BUSY * cores {
            return group.not_triggered(rule, Class::Advice, 1);
        }
        Some(Finding {
            title: "its threads rarely work at the same time".into(),
            evidence: vec![
                evidence("processors busy on average", busy, ""),
                evidence("processors of the machine", cores, ""),
                evidence("undisturbed time", time, "s"),
            ],
            saving_upper_bound: Some((1.0 - busy / cores).max(0.0)),
            next_experiment: "check whether the work is split at this size, whether one part is much larger than the others, and whether other programs hold the processors".into(),
            confidence: Confidence::Medium,
            ..group.finding(rule, Class::Advice, row, (1, 1))
        })
    })
}
