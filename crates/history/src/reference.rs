//! The references that the times of a trend are divided by: a kernel that the same run measured and that should not
//! change.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::str::FromStr;

use ellwand_core::InputError;

use crate::error::StoreError;
use crate::rows::Series;
use crate::store::Store;
use crate::trend::Point;

/// An implementation of a workload, at the same case if the workload has it, or of one of its cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Name of the workload, or id of the case.
    pub case: String,
    /// Name of the implementation.
    pub implementation: String,
}

/// The text does not name a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected WORKLOAD:IMPLEMENTATION or WORKLOAD/AXIS=VALUE,..:IMPLEMENTATION")]
pub struct ReferenceError;

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        match text.rsplit_once(':') {
            Some((case, implementation)) if !case.is_empty() && !implementation.is_empty() => {
                Ok(Reference { case: case.into(), implementation: implementation.into() })
            }
            _ => Err(ReferenceError),
        }
    }
}

/// References and their times, each read once.
#[derive(Default)]
pub(crate) struct Measured {
    /// Times by series, then by run.
    times: HashMap<i64, HashMap<String, Point>>,
    /// Series by workload.
    series: HashMap<String, Vec<Series>>,
    /// References by series and baseline.
    found: HashMap<(i64, String), Option<Series>>,
}

impl Measured {
    /// The series that a time of `own` is divided by.
    ///
    /// # Errors
    /// If a pinned reference is not in the history, or names several cases.
    pub(crate) fn of(
        &mut self,
        store: &mut Store,
        reference: Option<&Reference>,
        own: &Series,
        baseline: &str,
    ) -> Result<Option<Series>, StoreError> {
        let key = (own.key(), baseline.to_string());
        if !self.found.contains_key(&key) {
            let found = self.find(store, reference, own, baseline)?;
            self.found.insert(key.clone(), found);
        }
        Ok(self.found[&key].clone())
    }

    fn find(
        &mut self,
        store: &mut Store,
        reference: Option<&Reference>,
        own: &Series,
        baseline: &str,
    ) -> Result<Option<Series>, StoreError> {
        let (case, implementation) =
            reference.map_or((own.case.as_str(), baseline), |named| (&named.case, &named.implementation));
        let (workload, axes) = case.split_once('/').unwrap_or((case, ""));
        if !self.series.contains_key(workload) {
            self.series.insert(workload.to_string(), store.ask(|index| index.series(workload))?);
        }
        let known: Vec<&Series> = self.series[workload].iter().filter(|series| series.caches == own.caches).collect();
        let named = |series: &&&Series| series.implementation == implementation;
        // A complete id is one case, even if another case has more axes.
        let mut found: Vec<&Series> =
            known.iter().filter(named).filter(|series| series.case == case).copied().collect();
        // A workload without axes means the row's case, if the row is of that workload.
        if found.is_empty() && case == own.workload {
            found = known.iter().filter(named).filter(|series| series.case == own.case).copied().collect();
        }
        if found.is_empty() && reference.is_some() {
            found = known.iter().filter(named).filter(|series| has_axes(&series.case, axes)).copied().collect();
        }
        let mut cases: Vec<&str> = found.iter().map(|series| series.case.as_str()).collect();
        cases.dedup();
        match (reference, cases.as_slice()) {
            (Some(_), []) => {
                let problem = format!("no run measured {case}:{implementation} with {} caches", own.caches);
                // The cases of this implementation, if any.
                let mut choices: Vec<&Series> = known.iter().filter(named).copied().collect();
                if choices.is_empty() {
                    choices = known;
                }
                let such: Vec<String> =
                    choices.iter().take(4).map(|series| format!("{}:{}", series.case, series.implementation)).collect();
                let such = if such.is_empty() { String::new() } else { format!(", such as {}", such.join(", ")) };
                let expected = format!("a kernel that the same runs measured{such}");
                return Err(InputError::setting("reference", problem, expected).into());
            }
            (_, [one, other, ..]) => {
                let problem = format!("{} cases match, such as {one} and {other}", cases.len());
                let error = InputError::setting("reference", problem, "axes that only one case has");
                return Err(error.help(format!("for example {one}:{implementation}")).into());
            }
            _ => {}
        }
        // If it ran on several devices, the row's device.
        let same = found.iter().find(|series| series.device == own.device).or_else(|| found.first());
        Ok(same.map(|series| (*series).clone()))
    }

    /// The time of a series measured by the same command of the same run as `point`.
    pub(crate) fn time(
        &mut self,
        store: &mut Store,
        series: &Series,
        point: &Point,
    ) -> Result<Option<&Point>, StoreError> {
        let key = series.key();
        let times = match self.times.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let points = store.ask(|index| index.points(key))?;
                place.insert(points.into_iter().map(|point| (point.run.clone(), point)).collect())
            }
        };
        Ok(times.get(&point.run).filter(|time| time.session == point.session))
    }
}

/// True if the id of a case has all these axes (`n=8,data=zeros`), whatever other axes it has.
pub(crate) fn has_axes(case: &str, axes: &str) -> bool {
    let all: Vec<&str> = case.split_once('/').map_or(Vec::new(), |(_, axes)| axes.split(',').collect());
    axes.split(',').filter(|axis| !axis.is_empty()).all(|axis| all.contains(&axis))
}

#[cfg(test)]
mod tests {
    use super::{Reference, ReferenceError, has_axes};

    #[test]
    fn some_axes_name_a_case() {
        let case = "copy/bytes=8,data=zeros";
        for (axes, has) in [("", true), ("bytes=8", true), ("data=zeros,bytes=8", true), ("bytes=80", false)] {
            assert_eq!(has_axes(case, axes), has, "{axes}");
        }
        assert!(has_axes("null", "") && !has_axes("null", "n=1"));
    }

    #[test]
    fn references_are_workloads_or_cases() {
        let parse = |text: &str| text.parse::<Reference>();
        let pinned = |case: &str, name: &str| Ok(Reference { case: case.into(), implementation: name.into() });
        assert_eq!(parse("copy:simd"), pinned("copy", "simd"));
        assert_eq!(parse("copy/bytes=8,data=a:b:simd"), pinned("copy/bytes=8,data=a:b", "simd"));
        for text in ["copy", ":simd", "copy:", ""] {
            assert_eq!(parse(text), Err(ReferenceError), "{text}");
        }
    }
}
