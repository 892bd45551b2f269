//! speedscope's own app reads our export: its list of profiles and its table of functions, in headless Chromium.
//!
//! `npm install speedscope` installs the app; `ELLWAND_SPEEDSCOPE` names the folder `node_modules/speedscope`.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stdout, reason = "what a skipped test needs")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The app's page; `None`, after printing the reason, if the machine has none.
fn app() -> Option<PathBuf> {
    let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|required| required.contains("speedscope"));
    let found = std::env::var_os("ELLWAND_SPEEDSCOPE").map(|folder| Path::new(&folder).join("dist/release/index.html"));
    if let Some(page) = found.filter(|page| page.is_file()) {
        return Some(page);
    }
    assert!(!required, "ELLWAND_SPEEDSCOPE names no folder with dist/release/index.html; npm install speedscope");
    println!("skipped: ELLWAND_SPEEDSCOPE names no speedscope (npm install speedscope)");
    None
}

/// The texts of a page's elements in order, after its scripts ran.
fn texts(page: &Path, hash: &str) -> Vec<String> {
    let chromium = std::env::var("ELLWAND_CHROMIUM").unwrap_or_else(|_| "chromium".to_string());
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg(format!("file://{}#{hash}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    let body = dom.split_once("<body").unwrap_or_else(|| panic!("no page: {dom}")).1;
    let parts = body.split('<').filter_map(|part| part.split_once('>'));
    parts.map(|(_, text)| text.trim().to_string()).filter(|text| !text.is_empty()).collect()
}

#[test]
fn the_app_shows_every_lane_and_the_times_of_functions() {
    let Some(page) = app() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut profile = Vec::new();
    (ellwand_trace::format("speedscope").unwrap().write)(&common::step(), &mut profile).unwrap();
    // As the program `speedscope` does.
    let script = format!("speedscope.loadFileFromBase64('x', btoa({:?}))", String::from_utf8(profile).unwrap().trim());
    let path = folder.path().join("load.js");
    std::fs::write(&path, script).unwrap();
    let found = texts(&page, &format!("localProfilePath={}&view=sandwich", path.display())).join("|");
    for lanes in ["1|main|1.75µs", "2|main (aggregated)|90.00ns", "3|worker|100.00ns", "4|stream 7|700.00ns"] {
        assert!(found.contains(lanes), "{lanes} is not in {found}");
    }
    // Two steps of 900 and 450 ns hold 700 ns of other spans; "launch" has 50, 100 and 50 ns.
    for functions in ["1.35µs (77%)|650.00ns (37%)|step", "200.00ns (11%)|200.00ns (11%)|launch"] {
        assert!(found.contains(functions), "{functions} is not in {found}");
    }
}
