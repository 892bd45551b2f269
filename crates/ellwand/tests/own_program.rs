//! A user's own program on the facade has every command. The clock of its device advances only by the cost that an
//! implementation declares, so verdicts and exit codes are exact although every arm runs in its own process.
//!
//! `worker`, `run`, `check`, `compare` and `report` make this program the command line; otherwise it runs the tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[path = "own_program/ends.rs"]
mod ends;
#[path = "own_program/gates.rs"]
mod gates;
#[path = "own_program/sides.rs"]
mod sides;

use std::any::Any;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ellwand::internals::core::device::Part;
use ellwand::internals::core::record::SlotState;
use ellwand::internals::core::{
    Axis, Case, Compared, CpuScope, Description, Device, DeviceError, DeviceKind, Implementation, InputError, Poison,
    PrepareError, Prepared, Registry, Tensor, Tensors, Timing, Verdict, Work, Workload,
};

type Test = (&'static str, fn());
const TESTS: &[Test] = &[
    ("verdicts_and_exit_codes", verdicts_and_exit_codes),
    ("what_slows_down_with_age_is_found", what_slows_down_with_age_is_found),
    ("a_throttled_device_is_reported", a_throttled_device_is_reported),
    ("a_sweep_has_a_line_for_each_case", a_sweep_has_a_line_for_each_case),
    ("what_cannot_be_compared_is_refused", sides::what_cannot_be_compared_is_refused),
    ("programs_are_compared_at_every_implementation", sides::programs_are_compared_at_every_implementation),
    ("commands_that_end_badly_say_so", sides::commands_that_end_badly_say_so),
    (
        "a_revision_is_built_once_and_judged_like_any_program",
        sides::a_revision_is_built_once_and_judged_like_any_program,
    ),
    ("a_regression_since_a_revision_fails_in_every_format", sides::a_regression_since_a_revision_fails_in_every_format),
    ("records_suggest_and_never_decide", sides::records_suggest_and_never_decide),
    ("an_arm_that_ends_badly_late_has_no_verdict", ends::an_arm_that_ends_badly_late_has_no_verdict),
    ("a_slot_that_hangs_ends_with_the_time", ends::a_slot_that_hangs_ends_with_the_time),
    ("a_thousand_times_slower_is_measured_or_out_of_time", ends::a_thousand_times_slower_is_measured_or_out_of_time),
    ("finished_cases_are_reported_at_once", ends::finished_cases_are_reported_at_once),
    ("fixed_counts_of_a_run", ends::fixed_counts_of_a_run),
    (
        "what_is_not_ready_in_a_given_time_is_named_and_not_measured",
        ends::what_is_not_ready_in_a_given_time_is_named_and_not_measured,
    ),
    ("what_cannot_be_kept_is_printed", ends::what_cannot_be_kept_is_printed),
    ("formats_for_gates", formats_for_gates),
    ("json_says_everything", json_says_everything),
    ("run_divides_its_samples_between_processes", run_divides_its_samples_between_processes),
    ("budgets_of_a_run", gates::budgets_of_a_run),
    ("budgets_of_a_comparison", gates::budgets_of_a_comparison),
    ("a_comparison_keeps_its_record", gates::a_comparison_keeps_its_record),
    ("every_form_says_that_only_a_part_was_judged", gates::every_form_says_that_only_a_part_was_judged),
    ("command_outputs_are_compared_on_request", gates::command_outputs_are_compared_on_request),
    #[cfg(feature = "page")]
    ("tables_of_profiles_fit_the_terminal", gates::tables_of_profiles_fit_the_terminal),
    ("lines_break_where_the_terminal_ends", gates::lines_break_where_the_terminal_ends),
    ("programs_that_are_not_ours_are_rows", gates::programs_that_are_not_ours_are_rows),
    ("bad_implementations_are_rows_of_a_run", gates::bad_implementations_are_rows_of_a_run),
    ("plots_need_their_feature", plots_need_their_feature),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let command = args.get(1).map_or("", String::as_str);
    if ["worker", "run", "check", "compare", "report", "profile", "view"].contains(&command) {
        let registry = if std::env::var_os(EMPTY).is_some() { ellwand::devices() } else { registry() };
        std::process::exit(ellwand::run(args, &registry));
    }
    // A test runner asks twice: for the tests, and for the ignored ones; none is ignored.
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("--list") && has("--ignored") {
        return;
    }
    if has("--list") {
        return TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
    }
    let filter = args.iter().skip(1).find(|arg| !arg.starts_with('-'));
    for (name, test) in TESTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter))) {
        test();
        println!("test {name} ... ok");
    }
}

#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

struct Fake(Clock);

/// If this environment variable is set, the program has no workload.
const EMPTY: &str = "OWN_PROGRAM_EMPTY";

/// Environment variable with the reason why the device throttles.
const SLOWED: &str = "OWN_PROGRAM_SLOWED_BY";

/// If this environment variable is set, the device times the parts of slots.
const PARTS: &str = "OWN_PROGRAM_PARTS";

impl Device for Fake {
    fn id(&self) -> &str {
        "fake"
    }
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }
    fn about(&self) -> String {
        "a device for tests".into()
    }
    fn state(&self) -> SlotState {
        SlotState { slowed_by: std::env::var(SLOWED).ok().and_then(|by| by.parse().ok()), ..SlotState::default() }
    }
    /// A call without cost still takes as long as a slot: the resolution of this device.
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let before = self.0.0.load(SeqCst);
        body();
        let wall_ns = (self.0.0.load(SeqCst) - before).max(500_000);
        let none = Some(0);
        Timing { wall_ns, cpu_ns: Some(wall_ns), others_ns: none, switches: none, waits: none, ..Timing::default() }
    }
    fn time_parts(&self, scope: CpuScope, parts: u64, body: &mut dyn FnMut(Part)) -> (Timing, Vec<u64>) {
        body(Part::Head);
        let mut each = Vec::new();
        let timing = self.time(scope, &mut || {
            for _ in 0..parts {
                let before = self.0.0.load(SeqCst);
                body(Part::Timed);
                each.push(self.0.0.load(SeqCst) - before);
            }
        });
        if self.finest_part_ns().is_none() {
            each.clear();
        }
        (timing, each)
    }
    fn finest_part_ns(&self) -> Option<u64> {
        std::env::var_os(PARTS).map(|_| 1_000)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Double(Description);

impl Workload for Double {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        100
    }
    fn inputs(&self, case: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("x", Tensor::scalar(case.float("n").unwrap_or(0.0))))
    }
    fn reference(&self, _: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("y", Tensor::scalar(2.0 * inputs.scalar("x")?)))
    }
    fn work(&self, _: &Case) -> Work {
        Work::items("numbers", 1)
    }
    fn judge(&self, case: &Case, _: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        let verdict = ellwand_core::verdict::compare(expected, got, self.tolerance(case));
        if verdict.passed && case.int("n") == Some(JUDGED_IN_PART) {
            return Verdict::agree(Compared { values: 211, of: 1000 }, 0.0);
        }
        verdict
    }
}

/// The value for which the reference claims to judge only a part of the answer.
const JUDGED_IN_PART: i64 = 77;

/// The cost of a run in nanoseconds, given the number of runs including this one.
type Cost = fn(u64) -> u64;

struct Toy {
    clock: Clock,
    cost: Cost,
    runs: u64,
    answer: f64,
    y: f64,
}

impl Prepared for Toy {
    fn run(&mut self) {
        self.runs += 1;
        self.clock.0.fetch_add((self.cost)(self.runs), SeqCst);
        self.y = self.answer;
    }
    fn poison(&mut self, poison: Poison) {
        self.y = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::scalar(self.y)))
    }
}

/// If set, `plain` takes half the time.
const FASTER: &str = "ELLWAND_TEST_FASTER";

/// A toy that changes its answer while it is timed.
struct Fickle(Toy);

impl Prepared for Fickle {
    fn run(&mut self) {
        self.0.run();
        if self.0.runs > 3 {
            self.0.y += 0.5;
        }
    }
    fn poison(&mut self, poison: Poison) {
        self.0.poison(poison);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.0.output()
    }
}

fn registry() -> Registry {
    let clock = Clock::default();
    let mut registry = Registry::new();
    registry.device(Arc::new(Fake(clock.clone())));
    let axes = vec![Axis::int("n", "the number", 1, 100, 3)];
    registry.workload(Double(Description::new("double", "twice a number").axes(axes).baseline("plain")));
    let plain: Cost = if std::env::var_os(FASTER).is_some() { |_| 1_000_000 } else { |_| 2_000_000 };
    let costs: [(&str, Cost); 8] = [
        ("plain", plain),
        ("twin", |_| 2_004_000),
        ("slower", |_| 2_200_000),
        ("faster", |_| 1_000_000),
        ("sluggish", |_| 2_000_000_000),
        // Slow in one of the six slots of each process, whether or not the first process found the slot shape.
        ("moody", |runs| if matches!(runs, 8 | 9) { 6_000_000 } else { 2_000_000 }),
        ("instant", |_| 1),
        // Slower once its process has run for 30 ms.
        ("ageing", |runs| if runs > 15 { 2_200_000 } else { 2_000_000 }),
    ];
    for (name, cost) in costs {
        let clock = clock.clone();
        registry.implementation(Implementation::cpu("double", name, "a toy", move |_, inputs, _| {
            Ok(Box::new(Toy { clock: clock.clone(), cost, runs: 0, answer: 2.0 * inputs.scalar("x")?, y: 0.0 }))
        }));
    }
    let [late, ends] = [clock.clone(), clock.clone()];
    registry.implementation(Implementation::cpu("double", "wrong", "a toy", move |_, _, _| {
        Ok(Box::new(Toy { clock: clock.clone(), cost: |_| 1, runs: 0, answer: 0.5, y: 0.0 }))
    }));
    // Right when it is judged before the timing, wrong from the fourth run on.
    registry.implementation(Implementation::cpu("double", "fickle", "a toy", move |_, inputs, _| {
        let answer = 2.0 * inputs.scalar("x")?;
        Ok(Box::new(Fickle(Toy { clock: late.clone(), cost: |_| 2_000_000, runs: 0, answer, y: 0.0 })))
    }));
    for how in ["mortal", "turncoat", "hanging"] {
        let clock = ends.clone();
        registry.implementation(Implementation::cpu("double", how, "a toy", move |case, inputs, _| {
            let answer = 2.0 * inputs.scalar("x")?;
            let toy = Toy { clock: clock.clone(), cost: |_| 2_200_000, runs: 0, answer, y: 0.0 };
            Ok(Box::new(ends::Late::new(how, case, toy)))
        }));
    }
    registry.implementation(Implementation::cpu("double", "picky", "a toy", |_, _, _| {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"looking for the moon\n");
        Err(PrepareError::Unsupported("the moon is not full".into()))
    }));
    registry.implementation(Implementation::cpu("double", "stuck", "a toy", |_, _, _| {
        loop {
            std::thread::park();
        }
    }));
    registry.implementation(Implementation::cpu("double", "broken", "a toy", |_, _, _| panic!("no luck")));
    registry.implementation(Implementation::cpu("double", "leaver", "a toy", |_, _, _| std::process::exit(0)));
    registry
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn tell(args: &[&str]) -> Ran {
    ran(this_program(args).output().unwrap())
}

fn this_program(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Cached data about this machine must not affect the tests.
    command.env("XDG_CACHE_HOME", std::env::temp_dir().join("ellwand-tests-without-cache"));
    command.args(args);
    command
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares a candidate with the plain implementation.
fn compare(candidate: &str, more: &[&str]) -> Ran {
    tell(&[&["compare", "double:plain", &format!("double:{candidate}")], more].concat())
}

fn verdicts_and_exit_codes() {
    for (candidate, more, code, parts) in [
        ("plain", &[][..], 0, &["same within 1 %", "another plain takes 1.000x", "6 blocks"][..]),
        ("twin", &[], 0, &["same within 1 %: twin takes 1.002x the time of plain"]),
        ("twin", &["--rope", "0.1"], 3, &["slower: twin takes 1.002x the time of plain"]),
        (
            "slower",
            &[],
            3,
            // The ends of the interval have more digits because the clock is fine.
            &[
                "slower: slower takes 1.100x the time of plain (99 % interval 1.",
                "), 2.20 ms against 2.00 ms, 6 blocks",
            ],
        ),
        ("slower", &["--rope", "20"], 0, &["same within 20 %"]),
        ("slower", &["--fail-on", "never"], 0, &["1.100x the time"]),
        // Five blocks can show that two are the same, but not that they differ.
        ("slower", &["--blocks", "5"], 4, &["slower takes 1.100x", "about 1 more block", "--blocks 6"]),
        ("slower", &["--blocks", "5", "--fail-on", "slower"], 0, &["undecided"]),
        ("faster", &[], 0, &["faster: faster takes 0.500x the time of plain (99 % interval 0."]),
        ("moody", &[], 3, &[": there moody takes ", "by the judged time moody takes 1.000x"]),
        // Six blocks cannot show that slow moments are slower, and so cannot show that everything is the same.
        (
            "moody",
            &["--blocks", "6"],
            4,
            &[
                "undecided in its tail (90th percentile): no ",
                ", at 99 %: there moody takes 2.000x the time of plain",
                "--blocks 12 may decide it",
                "the same within 1 %",
            ],
        ),
        ("wrong", &[], 5, &["no verdict: the candidate answers wrong"]),
        ("picky", &[], 6, &["no verdict: the candidate cannot run here: the moon is not full"]),
        ("broken", &[], 1, &["no verdict: the candidate failed: it panicked in prepare: no luck"]),
        (
            "stuck",
            &["--time", "20s", "--time-limit", "2"],
            1,
            &[
                "no verdict: the candidate failed: it did not answer within ",
                " while getting ready (inputs, preparation,",
            ],
        ),
        // It had ten times what the baseline needed.
        ("stuck", &["--time", "10s"], 1, &["no verdict: the candidate failed: it did not answer within "]),
    ] {
        let ran = compare(candidate, more);
        assert_eq!(ran.code, Some(code), "{candidate} {more:?}: {}{}", ran.stdout, ran.stderr);
        for part in parts {
            assert!(ran.stdout.contains(part), "{candidate} {more:?} does not say '{part}': {}", ran.stdout);
        }
        assert_eq!(ran.stdout.lines().count(), 1, "one line: {}", ran.stdout);
        assert!(!ran.stderr.contains("panicked at"), "{}", ran.stderr);
    }
    // The same for a baseline of which two copies start, in any order.
    let hung = tell(&["compare", "double:stuck", "double:plain", "--time", "5s"]);
    assert!(hung.stdout.contains("baseline failed: it did not answer within "), "{}", hung.stdout);
    assert_eq!(hung.code, Some(1), "{}", hung.stdout);
    // It is unknown whether these hang or only need longer.
    let neither = tell(&["compare", "double:stuck", "double:stuck", "--time", "1s"]);
    assert!(neither.stdout.contains(" was not ready when the time was up; give it --time 8.0s"), "{}", neither.stdout);
    assert_eq!(neither.code, Some(6));
    let instant = tell(&["compare", "double:instant", "double:instant"]);
    assert!(instant.stdout.contains("below resolution"), "{}", instant.stdout);
    assert_eq!(instant.code, Some(4));
}

fn what_slows_down_with_age_is_found() {
    let compare = |age: &str| {
        // The clock of the sides is simulated but the forecast is not, so a busy machine needs more time.
        let line = ["compare", "double:plain", "double:ageing", "--age", age, "--time", "4m"];
        ran(this_program(&line).env(PARTS, "1").output().unwrap())
    };
    let found = compare("1s");
    assert_eq!(found.code, Some(3), "{}{}", found.stdout, found.stderr);
    let young = compare("0s");
    assert_ne!(young.code, Some(3), "{}", young.stdout);
}

fn a_throttled_device_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let compared = |slowed_by: &str| {
        let mut line = this_program(&["compare", "double:plain", "double:slower", "--overwrite"]);
        let ran = ran(line.arg("-o").arg(dir.path()).env(SLOWED, slowed_by).output().unwrap());
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        let report = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
        [ran.stdout, report]
    };
    for hot in compared("2") {
        assert!(hot.contains("throttled: the device slowed itself down (heat) in"), "{hot}");
    }
    for cool in compared("0") {
        assert!(!cool.contains("throttled"), "{cool}");
    }
}

fn a_sweep_has_a_line_for_each_case() {
    let ran = compare("slower", &["--n", "1,2,5"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3);
    for (line, case) in lines.iter().zip(["double/n=1: ", "double/n=2: ", "double/n=5: "]) {
        assert!(line.starts_with(case) && line.contains("slower: slower takes 1.100x"), "{line}");
    }
}

fn formats_for_gates() {
    let junit = compare("slower", &["--format", "junit"]);
    assert_eq!(junit.code, Some(3));
    assert!(junit.stdout.contains(r#"tests="1" failures="1" errors="0" skipped="0""#), "{}", junit.stdout);
    assert!(
        junit.stdout.contains(r#"<failure message="slower: slower takes 1.100x the time of plain"#),
        "{}",
        junit.stdout
    );
    let github = compare("plain", &["--format", "github"]);
    assert!(
        github.stdout.starts_with("::notice title=double/n=3 plain against plain::same within 1 %25"),
        "{}",
        github.stdout
    );
}

fn json_says_everything() {
    let ran = compare("slower", &["--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let row = &rows[0];
    assert_eq!(row["case"], "double/n=3");
    assert_eq!(row["verdict"], "slower");
    assert_eq!(row["judged_by"], "CPU time");
    assert_eq!(row["blocks"].as_array().unwrap().len(), 6);
    assert_eq!(row["control"]["difference"], "same");
    let exact = 1.1_f64.ln();
    for block in row["blocks"].as_array().unwrap() {
        assert!((block["main"].as_f64().unwrap() - exact).abs() < 1e-9 && block["control"] == 0.0, "{block}");
    }
    let none: serde_json::Value = serde_json::from_str(&compare("picky", &["--format", "json"]).stdout).unwrap();
    assert_eq!((&none[0]["verdict"], &none[0]["outcome"]), (&"none".into(), &"unsupported".into()));
}

fn run_divides_its_samples_between_processes() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = |name: &str, more: &[&str]| -> Vec<u64> {
        let out = dir.path().join(name);
        let fixed = ["run", "double", "-i", "plain", "--effort", "quick", "--no-plot", "--no-ceilings", "-o"];
        let ran = tell(&[&fixed[..], &[out.to_str().unwrap()], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap();
        let row: serde_json::Value = serde_json::from_str(record.lines().nth(1).unwrap()).unwrap();
        row["samples"]["block"].as_array().unwrap().iter().map(|block| block.as_u64().unwrap()).collect()
    };
    let half = |count: usize, block: u64| vec![block; count];
    // 60 ms hold fifteen slots of 2 ms, each after a head of 2 ms.
    assert_eq!(blocks("two", &["--blocks", "2"]), [half(8, 0), half(8, 1)].concat());
    assert_eq!(blocks("three", &[]), [half(5, 0), half(5, 1), half(5, 2)].concat());
    assert_eq!(blocks("here", &["--in-process"]), half(15, 0));
}

fn plots_need_their_feature() {
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let run = ["run", "double", "-i", "plain", "--effort", "quick", "--no-ceilings", "--in-process", "-o"];
    let of = |args: &[&str], name: &str| {
        let ran = tell(&[args, &[&out(name)]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        (ran.stderr.matches("plots not drawn").count(), dir.path().join(name).join("plots").exists())
    };
    let drawn = cfg!(feature = "plots");
    assert_eq!(of(&run, "run"), (usize::from(!drawn), drawn));
    let record = out("run");
    assert_eq!(of(&["report", &record, "-o"], "report"), (usize::from(!drawn), drawn));
    assert_eq!(of(&["report", &record, "--no-plot", "-o"], "none"), (0, false));
    assert!(dir.path().join("report/report.md").exists());
}
