//! A user's own program on the facade has every command. Its device has a clock that moves only when an implementation
//! says what it cost, so that verdicts and exit codes are exact although every arm runs in a process of its own.
//!
//! `worker`, `run`, `compare` and `report` make this program the command line; otherwise it runs the tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[path = "own_program/gates.rs"]
mod gates;

use std::any::Any;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ellwand::core::{
    Axis, Case, CpuScope, Device, DeviceKind, Implementation, InputError, PrepareError, Prepared, Registry, Tensor,
    Tensors, Timing, Work, Workload,
};

type Test = (&'static str, fn());
const TESTS: &[Test] = &[
    ("verdicts_and_exit_codes", verdicts_and_exit_codes),
    ("a_sweep_has_a_line_for_each_case", a_sweep_has_a_line_for_each_case),
    ("what_cannot_be_compared_is_refused", what_cannot_be_compared_is_refused),
    ("programs_are_compared_at_every_implementation", programs_are_compared_at_every_implementation),
    ("commands_that_end_badly_say_so", commands_that_end_badly_say_so),
    ("a_revision_is_built_once_and_judged_like_any_program", a_revision_is_built_once_and_judged_like_any_program),
    ("records_suggest_and_never_decide", records_suggest_and_never_decide),
    ("formats_for_gates", formats_for_gates),
    ("json_says_everything", json_says_everything),
    ("run_divides_its_samples_between_processes", run_divides_its_samples_between_processes),
    ("budgets_of_a_run", gates::budgets_of_a_run),
    ("budgets_of_a_comparison", gates::budgets_of_a_comparison),
    ("a_comparison_keeps_its_record", gates::a_comparison_keeps_its_record),
    ("outputs_of_commands_are_judged_where_asked", gates::outputs_of_commands_are_judged_where_asked),
    ("lines_break_where_the_terminal_ends", gates::lines_break_where_the_terminal_ends),
    ("programs_that_are_not_ours_are_rows", gates::programs_that_are_not_ours_are_rows),
    ("bad_implementations_are_rows_of_a_run", gates::bad_implementations_are_rows_of_a_run),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let command = args.get(1).map_or("", String::as_str);
    if ["worker", "run", "compare", "report"].contains(&command) {
        std::process::exit(ellwand::run(args, &registry()));
    }
    // A test runner asks twice: for the tests, and for those that are ignored, of which there is none.
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
    /// A call that costs nothing still takes 0.2 ms: the resolution of this device.
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let before = self.0.0.load(SeqCst);
        body();
        let wall_ns = (self.0.0.load(SeqCst) - before).max(200_000);
        Timing { wall_ns, cpu_ns: Some(wall_ns), switches: Some(0), ..Timing::default() }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Double(Vec<Axis>);

impl Workload for Double {
    fn name(&self) -> &str {
        "double"
    }
    fn about(&self) -> &str {
        "twice a number"
    }
    fn axes(&self) -> &[Axis] {
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
    fn baseline(&self) -> &str {
        "plain"
    }
}

/// What a run costs in nanoseconds, given how many came before and itself.
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
    fn poison(&mut self) {
        self.y = f64::NAN;
    }
    fn output(&mut self) -> Result<Tensors, String> {
        Ok(Tensors::new().with("y", Tensor::scalar(self.y)))
    }
}

/// A toy that changes its answer while it is timed.
struct Fickle(Toy);

impl Prepared for Fickle {
    fn run(&mut self) {
        self.0.run();
        if self.0.runs > 3 {
            self.0.y += 0.5;
        }
    }
    fn poison(&mut self) {
        self.0.poison();
    }
    fn output(&mut self) -> Result<Tensors, String> {
        self.0.output()
    }
}

fn registry() -> Registry {
    let clock = Clock::default();
    let mut registry = Registry::new();
    registry.device(Arc::new(Fake(clock.clone())));
    registry.workload(Double(vec![Axis::int("n", "the number", 1, 100, 3)]));
    let costs: [(&str, Cost); 6] = [
        ("plain", |_| 2_000_000),
        ("twin", |_| 2_004_000),
        ("slower", |_| 2_200_000),
        ("faster", |_| 1_000_000),
        // Slow in one of the three slots of each process, whether the first one found the shape of the slots or not.
        ("moody", |runs| if matches!(runs, 8 | 9) { 6_000_000 } else { 2_000_000 }),
        ("instant", |_| 1),
    ];
    for (name, cost) in costs {
        let clock = clock.clone();
        registry.implementation(Implementation::cpu("double", name, "a toy", move |_, inputs, _| {
            Ok(Box::new(Toy { clock: clock.clone(), cost, runs: 0, answer: 2.0 * inputs.scalar("x")?, y: 0.0 }))
        }));
    }
    let late = clock.clone();
    registry.implementation(Implementation::cpu("double", "wrong", "a toy", move |_, _, _| {
        Ok(Box::new(Toy { clock: clock.clone(), cost: |_| 1, runs: 0, answer: 0.5, y: 0.0 }))
    }));
    // Right when it is judged before, wrong from the fourth run on.
    registry.implementation(Implementation::cpu("double", "fickle", "a toy", move |_, inputs, _| {
        let answer = 2.0 * inputs.scalar("x")?;
        Ok(Box::new(Fickle(Toy { clock: late.clone(), cost: |_| 2_000_000, runs: 0, answer, y: 0.0 })))
    }));
    registry.implementation(Implementation::cpu("double", "picky", "a toy", |_, _, _| {
        Err(PrepareError::Unsupported("the moon is not full".into()))
    }));
    registry.implementation(Implementation::cpu("double", "broken", "a toy", |_, _, _| panic!("no luck")));
    registry
}

struct Told {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn tell(args: &[&str]) -> Told {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // What is kept about this machine must not reach the tests.
    command.env("XDG_CACHE_HOME", std::env::temp_dir().join("ellwand-tests-without-cache"));
    told(command.args(args).output().unwrap())
}

fn told(output: std::process::Output) -> Told {
    Told {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares with the plain implementation.
fn compare(candidate: &str, more: &[&str]) -> Told {
    tell(&[&["compare", "double:plain", &format!("double:{candidate}")], more].concat())
}

fn verdicts_and_exit_codes() {
    for (candidate, more, code, parts) in [
        ("plain", &[][..], 0, &["same within 1 %", "another plain takes 1.000x", "6 blocks"][..]),
        ("twin", &[], 0, &["same within 1 %: twin takes 1.002x the time of plain"]),
        ("twin", &["--rope", "0.1"], 3, &["twin is 1.002x slower than plain"]),
        ("slower", &[], 3, &["slower is 1.100x slower than plain (99 % interval 1.100 to 1.100), 8 blocks"]),
        ("slower", &["--rope", "20"], 0, &["same within 20 %"]),
        ("slower", &["--fail-on", "never"], 0, &["1.100x slower"]),
        // Six blocks can show that two are the same, and not that they differ.
        ("slower", &["--blocks", "6"], 4, &["undecided: slower takes 1.100x", "about 2 more blocks", "--blocks 8"]),
        ("slower", &["--blocks", "6", "--fail-on", "slower"], 0, &["undecided"]),
        ("faster", &[], 0, &["faster is 2.000x faster than plain (99 % interval 2.000 to 2.000)"]),
        ("moody", &[], 3, &["slower than plain in its slow moments", "while its fastest time is the same within 1 %"]),
        // Six blocks cannot show that slow moments are slower, and so not that all is the same.
        (
            "moody",
            &["--blocks", "6"],
            4,
            &[
                "undecided: the fastest times are the same within 1 %",
                "the slow moments of moody are not settled: its 90th percentile takes 2.600x",
                "--blocks 10 would tell more",
            ],
        ),
        ("wrong", &[], 5, &["no verdict: the candidate answers wrong"]),
        ("picky", &[], 6, &["no verdict: the candidate cannot run here: the moon is not full"]),
        ("broken", &[], 1, &["no verdict: the candidate failed: it panicked in prepare: no luck"]),
    ] {
        let told = compare(candidate, more);
        assert_eq!(told.code, Some(code), "{candidate} {more:?}: {}{}", told.stdout, told.stderr);
        for part in parts {
            assert!(told.stdout.contains(part), "{candidate} {more:?} does not say '{part}': {}", told.stdout);
        }
        assert_eq!(told.stdout.lines().count(), 1, "one line: {}", told.stdout);
        assert!(!told.stderr.contains("panicked at"), "{}", told.stderr);
    }
    let instant = tell(&["compare", "double:instant", "double:instant"]);
    assert!(instant.stdout.contains("below resolution"), "{}", instant.stdout);
    assert_eq!(instant.code, Some(4));
}

fn a_sweep_has_a_line_for_each_case() {
    let told = compare("slower", &["--n", "1,2,5"]);
    assert_eq!(told.code, Some(3), "{}", told.stderr);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert_eq!(lines.len(), 3);
    for (line, case) in lines.iter().zip(["double/n=1: ", "double/n=2: ", "double/n=5: "]) {
        assert!(line.starts_with(case) && line.contains("1.100x slower"), "{line}");
    }
}

fn what_cannot_be_compared_is_refused() {
    for (args, parts) in [
        (&["compare", "double:plain"][..], &["BASE"][..]),
        (&["compare", "double", "double:plain"], &["BASE", "names no implementation", "WORKLOAD:IMPLEMENTATION"]),
        (&["compare", "double:plian", "double:plain"], &["BASE", "did you mean double:plain?"]),
        (&["compare", "duble:plain", "duble:plain"], &["did you mean double?"]),
        (&["compare", "double:plain", "other:plain"], &["CANDIDATE", "different tasks"]),
        (&["compare", "double:plain", "double:twin", "--n", "0"], &["--n", "too small"]),
        (&["compare", "double:plain", "double:twin", "--rope", "much"], &["--rope", "per cent"]),
        (&["compare", "double:plain", "double:twin", "--rope=-1"], &["--rope"]),
        (&["compare", "double:plain", "double:twin", "--blocks", "0"], &["--blocks"]),
        (&["compare", "double:plain", "double:twin", "--blocks", "1"], &["--blocks", "too few"]),
        (&["compare", "double:plain", "double:twin", "--fail-on", "rain"], &["--fail-on"]),
        (&["compare", "/nowhere", "/bin/true", "--workload", "double"], &["BASE", "/nowhere is no file"]),
        (&["compare", "--command", "true", " "], &["--command", "no command"]),
        (&["compare", "--command", "true", "true", "--n", "2"], &["--n", "have no cases"]),
        (&["compare", "--command", "true", "true", "--size", "foo"], &["--size", "have no cases"]),
        (&["compare", "--command", "true", "true", "-i", "plain"], &["--implementation"]),
        (&["compare", "none.jsonl", "double:plain"], &["BASE", "'none.jsonl' is no record"]),
        (&["run", "double", "--blocks", "0"], &["--blocks"]),
        (&["run", "double", "--blocks", "2", "--in-process"], &["--in-process"]),
    ] {
        let told = tell(args);
        assert_eq!(told.code, Some(2), "{args:?}: {}{}", told.stdout, told.stderr);
        for part in parts {
            assert!(told.stderr.contains(part), "{args:?} does not say '{part}': {}", told.stderr);
        }
        assert!(told.stdout.is_empty(), "{args:?} wrote a result: {}", told.stdout);
    }
}

fn programs_are_compared_at_every_implementation() {
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let told = tell(&["compare", this, this, "--workload", "double", "-i", "plain,slower", "--n", "1,2"]);
    assert_eq!(told.code, Some(0), "{}{}", told.stdout, told.stderr);
    let cases = ["double/n=1 plain", "double/n=1 slower", "double/n=2 plain", "double/n=2 slower"];
    for (line, case) in told.stdout.lines().zip(cases) {
        assert!(line.starts_with(case) && line.contains("same within 1 %"), "{line}");
    }
    assert_eq!(told.stdout.lines().count(), 4);
    // The program that lacks what is asked for, and one that is not ours.
    let other = tell(&["compare", this, "/bin/false", "--workload", "double", "-i", "plain"]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
    assert!(other.stdout.contains("the candidate failed: it exited with code 1"), "{}", other.stdout);
}

fn commands_that_end_badly_say_so() {
    let compare =
        |a: &str, b: &str, more: &[&str]| tell(&[&["compare", "--command", a, b, "--fail-on", "never"], more].concat());
    for (command, parts) in [
        ("exit 7", &["the candidate failed: it exited with code 7"][..]),
        ("echo alas >&2; exit 1", &["exited with code 1; its last words: alas"]),
        ("kill -9 $$", &["it was ended by a signal"]),
        ("no-such-program-anywhere", &["exited with code 127", "not found"]),
    ] {
        let told = compare("true", command, &[]);
        assert_eq!(told.code, Some(1), "{command}: {}{}", told.stdout, told.stderr);
        for part in parts {
            assert!(told.stdout.contains(part), "'{command}' does not say '{part}': {}", told.stdout);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark").display().to_string();
    // Quick once, to be found in order; then never.
    let slow = format!("if [ -e {mark} ]; then sleep 1000; else touch {mark}; fi");
    let slow = compare("true", &slow, &["--time-limit", "1"]);
    assert!(slow.stdout.contains("it did not end within 1 s and was killed"), "{}", slow.stdout);
    // Whatever a machine does meanwhile, two blocks decide nothing; that there is a line with both names is what counts.
    let fine = compare("true", "exit 0", &["--blocks", "2"]);
    assert_eq!(fine.code, Some(0), "{}", fine.stderr);
    assert!(fine.stdout.contains("'exit 0'") && fine.stdout.contains("'true'"), "{}", fine.stdout);
}

/// A repository whose first commit has a program of our name that is none of ours, and whose second does not build.
fn a_revision_is_built_once_and_judged_like_any_program() {
    let dir = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    let at = |command: &str, args: &[&str]| {
        let mut command = Command::new(command);
        command.args(args).current_dir(dir.path());
        // A repository around this one must not answer for it.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command.output().unwrap()
    };
    let commit = |main: &str| {
        std::fs::write(dir.path().join("main.rs"), main).unwrap();
        at("git", &["add", "."]);
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
        let done = at("git", &[&who[..], &["commit", "-qm", "x", "--no-verify"]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    at("git", &["init", "-q"]);
    let manifest = format!(
        "[package]\nname = \"toy\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[[bin]]\nname = \"{name}\"\npath = \"main.rs\"\n[workspace]\n"
    );
    std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(dir.path().join(".gitignore"), "target\n").unwrap();
    commit("fn main() { println!(\"an older program\") }");
    commit("fn main() { nonsense }");
    let compare = |revision: &str, more: &[&str]| {
        let fixed = ["compare", "--baseline", revision, "--workload", "double", "-i", "plain"];
        let output = at(program.to_str().unwrap(), &[&fixed[..], more].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Told { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    };
    for time in ["first", "second"] {
        let told = compare("HEAD~1", &[]);
        assert_eq!(told.code, Some(1), "{}{}", told.stdout, told.stderr);
        assert!(told.stdout.contains("the baseline failed: it wrote 'an older program'"), "{}", told.stdout);
        assert_eq!(told.stderr.contains("building"), time == "first", "{time}: {}", told.stderr);
    }
    for (revision, more, parts) in [
        ("HEAD", &[][..], &["--baseline", "does not build", "nonsense"][..]),
        ("no-such-tag", &[], &["--baseline", "'no-such-tag' is no revision"]),
        ("--help", &[], &["--baseline"]),
        ("HEAD~1", &["--n", "0"], &["--n", "too small"]),
    ] {
        let told = compare(revision, more);
        assert_eq!(told.code, Some(2), "{revision}: {}{}", told.stdout, told.stderr);
        for part in parts {
            assert!(told.stderr.contains(part), "{revision} does not say '{part}': {}", told.stderr);
        }
    }
    let bare = tempfile::tempdir().unwrap();
    let fixed = ["compare", "--baseline", "HEAD", "--workload", "double"];
    let output = Command::new(&program).args(fixed).current_dir(bare.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no git repository"));
}

fn records_suggest_and_never_decide() {
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str, implementation: &str, more: &[&str], edit: &dyn Fn(String) -> String| {
        let out = dir.path().join(name);
        let out = out.to_str().unwrap();
        let fixed =
            ["run", "double", "-i", implementation, "--effort", "quick", "--no-plot", "--no-ceilings", "-o", out];
        let told = tell(&[&fixed[..], more].concat());
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let file = format!("{out}/record.jsonl");
        std::fs::write(&file, edit(std::fs::read_to_string(&file).unwrap())).unwrap();
        file
    };
    let same = |text: String| text;
    let plain = record("plain", "plain", &[], &same);
    let again = record("again", "plain", &[], &same);
    // The same program a little later, it seems.
    let slower = record("slower", "slower", &[], &|text| text.replace("\"slower\"", "\"plain\""));
    let single = record("single", "plain", &["--blocks", "1"], &same);
    let elsewhere = record("elsewhere", "plain", &[], &|text| text.replacen("\"cpu\":\"", "\"cpu\":\"another ", 1));
    let other = record("other", "twin", &[], &same);
    for (base, candidate, more, code, part) in [
        (&plain, &slower, &[][..], 0, "suggests 1.100x slower (processes 1.100 to 1.100)"),
        (&slower, &plain, &[], 0, "suggests 1.100x faster"),
        (&plain, &slower, &["--rope", "20"], 0, "suggests no difference beyond 20 %"),
        (&plain, &again, &[], 0, "suggests no difference beyond 1 %: 1.000x the time"),
        (&plain, &single, &[], 6, "suggests nothing: one process each"),
        (&plain, &elsewhere, &["--across-machines"], 0, "suggests no difference"),
        (&plain, &other, &[], 6, "nothing in common"),
        (&plain, &other, &[], 6, "double/n=3 plain fake: suggests nothing: only the baseline's record has it"),
        (&plain, &other, &[], 6, "twin fake: suggests nothing: only the candidate's record has it"),
        (&plain, &slower, &["--format", "junit"], 0, r#"<skipped message="suggests 1.100x slower"#),
        (&slower, &plain, &["--format", "github"], 0, "::notice title=double/n=3 plain fake::suggests 1.100x faster"),
    ] {
        let told = tell(&[&["compare", base, candidate], more].concat());
        assert_eq!(told.code, Some(code), "{candidate}: {}{}", told.stdout, told.stderr);
        let part = part.replace("nothing in common", "no case and implementation in common");
        assert!(told.stdout.contains(&part), "{candidate} does not say '{part}': {}", told.stdout);
    }
    let missing = tell(&["compare", &plain, "nowhere"]);
    assert!(missing.stderr.contains("CANDIDATE: 'nowhere' is no record"), "{}", missing.stderr);
    let refused = tell(&["compare", &plain, &elsewhere]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("different machines") && refused.stderr.contains("--across-machines"));
}

fn formats_for_gates() {
    let junit = compare("slower", &["--format", "junit"]);
    assert_eq!(junit.code, Some(3));
    assert!(junit.stdout.contains(r#"tests="1" failures="1" errors="0" skipped="0""#), "{}", junit.stdout);
    assert!(junit.stdout.contains(r#"<failure message="slower is 1.100x slower than plain"#), "{}", junit.stdout);
    let github = compare("plain", &["--format", "github"]);
    assert!(github.stdout.starts_with("::notice title=double/n=3::same within 1 %25"), "{}", github.stdout);
}

fn json_says_everything() {
    let told = compare("slower", &["--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let row = &rows[0];
    assert_eq!(row["case"], "double/n=3");
    assert_eq!(row["verdict"], "slower");
    assert_eq!(row["judged_by"], "processor time");
    assert_eq!(row["blocks"].as_array().unwrap().len(), 8);
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
        let told = tell(&[&fixed[..], &[out.to_str().unwrap()], more].concat());
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap();
        let row: serde_json::Value = serde_json::from_str(record.lines().nth(1).unwrap()).unwrap();
        row["samples"]["block"].as_array().unwrap().iter().map(|block| block.as_u64().unwrap()).collect()
    };
    let half = |count: usize, block: u64| vec![block; count];
    // 60 ms hold thirty slots of 2 ms.
    assert_eq!(blocks("two", &[]), [half(15, 0), half(15, 1)].concat());
    assert_eq!(blocks("three", &["--blocks", "3"]), [half(10, 0), half(10, 1), half(10, 2)].concat());
    assert_eq!(blocks("here", &["--in-process"]), half(30, 0));
}
