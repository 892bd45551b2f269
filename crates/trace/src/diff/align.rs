//! Call trees keyed by paths of names, so those of two programs can be compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ellwand_profile::{Kind, LaneKind, NONE, Span, Trace, TraceLane};

use super::DiffError;
use super::welch::Sample;
use crate::chrome::is_thread;

/// Groups of repetitions: enough for Student's distribution, few enough that neighbours hardly influence each other.
const GROUPS: usize = 64;
/// Share of the busiest thread's span time that a root must cover, unless the caller names it.
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
    /// The tree of the repetitions of `root`, or of the whole profile.
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

    /// Every row of the summary; the compared time is the time in spans, over all lanes.
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

/// Number and total nanoseconds of the repetitions of a root.
pub(super) fn repetitions_of(trace: &Trace, root: &str) -> (u64, f64) {
    let Some((lane, found)) = trace.frame_spans(root) else { return (0, 0.0) };
    let spans = &trace.lanes[lane].spans;
    (found.len() as u64, found.iter().map(|index| trace.duration_ns(&spans[*index])).sum())
}

/// Names of the ended spans of threads, each with its smallest depth and its total nanoseconds, in which nested spans
/// count again.
fn names(trace: &Trace) -> HashMap<&str, (usize, f64)> {
    let mut names: HashMap<&str, (usize, f64)> = HashMap::new();
    for lane in trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Thread) {
        let mut depths: Vec<usize> = Vec::with_capacity(lane.spans.len());
        for span in &lane.spans {
            let depth = depths.get(span.parent as usize).map_or(0, |depth| depth + 1);
            depths.push(depth);
            if !span.is_open() && !trace.is_own(span.site) {
                let (least, ns) = names.entry(trace.name(span)).or_insert((depth, 0.0));
                (*least, *ns) = (depth.min(*least), *ns + trace.duration_ns(span));
            }
        }
    }
    names
}

/// Operations that a profile repeats and that cover enough of its time, with their depth and nanoseconds.
fn candidates(trace: &Trace) -> HashMap<&str, (usize, f64)> {
    let outermost = |span: &&Span| span.parent == NONE && !span.is_open() && !trace.is_own(span.site);
    let ns = |lane: &TraceLane| lane.spans.iter().filter(outermost).map(|span| trace.duration_ns(span)).sum::<f64>();
    // A lane of async events is not a thread.
    let in_flight = |span: &Span| trace.site(span).is_some_and(|site| site.kind == Kind::InFlight);
    let runs = |lane: &TraceLane| is_thread(lane) && !lane.spans.iter().all(in_flight);
    let busiest = trace.lanes.iter().filter(|lane| runs(lane)).map(ns).fold(0.0, f64::max);
    let least = COVERED * busiest;
    let covers = |name: &str| {
        let (count, ns) = repetitions_of(trace, name);
        let lane = trace.frame_spans(name).and_then(|(lane, _)| trace.lanes.get(lane));
        (lane.is_some_and(runs) && count >= 2 && ns >= least).then_some(ns)
    };
    // Few names pass the first filter; the second one reads all spans.
    let long = names(trace).into_iter().filter(|(_, (_, ns))| *ns >= least);
    long.filter_map(|(name, (depth, _))| Some((name, (depth, covers(name)?)))).collect()
}

/// The outermost operation that covers enough time of both profiles; of several, the one with the most time in the
/// baseline.
pub(super) fn common_root(baseline: &Trace, candidate: &Trace) -> Option<String> {
    let others = candidates(candidate);
    let mut known: Vec<(&str, (usize, f64))> =
        candidates(baseline).into_iter().filter(|(name, _)| others.contains_key(name)).collect();
    known.sort_by(|(a, (high, long)), (b, (low, short))| high.cmp(low).then(short.total_cmp(long)).then(a.cmp(b)));
    known.first().map(|(name, _)| (*name).to_string())
}

pub(super) fn require(trace: &Trace, side: &'static str, root: &str) -> Result<(), DiffError> {
    if trace.frame_spans(root).is_some() {
        return Ok(());
    }
    let known = names(trace);
    let mut names: Vec<&str> = known.keys().copied().collect();
    names.sort_unstable_by_key(|name| (known[name].0, *name));
    names.truncate(10);
    let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    let short = |text: &str| ellwand_profile::table::shortened(text, 400);
    Err(DiffError::NoRoot { side, root: short(root), known: short(&known) })
}
