//! Hard inputs for `matmul`.

use ellwand_core::{Case, HardSet, InputError, Tensors, Tolerance, Workload};

use super::half::INPUTS;
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::{self, Precision, narrowed, widened};

/// Changes an element of A or B.
type Change = fn(f32) -> f32;

/// Name, m, n and k, changes to the elements of A and B, and the magnitude of a product of two elements.
const SETS: [(&str, [i64; 3], [Change; 2], f64); 6] = [
    ("odd sizes", [7, 13, 67], [|a| a, |b| b], 1.0),
    ("one product", [1, 1, 1], [|a| a, |b| b], 1.0),
    ("ties", [7, 13, 67], [|a| a.round(), |b| b.round()], 1.0),
    ("offset 1e4 against 0", [7, 13, 67], [|a| 1e4 + a, |b| b], 1e4),
    ("huge", [7, 13, 67], [|a| a * 1e18, |b| b * 1e18], 1e36),
    ("huge and tiny", [7, 13, 67], [|a| a * 1e37, |b| b * 1e-37], 1.0),
];

/// The hard sets, whose ordinary inputs `workload` makes and whose tolerance is that of `sums`.
pub(super) fn sets(
    workload: &dyn Workload,
    case: &Case,
    seed: u64,
    sums: impl Fn(&Case) -> Tolerance,
) -> Result<Vec<HardSet>, InputError> {
    SETS.iter()
        .map(|(name, sizes, changes, magnitude)| {
            let mut case = case.clone();
            for (axis, size) in ["m", "n", "k"].into_iter().zip(sizes) {
                case.set(axis, *size);
            }
            let inputs = workload.inputs(&case, seed ^ workload.data_digest(&case))?;
            let also = Isa::others(&case);
            if Precision::of(&case) == Precision::Bf16 {
                let set = HardSet::new(*name, case, narrowed(changed(widened(inputs, &INPUTS)?, changes)?, &INPUTS)?);
                return Ok(HardSet { also, ..set });
            }
            let within = match sums(&case) {
                Tolerance::Close { absolute, relative } => {
                    Tolerance::Close { absolute: absolute * magnitude, relative }
                }
                exact @ Tolerance::Exact => exact,
            };
            Ok(HardSet { also, ..HardSet::new(*name, case, changed(inputs, changes)?).within(within) })
        })
        .collect()
}

fn changed(mut inputs: Tensors, changes: &[Change; 2]) -> Result<Tensors, InputError> {
    for (name, change) in ["a", "b"].into_iter().zip(changes) {
        precision::change(&mut inputs, name, |_, x| change(x))?;
    }
    Ok(inputs)
}
