//! The command line as types. A command's arguments are parsed once, here; no other file looks up a flag by its name.

#[cfg(feature = "arrays")]
mod apply;
mod axes;
mod bench;
mod hints;
#[cfg(feature = "history")]
mod history;
mod measure;
#[cfg(feature = "page")]
mod profile;
mod shared;
#[cfg(feature = "sweep")]
mod sweep;
mod values;
mod verdicts;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use ellwand_bench::settings::Effort;
use ellwand_core::{InputError, Registry, Workload};
use ellwand_report::{FORMATS, Format};

#[cfg(feature = "arrays")]
pub(super) use apply::ApplyArgs;
pub(super) use axes::{defaults, range};
pub(super) use bench::BenchArgs;
#[cfg(feature = "history")]
pub(super) use history::{HistoryArgs, HistoryCommand, StoreArgs, TrendArgs};
pub(super) use measure::{CheckArgs, Measuring, RunArgs};
#[cfg(feature = "page")]
pub(super) use profile::{DiffArgs, ExportArgs, ProfileArgs, ProfileCommand, ShowArgs, ViewArgs};
pub(super) use shared::Reports;
#[cfg(feature = "sweep")]
pub(super) use sweep::{
    EmitArgs, Engine, K8sArgs, MergeArgs, PlanArgs, ShardArgs, StatusArgs, SubmitArgs, SweepArgs, SweepCommand,
};
pub(super) use values::{FailOn, Form, RunFormat};
pub(super) use verdicts::{CompareArgs, SelfcheckArgs};

use shared::Chosen;
use values::{directory, named};

#[derive(Parser)]
#[command(
    name = "ellwand",
    version,
    about = "A workbench for measuring numerical code. Always measure, never guess.",
    after_help = "Exit codes: 0 ok, 1 error, 2 usage, 3 regression, 4 undecided, 5 wrong result, 6 measured nothing, 130 interrupted."
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// A command with its arguments. The doc comments are what help prints.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List workloads and devices; with a name, its axes, sizes, implementations and arrays
    List(ListArgs),
    /// Measure implementations over a sweep; write record, tables, plots and report
    Run(RunArgs),
    /// Run one implementation on your own arrays and write its outputs as .npy files
    #[cfg(feature = "arrays")]
    Apply(ApplyArgs),
    /// Check every implementation against the reference; time nothing
    Check(CheckArgs),
    /// Convert records to any format
    Report(ReportArgs),
    /// Decide whether a candidate is faster than a baseline, slower, or the same
    Compare(CompareArgs),
    /// Measure the ceilings of this machine and its GPUs: bandwidth, compute, latency, and the cost of calls
    Machine(MachineArgs),
    /// Measure this machine's false-positive rate and detection power
    Selfcheck(SelfcheckArgs),
    /// Keep records of many runs, and find the commits where a time changed
    #[cfg(feature = "history")]
    History(HistoryArgs),
    /// Plan a sweep over many machines, submit it to a scheduler, and merge what its tasks measured
    #[cfg(feature = "sweep")]
    Sweep(SweepArgs),
    /// Show, compare and convert profiles of programs
    #[cfg(feature = "page")]
    Profile(ProfileArgs),
    /// Open a profile or a record as a page in the browser
    #[cfg(feature = "page")]
    View(ViewArgs),
}

// The structs have no doc comments: clap would print them as the description of the command.
#[derive(Args)]
pub(super) struct ListArgs {
    /// Workloads, groups or patterns to show in detail
    #[arg(value_name = "WORKLOAD")]
    pub(super) pattern: Vec<String>,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(super) format: Form,
}

#[derive(Args)]
pub(super) struct ReportArgs {
    /// Records (record.jsonl), or directories that hold one
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub(super) file: Vec<PathBuf>,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(FORMATS.iter().map(|format| (format.name, format)).collect::<Vec<_>>()), default_value = "table")]
    pub(super) format: &'static Format,
    /// Show the records of several machines in one table, each row with its share of that machine's own ceilings
    #[arg(long)]
    pub(super) across_machines: bool,
    #[command(flatten)]
    pub(super) reports: Reports,
    /// Also write run.json, summary.csv, report.md and plots to DIR; or write only --format to a file with its extension
    #[arg(short, long, visible_alias = "output-dir", value_name = "DIR", value_parser = directory())]
    pub(super) output: Option<PathBuf>,
    /// Replace reports of other records in DIR
    #[arg(long)]
    pub(super) overwrite: bool,
}

#[derive(Args)]
pub(super) struct MachineArgs {
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(super) format: Form,
    /// How long to measure each ceiling
    #[arg(long, value_name = "EFFORT", value_parser = named(Effort::NAMES), default_value = "normal")]
    pub(super) effort: Effort,
}

impl Command {
    /// The selection of a command that takes any number of workloads.
    fn chosen(&mut self) -> Option<&mut Chosen> {
        match self {
            Command::Run(args) => Some(&mut args.how.chosen),
            #[cfg(feature = "sweep")]
            Command::Sweep(SweepArgs { command: SweepCommand::Plan(args) }) => Some(&mut args.how.chosen),
            Command::Check(args) => Some(&mut args.chosen),
            _ => None,
        }
    }

    /// The names of workloads, implementations and devices to compute with.
    pub(super) fn named(&self) -> Vec<&String> {
        match self {
            Command::Run(args) => args.how.chosen.named(),
            Command::Check(args) => args.chosen.named(),
            Command::Compare(args) => args.named(),
            #[cfg(feature = "arrays")]
            Command::Apply(args) => args.named(),
            #[cfg(feature = "sweep")]
            Command::Sweep(SweepArgs { command: SweepCommand::Plan(args) }) => args.how.chosen.named(),
            _ => Vec::new(),
        }
    }

    /// The axes of a command that takes some.
    fn axes(&mut self) -> Option<&mut BTreeMap<String, String>> {
        match self {
            Command::Compare(args) => Some(&mut args.cases.axes),
            #[cfg(feature = "arrays")]
            Command::Apply(args) => Some(&mut args.axes),
            #[cfg(feature = "history")]
            Command::History(HistoryArgs { command: HistoryCommand::Trend(args) }) => Some(&mut args.axes),
            _ => self.chosen().map(|chosen| &mut chosen.cases.axes),
        }
    }
}

/// Parses a command line.
///
/// # Errors
/// clap's error for an invalid line; also help and the version, if requested.
pub(super) fn parse(registry: &Registry, args: &[OsString]) -> Result<Command, clap::Error> {
    let args = &with_negative_values(args)[..];
    let line = command(registry, &axes::workloads_of_help(registry, args));
    let matches = line.clone().try_get_matches_from(args).map_err(|error| match error.kind() {
        ErrorKind::InvalidUtf8 => hints::name_not_utf8(error, &line, args),
        _ => hints::suggest(error, &line, args, &axes::flags_for(registry, &line, args)),
    })?;
    let mut command = Line::from_arg_matches(&matches)?.command;
    if let Some(axes) = command.axes() {
        *axes = axes::values(innermost(&matches));
    }
    if let ([only], Some(chosen)) = (registry.workloads(), command.chosen()) {
        let of_only = |name: &String| registry.implementations(only.name()).iter().any(|one| one.name == *name);
        // A side of `compare` that is only an implementation belongs to the program's only workload.
        let alone = |name: &&mut String| of_only(name) && registry.select(&[(**name).clone()]).is_err();
        chosen.workload.iter_mut().filter(alone).for_each(|name| *name = format!("{}:{name}", only.name()));
    }
    Ok(command)
}

/// The arguments of the innermost command, which may be nested (`sweep plan`).
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// The commands whose flags can be axes. `sweep plan` and `history trend` have more flags, which axes need not avoid.
const OF_AXES: &[&str] = &[
    "run",
    #[cfg(feature = "arrays")]
    "apply",
    "check",
    "compare",
];

/// The error about a name in the registry that cannot be given on the command line.
pub(super) fn unusable_name(registry: &Registry) -> Option<InputError> {
    let line = Line::command();
    let commands: Vec<_> = OF_AXES.iter().filter_map(|name| line.find_subcommand(name)).collect();
    registry.find_mistake().or_else(|| axes::clash(registry, &commands))
}

/// All commands, with the axes of all workloads as flags. Help lists only those of the workloads in `shown`.
fn command(registry: &Registry, shown: &[Arc<dyn Workload>]) -> clap::Command {
    let with_axes = |command| axes::add(registry, shown, command);
    let line = OF_AXES.iter().fold(Line::command(), |line, name| line.mut_subcommand(*name, with_axes));
    #[cfg(feature = "history")]
    let line = line.mut_subcommand("history", |history| history.mut_subcommand("trend", with_axes));
    #[cfg(feature = "sweep")]
    let line = line.mut_subcommand("sweep", |sweep| sweep.mut_subcommand("plan", with_axes));
    line
}

/// Joins `--time -3s` to `--time=-3s`: no flag begins with a digit, so it is a value, and the parser of the value
/// reports what it expects.
fn with_negative_values(args: &[OsString]) -> Vec<OsString> {
    let is_value = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    // `-o`, but not `-oDIR`, which contains its value.
    let short = |word: &str| word.len() == 2 && word.starts_with('-') && !is_value(word);
    let is_flag = |word: &str| short(word) || word.starts_with("--") && !word.contains('=');
    // After `--` all words are values.
    let (words, rest) = args.split_at(args.iter().position(|word| word == "--").unwrap_or(args.len()));
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(last) if word.to_str().is_some_and(is_value) && last.to_str().is_some_and(is_flag) => {
                last.push("=");
                last.push(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined.extend_from_slice(rest);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, suite};

    fn registry() -> Registry {
        let double = suite("double")
            .axis(Axis::int("count", "numbers per call", 1, 100, 7).unit("numbers").alias(&["N"]))
            .axis(Axis::choice("seed", "a name that a flag has", &["a", "b"], "a"))
            .axis(Axis::choice("only", "a name that a flag of another command has", &["a", "b"], "a"))
            .input(|_, _| 0_u8)
            .implementation("simd", |x| *x);
        let mut registry = Registry::from(double);
        let other = suite("other").axis(Axis::int("count", "something else", 1, 9, 3)).input(|_, _| 0_u8);
        other.implementation("simd", |x| *x).register(&mut registry);
        registry
    }

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        let args: Vec<OsString> = std::iter::once("ellwand").chain(line.split(' ')).map(OsString::from).collect();
        parse(&registry(), &args)
    }

    fn help(line: &str) -> String {
        parsed(line).err().unwrap_or_else(|| panic!("{line} is no request for help")).to_string()
    }

    /// clap checks ids, conflicts and duplicate flags of all commands.
    #[test]
    fn the_declarations_are_consistent() {
        command(&registry(), &[]).debug_assert();
    }

    #[test]
    fn every_command_parses_into_its_arguments() {
        for line in [
            "list",
            "list double other --format json",
            "run double -o out --format junit --no-plot --config b.toml --fail-on never --effort quick --caches cold --baseline simd --overwrite --blocks 3 --time 30s --time-limit 9 --no-ceilings --input x=y --size tiny -i a,b --device cpu,cuda:1 --seed 3 --count 1,2",
            "run double --resume --in-process",
            "run double --once",
            "run double --spans",
            #[cfg(feature = "arrays")]
            "apply double -i simd --input x=y --input z=w --output-dir out --device cpu --overwrite --verify --N 3",
            "check",
            "check double --format json --size tiny -i a --device cpu --seed 3 --count 2",
            "report a b --format markdown --baseline simd --output out --overwrite --no-plot --across-machines",
            "compare a b --across-machines --rope 2 --blocks 8 --time 5s --total-time 2m --fail-on slower --config c -o out --overwrite --format github --time-limit 4 --size tiny --device cpu --seed 3 --count 2 --caches warm",
            "compare a b --workload double -i x,y",
            "compare --command a b --same-output",
            "compare --baseline HEAD --workload double",
            "machine --format json --effort thorough",
            "selfcheck --long --quick --only sum --decisions 3 --budget 4 --rope 0.5 --format json",
            #[cfg(feature = "history")]
            "history add a b --store dir",
            #[cfg(feature = "history")]
            "history trend double:simd --N 3 --reference other:simd --machine 00ff --across-machines --rope 2 -o a.svg --full --format json",
            #[cfg(feature = "sweep")]
            "sweep plan double other --count 1,2 --only a --effort quick --blocks 3 --time 30s --time-limit 9 --input x=y --shards 2 --overwrite -o plan.json",
            #[cfg(feature = "sweep")]
            "sweep submit plan.json --results r --engine slurm --constraint a --constraint b --gres g -p x --exclusive --requeue",
            #[cfg(feature = "sweep")]
            "sweep run plan.json --shard-from-env --offset 10 --class a --hash x",
            #[cfg(feature = "sweep")]
            "sweep status plan.json --wait --format json",
            #[cfg(feature = "sweep")]
            "sweep merge plan.json --partial --overwrite -o out --baseline a --no-plot",
            #[cfg(feature = "sweep")]
            "sweep emit k8s plan.json --image i --claim c --node-selector a=b --node-selector c=d --class x",
        ] {
            if let Err(error) = parsed(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn values_arrive_where_they_belong() {
        let Ok(Command::Run(run)) = parsed("run double other --effort quick --N 1 --count 2,3 --only b --seed 9")
        else {
            panic!("no run")
        };
        let selection = run.how.chosen.selection();
        assert_eq!(selection.workloads, ["double", "other"]);
        let axes: Vec<_> = selection.axes.iter().map(|(name, text)| format!("{name}={text}")).collect();
        assert_eq!(axes, ["count=1,2,3", "only=b"], "aliases and repeats are one axis");
        assert_eq!(
            (run.how.chosen.cases.seed(), run.blocks()),
            (9, Some(Effort::Quick.blocks())),
            "a flag wins over an axis"
        );
        let Ok(Command::Check(check)) = parsed("check") else { panic!("no check") };
        assert_eq!((check.chosen.selection().workloads, check.chosen.cases.seed()), (vec!["*".to_string()], 42));
        let unknown = registry().select_of_parts(&["simd".into()]).err().unwrap().to_string();
        assert!(unknown.ends_with("'simd' is an implementation; name its workload too: double:simd"), "{unknown}");
        let Ok(Command::Compare(compare)) = parsed("compare a b --rope 20%") else { panic!("no compare") };
        assert_eq!((compare.rope, compare.flag_of_measuring()), (0.2, None));
        assert!(compare.limit.limits() == Default::default());
    }

    #[test]
    fn a_negative_value_reaches_the_parser_that_says_what_is_expected() {
        for (line, part) in [
            ("run double --time -3s", "invalid value '-3s' for '--time <TIME>': expected a time from 100ms to 24h"),
            ("run double --blocks -1", "invalid value '-1' for '--blocks"),
            ("compare a b --rope -1%", "invalid value '-1%' for '--rope <"),
            ("compare a b --at-least -1%", "invalid value '-1%' for '--at-least <PERCENT>': expected a percentage"),
            (
                "compare a b --at-least 0%",
                "invalid value '0%' for '--at-least <PERCENT>': no two times would count as the same",
            ),
            ("selfcheck --rope 0", "invalid value '0' for '--rope <PERCENT>': no two times"),
            ("compare a b --at-least=much", "invalid value 'much' for '--at-least <"),
            ("compare a b --at-least 2 --rope 3", "'--rope <PERCENT>' cannot be used with '--at-least <PERCENT>'"),
            ("compare a b --at-least 2 --rope 3", "two names of one option: give one of them"),
            ("compare a b --rope 2 --rope 3", "'--rope <PERCENT>' cannot be used multiple times"),
            ("run double --once -3", "unexpected value '-3' for '--once'"),
            ("run double --seed abc", "expected an integer from 0 to 2^64 - 1"),
        ] {
            let error = help(line);
            assert!(error.contains(part), "{line}: {error}");
        }
        let Ok(Command::Run(run)) = parsed("run double --count -3,4") else { panic!("no run") };
        assert_eq!(run.how.chosen.selection().axes["count"], "-3,4");
    }

    #[test]
    fn a_hint_names_what_is_near_or_whose_option_it_is() {
        for (line, part) in [
            ("rnu double", Some("did you mean run?")),
            ("benchmark", Some("one of ")),
            #[cfg(not(feature = "page"))]
            ("view x", Some("this needs the feature `page`")),
            #[cfg(not(feature = "page"))]
            ("run double --format html", Some("this needs the feature `page`")),
            #[cfg(not(feature = "sweep"))]
            ("sweep", Some("this needs the feature `sweep`")),
            ("run double --effrt quick", Some("did you mean --effort?")),
            ("run double --fail-on", None),
            ("run double --rope 2", Some("--rope is an option of `compare`, ")),
            ("list --count 3", Some("--count is an option of ")),
            ("run double --zebra", Some("after the name of a workload")),
            ("run double --verbos", Some("--full prints every column")),
            ("compare a b --verbos", Some("-o DIR saves a record; `report DIR --full` ")),
            ("check double --verbose", None),
            ("run double --repeat 3", Some("--iterations N")),
            ("compare a b --repeat 3", Some("--time sets how long")),
            ("list --iterations 3", Some("--iterations is an option of `run`")),
            ("compare a b --rpoe 2", Some("did you mean --rope?")),
            ("list --zebra", None),
            ("compare a b c", Some("expected two sides, BASE and CANDIDATE; run `compare` once for each candidate")),
            ("compare --command a b c", Some("expected two sides")),
            ("compare a b c --baseline=x", Some("expected one side with --baseline")),
            ("machine a", None),
            ("run double -x", None),
            ("run double -j 4", Some("choose with -i")),
            ("run double --format xml", None),
            ("run double --format jsno", Some("similar value exists: 'json'")),
        ] {
            let error = help(line);
            assert_eq!(error.contains("tip: "), part.is_some(), "{line}: {error}");
            assert!(part.is_none_or(|part| error.contains(part)), "{line}: {error}");
        }
    }

    #[test]
    fn a_word_that_is_not_utf8_is_named_with_its_option() {
        use std::os::unix::ffi::OsStringExt;
        for (line, part) in [
            ("run double --config ? --input ?", "error: --input ?: it is not UTF-8; expected"),
            ("run double --size=?", "error: --size=?: it is not UTF-8"),
            ("compare ? b", "error: ?: it is not UTF-8"),
            #[cfg(feature = "history")]
            ("history add ? --store ?", "error: --store ?: it is not UTF-8"),
        ] {
            let words = line.replace('?', "name\u{1}");
            let bytes = |word: &str| word.bytes().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
            let args = std::iter::once("ellwand").chain(words.split(' ')).map(|word| OsString::from_vec(bytes(word)));
            let error = parse(&registry(), &args.collect::<Vec<_>>()).err().unwrap().to_string();
            assert!(error.starts_with(&part.replace('?', "name\u{fffd}")), "{line}: {error}");
        }
    }

    #[test]
    fn help_shows_the_axes_of_the_workloads_that_it_names_and_no_others() {
        let more: &[&str] = if cfg!(feature = "arrays") { &["apply"] } else { &[] };
        for command in ["run", "check", "compare"].iter().chain(more) {
            let plain = help(&format!("{command} --help"));
            assert!(!plain.contains("--count") && plain.contains("WORKLOAD"), "{plain}");
        }
        let mut lines = vec!["run double --help", "check double --help", "compare double:simd --help"];
        if cfg!(feature = "arrays") {
            lines.push("apply double -h");
        }
        if cfg!(feature = "sweep") {
            lines.push("sweep plan double --help");
        }
        for line in lines {
            let shown = help(line).split_whitespace().collect::<Vec<_>>().join(" ");
            let flag = "--count <V,..> numbers per call (an integer from 1 to 100, in numbers) [default: 7]";
            assert!(shown.contains("Axes of double: ") && shown.contains(flag), "{shown}");
            assert!(shown.contains("--N") && !shown.contains("something else"), "{shown}");
        }
        let both = help("run double other --help").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            both.contains("[default: 7] [double]; something else") && both.contains("[default: 3] [other]"),
            "{both}"
        );
    }

    #[test]
    fn apply_needs_array_files() {
        let parsed = parsed("apply double --input x=x.npy -o out");
        assert_eq!(parsed.is_ok(), cfg!(feature = "arrays"));
    }

    /// 60 lines of 80 columns: the smallest of the usual windows.
    #[test]
    fn help_fits_one_screen() {
        let line = command(&registry(), &[]).term_width(80);
        let nested = |command: &clap::Command| {
            let inner = command.get_subcommands().map(|inner| format!("{} {}", command.get_name(), inner.get_name()));
            std::iter::once(command.get_name().to_owned()).chain(inner).collect::<Vec<_>>()
        };
        for command in line.get_subcommands().flat_map(nested) {
            let args = ["ellwand"].into_iter().chain(command.split(' ')).chain(["--help"]);
            let text = line.clone().try_get_matches_from(args).unwrap_err().to_string();
            let lines = text.lines().count();
            assert!(text.contains("Usage: ") && lines <= 60, "{command}: {lines} lines\n{text}");
        }
    }

    #[test]
    fn every_flag_has_a_meaning() {
        fn check(command: &clap::Command) {
            let lacks = |arg: &&clap::Arg| !arg.is_hide_set() && arg.get_help().is_none();
            let lacking: Vec<_> = command.get_arguments().filter(lacks).map(ToString::to_string).collect();
            assert!(lacking.is_empty(), "{}: {lacking:?}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&command(&registry(), &[]));
    }
}
