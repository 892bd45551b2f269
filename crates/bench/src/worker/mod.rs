//! Worker processes: one implementation in a fresh process, asked slot by slot.
//!
//! Page placement, address-space layout and the allocator's history differ from process to process by more than the
//! differences that people want to see, and they are constant inside one. So a verdict replicates processes: a worker is
//! the program itself, run again with a hidden sub-command, which prepares one implementation and takes slots when asked.

mod process;
pub(crate) mod protocol;
mod serve;

pub use process::{Launch, Limits, Lost, Worker};
pub use protocol::{Answer, Ask, Asked, Judged, Open, Opened};
pub use serve::{Host, serve};

/// Name of the hidden sub-command that turns a program into a worker.
pub const COMMAND: &str = "worker";
