//! Compares results with the f64 reference, and reports the largest difference and its place.

use ellwand_core::{Compared, Dtype, Tensor, Tensors, Tolerance, Verdict};

use super::options::Precision;
use super::workload_spec::Task;

/// (absolute, relative) tolerance of a task. In f32 it is the accuracy of sums over the spikes of a row; densities are
/// compared relatively, and absolutely below any significant value. In f64 the term of a spike has an error of about
/// 1e-14, so a row of hundreds of spikes stays within the limit.
fn allowed(task: Task, precision: Precision) -> (f64, f64) {
    match (task, precision) {
        (Task::Fit, Precision::F32) => (1e-13, 2e-5),
        (Task::Fit, Precision::F64) => (0.0, 1e-11),
        (_, Precision::F32) => (2e-4, 1e-5),
        (_, Precision::F64) => (1e-11, 0.0),
    }
}

/// The tolerance of a task's results.
pub(super) fn tolerance(task: Task, precision: Precision) -> Tolerance {
    let (absolute, relative) = allowed(task, precision);
    Tolerance::Close { absolute, relative }
}

/// Below this occupancy, f32 and f64 may differ: no sample is near.
const LEAST_OCCUPANCY: f64 = 1e-12;

/// Checks the outputs of a task.
pub(super) fn judge(
    task: Task,
    precision: Precision,
    expected: &Tensors,
    got: &Tensors,
    tolerance: Tolerance,
) -> Verdict {
    let (absolute, relative) = match tolerance {
        Tolerance::Close { absolute, relative } => (absolute, relative),
        Tolerance::Exact => (0.0, 0.0),
    };
    let name = match task {
        Task::Predict | Task::Total | Task::Stream => "log_likelihood",
        Task::Local => "local_log_likelihood",
        Task::Fit => "occupancy",
    };
    let mut names = vec![name];
    if task == Task::Fit {
        names.extend(["ground_process_intensity", "mean_rates"]);
    }
    let occupied: Vec<bool> = match expected.find("occupancy") {
        Some(occupancy) => occupancy.data().to_f64().iter().map(|pi| *pi > LEAST_OCCUPANCY).collect(),
        None => Vec::new(),
    };
    let mut worst = Worst::default();
    let (mut compared, mut of) = (0, 0);
    for name in names {
        let (Some(want), Some(have)) = (expected.find(name), got.find(name)) else {
            return Verdict::wrong(format!("output {name} is missing"));
        };
        let wanted = if precision == Precision::F64 { &[Dtype::F64][..] } else { &[Dtype::F32, Dtype::F64] };
        if !wanted.contains(&have.dtype()) {
            return Verdict::wrong(format!("output {name} is {}, wanted {wanted:?}", have.dtype()));
        }
        let rows = expected.find("rows").and_then(|rows| rows.u64().ok());
        let masked = if name == "mean_rates" { &[][..] } else { &occupied[..] };
        match each(name, want, have, rows, masked, (absolute, relative), &mut worst) {
            Ok((n, all)) => (compared, of) = (compared + n, of + all),
            Err(verdict) => return verdict,
        }
    }
    let all = match (expected.find("rows"), got.find(name)) {
        (Some(rows), Some(all)) if rows.len() < all.shape()[0] => {
            format!(" in {} of {} rows", rows.len(), all.shape()[0])
        }
        _ => String::new(),
    };
    if compared == 0 {
        return Verdict::wrong(format!(
            "nothing could be compared: no bin has an occupancy above {LEAST_OCCUPANCY:e}; take more samples, or bins where the animal was"
        ));
    }
    let at = if worst.error > 0.0 {
        format!("; the largest difference is {:.1e}, at {}", worst.error, worst.at)
    } else {
        String::new()
    };
    let verdict = Verdict::agree(Compared { values: compared as u64, of: of as u64 }, worst.error);
    Verdict { detail: format!("{}{all}{at}", verdict.detail), ..verdict }
}

#[derive(Default)]
struct Worst {
    error: f64,
    at: String,
}

/// Compares one array; `rows` are the rows of `have` that correspond to those of `want`. Returns how many values were
/// compared, and how many could have been.
fn each(
    name: &str,
    want: &Tensor,
    have: &Tensor,
    rows: Option<&[u64]>,
    occupied: &[bool],
    (absolute, relative): (f64, f64),
    worst: &mut Worst,
) -> Result<(usize, usize), Verdict> {
    let width = want.shape().get(1).copied().unwrap_or(want.len());
    let (have_width, have_len) = (have.shape().get(1).copied().unwrap_or(have.len()), have.len());
    if width != have_width || rows.is_none() && have_len != want.len() {
        let (got, expected) = (have.shape(), want.shape());
        return Err(Verdict::wrong(format!("output {name} has shape {got:?}, the reference {expected:?}")));
    }
    let (wanted, got) = (want.data().to_f64(), have.data().to_f64());
    let place = |row: usize, bin: usize| {
        if want.shape().len() > 1 { format!("{name}[{row}, {bin}]") } else { format!("{name}[{bin}]") }
    };
    let mut compared = 0;
    for (index, wanted) in wanted.chunks(width.max(1)).enumerate() {
        let row = rows.map_or(index, |rows| rows[index] as usize);
        let Some(got) = got.get(row * width..(row + 1) * width) else {
            return Err(Verdict::wrong(format!("output {name} has {} rows, row {row} is missing", have_len / width)));
        };
        for (bin, (w, h)) in wanted.iter().zip(got).enumerate() {
            if w.is_nan() || h.is_nan() {
                return Err(Verdict::wrong(format!("output {} is {h}, the reference {w}", place(row, bin))));
            }
            if !occupied.is_empty() && !occupied[bin] {
                continue;
            }
            compared += 1;
            let error = (h - w).abs();
            if error > absolute + relative * w.abs() {
                let allowed = format!("allowed {absolute:e} + {relative:e} |reference|");
                let place = place(row, bin);
                return Err(Verdict::beyond(error, format!("output {place} is {h:e}, the reference {w:e}, {allowed}")));
            }
            if error > worst.error {
                *worst = Worst { error, at: format!("{}, where the reference is {w:.6}", place(row, bin)) };
            }
        }
    }
    let bins = if occupied.is_empty() { width } else { occupied.iter().filter(|occupied| **occupied).count() };
    Ok((compared, bins * (have_len / width.max(1))))
}
