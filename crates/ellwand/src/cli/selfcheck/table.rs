//! The table of a self-check.

use std::io::Write;

use ellwand_bench::selfcheck::{self, Seen, SelfCheck};
use ellwand_report::units;

const KERNEL: &str = "kernel";
const HEAD: &str = "           planted decisions slower faster same undecided withheld\
\x20  called slower (95 %)     bias covered  s (median, p90)  cpu s  found by";

pub(super) fn write(certificate: &SelfCheck, out: &mut dyn Write) -> std::io::Result<()> {
    let width = certificate.rows.iter().map(|row| row.workload.len()).fold(KERNEL.len(), usize::max);
    writeln!(out, "{KERNEL:width$} {HEAD}")?;
    for row in &certificate.rows {
        let power = match row.power() {
            Some((share, low, high)) if !selfcheck::is_equal(&row.candidate) => {
                format!("{:.1} % ({:.1} to {:.1})", share * 100.0, low * 100.0, high * 100.0)
            }
            _ => String::new(),
        };
        let found_by: Vec<String> =
            row.found_by.iter().map(|(question, count)| format!("{question} {count}")).collect();
        writeln!(
            out,
            "{:width$} {:>18} {:>9} {:>6} {:>6} {:>4} {:>9} {:>8}  {power:>21} {:>8} {:>7}  {:>14} {:>6}  {}",
            row.workload,
            planted(&row.candidate, row.percent, row.passes),
            row.decisions,
            row.slower,
            row.faster,
            row.same,
            row.undecided,
            row.withheld,
            row.bias.map_or_else(String::new, |bias| format!("{:.3}%", bias * 100.0)),
            row.covered.map_or_else(String::new, |covered| covered.to_string()),
            took(row.decisions, row.seconds),
            row.cpu_s.map_or_else(String::new, |seconds| format!("{seconds:.2}")),
            found_by.join(", "),
        )?;
    }
    writeln!(out)?;
    write_accuracy(certificate, out)?;
    write_costs(certificate, out)
}

/// The planted difference in words: of all runs, or slow runs (or slots, if a run fills one).
pub(super) fn planted(candidate: &str, percent: i64, passes: i64) -> String {
    let of = if passes > 1 { "slots" } else { "runs" };
    match candidate {
        selfcheck::TAIL => format!("tail of {of}"),
        selfcheck::MODES => format!("two modes of {of}"),
        _ if percent == 0 => "equal".into(),
        _ => format!("+{percent} %"),
    }
}

/// Median and 90th percentile of the seconds of a decision; empty without decisions.
fn took(decisions: u64, [median, p90]: [f64; 2]) -> String {
    if decisions > 0 { format!("{median:>6.2} {p90:>7.2}") } else { String::new() }
}

/// With fewer comparisons than this, their number is printed, because they show little.
const FEW: u64 = 3;

/// How well differences of a kernel are detected, in words.
fn describe_detection((workload, seen): &(String, Seen)) -> String {
    let kernel = workload.trim_start_matches("selfcheck-");
    match seen {
        Seen::From { percent, seconds, found: [found, tried] } if *tried < FEW => {
            format!("{kernel} +{percent} % in {seconds:.1} s ({found} of {tried})")
        }
        Seen::From { percent, seconds, .. } => format!("{kernel} +{percent} % in {seconds:.1} s"),
        Seen::NotReliably => format!("{kernel} not reliably"),
        Seen::NotJudged => format!("{kernel} not judged"),
    }
}

fn unknown() -> String {
    "unavailable".into()
}

/// How often verdicts were wrong, what they detected, and how far intervals can be trusted. Omits lines without trials.
fn write_accuracy(certificate: &SelfCheck, out: &mut dyn Write) -> std::io::Result<()> {
    let (alarms, trials, bound) = certificate.false_alarms();
    if trials > 0 {
        writeln!(
            out,
            "{alarms} false positives in {trials} decisions on equal code: the false-positive rate is at most {} (95 % bound); region of equivalence {}",
            bound.map_or_else(unknown, units::share),
            units::share(certificate.rope)
        )?;
    }
    let failed = certificate.failed();
    if failed > 0 {
        let of = certificate.decisions();
        writeln!(
            out,
            "{failed} of {of} comparisons ended without a decision: they failed, or were too slow for their time limit"
        )?;
    }
    let detection = certificate.detection();
    if !detection.is_empty() {
        writeln!(
            out,
            "this machine detects: {}",
            detection.iter().map(describe_detection).collect::<Vec<String>>().join("; ")
        )?;
    }
    let (found, planted) = certificate.slow_modes();
    if planted > 0 {
        writeln!(
            out,
            "{found} of {planted} planted tails and second modes found, which the fastest time does not show"
        )?;
    }
    let (covered, known, share) = certificate.coverage();
    if known > 0 {
        let share =
            share.map_or_else(unknown, |(low, high)| format!("{} to {}", units::share(low), units::share(high)));
        let bias = certificate.worst_bias().map_or_else(unknown, |bias| format!("{:+.3} %", bias * 100.0));
        writeln!(
            out,
            "{covered} of {known} 99 % intervals hold the planted ratio (true share {share}); largest median bias of a row {bias}"
        )?;
    }
    Ok(())
}

/// The cost of the instrument and of its decisions, and the load meanwhile.
fn write_costs(certificate: &SelfCheck, out: &mut dyn Write) -> std::io::Result<()> {
    let cost = certificate.slot_cost_ns.map_or_else(unknown, |ns| units::human(ns * 1e-9, "s"));
    writeln!(out, "the instrument takes {cost} a slot, outside the timed part")?;
    let spent: Option<Vec<f64>> = certificate
        .rows
        .iter()
        .filter(|row| row.decisions > 0)
        .map(|row| Some(row.cpu_s? * row.decisions as f64))
        .collect();
    if let Some(spent) = spent.filter(|spent| !spent.is_empty()) {
        let decisions = certificate.rows.iter().map(|row| row.decisions).sum::<u64>();
        let mean = spent.iter().sum::<f64>() / decisions as f64;
        writeln!(out, "a decision takes {mean:.2} s of CPU time on average")?;
    }
    if let Some(planned) = certificate.planned {
        writeln!(out, "partial: {} of {planned} planned decisions were made", certificate.decisions())?;
    }
    let load = |load: Option<f64>| load.map_or_else(unknown, |load| format!("{load:.2}"));
    writeln!(out, "load average {} before, {} after", load(certificate.load[0]), load(certificate.load[1]))
}

#[cfg(test)]
mod tests {
    use super::{Seen, describe_detection, took, write};
    use ellwand_bench::selfcheck::{Row, SelfCheck};

    #[test]
    fn the_columns_of_a_long_name_are_under_their_heads() {
        let row = Row {
            workload: "selfcheck-a-long-name".into(),
            candidate: "plain".into(),
            percent: 0,
            passes: 1,
            decisions: 7,
            slower: 0,
            found_by: Default::default(),
            faster: 0,
            same: 7,
            undecided: 0,
            withheld: 0,
            failed: 0,
            covered: None,
            bias: None,
            seconds: [1.0, 2.0],
            blocks: [8.0, 8.0],
            cpu_s: None,
        };
        let certificate = SelfCheck {
            ellwand: String::new(),
            revision: None,
            machine: String::new(),
            started_unix_ms: 0,
            load: [None; 2],
            slot_cost_ns: None,
            rope: 0.01,
            alpha: 0.01,
            rows: vec![row],
            planned: None,
        };
        let mut out = Vec::new();
        write(&certificate, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let [head, row] = [0, 1].map(|line| text.lines().nth(line).unwrap());
        for (name, value) in [("planted", "equal"), ("decisions", "7")] {
            let end = head.find(name).unwrap() + name.len();
            assert!(row[..end].ends_with(value), "{name}\n{head}\n{row}");
        }
    }

    #[test]
    fn a_kernel_that_is_not_judged_is_named() {
        let found = |found: u64, tried: u64| Seen::From { percent: 2, seconds: 0.31, found: [found, tried] };
        assert_eq!(describe_detection(&("selfcheck-l2".into(), found(4, 4))), "l2 +2 % in 0.3 s");
        assert_eq!(describe_detection(&("selfcheck-l3".into(), found(1, 1))), "l3 +2 % in 0.3 s (1 of 1)");
        assert_eq!(describe_detection(&("selfcheck-dram".into(), Seen::NotReliably)), "dram not reliably");
        assert_eq!(describe_detection(&("selfcheck-dram".into(), Seen::NotJudged)), "dram not judged");
    }

    #[test]
    fn a_row_without_decisions_has_no_times() {
        assert_eq!(took(0, [f64::NAN, f64::NAN]), "");
        assert_eq!(took(3, [1.25, 2.5]), "  1.25    2.50");
    }
}
