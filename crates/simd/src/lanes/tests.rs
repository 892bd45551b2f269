//! Every operation, on every instruction set of this machine, compared with plain f32 or f64.

use super::{Kernel, Simd, dispatch, exp, exp2, ln};
use crate::isa::Isa;

/// Applies a unary function lane by lane to a whole slice, including the tail.
struct Map<'a, F>(&'a [f32], F);

/// A vector function. A closure cannot be generic over the token.
trait Function {
    fn of<S: Simd>(&self, s: S, x: S::F) -> S::F;
}

impl<F: Function> Kernel for Map<'_, F> {
    type Out = Vec<f32>;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<f32> {
        let mut y = vec![0.0; self.0.len()];
        for (x, y) in self.0.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
            if x.len() == S::LANES {
                s.store(y, self.1.of(s, s.load(x)));
            } else {
                s.store_part(y, self.1.of(s, s.load_part(x, 0.0)));
            }
        }
        y
    }
}

macro_rules! function {
    ($name:ident, $s:ident, $x:ident, $body:expr) => {
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn of<S: Simd>(&self, $s: S, $x: S::F) -> S::F {
                $body
            }
        }
    };
}

function!(Exp, s, x, exp(s, x));
function!(FastExp, s, x, s.fast_exp(x));
function!(Exp2, s, x, exp2(s, x));
function!(ExpDown, s, x, s.exp_down(x));
function!(OneAndExpMinus, s, x, s.one_and_exp_minus([s.splat(0.0), x, s.splat(3.0)])[1]);
function!(ExpDownEach, s, x, s.exp_down_each([[s.splat(0.0), x], [x, s.splat(-1.0)]])[1][0]);
function!(ExpDownRows, s, x, s.exp_down_each([[s.splat(0.0)], [x], [x]])[1][0]);
function!(Exp2DownEach, s, x, s.exp2_down_each([x, s.splat(-3.0)])[0]);
function!(BySign, s, x, s.by_sign(x, s.splat(-1.0), s.splat(1.0)));
function!(UpToTwo, s, x, s.abs_up_to(x, s.splat(2.0)));
function!(PositivePart, s, x, s.positive_part(x));
function!(Ln, s, x, ln(s, x));
function!(Rejoin, s, x, {
    let (m, e) = s.split(x);
    s.scale(m, e)
});
function!(Round, s, x, s.round(x));
function!(Around, s, x, s.copysign(s.sqrt(s.abs(x)), x));
function!(Square, s, x, {
    let table: [f32; 32] = std::array::from_fn(|i| (i * i) as f32);
    s.look_up(&table, s.to_int(x))
});
function!(NotANumber, s, x, s.select(s.eq(x, x), s.splat(0.0), s.splat(1.0)));

/// Distance of `got` from the exact `want`, in units in the last place of `want` as an f32.
fn ulps(got: f32, want: f64) -> f64 {
    let nearest = want as f32;
    if got.is_infinite() || nearest.is_infinite() {
        return if got == nearest { 0.0 } else { f64::INFINITY };
    }
    let unit = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(got) - want).abs() / unit
}

#[test]
fn the_exponential_is_right_to_its_last_place() {
    let xs: Vec<f32> = (0..2_000_003).map(|i| -110.0 + 200.0 * (i as f32) / 2e6).collect();
    for isa in Isa::available() {
        let got = dispatch(isa, Map(&xs, Exp));
        let worst = xs.iter().zip(&got).map(|(x, y)| ulps(*y, f64::from(*x).exp())).fold(0.0, f64::max);
        assert!(worst <= if isa == Isa::BASELINE { 2.0 } else { 1.5 }, "{}: {worst} ulp", isa.name());
        let ends = dispatch(isa, Map(&[f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -0.0, f32::MIN, f32::MAX], Exp));
        assert_eq!((ends[0], ends[1], ends[3], ends[4], ends[5]), (0.0, f32::INFINITY, 1.0, 0.0, f32::INFINITY));
        assert!(ends[2].is_nan());
    }
}

#[test]
fn the_fast_exponential_keeps_its_error_and_its_ends() {
    let xs: Vec<f32> = (0..2_000_003).map(|i| -87.0 + 175.0 * (i as f32) / 2e6).collect();
    for isa in Isa::available() {
        for (x, y) in xs.iter().zip(dispatch(isa, Map(&xs, FastExp))) {
            let want = f64::from(*x).exp();
            let relative = (f64::from(y) / want - 1.0).abs();
            let bound = if x.abs() < 8.0 { 1.5 * 2f64.powi(-23) } else { 2f64.powi(-18) };
            assert!(relative <= bound, "{}: e^{x} is off by {relative:e}", isa.name());
        }
        let ends = dispatch(isa, Map(&[f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, f32::MIN, f32::MAX], FastExp));
        assert_eq!((ends[0], ends[1], ends[3], ends[4], ends[5]), (0.0, f32::INFINITY, 1.0, 0.0, f32::INFINITY));
        assert!(ends[2].is_nan());
    }
}

#[test]
fn the_exponential_below_zero_keeps_its_error_and_its_ends() {
    let xs: Vec<f32> = (0..2_000_003).map(|i| -87.2 * (i as f32) / 2e6).collect();
    for isa in Isa::available() {
        for (x, y) in xs.iter().zip(dispatch(isa, Map(&xs, ExpDown))) {
            let relative = (f64::from(y) / f64::from(*x).exp() - 1.0).abs();
            let bound = if *x > -8.0 { 2.0 * 2f64.powi(-23) } else { 2f64.powi(-18) };
            assert!(relative <= bound, "{}: e^{x} is off by {relative:e}", isa.name());
        }
        // Results below the smallest normal number may be 0 or correct, but nothing else.
        let low: Vec<f32> =
            (0..100_000).map(|i| -87.2 - 0.01 * i as f32).chain([-1e5, -3e5, -1e30, f32::MIN]).collect();
        for (x, y) in low.iter().zip(dispatch(isa, Map(&low, ExpDown))) {
            let want = f64::from(*x).exp();
            assert!(y == 0.0 || (f64::from(y) - want).abs() <= 1e-4 * want + 1e-44, "{}: e^{x} = {y:e}", isa.name());
        }
        let ends = dispatch(isa, Map(&[f32::NEG_INFINITY, f32::NAN, 0.0, -0.0], ExpDown));
        assert_eq!((ends[0], ends[2], ends[3]), (0.0, 1.0, 1.0), "{}", isa.name());
        assert!(ends[1].is_nan());
    }
}

#[test]
fn exponentials_of_several_vectors_keep_their_errors_and_their_ends() {
    const PLACE: f64 = 1.0 / (1 << 23) as f64;
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let up: Vec<f32> = (0..2_000_003).map(|i| -88.0 + 176.0 * (i as f32) / 2e6).collect();
    let down: Vec<f32> = (0..2_000_003).map(|i| -87.2 * (i as f32) / 2e6).collect();
    let powers: Vec<f32> = (0..2_000_003).map(|i| -126.0 * (i as f32) / 2e6).collect();
    for isa in Isa::available() {
        let close = |xs: &[f32], ys: Vec<f32>, exact: fn(f64) -> f64, places: f64| {
            for (x, y) in xs.iter().zip(ys) {
                let relative = (f64::from(y) / exact(f64::from(*x)) - 1.0).abs();
                let bound = if x.abs() < 8.0 { places * PLACE } else { 2f64.powi(-18) };
                assert!(relative <= bound, "{}: at {x} off by {relative:e}", isa.name());
            }
        };
        close(&up, dispatch(isa, Map(&up, OneAndExpMinus)), |x| 1.0 + (-x).exp(), 3.0);
        close(&down, dispatch(isa, Map(&down, ExpDownEach)), f64::exp, 2.0);
        close(&down, dispatch(isa, Map(&down, ExpDownRows)), f64::exp, 2.0);
        close(&powers, dispatch(isa, Map(&powers, Exp2DownEach)), f64::exp2, 2.5);

        let low: Vec<f32> = (0..100_000).map(|i| -87.2 - 0.01 * i as f32).chain([-1e30, f32::MIN]).collect();
        let small = |ys: Vec<f32>| ys.iter().all(|y| (0.0..=1.4e-38).contains(y));
        assert!(
            small(dispatch(isa, Map(&low, ExpDownEach))) && small(dispatch(isa, Map(&low, ExpDownRows))),
            "{}",
            isa.name()
        );
        let lower: Vec<f32> = low.iter().map(|x| x - 38.8).collect();
        assert!(small(dispatch(isa, Map(&lower, Exp2DownEach))), "{}", isa.name());

        let ends = dispatch(isa, Map(&[-inf, f32::MIN, nan, inf, 0.0], OneAndExpMinus));
        assert!(ends[..2] == [inf, inf] && ends[2].is_nan() && ends[3..] == [1.0, 2.0], "{}: {ends:?}", isa.name());
        for ends in
            [dispatch(isa, Map(&[-inf, 0.0, nan], ExpDownEach)), dispatch(isa, Map(&[-inf, 0.0, nan], ExpDownRows))]
        {
            assert!(ends[..2] == [0.0, 1.0] && ends[2].is_nan(), "{}: {ends:?}", isa.name());
        }
        let ends = dispatch(isa, Map(&[-inf, 0.0, f32::MIN, -1.0], Exp2DownEach));
        assert_eq!(ends, [0.0, 1.0, 0.0, 0.5], "{}", isa.name());
        assert_eq!(dispatch(isa, Map(&[-inf, -1e-30, 1e-30, inf], BySign)), [-1.0, -1.0, 1.0, 1.0], "{}", isa.name());
    }
}

#[test]
fn powers_of_two_are_right_to_a_few_units() {
    let xs: Vec<f32> = (0..1_000_003).map(|i| -125.0 + 252.0 * (i as f32) / 1e6).collect();
    for isa in Isa::available() {
        let got = dispatch(isa, Map(&xs, Exp2));
        let worst = xs.iter().zip(&got).map(|(x, y)| ulps(*y, f64::from(*x).exp2())).fold(0.0, f64::max);
        assert!(worst <= 3.0, "{}: {worst} ulp", isa.name());
        let ends = dispatch(isa, Map(&[f32::NEG_INFINITY, f32::NAN, -200.0, f32::MIN], Exp2));
        assert_eq!((ends[0], ends[2], ends[3]), (0.0, 0.0, 0.0));
        assert!(ends[1].is_nan());
    }
}

#[test]
fn the_logarithm_is_right_to_its_last_place() {
    // Every 1009th positive f32, including subnormals, and all values near 1.
    let everywhere = (1..0x7f80_0000_u32).step_by(1009).map(f32::from_bits);
    let near_one = (0x3f7f_0000_u32..0x3f81_0000).map(f32::from_bits);
    let xs: Vec<f32> = everywhere.chain(near_one).collect();
    for isa in Isa::available() {
        let got = dispatch(isa, Map(&xs, Ln));
        let worst = xs.iter().zip(&got).map(|(x, y)| ulps(*y, f64::from(*x).ln())).fold(0.0, f64::max);
        assert!(worst <= 1.5, "{}: {worst} ulp", isa.name());
        let ends = dispatch(isa, Map(&[0.0, -0.0, -1.0, f32::INFINITY, f32::NAN, 1.0, f32::NEG_INFINITY], Ln));
        assert_eq!((ends[0], ends[1], ends[3], ends[5]), (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY, 0.0));
        assert!(ends[2].is_nan() && ends[4].is_nan() && ends[6].is_nan());
    }
}

#[test]
fn splitting_and_scaling_give_the_number_back() {
    let xs: Vec<f32> = (1..0x7f80_0000_u32).step_by(4099).map(f32::from_bits).collect();
    for isa in Isa::available() {
        assert_eq!(dispatch(isa, Map(&xs, Rejoin)), xs, "{}", isa.name());
    }
}

#[test]
fn small_operations_agree_with_plain_f32() {
    let xs: Vec<f32> = (-4000..4001)
        .map(|i| i as f32 / 16.0)
        .chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40, -1e-40])
        .collect();
    let integers: Vec<f32> = (0..77).map(|i| i as f32).collect();
    for isa in Isa::available() {
        let same = |got: Vec<f32>, want: fn(f32) -> f32| {
            for (x, y) in xs.iter().zip(got) {
                assert!(
                    y.to_bits() == want(*x).to_bits() || (y.is_nan() && want(*x).is_nan()),
                    "{}: {x} {y}",
                    isa.name()
                );
            }
        };
        same(dispatch(isa, Map(&xs, Round)), f32::round_ties_even);
        same(dispatch(isa, Map(&xs, Around)), |x| x.abs().sqrt().copysign(x));
        same(dispatch(isa, Map(&xs, NotANumber)), |x| if x.is_nan() { 1.0 } else { 0.0 });
        same(dispatch(isa, Map(&xs, UpToTwo)), |x| x.abs().min(2.0));
        same(dispatch(isa, Map(&xs, PositivePart)), |x| if x < 0.0 { x * 0.0 } else { x });
        let squares: Vec<f32> = integers.iter().map(|i| (i % 32.0).powi(2)).collect();
        assert_eq!(dispatch(isa, Map(&integers, Square)), squares);
    }
}

/// Sum, maximum, and a slice shorter than a vector.
struct Reduce<'a>(&'a [f32]);

impl Kernel for Reduce<'_> {
    type Out = (f32, f32);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> (f32, f32) {
        let part = &self.0[..S::LANES - 1];
        let v = s.load_part(part, -1.0);
        (s.sum(v), s.largest(v))
    }
}

#[test]
fn reductions_see_each_lane_once() {
    let xs: Vec<f32> = (0..16).map(|i| i as f32).collect();
    for isa in Isa::available() {
        let lanes = if isa.name() == "avx512" { 16 } else { 8 };
        let (sum, largest) = dispatch(isa, Reduce(&xs));
        assert_eq!(sum, ((lanes - 1) * (lanes - 2) / 2) as f32 - 1.0);
        assert_eq!(largest, (lanes - 2) as f32);
    }
}

/// Transposes the square at the start of the first slice into the second; rows of both are `.2` apart.
struct Transpose<'a>(&'a [f32], &'a mut [f32], usize);

impl Kernel for Transpose<'_> {
    type Out = usize;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        assert!(self.0.len() >= S::LANES * self.2 && self.1.len() >= S::LANES * self.2 && self.2 >= S::LANES);
        // SAFETY: both slices hold LANES rows of at least LANES values, as asserted.
        unsafe { s.transpose_at(self.0.as_ptr(), self.2, self.1.as_mut_ptr(), self.2) };
        S::LANES
    }
}

#[test]
fn squares_are_turned_over() {
    for isa in Isa::available() {
        let stride = 19;
        let x: Vec<f32> = (0..stride * stride).map(|i| i as f32).collect();
        let mut y = vec![-1.0; x.len()];
        let lanes = dispatch(isa, Transpose(&x, &mut y, stride));
        for i in 0..stride {
            for j in 0..stride {
                let want = if i < lanes && j < lanes { x[i * stride + j] } else { -1.0 };
                assert_eq!(y[j * stride + i], want, "{} {i} {j}", isa.name());
            }
        }
    }
}
