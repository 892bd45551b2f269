//! The limits assigned to measurements on a synthetic machine, and their wording.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/findings.rs"]
mod findings;

use ellwand_core::record::Record;
use ellwand_core::{Measurement, Work};
use ellwand_report::{Class, FORMATS, Options, Report};
use findings::{MIB, of, silent, sized, speaks, stream};

/// The synthetic machine with all costs that can be a limit.
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
    add(CeilingKind::Latency, 512 << 10, "L2", 4e-9);
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
        (one("simd", 160e-3, nothing().bytes(64 * MIB, 0).dependent(true)), Limit::Latency, Lever::Independence),
        // A loop that happens to take as long.
        (one("simd", 160e-3, nothing().bytes(64 * MIB, 0)), Limit::Unexplained, Lever::Tuning),
        (one("simd", 6e-9, nothing().flops(8.0).bytes(32, 4)), Limit::Overhead, Lever::Batching),
        (
            counted(one("simd", 30e-3, nothing().bytes(24 * MIB, 24 * MIB)), 12_000, 0),
            Limit::PageFaults,
            Lever::BufferReuse,
        ),
        (counted(one("simd", 0.5e-3, nothing().bytes(2 * MIB, 2 * MIB)), 8, 0), Limit::PageFaults, Lever::BufferReuse),
        (one("parallel", 1.2e-6, nothing().flops(100.0)), Limit::ThreadWake, Lever::Batching),
        // Waking cost 1 us at best; between distant processors it is several times that.
        (one("parallel", 6e-6, nothing().flops(100.0)), Limit::ThreadWake, Lever::Batching),
        (one("parallel", 12e-6, nothing().flops(100.0)), Limit::Instructions, Lever::Tuning),
        (counted(one("parallel", 1e-3, nothing()), 0, 40), Limit::Contended, Lever::Threads),
        (one("simd", 1e-3, nothing().flops(1e6).bytes(4096, 4096)), Limit::Instructions, Lever::Tuning),
    ];
    for (index, (measurement, limit, lever)) in cases.iter().enumerate() {
        let d = placed(measurement);
        assert_eq!(d.limit, *limit, "case {index}: {d:#?}");
        assert_eq!(d.changes[0].lever, *lever, "case {index}: {d:#?}");
        assert!(d.changes.iter().all(|c| (0.0..=1.0).contains(&c.saving_upper_bound)), "case {index}: {d:#?}");
    }
}

#[test]
fn no_counter_is_advised_that_the_machine_does_not_have() {
    let work = Work::items("things", 1).flops(1e6).bytes(4096, 4096);
    let mut m = common::measured(&common::lattice_case("w", 1000), "simd", 1e-3, work);
    let advised = |m: &Measurement| placed(m).changes.iter().any(|change| change.experiment.contains("perf stat"));
    assert!(advised(&m));
    let better = ellwand_core::Better::Lower;
    let why = "this machine has no such counter";
    m.readings.push(ellwand_core::Reading::unavailable("cycles", "cycles", "", better, why));
    assert!(!advised(&m), "{:#?}", placed(&m));
}

#[test]
fn a_share_above_the_ceiling_is_reported_and_not_clamped() {
    let d = placed(&stream(36e9));
    assert_eq!(d.limit, ellwand_report::Limit::AboveCeiling);
    assert!((d.share - 1.5).abs() < 0.05 && d.changes.is_empty(), "{d:#?}");
}

#[test]
fn counted_operations_replace_those_that_the_case_may_need() {
    // Counting all of them would give twice the peak rate.
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
fn a_working_set_between_two_levels_is_judged_against_the_slower_one() {
    // 48 KiB exceed an L1 of 32 KiB by half; part of them may still come from there, faster than L2.
    let bytes = 48 << 10;
    let work = Work::items("vectors", 1000).bytes(bytes / 2, bytes / 2);
    let m = common::measured(&common::lattice_case("w", 1000), "simd", bytes as f64 / 150e9, work);
    silent("above-ceiling", std::slice::from_ref(&m));
    let record: Record = common::through_text(&common::run(), std::slice::from_ref(&m));
    let report = Report::from_records(&[record], &Options::default()).unwrap();
    let row = &report.workloads[0].rows[0];
    assert_eq!(row.roof.as_ref().unwrap().ceiling.level, "L2");
    assert!((row.median("roofline-fraction").unwrap() - 150.0 / 90.0).abs() < 0.05);
    let format = FORMATS.iter().find(|known| known.name == "table").unwrap();
    let mut table = Vec::new();
    (format.write)(&report, &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("simd") && !table.contains("above ceiling"), "{table}");
    // A share above 100 % is not printed as a bound.
    let line = table.lines().find(|line| line.contains("simd")).unwrap();
    assert!(line.contains("memory-bound (above L2)") && !line.contains("167 %"), "{line}");
    let markdown = FORMATS.iter().find(|known| known.name == "markdown").unwrap();
    let mut text = Vec::new();
    (markdown.write)(&report, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let short = text.lines().find(|line| line.starts_with("- **")).unwrap();
    assert!(short.contains("simd reaches") && !short.contains("of the ceiling"), "{short}");
    let finding = report.findings.iter().find(|finding| finding.rule == "bound-by").unwrap();
    assert!(
        finding.title.contains("faster cache, or the ceiling was measured on a busier machine"),
        "{}",
        finding.title
    );
    assert!(finding.next_experiment.contains("`ellwand machine`") && finding.saving_upper_bound.is_none());
}

#[test]
fn a_busy_machine_changes_neither_class_nor_time() {
    let (quiet, mut busy) = (stream(20e9), stream(20e9));
    for sample in &mut busy.samples {
        sample.wall_ns *= 4;
        sample.switches = Some(3);
    }
    assert_eq!(placed(&quiet), placed(&busy), "the processor time of one thread is what counts");
    // One sleep per job until the others finish is normal for a pool on a busy machine.
    let parallel =
        common::measured(&common::lattice_case("w", 1000), "parallel", 50e-6, Work::items("x", 1).flops(8e6));
    assert_eq!(placed(&counted(parallel, 0, 1)).limit, ellwand_report::Limit::Compute);
}

#[test]
fn the_saving_of_buffer_reuse_is_bounded_by_the_time_without_faults() {
    // 24,000 faults take 48 of 63 ms at the measured cost; all but the 4 ms of traffic and arithmetic can be saved.
    let work = Work::items("x", 1).flops(1e8).bytes(48 * MIB, 48 * MIB);
    let m = counted(common::measured(&common::lattice_case("w", 1000), "simd", 63e-3, work), 24_000, 0);
    let d = placed(&m);
    assert_eq!(d.limit, ellwand_report::Limit::PageFaults);
    let bound = 1.0 - d.seconds(ellwand_report::Limit::Memory) / d.time_s;
    assert!((0.93..0.95).contains(&bound), "{d:#?}");
    assert_eq!(d.changes[0].saving_upper_bound, bound);
    let said = |m: Measurement| {
        let report = Report::from_records(&[common::through_text(&costly(), &[m])], &Options::default()).unwrap();
        of("page-faults", &report.findings).unwrap().clone()
    };
    assert!((said(m.clone()).saving_upper_bound.unwrap() - bound).abs() < 0.01);
    // A cost that is not the limit is printed, but bounds nothing.
    let few = said(counted(m, 3000, 0));
    assert_eq!(few.saving_upper_bound, None);
    assert!(few.evidence.iter().any(|number| number.unit == "1" && (0.08..0.11).contains(&number.value)), "{few:#?}");
}

#[test]
fn a_fault_is_of_a_huge_page_only_where_that_much_memory_is_there() {
    let one = |bytes: u64| {
        let work = Work::items("x", 1).bytes(bytes, bytes);
        counted(common::measured(&common::lattice_case("w", 1000), "simd", 0.5e-3, work), 8, 0)
    };
    use ellwand_report::Limit;
    assert_eq!(placed(&one(2 * MIB)).limit, Limit::PageFaults);
    assert_eq!(placed(&one(MIB / 4)).limit, Limit::Instructions, "16 MiB of huge pages for half a MiB of arrays");
    let mut machine = costly().environment;
    machine.huge_pages = Some("never".into());
    assert_eq!(ellwand_report::place(&one(2 * MIB), &machine).unwrap().limit, Limit::Unexplained);
    // The printed number is the one that identified the limit.
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
fn runs_on_one_thread_have_no_wake_up_cost() {
    use ellwand_report::Limit;
    let mut m = common::measured(&common::lattice_case("w", 8), "parallel", 1.2e-6, Work::items("x", 1).flops(100.0));
    assert_eq!(placed(&m).limit, Limit::ThreadWake);
    let older = Measurement { what_ran: "avx512, 1 threads".into(), ..m.clone() };
    assert_eq!(placed(&older).seconds(Limit::ThreadWake), 0.0, "a record from before the reading");
    m.readings.push(ellwand_core::Reading::threads(1));
    assert_eq!(placed(&m).seconds(Limit::ThreadWake), 0.0);
    let pair = [sized(8, "simd", 1e-6), m];
    silent("threads-idle", &pair);
    silent("threads-do-not-pay", &pair);
}

#[test]
fn a_cost_near_the_time_explains_all_of_it_and_one_far_above_nothing() {
    use ellwand_report::Limit;
    let woken = |seconds: f64| {
        common::measured(&common::lattice_case("w", 8), "parallel", seconds, Work::items("x", 1).flops(100.0))
    };
    let said = |seconds: f64| {
        let report = Report::from_records(&[common::through_text(&costly(), &[woken(seconds)])], &Options::default());
        of("bound-by", &report.unwrap().findings).cloned()
    };
    let d = placed(&woken(0.85e-6));
    assert!(d.limit == Limit::ThreadWake && d.share == 1.0, "{d:#?}");
    for finding in [said(0.85e-6).unwrap(), said(1.2e-6).unwrap()] {
        assert_eq!(finding.class, Class::Insight, "{finding:#?}");
        assert!(finding.evidence.iter().all(|number| number.unit != "1" || number.value <= 1.0), "{finding:#?}");
    }
    // In less than half of the cost, no thread can have been woken.
    assert_eq!(placed(&woken(0.4e-6)).limit, Limit::Instructions);
    // If something else explains the time, a cost above it explains nothing.
    let busy = Work::items("x", 1).flops(0.8 * 209e9 * 0.4e-6);
    let busy = common::measured(&common::lattice_case("w", 8), "parallel", 0.4e-6, busy);
    assert_eq!(placed(&busy).limit, Limit::Compute, "{:#?}", placed(&busy));
}

#[test]
fn waits_are_compared_with_the_time_of_their_own_samples() {
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
    // Next to other programs, most waits depend on the scheduler; the samples with free processors still show the
    // limit.
    let mut busy = counted(ran(1e-3), 0, 40);
    waiting(&mut busy, 0..slots / 2, 50);
    assert_eq!(placed(&busy).limit, Limit::Contended, "{:#?}", placed(&busy));
    // A single slot with waits is not regular waiting.
    let mut once = ran(1e-3);
    waiting(&mut once, 0..1, 1);
    assert_eq!(placed(&once).limit, Limit::Instructions, "{:#?}", placed(&once));
    // Many waits in slots that took a hundred times as long say nothing about the slots without waits.
    let mut now_and_then = ran(1e-3);
    waiting(&mut now_and_then, 0..slots / 2, 100);
    assert_eq!(placed(&now_and_then).limit, Limit::Instructions, "{:#?}", placed(&now_and_then));
    // If all waits depend on other programs, threads that hardly compute between waits still show the limit.
    let mut never_free = counted(ran(1e-3), 0, 40);
    for sample in &mut never_free.samples {
        sample.wall_ns *= 50;
        sample.cpu_ns = Some(200_000 * sample.iterations);
    }
    let placed_there = placed(&never_free);
    assert!(placed_there.limit == Limit::Contended && placed_there.share > 0.95, "{placed_there:#?}");
    let mut busy = never_free.clone();
    busy.samples.iter_mut().for_each(|sample| sample.cpu_ns = Some(5_000_000 * sample.iterations));
    assert_eq!(placed(&busy).limit, Limit::IdleThreads, "{:#?}", placed(&busy));
}

#[test]
fn overhead_is_a_few_empty_calls() {
    use ellwand_report::Limit;
    let call = |seconds: f64| {
        let work = Work::items("x", 1).flops(8.0).bytes(32, 4);
        placed(&common::measured(&common::lattice_case("w", 1), "simd", seconds, work))
    };
    // An empty call takes 1.5 ns.
    let two = call(3e-9);
    assert_eq!((two.limit, two.description().as_str()), (Limit::Overhead, "it takes as long as 2.0 empty calls"));
    assert_eq!(call(20e-9).limit, Limit::Instructions, "7 % of the time");
}

#[test]
fn the_finding_is_worded_by_its_share() {
    use ellwand_report::Limit;
    let half = stream(12e9);
    let finding = speaks("bound-by", std::slice::from_ref(&half));
    assert!(finding.title.contains("at 50") && !finding.title.contains("close to"), "{}", finding.title);
    // If arithmetic is required, half of the time may be an uncounted polynomial; nothing else takes more.
    let mut dense = half;
    dense.work.flops = 1e6;
    let d = placed(&dense);
    assert_eq!(d.limit, Limit::Memory, "{d:#?}");
    // The table of limits agrees.
    let report = Report::from_records(&[common::through_text(&common::run(), &[dense])], &Options::default()).unwrap();
    let mut text = Vec::new();
    (ellwand_report::format("markdown").unwrap().write)(&report, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&format!("memory-bound (DRAM): {}", d.description())), "{text}");
}

#[test]
fn arrays_of_16_bit_numbers_get_no_advice_to_store_them() {
    use ellwand_report::Lever;
    let advised = |m: &Measurement| placed(m).changes.iter().any(|change| change.lever == Lever::Precision);
    let mut half = stream(20e9);
    assert!(advised(&half));
    half.work.narrow = true;
    assert!(!advised(&half));
}

#[test]
fn unexplained_time_is_classified_by_instructions_per_cycle() {
    use ellwand_core::{Better, Reading};
    use ellwand_report::Limit;
    let counted = |per_cycle: f64, clock_hz: f64, traffic: f64| {
        let bytes = (traffic * 24e9 * 1e-3) as u64;
        let work = Work::items("x", 1).flops(1e3).bytes(bytes, 0).working_set(64 * MIB);
        let mut m = common::measured(&common::lattice_case("w", 1000), "simd", 1e-3, work);
        let cycles = clock_hz * 1e-3;
        for (id, value) in [("cycles", cycles), ("instructions", per_cycle * cycles)] {
            m.readings.push(Reading::measured(id, id, "", Better::Lower, value, ""));
        }
        placed(&m)
    };
    for (per_cycle, limit) in [(3.5, Limit::Issue), (2.0, Limit::Instructions), (0.7, Limit::Dependency)] {
        let d = counted(per_cycle, 3e9, 0.1);
        assert_eq!(d.limit, limit, "{d:#?}");
        assert!((d.share - 0.9).abs() < 0.02 && (d.per_cycle.unwrap() - per_cycle).abs() < 1e-9, "{d:#?}");
        assert!(d.description().contains("instructions"), "{}", d.description());
    }
    assert_eq!(counted(3.5, 3e9, 0.7).limit, Limit::Memory, "traffic explains the time");
    // The cycle count of a cold run implies an impossible clock rate, and lines from memory may wait for each other.
    let cold = counted(0.2, 60e9, 0.3);
    assert_eq!((cold.limit, cold.per_cycle), (Limit::Unexplained, None), "{cold:#?}");
}

#[test]
fn lines_that_wait_for_each_other_wait_in_every_thread_at_once() {
    use ellwand_report::Limit;
    // 3200 lines at 1.25 ns take 4 us in one thread, 2 us in two.
    let work = || Work::items("x", 1).bytes(3200 * 64, 0).working_set(8 << 10);
    let of = |name, seconds| placed(&common::measured(&common::lattice_case("w", 1000), name, seconds, work())).limit;
    assert_eq!((of("simd", 9e-6), of("simd", 11e-6)), (Limit::Unexplained, Limit::Instructions));
    assert_eq!(of("parallel", 9e-6), Limit::Instructions);
    // Prefetched lines wait for nothing.
    let ahead = common::measured(&common::lattice_case("w", 1000), "simd", 9e-6, work().in_order());
    assert_eq!(placed(&ahead).limit, Limit::Instructions);
}

#[test]
fn the_rate_of_one_lane_is_named() {
    use ellwand_report::Limit;
    // Eight lanes have a peak of 110 GFLOP/s.
    let at = |flops_per_s: f64| {
        let work = Work::items("x", 1).flops(flops_per_s * 1e-3).bytes(4096, 4096).in_order();
        common::measured(&common::lattice_case("w", 1000), "scalar", 1e-3, work)
    };
    let d = placed(&at(14e9));
    assert_eq!(d.limit, Limit::Instructions);
    assert_eq!(d.description(), "it does the required operations at the rate of one lane, 12.7 % of the measured peak");
    assert!(d.changes.iter().any(|change| change.experiment.contains("vector instructions")), "{d:#?}");
    for flops_per_s in [2e9, 30e9] {
        let d = placed(&at(flops_per_s));
        assert!(d.limit == Limit::Instructions && !d.one_lane && !d.description().contains("lane"), "{d:#?}");
    }
    // Vector code may do other work at that rate.
    assert!(!placed(&Measurement { what_ran: "avx512".into(), ..at(14e9) }).one_lane);
}

#[test]
fn idle_threads_and_preempted_threads_are_distinguished() {
    use ellwand_report::Limit;
    let mut idle = common::measured(&common::lattice_case("w", 1000), "parallel", 20e-3, Work::items("x", 1));
    for sample in &mut idle.samples {
        sample.cpu_ns = Some(sample.wall_ns * 9 / 10);
    }
    let d = placed(&idle);
    assert!(d.limit == Limit::IdleThreads && (d.share - 0.55).abs() < 0.05, "{d:#?}");
    idle.samples.iter_mut().for_each(|sample| sample.switches = Some(1 + sample.wall_ns / 5_000_000));
    let d = placed(&idle);
    assert!(d.limit == Limit::HeldUp && d.changes.is_empty(), "{d:#?}");
    // One short slot in ten meets a switch: 250 a second of CPU time.
    let mut short = common::measured(&common::lattice_case("w", 1000), "parallel", 0.4e-3, Work::items("x", 1));
    let slots = short.samples.len();
    for (index, sample) in short.samples.iter_mut().enumerate() {
        sample.cpu_ns = Some(sample.wall_ns * 9 / 10);
        sample.switches = Some(u64::from(index < slots / 10));
    }
    assert_eq!(placed(&short).limit, Limit::HeldUp);
    short.samples[0].switches = Some(0);
    assert_eq!(placed(&short).limit, Limit::IdleThreads, "a single switch");
}

#[test]
fn without_ceilings_nothing_is_claimed() {
    assert!(ellwand_report::place(&stream(20e9), &ellwand_core::Environment::default()).is_none());
}
