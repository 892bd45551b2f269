//! Sums inside each span: its children, the profiler's cost, and the device work that it started.

use crate::kind::{Kind, LaneKind};
use crate::outer::Outer;
use crate::trace::{NONE, Trace, TraceLane};

/// Facts about the spans of one lane, by index.
#[derive(Default)]
pub(crate) struct Inner {
    /// Ticks covered by children on the same lane; of a child that ends later, only the part inside.
    pub(crate) covered: Vec<u64>,
    /// Nanoseconds that the children on the same lane cost outside their own times; NaN if unknown.
    pub(crate) children_ns: Vec<f64>,
    /// Nanoseconds that the descendants on the same lane cost.
    pub(crate) nested_ns: Vec<f64>,
    /// Ticks of kernels: the span itself, or those that it started. Empty if no lane is a stream.
    pub(crate) device: Vec<u64>,
    /// Ticks of copies, likewise.
    pub(crate) transfer: Vec<u64>,
    /// False for a span inside another span of the same operation.
    pub(crate) outermost: Vec<bool>,
}

impl Inner {
    /// Facts for every lane. `outer` finds the calls that started the work of devices.
    pub(crate) fn of(trace: &Trace, outer: &Outer) -> Vec<Self> {
        let mut all = Vec::with_capacity(trace.lanes.len());
        trace.lanes.iter().for_each(|lane| all.push(Self::of_lane(trace, lane)));
        if trace.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. })) {
            attribute(trace, outer, &mut all);
        }
        all
    }

    fn of_lane(trace: &Trace, lane: &TraceLane) -> Self {
        let count = lane.spans.len();
        let mut inner = Self {
            covered: vec![0; count],
            children_ns: vec![0.0; count],
            nested_ns: vec![0.0; count],
            outermost: lane.outermost(),
            ..Self::default()
        };
        for (index, span) in lane.spans.iter().enumerate().rev() {
            let parent = span.parent as usize;
            if parent < index {
                let around = &lane.spans[parent];
                let inside = span.end.min(around.end).saturating_sub(span.start.max(around.start));
                inner.covered[parent] = inner.covered[parent].saturating_add(inside);
                let cost = trace.span_cost(span.site);
                inner.children_ns[parent] += cost.outside_ns();
                // The recorder's own calls cost what they took.
                let cost_ns = if trace.is_own(span.site) { trace.clock.ns(inside) } else { cost.span_ns };
                inner.nested_ns[parent] += inner.nested_ns[index] + cost_ns;
            }
        }
        inner
    }
}

/// Adds the time of each device operation to the call that started it and to all spans around that call.
fn attribute(trace: &Trace, outer: &Outer, all: &mut [Inner]) {
    for (inner, lane) in all.iter_mut().zip(&trace.lanes) {
        inner.device = vec![0; lane.spans.len()];
        inner.transfer = vec![0; lane.spans.len()];
    }
    for (number, lane) in trace.lanes.iter().enumerate() {
        for (index, span) in lane.spans.iter().enumerate() {
            let kind = trace.site(span).map_or(Kind::Cpu, |site| site.kind);
            let Some(transfer) = device_work(kind) else { continue };
            let source = outer.source(number, index).filter(|(lane, _)| *lane != number);
            for (lane, index) in [Some((number, index)), source].into_iter().flatten() {
                let Some(inner) = all.get_mut(lane) else { continue };
                let ticks = if transfer { &mut inner.transfer } else { &mut inner.device };
                if let Some(sum) = ticks.get_mut(index) {
                    *sum = sum.saturating_add(span.ticks());
                }
            }
        }
    }
    for (inner, lane) in all.iter_mut().zip(&trace.lanes).filter(|(_, lane)| lane.kind == LaneKind::Thread) {
        for ticks in [&mut inner.device, &mut inner.transfer] {
            for (index, span) in lane.spans.iter().enumerate().rev().filter(|(index, _)| *index > 0) {
                let parent = span.parent as usize;
                if parent < index {
                    ticks[parent] = ticks[parent].saturating_add(ticks[index]);
                }
            }
        }
    }
}

/// True for a copy, false for a kernel, `None` for work of the host.
pub(crate) fn device_work(kind: Kind) -> Option<bool> {
    match kind {
        Kind::Kernel => Some(false),
        Kind::HostToDevice | Kind::DeviceToHost | Kind::DeviceToDevice => Some(true),
        _ => None,
    }
}

/// For each node, given by its parent and its site: true unless an enclosing node has the same site. Walks with a
/// stack, because following the parents of every node would take quadratic time in deep recursion.
pub(crate) fn outermost(nodes: &[(u32, u32)]) -> Vec<bool> {
    // Damaged files may hold any number, so count per site that occurs, not per possible number.
    let mut sites: Vec<u64> = nodes.iter().map(|(_, site)| u64::from(*site)).collect();
    sites.sort_unstable();
    sites.dedup();
    let slot = |node: usize| sites.binary_search(&nodes[node].1.into()).unwrap_or(0);
    let mut active = vec![0_u32; sites.len()];
    let mut on_stack = vec![false; nodes.len()];
    let mut stack: Vec<usize> = Vec::new();
    let mut result = Vec::with_capacity(nodes.len());
    for (index, (parent, _)) in nodes.iter().enumerate() {
        let parent = if *parent == NONE { usize::MAX } else { *parent as usize };
        let known = on_stack.get(parent).copied().unwrap_or(false);
        while let Some(top) = stack.pop_if(|top| *top != parent) {
            on_stack[top] = false;
            active[slot(top)] -= 1;
        }
        if !known && parent < index {
            let mut chain: Vec<usize> = Vec::new();
            let mut at = parent;
            while at < index && chain.last().is_none_or(|inner| at < *inner) {
                chain.push(at);
                at = nodes[at].0 as usize;
            }
            for around in chain.into_iter().rev() {
                on_stack[around] = true;
                active[slot(around)] += 1;
                stack.push(around);
            }
        }
        let slot = slot(index);
        result.push(active[slot] == 0);
        active[slot] += 1;
        on_stack[index] = true;
        stack.push(index);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Span;

    fn of_spans(spans: Vec<Span>) -> Vec<bool> {
        TraceLane { spans, ..TraceLane::default() }.outermost()
    }

    fn span(site: u32, parent: u32) -> Span {
        Span { start: 1, end: 2, site, parent, corr: 0, ext: 0 }
    }

    #[test]
    fn recursion_is_found_also_below_a_parent_that_was_left() {
        let spans = vec![span(1, NONE), span(2, 0), span(1, 1), span(2, NONE), span(2, 1), span(1, 4), span(9, 77)];
        assert_eq!(of_spans(spans), [true, true, false, true, false, false, true]);
    }

    #[test]
    fn deep_recursion_takes_linear_time() {
        let spans: Vec<Span> =
            (0..if cfg!(miri) { 500 } else { 200_000 }).map(|index: u32| span(1, index.wrapping_sub(1))).collect();
        let found = of_spans(spans);
        assert_eq!(found.iter().filter(|outer| **outer).count(), 1);
    }
}
