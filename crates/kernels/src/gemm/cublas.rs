//! Products of matrices by NVIDIA's own library: f32 without TF32.

use ellwand_core::{Case, Device, DeviceKind, Implementation, PrepareError, Prepared, Tensors};

use super::cuda::{Masked, Products, SOURCE, prepared};
use super::workload::NAME;
use crate::device::{Arg, GpuError, Grid, Job, Series, whole};

impl Products {
    /// Adds the calls of the library to a job: one for all products where their matrices lie at equal steps and each has a B
    /// of its own; otherwise one for the heads of a sequence that share a B. A bias is written into C first, by a kernel,
    /// and the product added to it.
    pub(crate) fn launch_cublas(&self, job: &mut Job) -> Result<(), GpuError> {
        let &Products { size, transposed, a, b, c, sequences, heads, group, .. } = self;
        if self.mask != Masked::Not {
            return Err(GpuError::Absent("the library's products take no mask: mask=none".into()));
        }
        let [m, n, _] = size;
        if let Some(bias) = self.bias {
            if (sequences * heads, c.row) != (1, n) {
                return Err(GpuError::Absent("a bias goes with one product of whole rows".into()));
            }
            let grid = Grid::line((m * n).div_ceil(256).min(8 * job.multiprocessors() as usize), 256);
            job.launch(&SOURCE, "spread_rows", grid, vec![bias, c.at, Arg::U64((m * n) as u64), whole(n)])?;
        }
        let places = [a, b, c];
        let beta = if self.bias.is_some() { 1.0 } else { 0.0 };
        let series = Series {
            size,
            transposed,
            at: places.map(|place| place.at),
            row: places.map(|place| place.row),
            step: places.map(|place| place.head),
            count: heads,
            alpha: self.alpha,
            beta,
        };
        let even = group == 1 && places.iter().all(|place| sequences == 1 || place.batch == heads * place.head);
        if even {
            return job.library(&Series { count: sequences * heads, ..series });
        }
        // Heads of a group share a B: it stands still within a call.
        let [a_step, b_step, c_step] = series.step;
        let step = if group == 1 { series.step } else { [a_step, 0, c_step] };
        let calls = if group == 1 { 1 } else { heads / group };
        for (sequence, call) in (0..sequences).flat_map(|sequence| (0..calls).map(move |call| (sequence, call))) {
            let on = |at: Arg, batch: usize, values: usize| Arg::At(at.word() + 4 * (sequence * batch + values) as u64);
            let first = call * group;
            let at = [
                on(a.at, a.batch, first * a_step),
                on(b.at, b.batch, call * b_step),
                on(c.at, c.batch, first * c_step),
            ];
            job.library(&Series { at, step, count: heads / calls, ..series })?;
        }
        Ok(())
    }
}

fn prepare(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let (mut job, products) = prepared(case, inputs, device)?;
    products.launch_cublas(&mut job)?;
    Ok(job.boxed())
}

/// The row of the table.
pub(super) fn implementation() -> Implementation {
    let about = "NVIDIA's library, f32 without TF32";
    Implementation { needs: DeviceKind::Cuda, ..Implementation::cpu(NAME, "cublas", about, prepare) }
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Value};

    use crate::device::judge_cublas;

    #[test]
    fn cublas_gets_products_of_both_layouts_right() {
        for (transposed, [m, n, k]) in
            [true, false].into_iter().flat_map(|t| [[1, 1, 1], [3, 5, 7], [65, 67, 17], [33, 130, 100]].map(|s| (t, s)))
        {
            let mut registry = Registry::new();
            crate::gemm::register(&mut registry);
            let sizes = [("m", m), ("n", n), ("k", k)];
            let mut params: Vec<(String, Value)> =
                sizes.iter().map(|(name, size)| (name.to_string(), Value::Int(*size))).collect();
            params.push(("transposed".into(), Value::Flag(transposed)));
            let case = Case::new("matmul", params);
            let inputs = registry.find("matmul").unwrap().inputs(&case, 11).unwrap();
            judge_cublas(&registry, &case, &inputs);
        }
    }
}
