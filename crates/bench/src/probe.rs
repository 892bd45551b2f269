//! Probes: values read before and after a run, outside the timed part. Each is a row of [`PROBES`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ellwand_core::reading::{Better, Reading};
use ellwand_core::tensor::Tensors;
use ellwand_profile::alloc;

use crate::counters::{self, Kind};

/// The runs that a probe covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Preparation and the first run.
    Cold,
    /// One run after the timing.
    Steady,
}

/// A value read before and after a run.
pub struct Probe {
    /// Key of its reading.
    pub id: &'static str,
    /// Heading of its column in tables.
    pub title: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// The run to read around.
    pub span: Span,
    /// What the value means.
    pub about: &'static str,
    /// Reads (and resets) the value before the run; `None` if it is unavailable here.
    pub begin: fn() -> Option<u64>,
    /// Reads the value after the run.
    pub end: fn() -> Option<u64>,
    /// Why the value is unavailable.
    pub without: fn() -> String,
}

const NO_PROC: &str = "this system does not provide /proc/self/status and clear_refs";
const NO_ALLOCATOR: &str = "this program does not count its allocations (install ellwand_profile::alloc::Counting)";

/// The probe of a counter.
macro_rules! counter {
    ($id:literal, $title:literal, $kind:ident, $what:literal, $by:literal) => {
        Probe {
            id: $id,
            title: $title,
            unit: "",
            span: Span::Steady,
            about: concat!($what, " of all threads in user mode during one run in steady state", $by),
            begin: || counters::start(Kind::$kind),
            end: || counters::stop(Kind::$kind),
            without: || counters::why(Kind::$kind),
        }
    };
}

/// Every probe. To add one, add a row.
pub const PROBES: &[Probe] = &[
    Probe {
        id: "peak-memory",
        title: "peak memory",
        unit: "B",
        span: Span::Cold,
        about: "largest resident set during preparation and first run, above what was resident before (inputs excluded)",
        begin: || restart_peak().map(|()| 0),
        end: || Some(resident("VmHWM:")?.saturating_sub(RESIDENT_BEFORE.load(Relaxed))),
        without: || NO_PROC.into(),
    },
    counter!("cycles", "cycles/run", Cycles, "processor cycles", ""),
    counter!("instructions", "instructions/run", Instructions, "instructions", ""),
    counter!("cache-misses", "LLC misses/run", CacheMisses, "misses of the last-level cache", ""),
    counter!("page-faults", "page faults/run", Faults, "page faults", ", counted by the kernel"),
    // After the counters, whose bookkeeping allocates: the last probe to begin is the first to end.
    Probe {
        id: "allocations",
        title: "allocations/run",
        unit: "",
        span: Span::Steady,
        about: "heap allocations during one run in steady state",
        begin: || alloc::counts().map(|counts| counts.allocations),
        end: || alloc::counts().map(|counts| counts.allocations),
        without: || NO_ALLOCATOR.into(),
    },
    Probe {
        id: "allocated",
        title: "allocated/run",
        unit: "B",
        span: Span::Steady,
        about: "heap bytes allocated during one run in steady state",
        begin: || alloc::counts().map(|counts| counts.allocated_bytes),
        end: || alloc::counts().map(|counts| counts.allocated_bytes),
        without: || NO_ALLOCATOR.into(),
    },
];

/// Probes that have begun and not yet ended.
pub struct Running<'a> {
    probes: Vec<&'a Probe>,
    before: Vec<Option<u64>>,
    after: Vec<Option<u64>>,
}

/// Starts the probes of `span`.
pub fn begin(probes: &[Probe], span: Span) -> Running<'_> {
    let probes: Vec<&Probe> = probes.iter().filter(|probe| probe.span == span).collect();
    let after = Vec::with_capacity(probes.len());
    let mut before = Vec::with_capacity(probes.len());
    // Allocate everything first: between the first and the last reading only the run itself allocates.
    for probe in &probes {
        before.push((probe.begin)());
    }
    Running { probes, before, after }
}

impl Running<'_> {
    /// Ends the probes and returns the difference of each, or the reason why it is unavailable.
    pub fn end(mut self) -> Vec<Reading> {
        for probe in self.probes.iter().rev() {
            self.after.push((probe.end)());
        }
        let pairs = self.before.iter().zip(self.after.iter().rev());
        self.probes
            .iter()
            .zip(pairs)
            .map(|(probe, (before, after))| match before.zip(*after) {
                Some((before, after)) => Reading::measured(
                    probe.id,
                    probe.title,
                    probe.unit,
                    Better::Lower,
                    after.saturating_sub(before) as f64,
                    probe.about,
                ),
                None => Reading::unavailable(probe.id, probe.title, probe.unit, Better::Lower, &(probe.without)()),
            })
            .collect()
    }
}

/// Adds a reading for the peak minus the outputs, which every implementation must hold: its working memory and what it
/// retains besides its inputs.
pub fn beside_outputs(readings: &mut Vec<Reading>, outputs: &Tensors) {
    const ABOUT: &str = "peak memory minus the bytes of the outputs: working memory of preparation and first run";
    let (id, title) = ("peak-working-memory", "peak working memory");
    let Some(peak) = readings.iter().find(|reading| reading.id == "peak-memory") else { return };
    let bytes: u64 = outputs.iter().map(|(_, tensor)| tensor.bytes()).sum();
    let reading = match peak.value {
        Some(peak) => Reading::derived(id, title, "B", Better::Lower, (peak - bytes as f64).max(0.0), ABOUT),
        None => Reading::unavailable(id, title, "B", Better::Lower, &peak.about),
    };
    readings.push(reading);
}

/// Resident bytes from which the peak is counted.
static RESIDENT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Resets the kernel's peak resident set size (proc(5), clear_refs, value 5), and counts the peak from the current
/// resident set. A host calls this during preparation, after making its own copies of the inputs, which do not belong
/// to the implementation. `None` if this system does not report the values.
pub fn restart_peak() -> Option<()> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    RESIDENT_BEFORE.store(resident("VmRSS:")?, Relaxed);
    Some(())
}

/// The value of a line in /proc/self/status, in bytes.
fn resident(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_sees_a_temporary_and_no_copy_of_the_host() {
        let measure = |bytes: usize| {
            let running = begin(PROBES, Span::Cold);
            std::hint::black_box(vec![1_u8; bytes]);
            running.end()[0].value
        };
        let Some(large) = measure(64 << 20) else { return eprintln_skip() };
        let small = measure(1 << 20).expect("it could be read a moment ago");
        assert!(large >= (60 << 20) as f64, "{large}");
        assert!(small < (32 << 20) as f64, "the peak of the first block was not forgotten: {small}");
        // In the same test, because the peak is that of the process.
        let running = begin(PROBES, Span::Cold);
        let copy = std::hint::black_box(vec![1_u8; 64 << 20]);
        restart_peak().expect("it could be read a moment ago");
        let peak = running.end()[0].value.expect("it could be read a moment ago");
        assert!(peak < (32 << 20) as f64, "{peak} with {} bytes of the host", copy.len());
    }

    #[allow(clippy::print_stderr)]
    fn eprintln_skip() {
        eprintln!("skipped: {NO_PROC}");
    }

    #[test]
    fn without_the_allocator_the_reading_is_unavailable_not_zero() {
        let readings = begin(PROBES, Span::Steady).end();
        let allocator: Vec<_> = readings.iter().filter(|reading| reading.id.starts_with("alloc")).collect();
        assert_eq!(allocator.len(), 2);
        assert!(allocator.iter().all(|reading| reading.value.is_none() && reading.about.contains("install")));
    }
}
