//! Matrix products by cuBLAS: f32 without TF32.

use super::cuda::SOURCE;
use super::{Masked, Place, Products, Sees};
use crate::{Arg, GpuError, Grid, Job, Series, whole};

impl Products {
    /// Adds the cuBLAS calls to a job: one batch for all products if their matrices have equal strides and no two share
    /// a B; otherwise one per group of heads that shares a B. A kernel first writes a bias into C, and the product is
    /// added to it.
    pub fn launch_cublas(&self, job: &mut Job) -> Result<(), GpuError> {
        let &Products { size, transposed, a, b, c, sequences, heads, group, .. } = self;
        if self.mask != Masked::Not && self.sees != Sees::All {
            return Err(GpuError::Absent("cuBLAS products support no mask: use mask=none".into()));
        }
        let [m, n, _] = size;
        if let Some(bias) = self.bias {
            if (sequences * heads, c.row) != (1, n) {
                return Err(GpuError::Absent("a bias needs a single product of whole rows".into()));
            }
            let grid = Grid::line((m * n).div_ceil(256).min(8 * job.multiprocessors() as usize), 256);
            job.launch(&SOURCE, "spread_rows", grid, vec![bias, c.at, Arg::U64((m * n) as u64), whole(n)])?;
        }
        let places = [a, b, c];
        let beta = if self.bias.is_some() { 1.0 } else { 0.0 };
        let series = Series {
            size,
            transposed,
            at: places.map(Place::address),
            row: places.map(|place| place.row),
            step: places.map(|place| place.head),
            count: heads,
            alpha: self.alpha,
            beta,
            bf16: false,
        };
        let even = group == 1 && places.iter().all(|place| sequences == 1 || place.batch == heads * place.head);
        if even {
            return job.library(&Series { count: sequences * heads, ..series });
        }
        // The heads of a group share a B, so its stride within a call is 0.
        let [a_step, b_step, c_step] = series.step;
        let step = if group == 1 { series.step } else { [a_step, 0, c_step] };
        let calls = if group == 1 { 1 } else { heads / group };
        for (sequence, call) in (0..sequences).flat_map(|sequence| (0..calls).map(move |call| (sequence, call))) {
            let on = |place: Place, values: usize| {
                Place { start: place.start + sequence * place.batch + values, ..place }.address()
            };
            let first = call * group;
            let at = [on(a, first * a_step), on(b, call * b_step), on(c, first * c_step)];
            job.library(&Series { at, step, count: heads / calls, ..series })?;
        }
        Ok(())
    }
}
