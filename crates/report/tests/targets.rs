//! Targets as lines that are met, missed or open.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::View;
use ellwand_core::record::Record;
use ellwand_core::view::{Measure, Target, Targets};
use ellwand_report::{Options, Report, format};

fn target(about: &str, measure: Measure, limit: f64) -> Target {
    let case = vec![("lattice".into(), "D4".into()), ("q".into(), "4".into())];
    Target { about: about.into(), workload: "lattice-encode".into(), case, measure, limit }
}

fn record(targets: Vec<Target>) -> Record {
    let mut run = common::run();
    run.views = vec![View::Targets(Targets { title: "targets of scripts".into(), targets })];
    common::through_text(&run, &common::lattice("lattice-encode", 1.0))
}

fn written(record: &Record, name: &str) -> String {
    at_width(record, name, None)
}

fn at_width(record: &Record, name: &str, width: Option<usize>) -> String {
    let options = Options { width, ..Options::default() };
    let report = Report::from_records(std::slice::from_ref(record), &options).unwrap();
    let mut out = Vec::new();
    (format(name).unwrap().write)(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The line of a target.
fn line(text: &str, about: &str) -> String {
    text.lines().find(|line| line.contains(about)).unwrap_or_else(|| panic!("no {about} in {text}")).to_string()
}

#[test]
fn each_target_has_its_measured_value_and_whether_it_is_met() {
    let all = vec![
        target("rate of 1 M", Measure::Throughput, 1e6),
        target("rate of 1 T", Measure::Throughput, 1e12),
        target("speed-up of 2", Measure::Speedup, 2.0),
        target("speed-up of 200", Measure::Speedup, 200.0),
        target("stored 4", Measure::Reading("compression".into()), 4.0),
        target("stored 9", Measure::Reading("compression".into()), 9.0),
        target("hold 80", Measure::Hold, 0.8),
        target("within 20", Measure::Spread, 0.2),
        target("within 1", Measure::Spread, 0.01),
        target("no such reading", Measure::Reading("unknown".into()), 1.0),
    ];
    for name in ["table", "markdown"] {
        let text = written(&record(all.clone()), name);
        for met in ["rate of 1 M", "speed-up of 2 ", "stored 4", "hold 80", "within 20"] {
            assert!(line(&text, met).contains(" met"), "{}", line(&text, met));
        }
        for missed in ["rate of 1 T", "speed-up of 200", "stored 9", "within 1 "] {
            assert!(line(&text, missed).contains(" missed"), "{}", line(&text, missed));
        }
        assert_eq!(line(&text, "within 20").matches("within ").count(), 2, "{text}");
        // The largest batch is the fastest: 4.5 us and 3.7 ns per vector.
        let rate = line(&text, "rate of 1 M");
        assert!(rate.contains(" M vectors/s") && rate.contains("parallel") && rate.contains("batch 10000"), "{rate}");
        assert!(line(&text, "stored 4").contains("7.94x"), "{}", line(&text, "stored 4"));
        assert!(!text.contains("no such reading"), "a target without a row has no line");
    }
}

#[test]
fn a_target_counts_the_rows_of_its_case_alone() {
    let mut other = target("rate of 1 M", Measure::Throughput, 1e6);
    other.case[0].1 = "E8".into();
    assert!(!written(&record(vec![other]), "table").contains("targets of scripts"));
}

#[test]
fn a_row_beside_other_programs_leaves_a_target_open() {
    let mut record = record(vec![
        target("rate of 1 M", Measure::Throughput, 1e6),
        target("rate of 1 T", Measure::Throughput, 1e12),
        target("stored 9", Measure::Reading("compression".into()), 9.0),
    ]);
    // Other programs had the processors for most of each slot, and the threads were switched out.
    for m in &mut record.measurements {
        for sample in &mut m.samples {
            sample.wall_ns *= 10;
            sample.switches = Some(sample.wall_ns / 1_000_000 + 50);
        }
    }
    let text = written(&record, "table");
    let report = Report::from_records(std::slice::from_ref(&record), &Options::default()).unwrap();
    assert!(report.workloads[0].rows.iter().any(|row| row.held_up.is_some()), "the rows are held up");
    assert!(line(&text, "rate of 1 T").contains("open"), "{}", line(&text, "rate of 1 T"));
    assert!(
        line(&text, "stored 9").contains(" missed") && !line(&text, "stored 9").contains('≥'),
        "sizes do not depend"
    );
    assert!(line(&text, "rate of 1 M").contains(" met"), "{}", line(&text, "rate of 1 M"));
}

#[test]
fn a_target_within_the_interval_is_open_and_a_speed_up_names_its_baseline() {
    let mut record =
        record(vec![target("speed-up of 2", Measure::Speedup, 2.0), target("speed-up of 4", Measure::Speedup, 4.0)]);
    // Between 1.7 and 2.2 times as fast as its baseline, by round.
    record.measurements.retain(|m| ["scalar", "simd"].contains(&m.implementation.as_str()));
    let base = record.measurements[0].samples.clone();
    record.measurements.truncate(2);
    for m in &mut record.measurements {
        m.baseline = "scalar".into();
        m.samples = base.clone();
    }
    for sample in &mut record.measurements[1].samples {
        sample.wall_ns = (sample.wall_ns as f64 / [1.7, 1.9, 2.2][sample.round as usize % 3]) as u64;
    }
    for name in ["table", "markdown"] {
        let text = written(&record, name);
        let near = line(&text, "speed-up of 2");
        assert!(near.contains("x over scalar") && near.contains("open: within the 95 % interval"), "{near}");
        assert!(line(&text, "speed-up of 4").contains(" missed"), "{text}");
    }
}

#[test]
fn a_baseline_beside_other_programs_does_not_meet_a_target_of_speed_up() {
    let mut record =
        record(vec![target("speed-up of 2", Measure::Speedup, 2.0), target("speed-up of 40", Measure::Speedup, 40.0)]);
    record.measurements.retain(|m| ["scalar", "simd"].contains(&m.implementation.as_str()));
    record.measurements.truncate(2);
    record.measurements.iter_mut().for_each(|m| m.baseline = "scalar".into());
    record.measurements[1].samples = record.measurements[0].samples.clone();
    for sample in &mut record.measurements[0].samples {
        sample.wall_ns *= 10;
        sample.cpu_ns = Some(sample.wall_ns / 10);
        sample.switches = Some(sample.wall_ns / 1_000_000 + 50);
    }
    let text = written(&record, "table");
    let near = line(&text, "speed-up of 2");
    assert!(near.contains("≤") && near.contains("open: other programs ran"), "{text}");
    assert!(line(&text, "speed-up of 40").contains(" missed"), "{text}");
}

#[test]
fn the_targets_of_several_workloads_have_one_shape() {
    let mut record = record(vec![
        target("rate of 1 M", Measure::Throughput, 1e6),
        target("speed-up of 4 at the best batch of all those that the scripts measure", Measure::Speedup, 4.0),
        Target { workload: "lattice-decode".into(), ..target("rate of 1 M", Measure::Throughput, 1e6) },
    ]);
    let run = record.run.clone();
    record.measurements.extend(common::lattice("lattice-decode", 0.6));
    let record = common::through_text(&run, &record.measurements);
    let heads = |width: usize| -> Vec<String> {
        let text = at_width(&record, "table", Some(width));
        let lines: Vec<&str> = text.lines().collect();
        let below = lines.windows(2).filter(|pair| pair[0].starts_with("targets of scripts"));
        below.map(|pair| pair[1].split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let shapes = [130, 122, 110, 100, 60].map(heads);
    for shape in &shapes {
        assert!(
            shape.len() == 1 || shape[0] == shape[1] || shape.iter().all(|line| line.starts_with("- ")),
            "{shapes:?}"
        );
    }
    assert!(shapes.iter().any(|shape| shape.len() == 2 && shape[0] == "target measured by"), "{shapes:?}");
    assert!(shapes.iter().any(|shape| shape[0].starts_with("- ")), "{shapes:?}");
}

#[test]
fn a_narrow_table_names_the_workload_of_each_line_and_the_hidden_columns() {
    let mut record = record(vec![
        target("rate of 1 M", Measure::Throughput, 1e6),
        Target { workload: "lattice-decode".into(), ..target("rate of 1 M", Measure::Throughput, 1e6) },
    ]);
    let run = record.run.clone();
    record.measurements.extend(common::lattice("lattice-decode", 0.6));
    let record = common::through_text(&run, &record.measurements);
    let text = at_width(&record, "table", Some(60));
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("rate of 1 M")).collect();
    assert!(lines.len() == 2 && lines[0].starts_with("lattice-encode") && lines[1].starts_with("lattice-decode"));
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
    let table = &text[text.find("targets of scripts").unwrap()..];
    assert!(table.contains("hidden at this width: at"), "{table}");
    assert!(!written(&record, "table").contains("hidden at this width"));
    // If the column does not fit, each workload has a table.
    let text = at_width(&record, "table", Some(48));
    for workload in ["lattice-encode", "lattice-decode"] {
        let table = &text[text.find(&format!("targets of scripts · {workload}")).unwrap()..];
        let table = &table[..table.find("\n\n").unwrap_or(table.len())];
        assert!(table.contains("rate of 1 M") && table.contains(" M vectors/s  met"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 48), "{table}");
    }
}

#[test]
fn a_full_report_hides_no_column_of_targets() {
    let mut record = record(vec![
        target("rate of 1 M", Measure::Throughput, 1e6),
        Target { workload: "lattice-decode".into(), ..target("rate of 1 M", Measure::Throughput, 1e6) },
    ]);
    let run = record.run.clone();
    record.measurements.extend(common::lattice("lattice-decode", 0.6));
    let record = common::through_text(&run, &record.measurements);
    for width in [None, Some(60), Some(40)] {
        let report =
            Report::from_records(std::slice::from_ref(&record), &Options { width, full: true, ..Options::default() })
                .unwrap();
        let mut out = Vec::new();
        (format("table").unwrap().write)(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let targets = &text[text.find("targets of scripts").unwrap()..];
        let targets = &targets[..targets.find("\n\nfindings").unwrap()];
        let words = targets.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!words.contains("hidden"), "{targets}");
        for (part, times) in [("parallel", 2), ("batch 10000", 2), ("M vectors/s", 2), ("lattice-decode", 1)] {
            assert!(words.matches(part).count() >= times, "{part} at {width:?} in {text}");
        }
        assert!(width.is_none_or(|width| targets.lines().all(|line| line.chars().count() <= width)), "{targets}");
    }
}

#[test]
fn what_is_too_wide_for_a_table_is_a_list() {
    let about = "rate at the largest batch at least 80 % of the peak";
    let record = record(vec![target(about, Measure::Hold, 0.8)]);
    let text = at_width(&record, "table", Some(60));
    let list = &text[text.find("targets of scripts").unwrap()..];
    let list = &list[..list.find("\n\n").unwrap_or(list.len())];
    assert!(list.lines().all(|line| line.chars().count() <= 60), "{list}");
    let words = list.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("- {about}: 100 %, met (parallel, batch 10000)")), "{words}");
}
