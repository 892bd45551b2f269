//! The page of a profile in a real browser: every view, with mouse and keys, on a golden profile.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use common::browser::Browser;
use common::{golden, write_page};
use serde_json::{Value, json};

/// Opens the golden profile's page; `None` without a browser.
fn opened(hash: &str) -> Option<(Browser, tempfile::TempDir)> {
    let mut browser = Browser::start(1280, 900)?;
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), "golden.html", &golden::document(), None);
    browser.open(&page, hash);
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    Some((browser, folder))
}

/// The raw values of the statistics table by operation's number.
fn table(browser: &mut Browser) -> Value {
    browser.eval(
        "Object.fromEntries([...document.querySelectorAll('.statistics tbody tr')].map(tr => [tr.dataset.operation, \
         Object.fromEntries([...tr.querySelectorAll('td')].map(td => [td.dataset.key, td.dataset.value]))]))",
    )
}

fn names(browser: &mut Browser) -> Vec<String> {
    let names = browser.eval("[...document.querySelectorAll('.statistics tbody th button')].map(b => b.textContent)");
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_string()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

fn clean(browser: &Browser) {
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}

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
fn the_parts_of_the_wall_time_are_those_of_the_file() {
    let Some((mut browser, _folder)) = opened("") else { return };
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
    browser.wait("document.querySelector('#flame .note').textContent.includes('faster')");
    assert!(browser.text("document.getElementById('durations').textContent").contains('A'));
    clean(&browser);
}

#[test]
fn other_files_are_opened_and_bad_ones_refused_with_the_reason() {
    let Some((mut browser, folder)) = opened("") else { return };
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut future = golden::document();
    future["version"] = json!(99);
    let mut torn = golden::document();
    torn["entries"]["lane"].as_array_mut().unwrap().pop();
    let bad: [(&str, Vec<u8>, &str); 6] = [
        ("empty.json", Vec::new(), "the file is empty"),
        ("text.json", b"hello".to_vec(), "not JSON"),
        ("other.json", b"{\"a\": 1}".to_vec(), "expected \"ellwand profile\""),
        ("future.json", future.to_string().into_bytes(), "version 99 is newer"),
        ("torn.json", torn.to_string().into_bytes(), "entries.lane has"),
        ("cut.json.gz", vec![0x1f, 0x8b, 8, 0, 0, 0], "damaged or cut short"),
    ];
    for (name, bytes, reason) in bad {
        let path = write(name, &bytes);
        browser.pick("#file", &path);
        browser.wait(&format!("document.getElementById('message').textContent.includes({})", json!(reason)));
        assert!(browser.text("document.getElementById('message').textContent").contains(name));
    }
    assert!(browser.text("document.querySelector('h1').textContent").contains("golden"));
    let chrome = json!({"traceEvents": [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main thread"}},
        {"ph": "X", "name": "outer", "pid": 1, "tid": 1, "ts": 10.0, "dur": 100.0},
        {"ph": "X", "name": "inner", "pid": 1, "tid": 1, "ts": 20.0, "dur": 30.0, "args": {"n": 4}},
        {"ph": "B", "name": "open", "pid": 1, "tid": 2, "ts": 15.0},
        {"ph": "C", "name": "heap", "pid": 1, "ts": 12.0, "args": {"bytes": 5000}},
    ]});
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(chrome.to_string().as_bytes()).unwrap();
    let path = write("trace.json.gz", &gzip.finish().unwrap());
    browser.pick("#file", &path);
    browser.wait("document.querySelector('h1').textContent === 'trace.json.gz'");
    let shown = table(&mut browser);
    assert_eq!((number(&shown["0"]["self"]), number(&shown["1"]["total"])), (70_000.0, 30_000.0));
    assert!(browser.eval("document.getElementById('message').hidden").as_bool().unwrap());
    let path = write("again.json", golden::document().to_string().as_bytes());
    browser.pick("#file", &path);
    browser.wait("document.querySelector('h1').textContent.includes('golden')");
    assert_eq!(table(&mut browser).as_object().unwrap().len(), golden::computed()["summary"].as_array().unwrap().len());
    browser.click("#demo");
    browser.wait("document.querySelector('h1').textContent.startsWith('demo')");
    clean(&browser);
}

#[test]
fn a_link_shows_the_view_of_its_sender() {
    let hash = "#range=400000-900000&operation=encode&sort=calls%2C-1&flame=sandwich&filter=e";
    let Some((mut browser, _folder)) = opened(hash) else { return };
    browser.wait("!document.getElementById('range').hidden");
    assert!(browser.text("document.getElementById('range').textContent").starts_with("500 µs"));
    assert_eq!(browser.text("document.getElementById('filter').value"), "e");
    assert_eq!(
        browser.text("document.querySelector('.statistics tr[aria-selected=\"true\"] button').textContent"),
        "encode"
    );
    assert!(
        browser
            .eval("Boolean(document.querySelector('th[aria-sort=\"descending\"] [data-sort=calls]'))")
            .as_bool()
            .unwrap()
    );
    assert_eq!(
        browser.text("document.querySelector('#flame [data-value=\"sandwich\"]').getAttribute('aria-pressed')"),
        "true"
    );
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
fn views_are_saved_as_csv_markdown_and_svg() {
    let Some((mut browser, _folder)) = opened("") else { return };
    browser.eval(
        "(() => { window.saved = {}; const make = URL.createObjectURL; URL.createObjectURL = blob => { blob.text().then(t => window.last = t); return make(blob); }; \
         HTMLAnchorElement.prototype.click = function () { window.saved[this.download] = true; }; })()",
    );
    let mut save = |selector: &str, start: &str, part: &str| {
        browser.eval("window.last = null");
        browser.eval(&format!("document.querySelector('{selector}').click()"));
        browser.wait("window.last");
        let text = browser.text("window.last");
        assert!(text.starts_with(start) && text.contains(part), "{selector}: {}", text.get(..300).unwrap_or(&text));
        text
    };
    let csv = save(
        "#statistics [data-export=csv]",
        "operation,calls,total_ns,self_ns",
        "\"</script><b>\"\"quotes\"\" & 'more'\n\u{1}\",8,",
    );
    assert_eq!(csv.matches("\r\n").count(), golden::computed()["summary"].as_array().unwrap().len() + 1);
    save("#statistics [data-export=markdown]", "| Operation | Calls |", "| encode | 46 |");
    save("#timeline [data-export=svg]", "<svg xmlns=", "worker &quot;1&quot; &lt;i&gt;");
    save("#flame [data-export=svg]", "<svg xmlns=", "request");
    save("#flame [data-export=csv]", "path,calls,total_ns,self_ns", "request;visit;visit;visit");
    save("#time [data-export=svg]", "<svg", "encode");
    save("#memory [data-export=csv]", "track,at_ns,value,unit", "heap,33000,");
    clean(&browser);
}

#[test]
fn an_empty_profile_explains_itself() {
    let Some(mut browser) = Browser::start(1000, 800) else { return };
    let folder = tempfile::tempdir().unwrap();
    let empty = json!({"format": "ellwand profile", "version": 1, "wall_ns": 1000.0});
    let page = write_page(folder.path(), "empty.html", &empty, None);
    browser.open(&page, "");
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    assert!(browser.eval("document.querySelectorAll('.empty').length").as_u64().unwrap() >= 5);
    clean(&browser);
}

#[test]
fn deep_nesting_and_long_names_are_shown() {
    let Some(mut browser) = Browser::start(1000, 800) else { return };
    let folder = tempfile::tempdir().unwrap();
    let depth = 100_000_i64;
    let mut document = golden::document();
    document["operations"] = json!([{"name": "x".repeat(1 << 20), "kind": "cpu"}, {"name": "y", "kind": "cpu"}]);
    document["lanes"] = json!([{"name": "deep", "kind": "thread"}]);
    document["details"] = json!([]);
    document["totals"] = json!([]);
    document["entries"] = json!({
        "operation": (0..depth).map(|i| i % 2).collect::<Vec<_>>(), "lane": vec![0; 100_000],
        "parent": (0..depth).map(|i| i - 1).collect::<Vec<_>>(),
        "start_ns": (0..depth).collect::<Vec<_>>(), "duration_ns": (0..depth).map(|i| 1_000_000 - 2 * i).collect::<Vec<_>>(),
    });
    let page = write_page(folder.path(), "deep.html", &document, None);
    browser.open(&page, "");
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes", "{:#?}", browser.complaints);
    assert_eq!(names(&mut browser).len(), 2);
    browser.click("#flame [data-value=\"order\"]");
    browser.wait("document.querySelector('#flame [data-value=\"order\"]').getAttribute('aria-pressed') === 'true'");
    assert!(names(&mut browser).iter().all(|name| name.len() < 200));
    clean(&browser);
}

#[test]
fn a_print_holds_every_chart() {
    let Some((mut browser, _folder)) = opened("") else { return };
    let drawn = "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)";
    // Nobody has scrolled; the page draws the rest while nobody waits.
    browser.wait(drawn);
    browser.eval("document.querySelector('[data-sort=name]').click()");
    let print = browser.call("Page.printToPDF", json!({}));
    assert!(print["data"].as_str().unwrap().len() > 100_000);
    assert!(browser.eval(drawn).as_bool().unwrap());
    clean(&browser);
}
