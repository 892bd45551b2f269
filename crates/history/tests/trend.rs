//! Series by commit: their order, their ratios, and series that are never joined.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::Fake;
use ellwand_history::{EXPORTS, Export, Query, Reference, Store, Trend, trend};

fn query() -> Query {
    Query {
        workload: "sort".into(),
        case: None,
        implementation: "fast".into(),
        axes: BTreeMap::new(),
        machine: None,
        reference: None,
        across_machines: false,
        rope: 0.01,
    }
}

fn store(dir: &Path, runs: &[Fake]) -> Store {
    let mut store = Store::open(&dir.join("store"), true).unwrap();
    for run in runs {
        store.add(&run.write(dir), &run.record()).unwrap();
    }
    store
}

fn with<T>(runs: &[Fake], ask: impl FnOnce(&mut Store) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    ask(&mut store(dir.path(), runs))
}

fn lines(runs: &[Fake], query: &Query) -> Trend {
    with(runs, |store| trend(store, query).unwrap())
}

fn refused(runs: &[Fake], query: &Query) -> String {
    with(runs, |store| trend(store, query).unwrap_err().to_string())
}

/// Runs of two processes; `host` slows down the whole run, `code` only the implementation `fast`.
fn series(count: u64, host: impl Fn(u64) -> f64, code: impl Fn(u64) -> f64) -> Vec<Fake> {
    // A fixed zigzag of 0.5 %.
    let noise = |n: u64, of: u64| 1.0 + 0.005 * (((n * 7 + of * 3) % 5) as f64 / 2.0 - 1.0);
    let run = |n: u64| {
        let plain = [2e-6 * host(n) * noise(n, 0), 2e-6 * host(n) * noise(n, 1)];
        let fast = [1e-6 * host(n) * code(n) * noise(n, 2), 1e-6 * host(n) * code(n) * noise(n, 3)];
        Fake::new(n).sort(10, "plain", &plain).sort(10, "fast", &fast)
    };
    (0..count).map(run).collect()
}

#[test]
fn a_slower_host_is_no_regression_and_slower_code_is_one() {
    let host = |n| if n >= 30 { 1.4 } else { 1.0 };
    let found = lines(&series(50, host, |_| 1.0), &query());
    assert_eq!(found.lines.len(), 1);
    let line = &found.lines[0];
    assert_eq!((line.reference.as_deref(), line.points.len(), line.changes.len()), (Some("plain"), 50, 0));
    assert!(line.points[40].seconds > 1.3 * line.points[10].seconds);
    let found = lines(&series(50, host, |n| if n >= 40 { 1.03 } else { 1.0 }), &query());
    let [change] = found.lines[0].changes.as_slice() else { panic!("{:?}", found.lines[0].changes) };
    assert_eq!(change.point, 40);
    assert!((change.after / change.before - 1.03).abs() < 0.004, "{change:?}");
}

#[test]
fn the_last_runs_are_named_if_they_are_too_few_for_a_change_point() {
    let slow = |from: u64| move |n: u64| if n >= from { 1.2 } else { 1.0 };
    let line = &lines(&series(60, |_| 1.0, slow(57)), &query()).lines[0];
    let recent = line.recent.unwrap();
    assert_eq!((line.changes.len(), recent.runs), (0, 3));
    assert!((recent.after / recent.before - 1.2).abs() < 0.02, "{recent:?}");
    let line = &lines(&series(60, |_| 1.0, slow(56)), &query()).lines[0];
    assert_eq!((line.changes[0].point, line.recent), (56, None));
}

#[test]
fn points_are_in_the_order_of_commits_and_old_records_in_that_of_their_date() {
    let mut runs = series(4, |_| 1.0, |_| 1.0);
    // Measured last, at a commit between the first two; and a record without a commit.
    runs[3].commit = Some(("beef".into(), common::START + 1000));
    runs[2].commit = None;
    let points = &lines(&runs, &query()).lines[0].points;
    let ids: Vec<&str> = points.iter().map(|point| point.run.as_str()).collect();
    assert_eq!(ids, ["run-0000", "run-0003", "run-0001", "run-0002"]);
    assert_eq!((points[3].commit.as_ref(), points[1].commit.as_deref()), (None, Some("beef")));
}

#[test]
fn rows_of_a_resumed_run_have_the_commit_of_their_command() {
    let [first, mut second] = [1, 2].map(Fake::new);
    second.commit = Some(("beef".into(), common::START + 7));
    let text = first.sort(10, "plain", &[2e-6]).sort(10, "fast", &[1e-6]).text()
        + &second.sort(20, "plain", &[2e-6]).sort(20, "fast", &[1e-6]).text();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resumed.jsonl");
    std::fs::write(&path, &text).unwrap();
    let mut store = store(dir.path(), &[]);
    store.add(&path, &ellwand_core::record::parse(&text).unwrap()).unwrap();
    let commits = |store: &mut Store| -> Vec<String> {
        let found = trend(store, &query()).unwrap().lines;
        found.iter().map(|line| line.points[0].commit.clone().unwrap()).collect()
    };
    assert_eq!(commits(&mut store), [format!("{:040x}", 1), "beef".into()]);
    // An index of version 1 has one commit per run, so the record is read again.
    drop(store);
    let index = rusqlite::Connection::open(dir.path().join("store/index.sqlite")).unwrap();
    let old = "DROP TABLE session; PRAGMA user_version = 1";
    index.execute_batch(&format!("DROP VIEW history; CREATE VIEW history AS SELECT 1; {old}")).unwrap();
    drop(index);
    let mut store = Store::open(&dir.path().join("store"), false).unwrap();
    assert_eq!(commits(&mut store), [format!("{:040x}", 1), "beef".into()]);
    let cells = store.run("run-0001").unwrap().1;
    assert!(cells.iter().all(|cell| (cell.commit.as_deref() == Some("beef")) == (cell.series.case == "sort/n=20")));
}

#[test]
fn machines_are_separate_lines_and_only_ratios_join() {
    let mut runs = series(40, |n| if n % 2 == 0 { 1.0 } else { 3.0 }, |_| 1.0);
    runs.iter_mut().skip(1).step_by(2).for_each(|run| run.cpu = "Other Processor".into());
    let apart = lines(&runs, &query());
    assert_eq!((apart.machines, apart.lines.len()), (2, 2));
    assert!(apart.lines.iter().all(|line| line.machines.len() == 1 && line.points.len() == 20));
    let joined = lines(&runs, &Query { across_machines: true, ..query() });
    assert_eq!((joined.machines, joined.lines.len(), joined.lines[0].points.len()), (2, 1, 40));
    assert_eq!(joined.lines[0].changes, []);
    let id = &apart.lines[1].machines[0];
    let one = lines(&runs, &Query { machine: Some(id[..6].into()), ..query() });
    assert_eq!(one.lines, [apart.lines[1].clone()]);
    let error = refused(&runs, &Query { machine: Some("nosuch".into()), ..query() });
    assert!(error.starts_with("machine: ") && error.contains("Other Processor"), "{error}");
}

#[test]
fn a_ratio_is_that_of_the_medians_with_an_interval_over_processes() {
    let run = Fake::new(1).sort(10, "plain", &[2e-6, 2.2e-6, 2.1e-6]).sort(10, "fast", &[1e-6, 1.1e-6, 1.05e-6]);
    let found = lines(&[run], &query());
    let ratio = found.lines[0].points[0].ratio.unwrap();
    // The processes of both vary together, so the ratio does not vary.
    assert!(
        (ratio.value - 0.5).abs() < 1e-9 && ratio.low.unwrap() > 0.4999 && ratio.high.unwrap() < 0.5001,
        "{ratio:?}"
    );
    let alone = Fake::new(1).sort(10, "plain", &[2e-6]).sort(10, "fast", &[1e-6]);
    let ratio = lines(&[alone], &query()).lines[0].points[0].ratio.unwrap();
    assert_eq!((ratio.low, ratio.high), (None, None), "one process says nothing of others");
}

#[test]
fn without_a_reference_there_are_times_and_the_reason() {
    let runs = series(3, |_| 1.0, |_| 1.0);
    let own = lines(&runs, &Query { implementation: "plain".into(), ..query() });
    assert_eq!(own.lines[0].points.len(), 3);
    assert!(own.lines[0].unreferenced.as_ref().unwrap().contains("plain is the reference itself"));
    let pinned = Some(Reference { case: "sort".into(), implementation: "fast".into() });
    let other = lines(&runs, &Query { implementation: "plain".into(), reference: pinned, ..query() });
    assert_eq!(other.lines[0].reference.as_deref(), Some("sort/n=10:fast"));
    assert!((other.lines[0].points[0].ratio.unwrap().value - 2.0).abs() < 0.05);
    let bare: Vec<Fake> = (0..3).map(|n| Fake::new(n).sort(10, "fast", &[1e-6])).collect();
    let line = &lines(&bare, &query()).lines[0];
    assert!(line.unreferenced.as_ref().unwrap().contains("no run measured the baseline plain"), "{line:?}");
}

#[test]
fn a_baseline_that_was_renamed_is_no_change_of_the_code() {
    let mut runs = series(20, |_| 1.0, |_| 1.0);
    // From the tenth run on the baseline is another implementation.
    let renamed: Vec<Fake> = runs.split_off(10);
    let texts: Vec<String> = renamed.iter().map(|run| run.text().replace("\"plain\"", "\"naive\"")).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut store = store(dir.path(), &runs);
    for (run, text) in renamed.iter().zip(texts) {
        // Without checksums, as in old records.
        let lines = text.lines().map(|line| line.split(",\"crc32\"").next().unwrap().to_string() + "}\n");
        let path = dir.path().join(&run.id);
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        let record = ellwand_core::record::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        store.add(&path, &record).unwrap();
    }
    let line = &trend(&mut store, &query()).unwrap().lines[0];
    let why = line.unreferenced.as_ref().unwrap();
    assert!(why.contains("naive and plain") && why.contains("name one as the reference"), "{why}");
    assert_eq!((line.points.len(), line.changes.len()), (20, 0));
}

#[test]
fn cases_are_chosen_by_axis_and_names_are_suggested() {
    let runs: Vec<Fake> = series(3, |_| 1.0, |_| 1.0)
        .into_iter()
        .map(|run| {
            let mut run = run.sort(20, "plain", &[4e-6]).sort(20, "fast", &[2e-6]);
            run.times.extend([1, 2].map(|n| ("copy".into(), n, "plain".into(), vec![1e-6])));
            run
        })
        .collect();
    let cases = |query: &Query| -> Vec<String> {
        lines(&runs, query).lines.iter().map(|line| line.series.case.clone()).collect()
    };
    assert_eq!(cases(&query()), ["sort/n=10", "sort/n=20"]);
    let axis = |value: &str| Query { axes: BTreeMap::from([("n".into(), value.into())]), ..query() };
    assert_eq!(cases(&axis("20")), ["sort/n=20"]);
    assert_eq!(cases(&axis("1e1,20")), ["sort/n=10", "sort/n=20"]);
    assert_eq!(cases(&Query { case: Some("sort/n=20".into()), ..query() }), ["sort/n=20"]);
    let more: Vec<Fake> = [9, 100, 1000].map(|n| Fake::new(n as u64).sort(n, "fast", &[1e-6])).into();
    let found: Vec<String> = lines(&more, &query()).lines.iter().map(|line| line.series.case.clone()).collect();
    assert_eq!(found, ["sort/n=9", "sort/n=100", "sort/n=1000"], "by number");
    // A reference within the same workload is at the row's case.
    let pinned = Some(Reference { case: "sort".into(), implementation: "plain".into() });
    let own = lines(&runs, &Query { reference: pinned, ..query() });
    let references: Vec<_> = own.lines.iter().map(|line| line.reference.as_deref().unwrap()).collect();
    assert_eq!(references, ["sort/n=10:plain", "sort/n=20:plain"]);
    for (query, parts) in [
        (axis("30"), ["n: ", "one of 10, 20"]),
        (
            Query { axes: BTreeMap::from([("m".into(), "1".into())]), ..query() },
            ["m: no run of sort has this axis", "one of n"],
        ),
        (Query { workload: "sorts".into(), ..query() }, ["sorts", "did you mean sort?"]),
        (Query { implementation: "fats".into(), ..query() }, ["fats", "one of fast, plain"]),
        (Query { case: Some("sort/n=11".into()), ..query() }, ["sort/n=11", "did you mean sort/n=10?"]),
        (
            Query { reference: Some(Reference { case: "copy".into(), implementation: "plain".into() }), ..query() },
            ["2 cases match", "copy/n=1:plain"],
        ),
        (
            Query {
                reference: Some(Reference { case: "sort/n=11".into(), implementation: "plain".into() }),
                ..query()
            },
            ["no run measured sort/n=11:plain", "such as sort/n=10:plain, sort/n=20:plain"],
        ),
        (
            Query { reference: Some(Reference { case: "copy".into(), implementation: "x".into() }), ..query() },
            ["reference: ", "no run measured copy:x"],
        ),
    ] {
        let error = refused(&runs, &query);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}\n{parts:?}");
    }
}

fn export(format: Export, run: Option<&str>) -> String {
    let runs = [Fake::new(1).sort(10, "plain", &[2e-6, 2e-6]), Fake::new(2).sort(10, "plain", &[4e-6, 4e-6])];
    let mut out = Vec::new();
    let count = with(&runs, |store| format.write(store, run, &mut out).unwrap().unwrap());
    assert_eq!(count, if format == Export::Bmf || run.is_some() { 1 } else { 2 });
    String::from_utf8(out).unwrap()
}

#[test]
fn exports_hold_every_measurement() {
    let jsonl = export(Export::Jsonl, None);
    let rows: Vec<serde_json::Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows[1]["run"].as_str(), rows[1]["axes"]["n"].as_str()), (Some("run-0002"), Some("10")));
    assert!((rows[1]["seconds"].as_f64().unwrap() - 4e-6).abs() < 1e-15);
    let csv = export(Export::Csv, Some("run-0001"));
    let mut table = csv::Reader::from_reader(csv.as_bytes());
    let at = table.headers().unwrap().iter().position(|name| name == "seconds").unwrap();
    let seconds: Vec<f64> = table.records().map(|row| row.unwrap()[at].parse().unwrap()).collect();
    assert!(seconds.len() == 1 && (seconds[0] - 2e-6).abs() < 1e-15, "{csv}");
    let mut table = csv::Reader::from_reader(csv.as_bytes());
    let at = table.headers().unwrap().iter().position(|name| name == "axes").unwrap();
    assert_eq!(&table.records().next().unwrap().unwrap()[at], "{\"n\":\"10\"}");
    let bmf: serde_json::Value = serde_json::from_str(&export(Export::Bmf, None)).unwrap();
    let latency = &bmf["sort/n=10:plain"]["latency"];
    assert!((latency["value"].as_f64().unwrap() - 4000.0).abs() < 1e-6, "the newest run, in nanoseconds: {bmf}");
    assert!(latency["lower_value"].as_f64().unwrap() <= 4000.0 && latency["upper_value"].as_f64().unwrap() >= 4000.0);
    assert_eq!(EXPORTS.map(|(name, _)| name), ["jsonl", "csv", "bmf"]);
}

#[test]
fn runs_without_the_reference_are_counted_and_not_looked_at() {
    let slow = |n| if n >= 20 { 1.5 } else { 1.0 };
    let mut runs = series(20, |_| 1.0, slow);
    runs.extend((20..40).map(|n| Fake::new(n).sort(10, "fast", &[1.5e-6, 1.5e-6])));
    let trend = lines(&runs, &query());
    let without = trend.lines[0].without_ratio.as_ref().unwrap();
    assert_eq!((without.runs, without.newest), (20, true));
    assert_eq!(without.why, "no command measured both it and plain");
    assert!(trend.lines[0].changes.is_empty());
    assert!(lines(&runs[..20], &query()).lines[0].without_ratio.is_none());
}

#[test]
fn later_runs_that_failed_are_counted() {
    let mut runs = series(20, |_| 1.0, |_| 1.0);
    assert_eq!(lines(&runs, &query()).lines[0].failed_since, None);
    let failed = |n| Fake::new(n).sort(10, "plain", &[2e-6, 2e-6]).sort(10, "fast", &[]);
    runs.remove(5);
    runs.extend([failed(5), failed(20), failed(21)]);
    let trend = lines(&runs, &query());
    assert_eq!(trend.lines[0].points.len(), 19);
    assert_eq!(trend.lines[0].failed_since, Some(2));
}
