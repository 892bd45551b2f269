//! Converts Chrome trace events, and the PyTorch profiler's dialect of them, to a trace.

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
