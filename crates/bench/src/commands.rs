//! Whole processes against each other: any two shell commands, run in turns.
//!
//! A block holds a few runs of each command in an order drawn by a coin; the shortest of each counts, since whatever else
//! happens on a machine only ever makes a process slower. What the commands answer is not judged: that they end well is.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use ellwand_core::device::{CpuScope, Device};
use ellwand_core::record::{Outcome, Sample};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rand::seq::SliceRandom;

use crate::compare::{ARMS, Basis, Decision, NoDecision, Taken, Terms, over_blocks};
use crate::cpu::{Cpu, children_cpu_ns};

/// How often the interrupt flag is looked at while a command runs.
const GLANCE: Duration = Duration::from_millis(100);
/// Runs of each command in a block.
const RUNS: usize = 5;

/// Compares two shell commands: baseline, then candidate.
///
/// # Errors
/// See [`NoDecision`]; a command that fails ends the comparison.
pub fn compare(
    commands: [&str; 2],
    terms: &Terms,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(usize, usize),
) -> Result<Decision, NoDecision> {
    let arms = [commands[0], commands[1], commands[0]];
    for (arm, command) in arms.iter().enumerate().take(commands.len()) {
        warm_up(command).map_err(|error| failed(arm, error))?;
        check(interrupt)?;
    }
    over_blocks(terms, on_block, &mut |coin, _| {
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for _ in 0..RUNS {
            let mut order: Vec<usize> = (0..arms.len()).collect();
            order.shuffle(coin);
            for arm in order {
                let sample = timed(arms[arm], terms.limits.open, interrupt);
                check(interrupt)?;
                samples[arm].push(sample.map_err(|error| failed(arm, error))?);
            }
        }
        Ok(Taken { samples, basis: Basis::Shortest, beside: Basis::Wall })
    })
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

/// One run that is not timed: files come into the page cache, and a command that cannot work says why.
fn warm_up(command: &str) -> Result<(), String> {
    let output = shell(command).output().map_err(|error| format!("sh could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
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
    let timing = Cpu::default().time(CpuScope::Process, &mut || ended = run(command, limit, interrupt));
    let after = children_cpu_ns();
    let status = ended?;
    if !status.success() {
        return Err(end(status));
    }
    let cpu_ns = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(Sample { iterations: 1, wall_ns: timing.wall_ns, cpu_ns, ..Sample::default() })
}

fn run(command: &str, limit: Duration, interrupt: &AtomicBool) -> Result<ExitStatus, String> {
    // A group of its own, so that what it started can be ended with it.
    let started = shell(command).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
    let mut child = started.map_err(|error| format!("sh could not be started: {error}"))?;
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        // Sleeps until the command ends, which is when `done` is dropped; kills it when its time is up or the user stops.
        let watch = scope.spawn(move || {
            let mut left = limit;
            while waiting.recv_timeout(left.min(GLANCE)) == Err(RecvTimeoutError::Timeout) {
                left = left.saturating_sub(GLANCE);
                if left.is_zero() || interrupt.load(Relaxed) {
                    if let Ok(group) = group {
                        let _ = killpg(group, Signal::SIGKILL);
                    }
                    return true;
                }
            }
            false
        });
        let status = child.wait().map_err(|error| format!("it could not be waited for: {error}"));
        drop(done);
        match watch.join() {
            Ok(true) => Err(format!("it did not end within {} s and was killed", limit.as_secs_f64())),
            _ => status,
        }
    })
}
