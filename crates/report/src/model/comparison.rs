//! Comparisons: ratio and interval recomputed from the block values, and verdicts corrected for the number of
//! comparisons in the record.

use ellwand_core::record::{Basis, BlockValues, Comparison, Record};
use ellwand_core::stats::{
    Centre, DecisionRule, Difference, Weighted, decide_weighted, ebh, median, weighted_evidence,
};
use serde::Serialize;

use crate::units::clean;

/// Baseline against candidate at one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonInfo {
    /// Index into [`super::Report::runs`].
    pub run: usize,
    /// Id of the case.
    pub case: String,
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the candidate.
    pub candidate: String,
    /// `slower`, `faster`, `same`, `undecided`, `slower-beside`, `withheld`, `below-resolution` or `none`.
    pub verdict: String,
    /// Why there is no verdict, or remarks on it.
    pub note: Option<String>,
    /// Time of the candidate divided by that of the baseline.
    pub ratio: Option<f64>,
    /// Lower end of the interval of the ratio.
    pub low: Option<f64>,
    /// Upper end of the interval of the ratio.
    pub high: Option<f64>,
    /// The statistic that is slower if the verdict is `slower-beside`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Confidence of the interval, as a share.
    pub confidence: f64,
    /// Region of practical equivalence, as a share (0.01 for 1 %).
    pub rope: f64,
    /// Number of blocks: fresh processes per side.
    pub blocks: usize,
    /// Description of the time that was compared.
    pub judged_by: String,
    /// Median seconds per iteration on that time, over slots or, for the shortest run of a block, over blocks: baseline,
    /// candidate.
    pub time_s: [Option<f64>; 2],
    /// What ran (instruction set, threads): baseline, candidate.
    pub what_ran: [String; 2],
    /// Elapsed time of the comparison in seconds.
    pub elapsed_s: f64,
    /// Share of that time inside slots; the rest started processes, checked answers and let arms settle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_share: Option<f64>,
}

impl ComparisonInfo {
    /// True if shell commands were compared.
    pub(crate) fn is_of_commands(&self) -> bool {
        self.case == COMMAND
    }
}

/// The case of a comparison of shell commands.
const COMMAND: &str = "command";

/// The answer to a side question, about the slots of a block instead of the compared time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Beside {
    /// The statistic over the slots of a block: `median`, `p90` or `mean`.
    pub statistic: &'static str,
    /// The candidate's statistic divided by the baseline's.
    pub ratio: f64,
    /// Lower end of the interval of the ratio.
    pub low: f64,
    /// Upper end of the interval of the ratio.
    pub high: f64,
}

/// The comparisons of all runs.
pub(super) fn comparisons(records: &[Record]) -> Vec<ComparisonInfo> {
    records.iter().enumerate().flat_map(|(run, record)| of_run(run, record)).collect()
}

/// The comparisons of a record. As in `compare`, differences that chance can produce among this many cases become
/// undecided (e-BH); main verdicts and side verdicts are corrected separately.
fn of_run(run: usize, record: &Record) -> Vec<ComparisonInfo> {
    let mut infos: Vec<ComparisonInfo> = record.comparisons.iter().map(|comparison| one(run, comparison)).collect();
    // The side questions test one direction only, at half the error probability.
    for (of, words, share) in [
        (support as fn(&Comparison) -> Option<f64>, &["slower", "faster"][..], 1.0),
        (side_e_value, &["slower-beside"], 0.5),
    ] {
        let compared: Vec<(usize, f64)> =
            record.comparisons.iter().enumerate().filter_map(|(index, c)| Some((index, of(c)?))).collect();
        if compared.len() < 2 {
            continue;
        }
        let count = compared.len();
        let evidence: Vec<f64> = compared.iter().map(|(_, evidence)| *evidence).collect();
        let alpha = share * record.comparisons[compared[0].0].alpha;
        let called = ebh::called(&evidence, alpha).unwrap_or_else(|_| vec![false; evidence.len()]);
        for ((index, _), called) in compared.into_iter().zip(called) {
            if !called && words.contains(&infos[index].verdict.as_str()) {
                infos[index].verdict = "undecided".into();
                infos[index].beside = None;
                let expected = format!("among {count} cases chance alone produces one such result");
                let notes = infos[index].note.take().map(|note| format!("; {note}")).unwrap_or_default();
                infos[index].note = Some(format!("{expected}{notes}"));
            }
        }
    }
    infos
}

/// E-value of the main question: a difference in either direction.
fn support(comparison: &Comparison) -> Option<f64> {
    let main: Vec<Weighted> = comparison.blocks.iter().map(BlockValues::main).collect();
    if main.is_empty() {
        None
    } else {
        weighted_evidence(&main, comparison.rope, comparison.stakes).ok().map(|e| e.either())
    }
}

/// A statistic over the slots of a block, and the logarithm of its ratio.
type Question = (&'static str, fn(&BlockValues) -> f64);
/// The side questions in the order in which they are asked.
const QUESTIONS: [Question; 3] =
    [("median", |block| block.median), ("p90", |block| block.p90), ("mean", |block| block.mean)];

/// Number of rounds of each block, with which the side questions weight it.
fn rounds(comparison: &Comparison) -> Option<Vec<f64>> {
    let slots = &comparison.arms.get(1)?.samples;
    let rounds = |block: usize| slots.iter().filter(|slot| slot.block as usize == block).count().max(1) as f64;
    Some((0..comparison.blocks.len()).map(rounds).collect())
}

/// The blocks of a side question, weighted by their rounds.
fn by_rounds(comparison: &Comparison, rounds: &[f64], value: fn(&BlockValues) -> f64) -> Vec<Weighted> {
    let of = |(block, rounds): (&BlockValues, &f64)| Weighted {
        weight: *rounds,
        bet: *rounds,
        ..Weighted::plain(value(block))
    };
    comparison.blocks.iter().zip(rounds).map(of).collect()
}

/// The first side question that is answered with "slower"; in a record made by other rules, the one with the largest
/// ratio.
fn slower_beside(comparison: &Comparison) -> Option<Beside> {
    let rounds = rounds(comparison)?;
    let alpha = comparison.alpha / QUESTIONS.len() as f64;
    let rule = DecisionRule::new(comparison.rope, alpha, &comparison.looks).ok()?.with_stakes(comparison.stakes);
    let rule = rule.with_centre(Centre::Mean).with_curve(comparison.spending);
    let answer = |(statistic, value): Question| {
        Some((statistic, decide_weighted(&by_rounds(comparison, &rounds, value), &rule).ok()?))
    };
    let answers: Vec<_> = QUESTIONS.into_iter().filter_map(answer).collect();
    let slower = answers.iter().find(|(_, change)| change.difference == Difference::Slower);
    let (statistic, change) = slower.or(answers.iter().max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio)))?;
    Some(Beside { statistic, ratio: change.ratio, low: change.low, high: change.high })
}

/// E-value of the side questions: the mean of their e-values for "slower".
fn side_e_value(comparison: &Comparison) -> Option<f64> {
    let rounds = rounds(comparison)?;
    let of = |(_, value): Question| {
        let blocks = by_rounds(comparison, &rounds, value);
        weighted_evidence(&blocks, comparison.rope, comparison.stakes).ok().map(|found| found.slower.now)
    };
    let all: Vec<f64> = QUESTIONS.into_iter().map(of).collect::<Option<_>>()?;
    if comparison.blocks.is_empty() { None } else { Some(all.iter().sum::<f64>() / all.len() as f64) }
}

fn one(run: usize, comparison: &Comparison) -> ComparisonInfo {
    let (change, broken) = match comparison.change() {
        Ok(change) => (change, None),
        Err(error) => (None, Some(format!("invalid block values: {error}"))),
    };
    let ended = comparison.ended.as_ref().map(|ended| {
        format!("{} {}: {}", ended.arm, ended.outcome.word(), clean(ended.outcome.reason().unwrap_or("")))
    });
    let remark = comparison.compared.and_then(|compared| compared.remark());
    let notes: Vec<String> = comparison.notes.iter().cloned().chain(remark).collect();
    let notes = (!notes.is_empty()).then(|| clean(&notes.join("; ")));
    let arm = |index: usize| comparison.arms.get(index);
    // Records that do not name the compared time used the elapsed time.
    let basis = comparison.basis.unwrap_or(Basis::Wall);
    let time = |index: usize| {
        // The samples of a block are adjacent.
        let blocks = arm(index)?.samples.chunk_by(|a, b| a.block == b.block);
        median(&blocks.flat_map(|block| basis.values(block)).collect::<Vec<_>>())
    };
    ComparisonInfo {
        run,
        case: clean(&comparison.case),
        baseline: clean(&comparison.baseline),
        candidate: clean(&comparison.candidate),
        verdict: if broken.is_some() { "none".into() } else { clean(&comparison.verdict) },
        note: broken.or(ended).or(notes),
        ratio: change.map(|change| change.ratio),
        low: change.map(|change| change.low),
        high: change.map(|change| change.high),
        beside: slower_beside(comparison).filter(|_| comparison.verdict == "slower-beside"),
        confidence: 1.0 - comparison.alpha,
        rope: comparison.rope,
        blocks: comparison.blocks.len(),
        judged_by: clean(&comparison.judged_by),
        time_s: [time(0), time(1)],
        what_ran: [0, 1].map(|index| arm(index).map_or_else(String::new, |arm| clean(&arm.what_ran))),
        elapsed_s: comparison.elapsed_s,
        slot_share: comparison.slot_share(),
    }
}
