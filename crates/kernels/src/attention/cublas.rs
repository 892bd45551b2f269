//! The components of attention that are products, by NVIDIA's own library: f32 without TF32.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, PrepareError, Prepared, Tensors};

use super::shape::{Layout, Mask, Shape};
use super::steps::place;
use super::{Task, arrays};
use crate::device::{Arg, Buffer, Job, gpu};
use crate::gemm::{Place, Products};

fn prepare(task: Task, case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let s = Shape::of(case)?;
    arrays::check(task, &s, inputs)?;
    if matches!(task, Task::Scores | Task::WeightedSum) && s.mask != Mask::None {
        return Err(PrepareError::Unsupported("the library's products take no mask: mask=none".into()));
    }
    let mut job = Job::new(gpu);
    let mut held = Vec::new();
    for array in arrays::inputs(task, &s) {
        held.push((array.name, job.hold(Buffer::of_f32(gpu, inputs.f32(array.name)?)?)));
    }
    let input = |name: &str| held.iter().find(|(known, _)| *known == name).map_or(Arg::At(0), |(_, at)| *at);
    let output = arrays::output(task, &s);
    let y = job.output(output.name, Dtype::F32, &output.dims, 0)?;
    let (positions, d, n) = (s.positions(), s.dimension, s.sequence);
    let square = |at: Arg| Place { at, row: n, head: n * n, batch: s.heads * n * n };
    let (queries, keys) = (Layout::apart(&s, s.heads), Layout::apart(&s, s.kv_heads));
    let linear = |x: &str, w: &str, b: &str, outs: usize| {
        let [x, w, y] = [(input(x), d), (input(w), d), (y, outs)].map(|(at, row)| Place::one(at, row));
        Products { bias: Some(input(b)), ..Products::one([positions, outs, d], true, x, w, y) }
    };
    let by_head = |size: [usize; 3], transposed: bool, [a, b, c]: [Place; 3]| {
        let (sequences, heads, group) = (s.batch, s.heads, s.heads / s.kv_heads);
        Products { sequences, heads, group, ..Products::one(size, transposed, a, b, c) }
    };
    let products = match task {
        Task::Qkv => linear("x", "w_qkv", "b_qkv", s.projected()),
        Task::Output => linear("context", "w_out", "b_out", d),
        Task::Scores => {
            let places = [place(input("q"), queries), place(input("k"), keys), square(y)];
            Products { alpha: s.scale() as f32, ..by_head([n, n, s.head()], true, places) }
        }
        Task::WeightedSum => {
            let places = [square(input("weights")), place(input("v"), keys), place(y, queries)];
            by_head([n, s.head(), n], false, places)
        }
        _ => return Err(PrepareError::Unsupported("this is more than a product".into())),
    };
    products.launch_cublas(&mut job)?;
    Ok(job.boxed())
}

/// The row of a task that is a product.
pub(super) fn implementation(task: Task) -> Option<Implementation> {
    let about = match task {
        Task::Qkv | Task::Output => "NVIDIA's library, f32 without TF32, added to rows of the bias",
        Task::Scores | Task::WeightedSum => "NVIDIA's library, f32 without TF32; no mask",
        _ => return None,
    };
    let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, case, inputs, device);
    Some(Implementation { needs: DeviceKind::Cuda, ..Implementation::cpu(task.name(), "cublas", about, prepared) })
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, PrepareError, Registry, Value};

    use super::Task;
    use crate::device::{judge_cublas, test_devices};

    fn case(registry: &Registry, task: Task, sizes: [i64; 5], mask: &str) -> Case {
        let axes = registry.find(task.name()).unwrap().axes();
        let mut case = Case::new(task.name(), axes.iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect());
        for (axis, size) in ["batch", "sequence", "dimension", "heads", "kv-heads"].into_iter().zip(sizes) {
            case.set(axis, Value::Int(size));
        }
        case.set("mask", mask);
        case
    }

    #[test]
    fn cublas_gets_the_products_of_attention_right_and_refuses_masks() {
        let mut registry = Registry::new();
        crate::attention::register(&mut registry);
        for task in [Task::Qkv, Task::Scores, Task::WeightedSum, Task::Output] {
            // One value; several sequences and heads; heads that share keys.
            for sizes in [[1, 1, 1, 1, 0], [2, 17, 64, 2, 0], [1, 65, 32, 4, 2], [2, 7, 24, 8, 4]] {
                let case = case(&registry, task, sizes, "none");
                let inputs = registry.find(task.name()).unwrap().inputs(&case, 9).unwrap();
                judge_cublas(&registry, &case, &inputs);
            }
        }
        let masked = case(&registry, Task::Scores, [1, 4, 4, 1, 0], "causal");
        let inputs = registry.find("attention-scores").unwrap().inputs(&masked, 9).unwrap();
        let row = registry.implementations("attention-scores").into_iter().find(|row| row.name == "cublas").unwrap();
        for (_, device) in test_devices() {
            let refused = (row.prepare)(&masked, &inputs, &device).err();
            assert!(matches!(refused, Some(PrepareError::Unsupported(why)) if why.contains("mask=none")));
        }
    }
}
