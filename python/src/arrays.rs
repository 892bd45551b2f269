//! Arrays in both languages: NumPy arrays in Python, tensors in Rust.

use ellwand::internals::core::tensor::{Data, Dtype};
use ellwand::internals::core::{Tensor, Tensors};
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Calls a macro with every element type that both languages know.
macro_rules! for_each_dtype {
    ($go:ident) => {
        $go!(F32 f32, F64 f64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    };
}

/// A copy as a read-only array.
fn to_numpy<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let shape = tensor.shape().to_vec();
    macro_rules! make {
        ($($variant:ident $type:ty),*) => {
            match tensor.data() {
                $(Data::$variant(values) => PyArray1::from_slice(py, values).reshape(shape)?.into_any(),)*
                other => return Err(PyTypeError::new_err(format!("NumPy has no arrays of {}", other.dtype()))),
            }
        };
    }
    let array = for_each_dtype!(make);
    let flags = PyDict::new(py);
    flags.set_item("write", false)?;
    array.call_method("setflags", (), Some(&flags))?;
    Ok(array)
}

/// Named arrays as a dictionary.
pub(crate) fn to_dict<'py>(py: Python<'py>, tensors: &Tensors) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, tensor) in tensors.iter() {
        dict.set_item(name, to_numpy(py, tensor)?)?;
    }
    Ok(dict)
}

/// A copy of an array. The Python half ensures that it is in row-major order.
fn from_numpy(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let refused = |error: &dyn std::fmt::Display| PyTypeError::new_err(format!("{name}: {error}"));
    macro_rules! take {
        ($($variant:ident $type:ty),*) => {
            $(if let Ok(values) = array.cast::<PyArrayDyn<$type>>() {
                let values: PyReadonlyArrayDyn<'_, $type> = values.try_readonly()?;
                let flat = values.as_slice().map_err(|error| refused(&error))?;
                return Tensor::new(values.shape(), flat).map_err(|error| refused(&error));
            })*
        };
    }
    for_each_dtype!(take);
    macro_rules! names {
        ($($variant:ident $type:ty),*) => {
            [$(Dtype::$variant.name()),*]
        };
    }
    let names = for_each_dtype!(names).join(", ");
    Err(refused(&format!("its element type is {}; expected one of {names}", array.getattr("dtype")?)))
}

/// A dictionary of arrays.
pub(crate) fn from_dict(dict: &Bound<'_, PyAny>) -> PyResult<Tensors> {
    let mut tensors = Tensors::new();
    for (name, array) in dict.cast::<PyDict>()?.iter() {
        let name: String = name.extract()?;
        let tensor = from_numpy(&name, &array)?;
        tensors.insert(&name, tensor);
    }
    Ok(tensors)
}
