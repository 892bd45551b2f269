//! The parameters of a case: axes, named sizes, and their values.

use ellwand_core::{Axis, Case, Domain, InputError, Size, Tensors, Value};

use super::labels;
use super::op::Op;
use ellwand_simd::buffer::Pages;
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::Precision;

/// How a loss is reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    Mean,
    Sum,
    None,
}

/// How an implementation's arrays are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocation {
    /// Once, on the pages of the program's allocator.
    Reused,
    /// Once, on huge pages.
    Arena,
    /// Outputs are allocated and freed in every run.
    Fresh,
}

impl Allocation {
    pub(super) fn pages(self) -> Pages {
        if self == Allocation::Arena { Pages::Huge } else { Pages::Heap }
    }
}

/// Remark on results with fresh outputs.
pub(super) const FRESH: &str = "allocation=fresh: outputs are allocated and freed in every run; if the allocator returns them to the system (large \
     ones), each page faults anew, which can cost more than the kernel";

/// How outputs are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stores {
    Auto,
    Ordinary,
    NonTemporal,
}

/// The parameters of a case as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) sequence: usize,
    pub(super) dimension: usize,
    pub(super) eps: f32,
    pub(super) tanh: bool,
    pub(super) reduction: Reduction,
    /// Label of rows that the loss skips, and the share of generated rows that have it, in percent.
    pub(super) ignore_index: i64,
    pub(super) ignored: i64,
    /// Rows that the loss does not skip, if the labels are known.
    pub(super) counted: Option<usize>,
    pub(super) allocation: Allocation,
    pub(super) stores: Stores,
    pub(super) precision: Precision,
}

impl Shape {
    /// Reads a case. Missing axes take their defaults.
    pub(super) fn of(case: &Case) -> Result<Shape, InputError> {
        let shape = Shape {
            batch: case.size("batch", 1)?,
            sequence: case.size("sequence", 1)?,
            dimension: case.size("dimension", 1)?,
            eps: case.float("eps").unwrap_or(1e-5) as f32,
            tanh: case.text("form") == Some("tanh"),
            reduction: match case.text("reduction") {
                Some("sum") => Reduction::Sum,
                Some("none") => Reduction::None,
                _ => Reduction::Mean,
            },
            ignore_index: labels::ignore_index(case),
            ignored: case.int("ignored").unwrap_or(0),
            counted: None,
            allocation: match case.text("allocation") {
                Some("arena") => Allocation::Arena,
                Some("fresh") => Allocation::Fresh,
                _ => Allocation::Reused,
            },
            stores: match case.text("stores") {
                Some("ordinary") => Stores::Ordinary,
                Some("non-temporal") => Stores::NonTemporal,
                _ => Stores::Auto,
            },
            precision: Precision::of(case),
        };
        let bytes = [shape.batch, shape.sequence, shape.dimension].iter().try_fold(4_usize, |n, by| n.checked_mul(*by));
        match bytes.filter(|bytes| isize::try_from(*bytes).is_ok()) {
            Some(_) => Ok(shape),
            None => Err(InputError::setting(
                "batch",
                format!("{} x {} x {} values cannot be addressed", shape.batch, shape.sequence, shape.dimension),
                "a smaller shape",
            )),
        }
    }

    /// Reads a case for its required work. Labels of the user's arrays are unknown, so all of their rows count.
    pub(super) fn of_work(case: &Case) -> Result<Shape, InputError> {
        let shape = Shape::of(case)?;
        Ok(if case.input.is_some() { Shape { ignored: 0, ..shape } } else { shape })
    }

    /// Reads a case for the work that its inputs require.
    pub(super) fn of_inputs(case: &Case, inputs: &Tensors) -> Result<Shape, InputError> {
        let labels = inputs.find("labels").map(|_| labels::of(case, inputs)).transpose()?;
        Ok(Shape { counted: labels.map(|labels| labels::counted(&labels)), ..Shape::of(case)? })
    }

    /// Number of rows, i.e. vectors along the last axis.
    pub(super) fn rows(&self) -> usize {
        self.batch * self.sequence
    }

    /// Number of rows that the loss does not skip; expected, unless the labels are known.
    pub(super) fn counted_rows(&self) -> usize {
        if let Some(counted) = self.counted {
            return counted;
        }
        let (rows, percent) = (self.rows(), self.ignored.clamp(0, 100) as usize);
        // The product of all rows with the share may not fit.
        rows - (rows / 100 * percent + rows % 100 * percent / 100)
    }

    /// Number of elements of x.
    pub(super) fn elements(&self) -> usize {
        self.rows() * self.dimension
    }
}

/// Refuses cases that nothing here computes.
pub(super) fn check(case: &Case) -> Result<(), InputError> {
    Shape::of(case)?;
    labels::check(case)?;
    Isa::of(case).map(drop)
}

/// Cases with the same sizes get the same arrays.
pub(super) fn data_digest(case: &Case) -> u64 {
    let axis = |name: &str| (name.to_string(), Value::Int(case.int(name).unwrap_or(0)));
    Case::new("layers-data", vec![axis("batch"), axis("sequence"), axis("dimension")]).digest()
}

/// The axes of an operation.
pub(super) fn axes(op: Op) -> Vec<Axis> {
    let mut axes = vec![
        Axis::int("batch", "sequences in a batch", 1, 1 << 24, 16).sweep([16_i64, 64]).alias(&["batch-sizes"]),
        Axis::int("sequence", "vectors in a sequence", 1, 1 << 24, 256)
            .sweep([256_i64, 512])
            .alias(&["sequence-lengths"]),
        Axis::int(
            "dimension",
            if op.has_labels() { "classes: values in a vector" } else { "values in a vector" },
            1,
            1 << 24,
            256,
        )
        .sweep([64_i64, 256, 768])
        .alias(&["tensor-dimensions", "classes"]),
    ];
    if op.has_form() {
        let both =
            Axis::choice("form", "exact: x Phi(x); tanh: the approximation by tanh", &["exact", "tanh"], "exact");
        axes.push(if op == Op::Gelu { both.sweep(["exact", "tanh"]) } else { both });
    }
    if op.has_eps() {
        axes.push(Axis::new("eps", "added to the variance", Domain::PositiveOr(Vec::new()), 1e-5));
    }
    if op.is_loss() {
        let words = ["mean", "sum", "none"];
        axes.push(Axis::choice("reduction", "reduction of the losses: their mean, their sum, or none", &words, "mean"));
    }
    if op.has_labels() {
        axes.extend(labels::axes());
    }
    axes.push(Axis::choice(
        "allocation",
        "reused: arrays allocated once; arena: once, on huge pages; fresh: outputs allocated and freed in every run",
        &["reused", "arena", "fresh"],
        "reused",
    ));
    axes.push(Axis::choice(
        "stores",
        "stores of vector implementations; auto: non-temporal from the size at which they pay off on this machine",
        &["auto", "ordinary", "non-temporal"],
        "auto",
    ));
    axes.push(Isa::axis());
    axes
}

/// The precision axis, for operations that support bf16. It was added later, so its default leaves case ids unchanged.
pub(super) fn precision() -> Axis {
    Precision::axis(
        "type of x, of arrays of its shape and of individual losses; bf16 is stored as its bits in uint16 and computed in f32",
    )
}

pub(super) fn sizes() -> Vec<Size> {
    let size = |name, batch, sequence, dimension| {
        Size::new(name, [("batch", batch), ("sequence", sequence), ("dimension", dimension)])
    };
    vec![
        size("tiny", 2, 8, 64),
        size("small", 16, 256, 64),
        // Fits into the last-level cache of most machines, so it shows the kernel's own speed.
        size("medium", 16, 256, 256),
        // A layer of a small language model.
        size("large", 32, 512, 768),
        size("realistic", 128, 1024, 512),
    ]
}
