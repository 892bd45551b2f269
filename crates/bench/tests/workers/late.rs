//! Workers that are not ready, or not done, when the time is up.

use super::*;

pub(crate) fn a_given_time_ends_what_is_not_ready() {
    // One of the two orders starts the stuck implementation first.
    [["steady", "stuck"], ["stuck", "steady"]].into_iter().for_each(ends_what_is_not_ready);
}

fn ends_what_is_not_ready(names: [&str; 2]) {
    let mut steps = BTreeSet::new();
    let measured = measure_within((1.0, Some("take more")), this(), &names, &NEVER, &mut |event| {
        if let Event::Preparing { step, .. } = event {
            steps.insert(step);
        }
    })
    .unwrap();
    let [steady, stuck] = ["steady", "stuck"].map(|name| measured.iter().find(|m| m.implementation == name).unwrap());
    let why = "not measured: after 4.5 s of 6 s (a shorter time counts as 6 s) its process was still preparing and \
               running for the first time; take more";
    assert_eq!(stuck.outcome, Outcome::Unsupported { why: why.into() });
    // A busy machine may leave no time for a slot, but the reason must not name the other process.
    let steady = &steady.outcome;
    let named = |why: &str| why.starts_with("not measured: ") && !why.contains("of stuck");
    assert!(steady.reason().is_none_or(named), "{steady:?}");
    assert!(steps.contains("preparing and running for the first time"), "{steps:?}");
}

pub(crate) fn who_uses_the_time_up_is_named() {
    let until = (Limits::default(), Some(Instant::now() + Duration::from_secs(2)));
    let specs = ["steady", "stuck", "other"].map(spec);
    let block = open_until(&specs, &mut Known::default(), until);
    assert_eq!(block.late()[0], 1, "not those that it left no time, whatever the order");
    block.close();
}

/// The reason why an arm has ended.
fn reason(block: &Block, arm: usize) -> String {
    block.state(arm).unwrap_err().reason().unwrap_or_default().to_string()
}

pub(crate) fn a_check_that_hangs_is_ended_with_the_time() {
    let until = (Limits::default(), Some(Instant::now() + Duration::from_secs(3)));
    let mut block = open_until(&[spec("lingers")], &mut Known::default(), until);
    assert_eq!(block.rejudge(0), Ok(None));
    assert!(reason(&block, 0).contains(" while checking its answer after the slots and was killed"));
    block.close();
}

pub(crate) fn a_slot_that_hangs_is_ended_with_the_time() {
    let until = (Limits::default(), Some(Instant::now() + Duration::from_secs(3)));
    let mut block = open_until(&[spec("hangs")], &mut Known::default(), until);
    while block.slot(0, false).unwrap().is_some() {}
    let why = reason(&block, 0);
    let (_, limit) = why.split_once("did not answer within ").unwrap();
    let (seconds, step) = limit.split_once(" s ").unwrap();
    assert!(seconds.parse::<f64>().unwrap() < 4.0 && step.starts_with("while taking a slot"), "{why}");
    block.close();
}

pub(crate) fn a_stopped_process_is_named() {
    let until = (Limits { open: Duration::from_secs(3), ..Limits::default() }, None);
    let mut block = open_until(&[spec("steady")], &mut Known::default(), until);
    let stopped = Command::new("kill").args(["-STOP", &block.processes()[0].to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(block.rejudge(0), Ok(None));
    assert!(reason(&block, 0).contains("its process had been stopped (SIGSTOP)"), "{}", reason(&block, 0));
    block.close();
}
