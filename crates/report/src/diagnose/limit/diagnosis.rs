//! What a diagnosis says, and in which words.

use ellwand_core::Provenance;
use serde::Serialize;

use super::{ABOVE, BINDS, CALLS, CLOSE, Change};
use crate::units::human;

/// What bounds a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Traffic at the bandwidth of the level where the working set lives.
    Memory,
    /// Arithmetic at the multiply-add peak.
    Compute,
    /// Loads that depend on each other.
    Latency,
    /// Being called: too small to be bound by anything else.
    Overhead,
    /// Memory that is fresh from the system at every iteration.
    PageFaults,
    /// Getting several threads to work.
    ThreadWake,
    /// Threads that wait for each other.
    Contended,
    /// Launches on a device: each takes a while even if its kernel does nothing.
    Launch,
    /// Bytes over the link between the host and a device.
    Transfer,
    /// Faster than the measured ceilings allow: a fault of the measurement, of a ceiling or of the count of work.
    AboveCeiling,
    /// None of these explains the time: operations that nobody counted, dependent arithmetic, branches, conversions.
    Unexplained,
}

impl Limit {
    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Limit::Memory => "memory-bound",
            Limit::Compute => "compute-bound",
            Limit::Latency => "latency-bound",
            Limit::Overhead => "overhead-bound",
            Limit::PageFaults => "page-fault-bound",
            Limit::ThreadWake => "thread-wake-bound",
            Limit::Contended => "contended",
            Limit::Launch => "launch-bound",
            Limit::Transfer => "transfer-bound",
            Limit::AboveCeiling => "above ceiling",
            Limit::Unexplained => "unexplained",
        }
    }
}

/// The time that a limit alone would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Part {
    /// The limit.
    pub limit: Limit,
    /// Seconds an iteration.
    pub seconds: f64,
}

/// Where a measurement stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// What bounds it.
    pub limit: Limit,
    /// The cache level of its working set (`L2`, `DRAM`; `cache` or `memory` of a device), where it has one.
    pub level: Option<String>,
    /// The time that was explained, in seconds: CPU time of one thread, or the fast parts of the slots of several, which
    /// hardly know how busy the machine was; of a device the middle one by its own clock.
    pub time_s: f64,
    /// The share of that time which the limit explains; above 1 for [`Limit::AboveCeiling`], and never clamped.
    pub share: f64,
    /// The time of each limit that could be computed, longest first.
    pub parts: Vec<Part>,
    /// What would change most, with an upper bound of the saving; best first.
    pub changes: Vec<Change>,
    /// Origin: derived from measured times, counts and ceilings.
    pub provenance: Provenance,
}

impl Diagnosis {
    /// The seconds that a limit alone would take; 0 where it plays no part or was not measured.
    pub fn seconds(&self, limit: Limit) -> f64 {
        self.parts.iter().find(|part| part.limit == limit).map_or(0.0, |part| part.seconds)
    }

    /// The largest part of the time that is known and possible; a chain of loads is one of several readings of the traffic.
    pub(super) fn largest(&self) -> Option<&Part> {
        self.parts.iter().find(|part| part.limit != Limit::Latency && part.seconds <= self.time_s)
    }

    /// Whether the count at its measured cost would take longer than the time that was taken, so that one of them is wrong.
    /// Not for waiting: threads wait at the same time, so that their waits together may be longer.
    pub fn exceeds(&self) -> bool {
        matches!(self.limit, Limit::PageFaults | Limit::ThreadWake) && self.share > ABOVE
    }

    /// What the limit means here, in words that fit its share.
    pub fn words(&self) -> String {
        let share = || human(self.share, "1");
        let close = self.share >= CLOSE;
        match self.limit {
            _ if self.exceeds() => {
                "counted at its measured cost, this takes longer than the run did: the cost or the count is at fault"
                    .into()
            }
            Limit::Memory if close => "it moves the required bytes at close to the measured bandwidth".into(),
            Limit::Memory => format!("it moves the required bytes at {} of the measured bandwidth", share()),
            Limit::Compute if close => "it does the required operations at close to the measured peak".into(),
            Limit::Compute => format!("it does the required operations at {} of the measured peak", share()),
            Limit::Latency => "each load waits for the one before".into(),
            Limit::Overhead if self.share * CALLS >= 1.0 => {
                format!("it takes as long as {:.1} empty calls", self.share.recip())
            }
            Limit::Overhead => "it is too short to be told from nothing".into(),
            Limit::PageFaults if close => "it spends its time on memory fresh from the system".into(),
            Limit::PageFaults => format!("memory fresh from the system takes {} of its time", share()),
            Limit::ThreadWake if close => "waking the threads costs more than the work".into(),
            Limit::ThreadWake if self.share >= BINDS => format!("waking the threads takes {} of its time", share()),
            Limit::ThreadWake => {
                format!("it takes {} as long as waking the threads at its best", human(1.0 / self.share, "x"))
            }
            Limit::Contended => "its threads wait for each other".into(),
            Limit::Launch if self.share >= BINDS => {
                format!("as many empty launches as it has would take {} of its time", share())
            }
            Limit::Launch if self.share * CALLS >= 1.0 => {
                format!("it takes {} as long as the empty launches alone", human(1.0 / self.share, "x"))
            }
            Limit::Launch => "it is too short to be told from nothing".into(),
            Limit::Transfer if close => "it brings its bytes over the link at close to the measured rate".into(),
            Limit::Transfer => format!("its bytes take {} of the time at the measured rate of the link", share()),
            Limit::AboveCeiling => "the ceiling or the count of required work is at fault".into(),
            Limit::Unexplained => match self.largest() {
                Some(part) => format!(
                    "the largest known part, {}, is {}",
                    part.limit.word().trim_end_matches("-bound"),
                    human(part.seconds / self.time_s, "1")
                ),
                None => "no limit was measured that could".into(),
            },
        }
    }

    /// `memory-bound (DRAM)`.
    pub fn label(&self) -> String {
        match (&self.level, self.limit) {
            (Some(level), Limit::Memory | Limit::Latency | Limit::AboveCeiling) => {
                format!("{} ({level})", self.limit.word())
            }
            _ => self.limit.word().to_string(),
        }
    }
}
