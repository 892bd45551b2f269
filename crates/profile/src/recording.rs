//! A recording: the time between start and finish of a profiler, and what its threads wrote.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::clock::{calibration, rough_ns_per_tick, ticks};
use crate::environment;
use crate::fork;
use crate::heap;
use crate::lane::{self, Lane};
use crate::measure;
use crate::node;
use crate::options::{Measures, Mode, Options};
use crate::order::sort_by_number;
use crate::owned::Target;
use crate::pool::Budget;
use crate::position::Position;
use crate::ring::Ring;
use crate::site;
use crate::sync::{Handed, handed, locked};
use crate::trace::{SiteInfo, Span, Trace, TraceLane};
use crate::untangle::untangled;

/// Changes whenever a recording starts, stops or changes its rules; 0 while none records. Every span reads it first.
pub(crate) static GENERATION: AtomicU32 = AtomicU32::new(0);

struct Registry {
    last_epoch: u32,
    last_generation: u32,
    running: Vec<Arc<Recording>>,
    /// The recording of the threads that have entered no profiler.
    process: Option<Arc<Recording>>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { last_epoch: 0, last_generation: 0, running: Vec::new(), process: None });

impl Registry {
    /// Makes every thread look up its destination before its next span.
    fn changed(&mut self) {
        let is_on = self.running.iter().any(|recording| recording.is_enabled());
        self.last_generation = self.last_generation.checked_add(1).unwrap_or(1);
        GENERATION.store(if is_on { self.last_generation } else { 0 }, Relaxed);
    }
}

/// The recording of the threads that have entered no profiler.
pub(crate) fn of_process() -> Option<Arc<Recording>> {
    locked(&REGISTRY).process.clone()
}

/// Ends a span of a thread whose data is destroyed, as in the destructor of a thread-local value, without its
/// measurements. It stays open if its recording has finished, or if it is aggregated and another thread continues its
/// lane.
pub(crate) fn end_late(epoch: u32, target: Target, now: u64) {
    let recording = locked(&REGISTRY).running.iter().find(|recording| recording.epoch == epoch).cloned();
    let Some(recording) = recording else { return };
    // Nobody reuses the buffers while this is locked.
    let is_read = handed(&recording.read);
    match target {
        _ if *is_read => {}
        Target::Slot { slot, .. } => slot.end(now),
        Target::Node { node, start } => {
            locked(&recording.lanes).iter().for_each(|lane| lane.end_parked(node, now.saturating_sub(start)));
        }
        Target::Skipped | Target::Ring { .. } => {}
    }
}

/// From this many lanes on, new threads continue the lanes of threads that ended.
const MANY_LANES: usize = 256;
/// Maximum number of threads that can record at the same time.
const MAX_LANES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Recording {
    /// Unique to this recording; never 0.
    pub(crate) epoch: u32,
    pub(crate) options: Options,
    pub(crate) sampling: AtomicU32,
    budget: Arc<Budget>,
    /// Ticks at the start.
    pub(crate) start: u64,
    /// Resident memory at the start, if spans measure it.
    resident: Option<u64>,
    started_unix_ns: u64,
    pid: u32,
    /// Length of a tick as known at the start; aggregation squares and bins durations with it.
    ns_per_tick: f64,
    enabled: AtomicBool,
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Lanes of devices, and the number of device spans that were refused.
    streams: Mutex<Vec<TraceLane>>,
    facts: Mutex<Vec<(String, crate::detail::Value)>>,
    lost: AtomicU64,
    /// True once the buffers may be reused. Locked while they are read.
    read: Handed<bool>,
}

impl Recording {
    /// Starts a recording; `None` if it should serve the whole process and another one already does.
    pub(crate) fn start(mut options: Options, is_of_process: bool) -> Option<Arc<Self>> {
        if let Mode::Ring { spans } = &mut options.mode {
            *spans = (*spans).max(1);
        }
        fork::guard();
        let ns_per_tick = rough_ns_per_tick();
        let mut registry = locked(&REGISTRY);
        if is_of_process && registry.process.is_some() {
            return None;
        }
        registry.last_epoch = registry.last_epoch.checked_add(1).unwrap_or(1);
        let bytes = if let Mode::Full { bytes } = options.mode { bytes } else { DETAILS };
        if options.measures.has(Measures::MEMORY) {
            heap::watch();
        }
        let resident = options.measures.has(Measures::RSS).then(measure::resident_bytes).flatten();
        let recording = Arc::new(Self {
            epoch: registry.last_epoch,
            resident,
            enabled: AtomicBool::new(options.mode != Mode::Off),
            sampling: AtomicU32::new(options.sampling),
            options,
            budget: Arc::new(Budget::new(bytes)),
            started_unix_ns: environment::unix_ns(),
            pid: std::process::id(),
            ns_per_tick,
            lanes: Mutex::default(),
            streams: Mutex::default(),
            facts: Mutex::default(),
            lost: AtomicU64::new(0),
            read: Handed::new(false),
            start: ticks(),
        });
        registry.running.push(recording.clone());
        if is_of_process {
            registry.process = Some(recording.clone());
        }
        registry.changed();
        Some(recording)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        if self.enabled.swap(enabled, Relaxed) != enabled {
            locked(&REGISTRY).changed();
        }
    }

    pub(crate) fn set_sampling(&self, one_in: u32) {
        self.sampling.store(one_in, Relaxed);
        locked(&REGISTRY).changed();
    }

    pub(crate) fn join(&self, name: Option<&str>) -> Option<(Arc<Lane>, Position)> {
        let mut lanes = locked(&self.lanes);
        if lanes.len() >= MANY_LANES {
            let same = lanes.iter().filter(|lane| lane.is_named(name));
            let found = same.chain(lanes.iter()).find_map(|lane| Some((lane.clone(), lane.adopt()?)));
            if found.is_some() || lanes.len() >= MAX_LANES {
                return found;
            }
        }
        let name = name.map_or_else(|| format!("thread {}", lanes.len()), str::to_string);
        let lane = Arc::new(Lane::new(name, self.budget.clone()));
        let ring = if let Mode::Ring { spans } = self.options.mode { Some(Ring::new(spans)) } else { None };
        let mut position = Position { ring, seed: 2 * lanes.len() as u32 + 1, ..Position::default() };
        position.saved.set_epoch(self.epoch);
        position.saved.ns_per_tick.set(self.ns_per_tick);
        if !matches!(self.options.mode, Mode::Ring { .. }) {
            let (root, end) = lane.more_nodes()?;
            position.saved.root.set(root);
            position.saved.node.set(root);
            (position.next_node, position.end_node) = (root + 1, end);
        }
        if matches!(self.options.mode, Mode::Full { .. })
            && let Some(chunk) = lane.more_slots()
        {
            position.saved.use_chunk(chunk, 0);
        }
        lanes.push(lane.clone());
        Some((lane, position))
    }

    pub(crate) fn count_lost(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_stream(&self, lane: TraceLane) {
        let mut streams = locked(&self.streams);
        match streams.iter_mut().find(|known| known.name == lane.name && known.kind == lane.kind) {
            Some(known) => append(known, lane),
            None => streams.push(lane),
        }
    }

    /// Adds a fact to the environment of the trace, or replaces it.
    pub(crate) fn add_fact(&self, name: String, value: crate::detail::Value) {
        let mut facts = locked(&self.facts);
        match facts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => facts.push((name, value)),
        }
    }

    /// The trace so far; empty if the recording has finished.
    pub(crate) fn snapshot(&self) -> Trace {
        let is_read = handed(&self.read);
        if *is_read { Trace::in_nanoseconds() } else { self.trace(None) }
    }

    /// Stops recording and returns the trace. Spans that are still open have no duration.
    pub(crate) fn finish(&self) -> Trace {
        self.stop();
        let end = ticks();
        let mut is_read = handed(&self.read);
        if *is_read {
            return Trace::in_nanoseconds();
        }
        let trace = self.trace(Some(end));
        *is_read = true;
        self.release_parked();
        trace
    }

    /// Stops recording and forgets the spans.
    pub(crate) fn discard(&self) {
        self.stop();
        *handed(&self.read) = true;
        self.release_parked();
    }

    /// True once the buffers of its lanes may be reused.
    pub(crate) fn is_read(&self) -> bool {
        *handed(&self.read)
    }

    fn stop(&self) {
        let mut registry = locked(&REGISTRY);
        let count = registry.running.len();
        registry.running.retain(|recording| recording.epoch != self.epoch);
        if registry.running.len() == count {
            return;
        }
        registry.process.take_if(|recording| recording.epoch == self.epoch);
        registry.changed();
        drop(registry);
        self.enabled.store(false, Relaxed);
        if self.options.measures.has(Measures::MEMORY) {
            heap::unwatch();
        }
    }

    /// Reuses the buffers of threads that have ended; live threads give theirs back before their next span.
    fn release_parked(&self) {
        for lane in locked(&self.lanes).iter() {
            if lane.adopt().is_some() {
                lane.release();
            }
        }
    }

    /// The trace until `end`; if that is `None`, until all lanes have been read, so that no span begins after it.
    fn trace(&self, end: Option<u64>) -> Trace {
        let clock = calibration();
        let lanes = locked(&self.lanes).clone();
        // Before the lanes are read, which takes memory.
        let mut tracks = Vec::new();
        if self.options.measures.has(Measures::MEMORY) {
            tracks.extend(heap::track(self.start, end.unwrap_or_else(ticks)));
        }
        let mut environment = environment::facts(&self.options, self.pid);
        locked(&self.facts).iter().for_each(|fact| environment.push(fact.clone()));
        let (mut threads, mut sampled_out) = (Vec::with_capacity(lanes.len()), 0);
        let is_full = lanes.iter().any(|lane| lane.ring.overwritten() > 0);
        for lane in &lanes {
            threads.push(lane.read(&clock, self.ns_per_tick, self.options.mode, end));
            sampled_out += lane.sampled_out.load(Relaxed);
        }
        let mut streams = locked(&self.streams).clone();
        lane::drop_unused_links(&mut threads, &streams);
        let mut lanes: Vec<TraceLane> = Vec::new();
        threads.into_iter().for_each(|lane| lanes.append(&mut untangled(lane)));
        if is_full {
            environment::keep_last(&mut environment, &lanes);
        }
        lanes.append(&mut streams);
        let end = end.unwrap_or_else(ticks);
        tracks.iter_mut().filter_map(|track| track.points.last_mut()).for_each(|(time, _)| *time = end);
        tracks.extend(self.resident.map(|bytes| measure::resident_track((self.start, bytes), &lanes)));
        Trace {
            name: environment::name(&self.options),
            environment,
            started_unix_ns: self.started_unix_ns,
            start: self.start,
            end,
            clock,
            // After the lanes, so every site of a span is known.
            sites: site::sites().iter().map(|site| SiteInfo::of(site)).collect(),
            lost: self.lost.load(Relaxed),
            sampled_out,
            lanes,
            tracks,
            cost: None,
            span_costs: Vec::new(),
        }
    }
}

/// Appends further spans of a stream; streams have no nested spans.
fn append(known: &mut TraceLane, mut more: TraceLane) {
    let offset = known.details.len() as u32;
    for span in more.spans {
        known.spans.push(Span { ext: if span.ext == 0 { 0 } else { span.ext + offset }, ..span });
    }
    sort_by_number(&mut known.spans, |span| span.start.into());
    known.details.append(&mut more.details);
    known.dropped += more.dropped;
}

/// Budget of details in modes without a budget: counters and arguments of spans in ring mode are in the ring.
const DETAILS: u64 = 1 << 20;

const _: () = assert!(node::BLOCK > 2);
