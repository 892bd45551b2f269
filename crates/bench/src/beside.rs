//! The side questions of a comparison: is there a difference that the fastest time of a slot cannot show?
//!
//! A minimum hides a second mode, a tail or an occasional pause. The main question is therefore also asked of the
//! median, the 90th percentile and the mean of a block's whole slots. Together these side questions add half
//! the main question's error probability: they ask in one direction only.
//!
//! A rare slow slot shows up late: if one slot in twenty takes twice as long, three in ten blocks of 24 rounds contain
//! no slow candidate slot. "The same" therefore waits while a side question is suspicious, and the blocks taken
//! meanwhile have more rounds and more weight. This plan may depend on earlier blocks: given them, the sign of the next
//! block is still a fair coin.
//!
//! Waiting costs time, so equal code must rarely wait. A question is suspicious if its estimate lies beyond the region
//! of equivalence *and* a test rejects at a level that true nulls seldom reach. The test weights blocks by their
//! rounds, so a long block without slow slots quickly clears a suspicion raised by a short one.

use ellwand_core::stats::special::{binomial_upper_tail, student_t_upper_tail};
use ellwand_core::stats::{
    Change, DecisionRule, Difference, StatsError, Weighted, block_value, decide_weighted, evidence, median,
    proportion_upper_bound, quantile, weighted_evidence,
};

use crate::compare::{BASELINE, CANDIDATE};

/// A side question with at least this capital is suspicious. By chance alone this happens in at most one comparison in
/// eight.
const SUSPICION: f64 = 8.0;
/// A slot is slow if it takes more than this many times the median of its process in that block. Neighbours rarely
/// cause that (0.1 to 1 % of slots next to running compilers); a run that takes twice as long does.
const SLOW: f64 = 1.5;
/// Level of the one-sided t-test (blocks weighted by rounds) at which a question becomes suspicious. A rare tail shows
/// only in the mean, whose scatter in the first blocks is as large as the effect; the count of slow slots detects it
/// sooner.
const LEVEL: f64 = 0.05;
/// Level of the test for an excess of slow slots in the candidate.
const SLOW_LEVEL: f64 = 0.05;

/// The answer to one side question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// `median`, `p90`, `mean`.
    pub name: &'static str,
    /// The verdict on the ratio of the medians.
    pub change: Change,
    /// True if the candidate may well be slower in this respect, so that more blocks are worth their time.
    pub suspicious: bool,
    /// Capital against "not slower beyond the region of equivalence": an e-value.
    pub evidence: f64,
}

/// A side question: a statistic and when it is suspicious.
pub(crate) struct Question {
    name: &'static str,
    /// Statistic over the slots of one arm in one block.
    statistic: fn(&[f64]) -> Option<f64>,
}

/// All side questions, in report order.
pub(crate) const QUESTIONS: [Question; 3] = [
    Question { name: "median", statistic: median },
    Question { name: "p90", statistic: |slots| quantile(slots, 0.9) },
    Question { name: "mean", statistic: |slots| Some(slots.iter().sum::<f64>() / slots.len().max(1) as f64) },
];

/// What the side questions need from the blocks so far.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// For every block and question, the logarithm of the candidate's statistic over the baseline's.
    values: Vec<[f64; QUESTIONS.len()]>,
    /// Rounds in each block.
    rounds: Vec<f64>,
    /// Number of slow slots in each arm.
    slow: [u64; 3],
    /// Excess of the candidate's slow slots, summed, in medians of their process.
    excess: f64,
}

impl Beside {
    /// Adds a block, given the slots of its arms, and returns its values.
    pub(crate) fn add(&mut self, slots: &[Vec<f64>]) -> Result<[f64; QUESTIONS.len()], StatsError> {
        let values = block_values(&slots[BASELINE], &slots[CANDIDATE])?;
        self.values.push(values);
        self.rounds.push(slots[CANDIDATE].len() as f64);
        for (count, slots) in self.slow.iter_mut().zip(slots) {
            *count += slow(slots).0;
        }
        self.excess += slow(&slots[CANDIDATE]).1;
        Ok(values)
    }

    /// True if a slot of any arm was slow.
    pub(crate) fn saw_slow_slots(&self) -> bool {
        self.slow.iter().any(|count| *count > 0)
    }

    /// Answers all questions from the blocks so far.
    pub(crate) fn answers(&self, rule: &DecisionRule) -> Result<Vec<Side>, StatsError> {
        let rare = more_slow_slots(self.slow);
        let mut sides = Vec::new();
        for (index, question) in QUESTIONS.iter().enumerate() {
            let values: Vec<f64> = self.values.iter().map(|block| block[index]).collect();
            let weighted =
                |(value, rounds): (&f64, &f64)| Weighted { weight: *rounds, bet: *rounds, ..Weighted::plain(*value) };
            let blocks: Vec<Weighted> = values.iter().zip(&self.rounds).map(weighted).collect();
            let evidence = weighted_evidence(&blocks, rule.rope(), rule.stakes())?.slower.now;
            let change = decide_weighted(&blocks, rule)?;
            // An excess of slow slots raises the mean.
            let suspicious = rare && question.name == "mean" && !self.is_inside(&change, rule.rope())?
                || suspicious(&values, &self.rounds, rule.rope())?;
            sides.push(Side { name: question.name, change, suspicious, evidence });
        }
        Ok(sides)
    }

    /// True if the mean stays inside the region whatever the slow slots add: its interval, raised by as many further
    /// slow slots of the candidate as their count allows, each as slow as those seen, which the interval already
    /// contains.
    fn is_inside(&self, mean: &Change, rope: f64) -> Result<bool, StatsError> {
        let (slow, slots) = (self.slow[CANDIDATE], self.rounds.iter().sum::<f64>() as u64);
        let share = proportion_upper_bound(slow, slots, 1.0 - SLOW_LEVEL)?;
        Ok(mean.high * (1.0 + share * self.excess / slow as f64) <= 1.0 + rope)
    }
}

fn block_values(baseline: &[f64], candidate: &[f64]) -> Result<[f64; QUESTIONS.len()], StatsError> {
    let mut values = [0.0; QUESTIONS.len()];
    for (value, question) in values.iter_mut().zip(&QUESTIONS) {
        let of = |slots: &[f64]| (question.statistic)(slots).into_iter().collect::<Vec<f64>>();
        *value = block_value(&of(baseline), &of(candidate))?;
    }
    Ok(values)
}

/// Counts slots much slower than the median of their own process, so that page placement plays no role; and sums by how
/// many medians they exceed it.
fn slow(slots: &[f64]) -> (u64, f64) {
    let middle = median(slots).unwrap_or(f64::INFINITY);
    let slow = slots.iter().filter(|slot| **slot > SLOW * middle);
    slow.fold((0, 0.0), |(count, excess), slot| (count + 1, excess + slot / middle - 1.0))
}

/// True if the candidate has significantly more slow slots than the third it would have if all arms were equal.
fn more_slow_slots(slow: [u64; 3]) -> bool {
    let ours = slow[CANDIDATE];
    ours >= 2 && binomial_upper_tail(ours, slow.iter().sum(), 1.0 / 3.0) < SLOW_LEVEL
}

fn suspicious(values: &[f64], rounds: &[f64], rope: f64) -> Result<bool, StatsError> {
    if evidence(values, rope)?.slower.now >= SUSPICION {
        return Ok(true);
    }
    let all: f64 = rounds.iter().sum();
    let weights: Vec<f64> = rounds.iter().map(|rounds| rounds / all).collect();
    let mean: f64 = weights.iter().zip(values).map(|(weight, value)| weight * value).sum();
    // Effective number of blocks with equal weight (Kish 1965).
    let blocks = 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>();
    let squares: f64 = weights.iter().zip(values).map(|(weight, value)| (weight * (value - mean)).powi(2)).sum();
    let standard_error = (squares * blocks / (blocks - 1.0)).sqrt();
    let certain = standard_error == 0.0 || student_t_upper_tail(mean / standard_error, blocks - 1.0) < LEVEL;
    Ok(mean > rope.ln_1p() && certain)
}

/// The suspicious question, if any, in which the candidate is slowest.
pub(crate) fn most_suspicious(sides: &[Side]) -> Option<&Side> {
    let suspicious = sides.iter().filter(|side| side.suspicious);
    suspicious.max_by(|a, b| a.change.ratio.total_cmp(&b.change.ratio))
}

/// The first question, if any, answered with "slower".
pub(crate) fn slower(sides: &[Side]) -> Option<&'static str> {
    sides.iter().find(|side| side.change.difference == Difference::Slower).map(|side| side.name)
}

/// The e-value against "slower in no respect": the mean over the questions.
pub(crate) fn all_evidence(sides: &[Side]) -> f64 {
    sides.iter().map(|side| side.evidence).sum::<f64>() / sides.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_question_detects_its_difference() {
        let even = [1.0; 20];
        let mut tail = even;
        tail[3] = 2.0;
        let [median, p90, mean] = block_values(&even, &tail).unwrap();
        assert_eq!((median, p90), (0.0, 0.0), "one slot of twenty");
        assert!((mean - 1.05_f64.ln()).abs() < 1e-12);
        let mut heavier = even;
        heavier[..4].fill(2.0);
        let [median, p90, _] = block_values(&even, &heavier).unwrap();
        assert_eq!((median, p90), (0.0, 2.0_f64.ln()), "four of twenty");
        let mut modes = even;
        modes[..11].fill(1.1);
        assert!((block_values(&even, &modes).unwrap()[0] - 1.1_f64.ln()).abs() < 1e-12, "every second one");
    }

    #[test]
    fn suspicion_takes_size_and_certainty_or_evidence() {
        let suspicious = |values: &[f64]| suspicious(values, &vec![24.0; values.len()], 0.01).unwrap();
        assert!(!suspicious(&[0.005, 0.006, 0.004, 0.005, 0.006, 0.004]), "inside the region");
        assert!(!suspicious(&[0.30, -0.25, 0.20, -0.24, 0.28, -0.2]), "beyond it by chance");
        assert!(!suspicious(&[-0.05; 6]), "faster");
        assert!(suspicious(&[0.011; 6]));
        assert!(suspicious(&[0.10, 0.0, 0.05, 0.0, 0.10, 0.05]), "a tail that some blocks do not meet");
        assert!(!suspicious(&[0.09, -0.03, 0.04, -0.04, 0.08, 0.01]), "hardly more than its error");
    }

    #[test]
    fn long_blocks_that_find_nothing_clear_what_short_ones_raised() {
        let short = [0.04, 0.03, 0.05, 0.02, 0.04, 0.03];
        assert!(suspicious(&short, &[24.0; 6], 0.01).unwrap());
        let values = [&short[..], &[-0.002, 0.001]].concat();
        let rounds = |long: f64| [&[24.0; 6][..], &[long; 2]].concat();
        assert!(suspicious(&values, &rounds(24.0), 0.01).unwrap(), "as short as the others, they do not");
        assert!(!suspicious(&values, &rounds(96.0), 0.01).unwrap());
    }

    #[test]
    fn slow_slots_are_counted_against_the_share_of_the_candidate() {
        let mut slots = vec![1.0; 40];
        slots[7] = 2.0;
        slots[9] = 1.4;
        assert_eq!((slow(&slots), slow(&[3.0; 5]), slow(&[])), ((1, 1.0), (0, 0.0), (0, 0.0)));
        assert!(more_slow_slots([0, 3, 0]) && more_slow_slots([1, 5, 1]), "hardly anybody else has them");
        assert!(!more_slow_slots([0, 1, 0]) && !more_slow_slots([3, 5, 4]) && !more_slow_slots([9, 0, 9]));
    }
}
