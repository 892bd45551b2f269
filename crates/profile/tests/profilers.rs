//! Profilers as a program uses them: several at the same time, all modes, switched at run time.

use std::sync::mpsc;

use ellwand_profile::{Kind, Measures, Mode, NONE, Options, Profiler, Trace, TraceLane, Value, scope, span};

fn full() -> Options {
    Options::new(Mode::Full { bytes: 1 << 20 })
}

/// The path of each span of a lane, in the order in which the spans started.
fn paths(trace: &Trace, lane: &TraceLane) -> Vec<String> {
    let path = |span: &ellwand_profile::Span| {
        let mut names = vec![trace.name(span)];
        let mut parent = span.parent;
        while let Some(outer) = lane.spans.get(parent as usize) {
            names.insert(0, trace.name(outer));
            parent = outer.parent;
        }
        names.join("/")
    };
    lane.spans.iter().map(path).collect()
}

/// Path and count of each node of a lane.
fn totals(trace: &Trace, lane: &TraceLane) -> Vec<(String, u64)> {
    let name = |site: u32| trace.sites[site as usize - 1].name.clone();
    let path = |total: &ellwand_profile::Total| {
        let mut names = vec![name(total.site)];
        let mut parent = total.parent;
        while let Some(outer) = lane.totals.get(parent as usize) {
            names.insert(0, name(outer.site));
            parent = outer.parent;
        }
        names.join("/")
    };
    lane.totals.iter().map(|total| (path(total), total.count)).collect()
}

fn request(profiler: &Profiler, name: &str, steps: usize) {
    let _request = profiler.profile(name);
    for _ in 0..steps {
        let _step = span!("step");
        scope("inner", || std::hint::black_box(steps));
    }
}

#[test]
fn two_requests_side_by_side_have_their_own_spans() {
    let (first, second) = (Profiler::new(full()), Profiler::new(full()));
    std::thread::scope(|threads| {
        threads.spawn(|| request(&first, "first", 2));
        threads.spawn(|| request(&second, "second", 1));
    });
    let (first, second) = (first.finish(), second.finish());
    assert_eq!(
        paths(&first, &first.lanes[0]),
        ["first", "first/step", "first/step/inner", "first/step", "first/step/inner"]
    );
    assert_eq!(paths(&second, &second.lanes[0]), ["second", "second/step", "second/step/inner"]);
    assert_eq!((first.lanes.len(), first.open(), first.dropped()), (1, 0, 0));
}

#[test]
fn profilers_nest_on_one_thread_and_guards_end_in_their_own() {
    let (outer, inner) = (Profiler::new(full()), Profiler::new(Options::new(Mode::Aggregate)));
    {
        let outside = outer.profile("outside");
        let late = span!("late");
        let within = inner.enter();
        let inside = span!("inside");
        drop(late);
        drop(span!("deeper"));
        drop(within);
        drop(span!("again outside"));
        drop(inside);
        drop(outside);
    }
    let (outer, inner) = (outer.finish(), inner.finish());
    assert_eq!(paths(&outer, &outer.lanes[0]), ["outside", "outside/late", "outside/again outside"]);
    assert_eq!(totals(&inner, &inner.lanes[0]), [("inside".into(), 1), ("inside/deeper".into(), 1)]);
    assert_eq!((outer.open(), inner.lanes[0].totals[0].open), (0, 0));
}

#[test]
fn a_scope_of_a_stopped_profiler_keeps_its_spans_from_others() {
    let outer = Profiler::new(full());
    let idle = Profiler::new(Options::new(Mode::Off));
    let _outer = outer.enter();
    drop(span!("before"));
    let off = idle.enter();
    assert!(!span!("hidden").is_on());
    drop(off);
    drop(span!("after"));
    let trace = outer.finish();
    assert_eq!(paths(&trace, &trace.lanes[0]), ["before", "after"]);
}

#[test]
fn aggregates_count_every_path() {
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let entered = profiler.enter();
    for round in 0..1000_u64 {
        let _layer = span!("layer");
        for _ in 0..2 {
            drop(span!("head", bytes = 8_u64, flops = 0.5, index = round));
        }
    }
    let open = span!("open");
    drop(span!("head"));
    let trace = profiler.snapshot();
    drop((open, entered));
    let lane = &trace.lanes[0];
    assert_eq!(
        totals(&trace, lane),
        [("layer".into(), 1000), ("layer/head".into(), 2000), ("open".into(), 0), ("open/head".into(), 1)]
    );
    assert_eq!((lane.totals[2].open, trace.dropped(), lane.spans.len()), (1, 0, 0));
    let (layer, head) = (&lane.totals[0], &lane.totals[1]);
    assert_eq!((head.sums.counters.bytes, head.sums.counters.flops), (16_000, 1000.0));
    assert!((layer.self_ns - (layer.total_ns - head.total_ns)).abs() < 1e-3);
    assert_eq!(head.histogram.iter().map(|(_, count)| count).sum::<u64>(), 2000);
    let mean = layer.total_ns / 1000.0;
    assert!(layer.min_ns <= mean && mean <= layer.max_ns && layer.square_ns2 >= 1000.0 * mean * mean * 0.999);
    assert_eq!(profiler.finish().lanes[0].totals[2].open, 0);
}

#[test]
fn a_ring_has_the_last_spans_and_those_still_open() {
    let profiler = Profiler::new(Options::new(Mode::Ring { spans: 5 }));
    let entered = profiler.enter();
    let outer = span!("outer", items = 3);
    for number in 0..5000 {
        let _middle = span!("middle");
        drop(span!("leaf", number = number));
    }
    let trace = profiler.snapshot();
    let lane = &trace.lanes[0];
    // The oldest leaf's `middle` ended after the leaf, so it is kept although another leaf is gone.
    assert_eq!(
        paths(&trace, lane),
        ["outer", "outer/middle", "outer/middle", "outer/middle/leaf", "outer/middle", "outer/middle/leaf"]
    );
    let numbers: Vec<&Value> =
        lane.spans.iter().filter_map(|span| Some(&lane.detail_of(span)?.args.first()?.1)).collect();
    assert_eq!(numbers, [&Value::Int(4998), &Value::Int(4999)]);
    assert_eq!(lane.counters_of(&lane.spans[0]).unwrap().items, 3);
    assert_eq!((trace.open(), trace.dropped()), (1, 10_001 - lane.spans.len() as u64));
    assert_eq!(trace.last_spans(), Some(5));
    assert!(trace.environment.contains(&("last spans of a thread".to_string(), Value::Int(5))));
    let table = trace.summary().to_string();
    assert!(table.ends_with("each thread (5); 9995 spans lost"), "{table}");
    // A ring without spans would give an empty profile.
    let none = Profiler::new(Options::new(Mode::Ring { spans: 0 }));
    let entered_too = none.enter();
    (0..3).for_each(|_| drop(span!("leaf")));
    drop(entered_too);
    let trace = none.finish();
    assert_eq!((trace.spans(), trace.last_spans()), (1, Some(1)));
    let short = Profiler::new(Options::new(Mode::Ring { spans: 50_000 }));
    let entered_too = short.enter();
    drop(span!("leaf"));
    drop(entered_too);
    assert_eq!(short.finish().last_spans(), None, "nothing is missing");
    drop((outer, entered));
    let trace = profiler.finish();
    let lane = &trace.lanes[0];
    assert_eq!(trace.open(), 0);
    assert!(lane.spans.is_sorted_by_key(|span| span.start) && lane.spans.len() == 5);
}

#[test]
fn spans_beyond_the_budget_are_aggregated_and_counted() {
    // Room for 1024 spans; one belongs to the recorder and covers the last chunk.
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1024 * 32 }));
    let entered = profiler.enter();
    let kept = span!("kept");
    for _ in 0..2000 {
        let _outer = span!("outer");
        drop(span!("inner"));
    }
    drop(kept);
    drop(span!("last"));
    drop(entered);
    let trace = profiler.finish();
    let lane = &trace.lanes[0];
    assert_eq!(lane.spans.len(), 1024);
    let counts = totals(&trace, lane);
    let of = |path: &str| counts.iter().find(|(known, _)| known == path).map(|(_, count)| *count);
    let inner = lane.spans.iter().filter(|span| trace.name(span) == "inner").count() as u64;
    assert_eq!(of("kept"), Some(0));
    assert_eq!(of("kept/outer/inner"), Some(2000 - inner));
    assert_eq!(of("last"), Some(1));
    // One kept, 4000 below it, one last.
    assert_eq!(trace.dropped(), 4002 - 1023);
    // The kept span's own time minus the aggregated part inside.
    let kept = &lane.totals[counts.iter().position(|(path, _)| path == "kept").unwrap()];
    let outer: f64 = lane
        .totals
        .iter()
        .filter(|total| lane.totals.get(total.parent as usize) == Some(kept))
        .map(|total| total.total_ns)
        .sum();
    assert!((kept.self_ns + outer).abs() < 1.0 && outer > 0.0);
    assert_eq!(trace.open(), 0);
}

#[test]
fn sampling_records_one_in_n_outermost_spans_with_all_inside() {
    let profiler = Profiler::new(Options { sampling: 4, ..full() });
    let entered = profiler.enter();
    let request = || {
        let _root = span!("root");
        drop(span!("child"));
        drop(span!("child"));
    };
    (0..12).for_each(|_| request());
    profiler.set_sampling(1);
    (0..2).for_each(|_| request());
    drop(entered);
    let trace = profiler.finish();
    assert_eq!(trace.spans(), 3 * (3 + 2));
    assert_eq!((trace.sampled_out, trace.open(), trace.dropped()), (9, 0, 0));
}

#[test]
fn sampling_meets_every_part_of_work_with_a_period() {
    for one_in in [2, 4, 10] {
        let profiler = Profiler::new(Options { sampling: one_in, ..full() });
        let entered = profiler.enter();
        for _ in 0..1_000 * one_in / 2 {
            drop(span!("get"));
            drop(span!("put"));
        }
        drop(entered);
        let trace = profiler.finish();
        assert_eq!((trace.spans(), trace.sampled_out), (1_000, u64::from(1_000 * (one_in - 1))));
        let counts: Vec<u64> = trace.summary_by_site().rows.iter().map(|row| row.count).collect();
        assert!(counts.len() == 2 && counts.iter().all(|count| (430..570).contains(count)), "{one_in}: {counts:?}");
    }
}

#[test]
fn switched_at_run_time_with_guards_alive() {
    let profiler = Profiler::new(full());
    let entered = profiler.enter();
    let alive = span!("alive");
    profiler.set_enabled(false);
    assert!(!profiler.is_enabled() && !span!("off").is_on());
    profiler.set_enabled(true);
    drop(span!("on again"));
    profiler.set_enabled(false);
    drop(alive);
    profiler.set_enabled(true);
    drop(span!("last"));
    let left = span!("left open");
    let trace = profiler.finish();
    drop(left);
    drop(entered);
    assert_eq!(paths(&trace, &trace.lanes[0]), ["alive", "alive/on again", "last", "left open"]);
    assert_eq!(trace.open(), 1);
    assert_eq!(profiler.finish().spans(), 0, "finished twice: nothing is left");
}

#[test]
fn a_leaked_guard_is_an_open_span_in_every_mode() {
    for mode in [Mode::Full { bytes: 1 << 20 }, Mode::Aggregate, Mode::Ring { spans: 10 }] {
        let profiler = Profiler::new(Options::new(mode));
        let entered = profiler.enter();
        {
            let _outer = span!("outer");
            std::mem::forget(span!("leaked"));
            drop(span!("inside"));
        }
        drop(span!("next"));
        drop(entered);
        let trace = profiler.finish();
        let lane = &trace.lanes[0];
        let open: u64 = trace.open() + lane.totals.iter().map(|total| total.open).sum::<u64>();
        assert_eq!(open, 1, "{mode:?}");
        let mut found = paths(&trace, lane);
        found.extend(totals(&trace, lane).into_iter().map(|(path, _)| path));
        assert_eq!(found, ["outer", "outer/leaked", "outer/leaked/inside", "next"], "{mode:?}");
    }
}

#[test]
fn guards_in_any_order_leave_the_same_tree_in_every_mode() {
    for mode in [Mode::Full { bytes: 1 << 20 }, Mode::Aggregate, Mode::Ring { spans: 100 }] {
        let profiler = Profiler::new(Options::new(mode));
        let entered = profiler.enter();
        let (a, b) = (span!("a"), span!("b"));
        drop(a);
        let c = span!("c");
        drop(b);
        drop(span!("d"));
        drop(c);
        drop(span!("e"));
        drop(entered);
        let trace = profiler.finish();
        let lane = &trace.lanes[0];
        let mut found = paths(&trace, lane);
        found.extend(totals(&trace, lane).into_iter().map(|(path, _)| path));
        assert_eq!(found, ["a", "a/b", "c", "c/d", "e"], "{mode:?}");
        assert_eq!(trace.open() + lane.totals.iter().map(|total| total.open).sum::<u64>(), 0);
    }
}

#[test]
fn arguments_kinds_and_measures_reach_the_trace() {
    let profiler = Profiler::new(full());
    profiler.describe("revision", "abc");
    let entered = profiler.enter();
    {
        let guard = span!(
            "load",
            kind = Kind::Wait,
            bytes = 10_usize,
            n = 7_u8,
            ratio = 0.5,
            ok = true,
            measure = Measures::ALL
        );
        guard.arg("shape", "2x3");
        guard.arg("long", "y".repeat(1 << 20));
    }
    drop(entered);
    let trace = profiler.finish();
    let lane = &trace.lanes[0];
    let span = &lane.spans[0];
    assert_eq!(trace.site(span).unwrap().kind, Kind::Wait);
    let detail = lane.detail_of(span).unwrap();
    assert_eq!(detail.counters.bytes, 10);
    let args: Vec<(&str, &Value)> = detail.args.iter().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(args[..3], [("n", &Value::Int(7)), ("ratio", &Value::Float(0.5)), ("ok", &Value::Bool(true))]);
    assert_eq!(args[3], ("shape", &Value::Text("2x3".into())));
    assert!(matches!(args[4], ("long", Value::Text(text)) if text.len() <= 256 && text.contains('…')));
    if cfg!(all(target_os = "linux", not(miri))) {
        assert!(detail.cpu_ns.is_some() && detail.rss_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }
    assert!(detail.memory.is_none(), "this program does not count allocations, and says so by absence");
    assert!(trace.environment.contains(&("revision".into(), Value::from("abc"))));
    assert!(trace.environment.iter().any(|(name, value)| name == "pid" && *value == Value::from(std::process::id())));
    assert!(trace.name.starts_with("profilers"), "{}", trace.name);
    assert!(cfg!(miri) || trace.cost.is_some_and(|cost| cost.on_ns > 0.0));
}

#[test]
fn arguments_are_computed_only_for_spans_that_keep_them() {
    let computed = std::cell::Cell::new(0);
    let count = || {
        computed.set(computed.get() + 1);
        computed.get()
    };
    drop(span!("off", n = count()));
    for (mode, expected) in [(Mode::Aggregate, 0), (Mode::Ring { spans: 2 }, 1), (Mode::Full { bytes: 1 << 20 }, 2)] {
        let profiler = Profiler::new(Options::new(mode));
        let _entered = profiler.enter();
        drop(span!("on", n = count()));
        assert_eq!(computed.get(), expected, "{mode:?}");
    }
}

#[test]
fn names_at_run_time_are_interned_and_cut() {
    let profiler = Profiler::new(full());
    for round in 0..3 {
        profiler.measure(format!("name {}", round % 2), || ());
    }
    drop(profiler.profile("z".repeat(1 << 20)));
    drop(profiler.profile("quote \" newline \n </script>"));
    let trace = profiler.finish();
    let spans = &trace.lanes[0].spans;
    assert_eq!(spans[0].site, spans[2].site);
    assert_ne!(spans[0].site, spans[1].site);
    assert!(trace.name(&spans[3]).len() <= 256);
    assert_eq!(trace.name(&spans[4]), "quote \" newline \n </script>");
    assert!(trace.site(&spans[0]).unwrap().file.ends_with("profilers.rs"));
}

#[test]
fn nesting_of_100_000_needs_no_stack() {
    let depth = if cfg!(miri) { 300 } else { 100_000 };
    for mode in [Mode::Full { bytes: 64 << 20 }, Mode::Ring { spans: 200_000 }, Mode::Aggregate] {
        let profiler = Profiler::new(Options::new(mode));
        let entered = profiler.enter();
        let mut guards: Vec<_> = (0..depth).map(|_| span!("deep")).collect();
        while guards.pop().is_some() {}
        drop(span!("after"));
        drop(entered);
        let trace = profiler.finish();
        assert_eq!(trace.open(), 0);
        if mode == Mode::Aggregate {
            let counted: u64 = trace.lanes[0].totals.iter().map(|total| total.count).sum();
            assert_eq!(counted + trace.dropped(), depth as u64 + 1, "4096 nodes; the rest is counted as lost");
        } else {
            assert_eq!(trace.lanes[0].spans.last().map(|span| span.parent), Some(NONE));
        }
    }
}

#[test]
fn links_give_parents_across_threads_and_chains_of_them() {
    let profiler = Profiler::new(full());
    {
        let first = profiler.profile("first");
        let link = first.link();
        let own = profiler.clone();
        let second = std::thread::spawn(move || {
            let second = own.profile("second");
            second.under(link);
            let (link, own) = (second.link(), own.clone());
            std::thread::spawn(move || own.profile("third").under(link)).join()
        });
        assert!(second.join().is_ok());
    }
    let trace = profiler.finish();
    let find = |name: &str| {
        let lanes = trace.lanes.iter();
        lanes
            .flat_map(|lane| lane.spans.iter().map(move |span| (lane, span)))
            .find(|(_, span)| trace.name(span) == name)
            .unwrap()
    };
    let (first, second, third) = (find("first"), find("second"), find("third"));
    assert_eq!(second.0.detail_of(second.1).unwrap().cause, first.1.corr);
    assert_eq!(third.1.corr, second.1.corr);
    assert_ne!(first.1.corr, second.1.corr);
}

#[test]
fn a_thread_that_ends_leaves_its_spans() {
    let profiler = Profiler::new(full());
    let (send, receive) = mpsc::channel();
    let own = profiler.clone();
    let thread = std::thread::Builder::new().name("short".into()).spawn(move || {
        let _work = own.profile("work");
        send.send(()).unwrap();
        std::panic::resume_unwind(Box::new("ended by a panic"));
    });
    receive.recv().unwrap();
    assert!(thread.unwrap().join().is_err());
    let trace = profiler.finish();
    assert_eq!((trace.lanes[0].name.as_str(), trace.spans(), trace.open()), ("short", 1, 0));
}

#[test]
fn many_short_threads_share_lanes() {
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let threads = if cfg!(miri) { 10 } else { 1500 };
    for _ in 0..threads {
        let own = profiler.clone();
        std::thread::spawn(move || drop(own.profile("work"))).join().unwrap();
    }
    let trace = profiler.finish();
    assert!(trace.lanes.len() <= 256, "{}", trace.lanes.len());
    let counted: u64 = trace.lanes.iter().flat_map(|lane| &lane.totals).map(|total| total.count).sum();
    assert_eq!((counted, trace.dropped()), (threads, 0));
    let shared = trace.lanes.iter().filter(|lane| lane.is_of_many_threads()).count();
    assert_eq!(shared > 0, trace.lanes.len() < threads as usize);
}

#[test]
fn snapshots_of_running_threads_are_consistent() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    for mode in [Mode::Aggregate, Mode::Ring { spans: 64 }, Mode::Full { bytes: 200_000 }] {
        let profiler = Profiler::new(Options::new(mode));
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let _entered = profiler.enter();
                    while !stop.load(Relaxed) {
                        let _outer = span!("outer", bytes = 1_u64);
                        drop(span!("inner"));
                    }
                });
            }
            for _ in 0..if cfg!(miri) { 3 } else { 100 } {
                let trace = profiler.snapshot();
                for lane in &trace.lanes {
                    for (index, span) in lane.spans.iter().enumerate() {
                        assert!(span.parent == NONE || (span.parent as usize) < index);
                        assert!(span.is_open() || span.end >= span.start);
                        if trace.name(span) == "inner" && span.parent != NONE {
                            assert_eq!(trace.name(&lane.spans[span.parent as usize]), "outer");
                        }
                    }
                    for total in &lane.totals {
                        assert_eq!(total.histogram.iter().map(|(_, count)| count).sum::<u64>(), total.count);
                        assert!(total.count == 0 || total.total_ns >= total.min_ns);
                        assert!(total.open <= 1, "{total:?}");
                    }
                }
                std::thread::yield_now();
            }
            stop.store(true, Relaxed);
        });
    }
}
