//! The arrays of a case: those of the forward operation and the upstream gradient.

use ellwand_core::{Case, Fit, InputError, Tensor, Tensors};

use super::op::{Op, Upstream};
use crate::data::{self, leading, normal, three};
use crate::shape::Shape;

/// Distinguishes the upstream gradient from the forward arrays, which are the same as in the forward workload.
const UPSTREAM: u64 = 5;

/// Generates the seeded arrays of a case.
pub(super) fn seeded(op: Op, shape: &Shape, seed: u64) -> Result<Tensors, InputError> {
    let mut arrays = data::seeded(op.forward(), shape, seed)?;
    arrays.take("beta");
    let extents = [shape.batch, shape.sequence, shape.dimension];
    let upstream = match op.upstream(shape.reduction) {
        Upstream::Whole => normal(&extents, 0.0, 1.0, seed, UPSTREAM)?,
        Upstream::Rows => normal(&extents[..2], 0.0, 1.0, seed, UPSTREAM)?,
        Upstream::One => normal(&[], 1.0, 0.1, seed, UPSTREAM)?,
    };
    arrays.insert(op.upstream_name(), upstream);
    Ok(arrays)
}

/// Checks the user's arrays and returns the resulting case, as in the forward direction. dloss defaults to 1.
pub(super) fn adopt(op: Op, case: &Case, mut given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
    let name = op.upstream_name();
    let upstream = given.take(name);
    let whole = given.find("x").map_or(Vec::new(), |x| x.shape().to_vec());
    let (case, mut arrays) = data::adopt(op.forward(), case, given, fit)?;
    arrays.take("beta");
    let shape = Shape::of(&case)?;
    let kept = arrays.get("x")?.shape().to_vec();
    let (wanted, kept, stride, inner) = match op.upstream(shape.reduction) {
        Upstream::Whole => {
            let [_, sequence, dimension] = three(&whole);
            (&whole[..], &kept[..], sequence * dimension, shape.sequence * shape.dimension)
        }
        Upstream::Rows => (&whole[..whole.len() - 1], &kept[..kept.len() - 1], three(&whole)[1], shape.sequence),
        Upstream::One => (&[][..], &[][..], 1, 1),
    };
    let upstream = match upstream {
        Some(upstream) => upstream,
        None if op.forward().is_loss() => Tensor::new(wanted, &vec![1.0_f32; wanted.iter().product()][..])?,
        None => {
            let expected = format!("the upstream gradient in the shape of x, {wanted:?}");
            return Err(InputError::new(name, "this array is missing", expected));
        }
    };
    let values = upstream.f32().map_err(|error| InputError { argument: name.into(), ..error })?;
    let one = wanted.is_empty() && values.len() == 1;
    if upstream.shape() != wanted && !one {
        let expected = match op.upstream(shape.reduction) {
            Upstream::Whole => format!("the shape of x, {wanted:?}"),
            Upstream::Rows => format!("{wanted:?}, one value for each vector of x"),
            Upstream::One => {
                "one value, since the loss is reduced (with reduction=none one value per loss)".to_string()
            }
        };
        return Err(InputError::new(name, format!("its shape is {:?}", upstream.shape()), expected));
    }
    let batches = if wanted.is_empty() { 1 } else { shape.batch };
    let values = leading(values, stride, inner, batches);
    arrays.insert(name, Tensor::new(kept, &values[..])?);
    Ok((case, arrays))
}
