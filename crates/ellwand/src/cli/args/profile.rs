//! Arguments of `profile` and `view`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ellwand_trace::{FORMATS, Format};

use super::values::{FailOn, Form, integer, named, share};

#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(in crate::cli) struct ProfileArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: ProfileCommand,
}

/// A command about profiles. The doc comments are what help prints.
#[derive(Subcommand)]
pub(in crate::cli) enum ProfileCommand {
    /// Print where the time went: operations, breakdown, bottlenecks and findings
    Show(ShowArgs),
    /// Compare two profiles call by call and give a verdict
    Diff(DiffArgs),
    /// Convert a profile to the format of another viewer
    Export(ExportArgs),
}

// The structs have no doc comments: clap would print them as the description of the command.
#[derive(Args)]
pub(in crate::cli) struct ShowArgs {
    /// A profile: Ellwand's JSON, a Chrome trace or a PyTorch profiler trace; gzipped or not; - for stdin
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// One row per call path, not per operation
    #[arg(long)]
    pub(in crate::cli) tree: bool,
    /// Every row of the table, not only the first
    #[arg(long)]
    pub(in crate::cli) full: bool,
    /// Number of bottlenecks, and of shares of limits, to print
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = integer(0..=1_000_000_usize))]
    pub(in crate::cli) top: usize,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(in crate::cli) format: Form,
}

#[derive(Args)]
pub(in crate::cli) struct DiffArgs {
    /// The baseline profile; - for stdin
    #[arg(value_name = "BASELINE")]
    pub(in crate::cli) baseline: PathBuf,
    /// The candidate profile; - for stdin
    #[arg(value_name = "CANDIDATE")]
    pub(in crate::cli) candidate: PathBuf,
    /// Repeated operation to compare, such as a request; by default the outermost that covers at least half of the time
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) root: Option<String>,
    /// Changes of up to PERCENT count as the same
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1")]
    pub(in crate::cli) rope: f64,
    /// When to end with an exit code above 0
    #[arg(long, value_name = "WHEN", value_parser = named(FailOn::OF_COMPARE), default_value = "slower")]
    pub(in crate::cli) fail_on: FailOn,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(in crate::cli) format: Form,
}

#[derive(Args)]
pub(in crate::cli) struct ExportArgs {
    /// The profile to convert; - for stdin
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// Format to write
    #[arg(long, value_name = "FORMAT", value_parser = named(FORMATS.iter().map(|format| (format.name, format)).collect::<Vec<_>>()))]
    pub(in crate::cli) format: &'static Format,
    /// File to write; stdout by default
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub(in crate::cli) overwrite: bool,
}

#[derive(Args)]
pub(in crate::cli) struct ViewArgs {
    /// A profile, a record (record.jsonl) or a directory that holds one
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// Another profile to compare with
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) baseline: Option<PathBuf>,
    /// HTML file to write; by default one in the temporary directory, which is then opened in the browser
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub(in crate::cli) overwrite: bool,
    /// Print the path of the page; open nothing
    #[arg(long)]
    pub(in crate::cli) no_open: bool,
}
