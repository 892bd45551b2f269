//! Records are the truth and the index follows them; what cannot be read or written is an error with its reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::Fake;
use ellwand_core::record::parse;
use ellwand_history::{Added, INDEX, Store, StoreError};
use rusqlite::Connection;

fn here() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn fake(n: u64) -> Fake {
    Fake::new(n).sort(10, "plain", &[2e-6, 2.1e-6]).sort(10, "fast", &[1e-6, 1.02e-6])
}

fn add(store: &mut Store, dir: &Path, fake: &Fake) -> Added {
    store.add(&fake.write(dir), &fake.record()).unwrap()
}

fn ids(store: &mut Store) -> Vec<String> {
    store.runs().unwrap().into_iter().map(|run| run.id).collect()
}

fn refused(folder: &Path) -> StoreError {
    match Store::open_with(folder, true, Duration::from_millis(20)) {
        Ok(_) => panic!("{} was opened", folder.display()),
        Err(error) => error,
    }
}

#[test]
fn a_run_is_added_once_and_a_longer_record_of_it_replaces_it() {
    let (dir, made) = (here(), here());
    let mut store = Store::open(dir.path(), true).unwrap();
    assert_eq!(add(&mut store, made.path(), &fake(1)), Added::New);
    assert_eq!(add(&mut store, made.path(), &fake(1)), Added::Known);
    let longer = fake(1).sort(20, "fast", &[3e-6]);
    assert_eq!(add(&mut store, made.path(), &longer), Added::Replaced);
    assert_eq!(add(&mut store, made.path(), &fake(1)), Added::Known, "the shorter one again");
    let (run, cells) = store.run("run-0").unwrap();
    assert_eq!((run.id.as_str(), cells.len(), run.cells), ("run-0001", 3, 3));
    let fast = cells.iter().find(|cell| cell.series.case == "sort/n=10" && cell.series.implementation == "fast");
    let fast = fast.unwrap();
    assert!((fast.seconds.unwrap() - 1.01e-6).abs() < 1e-12);
    assert!(fast.low.unwrap() < 1e-6 && fast.high.unwrap() > 1.02e-6, "two processes say little: {fast:?}");
    assert_eq!(fs::read_to_string(store.file("run-0001").unwrap().unwrap()).unwrap(), longer.text());
}

#[test]
fn the_index_is_rebuilt_from_the_records_and_follows_them() {
    let (dir, made) = (here(), here());
    let mut store = Store::open(dir.path(), true).unwrap();
    for n in [3, 1, 2] {
        add(&mut store, made.path(), &fake(n));
    }
    let before = (store.runs().unwrap(), store.run("run-0002").unwrap());
    drop(store);
    for file in [INDEX.to_string(), format!("{INDEX}-wal"), format!("{INDEX}-shm")] {
        let _ = fs::remove_file(dir.path().join(file));
    }
    let mut store = Store::open(dir.path(), false).unwrap();
    assert_eq!((store.runs().unwrap(), store.run("run-0002").unwrap()), before);
    // A record that someone copied into the folder, one that vanished, one that grew, and two files that are not
    // records.
    fs::copy(fake(4).write(made.path()), dir.path().join("by hand.jsonl")).unwrap();
    fs::remove_file(store.file("run-0001").unwrap().unwrap()).unwrap();
    let grown = store.file("run-0002").unwrap().unwrap();
    fs::write(grown, fake(2).sort(30, "fast", &[1e-6]).text()).unwrap();
    fs::write(dir.path().join("notes.jsonl"), "{}\n").unwrap();
    fs::copy(fake(4).write(made.path()), dir.path().join("copy.jsonl")).unwrap();
    let mut store = Store::open(dir.path(), false).unwrap();
    assert_eq!(ids(&mut store), ["run-0002", "run-0003", "run-0004"]);
    assert_eq!(store.run("run-0002").unwrap().1.len(), 3);
    assert!(
        store.notes.iter().any(|note| note.contains("notes.jsonl") && note.contains("line 1")),
        "{:?}",
        store.notes
    );
    assert!(store.notes.iter().any(|note| note.contains("by hand.jsonl has as many")), "{:?}", store.notes);
}

#[test]
fn of_two_files_of_a_run_the_longer_counts_in_any_order() {
    for (short, long) in [("a.jsonl", "b.jsonl"), ("b.jsonl", "a.jsonl")] {
        for first in [short, long] {
            let dir = here();
            let put = |name: &str| {
                let fake = if name == long { fake(1).sort(20, "fast", &[3e-6]) } else { fake(1) };
                fs::write(dir.path().join(name), fake.text()).unwrap();
            };
            put(first);
            assert!(Store::open(dir.path(), true).unwrap().notes.is_empty());
            put(if first == short { long } else { short });
            for rebuilt in [false, false, true] {
                if rebuilt {
                    fs::remove_file(dir.path().join(INDEX)).unwrap();
                }
                let mut store = Store::open(dir.path(), true).unwrap();
                let note = format!("{short} is run run-0001 too; skipped, because {long} has more measurements");
                assert_eq!(store.notes, [note]);
                assert_eq!(store.run("run-0001").unwrap().1.len(), 3);
                assert_eq!(store.file("run-0001").unwrap().unwrap(), dir.path().join(long));
            }
        }
    }
}

#[test]
fn a_record_that_was_cut_is_named_at_each_command() {
    let (dir, made) = (here(), here());
    let mut store = Store::open(dir.path(), true).unwrap();
    add(&mut store, made.path(), &fake(1));
    add(&mut store, made.path(), &fake(2));
    let file = store.file("run-0001").unwrap().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 9]).unwrap();
    for _ in 0..2 {
        let mut store = Store::open(dir.path(), false).unwrap();
        let expected = format!("{} (1 measurement): line 3 was cut off while being written; skipped", file.display());
        assert_eq!(store.notes, [expected]);
        assert_eq!(store.run("run-0001").unwrap().1.len(), 1);
    }
    assert_eq!(add(&mut store, made.path(), &fake(1)), Added::Replaced, "the whole record");
    assert!(Store::open(dir.path(), false).unwrap().notes.is_empty());
}

#[test]
fn a_record_whose_name_is_not_utf8_is_named() {
    let (dir, made) = (here(), here());
    let file = dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.jsonl"));
    fs::copy(fake(1).write(made.path()), &file).unwrap();
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "no record").unwrap();
    for _ in 0..2 {
        let store = Store::open(dir.path(), true).unwrap();
        assert_eq!(store.notes, [format!("{}: its name is not UTF-8; skipped", file.display())]);
    }
}

#[test]
fn every_record_ever_written_is_indexed_and_old_ones_have_no_commit() {
    let dir = here();
    let mut store = Store::open(dir.path(), true).unwrap();
    let records = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/records");
    let mut count = 0;
    for path in fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path()) {
        // Span files are not records.
        if path.to_string_lossy().contains("spans") {
            continue;
        }
        let record = parse(&fs::read_to_string(&path).unwrap()).unwrap();
        // Two of them are of the same run.
        store.add(&path, &record).unwrap();
        count += 1;
    }
    let runs = store.runs().unwrap();
    assert!(count >= 4 && !runs.is_empty());
    assert!(runs.iter().all(|run| run.commit.is_none() && run.started_ms > 0));
    assert!(runs.is_sorted_by_key(|run| run.started_ms), "by their own date");
    let first = runs.iter().find(|run| run.cells == 6).expect("the first record has six measurements");
    let (_, cells) = store.run(&first.id).unwrap();
    let status = |name: &str| cells.iter().find(|cell| cell.series.implementation == name).unwrap();
    assert!(status("scalar").seconds.is_some());
    assert_eq!((status("cuda").status.as_str(), status("cuda").seconds), ("unsupported", None));
}

#[test]
fn a_record_that_cannot_be_copied_is_refused() {
    let dir = here();
    let mut store = Store::open(dir.path(), true).unwrap();
    // Data read from a pipe are gone.
    let error = store.add(Path::new("/dev/null"), &fake(1).record()).unwrap_err().to_string();
    assert!(error.contains("/dev/null is not a regular file; expected a file"), "{error}");
    assert!(ids(&mut store).is_empty() && Store::open(dir.path(), false).unwrap().notes.is_empty());
}

#[test]
fn hostile_ids_stay_in_the_folder() {
    let (dir, made) = (here(), here());
    let folder = dir.path().join("store");
    let mut store = Store::open(&folder, true).unwrap();
    let fake = Fake { id: "../../evil\u{1b}/x".into(), ..fake(1) };
    let path = made.path().join("evil.jsonl");
    fs::write(&path, fake.text()).unwrap();
    assert_eq!(store.add(&path, &fake.record()).unwrap(), Added::New);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing beside the folder");
    assert!(store.file(&fake.id).unwrap().unwrap().parent().unwrap() == folder);
}

#[test]
fn a_missing_history_is_an_error_that_says_how_to_start_one() {
    let dir = here();
    let missing = dir.path().join("none");
    let error = Store::open(&missing, false).err().unwrap().to_string();
    assert!(error.contains("none holds no history") && error.contains("history add"), "{error}");
    assert!(!missing.exists());
    let mut store = Store::open(&missing, true).unwrap();
    assert!(store.runs().unwrap().is_empty());
    let error = store.run("run-1").unwrap_err().to_string();
    assert!(error.contains("no run has the id run-1"), "{error}");
}

#[test]
fn ids_may_be_cut_short_but_not_ambiguous() {
    let (dir, made) = (here(), here());
    let mut store = Store::open(dir.path(), true).unwrap();
    for n in [1, 12] {
        add(&mut store, made.path(), &fake(n));
    }
    assert_eq!(store.run("run-0012").unwrap().0.id, "run-0012");
    let error = store.run("run-00").unwrap_err().to_string();
    assert!(error.contains("2 runs have an id that begins with run-00"), "{error}");
    let error = store.run("run-0013").unwrap_err().to_string();
    assert!(error.contains("did you mean run-0012?"), "{error}");
}

#[test]
fn a_locked_index_is_an_error_and_nothing_is_lost() {
    let (dir, made) = (here(), here());
    let mut store = Store::open_with(dir.path(), true, Duration::from_millis(20)).unwrap();
    let other = Connection::open(dir.path().join(INDEX)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.add(&fake(1).write(made.path()), &fake(1).record()).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)) && error.to_string().contains(INDEX), "{error}");
    // Its record is in the folder, so the next command indexes it.
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(ids(&mut Store::open(dir.path(), false).unwrap()), ["run-0001"]);
}

#[test]
fn a_later_version_is_left_as_it_is_and_the_records_are_read() {
    let (dir, made) = (here(), here());
    add(&mut Store::open(dir.path(), true).unwrap(), made.path(), &fake(1));
    let path = dir.path().join(INDEX);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let mut store = Store::open(dir.path(), true).unwrap();
    assert_eq!(add(&mut store, made.path(), &fake(2)), Added::New);
    let mut store = Store::open(dir.path(), false).unwrap();
    assert_eq!(ids(&mut store), ["run-0001", "run-0002"]);
    let [note] = &store.notes[..] else { panic!("{:?}", store.notes) };
    assert!(note.contains("version 99") && note.contains("newer Ellwand"), "{note}");
    let kept: i64 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(kept, 99);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let dir = here();
    let path = dir.path().join(INDEX);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE run (mine TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(dir.path()).to_string();
    assert!(error.contains("database of another program") && !error.contains("delete"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_damaged_index_is_rebuilt_and_its_file_is_kept() {
    let (dir, made) = (here(), here());
    let mut store = Store::open(dir.path(), true).unwrap();
    for n in 1..=3 {
        add(&mut store, made.path(), &fake(n));
    }
    let before = (store.runs().unwrap(), store.run("run-0002").unwrap());
    drop(store);
    let index = dir.path().join(INDEX);
    let whole = fs::read(&index).unwrap();
    let page = whole.len() / 4096;
    let zeroed = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from * 4096..to * 4096].fill(0);
        bytes
    };
    // Truncated, all zeroes, no database, and each page zeroed: some of them are read only by some queries.
    let text = "this is no database, but it is long enough to be looked at as one".repeat(9).into_bytes();
    let mut damaged = vec![whole[..50].to_vec(), whole[..whole.len() - 4096].to_vec(), zeroed(0, page), text];
    damaged.extend((0..page).map(|at| zeroed(at, at + 1)));
    for (at, bytes) in damaged.into_iter().enumerate() {
        fs::write(&index, &bytes).unwrap();
        let mut store = Store::open(dir.path(), false).unwrap();
        assert_eq!((store.runs().unwrap(), store.run("run-0002").unwrap()), before, "damage {at}: {:?}", store.notes);
        let aside = dir.path().join(format!("{INDEX}.damaged"));
        if store.notes.is_empty() {
            continue;
        }
        let [note] = &store.notes[..] else { panic!("{:?}", store.notes) };
        assert!(note.contains("was damaged") && note.contains("rebuilt from the records"), "{note}");
        assert_eq!(fs::read(&aside).unwrap(), bytes, "damage {at}");
        fs::remove_file(aside).unwrap();
        assert!(Store::open(dir.path(), false).unwrap().notes.is_empty(), "damage {at}");
    }
    // Each damaged file is kept.
    for name in ["index.sqlite.damaged", "index.sqlite.damaged2"] {
        fs::write(&index, name).unwrap();
        assert!(Store::open(dir.path(), true).unwrap().notes[0].ends_with(name));
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), name);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let (dir, made) = (here(), here());
    let folder = dir.path().join("store");
    add(&mut Store::open(&folder, true).unwrap(), made.path(), &fake(1));
    let closed = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    closed(0o555);
    if fs::write(folder.join("probe"), "").is_ok() {
        // Root may write everywhere; /proc is read-only to root too.
        closed(0o755);
        let error = refused(Path::new("/proc/self")).to_string();
        assert!(error.contains("/proc/self") && error.contains("read-only"), "{error}");
        let mut read = Store::open(Path::new("/proc/self"), false).unwrap();
        assert!(ids(&mut read).is_empty() && read.notes[0].contains("cannot be written"), "{:?}", read.notes);
        return;
    }
    let (read, written) = (Store::open(&folder, false), Store::open(&folder, true).err());
    closed(0o755);
    let mut read = read.unwrap();
    assert!(ids(&mut read) == ["run-0001"] && read.notes[0].contains("cannot be written"), "{:?}", read.notes);
    let error = written.unwrap().to_string();
    assert!(error.contains("store") && error.contains("read-only"), "{error}");
}

#[test]
fn several_writers_share_a_folder() {
    let (dir, made) = (here(), here());
    Store::open(dir.path(), true).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (dir, made) = (dir.path(), made.path());
            scope.spawn(move || {
                let mut store = Store::open(dir, true).unwrap();
                for n in 0..5 {
                    add(&mut store, made, &fake(writer * 5 + n));
                }
            });
        }
    });
    assert_eq!(ids(&mut Store::open(dir.path(), false).unwrap()).len(), 20);
}
