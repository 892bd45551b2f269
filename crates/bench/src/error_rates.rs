//! Error rates of whole comparisons on synthetic slots with fixed seeds: false positives and detections. Test code
//! only.

use ellwand_core::record::Sample;
use ellwand_core::stats::{DecisionRule, Difference, decide, proportion_interval, special};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::compare::{Basis, BlockSamples, Call, Choice, Decision, Rounds, Spent, Terms, over_blocks};

/// Blocks of 24 rounds that take about as long as starting their processes.
const SPENT: Spent = Spent { start_s: 0.012, rounds_s: 0.5e-3 * 24.0, gone_s: 0.0, usual: 24.0 };
use crate::worker::Limits;

/// How some slots of an arm are slowed down.
#[derive(Debug, Clone, Copy)]
enum Slow {
    Never,
    /// One slot in twenty takes twice as long.
    Tail,
    /// Every second slot takes 10 % longer.
    Modes,
    /// One slot in ten meets a noisy neighbour and takes up to 50 % longer.
    Neighbours,
}

/// Standard normal (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let [u, v] = [0; 2].map(|_| random.random_range(f64::EPSILON..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Slots of one process. Processes scatter by 0.33 % and slots by 0.38 %, as measured for a memory-bound kernel on a
/// busy machine. A slot has ten parts, and slow moments do not affect its fastest part.
fn slots(slow: Slow, rounds: usize, random: &mut ChaCha8Rng) -> Vec<Sample> {
    let process = 0.0033 * normal(random);
    (0..rounds)
        .map(|_| {
            let fastest = 2e4 * (process + 0.0038 * normal(random)).exp();
            let longer = match slow {
                Slow::Tail if random.random_bool(0.05) => 2.0,
                Slow::Modes if random.random_bool(0.5) => 1.1,
                Slow::Neighbours if random.random_bool(0.1) => 1.0 + 0.5 * random.random_range(0.0..1.0),
                _ => 1.0,
            };
            let whole = 10.0 * fastest * longer * (1.0 + 0.01 * random.random_range(0.0..1.0));
            Sample {
                iterations: 10,
                wall_ns: whole as u64,
                cpu_ns: Some(whole as u64),
                parts: Some(10),
                fastest_ns: Some(fastest as u64),
                ..Sample::default()
            }
        })
        .collect()
}

/// Compares two arms with occasional slow slots, with as many rounds as real blocks have.
fn compare(arms: [Slow; 2], seed: u64) -> Decision {
    compare_by(&Terms::new(0.01, 0.01, None, Limits::default(), seed).unwrap(), arms)
}

fn compare_by(terms: &Terms, arms: [Slow; 2]) -> Decision {
    let mut random = ChaCha8Rng::seed_from_u64(terms.coin);
    over_blocks(terms, &mut |_, _| {}, &mut |_, ask| {
        let rounds = match ask.rounds {
            Rounds::Usual => 24,
            Rounds::Many => 96,
            Rounds::About(rounds) => (rounds as usize).clamp(24, 96),
        };
        let [baseline, candidate] = arms;
        let samples = [baseline, candidate, baseline].map(|slow| slots(slow, rounds, &mut random));
        Ok(BlockSamples { samples, basis: Choice::Fixed(Basis::Fastest, Basis::Cpu), spent: SPENT })
    })
    .unwrap()
}

fn slower(decision: &Decision) -> bool {
    matches!(decision.call, Call::As(Difference::Slower) | Call::SlowerBeside(_))
}

/// All ways to scatter count together; the seeds are fixed, so nothing here is left to chance.
#[test]
fn equal_things_are_rarely_called_different_however_their_slots_scatter() {
    // 1 % for the time and 0.5 % for all side questions together.
    let (promised, trials) = (0.015, 250);
    let alarms = |slow: Slow| {
        let decisions = (0..trials).map(|seed| compare([slow; 2], seed));
        let called = decisions.filter(|one| slower(one) || matches!(one.call, Call::As(Difference::Faster))).count();
        println!("{slow:?}: {called} of {trials}");
        let chance = special::binomial_upper_tail(called as u64, trials, promised);
        assert!(chance > 1e-4, "{slow:?}: {called} of {trials}, promised at most {promised}");
        called
    };
    let all: usize = [Slow::Never, Slow::Tail, Slow::Modes, Slow::Neighbours].map(alarms).iter().sum();
    assert!(all as f64 <= promised * 4.0 * trials as f64, "{all} of {} called different", 4 * trials);
}

#[test]
fn occasional_slow_slots_are_found() {
    for slow in [Slow::Tail, Slow::Modes] {
        let decisions: Vec<Decision> = (1000..1100).map(|seed| compare([Slow::Never, slow], seed)).collect();
        let found = decisions.iter().filter(|decision| slower(decision)).count() as u64;
        let least = proportion_interval(found, 100, 0.9).unwrap().0;
        assert!(found >= 95 && least > 0.89, "{slow:?}: {found} of 100");
        // The slow slots must not count as a difference in time.
        assert!(decisions.iter().all(|decision| decision.call != Call::As(Difference::Slower)), "{slow:?}");
    }
}

/// Runs of a command of 50 ms that scatter by 3 %, or are delayed by 3 % in the mean.
fn runs(delayed: bool, slower: f64, rounds: usize, random: &mut ChaCha8Rng) -> Vec<Sample> {
    let mut one = || {
        let late = if delayed { -random.random_range(f64::EPSILON..1.0_f64).ln() } else { normal(random) };
        Sample { iterations: 1, wall_ns: (5e7 * (0.03 * late + slower).exp()) as u64, ..Sample::default() }
    };
    (0..rounds).map(|_| one()).collect()
}

/// Choosing between the shortest run and all runs on the same runs that are then judged adds no false positives, and
/// picks the one that scatters less.
#[test]
fn commands_are_judged_by_what_scatters_less_and_equal_ones_rarely_called_different() {
    let (promised, trials) = (0.015, 100);
    for (delayed, usual) in [(false, Basis::Wall), (true, Basis::Shortest)] {
        let compare = |seed: u64, slower: f64| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let terms = Terms::new(0.01, 0.01, Some(32), Limits::default(), seed).unwrap();
            over_blocks(&terms, &mut |_, _| {}, &mut |_, ask| {
                let rounds = if let Rounds::About(rounds) = ask.rounds { rounds as usize } else { 5 };
                let samples = [0.0, slower, 0.0].map(|slower| runs(delayed, slower, rounds, &mut random));
                let spent = Spent { start_s: 0.0, rounds_s: 0.15 * rounds as f64, gone_s: 0.0, usual: 5.0 };
                Ok(BlockSamples { samples, basis: Choice::ByRuns, spent })
            })
            .unwrap()
        };
        let equal: Vec<Decision> = (0..trials).map(|seed| compare(seed, 0.0)).collect();
        let alarmed = |decision: &Decision| slower(decision) || matches!(decision.call, Call::As(Difference::Faster));
        let alarms = equal.iter().filter(|decision| alarmed(decision)).count();
        assert!(alarms as f64 <= promised * trials as f64, "{alarms} of {trials}");
        let taken = equal.iter().filter(|decision| decision.basis == usual).count();
        assert!(taken >= 70, "{usual:?}: {taken} of {trials}");
        let found = (trials..2 * trials).filter(|seed| slower(&compare(*seed, 0.04))).count();
        assert!(found >= 95, "delayed {delayed}: {found} of {trials}");
    }
}

/// The cost of waiting: if the time is the same, nearly all comparisons say so at once, even with noisy neighbours.
#[test]
fn equal_things_rarely_wait_for_slow_moments() {
    let rule = DecisionRule::default();
    for (slow, share) in [(Slow::Never, 0.02), (Slow::Neighbours, 0.2)] {
        let decisions: Vec<Decision> = (0..150).map(|seed| compare([slow; 2], seed)).collect();
        let waited = decisions.iter().map(|decision| {
            let main: Vec<f64> = decision.blocks.iter().map(|block| block.main).collect();
            let same =
                |n: &usize| *n <= main.len() && decide(&main[..*n], &rule).unwrap().difference == Difference::Same;
            rule.spending().looks().iter().copied().find(same).map_or(0, |first| main.len() - first)
        });
        let waited: Vec<usize> = waited.collect();
        let some = waited.iter().filter(|blocks| **blocks > 0).count();
        assert!(some as f64 <= share * 150.0, "{slow:?}: {some} of 150 waited");
        assert!(waited.iter().sum::<usize>() <= 150, "{slow:?}: {waited:?}");
        let open = decisions.iter().filter(|decision| matches!(decision.call, Call::Unsettled(_))).count();
        assert!(open <= 4, "{slow:?}: {open} of 150 end with slow moments unsettled");
    }
}

/// A tail that raises the mean by 5 % is "the same" in a wide region, but not in one that its slow slots could cross.
#[test]
fn a_tail_far_inside_the_region_keeps_nothing_open() {
    let same = |rope: f64| {
        let terms = |seed| Terms::new(rope, 0.01, Some(16), Limits::default(), seed).unwrap();
        let decisions = (0..40).map(|seed| compare_by(&terms(seed), [Slow::Never, Slow::Tail]));
        decisions.filter(|decision| decision.call == Call::As(Difference::Same)).count()
    };
    assert!(same(0.2) >= 38, "{} of 40", same(0.2));
    assert!(same(0.06) <= 1, "{} of 40", same(0.06));
}

/// If a tail is too rare for the available blocks, the answer "the same" still mentions the suspicion.
#[test]
fn a_tail_still_open_at_the_last_block_is_unsettled() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let terms = Terms::new(0.015, 0.01, Some(8), Limits::default(), 5).unwrap();
    let decision = over_blocks(&terms, &mut |_, _| {}, &mut |_, _| {
        let samples = [Slow::Never, Slow::Tail, Slow::Never].map(|slow| slots(slow, 24, &mut random));
        Ok(BlockSamples { samples, basis: Choice::Fixed(Basis::Fastest, Basis::Cpu), spent: SPENT })
    })
    .unwrap();
    assert_eq!(decision.change.difference, Difference::Same);
    assert_eq!(decision.call, Call::Unsettled("mean"), "{:?}", decision.sides);
}
