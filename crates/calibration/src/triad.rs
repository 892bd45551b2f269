//! `triad`: a = b + s c in f32, the stream with two reads per write (McCalpin 1995), as in fused element-wise
//! operations.
#![allow(unsafe_code)]

use std::hint::black_box;

use ellwand_core::{
    Axis, Case, Description, Device, DeviceError, Dtype, Implementation, InputError, Poison, PrepareError, Prepared,
    Registry, Tensor, Tensors, Tolerance, Work, Workload,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::stream::{LARGEST, PIECE};
use ellwand_simd::isa::{Isa, Set};
use ellwand_simd::pool;

const S: f32 = 3.0;

struct Triad(Description);

impl Triad {
    fn elements(case: &Case) -> usize {
        case.count("bytes", 4096) / 4 / 3
    }
}

impl Workload for Triad {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, case: &Case) -> u64 {
        4 * case.int("bytes").unwrap_or(0).unsigned_abs()
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || -> Result<Tensor, InputError> {
            let mut x = Tensor::zeros(Dtype::F32, &[Self::elements(case)])?;
            x.f32_mut()?.iter_mut().for_each(|x| *x = rng.random());
            Ok(x)
        };
        Ok(Tensors::new().with("b", draw()?).with("c", draw()?))
    }
    fn reference(&self, _: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let sum = |(b, c): (&f32, &f32)| (f64::from(*b) + f64::from(S) * f64::from(*c)) as f32;
        let a: Vec<f32> = inputs.f32("b")?.iter().zip(inputs.f32("c")?).map(sum).collect();
        Ok(Tensors::new().with("a", Tensor::vector(&a[..])))
    }
    fn work(&self, case: &Case) -> Work {
        let (elements, passes) = (Self::elements(case) as u64, case.count("passes", 1) as u64);
        let bytes = elements * 4 * passes;
        let work = Work::items("bytes", 3 * bytes).bytes(2 * bytes, bytes).flops(2.0 * (elements * passes) as f64);
        if passes == 1 { work } else { work.working_set(12 * elements) }
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Close { absolute: 0.0, relative: 2.0 * f64::from(f32::EPSILON) }
    }
}

struct Ready {
    isa: Isa,
    non_temporal: bool,
    parallel: bool,
    passes: usize,
    a: Tensor,
    b: Tensor,
    c: Tensor,
}

impl Prepared for Ready {
    fn run(&mut self) {
        let (Ok(a), Ok(b), Ok(c)) = (self.a.f32_mut(), self.b.f32(), self.c.f32()) else { return };
        let (isa, non_temporal, passes) = (self.isa, self.non_temporal, black_box(self.passes));
        let pass = |at: usize, a: &mut [f32]| {
            for _ in 0..passes {
                triad(isa, non_temporal, a, black_box(&b[at..]), black_box(&c[at..]));
            }
        };
        if self.parallel {
            // Pieces count four-byte elements; the streams count eight-byte words.
            let piece = (a.len() / pool::threads()).min(2 * LARGEST).next_multiple_of(2 * PIECE).max(2 * PIECE);
            pool::for_each_slice(a, piece, |at, a| pass(at * piece, a));
        } else {
            pass(0, a);
        }
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill_tensor(&mut self.a);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("a", self.a.clone()))
    }
    fn what_ran(&self) -> String {
        let stores = if self.non_temporal { " non-temporal" } else { "" };
        let threads =
            if self.parallel { format!(", {}", pool::about(pool::threads(), "values")) } else { String::new() };
        format!("{}{stores}{threads}", self.isa.name())
    }
}

/// a = b + s c over the length of a; b and c are at least as long.
fn triad(isa: Isa, non_temporal: bool, a: &mut [f32], b: &[f32], c: &[f32]) {
    match (isa.set(), non_temporal) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` values come from detection on this processor.
        (Set::Avx512, false) => unsafe { x86::triad_avx512::<false>(a, b, c) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Set::Avx512, true) => unsafe { x86::triad_avx512::<true>(a, b, c) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Set::Avx2, false) => unsafe { x86::triad_avx2::<false>(a, b, c) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Set::Avx2, true) => unsafe { x86::triad_avx2::<true>(a, b, c) },
        _ => plain(a, b, c),
    }
}

fn plain(a: &mut [f32], b: &[f32], c: &[f32]) {
    a.iter_mut().zip(b.iter().zip(c)).for_each(|(a, (b, c))| *a = b + S * c);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{S, plain};

    macro_rules! triad {
        ($name:ident, $feature:literal, $lanes:literal, $load:ident, $store:ident, $stream:ident, $set:ident, $fma:ident) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name<const NON_TEMPORAL: bool>(a: &mut [f32], b: &[f32], c: &[f32]) {
                let n = a.len().min(b.len()).min(c.len());
                // Non-temporal stores need an aligned address.
                let head = if NON_TEMPORAL { a.as_ptr().align_offset($lanes * 4).min(n) } else { 0 };
                plain(&mut a[..head], b, c);
                let (a, b, c) = (&mut a[head..n], &b[head..n], &c[head..n]);
                let (whole, s) = (a.len() / $lanes * $lanes, $set(S));
                for at in (0..whole).step_by($lanes) {
                    // SAFETY: at + lanes <= whole, which is within all three slices; the store address is aligned as
                    // computed above.
                    unsafe {
                        let v = $fma(s, $load(c.as_ptr().add(at)), $load(b.as_ptr().add(at)));
                        let to = a.as_mut_ptr().add(at);
                        if NON_TEMPORAL { $stream(to, v) } else { $store(to, v) }
                    }
                }
                plain(&mut a[whole..], &b[whole..], &c[whole..]);
                if NON_TEMPORAL {
                    _mm_sfence();
                }
            }
        };
    }

    #[rustfmt::skip]
    triad!(triad_avx2, "avx2,fma", 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm256_set1_ps, _mm256_fmadd_ps);
    #[rustfmt::skip]
    triad!(triad_avx512, "avx512f", 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_set1_ps, _mm512_fmadd_ps);
}

pub(super) fn register(registry: &mut Registry) {
    let bytes = Axis::int("bytes", "total bytes touched, read and written", 4096, 1 << 34, 64 << 20).unit("B");
    let bytes = bytes.sweep([16_i64 << 10, 512 << 10, 4 << 20, 128 << 20]);
    let mut passes = Axis::int("passes", "passes over them per iteration", 1, 1 << 20, 1);
    passes.neutral = Some(1_i64.into());
    let about = "a = b + s c: bandwidth of two reads to one write";
    let description = Description::new("triad", about).group("calibration").axes(vec![bytes, passes]);
    registry.workload(Triad(description.baseline("simd")));
    let mut add = |name: &str, about: &str, non_temporal: bool, parallel: bool| {
        let prepared = move |case: &Case, inputs: &Tensors, _: &dyn Device| {
            let isa = Isa::best();
            if non_temporal && isa == Isa::BASELINE {
                return Err(PrepareError::Unsupported(
                    "this processor has none of the vector stores that this kernel uses".into(),
                ));
            }
            let (b, c) = (inputs.get("b")?.clone(), inputs.get("c")?.clone());
            let a = Tensor::zeros(Dtype::F32, b.shape())?;
            Ok(Box::new(Ready { isa, non_temporal, parallel, passes: case.count("passes", 1), a, b, c })
                as Box<dyn Prepared>)
        };
        let row = Implementation::cpu("triad", name, about, prepared);
        registry.implementation(if parallel { row.many_threads() } else { row });
    };
    add("simd", "vector loads and stores", false, false);
    add("non-temporal", "vector stores that bypass the caches", true, false);
    add("parallel", "vector loads and stores on all threads", false, true);
    add("parallel-non-temporal", "stores that bypass the caches, on all threads", true, true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_right_at_every_length_and_offset() {
        let b: Vec<f32> = (0..100).map(|i| i as f32).collect();
        for isa in Isa::available() {
            for (offset, len, non_temporal) in
                (0..17).flat_map(|o| (0..60).flat_map(move |l| [(o, l, false), (o, l, true)]))
            {
                let mut a = vec![-1.0_f32; 100];
                triad(isa, non_temporal, &mut a[offset..offset + len], &b[offset..], &b[offset..]);
                let expected = |i: usize| if (offset..offset + len).contains(&i) { 4.0 * b[i] } else { -1.0 };
                assert!((0..100).all(|i| a[i] == expected(i)), "{isa:?} {offset} {len} {non_temporal}");
            }
        }
    }
}
