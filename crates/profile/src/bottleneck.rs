//! The operations that cost most.

use std::collections::BinaryHeap;

use crate::order::{falling, sort_by_number};
use crate::summary::{Row, Summary};
use crate::sweep::Sweep;
use crate::trace::Trace;

crate::words! {
    /// The quantity that bottlenecks are ordered by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum By {
        /// Time inside, children included.
        Total = "total",
        /// Time inside but not in nested spans.
        SelfTime = "self",
        /// Elapsed time that the operation alone is responsible for, as in [`Trace::breakdown`].
        Exposed = "exposed",
    }
    /// The name in files: `total`, `self` or `exposed`.
    fn word;
}

/// An operation near the top of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// The order in which it is near the top.
    pub by: By,
    /// Name of the operation.
    pub operation: String,
    /// Its source as `file:line`, if an operation elsewhere in the source has the same name.
    pub place: Option<String>,
    /// Its time in that order, in nanoseconds.
    pub ns: f64,
    /// The same as a share of the elapsed time; for total and self time above 1 if threads ran at the same time.
    pub share: f64,
}

impl Trace {
    /// The first `n` operations in each order of [`By`], without those that took no time. Sites with the same name,
    /// file and line count as one operation.
    pub fn bottlenecks(&self, n: usize) -> Vec<Bottleneck> {
        self.bottlenecks_of(&self.summary_by_site(), &Sweep::over(self), n)
    }

    pub(crate) fn bottlenecks_of(&self, by_site: &Summary, sweep: &Sweep, n: usize) -> Vec<Bottleneck> {
        let (rows, mut tops) = (&by_site.rows, Vec::new());
        let (ambiguous, wall) = (ambiguous(rows), self.wall_ns());
        let mut add = |by, operations: &mut dyn Iterator<Item = Operation<'_>>, of: &dyn Fn(usize) -> f64| {
            // Operations of the same name elsewhere stay separate: if one calls the other, a sum would count that time
            // twice.
            let mut sums: Vec<(Operation<'_>, f64)> = Vec::new();
            for (operation, at) in in_order(operations) {
                match sums.last_mut() {
                    Some((known, sum)) if *known == operation => *sum += of(at),
                    _ => sums.push((operation, of(at))),
                }
            }
            sums.retain(|(_, ns)| *ns > 0.0);
            sort_by_number(&mut sums, |(_, ns)| falling(*ns));
            for ((name, file, line), ns) in sums.into_iter().take(n) {
                let is_ambiguous = ambiguous.binary_search(&name).is_ok() && !file.is_empty();
                let place = is_ambiguous.then(|| format!("{file}:{line}"));
                let share = if wall > 0.0 { ns / wall } else { 0.0 };
                tops.push(Bottleneck { by, operation: name.to_string(), place, ns, share });
            }
        };
        add(By::Total, &mut rows.iter().map(Row::operation), &|at| rows[at].total_ns);
        add(By::SelfTime, &mut rows.iter().map(Row::operation), &|at| rows[at].self_ns);
        let ticks = |site: usize| if self.is_own(site as u32) { 0 } else { sweep.exposed[site] };
        let sites = &mut (0..sweep.exposed.len()).map(|site| self.operation(site));
        add(By::Exposed, sites, &|site| self.clock.ns(ticks(site)));
        tops
    }

    pub(crate) fn operation(&self, site: usize) -> Operation<'_> {
        self.site_of(site as u32).map_or(("?", "", 0), |site| (&site.name, &site.file, site.line))
    }
}

/// What distinguishes operations: name, file and line.
pub(crate) type Operation<'a> = (&'a str, &'a str, u32);

/// Operations with their indices, in the order of ties. Uses a heap, which compiles in a fifth of the time of a sort.
pub(crate) fn in_order<'a>(operations: &mut dyn Iterator<Item = Operation<'a>>) -> Vec<(Operation<'a>, usize)> {
    let mut heap = BinaryHeap::new();
    operations.enumerate().for_each(|(at, operation)| heap.push((operation, at)));
    heap.into_sorted_vec()
}

/// Names of operations in several places of the source, sorted.
pub(crate) fn ambiguous(rows: &[Row]) -> Vec<&str> {
    let mut names = Vec::new();
    let order = in_order(&mut rows.iter().map(Row::operation));
    for pair in order.windows(2) {
        let (a, b) = (pair[0].0, pair[1].0);
        if a.0 == b.0 && a != b {
            names.push(a.0);
        }
    }
    names
}
