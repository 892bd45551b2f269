//! The steps of attention in vector lanes, on one thread or all: products, softmax, layer norm, GELU, residual sums.
#![allow(unsafe_code)]

use super::fused::Core;
use super::shape::Shape;
use super::softmax::Row;
use super::task::EPSILON;
use ellwand_gemm::{self as gemm, Product, Scratch, Source};
use ellwand_layers::layer_norm;
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch, exp};
use ellwand_simd::pool;

/// Instruction set, threads and memory for the steps.
pub(super) struct Ops {
    pub(super) isa: Isa,
    pub(super) parallel: bool,
    /// Working memory of the products.
    pub(super) scratch: Scratch,
}

impl Ops {
    /// Allocates for products of up to `(columns, sums)`.
    pub(super) fn new(isa: Isa, parallel: bool, products: &[(usize, usize)]) -> Self {
        let threads = if parallel { pool::threads() } else { 1 };
        let largest = products.iter().map(|(n, k)| gemm::scratch_len(*n, *k)).max().unwrap_or(0);
        Self { isa, parallel, scratch: Scratch::new(threads, largest) }
    }

    /// # Safety
    /// As for [`gemm::products`].
    unsafe fn products<'a>(&self, count: usize, of: impl Fn(usize) -> Product<'a> + Sync) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.parallel {
                gemm::products(self.isa, count, of, &self.scratch);
            } else {
                (0..count).for_each(|i| gemm::product(self.isa, &of(i), &self.scratch));
            }
        }
    }

    /// `y = x w^T + b`, where w has `b.len()` rows.
    pub(super) fn linear(&self, x: &[f32], w: &[f32], b: &[f32], y: &mut [f32]) {
        let (n, k) = (b.len(), w.len() / b.len());
        let m = x.len() / k;
        assert!(y.len() >= m * n);
        let p = Product {
            m,
            n,
            k,
            a: x.as_ptr(),
            a_stride: k,
            b: Source { at: w.as_ptr(), stride: k, transposed: true },
            alpha: 1.0,
            bias: Some(b),
            c: y.as_mut_ptr(),
            c_stride: n,
            stream: gemm::streams(m * n, self.parallel),
        };
        // SAFETY: m rows of x, n rows of w and m rows of y exist; only this call borrows y.
        unsafe { self.products(1, |_| p) };
    }

    /// Writes the scores of all pairs to [batch, heads, sequence, keys], without masking.
    ///
    /// # Safety
    /// The layouts of `core` must lead to readable elements.
    pub(super) unsafe fn scores(&self, core: &Core<'_>, scores: &mut [f32]) {
        let s = core.shape;
        let (n, keys, group) = (s.sequence, s.keys, s.heads / s.kv_heads);
        assert!(scores.len() >= s.batch * s.heads * n * keys);
        let to = Start(scores.as_mut_ptr());
        let of = |i: usize| {
            let (b, h) = (i / s.heads, i % s.heads);
            Product {
                m: n,
                n: keys,
                k: s.head(),
                a: core.q.0.wrapping_add(core.q.1.at(b, h, 0)),
                a_stride: core.q.1.row,
                b: Source {
                    at: core.k.0.wrapping_add(core.k.1.at(b, h / group, 0)),
                    stride: core.k.1.row,
                    transposed: true,
                },
                alpha: s.scale() as f32,
                bias: None,
                c: to.at(i * n * keys),
                c_stride: keys,
                stream: gemm::streams(s.batch * s.heads * n * keys, self.parallel),
            }
        };
        // SAFETY: the caller's promise for q and k; each head has a separate square of the scores.
        unsafe { self.products(s.batch * s.heads, of) };
    }

    /// Writes -inf where masked.
    pub(super) fn mask(&self, s: &Shape, lengths: &[i64], scores: &mut [f32]) {
        let n = s.sequence;
        for (at, row) in scores.chunks_exact_mut(s.keys).enumerate() {
            row[s.visible(lengths, at / (s.heads * n), at % n)..].fill(f32::NEG_INFINITY);
        }
    }

    /// Computes weights from scores `x`, or in place.
    pub(super) fn softmax(&self, s: &Shape, lengths: &[i64], x: Option<&[f32]>, y: &mut [f32]) {
        let (n, keys) = (s.sequence, s.keys);
        // Rows per piece: about 64 KB.
        let rows = if self.parallel { (16_384 / keys).max(1) } else { usize::MAX / keys };
        let work = |piece: usize, y: &mut [f32]| {
            let first = piece * rows;
            let visible = |i: usize| s.visible(lengths, (first + i) / (s.heads * n), (first + i) % n);
            let x = x.map(|x| &x[first * keys..][..y.len()]);
            dispatch(self.isa, Row { x, y, length: keys, visible: &visible });
        };
        if self.parallel { pool::for_each_slice(y, rows * keys, work) } else { work(0, y) }
    }

    /// Weighted sums of values.
    ///
    /// # Safety
    /// The layouts of `core` must lead to readable (v) and writable (out) elements that nothing else accesses
    /// meanwhile.
    pub(super) unsafe fn sums(&self, core: &Core<'_>, weights: &[f32]) {
        let s = core.shape;
        let (n, keys, group) = (s.sequence, s.keys, s.heads / s.kv_heads);
        assert!(weights.len() >= s.batch * s.heads * n * keys);
        let core = *core;
        let from = Start(weights.as_ptr().cast_mut());
        let of = |i: usize| {
            let core = &core;
            let (b, h) = (i / s.heads, i % s.heads);
            Product {
                m: n,
                n: s.head(),
                k: keys,
                a: from.at(i * n * keys),
                a_stride: keys,
                b: Source {
                    at: core.v.0.wrapping_add(core.v.1.at(b, h / group, 0)),
                    stride: core.v.1.row,
                    transposed: false,
                },
                alpha: 1.0,
                bias: None,
                c: core.out.0.wrapping_add(core.out.1.at(b, h, 0)),
                c_stride: core.out.1.row,
                stream: false,
            }
        };
        // SAFETY: the caller's promise; heads do not share elements of the output.
        unsafe { self.products(s.batch * s.heads, of) };
    }

    /// Calls `work(first element, piece)` over rows of length `d`, on one thread or all.
    fn rows(&self, y: &mut [f32], d: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
        if self.parallel {
            let len = (16_384 / d).max(1) * d;
            pool::for_each_slice(y, len, |piece, y| work(piece * len, y));
        } else {
            work(0, y);
        }
    }

    /// Layer norm of rows of length `gamma.len()`.
    pub(super) fn layer_norm(&self, x: &[f32], gamma: &[f32], beta: &[f32], y: &mut [f32]) {
        self.rows(y, gamma.len(), |at, y| layer_norm(self.isa, &x[at..][..y.len()], gamma, beta, EPSILON as f32, y));
    }

    /// GELU in the tanh form, in place.
    pub(super) fn gelu(&self, y: &mut [f32]) {
        self.rows(y, 64, |_, y| dispatch(self.isa, Gelu(y)));
    }

    /// `y += x`.
    pub(super) fn add(&self, x: &[f32], y: &mut [f32]) {
        self.rows(y, 64, |at, y| {
            let len = y.len();
            y.iter_mut().zip(&x[at..][..len]).for_each(|(y, x)| *y += x);
        });
    }
}

/// An address that may be sent to other threads.
struct Start(*mut f32);
// SAFETY: users of the address guarantee its validity.
unsafe impl Sync for Start {}
impl Start {
    fn at(&self, offset: usize) -> *mut f32 {
        self.0.wrapping_add(offset)
    }
}

#[inline(always)]
fn put<S: Simd>(s: S, y: &mut [f32], v: S::F) {
    if y.len() == S::LANES { s.store(y, v) } else { s.store_part(y, v) }
}

struct Gelu<'a>(&'a mut [f32]);

impl Kernel for Gelu<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for y in self.0.chunks_mut(S::LANES) {
            let x = if y.len() == S::LANES { s.load(y) } else { s.load_part(y, 0.0) };
            // 0.5 x (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3)
            let cube = s.mul(s.mul(x, x), x);
            let u = s.mul(s.mul_add(cube, s.splat(0.044_715), x), s.splat(-2.0 * 0.797_884_6));
            put(s, y, s.div(x, s.add(s.splat(1.0), exp(s, u))));
        }
    }
}
