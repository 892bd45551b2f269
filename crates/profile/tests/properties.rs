//! The laws of the tree, for any order of begins and ends, in every mode.

use ellwand_profile::{Guard, Mode, NONE, Options, Profiler, Site, Trace};
use proptest::prelude::*;

static SITES: [Site; 3] = [Site::new("a", "x", 1), Site::new("b", "x", 2), Site::new("c", "x", 3)];

#[derive(Debug, Clone)]
enum Step {
    Begin(usize),
    /// Ends one of the open guards, by its distance from the innermost.
    End(usize),
    Leak(usize),
}

impl Step {
    fn nested(&self) -> Self {
        match self {
            Self::Begin(site) => Self::Begin(*site),
            Self::End(_) | Self::Leak(_) => Self::End(0),
        }
    }
}

type Nodes = std::collections::BTreeMap<String, u64>;

/// Counts by the last name of the path.
fn by_name(nodes: Nodes) -> Nodes {
    let mut names = Nodes::new();
    for (path, count) in nodes.into_iter().filter(|(_, count)| *count > 0) {
        *names.entry(path.rsplit('/').next().unwrap_or_default().to_string()).or_insert(0) += count;
    }
    names
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..3_usize).prop_map(Step::Begin),
        3 => Just(Step::End(0)),
        1 => (0..4_usize).prop_map(Step::End),
        1 => (0..3_usize).prop_map(Step::Leak),
    ];
    proptest::collection::vec(step, 0..120)
}

/// The tree expected from a plain list of open spans: path and count of spans begun, and the number left open.
fn expected(steps: &[Step]) -> (Nodes, u64) {
    let mut nodes = Nodes::new();
    // All spans with path and parent; the open ones; the current one.
    let mut spans: Vec<(String, Option<usize>)> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let (mut current, mut leaked) = (None, 0);
    for step in steps {
        match step {
            Step::Begin(site) => {
                let outer: Option<usize> = current;
                let path = outer.map_or(String::new(), |outer| spans[outer].0.clone() + "/") + SITES[*site].name;
                *nodes.entry(path.clone()).or_insert(0) += 1;
                spans.push((path, outer));
                open.push(spans.len() - 1);
                current = Some(spans.len() - 1);
            }
            Step::End(place) | Step::Leak(place) => {
                let Some(at) = open.len().checked_sub(place + 1) else { continue };
                let span = open.remove(at);
                if matches!(step, Step::Leak(_)) {
                    leaked += 1;
                    continue;
                }
                let around = std::iter::successors(current, |at| spans[*at].1).any(|at| at == span);
                if around {
                    current = spans[span].1;
                }
            }
        }
    }
    (nodes, leaked)
}

fn run(steps: &[Step], mode: Mode) -> Trace {
    let profiler = Profiler::new(Options::new(mode));
    let entered = profiler.enter();
    let mut open: Vec<Guard> = Vec::new();
    for step in steps {
        match step {
            Step::Begin(site) => open.push(Guard::enter(&SITES[*site])),
            Step::End(place) | Step::Leak(place) => {
                let Some(at) = open.len().checked_sub(place + 1) else { continue };
                let guard = open.remove(at);
                if matches!(step, Step::Leak(_)) { std::mem::forget(guard) } else { drop(guard) }
            }
        }
    }
    open.into_iter().rev().for_each(drop);
    drop(entered);
    profiler.finish()
}

/// Path and count of everything in a trace, one by one or aggregated, and the number left open.
fn found(trace: &Trace) -> (Nodes, u64) {
    let mut nodes = Nodes::new();
    let mut open = trace.open();
    for lane in &trace.lanes {
        let mut paths: Vec<String> = Vec::new();
        for span in &lane.spans {
            let outer = if span.parent == NONE { String::new() } else { paths[span.parent as usize].clone() + "/" };
            paths.push(outer + trace.name(span));
            *nodes.entry(paths[paths.len() - 1].clone()).or_insert(0) += 1;
        }
        let mut paths: Vec<String> = Vec::new();
        for total in &lane.totals {
            let outer = if total.parent == NONE { String::new() } else { paths[total.parent as usize].clone() + "/" };
            paths.push(outer + &trace.sites[total.site as usize - 1].name);
            *nodes.entry(paths[paths.len() - 1].clone()).or_insert(0) += total.count + total.open;
            open += total.open;
        }
    }
    (nodes, open)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 150 }, ..ProptestConfig::default() })]

    #[test]
    fn every_mode_keeps_the_same_tree(steps in steps(), spans in 0..150_u64) {
        let expected = expected(&steps);
        for mode in [Mode::Full { bytes: 1 << 20 }, Mode::Ring { spans: 1000 }] {
            prop_assert_eq!(&found(&run(&steps, mode)), &expected, "{:?}", mode);
        }
        // An aggregate cannot distinguish a guard that outlived its parent from a later one of the same path; nothing
        // is lost.
        for mode in [Mode::Aggregate, Mode::Full { bytes: 32 * spans }] {
            let (nodes, open) = found(&run(&steps, mode));
            prop_assert_eq!(by_name(nodes), by_name(expected.0.clone()), "{:?}", mode);
            prop_assert_eq!(open, expected.1);
        }
        // If guards end from the innermost outwards, the tree is the same.
        let nested: Vec<Step> = steps.iter().map(Step::nested).collect();
        let expected = self::expected(&nested);
        for mode in [Mode::Aggregate, Mode::Full { bytes: 32 * spans }] {
            let trace = run(&nested, mode);
            prop_assert!(trace.spans() <= spans);
            let (mut nodes, open) = found(&trace);
            nodes.retain(|_, count| *count > 0);
            prop_assert_eq!(&(nodes, open), &expected, "{:?}", mode);
        }
    }

    #[test]
    fn times_nest_and_add_up(steps in steps()) {
        let trace = run(&steps, Mode::Full { bytes: 1 << 20 });
        for span in trace.lanes.iter().flat_map(|lane| &lane.spans) {
            prop_assert!(span.start >= trace.start && (span.is_open() || span.end >= span.start));
        }
        for lane in &run(&steps, Mode::Aggregate).lanes {
            prop_assert!(lane.totals.iter().all(|total| total.self_ns >= 0.0), "{:?}", lane.totals);
        }
        let nested: Vec<Step> = steps.iter().map(Step::nested).collect();
        let trace = run(&nested, Mode::Aggregate);
        for lane in &trace.lanes {
            let total: f64 = lane.totals.iter().filter(|total| total.parent == NONE).map(|total| total.total_ns).sum();
            let own: f64 = lane.totals.iter().map(|total| total.self_ns).sum();
            prop_assert!((total - own).abs() <= 1e-6 * total.max(1.0), "{} {}", total, own);
            for total in &lane.totals {
                prop_assert_eq!(total.histogram.iter().map(|(_, count)| *count).sum::<u64>(), total.count);
            }
        }
    }
}
