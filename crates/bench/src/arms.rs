//! The arms of a comparison in worker processes: in every block, each arm runs in a fresh process.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ellwand_core::device::Caches;
use ellwand_core::implementation::Parallelism;
use ellwand_core::record::{LONG_RUN_S, Outcome, Sample, Settings, Settling};
use ellwand_core::verdict::Compared;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::block::{Block, Known, Spec};
use crate::compare::{
    AGED_BLOCKS, ARMS, Ask, BASELINE, BlockSamples, CANDIDATE, CONTROL, Choice, Decision, NoDecision, Reported, Rounds,
    Spent, Terms, over_blocks,
};
use crate::sample::Slot;
use crate::settings::SLOT_NS;
use crate::settle;
use crate::shapes::{self, Seen};
use crate::worker::{Limits, MISSING, Opened};

/// Warm-up per arm, in nanoseconds. A few runs warm the page tables, preparation has already raised the clock rate, and
/// the head of each slot absorbs the effects of the switch.
pub const WARM_UP_NS: u64 = 1_000_000;
/// Initial estimate, in seconds, of the cost of starting a block's processes and checking their answers; the first
/// block replaces it with a measurement.
const START_S: f64 = 0.016;
/// Cost of a turn besides its slot and head (messages, context switches, counters), in seconds. A deliberately high
/// estimate.
const SWITCH_S: f64 = 1e-4;
/// Minimum and maximum number of rounds per block: enough for a median, and no more than are worth their time.
const ROUNDS: (u64, u64) = (6, 24);
/// Factor on the maximum number of rounds in a long block: enough that a rare slow mode shows up in nearly every block.
const LONGER: u64 = 4;
/// Factor on the usual number of rounds in a long block: the frequency of rare events follows from many slots, not from
/// many processes.
const MANY: u64 = 8;
/// Rounds per block of long runs. The first run of each process and its check take as long as a slot, so beyond this
/// another process is worth more than another round.
const LONG_ROUNDS: u64 = 3;
/// Minimum number of rounds of a block whose length the comparison chose: two show how much rounds scatter.
const FEWEST: u64 = 2;
/// Rounds after which a slow block ends. On a busy machine, waiting for the processor between slots costs more than the
/// slots, and rounds within one block are not replicates.
const ENOUGH_ROUNDS: u64 = 6;
/// Duration beyond which a block counts as slow.
const LONG_BLOCK: Duration = Duration::from_millis(60);
/// The same limit for long blocks.
const LONGEST_BLOCK: Duration = Duration::from_millis(480);
/// Iterations of at least this duration get no warm-up besides the first run of their process.
pub const LONG_RUN_NS: u64 = (LONG_RUN_S * 1e9) as u64;

/// Sampling settings of each arm and block, as written to the record.
pub fn settings() -> Settings {
    Settings {
        slot_min_ns: SLOT_NS,
        samples_min: ROUNDS.0 as u32,
        rounds_max: ROUNDS.1 as u32,
        case_budget_ns: SLOT_NS * ROUNDS.1,
        warm_up_ns: WARM_UP_NS,
        caches: Caches::Warm,
        counts: None,
        allowed: None,
    }
}

/// The last third of a block's rounds comes from aged processes: enough to move the 90th percentile of its slots, and
/// too few to move their median.
const YOUNG: f64 = 2.0 / 3.0;

/// The two sides of a comparison.
#[derive(Debug, Clone)]
pub struct Sides {
    /// The side that the ratio divides by.
    pub baseline: Spec,
    /// The side whose time is the ratio's numerator.
    pub candidate: Spec,
    /// Thread counts of baseline and candidate.
    pub parallelism: [Parallelism; 2],
    /// True if a right answer has the same bits as the reference's.
    pub exact: bool,
}

/// Compares two implementations until the verdict is final or the time is used up. Calls `on_block` after every block
/// with the elapsed and the expected total seconds of the comparison.
///
/// # Errors
/// See [`NoDecision`]; all workers have ended by then.
pub fn compare(
    sides: &Sides,
    terms: &Terms,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(f64, f64),
) -> Result<Decision, NoDecision> {
    let mut arms = Arms {
        sides,
        known: Known::default(),
        begin: Instant::now(),
        start_s: START_S,
        round: Duration::ZERO,
        blocks: 0,
        limits: terms.limits,
        age_ns: terms.age_ns(),
        interrupt,
        reported: Reported::default(),
    };
    let decision = over_blocks(terms, on_block, &mut |coin, ask| arms.block(coin, ask))?;
    Ok(Decision { reported: arms.reported, ..decision })
}

/// How many rounds a block has, and when it ends early.
struct Length {
    /// True if every run is long enough to be a slot by itself.
    long: bool,
    /// Minimum number of rounds; a block with fewer does not count.
    fewest: u64,
    /// Rounds of a usual block.
    usual: u64,
    rounds: u64,
    /// After this number of rounds, a block that lasts longer than `longest` ends.
    enough: u64,
    longest: Duration,
}

/// The samples of a block.
struct Slots {
    samples: [Vec<Sample>; ARMS.len()],
    in_rounds: Duration,
    ageing: Duration,
}

struct Arms<'a> {
    sides: &'a Sides,
    known: Known,
    /// When the comparison began.
    begin: Instant,
    /// Mean time to start and end the processes of a block so far, in seconds.
    start_s: f64,
    /// Mean time of a round of the last block.
    round: Duration,
    blocks: u32,
    limits: Limits,
    /// How long each process of the first blocks runs between its slots.
    age_ns: f64,
    interrupt: &'a AtomicBool,
    reported: Reported,
}

impl Arms<'_> {
    /// Takes the next block that counts. Without settling curves, the first block shows whether both sides have
    /// comparable slot shapes; if not, it is discarded and both get new shapes. The decision depends on the speed ratio
    /// but not on which side is the candidate, so the coin stays fair.
    fn block(&mut self, coin: &mut ChaCha8Rng, ask: Ask) -> Result<BlockSamples, NoDecision> {
        let end = self.begin.elapsed().as_secs_f64() + ask.left_s;
        let (taken, opened) = self.take(coin, ask.rounds, end)?;
        if self.blocks > 1 || self.reported.settling.iter().any(Option::is_some) {
            return Ok(taken);
        }
        let seen = [BASELINE, CANDIDATE].map(|arm| {
            let iteration_ns = shapes::iteration_ns(&taken.samples[arm]).unwrap_or(f64::NAN);
            observed(&opened[arm], opened[arm].slot, iteration_ns)
        });
        let Some(alike) = shapes::alike(seen, SLOT_NS) else { return Ok(taken) };
        self.keep(alike);
        Ok(self.take(coin, ask.rounds, end)?.0)
    }

    /// Sets the slot shapes of both sides for the following blocks.
    fn keep(&mut self, shapes: [Slot; 2]) {
        for (spec, slot) in [&self.sides.baseline, &self.sides.candidate].into_iter().zip(shapes) {
            self.known.slots.insert(spec.key(), slot);
        }
    }

    /// Records settling curves in the first block and chooses comparable slot shapes for all arms.
    fn settle(&mut self, block: &mut Block, specs: &[Spec; 3], coin: &mut ChaCha8Rng) -> Result<(), NoDecision> {
        let unable = [BASELINE, CANDIDATE].map(|arm| block.state(arm).is_ok_and(|opened| !opened.settles));
        self.reported.unable = unable;
        if unable.contains(&true) {
            // In that case both sides warm up by the same rule.
            return Ok(());
        }
        let learnt = block.settle(specs, &mut self.known, coin, SLOT_NS)?;
        let [Some(baseline), Some(candidate), Some(control)] = &learnt[..] else { return Ok(()) };
        let longest = |arm: &Settling, other: &Settling| {
            if arm.untimed >= other.untimed { arm.clone() } else { other.clone() }
        };
        // Both copies of the baseline count as one arm.
        let mut settling = [longest(baseline, control), candidate.clone()];
        let own = |arm: usize, settling: &Settling| {
            let opened = block.state(arm).map_err(|outcome| ended(ARMS[arm], outcome))?;
            let slot = settle::slot(settling, SLOT_NS, opened.max_iterations(), opened.finest_part_ns);
            Ok::<_, NoDecision>(observed(opened, slot, settling.settled_ns))
        };
        let shapes = shapes::settled_alike([own(BASELINE, &settling[0])?, own(CANDIDATE, &settling[1])?], SLOT_NS);
        for (settling, slot) in settling.iter_mut().zip(&shapes) {
            settling.untimed = slot.lead;
        }
        for (arm, slot) in [(BASELINE, shapes[0]), (CANDIDATE, shapes[1]), (CONTROL, shapes[0])] {
            block.shape(arm, slot);
        }
        self.keep(shapes);
        self.reported.settling = settling.map(Some);
        Ok(())
    }

    /// Fails if the time is up before the block has slots.
    fn in_time(&self, end: f64) -> Result<(), NoDecision> {
        if self.begin.elapsed().as_secs_f64() > end { Err(NoDecision::OutOfTime(None)) } else { Ok(()) }
    }

    /// Takes a block; it must end `end` seconds after the comparison began.
    fn take(
        &mut self,
        coin: &mut ChaCha8Rng,
        wanted: Rounds,
        end: f64,
    ) -> Result<(BlockSamples, Vec<Opened>), NoDecision> {
        let begin = Instant::now();
        let specs = [self.sides.baseline.clone(), self.sides.candidate.clone(), self.sides.baseline.clone()];
        // Kills a process that does not get ready in time.
        let until = Duration::try_from_secs_f64(end).ok().and_then(|end| self.begin.checked_add(end));
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(begin));
        let (known, limits) = (&mut self.known, (self.limits, until));
        known.leaves_time = self.blocks == 0;
        let mut block = Block::open(&specs, known, limits, coin, self.interrupt, &mut |_, _| {})?;
        if let Some(arm) = block.late().first().copied() {
            let before = (self.blocks > 0).then(|| Duration::from_secs_f64(self.start_s));
            let hangs = block.hangs(arm, left, before) || before.is_none() && block.lags(arm);
            return Err(if hangs { now_ended(&block, arm, ARMS[arm]) } else { NoDecision::Late(ARMS[arm]) });
        }
        for (arm, name) in ARMS.into_iter().enumerate() {
            block.state(arm).map_err(|outcome| ended(name, outcome))?;
        }
        self.in_time(end)?;
        let settling = Instant::now();
        self.settle(&mut block, &specs, coin)?;
        let settling = settling.elapsed();
        self.in_time(end)?;
        let (slots, all) = self.opened(&block)?;
        let length = self.length(&slots, wanted);
        let Slots { samples, in_rounds, ageing } = self.rounds(&mut block, coin, &length, end)?;
        let judged = block.rejudge_all()?;
        if let Some(gone) = judged.iter().position(Option::is_none) {
            return Err(now_ended(&block, gone, ARMS[gone]));
        }
        if judged.iter().flatten().filter(|judged| judged.unsettled).count() >= 2 {
            // A single unsettled arm may have had a noisy neighbour. All arms get the same new shape.
            self.keep([BASELINE, CANDIDATE].map(|arm| settle::lengthened(slots[arm])));
        }
        self.reported.other_answers = self.sides.exact
            && !self.known.agree(&self.sides.baseline.launch.program, &self.sides.candidate.launch.program);
        block.close();
        // Saturating, here and below: a clock that was set back must not end the program.
        let start = begin.elapsed().saturating_sub(in_rounds + settling + ageing);
        let [start_s, rounds_s, gone_s] = [start, in_rounds, self.begin.elapsed()].map(|time| time.as_secs_f64());
        self.blocks += 1;
        self.start_s += (start_s - self.start_s) / f64::from(self.blocks);
        self.round = in_rounds / u32::try_from(samples[BASELINE].len()).unwrap_or(u32::MAX).max(1);
        let spent = Spent { start_s, rounds_s, gone_s, usual: length.usual as f64 };
        Ok((BlockSamples { samples, basis: Choice::BySamples(self.sides.parallelism), spent }, all))
    }

    /// The slot shape of each arm and how it opened; remembers what ran, and the first readings.
    fn opened(&mut self, block: &Block) -> Result<([Slot; ARMS.len()], Vec<Opened>), NoDecision> {
        let Reported { what_ran, work, compared, readings, .. } = &mut self.reported;
        let all = (0..ARMS.len()).map(|arm| block.state(arm).cloned().map_err(|outcome| ended(ARMS[arm], outcome)));
        let all = all.collect::<Result<Vec<Opened>, _>>()?;
        for (arm, opened) in all.iter().take(what_ran.len()).enumerate() {
            what_ran[arm].clone_from(&opened.what_ran);
            work[arm].clone_from(&opened.work);
            if readings[arm].is_empty() {
                readings[arm].clone_from(&opened.readings);
            }
        }
        *compared = Compared::least(compared.iter().copied().chain(all.iter().filter_map(|one| one.verdict.compared)));
        Ok((std::array::from_fn(|arm| all[arm].slot), all))
    }

    fn length(&self, slots: &[Slot; ARMS.len()], wanted: Rounds) -> Length {
        let long = slots.iter().all(|slot| slot.cost_ns >= LONG_RUN_NS);
        let fewest = if long { LONG_ROUNDS } else { ROUNDS.0 };
        // Enough rounds that more than half of the block is timed.
        let gained_s = |slot: &Slot| 1e-9 * (slot.cost_ns as f64 - 1.2 * slot.untimed_ns()) - SWITCH_S;
        let round_s = slots.iter().map(gained_s).sum::<f64>();
        let half_timed = if round_s > 0.0 { (1.2 * self.start_s / round_s).ceil() as u64 } else { fewest };
        let usual = half_timed.clamp(fewest, ROUNDS.1).min(before_slow(self.round));
        let many = (MANY * usual).min(LONGER * ROUNDS.1);
        let (rounds, enough, longest) = match wanted {
            Rounds::Usual => (usual, ENOUGH_ROUNDS, LONG_BLOCK),
            Rounds::Many => (many, LONGER * ENOUGH_ROUNDS, LONGEST_BLOCK),
            Rounds::About(rounds) => {
                // A block with ageing needs rounds before and after it.
                let fewest = if self.blocks < AGED_BLOCKS && self.age_ns > 0.0 { LONG_ROUNDS } else { FEWEST };
                ((rounds as u64).max(fewest), fewest, Duration::MAX)
            }
        };
        Length { long, fewest: fewest.min(rounds), usual, rounds, enough, longest }
    }

    /// Asks for the slots of a block, in drawn order.
    fn rounds(&self, block: &mut Block, coin: &mut ChaCha8Rng, length: &Length, end: f64) -> Result<Slots, NoDecision> {
        let &Length { long, fewest, rounds, enough, longest, .. } = length;
        let mut samples: [Vec<Sample>; ARMS.len()] = Default::default();
        let aged_before = (YOUNG * rounds as f64).ceil() as u64;
        let mut ageing = Duration::ZERO;
        let start = Instant::now();
        for round in 0..rounds {
            let late = self.begin.elapsed().as_secs_f64() > end;
            if round >= enough && start.elapsed().saturating_sub(ageing) > longest || late && round >= fewest {
                break;
            }
            let mut order: Vec<usize> = (0..ARMS.len()).collect();
            order.shuffle(coin);
            if round == aged_before && self.blocks < AGED_BLOCKS {
                let begin = Instant::now();
                for arm in &order {
                    block.age(*arm, self.age_ns)?;
                    if block.state(*arm).is_err() {
                        return Err(now_ended(block, *arm, ARMS[*arm]));
                    }
                }
                ageing = begin.elapsed();
            }
            for (position, arm) in order.into_iter().enumerate() {
                if self.begin.elapsed().as_secs_f64() > end {
                    break;
                }
                // Long runs are few, so the last one also serves for the final check.
                let judged = long && round + 1 == rounds;
                match block.slot(arm, judged)? {
                    Some(sample) => {
                        samples[arm].push(Sample { round: round as u32, position: position as u32, ..sample });
                    }
                    None => return Err(now_ended(block, arm, ARMS[arm])),
                }
            }
        }
        let in_rounds = start.elapsed().saturating_sub(ageing);
        // The time ran out within a round, so that round does not count.
        let whole = samples.iter().map(Vec::len).min().unwrap_or(0);
        samples.iter_mut().for_each(|samples| samples.truncate(whole));
        if (whole as u64) < fewest {
            return Err(NoDecision::OutOfTime(None));
        }
        Ok(Slots { samples, in_rounds, ageing })
    }
}

/// Maximum number of rounds of a usual block if each takes `round`: a slow block ends early, and the pace must not
/// count on rounds that the block will not have.
fn before_slow(round: Duration) -> u64 {
    (LONG_BLOCK.div_duration_f64(round.max(Duration::from_nanos(1))).ceil() as u64).max(ENOUGH_ROUNDS)
}

/// What the first block showed about an arm.
fn observed(opened: &Opened, slot: Slot, iteration_ns: f64) -> Seen {
    Seen { slot, iteration_ns, max_iterations: opened.max_iterations(), finest_part_ns: opened.finest_part_ns }
}

pub(crate) fn ended(arm: &'static str, outcome: &Outcome) -> NoDecision {
    let outcome = match outcome {
        // If the baseline lacks what is compared, it is new, and there is nothing to compare it with.
        Outcome::Failed { error } if arm != ARMS[CANDIDATE] && error.starts_with(MISSING) => {
            Outcome::Unsupported { why: error.clone() }
        }
        other => other.clone(),
    };
    NoDecision::Ended { arm, outcome }
}

pub(crate) fn now_ended(block: &Block, arm: usize, name: &'static str) -> NoDecision {
    match block.state(arm) {
        Err(outcome) => ended(name, outcome),
        Ok(_) => ended(name, &Outcome::Failed { error: "it did not answer".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_counts_on_the_rounds_that_a_slow_block_has() {
        assert!(before_slow(Duration::ZERO) > ROUNDS.1, "nothing is known before the first block");
        assert_eq!(before_slow(Duration::from_millis(2)), 30);
        assert_eq!(before_slow(Duration::from_millis(7)), 9);
        assert_eq!(before_slow(Duration::from_millis(100)), ENOUGH_ROUNDS);
    }
}
