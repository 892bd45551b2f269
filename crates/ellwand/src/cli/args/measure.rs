//! Arguments of the commands that compute: `run` and `check`.
//!
//! The structs have no doc comments: clap would print them as descriptions of commands.

use clap::Args;
use ellwand_bench::settings::Effort;
use ellwand_core::record::{Counts, Settings};
use ellwand_core::{Caches, InputError};
use serde::{Deserialize, Serialize};

use super::shared::{Chosen, Reports, Session, TimeLimit};
use super::values::{FailOn, Form, RunFormat, integer, named, seconds};

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) session: Session,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(RunFormat::all()), default_value = "table")]
    pub(crate) format: RunFormat,
    #[command(flatten)]
    pub(crate) reports: Reports,
    /// budget: exit with code 3 if a budget is exceeded
    #[arg(long, value_name = "WHAT", value_parser = named(FailOn::OF_RUN), default_value = "budget")]
    pub(crate) fail_on: FailOn,
    /// Continue the record in DIR; skip its finished cells
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) resume: bool,
    /// Run each implementation once, untimed and unrecorded, for perf, nsys or ncu
    #[arg(long, conflicts_with_all = ["output", "resume", "overwrite", "time", "time_limit", "iterations"])]
    pub(crate) once: bool,
    /// Show the spans inside each implementation and write traces; takes no headline times
    #[arg(long, conflicts_with_all = ["once", "baseline", "blocks", "time", "time_limit", "iterations"])]
    pub(crate) spans: bool,
    #[command(flatten)]
    pub(crate) how: Measuring,
}

impl RunArgs {
    /// Worker processes per implementation; `None` if everything is measured in this process.
    pub(crate) fn blocks(&self) -> Option<u32> {
        self.how.blocks().filter(|_| !self.spans)
    }
}

/// Untimed iterations if only the timed ones are given: the usual number in scripts for PyTorch.
const WARM_UP: u64 = 10;

// What to measure and how: the same for `run` and for the shards of a sweep, whose plan contains it.
#[derive(Args, Clone, Serialize, Deserialize)]
#[command(next_help_heading = "Measurement")]
#[serde(deny_unknown_fields)]
pub(crate) struct Measuring {
    /// How long to measure each case
    #[arg(long, value_name = "EFFORT", value_parser = named(Effort::NAMES), default_value = "normal")]
    pub(crate) effort: Effort,
    /// Time limit of a case: slow implementations are measured once, unready ones not at all; processes get at least 6s to start
    /// [default: 1m, once ready]
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "in_process")]
    pub(crate) time: Option<f64>,
    /// cold: flush caches before each slot of one iteration
    #[arg(long, value_name = "STATE", value_parser = named(Caches::NAMES), default_value = "warm")]
    pub(crate) caches: Caches,
    /// Time exactly N iterations in each slot instead of as many as settle and fill it
    #[arg(long, value_name = "N", value_parser = integer(1..=1_u64 << 32))]
    iterations: Option<u64>,
    /// With --iterations: N untimed ones first [default: 10]
    #[arg(long, value_name = "N", requires = "iterations", value_parser = integer(0..=1_u64 << 32))]
    warm_up: Option<u64>,
    /// Fresh processes for each implementation [default: 3 quick, 4 normal, 8 thorough]
    #[arg(long, value_name = "N", value_parser = integer(1..=1000_u32))]
    blocks: Option<u32>,
    /// Measure in one block in this process, for debuggers
    #[arg(long, conflicts_with_all = ["blocks", "time_limit"])]
    in_process: bool,
    /// Do not measure this machine's ceilings if not cached
    #[arg(long)]
    pub(crate) no_ceilings: bool,
    /// Arrays instead of generated inputs: NAME=FILE.npy, FILE.npz, NAME=FILE.safetensors:ARRAY
    #[arg(long, value_name = "BINDING")]
    pub(crate) input: Vec<String>,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
}

impl Measuring {
    /// Worker processes per implementation; `None` if everything is measured in this process.
    pub(crate) fn blocks(&self) -> Option<u32> {
        (!self.in_process).then(|| self.blocks.unwrap_or(self.effort.blocks()))
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            caches: self.caches,
            counts: self.counts(),
            allowed: self.chosen.cases.allowed(),
            ..self.effort.settings()
        }
    }

    /// The iterations of a slot, if the user fixed them.
    fn counts(&self) -> Option<Counts> {
        Some(Counts { warm_up: self.warm_up.unwrap_or(WARM_UP), iterations: self.iterations? })
    }

    /// Refuses counts if slots hold one iteration in any case.
    pub(crate) fn check(&self) -> Result<(), InputError> {
        if self.iterations.is_none() || self.caches.is_warm() {
            return Ok(());
        }
        let problem = "a slot from cold caches holds one iteration: a second one would find the data of the first";
        Err(InputError::new("--iterations", problem, "either --iterations or --caches cold"))
    }
}

#[derive(Args)]
#[command(mut_arg("workload", |arg| {
    arg.required(false).default_value("*").hide_default_value(true).help("Workloads, groups or patterns [default: all]")
}))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(crate) format: Form,
    /// Judge in this process, for debuggers
    #[arg(long, conflicts_with = "time_limit")]
    pub(crate) in_process: bool,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,
}
