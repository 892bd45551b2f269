//! Constant memory: aggregates 10^9 spans, or the number given as an argument, and prints the resident memory of this
//! process before and after. `cargo run --release -p ellwand-profile --example billion [SPANS]`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use ellwand_profile::{Mode, Options, Profiler, span};

/// Resident memory in KiB, as the kernel reports it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or_else(|| "unavailable: /proc/self/status has no VmRSS".into(), |value| value.trim().to_string())
}

/// Four spans: two operations inside a third, one of them twice.
fn work() {
    let _request = span!("request");
    drop(span!("parse", bytes = 64_u64));
    drop(span!("answer"));
    drop(span!("answer"));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spans: u64 = std::env::args().nth(1).map_or(Ok(1_000_000_000), |spans| spans.parse())?;
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let entered = profiler.enter();
    (0..1000).for_each(|_| work());
    println!("after 4000 spans: {}", resident());
    let start = Instant::now();
    (0..spans / 4).for_each(|_| work());
    let seconds = start.elapsed().as_secs_f64();
    println!("after {spans} more: {} ({seconds:.1} s)", resident());
    drop(entered);
    let trace = profiler.finish();
    let counted: u64 = trace.lanes.iter().flat_map(|lane| &lane.totals).map(|total| total.count).sum();
    assert_eq!((counted, trace.dropped()), (4000 + spans / 4 * 4, 0));
    println!("{}", trace.summary());
    Ok(())
}
