//! Metrics of a row: a summary of the samples, or the reason why it is unavailable.

use ellwand_core::stats::{Summary, summary};
use ellwand_core::{Environment, METRICS, Measurement, Metric, Provenance};
use serde::Serialize;

use crate::units::below_resolution;

/// Summary of the samples of a row, in the unit of the metric.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub struct Stats {
    /// Number of samples.
    pub count: usize,
    /// Smallest of the samples.
    pub min: f64,
    /// 10th percentile, interpolated.
    pub p10: f64,
    /// Median of the samples.
    pub median: f64,
    /// 90th percentile, interpolated.
    pub p90: f64,
    /// Largest of the samples.
    pub max: f64,
    /// Lower end of the 95 % interval of the median over the samples of all blocks; empty with fewer than 6 samples.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
}

impl Stats {
    /// The statistics of `amount` over a time with these statistics.
    fn rate(self, amount: f64) -> Self {
        Self {
            count: self.count,
            min: amount / self.max,
            p10: amount / self.p90,
            median: amount / self.median,
            p90: amount / self.p10,
            max: amount / self.min,
            low: self.high.map(|high| amount / high),
            high: self.low.map(|low| amount / low),
        }
    }
}

impl From<Summary> for Stats {
    fn from(s: Summary) -> Self {
        Self {
            count: s.count,
            min: s.min,
            p10: s.p10,
            median: s.median,
            p90: s.p90,
            max: s.max,
            low: s.interval.map(|(low, _)| low),
            high: s.interval.map(|(_, high)| high),
        }
    }
}

/// One metric of one row.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct MetricValue {
    /// Stable key of the metric.
    #[serde(skip)]
    pub id: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Whether the values are measured or derived.
    pub provenance: Provenance,
    /// The summary; empty if unavailable.
    #[serde(flatten)]
    pub stats: Option<Stats>,
    /// The reason, if unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// All metrics of a measurement, in table order. A rate is an amount over the time, and so are its quantiles: the median
/// over an even number of slots would not be the amount over the printed time.
pub(super) fn metrics(measurement: &Measurement, environment: &Environment) -> Vec<MetricValue> {
    let of = |metric| value(metric, measurement, environment);
    let time = METRICS.iter().find(|metric| metric.id == "time").and_then(|metric| of(metric).stats);
    let rate = |metric: &Metric, value: MetricValue| {
        let amounts = measurement
            .samples
            .iter()
            .filter_map(|sample| Some((metric.of)(measurement, sample, environment)? * measurement.seconds(sample)));
        match (value.stats, time, amount(amounts)) {
            (Some(stats), Some(time), Some(amount)) if stats.count == time.count => {
                MetricValue { stats: Some(time.rate(amount)), ..value }
            }
            _ => value,
        }
    };
    METRICS.iter().map(|metric| rate(metric, of(metric))).collect()
}

/// The product of rate and time, if it is the same for all samples.
fn amount(mut products: impl Iterator<Item = f64>) -> Option<f64> {
    let first = products.next()?;
    products.all(|product| (product / first - 1.0).abs() < 1e-9).then_some(first)
}

fn value(metric: &Metric, measurement: &Measurement, environment: &Environment) -> MetricValue {
    let unavailable = |why: String| MetricValue {
        id: metric.id,
        unit: metric.unit,
        provenance: Provenance::Unavailable,
        stats: None,
        why: Some(why),
    };
    if !measurement.outcome.is_measured() {
        return unavailable(format!("the row is {}", measurement.outcome.word()));
    }
    if measurement.below_resolution() {
        return unavailable(below_resolution(measurement.resolution_ns.map(|ns| ns / 1e9)));
    }
    let values: Vec<f64> = measurement
        .samples
        .iter()
        .filter_map(|sample| (metric.of)(measurement, sample, environment))
        .filter(|value| value.is_finite())
        .collect();
    match summary(&values) {
        None if measurement.samples.is_empty() => unavailable("no samples".into()),
        None => unavailable(metric.missing.into()),
        Some(summary) => MetricValue {
            id: metric.id,
            unit: metric.unit,
            provenance: metric.provenance,
            stats: Some(summary.into()),
            why: None,
        },
    }
}
