//! Whole processes against each other: any two shell commands, run in turns.
//!
//! A block holds a few runs of each command in an order drawn by a coin; the shortest of each counts, since whatever else
//! happens on a machine only ever makes a process slower. That the commands end well is judged at every run; what they
//! print only where that is asked for, in a run of its own before and after the timed ones.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use ellwand_core::device::{CpuScope, Device};
use ellwand_core::record::{Outcome, Sample};
use ellwand_core::verdict::Verdict;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rand::seq::SliceRandom;

use crate::compare::{ARMS, Basis, Choice, Decision, NoDecision, Taken, Terms, over_blocks};
use crate::cpu::{Cpu, children_cpu_ns};

/// How often the interrupt flag is looked at while a command runs.
const GLANCE: Duration = Duration::from_millis(100);
/// Runs of each command in a block.
const RUNS: usize = 5;

/// Compares two shell commands: baseline, then candidate. With `same_output` both must print the same to stdout, and
/// something.
///
/// # Errors
/// See [`NoDecision`]; a command that fails, or prints something else, ends the comparison.
pub fn compare(
    commands: [&str; 2],
    same_output: bool,
    terms: &Terms,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(usize, usize),
) -> Result<Decision, NoDecision> {
    let arms = [commands[0], commands[1], commands[0]];
    judged(commands, same_output, terms.limits.open, interrupt)?;
    let decision = over_blocks(terms, on_block, &mut |coin, _| {
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for round in 0..RUNS {
            let mut order: Vec<usize> = (0..arms.len()).collect();
            order.shuffle(coin);
            for (position, arm) in order.into_iter().enumerate() {
                let sample = timed(arms[arm], terms.limits.open, interrupt);
                check(interrupt)?;
                let sample = sample.map_err(|error| failed(arm, error))?;
                samples[arm].push(Sample { round: round as u32, position: position as u32, ..sample });
            }
        }
        Ok(Taken { samples, basis: Choice::Fixed(Basis::Shortest, Basis::Wall), spent_s: [0.0; 2] })
    })?;
    if same_output {
        judged(commands, same_output, terms.limits.open, interrupt)?;
    }
    Ok(decision)
}

/// One run of each that is not timed: files come into the page cache, a command that cannot work says why, and what both
/// print is held against each other where that is asked for.
fn judged(commands: [&str; 2], same_output: bool, limit: Duration, interrupt: &AtomicBool) -> Result<(), NoDecision> {
    let mut printed = [Vec::new(), Vec::new()];
    for (arm, printed) in printed.iter_mut().enumerate() {
        let output = warm_up(commands[arm], limit, interrupt);
        check(interrupt)?;
        *printed = output.map_err(|error| failed(arm, error))?;
        if same_output && printed.is_empty() {
            return Err(failed(arm, "it prints nothing to stdout, so that there is nothing to compare".into()));
        }
    }
    let [baseline, candidate] = printed;
    match difference(&baseline, &candidate) {
        Some(detail) if same_output => {
            let outcome = Outcome::Wrong { verdict: Verdict { passed: false, max_error: None, detail } };
            Err(NoDecision::Ended { arm: ARMS[1], outcome })
        }
        _ => Ok(()),
    }
}

/// The first line in which two outputs differ, in words.
fn difference(baseline: &[u8], candidate: &[u8]) -> Option<String> {
    if baseline == candidate {
        return None;
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (baseline, candidate) = (lines(baseline), lines(candidate));
    let at = baseline.iter().zip(&candidate).take_while(|(a, b)| a == b).count();
    let told = |lines: &[Vec<u8>]| match lines.get(at) {
        Some(line) => format!("'{}'", String::from_utf8_lossy(line).chars().take(80).collect::<String>()),
        None => "nothing more".into(),
    };
    Some(format!("its output differs in line {}: {}, the baseline's is {}", at + 1, told(&candidate), told(&baseline)))
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

/// What a run prints to stdout.
fn warm_up(command: &str, limit: Duration, interrupt: &AtomicBool) -> Result<Vec<u8>, String> {
    let output = run(shell(command).stdout(Stdio::piped()).stderr(Stdio::piped()), limit, interrupt)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let words: String = text.trim().chars().rev().take(500).collect::<Vec<_>>().into_iter().rev().collect();
    Err(if words.is_empty() { end(output.status) } else { format!("{}; its last words: {words}", end(output.status)) })
}

fn end(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it exited with code {code}"),
        None => format!("it was ended by a signal ({status})"),
    }
}

/// Start to end of one process, with the processor time of it and its children.
fn timed(command: &str, limit: Duration, interrupt: &AtomicBool) -> Result<Sample, String> {
    let mut ended = Err("it was not started".to_string());
    let before = children_cpu_ns();
    let timing = Cpu::default().time(CpuScope::Process, &mut || {
        ended = run(shell(command).stdout(Stdio::null()).stderr(Stdio::null()), limit, interrupt);
    });
    let after = children_cpu_ns();
    let status = ended?.status;
    if !status.success() {
        return Err(end(status));
    }
    let cpu_ns = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(Sample { iterations: 1, wall_ns: timing.wall_ns, cpu_ns, ..Sample::default() })
}

/// The process group of the command that runs at this moment; 0 when none does.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Ends the command that runs at this moment with all that it has started: for a program that is about to exit in the middle
/// of a run, since a group of its own hears nothing of its parent's end.
pub fn end_running() {
    let group = RUNNING.swap(0, SeqCst);
    if group > 0 {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

/// Start to end of a command, which is killed with all that it has started when its time is up or the user stops.
fn run(command: &mut Command, limit: Duration, interrupt: &AtomicBool) -> Result<Output, String> {
    // A group of its own, so that what it started can be ended with it.
    let child = command.process_group(0).spawn().map_err(|error| format!("sh could not be started: {error}"))?;
    let group = i32::try_from(child.id()).unwrap_or(0);
    RUNNING.store(group, SeqCst);
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        // Sleeps until the command ends, which is when `done` is dropped; kills it when its time is up or the user stops.
        let watch = scope.spawn(move || {
            let mut left = limit;
            while waiting.recv_timeout(left.min(GLANCE)) == Err(RecvTimeoutError::Timeout) {
                left = left.saturating_sub(GLANCE);
                if left.is_zero() || interrupt.load(Relaxed) {
                    end_running();
                    return true;
                }
            }
            false
        });
        let output = child.wait_with_output().map_err(|error| format!("it could not be waited for: {error}"));
        RUNNING.store(0, SeqCst);
        drop(done);
        match watch.join() {
            Ok(true) => Err(format!("it did not end within {} s and was killed", limit.as_secs_f64())),
            _ => output,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_first_line_that_differs_is_told() {
        assert_eq!(difference(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(
            difference(b"a\nb\n", b"a\nc\n").unwrap(),
            "its output differs in line 2: 'c', the baseline's is 'b'"
        );
        assert!(difference(b"a", b"a\nb").unwrap().contains("line 2: 'b', the baseline's is nothing more"));
        assert!(difference(b"", b"\xff").unwrap().contains("line 1"));
    }
}
