//! `.safetensors`: the arrays of a model.

use ellwand_core::error::InputError;
use ellwand_core::tensor::Tensor;
use safetensors::{Dtype, SafeTensors};

use super::{Element, elements, npz::missing};

/// Reads the arrays of a `.safetensors` file whose type is supported, or only the one called `member`.
///
/// # Errors
/// When the file is damaged, there is no such member, or it has a type that is not supported.
pub(super) fn parse(argument: &str, bytes: &[u8], member: Option<&str>) -> Result<Vec<(String, Tensor)>, InputError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| {
        InputError::new(argument, format!("it cannot be read ({error})"), "a whole .safetensors file")
    })?;
    let mut names: Vec<String> = file.names().into_iter().map(str::to_string).collect();
    names.sort();
    if let Some(member) = member
        && !names.iter().any(|name| name == member)
    {
        return Err(missing(argument, member, &names));
    }
    let mut arrays = Vec::new();
    for name in names.iter().filter(|name| member.is_none_or(|member| member == *name)) {
        let view =
            file.tensor(name).map_err(|error| InputError::new(argument, format!("{name}: {error}"), "a whole file"))?;
        match element(view.dtype()) {
            Some(kind) => arrays.push((name.clone(), elements(argument, kind, false, view.shape(), view.data())?)),
            // A file of many arrays may hold types that nobody asked for; the one asked for must be readable.
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

fn element(dtype: Dtype) -> Option<Element> {
    Some(match dtype {
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        Dtype::I8 => Element::I8,
        Dtype::I16 => Element::I16,
        Dtype::I32 => Element::I32,
        Dtype::I64 => Element::I64,
        Dtype::U8 => Element::U8,
        Dtype::U16 => Element::U16,
        Dtype::U32 => Element::U32,
        Dtype::U64 => Element::U64,
        _ => return None,
    })
}
