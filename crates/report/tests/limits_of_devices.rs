//! The limits assigned to measurements on a synthetic device, and their wording.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/findings.rs"]
mod findings;

use ellwand_core::record::Record;
use ellwand_core::{Better, Ceiling, CeilingKind, Measurement, Parallelism, Provenance, Reading, Run, Sample, Work};
use ellwand_report::{Class, Diagnosis, Finding, Lever, Limit, Options, Report};
use findings::{MIB, of};

/// 4 TB/s from memory, 8 TB/s from the cache, 50 Tflop/s in f32, 800 Tflop/s in bf16 products and 50 GB/s over the
/// link; a launch takes 2 us.
fn card() -> Run {
    let mut run = common::run();
    let mut add = |kind, footprint_bytes: u64, value: f64| {
        run.environment.ceilings.push(Ceiling {
            kind,
            implementation: "cuda".into(),
            device: "cuda:0".into(),
            parallelism: Parallelism::Single,
            footprint_bytes,
            level: "device".into(),
            value,
            low: value,
            high: value,
            provenance: Provenance::Measured,
        });
    };
    // As measured: each time includes a launch, so small copies are slower than their bytes alone.
    for (footprint, rate) in [(4 * MIB, 3e12), (32 * MIB, 8e12), (512 * MIB, 4e12)] {
        add(CeilingKind::Copy, footprint, footprint as f64 / (footprint as f64 / rate + 2e-6));
    }
    add(CeilingKind::Fma, 0, 50e12);
    add(CeilingKind::ProductsBf16, 0, 800e12);
    add(CeilingKind::ToDevice, 32 * MIB, 50e9);
    add(CeilingKind::FromDevice, 32 * MIB, 40e9);
    add(CeilingKind::Call, 0, 2e-6);
    run
}

/// Takes `device_s` by the device clock; the wall time adds what the host needs for queueing.
fn ran(work: Work, device_s: f64, host_s: f64, launches: f64) -> Measurement {
    let mut m = common::measured(&common::lattice_case("w", 1000), "cuda", device_s, work);
    m.device = "cuda:0".into();
    for sample in &mut m.samples {
        let device_ns = sample.wall_ns;
        *sample = Sample {
            device_ns: Some(device_ns),
            wall_ns: device_ns + (host_s * 1e9 * sample.iterations as f64) as u64,
            ..*sample
        };
    }
    m.with_reading("launches", launches)
}

trait With {
    fn with_reading(self, id: &str, value: f64) -> Self;
}

impl With for Measurement {
    fn with_reading(mut self, id: &str, value: f64) -> Self {
        self.readings.push(Reading::derived(id, id, "", Better::Lower, value, ""));
        self
    }
}

fn placed(measurement: &Measurement) -> Diagnosis {
    ellwand_report::place(measurement, &card().environment).expect("it has times and ceilings")
}

fn findings(measurement: &Measurement) -> Vec<Finding> {
    let record: Record = common::through_text(&card(), std::slice::from_ref(measurement));
    Report::from_records(&[record], &Options::default()).unwrap().findings
}

fn moved(bytes: u64) -> Work {
    Work::items("things", 1000).bytes(bytes / 2, bytes / 2)
}

#[test]
fn each_limit_of_a_device_is_recognised_from_fixed_numbers() {
    let large = 512 * MIB;
    let at = |rate: f64| large as f64 / rate;
    let products = |flops: f64| Work::items("things", 1000).flops(flops).bytes(MIB, MIB);
    let cases = [
        (ran(moved(large), at(3.8e12), 1e-6, 1.0), Limit::Memory, Some(Lever::Fusion)),
        // In the cache, at a size where the launch takes a large part of the time.
        (ran(moved(16 * MIB), 4.6e-6, 1e-6, 1.0), Limit::Memory, Some(Lever::Fusion)),
        (ran(products(50e9), 1.1e-3, 1e-6, 1.0), Limit::Compute, Some(Lever::Precision)),
        (ran(products(800e9).bf16(true), 1.2e-3, 1e-6, 1.0), Limit::Compute, Some(Lever::Tuning)),
        (ran(moved(MIB), 9e-6, 1e-6, 4.0), Limit::Launch, Some(Lever::Batching)),
        // A record of an older program without a launch count: at least one launch.
        (ran(moved(MIB), 5e-6, 1e-6, 1.0), Limit::Launch, Some(Lever::Batching)),
        // As a graph: faster than separate launches.
        (ran(moved(MIB), 6e-6, 1e-6, 5.0), Limit::Launch, Some(Lever::Batching)),
        (
            ran(moved(64 * MIB), 1.6e-3, 1e-6, 1.0)
                .with_reading("carried-in", 32.0 * MIB as f64)
                .with_reading("carried-out", 32.0 * MIB as f64),
            Limit::Transfer,
            Some(Lever::Residency),
        ),
        (ran(moved(large), at(1e12), 1e-6, 1.0), Limit::Unexplained, Some(Lever::Tuning)),
        // Four times a launch, but the bytes explain more of the time.
        (ran(moved(24 * MIB), 8e-6, 1e-6, 1.0), Limit::Unexplained, Some(Lever::Tuning)),
        (ran(moved(large), at(6e12), 1e-6, 1.0), Limit::AboveCeiling, None),
    ];
    for (index, (measurement, limit, lever)) in cases.iter().enumerate() {
        let d = placed(measurement);
        assert_eq!(d.limit, *limit, "case {index}: {d:#?}");
        assert_eq!(d.changes.first().map(|change| change.lever), *lever, "case {index}: {d:#?}");
        assert!(d.changes.iter().all(|c| (0.0..=1.0).contains(&c.saving_upper_bound)), "case {index}: {d:#?}");
    }
    assert_eq!(placed(&cases[0].0).label(), "memory-bound (memory)");
    assert_eq!(placed(&cases[1].0).label(), "memory-bound (cache)");
}

#[test]
fn launches_are_excluded_from_the_bandwidth_limit_of_small_arrays() {
    // Between the measured sizes, at exactly the cache bandwidth, with one launch.
    for mebibytes in [5, 8, 12, 20, 31] {
        let bytes = mebibytes * MIB;
        let d = placed(&ran(moved(bytes), bytes as f64 / 8e12 + 2e-6, 0.0, 1.0));
        assert_ne!(d.limit, Limit::AboveCeiling, "{mebibytes} MiB: {d:#?}");
        let known: f64 = d.parts.iter().map(|part| part.seconds).sum();
        assert!((known / d.time_s - 1.0).abs() < 0.05, "{mebibytes} MiB: {d:#?}");
    }
}

#[test]
fn findings_on_a_device_give_advice_for_devices() {
    let m = ran(moved(512 * MIB), 512.0 * MIB as f64 / 1e12, 1e-6, 1.0);
    let tuned = |m: &Measurement| placed(m).changes[0].experiment;
    assert!(tuned(&m).contains("Nsight Compute"), "{}", tuned(&m));
    assert!(tuned(&m.clone().with_reading("occupancy", 0.9)).contains("Nsight Compute"));
    assert!(tuned(&m.with_reading("occupancy", 0.25)).contains("few warps are resident"));
    let launched = placed(&ran(moved(MIB), 9e-6, 1e-6, 4.0));
    assert!(launched.description().contains("empty launches"), "{}", launched.description());
    let found = findings(&ran(moved(MIB), 9e-6, 1e-6, 4.0));
    let bound = of("bound-by", &found).unwrap();
    assert!(bound.title.starts_with("launch-bound: "), "{bound:#?}");
    assert!(bound.next_experiment.contains("one graph"), "{bound:#?}");
}

#[test]
fn a_host_whose_launches_outlast_the_device_work_is_a_finding() {
    let found = findings(&ran(moved(MIB), 4e-6, 10e-6, 1.0));
    let finding = of("host-bound", &found).unwrap();
    assert_eq!(finding.class, Class::Caution);
    assert!((finding.saving_upper_bound.unwrap() - 0.6).abs() < 0.02, "{finding:#?}");
    assert!(of("host-bound", &findings(&ran(moved(MIB), 40e-6, 10e-6, 1.0))).is_none());
    let m = common::measured(&common::lattice_case("w", 1000), "simd", 1e-5, moved(MIB));
    assert!(of("host-bound", &findings(&m)).is_none(), "the processor has no host");
}

#[test]
fn without_device_time_or_ceilings_no_limit_is_named() {
    let mut m = ran(moved(512 * MIB), 1e-3, 0.0, 1.0);
    m.samples.iter_mut().for_each(|sample| sample.device_ns = None);
    assert!(ellwand_report::place(&m, &card().environment).is_none());
    m.device = "cuda:1".into();
    assert!(ellwand_report::place(&m, &card().environment).is_none(), "no ceiling of that card");
}
