//! Matrix products in f32: `C = alpha A B + onto`, with A row-major and B as given or transposed.
//!
//! The structure is Goto's (K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008) with
//! one level less: a block of B is packed and stays in the L2 cache, A streams past it unpacked, six rows at a time,
//! and each tile of C stays in registers for a few hundred steps. The order in which an element is summed over k
//! depends only on the shape, so the result is the same for every division of C among threads.

mod gpu;
mod gpu_half;
mod half;
mod hard;
mod panel;
mod plain;
mod product;
mod reference;
mod scratch;
#[cfg(test)]
mod tests;
mod tile;
mod workload;

use ellwand_core::Registry;
use ellwand_gpu::Source as GpuSource;

pub use half::Widened;
pub use panel::{Source, most_vectors, pack, packed_len};
pub use plain::dot;
pub use product::{Product, product, products, scratch_len, streams};
pub use scratch::{Scratch, zeros};
pub use tile::{Onto, ROWS, Strip, fence, strip};
pub use workload::normal;

/// Registers the workload `matmul` and its implementations.
pub fn register(registry: &mut Registry) {
    workload::register(registry);
}

/// Sources of the GPU kernels, for checks that compile them all.
pub fn gpu_sources() -> Vec<&'static GpuSource> {
    vec![&gpu_half::SOURCE, &gpu_half::HOPPER]
}
