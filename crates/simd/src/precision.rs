//! Workloads whose arrays may be bf16 in memory: what a case asks for, and the way of arrays to f32 and back. Tensors of u16 hold
//! the bits.

use ellwand_core::{Axis, Case, Dtype, InputError, Port, Ports, Tensor, Tensors};

use crate::lanes::half::{narrow, widen};

/// Type of the arrays in memory; sums are in f32 either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// IEEE single precision.
    F32,
    /// bfloat16: the upper half of an f32.
    Bf16,
}

impl Precision {
    /// What a case asks for; f32 where its workload knows nothing else.
    pub fn of(case: &Case) -> Self {
        if case.text("precision") == Some("bf16") { Precision::Bf16 } else { Precision::F32 }
    }

    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
        }
    }

    /// The axis, which joined workloads that were in f32 before: f32 is left out of a case's identity.
    pub fn axis(about: &'static str) -> Axis {
        let mut axis = Axis::choice("precision", about, &["f32", "bf16"], "f32");
        axis.neutral = Some("f32".into());
        axis
    }
}

/// The same arrays with those called `names` rounded from f32 to bf16.
pub fn narrowed(mut wide: Tensors, names: &[&'static str]) -> Result<Tensors, InputError> {
    for name in names {
        if let Some(tensor) = wide.take(name) {
            let bits: Vec<u16> = tensor.f32()?.iter().copied().map(narrow).collect();
            wide.insert(name, Tensor::new(tensor.shape(), &bits[..])?);
        }
    }
    Ok(wide)
}

/// The bits of bf16 in an array.
///
/// # Errors
/// Which array has another type, and how to make one of bits.
pub fn bits<'a>(arrays: &'a Tensors, name: &str) -> Result<&'a [u16], InputError> {
    arrays.get(name)?.u16().map_err(|error| {
        let help = "give the bits of bfloat16, for example x.astype(ml_dtypes.bfloat16).view('uint16')";
        InputError { argument: name.to_string(), ..error }.help(help)
    })
}

/// The same arrays with those called `names` in f32, exactly.
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

/// Ports of f32, of which those that are `narrow` hold the bits of bf16.
pub fn ports(wide: Ports, narrow: impl Fn(&Port) -> bool) -> Ports {
    let port = |port: Port| if narrow(&port) { Port { dtype: Dtype::U16, ..port } } else { port };
    Ports { inputs: wide.inputs.into_iter().map(port).collect(), outputs: wide.outputs.into_iter().map(port).collect() }
}
