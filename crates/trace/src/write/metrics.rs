//! Totals of operations as metrics: for OpenTelemetry in protobuf (the body of a POST to `/v1/metrics`), and for Prometheus
//! as text.

use std::collections::HashMap;
use std::io::{self, Write};

use ellwand_profile::{Row, Trace, Value};

use crate::gaps::Gaps;

use super::otlp::{attribute, resource, unix_ns};
use super::protobuf::Message;

/// A total that only grows: its name in OpenTelemetry (the name in Prometheus has underscores and the unit), unit,
/// meaning and value.
type Counter = (&'static str, &'static str, &'static str, fn(&Row) -> Option<f64>);

const COUNTERS: [Counter; 5] = [
    ("self_time", "s", "Time inside an operation and in no other", |row| Some(row.self_ns * 1e-9)),
    ("cpu_time", "s", "CPU time of an operation", |row| Some(row.cpu_ns? * 1e-9)),
    ("bytes", "By", "Bytes that an operation declares", |row| some(row.counters.bytes as f64)),
    ("items", "1", "Items that an operation declares", |row| some(row.counters.items as f64)),
    ("flops", "1", "Operations on floats that it declares", |row| some(row.counters.flops)),
];

const DURATION: &str = "Time inside an operation, with the operations inside it";

fn some(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// An operation that ended at least once, and its identity.
struct Operation {
    labels: Vec<(&'static str, String)>,
    row: Row,
}

impl Operation {
    /// Seconds of all calls that enter the count and the quantiles. The row's total excludes calls nested in calls of
    /// the same operation.
    fn sum(&self) -> f64 {
        self.row.mean_ns * self.row.count as f64 * 1e-9
    }

    fn quantiles(&self) -> [(f64, f64); 3] {
        [(0.5, self.row.median_ns), (0.9, self.row.p90_ns), (0.99, self.row.p99_ns)].map(|(q, ns)| (q, ns * 1e-9))
    }
}

fn operations(trace: &Trace) -> Vec<Operation> {
    let mut seen: HashMap<Vec<(&'static str, String)>, u32> = HashMap::new();
    let rows = trace.summary_by_site().rows.into_iter().filter(|row| row.count > 0);
    let operation = |row: Row| {
        let mut labels = vec![("operation", row.name().to_string()), ("kind", row.kind.word().to_string())];
        if row.line > 0 {
            labels.extend([("file", row.file.clone()), ("line", row.line.to_string())]);
        }
        // Two places may have the same name, but a series must be unique.
        let count = seen.entry(labels.clone()).or_default();
        *count += 1;
        if *count > 1 {
            labels.push(("place", count.to_string()));
        }
        Operation { labels, row }
    };
    rows.map(operation).collect()
}

pub(super) fn write_otlp(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let operations = operations(trace);
    let mut request = Message::default();
    resource(trace, &mut request, |scope| {
        metric(scope, "duration", "s", DURATION, |metric| {
            metric.message(11, |summary| {
                for operation in &operations {
                    summary.message(1, |point| {
                        place(trace, operation, point);
                        point.fixed64(4, operation.row.count).double(5, operation.sum());
                        for (quantile, seconds) in operation.quantiles() {
                            point.message(6, |value| {
                                value.double(1, quantile).double(2, seconds);
                            });
                        }
                    });
                }
            });
        });
        for (name, unit, about, of) in &COUNTERS {
            let points: Vec<_> = operations.iter().filter_map(|one| Some((one, of(&one.row)?))).collect();
            if points.is_empty() {
                continue;
            }
            metric(scope, name, unit, about, |metric| {
                metric.message(7, |sum| {
                    for (operation, value) in points {
                        sum.message(1, |point| {
                            place(trace, operation, point);
                            point.double(4, value);
                        });
                    }
                    // Cumulative since the start of the profile, and monotonic.
                    sum.uint(2, 2).uint(3, 1);
                });
            });
        }
    });
    out.write_all(&request.bytes)
}

fn metric(scope: &mut Message, name: &str, unit: &str, about: &str, data: impl FnOnce(&mut Message)) {
    scope.message(2, |metric| {
        metric.text(1, &format!("ellwand.span.{name}")).text(2, about).text(3, unit);
        data(metric);
    });
}

/// Times and attributes of a data point, in the fields that all kinds of points share.
fn place(trace: &Trace, operation: &Operation, point: &mut Message) {
    point.fixed64(2, unix_ns(trace, trace.start)).fixed64(3, unix_ns(trace, trace.end));
    for (name, value) in &operation.labels {
        attribute(point, 7, name, &Value::Text(value.clone()));
    }
}

pub(super) fn write_prometheus(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let operations = operations(trace);
    head(out, "ellwand_span_seconds", "summary", DURATION)?;
    for operation in &operations {
        for (quantile, seconds) in operation.quantiles() {
            let labels = labels(operation, &[("quantile", &quantile.to_string())]);
            writeln!(out, "ellwand_span_seconds{labels} {seconds}")?;
        }
        let labels = labels(operation, &[]);
        writeln!(out, "ellwand_span_seconds_sum{labels} {}", operation.sum())?;
        writeln!(out, "ellwand_span_seconds_count{labels} {}", operation.row.count)?;
    }
    for (name, unit, about, of) in &COUNTERS {
        let name = match *unit {
            "s" => format!("ellwand_span_{}_seconds_total", name.trim_end_matches("_time")),
            _ => format!("ellwand_span_{name}_total"),
        };
        let points: Vec<_> = operations.iter().filter_map(|one| Some((one, of(&one.row)?))).collect();
        if points.is_empty() {
            continue;
        }
        head(out, &name, "counter", about)?;
        for (operation, value) in points {
            writeln!(out, "{name}{} {value}", labels(operation, &[]))?;
        }
    }
    let gaps = Gaps::of(trace);
    let missing = [
        (
            "dropped",
            "Spans that did not fit into the profile: lost, or only in the totals of their operation",
            trace.dropped(),
        ),
        ("lost", "Spans that were lost: calls and times lack them", gaps.lost),
        ("sampled_out", "Outermost spans that sampling left out: calls and times lack them", gaps.sampled_out),
    ];
    for (name, about, value) in missing {
        head(out, &format!("ellwand_spans_{name}_total"), "counter", about)?;
        writeln!(out, "ellwand_spans_{name}_total {value}")?;
    }
    head(out, "ellwand_profile_seconds", "gauge", "Elapsed time of the profile")?;
    writeln!(out, "ellwand_profile_seconds {}", trace.wall_ns() * 1e-9)
}

fn head(out: &mut dyn Write, name: &str, kind: &str, about: &str) -> io::Result<()> {
    writeln!(out, "# HELP {name} {about}\n# TYPE {name} {kind}")
}

/// `{operation="step",line="7"}`
fn labels(operation: &Operation, more: &[(&str, &str)]) -> String {
    let own = operation.labels.iter().map(|(name, value)| (*name, value.as_str()));
    let pair = |(name, value): (&str, &str)| {
        format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    };
    format!("{{{}}}", own.chain(more.iter().copied()).map(pair).collect::<Vec<_>>().join(","))
}
