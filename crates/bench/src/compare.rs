//! Compares a baseline with a candidate over process blocks.
//!
//! Three arms run in each block: the baseline, the candidate, and the baseline a second time, each in a fresh process.
//! In every round each takes one slot, in random order. A block yields one number per question: the median over its
//! rounds of the logarithm of the candidate's time over the baseline's. Only blocks count as replicates.
//!
//! The second copy of the baseline is a live control. If it differs from the first, the machine or the program is too
//! unstable for any verdict, and the verdict is withheld.

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
/// Names of the arms in messages.
pub(crate) const ARMS: [&str; 3] = ["the baseline", "the candidate", "the second copy of the baseline"];

/// Resolution of a device clock, in nanoseconds: "a resolution of approximately one half microsecond" (CUDA Runtime
/// API, `cudaEventElapsedTime`).
const DEVICE_STEP_NS: f64 = 500.0;

/// The rules of a comparison, fixed before its first block.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Region of practical equivalence, probability of a wrong verdict, and looks.
    pub rule: Rule,
    /// The same for the side questions, which share that probability once more.
    side_rule: Rule,
    /// Time limits for answers.
    pub limits: Limits,
    /// Seed of all random choices.
    pub coin: u64,
    /// Number of cases in the report, including this one.
    cases: usize,
}

impl Terms {
    /// Terms with region of equivalence `rope` (0.01 for 1 %), probability `alpha` of a wrong verdict and at most
    /// `most` blocks.
    ///
    /// # Errors
    /// If they do not form a valid plan.
    pub fn new(rope: f64, alpha: f64, most: Option<usize>, limits: Limits, coin: u64) -> Result<Self, StatsError> {
        let looks = looks(most);
        let rule = Rule::new(rope, alpha, &looks)?;
        let side_rule = Rule::new(rope, alpha / QUESTIONS.len() as f64, &looks)?;
        Ok(Self { rule, side_rule, limits, coin, cases: 1 })
    }

    /// These terms for one of `cases` in a report. A difference is called only if its evidence survives e-BH over all
    /// cases even when no other case differs, so that the report never takes it back.
    #[must_use]
    pub fn among(self, cases: usize) -> Self {
        Self { cases: cases.max(1), ..self }
    }

    /// The e-value needed for a final call (`stats::ebh` with a single discovery among the cases). A single case needs
    /// no evidence beyond its verdict.
    fn bar(&self) -> f64 {
        if self.cases == 1 { 0.0 } else { self.cases as f64 / self.rule.spending().alpha() }
    }
}

/// The default looks up to `most` blocks, with `most` as the last. After the default ones, each look comes a third more
/// blocks later.
fn looks(most: Option<usize>) -> Vec<usize> {
    let Some(most) = most else { return LOOKS.to_vec() };
    let mut looks: Vec<usize> = LOOKS.iter().copied().filter(|look| *look < most).collect();
    while let Some(last) = looks.last().copied().filter(|last| *last >= LOOKS[LOOKS.len() - 1] && last * 4 / 3 < most) {
        looks.push(last * 4 / 3);
    }
    looks.push(most);
    looks
}

/// Time spanned by the reading that a slot's time comes from, in nanoseconds; covers several iterations.
fn span_ns(basis: Basis, sample: &Sample) -> f64 {
    let parts = match basis {
        Basis::Fastest if sample.fastest_ns.is_some() => sample.parts.unwrap_or(1).max(1),
        _ => 1,
    };
    basis.seconds(sample) * 1e9 * sample.iterations as f64 / parts as f64
}

/// The values of one block: natural logarithms of candidate over baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValue {
    /// Ratio by the basis of the verdict.
    pub main: f64,
    /// Second copy of the baseline over the first, on the same basis.
    pub control: f64,
    /// Ratio of the median slots.
    pub median: f64,
    /// Ratio of the 90th percentiles of the slots.
    pub p90: f64,
    /// Ratio of the mean slots.
    pub mean: f64,
}

/// The overall answer of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The answer to the main question.
    As(Difference),
    /// The fastest times are not slower, but the named side question is answered "slower": a slow mode or a longer
    /// tail.
    SlowerBeside(&'static str),
    /// The time is the same, but the named side question was still suspicious and unanswered at the last block.
    Unsettled(&'static str),
    /// The two copies of the baseline differ, so no verdict is possible here and now.
    Withheld,
}

/// The state of a comparison after its last look.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The overall answer.
    pub call: Call,
    /// Answer to the main question.
    pub change: Change,
    /// Answer for the control.
    pub control: Change,
    /// Answers to the side questions.
    pub sides: Vec<Side>,
    /// Which time the verdict is based on.
    pub basis: Basis,
    /// Median time of an iteration over all slots on that basis, in seconds: baseline, candidate.
    pub seconds: [f64; 2],
    /// Capital of the better-supported direction: an e-value, to combine several cases.
    pub evidence: f64,
    /// E-value against "slower in none of the side questions".
    pub side_evidence: f64,
    /// Clock step over the shorter of the two measured times: no block knows its ratio more precisely.
    pub grain: f64,
    /// The values of the blocks.
    pub blocks: Vec<BlockValue>,
    /// Share of the slots with an involuntary context switch.
    pub disturbed: f64,
    /// The code that ran: baseline, candidate; empty if unknown.
    pub what_ran: [String; 2],
    /// Probe readings of the first block, if requested: baseline, candidate.
    pub readings: [Vec<Reading>; 2],
    /// Settling curves after other arms used the processor, if recorded: baseline, candidate.
    pub settling: [Option<Settling>; 2],
    /// The raw samples: baseline, candidate, second copy of the baseline.
    pub samples: [Vec<Sample>; 3],
    /// Duration of the comparison, in seconds.
    pub elapsed_s: f64,
}

/// Why a comparison has no decision.
#[derive(Debug, Clone, PartialEq)]
pub enum NoDecision {
    /// The user interrupted.
    Interrupted,
    /// An arm gave a wrong answer, failed or is unsupported.
    Ended {
        /// Name of the arm.
        arm: &'static str,
        /// Its outcome.
        outcome: Outcome,
    },
    /// The statistics rejected the values.
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

/// The samples of one block.
pub(crate) struct Taken {
    /// The samples of each arm, round by round.
    pub(crate) samples: [Vec<Sample>; 3],
    /// How to choose the judged times; the same in every block.
    pub(crate) basis: Choice,
    /// Seconds outside the rounds (starting, checking and ending processes), and in them; zeros if not measured.
    pub(crate) spent_s: [f64; 2],
}

/// How the judged times are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// In advance, for the main question and for the side questions.
    Fixed(Basis, Basis),
    /// From all samples so far, for sides with this parallelism. All arms get the same choice, so the sign of a block
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
    /// Enough that slots take about as long as starting the processes on a quiet machine.
    Usual,
    /// Many, to catch rare events.
    Many,
    /// About this many, because the rounds scatter.
    About(f64),
}

/// The state carried from block to block.
struct Sofar {
    /// Which times are judged, by the main question and by the side questions.
    basis: (Basis, Basis),
    blocks: Vec<BlockValue>,
    beside: Beside,
    samples: [Vec<Sample>; 3],
    times: [Vec<f64>; 2],
    disturbed: [u64; 2],
    /// For each block with enough rounds, how much its value scatters because of them ([`block_scatter`]), and their
    /// number.
    scatter: Vec<(f64, f64)>,
    /// Seconds outside the rounds of all blocks, in them, and the number of rounds.
    spent_s: [f64; 2],
    rounds: usize,
}

/// Take more rounds only if the best number exceeds the mean so far by more than this factor.
const WORTH: f64 = 1.5;

/// Decides over the blocks that `take` provides until the verdict is final or the blocks are used up. `take` receives
/// the number of rounds wanted: more if a slow mode is suspected, or if blocks scatter because their rounds do.
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
    /// True if more blocks would not change the answer, given that a difference needs evidence of `bar`.
    fn stands(&self, bar: f64) -> bool {
        match self.call {
            Call::As(Difference::Undecided { .. }) | Call::Withheld | Call::Unsettled(_) => false,
            Call::As(Difference::Same) => true,
            Call::As(Difference::Slower | Difference::Faster) => self.evidence >= bar,
            // In one direction only, at half the error.
            Call::SlowerBeside(_) => self.side_evidence >= 2.0 * bar,
        }
    }

    /// True if a side question suspects something that the main question does not show. If even the fastest times are
    /// slower by more than the region, all others are too: the main question then lacks evidence, which takes blocks,
    /// not rounds.
    fn suspicious(&self, rope: f64) -> bool {
        self.change.ratio <= 1.0 + rope && self.sides.iter().any(|side| side.suspicious)
    }
}

impl Sofar {
    /// Chooses the number of rounds that decides soonest. More rounds help while nothing is decided and blocks scatter
    /// more because of their own rounds (neighbours competing for memory) than between processes, given what each
    /// costs. The choice may depend on earlier blocks: given them, the sign of the next block is still a fair coin.
    fn worth(&self, change: &Change, rope: f64) -> Rounds {
        // A ratio already beyond the region only lacks evidence, which comes from blocks, not rounds.
        let shown = change.low > 1.0 + rope || change.high < 1.0 / (1.0 + rope);
        if !matches!(change.difference, Difference::Undecided { .. }) || shown || self.scatter.is_empty() {
            return Rounds::Usual;
        }
        let main: Vec<f64> = self.blocks.iter().map(|block| block.main).collect();
        let blocks = main.len() as f64;
        // Any confidence level will do: only the standard deviation is used.
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
            // The basis changed: recompute all blocks on the new one.
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

    /// Computes the values of one block.
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

    /// A time of a few clock steps is known only to one step, with the same bias in every block: the fastest of several
    /// parts nearly always starts and ends where rounding favours it.
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
