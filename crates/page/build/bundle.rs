//! Joins ES modules into one script. Each module becomes a function that returns its exports, so names stay private to
//! their file; the page then needs no import, which browsers refuse from `file:`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A module: its code without imports and exports, and the names of both.
struct Module {
    code: String,
    imports: Vec<(String, String)>,
    exports: Vec<String>,
}

/// Joins `entry` and every module that it imports, directly or not, below `folder`.
///
/// # Errors
/// A file that cannot be read, an import of a missing name, circular imports, or a form of import or export that this
/// does not support.
pub(crate) fn bundle(folder: &Path, entry: &str) -> Result<String, String> {
    let mut modules = BTreeMap::new();
    let mut order = Vec::new();
    visit(folder, &PathBuf::from(entry), &mut Vec::new(), &mut modules, &mut order)?;
    let mut script = String::from("\"use strict\";\n");
    for path in &order {
        let Some(module) = modules.get(path) else { continue };
        let name = variable(path);
        let _ = writeln!(script, "const {name} = (() => {{");
        for (names, from) in &module.imports {
            let _ = writeln!(script, "const {{{names}}} = {from};");
        }
        let _ = writeln!(script, "{}\nreturn {{{}}};\n}})();", module.code, module.exports.join(", "));
    }
    Ok(script)
}

fn variable(path: &Path) -> String {
    let text = path.with_extension("").to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("m_{text}")
}

fn visit(
    folder: &Path,
    path: &Path,
    open: &mut Vec<PathBuf>,
    modules: &mut BTreeMap<PathBuf, Module>,
    order: &mut Vec<PathBuf>,
) -> Result<(), String> {
    if modules.contains_key(path) {
        return Ok(());
    }
    if open.iter().any(|one| one == path) {
        return Err(format!("{} imports itself through {open:?}", path.display()));
    }
    open.push(path.to_path_buf());
    let text = std::fs::read_to_string(folder.join(path)).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut module, imports) = parse(path, &text)?;
    for (names, from) in imports {
        let target = resolve(path, &from);
        visit(folder, &target, open, modules, order)?;
        let exports = modules.get(&target).map(|other| other.exports.as_slice()).unwrap_or_default();
        for name in names.split(',').map(|name| name.split(':').next().unwrap_or("").trim()) {
            if !name.is_empty() && !exports.iter().any(|export| export == name) {
                return Err(format!("{} imports {name}, which {} does not export", path.display(), target.display()));
            }
        }
        module.imports.push((names, variable(&target)));
    }
    open.pop();
    modules.insert(path.to_path_buf(), module);
    order.push(path.to_path_buf());
    Ok(())
}

/// The path of module `from`, relative to the module at `path`.
fn resolve(path: &Path, from: &str) -> PathBuf {
    let mut target = path.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in from.split('/') {
        match part {
            "." => {}
            ".." => {
                target.pop();
            }
            part => target.push(part),
        }
    }
    target
}

type Imports = Vec<(String, String)>;

fn parse(path: &Path, text: &str) -> Result<(Module, Imports), String> {
    let mut module = Module { code: String::new(), imports: Vec::new(), exports: Vec::new() };
    let mut imports = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("import ") {
            let mut statement = line.to_string();
            while !statement.ends_with(';') {
                statement.push(' ');
                statement
                    .push_str(lines.next().ok_or_else(|| format!("{}: import without end", path.display()))?.trim());
            }
            imports.push(import(&statement).ok_or_else(|| format!("{}: unknown form: {statement}", path.display()))?);
        } else if let Some(rest) = line.strip_prefix("export ") {
            module.exports.push(export(rest).ok_or_else(|| format!("{}: unknown form: {line}", path.display()))?);
            module.code.push_str(rest);
            module.code.push('\n');
        } else {
            module.code.push_str(line);
            module.code.push('\n');
        }
    }
    Ok((module, imports))
}

/// `import { a, b as c } from "./d.js";` as the pattern `a, b: c` and the path.
fn import(statement: &str) -> Option<(String, String)> {
    let (names, from) = statement.strip_prefix("import {")?.split_once('}')?;
    let from = from.trim().strip_prefix("from \"")?.strip_suffix("\";")?;
    Some((names.trim().trim_end_matches(',').replace(" as ", ": "), from.to_string()))
}

/// The name that `function name(`, `class name {` or `const name =` declares.
fn export(rest: &str) -> Option<String> {
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let name = ["function ", "class ", "const "].iter().find_map(|word| rest.strip_prefix(word))?;
    let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}
