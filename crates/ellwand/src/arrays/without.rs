//! Replaces array files in a program that was built without the feature `arrays`.

use std::io;
use std::path::Path;

use ellwand_core::error::InputError;
use ellwand_core::tensor::{Tensor, Tensors};

const WITHOUT: &str = "this program was built without array files";

/// Reads no file: only an empty list passes.
///
/// # Errors
/// When a file is named.
pub fn read(bindings: &[String]) -> Result<Tensors, InputError> {
    match bindings.first() {
        None => Ok(Tensors::new()),
        Some(binding) => {
            Err(InputError::setting(format!("input {binding}"), WITHOUT, "the feature `arrays` of the crate ellwand"))
        }
    }
}

/// Writes no file.
///
/// # Errors
/// Always.
pub fn write(_: &Path, _: &Tensor) -> io::Result<()> {
    Err(io::Error::other(format!("{WITHOUT}; add the feature `arrays` of the crate ellwand")))
}

pub(crate) fn files(_: &[String]) -> Vec<std::path::PathBuf> {
    Vec::new()
}

pub(crate) fn name_of(_: &str) -> Option<&str> {
    None
}
