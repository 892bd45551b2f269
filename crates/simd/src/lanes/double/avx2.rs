//! Vectors of four f64.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Double;

/// Proof that the CPU has AVX2 and FMA; made only from the proof for f32.
#[derive(Clone, Copy)]
pub(in crate::lanes) struct Avx2(pub(in crate::lanes) crate::lanes::avx2::Avx2);

impl Avx2 {
    /// 2^n for an integer n within -1022..=1023.
    #[inline(always)]
    fn power_of_two(self, n: __m256d) -> __m256d {
        proven!({
            let n = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n));
            _mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_add_epi64(n, _mm256_set1_epi64x(1023))))
        })
    }
}

impl Double for Avx2 {
    type F = __m256d;
    type M = __m256d;
    const LANES: usize = 4;

    intrinsics! {
        fn splat(self, x: f64) -> __m256d = _mm256_set1_pd(x);
        fn add(self, a: __m256d, b: __m256d) -> __m256d = _mm256_add_pd(a, b);
        fn sub(self, a: __m256d, b: __m256d) -> __m256d = _mm256_sub_pd(a, b);
        fn mul(self, a: __m256d, b: __m256d) -> __m256d = _mm256_mul_pd(a, b);
        fn div(self, a: __m256d, b: __m256d) -> __m256d = _mm256_div_pd(a, b);
        fn mul_add(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d = _mm256_fmadd_pd(a, b, c);
        fn neg_mul_add(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d = _mm256_fnmadd_pd(a, b, c);
        fn max(self, a: __m256d, b: __m256d) -> __m256d = _mm256_max_pd(a, b);
        fn lt(self, a: __m256d, b: __m256d) -> __m256d = _mm256_cmp_pd::<_CMP_LT_OQ>(a, b);
        fn eq(self, a: __m256d, b: __m256d) -> __m256d = _mm256_cmp_pd::<_CMP_EQ_OQ>(a, b);
        fn select(self, m: __m256d, yes: __m256d, no: __m256d) -> __m256d = _mm256_blendv_pd(no, yes, m);
    }

    #[inline(always)]
    fn load(self, x: &[f64]) -> __m256d {
        let x = &x[..4];
        proven!(_mm256_loadu_pd(x.as_ptr()))
    }
    #[inline(always)]
    fn store(self, y: &mut [f64], v: __m256d) {
        let y = &mut y[..4];
        proven!(_mm256_storeu_pd(y.as_mut_ptr(), v))
    }
    #[inline(always)]
    unsafe fn load_at(self, x: *const f64) -> __m256d {
        proven!(_mm256_loadu_pd(x))
    }
    #[inline(always)]
    fn scale(self, a: __m256d, n: __m256d) -> __m256d {
        // Two factors, so that only the last product rounds a subnormal result.
        let first = self.max(n, self.splat(-1022.0));
        let rest = self.power_of_two(self.sub(n, first));
        self.mul(self.mul(a, rest), self.power_of_two(first))
    }
    #[inline(always)]
    fn split(self, a: __m256d) -> (__m256d, __m256d) {
        // Normalise subnormals first.
        let small = self.lt(a, self.splat(f64::MIN_POSITIVE));
        let a = self.select(small, self.mul(a, self.splat(18_014_398_509_481_984.0)), a);
        let (mantissa, exponent) = proven!({
            let bits = _mm256_castpd_si256(a);
            let one = _mm256_set1_epi64x(0x3ff0_0000_0000_0000);
            let mantissa = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi64x(0x000f_ffff_ffff_ffff)), one);
            // The lowest bits of 2^52 + e as an f64 are e.
            let exponent = _mm256_or_si256(_mm256_srli_epi64::<52>(bits), _mm256_set1_epi64x(0x4330_0000_0000_0000));
            (_mm256_castsi256_pd(mantissa), _mm256_castsi256_pd(exponent))
        });
        let bias = self.select(small, self.splat(1023.0 + 54.0), self.splat(1023.0));
        (mantissa, self.sub(self.sub(exponent, self.splat(4_503_599_627_370_496.0)), bias))
    }
    #[inline(always)]
    fn sum(self, a: __m256d) -> f64 {
        proven!({
            let a = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
            _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a)))
        })
    }
    #[inline(always)]
    fn largest(self, a: __m256d) -> f64 {
        proven!({
            let a = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
            _mm_cvtsd_f64(_mm_max_sd(a, _mm_unpackhi_pd(a, a)))
        })
    }
}
