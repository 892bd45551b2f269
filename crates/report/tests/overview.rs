//! One line per case: what a narrow terminal keeps, and why a line names no fastest implementation.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::{Case, Measurement, Outcome, Parallelism, Work};
use ellwand_report::{Options, Report, format};

fn table(measurements: &[Measurement], width: usize, full: bool) -> String {
    let record = common::through_text(&common::run(), measurements);
    let options = Options { width: Some(width), full, ..Options::default() };
    let report = Report::from_records(&[record], &options).unwrap();
    let mut out = Vec::new();
    (format("table").unwrap().write)(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Workloads whose sizes differ on many axes, with two cases each that only `skip` distinguishes.
fn workloads(count: i64) -> Vec<Measurement> {
    let mut all = Vec::new();
    for workload in 0..count {
        for skip in ["on", "off"] {
            let mut params = vec![("skip".to_string(), skip.into())];
            let axes = ["samples", "electrodes", "enc-spikes", "features", "dec-spikes", "smoothing", "neighbours"];
            params.extend(axes.map(|axis| (axis.to_string(), (100 + workload).into())));
            let case = Case::new(&format!("kernel-{workload}"), params);
            for (name, seconds) in [("reference", 9e-3), ("scalar", 4e-3), ("simd", 1e-3)] {
                all.push(common::measured(&case, name, seconds, Work::items("points", 100)));
            }
        }
    }
    all
}

/// The heading of the first table with this column.
fn heading<'a>(text: &'a str, column: &str) -> &'a str {
    text.lines().find(|line| line.split("  ").any(|head| head.trim() == column)).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn time_and_speed_up_stay_and_axes_that_distinguish_no_cases_go_first() {
    let text = table(&workloads(5), 80, false);
    let head = heading(&text, "fastest");
    for kept in ["workload", "skip", "simd", "speed-up"] {
        assert!(head.contains(kept), "{kept}: {text}");
    }
    assert!(!head.contains("neighbours"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("hidden at this width: neighbours, smoothing, dec-spikes"), "{words}");
    for width in [60, 80, 120] {
        for text in [table(&workloads(5), width, false), table(&workloads(1), width, true)] {
            assert_eq!(text.lines().find(|line| line.chars().count() > width), None, "{width}: {text}");
        }
    }
}

#[test]
fn a_table_of_one_workload_that_hides_an_axis_names_it() {
    let names = ["a-long-name-of-an-axis", "another-long-name", "the-third-long-name"];
    let case = |value: i64| {
        // Each case differs from the others on a separate axis.
        let params =
            names.iter().enumerate().map(|(at, name)| (name.to_string(), i64::from(at as i64 == value).into()));
        Case::new("kernel", params.collect())
    };
    let rows: Vec<Measurement> =
        (0..3).map(|value| common::measured(&case(value), "simd", 1e-3, Work::items("points", 100))).collect();
    let text = table(&rows, 60, false);
    assert!(heading(&text, "implementation").contains("time"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("hidden at this width: the-third-long-name"), "{text}");
    assert_eq!(text.lines().find(|line| line.chars().count() > 60), None, "{text}");
}

#[test]
fn a_line_without_a_fastest_implementation_has_its_reason_below() {
    let mut rows = workloads(5);
    // Other programs took three quarters of the processors from `parallel`, which may be faster without them.
    let mut parallel = Measurement { implementation: "parallel".into(), ..rows[2].clone() };
    parallel.parallelism = Parallelism::Many;
    for sample in &mut parallel.samples {
        sample.cpu_ns = Some(sample.wall_ns / 2);
        sample.switches = Some(sample.wall_ns / 1_000_000 + 50);
    }
    rows.push(parallel);
    let text = table(&rows, 120, false);
    let why = "! fastest –: other programs held up parallel, which may be faster without them (1 case)";
    assert!(text.contains(why), "{text}");
    assert!(!table(&workloads(5), 120, false).contains("fastest –"));
}

#[test]
fn without_measurements_reasons_replace_the_table() {
    let absent = |m: Measurement| {
        let outcome = Outcome::Unsupported { why: "no CUDA device".into() };
        common::other(Measurement { implementation: "cuda".into(), ..m }, outcome)
    };
    let rows: Vec<Measurement> = (1..=20)
        .map(|batch| common::measured(&common::lattice_case("gelu", batch), "simd", 1e-3, Work::items("rows", 1)))
        .map(absent)
        .collect();
    let text = table(&rows, 120, false);
    assert!(text.contains("! cuda unsupported: no CUDA device (20 cases)"), "{text}");
    assert!(!text.contains("fastest") && !text.contains("speed-up"), "{text}");
}

#[test]
fn a_single_case_more_has_a_line() {
    let of = |cases: i64| {
        let rows = (1..=cases).flat_map(|batch| {
            let case = common::lattice_case("gelu", batch);
            ["scalar", "simd"].map(|name| common::measured(&case, name, 1e-3, Work::items("rows", 1)))
        });
        table(&rows.collect::<Vec<_>>(), 120, false)
    };
    assert!(!of(12).contains("more cases") && of(12).contains("\n   12  "), "{}", of(12));
    assert!(of(13).contains("2 more cases"), "{}", of(13));
}

#[test]
fn each_workload_has_its_baseline_in_the_table_and_in_the_note() {
    let mut rows = workloads(5);
    for row in &mut rows {
        let own = if row.case.workload == "kernel-3" { "batch" } else { "scalar" };
        row.baseline = own.into();
        if row.implementation == "scalar" {
            row.implementation = own.into();
        }
    }
    let text = table(&rows, 66, false);
    let head = heading(&text, "fastest");
    for kept in ["scalar", "batch", "simd", "speed-up"] {
        assert!(head.contains(kept), "{kept}: {text}");
    }
    assert!(!head.contains("reference"), "{text}");
    assert!(
        text.replace("\n  ", " ").contains("speed-up of the fastest over scalar, in kernel-3 over batch"),
        "{text}"
    );
}

#[test]
fn a_remark_below_a_shared_table_names_its_workloads_and_equal_ones_are_one() {
    let mut rows = workloads(5);
    let slowed = |some: u32| format!("throttled: the device slowed itself down in {some} of 11 slots");
    for row in rows.iter_mut().filter(|row| row.implementation == "simd") {
        match row.case.workload.as_str() {
            "kernel-0" => row.warnings = vec![slowed(4), "warned everywhere".into()],
            "kernel-3" => row.warnings = vec![slowed(5), "warned everywhere".into()],
            _ => row.warnings = vec!["warned everywhere".into()],
        }
    }
    rows[7].warnings.push("warned once".into());
    let text = table(&rows, 200, false);
    let line = |start: &str| text.lines().filter(|line| line.contains(start)).collect::<Vec<_>>();
    let throttled =
        "! throttled: the device slowed itself down in 18 of 44 slots (4 of 30 rows: kernel-0, kernel-3; simd)";
    assert_eq!(line("throttled"), [throttled], "{text}");
    assert_eq!(line("warned everywhere"), ["! warned everywhere (10 of 30 rows: simd)"], "{text}");
    assert_eq!(line("warned once"), ["! warned once (1 of 30 rows: kernel-1; scalar, skip on)"], "{text}");
}

#[test]
fn wrong_answers_of_an_implementation_are_one_line() {
    let wrong = |m: &Measurement, value: i64| {
        let verdict = ellwand_core::Verdict::wrong(format!("output y[0] is {value}, the reference 1"));
        common::other(m.clone(), Outcome::Wrong { verdict })
    };
    let rows: Vec<Measurement> = (1..=4)
        .flat_map(|batch| {
            let case = common::lattice_case("gelu", batch);
            let [simd, bad, worse] =
                ["simd", "bad", "worse"].map(|name| common::measured(&case, name, 1e-3, Work::items("rows", 1)));
            [simd, wrong(&bad, 5 + batch), wrong(&worse, 3)]
        })
        .collect();
    let text = table(&rows, 120, false);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" wrong: ")).collect();
    let bad = "! bad wrong: output y[0] is 6, the reference 1 (batch 1; also 3 more cases)";
    assert_eq!(lines, [bad, "! worse wrong: output y[0] is 3, the reference 1 (4 cases)"], "{text}");
}
