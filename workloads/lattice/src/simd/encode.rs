//! Encoding in blocks of `LANES` vectors: values to level indices, retries, bit packing.

use super::kind::{Kind, Steps};
use super::lanes::Lanes;
use crate::bits::BitWriter;
use crate::encode::CodesMut;
use crate::params::{Codec, Overload};

/// Vectors whose indices stay in the L1 cache between encoding and packing.
const CHUNK: usize = 256;
/// Largest number of lanes.
const WIDEST: usize = 16;

/// Output buffers for the level indices of a chunk.
pub(super) struct Words<'a> {
    /// Narrow codes (at most 32 bits per vector): one word per vector, with level 0 lowest. Wide codes: for each level
    /// a row of low halves and a row of high halves, each modulo q^4.
    pub(super) words: &'a mut [u32],
    /// Distance between rows of wide codes.
    pub(super) stride: usize,
    /// Not 0 for each overloaded vector, if requested. As words: narrowed block by block, each lane went through a
    /// general register.
    pub(super) flags: Option<&'a mut [u32]>,
}

/// Constants of an encoder, in registers.
struct Encoder<'c, S: Lanes> {
    s: S,
    codec: &'c Codec,
    steps: Steps<S>,
    wide: bool,
}

impl<S: Lanes> Encoder<'_, S> {
    /// Encodes `LANES` vectors at scale `t`; writes their words starting at `at`.
    #[inline(always)]
    fn block<K: Kind<D>, const D: usize, const POW2: bool>(&self, x: &[f32], t: usize, out: &mut Words<'_>, at: usize) {
        let (s, steps) = (self.s, &self.steps);
        let scale = s.splat_f(self.codec.inverse_scales()[t]);
        let magic = s.splat_f(12_582_912.0);
        let (low, high) = (s.splat_f(-4_194_304.0), s.splat_f(4_194_304.0));
        let shift = self.codec.shift();
        let x = K::load(s, x);
        let mut g = [s.splat(0); D];
        let mut r = [s.splat(0); D];
        for k in 0..D {
            let moved = s.add_f(s.mul_f(x[k], scale), s.splat_f(shift[k]));
            let t = s.min_f(s.max_f(moved, low), high);
            let lifted = s.add_f(t, magic);
            let e = s.sub_f(t, s.sub_f(lifted, magic));
            let u = s.round(s.mul_f(e, s.splat_f(33_554_432.0)));
            // A half rounded down to an even integer has u = 2^24: carry it up.
            let up = s.shr(s.add(u, s.splat(1 << 24)), 25);
            g[k] = s.add(s.sub(s.bits(lifted), s.bits(magic)), up);
            r[k] = s.sub(u, s.shl(up, 25));
        }
        K::settle(s, &mut g, &mut r, 1 << 25);
        let bits = self.codec.level_bits();
        let mut word = s.splat(0);
        for m in 0..self.codec.levels() {
            for k in 0..D {
                (g[k], r[k]) = steps.divide::<POW2>(s, g[k]);
            }
            K::settle(s, &mut g, &mut r, steps.unit);
            // The remainder g - q Q(g/q) has the digits of g and is small.
            let mut digits = K::coordinates(s, &r);
            for digit in &mut digits {
                *digit = steps.digit::<POW2>(s, *digit);
            }
            if self.wide {
                let split = D.saturating_sub(4);
                let low = self.horner::<POW2>(&digits[split..]);
                s.store(s.natural::<D>(low), &mut out.words[2 * m * out.stride + at..]);
                let high = self.horner::<POW2>(&digits[..split]);
                s.store(s.natural::<D>(high), &mut out.words[(2 * m + 1) * out.stride + at..]);
            } else {
                word = s.or(word, s.shl(self.horner::<POW2>(&digits), m as u32 * bits));
            }
        }
        if !self.wide {
            s.store(s.natural::<D>(word), &mut out.words[at..]);
        }
        if let Some(flags) = out.flags.as_deref_mut() {
            let mut any = g[0];
            for &g in &g[1..] {
                any = s.or(any, g);
            }
            s.store(s.natural::<D>(any), &mut flags[at..]);
        }
    }

    /// Combines digits to an index, the first most significant.
    #[inline(always)]
    fn horner<const POW2: bool>(&self, digits: &[S::I]) -> S::I {
        let s = self.s;
        let mut index = s.splat(0);
        for &digit in digits {
            index = if POW2 {
                s.or(s.shl(index, self.steps.log_q), digit)
            } else {
                s.add(s.mul(index, self.steps.q), digit)
            };
        }
        index
    }

    /// Encodes up to a chunk of vectors at scale `t`. `out` has room for whole blocks.
    #[inline(always)]
    fn chunk<K: Kind<D>, const D: usize, const POW2: bool>(&self, x: &[f32], t: usize, out: &mut Words<'_>) {
        let blocks = x.chunks_exact(S::LANES * D);
        let rest = blocks.remainder();
        let mut at = 0;
        for block in blocks {
            self.block::<K, D, POW2>(block, t, out, at);
            at += S::LANES;
        }
        if !rest.is_empty() {
            let mut padded = [0.0; WIDEST * 8];
            padded[..rest.len()].copy_from_slice(rest);
            self.block::<K, D, POW2>(&padded[..S::LANES * D], t, out, at);
        }
    }

    /// Packs the words of `n` vectors.
    #[inline(always)]
    fn pack(&self, words: &[u32], stride: usize, n: usize, packed: &mut [u8]) {
        let bits = self.codec.vector_bits();
        if self.wide {
            let level_bits = self.codec.level_bits();
            let radix = u64::from(self.codec.q()).pow(4);
            let mut writer = BitWriter::new(packed);
            for v in 0..n {
                for m in 0..self.codec.levels() {
                    let low = u64::from(words[2 * m * stride + v]);
                    let high = u64::from(words[(2 * m + 1) * stride + v]);
                    writer.put(high * radix + low, level_bits);
                }
            }
            writer.finish();
            return;
        }
        let words = &words[..n];
        match bits {
            8 => packed.iter_mut().zip(words).for_each(|(p, &w)| *p = w as u8),
            16 => {
                for (p, &w) in packed.as_chunks_mut().0.iter_mut().zip(words) {
                    *p = (w as u16).to_le_bytes();
                }
            }
            32 => {
                for (p, &w) in packed.as_chunks_mut().0.iter_mut().zip(words) {
                    *p = w.to_le_bytes();
                }
            }
            _ => {
                let mut writer = BitWriter::new(packed);
                for &word in words {
                    writer.put(u64::from(word), bits as u32);
                }
                writer.finish();
            }
        }
    }
}

/// Encodes whole vectors; arguments are already checked.
#[inline(always)]
pub(super) fn encode<S: Lanes, K: Kind<D>, const D: usize, const POW2: bool>(
    s: S,
    codec: &Codec,
    x: &[f32],
    out: CodesMut<'_>,
) {
    let wide = codec.vector_bits() > 32;
    let encoder = Encoder { s, codec, steps: Steps::new(s, codec.q(), K::SCALE), wide };
    let CodesMut { packed, mut overload, mut retries } = out;
    let rows = if wide { 2 * codec.levels() } else { 0 };
    let mut narrow_words = [0u32; CHUNK];
    let mut wide_words = vec![0u32; rows * CHUNK];
    let chunk_bytes = CHUNK * codec.vector_bits() / 8;
    let mut flags = [0u32; CHUNK];
    let mut gathered = None;
    for (c, x) in x.chunks(CHUNK * D).enumerate() {
        let n = x.len() / D;
        let words = if wide { &mut wide_words[..] } else { &mut narrow_words[..] };
        let mut target = Words { words, stride: CHUNK, flags: overload.is_some().then_some(&mut flags[..]) };
        encoder.chunk::<K, D, POW2>(x, 0, &mut target);
        if let Some(retries) = retries.as_deref_mut() {
            let retries = &mut retries[c * CHUNK..][..n];
            retry::<S, K, D, POW2>(&encoder, x, words, &mut flags[..n], retries, &mut gathered);
        }
        if let Some(overload) = overload.as_deref_mut() {
            for (to, &flag) in overload[c * CHUNK..][..n].iter_mut().zip(&flags) {
                *to = u8::from(flag != 0);
            }
        }
        let end = packed.len().min((c + 1) * chunk_bytes);
        encoder.pack(words, CHUNK, n, &mut packed[c * chunk_bytes..end]);
    }
}

/// The flagged vectors of a chunk: values, flags and words at a larger scale.
struct Gathered<const D: usize> {
    dense: [[f32; D]; CHUNK],
    dense_flags: [u32; CHUNK],
    narrow: [u32; CHUNK],
}

/// Re-encodes the flagged vectors of a chunk, gathered together, at growing scales.
#[inline(always)]
fn retry<S: Lanes, K: Kind<D>, const D: usize, const POW2: bool>(
    encoder: &Encoder<'_, S>,
    x: &[f32],
    words: &mut [u32],
    flags: &mut [u32],
    retries: &mut [u8],
    gathered: &mut Option<Gathered<D>>,
) {
    let Overload::Retry { cap, .. } = encoder.codec.params().overload else { return };
    retries.fill(0);
    let mut left = [0u16; CHUNK];
    let mut count = 0;
    for (v, &flag) in flags.iter().enumerate() {
        left[count] = v as u16;
        count += usize::from(flag != 0);
    }
    if count == 0 {
        return;
    }
    let Gathered { dense, dense_flags, narrow } = gathered.get_or_insert_with(|| Gathered {
        dense: [[0.0; D]; CHUNK],
        dense_flags: [0; CHUNK],
        narrow: [0; CHUNK],
    });
    let mut wide = if encoder.wide { vec![0u32; words.len()] } else { Vec::new() };
    let rows = words.len() / CHUNK;
    for t in 1..=cap {
        for (to, &v) in dense.iter_mut().zip(&left[..count]) {
            to.copy_from_slice(&x[usize::from(v) * D..][..D]);
        }
        let again = if encoder.wide { &mut wide[..] } else { &mut narrow[..] };
        let mut target = Words { words: again, stride: CHUNK, flags: Some(dense_flags) };
        encoder.chunk::<K, D, POW2>(dense[..count].as_flattened(), usize::from(t), &mut target);
        let mut still = 0;
        for i in 0..count {
            let v = usize::from(left[i]);
            for row in 0..rows {
                words[row * CHUNK + v] = again[row * CHUNK + i];
            }
            retries[v] = t;
            flags[v] = dense_flags[i];
            left[still] = left[i];
            still += usize::from(dense_flags[i] != 0);
        }
        count = still;
        if count == 0 {
            break;
        }
    }
}
