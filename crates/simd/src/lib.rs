//! What kernels for the processor are made of: vector lanes over whatever instructions it has, a pool of threads, aligned
//! buffers, store policies, and arrays of bf16.
//!
//! Workloads and calibration stand on it; nothing here knows what is computed.

pub mod buffer;
pub mod isa;
pub mod lanes;
pub mod pool;
pub mod precision;
pub mod stores;
