//! The quantizer's views: distortion over rate, and a finding if few vectors dominate the error.

use ellwand_core::View;
use ellwand_core::view::{Curve, Outliers};

/// The workloads with readings of error and rate.
const CODING: [&str; 3] = ["lattice-encode", "lattice-decode", "lattice-quantize"];

pub(super) fn views() -> [View; 2] {
    let curve = Curve {
        workloads: CODING.map(String::from).into(),
        id: "rate-distortion".into(),
        title: "distortion against rate".into(),
        x: ("rate".into(), "rate (bits per dimension, side information included)".into()),
        y: ("snr".into(), "signal-to-noise ratio (dB)".into()),
        rival: Some(["uniform scalar", "scalar-rate", "scalar-snr"].map(String::from)),
    };
    let larger = "encode with a larger scale (`--beta`) or more retries, and compare error and rate";
    let retry = "encode with `--overload retry`, which finds a scale for each of them, or with a larger scale (`--beta`), and compare error and rate";
    let overloaded = Outliers {
        workloads: CODING.map(String::from).into(),
        id: "overloaded".into(),
        about: "vectors outside the codebook make at least half of the squared error".into(),
        title: "few vectors outside the codebook make most of the error".into(),
        mean: "mse".into(),
        inside: "mse-inside".into(),
        // With retries, the outliers are the vectors that no scale could cover.
        share: vec![("lost-rate".into(), larger.into()), ("overload-rate".into(), retry.into())],
        few: 0.2,
        most: 0.5,
    };
    [View::Curve(curve), View::Outliers(overloaded)]
}
