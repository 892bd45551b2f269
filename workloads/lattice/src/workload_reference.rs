//! The outputs that judge the implementations, and the codes that they decode. Padding, digits, trimming and threads are
//! written here a second time: code that the implementations share must not judge itself.

use std::num::NonZeroUsize;
use std::thread;

use ellwand_core::{InputError, Tensor, Tensors};

use super::layout::Layout;
use super::params::Codec;
use super::reference;
use super::workload as shared;
use super::workload_code::Task;
use super::{Codes, CodesMut};

/// Minimum number of vectors per thread: a millisecond of work.
const SMALLEST_PIECE: usize = 1024;

/// Codes of whole vectors by the reference. Flags and retries are zeros if the code has none.
pub(super) struct Encoded {
    pub(super) packed: Vec<u8>,
    pub(super) overload: Vec<u8>,
    pub(super) retries: Vec<u8>,
}

impl Encoded {
    /// Encodes whole vectors on all processors.
    pub(super) fn of(codec: &Codec, x: &[f32]) -> Encoded {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let vectors = x.len() / codec.dimension();
        Encoded::in_pieces(codec, x, vectors.div_ceil(threads).max(SMALLEST_PIECE))
    }

    /// Encodes pieces of at least this many vectors in parallel.
    fn in_pieces(codec: &Codec, x: &[f32], least: usize) -> Encoded {
        // The codes of eight vectors end on a byte.
        let piece = least.next_multiple_of(8);
        let n = x.len() / codec.dimension();
        let mut all = Encoded { packed: vec![0; codec.packed_len(n)], overload: vec![0; n], retries: vec![0; n] };
        let packed = all.packed.chunks_mut(piece / 8 * codec.vector_bits());
        let side = all.overload.chunks_mut(piece).zip(all.retries.chunks_mut(piece));
        thread::scope(|threads| {
            for ((x, packed), (overload, retries)) in x.chunks(piece * codec.dimension()).zip(packed).zip(side) {
                let overload = codec.has_overload().then_some(overload);
                let retries = codec.has_retries().then_some(retries);
                threads.spawn(move || reference::encode(codec, x, CodesMut { packed, overload, retries }));
            }
        });
        all
    }
}

/// The outputs of a task by the reference.
pub(super) fn outputs(task: Task, codec: &Codec, shape: &[usize], inputs: &Tensors) -> Result<Tensors, InputError> {
    let d = codec.dimension();
    let row = shape.last().copied().unwrap_or(0);
    let layout = Layout::new(shape, d)?;
    let n = layout.vectors();
    let mut outputs = Tensors::new();
    let codes = if task == Task::Decode {
        let retries = if codec.has_retries() { exactly(inputs, "retries", n)? } else { Vec::new() };
        codec.check_retries(&retries)?;
        Encoded { packed: exactly(inputs, "packed", codec.packed_len(n))?, overload: Vec::new(), retries }
    } else {
        let x = inputs.f32("x")?;
        let mut padded = Vec::with_capacity(n * d);
        for row in x.chunks(row.max(1)) {
            padded.extend_from_slice(row);
            padded.resize(padded.len().next_multiple_of(d), 0.0);
        }
        let codes = Encoded::of(codec, &padded);
        outputs.insert("digits", Tensor::new(&[n, codec.levels(), d], &digits(codec, &codes.packed, n)[..])?);
        outputs.insert("packed", Tensor::vector(&codes.packed[..]));
        let flags = codec.has_overload().then_some(&codes.overload[..]);
        let tries = codec.has_retries().then_some(&codes.retries[..]);
        for (name, values) in [("overload", flags), ("retries", tries)] {
            if let Some(values) = values {
                outputs.insert(name, Tensor::vector(values));
            }
        }
        let file = Codes::from_parts(codec, &layout, &codes.packed, flags, tries);
        outputs.insert("codes", Tensor::vector(&file.to_bytes()[..]));
        codes
    };
    if task != Task::Encode {
        let mut decoded = vec![0.0; n * d];
        let retries = codec.has_retries().then_some(&codes.retries[..]);
        reference::decode(codec, &codes.packed, retries, codec.levels(), &mut decoded)?;
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

    #[test]
    fn pieces_give_the_codes_of_the_whole() {
        // 21 bits per vector: only every eighth vector begins on a byte.
        let params =
            Params { lattice: Lattice::D4, q: 3, levels: 3, beta: 0.1, centred: false, overload: Overload::RETRY };
        let codec = Codec::new(params).unwrap();
        let x: Vec<f32> = (0..4 * 1003).map(|i| (i as f32 * 0.7).sin() * if i % 4 == 1 { 9.0 } else { 1.0 }).collect();
        let whole = Encoded::in_pieces(&codec, &x, 1003);
        for least in [1, 57, 500, 1000] {
            let pieces = Encoded::in_pieces(&codec, &x, least);
            assert!(pieces.packed == whole.packed && pieces.retries == whole.retries, "{least}");
            assert!(pieces.overload == whole.overload, "{least}");
        }
        assert!(whole.retries.iter().any(|&t| t > 0) && whole.packed.iter().any(|&byte| byte > 0));
    }

    #[test]
    fn digits_are_those_of_the_index() {
        let params =
            Params { lattice: Lattice::Z2, q: 4, levels: 1, beta: 0.5, centred: false, overload: Overload::None };
        let codec = Codec::new(params).unwrap();
        // Four bits per vector: 0b1101 is 3 * 4 + 1, 0b0010 is 2.
        assert_eq!(digits(&codec, &[0b0010_1101], 2), [3, 1, 0, 2]);
    }
}
