//! Reads and writes profiles in the formats of other programs, interprets them, and compares two of them.

mod chrome;
mod diff;
mod findings;
mod gaps;
mod read;
mod routing;
mod write;

pub use diff::{Diff, DiffError, DiffOptions, DiffSide, Node, Ratio, diff};
pub use findings::{
    Ceilings, Confidence, Facts, Limits, ProfileFinding, RULES, Reached, Rule, Trigger, findings, reached_limits,
};
pub use gaps::{Gaps, calls};
pub use read::{EXPECTED, Imported, MAX_DETAILS, MAX_POINTS, MAX_SPANS, MAX_TEXT, Problem, ReadError, read, read_from};
pub use routing::{Crossover, Processor, Route, Routing, RoutingError, Timing, Timings, timings};
pub use write::{FORMATS, Format, format};

/// Compiles the programs on the page about profiling as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/profiler.md")]
struct Guide;
