//! Ceilings of a device of unknown speed: the fake card has enough work for its multiprocessors and computes long
//! enough.
#![allow(clippy::unwrap_used)]

mod common;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use common::{Clock, settings};
use ellwand_bench::measure::Instrument;
use ellwand_bench::{Cell, machine};
use ellwand_core::ceiling::{Ceiling, CeilingCase, Role};
use ellwand_core::record::Environment;
use ellwand_core::{
    Axis, Case, CeilingKind, CpuScope, Description, Device, DeviceError, DeviceKind, Implementation, InputError,
    Poison, PrepareError, Prepared, Registry, Tensor, Tensors, Timing, Work, Workload,
};

/// A card with three multiprocessors, on the fake clock.
struct Card(Clock);

impl Device for Card {
    fn id(&self) -> &str {
        "cuda:0"
    }
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda
    }
    fn about(&self) -> String {
        "a card for tests".into()
    }
    fn multiprocessors(&self) -> Option<u32> {
        Some(3)
    }
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let before = self.0.now();
        body();
        let wall_ns = self.0.now() - before;
        Timing { wall_ns, device_ns: Some(wall_ns), ..Timing::default() }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A workload of tiles and steps; the answer is their number.
struct Counted(Description);

fn sizes(case: &Case) -> [u64; 2] {
    ["tiles", "steps"].map(|axis| case.int(axis).unwrap() as u64)
}

impl Workload for Counted {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        16
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new())
    }
    fn reference(&self, case: &Case, _: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("y", Tensor::vector(&sizes(case)[..])))
    }
    fn work(&self, case: &Case) -> Work {
        Work::items("steps", 1).flops(1000.0 * sizes(case).iter().product::<u64>() as f64).bf16(true)
    }
}

/// Takes 10 us plus a fixed time per step.
struct Ready {
    clock: Clock,
    step_ns: u64,
    sizes: [u64; 2],
    y: [u64; 2],
}

impl Prepared for Ready {
    fn run(&mut self) {
        self.clock.advance(10_000 + self.sizes[1] * self.step_ns);
        self.y = self.sizes;
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..])))
    }
}

/// The ceilings of a card whose rows take the given time per step, and the step counts used.
fn ceilings(rows: &[(&'static str, Option<u64>)]) -> (Vec<Cell>, Vec<Ceiling>, Vec<u64>) {
    let clock = Clock::default();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut registry = Registry::new();
    registry.device(Arc::new(Card(clock.clone())));
    let axes = vec![Axis::int("steps", "steps", 1, 9000, 64), Axis::int("tiles", "tiles", 1, 1000, 4)];
    registry.workload(Counted(Description::new("counted", "counts").axes(axes)));
    let axes = &[("tiles", Role::EachMultiprocessor(4)), ("steps", Role::Steps)];
    registry.ceilings.push(CeilingCase { kind: CeilingKind::ProductsBf16, workload: "counted", axes, past: None });
    for &(name, step_ns) in rows {
        let (clock, asked) = (clock.clone(), asked.clone());
        let row = Implementation::cpu("counted", name, "a toy", move |case, _, _| {
            let Some(step_ns) = step_ns else { return Err(PrepareError::Unsupported("not here".into())) };
            asked.lock().unwrap_or_else(PoisonError::into_inner).push(sizes(case)[1]);
            Ok(Box::new(Ready { clock: clock.clone(), step_ns, sizes: sizes(case), y: [0; 2] }))
        });
        registry.implementation(Implementation { needs: DeviceKind::Cuda, ..row });
    }
    let (cells, ceilings) = measured(&registry);
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    asked.dedup();
    (cells, ceilings, asked)
}

/// The cells and ceilings of a registry.
fn measured(registry: &Registry) -> (Vec<Cell>, Vec<Ceiling>) {
    let never = AtomicBool::new(false);
    let instrument = Instrument::new(registry, settings(), 7, &never);
    let environment = Environment::default();
    let cells = machine::cells(registry, &environment, u64::MAX);
    let (ceilings, _) = machine::measure(&instrument, &environment, &cells, &[], &mut |_, _, _| {}).unwrap();
    assert!(!never.load(SeqCst));
    (cells, ceilings)
}

/// Copies bytes over a link at 50 bytes per nanosecond.
struct Crossing(Description);

impl Workload for Crossing {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        16
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new())
    }
    fn reference(&self, _: &Case, _: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("y", Tensor::vector(&[0_u64, 1][..])))
    }
    fn work(&self, case: &Case) -> Work {
        let bytes = case.int("bytes").unwrap() as u64;
        Work::items("bytes", bytes).bytes(bytes, 0)
    }
}

#[test]
fn tiles_fill_the_multiprocessors_and_steps_take_two_milliseconds() {
    // 64 steps of 100 ns take 16.4 us, mostly for starting: at that rate 7805 steps would take 2 ms.
    let (cells, ceilings, steps) = ceilings(&[("cuda", Some(100)), ("cuda-other", Some(150)), ("cuda-none", None)]);
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].case.int("tiles"), Some(12), "four for each of three");
    assert_eq!(steps, [64, 8192]);
    let found: Vec<_> = ceilings.iter().map(|ceiling| (ceiling.implementation.as_str(), ceiling.value)).collect();
    let rate = |step_ns: u64| 12.0 * 8192.0 * 1000.0 / (1e-9 * (10_000 + 8192 * step_ns) as f64);
    assert_eq!(found.len(), 2, "{found:?}");
    for ((name, value), (expected, step_ns)) in found.into_iter().zip([("cuda", 100), ("cuda-other", 150)]) {
        assert!(name == expected && (value / rate(step_ns) - 1.0).abs() < 1e-6, "{name}: {value}");
    }
    for ceiling in &ceilings {
        assert_eq!((ceiling.kind, &*ceiling.device), (CeilingKind::ProductsBf16, "cuda:0"));
        assert_eq!((ceiling.footprint_bytes, &*ceiling.level), (0, ""), "memory plays no part");
    }
}

#[test]
fn steps_are_no_more_than_there_may_be_and_a_slow_device_takes_those_it_has() {
    // At the rate of 64 steps, 12718 of them would take 2 ms.
    let (_, _, steps) = ceilings(&[("cuda", Some(1))]);
    assert_eq!(steps, [64, 9000]);
    let (_, _, steps) = ceilings(&[("cuda", Some(100_000))]);
    assert_eq!(steps, [64], "6.4 ms");
}

/// The host alone has no link; one size shows the link's rate.
#[test]
fn a_link_is_measured_once_and_never_on_the_processor() {
    let clock = Clock::default();
    let mut registry = Registry::new();
    registry.device(Arc::new(Card(clock.clone())));
    registry.workload(Crossing(Description::new("crossing", "crosses").axes(vec![
        Axis::int("bytes", "bytes", 8, 1 << 34, 64),
        Axis::choice("memory", "the host's side", &["pageable", "pinned"], "pageable").sweep(["pageable", "pinned"]),
    ])));
    let axes = &[("bytes", Role::Bytes), ("memory", Role::Is("pinned"))];
    registry.ceilings.push(CeilingCase { kind: CeilingKind::ToDevice, workload: "crossing", axes, past: None });
    for (name, needs) in [("memory", DeviceKind::Cpu), ("cuda", DeviceKind::Cuda)] {
        let clock = clock.clone();
        let row = Implementation::cpu("crossing", name, "a toy", move |case, _, _| {
            let step_ns = case.int("bytes").unwrap() as u64 / 50;
            Ok(Box::new(Ready { clock: clock.clone(), step_ns, sizes: [0, 1], y: [0; 2] }))
        });
        registry.implementation(Implementation { needs, ..row });
    }
    let (cells, ceilings) = measured(&registry);
    let found: Vec<_> = cells.iter().map(|cell| (cell.case.int("bytes"), cell.case.text("memory"))).collect();
    assert_eq!(found, [(Some(32 << 20), Some("pinned"))]);
    let [ceiling] = &ceilings[..] else { panic!("{ceilings:?}") };
    assert_eq!((ceiling.kind, &*ceiling.device, &*ceiling.level), (CeilingKind::ToDevice, "cuda:0", "link"));
    // Includes the 10 us that a toy takes to start.
    let rate = f64::from(32 << 20) / ((32 << 20) as f64 / 50e9 + 10e-6);
    assert!((ceiling.value / rate - 1.0).abs() < 1e-3, "{ceiling:?}");
}
