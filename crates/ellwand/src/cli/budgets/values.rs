//! The values compared with limits. Noise must not break a budget: a time exceeds its budget only if the lower end of
//! the interval over the processes does; a rate or speed-up misses it only if the upper end does.

use std::collections::BTreeMap;

use ellwand_core::error::did_you_mean;
use ellwand_core::record::{Basis, Sample};
use ellwand_core::stats::{mean_interval, median};
use ellwand_report::units::human;

use super::judge::{Bound, Judged, Side, State, Subject};
use super::quantity::Limit;

/// Confidence of the interval whose end is compared with a budget.
const CONFIDENCE: f64 = 0.99;

/// Ratio of the ends above which an interval is useless: for two processes that differ by 1 %, with one degree of
/// freedom, it extends 64 standard errors to each side.
const BOUNDLESS: f64 = 1.5;

/// A limit as messages print it.
pub(super) fn budget(limit: Limit, unit: &str, side: Side) -> String {
    let least = if side == Side::AtLeast { "at least " } else { "" };
    let item = if limit.per_item { " an item" } else { "" };
    format!("budget {least}{}{item}", shown(limit.value, unit))
}

/// Bytes in decimal units, as in the file; other quantities as everywhere else.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "B" => {
            let factors = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
            let (factor, prefix) = factors.into_iter().find(|(factor, _)| value >= *factor).unwrap_or((1.0, ""));
            format!("{} {prefix}B", ellwand_report::units::significant(value / factor, 4))
        }
        "x" => ellwand_report::units::ratio(value),
        unit => human(value, unit),
    }
}

/// The result for a limit with no value to compare.
pub(super) fn open(what: &str, limit: Limit, unit: &str, side: Side, why: &str) -> Judged {
    let text = format!("{what} not judged: {why}; {}", budget(limit, unit, side));
    Judged { what: what.into(), state: State::Open, value: None, limit: limit.value, text }
}

/// How far a value is beyond its limit.
fn beyond(value: f64, limit: f64, side: Side) -> String {
    match side {
        Side::AtMost => format!("over by {}", human(value / limit - 1.0, "1")),
        Side::AtLeast => format!("short by {}", human(1.0 - value / limit, "1")),
    }
}

/// A quantity with one value per process, to be compared with its limit.
struct Held<'a> {
    what: &'a str,
    unit: &'a str,
    side: Side,
    limit: Limit,
    /// What the value refers to: ` an iteration`.
    of: &'a str,
}

impl Held<'_> {
    fn open(&self, why: &str) -> Judged {
        open(self.what, self.limit, self.unit, self.side, why)
    }

    /// Judges a value computed from the seconds of an iteration.
    fn timed(&self, subject: &Subject, samples: &[Sample], of: impl Fn(f64) -> f64) -> Judged {
        let Self { what, unit, side, limit, .. } = *self;
        let basis = Basis::of(samples, subject.parallelism).of_slots();
        let seconds = processes(samples, basis);
        if let Some(resolution) = below_resolution(subject, &seconds) {
            let (most, limit_of) = (of(resolution), budget(limit, unit, side));
            let (kept, shown) = match side {
                Side::AtMost => (most <= limit.value, most),
                Side::AtLeast => (most >= limit.value, resolution),
            };
            let state = if kept { State::Kept } else { State::Open };
            let text = format!("time below resolution ({}), {limit_of}", human(shown, "s"));
            return Judged { what: what.into(), state, value: None, limit: limit.value, text };
        }
        let ln: Vec<f64> = seconds.values().map(|seconds| of(*seconds).ln()).collect();
        self.judge(of(typical(samples, basis)), &ln, basis.about())
    }

    /// Judges the `value` that the table prints by the processes' values, whose logarithms are `ln`; `about` describes
    /// how it was measured.
    fn judge(&self, value: f64, ln: &[f64], about: &str) -> Judged {
        let Self { what, unit, side, limit, of } = *self;
        let Ok(interval) = mean_interval(ln, CONFIDENCE) else {
            return self.open("one process does not show how processes differ; --blocks 2 or more does");
        };
        // As in the table: the median over all slots, with an interval over the processes, widened to contain it.
        let (low, high) = (interval.low().exp().min(value), interval.high().exp().max(value));
        let [middle, least, most] = [value, low, high].map(|value| shown(value, unit));
        let interval = if ln.len() == 2 && high > BOUNDLESS * low {
            format!("2 processes, which give no useful interval; {about}")
        } else {
            format!("99 % interval {least} to {most}, {} processes; {about}", ln.len())
        };
        let is = format!("{what} {middle}{of} ({interval}), {}", budget(limit, unit, side));
        let (beyond_doubt, off) = match side {
            Side::AtMost => (low > limit.value, value > limit.value),
            Side::AtLeast => (high < limit.value, value < limit.value),
        };
        let by = || beyond(value, limit.value, side);
        let (state, rest) = if beyond_doubt {
            (State::Broken, format!(": {}", by()))
        } else if off {
            // A comparison takes as many blocks as its time allows.
            let more = (ln.len() + 3).max(6);
            let settles = format!("give run --blocks {more} or more, or compare a longer --time");
            (State::Open, format!(": {}, but so few processes cannot decide it; {settles}", by()))
        } else {
            (State::Kept, String::new())
        };
        Judged { what: what.into(), state, value: Some(value), limit: limit.value, text: is + &rest }
    }
}

/// The time of an iteration or an item, which must be at most the limit.
pub(super) fn time(limit: Limit, subject: &Subject, samples: &[Sample]) -> Judged {
    let share = if limit.per_item { subject.items.max(1) as f64 } else { 1.0 };
    let of = if limit.per_item { " an item" } else { " an iteration" };
    let held = Held { what: "time", unit: "s", side: Side::AtMost, limit, of };
    held.timed(subject, samples, |seconds| seconds / share)
}

/// Items per second, which must be at least the limit.
pub(super) fn throughput(limit: Limit, subject: &Subject, samples: &[Sample]) -> Judged {
    let held = Held { what: "throughput", unit: "1/s", side: Side::AtLeast, limit, of: "" };
    if subject.items == 0 {
        return held.open("the workload counts no items");
    }
    held.timed(subject, samples, |seconds| subject.items as f64 / seconds)
}

/// The time of the baseline divided by that of the subject, which must be at least the limit. `None` if there is no
/// speed-up: for the baseline itself, and in a comparison.
pub(super) fn speedup(limit: Limit, subject: &Subject, samples: &[Sample]) -> Option<Judged> {
    let held = Held { what: "speed-up", unit: "x", side: Side::AtLeast, limit, of: "" };
    let baseline = subject.baseline.as_ref().filter(|baseline| baseline.name != subject.implementation)?;
    let base_samples = match baseline.samples {
        Ok(samples) => samples,
        Err(why) => return Some(held.open(&format!("its baseline {} is {why}", baseline.name))),
    };
    let bases = [(samples, subject.parallelism), (base_samples, baseline.parallelism)];
    let [own_basis, base_basis] = bases.map(|(samples, parallelism)| Basis::of(samples, parallelism).of_slots());
    // CPU time of one row and elapsed time of the other are not comparable; both have elapsed time.
    let two_clocks = Basis::are_two_clocks([(own_basis, samples), (base_basis, base_samples)]);
    let [own_basis, base_basis] = if two_clocks { [Basis::Fastest; 2] } else { [own_basis, base_basis] };
    let (own, base) = (processes(samples, own_basis), processes(base_samples, base_basis));
    if [&own, &base].into_iter().any(|times| below_resolution(subject, times).is_some()) {
        return Some(held.open("a time is below timer resolution"));
    }
    let ln: Vec<f64> = own.iter().filter_map(|(block, seconds)| Some((base.get(block)? / seconds).ln())).collect();
    let about = format!("over {}{}", baseline.name, if two_clocks { ", elapsed time of both" } else { "" });
    Some(held.judge(typical(base_samples, base_basis) / typical(samples, own_basis), &ln, &about))
}

/// A reading against its bound. `None` for readings that a comparison does not take.
pub(super) fn reading(bound: &Bound, subject: &Subject) -> Option<Judged> {
    let Bound { id, limit, side } = bound;
    let of = Limit { value: *limit, per_item: false };
    let Some(found) = subject.readings.iter().find(|reading| reading.id == *id) else {
        subject.baseline.as_ref()?;
        let known: Vec<&str> = subject.readings.iter().map(|reading| reading.id.as_str()).collect();
        let help = did_you_mean(id, known.iter().copied()).unwrap_or_else(|| format!("it has {}", known.join(", ")));
        let text = format!("it has no reading '{id}'; {help}");
        return Some(Judged { what: id.clone(), state: State::Unmatched, value: None, limit: *limit, text });
    };
    let Some(value) = found.value else { return Some(open(id, of, &found.unit, *side, &found.about)) };
    Some(exact(id, value, of, &found.unit, *side))
}

/// A size against its limit.
pub(super) fn bytes(what: &str, value: f64, limit: Limit) -> Judged {
    exact(what, value, limit, "B", Side::AtMost)
}

/// A value without uncertainty.
fn exact(what: &str, value: f64, limit: Limit, unit: &str, side: Side) -> Judged {
    let broken = match side {
        Side::AtMost => value > limit.value,
        Side::AtLeast => value < limit.value,
    };
    let state = if broken { State::Broken } else { State::Kept };
    let rest = if broken { format!(": {}", beyond(value, limit.value, side)) } else { String::new() };
    let text = format!("{what} {}, {}{rest}", shown(value, unit), budget(limit, unit, side));
    Judged { what: what.into(), state, value: Some(value), limit: limit.value, text }
}

/// Seconds of each process: the median over its slots, in the time that a comparison would judge.
fn processes(samples: &[Sample], basis: Basis) -> BTreeMap<u32, f64> {
    let mut seconds = basis.by_process(samples);
    // A time of zero from a coarse clock has no logarithm.
    seconds.values_mut().for_each(|seconds| *seconds = seconds.max(f64::MIN_POSITIVE));
    seconds
}

/// The median over all slots in seconds, which is the time that the table prints.
fn typical(samples: &[Sample], basis: Basis) -> f64 {
    basis.median(samples).unwrap_or(f64::NAN)
}

/// The timer resolution, if these times are typically below it.
fn below_resolution(subject: &Subject, seconds: &BTreeMap<u32, f64>) -> Option<f64> {
    let resolution = subject.resolution_s?;
    let typical = median(&seconds.values().copied().collect::<Vec<f64>>())?;
    (typical < resolution).then_some(resolution)
}
