//! The flags that several commands share, and those that the axes of the registered workloads become.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};
use ellwand_core::{Caches, Registry};

/// Flags that belong to the command line itself; an axis of the same name would be out of reach.
pub(super) const OWN: [&str; 34] = [
    "size",
    "implementation",
    "device",
    "output",
    "format",
    "no-plot",
    "effort",
    "seed",
    "baseline",
    "resume",
    "overwrite",
    "once",
    "input",
    "ceilings",
    "quiet",
    "help",
    "version",
    "verify",
    "no-ceilings",
    "output-dir",
    "blocks",
    "in-process",
    "time-limit",
    "rope",
    "fail-on",
    "quick",
    "side",
    "workload",
    "command",
    "across-machines",
    "long",
    "config",
    "same-output",
    "caches",
];

pub(super) fn config() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Budgets [default: ellwand.toml in this directory or the nearest one above it]")
}

pub(super) fn rope() -> Arg {
    Arg::new("rope")
        .long("rope")
        .value_name("PERCENT")
        .default_value("1")
        .help("Region of practical equivalence: differences up to this count as the same")
}

pub(super) fn blocks(help: &'static str) -> Arg {
    Arg::new("blocks").long("blocks").value_name("N").value_parser(clap::value_parser!(u32).range(1..=1000)).help(help)
}

pub(super) fn time_limit() -> Arg {
    Arg::new("time-limit")
        .long("time-limit")
        .value_name("SECONDS")
        .value_parser(clap::value_parser!(u64).range(1..=86_400))
        .default_value("600")
        .help("Longest time for making an implementation ready and judging it; after that its process is killed")
}

pub(super) fn workloads(many: bool) -> Arg {
    let arg = Arg::new("workload").value_name("WORKLOAD").required(true);
    if many {
        arg.num_args(1..).help("Workloads, groups or patterns such as 'lattice-*'")
    } else {
        arg.help("Workload")
    }
}

pub(super) fn format(names: &[&'static str]) -> Arg {
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .value_parser(names.to_vec())
        .default_value("table")
        .help("Form of the result on stdout")
}

pub(super) fn caches(help: &'static str) -> Arg {
    Arg::new("caches")
        .long("caches")
        .value_name("STATE")
        .value_parser(Caches::NAMES.map(|(name, _)| name))
        .default_value("warm")
        .help(help)
}

pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(super) fn inputs(help: &'static str) -> Arg {
    Arg::new("input").long("input").value_name("BINDING").action(ArgAction::Append).help(help)
}

pub(super) fn selection(command: Command) -> Command {
    command
        .arg(size())
        .arg(
            Arg::new("implementation")
                .short('i')
                .long("implementation")
                .value_name("NAME,..")
                .value_delimiter(',')
                .help("Implementations or patterns; all if none is given"),
        )
        .arg(device("Devices: cpu, cuda, wgpu, or one with an index"))
        .arg(seed())
}

pub(super) fn device(help: &'static str) -> Arg {
    Arg::new("device").long("device").value_name("DEVICE,..").value_delimiter(',').help(help)
}

pub(super) fn size() -> Arg {
    Arg::new("size").long("size").value_name("SIZE").help("A named size of the workload")
}

pub(super) fn seed() -> Arg {
    Arg::new("seed")
        .long("seed")
        .value_name("N")
        .allow_negative_numbers(true)
        .value_parser(clap::value_parser!(u64))
        .default_value("42")
        .help("Seed of inputs and of the order of rounds")
}

/// What an axis means to some workloads; others may use its name for something else.
struct Meaning {
    about: String,
    expected: String,
    default: String,
    workloads: Vec<String>,
}

/// A flag for each axis of any workload, with its aliases; help shows which workloads have it, and what each takes for it.
pub(super) fn axes(registry: &Registry, mut command: Command) -> Command {
    let mut flags: BTreeMap<&'static str, (Vec<&'static str>, Vec<Meaning>)> = BTreeMap::new();
    for workload in registry.workloads() {
        for axis in workload.axes().iter().filter(|axis| !OWN.contains(&axis.name)) {
            let (aliases, meanings) = flags.entry(axis.name).or_default();
            let default = axis.default.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let (about, expected, name) = (axis.about.to_string(), axis.expected(), workload.name().to_string());
            match meanings.iter_mut().find(|m| m.about == about && m.expected == expected && m.default == default) {
                Some(meaning) => meaning.workloads.push(name),
                None => meanings.push(Meaning { about, expected, default, workloads: vec![name] }),
            }
            for alias in &axis.aliases {
                if !aliases.contains(alias) && !OWN.contains(alias) {
                    aliases.push(alias);
                }
            }
        }
    }
    for (name, (aliases, meanings)) in flags {
        let help: Vec<String> = meanings
            .iter()
            .map(|m| format!("{} ({}) [default: {}] [{}]", m.about, m.expected, m.default, m.workloads.join(", ")))
            .collect();
        let long: Vec<&'static str> = aliases.iter().copied().filter(|alias| alias.len() > 1).collect();
        let mut arg = Arg::new(name)
            .long(name)
            .value_name("V,..")
            .action(ArgAction::Append)
            .allow_negative_numbers(true)
            .help(help.join("; "))
            .help_heading("Axes")
            .visible_aliases(long);
        // One-letter names of the mathematics (--q, --M) are long flags, as users of such tools write them.
        for alias in aliases.iter().filter(|alias| alias.len() == 1) {
            arg = arg.visible_alias(*alias);
        }
        command = command.arg(arg);
    }
    command
}
