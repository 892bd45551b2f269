//! `#[profile]` on functions, async functions, `impl` blocks, traits and modules.
#![cfg(feature = "macros")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ellwand_profile::{Kind, Mode, Options, Profiler, Trace, Value, instrument, profile, span};

#[profile]
fn plain<const N: usize>(x: &[u8; N]) -> Result<usize, std::num::ParseIntError>
where
    [(); N]: Sized,
{
    let text = std::str::from_utf8(x).unwrap_or("0");
    Ok(text.parse::<usize>()? + 1)
}

#[profile(name = "waits \"here\"", kind = "wait")]
fn waits(flag: bool) -> impl Iterator<Item = bool> {
    if flag {
        return vec![true].into_iter();
    }
    vec![].into_iter()
}

struct Codec<T>(T);

#[profile]
impl<T: Copy + Into<u64>> Codec<T> {
    const SCALE: u64 = { 2 };

    fn decode(&self) -> u64 {
        self.scaled() + Self::fixed()
    }

    #[profile(skip)]
    fn scaled(&self) -> u64 {
        self.0.into() * Self::SCALE
    }

    const fn fixed() -> u64 {
        1
    }

    #[profile(name = "own name")]
    pub(crate) fn odd<F>(&self, body: F) -> [u8; 2]
    where
        F: Fn() -> u8,
    {
        [body(), { 3 }]
    }
}

trait Shape {
    fn area(&self) -> f64;
    fn double(&self) -> f64;
}

#[profile]
impl Shape for Codec<f64> {
    fn area(&self) -> f64 {
        self.0
    }
    fn double(&self) -> f64 {
        2.0 * self.area()
    }
}

#[profile]
mod inner {
    #![allow(dead_code)]
    use std::cmp::{max, min};

    pub(super) const LIMITS: [i32; 2] = [{ 1 }, 9];

    pub(super) struct Point {
        pub(super) x: i32,
    }

    impl Point {
        pub(super) fn clamped(&self) -> i32 {
            clamp(self.x)
        }
    }

    macro_rules! nothing {
        () => {};
    }

    nothing! {}

    pub(super) fn clamp(x: i32) -> i32 {
        max(LIMITS[0], min(LIMITS[1], x))
    }
}

/// A future that is pending a given number of times.
struct Later(u32);

impl Future for Later {
    type Output = u32;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if self.0 == 0 {
            return Poll::Ready(5);
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[profile]
async fn leaf(times: u32) -> Result<u32, std::num::ParseIntError> {
    let more: u32 = "2".parse()?;
    drop(span!("in leaf"));
    Ok(Later(times).await + more)
}

#[profile]
async fn outer(x: &str) -> Result<u32, std::num::ParseIntError> {
    if x.is_empty() {
        return Ok(0);
    }
    leaf(2).await
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

fn recorded(body: impl FnOnce()) -> Trace {
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }));
    let entered = profiler.enter();
    body();
    drop(entered);
    profiler.finish()
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.lanes.iter().flat_map(|lane| &lane.spans).map(|span| trace.name(span)).collect()
}

#[test]
fn functions_keep_their_signature_and_get_a_span() {
    let trace = recorded(|| {
        assert_eq!(plain(b"41"), Ok(42));
        assert!(plain(b"x").is_err());
        assert_eq!(waits(true).count(), 1);
    });
    assert_eq!(names(&trace), ["plain", "plain", "waits \"here\""]);
    assert_eq!(trace.open(), 0);
    let wait = trace.site(&trace.lanes[0].spans[2]).unwrap();
    assert_eq!(wait.kind, Kind::Wait);
    assert!(wait.file.ends_with("attribute.rs") && wait.line > 10);
}

#[test]
fn blocks_and_modules_name_their_functions() {
    let trace = recorded(|| {
        assert_eq!(Codec(3_u32).decode(), 7);
        assert_eq!(Codec(3_u32).odd(|| 2), [2, 3]);
        assert_eq!(Codec(2.0).double(), 4.0);
        assert_eq!(inner::Point { x: 70 }.clamped(), 9);
    });
    let expected = ["Codec::decode", "own name", "Codec::double", "Codec::area", "Point::clamped", "inner::clamp"];
    assert_eq!(names(&trace), expected);
}

#[test]
fn an_async_function_is_one_span_a_poll() {
    let trace = recorded(|| {
        assert_eq!(block_on(outer("x")), Ok(7));
        assert_eq!(block_on(outer("")), Ok(0));
    });
    let lane = &trace.lanes[0];
    assert_eq!(names(&trace), ["outer", "leaf", "in leaf", "outer", "leaf", "outer", "leaf", "outer"]);
    let args = |index: usize| lane.detail_of(&lane.spans[index]).map(|detail| detail.args.clone());
    assert_eq!(args(0), None);
    let last = args(5).unwrap();
    assert_eq!(last[0], ("polls".to_string(), Value::Int(3)));
    assert!(matches!(last[1], (ref name, Value::Int(ns)) if name == "elapsed_ns" && ns >= 0));
    assert_eq!(args(7).unwrap()[0].1, Value::Int(1));
}

#[test]
fn a_future_follows_its_task_over_threads() {
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }));
    let mut future = {
        let _request = profiler.profile("request");
        Box::pin(profiler.instrument("task", leaf(1)))
    };
    for expected in [false, true] {
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert_eq!(std::thread::scope(|threads| threads.spawn(&mut poll).join().unwrap()), expected);
    }
    let trace = profiler.finish();
    assert_eq!(trace.lanes.len(), 3);
    let link = trace.lanes[0].spans[0].corr;
    assert_ne!(link, 0);
    for lane in &trace.lanes[1..] {
        assert_eq!(trace.name(&lane.spans[0]), "task");
        assert!(
            lane.spans[0].corr == link || lane.detail_of(&lane.spans[0]).is_some_and(|detail| detail.cause == link)
        );
        assert_eq!(trace.name(&lane.spans[1]), "leaf");
    }
}

#[test]
fn a_dropped_future_is_marked_as_cancelled() {
    let trace = recorded(|| {
        let mut future = Box::pin(instrument("never", Later(9)));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(future);
        drop(instrument("not even polled", Later(1)));
    });
    assert_eq!(names(&trace), ["never", "never"]);
    let lane = &trace.lanes[0];
    let args = &lane.detail_of(&lane.spans[1]).unwrap().args;
    assert_eq!(args.first(), Some(&("polls".to_string(), Value::Int(1))));
    assert_eq!(args.last(), Some(&("cancelled".to_string(), Value::Bool(true))));
}

#[test]
fn a_future_that_panics_is_not_cancelled() {
    let trace = recorded(|| {
        let mut future = Box::pin(instrument("breaks", async { panic!("on purpose") }));
        let mut context = Context::from_waker(Waker::noop());
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        assert!(polled.is_err());
    });
    let lane = &trace.lanes[0];
    let args: Vec<_> = lane.detail_of(&lane.spans[1]).unwrap().args.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(args, ["polls", "elapsed_ns", "panicked"]);
}
