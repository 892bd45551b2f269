//! Every rule speaks when its numbers are there and is silent when they are not.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::record::Record;
use ellwand_core::{Measurement, Work};
use ellwand_report::{Class, Finding, Options, RULES, Report};

const MIB: u64 = 1 << 20;

/// 64 MiB in and out at this speed; the ceiling of the made-up machine is 24 GB/s.
fn stream(bytes_per_s: f64) -> Measurement {
    let bytes = 64 * MIB;
    let seconds = bytes as f64 / bytes_per_s;
    common::measured(
        &common::lattice_case("w", 1000),
        "simd",
        seconds,
        Work::items("vectors", 1000).bytes(bytes / 2, bytes / 2),
    )
}

fn sized(batch: i64, implementation: &str, seconds: f64) -> Measurement {
    common::measured(&common::lattice_case("w", batch), implementation, seconds, Work::items("vectors", batch as u64))
}

fn findings(measurements: &[Measurement]) -> Vec<Finding> {
    let record: Record = common::through_text(&common::run(), measurements);
    Report::from_records(&[record], &Options::default()).unwrap().findings
}

fn of<'a>(rule: &str, findings: &'a [Finding]) -> Option<&'a Finding> {
    assert!(RULES.iter().any(|known| known.id == rule), "no rule {rule}");
    findings.iter().find(|finding| finding.rule == rule)
}

#[track_caller]
fn speaks(rule: &str, measurements: &[Measurement]) -> Finding {
    let all = findings(measurements);
    let finding = of(rule, &all).unwrap_or_else(|| panic!("{rule} is silent: {all:#?}")).clone();
    assert!(!finding.evidence.is_empty() && !finding.title.is_empty() && !finding.next_experiment.is_empty());
    assert!(finding.evidence.iter().all(|evidence| evidence.value.is_finite()), "{finding:?}");
    if let Some(saving) = finding.saving_upper_bound {
        assert!((0.0..=1.0).contains(&saving), "{saving}");
    }
    finding
}

#[track_caller]
fn silent(rule: &str, measurements: &[Measurement]) {
    assert!(of(rule, &findings(measurements)).is_none(), "{rule} speaks");
}

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
    assert!((finding.saving_upper_bound.unwrap() - 0.5).abs() < 0.02);
    // Switches that cost no time are not contention.
    let mut switched = sized(1000, "simd", 5e-3);
    switched.samples.iter_mut().for_each(|sample| sample.switches = Some(1));
    silent("contended", std::slice::from_ref(&switched));
    // Where CPU time cannot tell, they are all there is.
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
fn page_faults() {
    let mut faulting = sized(1000, "simd", 5e-6);
    silent("page-faults", std::slice::from_ref(&faulting));
    faulting.samples.iter_mut().for_each(|sample| sample.faults = Some(2 * sample.iterations));
    speaks("page-faults", &[faulting]);
}

#[test]
fn nobody_is_told_how_to_make_the_judge_faster() {
    let mut faulting = sized(1000, "reference", 5e-6);
    faulting.samples.iter_mut().for_each(|sample| sample.faults = Some(2 * sample.iterations));
    silent("page-faults", &[faulting.clone(), sized(1000, "simd", 1e-6)]);
    // Alone it is what the run is about.
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
    assert!(finding.title.contains("against reference flatter; against scalar"), "{}", finding.title);
    assert!(asked(&three(60e-6)).is_none() && asked(&three(4e-6)[..2]).is_none());
    // Nobody asked for the baseline that the workload proposes.
    silent("weak-baseline", &three(4e-6));
}

#[test]
fn threads() {
    let two = |many: f64| [sized(10, "simd", 2e-6), sized(10, "parallel", many)];
    speaks("threads-do-not-pay", &two(9e-6));
    silent("threads-do-not-pay", &two(1.2e-6));
    // Within the spread of the samples nothing is said.
    silent("threads-do-not-pay", &two(2.02e-6));
    silent("threads-idle", &two(9e-6));
    let mut idle = two(9e-6);
    idle[1].samples.iter_mut().for_each(|sample| sample.cpu_ns = Some(sample.wall_ns));
    speaks("threads-idle", &idle);
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
    silent("working-memory", &both(6e-3, MIB));
    silent("working-memory", &both(4e-3, 32 * MIB));
    let mut little = both(4e-3, 64);
    little[0].readings[0].value = Some(1024.0);
    silent("working-memory", &little);
}

#[test]
fn what_holds_in_many_places_is_said_once() {
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
    assert!(found[0].subject().starts_with("in 8 cases, most in w "), "{}", found[0].subject());
    // Two are as quickly read one by one.
    assert_eq!(of_rule(&many[..4]).len(), 2);
}

#[test]
fn every_rule_is_tested_here() {
    let text = include_str!("diagnosis.rs");
    for rule in RULES {
        let tested = ["speaks(\"", "of(\""].iter().any(|call| text.contains(&format!("{call}{}\"", rule.id)));
        assert!(tested, "{}", rule.id);
    }
}

/// The made-up machine with costs of everything that can bind.
fn costly() -> ellwand_core::Run {
    use ellwand_core::{Ceiling, CeilingKind, Parallelism, Provenance};
    let mut run = common::run();
    let mut add = |kind, footprint_bytes, level: &str, value: f64| {
        run.environment.ceilings.push(Ceiling {
            device: "cpu".into(),
            kind,
            implementation: "x".into(),
            parallelism: Parallelism::Single,
            footprint_bytes,
            level: level.into(),
            value,
            low: value,
            high: value,
            provenance: Provenance::Measured,
        });
    };
    add(CeilingKind::Call, 0, "", 1.5e-9);
    add(CeilingKind::PageFault, 0, "", 2e-6);
    add(CeilingKind::HugePageFault, 0, "", 50e-6);
    add(CeilingKind::Wake, 0, "", 1e-6);
    add(CeilingKind::ColdWake, 0, "", 20e-6);
    add(CeilingKind::Latency, 16 << 10, "L1", 1.25e-9);
    add(CeilingKind::Latency, 64 << 20, "DRAM", 150e-9);
    run
}

fn placed(measurement: &Measurement) -> ellwand_report::Diagnosis {
    ellwand_report::place(measurement, &costly().environment).expect("it has times and ceilings")
}

fn counted(mut m: Measurement, faults: u64, waits: u64) -> Measurement {
    for sample in &mut m.samples {
        sample.faults = Some(faults * sample.iterations);
        sample.waits = Some(waits * sample.iterations);
    }
    m
}

#[test]
fn each_limit_is_recognised_from_fixed_numbers() {
    use ellwand_report::{Lever, Limit};
    let one = |implementation: &str, seconds: f64, work: Work| {
        common::measured(&common::lattice_case("w", 1000), implementation, seconds, work)
    };
    let nothing = || Work::items("things", 1);
    let cases = [
        (stream(20e9), Limit::Memory, Lever::Fusion),
        (one("simd", 1e-3, nothing().flops(1e8).bytes(4096, 4096)), Limit::Compute, Lever::Threads),
        (one("simd", 160e-3, nothing().bytes(64 * MIB, 0)), Limit::Latency, Lever::Independence),
        (one("simd", 6e-9, nothing().flops(8.0).bytes(32, 4)), Limit::Overhead, Lever::Batching),
        (
            counted(one("simd", 30e-3, nothing().bytes(24 * MIB, 24 * MIB)), 12_000, 0),
            Limit::PageFaults,
            Lever::BufferReuse,
        ),
        (counted(one("simd", 0.5e-3, nothing().bytes(2 * MIB, 2 * MIB)), 8, 0), Limit::PageFaults, Lever::BufferReuse),
        (one("parallel", 1.2e-6, nothing().flops(100.0)), Limit::ThreadWake, Lever::Batching),
        // Waking cost 1 us at its best; where the processors lie further apart it is several times that.
        (one("parallel", 8e-6, nothing().flops(100.0)), Limit::ThreadWake, Lever::Batching),
        (one("parallel", 12e-6, nothing().flops(100.0)), Limit::Unexplained, Lever::Tuning),
        (counted(one("parallel", 1e-3, nothing()), 0, 40), Limit::Contended, Lever::Threads),
        (one("simd", 1e-3, nothing().flops(1e6).bytes(4096, 4096)), Limit::Unexplained, Lever::Tuning),
    ];
    for (index, (measurement, limit, lever)) in cases.iter().enumerate() {
        let d = placed(measurement);
        assert_eq!(d.limit, *limit, "case {index}: {d:#?}");
        assert_eq!(d.changes[0].lever, *lever, "case {index}: {d:#?}");
        assert!(d.changes.iter().all(|c| (0.0..=1.0).contains(&c.saving_upper_bound)), "case {index}: {d:#?}");
    }
}

#[test]
fn a_share_above_the_ceiling_is_told_and_not_clamped() {
    let d = placed(&stream(36e9));
    assert_eq!(d.limit, ellwand_report::Limit::AboveCeiling);
    assert!((d.share - 1.5).abs() < 0.05 && d.changes.is_empty(), "{d:#?}");
}

#[test]
fn operations_that_were_counted_take_the_place_of_those_that_the_case_may_need() {
    // All of them would be twice what the machine can do.
    let peak = 100e9;
    let required = Work::items("x", 1).flops(2.0 * peak * 1e-3);
    let mut m = common::measured(&common::lattice_case("w", 1000), "simd", 1e-3, required);
    let above = placed(&m);
    assert_eq!(above.limit, ellwand_report::Limit::AboveCeiling, "{above:#?}");
    m.readings.push(ellwand_core::Reading::operations(0.6 * above.share.recip() * m.work.flops));
    let d = placed(&m);
    assert_eq!(d.limit, ellwand_report::Limit::Compute);
    assert!((d.share - 0.6).abs() < 0.01, "{d:#?}");
    silent("above-ceiling", std::slice::from_ref(&m));
    let record: Record = common::through_text(&common::run(), std::slice::from_ref(&m));
    let report = Report::from_records(&[record], &Options::default()).unwrap();
    let row = &report.workloads[0].rows[0];
    assert!((row.median("roofline-fraction").unwrap() - 0.6).abs() < 0.01);
    assert!(row.work.flops < m.work.flops);
}

#[test]
fn a_busy_machine_changes_neither_class_nor_time() {
    let (quiet, mut busy) = (stream(20e9), stream(20e9));
    for sample in &mut busy.samples {
        sample.wall_ns *= 4;
        sample.switches = Some(3);
    }
    assert_eq!(placed(&quiet), placed(&busy), "the processor time of one thread is what counts");
    // One sleep a job until the others are done is what any pool does on a busy machine.
    let parallel =
        common::measured(&common::lattice_case("w", 1000), "parallel", 50e-6, Work::items("x", 1).flops(8e6));
    assert_eq!(placed(&counted(parallel, 0, 1)).limit, ellwand_report::Limit::Compute);
}

#[test]
fn a_fault_is_of_a_huge_page_only_where_that_much_memory_is_there() {
    let one = |bytes: u64| {
        let work = Work::items("x", 1).bytes(bytes, bytes);
        counted(common::measured(&common::lattice_case("w", 1000), "simd", 0.5e-3, work), 8, 0)
    };
    use ellwand_report::Limit;
    assert_eq!(placed(&one(2 * MIB)).limit, Limit::PageFaults);
    assert_eq!(placed(&one(MIB / 4)).limit, Limit::Unexplained, "16 MiB of huge pages for half a MiB of arrays");
    let mut machine = costly().environment;
    machine.huge_pages = Some("never".into());
    assert_eq!(ellwand_report::place(&one(2 * MIB), &machine).unwrap().limit, Limit::Unexplained);
    // What is said of the limit is the number that it was recognised by.
    let d = placed(&one(2 * MIB));
    assert!((d.seconds(Limit::PageFaults) / d.time_s - d.share).abs() < 1e-9, "{d:#?}");
}

#[test]
fn faults_until_the_allocator_has_its_memory_are_not_of_the_steady_state() {
    let mut m = common::measured(&common::lattice_case("w", 1000), "simd", 30e-3, Work::items("x", 1).bytes(MIB, MIB));
    for sample in &mut m.samples[..3] {
        sample.faults = Some(100_000 * sample.iterations);
    }
    silent("page-faults", std::slice::from_ref(&m));
    assert_eq!(placed(&m).seconds(ellwand_report::Limit::PageFaults), 0.0);
}

#[test]
fn what_ran_on_one_thread_woke_none() {
    use ellwand_report::Limit;
    let mut m = common::measured(&common::lattice_case("w", 8), "parallel", 1.2e-6, Work::items("x", 1).flops(100.0));
    assert_eq!(placed(&m).limit, Limit::ThreadWake);
    let told = Measurement { what_ran: "avx512, 1 threads".into(), ..m.clone() };
    assert_eq!(placed(&told).seconds(Limit::ThreadWake), 0.0, "a record from before the reading");
    m.readings.push(ellwand_core::Reading::threads(1));
    assert_eq!(placed(&m).seconds(Limit::ThreadWake), 0.0);
    let pair = [sized(8, "simd", 1e-6), m];
    silent("threads-idle", &pair);
    silent("threads-do-not-pay", &pair);
}

#[test]
fn a_cost_above_the_time_is_a_fault_and_far_above_it_no_explanation() {
    use ellwand_report::Limit;
    let woken = |seconds: f64| {
        common::measured(&common::lattice_case("w", 8), "parallel", seconds, Work::items("x", 1).flops(100.0))
    };
    let said = |seconds: f64| {
        let report = Report::from_records(&[common::through_text(&costly(), &[woken(seconds)])], &Options::default());
        of("bound-by", &report.unwrap().findings).cloned()
    };
    let d = placed(&woken(0.85e-6));
    assert!(d.limit == Limit::ThreadWake && d.exceeds(), "{d:#?}");
    let finding = said(0.85e-6).unwrap();
    assert_eq!((finding.class, finding.saving_upper_bound), (Class::Fault, None));
    assert!(finding.title.contains("at fault"), "{}", finding.title);
    assert_eq!(said(1.2e-6).unwrap().class, Class::Insight);
    // The cost may have been measured while the processors lay further apart; seven times as fast nobody was woken at all.
    assert!(placed(&woken(0.4e-6)).exceeds() && placed(&woken(0.4e-6)).limit == Limit::ThreadWake);
    assert_eq!(placed(&woken(0.1e-6)).limit, Limit::Unexplained);
    // Where something else explains the time, a cost above it explains nothing.
    let busy = Work::items("x", 1).flops(0.8 * 209e9 * 0.4e-6);
    let busy = common::measured(&common::lattice_case("w", 8), "parallel", 0.4e-6, busy);
    assert_eq!(placed(&busy).limit, Limit::Compute, "{:#?}", placed(&busy));
}

#[test]
fn waits_are_held_against_the_time_of_their_own_samples() {
    use ellwand_report::Limit;
    let ran = |seconds: f64| {
        common::measured(&common::lattice_case("w", 1000), "parallel", seconds, Work::items("things", 1))
    };
    let waiting = |m: &mut Measurement, which: std::ops::Range<usize>, times: u64| {
        for sample in &mut m.samples[which] {
            sample.waits = Some(40 * sample.iterations);
            sample.wall_ns *= times;
        }
    };
    let slots = ran(1e-3).samples.len();
    // Beside other programs most waits last as long as the scheduler likes; those that find their processors free tell.
    let mut busy = counted(ran(1e-3), 0, 40);
    waiting(&mut busy, 0..slots / 2, 50);
    assert_eq!(placed(&busy).limit, Limit::Contended, "{:#?}", placed(&busy));
    // One slot in which something happened is no habit.
    let mut once = ran(1e-3);
    waiting(&mut once, 0..1, 1);
    assert_eq!(placed(&once).limit, Limit::Unexplained, "{:#?}", placed(&once));
    // Many waits in slots that took a hundred times as long say nothing of those in which nobody waited.
    let mut now_and_then = ran(1e-3);
    waiting(&mut now_and_then, 0..slots / 2, 100);
    assert_eq!(placed(&now_and_then).limit, Limit::Unexplained, "{:#?}", placed(&now_and_then));
    // Where every wait lasts as long as other programs run, threads that hardly compute between two of them are known by that.
    let mut never_free = counted(ran(1e-3), 0, 40);
    for sample in &mut never_free.samples {
        sample.wall_ns *= 50;
        sample.cpu_ns = Some(200_000 * sample.iterations);
    }
    let placed_there = placed(&never_free);
    assert!(placed_there.limit == Limit::Contended && placed_there.share > 0.95, "{placed_there:#?}");
    let mut busy = never_free.clone();
    busy.samples.iter_mut().for_each(|sample| sample.cpu_ns = Some(5_000_000 * sample.iterations));
    assert_eq!(placed(&busy).limit, Limit::Unexplained, "{:#?}", placed(&busy));
}

#[test]
fn what_is_called_overhead_is_a_few_empty_calls() {
    use ellwand_report::Limit;
    let call = |seconds: f64| {
        let work = Work::items("x", 1).flops(8.0).bytes(32, 4);
        placed(&common::measured(&common::lattice_case("w", 1), "simd", seconds, work))
    };
    // An empty call takes 1.5 ns.
    let two = call(3e-9);
    assert_eq!((two.limit, two.words().as_str()), (Limit::Overhead, "it takes as long as 2.0 empty calls"));
    assert_eq!(call(20e-9).limit, Limit::Unexplained, "7 % of the time");
}

#[test]
fn words_fit_the_share() {
    use ellwand_report::Limit;
    let half = stream(12e9);
    let finding = speaks("bound-by", std::slice::from_ref(&half));
    assert!(finding.title.contains("at 50") && !finding.title.contains("close to"), "{}", finding.title);
    // Where arithmetic is required, half of the traffic may as well be a polynomial that nobody counted.
    let mut dense = half;
    dense.work.flops = 1e6;
    let d = placed(&dense);
    assert_eq!(d.limit, Limit::Unexplained, "{d:#?}");
    assert!(d.words().contains("memory, is 50"), "{}", d.words());
    // The table of limits says the same.
    let report = Report::from_records(&[common::through_text(&common::run(), &[dense])], &Options::default()).unwrap();
    let mut text = Vec::new();
    (ellwand_report::format("markdown").unwrap().write)(&report, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&format!("unexplained: {}", d.words())), "{text}");
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
fn a_finding_names_its_run_and_no_place_where_nothing_varies() {
    let record = || common::through_text(&common::run(), &[stream(2e9)]);
    let report = Report::from_records(&[record(), record()], &Options::default()).unwrap();
    let finding = of("far-from-ceiling", &report.findings).unwrap();
    assert_eq!(finding.subject(), "w simd");
    assert_eq!(finding.subject_in(&report), "w simd (run 1)");
    let one = Report::from_records(&[record()], &Options::default()).unwrap();
    assert_eq!(of("far-from-ceiling", &one.findings).unwrap().subject_in(&one), "w simd");
}

#[test]
fn without_ceilings_nothing_is_claimed() {
    assert!(ellwand_report::place(&stream(20e9), &ellwand_core::Environment::default()).is_none());
}
