//! Products of matrices as CUDA kernels (`product.cu`): f32, tiles in registers and shared memory, many products a launch.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, InputError, PrepareError, Prepared, Tensors};

use super::workload::{NAME, Shape};
use crate::device::{Arg, Buffer, GpuError, Grid, Job, Source, gpu, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "product.cu", text: include_str!("product.cu"), options: &[] };

const THREADS: u32 = 256;
const WIDE: usize = 128;
const SMALL: usize = 64;

/// Where the matrices of a series lie: address, values from row to row, from head to head, from sequence to sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) at: Arg,
    pub(crate) row: usize,
    pub(crate) head: usize,
    pub(crate) batch: usize,
}

impl Place {
    /// One matrix of rows that lie one after another.
    pub(crate) fn one(at: Arg, row: usize) -> Self {
        Self { at, row, head: 0, batch: 0 }
    }

    /// Whether every row of every matrix starts at a multiple of 16 bytes. Buffers start at multiples of 256.
    fn wide(self) -> bool {
        let Arg::At(at) = self.at else { return false };
        at.is_multiple_of(16) && [self.row, self.head, self.batch].iter().all(|step| step.is_multiple_of(4))
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

    /// Adds the launch to a job.
    pub(crate) fn launch(&self, job: &mut Job) -> Result<(), GpuError> {
        let [m, n, k] = self.size;
        let batch = self.sequences * self.heads;
        let tiles = |tile: usize| (n.div_ceil(tile), m.div_ceil(tile));
        let (columns, rows) = tiles(WIDE);
        // Two blocks of wide tiles fit a multiprocessor.
        let wide = columns * rows * batch >= 2 * job.multiprocessors() as usize;
        let (columns, rows) = if wide { (columns, rows) } else { tiles(SMALL) };
        let kernel = match (wide, self.transposed) {
            (true, true) => "product_wide_transposed",
            (true, false) => "product_wide",
            (false, true) => "product_small_transposed",
            (false, false) => "product_small",
        };
        // The hardware's limit of blocks in the second and third direction.
        if rows.max(batch) > 65_535 {
            return Err(GpuError::Call {
                call: "cuLaunchKernel",
                problem: format!("{rows} rows of tiles of {batch} products; a grid takes 65535 of each"),
            });
        }
        let flags = [(self.a, 1), (self.b, 2), (self.c, 4)];
        let flags = flags.iter().filter(|(place, _)| place.wide()).map(|(_, flag)| flag).sum();
        let (sees, lengths) = self.sees.args();
        let long = |value: usize| Arg::U64(value as u64);
        let args = vec![
            self.a.at,
            self.b.at,
            self.bias.unwrap_or(Arg::At(0)),
            self.c.at,
            lengths,
            whole(m),
            whole(n),
            whole(k),
            whole(self.a.row),
            whole(self.b.row),
            whole(self.c.row),
            long(self.a.batch),
            long(self.a.head),
            long(self.b.batch),
            long(self.b.head),
            long(self.c.batch),
            long(self.c.head),
            whole(self.heads),
            whole(self.group),
            Arg::U32(self.mask as u32),
            sees,
            Arg::U32(flags),
            Arg::F32(self.alpha),
        ];
        let blocks = [columns, rows, batch].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        job.launch(&SOURCE, kernel, Grid { blocks, threads: [THREADS, 1, 1], shared: 0 }, args)
    }
}

/// The product of a case with its arrays on the device, not yet launched by anything.
pub(super) fn prepared(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<(Job, Products), PrepareError> {
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

fn prepare(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let (mut job, products) = prepared(case, inputs, device)?;
    products.launch(&mut job)?;
    Ok(job.boxed())
}

/// The row of the table.
pub(super) fn implementation() -> Implementation {
    let about = "f32, 8 x 8 values a thread, steps of the sum in shared memory, two at a time";
    Implementation { needs: DeviceKind::Cuda, ..Implementation::cpu(NAME, "cuda", about, prepare) }
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Value};

    use crate::device::judge;

    fn product([m, n, k]: [i64; 3], transposed: bool) {
        let mut registry = Registry::new();
        crate::gemm::register(&mut registry);
        let sizes = [("m", m), ("n", n), ("k", k)];
        let mut params: Vec<(String, Value)> =
            sizes.iter().map(|(name, size)| (name.to_string(), Value::Int(*size))).collect();
        params.push(("transposed".into(), Value::Flag(transposed)));
        let case = Case::new("matmul", params);
        let inputs = registry.find("matmul").unwrap().inputs(&case, 11).unwrap();
        judge(&registry, &case, &inputs);
    }

    #[test]
    fn products_are_judged_right_at_ragged_sizes_in_both_layouts() {
        for transposed in [true, false] {
            // One value; less than a step, a tile and a group of four; whole tiles; one more than each of them.
            for size in [[1, 1, 1], [3, 5, 7], [64, 64, 16], [65, 67, 17], [33, 130, 100], [70, 6, 33]] {
                product(size, transposed);
            }
        }
    }

    #[test]
    fn products_that_fill_the_device_take_wide_tiles() {
        // The emulation has three multiprocessors: six tiles of 128 x 128.
        for transposed in [true, false] {
            product([257, 129, 37], transposed);
            product([384, 256, 16], transposed);
        }
    }
}
