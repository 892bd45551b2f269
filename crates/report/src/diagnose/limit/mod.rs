//! What bounds a measurement: each is placed below the limits of its own machine, and the limit that explains most of its
//! time names its class.
//!
//! The roofline (Williams, Waterman, Patterson 2009) knows two limits, traffic and arithmetic. A measurement on a real
//! machine meets more of them: memory that is not reused costs a page fault a page, threads must be woken, a call costs
//! something, a load that depends on the one before takes the latency of its cache level, threads wait for each other. The
//! cost of each is a measured [ceiling](ellwand_core::Ceiling), its number is in the record or in the required work, so
//! the time that each explains is a product. The products are derived: no hardware counter is read.
//! On a device there are launches and the link to the host as well.

use ellwand_core::ceiling;
use ellwand_core::{Environment, Measurement};

mod changes;
mod device;
mod diagnosis;
mod processor;

pub use changes::{Change, Lever};
pub use diagnosis::{Diagnosis, Limit, Part};
pub(crate) use processor::typical_faults;

/// A limit that explains less than this share of the time does not bound it.
pub(super) const BINDS: f64 = 0.4;
/// A limit that explains at least this share of the time explains most of it.
pub(crate) const CLOSE: f64 = 0.6;
/// A count that would take more than this many times the time that it took is of something else.
const REFUTED: f64 = 1.5;
/// Above this share of a ceiling the measurement or the ceiling is at fault.
pub(super) const ABOVE: f64 = 1.05;
/// A call of at most so many empty calls' time is bound by being called: what else it does is then a few instructions. So is a
/// kernel by its launch.
const CALLS: f64 = 5.0;

/// Places a measurement below the ceilings of what it ran on. `None` when it has no times or no ceiling was measured.
pub fn place(m: &Measurement, environment: &Environment) -> Option<Diagnosis> {
    let ceilings = &*ceiling::of_device(&environment.ceilings, &m.device);
    if !m.outcome.is_measured() || ceilings.is_empty() {
        None
    } else if m.device == "cpu" {
        processor::place(m, environment, ceilings)
    } else {
        device::place(m, ceilings)
    }
}

/// The share of the time from which on a limit binds. Where arithmetic is required, part of it may be uncounted (a
/// polynomial, a conversion), and then neither traffic nor the counted operations may be named on less than most of the time.
fn binds(limit: Limit, m: &Measurement) -> f64 {
    match limit {
        Limit::Memory | Limit::Compute if m.work.flops > 0.0 => CLOSE,
        _ => BINDS,
    }
}
