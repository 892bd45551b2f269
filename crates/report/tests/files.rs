//! The directory that a run leaves behind.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use ellwand_report::{Options, Report, write_all};

fn report(options: &Options) -> Report {
    Report::from_records(&[common::record()], options).unwrap()
}

fn everything(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(everything(&path));
        } else {
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    names.sort();
    names
}

#[cfg(feature = "png")]
#[test]
fn all_files_are_written_and_the_report_links_to_plots_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { plots: true, ..Options::default() };
    let out = dir.path().join("new").join("out");
    let written = write_all(&report(&options), &out, &options).unwrap();
    let mut names: Vec<String> =
        written.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, everything(&out));
    for name in [
        "run.json",
        "summary.csv",
        "report.md",
        "lattice-encode-time.png",
        "lattice-encode-time.svg",
        "lattice-decode-speedup.svg",
        "overview-throughput-batch.png",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    let markdown = fs::read_to_string(out.join("report.md")).unwrap();
    let links: Vec<&str> =
        markdown.split("](").skip(1).filter_map(|part| part.split_once(')')).map(|(link, _)| link).collect();
    assert!(links.len() >= 10);
    for link in links {
        assert!(out.join(link).is_file(), "{link}");
    }
}

#[cfg(not(feature = "plots"))]
#[test]
fn a_program_without_plots_counts_them_and_writes_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { plots: true, ..Options::default() };
    assert!(ellwand_report::undrawn(&report(&options)) > 8);
    write_all(&report(&options), dir.path(), &options).unwrap();
    assert_eq!(everything(dir.path()), ["report.md", "run.json", "summary.csv"]);
}

#[test]
fn without_plots_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default();
    write_all(&report(&options), dir.path(), &options).unwrap();
    assert_eq!(everything(dir.path()), ["report.md", "run.json", "summary.csv"]);
    assert!(!fs::read_to_string(dir.path().join("report.md")).unwrap().contains("plots/"));
}

#[test]
fn a_file_in_the_way_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("taken");
    fs::write(&file, "x").unwrap();
    let options = Options::default();
    let error = write_all(&report(&options), &file, &options).unwrap_err().to_string();
    assert!(error.contains("taken") && error.contains("choose a directory"), "{error}");
    // A directory where a file belongs: the attempt is cleaned up and nothing looks whole.
    let out = dir.path().join("out");
    fs::create_dir_all(out.join("run.json").join("x")).unwrap();
    let error = write_all(&report(&options), &out, &options).unwrap_err().to_string();
    assert!(error.contains("run.json"), "{error}");
    assert!(everything(&out).is_empty());
}

#[test]
fn a_full_disk_is_an_error_of_the_writer() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let report = report(&Options::default());
    for format in ellwand_report::FORMATS {
        assert!((format.write)(&report, &mut Full).is_err(), "{}", format.name);
    }
}
