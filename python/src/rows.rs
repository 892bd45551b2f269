//! Workloads and implementations registered by Python, as rows of the registry.

use std::sync::Arc;

use ellwand::internals::core::device::{Device, DeviceKind};
use ellwand::internals::core::verdict::compare;
use ellwand::internals::core::{
    Description, Domain, Dtype, Implementation, InputError, Parallelism, Port, Ports, PrepareError, Prepared, Tensor,
    Tensors, Tolerance, Value, Verdict, Workload,
};
use ellwand::{Axis, Case, Registry, Size, Work};
use ellwand_gpu::Stream;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::prepared::PyPrepared;
use crate::{arrays, errors};

/// A value of an axis.
#[derive(FromPyObject, Clone)]
enum Param {
    Flag(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl From<Param> for Value {
    fn from(param: Param) -> Self {
        match param {
            Param::Flag(value) => Value::Flag(value),
            Param::Int(value) => Value::Int(value),
            Param::Float(value) => Value::Float(value),
            Param::Text(value) => Value::Text(value),
        }
    }
}

#[derive(FromPyObject)]
struct AxisRow {
    name: String,
    aliases: Vec<String>,
    about: String,
    unit: String,
    kind: String,
    low: i64,
    high: i64,
    choices: Vec<String>,
    default: Vec<Param>,
}

#[derive(FromPyObject)]
struct SizeRow {
    name: String,
    values: Vec<(String, Vec<Param>)>,
}

#[derive(FromPyObject)]
struct WorkloadRow {
    name: String,
    about: String,
    groups: Vec<String>,
    axes: Vec<AxisRow>,
    sizes: Vec<SizeRow>,
    baseline: String,
    outputs: Vec<String>,
    task: Py<PyAny>,
}

#[derive(FromPyObject)]
struct ImplementationRow {
    workload: String,
    name: String,
    about: String,
    device: String,
    threads: usize,
    foreign: bool,
    prepare: Py<PyAny>,
}

/// The work of a case: item, items, operations, bytes read, bytes written.
type WorkRow = (String, u64, f64, u64, u64);

/// A name with the lifetime of the process: the registry is filled once, from the files on the command line.
fn forever(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl From<AxisRow> for Axis {
    fn from(row: AxisRow) -> Self {
        let words = row.choices.into_iter().map(forever).collect();
        let domain = match row.kind.as_str() {
            "int" => Domain::Int { min: row.low, max: row.high },
            "choice" => Domain::Choice(words),
            "switch" => Domain::Switch,
            _ => Domain::PositiveOr(words),
        };
        Axis {
            name: forever(row.name),
            aliases: row.aliases.into_iter().map(forever).collect(),
            about: forever(row.about),
            unit: forever(row.unit),
            domain,
            default: row.default.into_iter().map(Value::from).collect(),
            neutral: None,
        }
    }
}

impl From<SizeRow> for Size {
    fn from(row: SizeRow) -> Self {
        let values = row.values.into_iter();
        let values = values.map(|(axis, list)| (forever(axis), list.into_iter().map(Value::from).collect())).collect();
        Size { name: forever(row.name), values }
    }
}

/// Adds the rows to a registry.
pub(crate) fn register(
    registry: &mut Registry,
    workloads: &[Bound<'_, PyAny>],
    implementations: &[Bound<'_, PyAny>],
) -> PyResult<()> {
    for row in workloads {
        registry.workload(Task::new(row.extract()?));
    }
    for row in implementations {
        registry.implementation(implementation(row.extract()?));
    }
    Ok(())
}

/// A case as `ellwand.Case`.
fn case_of<'py>(py: Python<'py>, case: &Case) -> PyResult<Bound<'py, PyAny>> {
    let params = PyDict::new(py);
    for (axis, value) in &case.params {
        match value {
            Value::Int(value) => params.set_item(axis, value)?,
            Value::Float(value) => params.set_item(axis, value)?,
            Value::Text(value) => params.set_item(axis, value)?,
            Value::Flag(value) => params.set_item(axis, value)?,
        }
    }
    py.import("ellwand._case")?.getattr("Case")?.call1((&case.workload, case.id(), params))
}

fn implementation(row: ImplementationRow) -> Implementation {
    let ImplementationRow { workload, name, about, device, threads, foreign, prepare } = row;
    let many = threads != 1;
    let parallelism = if many && device == "cpu" { Parallelism::Many } else { Parallelism::Single };
    let on_gpu = device != "cpu";
    let prepare =
        move |case: &Case, inputs: &Tensors, device: &dyn Device| -> Result<Box<dyn Prepared>, PrepareError> {
            let stream = if on_gpu { Some(Stream::of(device)?) } else { None };
            let prepared = Python::attach(|py| {
                let place = stream.as_ref().map(Stream::place);
                let given = case_of(py, case).and_then(|case| Ok((case, arrays::to_dict(py, inputs)?, place)));
                let made = given.and_then(|given| prepare.bind(py).call1(given));
                let threads = (many && !on_gpu).then_some(threads);
                made.and_then(|ready| PyPrepared::new(&ready, threads)).map_err(|error| errors::of_prepare(py, &error))
            })?;
            // Without the interpreter's lock, because other threads of a framework may need it while this one waits.
            Ok(Box::new(match stream {
                Some(stream) => prepared.on(stream),
                None => prepared,
            }))
        };
    Implementation {
        workload,
        name,
        needs: if on_gpu { DeviceKind::Cuda } else { DeviceKind::Cpu },
        parallelism,
        about,
        limits: Vec::new(),
        foreign,
        prepare: Arc::new(prepare),
    }
}

/// A workload written in Python.
struct Task {
    description: Description,
    outputs: Vec<&'static str>,
    task: Py<PyAny>,
}

impl Task {
    fn new(row: WorkloadRow) -> Self {
        Self {
            description: Description {
                groups: row.groups.into_iter().map(forever).collect(),
                axes: row.axes.into_iter().map(Axis::from).collect(),
                sizes: row.sizes.into_iter().map(Size::from).collect(),
                ..Description::new(row.name, row.about).baseline(row.baseline)
            },
            outputs: row.outputs.into_iter().map(forever).collect(),
            task: row.task,
        }
    }

    fn ask<T>(&self, method: &str, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T, InputError> {
        Python::attach(|py| {
            ask(self.task.bind(py)).map_err(|error| errors::of_workload(py, self.name(), method, &error))
        })
    }

    fn required(&self, case: &Case) -> Result<Work, InputError> {
        let row: WorkRow =
            self.ask("work", |task| task.call_method1("work", (case_of(task.py(), case)?,))?.extract())?;
        let (item, items, flops, read, written) = row;
        Ok(Work::items(&item, items).flops(flops).bytes(read, written))
    }

    fn accepted(&self, case: &Case) -> Result<Tolerance, InputError> {
        let bounds: Option<(f64, f64)> =
            self.ask("tolerance", |task| task.call_method1("tolerance", (case_of(task.py(), case)?,))?.extract())?;
        Ok(bounds.map_or(Tolerance::Exact, |(absolute, relative)| Tolerance::Close { absolute, relative }))
    }
}

impl Workload for Task {
    fn description(&self) -> &Description {
        &self.description
    }

    /// Work and tolerance cannot report an exception elsewhere.
    fn check(&self, case: &Case) -> Result<(), InputError> {
        self.required(case)?;
        self.accepted(case).map(drop)
    }

    fn footprint(&self, case: &Case) -> u64 {
        self.work(case).bytes_total().saturating_mul(3)
    }

    fn ports(&self, _: &Case) -> Ports {
        let port =
            |name: &&'static str| Port { name, dtype: Dtype::F64, shape: "any", about: "an output", required: true };
        Ports { inputs: Vec::new(), outputs: self.outputs.iter().map(port).collect() }
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        self.ask("inputs", |task| arrays::from_dict(&task.call_method1("inputs", (case_of(task.py(), case)?, seed))?))
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        self.ask("reference", |task| {
            let py = task.py();
            arrays::from_dict(&task.call_method1("reference", (case_of(py, case)?, arrays::to_dict(py, inputs)?))?)
        })
    }

    fn work(&self, case: &Case) -> Work {
        self.required(case).unwrap_or_else(|_| Work::items("calls", 1))
    }

    fn tolerance(&self, case: &Case) -> Tolerance {
        self.accepted(case).unwrap_or(Tolerance::Exact)
    }

    /// A float64 reference also judges float32 outputs, and a float32 reference float64 outputs.
    fn judge(&self, case: &Case, _: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        self.judge_within(case, expected, got, self.tolerance(case))
    }

    fn judge_within(&self, _: &Case, expected: &Tensors, got: &Tensors, tolerance: Tolerance) -> Verdict {
        let mut wanted = Tensors::new();
        for (name, want) in expected.iter() {
            let fitted = match got.find(name).map(Tensor::dtype) {
                Some(Dtype::F32) => narrowed(want),
                Some(Dtype::F64) => widened(want),
                _ => want.clone(),
            };
            wanted.insert(name, fitted);
        }
        compare(&wanted, got, tolerance)
    }
}

/// A float32 tensor in float64; any other tensor unchanged.
fn widened(tensor: &Tensor) -> Tensor {
    let Ok(values) = tensor.f32() else { return tensor.clone() };
    let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    Tensor::new(tensor.shape(), &values[..]).unwrap_or_else(|_| tensor.clone())
}

/// A float64 tensor in float32; any other tensor unchanged.
fn narrowed(tensor: &Tensor) -> Tensor {
    let Ok(values) = tensor.f64() else { return tensor.clone() };
    #[allow(clippy::cast_possible_truncation)]
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    Tensor::new(tensor.shape(), &values[..]).unwrap_or_else(|_| tensor.clone())
}
