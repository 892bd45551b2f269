//! Quantities that a span measures besides its times: CPU time, allocations, resident memory.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::alloc;
use crate::clock::thread_cpu_ns;
use crate::detail::{Detail, Track};
use crate::fork::{self, once};
use crate::options::Measures;
use crate::order::sort_by_number;
use crate::trace::TraceLane;

/// Name of the track of resident memory.
pub const RESIDENT: &str = "resident memory";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline {
    measures: Measures,
    cpu_ns: Option<u64>,
    /// [`fork::generation`] at the start.
    forks: u32,
    memory: Option<alloc::Mark>,
}

impl Baseline {
    pub(crate) fn take(measures: Measures) -> Self {
        Self {
            measures,
            memory: measures.has(Measures::MEMORY).then(alloc::Mark::set).flatten(),
            forks: fork::generation(),
            // Last, because it is the slowest to read and the most sensitive to what follows.
            cpu_ns: measures.has(Measures::CPU).then(thread_cpu_ns).flatten(),
        }
    }

    pub(crate) fn forget_cpu(&mut self) {
        self.cpu_ns = None;
    }

    pub(crate) fn finish(self, detail: &mut Detail) {
        // In the child of a fork the clock started again at 0.
        if let Some(start) = self.cpu_ns.filter(|_| self.forks == fork::generation()) {
            detail.cpu_ns = thread_cpu_ns().map(|now| now.saturating_sub(start));
        }
        detail.memory = self.memory.map(alloc::Mark::finish);
        if self.measures.has(Measures::RSS) {
            detail.rss_bytes = resident_bytes();
        }
    }
}

/// Resident memory of this process in bytes; `None` where the kernel does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let mut buffer = [0; 128];
    let text = std::str::from_utf8(read_statm(&mut buffer)?).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size()?)
}

/// The resident memory over time: a point when recording began, and one at each end of a span that found another value.
pub(crate) fn resident_track((start, bytes): (u64, u64), lanes: &[TraceLane]) -> Track {
    let mut points = vec![(start, bytes as f64)];
    for lane in lanes {
        for span in lane.spans.iter().filter(|span| !span.is_open()) {
            let bytes = lane.detail_of(span).and_then(|detail| detail.rss_bytes);
            points.extend(bytes.map(|bytes| (span.end, bytes as f64)));
        }
    }
    sort_by_number(&mut points, |point| point.0.into());
    points.dedup_by_key(|point| point.1);
    Track { name: RESIDENT.into(), unit: "B".into(), points }
}

#[cfg(target_os = "linux")]
fn read_statm(buffer: &mut [u8]) -> Option<&[u8]> {
    use std::os::unix::fs::FileExt;
    // Kept open: opening costs three times as much as reading.
    static STATM: OnceLock<Option<(u32, File)>> = OnceLock::new();
    let own = once(&STATM, || Some((std::process::id(), File::open("/proc/self/statm").ok()?)));
    let (pid, file) = own.as_ref()?;
    let length = if *pid == std::process::id() {
        file.read_at(buffer, 0)
    } else {
        // After a fork, the file opened before still shows the parent.
        File::open("/proc/self/statm").ok()?.read_at(buffer, 0)
    };
    buffer.get(..length.ok()?)
}

#[cfg(not(target_os = "linux"))]
fn read_statm(_: &mut [u8]) -> Option<&[u8]> {
    None
}

/// Size of a page in bytes, from the auxiliary vector (key 6 is AT_PAGESZ).
fn page_size() -> Option<u64> {
    static SIZE: AtomicU64 = AtomicU64::new(0);
    if SIZE.load(Relaxed) == 0 {
        let vector = std::fs::read("/proc/self/auxv").ok()?;
        let words = vector.chunks_exact(size_of::<usize>());
        let mut words = words.filter_map(|bytes| Some(usize::from_ne_bytes(bytes.try_into().ok()?)));
        while words.next()? != 6 {
            words.next();
        }
        SIZE.store(words.next()? as u64, Relaxed);
    }
    Some(SIZE.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{NONE, Span};

    #[test]
    fn the_track_of_resident_memory_has_a_point_where_it_changes() {
        let details = [5, 5, 9].map(|bytes| Detail { rss_bytes: Some(bytes), ..Detail::default() });
        let span = |start, end, ext| Span { start, end, site: 1, parent: NONE, corr: 0, ext };
        let spans = vec![span(1, 40, 3), span(2, 10, 1), span(11, 20, 2), span(50, 0, 1), span(60, 61, 0)];
        let lane = TraceLane { spans, details: details.into(), ..TraceLane::default() };
        assert_eq!(resident_track((0, 7), &[lane]).points, [(0, 7.0), (10, 5.0), (40, 9.0)]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "no /proc")]
    fn resident_memory_grows_with_touched_pages() {
        let before = resident_bytes().unwrap();
        let block = vec![1_u8; 64 << 20];
        let after = resident_bytes().unwrap();
        assert_eq!(block.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>(), (64 << 20) / 4096);
        assert!(after >= before + (48 << 20), "{before} {after}");
    }
}
