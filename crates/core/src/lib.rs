//! The vocabulary of Ellwand: workload, implementation, case, device, sample and record, and the statistics that turn
//! samples into numbers. This crate does no input or output itself and contains no implementation.
//!
//! Floor 1: every crate above may depend on this one; crates on the same floor share types only through it.

pub mod axis;
mod buffer;
pub mod case;
pub mod ceiling;
pub mod device;
pub mod error;
mod hard;
pub mod implementation;
pub mod metric;
mod packed;
pub mod poison;
pub mod reading;
pub mod record;
pub mod registry;
pub mod tensor;
pub mod verdict;
pub mod view;
pub mod work;
pub mod workload;

pub use axis::{Axis, Domain, Size};
pub use case::{Case, Value};
pub use ceiling::{Ceiling, CeilingCase, CeilingKind};
pub use device::{Caches, CpuScope, Device, DeviceKind, Timing};
pub use ellwand_profile::{replace_file, words};
pub use ellwand_stats as stats;
pub use error::{DeviceError, InputError, PrepareError};
pub use hard::HardSet;
pub use implementation::{Implementation, Parallelism, Prepared};
pub use metric::{METRICS, Metric};
pub use poison::Poison;
pub use reading::{Better, Provenance, Reading};
pub use record::{Environment, Measurement, Outcome, Run, Sample};
pub use registry::Registry;
pub use tensor::{Data, Dtype, Tensor, Tensors};
pub use verdict::{Compared, Tolerance, Verdict};
pub use view::View;
pub use work::Work;
pub use workload::{Description, Fit, Port, Ports, Workload};
