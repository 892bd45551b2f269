//! Records of runs that never took place.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ellwand_core::record::{CaseRecord, Environment, Param, Record, Revision, Run, Settings, line, parse, seal};
use ellwand_core::{Caches, Measurement, Outcome, Parallelism, Sample, Work};

/// Start of the first run, in milliseconds since 1970.
pub(crate) const START: u64 = 1_790_000_000_000;

/// A run with the times of its processes in seconds: workload, value of the axis `n`, implementation, times.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) id: String,
    pub(crate) started: u64,
    pub(crate) commit: Option<(String, u64)>,
    pub(crate) cpu: String,
    pub(crate) times: Vec<(String, i64, String, Vec<f64>)>,
}

impl Fake {
    /// Run number `n` of a series: one per day, each at another commit.
    pub(crate) fn new(n: u64) -> Self {
        let started = START + n * 86_400_000;
        Self {
            id: format!("run-{n:04}"),
            started,
            commit: Some((format!("{n:040x}"), started - 3_600_000)),
            cpu: "Example Processor".into(),
            times: Vec::new(),
        }
    }

    /// Adds an implementation of the workload `sort` at a case.
    pub(crate) fn sort(mut self, n: i64, implementation: &str, seconds: &[f64]) -> Self {
        self.times.push(("sort".into(), n, implementation.into(), seconds.to_vec()));
        self
    }

    pub(crate) fn text(&self) -> String {
        let run = Run {
            version: ellwand_core::record::VERSION,
            id: self.id.clone(),
            command: vec!["ellwand".into(), "run".into(), "sort".into()],
            started_unix_ms: self.started,
            ellwand: "0.1.0".into(),
            seed: 1,
            environment: Environment { cpu: self.cpu.clone(), cores: 2, ..Environment::default() },
            settings: Settings {
                slot_min_ns: 1,
                samples_min: 1,
                rounds_max: 1,
                case_budget_ns: 1,
                warm_up_ns: 1,
                caches: Caches::Warm,
                counts: None,
                allowed: None,
            },
            revision: self.commit.as_ref().map(|(commit, committed_unix_ms)| Revision {
                commit: commit.clone(),
                committed_unix_ms: *committed_unix_ms,
                changed: false,
            }),
            certificate: None,
            shard: None,
            views: Vec::new(),
        };
        let mut text = seal(&line(&run).unwrap()) + "\n";
        for (workload, n, implementation, seconds) in &self.times {
            text += &seal(&line(&measurement(workload, *n, implementation, seconds)).unwrap());
            text.push('\n');
        }
        text
    }

    pub(crate) fn record(&self) -> Record {
        parse(&self.text()).unwrap()
    }

    /// Writes the record into a directory.
    pub(crate) fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join(format!("{}-made.jsonl", self.id));
        std::fs::write(&path, self.text()).unwrap();
        path
    }
}

fn measurement(workload: &str, n: i64, implementation: &str, seconds: &[f64]) -> Measurement {
    let sample = |(block, seconds): (usize, &f64)| Sample {
        block: block as u32,
        iterations: 1000,
        wall_ns: (seconds * 1e12).round() as u64,
        ..Sample::default()
    };
    Measurement {
        case: CaseRecord {
            id: format!("{workload}/n={n}"),
            workload: workload.into(),
            params: vec![Param { axis: "n".into(), unit: String::new(), value: ellwand_core::Value::Int(n) }],
            neutral: Vec::new(),
            input: None,
        },
        implementation: implementation.into(),
        device: "cpu".into(),
        parallelism: Parallelism::Single,
        caches: Caches::Warm,
        what_ran: String::new(),
        baseline: "plain".into(),
        work: Work::items("row", 1),
        // No times: the implementation failed.
        outcome: if seconds.is_empty() { Outcome::Failed { error: "out of memory".into() } } else { Outcome::Measured },
        check: None,
        prepare_ns: None,
        first_run_ns: None,
        samples: seconds.iter().enumerate().map(sample).collect(),
        basis: None,
        settling: None,
        resolution_ns: None,
        readings: Vec::new(),
        warnings: Vec::new(),
        session: 0,
    }
}
