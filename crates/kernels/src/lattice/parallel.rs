//! The vector implementation on all threads of the current rayon pool.
//!
//! Pieces are multiples of 8 vectors, so that every piece of the bit stream starts on a byte.

use ellwand_profile::span;
use rayon::prelude::*;

use super::decode::Request;
use super::encode::CodesMut;
use super::error::LatticeError;
use super::params::Codec;
use super::simd;
use crate::isa::Isa;

/// Fewer vectors than this are not worth waking a thread for.
const SMALLEST_PIECE: usize = 4096;

/// Vectors per piece: about four pieces a thread, so that an interrupted one is made up for.
fn piece(vectors: usize) -> usize {
    let pieces = 4 * rayon::current_num_threads();
    vectors.div_ceil(pieces).max(SMALLEST_PIECE).next_multiple_of(256)
}

/// Threads that `vectors` vectors keep busy.
pub(super) fn threads(vectors: usize) -> usize {
    vectors.div_ceil(piece(vectors)).clamp(1, rayon::current_num_threads())
}

/// Pieces of an optional per-vector output; as many `None`s if it is absent.
fn split(bytes: Option<&mut [u8]>, size: usize, pieces: usize) -> Vec<Option<&mut [u8]>> {
    match bytes {
        Some(bytes) => bytes.chunks_mut(size).map(Some).collect(),
        None => (0..pieces).map(|_| None).collect(),
    }
}

/// Encodes whole vectors; arguments are already checked.
pub(super) fn encode(codec: &Codec, isa: Isa, x: &[f32], out: CodesMut<'_>) {
    let d = codec.dimension();
    let vectors = x.len() / d;
    let size = piece(vectors);
    if vectors <= size {
        return simd::encode(codec, isa, x, out);
    }
    let pieces = vectors.div_ceil(size);
    let overload = split(out.overload, size, pieces);
    let retries = split(out.retries, size, pieces);
    let packed: Vec<&mut [u8]> = out.packed.chunks_mut(size * codec.vector_bits() / 8).collect();
    let all = span!("pieces");
    let link = all.link();
    x.par_chunks(size * d).zip(packed).zip(overload).zip(retries).for_each(|(((x, packed), overload), retries)| {
        let piece = span!("piece", items = x.len() / d);
        piece.under(link);
        simd::encode(codec, isa, x, CodesMut { packed, overload, retries });
    });
}

/// Decodes whole vectors; arguments are already checked.
pub(super) fn decode(codec: &Codec, isa: Isa, request: &Request<'_>, out: &mut [f32]) -> Result<(), LatticeError> {
    let d = codec.dimension();
    let vectors = out.len() / d;
    let size = piece(vectors);
    if vectors <= size {
        return simd::decode(codec, isa, request, out);
    }
    let bytes = size * codec.vector_bits() / 8;
    let all = span!("pieces");
    let link = all.link();
    let results: Vec<Result<(), LatticeError>> = out
        .par_chunks_mut(size * d)
        .zip(request.packed.par_chunks(bytes))
        .enumerate()
        .map(|(i, (out, packed))| {
            let piece = span!("piece", items = out.len() / d);
            piece.under(link);
            let retries = request.retries.map(|t| &t[i * size..][..out.len() / d]);
            let request = Request { packed, retries, depth: request.depth };
            simd::decode(codec, isa, &request, out).map_err(|error| match error {
                LatticeError::Index { vector, level, index, limit } => {
                    LatticeError::Index { vector: vector + i * size, level, index, limit }
                }
                other => other,
            })
        })
        .collect();
    results.into_iter().collect()
}
