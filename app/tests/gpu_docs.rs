//! The commands for a GPU that the documents show run nowhere here: at least they name what there is.
#![allow(clippy::unwrap_used, missing_docs)]

#[test]
fn documented_gpu_commands_name_existing_workloads_and_implementations() {
    let text = include_str!("../../docs/gpu.md");
    let registry = ellwand_cli::registry();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("ellwand run ")).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().collect();
        let workload = registry.find(words[2]).unwrap_or_else(|| panic!("{line}: no such workload"));
        let after = |flag: &str| words.iter().position(|word| *word == flag).map(|at| words[at + 1]);
        let rows = registry.implementations(workload.name());
        for name in after("-i").into_iter().flat_map(|names| names.split(',')) {
            assert!(rows.iter().any(|row| row.name == name), "{line}: {name}");
        }
        for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
            let known = ["caches", "device", "spans"].contains(&flag);
            assert!(known || workload.axes().iter().any(|axis| axis.name == flag), "{line}: --{flag}");
        }
    }
}
