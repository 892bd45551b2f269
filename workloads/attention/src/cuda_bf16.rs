//! The core in bf16 as CUDA kernels: on the tensor cores of all architectures since Ampere (`bf16.cu`), and with
//! Hopper's own instructions (`hopper.cu`).

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Tensors};

use super::gpu::{limited, sees};
use super::shape::Shape;
use super::{Task, arrays, bf16, cuda};
use ellwand_gpu::products::{need_bf16, need_hopper, unsupported};
use ellwand_gpu::{Arg, Gpu, Grid, Job, Source, Tiles, files, gpu, on_cuda, whole};
use ellwand_simd::precision::{Precision, widened};

/// The kernels for every architecture since Ampere.
pub(super) static SOURCE: Source = Source {
    name: "bf16.cu",
    text: files!("../../../devices/gpu/src/tensor.cuh", "mask.cuh", "bf16.cu"),
    options: &[],
};

/// The kernels for Hopper.
pub(super) static HOPPER: Source = Source {
    name: "hopper.cu",
    text: files!("../../../devices/gpu/src/tensor.cuh", "../../../devices/gpu/src/hopper.cuh", "mask.cuh", "hopper.cu"),
    options: &[],
};

/// Largest head sizes for which the portable kernel is compiled.
const HEADS: [usize; 2] = [64, 128];
/// Queries and keys per block of the portable kernel.
const TILE: usize = 64;
/// Queries per block and keys per tile on Hopper.
const HOPPER_TILE: usize = 128;
/// Queries of each of the two warpgroups that multiply.
const PART: usize = 64;
/// Tiles of keys or values in shared memory on Hopper.
const SLOTS: usize = 5;

/// A job with its arrays on the device.
pub(super) struct Made {
    pub(super) job: Job,
    pub(super) inputs: [Arg; 3],
    pub(super) output: Arg,
    /// Lengths, and the kind of mask.
    pub(super) sees: [Arg; 2],
    pub(super) s: Shape,
}

pub(super) fn make(gpu: &Gpu, case: &Case, inputs: &Tensors) -> Result<Made, PrepareError> {
    let s = Shape::of(case)?;
    s.check_one_length()?;
    arrays::check(Task::Core, &s, &widened(inputs.clone(), &bf16::INPUTS)?)?;
    if s.batch > 65_535 || s.heads > 65_535 {
        return unsupported(format!(
            "{} sequences of {} heads; the maximum of a grid is 65535 of each",
            s.batch, s.heads
        ));
    }
    let mut job = Job::new(gpu);
    let lengths = arrays::lengths(&s, inputs).unwrap_or_default();
    let sees = sees::<cuda::Cuda>(&mut job, s.mask, lengths)?;
    let mut held = [Arg::At(0); 3];
    for (at, name) in held.iter_mut().zip(bf16::INPUTS) {
        *at = job.upload::<u16>(inputs.get(name)?.u16()?)?;
    }
    let output = arrays::output(Task::Core, &s);
    let output = job.output(output.name, Dtype::U16, &output.dims, 0)?;
    let (sees, lengths) = sees.args();
    Ok(Made { job, inputs: held, output, sees: [lengths, sees], s })
}

impl Made {
    /// `scale` including log2 e, because weights are powers of two.
    pub(super) fn scale(&self) -> Arg {
        Arg::F32((self.s.scale() * std::f64::consts::LOG2_E) as f32)
    }

    fn grid(&self, tile: usize, threads: u32, shared: usize) -> Grid {
        let blocks = [self.s.sequence.div_ceil(tile), self.s.heads, self.s.batch];
        let blocks = blocks.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        Grid { blocks, threads: [threads, 1, 1], shared: 0 }.shared(shared)
    }
}

/// The job with the portable kernel.
pub(super) fn job(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    need_bf16(gpu)?;
    let mut made = make(gpu, case, inputs)?;
    let s = made.s;
    let Some(padded) = HEADS.into_iter().find(|padded| s.head() <= *padded) else {
        return unsupported(format!("the kernel takes heads of up to 128 values, not {}; choose more heads", s.head()));
    };
    let [q, k, v] = made.inputs;
    let [lengths, sees] = made.sees;
    // Rows are aligned to 16 bytes.
    let wide = Arg::U32(u32::from(s.head().is_multiple_of(8)));
    let sizes = [whole(s.sequence), whole(s.head()), whole(s.heads / s.kv_heads)];
    let args = [&[q, k, v, made.output, lengths][..], &sizes, &[sees, wide, made.scale()]].concat();
    // Two tiles of keys and two of values, with rows padded by eight values.
    let grid = made.grid(TILE, 128, 4 * TILE * (padded + 8) * 2);
    made.job.launch(&SOURCE, &format!("attention_bf16_{padded}"), grid, args)?;
    Ok(made.job)
}

/// The job with the Hopper kernel.
fn hopper(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    if Precision::of(case) != Precision::Bf16 {
        return unsupported("it computes only bf16 products (precision=bf16)");
    }
    need_hopper(gpu)?;
    let mut made = make(gpu, case, inputs)?;
    let s = made.s;
    let head = s.head();
    if !HEADS.contains(&head) {
        return unsupported(format!("the kernel takes heads of 64 or 128 values, not {head}; use cuda"));
    }
    let map = |at: Arg, heads: usize, rows: usize| {
        let shape = [s.batch * heads, s.sequence, head];
        let Arg::At(address) = at else { return Ok(at) };
        gpu.tensor_map(Tiles { address, shape, rows: rows as u32 }).map(Arg::Map)
    };
    let [q, k, v] = made.inputs;
    let [keys, values] = [map(k, s.kv_heads, HOPPER_TILE)?, map(v, s.kv_heads, HOPPER_TILE)?];
    let maps = [map(q, s.heads, PART)?, keys, values, map(made.output, s.heads, PART)?];
    let [lengths, sees] = made.sees;
    // Work items, each a tile of queries of one head; persistent blocks take them until none is left.
    let works = s.sequence.div_ceil(HOPPER_TILE) * s.heads * s.batch;
    let sizes = [s.sequence, s.heads, s.heads / s.kv_heads].map(whole);
    let args = [&maps[..], &[lengths], &sizes, &[sees, whole(works), made.scale()]].concat();
    // Queries, results, the ring, barriers, and padding to align to 1024 bytes.
    let tile = 2 * HOPPER_TILE * head;
    let grid = Grid::line(works.min(made.job.multiprocessors() as usize), 384);
    let grid = grid.shared(tile * (2 + SLOTS) + 1024 + 8 * (4 + 2 * SLOTS));
    made.job.launch(&HOPPER, &format!("attention_hopper_{head}"), grid, args)?;
    Ok(made.job.boxed())
}

/// The Hopper implementation, next to `cuda`.
pub(super) fn implementation(task: Task) -> Implementation {
    let about =
        "wgmma, tiles loaded by the copy engine, one warpgroup copies for two that alternate; bf16, heads of 64 or 128";
    let row = Implementation::cpu(task.name(), "cuda-hopper", about, hopper);
    limited(on_cuda(row), task)
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, PrepareError, Registry, Tensor};

    use super::super::tests::{self, registry};
    use super::Task;
    use ellwand_gpu_lab::{a_hopper_is_tested, judge, test_devices};

    /// A bf16 case of the core: batch, sequence, dimension, heads, kv-heads.
    fn case(registry: &Registry, sizes: [i64; 5], mask: &str) -> Case {
        let mut case = tests::case(registry, Task::Core.name(), sizes, mask);
        case.set("precision", "bf16");
        case
    }

    /// Checks cases that the Hopper kernel supports, or does not.
    fn judged(sizes: &[[i64; 5]], masks: &[&str], on_hopper: bool) {
        let registry = registry();
        for (sizes, mask) in sizes.iter().flat_map(|sizes| masks.iter().map(move |mask| (*sizes, mask))) {
            let case = case(&registry, sizes, mask);
            let inputs = registry.find(Task::Core.name()).unwrap().inputs(&case, 9).unwrap();
            let Some(rows) = judge(&registry, &case, &inputs) else { return };
            assert!(rows.contains("cuda"));
            assert!(!a_hopper_is_tested() || rows.contains("cuda-hopper") == on_hopper, "{case}: {rows:?}");
        }
    }

    const MASKS: [&str; 3] = ["none", "causal", "padding"];

    #[test]
    fn heads_of_any_size_are_judged_right_on_tensor_cores() {
        // One value; partial tiles; grouped heads; heads of 3 values, which are not aligned to 16 bytes; heads of 80.
        judged(
            &[[1, 1, 1, 1, 0], [2, 17, 64, 2, 0], [1, 65, 32, 4, 2], [1, 70, 9, 3, 1], [1, 66, 80, 1, 1]],
            &MASKS,
            false,
        );
    }

    #[test]
    fn heads_of_hopper_are_judged_right_with_tiles_that_are_used_again() {
        // Tiles of 128: part of one, five, two and a part; grouped heads, sequences with separate lengths.
        judged(&[[1, 5, 64, 1, 0], [1, 600, 64, 1, 0], [1, 130, 256, 2, 1], [2, 257, 128, 2, 1]], &MASKS, true);
        judged(&[[1, 400, 128, 1, 0]], &["causal"], true);
    }

    #[test]
    fn sequences_without_keys_give_nothing_and_what_is_not_finite_goes_where_the_reference_has_it() {
        let registry = registry();
        let task = registry.find(Task::Core.name()).unwrap();
        let empty = case(&registry, [2, 140, 64, 1, 0], "padding");
        let mut inputs = task.inputs(&empty, 6).unwrap();
        inputs.insert("lengths", Tensor::vector(&[0_i64, 130][..]));
        judge(&registry, &empty, &inputs);
        let causal = case(&registry, [1, 200, 128, 2, 1], "causal");
        let mut inputs = task.inputs(&causal, 3).unwrap();
        // NaN in a key, infinity in a query.
        for (name, at, bits) in [("k", 150 * 64 + 5, 0x7fc0), ("q", 3 * 64 + 1, 0x7f80)] {
            let mut array = inputs.take(name).unwrap();
            array.u16_mut().unwrap()[at] = bits;
            inputs.insert(name, array);
        }
        judge(&registry, &causal, &inputs);
    }

    #[test]
    fn scores_far_apart_and_growing_are_judged_right() {
        let registry = registry();
        let task = registry.find(Task::Core.name()).unwrap();
        // Heads of 64 and 128 with queries 32 times as large, so that a row's maximum grows by more than the weights
        // may.
        for sizes in [[1, 520, 64, 1, 0], [1, 390, 128, 1, 0]] {
            for mask in ["none", "causal"] {
                let case = case(&registry, sizes, mask);
                let mut inputs = task.inputs(&case, 5).unwrap();
                let mut q = inputs.take("q").unwrap();
                for bits in q.u16_mut().unwrap().iter_mut().filter(|bits| **bits & 0x7f80 != 0) {
                    *bits += 5 << 7;
                }
                inputs.insert("q", q);
                judge(&registry, &case, &inputs);
            }
        }
    }

    #[test]
    fn unsupported_cases_name_what_is_supported() {
        let registry = registry();
        let task = registry.find(Task::Core.name()).unwrap();
        let reason = |name: &str, case: &Case| {
            let inputs = task.inputs(case, 1).unwrap();
            let row = registry.implementations(Task::Core.name()).into_iter().find(|row| row.name == name).unwrap();
            // A real device may have another architecture.
            let (_, device) = test_devices().into_iter().find(|(name, _)| name.contains("emulation"))?;
            match (row.prepare)(case, &inputs, device.as_ref()).err() {
                Some(PrepareError::Unsupported(why)) => Some(why),
                other => panic!("{name} {case}: {other:?}"),
            }
        };
        let narrow = case(&registry, [1, 9, 32, 1, 0], "none");
        let Some(why) = reason("cuda-hopper", &narrow) else { return };
        assert_eq!(why, "the kernel takes heads of 64 or 128 values, not 32; use cuda");
        let wide = case(&registry, [1, 9, 160, 1, 0], "none");
        assert!(reason("cuda", &wide).unwrap().contains("heads of up to 128 values, not 160"));
        let mut plain = narrow.clone();
        plain.set("precision", "f32");
        assert!(reason("cuda-hopper", &plain).unwrap().contains("precision=bf16"));
    }
}
