//! The operations that cost most.

use crate::summary::{Row, Summary};
use crate::sweep::Sweep;
use crate::trace::Trace;

/// What bottlenecks are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// Time inside, children included.
    Total,
    /// Time inside but not in nested spans.
    SelfTime,
    /// Elapsed time that the operation alone is responsible for, as in [`Trace::breakdown`].
    Exposed,
}

impl By {
    /// All three orders, as files list them.
    pub const ALL: [Self; 3] = [Self::Total, Self::SelfTime, Self::Exposed];

    /// The name in files: `total`, `self` or `exposed`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::SelfTime => "self",
            Self::Exposed => "exposed",
        }
    }
}

/// An operation near the top of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// The order in which it is near the top.
    pub by: By,
    /// Name of the operation.
    pub operation: String,
    /// Its time in that order, in nanoseconds.
    pub ns: f64,
    /// The same as a share of the elapsed time; for total and self time above 1 if threads ran at the same time.
    pub share: f64,
}

impl Trace {
    /// The first `n` operations by each order of [`By`], those without time left out. Sites with the same name count
    /// as one operation.
    pub fn bottlenecks(&self, n: usize) -> Vec<Bottleneck> {
        self.bottlenecks_of(&self.summary_by_site(), &Sweep::over(self), n)
    }

    pub(crate) fn bottlenecks_of(&self, by_site: &Summary, sweep: &Sweep, n: usize) -> Vec<Bottleneck> {
        let named = |of: fn(&Row) -> f64| by_site.rows.iter().map(|row| (row.name().to_string(), of(row))).collect();
        let exposed = |(site, ticks): (usize, &u64)| {
            let name = self.sites.get(site.wrapping_sub(1)).map_or("?", |site| &site.name);
            (name.to_string(), self.clock.ns(*ticks))
        };
        let all = |by| match by {
            By::Total => named(|row| row.total_ns),
            By::SelfTime => named(|row| row.self_ns),
            By::Exposed => {
                let sites = sweep.exposed.iter().enumerate().filter(|(site, _)| !self.is_own(*site as u32));
                sites.map(exposed).collect()
            }
        };
        By::ALL.into_iter().flat_map(|by| self.top(by, all(by), n)).collect()
    }

    fn top(&self, by: By, mut all: Vec<(String, f64)>, n: usize) -> Vec<Bottleneck> {
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                sum.1 += next.1;
            }
            same
        });
        all.retain(|(_, ns)| *ns > 0.0);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(n);
        let wall = self.wall_ns();
        let share = |ns: f64| if wall > 0.0 { ns / wall } else { 0.0 };
        all.into_iter().map(|(operation, ns)| Bottleneck { by, operation, ns, share: share(ns) }).collect()
    }
}
