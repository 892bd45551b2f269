//! A layer for programs that are instrumented with `tracing`; they need no change.
//!
//! ```
//! use ellwand_profile::{Mode, Options, Profiler, layer::ProfileLayer};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }));
//! let subscriber = tracing_subscriber::registry().with(ProfileLayer::new(&profiler));
//! tracing::subscriber::with_default(subscriber, || {
//!     let _span = tracing::info_span!("encode", n = 1024).entered();
//! });
//! let trace = profiler.finish();
//! assert_eq!(trace.spans(), 1);
//! ```
//!
//! Each interval from enter to exit is recorded as a span, so the span of a future has one entry per poll. Fields
//! become arguments of the first entry. A span entered on a thread with no open span becomes a child of its `tracing`
//! parent.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use tracing_core::callsite::Identifier;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::cost::MEASURE_TRACED;
use crate::detail::Value;
use crate::fork::once;
use crate::guard::{Guard, Link};
use crate::layer_cost;
use crate::layer_table::Spans;
use crate::profiler::{Profiler, Scope};
use crate::recording::GENERATION;
use crate::site::Site;
use crate::sync::locked;

/// Records the spans of `tracing` in a profiler.
#[derive(Debug)]
pub struct ProfileLayer {
    /// `None`: to the profiler or session that records this thread's spans.
    profiler: Option<Profiler>,
    /// Distinguishes spans of several layers in one program.
    number: u32,
    spans: Spans,
}

static LAYERS: AtomicU32 = AtomicU32::new(0);

/// What the registry keeps of a span: fields not yet attached to an entry, and the link of the first entry if the span
/// has no place in the table.
#[derive(Default)]
struct Known {
    args: Vec<(&'static str, Value)>,
    link: Option<Link>,
}

/// A span entered on this thread.
struct Entered {
    layer: u32,
    id: u64,
    // Fields are dropped in this order: the span ends while its profiler is still entered.
    guard: Guard,
    _scope: Option<Scope>,
}

static SITES: OnceLock<Mutex<HashMap<Identifier, &'static Site>>> = OnceLock::new();

/// Hashes an address with one multiplication: tables of addresses need no protection against chosen keys.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, value: usize) {
        self.0 = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Sites by the address of their metadata.
type OwnSites = HashMap<usize, &'static Site, BuildHasherDefault<AddressHasher>>;

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
    static OWN_SITES: RefCell<OwnSites> = RefCell::default();
}

/// The address of metadata, which is the key of a thread's sites.
fn address(metadata: &'static Metadata<'static>) -> usize {
    std::ptr::from_ref(metadata).addr()
}

/// The site of metadata at an address, if this thread has used it before.
fn own_site(address: usize) -> Option<&'static Site> {
    OWN_SITES.try_with(|own| own.try_borrow().ok()?.get(&address).copied()).ok().flatten()
}

/// The site of a span in the source; found without a lock from its second use on a thread.
fn site(metadata: &'static Metadata<'static>) -> &'static Site {
    let address = address(metadata);
    own_site(address).unwrap_or_else(|| {
        let site = *locked(once(&SITES, Mutex::default)).entry(metadata.callsite()).or_insert_with(|| {
            let (file, line) = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or(0));
            Box::leak(Box::new(Site::new(metadata.name(), file, line)))
        });
        let _ = OWN_SITES.try_with(|own| own.try_borrow_mut().map(|mut own| own.insert(address, site)));
        site
    })
}

/// Numbers of all sites of spans of `tracing`.
pub(crate) fn sites() -> Vec<u32> {
    SITES.get().map_or_else(Vec::new, |sites| locked(sites).values().map(|site| site.id()).collect())
}

impl ProfileLayer {
    /// A layer that records in `profiler`.
    pub fn new(profiler: &Profiler) -> Self {
        Self { profiler: Some(profiler.clone()), ..Self::of_threads() }
    }

    /// A layer that records into the profiler that each thread has entered, or else into the global one.
    pub fn of_threads() -> Self {
        once(&MEASURE_TRACED, || layer_cost::measure_once as fn());
        Self { profiler: None, number: LAYERS.fetch_add(1, Relaxed), spans: Spans::new() }
    }

    fn start(&self, site: &'static Site) -> (Guard, Option<Scope>) {
        let scope = self.profiler.as_ref().map(Profiler::enter);
        (Guard::enter(site), scope)
    }
}

/// Runs `body` on the spans that this thread has entered, unless it is ending.
fn entered<R>(body: impl FnOnce(&mut Vec<Entered>) -> R) -> Option<R> {
    ENTERED.try_with(|entered| entered.try_borrow_mut().ok().map(|mut entered| body(&mut entered))).ok().flatten()
}

fn edit<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>, change: impl FnOnce(&mut Known)) {
    let mut extensions = span.extensions_mut();
    let mut known: Known = extensions.remove().unwrap_or_default();
    change(&mut known);
    extensions.insert(known);
}

impl ProfileLayer {
    fn link_of<S: for<'a> LookupSpan<'a>>(&self, span: &SpanRef<'_, S>) -> Option<Link> {
        match self.spans.get(span.id().into_u64()) {
            Some(entry) => Some(Link(entry.link.load(Relaxed))).filter(|link| link.is_some()),
            None => span.extensions().get::<Known>()?.link,
        }
    }

    /// Makes an outermost span a child of its `tracing` parent, and notes the link of its first entry.
    fn connect<S>(&self, guard: &Guard, id: &Id, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let entry = self.spans.get(id.into_u64());
        // Inside another span of this thread, that span is the parent.
        let is_outermost = guard.may_be_outermost();
        let is_waiting = entry.is_none_or(|entry| entry.has_args.load(Relaxed));
        if is_outermost || is_waiting {
            let Some(span) = context.span(id) else { return };
            if is_outermost && let Some(link) = span.parent().and_then(|parent| self.link_of(&parent)) {
                guard.under(link);
            }
            if is_waiting {
                edit(&span, |known| {
                    known.args.drain(..).for_each(|(name, value)| guard.arg(name, value));
                    if entry.is_none() {
                        known.link.get_or_insert_with(|| guard.link());
                    }
                });
            }
        }
        if let Some(entry) = entry {
            entry.has_args.store(false, Relaxed);
            if entry.link.load(Relaxed) == 0 {
                entry.link.store(guard.link().0, Relaxed);
            }
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ProfileLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut args = Args(Vec::new());
        if GENERATION.load(Relaxed) != 0 {
            attributes.record(&mut args);
        }
        let has_args = !args.0.is_empty();
        self.spans.add(id.into_u64(), address(attributes.metadata()), has_args);
        if has_args && let Some(span) = context.span(id) {
            edit(&span, |known| known.args = args.0);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut args = Args(Vec::new());
        values.record(&mut args);
        let mut late = args.0;
        entered(|entered| {
            let mine = entered.iter().rfind(|entered| entered.layer == self.number && entered.id == id.into_u64());
            if let Some(entered) = mine {
                late.drain(..).for_each(|(name, value)| entered.guard.arg(name, value));
            }
        });
        if let (false, Some(span)) = (late.is_empty(), context.span(id)) {
            edit(&span, |known| known.args.append(&mut late));
            if let Some(entry) = self.spans.get(id.into_u64()) {
                entry.has_args.store(true, Relaxed);
            }
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if GENERATION.load(Relaxed) == 0 {
            return;
        }
        let known = self.spans.get(id.into_u64()).and_then(|entry| own_site(entry.metadata()));
        let Some(site) = known.or_else(|| context.metadata(id).map(site)) else { return };
        let (guard, scope) = self.start(site);
        if !guard.is_on() {
            return;
        }
        if guard.is_kept() {
            self.connect(&guard, id, &context);
        }
        entered(|entered| entered.push(Entered { layer: self.number, id: id.into_u64(), guard, _scope: scope }));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let left = entered(|entered| {
            let at = entered.iter().rposition(|entered| entered.layer == self.number && entered.id == id.into_u64())?;
            Some(entered.remove(at))
        });
        drop(left);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.spans.remove(id.into_u64());
    }
}

struct Args(Vec<(&'static str, Value)>);

impl Args {
    fn push(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.push((field.name(), value.into()));
    }
}

impl Visit for Args {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, format!("{value:?}"));
    }
}
