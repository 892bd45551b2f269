//! Shared parts of the workloads: axes, sizes, and the options of a case.

use ellwand_core::{Axis, Case, Domain, InputError, Size, Value};

use super::generate::{self, Data, Sizes};
use super::options::{Method, Options, Precision};
use ellwand_simd::isa::Isa;

ellwand_core::words! {
    /// The task of a workload.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Task {
        /// From spikes and track to an encoding model.
        Fit = "kde-fit",
        /// From model and spikes to a log likelihood at every bin.
        Predict = "kde-predict",
        /// `Fit` and `Predict`, one after the other.
        Total = "kde-fit-predict",
        /// From model and spikes to a log likelihood at the animal's position.
        Local = "kde-predict-local",
        /// As `Predict`, one time bin after the other.
        Stream = "kde-stream",
    }
    /// The name of its workload.
    fn name;
}

impl Task {
    /// True if the result is a log likelihood at every bin of the whole recording.
    pub(super) fn predicts(self) -> bool {
        matches!(self, Task::Predict | Task::Total)
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Task::Fit => "clusterless decoder: encoding model (occupancy, ground process, rates) from spikes and track",
            Task::Predict => "clusterless decoder: log likelihood of each time bin at each position bin",
            Task::Total => "clusterless decoder: fit and prediction, one after the other",
            Task::Local => "clusterless decoder: log likelihood of each time bin at the animal's own position",
            Task::Stream => {
                "clusterless decoder in closed loop: time bins of 2 ms one after the other, each decoded alone"
            }
        }
    }
}

/// Axes for how a task is computed. They were added later: their defaults leave case ids unchanged.
fn how(task: Task) -> Vec<Axis> {
    let precision = Axis::choice(
        "precision",
        "type of kernels, sums and results: f32 within 2e-4 + 1e-5 |LL| of the reference, f64 within 1e-11",
        &["f32", "f64"],
        "f32",
    );
    let threads = Axis::new(
        "threads",
        "threads of parallel, at most the machine's (affects speed, never the result)",
        Domain::PositiveOr(vec!["auto"]),
        "auto",
    );
    if task == Task::Stream {
        return vec![Isa::axis()];
    }
    let mut axes = vec![precision, threads, Isa::axis()];
    axes.iter_mut().for_each(|axis| axis.neutral = axis.default.first().cloned());
    axes
}

/// The precision of a case.
pub(super) fn precision(case: &Case) -> Precision {
    if case.text("precision") == Some("f64") { Precision::F64 } else { Precision::F32 }
}

/// The axes of a task.
pub(super) fn axes(task: Task) -> Vec<Axis> {
    let mut axes = vec![
        Axis::choice(
            "data",
            "script: the published profiling script's numbers; structured: place cells, outliers, a silent electrode",
            &["script", "structured"],
            "script",
        ),
        Axis::int("samples", "position samples T of the encoding epoch", 1, 1 << 24, 500).unit("samples"),
        Axis::int("electrodes", "electrodes E", 1, 1 << 16, 8).unit("electrodes"),
        Axis::int("enc-spikes", "mean number of encoding spikes per electrode", 1, 1 << 24, 50).unit("spikes"),
        Axis::int("bins", "interior position bins B", 1, 1 << 20, 200).unit("bins"),
        Axis::int("features", "features F of a mark", 1, 64, 2),
        Axis::int("dims", "dimensions of the position: 1 a track, 2 a box", 1, 2, 1),
    ];
    axes.extend(how(task));
    if task == Task::Fit {
        return axes;
    }
    axes.extend([
        Axis::int("edges", "edges N of the time bins", 2, 1 << 24, 100).unit("edges"),
        Axis::int("dec-spikes", "mean number of decoding spikes per electrode", 1, 1 << 24, 30).unit("spikes"),
    ]);
    if task == Task::Stream {
        // Each spike uses all encoding spikes of its electrode: the number is that of closed-loop use, not the script's.
        let usual = [("data", "structured".into()), ("samples", Value::Int(10_000)), ("electrodes", Value::Int(64))];
        let spikes = [("enc-spikes", Value::Int(10_000)), ("features", Value::Int(4)), ("edges", Value::Int(201))];
        for (name, value) in usual.into_iter().chain(spikes).chain([("dec-spikes", Value::Int(8))]) {
            axes.iter_mut().filter(|axis| axis.name == name).for_each(|axis| axis.default = vec![value.clone()]);
        }
    }
    if matches!(task, Task::Local | Task::Stream) {
        return axes;
    }
    let auto = || Domain::PositiveOr(vec!["auto"]);
    axes.extend([
        Axis::new("skip", "skip encoding spikes too far from a bin to lift it above the floor", Domain::Switch, true)
            .sweep([true, false]),
        Axis::new(
            "block",
            "decoding spikes at a time, rounded up to a multiple of 12 (affects memory, never the result)",
            auto(),
            "auto",
        ),
        Axis::new(
            "tile",
            "bins at a time, rounded up to a multiple of 32 (affects memory, never the result)",
            auto(),
            "auto",
        ),
        Axis::new("memory", "working memory in MB for which block and tile are chosen", auto(), "auto").unit("MB"),
    ]);
    axes
}

/// Sizes of the published script, and the size at which the published decoder is deployed, with a tenth of its spikes.
pub(super) fn sizes(task: Task) -> Vec<Size> {
    if task == Task::Stream {
        let size = |name, values: [i64; 4]| {
            Size::new(name, ["electrodes", "enc-spikes", "bins", "dec-spikes"].into_iter().zip(values))
        };
        return vec![
            size("tiny", [4, 200, 50, 8]),
            size("small", [16, 1000, 100, 8]),
            size("medium", [32, 3000, 200, 8]),
            size("large", [64, 5000, 200, 8]),
            size("realistic", [64, 10_000, 200, 8]),
        ];
    }
    let size = |name, [samples, edges, electrodes, encoding, decoding, bins]: [i64; 6]| {
        let mut values =
            vec![("samples", samples), ("electrodes", electrodes), ("enc-spikes", encoding), ("bins", bins)];
        if task != Task::Fit {
            values.extend([("edges", edges), ("dec-spikes", decoding)]);
        }
        Size::new(name, values)
    };
    let mut deployment = size("deployment", [20_000, 2000, 22, 4545, 500, 3420]);
    deployment.values.extend([
        ("data", vec!["structured".into()]),
        ("features", vec![Value::Int(4)]),
        ("dims", vec![Value::Int(2)]),
    ]);
    vec![
        size("tiny", [100, 50, 4, 20, 10, 100]),
        size("small", [500, 100, 8, 50, 30, 200]),
        size("medium", [2000, 500, 16, 200, 100, 500]),
        size("large", [5000, 1000, 32, 500, 300, 1000]),
        size("realistic", [10_000, 2000, 64, 1000, 400, 2000]),
        deployment,
    ]
}

/// Length of a time bin of the stream, in seconds.
pub(super) const STREAM_BIN: f64 = 0.002;

/// The sizes of a case. Axes that the task lacks get the smallest size.
pub(super) fn shape(case: &Case) -> Sizes {
    Sizes {
        samples: case.count("samples", 1),
        edges: case.count("edges", 2),
        electrodes: case.count("electrodes", 1),
        encoding: case.count("enc-spikes", 0) as f64,
        decoding: case.count("dec-spikes", 0) as f64,
        bins: case.count("bins", 1),
        features: case.count("features", 1),
        seconds: if case.workload == Task::Stream.name() {
            STREAM_BIN * (case.count("edges", 2) - 1) as f64
        } else {
            generate::DECODING
        },
        dims: case.count("dims", 1),
    }
}

/// The data of a case. Script data always use the script's seed.
pub(super) fn data(case: &Case, seed: u64) -> Data {
    let sizes = shape(case);
    if case.text("data") == Some("structured") { generate::structured(sizes, seed) } else { generate::script(sizes) }
}

/// The decoder options of a case.
pub(super) fn options(case: &Case, method: Method) -> Result<Options, InputError> {
    let count = |axis: &str| -> Result<Option<usize>, InputError> {
        match case.float(axis) {
            None => Ok(None),
            Some(n) if n.fract() == 0.0 && (1.0..1e9).contains(&n) => Ok(Some(n as usize)),
            Some(n) => {
                Err(InputError::setting(axis, format!("{n} is not a whole number"), "a whole number above 0, or auto"))
            }
        }
    };
    let threads = count("threads")?;
    let all = ellwand_simd::pool::threads();
    if let Some(most) = threads.filter(|most| *most > all) {
        let expected = format!("a whole number from 1 to {all}, or auto");
        return Err(InputError::setting(
            "threads",
            format!("{most} threads, but this process may use {all} processors"),
            expected,
        ));
    }
    Ok(Options {
        method,
        precision: precision(case),
        threads,
        block: count("block")?,
        tile: count("tile")?,
        memory: case.float("memory").map(|megabytes| (megabytes * 1e6) as u64),
        skip: case.flag("skip").unwrap_or(true),
    })
}
