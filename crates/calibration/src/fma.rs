//! `fma`: multiply-adds in registers, the most arithmetic that a core can do in f32 or f64.
#![allow(unsafe_code)]

use ellwand_core::{
    Axis, Case, Description, Device, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Registry,
    Tensor, Tensors, Tolerance, Work, Workload,
};

use ellwand_simd::isa::{Isa, Set};
use ellwand_simd::pool;

/// Independent chains: 12 vectors of 16, enough to cover the latency of two units of any width.
const LANES: usize = 192;
/// Default number of chain groups, which are distributed over threads; a device needs thousands.
const GROUPS: i64 = 16;
const A: f64 = 0.999;
const B: f64 = 0.001;

struct Fma(Description);

impl Fma {
    fn steps(case: &Case) -> usize {
        case.count("steps", 1)
    }
    fn chains(case: &Case) -> usize {
        LANES * usize::try_from(case.int("groups").unwrap_or(GROUPS)).unwrap_or(1)
    }
    fn double(case: &Case) -> bool {
        case.text("precision") == Some("f64")
    }
}

impl Workload for Fma {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, case: &Case) -> u64 {
        // Inputs, outputs and reference, at most 8 bytes per value.
        (1 << 20) + 32 * Self::chains(case) as u64
    }
    fn inputs(&self, case: &Case, _: u64) -> Result<Tensors, InputError> {
        let chains = Self::chains(case);
        let x: Vec<f64> = (0..chains).map(|lane| lane as f64 / chains as f64).collect();
        Ok(Tensors::new().with("x", in_precision(case, &x)))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let (a, b) = if Self::double(case) { (A, B) } else { (f64::from(A as f32), f64::from(B as f32)) };
        let mut y: Vec<f64> = inputs.get("x")?.data().to_f64();
        // Group by group, so that the chains of a group overlap.
        for group in y.chunks_mut(LANES) {
            (0..Self::steps(case)).for_each(|_| group.iter_mut().for_each(|x| *x = *x * a + b));
        }
        Ok(Tensors::new().with("y", in_precision(case, &y)))
    }
    fn work(&self, case: &Case) -> Work {
        let all = Self::chains(case) * Self::steps(case);
        Work::items("multiply-adds", all as u64).flops(2.0 * all as f64).double(Self::double(case))
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        // Rounding errors in f32 shrink by A at each step, so they add up to at most 1/(1-A) half units in the last
        // place.
        Tolerance::Close { absolute: 0.0, relative: 1000.0 * f64::from(f32::EPSILON) }
    }
}

/// Converts values to the type of the case.
fn in_precision(case: &Case, values: &[f64]) -> Tensor {
    if Fma::double(case) {
        return Tensor::vector(values);
    }
    let single: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    Tensor::vector(&single[..])
}

/// The chains, run one group after another or distributed over threads.
struct Ready {
    how: How,
    x: Tensor,
    y: Tensor,
}

#[derive(Clone, Copy)]
struct How {
    isa: Isa,
    steps: usize,
    parallel: bool,
}

impl How {
    fn all<T: Copy + Send + Sync>(self, x: &[T], y: &mut [T], chains: impl Fn(Isa, &mut [T; LANES], usize) + Sync) {
        let ((groups, _), (starts, _)) = (y.as_chunks_mut::<LANES>(), x.as_chunks::<LANES>());
        let one = |group: &mut [T; LANES], start: &[T; LANES]| {
            *group = *start;
            chains(self.isa, group, self.steps);
        };
        if self.parallel {
            pool::for_each_slice(groups, 1, |at, group| {
                group.iter_mut().zip(&starts[at..]).for_each(|(g, s)| one(g, s))
            });
        } else {
            groups.iter_mut().zip(starts).for_each(|(group, start)| one(group, start));
        }
    }
}

impl Prepared for Ready {
    fn run(&mut self) {
        let (how, x) = (self.how, &self.x);
        if let (Ok(x), Ok(y)) = (x.f32(), self.y.f32_mut()) {
            how.all(x, y, single);
        } else if let (Ok(x), Ok(y)) = (x.f64(), self.y.f64_mut()) {
            how.all(x, y, double);
        }
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill_tensor(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", self.y.clone()))
    }
    fn what_ran(&self) -> String {
        let isa = self.how.isa.name();
        if self.how.parallel { format!("{isa}, {}", pool::about(pool::threads(), "groups")) } else { isa.into() }
    }
}

/// Runs the chains of one group for `steps` steps.
fn single(isa: Isa, lanes: &mut [f32; LANES], steps: usize) {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `prepare` detected this instruction set on this CPU.
        Set::Avx512 => unsafe { x86::single_avx512(lanes, steps) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { x86::single_avx2(lanes, steps) },
        _ => lanes.iter_mut().for_each(|x| (0..steps).for_each(|_| *x = x.mul_add(A as f32, B as f32))),
    }
}

/// As [`single`], in f64.
fn double(isa: Isa, lanes: &mut [f64; LANES], steps: usize) {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `prepare` detected this instruction set on this CPU.
        Set::Avx512 => unsafe { x86::double_avx512(lanes, steps) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { x86::double_avx2(lanes, steps) },
        _ => lanes.iter_mut().for_each(|x| (0..steps).for_each(|_| *x = x.mul_add(A, B))),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{A, B, LANES};

    macro_rules! chains {
        ($name:ident, $feature:literal, $element:ty, $width:literal, $vector:ty, $load:ident, $store:ident, $set:ident, $fma:ident) => {
            #[target_feature(enable = $feature)]
            pub(in super::super) fn $name(lanes: &mut [$element; LANES], steps: usize) {
                let (a, b) = ($set(A as $element), $set(B as $element));
                // Twelve chains fit into 16 registers, with room for a and b.
                for block in lanes.as_chunks_mut::<{ 12 * $width }>().0 {
                    let mut x: [$vector; 12] = std::array::from_fn(|i| {
                        // SAFETY: vector `i` of 12 lies within the block of 12 vectors.
                        unsafe { $load(block.as_ptr().add(i * $width)) }
                    });
                    for _ in 0..steps {
                        for chain in &mut x {
                            *chain = $fma(*chain, a, b);
                        }
                    }
                    for (i, chain) in x.into_iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { $store(block.as_mut_ptr().add(i * $width), chain) };
                    }
                }
            }
        };
    }

    #[rustfmt::skip]
    mod rows {
        use super::*;
        chains!(single_avx2, "avx2,fma", f32, 8, __m256, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps);
        chains!(double_avx2, "avx2,fma", f64, 4, __m256d, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd);
        chains!(single_avx512, "avx512f", f32, 16, __m512, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps);
        chains!(double_avx512, "avx512f", f64, 8, __m512d, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd);
    }
    pub(super) use rows::{double_avx2, double_avx512, single_avx2, single_avx512};
}

fn prepare(parallel: bool, case: &Case, inputs: &Tensors) -> Result<Box<dyn Prepared>, PrepareError> {
    let isa = Isa::best();
    if isa == Isa::BASELINE {
        return Err(PrepareError::Unsupported(
            "this processor has none of the fused multiply-adds that this kernel uses".into(),
        ));
    }
    let x = inputs.get("x")?.clone();
    let y = Tensor::zeros(x.dtype(), x.shape())?;
    Ok(Box::new(Ready { how: How { isa, steps: Fma::steps(case), parallel }, x, y }))
}

pub(super) fn register(registry: &mut Registry) {
    let steps = Axis::int("steps", "multiply-adds of each chain", 1, 1 << 24, 4096);
    let mut precision = Axis::choice("precision", "type of the numbers", &["f32", "f64"], "f32").sweep(["f32", "f64"]);
    precision.neutral = Some("f32".into());
    let mut groups = Axis::int("groups", "groups of 192 chains: 4752 fill a GPU", 1, 1 << 20, GROUPS);
    groups.neutral = Some(GROUPS.into());
    let about = "x = x * a + b on groups of 192 independent chains: the arithmetic peak";
    let axes = vec![steps, precision, groups];
    registry.workload(Fma(Description::new("fma", about).group("calibration").axes(axes).baseline("simd")));
    let row = |name: &str, about: &str, parallel: bool| {
        let prepared = move |case: &Case, inputs: &Tensors, _: &dyn Device| prepare(parallel, case, inputs);
        Implementation::cpu("fma", name, about, prepared)
    };
    registry.implementation(row("simd", "fused multiply-adds in vector registers", false));
    registry.implementation(row("parallel", "the same on all threads", true).many_threads());
}
