//! Decodes 64 vectors at a time by lookups in registers (AVX-512 VBMI).
//!
//! A level index of at most 8 bits selects one byte per coordinate from a table of 256 bytes, which fits into four
//! registers. The sum over levels stays in bytes, so all arithmetic for 64 vectors takes a few instructions; the rest
//! is widening to f32 and storing.

use std::arch::x86_64::*;

use ellwand_core::InputError;

use super::decode::{CHUNK, Layout, unpack};
use crate::params::Codec;
use crate::scalar_decode::Request;
use crate::tables::{ByteRow, ByteTable};

/// Interleaves the bytes, pairs or quads of two registers: the low halves of each lane, then the high ones.
macro_rules! interleave {
    ($low:ident, $high:ident, $a:expr, $b:expr) => {
        [$low($a, $b), $high($a, $b)]
    };
}

/// Decodes whole vectors; arguments are already checked.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2")]
pub(super) fn decode<const D: usize>(
    codec: &Codec,
    table: &ByteTable,
    request: &Request<'_>,
    out: &mut [f32],
) -> Result<(), InputError> {
    let mut words = [0u32; CHUNK];
    let dropped = codec.levels() - request.depth;
    let levels = table.levels::<D>();
    let mut shift = [0.0f32; 16];
    for (k, shift) in shift.iter_mut().enumerate() {
        *shift = codec.shift()[k % D];
    }
    let affine = Affine {
        // SAFETY: loads sixteen values from an array of sixteen.
        shift: unsafe { _mm512_loadu_ps(shift.as_ptr()) },
        half: _mm512_set1_ps(1.0 / codec.lattice().scale() as f32),
        // With retries the scale differs between vectors and is applied last; multiplying by 1 changes nothing.
        scale: _mm512_set1_ps(if request.retries.is_some() { 1.0 } else { codec.scales()[0] }),
    };
    let bits = codec.level_bits();
    // Two levels of one byte each are separated by a permutation, without unpacking; with 256 points every byte is
    // valid.
    let mut begin = 0;
    if codec.level_points() == 256 && levels.len() == 2 && request.retries.is_none() {
        let blocks = out.as_chunks_mut::<64>().0.as_chunks_mut::<D>().0;
        for (block, codes) in blocks.iter_mut().zip(request.packed.as_chunks::<128>().0) {
            let index = [even_bytes(codes), odd_bytes(codes)];
            let mut sums = [_mm512_setzero_si512(); D];
            for m in dropped..2 {
                add_level::<D, true>(&levels[m], index[m], &mut sums);
            }
            widen::<D>(sums, &affine, block);
            begin += 64;
        }
    }
    let out = &mut out[begin * D..];
    let packed = &request.packed[begin * codec.vector_bits() / 8..];
    let request = &Request { packed, first: request.first + begin, ..*request };
    for (c, out) in out.chunks_mut(CHUNK * D).enumerate() {
        let (first, n) = (c * CHUNK, out.len() / D);
        unpack(codec, Layout::Word, request, first, n, &mut words)?;
        let (whole, rest) = out.as_chunks_mut::<64>();
        let (groups, odd) = whole.as_chunks_mut::<D>();
        for (group, words) in groups.iter_mut().zip(words.as_chunks().0) {
            sixty_four::<D>(levels, bits, dropped, words, &affine, group);
        }
        let left = odd.len() * 64 + rest.len();
        if left > 0 {
            let done = n - left / D;
            let mut block = [[0.0; 64]; D];
            let mut last = [0; 64];
            last[..n - done].copy_from_slice(&words[done..n]);
            sixty_four::<D>(levels, bits, dropped, &last, &affine, &mut block);
            out[done * D..].copy_from_slice(&block.as_flattened()[..left]);
        }
        if let Some(retries) = request.retries {
            let scales = codec.scales();
            for (vector, &t) in out.as_chunks_mut::<D>().0.iter_mut().zip(&retries[first..]) {
                let scale = scales[usize::from(t)];
                vector.iter_mut().for_each(|x| *x *= scale);
            }
        }
    }
    Ok(())
}

/// Constants that convert integers to values, in registers.
struct Affine {
    shift: __m512,
    half: __m512,
    scale: __m512,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2")]
fn sixty_four<const D: usize>(
    levels: &[[ByteRow; D]],
    bits: u32,
    dropped: usize,
    words: &[u32; 64],
    affine: &Affine,
    out: &mut [[f32; 64]; D],
) {
    let mask = _mm512_set1_epi32((1 << bits) - 1);
    let mut sums = [_mm512_setzero_si512(); D];
    for (m, rows) in levels.iter().enumerate().skip(dropped) {
        let shift = _mm_cvtsi32_si128((m as u32 * bits) as i32);
        macro_rules! part {
            ($j:literal) => {{
                // SAFETY: sixteen words starting at 16 j are within sixty-four.
                let words = unsafe { _mm512_loadu_si512(words.as_ptr().add(16 * $j).cast()) };
                _mm512_cvtepi32_epi8(_mm512_and_si512(_mm512_srl_epi32(words, shift), mask))
            }};
        }
        let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(part!(0)), part!(1));
        let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(part!(2)), part!(3));
        let index = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        if bits == 8 {
            add_level::<D, true>(rows, index, &mut sums);
        } else {
            add_level::<D, false>(rows, index, &mut sums);
        }
    }
    widen::<D>(sums, affine, out);
}

/// Adds the points of one level for 64 indices; `FULL` if they have 8 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2")]
fn add_level<const D: usize, const FULL: bool>(rows: &[ByteRow; D], index: __m512i, sums: &mut [__m512i; D]) {
    let upper = _mm512_movepi8_mask(index);
    for k in 0..D {
        macro_rules! table {
            ($j:literal) => {
                // SAFETY: a row is four registers long.
                unsafe { _mm512_loadu_si512(rows[k].0.as_ptr().add(64 * $j).cast()) }
            };
        }
        let mut value = _mm512_permutex2var_epi8(table!(0), index, table!(1));
        if FULL {
            let other = _mm512_permutex2var_epi8(table!(2), index, table!(3));
            value = _mm512_mask_blend_epi8(upper, value, other);
        }
        sums[k] = _mm512_add_epi8(sums[k], value);
    }
}

/// Bytes 0, 2, .. of 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn even_bytes(codes: &[u8; 128]) -> __m512i {
    let (a, b) = halves(codes);
    let low = _mm512_set1_epi16(0x00ff);
    in_order(_mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low)))
}

/// Bytes 1, 3, .. of 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn odd_bytes(codes: &[u8; 128]) -> __m512i {
    let (a, b) = halves(codes);
    in_order(_mm512_packus_epi16(_mm512_srli_epi16::<8>(a), _mm512_srli_epi16::<8>(b)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn halves(codes: &[u8; 128]) -> (__m512i, __m512i) {
    // SAFETY: 128 bytes are two registers.
    unsafe { (_mm512_loadu_si512(codes.as_ptr().cast()), _mm512_loadu_si512(codes.as_ptr().add(64).cast())) }
}

/// Reverses the interleaving of lanes by a pack instruction.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn in_order(packed: __m512i) -> __m512i {
    _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed)
}

/// Transposes from coordinates to vectors, converts to f32, un-centres and scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2")]
fn widen<const D: usize>(sums: [__m512i; D], affine: &Affine, out: &mut [[f32; 64]; D]) {
    // Groups the bytes of each vector: lane l of register j then starts at vector 16 l + (16 / D) j.
    let mut rows = [_mm512_setzero_si512(); D];
    match D {
        2 => {
            let pairs = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[0], sums[1]);
            rows.copy_from_slice(&pairs);
        }
        4 => {
            let a = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[0], sums[1]);
            let b = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[2], sums[3]);
            for h in 0..2 {
                let quads = interleave!(_mm512_unpacklo_epi16, _mm512_unpackhi_epi16, a[h], b[h]);
                rows[2 * h..2 * h + 2].copy_from_slice(&quads);
            }
        }
        _ => {
            let a = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[0], sums[1]);
            let b = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[2], sums[3]);
            let c = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[4], sums[5]);
            let d = interleave!(_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, sums[6], sums[7]);
            for h in 0..2 {
                let ab = interleave!(_mm512_unpacklo_epi16, _mm512_unpackhi_epi16, a[h], b[h]);
                let cd = interleave!(_mm512_unpacklo_epi16, _mm512_unpackhi_epi16, c[h], d[h]);
                for i in 0..2 {
                    let whole = interleave!(_mm512_unpacklo_epi32, _mm512_unpackhi_epi32, ab[i], cd[i]);
                    rows[4 * h + 2 * i..4 * h + 2 * i + 2].copy_from_slice(&whole);
                }
            }
        }
    }
    let Affine { shift, half, scale } = *affine;
    let out = out.as_flattened_mut();
    macro_rules! lane {
        ($l:literal) => {
            for j in 0..D {
                let wide = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32::<$l>(rows[j])));
                let wide = if D == 8 { _mm512_mul_ps(wide, half) } else { wide };
                let value = _mm512_mul_ps(_mm512_sub_ps(wide, shift), scale);
                // SAFETY: 16 (l D + j) + 16 <= 64 D, the length of `out`.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr().add(16 * ($l * D + j)), value) };
            }
        };
    }
    lane!(0);
    lane!(1);
    lane!(2);
    lane!(3);
}
