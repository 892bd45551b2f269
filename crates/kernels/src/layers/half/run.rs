//! Pieces in bf16: element by element straight from and to memory, row by row through a few rows of f32 in the first-level
//! cache.
#![allow(unsafe_code)]

use std::cell::RefCell;

use crate::isa::Isa;
use crate::lanes::half::{narrow, widen};
use crate::lanes::{Kernel, Simd, dispatch};
use crate::layers::line::{Gelu, Pair, SquaredDifference, Swish};
use crate::layers::op::{Op, Step};
use crate::layers::piece::{Piece, Plan, Way, span};

/// Values of x that are in f32 at a time, or one row: with as many of y they fill a first-level cache of 32 KiB.
const ROOM: usize = 4096;

/// Values whose squares are summed in f32 before the sum goes to f64, as for arrays of f32.
const BLOCK: usize = 4096;

/// Computes a piece; returns the sum of its losses (0 for other operations).
pub(super) fn piece(way: Way, plan: &Plan<'_>, piece: Piece<'_, u16>) -> f64 {
    let _span = span(plan.step);
    let Piece { x, second, labels, y, .. } = piece;
    let Way::Vector(isa) = way else { return by_rows(way, plan, x, second, labels, y) };
    let stream = plan.stream;
    match (plan.step, plan.tanh) {
        (Step::Whole(Op::Gelu), false) => dispatch(isa, Flat { a: x, b: x, y, stream, op: Gelu::<false> }),
        (Step::Whole(Op::Gelu), true) => dispatch(isa, Flat { a: x, b: x, y, stream, op: Gelu::<true> }),
        (Step::Whole(Op::Swish), _) => dispatch(isa, Flat { a: x, b: x, y, stream, op: Swish }),
        (Step::Whole(Op::MseLoss), _) if plan.each => {
            dispatch(isa, Flat { a: x, b: second, y, stream, op: SquaredDifference });
        }
        (Step::Whole(Op::MseLoss), _) => return dispatch(isa, SquaredError { x, target: second }),
        _ => return by_rows(way, plan, x, second, labels, y),
    }
    0.0
}

/// y = op(a, b) along the whole arrays.
struct Flat<'a, P> {
    a: &'a [u16],
    b: &'a [u16],
    y: &'a mut [u16],
    /// Past the caches; y starts on a vector then.
    stream: bool,
    op: P,
}

impl<P: Pair> Kernel for Flat<'_, P> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.stream {
            self.line::<S, true>(s);
            s.fence();
        } else {
            self.line::<S, false>(s);
        }
    }
}

impl<P: Pair> Flat<'_, P> {
    #[inline(always)]
    fn line<S: Simd, const STREAM: bool>(self, s: S) {
        let Flat { a, b, y, op, .. } = self;
        let n = a.len().min(b.len()).min(y.len());
        let whole = n - n % S::LANES;
        for c in (0..whole).step_by(S::LANES) {
            // SAFETY: c + LANES <= n, the length that all three have at least; `STREAM` says that y starts on a vector.
            unsafe {
                let v = op.of(s, s.widen_at(a.as_ptr().add(c)), s.widen_at(b.as_ptr().add(c)));
                let to = y.as_mut_ptr().add(c);
                if STREAM { s.stream_narrow_at(to, v) } else { s.narrow_at(to, v) }
            }
        }
        if whole < n {
            let v = op.of(s, part(s, &a[whole..n]), part(s, &b[whole..n]));
            store_part(s, &mut y[whole..n], v);
        }
    }
}

/// The most lanes that a vector has.
const MOST: usize = 16;

/// All of `x`, which holds fewer than a vector; 0 in the lanes beyond.
#[inline(always)]
fn part<S: Simd>(s: S, x: &[u16]) -> S::F {
    let mut whole = [0_u16; MOST];
    whole[..x.len()].copy_from_slice(x);
    // SAFETY: a vector has at most so many lanes.
    unsafe { s.widen_at(whole.as_ptr()) }
}

/// Writes all of `y`, which holds fewer than a vector.
#[inline(always)]
fn store_part<S: Simd>(s: S, y: &mut [u16], v: S::F) {
    let mut whole = [0_u16; MOST];
    // SAFETY: a vector has at most so many lanes.
    unsafe { s.narrow_at(whole.as_mut_ptr(), v) };
    let n = y.len();
    y.copy_from_slice(&whole[..n]);
}

/// Sum of (x - target)^2 in blocks, the blocks in f64.
struct SquaredError<'a> {
    x: &'a [u16],
    target: &'a [u16],
}

impl Kernel for SquaredError<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let mut total = 0.0;
        for (x, target) in self.x.chunks(BLOCK).zip(self.target.chunks(BLOCK)) {
            let mut sums = [s.splat(0.0); 4];
            let mut take = |i: usize, x: S::F, target: S::F| {
                let difference = s.sub(x, target);
                sums[i] = s.mul_add(difference, difference, sums[i]);
            };
            let whole = x.len() - x.len() % S::LANES;
            for c in (0..whole).step_by(S::LANES) {
                // SAFETY: c + LANES is within both, whose lengths are the same.
                let (x, target) = unsafe { (s.widen_at(x.as_ptr().add(c)), s.widen_at(target.as_ptr().add(c))) };
                take(c / S::LANES % 4, x, target);
            }
            if whole < x.len() {
                take(0, part(s, &x[whole..]), part(s, &target[whole..]));
            }
            total += f64::from(s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]))));
        }
        total
    }
}

/// A few rows at a time: widened, computed in f32 as ever, rounded.
fn by_rows(way: Way, plan: &Plan<'_>, x: &[u16], second: &[u16], labels: &[i64], y: &mut [u16]) -> f64 {
    let d = plan.d;
    let rows = (ROOM / d).max(1);
    // One loss a row, a value for each of x, or nothing where a loss is reduced.
    let wide = if y.is_empty() { 0 } else { d * y.len() / x.len() };
    let near = Plan { stream: false, far: false, ..*plan };
    let mut total = 0.0;
    with_room(rows * d, |room| {
        for (from, x) in x.chunks(rows * d).enumerate().map(|(i, x)| (i * rows, x)) {
            let to = from + x.len() / d;
            let [wide_x, wide_second, wide_y] = room.each_mut().map(|array| &mut array[..x.len()]);
            let second = second.get(from * d..to * d).unwrap_or(&[]);
            widen_all(way, x, wide_x);
            widen_all(way, second, &mut wide_second[..second.len()]);
            let piece = Piece {
                x: wide_x,
                second: &wide_second[..second.len()],
                labels: labels.get(from..to).unwrap_or(&[]),
                y: &mut wide_y[..(to - from) * wide],
                sum: &mut [],
            };
            total += way.compute(&near, piece);
            let y = &mut y[from * wide..to * wide];
            narrow_all(way, &wide_y[..y.len()], y, plan.stream);
        }
    });
    total
}

/// Room for x, the second array and y, kept by each thread so that no run allocates.
fn with_room(len: usize, work: impl FnOnce(&mut [Vec<f32>; 3])) {
    thread_local! {
        static ROOM: RefCell<[Vec<f32>; 3]> = const { RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
    }
    ROOM.with_borrow_mut(|room| {
        room.iter_mut().filter(|array| array.len() < len).for_each(|array| array.resize(len, 0.0));
        work(room);
    });
}

struct Widen<'a> {
    from: &'a [u16],
    to: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Widen { from, to } = self;
        let n = from.len().min(to.len());
        let whole = n - n % S::LANES;
        for c in (0..whole).step_by(S::LANES) {
            // SAFETY: c + LANES is within both.
            unsafe { s.store_at(to.as_mut_ptr().add(c), s.widen_at(from.as_ptr().add(c))) };
        }
        if whole < n {
            s.store_part(&mut to[whole..n], part(s, &from[whole..n]));
        }
    }
}

struct Narrow<'a> {
    from: &'a [f32],
    to: &'a mut [u16],
    /// Past the caches; `to` starts on a vector then.
    stream: bool,
}

impl Kernel for Narrow<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Narrow { from, to, stream } = self;
        let n = from.len().min(to.len());
        let whole = n - n % S::LANES;
        for c in (0..whole).step_by(S::LANES) {
            // SAFETY: c + LANES is within both; `stream` says that `to` starts on a vector.
            unsafe {
                let (v, to) = (s.load_at(from.as_ptr().add(c)), to.as_mut_ptr().add(c));
                if stream { s.stream_narrow_at(to, v) } else { s.narrow_at(to, v) }
            }
        }
        if whole < n {
            store_part(s, &mut to[whole..n], s.load_part(&from[whole..n], 0.0));
        }
        if stream {
            s.fence();
        }
    }
}

/// The instructions of a way, if it has any.
fn vector(way: Way) -> Option<Isa> {
    match way {
        Way::Vector(isa) => Some(isa),
        Way::Reference | Way::Scalar => None,
    }
}

fn widen_all(way: Way, from: &[u16], to: &mut [f32]) {
    match vector(way) {
        Some(isa) => dispatch(isa, Widen { from, to }),
        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = widen(*from)),
    }
}

fn narrow_all(way: Way, from: &[f32], to: &mut [u16], stream: bool) {
    match vector(way) {
        Some(isa) => dispatch(isa, Narrow { from, to, stream }),
        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = narrow(*from)),
    }
}
