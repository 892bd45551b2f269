//! The CPU as a device: its clocks, and the kernel's counters for this process.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ellwand_core::InputError;
use ellwand_core::device::{CpuScope, Device, DeviceKind, Part, Timing};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

use crate::environment;
use crate::flush::Flush;

/// The CPU this program runs on.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    about: Option<fn() -> String>,
    flush: Arc<Mutex<Flush>>,
}

impl Cpu {
    /// A CPU whose description is computed on demand, because most workers never need it.
    pub fn described(about: fn() -> String) -> Self {
        Self { about: Some(about), ..Self::default() }
    }
}

/// CPU time used so far in `scope`; `None` if the system does not report it.
fn cpu_time_ns(scope: CpuScope) -> Option<u64> {
    let clock = match scope {
        CpuScope::Thread => ClockId::CLOCK_THREAD_CPUTIME_ID,
        CpuScope::Process => ClockId::CLOCK_PROCESS_CPUTIME_ID,
    };
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// CPU clocks of all threads of this process except the caller.
///
/// The process clock sums what the scheduler last recorded for each thread, which for a running thread can be a tick (4
/// ms) old. A 5 ms slot can miss nearly half of what the other threads did, so they look idle. Reading a thread's own
/// clock makes the scheduler bring its record up to date, which also updates the process clock.
#[derive(Default)]
struct Threads(Vec<ClockId>);

impl Threads {
    fn others() -> Self {
        let me = nix::unistd::gettid().as_raw();
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Self::default() };
        let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
        // Linux's clock id of a thread (MAKE_THREAD_CPUCLOCK): the complement of its id, and CPUCLOCK_SCHED per thread.
        Self(ids.filter(|id| *id != me).map(|id| ClockId::from_raw((!id << 3) | 0b110)).collect())
    }

    /// Brings the process clock up to date.
    fn settle(&self) {
        for clock in &self.0 {
            // An error means that the thread has ended, so its time is already recorded.
            let _ = clock_gettime(*clock);
        }
    }
}

fn usage(scope: CpuScope) -> Option<Usage> {
    let who = match scope {
        CpuScope::Thread => UsageWho::RUSAGE_THREAD,
        CpuScope::Process => UsageWho::RUSAGE_SELF,
    };
    getrusage(who).ok()
}

/// User and system CPU time of all children that have ended and been waited for.
pub(crate) fn children_cpu_ns() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let time = |time: nix::sys::time::TimeVal| (time.tv_sec() as u64) * 1_000_000_000 + (time.tv_usec() as u64) * 1000;
    Some(time(usage.user_time()) + time(usage.system_time()))
}

/// CPU time of all threads of this process.
pub(crate) fn own_cpu_ns() -> Option<u64> {
    cpu_time_ns(CpuScope::Process)
}

/// Counters of a scope, read before and after a slot.
struct Counters {
    /// CPU time of the scope, read next to the slot, so that it does not include the other system calls.
    cpu_ns: Option<u64>,
    process_ns: Option<u64>,
    /// CPU time of the calling thread, read outside that of the process. The calls between the two then count as the
    /// caller's, never as another thread's.
    caller_ns: Option<u64>,
    usage: Option<Usage>,
}

impl Counters {
    fn before(scope: CpuScope, threads: &Threads) -> Self {
        let usage = usage(scope);
        let caller_ns = cpu_time_ns(CpuScope::Thread);
        threads.settle();
        let process_ns = cpu_time_ns(CpuScope::Process);
        let cpu_ns = if scope == CpuScope::Process { process_ns } else { cpu_time_ns(CpuScope::Thread) };
        Self { cpu_ns, process_ns, caller_ns, usage }
    }

    /// For threads started during the slot, the time is only as recent as the scheduler's record.
    fn after(scope: CpuScope, threads: &Threads) -> Self {
        let own_ns = if scope == CpuScope::Thread { cpu_time_ns(CpuScope::Thread) } else { None };
        threads.settle();
        let process_ns = cpu_time_ns(CpuScope::Process);
        let caller_ns = cpu_time_ns(CpuScope::Thread);
        let cpu_ns = if scope == CpuScope::Process { process_ns } else { own_ns };
        Self { cpu_ns, process_ns, caller_ns, usage: usage(scope) }
    }

    fn since(&self, before: &Self, wall: Duration) -> Timing {
        let counted = |of: fn(&Usage) -> i64| {
            let (before, after) = (before.usage.as_ref()?, self.usage.as_ref()?);
            Some(of(after).saturating_sub(of(before)).max(0) as u64)
        };
        let spent = |of: fn(&Self) -> Option<u64>| Some(of(self)?.saturating_sub(of(before)?));
        let (process_ns, caller_ns) = (spent(|counters| counters.process_ns), spent(|counters| counters.caller_ns));
        Timing {
            wall_ns: nanoseconds(wall),
            cpu_ns: spent(|counters| counters.cpu_ns),
            others_ns: process_ns.zip(caller_ns).map(|(all, own)| all.saturating_sub(own)),
            device_ns: None,
            switches: counted(Usage::involuntary_context_switches),
            faults: counted(Usage::minor_page_faults),
            waits: counted(Usage::voluntary_context_switches),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Device for Cpu {
    fn id(&self) -> &str {
        "cpu"
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn about(&self) -> String {
        self.about.map(|about| about()).unwrap_or_default()
    }

    fn time(&self, scope: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let mut only = |part| {
            if part == Part::Timed {
                body();
            }
        };
        self.time_parts(scope, 1, &mut only).0
    }

    /// The wall clock is read innermost, so no time includes the system calls (about 3 us per slot). Nothing slower
    /// lies between the head and the timed parts.
    fn time_parts(&self, scope: CpuScope, parts: u64, body: &mut dyn FnMut(Part)) -> (Timing, Vec<u64>) {
        let mut ends = Vec::with_capacity(usize::try_from(parts).unwrap_or(0));
        let threads = if scope == CpuScope::Process { Threads::others() } else { Threads::default() };
        body(Part::Head);
        let before = Counters::before(scope, &threads);
        let start = Instant::now();
        for _ in 0..parts {
            body(Part::Timed);
            ends.push(Instant::now());
        }
        let after = Counters::after(scope, &threads);
        let last = ends.last().copied().unwrap_or(start);
        let starts = std::iter::once(&start).chain(&ends);
        let took = ends.iter().zip(starts).map(|(end, start)| nanoseconds(*end - *start)).collect();
        (after.since(&before, last - start), took)
    }

    /// A pair of readings costs about 50 ns: at most 0.5 % of a part of this length.
    fn finest_part_ns(&self) -> Option<u64> {
        Some(10_000)
    }

    fn flush_cache(&self) -> Result<(), InputError> {
        let mut flush = self.flush.lock().unwrap_or_else(PoisonError::into_inner);
        flush.run(&environment::caches).map_err(|error| InputError::setting("caches", error.to_string(), "warm"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Cost and resolution of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// Cost of a pair of readings, in nanoseconds (median of many).
    pub cost_ns: f64,
    /// Step of the clock, in nanoseconds.
    pub step_ns: f64,
}

/// Measures the wall clock with itself.
pub fn clock_quality() -> ClockQuality {
    const PAIRS: u32 = 64;
    let (mut costs, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..PAIRS {
            std::hint::black_box(Instant::now());
            std::hint::black_box(Instant::now());
        }
        costs.push(start.elapsed().as_nanos() as f64 / f64::from(PAIRS));
        for _ in 0..PAIRS {
            let before = Instant::now();
            let mut after = Instant::now();
            while after == before {
                after = Instant::now();
            }
            waits.push(nanoseconds(after - before));
        }
    }
    ClockQuality { cost_ns: ellwand_core::stats::median(&costs).unwrap_or(f64::NAN), step_ns: step_of(&waits) }
}

/// Finds the step of a clock from the differences between successive, distinct readings. A difference is a whole number
/// of steps, rounded to nanoseconds, and at least the cost of a reading: with a step of 10 ns and a cost of 25 ns, the
/// differences are 20, 21, 30 and 31.
fn step_of(waits: &[u64]) -> f64 {
    let mut waits = waits.to_vec();
    waits.sort_unstable();
    // Drop rare differences: they come from interruptions, not from the clock.
    let equal = waits.chunk_by(|a, b| a == b).filter(|equal| equal.len() * 200 >= waits.len());
    let often: Vec<u64> = equal.map(|equal| equal[0]).collect();
    // Rounding can go either way, so adjacent values are the same number of steps.
    let groups: Vec<&[u64]> = often.chunk_by(|a, b| b - a <= 1).collect();
    let middle = |group: &&[u64]| group.iter().sum::<u64>() as f64 / group.len().max(1) as f64;
    match groups.as_slice() {
        // Every number of nanoseconds occurs, so the step is at most 1 ns.
        [group, ..] if group.len() > 2 => 1.0,
        [group, ..] => groups.windows(2).map(|pair| middle(&pair[1]) - middle(&pair[0])).fold(middle(group), f64::min),
        [] => waits.first().map_or(f64::NAN, |least| *least as f64),
    }
}

/// Step of the wall clock, in nanoseconds; measured once per process.
pub(crate) fn clock_step_ns() -> f64 {
    static STEP: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *STEP.get_or_init(|| clock_quality().step_ns)
}

/// Overhead of taking a slot cut into `parts`, in nanoseconds: the clock and counter readings around it. Median over
/// many empty slots, timed from outside. A sample's time contains no more of this than one wall-clock reading per part.
pub fn slot_cost_ns(device: &dyn Device, parts: u64) -> f64 {
    const SLOTS: u32 = 64;
    let mut nothing = |part| {
        std::hint::black_box(part);
    };
    let mut costs = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        for _ in 0..SLOTS {
            std::hint::black_box(device.time_parts(CpuScope::Thread, parts, &mut nothing));
        }
        costs.push(start.elapsed().as_nanos() as f64 / f64::from(SLOTS));
    }
    ellwand_core::stats::median(&costs).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_body_costs_processor_time_and_runs_once() {
        let mut runs = 0;
        let timing = Cpu::default().time(CpuScope::Thread, &mut || {
            runs += 1;
            let mut x = 1_u64;
            for i in 0..200_000_u64 {
                x = std::hint::black_box(x.wrapping_mul(i | 1));
            }
        });
        assert_eq!(runs, 1);
        assert!(timing.wall_ns > 0 && timing.cpu_ns.unwrap() > 0, "{timing:?}");
        assert!(timing.switches.is_some() && timing.faults.is_some() && timing.device_ns.is_none());
    }

    #[test]
    fn the_step_of_a_clock_is_separated_from_the_cost_of_reading_it() {
        let of = |groups: &[(u64, usize)]| {
            let waits: Vec<u64> = groups.iter().flat_map(|(wait, count)| vec![*wait; *count]).collect();
            step_of(&waits)
        };
        assert_eq!(
            of(&[(20, 680), (21, 20), (30, 290), (31, 14)]),
            10.0,
            "coarser than a nanosecond, finer than a reading"
        );
        assert_eq!(of(&[(41, 300), (42, 300), (83, 200), (84, 100)]), 41.5, "of 24 MHz");
        assert_eq!(of(&[(18, 100), (19, 300), (20, 200), (21, 150), (40, 20)]), 1.0);
        assert_eq!(of(&[(100, 1000), (7, 1), (31_000, 1)]), 100.0, "and what came between is not the clock's");
        assert!(of(&[]).is_nan());
        let here = clock_quality();
        assert!(here.step_ns >= 1.0 && here.step_ns <= 1e6 && here.cost_ns > 0.0, "{here:?}");
    }

    #[test]
    fn sleep_is_distinguished_from_work() {
        let cpu = Cpu::default();
        let asleep = cpu.time(CpuScope::Thread, &mut || std::thread::sleep(Duration::from_millis(20)));
        assert!(asleep.cpu_ns.unwrap() < asleep.wall_ns / 2, "{asleep:?}");
        assert_ne!(asleep.waits, Some(0));
    }

    #[test]
    fn reading_the_clocks_is_no_work_of_other_threads() {
        for scope in [CpuScope::Thread, CpuScope::Process] {
            let least = (0..1000).map(|_| Cpu::default().time(scope, &mut || ()).others_ns.unwrap()).min();
            assert_eq!(least, Some(0), "{scope:?}");
        }
    }

    #[test]
    fn work_of_hidden_threads_is_counted_separately() {
        let work = || {
            std::hint::black_box((0..30_000_000_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1))));
        };
        let cpu = Cpu::default();
        let hidden = cpu.time(CpuScope::Thread, &mut || std::thread::spawn(work).join().unwrap());
        assert!(hidden.others_ns.unwrap() > hidden.cpu_ns.unwrap(), "{hidden:?}");
        let all = cpu.time(CpuScope::Process, &mut || std::thread::spawn(work).join().unwrap());
        assert!(
            all.others_ns.unwrap() <= all.cpu_ns.unwrap() && all.others_ns > all.cpu_ns.map(|ns| ns / 2),
            "{all:?}"
        );
        let own = cpu.time(CpuScope::Thread, &mut || work());
        assert!(own.cpu_ns.unwrap() > hidden.cpu_ns.unwrap(), "{own:?}");
    }

    #[test]
    fn work_of_another_thread_is_counted_while_it_still_runs() {
        use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
        // Well below a scheduler tick, and without system calls, which would update the scheduler's record.
        let work = || (0..200_000_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1)));
        let cost = || {
            Cpu::default().time(CpuScope::Thread, &mut || assert_ne!(std::hint::black_box(work()), 0)).cpu_ns.unwrap()
        };
        let least = (0..10).map(|_| cost()).min().unwrap();
        let (asked, done) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=20 {
                    while asked.load(SeqCst) < round {
                        std::hint::spin_loop();
                    }
                    std::hint::black_box(work());
                    done.store(round, SeqCst);
                }
            });
            let seen: Vec<u64> = (1..=20)
                .map(|round| {
                    let timing = Cpu::default().time(CpuScope::Process, &mut || {
                        asked.store(round, SeqCst);
                        // Asleep, so that only the other thread's time counts.
                        while done.load(SeqCst) < round {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    });
                    timing.cpu_ns.unwrap()
                })
                .collect();
            assert!(seen.iter().all(|seen| *seen >= least / 2), "{seen:?}, at least {least} each");
        });
    }

    #[test]
    fn the_lead_and_all_parts_run_and_the_parts_make_up_the_slot() {
        let mut runs = Vec::new();
        let (timing, parts) = Cpu::default().time_parts(CpuScope::Thread, 7, &mut |part| {
            runs.push(part);
            std::hint::black_box((0..10_000_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1))));
        });
        assert_eq!((runs[0], runs[1..].to_vec(), parts.len()), (Part::Head, vec![Part::Timed; 7], 7));
        assert_eq!(parts.iter().sum::<u64>(), timing.wall_ns);
    }

    #[test]
    fn touching_fresh_pages_counts_faults() {
        let timing = Cpu::default().time(CpuScope::Thread, &mut || {
            let fresh = vec![0_u8; 256 << 20];
            // One write per page of a fresh mapping: at least one fault per 2 MiB huge page.
            let mut fresh = std::hint::black_box(fresh);
            for at in (0..fresh.len()).step_by(4096) {
                fresh[at] = 1;
            }
            std::hint::black_box(&fresh);
        });
        assert!(timing.faults.unwrap() >= 128, "{timing:?}");
    }
}
