//! The syntax of a budget file, and the results of its budgets.

use std::path::Path;

use ellwand_core::record::Sample;
use ellwand_core::{Axis, Better, Implementation, Parallelism, PrepareError, Reading, Registry, Value};

use super::quantity::Limit;
use super::values::bytes;
use super::*;
use crate::suite;

fn registry() -> Registry {
    let norm = suite("layer-norm")
        .axis(Axis::int("batch", "rows", 1, 1 << 20, 16).alias(&["batch-size"]))
        .axis(Axis::choice("order", "order of reading", &["rows", "columns"], "rows"))
        .input(|_, _| 0_u8)
        .implementation("simd", |x| *x)
        .implementation("simple", |x| *x);
    let mut registry = Registry::from(norm);
    suite("rms-norm").input(|_, _| 0_u8).implementation("simd", |x| *x).register(&mut registry);
    let groups = Axis::int("groups", "groups of channels", 1, 64, 8);
    suite("group-norm").axis(groups).input(|_, _| 0_u8).implementation("simd", |x| *x).register(&mut registry);
    registry.implementation(Implementation::cpu("rms-norm", "odd", "", |_, _, _| Err(PrepareError::Failed("".into()))));
    registry
}

fn read(text: &str) -> Result<Budgets, String> {
    file::parse(&registry(), Path::new("p/ellwand.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn every_error_in_the_file_is_reported_with_its_line() {
    for (text, parts) in [
        ("[[budget]\n", &["ellwand.toml line 1"][..]),
        ("binary_size = 20\n", &["line 1", "text with a unit, not an integer", "64 MB"]),
        ("binary_size = \"20 MBs\"\n", &["line 1", "'MBs' is not a unit"]),
        ("binary-size = \"20 MB\"\n", &["line 1", "'binary-size' is not a key", "did you mean binary_size?"]),
        ("budget = 3\n", &["line 1", "not a list of tables", "[[budget]]"]),
        ("[budget]\ntime = \"1 s\"\n", &["not a list of tables", "[[budget]]"]),
        ("\n[[budget]]\ntime = \"2 ms\"\n", &["line 2", "names no workload"]),
        ("[[budget]]\nworkload = \"layer-norm\"\n", &["line 1", "limits nothing", "time = "]),
        ("[[budget]]\nworklod = \"layer-norm\"\ntime = \"2 ms\"\n", &["line 2", "did you mean workload?"]),
        ("[[budget]]\nworkload = 3\ntime = \"2 ms\"\n", &["line 2", "not text"]),
        ("[[budget]]\nworkload = \"layer-nrom\"\ntime = \"2 ms\"\n", &["line 2", "did you mean layer-norm?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nimplementation = \"smid\"\n", &["line 3", "did you mean simd?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nbatchs = 3\n", &["line 3", "'batchs'", "did you mean batch?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\npeak-memory = \"1 B\"\n", &["line 3", "did you mean peak_memory?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nbatch = 0\n", &["line 3", "batch: 0 is too small"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nbatch = [1, 2]\n", &["line 3", "one value, not an array"]),
        ("[[budget]]\nworkload = \"layer-norm\"\norder = \"row\"\n", &["line 3", "did you mean rows?"]),
        ("[[budget]]\nworkload = \"rms-norm\"\nbatch = 3\ntime = \"1 s\"\n", &["line 3", "no axis of rms-norm"]),
        ("[[budget]]\nworkload = \"*-norm\"\nbatchs = 3\n", &["no axis of *-norm", "did you mean batch?"]),
        ("[[budget]]\nworkload = \"*-norm\"\nbatch = 3\ngroups = 8\n", &["line 1", "'*-norm' has all these axes"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ntime = \"2\"\n", &["line 3", "no unit", "0.4 ns/item"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ntime = 2\n", &["line 3", "not an integer"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ntime = \"1 s\"\ntime = \"2 s\"\n", &["line 4"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nthroughput = \"9 k\"\n", &["line 3", "end with '/s'", "100 k/s"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nspeedup = 2\n", &["line 3", "not an integer", "\"2x\""]),
        ("[[budget]]\nworkload = \"layer-norm\"\nspeed-up = \"2x\"\n", &["line 3", "did you mean speedup?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ncompression = 4\n", &["line 3", "at_least = { compression = 4 }"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nat_least = 4\n", &["line 3", "by name, not by an integer"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nat_most = { mse = \"1\" }\n", &["line 3", "'mse' is a string"]),
    ] {
        let error = read(text).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{text:?} does not say '{part}': {error}");
        }
    }
}

#[test]
fn a_file_in_order_is_read() {
    let text = "# budgets\nbinary_size = \"20 MB\"\n\n[[budget]]\nworkload = \"layer-norm\"\nimplementation = \"sim*\"\nbatch-size = 16\norder = \"columns\"\ntime = \"2 ms\"\npeak_memory = \"64 MiB\"\n[[budget]]\nworkload = \"*\"\ntime = \"3 ns/item\"\n";
    let budgets = read(text).unwrap();
    assert_eq!(budgets.binary_size, Some(Limit { value: 20e6, per_item: false }));
    assert!(budgets.ask_for_memory());
    let first = &budgets.rows[0];
    assert_eq!((first.line, first.implementation.as_deref()), (4, Some("sim*")));
    let mut axes = first.axes.clone();
    axes.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(axes[0], ("batch".into(), Value::Int(16), None));
    assert_eq!(axes[1], ("order".into(), Value::Text("columns".into()), None));
    assert_eq!(budgets.rows[1].time, Some(Limit { value: 3.0 * 1e-9, per_item: true }));
    let empty = read("").unwrap();
    assert!(empty.rows.is_empty() && !empty.ask_for_memory());
}

/// Slots with these microseconds per iteration, one list per process.
fn samples(blocks: &[&[f64]]) -> Vec<Sample> {
    let sample = |(block, us): (usize, &f64)| Sample {
        block: block as u32,
        iterations: 10,
        wall_ns: (us * 1e4 * 1.5) as u64,
        parts: Some(5),
        fastest_ns: Some((us * 2e3) as u64),
        ..Sample::default()
    };
    blocks.iter().enumerate().flat_map(|(block, slots)| slots.iter().map(move |us| sample((block, us)))).collect()
}

fn verdicts(text: &str, samples: Result<&[Sample], &str>, readings: &[Reading]) -> Vec<(State, String)> {
    over(text, samples, readings, None)
}

fn over(
    text: &str,
    samples: Result<&[Sample], &str>,
    readings: &[Reading],
    baseline: Option<(&str, Result<&[Sample], &str>)>,
) -> Vec<(State, String)> {
    let value = |axis: &str| (axis == "batch").then_some(Value::Int(16));
    let parallelism = Parallelism::Single;
    let subject = Subject {
        workload: "layer-norm",
        value: &value,
        implementation: "simd",
        parallelism,
        items: 100,
        samples,
        readings,
        baseline: baseline.map(|(name, samples)| Baseline { name, parallelism, samples }),
        resolution_s: Some(2e-9),
    };
    let verdicts = read(text).unwrap().judge("case simd", &subject);
    verdicts.into_iter().map(|verdict| (verdict.judged.state, verdict.line())).collect()
}

#[track_caller]
fn one(limit: &str, samples: &[Sample], state: State, parts: &[&str]) {
    let text = format!("[[budget]]\nworkload = \"layer-norm\"\nbatch = 16\ntime = \"{limit}\"\n");
    let said = verdicts(&text, Ok(samples), &[]);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0, state, "{limit}: {}", said[0].1);
    for part in parts {
        assert!(said[0].1.contains(part), "{limit} does not say '{part}': {}", said[0].1);
    }
}

#[test]
fn a_time_breaks_its_budget_only_beyond_the_noise() {
    let steady = samples(&[&[100.0, 100.0, 900.0], &[101.0, 101.0], &[99.0, 99.0]]);
    one("110 us", &steady, State::Kept, &["time 100 µs an iteration", "3 processes", "budget 110 µs"]);
    one("50 us", &steady, State::Broken, &["budget 50.0 µs: over by 100", "ellwand.toml line 1"]);
    // 2 % over the budget, while the processes differ by as much.
    one("98 us", &steady, State::Open, &["over by 2.04 %", "so few processes", "--blocks 6"]);
    // The same 2 % with many processes that agree.
    let sure = samples(&[&[100.0, 100.1][..]; 12]);
    one("98 us", &sure, State::Broken, &["12 processes", "over by 2.09 %"]);
    one("1 us/item", &steady, State::Kept, &["time 1.00 µs an item", "budget 1.00 µs an item"]);
    one("0.5 us/item", &steady, State::Broken, &["an item"]);
    let single = samples(&[&[100.0, 100.0]]);
    one("50 us", &single, State::Open, &["not judged: one process", "--blocks"]);
    // Two processes that differ by 1 %: an interval from 73 to 137 us would only confuse.
    let two = samples(&[&[100.0], &[101.0]]);
    one("98 us", &two, State::Open, &["(2 processes, which give no useful interval; ", "over by 2.55 %", "--blocks 6"]);
    one("110 us", &two, State::Kept, &["no useful interval"]);
    let equal = samples(&[&[100.0], &[100.1]]);
    one("50 us", &equal, State::Broken, &["99 % interval 96.9 µs to 103 µs, 2 processes"]);
    let tiny = samples(&[&[0.001, 0.001], &[0.001, 0.001]]);
    one("3 ns", &tiny, State::Kept, &["below resolution (2.00 ns)"]);
    one("1 ns", &tiny, State::Open, &["below resolution"]);
}

#[test]
fn a_rate_and_a_speedup_are_short_of_their_budgets_only_beyond_the_noise() {
    // 100 items in 100 us.
    let steady = samples(&[&[100.0, 100.0, 900.0], &[101.0, 101.0], &[99.0, 99.0]]);
    let slow = samples(&[&[200.0, 200.0], &[203.0, 203.0], &[197.0, 197.0]]);
    let budget = |limit: &str| format!("[[budget]]\nworkload = \"layer-norm\"\n{limit}\n");
    for (limit, state, part) in [
        ("throughput = \"0.9 M/s\"", State::Kept, "throughput 1.00 M/s (99 % interval"),
        ("throughput = \"2 M/s\"", State::Broken, "budget at least 2.00 M/s: short by 50.0 %"),
        ("throughput = \"1.01 M/s\"", State::Open, "so few processes"),
        ("speedup = \"1.5x\"", State::Kept, "speed-up 2.00x (99 % interval"),
        ("speedup = \"3x\"", State::Broken, "over simple), budget at least 3.00x: short by 33.3 %"),
        ("speedup = \"2.005x\"", State::Open, "short by 0.2"),
    ] {
        let said = over(&budget(limit), Ok(&steady), &[], Some(("simple", Ok(&slow))));
        assert_eq!((said.len(), said[0].0), (1, state), "{limit}: {}", said[0].1);
        assert!(said[0].1.contains(part), "{limit} does not say '{part}': {}", said[0].1);
    }
    let speedup = budget("speedup = \"3x\"");
    let lost = over(&speedup, Ok(&steady), &[], Some(("simple", Err("wrong"))));
    assert!(lost[0].0 == State::Open && lost[0].1.contains("its baseline simple is wrong"), "{}", lost[0].1);
    // The baseline has no speed-up, and neither has a side of a comparison.
    assert!(over(&speedup, Ok(&steady), &[], Some(("simd", Ok(&steady)))).is_empty());
    assert!(verdicts(&speedup, Ok(&steady), &[]).is_empty());
    let named = budget("implementation = \"simd\"\nspeedup = \"3x\"\nthroughput = \"1 k/s\"\nat_least = { snr = 3 }");
    let unsupported = verdicts(&named, Err("unsupported"), &[]);
    assert_eq!(unsupported.iter().filter(|(state, _)| *state == State::Open).count(), 3);
    let tiny = samples(&[&[0.001, 0.001], &[0.001, 0.001]]);
    assert_eq!(verdicts(&budget("throughput = \"1 M/s\""), Ok(&tiny), &[])[0].0, State::Kept);
    assert_eq!(over(&speedup, Ok(&tiny), &[], Some(("simple", Ok(&slow))))[0].0, State::Open);
}

#[test]
fn a_speedup_is_of_one_clock() {
    let slots = |wall_ns: u64, cpu_ns: u64, waits: u64| -> Vec<Sample> {
        let slot = |block| Sample {
            block,
            iterations: 1,
            wall_ns,
            cpu_ns: Some(cpu_ns),
            others_ns: Some(0),
            switches: Some(1),
            waits: Some(waits),
            ..Sample::default()
        };
        (0..6).flat_map(|block| [slot(block); 4]).collect()
    };
    // Another program takes half of the processor from both: 4 ms and 2 ms of CPU time. The second also waits, so its
    // elapsed time is reported.
    let (base, own) = (slots(8_000_000, 4_000_000, 0), slots(4_000_000, 2_000_000, 1));
    let speedup = "[[budget]]\nworkload = \"layer-norm\"\nspeedup = \"1.9x\"\n";
    let said = over(speedup, Ok(&own), &[], Some(("simple", Ok(&base)))).remove(0);
    assert!(said.0 == State::Kept && said.1.contains("speed-up 2.00x"), "{}", said.1);
    assert!(said.1.contains("over simple, elapsed time of both)"), "{}", said.1);
    let same = over(speedup, Ok(&own), &[], Some(("simple", Ok(&slots(8_000_000, 4_000_000, 1))))).remove(0);
    assert!(same.1.contains("over simple)"), "{}", same.1);
    // Below a millisecond the fastest parts of slots exclude the other program, as the table assumes: 4 ms over 0.5 ms.
    let short = over(speedup, Ok(&slots(500_000, 250_000, 1)), &[], Some(("simple", Ok(&base)))).remove(0);
    assert!(short.1.contains("speed-up 8.00x") && short.1.contains("over simple)"), "{}", short.1);
}

#[test]
fn a_reading_has_bounds_and_one_that_is_missing_is_no_kept_budget() {
    let readings = [
        Reading::measured("compression", "compression", "x", Better::Higher, 6.4, ""),
        Reading::measured("mse", "error", "", Better::Lower, 0.25, ""),
        Reading::unavailable("snr", "snr", "dB", Better::Higher, "no error"),
    ];
    let one = |bound: &str| {
        let text = format!("[[budget]]\nworkload = \"layer-norm\"\n{bound}\n");
        over(&text, Ok(&[]), &readings, Some(("simple", Err("failed")))).remove(0)
    };
    for (bound, state, part) in [
        ("at_least = { compression = 4 }", State::Kept, "compression 6.40x, budget at least 4.00x"),
        ("at_least = { compression = 8.0 }", State::Broken, "short by 20.0 %"),
        ("at_most = { mse = 0.2 }", State::Broken, "over by 25.0 %"),
        ("at_most = { mse = 0.25 }", State::Kept, "budget"),
        ("at_least = { snr = 3 }", State::Open, "no error"),
        ("at_least = { compresion = 4 }", State::Unmatched, "did you mean compression?"),
        ("at_least = { size = 4 }", State::Unmatched, "it has compression, mse, snr"),
    ] {
        let (found, line) = one(bound);
        assert_eq!(found, state, "{bound}: {line}");
        assert!(line.contains(part), "{bound} does not say '{part}': {line}");
    }
    // A comparison does not read these readings.
    let text = "[[budget]]\nworkload = \"layer-norm\"\nat_least = { size = 4 }\n";
    assert!(verdicts(text, Ok(&[]), &readings).is_empty());
}

#[test]
fn only_what_fits_is_judged() {
    let steady = samples(&[&[100.0, 100.0], &[101.0, 101.0]]);
    for (more, count) in [
        ("", 1),
        ("batch = 16\n", 1),
        ("batch = 17\n", 0),
        ("implementation = \"simd\"\n", 1),
        ("implementation = \"s*\"\n", 1),
        ("implementation = \"simple\"\n", 0),
    ] {
        let text = format!("[[budget]]\nworkload = \"layer-norm\"\n{more}time = \"2 ms\"\n");
        assert_eq!(verdicts(&text, Ok(&steady), &[]).len(), count, "{more}");
        // This one was not named, so its absence is no finding.
        let named = usize::from(count == 1 && more.starts_with("impl"));
        assert_eq!(verdicts(&text, Err("unsupported"), &[]).len(), named, "{more}");
    }
    let twice =
        "[[budget]]\nworkload = \"*\"\ntime = \"1 us\"\n[[budget]]\nworkload = \"layer-norm\"\ntime = \"1 s\"\n";
    let both = verdicts(twice, Ok(&steady), &[]);
    assert_eq!(both.iter().map(|(state, _)| *state).collect::<Vec<_>>(), [State::Broken, State::Kept]);
}

#[test]
fn a_pattern_is_about_the_workloads_that_have_its_axes() {
    let budgets = read("[[budget]]\nworkload = \"*-norm\"\nbatch = 16\ntime = \"2 ms\"\n").unwrap();
    let about = |workload: &str| budgets.rows[0].is_about(workload, "simd");
    assert_eq!(["layer-norm", "rms-norm", "group-norm"].map(about), [true, false, false]);
    // A workload without the axis is no finding either.
    assert!(budgets.unmatched(&[("rms-norm", "simd")], &[]).is_empty());
    assert_eq!(budgets.unmatched(&[("layer-norm", "simd")], &[]).len(), 1);
}

#[test]
fn memory_that_was_not_read_is_neither_kept_nor_broken() {
    let text = "[[budget]]\nworkload = \"layer-norm\"\npeak_memory = \"64 MB\"\n";
    let read = |value| Reading::measured("peak-memory", "peak memory", "B", Better::Lower, value, "");
    let none = Reading::unavailable("peak-memory", "peak memory", "B", Better::Lower, "no /proc here");
    let said = |readings: &[Reading]| verdicts(text, Ok(&[]), readings).remove(0);
    assert_eq!(said(&[read(64e6)]).0, State::Kept);
    for value in [0.0, 290_800.0] {
        let (state, line) = said(&[read(value)]);
        assert!(state == State::Kept && line.contains("peak memory less than 1.00 MiB, budget 64.00 MB"), "{line}");
    }
    let small = text.replace("64 MB", "300 kB");
    let notes = |text: &str| super::file::parse(&registry(), Path::new("e.toml"), text).unwrap().notes();
    assert!(notes(text).is_empty() && notes(&text.replace("64 MB", "1 MiB")).is_empty());
    let [note] = &notes(&small)[..] else { panic!("no note") };
    assert!(note.contains("e.toml line 1: this peak_memory can be broken but never kept"), "{note}");
    for value in [0.0, 323_600.0] {
        let (state, line) = verdicts(&small, Ok(&[]), &[read(value)]).remove(0);
        assert!(state == State::Open && line.contains("less than 1.00 MiB is not resolved"), "{line}");
    }
    assert_eq!(verdicts(&small, Ok(&[]), &[read(2e6)]).remove(0).0, State::Broken);
    let (state, line) = said(&[read(96e6)]);
    assert_eq!(state, State::Broken);
    assert!(line.contains("peak memory 96.00 MB, budget 64.00 MB: over by 50.0 %"), "{line}");
    let (state, line) = said(&[none]);
    assert!(state == State::Open && line.contains("no /proc here"), "{line}");
    assert_eq!(said(&[]).0, State::Open);
}

#[test]
fn a_program_has_a_size() {
    let budgets = read("binary_size = \"1 kB\"\n").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("tool");
    std::fs::write(&program, vec![0_u8; 1500]).unwrap();
    let verdict = budgets.judge_program(&program).unwrap();
    assert_eq!(verdict.line(), "tool: binary size 1.500 kB, budget 1.000 kB: over by 50.0 % (ellwand.toml)");
    assert!(broken(&[verdict]));
    assert_eq!(bytes("x", 1000.0, Limit { value: 1000.0, per_item: false }).state, State::Kept);
    let gone = budgets.judge_program(&dir.path().join("gone")).unwrap();
    assert_eq!(gone.judged.state, State::Open);
    assert_eq!(read("").unwrap().judge_program(&program), None);
}
