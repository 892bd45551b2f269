//! One pass over all lanes in order of time, which decides what each moment is spent on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::breakdown::Part;
use crate::clock::Calibration;
use crate::kind::{Kind, LaneKind};
use crate::trace::{Trace, TraceLane};

/// What a lane does at a moment: its innermost span.
#[derive(Debug, Clone, Copy)]
struct Active {
    part: Option<Part>,
    site: u32,
    /// Share of the time in which the thread computes; 1 if unknown.
    computing: f32,
}

/// A lane, walked from change to change.
struct Walk<'a> {
    lane: &'a TraceLane,
    /// Part by site.
    parts: Vec<Option<Part>>,
    /// Share of computing by span; empty if no span recorded its CPU time.
    computing: Vec<f32>,
    next: usize,
    stack: Vec<(u64, Active)>,
    now: u64,
    limits: (u64, u64),
}

impl<'a> Walk<'a> {
    fn new(trace: &Trace, lane: &'a TraceLane) -> Self {
        let stream = matches!(lane.kind, LaneKind::Stream { .. });
        let parts = trace.sites.iter().map(|site| Part::of(site.kind, stream)).collect();
        let computing = if stream { Vec::new() } else { computing(lane, trace) };
        let limits = (trace.start, trace.end.max(trace.start));
        Self { lane, parts, computing, next: 0, stack: Vec::new(), now: limits.0, limits }
    }

    /// The next change: its time, what the lane does from then on, and whether a span begins. Times do not decrease,
    /// also if the clock went back.
    fn change(&mut self) -> Option<(u64, Option<Active>, bool)> {
        let clipped = |ticks: u64| ticks.clamp(self.limits.0, self.limits.1);
        let start = self.lane.spans.get(self.next).map(|span| clipped(span.start));
        let top = self.stack.last().map(|(end, _)| *end);
        let begins = match (start, top) {
            (None, None) => return None,
            (Some(start), Some(end)) => start < end,
            (start, _) => start.is_some(),
        };
        if begins {
            let span = self.lane.spans.get(self.next)?;
            let end = if span.is_open() { self.limits.1 } else { clipped(span.end) };
            let part = self.parts.get((span.site as usize).wrapping_sub(1)).copied().unwrap_or(Some(Part::Cpu));
            let computing = self.computing.get(self.next).copied().unwrap_or(1.0);
            self.stack.push((end, Active { part, site: span.site, computing }));
            self.next += 1;
            self.now = self.now.max(start.unwrap_or(self.now));
        } else {
            self.stack.pop();
            self.now = self.now.max(top.unwrap_or(self.now));
        }
        Some((self.now, self.stack.last().map(|(_, active)| *active), begins))
    }
}

/// The share of each span's self time in which its thread computes. A span without CPU time takes the share of the span
/// around it; one that waits computes nothing.
fn computing(lane: &TraceLane, trace: &Trace) -> Vec<f32> {
    let cpu = |index: usize| lane.spans.get(index).and_then(|span| lane.detail_of(span)?.cpu_ns);
    if lane.details.iter().all(|detail| detail.cpu_ns.is_none()) {
        return Vec::new();
    }
    // Time and CPU time that are known not to be the parent's.
    let mut known = vec![(0.0_f64, 0.0_f64); lane.spans.len()];
    for (index, span) in lane.spans.iter().enumerate() {
        let waits = trace.site(span).is_some_and(|site| matches!(site.kind, Kind::Wait | Kind::Sync));
        let used = cpu(index).map(|ns| ns as f64).or(waits.then_some(0.0));
        if let (Some(used), Some(parent)) = (used, known.get_mut(span.parent as usize)) {
            *parent = (parent.0 + trace.duration_ns(span), parent.1 + used);
        }
    }
    let mut shares: Vec<f32> = Vec::with_capacity(lane.spans.len());
    for (index, span) in lane.spans.iter().enumerate() {
        let around = shares.get(span.parent as usize).copied().unwrap_or(1.0);
        shares.push(cpu(index).filter(|_| !span.is_open()).map_or(around, |cpu| {
            let (ns, used) = known.get(index).copied().unwrap_or_default();
            let own = trace.duration_ns(span) - ns;
            if own > 0.0 { ((cpu as f64 - used) / own).clamp(0.0, 1.0) as f32 } else { 1.0 }
        }));
    }
    shares
}

/// What the moments of a trace are spent on.
pub(crate) struct Sweep {
    /// Ticks by part; they add up to the elapsed ticks.
    pub(crate) parts: [u64; 9],
    /// Ticks by site in which its spans were what the time was spent on; the index is the number of the site. If several
    /// lanes share a moment, each gets an equal part.
    pub(crate) exposed: Vec<u64>,
    /// Lanes that are in each part now, and what they do.
    active: [Vec<(usize, Active)>; 9],
    /// Estimated ticks that spans themselves cost.
    own_cost: f64,
}

impl Sweep {
    pub(crate) fn over(trace: &Trace) -> Self {
        let active = std::array::from_fn(|_| Vec::new());
        let mut sweep = Self { parts: [0; 9], exposed: vec![0; trace.sites.len() + 1], active, own_cost: 0.0 };
        sweep.kept(trace);
        sweep.aggregated(trace);
        sweep.move_own_cost();
        sweep
    }

    fn kept(&mut self, trace: &Trace) {
        let (start, end) = (trace.start, trace.end.max(trace.start));
        let mut walks: Vec<Walk> = trace.lanes.iter().map(|lane| Walk::new(trace, lane)).collect();
        let mut pending: Vec<Option<(u64, Option<Active>, bool)>> = walks.iter_mut().map(Walk::change).collect();
        let mut current: Vec<Option<Part>> = vec![None; walks.len()];
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
            pending.iter().enumerate().filter_map(|(lane, change)| Some(Reverse((change.as_ref()?.0, lane)))).collect();
        let cost_ticks = cost_ticks(trace);
        let mut now = start;
        while let Some(mut top) = queue.peek_mut() {
            let Reverse((time, lane)) = *top;
            let Some((_, active, begins)) = pending[lane] else { break };
            if time > now {
                self.spend(time - now);
                now = time;
            }
            if let Some(part) = current[lane].take() {
                self.active[part as usize].retain(|(other, _)| *other != lane);
            }
            if let Some((active, part)) = active.and_then(|active| Some((active, active.part?))) {
                self.active[part as usize].push((lane, active));
                current[lane] = Some(part);
            }
            if begins && trace.lanes[lane].kind == LaneKind::Thread {
                let threads: usize = self.active.iter().map(Vec::len).sum();
                self.own_cost += cost_ticks / threads.max(1) as f64;
            }
            pending[lane] = walks[lane].change();
            match &pending[lane] {
                Some((time, ..)) => *top = Reverse((*time, lane)),
                None => {
                    std::collections::binary_heap::PeekMut::pop(top);
                }
            }
        }
        self.spend(end - now);
    }

    /// Gives `ticks` to what happens now.
    fn spend(&mut self, ticks: u64) {
        let first = Part::BY_PRIORITY.into_iter().find(|part| !self.active[*part as usize].is_empty());
        let Some(part) = first else {
            self.parts[Part::Unexplained as usize] += ticks;
            return;
        };
        let mut rest = ticks;
        if part == Part::Cpu {
            let share = self.active[part as usize].iter().fold(0.0_f32, |most, (_, one)| most.max(one.computing));
            let computing = if share >= 1.0 { ticks } else { ((ticks as f64 * f64::from(share)) as u64).min(ticks) };
            self.give(Part::Cpu, Part::Cpu, computing);
            rest = ticks - computing;
            if rest == 0 {
                return;
            }
            let next = Part::BY_PRIORITY[1..].iter().find(|part| !self.active[**part as usize].is_empty());
            match next {
                Some(next) => self.give(*next, *next, rest),
                None => self.give(Part::Wait, Part::Cpu, rest),
            }
            return;
        }
        self.give(part, part, std::mem::take(&mut rest));
    }

    /// Adds ticks to a part, and to the operations of the lanes that are in `of` now.
    fn give(&mut self, part: Part, of: Part, ticks: u64) {
        self.parts[part as usize] += ticks;
        let lanes = &self.active[of as usize];
        let each = ticks / lanes.len().max(1) as u64;
        let mut more = ticks - each * lanes.len() as u64;
        for (_, active) in lanes {
            if let Some(exposed) = self.exposed.get_mut(active.site as usize) {
                *exposed += each + std::mem::take(&mut more);
            }
        }
    }

    /// Fills unexplained time with aggregated spans.
    fn aggregated(&mut self, trace: &Trace) {
        if trace.lanes.iter().all(|lane| lane.totals.is_empty()) {
            return;
        }
        let part_of = |lane: &TraceLane, site: u32| {
            let stream = matches!(lane.kind, LaneKind::Stream { .. });
            let kind = trace.sites.get((site as usize).wrapping_sub(1)).map_or(Kind::Cpu, |site| site.kind);
            Part::of(kind, stream)
        };
        for part in Part::BY_PRIORITY {
            let own = |lane: &'_ TraceLane| -> u64 {
                let mine = lane.totals.iter().filter(|total| part_of(lane, total.site) == Some(part));
                mine.fold(0, |sum: u64, total| sum.saturating_add(ticks_of(&trace.clock, total.self_ns)))
            };
            let most = trace.lanes.iter().map(|lane| (own(lane), lane)).max_by_key(|(ticks, _)| *ticks);
            let Some((ticks, lane)) = most.filter(|(ticks, _)| *ticks > 0) else { continue };
            let given = ticks.min(self.parts[Part::Unexplained as usize]);
            self.parts[Part::Unexplained as usize] -= given;
            self.parts[part as usize] += given;
            for total in lane.totals.iter().filter(|total| part_of(lane, total.site) == Some(part)) {
                let share = ticks_of(&trace.clock, total.self_ns) as f64 / ticks as f64;
                if let Some(exposed) = self.exposed.get_mut(total.site as usize) {
                    *exposed += (given as f64 * share) as u64;
                }
            }
        }
        let spans = |lane: &TraceLane| lane.totals.iter().fold(0, |sum: u64, total| sum.saturating_add(total.count));
        let most = trace.lanes.iter().map(spans).max().unwrap_or(0);
        self.own_cost += most as f64 * cost_ticks(trace);
    }

    /// Moves the cost of spans from computing, then from unexplained time, to instrumentation.
    fn move_own_cost(&mut self) {
        let mut left = self.own_cost as u64;
        for from in [Part::Cpu, Part::Unexplained] {
            let moved = left.min(self.parts[from as usize]);
            self.parts[from as usize] -= moved;
            self.parts[Part::Instrumentation as usize] += moved;
            left -= moved;
        }
    }
}

/// Ticks that a span costs; 0 if unknown.
fn cost_ticks(trace: &Trace) -> f64 {
    let ns = trace.cost.map_or(0.0, |cost| cost.on_ns);
    if ns.is_finite() { (ns / trace.clock.ns_per_tick).max(0.0) } else { 0.0 }
}

/// Nanoseconds as whole ticks; `as` saturates and turns NaN to 0.
fn ticks_of(clock: &Calibration, ns: f64) -> u64 {
    (ns / clock.ns_per_tick) as u64
}
