//! Results as values.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ellwand::{
    Axis, BenchmarkOptions, Effort, benchmark_function, black_box, identify_bottleneck, measure_memory_usage, suite,
};

fn sums() -> ellwand::Registry {
    let sums = suite("sum")
        .axis(Axis::int("n", "numbers", 1, 1 << 20, 1000))
        .input(|case, _| (0..case.usize("n") as u64).collect::<Vec<_>>())
        .implementation("fold", |numbers| numbers.iter().fold(0_u64, |sum, x| sum ^ (sum << 1) ^ x))
        .implementation("loop", |numbers| {
            let mut sum = 0_u64;
            for x in numbers {
                sum ^= (sum << 1) ^ x;
            }
            sum
        })
        .implementation("wrong", |numbers| numbers.len() as u64);
    sums.into()
}

#[test]
fn rows_samples_and_findings_are_values() {
    let results = ellwand::measure(sums()).axis("n", "500,2000").effort(Effort::Quick).seed(3).run().unwrap();
    assert_eq!(results.rows().count(), 6);
    for row in results.rows().filter(|row| row.implementation != "wrong") {
        let samples = results.samples(row);
        assert_eq!(samples.len(), row.samples, "{}", row.case);
        let fastest = samples.iter().map(|s| s.wall_ns as f64 / s.iterations as f64).fold(f64::INFINITY, f64::min);
        assert!(row.median("time").is_some_and(|time| time > 0.0) && fastest > 0.0 && !samples.is_empty());
    }
    let wrong = results.row("sum", "wrong").unwrap();
    assert_eq!((wrong.status.word, results.samples(wrong).len()), ("wrong", 0));
    assert_eq!(results.record.run.seed, 3);
    // As for a record that is read back.
    assert!(results.findings().len() == results.report.findings.len());
    let table = results.text("table").unwrap();
    assert!(table.contains("fold") && table.contains("2000"), "{table}");
    assert!(results.text("junit").unwrap_err().to_string().contains("'junit' exists only on the command line"));
    assert!(results.text("picture").unwrap_err().to_string().contains("'picture' is unknown"));
}

#[test]
fn an_axis_of_numbers_may_be_zero() {
    let clip = || {
        suite("clip")
            .axis(Axis::float("noise", "share of noise", 0.0, 1.0, 0.5))
            .input(|case, _| case.f64("noise"))
            .implementation("plain", |noise| (0..1000).fold(*noise, |sum, x| black_box(sum + f64::from(x))))
    };
    let results = ellwand::measure(clip()).axis("noise", "0,0.25").effort(Effort::Quick).run().unwrap();
    let cases: Vec<&str> = results.record.measurements.iter().map(|one| one.case.id.as_str()).collect();
    assert_eq!(cases, ["clip/noise=0", "clip/noise=0.25"]);
    let error = ellwand::measure(clip()).axis("noise", 1.5).run().err().unwrap().to_string();
    assert!(error.contains("1.5 is too large; expected a number from 0 to 1"), "{error}");
}

#[test]
fn the_last_value_of_an_axis_counts_by_any_of_its_names() {
    let echo = || {
        suite("echo")
            .axis(Axis::int("n", "numbers", 1, 100, 1).alias(&["numbers"]))
            .input(|case, _| case.usize("n"))
            .implementation("same", |n: &usize| *n)
    };
    let by = |first: &str, second: &str| {
        let results = ellwand::measure(echo()).axis(first, 5).axis(second, 7).effort(Effort::Quick).run();
        results.unwrap().rows().next().unwrap().case.clone()
    };
    assert_eq!((by("n", "numbers"), by("numbers", "n")), ("echo/n=7".into(), "echo/n=7".into()));
}

#[test]
fn names_select_and_unknown_ones_are_refused() {
    let results =
        ellwand::measure(sums()).workloads(["sum"]).implementations(["loop"]).effort(Effort::Quick).run().unwrap();
    assert_eq!(results.rows().map(|row| row.implementation.as_str()).collect::<Vec<_>>(), ["loop"]);
    let refused = |measure: ellwand::Measure| measure.run().unwrap_err().to_string();
    assert!(refused(ellwand::measure(sums()).workloads(["sun"])).contains("'sun' matches no workload"));
    assert!(refused(ellwand::measure(sums()).axis("m", 3)).starts_with("m: "));
    assert!(refused(ellwand::measure(sums()).implementations(["lop"])).contains("did you mean loop?"));
}

const QUICK: BenchmarkOptions = BenchmarkOptions { effort: Effort::Quick, calls: None };

#[test]
fn a_function_is_timed_with_the_requested_counts_and_its_answers_are_judged() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let counted = || {
        CALLS.fetch_add(1, Relaxed);
        (0..500_u64).map(black_box).sum::<u64>()
    };
    let timing = benchmark_function("sum", counted, BenchmarkOptions { calls: Some([2, 7]), ..QUICK }).unwrap();
    let row = timing.row().unwrap();
    let samples = timing.results.samples(row);
    assert!(timing.seconds > 0.0 && Some(timing.seconds) == row.median("time"));
    assert!(!samples.is_empty() && samples.iter().all(|sample| sample.iterations == 7));
    assert!(CALLS.load(Relaxed) >= 9 * samples.len() as u64, "two untimed and seven timed calls a slot");
    // Without counts, a slot contains as many calls as fill it.
    let usual = benchmark_function("sum", || (0..500_u64).map(black_box).sum::<u64>(), QUICK).unwrap();
    assert!(usual.results.samples(usual.row().unwrap()).iter().all(|sample| sample.iterations > 7));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let message = |result: Result<ellwand::Timing, ellwand::MeasureError>| result.unwrap_err().to_string();
    let fickle = message(benchmark_function("fickle", || NEXT.fetch_add(1, Relaxed), QUICK));
    assert!(fickle.starts_with("fickle was not measured: wrong: "), "{fickle}");
    let short = message(benchmark_function("short", || 1_u64, QUICK));
    assert!(short.starts_with("short is too short to measure: below resolution ("), "{short}");
    let broken = message(benchmark_function("broken", || -> u64 { panic!("no luck") }, QUICK));
    assert!(broken.contains("broken was not measured: failed: ") && broken.contains("no luck"), "{broken}");
    let none = message(benchmark_function("none", || 1, BenchmarkOptions { calls: Some([1, 0]), ..QUICK }));
    assert!(none.contains("at least 1 timed iteration"), "{none}");
}

#[test]
fn the_bottleneck_is_the_longest_of_the_fastest_rows() {
    let results = ellwand::measure(sums()).axis("n", "500,2000,900000").effort(Effort::Quick).run().unwrap();
    let found = identify_bottleneck(&results).unwrap();
    assert_eq!(found.row.number("n"), Some(900_000.0));
    let same_case = results.rows().filter(|row| row.case == found.row.case).filter_map(|row| row.median("time"));
    assert_eq!(found.seconds, same_case.fold(f64::INFINITY, f64::min));
    assert!((0.5..1.0).contains(&found.share), "{}", found.share);
    let wrong = ellwand::measure(sums()).implementations(["wrong"]).effort(Effort::Quick).run().unwrap();
    assert!(identify_bottleneck(&wrong).is_none());
}

#[test]
fn memory_without_the_allocator_is_unavailable_with_the_reason() {
    let mut called = false;
    let message = measure_memory_usage(|| called = true).unwrap_err().to_string();
    assert!(
        message.contains("counting allocator is not installed") && message.contains("#[global_allocator]"),
        "{message}"
    );
    assert!(!called);
}
