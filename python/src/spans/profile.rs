//! What a profiler recorded, as tables, files and a page.

use std::collections::HashMap;
use std::path::PathBuf;

use ellwand::internals::profile_page;
use ellwand::profile::{Cost, Counters, Kind, LaneKind, RESIDENT, Row, Span, Trace, TraceLane, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;

/// A recording at one point in time.
#[pyclass(frozen, module = "ellwand._native")]
pub(crate) struct Profile {
    trace: Trace,
}

impl Profile {
    pub(super) fn new(mut trace: Trace, cost_ns: f64, empty_ns: f64) -> Self {
        trace.cost = Some(Cost::of_span(trace.clock.kind, cost_ns, f64::NAN, empty_ns));
        trace.span_costs.clear();
        Self { trace }
    }

    /// Nanoseconds of kernels and of transfers, by the link of the span that started them.
    fn device_ns(&self) -> HashMap<u32, [f64; 2]> {
        let mut sums: HashMap<u32, [f64; 2]> = HashMap::new();
        for lane in self.trace.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Stream { .. })) {
            for span in lane.spans.iter().filter(|span| span.corr != 0) {
                let kind = self.trace.site(span).map_or(Kind::Kernel, |site| site.kind);
                let transfer = usize::from(matches!(kind, Kind::HostToDevice | Kind::DeviceToHost));
                sums.entry(span.corr).or_default()[transfer] += self.trace.duration_ns(span);
            }
        }
        sums
    }
}

#[pymethods]
impl Profile {
    /// Spans that were aggregated because the buffer was full.
    #[getter]
    fn aggregated(&self) -> u64 {
        self.trace.lanes.iter().map(TraceLane::overflowed).sum()
    }

    /// Spans without a row: there was no room for their operation.
    #[getter]
    fn lost(&self) -> u64 {
        self.trace.dropped().saturating_sub(self.aggregated())
    }

    /// Cost of a span to its caller, in ns.
    #[getter]
    fn span_cost_ns(&self) -> f64 {
        self.trace.cost.map_or(f64::NAN, |cost| cost.on_ns)
    }

    /// Resident memory in bytes, if measured: at the start, its maximum, and at the end of the last span.
    #[getter]
    fn resident_bytes(&self) -> Option<(f64, f64, f64)> {
        let points = &self.trace.tracks.iter().find(|track| track.name == RESIDENT)?.points;
        let most = points.iter().map(|point| point.1).max_by(f64::total_cmp)?;
        Some((points.first()?.1, most, points.last()?.1))
    }

    /// True if there are spans of a device.
    #[getter]
    fn has_devices(&self) -> bool {
        self.trace.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }))
    }

    /// A row for each operation of the host: ``operation``, ``calls`` and times in nanoseconds.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut rows = self.trace.summary_by_site().rows;
        let of_device = [Kind::Kernel, Kind::HostToDevice, Kind::DeviceToHost];
        rows.retain(|row| row.count > 0 && !of_device.contains(&row.kind));
        rows.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
        rows.iter().map(|row| summary_row(py, row)).collect()
    }

    /// The finished spans of the host, ordered by start.
    fn spans<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let device = self.device_ns();
        let threads = self.trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Thread);
        let mut spans: Vec<(&TraceLane, &Span)> =
            threads.flat_map(|lane| lane.spans.iter().map(move |span| (lane, span))).collect();
        spans.retain(|(_, span)| !span.is_open() && !self.trace.is_own(span.site));
        spans.sort_by_key(|(_, span)| span.start);
        spans.into_iter().map(|(lane, span)| self.span(py, lane, span, &device)).collect()
    }

    /// The profile file; see docs/profile-format.md.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        py.detach(|| self.trace.write_json(&mut bytes))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The offline page.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        let page = py.detach(|| profile_page(&self.trace, None));
        let page = page.map_err(|problem| errors::raise(py, format!("{problem:#}")))?;
        String::from_utf8(page).map_err(|_| errors::raise(py, "the page is not UTF-8 text"))
    }

    /// Writes the offline page to a file, completely or not at all.
    fn save_page(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let page = self.page(py)?;
        let written = ellwand::profile::write_file(path, |out| out.write_all(page.as_bytes()));
        written.map_err(|problem| errors::raise(py, problem))
    }

    /// The tree of operations, as on a terminal.
    fn __str__(&self, py: Python<'_>) -> String {
        py.detach(|| self.trace.summary().to_string())
    }
}

impl Profile {
    fn span<'py>(
        &self,
        py: Python<'py>,
        lane: &TraceLane,
        span: &Span,
        device: &HashMap<u32, [f64; 2]>,
    ) -> PyResult<Bound<'py, PyDict>> {
        // As an f64 such a time has steps of 256 ns.
        #[allow(clippy::cast_possible_truncation)]
        let start_ns =
            self.trace.started_unix_ns.saturating_add_signed(self.trace.since_start_ns(span.start).round() as i64);
        let row = PyDict::new(py);
        row.set_item("operation", self.trace.name(span))?;
        row.set_item("lane", &lane.name)?;
        row.set_item("start_ns", start_ns)?;
        row.set_item("duration_ns", self.trace.duration_ns(span))?;
        let [kernels, transfers] = device.get(&span.corr).copied().unwrap_or_default();
        row.set_item("device_ns", kernels)?;
        row.set_item("transfer_ns", transfers)?;
        let detail = lane.detail_of(span);
        row.set_item("cpu_ns", detail.and_then(|detail| detail.cpu_ns))?;
        row.set_item("rss_bytes", detail.and_then(|detail| detail.rss_bytes))?;
        set_work(&row, detail.map_or_else(Counters::default, |detail| detail.counters))?;
        let args = PyDict::new(py);
        for (name, value) in detail.iter().flat_map(|detail| &detail.args) {
            args.set_item(name, object(py, value)?)?;
        }
        row.set_item("args", args)?;
        Ok(row)
    }
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Int(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Text(value) => value.into_bound_py_any(py),
    }
}

fn summary_row<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("operation", row.name())?;
    dict.set_item("calls", row.count)?;
    let times = [
        ("total_ns", row.total_ns),
        ("self_ns", row.self_ns),
        ("mean_ns", row.mean_ns),
        ("min_ns", row.min_ns),
        ("max_ns", row.max_ns),
        ("std_ns", row.std_ns),
        ("p50_ns", row.median_ns),
        ("p90_ns", row.p90_ns),
        ("p99_ns", row.p99_ns),
        ("device_ns", row.device_ns),
    ];
    for (name, value) in times {
        dict.set_item(name, value)?;
    }
    dict.set_item("cpu_ns", row.cpu_ns)?;
    set_work(&dict, row.counters)?;
    Ok(dict)
}

fn set_work(row: &Bound<'_, PyDict>, work: Counters) -> PyResult<()> {
    row.set_item("bytes", work.bytes)?;
    row.set_item("items", work.items)?;
    row.set_item("flops", work.flops)
}
