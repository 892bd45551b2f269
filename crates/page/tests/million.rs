//! A million spans: the size of the page and its times in the browser, which the test prints but does not assert.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use std::fmt::Write;

use common::browser::Browser;
use ellwand_page::{Document, Extras, profile_page};

/// A million spans of 40 operations on 8 threads, four levels deep, with irregular times in ticks of 0.385 ns.
fn million() -> String {
    const LANE: u32 = 125_000;
    let mut state = 7_u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let tick = 0.385_f64;
    let mut columns: [String; 5] = Default::default();
    let [operation, lane, parent, start, duration] = &mut columns;
    let mut wall = 0.0_f64;
    for thread in 0..8_u32 {
        let mut now = u64::from(random(10_000));
        for i in 0..LANE {
            let index = thread * LANE + i;
            // A root, two children, and a grandchild of the second.
            let (level, back) = [(0, 0), (1, 1), (1, 2), (2, 1)][(i % 4) as usize];
            let length = u64::from([24_000, 5_000, 9_000, 4_000][(i % 4) as usize] + random(3_000));
            let comma = if index == 0 { "" } else { "," };
            let number = [random(8), 8 + random(12), 20 + random(12), 32 + random(8)][(i % 4) as usize];
            let _ = write!(operation, "{comma}{number}");
            let _ = write!(lane, "{comma}{thread}");
            let _ = write!(parent, "{comma}{}", if level == 0 { -1 } else { i64::from(index - back) });
            let _ = write!(start, "{comma}{:.3}", now as f64 * tick);
            let _ = write!(duration, "{comma}{:.3}", length as f64 * tick);
            wall = wall.max((now + length) as f64 * tick);
            now += match i % 4 {
                0 => u64::from(300 + random(500)),
                1 => length + u64::from(random(600)),
                2 => u64::from(400 + random(300)),
                _ => 20_000 + u64::from(random(9_000)),
            };
        }
    }
    let operations: Vec<String> = (0..40)
        .map(|i| format!("{{\"name\":\"operation_{i}\",\"kind\":\"{}\"}}", if i % 9 == 8 { "wait" } else { "cpu" }))
        .collect();
    let lanes: Vec<String> = (0..8).map(|i| format!("{{\"name\":\"thread {i}\",\"kind\":\"thread\"}}")).collect();
    format!(
        "{{\"format\":\"ellwand profile\",\"version\":1,\"name\":\"million\",\"wall_ns\":{wall},\"clock\":{{\"kind\":\"tsc\",\"ns_per_tick\":{tick}}},\
         \"operations\":[{}],\"lanes\":[{}],\"entries\":{{\"operation\":[{operation}],\"lane\":[{lane}],\"parent\":[{parent}],\
         \"start_ns\":[{start}],\"duration_ns\":[{duration}]}},\
         \"breakdown\":{{\"wall_ns\":{wall},\"parts\":[{{\"part\":\"cpu\",\"ns\":{wall}}}]}}}}",
        operations.join(","),
        lanes.join(",")
    )
}

const MEASURES: &str = "performance.getEntriesByType('measure').filter(m => m.duration >= 5).map(m => `${m.name} ${Math.round(m.duration)}`).join(', ')";

/// CPU time of the page's thread so far, which other programs on the machine do not lengthen.
fn cpu_ms(browser: &mut Browser) -> f64 {
    let metrics = browser.call("Performance.getMetrics", serde_json::json!({}));
    let all = metrics["metrics"].as_array().unwrap();
    all.iter().find(|metric| metric["name"] == "TaskDuration").unwrap()["value"].as_f64().unwrap() * 1e3
}

#[test]
fn a_million_spans_fit_in_twelve_megabytes_and_are_shown() {
    let json = million();
    println!("JSON: {:.1} MB", json.len() as f64 / 1e6);
    let document = Document::from_json(json.as_bytes()).unwrap();
    assert_eq!(document.spans(), 1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("million.html");
    profile_page(&document, &Extras::default(), &mut std::fs::File::create(&path).unwrap()).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    println!("file: {:.2} MB", size as f64 / 1e6);
    assert!(size <= 12_000_000, "{size}");
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    browser.call("Performance.enable", serde_json::json!({"timeDomain": "threadTicks"}));
    browser.open(&path, "");
    println!("processor time of the page's thread: {:.0} ms", cpu_ms(&mut browser));
    println!("ready after {} ms", browser.text("document.documentElement.dataset.milliseconds"));
    println!("of these: {}", browser.eval(MEASURES));
    assert_eq!(browser.eval("document.querySelectorAll('.statistics tbody tr').length"), 40);
    browser.eval("document.querySelector('.lanes canvas').focus()");
    // Twice: the first one also compiles the code.
    for turn in ["first", "second"] {
        browser.eval("new Promise(done => setTimeout(done, 1500))");
        browser.eval("performance.clearMeasures()");
        let before = cpu_ms(&mut browser);
        browser.key("w");
        browser.eval("new Promise(done => setTimeout(done, 300))");
        let zoomed = cpu_ms(&mut browser);
        browser.key("Enter");
        browser.eval("new Promise(done => setTimeout(done, 900))");
        browser.wait("!document.getElementById('range').hidden");
        let after = cpu_ms(&mut browser);
        println!("{turn}: zoom {:.0} ms, range select {:.0} ms of processor time", zoomed - before, after - zoomed);
        println!("of these: {}", browser.eval(MEASURES));
    }
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}
