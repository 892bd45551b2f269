//! The cost of a span from `tracing`: it passes a registry before it reaches this layer.

use tracing_core::callsite::Callsite;
use tracing_core::dispatcher::{Dispatch, with_default};
use tracing_core::span::Attributes;
use tracing_core::{Interest, Kind, Level, Metadata, Subscriber};
use tracing_subscriber::layer::SubscriberExt;

use crate::cost::{TRACED, Traced};
use crate::fork::once;
use crate::layer::{self, ProfileLayer};
use crate::own_cost;

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

/// Measures the cost once per process, if it has spans from `tracing`.
pub(crate) fn measure_once() {
    if layer::sites().is_empty() {
        return;
    }
    once(&TRACED, || {
        // Not the program's own subscriber, whose other layers would print these spans.
        let subscriber = tracing_subscriber::registry().with(ProfileLayer::of_threads());
        let batches = &mut own_cost::repeated(|| pass(&subscriber));
        let (on_ns, empty_ns) =
            with_default(&Dispatch::none(), || own_cost::of_span(own_cost::FEW_SPANS, NAME, batches));
        Traced { on_ns, empty_ns, sites: layer::sites }
    });
}

/// Creates, enters, exits and closes a span.
fn pass(subscriber: &impl Subscriber) {
    let values = METADATA.fields().value_set(&[]);
    let id = subscriber.new_span(&Attributes::new(&METADATA, &values));
    subscriber.enter(&id);
    subscriber.exit(&id);
    subscriber.try_close(id);
}
