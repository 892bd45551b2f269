//! The bf16 product on a GPU: kernels for the tensor cores of all architectures since Ampere (`matmul.cu`), kernels
//! with Hopper's own instructions (`matmul_hopper.cu`), and cuBLAS.

use ellwand_core::{Case, Dtype, PrepareError, Tensors};

use super::workload::Shape;
use ellwand_gpu::products::{SMALL, WIDE, fastest, need_bf16, need_hopper, unsupported};
use ellwand_gpu::{Arg, Gpu, Grid, Job, Series, Source, Tiles, files, whole};
use ellwand_simd::precision::bits;

/// The kernels for every architecture since Ampere.
pub(super) static SOURCE: Source =
    Source { name: "matmul.cu", text: files!("../../../devices/gpu/src/tensor.cuh", "matmul.cu"), options: &[] };

/// The kernels for Hopper.
pub(super) static HOPPER: Source = Source {
    name: "matmul_hopper.cu",
    text: files!("../../../devices/gpu/src/tensor.cuh", "../../../devices/gpu/src/hopper.cuh", "matmul_hopper.cu"),
    options: &[],
};

/// Depth of a tile of the portable kernel along the sum, and number of such tiles in shared memory.
const DEPTH: usize = 32;
const STAGES: usize = 4;

/// On Hopper: rows of C per block, columns of C with B transposed or not, depth of a tile along the sum, tiles in
/// shared memory, and rows that eight warps write at a time.
const HOPPER_ROWS: usize = 256;
const HOPPER_COLUMNS: [usize; 2] = [176, 192];
const HOPPER_DEPTH: usize = 64;
const HOPPER_STAGES: usize = 3;
const HOPPER_WRITTEN: usize = 128;

/// A job with its arrays on the device.
pub(super) struct Made {
    pub(super) job: Job,
    pub(super) shape: Shape,
    /// The arrays A, B and C.
    pub(super) arrays: [Arg; 3],
}

pub(super) fn make(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Made, PrepareError> {
    need_bf16(gpu)?;
    let shape = Shape::of(case)?;
    let Shape { m, n, .. } = shape;
    let mut job = Job::new(gpu);
    let mut given = |name: &str| -> Result<Arg, PrepareError> {
        shape.input(inputs, name)?;
        Ok(job.upload::<u16>(bits(inputs, name)?)?)
    };
    let (a, b) = (given("a")?, given("b")?);
    let c = job.output("c", Dtype::U16, &[m, n], 0)?;
    Ok(Made { job, shape, arrays: [a, b, c] })
}

/// The product with the portable kernels.
pub(super) fn cuda(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let mut made = make(case, inputs, gpu)?;
    let Shape { m, n, k, transposed } = made.shape;
    let tile = fastest([m, n], 1, made.job.multiprocessors() as usize, &[SMALL, WIDE]);
    let kernel = format!("matmul_{tile}{}", if transposed { "_transposed" } else { "" });
    // Flags for the arrays (A, B, C) whose rows are aligned to 16 bytes.
    let rows = [k, made.shape.b()[1], n];
    let wide = (0..3).filter(|at| rows[*at].is_multiple_of(8)).map(|at| 1 << at).sum();
    let mut args = made.arrays.to_vec();
    args.extend([m, n, k].map(whole));
    args.push(Arg::U32(wide));
    let grid = Grid::line(m.div_ceil(tile) * n.div_ceil(tile), 128).shared(STAGES * 2 * tile * DEPTH * 2);
    made.job.launch(&SOURCE, &kernel, grid, args)?;
    Ok(made.job)
}

/// Shared memory of a block on Hopper: the ring, the output of the warps, barriers, and padding to align to 1024 bytes.
const fn hopper_shared(columns: usize) -> usize {
    let ring = HOPPER_STAGES * 2 * (HOPPER_ROWS + columns) * HOPPER_DEPTH;
    ring + 2 * HOPPER_WRITTEN * (columns + 8) + 8 * 2 * HOPPER_STAGES + 1024
}

// The limit per block on Hopper.
const _: () = assert!(hopper_shared(HOPPER_COLUMNS[0]) <= 227 << 10 && hopper_shared(HOPPER_COLUMNS[1]) <= 227 << 10);

/// The product with the Hopper kernels.
pub(super) fn hopper(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    need_hopper(gpu)?;
    // Checked before any upload.
    let shape = Shape::of(case)?;
    if let Some(row) = [shape.k, shape.b()[1], shape.n].into_iter().find(|row| !row.is_multiple_of(8)) {
        return unsupported(format!(
            "the copy engine needs rows in multiples of 16 bytes; these have {row} bf16 values; use cuda"
        ));
    }
    let mut made = make(case, inputs, gpu)?;
    let Shape { m, n, k, transposed } = made.shape;
    let map = |at: Arg, [rows, values]: [usize; 2], cut: usize| {
        let Arg::At(address) = at else { return Ok(at) };
        gpu.tensor_map(Tiles { address, shape: [1, rows, values], rows: cut as u32 }).map(Arg::Map)
    };
    let [a, b, c] = made.arrays;
    let columns = HOPPER_COLUMNS[usize::from(!transposed)];
    // A box of B covers 64 steps of the sum and, if B's rows are columns of C, all columns of a tile; otherwise 64
    // columns.
    let cut = if transposed { columns } else { HOPPER_DEPTH };
    let mut args = vec![map(a, [m, k], HOPPER_ROWS)?, map(b, made.shape.b(), cut)?, c];
    args.extend([m, n, k].map(whole));
    let tiles = m.div_ceil(HOPPER_ROWS) * n.div_ceil(columns);
    let grid = Grid::line(tiles.min(made.job.multiprocessors() as usize), 384).shared(hopper_shared(columns));
    made.job.launch(&HOPPER, if transposed { "matmul_hopper_transposed" } else { "matmul_hopper" }, grid, args)?;
    Ok(made.job)
}

/// The product with cuBLAS.
pub(super) fn cublas(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let mut made = make(case, inputs, gpu)?;
    let Shape { m, n, k, transposed } = made.shape;
    let series = Series {
        size: [m, n, k],
        transposed,
        at: made.arrays,
        row: [k, made.shape.b()[1], n],
        step: [0; 3],
        count: 1,
        alpha: 1.0,
        beta: 0.0,
        bf16: true,
    };
    made.job.library(&series)?;
    Ok(made.job)
}

/// Always unsupported: WGSL has no bf16.
pub(super) fn wgpu(_: &Case, _: &Tensors, _: &Gpu) -> Result<Job, PrepareError> {
    unsupported("WGSL has neither bf16 nor matrix instructions; use precision=f32")
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, PrepareError, Registry, Tensors};

    use super::super::gpu::tests::{SIZES, case, judged_in};
    use ellwand_gpu::products::fastest;
    use ellwand_gpu_lab::{a_hopper_is_tested, judge, judge_cublas, test_devices};

    /// Checks bf16 products of these sizes in both layouts; `judge` asserts which implementations ran.
    fn judged_narrow(sizes: &[[i64; 3]], judge: impl Fn(&Registry, &Case, &Tensors)) {
        judged_in("bf16", sizes, judge);
    }

    /// Checks our own kernels; the Hopper kernel supports these sizes or not.
    fn judged_narrow_by_cuda(sizes: &[[i64; 3]], on_hopper: bool) {
        judged_narrow(sizes, |registry, case, inputs| {
            let Some(rows) = judge(registry, case, inputs) else { return };
            assert!(rows.contains("cuda"), "{case}: {rows:?}");
            assert!(!a_hopper_is_tested() || rows.contains("cuda-hopper") == on_hopper, "{case}: {rows:?}");
        });
    }

    #[test]
    fn cuda_bf16_gets_products_of_ragged_sizes_right() {
        // One value; one row; one column; unaligned rows; less than a step, and one value more than two steps.
        let sizes = [[1, 1, 1], [1, 70, 33], [90, 1, 40], [3, 5, 7], [65, 67, 65], [70, 130, 31]];
        judged_narrow_by_cuda(&sizes, false);
    }

    #[test]
    fn cuda_bf16_gets_products_by_the_copy_engine_right() {
        // Less than a tile and a step; whole ones; more tiles than blocks, with partial rows, columns and steps; the
        // ring reused in all its slots, by one tile and by the next.
        let sizes = [[1, 8, 8], [256, 192, 64], [300, 400, 136], [520, 392, 200], [257, 200, 448]];
        judged_narrow_by_cuda(&sizes, true);
    }

    #[test]
    fn cuda_bf16_takes_wide_tiles_for_products_that_fill_the_device() {
        let sizes = [[300, 200, 37], [384, 256, 96]];
        let tiles = sizes.map(|[m, n, _]| fastest([m, n].map(|size| size as usize), 1, 3, &[64, 128]));
        assert_eq!(tiles, [128; 2]);
        judged_narrow(&sizes, |registry, case, inputs| drop(judge(registry, case, inputs)));
    }

    #[test]
    fn cuda_bf16_puts_what_is_not_finite_where_the_reference_has_it() {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        for transposed in [true, false] {
            let case = case(&registry, [70, 200, 72], transposed, "bf16");
            let mut inputs = registry.find("matmul").unwrap().inputs(&case, 4).unwrap();
            // NaN in row 3 of A, infinity in column 150 of B.
            for (name, at, bits) in [("a", 3 * 72 + 65, 0x7fc0), ("b", if transposed { 150 * 72 } else { 150 }, 0x7f80)]
            {
                let mut array = inputs.take(name).unwrap();
                array.u16_mut().unwrap()[at] = bits;
                inputs.insert(name, array);
            }
            judge(&registry, &case, &inputs);
        }
    }

    #[test]
    fn cublas_gets_products_in_bf16_right() {
        judged_narrow(&SIZES, judge_cublas);
    }

    #[test]
    fn unsupported_cases_name_what_is_supported() {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        let reason = |name: &str, case: &Case| {
            let inputs = registry.find("matmul").unwrap().inputs(case, 1).unwrap();
            let row = registry.implementations("matmul").into_iter().find(|row| row.name == name).unwrap();
            // A real device may have another architecture.
            let (_, device) = test_devices().into_iter().find(|(name, _)| name.contains("emulation"))?;
            match (row.prepare)(case, &inputs, device.as_ref()).err() {
                Some(PrepareError::Unsupported(why)) => Some(why),
                other => panic!("{name} {case}: {other:?}"),
            }
        };
        let [wide, narrow] = ["f32", "bf16"].map(|precision| case(&registry, [8, 12, 8], true, precision));
        let Some(why) = reason("cuda-hopper", &narrow) else { return };
        assert_eq!(why, "the copy engine needs rows in multiples of 16 bytes; these have 12 bf16 values; use cuda");
        assert!(reason("cuda-hopper", &wide).unwrap().contains("precision=bf16"));
        assert!(reason("wgpu", &narrow).unwrap().contains("WGSL"));
    }
}
