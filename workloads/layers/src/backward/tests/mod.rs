//! The gradients compared with their definitions, with finite differences of the operations, and with known properties.

mod agreement;
mod differences;
mod edges;
mod given;

use ellwand_core::{Case, Prepared, Tensor, Tensors, Value, Workload};

use super::job::Job;
use super::op::Op;
use super::workload::Backward;
use crate::job::Method;
use crate::piece::Way;
use ellwand_simd::isa::Isa;

/// A case of `op` with default axes except for those given.
fn case(op: Op, extents: [usize; 3], more: &[(&str, &str)]) -> Case {
    let task = Backward::new(op);
    let params = task.axes().iter().map(|axis| {
        let value = match ["batch", "sequence", "dimension"].iter().position(|name| *name == axis.name) {
            Some(at) => Value::Int(extents[at] as i64),
            None => match more.iter().find(|(name, _)| *name == axis.name) {
                Some((_, text)) => axis.parse(text).unwrap(),
                None => axis.default[0].clone(),
            },
        };
        (axis.name.to_string(), value)
    });
    Case::new(op.name(), params.collect())
}

fn method(way: Way) -> Method {
    Method { way, parallel: false, unfused: false }
}

fn compute(op: Op, method: Method, case: &Case, inputs: &Tensors) -> Tensors {
    let mut job = Job::new(op, method, case, inputs).unwrap();
    job.poison(ellwand_core::Poison::Ones);
    job.compute();
    job.outputs().unwrap()
}

/// Every method in f32 on this machine.
fn ways() -> Vec<Way> {
    std::iter::once(Way::Scalar).chain(Isa::available().into_iter().map(Way::Vector)).collect()
}

/// Axes other than the shape that change the result.
fn forms(op: Op) -> Vec<Vec<(&'static str, &'static str)>> {
    match op {
        Op::Gelu => vec![vec![("form", "exact")], vec![("form", "tanh")]],
        Op::MseLoss => ["mean", "sum", "none"].map(|word| vec![("reduction", word)]).to_vec(),
        Op::CrossEntropyLoss => {
            let reductions = ["mean", "sum", "none"].map(|word| ("reduction", word));
            let words = ["labels", "probabilities"];
            words.iter().flat_map(|word| reductions.map(|reduction| vec![("targets", *word), reduction])).collect()
        }
        _ => vec![vec![]],
    }
}

/// Seeded inputs of [1, rows, d], with the given x and dy.
fn on(op: Op, x: &[Vec<f32>], dy: Option<&[f32]>, more: &[(&str, &str)]) -> (Case, Tensors) {
    let extents = [1, x.len(), x[0].len()];
    let case = case(op, extents, more);
    let mut inputs = Backward::new(op).inputs(&case, 7).unwrap();
    inputs.insert("x", Tensor::new(&extents, &x.concat()[..]).unwrap());
    if let Some(dy) = dy {
        inputs.insert("dy", Tensor::new(&extents, dy).unwrap());
    }
    (case, inputs)
}

fn judged(op: Op, case: &Case, inputs: &Tensors, got: &Tensors) -> Result<(), String> {
    let task = Backward::new(op);
    let verdict = task.judge(case, inputs, &task.reference(case, inputs).unwrap(), got);
    if verdict.passed { Ok(()) } else { Err(verdict.detail) }
}
