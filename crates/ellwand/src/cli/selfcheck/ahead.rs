//! The progress of a self-check and its remaining time: a bar on a terminal, otherwise an occasional line.

use std::time::Duration;

use ellwand_bench::compare::Call;
use ellwand_bench::selfcheck::{DecisionEvent, Trial, is_equal};
use ellwand_core::stats::Difference;

use super::table::planted;
use crate::cli::progress::{Left, Progress};

/// Expected time of a decision before the first one is taken, in seconds.
const EXPECTED_S: f64 = 0.6;

/// Statistics of the decisions so far.
pub(super) struct Ahead<'a> {
    trials: &'a [Trial],
    budget: Option<Duration>,
    progress: Progress,
    /// Decisions taken and their seconds, by trial.
    taken: Vec<(u32, f64)>,
    alarms: u32,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(trials: &'a [Trial], budget: Option<Duration>) -> Self {
        Self { trials, budget, progress: Progress::new(0), taken: vec![(0, 0.0); trials.len()], alarms: 0 }
    }

    /// Counts a decision at `gone` after the start.
    pub(super) fn count(&mut self, event: &DecisionEvent<'_>, gone: Duration) {
        let trial = &self.trials[event.trial];
        let sofar = &mut self.taken[event.trial];
        *sofar = (event.done, sofar.1 + event.decision.map_or(0.0, |decision| decision.elapsed_s));
        let called = event.decision.is_some_and(|decision| {
            matches!(decision.call, Call::As(Difference::Slower | Difference::Faster) | Call::SlowerBeside(_))
        });
        self.alarms += u32::from(called && is_equal(trial.candidate));
        let name = format!("{} {}", trial.workload, planted(trial.candidate, trial.percent, trial.passes));
        self.progress.ahead(&format!("{}, {name}", self.counts()), Left::About(self.left_s(gone)));
    }

    /// Seconds until all decisions are taken or the budget is used up.
    fn left_s(&self, gone: Duration) -> f64 {
        let (all, seconds) = self.taken.iter().fold((0, 0.0), |sum, taken| (sum.0 + taken.0, sum.1 + taken.1));
        let usual = if all == 0 { EXPECTED_S } else { seconds / f64::from(all) };
        let rest = self.trials.iter().zip(&self.taken).map(|(trial, (done, seconds))| {
            // The mean of a trial with few decisions is shrunk towards the mean of all.
            let each = (seconds + usual) / f64::from(done + 1);
            each * f64::from(trial.decisions.saturating_sub(*done))
        });
        let rest: f64 = rest.sum();
        self.budget.map_or(rest, |budget| rest.min(budget.saturating_sub(gone).as_secs_f64()))
    }

    fn counts(&self) -> String {
        let done: u32 = self.taken.iter().map(|taken| taken.0).sum();
        let planned: u32 = self.trials.iter().map(|trial| trial.decisions).sum();
        format!("{done} of {planned} decisions, {} false positives", self.alarms)
    }

    /// Prints a line above the bar.
    pub(super) fn note(&self, text: &str) {
        self.progress.note(text);
    }

    pub(super) fn finish(&self) {
        self.progress.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_bench::selfcheck::trials;

    #[test]
    fn the_remaining_time_is_forecast_from_past_decisions_and_bounded_by_the_budget() {
        let trials = trials(true, false);
        let planned: u32 = trials.iter().map(|trial| trial.decisions).sum();
        let mut ahead = Ahead::new(&trials, None);
        assert!((ahead.left_s(Duration::ZERO) - EXPECTED_S * f64::from(planned)).abs() < 1e-9);
        // Half of every trial is done, at two seconds per decision.
        for (taken, trial) in ahead.taken.iter_mut().zip(&trials) {
            *taken = (trial.decisions / 2, 2.0 * f64::from(trial.decisions / 2));
        }
        assert!((ahead.left_s(Duration::ZERO) - f64::from(planned)).abs() < 1e-9);
        assert_eq!(ahead.counts(), format!("{} of {planned} decisions, 0 false positives", planned / 2));
        ahead.budget = Some(Duration::from_secs(30));
        assert!((ahead.left_s(Duration::from_secs(10)) - 20.0).abs() < 1e-9);
        assert_eq!(ahead.left_s(Duration::from_secs(31)), 0.0);
    }
}
