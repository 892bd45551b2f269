//! Flags that several commands share. The structs have no doc comments: clap would print them as descriptions of commands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ellwand_bench::plan::Selection;
use ellwand_bench::worker::Limits;
use ellwand_core::record::Allowed;
use serde::{Deserialize, Serialize};

use super::values::{directory, integer, tolerance};

/// The heading of the flags that choose what to measure. A heading's flags have their own column, and help has one line
/// for a flag while the longest one, with its value, leaves 60 of 80 columns to the meanings.
pub(super) const CASES: &str = "Cases";

// The selection of `run` and `check`.
#[derive(Args, Clone, Serialize, Deserialize)]
#[command(next_help_heading = CASES)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    /// Workloads, groups, patterns (*) or WORKLOAD:IMPLEMENTATION
    #[arg(help_heading = None, value_name = "WORKLOAD", required = true, num_args = 1..)]
    pub(crate) workload: Vec<String>,
    /// Implementations, such as A,B* [default: all]
    #[arg(short, long, value_name = "I", value_delimiter = ',')]
    implementation: Vec<String>,
    #[command(flatten)]
    pub(crate) cases: Cases,
}

impl Chosen {
    /// Names of workloads, implementations and devices.
    pub(crate) fn named(&self) -> Vec<&String> {
        [&self.workload, &self.implementation, &self.cases.device].into_iter().flatten().collect()
    }

    pub(crate) fn selection(&self) -> Selection {
        self.cases.selection(&self.workload, &self.implementation)
    }
}

// The cases and the devices.
#[derive(Args, Clone, Serialize, Deserialize)]
#[command(next_help_heading = CASES)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cases {
    /// Named sizes, which `list WORKLOAD` shows
    #[arg(long, value_name = "SIZE,..")]
    pub(crate) size: Option<String>,
    /// cpu, cuda, wgpu, or one by its index, as in cuda:1
    #[arg(long, value_name = "DEVICE,..", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Seed of inputs and order of rounds [default: 42]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Accept |got - reference| <= ATOL + RTOL |reference|, not the workload's limit [default: 0 with --atol]
    #[arg(long, value_name = "RTOL", value_parser = tolerance)]
    pub(crate) rtol: Option<f64>,
    /// Absolute part of the tolerance, in the unit of the output [default: 0 with --rtol]
    #[arg(long, value_name = "ATOL", value_parser = tolerance)]
    pub(crate) atol: Option<f64>,
    #[arg(skip)]
    pub(crate) axes: BTreeMap<String, String>,
}

/// Parses a seed; the standard library's error does not say what is expected.
fn seed(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "expected an integer from 0 to 2^64 - 1")
}

impl Cases {
    /// The tolerance of the checks, if the user chose one.
    pub(crate) fn allowed(&self) -> Option<Allowed> {
        let given = self.rtol.is_some() || self.atol.is_some();
        given.then(|| Allowed { absolute: self.atol.unwrap_or(0.0), relative: self.rtol.unwrap_or(0.0) })
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(42)
    }

    pub(crate) fn selection(&self, workloads: &[String], implementations: &[String]) -> Selection {
        Selection {
            workloads: workloads.to_vec(),
            axes: self.axes.clone(),
            size: self.size.clone(),
            implementations: implementations.to_vec(),
            devices: self.device.clone(),
            allowed: self.allowed(),
        }
    }
}

// How `run` and `compare` measure, and what they store.
#[derive(Args)]
pub(crate) struct Session {
    /// Directory for all results, or a file for the --format, such as r.json [default: ellwand-out/WORKLOAD-DATE-TIME]
    #[arg(short, long, visible_alias = "output-dir", value_name = "DIR", value_parser = directory())]
    pub(crate) output: Option<PathBuf>,
    /// Replace the record and the reports in the directory
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Budgets [default: ellwand.toml here or above]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

// Time limits of a worker.
#[derive(Args, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeLimit {
    /// Kill a worker that needs more than N seconds to prepare and check an implementation [default: 600]
    #[arg(long, value_name = "N", value_parser = integer(1..=86_400_u64))]
    pub(crate) time_limit: Option<u64>,
}

impl TimeLimit {
    pub(crate) fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits { open: self.time_limit.map_or(usual.open, Duration::from_secs), ..usual }
    }
}

// Contents of reports.
#[derive(Args)]
pub(crate) struct Reports {
    /// Report speed-ups against this implementation
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Draw no plots
    #[arg(long)]
    pub(crate) no_plot: bool,
    /// Show every column, case, reading and finding
    #[arg(long)]
    pub(crate) full: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn help_of_output_differs_between_run_and_compare() {
        let line = super::super::Line::command();
        let help = |command| {
            let arguments = line.find_subcommand(command).unwrap().get_arguments();
            arguments.filter(|arg| arg.get_id() == "output").map(|arg| arg.get_help().unwrap().to_string()).collect()
        };
        let [run, compare]: [String; 2] = ["run", "compare"].map(help);
        assert!(run.contains("a file for the --format") && run.contains("default: ellwand-out/"), "{run}");
        assert!(compare.starts_with("Directory for a record") && compare.contains("default: none"), "{compare}");
    }
}
