//! The instrument on a fake clock, where its behaviour is exact and is asserted exactly.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use common::{Act, Bench};
use ellwand_core::record::{Counts, Outcome, Sample};
use ellwand_core::{DeviceKind, Implementation, PrepareError};

#[test]
fn rounds_are_interleaved_and_every_order_is_drawn() {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(250));
    bench.add("slower", |_| Act::Right(500));
    let measured = bench.measure();
    assert!(measured.iter().all(|m| m.outcome == Outcome::Measured), "{measured:?}");
    for (m, iterations, each) in [(&measured[0], 4, 250), (&measured[1], 2, 500)] {
        assert_eq!(m.samples.len(), 8);
        for (round, sample) in m.samples.iter().enumerate() {
            let expected = Sample {
                round: round as u32,
                iterations,
                wall_ns: 1000,
                cpu_ns: Some(1000),
                switches: Some(0),
                ..Sample::default()
            };
            assert_eq!(Sample { position: 0, ..*sample }, expected);
            assert_eq!(m.seconds(sample), f64::from(each) * 1e-9);
        }
        assert_eq!(m.first_run_ns, Some(each as u64));
    }
    let first: Vec<u32> = measured[0].samples.iter().map(|s| s.position).collect();
    let second: Vec<u32> = measured[1].samples.iter().map(|s| s.position).collect();
    assert!(first.iter().zip(&second).all(|(a, b)| a + b == 1), "each round has both, side by side");
    assert!(first.contains(&0) && first.contains(&1), "the coin fell on both sides in eight rounds: {first:?}");
}

#[test]
fn a_slow_implementation_gets_its_share_of_the_time_and_no_more() {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(1_000));
    bench.add("slow", |_| Act::Right(2_500));
    bench.add("glacial", |_| Act::Right(1_000_000));
    let measured = bench.measure();
    let rounds = |i: usize| measured[i].samples.iter().map(|s| s.round).collect::<Vec<_>>();
    assert_eq!(rounds(0), (0..5).collect::<Vec<_>>(), "10 us hold five slots of 1 us, each after a head of 1 us");
    assert_eq!(rounds(1), [0, 2, 4], "and two of 2.5 us, spread over the five rounds");
    assert_eq!(rounds(2), [0, 2, 4], "the fewest samples, however slow");
}

#[test]
fn the_work_of_a_row_is_that_of_its_inputs() {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(250));
    let m = &bench.measure()[0];
    assert_eq!((m.work.items, m.work.flops), (4, 8.0));
}

#[test]
fn fixed_counts_are_kept_by_every_slot() {
    let mut bench = Bench::default();
    let runs = bench.add("steady", |_| Act::Right(250));
    bench.add("slower", |_| Act::Right(500));
    let never = AtomicBool::new(false);
    let mut instrument = bench.instrument(&never);
    let free = instrument.measure(&bench.cell(), &mut |_| {}).unwrap();
    let before = runs.load(SeqCst);
    assert!(free.iter().all(|m| m.samples[0].iterations != 3 && m.warnings.is_empty()), "{free:?}");
    instrument.settings.counts = Some(Counts { warm_up: 5, iterations: 3 });
    let fixed = instrument.measure(&bench.cell(), &mut |_| {}).unwrap();
    for (m, each) in fixed.iter().zip([250, 500]) {
        assert!(m.samples.iter().all(|s| (s.iterations, s.wall_ns) == (3, 3 * each)), "{m:?}");
        // 10 us hold five turns of 2 us, or two of 4 us.
        assert_eq!(m.samples.len(), if each == 250 { 5 } else { 3 });
        let said = "fixed counts: 3 timed iterations per slot, after 5 untimed ones, settled or not";
        assert_eq!((m.warnings[0].as_str(), &m.settling), (said, &None));
    }
    // Five slots of eight runs each, plus those for calibration and judging.
    let slots = fixed[0].samples.len() as u64 * 8;
    assert!(runs.load(SeqCst) - before >= slots + 2, "the untimed iterations ran as well");
}

#[test]
fn wrong_answers_are_never_timed() {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(500));
    let runs = bench.add("wrong", |_| Act::Wrong(1));
    let idle = bench.add("idle", |_| Act::Nothing);
    let measured = bench.measure();
    assert_eq!(measured[0].outcome, Outcome::Measured);
    for (m, counter) in [(&measured[1], runs), (&measured[2], idle)] {
        assert!(matches!(&m.outcome, Outcome::Wrong { verdict } if !verdict.passed), "{:?}", m.outcome);
        assert!(m.samples.is_empty());
        assert_eq!(counter.load(SeqCst), 1, "judged once, never sampled");
    }
}

#[test]
fn an_answer_that_turns_wrong_voids_its_times() {
    let mut bench = Bench::default();
    bench.add("rotting", |runs| if runs < 20 { Act::Right(500) } else { Act::Wrong(500) });
    let measured = bench.measure();
    assert!(matches!(measured[0].outcome, Outcome::Wrong { .. }), "{:?}", measured[0].outcome);
    assert!(measured[0].samples.is_empty());
}

#[test]
fn an_implementation_that_stops_computing_is_caught_by_the_poison() {
    let mut bench = Bench::default();
    bench.add("lazy", |runs| if runs < 20 { Act::Right(500) } else { Act::Nothing });
    let ended = std::thread::spawn(move || bench.measure());
    // With a clock that has stopped, calibration must not loop for ever; the rounds have begun by then.
    assert!(matches!(ended.join().unwrap()[0].outcome, Outcome::Wrong { .. }));
}

#[test]
fn a_failure_is_a_row_and_never_ends_the_run() {
    let mut bench = Bench::default();
    bench.add("panics-at-once", |_| Act::Panic);
    bench.add("panics-late", |runs| if runs < 15 { Act::Right(500) } else { Act::Panic });
    bench.registry.implementation(Implementation::cpu("add-one", "broken", "", |_, _, _| panic!("no luck in prepare")));
    bench.registry.implementation(Implementation::cpu("add-one", "picky", "", |_, _, _| {
        Err(PrepareError::Unsupported("the moon is not full".into()))
    }));
    let mut elsewhere =
        Implementation::cpu("add-one", "elsewhere", "", |_, _, _| Err(PrepareError::Failed("never called".into())));
    elsewhere.needs = DeviceKind::Cuda;
    bench.registry.implementation(elsewhere);
    bench.add("steady", |_| Act::Right(500));
    let outcomes: BTreeMap<String, (&str, String)> = bench
        .measure()
        .iter()
        .map(|m| (m.implementation.clone(), (m.outcome.word(), m.outcome.reason().unwrap_or("").to_string())))
        .collect();
    let (word, why) = &outcomes["panics-at-once"];
    assert_eq!((*word, why.as_str()), ("failed", "it panicked in run: out of luck"));
    assert_eq!(outcomes["panics-late"].0, "failed");
    assert_eq!(outcomes["broken"], ("failed", "it panicked in prepare: no luck in prepare".to_string()));
    assert_eq!(outcomes["picky"], ("unsupported", "the moon is not full".to_string()));
    assert!(outcomes["elsewhere"].0 == "unsupported" && outcomes["elsewhere"].1.contains("no CUDA device"));
    assert_eq!(outcomes["steady"].0, "measured");
}

#[test]
fn an_interrupt_stops_between_rounds() {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(500));
    let interrupt = AtomicBool::new(false);
    let mut rounds = 0;
    let outcome = bench.instrument(&interrupt).measure(&bench.cell(), &mut |event| {
        if let ellwand_bench::Event::Sampled { rounds: done, .. } = event {
            rounds = done;
            interrupt.store(done >= 3, SeqCst);
        }
    });
    assert!(outcome.is_err());
    assert_eq!(rounds, 3);
}

#[test]
fn the_same_seed_gives_the_same_inputs_and_another_seed_others() {
    let bench = Bench::default();
    let never = AtomicBool::new(false);
    let inputs = |seed: u64| {
        let mut instrument = bench.instrument(&never);
        instrument.seed = seed;
        let mut with = Bench::default();
        with.add("steady", |_| Act::Right(1));
        let cell = with.cell();
        instrument.inputs(cell.workload.as_ref(), &cell.case).unwrap().1.digest()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}

#[test]
fn a_time_below_the_resolution_is_marked() {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(500));
    let mut measured = bench.measure().remove(0);
    assert!(!measured.below_resolution());
    measured.resolution_ns = Some(600.0);
    assert!(measured.below_resolution());
}

/// A device clock that is set while it is used, an hour back and an hour forward: only the affected slots are wrong,
/// and the step back gives a warning.
#[test]
fn a_clock_that_steps_spoils_only_the_slots_it_hits_and_gives_a_warning() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let mut bench = Bench::default();
    bench.clock.advance(2 * HOUR_NS);
    bench.add("steady", |_| Act::Right(250));
    let runs = bench.add("stepping", |runs| match runs {
        RUNS_BACK => Act::Back(HOUR_NS),
        RUNS_ON => Act::Right(HOUR_NS),
        _ => Act::Right(250),
    });
    let measured = bench.measure();
    assert!(measured.iter().all(|m| m.outcome == Outcome::Measured), "{measured:?}");
    assert!(runs.load(SeqCst) > RUNS_ON, "both steps were met");
    let walls = |i: usize| measured[i].samples.iter().map(|sample| sample.wall_ns).collect::<Vec<_>>();
    assert_eq!(walls(0), [1000; 8]);
    assert!(!measured[0].warnings.iter().any(|warning| warning.contains("clock")), "{:?}", measured[0].warnings);
    let stepped = walls(1);
    assert_eq!(stepped.iter().filter(|wall| **wall == 1000).count(), stepped.len() - 2, "{stepped:?}");
    assert_eq!(stepped.iter().filter(|wall| **wall > HOUR_NS).count(), 1, "{stepped:?}");
    let said: Vec<&String> = measured[1].warnings.iter().filter(|warning| warning.contains("clock")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("went back in 1 of 8 slots"), "{said:?}");
    // The reported time is the median of the slots, which no step moved.
    let walls: Vec<f64> = stepped.iter().map(|wall| *wall as f64).collect();
    assert_eq!(ellwand_core::stats::median(&walls), Some(1000.0));
}

/// Run numbers of the toy in the test above that fall inside slots: four runs fill a slot, and one more warms it up.
const RUNS_BACK: u64 = 30;
const RUNS_ON: u64 = 45;
