//! Sources of kernels, and what a launch is made of.

/// A file of kernels: portable CUDA C++, which compiles for GPUs and, by a header of the tests, for the processor; WGSL; or
/// Triton, compiled ahead of time.
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
macro_rules! files {
    ($($file:literal),+ $(,)?) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file), "\n"),+)
    };
}
pub(crate) use files;

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

    /// FNV-1a of its text alone, in hexadecimal: what code that was compiled ahead of time was made from.
    pub(crate) fn digest(&self) -> String {
        let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
        format!("{:016x}", self.text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
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

/// All sources, for checks that compile every one of them.
pub fn sources() -> Vec<&'static Source> {
    vec![
        &super::gate::SOURCE,
        &super::cuda::FLUSH,
        &crate::calibration::CUDA,
        &crate::calibration::CUDA_FMA,
        &crate::calibration::CUDA_PRODUCTS,
        &crate::calibration::CUDA_PRODUCTS_HOPPER,
        &crate::lattice::CUDA,
        &crate::layers::CUDA,
        &crate::gemm::CUDA,
        &crate::gemm::CUDA_BF16,
        &crate::gemm::CUDA_HOPPER,
        &crate::attention::CUDA,
        &crate::attention::CUDA_BF16,
        &crate::attention::CUDA_HOPPER,
        &crate::kde::CUDA,
        &crate::kde::CUDA_LOCAL,
    ]
}

/// All sources in WGSL, for the test that compiles every kernel of them.
#[cfg(all(test, feature = "vulkan"))]
pub(crate) fn shaders() -> Vec<&'static Source> {
    use crate::{attention, calibration, gemm, kde, layers};
    let mut all = vec![&calibration::WGSL, &layers::WGSL, &gemm::WGSL, &attention::WGSL, &kde::WGSL, &kde::WGSL_LOCAL];
    all.extend(crate::lattice::WGSL);
    all
}

/// Blocks and threads of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Blocks.
    pub(crate) blocks: [u32; 3],
    /// Threads of a block.
    pub(crate) threads: [u32; 3],
    /// Bytes of shared memory whose size the launch decides.
    pub(crate) shared: u32,
}

impl Grid {
    /// A row of blocks.
    pub(crate) fn line(blocks: usize, threads: u32) -> Self {
        // The hardware takes 2^31 - 1 blocks; every kernel here gets by with fewer, by looping where it must.
        let blocks = u32::try_from(blocks.max(1)).unwrap_or(u32::MAX).min(i32::MAX as u32);
        Self { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }

    /// With shared memory.
    pub(crate) fn shared(self, bytes: usize) -> Self {
        Self { shared: u32::try_from(bytes).unwrap_or(u32::MAX), ..self }
    }
}

/// A size as a `u32` argument.
pub(crate) fn whole(value: usize) -> Arg {
    Arg::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arg {
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
pub(crate) struct TensorMap(pub(crate) [u64; 16]);

/// An array of bf16 in three dimensions, the last of which lie side by side, cut into boxes of rows of 64 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiles {
    /// Where it begins.
    pub(crate) address: u64,
    /// Matrices, rows of each, values of a row.
    pub(crate) shape: [usize; 3],
    /// Rows of a box.
    pub(crate) rows: u32,
}

impl Arg {
    /// Its bytes: the driver reads as many as the parameter has, from the lowest.
    pub(crate) fn word(self) -> u64 {
        match self {
            Arg::At(word) | Arg::U64(word) => word,
            Arg::U32(value) => u64::from(value),
            Arg::F32(value) => u64::from(value.to_bits()),
            Arg::F64(value) => value.to_bits(),
            Arg::Map(map) => map.0[0],
        }
    }

    /// A letter for the type of parameter that it is for.
    #[cfg(test)]
    pub(crate) fn letter(self) -> char {
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
    pub(crate) fn words(self) -> TensorMap {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_name_and_each_is_there_once() {
        for source in sources() {
            let mut kernels = source.kernels();
            assert!(!kernels.is_empty(), "{} has no kernel", source.name);
            assert_eq!(kernels.len(), source.text.matches("extern \"C\"").count(), "{}", source.name);
            kernels.sort_unstable();
            kernels.dedup();
            assert_eq!(kernels.len(), source.kernels().len(), "{}", source.name);
            assert!(
                kernels.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')),
                "{kernels:?}"
            );
        }
    }
}
