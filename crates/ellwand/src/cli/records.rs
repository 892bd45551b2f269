//! `compare RECORD RECORD`: what two runs suggest. Never a verdict: they were not measured in turns, so any change of
//! the machine between them looks like a change of the code.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ellwand_bench::writer;
use ellwand_core::record::{Basis, Record, Sample};
use ellwand_core::stats::median;
use ellwand_core::{Caches, Compared, InputError};
use ellwand_report::units;
use serde_json::{Value, json};

use super::args::{CompareArgs, Form};
use super::exit::{Exit, Failure, Outcome};
use super::verdict::{against, digits};
use super::{ci, output};

const ONLY_CANDIDATE: &str = "only the candidate's record has it";
const ONLY_BASELINE: &str = "only the baseline's record has it";

/// The record that a side names: a file, or a directory that `run` wrote.
pub(super) fn record_at(side: &str) -> Option<PathBuf> {
    let path = Path::new(side);
    let inside = path.join("record.jsonl");
    let is_record = path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file();
    if is_record { Some(path.to_path_buf()) } else { inside.is_file().then_some(inside) }
}

/// A cell of one record or of both.
struct Pair {
    cell: String,
    /// Fastest and slowest ratio of two processes, and the ratio of the medians.
    ratio: Option<[f64; 3]>,
    /// Seconds per iteration, the median over slots as reports show it: baseline, candidate; `None` if there is no
    /// ratio.
    seconds: Option<[f64; 2]>,
    /// The basis of that time.
    basis: Basis,
    /// How much of the answers the reference judged, in the record with the smaller share.
    compared: Option<Compared>,
    why_not: &'static str,
    /// True if both records contain it.
    common: bool,
}

pub(super) fn compare(args: &CompareArgs, paths: [&Path; 2]) -> Outcome {
    let rope = args.rope;
    let [baseline, candidate] = [read("BASE", paths[0])?, read("CANDIDATE", paths[1])?];
    let machines = [&baseline, &candidate].map(|record| record.run.environment.fingerprint());
    if machines[0] != machines[1] && !args.across_machines {
        let [one, other] = [&baseline, &candidate].map(|record| record.run.environment.cpu.clone());
        let problem = format!("the records were made on different machines ({one}; {other})");
        let help = "--across-machines compares them anyway; a difference may then come from the machines";
        return Err(InputError::new("CANDIDATE", problem, "two records of one machine").help(help).into());
    }
    let [one, other] = [&baseline, &candidate].map(|record| record.run.seed);
    if one != other {
        output::note(&format!("note: the records were made with different inputs (--seed {one}; --seed {other})"));
    }
    let pairs = pairs(&baseline, &candidate);
    output::result(|out| match args.format {
        Form::Json => write_json(&pairs, rope, out),
        Form::Junit => ci::write_suite("ellwand compare", &cases(&pairs, rope), out),
        Form::Github => cases(&pairs, rope).iter().try_for_each(|case| case.annotate(out)),
        Form::Table => output::prose(out, |out| write_lines(&pairs, rope, out)),
    })?;
    Ok(if pairs.iter().any(|pair| pair.ratio.is_some()) { Exit::Ok } else { Exit::Nothing })
}

/// Reads a record, and notes its defects.
pub(super) fn read(argument: &str, path: &Path) -> Result<Record, Failure> {
    let record = writer::read(path).map_err(|error| {
        let error = InputError::new(argument, error.to_string(), "a record as written by `run` (record.jsonl)");
        if path.as_os_str() == "-" { error.help("stdin has the name /dev/stdin") } else { error }
    })?;
    for warning in &record.warnings {
        output::note(&format!("note: {}: {warning}", path.display()));
    }
    if !record.checked {
        let why = "this old record has no checksums, so damage to it can go unnoticed";
        output::note(&format!("note: {}: {why}", path.display()));
    }
    Ok(record)
}

/// A record's data on one implementation at one case: a measurement, or an arm of a comparison.
struct Side<'a> {
    cell: String,
    caches: Option<Caches>,
    /// The basis of the time that reports of the record show.
    basis: Basis,
    /// How much of the answer the reference judged.
    compared: Option<Compared>,
    /// `None` if it was not measured.
    samples: Option<&'a [Sample]>,
}

/// All sides of a record. The two arms of a comparison each name the other, because an implementation may be compared
/// with several.
fn sides(record: &Record) -> Vec<Side<'_>> {
    let measured = record.measurements.iter().map(|measurement| Side {
        cell: measurement.cell(),
        caches: Some(measurement.caches),
        basis: measurement.basis.unwrap_or(Basis::Wall).of_slots(),
        compared: measurement.check.as_ref().and_then(|check| check.compared),
        samples: measurement.outcome.is_measured().then_some(&measurement.samples[..]),
    });
    let arms = record.comparisons.iter().flat_map(|comparison| {
        let names = [[&comparison.baseline, &comparison.candidate], [&comparison.candidate, &comparison.baseline]];
        names.into_iter().enumerate().map(|(arm, [name, other])| Side {
            cell: format!("{} {name} beside {other}", comparison.case),
            caches: None,
            basis: comparison.basis.unwrap_or(Basis::Wall).of_slots(),
            compared: comparison.compared,
            samples: comparison.arms.get(arm).map(|arm| &arm.samples[..]),
        })
    });
    measured.chain(arms).collect()
}

/// A cell that only one record contains.
fn alone(cell: &str, why_not: &'static str) -> Pair {
    Pair { cell: cell.into(), ratio: None, seconds: None, basis: Basis::Wall, compared: None, why_not, common: false }
}

fn pairs(baseline: &Record, candidate: &Record) -> Vec<Pair> {
    let (before, after) = (sides(baseline), sides(candidate));
    let by_cell = |all: &[Side<'_>]| -> BTreeMap<String, usize> {
        all.iter().enumerate().map(|(at, side)| (side.cell.clone(), at)).collect()
    };
    let (known, measured) = (by_cell(&before), by_cell(&after));
    let mut pairs: Vec<Pair> = after
        .iter()
        .map(|side| match known.get(&side.cell) {
            Some(at) => pair(&before[*at], side),
            None => alone(&side.cell, ONLY_CANDIDATE),
        })
        .collect();
    let gone = before.iter().filter(|side| !measured.contains_key(&side.cell));
    pairs.extend(gone.map(|side| alone(&side.cell, ONLY_BASELINE)));
    pairs
}

fn pair(before: &Side<'_>, after: &Side<'_>) -> Pair {
    // If a neighbour held up one of the runs, its elapsed time means little; but both must be the same kind of time.
    let basis = if before.basis == after.basis { after.basis } else { Basis::Wall };
    // The value of each process: the median of its slots.
    let of = |side: &Side<'_>| Some(basis.by_process(side.samples?).into_values().collect::<Vec<f64>>());
    let (ratio, why_not) = match (of(before), of(after)) {
        _ if before.caches != after.caches => (None, "one was measured with warm caches and the other with cold ones"),
        (Some(before), Some(after)) if before.len() > 1 && after.len() > 1 => {
            (ratios(&before, &after), "a time is zero")
        }
        (Some(_), Some(_)) => {
            (None, "one process each does not show the spread between processes; run with --blocks 2 or more")
        }
        _ => (None, "it was not measured in both"),
    };
    let typical = |side: &Side<'_>| basis.median(side.samples?);
    let seconds = typical(before).zip(typical(after)).filter(|_| ratio.is_some());
    let seconds = seconds.map(|(before, after)| [before, after]);
    let compared = Compared::least(before.compared.into_iter().chain(after.compared));
    Pair { cell: after.cell.clone(), ratio, seconds, basis, compared, why_not, common: true }
}

fn ratios(before: &[f64], after: &[f64]) -> Option<[f64; 3]> {
    let ends = |values: &[f64]| values.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    let ((fast, slow), (after_fast, after_slow)) = (ends(before), ends(after));
    let ratios = [after_fast / slow, median(after)? / median(before)?, after_slow / fast];
    ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0).then_some(ratios)
}

/// Slower or faster if all processes of one record are, by more than the region of equivalence; the same if none leaves
/// it. Processes that scatter beyond it on either side suggest nothing, least of all equality.
fn suggestion([low, _, high]: [f64; 3], rope: f64) -> &'static str {
    let (least, most) = (1.0 / (1.0 + rope), 1.0 + rope);
    if low > most {
        "slower"
    } else if high < least {
        "faster"
    } else if low >= least && high <= most {
        "same"
    } else {
        "nothing"
    }
}

impl Pair {
    fn suggests(&self, rope: f64) -> &'static str {
        self.ratio.map_or("nothing", |ratios| suggestion(ratios, rope))
    }

    fn sentence(&self, rope: f64) -> String {
        let Some([low, middle, high]) = self.ratio else { return format!("suggests nothing: {}", self.why_not) };
        let judged = if self.basis.is_cpu() { "CPU time" } else { "elapsed time" };
        let both = self
            .seconds
            .map_or_else(String::new, |seconds| format!(", {} in the median slot, {judged}", against(seconds)));
        let remark = self.compared.and_then(|compared| Some(format!("; {}", compared.remark()?))).unwrap_or_default();
        let takes =
            format!("{}x the time (processes {} to {}){both}{remark}", digits(middle), digits(low), digits(high));
        match self.suggests(rope) {
            word @ ("slower" | "faster") => format!("suggests {word}: {takes}"),
            "same" => format!("suggests no difference beyond {}: {takes}", units::share(rope)),
            _ => format!("suggests nothing: {takes}"),
        }
    }
}

/// For CI: a suggested slow-down, or no suggestion, is open, because records decide nothing.
fn cases(pairs: &[Pair], rope: f64) -> Vec<ci::Case> {
    let fine = |pair: &Pair| matches!(pair.suggests(rope), "faster" | "same");
    pairs
        .iter()
        .map(|pair| ci::Case::of_suggestion(&pair.cell, format!("{}; no verdict", pair.sentence(rope)), fine(pair)))
        .collect()
}

fn write_lines(pairs: &[Pair], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    for pair in pairs.iter().filter(|pair| pair.common) {
        writeln!(out, "{}: {}", pair.cell, pair.sentence(rope))?;
    }
    // Two records of different sweeps may share few rows or none. JSON lists each.
    for why_not in [ONLY_CANDIDATE, ONLY_BASELINE] {
        let alone: Vec<&Pair> = pairs.iter().filter(|pair| !pair.common && pair.why_not == why_not).collect();
        match alone.as_slice() {
            [] => {}
            [only] => writeln!(out, "{}: {}", only.cell, only.sentence(rope))?,
            [first, ..] => writeln!(out, "{} rows, the first {}: {}", alone.len(), first.cell, first.sentence(rope))?,
        }
    }
    let end = if pairs.iter().any(|pair| pair.common) {
        "no verdict: the two were not interleaved; for a verdict use `compare WORKLOAD:A WORKLOAD:B` or --baseline"
    } else {
        "the records have no case and implementation in common"
    };
    writeln!(out, "{end}")
}

fn write_json(pairs: &[Pair], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<Value> = pairs
        .iter()
        .map(|pair| match pair.ratio {
            Some(ratios) => json!({
                "cell": pair.cell,
                "suggests": suggestion(ratios, rope),
                "ratio": ratios[1],
                "low": ratios[0],
                "high": ratios[2],
                "seconds": pair.seconds,
                "judged_by": pair.basis.about(),
                "compared": pair.compared,
            }),
            None => json!({ "cell": pair.cell, "suggests": "nothing", "reason": pair.why_not }),
        })
        .collect();
    writeln!(out, "{:#}", Value::Array(rows))
}

#[cfg(test)]
mod tests {
    use super::{ONLY_BASELINE, ONLY_CANDIDATE, Pair, Side, alone, pair, suggestion, write_lines};
    use ellwand_core::record::{Basis, Sample};

    #[test]
    fn the_times_are_those_that_reports_show() {
        let slot = |(block, wall_ns)| Sample { block, wall_ns, iterations: 1, ..Sample::default() };
        // Medians of the processes: 100, 300 and 500. Median over slots: 500.
        let before = [(0, 100), (1, 300), (2, 500), (2, 500), (2, 500)].map(slot);
        let after = before.map(|sample| Sample { wall_ns: 2 * sample.wall_ns, ..sample });
        let side = |samples| Side { cell: "w a cpu".into(), caches: None, basis: Basis::Wall, compared: None, samples };
        let found = pair(&side(Some(&before)), &side(Some(&after)));
        assert_eq!(found.ratio.map(|[_, middle, _]| middle), Some(2.0));
        assert_eq!(found.seconds.map(|both| both.map(|seconds| (seconds * 1e9).round())), Some([500.0, 1000.0]));
    }

    #[test]
    fn rows_of_one_record_alone_are_counted() {
        let pairs = [
            alone("a simd cpu", ONLY_CANDIDATE),
            Pair { common: true, ..alone("b simd cpu", "a time is zero") },
            alone("c simd cpu", ONLY_CANDIDATE),
            alone("d simd cpu", ONLY_BASELINE),
        ];
        let mut text = Vec::new();
        write_lines(&pairs, 0.01, &mut text).expect("a vector takes all");
        let text = String::from_utf8(text).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "b simd cpu: suggests nothing: a time is zero",
                "2 rows, the first a simd cpu: suggests nothing: only the candidate's record has it",
                "d simd cpu: suggests nothing: only the baseline's record has it",
            ]
        );
        assert!(lines.len() == 4 && lines[3].starts_with("no verdict"), "{text}");
    }

    #[test]
    fn noise_suggests_nothing_and_a_wide_interval_is_not_the_same() {
        for (ratios, said) in [
            ([0.995, 1.187, 1.385], "nothing"),
            ([0.35, 1.0, 2.855], "nothing"),
            ([1.0, 1.005, 1.02], "nothing"),
            ([0.999, 1.0, 1.005], "same"),
            ([1.02, 1.1, 1.2], "slower"),
            ([0.8, 0.9, 0.98], "faster"),
        ] {
            assert_eq!(suggestion(ratios, 0.01), said, "{ratios:?}");
        }
    }
}
