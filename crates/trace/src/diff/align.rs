//! Call trees by path of names, so that those of two programs can be compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ellwand_profile::{Kind, LaneKind, NONE, Span, Trace, TraceLane};

use super::DiffError;
use super::welch::Sample;
use crate::chrome::is_thread;

/// Groups of repetitions: enough for Student's distribution, few enough that neighbours hardly influence each other.
const GROUPS: usize = 64;
/// Share of the time in spans of the busiest thread that a root covers, unless the caller names it.
const COVERED: f64 = 0.5;

pub(super) struct Times {
    /// Time inside per repetition.
    pub(super) total: Sample,
    /// Mean self time per repetition.
    pub(super) own_ns: f64,
    /// Mean number of calls per repetition.
    pub(super) calls: f64,
}

/// The call tree of one profile.
pub(super) struct Tree {
    pub(super) repetitions: Sample,
    pub(super) count: u64,
    pub(super) nodes: BTreeMap<Vec<String>, Times>,
}

impl Tree {
    /// Of the repetitions of `root`, or of the whole profile.
    pub(super) fn of(trace: &Trace, root: Option<&str>) -> Self {
        match root {
            Some(root) => Self::of_root(trace, root),
            None => Self::of_all(trace),
        }
    }

    fn of_root(trace: &Trace, root: &str) -> Self {
        let frames = trace.frames_pooled(root, GROUPS);
        let repetitions = Sample::of(&frames.wall_ns, &frames.sizes);
        // Sites of the same name share a path.
        let mut sums: BTreeMap<Vec<String>, (Vec<f64>, Vec<f64>, f64)> = BTreeMap::new();
        let count: f64 = frames.sizes.iter().map(|size| f64::from(*size)).sum();
        let mut own = frames.wall_ns.clone();
        for row in frames.rows.into_iter().filter(|row| row.inside) {
            own.iter_mut().zip(&row.self_ns).for_each(|(own, part)| *own -= part);
            let path = std::iter::once(root.to_string()).chain(row.row.path).collect();
            let (total, own, calls) =
                sums.entry(path).or_insert_with(|| (vec![0.0; own.len()], vec![0.0; own.len()], 0.0));
            *calls += row.row.count as f64 / count;
            total.iter_mut().zip(&row.total_ns).for_each(|(sum, ns)| *sum += ns);
            own.iter_mut().zip(&row.self_ns).for_each(|(sum, ns)| *sum += ns);
        }
        let mut nodes: BTreeMap<Vec<String>, Times> = sums
            .into_iter()
            .map(|(path, (total, own, calls))| {
                let own_ns = Sample::of(&own, &frames.sizes).mean;
                (path, Times { total: Sample::of(&total, &frames.sizes), own_ns, calls })
            })
            .collect();
        let own_ns = Sample::of(&own, &frames.sizes).mean;
        nodes.insert(vec![root.to_string()], Times { total: repetitions, own_ns, calls: 1.0 });
        Self { repetitions, count: repetitions_of(trace, root).0, nodes }
    }

    /// Every row of the summary; the time compared is that in spans, over all lanes.
    fn of_all(trace: &Trace) -> Self {
        let mut nodes: BTreeMap<Vec<String>, Times> = BTreeMap::new();
        let mut all = 0.0;
        for row in trace.summary().rows {
            all += row.self_ns;
            let times = nodes.entry(row.path).or_insert(Times { total: Sample::single(0.0), own_ns: 0.0, calls: 0.0 });
            times.calls += row.count as f64;
            times.total.mean += row.total_ns;
            times.own_ns += row.self_ns;
        }
        Self { repetitions: Sample::single(all), count: 1, nodes }
    }
}

pub(super) fn paths(a: &Tree, b: &Tree) -> BTreeSet<Vec<String>> {
    a.nodes.keys().chain(b.nodes.keys()).cloned().collect()
}

/// Lane, number and nanoseconds of ended outermost spans by name, on the first thread that has any of that name.
fn roots(trace: &Trace) -> HashMap<&str, (usize, u64, f64)> {
    let mut roots: HashMap<&str, (usize, u64, f64)> = HashMap::new();
    for (number, lane) in trace.lanes.iter().enumerate().filter(|(_, lane)| lane.kind == LaneKind::Thread) {
        for span in outermost(trace, lane) {
            let known = roots.entry(trace.name(span)).or_insert((number, 0, 0.0));
            if known.0 == number {
                *known = (number, known.1 + 1, known.2 + trace.duration_ns(span));
            }
        }
    }
    roots
}

fn outermost<'a>(trace: &'a Trace, lane: &'a TraceLane) -> impl Iterator<Item = &'a Span> {
    lane.spans.iter().filter(|span| span.parent == NONE && !span.is_open() && !trace.is_own(span.site))
}

/// Number and nanoseconds of the repetitions of a root.
pub(super) fn repetitions_of(trace: &Trace, root: &str) -> (u64, f64) {
    roots(trace).get(root).map_or((0, 0.0), |known| (known.1, known.2))
}

/// Outermost operations that a profile repeats and that cover enough of its time, with their nanoseconds.
fn candidates(trace: &Trace) -> HashMap<&str, f64> {
    let ns = |lane: &TraceLane| outermost(trace, lane).map(|span| trace.duration_ns(span)).sum::<f64>();
    // A lane of async events is no thread.
    let in_flight = |span: &Span| trace.site(span).is_some_and(|site| site.kind == Kind::InFlight);
    let runs = |lane: &TraceLane| is_thread(lane) && !lane.spans.iter().all(in_flight);
    let busiest = trace.lanes.iter().filter(|lane| runs(lane)).map(ns).fold(0.0, f64::max);
    let covers = |(number, count, ns): (usize, u64, f64)| {
        trace.lanes.get(number).is_some_and(runs) && count >= 2 && ns >= COVERED * busiest
    };
    roots(trace).into_iter().filter(|(_, known)| covers(*known)).map(|(name, known)| (name, known.2)).collect()
}

/// The outermost operation with the most time in the baseline that covers enough time of both profiles.
pub(super) fn common_root(baseline: &Trace, candidate: &Trace) -> Option<String> {
    let others = candidates(candidate);
    let mut known: Vec<(&str, f64)> =
        candidates(baseline).into_iter().filter(|(name, _)| others.contains_key(name)).collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    known.first().map(|(name, _)| (*name).to_string())
}

pub(super) fn require(trace: &Trace, side: &'static str, root: &str) -> Result<(), DiffError> {
    let known = roots(trace);
    if known.contains_key(root) {
        return Ok(());
    }
    let mut names: Vec<&str> = known.keys().copied().collect();
    names.sort_unstable();
    names.truncate(10);
    let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    let short = |text: &str| ellwand_profile::table::shortened(text, 400);
    Err(DiffError::NoRoot { side, root: short(root), known: short(&known) })
}
