//! `.npz`: a zip of `.npy` files.

use std::io::{Cursor, Read};

use ellwand_core::error::InputError;
use ellwand_core::tensor::Tensor;
use zip::ZipArchive;

use super::{LARGEST_FILE, npy};

/// Reads the arrays of a `.npz` file, or only the one called `member`.
///
/// # Errors
/// If it is not a zip file, an entry is damaged or not a .npy file, or there is no such member.
pub(super) fn parse(argument: &str, bytes: &[u8], member: Option<&str>) -> Result<Vec<(String, Tensor)>, InputError> {
    let damaged =
        |problem: String| InputError::new(argument, problem, "a complete .npz file, as written by numpy.savez");
    let mut archive =
        ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(format!("it is not a readable zip ({error})")))?;
    let names: Vec<String> =
        archive.file_names().filter_map(|name| name.ok()?.strip_suffix(".npy").map(str::to_string)).collect();
    if names.is_empty() {
        return Err(damaged("it holds no .npy array".into()));
    }
    chosen(argument, names, member)?
        .into_iter()
        .map(|name| {
            let mut entry =
                archive.by_name(&format!("{name}.npy")).map_err(|error| damaged(format!("{name}: {error}")))?;
            let argument = format!("{argument} ({name})");
            let mut content = Vec::new();
            let mut unpack = |content: &mut Vec<u8>, bytes: u64| {
                let unpacked = entry.by_ref().take(bytes).read_to_end(content);
                unpacked.map_err(|error| damaged(format!("{name} cannot be unpacked ({error})")))
            };
            // Trusts neither the directory nor the decompressor: the header of the array determines how much is read.
            unpack(&mut content, npy::START as u64)?;
            let whole = npy::file_len(&argument, &content)?.min(LARGEST_FILE as usize);
            let left = whole.saturating_sub(content.len()) as u64;
            unpack(&mut content, left.saturating_add(1))?;
            let tensor = npy::parse(&argument, &content)?;
            Ok((name, tensor))
        })
        .collect()
}

/// Only the array called `member`, if one is named; the error lists the arrays in the file.
pub(super) fn chosen(argument: &str, names: Vec<String>, member: Option<&str>) -> Result<Vec<String>, InputError> {
    let Some(member) = member else { return Ok(names) };
    if names.iter().any(|name| name == member) {
        return Ok(vec![member.to_string()]);
    }
    let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    let more =
        if names.len() > shown.len() { format!(" and {} more", names.len() - shown.len()) } else { String::new() };
    let expected = format!("one of {}{more}", shown.join(", "));
    let error = InputError::new(argument, format!("there is no array {member} in it"), expected);
    Err(error.near(member, names.iter().map(String::as_str)))
}
