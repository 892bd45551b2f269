//! The instrument: checks implementations against the reference, times them in interleaved rounds and writes the
//! record. It does not know what it times.
//!
//! Floor 3: it uses the core vocabulary and the memory accounting, and knows neither workloads nor reports.

mod arm;
pub mod arms;
mod awake;
pub mod beside;
pub mod block;
pub mod blocks;
mod calibrate;
pub mod check;
pub mod commands;
pub mod compare;
mod counters;
pub mod cpu;
mod crossing;
#[cfg(test)]
mod efficiency;
pub mod environment;
#[cfg(test)]
mod error_rates;
mod flush;
pub mod guard;
pub mod hard;
mod kernels;
pub mod machine;
pub mod measure;
mod one_clock;
pub mod plan;
pub mod probe;
pub mod reuse;
mod rounds;
pub mod sample;
pub mod selfcheck;
pub mod settings;
mod settle;
mod shapes;
pub mod spans;
mod stop;
pub mod worker;
pub mod writer;

pub use blocks::Blocks;
pub use cpu::Cpu;
pub use flush::flush_bytes;
pub use measure::{Event, Instrument, Interrupted, resolutions};
pub use plan::{Cell, Plan, Selection, left_out};
pub use settings::Effort;
pub use writer::{Writer, WriterError};
