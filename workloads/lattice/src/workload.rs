//! Shared parts of the lattice workloads: axes, the code of a case, and its data.

use ellwand_core::{Axis, Case, Domain, InputError, Size, Tensor, Tensors, Value};
use ellwand_simd::isa::Isa;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::params::{Codec, Lattice, Overload, Params, beta_out_of_range};
use super::quality::choose_beta;

/// Standard deviation of matched data, in units of beta q^M: overload is rare, and every level is used.
fn matched_spread(lattice: Lattice) -> f64 {
    if lattice == Lattice::D4 { 0.20 } else { 0.17 }
}

/// The parameters of a case, except for beta.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    /// The code; beta is 1 if the data determine it.
    pub(super) params: Params,
    /// True if beta is chosen from the data.
    pub(super) automatic: bool,
    /// Number of vectors.
    pub(super) batch: usize,
    /// Standard deviation of the generated data.
    pub(super) spread: f64,
}

/// Axes of the code itself.
pub(super) fn code_axes() -> Vec<Axis> {
    vec![
        Axis::choice("lattice", "lattice of the quantizer", &["Z2", "D4", "E8"], "D4"),
        Axis::int("q", "nesting ratio: each level carries log2 q bits per dimension", 2, 256, 4),
        Axis::int("levels", "number of levels M, the finest first; q^M at most 2^20", 1, 20, 2).alias(&["M"]),
    ]
}

/// Axes of the encoding workloads.
pub(super) fn axes() -> Vec<Axis> {
    let mut axes = code_axes();
    axes.extend([
        Axis::int("batch", "vectors per iteration", 1, 1 << 32, 10_000)
            .sweep([1_i64, 10, 100, 1000, 10_000])
            .unit("vectors")
            .alias(&["batch-sizes"]),
        Axis::choice(
            "overload",
            "vectors outside the codebook: ignore, flag, or retry at larger scales",
            &OVERLOAD,
            "retry",
        ),
        Axis::new("centred", "shift the codebook so that its mean is the origin", Domain::Switch, false),
        Axis::new(
            "beta",
            "scale of the finest lattice, or auto for the best of a grid",
            Domain::PositiveOr(vec!["auto"]),
            "auto",
        ),
        Axis::choice(
            "data",
            "matched: normal, spread to use every level; seed: 0.5 * normal, with beta=1 the data of the profiling scripts",
            &["matched", "seed"],
            "matched",
        ),
        Isa::axis(),
    ]);
    axes
}

const OVERLOAD: [&str; 3] = ["none", "flag", "retry"];

/// Named sizes of the encoding workloads.
pub(super) fn sizes() -> Vec<Size> {
    let batch =
        |name, values: &[i64]| Size { name, values: vec![("batch", values.iter().map(|&v| Value::Int(v)).collect())] };
    vec![
        batch("tiny", &[1, 10, 100]),
        batch("small", &[1000, 10_000]),
        batch("medium", &[100_000]),
        batch("large", &[1_000_000]),
        // The feed-forward matrix of a model: 4096 x 11008 values in blocks of four.
        batch("realistic", &[11_272_192]),
        // From launch-bound to bandwidth-bound.
        batch("nvidia", &[1000, 100_000, 1_000_000, 16_000_000]),
    ]
}

/// Reads the code of a case. Missing axes take their defaults.
pub(super) fn spec(case: &Case) -> Result<Spec, InputError> {
    let lattice: Lattice = case.text("lattice").unwrap_or("D4").parse()?;
    let whole = |axis: &str, default: i64| {
        let value = case.int(axis).unwrap_or(default);
        u32::try_from(value)
            .map_err(|_| InputError::setting(axis, format!("{value} is out of range"), "a whole number from 1 to 2^32"))
    };
    let (q, levels) = (whole("q", 4)?, whole("levels", 2)?);
    let overload = match case.text("overload").unwrap_or("none") {
        "retry" => Overload::RETRY,
        "flag" => Overload::Flag,
        _ => Overload::None,
    };
    let automatic = case.text("beta") == Some("auto");
    let beta = case.float("beta").unwrap_or(1.0) as f32;
    let params = Params { lattice, q, levels, beta, centred: case.flag("centred").unwrap_or(false), overload };
    let side = f64::from(q).powi(levels as i32);
    let spread = match case.text("data") {
        Some("seed") => 0.5,
        _ => matched_spread(lattice) * side * f64::from(beta),
    };
    Ok(Spec { params, automatic, batch: case.size("batch", 1)?, spread })
}

/// Checks ranges without the cost of centring.
pub(super) fn check(case: &Case) -> Result<(), InputError> {
    let spec = spec(case)?;
    Codec::new(Params { centred: false, ..spec.params }).map(drop).map_err(|error| match case.float("beta") {
        // As given: the nearest f32 may be 0.
        Some(given) if error.argument == "beta" => beta_out_of_range(given),
        _ => error,
    })
}

/// Seeded normal data, f32 [n, d].
pub(super) fn normal(n: usize, d: usize, spread: f64, seed: u64) -> Result<Tensor, InputError> {
    let mut x = Tensor::zeros(ellwand_core::Dtype::F32, &[n, d])?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for value in x.f32_mut()? {
        let normal: f64 = StandardNormal.sample(&mut rng);
        *value = (normal * spread) as f32;
    }
    Ok(x)
}

/// The scale of a case for its data (padded vectors).
pub(super) fn resolve_beta(spec: &Spec, x: &[f32]) -> Result<f32, InputError> {
    if spec.automatic { choose_beta(&spec.params, x) } else { Ok(spec.params.beta) }
}

/// The code of a case, with the beta stored in its inputs.
pub(super) fn codec(case: &Case, inputs: &Tensors) -> Result<Codec, InputError> {
    let beta = inputs.scalar("beta")? as f32;
    Codec::new(Params { beta, ..spec(case)?.params })
}

/// Rejects arrays that are empty or hold values without a nearest point.
pub(super) fn finite(name: &str, x: &Tensor) -> Result<(), InputError> {
    if x.is_empty() || x.shape().is_empty() {
        return Err(InputError::new(name, format!("its shape is {:?}", x.shape()), "at least one axis and one value"));
    }
    let values = x.f32().map_err(|error| InputError { argument: name.to_owned(), ..error })?;
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(InputError::new(name, format!("value {at} is {}", values[at]), "finite numbers only")
            .help("replace or drop it first, for example with numpy.nan_to_num")),
        None => Ok(()),
    }
}
