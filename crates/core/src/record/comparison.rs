//! A comparison as stored in a record: the rule fixed in advance, the raw samples of its arms, and the block values
//! that give the verdict.

use serde::{Deserialize, Serialize};

use super::{Basis, Outcome, Sample, Settling, samples};
use crate::reading::Reading;
pub use crate::stats::{Centre, Curve, Stakes};
use crate::stats::{Change, Copies, DecisionRule, StatsError, Weighted, decide, decide_weighted};
use crate::verdict::Compared;

/// Baseline against candidate at one case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Id of the case, with the implementation if programs are compared; `command` for shell commands.
    pub case: String,
    /// The baseline as the user named it.
    pub baseline: String,
    /// The candidate as the user named it.
    pub candidate: String,
    /// Region of practical equivalence, as a share (0.01 for 1 %).
    pub rope: f64,
    /// Largest accepted probability of a wrong verdict.
    pub alpha: f64,
    /// Planned numbers of blocks after which the comparison may stop.
    pub looks: Vec<usize>,
    /// How the looks share the probability of a wrong verdict.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spending: Curve,
    /// How the bets on the signs of the blocks divide their capital.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stakes: Stakes,
    /// How the centre of the block values is computed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub centre: Centre,
    /// Description of the time that was compared; empty if no time was compared.
    pub judged_by: String,
    /// The time that was compared; missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The verdict: `slower`, `faster`, `same`, `undecided`, `slower-beside`, `withheld`, `below-resolution` or `none`.
    /// It also depends on the number of other cases in the report, which sets the evidence needed.
    pub verdict: String,
    /// The arm that failed, if there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The arms: baseline, candidate, second copy of the baseline; empty if an arm failed.
    pub arms: Vec<Arm>,
    /// Values of each block: natural logarithms of candidate over baseline.
    pub blocks: Vec<BlockValues>,
    /// Clock step divided by the shorter of the two compared times; no block knows its ratio more exactly. Zero in
    /// older records.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grain: f64,
    /// How much of the answers the reference judged, on the side with the smaller share; missing if its judge does not count
    /// values, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// Remarks on the verdict, such as throttling, disturbed slots, or slow moments of a faster candidate. Empty in
    /// older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Elapsed time of the comparison in seconds.
    pub elapsed_s: f64,
}

impl Comparison {
    /// The share of the elapsed time that lay inside timed slots of the arms; the rest started processes, checked answers
    /// and let arms settle. `None` without slots.
    pub fn slot_share(&self) -> Option<f64> {
        slot_share(self.arms.iter().flat_map(|arm| &arm.samples), self.elapsed_s)
    }
}

/// The share of `elapsed_s` seconds that lay inside these slots; `None` without slots.
pub fn slot_share<'a>(slots: impl Iterator<Item = &'a Sample>, elapsed_s: f64) -> Option<f64> {
    let seconds: f64 = slots.map(|slot| 1e-9 * slot.wall_ns as f64).sum();
    (seconds > 0.0 && elapsed_s > 0.0).then(|| seconds / elapsed_s)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The arm that ended a comparison without a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Name of the arm: baseline, candidate or control.
    pub arm: String,
    /// Its outcome; never `Measured`.
    pub outcome: Outcome,
}

/// One arm of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// What ran: instruction set, number of threads.
    pub what_ran: String,
    /// Raw samples in the order taken.
    #[serde(with = "samples")]
    pub samples: Vec<Sample>,
    /// Settling after the other arms used the CPU, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Values from probes.
    pub readings: Vec<Reading>,
}

/// The log ratios of one block, candidate over baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockValues {
    /// On the compared time; the verdict uses these values. The mean over both copies of the baseline if there is a value
    /// for the `second`.
    pub main: f64,
    /// Candidate over the second copy of the baseline, on the compared time; missing if the verdict does not use it, as for
    /// commands and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<f64>,
    /// Second copy of the baseline over the first: a control that should be 0.
    pub control: f64,
    /// Ratio of the median slots.
    pub median: f64,
    /// Ratio of the 90th percentiles of the slots.
    pub p90: f64,
    /// Ratio of the mean slots.
    pub mean: f64,
    /// Weight of the block in the interval; 1 in older records.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: f64,
    /// Factor on the bet on the sign of `main`; 1 in older records.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub bet: f64,
}

impl BlockValues {
    /// The value of the main question.
    pub fn main(&self) -> Weighted {
        let copies = self.second.map(|second| Copies { second, apart: self.control });
        Weighted { value: self.main, copies, weight: self.weight, bet: self.bet }
    }
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

impl Comparison {
    /// Recomputes ratio and interval from the block values under the rule fixed in advance; `None` if the comparison
    /// ended before its first look.
    ///
    /// # Errors
    /// If rule and blocks do not match, for example because the line was edited.
    pub fn change(&self) -> Result<Option<Change>, StatsError> {
        if self.blocks.is_empty() {
            return Ok(None);
        }
        let rule = DecisionRule::new(self.rope, self.alpha, &self.looks)?;
        let rule = rule.with_stakes(self.stakes).with_centre(self.centre).with_curve(self.spending);
        if self.spending == Curve::Pocock {
            let (main, rule) = (self.blocks.iter().map(|block| block.main), rule.of_old_records());
            return Ok(Some(decide(&main.collect::<Vec<f64>>(), &rule)?.known_to(self.grain, &rule)));
        }
        let blocks: Vec<Weighted> = self.blocks.iter().map(BlockValues::main).collect();
        Ok(Some(decide_weighted(&blocks, &rule)?.known_to(self.grain, &rule)))
    }
}
