//! Processor time of a span, with Ellwand and with its peers, interleaved in one process: each round runs every variant
//! in an order drawn anew, on one thread or on several at the same time. Prints medians over the rounds.

use std::hint::black_box;

use ellwand_profile::clock::ticks;
use ellwand_profile::{Mode, Options, Profiler};

const SPANS: usize = 20_000;

struct Variant {
    name: &'static str,
    /// Runs `SPANS` spans; returns the processor time of this thread in nanoseconds.
    run: fn() -> f64,
}

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> f64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(f64::NAN, |time| time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

fn timed(mut body: impl FnMut()) -> f64 {
    let start = cpu_ns();
    (0..SPANS).for_each(|_| body());
    cpu_ns() - start
}

fn in_mode(mode: Mode, mut body: impl FnMut()) -> f64 {
    let profiler = Profiler::new(Options::new(mode));
    let _entered = profiler.enter();
    // Joining and the first pages are part of the start of a recording, not of a span: the second pass counts.
    (0..2).fold(0.0, |_, _| timed(&mut body))
}

#[inline]
fn ellwand() {
    let _span = ellwand_profile::span!("span");
}

#[inline]
fn traced() {
    let _span = tracing::info_span!("span").entered();
}

#[hotpath::measure]
fn hot() {
    black_box(());
}

const VARIANTS: &[Variant] = &[
    Variant { name: "empty loop", run: || timed(|| black_box(())) },
    Variant {
        name: "pair of clock readings",
        run: || {
            timed(|| {
                black_box(ticks());
                black_box(ticks());
            })
        },
    },
    Variant {
        name: "ellwand, off",
        run: || {
            timed(|| {
                let _span = ellwand_profile::span!("off");
            })
        },
    },
    Variant { name: "ellwand, full", run: || in_mode(Mode::Full { bytes: 8 << 20 }, ellwand) },
    Variant { name: "ellwand, aggregate", run: || in_mode(Mode::Aggregate, ellwand) },
    Variant { name: "ellwand, ring", run: || in_mode(Mode::Ring { spans: 4096 }, ellwand) },
    Variant {
        name: "ellwand, full, counters",
        run: || in_mode(Mode::Full { bytes: 8 << 20 }, || drop(ellwand_profile::span!("counted", bytes = 64_u64))),
    },
    Variant {
        name: "ellwand, layer of tracing",
        run: || {
            use tracing_subscriber::layer::SubscriberExt;
            let profiler = Profiler::new(Options::new(Mode::Full { bytes: 8 << 20 }));
            let layer = ellwand_profile::layer::ProfileLayer::new(&profiler);
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || timed(traced))
        },
    },
    Variant {
        name: "tracing, registry only",
        run: || tracing::subscriber::with_default(tracing_subscriber::registry(), || timed(traced)),
    },
    Variant {
        name: "puffin (1000 in a scope)",
        run: || {
            puffin::set_scopes_on(true);
            let start = cpu_ns();
            for _ in 0..SPANS / 1000 {
                puffin::profile_scope!("outer");
                for _ in 0..1000 {
                    puffin::profile_scope!("span");
                }
            }
            let spent = cpu_ns() - start;
            puffin::GlobalProfiler::lock().new_frame();
            puffin::set_scopes_on(false);
            spent
        },
    },
    Variant {
        name: "puffin, off",
        run: || {
            timed(|| {
                puffin::profile_scope!("off");
            })
        },
    },
    Variant {
        name: "fastrace (1000 in a root)",
        run: || {
            use fastrace::prelude::{LocalSpan, Span, SpanContext};
            let start = cpu_ns();
            for _ in 0..SPANS / 1000 {
                let root = Span::root("root", SpanContext::random());
                let _parent = root.set_local_parent();
                for _ in 0..1000 {
                    let _span = LocalSpan::enter_with_local_parent("span");
                }
            }
            cpu_ns() - start
        },
    },
    Variant {
        name: "tracy-client, no viewer",
        run: || {
            let _client = tracy_client::Client::start();
            timed(|| {
                let _zone = tracy_client::span!("span");
            })
        },
    },
    Variant { name: "hotpath", run: || timed(hot) },
];

/// Median of each variant in nanoseconds per span.
fn measure(threads: usize, rounds: usize) -> Vec<f64> {
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); VARIANTS.len()];
    // A small generator suffices: the order must not favour any variant, it need not be secret.
    let mut state = ticks() | 1;
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..VARIANTS.len()).collect();
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        for variant in order {
            let run = VARIANTS[variant].run;
            let spent: f64 = if threads == 1 {
                run()
            } else {
                std::thread::scope(|scope| {
                    let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                    all.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum()
                })
            };
            found[variant].push(spent / (threads * SPANS) as f64);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    found.iter_mut().map(median).collect()
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(41);
    let _hotpath = hotpath::HotpathGuardBuilder::new("main").build();
    let (one, two) = (measure(1, rounds), measure(2, rounds));
    println!("| variant | 1 thread, ns | 2 threads, ns |\n|---|---|---|");
    for ((variant, one), two) in VARIANTS.iter().zip(&one).zip(&two) {
        println!("| {} | {one:.1} | {two:.1} |", variant.name);
    }
}
