//! The instrument and the report know no domain: no name of a registered workload, implementation, axis or reading is written in
//! a string of their sources. What they need comes from the registry and from the record (`ellwand_core::view`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ellwand::internals::core::{DeviceKind, Implementation};

/// Names that are also words of the instrument: units of work, its own keys, columns, and English.
const WORDS: &str = "bytes copy elements fill fma k memory passes precision products read readings samples system threads working-memory";

#[test]
fn bench_and_report_name_nothing_of_a_domain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = root.join("crates");
    let registry = ellwand_cli::registry();
    let (mut workloads, mut others) = (BTreeSet::new(), BTreeSet::new());
    for workload in registry.workloads() {
        workloads.insert(workload.name().to_string());
        others.extend(workload.axes().iter().map(|axis| axis.name.to_string()));
    }
    let axes: BTreeSet<String> = others.iter().map(|axis| format!("--{axis}")).collect();
    others.extend(registry.all_implementations().iter().map(|one| one.name.clone()));
    let kinds = DeviceKind::ALL.map(DeviceKind::name);
    others.retain(|name| name != Implementation::REFERENCE && !kinds.contains(&name.as_str()));
    // Readings have no table; they are made from literals.
    for file in sources(root) {
        let instrument = ["core", "bench", "report"].map(|name| crates.join(name).join("src"));
        if !instrument.iter().any(|folder| file.starts_with(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            for (call, rest) in text.split("Reading::").skip(1).filter_map(|rest| rest.split_once('(')) {
                let id = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
                others.extend(
                    id.filter(|_| ["measured", "derived", "unavailable"].contains(&call)).map(|(id, _)| id.into()),
                );
            }
        }
    }
    assert!(workloads.contains("kde-fit") && others.contains("mse-inside") && axes.contains("--beta"));
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for file in ["bench/src", "report/src"].iter().flat_map(|folder| sources(&crates.join(folder))) {
        for literal in literals(&std::fs::read_to_string(&file).unwrap()) {
            let words = literal.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            let named = words.filter(|word| workloads.contains(*word) || axes.contains(*word));
            for name in named.chain([literal.as_str()].into_iter().filter(|name| others.contains(*name))) {
                match WORDS.split(' ').find(|word| *word == name) {
                    Some(word) => drop(used.insert(word)),
                    None => found.push(format!("{}: {name} in {literal:?}", file.display())),
                }
            }
        }
    }
    assert!(found.is_empty(), "register a view instead:\n{}", found.join("\n"));
    assert_eq!(used, WORDS.split(' ').collect(), "words that no string uses any more");
}

/// Sources below a folder, tests and what was built aside.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !["target", "tests"].contains(&&*name) {
            files.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}

/// The string literals of a source up to its tests.
fn literals(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = lines.map(|line| line.split_once(" // ").map_or(line, |(code, _)| code)).collect();
    let plain = code.join("\n").replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
    assert!(plain.matches('"').count().is_multiple_of(2), "an unpaired quote: {text}");
    plain.split('"').skip(1).step_by(2).map(String::from).collect()
}
