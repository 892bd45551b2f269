//! A device whose clock advances only by what an implementation says it cost, so that engine tests are exact.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use ellwand_bench::measure::Instrument;
use ellwand_bench::plan::{Cell, Plan, Selection};
use ellwand_core::record::{Measurement, Settings};
use ellwand_core::{
    Axis, Caches, Case, CpuScope, Description, Device, DeviceError, DeviceKind, Implementation, InputError, Poison,
    Prepared, Registry, Tensor, Tensors, Timing, Work, Workload,
};

/// The fake clock, in nanoseconds.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, SeqCst);
    }
    /// Sets the clock back, but not below zero, which would not be a time.
    pub fn set_back(&self, ns: u64) {
        self.0.store(self.now().saturating_sub(ns), SeqCst);
    }
    pub fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// A device on the fake clock. Timing itself takes no time.
pub struct Fake(pub Clock);

impl Device for Fake {
    fn id(&self) -> &str {
        "fake"
    }
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }
    fn about(&self) -> String {
        "a device for tests".into()
    }
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let before = self.0.now();
        body();
        let wall_ns = self.0.now().saturating_sub(before);
        Timing { wall_ns, cpu_ns: Some(wall_ns), switches: Some(0), ..Timing::default() }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The batch whose reference ends its process.
pub const NO_REFERENCE: i64 = 999;

/// y = x + 1 for a batch of numbers.
pub struct AddOne(Description);

impl Default for AddOne {
    fn default() -> Self {
        let axes = vec![Axis::int("batch", "numbers", 1, 1000, 4).unit("numbers")];
        Self(Description::new("add-one", "adds one").group("toys").axes(axes).baseline("steady"))
    }
}

impl Workload for AddOne {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        100
    }
    fn check(&self, case: &Case) -> Result<(), InputError> {
        if case.int("batch") == Some(13) {
            return Err(InputError::new("--batch", "13 is unlucky", "another number"));
        }
        Ok(())
    }
    fn remarks(&self, case: &Case) -> Vec<String> {
        if case.int("batch") == Some(1) { vec!["one number is hardly a batch".into()] } else { Vec::new() }
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let x: Vec<f64> = (0..case.int("batch").unwrap()).map(|i| (seed % 1000) as f64 + i as f64).collect();
        Ok(Tensors::new().with("x", Tensor::vector(&x[..])))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        if case.int("batch") == Some(NO_REFERENCE) {
            std::process::exit(0);
        }
        let y: Vec<f64> = inputs.get("x")?.f64()?.iter().map(|x| x + 1.0).collect();
        Ok(Tensors::new().with("y", Tensor::vector(&y[..])))
    }
    fn work(&self, case: &Case) -> Work {
        let n = case.int("batch").unwrap() as u64;
        Work::items("numbers", n).flops(n as f64).bytes(8 * n, 8 * n)
    }
    /// The data need twice as many operations.
    fn work_of(&self, case: &Case, inputs: &Tensors) -> Work {
        self.work(case).flops(2.0 * inputs.get("x").unwrap().len() as f64)
    }
}

/// The behaviour of a toy implementation, given the number of its earlier runs.
pub type Behaviour = fn(runs: u64) -> Act;

/// What one run does.
pub enum Act {
    /// Gives the right answer after `n` nanoseconds.
    Right(u64),
    /// Gives the right answer while the device clock is set back by `n` nanoseconds.
    Back(u64),
    /// Gives a wrong answer after `n` nanoseconds.
    Wrong(u64),
    Nothing,
    Panic,
}

struct Toy {
    clock: Clock,
    runs: Arc<AtomicU64>,
    behaviour: Behaviour,
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Prepared for Toy {
    fn run(&mut self) {
        let (cost, error) = match (self.behaviour)(self.runs.fetch_add(1, SeqCst)) {
            Act::Back(by) => {
                self.clock.set_back(by);
                (0, 0.0)
            }
            Act::Right(cost) => (cost, 0.0),
            Act::Wrong(cost) => (cost, 0.5),
            Act::Nothing => return,
            Act::Panic => panic!("out of luck"),
        };
        self.clock.advance(cost);
        for (y, x) in self.y.iter_mut().zip(&self.x) {
            *y = x + 1.0 + error;
        }
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..])))
    }
    fn what_ran(&self) -> String {
        "toy".into()
    }
}

/// A registry on the fake clock with the workload and no implementation.
pub struct Bench {
    pub clock: Clock,
    pub registry: Registry,
}

impl Default for Bench {
    fn default() -> Self {
        let clock = Clock::default();
        let mut registry = Registry::new();
        registry.device(Arc::new(Fake(clock.clone())));
        registry.workload(AddOne::default());
        Self { clock, registry }
    }
}

impl Bench {
    /// Adds an implementation and returns its run counter.
    pub fn add(&mut self, name: &str, behaviour: Behaviour) -> Arc<AtomicU64> {
        let (clock, runs) = (self.clock.clone(), Arc::new(AtomicU64::new(0)));
        let counter = Arc::clone(&runs);
        self.registry.implementation(Implementation::cpu("add-one", name, "a toy", move |_, inputs, _| {
            let x = inputs.get("x")?.f64()?.to_vec();
            Ok(Box::new(Toy { clock: clock.clone(), runs: Arc::clone(&runs), behaviour, y: vec![0.0; x.len()], x }))
        }));
        counter
    }

    pub fn cell(&self) -> Cell {
        // Selected by name, so that implementations for absent devices are included.
        let (workloads, implementations) = (vec!["add-one".into()], vec!["*".into()]);
        let selection = Selection { workloads, implementations, ..Selection::default() };
        Plan::expand(&self.registry, &selection).unwrap().cells.remove(0)
    }

    pub fn measure(&self) -> Vec<Measurement> {
        let never = AtomicBool::new(false);
        self.instrument(&never).measure(&self.cell(), &mut |_| {}).unwrap()
    }

    pub fn instrument<'a>(&'a self, interrupt: &'a AtomicBool) -> Instrument<'a> {
        Instrument::new(&self.registry, settings(), 7, interrupt)
    }
}

/// Slots of 1 us, at most 8 rounds, 10 us per case.
pub fn settings() -> Settings {
    Settings {
        slot_min_ns: 1_000,
        samples_min: 2,
        rounds_max: 8,
        case_budget_ns: 10_000,
        warm_up_ns: 2_000,
        caches: Caches::Warm,
        counts: None,
        allowed: None,
    }
}
