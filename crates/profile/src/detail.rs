//! Optional data of a span besides its times.

use crate::counters::Counters;

/// Optional facts about one span.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    /// Work declared by the code.
    pub counters: Counters,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// What the thread allocated, if the program uses [`alloc::Counting`](crate::alloc::Counting).
    pub memory: Option<MemoryUse>,
    /// Resident memory of the process at the end of the span, in bytes.
    pub rss_bytes: Option<u64>,
    /// Further values by name.
    pub args: Vec<(String, Value)>,
    /// Link of the span on another thread that caused this one, if [`Span::corr`](crate::Span::corr) is the link that
    /// this one's effects share; 0 for none.
    pub cause: u32,
}

impl Detail {
    /// The integer values by their names in files. Counters at 0 were not declared and are absent.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let declared = |value: u64| (value > 0).then_some(value);
        let counts = [
            ("bytes", declared(self.counters.bytes)),
            ("items", declared(self.counters.items)),
            ("cpu_ns", self.cpu_ns),
            ("allocations", self.memory.map(|memory| memory.allocations)),
            ("allocated_bytes", self.memory.map(|memory| memory.allocated_bytes)),
            ("freed_bytes", self.memory.map(|memory| memory.freed_bytes)),
            ("peak_bytes", self.memory.map(|memory| memory.peak_bytes)),
            ("rss_bytes", self.rss_bytes),
            ("cause", declared(self.cause.into())),
        ];
        counts.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Allocations of a thread during a span, without those of the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Calls that allocated or resized a block.
    pub allocations: u64,
    /// Bytes requested in the span.
    pub allocated_bytes: u64,
    /// Bytes freed in the span.
    pub freed_bytes: u64,
    /// Maximum of the bytes allocated and not yet freed, counted from the start of the span.
    pub peak_bytes: u64,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A signed integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Text, as the caller gave it.
    Text(String),
}

macro_rules! value {
    ($($type:ty),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                i64::try_from(value).map_or(Self::Float(value as f64), Self::Int)
            }
        }
    )*};
}
value!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::Float(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(crate::names::shortened(value).into_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::from(value.as_str())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        if value.len() > crate::names::LONGEST { Self::from(value.as_str()) } else { Self::Text(value) }
    }
}

/// A node of the calling-context tree of spans that were aggregated instead of kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Total {
    /// Index of the enclosing node on the same lane, or [`NONE`](crate::NONE); a parent precedes its children.
    pub parent: u32,
    /// Number of its call site: [`Trace::sites`](crate::Trace::sites), from 1.
    pub site: u32,
    /// Spans that ended.
    pub count: u64,
    /// Spans that were open when the recording ended.
    pub open: u64,
    /// Nanoseconds inside, children included.
    pub total_ns: f64,
    /// Nanoseconds inside but not in a nested node; a span that outlives this one counts up to this one's end. Negative
    /// only if spans of this path were kept one by one and only nested ones were aggregated; added to the self time of
    /// the kept spans, it gives the self time of all.
    pub self_ns: f64,
    /// Shortest span in nanoseconds.
    pub min_ns: f64,
    /// Longest span in nanoseconds.
    pub max_ns: f64,
    /// Sum of the squared durations, in square nanoseconds.
    pub square_ns2: f64,
    /// Number of spans by the power of two of their nanoseconds: `(k, n)` counts durations from 2^k to 2^(k+1).
    pub histogram: Vec<(u8, u64)>,
    /// Sums of counters, CPU time and allocations over all spans; the largest peak and resident memory.
    pub sums: Detail,
}

/// A quantity over time, such as the bytes of the heap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    /// Name, such as `heap`.
    pub name: String,
    /// Unit of the values, such as `B`.
    pub unit: String,
    /// Ticks and value, in order of time; a value holds until the next.
    pub points: Vec<(u64, f64)>,
}
