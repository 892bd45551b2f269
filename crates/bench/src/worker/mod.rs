//! Worker processes: one implementation in a fresh process, sampled slot by slot.
//!
//! Page placement, address-space layout and allocator history are constant within a process, and between processes they
//! vary by more than the differences of interest. A verdict therefore replicates processes. A worker is the program
//! itself, started with a hidden subcommand: it prepares one implementation and takes slots on request.

mod checker;
mod examine;
pub(crate) mod process;
pub(crate) mod protocol;
mod serve;
pub(crate) mod shared;

pub use checker::Checker;
pub use process::{Launch, Limits, Lost, Worker};
pub use protocol::{Answer, Ask, Asked, Judged, Open, Opened, Pose, Step};
pub(crate) use serve::MISSING;
pub use serve::{Host, serve};

/// Name of the hidden subcommand that turns a program into a worker.
pub const COMMAND: &str = "worker";
