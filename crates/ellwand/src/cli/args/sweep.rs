//! Arguments of `sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ellwand_core::InputError;

use super::measure::Measuring;
use super::shared::Reports;
use super::values::{Form, directory, integer, named};

#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(in crate::cli) struct SweepArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: SweepCommand,
}

/// A command about sweeps. The doc comments are what help prints.
#[derive(Subcommand)]
pub(in crate::cli) enum SweepCommand {
    /// Divide the cases of a run into numbered shards and write them to a file
    Plan(PlanArgs),
    /// Run the shards that have no result: on this machine, or as job arrays of Slurm
    Submit(SubmitArgs),
    /// Measure one shard; what a task of a job array runs
    Run(ShardArgs),
    /// Show which shards are finished, and the scheduler's state of the others
    Status(StatusArgs),
    /// Check the results of all shards and write one record for each machine
    Merge(MergeArgs),
    /// Print the plan as a job of another scheduler
    #[command(subcommand)]
    Emit(EmitArgs),
}

// The structs have no doc comments: clap would print them as the description of the command.
#[derive(Args)]
pub(in crate::cli) struct PlanArgs {
    #[command(flatten)]
    pub(in crate::cli) how: Measuring,
    /// File for the plan
    #[arg(short, long, value_name = "FILE", required = true, value_parser = directory())]
    pub(in crate::cli) output: PathBuf,
    /// Number of shards; each is measured by one task [default: one for each case]
    #[arg(long, value_name = "N", value_parser = integer(1..=u32::MAX))]
    pub(in crate::cli) shards: Option<u32>,
    /// Replace a different plan
    #[arg(long)]
    pub(in crate::cli) overwrite: bool,
}

// The plan, and the location of its results.
#[derive(Args)]
pub(in crate::cli) struct Where {
    /// Plan, as `sweep plan` writes it
    #[arg(value_name = "PLAN")]
    pub(in crate::cli) plan: PathBuf,
    /// Directory for the results of shards, which all machines share [default: PLAN with the ending .shards]
    #[arg(long, value_name = "DIR", value_parser = directory())]
    results: Option<PathBuf>,
}

impl Where {
    pub(in crate::cli) fn results(&self) -> Result<PathBuf, InputError> {
        let dir = self.results.clone().unwrap_or_else(|| self.plan.with_extension("shards"));
        if dir.is_file() {
            let problem = format!("{} is a file", dir.display());
            return Err(InputError::new("--results", problem, "a directory for the results of shards"));
        }
        Ok(dir)
    }
}

/// The engine that runs the shards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Engine {
    Local,
    Slurm,
}

#[derive(Args)]
pub(in crate::cli) struct SubmitArgs {
    #[command(flatten)]
    pub(in crate::cli) place: Where,
    /// What runs the shards: this machine one after another, or Slurm
    #[arg(long, value_name = "ENGINE", value_parser = named([("local", Engine::Local), ("slurm", Engine::Slurm)]), default_value = "local")]
    pub(in crate::cli) engine: Engine,
    /// Slurm: features of the nodes. Given several times, each value is a class of hardware that measures the whole plan
    #[arg(long, value_name = "FEATURES")]
    pub(in crate::cli) constraint: Vec<String>,
    /// Slurm: generic resources of a task, such as gpu:a100:1; repeat it as --constraint
    #[arg(long, value_name = "RESOURCES")]
    pub(in crate::cli) gres: Vec<String>,
    /// Slurm: partition; repeat it as --constraint
    #[arg(short, long, value_name = "NAME")]
    pub(in crate::cli) partition: Vec<String>,
    /// Slurm: a task has its node to itself
    #[arg(long)]
    pub(in crate::cli) exclusive: bool,
    /// Slurm: run a task again if its node fails
    #[arg(long)]
    pub(in crate::cli) requeue: bool,
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(in crate::cli) struct ShardArgs {
    #[command(flatten)]
    pub(in crate::cli) place: Where,
    /// Number of the shard
    #[arg(long, value_name = "N", group = "which", value_parser = integer(0..=u32::MAX))]
    pub(in crate::cli) shard: Option<u32>,
    /// Take the number from the scheduler: SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX, LSB_JOBINDEX (from 1) or
    /// JOB_COMPLETION_INDEX
    #[arg(long, group = "which")]
    pub(in crate::cli) shard_from_env: bool,
    /// Add N to the scheduler's number, for an array that begins with shard N
    #[arg(long, value_name = "N", default_value_t = 0, requires = "shard_from_env", value_parser = integer(0..=u32::MAX))]
    pub(in crate::cli) offset: u32,
    /// Class of hardware, a name for the results
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(in crate::cli) class: String,
    /// Refuse a plan with another hash than this
    #[arg(long, value_name = "HASH")]
    pub(in crate::cli) hash: Option<String>,
}

#[derive(Args)]
pub(in crate::cli) struct StatusArgs {
    #[command(flatten)]
    pub(in crate::cli) place: Where,
    /// Wait until no task is left in the queue; exit with code 1 if a shard has no result then
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(in crate::cli) format: Form,
}

#[derive(Args)]
pub(in crate::cli) struct MergeArgs {
    #[command(flatten)]
    pub(in crate::cli) place: Where,
    /// Directory for the records, each with its report in a directory inside [default: PLAN with the ending .merged]
    #[arg(short, long, value_name = "DIR", value_parser = directory())]
    output: Option<PathBuf>,
    /// Merge the results that exist, even if some are missing
    #[arg(long)]
    pub(in crate::cli) partial: bool,
    /// Replace records in the directory
    #[arg(long)]
    pub(in crate::cli) overwrite: bool,
    #[command(flatten)]
    pub(in crate::cli) reports: Reports,
}

impl MergeArgs {
    pub(in crate::cli) fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| self.place.plan.with_extension("merged"))
    }
}

/// Schedulers whose jobs `sweep emit` prints. The doc comments are what help prints.
#[derive(Subcommand)]
pub(in crate::cli) enum EmitArgs {
    /// An Indexed Job for Kubernetes, as JSON for `kubectl apply -f -`
    K8s(K8sArgs),
}

#[derive(Args)]
pub(in crate::cli) struct K8sArgs {
    #[command(flatten)]
    pub(in crate::cli) place: Where,
    /// Container image with this program in its PATH
    #[arg(long, value_name = "IMAGE")]
    pub(in crate::cli) image: String,
    /// Persistent volume claim that holds the plan and takes the results; all nodes must be able to mount it for writing
    #[arg(long, value_name = "CLAIM")]
    pub(in crate::cli) claim: String,
    /// Label of the nodes, such as nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(in crate::cli) node_selector: Vec<String>,
    /// Class of hardware, a name for the results
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(in crate::cli) class: String,
}
