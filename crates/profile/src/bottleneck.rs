//! The operations that cost most.

use std::collections::{HashMap, HashSet};

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
        let named = |of: fn(&Row) -> f64| by_site.rows.iter().map(|row| (Operation::of_row(row), of(row))).collect();
        let exposed = |(site, ticks): (usize, &u64)| (Operation::of_site(self, site), self.clock.ns(*ticks));
        let all = |by| match by {
            By::Total => named(|row| row.total_ns),
            By::SelfTime => named(|row| row.self_ns),
            By::Exposed => {
                let sites = sweep.exposed.iter().enumerate().filter(|(site, _)| !self.is_own(*site as u32));
                sites.map(exposed).collect()
            }
        };
        let ambiguous = ambiguous(&by_site.rows);
        let [total, own, exposed] = By::ALL.map(|by| self.top(by, all(by), &ambiguous, n));
        [total, own, exposed].concat()
    }

    fn top(&self, by: By, mut all: Vec<(Operation<'_>, f64)>, ambiguous: &HashSet<&str>, n: usize) -> Vec<Bottleneck> {
        // Operations of the same name elsewhere stay separate: if one calls the other, a sum counts that time twice.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|more, sum| {
            let is_same = more.0 == sum.0;
            sum.1 += if is_same { more.1 } else { 0.0 };
            is_same
        });
        all.retain(|(_, ns)| *ns > 0.0);
        sort_by_number(&mut all, |(_, ns)| falling(*ns));
        all.truncate(n);
        let wall = self.wall_ns();
        let share = |ns: f64| if wall > 0.0 { ns / wall } else { 0.0 };
        let bottleneck = |(Operation { name, file, line }, ns): (Operation<'_>, f64)| Bottleneck {
            by,
            operation: name.to_string(),
            place: (ambiguous.contains(name) && !file.is_empty()).then(|| format!("{file}:{line}")),
            ns,
            share: share(ns),
        };
        all.into_iter().map(bottleneck).collect()
    }
}

/// What distinguishes operations, in the order of ties.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Operation<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
}

impl<'a> Operation<'a> {
    fn of_row(row: &'a Row) -> Self {
        Self { name: row.name(), file: &row.file, line: row.line }
    }

    fn of_site(trace: &'a Trace, site: usize) -> Self {
        let site = trace.sites.get(site.wrapping_sub(1));
        site.map_or(Self { name: "?", file: "", line: 0 }, |site| Self {
            name: &site.name,
            file: &site.file,
            line: site.line,
        })
    }
}

/// Names that operations of several places in the source have.
pub(crate) fn ambiguous(rows: &[Row]) -> HashSet<&str> {
    let mut places: HashMap<&str, (&str, u32)> = HashMap::new();
    let mut ambiguous = HashSet::new();
    for row in rows {
        let place = (row.file.as_str(), row.line);
        if *places.entry(row.name()).or_insert(place) != place {
            ambiguous.insert(row.name());
        }
    }
    ambiguous
}
