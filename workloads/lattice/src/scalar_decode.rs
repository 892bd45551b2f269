//! Decoding vector by vector.

use ellwand_core::InputError;

use super::bits::BitReader;
use super::params::{Codec, Lattice};
use super::scalar::{self, Kind};
use super::tables::index_point;

/// The codes to decode; already checked.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) packed: &'a [u8],
    pub(super) retries: Option<&'a [u8]>,
    /// Number of the first vector, for errors.
    pub(super) first: usize,
    /// Number of coarsest levels kept, 1..=M.
    pub(super) depth: usize,
}

pub(super) fn scalar_decode(codec: &Codec, request: &Request<'_>, out: &mut [f32]) -> Result<(), InputError> {
    match codec.lattice() {
        Lattice::Z2 => scalar_vectors::<scalar::Z2, 2>(codec, request, out),
        Lattice::D4 => scalar_vectors::<scalar::D4, 4>(codec, request, out),
        Lattice::E8 => scalar_vectors::<scalar::E8, 8>(codec, request, out),
    }
}

fn scalar_vectors<K: Kind<D>, const D: usize>(
    codec: &Codec,
    request: &Request<'_>,
    out: &mut [f32],
) -> Result<(), InputError> {
    match codec.level_table() {
        Some(_) => read_and_look_up::<D>(codec, request, out),
        None => read_and_sum::<D>(codec, request, out, |index, weight, sum| {
            let y = index_point::<K, D>(index, codec.q());
            (0..D).for_each(|k| sum[k] += weight * (y[k] as f32 / K::SCALE as f32));
        }),
    }
}

/// Decodes vector by vector with the table of points, which must exist.
#[inline(always)]
pub(super) fn read_and_look_up<const D: usize>(
    codec: &Codec,
    request: &Request<'_>,
    out: &mut [f32],
) -> Result<(), InputError> {
    let points = codec.level_table().unwrap_or_default().as_chunks::<D>().0;
    read_and_sum::<D>(codec, request, out, |index, weight, sum| {
        let point = &points[index as usize];
        (0..D).for_each(|k| sum[k] += weight * point[k]);
    })
}

/// Reads the indices of each vector, sums their points with `add(index, q^m, sum)`, and scales.
#[inline(always)]
fn read_and_sum<const D: usize>(
    codec: &Codec,
    request: &Request<'_>,
    out: &mut [f32],
    add: impl Fn(u64, f32, &mut [f32; D]),
) -> Result<(), InputError> {
    let dropped = codec.levels() - request.depth;
    let limit = codec.level_points();
    let mut reader = BitReader::new(request.packed);
    for (v, x) in out.as_chunks_mut::<D>().0.iter_mut().enumerate() {
        // Exact: sums of integers or half-integers far below 2^24.
        let mut sum = [0.0f32; D];
        let mut weight = 1.0;
        for level in 0..codec.levels() {
            let index = reader.get(codec.level_bits());
            if u128::from(index) >= limit {
                return Err(codec.invalid_index(request.first + v, level, index));
            }
            if level >= dropped {
                add(index, weight, &mut sum);
            }
            weight *= codec.q() as f32;
        }
        let scale = codec.scales()[usize::from(request.retries.map_or(0, |t| t[v]))];
        for k in 0..D {
            x[k] = (sum[k] - codec.shift()[k]) * scale;
        }
    }
    Ok(())
}
