//! The typed builder: how the instrument handles right, wrong, empty and panicking closures.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use ellwand::internals::bench::{Cell, Effort, Instrument, Plan, Selection};
use ellwand::internals::core::record::{Outcome, Settings};
use ellwand::internals::core::{Case, Registry, Value, Verdict};
use ellwand::rand::RngExt;
use ellwand::suite::Suite;
use ellwand::{Axis, Compared, Size, Work, suite};

#[path = "suite/buffers.rs"]
mod buffers;
#[path = "suite/slips.rs"]
mod slips;

fn numbers() -> Suite<Vec<u32>, Vec<u32>> {
    suite("sort")
        .axis(Axis::int("n", "numbers", 0, 10_000, 50))
        .input(|case, rng| (0..case.usize("n")).map(|_| rng.random()).collect::<Vec<u32>>())
        .work(|case| Work::items("numbers", case.usize("n") as u64).bytes(4 * case.usize("n") as u64, 0))
        .implementation_mut("std", |v| v.sort())
}

fn case() -> Case {
    Case::new("sort", vec![("n".into(), Value::Int(50))])
}

/// The outcome of a short measurement, which judges before and after.
fn outcome(registry: &Registry, name: &str) -> Result<(), Outcome> {
    let implementation = registry.implementations("sort").into_iter().find(|known| known.name == name).unwrap();
    let workload = registry.find("sort").unwrap().clone();
    let cell = Cell { workload, case: case(), implementations: vec![implementation.clone()], allowed: None };
    let (interrupt, settings) = (AtomicBool::new(false), Effort::Quick.settings());
    let settings = Settings { case_budget_ns: 100_000, warm_up_ns: 0, rounds_max: 3, samples_min: 1, ..settings };
    let instrument = Instrument::new(registry, settings, 7, &interrupt);
    match instrument.measure(&cell, &mut |_| ()).unwrap().remove(0).outcome {
        Outcome::Measured => Ok(()),
        other => Err(other),
    }
}

fn wrong(registry: &Registry, name: &str) -> String {
    match outcome(registry, name) {
        Err(Outcome::Wrong { verdict }) => verdict.detail,
        other => panic!("{name} should be wrong: {other:?}"),
    }
}

fn sorted_copy(numbers: &[u32]) -> Vec<u32> {
    let mut answer = numbers.to_vec();
    answer.sort_unstable();
    answer
}

/// A suite whose implementations, reference included, return the same answer for any input.
fn answering<O>(answer: fn() -> O) -> Suite<usize, O>
where
    O: PartialEq + std::fmt::Debug + Default + Send + Sync + 'static,
{
    suite("sort")
        .axis(Axis::int("n", "numbers", 0, 10_000, 50))
        .input(|case, _| case.usize("n"))
        .implementation("idle", move |_| answer())
        .implementation_into("into", move |_, out| *out = answer())
        .output(|_| O::default())
}

#[test]
fn an_answer_without_a_value_is_wrong_unless_the_suite_judges_it() {
    let registry = Registry::from(answering(|| ()));
    assert!(wrong(&registry, "idle").contains("nothing is compared"));
    let judged = answering(|| ()).judge(|(), ()| Ok(()));
    assert!(outcome(&Registry::from(judged), "idle").is_ok());
    // The same for lists and texts without elements.
    type Answer = fn() -> Vec<&'static str>;
    for (answer, right) in
        [((|| vec![]) as Answer, false), (|| vec!["", ""], false), (|| vec!["[]"], true), (|| vec!["", " "], true)]
    {
        let registry = Registry::from(answering(answer));
        for name in ["idle", "into"] {
            match right {
                true => assert!(outcome(&registry, name).is_ok(), "{:?}", answer()),
                false => assert!(wrong(&registry, name).contains("nothing is compared"), "{:?}", answer()),
            }
        }
    }
}

#[test]
fn right_answers_pass_however_they_take_their_input() {
    let registry = Registry::from(
        numbers()
            .implementation_mut("unstable", |v| v.sort_unstable())
            .implementation("copy", |v| {
                let mut v = v.clone();
                v.sort();
                v
            })
            .implementation_owned("owned", |mut v| {
                v.sort();
                v
            }),
    );
    for name in ["std", "unstable", "copy", "owned"] {
        assert_eq!(outcome(&registry, name), Ok(()), "{name}");
    }
    assert_eq!(registry.find("sort").unwrap().baseline(), "std");
}

#[test]
fn wrong_answers_are_shown() {
    let registry = Registry::from(
        numbers().implementation_mut("lazy", |_| {}).implementation_mut("empty", Vec::clear).implementation_mut(
            "backwards",
            |v| {
                v.sort();
                v.reverse();
            },
        ),
    );
    for name in ["lazy", "empty", "backwards"] {
        let detail = wrong(&registry, name);
        assert!(detail.starts_with("it answered [") && detail.contains("the reference ["), "{detail}");
    }
}

#[test]
fn an_answer_that_turns_wrong_is_found_after_the_times() {
    let runs = AtomicU64::new(0);
    let registry = Registry::from(numbers().implementation_mut("once", move |v| {
        if runs.fetch_add(1, SeqCst) == 0 {
            v.sort();
        }
    }));
    wrong(&registry, "once");
}

#[test]
fn of_several_iterations_the_last_answer_is_judged() {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    // Wrong in the third run.
    let registry = Registry::from(numbers().implementation_mut("third", move |v| {
        if counted.fetch_add(1, SeqCst) != 2 {
            v.sort();
        }
    }));
    let workload = registry.find("sort").unwrap();
    let inputs = workload.inputs(&case(), 7).unwrap();
    let expected = workload.reference(&case(), &inputs).unwrap().digest();
    let implementation = registry.implementations("sort")[1];
    let mut made = (implementation.prepare)(&case(), &inputs, registry.devices()[0].as_ref()).unwrap();
    made.load(6);
    runs.store(0, SeqCst);
    made.run_times(3);
    assert_ne!(made.output().unwrap().digest(), expected, "the third");
    made.run_times(2);
    assert_eq!(made.output().unwrap().digest(), expected, "the fifth");
}

#[test]
fn every_iteration_gets_the_input_unspoiled() {
    let registry = Registry::from(numbers());
    let workload = registry.find("sort").unwrap();
    let inputs = workload.inputs(&case(), 7).unwrap();
    let expected = workload.reference(&case(), &inputs).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&seen);
    let registry = Registry::from(numbers().implementation_mut("watch", move |v| {
        // A sorted input would be the output of the previous iteration.
        counted.fetch_add(u64::from(!v.is_sorted()), SeqCst);
        v.sort();
    }));
    let implementation = registry.implementations("sort")[1];
    let mut made = (implementation.prepare)(&case(), &inputs, registry.devices()[0].as_ref()).unwrap();
    made.load(5);
    (0..9).for_each(|_| made.run());
    assert_eq!(seen.load(SeqCst), 9);
    assert_eq!(made.output().unwrap().digest(), expected.digest());
    assert_eq!(made.output().unwrap().digest(), expected.digest(), "asked twice");
    made.poison(ellwand_core::Poison::Ones);
    assert!(made.output().unwrap().is_empty(), "a poisoned answer is gone");
    let verdict = registry.find("sort").unwrap().judge(&case(), &inputs, &expected, &made.output().unwrap());
    assert!(!verdict.passed && verdict.detail.contains("computed nothing"), "{verdict:?}");
}

#[test]
fn every_iteration_of_a_slot_calls_the_function_and_the_last_answer_is_judged() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = || {
        let calls = Arc::clone(&calls);
        move || calls.fetch_add(1, SeqCst) + 1
    };
    let (borrow, own, fill) = (counted(), counted(), counted());
    let mut registry = ellwand::devices();
    suite("sort")
        .axis(Axis::int("n", "", 0, 100, 50))
        .input(|_, _| ())
        .implementation("borrow", move |()| borrow())
        .implementation_owned("own", move |()| own())
        .implementation_into("fill", move |(), last| *last = fill())
        .output(|()| 0)
        .register(&mut registry);
    let inputs = registry.find("sort").unwrap().inputs(&case(), 7).unwrap();
    for implementation in registry.implementations("sort") {
        calls.store(0, SeqCst);
        let mut made = (implementation.prepare)(&case(), &inputs, registry.devices()[0].as_ref()).unwrap();
        made.load(12);
        for times in [7, 0, 5] {
            made.run_times(times);
        }
        assert_eq!(calls.load(SeqCst), 12, "{}", implementation.name);
        let once = made.output().unwrap().digest();
        calls.store(11, SeqCst);
        made.run();
        assert_eq!(made.output().unwrap().digest(), once, "{}", implementation.name);
        calls.store(1, SeqCst);
        made.run();
        assert_ne!(made.output().unwrap().digest(), once, "{}", implementation.name);
    }
}

#[test]
fn copies_are_made_outside_the_timed_runs() {
    struct Counted(Arc<AtomicU64>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, SeqCst);
            Self(Arc::clone(&self.0))
        }
    }
    let clones = Arc::new(AtomicU64::new(0));
    let input = Arc::clone(&clones);
    let mut registry = ellwand::devices();
    suite("sort")
        .axis(Axis::int("n", "", 0, 100, 50))
        .input(move |_, _| Counted(Arc::clone(&input)))
        .implementation_owned("take", |input| input.0.load(SeqCst) > 0)
        .register(&mut registry);
    let inputs = registry.find("sort").unwrap().inputs(&case(), 7).unwrap();
    let prepare = &registry.implementations("sort")[0].prepare;
    let mut made = prepare(&case(), &inputs, registry.devices()[0].as_ref()).unwrap();
    made.load(10);
    let before = clones.load(SeqCst);
    (0..11).for_each(|_| made.run());
    assert_eq!(clones.load(SeqCst), before, "ten loaded runs and one to spare copy nothing");
    made.run();
    assert_eq!(clones.load(SeqCst), before + 1);
}

#[test]
fn panics_become_rows() {
    let registry = Registry::from(numbers().implementation_mut("bad", |_| panic!("on purpose")));
    match outcome(&registry, "bad") {
        Err(Outcome::Failed { error }) => assert!(error.contains("panicked in run: on purpose"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(outcome(&registry, "std"), Ok(()), "the others are not touched");
}

#[test]
fn a_custom_judge_replaces_equality() {
    let suite =
        numbers().implementation_mut("same-set", |v| v.reverse()).implementation_mut("short", |v| v.truncate(1)).judge(
            |expected, got| {
                if expected.len() == got.len() { Ok(()) } else { Err(format!("{} numbers are left", got.len())) }
            },
        );
    let registry = Registry::from(suite);
    assert_eq!(outcome(&registry, "same-set"), Ok(()));
    assert_eq!(wrong(&registry, "short"), "1 numbers are left");
}

/// The verdict on the first answer, as a record stores it.
fn checked(registry: &Registry, name: &str) -> Verdict {
    let implementation = registry.implementations("sort").into_iter().find(|known| known.name == name).unwrap();
    let workload = registry.find("sort").unwrap().clone();
    let cell = Cell { workload, case: case(), implementations: vec![implementation.clone()], allowed: None };
    let interrupt = AtomicBool::new(false);
    let instrument = Instrument::new(registry, Effort::Quick.settings(), 7, &interrupt);
    match instrument.judged(&cell, &instrument.inputs_and_reference(&cell).unwrap(), implementation, false) {
        Ok(verdict) | Err(Outcome::Wrong { verdict }) => verdict,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_verdict_states_how_many_values_were_compared() {
    let of = |suite: Suite<Vec<u32>, Vec<u32>>| checked(&Registry::from(suite), "std");
    let equal = of(numbers());
    assert_eq!((equal.compared, equal.detail.as_str()), (Some(Compared::all(50)), "50 values agree"));
    let texts = suite("sort").input(|_, _| 7_u8).implementation("std", |x| Some(x.to_string()));
    let texts = checked(&Registry::from(texts), "std");
    assert_eq!((texts.passed, texts.compared, texts.max_error), (true, None, Some(0.0)), "{texts:?}");
    assert_eq!(texts.detail, "the whole answer agrees, compared by `==`");
    let sampled = of(numbers().judge(|expected, got| match expected[..5] == got[..5] {
        true => Ok(Compared { values: 5, of: got.len() as u64 }),
        false => Err("its first values differ".into()),
    }));
    assert!(sampled.passed && sampled.detail.ends_with("comparing 5 of 50 values"), "{sampled:?}");
    assert!(sampled.compared.unwrap().remark().unwrap().contains("5 of 50 values of the answer"));
    let nothing = of(numbers().judge(|_, _| Ok(Compared { values: 0, of: 50 })));
    assert!(!nothing.passed && nothing.detail.starts_with("nothing was compared"), "{nothing:?}");
    let uncounted = of(numbers().judge(|_, _| Ok(())));
    assert!(uncounted.passed && uncounted.compared.is_none(), "{uncounted:?}");
    assert!(uncounted.detail.contains("an answer of 50 values, and does not count"), "{uncounted:?}");
}

#[test]
fn an_input_that_depends_on_more_than_case_and_seed_is_refused() {
    let calls = AtomicU64::new(0);
    let changing = suite("sort")
        .axis(Axis::int("n", "numbers", 0, 10_000, 50))
        .input(move |_, _| calls.fetch_add(1, SeqCst))
        .implementation("std", |x| *x);
    match outcome(&Registry::from(changing), "std") {
        Err(Outcome::Failed { error }) => {
            assert!(error.contains("sort: its input differs each time it is made"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reference_judges_the_baseline_too() {
    let registry = Registry::from(numbers().reference(|_| vec![1, 2, 3]));
    assert!(wrong(&registry, "std").contains("the reference [1, 2, 3] (they differ from element 0 on"));
}

#[test]
fn an_answer_that_panics_when_it_is_dropped_fails_no_other_implementation() {
    #[derive(Debug, Clone, PartialEq)]
    struct Fragile(bool);
    impl Drop for Fragile {
        fn drop(&mut self) {
            assert!(!self.0, "dropped");
        }
    }
    let registry: Registry = suite("w")
        .input(|_, _| 0_u8)
        .judge(|_, _| Ok(()))
        .reference(|_| Fragile(false))
        .implementation_owned("fragile", |_| Fragile(true))
        .implementation("sound", |_| Fragile(false))
        .into();
    let plan = Plan::expand(&registry, &Selection { workloads: vec!["w".into()], ..Selection::default() }).unwrap();
    let interrupt = AtomicBool::new(false);
    let instrument = Instrument::new(&registry, Effort::Quick.settings(), 7, &interrupt);
    let measured = instrument.measure(&plan.cells[0], &mut |_| ()).unwrap();
    assert_eq!(measured[1].outcome, Outcome::Measured, "{:?}", measured[0].outcome);
}

#[test]
fn work_that_panics_is_a_failed_row_and_invalid_work_an_error() {
    let of = |name: &str, work: fn() -> Work| {
        suite(name).input(|_, _| 7_u64).implementation("same", |x| *x).work(move |_| work())
    };
    for flops in [f64::NAN, f64::INFINITY, -1.0] {
        let work: fn() -> Work = match flops {
            -1.0 => || Work::items("calls", 1).flops(-1.0),
            flops if flops.is_nan() => || Work::items("calls", 1).flops(f64::NAN),
            _ => || Work::items("calls", 1).flops(f64::INFINITY),
        };
        let registry = Registry::from(of("odd", work));
        let error = registry.find("odd").unwrap().check(&Case::new("odd", vec![])).unwrap_err().to_string();
        assert!(error.starts_with("odd: its `.work` states "), "{error}");
        assert_eq!(ellwand::run(["mine", "check", "odd"], &registry), 2, "{flops}");
    }
    let mut registry = Registry::from(of("broken", || panic!("no work")));
    let case = Case::new("broken", vec![]);
    let error = registry.find("broken").unwrap().inputs(&case, 1).unwrap_err().to_string();
    assert!(error.contains("it panicked in `.work`: no work"), "{error}");
    of("sound", || Work::items("calls", 1)).register(&mut registry);
    assert_eq!(ellwand::run(["mine", "check", "broken"], &registry), 1);
    assert_eq!(ellwand::run(["mine", "check", "*"], &registry), 1);
    // Among other cases, one that does not fit becomes a row; alone, it is refused.
    let huge = || Work::items("calls", 1).bytes(1 << 60, 0);
    let mut registry = Registry::from(of("huge", huge));
    assert_eq!(ellwand::run(["mine", "check", "huge"], &registry), 2);
    of("sound", || Work::items("calls", 1)).register(&mut registry);
    assert_eq!(ellwand::run(["mine", "check", "*"], &registry), 0);
}

#[test]
fn the_command_line_serves_a_suite() {
    let registry = Registry::from(numbers().implementation_mut("lazy", |_| {}));
    assert_eq!(ellwand::run(["mine", "check", "sort", "-i", "std", "--n", "1,9"], &registry), 0);
    assert_eq!(ellwand::run(["mine", "check", "sort", "-i", "std", "--n", "0,9"], &registry), 5, "nothing to compare");
    assert_eq!(ellwand::run(["mine", "check", "sort"], &registry), 5);
    // The implementations of the only workload, as in `compare std lazy`.
    assert_eq!(ellwand::run(["mine", "check", "std"], &registry), 0);
    assert_eq!(ellwand::run(["mine", "check", "lazy"], &registry), 5);
    assert_eq!(ellwand::run(["mine", "check", "sort", "--m", "4"], &registry), 2);
}

#[test]
fn an_implementation_has_its_description_and_parallelism() {
    use ellwand::internals::core::Parallelism;
    let registry = Registry::from(
        numbers()
            .about("the standard library's stable sort")
            .implementation_mut("threads", |v| v.sort())
            .about("on all processors")
            .many_threads()
            .implementation_mut("unstable", |v| v.sort_unstable()),
    );
    let known: Vec<_> =
        registry.implementations("sort").into_iter().map(|i| (i.about.as_str(), i.parallelism)).collect();
    assert_eq!(
        known,
        [
            ("the standard library's stable sort", Parallelism::Single),
            ("on all processors", Parallelism::Many),
            ("", Parallelism::Single)
        ]
    );
    assert_eq!(outcome(&registry, "threads"), Ok(()));
    let early: Registry = suite("sort").input(|_, _| 0_u8).many_threads().implementation("x", |x| *x).into();
    let message = early.find("sort").unwrap().check(&Case::new("sort", Vec::new())).unwrap_err().to_string();
    assert!(message.contains("many_threads comes before any implementation"), "{message}");
}
