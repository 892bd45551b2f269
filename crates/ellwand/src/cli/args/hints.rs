//! What clap does not say of a command line: what to use instead of an unknown flag, and which word is not UTF-8.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ellwand_core::InputError;
use ellwand_core::error::nearest;

/// Flags of other tools, with what does the same here.
const ELSEWHERE: [(&[&str], &str); 4] = [
    (
        &["--iters", "--repeat", "--repeats", "--runs", "--num-runs", "--warmup", "--iterations", "--warm-up"],
        "iterations follow from the samples; --effort and --time set how long a case is measured, and `run` takes --iterations N --warm-up N for fixed counts",
    ),
    (&["--threads", "--jobs"], "the implementation decides: `list` shows which ones use all threads; choose with -i"),
    (&["--verbose"], "--full prints every column, case, reading and finding"),
    (&["--json"], "--format json"),
];

/// Replaces the suggestion for an unknown flag by one that helps: clap's nearest flag shares letters, not always a
/// meaning.
pub(super) fn suggest(mut error: clap::Error, known: &[String]) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument || !flag.starts_with("--") {
        return error;
    }
    let flag = flag.clone();
    let elsewhere =
        ELSEWHERE.iter().find(|(flags, _)| flags.contains(&flag.as_str())).map(|(_, hint)| hint.to_string());
    let near = nearest(flag.trim_start_matches('-'), known.iter().map(String::as_str));
    let hint = elsewhere.or_else(|| near.map(|name| format!("did you mean --{name}?")));
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Suggested);
    let hint = hint.unwrap_or_else(|| "the flags of a workload: `--help` after its name".into());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// Names the word that is not UTF-8 where it must be: paths of other arguments may be anything.
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
    clap::Error::raw(error.kind(), format!("{}\n", named.help("rename the file, or name a link to it")))
}
