//! Records of fixed numbers.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use ellwand_core::ceiling::Ceiling;
use ellwand_core::record::{Cache, CaseRecord, Record, Settings, line, parse};
use ellwand_core::{
    Better, Case, CeilingKind, Environment, Measurement, Outcome, Parallelism, Provenance, Reading, Run, Sample, Value,
    Verdict, View, Work,
};

pub fn environment() -> Environment {
    let ceiling = |kind, parallelism, footprint_bytes: u64, level: &str, value: f64| Ceiling {
        kind,
        implementation: "simd".into(),
        device: "cpu".into(),
        parallelism,
        footprint_bytes,
        level: level.into(),
        value,
        low: value * 0.98,
        high: value * 1.01,
        provenance: Provenance::Measured,
    };
    let mut ceilings = Vec::new();
    for (threads, factor) in [(Parallelism::Single, 1.0), (Parallelism::Many, 1.9)] {
        ceilings.push(ceiling(CeilingKind::Copy, threads, 16 << 10, "L1", 180e9 * factor));
        ceilings.push(ceiling(CeilingKind::Copy, threads, 512 << 10, "L2", 90e9 * factor));
        ceilings.push(ceiling(CeilingKind::Copy, threads, 64 << 20, "DRAM", 24e9 * factor));
        ceilings.push(ceiling(CeilingKind::Fma, threads, 0, "", 110e9 * factor));
    }
    Environment {
        os: "Linux 6.8".into(),
        architecture: "x86_64".into(),
        cpu: "Example Processor 9000".into(),
        cpu_features: vec!["avx2".into(), "fma".into(), "avx512f".into()],
        cores: 2,
        memory_bytes: Some(24 << 30),
        caches: vec![
            Cache { level: "L1".into(), bytes: 32 << 10, shared_by: 1 },
            Cache { level: "L2".into(), bytes: 1 << 20, shared_by: 1 },
            Cache { level: "L3".into(), bytes: 32 << 20, shared_by: 2 },
        ],
        load: Some(0.42),
        governor: None,
        huge_pages: Some("madvise".into()),
        virtualised: Some(true),
        clock_cost_ns: Some(42.0),
        clock_step_ns: Some(1.0),
        slot_cost_ns: Some(1750.0),
        compiler: "rustc 1.95.0".into(),
        devices: vec![("cpu".into(), "Example Processor 9000, 2 cores".into())],
        ceilings,
    }
}

pub fn run() -> Run {
    Run {
        version: ellwand_core::record::VERSION,
        id: "20261121T052600-0f1e".into(),
        command: ["ellwand", "run", "lattice", "--batch", "1,10,100,1000,10000", "-o", "my results"]
            .map(String::from)
            .to_vec(),
        started_unix_ms: 1_795_238_760_000,
        ellwand: "0.1.0".into(),
        seed: 7,
        environment: environment(),
        settings: Settings {
            slot_min_ns: 200_000,
            samples_min: 8,
            rounds_max: 200,
            case_budget_ns: 300_000_000,
            warm_up_ns: 50_000_000,
            caches: ellwand_core::Caches::Warm,
            counts: None,
            allowed: None,
        },
        revision: None,
        certificate: None,
        views: views(),
        shard: None,
    }
}

/// The views of a stored record, one of each kind.
pub fn views() -> Vec<View> {
    parse(include_str!("../../../../testdata/records/v1-views.jsonl")).unwrap().run.views
}

/// Twenty samples around `seconds`: a fixed zigzag of -3 % .. +6 %, slower in round 7, which has a context switch.
pub fn samples(seconds: f64, threads: f64, phase: usize) -> Vec<Sample> {
    let zigzag = [0.0, 0.02, -0.01, 0.01, -0.03, 0.03, 0.0, 0.06, -0.02, 0.01];
    let iterations = ((200e-6 / seconds).ceil() as u64).max(1);
    (0..20_u32)
        .map(|round| {
            let wall = seconds * (1.0 + zigzag[(round as usize + phase) % zigzag.len()]) * iterations as f64;
            Sample {
                block: 0,
                round,
                position: round % 4,
                iterations,
                wall_ns: (wall * 1e9).round() as u64,
                cpu_ns: Some((seconds * threads * iterations as f64 * 1e9).round() as u64),
                device_ns: None,
                switches: Some(u64::from(round == 7)),
                faults: Some(0),
                waits: Some(0),
                ..Sample::default()
            }
        })
        .collect()
}

pub fn lattice_case(workload: &str, batch: i64) -> Case {
    let params: Vec<(String, Value)> = vec![
        ("lattice".into(), "D4".into()),
        ("q".into(), 4.into()),
        ("levels".into(), 2.into()),
        ("batch".into(), batch.into()),
        ("overload".into(), "retry".into()),
        ("data".into(), "matched".into()),
    ];
    Case::new(workload, params)
}

fn unit(axis: &str) -> &'static str {
    if axis == "batch" { "vectors" } else { "" }
}

/// A measured cell that takes `seconds` per iteration.
pub fn measured(case: &Case, implementation: &str, seconds: f64, work: Work) -> Measurement {
    let many = implementation == "parallel";
    Measurement {
        case: CaseRecord::new(case, unit),
        implementation: implementation.into(),
        device: "cpu".into(),
        parallelism: if many { Parallelism::Many } else { Parallelism::Single },
        caches: ellwand_core::Caches::Warm,
        what_ran: if many {
            "avx512, 2 threads"
        } else if implementation == "simd" {
            "avx512"
        } else {
            ""
        }
        .into(),
        baseline: "reference".into(),
        work,
        outcome: Outcome::Measured,
        check: Some(Verdict::agree(ellwand_core::Compared::all(8), 0.0)),
        prepare_ns: Some(12_000),
        first_run_ns: Some((seconds * 1e9 * 2.5) as u64),
        samples: samples(seconds, if many { 1.8 } else { 1.0 }, implementation.len()),
        basis: None,
        settling: None,
        resolution_ns: Some(0.4),
        readings: Vec::new(),
        warnings: Vec::new(),
        session: 0,
    }
}

pub fn other(mut measurement: Measurement, outcome: Outcome) -> Measurement {
    measurement.outcome = outcome;
    measurement.samples.clear();
    measurement.first_run_ns = None;
    measurement.check = None;
    measurement
}

pub fn quality(batch: i64) -> Vec<Reading> {
    use Better::{Higher, Lower, Neither};
    vec![
        Reading::measured("mse", "MSE", "", Lower, 0.005_21 + 1e-5 / batch as f64, "mean squared error per value"),
        Reading::derived("snr", "SNR", "dB", Higher, 16.81, "10 log10 of power over mean squared error"),
        Reading::measured("overload-rate", "overload", "1", Lower, 0.0125, "share of vectors outside the codebook"),
        Reading::measured("level-1", "level 1 used", "1", Neither, 0.74, "share of vectors that use level 1"),
        Reading::derived("rate", "bits/dim", "bits/dim", Lower, 4.031, "all side information included"),
        Reading::derived("compression", "compression", "x", Higher, 7.94, "bits of f32 over bits of the code"),
    ]
}

/// One workload with five batch sizes and four implementations, including an absent device and a wrong answer.
pub fn lattice(workload: &str, scale: f64) -> Vec<Measurement> {
    let mut all = Vec::new();
    for batch in [1_i64, 10, 100, 1000, 10_000] {
        let case = lattice_case(workload, batch);
        let n = batch as u64;
        let work = Work::items("vectors", n).flops(60.0 * batch as f64).bytes(16 * n, 2 * n);
        let peak_memory = |bytes: f64| {
            Reading::measured(
                "peak-memory",
                "peak memory",
                "B",
                Better::Lower,
                bytes,
                "largest resident set while it ran",
            )
        };
        for (name, fixed, each, memory) in [
            ("reference", 90e-9, 800e-9, 3.0e6),
            ("scalar", 40e-9, 35e-9, 1.0e6),
            ("simd", 42e-9, 7e-9, 1.0e6),
            ("parallel", 4.5e-6, 3.7e-9, 1.2e6),
        ] {
            let mut m = measured(&case, name, scale * (fixed + each * batch as f64), work.clone());
            m.readings = quality(batch);
            m.readings.push(peak_memory(memory + 18.0 * batch as f64));
            m.warnings = vec!["level 1 stays unused by this data".into()];
            all.push(m);
        }
        let cuda = measured(&case, "cuda", 1e-6, work.clone());
        all.push(other(cuda, Outcome::Unsupported { why: "no CUDA driver was found (libcuda.so.1)".into() }));
        if batch == 100 {
            let sloppy = measured(&case, "sloppy", 1e-6, work);
            let verdict = Verdict::beyond(0.5, "output x[3] is 1.5, the reference 1.0");
            all.push(other(sloppy, Outcome::Wrong { verdict }));
        }
    }
    all
}

pub fn null() -> Vec<Measurement> {
    let case = Case::new("null", vec![]);
    let mut m = measured(&case, "empty", 0.2e-9, Work::items("calls", 1));
    m.baseline = "empty".into();
    vec![m]
}

/// Three lattice workloads and the null workload, as read back from disk.
pub fn record() -> Record {
    let mut all = lattice("lattice-encode", 1.0);
    all.extend(lattice("lattice-decode", 0.6));
    all.extend(lattice("lattice-quantize", 1.55));
    all.extend(null());
    through_text(&run(), &all)
}

/// A single workload, for snapshots that people read.
pub fn small_record() -> Record {
    let mut all = lattice("lattice-encode", 1.0);
    all.retain(|m| {
        [1, 100, 10_000].contains(&m.case.params.iter().find(|p| p.axis == "batch").map_or(0, |p| match p.value {
            ellwand_core::Value::Int(v) => v,
            _ => 0,
        }))
    });
    all.extend(null());
    through_text(&run(), &all)
}

/// Writes the lines and parses them again.
pub fn through_text(run: &Run, measurements: &[Measurement]) -> Record {
    let mut text = line(run).unwrap() + "\n";
    for measurement in measurements {
        text += &line(measurement).unwrap();
        text.push('\n');
    }
    parse(&text).unwrap()
}
