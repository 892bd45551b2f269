//! Proofs about kernels for GPUs that need no GPU, and the folder to carry to a machine with one.

pub(crate) mod cuda;
pub(crate) mod prepare;
mod sass;
pub(crate) mod triton;
