//! Baseline against candidate over process blocks.
//!
//! Three arms run in each block: the baseline, the candidate, and the baseline a second time, each in a fresh process. In
//! every round each takes one slot, in an order drawn by a coin. A block gives one number a question: the median over its
//! rounds of the logarithm of the candidate's time over the baseline's. Only blocks are counted.
//!
//! The second copy of the baseline is a live control: where it differs from the first, the machine (or the program) does not
//! hold still enough for any verdict, and none is given.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ellwand_core::implementation::Parallelism;
use ellwand_core::record::{Outcome, Sample};
use ellwand_core::stats::{
    Change, Difference, LOOKS, Rule, StatsError, block_value, decide, evidence, median, quantile,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::block::{Block, Known, Spec};
use crate::measure::Interrupted;
use crate::worker::Limits;

/// Shortest slot of a comparison, in nanoseconds: at 0.2 ms some 5 % of slots meet a context switch.
pub const SLOT_NS: u64 = 200_000;
/// Warm-up of an arm, in nanoseconds. Caches, predictors and page tables are warm after a few slots; the clock of the
/// processor was raised by the preparation.
pub const WARM_UP_NS: u64 = 2_000_000;
/// Time that the slots of one block take together, in nanoseconds: about what starting its processes takes, so that neither
/// dominates (Kalibera and Jones 2013).
const BLOCK_SLOTS_NS: u64 = 16_000_000;
/// Rounds of a block.
const ROUNDS: (u64, u64) = (3, 24);
/// From this time of an iteration on nearly every slot meets a context switch, and processor time is judged.
const LONG_NS: u64 = 1_000_000;
/// Capital of a side question from which on "the same" waits for more blocks. By chance it is reached in at most one of
/// eight comparisons.
const SUSPICION: f64 = 8.0;
/// Side questions, which share one more alpha.
const SIDE_QUESTIONS: usize = 3;

const BASELINE: usize = 0;
const CANDIDATE: usize = 1;
const CONTROL: usize = 2;
/// Names of the arms.
const ARMS: [&str; 3] = ["the baseline", "the candidate", "the second copy of the baseline"];

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
        let side_rule = Rule::new(rope, alpha / SIDE_QUESTIONS as f64, &looks)?;
        Ok(Self { rule, side_rule, limits, coin })
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
    /// Elapsed time of the slot.
    Wall,
}

impl Basis {
    /// Long iterations meet context switches: there processor time is judged where one thread does all of it.
    fn of(parallelism: [Parallelism; 2], iteration_ns: u64) -> Self {
        match (parallelism, iteration_ns >= LONG_NS) {
            (_, false) => Basis::Fastest,
            ([Parallelism::Single, Parallelism::Single], true) => Basis::Cpu,
            (_, true) => Basis::Wall,
        }
    }

    fn seconds(self, sample: &Sample) -> f64 {
        match self {
            Basis::Fastest => sample.fastest_seconds().unwrap_or_else(|| sample.seconds()),
            Basis::Cpu => sample.cpu_seconds().unwrap_or_else(|| sample.seconds()),
            Basis::Wall => sample.seconds(),
        }
    }

    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            Basis::Fastest => "fastest part of a slot",
            Basis::Cpu => "processor time",
            Basis::Wall => "elapsed time",
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

/// One of the numbers of a block.
type Column = fn(&BlockValue) -> f64;

/// A question beside the main one: does something differ that the fastest time cannot see?
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// `median`, `p90`, `mean`.
    pub name: &'static str,
    /// The answer.
    pub change: Change,
    /// Capital of "slower" now.
    evidence: f64,
}

/// What the comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// As the main question answers.
    As(Difference),
    /// The fastest times are not slower, and yet a side question says that the candidate is: a slow mode or a longer tail.
    SlowerBeside(&'static str),
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
    /// The values of the blocks.
    pub blocks: Vec<BlockValue>,
    /// Share of the slots that met an involuntary context switch.
    pub disturbed: f64,
    /// What ran: baseline, candidate.
    pub what_ran: [String; 2],
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

/// What is carried from block to block.
#[derive(Default)]
struct Sofar {
    known: Known,
    basis: Option<Basis>,
    blocks: Vec<BlockValue>,
    times: [Vec<f64>; 2],
    disturbed: [u64; 2],
    what_ran: [String; 2],
}

/// Compares until the verdict stands or the blocks are used up. `on_block` hears how many blocks are done, of how many at most.
///
/// # Errors
/// See [`NoDecision`]; every worker is dead by then.
pub fn compare(
    sides: &Sides,
    terms: &Terms,
    known: Known,
    interrupt: &AtomicBool,
    on_block: &mut dyn FnMut(usize, usize),
) -> Result<Decision, NoDecision> {
    let start = Instant::now();
    let mut coin = ChaCha8Rng::seed_from_u64(terms.coin);
    let mut sofar = Sofar { known, ..Sofar::default() };
    let looks = terms.rule.spending().looks();
    let most = looks.last().copied().unwrap_or(0);
    loop {
        sofar.block(sides, terms.limits, &mut coin, interrupt)?;
        on_block(sofar.blocks.len(), most);
        if looks.contains(&sofar.blocks.len()) {
            let decision = sofar.decide(terms, start.elapsed().as_secs_f64())?;
            if sofar.blocks.len() >= most || decision.stands() {
                return Ok(decision);
            }
        }
    }
}

impl Decision {
    /// Whether more blocks would not change what is said. "The same" waits while a side question is suspicious.
    fn stands(&self) -> bool {
        match self.call {
            Call::As(Difference::Undecided { .. }) | Call::Withheld => false,
            Call::As(Difference::Same) => self.sides.iter().all(|side| side.evidence < SUSPICION),
            Call::As(Difference::Faster | Difference::Slower) | Call::SlowerBeside(_) => true,
        }
    }
}

impl Sofar {
    fn block(
        &mut self,
        sides: &Sides,
        limits: Limits,
        coin: &mut ChaCha8Rng,
        interrupt: &AtomicBool,
    ) -> Result<(), NoDecision> {
        let specs = [sides.baseline.clone(), sides.candidate.clone(), sides.baseline.clone()];
        let mut block = Block::open(&specs, &mut self.known, limits, coin, interrupt)?;
        let mut costs = [0; 3];
        for (arm, cost) in costs.iter_mut().enumerate() {
            let opened = block.state(arm).map_err(|outcome| ended(arm, outcome))?;
            *cost = opened.slot.cost_ns;
            if arm == BASELINE && self.basis.is_none() {
                self.basis = Some(Basis::of(sides.parallelism, opened.slot.cost_ns / opened.slot.iterations.max(1)));
            }
            if let Some(what_ran) = self.what_ran.get_mut(arm) {
                what_ran.clone_from(&opened.what_ran);
            }
        }
        let rounds = (BLOCK_SLOTS_NS / costs.iter().sum::<u64>().max(1)).clamp(ROUNDS.0, ROUNDS.1);
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for _ in 0..rounds {
            let mut order: Vec<usize> = (0..ARMS.len()).collect();
            order.shuffle(coin);
            for arm in order {
                match block.slot(arm)? {
                    Some(sample) => samples[arm].push(sample),
                    None => return Err(now_ended(&block, arm)),
                }
            }
        }
        for arm in 0..ARMS.len() {
            if block.again(arm)?.is_none() {
                return Err(now_ended(&block, arm));
            }
        }
        block.close();
        self.add(sides, &samples)
    }

    fn add(&mut self, sides: &Sides, samples: &[Vec<Sample>; 3]) -> Result<(), NoDecision> {
        let basis = self.basis.unwrap_or(Basis::Wall);
        let main: Vec<Vec<f64>> =
            samples.iter().map(|samples| samples.iter().map(|sample| basis.seconds(sample)).collect()).collect();
        // Beside the fastest part stands the whole slot. Its processor time knows nothing of the neighbours, so that a slow
        // mode of the code itself shows; with several threads only elapsed time means anything.
        let single = sides.parallelism == [Parallelism::Single; 2];
        let whole = if single { Basis::Cpu } else { Basis::Wall };
        let slots: Vec<Vec<f64>> =
            samples.iter().map(|samples| samples.iter().map(|sample| whole.seconds(sample)).collect()).collect();
        let of = |statistic: &dyn Fn(&[f64]) -> Option<f64>| {
            let baseline = statistic(&slots[BASELINE]).into_iter().collect::<Vec<f64>>();
            block_value(&baseline, &statistic(&slots[CANDIDATE]).into_iter().collect::<Vec<f64>>())
        };
        self.blocks.push(BlockValue {
            main: block_value(&main[BASELINE], &main[CANDIDATE])?,
            control: block_value(&main[BASELINE], &main[CONTROL])?,
            median: of(&median)?,
            p90: of(&|slots| quantile(slots, 0.9))?,
            mean: of(&|slots| Some(slots.iter().sum::<f64>() / slots.len() as f64))?,
        });
        for (times, main) in self.times.iter_mut().zip(&main) {
            times.extend_from_slice(main);
        }
        for sample in samples.iter().flatten() {
            self.disturbed[0] += u64::from(sample.switches.is_some_and(|switches| switches > 0));
            self.disturbed[1] += 1;
        }
        Ok(())
    }

    fn decide(&self, terms: &Terms, elapsed_s: f64) -> Result<Decision, NoDecision> {
        let column = |of: Column| self.blocks.iter().map(of).collect::<Vec<f64>>();
        let main = column(|block| block.main);
        let change = decide(&main, &terms.rule)?;
        let control = decide(&column(|block| block.control), &terms.rule)?;
        let mut sides = Vec::new();
        let questions: [(&'static str, Column); SIDE_QUESTIONS] =
            [("median", |block| block.median), ("p90", |block| block.p90), ("mean", |block| block.mean)];
        for (name, of) in questions {
            let values = column(of);
            let rope = terms.side_rule.rope();
            let evidence = evidence(&values, rope)?.slower.now;
            sides.push(Side { name, change: decide(&values, &terms.side_rule)?, evidence });
        }
        Ok(Decision {
            call: call(&change, &control, &sides, terms.rule.rope()),
            change,
            control,
            sides,
            basis: self.basis.unwrap_or(Basis::Wall),
            seconds: [0, 1].map(|side| median(&self.times[side]).unwrap_or(f64::NAN)),
            evidence: evidence(&main, terms.rule.rope())?.either(),
            blocks: self.blocks.clone(),
            disturbed: self.disturbed[0] as f64 / self.disturbed[1].max(1) as f64,
            what_ran: self.what_ran.clone(),
            elapsed_s,
        })
    }
}

fn call(change: &Change, control: &Change, sides: &[Side], rope: f64) -> Call {
    let beside = sides.iter().find(|side| side.change.difference == Difference::Slower).map(|side| side.name);
    match (change.difference, beside) {
        _ if control.low > 1.0 + rope || control.high < 1.0 / (1.0 + rope) => Call::Withheld,
        (Difference::Same | Difference::Undecided { .. }, Some(name)) => Call::SlowerBeside(name),
        (difference, _) => Call::As(difference),
    }
}

fn ended(arm: usize, outcome: &Outcome) -> NoDecision {
    NoDecision::Ended { arm: ARMS[arm], outcome: outcome.clone() }
}

fn now_ended(block: &Block, arm: usize) -> NoDecision {
    match block.state(arm) {
        Err(outcome) => ended(arm, outcome),
        Ok(_) => ended(arm, &Outcome::Failed { error: "it did not answer".into() }),
    }
}
