//! `view`: shows a profile or a record as one offline page in the browser.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use ellwand_core::InputError;
use ellwand_page::{Document, Extras};
use ellwand_profile::{Trace, write_file};
use ellwand_report::{Options, Report};
use ellwand_trace::{DiffOptions, EXPECTED};
use serde_json::Value;

use super::args::ViewArgs;
use super::exit::{Exit, Failure, Outcome};
use super::profile::{findings, read};
use super::{output, records, results_dir};

pub(super) fn view(args: &ViewArgs) -> Outcome {
    let file = if args.file.is_dir() { args.file.join(results_dir::RECORD) } else { args.file.clone() };
    let page = page(&file, args.baseline.as_deref())?;
    let path = match &args.output {
        Some(path) => {
            let inputs: Vec<&Path> = [Some(file.as_path()), args.baseline.as_deref()].into_iter().flatten().collect();
            output::new_file(path, &inputs, args.overwrite)?;
            path.clone()
        }
        None => temporary()?,
    };
    write_file(&path, |out| out.write_all(&page))?;
    output::result(|out| writeln!(out, "{}", path.display()))?;
    if args.output.is_none() && !args.no_open && std::io::stdout().is_terminal() {
        open(&path);
    }
    Ok(Exit::Ok)
}

/// The page of a record or a profile.
fn page(file: &Path, baseline: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    if is_record(file) {
        if baseline.is_some() {
            let expected = "a profile; records are compared with `ellwand compare BASE CANDIDATE`";
            return Err(InputError::new("--baseline", "FILE is a record", expected).into());
        }
        let report = Report::from_records(&[records::read("FILE", file)?], &Options::default())?;
        ellwand_report::html(&report, &mut page)?;
        return Ok(page);
    }
    let baseline = baseline.map(|path| read("--baseline", path, EXPECTED)).transpose()?;
    let trace = read("FILE", file, &format!("a record, {EXPECTED}"))?;
    Ok(profile_page(&trace, baseline.as_ref())?)
}

/// The page of a profile, with its findings.
///
/// # Errors
/// If the profile cannot be encoded.
pub fn profile_page(trace: &Trace, baseline: Option<&Trace>) -> anyhow::Result<Vec<u8>> {
    let difference =
        baseline.map(|baseline| ellwand_trace::diff(baseline, trace, &DiffOptions::default())).transpose()?;
    let difference = difference.map(serde_json::to_value).transpose()?;
    let baseline = baseline.map(document).transpose()?;
    let findings: Result<Vec<Value>, _> = findings(trace).iter().map(serde_json::to_value).collect();
    let findings = findings?;
    let extras = Extras { findings: &findings, baseline: baseline.as_ref(), difference: difference.as_ref() };
    let mut page = Vec::new();
    ellwand_page::profile_page(&document(trace)?, &extras, &mut page)?;
    Ok(page)
}

/// True if the file begins like a record: with an object of kind `run`.
fn is_record(file: &Path) -> bool {
    let mut head = String::new();
    let read = File::open(file).map(|file| BufReader::new(file.take(1 << 16)).read_line(&mut head));
    read.is_ok() && head.trim_start().starts_with("{\"kind\":\"run\"")
}

fn document(trace: &Trace) -> anyhow::Result<Document> {
    let mut bytes = Vec::new();
    trace.write_json(&mut bytes)?;
    Ok(Document::from_json(&bytes)?)
}

/// A new file in the temporary directory, which the browser can still read after this program has ended.
fn temporary() -> Result<PathBuf, Failure> {
    let dir = std::env::temp_dir().join(format!("ellwand-{}", std::process::id()));
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("{} cannot be written; choose a file with -o", dir.display()))?;
    Ok(dir.join("view.html"))
}

/// Opens the page with the desktop's program for it. Failure is no error, because the path is printed.
fn open(path: &Path) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started =
        Command::new(program).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if started.is_err() {
        output::note(&format!("note: {program} was not found; open the file in a browser"));
    }
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn errors_of_unreadable_files_mention_records() {
        let error = |path: &str| page(path.as_ref(), None).unwrap_err().to_string();
        let missing = error("nosuch");
        assert!(
            missing.contains("nosuch: cannot be read") && missing.contains("the name of an existing file"),
            "{missing}"
        );
        let other = error(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(other.contains("expected a record, Ellwand's JSON"), "{other}");
    }
}
