//! Vectors of eight f64.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Double;

/// Proof that the CPU has AVX-512 F and DQ; made only from the proof for f32.
#[derive(Clone, Copy)]
pub(in crate::lanes) struct Avx512(pub(in crate::lanes) crate::lanes::avx512::Avx512);

impl Double for Avx512 {
    type F = __m512d;
    type M = __mmask8;
    const LANES: usize = 8;

    intrinsics! {
        fn splat(self, x: f64) -> __m512d = _mm512_set1_pd(x);
        fn add(self, a: __m512d, b: __m512d) -> __m512d = _mm512_add_pd(a, b);
        fn sub(self, a: __m512d, b: __m512d) -> __m512d = _mm512_sub_pd(a, b);
        fn mul(self, a: __m512d, b: __m512d) -> __m512d = _mm512_mul_pd(a, b);
        fn div(self, a: __m512d, b: __m512d) -> __m512d = _mm512_div_pd(a, b);
        fn mul_add(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d = _mm512_fmadd_pd(a, b, c);
        fn neg_mul_add(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d = _mm512_fnmadd_pd(a, b, c);
        fn max(self, a: __m512d, b: __m512d) -> __m512d = _mm512_max_pd(a, b);
        fn scale(self, a: __m512d, n: __m512d) -> __m512d = _mm512_scalef_pd(a, n);
        fn split(self, a: __m512d) -> (__m512d, __m512d) =
            (_mm512_getmant_pd::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>(a), _mm512_getexp_pd(a));
        fn lt(self, a: __m512d, b: __m512d) -> __mmask8 = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b);
        fn eq(self, a: __m512d, b: __m512d) -> __mmask8 = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(a, b);
        fn select(self, m: __mmask8, yes: __m512d, no: __m512d) -> __m512d = _mm512_mask_blend_pd(m, no, yes);
        fn sum(self, a: __m512d) -> f64 = _mm512_reduce_add_pd(a);
        fn largest(self, a: __m512d) -> f64 = _mm512_reduce_max_pd(a);
    }

    #[inline(always)]
    fn load(self, x: &[f64]) -> __m512d {
        let x = &x[..8];
        proven!(_mm512_loadu_pd(x.as_ptr()))
    }
    #[inline(always)]
    fn store(self, y: &mut [f64], v: __m512d) {
        let y = &mut y[..8];
        proven!(_mm512_storeu_pd(y.as_mut_ptr(), v))
    }
    #[inline(always)]
    unsafe fn load_at(self, x: *const f64) -> __m512d {
        proven!(_mm512_loadu_pd(x))
    }
}
