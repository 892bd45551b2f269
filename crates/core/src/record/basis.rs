//! The choice of the time that is reported and compared, made from the samples in one place for every command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Sample;
use crate::implementation::Parallelism;
use crate::stats::{mean_interval, median};

/// Seconds per iteration above which nearly every slot contains a context switch. CPU time is then steadier than
/// elapsed time, provided that it accounts for the time that passed.
pub const LONG_S: f64 = 1e-3;
/// Seconds per iteration above which a block has so few slots that the shortest is steadier than their median.
pub const LONG_RUN_S: f64 = 5e-3;
/// Largest unexplained share of the elapsed time at which CPU time is still used.
const UNEXPLAINED: f64 = 0.02;
/// Largest difference between the shares of two arms at which CPU time is still used; a larger one would hide that one
/// arm takes longer. A quarter of the 1 % that counts as the same.
const UNEVEN: f64 = 0.0025;
/// Index of waiting in the [`shares`].
const WAITED: usize = 1;

/// The time of a slot that is used for reports and verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Elapsed time of the fastest part of the slot.
    Fastest,
    /// CPU time of the calling thread.
    Cpu,
    /// CPU time of the calling thread in the shortest slot of a block: cache evictions by neighbours only add time, and
    /// the median of few slots is uncertain.
    ShortestCpu,
    /// Elapsed time of the slot.
    Wall,
    /// Elapsed time of the shortest run of a block.
    Shortest,
}

impl Basis {
    /// Chooses the basis for one arm.
    ///
    /// Short iterations use elapsed time: the fastest part of a slot misses most disturbances. Long iterations always
    /// meet a context switch, so they use CPU time, provided that every arm runs on the calling thread and CPU time
    /// accounts for the time that passed; otherwise they use elapsed time too.
    pub fn of(samples: &[Sample], parallelism: Parallelism) -> Self {
        Self::among(&[[samples]], &[parallelism])
    }

    /// Chooses the basis for arms that are compared, from the samples of each arm in each block. One long arm is enough for
    /// CPU time: other programs lengthen the elapsed time of that arm alone.
    ///
    /// Of each block, the longest, the shortest and the worst arm count, whichever these are, so the choice does not
    /// change if two arms swap their samples in some blocks. It cannot depend on which arm is which, and the sign of a
    /// difference remains a fair coin.
    pub fn among<const ARMS: usize>(blocks: &[[&[Sample]; ARMS]], parallelism: &[Parallelism]) -> Self {
        let seconds = |of: fn(f64, f64) -> f64| {
            let arm =
                |arms: &[&[Sample]; ARMS]| arms.iter().filter_map(|samples| Basis::Fastest.median(samples)).reduce(of);
            median(&blocks.iter().filter_map(arm).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        if !(LONG_S..f64::INFINITY).contains(&seconds(f64::max)) || !cpu_may_be_judged(blocks, parallelism) {
            Basis::Fastest
        } else if seconds(f64::min) >= LONG_RUN_S {
            Basis::ShortestCpu
        } else {
            Basis::Cpu
        }
    }

    /// The basis for statistics of whole slots, including tails: CPU time if it accounts for the time that passed. As
    /// in [`Basis::among`], the choice does not depend on which arm is which.
    pub fn of_whole_slots<const ARMS: usize>(blocks: &[[&[Sample]; ARMS]], parallelism: &[Parallelism]) -> Self {
        if cpu_may_be_judged(blocks, parallelism) { Basis::Cpu } else { Basis::Wall }
    }

    /// Chooses the basis for whole processes from the runs of baseline, candidate and second copy of the baseline in
    /// each block: CPU time if the processes only compute, and the shortest run of a block, or all of them if their
    /// mean scatters less. Delays only lengthen a run, so the shortest one is steady if delays cause the scatter. If
    /// runs scatter in both directions, for example with the placement of each process in memory, the shortest wastes
    /// half of the time.
    ///
    /// The scatter is that of the mean of baseline and candidate relative to the second copy: it does not contain their
    /// difference, and does not change if the two swap their samples in some blocks.
    pub fn of_runs(blocks: &[[&[Sample]; 3]]) -> Self {
        let cpu = runs_only_compute(blocks);
        let (all, shortest) = if cpu { (Basis::Cpu, Basis::ShortestCpu) } else { (Basis::Wall, Basis::Shortest) };
        let scatter = |of: fn(&[f64]) -> f64| {
            let log = |samples: &[Sample]| of(&samples.iter().map(|s| all.seconds(s).ln()).collect::<Vec<_>>());
            let against = |[one, other, copy]: &[&[Sample]; 3]| 0.5 * (log(one) + log(other)) - log(copy);
            let values: Vec<f64> = blocks.iter().map(against).collect();
            mean_interval(&values, 0.99).map(|interval| interval.sd)
        };
        let of_all = scatter(|logs| logs.iter().sum::<f64>() / logs.len() as f64);
        let of_shortest = scatter(|logs| logs.iter().copied().fold(f64::INFINITY, f64::min));
        match (of_all, of_shortest) {
            (Ok(mean), Ok(least)) if mean < least => all,
            _ => shortest,
        }
    }

    /// Seconds per iteration of `sample`.
    pub fn seconds(self, sample: &Sample) -> f64 {
        match self {
            Basis::Fastest => sample.fastest_seconds().unwrap_or_else(|| sample.wall_seconds()),
            Basis::Cpu | Basis::ShortestCpu => sample.cpu_seconds().unwrap_or_else(|| sample.wall_seconds()),
            Basis::Wall | Basis::Shortest => sample.wall_seconds(),
        }
    }

    /// Median seconds over the slots of each process, by the number of its block.
    pub fn by_process(self, samples: &[Sample]) -> BTreeMap<u32, f64> {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in samples {
            blocks.entry(sample.block).or_default().push(self.seconds(sample));
        }
        blocks.into_iter().filter_map(|(block, seconds)| Some((block, median(&seconds)?))).collect()
    }

    /// Median seconds over all slots.
    pub fn median(self, samples: &[Sample]) -> Option<f64> {
        median(&samples.iter().map(|sample| self.seconds(sample)).collect::<Vec<f64>>())
    }

    /// Seconds per iteration: one value per slot, or one per block for the bases that take the shortest.
    pub fn values(self, samples: &[Sample]) -> Vec<f64> {
        let seconds = samples.iter().map(|sample| self.seconds(sample));
        match self {
            Basis::Shortest | Basis::ShortestCpu => seconds.reduce(f64::min).into_iter().collect(),
            _ => seconds.collect(),
        }
    }

    /// The corresponding basis with one value per slot.
    pub fn of_slots(self) -> Self {
        match self {
            Basis::ShortestCpu => Basis::Cpu,
            Basis::Shortest => Basis::Wall,
            basis => basis,
        }
    }

    /// True if the basis is CPU time.
    pub fn is_cpu(self) -> bool {
        matches!(self, Basis::Cpu | Basis::ShortestCpu)
    }

    /// True if the times of these bases are not comparable: one is CPU time, the other an elapsed time that other
    /// programs lengthen. The fastest parts of short slots count as undisturbed, like CPU time.
    pub fn are_two_clocks(sides: [(Self, &[Sample]); 2]) -> bool {
        let waits: Vec<&[Sample]> = sides.iter().filter(|(basis, _)| !basis.is_cpu()).map(|(_, all)| *all).collect();
        let [samples] = waits.as_slice() else { return false };
        Self::Fastest.median(samples).is_some_and(|seconds| seconds >= LONG_S)
    }

    /// Description for reports.
    pub fn about(self) -> &'static str {
        match self {
            Basis::Fastest => "elapsed time, fastest part of a slot",
            Basis::Cpu => "CPU time",
            Basis::ShortestCpu => "CPU time of the shortest run of a block",
            Basis::Wall => "elapsed time",
            Basis::Shortest => "elapsed time of the shortest run of a block",
        }
    }
}

fn cpu_may_be_judged<const ARMS: usize>(blocks: &[[&[Sample]; ARMS]], parallelism: &[Parallelism]) -> bool {
    parallelism.iter().all(|one| *one == Parallelism::Single) && accounts_for_time(blocks)
}

/// True if the commands wait for nothing but a processor: in the run of each block that waited least, CPU time accounts
/// for the time that passed. A command's own waits occur in every run, while neighbours delay only some. The worst of
/// the three arms counts, averaged over the blocks. Baseline and candidate must also wait equally: the median over the
/// blocks of their difference, in either direction, is small.
fn runs_only_compute(blocks: &[[&[Sample]; 3]]) -> bool {
    let gap = |run: &Sample| Some(run.wall_ns.abs_diff(run.cpu_ns?) as f64 / run.wall_ns as f64);
    let least = |runs: &[Sample]| runs.iter().filter_map(gap).fold(f64::INFINITY, f64::min);
    let waits: Vec<[f64; 3]> = blocks.iter().map(|arms| arms.map(least)).collect();
    let worst: f64 = waits.iter().map(|arms| arms.iter().copied().fold(0.0, f64::max)).sum();
    let uneven: Vec<f64> = waits.iter().map(|[one, other, _]| (one - other).abs()).collect();
    worst / blocks.len() as f64 <= UNEXPLAINED && median(&uneven).is_some_and(|uneven| uneven <= UNEVEN)
}

/// True if the CPU time of the calling threads accounts for the time that passed, except for what the scheduler gave to
/// other processes: for each kind of other time, the largest share among the arms of a block, averaged over the blocks,
/// is small. All arms must also wait equally: the median over the blocks of longest minus shortest is small.
///
/// It does not if other threads of the process worked, if the thread waited (sleep, lock, I/O, child process), or if
/// time passed without a context switch that explains it. CPU time then says little about how long a caller waits.
/// Slots without these counts return false too.
pub(super) fn accounts_for_time<const ARMS: usize>(blocks: &[[&[Sample]; ARMS]]) -> bool {
    let mut sums = [0.0; 3];
    let mut uneven = Vec::new();
    for arms in blocks {
        let mut worst = [0.0; 3];
        let mut least_waited = f64::INFINITY;
        for samples in arms {
            let Some(shares) = shares(samples) else { return false };
            worst = std::array::from_fn(|kind| f64::max(worst[kind], shares[kind]));
            least_waited = least_waited.min(shares[WAITED]);
        }
        sums = std::array::from_fn(|kind| sums[kind] + worst[kind]);
        uneven.push(worst[WAITED] - least_waited);
    }
    let small = sums.iter().all(|sum| sum / blocks.len() as f64 <= UNEXPLAINED);
    small && median(&uneven).is_some_and(|uneven| uneven <= UNEVEN)
}

/// Shares of the elapsed time: CPU time of other threads, waiting, time without an explanation.
fn shares(samples: &[Sample]) -> Option<[f64; 3]> {
    let (mut wall, mut others, mut waited, mut unexplained) = (0, 0, 0, 0);
    for sample in samples {
        let idle = sample.wall_ns.saturating_sub(sample.cpu_ns?);
        let (waits, switches) = (sample.waits?, sample.switches?);
        wall += sample.wall_ns;
        others += sample.others_ns?;
        waited += if waits > 0 { idle } else { 0 };
        unexplained += if waits == 0 && switches == 0 { idle } else { 0 };
    }
    (wall > 0).then(|| [others, waited, unexplained].map(|ns| ns as f64 / wall as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Parallelism::{Many, Single};

    fn slot(wall_us: u64, cpu_us: u64) -> Sample {
        Sample {
            iterations: 1,
            wall_ns: wall_us * 1000,
            cpu_ns: Some(cpu_us * 1000),
            others_ns: Some(0),
            switches: Some(0),
            waits: Some(0),
            ..Sample::default()
        }
    }

    #[test]
    fn long_iterations_are_judged_by_cpu_time_if_that_is_the_time_that_passed() {
        let of = |sample: Sample| Basis::among(&[[&[sample; 5][..], &[slot(2000, 2000); 5]]], &[Single; 2]);
        assert_eq!(of(slot(2000, 2000)), Basis::Cpu);
        assert_eq!(of(slot(900, 900)), Basis::Cpu, "the other side is long");
        assert_eq!(Basis::among(&[[&[slot(900, 900); 5][..]; 2]], &[Single; 2]), Basis::Fastest, "both are short");
        let preempted = Sample { switches: Some(2), ..slot(9000, 2000) };
        assert_eq!(of(preempted), Basis::Cpu, "other processes had the processor");
        for (why, sample) in [
            ("it slept, or waited for a lock, a file or a child", Sample { waits: Some(1), ..slot(2400, 2000) }),
            ("a thread that it did not declare worked", Sample { others_ns: Some(1_000_000), ..slot(2000, 2000) }),
            ("time passed without a switch", slot(2400, 2000)),
            ("nothing was counted", Sample { waits: None, ..slot(2000, 2000) }),
        ] {
            assert_eq!(of(sample), Basis::Fastest, "{why}");
            assert_eq!(Basis::of_whole_slots(&[[&[sample; 5]]], &[Single]), Basis::Wall, "{why}");
        }
        let long = [slot(6000, 6000); 3];
        assert_eq!(Basis::among(&[[&long[..], &long]], &[Single; 2]), Basis::ShortestCpu);
        assert_eq!(Basis::among(&[[&long[..], &long]], &[Single, Many]), Basis::Fastest);
        assert_eq!(Basis::among(&[[&long[..], &[slot(500, 500)]]], &[Single; 2]), Basis::Cpu, "only one has few slots");
        assert_eq!(Basis::of(&long, Single), Basis::ShortestCpu);
        assert_eq!(Basis::of(&[], Single), Basis::Fastest);
        assert_eq!(Basis::among::<3>(&[], &[Single; 2]), Basis::Fastest);
    }

    /// Near each of its limits, the choice does not change if any two arms swap their samples in some of the blocks.
    #[test]
    fn the_choice_does_not_know_which_arm_is_which() {
        let near = [
            [slot(999, 999), slot(1002, 1002)],
            [slot(4999, 4999), slot(5002, 5002)],
            [slot(2000, 1950), slot(2000, 1990)],
            [Sample { waits: Some(1), ..slot(2000, 1955) }, slot(2000, 2000)],
            [Sample { waits: Some(1), ..slot(2000, 1994) }, Sample { waits: Some(1), ..slot(2000, 1996) }],
            [
                Sample { others_ns: Some(38_000), ..slot(2000, 2000) },
                Sample { others_ns: Some(42_000), ..slot(2000, 2000) },
            ],
        ];
        for kinds in near {
            // The arm that differs has each of the three places.
            let block = |place: usize| [0, 1, 2].map(|arm| vec![kinds[usize::from(arm == place)]; 5]);
            let choices: Vec<[Basis; 2]> = (0..3_usize.pow(6))
                .map(|names| {
                    let blocks: Vec<_> = (0..6).map(|index| block(names / 3_usize.pow(index) % 3)).collect();
                    let blocks: Vec<_> = blocks.iter().map(|arms| arms.each_ref().map(Vec::as_slice)).collect();
                    [Basis::among(&blocks, &[Single; 2]), Basis::of_whole_slots(&blocks, &[Single; 2])]
                })
                .collect();
            assert!(choices.iter().all(|choice| *choice == choices[0]), "{kinds:?}: {choices:?}");
        }
    }

    /// Blocks of five runs of 50 ms; `late(block, run)` is what an arm adds to the logarithm of its time.
    fn runs(late: [&dyn Fn(usize, usize) -> f64; 3]) -> Vec<[Vec<Sample>; 3]> {
        let run = |late: f64| Sample { iterations: 1, wall_ns: (5e7 * late.exp()) as u64, ..Sample::default() };
        (0..6).map(|block| late.map(|late| (0..5).map(|index| run(late(block, index))).collect())).collect()
    }

    fn of_runs(blocks: &[[Vec<Sample>; 3]]) -> Basis {
        Basis::of_runs(&blocks.iter().map(|arms| arms.each_ref().map(Vec::as_slice)).collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_judged_by_all_runs_where_these_scatter_both_ways() {
        // Pseudo-random numbers between -1 and 1, different for each arm.
        let drawn = |seed: usize, block: usize, run: usize| {
            2.0 * ((block * 5 + run + 1) as f64 * (0.618_034 + seed as f64 * 0.137)).fract() - 1.0
        };
        let both = |seed: usize| move |block, run| 0.03 * (drawn(seed, block, run) + drawn(seed + 3, block, run));
        let delayed = |seed: usize| move |block, run| 0.5 * drawn(seed, block, run).max(0.0).powi(2);
        let blocks = runs([&both(0), &|block, run| 0.3 + both(1)(block, run), &both(2)]);
        assert_eq!(of_runs(&blocks), Basis::Wall, "a difference between the two does not count as scatter");
        assert_eq!(of_runs(&runs([&delayed(0), &delayed(1), &delayed(2)])), Basis::Shortest);
        assert_eq!(of_runs(&blocks[..1]), Basis::Shortest, "one block shows no scatter");
        let single: Vec<_> = blocks.iter().map(|arms| arms.each_ref().map(|runs| runs[..1].to_vec())).collect();
        assert_eq!(of_runs(&single), Basis::Shortest, "of one run both are the same");
        assert_eq!(of_runs(&waiting(&blocks, |_| [0.01; 3])), Basis::Cpu);
        assert!(!of_runs(&waiting(&blocks, |_| [0.04; 3])).is_cpu(), "they wait in every run");
        for noise in [runs([&both(0), &both(1), &both(2)]), runs([&delayed(0), &delayed(1), &delayed(2)])] {
            let swapped = |swaps: u32| {
                let mut blocks = noise.clone();
                blocks
                    .iter_mut()
                    .enumerate()
                    .filter(|(index, _)| swaps >> index & 1 == 1)
                    .for_each(|(_, b)| b.swap(0, 1));
                of_runs(&blocks)
            };
            assert!((1..64).all(|swaps| swapped(swaps) == swapped(0)));
        }
    }

    /// The blocks, with runs that compute except for the share `waits(block)` of each arm. Two of five runs are
    /// preempted for as long as they compute.
    fn waiting(blocks: &[[Vec<Sample>; 3]], waits: impl Fn(usize) -> [f64; 3]) -> Vec<[Vec<Sample>; 3]> {
        let mut blocks = blocks.to_vec();
        for (block, arms) in blocks.iter_mut().enumerate() {
            for (runs, waits) in arms.iter_mut().zip(waits(block)) {
                for (index, run) in runs.iter_mut().enumerate() {
                    run.cpu_ns = Some(run.wall_ns);
                    run.wall_ns = (run.wall_ns as f64 * if index < 2 { 2.0 } else { 1.0 + waits }) as u64;
                }
            }
        }
        blocks
    }

    /// By CPU time, a command that sleeps for 1.5 % of its time would count as the same.
    #[test]
    fn commands_that_do_not_wait_alike_are_judged_by_elapsed_time() {
        let blocks = runs([&|_, _| 0.0; 3]);
        let is_cpu = |waits: &dyn Fn(usize) -> [f64; 3]| of_runs(&waiting(&blocks, waits)).is_cpu();
        assert!(is_cpu(&|_| [0.015; 3]), "both wait");
        assert!(!is_cpu(&|_| [0.0, 0.015, 0.0]), "the candidate waits");
        assert!(!is_cpu(&|_| [0.015, 0.0, 0.015]), "the baseline waits");
        assert!(is_cpu(&|_| [0.005, 0.007, 0.005]), "a fifth of a per cent is far below what counts as the same");
        assert!(
            is_cpu(&|block| [0.0, if block < 2 { 0.015 } else { 0.0 }, 0.0]),
            "neighbours delay all runs of a block"
        );
        let swapped = |block| if block % 2 == 0 { [0.0, 0.015, 0.0] } else { [0.015, 0.0, 0.0] };
        assert!(!is_cpu(&swapped), "the choice does not know which of the two is which");
    }

    #[test]
    fn one_wait_among_many_slots_is_no_habit() {
        let mut slots = vec![slot(2000, 2000); 100];
        slots[7] = Sample { waits: Some(1), ..slot(2500, 2000) };
        assert!(accounts_for_time(&[[&slots[..]]]));
        slots[9] = Sample { waits: Some(1), ..slot(9000, 2000) };
        assert!(!accounts_for_time(&[[&slots[..]]]));
    }

    /// By CPU time, a sleep of 1.2 % in one arm would count as the same, and work moved to another thread as faster.
    #[test]
    fn one_that_waits_more_than_the_other_is_judged_by_elapsed_time() {
        let napping = [Sample { waits: Some(1), ..slot(2000, 1976) }; 5];
        let busy = [slot(2000, 2000); 5];
        assert_eq!(Basis::among(&[[&napping[..], &napping]], &[Single; 2]), Basis::Cpu);
        assert_eq!(Basis::among(&[[&napping[..], &busy]], &[Single; 2]), Basis::Fastest);
        assert_eq!(Basis::of_whole_slots(&[[&napping[..], &busy]], &[Single; 2]), Basis::Wall);
        let rarely = [[&napping[..], &busy], [&busy, &busy], [&busy, &busy]];
        assert_eq!(Basis::among(&rarely, &[Single; 2]), Basis::Cpu, "in most blocks it does not wait");
    }

    #[test]
    fn values_are_one_a_slot_or_one_a_block() {
        let slots = [slot(3000, 1000), slot(2000, 1500)];
        assert_eq!(Basis::Wall.values(&slots), [3e-3, 2e-3]);
        assert_eq!(Basis::Shortest.values(&slots), [2e-3]);
        assert_eq!(Basis::ShortestCpu.values(&slots), [1e-3]);
        let cut = Sample { iterations: 10, parts: Some(5), fastest_ns: Some(2000), ..slot(9, 9) };
        assert!((Basis::Fastest.values(&[cut])[0] - 1e-6).abs() < 1e-15);
    }
}
