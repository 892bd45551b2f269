//! A lane with its owner's data: everything outside the fast paths.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::ticks;
use crate::counters::Counters;
use crate::detail::{Detail, Value};
use crate::guard::{Guard, Link, Way};
use crate::kind::Kind;
use crate::lane::{Fact, Lane};
use crate::measure::Baseline;
use crate::node::{self, Node};
use crate::options::Mode;
use crate::pool::CHUNK;
use crate::position::{Hot, Path, Position, is_around};
use crate::recording::Recording;
use crate::ring::RingSlot;
use crate::site::Site;
use crate::slot::{Row, Slot};
use crate::trace::NONE;

/// Name of spans that cover the allocation of buffers for more spans, so the user's code is not charged for that time.
pub const ROOM_NAME: &str = "(room for spans)";
static ROOM: Site = Site::new(ROOM_NAME, file!(), line!()).kind(Kind::Instrumentation);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    Skipped,
    Slot { slot: &'static Slot, index: u32, parent: u32 },
    Ring { slot: &'static RingSlot, number: u32, parent: u32 },
    Node { node: &'static Node, start: u64 },
}

/// An open span that the fast paths cannot end.
#[derive(Debug)]
struct Open {
    number: u32,
    target: Target,
    baseline: Option<Baseline>,
}

/// A span begun by [`Owned::begin`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    /// Number in the table, 0 if the span is not recorded.
    pub(crate) number: u32,
    pub(crate) way: Way,
    pub(crate) target: Option<Target>,
}

impl Begun {
    pub(crate) const OFF: Self = Self { number: 0, way: Way::Off, target: None };
}

/// A thread's data for one recording.
pub(crate) struct Owned {
    pub(crate) lane: Arc<Lane>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) position: Position,
    open: Vec<Open>,
    last_number: u32,
    /// Nodes whose span ended with its parent while its guard still exists, and the time of that end.
    outlived: Vec<(u32, u64)>,
}

impl Owned {
    pub(crate) fn new(lane: Arc<Lane>, position: Position, recording: Arc<Recording>) -> Self {
        // With capacity, so the profiler seldom allocates inside a span.
        Self { lane, recording, position, open: Vec::with_capacity(64), last_number: 0, outlived: Vec::new() }
    }

    /// Leaves the lane, because the thread ends.
    pub(crate) fn park(self) {
        self.lane.park(self.position.closed());
        // This thread and the one that finishes the recording race; the second of them finds the position and releases
        // the buffers.
        if self.recording.is_read() && self.lane.adopt().is_some() {
            self.lane.release();
        }
    }

    pub(crate) fn path(&self) -> Path {
        let options = &self.recording.options;
        if self.recording.sampling.load(Relaxed) > 1 || !options.measures.is_none() {
            return Path::Other;
        }
        match options.mode {
            Mode::Off => Path::Off,
            Mode::Full { .. } if !self.position.is_overflowed => Path::Full,
            Mode::Full { .. } | Mode::Aggregate => Path::Aggregate,
            Mode::Ring { .. } => Path::Other,
        }
    }

    pub(crate) fn begin(&mut self, hot: &Hot, site: &'static Site) -> Begun {
        if hot.skipping.get() {
            return Begun::OFF;
        }
        if self.is_skipped(hot) {
            hot.skipping.set(true);
            self.lane.skip();
            return self.list(Target::Skipped, None, Way::Skipped);
        }
        let measures = self.recording.options.measures.and(site.measures);
        // The first registration allocates, so do it before the measurement.
        site.id();
        let baseline = (!measures.is_none()).then(|| Baseline::take(measures));
        let target = match self.recording.options.mode {
            Mode::Off => None,
            Mode::Ring { .. } => self.begin_in_ring(site),
            Mode::Aggregate => self.begin_in_tree(hot, site),
            Mode::Full { .. } => self.begin_in_slot(hot, site),
        };
        match target {
            None => Begun::OFF,
            Some(target) => self.list(target, baseline, Way::Listed { kept: !matches!(target, Target::Node { .. }) }),
        }
    }

    fn list(&mut self, target: Target, baseline: Option<Baseline>, way: Way) -> Begun {
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        self.open.push(Open { number: self.last_number, target, baseline });
        Begun { number: self.last_number, way, target: Some(target) }
    }

    fn target(&self, guard: &Guard) -> Option<Target> {
        match (guard.way, guard.slot, guard.node) {
            (Way::Slot, Some(slot), _) => {
                Some(Target::Slot { slot, index: guard.index(), parent: guard.parent as u32 })
            }
            (Way::Node, _, Some(node)) => Some(Target::Node { node, start: guard.start }),
            (Way::Listed { .. }, ..) => {
                self.open.iter().rfind(|open| open.number == guard.index()).map(|open| open.target)
            }
            _ => None,
        }
    }

    /// True if sampling skips the span that is about to begin, with everything inside.
    fn is_skipped(&mut self, hot: &Hot) -> bool {
        let one_in = self.recording.sampling.load(Relaxed);
        let is_outermost = self.position.ring.as_ref().map_or(hot.is_outermost(), |ring| ring.current == NONE);
        one_in > 1 && is_outermost && !self.position.is_sampled(one_in)
    }

    fn begin_in_slot(&mut self, hot: &Hot, site: &'static Site) -> Option<Target> {
        let Some((free, span)) = hot.next_slot().or_else(|| {
            if !self.position.is_overflowed {
                self.more_room(hot);
            }
            hot.next_slot()
        }) else {
            return self.begin_in_tree(hot, site);
        };
        let parent = hot.open(span) as u32;
        free.begin(site.id(), parent, ticks);
        Some(Target::Slot { slot: free.slot, index: span as u32, parent })
    }

    /// Aggregates further spans, because the budget is used up.
    fn overflow(&mut self, hot: &Hot) {
        if !self.position.is_overflowed {
            self.position.is_overflowed = true;
            hot.node.set(self.node_of(hot, hot.current()));
            hot.overflow();
            hot.look(hot.generation(), self.path());
        }
    }

    /// Takes the next chunk of slots, or switches to aggregation if the budget is used up.
    #[cold]
    pub(crate) fn more_room(&mut self, hot: &Hot) {
        let start = ticks();
        let Some(chunk) = hot.is_chunk_whole().then(|| self.lane.more_slots()).flatten() else {
            return self.overflow(hot);
        };
        hot.use_chunk(chunk, hot.used());
        self.more_detail_room();
        // The first chunks take too little time to be worth a span.
        if chunk.length() == CHUNK
            && let Some(free) = chunk.next()
        {
            free.begin(ROOM.id(), hot.current(), || start);
            free.slot.end(ticks());
        }
    }

    /// Makes room for as many details as the last chunk of spans had, so no span of the program is charged for it.
    fn more_detail_room(&mut self) {
        let position = &mut self.position;
        let used = position.next_row - std::mem::replace(&mut position.rows_before, position.next_row);
        if used > 0 && position.row_room - position.next_row < used {
            self.take_rows(false);
        }
        self.lane.reserve_facts();
    }

    /// True if there is room for more rows, within the budget or `beyond` it.
    fn take_rows(&mut self, beyond: bool) -> bool {
        let Some(chunk) = self.lane.more_rows(beyond) else { return false };
        self.position.row_room += chunk.len() as u32;
        self.position.rows.push(chunk);
        true
    }

    /// The node for the path of a span that was kept in a slot; created if necessary.
    pub(crate) fn node_of(&mut self, hot: &Hot, index: u32) -> u32 {
        let mut sites = Vec::new();
        let mut at = index;
        while let Some(slot) = Some(at).filter(|at| *at != NONE).and_then(|at| self.lane.slot(at)) {
            sites.push(slot.site());
            at = slot.parent();
        }
        let below = |node, site| self.child(node, site).map_or(node, Node::number);
        sites.into_iter().rev().fold(hot.root.get(), below)
    }

    /// The child of a node at `site`, created if necessary; `None` if the tree is full.
    fn child(&mut self, parent: u32, site: u32) -> Option<&'static Node> {
        if let Some(known) = node::child(node::node(parent)?, site) {
            return Some(known);
        }
        if self.position.next_node >= self.position.end_node {
            (self.position.next_node, self.position.end_node) = self.lane.more_nodes()?;
        }
        let number = self.position.next_node;
        self.position.next_node += 1;
        node::adopt(parent, number, site)
    }

    fn begin_in_tree(&mut self, hot: &Hot, site: &'static Site) -> Option<Target> {
        let Some(node) = self.child(hot.node.get(), site.id()) else {
            self.lane.count_lost();
            return None;
        };
        hot.node.set(node.number());
        node.begin();
        Some(Target::Node { node, start: ticks() })
    }

    fn begin_in_ring(&mut self, site: &'static Site) -> Option<Target> {
        let begun = self.position.ring.as_mut().and_then(|ring| ring.begin(&self.lane.ring, site.id(), ticks));
        if begun.is_none() {
            self.lane.count_lost();
        }
        begun.map(|(slot, number, parent)| Target::Ring { slot, number, parent })
    }

    pub(crate) fn end_listed(&mut self, hot: &Hot, number: u32, now: u64) {
        let Some(at) = self.open.iter().rposition(|open| open.number == number) else { return };
        let open = self.open.remove(at);
        if let Some(baseline) = open.baseline {
            self.finish_measuring(hot, open.target, baseline);
        }
        self.end(hot, open.target, now);
    }

    /// Drops the CPU time of an open span.
    pub(crate) fn forget_cpu(&mut self, guard: &Guard) {
        let open =
            self.open.iter_mut().rfind(|open| matches!(guard.way, Way::Listed { .. }) && open.number == guard.index());
        open.and_then(|open| open.baseline.as_mut()).into_iter().for_each(Baseline::forget_cpu);
    }

    pub(crate) fn end(&mut self, hot: &Hot, target: Target, now: u64) {
        match target {
            Target::Skipped => hot.skipping.set(false),
            Target::Slot { slot, index, parent } => {
                slot.end(now);
                self.leave_slot(hot, index, parent, now);
            }
            Target::Ring { slot, number, parent } => {
                if let Some(ring) = self.position.ring.as_mut() {
                    ring.end(&self.lane.ring, slot, (number, parent), now);
                }
            }
            Target::Node { node, start } => {
                let now = self.leave_node(hot, node, start, now);
                node.end(|| now.saturating_sub(start), hot.ns_per_tick.get());
            }
        }
    }

    /// Makes the parent of a node whose span ended the current one, by the rules of [`Owned::leave_slot`]. Returns when
    /// the span ended, because its guard may have outlived that of its parent.
    fn leave_node(&mut self, hot: &Hot, node: &Node, start: u64, now: u64) -> u64 {
        if self.end_inside(hot, node.number(), now) {
            hot.node.set(node.parent());
        }
        let known = self.outlived.iter().position(|(number, _)| *number == node.number());
        let end = known.map(|at| self.outlived.swap_remove(at).1);
        // A span that began later is another span of this node: the guard that outlived its parent was leaked.
        end.filter(|end| start <= *end).unwrap_or(now)
    }

    /// Ends the spans that are open inside that of a node; false if the node does not enclose the current one.
    fn end_inside(&mut self, hot: &Hot, around: u32, now: u64) -> bool {
        let current = hot.node.get();
        let is_around = is_around(current, around, 0, |at| node::node(at).map(Node::parent));
        let mut at = current;
        while is_around && at != around {
            // For a leaked guard the first end stays, so each node has at most one entry.
            if self.outlived.iter().all(|(number, _)| *number != at) {
                self.outlived.push((at, now));
            }
            at = node::node(at).map_or(around, Node::parent);
        }
        is_around
    }

    /// Makes the parent of a span that ended the current one. A guard may outlive guards created after it: spans still
    /// open inside get no more children, and their end has no effect here.
    fn leave_slot(&mut self, hot: &Hot, index: u32, parent: u32, now: u64) {
        if is_around(hot.current(), index, NONE, |index| Some(self.lane.slot(index)?.parent())) {
            if self.position.is_overflowed {
                let node = self.node_of(hot, index);
                self.end_inside(hot, node, now);
                hot.node.set(self.node_of(hot, parent));
            }
            hot.set_current(parent);
        }
    }

    fn finish_measuring(&mut self, hot: &Hot, target: Target, baseline: Baseline) {
        let mut measured = Detail::default();
        baseline.finish(&mut measured);
        match target {
            Target::Node { node, start } => {
                // The measurements of a guard that outlived its parent include what followed.
                if !self.outlived.iter().any(|(number, end)| *number == node.number() && start <= *end) {
                    node.add(&measured);
                }
            }
            Target::Ring { slot, .. } => slot.detail(|detail| {
                detail.cpu_ns = measured.cpu_ns;
                detail.memory = measured.memory;
                detail.rss_bytes = measured.rss_bytes;
            }),
            Target::Slot { slot, .. } => {
                let facts = [
                    measured.cpu_ns.map(Fact::Cpu),
                    measured.memory.map(Fact::Memory),
                    measured.rss_bytes.map(Fact::Resident),
                ];
                self.fill_row(hot, slot, |lane, row, _| {
                    let mut fit = true;
                    for fact in facts.into_iter().flatten() {
                        fit &= lane.add_fact(row, fact, true);
                    }
                    fit
                });
            }
            Target::Skipped => {}
        }
    }

    /// Lets `fill` write to the row of a span, and passes it the row's number; creates the row if necessary. A new row
    /// is filled before the slot refers to it, because another thread may be reading. `fill` returns false if something
    /// did not fit. A kept span still gets its work and measurements, beyond the budget, and later spans are
    /// aggregated; otherwise both would be incomplete.
    fn fill_row(&mut self, hot: &Hot, slot: &Slot, fill: impl FnOnce(&Lane, u32, &Row) -> bool) {
        let known = slot.row();
        let number = if known != 0 { known - 1 } else { self.position.next_row };
        if number >= self.position.row_room && !self.take_rows(false) {
            self.overflow(hot);
            self.take_rows(true);
        }
        let Some(row) = self.position.row(number) else { return };
        let fit = fill(&self.lane, number, row);
        if known == 0 {
            self.position.next_row += 1;
            slot.set_row(number + 1);
        }
        if !fit {
            self.overflow(hot);
        }
    }

    pub(crate) fn count(&mut self, hot: &Hot, guard: &Guard, counters: Counters) {
        match self.target(guard) {
            Some(Target::Slot { slot, .. }) => self.fill_row(hot, slot, |_, _, row| {
                row.add(counters);
                true
            }),
            Some(Target::Ring { slot, .. }) => slot.detail(|detail| detail.counters = detail.counters.plus(counters)),
            Some(Target::Node { node, .. }) => node.add(&Detail { counters, ..Detail::default() }),
            Some(Target::Skipped) | None => {}
        }
    }

    /// Adds an argument to a kept span; aggregates have none.
    pub(crate) fn add_argument(&mut self, hot: &Hot, guard: &Guard, name: &'static str, value: Value) {
        match self.target(guard) {
            Some(Target::Slot { slot, .. }) => {
                self.fill_row(hot, slot, |lane, number, row| {
                    let fits = lane.add_fact(number, Fact::Arg(name, value), false);
                    if !fits && row.lose_fact() {
                        lane.lose_detail();
                    }
                    fits
                });
            }
            Some(Target::Ring { slot, .. }) => slot.detail(|detail| detail.args.push((name.to_string(), value))),
            _ => {}
        }
    }

    pub(crate) fn set_cause(&mut self, hot: &Hot, guard: &Guard, link: u32) {
        match self.target(guard) {
            Some(Target::Slot { slot, parent: NONE, .. }) => self.fill_row(hot, slot, |_, _, row| {
                row.set_cause(link);
                true
            }),
            Some(Target::Ring { slot, parent: NONE, .. }) => slot.detail(|detail| detail.cause = link),
            _ => {}
        }
    }

    pub(crate) fn link(&self, guard: &Guard) -> u32 {
        match self.target(guard) {
            Some(Target::Slot { slot, .. }) => link_of(slot),
            Some(Target::Ring { slot, .. }) => link_of(&slot.slot),
            _ => 0,
        }
    }

    /// The link of the innermost open span, if it is kept one by one; otherwise 0.
    pub(crate) fn current_link(&self, hot: &Hot) -> u32 {
        if let Some(ring) = &self.position.ring {
            let innermost = self.open.iter().rev().find_map(|open| match open.target {
                Target::Ring { slot, number, .. } if number == ring.current => Some(slot),
                _ => None,
            });
            return innermost.map_or(0, |slot| link_of(&slot.slot));
        }
        let current = Some(hot.current()).filter(|at| *at != NONE).and_then(|at| self.lane.slot(at));
        current.map_or(0, link_of)
    }
}

/// The link of a slot, which gets one if it has none yet.
pub(crate) fn link_of(slot: &Slot) -> u32 {
    if slot.link() == 0 {
        slot.set_link(Link::issue().0);
    }
    slot.link()
}

#[cfg(all(test, not(loom)))]
mod order {
    use super::*;
    use crate::options::Options;

    /// Otherwise a thread that reads at the same time would see a span with counters of 0
    /// (`loom_a_row_is_published_with_its_number`).
    #[test]
    fn a_new_row_is_filled_before_its_slot_names_it() {
        let recording = Recording::start(Options::default(), false).expect("any number of recordings may run");
        let (lane, position) = recording.join(None).expect("there is room for a lane");
        let mut owned = Owned::new(lane, position, recording.clone());
        let slot = Slot::default();
        for known in [0, 1] {
            owned.fill_row(&Hot::new(), &slot, |_, _, row| {
                assert_eq!(slot.row(), known);
                row.add(Counters::default().bytes(8_u64));
                true
            });
        }
        assert_eq!(owned.position.rows[0][slot.row() as usize - 1].read().bytes, 16);
        recording.discard();
        owned.lane.release();
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::thread;

    use super::*;
    use crate::options::Options;

    /// A thread ends at the same time as its recording: exactly one of the two takes the lane and gives its buffers
    /// back.
    #[test]
    fn loom_the_lane_of_an_ending_thread_is_released_once() {
        loom::model(|| {
            // A ring takes its buffers with the first span; buffers of other modes outlive a run of the model.
            let options = Options::new(Mode::Ring { spans: 1 });
            let recording = Recording::start(options, false).expect("no other recording runs");
            let (lane, position) = recording.join(None).expect("there is room for a lane");
            let owned = Owned::new(lane.clone(), position, recording.clone());
            let ending = thread::spawn(move || owned.park());
            recording.discard();
            ending.join().expect("the thread does not panic");
            assert_eq!(lane.times_adopted(), 1);
            assert!(lane.adopt().is_none());
        });
    }
}
