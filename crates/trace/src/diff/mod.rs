//! How two profiles differ: call trees aligned by path, with the uncertainty of every ratio and contributions that add
//! up to the total change.
//!
//! # What an interval covers
//!
//! The repetitions of a root operation inside one recording are pooled into at most 64 groups, whose means are the
//! samples. The interval of a ratio of means is Welch's, from the spread of the groups, on a logarithmic scale. It
//! covers variation within each recording. It cannot cover variation between processes, such as the placement of
//! memory: two recordings suggest a change; `ellwand compare` with fresh processes shows one.

mod align;
mod recorded;
mod text;
mod welch;

use ellwand_profile::Trace;
use ellwand_stats::Difference;
use serde::{Serialize, Serializer};

use align::Tree;
use welch::{Sample, holm};

pub use welch::Ratio;

/// How profiles are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffOptions {
    /// The repeated operation to compare, at any depth. `None` chooses the outermost one with the most time that both
    /// profiles repeat and that covers half of the busiest thread's span time; without one, the whole profiles are
    /// compared.
    pub root: Option<String>,
    /// Ratios within `1 / (1 + rope) ..= 1 + rope` count as the same.
    pub rope: f64,
    /// Probability of a wrong verdict on the root, and of one on any node, if groups are independent.
    pub alpha: f64,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { root: None, rope: 0.01, alpha: 0.01 }
    }
}

/// One side of a difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiffSide {
    /// Name of the profile.
    pub name: String,
    /// Repetitions of the root; 1 if the whole profiles are compared.
    pub repetitions: u64,
    /// Mean nanoseconds of a repetition.
    pub mean_ns: f64,
}

/// How a node of the call tree changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Names from the root to the node.
    pub path: Vec<String>,
    /// Mean nanoseconds inside per repetition of the baseline; `None` if the node is new.
    pub baseline_ns: Option<f64>,
    /// The same for the candidate; `None` if the node is gone.
    pub candidate_ns: Option<f64>,
    /// Mean number of calls per repetition of the baseline; `None` if the node is new.
    pub baseline_calls: Option<f64>,
    /// The same for the candidate; `None` if the node is gone.
    pub candidate_calls: Option<f64>,
    /// Candidate over baseline; `None` for new and removed nodes, and without repetitions.
    pub ratio: Option<Ratio>,
    /// Change of the self time per repetition. The contributions of all nodes add up to the change of the root.
    pub contribution_ns: f64,
    /// The verdict; faster and slower mean by more than the region of practical equivalence.
    #[serde(serialize_with = "word")]
    pub verdict: Difference,
}

/// Differences of two profiles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The repeated operation that was compared; `None` for the whole profiles.
    pub root: Option<String>,
    /// The profile that the candidate is compared with.
    pub baseline: DiffSide,
    /// The profile that may have changed.
    pub candidate: DiffSide,
    /// Candidate over baseline, per repetition of the root.
    pub ratio: Option<Ratio>,
    /// Confidence of the intervals of all ratios.
    pub confidence: f64,
    /// What the intervals cover, if there are any.
    pub interval_covers: Option<&'static str>,
    /// Change of the mean, in nanoseconds.
    pub change_ns: f64,
    /// The verdict on the root.
    #[serde(serialize_with = "word")]
    pub verdict: Difference,
    /// Nodes by descending size of their contribution.
    pub nodes: Vec<Node>,
    /// Limitations of the comparison, one sentence each.
    pub notes: Vec<String>,
}

fn word<S: Serializer>(difference: &Difference, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(difference.word())
}

/// Why two profiles cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DiffError {
    /// The requested root is missing.
    #[error("the {side} has no span called {root:?} that ended; its spans are: {known}")]
    NoRoot {
        /// `baseline` or `candidate`.
        side: &'static str,
        /// The requested name.
        root: String,
        /// Names of the spans that it has.
        known: String,
    },
    /// A setting is out of its range.
    #[error("{name} is {value}; expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The accepted range.
        expected: &'static str,
    },
}

/// Compares a candidate with a baseline.
///
/// # Errors
/// The requested root is missing in one of them, or a setting is out of range.
pub fn diff(baseline: &Trace, candidate: &Trace, options: &DiffOptions) -> Result<Diff, DiffError> {
    check(options)?;
    let root = match &options.root {
        Some(root) => {
            align::require(baseline, "baseline", root)?;
            align::require(candidate, "candidate", root)?;
            Some(root.clone())
        }
        None => align::common_root(baseline, candidate),
    };
    let trees = [baseline, candidate].map(|trace| Tree::of(trace, root.as_deref()));
    let mut notes = Vec::new();
    if root.is_none() {
        let aggregated = |trace: &Trace| trace.spans() == 0 && trace.lanes.iter().any(|lane| lane.held() > 0);
        let why = match (aggregated(baseline), aggregated(candidate)) {
            (true, true) => "both profiles have aggregated spans only",
            (true, false) => "the baseline has aggregated spans only",
            (false, true) => "the candidate has aggregated spans only",
            _ => {
                "no operation is repeated in both profiles and covers half of the time in spans of their busiest threads \
                 (name one as the root)"
            }
        };
        notes.push(format!("{why}, so the spread is unknown: whole profiles are compared, without intervals"));
    }
    for (trace, side) in [(baseline, "baseline"), (candidate, "candidate")] {
        let root = root.as_deref().map(|root| (root, align::repetitions_of(trace, root).1));
        notes.extend(recorded::limitations(trace, side, root));
    }
    let [a, b] = &trees;
    let ratio = Ratio::of(&a.repetitions, &b.repetitions, options.alpha);
    let p = ratio.map(|ratio| ratio.p);
    let found = ratio.map_or(UNKNOWN, |ratio| ratio.verdict(options, p.unwrap_or(1.0)));
    let verdict = recorded::checked(found, [baseline, candidate], root.as_deref(), options, &mut notes);
    let mut nodes = nodes(a, b, options);
    if found != verdict {
        nodes.iter_mut().for_each(|node| node.verdict = UNKNOWN);
    }
    let side = |trace: &Trace, tree: &Tree| DiffSide {
        name: trace.name.clone(),
        repetitions: tree.count,
        mean_ns: tree.repetitions.mean,
    };
    Ok(Diff {
        baseline: side(baseline, a),
        candidate: side(candidate, b),
        change_ns: b.repetitions.mean - a.repetitions.mean,
        root,
        ratio,
        confidence: 1.0 - options.alpha,
        interval_covers: ratio.map(|_| COVERED),
        verdict,
        nodes,
        notes,
    })
}

/// Two recordings cannot show how much processes differ.
const COVERED: &str = "the two recordings, not differences between processes";
const UNKNOWN: Difference = Difference::Undecided { blocks_needed: None };

fn check(options: &DiffOptions) -> Result<(), DiffError> {
    if !(options.rope >= 0.0 && options.rope.is_finite()) {
        let expected = "a share of at least 0, such as 0.01";
        return Err(DiffError::Setting { name: "rope", value: options.rope, expected });
    }
    if !(options.alpha > 0.0 && options.alpha < 0.5) {
        let expected = "a probability between 0 and 0.5";
        return Err(DiffError::Setting { name: "alpha", value: options.alpha, expected });
    }
    Ok(())
}

fn nodes(a: &Tree, b: &Tree, options: &DiffOptions) -> Vec<Node> {
    let mut nodes: Vec<Node> = align::paths(a, b)
        .into_iter()
        .map(|path| {
            let (in_a, in_b) = (a.nodes.get(&path), b.nodes.get(&path));
            let ratio = match (in_a, in_b) {
                (Some(one), Some(other)) => Ratio::of(&one.total, &other.total, options.alpha),
                _ => None,
            };
            let own = |node: Option<&align::Times>| node.map_or(0.0, |times| times.own_ns);
            Node {
                baseline_ns: in_a.map(|times| times.total.mean),
                candidate_ns: in_b.map(|times| times.total.mean),
                baseline_calls: in_a.map(|times| times.calls),
                candidate_calls: in_b.map(|times| times.calls),
                ratio,
                contribution_ns: own(in_b) - own(in_a),
                verdict: UNKNOWN,
                path,
            }
        })
        .collect();
    // Many nodes are tested, so each needs stronger evidence than a single one.
    let corrected = holm(&nodes.iter().map(|node| node.ratio.map(|ratio| ratio.p)).collect::<Vec<_>>());
    for (node, p) in nodes.iter_mut().zip(corrected) {
        if let (Some(ratio), Some(p)) = (&mut node.ratio, p) {
            node.verdict = ratio.verdict(options, p);
            ratio.p = p;
        }
    }
    nodes.sort_by(|a, b| b.contribution_ns.abs().total_cmp(&a.contribution_ns.abs()).then_with(|| a.path.cmp(&b.path)));
    nodes
}

impl Diff {
    /// The differences as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Sample {
    /// A mean of one run, without spread.
    fn single(mean: f64) -> Self {
        Self { mean, error: None, groups: 1 }
    }
}
