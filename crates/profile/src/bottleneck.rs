//! The operations that cost most.

use std::collections::HashSet;

use crate::order::{falling, sort_by_number};
use crate::summary::{Row, Summary};
use crate::sweep::Sweep;
use crate::trace::Trace;

crate::words! {
    /// What bottlenecks are ordered by.
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
    /// The first `n` operations by each order of [`By`], those without time left out. Sites with the same name,
    /// file and line count as one operation.
    pub fn bottlenecks(&self, n: usize) -> Vec<Bottleneck> {
        self.bottlenecks_of(&self.summary_by_site(), &Sweep::over(self), n)
    }

    pub(crate) fn bottlenecks_of(&self, by_site: &Summary, sweep: &Sweep, n: usize) -> Vec<Bottleneck> {
        let named = |of: fn(&Row) -> f64| by_site.rows.iter().map(|row| (row.operation(), of(row))).collect();
        let operation = |site: usize| {
            let site = self.sites.get(site.wrapping_sub(1));
            site.map_or(("?", "", 0), |site| (site.name.as_str(), site.file.as_str(), site.line))
        };
        let exposed = || {
            let sites = sweep.exposed.iter().enumerate().filter(|(site, _)| !self.is_own(*site as u32));
            sites.map(|(site, ticks)| (operation(site), self.clock.ns(*ticks))).collect()
        };
        let all = |by| match by {
            By::Total => named(|row| row.total_ns),
            By::SelfTime => named(|row| row.self_ns),
            By::Exposed => exposed(),
        };
        let ambiguous = ambiguous(&by_site.rows);
        let [total, own, exposed] = By::ALL.map(|by| self.top(by, all(by), &ambiguous, n));
        [total, own, exposed].concat()
    }

    fn top(&self, by: By, all: Vec<(Operation<'_>, f64)>, ambiguous: &HashSet<&str>, n: usize) -> Vec<Bottleneck> {
        // Operations of the same name elsewhere stay separate: if one calls the other, a sum counts that time twice.
        let mut sums: Vec<(Operation<'_>, f64)> = Vec::with_capacity(all.len());
        for at in order(&all.iter().map(|(operation, _)| *operation).collect::<Vec<_>>()) {
            match sums.last_mut() {
                Some((known, sum)) if *known == all[at].0 => *sum += all[at].1,
                _ => sums.push(all[at]),
            }
        }
        sums.retain(|(_, ns)| *ns > 0.0);
        sort_by_number(&mut sums, |(_, ns)| falling(*ns));
        sums.truncate(n);
        let wall = self.wall_ns();
        let bottleneck = |((name, file, line), ns): (Operation<'_>, f64)| Bottleneck {
            by,
            operation: name.to_string(),
            place: (ambiguous.contains(name) && !file.is_empty()).then(|| format!("{file}:{line}")),
            ns,
            share: if wall > 0.0 { ns / wall } else { 0.0 },
        };
        sums.into_iter().map(bottleneck).collect()
    }
}

/// What distinguishes operations: name, file and line.
pub(crate) type Operation<'a> = (&'a str, &'a str, u32);

/// Indices of operations in the order of ties.
pub(crate) fn order(operations: &[Operation]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_unstable_by(|a, b| operations[*a].cmp(&operations[*b]).then(a.cmp(b)));
    order
}

/// Names that operations of several places in the source have.
pub(crate) fn ambiguous(rows: &[Row]) -> HashSet<&str> {
    let operations: Vec<Operation> = rows.iter().map(Row::operation).collect();
    let order = order(&operations);
    let pairs = order.windows(2).map(|pair| (operations[pair[0]], operations[pair[1]]));
    pairs.filter(|(a, b)| a.0 == b.0 && a != b).map(|(a, _)| a.0).collect()
}
