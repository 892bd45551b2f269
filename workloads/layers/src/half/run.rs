//! Pieces in bf16: element-wise operations work directly on memory, row-wise ones through a few rows of f32 that stay
//! in the caches.
#![allow(unsafe_code)]

use std::cell::RefCell;

use crate::line::{Gelu, Pair, SquaredDifference, Swish};
use crate::loss::in_range;
use crate::op::{Op, Step};
use crate::piece::{PAGE, Piece, Plan, Way, span};
use ellwand_simd::buffer::{Buffer, Pages};
use ellwand_simd::lanes::half::{narrow, widen};
use ellwand_simd::lanes::{Kernel, Simd, dispatch};

/// Values of x widened at a time, or one row, if no other array is as long: 16 KiB, half of an L1 cache.
const ALONE: usize = 4096;

/// The same if the results are as many: a quarter, because both arrays, their bf16 sources and their results must stay
/// in the cache. With 768 values per row, one row at a time takes 0.53 (layer normalisation) and 0.66 (softmax) of the
/// time of five rows; two take 0.75 and 0.95.
const BESIDE: usize = 1024;

/// Values whose squares are summed in f32 before the sum is moved to f64, as for f32 arrays.
const BLOCK: usize = 4096;

/// Computes a piece; returns the sum of its losses (0 for other operations).
pub(super) fn piece(way: Way, plan: &Plan<'_>, piece: Piece<'_, u16>) -> f64 {
    let _span = span(plan.step);
    let Piece { x, second, labels, y, .. } = piece;
    let Some(isa) = way.isa() else { return by_rows(way, plan, x, second, labels, y) };
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

/// y = op(a, b) over whole arrays.
struct Flat<'a, P> {
    a: &'a [u16],
    b: &'a [u16],
    y: &'a mut [u16],
    /// Use non-temporal stores; y is then aligned to a cache line.
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
        let pairs = n - n % (2 * S::LANES);
        for c in (0..pairs).step_by(2 * S::LANES) {
            // SAFETY: c + 2 LANES <= n, the minimum length of all three; if `STREAM`, y is aligned to a cache line.
            unsafe {
                let (a, b) = (a.as_ptr().add(c), b.as_ptr().add(c));
                let [first, second] = op.of(
                    s,
                    [s.widen_at(a), s.widen_at(a.add(S::LANES))],
                    [s.widen_at(b), s.widen_at(b.add(S::LANES))],
                );
                let to = y.as_mut_ptr().add(c);
                if STREAM { s.stream_narrow_two_at(to, first, second) } else { s.narrow_two_at(to, first, second) }
            }
        }
        let rest = a[pairs..n].chunks(S::LANES).zip(b[pairs..n].chunks(S::LANES));
        for ((a, b), y) in rest.zip(y[pairs..n].chunks_mut(S::LANES)) {
            let [v] = op.of(s, [part(s, a)], [part(s, b)]);
            store_part(s, y, v);
        }
    }
}

/// Maximum number of lanes of any vector.
const MAX_LANES: usize = 16;

/// Loads all of `x`, at most a vector; 0 in the lanes beyond.
#[inline(always)]
fn part<S: Simd>(s: S, x: &[u16]) -> S::F {
    let mut whole = [0_u16; MAX_LANES];
    whole[..x.len()].copy_from_slice(x);
    // SAFETY: a vector has at most `MAX_LANES` lanes.
    unsafe { s.widen_at(whole.as_ptr()) }
}

/// Writes all of `y`, at most a vector.
#[inline(always)]
fn store_part<S: Simd>(s: S, y: &mut [u16], v: S::F) {
    let mut whole = [0_u16; MAX_LANES];
    // SAFETY: a vector has at most `MAX_LANES` lanes.
    unsafe { s.narrow_at(whole.as_mut_ptr(), v) };
    let n = y.len();
    y.copy_from_slice(&whole[..n]);
}

/// Sum of (x - target)^2: in f32 within blocks, in f64 over the blocks.
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
            let mut sums = [s.splat(0.0); 2];
            let pairs = x.len() - x.len() % (2 * S::LANES);
            for c in (0..pairs).step_by(2 * S::LANES) {
                // SAFETY: c + 2 LANES is within both, whose lengths are equal.
                unsafe {
                    let (x, target) = (x.as_ptr().add(c), target.as_ptr().add(c));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let at = i * S::LANES;
                        let difference = s.sub(s.widen_at(x.add(at)), s.widen_at(target.add(at)));
                        *sum = s.mul_add(difference, difference, *sum);
                    }
                }
            }
            for (x, target) in x[pairs..].chunks(S::LANES).zip(target[pairs..].chunks(S::LANES)) {
                let difference = s.sub(part(s, x), part(s, target));
                sums[0] = s.mul_add(difference, difference, sums[0]);
            }
            total += in_range(s.sum(s.add(sums[0], sums[1])), || {
                let square = |(x, target): (&u16, &u16)| (f64::from(widen(*x)) - f64::from(widen(*target))).powi(2);
                x.iter().zip(target).map(square).sum()
            });
        }
        total
    }
}

/// A few rows at a time: widens, computes in f32, rounds.
fn by_rows(way: Way, plan: &Plan<'_>, x: &[u16], second: &[u16], labels: &[i64], y: &mut [u16]) -> f64 {
    let d = plan.d;
    // One loss per row, a value for each of x, or nothing for a reduced loss.
    let wide = if y.is_empty() { 0 } else { d * y.len() / x.len() };
    let rows = rows_at_once(wide != d && second.is_empty(), d);
    let near = Plan { stream: false, far: false, ..*plan };
    let mut total = 0.0;
    with_room(rows * d, |mut room| {
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

/// Rows widened at a time; `alone` if no other array is as long as x.
fn rows_at_once(alone: bool, d: usize) -> usize {
    (if alone { ALONE } else { BESIDE } / d).max(1)
}

/// Bytes that a thread holds while it computes a step on rows of `d` values.
pub(super) fn held(way: Way, step: Step, d: usize) -> usize {
    if way.isa().is_some() && matches!(step, Step::Whole(Op::Gelu | Op::Swish | Op::MseLoss)) {
        return 0;
    }
    let rows = rows_at_once(step == Step::Whole(Op::CrossEntropyLoss), d);
    size_of::<f32>() * room_len(rows * d) + way.held(step, d)
}

/// Buffers for x, the second array and y, all at the same offset within a page (see
/// [`with_scratch`](super::super::piece::with_scratch)), kept per thread so that no run allocates.
fn with_room(len: usize, work: impl FnOnce([&mut [f32]; 3])) {
    thread_local! {
        static ROOM: RefCell<Buffer> = RefCell::default();
    }
    let each = len.next_multiple_of(PAGE);
    ROOM.with_borrow_mut(|room| {
        if room.len() < room_len(len) {
            *room = Buffer::filled(room_len(len), 0.0, Pages::Heap);
        }
        let skip = room.as_ptr().align_offset(4 * PAGE).min(PAGE);
        let (x, rest) = room[skip..].split_at_mut(each);
        let (second, y) = rest.split_at_mut(each);
        work([x, second, y]);
    });
}

/// Length of the buffer of [`with_room`] in values.
fn room_len(len: usize) -> usize {
    3 * len.next_multiple_of(PAGE) + PAGE
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
    /// Use non-temporal stores; `to` is then aligned to a cache line.
    stream: bool,
}

impl Kernel for Narrow<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Narrow { from, to, stream } = self;
        let n = from.len().min(to.len());
        let pairs = n - n % (2 * S::LANES);
        for c in (0..pairs).step_by(2 * S::LANES) {
            // SAFETY: c + 2 LANES is within both; if `stream`, `to` is aligned to a cache line.
            unsafe {
                let (a, b) = (s.load_at(from.as_ptr().add(c)), s.load_at(from.as_ptr().add(c + S::LANES)));
                let to = to.as_mut_ptr().add(c);
                if stream { s.stream_narrow_two_at(to, a, b) } else { s.narrow_two_at(to, a, b) }
            }
        }
        for (from, to) in from[pairs..n].chunks(S::LANES).zip(to[pairs..n].chunks_mut(S::LANES)) {
            store_part(s, to, if from.len() == S::LANES { s.load(from) } else { s.load_part(from, 0.0) });
        }
        if stream {
            s.fence();
        }
    }
}

fn widen_all(way: Way, from: &[u16], to: &mut [f32]) {
    match way.isa() {
        Some(isa) => dispatch(isa, Widen { from, to }),
        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = widen(*from)),
    }
}

fn narrow_all(way: Way, from: &[f32], to: &mut [u16], stream: bool) {
    match way.isa() {
        Some(isa) => dispatch(isa, Narrow { from, to, stream }),
        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = narrow(*from)),
    }
}
