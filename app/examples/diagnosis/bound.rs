//! `tiny` and `contended-lock`: workloads with a known limit, which only test the diagnosis.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use ellwand::internals::core::{
    Axis, Case, Description, Device, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Registry,
    Tensor, Tensors, Tolerance, Work, Workload,
};
use ellwand_simd::pool;

/// How long a thread waits for the others before it gives up; the answer is then wrong, and no time is reported.
const PATIENCE: Duration = Duration::from_secs(2);

/// `tiny`: adds a few numbers in a function that the compiler cannot inline.
struct Tiny(Description);

impl Workload for Tiny {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        1 << 16
    }
    fn inputs(&self, case: &Case, _: u64) -> Result<Tensors, InputError> {
        let x: Vec<f32> = (0..case.count("elements", 1)).map(|i| i as f32).collect();
        Ok(Tensors::new().with("x", Tensor::vector(&x[..])))
    }
    fn reference(&self, _: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let sum = inputs.f32("x")?.iter().map(|x| f64::from(*x)).sum::<f64>() as f32;
        Ok(Tensors::new().with("sum", Tensor::vector(&[sum][..])))
    }
    fn work(&self, case: &Case) -> Work {
        let n = case.count("elements", 1) as u64;
        Work::items("elements", n).flops(n as f64).bytes(4 * n, 4)
    }
}

struct TinyReady {
    x: Tensor,
    add: fn(&[f32]) -> f32,
    sum: f32,
}

fn add(x: &[f32]) -> f32 {
    x.iter().sum()
}

impl Prepared for TinyReady {
    fn run(&mut self) {
        if let Ok(x) = self.x.f32() {
            self.sum = black_box(self.add)(x);
        }
    }
    fn poison(&mut self, poison: Poison) {
        self.sum = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("sum", Tensor::vector(&[self.sum][..])))
    }
}

/// `contended-lock`: all threads repeatedly take the same lock and do a little work under it.
struct Lock(Description);

/// Steps of a dependent chain under the lock: enough that the other threads wait for it.
const HELD: usize = 200;

impl Workload for Lock {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        1 << 16
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new())
    }
    fn reference(&self, case: &Case, _: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("taken", Tensor::vector(&[(case.count("takes", 1) * pool::threads()) as u64][..])))
    }
    fn work(&self, case: &Case) -> Work {
        Work::items("takes", (case.count("takes", 1) * pool::threads()) as u64)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

/// The data that the lock protects.
#[derive(Default)]
struct Guarded {
    taken: u64,
    state: u64,
}

impl Guarded {
    /// A chain of dependent steps, done under the lock.
    fn work(&mut self) {
        self.taken += 1;
        self.state = (0..HELD).fold(self.state | 1, |x, _| black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1));
    }
}

fn lock(guarded: &Mutex<Guarded>) -> MutexGuard<'_, Guarded> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Any thread takes the lock next. Waiters spin for longer than the lock is held, so on a quiet machine no thread may
/// ever sleep; and while the other thread has no processor, no thread waits. So there is no known answer to test the
/// diagnosis against.
fn any_thread(guarded: &Mutex<Guarded>, takes: usize) {
    pool::for_each_chunk(pool::threads(), |_| (0..takes).for_each(|_| lock(guarded).work()));
}

/// The lock passes from thread to thread in a fixed order, as fair locks do, and waiters sleep at once: each take waits
/// for all other threads, whatever the load of the machine.
fn in_turn(guarded: &Mutex<Guarded>, takes: usize) {
    let threads = pool::threads();
    let (turn, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let sleepers: Vec<OnceLock<Thread>> = (0..threads).map(|_| OnceLock::new()).collect();
    let wake = |who: usize| {
        // With the fence below, either this thread sees the sleeper, or the sleeper sees its turn.
        fence(Ordering::SeqCst);
        if let Some(sleeper) = sleepers[who].get() {
            sleeper.unpark();
        }
    };
    pool::for_each_chunk(threads, |me| {
        let _ = sleepers[me].set(std::thread::current());
        fence(Ordering::SeqCst);
        for _ in 0..takes {
            let start = Instant::now();
            while turn.load(Ordering::Acquire) != me && !over.load(Ordering::Acquire) {
                std::thread::park_timeout(PATIENCE);
                // If one thread has to do all pieces, the turns never come round: the answer is then wrong, and no time
                // is reported.
                over.fetch_or(start.elapsed() > PATIENCE && turn.load(Ordering::Acquire) != me, Ordering::AcqRel);
            }
            if over.load(Ordering::Acquire) {
                return (0..threads).for_each(wake);
            }
            lock(guarded).work();
            let next = (me + 1) % threads;
            turn.store(next, Ordering::Release);
            wake(next);
        }
    });
}

struct LockReady {
    takes: usize,
    way: fn(&Mutex<Guarded>, usize),
    taken: u64,
}

impl Prepared for LockReady {
    fn run(&mut self) {
        let guarded = Mutex::new(Guarded::default());
        (self.way)(&guarded, self.takes);
        self.taken = guarded.into_inner().unwrap_or_else(PoisonError::into_inner).taken;
    }
    fn poison(&mut self, poison: Poison) {
        self.taken = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("taken", Tensor::vector(&[self.taken][..])))
    }
    fn what_ran(&self) -> String {
        pool::about(pool::threads(), "steps")
    }
}

pub(super) fn register(registry: &mut Registry) {
    let elements = Axis::int("elements", "numbers to add", 1, 1 << 16, 4).sweep([1_i64, 4, 16]);
    let about = "the sum of a few numbers: the call costs more than the work";
    let description = Description::new("tiny", about).group("calibration").axes(vec![elements]);
    registry.workload(Tiny(description.baseline("call")));
    registry.implementation(Implementation::cpu("tiny", "call", "through a pointer to a function", |_, inputs, _| {
        Ok(Box::new(TinyReady { x: inputs.get("x")?.clone(), add, sum: 0.0 }))
    }));
    let takes =
        Axis::int("takes", "times that each thread takes the lock", 1, 1 << 24, 1000).sweep([300_i64, 1000, 10_000]);
    let about = "all threads work under one lock: they wait for each other";
    let description = Description::new("contended-lock", about).group("calibration").axes(vec![takes]);
    registry.workload(Lock(description.baseline("mutex")));
    let mut add = |name: &str, about: &str, way: fn(&Mutex<Guarded>, usize)| {
        let prepared = move |case: &Case, _: &Tensors, _: &dyn Device| {
            if pool::threads() < 2 {
                let why = "this process may use one processor only: there is no contention";
                return Err(PrepareError::Unsupported(why.into()));
            }
            Ok(Box::new(LockReady { takes: case.count("takes", 1), way, taken: 0 }) as Box<dyn Prepared>)
        };
        registry.implementation(Implementation::cpu("contended-lock", name, about, prepared).many_threads());
    };
    add("mutex", "the lock of the standard library", any_thread);
    add("in-turn", "handed from thread to thread in a fixed order", in_turn);
}
