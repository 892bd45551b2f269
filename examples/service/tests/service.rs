//! The service as its users see it: answers, totals for Prometheus, spans at a receiver of OpenTelemetry.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

struct Service {
    child: Child,
    /// `127.0.0.1:PORT`
    at: String,
}

impl Service {
    fn start(one_in: &str, collector: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-service"));
        command.args(["serve", one_in]).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.envs(collector.map(|collector| ("OTEL_EXPORTER_OTLP_ENDPOINT", collector)));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let at = first.trim().trim_start_matches("http://").to_string();
        Self { child, at }
    }

    /// Status and body.
    fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split_whitespace().nth(1).unwrap().to_string(), body.to_string())
    }

    fn errors(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn answer(status: &str, body: &str) -> (String, String) {
    (status.into(), body.into())
}

#[test]
fn one_request_in_three_is_in_the_totals_for_prometheus() {
    let service = Service::start("3", None);
    for (below, primes) in
        [("0", "0\n"), ("2", "0\n"), ("3", "1\n"), ("10", "4\n"), ("100", "25\n"), ("10000", "1229\n")]
    {
        assert_eq!(service.get(&format!("/primes/{below}")), answer("200", primes));
    }
    let too_large = "1000001 is out of range; expected a number up to 1000000\n";
    assert_eq!(service.get("/primes/1000001"), answer("400", too_large));
    let (_, metrics) = service.get("/metrics");
    let calls = |operation: &str| {
        let is_own = |line: &&str| line.starts_with("ellwand_span_seconds_count") && line.contains(operation);
        metrics.lines().find(is_own).and_then(|line| line.rsplit(' ').next()).map(str::to_string)
    };
    // The first, the fourth and the seventh request; the seventh has no work.
    assert_eq!(calls("operation=\"request\"").as_deref(), Some("3"), "{metrics}");
    assert_eq!(calls("operation=\"sieve\"").as_deref(), Some("2"), "{metrics}");
    assert_eq!(calls("operation=\"count\"").as_deref(), Some("2"), "{metrics}");
}

#[test]
fn without_profiling_there_are_no_spans() {
    let service = Service::start("0", None);
    assert_eq!(service.get("/primes/10"), answer("200", "4\n"));
    assert!(!service.get("/metrics").1.contains("operation="));
}

/// The receiver from the tests of our exports, with a collector in front of it.
#[test]
fn spans_of_a_request_reach_a_collector() {
    let python = std::env::var("ELLWAND_PYTHON").unwrap_or_else(|_| "python3".into());
    let needs = "import rotel, opentelemetry.proto.collector.trace.v1.trace_service_pb2";
    if !Command::new(&python).args(["-c", needs]).output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("ELLWAND_REQUIRE").is_none(), "{python} has no rotel or no opentelemetry-proto");
        println!("skipped: {python} has no rotel or no opentelemetry-proto (pip install rotel opentelemetry-proto)");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/trace/tests/readers/receive_otlp.py");
    let mut receiver = Command::new(&python).args([script, "collector"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(receiver.stdout.take().unwrap());
    let mut port = String::new();
    said.read_line(&mut port).unwrap();
    let service = Service::start("1", Some(&format!("http://127.0.0.1:{}", port.trim())));
    assert_eq!(service.get("/primes/100"), answer("200", "25\n"));
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert!(receiver.wait().unwrap().success());
    for part in
        ["service.name='example-service'", "trace 0: request in nothing", "trace 0: sieve in request", "count in sieve"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.contains("ellwand.span.items [1]") && text.contains("operation='count'"), "{text}");
}

#[test]
fn a_collector_that_is_down_is_named_and_stops_no_request() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut service = Service::start("1", Some(&format!("http://{free}")));
    assert_eq!(service.get("/primes/10"), answer("200", "4\n"));
    let mut line = String::new();
    service.errors().read_line(&mut line).unwrap();
    assert!(line.contains("/v1/traces") && line.contains("is the collector running?"), "{line}");
    assert_eq!(service.get("/primes/10"), answer("200", "4\n"));
}

#[test]
fn a_load_ends_and_wrong_arguments_print_the_usage() {
    let run = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_example-service")).args(words).output().unwrap();
    assert!(run(&["load", "20", "7"]).status.success());
    for words in [&[][..], &["serv"], &["serve", "x"], &["serve"], &["load", "3"], &["load", "3", "1", "1"]] {
        let output = run(words);
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("usage: "), "{words:?}");
    }
}
