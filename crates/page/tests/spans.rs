//! The page of a record of `run --spans` in a real browser: the tables of `ellwand report`, in a frame that scrolls.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use common::browser::Browser;
use common::clean;
use ellwand_page::run_page;
use serde_json::{Value, json};

fn row(path: &[&str], time_s: f64, share: f64) -> Value {
    json!({"path": path, "at": "workloads/attention/src/job.rs:203", "calling": true, "threads": 1, "calls": 1.0, "time_s": time_s,
        "time_median_s": time_s, "share": share, "self_s": time_s, "self_share": share, "call_min_s": time_s, "call_median_s": time_s,
        "call_p99_s": null, "call_max_s": time_s, "bandwidth": null, "flop_rate": null, "item_rate": null})
}

fn table(place: &str) -> Value {
    json!({"run": 0, "workload": "attention-core", "case": format!("attention-core/{place}"), "place": place, "fixed": "batch 1 · heads 8",
        "params": {}, "implementation": "naive", "device": "cpu", "what_ran": "scalar", "status": {"word": "measured", "reason": null},
        "iterations": 6, "left_out": [2], "iteration_s": 0.009_39, "iteration_all_s": 0.011, "iteration_median_s": 0.0095,
        "rows": [row(&["scores"], 0.006_66, 0.7097), row(&["scores", "softmax_of_every_head_of_the_layer"], 0.0012, 0.128)],
        "outside_s": 5.21e-6, "outside_share": 0.000_55, "spans_per_iteration": 2.0, "span_cost_s": 28.2e-9, "span_off_cost_s": 0.4e-9,
        "overhead_share": 1e-5, "dropped": 0, "open": 0, "trace": null, "notes": ["a note on outliers"]})
}

/// The table as text, as the report makes it.
fn text() -> Value {
    let column = |head: &str, right: bool, cells: [&str; 3]| json!({"head": head, "right": right, "cells": cells});
    json!({"terms": "5 of 6 iterations with spans on, 9.39 ms each", "columns": [
        column("component", false, ["scores", "  softmax_of_every_head_of_the_layer", "(in no span)"]),
        column("calls", true, ["1", "1", ""]), column("time", true, ["6.66 ms", "1.20 ms", "5.21 µs"]),
        column("share", true, ["71.0 %", "12.8 %", "0.06 %"]), column("self", true, ["6.66 ms", "1.20 ms", "5.21 µs"]),
        column("median call", true, ["6.66 ms", "1.20 ms", ""])]})
}

#[test]
fn components_have_the_columns_of_the_terminal_and_a_frame_that_scrolls() {
    let run = json!({"id": "r", "started": "2026-11-25", "command": "ellwand run --spans", "environment": {"cpu": "cpu"}, "trust": "", "warnings": []});
    let finding = json!({"title": "a limit", "class": "limit", "rule": "compute", "confidence": "high", "threshold": "the limit that takes most of the time",
        "evidence": [{"name": "share of the time that the limit of the processor explains in the core", "value": 0.93, "unit": "1"}]});
    let report = json!({"report_version": 1, "runs": [run], "workloads": [], "spans": [table("sequence 64"), table("sequence 256")],
        "span_tables": [text(), text()], "findings": [finding], "warnings": [], "limits": []});
    let Some(mut browser) = Browser::start(500, 900) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    run_page(&report, &mut std::fs::File::create(&path).unwrap()).unwrap();
    browser.open(&path, "");
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    let lines = browser.eval(
        "[...document.querySelectorAll('#spans-0 tr')].map(r => [...r.cells].map(c => c.textContent.replaceAll('\\u00a0', ' ')).join('|'))",
    );
    let wanted = json!([
        "component|calls|time|share|self|median call",
        "scores|1|6.66 ms|71.0 %|6.66 ms|6.66 ms",
        "softmax_of_every_head_of_the_layer|1|1.20 ms|12.8 %|1.20 ms|1.20 ms",
        "(in no span)||5.21 µs|0.06 %|5.21 µs|",
    ]);
    assert_eq!(lines, wanted);
    let indent =
        "[...document.querySelectorAll('#spans-0 tbody th')].map(c => parseFloat(getComputedStyle(c).paddingLeft))";
    assert_eq!(browser.eval(indent), json!([8, 24, 8]));
    let links = browser.eval("[...document.querySelectorAll('nav a')].map(a => a.textContent)");
    for place in ["sequence 64", "sequence 256"] {
        assert!(
            links.as_array().unwrap().contains(&json!(format!("Inside naive · attention-core · {place}"))),
            "{links}"
        );
    }
    let shown = browser.text("document.querySelector('#app').innerText");
    for part in ["5 of 6 iterations with spans on, 9.39 ms each", "scalar · batch 1 · heads 8", "a note on outliers"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for word in ["Comparison", "0 workloads", "0 of 0", "undefined", "NaN"] {
        assert!(!shown.contains(word), "{word}: {shown}");
    }
    assert_eq!(browser.text("document.querySelector('h1').textContent"), "attention-core");
    // The names stay on one line, and the page is as wide as the window.
    assert!(browser.rect("#spans-0 tbody tr").3 < 40.0);
    assert!(browser.eval("document.querySelector('#spans-0 .scroll').scrollWidth > document.querySelector('#spans-0 .scroll').clientWidth").as_bool().unwrap());
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), json!(500));
    assert!(browser.rect(".findings dd:last-of-type").2 > 200.0, "the threshold has room");
    clean(&browser);
}
