//! Records survive being cut off.

mod common;

use std::fs;

use common::{Act, Bench, settings};
use ellwand_bench::{Writer, WriterError, environment, writer};
use ellwand_core::record::{Run, VERSION};

fn run() -> Run {
    Run {
        version: VERSION,
        id: "test".into(),
        command: vec!["ellwand".into(), "run".into()],
        started_unix_ms: 1,
        ellwand: "0".into(),
        seed: 7,
        environment: environment::detect(),
        settings: settings(),
        revision: None,
        certificate: None,
        views: Vec::new(),
        shard: None,
    }
}

#[test]
fn a_record_cut_at_any_byte_keeps_every_whole_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.jsonl");
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(500));
    bench.add("other", |_| Act::Right(500));
    let measured = bench.measure();
    let mut record = Writer::create(&path, &run()).unwrap();
    for measurement in &measured {
        record.append(measurement).unwrap();
    }
    drop(record);
    let whole = fs::read(&path).unwrap();
    assert_eq!(writer::read(&path).unwrap().measurements, measured, "what is read is what was written");

    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in ends[0]..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = ends.iter().filter(|end| **end <= cut).count() - 1;
        let (mut record, known) = Writer::resume(&path).unwrap();
        assert_eq!(known.measurements.len(), lines, "cut at {cut}");
        if cut == ends[1] + 5 {
            record.append(&measured[1]).unwrap();
            drop(record);
            assert_eq!(fs::read(&path).unwrap(), whole, "the cut line is replaced, nothing else changes");
        }
    }
}

#[test]
fn a_file_that_is_no_record_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.jsonl");
    for (content, expected) in
        [("", "empty"), ("hello\n", "not the start of a record"), ("{\"kind\":\"run\",\"version\":99}\n", "version 99")]
    {
        fs::write(&path, content).unwrap();
        let message = writer::read(&path).unwrap_err().to_string();
        assert!(message.contains("record.jsonl") && message.contains(expected), "{message}");
    }
    let missing = writer::read(&dir.path().join("none.jsonl")).unwrap_err().to_string();
    assert!(missing.contains("none.jsonl"), "{missing}");
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    // /dev/full can be opened and fails every write (full(4)).
    if let Err(error) = Writer::create(std::path::Path::new("/dev/full"), &run()) {
        assert!(error.to_string().contains("/dev/full"), "{error}");
    } else {
        panic!("a write to /dev/full went through");
    }
}

#[test]
fn advice_names_no_flag_that_a_command_may_lack() {
    use std::io::{Error, ErrorKind};
    for kind in [ErrorKind::PermissionDenied, ErrorKind::StorageFull] {
        let path = || "record.jsonl".into();
        let [begin, later] = [
            WriterError::Begin { path: path(), cause: Error::from(kind) },
            WriterError::Io { path: path(), cause: Error::from(kind) },
        ]
        .map(|error| error.to_string());
        assert!(begin.contains("hint: ") && !begin.contains("-o"), "{begin}");
        assert!(later.contains("hint: ") && !later.contains("-o"), "{later}");
    }
}

#[test]
fn a_record_has_one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.jsonl");
    let first = Writer::create(&path, &run()).unwrap();
    let whole = fs::read(&path).unwrap();
    for second in [Writer::create(&path, &run()).map(|_| ()), Writer::resume(&path).map(|_| ())] {
        let message = second.unwrap_err().to_string();
        assert!(message.contains("record.jsonl") && message.contains("another process"), "{message}");
    }
    assert_eq!(fs::read(&path).unwrap(), whole, "nothing was cut before the lock was taken");
    drop(first);
    Writer::resume(&path).unwrap();
}
