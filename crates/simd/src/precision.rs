//! Workloads whose arrays may be bf16 in memory: the precision of a case, and conversion of arrays to f32 and back.
//! Tensors of u16 hold the bits.

use ellwand_core::{Axis, Case, Dtype, InputError, Port, Ports, Tensor, Tensors};

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
