//! Facts about the machine and the program that a trace carries, and the date.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::detail::Value;
use crate::fork::once;
use crate::options::{Mode, Options};
use crate::trace::TraceLane;

/// Key for recordings in ring mode: the number of spans kept of each thread.
pub(crate) const LAST_SPANS: &str = "last spans of a thread";

/// Nanoseconds since 1970-01-01 UTC on the system clock, for the date of a recording only.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Name of the recording: as given, or that of the program.
pub(crate) fn name(options: &Options) -> String {
    if options.name.is_empty() { program() } else { options.name.clone() }
}

fn program() -> String {
    let path = std::env::current_exe().ok();
    path.as_deref()
        .and_then(|path| path.file_stem())
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// First line of a file, without white space at its ends; `None` if it cannot be read or is empty.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_string())
}

/// The model of the processor. Read once: the file has a page for each processor, and some kernels ask every one of them
/// for its clock rate.
fn cpu() -> Option<String> {
    static MODEL: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let text = fs::read_to_string("/proc/cpuinfo").ok()?;
        let (_, model) = text.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
        Some(model.trim().to_string())
    };
    once(&MODEL, read).clone()
}

/// The known facts; unknown ones are absent. `pid` is the process that started the recording.
pub(crate) fn facts(options: &Options, pid: u32) -> Vec<(String, Value)> {
    let version = (!options.version.is_empty()).then(|| options.version.clone());
    let cores = std::thread::available_parallelism().ok();
    let here = std::process::id();
    let last = if let Mode::Ring { spans } = options.mode { Some(Value::from(spans)) } else { None };
    let mut facts = Vec::new();
    let mut add =
        |name: &str, value: Option<Value>| value.into_iter().for_each(|value| facts.push((name.into(), value)));
    add(LAST_SPANS, last);
    add("program", Some(program().into()));
    add("version", version.map(Value::from));
    add("cpu", cpu().map(Value::from));
    add("cores", cores.map(|cores| cores.get().into()));
    add("architecture", Some(std::env::consts::ARCH.into()));
    add("os", Some(std::env::consts::OS.into()));
    add("kernel", line("/proc/sys/kernel/osrelease").map(Value::from));
    add("hostname", line("/proc/sys/kernel/hostname").map(Value::from));
    add("pid", Some(here.into()));
    // The child of a fork has a copy of its parent's recording up to the fork.
    add("forked from pid", (here != pid).then(|| pid.into()));
    facts
}

/// Says how many spans the fullest thread kept, if a ring had no room for more: a snapshot misses those that change while
/// it reads them.
pub(crate) fn keep_last(facts: &mut [(String, Value)], lanes: &[TraceLane]) {
    let kept = lanes.iter().map(|lane| lane.spans.len()).max().unwrap_or(0);
    for (_, value) in facts.iter_mut().filter(|(name, _)| name == LAST_SPANS) {
        if let Value::Int(last) = value {
            *last = (*last).min(i64::try_from(kept).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_what_another_process_recorded_is_marked() {
        let here = std::process::id();
        let mark = |pid| {
            let facts = facts(&Options::default(), pid).into_iter();
            facts.filter(|(name, _)| name == "forked from pid").map(|(_, value)| value).collect::<Vec<Value>>()
        };
        assert_eq!((mark(here), mark(here + 1)), (Vec::new(), vec![Value::from(here + 1)]));
    }
}
