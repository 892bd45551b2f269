//! What limits a measurement: the limit of its own machine that explains most of its time.
//!
//! The roofline (Williams, Waterman, Patterson 2009) has two limits, traffic and arithmetic. Real programs meet more:
//! unreused memory costs a page fault per page, threads must be woken, a call has overhead, a dependent load takes the
//! latency of its cache level, and threads wait for each other. Each of these costs is a measured
//! [ceiling](ellwand_core::Ceiling), and its count is in the record or in the required work, so the time that each
//! explains is a product. The rest belongs to the core ([`rest`]). Devices add launches and the link to the host.

use ellwand_core::ceiling;
use ellwand_core::{Environment, Measurement};

mod changes;
mod device;
mod diagnosis;
mod processor;
mod rest;

pub use changes::{Lever, Saving};
pub use diagnosis::{Diagnosis, Limit, Part};
pub(crate) use processor::typical_faults;

/// A limit that explains less than this share of the time does not count as the bound.
pub(super) const BINDS: f64 = 0.4;
/// A limit that explains at least this share of the time explains most of it.
pub(crate) const CLOSE: f64 = 0.6;
/// A count whose cost exceeds the measured time by more than this factor cannot be the explanation.
const REFUTED: f64 = 1.5;
/// Above this share of a ceiling, the measurement or the ceiling is wrong.
pub(crate) const ABOVE: f64 = 1.05;
/// A call that takes at most this many times an empty call is bound by call overhead: the rest is only a few
/// instructions. The same holds for a kernel and its launch.
const CALLS: f64 = 5.0;
/// Size of a cache line in bytes.
const LINE: f64 = 64.0;

/// Minimum number of slots for which the time is known well enough to name a limit.
pub(crate) const FEWEST: usize = 3;

/// Compares a measurement with the ceilings of its device. `None` without times or without ceilings.
pub fn place(m: &Measurement, environment: &Environment) -> Option<Diagnosis> {
    let ceilings = &*ceiling::of_device(&environment.ceilings, &m.device);
    if !m.outcome.is_measured() || ceilings.is_empty() {
        return None;
    }
    let cpu = m.device == "cpu";
    let mut found =
        if cpu { processor::place(m, environment, ceilings) } else { device::place(m, environment, ceilings) }?;
    // A time above the ceiling is impossible whatever the number of slots.
    if m.samples.len() < FEWEST && found.limit != Limit::AboveCeiling {
        (found.limit, found.share, found.one_lane) = (Limit::FewSlots, 0.0, false);
        found.changes.clear();
    }
    Some(found)
}

/// The share of the time that a limit must explain to be the bound. Some arithmetic may be uncounted (a polynomial, a
/// conversion), so if any is required, traffic and counted operations must explain most of the time.
fn binds(limit: Limit, m: &Measurement) -> f64 {
    match limit {
        Limit::Memory | Limit::Compute if m.work.flops > 0.0 => CLOSE,
        _ => BINDS,
    }
}
