//! Components of implementations, in every format.
#![allow(clippy::unwrap_used)]

mod common;

use boon::{Compiler, Schemas};
use ellwand_core::Outcome;
use ellwand_core::record::{CaseRecord, Record, SpanCost, SpanNode, Spans, line, parse};
use ellwand_core::{Parallelism, Value, Work};
use ellwand_report::{Options, RECORD_SCHEMA, Report, format, write_all};

fn node(path: &[&str], calling: bool, calls: u64, total_ns: &[f64], self_ns: &[f64]) -> SpanNode {
    let each = total_ns.iter().sum::<f64>() / calls as f64;
    SpanNode {
        path: path.iter().map(ToString::to_string).collect(),
        file: "crates/kernels/src/attention.rs".into(),
        line: 40 + path.len() as u32,
        calling,
        lanes: if calling { 1 } else { 2 },
        calls,
        total_ns: total_ns.to_vec(),
        self_ns: self_ns.to_vec(),
        call_min_ns: Some(each * 0.9),
        call_median_ns: Some(each),
        call_p99_ns: Some(each * 1.2),
        call_max_ns: Some(each * 1.5),
        bytes: 0,
        items: 0,
        flops: 0.0,
    }
}

fn spans(implementation: &str, batch: i64, nodes: Vec<SpanNode>) -> Spans {
    let case = common::lattice_case("lattice-encode", batch);
    Spans {
        case: CaseRecord::new(&case, |_| ""),
        implementation: implementation.into(),
        device: "cpu".into(),
        parallelism: Parallelism::Single,
        what_ran: "avx512".into(),
        work: Work::items("vectors", 100),
        outcome: Outcome::Measured,
        iteration_ns: vec![100_000.0, 110_000.0],
        spans: nodes.iter().map(|node| node.calls).sum(),
        nodes,
        clock: "tsc".into(),
        cost: Some(SpanCost { off_ns: 0.8, on_ns: 26.0, empty_ns: 10.0 }),
        dropped: 0,
        open: 0,
        trace: Some("lattice-encode-0123abcd-simd.trace.json".into()),
        warnings: Vec::new(),
    }
}

fn all() -> Vec<Spans> {
    let mut softmax = node(&["attention", "softmax"], true, 8, &[30_000.0, 30_000.0], &[30_000.0, 30_000.0]);
    (softmax.bytes, softmax.flops) = (1 << 20, 4e6);
    let simd = vec![
        node(&["attention"], true, 2, &[80_000.0, 85_000.0], &[49_900.0, 54_900.0]),
        softmax,
        node(&["attention", "pick | choose"], true, 3, &[100.0, 100.0], &[100.0, 100.0]),
        node(&["attention", "head"], false, 16, &[120_000.0, 120_000.0], &[120_000.0, 120_000.0]),
        node(&["norm"], true, 2, &[10_000.0, 12_000.0], &[10_000.0, 12_000.0]),
    ];
    let mut lossy = spans("lossy", 1, vec![node(&["step"], true, 4000, &[90_000.0, 90_000.0], &[90_000.0, 90_000.0])]);
    (lossy.dropped, lossy.open, lossy.trace) = (7, 1, None);
    let mut bare = spans("bare", 10, Vec::new());
    bare.trace = None;
    let mut absent = spans("cuda", 10, Vec::new());
    absent.outcome = Outcome::Unsupported { why: "no CUDA driver was found (libcuda.so.1)".into() };
    (absent.iteration_ns, absent.cost, absent.clock, absent.trace) = (Vec::new(), None, String::new(), None);
    vec![spans("simd", 1, simd), lossy, bare, absent]
}

fn record(spans: &[Spans]) -> Record {
    let lines = spans.iter().map(|spans| line(spans).unwrap() + "\n");
    parse(&lines.fold(line(&common::run()).unwrap() + "\n", |text, line| text + &line)).unwrap()
}

fn text(records: &[Record], name: &str, width: Option<usize>) -> String {
    let report = Report::from_records(records, &Options { width, ..Options::default() }).unwrap();
    let mut out = Vec::new();
    (format(name).unwrap().write)(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn table() {
    insta::assert_snapshot!(text(&[record(&all())], "table", Some(110)));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(text(&[record(&all())], "markdown", None));
}

#[test]
fn csv() {
    insta::assert_snapshot!(text(&[record(&all())], "csv", None));
}

#[test]
fn json_holds_the_same_numbers() {
    let json: serde_json::Value = serde_json::from_str(&text(&[record(&all())], "json", None)).unwrap();
    let first = &json["spans"][0];
    assert_eq!(first["iteration_s"].as_f64(), Some(105e-6));
    assert_eq!(first["rows"][2]["path"], serde_json::json!(["attention", "softmax"]));
    assert!((first["rows"][2]["share"].as_f64().unwrap() - 60.0 / 210.0).abs() < 1e-12);
    // Time outside all spans is what the self times of the calling thread leave; other threads do not reduce it.
    let own = 49_900.0 + 54_900.0 + 60_000.0 + 200.0 + 22_000.0;
    assert!((first["outside_s"].as_f64().unwrap() - (210_000.0 - own) * 1e-9 / 2.0).abs() < 1e-15);
    assert_eq!(json["spans"][2]["outside_s"], serde_json::Value::Null, "without spans nothing is known");
    let lines = text(&[record(&all())], "jsonl", None);
    assert_eq!(lines.lines().count(), 4);
    assert_eq!(serde_json::from_str::<serde_json::Value>(lines.lines().next().unwrap()).unwrap()["components"], *first);
}

#[test]
#[cfg(feature = "page")]
fn the_page_has_the_columns_and_words_of_the_table() {
    let report = Report::from_records(&[record(&all())], &Options::default()).unwrap();
    let page = ellwand_report::page_model(&report).unwrap();
    let table = text(&[record(&all())], "table", None);
    for index in [0, 1] {
        let shown = &page["span_tables"][index];
        assert!(table.contains(shown["terms"].as_str().unwrap()), "{shown}");
        let columns = shown["columns"].as_array().unwrap();
        for cell in columns.iter().flat_map(|column| column["cells"].as_array().unwrap()) {
            assert!(table.contains(cell.as_str().unwrap()), "{cell}: {table}");
        }
    }
    assert_eq!(page["span_tables"][0]["columns"][0]["cells"][1], "  head", "indented below attention");
}

/// Two components inside a third, in iterations of 60 us: 50 us in `products`, 2 us in `decoding`, 3 us outside both.
/// `pauses` lists iterations with their extra time, all of it in `decoding`.
fn paused(iterations: usize, pauses: &[(usize, f64)]) -> Spans {
    let mut more = vec![0.0; iterations];
    pauses.iter().for_each(|(index, ns)| more[*index] = *ns);
    // Iterations always vary a little.
    let wobble = |index: usize| 100.0 * (index % 3) as f64;
    let each = |time: &dyn Fn(usize) -> f64| (0..iterations).map(time).collect::<Vec<f64>>();
    let (products, decoding) = (each(&|i| 50_000.0 + wobble(i)), each(&|i| 2_000.0 + more[i]));
    let (whole, own) = (each(&|i| 55_000.0 + wobble(i) + more[i]), vec![3_000.0; iterations]);
    let calls = iterations as u64;
    let mut nodes = vec![
        node(&["predict"], true, calls, &whole, &own),
        node(&["predict", "products"], true, calls, &products, &products),
        node(&["predict", "decoding"], true, calls, &decoding, &decoding),
    ];
    nodes[1].bytes = 1000 * calls;
    if more.iter().sum::<f64>() > 50_000.0 * iterations as f64 {
        // A record sorts siblings by their time in all iterations.
        nodes.swap(1, 2);
    }
    let mut spans = spans("scalar", 1, nodes);
    spans.iteration_ns = each(&|i| 60_000.0 + wobble(i) + more[i]);
    spans
}

fn first_table(spans: Spans) -> serde_json::Value {
    let json: serde_json::Value = serde_json::from_str(&text(&[record(&[spans])], "json", None)).unwrap();
    json["spans"][0].clone()
}

#[test]
fn one_pause_makes_no_component_the_largest() {
    let calm = first_table(paused(50, &[]));
    assert_eq!(calm["left_out"], serde_json::json!([]));
    let share = |table: &serde_json::Value, row: usize| table["rows"][row]["share"].as_f64().unwrap();
    for pauses in [&[(16, 3e6)][..], &[(0, 20_000.0), (7, 9e6), (49, 3e6)]] {
        let table = first_table(paused(50, pauses));
        let numbers: Vec<usize> = pauses.iter().map(|(index, _)| index + 1).collect();
        assert_eq!(table["left_out"], serde_json::json!(numbers));
        assert_eq!(table["rows"][1]["path"][1], "products", "{table}");
        for row in 0..3 {
            assert!((share(&table, row) - share(&calm, row)).abs() < 1e-3, "{row}: {} {}", table, calm);
        }
        // The parts add up, as they do without outliers.
        let row = |row: usize, key: &str| table["rows"][row][key].as_f64().unwrap();
        assert!((row(0, "self_s") + row(1, "time_s") + row(2, "time_s") - row(0, "time_s")).abs() < 1e-12);
        let whole = row(0, "time_s") + table["outside_s"].as_f64().unwrap();
        assert!((whole - table["iteration_s"].as_f64().unwrap()).abs() < 1e-12);
        // 1000 bytes in 50.1 us; one call per iteration.
        assert!((row(1, "bandwidth") - 1000.0 / 50.1e-6).abs() < 0.01 * 2e7, "{}", row(1, "bandwidth"));
        assert_eq!(row(1, "calls"), 1.0);
    }
}

#[test]
fn excluded_iterations_are_reported_in_every_format() {
    let records = [record(&[paused(50, &[(16, 3e6), (30, 4e6)])])];
    for format in ["table", "markdown"] {
        let text = text(&records, format, None).replace("\n  ", " ");
        for part in [
            "48 of 50 iterations with spans on, 60.1 µs each (mean; median 60.1 µs)",
            "excluded from times and shares as outliers: 2 of 50 iterations (numbers 17, 31); they took 3.06 ms or more, the median is 60.1 µs. Including them the mean is 200 µs",
        ] {
            assert!(text.contains(part), "{format}: {part} in {text}");
        }
    }
    let csv = text(&records, "csv", None);
    assert!(csv.lines().next().unwrap().contains(",iterations,iterations_left_out,iteration_s,"), "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.contains(",scalar,cpu,measured,,50,2,")), "{csv}");
    let one = text(&[record(&[paused(50, &[(16, 3e6)])])], "markdown", None);
    assert!(one.contains("1 of 50 iterations (number 17); it took 3.06 ms,"), "{one}");
    let many: Vec<(usize, f64)> = (0..20).map(|index| (index, 3e6)).collect();
    let many = text(&[record(&[paused(50, &many)])], "markdown", None);
    assert!(many.contains("20 of 50 iterations; they took 3.06 ms or more"), "{many}");
}

#[test]
fn iterations_that_all_differ_are_all_kept_and_the_mean_is_remarked_on() {
    // A wide spread without outliers, with more of it above the median than below.
    let spread: Vec<(usize, f64)> = (0..50).map(|index| (index, 1000.0 * (index * index) as f64)).collect();
    let table = first_table(paused(50, &spread));
    assert_eq!(table["left_out"], serde_json::json!([]));
    let note = table["notes"].as_array().unwrap().iter().find(|note| note.as_str().unwrap().contains("vary widely"));
    assert!(note.is_some_and(|note| note.as_str().unwrap().contains("is 1.3 times their median")), "{table}");
    assert!(!text(&[record(&[paused(50, &[])])], "table", None).contains("vary widely"));
}

#[test]
fn measurements_and_components_are_both_reported_and_the_csv_is_unchanged() {
    let mut both = common::small_record();
    let before = text(&[common::small_record()], "csv", None);
    both.spans = all();
    assert_eq!(text(&[both.clone()], "csv", None), before);
    let table = text(&[both.clone()], "table", Some(110));
    assert!(table.contains("speed-up") && table.contains("components"));
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default();
    write_all(&Report::from_records(&[both], &options).unwrap(), dir.path(), &options).unwrap();
    let csv = std::fs::read_to_string(dir.path().join("spans.csv")).unwrap();
    assert_eq!(csv, text(&[record(&all())], "csv", None));
    assert!(dir.path().join("summary.csv").exists());
}

#[test]
fn the_schema_accepts_every_line_and_refuses_damage() {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource("record.json", serde_json::from_str(RECORD_SCHEMA).unwrap()).unwrap();
    let index = compiler.compile("record.json", &mut schemas).unwrap();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-spans.jsonl");
    let kept = std::fs::read_to_string(kept).unwrap();
    let lines: Vec<String> = all().iter().map(|spans| line(spans).unwrap()).collect();
    for text in lines.iter().map(String::as_str).chain(kept.lines()) {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        if let Err(error) = schemas.validate(&value, index) {
            panic!("{error:#}\n{text}");
        }
        for (path, bad) in [("/dropped", serde_json::json!(-1)), ("/outcome", serde_json::json!({"status": "fine"}))] {
            let mut damaged = value.clone();
            *damaged.pointer_mut(path).unwrap() = bad;
            assert!(schemas.validate(&damaged, index).is_err(), "{path}");
        }
    }
}

#[test]
fn names_from_elsewhere_cannot_break_a_terminal_or_a_table() {
    let evil = vec![node(&["a\u{1b}[2Jb\nc"], true, 2, &[1e4, 1e4], &[1e4, 1e4])];
    let mut spans = spans("simd", 1, evil);
    spans.case.params.push(ellwand_core::record::Param {
        axis: "x".into(),
        unit: String::new(),
        value: Value::from("y"),
    });
    for name in ["table", "markdown"] {
        let text = text(&[record(&[spans.clone()])], name, None);
        assert!(!text.contains('\u{1b}') && text.contains("a [2Jb c"), "{text}");
    }
}

#[test]
fn components_of_the_same_name_are_distinguished_by_file_and_line() {
    let at = |line: u32, name: &str| {
        let mut node = node(&[name], true, 2, &[10_000.0, 10_000.0], &[10_000.0, 10_000.0]);
        (node.file, node.line) = ("crates/kernels/src/attention/block.rs".into(), line);
        node
    };
    let nodes = vec![at(10, "norm"), at(20, "norm"), at(30, "products")];
    let records = [record(&[spans("simd", 1, nodes)])];
    for format in ["table", "markdown"] {
        let text = text(&records, format, None);
        for name in ["norm (block.rs:10)", "norm (block.rs:20)", "products "] {
            assert!(text.contains(name), "{format}: {name} in {text}");
        }
    }
}
