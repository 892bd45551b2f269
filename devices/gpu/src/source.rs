//! Kernel sources, and the parts of a launch.

/// A kernel source: portable CUDA C++, which also compiles for the CPU with a header of the tests; or WGSL.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// File name, as messages show it.
    pub name: &'static str,
    /// Text of the file.
    pub text: &'static str,
    /// Compiler options besides the architecture.
    pub options: &'static [&'static str],
}

/// Concatenates files from the caller's folder; `#line` directives keep each file's line numbers.
#[macro_export]
macro_rules! files {
    ($($file:literal),+ $(,)?) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file), "\n"),+)
    };
}

/// A WGSL source named after its first file, from files in the caller's folder or relative to it.
#[macro_export]
macro_rules! wgsl {
    ($name:literal $(, $file:literal)*) => {
        $crate::Source {
            name: $name,
            text: concat!(include_str!($name) $(, include_str!($file))*),
            options: &[],
        }
    };
}

/// Sources for one architecture only, since they use instructions that no other has.
const SPECIAL: [(&str, &str); 3] =
    [("hopper.cu", "sm_90a"), ("products_hopper.cu", "sm_90a"), ("matmul_hopper.cu", "sm_90a")];

/// Prefix of every source: short type names, and the few differences between compilers.
const PORTABLE: &str = include_str!("portable.cuh");

impl Source {
    /// The complete text, with `#line` directives for the files' line numbers.
    pub fn whole(&self) -> String {
        format!("#line 1 \"portable.cuh\"\n{PORTABLE}\n#line 1 \"{}\"\n{}", self.name, self.text)
    }

    /// True if the source compiles for this architecture; most do for all.
    pub fn is_for(&self, arch: &str) -> bool {
        SPECIAL.iter().all(|(name, only)| *name != self.name || *only == arch)
    }

    /// Names of the kernels, each declared as `extern "C" .. __global__ void NAME(`.
    pub fn kernels(&self) -> Vec<&'static str> {
        let name = |after: &'static str| after.trim_start().split('(').next().unwrap_or("").trim();
        self.text.split("__global__ void ").skip(1).map(name).collect()
    }
}

/// Blocks and threads of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Number of blocks per dimension.
    pub blocks: [u32; 3],
    /// Threads per block and dimension.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Grid {
    /// A one-dimensional grid of `blocks` blocks of `threads` threads.
    pub fn line(blocks: usize, threads: u32) -> Self {
        // The limit is 2^31 - 1 blocks; kernels that need more loop.
        let blocks = u32::try_from(blocks.max(1)).unwrap_or(u32::MAX).min(i32::MAX as u32);
        Self { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }

    /// Sets the dynamic shared memory.
    pub fn shared(self, bytes: usize) -> Self {
        Self { shared: u32::try_from(bytes).unwrap_or(u32::MAX), ..self }
    }
}

/// Converts a size to a `u32` argument.
pub fn whole(value: usize) -> Arg {
    Arg::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

/// A kernel argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arg {
    /// An address on the device.
    At(u64),
    /// A 32-bit unsigned integer.
    U32(u32),
    /// A 64-bit unsigned integer.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A tensor map, by which the copy engine reads an array.
    Map(TensorMap),
}

/// A tensor map created by [`super::Backend::tensor_map`], in the backend's encoding.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct TensorMap(pub [u64; 16]);

/// A contiguous three-dimensional array of bf16 to be read in boxes with rows of 64 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Device address of the first value.
    pub address: u64,
    /// Matrices, rows per matrix, values per row.
    pub shape: [usize; 3],
    /// Rows per box.
    pub rows: u32,
}

impl Arg {
    /// The bits of the argument. The driver reads only as many low bytes as the parameter has.
    pub fn word(self) -> u64 {
        match self {
            Arg::At(word) | Arg::U64(word) => word,
            Arg::U32(value) => u64::from(value),
            Arg::F32(value) => u64::from(value.to_bits()),
            Arg::F64(value) => value.to_bits(),
            Arg::Map(map) => map.0[0],
        }
    }

    /// A letter for the parameter's type.
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

    /// All bits, aligned as a tensor map needs.
    pub fn aligned_bits(self) -> TensorMap {
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
