//! The arms of a comparison in worker processes: block after block, each arm in a fresh one.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ellwand_core::device::Caches;
use ellwand_core::implementation::Parallelism;
use ellwand_core::reading::Reading;
use ellwand_core::record::{LONG_RUN_S, Outcome, Sample, Settings, Settling};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::block::{Block, Known, Spec};
use crate::compare::{
    ARMS, BASELINE, CANDIDATE, CONTROL, Choice, Decision, NoDecision, Rounds, Taken, Terms, over_blocks,
};
use crate::sample::Slot;
use crate::settings::SLOT_NS;
use crate::settle;
use crate::shapes::{self, Seen};
use crate::worker::{Limits, Opened};

/// Warm-up of an arm, in nanoseconds. Page tables are warm after a few runs, and the preparation raised the clock rate; what a turn
/// disturbs is settled at the head of each slot.
pub const WARM_UP_NS: u64 = 1_000_000;
/// What starting the processes of a block takes, judging them included, until a block has shown it, in seconds.
const START_S: f64 = 0.016;
/// What a turn takes beside its slot and its head (messages, switches, counters), in seconds: a guess that is on the large side.
const SWITCH_S: f64 = 1e-4;
/// Rounds of a block: at least as many as make a median, at most as many as pay.
const ROUNDS: (u64, u64) = (6, 24);
/// How many times as many rounds a longer block may have: a rare slow mode shows in nearly every one then.
const LONGER: u64 = 4;
/// How many times as many rounds as usual such a block has. What is still to be told is how often something happens, which many
/// slots tell and many processes do not.
const MANY: u64 = 8;
/// Rounds of a block of long runs: with the first run of each process and its judgement, which take as long as a slot, more
/// rounds would cost more than further processes tell.
const LONG_ROUNDS: u64 = 3;
/// Rounds after which a block that takes long ends: on a busy machine waiting for the processor between slots costs more
/// than the slots, and rounds of one block replicate nothing.
const ENOUGH_ROUNDS: u64 = 6;
/// How long that is.
const LONG_BLOCK: Duration = Duration::from_millis(60);
/// The same of a longer block.
const LONGEST_BLOCK: Duration = Duration::from_millis(480);
/// From this time of an iteration on the first run of a process is all the warm-up it gets.
pub const LONG_RUN_NS: u64 = (LONG_RUN_S * 1e9) as u64;

/// How an arm of a comparison is sampled in each of its blocks, as a record says it.
pub fn settings() -> Settings {
    Settings {
        slot_min_ns: SLOT_NS,
        samples_min: ROUNDS.0 as u32,
        rounds_max: ROUNDS.1 as u32,
        case_budget_ns: SLOT_NS * ROUNDS.1,
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
        start_s: START_S,
        blocks: 0,
        limits: terms.limits,
        interrupt,
        what_ran: Default::default(),
        readings: Default::default(),
        settling: Default::default(),
    };
    let mut decision = over_blocks(terms, on_block, &mut |coin, rounds| arms.block(coin, rounds))?;
    decision.what_ran = arms.what_ran;
    decision.readings = arms.readings;
    decision.settling = arms.settling;
    Ok(decision)
}

struct Arms<'a> {
    sides: &'a Sides,
    known: Known,
    /// What starting and ending the processes of a block took so far, in seconds (mean).
    start_s: f64,
    blocks: u32,
    limits: Limits,
    interrupt: &'a AtomicBool,
    what_ran: [String; 2],
    readings: [Vec<Reading>; 2],
    settling: [Option<Settling>; 2],
}

impl Arms<'_> {
    /// The next block that counts. Where no settling curves were recorded, the first block tells whether both sides are asked alike;
    /// if not, it does not count and they are from then on. That depends on who is faster by how much, and not on who is called
    /// the candidate: the coin stays fair.
    fn block(&mut self, coin: &mut ChaCha8Rng, wanted: Rounds) -> Result<Taken, NoDecision> {
        let (taken, opened) = self.take(coin, wanted)?;
        if self.blocks > 1 || self.settling.iter().any(Option::is_some) {
            return Ok(taken);
        }
        let seen = [BASELINE, CANDIDATE].map(|arm| {
            let iteration_ns = shapes::iteration_ns(&taken.samples[arm]).unwrap_or(f64::NAN);
            seen(&opened[arm], opened[arm].slot, iteration_ns)
        });
        let Some(alike) = shapes::alike(seen, SLOT_NS) else { return Ok(taken) };
        self.keep(alike);
        Ok(self.take(coin, wanted)?.0)
    }

    /// Gives both sides slots of these shapes in the blocks that follow.
    fn keep(&mut self, shapes: [Slot; 2]) {
        for (spec, slot) in [&self.sides.baseline, &self.sides.candidate].into_iter().zip(shapes) {
            self.known.slots.insert(spec.key(), slot);
        }
    }

    /// Records settling curves in the first block, and gives all arms slots that treat them alike.
    fn settle(&mut self, block: &mut Block, specs: &[Spec; 3], coin: &mut ChaCha8Rng) -> Result<(), NoDecision> {
        let learnt = block.settle(specs, &mut self.known, coin, SLOT_NS)?;
        let [Some(baseline), Some(candidate), Some(control)] = &learnt[..] else { return Ok(()) };
        let longest = |arm: &Settling, other: &Settling| {
            if arm.untimed >= other.untimed { arm.clone() } else { other.clone() }
        };
        // Both copies of the baseline are one arm.
        let mut settling = [longest(baseline, control), candidate.clone()];
        let own = |arm: usize, settling: &Settling| {
            let opened = block.state(arm).map_err(|outcome| ended(ARMS[arm], outcome))?;
            let most = opened.most_iterations.unwrap_or(opened.slot.iterations);
            let slot = settle::slot(settling, SLOT_NS, most, opened.finest_part_ns);
            Ok::<_, NoDecision>(seen(opened, slot, settling.settled_ns))
        };
        let shapes = shapes::settled_alike([own(BASELINE, &settling[0])?, own(CANDIDATE, &settling[1])?], SLOT_NS);
        for (settling, slot) in settling.iter_mut().zip(&shapes) {
            settling.untimed = slot.lead;
        }
        for (arm, slot) in [(BASELINE, shapes[0]), (CANDIDATE, shapes[1]), (CONTROL, shapes[0])] {
            block.shape(arm, slot);
        }
        self.keep(shapes);
        self.settling = settling.map(Some);
        Ok(())
    }

    fn take(&mut self, coin: &mut ChaCha8Rng, wanted: Rounds) -> Result<(Taken, Vec<Opened>), NoDecision> {
        let begin = Instant::now();
        let specs = [self.sides.baseline.clone(), self.sides.candidate.clone(), self.sides.baseline.clone()];
        let mut block = Block::open(&specs, &mut self.known, self.limits, coin, self.interrupt)?;
        for (arm, name) in ARMS.into_iter().enumerate() {
            block.state(arm).map_err(|outcome| ended(name, outcome))?;
        }
        let settling = Instant::now();
        self.settle(&mut block, &specs, coin)?;
        let settling = settling.elapsed();
        let mut slots = [Slot::whole(1, 0); ARMS.len()];
        let mut all = Vec::new();
        for (arm, slot) in slots.iter_mut().enumerate() {
            let opened = block.state(arm).map_err(|outcome| ended(ARMS[arm], outcome))?;
            *slot = opened.slot;
            if let Some(what_ran) = self.what_ran.get_mut(arm) {
                what_ran.clone_from(&opened.what_ran);
            }
            if let Some(readings) = self.readings.get_mut(arm).filter(|readings| readings.is_empty()) {
                readings.clone_from(&opened.readings);
            }
            all.push(opened.clone());
        }
        let long = slots.iter().all(|slot| slot.cost_ns >= LONG_RUN_NS);
        let fewest = if long { LONG_ROUNDS } else { ROUNDS.0 };
        // As many rounds as it takes until more than half of the block is timed.
        let gained_s = |slot: &Slot| 1e-9 * (slot.cost_ns as f64 - 1.2 * slot.untimed_ns()) - SWITCH_S;
        let round_s = slots.iter().map(gained_s).sum::<f64>();
        let half_timed = if round_s > 0.0 { (1.2 * self.start_s / round_s).ceil() as u64 } else { fewest };
        let usual = half_timed.clamp(fewest, ROUNDS.1);
        let many = (MANY * usual).min(LONGER * ROUNDS.1);
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
        let judged = block.all_again()?;
        if let Some(gone) = judged.iter().position(Option::is_none) {
            return Err(now_ended(&block, gone, ARMS[gone]));
        }
        if judged.iter().flatten().filter(|judged| judged.unsettled).count() >= 2 {
            // One arm alone may have met a neighbour. All arms get the same.
            self.keep([BASELINE, CANDIDATE].map(|arm| settle::longer(slots[arm])));
        }
        block.close();
        let spent_s = [begin.elapsed() - in_rounds - settling, in_rounds].map(|time| time.as_secs_f64());
        self.blocks += 1;
        self.start_s += (spent_s[0] - self.start_s) / f64::from(self.blocks);
        Ok((Taken { samples, basis: Choice::BySamples(self.sides.parallelism), spent_s }, all))
    }
}

/// What is known of an arm. A program that is older than the limits of shapes is not asked for more than it chose.
fn seen(opened: &Opened, slot: Slot, iteration_ns: f64) -> Seen {
    let most = opened.most_iterations.unwrap_or(opened.slot.iterations);
    Seen { slot, iteration_ns, most, finest_part_ns: opened.finest_part_ns }
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
