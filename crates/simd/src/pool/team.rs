//! A team of threads for short work: spin a while, then park.
//!
//! A thread that sleeps in the kernel takes tens of microseconds to wake, longer on a virtual machine whose processor was
//! halted. So a member that has finished goes on looking for work for a bounded time ([`SPIN`]) and only then sleeps.
//! Rayon wakes its threads through the kernel more often, and the caller has to hand its work over and sleep itself;
//! here the caller takes part.
//!
//! One job at a time. Pieces are dealt out dynamically, so a processor that is taken away delays its own piece only, and an
//! invitation that nobody took up by the time all pieces are done is withdrawn: on a busy machine the caller does the work
//! alone instead of waiting for a thread that the scheduler does not run.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a member looks for work before it sleeps. Longer than the gap between two operations of a model; short enough
/// that a program which goes on in one thread does not notice.
const SPIN: Duration = Duration::from_micros(100);

/// How long the caller spins for members that are still at their last piece, before it sleeps.
const LAST_PIECES: Duration = Duration::from_micros(50);

/// Looks between two readings of the clock while spinning.
const LOOKS: u32 = 32;

thread_local! {
    /// The most pieces that a job of this thread was cut into since [`most_threads`] began, as far as threads may take them.
    static WIDEST: Cell<usize> = const { Cell::new(0) };
}

/// What `run` returns, and the most threads that can have taken part in its jobs: there may be fewer pieces than processors.
pub fn most_threads<T>(run: impl FnOnce() -> T) -> (T, usize) {
    WIDEST.set(1);
    let returned = run();
    (returned, WIDEST.get().clamp(1, super::threads()))
}

/// Calls `work(i)` once for each `i` below `pieces`, on all processors that this process may use. The calling thread takes
/// part, pieces are dealt out dynamically, and all are done when this returns.
///
/// Works when called from inside such a piece, or while another thread has the team: then the calling thread does all
/// pieces itself. A panic of a piece ends the dealing and goes on in the caller once no other thread is at work.
pub fn for_each_chunk(pieces: usize, work: impl Fn(usize) + Sync) {
    for_each_chunk_on(usize::MAX, pieces, work);
}

/// The same on at most so many `threads`, the calling one among them.
pub fn for_each_chunk_on(threads: usize, pieces: usize, work: impl Fn(usize) + Sync) {
    static TEAM: OnceLock<Team> = OnceLock::new();
    WIDEST.set(WIDEST.get().max(pieces.min(threads)));
    if pieces <= 1 || threads <= 1 {
        return (0..pieces).for_each(work);
    }
    TEAM.get_or_init(Team::assemble).run(threads, pieces, &work);
}

/// What the members of a team work at. Lies on the stack of the caller, who stays until nobody looks at it any more.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    pieces: usize,
    /// The next piece that nobody has taken.
    next: AtomicUsize,
    /// Members that were invited and have neither left nor been sent home.
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

/// One thread of a team as others see it. On cache lines of its own (two, since processors fetch them in pairs).
#[repr(align(128))]
#[derive(Default)]
struct Member {
    /// The job that it is invited to; null when there is none.
    invitation: AtomicPtr<Job<'static>>,
    asleep: AtomicBool,
    /// Set before anybody can invite it.
    thread: OnceLock<Thread>,
    /// The processor that it stays on.
    home: Option<usize>,
}

struct Team {
    members: &'static [Member],
    /// Most members that one job needs: one less than there are processors, since the caller works too.
    helpers: usize,
    busy: AtomicBool,
}

impl Team {
    /// One thread for each processor. The one that lives where the caller runs is left asleep, so that a caller that the
    /// scheduler moves about never shares its processor with a member.
    fn assemble() -> Self {
        let (processors, threads) = (super::processors(), super::threads());
        let homes: Vec<Option<usize>> = match processors.len() {
            // Nothing is known about processors, or fewer may be used than there are (quotas): any thread will do.
            n if n != threads => vec![None; threads - 1],
            1 => Vec::new(),
            _ => processors.into_iter().map(Some).collect(),
        };
        // The members live as long as their threads, which is as long as the process.
        let members: &'static [Member] =
            homes.into_iter().map(|home| Member { home, ..Member::default() }).collect::<Vec<_>>().leak();
        for (index, member) in members.iter().enumerate() {
            let started = std::thread::Builder::new().name(format!("ellwand-team-{index}")).spawn(|| member.live());
            // A system without another thread: the member is never invited, and the others do its part.
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
        // From here on every remaining member is inside `take_part` of this job, and will leave it.
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
    /// The life of the thread: look for an invitation, follow it, look again, sleep.
    fn live(&self) {
        if let Some(home) = self.home {
            super::pin_to(home);
        }
        loop {
            let invited = || !self.invitation.load(Ordering::Relaxed).is_null();
            if !spin(SPIN, invited) {
                // The order of these two, and of the two in `invite`, makes it impossible that both sides miss each other.
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
            // SAFETY: the pointer was published by `Team::run`, whose job stays alive until its count of members is zero.
            // Taking the invitation out by `swap` means that `disinvite` did not: this member is still counted until the
            // `fetch_sub` below, after which the job is not touched again.
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

    /// Withdraws an invitation that was not taken up yet; `false` when it was.
    fn disinvite(&self, job: *mut Job<'static>) -> bool {
        self.invitation.compare_exchange(job, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Looks until `done`, for at most about `time`; whether it came to pass.
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

    /// Every piece once, for numbers of pieces around the number of threads and far above it.
    fn once_each(pieces: usize) {
        let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        for_each_chunk(pieces, |piece| {
            counts[piece].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{pieces}: {counts:?}");
    }

    #[test]
    fn every_piece_is_done_once_before_it_returns() {
        // Miri takes a thousand times as long.
        let (most, times) = if cfg!(miri) { (100, 2) } else { (10_000, 50) };
        for pieces in [0, 1, 2, 3, 7, 64, most] {
            for _ in 0..times {
                once_each(pieces);
            }
        }
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
        // Another test may have the team at that moment, so there are several attempts.
        assert!((0..200).any(|_| together()), "no other thread ever took a piece");
    }

    /// Whether two pieces of one job run on two threads.
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
