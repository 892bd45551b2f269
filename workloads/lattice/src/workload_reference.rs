//! The outputs that judge the implementations. Padding, digits and trimming are computed here again: what the
//! implementations share must not judge itself.

use ellwand_core::{InputError, Tensor, Tensors};

use super::layout::Layout;
use super::params::Codec;
use super::reference;
use super::workload::{self as shared, input_error};
use super::workload_code::Task;
use super::{Codes, CodesMut};

/// Vectors whose codes the reference encodes again before an implementation decodes them.
const CONFIRMED: usize = 500;

/// The outputs of a task by the reference.
pub(super) fn outputs(task: Task, codec: &Codec, shape: &[usize], inputs: &Tensors) -> Result<Tensors, InputError> {
    let d = codec.dimension();
    let row = shape.last().copied().unwrap_or(0);
    let layout = Layout::new(shape, d).map_err(input_error)?;
    let n = layout.vectors();
    let (mut packed, mut overload, mut retries) = (vec![0; codec.packed_len(n)], vec![0; n], vec![0; n]);
    let mut outputs = Tensors::new();
    if task == Task::Decode {
        packed.clone_from(&exactly(inputs, "packed", packed.len())?);
        if codec.has_retries() {
            retries.clone_from(&exactly(inputs, "retries", n)?);
            codec.check_retries(&retries).map_err(input_error)?;
        }
    } else {
        let x = inputs.f32("x")?;
        let mut padded = Vec::with_capacity(n * d);
        for row in x.chunks(row.max(1)) {
            padded.extend_from_slice(row);
            padded.resize(padded.len().next_multiple_of(d), 0.0);
        }
        let out = CodesMut {
            packed: &mut packed,
            overload: codec.has_overload().then_some(&mut overload[..]),
            retries: codec.has_retries().then_some(&mut retries[..]),
        };
        reference::encode(codec, &padded, out);
        outputs.insert("digits", Tensor::new(&[n, codec.levels(), d], &digits(codec, &packed, n)[..])?);
        outputs.insert("packed", Tensor::vector(&packed[..]));
        let (flags, tries) =
            (codec.has_overload().then_some(&overload[..]), codec.has_retries().then_some(&retries[..]));
        for (name, values) in [("overload", flags), ("retries", tries)] {
            if let Some(values) = values {
                outputs.insert(name, Tensor::vector(values));
            }
        }
        let codes = Codes::from_parts(codec, &layout, &packed, flags, tries);
        outputs.insert("codes", Tensor::vector(&codes.to_bytes()[..]));
    }
    if task != Task::Encode {
        let mut decoded = vec![0.0; n * d];
        let retries = codec.has_retries().then_some(&retries[..]);
        reference::decode(codec, &packed, retries, codec.levels(), &mut decoded).map_err(input_error)?;
        let width = row.next_multiple_of(d).max(1);
        let trimmed: Vec<f32> = decoded.chunks(width).flat_map(|padded| &padded[..row]).copied().collect();
        outputs.insert("x", Tensor::new(shape, &trimmed[..])?);
    }
    Ok(outputs)
}

fn exactly(inputs: &Tensors, name: &str, len: usize) -> Result<Vec<u8>, InputError> {
    let values = inputs.u8(name)?;
    if values.len() == len {
        return Ok(values.to_vec());
    }
    Err(InputError::new(name, format!("it holds {} values", values.len()), format!("{len}")))
}

/// Digits of all level indices, the most significant first.
fn digits(codec: &Codec, packed: &[u8], n: usize) -> Vec<u8> {
    let (d, q, mut bits) = (codec.dimension(), u64::from(codec.q()), 0);
    let mut digits = Vec::with_capacity(n * codec.levels() * d);
    for _ in 0..n * codec.levels() {
        let index = reference::get(packed, &mut bits, codec.level_bits());
        digits.extend(
            (0..d).rev().map(|place| (u128::from(index) / u128::from(q).pow(place as u32) % u128::from(q)) as u8),
        );
    }
    digits
}

/// Encodes some of the vectors again by the reference: what is decoded was made by an encoder that may be under test.
///
/// # Errors
/// If a vector has other codes.
pub(super) fn confirm(codec: &Codec, x: &[f32], packed: &[u8], retries: Option<&[u8]>) -> Result<(), InputError> {
    let d = codec.dimension();
    let n = x.len() / d;
    let step = n.div_ceil(CONFIRMED).max(1);
    let (mut one, mut flag, mut tries) = (vec![0; codec.packed_len(1)], [0], [0]);
    for v in (0..n).step_by(step).chain(n.checked_sub(1)) {
        let out = CodesMut {
            packed: &mut one,
            overload: codec.has_overload().then_some(&mut flag[..]),
            retries: retries.map(|_| &mut tries[..]),
        };
        reference::encode(codec, &x[v * d..(v + 1) * d], out);
        let (mut here, mut there) = (v * codec.vector_bits(), 0);
        let same = (0..codec.levels()).all(|_| {
            let bits = codec.level_bits();
            reference::get(packed, &mut here, bits) == reference::get(&one, &mut there, bits)
        });
        if !same || retries.is_some_and(|retries| retries[v] != tries[0]) {
            let problem = format!("the encoder gives vector {v} another code than the reference");
            let expected = "codes as the reference makes them";
            return Err(InputError::new("packed", problem, expected).help("`check lattice-encode` judges the encoder"));
        }
    }
    Ok(())
}

/// The shape of what a case encodes or decodes.
pub(super) fn shape(task: Task, case: &ellwand_core::Case, inputs: &Tensors) -> Result<Vec<usize>, InputError> {
    if task != Task::Decode {
        return Ok(inputs.get("x")?.shape().to_vec());
    }
    match inputs.find("shape") {
        Some(shape) => Ok(shape.u64()?.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect()),
        None => {
            let spec = shared::spec(case)?;
            Ok(vec![spec.batch, spec.params.lattice.dimension()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Lattice, Overload, Params};
    use crate::{Isa, Method};

    #[test]
    fn codes_that_the_reference_would_not_make_are_refused() {
        let params =
            Params { lattice: Lattice::D4, q: 3, levels: 2, beta: 0.5, centred: false, overload: Overload::None };
        let codec = Codec::new(params).unwrap();
        let x: Vec<f32> = (0..4000).map(|i| (i as f32 * 0.7).sin()).collect();
        let mut packed = vec![0; codec.packed_len(1000)];
        let out = CodesMut { packed: &mut packed, overload: None, retries: None };
        codec.encode(Method::Simd(Isa::best()), &x, out).unwrap();
        assert!(confirm(&codec, &x, &packed, None).is_ok());
        // An encoder whose digits are all zero, and one that is wrong at the last vector only.
        assert!(confirm(&codec, &x, &vec![0; packed.len()], None).is_err());
        *packed.last_mut().unwrap() ^= 1;
        assert!(confirm(&codec, &x, &packed, None).unwrap_err().to_string().contains("vector 999"));
    }

    #[test]
    fn digits_are_those_of_the_index() {
        let params =
            Params { lattice: Lattice::Z2, q: 4, levels: 1, beta: 0.5, centred: false, overload: Overload::None };
        let codec = Codec::new(params).unwrap();
        // Four bits a vector: 0b1101 is 3 * 4 + 1, 0b0010 is 2.
        assert_eq!(digits(&codec, &[0b0010_1101], 2), [3, 1, 0, 2]);
    }
}
