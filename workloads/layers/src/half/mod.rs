//! Layer operations with arrays in bf16: x, arrays of its shape, and individual losses. Parameters and reduced losses
//! stay f32, and so does all arithmetic; a result is rounded once. Tensors hold the bits as u16.
//!
//! Inputs widen exactly, so the reference is that of f32 on widened inputs, and a result may be half a bf16 step
//! further from it.

mod run;

use ellwand_core::{Case, InputError, Ports, Tensor};

use super::op::Step;
use super::piece::{Piece, Plan, Way};
use ellwand_simd::buffer::Plain;
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
