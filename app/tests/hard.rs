//! Hard inputs: every workload names some, every implementation on this processor is right on them, with every
//! instruction set, and the gate refuses formulas that are right on ordinary inputs alone.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use ellwand::internals::bench::{Cell, Effort, Instrument, Plan, Selection};
use ellwand::internals::core::{
    Case, DeviceError, DeviceKind, Implementation, Outcome, Poison, Prepared, Registry, Tensor, Tensors,
};

static NEVER: AtomicBool = AtomicBool::new(false);

fn instrument(registry: &Registry) -> Instrument<'_> {
    Instrument::new(registry, Effort::Quick.settings(), 7, &NEVER)
}

/// The first case of a workload.
fn cell(registry: &Registry, workload: &str) -> Cell {
    cell_at(registry, workload, &[])
}

/// The same with values of some axes.
fn cell_at(registry: &Registry, workload: &str, axes: &[(&str, &str)]) -> Cell {
    let axes = axes.iter().map(|(axis, value)| ((*axis).to_string(), (*value).to_string())).collect();
    let selection = Selection { workloads: vec![workload.into()], axes, ..Selection::default() };
    Plan::expand(registry, &selection).unwrap().cells.swap_remove(0)
}

/// A softmax of rows by one formula for a weight: (score, largest score) to weight.
struct Planted {
    scores: Vec<f32>,
    shape: Vec<usize>,
    weight: fn(f32, f32) -> f32,
    weights: Vec<f32>,
}

impl Planted {
    fn row(name: &str, weight: fn(f32, f32) -> f32) -> Implementation {
        Implementation::cpu("attention-softmax", name, "planted", move |_: &Case, inputs, _| {
            let (scores, shape) = (inputs.f32("scores")?.to_vec(), inputs.get("scores")?.shape().to_vec());
            Ok(Box::new(Planted { weights: vec![0.0; scores.len()], scores, shape, weight }))
        })
    }
}

impl Prepared for Planted {
    fn run(&mut self) {
        let columns = self.shape[3];
        for (row, weights) in self.scores.chunks(columns).zip(self.weights.chunks_mut(columns)) {
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let some = top > f32::NEG_INFINITY;
            weights.iter_mut().zip(row).for_each(|(w, x)| *w = if some { (self.weight)(*x, top) } else { 0.0 });
            let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
            weights.iter_mut().filter(|_| some).for_each(|w| *w = (f64::from(*w) / sum) as f32);
        }
    }
    fn poison(&mut self, poison: Poison) {
        let mut tensor = Tensor::vector(&self.weights[..]);
        poison.fill_tensor(&mut tensor);
        self.weights.copy_from_slice(tensor.f32().unwrap());
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        let weights = Tensor::new(&self.shape, &self.weights[..]).map_err(|error| error.to_string())?;
        Ok(Tensors::new().with("weights", weights))
    }
}

#[test]
fn a_softmax_that_scales_before_it_subtracts_is_refused_on_hard_inputs_alone() {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    let mut registry = ellwand_cli::registry();
    registry.implementation(Planted::row("subtracts-first", |x, top| ((x - top) * LOG2_E).exp2()));
    registry.implementation(Planted::row("scales-first", |x, top| (x * LOG2_E - top * LOG2_E).exp2()));
    let cell = cell(&registry, "attention-softmax");
    let instrument = instrument(&registry);
    let made = instrument.inputs_and_reference(&cell).unwrap();
    let hard = instrument.hard_sets(&cell).unwrap();
    let row = |name: &str| cell.implementations.iter().find(|row| row.name == name).unwrap().clone();
    let right = row("subtracts-first");
    assert!(instrument.judged(&cell, &made, &right, true).is_ok());
    assert!(instrument.judged_on(&cell, &hard, &right).unwrap().right >= 8);
    let wrong = row("scales-first");
    assert!(instrument.judged(&cell, &made, &wrong, true).is_ok(), "ordinary inputs do not show it");
    let Err(Outcome::Wrong { verdict }) = instrument.judged_on(&cell, &hard, &wrong) else {
        panic!("hard inputs must show it")
    };
    assert!(verdict.detail.starts_with("hard set 'offset 1"), "{}", verdict.detail);
    // Code of another library is right where it is right, and the others are reported.
    let judged = instrument.judged_on(&cell, &hard, &Implementation { foreign: true, ..wrong.clone() }).unwrap();
    let why = judged.excepted.iter().find(|(set, _)| set == "offset 1e6").map(|(_, why)| why.as_str());
    assert!(judged.right > 0 && why.is_some_and(|why| why.contains("the reference")), "{judged:?}");
    // Sets outside the declared range are skipped and reported.
    let sets = ["offset 100", "offset 1e4", "offset 1e6", "offset -1e6", "constant rows", "growing scores", "huge"];
    let honest = sets.into_iter().fold(wrong, |row, set| row.except(set, "scores between -16 and 16"));
    let judged = instrument.judged_on(&cell, &hard, &honest).unwrap();
    assert!(judged.right > 0 && judged.excepted.len() == sets.len(), "{judged:?}");
}

#[test]
fn every_implementation_on_this_processor_is_right_on_hard_inputs() {
    let registry = ellwand_cli::registry();
    let instrument = instrument(&registry);
    let mut wrong = Vec::new();
    let others = [
        ("cross-entropy-loss", &[("targets", "probabilities")][..]),
        ("cross-entropy-loss", &[("targets", "probabilities"), ("precision", "bf16")][..]),
        ("cross-entropy-loss-backward", &[("targets", "probabilities")][..]),
    ];
    let names = registry.workloads().iter().map(|workload| (workload.name(), &[][..]));
    for (workload, axes) in names.filter(|(workload, _)| !ungated(workload)).chain(others) {
        let cell = cell_at(&registry, workload, axes);
        let hard = instrument.hard_sets(&cell).unwrap();
        for row in cell.implementations.iter().filter(|row| row.needs == DeviceKind::Cpu) {
            match instrument.judged_on(&cell, &hard, row) {
                Ok(judged) => {
                    assert!(judged.right + judged.excepted.len() >= 3, "{workload}: {judged:?}");
                    let names = judged.excepted.iter().map(|(set, _)| set);
                    assert!(
                        names.clone().all(|set| hard.iter().any(|(known, _)| known.name == *set)),
                        "{:?}",
                        judged.excepted
                    );
                }
                Err(outcome) => wrong.push(format!("{workload}:{} {axes:?}: {outcome:?}", row.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Workloads behind the ceilings move bytes, and no input is hard for them.
fn ungated(name: &str) -> bool {
    let mut calibration = Registry::new();
    ellwand_calibration::register(&mut calibration);
    ellwand_gpu::register(&mut calibration);
    calibration.workloads().iter().any(|workload| workload.name() == name)
}
