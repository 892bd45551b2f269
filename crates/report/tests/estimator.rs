//! One estimator: the printed times, their ratio, its interval, and the fastest row never contradict each other.
#![allow(clippy::unwrap_used)]

mod common;

use ellwand_core::record::Basis;
use ellwand_core::{Measurement, Sample, Work};
use ellwand_report::{Bound, FORMATS, Limit, Options, Report, Row, units};
use proptest::prelude::*;

fn report_of(measurements: &[Measurement]) -> Report {
    Report::from_records(&[common::through_text(&common::run(), measurements)], &Options::default()).unwrap()
}

fn row<'a>(report: &'a Report, implementation: &str) -> &'a Row {
    report.workloads[0].rows.iter().find(|row| row.implementation == implementation).unwrap()
}

fn text(report: &Report, format: &str) -> String {
    let format = FORMATS.iter().find(|known| known.name == format).unwrap();
    let mut out = Vec::new();
    (format.write)(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn timed(implementation: &str, seconds: f64) -> Measurement {
    let work = Work::items("vectors", 10).flops(600.0).bytes(160, 20);
    common::measured(&common::lattice_case("w", 10), implementation, seconds, work)
}

/// A slot of any length, on any machine.
fn slot() -> impl Strategy<Value = Sample> {
    let times = (100_u64..10_000_000, 1_u64..50, 0.2_f64..1.2, 0.3_f64..1.0);
    (times, 0_u32..3, 0_u32..4, 0_u64..100, 0_u64..9).prop_map(|((wall, n, busy, fast), block, round, lost, waits)| {
        Sample {
            block,
            round,
            iterations: n,
            wall_ns: wall * n,
            cpu_ns: Some((wall as f64 * n as f64 * busy) as u64 + 1),
            parts: Some(n),
            fastest_ns: Some((wall as f64 * fast) as u64 + 1),
            switches: Some(lost),
            waits: Some(waits),
            ..Sample::default()
        }
    })
}

fn basis() -> impl Strategy<Value = Option<Basis>> {
    prop_oneof![Just(None), Just(Some(Basis::Fastest)), Just(Some(Basis::Cpu)), Just(Some(Basis::Wall))]
}

proptest! {
    #[test]
    fn a_speed_up_is_the_ratio_of_the_two_printed_times(
        base in proptest::collection::vec(slot(), 1..30), own in proptest::collection::vec(slot(), 1..30),
        bases in (basis(), basis()), names in prop_oneof![Just("simd"), Just("parallel")],
    ) {
        let mut both = [timed("reference", 1e-3), timed(names, 1e-3)];
        (both[0].samples, both[0].basis) = (base, bases.0);
        (both[1].samples, both[1].basis) = (own, bases.1);
        let report = report_of(&both);
        let (base, own) = (row(&report, "reference"), row(&report, names));
        let (t0, t1) = (base.median("time").unwrap(), own.median("time").unwrap());
        if let Some(ratio) = own.speedup.ratio {
            prop_assert!((ratio * t1 / t0 - 1.0).abs() < 1e-12, "{}", ratio);
            if let (Some(low), Some(high)) = (own.speedup.low, own.speedup.high) {
                prop_assert!(low <= ratio && ratio <= high);
            }
        }
        // The fastest row has the shortest time, there is at most one, and a tied row is not the fastest.
        for row in [base, own].into_iter().filter(|row| row.best) {
            prop_assert!(row.median("time").unwrap() <= t0.min(t1) && !row.tied);
        }
        prop_assert!(!(base.best && own.best) && base.tied == own.tied);
        // Utilisation also refers to the printed time: the larger of the two is the share of the ceiling.
        for (row, time) in [(base, t0), (own, t1)] {
            let used = [Limit::Compute, Limit::Memory].map(|limit| row.utilisation(limit).unwrap());
            let roof = row.roof.as_ref().unwrap();
            prop_assert!((used[0].max(used[1]) * time / roof.limit_s - 1.0).abs() < 1e-9, "{:?}", used);
        }
        // Rates also refer to the printed time.
        for (row, time) in [(base, t0), (own, t1)] {
            for (id, amount) in [
                ("throughput", row.work.items as f64),
                ("bandwidth", row.work.bytes_total() as f64),
                ("compute", row.work.flops),
                ("roofline-fraction", row.roof.as_ref().unwrap().limit_s),
            ] {
                if let Some(rate) = row.median(id) {
                    prop_assert!((rate * time / amount - 1.0).abs() < 1e-9, "{}", id);
                }
            }
        }
        // Each format prints these numbers and no others.
        let table = text(&report, "table");
        for time in [t0, t1] {
            prop_assert!(table.contains(&units::human(time, "s")), "{}", table);
        }
        if let Some(ratio) = own.speedup.text() {
            prop_assert!(table.contains(&ratio), "{} in {}", ratio, table);
        }
        let rows: serde_json::Value = serde_json::from_str(&text(&report, "seed-json")).unwrap();
        prop_assert_eq!(rows[1]["time_ms"].as_f64().unwrap(), t1 * 1e3);
        prop_assert_eq!(rows[1]["inference_speed"].as_f64().unwrap(), 1.0 / t1);
    }
}

#[test]
fn nothing_is_best_among_one_or_within_a_tie() {
    let alone = report_of(&[timed("simd", 1e-6)]);
    assert!(!row(&alone, "simd").best);
    assert_eq!(alone.workloads[0].cases[0].best.unavailable.as_deref(), Some("only one implementation was measured"));
    let near = report_of(&[timed("reference", 9e-6), timed("simd", 1e-6), timed("parallel", 1.02e-6)]);
    assert!(near.workloads[0].rows.iter().all(|row| !row.best), "2 % in a run alone are no evidence");
    assert!(row(&near, "simd").tied && row(&near, "parallel").tied && !row(&near, "reference").tied);
    assert!(text(&near, "table").contains("tied") && !text(&near, "table").contains("  best"));
    assert!(text(&near, "markdown").contains("the times of simd, parallel do not differ"));
    let clear = report_of(&[timed("reference", 9e-6), timed("simd", 1e-6), timed("parallel", 1.2e-6)]);
    assert!(row(&clear, "simd").best && !row(&clear, "parallel").tied);
    // A slower row that scatters is not tied with the fastest if another row is surely slower than the fastest. It may
    // still be faster, so no row is best.
    let wild = |name: &str, seconds: f64| {
        let mut wild = timed(name, seconds);
        for sample in &mut wild.samples {
            sample.wall_ns = sample.wall_ns * if sample.round % 2 == 0 { 4 } else { 18 } / 10;
        }
        wild
    };
    let scattered =
        report_of(&[timed("reference", 9e-6), timed("simd", 1e-6), timed("parallel", 1.2e-6), wild("wild", 1.3e-6)]);
    assert!(scattered.workloads[0].rows.iter().all(|row| !row.best && !row.tied));
    let why = scattered.workloads[0].cases[0].best.unavailable.clone().unwrap();
    assert_eq!(why, "the times of simd and wild scatter too much to say that simd is the fastest");
    // A row tied with the fastest is tied with all tied rows.
    let chain = report_of(&[wild("wild", 0.8e-6), timed("simd", 1e-6), timed("parallel", 1.2e-6)]);
    for (name, tied) in [("wild", true), ("simd", true), ("parallel", false)] {
        assert_eq!(row(&chain, name).tied, tied, "{name}");
    }
    // A single slot has no interval either, but it takes longer than all slots of the fastest.
    let mut slow = timed("slow", 9e-6);
    slow.samples.truncate(1);
    let apart = report_of(&[timed("simd", 1e-6), timed("parallel", 1.02e-6), slow]);
    for (name, tied) in [("simd", true), ("parallel", true), ("slow", false)] {
        assert_eq!(row(&apart, name).tied, tied, "{name}");
    }
    let mut single = [timed("reference", 9.0), timed("simd", 1.0)];
    single.iter_mut().for_each(|slow| slow.samples.truncate(1));
    let single = report_of(&single);
    assert!(single.workloads[0].rows.iter().all(|row| !row.best && !row.tied), "a slot each has no interval");
    let why = single.workloads[0].cases[0].best.unavailable.as_deref();
    assert_eq!(why, Some("too few slots for an interval of the ratios"));
}

/// The row in three processes, with the time of each slot multiplied by `times(process, round)`.
fn in_processes(mut m: Measurement, times: impl Fn(u32, u32) -> f64) -> Measurement {
    for sample in &mut m.samples {
        sample.block = sample.round / 7;
        sample.wall_ns = (sample.wall_ns as f64 * times(sample.block, sample.round)) as u64;
    }
    m
}

#[test]
fn a_row_that_is_far_slower_is_never_tied() {
    let near = || [timed("reference", 1e-6), timed("simd", 1.01e-6)].map(|m| in_processes(m, |_, _| 1.0));
    let with = |other: Measurement| report_of(&[near().as_slice(), &[other]].concat());
    // The interval of three processes that scatter contains 1, but all of them take longer.
    let report = with(in_processes(timed("parallel", 1e-6), |process, _| [12.0, 8.0, 2.5][process as usize]));
    let far = row(&report, "parallel");
    assert!(far.speedup.high.unwrap() > 1.0 && !far.tied, "{:?}", far.speedup);
    assert!(row(&report, "reference").tied && row(&report, "simd").tied);
    // A process of the fastest row was equally slow: nothing is shown, and a factor of eight is no tie.
    let report = report_of(&[
        in_processes(timed("reference", 1e-6), |process, _| [1.0, 1.0, 10.0][process as usize]),
        in_processes(timed("parallel", 8e-6), |_, _| 1.0),
    ]);
    assert!(report.workloads[0].rows.iter().all(|row| !row.best && !row.tied));
    let why = report.workloads[0].cases[0].best.unavailable.clone().unwrap();
    assert!(why.contains("scatter too much"), "{why}");
}

#[test]
fn rows_whose_printed_intervals_are_disjoint_are_not_tied() {
    // The baseline takes part in every second round, in which the first process of the fastest row was hardly disturbed.
    let mut base = in_processes(timed("reference", 9e-6), |_, _| 1.0);
    base.samples.retain(|sample| sample.round % 2 == 0);
    let disturbed = |_, round| if [1, 3, 5, 6].contains(&round) { 2.0 } else { 1.0 };
    let report = report_of(&[
        base,
        in_processes(timed("simd", 1e-6), |_, _| 1.0),
        in_processes(timed("parallel", 0.5e-6), disturbed),
    ]);
    let (slow, fast) = (row(&report, "simd"), row(&report, "parallel"));
    assert!(slow.speedup.high.unwrap() < fast.speedup.low.unwrap());
    assert!(fast.best && !slow.tied, "{:?}", report.workloads[0].cases[0].best);
}

/// A row that got `busy` processors while other programs switched it out.
fn beside_others(mut m: Measurement, busy: f64) -> Measurement {
    for sample in &mut m.samples {
        sample.cpu_ns = Some((sample.wall_ns as f64 * busy) as u64);
        sample.switches = Some(1 + sample.wall_ns / 5_000_000);
    }
    m
}

#[test]
fn times_of_a_busy_machine_are_bounds() {
    let parallel = |busy: f64| beside_others(timed("parallel", 20e-3), busy);
    let of = |all: &[Measurement]| report_of(all);
    let report = of(&[timed("reference", 90e-3), timed("simd", 15e-3), parallel(0.5)]);
    let held = row(&report, "parallel");
    assert_eq!(held.speedup.bound, Some(Bound::AtLeast));
    assert!((held.held_up.unwrap().least_s - 5e-3).abs() < 5e-4, "half a processor for 20 ms, spread over two");
    assert!(
        text(&report, "table").contains(&held.speedup.text().unwrap()) && held.speedup.text().unwrap().starts_with('≥')
    );
    // Alone it may take 5 ms, so simd is not certainly the fastest.
    assert!(!row(&report, "simd").best);
    let why = report.workloads[0].cases[0].best.unavailable.clone().unwrap();
    assert!(why.contains("held up parallel"), "{why}");
    // The same if its bound is the shorter of two similar times: it may be faster than both.
    for own in [19.8e-3, 20.2e-3] {
        let near = of(&[timed("reference", 90e-3), timed("simd", own), parallel(0.5)]);
        assert!(near.workloads[0].rows.iter().all(|row| !row.best && !row.tied), "{own}");
        assert_eq!(near.workloads[0].cases[0].best.unavailable.as_ref(), Some(&why), "{own}");
    }
    // If its bound is shorter than all other times, it is the fastest.
    assert!(row(&of(&[timed("reference", 90e-3), timed("simd", 40e-3), parallel(0.5)]), "parallel").best);
    // Threads are not blamed for the effect of other programs.
    assert!(report.findings.iter().all(|finding| !finding.rule.starts_with("threads")), "{:#?}", report.findings);
    assert!(report.findings.iter().any(|finding| finding.title.starts_with("other programs held it up")));
    // A row that hardly got a processor was rarely switched out per second of elapsed time.
    let mut starved = beside_others(timed("parallel", 0.1), 0.2);
    starved.samples.iter_mut().for_each(|sample| sample.switches = Some(sample.wall_ns / 25_000_000));
    let report = of(&[timed("reference", 90e-3), timed("simd", 15e-3), starved]);
    assert!(row(&report, "parallel").held_up.is_some());
    // At 1.9 of 2 processors it gets what the machine can give.
    let report = of(&[timed("reference", 90e-3), timed("simd", 15e-3), parallel(1.9)]);
    assert_eq!((row(&report, "parallel").held_up, row(&report, "parallel").speedup.bound), (None, None));
    assert!(row(&report, "simd").best);
    // An implementation that declares threads but works on the caller alone can use one processor, so no program held
    // it up.
    let mut alone = parallel(1.0);
    alone.samples.iter_mut().for_each(|sample| sample.others_ns = Some(0));
    let report = of(&[timed("reference", 90e-3), alone]);
    assert_eq!((row(&report, "parallel").held_up, row(&report, "parallel").speedup.bound), (None, None));
    assert!(row(&report, "parallel").best);
    let mut halves = parallel(1.0);
    halves.samples.iter_mut().for_each(|sample| sample.others_ns = sample.cpu_ns.map(|all| all / 2));
    assert!(row(&of(&[timed("reference", 90e-3), halves]), "parallel").held_up.is_some());
    // A baseline that was held up makes the ratio too large.
    let mut base = beside_others(timed("reference", 90e-3), 0.5);
    base.basis = Some(Basis::Wall);
    let report = of(&[base, timed("simd", 15e-3)]);
    assert_eq!(row(&report, "simd").speedup.bound, Some(Bound::AtMost));
}

#[test]
fn a_bound_on_a_speed_up_is_the_end_of_its_interval() {
    // The ratio over an undisturbed baseline differs between the processes of the row.
    let process = |process: u32, _: u32| [1.0, 1.1, 1.2][process as usize];
    let mut base = in_processes(timed("reference", 90e-3), |_, _| 1.0);
    let own = beside_others(in_processes(timed("parallel", 20e-3), process), 0.5);
    let report = report_of(&[base.clone(), own.clone()]);
    let speedup = &row(&report, "parallel").speedup;
    let (low, ratio) = (speedup.low.unwrap(), speedup.ratio.unwrap());
    assert!(low < 0.95 * ratio, "{speedup:?}");
    assert_eq!(speedup.shown(), Some((Some(Bound::AtLeast), low)));
    for format in ["table", "markdown"] {
        let text = text(&report, format);
        assert!(
            text.contains(&speedup.text().unwrap()) && !text.contains(&units::human(ratio, "x")),
            "{format}: {text}"
        );
    }
    // The same from the other side if the baseline was held up, and neither if there is no interval.
    base = beside_others(base, 0.5);
    base.basis = Some(Basis::Wall);
    let report = report_of(&[base.clone(), in_processes(timed("simd", 20e-3), process)]);
    let speedup = &row(&report, "simd").speedup;
    assert_eq!(speedup.shown(), Some((Some(Bound::AtMost), speedup.high.unwrap())));
    let few = [base, timed("simd", 20e-3)].map(|mut m| {
        m.samples.truncate(1);
        m
    });
    let report = report_of(&few);
    let speedup = &row(&report, "simd").speedup;
    assert_eq!((speedup.bound, speedup.low), (Some(Bound::AtMost), None));
    assert_eq!(speedup.shown(), Some((Some(Bound::Disturbed), speedup.ratio.unwrap())));
}

#[test]
fn a_speed_up_of_two_clocks_says_what_it_is_on_one() {
    let warned = |share: f64, seconds: f64, basis| {
        // The baseline got this share of a processor.
        let mut base = beside_others(timed("reference", 20e-3), share);
        base.basis = Some(Basis::Cpu);
        let mut own = timed("simd", seconds);
        own.basis = Some(basis);
        let report = report_of(&[base, own]);
        let simd = row(&report, "simd");
        let said: Vec<String> = simd.warnings.iter().filter(|text| text.contains("CPU time of")).cloned().collect();
        (simd.speedup.ratio.unwrap(), said)
    };
    let (ratio, said) = warned(0.5, 5e-3, Basis::Fastest);
    assert!((ratio / 2.0 - 1.0).abs() < 0.1, "{ratio}: of the printed times");
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("CPU time of reference with the elapsed time of simd"), "{said:?}");
    let elapsed: f64 = said[0].rsplit(' ').next().unwrap().trim_end_matches('x').parse().unwrap();
    assert!((elapsed / 4.0 - 1.0).abs() < 0.1, "{said:?}");
    assert!(warned(0.99, 5e-3, Basis::Fastest).1.is_empty(), "no program lengthened the time");
    assert!(warned(0.5, 5e-3, Basis::Cpu).1.is_empty(), "one clock");
    assert!(warned(0.5, 5e-6, Basis::Fastest).1.is_empty(), "parts of a short slot miss other programs");
}

#[test]
fn exponents_exclude_rows_disturbed_by_other_programs() {
    let of = |disturbed: bool| {
        let all: Vec<Measurement> = [100_i64, 1000, 10_000, 100_000]
            .into_iter()
            .map(|batch| {
                let case = common::lattice_case("w", batch);
                let mut m = common::measured(&case, "simd", 1e-7 * batch as f64, Work::items("vectors", batch as u64));
                if disturbed && batch == 100_000 {
                    // Every second slot takes twice as long, the others four times.
                    m.samples.iter_mut().enumerate().for_each(|(i, sample)| sample.wall_ns *= 2 + 2 * (i as u64 % 2));
                }
                m
            })
            .collect();
        report_of(&all).workloads[0].growth.clone()
    };
    for growth in [of(false), of(true)] {
        assert_eq!(growth.len(), 1);
        assert!((growth[0].exponent - 1.0).abs() < 0.02 && growth[0].low <= growth[0].exponent, "{growth:?}");
    }
    assert_eq!((of(false)[0].cases, of(true)[0].cases), (4, 3));
}

#[test]
fn threads_that_a_row_does_not_declare_are_named_once() {
    let mut hidden = beside_others(timed("simd", 4e-9), 0.07);
    for sample in &mut hidden.samples {
        sample.others_ns = Some(sample.wall_ns * 7 / 10);
        sample.waits = Some(sample.iterations);
    }
    let report = report_of(&[timed("reference", 90e-9), hidden]);
    let found = row(&report, "simd");
    let warning =
        "other threads of this program worked meanwhile (90.9 % of its CPU time): declare them with .many_threads()";
    assert_eq!((found.warnings.as_slice(), found.held_up), ([warning.to_string()].as_slice(), None));
    assert!(text(&report, "table").contains("with .many_threads() (1 of 2 rows: simd)"));
    let rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert!(!rules.contains(&"contended") && !rules.contains(&"above-ceiling"), "{:#?}", report.findings);
    assert_ne!(found.diagnosis.as_ref().unwrap().limit, Limit::AboveCeiling);
}
