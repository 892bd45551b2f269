//! Attention as a function on the caller's arrays: the kernel of `parallel`, without copies.
#![allow(unsafe_code)]

use ellwand_core::InputError;
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;

use super::fused::{self, Core, Tiling};
use super::shape::{Layout, Mask, Shape};

/// Extents of queries `[batch, heads, sequence, head]` and of keys and values `[batch, kv_heads, keys, head]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Number of sequences.
    pub batch: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values; they divide `heads`.
    pub kv_heads: usize,
    /// Queries of a sequence.
    pub sequence: usize,
    /// Keys and values of a sequence.
    pub keys: usize,
    /// Values of one head.
    pub head: usize,
    /// Whether a query sees only the keys up to its own position.
    pub causal: bool,
    /// True to use all threads, false to use only the calling one.
    pub parallel: bool,
}

impl Heads {
    fn checked(&self) -> Result<Shape, InputError> {
        let Self { batch, heads, kv_heads, sequence, keys, head, causal, .. } = *self;
        if [batch, heads, kv_heads, sequence, keys, head].contains(&0) || !heads.is_multiple_of(kv_heads) {
            let problem =
                format!("{heads} heads of queries, {kv_heads} of keys, extents {batch} x {sequence} x {keys} x {head}");
            return Err(InputError::new(
                "q",
                problem,
                "extents above 0, and a number of key heads that divides the query heads",
            ));
        }
        Ok(Shape {
            batch,
            sequence,
            keys,
            dimension: heads * head,
            heads,
            kv_heads,
            mask: if causal { Mask::Causal } else { Mask::None },
            seen: None,
        })
    }
}

/// `softmax(Q K^T / sqrt(head)) V`, written to `out`, which has the shape of `q`.
///
/// # Errors
/// If an array does not have the extents; the error names it.
pub fn attend(extents: Heads, q: &[f32], k: &[f32], v: &[f32], out: &mut [f32]) -> Result<(), InputError> {
    let shape = extents.checked()?;
    let (queries, keys) = (shape.heads * shape.sequence, shape.kv_heads * shape.keys);
    for (name, got, rows) in
        [("q", q.len(), queries), ("k", k.len(), keys), ("v", v.len(), keys), ("out", out.len(), queries)]
    {
        let expected = shape.batch * rows * shape.head();
        if got != expected {
            return Err(InputError::new(name, format!("it has {got} values"), format!("{expected}")));
        }
    }
    let (queries, keys) = (Layout::queries(&shape), Layout::keys(&shape));
    let core = Core {
        shape,
        lengths: &[],
        q: (q.as_ptr(), queries),
        k: (k.as_ptr(), keys),
        v: (v.as_ptr(), keys),
        out: (out.as_mut_ptr(), queries),
    };
    let threads = if extents.parallel { pool::threads() } else { 1 };
    let scratch = fused::scratch(threads, &shape, Tiling::FAST);
    // SAFETY: the loop above checked the lengths that the layouts require; only this call borrows `out`.
    unsafe {
        match extents.parallel {
            true => fused::parallel(Isa::best(), &core, Tiling::FAST, &scratch),
            false => fused::single(Isa::best(), &core, Tiling::FAST, &scratch),
        }
    }
    Ok(())
}
