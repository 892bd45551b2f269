//! What is measured once a machine and kept: one JSON file a kind, machine and program version in the user's cache directory.

use std::path::PathBuf;

use ellwand_core::Environment;

/// Where a kind of result is kept; `None` without a home.
pub(super) fn path(kind: &str, environment: &Environment) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("ellwand").join(format!("{kind}-{}-{}.json", environment.fingerprint(), env!("CARGO_PKG_VERSION"))))
}

/// Keeps a result. A cache that cannot be written costs time at the next run and nothing else.
pub(super) fn keep(kind: &str, environment: &Environment, value: &impl serde::Serialize) {
    let Some(path) = path(kind, environment) else { return };
    let Ok(text) = serde_json::to_string(value) else { return };
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let kept = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&partial, text))
        .and_then(|()| std::fs::rename(&partial, &path));
    if let Err(error) = kept {
        super::output::note(&format!("note: the {kind} could not be kept in {} ({error})", path.display()));
    }
}
