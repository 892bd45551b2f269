//! Reading profiles: round trips, the dialects of Chrome traces, and files that are damaged or something else.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};

use common::{any_trace, lane, site, span, step};
use ellwand_profile::{By, Counters, Detail, Kind, LaneKind, NONE, Part, Span, SpanCost, Trace, TraceLane};
use ellwand_trace::{Imported, read, read_from};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

fn written(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    trace.write_json(&mut out).unwrap();
    out
}

fn from_text(text: &str) -> Imported {
    read_from(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn message(bytes: &[u8]) -> String {
    read_from(bytes).unwrap_err().to_string()
}

/// Spans by lane as `path start+duration`, in nanoseconds.
fn spans(trace: &Trace) -> Vec<String> {
    let row = |lane: &TraceLane, index: usize| {
        let span = &lane.spans[index];
        let mut path = vec![trace.name(span).to_string()];
        let mut at = span.parent;
        while at != NONE {
            path.insert(0, trace.name(&lane.spans[at as usize]).to_string());
            at = lane.spans[at as usize].parent;
        }
        let length = if span.is_open() { "open".to_string() } else { trace.duration_ns(span).to_string() };
        let link = if span.corr == 0 { String::new() } else { format!(" link {}", span.corr) };
        format!("{}: {} {}+{length}{link}", lane.name, path.join("/"), trace.since_start_ns(span.start))
    };
    trace.lanes.iter().flat_map(|lane| (0..lane.spans.len()).map(move |index| row(lane, index))).collect()
}

#[test]
fn the_example_of_the_documentation_is_what_the_program_writes() {
    let text = include_str!("../../../docs/profile-format.md");
    let example = text.split("```json").nth(1).unwrap().split("```").next().unwrap();
    let parsed = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
    let [documented, written] = [parsed(example.as_bytes()), parsed(&written(&from_text(example).trace))];
    for computed in ["summary", "bottlenecks", "breakdown", "memory"] {
        assert_eq!(documented[computed], written[computed], "{computed}: {:#}", written[computed]);
    }
}

#[test]
fn our_own_file_is_read_back_as_it_was() {
    let mut trace = step();
    let imported = read_from(&written(&trace)[..]).unwrap();
    assert_eq!(imported.notes.len(), 0);
    let mut back = imported.trace;
    // The file has neither the origin of the ticks nor two of the costs.
    assert_eq!((back.start, back.end - back.start), (1, 4_000));
    for lane in &mut back.lanes {
        lane.spans.iter_mut().for_each(|span| {
            span.start += 999;
            span.end = if span.is_open() { 0 } else { span.end + 999 };
        });
    }
    back.tracks.iter_mut().flat_map(|track| &mut track.points).for_each(|point| point.0 += 999);
    (back.start, back.end) = (trace.start, trace.end);
    let cost = back.cost.take().unwrap();
    assert_eq!((cost.on_ns, cost.off_ns, cost.empty_ns), (2.0, 0.5, 1.0));
    trace.cost = None;
    assert_eq!(back, trace);
}

#[test]
fn compressed_files_and_byte_order_marks_are_read() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&written(&step())).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(written(&read_from(&packed[..]).unwrap().trace), written(&step()));
    let marked = [b"\xef\xbb\xbf\n \n".to_vec(), written(&step())].concat();
    assert_eq!(read_from(&marked[..]).unwrap().trace.spans(), 11);
    assert!(message(&packed[..packed.len() / 2]).starts_with("ends too early ("));
}

#[test]
fn a_chrome_export_is_read_back() {
    let mut out = Vec::new();
    step().write_chrome("server", &mut out).unwrap();
    let imported = read_from(&out[..]).unwrap();
    assert_eq!(imported.notes, ["10 aggregated spans are not in this file; its times lack them"]);
    let trace = imported.trace;
    assert_eq!((trace.name.as_str(), trace.started_unix_ns, trace.lost), ("server", 1_795_238_760_000_000_000, 3));
    let lanes: Vec<(&str, &LaneKind, usize)> =
        trace.lanes.iter().map(|lane| (lane.name.as_str(), &lane.kind, lane.spans.len())).collect();
    let device = LaneKind::Stream { device: "cuda:0".into() };
    assert_eq!(lanes, [("main", &LaneKind::Thread, 7), ("worker", &LaneKind::Thread, 1), ("stream 7", &device, 3)]);
    assert_eq!(trace.lanes[0].details[0], step().lanes[0].details[0]);
    assert_eq!(trace.sites[0], step().sites[0]);
    assert_eq!(trace.tracks[0].points.iter().map(|point| point.1).collect::<Vec<_>>(), [0.0, 4096.0, 64.5]);
    let expected = step().breakdown();
    for part in [Part::Device, Part::Transfer, Part::Launch, Part::Wait] {
        assert_eq!(trace.breakdown().ns(part), expected.ns(part), "{part:?}");
    }
    assert_eq!(trace.summary_by_site().rows.iter().find(|row| row.name() == "launch").unwrap().device_ns, 600.0);
}

#[test]
fn every_phase_of_trace_events_is_understood() {
    let imported = from_text(include_str!("files/phases.json"));
    let lines = [spans(&imported.trace), imported.notes.clone()].concat();
    let tracks =
        imported.trace.tracks.iter().map(|track| format!("{} [{}] {:?}", track.name, track.unit, track.points));
    insta::assert_snapshot!(lines.into_iter().chain(tracks).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_pytorch_trace_has_its_streams_steps_links_and_memory() {
    let imported = from_text(include_str!("files/pytorch-gpu.json"));
    let trace = &imported.trace;
    assert_eq!(trace.name, "", "PyTorch's is the path of the file that it wrote first");
    let lanes = trace.lanes.iter().map(|lane| format!("{} {:?}", lane.name, lane.kind));
    let kinds = trace.sites.iter().map(|site| format!("{}: {}", site.name, site.kind.word()));
    let facts = trace.environment.iter().map(|(name, value)| format!("{name} = {value:?}"));
    let tracks = trace.tracks.iter().map(|track| format!("{} [{}] {:?}", track.name, track.unit, track.points));
    let text: Vec<String> =
        lanes.chain(spans(trace)).chain(kinds).chain(facts).chain(tracks).chain(imported.notes).collect();
    insta::assert_snapshot!(format!("{}\n\n{}\n\n{}", text.join("\n"), trace.summary(), trace.breakdown()));
}

/// Recorded by torch 2 on the CPU: six steps of training a small network, with shapes, memory and Python stacks.
#[test]
fn a_real_pytorch_trace_is_read_without_loss() {
    let imported = read_from(&include_bytes!("files/pytorch-cpu.json.gz")[..]).unwrap();
    let trace = &imported.trace;
    // 1522 + 684 + 30 complete events, as counted by Python's json.
    assert_eq!((trace.spans(), trace.open(), trace.dropped()), (2236, 0, 0));
    let steps = trace.summary_by_site().rows.into_iter().find(|row| row.name() == "ProfilerStep").unwrap();
    assert_eq!(steps.count, 6);
    let lanes: Vec<String> =
        trace.lanes.iter().map(|lane| format!("{}: {} spans", lane.name, lane.spans.len())).collect();
    let tracks: Vec<String> =
        trace.tracks.iter().map(|track| format!("{}: {} points", track.name, track.points.len())).collect();
    let names: Vec<String> =
        trace.summary_by_site().rows.iter().take(12).map(|row| format!("{} {}", row.name(), row.count)).collect();
    insta::assert_snapshot!([lanes, tracks, names, imported.notes.clone()].concat().join("\n"));
}

#[test]
fn an_array_without_its_end_is_read_up_to_there() {
    let imported = from_text(r#"[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1},"#);
    assert_eq!((imported.trace.spans(), imported.notes.len()), (1, 1));
    assert!(imported.notes[0].contains("no end"), "{:?}", imported.notes);
    assert_eq!(from_text(r#"[{"ph":"X","name":"a","ts":1,"dur":2},null]"#).trace.spans(), 1);
}

#[test]
fn errors_of_unreadable_files_give_place_and_reason() {
    let deep_json = format!("{{\"traceEvents\":[{{\"ph\":\"X\",\"ts\":1,\"args\":{}", "{\"a\":".repeat(100_000));
    let truncated = &written(&step())[..900];
    let invalid = [&b"{\"format\":\"ellwand profile\",\"name\":\""[..], b"\xff\xfe", b"\"}"].concat();
    let entries = |columns: &str| {
        format!(
            "{{\"format\":\"ellwand profile\",\"version\":1,\"operations\":[{{\"name\":\"a\"}}],\"lanes\":[{{\"name\":\"m\"}}],\"entries\":{{{columns}}}}}"
        )
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("only white space", b" \n ".to_vec()),
        ("a binary file", b"\x0a\x05hello".to_vec()),
        ("a picture", b"\x89PNG".to_vec()),
        ("another object", b"{\"a\":1,\"b\":[2]}".to_vec()),
        ("no members", b"{}".to_vec()),
        ("a record", b"{\"kind\":\"run\",\"version\":3}\n{\"kind\":\"x\"}".to_vec()),
        ("speedscope", b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"profiles\":[]}".to_vec()),
        ("another format", b"{\"format\":\"zip\"}".to_vec()),
        ("an empty array", b"[]".to_vec()),
        ("numbers", b"[1,2]".to_vec()),
        ("a future version", b"{\"format\":\"ellwand profile\",\"version\":2,\"entries\":\"other\"}".to_vec()),
        ("truncated", truncated.to_vec()),
        ("invalid UTF-8", invalid),
        ("deep JSON", deep_json.into_bytes()),
        ("more after the end", [written(&Trace::in_nanoseconds()), b"{}".to_vec()].concat()),
        ("columns", entries("\"operation\":[0,0],\"lane\":[0]").into_bytes()),
        ("lane", entries("\"operation\":[0],\"lane\":[9],\"parent\":[-1],\"start_ns\":[0],\"duration_ns\":[1]").into()),
        ("operation", entries("\"operation\":[1],\"lane\":[0],\"parent\":[-1],\"start_ns\":[0],\"duration_ns\":[1]").into()),
        ("parent", entries("\"operation\":[0],\"lane\":[0],\"parent\":[0],\"start_ns\":[0],\"duration_ns\":[1]").into()),
        ("duration", entries("\"operation\":[0],\"lane\":[0],\"parent\":[-1],\"start_ns\":[0],\"duration_ns\":[-1]").into()),
        ("text as number", entries("\"operation\":[\"x\"]").into_bytes()),
        ("kind", b"{\"format\":\"ellwand profile\",\"operations\":[{\"name\":\"a\",\"kind\":\"gpu\"}]}".to_vec()),
        ("clock", b"{\"format\":\"ellwand profile\",\"clock\":{\"ns_per_tick\":0}}".to_vec()),
        ("wall", b"{\"format\":\"ellwand profile\",\"wall_ns\":-1}".to_vec()),
        ("totals", b"{\"format\":\"ellwand profile\",\"totals\":[{\"lane\":0,\"parent\":4,\"operation\":0,\"count\":1,\"total_ns\":1,\"self_ns\":1,\"min_ns\":1,\"max_ns\":1}]}".to_vec()),
        ("tracks", b"{\"format\":\"ellwand profile\",\"tracks\":[{\"name\":\"heap\",\"at_ns\":[1],\"value\":[]}]}".to_vec()),
    ];
    let lines: Vec<String> = cases.iter().map(|(name, bytes)| format!("{name}: {}", message(bytes))).collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert!(read("/no/such/file.json").unwrap_err().to_string().starts_with("/no/such/file.json: cannot be read"));
}

/// 50 steps of 10 µs on a thread, each with a request that is in flight for the next 990 µs.
fn requests() -> Trace {
    let event = |ph: &str, name: &str, at: u64, more: &str| {
        format!(r#"{{"ph":"{ph}","name":"{name}","cat":"net","ts":{at},"pid":1,"tid":1{more}}}"#)
    };
    let at = (0..50).flat_map(|at| {
        let (start, id) = (1000 * at, format!(",\"id\":{at}"));
        let old = event(["S", "F"][usize::from(at % 2 == 1)], "old", start + 10, ",\"id\":\"x\"");
        [
            event("X", "step", start, ",\"dur\":10"),
            event("b", "request", start + 10, &id),
            event("n", "sent", start + 500, &id),
            event("e", "request", start + 1000, &id),
            old,
        ]
    });
    from_text(&format!("[{}]", at.collect::<Vec<_>>().join(","))).trace
}

#[test]
fn async_events_are_no_computing() {
    let trace = requests();
    let mut exported = Vec::new();
    trace.write_chrome("p", &mut exported).unwrap();
    for trace in [&trace, &read_from(&exported[..]).unwrap().trace, &read_from(&written(&trace)[..]).unwrap().trace] {
        let breakdown = trace.breakdown();
        assert_eq!((breakdown.ns(Part::Unmeasured), breakdown.ns(Part::Unexplained)), (500_000.0, 49_500_000.0));
        let exposed = trace.bottlenecks(9).into_iter().filter(|one| one.by == By::Exposed);
        assert_eq!(exposed.map(|one| (one.operation, one.ns)).collect::<Vec<_>>(), [("step".into(), 500_000.0)]);
        let rows = trace.summary_by_site().rows;
        let request = rows.iter().find(|row| row.name() == "request").unwrap();
        assert_eq!((request.kind, request.count, request.total_ns), (Kind::InFlight, 50, 49_500_000.0));
    }
    let diff = ellwand_trace::diff(&trace, &trace, &ellwand_trace::DiffOptions::default()).unwrap();
    assert_eq!(diff.root.as_deref(), Some("step"));
}

#[test]
fn facts_missing_from_foreign_files_stay_unknown() {
    let trace = from_text(r#"[{"ph":"X","name":"a","ts":5,"dur":2}]"#).trace;
    let file: serde_json::Value = serde_json::from_slice(&written(&trace)).unwrap();
    assert_eq!((file.get("clock"), file.get("started_unix_ns")), (None, None));
    let back = read_from(&written(&trace)[..]).unwrap().trace;
    assert_eq!((back.clock, back.started_unix_ns), (trace.clock, 0));
    let mut exported = Vec::new();
    trace.write_chrome("p", &mut exported).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&exported).unwrap();
    assert_eq!((file["otherData"].get("clock"), file["otherData"].get("started_unix_ns")), (None, None));
}

#[test]
fn the_cost_of_each_operation_is_read_back() {
    let costs = [2.0, 30.0].map(|span_ns| SpanCost { span_ns, empty_ns: span_ns / 2.0 });
    let spans = vec![span(2, NONE, 5, 7), span(4, NONE, 8, 9)];
    let sites = ["unused", "a", "unused too", "b"].map(|name| site(name, Kind::Cpu)).to_vec();
    // The last one has the mean cost.
    let trace =
        Trace { sites, lanes: vec![lane("main", spans)], span_costs: [costs[0], costs[1], costs[0]].into(), ..step() };
    let back = read_from(&written(&trace)[..]).unwrap().trace;
    let all = SpanCost { span_ns: 2.0, empty_ns: 1.0 };
    assert_eq!([back.span_cost(1), back.span_cost(2), back.span_cost(9)], [costs[1], all, all]);
}

#[test]
fn work_that_is_not_finite_is_absent() {
    let counters = Counters { flops: f64::NAN, items: 2, ..Counters::default() };
    let details = vec![Detail { counters, ..Detail::default() }];
    let spans = vec![Span { ext: 1, ..span(1, NONE, 5, 7) }];
    let trace = Trace {
        end: 10,
        sites: vec![site("rate", Kind::Cpu)],
        lanes: vec![TraceLane { details, ..lane("main", spans) }],
        ..Trace::in_nanoseconds()
    };
    let text = String::from_utf8(written(&trace)).unwrap();
    assert!(text.contains(r#""details":[{"items":2}]"#), "{text}");
    // The same file from an earlier version.
    let text = text.replace(r#"{"items":2}"#, r#"{"items":2,"flops":null}"#);
    assert_eq!(from_text(&text).trace.lanes[0].details[0].counters, Counters { items: 2, ..Counters::default() });
}

#[test]
fn deep_nesting_and_long_names_are_read() {
    let events: Vec<String> =
        (0..100_000).map(|at| format!("{{\"ph\":\"B\",\"name\":\"f\",\"ts\":{at},\"pid\":1,\"tid\":1}}")).collect();
    let trace = from_text(&format!("[{}]", events.join(","))).trace;
    assert_eq!((trace.spans(), trace.open()), (100_000, 100_000));
    assert_eq!(trace.lanes[0].spans[99_999].parent, 99_998);
    assert!(!trace.summary().to_string().is_empty());
    let long = "n".repeat(1 << 20);
    let trace = from_text(&format!("[{{\"ph\":\"X\",\"name\":\"{long}\",\"ts\":0,\"dur\":1}}]")).trace;
    assert_eq!(trace.sites[0].name.len(), 1 << 20);
    assert!(trace.summary().to_string().len() < 1000);
}

/// A long text instead of one beyond the limit, which would take too long to build.
#[test]
fn an_endless_compressed_text_has_a_limit() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"[").unwrap();
    packed.write_all(&vec![b' '; 1 << 20]).unwrap();
    assert!(message(&packed.finish().unwrap()).contains("ends too early"));
}

#[test]
fn endless_strings_and_brackets_end_with_a_message() {
    let message = |start: &'static [u8], byte| {
        read_from(start.chain(std::io::repeat(byte))).expect_err("it never ends").to_string()
    };
    let long = message(br#"{"format":"ellwand profile","name":"\\\"y"#, b'x');
    assert!(long.contains("strings is longer than 16777216 bytes"), "{long}");
    let deep = message(br#"{"format":"ellwand profile","later":"#, b'[');
    assert!(deep.contains("nested more than 1048576 levels"), "{deep}");
}

#[test]
fn times_before_the_start_and_dates_keep_their_distance() {
    let trace =
        from_text(r#"[{"ph":"X","name":"a","ts":-5.5,"dur":2},{"ph":"X","name":"b","ts":1.25,"dur":0.001}]"#).trace;
    assert_eq!(spans(&trace), ["thread: a 0+2000", "thread: b 6750+1"]);
    let dated = from_text(r#"[{"ph":"X","name":"a","ts":1700000000000001,"dur":2}]"#).trace;
    assert_eq!(dated.started_unix_ns, 1_700_000_000_000_001_000);
    let huge =
        from_text(r#"[{"ph":"X","name":"a","ts":-9e300,"dur":1e300},{"ph":"X","name":"b","ts":9e300,"dur":9e300}]"#)
            .trace;
    assert_eq!(huge.spans(), 2);
    assert!(huge.breakdown().wall_ticks() > 0);
}

proptest! {
    #[test]
    fn any_profile_survives_its_own_file(mut trace in any_trace()) {
        trace.lanes.iter_mut().for_each(TraceLane::nest);
        let back = read_from(&written(&trace)[..]).unwrap().trace;
        // A span to which the clock gave a negative duration is empty.
        let mut lanes = trace.lanes.clone();
        lanes.iter_mut().flat_map(|lane| &mut lane.spans).for_each(|span| span.end = span.end.max(span.start));
        // A file contains only operations with spans.
        let sites = |lane: &TraceLane| lane.spans.iter().map(|span| span.site).chain(lane.totals.iter().map(|total| total.site)).collect::<Vec<_>>();
        let used: BTreeSet<u32> = lanes.iter().flat_map(sites).collect();
        let number = |site: u32| used.iter().zip(1..).find(|(known, _)| **known == site).map_or(0, |(_, number)| number);
        for lane in &mut lanes {
            lane.spans.iter_mut().for_each(|span| span.site = number(span.site));
            lane.totals.iter_mut().for_each(|total| total.site = number(total.site));
        }
        let used: Vec<_> = used.iter().map(|site| trace.sites[*site as usize - 1].clone()).collect();
        prop_assert_eq!(&back.lanes, &lanes);
        prop_assert_eq!(&back.sites, &used);
        prop_assert_eq!(back.end - back.start, trace.end - trace.start);
        prop_assert_eq!(written(&back), written(&trace));
    }

    #[test]
    fn any_profile_survives_chrome_but_for_rounding(trace in any_trace()) {
        let mut out = Vec::new();
        trace.write_chrome("x", &mut out).unwrap();
        let spans: u64 = trace.spans();
        let back = match read_from(&out[..]) {
            Ok(imported) => imported.trace,
            Err(error) => { prop_assert_eq!(spans, 0, "{}", error); return Ok(()) }
        };
        prop_assert_eq!(back.spans() + back.dropped(), spans);
        let kinds = |trace: &Trace, kind: Kind| trace.lanes.iter().flat_map(|lane| &lane.spans).filter(|span| trace.site(span).is_some_and(|site| site.kind == kind)).count();
        for kind in Kind::ALL {
            prop_assert_eq!(kinds(&back, kind), kinds(&trace, kind), "{:?}", kind);
        }
    }

    #[test]
    fn damaged_files_are_errors_or_profiles_and_never_a_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = written(&step());
        let place = at.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(cut.index(bytes.len()).max(bytes.len() / 2));
        let _ = read_from(&bytes[..]);
    }
}
