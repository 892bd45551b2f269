//! Every format is read back by a reader that is not ours: pprof by the types of its schema, Perfetto by the official
//! schema in Python, OpenTelemetry by a receiver of its official types, Prometheus by its client, speedscope by its published
//! JSON schema, and by its own app in `speedscope.rs`; the two JSON formats by our reader too.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stdout, reason = "what a skipped test needs")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use common::{any_trace, lane, site, span, step, stream};
use ellwand_profile::{Kind, NONE, Span, Trace, TraceLane, Value};
use ellwand_trace::{FORMATS, format, read_from};
use flate2::read::GzDecoder;
use pprof::protos::{Message, Profile};
use proptest::prelude::*;

fn written(name: &str, trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    (format(name).unwrap().write)(trace, &mut out).unwrap();
    out
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// Stacks from the root with their values, by a reader of the schema.
fn stacks(profile: &Profile) -> Vec<(String, Vec<i64>)> {
    let text = |index: i64| profile.string_table[index as usize].as_str();
    let name = |id: u64| {
        let location = profile.location.iter().find(|location| location.id == id).unwrap();
        let function = profile.function.iter().find(|function| function.id == location.line[0].function_id).unwrap();
        text(function.name)
    };
    let stack = |ids: &[u64]| ids.iter().rev().map(|id| name(*id)).collect::<Vec<_>>().join("/");
    profile.sample.iter().map(|sample| (stack(&sample.location_id), sample.value.clone())).collect()
}

#[test]
fn pprof_is_read_by_its_schema() {
    let profile = Profile::decode(&unpacked(&written("pprof", &step()))[..]).unwrap();
    assert_eq!(profile.string_table[0], "");
    let types: Vec<(&str, &str)> = profile
        .sample_type
        .iter()
        .map(|kind| {
            (profile.string_table[kind.ty as usize].as_str(), profile.string_table[kind.unit as usize].as_str())
        })
        .collect();
    assert_eq!(types, [("calls", "count"), ("time", "nanoseconds")]);
    assert_eq!((profile.time_nanos, profile.duration_nanos), (1_795_238_760_000_000_000, 2_000));
    let expected: Vec<(String, Vec<i64>)> = step()
        .summary()
        .rows
        .iter()
        .filter(|row| row.count > 0)
        .map(|row| (row.path.join("/"), vec![row.count as i64, row.self_ns.round() as i64]))
        .collect();
    assert_eq!(stacks(&profile), expected);
    assert_eq!(profile.function[0].start_line, 7);
}

#[test]
fn speedscope_follows_its_published_schema() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("files/speedscope-schema.json")).unwrap();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("speedscope.json", schema).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile("speedscope.json", &mut schemas).unwrap();
    for trace in [step(), Trace::in_nanoseconds()] {
        let text = written("speedscope", &trace);
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        schemas.validate(&value, index).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut wrong: serde_json::Value = serde_json::from_slice(&written("speedscope", &step())).unwrap();
    wrong["profiles"][0]["events"][0]["frame"] = "x".into();
    assert!(schemas.validate(&wrong, index).is_err(), "the schema rejects what is wrong");
    insta::assert_snapshot!(String::from_utf8(written("speedscope", &step())).unwrap());
}

#[test]
fn folded_stacks_are_one_line_per_path() {
    let mut trace = step();
    trace.sites[3].name = "a;b\nc".into();
    trace.sites[4].name = String::new();
    insta::assert_snapshot!(String::from_utf8(written("folded", &trace)).unwrap());
}

/// Python with a module from a package. A missing one is an error if `ELLWAND_REQUIRE` names the package.
fn python_with(module: &str, package: &str) -> Option<String> {
    let python = std::env::var("ELLWAND_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let ready = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if ready.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|required| required.contains(package));
    assert!(!required, "{python} cannot import {module}; pip install {package} brings it");
    println!("skipped: {python} has no module {module} (pip install {package}, or set ELLWAND_PYTHON)");
    None
}

/// Needs Python with the package `perfetto`, which includes the schema of the format.
#[test]
fn perfetto_is_read_by_its_official_schema() {
    let Some(python) = python_with("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "perfetto") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.pftrace");
    std::fs::write(&path, written("perfetto", &step())).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/read_perfetto.py");
    let output = Command::new(&python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

/// What a receiver with the official OpenTelemetry types has read, after both requests were posted to it or to a
/// collector in front of it.
fn received(python: &str, through: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/receive_otlp.py");
    let mut receiver = Command::new(python).arg(script).args(through).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(receiver.stdout.take().unwrap());
    let mut port = String::new();
    said.read_line(&mut port).unwrap();
    for (path, format) in [("/v1/traces", "otlp"), ("/v1/metrics", "otlp-metrics")] {
        let body = written(format, &step());
        let mut stream = TcpStream::connect(("127.0.0.1", port.trim().parse().unwrap())).unwrap();
        let about = "Content-Type: application/x-protobuf\r\nConnection: close";
        write!(stream, "POST {path} HTTP/1.1\r\nHost: localhost\r\n{about}\r\nContent-Length: {}\r\n\r\n", body.len())
            .unwrap();
        stream.write_all(&body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.split_whitespace().nth(1) == Some("200"), "{answer}");
    }
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert!(receiver.wait().unwrap().success());
    text
}

#[test]
fn otlp_is_received_by_its_official_types() {
    let module = "opentelemetry.proto.collector.trace.v1.trace_service_pb2";
    let Some(python) = python_with(module, "opentelemetry-proto") else { return };
    let text = received(&python, &[]);
    insta::assert_snapshot!(text);
}

/// A collector parses the requests and sends new ones with what it understood.
#[test]
fn otlp_passes_through_a_real_collector() {
    let Some(python) = python_with("rotel, opentelemetry.proto.collector.trace.v1.trace_service_pb2", "rotel") else {
        return;
    };
    assert_eq!(received(&python, &["collector"]), received(&python, &[]));
}

/// Values of `key` in the trace states of an export.
fn states(trace: &Trace, key: &str) -> Vec<String> {
    let bytes = written("otlp", trace);
    let text = String::from_utf8_lossy(&bytes);
    let value = |rest: &str| rest.chars().take_while(char::is_ascii_hexdigit).collect();
    text.match_indices("ot=th:").map(|(at, _)| value(text[at..].split_once(key).unwrap().1)).collect()
}

#[test]
fn otlp_has_the_probability_of_sampling() {
    let spans =
        (0..10_u64).flat_map(|at| [span(1, NONE, 100 * at + 1, 100 * at + 60), span(1, 0, 100 * at + 2, 100 * at + 9)]);
    let spans =
        spans.enumerate().map(|(at, one)| Span { parent: if at % 2 == 1 { at as u32 - 1 } else { NONE }, ..one });
    let mut trace = Trace {
        end: 2_000,
        lanes: vec![lane("main", spans.collect()), stream("0", vec![span(2, NONE, 5, 9)])],
        sites: vec![site("request", Kind::Cpu), site("kernel", Kind::Kernel)],
        ..Trace::in_nanoseconds()
    };
    assert_eq!(states(&trace, "th:"), [""; 0]);
    // 10 of 40 were kept: the threshold is 3/4 of 2^56. The device's own operations were not sampled.
    trace.sampled_out = 30;
    assert_eq!(states(&trace, "th:"), ["c"; 20]);
    let drawn = states(&trace, "rv:");
    let above = |text: &String| text.len() == 14 && u64::from_str_radix(text, 16).unwrap() >= 0xc0_0000_0000_0000;
    assert!(drawn.iter().all(above), "{drawn:?}");
    assert!(drawn.chunks(2).all(|both| both[0] == both[1]), "one value for all spans of a trace");
    let different: std::collections::BTreeSet<_> = drawn.iter().collect();
    assert_eq!(different.len(), 10);
    // Spans hidden by a ring or by aggregation make the probability unknown.
    trace.environment = vec![("last spans of a thread".into(), Value::Int(20))];
    assert_eq!(states(&trace, "th:"), [""; 0]);
}

#[test]
fn prometheus_is_read_by_its_client() {
    let Some(python) = python_with("prometheus_client.parser", "prometheus-client") else { return };
    let mut trace = step();
    trace.sites[1].name = "a \"b\" \\ c\nd".into();
    // Two places with the same name.
    trace.sites[5] = trace.sites[0].clone();
    trace.lanes[0].spans[6].end = 4_500;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.prom");
    std::fs::write(&path, written("prometheus", &trace)).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/read_prometheus.py");
    let output = Command::new(&python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

/// Compares with text that the client has read, for machines without the client.
#[test]
fn the_sum_of_durations_is_over_the_calls_of_the_count() {
    let calls = vec![span(1, NONE, 1, 1_001), span(1, 0, 101, 701), span(1, 1, 201, 401)];
    let trace = Trace {
        end: 2_001,
        lanes: vec![lane("main", calls)],
        sites: vec![site("fib", Kind::Cpu)],
        ..Trace::in_nanoseconds()
    };
    let text = String::from_utf8(written("prometheus", &trace)).unwrap();
    let value = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().rsplit(' ').next().unwrap();
    let (sum, count): (f64, f64) =
        (value("ellwand_span_seconds_sum").parse().unwrap(), value("ellwand_span_seconds_count").parse().unwrap());
    assert!((sum - 1_800e-9).abs() < 1e-15 && count == 3.0, "{text}");
    // A double in field 5: the sum of a point of a summary.
    let wanted = [&[(5 << 3) | 1][..], &sum.to_le_bytes()].concat();
    assert!(written("otlp-metrics", &trace).windows(wanted.len()).any(|bytes| bytes == wanted));
}

#[test]
fn prometheus_has_the_text_it_had_when_its_client_read_it() {
    insta::assert_snapshot!(String::from_utf8(written("prometheus", &step())).unwrap());
}

#[test]
fn perfetto_has_the_bytes_it_had_when_its_schema_read_it() {
    let text: Vec<String> = written("perfetto", &step())
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_table_has_a_row_for_each_path_and_empty_cells_for_what_was_not_measured() {
    let mut trace = step();
    trace.sites[1].name = "a, \"b\"; c".into();
    insta::assert_snapshot!(String::from_utf8(written("csv", &trace)).unwrap());
}

#[test]
fn formats_are_found_by_name_and_write_empty_profiles() {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(
        names,
        ["json", "csv", "chrome", "perfetto", "speedscope", "folded", "pprof", "otlp", "otlp-metrics", "prometheus"]
    );
    assert!(format("xml").is_none());
    for name in names {
        written(name, &Trace::in_nanoseconds());
    }
}

#[test]
fn formats_without_aggregated_spans_have_a_note() {
    let lacking: Vec<&str> =
        FORMATS.iter().filter(|format| format.left_out(&step()).is_some()).map(|format| format.name).collect();
    assert_eq!(lacking, ["chrome", "perfetto", "otlp"]);
    let note = format("otlp").unwrap().left_out(&step()).unwrap();
    assert_eq!(note, "10 aggregated spans are left out, because otlp has no place for them");
    let mut kept = step();
    kept.lanes.iter_mut().for_each(|lane| lane.totals.clear());
    assert!(FORMATS.iter().all(|format| format.left_out(&kept).is_none()));
    let mut mixed = step();
    mixed.lanes[0].totals[0].self_ns = -2_000.0;
    let note = format("speedscope").unwrap().left_out(&mixed).unwrap();
    assert!(note.starts_with("2.00 µs of aggregated spans inside kept ones count twice"), "{note}");
}

#[test]
fn deep_nesting_is_written_in_every_format() {
    let depth: u32 = 20_000;
    let spans = (0..depth).map(|at| common::span(1, at.wrapping_sub(1), 1 + u64::from(at), 100_000 - u64::from(at)));
    let lanes = vec![common::lane("main", spans.collect())];
    let trace = Trace { start: 1, end: 100_000, lanes, ..step() };
    for format in FORMATS {
        assert!(!written(format.name, &trace).is_empty(), "{}", format.name);
    }
}

#[test]
fn a_writer_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for format in FORMATS {
        assert!((format.write)(&step(), &mut Full).is_err(), "{}", format.name);
    }
}

proptest! {
    #[test]
    fn evented_profiles_open_and_close_in_order(trace in any_trace()) {
        let value: serde_json::Value = serde_json::from_slice(&written("speedscope", &trace)).unwrap();
        let mut begun = 0;
        for profile in value["profiles"].as_array().unwrap() {
            let mut open: Vec<u64> = Vec::new();
            let mut last = f64::NEG_INFINITY;
            for event in profile["events"].as_array().unwrap() {
                let (frame, at) = (event["frame"].as_u64().unwrap(), event["at"].as_f64().unwrap());
                prop_assert!(at >= last);
                last = at;
                if event["type"] == "O" { open.push(frame); begun += 1 } else { prop_assert_eq!(open.pop(), Some(frame)) }
            }
            prop_assert!(open.is_empty());
        }
        prop_assert_eq!(begun, trace.spans());
    }

    #[test]
    fn pprof_of_any_profile_has_its_time(trace in any_trace()) {
        let profile = Profile::decode(&unpacked(&written("pprof", &trace))[..]).unwrap();
        let calls: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
        prop_assert_eq!(calls as u64, trace.spans());
        let roots: f64 = trace.lanes.iter().flat_map(|lane| &lane.spans).filter(|span| span.parent == NONE).map(|span| trace.duration_ns(span)).sum();
        let own: i64 = profile.sample.iter().map(|sample| sample.value[1]).sum();
        let slack = profile.sample.len() as f64;
        prop_assert!(own as f64 >= roots - slack, "{} {}", own, roots);
        // On a clock that goes back, a nested span may end after its parent.
        let outlives = |lane: &TraceLane| {
            let parent = |span: &Span| lane.spans.get(span.parent as usize).map_or(u64::MAX, |parent| parent.end);
            lane.spans.iter().any(|span| span.end > parent(span))
        };
        prop_assert!(trace.lanes.iter().any(outlives) || own as f64 <= roots + slack, "{} {}", own, roots);
    }

    #[test]
    fn folded_stacks_of_any_profile_have_a_stack_and_a_number(trace in any_trace()) {
        for line in String::from_utf8(written("folded", &trace)).unwrap().lines() {
            let (stack, number) = line.rsplit_once(' ').unwrap();
            prop_assert!(!stack.is_empty() && number.parse::<u64>().is_ok(), "{}", line);
        }
    }

    #[test]
    fn every_format_takes_any_profile(trace in any_trace()) {
        for format in FORMATS {
            let mut out = Vec::new();
            prop_assert!((format.write)(&trace, &mut out).is_ok(), "{}", format.name);
        }
    }

    #[test]
    fn json_of_any_profile_is_read_by_any_reader(trace in any_trace()) {
        for name in ["json", "chrome"] {
            let bytes = written(name, &trace);
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
            prop_assert!(read_from(&bytes[..]).is_ok() || trace.spans() == 0);
        }
    }
}
