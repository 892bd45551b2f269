//! `products`: peak rate of bf16 matrix products with f32 sums, the operation that matrix units are built for.
//!
//! A tile of 64 x 128 is `Y = c + A_0 B_0 + A_1 B_1 + ..`, where a step multiplies 64 x 16 by 16 x 128. Steps repeat
//! with a period of four, so that all operands stay in registers or shared memory: the left sides of a period are `A`,
//! `A'`, `E - A` and `E' - A'`, the right ones `B`, `B'`, `B` and `B'`. A period therefore adds `E B + E' B'`, which is
//! small, though each of its products is large.
//!
//! Every value is an integer up to 255, so bf16 holds it exactly. The integers are random because a device's speed
//! depends on how many bits change. `E` has one 1 or -1 per row and `E'` one 2 or -2; every value of `B` and `B'` is
//! odd. Each period therefore adds an odd number to each sum, and a product that is skipped or repeated shows in the
//! sum. Sums stay below 2^23 ([`MAX_STEPS`]), where f32 is exact and units that align their terms to 24 bits or more
//! lose nothing: the result equals the reference bit for bit.

use ellwand_core::{
    Axis, Case, Description, Device, Dtype, Implementation, InputError, PrepareError, Prepared, Registry, Tensor,
    Tensors, Tolerance, Work, Workload,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::products::{need_bf16, need_hopper, unsupported};
use crate::{Grid, Job, Source, files, gpu, on_cuda, on_wgpu, whole};

const NAME: &str = "products";
/// Rows and columns of a tile, and terms that a step adds to each sum.
const ROWS: usize = 64;
const COLUMNS: usize = 128;
const SLICE: usize = 16;
/// Steps in a period, and distinct right sides among them.
const PERIOD: usize = 4;
const RIGHT: usize = 2;
/// Largest value, and the most steps for which no sum reaches 2^23: 8192 periods of 3 times 255, two steps of 16
/// products, and the start.
const LARGEST: i32 = 255;
const MAX_STEPS: i64 = 32_768;
/// The sums of each tile start at a different integer below this, so that swapped tiles are detected.
const STARTS: usize = 1024;

/// The kernels for Ampere and later.
pub(super) static SOURCE: Source =
    Source { name: "products.cu", text: files!("../tensor.cuh", "products.cu"), options: &[] };

/// The kernels for Hopper (`wgmma`).
pub(super) static HOPPER: Source = Source {
    name: "products_hopper.cu",
    text: files!("../tensor.cuh", "../hopper.cuh", "products_hopper.cu"),
    options: &[],
};

/// Converts bf16 bits to f32.
fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Converts a value that bf16 holds exactly to its bits.
fn narrow(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

struct Products(Description);

/// Converts a tensor of bf16 bits to f64.
fn values(tensor: &Tensor) -> Result<Vec<f64>, InputError> {
    Ok(tensor.u16()?.iter().map(|bits| f64::from(widen(*bits))).collect())
}

/// Element (`m`, `n`) of the product of one step.
fn product(a: &[f64], b: &[f64], step: usize, m: usize, n: usize) -> f64 {
    let left = &a[m * PERIOD * SLICE + step % PERIOD * SLICE..][..SLICE];
    let right = &b[step % RIGHT * SLICE * COLUMNS..];
    left.iter().enumerate().map(|(k, left)| left * right[k * COLUMNS + n]).sum()
}

impl Workload for Products {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, case: &Case) -> u64 {
        // Outputs of the reference and of an implementation, and an f64 copy of both for the comparison.
        (1 << 20) + 24 * (ROWS * COLUMNS) as u64 * case.count("tiles", 1) as u64
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut a = vec![0; ROWS * PERIOD * SLICE];
        for row in a.as_chunks_mut::<{ PERIOD * SLICE }>().0 {
            let (first, second) = row.split_at_mut(RIGHT * SLICE);
            // Leaves room for the 1 or 2 that is added below.
            first.iter_mut().for_each(|value| *value = rng.random_range(2 - LARGEST..=LARGEST - 2));
            second.iter_mut().zip(first).for_each(|(value, first)| *value = -*first);
            for (slice, most) in second.as_chunks_mut::<SLICE>().0.iter_mut().zip([1, 2]) {
                slice[rng.random_range(0..SLICE)] += if rng.random() { most } else { -most };
            }
        }
        let odd = |_| 2 * rng.random_range(-(LARGEST + 1) / 2..(LARGEST + 1) / 2) + 1;
        let b: Vec<i32> = (0..RIGHT * SLICE * COLUMNS).map(odd).collect();
        let bits = |values: &[i32]| -> Vec<u16> { values.iter().map(|value| narrow(*value as f32)).collect() };
        let starts: Vec<f32> = (0..case.count("tiles", 1)).map(|tile| (tile % STARTS) as f32).collect();
        Ok(Tensors::new()
            .with("a", Tensor::new(&[ROWS, PERIOD * SLICE], &bits(&a)[..])?)
            .with("b", Tensor::new(&[RIGHT * SLICE, COLUMNS], &bits(&b)[..])?)
            .with("c", Tensor::vector(&starts[..])))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let (a, b) = (values(inputs.get("a")?)?, values(inputs.get("b")?)?);
        let steps = case.count("steps", 1);
        let mut tile = Vec::with_capacity(ROWS * COLUMNS);
        for (m, n) in (0..ROWS).flat_map(|m| (0..COLUMNS).map(move |n| (m, n))) {
            let first = |steps: usize| (0..steps).map(|step| product(&a, &b, step, m, n)).sum::<f64>();
            tile.push((steps / PERIOD) as f64 * first(PERIOD) + first(steps % PERIOD));
        }
        let starts = inputs.get("c")?.f32()?;
        let y: Vec<f32> =
            starts.iter().flat_map(|start| tile.iter().map(|sum| (f64::from(*start) + sum) as f32)).collect();
        Ok(Tensors::new().with("y", Tensor::new(&[starts.len(), ROWS, COLUMNS], &y[..])?))
    }
    fn work(&self, case: &Case) -> Work {
        let all = (ROWS * COLUMNS * SLICE) as u64 * case.count("tiles", 1) as u64 * case.count("steps", 1) as u64;
        Work::items("multiply-adds", all).flops(2.0 * all as f64).bf16(true)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        // Every step is exact; only the sign of a zero may differ.
        Tolerance::Close { absolute: 0.0, relative: 0.0 }
    }
}

/// Prepares a launch with one block per tile.
fn launched(
    inputs: &Tensors,
    case: &Case,
    device: &dyn Device,
    (source, kernel): (&'static Source, &str),
    (threads, shared): (u32, usize),
) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let mut job = Job::new(gpu);
    let starts = inputs.get("c")?.f32()?;
    let mut args = vec![
        job.upload::<u16>(inputs.get("a")?.u16()?)?,
        job.upload::<u16>(inputs.get("b")?.u16()?)?,
        job.upload::<f32>(starts)?,
    ];
    args.push(job.output("y", Dtype::F32, &[starts.len(), ROWS, COLUMNS], 0)?);
    args.push(whole(case.count("steps", 1)));
    job.launch(source, kernel, Grid::line(starts.len(), threads).shared(shared), args)?;
    Ok(job.boxed())
}

fn warps(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    need_bf16(gpu(device)?)?;
    launched(inputs, case, device, (&SOURCE, "products"), (256, 0))
}

fn warpgroups(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    need_hopper(gpu(device)?)?;
    // The right side, and up to 1024 bytes to align it.
    let shared = 2 * RIGHT * SLICE * COLUMNS + 1024;
    launched(inputs, case, device, (&HOPPER, "products_hopper"), (128, shared))
}

pub(super) fn register(registry: &mut Registry) {
    let axes = vec![
        Axis::int(
            "steps",
            "steps of 16 products in each sum; 16384 hide the cost of its start and end",
            1,
            MAX_STEPS,
            64,
        ),
        Axis::int("tiles", "tiles of 64 x 128 sums: four per multiprocessor fill a GPU", 1, 1 << 16, 4),
    ];
    let about = "tiles of 64 x 128, sums in steps of 16: the peak rate of bf16 matrix products with f32 sums";
    registry.workload(Products(Description::new(NAME, about).group("calibration").axes(axes).baseline("cuda")));
    type Prepare = fn(&Case, &Tensors, &dyn Device) -> Result<Box<dyn Prepared>, PrepareError>;
    // The faster of the two is the ceiling for other workloads.
    let rows: [(&str, &str, Prepare); 2] = [
        ("cuda", "mma.sync from registers; the axis tiles fills the device", warps),
        ("cuda-hopper", "wgmma, the right side from shared memory; the axis tiles fills the device", warpgroups),
    ];
    for (name, about, prepare) in rows {
        registry.implementation(on_cuda(Implementation::cpu(NAME, name, about, prepare)));
    }
    let none = |why: &'static str| move |_: &Case, _: &Tensors, _: &dyn Device| unsupported(why);
    let here = "no CPU kernel here multiplies bf16: it is widened to f32, whose peak is that of fma";
    registry.implementation(Implementation::cpu(NAME, "simd", "unavailable: bf16 is widened to f32", none(here)));
    let there = "WGSL has neither bf16 nor matrix instructions";
    registry.implementation(on_wgpu(Implementation::cpu(NAME, "wgpu", "unavailable: WGSL has no bf16", none(there))));
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, CeilingKind, PrepareError, Registry, Tensors, Value};

    use super::*;

    fn case_and_inputs(tiles: i64, steps: i64) -> (Registry, Case, Tensors) {
        let mut registry = Registry::new();
        crate::calibration::register(&mut registry);
        let axes = vec![("tiles".into(), Value::Int(tiles)), ("steps".into(), Value::Int(steps))];
        let case = Case::new(NAME, axes);
        let inputs = registry.find(NAME).unwrap().inputs(&case, 3).unwrap();
        (registry, case, inputs)
    }

    #[test]
    fn the_reference_is_the_product_of_matrices_with_all_their_steps() {
        let (registry, case, inputs) = case_and_inputs(3, 30);
        let y = registry.find(NAME).unwrap().reference(&case, &inputs).unwrap();
        let y = y.get("y").unwrap().f32().unwrap();
        let [a, b] = ["a", "b"].map(|name| inputs.get(name).unwrap().u16().unwrap());
        for (tile, m, n) in [(0, 0, 0), (1, 63, 127), (2, 17, 90)] {
            let mut sum = tile as f64;
            for term in 0..30 * 16 {
                sum += f64::from(widen(a[m * 64 + term % 64])) * f64::from(widen(b[term % 32 * 128 + n]));
            }
            assert_eq!(f64::from(y[(tile * 64 + m) * 128 + n]), sum, "{tile} {m} {n}");
        }
    }

    /// The claims of the module documentation.
    #[test]
    fn every_product_shows_in_its_sum_and_no_sum_leaves_what_is_exact() {
        let (_, _, inputs) = case_and_inputs(1, 1);
        let (a, b) = (values(inputs.get("a").unwrap()).unwrap(), values(inputs.get("b").unwrap()).unwrap());
        assert!(a.iter().chain(&b).all(|value| value.fract() == 0.0 && value.abs() <= f64::from(LARGEST)));
        assert!(b.iter().all(|value| value.rem_euclid(2.0) == 1.0), "odd");
        for (m, n) in (0..ROWS).flat_map(|m| (0..COLUMNS).map(move |n| (m, n))) {
            let steps: Vec<f64> = (0..PERIOD).map(|step| product(&a, &b, step, m, n)).collect();
            // No step, no pair of steps and no period adds zero, except that a single step may do so by chance.
            let (even, odd) = (steps[0] + steps[2], steps[1] + steps[3]);
            assert!(even != 0.0 && odd != 0.0 && (even + odd).rem_euclid(2.0) == 1.0, "{m} {n}: {steps:?}");
            let terms = |step: usize| -> f64 {
                let left = &a[m * PERIOD * SLICE + step * SLICE..][..SLICE];
                left.iter().enumerate().map(|(k, x)| (x * b[(step * SLICE + k) * COLUMNS + n]).abs()).sum()
            };
            let periods = MAX_STEPS as f64 / PERIOD as f64;
            let most = STARTS as f64 + periods * (even + odd).abs() + terms(0) + terms(1);
            assert!(most < f64::from(1 << 23), "{m} {n}: {most}");
        }
        // The bound for any inputs.
        let any = STARTS as i64 + MAX_STEPS / 4 * 3 * 255 + 2 * 16 * 255 * 255;
        assert!(any < 1 << 23, "{any}");
    }

    #[test]
    fn a_tile_counts_its_operations_and_names_its_ceiling() {
        let (registry, case, _) = case_and_inputs(3, 5);
        let task = registry.find(NAME).unwrap();
        let work = task.work(&case);
        assert_eq!((work.flops, work.bf16, work.double), (2.0 * 64.0 * 128.0 * 16.0 * 15.0, true, false));
        assert_eq!(registry.ceiling_of(&case).map(|row| row.kind), Some(CeilingKind::ProductsBf16));
    }

    #[test]
    fn implementations_without_matrix_units_are_unsupported_with_the_reason() {
        let (registry, case, inputs) = case_and_inputs(1, 1);
        for (name, why) in [("simd", "widened to f32"), ("wgpu", "WGSL")] {
            let row = registry.implementations(NAME).into_iter().find(|row| row.name == name).unwrap();
            let said = (row.prepare)(&case, &inputs, &ellwand_gpu_lab::testing::Here).err();
            assert!(matches!(&said, Some(PrepareError::Unsupported(text)) if text.contains(why)), "{said:?}");
        }
    }
}
