//! Snapshots of threads that keep on recording, and traces of threads that record while the recording ends.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};

use ellwand_profile::{Link, Mode, NONE, Options, Profiler, ROOM_NAME, Trace, TraceLane, Value, span};

const SNAPSHOTS: usize = if cfg!(miri) { 8 } else { 40 };
const THREADS: usize = 2;
/// Spans that a thread may begin while a trace is taken.
const AHEAD: u64 = 20_000;

/// Spans that each thread has begun and ended, by the name of the thread.
#[derive(Default)]
struct Counts {
    /// Spans that each thread may begin.
    wanted: AtomicU64,
    begun: [AtomicU64; THREADS],
    ended: [AtomicU64; THREADS],
    stop: AtomicBool,
}

/// Ends the threads of a test, even if it fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

impl Counts {
    /// Runs `body` in a span that carries its number on this thread.
    fn numbered(&self, thread: usize, name: &'static str, body: impl FnOnce(Link)) {
        let number = self.begun[thread].fetch_add(1, SeqCst);
        {
            let span = match name {
                "outer" => span!("outer", number = number),
                "middle" => span!("middle", number = number),
                _ => span!("inner", number = number),
            };
            body(span.link());
        }
        self.ended[thread].fetch_add(1, SeqCst);
    }

    /// A pair of threads for each number: one records nested spans, the other an effect of each outermost span.
    fn record(&self, profiler: &Profiler, snapshots: impl FnOnce()) {
        std::thread::scope(|threads| {
            let _stop = Stop(&self.stop);
            for thread in 0..THREADS {
                let (sender, receiver) = sync_channel::<Link>(64);
                let named = |name: &str| std::thread::Builder::new().name(format!("{name} {thread}"));
                let nested = move || {
                    let _entered = profiler.enter();
                    while !self.stop.load(SeqCst) {
                        if self.begun[thread].load(SeqCst) > self.wanted.load(SeqCst) {
                            std::thread::yield_now();
                            continue;
                        }
                        // Long enough to begin in an earlier chunk than the last one.
                        self.numbered(thread, "outer", |link| {
                            let _ = sender.try_send(link);
                            for _ in 0..200 {
                                self.numbered(thread, "middle", |_| self.numbered(thread, "inner", |_| {}));
                            }
                        });
                    }
                };
                named("cause").spawn_scoped(threads, nested).unwrap();
                let effects = move || {
                    let _entered = profiler.enter();
                    for link in receiver {
                        span!("effect").under(link);
                        span!("second effect").under(link);
                    }
                };
                named("effect").spawn_scoped(threads, effects).unwrap();
            }
            snapshots();
        });
    }

    /// Waits until each thread has begun more spans, and lets them begin still more meanwhile.
    fn wait(&self) {
        let more = if cfg!(miri) { 5 } else { 1500 };
        let wanted = self.wanted.fetch_add(more, SeqCst) + more;
        self.wanted.fetch_max(AHEAD, SeqCst);
        while self.begun.iter().any(|begun| begun.load(SeqCst) + AHEAD < wanted) {
            std::thread::yield_now();
        }
    }

    /// The counts before the trace of `take`, that trace, and the counts after it.
    fn around(&self, take: impl FnOnce() -> Trace) -> ([u64; THREADS], Trace, [u64; THREADS]) {
        self.wait();
        let ended = std::array::from_fn(|at| self.ended[at].load(SeqCst));
        let trace = take();
        (ended, trace, std::array::from_fn(|at| self.begun[at].load(SeqCst)))
    }
}

/// The numbers of the spans of a lane; the profiler's own have none.
fn numbers(trace: &Trace, lane: &TraceLane) -> Vec<u64> {
    let own = |name: &str| name == ROOM_NAME;
    let spans = lane.spans.iter().filter(|span| !own(trace.name(span)));
    let number = |args: &[(String, Value)]| match args {
        [(_, Value::Int(number))] => *number as u64,
        // A snapshot may come between the begin of a span and its first argument.
        _ => u64::MAX,
    };
    spans.map(|span| lane.detail_of(span).map_or(u64::MAX, |detail| number(&detail.args))).collect()
}

/// The laws of every trace, however its threads go on.
fn check(trace: &Trace) {
    let mut causes: HashMap<u32, (u64, &str)> = HashMap::new();
    for lane in &trace.lanes {
        let mut last_outermost = None;
        for (index, span) in lane.spans.iter().enumerate() {
            assert!(span.start <= trace.end && span.end <= trace.end, "after the trace: {span:?}, {}", trace.end);
            assert!(span.is_open() || span.end >= span.start, "{span:?}");
            let known = causes.entry(span.corr).or_insert((span.start, trace.name(span)));
            *known = (*known).min((span.start, trace.name(span)));
            if span.parent == NONE {
                if let Some(before) = last_outermost.replace(*span) {
                    assert!(!before.is_open() && before.end <= span.start, "{}: {before:?} {span:?}", lane.name);
                }
                continue;
            }
            assert!((span.parent as usize) < index);
            let around = lane.spans[span.parent as usize];
            assert!(around.start <= span.start && (around.is_open() || !span.is_open() && span.end <= around.end));
            if let Some(expected) = ["middle", "inner"].iter().position(|name| *name == trace.name(span)) {
                assert_eq!(trace.name(&around), ["outer", "middle"][expected]);
            }
        }
    }
    causes.remove(&0);
    let alone = causes.values().find(|(_, name)| *name != "outer");
    assert_eq!(alone, None, "an effect without its cause");
    let mut names: Vec<&str> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == trace.lanes.len() && names.len() <= 2 * THREADS, "{names:?}");
}

/// The spans of each thread without a gap, at least those that had ended and at most those that had begun.
fn check_whole(trace: &Trace, ended: [u64; THREADS], begun: [u64; THREADS]) {
    for lane in trace.lanes.iter().filter(|lane| lane.name.starts_with("cause")) {
        let thread: usize = lane.name.rsplit(' ').next().unwrap().parse().unwrap();
        let mut numbers = numbers(trace, lane);
        assert!((ended[thread]..=begun[thread]).contains(&(numbers.len() as u64)), "{}", numbers.len());
        numbers.pop_if(|last| *last == u64::MAX);
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{}", lane.name);
    }
}

#[test]
fn a_trace_of_running_threads_keeps_its_laws_in_full_mode() {
    for _ in 0..if cfg!(miri) { 1 } else { 8 } {
        let profiler = Profiler::new(Options::new(Mode::Full { bytes: 256 << 20 }));
        let counts = Counts::default();
        counts.record(&profiler, || {
            for _ in 0..SNAPSHOTS / 8 {
                let (ended, trace, begun) = counts.around(|| profiler.snapshot());
                check(&trace);
                check_whole(&trace, ended, begun);
            }
            let (_, trace, begun) = counts.around(|| profiler.finish());
            check(&trace);
            check_whole(&trace, [0; THREADS], begun);
            assert!(trace.spans() > 0);
        });
    }
}

#[test]
fn a_trace_of_running_threads_keeps_its_laws_in_a_ring_and_beyond_the_budget() {
    for mode in [Mode::Ring { spans: 500 }, Mode::Full { bytes: 200_000 }] {
        let profiler = Profiler::new(Options::new(mode));
        let counts = Counts::default();
        counts.record(&profiler, || {
            for _ in 0..SNAPSHOTS {
                let (_, trace, begun) = counts.around(|| profiler.snapshot());
                if matches!(mode, Mode::Full { .. }) {
                    check(&trace);
                }
                for (thread, begun) in begun.into_iter().enumerate() {
                    let name = format!("cause {thread}");
                    let Some(lane) = trace.lanes.iter().find(|lane| lane.name == name) else { continue };
                    let kept = lane.spans.iter().filter(|span| trace.name(span) != ROOM_NAME).count() as u64;
                    assert!(kept + lane.dropped <= begun, "{mode:?}: {kept} + {} of {begun}", lane.dropped);
                }
                let parts: Vec<_> = trace.lanes.iter().filter(|lane| lane.name.contains('(')).collect();
                assert_eq!(parts, Vec::<&TraceLane>::new(), "{mode:?}: spans overlap");
            }
        });
    }
}

#[test]
fn a_snapshot_of_a_running_ring_is_of_one_thread_and_ends_after_its_spans() {
    let profiler = Arc::new(Profiler::new(Options::new(Mode::Ring { spans: 500 })));
    let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let thread = std::thread::spawn({
        let (profiler, stop, started) = (profiler.clone(), stop.clone(), started.clone());
        move || {
            let _entered = profiler.enter();
            for number in 0.. {
                let _outer = span!("outer");
                drop(span!("inner"));
                if number == 1000 {
                    started.wait();
                }
                if stop.load(SeqCst) {
                    break;
                }
            }
        }
    });
    started.wait();
    for _ in 0..50 {
        let trace = profiler.snapshot();
        assert_eq!(trace.lanes.iter().filter(|lane| !lane.spans.is_empty()).count(), 1);
        assert!(trace.lanes.iter().flat_map(|lane| &lane.spans).all(|span| span.start <= trace.end));
        assert!(trace.last_spans().is_some_and(|last| last <= 500), "{:?}", trace.last_spans());
    }
    stop.store(true, SeqCst);
    thread.join().unwrap();
}

/// A service takes snapshots and may never finish a recording.
#[test]
#[cfg_attr(miri, ignore = "costs are not measured under Miri")]
fn a_snapshot_of_the_first_recording_has_the_costs_of_its_spans() {
    for mode in [Mode::Full { bytes: 1 << 20 }, Mode::Aggregate, Mode::Ring { spans: 9 }] {
        let profiler = Profiler::new(Options::new(mode));
        let _entered = profiler.enter();
        let _open = span!("open");
        drop(span!("ended"));
        let trace = profiler.snapshot();
        assert!(trace.cost.is_some_and(|cost| cost.on_ns > 0.0), "{mode:?}: {:?}", trace.cost);
        assert_eq!(trace.span_costs.len(), trace.sites.len());
        let rows = trace.summary_by_site().rows;
        assert!(rows.iter().all(|row| row.overhead_ns.is_some() && row.name().len() < 6), "{mode:?}: {rows:?}");
    }
}
