//! Eight lanes with AVX2.

use std::arch::x86_64::*;

use ellwand_simd::{intrinsics, proven};

use super::lanes::Lanes;

/// Proof that the CPU has AVX2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The CPU must have AVX2.
    #[inline(always)]
    pub(super) unsafe fn assume() -> Self {
        Avx2(())
    }
}

/// 4x4 transposes inside the 128-bit lanes of four registers.
macro_rules! transpose4 {
    ($a:expr, $b:expr, $c:expr, $d:expr) => {{
        let (a, b, c, d) = ($a, $b, $c, $d);
        let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(ab0, cd0),
            _mm256_shuffle_ps::<0xee>(ab0, cd0),
            _mm256_shuffle_ps::<0x44>(ab1, cd1),
            _mm256_shuffle_ps::<0xee>(ab1, cd1),
        ]
    }};
}

/// The j-th group of eight values of a slice that is known to be long enough.
macro_rules! row {
    ($x:expr, $j:expr) => {
        _mm256_loadu_ps($x.as_ptr().add(8 * $j))
    };
}

// The vector in each lane after load2 and load4; load8 keeps the order.
static FORTH2: [i32; 8] = [0, 1, 4, 5, 2, 3, 6, 7];
static FORTH4: [i32; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
// The inverse permutations.
static BACK2: [i32; 8] = [0, 1, 4, 5, 2, 3, 6, 7];
static BACK4: [i32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

impl Avx2 {
    #[inline(always)]
    fn permute(self, a: __m256i, order: &'static [i32; 8]) -> __m256i {
        proven!(_mm256_permutevar8x32_epi32(a, _mm256_loadu_si256(order.as_ptr().cast())))
    }
}

impl Lanes for Avx2 {
    type F = __m256;
    type I = __m256i;
    type M = __m256i;
    const LANES: usize = 8;

    intrinsics! {
        fn splat_f(self, v: f32) -> __m256 = _mm256_set1_ps(v);
        fn splat(self, v: i32) -> __m256i = _mm256_set1_epi32(v);
        fn add_f(self, a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn sub_f(self, a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        fn mul_f(self, a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn max_f(self, a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn min_f(self, a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        fn bits(self, a: __m256) -> __m256i = _mm256_castps_si256(a);
        fn round(self, a: __m256) -> __m256i = _mm256_cvtps_epi32(a);
        fn float(self, a: __m256i) -> __m256 = _mm256_cvtepi32_ps(a);
        fn add(self, a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        fn sub(self, a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        fn mul(self, a: __m256i, b: __m256i) -> __m256i = _mm256_mullo_epi32(a, b);
        fn and(self, a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        fn or(self, a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        fn xor(self, a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        fn max(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
        fn abs(self, a: __m256i) -> __m256i = _mm256_abs_epi32(a);
        fn shl(self, a: __m256i, by: u32) -> __m256i = _mm256_sll_epi32(a, _mm_cvtsi32_si128(by as i32));
        fn sar(self, a: __m256i, by: u32) -> __m256i = _mm256_sra_epi32(a, _mm_cvtsi32_si128(by as i32));
        fn shr(self, a: __m256i, by: u32) -> __m256i = _mm256_srl_epi32(a, _mm_cvtsi32_si128(by as i32));
        fn eq(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi32(a, b);
        fn gt(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi32(a, b);
        fn select(self, m: __m256i, a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(b, a, m);
    }

    #[inline(always)]
    fn load(self, from: &[u32]) -> __m256i {
        let from = &from[..8];
        proven!(_mm256_loadu_si256(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn store(self, a: __m256i, into: &mut [u32]) {
        let into = &mut into[..8];
        proven!(_mm256_storeu_si256(into.as_mut_ptr().cast(), a));
    }
    #[inline(always)]
    fn load2(self, x: &[f32]) -> [__m256; 2] {
        let x = &x[..16];
        proven!({
            let (a, b) = (row!(x, 0), row!(x, 1));
            [_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b)]
        })
    }
    #[inline(always)]
    fn load4(self, x: &[f32]) -> [__m256; 4] {
        let x = &x[..32];
        proven!(transpose4!(row!(x, 0), row!(x, 1), row!(x, 2), row!(x, 3)))
    }
    #[inline(always)]
    fn load8(self, x: &[f32]) -> [__m256; 8] {
        let x = &x[..64];
        proven!({
            let t = transpose4!(row!(x, 0), row!(x, 1), row!(x, 2), row!(x, 3));
            let u = transpose4!(row!(x, 4), row!(x, 5), row!(x, 6), row!(x, 7));
            [
                _mm256_permute2f128_ps::<0x20>(t[0], u[0]),
                _mm256_permute2f128_ps::<0x20>(t[1], u[1]),
                _mm256_permute2f128_ps::<0x20>(t[2], u[2]),
                _mm256_permute2f128_ps::<0x20>(t[3], u[3]),
                _mm256_permute2f128_ps::<0x31>(t[0], u[0]),
                _mm256_permute2f128_ps::<0x31>(t[1], u[1]),
                _mm256_permute2f128_ps::<0x31>(t[2], u[2]),
                _mm256_permute2f128_ps::<0x31>(t[3], u[3]),
            ]
        })
    }
    #[inline(always)]
    fn store2(self, v: [__m256; 2], x: &mut [f32]) {
        let x = &mut x[..16];
        proven!({
            _mm256_storeu_ps(x.as_mut_ptr(), _mm256_unpacklo_ps(v[0], v[1]));
            _mm256_storeu_ps(x.as_mut_ptr().add(8), _mm256_unpackhi_ps(v[0], v[1]));
        });
    }
    #[inline(always)]
    fn store4(self, v: [__m256; 4], x: &mut [f32]) {
        let x = &mut x[..32];
        proven!({
            for (j, row) in transpose4!(v[0], v[1], v[2], v[3]).into_iter().enumerate() {
                _mm256_storeu_ps(x.as_mut_ptr().add(8 * j), row);
            }
        });
    }
    #[inline(always)]
    fn store8(self, v: [__m256; 8], x: &mut [f32]) {
        let x = &mut x[..64];
        proven!({
            macro_rules! join {
                ($half:literal, $k:literal) => {
                    _mm256_permute2f128_ps::<$half>(v[$k], v[$k + 4])
                };
            }
            let low = transpose4!(join!(0x20, 0), join!(0x20, 1), join!(0x20, 2), join!(0x20, 3));
            let high = transpose4!(join!(0x31, 0), join!(0x31, 1), join!(0x31, 2), join!(0x31, 3));
            for (j, row) in low.into_iter().chain(high).enumerate() {
                _mm256_storeu_ps(x.as_mut_ptr().add(8 * j), row);
            }
        });
    }
    #[inline(always)]
    fn natural<const D: usize>(self, a: __m256i) -> __m256i {
        match D {
            2 => self.permute(a, &BACK2),
            4 => self.permute(a, &BACK4),
            _ => a,
        }
    }
    #[inline(always)]
    fn shuffled<const D: usize>(self, a: __m256i) -> __m256i {
        match D {
            2 => self.permute(a, &FORTH2),
            4 => self.permute(a, &FORTH4),
            _ => a,
        }
    }
}
