//! How the time of an iteration settles after other arms used the CPU.

use serde::{Deserialize, Serialize};

use crate::stats::median;

/// Ratio of first to settled iterations above which a report remarks on settling.
const WORTH_A_REMARK: f64 = 1.2;

/// The settling curve of an arm.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Settling {
    /// Iterations in each step of the curve.
    pub step_iterations: u64,
    /// Nanoseconds per iteration in each step after a switch: the median over several turns.
    pub curve_ns: Vec<f64>,
    /// Nanoseconds per settled iteration.
    pub settled_ns: f64,
    /// Iterations at the start of a turn that are slower than settled ones.
    pub settles_after: u64,
    /// Untimed iterations at the head of each slot; at least [`Settling::settles_after`].
    pub untimed: u64,
    /// True if the time was still falling at the end of the longest curve that was recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsettled: bool,
}

impl Settling {
    /// Seconds from a switch until the arm has settled.
    pub fn seconds(&self) -> f64 {
        let steps = self.settles_after.div_ceil(self.step_iterations.max(1)) as usize;
        self.curve_ns.iter().take(steps).sum::<f64>() * self.step_iterations as f64 * 1e-9
    }

    /// Time of the first iterations after a switch divided by the settled time; `None` without a curve.
    pub fn slower_at_first(&self) -> Option<f64> {
        let ratio = self.curve_ns.first()? / self.settled_ns;
        ratio.is_finite().then_some(ratio)
    }

    /// True if no quarter of the curve is slower than the one before by more than 1 %. An unsettled curve that also rises is noise:
    /// it does not show when, or whether, the arm settles.
    pub fn falls(&self) -> bool {
        let quarters = self.curve_ns.chunks(self.curve_ns.len().div_ceil(4).max(1));
        let levels: Vec<f64> = quarters.filter_map(median).collect();
        levels.windows(2).all(|pair| pair[1] <= 1.01 * pair[0])
    }

    /// True if the first iterations after a switch are so slow that they, not the settled ones, describe code that runs
    /// only occasionally.
    pub fn is_remarkable(&self) -> bool {
        self.unsettled || self.settles_after > 0 && self.slower_at_first().is_some_and(|ratio| ratio > WORTH_A_REMARK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_its_settling_time_and_initial_slow_down() {
        let curve_ns = vec![471e3, 281e3, 199e3, 161e3, 157e3, 156e3];
        let settling =
            Settling { step_iterations: 1, curve_ns, settled_ns: 156e3, settles_after: 4, ..Settling::default() };
        assert!((settling.seconds() - 1.112e-3).abs() < 1e-9);
        assert!((settling.slower_at_first().unwrap() - 3.02).abs() < 0.01);
        assert!(settling.is_remarkable());
        let flat = Settling { settles_after: 0, curve_ns: vec![156e3; 6], ..settling };
        assert!(!flat.is_remarkable() && flat.seconds() == 0.0);
        assert_eq!(Settling::default().slower_at_first(), None);
        let of = |curve_ns: Vec<f64>| Settling { curve_ns, ..Settling::default() };
        assert!(of(vec![9.0, 7.0, 8.0, 6.0, 5.0, 4.0, 4.0, 3.0]).falls(), "by quarters");
        assert!(!of(vec![4.0, 4.0, 12.0, 12.0, 13.0, 12.0, 9.0, 9.0]).falls());
    }
}
