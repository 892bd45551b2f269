//! The vector implementation on all processors available to this process.
//!
//! Pieces are multiples of 8 vectors, so that each piece of the bit stream starts on a byte.

use ellwand_core::InputError;
use ellwand_profile::span;

use super::encode::CodesMut;
use super::params::Codec;
use super::scalar_decode::Request;
use super::simd;
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;

/// Minimum number of vectors per piece: coding them takes about ten times as long as handing them to another thread.
const SMALLEST_PIECE: usize = 1024;

/// Vectors per piece: about four pieces per thread, so that others can make up for an interrupted thread.
fn piece(vectors: usize) -> usize {
    let pieces = 4 * pool::threads();
    vectors.div_ceil(pieces).max(SMALLEST_PIECE).next_multiple_of(256)
}

/// Number of threads that `vectors` vectors keep busy.
pub(super) fn threads(vectors: usize) -> usize {
    vectors.div_ceil(piece(vectors)).clamp(1, pool::threads())
}

/// A piece of an encoding: its vectors and the buffers for their codes.
struct Encoding<'a> {
    x: &'a [f32],
    out: CodesMut<'a>,
}

/// Encodes whole vectors; arguments are already checked.
pub(super) fn encode(codec: &Codec, isa: Isa, x: &[f32], out: CodesMut<'_>) {
    let d = codec.dimension();
    let vectors = x.len() / d;
    let size = piece(vectors);
    if vectors <= size {
        return simd::encode(codec, isa, x, out);
    }
    let packed = out.packed.chunks_mut(size * codec.vector_bits() / 8);
    let mut overload = out.overload.map(|bytes| bytes.chunks_mut(size));
    let mut retries = out.retries.map(|bytes| bytes.chunks_mut(size));
    let pieces: Vec<Encoding<'_>> = (x.chunks(size * d).zip(packed))
        .map(|(x, packed)| {
            let overload = overload.as_mut().and_then(Iterator::next);
            let retries = retries.as_mut().and_then(Iterator::next);
            Encoding { x, out: CodesMut { packed, overload, retries } }
        })
        .collect();
    let all = span!("pieces");
    let link = all.link();
    pool::for_each_part(pieces, |_, Encoding { x, out }| {
        let piece = span!("piece", items = x.len() / d);
        piece.under(link);
        simd::encode(codec, isa, x, out);
    });
}

/// Decodes whole vectors; arguments are already checked.
pub(super) fn decode(codec: &Codec, isa: Isa, request: &Request<'_>, out: &mut [f32]) -> Result<(), InputError> {
    let d = codec.dimension();
    let vectors = out.len() / d;
    let size = piece(vectors);
    if vectors <= size {
        return simd::decode(codec, isa, request, out);
    }
    let bytes = size * codec.vector_bits() / 8;
    let mut results: Vec<Result<(), InputError>> = Vec::new();
    results.resize_with(vectors.div_ceil(size), || Ok(()));
    let pieces: Vec<_> = out.chunks_mut(size * d).zip(request.packed.chunks(bytes)).zip(&mut results).collect();
    let all = span!("pieces");
    let link = all.link();
    pool::for_each_part(pieces, |i, ((out, packed), result)| {
        let piece = span!("piece", items = out.len() / d);
        piece.under(link);
        let retries = request.retries.map(|t| &t[i * size..][..out.len() / d]);
        let request = Request { packed, retries, first: i * size, depth: request.depth };
        *result = simd::decode(codec, isa, &request, out);
    });
    // Reports the first piece that failed, whichever thread finished first.
    results.into_iter().collect()
}
