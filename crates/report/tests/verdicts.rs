//! Comparisons in reports: what the verdict refers to, and the times of what was judged.
#![allow(clippy::unwrap_used)]

use ellwand_core::record::Record;
use ellwand_report::{Options, Report, format};
use serde_json::Value;

fn report(records: &[Record], options: &Options) -> Report {
    Report::from_records(records, options).unwrap()
}

fn text(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    (format(name).unwrap().write)(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn slower_beside_names_the_statistic_that_is_slower() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-comparisons.jsonl");
    let mut record = ellwand_core::record::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    record.comparisons.truncate(1);
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
