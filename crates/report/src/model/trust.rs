//! One line about the last self-check of a machine: how far verdicts made there can be trusted.

use ellwand_core::record::Certificate;

use crate::units::{clean, human};

/// Age in milliseconds above which a certificate is old, because programs, kernels and neighbours change.
const OLD_CERTIFICATE_MS: u64 = 30 * DAY_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const MINUTE_MS: u64 = 60 * 1000;

/// The line for a run that began at `started_unix_ms`; without a certificate it says how to make one.
pub(super) fn line(certificate: Option<&Certificate>, started_unix_ms: u64) -> String {
    let Some(certificate) = certificate else {
        return "no self-check on the machine of this run, so the false-positive rate is unknown; `ellwand selfcheck --quick` takes 2 min"
            .into();
    };
    let bound = certificate.bound().map_or_else(String::new, |bound| format!(" (at most {})", human(bound, "1")));
    let planted = certificate
        .planted
        .iter()
        .filter(|planted| planted.decisions > 0)
        .map(|planted| format!("+{} % in {} of {}", planted.percent, planted.slower, planted.decisions));
    let slow = certificate
        .slow_modes
        .iter()
        .map(|slow| format!("{} in {} of {}", kind(&slow.kind), slow.slower, slow.decisions));
    let found: Vec<String> = planted.chain(slow).collect();
    let found = if found.is_empty() { String::new() } else { format!(", detected {}", found.join(", ")) };
    let age = certificate.age_ms(started_unix_ms);
    // A certificate from after the run means that the clock was set in between.
    let dated = match certificate.started_unix_ms.checked_sub(started_unix_ms).filter(|ahead| *ahead > 0) {
        Some(ahead) => format!("dated {} after this run, because the system clock was set back", span(ahead)),
        None => format!("{} before this run", span(age)),
    };
    let load = match certificate.load {
        [Some(before), Some(after)] => format!(" at load {before:.2} to {after:.2}"),
        [Some(load), None] | [None, Some(load)] => format!(" at load {load:.2}"),
        [None, None] => " at unknown load".into(),
    };
    let revision = certificate.revision.as_deref().map_or_else(String::new, |at| format!(" ({})", clean(at)));
    let old = if age > OLD_CERTIFICATE_MS { " · old: run `ellwand selfcheck` again" } else { "" };
    format!(
        "self-check of this machine: {} false positives in {} decisions{bound}{found} · {dated}{load} · ellwand {}{revision}{old}",
        certificate.false_alarms,
        certificate.decisions,
        clean(&certificate.ellwand),
    )
}

/// Name of a slow mode; kinds of later versions keep their key.
fn kind(kind: &str) -> String {
    match kind {
        "tail" => "tails".into(),
        "modes" => "second modes".into(),
        other => clean(other).to_string(),
    }
}

/// A duration in its largest whole unit.
fn span(ms: u64) -> String {
    let (count, unit) = [(DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute")]
        .into_iter()
        .find_map(|(length, unit)| (ms >= length).then_some((ms / length, unit)))
        .unwrap_or((ms / 1000, "second"));
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_core::record::{Planted, SlowMode};

    #[test]
    fn age_load_and_what_to_do() {
        let certificate = Certificate {
            ellwand: "0.1.0".into(),
            revision: Some("0123abc".into()),
            started_unix_ms: 1_000_000,
            load: [Some(1.25), Some(15.0)],
            rope: 0.01,
            alpha: 0.01,
            decisions: 400,
            false_alarms: 0,
            planted: vec![
                Planted { percent: 2, decisions: 60, slower: 59 },
                Planted { percent: 5, decisions: 60, slower: 60 },
            ],
            slow_modes: vec![
                SlowMode { kind: "modes".into(), decisions: 40, slower: 40 },
                SlowMode { kind: "tail".into(), decisions: 40, slower: 39 },
            ],
            unjudged: Vec::new(),
        };
        assert_eq!(
            line(Some(&certificate), 1_000_000 + 3 * HOUR_MS),
            "self-check of this machine: 0 false positives in 400 decisions (at most 0.75 %), detected +2 % in 59 of 60, +5 % in 60 of 60, second modes in 40 of 40, tails in 39 of 40 · 3 hours before this run at load 1.25 to 15.00 · ellwand 0.1.0 (0123abc)"
        );
        let old = line(Some(&certificate), 1_000_000 + 31 * DAY_MS);
        assert!(old.contains("31 days before") && old.ends_with("old: run `ellwand selfcheck` again"), "{old}");
        let bare =
            Certificate { revision: None, load: [None; 2], planted: Vec::new(), slow_modes: Vec::new(), ..certificate };
        let bare = line(Some(&bare), 0);
        assert!(
            bare.contains(
                "dated 16 minutes after this run, because the system clock was set back at unknown load · ellwand 0.1.0"
            ),
            "{bare}"
        );
        assert!(line(None, 0).contains("`ellwand selfcheck --quick`"));
    }
}
