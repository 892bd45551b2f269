//! Speed-up: the ratio of two printed times, with an interval from the processes of both.

use std::collections::{BTreeMap, HashMap};

use ellwand_core::record::{Basis, Sample};
use ellwand_core::stats::{geometric_mean, mean_interval, median, median_interval};
use ellwand_core::{Environment, Measurement};
use serde::Serialize;

use super::load::held_up;

/// The speed-up of a row over its baseline.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub struct Speedup {
    /// Name of the baseline.
    pub baseline: String,
    /// True if the row is the baseline.
    pub is_baseline: bool,
    /// Median time of the baseline divided by that of the row; empty if unavailable.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval; empty with too few rounds.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// How the ratio relates to that on an undisturbed machine, if other programs held up one of the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Rounds in which both were sampled.
    pub pairs: usize,
    /// Why the ratio is unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// How a disturbed ratio relates to the undisturbed one.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The row was held up: without other programs the speed-up is larger.
    AtLeast,
    /// The baseline was held up: without other programs the speed-up is smaller.
    AtMost,
    /// Both were held up: the ratio holds only while these programs run.
    Disturbed,
}

impl Bound {
    fn of(base: bool, own: bool) -> Option<Self> {
        match (base, own) {
            (false, false) => None,
            (false, true) => Some(Bound::AtLeast),
            (true, false) => Some(Bound::AtMost),
            (true, true) => Some(Bound::Disturbed),
        }
    }

    /// The sign in front of a ratio.
    pub fn sign(self) -> &'static str {
        match self {
            Bound::AtLeast => "≥",
            Bound::AtMost => "≤",
            Bound::Disturbed => "~",
        }
    }
}

/// The geometric mean of the ratios as printed, of those that are available, with its bound.
pub(crate) fn mean<'a>(speedups: impl Iterator<Item = &'a Speedup>) -> Option<(Option<Bound>, f64)> {
    let (bounds, ratios): (Vec<Option<Bound>>, Vec<f64>) = speedups.filter_map(Speedup::shown).unzip();
    let any = |other: Bound| bounds.iter().flatten().any(|one| *one != other);
    Some((Bound::of(any(Bound::AtLeast), any(Bound::AtMost)), geometric_mean(&ratios)?))
}

/// A ratio as printed, with the sign of its bound.
pub(crate) fn bounded(bound: Option<Bound>, ratio: f64) -> String {
    format!("{}{}", bound.map_or("", Bound::sign), crate::units::ratio(ratio))
}

impl Speedup {
    /// The ratio as printed, with its bound. The undisturbed ratio is bounded by the end of the interval: the ratio
    /// itself is an estimate, and values beyond it are in the interval. Without an interval there is no bound.
    pub fn shown(&self) -> Option<(Option<Bound>, f64)> {
        let ratio = self.ratio?;
        let (low, high) = self.ends();
        Some(match self.bound {
            None => (None, ratio),
            Some(_) => low.or(high).map_or((Some(Bound::Disturbed), ratio), |end| (self.bound, end)),
        })
    }

    /// The ratio as printed, with the sign of its bound.
    pub fn text(&self) -> Option<String> {
        self.shown().map(|(bound, ratio)| bounded(bound, ratio))
    }

    /// The ends of the interval that also hold on an undisturbed machine: a bound has one end, two held-up rows have
    /// none.
    pub fn ends(&self) -> (Option<f64>, Option<f64>) {
        match self.bound {
            None => (self.low, self.high),
            Some(Bound::AtLeast) => (self.low, None),
            Some(Bound::AtMost) => (None, self.high),
            Some(Bound::Disturbed) => (None, None),
        }
    }

    fn without(baseline: &str, why: String) -> Self {
        Self { baseline: baseline.to_string(), unavailable: Some(why), ..Self::default() }
    }
}

/// The speed-up of `own` over the implementation `baseline` among `peers`, the measurements of the same case in the
/// same run.
pub(super) fn speedup(own: &Measurement, peers: &[&Measurement], baseline: &str, environment: &Environment) -> Speedup {
    let Some(base) = base_of(own, peers, baseline) else {
        return Speedup::without(baseline, format!("{baseline} was not measured at this case"));
    };
    if !own.outcome.is_measured() {
        return Speedup::without(baseline, format!("the row is {}", own.outcome.word()));
    }
    if !base.outcome.is_measured() {
        return Speedup::without(baseline, format!("{baseline} is {} at this case", base.outcome.word()));
    }
    for (measurement, name) in [(own, own.implementation.as_str()), (base, baseline)] {
        if measurement.below_resolution() {
            return Speedup::without(baseline, format!("the time of {name} is below timer resolution"));
        }
    }
    if let Some(why) = separate_commands(own, base) {
        return Speedup::without(baseline, why);
    }
    let ratios = paired_ratios(base, own);
    let held = |m: &Measurement| held_up(m, environment).is_some();
    let is_baseline = base.implementation == own.implementation && base.device == own.device;
    let ratio = median(&base.all_seconds()).zip(median(&own.all_seconds())).map(|(base, own)| base / own);
    match ratio.filter(|ratio| ratio.is_finite() && !ratios.is_empty()) {
        None => Speedup::without(baseline, format!("no round has samples of both it and {baseline}")),
        Some(ratio) => {
            let interval = interval(base, own).map(|(low, high)| (low.min(ratio), high.max(ratio)));
            Speedup {
                baseline: baseline.to_string(),
                is_baseline,
                ratio: Some(ratio),
                low: interval.map(|(low, _)| low),
                high: interval.map(|(_, high)| high),
                bound: if is_baseline { None } else { Bound::of(held(base), held(own)) },
                pairs: ratios.len(),
                unavailable: None,
            }
        }
    }
}

/// The measurement of the baseline; if it ran on several devices, preferably that on the device of the row.
fn base_of<'a>(own: &Measurement, peers: &[&'a Measurement], baseline: &str) -> Option<&'a Measurement> {
    let named = || peers.iter().copied().filter(|peer| peer.implementation == baseline);
    named().find(|peer| peer.device == own.device).or_else(|| named().next())
}

/// A 95 % interval of the ratio of times, base over own. With several processes it is Student's interval for the mean
/// log ratio of the processes, since memory placement differs between processes. With one process it is the sign-test
/// interval of the median over rounds.
pub(super) fn interval(base: &Measurement, own: &Measurement) -> Option<(f64, f64)> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (block, ratio) in pairs(base, own) {
        blocks.entry(block).or_default().push(ratio);
    }
    match blocks.len() {
        0 => None,
        1 => median_interval(&paired_ratios(base, own), 0.95),
        _ => {
            let logarithms: Vec<f64> = blocks.values().filter_map(|ratios| Some(median(ratios)?.ln())).collect();
            let interval = mean_interval(&logarithms, 0.95).ok()?;
            Some((interval.low().exp(), interval.high().exp()))
        }
    }
}

/// Why two measured rows of a case share no rounds, although the round numbers are equal.
fn separate_commands(own: &Measurement, base: &Measurement) -> Option<String> {
    (own.session != base.session).then(|| {
        format!(
            "{} and {} were measured by different commands of this record (`run --resume`) and share no round",
            crate::units::clean(&base.implementation),
            crate::units::clean(&own.implementation)
        )
    })
}

/// Warning for a row that has no speed-up because its baseline was measured by another command.
pub(super) fn remark(speedup: &Speedup, own: &Measurement, peers: &[&Measurement]) -> Option<String> {
    let why = speedup.unavailable.as_ref()?;
    let separate = peers.iter().any(|peer| separate_commands(own, peer).is_some_and(|reason| reason == *why));
    separate.then(|| format!("no speed-up: {why}; measure both with one command"))
}

/// Difference from which the ratio of the elapsed times is printed next to that of the reported times.
const OTHER: f64 = 1.05;

/// The speed-up in the time that both rows have, if one row reports CPU time and the other elapsed time and the two
/// ratios differ.
pub(super) fn two_clocks(speedup: &Speedup, own: &Measurement, peers: &[&Measurement]) -> Option<String> {
    let ratio = speedup.ratio?;
    let base = base_of(own, peers, &speedup.baseline)?;
    let basis = |m: &Measurement| m.basis.unwrap_or(Basis::Fastest);
    let elapsed = |m: &Measurement| median(&m.samples.iter().map(|s| Basis::Fastest.seconds(s)).collect::<Vec<_>>());
    let (base_s, own_s) = (elapsed(base)?, elapsed(own)?);
    let differ = (base_s / own_s).max(ratio) >= OTHER * (base_s / own_s).min(ratio);
    let two_clocks = Basis::are_two_clocks([(basis(own), &own.samples), (basis(base), &base.samples)]);
    (two_clocks && differ).then(|| {
        let (other, row) = (crate::units::clean(&base.implementation), crate::units::clean(&own.implementation));
        let (on_cpu, waits) = if basis(own).is_cpu() { (&row, &other) } else { (&other, &row) };
        format!(
            "its speed-up compares the CPU time of {on_cpu} with the elapsed time of {waits}; by the elapsed time of both, which \
             other programs lengthened, it is {}",
            crate::units::ratio(base_s / own_s)
        )
    })
}

/// Ratios of times, base over own, in the rounds in which both were sampled.
pub(crate) fn paired_ratios(base: &Measurement, own: &Measurement) -> Vec<f64> {
    pairs(base, own).map(|(_, ratio)| ratio).collect()
}

/// Block and ratio of each of these rounds.
fn pairs<'a>(base: &Measurement, own: &'a Measurement) -> impl Iterator<Item = (u32, f64)> + 'a {
    let of_round: HashMap<(u32, u32), f64> =
        base.samples.iter().map(|sample| ((sample.block, sample.round), base.seconds(sample))).collect();
    let ratio =
        move |sample: &Sample| of_round.get(&(sample.block, sample.round)).map(|base| base / own.seconds(sample));
    let paired = own.samples.iter().filter_map(move |sample| Some((sample.block, ratio(sample)?)));
    paired.filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0)
}
