//! Code that changes the directory of the process, in a process with no other test.
#![allow(clippy::unwrap_used, missing_docs)]

use ellwand::{Registry, suite};

#[test]
fn results_are_in_the_initial_directory_even_if_the_code_changes_it() {
    let dir = tempfile::tempdir().unwrap();
    let before = std::env::current_dir().unwrap();
    std::env::set_current_dir(dir.path()).unwrap();
    let wanders = |x: &u64| {
        std::env::set_current_dir("/").unwrap();
        *x + 1
    };
    let registry = Registry::from(suite("w").input(|_, _| 1_u64).implementation("wanders", wanders));
    let line = "mine run w --in-process --effort quick --no-ceilings --no-plot -o out";
    assert_eq!(ellwand::run(line.split(' '), &registry), 0);
    std::env::set_current_dir(before).unwrap();
    assert!(dir.path().join("out/record.jsonl").is_file() && dir.path().join("out/report.md").is_file());
}
