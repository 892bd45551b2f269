//! Whether a budget is kept. Noise must not break one: a time is over its budget when the lower end of the interval of the
//! processes' values is.

use std::collections::BTreeMap;

use ellwand_core::reading::Reading;
use ellwand_core::record::{Basis, Sample};
use ellwand_core::stats::{mean_interval, median};
use ellwand_core::{Parallelism, Value};
use ellwand_report::units::human;

use super::quantity::Limit;

/// Confidence of the interval whose lower end is held against a budget.
const CONFIDENCE: f64 = 0.99;

/// One `[[budget]]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Budget {
    pub(super) line: usize,
    pub(super) workload: String,
    pub(super) implementation: Option<String>,
    /// Axis, value, and the value that a case without the axis has.
    pub(super) axes: Vec<(String, Value, Option<Value>)>,
    pub(super) time: Option<Limit>,
    pub(super) peak_memory: Option<Limit>,
}

/// What is held against budgets: one implementation at one case.
pub(crate) struct Subject<'a> {
    pub(crate) workload: &'a str,
    /// Axis values; an axis at its neutral value may be missing.
    pub(crate) value: &'a dyn Fn(&str) -> Option<Value>,
    pub(crate) implementation: &'a str,
    pub(crate) parallelism: Parallelism,
    /// Items that an iteration processes.
    pub(crate) items: u64,
    /// Raw samples with their processes; why there are none.
    pub(crate) samples: Result<&'a [Sample], &'a str>,
    pub(crate) readings: &'a [Reading],
    /// Timer resolution, in seconds.
    pub(crate) resolution_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Kept,
    /// It is beyond, whatever the noise.
    Broken,
    /// It was not shown to be either.
    Open,
    /// It is about something that was not measured.
    Unmatched,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Kept => "kept",
            State::Broken => "broken",
            State::Open => "open",
            State::Unmatched => "unmatched",
        }
    }
}

/// A budget and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    /// `time`, `peak memory`, `binary size`.
    pub(crate) what: &'static str,
    pub(crate) state: State,
    /// The value held against the limit, in seconds or bytes; of an item where the budget is an item's.
    pub(crate) value: Option<f64>,
    pub(crate) limit: f64,
    /// In words: value, budget, by how much.
    pub(crate) text: String,
}

impl Budget {
    /// Whether it is about this implementation at this case.
    pub(super) fn fits(&self, subject: &Subject) -> bool {
        let matches = ellwand_core::registry::matches;
        let on_axis = |(axis, value, neutral): &(String, Value, Option<Value>)| match (subject.value)(axis) {
            Some(has) => has == *value,
            None => neutral.as_ref() == Some(value),
        };
        matches(&self.workload, subject.workload)
            && self.implementation.as_ref().is_none_or(|pattern| matches(pattern, subject.implementation))
            && self.axes.iter().all(on_axis)
    }

    /// Whether it is about this workload and implementation, at whatever case.
    pub(super) fn is_about(&self, workload: &str, implementation: &str) -> bool {
        let matches = ellwand_core::registry::matches;
        matches(&self.workload, workload)
            && self.implementation.as_ref().is_none_or(|pattern| matches(pattern, implementation))
    }

    /// It is about what was measured, and no case of that fits it.
    pub(super) fn unmatched(&self) -> Judged {
        let axes: Vec<String> = self.axes.iter().map(|(axis, value, _)| format!("{axis} {value}")).collect();
        let wanted = if axes.is_empty() { "it".into() } else { axes.join(", ") };
        Judged {
            what: "budget",
            state: State::Unmatched,
            value: None,
            limit: f64::INFINITY,
            text: format!("nothing that was measured has {wanted}"),
        }
    }

    /// What it says about one that it fits.
    pub(super) fn judge(&self, subject: &Subject) -> Vec<Judged> {
        let samples = match subject.samples {
            Ok(samples) => samples,
            // A budget that does not name it does not judge what cannot run here.
            Err(_) if self.implementation.is_none() => return Vec::new(),
            Err(why) => {
                let limits = [("time", self.time, "s"), ("peak memory", self.peak_memory, "B")];
                let limits = limits.into_iter().filter_map(|(what, limit, unit)| Some((what, limit?, unit)));
                return limits.map(|(what, limit, unit)| open(what, limit, unit, why)).collect();
            }
        };
        let time = self.time.map(|limit| time(limit, subject, samples));
        let memory = self.peak_memory.map(|limit| peak_memory(limit, subject));
        time.into_iter().chain(memory).collect()
    }
}

fn budget(limit: Limit, unit: &str) -> String {
    let item = if limit.per_item { " an item" } else { "" };
    format!("budget {}{item}", size(limit.value, unit))
}

/// Bytes as the file wrote them, by powers of ten; everything else as everywhere.
fn size(value: f64, unit: &str) -> String {
    if unit != "B" {
        return human(value, unit);
    }
    let (factor, prefix) =
        [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(factor, _)| value >= *factor).unwrap_or((1.0, ""));
    format!("{} {prefix}B", ellwand_report::units::significant(value / factor, 4))
}

fn open(what: &'static str, limit: Limit, unit: &str, why: &str) -> Judged {
    let text = format!("{what} not judged: {why}; {}", budget(limit, unit));
    Judged { what, state: State::Open, value: None, limit: limit.value, text }
}

fn over(value: f64, limit: f64) -> String {
    format!("over by {}", human(value / limit - 1.0, "1"))
}

fn time(limit: Limit, subject: &Subject, samples: &[Sample]) -> Judged {
    let share = if limit.per_item { subject.items.max(1) as f64 } else { 1.0 };
    let a = if limit.per_item { "an item" } else { "an iteration" };
    let basis = Basis::of(&[samples], &[subject.parallelism]).of_slots();
    let ln: Vec<f64> = processes(samples, basis).iter().map(|seconds| (seconds / share).ln()).collect();
    if let Some(resolution) = subject.resolution_s
        && median(&ln).is_some_and(|ln| ln.exp() * share < resolution)
    {
        // Below timer resolution.
        let state = if resolution / share <= limit.value { State::Kept } else { State::Open };
        let text = format!("time below resolution ({}), {}", human(resolution / share, "s"), budget(limit, "s"));
        return Judged { what: "time", state, value: None, limit: limit.value, text };
    }
    let Ok(interval) = mean_interval(&ln, CONFIDENCE) else {
        let why = "one process shows nothing about others; --blocks 2 or more does";
        return open("time", limit, "s", why);
    };
    let (value, low, high) = (interval.mean.exp(), interval.low().exp(), interval.high().exp());
    let [middle, least, most] = [value, low, high].map(|seconds| human(seconds, "s"));
    let interval = format!("99 % interval {least} to {most}, {} processes; {}", ln.len(), basis.about());
    let takes = format!("time {middle} {a} ({interval}), {}", budget(limit, "s"));
    let (state, rest) = if low > limit.value {
        (State::Broken, format!(": {}", over(value, limit.value)))
    } else if value > limit.value {
        let more = (ln.len() + 3).max(6);
        let why = format!(
            ": {}, which so few processes do not settle; use --blocks {more} or more",
            over(value, limit.value)
        );
        (State::Open, why)
    } else {
        (State::Kept, String::new())
    };
    Judged { what: "time", state, value: Some(value), limit: limit.value, text: takes + &rest }
}

/// What each process took in seconds: the median over its slots, by the time that a comparison would judge.
fn processes(samples: &[Sample], basis: Basis) -> Vec<f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        // What a coarse clock calls nothing has no logarithm.
        blocks.entry(sample.block).or_default().push(basis.seconds(sample).max(f64::MIN_POSITIVE));
    }
    blocks.values().filter_map(|seconds| median(seconds)).collect()
}

fn peak_memory(limit: Limit, subject: &Subject) -> Judged {
    let reading = subject.readings.iter().find(|reading| reading.id == "peak-memory");
    match reading.map(|reading| (reading.value, reading.about.as_str())) {
        Some((Some(value), _)) => bytes("peak memory", value, limit),
        Some((None, why)) => open("peak memory", limit, "B", why),
        None => open("peak memory", limit, "B", "it was not read here (`run` reads it, and `compare` in its workers)"),
    }
}

/// A size against its limit: nothing is uncertain about it.
pub(super) fn bytes(what: &'static str, value: f64, limit: Limit) -> Judged {
    let state = if value > limit.value { State::Broken } else { State::Kept };
    let rest = if state == State::Broken { format!(": {}", over(value, limit.value)) } else { String::new() };
    let text = format!("{what} {}, {}{rest}", size(value, "B"), budget(limit, "B"));
    Judged { what, state, value: Some(value), limit: limit.value, text }
}
