//! Arguments of `history`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ellwand_history::{EXPORTS, Export, Reference};

use super::values::{Form, named, share};

#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(in crate::cli) struct HistoryArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: HistoryCommand,
}

/// A command about the history. The doc comments are what help prints.
#[derive(Subcommand)]
pub(in crate::cli) enum HistoryCommand {
    /// Add records to the history
    Add(AddArgs),
    /// List the runs by date of their commits
    List(ListRunsArgs),
    /// Show the measurements of a run
    Show(ShowRunArgs),
    /// Show a time by commit, and where its ratio to a reference changed
    Trend(TrendArgs),
    /// Write the measurements of all runs for other programs
    Export(ExportRunsArgs),
}

// The structs have no doc comments: clap would print them as the description of the command.
#[derive(Args)]
pub(in crate::cli) struct StoreArgs {
    /// Folder of the history, or postgres://USER@HOST/DATABASE [default: the nearest ellwand-history, in this directory
    /// or above]
    #[arg(long, value_name = "DIR|URL")]
    pub(in crate::cli) store: Option<String>,
}

#[derive(Args)]
pub(in crate::cli) struct AddArgs {
    /// Records (record.jsonl), or directories that hold one
    #[arg(value_name = "RECORD", required = true, num_args = 1..)]
    pub(in crate::cli) record: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArgs,
}

#[derive(Args)]
pub(in crate::cli) struct ListRunsArgs {
    #[command(flatten)]
    pub(in crate::cli) store: StoreArgs,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(in crate::cli) format: Form,
}

#[derive(Args)]
pub(in crate::cli) struct ShowRunArgs {
    /// Id of a run, or the beginning of one; `history list` prints them
    #[arg(value_name = "ID")]
    pub(in crate::cli) id: String,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArgs,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(in crate::cli) format: Form,
}

#[derive(Args)]
pub(in crate::cli) struct TrendArgs {
    /// What to show: WORKLOAD:IMPLEMENTATION
    #[arg(value_name = "WORKLOAD:IMPLEMENTATION")]
    pub(in crate::cli) what: Reference,
    /// Divide times by those of this kernel in the same runs: WORKLOAD:IMPLEMENTATION or
    /// WORKLOAD/AXIS=VALUE,..:IMPLEMENTATION [default: the baseline of the case]
    #[arg(long, value_name = "WORKLOAD:IMPLEMENTATION")]
    pub(in crate::cli) reference: Option<Reference>,
    /// Only runs of this machine: its fingerprint, or the beginning of it
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) machine: Option<String>,
    /// Make one series of the ratios of all machines; their times are never joined
    #[arg(long)]
    pub(in crate::cli) across_machines: bool,
    /// Changes of up to PERCENT do not count
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1")]
    pub(in crate::cli) rope: f64,
    /// Show every run in the table, not only the last and those at changes
    #[arg(long)]
    pub(in crate::cli) full: bool,
    /// Also write a page, FILE.html, or a plot, FILE.svg; several series become FILE-1.svg, FILE-2.svg, ..
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(in crate::cli) overwrite: bool,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArgs,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(in crate::cli) format: Form,
    #[arg(skip)]
    pub(in crate::cli) axes: BTreeMap<String, String>,
}

#[derive(Args)]
pub(in crate::cli) struct ExportRunsArgs {
    /// Id of a run, or the beginning of one [default: all runs; the newest for bmf]
    #[arg(value_name = "ID")]
    pub(in crate::cli) id: Option<String>,
    /// Format: one JSON object or CSV row a measurement, or one run in the Bencher Metric Format
    #[arg(long, value_name = "FORMAT", value_parser = named(EXPORTS))]
    pub(in crate::cli) format: Export,
    #[command(flatten)]
    pub(in crate::cli) store: StoreArgs,
}
