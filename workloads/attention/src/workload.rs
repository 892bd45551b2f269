//! The workload of each task: arrays, reference, required work and tolerances.

use ellwand_core::verdict::compare;
use ellwand_core::{
    Case, Description, Dtype, Fit, HardSet, InputError, Ports, Tensors, Tolerance, Verdict, Work, Workload,
};
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::{self, Precision, narrowed, widened};

use super::shape::{Mask, Shape};
use super::task::Task;
use super::{arrays, bf16, hard, job, reference, way};

/// The work of a task on arrays of this shape.
fn required(task: Task, shape: Result<Shape, InputError>, precision: Precision) -> Work {
    let Ok(s) = shape else { return Work::items("positions", 0) };
    let (read, written) = arrays::traffic(task, &s, precision);
    let bf16 = precision == Precision::Bf16;
    Work::items("positions", s.positions() as u64).flops(task.flops(&s)).bytes(read, written).bf16(bf16)
}

/// Largest score for which the tolerances hold unscaled. The error of an f32 score is proportional to its products, and
/// the relative error of a weight equals that of its score: beyond this the tolerance grows with the largest possible
/// score.
const USUAL_SCORE: f64 = 16.0;

pub(super) struct Attention {
    pub(super) task: Task,
    pub(super) description: Description,
}

impl Workload for Attention {
    fn description(&self) -> &Description {
        &self.description
    }
    fn check(&self, case: &Case) -> Result<(), InputError> {
        Shape::of(case)?;
        Isa::of(case).map(drop)
    }
    fn remarks(&self, case: &Case) -> Vec<String> {
        match Shape::of(case) {
            Ok(s) if s.mask == Mask::Padding && case.input.is_some() => {
                vec!["required work counts the lengths that this case would make, not those given".into()]
            }
            _ => Vec::new(),
        }
    }
    fn footprint(&self, case: &Case) -> u64 {
        let names = way::ways(self.task).iter().map(|way| self.footprint_of(case, way.name));
        names.max().unwrap_or(0)
    }
    fn footprint_of(&self, case: &Case, implementation: &str) -> u64 {
        let Ok(s) = Shape::of(case) else { return 0 };
        let (read, written) = arrays::bytes(self.task, &s, Precision::F32);
        // Inputs and a job's copy of them (widened if bf16); the reference's output in f64 and f32, the job's output
        // and the copy it returns.
        let arrays = read.saturating_mul(3).saturating_add(written.saturating_mul(5));
        // A device has separate working memory.
        let way = way::ways(self.task).iter().find(|way| way.name == implementation);
        arrays.saturating_add(way.map_or(0, |way| job::extra(self.task, way, &s)))
    }
    fn ports(&self, case: &Case) -> Ports {
        let ports = Shape::of(case).map_or_else(|_| Ports::default(), |s| arrays::ports(self.task, &s));
        if Precision::of(case) == Precision::Bf16 {
            precision::ports(ports, |port| port.dtype == Dtype::F32)
        } else {
            ports
        }
    }
    fn data_digest(&self, case: &Case) -> u64 {
        Isa::data_digest(case)
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let made = arrays::make(self.task, &Shape::of(case)?, seed)?;
        if Precision::of(case) == Precision::Bf16 { narrowed(made, &bf16::INPUTS) } else { Ok(made) }
    }
    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        hard::sets(self, case, seed)
    }
    fn adopt(&self, case: &Case, given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        if Precision::of(case) == Precision::Bf16 {
            let (case, kept) = arrays::adopt(self.task, case, widened(given, &bf16::INPUTS)?, fit)?;
            return Ok((case, narrowed(kept, &bf16::INPUTS)?));
        }
        arrays::adopt(self.task, case, given, fit)
    }
    fn open_axes(&self) -> &[&'static str] {
        if matches!(self.task, Task::Whole | Task::Layer) { &["heads"] } else { &[] }
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let s = Shape::of(case)?;
        if Precision::of(case) == Precision::Bf16 {
            return bf16::reference(&s, inputs);
        }
        reference::reference(self.task, &s, inputs)
    }
    fn work(&self, case: &Case) -> Work {
        required(self.task, Shape::of(case), Precision::of(case))
    }
    fn work_of(&self, case: &Case, inputs: &Tensors) -> Work {
        required(self.task, arrays::shape(case, inputs), Precision::of(case))
    }
    /// For outputs of magnitude at most 1 and scores up to [`USUAL_SCORE`]; [`Workload::judge`] scales the absolute
    /// part with both. In bf16 the absolute part refers to the spread of an output's terms (`bf16.rs`).
    fn tolerance(&self, case: &Case) -> Tolerance {
        if Precision::of(case) == Precision::Bf16 {
            return bf16::tolerance();
        }
        let d = Shape::of(case).map_or(1, |s| s.dimension) as f64;
        let absolute = match self.task {
            Task::Softmax | Task::WeightedSum | Task::Core => 1e-6,
            Task::Scores => 1e-6,
            // Partial sums of `dimension` products.
            Task::Qkv | Task::Output => 1e-6 + 2e-8 * d.sqrt(),
            Task::Whole => 2e-6 + 4e-8 * d.sqrt(),
            Task::Layer => 4e-6 + 1e-7 * d.sqrt(),
        };
        Tolerance::Close { absolute, relative: 1e-6 }
    }
    fn fixed_tolerance(&self, case: &Case) -> Option<String> {
        let half = Precision::of(case) == Precision::Bf16;
        half.then(|| "in bf16 it is a multiple of the spread of each sum's terms".into())
    }
    fn judge(&self, case: &Case, inputs: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        if Precision::of(case) == Precision::Bf16 {
            return bf16::judge(expected, got);
        }
        let largest = expected
            .iter()
            .filter_map(|(_, tensor)| tensor.f32().ok())
            .flat_map(|values| values.iter().copied().filter(|v| v.is_finite()))
            .fold(1.0_f32, |largest, v| largest.max(v.abs()));
        let Tolerance::Close { absolute, relative } = self.tolerance(case) else {
            return compare(expected, got, self.tolerance(case));
        };
        let within = |times: f64| {
            let absolute = absolute * f64::from(largest) * times;
            compare(expected, got, Tolerance::Close { absolute, relative })
        };
        let verdict = within(1.0);
        if verdict.passed {
            return verdict;
        }
        // Computed only now, because it repeats the projections.
        let score = Shape::of(case).and_then(|s| reference::largest_score(self.task, &s, inputs)).unwrap_or(0.0);
        if score > USUAL_SCORE { within(score / USUAL_SCORE) } else { verdict }
    }
}
