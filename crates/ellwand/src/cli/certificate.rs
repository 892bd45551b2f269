//! The last self-check of this machine, which runs embed.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Once;

use ellwand_bench::selfcheck::{MODES, SLOWED, Seen, SelfCheck, TAIL};
use ellwand_core::Environment;
use ellwand_core::record::{Certificate, Planted, SlowMode};

use super::output::{cache_path, note};

/// The last commit before this program was built; `None` outside a repository of Ellwand.
pub(super) fn revision() -> Option<String> {
    option_env!("ELLWAND_REVISION").filter(|revision| !revision.is_empty()).map(str::to_string)
}

/// The certificate cannot be read; `stored` has printed why.
#[derive(Debug)]
pub(super) struct Unreadable;

/// The certificate that `selfcheck` saved for this machine and version; `None` if it has not run.
pub(super) fn stored(environment: &Environment) -> Result<Option<Certificate>, Unreadable> {
    static NOTED: Once = Once::new();
    let Some(path) = cache_path("selfcheck", environment) else { return Ok(None) };
    read(&path).map(|full| full.as_ref().map(short)).map_err(|error| {
        NOTED.call_once(|| note(&unreadable(&path, &error)));
        Unreadable
    })
}

fn read(path: &Path) -> std::io::Result<Option<SelfCheck>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("note: the self-check {} cannot be read ({error}); `ellwand selfcheck` replaces it", path.display())
}

/// True if the certificate `before` is kept: `new` ran out of time, with fewer decisions on equal code. The decisions
/// themselves are irrelevant.
pub(super) fn stays(before: &Certificate, new: &SelfCheck) -> bool {
    new.planned.is_some() && before.decisions > new.false_alarms().1
}

/// The counts that a reader needs: all kernels together, one line per planted difference.
fn short(full: &SelfCheck) -> Certificate {
    let (false_alarms, decisions, _) = full.false_alarms();
    let mut planted: Vec<Planted> = Vec::new();
    for row in full.rows.iter().filter(|row| row.candidate == SLOWED) {
        match planted.iter_mut().find(|known| known.percent == row.percent) {
            Some(known) => {
                known.decisions += row.decisions;
                known.slower += row.slower;
            }
            None => planted.push(Planted { percent: row.percent, decisions: row.decisions, slower: row.slower }),
        }
    }
    planted.sort_by_key(|known| known.percent);
    let slow_modes = [MODES, TAIL].into_iter().filter_map(|kind| {
        let rows = || full.rows.iter().filter(|row| row.candidate == kind);
        let slower = rows().map(|row| row.slower).sum();
        let decisions = rows().map(|row| row.decisions).sum();
        (decisions > 0).then(|| SlowMode { kind: kind.into(), decisions, slower })
    });
    let unjudged = full.detection().into_iter().filter(|(_, seen)| *seen == Seen::NotJudged);
    Certificate {
        ellwand: full.ellwand.clone(),
        revision: full.revision.clone(),
        started_unix_ms: full.started_unix_ms,
        load: full.load,
        rope: full.rope,
        alpha: full.alpha,
        decisions,
        false_alarms,
        planted,
        slow_modes: slow_modes.collect(),
        unjudged: unjudged.map(|(kernel, _)| kernel.trim_start_matches("selfcheck-").to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_bench::selfcheck::{PLAIN, TWIN};
    use serde_json::{Value, json};

    fn full(rows: Value) -> Value {
        json!({ "ellwand": "0.1.0", "revision": "abc", "machine": "m", "started_unix_ms": 7, "load": [1.0, null],
            "slot_cost_ns": null, "rope": 0.01, "alpha": 0.01, "rows": rows,
            // Only older programs wrote these.
            "floor": { "latency_ns": 1.0, "chains": [[1, 1.0, 1.0]] }, "resolution_ns": 6.2 })
    }

    #[test]
    fn kernels_are_added_up() {
        let row = |candidate: &str, percent: i64, decisions: u64, slower: u64, faster: u64| {
            json!({ "workload": "w", "candidate": candidate, "found_by": {}, "percent": percent, "passes": 1, "decisions": decisions,
                "slower": slower, "faster": faster, "same": 0, "undecided": 0, "withheld": 0, "failed": 0, "covered": 0, "bias": 0.0,
                "seconds": [0.0, 0.0], "blocks": [0.0, 0.0] })
        };
        let rows = [
            row(SLOWED, 5, 30, 30, 0),
            row(PLAIN, 0, 200, 1, 0),
            row(SLOWED, 2, 30, 28, 0),
            row(TWIN, 0, 200, 0, 1),
            row(SLOWED, 2, 30, 29, 0),
            // A tail is not a slow-down of a given size.
            row(TAIL, 0, 30, 30, 0),
            row(TAIL, 0, 30, 28, 0),
        ];
        let full: SelfCheck = serde_json::from_value(full(json!(rows))).unwrap();
        assert_eq!(full.detection(), [("w".to_string(), Seen::From { percent: 2, seconds: 0.0, found: [29, 30] })]);
        let short = short(&full);
        assert_eq!((short.decisions, short.false_alarms), (400, 2));
        let planted: Vec<_> = short.planted.iter().map(|p| (p.percent, p.decisions, p.slower)).collect();
        assert_eq!(planted, [(2, 60, 57), (5, 30, 30)]);
        assert_eq!(short.slow_modes, [SlowMode { kind: "tail".into(), decisions: 60, slower: 58 }]);
        assert!(short.unjudged.is_empty());
        let cut = SelfCheck { planned: Some(900), ..full.clone() };
        let more = Certificate { decisions: 401, ..short.clone() };
        assert!(stays(&more, &cut) && !stays(&more, &full) && !stays(&short, &cut));
        let mut late = full.clone();
        for row in late.rows.iter_mut().filter(|row| row.candidate == SLOWED) {
            (row.workload, row.decisions, row.failed) = ("selfcheck-dram".into(), 0, 3);
        }
        assert_eq!(super::short(&late).unjudged, ["dram"]);
        // A certificate saved before revisions were recorded can still be read.
        let old = serde_json::to_string(&full).unwrap().replace(r#""revision":"abc","#, "");
        assert_eq!(serde_json::from_str::<SelfCheck>(&old).unwrap().revision, None);
    }

    #[test]
    fn an_unreadable_certificate_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("selfcheck.json");
        assert!(read(&path).unwrap().is_none(), "no self-check is no error");
        std::fs::write(&path, full(json!([])).to_string()).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().started_unix_ms, 7);
        std::fs::write(&path, "{").unwrap();
        let line = unreadable(&path, &read(&path).unwrap_err());
        assert!(line.contains("selfcheck.json cannot be read (EOF") && !line.contains('\n'), "{line}");
    }
}
