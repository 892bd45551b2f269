//! Replaces array files in a program built without the feature `arrays`.

use ellwand_core::error::InputError;
use ellwand_core::tensor::Tensors;

/// Reads no file: accepts only an empty list.
///
/// # Errors
/// If a file is named.
pub fn read(bindings: &[String]) -> Result<Tensors, InputError> {
    match bindings.first() {
        None => Ok(Tensors::new()),
        Some(binding) => {
            let problem = "this program was built without array files";
            Err(InputError::setting(format!("input {binding}"), problem, "the feature `arrays` of the crate ellwand"))
        }
    }
}

pub(crate) fn name_of(_: &str) -> Option<&str> {
    None
}
