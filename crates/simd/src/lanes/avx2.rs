//! Vectors of eight f32.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "a column of an array of rows")]

use std::arch::x86_64::*;

use super::{Simd, exponential_eighths};

/// Proof that the CPU has AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The CPU must have AVX2 and FMA.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }

    /// A mask with all bits set in the first `n` lanes.
    #[inline(always)]
    fn first(self, n: usize) -> __m256i {
        proven!(_mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
    }

    /// Rounds each lane to the nearest bf16, ties to even; NaN stays NaN.
    #[inline(always)]
    fn narrow(self, v: __m256) -> __m256i {
        proven!({
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            _mm256_srli_epi32::<16>(_mm256_blendv_epi8(near, _mm256_set1_epi32(0x7fff_0000), nan))
        })
    }

    /// Rounds two vectors to bf16 and concatenates them.
    #[inline(always)]
    fn narrow_two(self, a: __m256, b: __m256) -> __m256i {
        // Packing works within 128-bit halves, so the middle quarters are swapped back.
        proven!(_mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(self.narrow(a), self.narrow(b))))
    }

    /// 2^n for integral n within -126..=127; 0 for -127.
    #[inline(always)]
    fn power_of_two(self, n: __m256i) -> __m256 {
        proven!(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127)))))
    }
}

impl Simd for Avx2 {
    type F = __m256;
    type I = __m256i;
    type M = __m256;
    type Double = super::double::Avx2;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    const QUICK_LOOK_UP: bool = false;

    intrinsics! {
        fn splat(self, x: f32) -> __m256 = _mm256_set1_ps(x);
        fn add(self, a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn sub(self, a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        fn mul(self, a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn div(self, a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fnmadd_ps(a, b, c);
        fn min(self, a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        fn max(self, a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn abs(self, a: __m256) -> __m256 = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        fn sqrt(self, a: __m256) -> __m256 = _mm256_sqrt_ps(a);
        fn round(self, a: __m256) -> __m256 = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        fn lt(self, a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
        fn eq(self, a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        fn select(self, m: __m256, yes: __m256, no: __m256) -> __m256 = _mm256_blendv_ps(no, yes, m);
        fn to_int(self, a: __m256) -> __m256i = _mm256_cvtps_epi32(a);
        fn int_to_float(self, a: __m256i) -> __m256 = _mm256_cvtepi32_ps(a);
        fn bits(self, a: __m256) -> __m256i = _mm256_castps_si256(a);
        fn look_up(self, table: &[f32; 32], at: __m256i) -> __m256 =
            _mm256_i32gather_ps::<4>(table.as_ptr(), _mm256_and_si256(at, _mm256_set1_epi32(31)));
        fn by_sign(self, of: __m256, negative: __m256, positive: __m256) -> __m256 =
            _mm256_blendv_ps(positive, negative, of);
    }

    methods! {
        fn double(self) -> Self::Double = super::double::Avx2(self);
        fn fast_exp(self, x: __m256) -> __m256 = exponential_eighths::fast_exp(self, x);
        fn exp_down(self, x: __m256) -> __m256 = exponential_eighths::exp_down(self, x);
    }

    #[inline(always)]
    fn load(self, x: &[f32]) -> __m256 {
        let x = &x[..8];
        proven!(_mm256_loadu_ps(x.as_ptr()))
    }
    #[inline(always)]
    fn load_part(self, x: &[f32], fill: f32) -> __m256 {
        let mask = self.first(x.len().min(7));
        proven!(_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(x.as_ptr(), mask), _mm256_castsi256_ps(mask)))
    }
    #[inline(always)]
    fn store(self, y: &mut [f32], v: __m256) {
        let y = &mut y[..8];
        proven!(_mm256_storeu_ps(y.as_mut_ptr(), v))
    }
    #[inline(always)]
    fn store_part(self, y: &mut [f32], v: __m256) {
        let mask = self.first(y.len().min(7));
        proven!(_mm256_maskstore_ps(y.as_mut_ptr(), mask, v))
    }
    #[inline(always)]
    fn stream(self, y: &mut [f32], v: __m256) {
        let y = &mut y[..8];
        debug_assert!(y.as_ptr().addr().is_multiple_of(32));
        proven!(_mm256_stream_ps(y.as_mut_ptr(), v))
    }
    #[inline(always)]
    fn fence(self) {
        proven!(_mm_sfence())
    }
    #[inline(always)]
    unsafe fn load_at(self, x: *const f32) -> __m256 {
        proven!(_mm256_loadu_ps(x))
    }
    #[inline(always)]
    unsafe fn store_at(self, y: *mut f32, v: __m256) {
        proven!(_mm256_storeu_ps(y, v))
    }
    #[inline(always)]
    unsafe fn transpose_at(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        proven!(super::transpose::eight(from, from_stride, to, to_stride))
    }
    #[inline(always)]
    unsafe fn widen_at(self, x: *const u16) -> __m256 {
        proven!(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(x.cast())))))
    }
    #[inline(always)]
    unsafe fn narrow_at(self, y: *mut u16, v: __m256) {
        proven!(_mm_storeu_si128(y.cast(), _mm256_castsi256_si128(self.narrow_two(v, v))))
    }
    #[inline(always)]
    unsafe fn narrow_two_at(self, y: *mut u16, a: __m256, b: __m256) {
        proven!(_mm256_storeu_si256(y.cast(), self.narrow_two(a, b)))
    }
    #[inline(always)]
    unsafe fn stream_narrow_two_at(self, y: *mut u16, a: __m256, b: __m256) {
        debug_assert!(y.addr().is_multiple_of(32));
        proven!(_mm256_stream_si256(y.cast(), self.narrow_two(a, b)))
    }
    #[inline(always)]
    fn copysign(self, a: __m256, b: __m256) -> __m256 {
        let sign = self.splat(-0.0);
        proven!(_mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b)))
    }
    #[inline(always)]
    fn scale(self, a: __m256, n: __m256) -> __m256 {
        // Three factors, each a normal number, so that only the last product rounds a subnormal result.
        let n = self.to_int(n);
        let third = |n: __m256i| {
            proven!(_mm256_max_epi32(_mm256_min_epi32(n, _mm256_set1_epi32(127)), _mm256_set1_epi32(-126)))
        };
        let first = third(n);
        let rest = proven!(_mm256_sub_epi32(n, first));
        let second = third(rest);
        let last = third(proven!(_mm256_sub_epi32(rest, second)));
        let a = self.mul(a, self.power_of_two(last));
        let a = self.mul(a, self.power_of_two(second));
        self.mul(a, self.power_of_two(first))
    }
    #[inline(always)]
    fn scale_down(self, a: __m256, n: __m256) -> __m256 {
        // n comes second, because max returns its second operand for NaN. 2^-127 has the bits of 0.
        self.mul(a, self.power_of_two(self.to_int(self.max(self.splat(-127.0), n))))
    }
    #[inline(always)]
    fn split(self, a: __m256) -> (__m256, __m256) {
        // Normalise subnormals first.
        let small = self.lt(a, self.splat(f32::MIN_POSITIVE));
        let a = self.select(small, self.mul(a, self.splat(16_777_216.0)), a);
        let bits = proven!(_mm256_castps_si256(a));
        let exponent = proven!(_mm256_sub_epi32(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(127)));
        let exponent = self.int_to_float(exponent);
        let exponent = self.select(small, self.sub(exponent, self.splat(24.0)), exponent);
        let mantissa = proven!(_mm256_castsi256_ps(_mm256_or_si256(
            _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff)),
            _mm256_set1_epi32(0x3f80_0000),
        )));
        (mantissa, exponent)
    }
    #[inline(always)]
    fn one_and_exp_minus<const N: usize>(self, x: [__m256; N]) -> [__m256; N] {
        exponential_eighths::one_and_exp_minus(self, x)
    }
    #[inline(always)]
    fn exp_down_each<const ROWS: usize, const N: usize>(self, mut x: [[__m256; N]; ROWS]) -> [[__m256; N]; ROWS] {
        if N > 1 {
            for x in &mut x {
                *x = exponential_eighths::exp_down_each(self, *x);
            }
            return x;
        }
        let mut column = [self.splat(0.0); ROWS];
        for r in 0..ROWS {
            column[r] = x[r][0];
        }
        column = exponential_eighths::exp_down_each(self, column);
        for r in 0..ROWS {
            x[r][0] = column[r];
        }
        x
    }
    #[inline(always)]
    fn exp2_down_each<const N: usize>(self, x: [__m256; N]) -> [__m256; N] {
        exponential_eighths::exp2_down(self, x)
    }
    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        proven!({
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        })
    }
    #[inline(always)]
    fn largest(self, a: __m256) -> f32 {
        proven!({
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        })
    }
}
