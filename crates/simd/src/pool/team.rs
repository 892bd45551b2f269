//! A team of threads for short work: spin for a while, then park.
//!
//! A thread that sleeps in the kernel takes tens of microseconds to wake, and longer on a virtual machine whose
//! processor was halted. A member that has finished therefore looks for work for a bounded time ([`SPIN`]) before it
//! sleeps. Rayon wakes its threads through the kernel more often, and its caller must hand over the work and sleep;
//! here the caller takes part.
//!
//! One job runs at a time. Pieces are distributed dynamically, so a preempted processor delays only its own piece. Once
//! all pieces are done, invitations that no member has accepted are withdrawn: on a busy machine the caller does all
//! the work instead of waiting for a thread that the scheduler does not run.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a member looks for work before it sleeps. Longer than the gap between two operations of a model; short
/// enough not to matter to a program that continues in one thread.
const SPIN: Duration = Duration::from_micros(100);

/// How long the caller spins before it sleeps while members finish their last piece.
const LAST_PIECES: Duration = Duration::from_micros(50);

/// Checks between two clock readings while spinning.
const LOOKS: u32 = 32;

thread_local! {
    /// The largest number of pieces in any job of this thread since [`most_threads`] began, limited by the allowed
    /// threads; for a rayon pool, whose pieces are unknown, its number of threads.
    static WIDEST: Cell<usize> = const { Cell::new(0) };
}

/// Runs `run` and also returns the maximum number of threads that can have taken part in its jobs: there may be fewer
/// pieces than threads.
pub fn most_threads<T>(run: impl FnOnce() -> T) -> (T, usize) {
    WIDEST.set(1);
    let returned = run();
    (returned, WIDEST.get().clamp(1, super::threads()))
}

/// Counts a job of this many pieces.
pub(super) fn count(pieces: usize) {
    WIDEST.set(WIDEST.get().max(pieces));
}

/// Calls `work(i)` once for each `i` below `pieces`, on all processors available to this process. The calling thread
/// takes part, pieces are distributed dynamically, and all are done on return.
///
/// If called from inside a piece, or while another thread uses the team, the calling thread does all pieces itself. A
/// panic in a piece stops the distribution and resumes in the caller once no other thread is working.
pub fn for_each_chunk(pieces: usize, work: impl Fn(usize) + Sync) {
    for_each_chunk_on(usize::MAX, pieces, work);
}

/// As [`for_each_chunk`] on at most `threads` threads, including the caller.
pub fn for_each_chunk_on(threads: usize, pieces: usize, work: impl Fn(usize) + Sync) {
    static TEAM: OnceLock<Team> = OnceLock::new();
    count(pieces.min(threads));
    if pieces <= 1 || threads <= 1 {
        return (0..pieces).for_each(work);
    }
    TEAM.get_or_init(Team::assemble).run(threads, pieces, &work);
}

/// The work of a team. Stored on the stack of the caller, who stays until no member uses it any more.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    pieces: usize,
    /// The next piece that no thread has taken.
    next: AtomicUsize,
    /// Invited members that have neither finished nor lost their invitation.
    members: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Thread,
}

impl Job<'_> {
    /// Does pieces until none is left.
    fn take_part(&self) {
        let done = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let piece = self.next.fetch_add(1, Ordering::Relaxed);
                if piece >= self.pieces {
                    break;
                }
                (self.work)(piece);
            }
        }));
        if let Err(cause) = done {
            self.next.store(self.pieces, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
        }
    }
}

/// The shared state of one member. Aligned to two cache lines, because CPUs prefetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Member {
    /// The job that it is invited to; null if none.
    invitation: AtomicPtr<Job<'static>>,
    asleep: AtomicBool,
    /// Set before the first invitation.
    thread: OnceLock<Thread>,
    /// The processor that it is pinned to.
    home: Option<usize>,
}

struct Team {
    members: &'static [Member],
    /// Maximum number of members that one job needs: one less than the number of threads, because the caller works too.
    helpers: usize,
    busy: AtomicBool,
}

impl Team {
    /// Starts one thread per processor. The one on the caller's processor stays asleep, so a caller that the scheduler
    /// moves never shares its processor with a member.
    fn assemble() -> Self {
        let (processors, threads) = (super::processors(), super::threads());
        let homes: Vec<Option<usize>> = match processors.len() {
            // The processors are unknown, or a quota allows fewer threads than processors: do not pin.
            n if n != threads => vec![None; threads - 1],
            1 => Vec::new(),
            _ => processors.into_iter().map(Some).collect(),
        };
        // The members live as long as their threads, which live as long as the process.
        let members: &'static [Member] =
            homes.into_iter().map(|home| Member { home, ..Member::default() }).collect::<Vec<_>>().leak();
        for (index, member) in members.iter().enumerate() {
            let started = std::thread::Builder::new().name(format!("ellwand-team-{index}")).spawn(|| member.live());
            // If no thread can be started, the member is never invited and the others do its share.
            if let Ok(handle) = started {
                let _ = member.thread.set(handle.thread().clone());
            }
        }
        Self { members, helpers: threads - 1, busy: AtomicBool::new(false) }
    }

    fn run(&self, threads: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.helpers == 0 || self.busy.swap(true, Ordering::Acquire) {
            return (0..pieces).for_each(work);
        }
        let here = super::processor();
        let away = |member: &&Member| member.thread.get().is_some() && (here.is_none() || member.home != here);
        let most = self.helpers.min(pieces - 1).min(threads - 1);
        let helpers = || self.members.iter().filter(away).take(most);
        let job = Job {
            work,
            pieces,
            next: AtomicUsize::new(0),
            members: AtomicUsize::new(helpers().count()),
            panic: Mutex::new(None),
            caller: std::thread::current(),
        };
        let invitation = std::ptr::from_ref(&job).cast::<Job<'static>>().cast_mut();
        helpers().for_each(|member| member.invite(invitation));
        job.take_part();
        for member in helpers() {
            if member.disinvite(invitation) {
                job.members.fetch_sub(1, Ordering::AcqRel);
            }
        }
        // From here on, every remaining member is inside `take_part` of this job and will leave it.
        let none_left = || job.members.load(Ordering::Acquire) == 0;
        if !spin(LAST_PIECES, none_left) {
            while !none_left() {
                std::thread::park();
            }
        }
        self.busy.store(false, Ordering::Release);
        if let Some(cause) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(cause);
        }
    }
}

impl Member {
    /// The thread's main loop: wait for an invitation, do the work, spin, sleep.
    fn live(&self) {
        if let Some(home) = self.home {
            super::pin_to(home);
        }
        loop {
            let invited = || !self.invitation.load(Ordering::Relaxed).is_null();
            if !spin(SPIN, invited) {
                // The order of these two operations, and of the two in `invite`, ensures that at least one side sees
                // the other.
                self.asleep.store(true, Ordering::SeqCst);
                while self.invitation.load(Ordering::SeqCst).is_null() {
                    std::thread::park();
                }
                self.asleep.store(false, Ordering::Relaxed);
            }
            let job = self.invitation.swap(std::ptr::null_mut(), Ordering::AcqRel);
            if job.is_null() {
                continue; // Withdrawn.
            }
            // SAFETY: `Team::run` published the pointer, and its job stays alive until its member count is zero. Since
            // `swap` removed the invitation, `disinvite` did not: this member is still counted until the `fetch_sub`
            // below, and does not use the job afterwards.
            let job = unsafe { &*job };
            job.take_part();
            let caller = job.caller.clone();
            if job.members.fetch_sub(1, Ordering::AcqRel) == 1 {
                caller.unpark();
            }
        }
    }

    fn invite(&self, job: *mut Job<'static>) {
        self.invitation.store(job, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Withdraws an invitation; `false` if it has already been accepted.
    fn disinvite(&self, job: *mut Job<'static>) -> bool {
        self.invitation.compare_exchange(job, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Spins until `done` or for about `time`; returns whether it is done.
fn spin(time: Duration, done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= time {
            return done();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Checks that every piece is done exactly once.
    fn once_each(pieces: usize) {
        let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        for_each_chunk(pieces, |piece| {
            counts[piece].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{pieces}: {counts:?}");
    }

    #[test]
    fn every_piece_is_done_once_before_it_returns() {
        // Miri is a thousand times slower.
        let (most, times) = if cfg!(miri) { (100, 2) } else { (10_000, 50) };
        for pieces in [0, 1, 2, 3, 7, 64, most] {
            for _ in 0..times {
                once_each(pieces);
            }
        }
    }

    #[cfg(feature = "rayon")]
    #[test]
    fn a_rayon_pool_may_use_every_thread() {
        assert_eq!(most_threads(|| super::super::run(|| ())).1, super::super::threads());
        assert_eq!(most_threads(|| for_each_chunk(1, |_| ())).1, 1);
    }

    #[test]
    fn no_more_threads_take_part_than_may() {
        for threads in 1..4 {
            let names = Mutex::new(std::collections::BTreeSet::new());
            for_each_chunk_on(threads, if cfg!(miri) { 20 } else { 500 }, |_| {
                names.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
                spin(Duration::from_micros(5), || false);
            });
            let names = names.into_inner().unwrap();
            assert!((1..=threads).contains(&names.len()), "{threads}: {names:?}");
        }
    }

    #[test]
    fn jobs_after_a_sleep_are_done_too() {
        for _ in 0..if cfg!(miri) { 1 } else { 5 } {
            std::thread::sleep(3 * SPIN);
            once_each(100);
        }
    }

    #[test]
    fn a_job_inside_a_job_and_jobs_of_several_threads_are_done() {
        let sum = AtomicU64::new(0);
        let one = |_: usize| {
            for_each_chunk(10, |inner| {
                sum.fetch_add(inner as u64, Ordering::Relaxed);
            });
        };
        for_each_chunk(20, one);
        assert_eq!(sum.load(Ordering::Relaxed), 20 * 45);
        let times = if cfg!(miri) { 3 } else { 200 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..times).for_each(|_| for_each_chunk(5, one)));
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), (20 + 4 * times * 5) * 45);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        for bad in [0, 1, 99] {
            let caught = catch_unwind(|| {
                for_each_chunk(100, |piece| assert_ne!(piece, bad, "this piece is meant to panic"));
            });
            let text = *caught.expect_err("a piece panicked").downcast::<String>().expect("with a message");
            assert!(text.contains("meant to panic"), "{text}");
            once_each(100);
        }
    }

    #[test]
    fn other_threads_take_part_when_there_are_any() {
        if super::super::threads() < 2 {
            return;
        }
        // Another test may be using the team, so try several times.
        assert!((0..200).any(|_| together()), "no other thread ever took a piece");
    }

    /// True if two pieces of one job ran on two threads.
    fn together() -> bool {
        let names = Mutex::new(std::collections::BTreeSet::new());
        let arrived = AtomicUsize::new(0);
        for_each_chunk(2, |_| {
            names.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
            arrived.fetch_add(1, Ordering::SeqCst);
            spin(Duration::from_millis(20), || arrived.load(Ordering::SeqCst) == 2);
        });
        names.into_inner().unwrap().len() == 2
    }
}
