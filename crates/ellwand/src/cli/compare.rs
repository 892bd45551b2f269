//! `compare`: is the candidate slower, faster or the same?

use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use anyhow::Context;
use clap::ArgMatches;
use ellwand_bench::arms::{self, LONG_RUN_NS, SLOT_NS, Sides, WARM_UP_NS};
use ellwand_bench::block::Spec;
use ellwand_bench::compare::{Basis, Call, Decision, NoDecision, Terms};
use ellwand_bench::plan::{Cell, Selection};
use ellwand_bench::worker::{Asked, Launch, Open};
use ellwand_bench::{Effort, Plan, commands, resolutions};
use ellwand_core::error::nearest;
use ellwand_core::record::Outcome as Fate;
use ellwand_core::stats::{Difference, ebh};
use ellwand_core::{Implementation, InputError, Parallelism, Registry};

use super::command::{is_set, limits, selected, text};
use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::{Outcome, baseline, ceilings, ci, output, records, signals, verdict};

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

/// Two things to compare at one case.
struct Contest {
    case: String,
    names: [String; 2],
    what: What,
}

enum What {
    Workers(Box<Sides>),
    Commands([String; 2]),
}

pub(super) fn compare(registry: &Registry, matches: &ArgMatches) -> Outcome {
    // The kernels of the self-check can be compared like any other; `list` does not show them.
    let mut all = registry.clone();
    ellwand_bench::selfcheck::register(&mut all);
    let rope = rope(matches)?;
    if !is_set(matches, "command") && text(matches, "workload").is_none() {
        let sides: Vec<_> =
            matches.get_many::<String>("side").into_iter().flatten().map(|side| records::record_at(side)).collect();
        if let [Some(baseline), Some(candidate)] = &sides[..] {
            return records::compare(matches, [baseline, candidate], rope);
        }
    }
    let contests = contests(&all, matches)?;
    let resolution = resolutions(registry, &Effort::Quick.settings()).into_values().fold(f64::NAN, f64::max);
    let interrupt = signals::stop_on_ctrl_c();
    let mut progress = Progress::new(contests.len());
    let mut rows = Vec::new();
    for (index, contest) in contests.into_iter().enumerate() {
        progress.cell(index, &contest.case);
        let terms = terms(matches, rope)?;
        let mut on_block = |done: usize, most: usize| progress.rounds(index, done as u32, most as u32);
        let result = match &contest.what {
            What::Workers(sides) => arms::compare(sides, &terms, interrupt, &mut on_block),
            What::Commands([a, b]) => commands::compare([a, b], &terms, interrupt, &mut on_block),
        };
        let result = match result {
            Ok(decision) => Ok(decision),
            Err(NoDecision::Ended { arm, outcome }) => Err((arm, outcome)),
            Err(NoDecision::Interrupted) => return Err(Failure::Interrupted),
            Err(NoDecision::Stats(error)) => return Err(anyhow::Error::from(error).into()),
        };
        let said = said(&result, resolution);
        rows.push(Row { case: contest.case, names: contest.names, result, said });
    }
    progress.finish();
    take_back(&mut rows)?;
    output::result(|out| match text(matches, "format") {
        Some("json") => verdict::write_json(&rows, rope, out),
        Some("junit") => ci::write_junit(&rows, rope, out),
        Some("github") => ci::write_github(&rows, rope, out),
        _ => verdict::write_lines(&rows, rope, out),
    })?;
    Ok(exit(&rows, text(matches, "fail-on").unwrap_or("undecided")))
}

/// What the two sides mean: shell commands, programs, or implementations.
fn contests(registry: &Registry, matches: &ArgMatches) -> Result<Vec<Contest>, Failure> {
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(42);
    if let (Some(revision), Some(workload)) = (text(matches, "baseline"), text(matches, "workload")) {
        let candidate = std::env::current_exe().context("this program's own path is unknown")?;
        // Whatever is misspelt is told before anything is built.
        let names = [revision.to_string(), "the work tree".to_string()];
        programs_at(registry, matches, workload, [&candidate, &candidate], &names, seed)?;
        let built = baseline::build(revision, &candidate)?;
        return Ok(programs_at(registry, matches, workload, [&built, &candidate], &names, seed)?);
    }
    let given: Vec<&String> = matches.get_many::<String>("side").into_iter().flatten().collect();
    let [baseline, candidate] = given[..] else {
        return Err(InputError::new("BASE CANDIDATE", "there must be two", "WORKLOAD:IMPLEMENTATION twice").into());
    };
    if is_set(matches, "command") {
        let both = [baseline.clone(), candidate.clone()];
        if let Some(empty) = both.iter().find(|command| command.trim().is_empty()) {
            return Err(InputError::new("--command", format!("'{empty}' is no command"), "two shell commands").into());
        }
        let names = both.clone().map(|command| format!("'{command}'"));
        return Ok(vec![Contest { case: "command".into(), names, what: What::Commands(both) }]);
    }
    let programs = [baseline, candidate].map(Path::new);
    if let Some(workload) = text(matches, "workload") {
        let names = programs.map(|program| program.display().to_string());
        return Ok(programs_at(registry, matches, workload, programs, &names, seed)?);
    }
    let (cells, names) = implementations(registry, matches, baseline, candidate)?;
    ceilings::check_memory(&cells, true)?;
    let launch = Launch::this_program();
    let contest = |cell: &Cell| Contest {
        case: cell.case.id(),
        names: names.clone(),
        what: What::Workers(Box::new(sides(cell, [0, 1], [&launch, &launch], seed))),
    };
    Ok(cells.iter().map(contest).collect())
}

/// Two programs built on Ellwand, at every case and implementation that is asked for.
fn programs_at(
    registry: &Registry,
    matches: &ArgMatches,
    workload: &str,
    programs: [&Path; 2],
    names: &[String; 2],
    seed: u64,
) -> Result<Vec<Contest>, InputError> {
    for (argument, program) in ["BASE", "CANDIDATE"].into_iter().zip(programs) {
        if !program.is_file() {
            return Err(InputError::new(argument, format!("{} is no file", program.display()), "a program")
                .help("without --workload the sides are WORKLOAD:IMPLEMENTATION"));
        }
    }
    // A name without a slash would be looked up in PATH.
    let paths = programs.map(|program| std::path::absolute(program).unwrap_or_else(|_| program.to_path_buf()));
    let launches = paths.map(Launch::program);
    let selection = Selection { workloads: vec![workload.to_string()], ..selected(registry, matches) };
    let cells = Plan::expand(registry, &selection)?.cells;
    ceilings::check_memory(&cells, true)?;
    let mut contests = Vec::new();
    for cell in &cells {
        for (index, implementation) in cell.implementations.iter().enumerate() {
            contests.push(Contest {
                case: format!("{} {}", cell.case.id(), implementation.name),
                names: names.clone(),
                what: What::Workers(Box::new(sides(cell, [index, index], [&launches[0], &launches[1]], seed))),
            });
        }
    }
    Ok(contests)
}

/// The cases, each with baseline and candidate, and the names of the two.
fn implementations(
    registry: &Registry,
    matches: &ArgMatches,
    baseline: &str,
    candidate: &str,
) -> Result<(Vec<Cell>, [String; 2]), InputError> {
    let (workload, first) = side("BASE", baseline)?;
    let (other, second) = side("CANDIDATE", candidate)?;
    if workload != other {
        return Err(InputError::new(
            "CANDIDATE",
            format!("{workload} and {other} are different tasks"),
            format!("an implementation of {workload}, such as {workload}:{second}"),
        ));
    }
    let mut selection = Selection { workloads: vec![workload.to_string()], ..selected(registry, matches) };
    if registry.find(workload).is_some() {
        for (argument, name) in [("BASE", first), ("CANDIDATE", second)] {
            known_implementation(registry, argument, workload, name)?;
        }
        selection.implementations = vec![first.to_string(), second.to_string()];
    }
    let mut cells = Plan::expand(registry, &selection)?.cells;
    for cell in &mut cells {
        let find = |name: &str| cell.implementations.iter().find(|known| known.name == name).cloned();
        let both: Vec<Implementation> = [first, second].into_iter().filter_map(find).collect();
        cell.implementations = both;
    }
    Ok((cells, [first.to_string(), second.to_string()]))
}

fn side<'a>(argument: &str, text: &'a str) -> Result<(&'a str, &'a str), InputError> {
    match text.split_once(':') {
        Some((workload, implementation)) if !workload.is_empty() && !implementation.is_empty() => {
            Ok((workload, implementation))
        }
        _ => Err(InputError::new(argument, format!("'{text}' names no implementation"), "WORKLOAD:IMPLEMENTATION")
            .help("`list` shows both, for example fma:simd")),
    }
}

fn known_implementation(registry: &Registry, argument: &str, workload: &str, name: &str) -> Result<(), InputError> {
    let known: Vec<&str> = registry.implementations(workload).into_iter().map(|known| known.name.as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let error = InputError::new(
        argument,
        format!("{workload} has no implementation '{name}'"),
        format!("one of {}", known.join(", ")),
    );
    Err(match nearest(name, known) {
        Some(near) => error.help(format!("did you mean {workload}:{near}?")),
        None => error,
    })
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

/// Baseline and candidate: which implementations of the cell, in which programs.
fn sides(cell: &Cell, which: [usize; 2], launches: [&Launch; 2], seed: u64) -> Sides {
    let implementations = which.map(|index| &cell.implementations[index]);
    let spec = |side: usize| Spec {
        launch: launches[side].clone(),
        open: Open {
            asked: Asked::new(&cell.case, &implementations[side].name),
            seed,
            slot_min_ns: SLOT_NS,
            warm_up_ns: WARM_UP_NS,
            long_run_ns: LONG_RUN_NS,
            pin: implementations.iter().all(|one| one.parallelism == Parallelism::Single),
            ..Open::default()
        },
        together: true,
    };
    Sides { baseline: spec(0), candidate: spec(1), parallelism: implementations.map(|one| one.parallelism) }
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
fn take_back(rows: &mut [Row]) -> Result<(), Failure> {
    let compared: Vec<&mut Row> = rows.iter_mut().filter(|row| row.result.is_ok()).collect();
    if compared.len() < 2 {
        return Ok(());
    }
    let evidence: Vec<f64> = compared.iter().filter_map(|row| Some(row.result.as_ref().ok()?.evidence)).collect();
    let called = ebh::called(&evidence, ALPHA).map_err(anyhow::Error::from)?;
    for (row, called) in compared.into_iter().zip(called) {
        if !called && matches!(row.said, Said::Call(Call::As(Difference::Slower | Difference::Faster))) {
            row.said = Said::OneOfMany;
        }
    }
    Ok(())
}

fn exit(rows: &[Row], fail_on: &str) -> Exit {
    let ended = |word: &str| rows.iter().any(|row| matches!(&row.result, Err((_, fate)) if fate.word() == word));
    let slower = |row: &Row| matches!(row.said, Said::Call(Call::As(Difference::Slower) | Call::SlowerBeside(_)));
    let decided =
        |row: &Row| slower(row) || matches!(row.said, Said::Call(Call::As(Difference::Same | Difference::Faster)));
    if ended("wrong") {
        Exit::Wrong
    } else if ended("failed") {
        Exit::Error
    } else if !rows.iter().any(|row| row.result.is_ok()) {
        Exit::Nothing
    } else if rows.iter().any(slower) && fail_on != "never" {
        Exit::Regression
    } else if !rows.iter().all(decided) && fail_on == "undecided" {
        Exit::Undecided
    } else {
        Exit::Ok
    }
}
