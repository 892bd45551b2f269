//! The layer operations compared with their definitions in f64.

mod accuracy;
mod agreement;
mod exact;
mod given;
mod half;
mod laws;
mod memory;
mod targets;

use ellwand_core::{Case, Tensor, Tensors, Value, Workload};

use super::job::{Job, Method};
use super::op::Op;
use super::piece::Way;
use super::workload::Layer;
use ellwand_simd::isa::Isa;

/// A case of `op` with default axes except for those given.
fn case(op: Op, extents: [usize; 3], more: &[(&str, &str)]) -> Case {
    let layer = Layer::new(op);
    let params = layer
        .axes()
        .iter()
        .map(|axis| {
            let value = match (["batch", "sequence", "dimension"].iter().position(|name| *name == axis.name), more) {
                (Some(at), _) => Value::Int(extents[at] as i64),
                (None, more) => match more.iter().find(|(name, _)| *name == axis.name) {
                    Some((_, text)) => axis.parse(text).unwrap(),
                    None => axis.default[0].clone(),
                },
            };
            (axis.name.to_string(), value)
        })
        .collect();
    Case::new(op.name(), params)
}

fn method(way: Way) -> Method {
    Method { way, parallel: false, unfused: false }
}

fn compute(op: Op, method: Method, case: &Case, inputs: &Tensors) -> Tensors {
    let mut job = Job::<f32>::new(op, method, case, inputs).unwrap();
    ellwand_core::Prepared::poison(&mut job, ellwand_core::Poison::Ones);
    job.compute();
    job.outputs().unwrap()
}

/// Every method in f32 on this machine.
fn ways() -> Vec<Way> {
    std::iter::once(Way::Scalar).chain(Isa::available().into_iter().map(Way::Vector)).collect()
}

/// Rows of one array as inputs of `op`: the case [1, rows, d], with the other inputs of `op` seeded.
fn on(op: Op, rows: &[Vec<f32>], more: &[(&str, &str)]) -> (Case, Tensors) {
    let d = rows[0].len();
    let case = case(op, [1, rows.len(), d], more);
    let mut inputs = Layer::new(op).inputs(&case, 7).unwrap();
    inputs.insert("x", Tensor::new(&[1, rows.len(), d], &rows.concat()[..]).unwrap());
    (case, inputs)
}
