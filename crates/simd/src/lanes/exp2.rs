//! 2^x for x <= 0: sufficient for distance kernels, with fewer instructions than e^x.
#![allow(clippy::excessive_precision, clippy::approx_constant, reason = "the digits as the fit printed them")]

use super::Simd;

/// (2^r - 1) / r on |r| <= 1/2, from testdata/approximations/fit.py: 2^r to 9.2e-8.
const P: [f32; 5] = [6.931_469_775e-1, 2.402_224_211e-1, 5.550_734_010e-2, 9.671_511_055e-3, 1.326_464_075e-3];

/// 2^x for x <= 0 (also correct up to 1), within 2.5 units in the last place; below -126 any subnormal or 0, 0 below -149.
#[inline(always)]
pub fn exp2_down<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.max(x, s.splat(-160.0));
    let n = s.round(x);
    let r = s.sub(x, n);
    let mut p = s.splat(P[4]);
    for c in [P[3], P[2], P[1], P[0]] {
        p = s.mul_add(p, r, s.splat(c));
    }
    s.scale_down(s.mul_add(p, r, s.splat(1.0)), n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::lanes::{Kernel, dispatch};

    struct All<'a>(&'a [f32]);

    impl Kernel for All<'_> {
        type Out = Vec<f32>;
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Vec<f32> {
            let mut y = vec![0.0; self.0.len()];
            for (x, y) in self.0.chunks_exact(S::LANES).zip(y.chunks_exact_mut(S::LANES)) {
                s.store(y, exp2_down(s, s.load(x)));
            }
            y
        }
    }

    #[test]
    fn powers_of_two_are_right_to_the_last_places() {
        let xs: Vec<f32> = (0..1 << 20).map(|i| -140.0 + 141.0 * i as f32 / (1 << 20) as f32).collect();
        for isa in Isa::available() {
            for (x, y) in xs.iter().zip(dispatch(isa, All(&xs))) {
                let exact = f64::from(*x).exp2();
                let subnormal = f64::from(f32::MIN_POSITIVE);
                let allowed = if exact < subnormal { exact } else { 2.5 * f64::from(f32::EPSILON) * exact };
                assert!((f64::from(y) - exact).abs() <= allowed, "{}: 2^{x} = {y}, exactly {exact}", isa.name());
            }
            let ends = [0.0, f32::NEG_INFINITY, f32::MIN, -1.0, -151.0, -0.0, -126.0, -3.0].repeat(2);
            let got = dispatch(isa, All(&ends));
            assert_eq!(got[..8], [1.0, 0.0, 0.0, 0.5, 0.0, 1.0, f32::MIN_POSITIVE, 0.125], "{}", isa.name());
        }
    }
}
