//! The core in bf16: arrays with 16 bits per value, and the tolerance relative to f64.
//!
//! A bf16 tensor is a u16 tensor of bit patterns: the upper half of an f32, so that widening is exact, with 8
//! significant bits. The reference computes in f64 from the widened inputs.

use ellwand_core::verdict::compare_each;
use ellwand_core::{Case, InputError, PrepareError, Prepared, Tensors, Tolerance, Verdict};

use super::job::Job;
use super::shape::Shape;
use super::way::Way;
use super::{Task, arrays};
use ellwand_gemm::Widened;
use ellwand_simd::lanes::half::{narrow as bits, widen as value};
use ellwand_simd::precision::{bf16_output, widened};

/// Largest relative error of rounding to bf16: half the distance from 1 to the next value.
const UNIT: f64 = 1.0 / 256.0;
/// Root mean square of that error in the same unit. Errors are uniform over a step, which is constant from 1 to 2 (1 /
/// sqrt(3), times the root of the mean of 1 / x^2 for logarithmically uniform x, 0.735).
const MEAN_SQUARE: f64 = 0.43;
/// Multiple of the root mean square that the combined errors of many weights may reach.
const SIGMAS: f64 = 8.0;
/// The bf16 input arrays of the core.
pub(super) const INPUTS: [&str; 3] = ["q", "k", "v"];
const OUTPUT: &str = "context";
/// An output of the reference: for every output value, the root of the sum of squares of weight times value.
const SPREAD: &str = "context-spread";

fn widen(from: &[u16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = value(*from));
}

fn round(from: &[f32], to: &mut [u16]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = bits(*from));
}

/// The result in f64 rounded to f32, and its spread, from bf16 inputs.
pub(super) fn reference(shape: &Shape, inputs: &Tensors) -> Result<Tensors, InputError> {
    let [context, spread] = super::reference::with_spread(shape, &widened(inputs.clone(), &INPUTS)?)?;
    Ok(Tensors::new().with(OUTPUT, context).with(SPREAD, spread))
}

/// Tolerance of a result: `relative` to the result, plus `absolute` times the spread of its terms.
///
/// Products of two bf16 values are exact in f32, and sums in f32 contribute less than a hundredth of the following.
/// Weights are rounded to bf16 before they multiply the values, with an error of at most u = 2^-8 each, and the result
/// is rounded once more. The rounding errors of n terms w v have a root mean square of 0.43 u times the spread, the
/// root of the sum of (w v)^2. Eight of those exceed u times the sum of |w v|, the worst case, for up to 11 terms
/// (Cauchy and Schwarz); for more terms, eight do not occur by chance, where five or six would: a large case has 10^7
/// values. Terms with equal weights have equal errors: that part is a multiple of a sum of values, which is allowed
/// another u of the result.
pub(super) fn tolerance() -> Tolerance {
    Tolerance::Close { absolute: SIGMAS * MEAN_SQUARE * UNIT, relative: 2.0 * UNIT }
}

/// Checks a bf16 result with [`tolerance`], value by value.
pub(super) fn judge(expected: &Tensors, got: &Tensors) -> Verdict {
    let Tolerance::Close { absolute, relative } = tolerance() else { return Verdict::wrong("no tolerance") };
    let (Some(want), Ok(spreads)) = (expected.find(OUTPUT), expected.f32(SPREAD)) else {
        return Verdict::wrong("the reference has no result");
    };
    let (have, want) = match bf16_output(OUTPUT, want, got) {
        Ok(arrays) => arrays,
        Err(wrong) => return wrong,
    };
    let values = have.iter().zip(want).map(|(have, want)| (f64::from(value(*have)), f64::from(*want)));
    compare_each(OUTPUT, values, |at, w| relative * w.abs() + absolute * f64::from(spreads[at]))
}

/// The bf16 core of a method.
pub(super) fn prepared(way: &'static Way, case: &Case, inputs: &Tensors) -> Result<Box<dyn Prepared>, PrepareError> {
    let dims = arrays::output(Task::Core, &Shape::of(case)?).dims;
    let inner = Job::new(Task::Core, way, case, &widened(inputs.clone(), &INPUTS)?)?;
    Widened::boxed(inner, inputs, (OUTPUT, &dims), |inner, inputs, to| {
        for name in INPUTS {
            widen(inputs.get(name)?.u16()?, inner.input(name)?);
        }
        inner.run();
        round(inner.result()?, to);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Dtype, Fit, Registry, Tensor, Value};

    use super::*;
    use ellwand_gpu_lab::testing::{here, prepared};

    fn registry() -> Registry {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        registry
    }

    /// A bf16 case: batch, sequence, dimension, heads, kv-heads.
    fn case(registry: &Registry, sizes: [i64; 5], mask: &str) -> Case {
        let axes = registry.find("attention-core").unwrap().axes();
        let params = axes.iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect();
        let mut case = Case::new("attention-core", params);
        for (axis, size) in ["batch", "sequence", "dimension", "heads", "kv-heads"].into_iter().zip(sizes) {
            case.set(axis, Value::Int(size));
        }
        case.set("mask", mask);
        case.set("precision", "bf16");
        case
    }

    #[test]
    fn every_implementation_of_the_processor_passes_and_poison_fails() {
        let registry = registry();
        let workload = registry.find("attention-core").unwrap();
        let mut passed = 0;
        for sizes in [[1, 1, 1, 1, 0], [2, 17, 64, 2, 0], [1, 65, 32, 4, 2], [1, 300, 128, 1, 0]] {
            for mask in ["none", "causal", "padding"] {
                let case = case(&registry, sizes, mask);
                let inputs = workload.inputs(&case, 5).unwrap();
                let expected = workload.reference(&case, &inputs).unwrap();
                for row in here(&registry, "attention-core") {
                    let Some(mut ready) = prepared(row, &case, &inputs) else { continue };
                    ready.poison(ellwand_core::Poison::Ones);
                    let judge = |got: &Tensors| workload.judge(&case, &inputs, &expected, got);
                    assert!(!judge(&ready.output().unwrap()).passed, "{row:?} passes poisoned");
                    for _ in 0..2 {
                        ready.run();
                        let verdict = judge(&ready.output().unwrap());
                        assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                        ready.poison(ellwand_core::Poison::Ones);
                    }
                    passed += 1;
                }
                assert_eq!(workload.work(&case).bytes_total() * 2, {
                    let mut wide = case.clone();
                    wide.set("precision", "f32");
                    workload.work(&wide).bytes_total()
                });
            }
        }
        assert!(passed >= 6 * 12, "{passed} only");
    }

    #[test]
    fn a_wrong_scale_or_a_key_too_many_does_not_pass_at_long_sequences() {
        let registry = registry();
        let workload = registry.find("attention-core").unwrap();
        let case = case(&registry, [1, 1024, 32, 1, 0], "none");
        let inputs = workload.inputs(&case, 5).unwrap();
        let expected = workload.reference(&case, &inputs).unwrap();
        let exact = expected.f32(OUTPUT).unwrap();
        let judged = |of: &dyn Fn(f32) -> f32| {
            let narrow: Vec<u16> = exact.iter().map(|y| bits(of(*y))).collect();
            let got = Tensor::new(&[1, 1, 1024, 32], &narrow[..]).unwrap();
            workload.judge(&case, &inputs, &expected, &Tensors::new().with(OUTPUT, got)).passed
        };
        assert!(judged(&|y| y));
        assert!(!judged(&|y| y * 1.03) && !judged(&|y| y * 1024.0 / 1056.0), "32 keys of zeros counted in");
    }

    #[test]
    fn arrays_of_the_user_are_bits_and_others_are_refused_with_how_to_make_them() {
        let registry = registry();
        let workload = registry.find("attention-core").unwrap();
        let made = case(&registry, [2, 10, 48, 4, 2], "padding");
        let inputs = workload.inputs(&made, 3).unwrap();
        assert!(workload.ports(&made).inputs.iter().take(3).all(|port| port.dtype == Dtype::U16));
        let other = case(&registry, [1, 64, 512, 4, 0], "padding");
        let (adopted, kept) = workload.adopt(&other, inputs.clone(), Fit::Whole).unwrap();
        assert_eq!(adopted.int("sequence"), Some(10));
        for name in INPUTS {
            assert!(kept.get(name).unwrap().data().same_bits(inputs.get(name).unwrap().data()), "{name}");
        }
        let wide = widened(inputs.clone(), &INPUTS).unwrap();
        let refused = workload.adopt(&other, wide, Fit::Whole).unwrap_err().to_string();
        assert!(refused.starts_with("q: it holds float32; expected uint16") && refused.contains("view"), "{refused}");
    }

    #[test]
    fn rounding_is_to_the_nearest_and_to_even() {
        for (from, to) in [(1.0, 1.0), (1.0 + 1.0 / 256.0, 1.0), (1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0), (-0.0, -0.0)] {
            assert_eq!(value(bits(from)).to_bits(), f32::to_bits(to), "{from}");
        }
        assert_eq!(value(bits(f32::MAX)), f32::INFINITY);
        assert!(value(bits(f32::NAN)).is_nan() && value(bits(f32::from_bits(0x7f80_0001))).is_nan());
        for narrow in 0..=u16::MAX {
            assert!(value(narrow).is_nan() || bits(value(narrow)) == narrow, "{narrow:x}");
        }
    }

    #[test]
    fn the_judge_lets_rounding_pass_and_nothing_larger() {
        let array = |name, values: &[f32]| Tensors::new().with(name, Tensor::vector(values));
        let expected = array(OUTPUT, &[1.0, 0.0, f32::NAN]).with(SPREAD, Tensor::vector(&[0.1_f32, 0.0, 1.0][..]));
        let judged = |values: [f32; 3]| {
            let narrow: Vec<u16> = values.into_iter().map(bits).collect();
            judge(&expected, &Tensors::new().with(OUTPUT, Tensor::vector(&narrow[..]))).passed
        };
        assert!(judged([1.0, 0.0, f32::NAN]) && judged([1.0 - 1.0 / 256.0, 0.0, f32::NAN]));
        assert!(!judged([1.0 + 1.0 / 64.0, 0.0, f32::NAN]), "beyond the rounding of weights and result");
        assert!(!judged([1.0, 1e-6, f32::NAN]) && !judged([1.0, 0.0, 0.0]) && !judged([f32::NAN, 0.0, f32::NAN]));
        assert!(!judge(&expected, &array(OUTPUT, &[1.0, 0.0, 1.0])).passed, "f32 is another type");
    }
}
