//! `compare`: is the candidate slower, faster or the same?

use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use ellwand_bench::compare::{Basis, Call, Decision, NoDecision, Terms};
use ellwand_bench::{Effort, arms, commands, resolutions};
use ellwand_core::record::Outcome as Fate;
use ellwand_core::stats::{Difference, ebh};
use ellwand_core::{InputError, Registry};

use super::budgets::{self, Budgets, State};
use super::command::{caches_of, is_set, limits, text};
use super::contests::{Candidate, What, contests, refuse_cases};
use super::exit::{Exit, Failure};
use super::keeping::Keeper;
use super::progress::Progress;
use super::{Outcome, ci, output, records, signals, verdict};

/// Probability of a wrong verdict, for a case and for the report.
pub(super) const ALPHA: f64 = 0.01;

/// One case and what came of it.
pub(super) struct Row {
    /// The case.
    pub(super) case: String,
    /// Baseline and candidate.
    pub(super) names: [String; 2],
    /// The decision, or how an arm ended.
    pub(super) result: Result<Decision, (&'static str, Fate)>,
    /// What is printed: the decision's own call unless the sweep or the resolution takes it back.
    pub(super) said: Said,
    /// Budgets that the candidate was held against.
    pub(super) budgets: Vec<budgets::Verdict>,
    /// Workload and implementation of a candidate that was measured.
    pub(super) measured: Option<[String; 2]>,
}

/// What a row says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Said {
    /// What the comparison alone says.
    Call(Call),
    /// A call that so many cases produce by chance too often: taken back (e-BH over the report).
    OneOfMany,
    /// Both are faster than this instrument can tell from nothing, in seconds.
    BelowResolution(f64),
    /// There is no decision.
    Nothing,
}

pub(super) fn compare(registry: &Registry, matches: &ArgMatches, line: Vec<String>) -> Outcome {
    // The kernels of the self-check can be compared like any other; `list` does not show them.
    let mut all = registry.clone();
    ellwand_bench::selfcheck::register(&mut all);
    let rope = rope(matches)?;
    if !caches_of(matches).is_warm() {
        let problem = "verdicts are for warm caches: the self-check that bounds how often they are wrong was taken so";
        let help =
            "`run --caches cold` measures the same implementations out of cold caches, with intervals and no verdict";
        return Err(InputError::new("--caches", problem, "--caches warm").help(help).into());
    }
    if !is_set(matches, "command") && text(matches, "workload").is_none() {
        let sides: Vec<_> =
            matches.get_many::<String>("side").into_iter().flatten().map(|side| records::record_at(side)).collect();
        refuse_missing_record(matches, &sides)?;
        if let [Some(baseline), Some(candidate)] = &sides[..] {
            refuse_cases(registry, matches, "two records hold the cases that they hold")?;
            if text(matches, "output").is_some() {
                let expected = "no -o: nothing is measured that could be kept";
                return Err(InputError::new("-o", "two records are compared", expected).into());
            }
            let measuring = ["blocks", "seed", "time-limit", "overwrite"];
            refuse_given(
                matches,
                &measuring,
                "two records are compared",
                "nothing is measured, and nothing is decided",
            )?;
            return records::compare(matches, [baseline, candidate], rope);
        }
    }
    if is_set(matches, "command") {
        refuse_given(matches, &["seed"], "shell commands are compared", "what they work on is theirs")?;
    }
    // Terms cannot fail later on when they do not fail now.
    terms(matches, rope)?;
    let limits = budgets::load(registry, matches)?;
    let contests = contests(&all, matches, limits.as_ref().is_some_and(Budgets::ask_for_memory))?;
    let mut keeper = Keeper::begin(registry, matches, &line)?;
    let resolution = resolutions(registry, &Effort::Quick.settings()).into_values().fold(f64::NAN, f64::max);
    let interrupt = signals::stop_on_ctrl_c(signals::DECIDED_TOLD);
    let cases: Vec<String> = contests.iter().map(|contest| contest.case.clone()).collect();
    let mut progress = Progress::named(&cases);
    let planned = contests.len();
    let program = contests.iter().find_map(|contest| Some(contest.candidate.as_ref()?.program.clone()));
    let mut rows: Vec<Row> = Vec::new();
    for (index, contest) in contests.into_iter().enumerate() {
        progress.cell(index, &contest.case);
        let terms = terms(matches, rope)?.among(planned);
        let mut on_block = |done: usize, most: usize| progress.rounds(index, done as u32, most as u32);
        let result = match &contest.what {
            What::Workers(sides) => arms::compare(sides, &terms, interrupt, &mut on_block),
            What::Commands([a, b]) => {
                let same_output = is_set(matches, "same-output");
                commands::compare([a, b], same_output, &terms, interrupt, &mut on_block)
            }
        };
        let result = match result {
            Ok(decision) => Ok(decision),
            Err(NoDecision::Ended { arm, outcome }) => Err((arm, outcome)),
            Err(NoDecision::Interrupted) => break,
            Err(NoDecision::Stats(error)) => return Err(anyhow::Error::from(error).into()),
        };
        let said = said(&result, resolution);
        let budgets = match (&limits, &contest.candidate) {
            (Some(limits), Some(candidate)) => judged(limits, candidate, &contest.case, &result, resolution),
            _ => Vec::new(),
        };
        let measured = contest.candidate.filter(|_| result.is_ok());
        let measured = measured.map(|candidate| [candidate.case.workload, candidate.implementation]);
        let row = Row { measured, case: contest.case, names: contest.names, result, said, budgets };
        if let Some(keeper) = &mut keeper {
            keeper.keep(&row, &terms)?;
        }
        rows.push(row);
    }
    progress.finish();
    let interrupted = rows.len() < planned;
    take_back(&mut rows)?;
    let of_program = limits.as_ref().zip(program).and_then(|(limits, program)| limits.judge_program(&program));
    let all_budgets: Vec<budgets::Verdict> =
        of_program.into_iter().chain(rows.iter().flat_map(|row| row.budgets.clone())).collect();
    let candidates = rows.iter().filter_map(|row| row.measured.as_ref());
    let measured: Vec<(&str, &str)> = candidates.map(|[workload, name]| (workload.as_str(), name.as_str())).collect();
    let unmatched = limits.as_ref().map_or_else(Vec::new, |limits| limits.unmatched(&measured, &all_budgets));
    let gated: Vec<budgets::Verdict> = all_budgets.iter().chain(&unmatched).cloned().collect();
    let told = output::result(|out| match text(matches, "format") {
        Some("json") => verdict::write_json(&rows, &all_budgets, rope, out),
        Some("junit") => ci::write_junit(&rows, &gated, rope, out),
        Some("github") => ci::write_github(&rows, &gated, rope, out),
        _ => output::prose(out, |out| verdict::write_lines(&rows, &all_budgets, rope, out)),
    });
    unmatched.iter().for_each(|budget| output::note(&format!("note: budget unmatched: {}", budget.line())));
    if is_set(matches, "command") && !is_set(matches, "same-output") && rows.iter().any(|row| row.result.is_ok()) {
        output::note("note: what the commands print was not compared; --same-output does that");
    }
    if let Some(keeper) = keeper {
        keeper.end(matches)?;
    }
    told?;
    if interrupted {
        output::note(&format!("interrupted: {} of {planned} cases were compared", rows.len()));
        return Ok(Exit::Interrupted);
    }
    Ok(exit(&rows, &all_budgets, text(matches, "fail-on").unwrap_or("undecided")))
}

/// Refuses options that would change nothing.
fn refuse_given(matches: &ArgMatches, options: &[&str], what: &str, why: &str) -> Result<(), InputError> {
    let given = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match options.iter().find(given) {
        Some(id) => Err(InputError::new(format!("--{id}"), what, format!("no --{id}: {why}"))),
        None => Ok(()),
    }
}

/// Where one side is a record, or is named like one, the other that is none is told by its name.
fn refuse_missing_record(matches: &ArgMatches, found: &[Option<PathBuf>]) -> Result<(), InputError> {
    let sides: Vec<&String> = matches.get_many::<String>("side").into_iter().flatten().collect();
    let like_one = |side: &str| Path::new(side).extension().is_some_and(|extension| extension == "jsonl");
    if !found.iter().any(Option::is_some) && !sides.iter().any(|side| like_one(side)) {
        return Ok(());
    }
    let missing = ["BASE", "CANDIDATE"].into_iter().zip(sides).zip(found).find(|(_, found)| found.is_none());
    match missing {
        Some(((argument, side), _)) => Err(InputError::new(
            argument,
            format!("'{side}' is no record, and the other side is named like one"),
            "a record.jsonl as `run` writes it, or the directory that holds one",
        )),
        None => Ok(()),
    }
}

/// The candidate against its budgets, over the blocks of the comparison.
fn judged(
    limits: &Budgets,
    candidate: &Candidate,
    name: &str,
    result: &Result<Decision, (&'static str, Fate)>,
    resolution_ns: f64,
) -> Vec<budgets::Verdict> {
    let subject = budgets::Subject {
        workload: &candidate.case.workload,
        value: &|axis| candidate.case.get(axis).cloned(),
        implementation: &candidate.implementation,
        parallelism: candidate.parallelism,
        items: candidate.items,
        samples: match result {
            Ok(decision) => Ok(&decision.samples[1]),
            Err(_) => Err("there is no comparison"),
        },
        readings: result.as_ref().map_or(&[], |decision| &decision.readings[1]),
        resolution_s: Some(resolution_ns * 1e-9),
    };
    limits.judge(name, &subject)
}

/// The region of practical equivalence as a share.
pub(super) fn rope(matches: &ArgMatches) -> Result<f64, InputError> {
    let asked = text(matches, "rope").unwrap_or("1");
    match asked.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(InputError::new("--rope", format!("'{asked}' is no share"), "per cent from 0 to 100, such as 0.5")),
    }
}

/// Terms with coins of their own: what a verdict promises rests on coins that nobody could foresee.
pub(super) fn terms(matches: &ArgMatches, rope: f64) -> Result<Terms, Failure> {
    let coin = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let most = matches.try_get_one::<u32>("blocks").ok().flatten().map(|blocks| *blocks as usize);
    if let Some(most) = most.filter(|most| *most < 2) {
        return Err(InputError::new("--blocks", format!("{most} is too few"), "2 or more; 8 for a verdict").into());
    }
    Terms::new(rope, ALPHA, most, limits(matches), coin).map_err(|error| anyhow::Error::from(error).into())
}

fn said(result: &Result<Decision, (&'static str, Fate)>, resolution_ns: f64) -> Said {
    match result {
        Err(_) => Said::Nothing,
        Ok(decision)
            if decision.basis != Basis::Shortest
                && decision.seconds.iter().all(|seconds| *seconds < resolution_ns * 1e-9) =>
        {
            Said::BelowResolution(resolution_ns * 1e-9)
        }
        Ok(decision) => Said::Call(decision.call),
    }
}

/// A report of many cases promises what a single one promises: calls that chance alone produces among so many are taken back.
/// The questions beside the main one may be wrong once more, all cases together, and are held to that by themselves.
fn take_back(rows: &mut [Row]) -> Result<(), Failure> {
    let mut compared: Vec<&mut Row> = rows.iter_mut().filter(|row| row.result.is_ok()).collect();
    if compared.len() < 2 {
        return Ok(());
    }
    let called = |of: fn(&Decision) -> f64, rows: &[&mut Row]| {
        let evidence: Vec<f64> = rows.iter().filter_map(|row| row.result.as_ref().ok().map(of)).collect();
        ebh::called(&evidence, ALPHA).map_err(anyhow::Error::from)
    };
    let main = called(|decision| decision.evidence, &compared)?;
    let beside = called(|decision| decision.side_evidence, &compared)?;
    for (row, (main, beside)) in compared.iter_mut().zip(main.into_iter().zip(beside)) {
        let stands = match row.said {
            Said::Call(Call::As(Difference::Slower | Difference::Faster)) => main,
            Said::Call(Call::SlowerBeside(_)) => beside,
            _ => true,
        };
        if !stands {
            row.said = Said::OneOfMany;
        }
    }
    Ok(())
}

fn exit(rows: &[Row], budgets: &[budgets::Verdict], fail_on: &str) -> Exit {
    let ended = |word: &str| rows.iter().any(|row| matches!(&row.result, Err((_, fate)) if fate.word() == word));
    let slower = |row: &Row| matches!(row.said, Said::Call(Call::As(Difference::Slower) | Call::SlowerBeside(_)));
    let decided =
        |row: &Row| slower(row) || matches!(row.said, Said::Call(Call::As(Difference::Same | Difference::Faster)));
    let open = budgets.iter().any(|budget| budget.judged.state == State::Open);
    if ended("wrong") {
        Exit::Wrong
    } else if ended("failed") {
        Exit::Error
    } else if !rows.iter().any(|row| row.result.is_ok()) {
        Exit::Nothing
    } else if (rows.iter().any(slower) || budgets::broken(budgets)) && fail_on != "never" {
        Exit::Regression
    } else if (open || !rows.iter().all(decided)) && fail_on == "undecided" {
        Exit::Undecided
    } else {
        Exit::Ok
    }
}
