//! `sweep status`: which shards have a result, and the scheduler's state of the others.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::plan::{Planned, read};
use super::queue::{self, Queued};
use super::{ranges, remedy, results, shard};
use crate::cli::args::{Form, StatusArgs};
use crate::cli::exit::{Exit, Failure, Outcome};
use crate::cli::{output, signals};

/// Time between two queries to the scheduler.
const PAUSE: Duration = Duration::from_secs(1);

/// Queries without an answer after which waiting ends.
const PATIENCE: usize = 30;

/// The shards of a class.
#[derive(Serialize)]
struct Class {
    #[serde(rename = "class")]
    name: String,
    finished: usize,
    running: Vec<u32>,
    pending: Vec<u32>,
    /// Why tasks are pending.
    reasons: BTreeSet<String>,
    /// Shards without a complete result and without a task in the queue.
    missing: Vec<u32>,
    /// Why results that have a file are incomplete.
    incomplete: Vec<String>,
    /// Shards with several results, which `sweep merge` refuses.
    twice: Vec<String>,
}

pub(super) fn status(args: &StatusArgs) -> Outcome {
    let planned = read(&args.place.plan)?;
    let dir = args.place.results()?;
    let stop = signals::stop_on_ctrl_c(signals::TASKS_GO_ON);
    let (mut silent, mut known) = (0, BTreeSet::new());
    let (classes, unanswered) = loop {
        let (classes, unanswered) = look(&planned, &dir, &mut known)?;
        silent = if unanswered.is_some() { silent + 1 } else { 0 };
        let waits = unanswered.is_some() || classes.iter().any(|class| class.running.len() + class.pending.len() > 0);
        let open = classes.iter().any(|class| class.finished < planned.plan.shards.len());
        if !args.wait || !waits || !open || silent > PATIENCE {
            break (classes, unanswered);
        }
        if stop.load(Relaxed) {
            return Ok(Exit::Interrupted);
        }
        thread::sleep(PAUSE);
    };
    output::result(|out| match args.format {
        Form::Json => write_json(&planned, &classes, out),
        _ => write_table(&planned, &classes, out),
    })?;
    if let Some(words) = unanswered {
        output::note(&format!("error: the queue is unknown ({words}); the results above are from their files"));
        return Ok(Exit::Error);
    }
    let incomplete = classes.is_empty() || classes.iter().any(|class| !class.missing.is_empty());
    let twice = classes.iter().any(|class| !class.twice.is_empty());
    Ok(if twice || args.wait && incomplete { Exit::Error } else { Exit::Ok })
}

/// All classes, and the message of a scheduler that gave no answer. Results `known` to be complete are not read again.
fn look(planned: &Planned, dir: &Path, known: &mut BTreeSet<PathBuf>) -> Result<(Vec<Class>, Option<String>), Failure> {
    let submissions = queue::submissions(dir, &planned.hash)?;
    // Query the queue first: a task that ends in between then has its result.
    let (queued, unanswered) = match queue::queued(&submissions) {
        Ok(queued) => (queued, None),
        Err(refused) => (Vec::new(), Some(refused.into_error("squeue").problem)),
    };
    let names: BTreeSet<String> =
        results::classes(dir)?.into_iter().chain(submissions.into_iter().map(|one| one.class)).collect();
    let classes = names.into_iter().map(|name| {
        let found = results::of_class(dir, &name, &planned.hash)?;
        let twice = results::twice(&found, &name);
        let lacking = results::missing(planned, found, known);
        let open: Vec<u32> = lacking.keys().copied().collect();
        let finished = planned.plan.shards.len() - open.len();
        let tasks: Vec<&Queued> =
            queued.iter().filter(|task| task.class == name && open.contains(&task.shard)).collect();
        let of = |running: bool| tasks.iter().filter(move |task| task.running == running).map(|task| task.shard);
        let here = results::running(&dir.join(&name), &shard::host());
        let running: BTreeSet<u32> = of(true).chain(here.into_iter().filter(|shard| open.contains(shard))).collect();
        let running: Vec<u32> = running.into_iter().collect();
        let pending: Vec<u32> = of(false).filter(|shard| !running.contains(shard)).collect();
        let missing =
            open.iter().filter(|shard| !running.contains(shard) && !pending.contains(shard)).copied().collect();
        let reasons = tasks.iter().filter(|task| !task.running).map(|task| task.reason.clone()).collect();
        let incomplete = lacking.into_values().flatten().collect();
        Ok(Class { name, finished, running, pending, reasons, missing, incomplete, twice })
    });
    Ok((classes.collect::<Result<_, Failure>>()?, unanswered))
}

fn write_table(planned: &Planned, classes: &[Class], out: &mut dyn Write) -> io::Result<()> {
    let cases: usize = planned.plan.shards.iter().map(Vec::len).sum();
    let [cases, shards] = [(cases, "case"), (planned.plan.shards.len(), "shard")]
        .map(|(count, what)| output::counted(count as u64, what));
    writeln!(out, "plan {}: {cases} in {shards}", planned.hash)?;
    if classes.is_empty() {
        return writeln!(out, "nothing was submitted; `sweep submit` does that");
    }
    let width = classes.iter().map(|class| class.name.len()).max().unwrap_or(0).max("class".len());
    writeln!(out, "{:width$}  finished  running  pending  missing", "class")?;
    for class in classes {
        let [running, pending, missing] = [&class.running, &class.pending, &class.missing].map(|shards| shards.len());
        let row = format!("{:width$}  {:>8}  {running:>7}  {pending:>7}  {missing:>7}", class.name, class.finished);
        let reasons = class.reasons.iter().cloned().collect::<Vec<_>>().join(", ");
        let reasons = if reasons.is_empty() { String::new() } else { format!("  pending: {reasons}") };
        writeln!(out, "{row}{reasons}")?;
    }
    for class in classes.iter().filter(|class| !class.missing.is_empty()) {
        let shards = ranges(class.missing.iter().copied());
        writeln!(out, "missing of {}: {shards}; {}", class.name, remedy(&class.name))?;
    }
    for why in classes.iter().flat_map(|class| &class.incomplete) {
        writeln!(out, "incomplete: {why}")?;
    }
    for what in classes.iter().flat_map(|class| &class.twice) {
        writeln!(out, "{what}; remove all but one")?;
    }
    Ok(())
}

fn write_json(planned: &Planned, classes: &[Class], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:#}", json!({ "plan": planned.hash, "shards": planned.plan.shards.len(), "classes": classes }))
}
