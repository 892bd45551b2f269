//! The result of a diagnosis, and its wording.

use ellwand_core::Provenance;
use serde::Serialize;

use super::{ABOVE, BINDS, CALLS, CLOSE, Saving};
use crate::units::human;

/// Addition for an unexplained time with cold caches.
const COLD: &str =
    "; with cold caches, code, page tables and scratch memory also come from memory, which takes an unknown time";

ellwand_core::words! {
    /// What limits a measurement.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Limit {
        /// Memory traffic at the bandwidth of the level that holds the working set.
        Memory = "memory-bound",
        /// Arithmetic at the peak multiply-add rate.
        Compute = "compute-bound",
        /// Loads that depend on the previous load.
        Latency = "latency-bound",
        /// Call overhead: the work is too small for any other limit.
        Overhead = "overhead-bound",
        /// Page faults on memory that is newly mapped in every iteration.
        PageFaults = "page-fault-bound",
        /// Waking several threads.
        ThreadWake = "thread-wake-bound",
        /// Threads waiting for each other.
        Contended = "contended",
        /// Instructions, issued as fast as the ports or the front end take them.
        Issue = "issue-bound",
        /// Instructions that wait for earlier results, long operations or mispredicted branches.
        Dependency = "dependency-bound",
        /// Instructions; the record does not separate issue from waiting.
        Instructions = "instruction-bound",
        /// Threads that have no work for part of the time.
        IdleThreads = "idle threads",
        /// Other programs, which had the processors.
        HeldUp = "held up",
        /// Kernel launches, which cost time even for an empty kernel.
        Launch = "launch-bound",
        /// Transfers over the link between host and device.
        Transfer = "transfer-bound",
        /// Faster than the measured ceilings allow: the measurement, a ceiling or the count of work is wrong.
        AboveCeiling = "above ceiling",
        /// Fewer than three slots, too few to know the time well.
        FewSlots = "few slots",
        /// None of these explains the time: uncounted operations, dependent arithmetic, branches, conversions.
        Unexplained = "unexplained",
    }
    /// The name of the limit in messages.
    fn word;
}

/// The time that one limit alone would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Part {
    /// The limit that takes this time.
    pub limit: Limit,
    /// Seconds per iteration.
    pub seconds: f64,
}

/// The limit of a measurement and the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// What limits the measurement.
    pub limit: Limit,
    /// Cache level of the working set (`L2`, `DRAM`; `cache` or `memory` on a device), if known.
    pub level: Option<String>,
    /// The time to explain, in seconds: CPU time for a single thread; for several threads, the fast parts of the slots,
    /// which hardly depend on how busy the machine was; on a device, the median device time.
    pub time_s: f64,
    /// Share of that time that the limit explains; above 1 for [`Limit::AboveCeiling`], never clamped.
    pub share: f64,
    /// The time of each limit that could be computed, longest first.
    pub parts: Vec<Part>,
    /// Instructions per cycle in steady state, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_cycle: Option<f64>,
    /// True if instructions are the limit, one lane of a vector could do the required operations in about this time,
    /// and the row does not name vector code.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_lane: bool,
    /// True for cold caches on the CPU: code, page tables and scratch memory then come from memory too, and no count
    /// shows for how long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// The changes that would help most, best first, each with an upper bound on its saving.
    pub changes: Vec<Saving>,
    /// Origin: derived from measured times, counts and ceilings.
    pub provenance: Provenance,
}

impl Diagnosis {
    /// A time to explain and its known parts, with no limit chosen yet.
    pub(super) fn open(time_s: f64, level: Option<String>, parts: &[(Limit, Option<f64>)]) -> Self {
        let known = parts.iter().filter_map(|(limit, seconds)| Some(Part { limit: *limit, seconds: (*seconds)? }));
        let mut parts: Vec<Part> = known.filter(|part| part.seconds.is_finite() && part.seconds > 0.0).collect();
        parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Diagnosis {
            limit: Limit::Unexplained,
            level,
            time_s,
            share: 0.0,
            parts,
            per_cycle: None,
            one_lane: false,
            cold: false,
            changes: Vec::new(),
            provenance: Provenance::Derived,
        }
    }

    /// Seconds that a limit alone would take; 0 if it is irrelevant or was not measured.
    pub fn seconds(&self, limit: Limit) -> f64 {
        self.parts.iter().find(|part| part.limit == limit).map_or(0.0, |part| part.seconds)
    }

    /// The largest part that is known and possible. Excludes latency, because dependent loads are an alternative
    /// reading of the traffic.
    pub(super) fn largest(&self) -> Option<&Part> {
        self.parts.iter().find(|part| part.limit != Limit::Latency && part.seconds <= self.time_s)
    }

    /// Share of the time of the largest part that is known and possible.
    pub(crate) fn largest_share(&self) -> f64 {
        self.largest().map_or(0.0, |part| part.seconds / self.time_s)
    }

    /// True if the traffic is faster than the bandwidth it is compared with, so its share is no bound.
    pub(crate) fn is_above(&self) -> bool {
        self.limit == Limit::Memory && self.share > ABOVE
    }

    /// Describes the limit in words that match its share.
    pub fn description(&self) -> String {
        let share = || human(self.share, "1");
        let close = self.share >= CLOSE;
        match self.limit {
            Limit::Memory if self.is_above() => format!(
                "it moves the required bytes at {} of the measured bandwidth: part of them stays in a faster cache, or the \
                 ceiling was measured on a busier machine",
                share()
            ),
            Limit::Memory => format!("it moves the required bytes at {} of the measured bandwidth", share()),
            Limit::Compute => format!("it does the required operations at {} of the measured peak", share()),
            Limit::Latency => "each load waits for the one before".into(),
            Limit::Overhead if self.share * CALLS >= 1.0 => {
                format!("it takes as long as {:.1} empty calls", self.share.recip())
            }
            Limit::Overhead => "it is too short to measure".into(),
            Limit::PageFaults if close => "it spends its time on new memory from the system".into(),
            Limit::PageFaults => format!("new memory from the system takes {} of its time", share()),
            Limit::ThreadWake if close => "waking the threads costs as much as the whole run".into(),
            Limit::ThreadWake if self.share >= BINDS => format!("waking the threads takes {} of its time", share()),
            Limit::ThreadWake => {
                format!("it takes {} as long as the fastest wake-up of the threads", human(1.0 / self.share, "x"))
            }
            Limit::Contended => "its threads wait for each other".into(),
            Limit::Issue => "its instructions keep the ports or the front end busy".into(),
            Limit::Dependency => {
                "its instructions wait for earlier results, long operations, branches or cached data".into()
            }
            Limit::Instructions if self.one_lane => {
                let peak = human(self.seconds(Limit::Compute) / self.time_s, "1");
                format!("it does the required operations at the rate of one lane, {peak} of the measured peak")
            }
            Limit::Instructions => "its time goes into instructions other than the required operations".into(),
            Limit::IdleThreads => "its threads leave processors idle".into(),
            Limit::HeldUp => "other programs used its processors".into(),
            Limit::Launch if self.share >= BINDS => {
                format!("as many empty launches as it has would take {} of its time", share())
            }
            Limit::Launch if self.share * CALLS >= 1.0 => {
                format!("it takes {} as long as the empty launches alone", human(1.0 / self.share, "x"))
            }
            Limit::Launch => "it is too short to measure".into(),
            Limit::Transfer => format!("its bytes take {} of the time at the measured rate of the link", share()),
            Limit::AboveCeiling => "the ceiling or the count of required work is wrong".into(),
            Limit::FewSlots => "its time is that of one or two slots".into(),
            Limit::Unexplained => {
                let cold = if self.cold { COLD } else { "" };
                match self.largest() {
                    Some(part) => format!(
                        "the largest known part, {}, is {}{cold}",
                        part.limit.word().trim_end_matches("-bound"),
                        human(part.seconds / self.time_s, "1")
                    ),
                    None => format!("no measured limit could explain it{cold}"),
                }
            }
        }
    }

    /// A label such as `memory-bound (DRAM)`.
    pub fn label(&self) -> String {
        match (&self.level, self.limit) {
            (Some(level), Limit::Memory) if self.is_above() => format!("{} (above {level})", self.limit.word()),
            (Some(level), Limit::Memory | Limit::Latency | Limit::AboveCeiling) => {
                format!("{} ({level})", self.limit.word())
            }
            _ => self.limit.word().to_string(),
        }
    }
}
