//! Hard inputs for the decoder: marks that are all equal, unlike all others, or far from 0, an animal that
//! stands still, positions far from 0, and counts that leave a remainder for any vector width.

use ellwand_core::{Case, HardSet, InputError, Tensors, Workload};

use super::workload_spec::Task;
use ellwand_simd::isa::Isa;

/// Sizes of a set, for the axes that a task has.
const SIZES: [(&str, i64); 7] = [
    ("samples", 67),
    ("electrodes", 3),
    ("enc-spikes", 37),
    ("bins", 29),
    ("edges", 11),
    ("dec-spikes", 13),
    ("features", 3),
];

/// Name of a set, the arrays that change, and the new value of an element.
type Set = (&'static str, &'static [&'static str], fn(f64) -> f64);

const MARKS: [&str; 2] = ["enc_features_flat", "dec_features_flat"];
const PLACES: [&str; 3] = ["position", "dec_position", "grid"];

const SETS: [Set; 7] = [
    ("odd sizes", &[], |x| x),
    ("equal marks", &MARKS, |_| 17.0),
    // Whole numbers, whose differences are exact in f32 too.
    ("marks offset 1e6", &MARKS, |x| 1e6 + x.round()),
    ("marks far from all others", &["dec_features_flat"], |x| x + 1e5),
    ("tiny marks", &MARKS, |x| x * 1e-300),
    ("standing still", &["position", "dec_position"], |_| 50.0),
    ("positions offset 1e6", &PLACES, |x| 1e6 + x.round()),
];

/// The hard sets of a task, whose ordinary inputs `workload` makes.
pub(super) fn sets(workload: &dyn Workload, task: Task, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
    let mut case = case.clone();
    for (axis, size) in SIZES {
        case.set(axis, size);
    }
    let inputs = workload.inputs(&case, seed ^ workload.data_digest(&case))?;
    // The encoding model alone does not depend on marks.
    let kept = SETS.iter().filter(|(_, arrays, _)| task != Task::Fit || !arrays.contains(&MARKS[1]));
    kept.map(|(name, arrays, change)| {
        let mut inputs = inputs.clone();
        for name in *arrays {
            changed(&mut inputs, name, *change)?;
        }
        Ok(HardSet { also: Isa::others(&case), ..HardSet::new(*name, case.clone(), inputs) })
    })
    .collect()
}

/// Changes the elements of an array, if the task has it.
fn changed(inputs: &mut Tensors, name: &str, change: fn(f64) -> f64) -> Result<(), InputError> {
    let Some(mut array) = inputs.take(name) else { return Ok(()) };
    array.f64_mut()?.iter_mut().for_each(|x| *x = change(*x));
    inputs.insert(name, array);
    Ok(())
}
