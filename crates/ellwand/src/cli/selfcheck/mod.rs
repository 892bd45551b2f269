//! `selfcheck`: counts this machine's false positives and its detections.

mod ahead;
mod table;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use ellwand_bench::compare::{Call, Decision};
use ellwand_bench::environment;
use ellwand_bench::selfcheck::{self, End, SelfCheck, Trial};
use ellwand_bench::worker::{Launch, Limits};
use ellwand_core::stats::{Change, Difference};
use ellwand_core::{Environment, InputError};

use self::ahead::Ahead;
use self::table::planted;
use super::args::{Form, SelfcheckArgs};
use super::exit::{Exit, Failure, Outcome};
use super::rows::{ALPHA, terms};
use super::verdict::bounds;
use super::{certificate, output, signals};

/// How long the decisions of a full and of a quick self-check may take, in seconds.
const FULL_S: u64 = 450;
const QUICK_S: u64 = 120;
/// Time limit of one decision in seconds, as in `compare`.
const DECISION_S: f64 = 20.0;
/// This many false positives are more than bad luck.
const TOO_MANY: u64 = 3;

pub(super) fn selfcheck(args: &SelfcheckArgs) -> Outcome {
    let (here, started_unix_ms) = (environment::detect(), output::unix_ms());
    let (launch, interrupt) = (Launch::this_program(), signals::stop_on_ctrl_c(signals::NO_CERTIFICATE));
    let trials = trials(args)?;
    let mut certificate = SelfCheck {
        ellwand: env!("CARGO_PKG_VERSION").into(),
        revision: certificate::revision(),
        machine: here.fingerprint(),
        started_unix_ms,
        load: [here.load, None],
        slot_cost_ns: here.slot_cost_ns,
        rope: args.rope,
        alpha: ALPHA,
        rows: Vec::new(),
        planned: None,
    };
    let mut ahead = Ahead::new(&trials, budget(args));
    let end = decide(args, &trials, &launch, interrupt, &mut ahead, &mut certificate)?;
    let planned = trials.iter().map(|trial| u64::from(trial.decisions)).sum::<u64>();
    certificate.planned = Some(planned).filter(|planned| *planned > certificate.decisions());
    ahead.finish();
    certificate.load[1] = environment::load();
    let interrupted = end == End::Interrupted || interrupt.load(SeqCst);
    print(args, &certificate)?;
    keep(args, &here, &certificate, interrupted);
    let (alarms, ..) = certificate.false_alarms();
    Ok(if interrupted {
        Exit::Interrupted
    } else if certificate.rows.iter().all(|row| row.decisions == 0) {
        Exit::Nothing
    } else if alarms >= TOO_MANY {
        Exit::Error
    } else {
        Exit::Ok
    })
}

/// Takes the decisions of all trials, as long as the budget lasts.
fn decide(
    args: &SelfcheckArgs,
    trials: &[Trial],
    launch: &Launch,
    interrupt: &AtomicBool,
    ahead: &mut Ahead<'_>,
    certificate: &mut SelfCheck,
) -> Result<End, Failure> {
    // Its kernels do not change with age.
    let terms = || terms(args.rope, None, Limits::default()).map(|terms| terms.within(DECISION_S).aged(0.0));
    // If the terms are valid now, they cannot fail later.
    terms()?;
    let (begin, budget) = (Instant::now(), budget(args));
    let taken = selfcheck::series(
        trials,
        launch,
        &mut || terms().expect("the same terms were made above"),
        interrupt,
        &mut || budget.map_or(f64::INFINITY, |budget| budget.saturating_sub(begin.elapsed()).as_secs_f64()),
        &mut |taken| {
            if let Some(remark) = taken.decision.and_then(|decision| remark(&trials[taken.trial], decision)) {
                ahead.note(&remark);
            }
            ahead.count(&taken, begin.elapsed());
        },
    );
    match taken {
        Ok((rows, end)) => {
            certificate.rows = rows;
            Ok(end)
        }
        Err(error) => Err(anyhow::anyhow!("{error}").into()),
    }
}

/// Time limit for all decisions: the user's; otherwise some minutes, unless the user sets the number of decisions.
fn budget(args: &SelfcheckArgs) -> Option<Duration> {
    let usual = if args.quick { QUICK_S } else { FULL_S };
    args.budget.or(args.decisions.is_none().then_some(usual)).map(Duration::from_secs)
}

fn print(args: &SelfcheckArgs, certificate: &SelfCheck) -> Result<(), Failure> {
    if args.format == Form::Json {
        let json = serde_json::to_string_pretty(certificate).map_err(anyhow::Error::from)?;
        return output::result(|out| writeln!(out, "{json}"));
    }
    output::result(|out| table::write(certificate, out))
}

/// Saves the certificate for later runs, unless the self-check was interrupted, ran only selected trials or has no
/// decision. One that ran out of time counts the decisions that it took, and does not replace one with more decisions.
fn keep(args: &SelfcheckArgs, here: &Environment, certificate: &SelfCheck, interrupted: bool) {
    let decisions = certificate.decisions();
    let chosen = args.long || args.only.is_some() || args.decisions.is_some();
    if interrupted {
        output::note(&format!("interrupted: {decisions} decisions were made; this certificate is not saved"));
        return;
    }
    let before = certificate::stored(here).ok().flatten().filter(|before| certificate::stays(before, certificate));
    let kept = match &before {
        _ if chosen => "not saved: only some trials were selected".into(),
        _ if decisions == 0 => "not saved: it has no decisions".into(),
        Some(before) => format!("not saved: the previous one has more decisions on equal code, {}", before.decisions),
        None => "saved with the decisions made so far".to_string(),
    };
    if let Some(planned) = certificate.planned {
        output::note(&format!(
            "the budget is used up after {decisions} of {planned} decisions; this certificate is {kept}"
        ));
    }
    if !chosen && decisions > 0 && before.is_none() {
        output::cache("selfcheck", here, certificate);
    }
}

/// The trials: all of them, or those that the user selected.
fn trials(args: &SelfcheckArgs) -> Result<Vec<Trial>, InputError> {
    let mut trials = selfcheck::trials(args.quick, args.long);
    let name = |trial: &Trial| format!("{} {}", trial.workload, planted(trial.candidate, trial.percent, trial.passes));
    if let Some(only) = args.only.as_deref() {
        let all: Vec<String> = trials.iter().map(name).collect();
        trials.retain(|trial| name(trial).contains(only));
        if trials.is_empty() {
            let expected = format!("a part of one of {}", all.join(", "));
            return Err(InputError::new("--only", format!("no trial contains '{only}'"), expected));
        }
    }
    if let Some(decisions) = args.decisions {
        trials.iter_mut().for_each(|trial| trial.decisions = decisions);
    }
    Ok(trials)
}

/// A remark on a decision that differs from what was planted, with what was observed.
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
    let seen = |change: &Change| format!("{:.4} ({})", change.ratio, bounds(change));
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
