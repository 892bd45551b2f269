//! Judges kernels for GPUs where there is no GPU. For tests alone: no product crate links it.
//!
//! `emulation` compiles CUDA sources for the processor and runs every thread of a block there, in three orders or under a race
//! detector; `emulation::library` makes a driver of CUDA on top of it, for rehearsals of the whole program. `judge` holds what
//! kernels make against their workload's reference, on the emulator and on a real GPU if there is one.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "for tests alone")]

use std::sync::Arc;

use ellwand_core::Device;

pub mod emulation;
mod judge;
pub mod testing;

pub use emulation::{stand_in, test_devices};
pub use judge::{a_hopper_is_tested, judge, judge_cublas, judge_on};

/// A device of the tests, with the words that messages have for it.
pub type TestDevice = (String, Arc<dyn Device>);
