//! Every operation on f64, on every instruction set of this machine.
//!
//! 2^x and ln x are compared with the standard library's, whose own error is below one unit in the last place.

use super::{Double, exp2_down, ln};
use crate::isa::Isa;
use crate::lanes::{Kernel, Simd, dispatch};

/// A vector function.
trait Function {
    fn of<D: Double>(&self, d: D, x: D::F) -> D::F;
}

struct Map<'a, F>(&'a [f64], F);

impl<F: Function> Kernel for Map<'_, F> {
    type Out = Vec<f64>;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<f64> {
        let d = s.double();
        let lanes = <S::Double as Double>::LANES;
        let mut y = vec![0.0; self.0.len()];
        assert!(y.len().is_multiple_of(8));
        for (x, y) in self.0.chunks_exact(lanes).zip(y.chunks_exact_mut(lanes)) {
            d.store(y, self.1.of(d, d.load(x)));
        }
        y
    }
}

macro_rules! function {
    ($name:ident, $d:ident, $x:ident, $body:expr) => {
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn of<D: Double>(&self, $d: D, $x: D::F) -> D::F {
                $body
            }
        }
    };
}

function!(Power, d, x, exp2_down(d, x));
function!(Ln, d, x, ln(d, x));
function!(Round, d, x, d.round(x));
function!(Mantissa, d, x, d.split(x).0);
function!(Exponent, d, x, d.split(x).1);
function!(Clamp, d, x, d.max(x, d.splat(-1.0)));
function!(Fraction, d, x, d.div(d.sub(x, d.splat(3.0)), d.add(d.mul(x, x), d.splat(1.0))));
function!(Fused, d, x, d.neg_mul_add(x, x, d.mul_add(x, d.splat(2.0), d.splat(1.0))));

fn ulps(got: f64, want: f64) -> f64 {
    if got.is_infinite() || want.is_infinite() {
        return if got == want { 0.0 } else { f64::INFINITY };
    }
    (got - want).abs() / (f64::from_bits(want.abs().to_bits() + 1) - want.abs())
}

#[test]
fn powers_of_two_are_right_to_the_last_places() {
    let xs: Vec<f64> = (0..1 << 20).map(|i| -1080.0 + 1081.0 * f64::from(i) / f64::from(1 << 20)).collect();
    for isa in Isa::available() {
        let got = dispatch(isa, Map(&xs, Power));
        let worst = xs.iter().zip(&got).map(|(x, y)| ulps(*y, x.exp2())).fold(0.0, f64::max);
        assert!(worst <= if isa == Isa::BASELINE { 2.0 } else { 1.5 }, "{}: {worst} ulp", isa.name());
        let ends = [0.0, f64::NEG_INFINITY, f64::MIN, -1.0, -1151.0, -0.0, -1022.0, -1074.0];
        let got = dispatch(isa, Map(&ends, Power));
        assert_eq!(got, [1.0, 0.0, 0.0, 0.5, 0.0, 1.0, f64::MIN_POSITIVE, f64::from_bits(1)], "{}", isa.name());
    }
}

#[test]
fn the_logarithm_is_right_to_the_last_places() {
    let everywhere = (1..0x7ff0_0000_0000_0000_u64).step_by(9_007_199_254_741).map(f64::from_bits);
    let near_one = (0..400_000_u64).map(|i| f64::from_bits(0x3fef_ffff_ff00_0000 + i * 83));
    let mut xs: Vec<f64> = everywhere.chain(near_one).chain((1..1000).map(f64::from_bits)).collect();
    xs.truncate(xs.len() / 8 * 8);
    for isa in Isa::available() {
        let got = dispatch(isa, Map(&xs, Ln));
        let worst = xs.iter().zip(&got).map(|(x, y)| ulps(*y, x.ln())).fold(0.0, f64::max);
        assert!(worst <= 1.5, "{}: {worst} ulp", isa.name());
        let ends = dispatch(isa, Map(&[0.0, -0.0, 1.0, 0.5, 2.0, 1.0, 1.0, 1.0], Ln));
        assert_eq!(ends[..3], [f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0], "{}", isa.name());
    }
}

#[test]
fn small_operations_agree_with_plain_f64() {
    let xs: Vec<f64> = (-4000..4000).map(|i| f64::from(i) / 16.0).collect();
    for isa in Isa::available() {
        let same = |got: Vec<f64>, want: &dyn Fn(f64) -> f64| {
            let differs = xs.iter().zip(&got).find(|(x, y)| **y != want(**x));
            assert!(differs.is_none(), "{}: {differs:?}", isa.name());
        };
        same(dispatch(isa, Map(&xs, Round)), &f64::round_ties_even);
        same(dispatch(isa, Map(&xs, Clamp)), &|x| x.max(-1.0));
        same(dispatch(isa, Map(&xs, Fraction)), &|x| (x - 3.0) / (x * x + 1.0));
        // Multiples of 1/16 below 250: every product is exact, fused or not.
        same(dispatch(isa, Map(&xs, Fused)), &|x| 2.0 * x + 1.0 - x * x);
    }
}

#[test]
fn splitting_takes_every_positive_number_apart() {
    let mut xs: Vec<f64> = (1..0x7ff0_0000_0000_0000_u64).step_by(90_071_992_547_419).map(f64::from_bits).collect();
    xs.extend((0..52).map(|i| f64::from_bits(1 << i)));
    xs.truncate(xs.len() / 8 * 8);
    for isa in Isa::available() {
        let parts = dispatch(isa, Map(&xs, Mantissa)).into_iter().zip(dispatch(isa, Map(&xs, Exponent)));
        for (x, (m, e)) in xs.iter().zip(parts) {
            assert!((1.0..2.0).contains(&m), "{}: {x} {m}", isa.name());
            // In two steps, because 2^e alone may underflow.
            let half = (e / 2.0).floor();
            assert_eq!(m * half.exp2() * (e - half).exp2(), *x, "{}", isa.name());
        }
    }
}

/// Sum and maximum of one vector, read through a pointer.
struct Reduce<'a>(&'a [f64; 8]);

impl Kernel for Reduce<'_> {
    type Out = (usize, f64, f64);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> (usize, f64, f64) {
        let d = s.double();
        // SAFETY: no vector has more than eight lanes.
        #[allow(unsafe_code)]
        let v = unsafe { d.load_at(self.0.as_ptr()) };
        (<S::Double as Double>::LANES, d.sum(v), d.largest(v))
    }
}

#[test]
fn reductions_see_each_lane_once() {
    for isa in Isa::available() {
        let (lanes, sum, largest) = dispatch(isa, Reduce(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]));
        assert_eq!((sum, largest), ((1_u32 << lanes) as f64 - 1.0, (1_u32 << (lanes - 1)) as f64), "{}", isa.name());
        assert_eq!(lanes, if isa.name() == "avx512" { 8 } else { 4 });
    }
}
