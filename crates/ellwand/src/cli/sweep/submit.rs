//! `sweep submit`: runs the shards that have no result, on this machine or as Slurm job arrays.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ellwand_bench::worker::Launch;
use ellwand_core::{InputError, Registry};

use super::plan::{Planned, read};
use super::queue::{self, Submission};
use super::shard::{self, Ready};
use super::{DEFAULT, ranges, results, slurm};
use crate::cli::args::{Engine, FailOn, SubmitArgs};
use crate::cli::exit::{Exit, Failure, Outcome};
use crate::cli::{output, run as measure};

pub(super) fn submit(registry: &Registry, args: &SubmitArgs, line: &[String]) -> Outcome {
    let planned = read(&args.place.plan)?;
    let dir = args.place.results()?;
    match args.engine {
        Engine::Local => local(registry, args, &planned, &dir, line),
        Engine::Slurm => arrays(args, &planned, &dir),
    }
}

/// Shards of a class without a complete result. Notes those with a partial one.
fn missing(planned: &Planned, dir: &Path, class: &str) -> Result<Vec<u32>, Failure> {
    let found = results::of_class(dir, class, &planned.hash)?;
    let missing = results::missing(planned, found, &mut BTreeSet::new());
    for (number, why) in &missing {
        if let Some(why) = why {
            output::note(&format!("note: shard {number} is measured again: {why}"));
        }
    }
    Ok(missing.into_keys().collect())
}

fn local(registry: &Registry, args: &SubmitArgs, planned: &Planned, dir: &Path, line: &[String]) -> Outcome {
    let flags = classes(args)?.swap_remove(0).flags;
    if let Some(flag) = flags.first() {
        return Err(InputError::new(flag, "--engine local has no scheduler", "--engine slurm with it").into());
    }
    let running = results::running(&dir.join(DEFAULT), &shard::host());
    if !running.is_empty() {
        let problem = format!("shard {} is being measured on this machine", ranges(running));
        let error = InputError::new("PLAN", problem, "no other command that measures its shards");
        return Err(error.help("`sweep status --wait` waits for it").into());
    }
    let missing = missing(planned, dir, DEFAULT)?;
    let mut ready = None;
    for number in &missing {
        let ready = match &mut ready {
            Some(ready) => ready,
            none => none.insert(Ready::new(registry, planned)?),
        };
        let exit = shard::measured(ready, planned, dir, DEFAULT, *number, line.to_vec())?;
        if exit == Exit::Interrupted {
            output::note("interrupted; the same command continues with the remaining shards");
            return Ok(exit);
        }
    }
    complete(args, planned, dir, &[DEFAULT], &missing)
}

/// The exit code for classes in which every shard has a result, including those of earlier commands. Names the rows
/// that failed, except those of the shards that were `measured` just now.
fn complete(args: &SubmitArgs, planned: &Planned, dir: &Path, classes: &[&str], measured: &[u32]) -> Outcome {
    let mut fates = Vec::new();
    for class in classes {
        let found = results::of_class(dir, class, &planned.hash)?;
        results::refuse_twice(&found, class)?;
        for (number, cases) in (0..).zip(&planned.plan.shards) {
            let files = found.get(&number).into_iter().flatten();
            let Some(record) = files.filter_map(|file| results::whole(file, cases).ok()).next() else { continue };
            if !measured.contains(&number) {
                shard::exit(&record.measurements, number);
            }
            fates.extend(record.measurements.into_iter().map(|measurement| measurement.outcome));
        }
    }
    output::note(&format!("every shard has a result; `sweep merge {}` joins them", args.place.plan.display()));
    Ok(measure::exit(&fates, &[], FailOn::Never))
}

/// A class of hardware: what its array requests from Slurm.
#[derive(Debug, PartialEq, Eq)]
struct Class {
    name: String,
    flags: Vec<String>,
}

/// The classes that the flags name. A flag given once applies to all of them.
fn classes(args: &SubmitArgs) -> Result<Vec<Class>, InputError> {
    let given = [("--constraint", &args.constraint), ("--gres", &args.gres), ("--partition", &args.partition)];
    let count = given.iter().map(|(_, values)| values.len()).max().unwrap_or(0).max(1);
    if let Some((flag, values)) = given.iter().find(|(_, values)| values.len() > 1 && values.len() < count) {
        let problem = format!("it is given {} times, and another flag {count} times", values.len());
        return Err(InputError::new(*flag, problem, format!("once for all classes, or {count} times")));
    }
    let common = [("--exclusive", args.exclusive), ("--requeue", args.requeue)];
    let common: Vec<&str> = common.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
    let class = |index: usize| {
        let of = |values: &[String]| if values.len() > 1 { values.get(index) } else { values.first() }.cloned();
        let pairs: Vec<(&str, String)> = given.iter().filter_map(|(flag, values)| Some((*flag, of(values)?))).collect();
        // The values that differ name the class.
        let naming = given.iter().filter(|(_, values)| values.len() == count).filter_map(|(_, values)| of(values));
        let name = naming.map(|value| plain(&value)).collect::<Vec<_>>().join("-");
        let flags = pairs.iter().map(|(flag, value)| format!("{flag}={value}"));
        Class {
            name: if name.is_empty() { DEFAULT.to_string() } else { name },
            flags: flags.chain(common.iter().map(ToString::to_string)).collect(),
        }
    };
    let classes: Vec<Class> = (0..count).map(class).collect();
    let twice = classes.iter().enumerate().find(|(at, one)| classes[..*at].iter().any(|other| other.name == one.name));
    match twice {
        Some((_, one)) => {
            let problem = format!("two classes would have the name {}", one.name);
            Err(InputError::new("--constraint, --gres or --partition", problem, "a different value for each class"))
        }
        None => Ok(classes),
    }
}

/// `gpu:a100:1` as a directory name.
fn plain(value: &str) -> String {
    value.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect()
}

/// An array to submit: tasks whose shard numbers begin at an offset.
struct Array<'a> {
    class: &'a Class,
    offset: u32,
    shards: Vec<u32>,
}

fn arrays(args: &SubmitArgs, planned: &Planned, dir: &Path) -> Outcome {
    let classes = classes(args)?;
    let down = |refused: slurm::Refused| refused.into_error("--engine slurm");
    refuse_queued(&classes, planned, dir)?;
    let largest = slurm::largest_array().map_err(down)?;
    let mut arrays: Vec<Array<'_>> = Vec::new();
    for class in &classes {
        output::directory("--results", &dir.join(&class.name))?;
        // Indices must be below MaxArraySize, so a long plan becomes several arrays.
        for number in missing(planned, dir, &class.name)? {
            let offset = number / largest * largest;
            match arrays.last_mut().filter(|array| array.class == class && array.offset == offset) {
                Some(array) => array.shards.push(number),
                None => arrays.push(Array { class, offset, shards: vec![number] }),
            }
        }
    }
    if arrays.is_empty() {
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        return complete(args, planned, dir, &names, &[]);
    }
    // An empty directory would look like a class; one with content stays.
    let submitted = all_or_none(&arrays, args, planned, dir).inspect_err(|_| {
        classes.iter().for_each(|class| drop(fs::remove_dir(dir.join(&class.name))));
    })?;
    output::result(|out| -> io::Result<()> {
        submitted
            .iter()
            .try_for_each(|one| writeln!(out, "class {}: shards {} as job {}", one.class, one.shards, one.job))
    })?;
    if !args.exclusive {
        output::note("note: without --exclusive other jobs may share the nodes and disturb the times");
    }
    Ok(Exit::Ok)
}

/// Refuses to submit a class that has tasks in the queue, because their shards would run twice.
fn refuse_queued(classes: &[Class], planned: &Planned, dir: &Path) -> Result<(), Failure> {
    let submissions = queue::submissions(dir, &planned.hash)?;
    let queued = queue::queued(&submissions).map_err(|refused| refused.into_error("--engine slurm"))?;
    for class in classes {
        let tasks: Vec<_> = queued.iter().filter(|task| task.class == class.name).collect();
        if let Some(first) = tasks.first() {
            let problem = format!("job {} has {} tasks of class {} in the queue", first.job, tasks.len(), class.name);
            let error = InputError::new("--engine slurm", problem, "a class without tasks in the queue");
            let help = format!("`sweep status --wait` waits for them, `scancel {}` ends them", first.job);
            return Err(error.help(help).into());
        }
    }
    Ok(())
}

/// Submits the arrays. If Slurm refuses one, cancels those before it.
fn all_or_none(
    arrays: &[Array<'_>],
    args: &SubmitArgs,
    planned: &Planned,
    dir: &Path,
) -> Result<Vec<Submission>, Failure> {
    let name = format!("ellwand-{}", &planned.hash[..8]);
    let mut submitted: Vec<Submission> = Vec::new();
    let cancel = |submitted: &[Submission]| {
        let jobs: Vec<&str> = submitted.iter().map(|one| one.job.as_str()).collect();
        if jobs.is_empty() {
            return;
        }
        match slurm::cancel(&jobs) {
            Ok(()) => output::note(&format!("note: cancelled what was submitted before (job {})", jobs.join(", "))),
            Err(_) => output::note(&format!("warning: `scancel {}` failed; these jobs keep running", jobs.join(" "))),
        }
    };
    for array in arrays {
        let tasks = ranges(array.shards.iter().map(|number| number - array.offset));
        let log = whole(&dir.join(&array.class.name))?;
        let script = script(array, args, planned, dir)?;
        match slurm::submit(&array.class.flags, &tasks, &name, &log, &script) {
            Ok(job) => submitted.push(Submission {
                plan: planned.hash.clone(),
                class: array.class.name.clone(),
                job,
                offset: array.offset,
                shards: ranges(array.shards.iter().copied()),
            }),
            Err(refused) => {
                cancel(&submitted);
                return Err(refusal(refused, array.class).into());
            }
        }
    }
    queue::keep(dir, &submitted).inspect_err(|_| cancel(&submitted))?;
    Ok(submitted)
}

/// Slurm's error message for a class.
fn refusal(refused: slurm::Refused, class: &Class) -> InputError {
    match refused {
        slurm::Refused::Said(words) => {
            let flags = if class.flags.is_empty() { "--engine slurm".into() } else { class.flags.join(" ") };
            let error = InputError::new(flags, format!("Slurm refused the array ({words})"), "hardware that Slurm has");
            error.help("sinfo -o '%P %f %G' lists partitions, features and generic resources")
        }
        absent => absent.into_error("--engine slurm"),
    }
}

/// The batch script of an array: this program, in the way that it was started.
fn script(array: &Array<'_>, args: &SubmitArgs, planned: &Planned, dir: &Path) -> Result<String, Failure> {
    let host = Launch::this_program();
    let program = if host.program.starts_with("/proc/self") { std::env::current_exe()? } else { host.program.clone() };
    // The last argument makes the host a worker.
    let host_args = host.args.iter().rev().skip(1).rev().map(|arg| arg.to_string_lossy().into_owned());
    let (plan, results) = (whole(&args.place.plan)?, whole(dir)?);
    let fixed = ["sweep", "run"].map(String::from).into_iter();
    let words = [
        ("", plan.display().to_string()),
        ("--results", results.display().to_string()),
        ("--class", array.class.name.clone()),
        ("--hash", planned.hash.clone()),
        ("--offset", array.offset.to_string()),
    ];
    let words = words.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]).filter(|word| !word.is_empty());
    let all = std::iter::once(program.display().to_string()).chain(host_args).chain(fixed).chain(words);
    let line: Vec<String> = all.map(|word| quoted(&word)).collect();
    Ok(format!("#!/bin/sh\nexec {} --shard-from-env\n", line.join(" ")))
}

/// The absolute path of an existing file, for a task that starts elsewhere.
fn whole(path: &Path) -> Result<PathBuf, Failure> {
    let path = fs::canonicalize(path).with_context(|| format!("{} cannot be found", path.display()))?;
    if path.to_str().is_some() {
        return Ok(path);
    }
    let problem = format!("{} is not UTF-8, which a batch script needs", path.display());
    Err(InputError::new("PLAN", problem, "another path").into())
}

/// A word quoted for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::args::{Command, SweepCommand};

    fn classes_of(flags: &str) -> Result<Vec<(String, String)>, InputError> {
        let line = format!("ellwand sweep submit plan.json {flags}");
        let words: Vec<_> = line.split_whitespace().map(Into::into).collect();
        let Ok(Command::Sweep(sweep)) = crate::cli::args::parse(&Registry::new(), &words) else { panic!("{line}") };
        let SweepCommand::Submit(args) = sweep.command else { panic!("{line}") };
        Ok(classes(&args)?.into_iter().map(|class| (class.name, class.flags.join(" "))).collect())
    }

    #[test]
    fn a_flag_given_once_holds_for_every_class() {
        for (flags, expected) in [
            ("", &[("default", "")][..]),
            ("--exclusive --requeue", &[("default", "--exclusive --requeue")]),
            ("--constraint a100", &[("a100", "--constraint=a100")]),
            (
                "-p gpu --gres gpu:a100:1 --gres gpu:t4:1 --exclusive",
                &[
                    ("gpu-a100-1", "--gres=gpu:a100:1 --partition=gpu --exclusive"),
                    ("gpu-t4-1", "--gres=gpu:t4:1 --partition=gpu --exclusive"),
                ],
            ),
            (
                "--constraint a --constraint b -p x -p y",
                &[("a-x", "--constraint=a --partition=x"), ("b-y", "--constraint=b --partition=y")],
            ),
        ] {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(name, flags)| (name.to_string(), flags.to_string())).collect();
            assert_eq!(classes_of(flags).unwrap(), expected, "{flags}");
        }
    }

    #[test]
    fn classes_that_cannot_be_distinguished_are_refused() {
        for (flags, part) in [
            (
                "--constraint a --constraint b --constraint c -p x -p y",
                "--partition: it is given 2 times, and another flag 3",
            ),
            ("--constraint a&b --constraint a|b", "two classes would have the name a-b"),
        ] {
            let error = classes_of(flags).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_shell_takes_every_word_as_it_is() {
        for word in ["plain", "two words", "it's", "$HOME `x` \"y\" \\"] {
            let said = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output();
            assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), word);
        }
    }
}
