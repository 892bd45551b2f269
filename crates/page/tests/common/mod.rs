//! Helpers that the tests of the page share.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests, which stop at what they do not expect")]

pub(crate) mod browser;
pub(crate) mod golden;

use std::path::PathBuf;

use browser::Browser;
use ellwand_page::{Document, Extras, profile_page};
use serde_json::{Value, json};

/// A finding whose evidence is an operation and a range.
pub(crate) fn finding() -> Value {
    json!({
        "rule": "sync-bound", "title": "The host waits for the device during 24 % of the recording",
        "evidence": [{"name": "time in synchronize", "value": 480_000.0, "unit": "ns"}, {"name": "share", "value": 0.24, "unit": "share"}],
        "threshold": "20 % of wall time", "confidence": "high", "saving_upper_bound": 0.24,
        "next_experiment": "Submit the next request before waiting for the last one, then compare.",
        "operations": ["synchronize"], "ranges": [[400_000.0, 800_000.0], [900_000.0, 950_000.0]],
    })
}

/// Writes the page of a document to a file in `folder`.
pub(crate) fn write_page(folder: &std::path::Path, name: &str, document: &Value, baseline: Option<&Value>) -> PathBuf {
    let read = |value: &Value| Document::from_json(value.to_string().as_bytes()).unwrap();
    let (document, baseline) = (read(document), baseline.map(read));
    let findings = [finding()];
    let extras = Extras { findings: &findings, baseline: baseline.as_ref(), difference: None };
    let path = folder.join(name);
    profile_page(&document, &extras, &mut std::fs::File::create(&path).unwrap()).unwrap();
    path
}

/// Opens the golden profile's page; `None` without a browser.
pub(crate) fn opened(hash: &str) -> Option<(Browser, tempfile::TempDir)> {
    let mut browser = Browser::start(1280, 900)?;
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), "golden.html", &golden::document(), None);
    browser.open(&page, hash);
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    Some((browser, folder))
}

/// The raw values of the statistics table, by operation number.
pub(crate) fn table(browser: &mut Browser) -> Value {
    browser.eval(
        "Object.fromEntries([...document.querySelectorAll('.statistics tbody tr')].map(tr => [tr.dataset.operation, \
         Object.fromEntries([...tr.querySelectorAll('td')].map(td => [td.dataset.key, td.dataset.value]))]))",
    )
}

pub(crate) fn names(browser: &mut Browser) -> Vec<String> {
    let names = browser.eval("[...document.querySelectorAll('.statistics tbody th button')].map(b => b.textContent)");
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_string()).collect()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

pub(crate) fn clean(browser: &Browser) {
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}
