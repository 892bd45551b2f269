//! Implementations: one way of computing a workload, stored as a row of a table.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::device::{CpuScope, Device, DeviceKind};
use crate::error::{DeviceError, PrepareError};
use crate::poison::Poison;
use crate::reading::Reading;
use crate::tensor::Tensors;

/// How many CPU threads an implementation uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parallelism {
    /// The calling thread only; its CPU time is the cost.
    Single,
    /// Several threads; the CPU time of the process is the cost.
    Many,
}

impl Parallelism {
    /// The scope whose CPU time is the cost.
    pub fn scope(self) -> CpuScope {
        match self {
            Parallelism::Single => CpuScope::Thread,
            Parallelism::Many => CpuScope::Process,
        }
    }
}

/// Prepares an implementation for one case: allocation, upload, compilation and tables belong here, outside the timed
/// run.
pub type Prepare = dyn Fn(&Case, &Tensors, &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> + Send + Sync;

/// One way of computing a workload.
#[derive(Clone)]
pub struct Implementation {
    /// Name of the workload it computes.
    pub workload: String,
    /// Name, unique within the workload (`scalar`, `simd`).
    pub name: String,
    /// The kind of device that it runs on.
    pub needs: DeviceKind,
    /// How many threads it uses.
    pub parallelism: Parallelism,
    /// One line for `list`.
    pub about: String,
    /// Hard sets outside the range of inputs that it supports, each with that range.
    pub limits: Vec<Limit>,
    /// True for code of another library: a wrong answer on a hard set is reported, but is not an error of the caller.
    pub foreign: bool,
    /// Prepares the implementation for a case.
    pub prepare: Arc<Prepare>,
}

/// A hard set ([`crate::HardSet`]) outside the range for which an implementation is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Name of the set.
    pub set: &'static str,
    /// The range for which the implementation is right (`scores up to 1e30`).
    pub range: &'static str,
}

impl Implementation {
    /// Name of the implementation that is the reference of its workload, which judges the others.
    pub const REFERENCE: &str = "reference";

    /// A single-threaded implementation on the CPU.
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
            limits: Vec::new(),
            foreign: false,
            prepare: Arc::new(prepare),
        }
    }

    /// Declares that the implementation is right only for inputs in `range`, which excludes the hard set `set`.
    #[must_use]
    pub fn except(mut self, set: &'static str, range: &'static str) -> Self {
        self.limits.push(Limit { set, range });
        self
    }

    /// Declares that the implementation uses several threads.
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

/// An implementation prepared for one case. It owns its buffers; every `run` computes the same inputs.
pub trait Prepared {
    /// Makes the inputs that the next `iterations` runs consume. Called before a timed slot, never timed.
    fn load(&mut self, _iterations: u64) {}

    /// Maximum number of runs timed together, if [`Prepared::load`] must hold an input for each of them.
    fn most_iterations(&self) -> u64 {
        u64::MAX
    }

    /// Computes the outputs once; may enqueue work on a device. Only this, `run_times` and `sync` are timed.
    fn run(&mut self);

    /// Computes the outputs `times` times, so that one dynamic call times many iterations. The optimiser must not merge
    /// them: it sees the outputs read and the inputs changed between two runs.
    fn run_times(&mut self, times: u64) {
        for _ in 0..times {
            black_box(&mut *self).run();
        }
    }

    /// Waits until all enqueued work has finished.
    ///
    /// # Errors
    /// If the work on the device failed.
    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Overwrites all outputs with the given pattern ([`Poison::fill`]), or drops them, so that a run that computes
    /// nothing fails the check. Never timed. It is an error if a value of the last answer can still be read afterwards.
    fn poison(&mut self, poison: Poison);

    /// The outputs of the last run. Never timed.
    ///
    /// # Errors
    /// If the outputs cannot be copied back from the device.
    fn output(&mut self) -> Result<Tensors, DeviceError>;

    /// What ran, for the record: instruction set, number of threads, algorithm.
    fn what_ran(&self) -> String {
        String::new()
    }

    /// Threads that take part in a run, if the implementation chooses the number by the case (small cases may run on
    /// one). `None` if it uses the declared parallelism.
    fn threads(&self) -> Option<usize> {
        None
    }

    /// Values besides the outputs: working memory and, if the count depends on the data, the operations of the last run
    /// ([`Reading::operations`]). May run it again; never timed.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }
}
