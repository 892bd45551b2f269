//! Vectors of sixteen f32.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Simd;

/// Proof that the CPU has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The CPU must have AVX-512 F, BW, DQ and VL.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Avx512 {
    /// Rounds each lane to the nearest bf16, ties to even, in the upper half of the lane; NaN stays NaN.
    #[inline(always)]
    fn narrow(self, v: __m512) -> __m512i {
        proven!({
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(v, v);
            let up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
            _mm512_mask_add_epi32(_mm512_set1_epi32(0x7fff_0000), number, bits, up)
        })
    }

    /// Rounds two vectors to bf16 and concatenates them.
    #[inline(always)]
    fn narrow_two(self, a: __m512, b: __m512) -> __m512i {
        // SAFETY: the table has 64 bytes.
        let upper_halves = unsafe { _mm512_loadu_si512(UPPER_HALVES.as_ptr().cast()) };
        proven!(_mm512_permutex2var_epi16(self.narrow(a), upper_halves, self.narrow(b)))
    }
}

/// Indices of the upper 16-bit halves of all lanes of two vectors.
static UPPER_HALVES: [u16; 32] = {
    let mut at = [0; 32];
    let mut i = 0;
    while i < 32 {
        at[i] = 2 * i as u16 + 1;
        i += 1;
    }
    at
};

#[inline(always)]
fn first(n: usize) -> __mmask16 {
    debug_assert!(n < 16);
    (1_u16 << n) - 1
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;
    type Double = super::double::Avx512;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    const QUICK_LOOK_UP: bool = true;

    intrinsics! {
        fn splat(self, x: f32) -> __m512 = _mm512_set1_ps(x);
        fn add(self, a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub(self, a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn mul(self, a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn div(self, a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn neg_mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        fn min(self, a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        fn max(self, a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn abs(self, a: __m512) -> __m512 = _mm512_abs_ps(a);
        fn sqrt(self, a: __m512) -> __m512 = _mm512_sqrt_ps(a);
        fn round(self, a: __m512) -> __m512 =
            _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        fn scale(self, a: __m512, n: __m512) -> __m512 = _mm512_scalef_ps(a, n);
        fn split(self, a: __m512) -> (__m512, __m512) =
            (_mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>(a), _mm512_getexp_ps(a));
        fn lt(self, a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        fn eq(self, a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        fn select(self, m: __mmask16, yes: __m512, no: __m512) -> __m512 = _mm512_mask_blend_ps(m, no, yes);
        fn to_int(self, a: __m512) -> __m512i = _mm512_cvtps_epi32(a);
        fn int_to_float(self, a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);
        fn bits(self, a: __m512) -> __m512i = _mm512_castps_si512(a);
        fn sum(self, a: __m512) -> f32 = _mm512_reduce_add_ps(a);
        fn largest(self, a: __m512) -> f32 = _mm512_reduce_max_ps(a);
    }

    methods! {
        fn double(self) -> Self::Double = super::double::Avx512(self);
        fn fast_exp(self, x: __m512) -> __m512 = super::exponential_table::fast_exp(self, x);
        fn exp_down(self, x: __m512) -> __m512 = super::exponential_table::exp_down(self, x);
    }

    #[inline(always)]
    fn load(self, x: &[f32]) -> __m512 {
        let x = &x[..16];
        proven!(_mm512_loadu_ps(x.as_ptr()))
    }
    #[inline(always)]
    fn load_part(self, x: &[f32], fill: f32) -> __m512 {
        let x = &x[..x.len().min(15)];
        proven!(_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(x.len()), x.as_ptr()))
    }
    #[inline(always)]
    fn store(self, y: &mut [f32], v: __m512) {
        let y = &mut y[..16];
        proven!(_mm512_storeu_ps(y.as_mut_ptr(), v))
    }
    #[inline(always)]
    fn store_part(self, y: &mut [f32], v: __m512) {
        let n = y.len().min(15);
        proven!(_mm512_mask_storeu_ps(y.as_mut_ptr(), first(n), v))
    }
    #[inline(always)]
    fn stream(self, y: &mut [f32], v: __m512) {
        let y = &mut y[..16];
        debug_assert!(y.as_ptr().addr().is_multiple_of(64));
        proven!(_mm512_stream_ps(y.as_mut_ptr(), v))
    }
    #[inline(always)]
    fn fence(self) {
        proven!(_mm_sfence())
    }
    #[inline(always)]
    unsafe fn load_at(self, x: *const f32) -> __m512 {
        proven!(_mm512_loadu_ps(x))
    }
    #[inline(always)]
    unsafe fn store_at(self, y: *mut f32, v: __m512) {
        proven!(_mm512_storeu_ps(y, v))
    }
    #[inline(always)]
    unsafe fn transpose_at(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        proven!(super::transpose::sixteen(from, from_stride, to, to_stride))
    }
    #[inline(always)]
    unsafe fn widen_at(self, x: *const u16) -> __m512 {
        proven!({
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        })
    }
    #[inline(always)]
    unsafe fn narrow_at(self, y: *mut u16, v: __m512) {
        proven!(_mm256_storeu_si256(y.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(self.narrow(v)))))
    }
    #[inline(always)]
    unsafe fn narrow_two_at(self, y: *mut u16, a: __m512, b: __m512) {
        proven!(_mm512_storeu_si512(y.cast(), self.narrow_two(a, b)))
    }
    #[inline(always)]
    unsafe fn stream_narrow_two_at(self, y: *mut u16, a: __m512, b: __m512) {
        debug_assert!(y.addr().is_multiple_of(64));
        proven!(_mm512_stream_si512(y.cast(), self.narrow_two(a, b)))
    }
    #[inline(always)]
    fn copysign(self, a: __m512, b: __m512) -> __m512 {
        // Bitwise: the sign from b, the rest from a.
        proven!(_mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xCA>(
            _mm512_set1_epi32(i32::MIN),
            _mm512_castps_si512(b),
            _mm512_castps_si512(a),
        )))
    }
    #[inline(always)]
    fn scale_down(self, a: __m512, n: __m512) -> __m512 {
        // Lanes below that are not computed: Intel processors take a hundred cycles or more for a subnormal result.
        let normal = proven!(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(n, _mm512_set1_ps(-126.0)));
        proven!(_mm512_maskz_scalef_ps(normal, a, n))
    }
    #[inline(always)]
    fn abs_up_to(self, a: __m512, limit: __m512) -> __m512 {
        // The smaller magnitude, without a sign; if one operand is NaN, the other.
        proven!(_mm512_range_ps::<0b1010>(a, limit))
    }
    #[inline(always)]
    fn positive_part(self, a: __m512) -> __m512 {
        // By class of a: NaN gives quiet NaN, positive values and zeros give a, -infinity gives NaN, negative values
        // give -0.
        proven!(_mm512_fixupimm_ps::<0>(a, a, _mm512_set1_epi32(0x1713_1122)))
    }
    #[inline(always)]
    fn look_up(self, table: &[f32; 32], at: __m512i) -> __m512 {
        // Two halves of the table, which stay in registers if a loop uses them repeatedly.
        proven!({
            let low = _mm512_loadu_ps(table.as_ptr());
            let high = _mm512_loadu_ps(table.as_ptr().add(16));
            _mm512_permutex2var_ps(low, at, high)
        })
    }
}
