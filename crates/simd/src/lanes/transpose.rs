//! Transposes squares of f32 in registers. Packing the second operand of a matrix product depends on its speed.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Transposes sixteen rows of sixteen.
///
/// # Safety
/// The CPU must have AVX-512 F, all rows must be readable at `from` and writable at `to`.
#[inline(always)]
pub(super) unsafe fn sixteen(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    // SAFETY: the caller's promise; `i` stays below 16.
    unsafe {
        let row: [__m512; 16] = std::array::from_fn(|i| _mm512_loadu_ps(from.add(i * from_stride)));
        // Row pairs: within each quarter of a register, elements 0, 1 (even indices) and 2, 3 (odd indices) of both.
        let pair: [__m512; 16] = std::array::from_fn(|i| {
            let (a, b) = (row[i & !1], row[i | 1]);
            if i & 1 == 0 { _mm512_unpacklo_ps(a, b) } else { _mm512_unpackhi_ps(a, b) }
        });
        // Groups of four rows: index c of a group holds column c of each quarter.
        let four: [__m512; 16] = std::array::from_fn(|i| {
            let (base, column) = (i & !3, i & 3);
            let a = _mm512_castps_pd(pair[base + (column >> 1)]);
            let b = _mm512_castps_pd(pair[base + 2 + (column >> 1)]);
            _mm512_castpd_ps(if column & 1 == 0 { _mm512_unpacklo_pd(a, b) } else { _mm512_unpackhi_pd(a, b) })
        });
        // Groups of eight: quarters 0 and 2 (indices 0..4) or 1 and 3 (indices 4..8) of two groups of four.
        let eight: [__m512; 16] = std::array::from_fn(|i| {
            let (base, odd, column) = (i & 8, i & 4 != 0, i & 3);
            let (a, b) = (four[base + column], four[base + 4 + column]);
            if odd { _mm512_shuffle_f32x4::<0xdd>(a, b) } else { _mm512_shuffle_f32x4::<0x88>(a, b) }
        });
        for quarter in 0..4 {
            for column in 0..4 {
                let (a, b) = (eight[(quarter & 1) * 4 + column], eight[8 + (quarter & 1) * 4 + column]);
                let v = if quarter & 2 == 0 {
                    _mm512_shuffle_f32x4::<0x88>(a, b)
                } else {
                    _mm512_shuffle_f32x4::<0xdd>(a, b)
                };
                _mm512_storeu_ps(to.add((quarter * 4 + column) * to_stride), v);
            }
        }
    }
}

/// Transposes eight rows of eight.
///
/// # Safety
/// The CPU must have AVX2, all rows must be readable at `from` and writable at `to`.
#[inline(always)]
pub(super) unsafe fn eight(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    // SAFETY: the caller's promise; `i` stays below 8.
    unsafe {
        let row: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(from.add(i * from_stride)));
        let pair: [__m256; 8] = std::array::from_fn(|i| {
            let (a, b) = (row[i & !1], row[i | 1]);
            if i & 1 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
        });
        let four: [__m256; 8] = std::array::from_fn(|i| {
            let (base, column) = (i & 4, i & 3);
            let (a, b) = (pair[base + (column >> 1)], pair[base + 2 + (column >> 1)]);
            if column & 1 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
        });
        for column in 0..4 {
            let (a, b) = (four[column], four[4 + column]);
            _mm256_storeu_ps(to.add(column * to_stride), _mm256_permute2f128_ps::<0x20>(a, b));
            _mm256_storeu_ps(to.add((4 + column) * to_stride), _mm256_permute2f128_ps::<0x31>(a, b));
        }
    }
}
