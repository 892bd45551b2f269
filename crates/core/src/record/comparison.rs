//! A comparison as a record keeps it: the rule that was fixed before it, the raw samples of its arms, and the block values
//! that the verdict rests on.

use serde::{Deserialize, Serialize};

use super::{Basis, Outcome, Sample, Settling, samples};
use crate::reading::Reading;
use crate::stats::{Change, Rule, StatsError, decide};

/// Baseline against candidate at one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Identity of the case, with the implementation where programs are compared; `command` for shell commands.
    pub case: String,
    /// The baseline as the user names it.
    pub baseline: String,
    /// The candidate.
    pub candidate: String,
    /// Region of practical equivalence, as a share.
    pub rope: f64,
    /// Probability of a wrong verdict.
    pub alpha: f64,
    /// After how many blocks the verdict was looked for.
    pub looks: Vec<usize>,
    /// Which time was judged, in words; empty when there is none.
    pub judged_by: String,
    /// The same for programs; not in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// What was said: `slower`, `faster`, `same`, `undecided`, `slower-beside`, `withheld`, `below-resolution`, `none`.
    /// Beside the block values it knows the other cases of the report, whose number decides how much evidence a call takes.
    pub verdict: String,
    /// Why there is no verdict: how which arm ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The arms: baseline, candidate, second copy of the baseline; none when it ended.
    pub arms: Vec<Arm>,
    /// One line of values a block: natural logarithms of candidate over baseline.
    pub blocks: Vec<BlockValues>,
    /// Step of the clock over the shorter of the two times that were judged: no block knows its ratio better. Zero in records
    /// that are older than it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub grain: f64,
    /// What had to be said beside the verdict: a device that slowed itself down, slots that met others, slow moments of what is
    /// faster. None in records that are older than it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Elapsed seconds.
    pub elapsed_s: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// How an arm ended in place of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Which.
    pub arm: String,
    /// How.
    pub outcome: Outcome,
}

/// One arm of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// What really ran (instruction set, threads).
    pub what_ran: String,
    /// Raw samples.
    #[serde(with = "samples")]
    pub samples: Vec<Sample>,
    /// How its time settles after the other arms used the processor, where that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Values of probes.
    pub readings: Vec<Reading>,
}

/// The numbers of one block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockValues {
    /// By the time that was judged.
    pub main: f64,
    /// The second copy of the baseline over the first.
    pub control: f64,
    /// Median slot over median slot.
    pub median: f64,
    /// 90th percentile of the slots over the same.
    pub p90: f64,
    /// Mean slot over mean slot.
    pub mean: f64,
}

impl Comparison {
    /// Ratio and interval, computed again from the block values under the rule that was fixed before; `None` when the
    /// comparison ended before its first look.
    ///
    /// # Errors
    /// When rule and blocks do not belong together: the line was edited.
    pub fn change(&self) -> Result<Option<Change>, StatsError> {
        if self.blocks.is_empty() {
            return Ok(None);
        }
        let main: Vec<f64> = self.blocks.iter().map(|block| block.main).collect();
        let rule = Rule::new(self.rope, self.alpha, &self.looks)?;
        Ok(Some(decide(&main, &rule)?.known_to(self.grain, &rule)))
    }
}
