//! Rules about files: each is part of a crate, and none is too long.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Sources;

/// Longest source file in lines; a longer file has more than one topic.
const LONGEST: usize = 500;

/// Longest functions in lines, by folder; the first match counts.
const LONGEST_FUNCTIONS: [(&str, usize); 6] = [
    ("crates/ellwand/src/cli/", 60),
    ("crates/", 80),
    ("workloads/", 80),
    ("devices/", 80),
    ("app/", 80),
    ("python/", 80),
];

/// Lists `.rs` files under `src/` that no `mod` names: the compiler never sees them.
pub(crate) fn registered(sources: &Sources) -> Result<Vec<String>> {
    let mut declared = BTreeSet::new();
    for (name, text) in sources.ending(&[".rs"]) {
        for line in text.lines() {
            let line = line.trim();
            if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
                declared.extend(Path::new(name).parent().map(|folder| folder.join(path)));
            }
            let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
            if let Some(module) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
                declared.extend(places(Path::new(name), module));
            }
        }
    }
    let roots = ["lib.rs", "main.rs"];
    let is_root = |path: &Path| {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let parent = path.parent().and_then(|parent| parent.file_name()).and_then(|name| name.to_str()).unwrap_or("");
        (roots.contains(&file) && parent == "src") || parent == "bin"
    };
    Ok(sources
        .ending(&[".rs"])
        .map(|(name, _)| Path::new(name))
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .filter(|path| !is_root(path) && !declared.contains(*path))
        .map(|path| format!("{} is named by no mod", path.display()))
        .collect())
}

/// Paths where `mod module;` in `file` may be found.
fn places(file: &Path, module: &str) -> Vec<PathBuf> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
    let parent = file.parent().unwrap_or(Path::new(""));
    let folder = if ["lib", "main", "mod"].contains(&stem) { parent.to_path_buf() } else { parent.join(stem) };
    vec![folder.join(format!("{module}.rs")), folder.join(module).join("mod.rs")]
}

/// Lists source files that are too long.
pub(crate) fn short(sources: &Sources) -> Result<Vec<String>> {
    Ok(sources
        .ending(&[".rs", ".py", ".js", ".cu", ".wgsl"])
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(name, lines)| format!("{name} has {lines} lines; split it by idea"))
        .collect())
}

/// Lists functions of shipped crates that are too long; tests may be longer. Relies on rustfmt: the closing brace has the
/// indentation of the line with `fn`.
pub(crate) fn short_functions(sources: &Sources) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for (name, text) in sources.ending(&[".rs"]) {
        let longest = LONGEST_FUNCTIONS.iter().find(|(folder, _)| name.starts_with(folder));
        let Some((_, longest)) = longest.filter(|_| !is_test(name)) else { continue };
        let lines: Vec<&str> = text.lines().collect();
        for (first, line) in lines.iter().enumerate() {
            let words = line.trim_start();
            // Rows of a table of functions end in `;` or `=`; a function written by a macro ends with the macro's row.
            if !begins_function(words) || line.ends_with(['}', ';', '=']) || words.contains("fn $") {
                continue;
            }
            let close = format!("{}}}", &line[..line.len() - words.len()]);
            let length = lines[first..].iter().position(|line| *line == close).map_or(0, |last| last + 1);
            if length > *longest {
                broken.push(format!("{name}:{} is a function of {length} lines; split it by idea", first + 1));
            }
        }
    }
    Ok(broken)
}

/// True for a file of tests, by its name.
pub(super) fn is_test(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("/tests.rs") || file.ends_with("_tests.rs")
}

/// True for a line such as `pub(super) unsafe fn name(..`.
fn begins_function(line: &str) -> bool {
    let before = ["const", "async", "unsafe", "extern", "\"C\""];
    let visible = line.split_once("fn ").map(|(before, _)| before.trim()).filter(|_| !line.starts_with("//"));
    visible.is_some_and(|words| {
        words.split(' ').all(|word| word.is_empty() || word.starts_with("pub") || before.contains(&word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources { files: files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect() }
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let found = registered(&sources(&[
            ("crates/a/src/lib.rs", "mod one;\npub mod two;\n"),
            ("crates/a/src/one.rs", ""),
            ("crates/a/src/two/mod.rs", "mod three;\n"),
            ("crates/a/src/two/three.rs", "mod four;\n"),
            ("crates/a/src/two/three/four.rs", ""),
            ("crates/a/src/five.rs", ""),
        ]));
        assert_eq!(found.unwrap(), ["crates/a/src/five.rs is named by no mod"]);
    }

    #[test]
    fn a_long_file_is_found() {
        let long = "x\n".repeat(LONGEST + 1);
        assert_eq!(short(&sources(&[("a.rs", &long), ("b.md", &long)])).unwrap().len(), 1);
    }

    #[test]
    fn a_long_function_is_found() {
        let of =
            |lines: usize| format!("impl A {{\n    pub unsafe fn f(\n{}    }}\n}}\n", "        x\n".repeat(lines - 2));
        let (fits, long) = (of(80), of(81));
        let found = short_functions(&sources(&[
            ("crates/a/src/fits.rs", &fits),
            ("crates/a/src/long.rs", &long),
            ("crates/ellwand/src/cli/fits.rs", &fits),
            ("crates/a/tests/long.rs", &long),
            ("tools/a/src/long.rs", &long),
        ]));
        assert_eq!(
            found.unwrap(),
            [
                "crates/a/src/long.rs:2 is a function of 81 lines; split it by idea",
                "crates/ellwand/src/cli/fits.rs:2 is a function of 80 lines; split it by idea",
            ]
        );
    }
}
