//! Takes a series of decisions with all trials interleaved: whenever it ends, each trial has its share, and all had the
//! same neighbours.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::{Row, Trial, row, sides};
use crate::arms::compare;
use crate::compare::{self, Decision, NoDecision, Terms};
use crate::cpu::{children_cpu_ns, own_cpu_ns};
use crate::worker::Launch;

/// How a series ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All decisions were taken.
    Whole,
    /// The user interrupted.
    Interrupted,
    /// The caller's budget is used up.
    Budget,
}

/// Progress event after one decision.
#[derive(Debug)]
pub struct DecisionEvent<'a> {
    /// Index of the trial.
    pub trial: usize,
    /// The decision; `None` if an arm failed or the time ran out before the fewest blocks.
    pub decision: Option<&'a Decision>,
    /// Number of decisions taken in that trial, including this one.
    pub done: u32,
}

/// Takes the decisions of `trials`, interleaved in proportion, until all are taken, the user interrupts or no time is
/// left: `left_s` returns the seconds, infinite without a budget. A decision that this time cut short does not count.
/// `terms` is called for every decision and provides a fresh coin; no comparison reuses knowledge from another. Returns
/// one row per trial with the decisions so far.
///
/// # Errors
/// If the statistics reject the terms.
pub fn series(
    trials: &[Trial],
    launch: &Launch,
    terms: &mut dyn FnMut() -> Terms,
    interrupt: &AtomicBool,
    left_s: &mut dyn FnMut() -> f64,
    on_decision: &mut dyn FnMut(DecisionEvent<'_>),
) -> Result<(Vec<Row>, End), NoDecision> {
    let mut sofar: Vec<Sofar> = trials.iter().map(|_| Sofar::default()).collect();
    let mut end = End::Whole;
    for trial in order(trials) {
        if interrupt.load(SeqCst) {
            end = End::Interrupted;
            break;
        }
        let left_s = left_s();
        if left_s <= 0.0 {
            end = End::Budget;
            break;
        }
        let (whole, before) = (terms(), spent_ns());
        let cut = left_s < whole.budget_s;
        let terms = if cut { whole.within(left_s) } else { whole };
        let decided = compare(&sides(&trials[trial], launch, terms.coin), &terms, interrupt, &mut |_, _| {});
        let sofar = &mut sofar[trial];
        match decided {
            // The user interrupted, so the comparison does not count as failed.
            Ok(Decision { end: compare::End::Interrupted, .. }) | Err(NoDecision::Interrupted) => {
                end = End::Interrupted;
                break;
            }
            Ok(Decision { end: compare::End::Budget | compare::End::Hopeless, .. })
            | Err(NoDecision::OutOfTime(_) | NoDecision::Late(_))
                if cut =>
            {
                end = End::Budget;
                break;
            }
            Ok(mut decision) => {
                let spent = spent_ns().zip(before).map(|(after, before)| after.saturating_sub(before));
                sofar.cpu_s.extend(spent.map(|ns| ns as f64 * 1e-9));
                on_decision(DecisionEvent { trial, decision: Some(&decision), done: sofar.done() + 1 });
                // Hundreds of decisions are kept, and their raw samples are not needed.
                decision.samples = Default::default();
                sofar.decisions.push(decision);
            }
            Err(NoDecision::Ended { .. } | NoDecision::OutOfTime(_) | NoDecision::Late(_)) => {
                on_decision(DecisionEvent { trial, decision: None, done: sofar.done() + 1 });
                sofar.failed += 1;
            }
            Err(other) => return Err(other),
        }
    }
    let row = |(trial, of): (&Trial, &Sofar)| row(trial, &of.decisions, of.failed, &of.cpu_s);
    Ok((trials.iter().zip(&sofar).map(row).collect(), end))
}

/// Decisions of one trial so far.
#[derive(Default)]
struct Sofar {
    decisions: Vec<Decision>,
    failed: u64,
    cpu_s: Vec<f64>,
}

impl Sofar {
    fn done(&self) -> u32 {
        u32::try_from(self.decisions.len() as u64 + self.failed).unwrap_or(u32::MAX)
    }
}

/// CPU time used so far by this process and its finished workers.
fn spent_ns() -> Option<u64> {
    Some(own_cpu_ns()? + children_cpu_ns()?)
}

/// The trial of each decision: the k-th of n is placed at (k + 1/2) / n of the series.
fn order(trials: &[Trial]) -> Vec<usize> {
    let places = trials.iter().enumerate().flat_map(|(trial, of)| {
        (0..of.decisions).map(move |k| ((f64::from(k) + 0.5) / f64::from(of.decisions), trial))
    });
    let mut places: Vec<(f64, usize)> = places.collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    places.into_iter().map(|(_, trial)| trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selfcheck::trials;
    use crate::worker::Limits;

    #[test]
    fn every_trial_has_its_share_whenever_the_series_ends() {
        for (quick, long) in [(false, false), (true, false), (false, true)] {
            let trials = trials(quick, long);
            let order = order(&trials);
            let planned: u32 = trials.iter().map(|trial| trial.decisions).sum();
            assert_eq!(order.len(), planned as usize);
            let mut done = vec![0_u32; trials.len()];
            for trial in order {
                done[trial] += 1;
                let share = |trial: usize| f64::from(done[trial]) / f64::from(trials[trial].decisions);
                for other in 0..trials.len() {
                    let each = [trial, other].map(|trial| 1.0 / f64::from(trials[trial].decisions));
                    assert!((share(trial) - share(other)).abs() <= each[0] + each[1], "{done:?} of {trials:?}");
                }
            }
            assert!(done.iter().zip(&trials).all(|(done, trial)| *done == trial.decisions));
        }
    }

    #[test]
    fn a_series_without_decisions_has_empty_rows() {
        let trials = trials(true, false);
        let launch = Launch::this_program();
        let run = |interrupt: bool, left_s: f64| {
            let (rows, end) = series(
                &trials,
                &launch,
                &mut || unreachable!("no comparison is begun"),
                &AtomicBool::new(interrupt),
                &mut || left_s,
                &mut |_| unreachable!("nothing is decided"),
            )
            .unwrap();
            assert!(rows.len() == trials.len() && rows.iter().all(|row| row.decisions == 0 && row.bias.is_none()));
            end
        };
        assert_eq!(run(true, 0.0), End::Interrupted);
        assert_eq!(run(false, 0.0), End::Budget);
    }

    #[test]
    fn a_decision_that_the_budget_cuts_short_does_not_count() {
        let trials = trials(true, false);
        // A worker that never gets ready.
        let launch = Launch { program: "/bin/sleep".into(), args: vec!["1000".into()] };
        let taken = series(
            &trials,
            &launch,
            &mut || Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap().within(600.0),
            &AtomicBool::new(false),
            &mut || 0.1,
            &mut |_| unreachable!("nothing is decided"),
        );
        let (rows, end) = taken.unwrap();
        assert_eq!(end, End::Budget);
        assert!(rows.iter().all(|row| row.decisions + row.failed == 0));
    }
}
