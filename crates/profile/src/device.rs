//! Spans of devices: a device's clock, mapped to that of the host.

use std::fmt;

use crate::clock::{calibration, ticks};
use crate::counters::Counters;
use crate::detail::{Detail, Value};
use crate::guard::Link;
use crate::kind::{Kind, LaneKind};
use crate::names;
use crate::order::sort_by_number;
use crate::profiler::Profiler;
use crate::trace::{NONE, Span, TraceLane};
use crate::untangle::untangled;

/// One moment on both clocks: a reading of the device between two readings of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    /// Host ticks ([`clock::ticks`](crate::clock::ticks)) before the reading.
    pub before: u64,
    /// The device's clock in nanoseconds.
    pub device_ns: u64,
    /// Host ticks after the reading.
    pub after: u64,
}

impl ClockPair {
    /// Brackets one reading of the device's clock.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn take<E>(read: impl FnOnce() -> Result<u64, E>) -> Result<Self, E> {
        let before = ticks();
        let device_ns = read()?;
        Ok(Self { before, device_ns, after: ticks() })
    }

    fn middle(&self) -> f64 {
        self.before as f64 + self.after.saturating_sub(self.before) as f64 / 2.0
    }

    fn half_width(&self) -> f64 {
        self.after.saturating_sub(self.before) as f64 / 2.0
    }
}

/// A line from device nanoseconds to host ticks: offset and drift, with a bound on the error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockMap {
    device_origin: u64,
    host_origin: f64,
    ticks_per_ns: f64,
    /// Largest distance of a pair from the line plus half the width of its bracket, in host ticks. Between the pairs, a
    /// clock with a constant rate stays within this bound.
    pub error_ticks: f64,
}

/// Why [`Profiler::collect`] got nothing from a device: the message of its driver or framework, or why no line fits its
/// clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineError(pub String);

impl fmt::Display for TimelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TimelineError {}

impl ClockMap {
    /// The least-squares line through the pairs, each weighted by the inverse square of its bracket's width.
    ///
    /// # Errors
    /// If the pairs do not determine a line, or the line runs backwards.
    #[inline]
    pub fn fit(pairs: &[ClockPair]) -> Result<Self, TimelineError> {
        let few = || {
            let why = "the device's clock cannot be mapped: expected readings at two different times at least";
            TimelineError(why.into())
        };
        let first = pairs.first().ok_or_else(few)?;
        let (device_origin, host_origin) = (first.device_ns, first.middle());
        // Relative to the first pair, so no digits are lost.
        let point = |pair: &ClockPair| (difference(pair.device_ns, device_origin), pair.middle() - host_origin);
        let sum = |term: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
            let terms = pairs.iter().map(|pair| (point(pair), 1.0 / (pair.half_width() + 1.0).powi(2)));
            terms.map(|((x, y), weight)| term(x, y, weight)).sum()
        };
        let weight = sum(&|_, _, w| w);
        let (mean_x, mean_y) = (sum(&|x, _, w| x * w) / weight, sum(&|_, y, w| y * w) / weight);
        let spread = sum(&|x, _, w| w * (x - mean_x).powi(2));
        if spread <= 0.0 {
            return Err(few());
        }
        let slope = sum(&|x, y, w| w * (x - mean_x) * (y - mean_y)) / spread;
        if slope <= 0.0 {
            let why = "the device's clock runs backwards against the host's; the readings are in the wrong order or \
                       the clock was reset";
            return Err(TimelineError(why.into()));
        }
        let offset = mean_y - slope * mean_x;
        let distance = |(x, y): (f64, f64)| (offset + slope * x - y).abs();
        let error = pairs.iter().map(|pair| distance(point(pair)) + pair.half_width()).fold(0.0, f64::max);
        Ok(Self { device_origin, host_origin: host_origin + offset, ticks_per_ns: slope, error_ticks: error })
    }

    /// Host ticks at a device time; 0 if that is before the host's clock began.
    pub fn ticks(&self, device_ns: u64) -> u64 {
        // `as` turns negative values into 0.
        (self.host_origin + difference(device_ns, self.device_origin) * self.ticks_per_ns).round() as u64
    }

    /// Host ticks in one nanosecond of the device.
    pub fn ticks_per_ns(&self) -> f64 {
        self.ticks_per_ns
    }
}

fn difference(a: u64, b: u64) -> f64 {
    (i128::from(a) - i128::from(b)) as f64
}

/// An operation of a device, on the device's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpan {
    /// Name of the kernel or copy.
    pub name: String,
    /// The queue that ran it, such as `stream 7`.
    pub stream: String,
    /// Kernel or copy.
    pub kind: Kind,
    /// Start in device nanoseconds.
    pub start_ns: u64,
    /// End in device nanoseconds.
    pub end_ns: u64,
    /// Link of the host span that launched it ([`Guard::link`](crate::Guard::link)).
    pub link: Option<Link>,
    /// Work that the caller declared for it.
    pub counters: Counters,
    /// Further facts, such as the grid.
    pub args: Vec<(String, Value)>,
}

/// A device whose driver records what it did and when.
pub trait DeviceTimeline {
    /// Name of the device, such as `cuda:0`.
    fn device(&self) -> String;

    /// Reads both clocks ([`ClockPair::take`]). [`Profiler::collect`] asks several times.
    ///
    /// # Errors
    /// If the clock cannot be read.
    fn clock_pair(&mut self) -> Result<ClockPair, TimelineError>;

    /// Pairs read earlier, such as at the start of the recording; they determine the drift.
    fn earlier_pairs(&self) -> Vec<ClockPair> {
        Vec::new()
    }

    /// Takes the operations that finished since the last call.
    ///
    /// # Errors
    /// If they cannot be read.
    fn take_spans(&mut self) -> Result<Vec<DeviceSpan>, TimelineError>;
}

/// Readings of the device's clock per collection; the narrowest brackets weigh most.
const READINGS: usize = 16;

impl Profiler {
    /// Adds what a device did during the recording, as lanes of [`LaneKind::Stream`]. Call it after the work, before
    /// [`Profiler::finish`], any number of times. Returns the number of spans added.
    ///
    /// Operations that ran at the same time on one stream go to separate lanes, because spans of a lane cannot overlap.
    /// An operation that ends before it starts, or is outside the recording by more than the error of the clocks,
    /// counts as dropped. The environment of the trace holds the error as `DEVICE clock error (ns)`.
    ///
    /// # Errors
    /// If the device cannot be read or its clock cannot be mapped. The recording stays as it was.
    // As for `fit`: programs without devices do not compile it.
    #[inline]
    pub fn collect(&self, device: &mut dyn DeviceTimeline) -> Result<usize, TimelineError> {
        let Some(recording) = self.recording() else { return Ok(0) };
        let mut spans = device.take_spans()?;
        let mut pairs = device.earlier_pairs();
        for _ in 0..READINGS {
            pairs.push(device.clock_pair()?);
        }
        let name = device.device();
        let map = ClockMap::fit(&pairs).map_err(|error| TimelineError(format!("{name}: {error}")))?;
        let error_ns = map.error_ticks * calibration().ns_per_tick;
        recording.add_fact(format!("{name} clock error (ns)"), Value::Float(error_ns));
        let total = spans.len();
        sort_by_number(&mut spans, |span| span.start_ns.into());
        let error_ticks = map.error_ticks as u64;
        let (earliest, latest) = (recording.start.saturating_sub(error_ticks), ticks().saturating_add(error_ticks));
        let mut streams: Vec<TraceLane> = Vec::new();
        for span in spans {
            let known = streams.iter().position(|lane| lane.name == span.stream);
            let at = known.unwrap_or(streams.len());
            if known.is_none() {
                let kind = LaneKind::Stream { device: name.clone() };
                streams.push(TraceLane { name: span.stream, kind, ..TraceLane::default() });
            }
            let lane = &mut streams[at];
            let (start, end) = (map.ticks(span.start_ns), map.ticks(span.end_ns));
            if span.end_ns < span.start_ns || start < earliest || end > latest {
                lane.dropped += 1;
                continue;
            }
            let detail = Detail { counters: span.counters, args: span.args, ..Detail::default() };
            let ext = lane.add_detail(Some(detail).filter(|detail| *detail != Detail::default()));
            let site = names::site_of_kind(&span.name, span.kind).id();
            let corr = span.link.map_or(0, |link| link.0);
            // An end of 0 would be an open span.
            lane.spans.push(Span { start, end: end.max(1), site, parent: NONE, corr, ext });
        }
        let lost: u64 = streams.iter().map(|lane| lane.dropped).sum();
        streams.into_iter().for_each(|lane| untangled(lane).into_iter().for_each(|lane| recording.add_stream(lane)));
        Ok(total - lost as usize)
    }
}
