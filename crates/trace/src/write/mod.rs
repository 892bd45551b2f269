//! Writes profiles for other programs.

mod folded;
mod metrics;
mod otlp;
mod perfetto;
mod pprof;
mod protobuf;
mod speedscope;
mod table;
mod walk;

use std::io::{self, Write};

use ellwand_profile::Trace;

use crate::read::counted;

/// Counts that are not exported; other formats express causes as links.
const UNSEEN: [&str; 2] = ["freed_bytes", "cause"];

/// A format that profiles are written in.
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// Its purpose, and what it cannot hold.
    pub about: &'static str,
    /// True if aggregated spans are written too.
    pub aggregated: bool,
    /// Writes a profile.
    pub write: fn(&Trace, &mut dyn Write) -> io::Result<()>,
}

impl Format {
    /// What a file of this format omits from the profile or overstates, in one sentence.
    pub fn left_out(&self, trace: &Trace) -> Option<String> {
        let totals = trace.lanes.iter().flat_map(|lane| &lane.totals);
        let count = totals.fold(0_u64, |sum, total| sum.saturating_add(total.count));
        if count > 0 && !self.aggregated {
            let spans = counted(count, "aggregated span is", "aggregated spans are");
            return Some(format!("{spans} left out, because {} has no place for them", self.name));
        }
        let twice = if self.name == "speedscope" { speedscope::counted_twice(trace) } else { 0.0 };
        (twice > 0.0).then(|| {
            let time = ellwand_profile::table::time(twice);
            format!(
                "{time} of aggregated spans inside kept ones count twice, because {} has no negative times",
                self.name
            )
        })
    }
}

/// Every format. To add one, add a row.
pub const FORMATS: &[Format] = &[
    Format {
        name: "json",
        about: "everything, for `ellwand profile`, `ellwand view` and scripts (docs/profile-format.md)",
        aggregated: true,
        write: |trace, out| trace.write_json(out),
    },
    Format {
        name: "csv",
        about: "a row for each call path, for spreadsheets and data frames: calls, times, memory and work",
        aggregated: true,
        write: table::write,
    },
    Format {
        name: "chrome",
        about: "Chrome trace events, for chrome://tracing, Perfetto and VizTracer; without aggregated spans",
        aggregated: false,
        write: |trace, out| trace.write_chrome(&trace.name, out),
    },
    Format {
        name: "perfetto",
        about: "Perfetto protobuf, for ui.perfetto.dev and trace_processor; without aggregated spans",
        aggregated: false,
        write: perfetto::write,
    },
    Format {
        name: "speedscope",
        about: "speedscope, for www.speedscope.app; without details and links",
        aggregated: true,
        write: speedscope::write,
    },
    Format {
        name: "folded",
        about: "folded stacks with self times in nanoseconds, for flamegraph.pl and inferno; without times of day",
        aggregated: true,
        write: folded::write,
    },
    Format {
        name: "pprof",
        about: "pprof protobuf, for `go tool pprof` and pprof viewers: calls and self time by stack",
        aggregated: true,
        write: pprof::write,
    },
    Format {
        name: "otlp",
        about: "OpenTelemetry spans as protobuf, to POST to /v1/traces of a collector; without aggregated spans",
        aggregated: false,
        write: otlp::write,
    },
    Format {
        name: "otlp-metrics",
        about: "OpenTelemetry metrics as protobuf, to POST to /v1/metrics: calls, times and counters by operation",
        aggregated: true,
        write: metrics::write_otlp,
    },
    Format {
        name: "prometheus",
        about: "Prometheus text for a textfile collector: calls, times and counters by operation",
        aggregated: true,
        write: metrics::write_prometheus,
    },
];

/// The format with this name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}
