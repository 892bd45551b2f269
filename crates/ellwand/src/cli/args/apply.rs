//! Arguments of `apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use ellwand_bench::plan::Selection;

use super::values::directory;

#[derive(Args)]
pub(crate) struct ApplyArgs {
    /// Workload to apply to the arrays
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,
    /// Implementation, or several as A,B [default: the last single-threaded one in `list WORKLOAD` that runs here]; the outputs of further
    /// ones are compared with those of the first
    #[arg(short, long, value_name = "I", value_delimiter = ',')]
    implementation: Vec<String>,
    /// Arrays: NAME=FILE.npy, NAME=FILE.npz:ARRAY, or all arrays of FILE.npz or FILE.safetensors by name
    #[arg(long, value_name = "BINDING", required = true)]
    pub(crate) input: Vec<String>,
    /// Directory for the outputs: a .npy file for each array, and apply.json
    #[arg(short, long, visible_alias = "output-dir", value_name = "DIR", required = true, value_parser = directory())]
    pub(crate) output: PathBuf,
    /// Device: cpu, cuda, wgpu, or one by its index such as cuda:1
    #[arg(long, value_name = "DEVICE,..", value_delimiter = ',')]
    device: Vec<String>,
    /// Replace the arrays of an earlier call in the output directory
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Check the outputs against the reference, and write nothing if they are wrong
    #[arg(long)]
    pub(crate) verify: bool,
    #[arg(skip)]
    pub(super) axes: BTreeMap<String, String>,
}

impl ApplyArgs {
    /// Names of implementations and devices.
    pub(crate) fn named(&self) -> Vec<&String> {
        self.implementation.iter().chain(&self.device).collect()
    }

    pub(crate) fn selection(&self) -> Selection {
        Selection {
            workloads: vec![self.workload.clone()],
            axes: self.axes.clone(),
            size: None,
            implementations: self.implementation.clone(),
            devices: self.device.clone(),
            allowed: None,
        }
    }
}
