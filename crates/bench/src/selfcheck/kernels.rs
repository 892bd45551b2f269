//! Two kernels with a knob: one bound by memory, one by arithmetic, each as it is and slowed down by a known share of more
//! work. Ordinary workloads, chosen at run time in one binary, so that nothing else differs between the two.

use ellwand_core::{
    Axis, Case, Implementation, InputError, PrepareError, Prepared, Registry, Tensor, Tensors, Tolerance, Work,
    Workload,
};

/// Name of the memory-bound kernel: the sum of 4 MiB of f32.
pub const SUM: &str = "selfcheck-sum";
/// Name of the compute-bound kernel: four chains of multiply-adds.
pub const CHAIN: &str = "selfcheck-chain";
/// The implementation as it is.
pub const PLAIN: &str = "plain";
/// The implementation that does more.
pub const SLOWED: &str = "slowed";
/// The implementation that does twice the work in one run of twenty.
pub const TAIL: &str = "tail";

/// Elements of the sum: 4 MiB, beyond the second cache level of the processors of today.
const ELEMENTS: usize = 1 << 20;
/// Elements that one group of independent sums takes at a time.
const LANES: usize = 64;
/// Steps of the chains, about 50 us at 3.5 GHz.
const STEPS: usize = 24_000;
/// One run of so many has a tail.
const TAIL_EVERY: u64 = 20;

struct Kernel {
    name: &'static str,
    about: &'static str,
    axes: Vec<Axis>,
}

fn passes(case: &Case) -> usize {
    usize::try_from(case.int("passes").unwrap_or(1)).unwrap_or(1).max(1)
}

/// `amount` and the share of it that is done in addition, in units of `grain`.
fn extra(case: &Case, amount: usize, grain: usize) -> usize {
    let percent = usize::try_from(case.int("percent").unwrap_or(0)).unwrap_or(0);
    amount * percent / 100 / grain * grain
}

impl Workload for Kernel {
    fn name(&self) -> &str {
        self.name
    }
    fn about(&self) -> &str {
        self.about
    }
    fn groups(&self) -> &[&'static str] {
        &["selfcheck"]
    }
    fn axes(&self) -> &[Axis] {
        &self.axes
    }
    fn footprint(&self, _: &Case) -> u64 {
        16 << 20
    }
    fn inputs(&self, _: &Case, seed: u64) -> Result<Tensors, InputError> {
        // Small whole numbers: every sum of them is exact in f32, in any order.
        let count = if self.name == SUM { ELEMENTS + ELEMENTS / 10 } else { 4 };
        let x: Vec<f32> = (0..count as u64).map(|i| ((i.wrapping_mul(seed | 1) >> 7) & 7) as f32).collect();
        Ok(Tensors::new().with("x", Tensor::vector(&x[..])))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let x = inputs.f32("x")?;
        let y: Vec<f64> = if self.name == SUM {
            vec![x[..ELEMENTS].iter().map(|x| f64::from(*x)).sum()]
        } else {
            let steps = STEPS * passes(case);
            x.iter().map(|x| f64::from((0..steps).fold(*x, |x, _| x * A + B))).collect()
        };
        Ok(Tensors::new().with("y", Tensor::vector(&y[..])))
    }
    fn work(&self, case: &Case) -> Work {
        let passes = passes(case) as u64;
        if self.name == SUM {
            let elements = ELEMENTS as u64 * passes;
            Work::items("elements", elements).flops(elements as f64).bytes(4 * elements, 0)
        } else {
            let steps = (4 * STEPS) as u64 * passes;
            Work::items("multiply-adds", steps).flops(2.0 * steps as f64)
        }
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
    fn baseline(&self) -> &str {
        PLAIN
    }
}

/// Factor and summand of a chain, which draws it to 1.
const A: f32 = 0.999;
const B: f32 = 0.001;

/// How much more a run does, and when.
#[derive(Clone, Copy)]
enum More {
    Never,
    Always,
    Sometimes,
}

struct Ready {
    kernel: fn(&[f32], usize) -> [f32; 4],
    x: Tensor,
    amount: usize,
    extra: usize,
    passes: usize,
    more: More,
    runs: u64,
    y: Vec<f64>,
    outputs: usize,
}

impl Prepared for Ready {
    fn run(&mut self) {
        let Ok(x) = self.x.f32() else { return };
        self.runs += 1;
        let (extra, repeats) = match self.more {
            More::Never => (0, 1),
            More::Always => (self.extra, 1),
            // One run in twenty does everything twice.
            More::Sometimes => (0, 1 + u64::from(self.runs.is_multiple_of(TAIL_EVERY))),
        };
        for _ in 0..repeats {
            let mut y = [0.0; 4];
            for _ in 0..self.passes {
                y = (self.kernel)(std::hint::black_box(x), self.amount);
            }
            for _ in 0..self.passes.min(extra) {
                std::hint::black_box((self.kernel)(std::hint::black_box(x), extra));
            }
            for (to, from) in self.y.iter_mut().zip(y) {
                *to = f64::from(from);
            }
        }
    }
    fn poison(&mut self) {
        self.y.fill(f64::NAN);
    }
    fn output(&mut self) -> Result<Tensors, String> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..self.outputs])))
    }
}

/// Sums the first `count` elements (a multiple of [`LANES`]) in independent lanes.
fn sum(x: &[f32], count: usize) -> [f32; 4] {
    let mut lanes = [0.0_f32; LANES];
    for group in x[..count.min(x.len())].as_chunks::<LANES>().0 {
        for (lane, x) in lanes.iter_mut().zip(group) {
            *lane += x;
        }
    }
    [lanes.iter().sum(), 0.0, 0.0, 0.0]
}

/// Takes four chains `steps` further.
fn chain(x: &[f32], steps: usize) -> [f32; 4] {
    let mut chains = [0.0_f32; 4];
    for (chain, x) in chains.iter_mut().zip(x) {
        *chain = *x;
    }
    for _ in 0..steps {
        for chain in &mut chains {
            *chain = *chain * A + B;
        }
    }
    chains
}

fn prepare(sums: bool, more: More, case: &Case, inputs: &Tensors) -> Result<Box<dyn Prepared>, PrepareError> {
    let x = inputs.get("x")?.clone();
    let passes = passes(case);
    // A sum starts anew at each pass, a chain goes on: its passes are more steps.
    let ready = if sums {
        let extra = extra(case, ELEMENTS, LANES);
        Ready { kernel: sum, x, amount: ELEMENTS, extra, passes, more, runs: 0, y: vec![0.0; 4], outputs: 1 }
    } else {
        let amount = STEPS * passes;
        let extra = extra(case, amount, 1);
        Ready { kernel: chain, x, amount, extra, passes: 1, more, runs: 0, y: vec![0.0; 4], outputs: 4 }
    };
    Ok(Box::new(ready))
}

/// Adds the kernels to a registry. They are no business of a user: `list` and `run` do not know them, workers do.
pub fn register(registry: &mut Registry) {
    let axes = || {
        vec![
            Axis::int("percent", "more work of the slowed implementation", 0, 10, 5),
            Axis::int("passes", "how often the work is done in a run", 1, 1 << 20, 1),
        ]
    };
    registry.workload(Kernel { name: SUM, about: "the sum of 4 MiB of f32, bound by memory", axes: axes() });
    registry.workload(Kernel { name: CHAIN, about: "four chains of multiply-adds, bound by arithmetic", axes: axes() });
    for (workload, sums) in [(SUM, true), (CHAIN, false)] {
        for (name, more) in [(PLAIN, More::Never), (SLOWED, More::Always), (TAIL, More::Sometimes)] {
            registry.implementation(Implementation::cpu(workload, name, "self-check", move |case, inputs, _| {
                prepare(sums, more, case, inputs)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Task, ready};
    use crate::cpu::Cpu;
    use ellwand_core::Value;

    #[test]
    fn slowed_kernels_do_a_known_share_more_and_answer_the_same() {
        let mut registry = Registry::new();
        register(&mut registry);
        for workload in registry.workloads() {
            for (percent, passes) in [(0, 1), (2, 1), (3, 2), (5, 1)] {
                let params = vec![("percent".into(), Value::Int(percent)), ("passes".into(), Value::Int(passes))];
                let case = Case::new(workload.name(), params);
                let inputs = workload.inputs(&case, 42).unwrap();
                let expected = workload.reference(&case, &inputs).unwrap();
                let task = Task { workload: workload.as_ref(), case: &case, inputs: &inputs, expected: &expected };
                for implementation in registry.implementations(workload.name()) {
                    assert!(ready(&task, implementation, &Cpu::default()).is_ok(), "{implementation:?} {case}");
                }
            }
        }
        let case = |percent| Case::new(SUM, vec![("percent".into(), Value::Int(percent))]);
        for percent in [2, 3, 5] {
            let share = extra(&case(percent), ELEMENTS, LANES) as f64 / ELEMENTS as f64;
            assert!((share - percent as f64 / 100.0).abs() < 1e-4, "{share}");
        }
    }
}
