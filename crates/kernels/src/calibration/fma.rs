//! `fma`: multiply-adds in registers, which is the most arithmetic a core can do in f32.
#![allow(unsafe_code)]

use ellwand_core::{
    Axis, Case, CeilingKind, Device, Dtype, Implementation, InputError, PrepareError, Prepared, Registry, Tensor,
    Tensors, Tolerance, Work, Workload,
};

use crate::isa::{Isa, Set};
use crate::pool;

/// Independent chains: 12 vectors of 16, enough to cover the latency of two units of any width.
const LANES: usize = 192;
/// Groups of chains, to be dealt out to threads.
const GROUPS: usize = 16;
const A: f32 = 0.999;
const B: f32 = 0.001;

struct Fma {
    axes: Vec<Axis>,
}

impl Fma {
    fn steps(case: &Case) -> usize {
        usize::try_from(case.int("steps").unwrap_or(1)).unwrap_or(1)
    }
}

impl Workload for Fma {
    fn name(&self) -> &str {
        "fma"
    }
    fn about(&self) -> &str {
        "x = x * a + b on groups of 192 independent f32 chains: the arithmetic peak"
    }
    fn groups(&self) -> &[&'static str] {
        &["calibration"]
    }
    fn axes(&self) -> &[Axis] {
        &self.axes
    }
    fn footprint(&self, _: &Case) -> u64 {
        1 << 20
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        let x: Vec<f32> = (0..LANES * GROUPS).map(|lane| lane as f32 / (LANES * GROUPS) as f32).collect();
        Ok(Tensors::new().with("x", Tensor::vector(&x[..])))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let after = |x: &f32| (0..Self::steps(case)).fold(f64::from(*x), |x, _| x * f64::from(A) + f64::from(B)) as f32;
        let y: Vec<f32> = inputs.f32("x")?.iter().map(after).collect();
        Ok(Tensors::new().with("y", Tensor::vector(&y[..])))
    }
    fn work(&self, case: &Case) -> Work {
        let chains = LANES * GROUPS * Self::steps(case);
        Work::items("multiply-adds", chains as u64).flops(2.0 * chains as f64)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        // Rounding errors of f32 shrink by A at each step, so they add up to at most 1/(1-A) half units in the last place.
        Tolerance::Close { absolute: 0.0, relative: 1000.0 * f64::from(f32::EPSILON) }
    }
    fn ceiling(&self, _: &Case) -> Option<CeilingKind> {
        Some(CeilingKind::Fma)
    }
    fn baseline(&self) -> &str {
        "simd"
    }
}

/// The chains, one group after another or dealt out to the threads.
struct Ready {
    isa: Isa,
    steps: usize,
    parallel: bool,
    x: Tensor,
    y: Tensor,
}

impl Prepared for Ready {
    fn run(&mut self) {
        let (isa, steps) = (self.isa, self.steps);
        let (Ok(x), Ok(y)) = (self.x.f32(), self.y.f32_mut()) else { return };
        let (groups, _) = y.as_chunks_mut::<LANES>();
        let (starts, _) = x.as_chunks::<LANES>();
        let one = |group: &mut [f32; LANES], start: &[f32; LANES]| {
            *group = *start;
            chains(isa, group, steps);
        };
        if self.parallel {
            pool::for_each_slice(groups, 1, |at, group| {
                group.iter_mut().zip(&starts[at..]).for_each(|(g, s)| one(g, s))
            });
        } else {
            groups.iter_mut().zip(starts).for_each(|(group, start)| one(group, start));
        }
    }
    fn poison(&mut self) {
        if let Ok(y) = self.y.f32_mut() {
            y.fill(f32::NAN);
        }
    }
    fn output(&mut self) -> Result<Tensors, String> {
        Ok(Tensors::new().with("y", self.y.clone()))
    }
    fn what_ran(&self) -> String {
        let threads = pool::threads();
        if self.parallel { format!("{}, {threads} threads", self.isa.name()) } else { self.isa.name().into() }
    }
}

/// Runs the chains of one group `steps` times.
fn chains(isa: Isa, lanes: &mut [f32; LANES], steps: usize) {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `prepare` saw this instruction set on this processor.
        Set::Avx512 => unsafe { x86::chains_avx512(lanes, steps) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { x86::chains_avx2(lanes, steps) },
        _ => lanes.iter_mut().for_each(|x| (0..steps).for_each(|_| *x = x.mul_add(A, B))),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };

    use super::{A, B, LANES};

    macro_rules! chains {
        ($name:ident, $feature:literal, $width:literal, $vector:ty, $load:ident, $store:ident, $set:ident, $fma:ident) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name(lanes: &mut [f32; LANES], steps: usize) {
                let (a, b) = ($set(A), $set(B));
                // Twelve chains at a time stay in registers: with 16 of them there is room left for a and b.
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

    chains!(chains_avx2, "avx2,fma", 8, __m256, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps);
    chains!(chains_avx512, "avx512f", 16, __m512, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps);
}

fn prepare(parallel: bool, case: &Case, inputs: &Tensors) -> Result<Box<dyn Prepared>, PrepareError> {
    let isa = Isa::best();
    if isa == Isa::BASELINE {
        return Err(PrepareError::Unsupported(
            "this processor has no fused multiply-add that this kernel is written for".into(),
        ));
    }
    let x = inputs.get("x")?.clone();
    let y = Tensor::zeros(Dtype::F32, x.shape())?;
    Ok(Box::new(Ready { isa, steps: Fma::steps(case), parallel, x, y }))
}

pub(super) fn register(registry: &mut Registry) {
    let steps = Axis::int("steps", "multiply-adds of each chain", 1, 1 << 24, 4096);
    registry.workload(Fma { axes: vec![steps] });
    let row = |name: &str, about: &str, parallel: bool| {
        let prepared = move |case: &Case, inputs: &Tensors, _: &dyn Device| prepare(parallel, case, inputs);
        Implementation::cpu("fma", name, about, prepared)
    };
    registry.implementation(row("simd", "fused multiply-adds in vector registers", false));
    registry.implementation(row("parallel", "the same on all threads", true).many_threads());
}
