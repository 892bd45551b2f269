//! Builds the report model from records.

use std::collections::HashMap;

use ellwand_core::ceiling::roof;
use ellwand_core::error::InputError;
use ellwand_core::record::{Param, Record};
use ellwand_core::{Better, DeviceKind, Environment, METRICS, Measurement, Reading, View};

use super::{
    CaseInfo, Machines, Options, Report, Row, RunInfo, Section, Settles, Speedup, axes, best, comparison, distinct,
    growth, load, spans, speedup, stats,
};
use crate::ReportError;

/// Version of the model and of the keys of its JSON form.
const REPORT_VERSION: u32 = 1;

type Indexed<'a> = (usize, &'a Measurement);

impl Report {
    /// Builds the report of one or several records.
    ///
    /// # Errors
    /// If there is no record, no record has the baseline in `options`, or records of several machines are asked for and
    /// all are of one.
    pub fn from_records(records: &[Record], options: &Options) -> Result<Self, ReportError> {
        if records.is_empty() {
            return Err(ReportError::NoRecords);
        }
        if let Some(name) = &options.baseline {
            known_baseline(records, name)?;
        }
        let all: Vec<Indexed<'_>> = records
            .iter()
            .enumerate()
            .flat_map(|(run, record)| record.measurements.iter().map(move |measurement| (run, measurement)))
            .collect();
        let names: Vec<&str> = distinct(all.iter().map(|(_, measurement)| measurement.case.workload.as_str()));
        let section = |name: &&str| {
            let mine: Vec<Indexed<'_>> = all.iter().filter(|(_, m)| m.case.workload == **name).copied().collect();
            section(name, &mine, records, options)
        };
        let mut report = Self {
            report_version: REPORT_VERSION,
            runs: records.iter().map(RunInfo::new).collect(),
            metrics: METRICS,
            workloads: names.iter().map(section).collect(),
            comparisons: comparison::comparisons(records),
            spans: spans::tables(records),
            machines: None,
            findings: Vec::new(),
            warnings: warnings(records),
            limits: limits(records),
            views: Vec::new(),
            options: options.clone(),
        };
        records.iter().for_each(|record| View::join(&mut report.views, &record.run.views));
        report.findings = crate::diagnose::findings(&report);
        if options.across_machines {
            report.machines = Some(Machines::new(&report)?);
        }
        Ok(report)
    }
}

fn known_baseline(records: &[Record], name: &str) -> Result<(), ReportError> {
    let all = records.iter().flat_map(|record| &record.measurements);
    let known: Vec<&str> = distinct(all.map(|measurement| measurement.implementation.as_str()));
    if known.contains(&name) {
        return Ok(());
    }
    let problem = format!("no measurement has the implementation '{name}'");
    let error = InputError::setting("baseline", problem, format!("one of {}", known.join(", ")));
    Err(ReportError::UnknownBaseline(error.near(name, known.iter().copied())))
}

fn warnings(records: &[Record]) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let place = if records.len() > 1 { format!("run {}: ", index + 1) } else { String::new() };
        warnings.extend(record.warnings.iter().map(|warning| format!("{place}{}", crate::units::clean(warning))));
        warnings.extend(missing_cases(record).map(|warning| format!("{place}{warning}")));
        warnings.extend(lost_rows(record).map(|warning| format!("{place}{warning}")));
        if record.measurements.is_empty() && record.comparisons.is_empty() && record.spans.is_empty() {
            warnings.push(format!("{place}the record has no measurements"));
        }
    }
    let machine = |record: &Record| record.run.environment.fingerprint();
    if records.iter().any(|record| machine(record) != machine(&records[0])) {
        warnings.push(
            "the records come from different machines: differences between their times say nothing about the code"
                .to_string(),
        );
    }
    warnings
}

/// Maximum number of missing cases or rows that a warning names.
const NAMED: usize = 4;

/// Warning for a record merged from only a part of a sweep.
fn missing_cases(record: &Record) -> Option<String> {
    let missing = record.run.shard.as_ref().map(|shard| &shard.missing).filter(|missing| !missing.is_empty())?;
    let count = if missing.len() == 1 { "1 case".into() } else { format!("{} cases", missing.len()) };
    Some(format!("the record is a part of a sweep and lacks {count} of the plan: {}", first(missing)))
}

/// Warning for a record that was cut between two lines.
fn lost_rows(record: &Record) -> Option<String> {
    let lost = Some(record.lost_rows()).filter(|lost| !lost.is_empty())?;
    let planned = record.run.shard.as_ref().map_or(0, |shard| shard.rows.len());
    Some(format!("the record lacks {} of the {planned} rows that its first line lists: {}", lost.len(), first(&lost)))
}

/// The first names of a list, and the number of the others.
fn first(names: &[impl AsRef<str>]) -> String {
    let named: Vec<String> = names.iter().take(NAMED).map(|name| crate::units::clean(name.as_ref())).collect();
    let more = names.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}

fn limits(records: &[Record]) -> Vec<String> {
    let mut limits = Vec::new();
    if records.iter().any(|record| !record.spans.is_empty()) {
        limits.push(
            "Components come from runs with spans on, in one process and few iterations: they show where the time goes, not how long a run takes. \
             Times include the cost of the spans, which is printed with them. The time of a span is not reduced by linked spans on other threads."
                .to_string(),
        );
    }
    if records.iter().any(|record| !record.comparisons.is_empty()) {
        limits.push(
            "A verdict holds for these two programs on this machine. Another build of the same source may have a different memory layout, \
             which can change its time by a few per cent: the verdict compares builds, not sources."
                .to_string(),
        );
    }
    if records.iter().any(|record| !record.measurements.is_empty()) {
        limits.extend(of_measurements());
        let measured = || records.iter().flat_map(|record| &record.measurements);
        if measured().any(|measurement| measurement.caches.is_warm()) {
            limits.push(WARM.into());
        }
        if measured().any(|measurement| !measurement.caches.is_warm()) {
            limits.push(COLD.into());
        }
        let gpus = [DeviceKind::Cuda, DeviceKind::Wgpu].map(DeviceKind::name);
        if measured().any(|measurement| gpus.iter().any(|gpu| measurement.device.starts_with(gpu))) {
            limits.push(DeviceKind::EXPERIMENTAL.into());
        }
        if records.iter().any(|record| record.run.environment.ceilings.is_empty()) {
            limits.push(
                "No ceilings were measured in at least one run, so shares of the ceiling are unavailable there.".into(),
            );
        }
    }
    if records.iter().any(|record| record.run.environment.virtualised == Some(true)) {
        limits.push("The machine is virtual: the host may preempt it without this program noticing.".into());
    }
    limits
}

const WARM: &str = "Inputs are warm: iterations follow each other and find in the caches what the previous one left.";

/// Explains cold caches: what they include and what they do not.
const COLD: &str = "With cold caches every slot is one iteration after a flush: inputs, outputs, instructions and address translations come from main memory, \
     and pool threads may have to be woken. Shares of the ceiling then refer to the read bandwidth of main memory; \
     written data need not have reached it when the iteration ends.";

fn of_measurements() -> [String; 3] {
    [
        "A speed-up is the ratio of the two printed times. Its 95 % interval is computed from the few processes of this run, or from the rounds if there is one process. \
         For differences of a few per cent use `ellwand compare`, which runs as many processes as its verdict needs."
            .to_string(),
        "Bandwidth and compute count the bytes and operations that the mathematics requires, not what an implementation moved."
            .to_string(),
        "The share of the ceiling refers to peaks that Ellwand measured on this machine; it is neither a data-sheet figure nor a measure of code quality."
            .to_string(),
    ]
}

fn section(name: &str, mine: &[Indexed<'_>], records: &[Record], options: &Options) -> Section {
    let completed = axes::completed(mine.iter().map(|(_, m)| &m.case));
    let (swept, fixed) = axes::split(&completed);
    let params: HashMap<&str, &[Param]> = completed.iter().map(|case| (case.id.as_str(), &case.params[..])).collect();
    let mut cases: Vec<(usize, &str, Vec<Indexed<'_>>)> = Vec::new();
    for (run, measurement) in mine {
        let id = measurement.case.id.as_str();
        match cases.iter_mut().find(|(r, known, _)| r == run && *known == id) {
            Some((_, _, members)) => members.push((*run, measurement)),
            None => cases.push((*run, id, vec![(*run, measurement)])),
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut infos = Vec::new();
    for (run, id, members) in &cases {
        let first = rows.len();
        let peers: Vec<&Measurement> = members.iter().map(|(_, m)| *m).collect();
        let environment = &records[*run].run.environment;
        rows.extend(peers.iter().map(|measurement| Row {
            params: params.get(id).map_or_else(Vec::new, |params| params.to_vec()),
            ..row(*run, measurement, &peers, environment, options)
        }));
        let best = best::best(&rows, first, &peers);
        best.row.iter().for_each(|index| rows[*index].best = true);
        best.tied.iter().for_each(|index| rows[*index].tied = true);
        infos.push(CaseInfo { run: *run, id: (*id).to_string(), rows: (first..rows.len()).collect(), best });
    }
    let mut items: Vec<String> = Vec::new();
    let mut implementations = Vec::new();
    let mut baselines = Vec::new();
    for row in &rows {
        push_new(&mut items, &row.work.item);
        push_new(&mut implementations, &row.implementation);
        push_new(&mut baselines, &row.speedup.baseline);
    }
    let item = if items.len() == 1 { items.pop().filter(|item| !item.is_empty()) } else { None };
    Section {
        workload: name.to_string(),
        growth: growth::growth(&swept, &rows),
        along_axes: growth::along_axes(&swept, &infos, &rows),
        remarks: super::remarks::of(&rows),
        leading: axes::leading(&completed, &swept),
        swept,
        fixed,
        item,
        implementations,
        baselines,
        cases: infos,
        rows,
    }
}

pub(super) fn push_new(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_string());
    }
}

fn row(run: usize, m: &Measurement, peers: &[&Measurement], environment: &Environment, options: &Options) -> Row {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let below_resolution = m.outcome.is_measured() && m.below_resolution();
    let metrics = stats::metrics(m, environment);
    // On a device the tables' time excludes the host, but a first run includes it.
    let steady_id = if m.device == "cpu" { "time" } else { "wall-time" };
    let steady = metrics.iter().find(|metric| metric.id == steady_id).and_then(|metric| metric.stats);
    // If the clock did not advance, the run was shorter than one clock step; 0 would be wrong.
    let first_run_s = m.first_run_ns.filter(|ns| *ns > 0).map(seconds);
    let baseline = options.baseline.as_deref().unwrap_or(&m.baseline);
    let speedup: Speedup = speedup::speedup(m, peers, baseline, environment);
    let held_up = load::held_up(m, environment);
    Row {
        run,
        case: m.case.id.clone(),
        params: m.case.params.clone(),
        input: m.case.input.clone(),
        implementation: crate::units::clean(&m.implementation),
        device: crate::units::clean(&m.device),
        parallelism: m.ran_on(),
        caches: m.caches,
        what_ran: crate::units::clean(&m.what_ran),
        status: (&m.outcome).into(),
        check: m.check.clone(),
        work: m.work_done().into_owned(),
        samples: m.samples.len(),
        basis: m.basis,
        settling: m.settling.as_ref().and_then(Settles::new),
        below_resolution,
        resolution_s: m.resolution_ns.map(|ns| ns / 1e9),
        prepare_s: m.prepare_ns.map(seconds),
        first_run_s,
        first_over_steady: first_run_s
            .zip(steady)
            .map(|(first, steady)| first / steady.median)
            .filter(|r| r.is_finite()),
        metrics,
        wall_over_cpu: load::contention(m),
        switched_share: load::switched_share(m),
        held_up,
        faults_per_iteration: crate::diagnose::typical_faults(m),
        warnings: m
            .warnings
            .iter()
            .map(|warning| crate::units::clean(warning))
            .chain(load::undeclared(m))
            .chain(speedup::remark(&speedup, m, peers))
            .chain(speedup::two_clocks(&speedup, m, peers))
            .chain(m.check.as_ref().and_then(|check| check.compared?.remark()))
            .collect(),
        speedup,
        roof: if m.outcome.is_measured() {
            roof(environment, &m.work_done(), m.ran_on(), &m.device, m.caches)
        } else {
            None
        },
        diagnosis: crate::diagnose::place(m, environment),
        best: false,
        tied: false,
        readings: readings(m),
    }
}

/// The readings of the record, plus the largest difference from the reference if it is not 0.
fn readings(m: &Measurement) -> Vec<Reading> {
    let mut readings = m.readings.clone();
    // Show one count of faults: that of all samples instead of that of the single run with probes.
    if let Some(reading) = readings.iter_mut().find(|reading| reading.id == "page-faults") {
        reading.value = crate::diagnose::typical_faults(m).or(reading.value);
        reading.about =
            "minor page faults of a run in steady state: the mean over the middle half of the samples".into();
    }
    if let Some(error) = m.check.as_ref().and_then(|check| check.max_error).filter(|error| *error > 0.0) {
        let about = "largest absolute difference from the reference, over the outputs that were checked";
        readings.push(Reading::measured("largest-difference", "largest difference", "", Better::Lower, error, about));
    }
    readings
}
