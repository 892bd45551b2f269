//! Import cycles inside a crate: files that all reach one another by imports, so that none can be understood alone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Sources;

/// Largest cycle in files, without tests.
const LARGEST: usize = 8;

/// A module is its path inside the crate; `lib` is the root: `["cli", "run"]`.
type Module = Vec<String>;

/// A path that a module imports. Re-exports do not count, because a reader of the module need not read their targets.
struct Import {
    path: Vec<String>,
    re_export: bool,
}

/// Modules of one crate, each with its imports.
type Crate = BTreeMap<Module, Vec<Import>>;

/// Lists import cycles of more than [`LARGEST`] files.
pub(crate) fn no_large_circle(sources: &Sources) -> Result<Vec<String>> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for (name, text) in sources.ending(&[".rs"]) {
        let Some((root, file)) = name.split_once("/src/") else { continue };
        let module: Module = file.trim_end_matches(".rs").split('/').map(str::to_string).collect();
        if !module.iter().any(|part| part.contains("test")) {
            crates.entry(root).or_default().insert(own(module), imports(text));
        }
    }
    Ok(crates.iter().flat_map(|(root, modules)| circles(root, modules)).collect())
}

/// The path of a module without `mod`, `lib` or `main`.
fn own(mut module: Module) -> Module {
    if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// Every path that begins with `crate`, `super` or `self`, and a child's name in re-exports; groups are expanded.
fn imports(text: &str) -> Vec<Import> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect();
    let mut found = Vec::new();
    for statement in code.split(';') {
        let statement = statement.trim_start();
        let import = statement.find("use ").filter(|at| {
            statement[..*at]
                .trim_end()
                .rsplit('\n')
                .next()
                .is_some_and(|before| before.is_empty() || before.starts_with("pub"))
        });
        let mut paths = Vec::new();
        let mut re_export = false;
        match import {
            Some(at) => {
                re_export =
                    statement[..at].trim_end().rsplit('\n').next().is_some_and(|before| before.starts_with("pub"));
                unfold(&[], &statement[at + 4..], &mut paths);
            }
            None => {
                for (at, _) in ["crate::", "super::"].iter().flat_map(|start| statement.match_indices(start)) {
                    let path = statement[at..].split(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).next();
                    paths.push(path.unwrap_or("").split("::").map(str::to_string).collect());
                }
            }
        }
        found.extend(paths.into_iter().map(|path| Import { path, re_export }));
    }
    found
}

/// Expands `a::{b, c::{d, e}}` to a::b, a::c::d, a::c::e.
fn unfold(before: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or("").trim();
        found.push(before.iter().cloned().chain(name.split("::").map(|part| part.trim().to_string())).collect());
        return;
    };
    let head =
        head.trim_end_matches("::").split("::").map(|part| part.trim().to_string()).filter(|part| !part.is_empty());
    let before: Vec<String> = before.iter().cloned().chain(head).collect();
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    unfold(&before, &group[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module whose file defines the item at a path, following re-exports; `None` for an item of another crate.
fn defines(modules: &Crate, from: &Module, path: &[String], depth: usize) -> Option<Module> {
    let mut here = match path.first()?.as_str() {
        "crate" => Module::new(),
        "self" => from.clone(),
        "super" => from.get(..from.len().checked_sub(1)?)?.to_vec(),
        // A re-export of a child.
        child => {
            let module: Module = from.iter().cloned().chain([child.to_string()]).collect();
            modules.contains_key(&module).then_some(module)?
        }
    };
    for (at, part) in path.iter().enumerate().skip(1) {
        if part == "super" {
            here.pop();
            continue;
        }
        here.push(part.clone());
        if !modules.contains_key(&here) {
            here.pop();
            let again =
                modules.get(&here)?.iter().find(|import| import.path.last() == Some(part) && import.path.len() > 1);
            let further = again.filter(|_| depth < 4 && at + 1 == path.len() && here != *from);
            return further.and_then(|import| defines(modules, &here, &import.path, depth + 1)).or(Some(here));
        }
    }
    Some(here)
}

fn circles(root: &str, modules: &Crate) -> Vec<String> {
    let arrows: BTreeMap<&Module, BTreeSet<Module>> = modules
        .iter()
        .map(|(module, imports)| {
            let arrows = imports.iter().filter(|import| !import.re_export);
            let to = arrows.filter_map(|import| defines(modules, module, &import.path, 0)).filter(|to| to != module);
            (module, to.collect())
        })
        .collect();
    let reached = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(next) = open.pop() {
            for to in arrows.get(&next).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> = modules.keys().map(|module| (module, reached(module))).collect();
    let mut found = BTreeSet::new();
    for (module, reach) in &all {
        let circle: Vec<String> = reach
            .iter()
            .filter(|other| all.get(other).is_some_and(|back| back.contains(*module)))
            .map(|other| other.join("::"))
            .collect();
        if circle.len() > LARGEST {
            found.insert(format!(
                "{root}: {} files import one another in a circle: {}",
                circle.len(),
                circle.join(", ")
            ));
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_circle_is_found_through_groups_and_re_exports() {
        let file =
            |n: usize| (format!("crates/a/src/m{n}.rs"), format!("use crate::{{x, m{}::{{A, B}}}};\n", (n + 1) % 9));
        let mut files: Vec<(String, String)> = (0..9).map(file).collect();
        files.push(("crates/a/src/lib.rs".into(), "mod m0;\npub use m3::C;\n".into()));
        assert_eq!(no_large_circle(&Sources { files: files.clone() }).unwrap().len(), 1);
        // With one file less, the cycle is small enough.
        files[4].1 = "use super::C;\nuse std::fmt;\n".into();
        assert!(no_large_circle(&Sources { files }).unwrap().is_empty());
    }
}
