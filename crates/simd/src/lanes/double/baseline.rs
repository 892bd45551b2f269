//! Vectors of four f64 in an array: plain code for every target, vectorised by the compiler.

use super::Double;

/// A token that every CPU may hold.
#[derive(Clone, Copy)]
pub(in crate::lanes) struct Baseline;

type Four = [f64; 4];

#[inline(always)]
fn zip(a: Four, b: Four, f: impl Fn(f64, f64) -> f64) -> Four {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[allow(unsafe_code)]
impl Double for Baseline {
    type F = Four;
    type M = [bool; 4];
    const LANES: usize = 4;

    methods! {
        fn splat(self, x: f64) -> Four = [x; 4];
        fn load(self, x: &[f64]) -> Four = std::array::from_fn(|i| x[i]);
        fn add(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a + b);
        fn sub(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a - b);
        fn mul(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a * b);
        fn div(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a / b);
        fn mul_add(self, a: Four, b: Four, c: Four) -> Four = self.add(self.mul(a, b), c);
        fn neg_mul_add(self, a: Four, b: Four, c: Four) -> Four = self.sub(c, self.mul(a, b));
        fn max(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| if a > b { a } else { b });
        fn lt(self, a: Four, b: Four) -> [bool; 4] = std::array::from_fn(|i| a[i] < b[i]);
        fn select(self, m: [bool; 4], yes: Four, no: Four) -> Four =
            std::array::from_fn(|i| if m[i] { yes[i] } else { no[i] });
        fn sum(self, a: Four) -> f64 = (a[0] + a[2]) + (a[1] + a[3]);
        fn largest(self, a: Four) -> f64 = a.into_iter().fold(f64::NEG_INFINITY, f64::max);
    }

    #[inline(always)]
    fn store(self, y: &mut [f64], v: Four) {
        y[..4].copy_from_slice(&v);
    }
    #[inline(always)]
    unsafe fn load_at(self, x: *const f64) -> Four {
        // SAFETY: the caller guarantees four readable values.
        std::array::from_fn(|i| unsafe { x.add(i).read() })
    }
    #[inline(always)]
    fn scale(self, a: Four, n: Four) -> Four {
        let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
        zip(a, n, |a, n| {
            // Two factors, so that only the last product rounds a subnormal result.
            let n = n as i64;
            let first = n.clamp(-1022, 1023);
            a * power((n - first).max(-1022)) * power(first)
        })
    }
    #[inline(always)]
    fn split(self, a: Four) -> (Four, Four) {
        let normal = |a: f64| if a < f64::MIN_POSITIVE { (a * 18_014_398_509_481_984.0, 1077.0) } else { (a, 1023.0) };
        let mantissa = |a: f64| f64::from_bits((normal(a).0.to_bits() & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
        let exponent = |a: f64| (normal(a).0.to_bits() >> 52) as f64 - normal(a).1;
        (a.map(mantissa), a.map(exponent))
    }
    #[inline(always)]
    #[allow(clippy::float_cmp, reason = "equality is what it says")]
    fn eq(self, a: Four, b: Four) -> [bool; 4] {
        std::array::from_fn(|i| a[i] == b[i])
    }
}
