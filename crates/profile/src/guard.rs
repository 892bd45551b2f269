//! The guard in the measured code: a span lasts from its creation to its drop.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::counters::{Amount, Counters};
use crate::lane::{self, EPOCH};
use crate::site::Site;
use crate::trace::NONE;

/// Last link number issued.
static LINKS: AtomicU32 = AtomicU32::new(0);

/// A span that spans of other threads can have as their parent: [`Guard::link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(u32);

/// A running span, created by [`span!`](crate::span!); dropping it ends the span.
///
/// It belongs to the thread that created it.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: let _span = span!(..)"]
pub struct Guard {
    /// Number of its session, 0 for none.
    epoch: u32,
    index: u32,
    parent: u32,
    _of_this_thread: PhantomData<*const ()>,
}

impl Guard {
    /// Starts a span at `site` if a session is running. [`span!`](crate::span!) calls this.
    #[inline]
    pub fn enter(site: &'static Site) -> Self {
        match EPOCH.load(Relaxed) {
            0 => Self::off(),
            epoch => lane::begin(site, epoch),
        }
    }

    pub(crate) fn off() -> Self {
        Self::new(0, NONE, NONE)
    }

    pub(crate) fn new(epoch: u32, index: u32, parent: u32) -> Self {
        Self { epoch, index, parent, _of_this_thread: PhantomData }
    }

    /// True if the span is recorded: a session was running when it started, and the buffer had room.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.index != NONE
    }

    /// Adds to the work done inside this span. Costs almost nothing while no session runs.
    #[inline]
    pub fn count(&self, counters: Counters) {
        if self.is_on() {
            lane::count(self.epoch, self.index, counters);
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
        if !self.is_on() {
            return Link(0);
        }
        let known = lane::correlation(self.epoch, self.index);
        if known != 0 {
            return Link(known);
        }
        // Numbers repeat after 2^32 links; by then no thread uses the first one.
        let corr = LINKS.fetch_add(1, Relaxed).wrapping_add(1).max(1);
        lane::correlate(self.epoch, self.index, corr);
        Link(corr)
    }

    /// Makes a span of another thread the parent of this one. Only has an effect on the outermost span of a thread:
    /// nested spans keep their parent.
    pub fn under(&self, link: Link) {
        if self.is_on() && link.0 != 0 {
            lane::correlate(self.epoch, self.index, link.0);
        }
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.is_on() {
            lane::end(self.epoch, self.index, self.parent);
        }
    }
}

/// Starts a span that lasts until the end of the block if the guard is bound to a name: `let _span = span!("softmax");`
/// (`let _ =` would end it at once).
///
/// The name must be a constant. Work counters may follow: `bytes`, `flops` and `items`, each any expression of a number
/// type. They are evaluated only while a session runs.
///
/// ```
/// use ellwand_profile::{Session, span};
///
/// fn softmax(x: &mut [f32]) {
///     let _span = span!("softmax", bytes = 8 * x.len(), items = x.len());
///     // ...
/// }
/// let session = Session::start()?;
/// softmax(&mut [0.0; 16]);
/// let trace = session.finish();
/// assert_eq!(trace.summary().rows[0].path, ["softmax"]);
/// # Ok::<(), ellwand_profile::SessionError>(())
/// ```
///
/// While no session runs this costs a load and a branch ([`cost`](crate::cost()) measures it).
#[macro_export]
macro_rules! span {
    ($name:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, ::core::file!(), ::core::line!());
        $crate::Guard::enter(&SITE)
    }};
    ($name:expr, $($counter:ident = $amount:expr),+ $(,)?) => {{
        let guard = $crate::span!($name);
        if guard.is_on() {
            guard.count($crate::Counters::default()$(.$counter($amount))+);
        }
        guard
    }};
}

/// Runs `body` inside a span, where a guard does not fit. [`span!`](crate::span!) costs less while a session runs,
/// since this function looks up its call site in a table.
#[track_caller]
pub fn scope<R>(name: &'static str, body: impl FnOnce() -> R) -> R {
    let place = Location::caller();
    let _guard = match EPOCH.load(Relaxed) {
        0 => Guard::off(),
        epoch => lane::begin(Site::of_scope(name, place), epoch),
    };
    body()
}
