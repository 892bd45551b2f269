//! `selfcheck`: this machine's false alarms and its power, counted.

use std::io::Write;

use clap::ArgMatches;
use ellwand_bench::compare::{Call, Decision, NoDecision};
use ellwand_bench::selfcheck::{self, Certificate, Trial};
use ellwand_bench::worker::Launch;
use ellwand_bench::{Cpu, Effort, environment, resolutions};
use ellwand_core::stats::{Change, Difference};
use ellwand_core::{InputError, Registry};
use ellwand_report::units;

use super::command::{is_set, text};
use super::compare::{ALPHA, rope, terms};
use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::verdict::percent;
use super::{Outcome, cache, output, signals};

/// So many false alarms are no bad luck any more.
const TOO_MANY: u64 = 3;

pub(super) fn selfcheck(matches: &ArgMatches) -> Outcome {
    let here = environment::detect();
    let rope = rope(matches)?;
    let (launch, interrupt) = (Launch::this_program(), signals::stop_on_ctrl_c());
    let trials = trials(matches)?;
    let mut certificate = Certificate {
        ellwand: env!("CARGO_PKG_VERSION").into(),
        revision: super::certificate::revision(),
        machine: here.fingerprint(),
        started_unix_ms: output::unix_ms(),
        load: [here.load, None],
        slot_cost_ns: here.slot_cost_ns,
        floor: None,
        resolution_ns: None,
        rope,
        alpha: ALPHA,
        rows: Vec::new(),
    };
    // Terms cannot fail later on when they do not fail now.
    terms(matches, rope)?;
    let mut progress = Progress::new(trials.len());
    for (index, trial) in trials.iter().enumerate() {
        progress.cell(index, &format!("{} {}", trial.workload, planted(trial.candidate, trial.percent, trial.passes)));
        let mut fresh = || terms(matches, rope).expect("the same terms were made above");
        let row = selfcheck::run(trial, &launch, &mut fresh, interrupt, &mut |done, decision| {
            progress.rounds(index, done + 1, trial.decisions);
            if let Some(remark) = decision.and_then(|decision| remark(trial, decision)) {
                output::note(&remark);
            }
        });
        match row {
            Ok(row) => certificate.rows.push(row),
            Err(NoDecision::Interrupted) => return Err(Failure::Interrupted),
            Err(NoDecision::Stats(error)) => return Err(anyhow::Error::from(error).into()),
            Err(NoDecision::Ended { arm, outcome }) => {
                return Err(anyhow::anyhow!("{arm}: {}", outcome.reason().unwrap_or("")).into());
            }
        }
    }
    if text(matches, "only").is_none_or(|only| "floor".contains(only)) && !is_set(matches, "long") {
        match selfcheck::floor(&launch, certificate.started_unix_ms, interrupt) {
            Ok(floor) => certificate.floor = Some(floor),
            Err(NoDecision::Interrupted) => return Err(Failure::Interrupted),
            Err(error) => output::note(&format!("the floor was not found: {error:?}")),
        }
        let mut cpu = Registry::new();
        cpu.device(std::sync::Arc::new(Cpu::default()));
        certificate.resolution_ns = resolutions(&cpu, &Effort::Quick.settings()).into_values().next();
    }
    progress.finish();
    certificate.load[1] = environment::load();
    if !is_set(matches, "long") && text(matches, "only").is_none() && matches.get_one::<u32>("decisions").is_none() {
        cache::keep("selfcheck", &here, &certificate);
    }
    if text(matches, "format") == Some("json") {
        let json = serde_json::to_string_pretty(&certificate).map_err(anyhow::Error::from)?;
        output::result(|out| writeln!(out, "{json}"))?;
    } else {
        output::result(|out| write_table(&certificate, out))?;
    }
    let (alarms, ..) = certificate.false_alarms();
    Ok(if certificate.floor.is_none() && certificate.rows.iter().all(|row| row.decisions == 0) {
        Exit::Nothing
    } else if alarms >= TOO_MANY {
        Exit::Error
    } else {
        Exit::Ok
    })
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
    let equal = trial.candidate == selfcheck::PLAIN;
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

fn write_table(certificate: &Certificate, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:14} {:>18} {:>9} {:>6} {:>6} {:>4} {:>9} {:>8}  {:>21} {:>8} {:>7}  {:>14}  found by",
        "kernel",
        "planted",
        "decisions",
        "slower",
        "faster",
        "same",
        "undecided",
        "withheld",
        "called slower (95 %)",
        "bias",
        "covered",
        "s (median, p90)"
    )?;
    for row in &certificate.rows {
        let power = match row.power() {
            Some((share, low, high)) if row.candidate != selfcheck::PLAIN => {
                format!("{:.1} % ({:.1} to {:.1})", share * 100.0, low * 100.0, high * 100.0)
            }
            _ => String::new(),
        };
        let found_by: Vec<String> =
            row.found_by.iter().map(|(question, count)| format!("{question} {count}")).collect();
        writeln!(
            out,
            "{:14} {:>18} {:>9} {:>6} {:>6} {:>4} {:>9} {:>8}  {power:>21} {:>8} {:>7}  {:>6.2} {:>7.2}   {}",
            row.workload,
            planted(&row.candidate, row.percent, row.passes),
            row.decisions,
            row.slower,
            row.faster,
            row.same,
            row.undecided,
            row.withheld,
            row.bias.map_or_else(String::new, |bias| format!("{:.3}%", bias * 100.0)),
            row.covered.map_or_else(String::new, |covered| covered.to_string()),
            row.seconds[0],
            row.seconds[1],
            found_by.join(", "),
        )?;
    }
    write_summary(certificate, out)
}

fn write_summary(certificate: &Certificate, out: &mut dyn Write) -> std::io::Result<()> {
    let unknown = || "unavailable".to_string();
    let (alarms, trials, bound) = certificate.false_alarms();
    writeln!(
        out,
        "\n{alarms} false alarms in {trials} decisions on equal things: their share is at most {} (95 % bound); region of equivalence {}",
        bound.map_or_else(unknown, percent),
        percent(certificate.rope)
    )?;
    let (found, planted) = certificate.slow_modes();
    if planted > 0 {
        writeln!(out, "{found} of {planted} planted tails and second modes found, which a fastest time does not see")?;
    }
    let (covered, known, share) = certificate.coverage();
    let share = share.map_or_else(unknown, |(low, high)| format!("{} to {}", percent(low), percent(high)));
    let bias = certificate.worst_bias().map_or_else(unknown, |bias| format!("{:+.3} %", bias * 100.0));
    writeln!(
        out,
        "{covered} of {known} 99 % intervals hold the planted ratio (true share {share}); largest median bias of a row {bias}"
    )?;
    let cost = certificate.slot_cost_ns.map_or_else(unknown, |ns| units::human(ns * 1e-9, "s"));
    writeln!(out, "the instrument takes {cost} a slot beside what runs, outside of its times")?;
    if let Some(floor) = &certificate.floor {
        let times: Vec<String> = floor.chains.iter().map(|(count, took, _)| format!("{count}: {took:.3}")).collect();
        writeln!(
            out,
            "chains of so many multiplies take, in ns: {}; by the latency of {:.4} ns the largest error is {:.3} ns; below {:.2} ns nothing is told from nothing",
            times.join(", "),
            floor.latency_ns,
            floor.error_ns(),
            certificate.resolution_ns.unwrap_or(f64::NAN),
        )?;
    }
    let load = |load: Option<f64>| load.map_or_else(unknown, |load| format!("{load:.2}"));
    writeln!(out, "load average {} before, {} after", load(certificate.load[0]), load(certificate.load[1]))
}
