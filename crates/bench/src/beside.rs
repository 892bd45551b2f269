//! The side questions of a comparison: does something differ that the fastest time of a slot cannot see?
//!
//! A minimum hides a second mode, a tail, a pause now and then. So the median, the 90th percentile and the mean of a block's
//! whole slots are asked the main question too; together they may be wrong once more with the probability that it may.
//!
//! A rare slow slot shows late: with one slot in twenty that takes twice as long, three blocks of 24 rounds in ten hold none
//! of them in the candidate. So "the same" waits while a side question is suspicious, and blocks that are taken meanwhile
//! have more rounds. That plan may depend on blocks seen before: the sign of the next block is a fair coin given them.

use ellwand_core::stats::{
    Change, Difference, Rule, StatsError, block_value, decide, evidence, mean_interval, median, quantile,
};

/// Capital of a side question from which on it is suspicious. By chance it is reached in at most one of eight comparisons.
const SUSPICION: f64 = 8.0;
/// How many standard errors an estimate beyond the region of equivalence must be large to be suspicious: three
/// comparisons of ten have such an estimate by chance where the noise is far wider than the region, and hardly any where it
/// is narrower. A tail of one slot in twenty has it at the first look 99 times in 100.
const STANDARD_ERRORS: f64 = 0.5;

/// A side question's answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// `median`, `p90`, `mean`.
    pub name: &'static str,
    /// The answer.
    pub change: Change,
    /// Whether the candidate may well be slower in this respect, so that more blocks are worth their time.
    pub suspicious: bool,
}

/// What a question asks of the slots of one arm in one block.
type Statistic = fn(&[f64]) -> Option<f64>;

/// The questions.
pub(crate) const QUESTIONS: [(&str, Statistic); 3] = [
    ("median", median),
    ("p90", |slots| quantile(slots, 0.9)),
    ("mean", |slots| Some(slots.iter().sum::<f64>() / slots.len().max(1) as f64)),
];

/// The values of a block, one a question: logarithms of the candidate's statistic over the baseline's.
pub(crate) fn block_values(baseline: &[f64], candidate: &[f64]) -> Result<[f64; QUESTIONS.len()], StatsError> {
    let mut values = [0.0; QUESTIONS.len()];
    for (value, (_, statistic)) in values.iter_mut().zip(QUESTIONS) {
        let of = |slots: &[f64]| statistic(slots).into_iter().collect::<Vec<f64>>();
        *value = block_value(&of(baseline), &of(candidate))?;
    }
    Ok(values)
}

/// Answers every question from the values of the blocks so far.
pub(crate) fn answers(blocks: &[[f64; QUESTIONS.len()]], rule: &Rule) -> Result<Vec<Side>, StatsError> {
    let mut sides = Vec::new();
    for (index, (name, _)) in QUESTIONS.into_iter().enumerate() {
        let values: Vec<f64> = blocks.iter().map(|block| block[index]).collect();
        sides.push(Side { name, change: decide(&values, rule)?, suspicious: suspicious(&values, rule.rope())? });
    }
    Ok(sides)
}

fn suspicious(values: &[f64], rope: f64) -> Result<bool, StatsError> {
    let interval = mean_interval(values, 0.5)?;
    let standard_error = interval.sd / (values.len() as f64).sqrt();
    Ok(evidence(values, rope)?.slower.now >= SUSPICION
        || interval.mean > rope.ln_1p().max(STANDARD_ERRORS * standard_error))
}

/// The question, if any, that is answered by "slower".
pub(crate) fn slower(sides: &[Side]) -> Option<&'static str> {
    sides.iter().find(|side| side.change.difference == Difference::Slower).map(|side| side.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_sees_what_it_is_for() {
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
        let rope = 0.01;
        assert!(!suspicious(&[0.005, 0.006, 0.004, 0.005, 0.006, 0.004], rope).unwrap(), "inside the region");
        assert!(suspicious(&[0.10, 0.0, 0.05, 0.0, 0.10, 0.05], rope).unwrap(), "a tail that some blocks do not meet");
        assert!(!suspicious(&[0.30, -0.25, 0.20, -0.24, 0.28, -0.2], rope).unwrap(), "beyond it by chance");
        assert!(!suspicious(&[-0.05; 6], rope).unwrap(), "faster");
        assert!(suspicious(&[0.011; 6], rope).unwrap());
    }
}
