//! The few vector operations that the quantizer needs, and a portable version on arrays. The x86 versions are in
//! sibling modules; all give the same bits.

use ellwand_simd::methods;

/// A vector unit. A value of an implementing type proves that the unit exists.
///
/// `F`, `I` and `M` hold `LANES` f32 values, i32 values and booleans. No operation is fused, and every arithmetic
/// operation wraps or rounds to nearest even, like scalar code.
pub(super) trait Lanes: Copy {
    /// A vector of f32 lanes.
    type F: Copy;
    /// A vector of i32 lanes.
    type I: Copy;
    /// A mask with a boolean per lane.
    type M: Copy;
    /// Number of vectors processed together; a multiple of 8, so that a block of codes ends on a byte.
    const LANES: usize;

    fn splat_f(self, v: f32) -> Self::F;
    fn splat(self, v: i32) -> Self::I;
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a > b ? a : b`: a NaN in `a` gives `b`.
    fn max_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a < b ? a : b`.
    fn min_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn bits(self, a: Self::F) -> Self::I;
    /// Rounds to nearest even; |a| <= 2^24.
    fn round(self, a: Self::F) -> Self::I;
    fn float(self, a: Self::I) -> Self::F;
    fn add(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub(self, a: Self::I, b: Self::I) -> Self::I;
    fn mul(self, a: Self::I, b: Self::I) -> Self::I;
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    fn max(self, a: Self::I, b: Self::I) -> Self::I;
    fn abs(self, a: Self::I) -> Self::I;
    fn shl(self, a: Self::I, by: u32) -> Self::I;
    /// Arithmetic shift right.
    fn sar(self, a: Self::I, by: u32) -> Self::I;
    /// Logical shift right.
    fn shr(self, a: Self::I, by: u32) -> Self::I;
    fn eq(self, a: Self::I, b: Self::I) -> Self::M;
    fn gt(self, a: Self::I, b: Self::I) -> Self::M;
    /// `m ? a : b`.
    fn select(self, m: Self::M, a: Self::I, b: Self::I) -> Self::I;
    /// Reads the first `LANES` integers.
    fn load(self, from: &[u32]) -> Self::I;
    /// Writes the first `LANES` integers.
    fn store(self, a: Self::I, into: &mut [u32]);

    /// Loads `LANES` vectors of 2, 4 or 8 values into one register per coordinate. The order of the lanes depends on
    /// the unit; [`Lanes::natural`] restores it.
    fn load2(self, x: &[f32]) -> [Self::F; 2];
    fn load4(self, x: &[f32]) -> [Self::F; 4];
    fn load8(self, x: &[f32]) -> [Self::F; 8];
    /// The inverse of `load2` and so on, from lanes in the unit's order.
    fn store2(self, v: [Self::F; 2], x: &mut [f32]);
    fn store4(self, v: [Self::F; 4], x: &mut [f32]);
    fn store8(self, v: [Self::F; 8], x: &mut [f32]);
    /// Reorders lanes from `load{D}` into the order of the vectors.
    fn natural<const D: usize>(self, a: Self::I) -> Self::I;
    /// The inverse of `natural`.
    fn shuffled<const D: usize>(self, a: Self::I) -> Self::I;
}

/// Eight lanes as arrays, for CPUs without a supported vector unit; the compiler maps them to what is available.
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[inline(always)]
fn each<A: Copy, B: Copy, C>(a: [A; 8], b: [B; 8], f: impl Fn(A, B) -> C) -> [C; 8] {
    std::array::from_fn(|l| f(a[l], b[l]))
}

#[inline(always)]
fn gather<const D: usize>(x: &[f32]) -> [[f32; 8]; D] {
    let x = &x[..8 * D];
    std::array::from_fn(|k| std::array::from_fn(|l| x[l * D + k]))
}

#[inline(always)]
fn scatter<const D: usize>(v: [[f32; 8]; D], x: &mut [f32]) {
    for (l, vector) in x[..8 * D].chunks_exact_mut(D).enumerate() {
        for (value, lanes) in vector.iter_mut().zip(&v) {
            *value = lanes[l];
        }
    }
}

impl Lanes for Portable {
    type F = [f32; 8];
    type I = [i32; 8];
    type M = [i32; 8];
    const LANES: usize = 8;

    methods! {
        fn splat_f(self, v: f32) -> [f32; 8] = [v; 8];
        fn splat(self, v: i32) -> [i32; 8] = [v; 8];
        fn add_f(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] = each(a, b, |a, b| a + b);
        fn sub_f(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] = each(a, b, |a, b| a - b);
        fn mul_f(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] = each(a, b, |a, b| a * b);
        fn max_f(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] = each(a, b, |a, b| if a > b { a } else { b });
        fn min_f(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] = each(a, b, |a, b| if a < b { a } else { b });
        fn bits(self, a: [f32; 8]) -> [i32; 8] = a.map(|a| a.to_bits() as i32);
        fn round(self, a: [f32; 8]) -> [i32; 8] = a.map(crate::scalar::round_even);
        fn float(self, a: [i32; 8]) -> [f32; 8] = a.map(|a| a as f32);
        fn add(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, i32::wrapping_add);
        fn sub(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, i32::wrapping_sub);
        fn mul(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, i32::wrapping_mul);
        fn and(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, |a, b| a & b);
        fn or(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, |a, b| a | b);
        fn xor(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, |a, b| a ^ b);
        fn max(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, |a, b| if a > b { a } else { b });
        fn abs(self, a: [i32; 8]) -> [i32; 8] = a.map(|a| (a ^ (a >> 31)).wrapping_sub(a >> 31));
        fn shl(self, a: [i32; 8], by: u32) -> [i32; 8] = a.map(|a| a.wrapping_shl(by));
        fn sar(self, a: [i32; 8], by: u32) -> [i32; 8] = a.map(|a| a.wrapping_shr(by));
        fn shr(self, a: [i32; 8], by: u32) -> [i32; 8] = a.map(|a| (a as u32).wrapping_shr(by) as i32);
        fn eq(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, |a, b| -i32::from(a == b));
        fn gt(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] = each(a, b, |a, b| -i32::from(a > b));
        fn select(self, m: [i32; 8], a: [i32; 8], b: [i32; 8]) -> [i32; 8] =
            std::array::from_fn(|l| (a[l] & m[l]) | (b[l] & !m[l]));
        fn load2(self, x: &[f32]) -> [[f32; 8]; 2] = gather(x);
        fn load4(self, x: &[f32]) -> [[f32; 8]; 4] = gather(x);
        fn load8(self, x: &[f32]) -> [[f32; 8]; 8] = gather(x);
    }

    #[inline(always)]
    fn load(self, from: &[u32]) -> [i32; 8] {
        let from = &from[..8];
        std::array::from_fn(|l| from[l] as i32)
    }
    #[inline(always)]
    fn store(self, a: [i32; 8], into: &mut [u32]) {
        into[..8].copy_from_slice(&a.map(|a| a as u32));
    }
    #[inline(always)]
    fn store2(self, v: [[f32; 8]; 2], x: &mut [f32]) {
        scatter(v, x);
    }
    #[inline(always)]
    fn store4(self, v: [[f32; 8]; 4], x: &mut [f32]) {
        scatter(v, x);
    }
    #[inline(always)]
    fn store8(self, v: [[f32; 8]; 8], x: &mut [f32]) {
        scatter(v, x);
    }
    #[inline(always)]
    fn natural<const D: usize>(self, a: [i32; 8]) -> [i32; 8] {
        a
    }
    #[inline(always)]
    fn shuffled<const D: usize>(self, a: [i32; 8]) -> [i32; 8] {
        a
    }
}
