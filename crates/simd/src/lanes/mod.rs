//! Vectors of f32 (and, in `double`, of f64) over the instruction sets of the CPU, for kernels that are written once.
//!
//! A kernel is a type that implements [`Kernel`]; its body takes a token `S: Simd` and computes with the token's
//! methods: `s.mul_add(a, b, c)`. [`dispatch`] selects the token for an [`Isa`](crate::isa::Isa). A token exists only if its
//! instructions do, so its methods are safe. Everything on the path from [`Kernel::run`] to a method must be
//! `#[inline(always)]`, so that the instructions end up in the one function that is compiled for them.
//!
//! As on x86, min and max return their second operand if either is NaN. Comparisons with NaN are false.

#![allow(unsafe_code)]

/// Calls intrinsics whose only condition is the one that the token proves (and, for pointers, the one that the caller
/// checked).
#[doc(hidden)]
#[macro_export]
macro_rules! proven {
    ($e:expr) => {
        // SAFETY: `self` proves the instructions; pointers come from slices whose length was checked or from the caller.
        unsafe { $e }
    };
}

/// Methods that consist of one expression each.
#[doc(hidden)]
#[macro_export]
macro_rules! methods {
    ($(fn $name:ident($self:ident $(, $x:ident: $type:ty)*) -> $out:ty = $body:expr;)*) => {
        $(#[inline(always)]
        fn $name($self $(, $x: $type)*) -> $out {
            $body
        })*
    };
}

/// As `methods`, for bodies inside [`proven`].
#[doc(hidden)]
#[macro_export]
macro_rules! intrinsics {
    ($(fn $name:ident($self:ident $(, $x:ident: $type:ty)*) -> $out:ty = $body:expr;)*) => {
        $crate::methods! { $(fn $name($self $(, $x: $type)*) -> $out = $crate::proven!($body);)* }
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
mod run;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod transpose;

pub use double::{Double, exp2_down as exp2_down_f64, ln as ln_f64};
pub use exp2::exp2_down;
pub use exponential::{exp, exp2};
pub use logarithm::ln;
pub use run::dispatch;

/// One set of vector instructions. A vector `F` holds `LANES` f32, `I` as many i32, and a mask `M` a condition per
/// lane.
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

    /// Number of f32 lanes in a vector.
    const LANES: usize;
    /// Number of vector registers of the CPU.
    const REGISTERS: usize;
    /// True if [`Simd::look_up`] takes one or two instructions, not one per lane.
    const QUICK_LOOK_UP: bool;

    /// The token for the same instructions on f64.
    fn double(self) -> Self::Double;
    /// A vector with `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// Reads the first [`Simd::LANES`] values of `x`. Panics if it is shorter.
    fn load(self, x: &[f32]) -> Self::F;
    /// Reads all of `x`, which must be shorter than [`Simd::LANES`], and sets the remaining lanes to `fill`.
    fn load_part(self, x: &[f32], fill: f32) -> Self::F;
    /// Writes the first [`Simd::LANES`] values of `y`. Panics if it is shorter.
    fn store(self, y: &mut [f32], v: Self::F);
    /// Writes all of `y`, which must be shorter than [`Simd::LANES`].
    fn store_part(self, y: &mut [f32], v: Self::F);
    /// As `store`, bypassing the caches; `y` must be aligned to 64 bytes. Call [`Simd::fence`] before other threads
    /// read.
    fn stream(self, y: &mut [f32], v: Self::F);
    /// Makes non-temporal stores visible to other threads.
    fn fence(self);
    /// Reads [`Simd::LANES`] values.
    ///
    /// # Safety
    /// `x` must point to [`Simd::LANES`] readable f32.
    unsafe fn load_at(self, x: *const f32) -> Self::F;
    /// Writes [`Simd::LANES`] values.
    ///
    /// # Safety
    /// `y` must point to [`Simd::LANES`] writable f32.
    unsafe fn store_at(self, y: *mut f32, v: Self::F);
    /// Transposes a square of [`Simd::LANES`] by [`Simd::LANES`] values; rows are `from_stride` and `to_stride` values
    /// apart.
    ///
    /// # Safety
    /// Every row of the square must be readable at `from` and writable at `to`, and the two must not overlap.
    unsafe fn transpose_at(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
    /// Reads [`Simd::LANES`] bf16 values, exactly.
    ///
    /// # Safety
    /// `x` must point to [`Simd::LANES`] readable values.
    unsafe fn widen_at(self, x: *const u16) -> Self::F;
    /// Writes the nearest bf16 of each lane, ties to even; NaN stays NaN.
    ///
    /// # Safety
    /// `y` must point to [`Simd::LANES`] writable values.
    unsafe fn narrow_at(self, y: *mut u16, v: Self::F);
    /// As `narrow_at` for `a` and then `b`, which is cheaper than two calls.
    ///
    /// # Safety
    /// `y` must point to twice [`Simd::LANES`] writable values.
    unsafe fn narrow_two_at(self, y: *mut u16, a: Self::F, b: Self::F);
    /// As `narrow_two_at`, bypassing the caches. Call [`Simd::fence`] before other threads read.
    ///
    /// # Safety
    /// As for `narrow_two_at`, and `y` must be aligned to 4 [`Simd::LANES`] bytes.
    unsafe fn stream_narrow_two_at(self, y: *mut u16, a: Self::F, b: Self::F);

    /// The sum a + b.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// The difference a - b.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// The product a b.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// The quotient a / b.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// a b + c, rounded once if the CPU has FMA, twice in the baseline.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// c - a b, rounded like `mul_add`.
    fn neg_mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The smaller value; b if either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger value; b if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The magnitude of a.
    fn abs(self, a: Self::F) -> Self::F;
    /// The square root, correctly rounded.
    fn sqrt(self, a: Self::F) -> Self::F;
    /// The nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// The magnitude of a with the sign of b.
    fn copysign(self, a: Self::F, b: Self::F) -> Self::F;
    /// a 2^n for an integer n within +-300; overflow gives infinity, underflow gives subnormals or 0.
    fn scale(self, a: Self::F, n: Self::F) -> Self::F;
    /// a 2^n for an integer n <= 127; 2^n may be 0 from -127 down. NaN in both gives NaN.
    #[inline(always)]
    fn scale_down(self, a: Self::F, n: Self::F) -> Self::F {
        self.scale(a, n)
    }
    /// (m, e) with a = m 2^e and 1 <= m < 2, for positive finite a, subnormals included.
    fn split(self, a: Self::F) -> (Self::F, Self::F);

    /// a < b; false for NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// a = b; false for NaN, so `eq(a, a)` finds numbers.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// `yes` in lanes where `m` holds, else `no`.
    fn select(self, m: Self::M, yes: Self::F, no: Self::F) -> Self::F;

    /// The integer value a as i32; meaningful within the range of i32.
    fn to_int(self, a: Self::F) -> Self::I;
    /// Converts to f32.
    fn int_to_float(self, a: Self::I) -> Self::F;
    /// The bits of each lane.
    fn bits(self, a: Self::F) -> Self::I;
    /// Looks up each lane's low five bits in `table`.
    fn look_up(self, table: &[f32; 32], at: Self::I) -> Self::F;

    /// e^x by the cheapest method: within 1.5 units in the last place for |x| < 8, with an error that grows with |x| to
    /// 2^-18 of the result. Below -87 it may be 0, above 88.3 infinity; NaN stays NaN.
    #[inline(always)]
    fn fast_exp(self, x: Self::F) -> Self::F {
        exp(self, self.min(self.splat(100.0), self.max(self.splat(-105.0), x)))
    }
    /// e^x for x <= 0, as in softmax weights: within 2 units in the last place for x > -8, with an error that grows to
    /// 2^-18 of the result. Below -87 it may be 0; at -infinity it is. NaN stays NaN.
    #[inline(always)]
    fn exp_down(self, x: Self::F) -> Self::F {
        exp(self, self.max(self.splat(-105.0), x))
    }
    /// 1 + e^-x of several vectors, within 3 units in the last place for |x| < 8, beyond that as [`Simd::fast_exp`];
    /// infinity for -infinity, NaN for NaN. Like all functions of several vectors, it interleaves their steps if that
    /// is faster.
    #[inline(always)]
    fn one_and_exp_minus<const N: usize>(self, mut x: [Self::F; N]) -> [Self::F; N] {
        for x in &mut x {
            *x = self.add(self.fast_exp(self.sub(self.splat(0.0), *x)), self.splat(1.0));
        }
        x
    }
    /// [`Simd::exp_down`] of several rows of vectors; below -87.3 any subnormal or 0, 0 at -infinity.
    #[inline(always)]
    fn exp_down_each<const ROWS: usize, const N: usize>(self, mut x: [[Self::F; N]; ROWS]) -> [[Self::F; N]; ROWS] {
        for x in x.as_flattened_mut() {
            *x = self.exp_down(*x);
        }
        x
    }
    /// 2^x for x <= 0 of several vectors, within 2.5 units in the last place; below -126 any subnormal or 0, 0 at
    /// -infinity. NaN gives 0 or NaN.
    #[inline(always)]
    fn exp2_down_each<const N: usize>(self, mut x: [Self::F; N]) -> [Self::F; N] {
        for x in &mut x {
            *x = exp2_down(self, *x);
        }
        x
    }
    /// The smaller of |a| and the positive `limit`; `limit` for NaN.
    #[inline(always)]
    fn abs_up_to(self, a: Self::F, limit: Self::F) -> Self::F {
        self.min(self.abs(a), limit)
    }
    /// a if positive, -0 if negative, NaN for NaN and for -infinity: the growing part of an activation function.
    #[inline(always)]
    fn positive_part(self, a: Self::F) -> Self::F {
        let zero = self.splat(0.0);
        self.select(self.lt(a, zero), self.mul(a, zero), a)
    }

    /// `negative` if `of` is below 0, `positive` if above; either for 0 and NaN.
    #[inline(always)]
    fn by_sign(self, of: Self::F, negative: Self::F, positive: Self::F) -> Self::F {
        self.select(self.lt(of, self.splat(0.0)), negative, positive)
    }

    /// Sum over the lanes, by repeated halving.
    fn sum(self, a: Self::F) -> f32;
    /// Maximum over the lanes; NaN lanes may be ignored.
    fn largest(self, a: Self::F) -> f32;
}

/// Code that runs with any vector instructions.
pub trait Kernel {
    /// The result of the kernel.
    type Out;
    /// The body. Mark it `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}
