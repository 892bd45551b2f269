//! The guard in the measured code: a span lasts from the creation of its guard to the drop.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::alloc::apart;
use crate::counters::{Amount, Counters};
use crate::detail::Value;
#[cfg(feature = "itt")]
use crate::itt;
use crate::local;
use crate::names;
use crate::node::Node;
use crate::owned::Target;
use crate::recording::GENERATION;
use crate::site::Site;
use crate::slot::Slot;
#[cfg(feature = "tracing")]
use crate::trace::NONE;

/// Link numbers taken by threads so far, in blocks.
static LINKS: AtomicU32 = AtomicU32::new(0);
/// Link numbers in a block: threads that issue a link for every span seldom contend for [`LINKS`].
const BLOCK: u32 = 256;

thread_local! {
    /// Next number of this thread's block; a multiple of [`BLOCK`] if the thread needs a new block.
    static NEXT_LINK: Cell<u32> = const { Cell::new(0) };
}

/// A span that spans of other threads can have as their parent: [`Guard::link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(pub(crate) u32);

impl Link {
    /// The innermost open span of this thread, as the parent of work on another thread. Without an open span, or while
    /// spans are aggregated, [`Guard::under`] has no effect with this link.
    pub fn current() -> Self {
        if GENERATION.load(Relaxed) == 0 { Self(0) } else { Self(local::current_link()) }
    }

    /// A number that no other link uses.
    pub(crate) fn issue() -> Self {
        // Numbers repeat after 2^32 links; by then no thread uses the first one.
        let next = NEXT_LINK.get();
        let is_used_up = next.is_multiple_of(BLOCK);
        // 0 means no link.
        let number = if is_used_up { LINKS.fetch_add(BLOCK, Relaxed).max(1) } else { next };
        NEXT_LINK.set(number.wrapping_add(1));
        Self(number)
    }

    pub(crate) fn is_some(self) -> bool {
        self.0 != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Off,
    /// In a slot.
    Slot,
    /// In a node.
    Node,
    /// In its thread's table of other spans (`Open`); `kept` one by one or not.
    Listed {
        kept: bool,
    },
    /// An outermost span that sampling skips; also in the table.
    Skipped,
}

/// A running span, created by [`span!`](crate::span!); dropping it ends the span.
///
/// It belongs to the thread that created it, and the compiler keeps it there:
///
/// ```compile_fail,E0277
/// let span = ellwand_profile::span!("work");
/// std::thread::spawn(move || drop(span));
/// ```
///
/// [`Guard::link`] makes this span the parent of spans on other threads.
// Begin and end exchange values in registers: a guard that went through memory would wait for its own stores.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: let _span = span!(..)"]
pub struct Guard {
    pub(crate) way: Way,
    /// The recording in the high half, 0 for none; the number of the span, or its index in the table, in the low half.
    pub(crate) key: u64,
    /// For a span in a slot: key of the enclosing span.
    pub(crate) parent: u64,
    pub(crate) slot: Option<&'static Slot>,
    pub(crate) node: Option<&'static Node>,
    /// For a span in a node: ticks at the start.
    pub(crate) start: u64,
    /// True if an ITT task ends with it.
    #[cfg(feature = "itt")]
    has_task: bool,
    of_this_thread: PhantomData<*const ()>,
}

impl Guard {
    /// Starts a span at `site` if it is recorded. [`span!`](crate::span!) calls this.
    #[inline]
    pub fn enter(site: &'static Site) -> Self {
        Self::enter_through(site, &GENERATION).with_task(site)
    }

    /// [`Guard::enter`] with another gate, to measure a disabled span while others record.
    #[inline]
    pub(crate) fn enter_through(site: &'static Site, gate: &AtomicU32) -> Self {
        match gate.load(Relaxed) {
            0 => Self::off(),
            generation => local::begin(site, generation),
        }
    }

    /// Starts a span that takes the measures of its site. [`span!`](crate::span!) calls this for `measure = ..`.
    pub fn enter_measured(site: &'static Site) -> Self {
        match GENERATION.load(Relaxed) {
            0 => Self::off(),
            generation => local::begin_slow(site, generation),
        }
        .with_task(site)
    }

    /// Starts a span with a name known at run time.
    #[track_caller]
    pub(crate) fn enter_named(name: &str) -> Self {
        let is_off = GENERATION.load(Relaxed) == 0;
        #[cfg(feature = "itt")]
        let is_off = is_off && !itt::is_attached();
        if is_off {
            return Self::off();
        }
        Self::enter(names::site(name, Location::caller()))
    }

    /// Also begins a task for the ITT collector, if one runs.
    #[cfg(feature = "itt")]
    #[inline]
    fn with_task(mut self, site: &'static Site) -> Self {
        self.has_task = itt::begin(site);
        self
    }

    #[cfg(not(feature = "itt"))]
    #[inline]
    fn with_task(self, _: &'static Site) -> Self {
        self
    }

    #[inline]
    pub(crate) fn off() -> Self {
        Self::new(Way::Off, 0, 0)
    }

    #[inline]
    pub(crate) fn new(way: Way, epoch: u32, index: u32) -> Self {
        let key = u64::from(epoch) << 32 | u64::from(index);
        Self::whole(way, key, 0, None, None, 0)
    }

    /// A span in the table of its thread. It also refers to its slot or node, in case the thread's data is destroyed
    /// before the guard.
    pub(crate) fn listed(way: Way, epoch: u32, number: u32, target: Option<Target>) -> Self {
        let mut guard = Self::new(way, epoch, number);
        match target {
            Some(Target::Slot { slot, .. }) => guard.slot = Some(slot),
            Some(Target::Node { node, start }) => (guard.node, guard.start) = (Some(node), start),
            Some(Target::Ring { .. } | Target::Skipped) | None => {}
        }
        guard
    }

    #[inline]
    fn whole(
        way: Way,
        key: u64,
        parent: u64,
        slot: Option<&'static Slot>,
        node: Option<&'static Node>,
        start: u64,
    ) -> Self {
        Self {
            way,
            key,
            parent,
            slot,
            node,
            start,
            #[cfg(feature = "itt")]
            has_task: false,
            of_this_thread: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        (self.key >> 32) as u32
    }

    pub(crate) fn index(&self) -> u32 {
        self.key as u32
    }

    /// False if the span is known to be inside another span of its thread.
    #[cfg(feature = "tracing")]
    pub(crate) fn may_be_outermost(&self) -> bool {
        self.way != Way::Slot || self.parent as u32 == NONE
    }

    #[inline]
    pub(crate) fn of_slot(slot: &'static Slot, key: u64, parent: u64) -> Self {
        Self::whole(Way::Slot, key, parent, Some(slot), None, 0)
    }

    #[inline]
    pub(crate) fn of_node(node: &'static Node, epoch: u32, start: u64) -> Self {
        let key = u64::from(epoch) << 32;
        Self::whole(Way::Node, key, 0, None, Some(node), start)
    }

    /// True if the span is recorded, one by one or in an aggregate.
    #[inline]
    pub fn is_on(&self) -> bool {
        !matches!(self.way, Way::Off | Way::Skipped)
    }

    /// True if the span is kept one by one, so that arguments can be added.
    #[inline]
    pub fn is_kept(&self) -> bool {
        matches!(self.way, Way::Slot | Way::Listed { kept: true })
    }

    /// Adds to the work done inside this span. Costs almost nothing while nothing is recorded.
    #[inline]
    pub fn count(&self, counters: Counters) {
        if self.is_on() {
            local::count(self, counters);
        }
    }

    /// Adds to the bytes moved.
    pub fn bytes(&self, bytes: impl Amount) {
        self.count(Counters::default().bytes(bytes));
    }

    /// Adds to the floating-point operations.
    pub fn flops(&self, flops: impl Amount) {
        self.count(Counters::default().flops(flops));
    }

    /// Adds to the items processed.
    pub fn items(&self, items: impl Amount) {
        self.count(Counters::default().items(items));
    }

    /// Adds an argument: a size, a shape, a key. Texts over 256 bytes are cut. Aggregated spans keep no arguments.
    pub fn arg(&self, name: &'static str, value: impl Into<Value>) {
        if self.is_kept() {
            let _apart = apart();
            local::add_argument(self, name, value.into());
        }
    }

    /// A link that makes this span the parent of spans on other threads ([`under`](Guard::under)).
    ///
    /// ```
    /// use ellwand_profile::span;
    /// let whole = span!("whole");
    /// let link = whole.link();
    /// std::thread::scope(|threads| {
    ///     for _ in 0..2 {
    ///         threads.spawn(move || span!("part").under(link));
    ///     }
    /// });
    /// ```
    pub fn link(&self) -> Link {
        if self.is_kept() { Link(local::link(self)) } else { Link(0) }
    }

    /// Makes a span of another thread the parent of this one. Only has an effect on the outermost span of a thread:
    /// nested spans keep their parent.
    pub fn under(&self, link: Link) {
        if link.is_some() && self.is_kept() {
            local::set_cause(self, link.0);
        }
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.way != Way::Off {
            local::end(self);
        }
        #[cfg(feature = "itt")]
        if self.has_task {
            itt::end();
        }
    }
}

/// Runs `body` inside a span, where a guard does not fit. [`span!`](crate::span!) costs less while spans are recorded,
/// because this function looks up the name in a table of the thread.
#[track_caller]
pub fn scope<R>(name: &'static str, body: impl FnOnce() -> R) -> R {
    let _guard = Guard::enter_named(name);
    body()
}
