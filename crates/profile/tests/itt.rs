//! Spans reach a collector of Intel's ITT interface: Intel's reference collector, whose source comes with `ittapi-sys`.
#![cfg(all(feature = "itt", unix))]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use ellwand_profile::{Options, Profiler, scope, span};

const CHILD: &str = "ELLWAND_TEST_ITT_CHILD";

/// What the child does: nested spans, one name twice, names at run time, with and without a recording, a panic.
fn work() {
    for _ in 0..2 {
        let _outer = span!("outer", items = 3);
        drop(span!("inner"));
    }
    scope("by \0 name", || ());
    let profiler = Profiler::new(Options::default());
    drop(profiler.profile("recorded"));
    assert_eq!(profiler.finish().summary().rows.len(), 1);
    let failed = std::panic::catch_unwind(|| {
        let _span = span!("panics");
        panic!("expected");
    });
    assert!(failed.is_err());
}

/// The folder with the C sources of `ittapi-sys`.
fn sources() -> PathBuf {
    let arguments = ["metadata", "--format-version", "1", "--offline", "--features", "itt", "--manifest-path"];
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let output = Command::new(env!("CARGO")).args(arguments).arg(manifest).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "ittapi-sys").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("c-library")
}

#[test]
fn spans_are_tasks() {
    if std::env::var_os(CHILD).is_some() {
        return work();
    }
    let folder = std::env::temp_dir().join(format!("ellwand-itt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (collector, sources) = (folder.join("collector.so"), sources());
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&collector).arg("-I").arg(sources.join("include"));
    compiler.arg("-I").arg(sources.join("src/ittnotify")).arg(sources.join("src/ittnotify_refcol/itt_refcol_impl.c"));
    assert!(compiler.status().is_ok_and(|status| status.success()), "this test needs the C compiler `cc`");

    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "spans_are_tasks"]).env(CHILD, "1").env("INTEL_LIBITTNOTIFY_LOG_DIR", &folder);
    assert!(child.env_remove("INTEL_LIBITTNOTIFY64").status().unwrap().success());
    assert!(!folder.read_dir().unwrap().any(|file| is_log(&file.unwrap().path())), "no collector, no log");
    assert!(child.env("INTEL_LIBITTNOTIFY64", &collector).status().unwrap().success());
    let log = folder.read_dir().unwrap().map(|file| file.unwrap().path()).find(|path| is_log(path)).unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    // Calls that the collector logged, without its other output: "task_begin handle=outer".
    let calls: Vec<String> = log
        .lines()
        .filter_map(|line| line.strip_prefix("[INFO] __itt_"))
        .map(|call| call.replace("(...) - function args:", "").replace(" domain=ellwand", ""))
        .filter(|call| call.starts_with("task"))
        .collect();
    let nested = ["task_begin handle=outer", "task_begin handle=inner", "task_end", "task_end"];
    let later =
        ["by   name", "recorded", "panics"].map(|name| [format!("task_begin handle={name}"), "task_end".into()]);
    let expected = [&nested.map(String::from), &nested.map(String::from), later.as_flattened()].concat();
    assert_eq!(calls, expected);
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}
