//! The accuracy of times around one nanosecond. The kernel is a chain of dependent multiplies that continues from one
//! run into the next: each further multiply adds one latency, and a long chain measures that latency.

use std::sync::atomic::AtomicBool;

use ellwand_core::record::Basis;
use ellwand_core::{
    Axis, Case, Description, DeviceError, Implementation, InputError, Poison, Prepared, Registry, Tensor, Tensors,
    Tolerance, Value, Work, Workload, stats::median,
};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::{NoDecision, PLAIN, spec};
use crate::arms::{ended, now_ended};
use crate::block::{Block, Known};
use crate::settings::SLOT_NS;
use crate::worker::{Launch, Limits};

/// Name of the multiply chain.
pub const MULTIPLY: &str = "selfcheck-multiply";
/// Lengths of the chains whose times are predicted.
const COUNTS: [i64; 5] = [1, 2, 3, 4, 5];
/// Length of the chain that, together with the chain of one, gives the latency.
const LONG: i64 = 33;
/// Fresh processes per chain, and slots in each, as in `run`.
const BLOCKS: usize = 3;
const ROUNDS: usize = 40;
/// A factor near 1, so that no chain leaves the range of normal numbers.
const FACTOR: f64 = 1.000_000_1;

/// Measured and predicted times of short chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Latency of one multiply in nanoseconds, from the difference between chains of 33 and of 1.
    pub latency_ns: f64,
    /// For each chain, its length, the median time of a run, and the time predicted by the chain of one and the
    /// latency, both in nanoseconds.
    pub chains: Vec<(i64, f64, f64)>,
}

impl Floor {
    /// The largest difference between a measured and a predicted time, in nanoseconds.
    pub fn error_ns(&self) -> f64 {
        self.chains.iter().map(|(_, took, predicted)| (took - predicted).abs()).fold(0.0, f64::max)
    }

    fn new(medians: &[f64]) -> Self {
        let [one, long] = [medians.first(), medians.last()].map(|median| median.copied().unwrap_or(f64::NAN));
        let latency_ns = (long - one) / (LONG - COUNTS[0]) as f64;
        let chains = COUNTS.iter().zip(medians);
        let row = |(count, took): (&i64, &f64)| (*count, *took, one + (count - COUNTS[0]) as f64 * latency_ns);
        Self { latency_ns, chains: chains.map(row).collect() }
    }
}

/// Times the chains in fresh processes and interleaved rounds, as `run` does.
///
/// # Errors
/// If the user interrupts, or a chain cannot be timed.
pub fn floor(launch: &Launch, seed: u64, interrupt: &AtomicBool) -> Result<Floor, NoDecision> {
    let counts = COUNTS.into_iter().chain([LONG]);
    let case = |count| Case::new(MULTIPLY, vec![("count".into(), Value::Int(count))]);
    let specs: Vec<_> = counts.map(|count| spec(&case(count), PLAIN, launch, seed)).collect();
    let mut coin = ChaCha8Rng::seed_from_u64(seed);
    let mut times: Vec<Vec<f64>> = specs.iter().map(|_| Vec::new()).collect();
    for _ in 0..BLOCKS {
        // Every chain is a different case, so no knowledge carries over.
        let mut known = Known::default();
        let mut block =
            Block::open(&specs, &mut known, (Limits::default(), None), &mut coin, interrupt, &mut |_, _| {})?;
        for arm in 0..specs.len() {
            block.state(arm).map_err(|outcome| ended("a chain of multiplies", outcome))?;
        }
        block.settle(&specs, &mut known, &mut coin, SLOT_NS)?;
        for _ in 0..ROUNDS {
            let mut order: Vec<usize> = (0..specs.len()).collect();
            order.shuffle(&mut coin);
            for arm in order {
                match block.slot(arm, false)? {
                    Some(sample) => times[arm].push(Basis::Fastest.seconds(&sample) * 1e9),
                    None => return Err(now_ended(&block, arm, "a chain of multiplies")),
                }
            }
        }
        block.close();
    }
    let medians: Vec<f64> = times.iter().map(|times| median(times).unwrap_or(f64::NAN)).collect();
    Ok(Floor::new(&medians))
}

struct Multiply(Description);

fn count(case: &Case) -> u64 {
    u64::try_from(case.int("count").unwrap_or(1)).unwrap_or(1)
}

impl Workload for Multiply {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        64
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("x", Tensor::scalar(1.0)))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let y = (0..count(case)).fold(inputs.scalar("x")?, |y, _| y * FACTOR);
        Ok(Tensors::new().with("y", Tensor::scalar(y)))
    }
    fn work(&self, case: &Case) -> Work {
        Work::items("multiplies", count(case)).flops(count(case) as f64)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

struct Chain {
    x: f64,
    count: u64,
    /// Zero, hidden from the compiler.
    zero: u64,
    y: f64,
}

impl Prepared for Chain {
    fn run(&mut self) {
        // Depends on the last answer with all bits masked, so the CPU cannot start before it is known.
        let start = f64::from_bits(self.x.to_bits() ^ (self.y.to_bits() & self.zero));
        self.y = std::hint::black_box((0..self.count).fold(start, |y, _| y * FACTOR));
    }
    fn poison(&mut self, poison: Poison) {
        self.y = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::scalar(self.y)))
    }
}

/// Adds the multiply chain to a registry.
pub(super) fn register(registry: &mut Registry) {
    let axes = vec![Axis::int("count", "multiplies of a run", 1, 1 << 30, 1)];
    let about = "a chain of multiplies, each of which needs the one before";
    registry.workload(Multiply(Description::new(MULTIPLY, about).group("selfcheck").axes(axes).baseline(PLAIN)));
    registry.implementation(Implementation::cpu(MULTIPLY, PLAIN, "self-check", |case, inputs, _| {
        let (x, zero) = (inputs.scalar("x")?, std::hint::black_box(0));
        Ok(Box::new(Chain { x, count: count(case), zero, y: 0.0 }))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Arm, Judge};

    #[test]
    fn times_are_held_against_one_multiply_and_the_latency() {
        let floor = Floor::new(&[3.0, 3.75, 4.5, 5.35, 6.0, 27.0]);
        assert_eq!(floor.latency_ns, 0.75);
        assert_eq!(floor.chains[3].0, 4);
        assert!((floor.error_ns() - 0.1).abs() < 1e-9, "{floor:?}");
    }

    #[test]
    fn the_chain_answers_right_again_and_again() {
        let mut registry = Registry::new();
        register(&mut registry);
        let workload = registry.find(MULTIPLY).unwrap();
        let case = Case::new(MULTIPLY, vec![("count".into(), Value::Int(5))]);
        let inputs = workload.inputs(&case, 1).unwrap();
        let expected = workload.reference(&case, &inputs).unwrap();
        let task = crate::check::Task { workload: workload.as_ref(), case: &case, inputs: &inputs, allowed: None };
        let (device, judge) = (crate::Cpu::default(), Judge::against(&expected));
        let chain = registry.implementations(MULTIPLY)[0];
        let (mut arm, _) = Arm::prepare(task, chain, &device, judge, &[]).ok().unwrap();
        for _ in 0..3 {
            assert!(arm.rejudge(&[]).is_ok());
        }
    }
}
