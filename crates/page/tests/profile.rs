//! The page of a profile in a real browser: every view, with mouse and keys, on a golden profile.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use common::browser::Browser;
use common::{clean, golden, names, number, opened, table, write_page};
use ellwand_page::{Document, Extras, profile_page};
use serde_json::{Value, json};

#[test]
fn over_the_whole_recording_the_page_computes_the_numbers_of_the_file() {
    let Some((mut browser, _folder)) = opened("") else { return };
    let (shown, computed) = (table(&mut browser), golden::computed());
    let document = golden::document();
    let rows = computed["summary"].as_array().unwrap();
    assert_eq!(shown.as_object().unwrap().len(), rows.len());
    let mut compared = 0;
    for (operation, cells) in shown.as_object().unwrap() {
        let name = &document["operations"][operation.parse::<usize>().unwrap()]["name"];
        let row = rows.iter().find(|row| row["operation"] == *name).unwrap();
        for (key, cell) in cells.as_object().unwrap() {
            let member = match key.as_str() {
                "share" => "share_of_wall".to_string(),
                "total" | "self" | "mean" | "min" | "p50" | "p90" | "p99" | "max" | "std" | "device" | "transfer"
                | "overhead" => {
                    format!("{key}_ns")
                }
                key => key.to_string(),
            };
            let (got, wanted) = (number(cell), row[&member].as_f64());
            let same = wanted.map_or(got.is_nan(), |wanted| (got - wanted).abs() <= wanted.abs() * 1e-6 + 1e-3);
            assert!(same, "{name} {key}: {got}, the file has {wanted:?}");
            compared += 1;
        }
    }
    assert!(compared >= 14 * 15, "{compared}");
    clean(&browser);
}

#[test]
fn aggregated_spans_count_in_every_column() {
    let Some((mut browser, folder)) = opened("") else { return };
    let mut document = golden::document();
    let used = json!({"cpu_ns": 300_000, "bytes": 4_096, "flops": 709.0, "allocations": 40, "allocated_bytes": 640, "peak_bytes": 16});
    document["totals"][0]["sums"] = used;
    document["lanes"][1]["dropped"] = json!(121 + 7);
    document["losses"]["spans"] = json!(121 + 7);
    browser.open(&write_page(folder.path(), "totals.html", &document, None), "");
    let encode = &table(&mut browser)["2"];
    let (total, bytes) = (985_000.0, 4_096.0 * 22.0);
    let wanted = [("cpu_ns", 300_000.0), ("waiting_ns", 100_000.0), ("allocations", 40.0), ("allocated_bytes", 640.0)];
    let rates = [("gb_per_s", bytes / total), ("gflop_per_s", (6.0 * 2_048.5 + 709.0) / total)];
    for (key, wanted) in wanted.into_iter().chain([("peak_bytes", 16.0)]).chain(rates) {
        assert!((number(&encode[key]) - wanted).abs() < 1e-6, "{key}: {encode}");
    }
    // 121 of the lost spans are in totals.
    let losses = browser.text("document.getElementById('losses').textContent");
    assert!(losses.contains("7 spans were lost") && losses.contains("121 spans are only in the totals"), "{losses}");
    assert!(browser.text("document.getElementById('drawn').textContent").ends_with("so their places are unknown."));
    // A newer file gives the number, which may be 0 if a thread aggregated by its mode.
    document["lanes"][1]["aggregated"] = json!(0);
    browser.open(&write_page(folder.path(), "lost.html", &document, None), "");
    let losses = browser.text("document.getElementById('losses').textContent");
    assert!(losses.contains("128 spans were lost") && !losses.contains("only in the totals"), "{losses}");
    clean(&browser);
}

#[test]
fn lanes_of_tasks_are_no_threads() {
    let Some((mut browser, folder)) = opened("") else { return };
    let shown = "document.querySelector('[data-card=lanes] .value').textContent";
    let threads = browser.text(shown);
    let mut document = golden::document();
    let push = |list: &mut Value, value: Value| list.as_array_mut().unwrap().push(value);
    let operation = document["operations"].as_array().unwrap().len();
    let lane = document["lanes"].as_array().unwrap().len();
    push(&mut document["operations"], json!({"name": "request", "kind": "in-flight"}));
    push(&mut document["lanes"], json!({"name": "tasks: net", "kind": "thread"}));
    for (column, values) in document["entries"].as_object_mut().unwrap() {
        let value = match column.as_str() {
            "operation" => json!(operation),
            "lane" => json!(lane),
            "parent" | "detail" => json!(-1),
            "link" => json!(0),
            _ => json!(1_000.0),
        };
        push(values, value);
    }
    browser.open(&write_page(folder.path(), "tasks.html", &document, None), "");
    assert!(!table(&mut browser)[operation.to_string()].is_null(), "the request has a row");
    assert_eq!(browser.text(shown), threads);
    clean(&browser);
}

/// A profile on one lane, with these additional members.
fn small(more: Value) -> Value {
    let mut document = json!({"format": "ellwand profile", "version": 1, "wall_ns": 1_000, "lanes": [{"name": "main", "kind": "thread"}],
        "operations": [{"name": "a", "kind": "cpu"}, {"name": "b", "kind": "cpu", "span_ns": 30, "empty_ns": 12}, {"name": "c", "kind": "cpu"}],
        "cost": {"span_ns": 20, "empty_ns": 8}});
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

#[test]
fn self_times_and_costs_follow_the_definitions_of_the_format() {
    let Some((mut browser, folder)) = opened("") else { return };
    // `b` outlives `a`; `c` calls itself.
    let outlived = json!({"entries": {"operation": [0, 1, 2, 2], "lane": [0, 0, 0, 0], "parent": [-1, 0, -1, 2],
        "start_ns": [0, 50, 300, 400], "duration_ns": [100, 150, 300, 100]}});
    browser.open(&write_page(folder.path(), "outlived.html", &small(outlived), None), "");
    let rows = table(&mut browser);
    let known = |op: &str, key: &str| number(&rows[op][key]);
    assert_eq!([known("0", "self"), known("1", "self"), known("2", "self")], [50.0, 150.0, 300.0], "{rows}");
    assert_eq!([known("0", "overhead"), known("1", "overhead"), known("2", "overhead")], [38.0, 12.0, 28.0], "{rows}");
    // Spans aggregated inside the open `a` subtract nothing from the `a` that ended.
    let open = json!({"entries": {"operation": [0, 0], "lane": [0, 0], "parent": [-1, -1], "start_ns": [0, 100], "duration_ns": [50, null]},
        "totals": [{"lane": 0, "parent": -1, "operation": 0, "count": 0, "total_ns": 0, "self_ns": -400, "min_ns": 0, "max_ns": 0},
            {"lane": 0, "parent": 0, "operation": 1, "count": 4, "total_ns": 400, "self_ns": 400, "min_ns": 100, "max_ns": 100,
                "square_ns2": 4e4, "histogram": [[6, 4]]}]});
    browser.open(&write_page(folder.path(), "open.html", &small(open), None), "");
    let rows = table(&mut browser);
    assert_eq!([number(&rows["0"]["self"]), number(&rows["1"]["self"])], [50.0, 400.0], "{rows}");
    clean(&browser);
}

#[test]
fn estimated_unknown_and_impossible_values_are_marked() {
    let Some((mut browser, folder)) = opened("") else { return };
    // Percentiles of aggregated calls; rates although a call lost its details; an impossible device operation; an open
    // span of 3 ns without CPU time.
    let document = json!({
        "lanes": [{"name": "main", "kind": "thread"}, {"name": "s", "kind": "stream", "device": "cuda:0", "dropped": 1}],
        "losses": {"spans": 1, "details": 1},
        "entries": {"operation": [0, 0, 2], "lane": [0, 0, 0], "parent": [-1, -1, -1], "start_ns": [0, 400, 997],
            "duration_ns": [400, 400, null], "detail": [0, 1, -1]},
        "details": [{"cpu_ns": 400, "bytes": 800}, {"cpu_ns": 400}],
        "totals": [{"lane": 0, "parent": -1, "operation": 1, "count": 4, "total_ns": 40, "self_ns": 40, "min_ns": 10, "max_ns": 10,
            "square_ns2": 400, "histogram": [[3, 4]], "sums": {"items": 8, "cpu_ns": 40}}]});
    browser.open(&write_page(folder.path(), "said.html", &small(document.clone()), None), "");
    let rows = table(&mut browser);
    assert!(number(&rows["0"]["gb_per_s"]).is_nan() && number(&rows["1"]["items_per_s"]) == 2e8, "{rows}");
    let mut cell = |op: u32, key: &str| {
        browser.text(&format!("document.querySelector('[data-operation=\"{op}\"] [data-key={key}]').textContent"))
    };
    assert_eq!(
        [cell(0, "p50"), cell(1, "p50"), cell(1, "mean")].map(|text| text.replace('\u{a0}', " ")),
        ["400 ns", "~10.0 ns", "10.0 ns"]
    );
    let title = browser.text("document.querySelector('[data-operation=\"1\"] [data-key=p90]').title");
    assert!(title.starts_with("An estimate"), "{title}");
    let losses = browser.text("document.getElementById('losses').textContent");
    assert!(losses.contains("1 device operation was left out, because it ended before it began"), "{losses}");
    assert!(!losses.contains("buffer"), "{losses}");
    let host = browser.text("document.querySelector('[data-card=host]').textContent");
    assert!(!host.contains("not measured"), "{host}");
    let without_findings = Document::from_json(small(document).to_string().as_bytes()).unwrap();
    let page = folder.path().join("quiet.html");
    profile_page(&without_findings, &Extras::default(), &mut std::fs::File::create(&page).unwrap()).unwrap();
    browser.open(&page, "");
    let findings = browser.text("document.getElementById('findings').textContent");
    assert!(findings.contains("do not see the 4 calls"), "{findings}");
    clean(&browser);
}

#[test]
fn a_ring_recording_is_marked_in_the_page() {
    let Some((mut browser, folder)) = opened("") else { return };
    let mut document = golden::document();
    for (last, hidden) in [(4, false), (4_000, true)] {
        document["environment"]["last spans of a thread"] = json!(last);
        browser.open(&write_page(folder.path(), "ring.html", &document, None), "");
        let losses = browser.text("document.getElementById('losses').textContent");
        assert_eq!(!losses.contains(&format!("only the last {last} spans of each thread")), hidden, "{losses}");
    }
    clean(&browser);
}

#[test]
fn a_call_that_the_range_cuts_counts_with_its_share() {
    // Half of the first `parse`.
    let Some((mut browser, _folder)) = opened("#range=141000-156000") else { return };
    let parse = &table(&mut browser)["1"];
    let wanted = [("calls", 1.0), ("total", 15_000.0), ("cpu_ns", 14_500.0), ("waiting_ns", 500.0)];
    for (key, wanted) in wanted.into_iter().chain([("allocations", 6.0), ("peak_bytes", 36_864.0)]) {
        assert!((number(&parse[key]) - wanted).abs() < 1e-6, "{key}: {parse}");
    }
    assert!(browser.text("document.getElementById('cut').textContent").contains("in proportion to its duration"));
    clean(&browser);
}

#[test]
fn the_parts_of_the_wall_time_are_those_of_the_file() {
    let Some((mut browser, folder)) = opened("") else { return };
    let parts = browser.eval(
        "Object.fromEntries([...document.querySelectorAll('.legend li')].map(li => [li.dataset.part, Number(li.dataset.value)]))",
    );
    let all: f64 = parts.as_object().unwrap().values().filter_map(Value::as_f64).sum();
    assert!((all - golden::WALL).abs() < 1e-3, "{parts}");
    let computed = golden::computed();
    let wanted = computed["breakdown"]["parts"].as_array().unwrap();
    assert_eq!(parts.as_object().unwrap().len(), wanted.len(), "{parts}");
    for part in wanted {
        let (name, ns) = (part["part"].as_str().unwrap(), part["ns"].as_f64().unwrap());
        // The file counts in whole ticks, of 0.5 ns here; a step rounds down to one.
        assert!((parts[name].as_f64().unwrap() - ns).abs() <= 50.0, "{name}: {}, the file has {ns}", parts[name]);
    }
    let peak = computed["memory"]["peak_at_ns"].as_f64().unwrap() / 1e6;
    assert!(browser.text("document.querySelector('.peak').textContent").contains(&format!("at {peak:.3} ms")));
    // Calls in flight occupy no thread.
    let mut tasks = golden::document();
    tasks["operations"].as_array_mut().unwrap().iter_mut().for_each(|one| one["kind"] = "in-flight".into());
    browser.open(&write_page(folder.path(), "tasks.html", &tasks, None), "");
    let parts = browser.eval("[...document.querySelectorAll('.legend li')].map(li => li.dataset.part)");
    assert_eq!(parts, json!(["instrumentation", "unexplained"]));
    clean(&browser);
}

#[test]
fn every_view_is_drawn_without_a_complaint_or_a_request() {
    let Some((mut browser, _folder)) = opened("") else { return };
    let pixels = |selector: &str| {
        format!(
            "(() => {{ const c = document.querySelector('{selector}'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
             const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return seen.size; }})()"
        )
    };
    for canvas in [".lanes canvas", ".minimap", "#flame canvas"] {
        // Views out of sight wait.
        browser.middle(canvas);
        browser.wait(&format!("document.querySelector('{canvas}').width > 400"));
        browser.middle(canvas);
        assert!(browser.eval(&pixels(canvas)).as_u64().unwrap() > 4, "{canvas} is blank");
    }
    for chart in [
        "#time figure:nth-child(1) .chart",
        "#time figure:nth-child(2) .chart",
        "#time figure:nth-child(3) .chart",
        "#histogram .chart",
        "#memory .chart",
    ] {
        browser.middle(chart);
        browser.wait(&format!("document.querySelector('{chart}').dataset.drawn"));
        assert!(browser.eval(&format!("document.querySelectorAll('{chart} svg path').length")).as_u64().unwrap() > 3);
    }
    assert!(browser.text("document.getElementById('losses').textContent").starts_with("17 spans were lost"));
    assert!(browser.text("document.querySelector('.peak').textContent").contains("Open at that moment"));
    assert_eq!(browser.eval("document.querySelectorAll('#cards .card').length"), json!(8));
    clean(&browser);
}

#[test]
fn names_with_markup_quotes_and_control_characters_are_text() {
    let Some((mut browser, _folder)) = opened("") else { return };
    assert!(names(&mut browser).contains(&"</script><b>\"quotes\" & 'more'\\n\\x01".to_string()));
    assert_eq!(
        browser.eval("document.querySelectorAll('b').length"),
        browser.eval("document.querySelectorAll('.legend b, .pairs b').length")
    );
    assert!(browser.text("document.title").contains("</title><script>alert(1)"));
    assert!(browser.text("document.querySelector('h1').textContent").contains("<script>"));
    let policy = browser.text("document.querySelector('meta[http-equiv]').content");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    clean(&browser);
}

#[test]
fn a_drag_on_the_axis_selects_a_range_and_the_table_follows() {
    let Some((mut browser, _folder)) = opened("") else { return };
    let before = table(&mut browser);
    let (left, top, width, _) = browser.rect(".lanes canvas");
    let x = |share: f64| left + 132.0 + (width - 132.0) * share;
    browser.drag(&[(x(0.25), top + 10.0), (x(0.3), top + 10.0), (x(0.5), top + 10.0)], false);
    browser.wait("!document.getElementById('range').hidden");
    let after = table(&mut browser);
    assert_ne!(before, after);
    // Half of the recording minus a quarter: calls that overlap [0.5 ms, 1.0 ms], by the definition.
    let (spans, _) = golden::spans();
    let range = browser.eval("new Promise(done => setTimeout(() => done(location.hash), 500))");
    let edges: Vec<f64> = range.as_str().unwrap().split(['=', '-', '&']).filter_map(|part| part.parse().ok()).collect();
    let (from, to) = (edges[0], edges[1]);
    assert!((from - 500_000.0).abs() < 4_000.0 && (to - 1_000_000.0).abs() < 4_000.0, "{range}");
    let overlap = |span: &&golden::Span| span.duration.is_some_and(|ns| span.start < to && span.start + ns > from);
    let part = |span: &golden::Span| (span.start + span.duration.unwrap_or(0.0)).min(to) - span.start.max(from);
    for operation in [2_usize, 4, 8] {
        let mine: Vec<&golden::Span> =
            spans.iter().filter(|span| span.operation == operation).filter(overlap).collect();
        let cells = &after[operation.to_string()];
        assert_eq!(number(&cells["calls"]), mine.len() as f64);
        let total: f64 = mine.iter().map(|span| part(span)).sum();
        // The address holds whole nanoseconds.
        assert!((number(&cells["total"]) - total).abs() <= 8.0, "{operation}: {} and {total}", cells["total"]);
    }
    browser.click("#clear-range");
    browser.wait("document.getElementById('range').hidden");
    assert_eq!(table(&mut browser), before);
    clean(&browser);
}

#[test]
fn keys_zoom_pan_select_and_clear() {
    let Some((mut browser, _folder)) = opened("") else { return };
    browser.eval("document.querySelector('.lanes canvas').focus()");
    for key in ["w", "w", "d", "Enter"] {
        browser.key(key);
        browser.eval("new Promise(done => setTimeout(done, 120))");
    }
    browser.wait("!document.getElementById('range').hidden");
    let shown = browser.text("document.getElementById('range').textContent");
    assert!(shown.contains("49.0 %") && shown.starts_with("980 µs"), "{shown}");
    browser.key("Escape");
    browser.wait("document.getElementById('range').hidden");
    browser.key("n");
    browser.wait("!document.getElementById('span').hidden");
    assert!(browser.text("document.querySelector('#span h3').textContent").contains("build kernels"));
    browser.key("/");
    browser.wait("document.activeElement.id === 'filter'");
    clean(&browser);
}

#[test]
fn a_click_on_a_span_shows_what_it_carries_and_caused() {
    let Some((mut browser, _folder)) = opened("") else { return };
    let (left, top, width, _) = browser.rect(".lanes canvas");
    let x = |ns: f64| left + 132.0 + (width - 132.0) * ns / golden::WALL;
    // The first request's parse: on the second row of the first lane.
    browser.drag(&[(x(156_000.0), top + 26.0 + 6.0 + 17.0 + 8.0)], false);
    browser.wait("!document.getElementById('span').hidden");
    let text = browser.text("document.getElementById('span').textContent");
    for part in ["parse", "30.00 µs", "request", "29.0 µs", "40.0 KiB"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert_eq!(browser.eval("document.querySelectorAll('.statistics tr[aria-selected=\"true\"]').length"), json!(1));
    // The launch on the same row caused a kernel on the stream.
    browser.drag(&[(x(238_000.0), top + 26.0 + 6.0 + 17.0 + 8.0)], false);
    browser.wait("document.querySelector('#span h3').textContent === 'launch kernel'");
    let text = browser.text("document.getElementById('span').textContent");
    assert!(text.contains("Caused gemm_kernel on stream 7"), "{text}");
    clean(&browser);
}

#[test]
fn the_table_sorts_and_filters() {
    let Some((mut browser, _folder)) = opened("") else { return };
    browser.click("[data-sort=\"name\"]");
    browser.wait("document.querySelector('th[aria-sort=\"ascending\"]')");
    let sorted = names(&mut browser);
    let mut expected = sorted.clone();
    expected.sort();
    assert_eq!(sorted, expected);
    browser.click("[data-sort=\"calls\"]");
    browser.wait("document.querySelector('th[aria-sort=\"descending\"] [data-sort=calls]')");
    let shown =
        browser.eval("[...document.querySelectorAll('td[data-key=\"calls\"]')].map(td => Number(td.dataset.value))");
    let calls: Vec<f64> = shown.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(calls.len() > 5 && calls.is_sorted_by(|a, b| a >= b), "{calls:?}");
    browser.click("#filter");
    browser.type_text("^(copy|par)");
    browser.wait("document.querySelectorAll('.statistics tbody tr').length === 3");
    let mut found = names(&mut browser);
    found.sort();
    assert_eq!(found, ["copy in", "copy out", "parse"]);
    browser.eval("(() => { const f = document.getElementById('filter'); f.value = '('; f.dispatchEvent(new Event('input')); })()");
    browser.wait("document.getElementById('filter').getAttribute('aria-invalid') === 'true'");
    browser.wait("document.querySelector('#statistics .empty')");
    clean(&browser);
}

#[test]
fn flame_graphs_of_every_kind_answer_clicks() {
    let Some((mut browser, folder)) = opened("") else { return };
    for kind in ["order", "sandwich", "left"] {
        browser.click(&format!("#flame [data-value=\"{kind}\"]"));
        browser.wait(&format!(
            "document.querySelector('#flame [data-value=\"{kind}\"]').getAttribute('aria-pressed') === 'true'"
        ));
    }
    let (left, top, width, height) = browser.rect("#flame canvas");
    assert!(width > 600.0 && height > 60.0, "{width} {height}");
    browser.drag(&[(left + 40.0, top + 30.0)], false);
    browser.wait("document.querySelector('.statistics tr[aria-selected=\"true\"]')");
    assert!(
        browser
            .text("document.querySelector('.statistics tr[aria-selected=\"true\"] button').textContent")
            .contains("request")
    );
    browser.click("#flame [data-value=\"sandwich\"]");
    browser.wait("!document.querySelector('#flame canvas').hidden");
    // A second profile adds the difference.
    let mut slower = golden::document();
    slower["name"] = json!("before");
    for ns in slower["entries"]["duration_ns"].as_array_mut().unwrap() {
        *ns = ns.as_f64().map_or(Value::Null, |ns| json!(ns * 0.9));
    }
    let file = folder.path().join("before.json");
    std::fs::write(&file, slower.to_string()).unwrap();
    browser.pick("#second", &file);
    browser.wait("document.querySelector('#flame [data-value=\"difference\"]')");
    browser.click("#flame [data-value=\"difference\"]");
    browser.wait("document.querySelector('#flame .note').textContent.includes('smaller share')");
    browser.click("#flame [data-value=\"absolute\"]");
    browser.wait("document.querySelector('#flame .note').textContent.includes('faster')");
    assert!(browser.text("document.getElementById('durations').textContent").contains('A'));
    clean(&browser);
}

#[test]
fn the_difference_from_the_baseline_is_a_table_until_another_one_is_opened() {
    let Some((mut browser, folder)) = opened("") else { return };
    let link = "document.querySelector('nav a[href=\"#difference\"]')";
    assert_eq!(browser.eval(&format!("document.getElementById('difference').hidden && {link}.hidden")), json!(true));
    let node = |path: &[&str], a: Option<f64>, ratio: Option<f64>, verdict: &str| {
        json!({"path": path, "baseline_ns": a, "candidate_ns": 3_000.0, "baseline_calls": 1.0, "candidate_calls": 1.0,
            "ratio": ratio.map(|ratio| json!({"ratio": ratio, "low": 0.65601, "high": 1.2454, "p": 0.0})),
            "contribution_ns": 1_000.0, "verdict": verdict})
    };
    let difference = json!({"root": "step", "baseline": {"name": "a", "repetitions": 20, "mean_ns": 2_000.0},
        "candidate": {"name": "b", "repetitions": 30, "mean_ns": 3_000.0}, "change_ns": 1_000.0, "verdict": "slower",
        "ratio": null, "notes": ["a note"],
        "nodes": [node(&["step", "solve"], Some(2_000.0), Some(0.90364), "faster"), node(&["step", "check"], None, None, "undecided")]});
    let document = Document::from_json(golden::document().to_string().as_bytes()).unwrap();
    let extras = Extras { findings: &[], baseline: Some(&document), difference: Some(&difference) };
    let page = folder.path().join("difference.html");
    profile_page(&document, &extras, &mut std::fs::File::create(&page).unwrap()).unwrap();
    browser.open(&page, "");
    let rows = browser.eval(
        "[...document.querySelectorAll('#difference tbody tr')].map(tr => [...tr.children].map(cell => cell.textContent.replace('\\u00a0', ' ')))",
    );
    let wanted = json!([
        ["step › solve", "2.00 µs", "3.00 µs", "+1.00 µs", "0.904×", "0.656 to 1.245", "faster"],
        ["step › check", "–", "3.00 µs", "+1.00 µs", "–", "–", "new"]
    ]);
    assert_eq!(rows, wanted);
    let text = browser.text("document.getElementById('difference').textContent");
    assert!(
        text.contains("step, 20 and 30 repetitions: 2.00 µs in A, 3.00 µs in B, slower.") && text.contains("a note")
    );
    let other = folder.path().join("other.json");
    std::fs::write(&other, golden::document().to_string()).unwrap();
    browser.pick("#second", &other);
    browser.wait(&format!("document.getElementById('difference').hidden && {link}.hidden"));
    clean(&browser);
}

#[test]
fn on_a_narrow_screen_names_break_between_their_parts_and_titles_are_whole() {
    let Some(mut browser) = Browser::start(420, 900) else { return };
    let mut document = golden::document();
    document["operations"][0]["name"] = json!("loader::read_and_decode_batch_of_images");
    document["tracks"][0]["name"] = json!("resident memory");
    let half = document["wall_ns"].as_f64().unwrap() / 2.0;
    let parts = json!([{"part": "cpu", "ns": half}, {"part": "wait", "ns": half}]);
    document["breakdown"] = json!({"wall_ns": 2.0 * half, "cpu_is_least": true, "parts": parts});
    let folder = tempfile::tempdir().unwrap();
    browser.open(&write_page(folder.path(), "narrow.html", &document, None), "");
    let lines = browser.text(
        "(() => { const one = [...document.querySelectorAll('.statistics tbody .name button')].find(one => one.textContent.includes('decode'));
        const range = document.createRange(), lines = []; let top = -1;
        for (const node of one.childNodes) for (let i = 0; i < (node.data ?? '').length; i++) {
            range.setStart(node, i); range.setEnd(node, i + 1);
            const rect = range.getBoundingClientRect();
            if (rect.top > top + 2) { lines.push(''); top = rect.top; }
            lines[lines.length - 1] += node.data[i];
        } return lines.join(' '); })()",
    );
    assert!(lines.contains(' ') && lines.split(' ').all(|line| line.ends_with(['_', ':', 's'])), "{lines}");
    let title = browser.text("document.querySelector('[data-card=peak] h3').textContent");
    assert_eq!(title, "Peak of resident memory");
    let host = browser.text("document.querySelector('[data-card=host]').textContent").replace('\u{a0}', " ");
    assert_eq!(host, "Host works≥ 50.0 %waits at most 50.0 %");
    clean(&browser);
}

#[test]
fn a_finding_selects_its_evidence() {
    let Some((mut browser, _folder)) = opened("") else { return };
    browser.click("[data-evidence=\"sync-bound\"]");
    browser.wait("!document.getElementById('range').hidden");
    assert!(browser.text("document.getElementById('range').textContent").starts_with("400 µs"));
    browser.wait("document.querySelector('.statistics tr[aria-selected=\"true\"]')");
    assert_eq!(
        browser.text("document.querySelector('.statistics tr[aria-selected=\"true\"] button').textContent"),
        "synchronize"
    );
    clean(&browser);
}

#[test]
fn a_print_holds_every_chart() {
    let Some((mut browser, _folder)) = opened("") else { return };
    let drawn = "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)";
    // Without any scrolling, the page draws the rest while it is idle.
    browser.wait(drawn);
    browser.eval("document.querySelector('[data-sort=name]').click()");
    let print = browser.call("Page.printToPDF", json!({}));
    assert!(print["data"].as_str().unwrap().len() > 100_000);
    assert!(browser.eval(drawn).as_bool().unwrap());
    clean(&browser);
}
