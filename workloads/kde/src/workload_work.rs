//! The work that a case requires: from its arrays, or before these exist, from the numbers in its axes.

use ellwand_core::{Case, Tensors, Work};

use super::arrays::Arrays;
use super::data::Spikes;
use super::generate::Sizes;
use super::options::Precision;
use super::workload_spec::{self as spec, Task};

/// Spikes of a data set, over all electrodes.
struct Load {
    encoding: f64,
    decoding: f64,
    /// Values of the marks of both epochs.
    marks: [f64; 2],
    /// Pairs of an encoding and a decoding spike of the same electrode.
    pairs: f64,
    /// Differences of mark values over all pairs.
    differences: f64,
}

impl Load {
    /// The mean numbers from the axes.
    fn nominal(s: &Sizes) -> Load {
        let (electrodes, features) = (s.electrodes as f64, s.features as f64);
        let (encoding, decoding) = (electrodes * s.encoding, electrodes * s.decoding);
        let pairs = encoding * s.decoding;
        Load {
            encoding,
            decoding,
            marks: [encoding * features, decoding * features],
            pairs,
            differences: pairs * features,
        }
    }

    /// The spikes of the arrays. Spikes outside the track or the time bins are not used.
    fn of(arrays: &Arrays) -> Load {
        let kept = |times: &[f64], spikes: &Spikes<'_>| match (times.first(), times.last()) {
            (Some(first), Some(last)) => spikes.within(*first, *last).len() as f64,
            _ => 0.0,
        };
        let edges: &[f64] = arrays.decoding.as_ref().map_or(&[], |(edges, _)| edges);
        let mut load = Load { encoding: 0.0, decoding: 0.0, marks: [0.0; 2], pairs: 0.0, differences: 0.0 };
        let mut decoding = arrays.decoding_spikes().into_iter();
        for spikes in arrays.encoding() {
            let features = spikes.n_features as f64;
            let encoded = kept(&arrays.position_time, &spikes);
            let decoded = decoding.next().map_or(0.0, |spikes| kept(edges, &spikes));
            load.encoding += encoded;
            load.decoding += decoded;
            load.marks[0] += encoded * features;
            load.marks[1] += decoded * features;
            load.pairs += encoded * decoded;
            load.differences += encoded * decoded * features;
        }
        load
    }
}

/// The work of a case with the mean numbers of spikes from its axes.
pub(super) fn nominal(task: Task, case: &Case) -> Work {
    let sizes = spec::shape(case);
    required(task, case, &sizes, &Load::nominal(&sizes))
}

/// The work of a case on these arrays.
pub(super) fn of_inputs(task: Task, case: &Case, inputs: &Tensors) -> Work {
    match Arrays::read(inputs, task != Task::Fit, task == Task::Local) {
        Ok(arrays) => required(task, case, &spec::shape(case), &Load::of(&arrays)),
        Err(_) => nominal(task, case),
    }
}

/// Operations of a fit of `arrays`.
pub(super) fn of_fit(case: &Case, arrays: &Arrays) -> f64 {
    fit(&spec::shape(case), &Load::of(arrays))
}

/// Operations of a kernel: a difference and a multiply-add for each coordinate, and one for the exponential.
fn kernel(s: &Sizes) -> f64 {
    3.0 * s.dims as f64 + 1.0
}

fn fit(s: &Sizes, load: &Load) -> f64 {
    (s.samples as f64 + load.encoding) * s.bins as f64 * kernel(s)
}

fn required(task: Task, case: &Case, s: &Sizes, load: &Load) -> Work {
    let (samples, bins, edges, dims) = (s.samples as f64, s.bins as f64, s.edges as f64, s.dims as f64);
    let read = 8.0 * ((dims + 1.0) * samples + dims * bins + load.encoding + load.marks[0]);
    let read_both = read + 8.0 * (edges + load.decoding + load.marks[1]);
    let sums = 2.0 * load.pairs * bins;
    let evaluations = samples + load.encoding;
    let spikes = load.decoding as u64;
    let rows = (4.0 * edges * bins) as u64;
    let work = match task {
        Task::Fit => Work::items("kernels", (evaluations * bins) as u64)
            .flops(fit(s, load))
            .bytes(read as u64, (4.0 * (2.0 * bins + s.electrodes as f64)) as u64),
        Task::Predict => Work::items("spikes", spikes).flops(sums).bytes(read_both as u64, rows),
        Task::Total => Work::items("spikes", spikes).flops(fit(s, load) + sums).bytes(read_both as u64, rows),
        Task::Stream => Work::items("bins", s.edges as u64 - 1).flops(sums).bytes(read_both as u64, rows),
        Task::Local => Work::items("spikes", spikes)
            .flops(
                3.0 * load.differences
                    + load.pairs * kernel(s)
                    + (edges * evaluations + load.decoding * samples) * kernel(s),
            )
            .bytes((read_both + 8.0 * edges * (dims + 1.0)) as u64, (4.0 * edges) as u64),
    };
    work.double(spec::precision(case) == Precision::F64)
}
