//! Hints that clap does not give: what to use instead of an unknown flag, and which word is not UTF-8.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ellwand_core::InputError;
use ellwand_core::error::{did_you_mean, nearest};

use super::axes::{command_of, has_axes, takes};

/// Flags of other tools, and the equivalent here, for commands that have the equivalent flag.
type Elsewhere = (&'static [&'static str], &'static [(&'static str, &'static str)]);
const ELSEWHERE: [Elsewhere; 4] = [
    (
        &["--iters", "--repeat", "--repeats", "--runs", "--num-runs", "--warmup", "--iterations", "--warm-up"],
        &[
            (
                "iterations",
                "Ellwand chooses the iterations; --effort and --time set how long a case is measured, and --iterations N --warm-up N are for fixed counts",
            ),
            ("time", "Ellwand chooses the iterations; --time sets how long a case is measured"),
        ],
    ),
    (
        &["--threads", "--jobs", "-j"],
        &[("implementation", "the implementation decides: `list` shows which ones use all threads; choose with -i")],
    ),
    (
        &["--verbose", "-v"],
        &[
            ("full", "--full prints every column, case, reading and finding"),
            ("total-time", "-o DIR saves a record; `report DIR --full` prints all its columns"),
        ],
    ),
    (&["--json"], &[("format", "--format json")]),
];

/// Commands that need a feature.
const OPTIONAL: [(&str, &str); 5] =
    [("apply", "arrays"), ("history", "history"), ("sweep", "sweep"), ("profile", "page"), ("view", "page")];

fn needs(feature: &str) -> String {
    format!("this needs the feature `{feature}` of the crate ellwand, which this program was built without")
}

/// Replaces clap's suggestions by ones that help: its nearest name shares letters, not always a meaning. `known`: the flags
/// of this command and these workloads.
pub(super) fn suggest(mut error: clap::Error, line: &Command, args: &[OsString], known: &[String]) -> clap::Error {
    let other_name = other_name(&error, command_of(line, args), args);
    if let Some((alias, false)) = &other_name {
        error.insert(ContextKind::InvalidArg, ContextValue::String(alias.clone()));
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let hint = match error.kind() {
        ErrorKind::InvalidValue => {
            let (given, near) = (text(ContextKind::InvalidValue), text(ContextKind::SuggestedValue));
            let page = !cfg!(feature = "page") && given.as_deref() == Some("html");
            if given.zip(near).is_some_and(|(given, near)| nearest(&given, [&near[..]]).is_none()) {
                error.remove(ContextKind::SuggestedValue);
            }
            if page {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![needs("page").into()]));
            }
            return error;
        }
        ErrorKind::InvalidSubcommand => {
            let Some(given) = text(ContextKind::InvalidSubcommand) else { return error };
            let absent = |(name, _): &&(&str, &str)| *name == given && line.find_subcommand(name).is_none();
            if let Some((_, feature)) = OPTIONAL.iter().find(absent) {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![needs(feature).into()]));
                error.remove(ContextKind::SuggestedSubcommand);
                return error;
            }
            let mut known: Vec<&str> = command_of(line, args).get_subcommands().map(Command::get_name).collect();
            known.sort_unstable();
            let near = did_you_mean(&given, known.iter().copied());
            Some(near.unwrap_or_else(|| format!("one of {}", known.join(", "))))
        }
        ErrorKind::ArgumentConflict => {
            if let Some((alias, true)) = other_name {
                error.insert(ContextKind::PriorArg, ContextValue::String(alias));
                error.insert(
                    ContextKind::Suggested,
                    ContextValue::StyledStrs(vec!["they are two names of one option: give one of them".into()]),
                );
            }
            return error;
        }
        ErrorKind::UnknownArgument => {
            let of_compare = command_of(line, args).get_name() == "compare";
            let word = text(ContextKind::InvalidArg).filter(|word| of_compare || word.starts_with('-'));
            let Some(word) = word else { return error };
            if word.starts_with('-') { instead_of(&word, line, args, known) } else { Some(sides(args).into()) }
        }
        _ => return error,
    };
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested] {
        error.remove(kind);
    }
    if let Some(hint) = hint {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// How many sides `compare` takes, for a line with more.
fn sides(args: &[OsString]) -> &'static str {
    if args.iter().filter_map(|word| word.to_str()).any(|word| word.split('=').next() == Some("--baseline")) {
        return "expected one side with --baseline, WORKLOAD or WORKLOAD:IMPLEMENTATION: the other one is this program at that revision";
    }
    "expected two sides, BASE and CANDIDATE; run `compare` once for each candidate, or `run WORKLOAD -i A,B,C` for the times of \
     all without a verdict"
}

/// Another name of the flag that an error names, if the user typed it; and whether the user also typed the flag's own name.
fn other_name(error: &clap::Error, command: &Command, args: &[OsString]) -> Option<(String, bool)> {
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else { return None };
    let (flag, value) = named.split_once(' ').unwrap_or((named, ""));
    let arg =
        command.get_arguments().find(|arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long)))?;
    let is_given = |flag: &str| args.iter().filter_map(|word| word.to_str()).any(|w| w.split('=').next() == Some(flag));
    let alias = arg.get_all_aliases()?.into_iter().map(|alias| format!("--{alias}")).find(|alias| is_given(alias))?;
    Some((format!("{alias} {value}"), is_given(flag)))
}

/// What to use instead of an unknown flag.
fn instead_of(flag: &str, line: &Command, args: &[OsString], known: &[String]) -> Option<String> {
    let command = command_of(line, args);
    let known: Vec<String> = known.iter().map(|name| format!("--{name}")).collect();
    let of_others = ELSEWHERE.iter().any(|(flags, _)| flags.contains(&flag));
    let near = did_you_mean(flag, known.iter().map(String::as_str)).filter(|_| !of_others);
    let elsewhere = ELSEWHERE.iter().find(|(flags, _)| nearest(flag, flags.iter().copied()).is_some());
    let same = elsewhere.and_then(|(_, same)| same.iter().find(|(needed, _)| takes(command, needed)));
    if let Some(hint) = near.or_else(|| same.map(|(_, hint)| (*hint).to_string())) {
        return Some(hint);
    }
    let name = flag.strip_prefix("--")?;
    let of = |command: &Command, path: String| takes(command, name).then(|| format!("`{path}`"));
    let owners = line.get_subcommands().flat_map(|command| {
        let inner =
            command.get_subcommands().map(|inner| (inner, format!("{} {}", command.get_name(), inner.get_name())));
        std::iter::once((command, command.get_name().to_string())).chain(inner)
    });
    let mut owners: Vec<String> = owners.filter_map(|(command, path)| of(command, path)).collect();
    owners.sort_unstable();
    if !owners.is_empty() {
        return Some(format!("{flag} is an option of {}", owners.join(", ")));
    }
    (elsewhere.is_none() && has_axes(command))
        .then(|| "put `--help` after the name of a workload to list its flags".into())
}

/// Names the word that must be UTF-8 but is not: paths in other arguments may contain any bytes.
pub(super) fn name_not_utf8(error: clap::Error, line: &Command, args: &[OsString]) -> clap::Error {
    let is_refused = |at: &usize| {
        let readable = |word: &OsString| OsString::from(word.to_string_lossy().into_owned());
        let alone =
            args.iter().enumerate().map(|(other, word)| if other == *at { word.clone() } else { readable(word) });
        line.clone().try_get_matches_from(alone).is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
    };
    let Some(at) = (0..args.len()).find(is_refused) else { return error };
    let flag = at.checked_sub(1).and_then(|before| args[before].to_str()).filter(|word| word.starts_with('-'));
    let words = flag.map_or_else(String::new, |flag| format!("{flag} ")) + &args[at].to_string_lossy();
    let named = InputError::new(words, "it is not UTF-8", "a name in UTF-8");
    clap::Error::raw(error.kind(), format!("{}\n", named.help("rename the file, or give it a link with such a name")))
}
