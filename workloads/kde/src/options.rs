//! Options that affect the decoder's speed and memory, never its result.

use ellwand_simd::isa::Isa;

/// The implementation to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// f64, one formula after another; the others are compared with it.
    Reference,
    /// Plain loops over electrodes, spikes and bins.
    Scalar,
    /// Vector lanes on one thread, everything fused in cache-sized tiles.
    Simd(Isa),
    /// As `Simd`, on all threads.
    Parallel(Isa),
    /// A general-purpose matrix product between vectorised kernels, on one thread.
    Gemm(Isa),
}

// No other file matches on methods. To add one, extend these functions and add a row in `workload_run`.
impl Method {
    /// The vector instruction set; `None` for plain loops.
    pub(super) fn vectors(self) -> Option<Isa> {
        match self {
            Method::Simd(isa) | Method::Parallel(isa) | Method::Gemm(isa) => Some(isa),
            Method::Reference | Method::Scalar => None,
        }
    }

    /// The vector instruction set of the fused kernel, for the methods that predict with it.
    pub(super) fn fused(self) -> Option<Isa> {
        match self {
            Method::Simd(isa) | Method::Parallel(isa) => Some(isa),
            Method::Reference | Method::Scalar | Method::Gemm(_) => None,
        }
    }

    /// True if the method predicts with a general-purpose matrix product.
    pub(super) fn multiplies(self) -> bool {
        matches!(self, Method::Gemm(_))
    }

    /// True if the method uses all threads.
    pub(super) fn is_parallel(self) -> bool {
        matches!(self, Method::Parallel(_))
    }

    /// Number of threads to use.
    pub(super) fn threads(self) -> usize {
        // Cached, because the system call takes longer than a small prediction.
        static ALL: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        if self.is_parallel() { *ALL.get_or_init(ellwand_simd::pool::threads) } else { 1 }
    }

    /// Describes what ran in this precision.
    pub(super) fn what_ran(self, precision: Precision) -> String {
        // f32 is the default and not mentioned.
        let type_of = if precision == Precision::F64 { " f64" } else { "" };
        match self {
            Method::Reference => "f64".to_owned(),
            Method::Scalar => format!("{} loops", precision.name()),
            Method::Gemm(isa) => format!("matrixmultiply, kernels in {}{type_of}", isa.name()),
            Method::Simd(isa) | Method::Parallel(isa) => format!("{}{type_of}", isa.name()),
        }
    }
}

/// The number type in which kernels are computed and summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Log likelihoods within 2e-4 + 1e-5 |LL| of the reference.
    F32,
    /// Within 1e-11, with half the lanes and twice the memory.
    F64,
}

impl Precision {
    /// The name: "f32" or "f64".
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F64 => "f64",
        }
    }

    /// Size of a number in bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F64 => 8,
        }
    }
}

/// How to fit and predict. `block`, `tile`, `memory` and `threads` do not change a single bit of the result; `skip`
/// changes it by less than the precision resolves. Fitting uses only method, precision and threads. Converts from a
/// [`Method`] with `into()`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The implementation to use.
    pub method: Method,
    /// Number type; a model fitted in f64 predicts in both.
    pub precision: Precision,
    /// Maximum number of threads of `Method::Parallel`; by default all of the machine's.
    pub threads: Option<usize>,
    /// Decoding spikes per block; rounded up to the kernel's granularity.
    pub block: Option<usize>,
    /// Bins per tile; rounded up likewise.
    pub tile: Option<usize>,
    /// Working memory of all threads together, in bytes.
    pub memory: Option<u64>,
    /// Skip groups of encoding spikes that are too far from a group of bins to lift it above the floor.
    pub skip: bool,
}

impl Options {
    /// The defaults for `method`.
    pub fn new(method: Method) -> Self {
        Self { method, precision: Precision::F32, threads: None, block: None, tile: None, memory: None, skip: true }
    }
}

impl From<Method> for Options {
    fn from(method: Method) -> Self {
        Self::new(method)
    }
}

impl Options {
    /// Number of threads in use.
    pub(super) fn threads(&self) -> usize {
        let all = self.method.threads();
        self.threads.map_or(all, |most| most.clamp(1, all))
    }

    /// `busy` threads in words, for work on `items`. If the user requested one thread of several, no reason is given.
    pub(super) fn describe_threads(&self, busy: usize, items: &str) -> String {
        match self.threads() {
            1 if self.method.threads() > 1 => "1 thread".into(),
            _ => ellwand_simd::pool::about(busy, items),
        }
    }
}

/// Encoding spikes between two additions to the accumulators in memory. Fixed, because it determines the order of
/// summation.
pub(super) const CHUNK: usize = 256;

/// Bins whose position kernels are cached at once.
pub(super) const STRIP: usize = 128;

/// Rows and bins are processed in multiples of these.
pub(super) const ROW_STEP: usize = 12;
pub(super) const BIN_STEP: usize = 32;

/// Tile sizes of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Decoding spikes per block.
    pub(super) block: usize,
    /// Bins per tile.
    pub(super) tile: usize,
}

/// Blocks of this many spikes reload the position kernels rarely enough.
const BLOCK: usize = 480;
/// Accumulators of 480 x 2048 f32 stay in the last-level cache.
const TILE: usize = 2048;

/// Working memory of one thread in bytes.
pub(super) fn thread_bytes(tiling: Tiling, dims: usize, options: &Options) -> u64 {
    let Tiling { block, tile } = tiling;
    let number = options.precision.bytes();
    // The general matrix product needs its whole factor, the fused kernel only a strip of it.
    let strip = if options.method.fused().is_some() { STRIP } else { tile };
    let numbers = block * CHUNK + strip * CHUNK + block * tile + 2 * tile + block + dims * (CHUNK + STRIP);
    // The reach of panels (four bytes per chunk) and boxes, for tens of chunks.
    (number * numbers) as u64 + 64 * 1024
}

impl Options {
    /// Chooses block and tile for at most `spikes` decoding spikes per electrode and `bins` bins; `fixed` bytes of the
    /// budget are already in use.
    pub(super) fn tiling(&self, spikes: usize, bins: usize, dims: usize, fixed: u64) -> Result<Tiling, InputError> {
        let up = |n: usize, step: usize| n.max(1).next_multiple_of(step);
        // The same number of bytes in the L2 cache for either type.
        let whole_block = up(spikes, ROW_STEP).min(BLOCK * 4 / self.precision.bytes());
        let whole_tile = up(bins, BIN_STEP).min(TILE);
        let mut tiling = Tiling {
            block: self.block.map_or(whole_block, |b| up(b, ROW_STEP).min(up(spikes, ROW_STEP))),
            tile: self.tile.map_or(whole_tile, |t| up(t, BIN_STEP).min(up(bins, BIN_STEP))),
        };
        let Some(memory) = self.memory else { return Ok(tiling) };
        let threads = self.threads() as u64;
        let need = |tiling| fixed + threads * thread_bytes(tiling, dims, self);
        // Halve whichever is larger, down to one step of each.
        while need(tiling) > memory {
            let can_block = tiling.block > ROW_STEP && self.block.is_none();
            let can_tile = tiling.tile > BIN_STEP && self.tile.is_none();
            if can_tile && (tiling.tile >= tiling.block || !can_block) {
                tiling.tile = up(tiling.tile / 2, BIN_STEP);
            } else if can_block {
                tiling.block = up(tiling.block / 2, ROW_STEP);
            } else {
                let least = need(tiling);
                let problem = format!("{memory} bytes do not hold one tile");
                let expected = format!("at least {least} bytes for this model and these threads");
                let help = format!("memory={:.1} or auto", least as f64 / 1e6 + 0.05);
                return Err(InputError::setting("memory", problem, expected).help(help));
            }
        }
        Ok(tiling)
    }
}
use ellwand_core::InputError;
