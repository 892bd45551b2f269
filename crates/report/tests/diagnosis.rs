//! Every rule fires when its numbers are present and stays silent otherwise.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/findings.rs"]
mod findings;

use ellwand_core::{Measurement, Work};
use ellwand_report::{Class, Confidence, Finding, Options, RULES, Report};
use findings::{MIB, findings, of, silent, sized, speaks, stream};

#[test]
fn memory_bound_and_above_ceiling() {
    let near = stream(20e9);
    let finding = speaks("bound-by", std::slice::from_ref(&near));
    assert!(finding.title.starts_with("memory-bound (DRAM)"), "{}", finding.title);
    // Fusion can save all of the traffic: 20 of 24 GB/s are 83 % of the time.
    assert!((finding.saving_upper_bound.unwrap() - 20.0 / 24.0).abs() < 0.03, "{finding:?}");
    silent("above-ceiling", &[near]);
    silent("bound-by", &[stream(8e9)]);
    let finding = speaks("above-ceiling", &[stream(30e9)]);
    assert_eq!(finding.class, Class::Fault);
    silent("bound-by", &[stream(30e9)]);
    silent("above-ceiling", &[stream(24.5e9)]);
}

#[test]
fn far_from_ceiling() {
    speaks("far-from-ceiling", &[stream(2e9)]);
    silent("far-from-ceiling", &[stream(12e9)]);
    let mut run = common::run();
    run.environment.ceilings.clear();
    let report = Report::from_records(&[common::through_text(&run, &[stream(2e9)])], &Options::default()).unwrap();
    assert!(of("far-from-ceiling", &report.findings).is_none());
}

#[test]
fn overhead_of_small_cases() {
    let finding = speaks("overhead-bound", &[sized(1, "simd", 1e-6), sized(1000, "simd", 5e-6)]);
    assert_eq!(finding.place, "batch 1");
    silent("overhead-bound", &[sized(1, "simd", 5e-9), sized(1000, "simd", 5e-6)]);
    silent("overhead-bound", &[sized(1, "simd", 1e-6)]);
}

#[test]
fn first_run() {
    let mut slow = sized(1000, "simd", 5e-6);
    slow.first_run_ns = Some(900_000);
    speaks("first-run", &[slow.clone()]);
    slow.first_run_ns = Some(60_000);
    silent("first-run", &[slow]);
}

#[test]
fn contended() {
    let mut waited = sized(1000, "simd", 5e-6);
    silent("contended", std::slice::from_ref(&waited));
    waited.samples.iter_mut().for_each(|sample| sample.wall_ns *= 2);
    let finding = speaks("contended", std::slice::from_ref(&waited));
    assert!((finding.evidence[0].value - 2.0).abs() < 0.05, "{finding:?}");
    // A thread that no other program switched out waits for something else.
    let cases = [
        (0, "no program here took its processor", "what it waits for"),
        (1, "other programs held it up", "stop other work"),
    ];
    for (switches, title, next) in cases {
        waited.samples.iter_mut().for_each(|sample| sample.switches = Some(switches));
        let finding = speaks("contended", std::slice::from_ref(&waited));
        assert!(finding.title.contains(title) && finding.next_experiment.contains(next), "{finding:?}");
    }
    // Switches that cost no time are not contention.
    let mut switched = sized(1000, "simd", 5e-3);
    switched.samples.iter_mut().for_each(|sample| sample.switches = Some(1));
    silent("contended", std::slice::from_ref(&switched));
    // Without CPU time, they are the only evidence.
    switched.samples.iter_mut().for_each(|sample| sample.cpu_ns = None);
    speaks("contended", &[switched]);
}

#[test]
fn below_resolution() {
    let mut tiny = sized(1, "simd", 5e-9);
    silent("below-resolution", std::slice::from_ref(&tiny));
    tiny.resolution_ns = Some(10.0);
    speaks("below-resolution", &[tiny]);
}

#[test]
fn iterations_that_cost_more_than_the_others() {
    use ellwand_core::record::Basis;
    let slow = |times: f64| {
        let mut m = sized(1000, "simd", 5e-6);
        m.basis = Some(Basis::Fastest);
        for sample in &mut m.samples {
            (sample.parts, sample.fastest_ns) = (Some(sample.iterations), Some(sample.wall_ns / sample.iterations));
            sample.cpu_ns = Some((sample.wall_ns as f64 * times) as u64);
        }
        m
    };
    let finding = speaks("uneven", &[slow(1.15)]);
    assert!((finding.evidence[0].value / 5e-6 - 1.15).abs() < 0.05, "{finding:?}");
    silent("uneven", &[slow(1.05)]);
    // A time of whole slots hides nothing.
    silent("uneven", &[Measurement { basis: Some(Basis::Wall), ..slow(1.15) }]);
    silent("uneven", &[Measurement { parallelism: ellwand_core::Parallelism::Many, ..slow(1.8) }]);
}

#[test]
fn page_faults() {
    let mut faulting = sized(1000, "simd", 5e-6);
    silent("page-faults", std::slice::from_ref(&faulting));
    faulting.samples.iter_mut().for_each(|sample| sample.faults = Some(2 * sample.iterations));
    speaks("page-faults", &[faulting]);
}

#[test]
fn no_advice_to_speed_up_the_reference_that_judges() {
    let mut faulting = sized(1000, "reference", 5e-6);
    faulting.samples.iter_mut().for_each(|sample| sample.faults = Some(2 * sample.iterations));
    silent("page-faults", &[faulting.clone(), sized(1000, "simd", 1e-6)]);
    // If the reference is the only implementation, it is the subject of the run.
    speaks("page-faults", &[faulting]);
}

#[test]
fn weak_baseline() {
    let three = |scalar: f64| [sized(10, "reference", 80e-6), sized(10, "scalar", scalar), sized(10, "simd", 1e-6)];
    let asked = |measurements: &[Measurement]| {
        let record = common::through_text(&common::run(), measurements);
        let options = Options { baseline: Some("reference".into()), ..Options::default() };
        of("weak-baseline", &Report::from_records(&[record], &options).unwrap().findings).cloned()
    };
    let finding = asked(&three(4e-6)).unwrap();
    assert!(finding.title.contains("reference is a weak baseline; against scalar"), "{}", finding.title);
    assert!(asked(&three(60e-6)).is_none() && asked(&three(4e-6)[..2]).is_none());
    // The workload's default baseline gives no warning.
    silent("weak-baseline", &three(4e-6));
}

#[test]
fn threads() {
    let two = |many: f64| [sized(10, "simd", 2e-6), sized(10, "parallel", many)];
    speaks("threads-do-not-pay", &two(9e-6));
    silent("threads-do-not-pay", &two(1.2e-6));
    // Silent within the spread of the samples.
    silent("threads-do-not-pay", &two(2.02e-6));
    silent("threads-idle", &two(9e-6));
    let mut idle = two(9e-6);
    idle[1].samples.iter_mut().for_each(|sample| sample.cpu_ns = Some(sample.wall_ns));
    speaks("threads-idle", &idle);
}

#[test]
fn idle_threads_are_one_finding() {
    let idle = |batch: i64| {
        let mut m = sized(batch, "parallel", 20e-3);
        m.samples.iter_mut().for_each(|sample| sample.cpu_ns = Some(sample.wall_ns));
        m
    };
    speaks("threads-idle", &[idle(10)]);
    silent("bound-by", &[idle(10)]);
    // The rule about idle threads looks at the largest case only.
    let busy = sized(1000, "parallel", 20e-3);
    silent("threads-idle", &[idle(10), busy.clone()]);
    let found = findings(&[idle(10), busy]);
    assert!(found.iter().any(|finding| finding.title.starts_with("idle threads")), "{found:#?}");
}

#[test]
fn few_vectors_that_make_most_of_the_error() {
    use ellwand_core::{Better, Reading};
    let coded = |mse: f64| {
        let mut m = sized(1000, "simd", 1e-3);
        m.case.workload = "lattice-encode".into();
        let read = |id: &str, value| Reading::measured(id, id, "", Better::Lower, value, "");
        m.readings = vec![read("mse", mse), read("mse-inside", 0.1), read("overload-rate", 0.02)];
        m
    };
    let finding = speaks("overloaded", &[coded(2.4)]);
    assert!((finding.evidence[0].value - (1.0 - 0.098 / 2.4)).abs() < 1e-9, "{finding:?}");
    silent("overloaded", &[coded(0.15)]);
    // Half of the vectors needed another scale, and none remained out of range.
    let mut retried = coded(0.1);
    retried.readings[2].value = Some(0.5);
    retried.readings.push(Reading::measured("lost-rate", "lost", "1", Better::Lower, 0.0, ""));
    silent("overloaded", &[retried]);
    let mut many = coded(2.4);
    many.readings[2].value = Some(0.6);
    silent("overloaded", &[many]);
    silent("overloaded", &[sized(1000, "simd", 1e-3)]);
}

#[test]
fn faults_that_cost_nothing_are_not_reported() {
    let faulting = |seconds: f64| {
        let mut m = sized(10, "simd", seconds);
        m.samples.iter_mut().for_each(|sample| sample.faults = Some(2 * sample.iterations));
        m
    };
    let findings = |m: Measurement| {
        let mut run = common::run();
        let mut fault = run.environment.ceilings[0].clone();
        (fault.kind, fault.footprint_bytes, fault.value) = (ellwand_core::CeilingKind::PageFault, 0, 1e-6);
        run.environment.ceilings.push(fault);
        let record = common::through_text(&run, &[m]);
        Report::from_records(&[record], &Options::default()).unwrap().findings
    };
    assert!(of("page-faults", &findings(faulting(20e-6))).is_some(), "a tenth of the time");
    assert!(of("page-faults", &findings(faulting(2e-3))).is_none(), "a thousandth");
    // The faults are counted over whole slots, so they are no share of the fastest parts.
    let mut parts = faulting(20e-6);
    parts.basis = Some(ellwand_core::record::Basis::Fastest);
    for sample in &mut parts.samples {
        (sample.parts, sample.fastest_ns) = (Some(sample.iterations), Some(sample.wall_ns / sample.iterations / 4));
    }
    let all = findings(parts);
    let found = of("page-faults", &all).unwrap();
    assert!((found.evidence[2].value - 0.1).abs() < 0.02, "{found:?}");
}

#[test]
fn intermediate_results_in_memory() {
    use ellwand_core::{Better, Reading};
    let holding = |implementation: &str, seconds: f64, bytes: u64| {
        let mut m = sized(1000, implementation, seconds);
        m.work = Work::items("vectors", 1000).bytes(MIB, MIB).flops(1e6);
        m.readings = vec![Reading::derived("extra-memory", "extra memory", "B", Better::Lower, bytes as f64, "")];
        m
    };
    let both = |seconds: f64, bytes: u64| [holding("blocked", 5e-3, 64 * MIB), holding("fused", seconds, bytes)];
    let finding = speaks("working-memory", &both(4e-3, MIB));
    assert_eq!(finding.implementation.as_deref(), Some("blocked"));
    assert!(finding.title.contains("fused") && finding.next_experiment.contains("fused"), "{finding:?}");
    assert_eq!(finding.saving_upper_bound.map(|saving| (saving * 100.0).round()), Some(20.0), "of the two times");
    // Writing and reading 64 MiB takes 5.6 ms.
    let confidence = |own: f64, other: f64| {
        speaks("working-memory", &[holding("blocked", own, 64 * MIB), holding("fused", other, MIB)]).confidence
    };
    assert_eq!((confidence(7e-3, 4e-3), confidence(15e-3, 4e-3)), (Confidence::High, Confidence::Medium));
    silent("working-memory", &[holding("blocked", 40e-3, 64 * MIB), holding("fused", 4e-3, MIB)]);
    silent("working-memory", &both(4.9e-3, MIB));
    silent("working-memory", &both(6e-3, MIB));
    silent("working-memory", &both(4e-3, 32 * MIB));
    let mut little = both(4e-3, 64);
    little[0].readings[0].value = Some(1024.0);
    silent("working-memory", &little);
}

#[test]
fn a_finding_in_many_places_is_reported_once() {
    let faulting = |implementation: &str, batch: i64| {
        let mut m = sized(batch, implementation, 5e-6);
        m.samples.iter_mut().for_each(|sample| sample.faults = Some(2 * sample.iterations));
        m
    };
    let of_rule = |measurements: &[Measurement]| -> Vec<Finding> {
        findings(measurements).into_iter().filter(|finding| finding.rule == "page-faults").collect()
    };
    let names = ["gemm", "scalar", "simd", "parallel"];
    let many: Vec<_> = names.iter().flat_map(|name| [faulting(name, 10), faulting(name, 1000)]).collect();
    let found = of_rule(&many);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].cases, found[0].alike.len()), ((8, 8), 3));
    assert!(found[0].alike.iter().all(|place| place.ends_with(" (2 rows)")), "{:?}", found[0].alike);
    assert!(found[0].subject().starts_with("in 8 rows, most in w "), "{}", found[0].subject());
    assert_eq!(of_rule(&many[..4]).len(), 1, "twice is once too often");
    // Rows of an implementation without the finding were eligible too.
    let beside: Vec<_> =
        many[..4].iter().cloned().chain([sized(10, "simd", 5e-6), sized(1000, "simd", 5e-6)]).collect();
    assert_eq!(of_rule(&beside)[0].cases, (4, 6));
    assert_eq!(of_rule(&beside[2..])[0].cases, (2, 2), "one finding counts its own rows");
}

#[test]
fn a_finding_of_many_places_names_the_strongest() {
    let slow_at_first = |implementation: &str, over: u64| {
        let mut m = sized(1000, implementation, 5e-6);
        m.first_run_ns = Some(over * 5000);
        m
    };
    let finding = speaks("first-run", &[slow_at_first("scalar", 30), slow_at_first("simd", 143)]);
    assert_eq!(finding.subject(), "in 2 rows, most in w simd");
    assert_eq!(finding.alike, ["w scalar"]);
}

#[test]
fn every_rule_is_tested_here() {
    let text = concat!(include_str!("diagnosis.rs"), include_str!("limits.rs"), include_str!("limits_of_devices.rs"));
    // The findings of this rule use the keys of views.
    for rule in RULES.iter().filter(|rule| rule.id != "outliers") {
        let tested = ["speaks(\"", "of(\""].iter().any(|call| text.contains(&format!("{call}{}\"", rule.id)));
        assert!(tested, "{}", rule.id);
    }
}

#[test]
fn threads_are_not_blamed_for_another_algorithm() {
    let ran = |implementation: &str, seconds: f64, what_ran: &str| {
        let mut m = sized(1000, implementation, seconds);
        m.what_ran = what_ran.into();
        if what_ran.contains("threads") {
            m.parallelism = ellwand_core::Parallelism::Many;
        }
        m
    };
    let fused = ran("simd", 12e-6, "avx512");
    let slow = ran("unfused-parallel", 17.8e-6, "avx512, 2 threads, two passes");
    let alone = |seconds| ran("unfused", seconds, "avx512, two passes");
    silent("threads-do-not-pay", &[fused.clone(), slow.clone(), alone(17.7e-6)]);
    let finding = speaks("threads-do-not-pay", &[fused, slow, alone(14e-6)]);
    assert!(finding.title.contains("unfused is faster on one thread"), "{}", finding.title);
}

#[test]
fn threads_are_not_blamed_where_the_same_code_on_one_thread_is_unknown() {
    let rows = |many: &str, one: &str, other: &str| {
        let row = |name: &str, seconds: f64, what_ran: &str, parallelism| {
            let mut m = sized(1000, name, seconds);
            (m.what_ran, m.parallelism) = (what_ran.into(), parallelism);
            m
        };
        let (single, all) = (ellwand_core::Parallelism::Single, ellwand_core::Parallelism::Many);
        [row("jax", 75e-6, many, all), row("naive", 60e-6, one, single), row("compiled", 24e-6, other, single)]
    };
    let rule = "threads-do-not-pay";
    silent(rule, &rows("", "", ""));
    silent(rule, &rows("avx512, 2 threads", "avx512", "avx512"));
    let finding = speaks(rule, &rows("avx512, 2 threads", "avx512", "scalar"));
    assert!(finding.title.contains("naive is faster on one thread"), "{}", finding.title);
}

#[test]
fn a_finding_names_its_run_and_no_place_where_nothing_varies() {
    let record = || common::through_text(&common::run(), &[stream(2e9)]);
    let report = Report::from_records(&[record(), record()], &Options::default()).unwrap();
    let finding = of("far-from-ceiling", &report.findings).unwrap();
    assert_eq!(finding.subject(), "w simd");
    assert_eq!(finding.subject_in(&report), "w simd (run 1)");
    let one = Report::from_records(&[record()], &Options::default()).unwrap();
    assert_eq!(of("far-from-ceiling", &one.findings).unwrap().subject_in(&one), "w simd");
}
