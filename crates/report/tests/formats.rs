//! All formats print the numbers of one model, and their output does not change.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;

use ellwand_core::record::Record;
use ellwand_core::view::{Columns, View};
use ellwand_core::{Better, Case, Measurement, Outcome, Reading, Work};
use ellwand_report::{FORMATS, Options, Report, format, units::human};
use serde_json::Value;

fn report(records: &[Record], options: &Options) -> Report {
    Report::from_records(records, options).unwrap()
}

fn text(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    (format(name).unwrap().write)(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn small(width: Option<usize>) -> Report {
    report(&[common::small_record()], &Options { width, ..Options::default() })
}

#[test]
fn table_at_80_columns() {
    insta::assert_snapshot!(text(&small(Some(80)), "table"));
}

#[test]
fn table_at_140_columns() {
    insta::assert_snapshot!(text(&small(Some(140)), "table"));
}

#[test]
fn many_workloads_share_one_table() {
    let mut record = common::record();
    record.measurements.retain(|m| m.case.id.contains("batch=1,") || m.case.id.contains("batch=10000,"));
    let more: Vec<Measurement> = record
        .measurements
        .iter()
        .map(|m| {
            let mut m = m.clone();
            m.case.workload = m.case.workload.replace("lattice", "other");
            m.case.id = m.case.id.replace("lattice-", "other-");
            m.case.params.retain(|param| param.axis != "overload");
            m
        })
        .collect();
    record.measurements.extend(more);
    let joint =
        text(&report(std::slice::from_ref(&record), &Options { width: Some(120), ..Options::default() }), "table");
    insta::assert_snapshot!(joint);
    let full = text(&report(&[record], &Options { width: Some(120), ..full() }), "table");
    assert!(full.lines().count() > 3 * joint.lines().count());
}

#[test]
fn csv() {
    insta::assert_snapshot!(text(&small(None), "csv"));
}

#[test]
fn json() {
    // A single workload, because a snapshot of all would be too long to read.
    let mut record = common::small_record();
    record.measurements.retain(|m| {
        m.case.workload == "null"
            || (m.case.id.contains("batch=100,")
                && ["reference", "simd", "cuda", "sloppy"].contains(&m.implementation.as_str()))
    });
    insta::assert_snapshot!(text(&report(&[record], &Options::default()), "json"));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(text(&small(None), "markdown"));
}

/// A report with verdicts, a certificate, and a resumed run.
fn verdicts(width: Option<usize>) -> Report {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-comparisons.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut record = ellwand_core::record::parse(&text).unwrap();
    record.resumed.push(vec!["ellwand".into(), "run".into(), "it's".into(), "--resume".into()]);
    report(&[record], &Options { width, ..Options::default() })
}

#[test]
fn verdicts_as_a_table() {
    insta::assert_snapshot!(text(&verdicts(Some(120)), "table"));
}

#[test]
fn verdicts_as_markdown() {
    let markdown = text(&verdicts(None), "markdown");
    insta::assert_snapshot!(markdown);
}

#[test]
fn all_formats_print_the_same_verdicts() {
    let report = verdicts(None);
    let json: Value = serde_json::from_str(&text(&report, "json")).unwrap();
    for (index, row) in report.comparisons.iter().enumerate() {
        assert_eq!(json["comparisons"][index]["ratio"].as_f64(), row.ratio);
        let ratio = row
            .ratio
            .map_or_else(|| "–".to_string(), |ratio| format!("{}x", ellwand_report::units::significant(ratio, 4)));
        for format in ["table", "markdown"] {
            let text = text(&report, format);
            // The case without the parameters it shares with the others.
            let case = ["lattice-encode/batch=2 ", "lattice-encode/batch=64 ", "lattice-encode/batch=128 "][index];
            let line = text.lines().find(|line| line.contains(case)).unwrap();
            assert!(line.contains(&row.verdict) && line.contains(&ratio), "{format}: {line}");
        }
    }
}

#[test]
fn one_verdict_among_many_rows_is_withdrawn() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-comparisons.jsonl");
    let mut record = ellwand_core::record::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let called = record.comparisons[0].clone();
    let mut nothing = called.clone();
    // Equal numbers of blocks on either side: no difference.
    for (index, block) in nothing.blocks.iter_mut().enumerate() {
        block.main = if index % 2 == 0 { 0.0001 } else { -0.0001 };
    }
    nothing.verdict = "same".into();
    record.comparisons = vec![nothing; 300];
    record.comparisons.push(called);
    let many = report(&[record.clone()], &Options::default());
    let last = many.comparisons.last().unwrap();
    assert_eq!(last.verdict, "undecided");
    assert!(last.note.as_deref().unwrap().contains("among 301 cases"));
    record.comparisons.drain(..300);
    assert_eq!(report(&[record], &Options::default()).comparisons[0].verdict, "slower");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [60, 80, 100, 140, 200] {
        for line in text(&small(Some(width)), "table").lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
    // Narrower than the columns that always stay: they are still printed, and nothing breaks.
    assert!(text(&small(Some(10)), "table").contains("implementation"));
}

#[test]
fn colour_repeats_what_the_text_says() {
    let plain = text(&small(Some(100)), "table");
    let coloured = text(
        &report(&[common::small_record()], &Options { width: Some(100), color: true, ..Options::default() }),
        "table",
    );
    assert!(coloured.contains("\u{1b}["));
    assert!(!plain.contains('\u{1b}'));
    let mut bare = String::new();
    let mut inside = false;
    for c in coloured.chars() {
        match c {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            c if !inside => bare.push(c),
            _ => {}
        }
    }
    assert_eq!(bare, plain);
}

/// The table with every column and row.
fn full() -> Options {
    Options { full: true, ..Options::default() }
}

/// Numbers of a format by cell: workload, batch, implementation.
type Numbers = HashMap<(String, String, String), (f64, Option<f64>)>;

fn of_model(report: &Report) -> Numbers {
    let mut numbers = Numbers::new();
    for section in &report.workloads {
        for row in &section.rows {
            if let Some(time) = row.median("time") {
                let key =
                    (section.workload.clone(), row.param("batch").unwrap_or_default(), row.implementation.clone());
                numbers.insert(key, (time, row.speedup.ratio));
            }
        }
    }
    numbers
}

fn of_csv(text: &str) -> Numbers {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|column| column == name).unwrap();
    let mut numbers = Numbers::new();
    for row in reader.records() {
        let row = row.unwrap();
        let get = |name: &str| row[at(name)].to_string();
        if let Ok(time) = get("time_median_s").parse() {
            numbers.insert((get("workload"), get("batch"), get("implementation")), (time, get("speedup").parse().ok()));
        }
    }
    numbers
}

fn of_rows(rows: impl Iterator<Item = (String, Value)>) -> Numbers {
    let mut numbers = Numbers::new();
    for (workload, row) in rows {
        let Some(time) = row["metrics"]["time"]["median"].as_f64() else { continue };
        let batch = row["params"]["batch"].as_i64().map(|batch| batch.to_string()).unwrap_or_default();
        let implementation = row["implementation"].as_str().unwrap().to_string();
        numbers.insert((workload, batch, implementation), (time, row["speedup"]["ratio"].as_f64()));
    }
    numbers
}

#[test]
fn machine_formats_hold_the_same_bits() {
    let report = report(&[common::record()], &Options::default());
    let model = of_model(&report);
    assert_eq!(model.len(), 3 * 5 * 4);
    assert_eq!(of_csv(&text(&report, "csv")), model);
    let json: Value = serde_json::from_str(&text(&report, "json")).unwrap();
    let sections = json["workloads"].as_array().unwrap();
    let rows = sections.iter().flat_map(|section| {
        let name = section["workload"].as_str().unwrap().to_string();
        section["rows"].as_array().unwrap().iter().map(move |row| (name.clone(), row.clone()))
    });
    assert_eq!(of_rows(rows), model);
    let lines = text(&report, "jsonl");
    let rows = lines.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        (row["workload"].as_str().unwrap().to_string(), row)
    });
    assert_eq!(of_rows(rows), model);
}

#[test]
fn formats_for_people_hold_the_same_numbers_rounded() {
    let report = report(&[common::record()], &full());
    let (table, markdown) = (text(&report, "table"), text(&report, "markdown"));
    for section in &report.workloads {
        let part = |whole: &str, mark: &str| {
            let start = whole.find(mark).unwrap() + mark.len();
            whole[start..].to_string()
        };
        let (table, markdown) = (
            part(&table, &format!("\n{}", section.workload)),
            part(&markdown, &format!("\n## {}\n", section.workload)),
        );
        let mut rest = (table.as_str(), markdown.as_str());
        for row in section.rows.iter() {
            let Some(time) = row.median("time") else { continue };
            // In order: each value is searched for after the previous one.
            for value in [human(time, "s")].into_iter().chain(row.median("bandwidth").map(|rate| human(rate, "B/s"))) {
                let at = rest.0.find(&value).unwrap_or_else(|| panic!("table: {value} of {}", row.case));
                rest.0 = &rest.0[at + value.len()..];
                let at = rest.1.find(&value).unwrap_or_else(|| panic!("markdown: {value} of {}", row.case));
                rest.1 = &rest.1[at + value.len()..];
            }
        }
    }
}

#[test]
fn unavailable_is_never_zero() {
    let mut record = common::small_record();
    record.run.environment.ceilings.clear();
    for measurement in &mut record.measurements {
        measurement.baseline = "somebody-else".into();
        measurement.samples.iter_mut().for_each(|sample| sample.cpu_ns = None);
    }
    let report = report(&[record], &full());
    let json: Value = serde_json::from_str(&text(&report, "json")).unwrap();
    let row = &json["workloads"][0]["rows"][0];
    for metric in ["roofline-fraction", "cpu-time"] {
        assert_eq!(row["metrics"][metric]["provenance"], "unavailable");
        assert!(row["metrics"][metric].get("median").is_none());
        assert!(!row["metrics"][metric]["why"].as_str().unwrap().is_empty());
    }
    assert!(row["speedup"]["ratio"].is_null());
    assert!(row["speedup"]["unavailable"].as_str().unwrap().contains("somebody-else"));
    let table = text(&report, "table");
    assert!(
        table.contains("unavailable: CPU time")
            && table.contains("of ceiling")
            && table.contains("speed-up (somebody-else"),
        "{table}"
    );
    let numbers = text(&report, "csv");
    let mut reader = csv::Reader::from_reader(numbers.as_bytes());
    let head = reader.headers().unwrap().clone();
    let first = reader.records().next().unwrap().unwrap();
    for column in ["speedup", "roofline_fraction_median", "cpu_time_median_s", "wall_over_cpu"] {
        assert_eq!(&first[head.iter().position(|name| name == column).unwrap()], "", "{column}");
    }
}

#[test]
fn wall_time_has_a_column_if_a_device_has_its_own_clock() {
    let mut record = common::small_record();
    assert!(!text(&report(&[record.clone()], &full()), "table").contains("wall time"));
    let sample = &mut record.measurements[0].samples;
    sample.iter_mut().for_each(|sample| sample.device_ns = Some(sample.wall_ns / 2));
    let report = report(&[record], &Options { width: Some(200), ..full() });
    let (table, json) = (text(&report, "table"), text(&report, "json"));
    assert!(table.contains("wall time"), "{table}");
    let json: Value = serde_json::from_str(&json).unwrap();
    let of = |id: &str| json["workloads"][0]["rows"][0]["metrics"][id]["median"].as_f64().unwrap();
    assert!((of("wall-time") / of("time") - 2.0).abs() < 0.01);
}

#[test]
fn below_resolution_is_reported_in_every_format() {
    let report = small(None);
    assert!(text(&report, "table").contains("below resolution (0.400 ns)"));
    assert!(text(&report, "markdown").contains("below resolution (0.400 ns)"));
    let json: Value = serde_json::from_str(&text(&report, "json")).unwrap();
    let row = &json["workloads"][1]["rows"][0];
    assert_eq!(row["below_resolution"], true);
    assert!(row["metrics"]["time"].get("median").is_none());
}

#[test]
fn formats_are_found_by_name_and_ending() {
    for known in FORMATS {
        assert_eq!(format(known.name).unwrap().name, known.name);
    }
    assert_eq!(format("md").unwrap().name, "markdown");
    assert!(format("html5").is_none());
}

#[test]
fn csv_columns_have_one_name_each() {
    let mut record = common::small_record();
    // An axis with the name of a built-in column.
    for measurement in &mut record.measurements {
        measurement
            .case
            .params
            .iter_mut()
            .filter(|param| param.axis == "data")
            .for_each(|param| param.axis = "device".into());
    }
    let numbers = text(&report(&[record], &Options::default()), "csv");
    let mut reader = csv::Reader::from_reader(numbers.as_bytes());
    let head: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
    assert!(head.contains(&"param_device".to_string()));
    let mut unique = head.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), head.len(), "{head:?}");
}

#[test]
fn rows_for_layer_benchmark_scripts() {
    let case = Case::new(
        "layer-norm",
        vec![("batch".into(), 32.into()), ("sequence".into(), 512.into()), ("dimension".into(), 768.into())],
    );
    let bytes = 32 * 512 * 768 * 4;
    let mut simd = common::measured(&case, "simd", 2e-3, Work::items("rows", 32 * 512).flops(1e8).bytes(bytes, bytes));
    simd.readings = vec![Reading::measured("peak-memory", "peak memory", "B", Better::Lower, 1.5e6, "growth")];
    let cuda = common::other(simd.clone(), Outcome::Unsupported { why: "no CUDA driver".into() });
    let record = common::through_text(&common::run(), &[simd, Measurement { implementation: "cuda".into(), ..cuda }]);
    let report = report(&[record], &Options::default());
    insta::assert_snapshot!(text(&report, "seed-json"));
    insta::assert_snapshot!("comparison_that_layer_benchmark_scripts_print", text(&report, "seed-table"));
}

#[test]
fn the_memory_of_a_column_means_the_same_in_all_rows() {
    let case = Case::new("layer-norm", vec![("batch".into(), 32.into())]);
    let bytes = |id: &str, bytes: f64| Reading::measured(id, id, "B", Better::Lower, bytes, "memory");
    let row = |name: &str, readings: Vec<Reading>| Measurement {
        readings,
        ..common::measured(&case, name, 2e-3, Work::items("rows", 32).flops(1e8).bytes(8, 8))
    };
    let stated = row("simd", vec![bytes(Reading::TOTAL_MEMORY, 8e6), bytes("peak-memory", 2e6)]);
    let memory = |other: Vec<Reading>| -> Vec<Option<f64>> {
        let record = common::through_text(&common::run(), &[stated.clone(), row("torch", other)]);
        let rows = text(&report(&[record], &Options::default()), "seed-json");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        rows.iter().map(|row| row["memory_mb"].as_f64()).collect()
    };
    assert_eq!(memory(vec![bytes("peak-memory", 3e6)]), [Some(2.0), Some(3.0)]);
    assert_eq!(memory(vec![bytes(Reading::TOTAL_MEMORY, 9e6), bytes("peak-memory", 3e6)]), [Some(8.0), Some(9.0)]);
    assert_eq!(memory(Vec::new()), [Some(2.0), None]);
}

#[test]
fn readings_that_a_view_puts_beside_the_time_are_columns() {
    let held = |m: &Measurement, id: &str, bytes: f64| {
        let reading = Reading::derived(id, &format!("{id} held"), "B", Better::Lower, bytes, "what it holds");
        Measurement { readings: vec![reading], ..m.clone() }
    };
    let record = common::small_record();
    let workload = record.measurements[0].case.workload.clone();
    let report_of = |sizes: [f64; 2], id: &str| {
        let mut run = common::run();
        run.views.push(View::Columns(Columns { workloads: vec![workload.clone()], readings: vec![id.into()] }));
        let rows = record.measurements.iter().enumerate().map(|(at, m)| held(m, id, sizes[at % 2]));
        let record = common::through_text(&run, &rows.collect::<Vec<_>>());
        report(&[record], &Options { full: true, width: Some(120), ..Options::default() })
    };
    let of = |sizes: [f64; 2], id: &str| text(&report_of(sizes, id), "table");
    let varied = of([4096.0, 8192.0], "extra");
    let heads = |text: &str| text.lines().filter(|line| line.contains("  time") && line.contains("extra held")).count();
    assert_eq!(heads(&varied), 1, "{varied}");
    assert!(varied.contains("4.00 KiB") && varied.contains("8.00 KiB"), "{varied}");
    // The page has no such columns, so it shows them among its readings.
    #[cfg(feature = "page")]
    {
        let page = ellwand_report::page_model(&report_of([4096.0, 8192.0], "extra")).unwrap();
        let tables = page["readings"][0].to_string();
        assert!(tables.contains("extra held") && tables.contains("8.00 KiB"), "{tables}");
    }
    // A value that all rows share needs no column.
    let same = of([4096.0, 4096.0], "extra");
    assert!(heads(&same) == 0 && same.contains("extra held 4.00 KiB"), "{same}");
}

#[test]
fn every_format_reports_a_partial_comparison() {
    let mut record = common::small_record();
    for m in &mut record.measurements {
        m.check = Some(ellwand_core::Verdict::agree(ellwand_core::Compared { values: 211, of: 1000 }, 0.0));
    }
    let report = report(&[record], &Options::default());
    // The page holds the model in packed form; JSON is the model.
    for form in FORMATS.iter().filter(|form| form.name != "html") {
        let mut out = Vec::new();
        if (form.write)(&report, &mut out).is_ok() {
            let text = String::from_utf8_lossy(&out);
            assert!(text.contains("211 of 1000 values"), "{}: {text}", form.name);
        }
    }
}

#[test]
fn the_largest_difference_from_the_reference_is_reported_with_its_place() {
    let mut record = common::small_record();
    let measured = record.measurements.iter_mut().filter(|m| m.implementation == "simd");
    for (m, error) in measured.zip([2.5e-5, 4e-5]) {
        let detail = format!("8 values agree; the largest difference at y[{error}]");
        m.check = Some(ellwand_core::Verdict { max_error: Some(error), ..ellwand_core::Verdict::right(detail) });
    }
    let report = report(&[record], &Options::default());
    let markdown = text(&report, "markdown");
    let said = "Agreement with the reference: simd 4.0e-5 (8 values agree; the largest difference at y[0.00004]).";
    assert!(markdown.contains(said), "{markdown}");
    assert!(text(&report, "csv").contains("reading_largest_difference"));
}

#[cfg(feature = "page")]
#[test]
fn the_page_draws_the_roofs_of_every_precision_that_occurs() {
    use ellwand_core::CeilingKind;
    let mut run = common::run();
    let fma = run.environment.ceilings.iter().find(|one| one.kind == CeilingKind::Fma).unwrap().clone();
    for (kind, factor) in [(CeilingKind::FmaF64, 0.5), (CeilingKind::ProductsBf16, 2.0)] {
        let mut own = fma.clone();
        (own.kind, own.value) = (kind, fma.value * factor);
        run.environment.ceilings.push(own);
    }
    let row = |name: &str, double: bool, bf16: bool| {
        let work = Work::items("elements", 8).flops(2.5e8).bytes(36, 36).double(double).bf16(bf16);
        common::measured(&Case::new("gelu", vec![("batch".into(), 1.into())]), name, 20e-3, work)
    };
    let roofs = |rows: &[Measurement]| {
        let report = report(&[common::through_text(&run, rows)], &Options::default());
        let page = ellwand_report::page_model(&report).unwrap();
        let one = page["curves"].as_array().unwrap().iter().find(|one| one["id"] == "roofline-one-thread").unwrap();
        let roofs = one["series"].as_array().unwrap().iter().filter(|series| !series["roof"].is_null());
        roofs.map(|series| series["name"].as_str().unwrap().to_string()).collect::<Vec<_>>().join("; ")
    };
    let [single, double, bf16] = [row("scalar", false, false), row("simd", true, false), row("gemm", false, true)];
    let only = roofs(std::slice::from_ref(&single));
    assert!(only.contains("f32 FMA peak, 110 GFLOP/s") && !only.contains("f64") && !only.contains("bf16"), "{only}");
    let all = roofs(&[single, double, bf16]);
    assert!(all.contains("f64 FMA peak, 55.0 GFLOP/s") && all.contains("bf16 products, 220 GFLOP/s"), "{all}");
}
