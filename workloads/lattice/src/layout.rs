//! How an array of any shape is divided into vectors: each row (last axis) into consecutive runs of d values, with the
//! tail padded with zeros. The true row length is kept, so decoding restores the shape.

use ellwand_core::InputError;

use super::params::length;

/// Largest number of values accepted, so that no size computed from it can overflow.
const MAX_VALUES: u64 = 1 << 40;

/// The division of one shape into vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    shape: Vec<usize>,
    rows: usize,
    row: usize,
    d: usize,
}

impl Layout {
    /// Divides `shape` into vectors of `d` values.
    ///
    /// # Errors
    /// If the shape has no axes, or more than 2^40 values after padding.
    pub fn new(shape: &[usize], d: usize) -> Result<Layout, InputError> {
        let refuse =
            |problem: &str, expected: &str| InputError::new("x", format!("shape {shape:?}: {problem}"), expected);
        let Some((&row, outer)) = shape.split_last() else {
            return Err(refuse("a single number has no rows to cut", "at least one axis").help("reshape it to [1]"));
        };
        let padded = shape
            .iter()
            .enumerate()
            .map(
                |(axis, &n)| {
                    if axis == outer.len() { (n as u64).checked_next_multiple_of(d as u64) } else { Some(n as u64) }
                },
            )
            // An extent of 0 must not hide an overflow of the others.
            .try_fold(1u64, |values, extent| values.checked_mul(extent?.max(1)));
        match padded {
            Some(values) if values <= MAX_VALUES => {}
            _ => return Err(refuse("too many values", "at most 2^40").help("split the array and encode the parts")),
        }
        Ok(Layout { shape: shape.to_vec(), rows: outer.iter().product(), row, d })
    }

    /// The original shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of values in the array.
    pub fn values(&self) -> usize {
        self.rows * self.row
    }

    /// Number of vectors, including padded tails.
    pub fn vectors(&self) -> usize {
        self.rows * self.row.div_ceil(self.d)
    }

    /// True if no row has a tail.
    pub fn is_exact(&self) -> bool {
        self.row.is_multiple_of(self.d)
    }

    /// Pads the row tails of the array: `vectors() * d` values.
    ///
    /// # Errors
    /// If the length of `x` does not match the shape.
    pub fn pad(&self, x: &[f32]) -> Result<Vec<f32>, InputError> {
        length("x", x.len(), self.values(), "pass as many values as the shape has")?;
        let mut padded = vec![0.0; self.vectors() * self.d];
        if self.row > 0 {
            let width = self.row.next_multiple_of(self.d);
            for (to, from) in padded.chunks_exact_mut(width).zip(x.chunks_exact(self.row)) {
                to[..self.row].copy_from_slice(from);
            }
        }
        Ok(padded)
    }

    /// Removes the padding.
    ///
    /// # Errors
    /// If `padded` does not have length `vectors() * d`.
    pub fn trim(&self, padded: &[f32]) -> Result<Vec<f32>, InputError> {
        length("padded", padded.len(), self.vectors() * self.d, "pass the decoded vectors of this layout")?;
        let mut x = Vec::with_capacity(self.values());
        if self.row > 0 {
            for from in padded.chunks_exact(self.row.next_multiple_of(self.d)) {
                x.extend_from_slice(&from[..self.row]);
            }
        }
        Ok(x)
    }
}
