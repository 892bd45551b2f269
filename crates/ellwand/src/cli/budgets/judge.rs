//! Judges whether a result is within its budget.

use ellwand_core::reading::Reading;
use ellwand_core::record::Sample;
use ellwand_core::{Parallelism, Value};
use ellwand_report::units::human;

use super::quantity::Limit;
use super::values::{budget, bytes, open, reading, speedup, throughput, time};

/// A `[[budget]]` of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Budget {
    pub(super) line: usize,
    pub(super) workload: String,
    pub(super) implementation: Option<String>,
    /// Axis, value, and the value of a case without the axis.
    pub(super) axes: Vec<(String, Value, Option<Value>)>,
    /// Workloads that match the pattern but lack one of the axes; the budget does not apply to them.
    pub(super) without: Vec<String>,
    pub(super) time: Option<Limit>,
    pub(super) peak_memory: Option<Limit>,
    pub(super) throughput: Option<Limit>,
    pub(super) speedup: Option<Limit>,
    /// Bounds on readings.
    pub(super) readings: Vec<Bound>,
}

/// A bound on a reading, in the unit of the reading.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    /// Key of the reading.
    pub(super) id: String,
    pub(super) limit: f64,
    pub(super) side: Side,
}

/// The side of the limit on which a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    AtMost,
    AtLeast,
}

/// What a budget applies to: one implementation at one case.
pub(crate) struct Subject<'a> {
    pub(crate) workload: &'a str,
    /// Axis values; an axis at its neutral value may be missing.
    pub(crate) value: &'a dyn Fn(&str) -> Option<Value>,
    pub(crate) implementation: &'a str,
    pub(crate) parallelism: Parallelism,
    /// Items that an iteration processes.
    pub(crate) items: u64,
    /// Raw samples with their processes, or why there are none.
    pub(crate) samples: Result<&'a [Sample], &'a str>,
    pub(crate) readings: &'a [Reading],
    /// The baseline of its speed-up; `None` in a comparison, which has neither speed-ups nor the workload's readings.
    pub(crate) baseline: Option<Baseline<'a>>,
    /// Timer resolution, in seconds.
    pub(crate) resolution_s: Option<f64>,
}

/// The baseline of a subject: another implementation at the same case, or the subject itself.
pub(crate) struct Baseline<'a> {
    pub(crate) name: &'a str,
    pub(crate) parallelism: Parallelism,
    /// Raw samples, or why there are none.
    pub(crate) samples: Result<&'a [Sample], &'a str>,
}

ellwand_core::words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum State {
        Kept = "kept",
        /// The value is beyond the limit, by more than the noise.
        Broken = "broken",
        /// The samples show neither.
        Open = "open",
        /// The budget applies to nothing that was measured.
        Unmatched = "unmatched",
    }
    /// The name in messages.
    fn word;
}

/// A budget and its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    /// `time`, `peak memory`, `throughput`, `speed-up`, `binary size`, or the key of a reading.
    pub(crate) what: String,
    pub(crate) state: State,
    /// The value compared with the limit, in seconds, bytes, items per second or the reading's unit; per item if the
    /// budget is per item.
    pub(crate) value: Option<f64>,
    pub(crate) limit: f64,
    /// The result in words: value, budget, and the excess.
    pub(crate) text: String,
}

impl Budget {
    /// True if the budget applies to this implementation at this case.
    pub(super) fn fits(&self, subject: &Subject) -> bool {
        let on_axis = |(axis, value, neutral): &(String, Value, Option<Value>)| match (subject.value)(axis) {
            Some(has) => has == *value,
            None => neutral.as_ref() == Some(value),
        };
        self.is_about(subject.workload, subject.implementation) && self.axes.iter().all(on_axis)
    }

    /// True if the budget applies to this workload and implementation, at any case.
    pub(super) fn is_about(&self, workload: &str, implementation: &str) -> bool {
        let matches = ellwand_core::registry::matches;
        matches(&self.workload, workload)
            && !self.without.iter().any(|without| without == workload)
            && self.implementation.as_ref().is_none_or(|pattern| matches(pattern, implementation))
    }

    /// The result if the workload was measured but no case matches.
    pub(super) fn unmatched(&self) -> Judged {
        let axes: Vec<String> = self.axes.iter().map(|(axis, value, _)| format!("{axis} {value}")).collect();
        let wanted = match (axes.is_empty(), self.speedup) {
            (false, _) => format!("has {}", axes.join(", ")),
            (true, Some(_)) => "has a speed-up over another implementation".into(),
            (true, None) => "matches".into(),
        };
        let text = format!("no measured case {wanted}");
        Judged { what: "budget".into(), state: State::Unmatched, value: None, limit: f64::INFINITY, text }
    }

    /// The results for a subject to which the budget applies.
    pub(super) fn judge(&self, subject: &Subject) -> Vec<Judged> {
        let samples = match subject.samples {
            Ok(samples) => samples,
            // A budget that does not name an implementation ignores those that cannot run here.
            Err(_) if self.implementation.is_none() => return Vec::new(),
            Err(why) => return self.each_open(why),
        };
        let mut judged: Vec<Judged> = Vec::new();
        judged.extend(self.time.map(|limit| time(limit, subject, samples)));
        judged.extend(self.peak_memory.map(|limit| peak_memory(limit, subject)));
        judged.extend(self.throughput.map(|limit| throughput(limit, subject, samples)));
        judged.extend(self.speedup.and_then(|limit| speedup(limit, subject, samples)));
        judged.extend(self.readings.iter().filter_map(|bound| reading(bound, subject)));
        judged
    }

    /// One result per limit, for a subject without samples.
    fn each_open(&self, why: &str) -> Vec<Judged> {
        let limits = [
            ("time", self.time, "s", Side::AtMost),
            ("peak memory", self.peak_memory, "B", Side::AtMost),
            ("throughput", self.throughput, "1/s", Side::AtLeast),
            ("speed-up", self.speedup, "x", Side::AtLeast),
        ];
        let limits = limits.into_iter().filter_map(|(what, limit, unit, side)| Some((what, limit?, unit, side)));
        let limits = limits.map(|(what, limit, unit, side)| open(what, limit, unit, side, why));
        let readings = self
            .readings
            .iter()
            .map(|bound| open(&bound.id, Limit { value: bound.limit, per_item: false }, "", bound.side, why));
        limits.chain(readings).collect()
    }
}

fn peak_memory(limit: Limit, subject: &Subject) -> Judged {
    let what = "peak memory";
    let reading = subject.readings.iter().find(|reading| reading.id == "peak-memory");
    match reading.map(|reading| (reading.value, reading.about.as_str())) {
        // Below the resolution of the meter, the value may be on either side of a limit that is also below it.
        Some((Some(value), _)) if value < Reading::RESIDENT_STEP => {
            let step = human(Reading::RESIDENT_STEP, "B");
            if limit.value < Reading::RESIDENT_STEP {
                return open(what, limit, "B", Side::AtMost, &format!("less than {step} is not resolved"));
            }
            let text = format!("{what} less than {step}, {}", budget(limit, "B", Side::AtMost));
            Judged { what: what.into(), state: State::Kept, value: Some(value), limit: limit.value, text }
        }
        Some((Some(value), _)) => bytes(what, value, limit),
        Some((None, why)) => open(what, limit, "B", Side::AtMost, why),
        None => {
            let why = "it was not read here (`run` reads it, and `compare` in its workers)";
            open(what, limit, "B", Side::AtMost, why)
        }
    }
}
