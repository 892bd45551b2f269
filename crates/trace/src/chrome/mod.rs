//! Chrome trace events, and the dialect of the PyTorch profiler, as a trace.

mod category;
mod event;
mod events;
mod finish;
mod links;
mod nest;
mod scalar;
mod tracks;

pub(crate) use events::Events;
pub(crate) use nest::is_thread;
pub(crate) use scalar::{Args, Scalar};
