//! `selfcheck`: this machine's false alarms and its power, counted.

use std::io::Write;

use clap::ArgMatches;
use ellwand_bench::compare::{Call, NoDecision};
use ellwand_bench::environment;
use ellwand_bench::selfcheck::{self, Certificate};
use ellwand_bench::worker::Launch;
use ellwand_core::stats::Difference;

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
    let trials = selfcheck::trials(is_set(matches, "quick"), is_set(matches, "long"));
    let mut certificate = Certificate {
        ellwand: env!("CARGO_PKG_VERSION").into(),
        revision: super::certificate::revision(),
        machine: here.fingerprint(),
        started_unix_ms: output::unix_ms(),
        load: [here.load, None],
        rope,
        alpha: ALPHA,
        rows: Vec::new(),
    };
    // Terms cannot fail later on when they do not fail now.
    terms(matches, rope)?;
    let mut progress = Progress::new(trials.len());
    for (index, trial) in trials.iter().enumerate() {
        progress.cell(index, &format!("{} {}", trial.workload, planted(trial.percent)));
        let mut fresh = || terms(matches, rope).expect("the same terms were made above");
        let row = selfcheck::run(trial, &launch, &mut fresh, interrupt, &mut |done, decision| {
            progress.rounds(index, done + 1, trial.decisions);
            if let Some(decision) = decision
                && trial.percent == 0
                && matches!(decision.call, Call::As(Difference::Slower | Difference::Faster) | Call::SlowerBeside(_))
            {
                output::note(&format!("false alarm on {}: {:?}", trial.workload, decision));
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
    progress.finish();
    certificate.load[1] = environment::load();
    if !is_set(matches, "long") {
        cache::keep("selfcheck", &here, &certificate);
    }
    if text(matches, "format") == Some("json") {
        let json = serde_json::to_string_pretty(&certificate).map_err(anyhow::Error::from)?;
        output::result(|out| writeln!(out, "{json}"))?;
    } else {
        output::result(|out| write_table(&certificate, out))?;
    }
    let (alarms, ..) = certificate.false_alarms();
    Ok(if certificate.rows.iter().all(|row| row.decisions == 0) {
        Exit::Nothing
    } else if alarms >= TOO_MANY {
        Exit::Error
    } else {
        Exit::Ok
    })
}

fn planted(percent: i64) -> String {
    if percent == 0 { "equal".into() } else { format!("+{percent} %") }
}

fn write_table(certificate: &Certificate, out: &mut dyn Write) -> std::io::Result<()> {
    let load = |load: Option<f64>| load.map_or_else(|| "unavailable".into(), |load| format!("{load:.2}"));
    writeln!(
        out,
        "{:16} {:>7} {:>9} {:>7} {:>7} {:>5} {:>9} {:>8}  {:>21} {:>8} {:>9}  {:>14}",
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
            Some((share, low, high)) if row.percent > 0 => {
                format!("{:.1} % ({:.1} to {:.1})", share * 100.0, low * 100.0, high * 100.0)
            }
            _ => String::new(),
        };
        writeln!(
            out,
            "{:16} {:>7} {:>9} {:>7} {:>7} {:>5} {:>9} {:>8}  {power:>21} {:>7.2}% {:>4}/{:<4}  {:>6.2} {:>7.2}",
            row.workload,
            planted(row.percent),
            row.decisions,
            row.slower,
            row.faster,
            row.same,
            row.undecided,
            row.withheld,
            row.bias * 100.0,
            row.covered,
            row.decisions,
            row.seconds[0],
            row.seconds[1],
        )?;
    }
    let (alarms, trials, bound) = certificate.false_alarms();
    let bound = bound.map_or_else(|| "unavailable".into(), percent);
    writeln!(
        out,
        "\n{alarms} false alarms in {trials} decisions on equal things: their share is at most {bound} (95 % bound); region of equivalence {}",
        percent(certificate.rope)
    )?;
    writeln!(out, "load average {} before, {} after", load(certificate.load[0]), load(certificate.load[1]))
}
