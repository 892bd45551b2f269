//! What to use instead of a flag that does not exist.

use clap::error::{ContextKind, ContextValue, ErrorKind};
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
