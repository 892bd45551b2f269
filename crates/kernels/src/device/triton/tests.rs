//! What is believed of a folder of machine code, and what is not.

use std::fs;
use std::path::PathBuf;

use super::super::{Arg, GpuError, Grid, Source};
use super::read;

const TEXT: &str = "VARIANTS = []\n";
static SOURCE: Source = Source { name: "a.py", text: TEXT, options: &[] };

fn manifest() -> String {
    format!(
        r#"{{"file": "a.py", "source": "{}", "architecture": "sm_90a", "compiler": "Triton 3.6.0", "kernels": [
            {{"kernel": "f_16", "entry": "f", "cubin": "a-sm_90a-f_16.cubin", "warps": 8, "shared_bytes": 70000,
              "arguments": [["x", "*fp32"], ["n", "i32"]], "sixteens": ["x"], "scratch_pointers": 2}}]}}"#,
        SOURCE.digest()
    )
}

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ellwand-triton-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a-sm_90a-f_16.cubin"), b"\x7fELF code").unwrap();
    folder
}

fn why(result: Result<super::Found, GpuError>) -> String {
    match result.unwrap_err() {
        GpuError::Absent(why) => why,
        other => panic!("{other:?} would be a failure, and nothing failed"),
    }
}

#[test]
fn a_manifest_gives_code_and_what_a_launch_must_know() {
    let folder = folder("good");
    let found = read(&manifest(), &folder.join("a-sm_90a.json"), &SOURCE, "f_16").unwrap();
    assert_eq!((found.entry.as_str(), found.cubin.as_slice()), ("f", &b"\x7fELF code"[..]));
    let grid = Grid::line(7, 1);
    let (grid, args) = found.fixed.complete("f_16", grid, vec![Arg::At(256), Arg::U32(3)]).unwrap();
    assert_eq!((grid.blocks, grid.threads, grid.shared), ([7, 1, 1], [256, 1, 1], 70_000));
    assert_eq!(args, [Arg::At(256), Arg::U32(3), Arg::At(0), Arg::At(0)]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn arguments_that_a_kernel_was_not_compiled_for_are_refused_by_name() {
    let folder = folder("arguments");
    let fixed = read(&manifest(), &folder.join("a-sm_90a.json"), &SOURCE, "f_16").unwrap().fixed;
    let refused = |args: Vec<Arg>| fixed.complete("f_16", Grid::line(1, 1), args).unwrap_err().to_string();
    assert!(refused(vec![Arg::At(260), Arg::U32(3)]).contains("x as a multiple of 16"));
    assert!(refused(vec![Arg::At(256)]).contains("takes 2 arguments, and 1"));
    for (args, why) in [
        ([Arg::At(256), Arg::U64(3)], "n of type i32: U64(3)"),
        ([Arg::At(256), Arg::F32(3.0)], "n of type i32"),
        ([Arg::U64(256), Arg::U32(3)], "x of type *fp32"),
    ] {
        let refused = refused(args.to_vec());
        assert!(refused.contains(why), "{refused}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_missing_torn_or_of_another_text_is_told_and_never_believed() {
    let folder = folder("bad");
    let at = folder.join("a-sm_90a.json");
    let good = manifest();
    let other = Source { text: "VARIANTS = [1]\n", ..SOURCE };
    assert!(why(read(&good, &at, &other, "f_16")).contains("another a.py"));
    assert!(why(read(&good[..good.len() - 9], &at, &SOURCE, "f_16")).contains("no manifest"));
    assert!(why(read(&good, &at, &SOURCE, "g")).contains("no kernel g"));
    for (what, by, told) in
        [("\"warps\"", "\"w\"", "no warps"), ("a-sm_90a-f", "../a", "no cubin"), ("-f_16.c", "-g.c", "no machine code")]
    {
        let why = why(read(&good.replace(what, by), &at, &SOURCE, "f_16"));
        assert!(why.contains(told) && why.contains("cargo xtask triton"), "{why}");
    }
    fs::write(folder.join("a-sm_90a-f_16.cubin"), b"").unwrap();
    assert!(why(read(&good, &at, &SOURCE, "f_16")).contains("no machine code"));
    fs::remove_dir_all(folder).unwrap();
}
