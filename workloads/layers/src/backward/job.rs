//! Prepared implementations: arrays under the allocation policy of the case, pieces, threads, and sums over the pieces.
#![allow(unsafe_code)]

use ellwand_core::{
    Case, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Reading, Tensor, Tensors,
};

use super::op::{Op, Upstream};
use super::piece::{self, Piece, Plan};
use crate::input::Input;
use crate::job::{Method, by_methods, describe, memory, rows_of_a_piece, stores_of};
use crate::labels;
use crate::shape::{Allocation, Reduction, Shape};
use ellwand_simd::buffer::{Buffer, Shared};
use ellwand_simd::pool;

/// Maximum number of pieces if each has its own column sums: enough for the threads of a large machine, few enough that
/// adding them up is cheap compared with the rows.
const MAX_SUMS: usize = 128;

/// Columns whose sums are added together; a multiple of a cache line of f64.
const COLUMNS: usize = 256;

/// The CPU implementations of an operation.
pub(super) fn implementations(op: Op) -> Vec<Implementation> {
    by_methods(op.name(), false, move |method, case, inputs| Ok(Box::new(Job::new(op, method, case, inputs)?)))
}

/// Rows per piece; depends only on the shape.
fn rows_of(op: Op, shape: &Shape) -> usize {
    let rows = rows_of_a_piece(shape);
    if op.has_parameters() { rows.max(shape.rows().div_ceil(MAX_SUMS)).next_multiple_of(16) } else { rows }
}

/// Size of the column sums that an implementation keeps, in bytes.
pub(super) fn bytes_of_sums(op: Op, shape: &Shape) -> u64 {
    if op.has_parameters() { 16 * (shape.dimension * shape.rows().div_ceil(rows_of(op, shape))) as u64 } else { 0 }
}

/// One operation at one case, with its arrays.
pub(super) struct Job {
    op: Op,
    method: Method,
    shape: Shape,
    /// The original extents of x.
    extents: Vec<usize>,
    x: Input,
    target: Input,
    /// dy, or dloss of each loss; empty if the loss is reduced.
    upstream: Input,
    /// The same as [`Plan::factor`].
    factor: f64,
    gamma: Input,
    labels: Vec<i64>,
    dx: Buffer,
    dgamma: Buffer,
    dbeta: Buffer,
    /// dgamma and dbeta of each piece.
    sums: Buffer<f64>,
    pieces: usize,
    stream: bool,
    stores: String,
    /// As in the forward job: a run after the poison writes to the poisoned memory.
    renewed: bool,
}

impl Job {
    /// Allocates the arrays of a case under its allocation policy.
    pub(super) fn new(op: Op, method: Method, case: &Case, inputs: &Tensors) -> Result<Job, PrepareError> {
        let (op, shape) = (op.of(case), Shape::of(case)?);
        let x = inputs.get("x")?;
        if x.len() != shape.elements() {
            return Err(InputError::new("x", format!("its shape is {:?}", x.shape()), "the shape of the case").into());
        }
        let pages = shape.allocation.pages();
        let array = |name: &str, len: usize| -> Result<Input, InputError> {
            let values = inputs.get(name)?;
            if values.len() == len {
                return Input::of(values, name, pages);
            }
            Err(InputError::new(name, format!("it holds {} values", values.len()), format!("{len}")))
        };
        let nothing = Input::default;
        let name = op.upstream_name();
        let (upstream, given) = match op.upstream(shape.reduction) {
            Upstream::Whole => (array(name, shape.elements())?, 1.0),
            Upstream::Rows => (array(name, shape.rows())?, 1.0),
            Upstream::One => (nothing(), array(name, 1)?.first().copied().map_or(1.0, f64::from)),
        };
        let labels = if op.forward().has_labels() { labels::of(case, inputs)? } else { Vec::new() };
        let losses = match op {
            Op::CrossEntropyLoss => labels::counted(&labels),
            Op::SoftCrossEntropyLoss => shape.rows(),
            _ => shape.elements(),
        };
        let reduced = op.forward().is_loss() && shape.reduction == Reduction::Mean;
        let parameters = if op.has_parameters() { shape.dimension } else { 0 };
        let pieces = shape.rows().div_ceil(rows_of(op, &shape));
        let (read, written) = op.traffic(&Shape { ignored: 0, ..shape });
        let (stream, stores) = stores_of(method, &shape, op.rowwise(), read + written);
        Ok(Job {
            op,
            method,
            extents: x.shape().to_vec(),
            x: array("x", shape.elements())?,
            target: op.forward().second().map_or(Ok(nothing()), |(name, _)| array(name, shape.elements()))?,
            upstream,
            factor: if reduced { given / losses as f64 } else { given },
            gamma: if op.has_parameters() { array("gamma", shape.dimension)? } else { nothing() },
            labels,
            dx: Buffer::filled(shape.elements(), 0.0, pages),
            dgamma: Buffer::filled(parameters, 0.0, pages),
            dbeta: Buffer::filled(parameters, 0.0, pages),
            sums: Buffer::filled(2 * parameters * pieces, 0.0, pages),
            pieces,
            shape,
            stream,
            stores,
            renewed: false,
        })
    }

    /// Allocates the outputs again, if each run does.
    fn renew(&mut self) {
        if self.shape.allocation == Allocation::Fresh {
            let pages = self.shape.allocation.pages();
            for output in [&mut self.dx, &mut self.dgamma, &mut self.dbeta] {
                // SAFETY: a run writes every value of its outputs before it reads any.
                unsafe { output.renew(pages) };
            }
        }
    }

    /// Computes the gradients once.
    pub(super) fn compute(&mut self) {
        if !std::mem::take(&mut self.renewed) {
            self.renew();
        }
        // Moved out while the threads write to them, and moved back afterwards.
        let mut held = [&mut self.dx, &mut self.dgamma, &mut self.dbeta].map(std::mem::take);
        let mut sums = std::mem::take(&mut self.sums);
        let [dx, dgamma, dbeta] = held.each_mut().map(|buffer| Shared::new(buffer));
        self.rows(&dx, &Shared::new(&mut sums));
        self.columns(&sums, [&dgamma, &dbeta]);
        [self.dx, self.dgamma, self.dbeta] = held;
        self.sums = sums;
    }

    /// Computes all pieces: dx, and the column sums of each piece.
    fn rows(&self, dx: &Shared<'_>, sums: &Shared<'_, f64>) {
        let (d, rows) = (self.shape.dimension, rows_of(self.op, &self.shape));
        let plan = Plan {
            op: self.op,
            d,
            eps: self.shape.eps,
            tanh: self.shape.tanh,
            factor: self.factor,
            stream: self.stream,
            gamma: &self.gamma,
        };
        let by_row = self.op.upstream(self.shape.reduction) == Upstream::Rows;
        self.method.each(self.pieces, |i| {
            let (from, to) = (i * rows, ((i + 1) * rows).min(self.shape.rows()));
            let upstream = if by_row { from..to } else { from * d..to * d };
            let piece = Piece {
                x: &self.x[from * d..to * d],
                target: self.target.get(from * d..to * d).unwrap_or(&[]),
                upstream: self.upstream.get(upstream).unwrap_or(&[]),
                labels: self.labels.get(from..to).unwrap_or(&[]),
                // SAFETY: different pieces do not overlap.
                dx: unsafe { dx.piece(from * d, to * d) },
                // SAFETY: nor do these sums; they are empty without parameters.
                sums: unsafe { sums.piece(i * 2 * d, (i + 1) * 2 * d) },
            };
            piece::run(self.method.way, &plan, piece);
        });
    }

    /// Computes dgamma and dbeta from the sums of all pieces, piece by piece for every column.
    fn columns(&self, sums: &[f64], [dgamma, dbeta]: [&Shared<'_>; 2]) {
        let d = self.shape.dimension;
        if sums.is_empty() {
            return;
        }
        self.method.each(d.div_ceil(COLUMNS), |i| {
            let (from, to) = (i * COLUMNS, ((i + 1) * COLUMNS).min(d));
            for (output, first) in [(dgamma, 0), (dbeta, d)] {
                let mut totals = [0.0; COLUMNS];
                for piece in sums.chunks_exact(2 * d) {
                    totals.iter_mut().zip(&piece[first + from..first + to]).for_each(|(total, sum)| *total += sum);
                }
                // SAFETY: different column ranges do not overlap.
                let output = unsafe { output.piece(from, to) };
                output.iter_mut().zip(totals).for_each(|(output, total)| *output = total as f32);
            }
        });
    }

    /// The arrays of the output ports.
    pub(super) fn outputs(&self) -> Result<Tensors, InputError> {
        let outputs = Tensors::new().with("dx", Tensor::new(&self.extents, &self.dx[..])?);
        Ok(if self.op.has_parameters() {
            outputs.with("dgamma", Tensor::vector(&self.dgamma[..])).with("dbeta", Tensor::vector(&self.dbeta[..]))
        } else {
            outputs
        })
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        self.compute();
    }

    fn poison(&mut self, poison: Poison) {
        self.renew();
        self.renewed = true;
        for output in [&mut self.dx, &mut self.dgamma, &mut self.dbeta] {
            poison.fill(output);
        }
        poison.fill(&mut self.sums);
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(self.outputs()?)
    }

    fn threads(&self) -> Option<usize> {
        self.method.parallel.then(|| pool::threads().min(self.pieces))
    }

    fn readings(&mut self) -> Vec<Reading> {
        let inputs: usize = [&self.x, &self.target, &self.upstream, &self.gamma].map(|input| input.len()).iter().sum();
        let outputs: usize = [&self.dx, &self.dgamma, &self.dbeta].map(|output| output.len()).iter().sum();
        let required = 4 * (inputs + outputs) + 8 * self.labels.len();
        let held = piece::held(self.method.way, self.op, self.shape.dimension);
        memory(required, 8 * self.sums.len() + held * self.threads().unwrap_or(1))
    }

    fn what_ran(&self) -> String {
        describe(self.method.way, self.threads(), "", &self.stores, self.shape.allocation)
    }
}
