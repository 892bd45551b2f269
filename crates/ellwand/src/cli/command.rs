//! The tree of commands. Axes of the registered workloads become flags.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use ellwand_bench::plan::Selection;
use ellwand_bench::settings::Effort;
use ellwand_bench::worker::Limits;
use ellwand_core::{Caches, Registry};

use super::flags::{
    OWN, axes, blocks, caches, config, device, format, inputs, rope, seed, selection, size, switch, time_limit,
    workloads,
};

/// The whole command line for a registry.
pub(super) fn command(registry: &Registry) -> Command {
    Command::new("ellwand")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A workbench for measuring numerical code. Always measure, never guess.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(list())
        .subcommand(run(registry))
        .subcommand(apply(registry))
        .subcommand(check(registry))
        .subcommand(report())
        .subcommand(compare(registry))
        .subcommand(machine())
        .subcommand(selfcheck())
        .subcommand(
            Command::new(ellwand_bench::worker::COMMAND)
                .about("Answers a parent's questions about one implementation on stdin and stdout")
                .hide(true),
        )
        .after_help("Exit codes: 0 ok, 1 error, 2 usage, 3 regression, 4 undecided, 5 wrong result, 6 measured nothing, 130 interrupted.")
}

fn list() -> Command {
    Command::new("list")
        .about("Workloads, axes with defaults, implementations and devices, and why one is unavailable")
        .arg(
            Arg::new("pattern")
                .value_name("PATTERN")
                .num_args(0..)
                .help("Workloads, groups or patterns; all if none is given"),
        )
        .arg(format(&["table", "json"]))
}

fn run(registry: &Registry) -> Command {
    let command = Command::new("run")
        .about("Measures implementations against each other over a sweep: table on stdout, record, CSV, JSON, plots and report in a directory")
        .arg(workloads(true))
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .visible_alias("output-dir")
                .value_name("DIR")
                .help("Directory for record.jsonl, run.json, summary.csv, report.md and plots [default: ellwand-out/WORKLOAD-TIME]"),
        )
        .arg(format(&[&reports()[..], &["junit", "github"]].concat()))
        .arg(switch("no-plot", "Draw no plots"))
        .arg(config())
        .arg(
            Arg::new("fail-on")
                .long("fail-on")
                .value_name("WHAT")
                .value_parser(["budget", "never"])
                .default_value("budget")
                .help("budget: exit code 3 when a budget of ellwand.toml is broken"),
        )
        .arg(
            Arg::new("effort")
                .long("effort")
                .value_name("EFFORT")
                .value_parser(Effort::NAMES.map(|(name, _)| name))
                .default_value("normal")
                .help("How long to measure each case"),
        )
        .arg(caches("cold: flush the caches of the device before every slot, which then holds one iteration"))
        .arg(Arg::new("baseline").long("baseline").value_name("IMPLEMENTATION").help("State speed-ups against this implementation"))
        .arg(switch("resume", "Continue the record in the output directory; finished cells are not measured again"))
        .arg(
            switch("overwrite", "Replace the record in the output directory, and what was made from it")
                .conflicts_with("resume"),
        )
        .arg(
            switch("once", "Run each implementation one time, time nothing and keep no record, for perf, nsys or ncu")
                .conflicts_with_all(["output", "resume", "overwrite", "time-limit"]),
        )
        .arg(
            switch("spans", "Show the components inside each implementation, by its spans, in runs without headline timings; writes a trace for each")
                .conflicts_with_all(["once", "baseline", "blocks", "time-limit"]),
        )
        .arg(blocks("Fresh processes of each implementation, between which the samples are divided [default: 2 quick, 3 normal, 6 thorough]"))
        .arg(switch("in-process", "Measure inside this process, for debuggers: one process, so nothing is said about others").conflicts_with_all(["blocks", "time-limit"]))
        .arg(time_limit())
        .arg(switch("no-ceilings", "Do not measure this machine's ceilings where none are cached"))
        .arg(inputs("Arrays in place of generated inputs: NAME=FILE.npy, FILE.npz, NAME=FILE.safetensors:ARRAY"));
    axes(registry, selection(command))
}

fn apply(registry: &Registry) -> Command {
    let command = Command::new("apply")
        .about("Runs one implementation on your own arrays and writes its outputs as .npy files")
        .arg(workloads(false))
        .arg(
            Arg::new("implementation")
                .short('i')
                .long("implementation")
                .value_name("NAME")
                .help("Implementation [default: of those on one thread that run here the last that `list` shows]"),
        )
        .arg(
            inputs(
                "Arrays: NAME=FILE.npy, FILE.npz or FILE.safetensors (every array by its name), NAME=FILE.npz:ARRAY",
            )
            .required(true),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .visible_alias("output-dir")
                .value_name("DIR")
                .required(true)
                .help("Directory for the outputs: one .npy an array, and apply.json"),
        )
        .arg(device("Device for it: cpu, cuda, wgpu, or one with an index"))
        .arg(switch("overwrite", "Replace the arrays of an earlier call in the output directory"))
        .arg(switch("verify", "Also compute the reference and refuse to write a wrong answer"));
    axes(registry, command)
}

fn check(registry: &Registry) -> Command {
    let command = Command::new("check")
        .about("Correctness only: every implementation against the reference")
        .arg(workloads(true).required(false).help("Workloads, groups or patterns; all if none is given"))
        .arg(format(&["table", "json"]));
    axes(registry, selection(command))
}

/// The names of what a report can be written as.
fn reports() -> Vec<&'static str> {
    ellwand_report::FORMATS.iter().map(|format| format.name).collect()
}

fn report() -> Command {
    Command::new("report")
        .about("Turns records into any format")
        .arg(Arg::new("file").value_name("FILE").required(true).num_args(1..).help("Records (record.jsonl)"))
        .arg(format(&reports()))
        .arg(
            Arg::new("baseline")
                .long("baseline")
                .value_name("IMPLEMENTATION")
                .help("State speed-ups against this implementation"),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .visible_alias("output-dir")
                .value_name("DIR")
                .help("Also write run.json, summary.csv, report.md and plots into DIR"),
        )
        .arg(switch("overwrite", "Replace reports in DIR that are not of these records"))
        .arg(switch("no-plot", "Draw no plots"))
}

fn compare(registry: &Registry) -> Command {
    let command = Command::new("compare")
        .about("Verdicts: is the candidate slower or faster than the baseline, or the same? Fresh processes, in turns")
        .arg(
            Arg::new("side")
                .value_names(["BASE", "CANDIDATE"])
                .required_unless_present("baseline")
                .num_args(1..=2)
                .help("WORKLOAD:IMPLEMENTATION twice; or two records, which suggest at most; with --workload two programs built on Ellwand; with --command two shell commands"),
        )
        .arg(
            Arg::new("workload")
                .long("workload")
                .value_name("WORKLOAD")
                .conflicts_with("command")
                .help("The sides are programs: compare this workload in both"),
        )
        .arg(
            Arg::new("implementation")
                .short('i')
                .long("implementation")
                .value_name("NAME,..")
                .value_delimiter(',')
                .requires("workload")
                .help("With --workload: implementations or patterns; all if none is given"),
        )
        .arg(switch("command", "The sides are shell commands: time whole processes, start to end; each must exit with code 0"))
        .arg(switch("same-output", "With --command: both must print the same to stdout, before and after the timed runs").requires("command"))
        .arg(
            Arg::new("baseline")
                .long("baseline")
                .value_name("REV")
                .conflicts_with("command")
                .help("Compare this program with itself at a git revision, built in target/ellwand-baseline and kept"),
        )
        .arg(caches("Verdicts are for warm caches; `run --caches cold` measures out of cold ones").hide(true))
        .arg(switch("across-machines", "Compare records of different machines all the same"))
        .arg(rope())
        .arg(blocks("Most blocks, a fresh process of each side in every one [default: 32]"))
        .arg(
            Arg::new("fail-on")
                .long("fail-on")
                .value_name("WHAT")
                .value_parser(["slower", "undecided", "never"])
                .default_value("undecided")
                .help("slower: exit code 3 when the candidate is slower or breaks a budget; undecided: also 4 when nothing is shown"),
        )
        .arg(config())
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .visible_alias("output-dir")
                .value_name("DIR")
                .help("Keep the raw samples and the block values: record.jsonl and a report in DIR"),
        )
        .arg(switch("overwrite", "Replace the record in the output directory, and what was made from it"))
        .arg(format(&["table", "json", "junit", "github"]))
        .arg(time_limit())
        .arg(size())
        .arg(device("Where there are several devices of a kind: the one for implementations that need such a device, as cuda:1"))
        .arg(seed());
    axes(registry, command)
}

fn selfcheck() -> Command {
    Command::new("selfcheck")
        .about("How often this machine calls equal things different, and how often it sees a planted slow-down")
        .arg(switch(
            "long",
            "Runs of some 20 ms in place of some 50 us, judged by processor time; no certificate is kept",
        ))
        .arg(switch("quick", "About a minute instead of several: fewer decisions, a looser bound"))
        .arg(Arg::new("only").long("only").value_name("TEXT").help(
            "Trials whose kernel and planted difference contain this ('sum', 'equal', '+3', 'tail'); no certificate is kept",
        ))
        .arg(
            Arg::new("decisions")
                .long("decisions")
                .value_name("N")
                .value_parser(clap::value_parser!(u32).range(1..))
                .help("Decisions of each trial; no certificate is kept"),
        )
        .arg(
            Arg::new("budget")
                .long("budget")
                .value_name("SECONDS")
                .value_parser(clap::value_parser!(u64).range(1..=86_400))
                .help("Time for all decisions; what is decided by then is told [default: 450, --quick: 120, --decisions: none]"),
        )
        .arg(
            switch(
                "diagnosis",
                "Try the diagnosis instead, on workloads that are bound by a known thing; exit 1 on a wrong class",
            )
            .conflicts_with_all(["long", "quick", "only", "decisions", "budget"]),
        )
        .arg(device("With --diagnosis: workloads on these devices alone, as cuda").requires("diagnosis"))
        .arg(rope())
        .arg(format(&["table", "json"]))
}

fn machine() -> Command {
    Command::new("machine")
        .about(
            "Measures the ceilings of this machine: read, fill, copy and triad bandwidth by cache level, multiply-add peak, load latency, page faults, waking threads, clock, span and call cost; of GPUs also products of bf16, launches and the link",
        )
        .arg(format(&["table", "json"]))
        .arg(
            Arg::new("effort")
                .long("effort")
                .value_name("EFFORT")
                .value_parser(Effort::NAMES.map(|(name, _)| name))
                .default_value("normal")
                .help("How long to measure each ceiling"),
        )
}

/// What was asked for, from the parsed flags.
pub(super) fn selected(registry: &Registry, matches: &ArgMatches) -> Selection {
    let many = |id: &str| -> Vec<String> {
        matches.try_get_many::<String>(id).ok().flatten().map(|values| values.cloned().collect()).unwrap_or_default()
    };
    Selection {
        workloads: many("workload"),
        axes: given_axes(registry, matches),
        size: matches.try_get_one::<String>("size").ok().flatten().cloned(),
        implementations: many("implementation"),
        devices: many("device"),
    }
}

fn given_axes(registry: &Registry, matches: &ArgMatches) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    for axis in registry.workloads().iter().flat_map(|workload| workload.axes()) {
        if let Ok(Some(values)) = matches.try_get_many::<String>(axis.name)
            && !OWN.contains(&axis.name)
        {
            given.insert(axis.name.to_string(), values.cloned().collect::<Vec<_>>().join(","));
        }
    }
    given
}

/// The effort asked for.
pub(super) fn effort(matches: &ArgMatches) -> Effort {
    let name = matches.try_get_one::<String>("effort").ok().flatten().map_or("normal", String::as_str);
    Effort::NAMES.iter().find(|(known, _)| *known == name).map_or(Effort::Normal, |(_, effort)| *effort)
}

/// What slots are to find in the caches.
pub(super) fn caches_of(matches: &ArgMatches) -> Caches {
    let name = text(matches, "caches").unwrap_or("warm");
    Caches::NAMES.iter().find(|(known, _)| *known == name).map_or(Caches::Warm, |(_, caches)| *caches)
}

/// How long workers may take to answer.
pub(super) fn limits(matches: &ArgMatches) -> Limits {
    let open = matches.try_get_one::<u64>("time-limit").ok().flatten().map(|seconds| Duration::from_secs(*seconds));
    let usual = Limits::default();
    Limits { open: open.unwrap_or(usual.open), ..usual }
}

/// The text of a flag.
pub(super) fn text<'a>(matches: &'a ArgMatches, id: &str) -> Option<&'a str> {
    matches.try_get_one::<String>(id).ok().flatten().map(String::as_str)
}

/// Whether a switch is set.
pub(super) fn is_set(matches: &ArgMatches, id: &str) -> bool {
    matches.try_get_one::<bool>(id).ok().flatten().copied().unwrap_or(false)
}
