//! Components: runs of an implementation with spans on, separate from all headline timings.
//!
//! The answer is checked before and after, as for a measurement. The times are those of profiled runs: they show where
//! the time goes, not how long a run takes.

use std::sync::atomic::Ordering::Relaxed;

use ellwand_core::device::{Activity, Device, DeviceKind};
use ellwand_core::implementation::{Implementation, Prepared};
use ellwand_core::record::{Outcome, SpanCost, SpanNode, Spans};
use ellwand_core::tensor::Tensors;
use ellwand_profile::{FrameRow, NONE, ROOM_NAME, Row, Session, Trace, TraceLane, span};

use crate::arm::{Arm, Judge};
use crate::check::{self, Task};
use crate::kernels;
use crate::measure::{Event, Instrument, Interrupted, PREPARING};
use crate::plan::Cell;
use ellwand_core::error::DeviceError;

/// Name of the span around an iteration; unlikely to occur in user code.
const ITERATION: &str = "(iteration)";
/// Name of the span around the run before the first iteration, in which the threads of an implementation join.
const WARM_UP: &str = "(warm-up)";
/// Name of the span that ends when the device clock starts counting.
const CLOCK: &str = "(device clock)";
/// Maximum number of spans in a recording: 8 MiB in memory and about 40 MB as a trace, which viewers can still open.
const CAPACITY: u64 = 1 << 18;
/// Iterations recorded for slow implementations: enough to see how they vary, few enough to wait for.
const ITERATIONS: std::ops::RangeInclusive<u64> = 3..=50;
/// Fast implementations get more iterations, to fill this time: a pause of the machine lasts milliseconds and must
/// affect only a few of them.
const FILLED_NS: u64 = 30_000_000;
/// Fast implementations get at most the number of values that the record keeps per component ..
const FILLING: u64 = 2_000;
/// .. and at most this number of spans, about 5 MB as a trace.
const FILLING_SPANS: u64 = 1 << 15;

/// Components of an implementation, and all recorded spans.
#[derive(Debug)]
pub struct Recording {
    /// The line for the record.
    pub spans: Spans,
    /// The whole trace; `None` if nothing ran.
    pub trace: Option<Trace>,
}

/// The cost of a span on this machine, for the record; `None` while another session runs.
pub fn cost() -> Option<SpanCost> {
    let cost = ellwand_profile::cost();
    let known = [cost.off_ns, cost.on_ns, cost.empty_ns].iter().all(|ns| ns.is_finite());
    known.then_some(SpanCost { off_ns: cost.off_ns, on_ns: cost.on_ns, empty_ns: cost.empty_ns })
}

impl Instrument<'_> {
    /// Records the components of each implementation of a cell, in this process.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn spans(
        &self,
        cell: &Cell,
        cost: Option<SpanCost>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Vec<Recording>, Interrupted> {
        let made = self.inputs_and_reference(cell);
        let mut recordings = Vec::new();
        for implementation in &cell.implementations {
            self.check_interrupt()?;
            on_event(Event::Preparing { implementation: &implementation.name, step: PREPARING });
            let (workload, case) = (cell.workload.as_ref(), made.as_ref().map_or(&cell.case, |(case, ..)| case));
            let mut spans = blank(self.blank(workload, case, implementation));
            let recorded = made.as_ref().map_err(check::failed).and_then(|(case, inputs, expected)| {
                let task = Task { workload, case, inputs, allowed: cell.allowed };
                self.recorded(task, expected, implementation, &mut spans)
            });
            self.check_interrupt()?;
            let trace = match recorded {
                Ok(trace) => {
                    spans.cost = cost;
                    Some(trace)
                }
                Err(outcome) => {
                    spans.outcome = outcome;
                    None
                }
            };
            recordings.push(Recording { spans, trace });
        }
        Ok(recordings)
    }

    /// Fills `spans` and returns the trace.
    fn recorded(
        &self,
        task: Task,
        expected: &Tensors,
        implementation: &Implementation,
        spans: &mut Spans,
    ) -> Result<Trace, Outcome> {
        let device = self.device(implementation)?;
        spans.device = device.id().to_string();
        let (mut arm, opened) = Arm::prepare(task, implementation, device, Judge::against(expected), &[])?;
        spans.what_ran = opened.what_ran;
        if let Some(work) = opened.work {
            spans.work = work;
        }
        let recorded = self.record(arm.prepared(), opened.first_run_ns.max(1), device, &mut spans.warnings);
        let (mut trace, activities) = recorded.map_err(check::failed)?;
        // Nobody reads the answer if the user interrupted the recording.
        if !self.interrupt.load(Relaxed) {
            arm.rejudge(None)?;
        }
        fill(spans, &trace, &activities);
        trace.add_activities(activities);
        Ok(trace)
    }

    /// Runs iterations with spans on. Budget and first-run time determine their number; for fast implementations, a
    /// trial session adds the iteration time and the spans per iteration.
    fn record(
        &self,
        prepared: &mut dyn Prepared,
        first_run_ns: u64,
        device: &dyn Device,
        warnings: &mut Vec<String>,
    ) -> Result<(Trace, Vec<Activity>), DeviceError> {
        let fill_ns = self.settings.case_budget_ns.min(FILLED_NS);
        // A first run also warms caches and pages. If it is so long that this hardly matters, a trial adds nothing.
        let look = u64::from(first_run_ns < fill_ns);
        // A trial session counts the spans of an iteration, so the buffer cannot fill up in a recorded iteration.
        let (first, _) = self.session(prepared, look, None)?;
        let each_ns = first.frames(ITERATION).wall_ns.first().map_or(first_run_ns, |ns| first_run_ns.min(*ns as u64));
        let wanted = iterations(self.settings.case_budget_ns, first_run_ns, each_ns, first.spans().div_ceil(1 + look));
        let watched = (device.kind() != DeviceKind::Cpu).then_some(device);
        let (trace, did) = self.session(prepared, wanted, watched)?;
        let activities = match did {
            Some(Ok(activities)) => placed(&trace, activities),
            Some(Err(why)) => {
                warnings.push(format!("kernels and copies are neither in the table nor in the timeline: {why}"));
                Vec::new()
            }
            None => Vec::new(),
        };
        Ok((trace, activities))
    }

    /// Runs a session: a warm-up, in which the threads join and which counts nowhere, then `iterations` separate
    /// iterations.
    fn session(
        &self,
        prepared: &mut dyn Prepared,
        iterations: u64,
        device: Option<&dyn Device>,
    ) -> Result<(Trace, Option<Did>), DeviceError> {
        let session = Session::with_capacity(CAPACITY).map_err(|error| DeviceError::new(error.to_string()))?;
        let watching = device.map(|device| {
            let _clock = span!(CLOCK);
            device.watch()
        });
        let ran = check::guarded("run", || {
            prepared.load(1);
            let warm_up = span!(WARM_UP);
            prepared.run();
            prepared.sync()?;
            drop(warm_up);
            for _ in 0..iterations {
                if self.interrupt.load(Relaxed) {
                    break;
                }
                prepared.load(1);
                let _iteration = span!(ITERATION);
                prepared.run();
                prepared.sync()?;
            }
            Ok::<_, DeviceError>(())
        });
        let trace = session.finish();
        let did = device.zip(watching).map(|(device, watching)| watching.and_then(|()| device.watched()));
        ran??;
        Ok((trace, did))
    }
}

/// Number of iterations to record, given the time of the first and of a warm run and the spans in an iteration.
fn iterations(budget_ns: u64, first_run_ns: u64, each_ns: u64, spans: u64) -> u64 {
    let spans = spans.max(1);
    let few = (budget_ns / first_run_ns.max(1)).clamp(*ITERATIONS.start(), *ITERATIONS.end());
    let filling = (budget_ns.min(FILLED_NS) / each_ns.max(1)).min(FILLING).min(FILLING_SPANS / spans);
    // Half of the capacity, because an iteration may have more spans than the trial showed.
    few.max(filling).min(CAPACITY / 2 / spans).max(1)
}

/// The activities of a device, or why they are unavailable.
type Did = Result<Vec<Activity>, DeviceError>;

/// Device activity on the timeline of the spans; empty without the span that connects the two clocks.
fn placed(trace: &Trace, mut activities: Vec<Activity>) -> Vec<Activity> {
    let clock = trace.lanes.iter().flat_map(|lane| &lane.spans).find(|span| trace.name(span) == CLOCK);
    let Some(began) = clock.map(|span| trace.since_start_ns(span.end)) else { return Vec::new() };
    for activity in &mut activities {
        activity.start_ns = activity.start_ns.saturating_add(began as i64);
    }
    activities
}

/// A line without components, for the cell of a measurement.
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

/// Fills the line with the components of a trace.
fn fill(spans: &mut Spans, trace: &Trace, activities: &[Activity]) {
    let frames = trace.frames(ITERATION);
    let node = |FrameRow { row, inside, total_ns, self_ns }: FrameRow| {
        let [call_min_ns, call_median_ns, call_p99_ns, call_max_ns] = call_times(&row);
        SpanNode {
            path: row.path,
            file: row.file,
            line: row.line,
            calling: inside,
            lanes: u32::try_from(row.lanes).unwrap_or(u32::MAX),
            calls: row.count,
            total_ns,
            self_ns,
            call_min_ns,
            call_median_ns,
            call_p99_ns,
            call_max_ns,
            bytes: row.counters.bytes,
            items: row.counters.items,
            // A record cannot hold infinite numbers.
            flops: finite(row.counters.flops).unwrap_or_default(),
        }
    };
    spans.iteration_ns = frames.wall_ns;
    spans.nodes = frames.rows.into_iter().map(node).collect();
    take_room_out(&mut spans.iteration_ns, &mut spans.nodes);
    let left_out = spans.outliers();
    if !left_out.is_empty() {
        keep_calls(&mut spans.nodes, &trace.frames_without(ITERATION, &left_out).rows);
    }
    spans.clock = trace.clock.kind.word().to_string();
    spans.spans = spans.nodes.iter().map(|node| node.calls).sum();
    // If iterations were lost, device activity in them would count for other iterations.
    if trace.dropped() == 0 {
        spans.nodes.extend(kernels::components(&spans.device, &starts(trace), &left_out, activities));
    }
    spans.dropped = trace.dropped();
    spans.open = trace.open();
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Shortest, median, 99th percentile and longest call.
fn call_times(row: &Row) -> [Option<f64>; 4] {
    [row.min_ns, row.median_ns, row.p99_ns, row.max_ns].map(finite)
}

/// Gives components the times of their calls in `kept`, the rows of the iterations that are not outliers.
fn keep_calls(nodes: &mut [SpanNode], kept: &[FrameRow]) {
    for node in nodes {
        let same = |one: &&FrameRow| {
            (one.inside, one.row.line) == (node.calling, node.line)
                && one.row.path == node.path
                && one.row.file == node.file
        };
        let times = kept.iter().find(same).map_or([None; 4], |one| call_times(&one.row));
        [node.call_min_ns, node.call_median_ns, node.call_p99_ns, node.call_max_ns] = times;
    }
}

/// Start of every iteration in nanoseconds since the recording began, in order.
fn starts(trace: &Trace) -> Vec<f64> {
    let of = |lane: &TraceLane| -> Vec<f64> {
        let own = lane.spans.iter().filter(|span| span.parent == NONE && !span.is_open());
        own.filter(|span| trace.name(span) == ITERATION).map(|span| trace.since_start_ns(span.start)).collect()
    };
    trace.lanes.iter().map(of).find(|starts| !starts.is_empty()).unwrap_or_default()
}

/// Removes the time in which the recorder grew its buffer from all enclosing nodes, because it is not part of any
/// component.
fn take_room_out(iteration_ns: &mut [f64], nodes: &mut Vec<SpanNode>) {
    let take = |from: &mut [f64], room: &[f64]| from.iter_mut().zip(room).for_each(|(time, ns)| *time -= ns);
    while let Some(at) = nodes.iter().position(|node| node.path.last().is_some_and(|name| name == ROOM_NAME)) {
        let room = nodes.remove(at);
        // Nodes follow the nodes that contain them: going back, the first of each smaller depth is an ancestor.
        let mut depth = room.path.len();
        for node in nodes[..at].iter_mut().rev() {
            if node.path.len() >= depth {
                continue;
            }
            depth = node.path.len();
            if node.calling == room.calling {
                take(&mut node.total_ns, &room.total_ns);
            }
        }
        if room.calling {
            take(iteration_ns, &room.total_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use ellwand_core::record::{SpanNode, Spans};
    use ellwand_profile::{Kind, NONE, ROOM_NAME, SiteInfo, Span, Trace, TraceLane};

    use super::{CAPACITY, ITERATION, fill, iterations, take_room_out};

    fn node(path: &[&str], calling: bool, total_ns: &[f64], self_ns: &[f64]) -> SpanNode {
        let path = path.iter().map(ToString::to_string).collect();
        SpanNode { path, calling, total_ns: total_ns.to_vec(), self_ns: self_ns.to_vec(), ..SpanNode::default() }
    }

    #[test]
    fn room_for_spans_is_no_component_and_parts_still_add_up() {
        let own_room = node(&["a", "b", ROOM_NAME], true, &[0.0, 40.0], &[0.0, 40.0]);
        let helpers = node(&["a", "help", ROOM_NAME], false, &[7.0, 0.0], &[7.0, 0.0]);
        let between = node(&[ROOM_NAME], true, &[5.0, 0.0], &[5.0, 0.0]);
        let mut nodes = vec![
            node(&["a"], true, &[50.0, 90.0], &[20.0, 20.0]),
            node(&["a", "c"], true, &[10.0, 10.0], &[10.0, 10.0]),
            node(&["a", "b"], true, &[20.0, 60.0], &[20.0, 20.0]),
            own_room,
            node(&["a", "help"], false, &[17.0, 10.0], &[10.0, 10.0]),
            helpers,
            between,
        ];
        let mut iteration_ns = vec![60.0, 95.0];
        take_room_out(&mut iteration_ns, &mut nodes);
        assert_eq!(iteration_ns, [55.0, 55.0]);
        let paths: Vec<(String, &[f64])> = nodes.iter().map(|node| (node.path.join("/"), &node.total_ns[..])).collect();
        let expected: [(&str, &[f64]); 4] =
            [("a", &[50.0, 50.0]), ("a/c", &[10.0, 10.0]), ("a/b", &[20.0, 20.0]), ("a/help", &[10.0, 10.0])];
        assert_eq!(paths, expected.map(|(path, times)| (path.to_string(), times)));
    }

    #[test]
    fn calls_are_those_of_the_iterations_that_count() {
        let site = |name: &str| SiteInfo { name: name.into(), kind: Kind::Cpu, file: "a.rs".into(), line: 1 };
        let span = |site, parent, start, end| Span { start, end, site, parent, corr: 0, ext: 0 };
        let mut spans = Vec::new();
        let mut now = 1;
        for iteration in 0..20 {
            let ticks = if iteration == 7 { 90_000 } else { 100 + iteration };
            spans.push(span(1, NONE, now, now + ticks + 10));
            spans.push(span(2, spans.len() as u32 - 1, now + 5, now + 5 + ticks));
            now += ticks + 20;
        }
        let lanes = vec![TraceLane { name: "main".into(), spans, ..TraceLane::default() }];
        let sites = vec![site(ITERATION), site("part")];
        let trace = Trace { start: 1, end: now, sites, lanes, ..Trace::in_nanoseconds() };
        let blank = serde_json::json!({
            "case": {"id": "w/n=1", "workload": "w", "params": []}, "implementation": "i", "device": "cpu",
            "parallelism": "single", "what_ran": "", "outcome": {"status": "measured"}, "iteration_ns": [], "nodes": [],
            "work": {"item": "calls", "items": 1, "flops": 0.0, "bytes_read": 0, "bytes_written": 0}, "clock": "",
            "spans": 0, "dropped": 0, "open": 0, "warnings": []
        });
        let mut line: Spans = serde_json::from_value(blank).unwrap();
        fill(&mut line, &trace, &[]);
        assert_eq!((line.outliers(), line.nodes.len(), line.nodes[0].calls), (vec![7], 1, 20));
        let node = &line.nodes[0];
        let calls = [node.call_min_ns, node.call_median_ns, node.call_p99_ns, node.call_max_ns];
        assert_eq!(calls, [100.0, 110.0, 119.0, 119.0].map(Some));
        assert_eq!(node.total_ns[7], 90_000.0);
    }

    const BUDGET: u64 = 60_000_000;

    #[test]
    fn fast_iterations_fill_the_time_and_slow_ones_the_budget() {
        // 50 iterations of 67 us would take only as long as one 3 ms pause.
        let of_us = |first: u64, warm: u64| iterations(BUDGET, 1000 * first, 1000 * warm, 5);
        assert_eq!(of_us(200, 60), 500);
        // A smaller budget is not exceeded.
        assert_eq!(iterations(6_000_000, 60_000, 60_000, 5), 100);
        assert_eq!((of_us(2_000, 1_500), of_us(30_000, 30_000), of_us(900_000, 900_000)), (30, 3, 3));
    }

    #[test]
    fn the_record_the_trace_and_the_buffers_bound_them() {
        assert_eq!(iterations(BUDGET, 300, 300, 3), 2_000);
        assert_eq!(iterations(BUDGET, 0, 0, 0), 2_000, "a clock may stand still");
        assert_eq!(iterations(BUDGET, 60_000, 60_000, 100), 327);
        assert_eq!(iterations(BUDGET, 60_000, 60_000, 1 << 12), 32);
        assert_eq!(iterations(BUDGET, 60_000, 60_000, 2 * CAPACITY), 1);
    }
}
