//! Passes the last commit before the build to the program, so a certificate can name the revision it was made by. Only
//! in Ellwand's own repository: the commits of another one would say nothing about this code.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.parent().and_then(Path::parent).unwrap_or(&here).to_path_buf();
    let ours = git(&here, &["rev-parse", "--show-toplevel"]).is_some_and(|top| Path::new(&top) == root);
    if !ours {
        return;
    }
    if let Some(revision) = git(&here, &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=ELLWAND_REVISION={revision}");
    }
    // This log grows with every commit and checkout.
    if let Some(log) = git(&here, &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(at: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(at).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
