//! `wake`: a job with one piece per thread, in which each thread waits for the others: the time until all threads of a
//! pool are running.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ellwand_core::{
    Axis, Case, Description, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Registry, Tensor,
    Tensors, Tolerance, Work, Workload,
};

use ellwand_simd::pool;

/// How long a thread waits for the others before it gives up; the answer is then wrong, and no time is reported.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause after which all threads are asleep: five times as long as they spin for work.
const SLEEP: Duration = Duration::from_micros(500);

struct Wake(Description);

impl Workload for Wake {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        1 << 20
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new())
    }
    fn reference(&self, case: &Case, _: &Tensors) -> Result<Tensors, InputError> {
        let sum = (0..case.count("elements", 0)).map(|i| i as u64).sum::<u64>() * pool::threads() as u64;
        Ok(Tensors::new().with("sum", Tensor::vector(&[pool::threads() as u64, sum][..])))
    }
    fn work(&self, case: &Case) -> Work {
        Work::items("wake-ups", 1).flops((case.count("elements", 0) * pool::threads()) as f64)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

struct Ready {
    sleep: bool,
    elements: usize,
    met: u64,
    sum: u64,
}

impl Prepared for Ready {
    fn load(&mut self, _: u64) {
        if self.sleep {
            std::thread::sleep(SLEEP);
        }
    }
    fn most_iterations(&self) -> u64 {
        if self.sleep { 1 } else { u64::MAX }
    }
    fn run(&mut self) {
        let threads = pool::threads();
        let (here, sum, elements) = (AtomicUsize::new(0), AtomicUsize::new(0), self.elements);
        let piece = |_: usize| {
            here.fetch_add(1, Ordering::SeqCst);
            let mine = (0..elements).fold(0, |sum, i| sum + std::hint::black_box(i));
            sum.fetch_add(mine, Ordering::Relaxed);
            meet(&here, threads);
        };
        pool::for_each_chunk(threads, piece);
        (self.met, self.sum) = (here.into_inner() as u64, sum.into_inner() as u64);
    }
    fn poison(&mut self, poison: Poison) {
        (self.met, self.sum) = (poison.value(), poison.value());
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("sum", Tensor::vector(&[self.met, self.sum][..])))
    }
    fn what_ran(&self) -> String {
        format!("spin, then park, {}", pool::about(pool::threads(), "chunks"))
    }
}

/// Spins until `all` threads have arrived. A thread that gives up makes the count too large, which fails the check.
fn meet(here: &AtomicUsize, all: usize) {
    let mut start = None;
    loop {
        for _ in 0..64 {
            if here.load(Ordering::SeqCst) >= all {
                return;
            }
            std::hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            here.fetch_add(all, Ordering::SeqCst);
        }
    }
}

pub(super) fn register(registry: &mut Registry) {
    let after = Axis::choice("after", "what precedes the job", &["job", "sleep"], "job").sweep(["job", "sleep"]);
    let elements = Axis::int("elements", "additions that each thread does before it waits", 0, 1 << 20, 0);
    let about = "one piece of work per thread, each waiting for the others: the time until all threads are running";
    let description = Description::new("wake", about).group("calibration").axes(vec![after, elements]);
    registry.workload(Wake(description.baseline("team")));
    let prepared = |case: &Case, _: &Tensors, _: &dyn ellwand_core::Device| {
        if pool::threads() < 2 {
            return Err(PrepareError::Unsupported(
                "this process may use one processor only: there is no thread to wake".into(),
            ));
        }
        let sleep = case.text("after") == Some("sleep");
        Ok(Box::new(Ready { sleep, elements: case.count("elements", 0), met: 0, sum: 0 }) as Box<dyn Prepared>)
    };
    let about = "the team that spins before it sleeps";
    registry.implementation(Implementation::cpu("wake", "team", about, prepared).many_threads());
}
