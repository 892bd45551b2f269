//! The memory of a case by part, and advice on the options that affect only memory.

use ellwand_core::Case;
use ellwand_simd::isa::Isa;

use super::options::{BIN_STEP, Method, ROW_STEP, Tiling, thread_bytes};
use super::workload_spec::{self as spec, Task};

/// The memory that a case needs by part, in bytes, known without running it.
pub(super) fn parts(task: Task, case: &Case) -> Vec<(&'static str, u64)> {
    let s = spec::shape(case);
    let (electrodes, encoding) = (s.electrodes as f64, s.electrodes as f64 * (s.encoding * 1.2 + 10.0));
    let (features, dims, bins) = (s.features as f64, s.dims as f64, s.bins as f64);
    // Arrays, their owned copy, and the model with its f32 forms.
    let spikes = encoding * (3.0 * 8.0 + 8.0 * (3.0 * features + 4.0 * dims));
    let decoding = electrodes * (s.decoding * 1.2 + 10.0) * (24.0 + 20.0 * features);
    let values = match task {
        Task::Fit => 2.0 * bins,
        Task::Local => s.edges as f64,
        Task::Predict | Task::Total | Task::Stream => s.edges as f64 * bins,
    };
    let rates = if task == Task::Fit { 8.0 * electrodes } else { 0.0 };
    let output = values * spec::precision(case).bytes() as f64 + rates;
    // The reference's position kernels of one electrode, and the per-bin data of the model.
    let reference = (s.encoding * 1.2 + 10.0) * bins * 8.0 + electrodes * bins * 4.0;
    let track = s.samples as f64 * dims * 64.0;
    let working = working(task, case).map_or(0, |(bytes, _)| bytes);
    vec![
        ("encoding spikes and model", spikes as u64),
        ("track", track as u64),
        ("decoding spikes", decoding as u64),
        ("output", output as u64),
        ("copy and expected output", (output + 8.0 * values + rates) as u64),
        ("blocks of one thread", working),
        ("reference", reference as u64),
        ("program", 32 << 20),
    ]
}

/// Maximum number of decoding spikes of an electrode: a Poisson number is practically always within five standard
/// deviations of its mean.
fn most_spikes(case: &Case) -> usize {
    let mean = spec::shape(case).decoding;
    (mean + 5.0 * mean.sqrt()) as usize
}

/// Working memory of one thread, and its blocks; `None` for tasks without blocks or options that do not fit.
pub(super) fn working(task: Task, case: &Case) -> Option<(u64, Tiling)> {
    let s = spec::shape(case);
    let options = spec::options(case, Method::Simd(Isa::best())).ok().filter(|_| task.predicts())?;
    let tiling = options.tiling(most_spikes(case), s.bins, s.dims, 0).ok()?;
    Some((thread_bytes(tiling, s.dims, &options), tiling))
}

/// The sizes that the blocks use instead of the requested ones: in a sweep over small sizes, several rows measure the same.
fn rounded(case: &Case, taken: Tiling) -> Option<String> {
    let steps = [("block", ROW_STEP, taken.block, "spikes"), ("tile", BIN_STEP, taken.tile, "bins")];
    // A size beyond the actual number gets less than its multiple; the advice on blocks reports that.
    let up = steps.into_iter().filter_map(|(axis, step, taken, of)| {
        let asked = case.float(axis)? as usize;
        let used = asked.next_multiple_of(step);
        (used != asked && used <= taken).then(|| format!("{axis} = {asked} is rounded up to {used} {of}"))
    });
    let up: Vec<String> = up.collect();
    (!up.is_empty()).then(|| {
        format!(
            "{}: blocks hold multiples of {ROW_STEP} spikes, tiles multiples of {BIN_STEP} bins; settings that round to the \
             same size measure the same",
            up.join(", ")
        )
    })
}

/// Options of blocks that have no effect, are rounded or cost time, and the effect of a large grid.
pub(super) fn advice(task: Task, case: &Case) -> Vec<String> {
    let Some((bytes, tiling)) = working(task, case) else { return Vec::new() };
    let mut auto = case.clone();
    ["block", "tile", "memory"].into_iter().for_each(|axis| auto.set(axis, "auto"));
    let Some((usual_bytes, usual)) = working(task, &auto) else { return Vec::new() };
    let given = |axis: &str| case.float(axis).is_some();
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let mut advice = Vec::new();
    if (given("block") || given("tile") || given("memory")) && tiling == usual {
        let names = ["block", "tile", "memory"].into_iter().filter(|axis| given(axis));
        let names: Vec<&str> = names.collect();
        advice.push(format!(
            "{} had no effect: auto uses the same blocks of {} spikes x {} bins, {:.1} MB per thread",
            names.join(", "),
            usual.block,
            usual.tile,
            mega(usual_bytes)
        ));
    } else {
        advice.extend(rounded(case, tiling));
    }
    if tiling.block < usual.block || tiling.tile < usual.tile {
        advice.push(format!(
            "blocks of {} spikes x {} bins need {:.1} MB per thread; auto uses {} x {} in {:.1} MB, which computes position \
             kernels less often",
            tiling.block,
            tiling.tile,
            mega(bytes),
            usual.block,
            usual.tile,
            mega(usual_bytes)
        ));
    }
    let bins = spec::shape(case).bins;
    if bins > usual.tile && tiling == usual {
        advice.push(format!(
            "a grid of {bins} bins is computed in tiles of {}: memory does not grow with it, and the axis memory limits it",
            usual.tile
        ));
    }
    advice
}
