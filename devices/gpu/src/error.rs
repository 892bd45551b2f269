//! Errors of a GPU, and what they mean for an implementation.

use ellwand_core::{DeviceError, PrepareError};

/// Errors of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// A library or function is missing; nothing can run.
    #[error("{0}")]
    Absent(String),
    /// Out of device memory.
    #[error(
        "{wanted} bytes do not fit into the device memory{}; choose a smaller size",
        .free.map(|free| format!(", {free} are free")).unwrap_or_default()
    )]
    Memory {
        /// Number of bytes requested.
        wanted: u64,
        /// Bytes that were free, if the device reports it.
        free: Option<u64>,
    },
    /// An array exceeds the device's limit for one array.
    #[error(
        "an array of {wanted} bytes is needed, but this device allows at most {limit} in one array; choose a smaller size"
    )]
    Limit {
        /// Number of bytes requested.
        wanted: u64,
        /// Largest array in bytes.
        limit: u64,
    },
    /// The device no longer answers this process.
    #[error(
        "the device no longer answers this process: an earlier kernel failed with {first}; the implementation that \
         ran then caused this; other processes (with worker processes, each implementation has its own) can still use the device"
    )]
    Lost {
        /// The first error.
        first: String,
    },
    /// A kernel's source does not compile.
    #[error("{source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// File name of the source.
        source_name: String,
        /// Architecture to compile for, such as `sm_90`.
        arch: String,
        /// Messages of the compiler with file and line.
        log: String,
    },
    /// A driver call failed.
    #[error("{call}: {problem}")]
    Call {
        /// Name of the call.
        call: &'static str,
        /// The driver's message.
        problem: String,
    },
}

impl From<GpuError> for DeviceError {
    fn from(error: GpuError) -> Self {
        DeviceError::new(error.to_string())
    }
}

impl From<GpuError> for PrepareError {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::Absent(why) => PrepareError::Unsupported(why),
            limit @ GpuError::Limit { .. } => PrepareError::Unsupported(limit.to_string()),
            other => PrepareError::Failed(other.to_string()),
        }
    }
}
