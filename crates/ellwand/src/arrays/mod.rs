//! Arrays in files: `.npy`, `.npz` and `.safetensors` in, `.npy` out.

mod npy;
mod npz;
mod safetensors;

use std::path::Path;

use ellwand_core::error::InputError;
use ellwand_core::tensor::{Dtype, Tensor, Tensors};

pub use npy::write;

/// Largest file that is read, in bytes: its whole content is in memory at once.
const LARGEST_FILE: u64 = 64 << 30;

/// Reads the arrays that bindings name: `NAME=FILE` binds one array, `FILE.npz` or `FILE.safetensors` binds every array
/// by its name in the file, `NAME=FILE.npz:ARRAY` (or `.safetensors:ARRAY`) binds one array of a file.
///
/// # Errors
/// If a file cannot be read or is not of the type that its name implies, or if two bindings give the same name.
pub fn read(bindings: &[String]) -> Result<Tensors, InputError> {
    let mut arrays = Tensors::new();
    for binding in bindings {
        let arrays_of = read_one(binding).map_err(|error| InputError { is_setting: true, ..error })?;
        for (name, tensor) in arrays_of {
            if arrays.find(&name).is_some() {
                return Err(InputError::setting(
                    format!("input {binding}"),
                    format!("the array {name} is given twice"),
                    "each name once",
                ));
            }
            arrays.insert(&name, tensor);
        }
    }
    Ok(arrays)
}

fn read_one(binding: &str) -> Result<Vec<(String, Tensor)>, InputError> {
    let (name, file) = match binding.split_once('=') {
        Some((name, file)) => (Some(name), file),
        None => (None, binding),
    };
    let (path, member) = split_member(file);
    let argument = format!("input {binding}");
    let bytes = bytes_of(&argument, path)?;
    let within = |problem: String, expected: &str| InputError::new(&argument, problem, expected);
    let all = match extension(path).as_str() {
        "npy" => {
            let name = name.ok_or_else(|| {
                within("a .npy file holds one array without a name".into(), "NAME=FILE.npy")
                    .help(format!("for example x={path}"))
            })?;
            return Ok(vec![(name.to_string(), npy::parse(&argument, &bytes)?)]);
        }
        "npz" => npz::parse(&argument, &bytes, member)?,
        "safetensors" => safetensors::parse(&argument, &bytes, member)?,
        other => {
            return Err(within(
                format!("the file type '.{other}' is unknown"),
                "a file ending in .npy, .npz or .safetensors",
            ));
        }
    };
    match (name, member) {
        (None, _) => Ok(all),
        (Some(name), Some(_)) => Ok(all.into_iter().map(|(_, tensor)| (name.to_string(), tensor)).collect()),
        (Some(name), None) => match <[_; 1]>::try_from(all) {
            Ok([(_, tensor)]) => Ok(vec![(name.to_string(), tensor)]),
            Err(all) => {
                let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
                let shown = names.iter().take(8).copied().collect::<Vec<_>>().join(", ");
                Err(within(
                    format!(
                        "the file holds {} arrays ({shown}{})",
                        names.len(),
                        if names.len() > 8 { ", …" } else { "" }
                    ),
                    "one of them by name",
                )
                .help(format!("write {name}={path}:{}", names.first().unwrap_or(&"ARRAY"))))
            }
        },
    }
}

/// The files that bindings name.
pub(crate) fn files(bindings: &[String]) -> Vec<std::path::PathBuf> {
    let file =
        |binding: &String| split_member(binding.split_once('=').map_or(binding.as_str(), |(_, file)| file)).0.into();
    bindings.iter().map(file).collect()
}

/// The name in a binding; `None` if it binds a whole file.
pub(crate) fn name_of(binding: &str) -> Option<&str> {
    match binding.split_once('=') {
        Some((name, _)) => Some(name),
        None => split_member(binding).1,
    }
}

/// `weights.safetensors:layer.0` means a file and an array in it.
fn split_member(file: &str) -> (&str, Option<&str>) {
    for suffix in [".npz:", ".safetensors:"] {
        if let Some(at) = file.find(suffix) {
            return (&file[..at + suffix.len() - 1], Some(&file[at + suffix.len()..]));
        }
    }
    (file, None)
}

fn extension(path: &str) -> String {
    Path::new(path).extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn bytes_of(argument: &str, path: &str) -> Result<Vec<u8>, InputError> {
    let failed = |error: std::io::Error| {
        InputError::new(argument, format!("{path} cannot be read: {error}"), "a file that can be read")
    };
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(InputError::new(argument, format!("{path} is not a regular file"), "a file with arrays"));
    }
    let size = about.len();
    if size > LARGEST_FILE {
        return Err(InputError::new(
            argument,
            format!("{path} has {size} bytes"),
            format!("at most {LARGEST_FILE} bytes"),
        ));
    }
    std::fs::read(path).map_err(failed)
}

/// Converts bytes in the given byte order to elements of any type.
fn elements(
    argument: &str,
    dtype: Dtype,
    big_endian: bool,
    shape: &[usize],
    bytes: &[u8],
) -> Result<Tensor, InputError> {
    let tensor = Tensor::from_bytes(dtype, shape, bytes, big_endian);
    tensor.map_err(|error| InputError { argument: argument.to_string(), ..error })
}

/// Number of bytes that `shape` of `dtype` takes; an error if it overflows.
fn byte_count(argument: &str, dtype: Dtype, shape: &[usize]) -> Result<usize, InputError> {
    shape.iter().try_fold(dtype.size(), |bytes, extent| bytes.checked_mul(*extent)).ok_or_else(|| {
        InputError::new(
            argument,
            format!("the header claims the shape {shape:?}, which cannot be addressed"),
            "an array that fits in memory",
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fuzz;
#[cfg(test)]
mod tests;
