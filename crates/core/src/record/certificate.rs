//! The result of a machine's self-check, which a run embeds in its record: how far verdicts on that machine can be
//! trusted.

use serde::{Deserialize, Serialize};

use crate::stats::{proportion_interval, proportion_upper_bound};

/// Counts of a self-check: comparisons of identical code and of code with a planted difference. Rates and bounds are
/// computed from them ([`Certificate::bound`], [`Planted::power`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Version of Ellwand that made the certificate.
    pub ellwand: String,
    /// Source revision of that version, if it was built from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Start of the self-check, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Load averages over one minute, before and after.
    pub load: [Option<f64>; 2],
    /// Region of practical equivalence, as a share (0.01 for 1 %).
    pub rope: f64,
    /// Largest accepted probability of a wrong verdict.
    pub alpha: f64,
    /// Decisions on identical code.
    pub decisions: u64,
    /// Decisions on identical code that reported a difference (false positives).
    pub false_alarms: u64,
    /// Planted differences, one entry per size, smallest first.
    pub planted: Vec<Planted>,
    /// Planted slow modes, one entry per kind; empty in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_modes: Vec<SlowMode>,
    /// Kernels of the self-check (`l3`, `dram`) without any decided planted difference: how reliable verdicts on
    /// similar code are is unknown. Empty in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<String>,
}

/// Decisions on a planted slow-down of one size, over all kernels of the self-check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planted {
    /// Extra work of the candidate, in per cent.
    pub percent: i64,
    /// Number of decisions.
    pub decisions: u64,
    /// Decisions that reported "slower".
    pub slower: u64,
}

/// Decisions on a planted slow mode of one kind, over all kernels of the self-check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowMode {
    /// Kind: `tail` (one run or slot in twenty takes twice as long) or `modes` (every second one takes a tenth longer).
    pub kind: String,
    /// Number of decisions.
    pub decisions: u64,
    /// Decisions that reported "slower".
    pub slower: u64,
}

impl Certificate {
    /// Exact one-sided 95 % upper bound of the false-positive rate (Clopper and Pearson 1934); `None` without
    /// decisions.
    pub fn bound(&self) -> Option<f64> {
        proportion_upper_bound(self.false_alarms, self.decisions, 0.95).ok()
    }

    /// Milliseconds from the start of the self-check to `unix_ms`; 0 if the clock was set back in between.
    pub fn age_ms(&self, unix_ms: u64) -> u64 {
        unix_ms.saturating_sub(self.started_unix_ms)
    }
}

impl Planted {
    /// Share of decisions that reported "slower", with its 95 % interval (Clopper and Pearson); `None` without
    /// decisions.
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
            unjudged: Vec::new(),
        };
        // Upper bound for 0 of 400: 1 - 0.05^(1/400).
        assert!((certificate.bound().unwrap() - (1.0 - 0.05_f64.powf(1.0 / 400.0))).abs() < 1e-9);
        assert_eq!((certificate.age_ms(3000), certificate.age_ms(1)), (2000, 0));
        let (share, low, high) = certificate.planted[0].power().unwrap();
        assert!(share == 1.0 && low > 0.9 && high == 1.0);
        let none = Certificate { decisions: 0, ..certificate };
        assert_eq!(none.bound(), None);
        assert_eq!(Planted { percent: 2, decisions: 0, slower: 0 }.power(), None);
    }
}
