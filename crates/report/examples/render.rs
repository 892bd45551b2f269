//! Renders record files into a directory, or a synthetic record if none is given:
//! `cargo run -p ellwand-report --example render -- DIR [RECORD..]`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use ellwand_report::{Options, Report, format, write_all};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("expected a directory to write into")?);
    let mut records = Vec::new();
    for file in arguments {
        records.push(ellwand_core::record::parse(&std::fs::read_to_string(file)?)?);
    }
    if records.is_empty() {
        records.push(common::record());
    }
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let full = std::env::var_os("FULL").is_some();
    let options = Options { width, full, plots: true, ..Options::default() };
    let report = Report::from_records(&records, &options)?;
    let mut out = std::io::stdout().lock();
    (format("table").ok_or("the table format is missing")?.write)(&report, &mut out)?;
    for file in write_all(&report, &dir, &options)? {
        writeln!(out, "{}", file.display())?;
    }
    Ok(())
}
