//! Which asyncio task runs, and which span it was created in.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use ellwand::profile::Link;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// What is used of asyncio and of context variables.
struct Asyncio {
    running_loop: Py<PyAny>,
    current_task: Py<PyAny>,
    /// The innermost open span of a context: new tasks and threads get a copy of the context of their creator.
    cause: Py<PyAny>,
}

thread_local! {
    /// Steps that event loops of this thread have ended since spans look.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// The loop that will call [`stepped`].
    static ASKED: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

static ASYNCIO: PyOnceLock<Asyncio> = PyOnceLock::new();
static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// Size of `sys.modules` when asyncio was not in it.
static SEEN: AtomicUsize = AtomicUsize::new(0);
static LINKED: AtomicBool = AtomicBool::new(false);

/// A link in a context variable.
#[pyclass(frozen, module = "ellwand._native")]
pub(super) struct Cause(pub(super) Link);

/// True once asyncio is imported. It is never imported here.
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
    // While asyncio itself is being imported these are missing, and no loop runs yet.
    let running_loop = asyncio.getattr("_get_running_loop")?.unbind();
    let current_task = asyncio.getattr("current_task")?.unbind();
    let cause = py.import("contextvars")?.getattr("ContextVar")?.call1(("ellwand_span",))?.unbind();
    let _ = ASYNCIO.set(py, Asyncio { running_loop, current_task, cause });
    Ok(true)
}

/// The address of the task that runs on this thread, 0 outside of tasks.
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

/// The step of the running event loop. A task is suspended only between two: the loop runs what it was asked to run here
/// before it resumes a task that waits.
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

/// True once a span of a task was linked to its context.
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

/// Makes a span the parent of tasks that are created from now on in this context.
pub(super) fn set_cause(py: Python<'_>, link: Option<Link>) {
    if let Some(asyncio) = ASYNCIO.get(py) {
        LINKED.store(true, Relaxed);
        let value = link.and_then(|link| Some(Py::new(py, Cause(link)).ok()?.into_any()));
        // A context variable that cannot be set costs a parent, not the program.
        let _ = asyncio.cause.bind(py).call_method1("set", (value,));
    }
}
