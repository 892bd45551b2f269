//! The arrays of a case: seeded ones, and those that the user gives.

use ellwand_core::{Case, Dtype, Fit, InputError, Tensor, Tensors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::op::Op;
use super::shape::Shape;
use ellwand_simd::pool;

/// Values that one stream of the generator makes, so that the threads can share the work and the bytes stay the same.
const STREAM: usize = 1 << 16;

/// Normal values of a spread around a mean. `array` tells arrays of the same seed apart.
pub(super) fn normal(shape: &[usize], mean: f32, spread: f32, seed: u64, array: u64) -> Result<Tensor, InputError> {
    let mut x = Tensor::zeros(Dtype::F32, shape)?;
    let values = x.f32_mut()?;
    pool::run(|| {
        values.par_chunks_mut(STREAM).enumerate().for_each(|(i, chunk)| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(array << 40 | i as u64);
            for value in chunk {
                let normal: f64 = StandardNormal.sample(&mut rng);
                *value = mean + spread * normal as f32;
            }
        });
    });
    Ok(x)
}

/// Seeded arrays of a case.
pub(super) fn seeded(op: Op, shape: &Shape, seed: u64) -> Result<Tensors, InputError> {
    let extents = [shape.batch, shape.sequence, shape.dimension];
    let mut arrays = Tensors::new().with("x", normal(&extents, 0.0, 3.0, seed, 0)?);
    if let Some((name, _)) = op.second() {
        arrays.insert(name, normal(&extents, 0.0, 3.0, seed, 1)?);
    }
    for (i, (name, _, centre)) in op.vectors().iter().enumerate() {
        arrays.insert(name, normal(&[shape.dimension], *centre, 0.1, seed, 2 + i as u64)?);
    }
    if op.has_labels() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(9 << 40);
        let mut labels = Tensor::zeros(Dtype::I64, &[shape.batch, shape.sequence])?;
        labels.i64_mut()?.iter_mut().for_each(|label| *label = rng.random_range(0..shape.dimension as i64));
        arrays.insert("labels", labels);
    }
    Ok(arrays)
}

/// Checks arrays that the user gave and returns the case that they make. An array of fewer than three axes has a batch, then a
/// sequence of 1; one of more has its leading axes taken together as the batch.
pub(super) fn adopt(op: Op, case: &Case, mut given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
    let x = given.get("x")?;
    given.f32("x")?;
    let extents = three(x.shape());
    if x.is_empty() || x.shape().is_empty() {
        let problem = format!("its shape is {:?}", x.shape());
        return Err(InputError::new("x", problem, "at least one axis and one value"));
    }
    let whole = x.shape().to_vec();
    let mut case = case.clone();
    let axes = ["batch", "sequence", "dimension"];
    match fit {
        Fit::Whole => axes.iter().zip(extents).for_each(|(axis, extent)| case.set(axis, extent as i64)),
        Fit::Case => {
            for (axis, extent) in axes.iter().zip(extents) {
                let wanted = case.int(axis).unwrap_or(1);
                let enough = usize::try_from(wanted).is_ok_and(|wanted| match *axis {
                    // A vector cannot be cut without becoming another vector.
                    "dimension" => wanted == extent,
                    _ => wanted <= extent,
                });
                if !enough {
                    let problem = format!("its shape {whole:?} has {axis} {extent}, the case asks for {wanted}");
                    let expected = if *axis == "dimension" { "the same" } else { "at least as many" };
                    return Err(InputError::new("x", problem, expected).help(format!("choose --{axis} {extent}")));
                }
            }
        }
    }
    let shape = Shape::of(&case)?;
    let cut = [shape.batch, shape.sequence, shape.dimension];
    let mut arrays = Tensors::new();
    let mut like_x = |name: &str| -> Result<(), InputError> {
        given.f32(name)?;
        let array = given.take(name).unwrap_or_else(|| Tensor::scalar(0.0));
        if array.shape() != whole {
            let problem = format!("its shape is {:?}", array.shape());
            return Err(InputError::new(name, problem, format!("the shape of x, {whole:?}")));
        }
        let kept = if cut == extents {
            Tensor::new(&whole, array.f32()?)?
        } else {
            let values = leading(array.f32()?, extents[1] * extents[2], shape.sequence * shape.dimension, shape.batch);
            Tensor::new(&cut, &values[..])?
        };
        arrays.insert(name, kept);
        Ok(())
    };
    like_x("x")?;
    if let Some((name, _)) = op.second() {
        like_x(name)?;
    }
    for (name, _, absent) in op.vectors() {
        let vector = match given.take(name) {
            None => Tensor::vector(&vec![*absent; shape.dimension][..]),
            Some(vector) => {
                let values = vector.f32().map_err(|error| InputError { argument: (*name).to_string(), ..error })?;
                if values.len() != shape.dimension {
                    let problem = format!("its shape is {:?}", vector.shape());
                    return Err(InputError::new(*name, problem, format!("[{}], one value a column", shape.dimension)));
                }
                vector
            }
        };
        arrays.insert(name, vector);
    }
    if op.has_labels() {
        let labels = labels(&given, &whole, shape.dimension)?;
        let kept = leading(&labels, extents[1], shape.sequence, shape.batch);
        let extents = if cut == extents { &whole[..whole.len() - 1] } else { &cut[..2] };
        arrays.insert("labels", Tensor::new(extents, &kept[..])?);
    }
    Ok((case, arrays))
}

/// A shape as batch, sequence and dimension.
pub(super) fn three(shape: &[usize]) -> [usize; 3] {
    match shape {
        [] => [0, 0, 0],
        [d] => [1, 1, *d],
        [s, d] => [1, *s, *d],
        [leading @ .., s, d] => [leading.iter().product(), *s, *d],
    }
}

/// The first `inner` of every `stride` values, `outer` times.
pub(super) fn leading<T: Copy>(values: &[T], stride: usize, inner: usize, outer: usize) -> Vec<T> {
    values.chunks(stride.max(1)).take(outer).flat_map(|chunk| &chunk[..inner]).copied().collect()
}

/// Labels as i64, one a row of x, each below the number of classes.
fn labels(given: &Tensors, x: &[usize], classes: usize) -> Result<Vec<i64>, InputError> {
    let array = given.get("labels")?;
    let values: Vec<i64> = match (array.i64(), array.i32()) {
        (Ok(values), _) => values.to_vec(),
        (_, Ok(values)) => values.iter().map(|v| i64::from(*v)).collect(),
        (Err(error), _) => return Err(InputError { argument: "labels".into(), ..error }),
    };
    let rows = &x[..x.len() - 1];
    if array.shape() != rows {
        let problem = format!("its shape is {:?}", array.shape());
        return Err(InputError::new("labels", problem, format!("{rows:?}, one label for each vector of x")));
    }
    match values.iter().position(|label| !usize::try_from(*label).is_ok_and(|label| label < classes)) {
        None => Ok(values),
        Some(at) => Err(InputError::new(
            "labels",
            format!("label {at} is {}", values[at]),
            format!("a class from 0 to {}, since x has {classes} columns", classes - 1),
        )
        .help("drop padded positions (PyTorch's ignore_index) before the loss")),
    }
}
