//! Files in and out of the page of a profile, links, and profiles at the edges, in a real browser.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use common::browser::Browser;
use common::{clean, golden, names, opened, table, write_page};
use serde_json::{Value, json};

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
    let with = |name: &str, value: serde_json::Value| {
        let mut document = golden::document();
        document[name] = value;
        document.to_string().into_bytes()
    };
    let bad: [(&str, Vec<u8>, &str); 10] = [
        ("empty.json", Vec::new(), "the file is empty"),
        ("text.json", b"hello".to_vec(), "not JSON"),
        ("other.json", b"{\"a\": 1}".to_vec(), "expected \"ellwand profile\""),
        ("trace.json", b"{\"traceEvents\": []}".to_vec(), "a Chrome trace; `ellwand view FILE`"),
        ("future.json", future.to_string().into_bytes(), "version 99 is newer"),
        ("torn.json", torn.to_string().into_bytes(), "entries.lane has"),
        ("details.json", with("details", json!({})), "details is not a list of objects"),
        ("totals.json", with("totals", json!([{"operation": 99, "lane": 0}])), "totals[0]: the operation, the lane"),
        ("tracks.json", with("tracks", json!([{"name": "heap", "at_ns": [1]}])), "tracks[0]: expected as many"),
        ("cut.json.gz", vec![0x1f, 0x8b, 8, 0, 0, 0], "damaged or cut short"),
    ];
    for (name, bytes, reason) in bad {
        let path = write(name, &bytes);
        browser.pick("#file", &path);
        browser.wait(&format!("document.getElementById('message').textContent.includes({})", json!(reason)));
        assert!(browser.text("document.getElementById('message').textContent").contains(name));
    }
    assert!(browser.text("document.querySelector('h1').textContent").contains("golden"));
    let text = golden::document().to_string();
    let mut members = Vec::new();
    for half in [&text.as_bytes()[..40], &text.as_bytes()[40..]] {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(half).unwrap();
        members.extend(gzip.finish().unwrap());
    }
    let path = write("members.json.gz", &members);
    browser.pick("#file", &path);
    browser.wait("document.getElementById('message').hidden");
    assert_eq!(table(&mut browser).as_object().unwrap().len(), golden::computed()["summary"].as_array().unwrap().len());
    clean(&browser);
}

#[test]
fn a_file_that_is_dropped_is_opened() {
    let Some((mut browser, folder)) = opened("") else { return };
    let mut other = golden::document();
    other["name"] = json!("dropped");
    let (good, bad) = (folder.path().join("good.json"), folder.path().join("bad.json"));
    std::fs::write(&good, other.to_string()).unwrap();
    std::fs::write(&bad, "hello").unwrap();
    let highlighted = "document.querySelector('.dropping') !== null";
    browser.drag_file(&good, &["dragEnter", "dragOver"]);
    browser.wait(highlighted);
    // Under remote control, the browser creates no event for a cancelled drag.
    let leave = |to: &str| {
        format!(
            "document.body.dispatchEvent(new DragEvent('dragleave', {{bubbles: true, relatedTarget: {to}}})), {highlighted}"
        )
    };
    assert!(browser.eval(&leave("document.querySelector('h1')")).as_bool().unwrap(), "the file is still over the page");
    assert!(!browser.eval(&leave("null")).as_bool().unwrap(), "it left the window");
    assert!(browser.text("document.querySelector('h1').textContent").contains("golden"), "nothing was dropped yet");
    browser.drag_file(&good, &["dragEnter", "dragOver", "drop"]);
    browser.wait("document.querySelector('h1').textContent === 'dropped'");
    assert!(!browser.eval(highlighted).as_bool().unwrap());
    assert_eq!(table(&mut browser).as_object().unwrap().len(), golden::computed()["summary"].as_array().unwrap().len());
    browser.drag_file(&bad, &["dragEnter", "dragOver", "drop"]);
    browser.wait("document.getElementById('message').textContent.includes('not JSON')");
    assert_eq!(browser.text("document.querySelector('h1').textContent"), "dropped", "the profile stays");
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
fn views_are_saved_as_csv_markdown_and_svg() {
    let Some((mut browser, _folder)) = opened("") else { return };
    browser.eval(
        "(() => { window.saved = {}; const make = URL.createObjectURL; URL.createObjectURL = blob => { if (blob.type.match('csv|markdown|svg')) blob.text().then(t => window.last = t); return make(blob); }; \
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
fn values_are_rounded_and_counted_as_by_the_command_line() {
    let Some((mut browser, folder)) = opened("") else { return };
    let mut show = |wall_ns: f64| {
        let document = json!({"format": "ellwand profile", "version": 1, "name": wall_ns.to_string(), "wall_ns": wall_ns,
            "operations": [{"name": "a", "kind": "cpu"}], "lanes": [{"name": "main", "kind": "thread"}],
            "cost": {"span_ns": 21.0, "empty_ns": null}, "losses": {"spans": 1},
            "entries": {"operation": [0], "lane": [0], "start_ns": [0], "duration_ns": [null]}});
        let path = folder.path().join("one.json");
        std::fs::write(&path, document.to_string()).unwrap();
        browser.pick("#file", &path);
        browser.wait(&format!("document.querySelector('h1').textContent === '{wall_ns}'"));
        let text = browser.text("document.getElementById('cards').innerText");
        assert!(text.contains("1 operation, 1 open") && text.contains("unknown"), "{text}");
        assert!(browser.text("document.getElementById('losses').textContent").starts_with("1 span was lost because"));
        browser.text("document.querySelector('[data-card=wall] .value').textContent")
    };
    let shown = [0.0, 300_500.0, 301_500.0, 300_600.0, 2_125.0, 9_996.0].map(&mut show);
    assert_eq!(shown, ["0 ns", "300 µs", "302 µs", "301 µs", "2.12 µs", "10.0 µs"]);
    clean(&browser);
}

#[test]
fn a_narrow_page_shows_the_numbers_of_long_names_and_the_places_of_equal_ones() {
    let Some(mut browser) = Browser::start(400, 800) else { return };
    let folder = tempfile::tempdir().unwrap();
    let long = "a_function_with_a_name_that_is_longer_than_a_narrow_screen_is_wide";
    let operation = |name: &str, file: &str| json!({"name": name, "kind": "cpu", "file": file, "line": 7});
    let document = json!({
        "format": "ellwand profile", "version": 1, "wall_ns": 1000.0, "losses": {"details": 5},
        "operations": [operation("encode", "src/a.rs"), operation("encode", "src/b.rs"), operation(long, "src/c.rs")],
        "lanes": [{"name": "main", "kind": "thread"}],
        "entries": {"operation": [0, 1, 2, 2, 2], "lane": [0, 0, 0, 0, 0], "parent": [-1, 0, -1, -1, -1],
            "start_ns": [0, 100, 300, 500, 700], "duration_ns": [200, 100, 100.1, 100.1, 100.1]},
        "totals": [{"lane": 0, "parent": -1, "operation": 0, "count": 1, "total_ns": 100, "self_ns": 100, "min_ns": 100, "max_ns": 100,
            "square_ns2": 1e4, "histogram": [[6, 1]], "sums": {"cpu_ns": 25}}],
    });
    let page = write_page(folder.path(), "narrow.html", &document, None);
    browser.open(&page, "");
    let names = browser.eval("[...document.querySelectorAll('.statistics tbody th')].map(th => th.textContent)");
    let names: Vec<&str> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"encode (a.rs:7)") && names.contains(&"encode (b.rs:7)"), "{names:?}");
    assert_eq!(browser.text("document.getElementById('losses').textContent"), "5 spans lost their details.");
    assert_eq!(
        browser
            .text("document.querySelector('[data-operation=\"2\"] [data-key=std]').textContent")
            .replace('\u{a0}', " "),
        "0 ns"
    );
    assert_eq!(browser.eval("document.querySelector('#breakdown [data-part=wait]').dataset.value"), json!("75"));
    let width = browser.eval("document.querySelector('.statistics .name').getBoundingClientRect().width");
    assert!(width.as_f64() <= Some(200.0), "{width}");
    assert!(browser.eval("document.documentElement.scrollWidth <= innerWidth").as_bool().unwrap());
    clean(&browser);
}

/// The numbers of `exposed_time_of_a_kept_span_moves_to_the_aggregated_spans_inside`, and how CPU time changes them.
#[test]
fn time_of_kept_spans_moves_to_the_aggregated_spans_inside() {
    let Some(mut browser) = Browser::start(1000, 800) else { return };
    let folder = tempfile::tempdir().unwrap();
    let total = |parent: i32, operation: u32, count: u32, total_ns: f64, self_ns: f64, cpu_ns: Option<u32>| {
        json!({"lane": 0, "parent": parent, "operation": operation, "count": count, "total_ns": total_ns, "self_ns": self_ns,
            "min_ns": 0, "max_ns": total_ns, "square_ns2": 0, "histogram": [], "sums": {"cpu_ns": cpu_ns}})
    };
    let mut shown = |kinds: [&str; 3], cpu_ns: Option<u32>, totals: &[Value]| {
        let operations = ["all", "part", "pack"].into_iter().zip(kinds);
        let document = json!({
            "format": "ellwand profile", "version": 1, "wall_ns": 1000.0, "lanes": [{"name": "main", "kind": "thread"}],
            "operations": operations.map(|(name, kind)| json!({"name": name, "kind": kind})).collect::<Vec<_>>(),
            "entries": {"operation": [0], "lane": [0], "start_ns": [100], "duration_ns": [100], "detail": [0]},
            "details": [{"cpu_ns": cpu_ns}], "totals": totals,
        });
        browser.open(&write_page(folder.path(), "inside.html", &document, None), "");
        browser.eval("Object.fromEntries([...document.querySelectorAll('.legend li')].map(li => [li.dataset.part, Number(li.dataset.value)]))")
    };
    let copies =
        [total(-1, 0, 0, 0.0, -40.0, None), total(0, 1, 3, 30.0, 30.0, None), total(0, 2, 1, 10.0, 10.0, None)];
    let parts = shown(["host-to-device", "host-to-device", "cpu"], None, &copies);
    assert_eq!(parts, json!({"not-measured": 10, "transfer": 90, "unexplained": 900}));
    // The aggregated copy computes for 10 of its 40 ns, and the kept span for 50 of 100 ns.
    let copies = [total(-1, 0, 0, 0.0, -40.0, None), total(0, 1, 1, 40.0, 40.0, Some(10))];
    let parts = shown(["cpu", "compile", "cpu"], Some(50), &copies);
    assert_eq!(parts, json!({"cpu": 40, "wait": 20, "compile": 40, "unexplained": 900}));
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
fn a_long_table_and_a_flat_track_leave_room_for_the_rest() {
    let Some(mut browser) = Browser::start(1000, 800) else { return };
    let folder = tempfile::tempdir().unwrap();
    let operations = 60;
    let document = json!({
        "format": "ellwand profile", "version": 1, "wall_ns": 1e6,
        "operations": (0..operations).map(|i| json!({"name": format!("op{i}"), "kind": "cpu"})).collect::<Vec<_>>(),
        "lanes": [{"name": "main", "kind": "thread"}],
        "entries": {
            "operation": (0..operations).collect::<Vec<_>>(), "lane": vec![0; operations],
            "start_ns": (0..operations).map(|i| 1000 * i).collect::<Vec<_>>(),
            "duration_ns": (0..operations).map(|i| 900 - i).collect::<Vec<_>>(),
        },
        "tracks": [
            {"name": "heap", "unit": "B", "at_ns": [0, 500], "value": [100, 200]},
            {"name": "reserved", "unit": "B", "at_ns": [0, 500], "value": [0, 0]},
        ],
    });
    let page = write_page(folder.path(), "long.html", &document, None);
    browser.open(&page, "#operation=op50");
    let shown = names(&mut browser);
    assert_eq!((shown.len(), shown.last().unwrap().as_str()), (41, "op50"), "the largest 40, and the selected one");
    browser.click("#more-rows");
    assert_eq!(names(&mut browser).len(), operations);
    assert!(browser.eval("document.getElementById('more-rows') === null").as_bool().unwrap());
    let memory = browser.text("document.querySelector('#memory').textContent");
    assert!(memory.contains("0 throughout: reserved"), "{memory}");
    assert_eq!(browser.eval("document.querySelectorAll('#memory .chart').length"), 1);
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
