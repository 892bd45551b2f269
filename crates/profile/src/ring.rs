//! The last spans of a thread: slots in a ring, freed in the order in which their spans ended.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::detail::Detail;
use crate::order::{Indices, sort_by_number};
use crate::pool::Pool;
use crate::slot::Slot;
use crate::sync::{AtomicU64, fence, locked};
use crate::trace::{NONE, Span};

/// A slot that other spans will reuse. Its parent is a span number, because the parent's slot may be reused first.
#[derive(Debug, Default)]
pub(crate) struct RingSlot {
    pub(crate) slot: Slot,
    /// Number of the span in its thread; 0 while the slot is unused or being written.
    number: AtomicU64,
    /// The owner locks this only for spans with details; readers always do.
    detail: Mutex<Option<Box<Detail>>>,
}

impl RingSlot {
    fn begin(&self, number: u32, site: u32, parent: u32, ticks: impl Fn() -> u64) {
        self.number.store(0, Relaxed);
        fence(Release);
        self.slot.prepare(site, parent);
        self.slot.begin(ticks());
        self.number.store(u64::from(number), Release);
    }

    fn clear(&self) {
        self.number.store(0, Relaxed);
        if let Some(detail) = locked(&self.detail).take() {
            drop(detail);
        }
    }

    pub(crate) fn detail(&self, change: impl FnOnce(&mut Detail)) {
        change(locked(&self.detail).get_or_insert_default());
    }

    /// Number, span and details, all of one span; `None` if the slot is unused or is changing at this moment.
    fn read(&self) -> Option<(u32, Span, Option<Detail>)> {
        let number = self.number.load(Acquire);
        let span = self.slot.read()?;
        let detail = locked(&self.detail).as_deref().cloned();
        fence(Acquire);
        (number != 0 && self.number.load(Relaxed) == number).then_some((number as u32, span, detail))
    }
}

static POOL: Pool<[RingSlot]> = Pool::new();

/// The chunks of a lane in ring mode, as a reader sees them.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    slots: Mutex<Vec<&'static [RingSlot]>>,
    /// Spans that ended and made room for later ones.
    gone: std::sync::atomic::AtomicU64,
}

impl Chunks {
    /// The spans in the order in which they began, with parents by index, and their details.
    pub(crate) fn read(&self) -> (Vec<Span>, Vec<Detail>) {
        let chunks = locked(&self.slots).clone();
        let mut found = Vec::new();
        let mut open = Vec::new();
        for slot in chunks.into_iter().flatten() {
            match slot.read() {
                Some((number, span, _)) if span.is_open() => open.push((number, slot)),
                read => found.extend(read),
            }
        }
        // Last and outer ones first, so that no span seems to be open although later ones were read after its end.
        sort_by_number(&mut open, |(number, _)| (*number).into());
        let same = |(number, slot): (u32, &RingSlot)| slot.read().filter(|(again, ..)| *again == number);
        found.extend(open.into_iter().filter_map(same));
        sort_by_number(&mut found, |(number, span, _)| u128::from(span.start) << 64 | u128::from(*number));
        let mut index_of = Indices::default();
        let (mut spans, mut details) = (Vec::with_capacity(found.len()), Vec::new());
        for (number, mut span, detail) in found {
            // The parent may be gone, or unread because it began after this reader had passed its slot.
            let parent = index_of.get(&(span.parent, 0)).copied();
            span.parent = parent.unwrap_or_else(|| if span.parent == NONE { NONE } else { around(&spans, span.start) });
            index_of.insert((number, 0), spans.len() as u32);
            if let Some(detail) = detail {
                details.push(detail);
                span.ext = details.len() as u32;
            }
            spans.push(span);
        }
        (spans, details)
    }

    /// Gives the chunks back, after the owner has ended.
    pub(crate) fn release(&self) {
        POOL.give(&mut locked(&self.slots));
    }

    /// Number of spans that made room for later ones.
    pub(crate) fn overwritten(&self) -> u64 {
        self.gone.load(Relaxed)
    }
}

/// The innermost of these spans, in order of their start, that has not ended before `start`.
fn around(spans: &[Span], start: u64) -> u32 {
    let mut at = (spans.len() as u32).wrapping_sub(1);
    while let Some(span) = spans.get(at as usize).filter(|span| !span.is_open() && span.end <= start) {
        at = span.parent;
    }
    at
}

/// The owner's state of its ring.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    room: usize,
    free: Vec<&'static RingSlot>,
    ended: VecDeque<&'static RingSlot>,
    /// Open spans in the order of their start: number and parent.
    open: Vec<(u32, u32)>,
    last: u32,
    /// Innermost open span, or [`NONE`].
    pub(crate) current: u32,
}

/// Maximum number of open spans of one thread in ring mode; more are a leak of guards.
const MAX_OPEN: usize = 1 << 20;

impl Ring {
    pub(crate) fn new(spans: u32) -> Self {
        Self { room: spans as usize, current: NONE, ..Self::default() }
    }

    /// Begins a span; returns its slot, its number and its parent. `None` if too many are open.
    pub(crate) fn begin(
        &mut self,
        chunks: &Chunks,
        site: u32,
        ticks: impl Fn() -> u64,
    ) -> Option<(&'static RingSlot, u32, u32)> {
        if self.open.len() >= MAX_OPEN {
            return None;
        }
        if self.free.is_empty() {
            let mut chunks = locked(&chunks.slots);
            let chunk = POOL.take(chunks.len(), |chunk| chunk.iter().for_each(RingSlot::clear));
            chunks.push(chunk);
            self.free.extend(chunk);
        }
        let slot = self.free.pop()?;
        // 0 marks unused slots, and the largest number means no span.
        self.last = if self.last >= NONE - 1 { 1 } else { self.last + 1 };
        let (number, parent) = (self.last, self.current);
        self.open.push((number, parent));
        self.current = number;
        slot.begin(number, site, parent, ticks);
        Some((slot, number, parent))
    }

    /// Ends a span and frees the oldest one if the ring is full.
    pub(crate) fn end(&mut self, chunks: &Chunks, slot: &'static RingSlot, (number, parent): (u32, u32), ticks: u64) {
        slot.slot.end(ticks);
        if self.is_open_around(number) {
            self.current = parent;
        }
        if let Some(at) = self.open.iter().rposition(|(open, _)| *open == number) {
            self.open.remove(at);
        }
        self.ended.push_back(slot);
        if self.ended.len() > self.room
            && let Some(oldest) = self.ended.pop_front()
        {
            oldest.clear();
            self.free.push(oldest);
            chunks.gone.store(chunks.overwritten() + 1, Relaxed);
        }
    }

    /// True if `number` is the innermost open span or encloses it.
    fn is_open_around(&self, number: u32) -> bool {
        let mut at = self.current;
        while at != NONE {
            if at == number {
                return true;
            }
            let known = self.open.iter().rev().find(|(open, _)| *open == at);
            at = known.map_or(NONE, |(_, parent)| *parent);
        }
        false
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A slot is reused while a reader looks at it: the reader gets one of the two spans, or nothing.
    #[test]
    fn loom_a_reused_slot_is_never_mixed() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let slot = Arc::new(RingSlot::default());
            slot.begin(1, 11, NONE, || 10);
            slot.slot.end(12);
            let reader = slot.clone();
            let read = thread::spawn(move || {
                let number = reader.number.load(Acquire);
                let span = reader.slot.read();
                fence(Acquire);
                (number != 0 && reader.number.load(Relaxed) == number).then_some((number, span))
            });
            slot.begin(2, 22, 1, || 20);
            match read.join().expect("the reader does not panic") {
                None => {}
                Some((1, span)) => assert_eq!(span.map(|span| (span.start, span.end, span.site)), Some((10, 12, 11))),
                Some((2, span)) => assert_eq!(span.map(|span| (span.start, span.end, span.site)), Some((20, 0, 22))),
                Some(other) => panic!("an unknown span: {other:?}"),
            }
        });
    }
}
