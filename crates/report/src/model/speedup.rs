//! Speed-up: the ratio of times of samples taken in the same round of one command, so that what slowed the machine for a while slowed both.

use std::collections::HashMap;

use ellwand_core::Measurement;
use ellwand_core::stats::{median, median_interval};
use serde::Serialize;

/// How many times faster than the baseline. The interval says how well the ratio repeats from round to round; it is not
/// a verdict, because rounds of one process share the placement of its memory.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Speedup {
    /// The implementation it is stated against.
    pub baseline: String,
    /// Whether the row is the baseline itself.
    pub is_baseline: bool,
    /// Median of the ratios baseline time over own time, round by round; empty when unavailable.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of that median; empty with fewer than 6 rounds.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Rounds that both were sampled in.
    pub pairs: usize,
    /// Why there is no ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

impl Speedup {
    fn without(baseline: &str, why: String) -> Self {
        Self {
            baseline: baseline.to_string(),
            is_baseline: false,
            ratio: None,
            low: None,
            high: None,
            pairs: 0,
            unavailable: Some(why),
        }
    }
}

/// The speed-up of `own` over the measurement called `baseline` among `peers`, the measurements of the same case in the same run.
pub(super) fn speedup(own: &Measurement, peers: &[&Measurement], baseline: &str) -> Speedup {
    let named = || peers.iter().filter(|peer| peer.implementation == baseline);
    // A baseline of the same name may have run on several devices: the own device comes first.
    let base = named().find(|peer| peer.device == own.device).or_else(|| named().next());
    let Some(base) = base else {
        return Speedup::without(baseline, format!("{baseline} is not among the implementations of this case"));
    };
    if !own.outcome.is_measured() {
        return Speedup::without(baseline, format!("the row is {}", own.outcome.word()));
    }
    if !base.outcome.is_measured() {
        return Speedup::without(baseline, format!("{baseline} is {} at this case", base.outcome.word()));
    }
    for (measurement, name) in [(own, own.implementation.as_str()), (*base, baseline)] {
        if measurement.below_resolution() {
            return Speedup::without(baseline, format!("the time of {name} is below resolution"));
        }
    }
    if let Some(why) = apart(own, base) {
        return Speedup::without(baseline, why);
    }
    let ratios = paired_ratios(base, own);
    let is_baseline = base.implementation == own.implementation && base.device == own.device;
    match median(&ratios) {
        None => Speedup::without(baseline, format!("no round sampled both it and {baseline}")),
        Some(ratio) => {
            let interval = median_interval(&ratios, 0.95);
            Speedup {
                baseline: baseline.to_string(),
                is_baseline,
                ratio: Some(ratio),
                low: interval.map(|(low, _)| low),
                high: interval.map(|(_, high)| high),
                pairs: ratios.len(),
                unavailable: None,
            }
        }
    }
}

/// Why two measured rows of a case have no rounds in common although the numbers of their rounds are the same.
fn apart(own: &Measurement, base: &Measurement) -> Option<String> {
    (own.session != base.session).then(|| {
        format!(
            "{} and {} were measured by different commands of this record (--resume), so that they share no round",
            crate::units::clean(&base.implementation),
            crate::units::clean(&own.implementation)
        )
    })
}

/// What the reader of a row must know about its speed-up, where it would be expected and is none.
pub(super) fn remark(speedup: &Speedup, own: &Measurement, peers: &[&Measurement]) -> Option<String> {
    let why = speedup.unavailable.as_ref()?;
    let of_apart = peers.iter().any(|peer| apart(own, peer).is_some_and(|apart| apart == *why));
    of_apart.then(|| format!("no speed-up: {why}; measure them with one command"))
}

/// Ratios of times, base over own, of samples of the same block and round of one command.
pub(crate) fn paired_ratios(base: &Measurement, own: &Measurement) -> Vec<f64> {
    let of_round: HashMap<(u32, u32), f64> =
        base.samples.iter().map(|sample| ((sample.block, sample.round), sample.seconds())).collect();
    own.samples
        .iter()
        .filter_map(|sample| Some(of_round.get(&(sample.block, sample.round))? / sample.seconds()))
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect()
}
