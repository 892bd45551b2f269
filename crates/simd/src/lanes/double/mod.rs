//! Vectors of f64 beside those of f32, for kernels whose results have to be right to 1e-11.
//!
//! `s.double()` gives the token for the instructions of an f32 token, so one [`Kernel`](super::Kernel) serves both. Only what
//! kernels of distances need is here. Max follows x86: where either operand is NaN, the second is returned.

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

/// Vector instructions of one kind on f64: `LANES` of them make a vector `F`, `M` is a condition for each lane.
pub trait Double: Copy + Send + Sync + 'static {
    /// A vector of f64.
    type F: Copy;
    /// A condition for each lane.
    type M: Copy;

    /// f64 in a vector.
    const LANES: usize;

    /// `x` in every lane.
    fn splat(self, x: f64) -> Self::F;
    /// The first [`Double::LANES`] of `x`. Panics where it is shorter.
    fn load(self, x: &[f64]) -> Self::F;
    /// Writes the first [`Double::LANES`] of `y`. Panics where it is shorter.
    fn store(self, y: &mut [f64], v: Self::F);
    /// Reads [`Double::LANES`] values.
    ///
    /// # Safety
    /// `x` points to so many readable f64.
    unsafe fn load_at(self, x: *const f64) -> Self::F;

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
    /// The larger; b where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// a 2^n for integral n from -1200 to 1023 and |a| within a factor of 4 of 1; subnormals and then 0 below.
    fn scale(self, a: Self::F, n: Self::F) -> Self::F;
    /// (m, e) with a = m 2^e and 1 <= m < 2, for positive finite a, subnormals included.
    fn split(self, a: Self::F) -> (Self::F, Self::F);
    /// a < b; false for NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// a = b; false for NaN.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// yes where m, else no.
    fn select(self, m: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// Sum over the lanes, by halves.
    fn sum(self, a: Self::F) -> f64;
    /// Maximum over the lanes; NaN lanes may be passed over.
    fn largest(self, a: Self::F) -> f64;

    /// The nearest integer of |a| < 2^51, ties to even: the sum leaves no bits for a fraction.
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        let magic = self.splat(6_755_399_441_055_744.0);
        self.sub(self.add(a, magic), magic)
    }
}
