//! What the model computes from records.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::record::{Record, parse};
use ellwand_core::{Case, Measurement, Outcome, Work};
use ellwand_report::{Options, Report, ReportError, Row};
use proptest::prelude::*;

fn report_of(measurements: &[Measurement]) -> Report {
    Report::from_records(&[common::through_text(&common::run(), measurements)], &Options::default()).unwrap()
}

fn row<'a>(report: &'a Report, implementation: &str) -> &'a Row {
    report.workloads[0].rows.iter().find(|row| row.implementation == implementation).unwrap()
}

fn pair(base_s: f64, own_s: f64) -> Vec<Measurement> {
    let case = common::lattice_case("w", 10);
    let work = Work::items("vectors", 10).flops(600.0).bytes(160, 20);
    vec![common::measured(&case, "reference", base_s, work.clone()), common::measured(&case, "simd", own_s, work)]
}

#[test]
fn speed_up_pairs_samples_by_round() {
    let mut both = pair(8e-6, 2e-6);
    // A disturbance that slows both in half of the rounds must not matter. The ratio of medians would be right only by
    // luck; the ratio by round always is.
    for measurement in &mut both {
        for sample in &mut measurement.samples {
            sample.wall_ns = if measurement.implementation == "reference" { 8000 } else { 2000 };
            sample.iterations = 1;
            if sample.round % 2 == 0 {
                sample.wall_ns *= 3;
            }
        }
    }
    // One has two samples fewer: only common rounds count.
    both[1].samples.truncate(18);
    let report = report_of(&both);
    let speedup = &row(&report, "simd").speedup;
    assert_eq!((speedup.ratio, speedup.low, speedup.high, speedup.pairs), (Some(4.0), Some(4.0), Some(4.0), 18));
    assert!(row(&report, "reference").speedup.is_baseline);
    assert!(row(&report, "simd").best);
}

#[test]
fn rounds_of_different_commands_are_not_paired() {
    let measured = pair(4e-6, 1e-6);
    let line = |entry: &Measurement| ellwand_core::record::line(entry).unwrap();
    let run = ellwand_core::record::line(&common::run()).unwrap();
    let of = |lines: &[&str]| {
        let record = ellwand_core::record::parse(&(lines.join("\n") + "\n")).unwrap();
        Report::from_records(&[record], &Options::default()).unwrap()
    };
    let (base, own) = (line(&measured[0]), line(&measured[1]));
    let resumed = of(&[&run, &base, &run, &own]);
    let speedup = &row(&resumed, "simd").speedup;
    assert_eq!((speedup.ratio, speedup.low, speedup.high, speedup.pairs), (None, None, None, 0));
    let why = "reference and simd were measured by different commands of this record (`run --resume`)";
    assert!(speedup.unavailable.as_deref().unwrap().starts_with(why), "{speedup:?}");
    assert_eq!(row(&resumed, "reference").speedup.ratio, Some(1.0));
    for format in
        ellwand_report::FORMATS.iter().filter(|format| !["seed-json", "seed-table", "html"].contains(&format.name))
    {
        let mut text = Vec::new();
        (format.write)(&resumed, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(why), "{}: {text}", format.name);
    }
    // Complete cells of one command keep their ratios, whichever run line they follow.
    for lines in [[&run, &run, &base, &own], [&run, &base, &own, &run]] {
        let report = of(&lines.map(|line| line.as_str()));
        assert_eq!(row(&report, "simd").speedup.pairs, 20);
        assert!(row(&report, "simd").warnings.is_empty());
    }
}

#[test]
fn a_baseline_that_was_not_measured_gives_the_reason() {
    let mut both = pair(8e-6, 2e-6);
    both[0] = common::other(both[0].clone(), Outcome::Failed { error: "it stopped".into() });
    let report = report_of(&both);
    let speedup = &row(&report, "simd").speedup;
    assert_eq!(speedup.ratio, None);
    assert_eq!(speedup.unavailable.as_deref(), Some("reference is failed at this case"));
}

#[test]
fn the_reader_may_choose_the_baseline() {
    let record = common::through_text(&common::run(), &pair(8e-6, 2e-6));
    let options = Options { baseline: Some("simd".into()), ..Options::default() };
    let report = Report::from_records(std::slice::from_ref(&record), &options).unwrap();
    let ratio = row(&report, "reference").speedup.ratio.unwrap();
    assert!((ratio - 0.25).abs() < 0.02, "{ratio}");
    let options = Options { baseline: Some("smid".into()), ..Options::default() };
    let error = Report::from_records(&[record], &options).unwrap_err().to_string();
    assert!(
        error.starts_with("baseline: ") && error.contains("'smid'") && error.contains("did you mean simd?"),
        "{error}"
    );
    assert!(matches!(Report::from_records(&[], &Options::default()), Err(ReportError::NoRecords)));
}

#[test]
fn varying_axes_are_separated_from_constant_ones() {
    let report = report_of(&common::lattice("lattice-encode", 1.0));
    let section = &report.workloads[0];
    assert_eq!(section.swept.iter().map(|axis| axis.name.as_str()).collect::<Vec<_>>(), ["batch"]);
    assert_eq!(section.swept[0].values, ["1", "10", "100", "1000", "10000"]);
    assert!(section.fixed_line().starts_with("lattice D4 · q 4 · levels 2"));
}

#[test]
fn an_axis_that_only_some_cases_have_varies() {
    let mut all = pair(8e-6, 2e-6);
    all.extend(pair(9e-6, 3e-6).into_iter().map(|mut m| {
        m.case.params.retain(|param| param.axis != "data");
        m.case.id = "w/older".into();
        m
    }));
    let report = report_of(&all);
    assert_eq!(report.workloads[0].swept.iter().map(|axis| axis.name.as_str()).collect::<Vec<_>>(), ["data"]);
}

#[test]
fn several_runs_are_side_by_side_and_not_mixed() {
    let first = common::through_text(&common::run(), &pair(8e-6, 2e-6));
    let mut run = common::run();
    run.id = "second".into();
    run.environment.cpu = "Another Processor".into();
    let second = common::through_text(&run, &pair(8e-6, 4e-6));
    let report = Report::from_records(&[first, second], &Options::default()).unwrap();
    let rows = &report.workloads[0].rows;
    assert_eq!(rows.iter().map(|row| row.run).collect::<Vec<_>>(), [0, 0, 1, 1]);
    // Each against the baseline of its own run.
    assert!((rows[1].speedup.ratio.unwrap() - 4.0).abs() < 0.2 && (rows[3].speedup.ratio.unwrap() - 2.0).abs() < 0.1);
    assert!(report.warnings.iter().any(|warning| warning.contains("different machines")));
}

#[test]
fn a_cut_record_and_an_empty_one_are_reported_with_a_warning() {
    let run_line = ellwand_core::record::line(&common::run()).unwrap();
    let record: Record = parse(&format!("{run_line}\n{{\"kind\":\"meas")).unwrap();
    let report = Report::from_records(&[record], &Options::default()).unwrap();
    assert!(report.warnings.iter().any(|warning| warning.contains("cut off")));
    assert!(report.warnings.iter().any(|warning| warning.contains("no measurement")));
    for format in ellwand_report::FORMATS {
        (format.write)(&report, &mut Vec::new()).unwrap();
    }
    assert!(ellwand_report::draw(&report).unwrap().is_empty());
}

#[test]
fn text_of_a_record_cannot_drive_the_terminal() {
    let mut both = pair(8e-6, 2e-6);
    both[1].warnings.push("\u{1b}[2J\u{7}gone\nnext".into());
    both[1] = common::other(both[1].clone(), Outcome::Failed { error: "\u{1b}[31mred\r".into() });
    let report = report_of(&both);
    let mut out = Vec::new();
    (ellwand_report::format("table").unwrap().write)(&report, &mut out).unwrap();
    assert!(!String::from_utf8(out).unwrap().chars().any(|c| c.is_control() && c != '\n'));
}

proptest! {
    #[test]
    fn the_interval_holds_the_ratio_and_the_ratio_is_that_of_the_times(base in 1e-7_f64..1e-2, factor in 0.01_f64..100.0) {
        let report = report_of(&pair(base, base * factor));
        let speedup = &row(&report, "simd").speedup;
        let (ratio, low, high) = (speedup.ratio.unwrap(), speedup.low.unwrap(), speedup.high.unwrap());
        prop_assert!(low <= ratio && ratio <= high);
        // The zigzag of the samples spans at most 10 %.
        prop_assert!((ratio * factor - 1.0).abs() < 0.11, "{} {}", ratio, factor);
    }
}

/// Two axes; `simd` has a fixed cost of 1 µs and grows with the square root of the sequence, `reference` is
/// proportional to both.
fn grid() -> Vec<Measurement> {
    let mut all = Vec::new();
    for batch in [1_i64, 4, 16] {
        for sequence in [16_i64, 64] {
            let case =
                Case::new("layer-norm", vec![("batch".into(), batch.into()), ("sequence".into(), sequence.into())]);
            let n = (batch * sequence) as u64;
            let work = Work::items("rows", n).flops(5.0 * n as f64).bytes(4 * n, 4 * n);
            let reference = common::measured(&case, "reference", 1e-7 * n as f64, work.clone());
            let simd = common::measured(&case, "simd", 1e-6 * batch as f64 * (sequence as f64).sqrt(), work);
            all.extend([reference, simd].map(|mut m| {
                // Exactly the given time in every sample.
                let seconds = m.first_run_ns.unwrap() as f64 / 2.5;
                for sample in &mut m.samples {
                    sample.iterations = 1000;
                    sample.wall_ns = (seconds * 1000.0) as u64;
                }
                m
            }));
        }
    }
    all
}

#[test]
fn the_power_that_time_follows_is_fitted_per_axis() {
    let report = report_of(&grid());
    let growth = &report.workloads[0].growth;
    let exponent = |implementation: &str, axis: &str| {
        let found = growth.iter().find(|g| g.implementation == implementation && g.axis == axis).unwrap();
        assert_eq!(found.cases, 6);
        assert!(found.low <= found.exponent && found.exponent <= found.high);
        found.exponent
    };
    for (implementation, axis, want) in
        [("reference", "batch", 1.0), ("reference", "sequence", 1.0), ("simd", "batch", 1.0), ("simd", "sequence", 0.5)]
    {
        let got = exponent(implementation, axis);
        assert!((got - want).abs() < 1e-3, "{implementation} over {axis}: {got}");
    }
}

#[test]
fn times_by_axis_count_only_cases_in_which_everything_was_measured() {
    let mut all = grid();
    let lost =
        all.iter().position(|m| m.implementation == "simd" && m.case.id.contains("batch=16,sequence=64")).unwrap();
    all[lost] = common::other(all[lost].clone(), Outcome::Failed { error: "it stopped".into() });
    let report = report_of(&all);
    let at = |axis: &str, value: &str, implementation: &str| {
        let rows = &report.workloads[0].along_axes;
        rows.iter()
            .find(|r| (r.axis.as_str(), r.value.as_str(), r.implementation.as_str()) == (axis, value, implementation))
            .unwrap()
    };
    let (reference, simd) = (at("batch", "4", "reference"), at("batch", "4", "simd"));
    // 4 x 16 and 4 x 64 elements: 6.4 and 25.6 µs against 16 and 32 µs.
    assert!((reference.time_s - (6.4e-6_f64 * 25.6e-6).sqrt()).abs() < 1e-9);
    assert!((simd.time_s - (16e-6_f64 * 32e-6).sqrt()).abs() < 1e-9);
    assert_eq!((reference.cases, reference.best_in, simd.best_in), (2, 2, 0));
    assert!((simd.speedup.unwrap() - reference.time_s / simd.time_s).abs() < 1e-3);
    assert_eq!(at("batch", "16", "reference").cases, 1);
}

#[test]
fn rounds_that_contradict_the_times_widen_the_interval() {
    let mut both = pair(2e-6, 2e-6);
    // The baseline is 7 % faster in every common round; the later rounds, which only the baseline has, were disturbed.
    for (index, sample) in both[0].samples.iter_mut().enumerate() {
        sample.iterations = 1;
        sample.wall_ns = if index < 9 { 9300 } else { 30_000 };
    }
    both[1].samples.truncate(9);
    for sample in &mut both[1].samples {
        (sample.iterations, sample.wall_ns) = (1, 10_000);
    }
    let report = report_of(&both);
    let speedup = &row(&report, "simd").speedup;
    let times = ["reference", "simd"].map(|name| row(&report, name).median("time").unwrap());
    assert_eq!(speedup.ratio, Some(times[0] / times[1]), "the ratio of the two times that are printed");
    assert!(speedup.low.unwrap() < 1.0 && speedup.high >= speedup.ratio, "{speedup:?}");
}

#[test]
fn a_value_that_a_case_leaves_out_is_shown_where_it_varies() {
    use ellwand_core::{Axis, record::CaseRecord};
    let mut axis = Axis::choice("precision", "type of the numbers", &["f32", "f64"], "f32");
    axis.neutral = Some("f32".into());
    let of = |params: Vec<(String, ellwand_core::Value)>, work: Work| {
        let case = Case::new("w", params);
        let mut m = common::measured(&case, "simd", 1e-3, work);
        m.case = CaseRecord::new(&case, |_| "").with_neutral(std::slice::from_ref(&axis));
        m
    };
    let work = || Work::items("x", 1).flops(55e6);
    let short = of(vec![], work());
    let long = of(vec![("precision".into(), "f64".into())], work().double(true));
    assert_eq!(short.case.id, "w/", "no part of the identity");
    let mut run = common::run();
    let mut double =
        run.environment.ceilings.iter().find(|c| c.kind == ellwand_core::CeilingKind::Fma).unwrap().clone();
    (double.kind, double.value) = (ellwand_core::CeilingKind::FmaF64, 55e9);
    run.environment.ceilings.push(double);
    let both = common::through_text(&run, &[short.clone(), long]);
    let report = Report::from_records(&[both], &Options::default()).unwrap();
    let rows = &report.workloads[0].rows;
    let shown: Vec<_> = rows.iter().map(|row| row.param("precision").unwrap()).collect();
    assert_eq!(shown, ["f32", "f64"]);
    // Each against the peak of its type: 110 and 55 GFLOP/s.
    let shares: Vec<f64> = rows.iter().map(|row| row.median("roofline-fraction").unwrap()).collect();
    assert!((shares[0] - 0.5).abs() < 0.01 && (shares[1] - 1.0).abs() < 0.02, "{shares:?}");
    let mut text = Vec::new();
    (ellwand_report::format("table").unwrap().write)(&report, &mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("f64 FMA"));
    // A parameter that does not vary is not shown.
    assert!(report_of(&[short]).workloads[0].rows[0].params.is_empty());
}

#[test]
fn machines_are_side_by_side_with_their_own_ceilings() {
    let here = common::run();
    let mut there = common::run();
    there.id = "there".into();
    there.environment.cpu = "Other Processor".into();
    // With peaks twice as high, the same time is half the share.
    there.environment.ceilings.iter_mut().for_each(|ceiling| ceiling.value *= 2.0);
    let mut more = pair(8e-6, 2e-6);
    let case = common::lattice_case("w", 10);
    more.push(common::measured(&case, "only-there", 1e-6, Work::items("vectors", 10)));
    let records = [common::through_text(&here, &pair(8e-6, 2e-6)), common::through_text(&there, &more)];
    let options = Options { across_machines: true, ..Options::default() };
    let report = Report::from_records(&records, &options).unwrap();
    let machines = report.machines.as_ref().unwrap();
    let names: Vec<&str> = machines.machines.iter().map(|machine| machine.name.as_str()).collect();
    assert!(names.len() == 2 && names[1].starts_with("Other Processor"), "{names:?}");
    assert_eq!((machines.rows.len(), machines.alone), (4, 1));
    let share = |at: usize| {
        let entry = &machines.rows[at];
        let row = &report.workloads[entry.workload].rows[entry.row];
        (entry.machine, row.implementation.clone(), row.median("roofline-fraction").unwrap())
    };
    let ((one, first, here), (other, second, there)) = (share(0), share(1));
    assert_eq!((one, other, first), (0, 1, second));
    assert!((here / there - 2.0).abs() < 1e-9, "{here} {there}");
    let mut text = Vec::new();
    (ellwand_report::format("table").unwrap().write)(&report, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("across machines") && text.contains("rows of one machine only"), "{text}");
    // The same machine twice is one machine, and the last of its runs counts.
    let again = [records[0].clone(), records[1].clone(), common::through_text(&common::run(), &pair(8e-6, 4e-6))];
    let report = Report::from_records(&again, &options).unwrap();
    let machines = report.machines.as_ref().unwrap();
    assert_eq!((machines.machines.len(), machines.rows.len()), (2, 4));
    let simd = machines.rows.iter().map(|entry| &report.workloads[0].rows[entry.row]);
    let times: Vec<f64> =
        simd.filter(|row| row.implementation == "simd").map(|row| row.median("time").unwrap()).collect();
    assert!((times[0] / times[1] - 2.0).abs() < 0.1, "{times:?}");
    let alone = Report::from_records(&again[..1], &options).unwrap_err();
    assert!(matches!(&alone, ReportError::OneMachine { .. }), "{alone}");
}

#[test]
fn the_reason_why_machines_share_no_row_is_reported() {
    let here = common::run();
    let mut there = common::run();
    there.id = "there".into();
    there.environment.cpu = "Other Processor".into();
    let row = |workload: &str, batch: i64, name: &str| {
        common::measured(&common::lattice_case(workload, batch), name, 1e-6, Work::items("vectors", 10))
    };
    let mut elsewhere = row("w", 10, "simd");
    elsewhere.device = "cuda:0".into();
    let mut cold = row("w", 10, "simd");
    cold.caches = ellwand_core::Caches::Cold;
    let options = Options { across_machines: true, ..Options::default() };
    for (other, why) in [
        (vec![row("v", 10, "simd")], "they measured different workloads"),
        (vec![row("w", 20, "simd")], "they measured different cases"),
        (vec![row("w", 10, "scalar")], "they measured different implementations of the same cases"),
        (vec![elsewhere], "they measured the same implementations on different devices"),
        (vec![cold], "one measured with warm caches and the other with cold ones"),
        (vec![row("w", 10, "simd")], ""),
    ] {
        let records = [common::through_text(&here, &[row("w", 10, "simd")]), common::through_text(&there, &other)];
        let report = Report::from_records(&records, &options).unwrap();
        let machines = report.machines.as_ref().unwrap();
        assert_eq!(machines.rows.is_empty(), !why.is_empty(), "{why}");
        for name in ["table", "markdown", "json"] {
            let mut text = Vec::new();
            (ellwand_report::format(name).unwrap().write)(&report, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(text.contains("two machines have a row in common: "), !why.is_empty(), "{name}: {text}");
            assert!(text.contains(why), "{name}: {text}");
        }
    }
}
