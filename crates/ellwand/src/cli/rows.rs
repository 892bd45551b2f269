//! Rows of `compare`: the decision at a case, its correction for the number of cases, and the exit code.

use std::hash::{BuildHasher, Hasher};

use ellwand_bench::compare::{Call, Decision, End, Terms};
use ellwand_bench::worker::Limits;
use ellwand_core::InputError;
use ellwand_core::record::Outcome as Fate;
use ellwand_core::stats::{Difference, ebh};

use super::args::FailOn;
use super::budgets::{State, Verdict, broken};
use super::exit::{Exit, Failure};
use super::time::Given;

/// Probability of a wrong verdict on the judged time, for a case and for the report; the side questions add half of it.
pub(super) const ALPHA: f64 = 0.01;

/// A decision, or the arm that ended without one, and how.
pub(super) type Decided = Result<Decision, (&'static str, Fate)>;

/// One case and its result.
pub(super) struct Row {
    pub(super) case: String,
    pub(super) names: [String; 2],
    /// The decision, or how an arm ended.
    pub(super) result: Decided,
    /// The time that it was given.
    pub(super) given: Given,
    /// What is printed: the decision's own call, unless the number of cases or the resolution retracts it.
    pub(super) said: Said,
    /// Verdicts on the candidate's budgets.
    pub(super) budgets: Vec<Verdict>,
    /// The timer resolution in seconds, if only one side is below it: that side's time and the ratio are then bounds.
    pub(super) one_below_s: Option<f64>,
    /// Remarks on one of the sides.
    pub(super) remarks: Vec<String>,
    /// Workload and implementation of the candidate, if it was measured.
    pub(super) measured: Option<[String; 2]>,
}

impl Row {
    /// True if the user interrupted it; the result is from the blocks before.
    fn is_cut(&self) -> bool {
        self.result.as_ref().is_ok_and(|decision| decision.end == End::Interrupted)
    }
}

/// How many of these cases were compared completely.
pub(super) fn whole(rows: &[Row]) -> usize {
    rows.iter().filter(|row| !row.is_cut()).count()
}

/// The printed result of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Said {
    /// The comparison's own call.
    Call(Call),
    /// A retracted call: among this many cases, chance produces such a call too often (e-BH over the report).
    OneOfMany,
    /// Both sides are below this timer resolution, in seconds.
    BelowResolution(f64),
    Nothing,
}

/// Terms with fresh coins: the promise of a verdict rests on coins that cannot be predicted.
pub(super) fn terms(rope: f64, blocks: Option<u32>, limits: Limits) -> Result<Terms, Failure> {
    let coin = std::collections::hash_map::RandomState::new().build_hasher().finish();
    if let Some(blocks) = blocks.filter(|blocks| *blocks < 2) {
        return Err(InputError::new("--blocks", format!("{blocks} is too few"), "2 or more; 8 for a verdict").into());
    }
    let most = blocks.map(|blocks| blocks as usize);
    Terms::new(rope, ALPHA, most, limits, coin).map_err(|error| anyhow::Error::from(error).into())
}

impl Said {
    /// The result of a single comparison.
    pub(super) fn of(result: &Decided, resolution_ns: f64) -> Self {
        let resolution = resolution_ns * 1e-9;
        let below = |decision: &Decision| decision.seconds.iter().all(|seconds| *seconds < resolution);
        match result {
            Err(_) => Said::Nothing,
            Ok(decision) if below(decision) => Said::BelowResolution(resolution),
            Ok(decision) => Said::Call(decision.call),
        }
    }
}

/// Retracts the calls that chance alone produces among the cases (e-BH), so a report of many cases promises the same as
/// a single case. Side questions test one direction only; over all cases they may be wrong half as often, which a
/// second pass ensures.
pub(super) fn take_back(rows: &mut [Row]) -> Result<(), Failure> {
    let mut compared: Vec<&mut Row> = rows.iter_mut().filter(|row| row.result.is_ok()).collect();
    if compared.len() < 2 {
        return Ok(());
    }
    let called = |of: fn(&Decision) -> f64, alpha: f64, rows: &[&mut Row]| {
        let evidence: Vec<f64> = rows.iter().filter_map(|row| row.result.as_ref().ok().map(of)).collect();
        ebh::called(&evidence, alpha).map_err(anyhow::Error::from)
    };
    let main = called(|decision| decision.evidence, ALPHA, &compared)?;
    let beside = called(|decision| decision.side_evidence, ALPHA / 2.0, &compared)?;
    for (row, (main, beside)) in compared.iter_mut().zip(main.into_iter().zip(beside)) {
        let stays = match row.said {
            Said::Call(Call::As(Difference::Slower | Difference::Faster)) => main,
            Said::Call(Call::SlowerBeside(_)) => beside,
            _ => true,
        };
        if !stays {
            row.said = Said::OneOfMany;
        }
    }
    Ok(())
}

/// True if [`take_back`] cannot change this row, whatever the rest of the `cases` show.
pub(super) fn is_final(row: &Row, cases: usize) -> bool {
    let needed = if cases > 1 { cases as f64 / ALPHA } else { 0.0 };
    match (row.said, &row.result) {
        (Said::Call(Call::As(Difference::Slower | Difference::Faster)), Ok(decision)) => decision.evidence >= needed,
        (Said::Call(Call::SlowerBeside(_)), Ok(decision)) => decision.side_evidence >= 2.0 * needed,
        _ => true,
    }
}

/// True if a slow-down beyond the region of equivalence is excluded although nothing is decided.
pub(super) fn bounded(row: &Row, rope: f64) -> bool {
    let open = matches!(row.said, Said::Call(Call::As(Difference::Undecided { .. })) | Said::OneOfMany);
    let excluded =
        |decision: &Decision| decision.change.high <= 1.0 + rope && decision.sides.iter().all(|side| !side.suspicious);
    open && row.result.as_ref().is_ok_and(excluded)
}

/// The exit code of all rows and budgets.
///
/// A case that is undecided between *same* and *faster* is not a failure: a slow-down beyond the region is excluded.
pub(super) fn exit(rows: &[Row], budgets: &[Verdict], rope: f64, fail_on: FailOn) -> Exit {
    let words = rows.iter().map(|row| row.result.as_ref().map_or_else(|(_, fate)| fate.word(), |_| "measured"));
    let slower = |row: &Row| matches!(row.said, Said::Call(Call::As(Difference::Slower) | Call::SlowerBeside(_)));
    let decided = |row: &Row| {
        slower(row)
            || matches!(row.said, Said::Call(Call::As(Difference::Same | Difference::Faster)))
            || bounded(row, rope)
    };
    let open = budgets.iter().any(|budget| budget.judged.state == State::Open);
    if let Some(exit) = Exit::of_outcomes(words) {
        exit
    } else if (rows.iter().any(slower) || broken(budgets)) && fail_on != FailOn::Never {
        Exit::Regression
    } else if (open || !rows.iter().all(decided)) && fail_on == FailOn::Undecided {
        Exit::Undecided
    } else {
        Exit::Ok
    }
}

#[cfg(test)]
pub(super) mod samples {
    use ellwand_core::record::BlockValues;
    use ellwand_core::stats::Change;

    use super::*;

    /// A row with this call: 2.2 ms against 2 ms, and two copies of the baseline that differ by 7 %.
    pub(in crate::cli) fn row(call: Call, evidence: f64) -> Row {
        let change = |ratio: f64| Change {
            ratio,
            low: ratio - 0.02,
            high: ratio + 0.02,
            difference: Difference::Undecided { blocks_needed: None },
        };
        let block = BlockValues {
            main: 0.1,
            second: None,
            control: 0.07,
            median: 0.1,
            p90: 0.1,
            mean: 0.1,
            weight: 1.0,
            bet: 1.0,
        };
        let decision = Decision {
            call,
            change: change(1.1),
            control: change(1.07),
            sides: Vec::new(),
            basis: ellwand_bench::compare::Basis::Wall,
            seconds: [2e-3, 2.2e-3],
            evidence,
            side_evidence: evidence,
            grain: 0.0,
            blocks: vec![block; 8],
            looks: vec![8],
            disturbed: 0.0,
            reported: Default::default(),
            samples: Default::default(),
            elapsed_s: 1.5,
            end: End::Planned,
            needed_s: None,
        };
        let names = ["plain".into(), "slower".into()];
        let (case, result) = ("w/n=1".into(), Ok(decision));
        let (budgets, remarks, given) =
            (Vec::new(), Vec::new(), Given { case_s: 20.0, seconds: 20.0, is_share: false });
        Row { case, names, result, given, said: Said::Call(call), budgets, one_below_s: None, remarks, measured: None }
    }

    #[test]
    fn a_final_row_is_never_taken_back() {
        // The others show nothing, which is the worst case.
        let sweep = |first: f64| {
            let others = (0..3).map(|_| row(Call::As(Difference::Same), 0.0));
            let mut rows: Vec<Row> = std::iter::once(row(Call::As(Difference::Slower), first)).chain(others).collect();
            let final_now = is_final(&rows[0], rows.len());
            take_back(&mut rows).unwrap();
            (final_now, rows[0].said == Said::OneOfMany)
        };
        assert_eq!(sweep(401.0), (true, false));
        assert_eq!(sweep(399.0), (false, true));
        assert!(is_final(&row(Call::As(Difference::Slower), 1.0), 1), "a single case is not taken back");
        assert!(!is_final(&row(Call::SlowerBeside("mean"), 799.0), 4));
        assert!(is_final(&row(Call::SlowerBeside("mean"), 801.0), 4));
    }
}
