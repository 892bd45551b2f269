//! Results of several machines in one class.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ellwand::internals::core::record::{Record, Run, line, seal};

use super::{finished, record};

/// Changes the first line of a result.
fn edited(path: &Path, change: impl Fn(&mut Run)) {
    let record = record(path);
    let mut run = record.run.clone();
    change(&mut run);
    let rest = record.measurements.iter().map(|measurement| line(measurement).unwrap());
    let text: String = std::iter::once(line(&run).unwrap()).chain(rest).map(|line| seal(&line) + "\n").collect();
    fs::write(path, text).unwrap();
}

#[test]
fn two_machines_never_share_a_record() {
    let another_processor: fn(&mut _) =
        |here: &mut ellwand::internals::core::Environment| here.cpu = "Another CPU".into();
    let another_card: fn(&mut _) =
        |here: &mut ellwand::internals::core::Environment| here.devices.push(("cuda:0".into(), "a card".into()));
    for change in [another_processor, another_card] {
        let here = finished();
        edited(&here.path("plan.shards/default/0001.jsonl"), |run| change(&mut run.environment));
        let merged = here.ok(&["sweep", "merge", "plan.json", "--no-plot"]);
        assert!(merged.stderr.contains("class default ran on 2 different machines"), "{}", merged.stderr);
        let dirs = fs::read_dir(here.path("plan.merged")).unwrap().flatten().map(|entry| entry.path());
        let records: Vec<Record> = dirs.map(|dir| record(&dir.join("record.jsonl"))).collect();
        assert_eq!(records.iter().map(|record| record.measurements.len()).collect::<Vec<_>>(), [2, 2]);
        assert_ne!(records[0].run.environment, records[1].run.environment);
        assert_ne!(records[0].run.id, records[1].run.id);
        let lacks = records.iter().map(|record| record.run.shard.as_ref().unwrap().missing.len());
        assert_eq!(lacks.collect::<Vec<_>>(), [2, 2], "each has only a part of the cases");
    }
}

#[test]
fn a_merge_leaves_no_record_of_an_earlier_one() {
    let here = finished();
    here.ok(&["sweep", "merge", "plan.json"]);
    fs::create_dir(here.path("plan.merged/mine")).unwrap();
    fs::copy(here.path("plan.shards/default/0000.jsonl"), here.path("plan.merged/mine/record.jsonl")).unwrap();
    let names = || {
        let entries = fs::read_dir(here.path("plan.merged")).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let shard = here.path("plan.shards/default/0001.jsonl");
    let cpu = record(&shard).run.environment.cpu;
    edited(&shard, |run| run.environment.cpu = "Another CPU".into());
    here.refused(
        &["sweep", "merge", "plan.json"],
        &["plan.merged/default holds a record of an earlier merge", "--overwrite"],
    );
    assert_eq!(names().len(), 2);
    here.write("plan.merged/default/notes.txt", b"of the user");
    let merged = here.ok(&["sweep", "merge", "plan.json", "--overwrite"]);
    assert!(
        merged.stderr.contains("removed what an earlier merge of this plan wrote to plan.merged/default\n"),
        "{merged:?}"
    );
    assert_eq!(names().len(), 4, "two machines, and the files of the user: {:?}", names());
    let left: Vec<_> =
        fs::read_dir(here.path("plan.merged/default")).unwrap().flatten().map(|file| file.file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    fs::remove_dir_all(here.path("plan.merged/default")).unwrap();
    edited(&shard, |run| run.environment.cpu.clone_from(&cpu));
    here.ok(&["sweep", "merge", "plan.json", "--overwrite", "--no-plot"]);
    assert_eq!(names(), BTreeSet::from(["default", "mine"].map(String::from)));
}
