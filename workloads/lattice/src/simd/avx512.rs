//! Sixteen lanes with AVX-512 (F, BW, DQ, VL).

use std::arch::x86_64::*;

use ellwand_simd::{intrinsics, proven};

use super::lanes::Lanes;

/// Proof that the CPU has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The CPU must have AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    pub(super) unsafe fn assume() -> Self {
        Avx512(())
    }
}

/// 4x4 transposes inside the 128-bit lanes of four registers.
macro_rules! transpose4 {
    ($a:expr, $b:expr, $c:expr, $d:expr) => {{
        let (a, b, c, d) = ($a, $b, $c, $d);
        let (ab0, ab1) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (cd0, cd1) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        [
            _mm512_shuffle_ps::<0x44>(ab0, cd0),
            _mm512_shuffle_ps::<0xee>(ab0, cd0),
            _mm512_shuffle_ps::<0x44>(ab1, cd1),
            _mm512_shuffle_ps::<0xee>(ab1, cd1),
        ]
    }};
}

/// The j-th group of sixteen values of a slice that is known to be long enough.
macro_rules! row {
    ($x:expr, $j:expr) => {
        _mm512_loadu_ps($x.as_ptr().add(16 * $j))
    };
}

// The vector in each lane after load4 and load8.
const ORDER4: [i32; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
const ORDER8: [i32; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];

const fn invert(order: [i32; 16]) -> [i32; 16] {
    let mut inverse = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        inverse[order[lane] as usize] = lane as i32;
        lane += 1;
    }
    inverse
}

static BACK4: [i32; 16] = invert(ORDER4);
static BACK8: [i32; 16] = invert(ORDER8);
static FORTH4: [i32; 16] = ORDER4;
static FORTH8: [i32; 16] = ORDER8;
static EVEN: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
static ODD: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];
static LOW: [i32; 16] = [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23];
static HIGH: [i32; 16] = [8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31];

impl Avx512 {
    #[inline(always)]
    fn table(self, of: &'static [i32; 16]) -> __m512i {
        proven!(_mm512_loadu_si512(of.as_ptr().cast()))
    }
}

impl Lanes for Avx512 {
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;
    const LANES: usize = 16;

    intrinsics! {
        fn splat_f(self, v: f32) -> __m512 = _mm512_set1_ps(v);
        fn splat(self, v: i32) -> __m512i = _mm512_set1_epi32(v);
        fn add_f(self, a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub_f(self, a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn mul_f(self, a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn max_f(self, a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn min_f(self, a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        fn bits(self, a: __m512) -> __m512i = _mm512_castps_si512(a);
        fn round(self, a: __m512) -> __m512i =
            _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        fn float(self, a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);
        fn add(self, a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        fn sub(self, a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        fn mul(self, a: __m512i, b: __m512i) -> __m512i = _mm512_mullo_epi32(a, b);
        fn and(self, a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        fn or(self, a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        fn xor(self, a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        fn max(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        fn abs(self, a: __m512i) -> __m512i = _mm512_abs_epi32(a);
        fn shl(self, a: __m512i, by: u32) -> __m512i = _mm512_sll_epi32(a, _mm_cvtsi32_si128(by as i32));
        fn sar(self, a: __m512i, by: u32) -> __m512i = _mm512_sra_epi32(a, _mm_cvtsi32_si128(by as i32));
        fn shr(self, a: __m512i, by: u32) -> __m512i = _mm512_srl_epi32(a, _mm_cvtsi32_si128(by as i32));
        fn eq(self, a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpeq_epi32_mask(a, b);
        fn gt(self, a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpgt_epi32_mask(a, b);
        fn select(self, m: __mmask16, a: __m512i, b: __m512i) -> __m512i = _mm512_mask_blend_epi32(m, b, a);
    }

    #[inline(always)]
    fn load(self, from: &[u32]) -> __m512i {
        let from = &from[..16];
        proven!(_mm512_loadu_si512(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn store(self, a: __m512i, into: &mut [u32]) {
        let into = &mut into[..16];
        proven!(_mm512_storeu_si512(into.as_mut_ptr().cast(), a));
    }
    #[inline(always)]
    fn load2(self, x: &[f32]) -> [__m512; 2] {
        let x = &x[..32];
        proven!({
            let (a, b) = (_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16)));
            [_mm512_permutex2var_ps(a, self.table(&EVEN), b), _mm512_permutex2var_ps(a, self.table(&ODD), b)]
        })
    }
    #[inline(always)]
    fn load4(self, x: &[f32]) -> [__m512; 4] {
        let x = &x[..64];
        proven!(transpose4!(row!(x, 0), row!(x, 1), row!(x, 2), row!(x, 3)))
    }
    #[inline(always)]
    fn load8(self, x: &[f32]) -> [__m512; 8] {
        let x = &x[..128];
        proven!({
            let t = transpose4!(row!(x, 0), row!(x, 1), row!(x, 2), row!(x, 3));
            let u = transpose4!(row!(x, 4), row!(x, 5), row!(x, 6), row!(x, 7));
            [
                _mm512_shuffle_f32x4::<0x88>(t[0], u[0]),
                _mm512_shuffle_f32x4::<0x88>(t[1], u[1]),
                _mm512_shuffle_f32x4::<0x88>(t[2], u[2]),
                _mm512_shuffle_f32x4::<0x88>(t[3], u[3]),
                _mm512_shuffle_f32x4::<0xdd>(t[0], u[0]),
                _mm512_shuffle_f32x4::<0xdd>(t[1], u[1]),
                _mm512_shuffle_f32x4::<0xdd>(t[2], u[2]),
                _mm512_shuffle_f32x4::<0xdd>(t[3], u[3]),
            ]
        })
    }
    #[inline(always)]
    fn store2(self, v: [__m512; 2], x: &mut [f32]) {
        let x = &mut x[..32];
        proven!({
            let low = _mm512_permutex2var_ps(v[0], self.table(&LOW), v[1]);
            let high = _mm512_permutex2var_ps(v[0], self.table(&HIGH), v[1]);
            _mm512_storeu_ps(x.as_mut_ptr(), low);
            _mm512_storeu_ps(x.as_mut_ptr().add(16), high);
        });
    }
    #[inline(always)]
    fn store4(self, v: [__m512; 4], x: &mut [f32]) {
        let x = &mut x[..64];
        proven!({
            for (j, row) in transpose4!(v[0], v[1], v[2], v[3]).into_iter().enumerate() {
                _mm512_storeu_ps(x.as_mut_ptr().add(16 * j), row);
            }
        });
    }
    #[inline(always)]
    fn store8(self, v: [__m512; 8], x: &mut [f32]) {
        let x = &mut x[..128];
        proven!({
            // Lanes (0, 1) of v[k] and (0, 1) of v[k + 4] interleaved undo the 0x88 / 0xdd pair.
            macro_rules! join {
                ($half:literal, $k:literal) => {{
                    let mixed = _mm512_shuffle_f32x4::<$half>(v[$k], v[$k + 4]);
                    _mm512_shuffle_f32x4::<0xd8>(mixed, mixed)
                }};
            }
            let low = transpose4!(join!(0x44, 0), join!(0x44, 1), join!(0x44, 2), join!(0x44, 3));
            let high = transpose4!(join!(0xee, 0), join!(0xee, 1), join!(0xee, 2), join!(0xee, 3));
            for (j, row) in low.into_iter().chain(high).enumerate() {
                _mm512_storeu_ps(x.as_mut_ptr().add(16 * j), row);
            }
        });
    }
    #[inline(always)]
    fn natural<const D: usize>(self, a: __m512i) -> __m512i {
        match D {
            4 => proven!(_mm512_permutexvar_epi32(self.table(&BACK4), a)),
            8 => proven!(_mm512_permutexvar_epi32(self.table(&BACK8), a)),
            _ => a,
        }
    }
    #[inline(always)]
    fn shuffled<const D: usize>(self, a: __m512i) -> __m512i {
        match D {
            4 => proven!(_mm512_permutexvar_epi32(self.table(&FORTH4), a)),
            8 => proven!(_mm512_permutexvar_epi32(self.table(&FORTH8), a)),
            _ => a,
        }
    }
}
