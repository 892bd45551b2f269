//! The clusterless decoder.

use ellwand::internals::core::InputError;
use ellwand_kde::{Bandwidth, ClusterlessDecoder, Decoding, Method, Options, Precision, Spikes, Track};
use ellwand_lattice::Isa;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{parallel, slice};
use crate::errors;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDecoder>()
}

type Doubles<'py> = PyReadonlyArrayDyn<'py, f64>;

/// The arrays of one electrode: times, and marks [n, features].
type Electrode<'py> = (Doubles<'py>, Doubles<'py>);

fn raised(py: Python<'_>) -> impl Fn(InputError) -> PyErr {
    move |error| errors::raise(py, InputError { help: None, ..error })
}

fn method() -> Method {
    if parallel() { Method::Parallel(Isa::best()) } else { Method::Simd(Isa::best()) }
}

fn options(block: Option<usize>, tile: Option<usize>, memory: Option<u64>) -> Options {
    Options { block, tile, memory, ..Options::new(method()) }
}

fn spikes<'a>(electrodes: &'a [Electrode<'_>]) -> PyResult<Vec<Spikes<'a>>> {
    let one = |(times, features): &'a Electrode<'_>| {
        let n_features = features.shape().get(1).copied().unwrap_or(1);
        Ok(Spikes { times: slice(times, "times")?, features: slice(features, "features")?, n_features })
    };
    electrodes.iter().map(one).collect()
}

fn track<'a>(time: &'a Doubles<'_>, position: &'a Doubles<'_>) -> PyResult<Track<'a>> {
    let dims = position.shape().get(1).copied().unwrap_or(1);
    Ok(Track { time: slice(time, "time")?, position: slice(position, "position")?, dims })
}

/// A fitted model.
#[pyclass(name = "Decoder", module = "ellwand.kde", frozen)]
struct PyDecoder(ClusterlessDecoder);

#[pymethods]
impl PyDecoder {
    #[new]
    #[pyo3(signature = (time, position, grid, electrodes, position_std, waveform_std, double=false))]
    #[allow(clippy::too_many_arguments, reason = "the parameters of the model, which the Python half names")]
    fn fit(
        py: Python<'_>,
        time: Doubles<'_>,
        position: Doubles<'_>,
        grid: Doubles<'_>,
        electrodes: Vec<Electrode<'_>>,
        position_std: Vec<f64>,
        waveform_std: Vec<f64>,
        double: bool,
    ) -> PyResult<Self> {
        let dims = |places: &Doubles<'_>| places.shape().get(1).copied().unwrap_or(1);
        if dims(&grid) != dims(&position) {
            let expected = format!("[B, {}], with the dimensions of position", dims(&position));
            return Err(errors::raise(py, format!("grid: its shape is {:?}; expected {expected}", grid.shape())));
        }
        let (track, grid, electrodes) = (track(&time, &position)?, slice(&grid, "grid")?, spikes(&electrodes)?);
        let bandwidth = Bandwidth { position: position_std, waveform: waveform_std };
        let precision = if double { Precision::F64 } else { Precision::F32 };
        let how = Options { precision, ..Options::new(method()) };
        let fitted = py.detach(|| ClusterlessDecoder::fit(track, grid, &electrodes, &bandwidth, how));
        fitted.map(Self).map_err(raised(py))
    }

    #[getter]
    fn bins(&self) -> usize {
        self.0.bins()
    }

    #[getter]
    fn occupancy<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.0.occupancy())
    }

    #[getter]
    fn mean_rates(&self) -> Vec<f64> {
        self.0.mean_rates()
    }

    /// Log likelihood [time, bin].
    #[pyo3(signature = (time_edges, electrodes, block=None, tile=None, memory=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        time_edges: Doubles<'py>,
        electrodes: Vec<Electrode<'py>>,
        block: Option<usize>,
        tile: Option<usize>,
        memory: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (edges, electrodes) = (slice(&time_edges, "time_edges")?, spikes(&electrodes)?);
        let (shape, options) = ([edges.len(), self.0.bins()], options(block, tile, memory));
        let decoding = Decoding { time_edges: edges, electrodes: &electrodes };
        if self.0.precision() == Precision::F64 {
            let made = py.detach(|| self.0.predict_f64(&decoding, &options)).map_err(raised(py))?;
            return Ok(PyArray1::from_vec(py, made).reshape(shape)?.into_any());
        }
        let made = py.detach(|| self.0.predict(&decoding, &options)).map_err(raised(py))?;
        Ok(PyArray1::from_vec(py, made).reshape(shape)?.into_any())
    }

    /// Log likelihood at the animal's own position, shape `[time]`.
    fn predict_local<'py>(
        &self,
        py: Python<'py>,
        time: Doubles<'py>,
        position: Doubles<'py>,
        time_edges: Doubles<'py>,
        electrodes: Vec<Electrode<'py>>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let (track, electrodes) = (track(&time, &position)?, spikes(&electrodes)?);
        let decoding = Decoding { time_edges: slice(&time_edges, "time_edges")?, electrodes: &electrodes };
        let made = py.detach(|| self.0.predict_local(track, &decoding, method())).map_err(raised(py))?;
        Ok(PyArray1::from_vec(py, made))
    }
}
