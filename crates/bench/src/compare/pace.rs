//! The pace of a comparison: the length of the next block, and whether the remaining time can decide anything.
//!
//! The first two blocks show whether processes or rounds scatter; their length depends on nothing that changes if the
//! sides swap names. Later blocks have the length that leads to a decision soonest ([`Course`]). The choice may depend
//! on earlier blocks: given them, the sign of the next block is still a fair coin.

use ellwand_core::record::BlockValues;
use ellwand_core::stats::{
    Change, Course, Difference, Estimate, Guess, StatsError, Variances, Weighted, mean_interval, outlook,
};

use super::{Spent, Terms};

/// Number of first blocks, which show whether processes or rounds scatter.
pub(super) const FIRST: usize = 2;
/// Maximum number of rounds of a block: beyond that another process is worth more, and sorting them takes longer than
/// measuring.
const MAX_ROUNDS: f64 = 1000.0;
/// Largest share of the remaining time for one block, so that there are enough processes.
const SHARE: f64 = 1.0 / 12.0;
/// Minimum number of rounds of a later block, once the side questions have the slots of six usual blocks: two show
/// their scatter; if slots are disturbed, the median of three ignores one of them.
const FEWEST: f64 = 2.0;
const FEWEST_DISTURBED: f64 = 3.0;
/// Blocks until the first look. Together they take at most the share of the time after which the comparison may end
/// early, so there is an interval by then.
const SIX: usize = 6;
/// Largest factor on the length of the second block; the best length is known only after it.
const LONGER: f64 = 3.0;
/// The first block takes up to this many times longer to start than later ones: it learns, and its processes start one
/// by one.
const DEAREST: f64 = 3.0;
/// The rounds of the first block take up to this many times longer than later ones.
const SLOWEST: f64 = 1.5;
/// A comparison may end early only after this share of its time, because its first blocks say little about the rest.
const EARLY: f64 = 0.25;

/// The request for the next block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ask {
    pub(crate) rounds: Rounds,
    /// Seconds until it must have ended.
    pub(crate) left_s: f64,
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

/// What happens after a block.
pub(super) enum Next {
    Block(Rounds),
    /// End: the time cannot decide the comparison.
    End,
}

/// What the pace depends on.
pub(super) struct Pace<'a> {
    pub(super) terms: &'a Terms,
    pub(super) blocks: &'a [Estimate],
    /// The same blocks, with what was bet on each.
    pub(super) values: &'a [BlockValues],
    /// The sum over all blocks; `gone_s` and `usual` as of the last one.
    pub(super) spent: Spent,
    /// Seconds to start the first block, which also computes references and finds slot shapes.
    pub(super) first_s: f64,
    /// True if a slot of any arm was slow, which does not depend on which side has which name.
    pub(super) disturbed: bool,
}

impl Pace<'_> {
    /// The next block; `suspicious` if a side question was suspicious at the last look.
    pub(super) fn next(&self, suspicious: bool) -> Result<Next, StatsError> {
        let left_s = self.terms.budget_s - self.spent.gone_s;
        if self.blocks.len() < FIRST {
            let (start_s, block_s) = (self.start_s(), self.block_s());
            let cheapest_s = start_s / DEAREST + (block_s - start_s) / SLOWEST;
            let never = self.blocks_ahead() * cheapest_s > left_s;
            return Ok(if never { Next::End } else { Next::Block(self.second()) });
        }
        if self.soonest_s() > left_s {
            return Ok(Next::End);
        }
        let course = self.course()?;
        let gone_s = self.spent.gone_s + self.block_s();
        if suspicious {
            // The forecast is about the main question; the rest of the time may answer the side question.
            return Ok(Next::Block(Rounds::Many));
        }
        if self.blocks.len() >= SIX && gone_s > EARLY * self.terms.budget_s && course.seconds(Guess::Lucky) > left_s {
            return Ok(Next::End);
        }
        let rounds = course.leg(Guess::Open).map_or_else(|| course.best_rounds(), |leg| leg.rounds);
        let usual = self.is_single() || rounds == self.spent.usual;
        Ok(Next::Block(if usual { Rounds::Usual } else { Rounds::About(rounds) }))
    }

    /// Total seconds of a decision, if later blocks are like those so far; infinite if no time would suffice. Before
    /// the first look there are too few blocks for a forecast; then the time of the fewest blocks that can decide.
    pub(super) fn needed_s(&self, change: &Change) -> Result<Option<f64>, StatsError> {
        if !matches!(change.difference, Difference::Undecided { .. }) || self.blocks.len() < FIRST {
            return Ok(None);
        }
        let forecast_s = if self.blocks.len() < SIX { 0.0 } else { self.course()?.seconds(Guess::Likely) };
        Ok(Some(self.spent.gone_s + forecast_s.max(self.soonest_s())))
    }

    /// Seconds that the whole comparison is expected to take, at most its budget. The forecast is about the main question:
    /// while a side question is `suspicious`, the comparison may take its whole budget.
    pub(super) fn whole_s(&self, suspicious: bool) -> f64 {
        if suspicious && self.terms.budget_s.is_finite() {
            return self.terms.budget_s;
        }
        let ahead = match self.course() {
            Ok(course) if self.blocks.len() >= FIRST => course.seconds(Guess::Likely),
            _ => self.soonest_s(),
        };
        (self.spent.gone_s + ahead).min(self.terms.budget_s)
    }

    /// Seconds that a block of usual length takes.
    pub(super) fn block_s(&self) -> f64 {
        let rounds: usize = self.blocks.iter().map(|block| block.rounds).sum();
        let values = if self.is_single() { 1.0 } else { self.spent.usual };
        self.start_s() + values * self.spent.rounds_s / rounds.max(1) as f64
    }

    /// Maximum number of blocks that fit into the time, if they are as short as possible. The cost of blocks does not
    /// depend on which side has which name.
    pub(super) fn most_blocks(&self) -> usize {
        let rounds: usize = self.blocks.iter().map(|block| block.rounds).sum();
        let round_s = self.spent.rounds_s / rounds.max(1) as f64;
        let shortest_s =
            self.start_s() + round_s * if self.is_single() { 1.0 } else { self.shortest().min(self.spent.usual) };
        let left_s = self.terms.budget_s - self.spent.gone_s;
        self.blocks.len().saturating_add((left_s / shortest_s).max(0.0) as usize)
    }

    /// True if every block has a single round, so a longer block gains nothing.
    fn is_single(&self) -> bool {
        self.blocks.iter().all(|block| block.rounds == 1)
    }

    /// Seconds to start a block.
    fn start_s(&self) -> f64 {
        let later = self.blocks.len().saturating_sub(1);
        if later == 0 { self.first_s } else { (self.spent.start_s - self.first_s) / later as f64 }
    }

    /// Seconds until the next look at which anything can be decided.
    pub(super) fn soonest_s(&self) -> f64 {
        self.blocks_ahead() * self.block_s()
    }

    /// Blocks until the next look.
    fn blocks_ahead(&self) -> f64 {
        let looks = self.terms.rule.spending().looks();
        let next = looks.iter().copied().find(|look| *look > self.blocks.len()).unwrap_or(self.blocks.len());
        (next - self.blocks.len()) as f64
    }

    /// The second block is longer if the error of the first exceeds half of the region of equivalence. That error is
    /// the same if the sides swap names.
    fn second(&self) -> Rounds {
        let error = self.blocks.first().and_then(|block| block.error).unwrap_or(0.0);
        let factor = (error / fine(self.terms)).powi(2).min(LONGER);
        if factor > 1.0 { Rounds::About((factor * self.spent.usual).min(self.max_rounds())) } else { Rounds::Usual }
    }

    /// Minimum number of rounds of the next block. Once the side questions have the slots of six usual blocks, a few
    /// rounds suffice, if it is the processes that differ.
    fn min_rounds(&self, done: f64) -> f64 {
        let usual = self.spent.usual.max(1.0);
        if done >= SIX as f64 * usual { usual.min(self.shortest()) } else { usual }
    }

    fn shortest(&self) -> f64 {
        if self.disturbed { FEWEST_DISTURBED } else { FEWEST }
    }

    /// Maximum number of rounds of the next block.
    fn max_rounds(&self) -> f64 {
        let rounds: usize = self.blocks.iter().map(|block| block.rounds).sum();
        let round_s = self.spent.rounds_s / rounds.max(1) as f64;
        let left_s = self.terms.budget_s - self.spent.gone_s;
        let first = if self.blocks.len() < SIX { EARLY / SIX as f64 } else { SHARE };
        (first.min(SHARE) * left_s / round_s).min(MAX_ROUNDS).max(self.spent.usual)
    }

    fn course(&self) -> Result<Course<'_>, StatsError> {
        let values: Vec<f64> = self.blocks.iter().map(|block| block.value).collect();
        // Any confidence level will do: only the standard deviation is used.
        let all = || mean_interval(&values, 0.99).map(|interval| interval.sd.powi(2));
        let variances = match Variances::of(self.blocks) {
            Some(known) => known,
            None => Variances { between: all()?, within: 0.0 },
        };
        // Blocks that agree exactly do so within the resolution of the clock.
        let k = values.len() as f64;
        // A few blocks cannot separate processes from rounds. Too few rounds cost more than too many.
        let between =
            if variances.within > 0.0 { variances.between * (k - 1.0) / (k + 3.0) } else { variances.between };
        let variances = Variances { between: between.max(1e-10), ..variances };
        let weights: Vec<f64> = self.blocks.iter().map(|block| 1.0 / variances.of_this(block)).collect();
        let information: f64 = weights.iter().sum();
        let centre = self.terms.rule.centre_of(&values, &weights);
        let bets: Vec<Weighted> = self.values.iter().map(BlockValues::main).collect();
        let blocks = self.blocks.len() as f64;
        let rounds: usize = self.blocks.iter().map(|block| block.rounds).sum();
        // A block with one value spends all of its time on that value.
        let single = self.is_single();
        let each = |seconds: f64, count: f64| (seconds / count).max(1e-9);
        Ok(Course {
            rule: &self.terms.rule,
            // The evidence for a report is the mean over both directions, so one direction needs twice the bar.
            needed: self.terms.rule.evidence_needed().max(2.0 * self.terms.bar()),
            blocks: self.blocks.len(),
            centre,
            information,
            outlook: outlook(&bets, centre.signum(), self.terms.rule.rope(), self.terms.rule.stakes())?,
            variances,
            start_s: self.start_s() + if single { each(self.spent.rounds_s, blocks) } else { 0.0 },
            round_s: if single { 1e-9 } else { each(self.spent.rounds_s, rounds as f64) },
            rounds: (self.min_rounds(rounds as f64), self.max_rounds().max(1.0)),
        })
    }
}

/// Half of the region of equivalence, or of 1 %: blocks with a smaller error are equally good.
pub(super) fn fine(terms: &Terms) -> f64 {
    0.5 * terms.rule.rope().max(0.01)
}
