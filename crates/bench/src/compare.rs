//! Baseline against candidate over process blocks.
//!
//! Three arms run in each block: the baseline, the candidate, and the baseline a second time, each in a fresh process. In
//! every round each takes one slot, in an order drawn by a coin. A block gives one number a question: the median over its
//! rounds of the logarithm of the candidate's time over the baseline's. Only blocks are counted.
//!
//! The second copy of the baseline is a live control: where it differs from the first, the machine (or the program) does not
//! hold still enough for any verdict, and none is given.

use std::time::Instant;

use ellwand_core::implementation::Parallelism;
use ellwand_core::reading::Reading;
pub use ellwand_core::record::Basis;
use ellwand_core::record::{Outcome, Sample, Settling};
use ellwand_core::stats::{
    Change, Difference, LOOKS, Rule, StatsError, best_rounds, block_scatter, block_value, decide, evidence,
    mean_interval, median,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::beside::{self, Beside, QUESTIONS, Side};
use crate::cpu::clock_step_ns;
use crate::measure::Interrupted;
use crate::worker::Limits;

pub(crate) const BASELINE: usize = 0;
pub(crate) const CANDIDATE: usize = 1;
pub(crate) const CONTROL: usize = 2;
/// Names of the arms.
pub(crate) const ARMS: [&str; 3] = ["the baseline", "the candidate", "the second copy of the baseline"];

/// Step of the clock of a device, in nanoseconds: "a resolution of approximately one half microsecond" (CUDA Runtime API,
/// `cudaEventElapsedTime`).
const DEVICE_STEP_NS: f64 = 500.0;

/// How a comparison is made; fixed before its first block.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Region of practical equivalence, probability of a wrong verdict, looks.
    pub rule: Rule,
    /// The same for the side questions, which share that probability once more.
    side_rule: Rule,
    /// How long answers may take.
    pub limits: Limits,
    /// Seed of every coin.
    pub coin: u64,
    /// Cases of the report, this one among them.
    cases: usize,
}

impl Terms {
    /// Terms with a region of equivalence of `rope` (0.01 for 1 %), a probability `alpha` of a wrong verdict and at most
    /// `most` blocks.
    ///
    /// # Errors
    /// When they make no plan.
    pub fn new(rope: f64, alpha: f64, most: Option<usize>, limits: Limits, coin: u64) -> Result<Self, StatsError> {
        let looks = looks(most);
        let rule = Rule::new(rope, alpha, &looks)?;
        let side_rule = Rule::new(rope, alpha / QUESTIONS.len() as f64, &looks)?;
        Ok(Self { rule, side_rule, limits, coin, cases: 1 })
    }

    /// The same for one of `cases` that a report is about: a difference is called when its evidence holds among so many
    /// even where no other case differs, so that e-BH over the report takes nothing back.
    #[must_use]
    pub fn among(self, cases: usize) -> Self {
        Self { cases: cases.max(1), ..self }
    }

    /// Evidence that a call takes which nobody takes back (`stats::ebh` with a single call among the cases); alone a case
    /// takes none beside that of its verdict.
    fn bar(&self) -> f64 {
        if self.cases == 1 { 0.0 } else { self.cases as f64 / self.rule.spending().alpha() }
    }
}

/// The usual looks up to `most` blocks; `most` itself is the last one. Beyond the usual ones every further one comes after a
/// third more blocks.
fn looks(most: Option<usize>) -> Vec<usize> {
    let Some(most) = most else { return LOOKS.to_vec() };
    let mut looks: Vec<usize> = LOOKS.iter().copied().filter(|look| *look < most).collect();
    while let Some(last) = looks.last().copied().filter(|last| *last >= LOOKS[LOOKS.len() - 1] && last * 4 / 3 < most) {
        looks.push(last * 4 / 3);
    }
    looks.push(most);
    looks
}

/// What the reading of a slot's time spans, in nanoseconds: several iterations.
fn span_ns(basis: Basis, sample: &Sample) -> f64 {
    let parts = match basis {
        Basis::Fastest if sample.fastest_ns.is_some() => sample.parts.unwrap_or(1).max(1),
        _ => 1,
    };
    basis.seconds(sample) * 1e9 * sample.iterations as f64 / parts as f64
}

/// The numbers of one block: natural logarithms of candidate over baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValue {
    /// By the basis of the verdict.
    pub main: f64,
    /// The second copy of the baseline over the first, by the same basis.
    pub control: f64,
    /// Median slot over median slot.
    pub median: f64,
    /// Nine tenths of the slots are faster, over the same.
    pub p90: f64,
    /// Mean slot over mean slot.
    pub mean: f64,
}

/// What the comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// As the main question answers.
    As(Difference),
    /// The fastest times are not slower, and yet a side question says that the candidate is: a slow mode or a longer tail.
    SlowerBeside(&'static str),
    /// The time is the same, and the side question named was suspicious to the last block without an answer.
    Unsettled(&'static str),
    /// The two copies of the baseline differ: nothing can be said here and now.
    Withheld,
}

/// A comparison so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What it says.
    pub call: Call,
    /// The main question.
    pub change: Change,
    /// The control.
    pub control: Change,
    /// The side questions.
    pub sides: Vec<Side>,
    /// Which time was judged.
    pub basis: Basis,
    /// Median over all slots of the time of an iteration by that basis, in seconds: baseline, candidate.
    pub seconds: [f64; 2],
    /// Capital of the better-supported direction: an e-value, for several cases at once.
    pub evidence: f64,
    /// An e-value against "slower in none of the side questions".
    pub side_evidence: f64,
    /// Step of the clock over the shorter of the two times that were read: no block knows its ratio better.
    pub grain: f64,
    /// The values of the blocks.
    pub blocks: Vec<BlockValue>,
    /// Share of the slots that met an involuntary context switch.
    pub disturbed: f64,
    /// What ran: baseline, candidate; empty where that is not known.
    pub what_ran: [String; 2],
    /// Values of probes in the first block, where they were asked for: baseline, candidate.
    pub readings: [Vec<Reading>; 2],
    /// How the times settle after the other arms used the processor, where that was recorded: baseline, candidate.
    pub settling: [Option<Settling>; 2],
    /// The raw samples: baseline, candidate, second copy of the baseline.
    pub samples: [Vec<Sample>; 3],
    /// Elapsed seconds.
    pub elapsed_s: f64,
}

/// Why there is no comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum NoDecision {
    /// The user interrupted.
    Interrupted,
    /// An arm was wrong, failed or is unsupported.
    Ended {
        /// Which.
        arm: &'static str,
        /// How.
        outcome: Outcome,
    },
    /// The statistics refuse.
    Stats(StatsError),
}

impl From<Interrupted> for NoDecision {
    fn from(_: Interrupted) -> Self {
        NoDecision::Interrupted
    }
}

impl From<StatsError> for NoDecision {
    fn from(error: StatsError) -> Self {
        NoDecision::Stats(error)
    }
}

/// What a block gave.
pub(crate) struct Taken {
    /// The samples of each arm, round by round.
    pub(crate) samples: [Vec<Sample>; 3],
    /// Which times are judged; the same in every block.
    pub(crate) basis: Choice,
    /// Seconds outside of its rounds (processes start, are judged and end), and in them; zeros where that is not told.
    pub(crate) spent_s: [f64; 2],
}

/// How the times that are judged are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// Beforehand: for the main question, for the side questions.
    Fixed(Basis, Basis),
    /// From all samples so far of sides with this parallelism. They are chosen alike for all arms, so that the sign of a block
    /// stays a fair coin.
    BySamples([Parallelism; 2]),
}

impl Choice {
    fn of(self, samples: &[Vec<Sample>; 3]) -> (Basis, Basis) {
        let arms = samples.each_ref().map(Vec::as_slice);
        match self {
            Choice::Fixed(basis, beside) => (basis, beside),
            Choice::BySamples(sides) => (Basis::of(&arms, &sides), Basis::of_whole_slots(&arms, &sides)),
        }
    }
}

/// How many rounds the next block should have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rounds {
    /// As many as make the start of processes and the slots take as long as each other on a quiet machine.
    Usual,
    /// Many, to see what is rare.
    Many,
    /// About so many, since rounds scatter.
    About(f64),
}

/// What is carried from block to block.
struct Sofar {
    /// Which times are judged: by the main question, by the side questions.
    basis: (Basis, Basis),
    blocks: Vec<BlockValue>,
    beside: Beside,
    samples: [Vec<Sample>; 3],
    times: [Vec<f64>; 2],
    disturbed: [u64; 2],
    /// What the value of each block owes to its rounds ([`block_scatter`]), where it has enough of them, and how many those were.
    scatter: Vec<(f64, f64)>,
    /// Seconds outside of the rounds of all blocks, and in them; and the rounds.
    spent_s: [f64; 2],
    rounds: usize,
}

/// What is worth the change of a plan: so many times as many rounds as blocks had so far.
const WORTH: f64 = 1.5;

/// Decides over blocks that `take` provides, until the verdict stands or the blocks are used up. `take` hears how many
/// rounds the block should have: more where slow modes are suspected, or where blocks scatter because their rounds do.
pub(crate) fn over_blocks(
    terms: &Terms,
    on_block: &mut dyn FnMut(usize, usize),
    take: &mut dyn FnMut(&mut ChaCha8Rng, Rounds) -> Result<Taken, NoDecision>,
) -> Result<Decision, NoDecision> {
    let start = Instant::now();
    let mut coin = ChaCha8Rng::seed_from_u64(terms.coin);
    let mut sofar = Sofar {
        basis: (Basis::Wall, Basis::Wall),
        blocks: Vec::new(),
        beside: Beside::default(),
        samples: Default::default(),
        times: Default::default(),
        disturbed: [0; 2],
        scatter: Vec::new(),
        spent_s: [0.0; 2],
        rounds: 0,
    };
    let looks = terms.rule.spending().looks();
    let most = looks.last().copied().unwrap_or(0);
    let mut rounds = Rounds::Usual;
    loop {
        sofar.add(&take(&mut coin, rounds)?)?;
        on_block(sofar.blocks.len(), most);
        if looks.contains(&sofar.blocks.len()) {
            let decision = sofar.decide(terms, start.elapsed().as_secs_f64())?;
            if sofar.blocks.len() >= most || decision.stands(terms.bar()) {
                return Ok(decision);
            }
            rounds = if decision.suspicious(terms.rule.rope()) {
                Rounds::Many
            } else {
                sofar.worth(&decision.change, terms.rule.rope())
            };
        }
    }
}

impl Decision {
    /// Whether more blocks would not change what is said, where a difference takes evidence of `bar`.
    fn stands(&self, bar: f64) -> bool {
        match self.call {
            Call::As(Difference::Undecided { .. }) | Call::Withheld | Call::Unsettled(_) => false,
            Call::As(Difference::Same) => true,
            Call::As(Difference::Slower | Difference::Faster) => self.evidence >= bar,
            Call::SlowerBeside(_) => self.side_evidence >= bar,
        }
    }

    /// Whether a side question is suspicious of what the main question does not show. Where even the fastest times are slower by
    /// more than the region, so are all others: what is missing is evidence of the main question, which takes blocks, not rounds.
    fn suspicious(&self, rope: f64) -> bool {
        self.change.ratio <= 1.0 + rope && self.sides.iter().any(|side| side.suspicious)
    }
}

impl Sofar {
    /// Whether other rounds a block than before would decide sooner than as many blocks: nothing is decided, and what blocks
    /// scatter by is the scatter of their own rounds (neighbours that want the same memory) more than that of processes, for
    /// what each costs here and now. This may depend on the blocks so far, as the weights of the side questions do: the sign of
    /// the next block is a fair coin given them.
    fn worth(&self, change: &Change, rope: f64) -> Rounds {
        // What lies beyond the region already wants evidence, which blocks bring and rounds do not.
        let shown = change.low > 1.0 + rope || change.high < 1.0 / (1.0 + rope);
        if !matches!(change.difference, Difference::Undecided { .. }) || shown || self.scatter.is_empty() {
            return Rounds::Usual;
        }
        let main: Vec<f64> = self.blocks.iter().map(|block| block.main).collect();
        let blocks = main.len() as f64;
        // Of any confidence: only the deviation is read.
        let all = mean_interval(&main, 0.99).map_or(f64::NAN, |interval| interval.sd.powi(2));
        let count = self.scatter.len() as f64;
        let of_rounds = self.scatter.iter().map(|(scatter, _)| scatter * scatter).sum::<f64>() / count;
        let within = self.scatter.iter().map(|(scatter, rounds)| scatter * scatter * rounds).sum::<f64>() / count;
        let [start, each] = [self.spent_s[0] / blocks, self.spent_s[1] / self.rounds.max(1) as f64];
        match best_rounds(within, all - of_rounds, start, each) {
            Some(best) if best > WORTH * self.rounds as f64 / blocks => Rounds::About(best),
            _ => Rounds::Usual,
        }
    }

    fn add(&mut self, taken: &Taken) -> Result<(), NoDecision> {
        let Taken { samples, basis, spent_s } = taken;
        let block = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.rounds += samples[BASELINE].len();
        self.spent_s = [self.spent_s[0] + spent_s[0], self.spent_s[1] + spent_s[1]];
        for (kept, samples) in self.samples.iter_mut().zip(samples) {
            kept.extend(samples.iter().map(|sample| Sample { block, ..*sample }));
        }
        let basis = basis.of(&self.samples);
        if basis == self.basis {
            self.value(samples)?;
        } else {
            // Blocks that were valued by another time are valued again.
            self.basis = basis;
            (self.blocks, self.beside, self.times, self.scatter) = Default::default();
            for block in 0..=block {
                let of = |samples: &Vec<Sample>| samples.iter().filter(|s| s.block == block).copied().collect();
                let samples: [Vec<Sample>; 3] = self.samples.each_ref().map(of);
                self.value(&samples)?;
            }
        }
        for sample in samples.iter().flatten() {
            self.disturbed[0] += u64::from(sample.switches.is_some_and(|switches| switches > 0));
            self.disturbed[1] += 1;
        }
        Ok(())
    }

    /// Values the samples of one block.
    fn value(&mut self, samples: &[Vec<Sample>; 3]) -> Result<(), NoDecision> {
        let (basis, beside) = self.basis;
        let main = samples.each_ref().map(|samples| basis.values(samples));
        let slots = samples.each_ref().map(|samples| samples.iter().map(|sample| beside.seconds(sample)).collect());
        let [median, p90, mean] = self.beside.add(&slots)?;
        self.blocks.push(BlockValue {
            main: block_value(&main[BASELINE], &main[CANDIDATE])?,
            control: block_value(&main[BASELINE], &main[CONTROL])?,
            median,
            p90,
            mean,
        });
        let scatter = block_scatter(&main[BASELINE], &main[CANDIDATE]);
        self.scatter.extend(scatter.map(|scatter| (scatter, main[BASELINE].len() as f64)));
        for (times, samples) in self.times.iter_mut().zip(samples) {
            times.extend(samples.iter().map(|sample| basis.seconds(sample)));
        }
        Ok(())
    }

    /// A time of some steps of the clock is known to one of them, in every block to the same one: the fastest of several parts
    /// nearly always begins and ends where the step is rounded in its favour.
    fn grain(&self) -> f64 {
        let step_of = |sample: &Sample| if sample.device_ns.is_some() { DEVICE_STEP_NS } else { clock_step_ns() };
        let grains = self.samples.iter().filter_map(|samples| {
            let grains: Vec<f64> =
                samples.iter().map(|sample| step_of(sample) / span_ns(self.basis.0, sample).max(1.0)).collect();
            median(&grains)
        });
        grains.fold(0.0, f64::max)
    }

    fn decide(&self, terms: &Terms, elapsed_s: f64) -> Result<Decision, NoDecision> {
        let main: Vec<f64> = self.blocks.iter().map(|block| block.main).collect();
        let control: Vec<f64> = self.blocks.iter().map(|block| block.control).collect();
        let grain = self.grain();
        let change = decide(&main, &terms.rule)?.known_to(grain, &terms.rule);
        let control = decide(&control, &terms.rule)?.known_to(grain, &terms.rule);
        let sides = self.beside.answers(&terms.side_rule)?;
        Ok(Decision {
            call: call(&change, &control, &sides, terms.rule.rope()),
            change,
            control,
            side_evidence: beside::all_evidence(&sides),
            sides,
            basis: self.basis.0,
            seconds: [0, 1].map(|side| median(&self.times[side]).unwrap_or(f64::NAN)),
            evidence: evidence(&main, terms.rule.rope())?.either(),
            grain,
            blocks: self.blocks.clone(),
            disturbed: self.disturbed[0] as f64 / self.disturbed[1].max(1) as f64,
            what_ran: Default::default(),
            readings: Default::default(),
            settling: Default::default(),
            samples: self.samples.clone(),
            elapsed_s,
        })
    }
}

fn call(change: &Change, control: &Change, sides: &[Side], rope: f64) -> Call {
    match (change.difference, beside::slower(sides)) {
        _ if control.low > 1.0 + rope || control.high < 1.0 / (1.0 + rope) => Call::Withheld,
        (Difference::Same | Difference::Undecided { .. }, Some(name)) => Call::SlowerBeside(name),
        (Difference::Same, None) => {
            beside::most_suspicious(sides).map_or(Call::As(Difference::Same), |side| Call::Unsettled(side.name))
        }
        (difference, _) => Call::As(difference),
    }
}

#[cfg(test)]
mod tests;
