//! What a comparison knows after its blocks so far, and the loop over them.

use ellwand_core::record::{Basis, BlockValues, Outcome, Sample};
use ellwand_core::stats::{
    Copies, Estimate, Statistic, StatsError, Variances, Weighted, choose, decide_weighted, median, weighted_evidence,
    weights,
};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::pace::{FIRST, Next, Pace, fine};
use super::{
    ARMS, Ask, BASELINE, BlockSamples, CANDIDATE, Choice, Decision, End, LEAST, LEAST_BY_SIGNS, NoDecision, Reported,
    Rounds, Spent, Terms, call,
};
use crate::beside::{self, Beside};
use crate::cpu::clock_step_ns;
use crate::one_clock::one_clock;

/// Resolution of a device clock, in nanoseconds: "a resolution of approximately one half microsecond" (CUDA Runtime
/// API, `cudaEventElapsedTime`).
const DEVICE_STEP_NS: f64 = 500.0;

/// The state carried from block to block.
struct Sofar {
    terms: Terms,
    /// Which times are judged, by the main question and by the side questions.
    basis: (Basis, Basis),
    /// The statistic that makes one value from the rounds of a block.
    statistic: Statistic,
    /// True if both copies of the baseline count. For commands, the second one chooses the statistic instead.
    both: bool,
    /// The values of the blocks, by that statistic.
    main: Vec<Estimate>,
    blocks: Vec<BlockValues>,
    beside: Beside,
    samples: [Vec<Sample>; 3],
    times: [Vec<f64>; 2],
    disturbed: [u64; 2],
    spent: Spent,
    /// Seconds of starting the first block.
    first_s: f64,
}

/// Takes blocks from `take` until the verdict is final, the blocks or the time are used up, or the forecast says that
/// the time cannot decide the comparison.
pub(crate) fn over_blocks(
    terms: &Terms,
    on_block: &mut dyn FnMut(f64, f64),
    take: &mut dyn FnMut(&mut ChaCha8Rng, Ask) -> Result<BlockSamples, NoDecision>,
) -> Result<Decision, NoDecision> {
    let mut coin = ChaCha8Rng::seed_from_u64(terms.coin);
    let mut sofar = Sofar {
        terms: terms.clone(),
        basis: (Basis::Wall, Basis::Wall),
        statistic: Statistic::default(),
        both: true,
        main: Vec::new(),
        blocks: Vec::new(),
        beside: Beside::default(),
        samples: Default::default(),
        times: Default::default(),
        disturbed: [0; 2],
        spent: Spent::default(),
        first_s: 0.0,
    };
    let (mut rounds, mut suspicious) = (Rounds::Usual, false);
    loop {
        let left_s = terms.budget_s - sofar.spent.gone_s;
        match take(&mut coin, Ask { rounds, left_s }) {
            Err(NoDecision::OutOfTime(_)) => return sofar.end(End::Budget),
            Err(NoDecision::Late(_)) if !sofar.blocks.is_empty() => return sofar.end(End::Budget),
            Err(NoDecision::Interrupted) if sofar.blocks.len() >= 2 => return sofar.end(End::Interrupted),
            taken => sofar.add(&taken?)?,
        }
        // Fit the plan as late as possible: one slow start among the first blocks would end the comparison too soon.
        if sofar.is_before_first_look() {
            let least = if sofar.both { LEAST } else { LEAST_BY_SIGNS };
            sofar.terms = sofar.terms.clone().planned_for(sofar.pace().most_blocks(), least)?;
        }
        let looks = sofar.terms.rule.spending().looks();
        let most = looks.last().copied().unwrap_or(0);
        let look = looks.contains(&sofar.blocks.len());
        let decision = if look { Some(sofar.decide(End::Planned)?) } else { None };
        if let Some(decision) = decision {
            if decision.stands(terms.bar()) {
                return Ok(Decision { end: End::Decided, ..decision });
            }
            if sofar.blocks.len() >= most {
                let fitted = terms.rule.spending().looks().last().is_some_and(|last| *last > most);
                return Ok(Decision { end: if fitted { End::Budget } else { End::Planned }, ..decision });
            }
            suspicious = decision.suspicious(terms.rule.rope());
        }
        let pace = sofar.pace();
        match pace.next(suspicious)? {
            Next::Block(next) => rounds = next,
            Next::End => return sofar.end(End::Hopeless),
        }
        on_block(sofar.spent.gone_s, pace.whole_s(suspicious));
    }
}

impl Sofar {
    /// True if the next block ends with the first look.
    fn is_before_first_look(&self) -> bool {
        self.terms.rule.spending().looks().first() == Some(&(self.blocks.len() + 1))
    }

    fn pace(&self) -> Pace<'_> {
        let (first_s, disturbed) = (self.first_s, self.beside.saw_slow_slots());
        Pace { terms: &self.terms, blocks: &self.main, values: &self.blocks, spent: self.spent, first_s, disturbed }
    }

    /// The answer if the time ends between two looks.
    fn end(&self, end: End) -> Result<Decision, NoDecision> {
        if self.blocks.len() < 2 {
            let known = !self.blocks.is_empty();
            return Err(NoDecision::OutOfTime(known.then(|| self.spent.gone_s + self.pace().soonest_s())));
        }
        self.decide(end)
    }

    fn add(&mut self, taken: &BlockSamples) -> Result<(), NoDecision> {
        let BlockSamples { samples, basis, spent } = taken;
        let mut samples = samples.clone();
        one_clock(&mut samples);
        let samples = &samples;
        let block = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let [start_s, rounds_s] = [self.spent.start_s + spent.start_s, self.spent.rounds_s + spent.rounds_s];
        if block == 0 {
            self.first_s = spent.start_s;
            self.both = *basis != Choice::ByRuns;
        }
        self.spent = Spent { start_s, rounds_s, ..*spent };
        for (kept, samples) in self.samples.iter_mut().zip(samples) {
            kept.extend(samples.iter().map(|sample| Sample { block, ..*sample }));
        }
        // Chosen until the first look and then kept, because the evidence is that of one sequence of values.
        let first_look = self.terms.rule.spending().looks().first().is_some_and(|first| self.blocks.len() < *first);
        let basis = if first_look { self.basis_of(*basis) } else { self.basis };
        if basis == self.basis {
            self.value(samples)?;
        } else {
            self.basis = basis;
            self.recompute()?;
        }
        if self.blocks.len() == FIRST {
            let of = |block: u32| {
                let samples = self.block(block);
                let main = samples.each_ref().map(|samples| self.basis.0.values(samples));
                Ok::<_, StatsError>([
                    self.main_of(Statistic::Median, &main)?.0,
                    self.main_of(Statistic::Huber, &main)?.0,
                ])
            };
            let statistic = choose(&(0..FIRST as u32).map(of).collect::<Result<Vec<_>, _>>()?);
            if statistic != self.statistic {
                self.statistic = statistic;
                self.recompute()?;
            }
        }
        for sample in samples.iter().flatten() {
            self.disturbed[0] += u64::from(sample.switches.is_some_and(|switches| switches > 0));
            self.disturbed[1] += 1;
        }
        Ok(())
    }

    /// The basis of the times, chosen from the blocks so far.
    fn basis_of(&self, choice: Choice) -> (Basis, Basis) {
        let last = self.samples[BASELINE].last().map_or(0, |sample| sample.block);
        let blocks: Vec<_> = (0..=last).map(|block| self.block(block)).collect();
        let blocks: Vec<_> = blocks.iter().map(|arms| arms.each_ref().map(Vec::as_slice)).collect();
        choice.of(&blocks)
    }

    /// The samples of one block.
    fn block(&self, block: u32) -> [Vec<Sample>; 3] {
        self.samples.each_ref().map(|samples| samples.iter().filter(|s| s.block == block).copied().collect())
    }

    /// Recomputes all blocks after a change of basis or statistic.
    fn recompute(&mut self) -> Result<(), NoDecision> {
        let blocks = self.samples[BASELINE].last().map_or(0, |sample| sample.block + 1);
        (self.blocks, self.main, self.beside, self.times) = Default::default();
        (0..blocks).try_for_each(|block| self.value(&self.block(block)))
    }

    /// Computes the values of one block.
    fn value(&mut self, samples: &[Vec<Sample>; 3]) -> Result<(), NoDecision> {
        let (basis, beside) = self.basis;
        let main = samples.each_ref().map(|samples| basis.values(samples));
        let slots: [Vec<f64>; 3] =
            samples.each_ref().map(|samples| samples.iter().map(|sample| beside.seconds(sample)).collect());
        advanced(basis, &main)?;
        advanced(beside, &slots)?;
        let [median, p90, mean] = self.beside.add(&slots)?;
        let (value, copies) = self.main_of(self.statistic, &main)?;
        let bet = self.bet(&value);
        self.main.push(value);
        self.blocks.push(BlockValues {
            main: value.value,
            second: self.both.then_some(copies.second),
            control: copies.apart,
            median,
            p90,
            mean,
            weight: 1.0,
            bet,
        });
        self.times.iter_mut().zip(main).for_each(|(times, main)| times.extend(main));
        Ok(())
    }

    /// The value of the main question for a block, and what its copies of the baseline show.
    fn main_of(&self, statistic: Statistic, times: &[Vec<f64>; 3]) -> Result<(Estimate, Copies), StatsError> {
        let arms = times.each_ref().map(Vec::as_slice);
        let (both, copies) = statistic.of_copies(arms)?;
        Ok((if self.both { both } else { statistic.of_block(arms[BASELINE], arms[CANDIDATE])? }, copies))
    }

    /// The factor on the bet on a block: bets are on values in units of their expected deviation, if that exceeds
    /// [`fine`]. It depends on earlier blocks and on the scatter of this block's rounds, which is the same if the arms
    /// swap names. The first blocks are bet on only if the error of their value is small enough.
    fn bet(&self, block: &Estimate) -> f64 {
        let fine = fine(&self.terms);
        if self.main.len() < FIRST {
            let expected = block.error.map_or(1.0, |error| fine / error.max(fine));
            return if self.both || expected == 1.0 { expected } else { 0.0 };
        }
        Variances::of(&self.main).map_or(1.0, |known| fine / known.of_this(block).sqrt().max(fine))
    }

    /// A time of a few clock steps is known only to within one step, with the same bias in every block: the fastest of
    /// several parts nearly always starts and ends where rounding favours it.
    fn grain(&self) -> f64 {
        let step_of = |sample: &Sample| if sample.device_ns.is_some() { DEVICE_STEP_NS } else { clock_step_ns() };
        let grains = self.samples.iter().filter_map(|samples| {
            let grains: Vec<f64> =
                samples.iter().map(|sample| step_of(sample) / span_ns(self.basis.0, sample).max(1.0)).collect();
            median(&grains)
        });
        grains.fold(0.0, f64::max)
    }

    fn decide(&self, end: End) -> Result<Decision, NoDecision> {
        let rule = &self.terms.rule;
        let weights = weights(&self.main);
        let blocks: Vec<BlockValues> =
            self.blocks.iter().zip(&weights).map(|(block, weight)| BlockValues { weight: *weight, ..*block }).collect();
        let main: Vec<Weighted> = blocks.iter().map(BlockValues::main).collect();
        let control = |block: &BlockValues| Weighted { value: block.control, copies: None, ..block.main() };
        let control: Vec<Weighted> = blocks.iter().map(control).collect();
        let grain = self.grain();
        let change = decide_weighted(&main, rule)?.known_to(grain, rule);
        let control = decide_weighted(&control, rule)?.known_to(grain, rule);
        let sides = self.beside.answers(&self.terms.side_rule)?;
        Ok(Decision {
            call: call(&change, &control, &sides, rule.rope()),
            needed_s: self.pace().needed_s(&change)?,
            change,
            control,
            side_evidence: beside::all_evidence(&sides),
            sides,
            basis: self.basis.0,
            seconds: [0, 1].map(|side| median(&self.times[side]).unwrap_or(f64::NAN)),
            evidence: weighted_evidence(&main, rule.rope(), rule.stakes())?.either(),
            grain,
            blocks,
            looks: rule.spending().looks().to_vec(),
            disturbed: self.disturbed[0] as f64 / self.disturbed[1].max(1) as f64,
            reported: Reported::default(),
            samples: self.samples.clone(),
            elapsed_s: self.spent.gone_s,
            end,
        })
    }
}

/// Fails the arm with a slot that took no time: its clock stood still or was set back during that slot, and the ratio
/// of such a time is meaningless.
fn advanced(basis: Basis, times: &[Vec<f64>; 3]) -> Result<(), NoDecision> {
    let still = |times: &Vec<f64>| times.iter().any(|seconds| *seconds <= 0.0);
    let Some(arm) = times.iter().position(still) else { return Ok(()) };
    let clock = if basis.is_cpu() { "CPU clock" } else { "clock" };
    let error = format!("its {clock} stood still or went back during a slot; measure again, with a monotonic clock");
    Err(NoDecision::Ended { arm: ARMS[arm], outcome: Outcome::Failed { error } })
}

/// Nanoseconds between the clock readings that a slot's time is computed from; they span several iterations.
fn span_ns(basis: Basis, sample: &Sample) -> f64 {
    let parts = match basis {
        Basis::Fastest if sample.fastest_ns.is_some() => sample.parts.unwrap_or(1).max(1),
        _ => 1,
    };
    basis.seconds(sample) * 1e9 * sample.iterations as f64 / parts as f64
}
