//! The parts of a whole next to each other: attention, using the view in its records.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::record::Record;
use ellwand_core::{Case, Value, Work};
use ellwand_report::{Options, Report, format};

const PARTS: [(&str, f64, f64); 5] = [
    ("attention-qkv", 2.31e-3, 0.2e9),
    ("attention-scores", 5.67e-3, 0.5e9),
    ("attention-softmax", 1.23e-3, 1e6),
    ("attention-weighted-sum", 4.89e-3, 0.45e9),
    ("attention-output", 0.9e-3, 0.08e9),
];

fn record(parts: &[(&str, f64, f64)]) -> Record {
    let measured = |(workload, seconds, flops): &(&str, f64, f64)| {
        let case = Case::new(workload, vec![("batch".into(), Value::Int(1)), ("sequence".into(), Value::Int(512))]);
        common::measured(&case, "simd", *seconds, Work::items("positions", 512).flops(*flops).bytes(1 << 20, 1 << 20))
    };
    common::through_text(&common::run(), &parts.iter().map(measured).collect::<Vec<_>>())
}

fn written(record: Record, name: &str) -> String {
    let report = Report::from_records(&[record], &Options::default()).unwrap();
    let mut out = Vec::new();
    (format(name).unwrap().write)(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn section(text: &str, from: &str, to: &str) -> String {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from:?} in {text}"));
    let rest = &text[start..];
    rest[..rest[1..].find(to).map_or(rest.len(), |end| end + 1)].to_string()
}

#[test]
fn markdown_names_shares_and_the_bottleneck() {
    let text = written(record(&PARTS), "markdown");
    insta::assert_snapshot!(section(&text, "## Attention by component", "\n## "));
    // Nothing saves more of the total than its component takes.
    for line in text.lines().filter(|line| line.starts_with("| ") && line.contains("(saves at most ")) {
        let percent = |text: &str| text.trim().trim_end_matches(" %").parse::<f64>().unwrap();
        let (share, saved) = (line.split(" | ").nth(2).unwrap(), line.split("(saves at most ").nth(1).unwrap());
        let saved = saved.strip_suffix(" of the total) |").unwrap();
        assert!(percent(saved) <= percent(share), "{line}");
    }
}

#[test]
#[cfg(feature = "plots")]
fn bars_show_the_share_of_each_part() {
    let record = record(&PARTS);
    let report = Report::from_records(std::slice::from_ref(&record), &Options::default()).unwrap();
    let plots = ellwand_report::draw(&report).unwrap();
    let plot = plots.iter().find(|plot| plot.name == "attention-by-component").unwrap();
    for (title, share) in [("score computation", "37.8 %"), ("softmax", "8.20 %"), ("output projection", "6.00 %")] {
        assert!(plot.svg.contains(title) && plot.svg.contains(share), "{title}: {}", plot.svg);
    }
}

#[test]
fn json_holds_the_utilisation_that_tables_print() {
    let json: serde_json::Value = serde_json::from_str(&written(record(&PARTS), "json")).unwrap();
    let parts = json["components"][0]["parts"].as_array().unwrap();
    let text = written(record(&PARTS), "markdown");
    let table = section(&text, "## Attention by component", "\n## ");
    for part in parts {
        let line = table.lines().find(|line| line.contains(part["title"].as_str().unwrap())).unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for (cell, id) in [(cells[5], "of_compute"), (cells[6], "of_bandwidth")] {
            let printed: f64 = cell.trim_end_matches(" %").parse().unwrap();
            assert!((part[id].as_f64().unwrap() * 100.0 - printed).abs() < 0.01 * printed, "{id}: {line} {part}");
        }
    }
}

#[test]
fn the_table_on_a_terminal_has_the_same_shares() {
    let text = written(record(&PARTS), "table");
    let part = section(&text, "attention by component", "\n\n");
    assert!(part.contains("37.8 %") && part.contains("bottleneck: score computation (37.8 %)"), "{part}");
    let options = Options { width: Some(80), ..Options::default() };
    let report = Report::from_records(&[record(&PARTS)], &options).unwrap();
    let mut out = Vec::new();
    (format("table").unwrap().write)(&report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let part = section(&text, "attention by component", "\n\n");
    let words = part.split_whitespace().collect::<Vec<_>>().join(" ");
    // If the table of the only whole is too wide, the rest is a list below it.
    assert!(words.contains(" - softmax: ") && !words.contains("hidden at this width: recommendation"), "{part}");
    let long = part.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "a terminal of 80 columns");
}

#[test]
fn the_full_table_hides_no_recommendation() {
    for width in [80, 120] {
        let options = Options { width: Some(width), full: true, ..Options::default() };
        let report = Report::from_records(&[record(&PARTS)], &options).unwrap();
        let mut out = Vec::new();
        (format("table").unwrap().write)(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let part = section(&text, "attention by component", "\nfindings");
        assert!(!part.contains("hidden at this width"), "{part}");
        assert!(part.contains("\n- softmax: ") && part.contains("of bandwidth"), "{part}");
        assert_eq!(part.lines().find(|line| line.chars().count() > width), None, "{part}");
    }
}

#[test]
fn missing_parts_are_named_and_a_single_part_gets_no_table() {
    let text = written(record(&PARTS[1..3]), "markdown");
    let want = "Missing from this record and from the total: QKV projection, weighted sum, output projection";
    assert!(text.contains(want), "{text}");
    assert!(!written(record(&PARTS[..1]), "markdown").contains("Attention by component"));
}

#[test]
fn where_the_scores_bound_it_the_fused_form_is_named_with_a_bound() {
    // 100 MB at 24 GB/s take 4.17 of 5.02 ms; the arithmetic of one megaflop is negligible.
    let parts = [("attention-scores", 5e-3), ("attention-softmax", 5e-3), ("attention-weighted-sum", 5e-3)];
    let measured = |(workload, seconds): &(&str, f64)| {
        let case = Case::new(workload, vec![("sequence".into(), Value::Int(512))]);
        common::measured(
            &case,
            "simd",
            *seconds,
            Work::items("positions", 512).flops(1e6).bytes(50_000_000, 50_000_000),
        )
    };
    let record =
        |count: usize| common::through_text(&common::run(), &parts[..count].iter().map(measured).collect::<Vec<_>>());
    let text = written(record(3), "markdown");
    let part = section(&text, "## Attention by component", "\n## ");
    assert!(
        part.contains("use the fused implementation") && part.contains("(saves at most 82.9 % of the total)"),
        "{part}"
    );
    assert!(!written(record(2), "markdown").contains("use the fused implementation"));
}

#[test]
fn parts_measured_with_their_whole_are_in_the_table_and_have_no_section() {
    use ellwand_core::View;
    use ellwand_core::view::Whole;
    let mut record = record(&PARTS);
    let case = Case::new("attention", vec![("batch".into(), Value::Int(1)), ("sequence".into(), Value::Int(512))]);
    let whole = common::measured(&case, "fused", 9e-3, Work::items("positions", 512));
    record.measurements.insert(0, whole);
    let section = |text: &str| text.lines().any(|line| line.starts_with("attention-softmax"));
    assert!(section(&written(record.clone(), "table")), "without a whole the parts are sections");
    for view in &mut record.run.views {
        if let View::Parts(parts) = view {
            parts.whole = Some(Whole { workload: "attention".into(), implementation: "simd".into() });
        }
    }
    let text = written(record.clone(), "table");
    assert!(!section(&text) && text.contains("attention by component") && text.contains("of bandwidth"), "{text}");
    let options = Options { full: true, ..Options::default() };
    let report = Report::from_records(&[record], &options).unwrap();
    let mut out = Vec::new();
    (format("table").unwrap().write)(&report, &mut out).unwrap();
    assert!(section(&String::from_utf8(out).unwrap()), "--full shows everything");
}
