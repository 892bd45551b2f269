//! The quantizer's views: distortion over rate, and a finding if few vectors dominate the error.

use ellwand_core::View;
use ellwand_core::view::{Curve, Measure, Outliers, Slope, Target, Targets};

/// The workloads with readings of error and rate.
const CODING: [&str; 3] = ["lattice-encode", "lattice-decode", "lattice-quantize"];

/// The targets stated by scripts for this quantizer, for D4 with q = 4 and two levels.
fn targets() -> Targets {
    let target = |workload: &str, about: &str, measure: Measure, limit: f64| Target {
        about: about.into(),
        workload: workload.into(),
        case: [("lattice", "D4"), ("q", "4"), ("levels", "2")].map(|(a, v)| (a.into(), v.into())).into(),
        measure,
        limit,
    };
    let mut targets = Vec::new();
    for (workload, rate, about) in [
        (CODING[0], 1e5, "at least 100 k vectors/s"),
        (CODING[1], 2e5, "at least 200 k vectors/s"),
        (CODING[2], 1e5, "at least 100 k vectors/s"),
    ] {
        targets.push(target(workload, about, Measure::Throughput, rate));
        targets.push(target(
            workload,
            "speed-up of at least 2 at the best batch (in the scripts: CUDA over PyTorch)",
            Measure::Speedup,
            2.0,
        ));
    }
    for workload in &CODING[..2] {
        targets.push(target(
            workload,
            "consistent over batch sizes: at the largest at least 80 % of the peak rate",
            Measure::Hold,
            0.8,
        ));
        targets.push(target(workload, "low variance: 80 % of the times within 10 %", Measure::Spread, 0.1));
    }
    let stored = || Measure::Reading("compression".into());
    targets.push(target(CODING[0], "stored codes at least 4 times smaller", stored(), 4.0));
    Targets { title: "targets of the profiling scripts".into(), targets }
}

pub(super) fn views() -> [View; 3] {
    let curve = Curve {
        workloads: CODING.map(String::from).into(),
        id: "rate-distortion".into(),
        title: "distortion against rate".into(),
        x: ("rate".into(), "rate (bits per dimension, side information included)".into()),
        y: ("snr".into(), "signal-to-noise ratio (dB)".into()),
        rival: Some(["uniform scalar", "scalar-rate", "scalar-snr"].map(String::from)),
        // The distortion-rate function of a normal source: D = power 2^(-2R).
        bound: Some(Slope { title: "limit of a normal source".into(), slope: 20.0 * 2_f64.log10() }),
    };
    let larger = "encode with a larger scale (`beta`) or more retries, and compare error and rate";
    let retry = "encode with `overload=retry`, which finds a scale for each of them, or with a larger scale (`beta`), and compare error and rate";
    let overloaded = Outliers {
        workloads: CODING.map(String::from).into(),
        id: "overloaded".into(),
        about: "vectors outside the codebook cause at least half of the squared error".into(),
        title: "few vectors outside the codebook cause most of the error".into(),
        mean: "mse".into(),
        inside: "mse-inside".into(),
        // With retries, the outliers are the vectors that no scale could cover.
        share: vec![("lost-rate".into(), larger.into()), ("overload-rate".into(), retry.into())],
        few: 0.2,
        most: 0.5,
    };
    [View::Curve(curve), View::Outliers(overloaded), View::Targets(targets())]
}
