//! Rules about the content of files.

use anyhow::Result;

use super::{Sources, english};

/// Folders and files that may lift the lint on unsafe code (ARCHITECTURE, floors).
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/calibration/src/",
    "crates/profile/src/alloc.rs",
    "crates/profile/src/clock.rs",
    "crates/profile/src/fork.rs",
    // For `itt`, with the feature of that name.
    "crates/profile/src/lib.rs",
    "crates/profile/tests/fork.rs",
    "crates/simd/src/",
    "devices/gpu/src/",
    "tools/gpu-lab/src/",
    "workloads/",
];

/// Lists files that allow unsafe code outside these folders; a lint denies it elsewhere.
pub(crate) fn unsafe_where_allowed(sources: &Sources) -> Result<Vec<String>> {
    // Written in two parts, so that this file does not match itself.
    let lifted = concat!("allow(", "unsafe_code)");
    Ok(sources
        .ending(&[".rs"])
        .filter(|(name, text)| text.contains(lifted) && !UNSAFE_ALLOWED.iter().any(|folder| name.starts_with(folder)))
        .map(|(name, _)| format!("{name} lifts the lint on unsafe code"))
        .collect())
}

/// Files that may read the wall clock, which jumps when someone sets it: it dates records, directories and traces.
/// All timing, waiting and comparing uses the monotonic clock.
const DATED: [&str; 2] = ["crates/ellwand/src/cli/output.rs", "crates/profile/src/environment.rs"];

/// Lists other files that read the wall clock.
pub(crate) fn one_wall_clock(sources: &Sources) -> Result<Vec<String>> {
    let asked = concat!("System", "Time");
    Ok(sources
        .ending(&[".rs"])
        .filter(|(name, text)| name.starts_with("crates/") && text.contains(asked) && !DATED.contains(name))
        .map(|(name, _)| {
            format!("{name} reads the wall clock, which can jump; use Instant, or the dates of {}", DATED.join(" and "))
        })
        .collect())
}

/// Folders of libraries. Their messages also reach Python and programs without a command line, so they name an axis or
/// option without dashes (`InputError::setting`); the command line adds these.
const LIBRARIES: [&str; 15] = [
    "crates/bench/src/",
    "crates/calibration/src/",
    "crates/core/src/",
    "crates/ellwand/src/arrays/",
    "crates/ellwand/src/lab.rs",
    "crates/ellwand/src/suite/",
    "crates/history/src/",
    "crates/page/src/",
    "crates/profile/src/",
    "crates/report/src/",
    "crates/simd/src/",
    "crates/stats/src/",
    "crates/trace/src/",
    "devices/",
    "workloads/",
];

/// Options of NVIDIA's compiler.
const COMPILER: [&str; 5] = ["fmad=", "std=", "generate-line-info", "ptxas-options=", "gpu-architecture="];

/// Lists strings of libraries that write an axis or option as a flag, outside a whole command in back quotes.
pub(crate) fn flags_in_the_command_line_only(sources: &Sources) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let libraries =
        sources.ending(&[".rs"]).filter(|(name, _)| LIBRARIES.iter().any(|folder| name.starts_with(folder)));
    for (name, text) in libraries.filter(|(_, text)| text.contains("--")) {
        for (index, line) in english::strings(text).lines().enumerate() {
            // Every second part is between back quotes.
            let flag = line.split('`').enumerate().find_map(|(part, words)| {
                let flag = |(at, _): (usize, &str)| {
                    let (before, after) = (&words[..at], &words[at + 2..]);
                    let begins =
                        !before.ends_with('-') && after.starts_with(|c: char| c.is_ascii_lowercase() || c == '{');
                    let is_command = part % 2 == 1 && !before.trim().is_empty();
                    (begins && !is_command && !COMPILER.iter().any(|option| after.starts_with(option))).then_some(after)
                };
                words.match_indices("--").find_map(flag)
            });
            if let Some(flag) = flag {
                let end = flag.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(flag.len());
                broken.push(format!(
                    "{name}:{} writes --{}; only the command line adds dashes",
                    index + 1,
                    &flag[..end]
                ));
            }
        }
    }
    Ok(broken)
}

/// Lists pages, styles and scripts that would access the network.
pub(crate) fn no_remote_reference(sources: &Sources) -> Result<Vec<String>> {
    let asks = ["http://", "https://", "fetch(", "XMLHttpRequest", "WebSocket", "//cdn"];
    Ok(sources
        .ending(&[".html", ".js", ".css"])
        .flat_map(|(name, text)| {
            asks.iter().filter(|ask| text.contains(**ask)).map(move |ask| format!("{name} contains {ask}"))
        })
        .collect())
}

/// Lists white space that makes diffs harder to read.
pub(crate) fn clean(sources: &Sources) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for (name, text) in sources.ending(&[".rs", ".toml", ".md", ".py", ".js", ".css", ".html", ".cu", ".wgsl", ".yml"])
    {
        if let Some(line) = text.lines().position(|line| line.ends_with(' ') || line.contains('\t')) {
            broken.push(format!("{name}:{} has a tab or trailing space", line + 1));
        }
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            broken.push(format!("{name} does not end with one newline"));
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(name: &str, text: &str) -> Sources {
        Sources { files: vec![(name.to_string(), text.to_string())] }
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let lifted = format!("#![{}]\n", concat!("allow(", "unsafe_code)"));
        assert_eq!(unsafe_where_allowed(&sources("crates/report/src/a.rs", &lifted)).unwrap().len(), 1);
        assert!(unsafe_where_allowed(&sources("crates/simd/src/a.rs", &lifted)).unwrap().is_empty());
        let clock = concat!("use std::time::System", "Time;\n");
        assert_eq!(one_wall_clock(&sources("crates/bench/src/a.rs", clock)).unwrap().len(), 1);
        assert!(one_wall_clock(&sources("crates/ellwand/src/cli/output.rs", clock)).unwrap().is_empty());
        let flags = |line: &str| {
            flags_in_the_command_line_only(&sources("crates/core/src/a.rs", &format!("{line}\n"))).unwrap().len()
        };
        assert_eq!(flags(r#"f("--q"); // g"#), 1);
        assert_eq!(flags(r#"f("use --{axis}")"#), 1);
        assert_eq!(flags(r#"f("see `--once`")"#), 1);
        assert_eq!(flags(r#"f("`ellwand run --once` -- q"); // --q"#), 0);
        assert_eq!(flags(r#"f("--fmad=false")"#), 0);
        assert_eq!(no_remote_reference(&sources("web/a.js", "fetch('x')\n")).unwrap().len(), 1);
        assert_eq!(clean(&sources("a.md", "x \n\n")).unwrap().len(), 2);
        assert!(clean(&sources("a.md", "x\n")).unwrap().is_empty());
    }
}
