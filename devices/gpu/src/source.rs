//! Sources of kernels, and what a launch is made of.

/// A file of kernels: portable CUDA C++, which compiles for GPUs and, by a header of the tests, for the processor; or WGSL.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the file, as messages show it.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Options of the compiler beside the architecture.
    pub options: &'static [&'static str],
}

/// The text of files beside the caller's, one behind the other, with lines that count as in each of them.
#[macro_export]
macro_rules! files {
    ($($file:literal),+ $(,)?) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file), "\n"),+)
    };
}

/// Sources that one architecture alone can run, since they use instructions that no other has.
const SPECIAL: [(&str, &str); 3] =
    [("hopper.cu", "sm_90a"), ("products_hopper.cu", "sm_90a"), ("matmul_hopper.cu", "sm_90a")];

/// What every source begins with: short names of types and the few things that differ between compilers.
const PORTABLE: &str = include_str!("portable.cuh");

impl Source {
    /// The whole text, with lines that count as in the files.
    pub fn whole(&self) -> String {
        format!("#line 1 \"portable.cuh\"\n{PORTABLE}\n#line 1 \"{}\"\n{}", self.name, self.text)
    }

    /// Whether it is for this architecture; most are for all.
    pub fn is_for(&self, arch: &str) -> bool {
        SPECIAL.iter().all(|(name, only)| *name != self.name || *only == arch)
    }

    /// Names of the kernels in it: each stands as `extern "C" .. __global__ void NAME(`.
    pub fn kernels(&self) -> Vec<&'static str> {
        let name = |after: &'static str| after.trim_start().split('(').next().unwrap_or("").trim();
        self.text.split("__global__ void ").skip(1).map(name).collect()
    }
}

/// Blocks and threads of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: [u32; 3],
    /// Bytes of shared memory whose size the launch decides.
    pub shared: u32,
}

impl Grid {
    /// A row of blocks.
    pub fn line(blocks: usize, threads: u32) -> Self {
        // The hardware takes 2^31 - 1 blocks; every kernel here gets by with fewer, by looping where it must.
        let blocks = u32::try_from(blocks.max(1)).unwrap_or(u32::MAX).min(i32::MAX as u32);
        Self { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }

    /// With shared memory.
    pub fn shared(self, bytes: usize) -> Self {
        Self { shared: u32::try_from(bytes).unwrap_or(u32::MAX), ..self }
    }
}

/// A size as a `u32` argument.
pub fn whole(value: usize) -> Arg {
    Arg::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arg {
    /// Address on the device.
    At(u64),
    /// `u32`.
    U32(u32),
    /// `u64`.
    U64(u64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
    /// `TensorMap`: an array as the copy engine sees it.
    Map(TensorMap),
}

/// An array that [`super::Backend::tensor_map`] described, in the backend's own encoding.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct TensorMap(pub [u64; 16]);

/// An array of bf16 in three dimensions, the last of which lie side by side, cut into boxes of rows of 64 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Where it begins.
    pub address: u64,
    /// Matrices, rows of each, values of a row.
    pub shape: [usize; 3],
    /// Rows of a box.
    pub rows: u32,
}

impl Arg {
    /// Its bytes: the driver reads as many as the parameter has, from the lowest.
    pub fn word(self) -> u64 {
        match self {
            Arg::At(word) | Arg::U64(word) => word,
            Arg::U32(value) => u64::from(value),
            Arg::F32(value) => u64::from(value.to_bits()),
            Arg::F64(value) => value.to_bits(),
            Arg::Map(map) => map.0[0],
        }
    }

    /// A letter for the type of parameter that it is for.
    pub fn letter(self) -> char {
        match self {
            Arg::At(_) => 'p',
            Arg::U32(_) => 'u',
            Arg::U64(_) => 'l',
            Arg::F32(_) => 'f',
            Arg::F64(_) => 'd',
            Arg::Map(_) => 'm',
        }
    }

    /// All of them, where they must lie for a parameter that is larger than a word.
    pub fn words(self) -> TensorMap {
        match self {
            Arg::Map(map) => map,
            other => {
                let mut words = [0; 16];
                words[0] = other.word();
                TensorMap(words)
            }
        }
    }
}
