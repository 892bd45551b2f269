//! A series of decisions, all trials side by side: whenever it ends, each has had its share, and all met the same neighbours.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::{Row, Trial, row, sides};
use crate::arms::compare;
use crate::compare::{Decision, NoDecision, Terms};
use crate::cpu::{children_cpu_ns, own_cpu_ns};
use crate::worker::Launch;

/// How a series ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every decision was taken.
    Whole,
    /// The user interrupted.
    Interrupted,
    /// The caller's budget was used up.
    Budget,
}

/// A decision of a series, as its caller hears of it.
#[derive(Debug)]
pub struct Taken<'a> {
    /// Which trial it belongs to.
    pub trial: usize,
    /// The decision; `None` when an arm failed.
    pub decision: Option<&'a Decision>,
    /// How many decisions of that trial were taken, this one included.
    pub done: u32,
}

/// Takes the decisions of `trials`, each in proportion, until all are taken, the user interrupts or `enough` says so (it is
/// asked before each). `terms` are made anew for every decision, with coins of its own; every comparison starts without
/// knowledge from another one. A row a trial, of whatever was decided by then.
///
/// # Errors
/// When the statistics refuse the terms.
pub fn series(
    trials: &[Trial],
    launch: &Launch,
    terms: &mut dyn FnMut() -> Terms,
    interrupt: &AtomicBool,
    enough: &mut dyn FnMut() -> bool,
    on_decision: &mut dyn FnMut(Taken<'_>),
) -> Result<(Vec<Row>, End), NoDecision> {
    let mut sofar: Vec<Sofar> = trials.iter().map(|_| Sofar::default()).collect();
    let mut end = End::Whole;
    for trial in order(trials) {
        if interrupt.load(SeqCst) {
            end = End::Interrupted;
            break;
        }
        if enough() {
            end = End::Budget;
            break;
        }
        let (terms, before) = (terms(), spent_ns());
        let decided = compare(&sides(&trials[trial], launch, terms.coin), &terms, interrupt, &mut |_, _| {});
        let sofar = &mut sofar[trial];
        match decided {
            Ok(mut decision) => {
                let spent = spent_ns().zip(before).map(|(after, before)| after.saturating_sub(before));
                sofar.cpu_s.extend(spent.map(|ns| ns as f64 * 1e-9));
                on_decision(Taken { trial, decision: Some(&decision), done: sofar.done() + 1 });
                // Hundreds of decisions are kept; their raw samples are read by nobody.
                decision.samples = Default::default();
                sofar.decisions.push(decision);
            }
            Err(NoDecision::Ended { .. }) => {
                on_decision(Taken { trial, decision: None, done: sofar.done() + 1 });
                sofar.failed += 1;
            }
            Err(NoDecision::Interrupted) => {
                end = End::Interrupted;
                break;
            }
            Err(other) => return Err(other),
        }
    }
    let rows = trials.iter().zip(&sofar).map(|(trial, sofar)| sofar.row(trial)).collect();
    Ok((rows, end))
}

/// What was decided of one trial.
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

    fn row(&self, trial: &Trial) -> Row {
        row(trial, &self.decisions, self.failed, &self.cpu_s)
    }
}

/// Processor time that this process and the workers it waited for have spent.
fn spent_ns() -> Option<u64> {
    Some(own_cpu_ns()? + children_cpu_ns()?)
}

/// The trial of every decision: the k-th of n stands at (k + 1/2) / n of the series.
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
    fn what_ends_before_its_first_decision_has_rows_of_none() {
        let trials = trials(true, false);
        let launch = Launch::this_program();
        let run = |interrupt: bool, enough: bool| {
            let (rows, end) = series(
                &trials,
                &launch,
                &mut || unreachable!("no comparison is begun"),
                &AtomicBool::new(interrupt),
                &mut || enough,
                &mut |_| unreachable!("nothing is decided"),
            )
            .unwrap();
            assert!(rows.len() == trials.len() && rows.iter().all(|row| row.decisions == 0 && row.bias.is_none()));
            end
        };
        assert_eq!(run(true, true), End::Interrupted);
        assert_eq!(run(false, true), End::Budget);
    }
}
