//! Compares a baseline with a candidate over process blocks.
//!
//! Three arms run in each block: the baseline, the candidate, and the baseline a second time, each in a fresh process.
//! In every round each takes one slot, in random order. A block yields one number per question: the median over its
//! rounds of the logarithm of the candidate's time over the baseline's. Only blocks count as replicates.
//!
//! The second copy of the baseline is a live control. If it differs from the first, the machine or the program is too
//! unstable for any verdict, and the verdict is withheld.

mod pace;
mod sofar;

use ellwand_core::implementation::Parallelism;
use ellwand_core::reading::Reading;
pub use ellwand_core::record::Basis;
use ellwand_core::record::{BlockValues, Outcome, Sample, Settling, slot_share};
use ellwand_core::stats::{Centre, Change, DecisionRule, Difference, LOOKS, StatsError};
use ellwand_core::verdict::Compared;
use ellwand_core::work::Work;

use crate::beside::{self, QUESTIONS, Side};
use crate::measure::Interrupted;
use crate::worker::Limits;

pub(crate) use pace::{Ask, Rounds};
pub(crate) use sofar::over_blocks;

pub(crate) const BASELINE: usize = 0;
pub(crate) const CANDIDATE: usize = 1;
pub(crate) const CONTROL: usize = 2;
/// Names of the arms in messages.
pub(crate) const ARMS: [&str; 3] = ["the baseline", "the candidate", "the second copy of the baseline"];

/// The rules of a comparison, fixed before its first block.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Region of practical equivalence, probability of a wrong verdict, and looks.
    pub rule: DecisionRule,
    /// The same for the side questions, which together add half that probability of error.
    side_rule: DecisionRule,
    /// Time limits for answers.
    pub limits: Limits,
    /// Seed of all random choices.
    pub coin: u64,
    /// Number of cases in the report, including this one.
    cases: usize,
    /// Time budget of a decision, in seconds; infinite for no limit.
    pub budget_s: f64,
    /// Seconds that the processes of a decision run between their slots, so that effects of age show.
    pub age_s: f64,
}

/// The usual [`Terms::age_s`].
pub const AGE_S: f64 = 1.0;
/// The first blocks, which share the time of ageing: enough of them to show a tail.
pub(crate) const AGED_BLOCKS: u32 = 12;
/// Minimum number of blocks of a plan that is fitted to the time: six can show a difference if both copies of the
/// baseline count, or nine by the signs over one copy.
pub(crate) const LEAST: usize = 6;
pub(crate) const LEAST_BY_SIGNS: usize = 9;
/// Largest share of the time of a decision spent on ageing.
const AGE_SHARE: f64 = 0.1;

impl Terms {
    /// Terms with region of equivalence `rope` (0.01 for 1 %), probability `alpha` of a wrong verdict and at most
    /// `most` blocks.
    ///
    /// # Errors
    /// If they do not form a valid plan.
    pub fn new(rope: f64, alpha: f64, most: Option<usize>, limits: Limits, coin: u64) -> Result<Self, StatsError> {
        let looks = looks(most);
        let rule = DecisionRule::new(rope, alpha, &looks)?;
        // The side questions look for single slow processes, so they keep the plain mean.
        let side_rule = DecisionRule::new(rope, alpha / QUESTIONS.len() as f64, &looks)?.with_centre(Centre::Mean);
        Ok(Self { rule, side_rule, limits, coin, cases: 1, budget_s: f64::INFINITY, age_s: AGE_S })
    }

    /// These terms for one of `cases` in a report. A difference is called only if its evidence survives e-BH over all
    /// cases even when no other case differs, so the report never retracts it.
    #[must_use]
    pub fn among(self, cases: usize) -> Self {
        Self { cases: cases.max(1), ..self }
    }

    /// These terms with at most `seconds` for the decision.
    #[must_use]
    pub fn within(self, seconds: f64) -> Self {
        Self { budget_s: seconds, ..self }
    }

    /// These terms with processes that run for `seconds` in total between their slots; 0 for no ageing.
    #[must_use]
    pub fn aged(self, seconds: f64) -> Self {
        Self { age_s: seconds, ..self }
    }

    /// How long one process runs between its slots, in nanoseconds.
    pub(crate) fn age_ns(&self) -> f64 {
        let all_s = self.age_s.min(AGE_SHARE * self.budget_s);
        1e9 * all_s / (f64::from(AGED_BLOCKS) * ARMS.len() as f64)
    }

    /// These terms with at most `most` blocks, if that is fewer than planned: looks beyond the time would keep a share
    /// of the error probability from those within it. With fewer than `least` nothing changes.
    pub(crate) fn planned_for(self, most: usize, least: usize) -> Result<Self, StatsError> {
        let planned = self.rule.spending().looks();
        if most < least || planned.last().is_none_or(|last| *last <= most) {
            return Ok(self);
        }
        let mut looks: Vec<usize> = planned.iter().copied().filter(|look| *look < most).collect();
        looks.push(most);
        Ok(Self { rule: self.rule.with_looks(&looks)?, side_rule: self.side_rule.with_looks(&looks)?, ..self })
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

/// Why a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// The answer is final.
    Decided,
    /// All planned blocks were taken.
    Planned,
    /// The time was used up.
    Budget,
    /// The forecast said that the time would not suffice.
    Hopeless,
    /// The user interrupted.
    Interrupted,
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

/// What the workers of a comparison reported besides samples; the arrays hold baseline and candidate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reported {
    /// The code that ran.
    pub what_ran: [String; 2],
    /// The work that the inputs required; older programs do not report it.
    pub work: [Option<Work>; 2],
    /// How much of the answers the reference judged, on the side with the smaller share; `None` if its judge does not count.
    pub compared: Option<Compared>,
    /// Probe readings of the first block, if requested.
    pub readings: [Vec<Reading>; 2],
    /// Settling curves after other arms used the processor, if recorded.
    pub settling: [Option<Settling>; 2],
    /// True for a side that cannot record a settling curve: its program is older, or its device cannot time parts.
    pub unable: [bool; 2],
    /// True if the sides are two programs that give different answers, although only one can be right. Each was judged by
    /// the reference of its own program, which may be the very implementation.
    pub other_answers: bool,
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
    /// Median time of an iteration on that basis, in seconds, over slots or, for the shortest run of a block, over blocks:
    /// baseline, candidate.
    pub seconds: [f64; 2],
    /// Capital of the better-supported direction: an e-value, to combine several cases.
    pub evidence: f64,
    /// E-value against "slower in none of the side questions".
    pub side_evidence: f64,
    /// Clock step over the shorter of the two measured times: no block knows its ratio more precisely.
    pub grain: f64,
    /// The values of the blocks.
    pub blocks: Vec<BlockValues>,
    /// The planned looks, in blocks, as far as the time can reach them.
    pub looks: Vec<usize>,
    /// Share of the slots with an involuntary context switch.
    pub disturbed: f64,
    /// What the workers reported; nothing for commands.
    pub reported: Reported,
    /// The raw samples: baseline, candidate, second copy of the baseline.
    pub samples: [Vec<Sample>; 3],
    /// Duration of the comparison, in seconds.
    pub elapsed_s: f64,
    /// Why it ended there.
    pub end: End,
    /// Forecast of the total seconds of a decision, if nothing is decided; infinite if no time would suffice.
    pub needed_s: Option<f64>,
}

/// Why a comparison has no decision.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoDecision {
    /// The user interrupted before two blocks were taken.
    #[error("it was interrupted")]
    Interrupted,
    /// An arm gave a wrong answer, failed or is unsupported.
    #[error("{arm} is {}: {}", outcome.word(), outcome.reason().unwrap_or("no reason is known"))]
    Ended {
        /// Name of the arm.
        arm: &'static str,
        /// Its outcome, which gives the reason.
        outcome: Outcome,
    },
    /// The time does not suffice for two blocks, or for the fewest that can decide: these take about this many seconds,
    /// if known.
    #[error("{}", too_little(*.0))]
    OutOfTime(Option<f64>),
    /// An arm was not ready, or a command had not ended, when the time was up.
    #[error("{0} was not ready when the time was up")]
    Late(&'static str),
    /// The statistics rejected the values.
    #[error(transparent)]
    Stats(#[from] StatsError),
}

fn too_little(needed_s: Option<f64>) -> String {
    let needed = needed_s.map(|seconds| format!("the fewest blocks that can decide take {seconds:.0} s"));
    needed.unwrap_or_else(|| "the time is not enough for two blocks".into())
}

impl From<Interrupted> for NoDecision {
    fn from(_: Interrupted) -> Self {
        NoDecision::Interrupted
    }
}

/// The samples of one block.
pub(crate) struct BlockSamples {
    /// The samples of each arm, round by round.
    pub(crate) samples: [Vec<Sample>; 3],
    /// How to choose the judged times; the same in every block.
    pub(crate) basis: Choice,
    /// What the block cost.
    pub(crate) spent: Spent,
}

/// What a block cost, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    /// Starting, checking and ending the processes; 0 if blocks have a fixed number of rounds.
    pub(crate) start_s: f64,
    /// Seconds that all rounds of the block took.
    pub(crate) rounds_s: f64,
    /// Seconds since the comparison began.
    pub(crate) gone_s: f64,
    /// Rounds of a block of usual length.
    pub(crate) usual: f64,
}

/// How the judged times are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// In advance, for the main question and for the side questions.
    #[cfg(test)]
    Fixed(Basis, Basis),
    /// From the runs of commands, in the blocks up to the first look ([`Basis::of_runs`]).
    ByRuns,
    /// From the samples of the blocks up to the first look, for sides with this parallelism. All arms get the same choice.
    BySamples([Parallelism; 2]),
}

impl Choice {
    fn of(self, blocks: &[[&[Sample]; 3]]) -> (Basis, Basis) {
        match self {
            #[cfg(test)]
            Choice::Fixed(basis, beside) => (basis, beside),
            Choice::ByRuns => (Basis::of_runs(blocks), Basis::Wall),
            Choice::BySamples(sides) => (Basis::among(blocks, &sides), Basis::of_whole_slots(blocks, &sides)),
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
            // The side questions test one direction only, at half the error probability.
            Call::SlowerBeside(_) => self.side_evidence >= 2.0 * bar,
        }
    }

    /// The share of the elapsed time that lay inside slots; `None` without slots.
    pub fn slot_share(&self) -> Option<f64> {
        slot_share(self.samples.iter().flatten(), self.elapsed_s)
    }

    /// True if a side question suspects something that the main question does not show. If even the fastest times are
    /// slower by more than the region, so are all others: the main question then lacks evidence, which takes more
    /// blocks, not more rounds.
    fn suspicious(&self, rope: f64) -> bool {
        self.change.ratio <= 1.0 + rope && self.sides.iter().any(|side| side.suspicious)
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
