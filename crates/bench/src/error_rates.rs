//! Error rates of whole comparisons on synthetic slots with fixed seeds: what is called by chance, and what is found. Test
//! code only.

use ellwand_core::record::Sample;
use ellwand_core::stats::{Difference, proportion_lower_bound, special};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::compare::{Basis, Call, Decision, Taken, Terms, over_blocks};
use crate::worker::Limits;

/// What the slots of an arm do now and then.
#[derive(Debug, Clone, Copy)]
enum Slow {
    Never,
    /// One slot in twenty takes twice as long.
    Tail,
    /// Every second slot takes a tenth longer.
    Modes,
    /// One slot in ten is hit by a neighbour and takes up to half as long again.
    Neighbours,
}

/// Standard normal (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let [u, v] = [0; 2].map(|_| random.random_range(f64::EPSILON..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Slots of one process: a placement that scatters by 0.33 % and slots by 0.38 %, as measured for a memory-bound kernel on a
/// busy machine. A slot has ten parts, and its fastest one does not know of what is slow.
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

/// A comparison of arms that are slow now and then, in rounds as real blocks have them.
fn compare(arms: [Slow; 2], seed: u64) -> Decision {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), seed).unwrap();
    over_blocks(&terms, &mut |_, _| {}, &mut |_, suspicious| {
        let rounds = if suspicious { 96 } else { 24 };
        let [baseline, candidate] = arms;
        let samples = [baseline, candidate, baseline].map(|slow| slots(slow, rounds, &mut random));
        Ok(Taken { samples, basis: Basis::Fastest, beside: Basis::Cpu })
    })
    .unwrap()
}

fn slower(decision: &Decision) -> bool {
    matches!(decision.call, Call::As(Difference::Slower) | Call::SlowerBeside(_))
}

#[test]
fn equal_things_are_rarely_called_different_however_their_slots_scatter() {
    // One per cent for the time and one more for the side questions together.
    let (promised, trials) = (0.02, 150);
    for slow in [Slow::Never, Slow::Tail, Slow::Modes, Slow::Neighbours] {
        let alarms = (0..trials)
            .map(|seed| compare([slow; 2], seed))
            .filter(|decision| slower(decision) || matches!(decision.call, Call::As(Difference::Faster)))
            .count() as u64;
        let chance = special::binomial_upper_tail(alarms, trials, promised);
        assert!(chance > 1e-4, "{slow:?}: {alarms} of {trials}, promised at most {promised}");
    }
}

#[test]
fn what_is_slow_now_and_then_is_found() {
    for slow in [Slow::Tail, Slow::Modes] {
        let decisions: Vec<Decision> = (1000..1100).map(|seed| compare([Slow::Never, slow], seed)).collect();
        let found = decisions.iter().filter(|decision| slower(decision)).count() as u64;
        let least = proportion_lower_bound(found, 100, 0.95).unwrap();
        assert!(found >= 95 && least > 0.89, "{slow:?}: {found} of 100");
        // And the time itself is not what is blamed.
        assert!(decisions.iter().all(|decision| decision.call != Call::As(Difference::Slower)), "{slow:?}");
    }
}

#[test]
fn equal_things_without_slow_moments_cost_no_further_blocks() {
    let blocks: usize = (0..50).map(|seed| compare([Slow::Never; 2], seed).blocks.len()).sum();
    assert!(blocks < 50 * 12, "{blocks} blocks in 50 comparisons");
}
