//! Compares any two shell commands as whole processes, run in turns.
//!
//! A block holds a few runs of each command in random order, fewer the longer they take. The shortest run of each
//! counts, because delays only make a process slower; or all runs, if they scatter less. CPU time counts if an
//! undisturbed run waits for nothing (`Basis::of_runs`). Every run must exit successfully. The output is compared only
//! on request, in separate runs before and after the timed ones. A preparation runs untimed before each run. The time
//! budget begins with the very first run; a run still going at its end is killed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ellwand_core::device::{CpuScope, Device};
use ellwand_core::record::{Outcome, Sample};
use ellwand_core::verdict::Verdict;
use rand::seq::SliceRandom;

use crate::awake::Awake;
use crate::check::plain;
use crate::compare::{ARMS, BASELINE, BlockSamples, Choice, Decision, NoDecision, Rounds, Spent, Terms, over_blocks};
use crate::cpu::{Cpu, children_cpu_ns};
use crate::guard::Guard;
use crate::worker::shared::unnamed;

/// Poll interval of the interrupt flag while a command runs.
const GLANCE: Duration = Duration::from_millis(100);
/// Maximum number of runs of each command in a block of usual length.
const RUNS: f64 = 5.0;
/// Number of blocks that should fit into the time, unless a block of one run each is too long for that.
const BLOCKS: f64 = 24.0;

const NOTHING_PRINTED: &str = "it prints nothing to stdout, so there is no output to compare";

/// Two shell commands, baseline first.
#[derive(Debug, Clone, Copy)]
pub struct Commands<'a> {
    /// What is timed.
    pub timed: [&'a str; 2],
    /// What runs before each run of them, untimed.
    pub prepare: [Option<&'a str>; 2],
    /// True if both must print the same non-empty text to stdout.
    pub same_output: bool,
}

/// Compares two shell commands.
///
/// # Errors
/// See [`NoDecision`]. A command that fails or prints different output ends the comparison, and so does a suspend of the
/// machine within a block.
pub fn compare(
    commands: Commands,
    terms: &Terms,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(f64, f64),
) -> Result<Decision, NoDecision> {
    compare_watched(commands, terms, interrupt, on_block, &Awake::new)
}

/// `watch` begins to watch for a suspend.
fn compare_watched(
    commands: Commands,
    terms: &Terms,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(f64, f64),
    watch: &dyn Fn() -> Awake,
) -> Result<Decision, NoDecision> {
    let Commands { timed: [baseline, candidate], same_output, .. } = commands;
    let arms = [baseline, candidate, baseline];
    // Both commands join the guard's group, so anything that they leave running is killed with it.
    let guard = Guard::start().map_err(|error| failed(0, format!("sh could not be started: {error}")))?;
    let limit = terms.limits.open;
    let runner = Runner { guard: &guard, commands, limit, interrupt, begin: Instant::now(), longest: Cell::default() };
    let run_s = runner.judged(terms.budget_s)?;
    let fewest = terms.rule.spending().looks().first().copied().unwrap_or(0);
    // The outputs are compared again after the timed runs.
    let last_s = if same_output { 2.0 * run_s } else { 0.0 };
    let fewest_s = runner.gone_s() + (fewest * arms.len()) as f64 * run_s + last_s;
    let whole_s = terms.budget_s;
    let terms = &terms.clone().within((whole_s - last_s).max(0.0));
    let usual = ((terms.budget_s - runner.gone_s()) / (BLOCKS * arms.len() as f64 * run_s)).clamp(1.0, RUNS).floor();
    let decided = over_blocks(terms, on_block, &mut |coin, ask| {
        let runs = match ask.rounds {
            Rounds::About(runs) => runs.max(1.0) as u32,
            Rounds::Usual | Rounds::Many => usual as u32,
        };
        let (start, awake) = (Instant::now(), watch());
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for round in 0..runs {
            let mut order: Vec<usize> = (0..arms.len()).collect();
            order.shuffle(coin);
            for (position, arm) in order.into_iter().enumerate() {
                let sample = runner.timed(arm, arms[arm], terms.budget_s)?;
                awake.check().map_err(|outcome| NoDecision::Ended { arm: ARMS[arm], outcome })?;
                samples[arm].push(Sample { round, position: position as u32, ..sample });
            }
        }
        let rounds_s = start.elapsed().as_secs_f64();
        let spent = Spent { start_s: 0.0, rounds_s, gone_s: runner.gone_s(), usual };
        Ok(BlockSamples { samples, basis: Choice::ByRuns, spent })
    });
    let decision = decided.map_err(|end| match end {
        NoDecision::OutOfTime(None) | NoDecision::Late(_) if fewest_s > whole_s => {
            NoDecision::OutOfTime(Some(fewest_s))
        }
        NoDecision::OutOfTime(Some(needed_s)) => NoDecision::OutOfTime(Some(needed_s + last_s)),
        other => other,
    })?;
    let decision = Decision { needed_s: decision.needed_s.map(|needed_s| needed_s + last_s), ..decision };
    if same_output {
        // A decision is not discarded because its last two runs are somewhat slower than the first two.
        runner.judged((runner.gone_s() + 4.0 * last_s).max(terms.budget_s))?;
    }
    Ok(decision)
}

/// The state that all runs of a comparison share.
struct Runner<'a> {
    guard: &'a Guard,
    commands: Commands<'a>,
    /// Time limit of a run, whatever is left of the budget.
    limit: Duration,
    interrupt: &'a AtomicBool,
    begin: Instant,
    /// The longest run so far.
    longest: Cell<Duration>,
}

impl Runner<'_> {
    /// Seconds since the comparison began.
    fn gone_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Runs each command once outside the timed runs, until `end_s` at most: this loads its files into the page cache,
    /// detects a command that cannot work and, on request, compares the outputs. Returns the mean time of the two, in
    /// seconds.
    fn judged(&self, end_s: f64) -> Result<f64, NoDecision> {
        let Commands { timed, same_output, .. } = self.commands;
        let begin = Instant::now();
        let mut printed = [Vec::new(), Vec::new()];
        for (arm, printed) in printed.iter_mut().enumerate() {
            *printed = self.warm_up(arm, timed[arm], end_s)?;
            if same_output && arm == BASELINE && printed.is_empty() {
                return Err(failed(arm, NOTHING_PRINTED.into()));
            }
        }
        let run_s = begin.elapsed().as_secs_f64() / printed.len() as f64;
        let [baseline, candidate] = printed;
        match difference(&baseline, &candidate) {
            Some(detail) if same_output => {
                let outcome = Outcome::Wrong { verdict: Verdict::wrong(detail) };
                Err(NoDecision::Ended { arm: ARMS[1], outcome })
            }
            _ => Ok(run_s),
        }
    }

    /// Runs a command after its preparation and returns its stdout.
    fn warm_up(&self, arm: usize, command: &str, end_s: f64) -> Result<Vec<u8>, NoDecision> {
        self.prepare(arm, end_s)?;
        self.printed(arm, command, end_s)?.map_err(|end| failed(arm, end))
    }

    /// Runs the preparation of a command, if it has one.
    fn prepare(&self, arm: usize, end_s: f64) -> Result<(), NoDecision> {
        let Some(command) = self.commands.prepare[arm % 2] else { return Ok(()) };
        let printed = self.printed(arm, command, end_s)?;
        printed.map(drop).map_err(|end| failed(arm, format!("its preparation `{command}`: {end}")))
    }

    /// What a command prints to stdout, or how it ended if it did not succeed. The output goes to files: a pipe would
    /// stay open until the last process that the command leaves running has ended.
    fn printed(&self, arm: usize, command: &str, end_s: f64) -> Result<Result<Vec<u8>, String>, NoDecision> {
        let lost = |error: io::Error| failed(arm, format!("its output cannot be stored: {error}"));
        let printed = self.commands.same_output.then(unnamed).transpose().map_err(lost)?;
        let complaints = unnamed().map_err(lost)?;
        let mut shell = shell(command);
        shell.stdout(printed.as_ref().map_or(Ok(Stdio::null()), writes).map_err(lost)?);
        shell.stderr(writes(&complaints).map_err(lost)?);
        let status = self.run(arm, &mut shell, end_s)?.status;
        if status.success() {
            return Ok(Ok(printed.map_or(Ok(Vec::new()), written).map_err(lost)?));
        }
        let text = plain(&written(complaints).map_err(lost)?);
        let words: String = text.trim().chars().rev().take(500).collect::<Vec<_>>().into_iter().rev().collect();
        let end = end(status);
        Ok(Err(if words.is_empty() { end } else { format!("{end}; its last words: {words}") }))
    }

    /// Wall time of one process, with its CPU time and that of its children.
    fn timed(&self, arm: usize, command: &str, end_s: f64) -> Result<Sample, NoDecision> {
        self.prepare(arm, end_s)?;
        let mut ended = Err(NoDecision::OutOfTime(None));
        let before = children_cpu_ns();
        let timing = Cpu::default().time(CpuScope::Process, &mut || {
            ended = self.run(arm, shell(command).stdout(Stdio::null()).stderr(Stdio::null()), end_s);
        });
        let after = children_cpu_ns();
        let status = ended?.status;
        if !status.success() {
            return Err(failed(arm, format!("{} in a timed run, whose output is not kept", end(status))));
        }
        let cpu_ns = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(Sample { iterations: 1, wall_ns: timing.wall_ns, cpu_ns, ..Sample::default() })
    }

    /// Runs a command to its end, within its own limit and `end_s` seconds after the comparison began.
    fn run(&self, arm: usize, command: &mut Command, end_s: f64) -> Result<Output, NoDecision> {
        // Without a budget the time is infinite, which a `Duration` cannot hold.
        let left = Duration::try_from_secs_f64((end_s - self.gone_s()).max(0.0)).unwrap_or(Duration::MAX);
        if left.is_zero() {
            return Err(NoDecision::OutOfTime(None));
        }
        let (limit, start) = (left.min(self.limit), Instant::now());
        let output = watched(command, self.guard, limit, self.interrupt);
        check(self.interrupt)?;
        let longest = self.longest.get();
        match output.map_err(|error| failed(arm, error.to_string()))? {
            Some(output) => {
                self.longest.set(longest.max(start.elapsed()));
                Ok(output)
            }
            None if left < self.limit && !hangs(left, longest) => Err(NoDecision::Late(ARMS[arm])),
            None => Err(failed(arm, CommandError::Late(limit).to_string())),
        }
    }
}

/// True if a run that was killed after `left` hangs, so more time would not help: the longest run before took `longest`.
fn hangs(left: Duration, longest: Duration) -> bool {
    !longest.is_zero() && left >= Duration::from_secs(1).max(longest.saturating_mul(10))
}

/// Describes the first line in which two outputs differ.
fn difference(baseline: &[u8], candidate: &[u8]) -> Option<String> {
    if baseline == candidate {
        return None;
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (baseline, candidate) = (lines(baseline), lines(candidate));
    let at = baseline.iter().zip(&candidate).take_while(|(a, b)| a == b).count();
    let [a, b] = [&baseline, &candidate].map(|lines| lines.get(at).map_or(&[][..], Vec::as_slice));
    let first = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let excerpt = |lines: &[Vec<u8>]| match lines.get(at) {
        Some(line) => {
            // Starts a little before the difference, because two lines may begin with the same long text.
            let from = first.saturating_sub(20);
            let text: String = String::from_utf8_lossy(&line[from.min(line.len())..]).chars().take(80).collect();
            let dots = if from > 0 { ".." } else { "" };
            format!("'{dots}{}' (length {})", text.escape_debug(), line.len())
        }
        None => "nothing more".into(),
    };
    let (place, line) = (first + 1, at + 1);
    let (candidate, baseline) = (excerpt(&candidate), excerpt(&baseline));
    Some(format!("its output differs in line {line}, byte {place}: {candidate}, the baseline's is {baseline}"))
}

fn check(interrupt: &AtomicBool) -> Result<(), NoDecision> {
    if interrupt.load(Relaxed) { Err(NoDecision::Interrupted) } else { Ok(()) }
}

fn failed(arm: usize, error: String) -> NoDecision {
    NoDecision::Ended { arm: ARMS[arm], outcome: Outcome::Failed { error } }
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    shell
}

fn writes(file: &File) -> io::Result<Stdio> {
    Ok(file.try_clone()?.into())
}

fn written(mut file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(text)
}

fn end(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it exited with code {code}"),
        None => format!("it was ended by a signal ({status})"),
    }
}

/// Why a command has no output.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program is missing, or the system refuses to start it.
    #[error("{program} could not be started: {error}")]
    Start {
        /// The program as the command names it.
        program: String,
        /// Message of the system.
        error: io::Error,
    },
    /// The system lost the process.
    #[error("waiting for it failed: {0}")]
    Wait(io::Error),
    /// No thread could be started to enforce the limit.
    #[error("it was killed because no thread could be started to enforce its time limit: {0}")]
    Unwatched(io::Error),
    /// It ran past this limit, or the user interrupted.
    #[error("it did not end within {} s and was killed", .0.as_secs_f64())]
    Late(Duration),
}

/// Runs a command to its end. Kills it, with everything it started, at the time limit or if the user interrupts; it
/// also ends with the guard, whose process group it joins.
///
/// # Errors
/// If the command cannot be started, or was killed.
pub fn run(
    command: &mut Command,
    guard: &Guard,
    limit: Duration,
    interrupt: &AtomicBool,
) -> Result<Output, CommandError> {
    watched(command, guard, limit, interrupt)?.ok_or(CommandError::Late(limit))
}

/// As [`run`]; `None` if the command was killed at the time limit or by the user.
fn watched(
    command: &mut Command,
    guard: &Guard,
    limit: Duration,
    interrupt: &AtomicBool,
) -> Result<Option<Output>, CommandError> {
    let child = command.process_group(guard.group()).spawn();
    let program = || command.get_program().to_string_lossy().into_owned();
    let child = child.map_err(|error| CommandError::Start { program: program(), error })?;
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        // Sleeps until the command ends, which drops `done`; kills the command at the time limit or on interrupt.
        let watch = std::thread::Builder::new().spawn_scoped(scope, move || {
            let mut left = limit;
            while waiting.recv_timeout(left.min(GLANCE)) == Err(RecvTimeoutError::Timeout) {
                left = left.saturating_sub(GLANCE);
                if left.is_zero() || interrupt.load(Relaxed) {
                    guard.kill();
                    return true;
                }
            }
            false
        });
        if watch.is_err() {
            guard.kill();
        }
        let output = child.wait_with_output().map_err(CommandError::Wait);
        drop(done);
        match watch.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(true)) => Ok(None),
            Err(error) => Err(CommandError::Unwatched(error)),
            Ok(_) => output.map(Some),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Limits;

    fn ended(commands: [&str; 2], same_output: bool, budget_s: f64) -> NoDecision {
        let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap().within(budget_s);
        let commands = Commands { timed: commands, prepare: [None, None], same_output };
        compare(commands, &terms, &AtomicBool::new(false), &mut |_, _| {}).unwrap_err()
    }

    #[test]
    fn a_suspend_within_a_block_ends_the_comparison() {
        let terms = Terms::new(0.5, 0.01, None, Limits::default(), 1).unwrap();
        let commands = Commands { timed: ["true", "true"], prepare: [None, None], same_output: false };
        let clocks = crate::awake::fake::Clocks::default();
        let watch = || {
            let awake = clocks.watched();
            clocks.suspended.set(clocks.suspended.get() + Duration::from_secs(30));
            awake
        };
        let ended = compare_watched(commands, &terms, &AtomicBool::new(false), &mut |_, _| {}, &watch);
        let Err(NoDecision::Ended { outcome, .. }) = ended else { panic!("{ended:?}") };
        assert!(
            outcome.reason().is_some_and(|why| why.starts_with("the machine was suspended for 30.000 s")),
            "{outcome:?}"
        );
    }

    #[test]
    fn each_run_follows_its_own_preparation() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("fresh").display().to_string();
        // Fails unless the preparation has made the file since the last run.
        let (once, make) = (format!("rm '{file}'"), format!("echo 1 > '{file}'"));
        let terms = Terms::new(0.5, 0.01, None, Limits::default(), 1).unwrap().within(3.0);
        let run = |prepare| {
            let commands = Commands { timed: [&once, &once], prepare, same_output: false };
            compare(commands, &terms, &AtomicBool::new(false), &mut |_, _| {})
        };
        let both = Some(make.as_str());
        assert!(!matches!(run([both, both]), Err(NoDecision::Ended { .. })));
        let Err(NoDecision::Ended { arm, .. }) = run([both, None]) else { panic!("the candidate cannot succeed") };
        assert_eq!(arm, ARMS[1]);
        let Err(NoDecision::Ended { outcome, .. }) = run([Some("echo no >&2; exit 3"), both]) else { panic!("no end") };
        let why = "its preparation `echo no >&2; exit 3`: it exited with code 3; its last words: no";
        assert_eq!(outcome.reason(), Some(why));
    }

    #[test]
    fn the_first_run_is_within_the_time_too() {
        // Without the limit each command would end, and with a failure.
        let slow = "sleep 2; exit 7";
        assert_eq!(ended([slow, slow], false, 0.2), NoDecision::Late(ARMS[0]));
        assert_eq!(ended(["echo", slow], true, 0.2), NoDecision::Late(ARMS[1]));
    }

    #[test]
    fn a_timed_run_is_killed_when_the_time_is_up() {
        // Quick in its first run, which leaves a file, then slow.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ran").display().to_string();
        let later = format!("test -e '{file}' || {{ touch '{file}'; exit 0; }}; sleep 2; exit 7");
        let end = ended(["true", &later], false, 0.5);
        assert!(matches!(end, NoDecision::OutOfTime(Some(_)) | NoDecision::Late("the candidate")), "{end:?}");
    }

    #[test]
    fn a_command_that_hangs_late_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs").display().to_string();
        // Run 15 is in a later block.
        let later = format!("echo >> '{file}'; test $(wc -l < '{file}') -lt 15 || sleep 60");
        let terms = Terms::new(0.0001, 0.01, None, Limits::default(), 1).unwrap().within(4.0);
        let commands = Commands { timed: ["true", &later], prepare: [None, None], same_output: false };
        let end = compare(commands, &terms, &AtomicBool::new(false), &mut |_, _| {}).unwrap_err();
        let NoDecision::Ended { arm, outcome } = end else { panic!("{end:?}") };
        let why = outcome.reason().unwrap();
        assert!(
            arm == ARMS[1] && why.starts_with("it did not end within ") && why.ends_with(" and was killed"),
            "{why}"
        );
        let [second, short] = [1000, 900].map(Duration::from_millis);
        assert!(hangs(second, second / 10) && !hangs(second, second / 9) && !hangs(short, short / 99));
    }

    #[test]
    fn first_runs_show_how_much_time_is_needed() {
        let NoDecision::OutOfTime(Some(needed_s)) = ended(["sleep 0.5", "sleep 0.5"], false, 2.0) else {
            panic!("the time is not enough, and what is enough is known")
        };
        assert!(needed_s > 0.5 * 20.0, "{needed_s}");
        let slow = "sleep 0.5; echo 1";
        let NoDecision::OutOfTime(Some(needed_s)) = ended([slow, slow], true, 2.0) else {
            panic!("the time is not enough, and what is enough is known")
        };
        assert!(needed_s > 0.5 * 22.0, "with the last comparison of the outputs: {needed_s}");
    }

    #[test]
    fn a_command_ends_before_what_it_leaves_running() {
        let terms = Terms::new(0.5, 0.01, None, Limits::default(), 1).unwrap().within(30.0);
        let commands = Commands { timed: ["sleep 60 & echo 1"; 2], prepare: [None, None], same_output: true };
        assert!(compare(commands, &terms, &AtomicBool::new(false), &mut |_, _| {}).is_ok());
    }

    #[test]
    fn exceeding_the_limit_of_a_command_is_a_failure_and_not_lack_of_time() {
        let limits = Limits { open: Duration::from_millis(200), ..Limits::default() };
        let terms = Terms::new(0.01, 0.01, None, limits, 1).unwrap();
        let commands = Commands { timed: ["sleep 2", "true"], prepare: [None, None], same_output: false };
        let said = compare(commands, &terms, &AtomicBool::new(false), &mut |_, _| {}).unwrap_err();
        assert_eq!(said, failed(0, "it did not end within 0.2 s and was killed".into()));
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(
            difference(b"a\nb\n", b"a\nc\n").unwrap(),
            "its output differs in line 2, byte 1: 'c' (length 1), the baseline's is 'b' (length 1)"
        );
        assert!(difference(b"a", b"a\nb").unwrap().contains("'b' (length 1), the baseline's is nothing more"));
        let long = |end: &str| "x".repeat(500) + end;
        let said = difference(long("a\x1b[2J").as_bytes(), long("b").as_bytes()).unwrap();
        assert!(
            said.contains("byte 501") && said.contains("xb' (length 501)") && said.contains(r"xa\u{1b}[2J'"),
            "{said}"
        );
        assert!(difference(b"", b"\xff").unwrap().contains("line 1"));
    }
}
