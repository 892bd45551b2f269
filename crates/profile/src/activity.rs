//! What a device did while spans were recorded: spans on separate lanes, so one model serves every reader.

use std::collections::HashMap;

use crate::detail::{Detail, Value};
use crate::kind::{Kind, LaneKind};
use crate::order::sort_by_number;
use crate::trace::{NONE, SiteInfo, Span, Trace, TraceLane};

/// One operation of a device, or one call to its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Name of the kernel, copy or call.
    pub name: String,
    /// The stream of the device, or the thread that called the driver.
    pub lane: String,
    /// Start in nanoseconds since the recording began.
    pub start_ns: i64,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Correlation number shared by a call and the operation it started; 0 for none.
    pub corr: u32,
    /// True for a driver call, false for an operation of the device.
    pub call: bool,
    /// Further details as text, such as grid and block size.
    pub detail: String,
}

impl Trace {
    /// Adds what a device did, as spans: driver calls on lanes of threads, operations on lanes of streams, linked by
    /// their correlation numbers. Inlined, so programs that do not call this do not compile it.
    #[inline]
    pub fn add_activities(&mut self, mut activities: Vec<Activity>) {
        // By start; of activities that begin together, the longest first.
        let start = |one: &Activity| u128::from(one.start_ns.cast_unsigned() ^ 1 << 63);
        sort_by_number(&mut activities, |one| start(one) << 64 | u128::from(!one.ns));
        // Link numbers of spans and of activities are unrelated.
        let links = self.lanes.iter().filter_map(|lane| lane.spans.iter().map(|span| span.corr).max());
        let first_free = links.max().unwrap_or(0);
        let own = self.lanes.len();
        let mut sites: HashMap<(String, Kind), u32> = HashMap::new();
        for one in activities {
            let kind = kind(&one.name, one.call);
            let site = *sites.entry((one.name.clone(), kind)).or_insert_with(|| {
                self.sites.push(SiteInfo { name: one.name, kind, ..SiteInfo::default() });
                self.sites.len() as u32
            });
            let kind = if one.call { LaneKind::Thread } else { LaneKind::Stream { device: "device".to_string() } };
            let known = self.lanes[own..].iter().position(|lane| lane.name == one.lane && lane.kind == kind);
            let at = known.map_or(self.lanes.len(), |at| own + at);
            if known.is_none() {
                self.lanes.push(TraceLane { name: one.lane, kind, ..TraceLane::default() });
            }
            let (start, end) =
                (self.ticks_at(one.start_ns), self.ticks_at(one.start_ns.saturating_add_unsigned(one.ns)));
            let lane = &mut self.lanes[at];
            let args = |text| vec![("detail".to_string(), Value::Text(text))];
            let detail = Some(one.detail).filter(|text| !text.is_empty());
            let ext = lane.add_detail(detail.map(|text| Detail { args: args(text), ..Detail::default() }));
            let corr = if one.corr == 0 { 0 } else { first_free.wrapping_add(one.corr) };
            lane.spans.push(Span { start, end: end.max(1), site, parent: NONE, corr, ext });
        }
    }

    /// The tick at `ns` from the start; the first tick for times before that.
    #[inline]
    fn ticks_at(&self, ns: i64) -> u64 {
        let ticks = (ns.unsigned_abs() as f64 / self.clock.ns_per_tick).round() as u64;
        if ns < 0 { self.start.saturating_sub(ticks) } else { self.start.saturating_add(ticks) }
    }
}

/// The kind of an activity, from the names that CUPTI and the CUDA driver use.
#[inline]
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
