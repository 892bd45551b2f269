//! `.safetensors`: the arrays of a model.

use ellwand_core::error::InputError;
use ellwand_core::tensor::{Dtype, Tensor};
use safetensors::SafeTensors;

use super::{elements, npz::chosen};

/// Reads the arrays of a `.safetensors` file that have a supported type, or only the one called `member`.
///
/// # Errors
/// If the file is damaged, or if `member` is missing or has an unsupported type.
pub(super) fn parse(argument: &str, bytes: &[u8], member: Option<&str>) -> Result<Vec<(String, Tensor)>, InputError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| {
        InputError::new(argument, format!("it cannot be read ({error})"), "a whole .safetensors file")
    })?;
    let mut names: Vec<String> = file.names().into_iter().map(str::to_string).collect();
    names.sort();
    let names = chosen(argument, names, member)?;
    let mut arrays = Vec::new();
    for name in &names {
        let view =
            file.tensor(name).map_err(|error| InputError::new(argument, format!("{name}: {error}"), "a whole file"))?;
        match element(view.dtype()) {
            Some(dtype) => arrays.push((name.clone(), elements(argument, dtype, false, view.shape(), view.data())?)),
            // A file of many arrays may contain unsupported types that were not requested; a requested array must be
            // readable.
            None if member.is_none() && names.len() > 1 => {}
            None => {
                return Err(InputError::new(
                    argument,
                    format!("{name} holds {:?}, which is not supported", view.dtype()),
                    "float32, float64 or an integer type",
                )
                .help("convert it to float32 first"));
            }
        }
    }
    Ok(arrays)
}

fn element(held: safetensors::Dtype) -> Option<Dtype> {
    use safetensors::Dtype as Held;
    Some(match held {
        Held::F32 => Dtype::F32,
        Held::F64 => Dtype::F64,
        Held::I8 => Dtype::I8,
        Held::I16 => Dtype::I16,
        Held::I32 => Dtype::I32,
        Held::I64 => Dtype::I64,
        Held::U8 => Dtype::U8,
        Held::U16 => Dtype::U16,
        Held::U32 => Dtype::U32,
        Held::U64 => Dtype::U64,
        _ => return None,
    })
}
