//! `selfcheck`: this machine's false alarms and its power, counted.

mod ahead;
mod table;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use ellwand_bench::compare::{Call, Decision, NoDecision};
use ellwand_bench::selfcheck::{self, Certificate, End, Trial};
use ellwand_bench::worker::Launch;
use ellwand_bench::{Cpu, Effort, environment, resolutions};
use ellwand_core::stats::{Change, Difference};
use ellwand_core::{Environment, InputError, Registry};

use self::ahead::Ahead;
use super::command::{is_set, text};
use super::compare::{ALPHA, rope, terms};
use super::exit::{Exit, Failure};
use super::{Outcome, cache, output, signals};

/// How long the decisions of a full and of a quick self-check may take, in seconds.
const FULL_S: u64 = 450;
const QUICK_S: u64 = 120;
/// So many false alarms are no bad luck any more.
const TOO_MANY: u64 = 3;

pub(super) fn selfcheck(matches: &ArgMatches) -> Outcome {
    let here = environment::detect();
    let rope = rope(matches)?;
    let (launch, interrupt) = (Launch::this_program(), signals::stop_on_ctrl_c(signals::NO_CERTIFICATE));
    let trials = trials(matches)?;
    // Terms cannot fail later on when they do not fail now.
    terms(matches, rope)?;
    let (begin, started_unix_ms) = (Instant::now(), output::unix_ms());
    let budget = budget(matches);
    let mut ahead = Ahead::new(&trials, budget);
    let taken = selfcheck::series(
        &trials,
        &launch,
        &mut || terms(matches, rope).expect("the same terms were made above"),
        interrupt,
        &mut || budget.is_some_and(|budget| begin.elapsed() >= budget),
        &mut |taken| {
            if let Some(remark) = taken.decision.and_then(|decision| remark(&trials[taken.trial], decision)) {
                ahead.note(&remark);
            }
            ahead.taken(&taken, begin.elapsed());
        },
    );
    let (rows, end) = match taken {
        Ok(taken) => taken,
        Err(NoDecision::Stats(error)) => return Err(anyhow::Error::from(error).into()),
        Err(error) => return Err(anyhow::anyhow!("{error:?}").into()),
    };
    let mut certificate = Certificate {
        ellwand: env!("CARGO_PKG_VERSION").into(),
        revision: super::certificate::revision(),
        machine: here.fingerprint(),
        started_unix_ms,
        load: [here.load, None],
        slot_cost_ns: here.slot_cost_ns,
        floor: None,
        resolution_ns: None,
        rope,
        alpha: ALPHA,
        rows,
        planned: None,
    };
    let planned = trials.iter().map(|trial| u64::from(trial.decisions)).sum::<u64>();
    certificate.planned = Some(planned).filter(|planned| *planned > certificate.decisions());
    if end != End::Interrupted && wants_floor(matches) {
        find_floor(&mut certificate, &launch, interrupt);
    }
    ahead.finish();
    certificate.load[1] = environment::load();
    let interrupted = end == End::Interrupted || interrupt.load(SeqCst);
    told(matches, &certificate)?;
    keep(matches, &here, &certificate, interrupted);
    let (alarms, ..) = certificate.false_alarms();
    Ok(if interrupted {
        Exit::Interrupted
    } else if certificate.floor.is_none() && certificate.rows.iter().all(|row| row.decisions == 0) {
        Exit::Nothing
    } else if alarms >= TOO_MANY {
        Exit::Error
    } else {
        Exit::Ok
    })
}

/// How long the decisions may take: what the user says; otherwise some minutes, unless the user says how many there are.
fn budget(matches: &ArgMatches) -> Option<Duration> {
    let usual = || {
        let seconds = if is_set(matches, "quick") { QUICK_S } else { FULL_S };
        matches.get_one::<u32>("decisions").is_none().then_some(seconds)
    };
    matches.get_one::<u64>("budget").copied().or_else(usual).map(Duration::from_secs)
}

fn wants_floor(matches: &ArgMatches) -> bool {
    text(matches, "only").is_none_or(|only| "floor".contains(only)) && !is_set(matches, "long")
}

fn find_floor(certificate: &mut Certificate, launch: &Launch, interrupt: &AtomicBool) {
    match selfcheck::floor(launch, certificate.started_unix_ms, interrupt) {
        Ok(floor) => certificate.floor = Some(floor),
        Err(NoDecision::Interrupted) => return,
        Err(error) => output::note(&format!("the floor was not found: {error:?}")),
    }
    let mut cpu = Registry::new();
    cpu.device(std::sync::Arc::new(Cpu::default()));
    certificate.resolution_ns = resolutions(&cpu, &Effort::Quick.settings()).into_values().next();
}

fn told(matches: &ArgMatches, certificate: &Certificate) -> Result<(), Failure> {
    if text(matches, "format") == Some("json") {
        let json = serde_json::to_string_pretty(certificate).map_err(anyhow::Error::from)?;
        return output::result(|out| writeln!(out, "{json}"));
    }
    output::result(|out| table::write(certificate, out))
}

/// Keeps the certificate for the runs to come, unless it was interrupted, says less than a quick one, or is about a choice of
/// trials.
fn keep(matches: &ArgMatches, here: &Environment, certificate: &Certificate, interrupted: bool) {
    let partial = certificate.planned.is_some();
    let chosen = is_set(matches, "long") || text(matches, "only").is_some();
    let least = selfcheck::trials(true, false);
    let enough = certificate.rows.iter().zip(&least).all(|(row, least)| row.decisions >= u64::from(least.decisions));
    if interrupted || (partial && (chosen || !enough)) {
        let why = if interrupted { "interrupted" } else { "the budget is used up" };
        output::note(&format!(
            "{why}: {} decisions were taken; this partial certificate is not kept",
            certificate.decisions()
        ));
    } else if !chosen && matches.get_one::<u32>("decisions").is_none() {
        cache::keep("selfcheck", here, certificate);
    }
}

/// What is tried: everything, or what the user chose.
fn trials(matches: &ArgMatches) -> Result<Vec<Trial>, InputError> {
    let mut trials = selfcheck::trials(is_set(matches, "quick"), is_set(matches, "long"));
    let name = |trial: &Trial| format!("{} {}", trial.workload, planted(trial.candidate, trial.percent, trial.passes));
    if let Some(only) = text(matches, "only") {
        let all: Vec<String> = trials.iter().map(name).collect();
        trials.retain(|trial| name(trial).contains(only));
        if trials.is_empty() && !"floor".contains(only) {
            return Err(InputError::new(
                "--only",
                format!("no trial contains '{only}'"),
                format!("a part of one of {}, floor", all.join(", ")),
            ));
        }
    }
    if let Some(decisions) = matches.get_one::<u32>("decisions") {
        trials.iter_mut().for_each(|trial| trial.decisions = *decisions);
    }
    Ok(trials)
}

/// A decision that was not what was planted, with what was seen.
fn remark(trial: &Trial, decision: &Decision) -> Option<String> {
    let equal = selfcheck::is_equal(trial.candidate);
    let slower = matches!(decision.call, Call::As(Difference::Slower) | Call::SlowerBeside(_));
    let faster = matches!(decision.call, Call::As(Difference::Faster));
    let word = match (equal, slower || faster) {
        (true, true) => "false alarm",
        (false, _) if faster => "wrong direction",
        (false, false) => "not found",
        _ => return None,
    };
    let seen = |change: &Change| format!("{:.4} ({:.4} to {:.4})", change.ratio, change.low, change.high);
    let sides: Vec<String> =
        decision.sides.iter().map(|side| format!(", {} {}", side.name, seen(&side.change))).collect();
    Some(format!(
        "{word}: {} {}: {} blocks, time {}, control {}{}",
        trial.workload,
        planted(trial.candidate, trial.percent, trial.passes),
        decision.blocks.len(),
        seen(&decision.change),
        seen(&decision.control),
        sides.concat()
    ))
}

/// What was planted, in words: a difference of all runs, or slow runs (or slots, where a run fills one).
fn planted(candidate: &str, percent: i64, passes: i64) -> String {
    let of = if passes > 1 { "slots" } else { "runs" };
    match candidate {
        selfcheck::TAIL => format!("tail of {of}"),
        selfcheck::MODES => format!("two modes of {of}"),
        _ if percent == 0 => "equal".into(),
        _ => format!("+{percent} %"),
    }
}
