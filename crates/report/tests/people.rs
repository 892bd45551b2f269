//! What the human-readable formats state: the case that a line is about, enough digits, and names as text.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::record::{Basis, Record, Settling};
use ellwand_core::{Better, Case, Measurement, Outcome, Reading, Verdict, Work};
use ellwand_report::units::human;
use ellwand_report::{Options, Report, format};

fn report(record: Record, width: Option<usize>) -> Report {
    Report::from_records(&[record], &Options { width, ..Options::default() }).unwrap()
}

fn text(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    (format(name).unwrap().write)(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Three sizes; at the largest, two implementations take the same time.
fn tied_at_the_largest() -> Vec<Measurement> {
    let of = |batch: i64, times: [f64; 2]| {
        let case = Case::new("sort", vec![("batch".into(), batch.into())]);
        let work = Work::items("keys", batch as u64);
        ["scalar", "vector"].into_iter().zip(times).map(move |(name, time)| Measurement {
            baseline: "scalar".into(),
            ..common::measured(&case, name, time, work.clone())
        })
    };
    of(10, [2e-6, 1e-6]).chain(of(100, [1e-5, 2e-5])).chain(of(1000, [1e-4, 1e-4])).collect()
}

#[test]
fn the_largest_case_is_named_even_if_it_is_tied() {
    let record = common::through_text(&common::run(), &tied_at_the_largest());
    let report = report(record, None);
    assert_eq!(report.workloads[0].cases[2].best.tied.len(), 2, "{:?}", report.workloads[0].cases[2].best);
    let markdown = text(&report, "markdown");
    let line = markdown.lines().find(|line| line.starts_with("- **sort**")).unwrap();
    assert!(
        line.contains("at batch 1000 (the times of scalar, vector do not differ") && line.contains("101 µs per call"),
        "{line}"
    );
    assert!(line.contains("fastest in 1 of 3 cases and tied for it in 1"), "{line}");
}

#[test]
fn the_largest_case_is_named_even_if_nothing_is_fastest_there() {
    let mut rows = tied_at_the_largest();
    rows.push(Measurement { implementation: "parallel".into(), ..held_up(rows[5].clone()) });
    let report = report(common::through_text(&common::run(), &rows), None);
    assert!(report.workloads[0].cases[2].best.row.is_none() && report.workloads[0].cases[2].best.tied.is_empty());
    let markdown = text(&report, "markdown");
    let line = markdown.lines().find(|line| line.starts_with("- **sort**")).unwrap();
    assert!(line.contains("at batch 1000 (other programs held up parallel"), "{line}");
    assert!(!line.contains("0 of 3"), "{line}");
}

#[test]
fn the_legend_names_the_part_of_a_slot_that_counts() {
    let of = |basis: Option<Basis>| {
        let mut rows = tied_at_the_largest();
        rows.iter_mut().for_each(|row| row.basis = basis);
        text(&report(common::through_text(&common::run(), &rows), None), "table")
    };
    let fastest = "median over slots, elapsed in the fastest part of each;";
    assert!(of(Some(Basis::Fastest)).contains(fastest) && !of(None).contains("fastest part"));
    assert!(of(Some(Basis::Cpu)).contains("median over slots, elapsed, or CPU time where that accounts for it;"));
}

#[test]
fn wrong_rows_name_their_case() {
    let wrong = |form: &str, detail: &str| {
        let case = Case::new("gelu", vec![("form".into(), form.into())]);
        let verdict = Verdict::beyond(0.5, detail);
        common::other(common::measured(&case, "scalar", 1e-6, Work::items("elements", 8)), Outcome::Wrong { verdict })
    };
    let said = |measurements: &[Measurement], name: &str| {
        text(&report(common::through_text(&common::run(), measurements), None), name)
    };
    let both = [wrong("exact", "output y[0] is 1"), wrong("tanh", "output y[0] is 2")];
    for name in ["table", "markdown"] {
        let text = said(&both, name);
        assert!(text.contains("scalar wrong: output y[0] is 1 (form exact; also form tanh)"), "{text}");
        assert_eq!(text.matches("scalar wrong").count(), 1, "{text}");
    }
    assert!(said(&both[..1], "table").contains("is 1 (1 case)"));
    let alike = [wrong("exact", "y is 3"), wrong("tanh", "y is 3"), wrong("erf", "y is 4")];
    assert!(said(&alike, "table").contains("y is 3 (form exact; also form tanh; form erf)"));
    assert!(said(&alike[..2], "table").contains("y is 3 (2 cases)"));
}

#[test]
fn short_times_keep_four_digits_in_the_comparison_that_scripts_print() {
    let case = Case::new("gelu", vec![("batch".into(), 1.into())]);
    let row = |name: &str, seconds: f64| common::measured(&case, name, seconds, Work::items("elements", 8));
    let record =
        || common::through_text(&common::run(), &[row("scalar", 89e-9), row("simd", 55e-9), row("parallel", 2e-3)]);
    let table = text(&report(record(), None), "seed-table");
    for (name, speed) in [("scalar", 89e-9_f64.recip()), ("simd", 55e-9_f64.recip()), ("parallel", 500.0)] {
        let line = table.lines().find(|line| line.contains(name)).unwrap();
        let time: f64 = line.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!((1000.0 / time / speed - 1.0).abs() < 0.02, "{line}");
    }
    assert!(table.contains(" 2.0") && !table.contains("0.0001"), "{table}");
    let narrow = text(&report(record(), Some(60)), "seed-table");
    assert!(narrow.contains("hidden at this width: throughput (GB/s)"), "{narrow}");
    for head in ["time (ms)", "memory (MB)", "speed (calls/s)", "efficiency (%)"] {
        assert!(narrow.contains(head), "{narrow}");
    }
    let full = Options { width: Some(60), full: true, ..Options::default() };
    let full = text(&Report::from_records(&[record()], &full).unwrap(), "seed-table");
    assert!(full.contains("throughput (GB/s)") && !full.contains("hidden"), "{full}");
}

#[test]
fn markdown_of_a_record_holds_no_html_and_no_control_characters() {
    let mut measurements = common::lattice("sort::<Vec<u64>>", 1.0);
    for m in &mut measurements {
        m.implementation = format!("{}<img src=x>", m.implementation);
        m.baseline = "reference<img src=x>".into();
        m.readings = vec![Reading::measured("odd", "odd\u{7}\ntitle", "B", Better::Lower, 3.0, "what <b>it</b> holds")];
    }
    let mut run = common::run();
    run.command = vec!["ellwand".into(), "sort::<Vec<u64>>".into()];
    let text = text(&report(common::through_text(&run, &measurements), None), "markdown");
    assert!(text.contains("- **odd  title**: what &lt;b>it"), "{text}");
    assert!(text.contains("## sort::&lt;Vec&lt;u64>>") && text.contains("| reference&lt;img src=x> |"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    // A code block shows its text verbatim.
    let code: Vec<&str> = text.lines().filter(|line| line.contains('<')).collect();
    assert_eq!(code, ["ellwand 'sort::<Vec<u64>>'"]);
}

/// Cases of two axes: `scalar` and `vector` with the given times at each value of `batch`, at two values of `form`.
fn by_axis(times: &[[f64; 2]]) -> Vec<Measurement> {
    let mut all = Vec::new();
    for form in ["a", "b"] {
        for (batch, times) in (1_i64..).zip(times) {
            let case = Case::new("sort", vec![("form".into(), form.into()), ("batch".into(), batch.into())]);
            for (name, time) in ["scalar", "vector"].into_iter().zip(times) {
                let work = Work::items("keys", batch as u64);
                all.push(Measurement { baseline: "scalar".into(), ..common::measured(&case, name, *time, work) });
            }
        }
    }
    all
}

/// The rows of the first table under a heading.
fn table_under<'a>(markdown: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = markdown.lines().skip_while(|line| *line != heading).skip(2);
    lines.take_while(|line| line.starts_with('|')).skip(2).collect()
}

#[test]
fn an_axis_value_counts_the_cases_that_are_tied() {
    let rows = by_axis(&[[1e-4, 1.01e-4], [1e-4, 1e-4], [2e-4, 1e-4]]);
    let markdown = text(&report(common::through_text(&common::run(), &rows), None), "markdown");
    let form = table_under(&markdown, "### By form");
    assert!(form.len() == 2 && form.iter().all(|row| row.ends_with("| vector 3, scalar 2 |")), "{form:?}");
    let batch = table_under(&markdown, "### By batch");
    assert!(batch[0].ends_with("| scalar = vector |") && batch[2].ends_with("| vector |"), "{batch:?}");
    let cases = table_under(&markdown, "### Fastest implementation by case");
    assert!(cases[0].ends_with("| scalar = vector | 101 µs | tied |"), "{cases:?}");
    assert!(cases[2].ends_with("| vector | 101 µs | 2.00x |"), "{cases:?}");
}

/// A slot in which other programs had the processor for half of the time.
fn held_up(mut m: Measurement) -> Measurement {
    for sample in &mut m.samples {
        sample.cpu_ns = Some(sample.wall_ns / 2);
        sample.switches = Some(50 + sample.wall_ns / 1_000_000);
    }
    m
}

#[test]
fn a_time_that_other_programs_lengthened_is_an_upper_bound_in_every_format() {
    let mut rows = by_axis(&[[1e-3, 1e-4], [2e-3, 3e-4]]);
    rows[0] = held_up(rows[0].clone());
    let record = || common::through_text(&common::run(), &rows);
    let one = report(record(), Some(200));
    let bound = format!("≤{}", human(one.workloads[0].rows[0].median("time").unwrap(), "s"));
    for name in ["table", "markdown"] {
        let text = text(&one, name);
        assert!(text.contains(&bound) && text.contains("≤, ≥: bounds"), "{name}: {text}");
    }
    // The speed-up over it is a bound too, and has the one end that holds without the other programs.
    let bounded: Vec<_> = one.workloads[0].rows.iter().filter(|row| row.speedup.bound.is_some()).collect();
    assert!(!bounded.is_empty());
    for row in bounded {
        let (low, high) = row.speedup.ends();
        assert!(low.is_none() || high.is_none(), "{:?}", row.speedup);
        let csv = text(&one, "csv");
        let mut lines = csv::Reader::from_reader(csv.as_bytes());
        let at = lines.headers().unwrap().iter().position(|head| head == "speedup_low").unwrap();
        let cells = |line: csv::StringRecord| (line[at].to_string(), line[at + 1].to_string());
        assert!(lines.records().any(|line| {
            let (low, high) = cells(line.unwrap());
            low.is_empty() != high.is_empty()
        }));
    }
    let markdown = text(&one, "markdown");
    let form = table_under(&markdown, "### By form");
    assert!(form[0].contains("| ≤") && form[0].contains("(≤") && !form[1].contains('≤'), "{form:?}");
    let full = Report::from_records(&[record()], &Options { full: true, ..Options::default() }).unwrap();
    assert!(text(&full, "table").contains(&bound), "{}", text(&full, "table"));
    let json: serde_json::Value = serde_json::from_str(&text(&one, "seed-json")).unwrap();
    assert_eq!(json[0]["held_up"], "time_ms is an upper bound: held up (0.50 of 1 CPUs)");
    assert!(json[1].get("held_up").is_none());
    let table = text(&one, "seed-table");
    assert!(table.matches("  ≤1.0").count() == 1 && table.contains("≤: an upper bound"), "{table}");
    assert!(!text(&report(common::through_text(&common::run(), &rows[1..]), None), "seed-table").contains('≤'));
}

#[test]
fn a_row_that_did_not_settle_names_no_time_until_it_did() {
    let settling = |unsettled: bool| {
        let curve_ns = vec![119e3, 110e3, 105e3, 100e3];
        let settles_after = if unsettled { 0 } else { 2 };
        Some(Settling { step_iterations: 1, curve_ns, settled_ns: 100e3, settles_after, untimed: 4, unsettled })
    };
    let mut rows = tied_at_the_largest();
    rows[0].settling = settling(true);
    rows[1].settling = settling(false);
    let report = report(common::through_text(&common::run(), &rows), None);
    let markdown = text(&report, "markdown");
    assert!(
        markdown.contains("did not settle (at first 1.19x the time)") && !markdown.contains("settles in 0"),
        "{markdown}"
    );
    assert!(!markdown.contains("settling unknown"));
    let json: serde_json::Value = serde_json::from_str(&text(&report, "json")).unwrap();
    let seconds = |row: usize| json["workloads"][0]["rows"][row]["settling"]["seconds"].clone();
    assert!(seconds(0).is_null() && seconds(1).as_f64().unwrap() > 0.0);
}

#[test]
fn a_curve_of_noise_is_not_reported_as_unsettled() {
    let mut rows = tied_at_the_largest();
    let curve_ns = vec![47e3, 148e3, 149e3, 100e3];
    rows[0].settling =
        Some(Settling { step_iterations: 1, curve_ns, settled_ns: 100e3, unsettled: true, ..Settling::default() });
    let markdown = text(&report(common::through_text(&common::run(), &rows), None), "markdown");
    assert!(markdown.contains("settling unknown (its times rise and fall)"), "{markdown}");
    assert!(!markdown.contains("did not settle") && !markdown.contains("0.47"), "{markdown}");
}

#[test]
fn small_values_keep_two_digits_in_the_comparison_that_scripts_print() {
    let case = Case::new("gelu", vec![("batch".into(), 1.into())]);
    let mut row = common::measured(&case, "scalar", 20.0, Work::items("elements", 8).flops(2.5e8).bytes(36, 36));
    let memory = Reading::TOTAL_MEMORY;
    row.readings = vec![Reading::derived(memory, "memory", "B", Better::Lower, 72.0, "inputs and outputs")];
    let table = text(&report(common::through_text(&common::run(), &[row]), None), "seed-table");
    let line = table.lines().find(|line| line.contains("scalar")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[3..], ["0.000072", "0.050", "0.011", "0.0000000036"], "{table}");
}
