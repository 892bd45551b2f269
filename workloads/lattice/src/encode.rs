//! Encoding: checks the arguments, then calls one of the implementations.

use ellwand_core::InputError;

use super::bits::BitWriter;
use super::params::{Codec, Lattice, Overload, length};
use super::scalar::{self, Kind};
use super::{Method, parallel, reference, simd};

/// Output buffers of an encoding. `packed` has [`Codec::packed_len`] bytes; the others have one byte per vector.
#[derive(Debug)]
pub struct CodesMut<'a> {
    /// Bit-packed level indices, least significant bit first, level 0 lowest, no padding between vectors.
    pub packed: &'a mut [u8],
    /// 1 for each vector outside the codebook; present if and only if the mode is flag or retry.
    pub overload: Option<&'a mut [u8]>,
    /// The retry count T of each vector; present if and only if the mode is retry.
    pub retries: Option<&'a mut [u8]>,
}

impl Codec {
    /// Encodes whole vectors (f32 [N, d], row-major). NaN counts as far below the codebook.
    ///
    /// # Errors
    /// If a buffer has the wrong length, or an output of the overload mode is missing or superfluous.
    pub fn encode(&self, method: Method, x: &[f32], out: CodesMut<'_>) -> Result<(), InputError> {
        let n = self.vectors_in(x.len())?;
        let sized =
            |what, expected, got| length(what, got, expected, "allocate it for the number of vectors being encoded");
        sized("packed", self.packed_len(n), out.packed.len())?;
        present("overload", self.has_overload(), out.overload.is_some())?;
        present("retries", self.has_retries(), out.retries.is_some())?;
        if let Some(overload) = &out.overload {
            sized("overload", n, overload.len())?;
        }
        if let Some(retries) = &out.retries {
            sized("retries", n, retries.len())?;
        }
        match method {
            Method::Reference => reference::encode(self, x, out),
            Method::Scalar => scalar_encode(self, x, out),
            Method::Simd(isa) => simd::encode(self, isa, x, out),
            Method::Parallel(isa) => parallel::encode(self, isa, x, out),
        }
        Ok(())
    }
}

pub(super) fn present(what: &str, wanted: bool, given: bool) -> Result<(), InputError> {
    match (wanted, given) {
        (true, false) => {
            Err(InputError::new(what, "it is missing", "one byte per vector, as the overload mode of this code needs"))
        }
        (false, true) => Err(InputError::new(what, "it is not part of this code", "none for this overload mode")
            .help("leave it out, or choose the overload mode flag or retry")),
        _ => Ok(()),
    }
}

pub(super) fn scalar_encode(codec: &Codec, x: &[f32], out: CodesMut<'_>) {
    match codec.lattice() {
        Lattice::Z2 => scalar_vectors::<scalar::Z2, 2>(codec, x, out),
        Lattice::D4 => scalar_vectors::<scalar::D4, 4>(codec, x, out),
        Lattice::E8 => scalar_vectors::<scalar::E8, 8>(codec, x, out),
    }
}

fn scalar_vectors<K: Kind<D>, const D: usize>(codec: &Codec, x: &[f32], out: CodesMut<'_>) {
    let CodesMut { packed, mut overload, mut retries } = out;
    let cap = match codec.params().overload {
        Overload::Retry { cap, .. } => usize::from(cap),
        _ => 0,
    };
    let q = codec.q() as i32;
    let shift = (q & (q - 1) == 0).then(|| (q * K::SCALE).trailing_zeros());
    let log_q = (q as u32).trailing_zeros();
    let (level_bits, vector_bits) = (codec.level_bits(), codec.vector_bits());
    let mut writer = BitWriter::new(packed);
    // The level indices of a vector longer than 64 bits; at most 20 levels.
    let mut long = [0u64; 20];
    for (v, x) in x.as_chunks::<D>().0.iter().enumerate() {
        let mut t = 0;
        let (short, overloaded) = loop {
            let mut g = finest::<K, D>(codec, x, codec.inverse_scales()[t]);
            let mut short = 0u64;
            for (m, long) in long.iter_mut().enumerate().take(codec.levels()) {
                let y = scalar::descend::<K, D>(&mut g, q, shift);
                let z = K::coordinates(&y);
                let index = match shift {
                    Some(_) => z.iter().fold(0, |index, &z| index << log_q | u64::from((z & (q - 1)) as u32)),
                    None => z.iter().fold(0, |index, &z| index * q as u64 + u64::from(z.rem_euclid(q) as u32)),
                };
                if vector_bits <= 64 {
                    short |= index << (m as u32 * level_bits);
                } else {
                    *long = index;
                }
            }
            let overloaded = g != [0; D];
            if !overloaded || t == cap {
                break (short, overloaded);
            }
            t += 1;
        };
        if vector_bits <= 64 {
            writer.put(short, vector_bits as u32);
        } else {
            long[..codec.levels()].iter().for_each(|&index| writer.put(index, level_bits));
        }
        if let Some(overload) = overload.as_deref_mut() {
            overload[v] = u8::from(overloaded);
        }
        if let Some(retries) = retries.as_deref_mut() {
            retries[v] = t as u8;
        }
    }
    writer.finish();
}

/// The finest lattice point of one vector.
#[inline(always)]
fn finest<K: Kind<D>, const D: usize>(codec: &Codec, x: &[f32; D], inverse_scale: f32) -> [i32; D] {
    const LIMIT: f32 = 4_194_304.0;
    let (mut g, mut r) = ([0; D], [0; D]);
    for k in 0..D {
        let t = x[k] * inverse_scale + codec.shift()[k];
        let t = if t > -LIMIT { t } else { -LIMIT };
        let t = if t < LIMIT { t } else { LIMIT };
        (g[k], r[k]) = scalar::split(t);
    }
    K::settle(&mut g, &mut r, 1 << 25);
    g
}
