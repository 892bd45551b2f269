//! Baseline against candidate over process blocks.
//!
//! Three arms run in each block: the baseline, the candidate, and the baseline a second time, each in a fresh process. In
//! every round each takes one slot, in an order drawn by a coin. A block gives one number a question: the median over its
//! rounds of the logarithm of the candidate's time over the baseline's. Only blocks are counted.
//!
//! The second copy of the baseline is a live control: where it differs from the first, the machine (or the program) does not
//! hold still enough for any verdict, and none is given.

use std::time::Instant;

use ellwand_core::reading::Reading;
use ellwand_core::record::{Outcome, Sample};
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

/// Which time of a slot is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Elapsed time of the fastest part of the slot.
    Fastest,
    /// Processor time of the thread.
    Cpu,
    /// Processor time of the thread in the shortest of a block's slots. For runs that take much longer than a neighbour
    /// leaves the caches alone: what others evict only ever adds time, and few slots make an uncertain median.
    ShortestCpu,
    /// Elapsed time of the slot.
    Wall,
    /// Elapsed time of the shortest of a block's runs.
    Shortest,
}

impl Basis {
    fn seconds(self, sample: &Sample) -> f64 {
        match self {
            Basis::Fastest => sample.fastest_seconds().unwrap_or_else(|| sample.seconds()),
            Basis::Cpu | Basis::ShortestCpu => sample.cpu_seconds().unwrap_or_else(|| sample.seconds()),
            Basis::Wall | Basis::Shortest => sample.seconds(),
        }
    }

    /// What its reading spans, in nanoseconds: several iterations.
    fn span_ns(self, sample: &Sample) -> f64 {
        let parts = match self {
            Basis::Fastest if sample.fastest_ns.is_some() => sample.parts.unwrap_or(1).max(1),
            _ => 1,
        };
        self.seconds(sample) * 1e9 * sample.iterations as f64 / parts as f64
    }

    /// What a block's samples of one arm come to: a value a round, or one value.
    fn values(self, samples: &[Sample]) -> Vec<f64> {
        let seconds = samples.iter().map(|sample| self.seconds(sample));
        match self {
            Basis::Shortest | Basis::ShortestCpu => seconds.reduce(f64::min).into_iter().collect(),
            _ => seconds.collect(),
        }
    }

    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            Basis::Fastest => "fastest part of a slot",
            Basis::Cpu => "processor time",
            Basis::ShortestCpu => "processor time of the shortest run of a block",
            Basis::Wall => "elapsed time",
            Basis::Shortest => "elapsed time of the shortest run of a block",
        }
    }
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
    /// Median time of an iteration by that basis, in seconds: baseline, candidate.
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
    /// Which time the main question is about; the same in every block.
    pub(crate) basis: Basis,
    /// Which time the side questions are about.
    pub(crate) beside: Basis,
    /// Seconds outside of its rounds (processes start, are judged and end), and in them; zeros where that is not told.
    pub(crate) spent_s: [f64; 2],
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
    basis: Basis,
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
        basis: Basis::Wall,
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
        let Taken { samples, basis, beside, spent_s } = taken;
        self.rounds += samples[BASELINE].len();
        self.spent_s = [self.spent_s[0] + spent_s[0], self.spent_s[1] + spent_s[1]];
        self.basis = *basis;
        let main: Vec<Vec<f64>> = samples.iter().map(|samples| basis.values(samples)).collect();
        let slots: Vec<Vec<f64>> =
            samples.iter().map(|samples| samples.iter().map(|sample| beside.seconds(sample)).collect()).collect();
        let block = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        for (kept, samples) in self.samples.iter_mut().zip(samples) {
            kept.extend(samples.iter().map(|sample| Sample { block, ..*sample }));
        }
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
        for (times, main) in self.times.iter_mut().zip(&main) {
            times.extend_from_slice(main);
        }
        for sample in samples.iter().flatten() {
            self.disturbed[0] += u64::from(sample.switches.is_some_and(|switches| switches > 0));
            self.disturbed[1] += 1;
        }
        Ok(())
    }

    /// A time of some steps of the clock is known to one of them, in every block to the same one: the fastest of several parts
    /// nearly always begins and ends where the step is rounded in its favour.
    fn grain(&self) -> f64 {
        let step_of = |sample: &Sample| if sample.device_ns.is_some() { DEVICE_STEP_NS } else { clock_step_ns() };
        let grains = self.samples.iter().filter_map(|samples| {
            let grains: Vec<f64> =
                samples.iter().map(|sample| step_of(sample) / self.basis.span_ns(sample).max(1.0)).collect();
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
            basis: self.basis,
            seconds: [0, 1].map(|side| median(&self.times[side]).unwrap_or(f64::NAN)),
            evidence: evidence(&main, terms.rule.rope())?.either(),
            grain,
            blocks: self.blocks.clone(),
            disturbed: self.disturbed[0] as f64 / self.disturbed[1].max(1) as f64,
            what_ran: Default::default(),
            readings: Default::default(),
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
