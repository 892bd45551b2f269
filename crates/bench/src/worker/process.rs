//! The parent's side: starts a worker, asks questions with a time limit, and cleans up however the worker ends.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::COMMAND;
use super::protocol::{Answer, Ask};
use crate::check::plain;
use crate::guard;

/// Bytes kept of a worker's stderr, and how many of them from its beginning: the cause precedes the backtrace.
const LAST_WORDS: usize = 2048;
const FIRST_WORDS: usize = 1024;
/// Marks the cut.
const CUT: &[u8] = b"\n[..]\n";

/// Cuts out the middle of a text that is too long.
fn cut(words: &mut Vec<u8>) {
    if words.len() > LAST_WORDS {
        let tail = words.len() - (LAST_WORDS - FIRST_WORDS - CUT.len());
        words.splice(FIRST_WORDS..tail, CUT.iter().copied());
    }
}
/// Longest valid answer; anything longer is not from a worker.
const LONGEST_ANSWER: usize = 16 << 20;
/// Poll interval of the interrupt flag.
const GLANCE: Duration = Duration::from_millis(100);
/// A slot hangs if it outlasts the time for the whole by this many times its expected cost, but never within the first second:
/// a busy machine may preempt its process.
const OVERTIME: u32 = 4;
const PREEMPTED: Duration = Duration::from_secs(1);
/// How long a worker may take to close before it is killed.
const FAREWELL: Duration = Duration::from_secs(2);

/// A variable in the environment of every worker.
const PADDING: &str = "ELLWAND_PADDING";

/// How to start workers if this program's file is an interpreter.
static HOST: OnceLock<Launch> = OnceLock::new();

/// How to start a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments; the last one turns the program into a worker.
    pub args: Vec<OsString>,
}

impl Launch {
    /// A program built on the `ellwand` facade.
    pub fn program(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: vec![COMMAND.into()] }
    }

    /// Makes [`Launch::this_program`] return `self`, for a host that an interpreter runs. Only the first call counts.
    pub fn hosts_this_program(self) {
        let _ = HOST.set(self);
    }

    /// True if a process started with these arguments becomes a worker: they are this program's own command line, or a
    /// host has named how its workers are started.
    pub fn serves(args: &[OsString]) -> bool {
        HOST.get().is_some() || args.iter().cloned().eq(std::env::args_os())
    }

    /// The running program, even if its file has been replaced since it started.
    pub fn this_program() -> Self {
        if let Some(host) = HOST.get() {
            return host.clone();
        }
        let link = PathBuf::from("/proc/self/exe");
        let program = if link.exists() { link } else { std::env::current_exe().unwrap_or(link) };
        Self::program(program)
    }

    fn command(&self, padding: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        // The environment is above the stack, so its size shifts the stack (Mytkowicz et al. 2009).
        command.env(PADDING, "x".repeat(padding));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A separate process group: Ctrl-C reaches only the parent, which then ends its workers.
        command.process_group(0);
        command
    }
}

/// Time limits for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For inputs, preparation, first run, check and warm-up together.
    pub open: Duration,
    /// For a slot, in addition to fifty times its expected cost; a time budget shortens it.
    pub slot: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open: Duration::from_secs(600), slot: Duration::from_secs(30) }
    }
}

impl Limits {
    /// These limits, with `open` cut off at `end`.
    pub(crate) fn until(self, end: Option<Instant>) -> Self {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        Self { open: self.open.min(left), ..self }
    }

    /// The limit for a slot that is expected to take `cost_ns`, if `left` of a time budget is left; `None` without one.
    pub fn slot(&self, cost_ns: u64, left: Option<Duration>) -> Duration {
        let usual = self.slot + Duration::from_nanos(cost_ns.saturating_mul(50));
        let overtime = Duration::from_nanos(cost_ns).saturating_mul(OVERTIME);
        left.map_or(usual, |left| usual.min(left.saturating_add(overtime).max(PREEMPTED)))
    }
}

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The worker crashed, hung, was killed or sent an invalid answer; with the end of its stderr.
    #[error("{0}")]
    Broken(String),
}

/// A worker process. Dropping it kills and reaps the process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// Its process group; `None` once killed.
    group: Option<i32>,
    questions: Option<ChildStdin>,
    /// What the worker does to answer the last question.
    step: &'static str,
    answers: ChildStdout,
    errors: Option<ChildStderr>,
    received: Vec<u8>,
    last_words: Vec<u8>,
    stopped: bool,
}

impl Worker {
    /// Starts a worker with `padding` additional bytes of environment.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn spawn(launch: &Launch, padding: usize) -> Result<Self, Lost> {
        let refused = |error: &dyn std::fmt::Display| {
            Lost::Broken(format!("the worker {} could not be started: {error}", launch.program.display()))
        };
        // Each worker would start another one, without end.
        if std::env::var_os(PADDING).is_some() {
            return Err(refused(&"this process is one, and its program did not hand its arguments to Ellwand"));
        }
        let mut child = launch.command(padding).spawn().map_err(|error| refused(&error))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (questions @ Some(_), Some(answers), errors) => {
                let group = i32::try_from(child.id()).ok();
                group.into_iter().for_each(guard::watch);
                let (step, received, last_words) = ("starting", Vec::new(), Vec::new());
                Ok(Self { child, group, questions, step, answers, errors, received, last_words, stopped: false })
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                Err(refused(&"it has no pipes"))
            }
        }
    }

    /// Process id of the worker.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a question without waiting for the answer, so that several workers can start in parallel.
    ///
    /// # Errors
    /// If the worker is gone.
    pub fn put(&mut self, ask: &Ask) -> Result<(), Lost> {
        self.step = ask.step();
        let line = match serde_json::to_string(ask) {
            Ok(line) => line + "\n",
            Err(error) => return Err(Lost::Broken(format!("the question cannot be written: {error}"))),
        };
        let written = self.questions.as_mut().map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()));
        // A worker that has ended closes the pipe; its stderr explains more than "broken pipe".
        if written.is_err() { Err(self.exit_error()) } else { Ok(()) }
    }

    /// Waits for the answer to the last question; calls `on_wait` several times a second with what the worker is doing.
    ///
    /// # Errors
    /// [`Lost`] if no valid answer comes; the worker has ended by then.
    pub fn receive(
        &mut self,
        limit: Duration,
        interrupt: &AtomicBool,
        on_wait: &mut dyn FnMut(&'static str),
    ) -> Result<Answer, Lost> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                match std::str::from_utf8(&line).ok().and_then(|line| Answer::read(line).ok()) {
                    Some(Answer::Step { step }) => self.step = step.describe(),
                    Some(answer) => return Ok(answer),
                    None => return Err(self.invalid_answer(&line)),
                }
                continue;
            }
            on_wait(self.step);
            if self.received.len() > LONGEST_ANSWER {
                let start = self.received[..200].to_vec();
                return Err(self.invalid_answer(&start));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.stopped = is_stopped(self.id());
                self.kill();
                let (step, limit, words) = (self.step, seconds(limit), self.stderr_suffix());
                let why = if self.stopped { ", because its process had been stopped (SIGSTOP)," } else { "" };
                return Err(Lost::Broken(format!(
                    "it did not answer within {limit} while {step}{why} and was killed{words}"
                )));
            }
            let readable = match self.wait_readable(left.min(GLANCE)) {
                Ok(readable) => readable,
                Err(error) => return Err(Lost::Broken(format!("its pipes cannot be polled: {error}"))),
            };
            if interrupt.load(Relaxed) {
                self.kill();
                return Err(Lost::Interrupted);
            }
            if readable.errors {
                self.read_errors();
            }
            if readable.answers {
                let mut buffer = [0; 16 << 10];
                match self.answers.read(&mut buffer) {
                    Ok(0) => return Err(self.exit_error()),
                    Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Lost::Broken(format!("its answers cannot be read: {error}"))),
                }
            }
        }
    }

    /// True if it did not answer because a signal had stopped its process.
    pub fn was_stopped(&self) -> bool {
        self.stopped
    }

    /// What it has written to stderr since the last call.
    pub fn take_stderr(&mut self) -> Option<String> {
        while self.errors_waiting() {
            self.read_errors();
        }
        let text = plain(&std::mem::take(&mut self.last_words)).trim().to_string();
        (!text.is_empty()).then_some(text)
    }

    /// Asks the worker to end and waits; kills it if it does not.
    pub fn close(mut self) {
        let _ = self.put(&Ask::Close);
        self.questions = None;
        self.end_within(FAREWELL);
    }

    fn wait_readable(&self, limit: Duration) -> Result<Readable, Errno> {
        let events = PollFlags::POLLIN | PollFlags::POLLHUP;
        let mut fds = vec![PollFd::new(self.answers.as_fd(), events)];
        if let Some(errors) = &self.errors {
            fds.push(PollFd::new(errors.as_fd(), events));
        }
        let timeout = PollTimeout::try_from(limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Readable::default()),
            Err(error) => return Err(error),
        }
        let ready = |fd: Option<&PollFd>| fd.and_then(PollFd::any).unwrap_or(false);
        Ok(Readable { answers: ready(fds.first()), errors: ready(fds.get(1)) })
    }

    fn read_errors(&mut self) {
        let Some(errors) = &mut self.errors else { return };
        let mut buffer = [0; 4096];
        match errors.read(&mut buffer) {
            Ok(0) => self.errors = None,
            Ok(n) => {
                self.last_words.extend_from_slice(&buffer[..n]);
                cut(&mut self.last_words);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => self.errors = None,
        }
    }

    /// Describes the end of a worker that left instead of answering.
    fn exit_error(&mut self) -> Lost {
        let status = self.end_within(FAREWELL);
        self.read_left_answers();
        if self.received.iter().any(|byte| !byte.is_ascii_whitespace()) {
            let received = std::mem::take(&mut self.received);
            return self.invalid_answer(&received);
        }
        let words = self.stderr_suffix();
        Lost::Broken(match status {
            None => format!("it closed its answers without ending and was killed{words}"),
            Some(status) => match (status.signal(), status.code()) {
                (Some(9), _) => format!("it was killed by signal 9 (SIGKILL; out of memory, perhaps){words}"),
                (Some(signal), _) => format!("it was killed by signal {signal}{}{words}", name(signal)),
                (None, code) => format!("it exited with code {} instead of answering{words}", code.unwrap_or(-1)),
            },
        })
    }

    /// Reads answers that the worker wrote before it ended, which no question was waiting for.
    fn read_left_answers(&mut self) {
        let mut buffer = [0; 4096];
        while waiting(&self.answers) && self.received.len() < buffer.len() {
            match self.answers.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
            }
        }
    }

    fn invalid_answer(&mut self, line: &[u8]) -> Lost {
        self.kill();
        let text: String = plain(line).trim().chars().take(200).collect();
        let words = self.stderr_suffix();
        Lost::Broken(format!(
            "it wrote '{text}' to stdout where an answer was expected; a program under measurement must not print there{words}"
        ))
    }

    /// The end of the worker's stderr.
    fn stderr_suffix(&mut self) -> String {
        // The process has ended, so the pipe holds all there will be, unless a child process keeps it open.
        self.take_stderr().map_or_else(String::new, |text| format!("; its last words: {text}"))
    }

    fn errors_waiting(&self) -> bool {
        self.errors.as_ref().is_some_and(waiting)
    }

    /// Waits for the end and kills after `limit`; `None` if it was killed.
    fn end_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(100);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.kill_group();
                    return Some(status);
                }
                Ok(None) if Instant::now() < deadline => {
                    // Keep reading stderr: a worker must not block on a full pipe.
                    while self.errors_waiting() {
                        self.read_errors();
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                _ => {
                    self.kill();
                    return None;
                }
            }
        }
    }

    fn kill(&mut self) {
        // Both fail only if it has already been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.kill_group();
    }

    /// Kills processes that the implementation forked and left: they are in the worker's process group. Once only,
    /// right after reaping, because the group id may be reused later.
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            guard::kill(group);
            guard::forget(group);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// True if a signal has stopped the process.
fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may hold any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// True if a read would return at once.
fn waiting(pipe: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN | PollFlags::POLLHUP)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(ready) if ready > 0)
}

#[derive(Debug, Clone, Copy, Default)]
struct Readable {
    answers: bool,
    errors: bool,
}

fn name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal).map_or_else(|_| String::new(), |signal| format!(" ({signal})"))
}

/// A time limit in seconds, with three digits.
pub(crate) fn seconds(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    let decimals = (2 - seconds.max(0.1).log10().floor() as i32).max(0) as usize;
    let text = format!("{seconds:.decimals$}");
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_share_an_end_share_the_time_until_then() {
        let limits = Limits::default();
        assert_eq!(limits.until(None), limits);
        assert_eq!(limits.until(Some(Instant::now())).open, Duration::ZERO);
    }

    #[test]
    fn a_time_budget_bounds_a_slot_too() {
        let limit = |cost_ms: u64, left: Option<u64>| {
            Limits::default().slot(cost_ms * 1_000_000, left.map(Duration::from_millis)).as_millis()
        };
        assert_eq!([limit(1, None), limit(1000, None)], [30_050, 80_000]);
        assert_eq!(limit(1, Some(7000)), 7004);
        assert_eq!(limit(2000, Some(0)), 8000, "an expected slot ends");
        assert_eq!(limit(1, Some(0)), 1000, "its process may be preempted");
        assert_eq!(limit(1, Some(300_000)), 30_050);
        assert_eq!(Limits::default().slot(u64::MAX, Some(Duration::MAX)), Limits::default().slot(u64::MAX, None));
    }

    #[test]
    fn a_time_limit_is_printed_with_three_digits() {
        let printed = |seconds| self::seconds(Duration::from_secs_f64(seconds));
        assert_eq!(printed(30.011_321_8), "30 s");
        assert_eq!(printed(30.0), "30 s");
        assert_eq!(printed(0.5), "0.5 s");
        assert_eq!(printed(2.3456), "2.35 s");
        assert_eq!(printed(123.7), "124 s");
        assert_eq!(printed(1200.0), "1200 s");
    }

    #[test]
    fn long_last_words_keep_the_cause_and_the_end() {
        let mut words = b"memory allocation of 12 bytes failed\n".to_vec();
        for _ in 0..3 {
            words.extend_from_slice(&[b'x'; 4096]);
            cut(&mut words);
        }
        words.extend_from_slice(b"the end");
        cut(&mut words);
        let text = String::from_utf8(words).unwrap();
        assert!(text.len() <= LAST_WORDS && text.starts_with("memory allocation") && text.ends_with("the end"));
        assert_eq!(text.matches("[..]").count(), 1);
    }
}
