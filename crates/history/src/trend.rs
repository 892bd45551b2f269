//! Series by commit, and their changes.

use std::collections::{BTreeMap, BTreeSet};

use ellwand_core::InputError;
use ellwand_core::stats::{change_points, mean_interval};
use serde::Serialize;

use crate::error::StoreError;
use crate::reference::{Measured, Reference, has_axes};
use crate::rows::{Series, by_number};
use crate::store::Store;

/// A query for a trend.
#[derive(Debug, Clone)]
pub struct Query {
    /// Name of the workload.
    pub workload: String,
    /// Id of a case, or `WORKLOAD/AXIS=VALUE,..` for all cases with these values; all cases by default.
    pub case: Option<String>,
    /// Name of the implementation.
    pub implementation: String,
    /// Wanted values by axis, separated by commas.
    pub axes: BTreeMap<String, String>,
    /// Fingerprint of the machine, or the start of one; all machines by default.
    pub machine: Option<String>,
    /// What times are divided by; by default the baseline implementation of the same case, as each run names it.
    pub reference: Option<Reference>,
    /// True if the ratios of all machines form one series. Their times never do.
    pub across_machines: bool,
    /// Smallest change that counts, as a share.
    pub rope: f64,
}

/// Answer to a [`Query`]: one line for each case, device, cache state and machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The lines, by case.
    pub lines: Vec<Line>,
    /// Number of machines with points.
    pub machines: usize,
}

/// A series by commit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// What was measured.
    #[serde(flatten)]
    pub series: Series,
    /// Fingerprints of its machines; a single one, unless the ratios of several are joined.
    pub machines: Vec<String>,
    /// What the times are divided by; `None` if no point has a ratio.
    pub reference: Option<String>,
    /// Why the line has no ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreferenced: Option<String>,
    /// The points, by the date of the commit, or else of the run.
    pub points: Vec<Point>,
    /// Changes of the ratio.
    pub changes: Vec<ChangePoint>,
    /// The last runs, if their ratio differs but they are too few for a change point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<Recent>,
    /// Runs without a ratio among runs with one; changes in them cannot be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_ratio: Option<WithoutRatio>,
    /// Number of runs after the last point that failed or gave a wrong answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_since: Option<usize>,
}

/// Runs that did not measure the reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WithoutRatio {
    /// Number of such runs.
    pub runs: usize,
    /// True if the last run is one of them.
    pub newest: bool,
    /// Why the last of them has no ratio. Another run may lack another reference.
    pub why: String,
}

/// Runs at the end whose ratio differs from the runs before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Recent {
    /// Number of such runs.
    pub runs: usize,
    /// Geometric mean of the ratios from the last change to these runs.
    pub before: f64,
    /// Geometric mean of the ratios of these runs.
    pub after: f64,
}

/// A time measured in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Id of the run.
    pub run: String,
    /// Start of the run in milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Commit of the sources; `None` in records without one.
    pub commit: Option<String>,
    /// Date of the commit.
    pub committed_ms: Option<i64>,
    /// True if files differed from the commit.
    pub changed: bool,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Median time of an iteration.
    pub seconds: f64,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
    /// The time divided by that of the reference.
    pub ratio: Option<Ratio>,
    /// Index of the command that made it.
    #[serde(skip)]
    pub(crate) session: i64,
    /// The default baseline of the case.
    #[serde(skip)]
    pub(crate) baseline: String,
    /// Natural logarithm of the median time of each process.
    #[serde(skip)]
    pub(crate) blocks: Vec<f64>,
}

/// A time divided by another of the same run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio of the medians.
    pub value: f64,
    /// Lower end of its 95 % interval over processes; `None` if there was one process.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
}

/// A place where the ratio changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangePoint {
    /// Index of the first point after the change.
    pub point: usize,
    /// Geometric mean of the ratios from the previous change to this one.
    pub before: f64,
    /// Geometric mean of the ratios from this change to the next one.
    pub after: f64,
    /// p-value of a t-test between the two; too small, because the place was chosen.
    pub p: f64,
}

/// A point with the name of its reference, or with the reason why it has no ratio.
type Referenced = (Point, Result<String, String>);

/// A run without a time: its machine, and its place among the points of a line.
pub(crate) type Failure = (String, (i64, i64));

/// Computes the lines of a query.
///
/// # Errors
/// If the query names something that no run measured, or the history cannot be read.
pub fn trend(store: &mut Store, query: &Query) -> Result<Trend, StoreError> {
    let mut measured = Measured::default();
    let mut lines = Vec::new();
    for series in chosen(store, query)? {
        let mut groups: BTreeMap<String, Vec<Referenced>> = BTreeMap::new();
        for row in store.ask(|index| index.points(series.key()))? {
            if query.machine.as_ref().is_some_and(|machine| !row.machine.starts_with(machine)) {
                continue;
            }
            let group = if query.across_machines { String::new() } else { row.machine.clone() };
            groups.entry(group).or_default().push(point(store, &mut measured, query, &series, row)?);
        }
        let failures = store.ask(|index| index.failures(series.key()))?;
        for points in groups.into_values() {
            let mut line = line(&series, points, query)?;
            let last = line.points.last().map(place);
            let is_later = |(machine, at): &&Failure| line.machines.contains(machine) && Some(*at) > last;
            line.failed_since = Some(failures.iter().filter(is_later).count()).filter(|runs| *runs > 0);
            lines.push(line);
        }
    }
    let machines: BTreeSet<&String> = lines.iter().flat_map(|line: &Line| &line.machines).collect();
    if let (Some(machine), true) = (&query.machine, machines.is_empty()) {
        let known = store.machines()?;
        let known: Vec<String> = known.iter().map(|machine| format!("{} ({})", machine.id, machine.cpu)).collect();
        let problem = format!("{machine} has no such measurement");
        return Err(InputError::setting("machine", problem, format!("one of {}", known.join(", "))).into());
    }
    Ok(Trend { machines: machines.len(), lines })
}

/// The series that match a query.
fn chosen(store: &mut Store, query: &Query) -> Result<Vec<Series>, StoreError> {
    let Query { workload, implementation, .. } = query;
    let all = store.ask(|index| index.series(workload))?;
    if all.is_empty() {
        let known = store.ask(|index| index.workloads())?;
        return Err(unknown(
            InputError::new(WHAT, format!("no run measured the workload {workload}"), ""),
            workload,
            &known,
        ));
    }
    let known: BTreeSet<String> = all.iter().map(|series| series.implementation.clone()).collect();
    if !known.contains(implementation) {
        let known: Vec<String> = known.into_iter().collect();
        let problem = format!("no run measured {workload} with {implementation}");
        return Err(unknown(InputError::new(WHAT, problem, ""), implementation, &known));
    }
    let mut left: Vec<Series> = all.into_iter().filter(|series| series.implementation == *implementation).collect();
    if let Some(case) = &query.case {
        let known: Vec<String> = left.iter().map(|series| series.case.clone()).collect();
        let exact = left.iter().any(|series| series.case == *case);
        let axes = case.split_once('/').map_or("", |(_, axes)| axes);
        left.retain(|series| if exact { series.case == *case } else { has_axes(&series.case, axes) });
        if left.is_empty() {
            return Err(unknown(InputError::new(WHAT, format!("no run measured the case {case}"), ""), case, &known));
        }
    }
    for (axis, wanted) in &query.axes {
        if left.iter().all(|series| !series.params.contains_key(axis)) {
            let axes: BTreeSet<&String> = left.iter().flat_map(|series| series.params.keys()).collect();
            let axes: Vec<String> = axes.into_iter().cloned().collect();
            let expected = if axes.is_empty() { "no axis" } else { "" };
            let error = InputError::setting(axis, format!("no run of {workload} has this axis"), expected);
            return Err(if axes.is_empty() { error.into() } else { unknown(error, axis, &axes) });
        }
        let known: BTreeSet<String> = left.iter().filter_map(|series| series.params.get(axis).cloned()).collect();
        left.retain(|series| {
            series.params.get(axis).is_some_and(|value| wanted.split(',').any(|one| same(one, value)))
        });
        if left.is_empty() {
            let known: Vec<String> = known.into_iter().collect();
            return Err(unknown(InputError::setting(axis, format!("no run measured {wanted}"), ""), wanted, &known));
        }
    }
    left.sort_by(by_number);
    Ok(left)
}

const WHAT: &str = "WORKLOAD:IMPLEMENTATION";

/// True if two texts mean the same value of an axis.
fn same(wanted: &str, value: &str) -> bool {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    wanted.trim() == value || number(wanted).is_some_and(|wanted| number(value) == Some(wanted))
}

fn unknown(error: InputError, given: &str, known: &[String]) -> StoreError {
    let some: Vec<&str> = known.iter().take(12).map(String::as_str).collect();
    let more = if known.len() > some.len() { ", .." } else { "" };
    let expected = format!("one of {}{more}", some.join(", "));
    let error = InputError { expected, ..error };
    error.near(given, known.iter().map(String::as_str)).into()
}

/// A point with the name of its reference, or with the reason why it has no ratio.
fn point(
    store: &mut Store,
    measured: &mut Measured,
    query: &Query,
    series: &Series,
    mut own: Point,
) -> Result<Referenced, StoreError> {
    let reference = measured.of(store, query.reference.as_ref(), series, &own.baseline)?;
    let name = |reference: &Series| match query.reference {
        None => reference.implementation.clone(),
        Some(_) => format!("{}:{}", reference.case, reference.implementation),
    };
    let (ratio, named) = match reference {
        None => (None, Err(format!("no run measured the baseline {} at this case", own.baseline))),
        Some(reference) if reference == *series => {
            (None, Err(format!("{} is the reference itself; name another reference", series.implementation)))
        }
        Some(reference) => match measured.time(store, &reference, &own)? {
            Some(time) => (Some(ratio(&own, time)), Ok(name(&reference))),
            None => (None, Err(format!("no command measured both it and {}", name(&reference)))),
        },
    };
    own.ratio = ratio;
    Ok((own, named))
}

/// The ratio of two times of a run, computed process by process, because the two took turns in each.
fn ratio(own: &Point, reference: &Point) -> Ratio {
    let value = own.seconds / reference.seconds;
    let paired = own.blocks.len() == reference.blocks.len();
    let differences: Vec<f64> = own.blocks.iter().zip(&reference.blocks).map(|(own, other)| own - other).collect();
    let interval = mean_interval(&differences, 0.95).ok().filter(|_| paired);
    Ratio {
        value,
        low: interval.map(|interval| interval.low().exp().min(value)),
        high: interval.map(|interval| interval.high().exp().max(value)),
    }
}

/// The place of a point in its line: the dates of the commit and of the run.
fn place(point: &Point) -> (i64, i64) {
    (point.committed_ms.unwrap_or(point.started_ms), point.started_ms)
}

fn line(series: &Series, mut points: Vec<Referenced>, query: &Query) -> Result<Line, StoreError> {
    points.sort_by(|(a, _), (b, _)| place(a).cmp(&place(b)).then_with(|| a.run.cmp(&b.run)));
    let (points, named): (Vec<Point>, Vec<Result<String, String>>) = points.into_iter().unzip();
    let machines: BTreeSet<String> = points.iter().map(|point| point.machine.clone()).collect();
    let references: BTreeSet<&String> = named.iter().filter_map(|name| name.as_ref().ok()).collect();
    // If the reference changes within a series, the ratio changes without a change of the code.
    let (reference, unreferenced) = match Vec::from_iter(references).as_slice() {
        [] => (None, named.iter().find_map(|name| name.as_ref().err()).cloned()),
        [one] => (Some((*one).clone()), None),
        [one, other, ..] => {
            let why =
                format!("the runs have different baselines, such as {one} and {other}; name one as the reference");
            (None, Some(why))
        }
    };
    let with_ratio: Vec<(usize, f64)> = if reference.is_some() {
        points.iter().enumerate().filter_map(|(at, point)| Some((at, point.ratio?.value.ln()))).collect()
    } else {
        Vec::new()
    };
    let last_without = named.iter().rev().find_map(|name| name.as_ref().err());
    let without_ratio = last_without.filter(|_| reference.is_some()).map(|why| WithoutRatio {
        runs: points.len() - with_ratio.len(),
        newest: points.last().is_some_and(|point| point.ratio.is_none()),
        why: why.clone(),
    });
    let values: Vec<f64> = with_ratio.iter().map(|(_, value)| *value).collect();
    let found = change_points(&values, query.rope.ln_1p())
        .map_err(|error| StoreError::Other { place: series.case.clone(), problem: error.to_string() })?;
    let start = found.points.last().map_or(0, |change| change.index);
    let recent = found.short.map(|runs| {
        let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len() as f64).exp();
        let (before, after) = values[start..].split_at(values.len() - start - runs);
        Recent { runs, before: mean(before), after: mean(after) }
    });
    let changes = found.points.iter().map(|change| ChangePoint {
        point: with_ratio[change.index].0,
        before: change.before.exp(),
        after: change.after.exp(),
        p: change.p,
    });
    Ok(Line {
        series: series.clone(),
        machines: machines.into_iter().collect(),
        reference,
        unreferenced,
        changes: changes.collect(),
        recent,
        without_ratio,
        failed_since: None,
        points,
    })
}
