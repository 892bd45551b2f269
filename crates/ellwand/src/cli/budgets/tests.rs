//! What a budget file may say, and what its budgets say about results.

use std::path::Path;

use ellwand_core::record::Sample;
use ellwand_core::{Axis, Better, Implementation, Parallelism, PrepareError, Reading, Registry, Value};

use super::judge::bytes;
use super::quantity::Limit;
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
    registry.implementation(Implementation::cpu("rms-norm", "odd", "", |_, _, _| Err(PrepareError::Failed("".into()))));
    registry
}

fn read(text: &str) -> Result<Budgets, String> {
    file::parse(&registry(), Path::new("p/ellwand.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn every_slip_is_told_with_its_line() {
    for (text, parts) in [
        ("[[budget]\n", &["ellwand.toml line 1"][..]),
        ("binary_size = 20\n", &["line 1", "text with a unit, not an integer", "64 MB"]),
        ("binary_size = \"20 MBs\"\n", &["line 1", "'MBs' is no unit"]),
        ("binary-size = \"20 MB\"\n", &["line 1", "'binary-size' is no key", "did you mean binary_size?"]),
        ("budget = 3\n", &["line 1", "no list of tables", "[[budget]]"]),
        ("[budget]\ntime = \"1 s\"\n", &["no list of tables", "[[budget]]"]),
        ("\n[[budget]]\ntime = \"2 ms\"\n", &["line 2", "names no workload"]),
        ("[[budget]]\nworkload = \"layer-norm\"\n", &["line 1", "limits nothing", "time = "]),
        ("[[budget]]\nworklod = \"layer-norm\"\ntime = \"2 ms\"\n", &["line 2", "did you mean workload?"]),
        ("[[budget]]\nworkload = 3\ntime = \"2 ms\"\n", &["line 2", "no text"]),
        ("[[budget]]\nworkload = \"layer-nrom\"\ntime = \"2 ms\"\n", &["line 2", "did you mean layer-norm?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nimplementation = \"smid\"\n", &["line 3", "did you mean simd?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nbatchs = 3\n", &["line 3", "'batchs'", "did you mean batch?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\npeak-memory = \"1 B\"\n", &["line 3", "did you mean peak_memory?"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nbatch = 0\n", &["line 3", "batch: 0 is too small"]),
        ("[[budget]]\nworkload = \"layer-norm\"\nbatch = [1, 2]\n", &["line 3", "one value, not an array"]),
        ("[[budget]]\nworkload = \"layer-norm\"\norder = \"row\"\n", &["line 3", "did you mean rows?"]),
        ("[[budget]]\nworkload = \"*-norm\"\nbatch = 3\ntime = \"1 s\"\n", &["line 3", "no axis of rms-norm"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ntime = \"2\"\n", &["line 3", "no unit", "0.4 ns/item"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ntime = 2\n", &["line 3", "not an integer"]),
        ("[[budget]]\nworkload = \"layer-norm\"\ntime = \"1 s\"\ntime = \"2 s\"\n", &["line 4"]),
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

/// Slots of these many microseconds an iteration, one list a process.
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
    let value = |axis: &str| (axis == "batch").then_some(Value::Int(16));
    let subject = Subject {
        workload: "layer-norm",
        value: &value,
        implementation: "simd",
        parallelism: Parallelism::Single,
        items: 100,
        samples,
        readings,
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
    // Over by 2 % while the processes differ by as much.
    one("98 us", &steady, State::Open, &["over by 2.04 %", "so few processes", "--blocks 6"]);
    // The same 2 % over many processes that agree.
    let sure = samples(&[&[100.0, 100.1][..]; 12]);
    one("98 us", &sure, State::Broken, &["12 processes", "over by 2.09 %"]);
    one("1 us/item", &steady, State::Kept, &["time 1.00 µs an item", "budget 1.00 µs an item"]);
    one("0.5 us/item", &steady, State::Broken, &["an item"]);
    let single = samples(&[&[100.0, 100.0]]);
    one("50 us", &single, State::Open, &["not judged: one process", "--blocks"]);
    let tiny = samples(&[&[0.001, 0.001], &[0.001, 0.001]]);
    one("3 ns", &tiny, State::Kept, &["below resolution (2.00 ns)"]);
    one("1 ns", &tiny, State::Open, &["below resolution"]);
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
        // Nobody asked for this one by name, so that its absence is no finding.
        let named = usize::from(count == 1 && more.starts_with("impl"));
        assert_eq!(verdicts(&text, Err("unsupported"), &[]).len(), named, "{more}");
    }
    let twice =
        "[[budget]]\nworkload = \"*\"\ntime = \"1 us\"\n[[budget]]\nworkload = \"layer-norm\"\ntime = \"1 s\"\n";
    let both = verdicts(twice, Ok(&steady), &[]);
    assert_eq!(both.iter().map(|(state, _)| *state).collect::<Vec<_>>(), [State::Broken, State::Kept]);
}

#[test]
fn memory_that_was_not_read_is_neither_kept_nor_broken() {
    let text = "[[budget]]\nworkload = \"layer-norm\"\npeak_memory = \"64 MB\"\n";
    let read = |value| Reading::measured("peak-memory", "peak memory", "B", Better::Lower, value, "");
    let none = Reading::unavailable("peak-memory", "peak memory", "B", Better::Lower, "no /proc here");
    let said = |readings: &[Reading]| verdicts(text, Ok(&[]), readings).remove(0);
    assert_eq!(said(&[read(64e6)]).0, State::Kept);
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
