//! Activities of a device as lanes, so that one model serves every reader.

use std::borrow::Cow;

use crate::activity::Activity;
use crate::bottleneck::{Operation, in_order};
use crate::detail::{Detail, Value};
use crate::kind::{Kind, LaneKind};
use crate::order::sort_by_number;
use crate::trace::{NONE, SiteInfo, Span, Trace, TraceLane};

impl Trace {
    /// The same trace with its activities as spans: calls of the driver on lanes of threads, operations of the device on
    /// lanes of streams, linked as before.
    pub(crate) fn with_activities_as_lanes(&self) -> Cow<'_, Self> {
        if self.activities.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut trace = self.clone();
        // By start; of those that begin together the longest first.
        let mut activities: Vec<&Activity> = self.activities.iter().collect();
        let start = |one: &Activity| u128::from(one.start_ns.cast_unsigned() ^ 1 << 63);
        sort_by_number(&mut activities, |one| start(one) << 64 | u128::from(!one.ns));
        // Numbers of links of spans and of activities are not related.
        let links = trace.lanes.iter().filter_map(|lane| lane.spans.iter().map(|span| span.corr).max());
        let first_free = links.max().unwrap_or(0);
        let own = trace.lanes.len();
        // A site for each name and kind.
        let kinds: Vec<Kind> = activities.iter().map(|one| kind(&one.name, one.call)).collect();
        let operation = |at: usize| -> Operation { (&activities[at].name, kinds[at].word(), 0) };
        let operations: Vec<Operation> = (0..activities.len()).map(operation).collect();
        let mut sites = vec![0; activities.len()];
        let mut last = None;
        for (operation, at) in in_order(&operations) {
            if last.replace(operation) != Some(operation) {
                trace.sites.push(SiteInfo { name: operation.0.to_string(), kind: kinds[at], ..SiteInfo::default() });
            }
            sites[at] = trace.sites.len() as u32;
        }
        for (one, site) in activities.into_iter().zip(sites) {
            let kind = if one.call { LaneKind::Thread } else { LaneKind::Stream { device: "device".to_string() } };
            let known = trace.lanes[own..].iter().position(|lane| lane.name == one.lane && lane.kind == kind);
            let at = known.map_or(trace.lanes.len(), |at| own + at);
            if known.is_none() {
                trace.lanes.push(TraceLane { name: one.lane.clone(), kind, ..TraceLane::default() });
            }
            let (start, end) =
                (self.ticks_at(one.start_ns), self.ticks_at(one.start_ns.saturating_add_unsigned(one.ns)));
            let Some(lane) = trace.lanes.get_mut(at) else { continue };
            let args = vec![("detail".to_string(), Value::Text(one.detail.clone()))];
            let detail = (!one.detail.is_empty()).then(|| Detail { args, ..Detail::default() });
            let ext = lane.add_detail(detail);
            let corr = if one.corr == 0 { 0 } else { first_free.wrapping_add(one.corr) };
            lane.spans.push(Span { start, end: end.max(1), site, parent: NONE, corr, ext });
        }
        Cow::Owned(trace)
    }

    /// The tick at `ns` from the start; the first tick for times before that.
    fn ticks_at(&self, ns: i64) -> u64 {
        let ticks = (ns.unsigned_abs() as f64 / self.clock.ns_per_tick).round() as u64;
        if ns < 0 { self.start.saturating_sub(ticks) } else { self.start.saturating_add(ticks) }
    }
}

/// What an activity spends its time on, by the names that CUPTI and the CUDA driver use.
fn kind(name: &str, call: bool) -> Kind {
    let lower = name.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    match call {
        true if has("synchronize") => Kind::Sync,
        true if has("alloc") || has("free") => Kind::Allocation,
        true if has("module") || has("link") => Kind::Compile,
        true => Kind::Launch,
        false if has("htod") || has("host to device") => Kind::HostToDevice,
        false if has("dtoh") || has("device to host") => Kind::DeviceToHost,
        false if has("dtod") || has("device to device") => Kind::DeviceToDevice,
        false => Kind::Kernel,
    }
}
