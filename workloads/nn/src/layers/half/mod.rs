//! Layer operations with arrays in bf16: x, arrays of its shape, and individual losses. Parameters and reduced losses
//! stay f32, and so does all arithmetic; a result is rounded once. Tensors hold the bits as u16.
//!
//! Inputs widen exactly, so the reference is that of f32 on widened inputs, and a result may be half a bf16 step
//! further from it.

mod run;

use ellwand_core::verdict::compare;
use ellwand_core::{Case, Compared, Dtype, InputError, Ports, Tensor, Tensors, Tolerance, Verdict};

use super::op::Step;
use super::piece::{Piece, Plan, Way};
use ellwand_simd::buffer::Plain;
use ellwand_simd::lanes::half::{narrow, widen};
use ellwand_simd::precision;

/// The element type of a job's arrays.
pub(super) trait Element: Plain + Default + ellwand_core::tensor::Element {
    /// Description of a run.
    const ABOUT: &'static str;

    /// The elements of an array.
    fn values(tensor: &Tensor) -> Result<&[Self], InputError>;
    fn tensor(shape: &[usize], values: &[Self]) -> Result<Tensor, InputError>;
    /// Computes a piece; returns the sum of its losses.
    fn run(way: Way, plan: &Plan<'_>, piece: Piece<'_, Self>) -> f64;
    /// Bytes that a thread holds while it computes a step on rows of `d` values.
    fn held(way: Way, step: Step, d: usize) -> usize;
}

impl Element for f32 {
    const ABOUT: &'static str = "";

    fn values(tensor: &Tensor) -> Result<&[f32], InputError> {
        tensor.f32()
    }
    fn tensor(shape: &[usize], values: &[f32]) -> Result<Tensor, InputError> {
        Tensor::new(shape, values)
    }
    fn run(way: Way, plan: &Plan<'_>, piece: Piece<'_>) -> f64 {
        way.run(plan, piece)
    }
    fn held(way: Way, step: Step, d: usize) -> usize {
        way.held(step, d)
    }
}

/// The bits of bf16 values.
impl Element for u16 {
    const ABOUT: &'static str = ", bf16";

    fn values(tensor: &Tensor) -> Result<&[u16], InputError> {
        tensor.u16()
    }
    fn tensor(shape: &[usize], values: &[u16]) -> Result<Tensor, InputError> {
        Tensor::new(shape, values)
    }
    fn run(way: Way, plan: &Plan<'_>, piece: Piece<'_, u16>) -> f64 {
        run::piece(way, plan, piece)
    }
    fn held(way: Way, step: Step, d: usize) -> usize {
        run::held(way, step, d)
    }
}

/// Inputs that may be bf16.
pub(super) const INPUTS: [&str; 2] = ["x", "target"];

/// Converts f32 ports to bf16 ports.
pub(super) fn ports(case: &Case, wide: Ports) -> Ports {
    let each = case.text("reduction") == Some("none");
    precision::ports(wide, |port| ["x", "target", "y"].contains(&port.name) || each && port.name == "loss")
}

/// A tolerance that covers rounding to bf16: half a step is at most 2^-8 of a value.
pub(crate) fn tolerance(in_f32: Tolerance) -> Tolerance {
    match in_f32 {
        Tolerance::Close { absolute, relative } => Tolerance::Close { absolute, relative: relative + 2.0_f64.powi(-8) },
        exact @ Tolerance::Exact => exact,
    }
}

/// Half the distance between adjacent bf16 values around `value`.
fn half_step(value: f64) -> f64 {
    // Subnormals share the exponent of the smallest normal number.
    let exponent = value.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (exponent - 8.0).exp2()
}

/// Checks outputs; those that are bf16 by `ports` must be within the f32 tolerance plus half a step of rounding.
pub(crate) fn judge(in_f32: Tolerance, ports: &Ports, expected: &Tensors, got: &Tensors) -> Verdict {
    let (mut values, mut most) = (0, 0.0_f64);
    let Tolerance::Close { absolute, relative } = in_f32 else { return compare(expected, got, in_f32) };
    for (name, want) in expected.iter() {
        if ports.outputs.iter().any(|port| port.name == name && port.dtype == Dtype::F32) {
            return compare(expected, got, in_f32);
        }
        let (have, want) = match bf16_output(name, want, got) {
            Ok(arrays) => arrays,
            Err(wrong) => return wrong,
        };
        let pair = |(have, want): (&u16, &f32)| {
            let w = f64::from(*want);
            // The nearest value may be infinite, for which no tolerance holds.
            (if *have == narrow(*want) { w } else { f64::from(widen(*have)) }, w)
        };
        let found = held(name, have.iter().zip(want).map(pair), |_, w| absolute + relative * w.abs() + half_step(w));
        if !found.passed {
            return found;
        }
        values += want.len();
        most = most.max(found.max_error.unwrap_or(0.0));
    }
    Verdict::agree(Compared::all(values), most)
}

/// The values of a bf16 output and those of the reference, or why they cannot be compared.
pub(crate) fn bf16_output<'a>(
    name: &str,
    want: &'a Tensor,
    got: &'a Tensors,
) -> Result<(&'a [u16], &'a [f32]), Verdict> {
    let have = got.find(name).ok_or_else(|| Verdict::wrong(format!("output {name} is missing")))?;
    let (Ok(values), Ok(want_values)) = (have.u16(), want.f32()) else {
        return Err(Verdict::wrong(format!("output {name} is {}, wanted bf16 as uint16", have.dtype())));
    };
    if have.shape() != want.shape() {
        let (shape, wanted) = (have.shape(), want.shape());
        return Err(Verdict::wrong(format!("output {name} has shape {shape:?}, the reference {wanted:?}")));
    }
    Ok((values, want_values))
}

/// Checks that every value equals the reference's or differs by at most `allowed(index, reference)`. Takes pairs of a
/// value and its reference.
pub(crate) fn held(
    name: &str,
    values: impl ExactSizeIterator<Item = (f64, f64)>,
    allowed: impl Fn(usize, f64) -> f64,
) -> Verdict {
    let (count, mut most) = (values.len(), 0.0_f64);
    for (at, (h, w)) in values.enumerate() {
        if h == w || h.is_nan() && w.is_nan() {
            continue;
        }
        let (error, allowed) = ((h - w).abs(), allowed(at, w));
        // NaN compares as false, so a NaN instead of a number is an error.
        if !(error <= allowed && error.is_finite()) {
            let detail = format!("output {name}[{at}] is {h:e}, the reference {w:e}, allowed {allowed:e}");
            return Verdict::beyond(error, detail);
        }
        most = most.max(error);
    }
    Verdict::agree(Compared::all(count), most)
}
