//! Does `run` report the same times as a plain loop, whatever else is measured with it, and does `compare` measure a
//! planted difference correctly? `cargo run --release -p example-promise -- table` prints the answer for this machine,
//! and `waits` does so for pairs whose CPU time differs from the elapsed time.
//!
//! `loop KERNEL` is the independent instrument: a plain loop over the same functions in one process, in long bursts of
//! each amount of work in turn. All other commands are Ellwand's.

mod kernels;
mod table;
mod waits;

use std::hint::black_box;
use std::time::Instant;

use ellwand::{Axis, suite};
use kernels::{Data, KERNELS, PLANTED};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("loop") => plain_loop(args.get(1).map_or(KERNELS[0], String::as_str)),
        Some("table") => table::print(&args[1..]),
        Some("waits") => table::print_waits(),
        Some("spin") => loop {
            std::hint::spin_loop();
        },
        _ => {
            let suite = suite("promise")
                .about("Kernels with different bottlenecks, with planted differences")
                .axis(Axis::choice("kernel", "its bottleneck", &KERNELS, KERNELS[0]))
                .input(|case, _| Data::new(case.text("kernel").unwrap_or(KERNELS[0])))
                // Opaque, as in the loop: a known share would be compiled to other code.
                .implementation("plain", |data| data.work(black_box(0)))
                .implementation("twin", |data| data.work(black_box(0)))
                .implementation("more2", |data| data.work(black_box(2)))
                .implementation("more5", |data| data.work(black_box(5)))
                .implementation("more10", |data| data.work(black_box(10)));
            let mut registry = ellwand::devices();
            suite.register(&mut registry);
            waits::register(&mut registry);
            ellwand::main(registry)
        }
    }
}

fn timed(data: &Data) -> u128 {
    let start = Instant::now();
    black_box(data.work(0));
    start.elapsed().as_nanos()
}

/// Prints the median time per iteration in nanoseconds for each amount of work, from bursts of 60 ms without their
/// first third.
#[allow(clippy::print_stdout, reason = "the answer of a command")]
fn plain_loop(kernel: &str) {
    let data = Data::new(kernel);
    // Enough iterations between two readings of the clock to make its cost negligible.
    let first = (0..20).map(|_| timed(&data)).min().unwrap_or(0);
    let at_once = (20_000 / first.max(1)).max(1);
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..4 {
        for (times, percent) in times.iter_mut().zip(PLANTED) {
            let start = Instant::now();
            let mut last = start;
            let mut burst = Vec::new();
            while burst.len() < 3 || start.elapsed().as_millis() < 60 {
                for _ in 0..at_once {
                    black_box(data.work(percent));
                }
                let now = Instant::now();
                burst.push((now - last).as_nanos() as f64 / at_once as f64);
                last = now;
            }
            times.extend(&burst[burst.len() / 3..]);
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    println!("{:?}", times.map(|times| times[times.len() / 2]));
}
