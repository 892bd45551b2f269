//! Implementations: one way of computing a workload, as a row in a table.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::device::{CpuScope, Device, DeviceKind};
use crate::error::PrepareError;
use crate::reading::Reading;
use crate::tensor::Tensors;

/// How many processor threads an implementation uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parallelism {
    /// The calling thread only: its own CPU time is the cost.
    Single,
    /// Several threads: the CPU time of the process is the cost.
    Many,
}

impl Parallelism {
    /// Whose CPU time tells the cost.
    pub fn scope(self) -> CpuScope {
        match self {
            Parallelism::Single => CpuScope::Thread,
            Parallelism::Many => CpuScope::Process,
        }
    }
}

/// Makes an implementation ready for one case: allocation, upload, compilation and tables belong here.
pub type Prepare = dyn Fn(&Case, &Tensors, &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> + Send + Sync;

/// One way of computing a workload.
#[derive(Clone)]
pub struct Implementation {
    /// Name of the workload it computes.
    pub workload: String,
    /// Its own name (`scalar`, `simd`).
    pub name: String,
    /// Where it runs.
    pub needs: DeviceKind,
    /// How many threads it uses.
    pub parallelism: Parallelism,
    /// One line for `list`.
    pub about: String,
    /// Makes it ready for a case.
    pub prepare: Arc<Prepare>,
}

impl Implementation {
    /// Name of the implementation that is the reference of its workload, which judges the others.
    pub const REFERENCE: &str = "reference";

    /// A single-threaded implementation on the processor.
    pub fn cpu(
        workload: &str,
        name: &str,
        about: &str,
        prepare: impl Fn(&Case, &Tensors, &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            workload: workload.to_string(),
            name: name.to_string(),
            needs: DeviceKind::Cpu,
            parallelism: Parallelism::Single,
            about: about.to_string(),
            prepare: Arc::new(prepare),
        }
    }

    /// The same implementation, declared to use several threads.
    #[must_use]
    pub fn many_threads(mut self) -> Self {
        self.parallelism = Parallelism::Many;
        self
    }
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} on {}", self.workload, self.name, self.needs)
    }
}

/// An implementation made ready for one case. It owns its buffers; the same inputs are computed at every `run`.
pub trait Prepared {
    /// Makes what the next `iterations` runs will use up (a fresh input for each). Called before a timed slot, never timed.
    fn load(&mut self, _iterations: u64) {}

    /// Most runs that may be timed together, where [`Prepared::load`] must hold something for each of them.
    fn most_iterations(&self) -> u64 {
        u64::MAX
    }

    /// Computes the outputs once. The only thing that is timed (with `sync`); it may enqueue work on a device.
    fn run(&mut self);

    /// Waits until everything enqueued has finished.
    ///
    /// # Errors
    /// When the work on the device failed.
    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Spoils the outputs, so that a run which computes nothing cannot pass the check. Never timed.
    fn poison(&mut self);

    /// The outputs of the last run. Never timed.
    ///
    /// # Errors
    /// When they cannot be brought back from the device.
    fn output(&mut self) -> Result<Tensors, String>;

    /// What really ran, for the record: the instruction set chosen, the number of threads, the algorithm.
    fn what_ran(&self) -> String {
        String::new()
    }

    /// Threads that take part in a run, where the implementation decides that by the case: one that is declared to use
    /// several may run small cases on one. `None` where it uses what it is declared to use.
    fn threads(&self) -> Option<usize> {
        None
    }

    /// What the implementation knows of itself beside its outputs: the working memory that it holds, and, where they depend
    /// on the data, the operations that the last run did ([`Reading::operations`]).
    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
