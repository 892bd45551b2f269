//! `matmul` on a GPU: arrays on the device and the list of implementations. The products themselves are in
//! `ellwand_gpu::products`, those in bf16 in `gpu_half.rs`.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Tensors};

use super::gpu_half;
use super::workload::{NAME, Shape};
use ellwand_gpu::products::{Place, Products, Then};
use ellwand_gpu::{Gpu, GpuError, Job, gpu, on_cuda, on_wgpu};
use ellwand_simd::precision::Precision;

/// The product of a case with its arrays on the device, before any launch.
fn prepared(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<(Job, Products), PrepareError> {
    let mut job = Job::new(gpu(device)?);
    let shape = Shape::of(case)?;
    let Shape { m, n, k, transposed } = shape;
    let mut given = |name: &str, row: usize| -> Result<Place, PrepareError> {
        Ok(Place::one(job.upload::<f32>(shape.input(inputs, name)?.f32()?)?, row))
    };
    let (a, b) = (given("a", k)?, given("b", shape.b()[1])?);
    let c = Place::one(job.output("c", Dtype::F32, &[m, n], 0)?, n);
    Ok((job, Products::one([m, n, k], transposed, a, b, c)))
}

/// One implementation, in f32 and in bf16.
struct Row {
    name: &'static str,
    about: &'static str,
    /// Adds the product to a job.
    wide: fn(&Products, &mut Job) -> Result<(), GpuError>,
    narrow: fn(&Case, &Tensors, &Gpu) -> Result<Job, PrepareError>,
}

fn narrow_alone(_: &Products, _: &mut Job) -> Result<(), GpuError> {
    Err(GpuError::Absent("it computes only bf16 products (precision=bf16)".into()))
}

const ROWS: [Row; 4] = [
    Row {
        name: "cuda",
        about: "tiles in shared memory, the next ones prefetched; f32, 8 x 8 values per thread, or bf16 on tensor cores",
        wide: Products::launch_cuda,
        narrow: gpu_half::cuda,
    },
    Row {
        name: "cuda-hopper",
        about: "wgmma, tiles of 256 x 176 or 192, one warpgroup loads steps with the copy engine, two multiply; bf16",
        wide: narrow_alone,
        narrow: gpu_half::hopper,
    },
    Row {
        name: "cublas",
        about: "NVIDIA's library: f32 without TF32, or bf16 with sums in f32",
        wide: Products::launch_cublas,
        narrow: gpu_half::cublas,
    },
    Row {
        name: "wgpu",
        about: "tiles of 64 x 64 per workgroup, 4 x 4 per thread, f32",
        wide: |products, job| products.launch_wgpu(job, Then::Nothing),
        narrow: gpu_half::wgpu,
    },
];

/// The GPU implementations.
pub(super) fn implementations() -> [Implementation; 4] {
    ROWS.map(|Row { name, about, wide, narrow }| {
        let row = Implementation::cpu(NAME, name, about, move |case, inputs, device| {
            if Precision::of(case) == Precision::Bf16 {
                return Ok(narrow(case, inputs, gpu(device)?)?.boxed());
            }
            let (mut job, products) = prepared(case, inputs, device)?;
            wide(&products, &mut job)?;
            Ok(job.boxed())
        });
        if name == "wgpu" {
            let row = row.except("huge and tiny", "normal numbers: Vulkan may count subnormal ones as 0");
            return on_wgpu(row);
        }
        on_cuda(row)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use ellwand_core::{Case, Registry, Tensors, Value};

    use ellwand_gpu::products::{LEAST, SMALL, TINY, WIDE, fastest};
    use ellwand_gpu_lab::testing;
    use ellwand_gpu_lab::{judge, judge_cublas};

    /// One value; less than a step, a tile and a group of four; whole tiles; one more than each of them; several steps.
    pub(in super::super) const SIZES: [[i64; 3]; 7] =
        [[1, 1, 1], [3, 5, 7], [64, 64, 16], [65, 67, 17], [33, 130, 100], [70, 6, 33], [20, 16, 196]];

    /// The tile of `cuda` for products of this size.
    fn tile(size: [i64; 2], batch: usize, multiprocessors: usize) -> usize {
        fastest(size.map(|size| size as usize), batch, multiprocessors, &[LEAST, TINY, SMALL, WIDE])
    }

    /// Checks products of these sizes in both layouts.
    fn judged(sizes: &[[i64; 3]], judge: impl Fn(&Registry, &Case, &Tensors)) {
        judged_in("f32", sizes, judge);
    }

    /// A case of these sizes.
    pub(in super::super) fn case(registry: &Registry, sizes: [i64; 3], transposed: bool, precision: &str) -> Case {
        let [m, n, k] = sizes.map(Value::Int);
        let layout = ("transposed", Value::Flag(transposed));
        testing::case(registry, "matmul", &[("m", m), ("n", n), ("k", k), layout, ("precision", precision.into())])
    }

    pub(in super::super) fn judged_in(precision: &str, sizes: &[[i64; 3]], judge: impl Fn(&Registry, &Case, &Tensors)) {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        for (transposed, size) in [true, false].into_iter().flat_map(|t| sizes.iter().map(move |size| (t, *size))) {
            let case = case(&registry, size, transposed, precision);
            let inputs = registry.find("matmul").unwrap().inputs(&case, 11).unwrap();
            judge(&registry, &case, &inputs);
        }
    }

    #[test]
    fn cuda_gets_products_of_ragged_sizes_right() {
        judged(&SIZES, |registry, case, inputs| drop(judge(registry, case, inputs)));
    }

    #[test]
    fn cuda_takes_wide_tiles_for_products_that_fill_the_device() {
        // The emulator has three multiprocessors: tiles of 128 x 128, partial and whole, and of 64 x 64.
        let sizes = [[300, 200, 37], [380, 253, 9], [384, 256, 48], [180, 60, 37], [192, 64, 40]];
        assert_eq!(sizes.map(|[m, n, _]| tile([m, n], 1, 3)), [128, 128, 128, 64, 64]);
        judged(&sizes, |registry, case, inputs| drop(judge(registry, case, inputs)));
    }

    #[test]
    fn tiles_keep_all_multiprocessors_busy() {
        // On a device with 132 multiprocessors a square of 2048 uses wide tiles, one of 1024 small ones; narrow
        // products fill no wide tile.
        let tile = |m, n, batch| tile([m, n], batch, 132);
        assert_eq!([tile(2048, 2048, 1), tile(4096, 4096, 1), tile(512, 512, 96)], [128; 3]);
        assert_eq!([tile(1024, 1024, 1), tile(512, 2304, 1), tile(512, 64, 96)], [64; 3]);
        assert_eq!([tile(512, 512, 1), tile(256, 1024, 1)], [32; 2]);
        assert_eq!([tile(256, 256, 1), tile(34, 192, 1), tile(7, 16, 1)], [16; 3]);
    }

    #[test]
    fn cublas_gets_products_of_ragged_sizes_right() {
        judged(&SIZES, judge_cublas);
    }

    #[test]
    fn wgpu_gets_products_that_fill_no_tile_right() {
        let sizes = [[1, 1, 1], [3, 70, 17], [64, 64, 64], [65, 63, 100], [130, 5, 33], [2, 200, 257]];
        judged(&sizes, |registry, case, inputs| testing::judged_on_wgpu(registry, case, inputs, |_, _| {}));
    }
}
