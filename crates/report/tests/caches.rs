//! Cold caches in every format: such rows are marked and compared with main memory.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::record::{Measurement, Record, Run, Settings};
use ellwand_core::{Better, Caches, Ceiling, CeilingKind, Parallelism, Reading, Work};
use ellwand_report::{FORMATS, Limit, Options, Report};

/// 64 KiB read and 64 KiB written: half of the example machine's L2 cache.
fn work() -> Work {
    Work::items("vectors", 1000).flops(1e4).bytes(64 << 10, 64 << 10)
}

fn record(caches: Caches, seconds: f64) -> Record {
    let mut run = common::run();
    run.settings = Settings { caches, ..run.settings };
    let measured = common::measured(&common::lattice_case("lattice-encode", 1000), "simd", seconds, work());
    Record { measurements: vec![Measurement { caches, ..measured }], ..of(run) }
}

fn of(run: Run) -> Record {
    Record {
        run,
        resumed: Vec::new(),
        resumed_revisions: Vec::new(),
        measurements: Vec::new(),
        comparisons: Vec::new(),
        spans: Vec::new(),
        warnings: Vec::new(),
        checked: true,
    }
}

fn written(report: &Report, format: &str) -> String {
    let format = FORMATS.iter().find(|known| known.name == format).unwrap();
    let mut out = Vec::new();
    (format.write)(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn few_slots_name_no_limit_and_no_quantiles() {
    let table = |slots: usize| {
        let mut record = record(Caches::Cold, 20e-6);
        record.measurements[0].samples.truncate(slots);
        let report = Report::from_records(&[record], &Options::default()).unwrap();
        let limit = report.workloads[0].rows[0].diagnosis.as_ref().unwrap().limit;
        assert_eq!(limit == Limit::FewSlots, slots < 3);
        assert_eq!(
            report.findings.iter().any(|finding| ["bound-by", "far-from-ceiling"].contains(&finding.rule.as_str())),
            slots > 2,
            "{:?}",
            report.findings
        );
        written(&report, "table")
    };
    for (slots, note) in [(1, "1 slot"), (2, "2 slots")] {
        let table = table(slots);
        let row = table.lines().find(|line| line.contains("simd")).unwrap();
        assert!(row.ends_with(note) && row.contains("few slots"), "{table}");
        assert!(!row.contains('–') && !row.contains("-bound"), "{row}");
    }
    assert!(!table(3).contains("3 slots"));
}

#[test]
fn every_format_names_cold_caches_and_none_names_warm_ones_in_a_table() {
    let cold = Report::from_records(&[record(Caches::Cold, 20e-6)], &Options::default()).unwrap();
    let warm = Report::from_records(&[record(Caches::Warm, 20e-6)], &Options::default()).unwrap();
    for format in ["table", "markdown"] {
        assert!(written(&cold, format).contains("cold caches"), "{}", written(&cold, format));
        assert!(!written(&warm, format).contains("cold"), "{}", written(&warm, format));
    }
    assert!(written(&cold, "markdown").contains("slots of one iteration, the caches flushed before each"));
    for (report, word) in [(&cold, "cold"), (&warm, "warm")] {
        let json: serde_json::Value = serde_json::from_str(&written(report, "json")).unwrap();
        assert_eq!(json["workloads"][0]["rows"][0]["caches"], word);
        let csv = written(report, "csv");
        let mut lines = csv.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let at = lines.next().unwrap().iter().position(|name| name == "caches").unwrap();
        assert_eq!(lines.next().unwrap()[at], word, "{csv}");
    }
    let both = [record(Caches::Warm, 20e-6), record(Caches::Cold, 40e-6)];
    let both = written(&Report::from_records(&both, &Options::default()).unwrap(), "table");
    let rows: Vec<&str> = both.lines().filter(|line| line.contains("simd")).collect();
    assert!(rows.iter().any(|row| row.contains("warm")) && rows.iter().any(|row| row.contains("cold")), "{both}");
}

#[test]
fn cold_reads_are_compared_with_main_memory() {
    let row = |caches| {
        let report = Report::from_records(&[record(caches, 20e-6)], &Options::default()).unwrap();
        report.workloads[0].rows[0].clone()
    };
    let (warm, cold) = (row(Caches::Warm), row(Caches::Cold));
    let level = |row: &ellwand_report::Row| row.roof.as_ref().unwrap().ceiling.level.clone();
    assert_eq!(level(&cold), "DRAM");
    assert_ne!(level(&warm), "DRAM");
    let limit = |row: &ellwand_report::Row| row.roof.as_ref().unwrap().limit_s;
    assert!(limit(&cold) > limit(&warm), "{} {}", limit(&cold), limit(&warm));
    assert_eq!(cold.diagnosis.as_ref().unwrap().level.as_deref(), Some("DRAM"));
    assert!(cold.median("roofline-fraction").unwrap() > warm.median("roofline-fraction").unwrap());
}

#[test]
fn thread_wake_up_is_named_only_if_it_explains_the_time() {
    let limit_of = |seconds: f64| {
        let mut record = record(Caches::Cold, seconds);
        let like = record.run.environment.ceilings[0].clone();
        let wake = |kind, value| Ceiling {
            kind,
            parallelism: Parallelism::Many,
            value,
            level: String::new(),
            footprint_bytes: 0,
            ..like.clone()
        };
        record.run.environment.ceilings.extend([wake(CeilingKind::Wake, 2e-6), wake(CeilingKind::ColdWake, 28e-6)]);
        let measured = common::measured(&common::lattice_case("lattice-encode", 1000), "parallel", seconds, work());
        record.measurements = vec![Measurement { caches: Caches::Cold, ..measured }];
        let report = Report::from_records(&[record], &Options::default()).unwrap();
        report.workloads[0].rows[0].diagnosis.as_ref().unwrap().limit
    };
    assert_eq!(limit_of(40e-6), Limit::ThreadWake, "70 %");
    assert_eq!(limit_of(170e-6), Limit::Unexplained, "16 %: something else takes the time");
}

#[test]
fn a_time_from_cold_caches_is_not_attributed_to_instructions() {
    let placed = |caches, per_cycle: Option<f64>| {
        let mut record = record(caches, 20e-6);
        let like = record.run.environment.ceilings[0].clone();
        let load = |footprint_bytes, level: &str, value| Ceiling {
            kind: CeilingKind::Latency,
            footprint_bytes,
            level: level.into(),
            value,
            ..like.clone()
        };
        record.run.environment.ceilings.extend([load(512 << 10, "L2", 5e-9), load(64 << 20, "DRAM", 150e-9)]);
        let m = &mut record.measurements[0];
        m.work = work().in_order();
        for (id, value) in [("cycles", Some(6e4)), ("instructions", per_cycle.map(|rate| rate * 6e4))] {
            let reading = |value| Reading::measured(id, id, "", Better::Lower, value, "");
            m.readings.extend(value.map(reading));
        }
        ellwand_report::place(m, &record.run.environment).unwrap()
    };
    // At memory bandwidth the bytes take a seventh of the time; line by line they would take ten times as long.
    for per_cycle in [None, Some(0.5), Some(2.0)] {
        let cold = placed(Caches::Cold, per_cycle);
        assert_eq!(cold.limit, Limit::Unexplained, "{cold:#?}");
        assert_ne!(placed(Caches::Warm, per_cycle).limit, Limit::Unexplained, "{per_cycle:?}");
    }
    assert_eq!(placed(Caches::Cold, Some(3.0)).limit, Limit::Issue);
    // The four lines of the smallest case explain nothing, and code, page tables and scratch memory are not counted.
    let mut few = record(Caches::Cold, 7.2e-6);
    let like = few.run.environment.ceilings[0].clone();
    few.run.environment.ceilings.push(Ceiling { kind: CeilingKind::Latency, value: 150e-9, ..like });
    few.measurements[0].work = Work::items("vectors", 10).flops(80.0).bytes(160, 40).in_order();
    let cold = ellwand_report::place(&few.measurements[0], &few.run.environment).unwrap();
    assert_eq!(cold.limit, Limit::Unexplained, "{cold:#?}");
    assert!(cold.description().contains("code, page tables"), "{}", cold.description());
    assert!(cold.changes[0].experiment.contains("warm caches"), "{cold:#?}");
    few.measurements[0].caches = Caches::Warm;
    let warm = ellwand_report::place(&few.measurements[0], &few.run.environment).unwrap();
    assert_eq!(warm.limit, Limit::Instructions, "{warm:#?}");
    assert!(!warm.description().contains("cold"), "{}", warm.description());
    // The advice on the distance to the ceiling refers to memory too.
    let report = Report::from_records(&[record(Caches::Cold, 40e-6)], &Options::default()).unwrap();
    let far = report.findings.iter().find(|finding| finding.rule == "far-from-ceiling").unwrap();
    assert!(far.next_experiment.contains("wait for memory latency"), "{far:#?}");
}
