//! Layer operations and attention.

use ellwand_attention::{Heads, attend};
use ellwand_layers::Layer;
use numpy::{PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{parallel, raised, slice};
use crate::errors;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(layer, module)?)?;
    module.add_function(wrap_pyfunction!(loss, module)?)?;
    module.add_function(wrap_pyfunction!(attention, module)?)
}

type Floats<'py> = PyReadonlyArrayDyn<'py, f32>;

/// Writes the result of a layer operation to `y` (and to `sum`).
#[pyfunction]
#[pyo3(signature = (name, x, y, *, second=None, vectors=Vec::new(), sum=None, eps=1e-5, tanh=false))]
#[allow(clippy::too_many_arguments, reason = "the Python half has one function an operation")]
fn layer(
    py: Python<'_>,
    name: &str,
    x: Floats<'_>,
    mut y: PyReadwriteArrayDyn<'_, f32>,
    second: Option<Floats<'_>>,
    vectors: Vec<Floats<'_>>,
    mut sum: Option<PyReadwriteArrayDyn<'_, f32>>,
    eps: f32,
    tanh: bool,
) -> PyResult<()> {
    let dimension = x.shape().last().copied().unwrap_or(0);
    let mut layer = Layer { eps, tanh, parallel: parallel(), ..Layer::new(name, slice(&x, "x")?, dimension) };
    if let Some(second) = &second {
        layer.second = slice(second, "second")?;
    }
    for (place, vector) in layer.vectors.iter_mut().zip(&vectors) {
        *place = slice(vector, "vector")?;
    }
    let out = |_| errors::raise(py, "y: the output is not in row-major order");
    let y = y.as_slice_mut().map_err(out)?;
    let sum = match &mut sum {
        Some(sum) => sum.as_slice_mut().map_err(out)?,
        None => &mut [],
    };
    py.detach(|| layer.compute(y, sum)).map_err(raised(py))
}

/// The mean of a loss.
#[pyfunction]
#[pyo3(signature = (name, x, *, second=None, labels=None))]
fn loss(
    py: Python<'_>,
    name: &str,
    x: Floats<'_>,
    second: Option<Floats<'_>>,
    labels: Option<PyReadonlyArrayDyn<'_, i64>>,
) -> PyResult<f32> {
    let dimension = x.shape().last().copied().unwrap_or(0);
    let mut layer = Layer { parallel: parallel(), ..Layer::new(name, slice(&x, "x")?, dimension) };
    if let Some(second) = &second {
        layer.second = slice(second, "target")?;
    }
    if let Some(labels) = &labels {
        layer.labels = slice(labels, "labels")?;
    }
    py.detach(|| layer.mean_loss()).map_err(raised(py))
}

/// Writes `softmax(Q K^T / sqrt(head)) V` to `out`.
#[pyfunction]
fn attention(
    py: Python<'_>,
    q: Floats<'_>,
    k: Floats<'_>,
    v: Floats<'_>,
    mut out: PyReadwriteArrayDyn<'_, f32>,
    causal: bool,
) -> PyResult<()> {
    let (&[batch, heads, sequence, head], &[_, kv_heads, keys, _]) = (q.shape(), k.shape()) else {
        return Err(errors::raise(
            py,
            "q: expected [batch, heads, sequence, head], and k and v with the same number of axes",
        ));
    };
    let extents = Heads { batch, heads, kv_heads, sequence, keys, head, causal, parallel: parallel() };
    let (q, k, v) = (slice(&q, "q")?, slice(&k, "k")?, slice(&v, "v")?);
    let out = out.as_slice_mut().map_err(|_| errors::raise(py, "out: it is not in row-major order"))?;
    py.detach(|| attend(extents, q, k, v, out)).map_err(raised(py))
}
