//! A span while it is written: 32 bytes that one thread writes and any thread may read.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::counters::Counters;
use crate::sync::AtomicU64;
#[cfg(all(test, loom))]
use crate::trace::NONE;
use crate::trace::Span;

/// When a span begins, the start is written last; while it is 0 the slot is unused. The end is written when the span
/// ends; while it is 0 the span is open.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    start: AtomicU64,
    end: AtomicU64,
    /// Site in the low half, parent in the high half.
    place: AtomicU64,
    /// Link in the low half, number of its row (0: none) in the high half.
    links: AtomicU64,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn unpair(pair: u64) -> (u32, u32) {
    (pair as u32, (pair >> 32) as u32)
}

impl Slot {
    /// Prepares the slot; [`Slot::begin`] follows.
    #[inline]
    pub(crate) fn prepare(&self, site: u32, parent: u32) {
        self.place.store(pair(site, parent), Relaxed);
        self.links.store(0, Relaxed);
        self.end.store(0, Relaxed);
    }

    /// Publishes the span as begun at `ticks`.
    #[inline]
    pub(crate) fn begin(&self, ticks: u64) {
        self.start.store(ticks, Release);
    }

    #[inline]
    pub(crate) fn end(&self, ticks: u64) {
        self.end.store(ticks, Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.end.load(Relaxed) == 0
    }

    #[inline]
    pub(crate) fn site(&self) -> u32 {
        unpair(self.place.load(Relaxed)).0
    }

    #[inline]
    pub(crate) fn parent(&self) -> u32 {
        unpair(self.place.load(Relaxed)).1
    }

    pub(crate) fn link(&self) -> u32 {
        unpair(self.links.load(Relaxed)).0
    }

    pub(crate) fn set_link(&self, link: u32) {
        self.links.store(pair(link, self.row()), Release);
    }

    pub(crate) fn row(&self) -> u32 {
        unpair(self.links.load(Relaxed)).1
    }

    pub(crate) fn set_row(&self, row: u32) {
        self.links.store(pair(self.link(), row), Release);
    }

    /// The span; `None` if the slot is unused. Any thread may call this while the owner writes.
    pub(crate) fn read(&self) -> Option<Span> {
        let start = self.start.load(Acquire);
        let end = self.end.load(Acquire);
        let (site, parent) = unpair(self.place.load(Relaxed));
        let (corr, ext) = unpair(self.links.load(Acquire));
        (start != 0).then_some(Span { start, end, site, parent, corr, ext })
    }
}

/// Work counters of one span, and the link of the span that caused it.
#[derive(Debug, Default)]
pub(crate) struct Row {
    bytes: AtomicU64,
    items: AtomicU64,
    /// Bit pattern of an `f64`.
    flops: AtomicU64,
    /// The link in the low half; 1 in the high half if a fact about the span was lost.
    cause: AtomicU64,
}

impl Row {
    pub(crate) fn clear(&self) {
        [&self.bytes, &self.items, &self.flops, &self.cause].into_iter().for_each(|value| value.store(0, Relaxed));
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            bytes: self.bytes.load(Relaxed),
            items: self.items.load(Relaxed),
            flops: f64::from_bits(self.flops.load(Relaxed)),
        }
    }

    /// Adds to the counters. Only the owning thread calls this; others read.
    pub(crate) fn add(&self, more: Counters) {
        let sum = self.read().plus(more);
        self.bytes.store(sum.bytes, Relaxed);
        self.items.store(sum.items, Relaxed);
        self.flops.store(sum.flops.to_bits(), Relaxed);
    }

    pub(crate) fn cause(&self) -> u32 {
        self.cause.load(Relaxed) as u32
    }

    pub(crate) fn set_cause(&self, link: u32) {
        let (_, lost) = unpair(self.cause.load(Relaxed));
        self.cause.store(pair(link, lost), Relaxed);
    }

    /// Notes that a fact about the span was lost; false if one was already lost.
    pub(crate) fn lose_fact(&self) -> bool {
        let (link, lost) = unpair(self.cause.load(Relaxed));
        self.cause.store(pair(link, 1), Relaxed);
        lost == 0
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A slot of an earlier recording is reused while another thread reads: the reader sees nothing, the open span or
    /// the ended one, always whole.
    #[test]
    fn loom_a_reader_sees_whole_spans() {
        loom::model(|| {
            let slot = Arc::new(Slot::default());
            let reader = slot.clone();
            let read = thread::spawn(move || reader.read());
            slot.prepare(3, 5);
            slot.begin(10);
            slot.end(20);
            let Some(span) = read.join().expect("the reader does not panic") else { return };
            assert_eq!((span.start, span.site, span.parent), (10, 3, 5));
            assert!(span.end == 0 || span.end == 20);
        });
    }

    /// The row of a span is complete once its number is visible.
    #[test]
    fn loom_a_row_is_published_with_its_number() {
        loom::model(|| {
            let shared = Arc::new((Slot::default(), Row::default()));
            let reader = shared.clone();
            let read = thread::spawn(move || {
                let span = reader.0.read()?;
                (span.ext != 0).then(|| reader.1.read().bytes)
            });
            shared.0.prepare(1, NONE);
            shared.0.begin(1);
            shared.1.add(Counters::default().bytes(8_u64));
            shared.0.set_row(1);
            if let Some(bytes) = read.join().expect("the reader does not panic") {
                assert_eq!(bytes, 8);
            }
        });
    }
}
