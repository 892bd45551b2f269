//! The context and the gradients in f64, by the formulas, one row of weights at a time.

use ellwand_core::{InputError, Tensor, Tensors};
use ellwand_simd::pool;
use rayon::prelude::*;

use super::{OUTPUTS, Task, UPSTREAM, arrays, dims};
use crate::reference::{scale, visible};
use crate::shape::Shape;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// y += a x.
fn add(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// The arrays of a case in f64.
struct Given {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    upstream: Vec<f64>,
    lengths: Vec<i64>,
}

/// The contribution of one head of keys and values: context and dq of its query heads, dk and dv.
fn head(s: &Shape, given: &Given, b: usize, kv: usize) -> [Vec<f64>; 4] {
    let (e, group) = (s.head(), s.heads / s.kv_heads);
    let at = |array: &'_ [f64], row: usize| array[row * e..(row + 1) * e].to_vec();
    let of_key = |j: usize| (b * s.kv_heads + kv) * s.keys + j;
    let (k, v): (Vec<_>, Vec<_>) = (0..s.keys).map(|j| (at(&given.k, of_key(j)), at(&given.v, of_key(j)))).unzip();
    let mut out = [group * s.sequence, group * s.sequence, s.keys, s.keys].map(|rows| vec![0.0; rows * e]);
    for (row, head) in (0..group).flat_map(|h| (0..s.sequence).map(move |row| (row, h))) {
        let of_query = (b * s.heads + kv * group + head) * s.sequence + row;
        let (q, upstream) = (at(&given.q, of_query), at(&given.upstream, of_query));
        let seen = &k[..visible(s, &given.lengths, b, row)];
        let scores: Vec<f64> = seen.iter().map(|k| dot(&q, k) * scale(s)).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let terms: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
        let sum: f64 = terms.iter().sum();
        let mut context = vec![0.0; e];
        terms.iter().zip(&v).for_each(|(term, v)| add(&mut context, term / sum, v));
        let mean = dot(&upstream, &context);
        let place = (head * s.sequence + row) * e;
        for (j, term) in terms.iter().enumerate() {
            let weight = term / sum;
            let slope = weight * (dot(&upstream, &v[j]) - mean) * scale(s);
            add(&mut out[1][place..place + e], slope, &k[j]);
            add(&mut out[2][j * e..(j + 1) * e], slope, &q);
            add(&mut out[3][j * e..(j + 1) * e], weight, &upstream);
        }
        out[0][place..place + e].copy_from_slice(&context);
    }
    out
}

/// The outputs of a case.
pub(super) fn outputs(s: &Shape, inputs: &Tensors) -> Result<Tensors, InputError> {
    arrays::check(Task::Core, s, inputs)?;
    let wide = |name: &str| Ok::<Vec<f64>, InputError>(inputs.f32(name)?.iter().map(|x| f64::from(*x)).collect());
    let given = Given {
        q: wide("q")?,
        k: wide("k")?,
        v: wide("v")?,
        upstream: wide(UPSTREAM)?,
        lengths: arrays::lengths(s, inputs)?.to_vec(),
    };
    // In the order of the key heads, which is also that of the query heads.
    let heads: Vec<[Vec<f64>; 4]> = pool::run(|| {
        (0..s.batch * s.kv_heads).into_par_iter().map(|at| head(s, &given, at / s.kv_heads, at % s.kv_heads)).collect()
    });
    let mut outputs = Tensors::new();
    for (i, (name, _, of_queries)) in OUTPUTS.iter().enumerate() {
        let values: Vec<f32> = heads.iter().flat_map(|head| head[i].iter().map(|x| *x as f32)).collect();
        outputs.insert(name, Tensor::new(&dims(s, *of_queries), &values[..])?);
    }
    Ok(outputs)
}
