//! Work whose CPU time differs from its elapsed time: sleeps, locks, child processes and undeclared threads. Elapsed
//! time is what counts; a verdict by CPU time would be wrong for most of these pairs.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ellwand::Axis;
use ellwand::Registry;
use ellwand::suite;

/// Lengths of an iteration in microseconds.
pub(crate) const LENGTHS: [i64; 4] = [500, 1_000, 3_000, 12_000];

/// Candidates, each with the approximate ratio of its time to that of `plain`.
pub(crate) const CANDIDATES: [(&str, f64); 7] = [
    ("sleeps", 1.4),
    ("sleeps-less", 0.7),
    ("hidden-more", 1.5),
    ("hidden-less", 0.6),
    ("lock-more", 1.4),
    ("lock-less", 0.7),
    ("child", 1.3),
];

/// Approximate steps per microsecond. A constant, so that the work does not depend on timing.
const STEPS: u64 = 700;

fn compute(microseconds: f64) {
    let steps = (microseconds * STEPS as f64) as u64;
    std::hint::black_box((0..steps).fold(1_u64, |x, i| std::hint::black_box(x.wrapping_mul(i | 1))));
}

fn sleep(microseconds: f64) {
    std::thread::sleep(Duration::from_nanos((microseconds * 1e3) as u64));
}

/// Works on a thread unknown to Ellwand, and waits for it.
fn hidden(microseconds: f64) {
    std::thread::scope(|scope| {
        let _ = scope.spawn(|| compute(microseconds)).join();
    });
}

/// Waits for a lock while the thread that holds it works.
fn behind_a_lock(microseconds: f64) {
    let (lock, held) = (Mutex::new(()), Mutex::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = lock.lock();
            if let Ok(mut held) = held.lock() {
                *held = true;
            }
            compute(microseconds);
        });
        while held.lock().is_ok_and(|held| !*held) {
            std::thread::yield_now();
        }
        drop(lock.lock());
    });
}

/// Waits for a child process that sleeps.
fn child(microseconds: f64) {
    let seconds = format!("{:.6}", microseconds * 1e-6);
    let _ = Command::new("sleep").arg(seconds).stdout(Stdio::null()).status();
}

/// Registers the suite.
pub(crate) fn register(registry: &mut Registry) {
    suite("waits")
        .about("Work whose CPU time differs from its elapsed time")
        .axis(Axis::int("us", "length of an iteration", 1, 1_000_000, LENGTHS[0]).unit("us"))
        .input(|case, _| {
            // Scales sleeps to the speed of this machine.
            let start = Instant::now();
            compute(2_000.0);
            (case.usize("us") as f64, start.elapsed().as_secs_f64() / 2e-3)
        })
        .implementation("plain", |(us, _)| compute(*us))
        .implementation("sleeps", |(us, real)| {
            compute(0.5 * us);
            sleep(0.9 * us * real);
        })
        .implementation("sleeps-less", |(us, real)| {
            compute(0.1 * us);
            sleep((0.6 * us * real - 80.0).max(1.0));
        })
        .implementation("hidden-more", |(us, _)| hidden(1.5 * us))
        .implementation("hidden-less", |(us, _)| hidden((0.6 * us - 60.0).max(1.0)))
        .implementation("lock-more", |(us, _)| behind_a_lock(1.4 * us))
        .implementation("lock-less", |(us, _)| behind_a_lock((0.7 * us - 60.0).max(1.0)))
        .implementation("child", |(us, real)| child(1.3 * us * real))
        .register(registry);
}
