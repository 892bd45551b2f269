//! Spans of Python code, written by the same recorder as those of Rust code.

mod function;
mod open;
mod profile;
mod recorder;
mod region;
mod tasks;

use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<recorder::Recorder>()?;
    module.add_class::<region::Region>()?;
    module.add_class::<function::ProfiledFunction>()?;
    module.add_class::<profile::Profile>()?;
    let hooks = PyDict::new(module.py());
    hooks.set_item("after_in_child", wrap_pyfunction!(recorder::forked, module)?)?;
    module.py().import("os")?.call_method("register_at_fork", (), Some(&hooks)).map(drop)
}
