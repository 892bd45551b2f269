//! The record that a command writes: its first line, the content of a resumed one, and the lines added to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ellwand_bench::{Cell, Effort, Instrument, Plan, Writer, WriterError};
use ellwand_core::record::{Allowed, Counts, Measurement, Run, Settings, Spans, VERSION};
use ellwand_core::{Environment, InputError};

use super::exit::Failure;
use super::{certificate, output, revision};

/// The first line of a record.
pub(super) fn first_line(here: Environment, settings: Settings, seed: u64, started: u64, line: Vec<String>) -> Run {
    Run {
        version: VERSION,
        id: id(started),
        command: line,
        started_unix_ms: started,
        ellwand: env!("CARGO_PKG_VERSION").to_string(),
        seed,
        revision: revision::here(),
        certificate: certificate::stored(&here).ok().flatten(),
        environment: here,
        settings,
        views: Vec::new(),
        shard: None,
    }
}

/// Id of a run: its start, and a part that differs between processes.
fn id(started: u64) -> String {
    // Include the process id, because two runs may start in the same millisecond.
    format!("{}-{:08x}", output::stamp(started), (started as u32) ^ std::process::id().rotate_left(16))
}

/// An open record.
pub(super) struct Recording<'a> {
    record: Writer,
    /// The run that resumes the record, until it has added a line.
    resumes: Option<&'a Run>,
    /// Cells that the record already contains.
    finished: BTreeSet<String>,
    /// Measurements that could not be written.
    unwritten: Vec<Measurement>,
}

impl<'a> Recording<'a> {
    /// Begins a record at `path`, or resumes the one there; its finished cells are those with measurements, or with
    /// `spans`.
    pub(super) fn open(path: &Path, run: &'a Run, resume: bool, spans: bool) -> Result<Self, Failure> {
        // A record without a complete first line was killed before it began.
        let begun = || path.is_file() && std::fs::read(path).is_ok_and(|bytes| bytes.contains(&b'\n'));
        if !(resume && begun()) {
            let record = Writer::create(path, run)?;
            return Ok(Self { record, resumes: None, finished: BTreeSet::new(), unwritten: Vec::new() });
        }
        let (record, known) = Writer::resume(path).map_err(refused)?;
        refuse_other(&known.run, run)?;
        let finished: BTreeSet<String> = if spans {
            known.spans.iter().map(Spans::cell).collect()
        } else {
            known.measurements.iter().map(Measurement::cell).collect()
        };
        // A resumed record gets a run line once there is something to add; lines with checksums need a run line with
        // one.
        let resumes = (!finished.is_empty() || !known.checked).then_some(run);
        Ok(Self { record, resumes, finished, unwritten: Vec::new() })
    }

    /// Removes the implementations that are already measured at this case; returns whether any remain.
    pub(super) fn leave_out(&self, instrument: &Instrument, cell: &mut Cell) -> bool {
        if self.finished.is_empty() {
            return !cell.implementations.is_empty();
        }
        let case = cell.case.id();
        cell.implementations.retain(|implementation| {
            let device = instrument.registry.devices().iter().find(|device| device.kind() == implementation.needs);
            let device = device.map_or_else(|| implementation.needs.to_string(), |device| device.id().to_string());
            !self.finished.contains(&format!("{case} {} {device}", implementation.name))
        });
        !cell.implementations.is_empty()
    }

    /// Notes the workloads that the resumed record contains but the plan does not.
    pub(super) fn note_others(&self, plan: &Plan) {
        let held = self.finished.iter().filter_map(|cell| cell.split(['/', ' ']).next());
        let others: BTreeSet<&str> =
            held.filter(|name| !plan.cells.iter().any(|cell| cell.workload.name() == *name)).collect();
        if !others.is_empty() {
            let others = others.into_iter().collect::<Vec<_>>().join(", ");
            output::note(&format!(
                "note: the record to resume also holds {others}, which this command does not measure; its rows stay"
            ));
        }
    }

    pub(super) fn add(&mut self, measurements: &[Measurement]) -> Result<(), Failure> {
        for (index, measurement) in measurements.iter().enumerate() {
            let written = self.writer().and_then(|record| Ok(record.append(measurement)?));
            written.inspect_err(|_| self.unwritten = measurements[index..].to_vec())?;
        }
        self.dir().map(drop)
    }

    /// Path of the record, and the measurements that could not be added to it.
    pub(super) fn lost(self) -> (PathBuf, Vec<Measurement>) {
        (self.record.path().to_path_buf(), self.unwritten)
    }

    /// Directory of the record: a different one once the original has vanished.
    pub(super) fn dir(&mut self) -> Result<&Path, Failure> {
        follow(&mut self.record)?;
        Ok(self.record.path().parent().unwrap_or(Path::new(".")))
    }

    /// Closes the record; returns its path.
    pub(super) fn close(mut self) -> Result<PathBuf, Failure> {
        self.dir()?;
        Ok(self.record.path().to_path_buf())
    }

    /// The open record, for adding lines.
    pub(super) fn writer(&mut self) -> Result<&mut Writer, Failure> {
        if let Some(run) = self.resumes.take() {
            self.record.append(run)?;
        }
        Ok(&mut self.record)
    }
}

/// Continues the record elsewhere if its file has vanished, and prints where.
pub(super) fn follow(record: &mut Writer) -> Result<(), Failure> {
    let before = record.path().to_path_buf();
    if record.follow()? {
        let (before, now) = (before.display(), record.path().display());
        output::note(&format!(
            "warning: {before} has vanished; the run continues in {now}, which has everything so far"
        ));
    }
    Ok(())
}

/// A damaged record is an input error, as in commands that only read records.
fn refused(error: WriterError) -> Failure {
    match error {
        WriterError::Unreadable { .. } => {
            InputError::new("--resume", error.to_string(), "a record as written by `run` (record.jsonl)").into()
        }
        other => other.into(),
    }
}

/// Refuses to resume the record of a run with other settings.
fn refuse_other(known: &Run, run: &Run) -> Result<(), InputError> {
    let differs = |what: &str, expected| InputError::new("--resume", format!("the record was made {what}"), expected);
    if known.environment.fingerprint() != run.environment.fingerprint() {
        return Err(differs("on another machine", "the machine it was made on, or a new directory".to_string()));
    }
    let pairs = [
        ("--seed", known.seed.to_string(), run.seed.to_string()),
        ("--caches", known.settings.caches.word().to_string(), run.settings.caches.word().to_string()),
        ("--effort", effort(&known.settings), effort(&run.settings)),
        ("--blocks", option(known, "--blocks"), option(run, "--blocks")),
        ("--in-process", flag(known, "--in-process"), flag(run, "--in-process")),
        ("--atol", tolerance(known, |allowed| allowed.absolute), tolerance(run, |allowed| allowed.absolute)),
        ("--rtol", tolerance(known, |allowed| allowed.relative), tolerance(run, |allowed| allowed.relative)),
        ("--warm-up", count(known, |counts| counts.warm_up), count(run, |counts| counts.warm_up)),
        ("--iterations", count(known, |counts| counts.iterations), count(run, |counts| counts.iterations)),
    ];
    let other: Vec<&(&str, String, String)> = pairs.iter().filter(|(_, there, now)| there != now).collect();
    if !other.is_empty() {
        let each =
            |of: fn(&(&str, String, String)) -> String| other.iter().map(|p| of(p)).collect::<Vec<_>>().join(", ");
        let there = each(|(flag, there, _)| format_flag(flag, there));
        let now = each(|(flag, _, now)| format_flag(flag, now));
        let problem = format!("the record was made with {there}, this command has {now}");
        return Err(InputError::new("--resume", problem, format!("{there}, or a new directory")));
    }
    Ok(())
}

/// A flag and its value, as the user types them.
fn format_flag(flag: &str, value: &str) -> String {
    match value {
        "unset" => format!("no {flag}"),
        "set" => flag.to_string(),
        value => format!("{flag} {value}"),
    }
}

/// The value of an option in a run's command.
fn option(run: &Run, name: &str) -> String {
    let mut words = run.command.iter().skip_while(|word| *word != name && !word.starts_with(&format!("{name}=")));
    let value =
        words.next().and_then(|word| word.split_once('=').map(|(_, value)| value).or(words.next().map(|v| v.as_str())));
    value.unwrap_or("unset").to_string()
}

/// True if a run's command has a flag.
fn flag(run: &Run, name: &str) -> String {
    if run.command.iter().any(|word| word == name) { "set" } else { "unset" }.to_string()
}

/// A count fixed by the user.
fn count(run: &Run, of: fn(&Counts) -> u64) -> String {
    run.settings.counts.as_ref().map_or_else(|| "unset".into(), |counts| of(counts).to_string())
}

/// A part of the tolerance chosen by the user.
fn tolerance(run: &Run, of: fn(&Allowed) -> f64) -> String {
    run.settings.allowed.as_ref().map_or_else(|| "unset".into(), |allowed| format!("{:e}", of(allowed)))
}

/// Name of the preset with these settings, ignoring the state of the caches and fixed counts.
fn effort(settings: &Settings) -> String {
    let of = |effort: Effort| Settings {
        caches: settings.caches,
        counts: settings.counts,
        allowed: settings.allowed,
        ..effort.settings()
    };
    let known = Effort::NAMES.iter().find(|(_, effort)| of(*effort) == *settings);
    known.map_or_else(|| "of another version".to_string(), |(name, _)| (*name).to_string())
}
