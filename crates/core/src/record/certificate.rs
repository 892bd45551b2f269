//! What a self-check found on a machine, as a run embeds it: how far its verdicts can be trusted there.

use serde::{Deserialize, Serialize};

use crate::stats::{proportion_interval, proportion_upper_bound};

/// Counts of a self-check: comparisons of equal things, and of things with a planted difference. Bounds and shares are
/// derived from them ([`Certificate::bound`], [`Planted::power`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Version of the program that made it.
    pub ellwand: String,
    /// Source revision of that program, where it was built from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Load averages over one minute before and after.
    pub load: [Option<f64>; 2],
    /// Region of practical equivalence, as a share.
    pub rope: f64,
    /// Probability of a wrong verdict that was asked for.
    pub alpha: f64,
    /// Decisions on equal things.
    pub decisions: u64,
    /// How many of them were called different.
    pub false_alarms: u64,
    /// Planted differences, one entry a size, smallest first.
    pub planted: Vec<Planted>,
    /// Planted slow modes, one entry a kind; empty where none were tried (records of before they were noted).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_modes: Vec<SlowMode>,
}

/// Decisions on a planted slow-down of one size, over all kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planted {
    /// More work of the candidate, in per cent.
    pub percent: i64,
    /// Decisions.
    pub decisions: u64,
    /// How many were called slower.
    pub slower: u64,
}

/// Decisions on a planted slow mode of one kind, over all kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowMode {
    /// What was planted: `tail` (one run or slot in twenty takes twice as long) or `modes` (every second one a tenth longer).
    pub kind: String,
    /// Decisions.
    pub decisions: u64,
    /// How many were called slower.
    pub slower: u64,
}

impl Certificate {
    /// Upper end of what the true share of false alarms can be (95 %, one-sided, exact: Clopper and Pearson 1934); `None`
    /// without a decision.
    pub fn bound(&self) -> Option<f64> {
        proportion_upper_bound(self.false_alarms, self.decisions, 0.95).ok()
    }

    /// Milliseconds from its start to `unix_ms`; zero for a clock that was set back meanwhile.
    pub fn age_ms(&self, unix_ms: u64) -> u64 {
        unix_ms.saturating_sub(self.started_unix_ms)
    }
}

impl Planted {
    /// Share called slower with its 95 % interval (Clopper and Pearson); `None` without a decision.
    pub fn power(&self) -> Option<(f64, f64, f64)> {
        let (low, high) = proportion_interval(self.slower, self.decisions, 0.95).ok()?;
        Some((self.slower as f64 / self.decisions as f64, low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_bounds() {
        let certificate = Certificate {
            ellwand: "0.1.0".into(),
            revision: None,
            started_unix_ms: 1000,
            load: [None; 2],
            rope: 0.01,
            alpha: 0.01,
            decisions: 400,
            false_alarms: 0,
            planted: vec![Planted { percent: 2, decisions: 60, slower: 60 }],
            slow_modes: Vec::new(),
        };
        // Nothing in 400: 1 - 0.05^(1/400).
        assert!((certificate.bound().unwrap() - (1.0 - 0.05_f64.powf(1.0 / 400.0))).abs() < 1e-9);
        assert_eq!((certificate.age_ms(3000), certificate.age_ms(1)), (2000, 0));
        let (share, low, high) = certificate.planted[0].power().unwrap();
        assert!(share == 1.0 && low > 0.9 && high == 1.0);
        let none = Certificate { decisions: 0, ..certificate };
        assert_eq!(none.bound(), None);
        assert_eq!(Planted { percent: 2, decisions: 0, slower: 0 }.power(), None);
    }
}
