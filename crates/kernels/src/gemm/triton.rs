//! Products of matrices as Triton kernels (`product.py`): f32 without TF32, many products a launch.

use ellwand_core::{Case, Device, DeviceKind, Implementation, PrepareError, Prepared, Tensors};

use super::cuda::{Masked, Place, Products, prepared};
use super::workload::NAME;
use crate::device::{Arg, GpuError, Grid, Job, Source, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "product.py", text: include_str!("product.py"), options: &[] };

/// Rows and columns of C that a program makes.
const SMALL: usize = 64;
const WIDE: usize = 128;

impl Place {
    /// Whether every row of every matrix begins at a multiple of 16 bytes and lies multiples of 16 values on.
    fn sixteen(self) -> bool {
        self.at.word().is_multiple_of(16)
            && [self.row, self.head, self.batch].iter().all(|step| step.is_multiple_of(16))
    }
}

impl Products {
    /// Adds the launch of Triton's kernel to a job.
    pub(crate) fn launch_triton(&self, job: &mut Job) -> Result<(), GpuError> {
        let [m, n, k] = self.size;
        let problem = |problem: String| GpuError::Call { call: "cuLaunchKernel", problem };
        let kernel = match (self.transposed, self.mask) {
            (true, Masked::Not) => "product_transposed",
            (false, Masked::Not) => "product",
            (true, Masked::C) => "scores",
            (false, Masked::A) => "sums",
            (_, mask) => return Err(problem(format!("there is no kernel with this order of B that masks {mask:?}"))),
        };
        let batch = self.sequences * self.heads;
        let tiles = |tile: usize| (n.div_ceil(tile), m.div_ceil(tile));
        let even = [self.a, self.b, self.c].into_iter().all(Place::sixteen)
            && [n, k].iter().all(|size| size.is_multiple_of(16))
            && self.bias.is_none_or(|bias| bias.word().is_multiple_of(16));
        let (columns, rows) = tiles(WIDE);
        let wide = even && columns * rows * batch >= 2 * job.multiprocessors() as usize;
        let (columns, rows) = if wide { (columns, rows) } else { tiles(SMALL) };
        let kernel = match (wide, even) {
            (true, _) => format!("{kernel}_128_16"),
            (false, true) => format!("{kernel}_64_16"),
            (false, false) => format!("{kernel}_64"),
        };
        if rows.max(batch) > 65_535 {
            return Err(problem(format!("{rows} rows of tiles of {batch} products; a grid takes 65535 of each")));
        }
        let (sees, lengths) = self.sees.args();
        let steps = [self.a, self.b, self.c].map(|place| [place.batch, place.head]);
        let mut args = vec![self.a.at, self.b.at, self.bias.unwrap_or(Arg::At(0)), self.c.at, lengths];
        args.extend([m, n, k, self.a.row, self.b.row, self.c.row].map(whole));
        args.extend(steps.iter().flatten().map(|step| Arg::U64(*step as u64)));
        args.extend([self.heads, self.group].map(whole));
        args.extend([sees, Arg::U32(u32::from(self.bias.is_some())), Arg::F32(self.alpha)]);
        let blocks = [columns, rows, batch].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        job.launch(&SOURCE, &kernel, Grid { blocks, threads: [1; 3], shared: 0 }, args)
    }
}

fn prepare(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let (mut job, products) = prepared(case, inputs, device)?;
    products.launch_triton(&mut job)?;
    Ok(job.boxed())
}

/// The row of the table.
pub(super) fn implementation() -> Implementation {
    let about = "Triton: tiles of 64 x 64 or 128 x 128, f32 without TF32";
    Implementation { needs: DeviceKind::Cuda, ..Implementation::cpu(NAME, "triton", about, prepare) }
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Value};

    use crate::device::judge_triton;

    fn product([m, n, k]: [i64; 3], transposed: bool) {
        let mut registry = Registry::new();
        crate::gemm::register(&mut registry);
        let sizes = [("m", m), ("n", n), ("k", k)];
        let mut params: Vec<(String, Value)> =
            sizes.iter().map(|(name, size)| (name.to_string(), Value::Int(*size))).collect();
        params.push(("transposed".into(), Value::Flag(transposed)));
        let case = Case::new("matmul", params);
        let inputs = registry.find("matmul").unwrap().inputs(&case, 11).unwrap();
        judge_triton(&registry, &case, &inputs);
    }

    #[test]
    fn products_are_judged_right_at_ragged_sizes_in_both_layouts() {
        for transposed in [true, false] {
            for size in [[1, 1, 1], [3, 5, 7], [64, 64, 16], [65, 67, 17], [33, 130, 100], [70, 16, 48]] {
                product(size, transposed);
            }
            // Six tiles of 128 x 128 fill the interpreter's three multiprocessors.
            product([257, 144, 48], transposed);
        }
    }
}
