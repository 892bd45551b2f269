//! The sizes, heads and mask of an attention case, and errors for invalid ones.

use ellwand_core::{Axis, Case, InputError, PrepareError, Size, Value};

use ellwand_simd::isa::Isa;
use ellwand_simd::precision::Precision;

/// Which keys a query sees. Every mask here is a prefix of the keys, so masked scores are never computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    None,
    /// The keys up to its own position; with another number of keys than of queries, counted from the first key, as in
    /// PyTorch.
    Causal,
    /// The keys within the length of its sequence.
    Padding,
}

/// The sizes of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of sequences.
    pub(super) batch: usize,
    /// Positions per sequence.
    pub(super) sequence: usize,
    /// Keys per sequence: equal to the positions, except in the core.
    pub(super) keys: usize,
    /// Values per position.
    pub(super) dimension: usize,
    /// Number of query heads.
    pub(super) heads: usize,
    /// Number of key and value heads; each serves heads / kv_heads query heads.
    pub(super) kv_heads: usize,
    /// Which keys a query sees.
    pub(super) mask: Mask,
    /// Keys within the lengths of all sequences, if the arrays that hold these are known and the mask needs them.
    pub(super) seen: Option<usize>,
}

/// Largest sequence, batch and dimension of a case.
const MAX_EXTENT: i64 = 1 << 20;

/// Axes of all attention workloads.
pub(super) fn axes() -> Vec<Axis> {
    vec![
        Axis::int("batch", "sequences", 1, MAX_EXTENT, 1).unit("sequences"),
        Axis::int("sequence", "positions in a sequence", 1, MAX_EXTENT, 256).sweep([64_i64, 256]).unit("positions"),
        Axis::int("dimension", "values per position: heads times the dimension of a head", 1, MAX_EXTENT, 512)
            .unit("values")
            .alias(&["d-model"]),
        Axis::int("heads", "heads; they must divide the dimension", 1, 4096, 8).unit("heads").alias(&["num-heads"]),
        Axis::int("kv-heads", "heads of keys and values; must divide the heads; 0: as many as heads", 0, 4096, 0)
            .unit("heads"),
        Axis::choice(
            "mask",
            "keys that a query sees: all, those up to its own position (counted from the first key), or those within its sequence's length",
            &["none", "causal", "padding"],
            "none",
        ),
        Isa::axis(),
    ]
}

/// The number of keys; only the core has this axis. It was added later, so its default leaves case ids unchanged.
pub(super) fn keys() -> Axis {
    let about = "keys and values in a sequence; 0: as many as positions";
    let mut axis = Axis::int("keys", about, 0, MAX_EXTENT, 0).unit("keys").alias(&["key-length"]);
    axis.neutral = axis.default.first().cloned();
    axis
}

/// Sets the number of keys of a case of the core; 0 for as many as positions, which leaves the axis out.
pub(super) fn set_keys(case: &mut Case, keys: usize) {
    case.params.retain(|(axis, _)| axis != "keys");
    if keys > 0 {
        case.params.push(("keys".into(), Value::Int(keys as i64)));
    }
}

/// The precision axis; only the core has it.
pub(super) fn precision() -> Axis {
    Precision::axis("type of queries, keys, values and results; bf16 is stored as its bits in uint16")
}

/// Named sizes of all attention workloads.
pub(super) fn sizes() -> Vec<Size> {
    let size = |name, batch, sequence, dimension, heads| {
        Size::new(name, [("batch", batch), ("sequence", sequence), ("dimension", dimension), ("heads", heads)])
    };
    vec![
        size("tiny", 2, 17, 64, 2),
        size("small", 1, 256, 512, 8),
        size("medium", 1, 1024, 512, 8),
        size("large", 4, 1024, 768, 12),
        // The length at which the scores of one sequence take 512 MB.
        size("realistic", 1, 4096, 512, 8),
    ]
}

impl Shape {
    /// Reads the sizes of a case.
    pub(super) fn of(case: &Case) -> Result<Self, InputError> {
        let (dimension, heads) = (case.size("dimension", 512)?, case.size("heads", 8)?);
        if !dimension.is_multiple_of(heads) {
            let fitting = |step: fn(usize) -> usize| {
                let mut heads = heads;
                while heads > 1 && heads < dimension && !dimension.is_multiple_of(heads) {
                    heads = step(heads);
                }
                heads.clamp(1, dimension)
            };
            let mut fit = [fitting(|heads| heads - 1), fitting(|heads| heads + 1)].map(|n| n.to_string()).to_vec();
            fit.dedup();
            return Err(InputError::setting(
                "heads",
                format!("{heads} heads do not divide the dimension {dimension}"),
                format!("a divisor of {dimension}"),
            )
            .help(format!("choose {}", fit.join(" or "))));
        }
        let kv_heads = match case.int("kv-heads").unwrap_or(0) {
            0 => heads,
            given => {
                usize::try_from(given).ok().filter(|kv| *kv > 0 && heads.is_multiple_of(*kv)).ok_or_else(|| {
                    InputError::setting(
                        "kv-heads",
                        format!("{given} heads of keys and values do not divide the {heads} heads"),
                        format!("a divisor of {heads}, or 0 for {heads}"),
                    )
                })?
            }
        };
        let mask = match case.text("mask") {
            Some("causal") => Mask::Causal,
            Some("padding") => Mask::Padding,
            _ => Mask::None,
        };
        let sequence = case.size("sequence", 256)?;
        let keys = Some(case.count("keys", 0)).filter(|keys| *keys > 0).unwrap_or(sequence);
        Ok(Self { batch: case.size("batch", 1)?, sequence, keys, dimension, heads, kv_heads, mask, seen: None })
    }

    /// The same sizes with these lengths of the sequences, if the mask needs them.
    pub(super) fn with_lengths(self, lengths: &[i64]) -> Self {
        let seen = || (0..self.batch).map(|b| self.visible(lengths, b, 0)).sum();
        Self { seen: (self.mask == Mask::Padding).then(seen), ..self }
    }

    /// Rejects a number of keys that differs from that of queries, for kernels that know only one length.
    pub(super) fn check_one_length(&self) -> Result<(), PrepareError> {
        if self.keys == self.sequence {
            return Ok(());
        }
        Err(PrepareError::Unsupported("the GPU kernels need as many keys as queries (keys=0)".into()))
    }

    /// Values per head.
    pub(super) fn head(&self) -> usize {
        self.dimension / self.heads
    }

    /// Values per position of the projected queries, keys and values.
    pub(super) fn projected(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head()
    }

    /// Number of positions in all sequences.
    pub(super) fn positions(&self) -> usize {
        self.batch * self.sequence
    }

    /// Keys of sequence `b` in generated inputs: ragged, from nearly full to about half.
    pub(super) fn length(&self, b: usize) -> usize {
        self.keys - (b + 1) * self.keys / (2 * (self.batch + 1))
    }

    /// Number of leading keys that query `row` of sequence `b` sees; uses `lengths` if the mask is padding.
    pub(super) fn visible(&self, lengths: &[i64], b: usize, row: usize) -> usize {
        match self.mask {
            Mask::None => self.keys,
            Mask::Causal => self.keys.min(row + 1),
            Mask::Padding => lengths.get(b).map_or(0, |l| usize::try_from(*l).unwrap_or(0).min(self.keys)),
        }
    }

    /// Keys in all sequences that some query sees, for one head.
    pub(super) fn seen_keys(&self) -> usize {
        match self.mask {
            Mask::None => self.batch * self.keys,
            Mask::Causal => self.batch * self.keys.min(self.sequence),
            Mask::Padding => self.seen.unwrap_or_else(|| (0..self.batch).map(|b| self.length(b)).sum()),
        }
    }

    /// Pairs of a query and a visible key in all sequences, for one head.
    pub(super) fn pairs(&self) -> f64 {
        let (s, keys) = (self.sequence as f64, self.keys as f64);
        // Up to this row, each row sees one key more than the one before.
        let growing = s.min(keys);
        match self.mask {
            Mask::None => self.batch as f64 * s * keys,
            Mask::Causal => self.batch as f64 * (growing * (growing + 1.0) / 2.0 + (s - growing) * keys),
            Mask::Padding => s * self.seen_keys() as f64,
        }
    }

    /// The scale of scores, 1 / sqrt(head).
    pub(super) fn scale(&self) -> f64 {
        1.0 / (self.head() as f64).sqrt()
    }
}

/// Location of the rows of heads: element e of position r of head h of sequence b is at `b batch + h head + r row + e`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) row: usize,
}

impl Layout {
    /// [batch, heads, sequence, head]: each head is contiguous.
    pub(super) fn queries(shape: &Shape) -> Self {
        Self::apart(shape, shape.heads, shape.sequence)
    }

    /// [batch, kv-heads, keys, head].
    pub(super) fn keys(shape: &Shape) -> Self {
        Self::apart(shape, shape.kv_heads, shape.keys)
    }

    fn apart(shape: &Shape, heads: usize, rows: usize) -> Self {
        let head = rows * shape.head();
        Self { batch: heads * head, head, row: shape.head() }
    }

    /// [batch, sequence, width]: the heads of a position are next to each other.
    pub(super) fn together(shape: &Shape, width: usize) -> Self {
        Self { batch: shape.sequence * width, head: shape.head(), row: width }
    }

    /// Offset of the first element of a row.
    pub(super) fn at(&self, b: usize, head: usize, row: usize) -> usize {
        b * self.batch + head * self.head + row * self.row
    }
}
