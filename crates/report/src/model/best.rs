//! The fastest implementation of a case, if the samples show one.

use ellwand_core::Measurement;
use ellwand_core::record::Basis;
use serde::Serialize;

use super::{Row, speedup};

/// The fastest implementation of a case.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub struct Best {
    /// Index into [`super::Section::rows`]; empty if none can be named.
    pub row: Option<usize>,
    /// The rows that may be the fastest, if the samples do not separate any two of them; fastest first. They end at the first row
    /// that is surely slower than one of them, or slower by more than 25 %.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<usize>,
    /// Why no row can be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

impl Best {
    fn unknown(why: impl Into<String>) -> Self {
        Self { unavailable: Some(why.into()), ..Self::default() }
    }
}

/// True if all times in `other` are longer than all in `own`, and equal rows would show that with a probability of at
/// most 5 %. Each order of n + m times is equally likely, so the probability is one over the number of ways to choose n
/// of them.
fn is_apart(other: &[f64], own: &[f64]) -> bool {
    let (few, many) = (other.len().min(own.len()), other.len().max(own.len()));
    let orders = (1..=few).map(|taken| (many + taken) as f64 / taken as f64).product::<f64>();
    few > 0
        && orders >= 20.0
        && other.iter().copied().fold(f64::INFINITY, f64::min) > own.iter().copied().fold(0.0, f64::max)
}

/// The median time in each process.
fn by_process(m: &Measurement) -> Vec<f64> {
    m.basis.unwrap_or(Basis::Wall).by_process(&m.samples).into_values().collect()
}

/// True if the printed intervals of two speed-ups over the same measurement have no ratio in common.
fn are_disjoint(slow: &Row, fast: &Row) -> bool {
    let ends = slow.speedup.high.zip(fast.speedup.low);
    slow.device == fast.device && ends.is_some_and(|(high, low)| high < low)
}

/// Smallest ratio of times at which a single run can distinguish two implementations.
const FASTER: f64 = 1.05;
/// Ratio of times above which two rows are not tied, however much they scatter.
const TIED: f64 = 1.25;
/// Among the rows from index `first`, which belong to `measurements`: the row that is faster than each other row by 5 %
/// and by more than the 95 % interval of their ratio.
pub(super) fn best(rows: &[Row], first: usize, measurements: &[&Measurement]) -> Best {
    let mine = || rows.iter().enumerate().skip(first).filter(|(_, row)| row.measured());
    // A row below the timer resolution is faster than all others, by an unknown amount.
    let tiny: Vec<usize> = mine().filter(|(_, row)| row.below_resolution).map(|(index, _)| index).collect();
    match (tiny.as_slice(), mine().count()) {
        (_, 0) => return Best::unknown("nothing was measured"),
        (_, 1) => return Best::unknown("only one implementation was measured"),
        ([one], _) => return Best { row: Some(*one), ..Best::default() },
        ([_, _, ..], _) => return Best::unknown("several implementations are below timer resolution"),
        ([], _) => {}
    }
    let mut timed: Vec<(usize, f64)> = mine().filter_map(|(index, row)| Some((index, row.median("time")?))).collect();
    timed.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(fastest) = timed.first().copied() else {
        return Best::unknown("no implementation has a time");
    };
    let ratio = |slow: usize, fast: usize| speedup::interval(measurements[slow - first], measurements[fast - first]);
    let separated = |slow: (usize, f64), fast: (usize, f64)| {
        let (other, own) = (measurements[slow.0 - first], measurements[fast.0 - first]);
        let surely = match ratio(slow.0, fast.0) {
            Some((low, _)) => low > 1.0,
            None => is_apart(&other.all_seconds(), &own.all_seconds()),
        };
        // A few disturbed slots widen the interval from few processes, but move none of their medians past the others.
        let surely = surely || is_apart(&by_process(other), &by_process(own));
        slow.1 >= FASTER * fast.1 && (surely || are_disjoint(&rows[slow.0], &rows[fast.0]))
    };
    // A held-up row may, without other programs, take as little as its CPU time spread over the processors.
    let faster_alone = |(index, _): &(usize, f64)| rows[*index].held_up.is_some_and(|held| held.least_s < fastest.1);
    let others = timed.split_off(1);
    let open: Vec<(usize, f64)> =
        others.iter().copied().filter(|other| faster_alone(other) || !separated(*other, fastest)).collect();
    let names = |rows_of: &[(usize, f64)]| {
        rows_of.iter().map(|(index, _)| rows[*index].implementation.as_str()).collect::<Vec<_>>().join(", ")
    };
    if open.is_empty() {
        return Best { row: Some(fastest.0), ..Best::default() };
    }
    if open.iter().all(|(index, _)| ratio(*index, fastest.0).is_none()) {
        return Best::unknown("too few slots for an interval of the ratios");
    }
    let held: Vec<(usize, f64)> = [fastest].into_iter().chain(open.iter().copied()).filter(faster_alone).collect();
    if !held.is_empty() {
        return Best::unknown(format!("other programs held up {}, which may be faster without them", names(&held)));
    }
    // The tie ends at the first row that is surely slower than one of its rows, or far slower, so it has no gaps.
    let mut tied = vec![fastest];
    for other in others {
        if other.1 > TIED * fastest.1 || tied.iter().any(|one| separated(other, *one)) {
            break;
        }
        tied.push(other);
    }
    if tied.len() == 1 {
        let (wild, fastest) = (names(&open), names(&tied));
        return Best::unknown(format!(
            "the times of {fastest} and {wild} scatter too much to say that {fastest} is the fastest"
        ));
    }
    let why = format!("the times of {} do not differ by 5 % and by more than their 95 % interval", names(&tied));
    Best { tied: tied.into_iter().map(|(index, _)| index).collect(), unavailable: Some(why), ..Best::default() }
}
