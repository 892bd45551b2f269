//! Verdicts in words, one line per case, or as JSON.

use std::io::{self, Write};

use ellwand_bench::beside::Side;
use ellwand_bench::compare::{Basis, Call, Decision};
use ellwand_core::stats::{Change, Difference};
use ellwand_report::units;
use serde_json::{Value, json};

use super::budgets::Verdict;
use super::rows::{Row, Said};
use super::{pages, time};

/// Writes one line per case, with its notes below. Cases are `named` if there are several.
pub(super) fn write_rows(rows: &[Row], named: bool, rope: f64, out: &mut dyn Write) -> io::Result<()> {
    let mut left = rows;
    while let Some(row) = left.first() {
        let alike = failed_alike(left);
        left = &left[alike..];
        if named {
            let more = if alike > 1 { format!(" and {} more", alike - 1) } else { String::new() };
            write!(out, "{}{more}: ", row.case)?;
        }
        writeln!(out, "{}", sentence(row, rope))?;
        if let Ok(decision) = &row.result {
            for note in notes(row, decision).into_iter().chain(partly(decision)) {
                writeln!(out, "  {note}")?;
            }
        }
    }
    Ok(())
}

/// Writes one line per budget.
pub(super) fn write_budgets(budgets: &[Verdict], out: &mut dyn Write) -> io::Result<()> {
    budgets.iter().try_for_each(|budget| writeln!(out, "budget {}: {}", budget.judged.state.word(), budget.line()))
}

/// Named instead of an arm if neither side is the reason for a missing decision.
pub(super) const COMPARISON: &str = "the comparison";

/// From this many equal failures in a row, they share one line.
const ALIKE: usize = 4;

/// How many of the first rows share a line: one, or all that failed with the same message (a program without our
/// workers fails in this way at every case).
fn failed_alike(rows: &[Row]) -> usize {
    let Some(first) = rows.first().filter(|row| row.result.is_err()) else { return 1 };
    let alike = rows.iter().take_while(|row| row.result.as_ref().err() == first.result.as_ref().err()).count();
    if alike < ALIKE { 1 } else { alike }
}

/// The result of a row, in a sentence.
pub(super) fn sentence(row: &Row, rope: f64) -> String {
    match &row.result {
        Ok(decision) => line(row, decision, rope),
        Err((COMPARISON, fate)) => format!("no verdict: {}", fate.reason().unwrap_or("")),
        Err((arm, fate)) => format!("no verdict: {arm} {}: {}", word(fate.word()), fate.reason().unwrap_or("")),
    }
}

fn word(fate: &str) -> &str {
    match fate {
        "wrong" => "answers wrong",
        "unsupported" => "cannot run here",
        other => other,
    }
}

fn line(row: &Row, decision: &Decision, rope: f64) -> String {
    let [baseline, candidate] = names(row);
    let judged = match decision.basis {
        Basis::Fastest | Basis::Wall => "elapsed time",
        basis => basis.about(),
    };
    let cost = format!("{} blocks, {:.1} s, {judged} judged", decision.blocks.len(), decision.elapsed_s);
    let change = &decision.change;
    let (takes, against) = takes(row, decision, [&baseline, &candidate]);
    match row.said {
        Said::Call(Call::As(difference)) => called(difference, row, decision, rope, [&takes, &cost]),
        Said::Call(Call::SlowerBeside(name)) => {
            let slow = side_change(decision, name);
            let (what, ratio, bounds) = (about(name), times(slow.ratio), bounds(&slow));
            if change.low > 1.0 + rope {
                return format!("slower: {takes}, {cost}; decided {what}, {ratio} ({bounds})");
            }
            format!(
                "slower {what}: there {candidate} takes {ratio} the time of {baseline} ({bounds}); {} {takes}, {cost}",
                where_judged(decision.basis)
            )
        }
        Said::Call(Call::Unsettled(name)) => format!(
            "undecided {}: {}; {} {takes}, the same within {}, {cost}",
            about(name),
            unsettled(row, decision, name, [&baseline, &candidate]),
            where_judged(decision.basis),
            units::share(rope),
        ),
        Said::Call(Call::Withheld) => format!(
            "no verdict: this machine is not steady enough now: one copy of {baseline} takes {} the time of another ({}); {candidate} took {}, {cost}",
            times(decision.control.ratio),
            bounds(&decision.control),
            against
        ),
        Said::OneOfMany => format!(
            "undecided: {}: {takes}, {cost}; among many cases chance alone produces one such result: compare this case alone, or use {}",
            time::excluded(change),
            time::settles(decision, row.given)
        ),
        Said::BelowResolution(seconds) => format!(
            "below resolution: both take less than {} an iteration, which is too short to measure, {cost}",
            units::human(seconds, "s")
        ),
        Said::Nothing => String::new(),
    }
}

/// The difference of the times, and the times; if one side is below the resolution, both are bounds.
fn takes(row: &Row, decision: &Decision, [baseline, candidate]: [&str; 2]) -> (String, String) {
    let against = match row.one_below_s {
        Some(resolution) => decision.seconds.map(|seconds| at_most(seconds, resolution)),
        None => decision.seconds.map(|seconds| units::human(seconds, "s")),
    };
    let against = format!("{} against {}", against[1], against[0]);
    let takes = match row.one_below_s {
        Some(resolution) => {
            let [base, own] = decision.seconds.map(|seconds| seconds.max(resolution));
            let side = if own > base { "at least" } else { "at most" };
            format!("{candidate} takes {side} {} the time of {baseline}, {against}", times(own / base))
        }
        None => {
            let ratio = times(decision.change.ratio);
            format!("{candidate} takes {ratio} the time of {baseline} ({}), {against}", bounds(&decision.change))
        }
    };
    (takes, against)
}

/// A time as printed; below the resolution, an upper bound.
fn at_most(seconds: f64, resolution: f64) -> String {
    let below = if seconds < resolution { "less than " } else { "" };
    format!("{below}{}", units::human(seconds.max(resolution), "s"))
}

/// The answer to the main question in words.
fn called(difference: Difference, row: &Row, decision: &Decision, rope: f64, [takes, cost]: [&str; 2]) -> String {
    match difference {
        Difference::Slower => format!("slower: {takes}, {cost}"),
        Difference::Faster => format!("faster: {takes}, {cost}"),
        Difference::Same => format!("same within {}: {takes}, {cost}", units::share(rope)),
        Difference::Undecided { .. } => {
            let (excluded, needed) = (time::excluded(&decision.change), time::needed(decision, rope, row.given));
            format!("undecided: {excluded}: {takes}, {cost}{}; {needed}", time::in_slots(decision))
        }
    }
}

/// The names of both sides; if an implementation is compared with itself, the copy gets another name.
fn names(row: &Row) -> [String; 2] {
    let [baseline, candidate] = row.names.clone();
    if baseline == candidate { [baseline, format!("another {candidate}")] } else { [baseline, candidate] }
}

/// The change that a side question is about.
pub(super) fn side_change(decision: &Decision, name: &str) -> Change {
    decision.sides.iter().find(|side| side.name == name).map_or(decision.change, |side| side.change)
}

/// The seconds of baseline and candidate in words, candidate first.
pub(super) fn against(seconds: [f64; 2]) -> String {
    let [baseline, candidate] = seconds.map(|seconds| units::human(seconds, "s"));
    format!("{candidate} against {baseline}")
}

/// Why equal fastest times are not called the same, and what would decide it.
fn unsettled(row: &Row, decision: &Decision, name: &str, [baseline, candidate]: [&str; 2]) -> String {
    let (change, more) = (side_change(decision, name), time::settles(decision, row.given));
    let (ratio, bounds, excluded) = (times(change.ratio), bounds(&change), time::excluded(&change));
    format!("{excluded}: there {candidate} takes {ratio} the time of {baseline} ({bounds}), and {more} may decide it")
}

/// The remark on answers that the reference judged only in part. The record stores the numbers, not these words.
pub(super) fn partly(decision: &Decision) -> Option<String> {
    decision.reported.compared?.remark()
}

/// Notes on a verdict, in sentences.
pub(super) fn notes(row: &Row, decision: &Decision) -> Vec<String> {
    let mut notes = row.remarks.clone();
    let sides = names(row);
    let candidate = &sides[1];
    if matches!(row.said, Said::Call(Call::As(Difference::Faster))) {
        for side in decision.sides.iter().filter(|side| side.change.difference == Difference::Slower) {
            let (ratio, bounds) = (times(side.change.ratio), bounds(&side.change));
            notes.push(format!("but slower {}: there {candidate} takes {ratio} the time ({bounds})", about(side.name)));
        }
    }
    if decision.reported.other_answers {
        notes.push(format!(
            "the answers of {} and {candidate} differ; each is right by the reference of its own program",
            sides[0]
        ));
    }
    // Every arm, because the second copy of the baseline is part of the verdict.
    let all: Vec<_> = decision.samples.iter().flatten().copied().collect();
    notes.extend(ellwand_bench::sample::slowed_down(&all));
    notes.extend(mixed(&sides, decision));
    notes.extend(pages::advice(row, decision));
    if !decision.basis.is_cpu() && decision.disturbed > 0.5 {
        notes.push(format!(
            "contended: a context switch hit {:.0} % of the slots, and elapsed time is judged",
            100.0 * decision.disturbed
        ));
    }
    notes
}

/// Largest deviation of the quotient of the printed times from the interval of the ratio that needs no note.
const SEEN: f64 = 0.02;

/// Why the printed times do not have the printed ratio: if times vary between blocks, the medians of two sides can come
/// from different moments.
fn mixed(names: &[String; 2], decision: &Decision) -> Option<String> {
    let (quotient, change) = (decision.seconds[1] / decision.seconds[0], &decision.change);
    let apart = quotient < change.low / (1.0 + SEEN) || quotient > change.high * (1.0 + SEEN);
    apart.then(|| {
        format!(
            "times vary from block to block: by the printed medians over all {}, {} takes {} the time of {}; the verdict \
             compares slots that ran one after the other",
            if decision.basis == decision.basis.of_slots() { "slots" } else { "blocks" },
            names[1],
            times(quotient),
            names[0]
        )
    })
}

/// A side question in words.
fn about(name: &str) -> &str {
    match name {
        "median" => "in its typical (median) slots",
        "p90" => "in its tail (90th percentile)",
        _ => "on average (mean)",
    }
}

fn times(ratio: f64) -> String {
    format!("{}x", digits(ratio))
}

/// A ratio with as many digits as are meaningful.
pub(super) fn digits(ratio: f64) -> String {
    match ratio {
        r if r >= 10.0 => format!("{r:.1}"),
        r if r >= 0.1 || r <= 0.0 => format!("{r:.3}"),
        // Three significant digits.
        r => format!("{r:.*}", (2.0 - r.log10().floor()).min(12.0) as usize),
    }
}

/// The 99 % interval of a ratio. Ends more than a factor of 100 away only mean that too little was measured.
pub(super) fn bounds(change: &Change) -> String {
    let (least, most) = (change.ratio / 100.0, change.ratio * 100.0);
    let low = if change.low < least { format!("below {}", digits(least)) } else { digits(change.low) };
    let high = if change.high > most { format!("above {}", digits(most)) } else { digits(change.high) };
    // Ends that look the same do not show the width.
    let finer =
        || (4..=9).map(|n| [change.low, change.high].map(|end| format!("{end:.n$}"))).find(|[low, high]| low != high);
    let [low, high] = if low == high { finer().unwrap_or([low, high]) } else { [low, high] };
    format!("99 % interval {low} to {high}")
}

/// Writes everything that is known, for programs. Budgets of the program are repeated at each of its cases.
pub(super) fn write_json(rows: &[Row], budgets: &[Verdict], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    let of_program = budgets.iter().filter(|budget| rows.iter().all(|row| !row.budgets.contains(budget)));
    let of_program: Vec<&Verdict> = of_program.collect();
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut json = as_json(row, rope);
            let budgets: Vec<Value> = of_program.iter().copied().chain(&row.budgets).map(Verdict::json).collect();
            if !budgets.is_empty() {
                json["budgets"] = budgets.into();
            }
            json
        })
        .collect();
    writeln!(out, "{:#}", Value::Array(rows))
}

fn as_json(row: &Row, rope: f64) -> Value {
    let mut json = match &row.result {
        Err((arm, fate)) => json!({ "arm": arm, "outcome": fate.word(), "reason": fate.reason() }),
        Ok(decision) => json!({
            "ratio": decision.change.ratio,
            "low": decision.change.low,
            "high": decision.change.high,
            "more_blocks": more(&decision.change),
            "control": change(&decision.control),
            "unsettled": match decision.call { Call::Unsettled(name) => Some(name), _ => None },
            "sides": decision.sides.iter().map(|side| (side.name.to_string(), side_as_json(side, decision))).collect::<serde_json::Map<_, _>>(),
            "judged_by": decision.basis.about(),
            "seconds": decision.seconds,
            "blocks": (0..).zip(&decision.blocks).map(|(n, b)| json!({ "main": b.main, "control": b.control, "median": b.median, "p90": has_tail(decision, n).then_some(b.p90), "mean": b.mean })).collect::<Vec<_>>(),
            "disturbed": decision.disturbed,
            "compared": decision.reported.compared,
            "notes": notes(row, decision).into_iter().chain(partly(decision)).collect::<Vec<_>>(),
            "what_ran": decision.reported.what_ran,
            "elapsed_s": decision.elapsed_s,
            "slot_share": decision.slot_share(),
            "ended": time::ended(decision.end),
            "excluded_above": time::excluded_above(&decision.change),
            "excluded": time::excluded_by(row, decision),
            "needed_s": decision.needed_s,
            "given_s": row.given.seconds,
        }),
    };
    let [baseline, candidate] = &row.names;
    let said = label(row.said);
    for (key, value) in [("case", &*row.case), ("baseline", baseline), ("candidate", candidate), ("verdict", said)] {
        json[key] = value.into();
    }
    json["rope"] = rope.into();
    json
}

fn change(change: &Change) -> Value {
    json!({ "ratio": change.ratio, "low": change.low, "high": change.high, "difference": change.difference.word() })
}

/// True if a block has at least two slots per side, without which there is no 90th percentile.
fn has_tail(decision: &Decision, block: u32) -> bool {
    decision.samples[1].iter().filter(|slot| slot.block == block).nth(1).is_some()
}

fn side_as_json(side: &Side, decision: &Decision) -> Value {
    if side.name == "p90" && (0..).zip(&decision.blocks).all(|(block, _)| !has_tail(decision, block)) {
        return Value::Null;
    }
    let mut json = change(&side.change);
    json["suspicious"] = side.suspicious.into();
    json
}

fn more(change: &Change) -> Option<usize> {
    match change.difference {
        Difference::Undecided { blocks_needed } => blocks_needed,
        _ => None,
    }
}

/// The moments or the time that the main question is about.
fn where_judged(basis: Basis) -> &'static str {
    match basis {
        Basis::Fastest | Basis::Shortest | Basis::ShortestCpu => "at its fastest",
        Basis::Cpu | Basis::Wall => "by the judged time",
    }
}

/// A verdict in one word.
pub(super) fn label(said: Said) -> &'static str {
    match said {
        Said::Call(Call::As(difference)) => difference.word(),
        Said::Call(Call::SlowerBeside(_)) => "slower-beside",
        Said::Call(Call::Withheld) => "withheld",
        Said::Call(Call::Unsettled(_)) | Said::OneOfMany => "undecided",
        Said::BelowResolution(_) => "below-resolution",
        Said::Nothing => "none",
    }
}

#[cfg(test)]
mod tests {
    use ellwand_core::record::Sample;

    use super::*;
    use crate::cli::rows::samples::row;

    #[test]
    fn the_interval_of_a_large_ratio_holds_it() {
        let of = |ratio: f64, low: f64, high: f64| {
            bounds(&Change { ratio, low, high, difference: Difference::Undecided { blocks_needed: None } })
        };
        assert_eq!(of(1000.0, 998.0, 1002.0), "99 % interval 998.0 to 1002.0");
        assert_eq!(of(0.001, 0.000_998, 0.001_002), "99 % interval 0.000998 to 0.00100");
        assert_eq!(of(1.1, 1.0, 1.2), "99 % interval 1.000 to 1.200");
        assert_eq!(of(1.0, 0.999_97, 1.000_04), "99 % interval 0.99997 to 1.00004");
        assert_eq!(of(1.0, 1.0, 1.0), "99 % interval 1.000 to 1.000");
        assert_eq!(of(1.1, 0.0, f64::INFINITY), "99 % interval below 0.0110 to above 110.0");
    }

    #[test]
    fn a_side_below_the_resolution_has_no_sharp_ratio() {
        let mut row = row(Call::As(Difference::Slower), 500.0);
        let mut said = |seconds: [f64; 2]| {
            row.one_below_s = Some(0.5e-9);
            if let Ok(decision) = &mut row.result {
                decision.seconds = seconds;
            }
            sentence(&row, 0.01)
        };
        assert_eq!(
            said([0.344e-9, 2e-9]),
            "slower: slower takes at least 4.000x the time of plain, 2.00 ns against less than 0.500 ns, 8 blocks, 1.5 s, \
             elapsed time judged"
        );
        let faster = said([2e-9, 0.344e-9]);
        assert!(faster.contains("at most 0.250x the time of plain, less than 0.500 ns against 2.00 ns"), "{faster}");
    }

    #[test]
    fn times_that_contradict_the_ratio_are_explained() {
        let mut row = row(Call::As(Difference::Slower), 500.0);
        let of = |row: &Row| notes(row, row.result.as_ref().unwrap());
        assert_eq!(of(&row), [""; 0]);
        if let Ok(decision) = &mut row.result {
            decision.seconds = [2e-3, 1.9e-3];
        }
        let [note] = &of(&row)[..] else { panic!("one note") };
        assert!(note.contains("slower takes 0.950x the time of plain"), "{note}");
    }

    #[test]
    fn programs_with_other_answers_are_not_compared_silently() {
        let mut row = row(Call::As(Difference::Faster), 500.0);
        if let Ok(decision) = &mut row.result {
            decision.reported.other_answers = true;
        }
        let notes = notes(&row, row.result.as_ref().unwrap());
        assert_eq!(
            notes,
            ["the answers of plain and slower differ; each is right by the reference of its own program"]
        );
    }

    #[test]
    fn blocks_of_one_run_have_no_tail() {
        let mut row = row(Call::As(Difference::Slower), 500.0);
        let p90 = |row: &Row| {
            let json = as_json(row, 0.01);
            (
                json["sides"]["p90"]["ratio"].as_f64(),
                json["blocks"][0]["p90"].as_f64(),
                json["blocks"][0]["mean"].as_f64(),
            )
        };
        for (runs, known) in [(1, None), (2, Some(0.1))] {
            if let Ok(decision) = &mut row.result {
                let change = Change { ratio: 0.1, ..decision.change };
                decision.sides = vec![Side { name: "p90", change, suspicious: false, evidence: 0.0 }];
                let slots = (0..8).flat_map(|block| vec![Sample { block, ..Sample::default() }; runs]);
                decision.samples[1] = slots.collect();
            }
            assert_eq!(p90(&row), (known, known, Some(0.1)), "{runs}");
        }
    }

    #[test]
    fn the_shortest_runs_are_named_beside_their_times() {
        let mut row = row(Call::As(Difference::Slower), 500.0);
        if let Ok(decision) = &mut row.result {
            decision.basis = Basis::ShortestCpu;
        }
        let said = sentence(&row, 0.01);
        assert!(
            said.ends_with("2.20 ms against 2.00 ms, 8 blocks, 1.5 s, CPU time of the shortest run of a block judged"),
            "{said}"
        );
        if let Ok(decision) = &mut row.result {
            decision.seconds = [2e-3, 1.9e-3];
        }
        let notes = notes(&row, row.result.as_ref().unwrap());
        assert!(notes[0].contains("medians over all blocks"), "{notes:?}");
    }

    #[test]
    fn a_side_that_decides_does_not_take_back_the_judged_time() {
        let mut row = row(Call::SlowerBeside("median"), 500.0);
        assert_eq!(
            sentence(&row, 0.01),
            "slower: slower takes 1.100x the time of plain (99 % interval 1.080 to 1.120), 2.20 ms against 2.00 ms, 8 blocks, \
             1.5 s, elapsed time judged; decided in its typical (median) slots, 1.100x (99 % interval 1.080 to 1.120)"
        );
        if let Ok(decision) = &mut row.result {
            decision.change.low = 1.0;
        }
        let said = sentence(&row, 0.01);
        assert!(said.starts_with("slower in its typical (median) slots: there slower takes"), "{said}");
    }

    #[test]
    fn no_verdict_by_the_control_states_both_times() {
        assert_eq!(
            sentence(&row(Call::Withheld, 0.0), 0.01),
            "no verdict: this machine is not steady enough now: one copy of plain takes 1.070x the time of another \
             (99 % interval 1.050 to 1.090); slower took 2.20 ms against 2.00 ms, 8 blocks, 1.5 s, elapsed time judged"
        );
    }
}
