//! A web service on loopback that profiles one request in N.
//!
//! `example-service serve N` counts primes below a number (`/primes/100000`). It profiles one request in N. Their spans
//! go to the OpenTelemetry collector named by `OTEL_EXPORTER_OTLP_ENDPOINT`, or into the totals that `/metrics` shows
//! to Prometheus. `example-service load REQUESTS N` sends requests to such a service and exits, so that
//! `ellwand compare --command` can measure the cost of profiling.

use std::future::IntoFuture;
use std::io::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::{Router, routing::get};
use ellwand_profile::{Mode, Options, Profiler, Trace, profile, span};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Where profiled requests go.
struct Profiling {
    /// One request in this many is profiled; none if 0.
    one_in: u64,
    requests: AtomicU64,
    /// Totals of calls and times of all profiled requests, in constant memory.
    totals: Profiler,
    /// A collector that gets the spans of each profiled request.
    spans: Option<mpsc::Sender<Trace>>,
}

async fn profiled(State(profiling): State<Arc<Profiling>>, request: Request, next: Next) -> Response {
    let number = profiling.requests.fetch_add(1, Relaxed);
    if profiling.one_in == 0 || !number.is_multiple_of(profiling.one_in) {
        return next.run(request).await;
    }
    let Some(spans) = &profiling.spans else {
        return profiling.totals.instrument("request", next.run(request)).await;
    };
    let profiler = Profiler::new(Options { name: "example-service".into(), ..Options::default() });
    let response = profiler.instrument("request", next.run(request)).await;
    // A slow collector delays no request: what it does not accept is lost.
    let _ = spans.try_send(profiler.finish());
    response
}

#[profile]
fn sieve(below: usize) -> usize {
    let mut is_prime = vec![true; below.max(2)];
    is_prime[..2].fill(false);
    for n in (2..below).take_while(|n| n * n < below) {
        if is_prime[n] {
            is_prime[n * n..].iter_mut().step_by(n).for_each(|multiple| *multiple = false);
        }
    }
    let _span = span!("count", items = below);
    is_prime.iter().filter(|is_prime| **is_prime).count()
}

async fn primes(Path(below): Path<usize>) -> (StatusCode, String) {
    if below > 1_000_000 {
        return (StatusCode::BAD_REQUEST, format!("{below} is out of range; expected a number up to 1000000\n"));
    }
    (StatusCode::OK, format!("{}\n", sieve(below)))
}

async fn metrics(State(profiling): State<Arc<Profiling>>) -> ([(header::HeaderName, &'static str); 1], Vec<u8>) {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, written("prometheus", &profiling.totals.snapshot()))
}

fn written(format: &str, trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    let format = ellwand_trace::format(format).expect("Ellwand has this format");
    (format.write)(trace, &mut bytes).expect("a vector takes every byte");
    bytes
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends profiles to a collector, each as spans and as metrics.
async fn send(collector: String, mut profiles: mpsc::Receiver<Trace>) {
    let client = client();
    while let Some(trace) = profiles.recv().await {
        for (path, format) in [("v1/traces", "otlp"), ("v1/metrics", "otlp-metrics")] {
            let to = format!("{}/{path}", collector.trim_end_matches('/'));
            let request = Request::post(&to).header(header::CONTENT_TYPE, "application/x-protobuf");
            let Ok(request) = request.body(Full::from(written(format, &trace))) else {
                return eprintln!("OTEL_EXPORTER_OTLP_ENDPOINT: {collector} is not a URL; expected http://HOST:PORT");
            };
            match client.request(request).await {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => eprintln!("{to}: {}", answer.status()),
                Err(error) => eprintln!("{to}: {error}; is the collector running?"),
            }
        }
    }
}

fn service(one_in: u64) -> Router {
    let spans = std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().map(|collector| {
        let (spans, profiles) = mpsc::channel(64);
        tokio::spawn(send(collector, profiles));
        spans
    });
    let totals = Profiler::new(Options { name: "example-service".into(), ..Options::new(Mode::Aggregate) });
    let profiling = Arc::new(Profiling { one_in, requests: AtomicU64::new(0), totals, spans });
    let work =
        Router::new().route("/primes/{below}", get(primes)).layer(from_fn_with_state(profiling.clone(), profiled));
    work.merge(Router::new().route("/metrics", get(metrics)).with_state(profiling))
}

/// Sends requests one after another, as a client that waits for each answer.
async fn load(at: String, requests: u64) -> Result<()> {
    let client = client();
    for _ in 0..requests {
        let request = Request::get(&at).body(Full::default()).map_err(Error::other)?;
        let answer = client.request(request).await.map_err(Error::other)?.into_body().collect().await;
        let answer = answer.map_err(Error::other)?.to_bytes();
        assert_eq!(answer, "1229\n", "the number of primes below 10000");
    }
    Ok(())
}

fn usage() -> ! {
    eprintln!("usage: example-service serve N | load REQUESTS N; one request in N is profiled, none if N is 0");
    std::process::exit(2)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| usage());
    let (requests, one_in) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", one_in] => (None, number(one_in)),
        ["load", requests, one_in] => (Some(number(requests)), number(one_in)),
        _ => usage(),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let at = format!("http://{}", listener.local_addr()?);
    let server = axum::serve(listener, service(one_in)).into_future();
    let Some(requests) = requests else {
        println!("{at}");
        return server.await;
    };
    tokio::spawn(server);
    load(format!("{at}/primes/10000"), requests).await
}
