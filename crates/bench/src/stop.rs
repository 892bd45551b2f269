//! When to stop sampling a cell. Each rule is a row of [`STOPS`]; the first that fires ends the cell.

use ellwand_core::stats::{median, median_interval};

/// How far a cell has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Rounds completed.
    pub rounds: u32,
    /// Rounds that fill the time for the case.
    pub planned: u32,
    /// Seconds of an iteration, by implementation.
    pub seconds: &'a [Vec<f64>],
}

/// A rule: whether the cell has enough.
pub struct StopRule {
    /// Name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Whether it fires.
    pub fires: fn(&Progress) -> bool,
}

/// Half width of the interval of the median, relative to the median, at which an implementation is known well enough.
pub const PRECISION: f64 = 0.001;
/// Rounds before precision may end a cell: fewer would trust a lucky calm.
pub const PRECISION_ROUNDS: u32 = 50;

/// Every rule. To add one, add a row.
pub const STOPS: &[StopRule] = &[
    StopRule {
        name: "budget",
        about: "the rounds that fill the time for the case are done",
        fires: |p| p.rounds >= p.planned,
    },
    StopRule {
        name: "precision",
        about: "50 rounds are done and every median is known to 0.1 %",
        fires: |p| {
            p.rounds >= PRECISION_ROUNDS
                && p.seconds.iter().all(|seconds| match (median_interval(seconds, 0.95), median(seconds)) {
                    (Some((low, high)), Some(median)) => high - low <= 2.0 * PRECISION * median,
                    _ => false,
                })
        },
    },
];

/// The first rule that fires.
pub fn stopped(progress: &Progress) -> Option<&'static StopRule> {
    STOPS.iter().find(|rule| (rule.fires)(progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(rounds: u32, seconds: &[Vec<f64>]) -> Option<&'static str> {
        stopped(&Progress { rounds, planned: 200, seconds }).map(|rule| rule.name)
    }

    #[test]
    fn each_rule_fires_for_its_reason() {
        let noisy: Vec<f64> = (0..60).map(|i| 1.0 + f64::from(i % 7)).collect();
        let steady = vec![1.0; 60];
        assert_eq!(fired(60, std::slice::from_ref(&noisy)), None);
        assert_eq!(fired(200, std::slice::from_ref(&noisy)), Some("budget"));
        assert_eq!(fired(60, std::slice::from_ref(&steady)), Some("precision"));
        assert_eq!(fired(49, std::slice::from_ref(&steady)), None, "a lucky calm");
        assert_eq!(fired(60, &[steady, noisy]), None, "one implementation is not yet known");
    }
}
