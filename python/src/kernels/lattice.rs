//! The nested-lattice quantizer.

use ellwand::internals::core::PrepareError;
use ellwand_lattice::dot::{CodedRows, OneSided};
use ellwand_lattice::{Codec, Codes, Isa, Lattice, Method, Overload, Params};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use super::{parallel, raised, slice};
use crate::errors;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCodes>()?;
    module.add_function(wrap_pyfunction!(encode, module)?)?;
    module.add_function(wrap_pyfunction!(dot, module)?)
}

fn method() -> Method {
    if parallel() { Method::Parallel(Isa::best()) } else { Method::Simd(Isa::best()) }
}

/// The codes of one array, with everything that decoding needs.
#[pyclass(name = "Codes", module = "ellwand.lattice", frozen)]
struct PyCodes(Codes);

#[pymethods]
impl PyCodes {
    /// The shape of the array that was encoded.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.0.layout().shape().to_vec()
    }

    /// Packed level indices, as uint8.
    #[getter]
    fn packed<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        PyArray1::from_slice(py, self.0.packed())
    }

    /// 1 for each vector outside the codebook; only in the modes flag and retry.
    #[getter]
    fn overload<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u8>>> {
        self.0.overload().map(|overload| PyArray1::from_slice(py, overload))
    }

    /// Bytes of the packed codes and their overload marks.
    #[getter]
    fn nbytes(&self) -> usize {
        let marks = self.0.overload().map_or(0, <[u8]>::len) + self.0.retries().map_or(0, <[u8]>::len);
        self.0.packed().len() + marks
    }

    /// The array in its original shape; with `depth`, decoded from only its coarsest levels.
    #[pyo3(signature = (depth=None))]
    fn decode<'py>(&self, py: Python<'py>, depth: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let depth = depth.unwrap_or_else(|| self.0.codec().levels());
        let values = py.detach(|| self.0.decode_coarse(method(), depth)).map_err(raised(py))?;
        Ok(PyArray1::from_vec(py, values).reshape(self.0.layout().shape().to_vec())?.into_any())
    }

    /// The codes as bytes for a file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// The codes that `to_bytes` wrote.
    #[classmethod]
    fn from_bytes(cls: &Bound<'_, PyType>, data: &[u8]) -> PyResult<Self> {
        Codes::from_bytes(data).map(Self).map_err(raised(cls.py()))
    }

    fn __repr__(&self) -> String {
        let params = self.0.codec().params();
        let (name, shape, bytes) = (params.lattice.name(), self.0.layout().shape(), self.nbytes());
        format!("Codes(lattice='{name}', q={}, levels={}, shape={shape:?}, {bytes} bytes)", params.q, params.levels)
    }
}

/// Encodes an array of any shape.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the parameters of a code, which the Python half names")]
fn encode(
    py: Python<'_>,
    x: PyReadonlyArrayDyn<'_, f32>,
    lattice: &str,
    q: u32,
    levels: u32,
    beta: f32,
    centred: bool,
    overload: &str,
    alpha: f64,
    cap: u8,
) -> PyResult<PyCodes> {
    let lattice: Lattice = lattice.parse().map_err(raised(py))?;
    let overload = match overload {
        "none" => Overload::None,
        "flag" => Overload::Flag,
        "retry" => Overload::Retry { alpha, cap },
        other => {
            return Err(errors::raise(py, format!("overload: '{other}' is unknown; expected none, flag or retry")));
        }
    };
    let params = Params { lattice, q, levels, beta, centred, overload };
    let codec = Codec::new(params).map_err(raised(py))?;
    let (values, shape) = (slice(&x, "x")?, x.shape());
    py.detach(|| Codes::encode(&codec, method(), values, shape)).map(PyCodes).map_err(raised(py))
}

/// Products of every coded row with a query in f32.
#[pyfunction]
fn dot<'py>(
    py: Python<'py>,
    codes: &PyCodes,
    query: PyReadonlyArrayDyn<'py, f32>,
) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let codes = &codes.0;
    let query = slice(&query, "query")?;
    let Some((_, leading)) = codes.layout().shape().split_last() else {
        return Err(errors::raise(py, "codes: a scalar has no rows"));
    };
    let rows: usize = leading.iter().product();
    let scores = py.detach(|| {
        if !codes.layout().is_exact() {
            let (d, shape) = (codes.codec().dimension(), codes.layout().shape());
            let problem = format!("rows of shape {shape:?} do not divide into vectors of {d}");
            return Err(PrepareError::Unsupported(problem));
        }
        let coded = CodedRows::new(codes.codec(), codes.packed(), rows, codes.layout().vectors() / rows.max(1))?;
        let mut scores = vec![0.0; rows];
        OneSided::new(&coded)?.scores(&coded, query, &mut scores)?;
        Ok(scores)
    });
    scores.map(|scores| PyArray1::from_vec(py, scores)).map_err(|error| match error {
        PrepareError::Unsupported(why) | PrepareError::Failed(why) => errors::raise(py, why),
    })
}
