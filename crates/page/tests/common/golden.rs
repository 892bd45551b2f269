//! A profile with every feature of the format, the same every time: two threads, a device stream, transfers, links,
//! details, totals, a memory track, recursion, an open span, losses.

use serde_json::{Value, json};

/// Nanoseconds of the recording.
pub(crate) const WALL: f64 = 2_000_000.0;

const OPERATIONS: [(&str, &str); 14] = [
    ("request", "cpu"),
    ("parse", "cpu"),
    ("encode", "cpu"),
    ("launch kernel", "launch"),
    ("gemm_kernel", "kernel"),
    ("copy in", "host-to-device"),
    ("copy out", "device-to-host"),
    ("synchronize", "sync"),
    ("wait for work", "wait"),
    ("visit", "cpu"),
    ("allocate", "allocation"),
    ("hash", "cpu"),
    ("build kernels", "compile"),
    ("</script><b>\"quotes\" & 'more'\n\u{1}", "cpu"),
];

/// An entry under construction.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) operation: usize,
    pub(crate) lane: usize,
    pub(crate) parent: i64,
    pub(crate) start: f64,
    pub(crate) duration: Option<f64>,
    link: u32,
    detail: i64,
}

/// The entries of the golden profile, with their details.
pub(crate) fn spans() -> (Vec<Span>, Vec<Value>) {
    let (mut spans, mut details): (Vec<Span>, Vec<Value>) = (Vec::new(), Vec::new());
    let mut add = |operation: usize,
                   lane: usize,
                   parent: i64,
                   start: f64,
                   duration: Option<f64>,
                   link: u32,
                   detail: Option<Value>| {
        let row = detail.map_or(-1, |detail| {
            details.push(detail);
            details.len() as i64 - 1
        });
        spans.push(Span { operation, lane, parent, start, duration, link, detail: row });
        spans.len() as i64 - 1
    };
    add(12, 0, -1, 5_000.0, Some(120_000.0), 0, None);
    for turn in 0..8_u32 {
        let wobble = f64::from(turn * turn % 7) * 1_500.0;
        let at = 140_000.0 + 220_000.0 * f64::from(turn);
        let open = turn == 7;
        let work = json!({"args": {"n": turn, "shape": "32x32", "note": "</script>"}, "rss_bytes": 5_242_880});
        let request = add(0, 0, -1, at, (!open).then_some(200_000.0 + wobble), 0, Some(work));
        let parse = json!({"cpu_ns": 29_000, "allocations": 12, "allocated_bytes": 40_960, "freed_bytes": 8_192, "peak_bytes": 36_864});
        add(1, 0, request, at + 1_000.0, Some(30_000.0 + wobble), 0, Some(parse));
        add(10, 0, request, at + 45_000.0, Some(4_000.0), 0, None);
        let visit = add(9, 0, request, at + 50_000.0, Some(40_000.0), 0, None);
        let inner = add(9, 0, visit, at + 55_000.0, Some(25_000.0), 0, None);
        add(9, 0, inner, at + 60_000.0, Some(10_000.0 + wobble / 4.0), 0, None);
        add(3, 0, request, at + 95_000.0, Some(6_000.0), turn + 1, None);
        add(7, 0, request, at + 105_000.0, Some(60_000.0), 0, None);
        add(13, 0, request, at + 170_000.0, Some(12_345.0), 0, None);
        if open {
            add(2, 0, request, at + 185_000.0, None, 0, None);
        }
    }
    for turn in 0..6_u32 {
        let at = 20_000.0 + 320_000.0 * f64::from(turn);
        add(8, 1, -1, at, Some(150_000.0), 0, None);
        let bytes = json!({"bytes": 4096 * (turn + 1), "items": 1024, "flops": 2048.5});
        let encode = add(2, 1, -1, at + 155_000.0, Some(90_000.0 + 3_000.0 * f64::from(turn)), 0, Some(bytes));
        add(11, 1, encode, at + 160_000.0, Some(0.0), 0, None);
    }
    for turn in 0..8_u32 {
        let at = 140_000.0 + 220_000.0 * f64::from(turn) + 100_000.0;
        add(5, 2, -1, at, Some(15_000.0), 0, Some(json!({"bytes": 65_536})));
        let work = json!({"flops": 3.0e7, "bytes": 400_000});
        add(4, 2, -1, at + 16_000.0, Some(38_000.0), turn + 1, Some(work));
        add(6, 2, -1, at + 55_000.0, Some(7_000.0), 0, Some(json!({"bytes": 16_384})));
    }
    (spans, details)
}

/// The golden profile without [`computed`], so that the page computes it.
pub(crate) fn document() -> Value {
    let (spans, details) = spans();
    let column = |of: fn(&Span) -> Value| -> Value { spans.iter().map(of).collect() };
    let heap: Vec<(f64, f64)> = (0..60_u32)
        .map(|i| {
            (f64::from(i) * 33_000.0, 4.0e6 + f64::from((i * 37) % 23) * 3.1e5 + if i == 31 { 9.0e6 } else { 0.0 })
        })
        .collect();
    let operations: Vec<Value> = OPERATIONS
        .iter()
        .map(|(name, kind)| json!({"name": name, "kind": kind, "file": "src/server.rs", "line": name.len()}))
        .collect();
    json!({
        "format": "ellwand profile", "version": 1, "name": "golden </title><script>alert(1)</script> \"server\"",
        "started_unix_ns": 1_763_900_000_000_000_000_u64, "wall_ns": WALL,
        "clock": {"kind": "tsc", "ns_per_tick": 0.5, "relative_error": 1e-7},
        "environment": {"cpu": "AMD EPYC", "cores": 2, "os": "linux", "program": "server 1.4"},
        "cost": {"span_ns": 21.0, "off_ns": 0.4, "empty_ns": 10.0},
        "losses": {"spans": 17, "details": 2, "ending_threads": 0, "open": 2, "sampled_out": 0},
        "operations": operations,
        "lanes": [{"name": "main", "kind": "thread"}, {"name": "worker \"1\" <i>", "kind": "thread"},
            {"name": "stream 7", "kind": "stream", "device": "cuda:0"}],
        "entries": {
            "operation": column(|span| json!(span.operation)), "lane": column(|span| json!(span.lane)),
            "parent": column(|span| json!(span.parent)), "start_ns": column(|span| json!(span.start)),
            "duration_ns": column(|span| json!(span.duration)), "link": column(|span| json!(span.link)),
            "detail": column(|span| json!(span.detail)),
        },
        "details": details,
        "totals": [
            {"lane": 1, "parent": -1, "operation": 2, "count": 40, "open": 0, "total_ns": 400_000.0, "self_ns": 340_000.0,
                "min_ns": 8_000.0, "max_ns": 14_000.0, "square_ns2": 4.1e9, "histogram": [[12, 4], [13, 36]]},
            {"lane": 1, "parent": 0, "operation": 11, "count": 80, "open": 1, "total_ns": 60_000.0, "self_ns": 60_000.0,
                "min_ns": 500.0, "max_ns": 1_000.0, "square_ns2": 4.6e7, "histogram": [[8, 20], [9, 60]]},
        ],
        "tracks": [{"name": "heap", "unit": "B", "at_ns": heap.iter().map(|p| p.0).collect::<Vec<_>>(),
            "value": heap.iter().map(|p| p.1).collect::<Vec<_>>()}],
    })
}

/// What `ellwand-profile` computes from the golden profile when it writes the file: `summary`, `breakdown`, `memory`.
pub(crate) fn computed() -> Value {
    serde_json::from_str(include_str!("../data/golden-summary.json")).unwrap()
}
