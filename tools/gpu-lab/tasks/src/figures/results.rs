//! Reads the results folder of `run.sh`: rows of records through `ellwand report`, lines of the peers, and the outcome
//! of each part.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::interval::Median;

/// A row of a report, or a line of a peer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Part of the script that produced it.
    pub(super) part: String,
    /// Implementation or peer: `cuda`, `torch.compile` and so on.
    pub(super) who: String,
    /// Workload, or the peer's equivalent.
    pub(super) what: String,
    /// Parameters of the case; for a peer, the line's own fields.
    pub(super) params: Value,
    /// Seconds, or why they are missing.
    pub(super) time: Result<Median, String>,
    /// Wall-clock seconds; the next field has the first and last decile of the time.
    pub(super) wall: Option<Median>,
    pub(super) spread: Option<[f64; 2]>,
    pub(super) bytes: f64,
    pub(super) flops: f64,
}

impl Row {
    /// `amount` by the time.
    pub(super) fn rate(&self, amount: f64) -> Result<Median, String> {
        Ok(self.time.clone()?.rate(amount))
    }

    /// Value of a parameter as text, without quotes.
    pub(super) fn param(&self, name: &str) -> String {
        match &self.params[name] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.params[name].as_f64().unwrap_or(0.0)
    }
}

/// All results of a folder.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    /// Verdicts of comparisons, by part.
    pub(super) verdicts: BTreeMap<String, Vec<String>>,
    /// Outcome and reason of each part that did not end with `ok`.
    pub(super) ended: BTreeMap<String, String>,
    /// Name of the card in the records.
    pub(super) device: Option<String>,
}

impl Results {
    /// Reads a folder. A part without a record has no rows; `ended` says why.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut all = Self::default();
        let parts = folder.join("parts.tsv");
        let text = fs::read_to_string(&parts)
            .with_context(|| format!("{}: expected a folder written by run.sh of target/gpu", parts.display()))?;
        for line in text.lines().skip(1) {
            let mut cells = line.split('\t');
            if let (Some(part), Some(outcome), _, why) = (cells.next(), cells.next(), cells.next(), cells.next())
                && outcome != "ok"
            {
                all.ended.insert(part.into(), format!("{outcome}: {}", why.unwrap_or("")));
            }
        }
        let program = xtask::build(&["build", "--release", "--quiet", "-p", "ellwand-cli"], "ellwand")?;
        let mut folders: Vec<PathBuf> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        folders.sort();
        for part in folders.iter().filter(|path| has_record(path)) {
            let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.add_report(&name, &reported(&program, part)?);
        }
        if let Ok(lines) = fs::read_to_string(folder.join("peers.jsonl")) {
            lines.lines().for_each(|line| all.rows.extend(peer(line)));
        }
        Ok(all)
    }

    fn add_report(&mut self, part: &str, report: &Value) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for section in list(&report["workloads"]) {
            let what = word(&section["workload"]);
            self.rows.extend(list(&section["rows"]).iter().map(|row| ours(part, &what, row)));
        }
        let verdicts: Vec<String> = list(&report["comparisons"]).iter().map(|one| word(&one["verdict"])).collect();
        if !verdicts.is_empty() {
            self.verdicts.insert(part.into(), verdicts);
        }
        for device in list(&report["runs"]).iter().flat_map(|run| list(&run["environment"]["devices"])) {
            if word(&device[0]).starts_with("cuda") {
                self.device.get_or_insert(word(&device[1]));
            }
        }
    }

    /// Rows for a workload, from one part or from all (`""`). If a kernel lost the device for the others, the repeated
    /// measurements replace the part.
    pub(super) fn of<'a>(&'a self, part: &'a str, what: &'a str) -> impl Iterator<Item = &'a Row> + 'a {
        let again = format!("{part}-apart");
        let repeated = self.rows.iter().any(|row| row.part == again);
        let from = if repeated { again } else { part.to_string() };
        self.rows.iter().filter(move |row| (from.is_empty() || row.part == from) && row.what == what)
    }

    /// Why a part has no figure.
    pub(super) fn why(&self, part: &str) -> String {
        self.ended.get(part).cloned().unwrap_or_else(|| "not measured".into())
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn has_record(part: &Path) -> bool {
    let names = fs::read_dir(part).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with("record.jsonl"))
}

/// The JSON report of a part's record, which the script may have split and packed.
fn reported(program: &Path, part: &Path) -> Result<Value> {
    let script = "cat record.jsonl* | gzip -dcf | \"$0\" report /dev/stdin --format json";
    let said =
        Command::new("sh").args(["-c", script]).arg(program).current_dir(part).stderr(Stdio::inherit()).output()?;
    if !said.status.success() {
        bail!("{}: `report` failed on its record", part.display());
    }
    serde_json::from_slice(&said.stdout).with_context(|| part.display().to_string())
}

fn ours(part: &str, what: &str, row: &Value) -> Row {
    let median = |metric: &str| {
        let of = |name: &str| row["metrics"][metric][name].as_f64();
        Some(Median { value: of("median")?, low: of("low")?, high: of("high")? })
    };
    let time = &row["metrics"]["time"];
    let work = &row["work"];
    let amount = |name: &str| work[name].as_f64().unwrap_or(0.0);
    let why = || match (time["median"].as_f64(), time["count"].as_u64()) {
        (Some(median), Some(count)) => format!("{median:.3e} s in {count} samples, too few for an interval"),
        _ => format!("{} {}", word(&row["status"]["word"]), word(&row["status"]["reason"])).trim().to_string(),
    };
    Row {
        part: part.into(),
        who: word(&row["implementation"]),
        what: what.into(),
        params: row["params"].clone(),
        time: median("time").ok_or_else(why),
        wall: median("wall-time"),
        spread: time["p10"].as_f64().zip(time["p90"].as_f64()).map(|(low, high)| [low, high]),
        bytes: amount("bytes_read") + amount("bytes_written"),
        flops: amount("flops"),
    }
}

/// Parses a line of `peers.jsonl`; `None` for lines about the machine.
fn peer(line: &str) -> Option<Row> {
    let line: Value = serde_json::from_str(line).ok()?;
    let samples = |name: &str| -> Vec<f64> {
        line[name].as_array().into_iter().flatten().filter_map(Value::as_f64).map(|ns| ns * 1e-9).collect()
    };
    let amount = |name: &str| line[name].as_f64().unwrap_or(0.0);
    let (bytes, flops) = (amount("bytes"), amount("flops"));
    Some(Row {
        part: "peers".into(),
        who: line["library"].as_str()?.to_string(),
        what: line["op"].as_str()?.to_string(),
        time: Median::of(&samples("ns")).ok_or_else(|| word(&line["outcome"])),
        wall: Median::of(&samples("wall_ns")),
        spread: None,
        params: line,
        bytes,
        flops,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeated_measurement_replaces_that_of_its_part() {
        let row = |part: &str| ours(part, "gelu", &json!({"implementation": "cuda", "params": {}}));
        let results = Results { rows: vec![row("gelu"), row("swish")], ..Results::default() };
        assert_eq!(results.of("gelu", "gelu").next().unwrap().part, "gelu");
        let results = Results { rows: vec![row("gelu"), row("gelu-apart")], ..Results::default() };
        let parts: Vec<&str> = results.of("gelu", "gelu").map(|row| row.part.as_str()).collect();
        assert_eq!(parts, ["gelu-apart"]);
    }

    #[test]
    fn rows_of_reports_and_lines_of_peers_become_the_same() {
        let row = json!({
            "implementation": "cuda", "params": {"dimension": 4}, "status": {"word": "measured", "reason": null},
            "work": {"bytes_read": 30, "bytes_written": 10, "flops": 5.0},
            "metrics": {"time": {"median": 2.0, "low": 1.0, "high": 3.0, "p10": 0.5, "p90": 4.0}},
        });
        let row = ours("gelu", "gelu", &row);
        assert_eq!(row.time, Ok(Median { value: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!((row.bytes, row.flops, row.spread, row.wall), (40.0, 5.0, Some([0.5, 4.0]), None));
        let failed = json!({"implementation": "cuda", "status": {"word": "failed", "reason": "no memory"}});
        assert_eq!(ours("gelu", "gelu", &failed).time, Err("failed no memory".into()));
        let few = json!({"status": {"word": "measured"}, "metrics": {"time": {"median": 0.002, "low": null, "high": null, "count": 4}}});
        let few = ours("gelu", "gelu", &few).time.unwrap_err();
        assert_eq!(few, "2.000e-3 s in 4 samples, too few for an interval");
        let ns: Vec<u32> = (1..=30).collect();
        let line = json!({"library": "torch", "op": "gelu", "outcome": "measured", "bytes": 8, "ns": ns, "wall_ns": &ns[20..]});
        let line = peer(&line.to_string()).unwrap();
        assert!((line.time.unwrap().value - 15.5e-9).abs() < 1e-18);
        assert!((line.wall.unwrap().value - 25.5e-9).abs() < 1e-18);
        let broken = peer(r#"{"library": "jax", "op": "gelu", "outcome": "failed: x"}"#).unwrap();
        assert_eq!(broken.time, Err("failed: x".into()));
        assert_eq!(peer(r#"{"torch": "2.11"}"#), None);
    }
}
