//! Judges GPU kernels on machines without a GPU. For tests only: no product crate links it.
//!
//! `emulation` compiles CUDA sources for the CPU and runs every thread of a block there, in three orders or under a
//! race detector; `emulation::library` builds a CUDA driver on top of it, to rehearse the whole program. `judge`
//! compares kernels with their workload's reference, on the emulator and on a real GPU if there is one.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "only for tests")]

use std::sync::Arc;

use ellwand_core::Device;

pub mod emulation;
mod judge;
pub mod testing;

pub use emulation::{stand_in, test_devices};
pub use judge::{a_hopper_is_tested, judge, judge_cublas};

/// A test device, with its name in messages.
pub type TestDevice = (String, Arc<dyn Device>);
