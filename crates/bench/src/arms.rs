//! The arms of a comparison in worker processes: block after block, each arm in a fresh one.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ellwand_core::device::Caches;
use ellwand_core::implementation::Parallelism;
use ellwand_core::reading::Reading;
use ellwand_core::record::{Outcome, Sample, Settings};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::block::{Block, Known, Spec};
use crate::compare::{ARMS, BASELINE, Basis, CANDIDATE, Decision, NoDecision, Rounds, Taken, Terms, over_blocks};
use crate::shapes::{self, Seen};
use crate::worker::{Limits, Opened};

/// Shortest slot of a comparison, in nanoseconds: at 0.2 ms some 5 % of slots meet a context switch.
pub const SLOT_NS: u64 = 200_000;
/// Warm-up of an arm, in nanoseconds. Caches, predictors and page tables are warm after a few slots; the clock of the
/// processor was raised by the preparation.
pub const WARM_UP_NS: u64 = 1_000_000;
/// Time that the slots of one block take together, in nanoseconds: about what starting its processes takes, so that neither
/// dominates (Kalibera and Jones 2013).
const BLOCK_SLOTS_NS: u64 = 16_000_000;
/// Rounds of a block.
const ROUNDS: (u64, u64) = (3, 24);
/// How many times as many rounds a longer block may have: a rare slow mode shows in nearly every one then.
const LONGER: u64 = 4;
/// Time that the slots of such a block take together, in nanoseconds. What is still to be told is how often something happens,
/// which many slots tell and many processes do not.
const LONGER_SLOTS_NS: u64 = 8 * BLOCK_SLOTS_NS;
/// Rounds of a block of long runs: with the first run of each process and its judgement, which take as long as a slot, more
/// rounds would cost more than further processes tell.
const LONG_ROUNDS: u64 = 3;
/// Rounds after which a block that takes long ends: on a busy machine waiting for the processor between slots costs more
/// than the slots, and rounds of one block replicate nothing.
const ENOUGH_ROUNDS: u64 = 6;
/// How long that is.
const LONG_BLOCK: Duration = Duration::from_millis(40);
/// The same of a longer block.
const LONGEST_BLOCK: Duration = Duration::from_millis(320);
/// From this time of an iteration on nearly every slot meets a context switch, and processor time is judged.
const LONG_NS: u64 = 1_000_000;
/// From this time of an iteration on a process makes no run that is not timed but its first: what a run finds in the caches
/// is a small share of its time, and the same for all arms.
pub const LONG_RUN_NS: u64 = 5_000_000;

/// How an arm of a comparison is sampled in each of its blocks, as a record says it.
pub fn settings() -> Settings {
    Settings {
        slot_min_ns: SLOT_NS,
        samples_min: ROUNDS.0 as u32,
        rounds_max: ROUNDS.1 as u32,
        case_budget_ns: BLOCK_SLOTS_NS / ARMS.len() as u64,
        warm_up_ns: WARM_UP_NS,
        caches: Caches::Warm,
    }
}

/// What is compared.
#[derive(Debug, Clone)]
pub struct Sides {
    /// The baseline.
    pub baseline: Spec,
    /// The candidate.
    pub candidate: Spec,
    /// Threads of the baseline and of the candidate.
    pub parallelism: [Parallelism; 2],
}

/// Compares two implementations until the verdict stands or the blocks are used up. `on_block` hears how many blocks are
/// done, of how many at most.
///
/// # Errors
/// See [`NoDecision`]; every worker is dead by then.
pub fn compare(
    sides: &Sides,
    terms: &Terms,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(usize, usize),
) -> Result<Decision, NoDecision> {
    let mut arms = Arms {
        sides,
        known: Known::default(),
        basis: None,
        limits: terms.limits,
        interrupt,
        what_ran: Default::default(),
        readings: Default::default(),
    };
    let mut decision = over_blocks(terms, on_block, &mut |coin, rounds| arms.block(coin, rounds))?;
    decision.what_ran = arms.what_ran;
    decision.readings = arms.readings;
    Ok(decision)
}

struct Arms<'a> {
    sides: &'a Sides,
    known: Known,
    basis: Option<Basis>,
    limits: Limits,
    interrupt: &'a AtomicBool,
    what_ran: [String; 2],
    readings: [Vec<Reading>; 2],
}

impl Arms<'_> {
    /// The next block that counts. The first one tells whether both are asked alike; if not, it does not count and they are from
    /// then on. That depends on who is faster by how much, and not on who is called the candidate: the coin stays fair.
    fn block(&mut self, coin: &mut ChaCha8Rng, wanted: Rounds) -> Result<Taken, NoDecision> {
        let first = self.basis.is_none();
        let (taken, opened) = self.take(coin, wanted)?;
        if !first {
            return Ok(taken);
        }
        let seen = [BASELINE, CANDIDATE].map(|arm| seen(&opened[arm], &taken.samples[arm]));
        let Some(alike) = shapes::alike(seen, SLOT_NS) else { return Ok(taken) };
        for (spec, slot) in [&self.sides.baseline, &self.sides.candidate].into_iter().zip(alike) {
            self.known.slots.insert(spec.key(), slot);
        }
        // Which time is judged follows from what an iteration takes, and that is known better now.
        self.basis = None;
        Ok(self.take(coin, wanted)?.0)
    }

    fn take(&mut self, coin: &mut ChaCha8Rng, wanted: Rounds) -> Result<(Taken, Vec<Opened>), NoDecision> {
        let begin = Instant::now();
        let specs = [self.sides.baseline.clone(), self.sides.candidate.clone(), self.sides.baseline.clone()];
        let mut block = Block::open(&specs, &mut self.known, self.limits, coin, self.interrupt)?;
        let mut costs = [0; ARMS.len()];
        let mut all = Vec::new();
        for (arm, cost) in costs.iter_mut().enumerate() {
            let opened = block.state(arm).map_err(|outcome| ended(ARMS[arm], outcome))?;
            *cost = opened.slot.cost_ns;
            if arm == BASELINE && self.basis.is_none() {
                let iteration_ns = opened.slot.cost_ns / opened.slot.iterations.max(1);
                self.basis = Some(basis(self.sides.parallelism, iteration_ns));
            }
            if let Some(what_ran) = self.what_ran.get_mut(arm) {
                what_ran.clone_from(&opened.what_ran);
            }
            if let Some(readings) = self.readings.get_mut(arm).filter(|readings| readings.is_empty()) {
                readings.clone_from(&opened.readings);
            }
            all.push(opened.clone());
        }
        let long = costs.iter().all(|cost| *cost >= LONG_RUN_NS);
        let fewest = if long { LONG_ROUNDS } else { ROUNDS.0 };
        let most = |budget_ns: u64, most: u64| (budget_ns / costs.iter().sum::<u64>().max(1)).clamp(fewest, most);
        let (usual, many) = (most(BLOCK_SLOTS_NS, ROUNDS.1), most(LONGER_SLOTS_NS, LONGER * ROUNDS.1));
        let (rounds, enough, longest) = match wanted {
            Rounds::Usual => (usual, ENOUGH_ROUNDS, LONG_BLOCK),
            Rounds::Many => (many, LONGER * ENOUGH_ROUNDS, LONGEST_BLOCK),
            Rounds::About(rounds) => ((rounds as u64).clamp(usual, many), ENOUGH_ROUNDS, LONGEST_BLOCK),
        };
        let mut samples: [Vec<Sample>; ARMS.len()] = Default::default();
        let start = Instant::now();
        for round in 0..rounds {
            if round >= enough && start.elapsed() > longest {
                break;
            }
            let mut order: Vec<usize> = (0..ARMS.len()).collect();
            order.shuffle(coin);
            for (position, arm) in order.into_iter().enumerate() {
                // The last of few long runs is the one that is judged afterwards.
                let judged = long && round + 1 == rounds;
                match block.slot(arm, judged)? {
                    Some(sample) => {
                        samples[arm].push(Sample { round: round as u32, position: position as u32, ..sample });
                    }
                    None => return Err(now_ended(&block, arm, ARMS[arm])),
                }
            }
        }
        let in_rounds = start.elapsed();
        if let Some(gone) = block.all_again()?.iter().position(Option::is_none) {
            return Err(now_ended(&block, gone, ARMS[gone]));
        }
        block.close();
        let spent_s = [begin.elapsed() - in_rounds, in_rounds].map(|time| time.as_secs_f64());
        // Beside the fastest part stands the whole slot. Its processor time knows nothing of the neighbours, so that a slow
        // mode of the code itself shows; with several threads only elapsed time means anything.
        let beside = if self.single() { Basis::Cpu } else { Basis::Wall };
        Ok((Taken { samples, basis: self.basis.unwrap_or(beside), beside, spent_s }, all))
    }

    fn single(&self) -> bool {
        self.sides.parallelism == [Parallelism::Single; 2]
    }
}

/// What a block told of an arm. A program that is older than the limits of shapes is not asked for more than it chose.
fn seen(opened: &Opened, samples: &[Sample]) -> Seen {
    Seen {
        slot: opened.slot,
        iteration_ns: shapes::iteration_ns(samples).unwrap_or(f64::NAN),
        most: opened.most_iterations.unwrap_or(opened.slot.iterations),
        finest_part_ns: opened.finest_part_ns,
    }
}

/// Long iterations meet context switches: there processor time is judged where one thread does all of it.
fn basis(parallelism: [Parallelism; 2], iteration_ns: u64) -> Basis {
    match parallelism {
        _ if iteration_ns < LONG_NS => Basis::Fastest,
        [Parallelism::Single, Parallelism::Single] if iteration_ns >= LONG_RUN_NS => Basis::ShortestCpu,
        [Parallelism::Single, Parallelism::Single] => Basis::Cpu,
        _ => Basis::Wall,
    }
}

pub(crate) fn ended(arm: &'static str, outcome: &Outcome) -> NoDecision {
    NoDecision::Ended { arm, outcome: outcome.clone() }
}

pub(crate) fn now_ended(block: &Block, arm: usize, name: &'static str) -> NoDecision {
    match block.state(arm) {
        Err(outcome) => ended(name, outcome),
        Ok(_) => ended(name, &Outcome::Failed { error: "it did not answer".into() }),
    }
}
