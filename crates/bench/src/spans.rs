//! Components: runs of an implementation with spans on, apart from every headline timing.
//!
//! The answer is judged before and after, as for a measurement, and the times are those of profiled runs: they tell where
//! the time goes, not how long it takes.

use std::sync::atomic::Ordering::Relaxed;

use ellwand_core::device::{Activity, Device, DeviceKind};
use ellwand_core::implementation::{Implementation, Prepared};
use ellwand_core::record::{Outcome, SpanCost, SpanNode, Spans};
use ellwand_profile::{FrameRow, Session, Trace, span};

use crate::check::{self, Ready, Task};
use crate::measure::{Event, Instrument, Interrupted};
use crate::plan::Cell;

/// Name of the span around an iteration; no implementation of a user's is likely to call one so.
const ITERATION: &str = "(iteration)";
/// Name of the span that ends where the clock of a device began to count.
const CLOCK: &str = "(device clock)";
/// Most spans of a recording: 8 MiB in memory, some 40 MB as a trace that viewers still open.
const CAPACITY: u64 = 1 << 18;
/// Iterations that are recorded: enough for a look at how they differ, few enough to keep them all.
const ITERATIONS: std::ops::RangeInclusive<u64> = 3..=50;

/// Components of an implementation, and every span that was recorded.
#[derive(Debug)]
pub struct Recording {
    /// What goes into the record.
    pub spans: Spans,
    /// The whole trace; none when nothing ran.
    pub trace: Option<Trace>,
}

/// What spans cost here, for the record; none while a session runs.
pub fn cost() -> Option<SpanCost> {
    let cost = ellwand_profile::cost().ok()?;
    let known = [cost.off_ns, cost.on_ns, cost.empty_ns].iter().all(|ns| ns.is_finite());
    known.then_some(SpanCost { off_ns: cost.off_ns, on_ns: cost.on_ns, empty_ns: cost.empty_ns })
}

impl Instrument<'_> {
    /// Records the components of each implementation of a cell, in this process.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn spans(
        &self,
        cell: &Cell,
        cost: Option<SpanCost>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Vec<Recording>, Interrupted> {
        let made = self.made(cell);
        let mut recordings = Vec::new();
        for implementation in &cell.implementations {
            self.check_interrupt()?;
            on_event(Event::Checking(&implementation.name));
            recordings.push(match &made {
                Ok((case, inputs, expected)) => {
                    let task = Task { workload: cell.workload.as_ref(), case, inputs, expected };
                    self.recorded(&task, implementation, cost)?
                }
                Err(error) => {
                    let failed = Outcome::Failed { error: error.clone() };
                    Recording { spans: self.no_spans(cell, implementation, failed), trace: None }
                }
            });
        }
        Ok(recordings)
    }

    fn recorded(
        &self,
        task: &Task,
        implementation: &Implementation,
        cost: Option<SpanCost>,
    ) -> Result<Recording, Interrupted> {
        let mut spans = blank(self.blank(task.workload, task.case, implementation));
        let ended = |mut spans: Spans, outcome| {
            spans.outcome = outcome;
            Ok(Recording { spans, trace: None })
        };
        let device = match self.device(implementation) {
            Ok(device) => device,
            Err(why) => return ended(spans, Outcome::Unsupported { why }),
        };
        spans.device = device.id().to_string();
        let Ready { mut prepared, first_run_ns, .. } = match check::ready(task, implementation, device) {
            Ok(ready) => ready,
            Err(outcome) => return ended(spans, outcome),
        };
        spans.what_ran = prepared.what_ran();
        let fit = self.settings.case_budget_ns / first_run_ns.max(1);
        let wanted = fit.clamp(*ITERATIONS.start(), *ITERATIONS.end());
        let trace = match self.record(prepared.as_mut(), wanted, device, &mut spans.warnings) {
            Ok(trace) => trace,
            Err(error) => return ended(spans, Outcome::Failed { error }),
        };
        self.check_interrupt()?;
        if let Err(outcome) = check::again(task, prepared.as_mut()) {
            return ended(spans, outcome);
        }
        fill(&mut spans, &trace);
        spans.cost = cost;
        Ok(Recording { spans, trace: Some(trace) })
    }

    /// Runs up to `wanted` iterations with spans on.
    fn record(
        &self,
        prepared: &mut dyn Prepared,
        wanted: u64,
        device: &dyn Device,
        warnings: &mut Vec<String>,
    ) -> Result<Trace, String> {
        // One iteration to see how many spans it has, so that none of those that count is cut in the middle.
        let (first, _) = self.session(prepared, 0, None)?;
        let fit = (CAPACITY / 2) / first.spans().max(1);
        let watched = (device.kind() != DeviceKind::Cpu).then_some(device);
        let (mut trace, did) = self.session(prepared, wanted.min(fit).max(1), watched)?;
        match did {
            Some(Ok(activities)) => place(&mut trace, activities),
            Some(Err(why)) => warnings.push(format!("what the device did is not in the timeline: {why}")),
            None => {}
        }
        Ok(trace)
    }

    /// A session: one iteration in which the threads join, then `iterations` that are told apart.
    fn session(
        &self,
        prepared: &mut dyn Prepared,
        iterations: u64,
        device: Option<&dyn Device>,
    ) -> Result<(Trace, Option<Did>), String> {
        let session = Session::with_capacity(CAPACITY).map_err(|error| error.to_string())?;
        let watching = device.map(|device| {
            let _clock = span!(CLOCK);
            device.watch()
        });
        let ran = check::guarded("run", || {
            prepared.load(1);
            prepared.run();
            prepared.sync()?;
            for _ in 0..iterations {
                if self.interrupt.load(Relaxed) {
                    break;
                }
                prepared.load(1);
                let _iteration = span!(ITERATION);
                prepared.run();
                prepared.sync()?;
            }
            Ok(())
        });
        let trace = session.finish();
        let did = device.zip(watching).map(|(device, watching)| watching.and_then(|()| device.watched()));
        ran.and_then(|ran| ran).map(|()| (trace, did))
    }

    fn no_spans(&self, cell: &Cell, implementation: &Implementation, outcome: Outcome) -> Spans {
        Spans { outcome, ..blank(self.blank(cell.workload.as_ref(), &cell.case, implementation)) }
    }
}

/// What a device did, or why that cannot be told.
type Did = Result<Vec<Activity>, String>;

/// Puts what a device did onto the timeline of the spans.
fn place(trace: &mut Trace, mut activities: Vec<Activity>) {
    let clock = trace.lanes.iter().flat_map(|lane| &lane.spans).find(|span| trace.name(span) == CLOCK);
    let Some(began) = clock.map(|span| trace.since_start_ns(span.end)) else { return };
    for activity in &mut activities {
        activity.start_ns = activity.start_ns.saturating_add(began as i64);
    }
    trace.activities = activities;
}

/// A line without components, from what a measurement says about the same cell.
fn blank(measurement: ellwand_core::Measurement) -> Spans {
    Spans {
        case: measurement.case,
        implementation: measurement.implementation,
        device: measurement.device,
        parallelism: measurement.parallelism,
        what_ran: measurement.what_ran,
        work: measurement.work,
        outcome: measurement.outcome,
        iteration_ns: Vec::new(),
        nodes: Vec::new(),
        clock: String::new(),
        cost: None,
        spans: 0,
        dropped: 0,
        open: 0,
        trace: None,
        warnings: measurement.warnings,
    }
}

/// Puts the components of a trace into the line.
fn fill(spans: &mut Spans, trace: &Trace) {
    let frames = trace.frames(ITERATION);
    let node = |FrameRow { row, inside, total_ns, self_ns }: FrameRow| {
        let known = |value: f64| value.is_finite().then_some(value);
        SpanNode {
            path: row.path,
            file: row.file,
            line: row.line,
            calling: inside,
            lanes: u32::try_from(row.lanes).unwrap_or(u32::MAX),
            calls: row.count,
            total_ns,
            self_ns,
            call_min_ns: known(row.min_ns),
            call_median_ns: known(row.median_ns),
            call_p99_ns: known(row.p99_ns),
            call_max_ns: known(row.max_ns),
            bytes: row.counters.bytes,
            items: row.counters.items,
            // A record has no infinite numbers.
            flops: known(row.counters.flops).unwrap_or(0.0),
        }
    };
    spans.iteration_ns = frames.wall_ns;
    spans.nodes = frames.rows.into_iter().map(node).collect();
    spans.clock = trace.clock.kind.word().to_string();
    spans.spans = spans.nodes.iter().map(|node| node.calls).sum();
    spans.dropped = trace.dropped();
    spans.open = trace.open();
    if trace.dropped_counters() > 0 {
        let spans_without = trace.dropped_counters();
        spans.warnings.push(format!("{spans_without} spans lost their counters: rates of components are too low"));
    }
}
