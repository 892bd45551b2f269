//! The steps around a slot with cold caches, in order, on a device that logs its calls.
#![allow(clippy::unwrap_used)]

mod common;

use std::any::Any;
use std::io::Cursor;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use common::{AddOne, Clock, settings};
use ellwand_bench::worker::{Answer, Ask, Asked, Host, Open, serve};
use ellwand_bench::{Cell, Instrument, Plan, Selection, resolutions};
use ellwand_core::record::{Measurement, Outcome, Sample, Settings};
use ellwand_core::{
    Caches, CpuScope, Device, DeviceError, DeviceKind, Implementation, InputError, Poison, Prepared, Registry, Tensor,
    Tensors, Timing,
};

/// The calls, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
    fn calls(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Duration of a flush on this device.
const FLUSH_NS: u64 = 700;

struct ManualFlush {
    clock: Clock,
    log: Log,
    flushes: bool,
}

impl Device for ManualFlush {
    fn id(&self) -> &str {
        "manual"
    }
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }
    fn about(&self) -> String {
        "a device for tests".into()
    }
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        self.log.add("start");
        let before = self.clock.now();
        body();
        let wall_ns = self.clock.now() - before;
        self.log.add("end");
        Timing { wall_ns, ..Timing::default() }
    }
    /// Warm slots would be cut into parts.
    fn finest_part_ns(&self) -> Option<u64> {
        Some(100)
    }
    fn flush_cache(&self) -> Result<(), InputError> {
        if !self.flushes {
            return Err(InputError::new("manual", "its caches cannot be flushed", "a device that can"));
        }
        self.log.add("flush");
        self.clock.advance(FLUSH_NS);
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Adds one; it is slower if the log shows a cold cache.
struct Toy {
    clock: Clock,
    log: Log,
    y: Vec<f64>,
    x: Vec<f64>,
}

impl Prepared for Toy {
    fn load(&mut self, _: u64) {
        self.log.add("load");
    }
    fn run(&mut self) {
        let cold = self.log.calls().iter().rev().find(|what| ["run", "flush"].contains(what)) == Some(&"flush");
        self.log.add("run");
        self.clock.advance(if cold { 300 } else { 100 });
        for (y, x) in self.y.iter_mut().zip(&self.x) {
            *y = x + 1.0;
        }
    }
    fn sync(&mut self) -> Result<(), DeviceError> {
        self.log.add("sync");
        Ok(())
    }
    fn poison(&mut self, poison: Poison) {
        self.log.add("poison");
        poison.fill(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..])))
    }
}

fn registry(flushes: bool) -> (Registry, Log) {
    let (clock, log) = (Clock::default(), Log::default());
    let mut registry = Registry::new();
    registry.device(Arc::new(ManualFlush { clock: clock.clone(), log: log.clone(), flushes }));
    registry.workload(AddOne::default());
    let own = log.clone();
    registry.implementation(Implementation::cpu("add-one", "steady", "a toy", move |_, inputs, _| {
        let x = inputs.get("x")?.f64()?.to_vec();
        Ok(Box::new(Toy { clock: clock.clone(), log: own.clone(), y: vec![0.0; x.len()], x }))
    }));
    (registry, log)
}

fn cell(registry: &Registry) -> Cell {
    let selection = Selection { workloads: vec!["add-one".into()], ..Selection::default() };
    Plan::expand(registry, &selection).unwrap().cells.remove(0)
}

fn measured(registry: &Registry, caches: Caches) -> Measurement {
    let interrupt = AtomicBool::new(false);
    let settings = Settings { caches, ..settings() };
    let instrument = Instrument::new(registry, settings, 7, &interrupt);
    instrument.measure(&cell(registry), &mut |_| {}).unwrap().remove(0)
}

/// All steps of one cold slot.
const SLOT: &str = "load flush start run sync end";

#[test]
fn a_cold_slot_is_loaded_then_flushed_then_timed_and_holds_one_iteration() {
    let (registry, log) = registry(true);
    let cold = measured(&registry, Caches::Cold);
    assert_eq!(cold.outcome, Outcome::Measured);
    assert_eq!(cold.caches, Caches::Cold);
    let calls = log.calls().join(" ");
    assert_eq!(cold.samples.len(), 8);
    // Nothing runs between two slots: it would refill the flushed caches.
    assert!(calls.contains(&[SLOT; 8].join(" ")), "{calls}");
    // Calibration times the flush separately, because it is part of a sample's cost, and takes slots like the later
    // ones.
    let known = "start flush end load flush start run sync end ".repeat(3);
    assert_eq!(calls.matches(&known).count(), 1, "{calls}");
    assert_eq!(calls.matches("load flush start run sync end").count(), 3 + 8, "{calls}");
    assert_eq!(calls.matches("load").count(), 3 + 8, "no slot is taken in another way: {calls}");
    let expected = Sample { iterations: 1, wall_ns: 300, ..Sample::default() };
    for (round, sample) in cold.samples.iter().enumerate() {
        assert_eq!(*sample, Sample { round: round as u32, ..expected });
    }
}

#[test]
fn warm_slots_are_never_flushed_and_hold_many_iterations_in_parts() {
    let (registry, log) = registry(true);
    let warm = measured(&registry, Caches::Warm);
    assert!(!log.calls().contains(&"flush") && warm.caches.is_warm());
    assert!(warm.samples.iter().all(|sample| sample.iterations == 10 && sample.wall_ns == 1000), "{:?}", warm.samples);
}

#[test]
fn a_device_that_cannot_flush_is_unsupported_with_the_reason_and_nothing_is_timed() {
    let (registry, log) = registry(false);
    let cold = measured(&registry, Caches::Cold);
    let Outcome::Unsupported { why } = &cold.outcome else { panic!("{:?}", cold.outcome) };
    assert!(why.contains("cannot be flushed"), "{why}");
    assert!(cold.samples.is_empty() && !log.calls().contains(&"load"), "{:?}", log.calls());
    assert_eq!(measured(&registry, Caches::Warm).outcome, Outcome::Measured);
}

#[test]
fn the_resolution_of_cold_runs_is_measured_in_flushed_slots() {
    let (registry, log) = registry(true);
    let _ = resolutions(&registry, &Settings { caches: Caches::Cold, ..settings() });
    assert!(log.calls().windows(3).any(|calls| calls == ["flush", "start", "end"]), "{:?}", log.calls());
}

#[test]
fn a_worker_takes_cold_slots_in_the_same_order_and_spoils_outputs_before_the_flush() {
    let (registry, log) = registry(true);
    let asked = Asked::new(&cell(&registry).case, "steady");
    let open = Open { asked, seed: 7, slot_min_ns: 1000, caches: Caches::Cold, steps: true, ..Open::default() };
    let questions = [Ask::Open(Box::new(open)), Ask::Slot { judged: false }, Ask::Slot { judged: true }, Ask::Again];
    let lines: Vec<String> = questions.iter().map(|ask| serde_json::to_string(ask).unwrap()).collect();
    let host = Host { registry: &registry, probes: &[], read_given: &|_| Ok(Tensors::new()) };
    let mut answers = Vec::new();
    serve(&host, &mut Cursor::new(lines.join("\n")), &mut answers).unwrap();
    let answers = String::from_utf8(answers).unwrap();
    let answers = answers.lines().map(|line| Answer::read(line).unwrap());
    let (steps, answers): (Vec<Answer>, Vec<Answer>) = answers.partition(|one| matches!(one, Answer::Step { .. }));
    let words = |one: &Answer| if let Answer::Step { step } = one { step.describe() } else { "" };
    let first: Vec<&str> = steps.iter().map(words).take(3).collect();
    assert_eq!(first, ["making the inputs", "flushing the caches", "preparing and running for the first time"]);
    let [Answer::Ready(opened), Answer::Slot { sample }, Answer::Slot { sample: second }, Answer::Judged(_)] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!((opened.slot.iterations, opened.slot.parts), (1, 1));
    assert_eq!((opened.slot.cost_ns, opened.slot.flush_ns), (300, Some(FLUSH_NS)));
    for sample in [sample, second] {
        assert_eq!((sample.iterations, sample.wall_ns), (1, 300));
    }
    let calls = log.calls().join(" ");
    assert!(calls.contains(&format!("{SLOT} poison {SLOT}")), "{calls}");
}
