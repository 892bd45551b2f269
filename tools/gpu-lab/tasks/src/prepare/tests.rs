//! The script with mocks of the programs that it starts: parts that do not end, leave processes running or lose the
//! device, and what remains if the script itself is killed.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// The mock program: helpers to record its process and to sleep forever, then `DOES`, which a comparison runs.
const PROGRAM: &str = r#"#!/usr/bin/env bash
here=$(dirname "$0")
lasting() { echo "$BASHPID" > "$here/lasting.pid"; exec sleep 1000; }
stubborn() { trap '' TERM; lasting; }
case $1 in
    list) echo asked >> "$here/asked"; [ -e "$here/dead" ] || exit 0; echo "  cuda  unavailable: it fell silent" ;;
    compare) DOES ;;
esac
"#;

struct Folder(PathBuf);

impl Folder {
    /// Writes a folder as `cargo xtask gpu` does, whose comparisons run `does`.
    fn new(name: &str, does: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ellwand-gpu-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        for (file, text) in [("run.sh", super::SCRIPT.to_string()), ("bin/ellwand", PROGRAM.replace("DOES", does))] {
            fs::write(folder.join(file), text).unwrap();
            fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    fn script(&self, seconds: u32, groups: &[&str]) -> Command {
        let mut script = Command::new("bash");
        script.arg(self.0.join("run.sh")).arg(self.0.join("results")).args(groups);
        script.env("ELLWAND_GPU_SECONDS", seconds.to_string()).env("ELLWAND_GPU_ARCHIVE", self.0.join("all.tar.gz"));
        script
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }

    /// Outcome and reason of a part.
    fn part(&self, name: &str) -> (String, String) {
        status_of(&self.text("results/parts.tsv"), name)
    }

    /// The process that sleeps forever.
    fn lasting(&self) -> PathBuf {
        Path::new("/proc").join(self.text("bin/lasting.pid").trim())
    }

    /// Contents of a file in the archive.
    fn packed(&self, file: &str) -> String {
        let said = Command::new("tar").arg("-xzOf").arg(self.0.join("all.tar.gz")).arg(file).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn status_of(parts: &str, name: &str) -> (String, String) {
    let found: Vec<Vec<&str>> =
        parts.lines().map(|line| line.split('\t').collect()).filter(|line: &Vec<&str>| line[0] == name).collect();
    let [line] = &found[..] else { panic!("{name}: {parts}") };
    (line[1].into(), line[3].into())
}

/// True if a process runs; a zombie does not.
fn runs(process: &Path) -> bool {
    assert!(process != Path::new("/proc"), "nothing was started");
    fs::read_to_string(process.join("stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])))
}

fn ended(said: &Output) {
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success() && text.contains("all parts ended after"), "{said:?}");
}

#[test]
fn a_quick_part_is_packed_and_few_where_there_is_little_time() {
    let folder = Folder::new("quick", r#"echo "$@" > "$here/asked-for""#);
    ended(&folder.script(48, &["aa-1"]).output().unwrap());
    assert_eq!(folder.part("aa-1"), ("ok".into(), String::new()));
    assert!(folder.text("bin/asked-for").contains("--sequence 2025,2026"), "{}", folder.text("bin/asked-for"));
    assert_eq!(folder.packed("./parts.tsv"), folder.text("results/parts.tsv"));
    ended(&folder.script(570, &["aa-2"]).output().unwrap());
    let all: Vec<String> = (2050..2075).map(|length: u32| length.to_string()).collect();
    assert!(folder.text("bin/asked-for").contains(&format!("--sequence {} ", all.join(","))));
    assert_eq!(status_of(&folder.packed("./parts.tsv"), "aa-2").0, "ok", "one archive for all calls");
    fs::remove_file(folder.0.join("bin/asked-for")).unwrap();
    ended(&folder.script(570, &["aa-2"]).output().unwrap());
    assert_eq!(folder.text("bin/asked-for"), "", "what is ok is not repeated");
    fs::write(folder.0.join("bin/ellwand"), PROGRAM).unwrap();
    let refused = folder.script(570, &["aa-2"]).output().unwrap();
    assert!(refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains("another build"));
    assert!(!folder.0.join("all.tar.gz.part").exists());
}

#[test]
fn a_part_that_ignores_what_asks_it_to_end_is_killed_and_others_go_on() {
    let folder = Folder::new("stubborn", r#"[[ $* != *2025* ]] || stubborn"#);
    ended(&folder.script(20, &["aa-1", "aa-2"]).output().unwrap());
    let (outcome, reason) = folder.part("aa-1");
    assert!(outcome == "timeout" && reason.starts_with("stopped after"), "{outcome} {reason}");
    assert!(!runs(&folder.lasting()));
    assert_eq!(folder.part("aa-2").0, "ok");
    assert_eq!(folder.text("bin/asked").lines().count(), 2, "once at the start, once after the part that hung");
}

#[test]
fn processes_that_a_part_leaves_are_ended() {
    let folder = Folder::new("child", "stubborn & sleep 0.5");
    ended(&folder.script(30, &["aa-1"]).output().unwrap());
    assert_eq!(folder.part("aa-1"), ("ok".into(), String::new()));
    assert!(!runs(&folder.lasting()));
}

#[test]
fn a_process_that_cannot_be_killed_is_reported_and_not_waited_for() {
    let folder = Folder::new("unkillable", "stubborn & sleep 0.5");
    // Simulates a process inside a driver that hangs.
    let mut script = folder.script(10, &["aa-1"]);
    script.env("BASH_FUNC_kill%%", r#"() { [[ $* == *-KILL* ]] || builtin kill "$@"; }"#);
    ended(&script.output().unwrap());
    let (outcome, reason) = folder.part("aa-1");
    assert!(outcome == "timeout" && reason.starts_with("could not be stopped"), "{outcome} {reason}");
    assert!(runs(&folder.lasting()));
    let kill = Command::new("kill").arg("-KILL").arg(folder.text("bin/lasting.pid").trim()).status();
    assert!(kill.unwrap().success());
}

#[test]
fn a_device_that_stops_responding_is_probed_twice_and_later_parts_are_skipped() {
    let folder = Folder::new("silent", r#": > "$here/dead"; stubborn"#);
    ended(&folder.script(20, &["aa-1", "aa-2"]).output().unwrap());
    assert_eq!(folder.part("aa-1").0, "timeout");
    assert_eq!(folder.part("aa-2"), ("unsupported".into(), "since the part aa-1: it fell silent".into()));
    assert_eq!(folder.text("bin/asked").lines().count(), 3);
    assert_eq!(folder.packed("./parts.tsv"), folder.text("results/parts.tsv"));
}

#[test]
fn ending_the_script_ends_its_processes_and_keeps_its_results() {
    let folder = Folder::new("ended", r#"echo "as far as it came"; stubborn"#);
    let mut script = folder.script(60, &["aa-1"]).spawn().unwrap();
    while folder.text("bin/lasting.pid").is_empty() {
        sleep(Duration::from_millis(20));
        assert!(script.try_wait().unwrap().is_none(), "it ended by itself");
    }
    let lasting = folder.lasting();
    assert!(runs(&lasting));
    assert!(Command::new("kill").arg("-TERM").arg(script.id().to_string()).status().unwrap().success());
    assert_eq!(script.wait().unwrap().code(), Some(143));
    // Already killed, but possibly not yet gone.
    (0..250).take_while(|_| runs(&lasting)).for_each(|_| sleep(Duration::from_millis(20)));
    assert!(!runs(&lasting));
    assert_eq!(folder.packed("./aa-1.txt"), "as far as it came\n");
}

#[test]
fn tests_are_unpacked_elsewhere_where_the_folder_cannot_be_written_to() {
    let folder = Folder::new("packed", "");
    for (name, code) in [("one", 0), ("two", 3)] {
        let tests = folder.0.join(format!("bin/tests-{name}"));
        fs::write(&tests, format!("#!/bin/sh\necho {name} judged \"$@\"\n[ $1 != cublas ] || exit {code}\n")).unwrap();
        assert!(Command::new("gzip").arg(&tests).status().unwrap().success());
    }
    // Even root must not overwrite an existing file.
    fs::write(folder.0.join("bin/tests-one"), "cut off").unwrap();
    ended(&folder.script(120, &["verify"]).output().unwrap());
    assert_eq!(folder.part("conformance").0, "ok");
    assert_eq!(folder.text("results/conformance-cublas.txt"), "one judged cublas\ntwo judged cublas\n");
    assert!(folder.part("conformance-cublas").1.starts_with("exit code 3"));
    assert!(!folder.0.join("results/cache").exists());
    // If unpacking is possible, the files are unpacked next to the archives, whatever their mode.
    fs::remove_file(folder.0.join("bin/tests-one")).unwrap();
    fs::set_permissions(folder.0.join("bin/tests-one.gz"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_dir_all(folder.0.join("results")).unwrap();
    ended(&folder.script(120, &["verify"]).output().unwrap());
    assert!(folder.text("bin/tests-one").contains("echo one judged \"$@\"\n"));
}
