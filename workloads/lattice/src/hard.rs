//! Hard inputs for the quantizer: values on cell borders, far outside the codebook or near 0, and counts that leave a
//! remainder for any vector width.

use ellwand_core::{Case, HardSet, InputError, Tensor};
use ellwand_simd::isa::Isa;

use super::workload as shared;

/// Vectors of a set.
const BATCH: i64 = 67;

/// What is hard; the function computes a value from its position, its ordinary value and beta.
type Value = fn(usize, f32, f32) -> f32;

const SETS: [(&str, Value); 7] = [
    ("odd sizes", |_, x, _| x),
    // Halves and quarters of the finest lattice are on borders of its cells.
    ("ties", |_, x, beta| (x / beta * 4.0).round() / 4.0 * beta),
    ("borders", |at, _, beta| beta * (at as f32 - 130.0) / 2.0),
    ("constant", |_, _, beta| beta / 2.0),
    ("zeros", |at, _, _| if at.is_multiple_of(2) { 0.0 } else { -0.0 }),
    ("huge", |at, x, _| if at.is_multiple_of(5) { f32::MAX.copysign(x) } else { x * 1e30 }),
    ("tiny", |_, x, _| x * 1e-38),
];

/// The hard sets of a coding workload, whose inputs `complete` makes from values.
pub(super) fn sets(
    case: &Case,
    seed: u64,
    complete: impl Fn(&Case, Tensor) -> Result<ellwand_core::Tensors, InputError>,
) -> Result<Vec<HardSet>, InputError> {
    let mut case = case.clone();
    case.set("batch", BATCH);
    let spec = shared::spec(&case)?;
    if spec.automatic {
        // A scale chosen for these values would put them back inside the codebook.
        case.set("beta", f64::from(spec.params.beta));
    }
    let made = SETS.iter().map(|(name, value)| {
        let mut x = shared::normal(spec.batch, spec.params.lattice.dimension(), spec.spread, seed)?;
        let beta = spec.params.beta;
        x.f32_mut()?.iter_mut().enumerate().for_each(|(at, x)| *x = value(at, *x, beta));
        let set = HardSet::new(*name, case.clone(), complete(&case, x)?);
        Ok(HardSet { also: Isa::others(&case), ..set })
    });
    made.collect()
}
