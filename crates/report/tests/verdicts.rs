//! Comparisons in reports: what the verdict refers to, and the times of what was compared.
#![allow(clippy::unwrap_used)]

use ellwand_core::record::{Basis, Record};
use ellwand_report::{Options, Report, format, units::human};
use serde_json::Value;

fn report(records: &[Record], options: &Options) -> Report {
    Report::from_records(records, options).unwrap()
}

fn text(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    (format(name).unwrap().write)(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A comparison from the permanent test record.
fn comparison() -> Record {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-comparisons.jsonl");
    let mut record = ellwand_core::record::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    record.comparisons.truncate(1);
    record
}

#[test]
fn verdicts_report_a_partial_comparison() {
    let mut record = comparison();
    record.comparisons[0].compared = Some(ellwand_core::Compared { values: 211, of: 1000 });
    for (width, form) in [(Some(80), "table"), (None, "table"), (None, "markdown"), (None, "json")] {
        let report = report(&[record.clone()], &Options { width, ..Options::default() });
        let text = text(&report, form).split_whitespace().collect::<Vec<_>>().join(" ");
        let said = "the reference judged 211 of 1000 values of the answer; the others may be wrong";
        assert_eq!(text.matches(said).count(), 1, "{form}: {text}");
    }
}

#[test]
fn a_record_of_verdicts_has_no_rows_whose_reasons_a_table_gives() {
    assert_eq!(text(&report(&[comparison()], &Options::default()), "seed-table"), "no measured row\n");
}

#[test]
fn slower_beside_names_the_statistic_that_is_slower() {
    let mut record = comparison();
    let one = &mut record.comparisons[0];
    one.verdict = "slower-beside".into();
    for (index, block) in one.blocks.iter_mut().enumerate() {
        let noise = if index % 2 == 0 { 0.001 } else { -0.001 };
        (block.main, block.median, block.p90, block.mean) = (noise, noise, 0.6 + noise, 0.2 + noise);
    }
    let slower = report(&[record.clone()], &Options { width: Some(100), ..Options::default() });
    let beside = slower.comparisons[0].beside.unwrap();
    assert_eq!(beside.statistic, "p90");
    assert!((beside.ratio - 0.6_f64.exp()).abs() < 0.01 && beside.low > 1.0 && beside.high > beside.ratio);
    for name in ["table", "markdown"] {
        let text = text(&slower, name);
        assert!(text.contains("p90 1.822x (1.8") && text.contains("slower-beside: the judged time"), "{text}");
    }
    let json: Value = serde_json::from_str(&text(&slower, "json")).unwrap();
    assert_eq!(json["comparisons"][0]["beside"]["ratio"].as_f64(), Some(beside.ratio));
    record.comparisons[0].verdict = "same".into();
    assert_eq!(report(&[record], &Options::default()).comparisons[0].beside, None);
}

#[test]
fn commands_are_described_as_whole_runs_with_the_times_of_the_basis() {
    let mut record = comparison();
    let one = &mut record.comparisons[0];
    (one.case, one.basis) = ("command".into(), Some(Basis::Shortest));
    for (arm, least) in one.arms.iter_mut().zip([20_000_000, 30_000_000]) {
        for sample in &mut arm.samples {
            // The shortest run of each block, and longer ones that the verdict ignores.
            sample.iterations = 1;
            sample.wall_ns = if sample.round == 0 { least } else { 90_000_000 };
        }
    }
    let report = report(&[record], &Options::default());
    let markdown = text(&report, "markdown");
    assert!(markdown.contains(&format!("| {} | {} |", human(0.02, "s"), human(0.03, "s"))), "{markdown}");
    assert!(markdown.contains("| instrument | whole runs of the commands") && markdown.contains("| comparisons | 1 |"));
    for other in ["slots of at least", "medians over slots", "measurements"] {
        assert!(!markdown.contains(other), "{other}: {markdown}");
    }
}

#[test]
fn a_full_report_hides_no_column_of_a_comparison() {
    let of = |full: bool| {
        let options = Options { width: Some(80), full, ..Options::default() };
        text(&report(&[comparison()], &options), "table")
    };
    assert!(of(false).contains("hidden"), "{}", of(false));
    let full = of(true);
    assert!(!full.contains("hidden"), "{full}");
    assert_eq!(full.lines().find(|line| line.chars().count() > 80), None, "{full}");
    for head in ["baseline", "same within", "blocks", "candidate time", "judged by"] {
        let heading = |line: &str| line.split("  ").any(|cell| cell.trim() == head);
        assert!(full.lines().any(heading), "{head}: {full}");
    }
}
