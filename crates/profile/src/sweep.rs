//! One pass over all lanes in order of time, which decides how each moment is spent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::breakdown::Part;
use crate::clock::Calibration;
use crate::kind::{Kind, LaneKind};
use crate::summary::within;
use crate::trace::{NONE, Trace, TraceLane};

/// The state of a lane at a moment: its innermost span.
#[derive(Debug, Clone, Copy)]
struct Active {
    part: Option<Part>,
    site: u32,
    /// Share of the time in which the thread computes.
    computing: f32,
}

/// A lane, walked from change to change.
struct Walk<'a> {
    lane: &'a TraceLane,
    parts: Vec<Option<Part>>,
    /// Share of computing per span; empty if no span recorded its CPU time.
    computing: Vec<f32>,
    next: usize,
    stack: Vec<(u64, Active)>,
    now: u64,
    limits: (u64, u64),
    /// The next change; `current` is the part of the time before it.
    pending: Option<(u64, Option<Active>, bool)>,
    current: Option<Part>,
}

impl<'a> Walk<'a> {
    fn new(trace: &Trace, lane: &'a TraceLane) -> Self {
        let stream = matches!(lane.kind, LaneKind::Stream { .. });
        let parts = trace.sites.iter().map(|site| Part::of(site.kind, stream)).collect();
        let computing = if stream { Vec::new() } else { computing(lane, trace) };
        let limits = (trace.start, trace.end.max(trace.start));
        let stack = Vec::new();
        let mut walk =
            Self { lane, parts, computing, next: 0, stack, now: limits.0, limits, pending: None, current: None };
        walk.pending = walk.change();
        walk
    }

    /// The next change: its time, the state of the lane from then on, and whether a span begins. Times never decrease,
    /// even if the clock went back.
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
            // A leaked guard counts no longer than its enclosing span.
            let end = if span.is_open() { top.unwrap_or(self.limits.1) } else { clipped(span.end) };
            let part = self.parts.get((span.site as usize).wrapping_sub(1)).copied().unwrap_or(Some(Part::Cpu));
            let computing = self.computing.get(self.next).copied().unwrap_or(f32::NAN);
            let part = part.map(|part| measured(part, computing));
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

/// CPU time of a span or an aggregated node, as far as it is known.
struct Usage {
    parent: u32,
    ns: f64,
    cpu_ns: Option<f64>,
    waits: bool,
    open: bool,
}

/// The share of each span's self time in which its thread computes; empty if no span recorded its CPU time.
fn computing(lane: &TraceLane, trace: &Trace) -> Vec<f32> {
    if !has_cpu_time(lane) {
        return Vec::new();
    }
    shares(&mut lane.spans.iter().map(|span| {
        let ns = trace.duration_ns(span);
        Usage {
            parent: span.parent,
            ns,
            cpu_ns: lane.detail_of(span).and_then(|detail| detail.cpu_ns).map(|cpu| within(cpu, ns)),
            waits: trace.site(span).is_some_and(|site| waits(site.kind)),
            open: span.is_open(),
        }
    }))
}

/// The same for the aggregated nodes of a lane.
fn computing_aggregated(lane: &TraceLane, trace: &Trace) -> Vec<f32> {
    // A node without calls subtracts what its children used from kept spans; it has a share only if those have shares.
    let kept = has_cpu_time(lane);
    shares(&mut lane.totals.iter().map(|total| Usage {
        parent: total.parent,
        ns: total.total_ns,
        cpu_ns: total.sums.cpu_ns.map(|cpu| within(cpu, total.total_ns)).or((kept && total.count == 0).then_some(0.0)),
        waits: trace.site_of(total.site).is_some_and(|site| waits(site.kind)),
        open: false,
    }))
}

fn has_cpu_time(lane: &TraceLane) -> bool {
    lane.details.iter().any(|detail| detail.cpu_ns.is_some())
}

fn waits(kind: Kind) -> bool {
    matches!(kind, Kind::Wait | Kind::Sync)
}

/// A span whose share of computing is unknown counts as not measured instead of computing.
fn measured(part: Part, computing: f32) -> Part {
    if part == Part::Cpu && computing.is_nan() { Part::Unmeasured } else { part }
}

/// The share of self time in which the thread computes. A span without CPU time takes the share of its enclosing span,
/// or NaN if that has none; a waiting span computes nothing.
fn shares(all: &mut dyn Iterator<Item = Usage>) -> Vec<f32> {
    let all: Vec<Usage> = all.collect();
    // Time and CPU time that are known not to belong to the parent.
    let mut known = vec![(0.0_f64, 0.0_f64); all.len()];
    for one in &all {
        let used = one.cpu_ns.or(one.waits.then_some(0.0));
        if let (Some(used), Some(parent)) = (used, known.get_mut(one.parent as usize)) {
            *parent = (parent.0 + one.ns, parent.1 + used);
        }
    }
    let mut shares: Vec<f32> = Vec::with_capacity(all.len());
    for (one, (ns, used)) in all.iter().zip(known) {
        let around = shares.get(one.parent as usize).copied().unwrap_or(f32::NAN);
        shares.push(one.cpu_ns.filter(|_| !one.open).map_or(around, |cpu| {
            let own = one.ns - ns;
            let split = own > 0.0 || (own < 0.0 && one.ns == 0.0);
            if split { ((cpu - used) / own).clamp(0.0, 1.0) as f32 } else { 1.0 }
        }));
    }
    shares
}

/// How the moments of a trace are spent.
pub(crate) struct Sweep {
    /// Ticks by part; they add up to the elapsed ticks.
    pub(crate) parts: [u64; 10],
    /// For each site number, the ticks attributed to its spans. If several lanes share a moment, each gets an equal
    /// part.
    pub(crate) exposed: Vec<u64>,
    /// See [`Breakdown`](crate::Breakdown).
    pub(crate) cpu_is_least: bool,
    /// For each part, the lanes currently in it, and their states.
    active: [Vec<(usize, Active)>; 10],
    /// For each part, the estimated ticks that the spans themselves took from it.
    own_cost: [f64; 10],
}

impl Sweep {
    pub(crate) fn over(trace: &Trace) -> Self {
        let active = std::array::from_fn(|_| Vec::new());
        let mut sweep = Self {
            parts: [0; 10],
            exposed: vec![0; trace.sites.len() + 1],
            cpu_is_least: false,
            active,
            own_cost: [0.0; 10],
        };
        sweep.add_kept(trace);
        sweep.add_aggregated(trace);
        sweep.move_own_cost();
        sweep
    }

    fn add_kept(&mut self, trace: &Trace) {
        let (start, end) = (trace.start, trace.end.max(trace.start));
        let (mut walks, mut queue) = (Vec::with_capacity(trace.lanes.len()), BinaryHeap::new());
        for (number, lane) in trace.lanes.iter().enumerate() {
            let walk = Walk::new(trace, lane);
            walk.pending.iter().for_each(|(time, ..)| queue.push(Reverse((*time, number))));
            walks.push(walk);
        }
        let mut now = start;
        while let Some(mut top) = queue.peek_mut() {
            let Reverse((time, lane)) = *top;
            let walk = &mut walks[lane];
            let Some((_, active, begins)) = walk.pending else { break };
            let site = active.map_or(0, |active| active.site);
            if time > now {
                self.spend(time - now);
                now = time;
            }
            let outermost = walk.current.is_none();
            let before = self.first().unwrap_or(Part::Unexplained);
            if let Some(part) = walk.current.take() {
                self.active[part as usize].retain(|(other, _)| *other != lane);
            }
            if let Some((active, part)) = active.and_then(|active| Some((active, active.part?))) {
                self.active[part as usize].push((lane, active));
                walk.current = Some(part);
            }
            if begins && walk.lane.kind == LaneKind::Thread {
                let threads: usize = self.active.iter().map(Vec::len).sum();
                let [inside, outside] = cost_ticks(trace, site).map(|ticks| ticks / threads.max(1) as f64);
                self.own_cost[Part::Cpu as usize] += inside;
                self.own_cost[if outermost { before } else { Part::Cpu } as usize] += outside;
            }
            walk.pending = walk.change();
            match walk.pending {
                Some((time, ..)) => *top = Reverse((time, lane)),
                None => drop(PeekMut::pop(top)),
            }
        }
        self.spend(end - now);
    }

    /// The part that the current moment belongs to; `None` if no span covers it.
    fn first(&self) -> Option<Part> {
        Part::BY_PRIORITY.into_iter().find(|part| !self.active[*part as usize].is_empty())
    }

    /// Attributes `ticks` to the current state.
    fn spend(&mut self, ticks: u64) {
        let Some(part) = self.first() else {
            self.parts[Part::Unexplained as usize] += ticks;
            return;
        };
        if part != Part::Cpu {
            return self.give(part, part, ticks);
        }
        let (mut share, mut threads) = (0.0_f32, 0);
        for (_, one) in &self.active[part as usize] {
            share = share.max(one.computing);
            threads += usize::from(one.computing > 0.0);
        }
        self.cpu_is_least |= share < 1.0 && threads > 1 && ticks > 0;
        let computing = if share >= 1.0 { ticks } else { ((ticks as f64 * f64::from(share)) as u64).min(ticks) };
        self.give(Part::Cpu, Part::Cpu, computing);
        let next = Part::BY_PRIORITY[1..].iter().find(|part| !self.active[**part as usize].is_empty());
        let (part, of) = next.map_or((Part::Wait, Part::Cpu), |next| (*next, *next));
        self.give(part, of, ticks - computing);
    }

    /// Adds ticks to a part, and to the operations of the lanes that are currently in `of`.
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
    fn add_aggregated(&mut self, trace: &Trace) {
        if trace.lanes.iter().all(|lane| lane.totals.is_empty()) {
            return;
        }
        let mut lanes = Vec::with_capacity(trace.lanes.len());
        trace.lanes.iter().for_each(|lane| lanes.push(pieces(lane, trace)));
        // Time that kept spans give up comes first, because it makes room.
        let order = |negative: bool| Part::BY_PRIORITY.into_iter().map(move |part| (part, negative));
        for (part, negative) in order(true).chain(order(false)) {
            let sum = |lane: &[Piece], of: fn(f64) -> f64| -> f64 {
                lane.iter().filter(|piece| piece.part == part).map(|piece| of(piece.ns)).sum()
            };
            // If the pieces of lanes cancel out, take the lane in which most time moves from kept spans to those
            // inside.
            let size = |lane: &[Piece]| (sum(lane, |ns| ns).abs(), sum(lane, f64::abs));
            let larger = |a: (f64, f64), b: (f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
            let most = lanes.iter().map(|lane| (sum(lane, |ns| ns), lane)).max_by(|a, b| larger(size(a.1), size(b.1)));
            let Some((ns, lane)) = most.filter(|(ns, _)| (*ns < 0.0) == negative) else { continue };
            let others = lanes.iter().filter(|lane| sum(lane, |ns| ns) > 0.0).count();
            self.cpu_is_least |= part == Part::Cpu && others > 1;
            // Negative: that much of the self time of kept spans belongs to aggregated spans inside them.
            let wanted = ticks_of(&trace.clock, ns.abs());
            let (from, to) = if ns > 0.0 { (Part::Unexplained, part) } else { (part, Part::Unexplained) };
            let given = wanted.min(self.parts[from as usize]);
            self.parts[from as usize] -= given;
            self.parts[to as usize] += given;
            let mine = || lane.iter().filter(|piece| piece.part == part);
            let mut taken = 0;
            for piece in mine().filter(|piece| piece.ns < 0.0) {
                if let Some(exposed) = self.exposed.get_mut(piece.site as usize) {
                    let ticks = ticks_of(&trace.clock, -piece.ns).min(*exposed);
                    *exposed -= ticks;
                    taken = ticks.saturating_add(taken);
                }
            }
            let rest = if ns > 0.0 { given.saturating_add(taken) } else { taken.saturating_sub(given) } as f64;
            let all = sum(lane, |ns| ns.max(0.0));
            for piece in mine().filter(|piece| piece.ns > 0.0) {
                if let Some(exposed) = self.exposed.get_mut(piece.site as usize) {
                    *exposed = exposed.saturating_add((rest * (piece.ns / all)) as u64);
                }
            }
        }
        let cost = |lane: &TraceLane| {
            lane.totals.iter().fold([0.0; 2], |[in_spans, in_none], total| {
                let [inside, outside] = cost_ticks(trace, total.site).map(|ticks| total.count as f64 * ticks);
                let outermost = total.parent == NONE;
                let around = if outermost { [inside, outside] } else { [inside + outside, 0.0] };
                [in_spans + around[0], in_none + around[1]]
            })
        };
        let most = trace.lanes.iter().map(cost).max_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1])));
        let [in_spans, in_none] = most.unwrap_or_default();
        self.own_cost[Part::Cpu as usize] += in_spans;
        self.own_cost[Part::Unexplained as usize] += in_none;
    }

    /// Moves the cost of spans from the parts that contain it to instrumentation; what a part lacks, from the time of
    /// threads, then from unexplained time.
    fn move_own_cost(&mut self) {
        let mut left = (self.own_cost.iter().sum::<f64>()) as u64;
        let own = Part::ALL.map(|part| (part, self.own_cost[part as usize] as u64));
        let rest = [Part::Cpu, Part::Unmeasured, Part::Unexplained].map(|part| (part, u64::MAX));
        for (from, most) in own.into_iter().chain(rest) {
            let moved = left.min(most).min(self.parts[from as usize]);
            self.parts[from as usize] -= moved;
            self.parts[Part::Instrumentation as usize] += moved;
            left -= moved;
        }
    }
}

/// The part of an aggregated node's self time that belongs to one part.
struct Piece {
    part: Part,
    site: u32,
    ns: f64,
}

/// The self times of a lane's aggregated nodes; a node that computes for a share of its time waits for the rest.
fn pieces(lane: &TraceLane, trace: &Trace) -> Vec<Piece> {
    let stream = matches!(lane.kind, LaneKind::Stream { .. });
    let mut pieces = Vec::new();
    for (total, share) in lane.totals.iter().zip(computing_aggregated(lane, trace)) {
        let kind = trace.site_of(total.site).map_or(Kind::Cpu, |site| site.kind);
        let Some(part) = Part::of(kind, stream).filter(|_| total.self_ns.is_finite()) else { continue };
        let part = measured(part, share);
        let waiting = if part == Part::Cpu { total.self_ns * f64::from(1.0 - share) } else { 0.0 };
        pieces.push(Piece { part, site: total.site, ns: total.self_ns - waiting });
        if waiting != 0.0 {
            pieces.push(Piece { part: Part::Wait, site: total.site, ns: waiting });
        }
    }
    pieces
}

/// Ticks that a span of this site costs: inside the span, and before and after it; 0 if unknown.
fn cost_ticks(trace: &Trace, site: u32) -> [f64; 2] {
    let cost = trace.span_cost(site);
    let ticks = |ns: f64| if ns.is_finite() { (ns / trace.clock.ns_per_tick).max(0.0) } else { 0.0 };
    let (all, inside) = (ticks(cost.span_ns), ticks(cost.empty_ns));
    [inside.min(all), (all - inside).max(0.0)]
}

/// Nanoseconds as whole ticks; `as` saturates and turns NaN to 0.
fn ticks_of(clock: &Calibration, ns: f64) -> u64 {
    (ns / clock.ns_per_tick) as u64
}
