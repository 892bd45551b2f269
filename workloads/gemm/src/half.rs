//! The bf16 product: A, B and C hold 16 bits per value in memory, products are exact and sums are in f32, and each sum
//! is rounded once when it is stored. Tensors of u16 hold the bits.

use ellwand_core::{
    Case, DeviceError, Dtype, InputError, Poison, PrepareError, Prepared, Reading, Tensor, Tensors, Tolerance,
};

use super::workload::{Job, Shape, Way};
use ellwand_simd::lanes::half::{narrow, widen};
use ellwand_simd::lanes::{Kernel, Simd, dispatch};
use ellwand_simd::pool;
use ellwand_simd::precision::widened;

/// The inputs that hold bf16 bits as u16.
pub(super) const INPUTS: [&str; 2] = ["a", "b"];

/// Tolerance of a sum of `k` products before it is rounded to bf16, beyond `in_f32`, which allows for rounding to
/// nearest.
///
/// Matrix units truncate sums instead of rounding them, so their errors do not cancel. After i products of standard
/// normal values a sum is about sqrt(i), and truncation costs 0.7 of it times u = 2^-24 at each step. Steps cover 8
/// products or more, so k / 8 such losses add up: 0.7 u / 8 times the area under the walk of the sum. For sums that end
/// at s that area is k s / 2, with a root mean square of k sqrt(k / 12) around it: 0.04 k u s, and 0.025 k sqrt(k) u.
/// The tolerance is 1.4 times the first and ten times the second. At k = 4096, together with `in_f32`, that is a
/// fortieth of the half step that rounding a typical sum of 64 may cost.
pub(super) fn tolerance(k: f64, in_f32: Tolerance) -> Tolerance {
    let Tolerance::Close { absolute, relative } = in_f32 else { return in_f32 };
    let epsilon = f64::from(f32::EPSILON);
    Tolerance::Close { absolute: absolute + k * k.sqrt() * epsilon / 8.0, relative: relative + k * epsilon / 32.0 }
}

/// Values that a thread converts at a time.
const PIECE: usize = 1 << 15;

struct Widen<'a>(&'a [u16], &'a mut [f32]);

impl Kernel for Widen<'_> {
    type Out = ();
    // A plain loop: the token determines which instructions the compiler may use.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.1.iter_mut().zip(self.0).for_each(|(to, from)| *to = widen(*from));
    }
}

struct Narrow<'a>(&'a [f32], &'a mut [u16]);

impl Kernel for Narrow<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.1.iter_mut().zip(self.0).for_each(|(to, from)| *to = narrow(*from));
    }
}

/// Calls `of(first, piece)` for pieces of `to`, on all threads or on this one.
fn in_pieces<T: Send>(parallel: bool, to: &mut [T], of: impl Fn(usize, &mut [T]) + Sync) {
    if parallel {
        pool::for_each_slice(to, PIECE, |piece, to| of(piece * PIECE, to));
    } else {
        of(0, to);
    }
}

/// An f32 job between widening and rounding, which count as part of its work: this is how a CPU without bf16 arithmetic
/// computes.
pub struct Widened<J> {
    inner: J,
    inputs: Tensors,
    name: &'static str,
    output: Tensor,
    work: Box<Run<J>>,
    done: Result<(), InputError>,
}

/// Widens the inputs into those of a job, runs it, and rounds its result.
type Run<J> = dyn Fn(&mut J, &Tensors, &mut [u16]) -> Result<(), InputError> + Send;

impl<J: Prepared + 'static> Widened<J> {
    /// The job `inner` between widening and rounding. `work` gets it, the inputs, and the output `name` of shape `dims`: it
    /// widens what it needs, runs the job, and rounds the result.
    pub fn boxed(
        inner: J,
        inputs: &Tensors,
        (name, dims): (&'static str, &[usize]),
        work: impl Fn(&mut J, &Tensors, &mut [u16]) -> Result<(), InputError> + Send + 'static,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let output = Tensor::zeros(Dtype::U16, dims)?;
        Ok(Box::new(Self { inner, inputs: inputs.clone(), name, output, work: Box::new(work), done: Ok(()) }))
    }
}

impl<J: Prepared> Prepared for Widened<J> {
    fn run(&mut self) {
        self.done = self.output.u16_mut().and_then(|to| (self.work)(&mut self.inner, &self.inputs, to));
    }
    fn poison(&mut self, poison: Poison) {
        self.inner.poison(poison);
        poison.fill_tensor(&mut self.output);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        Ok(Tensors::new().with(self.name, self.output.clone()))
    }
    fn threads(&self) -> Option<usize> {
        self.inner.threads()
    }
    fn what_ran(&self) -> String {
        format!("{}, widened from bf16", self.inner.what_ran())
    }
    fn readings(&mut self) -> Vec<Reading> {
        let mut readings = self.inner.readings();
        // The widened arrays are working memory, and so is the unrounded result.
        let bytes: u64 = self.inputs.iter().filter(|(_, t)| t.dtype() == Dtype::U16).map(|(_, t)| 2 * t.bytes()).sum();
        if let Some(value) = readings.iter_mut().find(|r| r.id == Reading::EXTRA_MEMORY).and_then(|r| r.value.as_mut())
        {
            *value += (bytes + 2 * self.output.bytes()) as f64;
        }
        readings
    }
}

/// The bf16 product of a method: no instruction used here multiplies bf16 values.
pub(super) fn prepared(way: Way, case: &Case, inputs: &Tensors) -> Result<Box<dyn Prepared>, PrepareError> {
    let Shape { m, n, .. } = Shape::of(case)?;
    let (isa, parallel) = way.widening()?;
    let inner = Job::new(way, case, &widened(inputs.clone(), &INPUTS)?)?;
    Widened::boxed(inner, inputs, ("c", &[m, n]), move |inner, inputs, to| {
        for (name, to) in INPUTS.into_iter().zip(inner.inputs()) {
            let from = inputs.get(name)?.u16()?;
            in_pieces(parallel, to.f32_mut()?, |at, to| dispatch(isa, Widen(&from[at..][..to.len()], to)));
        }
        inner.run();
        let from = inner.result()?;
        in_pieces(parallel, to, |at, to| dispatch(isa, Narrow(&from[at..][..to.len()], to)));
        Ok(())
    })
}
