//! Workloads whose arrays may be bf16 in memory: the precision of a case, conversion of arrays to f32 and back, and the
//! check of bf16 outputs. Tensors of u16 hold the bits of bf16 values.

use ellwand_core::verdict::{compare, compare_each};
use ellwand_core::{Axis, Case, Compared, Dtype, InputError, Port, Ports, Tensor, Tensors, Tolerance, Verdict};

use crate::lanes::half::{narrow, widen};

/// Type of the arrays in memory; sums are in f32 for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// IEEE single precision.
    F32,
    /// bfloat16: the upper half of an f32.
    Bf16,
}

impl Precision {
    /// The precision of a case; f32 if its workload has no such axis.
    pub fn of(case: &Case) -> Self {
        if case.text("precision") == Some("bf16") { Precision::Bf16 } else { Precision::F32 }
    }

    /// Size of one value in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
        }
    }

    /// The precision axis. It was added to existing f32 workloads, so f32 is not part of a case's id.
    pub fn axis(about: &'static str) -> Axis {
        let mut axis = Axis::choice("precision", about, &["f32", "bf16"], "f32");
        axis.neutral = Some("f32".into());
        axis
    }
}

/// Rounds the arrays in `names` from f32 to bf16 and keeps the others.
pub fn narrowed(mut wide: Tensors, names: &[&'static str]) -> Result<Tensors, InputError> {
    for name in names {
        if let Some(tensor) = wide.take(name) {
            let bits: Vec<u16> = tensor.f32()?.iter().copied().map(narrow).collect();
            wide.insert(name, Tensor::new(tensor.shape(), &bits[..])?);
        }
    }
    Ok(wide)
}

/// The bf16 bits in an array.
///
/// # Errors
/// If the array has another type; the error says how to convert it.
pub fn bits<'a>(arrays: &'a Tensors, name: &str) -> Result<&'a [u16], InputError> {
    arrays.get(name)?.u16().map_err(|error| {
        let help = "give the bits of bfloat16, for example x.astype(ml_dtypes.bfloat16).view('uint16')";
        InputError { argument: name.to_string(), ..error }.help(help)
    })
}

/// Converts the arrays in `names` to f32, exactly, and keeps the others.
pub fn widened(mut arrays: Tensors, names: &[&'static str]) -> Result<Tensors, InputError> {
    for name in names {
        if arrays.find(name).is_some() {
            let values: Vec<f32> = bits(&arrays, name)?.iter().copied().map(widen).collect();
            let tensor = Tensor::new(arrays.get(name)?.shape(), &values[..])?;
            arrays.insert(name, tensor);
        }
    }
    Ok(arrays)
}

/// Changes the elements of an f32 array by index and value, if there is such an array.
pub fn change(arrays: &mut Tensors, name: &str, of: impl Fn(usize, f32) -> f32) -> Result<(), InputError> {
    let Some(mut array) = arrays.take(name) else { return Ok(()) };
    array.f32_mut()?.iter_mut().enumerate().for_each(|(at, x)| *x = of(at, *x));
    arrays.insert(name, array);
    Ok(())
}

/// Changes f32 ports that are `narrow` to bf16 bits.
pub fn ports(wide: Ports, narrow: impl Fn(&Port) -> bool) -> Ports {
    let port = |port: Port| if narrow(&port) { Port { dtype: Dtype::U16, ..port } } else { port };
    Ports { inputs: wide.inputs.into_iter().map(port).collect(), outputs: wide.outputs.into_iter().map(port).collect() }
}

/// A tolerance that covers rounding to bf16: half a step is at most 2^-8 of a value.
pub fn tolerance(in_f32: Tolerance) -> Tolerance {
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
pub fn judge(in_f32: Tolerance, ports: &Ports, expected: &Tensors, got: &Tensors) -> Verdict {
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
        let found =
            compare_each(name, have.iter().zip(want).map(pair), |_, w| absolute + relative * w.abs() + half_step(w));
        if !found.passed {
            return found;
        }
        values += want.len();
        most = most.max(found.max_error.unwrap_or(0.0));
    }
    Verdict::agree(Compared::all(values), most)
}

/// The values of a bf16 output and those of the reference, or why they cannot be compared.
pub fn bf16_output<'a>(name: &str, want: &'a Tensor, got: &'a Tensors) -> Result<(&'a [u16], &'a [f32]), Verdict> {
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
