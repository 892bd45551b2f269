//! The vocabulary of Ellwand: what a workload, an implementation, a case, a device, a sample and a record are,
//! and the statistics that turn samples into numbers. It does no input or output and knows no implementation.
//!
//! Floor 0: every other crate depends on this one and siblings meet only here.

pub mod axis;
pub mod case;
pub mod ceiling;
pub mod device;
pub mod error;
pub mod implementation;
pub mod metric;
pub mod reading;
pub mod record;
pub mod registry;
pub mod stats;
pub mod tensor;
pub mod verdict;
pub mod view;
pub mod work;
pub mod workload;

pub use axis::{Axis, Domain, Size};
pub use case::{Case, Value};
pub use ceiling::{Ceiling, CeilingCase, CeilingKind};
pub use device::{Caches, CpuScope, Device, DeviceKind, DeviceStatus, Timing};
pub use error::{InputError, PrepareError};
pub use implementation::{Implementation, Parallelism, Prepared};
pub use metric::{METRICS, Metric};
pub use reading::{Better, Provenance, Reading};
pub use record::{Environment, Measurement, Outcome, Run, Sample};
pub use registry::Registry;
pub use tensor::{Data, Dtype, Tensor, Tensors};
pub use verdict::{Tolerance, Verdict};
pub use view::View;
pub use work::Work;
pub use workload::{Fit, Port, Ports, Workload};
