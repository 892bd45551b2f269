//! Processor time of small pieces of work, interleaved in one process: each round runs every variant in an order drawn
//! anew, on one thread or on several at the same time.

use ellwand_profile::clock::ticks;

/// A piece of work.
pub struct Variant {
    /// Its row in the table.
    pub name: &'static str,
    /// Runs it the given number of times; returns the processor time of this thread in nanoseconds.
    pub run: fn() -> f64,
}

/// CPU time of this thread in nanoseconds.
pub fn cpu_ns() -> f64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(f64::NAN, |time| time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

/// CPU time of `times` calls in nanoseconds.
pub fn timed(times: usize, mut body: impl FnMut()) -> f64 {
    let start = cpu_ns();
    (0..times).for_each(|_| body());
    cpu_ns() - start
}

/// Median over the rounds of each variant, in nanoseconds of one of the `times` calls that it makes.
pub fn measure(variants: &[Variant], times: usize, threads: usize, rounds: usize) -> Vec<f64> {
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); variants.len()];
    // A small generator suffices: the order must not favour any variant, but it need not be secret.
    let mut state = ticks() | 1;
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        for variant in order {
            let run = variants[variant].run;
            let spent: f64 = if threads == 1 {
                run()
            } else {
                std::thread::scope(|scope| {
                    let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                    all.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum()
                })
            };
            found[variant].push(spent / (threads * times) as f64);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    found.iter_mut().map(median).collect()
}
