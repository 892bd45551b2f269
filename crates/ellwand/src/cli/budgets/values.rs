//! The values that limits are compared with. Noise must not break a budget: a time is over its budget when the lower end
//! of the interval of the processes' values is, a rate or speed-up is short of it when the upper end is.

use std::collections::BTreeMap;

use ellwand_core::error::did_you_mean;
use ellwand_core::record::{Basis, Sample};
use ellwand_core::stats::{mean_interval, median};
use ellwand_report::units::human;

use super::judge::{Bound, Judged, Side, State, Subject};
use super::quantity::Limit;

/// Confidence of the interval whose end is compared with a budget.
const CONFIDENCE: f64 = 0.99;

/// A limit as messages print it.
fn budget(limit: Limit, unit: &str, side: Side) -> String {
    let least = if side == Side::AtLeast { "at least " } else { "" };
    let item = if limit.per_item { " an item" } else { "" };
    format!("budget {least}{}{item}", shown(limit.value, unit))
}

/// Bytes as the file wrote them, by powers of ten; everything else as everywhere.
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

/// A limit that was compared with nothing.
pub(super) fn open(what: &str, limit: Limit, unit: &str, side: Side, why: &str) -> Judged {
    let text = format!("{what} not judged: {why}; {}", budget(limit, unit, side));
    Judged { what: what.into(), state: State::Open, value: None, limit: limit.value, text }
}

/// By how much a value is beyond its limit.
fn beyond(value: f64, limit: f64, side: Side) -> String {
    match side {
        Side::AtMost => format!("over by {}", human(value / limit - 1.0, "1")),
        Side::AtLeast => format!("short by {}", human(1.0 - value / limit, "1")),
    }
}

/// A quantity with one value for each process, to be compared with its limit.
struct Held<'a> {
    what: &'a str,
    unit: &'a str,
    side: Side,
    limit: Limit,
    /// The value that the table prints.
    value: f64,
    /// Natural logarithms of the values of the processes.
    ln: Vec<f64>,
    /// What the value is of: ` an iteration`.
    of: &'a str,
    /// How it was taken.
    about: &'a str,
}

impl Held<'_> {
    fn judge(&self) -> Judged {
        let Self { what, unit, side, limit, value, ln, of, about } = self;
        let Ok(interval) = mean_interval(ln, CONFIDENCE) else {
            let why = "one process shows nothing about others; --blocks 2 or more does";
            return open(what, *limit, unit, *side, why);
        };
        // As in the table: the median over all slots, in an interval of the processes that holds it.
        let (value, low, high) = (*value, interval.low().exp().min(*value), interval.high().exp().max(*value));
        let [middle, least, most] = [value, low, high].map(|value| shown(value, unit));
        let interval = format!("99 % interval {least} to {most}, {} processes; {about}", ln.len());
        let is = format!("{what} {middle}{of} ({interval}), {}", budget(*limit, unit, *side));
        let (beyond_doubt, off) = match side {
            Side::AtMost => (low > limit.value, value > limit.value),
            Side::AtLeast => (high < limit.value, value < limit.value),
        };
        let (state, rest) = if beyond_doubt {
            (State::Broken, format!(": {}", beyond(value, limit.value, *side)))
        } else if off {
            let more = (ln.len() + 3).max(6);
            let by = beyond(value, limit.value, *side);
            (State::Open, format!(": {by}, which so few processes do not settle; use --blocks {more} or more"))
        } else {
            (State::Kept, String::new())
        };
        Judged { what: (*what).into(), state, value: Some(value), limit: limit.value, text: is + &rest }
    }
}

/// The time of an iteration or of an item, at most the limit.
pub(super) fn time(limit: Limit, subject: &Subject, samples: &[Sample]) -> Judged {
    let share = if limit.per_item { subject.items.max(1) as f64 } else { 1.0 };
    let basis = Basis::of(samples, subject.parallelism).of_slots();
    let seconds = processes(samples, basis);
    if let Some(resolution) = below_resolution(subject, &seconds) {
        let state = if resolution / share <= limit.value { State::Kept } else { State::Open };
        let budget = budget(limit, "s", Side::AtMost);
        let text = format!("time below resolution ({}), {budget}", human(resolution / share, "s"));
        return Judged { what: "time".into(), state, value: None, limit: limit.value, text };
    }
    let ln = seconds.values().map(|seconds| (seconds / share).ln()).collect();
    let of = if limit.per_item { " an item" } else { " an iteration" };
    let value = typical(samples, basis) / share;
    Held { what: "time", unit: "s", side: Side::AtMost, limit, value, ln, of, about: basis.about() }.judge()
}

/// Items a second, at least the limit.
pub(super) fn throughput(least: f64, subject: &Subject, samples: &[Sample]) -> Judged {
    let (what, unit, side) = ("throughput", "1/s", Side::AtLeast);
    let limit = Limit { value: least, per_item: false };
    if subject.items == 0 {
        return open(what, limit, unit, side, "the workload counts no items");
    }
    let items = subject.items as f64;
    let basis = Basis::of(samples, subject.parallelism).of_slots();
    let seconds = processes(samples, basis);
    if let Some(resolution) = below_resolution(subject, &seconds) {
        let state = if items / resolution >= least { State::Kept } else { State::Open };
        let text = format!("time below resolution ({}), {}", human(resolution, "s"), budget(limit, unit, side));
        return Judged { what: what.into(), state, value: None, limit: least, text };
    }
    let ln = seconds.values().map(|seconds| (items / seconds).ln()).collect();
    let value = items / typical(samples, basis);
    Held { what, unit, side, limit, value, ln, of: "", about: basis.about() }.judge()
}

/// The time of the baseline over that of the subject, at least the limit. `None` where no speed-up is measured: of the
/// baseline itself, and in a comparison.
pub(super) fn speedup(least: f64, subject: &Subject, samples: &[Sample]) -> Option<Judged> {
    let (what, unit, side) = ("speed-up", "x", Side::AtLeast);
    let limit = Limit { value: least, per_item: false };
    let baseline = subject.baseline.as_ref().filter(|baseline| baseline.name != subject.implementation)?;
    let base_samples = match baseline.samples {
        Ok(samples) => samples,
        Err(why) => {
            let why = format!("its baseline {} is {why}", baseline.name);
            return Some(open(what, limit, unit, side, &why));
        }
    };
    let bases = [(samples, subject.parallelism), (base_samples, baseline.parallelism)];
    let [own_basis, base_basis] = bases.map(|(samples, parallelism)| Basis::of(samples, parallelism).of_slots());
    // CPU time of one row and elapsed time of the other have no common clock: elapsed time is what both have.
    let two_clocks = Basis::are_two_clocks([(own_basis, samples), (base_basis, base_samples)]);
    let [own_basis, base_basis] = if two_clocks { [Basis::Fastest; 2] } else { [own_basis, base_basis] };
    let (own, base) = (processes(samples, own_basis), processes(base_samples, base_basis));
    if [&own, &base].into_iter().any(|times| below_resolution(subject, times).is_some()) {
        return Some(open(what, limit, unit, side, "a time is below timer resolution"));
    }
    let ln = own.iter().filter_map(|(block, seconds)| Some((base.get(block)? / seconds).ln())).collect();
    let about = format!("over {}{}", baseline.name, if two_clocks { ", elapsed time of both" } else { "" });
    let value = typical(base_samples, base_basis) / typical(samples, own_basis);
    Some(Held { what, unit, side, limit, value, ln, of: "", about: &about }.judge())
}

/// A reading against its bound: nothing is uncertain about it. `None` for what a comparison does not read.
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
    let broken = match side {
        Side::AtMost => value > *limit,
        Side::AtLeast => value < *limit,
    };
    let state = if broken { State::Broken } else { State::Kept };
    let rest = if broken { format!(": {}", beyond(value, *limit, *side)) } else { String::new() };
    let text = format!("{id} {}, {}{rest}", shown(value, &found.unit), budget(of, &found.unit, *side));
    Some(Judged { what: id.clone(), state, value: Some(value), limit: *limit, text })
}

/// A size against its limit: nothing is uncertain about it.
pub(super) fn bytes(what: &str, value: f64, limit: Limit) -> Judged {
    let state = if value > limit.value { State::Broken } else { State::Kept };
    let by = || format!(": {}", beyond(value, limit.value, Side::AtMost));
    let rest = if state == State::Broken { by() } else { String::new() };
    let text = format!("{what} {}, {}{rest}", shown(value, "B"), budget(limit, "B", Side::AtMost));
    Judged { what: what.into(), state, value: Some(value), limit: limit.value, text }
}

/// What each process took in seconds: the median over its slots, by the time that a comparison would judge.
fn processes(samples: &[Sample], basis: Basis) -> BTreeMap<u32, f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        // What a coarse clock calls nothing has no logarithm.
        blocks.entry(sample.block).or_default().push(basis.seconds(sample).max(f64::MIN_POSITIVE));
    }
    blocks.into_iter().filter_map(|(block, seconds)| Some((block, median(&seconds)?))).collect()
}

/// The median over all slots in seconds: the time that the table prints.
fn typical(samples: &[Sample], basis: Basis) -> f64 {
    let seconds: Vec<f64> = samples.iter().map(|sample| basis.seconds(sample)).collect();
    median(&seconds).unwrap_or(f64::NAN)
}

/// The timer resolution, if these times are typically below it.
fn below_resolution(subject: &Subject, seconds: &BTreeMap<u32, f64>) -> Option<f64> {
    let resolution = subject.resolution_s?;
    let typical = median(&seconds.values().copied().collect::<Vec<f64>>())?;
    (typical < resolution).then_some(resolution)
}
