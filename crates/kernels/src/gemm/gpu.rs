//! Products of matrices on a GPU, whoever multiplies: our kernels in CUDA (`cuda.rs`), those in Triton (`triton.rs`), NVIDIA's own
//! library (`cublas.rs`), our kernels in WGSL (`wgpu.rs`). What is multiplied, its arrays on the device and the rows of the table are
//! the same. The product in bf16 is in `gpu_half.rs`.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, InputError, PrepareError, Tensors};

use super::wgpu::Then;
use super::workload::{NAME, Shape};
use super::{gpu_half, triton};
use crate::device::{Arg, Buffer, Gpu, GpuError, Job, gpu, whole};
use crate::precision::Precision;

/// Rows and columns of C that a block or program makes.
pub(super) const TINY: usize = 32;
pub(super) const SMALL: usize = 64;
pub(super) const WIDE: usize = 128;

/// Where the matrices of a series lie: array, its first value that counts, values from row to row, from head to head, from
/// sequence to sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) at: Arg,
    pub(crate) start: usize,
    pub(crate) row: usize,
    pub(crate) head: usize,
    pub(crate) batch: usize,
}

impl Place {
    /// One matrix of rows that lie one after another.
    pub(crate) fn one(at: Arg, row: usize) -> Self {
        Self { at, start: 0, row, head: 0, batch: 0 }
    }

    /// The address of the first value, where addresses within an array are to be had.
    pub(crate) fn address(self) -> Arg {
        Arg::At(self.at.word() + 4 * self.start as u64)
    }

    /// Values from sequence to sequence, from head to head, from row to row, as kernels of attention have them.
    pub(crate) fn steps(self) -> [usize; 3] {
        [self.batch, self.head, self.row]
    }
}

/// What a prefix of the columns that a row sees does to a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masked {
    /// Nothing.
    Not,
    /// C is -inf beyond it.
    C,
    /// A counts as 0 beyond it.
    A,
}

/// How long that prefix is: everything, up to the row's own position, or the length of the sequence, an i64 each from here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sees {
    All,
    Causal,
    Lengths(Arg),
}

impl Sees {
    /// As the kernels have it: which, and the lengths.
    pub(crate) fn args(self) -> (Arg, Arg) {
        match self {
            Sees::All => (Arg::U32(0), Arg::At(0)),
            Sees::Causal => (Arg::U32(1), Arg::At(0)),
            Sees::Lengths(at) => (Arg::U32(2), at),
        }
    }
}

/// `sequences` times `heads` products `C = alpha A B + bias`, B as [k, n] or transposed as [n, k].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products {
    pub(crate) size: [usize; 3],
    pub(crate) transposed: bool,
    pub(crate) a: Place,
    pub(crate) b: Place,
    pub(crate) c: Place,
    pub(crate) bias: Option<Arg>,
    pub(crate) alpha: f32,
    pub(crate) sequences: usize,
    pub(crate) heads: usize,
    /// Heads of A and C that share one of B.
    pub(crate) group: usize,
    pub(crate) mask: Masked,
    pub(crate) sees: Sees,
}

impl Products {
    /// One product without bias.
    pub(crate) fn one(size: [usize; 3], transposed: bool, a: Place, b: Place, c: Place) -> Self {
        let (sequences, heads, group, mask, sees) = (1, 1, 1, Masked::Not, Sees::All);
        Self { size, transposed, a, b, c, bias: None, alpha: 1.0, sequences, heads, group, mask, sees }
    }

    /// Rows and columns of a tile, one of `sizes` in ascending order; blocks across and down C, and of all products.
    pub(super) fn tiles(&self, job: &Job, sizes: &[usize]) -> Result<(usize, [u32; 3]), GpuError> {
        let [m, n, _] = self.size;
        let batch = self.sequences * self.heads;
        let tile = fastest([m, n], batch, job.multiprocessors() as usize, sizes);
        let (columns, rows) = (n.div_ceil(tile), m.div_ceil(tile));
        // The hardware's limit of blocks in the second and third direction.
        if rows.max(batch) > 65_535 {
            return Err(GpuError::Call {
                call: "cuLaunchKernel",
                problem: format!("{rows} rows of tiles of {batch} products; a grid takes 65535 of each"),
            });
        }
        Ok((tile, [columns, rows, batch].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX))))
    }

    /// The arguments with which every kernel begins: arrays, sizes, steps, heads.
    pub(super) fn args(&self) -> Vec<Arg> {
        let [m, n, k] = self.size;
        let places = [self.a, self.b, self.c];
        let (_, lengths) = self.sees.args();
        let [a, b, c] = places.map(Place::address);
        let mut args = vec![a, b, self.bias.unwrap_or(Arg::At(0)), c, lengths];
        args.extend([m, n, k].map(whole));
        args.extend(places.map(|place| whole(place.row)));
        args.extend(places.iter().flat_map(|place| [place.batch, place.head].map(|step| Arg::U64(step as u64))));
        args.extend([self.heads, self.group].map(whole));
        args
    }
}

/// The tile that makes `batch` products of m x n soonest. A multiprocessor makes one after another, in a time that goes by their
/// values; a value of a smaller tile takes longer, since tiles share less of what they read.
pub(super) fn fastest([m, n]: [usize; 2], batch: usize, multiprocessors: usize, tiles: &[usize]) -> usize {
    let time = |tile: usize| {
        let turns = (n.div_ceil(tile) * m.div_ceil(tile) * batch).div_ceil(multiprocessors.max(1));
        let value = if tile >= WIDE { 3 } else { 2 + WIDE / tile };
        turns * tile * tile * value
    };
    tiles.iter().copied().min_by_key(|&tile| time(tile)).unwrap_or(SMALL)
}

/// The product of a case with its arrays on the device, not yet launched by anything.
fn prepared(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<(Job, Products), PrepareError> {
    let gpu = gpu(device)?;
    let shape = Shape::of(case)?;
    let Shape { m, n, k, transposed } = shape;
    let mut job = Job::new(gpu);
    let mut given = |name: &str, want: [usize; 2]| -> Result<Place, PrepareError> {
        let array = inputs.get(name)?;
        if array.shape() != want {
            let problem = format!("its shape is {:?}", array.shape());
            return Err(InputError::new(name, problem, format!("{want:?}")).into());
        }
        Ok(Place::one(job.hold(Buffer::of_f32(gpu, array.f32()?)?), want[1]))
    };
    let (a, b) = (given("a", [m, k])?, given("b", shape.b())?);
    let c = Place::one(job.output("c", Dtype::F32, &[m, n], 0)?, n);
    Ok((job, Products::one([m, n, k], transposed, a, b, c)))
}

/// A row of the table: the product in f32 and in bf16.
struct Row {
    name: &'static str,
    about: &'static str,
    /// How the product gets into a job.
    wide: fn(&Products, &mut Job) -> Result<(), GpuError>,
    narrow: fn(&Case, &Tensors, &Gpu) -> Result<Job, PrepareError>,
}

fn narrow_alone(_: &Products, _: &mut Job) -> Result<(), GpuError> {
    Err(GpuError::Absent("its products are in bf16: --precision bf16".into()))
}

const ROWS: [Row; 5] = [
    Row {
        name: "cuda",
        about: "tiles in shared memory, the next ones on their way; f32, 8 x 8 values a thread, or bf16 on tensor cores",
        wide: Products::launch_cuda,
        narrow: gpu_half::cuda,
    },
    Row {
        name: "cuda-hopper",
        about: "wgmma, tiles of 256 x 176 or 192, one warpgroup has the copy engine bring steps in for two that multiply; bf16",
        wide: narrow_alone,
        narrow: gpu_half::hopper,
    },
    Row {
        name: "triton",
        about: "Triton: tiles of up to 128 x 128 in f32 without TF32, of 128 x 256 in bf16 on tensor cores",
        wide: Products::launch_triton,
        narrow: triton::narrow,
    },
    Row {
        name: "cublas",
        about: "NVIDIA's library: f32 without TF32, or bf16 with sums in f32",
        wide: Products::launch_cublas,
        narrow: gpu_half::cublas,
    },
    Row {
        name: "wgpu",
        about: "tiles of 64 x 64 a group, 4 x 4 a thread, f32",
        wide: |products, job| products.launch_wgpu(job, Then::Nothing),
        narrow: gpu_half::wgpu,
    },
];

/// The rows of the table.
pub(super) fn implementations() -> [Implementation; 5] {
    ROWS.map(|Row { name, about, wide, narrow }| {
        let row = Implementation::cpu(NAME, name, about, move |case, inputs, device| {
            if Precision::of(case) == Precision::Bf16 {
                return Ok(narrow(case, inputs, gpu(device)?)?.boxed());
            }
            let (mut job, products) = prepared(case, inputs, device)?;
            wide(&products, &mut job)?;
            Ok(job.boxed())
        });
        Implementation { needs: if name == "wgpu" { DeviceKind::Wgpu } else { DeviceKind::Cuda }, ..row }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use ellwand_core::{Case, Registry, Tensors, Value};

    use crate::device::{judge, judge_cublas, judge_triton};
    use crate::testing;

    /// One value; less than a step, a tile and a group of four; whole tiles; one more than each of them.
    pub(in super::super) const SIZES: [[i64; 3]; 6] =
        [[1, 1, 1], [3, 5, 7], [64, 64, 16], [65, 67, 17], [33, 130, 100], [70, 6, 33]];

    /// Has the products of these sizes judged in both layouts.
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
        crate::gemm::register(&mut registry);
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
        // The emulation has three multiprocessors: tiles of 128 x 128, ragged and whole, and of 64 x 64.
        let sizes = [[300, 200, 37], [380, 253, 9], [384, 256, 48], [180, 60, 37], [192, 64, 40]];
        let tiles = sizes.map(|[m, n, _]| super::fastest([m, n].map(|size| size as usize), 1, 3, &[32, 64, 128]));
        assert_eq!(tiles, [128, 128, 128, 64, 64]);
        judged(&sizes, |registry, case, inputs| drop(judge(registry, case, inputs)));
    }

    #[test]
    fn tiles_keep_all_multiprocessors_busy() {
        // Of a device with 132: a square of 2048 does with wide tiles, one of 1024 with small ones; narrow products fill no
        // wide tile.
        let tile = |m, n, batch| super::fastest([m, n], batch, 132, &[32, 64, 128]);
        assert_eq!([tile(2048, 2048, 1), tile(4096, 4096, 1), tile(512, 512, 96)], [128; 3]);
        assert_eq!([tile(1024, 1024, 1), tile(512, 2304, 1), tile(512, 64, 96)], [64; 3]);
        assert_eq!([tile(512, 512, 1), tile(256, 256, 1), tile(7, 16, 1)], [32; 3]);
    }

    #[test]
    fn triton_gets_products_of_ragged_sizes_and_of_wide_tiles_right() {
        judged(&SIZES[..5], judge_triton);
        // Multiples of 16; tiles of 128 x 128 on the interpreter's three multiprocessors.
        assert_eq!(super::fastest([300, 208], 1, 3, &[64, 128]), 128);
        judged(&[[70, 16, 48], [300, 208, 48]], judge_triton);
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
