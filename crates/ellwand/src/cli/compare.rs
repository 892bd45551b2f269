//! `compare`: is the candidate slower, faster or the same?

use std::path::{Path, PathBuf};

use ellwand_bench::commands::{self, Commands};
use ellwand_bench::compare::{AGE_S, End, NoDecision, Terms};
use ellwand_bench::{Effort, arms, resolutions, reuse};
use ellwand_core::record::{Outcome as Fate, Sample, share_of_others};
use ellwand_core::{InputError, Parallelism, Registry};

use super::args::{CompareArgs, Form};
use super::budgets::{self, Budgets, Verdict};
use super::contests::{Candidate, Contest, What, contests, remark_once};
use super::exit::{Exit, Failure, Outcome};
use super::keeping::Keeper;
use super::lines::Lines;
use super::progress::{Left, Progress};
use super::rows::{self, Decided, Row, Said};
use super::time::{self, Clock, Given};
use super::{certificate, ci, exit, output, records, report, signals, verdict};
use ellwand_report::units;

pub(super) fn compare(registry: &Registry, args: &CompareArgs, line: Vec<String>) -> Outcome {
    let mut spoke = false;
    let outcome = of_sides(registry, args, line, &mut spoke);
    // A program that only reads verdicts must not mistake an error for an empty result.
    if let (Err(failure @ (Failure::Input(_) | Failure::Other(_))), false) = (&outcome, spoke) {
        exit::allow_unread(output::result(|out| match args.format {
            Form::Junit => ci::write_suite("ellwand compare", &[ci::of_failure(failure)], out),
            Form::Github => ci::of_failure(failure).annotate(out),
            _ => Ok(()),
        }))?;
    }
    outcome
}

fn of_sides(registry: &Registry, args: &CompareArgs, line: Vec<String>, spoke: &mut bool) -> Outcome {
    refuse_cold(args)?;
    let format = Form::VERDICTS.into_iter().find(|(_, form)| *form == args.format).map_or("table", |(name, _)| name);
    report::no_file(args.session.output.as_deref(), format)?;
    if let Some([baseline, candidate]) = records_given(args)? {
        refuse_measuring(args)?;
        return records::compare(args, [&baseline, &candidate]);
    }
    if args.command && args.cases.seed.is_some() {
        return Err(unheeded("--seed", "shell commands are compared", "the commands choose their own inputs").into());
    }
    if args.command && args.session.config.is_some() {
        return Err(unheeded("--config", "shell commands are compared", "budgets are about workloads").into());
    }
    // If the terms are valid now, they cannot fail later.
    rows::terms(args.rope, args.blocks, args.limit.limits())?;
    let limits = if args.command { None } else { budgets::find(registry, args.session.config.as_deref())? };
    // From here on Ctrl-C must leave everything consistent.
    signals::stop_on_ctrl_c(signals::NOTHING_KEPT);
    // The kernels of the self-check can be compared like any others; `list` does not show them.
    let mut all = registry.clone();
    ellwand_bench::selfcheck::register(&mut all);
    let mut contests = contests(&all, args, limits.as_ref().is_some_and(Budgets::ask_for_memory))?;
    remark_once(&mut contests);
    let planned = contests.len();
    let program = contests.iter().find_map(|contest| Some(contest.candidate.as_ref()?.program.clone()));
    let mut keeper = Keeper::begin(registry, args, line)?;
    let resolution = resolutions(registry, &Effort::Quick.settings()).into_values().fold(f64::NAN, f64::max);
    let mut lines = Lines::new(args.format, args.rope, planned);
    let (mut rows, unkept) = measure(args, contests, limits.as_ref(), resolution, keeper.as_mut(), &mut lines)?;
    rows::take_back(&mut rows)?;
    let (judged, unmatched) = match &limits {
        Some(limits) => verdicts(limits, program.as_deref(), &rows),
        None => (Vec::new(), Vec::new()),
    };
    let cut = cut(&rows, planned, unkept.as_ref());
    *spoke = true;
    let printed = print(args, &rows, cut.as_deref(), [&judged, &unmatched], lines);
    unmatched.iter().for_each(|budget| output::note(&format!("note: budget unmatched: {}", budget.line())));
    if let Ok(None) = certificate::stored(&ellwand_bench::environment::detect()) {
        output::note(
            "note: no self-check yet; `ellwand selfcheck --quick` (2 min) measures this machine's false-positive rate",
        );
    }
    if args.command && !args.same_output && rows.iter().any(|row| row.result.is_ok()) {
        output::note("note: the output of the commands was not compared; --same-output compares it");
    }
    if let Some(failure) = unkept {
        return Err(failure);
    }
    if let Some(keeper) = keeper {
        keeper.end(rows::whole(&rows) < planned)?;
    }
    exit::allow_unread(printed)?;
    if let Some(cut) = cut {
        output::note(&cut);
        return Ok(Exit::Interrupted);
    }
    Ok(rows::exit(&rows, &judged, args.rope, args.fail_on))
}

fn refuse_cold(args: &CompareArgs) -> Result<(), InputError> {
    if args.caches.is_warm() {
        return Ok(());
    }
    let problem = "verdicts are for warm caches only, as is the self-check that bounds their error rate";
    let help = "`run --caches cold` measures the same implementations with cold caches, with intervals but no verdict";
    Err(InputError::new("--caches", problem, "--caches warm").help(help))
}

/// The error about an option that would have no effect.
fn unheeded(flag: &str, what: &str, why: &str) -> InputError {
    InputError::new(flag, what, format!("no {flag}: {why}"))
}

/// The two records, if the sides are records. If one is a record, or is named like one, the other must be one too.
fn records_given(args: &CompareArgs) -> Result<Option<[PathBuf; 2]>, InputError> {
    if args.command || args.workload.is_some() {
        return Ok(None);
    }
    let found: Vec<Option<PathBuf>> = args.sides().into_iter().map(|side| records::record_at(side)).collect();
    if let [Some(baseline), Some(candidate)] = &found[..] {
        return Ok(Some([baseline.clone(), candidate.clone()]));
    }
    let like_one = |side: &&String| Path::new(side).extension().is_some_and(|extension| extension == "jsonl");
    if !found.iter().any(Option::is_some) && !args.sides().iter().any(like_one) {
        return Ok(None);
    }
    let mut sides = ["BASE", "CANDIDATE"].into_iter().zip(args.sides()).zip(found);
    let Some(((argument, side), _)) = sides.find(|(_, found)| found.is_none()) else { return Ok(None) };
    let what = if Path::new(side).exists() { "is not a record" } else { "does not exist" };
    let problem = format!("'{side}' {what}, but the other side is a record or is named like one");
    Err(InputError::new(argument, problem, "a record.jsonl as written by `run`, or the directory that holds one"))
}

/// A note that some of the `planned` cases were not completely compared, and why.
fn cut(rows: &[Row], planned: usize, unkept: Option<&Failure>) -> Option<String> {
    let whole = rows::whole(rows);
    let why = unkept.map_or("interrupted".to_string(), |failure| failure.to_string());
    (whole < planned).then(|| format!("{why}: {whole} of {planned} cases were compared completely"))
}

/// Refuses options that apply only to a measurement if two records are compared.
fn refuse_measuring(args: &CompareArgs) -> Result<(), InputError> {
    args.refuse_cases("the cases are those of the two records")?;
    if args.session.output.is_some() {
        return Err(unheeded("-o", "two records are compared", "nothing is measured, so there is nothing to save"));
    }
    match args.flag_of_measuring() {
        Some(flag) => Err(unheeded(flag, "two records are compared", "nothing is measured, and nothing is decided")),
        None => Ok(()),
    }
}

/// Decides one contest, or reports how an arm ended; `None` if the user interrupted before there was any result.
fn decided(
    args: &CompareArgs,
    what: &What,
    (terms, given): (&Terms, Given),
    on_block: &mut dyn FnMut(f64, f64),
) -> Result<Option<Decided>, Failure> {
    let interrupt = signals::flag();
    let result = match what {
        What::Workers(sides) => arms::compare(sides, terms, interrupt, on_block),
        What::Commands([a, b]) => {
            let prepare = [args.prepare.first(), args.prepare.last()].map(|one| one.map(String::as_str));
            let commands = Commands { timed: [a, b], prepare, same_output: args.same_output };
            commands::compare(commands, terms, interrupt, on_block)
        }
    };
    Ok(Some(match result {
        Ok(decision) => Ok(decision),
        Err(NoDecision::Ended { arm, outcome }) => Err((arm, outcome)),
        Err(NoDecision::Interrupted) => return Ok(None),
        Err(NoDecision::OutOfTime(needed_s)) => {
            let why = match what {
                What::Workers(_) => time::too_little(given, needed_s),
                What::Commands(_) => time::too_little_for_commands(given, needed_s),
            };
            Err((verdict::COMPARISON, Fate::Unsupported { why }))
        }
        Err(NoDecision::Late(side)) => {
            let why = match what {
                What::Workers(_) => time::late(given, side),
                What::Commands(_) => time::late_command(given, side),
            };
            Err((verdict::COMPARISON, Fate::Unsupported { why }))
        }
        Err(NoDecision::Stats(error)) => return Err(anyhow::Error::from(error).into()),
    }))
}

/// Decides one contest after another, until the last one, until the user interrupts, or until a row cannot be saved:
/// the error is then returned with the rows.
fn measure(
    args: &CompareArgs,
    contests: Vec<Contest>,
    limits: Option<&Budgets>,
    resolution_ns: f64,
    mut keeper: Option<&mut Keeper>,
    lines: &mut Lines,
) -> Result<(Vec<Row>, Option<Failure>), Failure> {
    signals::stop_on_ctrl_c(signals::DECIDED_KEPT);
    let cases: Vec<String> = contests.iter().map(|contest| contest.case.clone()).collect();
    let clock = Clock::start(args, cases.len());
    // Before the bar is drawn: text printed next to a bar leaves a copy of the bar.
    output::note(&clock.sentence());
    let mut progress = Progress::named(&cases);
    let (mut rows, mut unkept) = (Vec::new(), None);
    for (index, contest) in contests.into_iter().enumerate() {
        progress.cell(index, &contest.case);
        let name = progress.label(index);
        let terms = rows::terms(args.rope, args.blocks, args.limit.limits())?.among(cases.len());
        let given = clock.of_case(index);
        let terms = terms.within(given.seconds).aged(args.age.unwrap_or(AGE_S));
        let mut on_block = |gone_s: f64, whole_s: f64| {
            let left_s = whole_s - gone_s + clock.after(index, whole_s);
            let left = if whole_s < given.seconds { Left::About(left_s) } else { Left::AtMost(left_s) };
            progress.ahead(&format!("{name}, {} at most", time::limit(given.seconds)), left);
        };
        let Some(result) = decided(args, &contest.what, (&terms, given), &mut on_block)? else { break };
        let row = row(contest, result, limits, (resolution_ns, given));
        unkept = keeper.as_mut().and_then(|keeper| keeper.keep(&row, &terms).err());
        let cut = matches!(&row.result, Ok(decision) if decision.end == End::Interrupted);
        rows.push(row);
        lines.follow(&rows, &mut progress);
        if cut || unkept.is_some() {
            break;
        }
    }
    progress.finish();
    let open = |row: &Row| match &row.result {
        Ok(decision) => matches!(decision.end, End::Budget | End::Hopeless),
        Err((ended, _)) => *ended == verdict::COMPARISON,
    };
    if let Some(why) = clock.all_bound().filter(|_| rows.iter().any(open)) {
        output::note(&why);
    }
    Ok((rows, unkept))
}

fn row(contest: Contest, result: Decided, limits: Option<&Budgets>, (resolution_ns, given): (f64, Given)) -> Row {
    // A command is a whole process, which takes longer than the clock's resolution.
    let resolution_ns = if matches!(contest.what, What::Commands(_)) { 0.0 } else { resolution_ns };
    let Contest { case, names, mut candidate, what } = contest;
    // The work that the inputs require, if the candidate's program reports it.
    let required = result.as_ref().ok().and_then(|decision| decision.reported.work[1].clone());
    if let Some((candidate, required)) = candidate.as_mut().zip(required) {
        candidate.work = required;
    }
    let budgets = match (limits, &candidate) {
        (Some(limits), Some(candidate)) => judge(limits, candidate, &case, &result, resolution_ns),
        _ => Vec::new(),
    };
    let mut remarks: Vec<String> = match (&result, &candidate) {
        (Ok(decision), Some(candidate)) if candidate.on_host => decision
            .seconds
            .iter()
            .zip(&names)
            .filter_map(|(s, name)| Some(format!("{name}: {}", reuse::remark(&candidate.work, *s)?)))
            .collect(),
        _ => Vec::new(),
    };
    if let (Ok(decision), What::Workers(sides)) = (&result, &what) {
        let each = decision.samples.iter().zip(&names).zip(sides.parallelism);
        remarks.extend(each.filter_map(|((samples, name), threads)| undeclared(samples, name, threads)));
    }
    let resolution_s = resolution_ns * 1e-9;
    let below = result.as_ref().ok().map(|decision| decision.seconds.map(|seconds| seconds < resolution_s));
    let one_below_s = below.and_then(single).map(|_| resolution_s);
    if let Ok(decision) = &result {
        remarks.extend(bound(decision.seconds, resolution_ns, &names));
    }
    remarks.extend(result.as_ref().ok().and_then(|decision| older(decision.reported.unable, &names)));
    let measured = candidate.filter(|_| result.is_ok());
    remarks.extend(measured.iter().flat_map(|candidate| candidate.remarks.iter().cloned()));
    let measured = measured.map(|candidate| [candidate.case.workload, candidate.implementation]);
    let said = Said::of(&result, resolution_ns);
    Row { measured, case, names, said, result, given, budgets, one_below_s, remarks }
}

/// The side for which alone something is true.
fn single(sides: [bool; 2]) -> Option<usize> {
    (sides[0] != sides[1]).then_some(usize::from(sides[1]))
}

/// The remark on a single side that is below the resolution of the clock.
fn bound(seconds: [f64; 2], resolution_ns: f64, names: &[String; 2]) -> Option<String> {
    let resolution = resolution_ns * 1e-9;
    let name = &names[single(seconds.map(|seconds| seconds < resolution))?];
    let least = units::human(resolution, "s");
    Some(format!(
        "{name} takes less than {least} an iteration, which is too short to measure: its time and the ratio are bounds"
    ))
}

/// The remark on a side whose threads share one processor, because it declares a single thread.
fn undeclared(samples: &[Sample], name: &str, threads: Parallelism) -> Option<String> {
    let share = share_of_others(samples).filter(|_| threads == Parallelism::Single)?;
    let share = units::human(share, "1");
    Some(format!(
        "{name}: other threads of this program worked meanwhile ({share} of its CPU time), perhaps on one processor: declare \
         them with .many_threads()"
    ))
}

/// The remark on a side whose program is older than the other's.
fn older(unable: [bool; 2], names: &[String; 2]) -> Option<String> {
    let side = single(unable)?;
    let [name, other] = [&names[side], &names[1 - side]];
    Some(format!(
        "{name} measures with an older Ellwand, which cannot tell when a slot has settled: the slots of {other} begin after the same \
         fixed warm-up, and a small difference may come from that"
    ))
}

/// Judges the candidate by its budgets, from the blocks of the comparison.
fn judge(limits: &Budgets, candidate: &Candidate, name: &str, result: &Decided, resolution_ns: f64) -> Vec<Verdict> {
    let subject = budgets::Subject {
        workload: &candidate.case.workload,
        value: &|axis| candidate.case.get(axis).cloned(),
        implementation: &candidate.implementation,
        parallelism: candidate.parallelism,
        items: candidate.work.items,
        samples: match result {
            Ok(decision) => Ok(&decision.samples[1]),
            Err(_) => Err("there is no comparison"),
        },
        readings: result.as_ref().map_or(&[], |decision| &decision.reported.readings[1]),
        // A comparison decides between its two sides; neither need be the baseline of the workload.
        baseline: None,
        resolution_s: Some(resolution_ns * 1e-9),
    };
    limits.judge(name, &subject)
}

/// All judged budgets, of the candidate's program and of the rows; then the budgets that apply to nothing.
fn verdicts(limits: &Budgets, program: Option<&Path>, rows: &[Row]) -> (Vec<Verdict>, Vec<Verdict>) {
    let of_program = program.and_then(|program| limits.judge_program(program));
    let judged: Vec<Verdict> =
        of_program.into_iter().chain(rows.iter().flat_map(|row| row.budgets.iter().cloned())).collect();
    let candidates = rows.iter().filter_map(|row| row.measured.as_ref());
    let measured: Vec<(&str, &str)> = candidates.map(|[workload, name]| (workload.as_str(), name.as_str())).collect();
    let unmatched = limits.unmatched(&measured, &judged);
    (judged, unmatched)
}

fn print(
    args: &CompareArgs,
    rows: &[Row],
    cut: Option<&str>,
    [judged, unmatched]: [&[Verdict]; 2],
    mut lines: Lines,
) -> Result<(), Failure> {
    if args.format == Form::Table {
        lines.end(rows)?;
    }
    let gated: Vec<Verdict> = judged.iter().chain(unmatched).cloned().collect();
    let rope = args.rope;
    output::result(|out| match args.format {
        Form::Json => verdict::write_json(rows, judged, rope, out),
        Form::Junit => {
            let mut cases = ci::of_rows(rows, &gated, rope, args.fail_on);
            cases.extend(cut.map(ci::of_interrupted));
            ci::write_suite("ellwand compare", &cases, out)
        }
        Form::Github => ci::write_github(rows, &gated, (rope, args.fail_on), cut, out),
        Form::Table => output::prose(out, |out| verdict::write_budgets(judged, out)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_below_the_resolution_makes_the_ratio_a_bound() {
        let names = ["a".to_string(), "b".to_string()];
        let remark = bound([90e-9, 0.3e-9], 0.5, &names).unwrap();
        assert!(remark.starts_with("b takes less than 0.500 ns an iteration"), "{remark}");
        assert_eq!([bound([1e-9; 2], 0.5, &names), bound([0.1e-9; 2], 0.5, &names)], [None, None]);
    }

    #[test]
    fn threads_that_share_a_processor_are_named() {
        let sample = Sample { cpu_ns: Some(600), others_ns: Some(400), ..Sample::default() };
        let remark = undeclared(&[sample], "b", Parallelism::Single).unwrap();
        assert!(remark.starts_with("b: other threads") && remark.contains("40.0 % of its CPU time"), "{remark}");
        let alone = Sample { others_ns: Some(20), ..sample };
        assert_eq!(undeclared(&[alone], "b", Parallelism::Single), None);
        assert_eq!(undeclared(&[sample], "b", Parallelism::Many), None);
    }

    #[test]
    fn an_older_side_is_named_and_equal_sides_are_not() {
        let names = ["v1".to_string(), "the work tree".to_string()];
        let said = older([true, false], &names).unwrap();
        assert!(
            said.starts_with("v1 measures with an older Ellwand") && said.contains("slots of the work tree"),
            "{said}"
        );
        assert!(older([false, true], &names).unwrap().starts_with("the work tree"));
        assert_eq!([older([true; 2], &names), older([false; 2], &names)], [None, None]);
    }
}
