//! A million rows: 1000 runs of 1000 measurements. Prints how long a user waits; asserts the results. `cargo test
//! --release -p ellwand-history --test million -- --ignored --nocapture`
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::Fake;
use ellwand_history::{INDEX, Query, Store, trend};

const RUNS: u64 = 1000;
const CASES: i64 = 500;

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Run `n`: two implementations at each case, three processes each. Noise of 1 %; `fast` takes 3 % longer from run 700.
fn run(n: u64) -> Fake {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + 0.01 * ((state >> 40) as f64 / (1_u64 << 23) as f64 - 1.0)
    };
    let code = if n >= 700 { 1.03 } else { 1.0 };
    (0..CASES).fold(Fake::new(n), |fake, case| {
        let [a, b, c] = [noise(), noise(), noise()];
        fake.sort(case, "plain", &[2e-3 * noise(), 2e-3 * noise(), 2e-3 * noise()]).sort(
            case,
            "fast",
            &[1e-3 * a * code, 1e-3 * b * code, 1e-3 * c * code],
        )
    })
}

#[test]
#[ignore = "prints times, and makes 400 MB of records"]
fn a_million_rows() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("store");
    std::fs::create_dir(&folder).unwrap();
    let mut bytes = 0;
    for n in 0..RUNS {
        let text = run(n).text();
        bytes += text.len();
        std::fs::write(folder.join(format!("run-{n:04}.jsonl")), text).unwrap();
    }
    let rows = RUNS * 2 * CASES.unsigned_abs();
    let (store, took) = timed(|| Store::open(&folder, false).unwrap());
    drop(store);
    let size = std::fs::metadata(folder.join(INDEX)).unwrap().len();
    println!(
        "index of {rows} rows from {RUNS} records of {} KB: {took:.1?}, {:.0} rows/s, {} MB",
        bytes / 1000 / RUNS as usize,
        rows as f64 / took.as_secs_f64(),
        size / 1_000_000
    );
    let query = Query {
        workload: "sort".into(),
        case: None,
        implementation: "fast".into(),
        axes: BTreeMap::from([("n".into(), "250".into())]),
        machine: None,
        reference: None,
        across_machines: false,
        rope: 0.01,
    };
    for round in ["first", "second", "third"] {
        let (mut store, opened) = timed(|| Store::open(&folder, false).unwrap());
        let (found, took) = timed(|| trend(&mut store, &query).unwrap());
        let changes: Vec<usize> = found.lines[0].changes.iter().map(|change| change.point).collect();
        println!(
            "{round}: open {opened:.1?}, trend of {} runs {took:.1?}, changes at {changes:?}",
            found.lines[0].points.len()
        );
        assert!(changes.len() == 1 && changes[0].abs_diff(700) <= 2, "{changes:?}");
    }
    let ten = Query { axes: BTreeMap::from([("n".into(), "0,1,2,3,4,5,6,7,8,9".into())]), ..query };
    let mut store = Store::open(&folder, false).unwrap();
    let (found, took) = timed(|| trend(&mut store, &ten).unwrap());
    println!("trend of {} cases with {RUNS} runs each: {took:.1?}", found.lines.len());
    let (added, took) = timed(|| {
        let more = run(RUNS);
        let path = more.write(dir.path());
        store.add(&path, &more.record()).unwrap()
    });
    println!("one more run: {added:?}, {took:.1?} with making and reading its record");
}
