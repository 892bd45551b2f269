//! What the profiler allocates, and what it reports about allocations in spans, in a program that counts them.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use ellwand_profile::alloc::{Counting, counts};
use ellwand_profile::{Measures, MemoryUse, Mode, Options, Profiler, span};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tests count bytes of the whole process, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn allocated() -> u64 {
    counts().unwrap().allocated_bytes
}

fn work(spans: usize) {
    for round in 0..spans / 4 {
        let _outer = span!("outer", bytes = 64_u64);
        drop(span!("first"));
        drop(span!("second"));
        if round % 2 == 0 {
            drop(span!("even"));
        } else {
            drop(span!("odd"));
        }
    }
}

#[test]
fn aggregation_allocates_nothing_after_its_first_spans() {
    let _turn = turn();
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let _entered = profiler.enter();
    work(100);
    let before = allocated();
    work(if cfg!(miri) { 1_000 } else { 2_000_000 });
    // The test harness allocates a little for the results of other tests.
    let bytes = allocated() - before;
    assert!(bytes < 64 << 10, "{bytes} bytes allocated by 2 000 000 spans");
}

#[test]
fn an_aggregating_thread_takes_no_buffer_for_single_spans() {
    let _turn = turn();
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let threads = 40;
    let all = std::sync::Barrier::new(threads);
    let before = allocated();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _entered = profiler.enter();
                drop(span!("plain"));
                // All at once, so no thread reuses the buffers of another.
                all.wait();
            });
        }
    });
    // A block of nodes has 36 KiB, a buffer for single spans 32 KiB.
    let each = (allocated() - before) / threads as u64;
    assert!(each < 52 << 10, "{each} bytes a thread");
    assert_eq!(profiler.finish().lanes.len(), threads);
}

#[test]
fn a_full_ring_allocates_nothing() {
    let _turn = turn();
    let profiler = Profiler::new(Options::new(Mode::Ring { spans: 3_000 }));
    let _entered = profiler.enter();
    let plain = |spans: usize| (0..spans).for_each(|_| drop(span!("plain")));
    plain(10_000);
    let before = allocated();
    plain(100_000);
    let bytes = allocated() - before;
    assert!(bytes < 64 << 10, "{bytes} bytes allocated by 100 000 spans");
}

#[test]
fn full_mode_takes_32_bytes_a_span_and_keeps_its_budget() {
    let _turn = turn();
    // The first recording creates the pool's first buffers; these are reused, so measure what goes beyond them.
    let budget = 48 << 20;
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: budget }));
    let entered = profiler.enter();
    (0..600_000).for_each(|_| drop(span!("plain")));
    let before = allocated();
    let spans = 400_000;
    (0..spans).for_each(|_| drop(span!("plain")));
    let per_span = (allocated() - before) as f64 / f64::from(spans);
    assert!((31.0..33.5).contains(&per_span), "{per_span} bytes a span");
    (0..2_000_000).for_each(|_| drop(span!("plain")));
    drop(entered);
    let trace = profiler.finish();
    assert!(trace.spans() <= budget / 32 && trace.spans() > budget / 32 - 2048);
    assert!(trace.dropped() > 1_000_000);
}

#[test]
fn measurements_without_room_are_in_the_totals() {
    let _turn = turn();
    let measures = Measures::MEMORY.and(Measures::CPU);
    for spans_of_room in [0, 1, 40, 300, 1000] {
        let profiler = Profiler::new(Options { measures, ..Options::new(Mode::Full { bytes: 32 * spans_of_room }) });
        let entered = profiler.enter();
        (0..400).for_each(|_| {
            let _span = span!("span");
            drop(black_box(vec![1_u8; 1000]));
        });
        drop(entered);
        let trace = profiler.finish();
        let row = &trace.summary().rows[0];
        assert_eq!((row.count, row.memory.unwrap().allocated_bytes), (400, 400_000), "room for {spans_of_room}");
        let (cpu, waiting) = (row.cpu_ns.unwrap(), row.waiting_ns.unwrap());
        assert!(cpu > 0.0 && cpu + waiting >= row.total_ns * 0.99, "{row:?}");
        assert_eq!(trace.dropped_details(), 0);
    }
}

#[test]
fn the_heap_of_many_threads_that_hold_little_each_has_a_peak() {
    let _turn = turn();
    let profiler = Profiler::new(Options { measures: Measures::MEMORY, ..Options::default() });
    let live = || counts().unwrap().live_bytes as f64;
    let (threads, before) = (if cfg!(miri) { 12 } else { 40 }, live());
    let all = Barrier::new(threads + 1);
    let most = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let kept = black_box(vec![1_u8; 100_000]);
                all.wait();
                all.wait();
                drop(kept);
            });
        }
        all.wait();
        let most = live();
        all.wait();
        most
    });
    let trace = profiler.finish();
    let (track, _, peak) = trace.memory_peak().unwrap();
    let missing = f64::from(256 << 10) + threads as f64 * f64::from(32 << 10);
    assert!(most - before > threads as f64 * 1e5 && (peak - most).abs() <= missing, "{before} {most} {peak}");
    let ends = [track.points.first().unwrap().0, track.points.last().unwrap().0];
    assert_eq!(ends, [trace.start, trace.end]);
}

#[test]
fn the_buffers_of_the_profiler_are_no_part_of_the_heap() {
    let _turn = turn();
    let before = counts().unwrap().live_bytes as f64;
    let profiler = Profiler::new(Options { measures: Measures::MEMORY, ..Options::default() });
    let entered = profiler.enter();
    let kept = black_box(vec![1_u8; 1 << 20]);
    (0..if cfg!(miri) { 200 } else { 200_000 }).for_each(|_| drop(span!("plain")));
    let trace = profiler.finish();
    drop((entered, kept));
    let (_, _, peak) = trace.memory_peak().unwrap();
    // Spans and their measurements take 13 MB. A sample may lack 256 KiB.
    let held = f64::from(1 << 20);
    assert!(peak <= before + held + f64::from(256 << 10) && peak > held / 2.0, "{before} {peak}");
}

#[test]
fn spans_know_their_allocations_and_the_heap_has_a_track() {
    let _turn = turn();
    let options = Options { measures: Measures::MEMORY, ..Options::default() };
    let profiler = Profiler::new(options);
    let entered = profiler.enter();
    {
        let _outer = span!("outer");
        let kept = black_box(vec![1_u8; 3 << 20]);
        {
            let _inner = span!("inner");
            drop(black_box(vec![1_u8; 1 << 20]));
        }
        drop(kept);
    }
    drop(entered);
    let trace = profiler.finish();
    let lane = &trace.lanes[0];
    let memory = |index: usize| lane.detail_of(&lane.spans[index]).unwrap().memory.unwrap();
    let (outer, inner) = (memory(0), memory(1));
    assert!((1 << 20..(1 << 20) + 50_000).contains(&inner.peak_bytes), "{inner:?}");
    assert!((4 << 20..(4 << 20) + 100_000).contains(&outer.peak_bytes), "{outer:?}");
    assert!(outer.allocated_bytes >= 4 << 20 && outer.freed_bytes >= 4 << 20 && outer.allocations >= 2);
    assert!(inner.allocated_bytes >= 1 << 20 && inner.allocated_bytes < 3 << 20);
    let heap = trace.tracks.iter().find(|track| track.name == "heap").unwrap();
    let values: Vec<f64> = heap.points.iter().map(|point| point.1).collect();
    let (least, most) = values.iter().fold((f64::MAX, 0_f64), |(a, b), value| (a.min(*value), b.max(*value)));
    assert!(most - least >= f64::from(4 << 20) - 600_000.0, "{least} {most}");
    assert!(heap.points.is_sorted_by_key(|point| point.0));
    assert!(heap.points.iter().all(|point| (trace.start..=trace.end).contains(&point.0)));
}

#[test]
fn the_profilers_own_allocations_belong_to_no_span() {
    let _turn = turn();
    let modes =
        [Mode::Full { bytes: 64 << 20 }, Mode::Full { bytes: 64 << 10 }, Mode::Aggregate, Mode::Ring { spans: 9 }];
    for (mode, measures) in modes.into_iter().flat_map(|mode| [(mode, Measures::MEMORY), (mode, Measures::ALL)]) {
        let profiler = Profiler::new(Options { measures, ..Options::new(mode) });
        let entered = profiler.enter();
        for round in 0..if cfg!(miri) { 30 } else { 3_000 } {
            let outer = span!("outer", bytes = 8_u64, label = "a text that is kept");
            drop(span!("inner", round = round));
            outer.items(1_u64);
            ellwand_profile::scope("named at run time", || ());
        }
        // Deeper than the initial table of open spans.
        let deep: Vec<_> = (0..100).map(|_| span!("deep")).collect();
        deep.into_iter().rev().for_each(drop);
        drop(entered);
        let trace = profiler.finish();
        let names = trace.summary_by_site();
        let memory: Vec<_> = names.rows.iter().map(|row| (row.name(), row.memory.unwrap_or_default())).collect();
        assert!(memory.iter().all(|(_, memory)| *memory == MemoryUse::default()), "{mode:?} {measures:?}: {memory:?}");
    }
}

#[test]
fn aggregates_sum_allocations_and_processor_time() {
    let _turn = turn();
    let measures = Measures::MEMORY.and(Measures::CPU);
    let profiler = Profiler::new(Options { measures, ..Options::new(Mode::Aggregate) });
    let entered = profiler.enter();
    for _ in 0..10 {
        let _span = span!("box");
        drop(black_box(Box::new([0_u64; 100])));
    }
    drop(entered);
    let trace = profiler.finish();
    let sums = &trace.lanes[0].totals[0].sums;
    let memory = sums.memory.unwrap();
    assert_eq!((memory.allocations, memory.allocated_bytes, memory.freed_bytes), (10, 8000, 8000));
    assert_eq!(memory.peak_bytes, 800);
    assert!(cfg!(miri) || !cfg!(target_os = "linux") || sums.cpu_ns.is_some());
}

#[test]
fn blocks_freed_by_another_thread_balance() {
    let _turn = turn();
    let before = counts().unwrap();
    let blocks: Vec<Vec<u8>> = (0..100).map(|_| vec![1_u8; 100_000]).collect();
    std::thread::spawn(move || drop(blocks)).join().unwrap();
    let after = counts().unwrap();
    assert!(after.allocated_bytes - before.allocated_bytes >= 10_000_000);
    assert!(after.live_bytes.abs_diff(before.live_bytes) < 1_000_000);
}

#[test]
fn the_cost_of_spans_that_measure_is_their_own() {
    let _turn = turn();
    let cost = |measures| {
        let profiler = Profiler::new(Options { measures, ..Options::default() });
        profiler.finish().cost.unwrap()
    };
    let (plain, measuring) = (cost(Measures::NONE), cost(Measures::ALL));
    assert_ne!((measuring.on_ns, measuring.empty_ns), (plain.on_ns, plain.empty_ns));
    assert_eq!((measuring.off_ns, cost(Measures::NONE)), (plain.off_ns, plain), "others are as before");
}
