//! All tasks in plain f32 loops that the compiler may vectorise, with the scores of all heads in memory.

use super::shape::{Layout, Shape};
use ellwand_gemm::dot;

/// Sixteen interleaved sums: with a single one, the rounding error of a row of a few hundred weights exceeds 1e-6.
fn total(x: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    for x in x.chunks(16) {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum()
}

/// `y = x w^T + b`, where w has `b.len()` rows.
pub(super) fn linear(x: &[f32], w: &[f32], b: &[f32], y: &mut [f32]) {
    let (outs, ins) = (b.len(), w.len() / b.len());
    for (y, x) in y.chunks_exact_mut(outs).zip(x.chunks_exact(ins)) {
        for ((y, w), b) in y.iter_mut().zip(w.chunks_exact(ins)).zip(b) {
            *y = dot(x, w) + b;
        }
    }
}

/// Rows of all heads in the order [batch, heads, sequence]: (sequence, head, position, visible keys).
fn rows<'a>(s: &'a Shape, lengths: &'a [i64]) -> impl Iterator<Item = (usize, usize, usize, usize)> + 'a {
    (0..s.batch).flat_map(move |b| {
        (0..s.heads).flat_map(move |h| (0..s.sequence).map(move |row| (b, h, row, s.visible(lengths, b, row))))
    })
}

/// Scores of all pairs; -inf where masked.
pub(super) fn scores(s: &Shape, lengths: &[i64], q: (&[f32], Layout), k: (&[f32], Layout), scores: &mut [f32]) {
    let (head, scale, group) = (s.head(), s.scale() as f32, s.heads / s.kv_heads);
    for ((b, h, row, visible), scores) in rows(s, lengths).zip(scores.chunks_exact_mut(s.keys)) {
        let q = &q.0[q.1.at(b, h, row)..][..head];
        for (j, score) in scores.iter_mut().enumerate() {
            let k = &k.0[k.1.at(b, h / group, j)..][..head];
            *score = if j < visible { dot(q, k) * scale } else { f32::NEG_INFINITY };
        }
    }
}

/// Replaces scores by weights.
pub(super) fn softmax(s: &Shape, lengths: &[i64], scores: &mut [f32]) {
    for ((_, _, _, visible), row) in rows(s, lengths).zip(scores.chunks_exact_mut(s.keys)) {
        let (seen, beyond) = row.split_at_mut(visible);
        beyond.fill(0.0);
        let top = seen.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        seen.iter_mut().for_each(|w| *w = if *w == f32::NEG_INFINITY { 0.0 } else { (*w - top).exp() });
        let sum = total(seen);
        let by = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        seen.iter_mut().for_each(|w| *w *= by);
    }
}

/// Weighted sums of the values that each row sees.
pub(super) fn sums(s: &Shape, lengths: &[i64], weights: &[f32], v: (&[f32], Layout), out: (&mut [f32], Layout)) {
    let (head, group) = (s.head(), s.heads / s.kv_heads);
    for ((b, h, row, visible), weights) in rows(s, lengths).zip(weights.chunks_exact(s.keys)) {
        let to = &mut out.0[out.1.at(b, h, row)..][..head];
        to.fill(0.0);
        for (j, w) in weights.iter().enumerate().take(visible) {
            let v = &v.0[v.1.at(b, h / group, j)..][..head];
            to.iter_mut().zip(v).for_each(|(to, v)| *to += w * v);
        }
    }
}
