//! Defective implementations that must not pass the gate: they compute nothing, compute a part, or return an old
//! result.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::AtomicBool;

use common::Bench;
use ellwand_bench::plan::{Cell, Plan, Selection};
use ellwand_core::record::Outcome;
use ellwand_core::{
    Axis, Case, Compared, Description, DeviceError, Implementation, InputError, Poison, Prepared, Tensor, Tensors,
    Work, Workload,
};

/// A workload whose answer is its input.
struct Echo(Description);

impl Workload for Echo {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        100
    }
    /// n = 1 gives NaN, n = 2 zeros, n = 3 nothing, other values numbers.
    fn inputs(&self, case: &Case, _: u64) -> Result<Tensors, InputError> {
        let y = match case.int("n") {
            Some(1) => vec![f32::from_bits(u32::MAX); 8],
            Some(2) => vec![0.0; 8],
            Some(3) => Vec::new(),
            _ => vec![1.0, 2.0, f32::NAN, 4.0, 5.0, 6.0, f32::NAN, 8.0],
        };
        Ok(Tensors::new().with("y", Tensor::vector(&y[..])))
    }
    fn reference(&self, _: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        Ok(inputs.clone())
    }
    fn work(&self, _: &Case) -> Work {
        Work::items("numbers", 8)
    }
}

/// What an implementation does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Plant {
    /// Nothing: it is right.
    None,
    /// It never writes its outputs.
    Idle,
    /// It writes numbers, but no NaN.
    SkipsNan,
    /// It computes once, and its outputs survive the poison.
    Survives,
}

struct Planted {
    plant: Plant,
    clock: common::Clock,
    x: Vec<f32>,
    y: Vec<f32>,
    runs: u64,
}

impl Prepared for Planted {
    fn run(&mut self) {
        self.clock.advance(500);
        self.runs += 1;
        let (plant, first) = (self.plant, self.runs == 1);
        for (y, x) in self.y.iter_mut().zip(&self.x) {
            match plant {
                Plant::Idle => {}
                Plant::SkipsNan if x.is_nan() => {}
                Plant::Survives if !first => {}
                _ => *y = *x,
            }
        }
    }
    fn poison(&mut self, poison: Poison) {
        if self.plant != Plant::Survives {
            poison.fill(&mut self.y);
        }
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..])))
    }
}

fn judged(n: i64, plant: Plant) -> Outcome {
    let mut bench = Bench::default();
    let axes = vec![Axis::int("n", "which answer", 1, 9, 9)];
    bench.registry.workload(Echo(Description::new("echo", "the answer is the input").axes(axes)));
    let clock = bench.clock.clone();
    bench.registry.implementation(Implementation::cpu("echo", "planted", "", move |_, inputs, _| {
        let x = inputs.f32("y")?.to_vec();
        Ok(Box::new(Planted { plant, clock: clock.clone(), y: vec![0.0; x.len()], x, runs: 0 }))
    }));
    let axes = [("n".to_string(), n.to_string())].into();
    let selection = Selection { workloads: vec!["echo".into()], axes, ..Selection::default() };
    let cell: Cell = Plan::expand(&bench.registry, &selection).unwrap().cells.remove(0);
    let never = AtomicBool::new(false);
    let mut measured = bench.instrument(&never).measure(&cell, &mut |_| {}).unwrap();
    let row = measured.remove(0);
    if row.outcome == Outcome::Measured {
        // This also covers an answer that looks like poison, so it is judged again.
        assert_eq!(row.check.as_ref().unwrap().compared, Some(Compared::all(8)), "{row:?}");
    } else {
        assert!(row.samples.is_empty(), "{row:?}");
    }
    row.outcome
}

#[test]
fn an_implementation_that_writes_nothing_is_wrong_for_any_reference() {
    for n in [1, 2, 9] {
        assert_eq!(judged(n, Plant::None), Outcome::Measured);
        assert!(matches!(judged(n, Plant::Idle), Outcome::Wrong { .. }), "{n}: {:?}", judged(n, Plant::Idle));
    }
    let skips = judged(9, Plant::SkipsNan);
    assert!(matches!(skips, Outcome::Wrong { .. }), "{skips:?}");
}

#[test]
fn outputs_that_survive_the_poison_are_never_timed() {
    let outcome = judged(9, Plant::Survives);
    assert!(outcome.reason().is_some_and(|why| why.contains("poison")), "{outcome:?}");
}

#[test]
fn an_empty_answer_is_wrong() {
    let outcome = judged(3, Plant::None);
    assert!(outcome.reason().is_some_and(|why| why.contains("nothing")), "{outcome:?}");
}
