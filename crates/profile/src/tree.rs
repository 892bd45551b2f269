//! The calling-context tree of a trace: one node per path of nested operations.

use crate::gather::Gathered;
use crate::inner::Inner;
use crate::order::{Indices, falling, sort_by_number};
use crate::outer::Outer;
use crate::summary::{self, Row};
use crate::trace::{NONE, Trace};

/// Longest path. For deep recursion, the names alone would otherwise need memory quadratic in the depth.
const DEEPEST: usize = 128;

/// Selects a span (lane, index): its frame, and whether it is on the frames' thread (kept in separate rows). `None`
/// skips the span; its children move up to its parent.
pub(crate) type Select<'a> = dyn Fn(usize, usize) -> Option<(usize, bool)> + 'a;

/// A row by path, its flag from [`Select`], and its total and self time per frame.
pub(crate) type Leaf = (Row, bool, Vec<[f64; 2]>);

struct Node {
    parent: u32,
    site: u32,
    separate: bool,
    depth: usize,
    gathered: Gathered,
}

/// Nodes under construction; children are looked up by flag, parent and site.
#[derive(Default)]
struct Nodes {
    all: Vec<Node>,
    known: [Indices; 2],
    frames: usize,
}

impl Nodes {
    fn child(&mut self, parent: u32, site: u32, separate: bool) -> u32 {
        let around = self.all.get(parent as usize);
        let parent = around.filter(|node| node.depth >= DEEPEST).map_or(parent, |node| node.parent);
        let depth = self.all.get(parent as usize).map_or(1, |node| node.depth + 1);
        *self.known[usize::from(separate)].entry((parent, site)).or_insert_with(|| {
            let gathered = Gathered::new(site, self.frames);
            self.all.push(Node { parent, site, separate, depth, gathered });
            (self.all.len() - 1) as u32
        })
    }
}

impl Trace {
    /// Rows by path. With `frames`, also collects times per frame; aggregated spans have no position in time and are
    /// then omitted.
    pub(crate) fn tree(&self, frames: usize, select: &Select) -> Vec<Leaf> {
        let outer = Outer::of(self);
        let inner = Inner::of(self, &outer);
        let mut nodes = Nodes { frames, ..Nodes::default() };
        let mut node_of: Vec<Vec<Option<u32>>> = Vec::with_capacity(self.lanes.len());
        self.lanes.iter().for_each(|lane| node_of.push(vec![None; lane.spans.len()]));
        for (number, lane) in self.lanes.iter().enumerate() {
            for (index, span) in lane.spans.iter().enumerate() {
                // A parent may be on a later lane.
                for (lane, index) in outer.without_node(&mut node_of, (number, index)) {
                    let parent = outer.around(lane, index).and_then(|(lane, index)| node_of[lane][index]);
                    let parent = parent.unwrap_or(NONE);
                    node_of[lane][index] = Some(match select(lane, index) {
                        None => parent,
                        Some((_, separate)) => nodes.child(parent, self.lanes[lane].spans[index].site, separate),
                    });
                }
                let (Some((frame, _)), Some(node)) = (select(number, index), node_of[number][index]) else { continue };
                let Some(Node { gathered, depth, .. }) = nodes.all.get_mut(node as usize) else { continue };
                // At the end of a path a recursive call and its caller share a row, and the row counts only the outer
                // one.
                let around = outer.around(number, index).and_then(|(lane, index)| node_of[lane][index]);
                let outermost = *depth < DEEPEST || around != Some(node);
                gathered.add(self, &inner[number], (number, index), outermost);
                if let (Some(time), false) = (gathered.frames.get_mut(frame), span.is_open()) {
                    time[0] += self.duration_ns(span);
                    time[1] += self.clock.ns(span.ticks().saturating_sub(inner[number].covered[index]));
                }
            }
        }
        if frames == 0 {
            self.add_totals(&mut nodes);
        }
        self.rows(nodes)
    }

    fn add_totals(&self, nodes: &mut Nodes) {
        for (number, lane) in self.lanes.iter().enumerate() {
            let facts = summary::Nodes::of(self, lane);
            let mut node_of: Vec<u32> = Vec::with_capacity(lane.totals.len());
            for (index, total) in lane.totals.iter().enumerate() {
                let parent = node_of.get(total.parent as usize).copied().unwrap_or(NONE);
                if self.is_own(total.site) {
                    node_of.push(parent);
                    continue;
                }
                let node = nodes.child(parent, total.site, false);
                node_of.push(node);
                if let Some(Node { gathered, .. }) = nodes.all.get_mut(node as usize) {
                    gathered.add_total(self, (number, index), &facts, node != parent);
                }
            }
        }
    }

    /// Depth first, siblings by descending total time. Uses an explicit stack, so deep nesting cannot overflow the call
    /// stack.
    fn rows(&self, mut nodes: Nodes) -> Vec<Leaf> {
        let count = nodes.all.len();
        // The children of the root are in the last entry.
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        for (node, Node { parent, .. }) in nodes.all.iter().enumerate() {
            children[(*parent as usize).min(count)].push(node);
        }
        for siblings in &mut children {
            sort_by_number(siblings, |node| falling(nodes.all[*node].gathered.total_ns));
        }
        let mut stack = vec![(count, 0)];
        let mut path: Vec<String> = Vec::new();
        let mut rows = Vec::with_capacity(count);
        while let Some((number, depth)) = stack.pop() {
            children[number].iter().rev().for_each(|child| stack.push((*child, depth + 1)));
            // Skips the entry of the root.
            let Some(node) = nodes.all.get_mut(number) else { continue };
            let mut gathered = std::mem::take(&mut node.gathered);
            let name = self.site_of(node.site).map_or("?", |site| &site.name);
            path.truncate(depth - 1);
            path.push(name.to_string());
            let times = std::mem::take(&mut gathered.frames);
            rows.push((gathered.row(self, path.clone()), node.separate, times));
        }
        rows
    }
}
