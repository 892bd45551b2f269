//! The page of a report in a real browser. The data are what `ellwand report --format json` printed for
//! `results/cpu/records/zen3-2026-11-23/attention.jsonl.gz`; comparisons and views are added here.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use std::io::Read;

use common::browser::Browser;
use ellwand_page::run_page;
use serde_json::{Value, json};

fn report() -> Value {
    let bytes = include_bytes!("data/attention.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    let mut report: Value = serde_json::from_str(&text).unwrap();
    let verdict = |word: &str, ratio: f64, note: &str| {
        json!({"run": 0, "case": format!("attention-core/{word}"), "baseline": "blocked", "candidate": "fused", "verdict": word,
            "note": note, "ratio": ratio, "low": ratio * 0.98, "high": ratio * 1.03, "confidence": 0.95, "rope": 0.01, "blocks": 12,
            "judged_by": "time", "time_s": [0.002, 0.002 * ratio], "what_ran": ["avx2", "avx2"], "elapsed_s": 3.0})
    };
    report["comparisons"] = json!([
        verdict("faster", 0.87, ""),
        verdict("slower", 1.21, "<script>alert(1)</script>"),
        verdict("undecided", 1.0, "too few blocks")
    ]);
    report["views"] = json!([{"kind": "of a later version"}]);
    let component = |case: &str, time_s: f64| {
        let parts = json!([{"workload": "attention-core", "title": "attention", "time_s": time_s, "share": 1.0, "limit": "memory",
            "of_compute": 0.125, "of_bandwidth": 0.625, "recommendation": "look at `run --once`"}]);
        json!({"title": "parts of a layer", "run": 0, "case": case, "implementation": "fused", "device": "cpu", "total_s": time_s, "summary": "bottleneck: attention (100 %)", "parts": parts})
    };
    report["components"] = json!([component("batch 1, sequence 64", 1e-3), component("batch 1, sequence 128", 4e-3)]);
    report["targets"] = json!([{"title": "what is asked for", "workload": "attention-core", "target": "speed-up of at least 2", "limit": 2.0,
        "value": 3.0, "measured": "3.00x", "verdict": "met", "implementation": "fused", "place": "sequence 64"}]);
    let points = |y: f64| json!([{"x": 4.0, "y": y, "label": "q 3"}, {"x": 4.5, "y": y + 3.0, "label": "q 4"}]);
    let ceilings = report["runs"][0]["environment"]["ceilings"].as_array_mut().unwrap();
    for (kind, value) in [("fma-f64", 30e9), ("streamed", 48e6)] {
        let mut ceiling = ceilings[0].clone();
        (ceiling["kind"], ceiling["value"], ceiling["level"]) = (kind.into(), value.into(), "".into());
        ceilings.push(ceiling);
    }
    let roof = |roof: u32, name: &str, y: f64| json!({"name": name, "joined": true, "roof": roof, "points": points(y)});
    report["curves"] = json!([
        {"workload": null, "id": "roofline-one-thread", "title": "roofline, one thread", "x": "required operations per required byte",
            "y": "operations per second", "unit": "FLOP/s", "run": 0, "series": [roof(0, "f32 FMA peak, 59 GFLOP/s", 59e9),
            roof(5, "f64 FMA peak, 30 GFLOP/s", 30e9), {"name": "fused", "joined": false, "roof": null,
            "points": [{"x": 4.0, "y": 21e9, "label": "attention-core, sequence 64", "sign": "≥"}, {"x": 8.0, "y": 29e9, "label": "attention-core, sequence 128"}]}]},
        {"workload": "attention-core", "id": "rate", "title": "error against rate", "x": "rate", "y": "error", "unit": "", "run": 0,
            "series": [{"name": "D4", "joined": false, "roof": null, "points": points(22.0)}, {"name": "limit", "joined": true, "roof": null, "points": points(24.0)}]}]);
    report["readings"] = json!([[{"title": "Readings", "fixed": ["lost 0 %"], "columns": [
        {"head": "sequence", "right": false, "cells": ["64"]}, {"head": "SNR", "right": true, "cells": ["22.6 dB"]}]}]]);
    report
}

fn opened(report: &Value) -> Option<(Browser, tempfile::TempDir)> {
    let mut browser = Browser::start(1280, 900)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    run_page(report, &mut std::fs::File::create(&path).unwrap()).unwrap();
    browser.open(&path, "");
    Some((browser, folder))
}

#[test]
fn every_view_of_a_report_is_drawn() {
    let report = report();
    let Some((mut browser, _folder)) = opened(&report) else { return };
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    let titles = browser.eval("[...document.querySelectorAll('figcaption')].map(f => f.firstChild.textContent)");
    for title in ["Distribution", "Scaling along sequence", "Speed-up", "What it is bound by"] {
        assert!(titles.as_array().unwrap().contains(&json!(title)), "{title} is missing in {titles}");
    }
    let heads = browser.eval("[...document.querySelectorAll('h2')].map(h => h.textContent)");
    for head in ["What is asked for", "Parts of a layer", "Roofline, one thread", "attention-core: error against rate"]
    {
        assert!(heads.as_array().unwrap().contains(&json!(head)), "{head} is missing in {heads}");
    }
    let charts = browser.eval("document.querySelectorAll('.chart').length").as_u64().unwrap();
    assert_eq!(charts, 8);
    for index in 0..charts {
        browser.eval(&format!("document.querySelectorAll('.chart')[{index}].scrollIntoView({{block: 'center'}})"));
        browser.wait(&format!("document.querySelectorAll('.chart')[{index}].dataset.drawn"));
        assert!(
            browser
                .eval(&format!("document.querySelectorAll('.chart')[{index}].querySelectorAll('svg path').length"))
                .as_u64()
                > Some(3)
        );
    }
    let text = browser.text("document.body.textContent");
    for part in [
        "this machine has no self-check yet",
        "Largest speed-up",
        "20.9×",
        "undecided",
        "<script>alert(1)</script>",
        "sequence 128, fused",
        "bottleneck: attention (100 %).",
        "12.5 %",
        "62.5 %",
        "look at run --once",
        "speed-up of at least 2",
        "22.6 dB",
        "Equal in all cases: lost 0 %",
        "f32 FMA peak, 59 GFLOP/s",
        "f64 FMA peak, 30 GFLOP/s",
        "1 thread30.0 GFLOP/s",
        "1 thread45.8 MiB",
    ] {
        assert!(text.contains(part), "{part}");
    }
    for word in ["undefined", "NaN", "[object"] {
        assert!(!browser.text("document.getElementById('app').innerText").contains(word), "{word}");
    }
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

#[test]
fn the_card_of_verdicts_counts_every_verdict() {
    let mut report = report();
    let mut verdicts = report["comparisons"].as_array().unwrap().clone();
    for word in ["slower-beside", "none", "slower-beside"] {
        verdicts.push(verdicts[0].clone());
        verdicts.last_mut().unwrap()["verdict"] = word.into();
    }
    report["comparisons"] = verdicts.into();
    let Some((mut browser, _folder)) = opened(&report) else { return };
    let card = browser.text(
        "[...document.querySelectorAll('#cards .card')].find(c => c.firstChild.textContent === 'Verdicts').textContent",
    );
    assert_eq!(card, "Verdicts61 faster, 1 slower, 1 undecided, 2 slower-beside, 1 without verdict");
}

#[test]
fn a_finding_names_its_other_places_and_shows_commands_as_code() {
    let mut report = report();
    let finding = &mut report["findings"][0];
    finding["cases"] = json!([3, 12]);
    finding["alike"] = json!(["attention-core blocked, sequence 64", "attention-core fused"]);
    finding["next_experiment"] = "count it (`perf stat` with `run --once`)".into();
    let [workload, implementation, place] =
        ["workload", "implementation", "place"].map(|name| finding[name].as_str().unwrap().to_string());
    let Some((mut browser, _folder)) = opened(&report) else { return };
    let lines = browser.eval("[...document.querySelector('.finding').querySelectorAll('p')].map(p => p.textContent)");
    let wanted = json!([
        format!("in 3 rows, most in {workload} · {implementation} · {place} 3 of 12 rows"),
        "also in: attention-core blocked, sequence 64; attention-core fused",
        "Next: count it (perf stat with run --once)"
    ]);
    assert_eq!(json!(lines.as_array().unwrap()[1..]), wanted);
    let code =
        browser.eval("[...document.querySelectorAll('.finding')[0].querySelectorAll('code')].map(c => c.textContent)");
    assert_eq!(code, json!(["perf stat", "run --once"]));
}

#[test]
fn a_finding_of_several_records_names_its_own() {
    let mut report = report();
    let run = report["runs"][0].clone();
    report["runs"].as_array_mut().unwrap().push(run);
    report["findings"][0]["run"] = 1.into();
    let Some((mut browser, _folder)) = opened(&report) else { return };
    let finding = browser.text("document.querySelector('.finding').textContent");
    assert!(finding.contains(" · run 2"), "{finding}");
}

#[test]
fn charts_mark_a_row_that_was_held_up() {
    let mut report = report();
    let rows = report["workloads"][0]["rows"].as_array_mut().unwrap();
    rows[0]["held_up"] = json!({"busy": 0.5, "could_use": 1.0, "least_s": 1e-3});
    let Some((mut browser, _folder)) = opened(&report) else { return };
    for (title, mark) in [("Roofline", '≥'), ("Distribution", '≤'), ("Scaling", '≤')] {
        let chart = format!(
            "[...document.querySelectorAll('figcaption, h2')].find(f => f.firstChild.textContent.startsWith('{title}')).closest('figure, section').querySelector('.chart')"
        );
        browser.eval(&format!("{chart}.scrollIntoView({{block: 'center'}})"));
        browser.wait(&format!("{chart}.dataset.drawn"));
        assert_eq!(browser.text(&format!("{chart}.textContent")).matches(mark).count(), 1, "{title}");
    }
}

#[test]
fn cases_are_named_by_the_axes_that_differ() {
    let mut report = report();
    let case = |size: u32| {
        format!("layer-norm/allocation=reused,batch=8,dimension={size},eps=0.00001,sequence=256,stores=auto")
    };
    for (verdict, size) in report["comparisons"].as_array_mut().unwrap().iter_mut().zip([64, 256, 768]) {
        verdict["case"] = case(size).into();
    }
    let Some((mut browser, _folder)) = opened(&report) else { return };
    let shown =
        browser.eval("[...document.querySelectorAll('#verdicts tbody th')].map(th => [th.textContent, th.title])");
    let wanted = [64, 256, 768].map(|size| json!([format!("layer-norm/dimension={size}"), case(size)]));
    assert_eq!(shown, json!(wanted));
}

#[test]
fn the_table_shows_the_numbers_of_the_report() {
    let report = report();
    let Some((mut browser, _folder)) = opened(&report) else { return };
    browser.eval(
        "(() => { const make = URL.createObjectURL; URL.createObjectURL = blob => { if (blob.type.match('csv|markdown|svg')) blob.text().then(t => window.last = t); return make(blob); }; \
         HTMLAnchorElement.prototype.click = () => {}; document.querySelector('#workload-attention-core [data-export=csv]').click(); })()",
    );
    browser.wait("window.last");
    let csv = browser.text("window.last");
    let rows = report["workloads"][0]["rows"].as_array().unwrap();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    for (row, line) in rows.iter().zip(csv.lines().skip(1)) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[1], row["implementation"].as_str().unwrap());
        assert_eq!(cells[4].parse::<f64>().ok(), row["metrics"]["time"]["median"].as_f64());
        assert_eq!(cells[8].parse::<f64>().ok(), row["speedup"]["ratio"].as_f64());
        for (cell, id) in cells[13..].iter().zip(["throughput", "bandwidth", "compute"]) {
            assert_eq!(cell.parse::<f64>().ok(), row["metrics"][id]["median"].as_f64(), "{id}");
        }
    }
    assert!(
        csv.lines().next().unwrap().ends_with(",throughput_per_s,bandwidth_bytes_per_s,compute_flop_per_s,first_run_s")
    );
    let table = "document.querySelector('#workload-attention-core table.results')";
    let heads = browser.eval(&format!("[...{table}.querySelectorAll('thead th')].map(th => th.textContent)"));
    let heads = &heads.as_array().unwrap()[4..8];
    assert_eq!(heads, ["positions/s", "Bandwidth", "Compute", "First run"].map(|head| json!(head)));
    let first =
        browser.eval(&format!("[...{table}.querySelector('tbody tr:not(.case)').cells].map(td => td.textContent)"));
    assert_eq!(
        first.as_array().unwrap()[4..7],
        [json!("9.52\u{a0}k"), json!("78.0\u{a0}MB/s"), json!("4.99\u{a0}GFLOP/s")]
    );
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

#[test]
fn a_bound_and_what_is_slower_are_shown() {
    let mut report = report();
    report["workloads"][0]["rows"][0]["held_up"] = json!({"busy": 0.5, "could_use": 1.0, "least_s": 1e-3});
    let faster = report["workloads"][0]["rows"].as_array_mut().unwrap();
    let faster = faster.iter_mut().find(|row| row["speedup"]["is_baseline"] == false).unwrap();
    for (name, value) in
        [("ratio", json!(2.0)), ("low", json!(1.875)), ("high", json!(2.125)), ("bound", json!("at-most"))]
    {
        faster["speedup"][name] = value;
    }
    report["comparisons"][1]["beside"] = json!({"statistic": "p90", "ratio": 1.852, "low": 1.214, "high": 2.827});
    let Some((mut browser, _folder)) = opened(&report) else { return };
    let results = browser.text("document.querySelector('#workload-attention-core table.results').textContent");
    assert_eq!(results.matches('≤').count(), 2, "{results}");
    // The lower end holds only while other programs run.
    assert!(results.contains("≤2.12×to 2.12×") && !results.contains("1.88") && !results.contains("2.00×"), "{results}");
    let verdicts = browser.text("document.querySelector('#verdicts table').textContent");
    assert!(verdicts.contains("slower by the p90 of all slots: 1.852 (1.214 to 2.827)"), "{verdicts}");
}

#[test]
fn the_report_of_the_snapshot_with_unsupported_rows_is_drawn() {
    let text = include_str!("../../report/tests/snapshots/formats__json.snap");
    let report: Value = serde_json::from_str(text.splitn(3, "---\n").nth(2).unwrap()).unwrap();
    let Some((mut browser, _folder)) = opened(&report) else { return };
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    let reasons: Vec<String> = report["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["rows"].as_array().unwrap())
        .filter_map(|row| row["status"]["reason"].as_str().map(|reason| reason.chars().take(20).collect()))
        .collect();
    let shown = browser.text("document.querySelector('main').textContent");
    assert!(!reasons.is_empty());
    assert!(reasons.iter().all(|reason| shown.contains(reason.as_str())), "{reasons:?}");
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

/// As with named sizes: each axis has one value for each value of the other.
#[test]
fn axes_that_vary_together_share_a_chart() {
    let mut report = report();
    let section = &mut report["workloads"][0];
    for (axis, values) in [("width", [64, 512]), ("depth", [1, 4])] {
        for row in section["rows"].as_array_mut().unwrap() {
            row["params"][axis] = values[usize::from(row["params"]["sequence"] != 256)].into();
        }
        let texts = values.map(|value| value.to_string());
        let info = json!({"name": axis, "unit": "", "values": texts, "numeric": true});
        section["swept"].as_array_mut().unwrap().push(info);
    }
    let Some((mut browser, _folder)) = opened(&report) else { return };
    let titles = browser.eval("[...document.querySelectorAll('figcaption')].map(f => f.firstChild.textContent).filter(t => t.startsWith('Scaling'))");
    assert_eq!(titles, json!(["Scaling along sequence"]));
    let chart = "[...document.querySelectorAll('#workload-attention-core .chart')].find(c => c.ariaLabel.startsWith('Scaling'))";
    browser.eval(&format!("{chart}.scrollIntoView()"));
    browser.wait(&format!("{chart}.dataset.drawn"));
    assert_eq!(browser.eval(&format!("{chart}.data.map(line => line.x.length)")), json!([2, 2, 2, 2]));
    assert_eq!(browser.text(&format!("{chart}.layout.xaxis.title.text")), "sequence (positions), with width, depth");
    browser.eval(&format!("{HEAT_MAP}.scrollIntoView()"));
    browser.wait(&format!("{HEAT_MAP}.dataset.drawn"));
    let labels = browser.eval(&format!("{HEAT_MAP}.layout.yaxis.ticktext"));
    assert_eq!(labels, json!(["sequence 256", "sequence 1024"]));
    let hovered = browser.text(&format!("{HEAT_MAP}.data[0].hovertext[1][0]"));
    assert!(hovered.starts_with("sequence 1024, width 512, depth 4<br>"), "{hovered}");
    let cases = browser.text("document.querySelector('#workload-attention-core table.results').textContent");
    assert!(cases.contains("sequence 256, width 64, depth 1"), "{cases}");
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

const HEAT_MAP: &str =
    "[...document.querySelectorAll('#workload-attention-core .chart')].find(c => c.ariaLabel === 'Speed-ups')";

#[test]
fn long_names_of_cases_leave_room_for_the_heat_map() {
    let mut report = report();
    let section = &mut report["workloads"][0];
    let name =
        |long: bool| format!("{} words, each of which takes some of the width that cells need", 3 + u8::from(long));
    for row in section["rows"].as_array_mut().unwrap() {
        row["params"]["mask"] = name(row["params"]["sequence"] != 256).into();
    }
    let info = json!({"name": "mask", "unit": "", "values": [name(false), name(true)], "numeric": false});
    section["swept"].as_array_mut().unwrap().insert(0, info);
    let Some((mut browser, _folder)) = opened(&report) else { return };
    browser.eval(&format!("{HEAT_MAP}.scrollIntoView()"));
    browser.wait(&format!("{HEAT_MAP}.dataset.drawn"));
    let share = browser.eval(&format!("{HEAT_MAP}._fullLayout.xaxis._length / {HEAT_MAP}.clientWidth"));
    assert!(share.as_f64() > Some(0.5), "{share}");
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

/// Rows with few samples have no interval; zero would not fit on a logarithmic axis.
#[test]
fn rows_without_an_interval_are_drawn_without_error_bars() {
    let mut report = report();
    let section = &mut report["workloads"][0];
    for row in section["rows"].as_array_mut().unwrap().iter_mut().filter(|row| row["implementation"] == "fused") {
        for one in ["low", "high"] {
            row["metrics"]["time"][one] = Value::Null;
            row["speedup"][one] = Value::Null;
        }
    }
    let Some((mut browser, _folder)) = opened(&report) else { return };
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    let chart = "[...document.querySelectorAll('#workload-attention-core .chart')].find(c => c.ariaLabel.startsWith('Scaling'))";
    browser.eval(&format!("{chart}.scrollIntoView()"));
    browser.wait(&format!("{chart}.dataset.drawn"));
    let bars = browser.eval(&format!(
        "Object.fromEntries({chart}.data.map((line, i) => [line.name, {chart}.querySelectorAll('.trace')[i].querySelectorAll('path.yerror').length]))"
    ));
    assert_eq!(bars["fused"], json!(0), "{bars}");
    assert!(bars["naive"].as_u64() > Some(1), "{bars}");
    let fused = "[...document.querySelectorAll('#workload-attention-core .results tbody tr')].find(r => r.textContent.startsWith('fused'))";
    assert_eq!(browser.text(&format!("{fused}.cells[2].textContent")), "–");
    assert!(!browser.text("document.querySelector('main').textContent").contains("– to –"));
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

#[test]
fn other_json_is_refused() {
    assert!(run_page(&json!([1]), &mut Vec::new()).is_err());
    let Some((mut browser, _folder)) = opened(&json!({"report_version": 1})) else { return };
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "failed");
    assert!(browser.text("document.getElementById('app').textContent").contains("no workloads and runs"));
}

#[test]
fn a_trend_is_drawn_with_its_changes() {
    let point = |n: usize| {
        let value = if n < 6 { 0.5 } else { 0.55 };
        let half = if n < 11 { 0.01 } else { 0.0002 };
        json!({"run": format!("r{n}"), "label": format!("c{n}"), "date": "2026-11-23T00:00:00Z", "seconds": 1e-6, "low": 9e-7, "high": 1.1e-6,
            "ratio": {"value": value, "low": value - half, "high": value + half}})
    };
    let points: Vec<Value> = (0..12).map(point).collect();
    let title = format!("sort:<b>fast{}", "-and-long".repeat(20));
    let trend = json!({"title": title, "machines": 2, "lines": [
        {"name": "sort/n=10,order=random:<b>fast", "case": "sort/n=10,order=random", "implementation": "<b>fast", "place": "cpu", "reference": "plain", "points": points, "changes": [{"point": 6, "before": 0.5, "after": 0.55}], "remarks": ["the last run looks slower"], "unchanged": null},
        {"name": "sort/n=20,order=random:fast", "case": "sort/n=20,order=random", "implementation": "fast", "place": "cpu", "reference": null, "unchanged": "no change points: no run measured plain", "points": points, "changes": []},
    ]});
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trend.html");
    ellwand_page::history_page(&trend, &mut std::fs::File::create(&path).unwrap()).unwrap();
    browser.open(&path, "");
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    assert_eq!(browser.eval("document.querySelectorAll('.chart').length"), json!(2));
    browser.wait("document.querySelectorAll('.chart')[0].dataset.drawn");
    assert_eq!(browser.eval("document.querySelectorAll('.chart')[0].data.length"), json!(2), "points and means");
    let text = browser.text("document.querySelector('main').textContent");
    assert!(text.contains("The last run looks slower"), "{text}");
    assert!(text.contains("+10.0 % at c6") && text.contains("No change points: no run measured plain"), "{text}");
    assert_eq!(browser.eval("document.querySelectorAll('b').length"), json!(0), "names are text");
    let titles = browser.eval("[...document.querySelectorAll('h2')].map(h => h.textContent)");
    assert_eq!(titles, json!(["sort/n=10:<b>fast", "sort/n=20:fast"]));
    assert!(text.contains("sort/n=10,order=random:<b>fast · cpu"), "{text}");
    assert_eq!(browser.text("document.querySelector('h1').textContent"), title, "headings wrap");
    assert!(text.contains("0.540× to 0.560×") && text.contains("0.5498× to 0.5502×"), "{text}");
    browser.size(400, 900);
    // Plotly redraws a moment after the size changes.
    browser.wait("document.documentElement.scrollWidth <= innerWidth");
    let gap = "(() => { const bottom = s => Math.max(...[...document.querySelectorAll('.chart')[0].querySelectorAll(s)].map(e => e.getBoundingClientRect().bottom)); \
               return document.querySelectorAll('.chart')[0].querySelector('.nsewdrag').getBoundingClientRect().top - bottom('.legend'); })()";
    let gap = browser.eval(gap);
    assert!(gap.as_f64() >= Some(0.0), "the legend is above the axes: {gap}");
}
