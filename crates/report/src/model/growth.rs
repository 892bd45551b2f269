//! How times grow along each axis, and which implementation is fastest at each value.

use std::collections::BTreeMap;

use ellwand_core::stats::{common_slope, geometric_mean};
use serde::Serialize;

use super::{Bound, CaseInfo, Row, distinct, mean};
use crate::model::AxisInfo;

/// Confidence of the intervals of exponents.
const CONFIDENCE: f64 = 0.95;

/// Half-width of an interval above which an exponent is useless: it then separates neither a fixed cost from a cost per
/// item, nor linear from quadratic growth.
const VAGUE: f64 = 0.5;
/// Ratio of the 90th to the 10th percentile above which other programs shape the time of a row.
const SCATTERED: f64 = 1.5;

/// True if other programs shaped the time of a row.
fn disturbed(row: &Row) -> bool {
    row.held_up.is_some() || row.stats("time").is_some_and(|stats| stats.p90 > SCATTERED * stats.p10)
}

/// The scaling of an implementation along an axis: time ~ value^exponent, with the other axes fixed.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Growth {
    /// Index into [`super::Report::runs`].
    pub run: usize,
    /// Name of the implementation.
    pub implementation: String,
    /// Id of the device.
    pub device: String,
    /// Name of the axis.
    pub axis: String,
    /// The fitted exponent.
    pub exponent: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// Cases in the fit.
    pub cases: usize,
}

/// The times of one implementation at one value of an axis, averaged over all other axes.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct AlongAxis {
    /// Index into [`super::Report::runs`].
    pub run: usize,
    /// Name of the axis.
    pub axis: String,
    /// The value, as text.
    pub value: String,
    /// Name of the implementation.
    pub implementation: String,
    /// Cases with this value in which every implementation was measured; only these count.
    pub cases: usize,
    /// Geometric mean of the median times, in seconds.
    pub time_s: f64,
    /// Geometric mean of the printed speed-ups over the baseline; empty if one is unavailable.
    pub speedup: Option<f64>,
    /// True if other programs held up one of the rows: the time is then an upper bound.
    pub held_up: bool,
    /// How the speed-up relates to that on an undisturbed machine, if other programs held up one of the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Cases in which the implementation was fastest.
    pub best_in: usize,
    /// Cases in which it was tied for the fastest.
    pub tied_in: usize,
}

/// The keys (run, implementation, device) whose rows form one curve.
fn lines(rows: &[Row]) -> Vec<(usize, &str, &str)> {
    distinct(rows.iter().map(|row| (row.run, row.implementation.as_str(), row.device.as_str())))
}

/// The exponents of all numeric axes that vary.
pub(super) fn growth(swept: &[AxisInfo], rows: &[Row]) -> Vec<Growth> {
    let mut all = Vec::new();
    for (run, implementation, device) in lines(rows) {
        for axis in swept.iter().filter(|axis| axis.numeric) {
            let mut groups: BTreeMap<Vec<String>, Vec<(f64, f64)>> = BTreeMap::new();
            let mine = rows.iter().filter(|row| {
                (row.run, row.implementation.as_str(), row.device.as_str()) == (run, implementation, device)
            });
            for row in mine {
                let (Some(x), Some(time)) = (row.number(&axis.name), row.median("time")) else { continue };
                if disturbed(row) {
                    continue;
                }
                if x > 0.0 && time > 0.0 {
                    let others = row.params.iter().filter(|param| param.axis != axis.name);
                    let key = others.map(|param| super::axes::text(&param.value)).collect();
                    groups.entry(key).or_default().push((x.ln(), time.ln()));
                }
            }
            let groups: Vec<Vec<(f64, f64)>> = groups.into_values().collect();
            let Some(slope) = common_slope(&groups, CONFIDENCE) else { continue };
            // Two points give a ratio but no exponent, and neither does a wide interval.
            let Some((low, high)) = slope.interval.filter(|(low, high)| high - low <= 2.0 * VAGUE) else { continue };
            all.push(Growth {
                run,
                implementation: implementation.to_string(),
                device: device.to_string(),
                axis: axis.name.clone(),
                exponent: slope.slope,
                low,
                high,
                cases: slope.points,
            });
        }
    }
    all
}

/// Data collected for a run and an implementation at one value.
#[derive(Default)]
struct Gathered<'a> {
    times: Vec<f64>,
    rows: Vec<&'a Row>,
}

/// Times by the values of each axis, if more than one axis varies; with one axis the results already show them.
pub(super) fn along_axes(swept: &[AxisInfo], cases: &[CaseInfo], rows: &[Row]) -> Vec<AlongAxis> {
    if swept.len() < 2 {
        return Vec::new();
    }
    // Use only cases with all implementations; a mean over different cases would compare the cases.
    let measured = |row: &&Row| row.median("time").is_some();
    let possible: Vec<&str> = rows.iter().filter(measured).map(|row| row.implementation.as_str()).collect();
    let complete: Vec<&CaseInfo> = cases
        .iter()
        .filter(|case| {
            let here: Vec<&str> =
                case.rows.iter().map(|i| &rows[*i]).filter(measured).map(|row| row.implementation.as_str()).collect();
            possible.iter().all(|name| here.contains(name))
        })
        .collect();
    let mut all: Vec<AlongAxis> = Vec::new();
    for axis in swept {
        for value in &axis.values {
            let mut table: BTreeMap<(usize, usize), Gathered<'_>> = BTreeMap::new();
            let mut names: Vec<&str> = Vec::new();
            for row in complete.iter().flat_map(|case| &case.rows).map(|i| &rows[*i]) {
                let Some(time) = row.median("time") else { continue };
                if row.param(&axis.name).as_ref() != Some(value) {
                    continue;
                }
                let name = names.iter().position(|name| *name == row.implementation).unwrap_or_else(|| {
                    names.push(&row.implementation);
                    names.len() - 1
                });
                let entry = table.entry((row.run, name)).or_default();
                entry.times.push(time);
                entry.rows.push(row);
            }
            for ((run, name), Gathered { times, rows }) in table {
                let Some(time_s) = geometric_mean(&times) else { continue };
                let known = rows.iter().all(|row| row.speedup.ratio.is_some());
                let (bound, speedup) = mean(rows.iter().map(|row| &row.speedup)).filter(|_| known).unzip();
                let count = |of: fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
                all.push(AlongAxis {
                    run,
                    axis: axis.name.clone(),
                    value: value.clone(),
                    implementation: names[name].to_string(),
                    cases: times.len(),
                    time_s,
                    speedup,
                    held_up: count(|row| row.held_up.is_some()) > 0,
                    bound: bound.flatten(),
                    best_in: count(|row| row.best),
                    tied_in: count(|row| row.tied),
                });
            }
        }
    }
    all
}
