//! Which asyncio task is running, and in which span it was created.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use ellwand::profile::Link;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The parts of asyncio and contextvars that we use.
struct Asyncio {
    running_loop: Py<PyAny>,
    current_task: Py<PyAny>,
    /// The innermost open span of a context: new tasks and threads copy their creator's context.
    cause: Py<PyAny>,
}

thread_local! {
    /// Event-loop steps finished on this thread since spans began to count them.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// The loop that will call [`stepped`] next.
    static ASKED: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

static ASYNCIO: PyOnceLock<Asyncio> = PyOnceLock::new();
static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// Size of `sys.modules` when asyncio was last found missing.
static SEEN: AtomicUsize = AtomicUsize::new(0);
static LINKED: AtomicBool = AtomicBool::new(false);

/// A link inside a context variable.
#[pyclass(frozen, module = "ellwand._native")]
pub(super) struct Cause(pub(super) Link);

/// True if asyncio is imported. Ellwand never imports it here.
#[inline]
pub(super) fn are_possible(py: Python<'_>) -> bool {
    ASYNCIO.get(py).is_some() || look(py).unwrap_or(false)
}

fn look(py: Python<'_>) -> PyResult<bool> {
    let modules = MODULES.get_or_try_init(py, || -> PyResult<Py<PyDict>> {
        Ok(py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind())
    })?;
    let modules = modules.bind(py);
    let count = modules.len();
    if SEEN.load(Relaxed) == count {
        return Ok(false);
    }
    let Some(asyncio) = modules.get_item("asyncio")? else {
        SEEN.store(count, Relaxed);
        return Ok(false);
    };
    // Missing while asyncio itself is being imported; no loop runs yet.
    let running_loop = asyncio.getattr("_get_running_loop")?.unbind();
    let current_task = asyncio.getattr("current_task")?.unbind();
    let cause = py.import("contextvars")?.getattr("ContextVar")?.call1(("ellwand_span",))?.unbind();
    let _ = ASYNCIO.set(py, Asyncio { running_loop, current_task, cause });
    Ok(true)
}

/// The address of the task running on this thread; 0 outside tasks.
pub(super) fn current(py: Python<'_>) -> usize {
    let Some(asyncio) = ASYNCIO.get(py) else { return 0 };
    let task = asyncio.running_loop.bind(py).call0().and_then(|running| match running.is_none() {
        true => Ok(0),
        false => asyncio.current_task.bind(py).call1((running,)).map(|task| match task.is_none() {
            true => 0,
            false => task.as_ptr() as usize,
        }),
    });
    task.unwrap_or(0)
}

/// The current step of the running event loop. A task is suspended only between steps: the loop runs the callback requested
/// here before it resumes a waiting task.
pub(super) fn step(py: Python<'_>) -> Option<u64> {
    let running = ASYNCIO.get(py)?.running_loop.bind(py).call0().ok()?;
    let is_asked = ASKED.with_borrow(|asked| asked.as_ref().is_some_and(|asked| asked.is(&running)));
    if !is_asked {
        let callback = wrap_pyfunction!(stepped, py).ok()?;
        running.call_method1("call_soon", (callback,)).ok()?;
        ASKED.replace(Some(running.unbind()));
    }
    Some(STEPS.get())
}

/// True if the step has ended.
pub(super) fn has_passed(step: u64) -> bool {
    STEPS.get() != step
}

#[pyfunction]
fn stepped() {
    STEPS.set(STEPS.get() + 1);
    ASKED.replace(None);
}

/// True once a task's span was linked to its context.
#[inline]
pub(super) fn are_linked() -> bool {
    LINKED.load(Relaxed)
}

/// The span in which this context was created.
pub(super) fn cause(py: Python<'_>) -> Option<Link> {
    let asyncio = ASYNCIO.get(py)?;
    let found = asyncio.cause.bind(py).call_method1("get", (py.None(),)).ok()?;
    found.cast::<Cause>().ok().map(|cause| cause.get().0)
}

/// Makes a span the parent of tasks created from now on in this context.
pub(super) fn set_cause(py: Python<'_>, link: Option<Link>) {
    if let Some(asyncio) = ASYNCIO.get(py) {
        LINKED.store(true, Relaxed);
        let value = link.and_then(|link| Some(Py::new(py, Cause(link)).ok()?.into_any()));
        // If the context variable cannot be set, tasks lose their parent; the program continues.
        let _ = asyncio.cause.bind(py).call_method1("set", (value,));
    }
}
