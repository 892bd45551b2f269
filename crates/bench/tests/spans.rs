//! Spans are on in recordings and nowhere else. A single test, because a process has one session at a time.

mod common;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use common::{Bench, Clock};
use ellwand_bench::spans::cost;
use ellwand_core::record::{Outcome, Spans};
use ellwand_core::{DeviceError, Implementation, Poison, Prepared, Tensor, Tensors};
use ellwand_profile::{NONE, Session, scope, span};

/// Adds one to each value in two components, and notes whether a session was running.
struct AddOne {
    clock: Clock,
    x: Vec<f64>,
    out: Vec<f64>,
    seen: Arc<Mutex<Vec<bool>>>,
    runs: u64,
    /// Gives a wrong answer from this run on.
    wrong_from: u64,
    spans: bool,
}

impl Prepared for AddOne {
    fn load(&mut self, _: u64) {
        let _loading = span!("load, which is no component");
    }

    fn run(&mut self) {
        self.runs += 1;
        self.clock.advance(500);
        if self.spans {
            let whole = span!("add", items = self.x.len());
            self.seen.lock().expect("nobody panicked with it").push(whole.is_on());
            scope("copy", || self.out.copy_from_slice(&self.x));
            let link = whole.link();
            std::thread::scope(|threads| {
                let out = &mut self.out;
                threads.spawn(move || {
                    let helper = span!("increment", bytes = 8 * out.len());
                    helper.under(link);
                    out.iter_mut().for_each(|x| *x += 1.0);
                });
            });
        } else {
            self.out.iter_mut().zip(&self.x).for_each(|(out, x)| *out = x + 1.0);
        }
        if self.runs >= self.wrong_from {
            self.out.fill(0.0);
        }
    }

    fn poison(&mut self, poison: Poison) {
        poison.fill(&mut self.out);
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.out[..])))
    }
}

fn add(bench: &mut Bench, name: &str, wrong_from: u64, spans: bool) -> Arc<Mutex<Vec<bool>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (kept, clock) = (seen.clone(), bench.clock.clone());
    bench.registry.implementation(Implementation::cpu("add-one", name, "", move |_, inputs, _| {
        let x = inputs.get("x")?.f64()?.to_vec();
        let out = vec![0.0; x.len()];
        Ok(Box::new(AddOne { clock: clock.clone(), x, out, seen: kept.clone(), runs: 0, wrong_from, spans }))
    }));
    seen
}

#[test]
fn recordings_hold_components_and_measurements_run_without_spans() {
    let mut bench = Bench::default();
    let seen = add(&mut bench, "spanned", u64::MAX, true);
    add(&mut bench, "bare", u64::MAX, false);
    add(&mut bench, "wrong", 0, true);
    add(&mut bench, "rotting", 5, true);
    let never = AtomicBool::new(false);
    let instrument = bench.instrument(&never);
    let cell = bench.cell();
    let recordings = instrument.spans(&cell, cost(), &mut |_| {}).unwrap();
    let by_name = |name: &str| -> &Spans {
        &recordings.iter().find(|recording| recording.spans.implementation == name).unwrap().spans
    };

    let spanned = by_name("spanned");
    assert_eq!(spanned.outcome, Outcome::Measured);
    // A run costs 500 ns on the fake clock, and a case has a budget of 10 us.
    let iterations = 20;
    assert_eq!(spanned.iteration_ns.len() as u64, iterations);
    let mut recorded: Vec<(String, bool, u64, u64, u64)> =
        spanned.nodes.iter().map(|n| (n.path.join("/"), n.calling, n.calls, n.items, n.bytes)).collect();
    recorded.sort();
    assert_eq!(
        recorded,
        [
            ("add".into(), true, iterations, 4 * iterations, 0),
            ("add/copy".into(), true, iterations, 0, 0),
            ("add/increment".into(), false, iterations, 0, 8 * 4 * iterations),
        ]
    );
    for node in &spanned.nodes {
        assert_eq!(node.total_ns.len() as u64, iterations);
        assert!(node.total_ns.iter().zip(&node.self_ns).all(|(total, own)| own <= total && *own >= 0.0));
        if node.calling {
            assert!(node.total_ns.iter().zip(&spanned.iteration_ns).all(|(total, wall)| total <= wall));
        }
    }
    // The run before the iterations is not a component, but the trace names it.
    let trace = recordings[0].trace.as_ref().unwrap();
    let spans = trace.lanes.iter().flat_map(|lane| &lane.spans);
    let mut outermost: Vec<&str> = spans.filter(|span| span.parent == NONE).map(|span| trace.name(span)).collect();
    outermost.retain(|name| !["(iteration)", "increment"].contains(name) && !name.starts_with("load"));
    assert_eq!((recordings[0].spans.implementation.as_str(), outermost), ("spanned", vec!["(warm-up)"]));
    assert_eq!((spanned.dropped, spanned.open, spanned.spans), (0, 0, 3 * iterations));
    assert!(spanned.cost.is_some_and(|cost| cost.on_ns >= 0.0));
    // The two runs of the first check, the trial session (two runs), the kept session and the second check: on in the two
    // sessions only.
    let before = seen.lock().unwrap().clone();
    let on = before.iter().filter(|on| **on).count() as u64;
    assert_eq!((before.first(), before.last()), (Some(&false), Some(&false)));
    assert_eq!((on, before.len() as u64), (2 + 1 + iterations, on + 3));

    assert!(by_name("bare").outcome.is_measured() && by_name("bare").nodes.is_empty());
    for name in ["wrong", "rotting"] {
        assert!(matches!(by_name(name).outcome, Outcome::Wrong { .. }), "{:?}", by_name(name).outcome);
        assert!(by_name(name).nodes.is_empty(), "components of a wrong answer are none");
    }

    // Headline timings never run during a session.
    seen.lock().unwrap().clear();
    let measured = bench.measure();
    assert_eq!(measured[0].outcome, Outcome::Measured);
    let during = seen.lock().unwrap().clone();
    assert!(!during.is_empty() && during.iter().all(|on| !on));

    // A session started elsewhere is reported, not mixed in.
    let other = Session::start().unwrap();
    assert!(cost().is_some());
    let refused = instrument.spans(&cell, None, &mut |_| {}).unwrap();
    assert!(matches!(&refused[0].spans.outcome, Outcome::Failed { error } if error.contains("already recording")));
    drop(other);
    let stop = AtomicBool::new(true);
    assert!(bench.instrument(&stop).spans(&cell, None, &mut |_| {}).is_err());
}
