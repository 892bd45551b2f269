//! The axes of workloads as flags. Help shows only those of the workloads that the user names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use ellwand_core::{Axis, InputError, Registry, Workload};

/// Prefix of an axis's name in the id of its flag, so an axis may have the name of a field of the arguments.
const PREFIX: &str = "axis ";

/// The range of values of an axis, with the unit.
pub(crate) fn range(axis: &Axis) -> String {
    if axis.unit.is_empty() { axis.expected() } else { format!("{}, in {}", axis.expected(), axis.unit) }
}

/// The values of an axis if the user gives none.
pub(crate) fn defaults(axis: &Axis) -> String {
    axis.default.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The workloads named in a request for help: alone, as a group or as `WORKLOAD:IMPLEMENTATION`.
pub(super) fn workloads_of_help(registry: &Registry, args: &[OsString]) -> Vec<Arc<dyn Workload>> {
    let words: Vec<&str> = args.iter().skip(2).filter_map(|arg| arg.to_str()).collect();
    if !words.iter().any(|word| ["--help", "-h"].contains(word)) {
        return Vec::new();
    }
    let name = |word: &&str| word.split(':').next().unwrap_or_default().to_string();
    words.iter().filter_map(|word| registry.select(&[name(word)]).ok()).flatten().collect()
}

/// The command at the start of a line, such as `run` or `sweep plan`.
pub(super) fn command_of<'a>(line: &'a Command, args: &[OsString]) -> &'a Command {
    let inner = |command: &'a Command, word| command.find_subcommand(word).ok_or(command);
    args.iter().skip(1).try_fold(line, inner).unwrap_or_else(|last| last)
}

/// True if axes are flags of this command.
pub(super) fn has_axes(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id().as_str().starts_with(PREFIX))
}

/// The flags, without dashes, that are valid for this command and these workloads.
pub(super) fn flags_for(registry: &Registry, line: &Command, args: &[OsString]) -> Vec<String> {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    let own = command_of(line, args).get_arguments().filter(|arg| !arg.get_id().as_str().starts_with(PREFIX));
    let own: Vec<String> = own.filter_map(|arg| arg.get_long().map(str::to_string)).collect();
    let named = words.iter().skip(1).filter_map(|word| registry.select(&[word.split(':').next()?.to_string()]).ok());
    let axes: Vec<String> = named
        .flatten()
        .flat_map(|workload| workload.axes().iter().flat_map(Axis::names).map(str::to_string).collect::<Vec<_>>())
        .collect();
    own.into_iter().chain(axes).collect()
}

/// The meaning of an axis in some workloads; others may use its name for something else.
struct Meaning {
    text: String,
    workloads: Vec<String>,
}

/// An axis of any workload: other names, and its meanings in the workloads that help shows.
#[derive(Default)]
struct Flag {
    aliases: Vec<&'static str>,
    meanings: Vec<Meaning>,
}

/// Adds a flag for each axis of any workload. Help lists the axes of the workloads in `shown`.
pub(super) fn add(registry: &Registry, shown: &[Arc<dyn Workload>], command: Command) -> Command {
    let hint = "A workload's axes are flags: `--help` after the name of a workload lists them.";
    let command = if shown.is_empty() { command.after_help(hint) } else { command };
    let heading = match shown {
        [one] => format!("Axes of {}", one.name()),
        _ => "Axes".to_string(),
    };
    flags(registry, shown, &command).into_iter().fold(command, |command, (name, flag)| {
        let several = |meaning: &Meaning| format!("{} [{}]", meaning.text, meaning.workloads.join(", "));
        let words = |meaning: &Meaning| if shown.len() > 1 { several(meaning) } else { meaning.text.clone() };
        let help: Vec<String> = flag.meanings.iter().map(words).collect();
        // One-letter names of the mathematics (--q, --M) are long flags, as users of such tools write them.
        command.arg(
            Arg::new(format!("{PREFIX}{name}"))
                .long(name)
                .value_name("V,..")
                .action(ArgAction::Append)
                .help(help.join("; "))
                .help_heading(heading.clone())
                .hide(flag.meanings.is_empty())
                .visible_aliases(flag.aliases),
        )
    })
}

/// True if the command declares a flag of this name.
pub(super) fn takes(command: &Command, name: &str) -> bool {
    let of_arg = |arg: &Arg| arg.get_long() == Some(name) || arg.get_all_aliases().unwrap_or_default().contains(&name);
    command.get_arguments().any(of_arg)
}

/// True if a flag of this name would belong to the command.
fn has(command: &Command, name: &str) -> bool {
    ["help", "version"].contains(&name) || takes(command, name)
}

/// The error about an axis with the name of a flag of one of these commands, where it could not be set.
pub(super) fn clash(registry: &Registry, commands: &[&Command]) -> Option<InputError> {
    let of_workload = |workload: &Arc<dyn Workload>| {
        workload.axes().iter().flat_map(Axis::names).find_map(|name| {
            let command = commands.iter().find(|command| has(command, name))?;
            let problem = format!("its axis '{name}' has the name of --{name}, a flag of `{}`", command.get_name());
            Some(InputError::new(workload.name(), problem, "another name for the axis"))
        })
    };
    registry.workloads().iter().find_map(of_workload)
}

/// All axes by name, without those that have the name of a flag of the command and so cannot be set.
fn flags(registry: &Registry, shown: &[Arc<dyn Workload>], command: &Command) -> BTreeMap<&'static str, Flag> {
    let taken = |name: &str| has(command, name);
    let mut flags: BTreeMap<&'static str, Flag> = BTreeMap::new();
    for workload in registry.workloads() {
        for axis in workload.axes().iter().filter(|axis| !taken(axis.name)) {
            let flag = flags.entry(axis.name).or_default();
            for alias in axis.aliases.iter().filter(|alias| !taken(alias)) {
                if !flag.aliases.contains(alias) {
                    flag.aliases.push(alias);
                }
            }
            if !shown.iter().any(|one| one.name() == workload.name()) {
                continue;
            }
            let text = format!("{} ({}) [default: {}]", axis.about, range(axis), defaults(axis));
            match flag.meanings.iter_mut().find(|known| known.text == text) {
                Some(known) => known.workloads.push(workload.name().to_string()),
                None => flag.meanings.push(Meaning { text, workloads: vec![workload.name().to_string()] }),
            }
        }
    }
    flags
}

/// The axes that the user gave, by name, with their values as text.
pub(super) fn values(matches: &ArgMatches) -> BTreeMap<String, String> {
    let values = |id: &str| matches.get_many::<String>(id).into_iter().flatten().cloned().collect::<Vec<_>>().join(",");
    let ids = matches.ids().map(clap::Id::as_str);
    ids.filter_map(|id| Some((id.strip_prefix(PREFIX)?.to_string(), values(id)))).collect()
}
