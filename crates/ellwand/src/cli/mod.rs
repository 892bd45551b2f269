//! The command line: parse, call, map outcomes to exit codes. Results go to stdout, everything else to stderr.

#[cfg(feature = "arrays")]
mod apply;
mod args;
mod baseline;
mod bench;
mod budgets;
mod built;
mod ceilings;
mod certificate;
mod check;
mod ci;
mod compare;
mod contests;
mod devices;
#[cfg(feature = "arrays")]
mod differences;
mod eta;
mod exit;
mod given;
#[cfg(feature = "history")]
mod history;
mod keeping;
mod library;
mod lines;
mod list;
mod machine;
mod output;
mod pages;
mod plan;
#[cfg(feature = "page")]
mod profile;
mod progress;
mod recording;
mod records;
mod report;
mod results_dir;
mod revision;
mod rows;
mod run;
mod selfcheck;
mod signals;
mod spans;
mod stage;
#[cfg(feature = "sweep")]
mod sweep;
mod time;
mod verdict;
#[cfg(feature = "page")]
mod view;
#[cfg(feature = "page")]
pub use view::profile_page;

use std::ffi::OsString;
use std::io::{BufRead, Write};

use ellwand_bench::probe::PROBES;
use ellwand_bench::worker::{COMMAND, Host, Launch, serve};
use ellwand_core::Registry;

use args::Command;
pub(crate) use bench::bench;
pub(crate) use devices::cpu_description;
use devices::with_devices;
use exit::{Exit, Failure, Outcome};
pub use library::{Measure, MeasureError, Results, measure};

/// Runs the command line on a registry and returns the exit code (DESIGN: 0 ok, 1 error, 2 usage, 3 regression,
/// 4 undecided, 5 wrong result, 6 measured nothing, 130 interrupted).
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>, registry: &Registry) -> i32 {
    run_collected(&args.into_iter().map(Into::into).collect::<Vec<_>>(), registry)
}

/// Not generic: a user's program does not compile it again.
fn run_collected(args: &[OsString], registry: &Registry) -> i32 {
    // Before the command line is built and parsed, because every block of a comparison starts three of these.
    if args.get(1).is_some_and(|word| word == COMMAND) && args.len() == 2 {
        return worker(registry, &mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    }
    let line = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    run_recorded(args, line, registry)
}

/// As [`run()`], but the record states `line` as its command, for a host with options that are not Ellwand's.
pub fn run_recorded(args: &[OsString], line: Vec<String>, registry: &Registry) -> i32 {
    signals::quiet_panics_of_implementations();
    ellwand_bench::writer::make_size_limits_errors();
    let command = match args::parse(registry, args) {
        Ok(command) => command,
        Err(error) => return unparsed(&error),
    };
    if let Some(error) = args::unusable_name(registry) {
        return code(Err(error.into()));
    }
    let registry = &with_devices(registry, command.named());
    ceilings::set_streaming_sizes();
    code(match command {
        Command::List(args) => list::list(registry, &args),
        Command::Run(args) => run::run(registry, &args, line),
        #[cfg(feature = "arrays")]
        Command::Apply(args) => apply::apply(registry, &args, &line),
        Command::Check(check) => check::check(registry, &check, Launch::serves(args)),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(registry, &args, line),
        Command::Machine(args) => machine::machine(registry, &args),
        Command::Selfcheck(args) => selfcheck::selfcheck(&args),
        #[cfg(feature = "history")]
        Command::History(args) => history::history(&args.command),
        #[cfg(feature = "sweep")]
        Command::Sweep(args) => sweep::sweep(registry, &args.command, line),
        #[cfg(feature = "page")]
        Command::Profile(args) => profile::profile(&args.command),
        #[cfg(feature = "page")]
        Command::View(args) => view::view(&args),
    })
}

/// Prints why there are no arguments, and returns the exit code: help and version are results (stdout, 0), the rest are
/// usage errors (stderr, 2).
fn unparsed(error: &clap::Error) -> i32 {
    match error.print() {
        _ if error.use_stderr() => Exit::Usage.code(),
        Err(refused) if refused.kind() != std::io::ErrorKind::BrokenPipe => {
            output::note(&format!("error: help cannot be written: {refused}"));
            Exit::Error.code()
        }
        _ => Exit::Ok.code(),
    }
}

/// The exit code of an outcome; prints why the command failed.
fn code(outcome: Outcome) -> i32 {
    let failure = match outcome {
        Ok(exit) => return exit.code(),
        Err(failure) => failure,
    };
    if !matches!(failure, Failure::Unread) {
        output::note(&failure.to_string());
    }
    failure.exit().code()
}

/// The hidden command by which this program, started again, becomes one arm of a measurement; returns the exit code.
/// Protocol errors go to stderr, which the parent reads.
pub fn worker(registry: &Registry, questions: &mut dyn BufRead, answers: &mut dyn Write) -> i32 {
    signals::quiet_panics_of_implementations();
    ellwand_bench::writer::make_size_limits_errors();
    ceilings::set_streaming_sizes();
    // Every program with a command line contains the kernels of the self-check.
    let mut all = registry.clone();
    ellwand_bench::selfcheck::register(&mut all);
    let host = Host { registry: &all, probes: PROBES, read_given: &crate::arrays::read };
    code(serve(&host, questions, answers).map(|()| Exit::Ok).map_err(Into::into))
}
