//! The published schema accepts every line that Ellwand writes and rejects anything else.
#![allow(clippy::unwrap_used)]

mod common;

use boon::{Compiler, SchemaIndex, Schemas};
use ellwand_core::Outcome;
use ellwand_core::record::{Centre, Curve, Stakes, line};
use ellwand_report::RECORD_SCHEMA;
use serde_json::{Value, json};

fn schema() -> (Schemas, SchemaIndex) {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource("record.json", serde_json::from_str(RECORD_SCHEMA).unwrap()).unwrap();
    let index = compiler.compile("record.json", &mut schemas).unwrap();
    (schemas, index)
}

#[track_caller]
fn accepted(text: &str) {
    let (schemas, index) = schema();
    let value: Value = serde_json::from_str(text).unwrap();
    if let Err(error) = schemas.validate(&value, index) {
        panic!("{error:#}\n{text}");
    }
}

fn refused(value: &Value) -> bool {
    let (schemas, index) = schema();
    schemas.validate(value, index).is_err()
}

#[test]
fn a_run_and_a_measurement_of_every_outcome_are_accepted() {
    accepted(&line(&common::run()).unwrap());
    let mut seen = Vec::new();
    for measurement in common::lattice("lattice-encode", 1.0) {
        seen.push(measurement.outcome.word());
        accepted(&line(&measurement).unwrap());
    }
    let failed = common::other(common::null().remove(0), Outcome::Failed { error: "it stopped".into() });
    accepted(&line(&failed).unwrap());
    seen.push(failed.outcome.word());
    for word in ["measured", "unsupported", "wrong", "failed"] {
        assert!(seen.contains(&word), "{word}");
    }
}

#[test]
fn the_record_kept_for_ever_is_accepted() {
    for name in ["v1.jsonl", "v1-comparisons.jsonl", "v1-cold.jsonl"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/");
        let text = std::fs::read_to_string(format!("{folder}{name}")).unwrap();
        assert!(text.lines().count() > 1);
        text.lines().for_each(accepted);
        // The lines that this version writes back are accepted as well.
        let record = ellwand_core::record::parse(&text).unwrap();
        record.comparisons.iter().for_each(|comparison| accepted(&line(comparison).unwrap()));
        accepted(&line(&record.run).unwrap());
        accepted(&ellwand_core::record::seal(&line(&record.run).unwrap()));
    }
}

#[test]
fn a_comparison_by_any_rule_is_accepted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-comparisons.jsonl");
    let record = ellwand_core::record::parse(&std::fs::read_to_string(folder).unwrap()).unwrap();
    let mut comparison = record.comparisons.into_iter().find(|comparison| !comparison.blocks.is_empty()).unwrap();
    comparison.blocks[0].weight = 0.5;
    comparison.blocks[1].bet = 0.0;
    comparison.compared = Some(ellwand_core::Compared { values: 211, of: 1000 });
    for spending in [Curve::Pocock, Curve::Hyperbolic, Curve::Joint] {
        for stakes in [Stakes::Fixed, Stakes::ByScatter, Stakes::ByBlocks, Stakes::Even, Stakes::Thirds] {
            for centre in [Centre::Mean, Centre::Robust] {
                (comparison.spending, comparison.stakes, comparison.centre) = (spending, stakes, centre);
                accepted(&line(&comparison).unwrap());
            }
        }
    }
}

#[test]
fn an_empty_environment_and_bare_samples_are_accepted() {
    let mut run = common::run();
    run.environment = ellwand_core::Environment::default();
    accepted(&line(&run).unwrap());
    let mut measurement = common::null().remove(0);
    for sample in &mut measurement.samples {
        (sample.cpu_ns, sample.switches, sample.faults) = (None, None, None);
    }
    measurement.case.input = Some("00ff".into());
    accepted(&line(&measurement).unwrap());
}

#[test]
fn damage_is_refused() {
    let good: Value = serde_json::from_str(&line(&common::null()[0]).unwrap()).unwrap();
    let with = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        bad
    };
    assert!(!refused(&good));
    assert!(refused(&with("/outcome", json!({"status": "unsupported"}))));
    assert!(refused(&with("/outcome", json!({"status": "fine"}))));
    assert!(refused(&with("/samples/wall_ns/0", json!(-1))));
    assert!(refused(&with("/parallelism", json!("two"))));
    assert!(refused(&with("/work/items", json!("many"))));
    let mut checksum = good.clone();
    checksum["crc32"] = json!("A702FC6E");
    assert!(refused(&checksum), "digits are lower case");
    let mut missing = good.clone();
    missing.as_object_mut().unwrap().remove("case");
    assert!(refused(&missing));
    assert!(refused(&json!({"no": "kind"})));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records/v1-comparisons.jsonl");
    let text = std::fs::read_to_string(folder).unwrap();
    let comparison: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    for (path, value) in [("/verdict", json!("slow")), ("/blocks/0/main", json!("x")), ("/looks", json!([-1]))] {
        let mut bad = comparison.clone();
        *bad.pointer_mut(path).unwrap() = value;
        assert!(refused(&bad), "{path}");
    }
    let mut newer: Value = serde_json::from_str(&line(&common::run()).unwrap()).unwrap();
    newer["version"] = json!(2);
    assert!(refused(&newer));
}
