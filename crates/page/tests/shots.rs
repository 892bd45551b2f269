//! Pictures of the page, for people: `cargo test -p ellwand-page --test shots -- --ignored`; ELLWAND_SHOTS names the
//! folder.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use std::path::PathBuf;

use common::browser::Browser;
use common::{golden, write_page};

/// Scrolls through the page, because charts are drawn when they come into view.
const SCROLL: &str = "new Promise(done => { let y = 0; const step = () => { scrollTo(0, y); y += 500; if (y < document.body.scrollHeight) setTimeout(step, 60); else { scrollTo(0, 0); setTimeout(done, 700); } }; setTimeout(step, 200); })";

#[test]
#[ignore = "writes pictures for a person to look at"]
fn pictures_of_every_width_and_theme() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let folder = std::env::var_os("ELLWAND_SHOTS").map_or_else(std::env::temp_dir, PathBuf::from);
    // `ellwand profile export golden.json --format json` computes the members of tests/data/golden.json from this file.
    std::fs::write(folder.join("golden.json"), golden::document().to_string()).unwrap();
    let page = write_page(&folder, "golden.html", &golden::document(), None);
    let wanted = std::env::var("ELLWAND_SHOTS_OF").unwrap_or_default();
    for (width, theme) in [(1280, "light"), (1280, "dark"), (800, "light"), (800, "dark")] {
        if wanted == "report" {
            break;
        }
        browser.size(width, 900);
        browser.theme(theme);
        browser.open(&page, "");
        browser.eval(SCROLL);
        browser.screenshot(&folder.join(format!("golden-{width}-{theme}.png")));
    }
    if let Some(report) = std::env::var_os("ELLWAND_REPORT") {
        let json = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
        let page = folder.join("report.html");
        ellwand_page::run_page(&json, &mut std::fs::File::create(&page).unwrap()).unwrap();
        for (width, theme) in [(1280, "light"), (800, "dark")] {
            browser.size(width, 900);
            browser.theme(theme);
            browser.open(&page, "");
            browser.eval(SCROLL);
            browser.screenshot(&folder.join(format!("report-{width}-{theme}.png")));
        }
    }
    println!("pictures in {}", folder.display());
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}
