//! Matrix products in WGSL (`product.wgsl`), for the workload and for the heads of attention.

use ellwand_core::{Case, Device, Dtype, InputError, PrepareError, Prepared, Tensors};

use super::workload::Shape;
use crate::device::{Arg, Buffer, GpuError, Grid, Job, Source, gpu};

/// The kernel.
pub(crate) static SOURCE: Source = Source {
    name: "product.wgsl",
    text: concat!(include_str!("product.wgsl"), include_str!("../device/portable.wgsl")),
    options: &[],
};

/// Rows and columns of C that a group makes.
const TILE: usize = 64;

/// Where the rows of a factor lie: element e of row r of head h of batch b is at `start + b batch + h head + r row + e`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// The array.
    pub(crate) at: Arg,
    /// Its first element that counts.
    pub(crate) start: usize,
    /// From one batch to the next.
    pub(crate) batch: usize,
    /// From one head to the next.
    pub(crate) head: usize,
    /// From one row to the next.
    pub(crate) row: usize,
}

impl Rows {
    /// One matrix with rows of `row` elements, one after another.
    pub(crate) fn matrix(at: Arg, row: usize) -> Self {
        Self { at, start: 0, batch: 0, head: 0, row }
    }
}

/// Which columns a row sees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Seen {
    /// All.
    All,
    /// Those up to the row's own.
    Causal,
    /// Those within the length of the batch; where the lengths lie.
    Within(Arg),
}

/// Products `C = alpha A B` of one shape, `heads` of them in each of `batches`, `group` of which share a B.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products {
    /// Rows of C, columns of C, length of the sums.
    pub(crate) shape: [usize; 3],
    /// How many, as batches and heads.
    pub(crate) many: [usize; 2],
    /// Heads that share a B.
    pub(crate) group: usize,
    /// Left factors.
    pub(crate) a: Rows,
    /// Right factors.
    pub(crate) b: Rows,
    /// Whether these are given as [n, k].
    pub(crate) transposed: bool,
    /// Products; `start` is 0.
    pub(crate) c: Rows,
    /// Multiplies.
    pub(crate) alpha: f32,
    /// Added to each row, if any.
    pub(crate) bias: Option<Arg>,
    /// Whether GELU (tanh form) comes after that.
    pub(crate) gelu: bool,
    /// An array like C that is added after that, if any.
    pub(crate) added: Option<Arg>,
    /// Columns of C that a row sees, the others become -infinity; or of A, where the others count as 0.
    pub(crate) seen: Seen,
    /// Whether that is about A.
    pub(crate) of_a: bool,
}

/// Offsets are counted in 32 bits.
pub(crate) fn word(value: usize) -> Result<Arg, PrepareError> {
    let too_large = |_| {
        PrepareError::Unsupported(format!("an array of {value} elements is needed, the kernels count to {}", u32::MAX))
    };
    Ok(Arg::U32(u32::try_from(value).map_err(too_large)?))
}

/// Adds the launch that makes products.
pub(crate) fn launch(job: &mut Job, p: &Products, nothing: Arg) -> Result<(), PrepareError> {
    let ([m, n, k], [batches, heads]) = (p.shape, p.many);
    let (mask, lengths) = match p.seen {
        Seen::All => (0, nothing),
        Seen::Causal => (if p.of_a { 3 } else { 1 }, nothing),
        Seen::Within(lengths) => (if p.of_a { 4 } else { 2 }, lengths),
    };
    let last = u32::from(p.bias.is_some()) | u32::from(p.gelu) << 1 | u32::from(p.added.is_some()) << 2;
    let sizes = [m, n, k, heads, p.group, usize::from(p.transposed)];
    let from = |rows: &Rows| [rows.start, rows.batch, rows.head, rows.row];
    let (a, b) = (from(&p.a), from(&p.b));
    let c = [p.c.batch, p.c.head, p.c.row];
    let whole = sizes.iter().chain(&a).chain(&b).chain(&c);
    let mut args = whole.map(|value| word(*value)).collect::<Result<Vec<Arg>, _>>()?;
    args.push(Arg::F32(p.alpha));
    args.extend([last, mask, f32::NEG_INFINITY.to_bits()].map(Arg::U32));
    args.push(word(batches * heads)?);
    args.extend([p.a.at, p.b.at, p.bias.unwrap_or(nothing), p.added.unwrap_or(nothing), lengths, p.c.at]);
    let groups = m.div_ceil(TILE) * n.div_ceil(TILE) * batches * heads;
    Ok(job.launch(&SOURCE, "product", Grid::line(groups, 256), args)?)
}

/// An array for bindings that are not looked at.
pub(crate) fn nothing(job: &mut Job, gpu: &crate::device::Gpu) -> Result<Arg, GpuError> {
    Ok(job.hold(Buffer::new(gpu, 4)?))
}

/// The workload `matmul`.
pub(super) fn prepare(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let shape = Shape::of(case)?;
    let mut job = Job::new(gpu);
    let nothing = nothing(&mut job, gpu)?;
    let mut sized = |name: &str, want: [usize; 2]| -> Result<Arg, PrepareError> {
        let array = inputs.get(name)?;
        if array.shape() != want {
            let problem = format!("its shape is {:?}", array.shape());
            return Err(InputError::new(name, problem, format!("{want:?}")).into());
        }
        Ok(job.hold(Buffer::of_f32(gpu, array.f32()?)?))
    };
    let (a, b) = (sized("a", [shape.m, shape.k])?, sized("b", shape.b())?);
    let c = job.output("c", Dtype::F32, &[shape.m, shape.n], 0)?;
    let products = Products {
        shape: [shape.m, shape.n, shape.k],
        many: [1, 1],
        group: 1,
        a: Rows::matrix(a, shape.k),
        b: Rows::matrix(b, shape.b()[1]),
        transposed: shape.transposed,
        c: Rows::matrix(c, shape.n),
        alpha: 1.0,
        bias: None,
        gelu: false,
        added: None,
        seen: Seen::All,
        of_a: false,
    };
    launch(&mut job, &products, nothing)?;
    Ok(job.boxed())
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Registry, Value};

    use crate::testing::{case, judged_on_wgpu};

    #[test]
    fn wgpu_products_are_judged_right_at_sizes_that_fill_no_tile() {
        let mut registry = Registry::new();
        crate::gemm::register(&mut registry);
        for (m, n, k) in [(1, 1, 1), (3, 70, 17), (64, 64, 64), (65, 63, 100), (130, 5, 33), (2, 200, 257)] {
            for transposed in [true, false] {
                let sizes = [("m", m), ("n", n), ("k", k)].map(|(axis, value)| (axis, Value::Int(value)));
                let all = [&sizes[..], &[("transposed", Value::Flag(transposed))]].concat();
                let case = case(&registry, "matmul", &all);
                let inputs = registry.find("matmul").unwrap().inputs(&case, 7).unwrap();
                judged_on_wgpu(&registry, &case, &inputs, |_, _| {});
            }
        }
    }
}
