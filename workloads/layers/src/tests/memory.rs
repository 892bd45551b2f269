//! The extra memory of an implementation is what it holds.

use ellwand_core::{Case, Prepared, Tensors};

use super::{Layer, Op, case, method};
use crate::half::Element;
use crate::job::{Job, Method};
use crate::piece::{PAGE, Way};
use ellwand_core::Workload;
use ellwand_simd::isa::Isa;

fn extra<T: Element>(op: Op, method: Method, case: &Case, inputs: &Tensors) -> f64 {
    let mut job = Job::<T>::new(op, method, case, inputs).unwrap();
    job.compute();
    job.readings().iter().find(|reading| reading.id == "extra-memory").and_then(|reading| reading.value).unwrap()
}

#[test]
fn extra_memory_is_what_an_implementation_holds() {
    let best = Way::Vector(Isa::best());
    let of = |op: Op, method: Method| {
        let case = case(op, [2, 8, 64], &[]);
        extra::<f32>(op, method, &case, &Layer::new(op).inputs(&case, 1).unwrap())
    };
    for way in [Way::Reference, Way::Scalar, best] {
        assert_eq!(of(Op::Gelu, method(way)), 0.0, "{way:?} holds nothing");
        assert_eq!(of(Op::MseLoss, method(way)), 8.0, "{way:?} sums the losses of one piece");
    }
    assert_eq!(of(Op::LayerNorm, method(Way::Scalar)), 0.0);
    assert_eq!(of(Op::LayerNorm, method(Way::Reference)), 8.0 * 64.0, "a row in f64");
    assert_eq!(of(Op::Softmax, method(best)), 4.0 * (8 * 64 + PAGE) as f64, "eight rows and their alignment");
    let unfused = Method { unfused: true, ..method(best) };
    assert_eq!(of(Op::BiasGelu, unfused), 4.0 * 1024.0, "the array between");
    assert_eq!(of(Op::ResidualLayerNorm, unfused), 0.0, "the array between is an output");
}

#[test]
fn bf16_holds_the_widened_rows() {
    let best = Way::Vector(Isa::best());
    let of = |op: Op, way: Way| {
        let case = case(op, [2, 8, 64], &[("precision", "bf16")]);
        extra::<u16>(op, method(way), &case, &Layer::new(op).inputs(&case, 1).unwrap())
    };
    assert_eq!(of(Op::Gelu, best), 0.0, "from memory to memory");
    // 1024 values each of x, a second array and y.
    assert_eq!(of(Op::Gelu, Way::Scalar), 4.0 * (4 * PAGE) as f64);
    assert_eq!(of(Op::Softmax, best), 4.0 * (4 * PAGE + 8 * 64 + PAGE) as f64);
}
