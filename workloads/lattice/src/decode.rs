//! Decoding: checks the arguments, then calls one of the implementations.

use ellwand_core::InputError;
use std::sync::OnceLock;

use super::bits::BitReader;
use super::encode::present;
use super::params::{Codec, Lattice, length};
use super::scalar::{self, Kind};
use super::{Method, parallel, reference, simd};

/// Largest table of a level's points in bytes: it shares the L2 cache with the data.
const TABLE_BYTES: u128 = 256 << 10;

/// Tables built when decoding is first used.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    points: OnceLock<Box<[f32]>>,
    bytes: OnceLock<Option<ByteTable>>,
}

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
    ) -> Result<(), InputError> {
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
    ) -> Result<(), InputError> {
        let n = self.vectors_in(out.len())?;
        if !(1..=self.levels()).contains(&depth) {
            let expected = format!("1 to {} levels", self.levels());
            return Err(InputError::setting("depth", format!("{depth} is out of range"), expected));
        }
        let help = "pass the packed codes of exactly the vectors that the output holds";
        length("packed", packed.len(), self.packed_len(n), help)?;
        present("retries", self.has_retries(), retries.is_some())?;
        if let Some(retries) = retries {
            length("retries", retries.len(), n, help)?;
            self.check_retries(retries)?;
        }
        let request = Request { packed, retries, first: 0, depth };
        match method {
            Method::Reference => reference::decode(self, packed, retries, depth, out),
            Method::Scalar => scalar_decode(self, &request, out),
            Method::Simd(isa) => simd::decode(self, isa, &request, out),
            Method::Parallel(isa) => parallel::decode(self, isa, &request, out),
        }
    }

    /// Rejects retry counts above the cap: encoding never writes them, and they have no scale.
    pub(super) fn check_retries(&self, retries: &[u8]) -> Result<(), InputError> {
        let cap = (self.scales().len() - 1) as u8;
        let largest = retries.iter().fold(0, |largest, &t| t.max(largest));
        if largest > cap {
            let vector = retries.iter().position(|&t| t > cap).unwrap_or(0);
            let problem = format!("vector {vector} has {}, above the cap {cap}", retries[vector]);
            return Err(InputError::new("retries", problem, "the retries that encoding wrote"));
        }
        Ok(())
    }

    /// The error of a level index that is no point, which exists only if q is not a power of two. Level 0 is the finest.
    #[cold]
    pub(super) fn invalid_index(&self, vector: usize, level: usize, index: u64) -> InputError {
        let limit = self.level_points();
        let problem = format!("index {index} of vector {vector}, level {level} is not below q^d = {limit}");
        InputError::new("packed", problem, "the bytes that encoding wrote, with the same lattice, q and levels")
    }

    /// The points of one level in lattice units by packed index, if the table is small. Bit patterns that are not an
    /// index (q not a power of two) hold zeros.
    pub(super) fn level_table(&self) -> Option<&[f32]> {
        let d = self.dimension();
        if (d as u128 * 4) << self.level_bits() > TABLE_BYTES {
            return None;
        }
        Some(self.tables().points.get_or_init(|| match self.lattice() {
            Lattice::Z2 => table::<scalar::Z2, 2>(self),
            Lattice::D4 => table::<scalar::D4, 4>(self),
            Lattice::E8 => table::<scalar::E8, 8>(self),
        }))
    }

    /// The points as bytes, if they fit.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AVX-512 VBMI looks up bytes"))]
    pub(super) fn byte_table(&self) -> Option<&ByteTable> {
        self.tables().bytes.get_or_init(|| ByteTable::new(self)).as_ref()
    }
}

/// The points of every level times its weight q^m as bytes, for lookups in registers: 256 bytes for each level and
/// coordinate.
#[derive(Debug, Clone)]
pub(super) struct ByteTable {
    rows: Vec<ByteRow>,
}

/// The values of one coordinate at one level by index, aligned to cache lines.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct ByteRow(pub(super) [i8; 256]);

impl ByteTable {
    /// The rows of each level, one per coordinate.
    pub(super) fn levels<const D: usize>(&self) -> &[[ByteRow; D]] {
        self.rows.as_chunks().0
    }

    /// `None` if an index has more than 8 bits, a vector more than 32, or a sum does not fit into a byte.
    fn new(codec: &Codec) -> Option<ByteTable> {
        if codec.level_bits() > 8 || codec.vector_bits() > 32 {
            return None;
        }
        let points = codec.level_table()?;
        let (d, scale) = (codec.dimension(), codec.lattice().scale() as f32);
        let largest = points.iter().fold(0.0f32, |largest, y| largest.max(y.abs())) * scale;
        let weights: Vec<f32> = (0..codec.levels() as i32).map(|m| (codec.q() as f32).powi(m)).collect();
        if largest * weights.iter().sum::<f32>() > 127.0 {
            return None;
        }
        let mut rows = Vec::with_capacity(codec.levels() * d);
        for weight in weights {
            for k in 0..d {
                let mut row = ByteRow([0; 256]);
                for (byte, y) in row.0.iter_mut().zip(points.iter().skip(k).step_by(d)) {
                    *byte = (weight * y * scale) as i8;
                }
                rows.push(row);
            }
        }
        Some(ByteTable { rows })
    }
}

fn table<K: Kind<D>, const D: usize>(codec: &Codec) -> Box<[f32]> {
    let mut points = vec![0.0; D << codec.level_bits()];
    let valid = points.as_chunks_mut::<D>().0.iter_mut().take(codec.level_points() as usize);
    for (index, point) in valid.enumerate() {
        let y = index_point::<K, D>(index as u64, codec.q());
        for (value, y) in point.iter_mut().zip(y) {
            *value = y as f32 / K::SCALE as f32;
        }
    }
    points.into_boxed_slice()
}

/// The point of a level index, doubled for E8.
#[inline(always)]
fn index_point<K: Kind<D>, const D: usize>(index: u64, q: u32) -> [i32; D] {
    let mut digits = [0; D];
    let mut rest = index;
    for digit in digits.iter_mut().rev() {
        if q.is_power_of_two() {
            *digit = (rest & u64::from(q - 1)) as i32;
            rest >>= q.trailing_zeros();
        } else {
            *digit = (rest % u64::from(q)) as i32;
            rest /= u64::from(q);
        }
    }
    scalar::level_point::<K, D>(&digits, q as i32)
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
