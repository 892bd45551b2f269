//! `sweep merge`: checks the results of a plan and joins those of one machine into a record, as if one command had been
//! resumed again and again. Results of different machines never share a record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ellwand_bench::{Writer, writer};
use ellwand_core::case::Fnv;
use ellwand_core::record::Record;
use ellwand_core::{InputError, Run};
use ellwand_report::FORMATS;

use super::plan::{Planned, read};
use super::{ranges, remedy, results};
use crate::cli::args::{FailOn, MergeArgs};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::results_dir::{self, RECORD, Results};
use crate::cli::{output, report, run as measure};

/// Records of shards by machine: within one class, hosts with the same processor, system and devices.
type Machines = BTreeMap<String, Vec<Record>>;

/// Maximum number of problems in one message.
const SHOWN: usize = 3;

pub(super) fn merge(args: &MergeArgs) -> Outcome {
    let planned = read(&args.place.plan)?;
    let dir = args.place.results()?;
    let mut classes = Vec::new();
    for class in results::classes(&dir)? {
        let machines = machines(&planned, &dir, &class, args.partial)?;
        classes.extend(Some((class, machines)).filter(|(_, machines)| !machines.is_empty()));
    }
    if classes.is_empty() {
        let problem = format!("{} holds no result of this plan", dir.display());
        let error = InputError::new("--results", problem, "the directory into which tasks write their results");
        return Err(error.help("`sweep submit` runs the shards, `sweep status` shows them").into());
    }
    let mut stale = Vec::new();
    for (class, machines) in &classes {
        let alone = machines.len() == 1;
        let kept: Vec<PathBuf> = machines.keys().map(|machine| home(args, class, machine, alone)).collect();
        stale.extend(earlier(&args.output(), class, &planned.hash)?.into_iter().filter(|dir| !kept.contains(dir)));
    }
    if let Some(dir) = stale.first().filter(|_| !args.overwrite) {
        let problem = format!("{} holds a record of an earlier merge of this plan", dir.display());
        return Err(InputError::new("-o", problem, "a new directory").help("--overwrite removes it").into());
    }
    let mut fates = Vec::new();
    for (class, machines) in classes {
        warn_of_several(&class, &machines);
        let alone = machines.len() == 1;
        for (machine, mut records) in machines {
            // By time, the order in which a record is resumed.
            records.sort_by_key(|record| (record.run.started_unix_ms, number(record)));
            let measured = records.iter().flat_map(|record| &record.measurements);
            fates.extend(measured.map(|measurement| measurement.outcome.clone()));
            write(args, &planned, &home(args, &class, &machine, alone), &machine, &records)?;
        }
    }
    for dir in stale {
        remove(&dir)?;
        output::note(&format!("note: removed what an earlier merge of this plan wrote to {}", dir.display()));
    }
    Ok(measure::exit(&fates, &[], FailOn::Never))
}

/// The directory for the record of a machine.
fn home(args: &MergeArgs, class: &str, machine: &str, alone: bool) -> PathBuf {
    args.output().join(if alone { class.to_string() } else { format!("{class}-{machine}") })
}

/// The directories of records that earlier merges of this plan made for the class.
fn earlier(output: &Path, class: &str, hash: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut dirs = results::entries(output)?;
    dirs.sort();
    let of_class = |dir: &PathBuf| {
        let path = dir.join(RECORD);
        // Opening a pipe would wait for a reader.
        let shard = path.is_file().then(|| results::first_line(&path).ok()?.shard).flatten();
        shard.is_some_and(|shard| shard.plan == hash && shard.class == class && !shard.cases.is_empty())
    };
    dirs.retain(of_class);
    Ok(dirs)
}

/// Removes a record and the files made from it. The directory stays if it contains files of the user.
fn remove(dir: &Path) -> Result<(), Failure> {
    let path = dir.join(RECORD);
    writer::refuse_in_use(&path)?;
    // The record last, so that a second attempt finds it.
    for file in results_dir::made_from(dir).into_iter().chain([path]) {
        fs::remove_file(&file).with_context(|| format!("{} cannot be removed", file.display()))?;
    }
    let _ = fs::remove_dir(dir.join("plots"));
    let _ = fs::remove_dir(dir);
    Ok(())
}

/// The records of a class. Each shard must have one complete result; `partial` skips the others with a warning.
fn machines(planned: &Planned, dir: &Path, class: &str, partial: bool) -> Result<Machines, Failure> {
    let mut found = results::of_class(dir, class, &planned.hash)?;
    results::refuse_twice(&found, class)?;
    let (mut machines, mut missing, mut problems) = (Machines::new(), Vec::new(), Vec::new());
    let any = !found.is_empty();
    for (number, cases) in (0..).zip(&planned.plan.shards) {
        match found.remove(&number).and_then(|files| files.into_iter().next()) {
            Some(file) => match results::whole(&file, cases) {
                Ok(record) => machines.entry(machine(&record.run)).or_default().push(record),
                Err(why) => problems.push(why),
            },
            None => missing.push(number),
        }
    }
    if let Some(number) = found.keys().next() {
        return Err(anyhow::anyhow!("shard {number} is not in the plan").into());
    }
    if any && !missing.is_empty() {
        problems.push(format!("class {class} has no result of shard {}", ranges(missing)));
    }
    if !partial && !problems.is_empty() {
        let more = problems.len().saturating_sub(SHOWN);
        let rest = if more > 0 { format!("; and {more} more, see `sweep status`") } else { String::new() };
        problems.truncate(SHOWN);
        let error = InputError::new("--results", problems.join("; ") + &rest, "a complete result of every shard");
        return Err(error.help(format!("{}; --partial merges the complete ones", remedy(class))).into());
    }
    problems.iter().for_each(|problem| output::note(&format!("warning: {problem}")));
    Ok(machines)
}

/// Digest of the properties that make two hosts the same machine: processor, system and devices. The fingerprint does
/// not include GPUs.
fn machine(run: &Run) -> String {
    let mut hash = Fnv::new();
    hash.text(&run.environment.fingerprint());
    run.environment.devices.iter().flat_map(|(id, about)| [id, about]).for_each(|text| hash.text(text));
    format!("{:08x}", hash.finish() as u32)
}

/// Number of the shard that a record is of.
fn number(record: &Record) -> u32 {
    record.run.shard.as_ref().map_or(0, |shard| shard.number)
}

/// Notes that a class of hardware consists of several machines, each of which has only some of the cases.
fn warn_of_several(class: &str, machines: &Machines) {
    if machines.len() < 2 {
        return;
    }
    let one = |(machine, records): (&String, &Vec<Record>)| {
        let cpu = records.first().map_or("", |record| record.run.environment.cpu.as_str());
        let mut hosts: Vec<&str> =
            records.iter().filter_map(|record| Some(record.run.shard.as_ref()?.host.as_str())).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let shards = output::counted(records.len() as u64, "shard");
        format!("  {machine}: {shards}, {cpu}, hosts {}", hosts.join(", "))
    };
    let each: Vec<String> = machines.iter().map(one).collect();
    let what = format!("class {class} ran on {} different machines, each of which gets its own record", machines.len());
    let help = "each has only a part of the cases; --constraint, --gres or --partition makes every machine measure all";
    output::note(&format!("warning: {what}\n{}\n  hint: {help}", each.join("\n")));
}

/// Writes the record of a machine and its report.
fn write(args: &MergeArgs, planned: &Planned, dir: &Path, machine: &str, records: &[Record]) -> Result<(), Failure> {
    let Some(first) = records.first() else { return Ok(()) };
    results_dir::claim(dir, args.overwrite, !args.reports.no_plot, "--overwrite replaces it")?;
    output::directory("-o", dir)?;
    let results = Results::open(dir, args.overwrite, false)?;
    let path = results.dir().join(RECORD);
    // A name unique to this plan that stays when later shards join, so that a history replaces the shorter record.
    let mut hash = Fnv::new();
    [&first.run.id, &planned.hash, machine].into_iter().for_each(|text| hash.text(text));
    let id = format!("{}-{:08x}", output::stamp(first.run.started_unix_ms), hash.finish() as u32);
    let mut run = Run { id, ..first.run.clone() };
    let measured: BTreeSet<u32> = records.iter().map(number).collect();
    let lost = (0..).zip(&planned.plan.shards).filter(|(number, _)| !measured.contains(number));
    if let Some(shard) = &mut run.shard {
        shard.missing = lost.flat_map(|(_, cases)| cases.iter().cloned()).collect();
        shard.cases = planned.plan.cases();
        shard.rows =
            records.iter().flat_map(|record| record.run.shard.iter().flat_map(|one| one.rows.clone())).collect();
    }
    let mut record = Writer::create(&path, &run)?;
    for (index, shard) in records.iter().enumerate() {
        if index > 0 {
            record.append(&shard.run)?;
        }
        shard.measurements.iter().try_for_each(|measurement| record.append(measurement))?;
    }
    drop(record);
    let record = writer::read(&path)?;
    record.warnings.iter().for_each(|warning| output::note(&format!("warning: {warning}")));
    let (cpu, rows) = (record.run.environment.cpu.clone(), record.measurements.len());
    let (options, record) = (report::options(&args.reports), [record]);
    report::write_directory(&options, &record, results.dir())?;
    results.place(&path)?;
    if let Some(table) = FORMATS.iter().find(|format| args.reports.full && format.name == "table") {
        report::show(&options, table, &record, None)?;
    }
    output::result(|out| -> io::Result<()> {
        let of = output::counted(planned.plan.shards.len() as u64, "shard");
        let rows = output::counted(rows as u64, "row");
        writeln!(out, "{}: {} of {of}, {rows}, {cpu}", dir.join(RECORD).display(), records.len())
    })
}
