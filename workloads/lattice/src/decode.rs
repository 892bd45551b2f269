//! Decoding: checks the arguments, then calls one of the implementations.

use super::bits::BitReader;
use super::encode::present;
use super::error::{LatticeError, length};
use super::params::{Codec, Lattice};
use super::scalar::{self, Kind};
use super::tables::index_point;
use super::{Method, parallel, reference, simd};

/// The codes to decode; already checked.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) packed: &'a [u8],
    pub(super) retries: Option<&'a [u8]>,
    /// Number of coarsest levels kept, 1..=M.
    pub(super) depth: usize,
}

impl Codec {
    /// Decodes packed codes into whole vectors (f32 [N, d], row-major). `retries` holds one byte per vector if and only
    /// if the overload mode is retry.
    ///
    /// # Errors
    /// If a buffer has the wrong length, retries are missing or superfluous, or a code is invalid.
    pub fn decode(
        &self,
        method: Method,
        packed: &[u8],
        retries: Option<&[u8]>,
        out: &mut [f32],
    ) -> Result<(), LatticeError> {
        self.decode_coarse(method, packed, retries, self.levels(), out)
    }

    /// Decodes only the `depth` coarsest levels, as if the finer digits were zero.
    ///
    /// # Errors
    /// As for [`Codec::decode`], and if `depth` is not in 1..=M.
    pub fn decode_coarse(
        &self,
        method: Method,
        packed: &[u8],
        retries: Option<&[u8]>,
        depth: usize,
        out: &mut [f32],
    ) -> Result<(), LatticeError> {
        let n = self.vectors_in(out.len())?;
        if !(1..=self.levels()).contains(&depth) {
            let help = "keep at least one level and at most all of them";
            return Err(LatticeError::Length { what: "depth", expected: self.levels(), got: depth, help });
        }
        let help = "pass the packed codes of exactly the vectors that the output holds";
        length("packed", packed.len(), self.packed_len(n), help)?;
        present("retries", self.has_retries(), retries.is_some())?;
        if let Some(retries) = retries {
            length("retries", retries.len(), n, help)?;
            self.check_retries(retries)?;
        }
        let request = Request { packed, retries, depth };
        match method {
            Method::Reference => reference::decode(self, packed, retries, depth, out),
            Method::Scalar => scalar_decode(self, &request, out),
            Method::Simd(isa) => simd::decode(self, isa, &request, out),
            Method::Parallel(isa) => parallel::decode(self, isa, &request, out),
        }
    }

    /// Rejects retry counts above the cap: encoding never writes them, and they have no scale.
    pub(super) fn check_retries(&self, retries: &[u8]) -> Result<(), LatticeError> {
        let cap = (self.scales().len() - 1) as u8;
        let largest = retries.iter().fold(0, |largest, &t| t.max(largest));
        if largest > cap {
            let vector = retries.iter().position(|&t| t > cap).unwrap_or(0);
            return Err(LatticeError::Retries { vector, retries: retries[vector], cap });
        }
        Ok(())
    }
}

pub(super) fn scalar_decode(codec: &Codec, request: &Request<'_>, out: &mut [f32]) -> Result<(), LatticeError> {
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
) -> Result<(), LatticeError> {
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
) -> Result<(), LatticeError> {
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
) -> Result<(), LatticeError> {
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
                return Err(LatticeError::Index { vector: v, level, index, limit: limit as u64 });
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
