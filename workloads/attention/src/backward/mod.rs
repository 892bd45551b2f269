//! A training step of the core: the forward pass, and the gradients of queries, keys and values. The backward pass needs
//! the softmax weights. They are either kept from the forward pass or recomputed when needed (gradient checkpointing, T.
//! Chen et al., Training deep nets with sublinear memory cost, 2016), which takes more time but less memory.
//!
//! With W the weights, D the sums of dcontext * context over each row, and s the scale of the scores:
//! dv = W^T dcontext, dscores = W * (dcontext v^T - D), dq = s dscores k, dk = s dscores^T q.

mod job;
mod reference;
#[cfg(test)]
mod tests;

use ellwand_core::verdict::compare;
use ellwand_core::{
    Case, Description, Dtype, Fit, HardSet, InputError, Port, Ports, Registry, Tensor, Tensors, Tolerance, Verdict,
    Work, Workload,
};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::Task;
use super::arrays;
use super::hard;
use super::shape::{self, Shape};
use ellwand_gemm::normal;
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::Precision;

pub(super) const NAME: &str = "attention-core-backward";
/// The upstream gradient.
const UPSTREAM: &str = "dcontext";
/// Outputs: the context, then the gradient of each input.
const OUTPUTS: [(&str, &str, bool); 4] = [
    ("context", "weighted sums of the values", true),
    ("dq", "gradient of the queries", true),
    ("dk", "gradient of the keys", false),
    ("dv", "gradient of the values", false),
];

struct Backward(Description);

/// Shape of an output: that of the queries or of the keys.
fn dims(s: &Shape, of_queries: bool) -> [usize; 4] {
    let (heads, rows) = if of_queries { (s.heads, s.sequence) } else { (s.kv_heads, s.keys) };
    [s.batch, heads, rows, s.head()]
}

impl Workload for Backward {
    fn description(&self) -> &Description {
        &self.0
    }

    fn check(&self, case: &Case) -> Result<(), InputError> {
        Shape::of(case)?;
        Isa::of(case).map(drop)
    }

    fn footprint(&self, case: &Case) -> u64 {
        self.footprint_of(case, "stored")
    }

    fn footprint_of(&self, case: &Case, implementation: &str) -> u64 {
        let Ok(s) = Shape::of(case) else { return 0 };
        let (read, written) = bytes(&s);
        // Inputs and a job's copy of them; outputs, the copy that it returns and the reference's, also in f64.
        let arrays = read.saturating_mul(3).saturating_add(written.saturating_mul(5));
        arrays.saturating_add(job::extra(&s, implementation))
    }

    fn ports(&self, case: &Case) -> Ports {
        let Ok(s) = Shape::of(case) else { return Ports::default() };
        let mut ports = arrays::ports(Task::Core, &s);
        let port = |name, shape, about| Port { name, dtype: Dtype::F32, shape, about, required: true };
        ports.inputs.push(port(UPSTREAM, arrays::QUERIES, "upstream gradient"));
        let shape = |of_queries| if of_queries { arrays::QUERIES } else { arrays::KEYS };
        ports.outputs = OUTPUTS.map(|(name, about, of_queries)| port(name, shape(of_queries), about)).into();
        ports
    }

    fn data_digest(&self, case: &Case) -> u64 {
        Isa::data_digest(case)
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let s = Shape::of(case)?;
        // Distinguishes the upstream gradient from the forward arrays.
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(1);
        Ok(arrays::make(Task::Core, &s, seed)?.with(UPSTREAM, normal(&dims(&s, true), 1.0, &mut rng)?))
    }

    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        hard::of_gradients(self, case, seed)
    }

    fn adopt(&self, case: &Case, mut given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        let upstream = given.take(UPSTREAM);
        let (case, kept) = arrays::adopt(Task::Core, case, given, fit)?;
        let wanted = dims(&Shape::of(&case)?, true);
        let Some(upstream) = upstream else {
            return Err(InputError::new(UPSTREAM, "this array is missing", format!("{wanted:?}, the shape of q")));
        };
        upstream.f32().map_err(|error| InputError { argument: UPSTREAM.into(), ..error })?;
        if upstream.shape() != wanted {
            let problem = format!("its shape is {:?}", upstream.shape());
            return Err(InputError::new(UPSTREAM, problem, format!("{wanted:?}, the shape of q")));
        }
        Ok((case, kept.with(UPSTREAM, upstream)))
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        reference::outputs(&Shape::of(case)?, inputs)
    }

    /// The products of the forward pass, and the four of the gradients. Recomputing the weights is not required work.
    fn work(&self, case: &Case) -> Work {
        required(Shape::of(case))
    }

    fn work_of(&self, case: &Case, inputs: &Tensors) -> Work {
        required(arrays::shape(case, inputs))
    }

    /// For arrays of magnitude at most 1, from the sums of products in a row or column; [`Workload::judge`] scales the absolute
    /// part with the largest value of each array, and adds the error of terms that cancel.
    fn tolerance(&self, case: &Case) -> Tolerance {
        let terms = Shape::of(case).map_or(1, |s| s.sequence.max(s.keys)) as f64;
        Tolerance::Close { absolute: 2e-6 + 1e-7 * terms.sqrt(), relative: 1e-6 }
    }

    fn judge(&self, case: &Case, inputs: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        let Tolerance::Close { absolute, relative } = self.tolerance(case) else {
            return compare(expected, got, self.tolerance(case));
        };
        let (mut values, mut most) = (0, 0.0_f64);
        for (name, want) in expected.iter() {
            let Some(have) = got.find(name) else { return Verdict::wrong(format!("output {name} is missing")) };
            let finite = want.f32().unwrap_or_default().iter().filter(|value| value.is_finite());
            let largest = finite.fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
            let one = |tensor: &Tensor| Tensors::new().with(name, tensor.clone());
            let absolute = absolute * f64::from(largest) + cancelled(case, inputs, name);
            let tolerance = Tolerance::Close { absolute, relative };
            let verdict = compare(&one(want), &one(have), tolerance);
            if !verdict.passed {
                return verdict;
            }
            values += want.len();
            most = most.max(verdict.max_error.unwrap_or(0.0));
        }
        Verdict::agree(ellwand_core::Compared::all(values), most)
    }
}

/// Rounding error that remains in a gradient of queries or keys if D cancels dcontext v^T, as it does for a single key: the
/// error of the product of a row of dcontext and one of v, times the scale of the scores and the other factor. Over the
/// queries that share a key it adds up like random errors.
fn cancelled(case: &Case, inputs: &Tensors, output: &str) -> f64 {
    let (other, shared) = match output {
        "dq" => ("k", false),
        "dk" => ("q", true),
        _ => return 0.0,
    };
    let Ok(s) = Shape::of(case) else { return 0.0 };
    let finite = |name: &str| {
        inputs.f32(name).unwrap_or_default().iter().map(|v| if v.is_finite() { f64::from(*v) } else { 0.0 })
    };
    let values = |name: &str| finite(name).collect::<Vec<f64>>();
    let norm = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
    let norms = |name: &str| values(name).chunks(s.head()).map(norm).fold(0.0, f64::max);
    let queries = if shared { (s.sequence * s.heads / s.kv_heads) as f64 } else { 1.0 };
    let factor = finite(other).fold(0.0, |most: f64, v| most.max(v.abs()));
    f64::from(f32::EPSILON) * s.scale() * norms(UPSTREAM) * norms("v") * factor * queries.sqrt()
}

/// Bytes of the inputs and of the outputs.
fn bytes(s: &Shape) -> (u64, u64) {
    let (read, one) = arrays::bytes(Task::Core, s, Precision::F32);
    (read.saturating_add(one), read.saturating_add(one))
}

fn required(shape: Result<Shape, InputError>) -> Work {
    let Ok(s) = shape else { return Work::items("positions", 0) };
    // Keys that no query sees need not be read, but their gradients, which are 0, are written.
    let (_, written) = bytes(&s);
    let (forward, upstream) = arrays::traffic(Task::Core, &s, Precision::F32);
    let read = forward.saturating_add(upstream);
    let flops = 12.0 * s.pairs() * s.dimension as f64;
    Work::items("positions", s.positions() as u64).flops(flops).bytes(read, written)
}

/// Registers the workload and its implementations.
pub(super) fn register(registry: &mut Registry) {
    let mut axes = shape::axes();
    axes.push(shape::keys());
    let about = "forward and backward pass of the core: context, dq, dk, dv";
    let description = Description::new(NAME, about).group("transformer").axes(axes);
    registry.workload(Backward(description.sizes(shape::sizes()).baseline("stored")));
    for row in job::implementations() {
        registry.implementation(row);
    }
}
