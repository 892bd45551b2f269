//! Whether a thread kept its processor all the time, told without a system call.
//!
//! Where the C library has registered restartable sequences for its threads (glibc from 2.35 on, rseq(2)), each thread shares a
//! word with the kernel, `rseq_cs`. Whatever interrupts the thread for long enough to run another one, move it or deliver a
//! signal makes the kernel look at the sequence that the word points to; when the thread is not inside of it, the kernel
//! clears the word. So a thread that points it to a sequence that nobody ever executes, and finds it there later, was never
//! away in between. An interrupt that returns to the same thread does not count.
//!
//! Kernels that do not look when a thread goes to sleep by itself in a system call would take sleepers for busy; this is tried
//! once, and where the word survives a sleep nothing is told at all.

use std::sync::OnceLock;

/// The place of the shared word in each thread.
#[derive(Debug, Clone, Copy)]
pub struct Presence {
    /// Bytes from the thread pointer to the area that thread and kernel share.
    offset: isize,
}

impl Presence {
    /// The means to tell, or `None` where the C library, the kernel or the processor's family has none.
    pub fn of_this_process() -> Option<Self> {
        static FOUND: OnceLock<Option<Presence>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let found = imp::offset().map(|offset| Presence { offset })?;
            // Until here nothing is known of the kernel. A sleep must be seen.
            found.mark();
            std::thread::sleep(std::time::Duration::from_micros(1));
            (!found.holds()).then_some(found)
        })
    }

    /// Begins: [`Presence::holds`] speaks of the time from here on, on this thread.
    #[inline]
    pub fn mark(self) {
        imp::mark(self.offset);
    }

    /// Whether this thread has had its processor to itself since [`Presence::mark`], and ends the watch.
    #[inline]
    pub fn holds(self) -> bool {
        imp::holds(self.offset)
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod imp {
    use std::ffi::{c_char, c_uint, c_void};
    use std::sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
        compiler_fence,
    };

    /// Where `rseq_cs` lies in the area (linux/rseq.h), and the bytes of an area that has it.
    const WORD_AT: isize = 8;
    const LEAST_SIZE: c_uint = 20;
    /// What stands before every place that the kernel may send a thread to, on x86 (RSEQ_SIG).
    const SIGNATURE: u32 = 0x5305_3053;

    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    }

    /// A sequence as the kernel reads it (struct rseq_cs).
    #[repr(C, align(32))]
    struct Sequence {
        version: u32,
        flags: u32,
        start: *const u32,
        length: u64,
        abort: *const u32,
    }

    // SAFETY: the pointers are compared and read by the kernel, never written through.
    unsafe impl Sync for Sequence {}

    /// Data that nobody executes, so that no thread is ever inside the sequence, with the signature that the kernel wants
    /// before the place to go on.
    static NOWHERE: [u32; 4] = [SIGNATURE, 0, 0, 0];
    static SEQUENCE: Sequence =
        Sequence { version: 0, flags: 0, start: &raw const NOWHERE[2], length: 1, abort: &raw const NOWHERE[1] };

    pub(super) fn offset() -> Option<isize> {
        // An interpreter has neither threads of the C library nor a kernel.
        if cfg!(miri) {
            return None;
        }
        // SAFETY: both names end in a zero, a null handle asks for the libraries of this program, and what glibc calls so are
        // an unsigned int and a ptrdiff_t that are written once before `main`. Older libraries do not have the names.
        let (size, offset) = unsafe {
            let size = dlsym(std::ptr::null_mut(), c"__rseq_size".as_ptr()).cast::<c_uint>();
            let offset = dlsym(std::ptr::null_mut(), c"__rseq_offset".as_ptr()).cast::<isize>();
            if size.is_null() || offset.is_null() {
                return None;
            }
            (*size, *offset)
        };
        // Zero where registration was refused or switched off.
        (size >= LEAST_SIZE).then_some(offset)
    }

    /// The word of this thread.
    #[inline]
    fn word(offset: isize) -> &'static AtomicU64 {
        let thread: *mut u8;
        // SAFETY: the first word of a thread's own area points to that area itself (System V ABI for x86-64, thread-local
        // storage); reading it has no effect.
        unsafe {
            std::arch::asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, preserves_flags, readonly, pure))
        };
        // SAFETY: glibc says that the area lies there for as long as the thread lives, aligned to 32 bytes; only this thread,
        // and the kernel on its behalf, touch the word. The reference does not leave this module's functions.
        unsafe { &*thread.offset(offset + WORD_AT).cast::<AtomicU64>() }
    }

    fn sequence() -> u64 {
        (&raw const SEQUENCE).addr() as u64
    }

    #[inline]
    pub(super) fn mark(offset: isize) {
        // Between sequences the word is the program's to write (rseq(2)); this code is in none.
        word(offset).store(sequence(), Relaxed);
        compiler_fence(SeqCst);
    }

    #[inline]
    pub(super) fn holds(offset: isize) -> bool {
        compiler_fence(SeqCst);
        let word = word(offset);
        let held = word.load(Relaxed) == sequence();
        word.store(0, Relaxed);
        held
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
mod imp {
    pub(super) fn offset() -> Option<isize> {
        None
    }

    pub(super) fn mark(_: isize) {}

    pub(super) fn holds(_: isize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence() -> Option<Presence> {
        let found = Presence::of_this_process();
        if found.is_none() {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("skipped: neither C library nor kernel tell whether a thread kept its processor");
            }
        }
        found
    }

    #[test]
    fn a_thread_that_slept_was_away_and_one_that_worked_was_mostly_not() {
        let Some(presence) = presence() else { return };
        for _ in 0..5 {
            presence.mark();
            std::thread::sleep(std::time::Duration::from_micros(20));
            assert!(!presence.holds());
        }
        let held = (0..200).filter(|_| {
            presence.mark();
            std::hint::black_box((0..100_u64).fold(1, |x: u64, i| std::hint::black_box(x.wrapping_mul(i | 1))));
            presence.holds()
        });
        assert!(held.count() > 100, "some tenths of a microsecond each");
        assert!(!presence.holds(), "nobody marked");
    }

    /// What the kernel counts is the judge: no switch that it counted may be missed.
    #[test]
    #[cfg(target_os = "linux")]
    fn every_switch_that_the_kernel_counts_is_seen() {
        let Some(presence) = presence() else { return };
        // Switches of this thread, of both kinds.
        let switches = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("this is Linux");
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>()
        };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (mut seen, mut counted) = (0, 0);
        std::thread::scope(|scope| {
            // Enough of them that every processor has somebody else to run.
            for _ in 0..2 * std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            for _ in 0..2000 {
                // Before the first count: what switches while counts are read is seen or not, and is not asserted.
                presence.mark();
                let before = switches();
                let mut x = 1_u64;
                for i in 0..100_000_u64 {
                    x = std::hint::black_box(x.wrapping_mul(i | 1));
                }
                let after = switches();
                let held = presence.holds();
                if after > before {
                    counted += 1;
                    seen += usize::from(!held);
                    assert!(!held, "{} switches were counted and none was seen", after - before);
                }
                if counted >= 5 {
                    break;
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(seen, counted);
    }
}
