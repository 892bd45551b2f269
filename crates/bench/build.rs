//! Passes the compiler version to the crate: a record names the compiler that built the measured code.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string());
    println!("cargo::rustc-env=ELLWAND_RUSTC={}", version.unwrap_or_else(|_| "rustc, version unknown".into()));
    println!("cargo::rerun-if-changed=build.rs");
}
