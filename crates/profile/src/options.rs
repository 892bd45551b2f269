//! What a profiler records, and how much memory it may use.

/// How spans are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Records nothing; a span costs a load and a branch.
    Off,
    /// A calling-context tree for each thread: calls, total, self, minimum, maximum, variance and a histogram by path.
    /// The memory depends on the number of different paths (at most 4096 for a thread), never on the number of spans.
    Aggregate,
    /// The last spans that ended, for each thread.
    Ring {
        /// Number of spans for each thread; 0 counts as 1.
        spans: u32,
    },
    /// Every span, within a budget for all threads: 32 bytes for a span, 32 more if it has details, 64 more for each
    /// argument or measurement. Once a span or its details do not fit, the further spans of its thread are aggregated
    /// and counted as dropped: no call, time, work or measurement is lost. Spans that are open at that moment still get
    /// their work and measurements, beyond the budget, but no more arguments.
    Full {
        /// The budget in bytes. A thread reserves room for 16 spans, then each time for as many as it has, up to 1024,
        /// and likewise for details; other threads cannot use the unused part. Later recordings reuse the buffers.
        bytes: u64,
    },
}

/// Spans that the default mode has room for: 32 MiB.
pub const DEFAULT_CAPACITY: u64 = 1 << 20;

impl Default for Mode {
    fn default() -> Self {
        Self::Full { bytes: 32 * DEFAULT_CAPACITY }
    }
}

/// Quantities measured at both ends of a span, besides its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Measures(u8);

impl Measures {
    /// Measures nothing but elapsed time.
    pub const NONE: Self = Self(0);
    /// CPU time of the thread: two system calls for each span, about 1 microsecond.
    pub const CPU: Self = Self(1);
    /// Allocations of the thread and their peak, if the program uses [`alloc::Counting`](crate::alloc::Counting): about
    /// 60 ns for each span (Zen 4). The track `heap` has points for the whole process at the start, at the end and
    /// after changes by 256 KiB; in between it lacks up to 32 KiB per thread.
    pub const MEMORY: Self = Self(2);
    /// Resident memory of the process at the end of the span: a few microseconds. Linux only.
    pub const RSS: Self = Self(4);
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// True if it contains all of `those`.
    pub const fn has(self, those: Self) -> bool {
        self.0 & those.0 == those.0
    }

    /// A number below 8 that identifies the set.
    pub(crate) const fn index(self) -> usize {
        (self.0 & Self::ALL.0) as usize
    }

    /// True if nothing is measured.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// The configuration of a recording.
///
/// ```
/// use ellwand_profile::{Measures, Mode, Options, Profiler};
/// let options = Options { mode: Mode::Aggregate, measures: Measures::CPU, ..Options::default() };
/// let profiler = Profiler::new(options);
/// # drop(profiler);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How spans are kept.
    pub mode: Mode,
    /// Records one in this many outermost spans of each thread, with everything inside; 0 and 1 record all. The first
    /// span is recorded, then one in each group of this many, at a varying place, so periodic work is sampled evenly.
    pub sampling: u32,
    /// What every span measures; [`span!`](crate::span!) can ask for more with `measure = ..`.
    pub measures: Measures,
    /// Name of the recording; the name of the program if empty.
    pub name: String,
    /// Version of the program, such as `env!("CARGO_PKG_VERSION")`; may be empty.
    pub version: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            sampling: 1,
            measures: Measures::NONE,
            name: String::new(),
            version: String::new(),
        }
    }
}

impl Options {
    /// The default options in `mode`.
    pub fn new(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }
}
