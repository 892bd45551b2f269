//! A program instrumented with `tracing` alone.
#![cfg(feature = "tracing")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ellwand_profile::layer::ProfileLayer;
use ellwand_profile::{Mode, NONE, Options, Profiler, Span, Trace, TraceLane, Value};
use tracing::{Instrument, info, info_span, instrument};
use tracing_subscriber::layer::SubscriberExt;

fn full() -> Profiler {
    Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }))
}

fn names<'a>(trace: &'a Trace, lane: &'a TraceLane) -> Vec<(&'a str, u32)> {
    lane.spans.iter().map(|span| (trace.name(span), span.parent)).collect()
}

fn args(lane: &TraceLane, span: &Span) -> Vec<(String, Value)> {
    lane.detail_of(span).map(|detail| detail.args.clone()).unwrap_or_default()
}

#[instrument]
fn encode(n: u32, shape: &str) -> u32 {
    let span = info_span!("inner", late = tracing::field::Empty).entered();
    span.record("late", 5);
    info!(step = 1, "half way");
    n + shape.len() as u32
}

#[test]
fn spans_and_fields_are_recorded() {
    let profiler = full();
    let subscriber = tracing_subscriber::registry().with(ProfileLayer::new(&profiler));
    tracing::subscriber::with_default(subscriber, || assert_eq!(encode(3, "2x3"), 6));
    let trace = profiler.finish();
    let lane = &trace.lanes[0];
    let found = names(&trace, lane);
    assert_eq!(found, [("encode", NONE), ("inner", 0)], "an event is no span");
    assert_eq!(
        args(lane, &lane.spans[0]),
        [("n".to_string(), Value::Int(3)), ("shape".to_string(), Value::from("2x3"))]
    );
    assert_eq!(args(lane, &lane.spans[1]), [("late".to_string(), Value::Int(5))]);
    assert!(trace.site(&lane.spans[0]).unwrap().file.ends_with("layer.rs"));
    assert_eq!((trace.open(), trace.dropped()), (0, 0));
}

struct Twice(bool);

impl Future for Twice {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn a_task_keeps_its_parent_on_other_threads() {
    let profiler = full();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(ProfileLayer::new(&profiler)));
    let mut task = tracing::dispatcher::with_default(&dispatch, || {
        let whole = info_span!("whole").entered();
        let task = Box::pin(async { Twice(false).instrument(info_span!("leaf")).await }.instrument(info_span!("task")));
        drop(whole);
        task
    });
    for expected in [false, true] {
        let mut poll = || {
            tracing::dispatcher::with_default(&dispatch, || {
                task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
            })
        };
        assert_eq!(std::thread::scope(|threads| threads.spawn(&mut poll).join().unwrap()), expected);
    }
    drop(task);
    let trace = profiler.finish();
    let whole = trace.lanes[0].spans[0].corr;
    assert_eq!(trace.lanes.len(), 3);
    assert_ne!(whole, 0);
    for lane in &trace.lanes[1..] {
        let found = names(&trace, lane);
        assert_eq!(found[..2], [("task", NONE), ("leaf", 0)]);
        let root = &lane.spans[0];
        let cause = lane.detail_of(root).map_or(0, |detail| detail.cause);
        assert!(root.corr == whole || cause == whole, "{root:?} {cause}");
    }
    assert_eq!(trace.open(), 0);
}

#[test]
fn exits_in_another_order_and_spans_that_outlive_the_recording() {
    let profiler = full();
    let subscriber = tracing_subscriber::registry().with(ProfileLayer::new(&profiler));
    tracing::subscriber::with_default(subscriber, || {
        let (a, b) = (info_span!("a"), info_span!("b"));
        let (entered_a, entered_b) = (a.enter(), b.enter());
        drop(entered_a);
        drop(entered_b);
        let _again = a.enter();
        let trace = profiler.finish();
        let lane = &trace.lanes[0];
        assert_eq!(names(&trace, lane), [("a", NONE), ("b", 0), ("a", NONE)]);
        assert_eq!(trace.open(), 1);
        drop(info_span!("nobody records").entered());
    });
}

#[test]
fn without_its_own_profiler_the_layer_follows_the_thread() {
    let profiler = full();
    let subscriber = tracing_subscriber::registry().with(ProfileLayer::of_threads());
    tracing::subscriber::with_default(subscriber, || {
        drop(info_span!("before").entered());
        let _entered = profiler.enter();
        drop(info_span!("inside").entered());
    });
    let trace = profiler.finish();
    assert_eq!(names(&trace, &trace.lanes[0]), [("inside", NONE)]);
}

#[test]
fn the_cost_of_a_span_is_that_of_the_way_it_came() {
    let cost = |own: usize, traced: usize| {
        let profiler = full();
        {
            let _entered = profiler.enter();
            (0..own).for_each(|_| drop(ellwand_profile::span!("own")));
        }
        let subscriber = tracing_subscriber::registry().with(ProfileLayer::new(&profiler));
        tracing::subscriber::with_default(subscriber, || {
            (0..traced).for_each(|_| drop(tracing::info_span!("traced").entered()));
        });
        let cost = profiler.finish().cost.unwrap();
        [cost.on_ns, cost.empty_ns]
    };
    // The first of these measures both, since it finds a span of `tracing`.
    let traced = cost(0, 10);
    let (own, half) = (cost(10, 0), cost(10, 10));
    assert_ne!(own, traced);
    for (half, (own, traced)) in half.into_iter().zip(own.into_iter().zip(traced)) {
        assert!((half - (own + traced) / 2.0).abs() <= 1e-9 * half, "{half}, {own}, {traced}");
    }
}

/// With more spans than the layer has places for, some are kept in the registry, and all keep their fields and parents.
#[test]
fn many_spans_that_live_at_the_same_time_keep_their_fields_and_parents() {
    let count: i64 = if cfg!(miri) { 200 } else { 6_000 };
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: 16 << 20 }));
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(ProfileLayer::new(&profiler)));
    let parents: Vec<tracing::Span> = tracing::dispatcher::with_default(&dispatch, || {
        let parents: Vec<tracing::Span> =
            (0..count).map(|n| info_span!("parent", n, late = tracing::field::Empty)).collect();
        for parent in &parents {
            parent.record("late", true);
        }
        parents.iter().for_each(|parent| drop(parent.enter()));
        parents
    });
    std::thread::scope(|threads| {
        threads.spawn(|| {
            tracing::dispatcher::with_default(&dispatch, || {
                for (n, parent) in parents.iter().enumerate() {
                    drop(info_span!(parent: parent, "child", n).entered());
                }
            });
        });
    });
    drop((parents, dispatch));
    let trace = profiler.finish();
    let [main, other] = &trace.lanes[..] else { panic!("{} lanes", trace.lanes.len()) };
    let mine = |lane: &TraceLane| -> Vec<Span> {
        lane.spans.iter().filter(|span| trace.name(span) != ellwand_profile::ROOM_NAME).copied().collect()
    };
    let (parents, children) = (mine(main), mine(other));
    assert_eq!((parents.len(), children.len()), (count as usize, count as usize));
    for (n, (parent, child)) in (0..count).zip(parents.iter().zip(&children)) {
        let number = ("n".to_string(), Value::Int(n));
        assert_eq!(args(main, parent), [number.clone(), ("late".to_string(), Value::Bool(true))]);
        assert_eq!(args(other, child), [number]);
        assert_ne!(parent.corr, 0);
        assert_eq!(child.corr, parent.corr);
    }
}
