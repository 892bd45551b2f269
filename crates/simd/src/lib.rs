//! Building blocks of CPU kernels: vector lanes over the instruction sets of the CPU, a thread pool, aligned buffers,
//! store policies, and bf16 arrays.
//!
//! Workloads and calibration use it; nothing here knows what is computed.

pub mod buffer;
pub mod isa;
pub mod lanes;
pub mod pool;
pub mod precision;
pub mod stores;
