//! Vectors of f32 (and, in `double`, of f64) over whatever instructions the processor has, for kernels that are written once.
//!
//! A kernel is a type that implements [`Kernel`]; its body takes a token `S: Simd` and computes with the token's methods:
//! `s.mul_add(a, b, c)`. [`dispatch`] picks the token for an [`Isa`]. A token exists only where its instructions do, so its
//! methods are safe. Everything on the way from [`Kernel::run`] to a method must be `#[inline(always)]`: that is what moves the
//! instructions into the one function that is compiled for them.
//!
//! Min and max follow x86: where either operand is NaN, the second is returned. Comparisons with NaN are false.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
/// Calls intrinsics, whose only condition is what the token proves (and for pointers what the caller checked).
macro_rules! proven {
    ($e:expr) => {
        // SAFETY: `self` proves the instructions; pointers come from slices whose length was checked or from the caller.
        unsafe { $e }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod baseline;
mod double;
mod exp2;
mod exponential;
#[cfg(target_arch = "x86_64")]
mod exponential_eighths;
#[cfg(target_arch = "x86_64")]
mod exponential_table;
pub mod half;
mod logarithm;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod transpose;

use crate::isa::{Isa, Set};

pub use double::{Double, exp2_down as exp2_down_f64, ln as ln_f64};
pub use exp2::exp2_down;
pub use exponential::{exp, exp2};
pub use logarithm::ln;

/// Vector instructions of one kind. `LANES` f32 make a vector `F`; `I` holds as many i32, `M` a condition for each.
#[allow(dead_code, reason = "each kernel takes what it needs")]
pub trait Simd: Copy + Send + Sync + 'static {
    /// A vector of f32.
    type F: Copy;
    /// A vector of i32.
    type I: Copy;
    /// A condition for each lane.
    type M: Copy;
    /// The same instructions on f64.
    type Double: Double;

    /// f32 in a vector.
    const LANES: usize;
    /// Vectors that the processor's registers hold.
    const REGISTERS: usize;
    /// Whether [`Simd::look_up`] is one instruction or two, not one for each lane.
    const QUICK_LOOK_UP: bool;

    /// The same instructions on f64.
    fn double(self) -> Self::Double;
    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// The first [`Simd::LANES`] of `x`. Panics where it is shorter.
    fn load(self, x: &[f32]) -> Self::F;
    /// All of `x`, which holds fewer than [`Simd::LANES`]; `fill` in the lanes beyond.
    fn load_part(self, x: &[f32], fill: f32) -> Self::F;
    /// Writes the first [`Simd::LANES`] of `y`. Panics where it is shorter.
    fn store(self, y: &mut [f32], v: Self::F);
    /// Writes all of `y`, which holds fewer than [`Simd::LANES`].
    fn store_part(self, y: &mut [f32], v: Self::F);
    /// As `store`, past the caches; `y` must start at a multiple of 64 bytes. Call [`Simd::fence`] before others read.
    fn stream(self, y: &mut [f32], v: Self::F);
    /// Makes streamed stores visible to other threads.
    fn fence(self);
    /// Reads [`Simd::LANES`] values.
    ///
    /// # Safety
    /// `x` points to so many readable f32.
    unsafe fn load_at(self, x: *const f32) -> Self::F;
    /// Writes [`Simd::LANES`] values.
    ///
    /// # Safety
    /// `y` points to so many writable f32.
    unsafe fn store_at(self, y: *mut f32, v: Self::F);
    /// Transposes a square of [`Simd::LANES`] by so many values; rows are `from_stride` and `to_stride` values apart.
    ///
    /// # Safety
    /// Every row of the square can be read at `from` and written at `to`; the two do not overlap.
    unsafe fn transpose_at(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
    /// Reads [`Simd::LANES`] bf16, exactly.
    ///
    /// # Safety
    /// `x` points to so many readable values.
    unsafe fn widen_at(self, x: *const u16) -> Self::F;
    /// Writes the nearest bf16 of each lane, the even one of two; NaN stays NaN.
    ///
    /// # Safety
    /// `y` points to [`Simd::LANES`] writable values.
    unsafe fn narrow_at(self, y: *mut u16, v: Self::F);
    /// The same for `a` and then `b`, which is cheaper than one after the other.
    ///
    /// # Safety
    /// `y` points to twice [`Simd::LANES`] writable values.
    unsafe fn narrow_two_at(self, y: *mut u16, a: Self::F, b: Self::F);
    /// As `narrow_two_at`, past the caches. Call [`Simd::fence`] before others read.
    ///
    /// # Safety
    /// As `narrow_two_at`, and `y` starts at a multiple of 4 [`Simd::LANES`] bytes.
    unsafe fn stream_narrow_two_at(self, y: *mut u16, a: Self::F, b: Self::F);

    /// a + b
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// a - b
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// a b
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// a / b
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// a b + c, rounded once where the processor can, twice in the baseline.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// c - a b, rounded as `mul_add`.
    fn neg_mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The smaller; b where either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger; b where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// |a|
    fn abs(self, a: Self::F) -> Self::F;
    /// The square root, correctly rounded.
    fn sqrt(self, a: Self::F) -> Self::F;
    /// The nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// The magnitude of a with the sign of b.
    fn copysign(self, a: Self::F, b: Self::F) -> Self::F;
    /// a 2^n for integral n within +-300; overflow gives infinity, underflow gives subnormals or 0.
    fn scale(self, a: Self::F, n: Self::F) -> Self::F;
    /// a 2^n for integral n <= 127, where 2^n may be taken for 0 from -127 down; NaN in both gives NaN.
    #[inline(always)]
    fn scale_down(self, a: Self::F, n: Self::F) -> Self::F {
        self.scale(a, n)
    }
    /// (m, e) with a = m 2^e and 1 <= m < 2, for positive finite a, subnormals included.
    fn split(self, a: Self::F) -> (Self::F, Self::F);

    /// a < b
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// a <= b
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    /// a = b; false for NaN, so `eq(a, a)` finds numbers.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// yes where m, else no.
    fn select(self, m: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// Whether m holds in some lane.
    fn any(self, m: Self::M) -> bool;

    /// The integral a as i32; meaningful within the range of i32.
    fn to_int(self, a: Self::F) -> Self::I;
    /// As f32.
    fn int_to_float(self, a: Self::I) -> Self::F;
    /// The bits of a.
    fn bits(self, a: Self::F) -> Self::I;
    /// The entries of `table` at the lanes' low five bits.
    fn look_up(self, table: &[f32; 32], at: Self::I) -> Self::F;

    /// e^x in the cheapest way: within 1.5 units in the last place where |x| < 8, an error that grows with |x| to 2^-18 of
    /// the result; below -87 it may be 0 and above 88.3 infinity, NaN stays NaN.
    #[inline(always)]
    fn fast_exp(self, x: Self::F) -> Self::F {
        exp(self, self.min(self.splat(100.0), self.max(self.splat(-105.0), x)))
    }
    /// e^x for x <= 0, the weight of a softmax: within 2 units in the last place where x > -8, an error that grows to 2^-18 of
    /// the result; below -87 it may be 0, at -infinity it is. NaN stays NaN.
    #[inline(always)]
    fn exp_down(self, x: Self::F) -> Self::F {
        exp(self, self.max(self.splat(-105.0), x))
    }
    /// 1 + e^-x of several vectors, within 3 units in the last place where |x| < 8, as [`Simd::fast_exp`] beyond; infinity for
    /// -infinity, NaN for NaN. Like all functions of several vectors, it takes each step for all of them where that is quicker.
    #[inline(always)]
    fn one_and_exp_minus<const N: usize>(self, mut x: [Self::F; N]) -> [Self::F; N] {
        for x in &mut x {
            *x = self.add(self.fast_exp(self.sub(self.splat(0.0), *x)), self.splat(1.0));
        }
        x
    }
    /// [`Simd::exp_down`] of several vectors, by rows; below -87.3 anything that is not normal, 0 at -infinity.
    #[inline(always)]
    fn exp_down_each<const ROWS: usize, const N: usize>(self, mut x: [[Self::F; N]; ROWS]) -> [[Self::F; N]; ROWS] {
        for x in x.as_flattened_mut() {
            *x = self.exp_down(*x);
        }
        x
    }
    /// 2^x for x <= 0 of several vectors, within 2.5 units in the last place; below -126 anything that is not normal, 0 at
    /// -infinity. NaN gives 0 or NaN.
    #[inline(always)]
    fn exp2_down_each<const N: usize>(self, mut x: [Self::F; N]) -> [Self::F; N] {
        for x in &mut x {
            *x = exp2_down(self, *x);
        }
        x
    }
    /// 2^x, within 2.5 units in the last place and 1 at 0: the weight of a softmax by a score near its own. Below -126 it may be
    /// 0, at -infinity 0 or NaN; from 127 up anything from 2^126, or NaN; NaN stays NaN.
    #[inline(always)]
    fn near_exp2(self, x: Self::F) -> Self::F {
        exp2::near_exp2(self, x)
    }
    /// The smaller of |a| and the positive `limit`; the limit for NaN.
    #[inline(always)]
    fn abs_up_to(self, a: Self::F, limit: Self::F) -> Self::F {
        self.min(self.abs(a), limit)
    }
    /// a above 0, -0 below, NaN for NaN and for -infinity: the part of an activation that grows.
    #[inline(always)]
    fn positive_part(self, a: Self::F) -> Self::F {
        let zero = self.splat(0.0);
        self.select(self.lt(a, zero), self.mul(a, zero), a)
    }

    /// `negative` where `of` is below 0, `positive` where it is above; either for 0 and NaN.
    #[inline(always)]
    fn by_sign(self, of: Self::F, negative: Self::F, positive: Self::F) -> Self::F {
        self.select(self.lt(of, self.splat(0.0)), negative, positive)
    }

    /// Sum over the lanes, by halves.
    fn sum(self, a: Self::F) -> f32;
    /// Maximum over the lanes; NaN lanes may be passed over.
    fn largest(self, a: Self::F) -> f32;
}

/// Code that runs on any vector instructions.
pub trait Kernel {
    /// What it returns.
    type Out;
    /// The body. Mark it `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

/// Runs `kernel` with the instructions `isa`.
pub fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` of this set proves that the processor has it.
        Set::Avx512 => unsafe { on_avx512(avx512::Avx512::new(), kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { on_avx2(avx2::Avx2::new(), kernel) },
        Set::Baseline => kernel.run(baseline::Baseline),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn on_avx512<K: Kernel>(s: avx512::Avx512, kernel: K) -> K::Out {
    kernel.run(s)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn on_avx2<K: Kernel>(s: avx2::Avx2, kernel: K) -> K::Out {
    kernel.run(s)
}
