//! Call trees by path of names, so that those of two programs can be compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ellwand_profile::{LaneKind, NONE, Trace};

use super::DiffError;
use super::welch::Sample;

/// Groups of repetitions: enough for Student's distribution, few enough that neighbours hardly influence each other.
const GROUPS: usize = 64;

/// Times of a path.
pub(super) struct Times {
    /// Time inside per repetition.
    pub(super) total: Sample,
    /// Mean self time per repetition.
    pub(super) own_ns: f64,
}

/// The call tree of one profile.
pub(super) struct Tree {
    /// Time of a repetition.
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
        let mut sums: BTreeMap<Vec<String>, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        let mut own = frames.wall_ns.clone();
        for row in frames.rows.into_iter().filter(|row| row.inside) {
            own.iter_mut().zip(&row.self_ns).for_each(|(own, part)| *own -= part);
            let path = std::iter::once(root.to_string()).chain(row.row.path).collect();
            let (total, own) = sums.entry(path).or_insert_with(|| (vec![0.0; own.len()], vec![0.0; own.len()]));
            total.iter_mut().zip(&row.total_ns).for_each(|(sum, ns)| *sum += ns);
            own.iter_mut().zip(&row.self_ns).for_each(|(sum, ns)| *sum += ns);
        }
        let mut nodes: BTreeMap<Vec<String>, Times> = sums
            .into_iter()
            .map(|(path, (total, own))| {
                (path, Times { total: Sample::of(&total, &frames.sizes), own_ns: Sample::of(&own, &frames.sizes).mean })
            })
            .collect();
        nodes
            .insert(vec![root.to_string()], Times { total: repetitions, own_ns: Sample::of(&own, &frames.sizes).mean });
        Self { repetitions, count: repetitions_of(trace, root), nodes }
    }

    /// Every row of the summary; the time compared is that in spans, over all lanes.
    fn of_all(trace: &Trace) -> Self {
        let mut nodes: BTreeMap<Vec<String>, Times> = BTreeMap::new();
        let mut all = 0.0;
        for row in trace.summary().rows {
            all += row.self_ns;
            let times = nodes.entry(row.path).or_insert(Times { total: Sample::single(0.0), own_ns: 0.0 });
            times.total.mean += row.total_ns;
            times.own_ns += row.self_ns;
        }
        Self { repetitions: Sample::single(all), count: 1, nodes }
    }
}

/// The paths of both trees.
pub(super) fn paths(a: &Tree, b: &Tree) -> BTreeSet<Vec<String>> {
    a.nodes.keys().chain(b.nodes.keys()).cloned().collect()
}

/// Number and ticks of ended outermost spans by name, on the first thread that has any of that name.
fn roots(trace: &Trace) -> HashMap<&str, (usize, u64, f64)> {
    let mut roots: HashMap<&str, (usize, u64, f64)> = HashMap::new();
    for (number, lane) in trace.lanes.iter().enumerate().filter(|(_, lane)| lane.kind == LaneKind::Thread) {
        for span in lane.spans.iter().filter(|span| span.parent == NONE && !span.is_open()) {
            let known = roots.entry(trace.name(span)).or_insert((number, 0, 0.0));
            if known.0 == number {
                *known = (number, known.1 + 1, known.2 + trace.duration_ns(span));
            }
        }
    }
    roots
}

fn repetitions_of(trace: &Trace, root: &str) -> u64 {
    roots(trace).get(root).map_or(0, |known| known.1)
}

/// The outermost operation with the most time in the baseline that both repeat.
pub(super) fn common_root(baseline: &Trace, candidate: &Trace) -> Option<String> {
    let others = roots(candidate);
    let both =
        |(name, known): &(&str, (usize, u64, f64))| known.1 >= 2 && others.get(name).is_some_and(|other| other.1 >= 2);
    let mut known: Vec<(&str, (usize, u64, f64))> = roots(baseline).into_iter().filter(both).collect();
    known.sort_by(|a, b| b.1.2.total_cmp(&a.1.2).then(a.0.cmp(b.0)));
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
