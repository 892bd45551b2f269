//! `profile`, `view` and reports as a page, as a user calls them.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::Box;
use ellwand::profile::{Kind, LaneKind, NONE, SiteInfo, Span, Trace, TraceLane};

/// `count` requests of two milliseconds, of which `parse` takes `parse_us`; and a device stream.
fn trace(count: u64, parse_us: u64) -> Trace {
    let site = |name: &str, kind| SiteInfo { name: name.into(), kind, file: "src/server.rs".into(), line: 7 };
    let span =
        |site, parent, start: u64, us: u64| Span { start, end: start + us * 1000, site, parent, corr: 0, ext: 0 };
    let mut main = TraceLane { name: "main".into(), ..TraceLane::default() };
    let mut stream = TraceLane {
        name: "stream 7".into(),
        kind: LaneKind::Stream { device: "cuda:0".into() },
        ..TraceLane::default()
    };
    let mut at = 1000;
    for number in 0..count {
        let outer = main.spans.len() as u32;
        // A few per cent of scatter, the same on both sides.
        let wobble = number * 7 % 5;
        let whole = 2000 + parse_us - 500 + wobble;
        main.spans.push(span(1, NONE, at, whole));
        main.spans.push(span(2, outer, at + 10_000, parse_us + wobble));
        stream.spans.push(span(3, NONE, at + 1_000_000, 100));
        at += whole * 1000 + 50_000;
    }
    Trace {
        name: "server".into(),
        end: at,
        sites: vec![site("request", Kind::Cpu), site("parse \"</script>", Kind::Cpu), site("gemm", Kind::Kernel)],
        lanes: vec![main, stream],
        ..Trace::in_nanoseconds()
    }
}

fn here() -> Box {
    let here = Box::default();
    trace(40, 500).save(here.path("a.json")).unwrap();
    trace(40, 800).save(here.path("b.json")).unwrap();
    here
}

#[test]
fn show_prints_operations_breakdown_and_bottlenecks() {
    let here = here();
    let text = here.ok(&["profile", "show", "a.json"]).stdout;
    for words in ["server", "request", "gemm", "unexplained", "bottlenecks", "40"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let json = here.ok(&["profile", "show", "a.json", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["summary"].as_array().unwrap().len(), 3);
    assert!(json["findings"].is_array() && json["breakdown"]["parts"].is_array());
    assert!(here.ok(&["profile", "show", "a.json", "--tree"]).stdout.contains("request"));
}

#[test]
fn show_and_diff_report_what_sampling_skipped() {
    let here = here();
    let mut sampled = trace(40, 500);
    sampled.sampled_out = 360;
    sampled.save(here.path("sampled.json")).unwrap();
    let warning = "360 outermost spans were skipped by sampling";
    let shown = here.ok(&["profile", "show", "sampled.json"]).stdout;
    assert!(shown.contains(warning) && !shown.contains("no span covers"), "{shown}");
    let compared = here.ok(&["profile", "diff", "a.json", "sampled.json", "--fail-on", "never"]).stdout;
    assert!(compared.contains(&format!("candidate: {warning}")), "{compared}");
    here.refused(&["profile", "show", "none.json"], &["cannot be read", "expected the name of an existing file"]);
}

#[test]
fn diff_names_what_became_slower_and_sets_the_exit_code() {
    let here = here();
    let slower = here.run(&["profile", "diff", "a.json", "b.json"]);
    let text = slower.stdout;
    assert_eq!(slower.code, Some(3), "{text}");
    assert!(text.contains("parse") && text.contains("slower"), "{text}");
    assert_eq!(here.run(&["profile", "diff", "a.json", "b.json", "--fail-on", "never"]).code, Some(0));
    let json = here.ok(&["profile", "diff", "b.json", "a.json", "--format", "json"]).stdout;
    assert!(json.contains("\"faster\""), "{json}");
    here.refused(&["profile", "diff", "a.json", "b.json", "--root", "nothing"], &["nothing", "request"]);
}

#[test]
fn exports_are_written_and_replace_no_file_without_overwrite() {
    let here = here();
    for format in ["json", "chrome", "perfetto", "speedscope", "folded", "pprof"] {
        assert!(!here.ok(&["profile", "export", "a.json", "--format", format]).stdout.is_empty(), "{format}");
    }
    here.ok(&["profile", "export", "a.json", "--format", "chrome", "-o", "chrome.json"]);
    assert!(here.ok(&["profile", "show", "chrome.json"]).stdout.contains("request"));
    let again = ["profile", "export", "a.json", "--format", "folded", "-o", "chrome.json"];
    here.refused(&again, &["chrome.json", "exists", "--overwrite"]);
    here.refused(
        &["profile", "export", "a.json", "--format", "folded", "-o", "a.json", "--overwrite"],
        &["is the input"],
    );
    here.ok(&[&again[..], &["--overwrite"]].concat());
}

#[test]
fn view_writes_one_page_without_network_requests() {
    let here = here();
    assert!(here.ok(&["view", "a.json", "--baseline", "b.json", "-o", "page.html"]).stdout.contains("page.html"));
    let page = std::fs::read_to_string(here.path("page.html")).unwrap();
    assert!(page.contains("default-src 'none'") && !page.contains("src=\"http"));
    assert!(!page.contains("parse \"</script>"), "names are data");
    here.refused(&["view", "a.json", "-o", "page.html"], &["exists"]);
}

#[test]
fn a_record_has_a_page_by_either_command() {
    let here = here();
    here.ok(&["run", "null", "--effort", "quick", "--no-ceilings", "--no-plot", "-o", "out"]);
    let page = here.ok(&["report", "out", "--format", "html"]).stdout;
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..80]);
    here.ok(&["view", "out", "-o", "record.html"]);
    assert_eq!(std::fs::read_to_string(here.path("record.html")).unwrap(), page);
    here.refused(&["view", "out", "--baseline", "a.json", "-o", "x.html"], &["FILE is a record", "compare"]);
}

#[test]
fn an_invalid_profile_is_refused_with_the_place_of_the_error() {
    let here = here();
    here.write("text.json", b"hello");
    here.write("cut.json", &std::fs::read(here.path("a.json")).unwrap()[..500]);
    here.refused(&["profile", "show", "text.json"], &["text.json", "FILE"]);
    here.refused(&["profile", "show", "cut.json"], &["cut.json", "line"]);
    here.refused(&["view", "missing.json"], &["missing.json"]);
}
