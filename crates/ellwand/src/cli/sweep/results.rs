//! The directory of results: `CLASS/0003.jsonl` is the record of shard 3. A file appears only when it is complete, and
//! is never replaced. If a copy or a full disk truncates it later, its shard counts as missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ellwand_bench::writer;
use ellwand_core::record::{self, Record, Shard};
use ellwand_core::{InputError, Run};

use super::plan::Planned;
use crate::cli::exit::Failure;

/// Results of one class of hardware by the number of their shard. A shard that was run twice has two.
pub(super) type Class = BTreeMap<u32, Vec<PathBuf>>;

/// Path for the result of a shard.
pub(super) fn path(dir: &Path, class: &str, number: u32) -> PathBuf {
    dir.join(class).join(format!("{number:04}.jsonl"))
}

/// Refuses a class that is not a plain file name.
pub(super) fn check_class(class: &str) -> Result<(), InputError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !class.is_empty() && class.chars().all(plain) {
        return Ok(());
    }
    Err(InputError::new("--class", format!("'{class}' is not a valid name"), "ASCII letters, digits, - and _"))
}

/// Names of the classes that have a directory.
pub(super) fn classes(dir: &Path) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = entries(dir)?
        .into_iter()
        .filter(|path| path.is_dir())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_string()))
        .collect();
    names.sort();
    Ok(names)
}

/// The results of a class, each of which must belong to it and to the plan with this hash. A file that was cut in its
/// first line counts for the shard in its file name.
pub(super) fn of_class(dir: &Path, class: &str, hash: &str) -> Result<Class, Failure> {
    let mut found = Class::new();
    let mut paths = entries(&dir.join(class))?;
    paths.sort();
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
        let named = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
        let number = match (first_line(&path), named) {
            (Err(_), Some(number)) => number,
            _ => shard_of(&path, class, hash)?.number,
        };
        found.entry(number).or_default().push(path);
    }
    Ok(found)
}

/// The shard whose record is in a file of a class.
pub(super) fn shard_of(path: &Path, class: &str, hash: &str) -> Result<Shard, Failure> {
    let name = path.display();
    let expected = "results of this plan alone";
    let run = first_line(path).map_err(|error| {
        let problem = format!("{name} cannot be read: {error:#}");
        InputError::new("--results", problem, expected).help("restore it from a copy, or remove it")
    })?;
    let shard = run
        .shard
        .ok_or_else(|| InputError::new("--results", format!("{name} is not the record of a sweep"), expected))?;
    if shard.plan != hash {
        let problem = format!("{name} was measured for the plan {}, and PLAN is {hash}", shard.plan);
        let help =
            "the plan was changed after it was submitted: restore it, or choose another --results for the new one";
        return Err(InputError::new("--results", problem, expected).help(help).into());
    }
    if shard.class != class {
        let problem = format!("{name} was measured for the class {}", shard.class);
        let error = InputError::new("--results", problem, format!("results of the class {class} alone"));
        return Err(error.help("remove the copy, or move the file to the directory of its class").into());
    }
    Ok(shard)
}

/// Reads the result of a shard with these cases.
///
/// # Errors
/// Why it is incomplete. Rows may have any outcome.
pub(super) fn whole(path: &Path, cases: &[String]) -> Result<Record, String> {
    let record = writer::read(path).map_err(|error| error.to_string())?;
    match lack(&record, cases) {
        Some(what) => Err(format!("{} {what}", path.display())),
        None => Ok(record),
    }
}

fn lack(record: &Record, cases: &[String]) -> Option<String> {
    if let Some(damage) = record.warnings.first() {
        return Some(format!("is damaged: {damage}"));
    }
    let measured: BTreeSet<&str> = record.measurements.iter().map(|row| row.case.id.as_str()).collect();
    let case = cases.iter().map(String::as_str).find(|case| !measured.contains(case));
    let lost = case.or_else(|| record.lost_rows().first().copied())?;
    Some(format!("has no measurement of {lost}"))
}

/// The shards of a class with several results, and their files: it is unknown which one counts.
pub(super) fn twice(found: &Class, class: &str) -> Vec<String> {
    let several = found.iter().filter(|(_, files)| files.len() > 1);
    let words = several.map(|(number, files)| {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        format!("shard {number} of class {class} was run twice: {}", names.join(" and "))
    });
    words.collect()
}

/// Refuses a class in which a shard has several results.
pub(super) fn refuse_twice(found: &Class, class: &str) -> Result<(), InputError> {
    let Some(problem) = twice(found, class).into_iter().next() else { return Ok(()) };
    Err(InputError::new("--results", problem, "one result for each shard").help("remove all but one"))
}

/// The shards of a class without a complete result, with the reason for those that have a file. Files in `known` are
/// complete; newly found complete files are added, so a caller that asks again reads none twice.
pub(super) fn missing(
    planned: &Planned,
    mut found: Class,
    known: &mut BTreeSet<PathBuf>,
) -> BTreeMap<u32, Option<String>> {
    let mut missing = BTreeMap::new();
    for (number, cases) in (0..).zip(&planned.plan.shards) {
        let mut reason = None;
        let is_whole = found.remove(&number).unwrap_or_default().into_iter().any(|file| {
            known.contains(&file)
                || match whole(&file, cases) {
                    Ok(_) => known.insert(file),
                    Err(why) => {
                        reason = Some(why);
                        false
                    }
                }
        });
        if !is_whole {
            missing.insert(number, reason);
        }
    }
    missing
}

/// The first line of a file, which shows whose result it is; an error if the file was cut there.
pub(super) fn first_line(path: &Path) -> anyhow::Result<Run> {
    let mut line = String::new();
    BufReader::new(File::open(path)?).read_line(&mut line)?;
    Ok(record::parse(&line)?.run)
}

/// The entries of a directory; empty if it is missing.
pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.collect::<io::Result<Vec<_>>>()?.into_iter().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(anyhow::Error::from(error).context(format!("{} cannot be read", dir.display())).into()),
    }
}

/// Moves an incomplete old result aside to make room for a new one. Returns its new path.
pub(super) fn set_aside(path: &Path, cases: &[String]) -> io::Result<Option<PathBuf>> {
    if !path.exists() || whole(path, cases).is_ok() {
        return Ok(None);
    }
    let aside = path.with_extension("incomplete");
    fs::rename(path, &aside)?;
    Ok(Some(aside))
}

/// Moves a complete record to its place, unless another task was first; returns whether it is there now. In any case
/// the record is on disk under one of the two names.
pub(super) fn place(partial: &Path, to: &Path) -> io::Result<bool> {
    File::open(partial)?.sync_all()?;
    let first = match fs::hard_link(partial, to) {
        Ok(()) => true,
        // A file server may have created the link and lost its reply.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => same_file(partial, to)?,
        // The file system has no links.
        Err(_) if !to.exists() => return fs::rename(partial, to).map(|()| true),
        Err(_) => false,
    };
    fs::remove_file(partial)?;
    to.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())?;
    Ok(first)
}

/// Removes what killed tasks of this host left in the directory of a class. On other hosts it is unknown whether a
/// writer is dead. Here its process is gone, and so is its lock, which a container with other process ids would still
/// hold.
pub(super) fn remove_dead(home: &Path, host: &str) {
    let processes = Path::new("/proc");
    let dead = |id: u32| processes.join("self").exists() && !processes.join(id.to_string()).exists();
    for (path, _, id) in partials(home, host) {
        if dead(id) && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Shards of a class that a task of this host is measuring now: its process lives and holds the lock on what it has
/// written.
pub(super) fn running(home: &Path, host: &str) -> BTreeSet<u32> {
    let number = |(path, number, id): (PathBuf, u32, u32)| {
        // A file without a line may not be locked yet.
        let held = fs::metadata(&path).ok()?.len() > 0 && File::open(&path).ok()?.try_lock().is_err();
        (held && Path::new("/proc").join(id.to_string()).exists()).then_some(number)
    };
    partials(home, host).filter_map(number).collect()
}

/// Files that tasks of a host are writing or left, each with its shard and the process of its task.
fn partials(home: &Path, host: &str) -> impl Iterator<Item = (PathBuf, u32, u32)> {
    let parts = move |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".partial")?;
        let (number, task) = name.split_once('.')?;
        let id = task.strip_prefix(host)?.strip_prefix('-')?.parse().ok()?;
        let number = number.parse().ok()?;
        Some((path, number, id))
    };
    fs::read_dir(home).into_iter().flatten().flatten().filter_map(move |entry| parts(entry.path()))
}

fn same_file(one: &Path, other: &Path) -> io::Result<bool> {
    let [one, other] = [fs::metadata(one)?, fs::metadata(other)?];
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_result_of_a_shard_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [to, one, other] = ["0003.jsonl", "one", "other"].map(|name| dir.path().join(name));
        fs::write(&one, "one").unwrap();
        fs::write(&other, "other").unwrap();
        assert!(place(&one, &to).unwrap());
        assert!(!place(&other, &to).unwrap());
        assert_eq!(fs::read_to_string(&to).unwrap(), "one");
        assert_eq!(entries(dir.path()).unwrap(), [to]);
    }

    #[test]
    fn only_files_of_dead_tasks_of_this_host_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (dead, alive) = (ended.id(), std::process::id());
        let name = |host: &str, id: u32| dir.path().join(format!(".0003.{host}-{id}.partial"));
        let [left, locked] = [name("n1", dead), dir.path().join(format!(".0004.n1-{dead}.partial"))];
        let others =
            [name("n1", alive), name("n10", dead), name("n2", dead), dir.path().join("0003.jsonl"), locked.clone()];
        others.iter().chain([&left]).for_each(|path| fs::write(path, "x").unwrap());
        let held = File::open(&locked).unwrap();
        held.try_lock().unwrap();
        let measured = name("n1", alive);
        let writer = File::open(&measured).unwrap();
        assert!(running(dir.path(), "n1").is_empty(), "without a lock");
        writer.try_lock().unwrap();
        assert_eq!(running(dir.path(), "n1"), BTreeSet::from([3]));
        remove_dead(dir.path(), "n1");
        assert!(!left.exists());
        assert!(others.iter().all(|path| path.exists()));
    }

    #[test]
    fn classes_are_plain_names() {
        for (class, fine) in [("gpu-a100_1", true), ("", false), ("a/b", false), ("..", false), ("a b", false)] {
            assert_eq!(check_class(class).is_ok(), fine, "{class}");
        }
    }
}
