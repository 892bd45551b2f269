//! An imaginary device: its clock has an offset, a drift and noisy readings.

use ellwand_profile::clock::{calibration, ticks};
use ellwand_profile::{
    ClockMap, ClockPair, Counters, DeviceSpan, DeviceTimeline, Kind, LaneKind, Link, Mode, Options, Profiler,
    TimelineError, Value, span,
};

/// Device nanoseconds at a host time, for a clock that runs 250 ppm fast.
fn device_ns(host_ticks: u64, ns_per_tick: f64) -> u64 {
    (host_ticks as f64 * ns_per_tick * 1.000_25) as u64 + 5_000_000_000
}

struct Fake {
    ns_per_tick: f64,
    pairs: Vec<ClockPair>,
    spans: Vec<DeviceSpan>,
}

impl Fake {
    fn new() -> Self {
        Self { ns_per_tick: calibration().ns_per_tick, pairs: Vec::new(), spans: Vec::new() }
    }

    fn run(&mut self, name: &str, stream: &str, host: (u64, u64), link: Option<Link>) {
        self.spans.push(DeviceSpan {
            name: name.into(),
            stream: stream.into(),
            kind: Kind::Kernel,
            start_ns: device_ns(host.0, self.ns_per_tick),
            end_ns: device_ns(host.1, self.ns_per_tick),
            link,
            counters: Counters::default().flops(100.0),
            args: vec![("grid".into(), Value::from("8x1"))],
        });
    }
}

impl DeviceTimeline for Fake {
    fn device(&self) -> String {
        "fake:0".into()
    }

    fn clock_pair(&mut self) -> Result<ClockPair, TimelineError> {
        let pair = ClockPair::take(|| Ok::<u64, TimelineError>(device_ns(ticks(), self.ns_per_tick)))?;
        self.pairs.push(pair);
        Ok(pair)
    }

    fn earlier_pairs(&self) -> Vec<ClockPair> {
        self.pairs.clone()
    }

    fn take_spans(&mut self) -> Result<Vec<DeviceSpan>, TimelineError> {
        Ok(std::mem::take(&mut self.spans))
    }
}

#[test]
fn device_spans_land_where_the_host_launched_them() {
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }));
    let mut device = Fake::new();
    (0..8).for_each(|_| assert!(device.clock_pair().is_ok()));
    let entered = profiler.enter();
    let mut launched = Vec::new();
    for _ in 0..3 {
        let launch = span!("launch", kind = Kind::Launch);
        let start = ticks();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let end = ticks();
        device.run("kernel", "stream 7", (start, end), Some(launch.link()));
        launched.push((start, end));
    }
    let (start, end) = launched[2];
    device.run("overlapping copy", "stream 7", (start + (end - start) / 2, end), None);
    device.run("backwards", "stream 7", (end, start), None);
    device.run("long ago", "stream 7", (0, 1), None);
    drop(entered);
    assert_eq!(profiler.collect(&mut device), Ok(4));
    assert_eq!(profiler.collect(&mut device), Ok(0));
    let trace = profiler.finish();
    let error = trace.environment.iter().find(|(name, _)| name == "fake:0 clock error (ns)");
    let Some((_, Value::Float(error_ns))) = error else { panic!("{:?}", trace.environment) };
    let streams: Vec<_> = trace.lanes.iter().filter(|lane| lane.kind != LaneKind::Thread).collect();
    assert_eq!(streams.len(), 2);
    assert_eq!(streams[0].kind, LaneKind::Stream { device: "fake:0".into() });
    assert_eq!((streams[0].name.as_str(), streams[1].name.as_str()), ("stream 7", "stream 7 (2)"));
    assert_eq!(streams[0].dropped + streams[1].dropped, 2);
    // Device times are whole nanoseconds, so two of them are lost in addition to the error of the map.
    let bound = error_ns / trace.clock.ns_per_tick + 2.0 / trace.clock.ns_per_tick + 2.0;
    for (span, (start, end)) in streams[0].spans.iter().zip(&launched) {
        assert!(span.start.abs_diff(*start) as f64 <= bound && span.end.abs_diff(*end) as f64 <= bound, "{bound}");
        assert_eq!(trace.site(span).map(|site| site.kind), Some(Kind::Kernel));
        assert_eq!(streams[0].detail_of(span).unwrap().counters.flops, 100.0);
    }
    let threads = trace.lanes.iter().find(|lane| lane.kind == LaneKind::Thread).unwrap();
    assert_eq!(threads.spans[0].corr, streams[0].spans[0].corr);
    assert_ne!(threads.spans[0].corr, threads.spans[1].corr);
}

#[test]
fn the_error_bound_covers_drift_and_noise() {
    // Brackets of different widths, with the reading anywhere inside.
    let pair = |host: u64, before: u64, after: u64| ClockPair {
        before: host - before,
        device_ns: device_ns(host, 0.4),
        after: host + after,
    };
    let pairs: Vec<ClockPair> =
        (1..200_u64).map(|n| pair(1_000_000_000 + n * 9_999_991, 10 + n * 7 % 900, 10 + n * 13 % 900)).collect();
    let map = ClockMap::fit(&pairs).unwrap();
    for host in (1_000_000_000..3_000_000_000).step_by(77_777_777) {
        let found = map.ticks(device_ns(host, 0.4));
        assert!(found.abs_diff(host) as f64 <= map.error_ticks, "{host} {found} {}", map.error_ticks);
    }
    let expected = 1.0 / (0.4 * 1.000_25);
    assert!((map.ticks_per_ns() / expected - 1.0).abs() < 1e-6);
    assert!(map.error_ticks < 2000.0);
}

#[test]
fn clocks_that_cannot_be_mapped_are_refused() {
    let pair = |before: u64, device_ns: u64| ClockPair { before, device_ns, after: before + 10 };
    let few = "the device's clock cannot be mapped: expected readings at two different times at least";
    let backwards = "the device's clock runs backwards against the host's; the readings are in the wrong order or \
                     the clock was reset";
    let refused = |pairs: &[ClockPair]| ClockMap::fit(pairs).unwrap_err().to_string();
    assert_eq!(refused(&[]), few);
    assert_eq!(refused(&[pair(100, 5)]), few);
    assert_eq!(refused(&[pair(100, 5), pair(200, 5)]), few);
    assert_eq!(refused(&[pair(100, 50), pair(200, 20)]), backwards);
    assert!(ClockMap::fit(&[pair(100, u64::MAX - 10), pair(200, u64::MAX)]).is_ok());
}

struct Broken;

impl DeviceTimeline for Broken {
    fn device(&self) -> String {
        "broken:1".into()
    }
    fn clock_pair(&mut self) -> Result<ClockPair, TimelineError> {
        Ok(ClockPair { before: ticks(), device_ns: 7, after: ticks() })
    }
    fn take_spans(&mut self) -> Result<Vec<DeviceSpan>, TimelineError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_device_whose_clock_stands_still_is_named() {
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let error = profiler.collect(&mut Broken).unwrap_err();
    assert!(error.to_string().starts_with("broken:1: the device's clock cannot be mapped"), "{error}");
}
