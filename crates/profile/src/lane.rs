//! A lane: the recording of one thread. That thread writes, any thread reads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::chunk::Chunk;
use crate::clock::Calibration;
use crate::detail::{Detail, MemoryUse, Total, Value};
use crate::heap;
use crate::node::{self, BLOCK, Node};
use crate::options::Mode;
use crate::order::Indices;
use crate::pool::{Budget, Pool, length, place};
use crate::position::Position;
use crate::ring;
use crate::slot::{Row, Slot};
use crate::sync::{Handed, handed, locked};
use crate::trace::{NONE, Span, TraceLane};

/// Removes the links that no span refers to: a span may get a link in case another thread asks for it. Also removes
/// causes without their span: a ring may have lost it, or a snapshot read its lane before it began; the effects would
/// then cause each other. `named` are lanes of devices, whose spans have the links of the spans that started them.
pub(crate) fn drop_unused_links(lanes: &mut [TraceLane], named: &[TraceLane]) {
    let mut used: Vec<u64> = Vec::new();
    for lane in lanes.iter() {
        lane.details.iter().filter(|detail| detail.cause != 0).for_each(|detail| used.push(detail.cause.into()));
    }
    for lane in named {
        lane.spans.iter().filter(|span| span.corr != 0).for_each(|span| used.push(span.corr.into()));
    }
    used.sort_unstable();
    let mut known: Vec<u64> = Vec::new();
    for span in lanes.iter_mut().flat_map(|lane| &mut lane.spans).filter(|span| span.corr != 0) {
        match used.binary_search(&span.corr.into()) {
            Ok(_) => known.push(span.corr.into()),
            Err(_) => span.corr = 0,
        }
    }
    known.sort_unstable();
    for lane in lanes {
        let lost = |detail: &&mut Detail| detail.cause != 0 && known.binary_search(&detail.cause.into()).is_err();
        lane.details.iter_mut().filter(lost).for_each(|detail| detail.cause = 0);
        lane.spans.iter_mut().for_each(|span| name_cause(span, &mut lane.details));
    }
}

/// A span that has a cause but caused no other span shares the link of its cause, and needs no detail for it.
fn name_cause(span: &mut Span, details: &mut [Detail]) {
    let detail = span.ext.checked_sub(1).and_then(|row| details.get_mut(row as usize));
    let Some(detail) = detail else { return };
    if span.corr == 0 {
        span.corr = std::mem::take(&mut detail.cause);
    }
    if *detail == Detail::default() {
        span.ext = 0;
    }
}

static SLOTS: Pool<Chunk> = Pool::new();
static ROWS: Pool<[Row]> = Pool::new();

/// Blocks of nodes that a lane may take: 4096 paths.
const MAX_BLOCKS: usize = 4096 / BLOCK;

/// A rarely used fact about a span.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    Arg(&'static str, Value),
    Cpu(u64),
    Memory(MemoryUse),
    Resident(u64),
}

impl Fact {
    fn add_to(self, detail: &mut Detail) {
        match self {
            Self::Arg(name, value) => detail.args.push((name.to_string(), value)),
            Self::Cpu(ns) => detail.cpu_ns = Some(ns),
            Self::Memory(memory) => detail.memory = Some(memory),
            Self::Resident(bytes) => detail.rss_bytes = Some(bytes),
        }
    }
}

/// Bytes that a fact takes from the budget, besides its text.
const FACT_BYTES: usize = 64;
const _: () = assert!(size_of::<(u32, Fact)>() <= FACT_BYTES);

/// Facts by number of row, in chunks, so that adding one never moves many.
#[derive(Debug, Default)]
struct Facts {
    chunks: Vec<Vec<(u32, Fact)>>,
    /// Facts added since the last [`reserve`](Self::reserve).
    added: usize,
}

impl Facts {
    fn chunk(length: usize) -> Vec<(u32, Fact)> {
        let chunk = Vec::with_capacity(length);
        heap::exclude(bytes(&chunk));
        chunk
    }

    fn add(&mut self, row: u32, fact: Fact) {
        self.added += 1;
        match self.chunks.last_mut().filter(|chunk| chunk.len() < chunk.capacity()) {
            Some(chunk) => chunk.push((row, fact)),
            None => {
                let mut chunk = Self::chunk(length(self.chunks.len()));
                chunk.push((row, fact));
                self.chunks.push(chunk);
            }
        }
    }

    /// Makes room for as many facts as were added since the last call.
    fn reserve(&mut self) {
        let wanted = std::mem::take(&mut self.added);
        let room = self.chunks.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        if wanted > room {
            let mut chunk = Self::chunk(wanted.max(length(self.chunks.len())));
            // The kernel provides a page when it is first written; write it now.
            chunk.resize(chunk.capacity(), (0, Fact::Cpu(0)));
            chunk.clear();
            self.chunks.push(chunk);
        }
    }
}

impl Drop for Facts {
    fn drop(&mut self) {
        heap::include(self.chunks.drain(..).map(|chunk| bytes(&chunk)).sum());
    }
}

fn bytes<T>(chunk: &Vec<T>) -> usize {
    chunk.capacity() * size_of::<T>()
}

/// The data that one thread writes and the profiler reads.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    name: String,
    slots: Mutex<Vec<&'static Chunk>>,
    rows: Mutex<Vec<&'static [Row]>>,
    pub(crate) ring: ring::Chunks,
    blocks: Mutex<Vec<u32>>,
    facts: Mutex<Facts>,
    budget: Arc<Budget>,
    /// Spans that had no room at all.
    lost: AtomicU64,
    lost_details: AtomicU64,
    pub(crate) sampled_out: AtomicU64,
    /// Threads that continued the lane after the first thread had ended.
    successors: AtomicU32,
    /// Where the next thread continues; `None` while a thread owns the lane.
    parked: Handed<Option<Position>>,
}

impl Lane {
    pub(crate) fn new(name: String, budget: Arc<Budget>) -> Self {
        Self { name, budget, ..Self::default() }
    }

    pub(crate) fn is_named(&self, name: Option<&str>) -> bool {
        Some(self.name.as_str()) == name
    }

    /// Leaves the lane to a later thread, because its own is ending.
    pub(crate) fn park(&self, position: Position) {
        *handed(&self.parked) = Some(position);
    }

    #[cfg(all(test, loom))]
    pub(crate) fn times_adopted(&self) -> u32 {
        self.successors.load(Relaxed)
    }

    pub(crate) fn adopt(&self) -> Option<Position> {
        let position = handed(&self.parked).take()?;
        self.successors.fetch_add(1, Relaxed);
        Some(position)
    }

    /// Ends a span of a node of this lane, if no thread owns the lane.
    pub(crate) fn end_parked(&self, node: &Node, ticks: u64) {
        let parked = handed(&self.parked);
        let is_own = || locked(&self.blocks).contains(&(node.number() / BLOCK as u32));
        if let Some(position) = parked.as_ref().filter(|_| is_own()) {
            node.end(|| ticks, position.saved.ns_per_tick.get());
        }
    }

    /// A chunk for more spans; `None` if the budget is used up.
    pub(crate) fn more_slots(&self) -> Option<&'static Chunk> {
        let mut slots = locked(&self.slots);
        let room = self.budget.claim(length(slots.len()), size_of::<Slot>());
        if room == 0 {
            return None;
        }
        let chunk = SLOTS.take(slots.len(), |chunk| chunk.clear(room));
        slots.push(chunk);
        Some(chunk)
    }

    /// Rows for the details of more spans; `None` if the budget has no room for them and they may not go `beyond` it.
    pub(crate) fn more_rows(&self, beyond: bool) -> Option<&'static [Row]> {
        let mut rows = locked(&self.rows);
        let fits = self.budget.claim(1, length(rows.len()) * size_of::<Row>()) == 1;
        if !fits && !beyond {
            return None;
        }
        let chunk = ROWS.take(rows.len(), |chunk| chunk.iter().for_each(Row::clear));
        rows.push(chunk);
        Some(chunk)
    }

    pub(crate) fn slot(&self, index: u32) -> Option<&'static Slot> {
        let (number, at) = place(index as usize);
        let chunk: &'static Chunk = locked(&self.slots).get(number)?;
        chunk.slot(at)
    }

    /// Numbers of a new block of nodes: the first, and the one after the last.
    pub(crate) fn more_nodes(&self) -> Option<(u32, u32)> {
        let mut blocks = locked(&self.blocks);
        if blocks.len() >= MAX_BLOCKS {
            return None;
        }
        let block = node::take_block()?;
        blocks.push(block);
        let first = block * BLOCK as u32;
        // Number 0 means no node.
        Some((first.max(1), first + BLOCK as u32))
    }

    /// Adds a fact about the span with this row if the budget has room for it, or `beyond` the budget; false if there
    /// is no room.
    pub(crate) fn add_fact(&self, row: u32, fact: Fact, beyond: bool) -> bool {
        let text = match &fact {
            Fact::Arg(_, Value::Text(text)) => text.len(),
            _ => 0,
        };
        let fits = self.budget.claim(1, FACT_BYTES + text) == 1;
        if fits || beyond {
            locked(&self.facts).add(row, fact);
        }
        fits
    }

    /// Makes room for as many facts as were added since the last call.
    pub(crate) fn reserve_facts(&self) {
        locked(&self.facts).reserve();
    }

    /// Counts a span for which there was no room. Only the owner calls this.
    pub(crate) fn count_lost(&self) {
        self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
    }

    /// Counts a span that lost a detail, at most once per span.
    pub(crate) fn lose_detail(&self) {
        self.lost_details.store(self.lost_details.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn skip(&self) {
        self.sampled_out.store(self.sampled_out.load(Relaxed) + 1, Relaxed);
    }

    /// Everything recorded until `end`, or so far, while the owner may continue. The caller then calls
    /// [`drop_unused_links`]. `rough_ns` is the length of a tick that aggregation used.
    pub(crate) fn read(&self, clock: &Calibration, rough_ns: f64, mode: Mode, end: Option<u64>) -> TraceLane {
        // Before the ring, so no span counts twice.
        let gone = self.ring.overwritten();
        let (mut spans, mut details) = match mode {
            Mode::Ring { .. } => self.ring.read(),
            _ => (self.spans(), self.details()),
        };
        // The owner learns of the end only with its next span.
        let end = end.unwrap_or(u64::MAX);
        spans.retain(|span| span.start <= end);
        spans.iter_mut().filter(|span| span.end > end).for_each(|span| span.end = 0);
        // Spans do not use the rest of the last chunk yet.
        details.truncate(spans.iter().map(|span| span.ext as usize).max().unwrap_or(0));
        let mut totals = self.totals(clock, rough_ns);
        if mode == Mode::Aggregate {
            // Negative only if a node took one guard for another one of its path.
            totals.iter_mut().for_each(|total| total.self_ns = total.self_ns.max(0.0));
        }
        // In full mode, aggregated spans are those for which the budget had no room.
        let overflowed = match mode {
            Mode::Full { .. } => totals.iter().map(|total| total.count + total.open).sum(),
            _ => 0,
        };
        TraceLane {
            aggregated: overflowed,
            name: TraceLane::name_of(&self.name, self.successors.load(Relaxed)),
            spans,
            details,
            totals,
            dropped: self.lost.load(Relaxed) + overflowed + gone,
            dropped_details: self.lost_details.load(Relaxed),
            ..TraceLane::default()
        }
    }

    fn spans(&self) -> Vec<Span> {
        let chunks = locked(&self.slots).clone();
        let mut spans = Vec::with_capacity(chunks.iter().map(|chunk| chunk.length()).sum());
        chunks.iter().for_each(|chunk| spans.extend(chunk.read()));
        // Last, so that no span seems to be open although later ones were read after its end.
        for (index, span) in spans.iter_mut().enumerate().filter(|(_, span)| span.is_open()) {
            let (number, at) = place(index);
            let read = chunks.get(number).and_then(|chunk| chunk.slot(at)?.read());
            *span = read.unwrap_or(*span);
        }
        spans
    }

    fn details(&self) -> Vec<Detail> {
        let rows = locked(&self.rows).clone();
        let mut details: Vec<Detail> = Vec::new();
        for chunk in rows {
            let detail = |row: &Row| Detail { counters: row.read(), cause: row.cause(), ..Detail::default() };
            details.extend(chunk.iter().map(detail));
        }
        // One chunk at a time, so the owner never waits for all of them.
        for number in 0.. {
            let Some(chunk) = locked(&self.facts).chunks.get(number).cloned() else { break };
            for (row, fact) in chunk {
                if let Some(detail) = details.get_mut(row as usize) {
                    fact.add_to(detail);
                }
            }
        }
        details
    }

    fn totals(&self, clock: &Calibration, rough_ns: f64) -> Vec<Total> {
        let blocks = locked(&self.blocks).clone();
        let (mut index_of, mut totals) = (Indices::default(), Vec::new());
        let root = blocks.first().map_or(0, |block| (block * BLOCK as u32).max(1));
        // A parent precedes its children.
        for number in
            blocks.into_iter().flat_map(|block| (0..BLOCK as u32).map(move |place| block * BLOCK as u32 + place))
        {
            // The root comes first and has no site; nor do unused nodes after the last one.
            let read = node::node(number).map(Node::read).filter(|read| number != 0 && read.site != 0);
            let Some(node) = read else { continue };
            let parent = index_of.get(&(node.parent, 0)).copied().unwrap_or(NONE);
            // Both were created after this reader had looked for the parent.
            if parent == NONE && node.parent != root {
                continue;
            }
            if let Some(Total { self_ns, .. }) = totals.get_mut(parent as usize) {
                *self_ns -= node.total as f64;
            }
            index_of.insert((number, 0), totals.len() as u32);
            totals.push(Total {
                parent,
                site: node.site,
                count: node.count,
                open: node.begun.saturating_sub(node.count),
                total_ns: clock.ns(node.total),
                // Still in ticks, because differences of integers are exact.
                self_ns: node.total as f64,
                min_ns: if node.count == 0 { 0.0 } else { clock.ns(node.min) },
                max_ns: clock.ns(node.max),
                square_ns2: node.square * (clock.ns_per_tick / rough_ns).powi(2),
                histogram: node.histogram,
                sums: node.sums,
            });
        }
        totals.iter_mut().for_each(|total| total.self_ns *= clock.ns_per_tick);
        totals
    }

    /// Makes the buffers available to later recordings. The caller ensures that no thread writes or reads them any
    /// more.
    pub(crate) fn release(&self) {
        SLOTS.give(&mut locked(&self.slots));
        ROWS.give(&mut locked(&self.rows));
        self.ring.release();
        node::give_blocks(&mut locked(&self.blocks));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pool::CHUNK;

    /// Otherwise the allocation and the page faults of each chunk would fall into a span of the program.
    #[test]
    fn room_for_facts_is_made_before_spans_need_it() {
        let mut facts = Facts::default();
        let rooms = |facts: &Facts| facts.chunks.iter().map(Vec::capacity).sum::<usize>();
        let add = |facts: &mut Facts, count: usize| (0..count).for_each(|row| facts.add(row as u32, Fact::Cpu(1)));
        add(&mut facts, 2 * CHUNK + 5);
        for _ in 0..3 {
            facts.reserve();
            let before = rooms(&facts);
            add(&mut facts, 2 * CHUNK + 5);
            assert_eq!(rooms(&facts), before);
        }
        facts.reserve();
        let before = rooms(&facts);
        facts.reserve();
        assert_eq!(rooms(&facts), before, "without facts no room is made");
        assert_eq!(facts.chunks.iter().map(Vec::len).sum::<usize>(), 4 * (2 * CHUNK + 5));
    }

    /// A node is created after its parent, so a reader that looked for the parent too early may see the child alone.
    #[test]
    fn an_aggregated_path_has_its_beginning_or_is_left_out() {
        let lane = Lane::default();
        let (root, _) = lane.more_nodes().unwrap();
        let sites = |lane: &Lane| {
            let totals = lane.totals(&Calibration::default(), 1.0);
            totals.iter().map(|total| (total.parent, total.site)).collect::<Vec<_>>()
        };
        node::adopt(root + 1, root + 2, 7).unwrap();
        assert_eq!(sites(&lane), []);
        node::adopt(root, root + 1, 6).unwrap();
        assert_eq!(sites(&lane), [(NONE, 6), (0, 7)]);
        lane.release();
    }
}
