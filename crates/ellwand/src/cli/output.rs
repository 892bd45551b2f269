//! Output of a command: results to stdout, notes to stderr, records to a directory, and the user's cache.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use ellwand_core::{Environment, InputError, replace_file};
use ellwand_report::wrap;

use super::exit::Failure;

/// Notes to the user, on stderr. A closed or full stderr is no reason to stop.
pub(super) fn note(text: &str) {
    // One write call, so the line is not mixed with a worker's.
    let _ = io::stderr().write_all(format!("{}\n", harmless(text)).as_bytes());
}

/// Interval between notes about work that takes long.
pub(super) const BEAT: Duration = Duration::from_secs(10);

/// Runs `work`, and calls `beat` with the elapsed seconds after the first [`BEAT`], or after each.
pub(super) fn with_beat<T>(each: bool, work: impl FnOnce() -> T, beat: impl Fn(u64) + Sync) -> T {
    let (done, waits) = channel::<()>();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        // If no thread can be started, no note is printed.
        let _ = std::thread::Builder::new().spawn_scoped(scope, || {
            let waits = waits;
            while waits.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                beat(begin.elapsed().as_secs());
                if !each {
                    break;
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Longest message in characters, because files and workers may put any text into one.
const LONGEST: usize = 8_000;

/// `text` without control characters, which could move the cursor or start an escape sequence, and with a limited
/// length.
fn harmless(text: &str) -> String {
    let keep = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    let mut kept: String = text.chars().take(LONGEST).map(keep).collect();
    let more = text.chars().count().saturating_sub(LONGEST);
    if more > 0 {
        kept += &format!(".. ({more} more characters)");
    }
    kept
}

/// Writes a result to stdout in one call. System errors do not name the place.
pub(super) fn result<E>(write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), Failure>
where
    Failure: From<E>,
{
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out).map_err(Failure::from).and_then(|()| Ok(out.flush()?));
    written.map_err(|failure| match failure {
        Failure::Other(error) if error.is::<io::Error>() => Failure::Other(error.context("stdout cannot be written")),
        other => other,
    })
}

/// Width for tables, from the terminal or `COLUMNS`; `None` if the output goes to a file or a pipe.
pub(super) fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    if !io::stdout().is_terminal() {
        return columns;
    }
    columns.or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))).or(Some(100))
}

/// Writes prose; lines are broken at the terminal's width and continue two columns further in.
pub(super) fn prose(out: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut text = Vec::new();
    write(&mut text)?;
    let width = width();
    for line in String::from_utf8_lossy(&text).lines() {
        if width.is_none_or(|width| line.chars().count() <= width) {
            writeln!(out, "{line}")?;
        } else {
            let inner = line.trim_start();
            let indent = line.len() - inner.len();
            writeln!(out, "{}", wrap(&line[..indent], inner, width, indent + 2))?;
        }
    }
    Ok(())
}

/// True if colour may be used: on a terminal, unless NO_COLOR (no-color.org) is set.
pub(super) fn color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Makes the directory and verifies that it is writable.
pub(super) fn directory(argument: &str, dir: &Path) -> Result<(), Failure> {
    let refused = |error: io::Error| match error.kind() {
        // As at any later write: not an error of the command line.
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            let hint = ellwand_bench::writer::next_step(&error, false);
            Failure::Other(anyhow::anyhow!("{} cannot be written: {error}{hint}", dir.display()))
        }
        _ => {
            let problem = format!("{} cannot be written ({error})", dir.display());
            InputError::new(argument, problem, "a directory that can be written").into()
        }
    };
    if dir.as_os_str().is_empty() {
        return Err(InputError::new(argument, "the name is empty", "the name of a directory").into());
    }
    if dir.symlink_metadata().is_ok_and(|about| about.is_symlink()) && !dir.exists() {
        let problem = format!("{} is a link to a file that is missing", dir.display());
        return Err(InputError::new(argument, problem, "a directory that can be written").into());
    }
    std::fs::create_dir_all(dir).map_err(refused)?;
    let probe = dir.join(format!(".ellwand-probe-{}", std::process::id()));
    let written = std::fs::write(&probe, b"x");
    let removed = std::fs::remove_file(&probe);
    written.and(removed).map_err(refused)
}

/// Verifies that a result can be written to `file`. Replaces an existing file only if requested, and never an input.
pub(super) fn new_file(file: &Path, inputs: &[&Path], overwrite: bool) -> Result<(), Failure> {
    let refused =
        |problem: &str, expected| Err(InputError::new("-o", format!("{} {problem}", file.display()), expected).into());
    let same = |input: &&Path| input.canonicalize().ok().zip(file.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    if inputs.iter().any(same) {
        return refused("is the input", "the name of another file");
    }
    if file.is_dir() {
        return refused("is a directory", "the name of a file");
    }
    if file.is_file() && !overwrite {
        return refused("exists", "a new name, or --overwrite to replace the file");
    }
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A device, such as /dev/stdout, may be where no file can be created.
    if file.exists() && !file.is_file() { Ok(()) } else { directory("-o", dir) }
}

/// Writes a small text file, first under a temporary name, so a partial file never looks complete.
pub(super) fn text_file(path: &Path, text: &str) -> Result<(), Failure> {
    replace_file(path, |out| out.write_all(text.as_bytes()))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(())
}

/// `ellwand-out/lattice-20261121-053012`: a new directory for each run, so no result is overwritten without a request.
pub(super) fn default_directory(workloads: &[String], unix_ms: u64) -> PathBuf {
    let name: String = workloads
        .join("+")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-+".contains(c) { c } else { '_' })
        .take(60)
        .collect();
    let dir = PathBuf::from("ellwand-out").join(format!("{name}-{}", stamp(unix_ms)));
    let mut free = dir.clone();
    let mut n = 2;
    while free.exists() {
        free = dir.with_file_name(format!("{name}-{}-{n}", stamp(unix_ms)));
        n += 1;
    }
    free
}

/// Makes this directory, or a `free` one if another run of the same second has just made it.
pub(super) fn claimed(mut dir: PathBuf, free: impl Fn() -> PathBuf) -> PathBuf {
    let make = |dir: &Path| {
        dir.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::create_dir(dir)
    };
    while make(&dir).is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        dir = free();
    }
    dir
}

/// Path of cached results of a kind: one JSON file per machine and program version; `None` without a home directory.
pub(super) fn cache_path(kind: &str, environment: &Environment) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("ellwand").join(format!("{kind}-{}-{}.json", environment.fingerprint(), env!("CARGO_PKG_VERSION"))))
}

/// Caches a result. If the cache cannot be written, only the next run takes longer.
pub(super) fn cache(kind: &str, environment: &Environment, value: &impl serde::Serialize) {
    let Some(path) = cache_path(kind, environment) else { return };
    let Ok(text) = serde_json::to_string(value) else { return };
    let kept = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| replace_file(&path, |out| out.write_all(text.as_bytes())));
    if let Err(error) = kept {
        note(&format!("note: {} cannot be written ({error}), so this result is not saved", path.display()));
    }
}

/// Milliseconds since 1970 as `YYYYMMDD-HHMMSS` in UTC.
pub(super) fn stamp(unix_ms: u64) -> String {
    let digits: String = ellwand_report::units::utc(unix_ms).chars().filter(char::is_ascii_digit).collect();
    format!("{}-{}", &digits[..8], &digits[8..])
}

/// The present time in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// A count with its noun: `1 case`, `2 cases`.
#[cfg(any(feature = "history", feature = "page", feature = "sweep"))]
pub(super) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hold_no_escape_sequence_and_end() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc"), "a [2Jb\nc");
        assert!(harmless(&"x".repeat(100_000)).ends_with("(92000 more characters)"));
    }

    #[test]
    fn stamps_are_dates() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_400_000), "20000229-000000");
        assert_eq!(stamp(1_795_239_012_345), "20261121-053012");
    }

    #[test]
    fn short_lines_of_prose_stay_as_they_are() {
        let mut out = Vec::new();
        prose(&mut out, |out| writeln!(out, "one  line\n\n  another")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one  line\n\n  another\n");
    }

    #[test]
    fn directories_of_patterns_are_plain_names() {
        let dir = default_directory(&["lattice-*".into(), "../x".into()], 0);
        assert_eq!(dir, PathBuf::from("ellwand-out/lattice-_+___x-19700101-000000"));
    }

    #[test]
    fn a_directory_is_taken_by_one_run() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("ellwand-out/x");
        let claimed = || claimed(dir.clone(), || root.path().join("ellwand-out/x-2"));
        assert_eq!((claimed(), claimed()), (dir.clone(), dir.with_file_name("x-2")));
    }
}
