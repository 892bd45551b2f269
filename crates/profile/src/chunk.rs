//! A chunk of slots: a thread writes its spans one after the other.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::pool::{CHUNK, Chunked, FIRST};
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::trace::Span;

/// Slots and the number of them that hold a span. One thread writes, any thread reads. A used chunk needs no clearing:
/// slots after the last used one are never read. Aligned so that no other chunk, which another thread may write, shares
/// its cache lines, and each line holds whole slots.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Chunk<S: ?Sized = [Slot]> {
    /// Index after the last slot that holds a span.
    used: AtomicU32,
    /// Index of the first slot that holds a span: a budget may grant less than a whole chunk, and a chunk ends where its memory does.
    first: AtomicU32,
    slots: Slots<S>,
}

/// The slots, from the next cache line on.
#[derive(Debug)]
#[repr(align(64))]
struct Slots<S: ?Sized>(S);

impl<const N: usize> Default for Chunk<[Slot; N]> {
    fn default() -> Self {
        Self {
            used: AtomicU32::new(0),
            first: AtomicU32::new(0),
            slots: Slots(std::array::from_fn(|_| Slot::default())),
        }
    }
}

/// A chunk of `N` slots.
fn leaked<const N: usize>() -> &'static Chunk {
    Box::leak(Box::<Chunk<[Slot; N]>>::default())
}

impl Chunked for Chunk {
    fn fresh(length: usize) -> &'static Self {
        let chunk = match length / FIRST {
            1 => leaked::<FIRST>(),
            2 => leaked::<{ 2 * FIRST }>(),
            4 => leaked::<{ 4 * FIRST }>(),
            8 => leaked::<{ 8 * FIRST }>(),
            16 => leaked::<{ 16 * FIRST }>(),
            32 => leaked::<{ 32 * FIRST }>(),
            _ => leaked::<CHUNK>(),
        };
        // The kernel provides a page when it is first written: do that now, in a span of the recorder, not in spans of
        // the program.
        chunk.slots.0.iter().step_by(PAGE / size_of::<Slot>()).for_each(|slot| slot.end(0));
        chunk
    }
}

/// Bytes of the smallest pages of common processors.
const PAGE: usize = 4096;

/// A slot about to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreeSlot {
    used: &'static AtomicU32,
    pub(crate) slot: &'static Slot,
    pub(crate) at: u32,
}

impl FreeSlot {
    /// Writes a span that begins at `ticks()`, and publishes it.
    #[inline]
    pub(crate) fn begin(self, site: u32, parent: u32, ticks: impl FnOnce() -> u64) {
        self.slot.prepare(site, parent);
        // The clock is read last: the time until here belongs to the parent.
        self.slot.begin(ticks());
        self.used.store(self.at + 1, Release);
    }
}

impl Chunk {
    /// Makes the chunk new again, with room for `room` spans.
    pub(crate) fn clear(&self, room: usize) {
        let first = self.length().saturating_sub(room) as u32;
        self.used.store(first, Relaxed);
        self.first.store(first, Relaxed);
    }

    /// The number of slots in this chunk's memory.
    pub(crate) fn length(&self) -> usize {
        self.slots.0.len()
    }

    /// The next slot; `None` if all are used. Only the owner calls this.
    #[inline]
    pub(crate) fn next(&'static self) -> Option<FreeSlot> {
        let at = self.used.load(Relaxed);
        Some(FreeSlot { used: &self.used, slot: self.slots.0.get(at as usize)?, at })
    }

    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.first.load(Relaxed)
    }

    /// The slot with the number `number` among those that the chunk has room for.
    #[inline]
    pub(crate) fn slot(&self, number: usize) -> Option<&Slot> {
        self.slots.0.get(number + self.first() as usize)
    }

    pub(crate) fn read(&self) -> impl Iterator<Item = Span> {
        let used = self.used.load(Acquire) as usize;
        let slots = self.slots.0.get(self.first() as usize..used).unwrap_or_default();
        slots.iter().filter_map(Slot::read)
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::thread;

    use super::*;
    use crate::trace::NONE;

    /// A thread reads while another reuses a chunk of an earlier recording: the reader sees whole spans of this
    /// recording only.
    #[test]
    fn loom_a_reader_sees_spans_of_this_recording() {
        loom::model(|| {
            let chunk = Chunk::fresh(CHUNK);
            let write = |site: u32, ticks: u64| {
                let free = chunk.next().expect("the chunk has room");
                free.begin(site, NONE, || ticks);
                free.slot.end(ticks + 1);
            };
            chunk.clear(CHUNK);
            write(1, 10);
            write(2, 20);
            chunk.clear(CHUNK);
            let read = thread::spawn(|| chunk.read().collect::<Vec<Span>>());
            write(3, 30);
            let spans = read.join().expect("the reader does not panic");
            assert!(spans.len() <= 1);
            for span in spans {
                assert_eq!((span.site, span.start), (3, 30));
                assert!(span.end == 0 || span.end == 31);
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::trace::NONE;

    #[test]
    fn a_short_chunk_ends_where_its_room_ends_and_is_reused_without_old_spans() {
        let chunk = Chunk::fresh(CHUNK);
        for room in [CHUNK, 3] {
            chunk.clear(room);
            assert_eq!(chunk.read().count(), 0);
            let mut written = 0;
            while let Some(free) = chunk.next() {
                written += 1;
                free.begin(written, NONE, || 7);
            }
            let sites: Vec<u32> = chunk.read().map(|span| span.site).collect();
            assert_eq!(sites, (1..=room as u32).collect::<Vec<u32>>());
            assert_eq!(chunk.slot(room - 1).map(Slot::site), Some(room as u32));
            assert!(chunk.slot(room).is_none());
        }
    }
}
