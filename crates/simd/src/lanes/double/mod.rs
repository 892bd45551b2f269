//! Vectors of f64 to complement those of f32, for kernels whose results must be accurate to 1e-11.
//!
//! `s.double()` gives the f64 token for the instructions of an f32 token, so one [`Kernel`](super::Kernel) serves both.
//! Provides only what distance kernels need. As on x86, max returns its second operand if either is NaN.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod baseline;
mod functions;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
pub(super) use baseline::Baseline;
pub use functions::{exp2_down, ln};

/// One set of vector instructions on f64: a vector `F` has `LANES` lanes, and a mask `M` has a condition per lane.
pub trait Double: Copy + Send + Sync + 'static {
    /// A vector of f64.
    type F: Copy;
    /// A condition for each lane.
    type M: Copy;

    /// Number of f64 lanes in a vector.
    const LANES: usize;

    /// A vector with `x` in every lane.
    fn splat(self, x: f64) -> Self::F;
    /// Reads the first [`Double::LANES`] values of `x`. Panics if it is shorter.
    fn load(self, x: &[f64]) -> Self::F;
    /// Writes the first [`Double::LANES`] values of `y`. Panics if it is shorter.
    fn store(self, y: &mut [f64], v: Self::F);
    /// Reads [`Double::LANES`] values.
    ///
    /// # Safety
    /// `x` must point to [`Double::LANES`] readable f64.
    unsafe fn load_at(self, x: *const f64) -> Self::F;

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
    /// The larger value; b if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// a 2^n for an integer n from -1200 to 1023 and |a| within a factor of 4 of 1; underflow gives subnormals, then 0.
    fn scale(self, a: Self::F, n: Self::F) -> Self::F;
    /// (m, e) with a = m 2^e and 1 <= m < 2, for positive finite a, subnormals included.
    fn split(self, a: Self::F) -> (Self::F, Self::F);
    /// a < b; false for NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// a = b; false for NaN.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// `yes` in lanes where `m` holds, else `no`.
    fn select(self, m: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// Sum over the lanes, by repeated halving.
    fn sum(self, a: Self::F) -> f64;
    /// Maximum over the lanes; NaN lanes may be ignored.
    fn largest(self, a: Self::F) -> f64;

    /// The nearest integer for |a| < 2^51, ties to even: the addition leaves no fraction bits.
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        let magic = self.splat(6_755_399_441_055_744.0);
        self.sub(self.add(a, magic), magic)
    }
}
