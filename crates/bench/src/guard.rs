//! Kills the processes that this process started when it dies, even by SIGKILL.
//!
//! A guard is a shell that waits for the end of its input, which closes when this process ends, and then kills process
//! groups. Until then it sleeps in a system call. Parent-death signals alone would reach only direct children.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Remembers the last list of groups; kills those groups and the guard's.
const SCRIPT: &str = "groups=; while read -r line; do groups=$line; done; kill -9 $groups 0";

/// A guard with its process group, which other processes may join.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    input: ChildStdin,
}

impl Guard {
    /// Starts a guard.
    ///
    /// # Errors
    /// If `sh` cannot be started.
    pub fn start() -> io::Result<Self> {
        let mut shell = Command::new("sh");
        // The guard does not inherit the user's streams: a reader of those would wait until the guard closes them too.
        shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.process_group(0).spawn()?;
        match child.stdin.take() {
            Some(input) => Ok(Self { child, input }),
            None => Err(io::Error::other("the guard has no input")),
        }
    }

    /// The guard's process group, for [`CommandExt::process_group`]: its members end with this process, or when the
    /// guard is dropped.
    pub fn group(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Kills the group, including the guard.
    pub fn kill(&self) {
        kill(self.group());
    }

    fn watch(&mut self, groups: &[i32]) -> io::Result<()> {
        let list: String = groups.iter().map(|group| format!("-{group} ")).collect();
        self.input.write_all(format!("{list}\n").as_bytes())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process group. Fails only if the whole group has already ended.
pub(crate) fn kill(group: i32) {
    if group > 0 {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

/// The groups of the live workers, and the guard that watches them.
struct Watch {
    groups: Vec<i32>,
    guard: Option<Guard>,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { groups: Vec::new(), guard: None });

/// Makes a worker's group end with this process.
pub(crate) fn watch(group: i32) {
    change(|groups| groups.push(group));
}

/// Removes a killed group, since the system may reuse its number.
pub(crate) fn forget(group: i32) {
    change(|groups| groups.retain(|known| *known != group));
}

/// Why this process cannot start another, if the system's limits forbid it (`ulimit -u`, memory).
pub fn spawn_error() -> Option<io::Error> {
    let limits = [io::ErrorKind::WouldBlock, io::ErrorKind::OutOfMemory];
    Guard::start().err().filter(|error| limits.contains(&error.kind()))
}

fn change(change: impl FnOnce(&mut Vec<i32>)) {
    let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    let Watch { groups, guard } = &mut *watch;
    change(groups);
    if guard.as_mut().is_some_and(|guard| guard.watch(groups).is_ok()) {
        return;
    }
    // The first guard, or a replacement for a killed one. If no guard can be started, workers still end with this
    // process by their parent-death signal.
    *guard = if groups.is_empty() { None } else { Guard::start().ok() };
    if let Some(guard) = guard {
        let _ = guard.watch(groups);
    }
}
