//! The processor as a device: its clocks and the counters the kernel keeps about us.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ellwand_core::InputError;
use ellwand_core::device::{CpuScope, Device, DeviceKind, Timing};
use ellwand_profile::Presence;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

use crate::environment;
use crate::flush::Flush;
use crate::sample::{COUNTED_EVERY, Counting};

/// The processor this program runs on.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    about: About,
    flush: Arc<Mutex<Flush>>,
}

#[derive(Debug, Clone)]
enum About {
    Text(String),
    Asked(fn() -> String),
}

impl Default for About {
    fn default() -> Self {
        About::Text(String::new())
    }
}

impl Cpu {
    /// The processor, described by what the system says of it.
    pub fn new(about: impl Into<String>) -> Self {
        Self { about: About::Text(about.into()), ..Self::default() }
    }

    /// The processor, described when somebody asks: a worker that nobody asks need not look.
    pub fn described(about: fn() -> String) -> Self {
        Self { about: About::Asked(about), ..Self::default() }
    }
}

/// Processor time spent so far by the scope; `None` where the system does not tell.
fn cpu_time_ns(scope: CpuScope) -> Option<u64> {
    let clock = match scope {
        CpuScope::Thread | CpuScope::ThreadBriefly => ClockId::CLOCK_THREAD_CPUTIME_ID,
        CpuScope::Process => ClockId::CLOCK_PROCESS_CPUTIME_ID,
    };
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Clocks of the threads of this process, the caller's left out.
///
/// The clock of the process adds up what the scheduler last wrote down for each thread, and for one that is running that may
/// be a tick (4 ms) ago: of a slot of 5 ms nearly half of what the other threads did was missing, and they looked idle.
/// Reading a thread's own clock makes the scheduler write down what it has done up to now, for the process's clock too.
#[derive(Default)]
struct Threads(Vec<ClockId>);

impl Threads {
    #[cfg(target_os = "linux")]
    fn others() -> Self {
        let me = nix::unistd::gettid().as_raw();
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Self::default() };
        let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
        // Linux's name of the clock of a thread (MAKE_THREAD_CPUCLOCK): its complement, and CPUCLOCK_SCHED for a thread.
        Self(ids.filter(|id| *id != me).map(|id| ClockId::from_raw((!id << 3) | 0b110)).collect())
    }

    #[cfg(not(target_os = "linux"))]
    fn others() -> Self {
        Self::default()
    }

    /// Brings the clock of the process up to now.
    fn settle(&self) {
        for clock in &self.0 {
            // A thread that has ended has settled its account.
            let _ = clock_gettime(*clock);
        }
    }
}

fn usage(scope: CpuScope) -> Option<Usage> {
    let who = match scope {
        CpuScope::Thread | CpuScope::ThreadBriefly => UsageWho::RUSAGE_THREAD,
        CpuScope::Process => UsageWho::RUSAGE_SELF,
    };
    getrusage(who).ok()
}

/// Processor time, in user and system, of all children that have ended and were waited for.
pub(crate) fn children_cpu_ns() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let time = |time: nix::sys::time::TimeVal| (time.tv_sec() as u64) * 1_000_000_000 + (time.tv_usec() as u64) * 1000;
    Some(time(usage.user_time()) + time(usage.system_time()))
}

/// Processor time of all threads of this process.
pub(crate) fn own_cpu_ns() -> Option<u64> {
    cpu_time_ns(CpuScope::Process)
}

/// What is read around a slot.
enum Around {
    /// Everything that the system counts, on both sides.
    Counters(Counters),
    /// The processor time before, and a mark that tells whether the thread kept its processor: if so, that is all.
    Mark { presence: Presence, cpu_ns: Option<u64> },
}

impl Around {
    fn before(scope: CpuScope) -> Self {
        let brief = if scope == CpuScope::ThreadBriefly { Presence::of_this_process() } else { None };
        match brief {
            Some(presence) => {
                // Reading the clock brings the scheduler's account up to date, at which it may take the processor away: the
                // mark comes after.
                let cpu_ns = cpu_time_ns(scope);
                presence.mark();
                Around::Mark { presence, cpu_ns }
            }
            None => Around::Counters(Counters::before(scope)),
        }
    }

    fn after(&self, scope: CpuScope, wall: Duration) -> Timing {
        match self {
            Around::Counters(before) => Counters::after(scope, before).since(before, wall),
            Around::Mark { presence, cpu_ns } => {
                // Nobody else ran in between: the thread's time is all the time there was.
                let alone = presence.holds();
                let cpu_ns = match (alone, cpu_ns) {
                    (_, None) => None,
                    (true, Some(_)) => Some(nanoseconds(wall)),
                    (false, Some(before)) => cpu_time_ns(scope).map(|after| after.saturating_sub(*before)),
                };
                let wall_ns = nanoseconds(wall);
                let waits = alone.then_some(0);
                Timing { wall_ns, cpu_ns, device_ns: None, switches: Some(u64::from(!alone)), faults: None, waits }
            }
        }
    }
}

/// What the system counts for a scope.
struct Counters {
    cpu_ns: Option<u64>,
    usage: Option<Usage>,
    threads: Threads,
}

impl Counters {
    /// Processor time is read innermost, so that the other system calls are not in it.
    fn before(scope: CpuScope) -> Self {
        let threads = if scope == CpuScope::Process { Threads::others() } else { Threads::default() };
        let usage = usage(scope);
        threads.settle();
        Self { usage, cpu_ns: cpu_time_ns(scope), threads }
    }

    /// Threads that began in between are in it as far as the scheduler has written down what they did.
    fn after(scope: CpuScope, before: &Self) -> Self {
        before.threads.settle();
        let cpu_ns = cpu_time_ns(scope);
        Self { cpu_ns, usage: usage(scope), threads: Threads::default() }
    }

    fn since(&self, before: &Self, wall: Duration) -> Timing {
        let counted = |of: fn(&Usage) -> i64| {
            let (before, after) = (before.usage.as_ref()?, self.usage.as_ref()?);
            Some(of(after).saturating_sub(of(before)).max(0) as u64)
        };
        Timing {
            wall_ns: nanoseconds(wall),
            cpu_ns: before.cpu_ns.zip(self.cpu_ns).map(|(before, after)| after.saturating_sub(before)),
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
        match &self.about {
            About::Text(text) => text.clone(),
            About::Asked(about) => about(),
        }
    }

    /// The two readings of the wall clock lie innermost, so that the cost of the system calls (0.5 to 1.7 us a slot) is not in them.
    fn time(&self, scope: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let before = Around::before(scope);
        let start = Instant::now();
        body();
        let wall = start.elapsed();
        before.after(scope, wall)
    }

    /// Between two parts lies one reading of the wall clock and nothing else; the system calls stand around the whole slot.
    fn time_parts(&self, scope: CpuScope, parts: u64, body: &mut dyn FnMut()) -> (Timing, Option<u64>) {
        let mut fastest = Duration::MAX;
        let before = Around::before(scope);
        let start = Instant::now();
        let mut last = start;
        for _ in 0..parts {
            body();
            let now = Instant::now();
            fastest = fastest.min(now - last);
            last = now;
        }
        let timing = before.after(scope, last - start);
        (timing, (parts > 0).then(|| nanoseconds(fastest)))
    }

    /// A pair of readings costs some 50 ns: at most half a per cent of such a part.
    fn finest_part_ns(&self) -> Option<u64> {
        Some(10_000)
    }

    fn flush_cache(&self) -> Result<(), InputError> {
        let mut flush = self.flush.lock().unwrap_or_else(PoisonError::into_inner);
        flush.run(&environment::caches).map_err(|problem| InputError::new("--caches", problem, "--caches warm"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What the clock costs and how fine it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// A pair of readings, in nanoseconds (median of many).
    pub cost_ns: f64,
    /// The step by which it goes on, in nanoseconds.
    pub step_ns: f64,
}

/// Measures the wall clock against itself.
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

/// The step of a clock of which any two readings that differ are so far apart. They are whole steps, rounded to nanoseconds, and
/// at least what a reading costs: a clock that goes on by 10 ns and takes 25 to read shows 20, 21, 30 and 31.
fn step_of(waits: &[u64]) -> f64 {
    let mut counts = std::collections::BTreeMap::new();
    for wait in waits {
        *counts.entry(*wait).or_insert(0_usize) += 1;
    }
    // What came between two readings tells nothing of the clock.
    let often: Vec<u64> =
        counts.iter().filter(|(_, count)| **count * 200 >= waits.len()).map(|(wait, _)| *wait).collect();
    // A step is rounded up or down: neighbours are the same number of steps.
    let groups: Vec<&[u64]> = often.chunk_by(|a, b| b - a <= 1).collect();
    let middle = |group: &&[u64]| group.iter().sum::<u64>() as f64 / group.len().max(1) as f64;
    match groups.as_slice() {
        // As good as any number of nanoseconds occurs.
        [group, ..] if group.len() > 2 => 1.0,
        [group, ..] => groups.windows(2).map(|pair| middle(&pair[1]) - middle(&pair[0])).fold(middle(group), f64::min),
        [] => counts.first_key_value().map_or(f64::NAN, |(least, _)| *least as f64),
    }
}

/// The step of the wall clock of this process's system, in nanoseconds; measured once.
pub(crate) fn clock_step_ns() -> f64 {
    static STEP: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *STEP.get_or_init(|| clock_quality().step_ns)
}

/// What taking one slot costs beside what runs in it, in nanoseconds: the readings of the wall clock, of the processor time
/// before, and of the mark after, of a slot cut into as many `parts`, and its share of what [`Counting`] counts now and then.
/// Where there are no marks, and in slots that were disturbed, all system calls are made. Median of many slots in which nothing
/// runs, timed from outside; no time of any sample holds more of it than one reading of the wall clock a part.
pub fn slot_cost_ns(device: &dyn Device, parts: u64) -> f64 {
    let mut costs = Vec::new();
    for _ in 0..200 {
        let mut counting = Counting::every_now_and_then();
        let start = Instant::now();
        for _ in 0..COUNTED_EVERY {
            let scope = counting.scope(CpuScope::Thread, 0);
            let mut nothing = || {
                std::hint::black_box(());
            };
            let timing = if parts > 1 {
                device.time_parts(scope, parts, &mut nothing).0
            } else {
                device.time(scope, &mut nothing)
            };
            counting.saw(&timing);
        }
        costs.push(start.elapsed().as_nanos() as f64 / f64::from(COUNTED_EVERY));
    }
    ellwand_core::stats::median(&costs).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_body_costs_processor_time_and_runs_once() {
        let mut runs = 0;
        let timing = Cpu::new("test").time(CpuScope::Thread, &mut || {
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
    fn the_step_of_a_clock_is_told_from_what_lies_between_its_readings() {
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
    fn brief_readings_tell_work_from_sleep_as_the_full_ones_do() {
        let cpu = Cpu::new("test");
        let mut work = || {
            std::hint::black_box((0..200_000_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1))));
        };
        let mut alike = [0; 2];
        for _ in 0..20 {
            let [brief, full] = [CpuScope::ThreadBriefly, CpuScope::Thread].map(|scope| cpu.time(scope, &mut work));
            for (count, timing) in alike.iter_mut().zip([brief, full]) {
                let cpu_ns = timing.cpu_ns.unwrap();
                assert!(cpu_ns > 0, "{timing:?}");
                // A reading stands inside the other kind's wall time by no more than its own cost, unless a neighbour comes
                // between the two readings.
                *count += u32::from(cpu_ns <= timing.wall_ns + 50_000);
            }
            assert!(full.faults.is_some() && full.waits.is_some());
            assert!(brief.switches != Some(0) || brief.waits == Some(0), "{brief:?}");
        }
        assert!(alike.iter().all(|count| *count >= 5), "{alike:?}");
        let asleep = cpu.time(CpuScope::ThreadBriefly, &mut || std::thread::sleep(Duration::from_millis(20)));
        assert!(asleep.cpu_ns.unwrap() < asleep.wall_ns / 2, "{asleep:?}");
        assert_ne!(asleep.waits, Some(0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_another_thread_does_is_counted_while_it_still_runs() {
        use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
        // Well below a tick of the scheduler, and no system call in it: those would bring its account up to date.
        let work = || (0..200_000_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1)));
        let cost = || {
            Cpu::new("test").time(CpuScope::Thread, &mut || assert_ne!(std::hint::black_box(work()), 0)).cpu_ns.unwrap()
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
                    let timing = Cpu::new("test").time(CpuScope::Process, &mut || {
                        asked.store(round, SeqCst);
                        // Asleep, so that what is counted is the other's.
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
    fn parts_run_as_often_as_asked_and_the_fastest_is_no_slower_than_the_mean() {
        let mut runs = 0;
        let (timing, fastest) = Cpu::new("test").time_parts(CpuScope::Thread, 7, &mut || {
            runs += 1;
            std::hint::black_box((0..10_000_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1))));
        });
        assert_eq!(runs, 7);
        assert!(7 * fastest.unwrap() <= timing.wall_ns, "{fastest:?} of {timing:?}");
    }

    #[test]
    fn touching_fresh_pages_counts_faults() {
        let timing = Cpu::new("test").time(CpuScope::Thread, &mut || {
            let fresh = vec![0_u8; 256 << 20];
            // One write a page of a mapping that the allocator took from the system: at least a huge page each 2 MiB faults.
            let mut fresh = std::hint::black_box(fresh);
            for at in (0..fresh.len()).step_by(4096) {
                fresh[at] = 1;
            }
            std::hint::black_box(&fresh);
        });
        assert!(timing.faults.unwrap() >= 128, "{timing:?}");
    }
}
