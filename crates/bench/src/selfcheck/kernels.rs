//! Kernels limited by an unpredictable branch, the L2 cache, the last-level cache, memory or arithmetic, each with
//! variants slowed down by a known amount. They are ordinary workloads, selected at run time in one binary, so that
//! nothing else differs between the variants.
//!
//! All work consists of equal units, a hundred per pass, and a run of the slowed kernel does more units. A planted
//! difference is therefore known exactly: each unit is one per cent.

use std::hash::{BuildHasher, Hasher};

use ellwand_core::{
    Axis, Case, Description, DeviceError, Dtype, Implementation, InputError, Poison, PrepareError, Prepared, Registry,
    Tensor, Tensors, Tolerance, Work, Workload,
};

/// Name of the kernel that sums f32 values in the L2 cache.
pub const L2: &str = "selfcheck-l2";
/// Name of the kernel that sums f32 values in the last-level cache; three arms together exceed it.
pub const L3: &str = "selfcheck-l3";
/// Name of the kernel that sums f32 values in memory.
pub const DRAM: &str = "selfcheck-dram";
/// Name of the kernel that counts numbers with an unpredictable branch.
pub const BRANCHES: &str = "selfcheck-branches";
/// Name of the compute-bound kernel: four chains of multiply-adds.
pub const CHAIN: &str = "selfcheck-chain";
/// The unmodified implementation.
pub const PLAIN: &str = "plain";
/// The same under another name: to the instrument, it is a different implementation.
pub const TWIN: &str = "twin";
/// The implementation that does extra work in every run.
pub const SLOWED: &str = "slowed";
/// The implementation that does double work in one run in twenty, drawn at random.
pub const TAIL: &str = "tail";
/// The implementation that does 10 % more work in every second run, drawn at random.
pub const MODES: &str = "modes";

/// Units of work per pass; one unit is one per cent.
const UNITS: usize = 100;
/// Numbers in a unit that branches (about 8 us): too many for a branch predictor to memorise.
const UNIT_BRANCHES: usize = 1024;
/// Elements that one group of independent sums processes at a time.
const LANES: usize = 64;
/// Steps of the chains in a unit, about 0.5 us at 3.5 GHz. A power of two, so that an unrolled loop never has remainder
/// steps, whatever the number of units.
const UNIT_STEPS: usize = 256;
/// One run in `n` is slowed down.
const TAIL_EVERY: u64 = 20;
/// Extra units, per hundred, of the slower of two modes.
const SLOW_MODE: usize = 10;

/// Number of input elements of a kernel, sized by the caches of this machine, or by typical sizes if the CPU reports
/// none. Each unit gets a hundredth of them, a multiple of [`LANES`].
fn elements(name: &str) -> usize {
    let caches = crate::environment::caches();
    let bytes = |level: usize, usual: u64| caches.get(level).map_or(usual, |cache| cache.bytes) as usize;
    let wanted = match name {
        L2 => bytes(1, 1 << 20) / 2,
        // Larger than the level below, but no more: a host's large cache has room for this guest's data, but not all of
        // it for this guest.
        L3 => (bytes(2, 32 << 20) / 3).min(8 * bytes(1, 1 << 20)),
        DRAM => (2 * bytes(2, 32 << 20)).clamp(64 << 20, 512 << 20),
        BRANCHES => return UNITS * UNIT_BRANCHES,
        _ => return 4,
    };
    (wanted / (4 * UNITS * LANES)).max(1) * UNITS * LANES
}

struct Kernel(Description);

fn passes(case: &Case) -> usize {
    usize::try_from(case.int("passes").unwrap_or(1)).unwrap_or(1).max(1)
}

fn percent(case: &Case) -> usize {
    usize::try_from(case.int("percent").unwrap_or(0)).unwrap_or(0)
}

impl Workload for Kernel {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        4 * elements(self.name()) as u64
    }
    fn inputs(&self, _: &Case, seed: u64) -> Result<Tensors, InputError> {
        // Small integers: their sum is exact in f32 in any order.
        let count = elements(self.name());
        // Filled in place: every page of a worker costs the system about 2 us, and a copy would double that.
        let mut x = Tensor::zeros(Dtype::F32, &[count])?;
        for (i, x) in (1..).zip(x.f32_mut()?) {
            // SplitMix64 (Steele, Lea and Flood 2014): no number predicts the next.
            let mixed = seed.wrapping_add(u64::wrapping_mul(i, 0x9e37_79b9_7f4a_7c15));
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *x = ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 61) as f32;
        }
        Ok(Tensors::new().with("x", x))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let x = inputs.f32("x")?;
        let y: Vec<f64> = if self.name() == BRANCHES {
            vec![(passes(case) * x.iter().filter(|x| **x < LIMIT).count()) as f64]
        } else if self.name() != CHAIN {
            vec![passes(case) as f64 * x.iter().map(|x| f64::from(*x)).sum::<f64>()]
        } else {
            let steps = UNIT_STEPS * UNITS * passes(case);
            x.iter().map(|x| f64::from((0..steps).fold(*x, |x, _| x * A + B))).collect()
        };
        Ok(Tensors::new().with("y", Tensor::vector(&y[..])))
    }
    fn work(&self, case: &Case) -> Work {
        let passes = passes(case) as u64;
        if self.name() != CHAIN {
            let elements = elements(self.name()) as u64 * passes;
            Work::items("elements", elements).flops(elements as f64).bytes(4 * elements, 0)
        } else {
            let steps = (4 * UNIT_STEPS * UNITS) as u64 * passes;
            Work::items("multiply-adds", steps).flops(2.0 * steps as f64)
        }
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

/// Half of the numbers are below this limit.
const LIMIT: f32 = 4.0;
/// Factor and summand of a chain, which make it converge to 1.
const A: f32 = 0.999;
const B: f32 = 0.001;

/// When a run does extra work, and how much.
#[derive(Clone, Copy)]
enum More {
    Never,
    Always,
    Tail,
    Modes,
}

/// Does `units` units of work and `more` extra ones, continuing in `x` where the last run ended; extra work does not
/// change the answer. `last` is the previous answer: work that did not depend on it would overlap with the end of the
/// previous run.
type Units = fn(x: &[f32], at: &mut usize, units: usize, more: usize, last: [f64; 4]) -> [f64; 4];

struct Ready {
    kernel: Units,
    x: Tensor,
    at: usize,
    units: usize,
    extra: usize,
    more: More,
    /// State of the random generator that selects the slow runs.
    random: u64,
    y: [f64; 4],
    outputs: usize,
}

impl Ready {
    /// True for one run in `every`, at random: a fixed pattern could synchronise with the slots and stay hidden.
    fn drawn(&mut self, every: u64) -> bool {
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11).is_multiple_of(every)
    }
}

impl Prepared for Ready {
    fn run(&mut self) {
        let more = match self.more {
            More::Never => 0,
            More::Always => self.extra,
            More::Tail => usize::from(self.drawn(TAIL_EVERY)) * self.units,
            More::Modes => usize::from(self.drawn(2)) * (self.units * SLOW_MODE / UNITS),
        };
        let Ok(x) = self.x.f32() else { return };
        self.y = (self.kernel)(x, &mut self.at, self.units, more, self.y);
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", Tensor::vector(&self.y[..self.outputs])))
    }
}

/// Sums units cyclically: any hundred successive units cover the whole of `x`.
fn sum(x: &[f32], at: &mut usize, units: usize, more: usize, _: [f64; 4]) -> [f64; 4] {
    let total = sum_of(x, at, units);
    std::hint::black_box(sum_of(x, at, more));
    [total, 0.0, 0.0, 0.0]
}

/// Counts units of numbers cyclically, as [`sum`] sums them.
fn branch(x: &[f32], at: &mut usize, units: usize, more: usize, _: [f64; 4]) -> [f64; 4] {
    let count = branch_of(x, at, units);
    std::hint::black_box(branch_of(x, at, more));
    [count as f64, 0.0, 0.0, 0.0]
}

#[inline(never)]
fn branch_of(x: &[f32], at: &mut usize, units: usize) -> u64 {
    let unit = x.len() / UNITS;
    let mut count = 0;
    for _ in 0..units {
        for x in &x[*at..*at + unit] {
            if *x < LIMIT {
                // Opaque; otherwise the compiler would count without a branch.
                count = std::hint::black_box(count + 1);
            }
        }
        *at = (*at + unit) % x.len();
    }
    count
}

#[inline(never)]
fn sum_of(x: &[f32], at: &mut usize, units: usize) -> f64 {
    let unit = x.len() / UNITS;
    let mut total = 0.0;
    for _ in 0..units {
        let mut lanes = [0.0_f32; LANES];
        for group in std::hint::black_box(&x[*at..*at + unit]).as_chunks::<LANES>().0 {
            for (lane, x) in lanes.iter_mut().zip(group) {
                *lane += x;
            }
        }
        total += f64::from(lanes.iter().sum::<f32>());
        *at = (*at + unit) % x.len();
    }
    total
}

/// Advances four chains from `x` in one loop. With two loops, the planted difference would include a mispredicted loop
/// exit, which costs as much as three steps (0.01 % of a run). After a hundred units every chain has reached its fixed
/// point, so extra units do not change the answer.
#[inline(never)]
#[allow(clippy::cast_possible_truncation, reason = "no bit of it is used")]
fn chain(x: &[f32], _: &mut usize, units: usize, more: usize, last: [f64; 4]) -> [f64; 4] {
    let mut chains = [0.0_f32; 4];
    // Depends on all bits of the last answer, masked with a zero that is hidden from the compiler.
    let zero = std::hint::black_box(0);
    for ((chain, x), last) in chains.iter_mut().zip(x).zip(last) {
        *chain = f32::from_bits(x.to_bits() ^ ((last.to_bits() as u32) & zero));
    }
    for _ in 0..(units + more) * UNIT_STEPS {
        for chain in &mut chains {
            *chain = *chain * A + B;
        }
    }
    std::hint::black_box(chains).map(f64::from)
}

fn prepare(kernel: Units, more: More, case: &Case, inputs: &Tensors) -> Result<Box<dyn Prepared>, PrepareError> {
    let x = inputs.get("x")?.clone();
    let passes = passes(case);
    let outputs = if x.shape() == [4] { 4 } else { 1 };
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish() | 1;
    let (units, extra) = (UNITS * passes, percent(case) * passes);
    Ok(Box::new(Ready { kernel, x, at: 0, units, extra, more, random, y: [0.0; 4], outputs }))
}

/// Adds the kernels to a registry.
pub(super) fn register(registry: &mut Registry) {
    let axes = || {
        vec![
            Axis::int("percent", "more work of the slowed implementation", 0, 10, 5),
            Axis::int("passes", "how often the work is done in a run", 1, 1 << 20, 1),
        ]
    };
    let kernels: [(&str, &str, Units); 5] = [
        (BRANCHES, "numbers counted by an unpredictable branch", branch),
        (L2, "the sum of f32 in the second-level cache", sum),
        (L3, "the sum of f32 in the last-level cache", sum),
        (DRAM, "the sum of f32 in memory", sum),
        (CHAIN, "four chains of multiply-adds, bound by arithmetic", chain),
    ];
    for (workload, about, kernel) in kernels {
        let description = Description::new(workload, about).group("selfcheck").axes(axes());
        registry.workload(Kernel(description.baseline(PLAIN)));
        let all = [
            (PLAIN, More::Never),
            (TWIN, More::Never),
            (SLOWED, More::Always),
            (TAIL, More::Tail),
            (MODES, More::Modes),
        ];
        for (name, more) in all {
            registry.implementation(Implementation::cpu(workload, name, "self-check", move |case, inputs, _| {
                prepare(kernel, more, case, inputs)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Arm, Judge};
    use crate::check::Task;
    use crate::cpu::Cpu;
    use ellwand_core::Value;

    #[test]
    fn slowed_kernels_answer_the_same() {
        let mut registry = Registry::new();
        register(&mut registry);
        // L3 and DRAM use the same code as L2 on more data.
        for workload in registry.workloads().iter().filter(|workload| ![L3, DRAM].contains(&workload.name())) {
            for (percent, passes) in [(0, 1), (2, 1), (3, 2), (5, 1)] {
                let params = vec![("percent".into(), Value::Int(percent)), ("passes".into(), Value::Int(passes))];
                let case = Case::new(workload.name(), params);
                let inputs = workload.inputs(&case, 42).unwrap();
                let expected = workload.reference(&case, &inputs).unwrap();
                let task = Task { workload: workload.as_ref(), case: &case, inputs: &inputs, allowed: None };
                for implementation in registry.implementations(workload.name()) {
                    let (device, judge) = (Cpu::default(), Judge::against(&expected));
                    let (mut arm, _) = Arm::prepare(task, implementation, &device, judge, &[]).ok().unwrap();
                    // Later runs continue elsewhere in the data, and some do extra work.
                    for _ in 0..30 {
                        assert!(arm.rejudge(None).is_ok(), "{implementation:?} {case}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_number_predicts_the_next_branch() {
        let mut registry = Registry::new();
        register(&mut registry);
        let kernel = registry.workloads().iter().find(|kernel| kernel.name() == BRANCHES).unwrap();
        for seed in [0, 1, 42, u64::MAX] {
            let inputs = kernel.inputs(&Case::new(BRANCHES, vec![]), seed).unwrap();
            let taken: Vec<bool> = inputs.f32("x").unwrap().iter().map(|x| *x < LIMIT).collect();
            // A predictor that has seen all the numbers, and knows the last six branches and the position modulo 16.
            let mut seen = vec![[0_u32; 2]; 1 << 10];
            for (i, branches) in taken.windows(7).enumerate() {
                let context = branches[..6].iter().fold(i % 16, |context, taken| 2 * context + usize::from(*taken));
                seen[context][usize::from(branches[6])] += 1;
            }
            let right: u32 = seen.iter().map(|[not, taken]| not.max(taken)).sum();
            assert!(f64::from(right) < 0.6 * taken.len() as f64, "seed {seed}: {right} of {}", taken.len());
        }
    }

    /// Returns the number of units in each run, from a kernel that only counts them.
    fn units_of(more: More, runs: usize) -> Vec<usize> {
        fn count(_: &[f32], at: &mut usize, units: usize, more: usize, _: [f64; 4]) -> [f64; 4] {
            *at += units + more;
            [0.0; 4]
        }
        let x = Tensor::vector(&[0.0_f32][..]);
        let mut ready =
            Ready { kernel: count, x, at: 0, units: 200, extra: 6, more, random: 42, y: [0.0; 4], outputs: 1 };
        (0..runs)
            .map(|_| {
                let before = ready.at;
                ready.run();
                ready.at - before
            })
            .collect()
    }

    #[test]
    fn more_steps_leave_the_answer_of_a_chain_as_it_is() {
        let (x, mut at, last) = ([7.0_f32, 3.0, 0.0, 1.0], 0, [f64::NAN; 4]);
        let answer = chain(&x, &mut at, UNITS, 0, last);
        for more in [1, 2, 3, 5, 10, UNITS] {
            assert_eq!(chain(&x, &mut at, UNITS, more, answer), answer, "{more}");
        }
        assert_ne!(chain(&x, &mut at, 1, 0, last), chain(&x, &mut at, 1, 1, last), "the steps are taken");
    }

    #[test]
    fn planted_slow_downs_add_exactly_the_planned_work() {
        assert!(units_of(More::Never, 50).iter().all(|units| *units == 200));
        assert!(units_of(More::Always, 50).iter().all(|units| *units == 206), "three per cent more");
        let tail = units_of(More::Tail, 20_000);
        assert!(tail.iter().all(|units| [200, 400].contains(units)));
        let slow = tail.iter().filter(|units| **units == 400).count();
        assert!((900..1100).contains(&slow), "one in twenty: {slow} of 20 000");
        let modes = units_of(More::Modes, 20_000);
        assert!(modes.iter().all(|units| [200, 220].contains(units)));
        let slow = modes.iter().filter(|units| **units == 220).count();
        assert!((9_700..10_300).contains(&slow), "one in two: {slow} of 20 000");
    }
}
