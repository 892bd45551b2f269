//! Records: every version ever written stays readable.
#![allow(clippy::unwrap_used)]

use ellwand_core::record::{self, Certificate, Outcome, RecordError, VERSION};
use ellwand_core::{Caches, View};

const V1: &str = include_str!("../../../testdata/records/v1.jsonl");
const COLD: &str = include_str!("../../../testdata/records/v1-cold.jsonl");
const COMPARISONS: &str = include_str!("../../../testdata/records/v1-comparisons.jsonl");

#[test]
fn version_1_is_read() {
    let record = record::parse(V1).unwrap();
    assert_eq!(record.run.version, 1);
    assert_eq!(record.run.environment.cores, 2);
    let outcomes: Vec<(&str, &str)> =
        record.measurements.iter().map(|m| (m.implementation.as_str(), m.outcome.word())).collect();
    assert_eq!(
        outcomes,
        [
            ("scalar", "measured"),
            ("simd", "measured"),
            ("parallel", "measured"),
            ("cuda", "unsupported"),
            ("crooked", "wrong"),
            ("broken", "failed")
        ]
    );
    let scalar = &record.measurements[0];
    assert_eq!(
        scalar.case.id,
        "lattice-encode/batch=2,beta=1,centred=off,data=matched,lattice=D4,levels=2,overload=flag,q=4"
    );
    assert_eq!(scalar.samples.len(), 5);
    assert!(
        scalar.samples.iter().all(|sample| sample.wall_ns > 0 && sample.cpu_ns.is_some() && sample.device_ns.is_none())
    );
    assert_eq!(scalar.reading("spare").unwrap().value, None);
    assert!(record.warnings.is_empty());
}

#[test]
fn the_cache_state_is_read_and_is_warm_in_older_records() {
    let warm = record::parse(V1).unwrap();
    assert_eq!(warm.run.settings.caches, Caches::Warm);
    assert!(warm.measurements.iter().all(|m| m.caches == Caches::Warm));
    assert!(!record::line(&warm.measurements[0]).unwrap().contains("caches"), "old records are written as they were");
    let cold = record::parse(COLD).unwrap();
    assert_eq!(cold.run.settings.caches, Caches::Cold);
    let copy = &cold.measurements[0];
    assert_eq!(copy.caches, Caches::Cold);
    assert!(copy.samples.iter().all(|sample| sample.iterations == 1 && sample.parts.is_none()));
    assert_eq!(
        record::parse(&format!("{}\n{}\n", record::line(&cold.run).unwrap(), record::line(copy).unwrap())),
        Ok(cold)
    );
}

#[test]
fn a_record_is_written_as_it_was_read() {
    let record = record::parse(V1).unwrap();
    let mut text = record::line(&record.run).unwrap() + "\n";
    for measurement in &record.measurements {
        text += &record::line(measurement).unwrap();
        text += "\n";
    }
    assert_eq!(record::parse(&text).unwrap(), record);
}

#[test]
fn a_truncated_last_line_is_skipped_with_a_warning() {
    let record = record::parse(&V1[..V1.len() - 20]).unwrap();
    assert_eq!(record.measurements.len(), 5);
    assert!(record.warnings[0].contains("line 7 was cut off"), "{:?}", record.warnings);
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error_with_its_number() {
    let damaged = V1.replacen("\"status\":\"measured\"", "\"status\":\"mesured\"", 1);
    assert!(matches!(record::parse(&damaged), Err(RecordError::Damaged { line: 2, .. })));
    let garbage = V1.replacen("{\"kind\":\"measurement\"", "garbage", 1);
    assert!(matches!(record::parse(&garbage), Err(RecordError::Damaged { line: 2, .. })));
    let lengths = V1.replacen("\"round\":[0,", "\"round\":[", 1);
    assert!(record::parse(&lengths).unwrap_err().to_string().contains("different lengths"));
}

#[test]
fn lines_of_an_unknown_kind_are_skipped_with_a_warning() {
    let with_marks = format!("{V1}{{\"kind\":\"marks\",\"lanes\":[]}}\n");
    let record = record::parse(&with_marks).unwrap();
    assert_eq!(record.measurements.len(), 6);
    assert!(record.warnings[0].contains("kind \"marks\""), "{:?}", record.warnings);
}

#[test]
fn a_newer_format_and_a_foreign_file_are_errors() {
    let newer = V1.replacen("\"version\":1", &format!("\"version\":{}", VERSION + 1), 1);
    assert_eq!(record::parse(&newer).unwrap_err(), RecordError::Newer { found: VERSION + 1 });
    assert_eq!(record::parse("").unwrap_err(), RecordError::Empty);
    assert!(matches!(record::parse("[1, 2]\n"), Err(RecordError::NoRun(_))));
    assert!(matches!(record::parse("{\"kind\":\"measurement\"}\n"), Err(RecordError::NoRun(_))));
}

#[test]
fn a_cell_measured_again_replaces_the_first() {
    let last =
        V1.lines().nth(1).unwrap().replace("\"status\":\"measured\"", "\"status\":\"failed\",\"error\":\"later\"");
    let record = record::parse(&format!("{V1}{last}\n")).unwrap();
    assert_eq!(record.measurements.len(), 6);
    let scalar = record.measurements.iter().find(|m| m.implementation == "scalar").unwrap();
    assert_eq!(scalar.outcome, Outcome::Failed { error: "later".into() });
}

#[test]
fn comparisons_and_the_certificate_are_read_and_written_the_same() {
    let record = record::parse(COMPARISONS).unwrap();
    assert!(record.measurements.is_empty() && record.warnings.is_empty());
    let certificate = record.run.certificate.as_ref().unwrap();
    assert_eq!((certificate.decisions, certificate.false_alarms, certificate.planted.len()), (400, 0, 3));
    let tail = certificate.slow_modes.iter().find(|slow| slow.kind == "tail").unwrap();
    assert_eq!((tail.decisions, tail.slower), (60, 59));
    // A certificate older than the slow modes has none and is otherwise the same.
    let before = COMPARISONS.replace(
        r#","slow_modes":[{"kind":"modes","decisions":60,"slower":60},{"kind":"tail","decisions":60,"slower":59}]"#,
        "",
    );
    let before = record::parse(&before).unwrap().run.certificate.unwrap();
    assert_eq!(Certificate { slow_modes: certificate.slow_modes.clone(), ..before.clone() }, *certificate);
    assert!(before.slow_modes.is_empty() && before.unjudged.is_empty());
    let unjudged = Certificate { unjudged: vec!["dram".into()], ..before };
    let text = serde_json::to_string(&unjudged).unwrap();
    assert_eq!(serde_json::from_str::<Certificate>(&text).unwrap(), unjudged);
    let verdicts: Vec<&str> = record.comparisons.iter().map(|comparison| comparison.verdict.as_str()).collect();
    assert_eq!(verdicts, ["slower", "faster", "none"]);
    let mut text = record::line(&record.run).unwrap() + "\n";
    for comparison in &record.comparisons {
        text += &record::line(comparison).unwrap();
        text += "\n";
    }
    assert_eq!(record::parse(&text).unwrap(), record);
    // Older records have no certificates and no comparisons.
    let old = record::parse(V1).unwrap();
    assert!(old.run.certificate.is_none() && old.comparisons.is_empty() && old.resumed.is_empty());
}

#[test]
fn a_verdict_is_recomputed_from_the_blocks() {
    use ellwand_core::stats::Difference;
    let record = record::parse(COMPARISONS).unwrap();
    let first = &record.comparisons[1];
    let change = first.change().unwrap().unwrap();
    assert_eq!(change.difference, Difference::Faster);
    assert!(change.low < change.ratio && change.ratio < change.high && change.high < 1.0);
    assert_eq!(record.comparisons[2].change(), Ok(None));
    // A number of blocks that is not a planned look gives no result.
    let mut cut = first.clone();
    cut.blocks.pop();
    assert!(cut.change().is_err());
}

/// The system clock steps between two commands of a record: the times stay the same, with a warning.
#[test]
fn a_clock_that_was_set_back_gives_a_warning_and_changes_no_time() {
    let first = V1.lines().next().unwrap();
    let started = record::parse(V1).unwrap().run.started_unix_ms;
    let dated =
        |ms: u64| first.replace(&format!("\"started_unix_ms\":{started}"), &format!("\"started_unix_ms\":{ms}"));
    let resumed = |ms: &[u64]| {
        let more: String = ms.iter().map(|ms| dated(*ms) + "\n").collect();
        record::parse(&format!("{V1}{more}")).unwrap()
    };
    let plain = record::parse(V1).unwrap();
    assert!(resumed(&[started, started + 3_600_000]).warnings.is_empty(), "clocks go forwards");
    let back = resumed(&[started + 3_600_000, started + 1_800_500, started + 1_800_500]);
    assert_eq!(back.measurements, plain.measurements);
    let [warning] = &back.warnings[..] else { panic!("{:?}", back.warnings) };
    assert!(warning.contains("dated 1799.5 s before") && warning.contains("set back"), "{warning}");
    // Dates before 1970 and at the end of the range are accepted.
    assert_eq!(resumed(&[0, u64::MAX]).warnings.len(), 1);
}

#[test]
fn a_resumed_record_names_every_command() {
    let first = V1.lines().next().unwrap();
    let second_command = first.replacen("\"command\":[", "\"command\":[\"again\",", 1);
    let record = record::parse(&format!("{V1}{second_command}\n")).unwrap();
    assert_eq!(record.resumed.len(), 1);
    assert_eq!((record.resumed[0][0].as_str(), record.resumed[0].len()), ("again", record.run.command.len() + 1));
    assert_eq!(record.measurements.len(), 6);
    // Each measurement knows the command that made it; a cell measured again belongs to the later one.
    let second = V1.lines().nth(2).unwrap();
    let resumed = record::parse(&format!("{V1}{second_command}\n{second}\n")).unwrap();
    let sessions: Vec<usize> = resumed.measurements.iter().map(|measurement| measurement.session).collect();
    assert_eq!(sessions, [0, 0, 0, 0, 0, 1]);
    assert_eq!(record::line(resumed.measurements.last().unwrap()).unwrap(), second, "it is not written");
    let damaged = second_command.replacen("\"seed\"", "\"sead\"", 1);
    assert!(matches!(record::parse(&format!("{V1}{damaged}\n")), Err(RecordError::Damaged { line: 8, .. })));
}

const SPANS: &str = include_str!("../../../testdata/records/v1-spans.jsonl");

#[test]
fn spans_are_read_and_written_the_same() {
    let record = record::parse(&format!("{V1}{SPANS}")).unwrap();
    assert_eq!((record.measurements.len(), record.spans.len()), (6, 2));
    let [spans, absent] = record.spans.as_slice() else { panic!("two lines") };
    assert_eq!(spans.nodes.iter().map(|node| node.path.join("/")).collect::<Vec<_>>(), ["encode", "encode/split"]);
    assert_eq!(spans.iteration_ns.iter().sum::<f64>(), 2100.0);
    assert!(matches!(absent.outcome, Outcome::Unsupported { .. }) && absent.nodes.is_empty());
    let written: String = record.spans.iter().map(|spans| record::line(spans).unwrap() + "\n").collect();
    assert_eq!(written, SPANS);
    // A cell that occurs twice: the last one is kept, as for measurements.
    assert_eq!(record::parse(&format!("{V1}{SPANS}{SPANS}")).unwrap().spans, record.spans);
    let damaged = SPANS.replacen("\"calls\":2", "\"calls\":-2", 1);
    assert!(matches!(record::parse(&format!("{V1}{damaged}")), Err(RecordError::Damaged { line: 8, .. })));
}

const VIEWS: &str = include_str!("../../../testdata/records/v1-views.jsonl");

#[test]
fn views_of_every_command_are_read_and_kinds_of_later_versions_are_none_of_them() {
    let views = record::parse(VIEWS).unwrap().run.views;
    assert!(views.len() == 5 && !views.contains(&View::Unknown), "{views:?}");
    let run = VIEWS.lines().next().unwrap();
    let later = run.replace(r#""kind":"curve""#, r#""kind":"a-later-one""#);
    let both = record::parse(&format!("{run}\n{later}\n")).unwrap().run.views;
    assert_eq!(both, [&views[..], &[View::Unknown]].concat(), "each once");
    assert!(record::parse(V1).unwrap().run.views.is_empty());
}

/// The record as this version writes it, with a checksum in every line.
fn sealed(text: &str) -> String {
    text.lines().map(|line| record::seal(line) + "\n").collect()
}

#[test]
fn lines_with_checksums_are_read_as_those_without_are() {
    for text in [V1, COLD, COMPARISONS, VIEWS] {
        let (old, new) = (record::parse(text).unwrap(), record::parse(&sealed(text)).unwrap());
        assert!(!old.checked && new.checked);
        assert_eq!(record::Record { checked: false, ..new }, old);
    }
    // CRC-32 of zlib, so that any tool can check a line.
    assert_eq!(record::seal(r#"{"a":1}"#), r#"{"a":1,"crc32":"a702fc6e"}"#);
}

#[test]
fn a_changed_digit_is_found_and_its_line_named() {
    let text = sealed(V1);
    let message = |text: &str| record::parse(text).unwrap_err().to_string();
    let digit = text.replacen("\"cores\":2", "\"cores\":3", 1);
    assert!(message(&digit).starts_with("line 1: it differs from its checksum"), "{}", message(&digit));
    assert!(message(&digit).ends_with("restore it from a copy"));
    // A line without a checksum among lines with one has lost it.
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines[3] = V1.lines().nth(3).unwrap().into();
    let lost = lines.join("\n") + "\n";
    assert!(message(&lost).starts_with("line 4: it has lost its checksum"), "{}", message(&lost));
    assert!(message(&lost).contains("delete that line to read the others"));
    // A later command of another version may write lines without checksums.
    let mixed = format!("{text}{V1}");
    assert!(!record::parse(&mixed).unwrap().checked);
    assert!(record::parse(&format!("{V1}{text}")).is_ok());
    assert!(message(&format!("{V1}{}\n", lines[1])).contains("the line of its run has lost its checksum"));
}

proptest::proptest! {
    #[test]
    fn every_flipped_bit_is_found(at in 0_usize..1_000_000, bit in 0_u32..8) {
        let text = sealed(V1);
        let mut bytes = text.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        match record::parse(&String::from_utf8_lossy(&bytes)) {
            Err(error) => assert!(!error.to_string().is_empty()),
            // Without its line end, the last line counts as truncated.
            Ok(record) => assert!(at + 1 == text.len() && record.warnings[0].contains("cut off"), "{at} {bit}"),
        }
    }
}

#[test]
fn a_record_names_its_commit_and_a_resumed_one_another() {
    let mut run = record::parse(V1).unwrap().run;
    assert_eq!(run.revision, None, "older records have none");
    let at = |commit: &str, changed| record::Revision { commit: commit.into(), committed_unix_ms: 1000, changed };
    run.revision = Some(at("0123456789abcdef", true));
    let first = record::line(&run).unwrap();
    assert_eq!(record::parse(&format!("{first}\n")).unwrap().run, run);
    assert_eq!(run.revision.as_ref().unwrap().short(), "0123456789+");
    let same = record::parse(&format!("{first}\n{first}\n")).unwrap();
    assert_eq!(same.warnings, [] as [String; 0]);
    run.revision = Some(at("0123456789abcdef", false));
    let resumed = record::parse(&format!("{first}\n{}\n", record::line(&run).unwrap())).unwrap();
    assert!(resumed.warnings[0].contains("commit 0123456789, it began at 0123456789+"), "{:?}", resumed.warnings);
}
