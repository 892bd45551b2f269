//! Processor time of a span, with Ellwand and with its peers, interleaved. Prints medians over the rounds.

use std::hint::black_box;

use ellwand_profile::clock::ticks;
use ellwand_profile::{Mode, Options, Profiler};
use peers_spans::{Variant, cpu_ns, measure};

const SPANS: usize = 20_000;

fn timed(body: impl FnMut()) -> f64 {
    peers_spans::timed(SPANS, body)
}

fn in_mode(mode: Mode, mut body: impl FnMut()) -> f64 {
    let profiler = Profiler::new(Options::new(mode));
    let _entered = profiler.enter();
    // Joining the recording and its first pages are not part of a span's cost: the second pass counts.
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

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(41);
    let _hotpath = hotpath::HotpathGuardBuilder::new("main").build();
    let (one, two) = (measure(VARIANTS, SPANS, 1, rounds), measure(VARIANTS, SPANS, 2, rounds));
    println!("| variant | 1 thread, ns | 2 threads, ns |\n|---|---|---|");
    for ((variant, one), two) in VARIANTS.iter().zip(&one).zip(&two) {
        println!("| {} | {one:.1} | {two:.1} |", variant.name);
    }
}
