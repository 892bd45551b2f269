//! `sweep run`: measures one shard. Its record becomes a result when it is complete; a task that dies leaves no result,
//! and the shard can be run again.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::Context;
use ellwand_bench::{Cell, Plan};
use ellwand_core::record::{Measurement, Shard};
use ellwand_core::tensor::Tensors;
use ellwand_core::{InputError, Registry, Run};

use super::plan::{Planned, read};
use super::results;
use crate::cli::args::{FailOn, ShardArgs};
use crate::cli::devices::with_devices;
use crate::cli::exit::{Exit, Outcome};
use crate::cli::recording::Recording;
use crate::cli::{ceilings, output, plan, run as measure, signals};

/// Environment variables with the index of a task in its array, and the index of an array's first task.
const INDEX: [(&str, u32); 4] =
    [("SLURM_ARRAY_TASK_ID", 0), ("PBS_ARRAY_INDEX", 0), ("LSB_JOBINDEX", 1), ("JOB_COMPLETION_INDEX", 0)];

/// Maximum number of rows without times that a shard names.
const FAILURES: usize = 3;

pub(super) fn run(registry: &Registry, args: &ShardArgs, line: Vec<String>) -> Outcome {
    let planned = read(&args.place.plan)?;
    refuse_other(&planned, args)?;
    results::check_class(&args.class)?;
    let number = number(args, planned.shards(), |name| env::var(name).ok())?;
    let dir = args.place.results()?;
    let there = results::path(&dir, &args.class, number);
    // A file without a first line is no other shard's result. It is set aside like any incomplete file.
    if results::first_line(&there).is_ok() {
        results::shard_of(&there, &args.class, &planned.hash)?;
    }
    if there.exists() && results::whole(&there, &planned.plan.shards[number as usize]).is_ok() {
        let finished = format!("shard {number} has a result: {}", there.display());
        if args.shard_from_env {
            // The task was requeued after it had finished.
            output::note(&format!("note: {finished}; nothing is left to do"));
            return Ok(Exit::Ok);
        }
        let error = InputError::new(format!("--shard {number}"), finished, "a shard without a result");
        return Err(error.help("move the file away to measure the shard again").into());
    }
    measured(&mut Ready::new(registry, &planned)?, &planned, &dir, &args.class, number, line)
}

/// Refuses a plan that differs from the submitted one.
fn refuse_other(planned: &Planned, args: &ShardArgs) -> Result<(), InputError> {
    let Some(submitted) = args.hash.as_ref().filter(|hash| **hash != planned.hash) else { return Ok(()) };
    let name = args.place.plan.display();
    let problem = format!("{name} was changed after it was submitted: it has the hash {}", planned.hash);
    Err(InputError::new("PLAN", problem, format!("the plan {submitted}")).help("restore it, or submit the new one"))
}

/// The shard that the user names, or that the environment of a task gives.
fn number(args: &ShardArgs, shards: u32, get: impl Fn(&str) -> Option<String>) -> Result<u32, InputError> {
    let last = shards.saturating_sub(1);
    let Some(number) = args.shard else { return from_env(args.offset, shards, get) };
    if number < shards {
        return Ok(number);
    }
    Err(InputError::new("--shard", format!("{number} is out of range"), format!("an integer from 0 to {last}")))
}

fn from_env(offset: u32, shards: u32, get: impl Fn(&str) -> Option<String>) -> Result<u32, InputError> {
    let found = INDEX.iter().find_map(|(name, first)| Some((*name, *first, get(name)?)));
    let Some((name, first, text)) = found else {
        let names = INDEX.map(|(name, _)| name).join(", ");
        let problem = format!("none of {names} is set");
        return Err(InputError::new("--shard-from-env", problem, "a task of a job array, or --shard N"));
    };
    let index = text.parse::<u32>().ok().and_then(|index| index.checked_sub(first));
    let number = index.and_then(|index| index.checked_add(offset)).filter(|number| *number < shards);
    number.ok_or_else(|| {
        let last = u64::from(first) + u64::from(shards.saturating_sub(1));
        let to = last.saturating_sub(offset.into());
        let problem = format!("{name} is '{text}', and the plan has {shards} shards");
        InputError::new("--shard-from-env", problem, format!("an index from {first} to {to}"))
    })
}

/// Data that every shard of a plan needs: read once, with notes printed once.
pub(super) struct Ready {
    registry: Registry,
    /// The cells of shards that have not been measured yet.
    cells: Vec<Cell>,
    given: Option<Tensors>,
}

impl Ready {
    pub(super) fn new(registry: &Registry, planned: &Planned) -> Result<Self, InputError> {
        let (how, registry) = (&planned.plan.measure, registry_for(registry, planned));
        // `sweep plan` has noted which workloads lack an axis.
        let cells = Plan::expand(&registry, &how.chosen.selection())?;
        let (Plan { cells }, given) = plan::of_any_machine(&registry, how, cells, true)?;
        Ok(Self { registry, cells, given })
    }

    /// The cells of a shard.
    fn take(&mut self, planned: &Planned, number: u32) -> Result<Plan, InputError> {
        let wanted = &planned.plan.shards[number as usize];
        let all = std::mem::take(&mut self.cells).into_iter();
        let (cells, others): (Vec<_>, Vec<_>) = all.partition(|cell| wanted.contains(&cell.case.id()));
        self.cells = others;
        let Some(lost) = wanted.iter().find(|case| cells.iter().all(|cell| cell.case.id() != **case)) else {
            return Ok(Plan { cells });
        };
        // The id of a case ends with the digest of the user's arrays.
        let without = |id: &str| id.split("input#").next().map(str::to_string);
        if self.cells.iter().any(|cell| without(&cell.case.id()) == without(lost)) {
            let names = planned.plan.measure.input.join(", ");
            let problem = format!("shard {number} measures {lost}, but {names} now hold other arrays");
            return Err(InputError::new("PLAN", problem, "the arrays that the plan was made of, or a new plan"));
        }
        let problem = format!("shard {number} measures {lost}, which this program does not have");
        let expected = format!("the program that made the plan (ellwand {})", planned.plan.ellwand);
        Err(InputError::new("PLAN", problem, expected))
    }
}

/// Measures a shard and adds its record to the results.
pub(super) fn measured(
    ready: &mut Ready,
    planned: &Planned,
    dir: &Path,
    class: &str,
    number: u32,
    line: Vec<String>,
) -> Outcome {
    let how = &planned.plan.measure;
    let cells = ready.take(planned, number)?;
    let registry = &ready.registry;
    ceilings::check_memory(&cells.cells, how.blocks().is_some(), how.caches)?;
    let to = results::path(dir, class, number);
    // Without the usual probe for writability: tasks on two hosts may have the same process id.
    let home = dir.join(class);
    fs::create_dir_all(&home).with_context(|| format!("{} cannot be written", home.display()))?;
    let started = output::unix_ms();
    signals::stop_on_ctrl_c(signals::SHARD_LOST);
    let here = measure::with_ceilings(registry, &cells, how.caches, !how.no_ceilings)?;
    signals::stop_on_ctrl_c(signals::SHARD_LOST);
    let host = host();
    results::remove_dead(&home, &host);
    let partial = home.join(format!(".{number:04}.{host}-{}.partial", std::process::id()));
    let rows = measure::rows(&cells);
    let (plan, missing, cases) = (planned.hash.clone(), Vec::new(), Vec::new());
    let shard = Shard { plan, number, class: class.into(), host, task: task(), rows, missing, cases };
    let run = Run { shard: Some(shard), ..measure::run_line(registry, how, &cells, here, started, line) };
    let mut record = Recording::open(&partial, &run, false, false)?;
    let interrupted = measure::measure(registry, &run, how, None, cells, ready.given.as_ref(), &mut record);
    let written = record.close()?;
    if !matches!(interrupted, Ok(false)) {
        let _ = fs::remove_file(&written);
        return interrupted.map(|_| Exit::Interrupted);
    }
    let stuck = || format!("{} is incomplete and cannot be renamed", to.display());
    let wanted = &planned.plan.shards[number as usize];
    if let Some(aside) = results::set_aside(&to, wanted).with_context(stuck)? {
        output::note(&format!(
            "note: the earlier result of shard {number} was incomplete; it is now {}",
            aside.display()
        ));
    }
    finish(&written, &to, number)
}

fn finish(written: &Path, to: &Path, number: u32) -> Outcome {
    let record = ellwand_bench::writer::read(written)?;
    let refused = || format!("{} is complete but cannot be renamed to {}", written.display(), to.display());
    if results::place(written, to).with_context(refused)? {
        output::note(&format!("shard {number}: written to {}", to.display()));
    } else {
        output::note(&format!(
            "note: another task finished shard {number} first; its result stays, this one is dropped"
        ));
    }
    Ok(exit(&record.measurements, number))
}

/// The exit code of a shard with these rows; names the rows that cause an exit code other than 0.
pub(super) fn exit(rows: &[Measurement], number: u32) -> Exit {
    let fates: Vec<_> = rows.iter().map(|measurement| measurement.outcome.clone()).collect();
    let exit = measure::exit(&fates, &[], FailOn::Never);
    if exit != Exit::Ok {
        name_failures(rows, number, exit == Exit::Nothing);
    }
    exit
}

/// Names the rows that cause an exit code other than 0.
fn name_failures(rows: &[Measurement], number: u32, unsupported: bool) {
    let counts =
        |row: &&Measurement| !row.outcome.is_measured() && (unsupported || row.outcome.word() != "unsupported");
    let all: Vec<_> = rows.iter().filter(counts).collect();
    for row in all.iter().take(FAILURES) {
        let (case, name, word) = (&row.case.id, &row.implementation, row.outcome.word());
        output::note(&format!("shard {number}: {case} {name}: {word}: {}", row.outcome.reason().unwrap_or_default()));
    }
    if all.len() > FAILURES {
        output::note(&format!("shard {number}: {} more rows have no times", all.len() - FAILURES));
    }
}

/// The registry with the devices that the plan requests.
fn registry_for(registry: &Registry, planned: &Planned) -> Registry {
    let chosen = &planned.plan.measure.chosen;
    plan::preferring(&with_devices(registry, chosen.named()), &chosen.cases.device)
}

/// Name of this host, as part of a file name.
pub(super) fn host() -> String {
    let name = env::var("SLURMD_NODENAME").ok();
    let name = name.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    name.trim().chars().map(plain).take(64).collect()
}

/// The scheduler's name of this task.
fn task() -> Option<String> {
    let get = |name: &str| env::var(name).ok();
    let slurm = || Some(format!("{}_{}", get("SLURM_ARRAY_JOB_ID")?, get("SLURM_ARRAY_TASK_ID")?));
    let lsf = || Some(format!("{}[{}]", get("LSB_JOBID")?, get("LSB_JOBINDEX")?));
    slurm().or_else(|| get("PBS_JOBID")).or_else(lsf)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_scheduler_names_the_shard_in_its_own_way() {
        for (set, offset, expected) in [
            (("SLURM_ARRAY_TASK_ID", "3"), 0, Ok(3)),
            (("SLURM_ARRAY_TASK_ID", "3"), 10, Ok(13)),
            (("PBS_ARRAY_INDEX", "0"), 0, Ok(0)),
            (("LSB_JOBINDEX", "1"), 0, Ok(0)),
            (("LSB_JOBINDEX", "16"), 0, Ok(15)),
            (("JOB_COMPLETION_INDEX", "15"), 0, Ok(15)),
            (
                ("SLURM_ARRAY_TASK_ID", "16"),
                0,
                Err("SLURM_ARRAY_TASK_ID is '16', and the plan has 16 shards; expected an index from 0 to 15"),
            ),
            (("SLURM_ARRAY_TASK_ID", "6"), 10, Err("expected an index from 0 to 5")),
            (("LSB_JOBINDEX", "0"), 0, Err("expected an index from 1 to 16")),
            (("PBS_ARRAY_INDEX", "x"), 0, Err("PBS_ARRAY_INDEX is 'x'")),
            (("HOME", "/"), 0, Err("none of SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX")),
        ] {
            let get = |name: &str| (name == set.0).then(|| set.1.to_string());
            match (from_env(offset, 16, get), expected) {
                (Ok(number), Ok(expected)) => assert_eq!(number, expected, "{set:?}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (other, _) => panic!("{set:?}: {other:?}"),
            }
        }
    }
}
