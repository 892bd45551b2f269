//! Worker processes that crash, hang, are killed, print rubbish, exit early or answer wrongly: each becomes a row with
//! the end of its stderr, the others are still measured, and no process is left behind.
//!
//! This program is its own worker (`worker`), a parent to be killed (`orphan`), and a worker that starts one (`nested`); otherwise it runs the tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod common;
#[path = "workers/late.rs"]
mod late;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{AddOne, settings};
use ellwand_bench::block::{Block, Known, Spec};
use ellwand_bench::measure::{Event, Instrument, Interrupted};
use ellwand_bench::plan::{Cell, Plan, Selection};
use ellwand_bench::probe::{PROBES, Probe};
use ellwand_bench::worker::{Asked, Checker, Host, Launch, Limits, Open, Worker, serve};
use ellwand_bench::{Blocks, Cpu};
use ellwand_core::record::{Measurement, Outcome, Settings};
use ellwand_core::{Device, DeviceError, DeviceKind, Implementation, Poison, Prepared, Registry, Tensor, Tensors};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

static NEVER: AtomicBool = AtomicBool::new(false);

type Test = (&'static str, fn());
const TESTS: &[Test] = &[
    ("blocks_are_merged_into_one_measurement", blocks_are_merged_into_one_measurement),
    ("whatever_a_worker_does_becomes_a_row", whatever_a_worker_does_becomes_a_row),
    ("a_failure_in_a_later_process_says_in_which", a_failure_in_a_later_process_says_in_which),
    ("a_program_that_is_not_ours_is_a_row", a_program_that_is_not_ours_is_a_row),
    ("a_check_survives_whatever_it_checks", a_check_survives_whatever_it_checks),
    ("a_check_looks_for_devices_once", a_check_looks_for_devices_once),
    ("an_interrupt_ends_a_hanging_worker", an_interrupt_ends_a_hanging_worker),
    ("each_block_has_fresh_processes", each_block_has_fresh_processes),
    ("a_worker_starts_no_worker", a_worker_starts_no_worker),
    ("a_killed_parent_takes_its_workers_along", a_killed_parent_takes_its_workers_along),
    ("the_reference_is_computed_once", the_reference_is_computed_once),
    ("what_starts_slowly_gets_fewer_processes", what_starts_slowly_gets_fewer_processes),
    ("a_slow_one_runs_three_times", a_slow_one_runs_three_times),
    ("a_given_time_ends_what_is_not_ready", late::a_given_time_ends_what_is_not_ready),
    ("who_uses_the_time_up_is_named", late::who_uses_the_time_up_is_named),
    ("a_check_that_hangs_is_ended_with_the_time", late::a_check_that_hangs_is_ended_with_the_time),
    ("a_slot_that_hangs_is_ended_with_the_time", late::a_slot_that_hangs_is_ended_with_the_time),
    ("a_stopped_process_is_named", late::a_stopped_process_is_named),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("worker") => {
            let host = Host { registry: &registry(), probes: PROBES, read_given: &|_| Ok(Tensors::new()) };
            serve(&host, &mut std::io::stdin().lock(), &mut std::io::stdout().lock()).unwrap();
        }
        Some("orphan") => orphan(),
        Some("nested") => println!("{}", Worker::spawn(&this(), 0).unwrap_err()),
        // A test runner lists twice: all tests, and the ignored ones; no test is ignored here.
        _ if args.iter().any(|arg| arg == "--ignored") => {}
        _ if args.iter().any(|arg| arg == "--list") => TESTS.iter().for_each(|(name, _)| println!("{name}: test")),
        _ => {
            let filter = args.iter().find(|arg| !arg.starts_with('-'));
            for (name, test) in TESTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter))) {
                test();
                assert_eq!(children(), BTreeSet::new(), "{name} left processes behind");
                println!("test {name} ... ok");
            }
        }
    }
}

/// What a toy does in each run. A misbehaving toy takes longer than a slot, so it runs twice for the check, twice to
/// find the slot shape, then once per slot: its fifth run is its first slot, its seventh the second check.
fn act(name: &str, runs: u64) -> f64 {
    let late = runs == 5;
    if !["steady", "other"].contains(&name) {
        std::thread::sleep(Duration::from_micros(30));
    }
    match name {
        "gone" => std::process::exit(0),
        "stuck" => std::thread::sleep(Duration::from_secs(1000)),
        "wrong" => return 0.5,
        "rotting" if runs > 6 => return 0.5,
        "lengthy" if runs > 3 => return 0.5,
        "lengthy" => std::thread::sleep(Duration::from_millis(120)),
        "fickle" if runs.is_multiple_of(2) => return 0.5,
        "panics" if late => panic!("out of luck\u{1b}[2J"),
        "aborts" if late => std::process::abort(),
        "exits" if late => {
            eprintln!("I have had enough");
            std::process::exit(3)
        }
        "killed" if late => drop(Command::new("kill").args(["-9", &std::process::id().to_string()]).status()),
        "hangs" if late => {
            let _left_running = Command::new("sleep").arg("1000").spawn();
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        "prints" if late => println!("hello from the kernel"),
        "floods" if late => {
            for line in 0..100_000 {
                eprintln!("complaint {line}");
            }
            std::process::abort()
        }
        _ => {}
    }
    0.0
}

struct Toy {
    name: &'static str,
    runs: u64,
    /// Three times before the slots, again for the check after them.
    poisonings: u32,
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Prepared for Toy {
    fn run(&mut self) {
        self.runs += 1;
        if self.name == "lingers" && self.poisonings > 3 {
            std::thread::sleep(Duration::from_secs(1000));
        }
        let error = act(self.name, self.runs);
        for (y, x) in self.y.iter_mut().zip(&self.x) {
            *y = std::hint::black_box(x + 1.0 + error);
        }
    }
    fn poison(&mut self, poison: Poison) {
        self.poisonings += 1;
        poison.fill(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..])))
    }
    fn what_ran(&self) -> String {
        std::process::id().to_string()
    }
}

const TOYS: [&str; 18] = [
    "steady", "other", "wrong", "rotting", "fickle", "lingers", "panics", "aborts", "exits", "killed", "hangs",
    "prints", "floods", "unsteady", "compiled", "gone", "stuck", "lengthy",
];

/// Start-up time of the toy `compiled`.
const COMPILES: Duration = Duration::from_millis(1100);

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.device(Arc::new(Cpu::default()));
    registry.workload(AddOne::default());
    for name in TOYS {
        registry.implementation(Implementation::cpu("add-one", name, "a toy", move |_, inputs, _| {
            if name == "unsteady" {
                // The second process of this implementation finds the file left by the first.
                let mark = std::env::temp_dir().join(format!("ellwand-toy-{}", std::os::unix::process::parent_id()));
                if mark.exists() {
                    return Err(ellwand_core::PrepareError::Failed("no luck the second time".into()));
                }
                std::fs::write(mark, "").unwrap();
            }
            if name == "compiled" {
                std::thread::sleep(COMPILES);
            }
            let x = inputs.get("x")?.f64()?.to_vec();
            Ok(Box::new(Toy { name, runs: 0, poisonings: 0, y: vec![0.0; x.len()], x }))
        }));
    }
    registry.on_request(DeviceKind::Wgpu, "not looked for", no_adapter);
    let far = Implementation::cpu("add-one", "far", "a toy of another device", |_, _, _| unreachable!());
    registry.implementation(Implementation { needs: DeviceKind::Wgpu, ..far });
    registry
}

fn no_adapter() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    static SEARCHES: AtomicU32 = AtomicU32::new(0);
    Err(DeviceError::new(format!("search {}", SEARCHES.fetch_add(1, SeqCst) + 1)))
}

fn cell(registry: &Registry, implementations: &[&str]) -> Cell {
    let implementations = implementations.iter().map(ToString::to_string).collect();
    let selection = Selection { workloads: vec!["add-one".into()], implementations, ..Selection::default() };
    Plan::expand(registry, &selection).unwrap().cells.remove(0)
}

fn few() -> Settings {
    Settings { slot_min_ns: 20_000, samples_min: 6, rounds_max: 6, warm_up_ns: 0, ..settings() }
}

fn this() -> Launch {
    Launch::this_program()
}

fn measure(
    launch: Launch,
    implementations: &[&str],
    interrupt: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<Measurement>, Interrupted> {
    measure_within((f64::INFINITY, None), launch, implementations, interrupt, on_event)
}

fn measure_within(
    (budget_s, more): (f64, Option<&str>),
    launch: Launch,
    implementations: &[&str],
    interrupt: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<Measurement>, Interrupted> {
    let registry = registry();
    // Probes take a separate run, and the toys count theirs.
    let probes: &[Probe] = if implementations == ["lengthy"] { PROBES } else { &[] };
    let instrument = Instrument { probes, ..Instrument::new(&registry, few(), 7, interrupt) };
    let limits = Limits { open: Duration::from_secs(20), slot: Duration::from_secs(1) };
    let more = more.map(str::to_string);
    let blocks = Blocks { instrument: &instrument, launch, blocks: 3, limits, budget_s, more, given: Vec::new() };
    blocks.measure(&cell(&registry, implementations), on_event)
}

/// Child processes of this process, dead or alive, except the guard's shell.
fn children() -> BTreeSet<u32> {
    let me = std::process::id().to_string();
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let guard = stat.contains(" (sh) ") && !stat.contains(" (sh) Z ");
        Some(stat.rsplit(')').next()?.split_whitespace().nth(1)?.to_string()).filter(|_| !guard)
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid).as_ref() == Some(&me)).collect()
}

fn blocks_are_merged_into_one_measurement() {
    let mut said = Vec::new();
    let measured = measure(this(), &["steady", "other"], &NEVER, &mut |event| {
        if let Event::Sampled { rounds, planned } = event {
            said.push((rounds, planned));
        }
    })
    .unwrap();
    for m in &measured {
        assert_eq!(m.outcome, Outcome::Measured, "{m:?}");
        let at: Vec<(u32, u32)> = m.samples.iter().map(|s| (s.block, s.round)).collect();
        assert_eq!(at, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], "six rounds, two in each process");
        for sample in &m.samples {
            assert!(sample.wall_ns > 0 && sample.cpu_ns.is_some() && sample.switches.is_some());
            let parts = sample.parts.unwrap_or(1);
            assert_eq!(sample.iterations % parts, 0, "parts are equal");
            assert!(sample.fastest_ns.is_none_or(|fastest| fastest * parts <= sample.wall_ns));
        }
        assert!(m.prepare_ns.is_some() && m.first_run_ns.is_some() && m.device == "cpu");
        assert!(m.check.as_ref().is_some_and(|check| check.passed));
        assert_ne!(m.what_ran, std::process::id().to_string(), "it ran in its own process");
        assert_eq!((m.work.items, m.work.flops), (4, 8.0), "the work of its inputs");
    }
    let positions = |m: &Measurement| m.samples.iter().map(|s| s.position).collect::<Vec<_>>();
    assert!(positions(&measured[0]).iter().zip(positions(&measured[1])).all(|(a, b)| a + b == 1), "side by side");
    assert_eq!(said, (1..=6).map(|round| (round, 6)).collect::<Vec<_>>());
}

fn whatever_a_worker_does_becomes_a_row() {
    let all = ["steady", "wrong", "rotting", "panics", "aborts", "exits", "killed", "hangs", "prints", "floods"];
    let measured = measure(this(), &all, &NEVER, &mut |_| {}).unwrap();
    let outcome = |name: &str| {
        let m = measured.iter().find(|m| m.implementation == name).unwrap();
        assert_eq!(m.samples.is_empty(), !m.outcome.is_measured(), "{name}: no times without a right answer");
        (m.outcome.word(), m.outcome.reason().unwrap_or("").to_string())
    };
    assert_eq!(outcome("steady").0, "measured");
    for (name, word, parts) in [
        ("wrong", "wrong", &["y"][..]),
        ("rotting", "wrong", &["y"]),
        ("panics", "failed", &["it panicked in run: out of luck [2J"]),
        ("aborts", "failed", &["signal 6 (SIGABRT)"]),
        ("exits", "failed", &["exited with code 3", "its last words: I have had enough"]),
        ("killed", "failed", &["signal 9", "out of memory"]),
        ("hangs", "failed", &["did not answer within", "while running untimed", "was killed"]),
        ("prints", "failed", &["hello from the kernel", "must not print"]),
        ("floods", "failed", &["SIGABRT", "complaint 99999"]),
    ] {
        let (had, why) = outcome(name);
        assert_eq!(had, word, "{name}: {why}");
        for part in parts {
            assert!(why.contains(part), "{name} does not say '{part}': {why}");
        }
        assert!(why.len() < 3000, "{name} says too much");
    }
}

fn a_failure_in_a_later_process_says_in_which() {
    let mark = std::env::temp_dir().join(format!("ellwand-toy-{}", std::process::id()));
    let measured = measure(this(), &["steady", "unsteady"], &NEVER, &mut |_| {}).unwrap();
    std::fs::remove_file(mark).unwrap();
    assert_eq!(measured[0].outcome, Outcome::Measured);
    assert_eq!(measured[0].samples.len(), 6, "the others go on");
    assert_eq!(measured[1].outcome.reason(), Some("in process 2 of 3: no luck the second time"));
    assert!(measured[1].samples.is_empty());
}

fn a_program_that_is_not_ours_is_a_row() {
    for (program, part) in [("/bin/false", "exited with code 1"), ("/nowhere/at/all", "could not be started")] {
        let measured = measure(Launch::program(program), &["steady"], &NEVER, &mut |_| {}).unwrap();
        assert!(measured[0].outcome.reason().unwrap().contains(part), "{:?}", measured[0].outcome);
    }
    let echo = Launch { program: "/bin/cat".into(), args: Vec::new() };
    let measured = measure(echo, &["steady"], &NEVER, &mut |_| {}).unwrap();
    assert!(
        measured[0].outcome.reason().unwrap().contains("where an answer was expected"),
        "{:?}",
        measured[0].outcome
    );
}

fn a_check_survives_whatever_it_checks() {
    let registry = registry();
    let mut checker = Checker::new(&registry, Duration::from_secs(8), 7, &NEVER);
    let mut check = |cell: &Cell| -> Vec<String> {
        let word = |row| match checker.check(cell, row).unwrap() {
            Ok((verdict, _)) => format!("right: {}", verdict.detail),
            Err(outcome) => format!("{}: {}", outcome.word(), outcome.reason().unwrap_or("")),
        };
        cell.implementations.iter().map(word).collect()
    };
    assert!(check(&cell(&registry, &["fickle"]))[0].starts_with("wrong"), "right at its first call alone");
    let said = check(&cell(&registry, &["steady", "wrong", "aborts", "gone", "stuck"]));
    for (said, parts) in said.iter().zip([
        &["right"][..],
        &["wrong", "y"],
        &["right"],
        &["failed", "exited with code 0 instead of answering"],
        &["failed", "did not answer within 8 s"],
    ]) {
        assert!(parts.iter().all(|part| said.contains(part)), "{said} {parts:?}");
    }
    let mut lost = cell(&registry, &["steady", "other"]);
    lost.case.params = vec![("batch".into(), common::NO_REFERENCE.into())];
    for said in check(&lost) {
        assert!(said.starts_with("failed: no inputs, reference or hard sets: it exited with code 0"), "{said}");
    }
    let said = check(&cell(&registry, &["gone", "steady"]));
    assert!(said.len() == 2 && said.iter().any(|said| said.starts_with("right")), "each has a new worker: {said:?}");
}

fn a_check_looks_for_devices_once() {
    let registry = registry();
    let mut checker = Checker::new(&registry, Duration::from_secs(8), 7, &NEVER);
    let mut cell = cell(&registry, &["far"]);
    for batch in [8, 9] {
        cell.case.params = vec![("batch".into(), batch.into())];
        let outcome = checker.check(&cell, &cell.implementations[0]).unwrap().unwrap_err();
        assert_eq!(outcome.reason(), Some("no wgpu device (search 1)"), "batch {batch}");
    }
}

fn an_interrupt_ends_a_hanging_worker() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let clock = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(300));
        STOP.store(true, SeqCst);
    });
    let outcome = measure(this(), &["hangs"], &STOP, &mut |_| {});
    clock.join().unwrap();
    // If the worker's time limit had come first, a row would report it.
    assert!(outcome.is_err(), "{outcome:?}");
}

fn what_starts_slowly_gets_fewer_processes() {
    // A sixth of the time is less than one start; two more starts would fit into the whole.
    let budget_s = 5.9 * COMPILES.as_secs_f64();
    let measured = measure_within((budget_s, None), this(), &["steady", "compiled"], &NEVER, &mut |_| {}).unwrap();
    let blocks = |m: &Measurement| m.samples.iter().map(|s| s.block).collect::<BTreeSet<_>>();
    assert_eq!(blocks(&measured[0]), BTreeSet::from([0, 1, 2]), "the others keep theirs");
    assert_eq!(blocks(&measured[1]), BTreeSet::from([0]));
    let said = |m: &Measurement| m.warnings.iter().any(|w| w == "it starts slowly: measured in 1 of 3 processes");
    assert!(said(&measured[1]) && !said(&measured[0]), "{:?}", measured[1].warnings);
    let all = measure(this(), &["compiled"], &NEVER, &mut |_| {}).unwrap();
    assert_eq!(blocks(&all[0]), BTreeSet::from([0, 1, 2]), "without a limit of time");
}

/// Runs for the first answer, under the probes, and for the slot, whose answer is judged; a fourth run would be wrong.
fn a_slow_one_runs_three_times() {
    let measured = measure_within((3.0, None), this(), &["lengthy"], &NEVER, &mut |_| {}).unwrap();
    assert_eq!((&measured[0].outcome, measured[0].samples.len()), (&Outcome::Measured, 1));
    assert!(measured[0].warnings.contains(&"it is slow: measured in 1 of 3 processes".to_string()), "{measured:?}");
    assert!(measured[0].readings.iter().any(|reading| reading.id == "page-faults"), "{measured:?}");
}

fn spec(implementation: &str) -> Spec {
    let registry = registry();
    let asked = Asked::new(&cell(&registry, &["steady"]).case, implementation);
    Spec { launch: this(), open: Open { asked, slot_min_ns: 20_000, seed: 7, ..Open::default() }, together: true }
}

fn open<'a>(specs: &[Spec], known: &mut Known) -> Block<'a> {
    open_until(specs, known, (Limits::default(), None))
}

fn open_until<'a>(specs: &[Spec], known: &mut Known, until: (Limits, Option<Instant>)) -> Block<'a> {
    let mut coin = ChaCha8Rng::seed_from_u64(1);
    Block::open(specs, known, until, &mut coin, &NEVER, &mut |_, _| {}).unwrap()
}

fn each_block_has_fresh_processes() {
    let specs = [spec("steady"), spec("steady")];
    let (mut known, mut seen) = (Known::default(), BTreeSet::new());
    for _ in 0..2 {
        let block = open(&specs, &mut known);
        assert_eq!(children(), block.processes().into_iter().collect());
        seen.extend(block.processes());
        block.close();
        assert_eq!(children(), BTreeSet::new());
    }
    assert_eq!(seen.len(), 4);
    let dropped = open(&specs, &mut known);
    assert_eq!(children().len(), 2);
    drop(dropped);
}

fn the_reference_is_computed_once() {
    let mut known = Known::default();
    let specs = [spec("steady"), spec("other"), spec("wrong")];
    let first = open(&specs, &mut known);
    assert_eq!(known.right.len(), 1, "both right ones gave the same bits, and a wrong answer is never known as right");
    let verdict = &first.state(1).unwrap().verdict;
    assert_eq!(verdict, &first.state(0).unwrap().verdict, "the words of the first judge");
    assert!(first.state(2).is_err());
    first.close();
    assert_eq!(known.slots.keys().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["other", "steady"]);
    let again = open(&specs[..1], &mut known);
    assert_eq!(
        again.state(0).unwrap().slot,
        known.slots[&(this().program, "steady".into())],
        "the slots keep their shape"
    );
    again.close();
}

/// Without this check, a program that does not pass its arguments on would start itself again and again.
fn a_worker_starts_no_worker() {
    let mut nested = Command::new(std::env::current_exe().unwrap());
    let said = nested.arg("nested").env("ELLWAND_PADDING", "").output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("could not be started: this process is one, and its program did not hand"), "{said}");
}

/// A parent that is killed while its worker hangs.
fn orphan() {
    let mut block = open(&[spec("hangs")], &mut Known::default());
    println!("{}", block.processes()[0]);
    loop {
        let _ = block.slot(0, false);
    }
}

/// Number of live processes in a group.
fn alive(group: u32) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let member = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // State, parent, group. The adopting process may be slow to reap: dead is enough.
        matches!(fields[..], [state, _, pgrp, ..] if state != "Z" && pgrp == group.to_string())
    };
    pids.filter(member).count()
}

fn a_killed_parent_takes_its_workers_along() {
    let mut parent =
        Command::new(std::env::current_exe().unwrap()).arg("orphan").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let worker: u32 = line.trim().parse().unwrap();
    // The worker, and the process that its implementation started.
    while alive(worker) < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    let gone = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        alive(worker) == 0
    });
    assert!(gone, "a worker or what it had started outlived its parent");
}
