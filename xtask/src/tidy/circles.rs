//! Import cycles inside a crate: files that all reach one another by imports, so that none can be understood alone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Sources;
use super::english::code;
use super::files::is_test;

/// Largest cycle in files, without tests.
const LARGEST: usize = 8;

/// A module is its path inside the crate; `lib` is the root: `["cli", "run"]`.
type Module = Vec<String>;

/// A path that a module names.
struct Import {
    path: Vec<String>,
    by: By,
}

/// How a module names a path. Re-exports do not count, because a reader of the module need not read their targets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Use,
    ReExport,
    Expression,
}

/// Modules of one crate, each with its imports.
type Crate = BTreeMap<Module, Vec<Import>>;

/// Lists import cycles of more than [`LARGEST`] files.
pub(crate) fn no_large_circle(sources: &Sources) -> Result<Vec<String>> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for (name, text) in sources.ending(&[".rs"]) {
        let Some((root, file)) = name.split_once("/src/") else { continue };
        let module: Module = file.trim_end_matches(".rs").split('/').map(str::to_string).collect();
        if !is_test(name) {
            let (module, modules) = (own(module), crates.entry(root).or_default());
            // `#[macro_export]` names a macro in the root as a re-export would.
            let exported = text.split("#[macro_export]\nmacro_rules! ").skip(1).filter_map(|rest| rest.split_once(' '));
            modules.entry(Module::new()).or_default().extend(exported.map(|(name, _)| {
                let path = [&["crate".to_string()], &module[..], &[name.to_string()]].concat();
                Import { path, by: By::ReExport }
            }));
            modules.entry(module).or_default().extend(imports(text));
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

/// Every path in a `use` or an expression, whatever it begins with; groups are expanded. Relies on rustfmt: a `use` begins a
/// line, and no line ends within another path.
fn imports(text: &str) -> Vec<Import> {
    let code = inline_modules_as_part(without_tests(&code(text)));
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let (mut paths, mut by) = (Vec::new(), By::Expression);
        match line.trim_start().split_once("use ").filter(|(before, _)| is_visibility(before)) {
            Some((visibility, tree)) => {
                let mut tree = tree.to_string();
                while !tree.contains(';') {
                    let Some(line) = lines.next() else { break };
                    tree.push_str(line);
                }
                unfold(&[], tree.trim_end().trim_end_matches(';'), &mut paths);
                by = if visibility.is_empty() { By::Use } else { By::ReExport };
            }
            None => {
                // `pub(in crate::a)` needs nothing from there.
                let line =
                    line.split_once("pub(in ").and_then(|(_, rest)| rest.split_once(')')).map_or(line, |of| of.1);
                let words = line.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
                let split = |word: &str| word.trim_end_matches(':').split("::").map(str::to_string).collect();
                paths.extend(words.map(split).filter(|path: &Vec<String>| path.len() > 1));
            }
        }
        for path in paths {
            found.push(Import { path, by });
        }
    }
    found
}

/// The code before the first module of tests in a file, which is its last item.
fn without_tests(code: &str) -> &str {
    let tests = code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|at| {
        let item = code[*at..].lines().find(|line| !line.trim_start().starts_with('#'));
        item.is_some_and(opens_module)
    });
    &code[..tests.unwrap_or(code.len())]
}

/// True for a line such as `pub(super) mod name {`.
fn opens_module(line: &str) -> bool {
    line.ends_with('{') && line.trim_start().split_once("mod ").is_some_and(|(before, _)| is_visibility(before))
}

/// True for nothing, `pub` and `pub(..)`.
fn is_visibility(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty() || before == "pub" || (before.starts_with("pub(") && before.ends_with(')'))
}

/// Code in which the first `super` of each path within `mod name { .. }` is `self`: such a module is part of its file.
fn inline_modules_as_part(code: &str) -> String {
    let mut close: Option<String> = None;
    let mut part = String::with_capacity(code.len());
    for line in code.lines() {
        let words = line.trim_start();
        if close.as_deref() == Some(line) {
            close = None;
        } else if close.is_none() && opens_module(line) {
            close = Some(format!("{}}}", &line[..line.len() - words.len()]));
        }
        match close {
            Some(_) => part.push_str(&line.replace("super::", "self::").replace("self::self::", "self::super::")),
            None => part.push_str(line),
        }
        part.push('\n');
    }
    part
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
        // A child.
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
            let uses = modules.get(&here)?.iter().filter(|import| import.by != By::Expression);
            let again = { uses }.find(|import| import.path.last() == Some(part) && import.path.len() > 1);
            let further = again.filter(|_| depth < 4 && here != *from);
            let rest = |import: &Import| [&import.path, &path[at + 1..]].concat();
            return further.and_then(|import| defines(modules, &here, &rest(import), depth + 1)).or(Some(here));
        }
    }
    Some(here)
}

fn circles(root: &str, modules: &Crate) -> Vec<String> {
    let arrows: BTreeMap<&Module, BTreeSet<Module>> = modules
        .iter()
        .map(|(module, imports)| {
            let arrows = imports.iter().filter(|import| import.by != By::ReExport);
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
    #[test]
    fn a_circle_through_path_expressions_is_found() {
        let file = |n: usize| {
            (format!("crates/a/src/contest{n}.rs"), format!("pub fn f() {{ super::contest{}::f() }}\n", n + 1))
        };
        let mut files: Vec<(String, String)> = (0..8).map(file).collect();
        // A contest is no test. `contest8` calls the root, whose function calls its child after a `use` in its body.
        files.push(("crates/a/src/contest8.rs".into(), "pub fn f() { crate::first() }\n".into()));
        let root = "mod contest0;\n\npub fn first() {\n    use std::fmt;\n    contest0::f();\n}\n";
        files.push(("crates/a/src/lib.rs".into(), root.into()));
        assert_eq!(no_large_circle(&Sources { files: files.clone() }).unwrap().len(), 1);
        // In a comment, a string or a re-export, the path is no arrow.
        files[9].1 =
            "pub use contest0::g;\npub fn first() {\n    // contest0::f()\n    say(\"contest0::f()\");\n}\n".into();
        assert!(no_large_circle(&Sources { files: files.clone() }).unwrap().is_empty());
        // In a module within the file, `super` is the file.
        files[9].1 = "pub fn first() {}\n".into();
        files[8].1 = "mod inner {\n    pub fn f() { super::super::first(); super::super::contest0::f() }\n}\n".into();
        assert_eq!(no_large_circle(&Sources { files: files.clone() }).unwrap().len(), 1);
        files[8].1 = "mod inner {\n    pub fn f() { super::contest0::f() }\n}\n".into();
        assert!(no_large_circle(&Sources { files }).unwrap().is_empty());
    }
}
