//! The cost of a span that comes through `tracing`: it passes a registry before it reaches our layer.

use std::sync::OnceLock;

use tracing_core::callsite::Callsite;
use tracing_core::dispatcher::{Dispatch, with_default};
use tracing_core::span::Attributes;
use tracing_core::{Interest, Kind, Level, Metadata, Subscriber};
use tracing_subscriber::layer::SubscriberExt;

use crate::cost::Cost;
use crate::kind::LaneKind;
use crate::layer::{self, ProfileLayer};
use crate::own_cost;
use crate::trace::TraceLane;

const NAME: &str = "cost, tracing";

struct Probe;
static PROBE: Probe = Probe;
static METADATA: Metadata<'static> = tracing_core::metadata! {
    name: NAME,
    target: module_path!(),
    level: Level::TRACE,
    fields: &[],
    callsite: &PROBE,
    kind: Kind::SPAN
};

impl Callsite for Probe {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &METADATA
    }
}

/// Nanoseconds per span and those that an empty span measures, once they are known.
static KNOWN: OnceLock<(f64, f64)> = OnceLock::new();

/// Measures the cost once in this process, if it has spans of `tracing`.
pub(crate) fn measure_once() {
    if layer::sites().is_empty() {
        return;
    }
    KNOWN.get_or_init(|| {
        // Not the program's own subscriber: its other layers would print these spans.
        let subscriber = tracing_subscriber::registry().with(ProfileLayer::of_threads());
        with_default(&Dispatch::none(), || own_cost::of_span(NAME, || pass(&subscriber)))
    });
}

/// A span from its creation to its end.
fn pass(subscriber: &impl Subscriber) {
    let values = METADATA.fields().value_set(&[]);
    let id = subscriber.new_span(&Attributes::new(&METADATA, &values));
    subscriber.enter(&id);
    subscriber.exit(&id);
    subscriber.try_close(id);
}

/// The mean cost of the spans on these lanes: some came through `tracing`, others did not.
pub(crate) fn mean(cost: Cost, lanes: &[TraceLane]) -> Cost {
    let Some((on_ns, empty_ns)) = KNOWN.get() else { return cost };
    let mut traced = layer::sites();
    traced.sort_unstable();
    let (mut all, mut through) = (0_u64, 0_u64);
    let mut add = |site: u32, count: u64| {
        all = all.saturating_add(count);
        if traced.binary_search(&site).is_ok() {
            through = through.saturating_add(count);
        }
    };
    for lane in lanes.iter().filter(|lane| lane.kind == LaneKind::Thread) {
        lane.spans.iter().for_each(|span| add(span.site, 1));
        lane.totals.iter().for_each(|total| add(total.site, total.count));
    }
    let share = through as f64 / all.max(1) as f64;
    let between = |own: f64, traced: f64| own + (traced - own) * share;
    Cost { on_ns: between(cost.on_ns, *on_ns), empty_ns: between(cost.empty_ns, *empty_ns), ..cost }
}
