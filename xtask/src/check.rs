//! The check: a list of steps, each a command; all of them run, then the failures are told together.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::{readme, root, tidy, weights};

/// Runs everything.
pub(crate) fn check(with_readme: bool) -> Result<()> {
    let mut failed = Vec::new();
    let mut step = |name: &str, run: &mut dyn FnMut() -> Result<()>| {
        println!("\n== {name}");
        let start = Instant::now();
        match run() {
            Ok(()) => println!("== {name}: ok, {:.0} s", start.elapsed().as_secs_f64()),
            Err(error) => {
                println!("== {name}: FAILED: {error:#}");
                failed.push(name.to_string());
            }
        }
    };
    step("format", &mut || cargo(&["fmt", "--all", "--check"], &[]));
    step("tidy", &mut tidy::tidy);
    step("clippy", &mut || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]));
    step("weights of a real model", &mut real_weights);
    // Before the tests, so that the last summary of a test runner is that of the tests.
    step("doc tests", &mut || cargo(&["test", "--workspace", "--doc", "--quiet"], &[]));
    step("tests", &mut tests);
    step("docs", &mut || {
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"], &[("RUSTDOCFLAGS", "-D warnings")])
    });
    step("licences and advisories", &mut deny);
    if with_readme {
        step("commands of README", &mut readme::readme);
    }
    if failed.is_empty() {
        println!("\nall checks passed");
        return Ok(());
    }
    bail!("failed: {}", failed.join(", "))
}

/// The tests on real data need weights; without them they say that they were skipped.
fn real_weights() -> Result<()> {
    if let Err(error) = weights::weights() {
        println!("skipped: {error:#}; the tests on real weights will say that they did not run");
    }
    Ok(())
}

/// By nextest where it is installed; by cargo's own runner otherwise, which runs the same tests one binary at a time.
fn tests() -> Result<()> {
    if installed("nextest") {
        return cargo(&["nextest", "run", "--workspace", "--no-fail-fast"], &[]);
    }
    println!(
        "cargo-nextest is not installed; the tests run one binary at a time (`cargo install cargo-nextest --locked` makes this faster)"
    );
    cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--examples", "--no-fail-fast"], &[])
}

/// Licences, bans and sources by cargo-deny where it is installed.
fn deny() -> Result<()> {
    if installed("deny") {
        return cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"], &[]);
    }
    println!("skipped: cargo-deny is not installed (`cargo install cargo-deny --locked`)");
    Ok(())
}

fn installed(subcommand: &str) -> bool {
    let asked = Command::new(cargo_path()).args([subcommand, "--version"]).output();
    asked.is_ok_and(|output| output.status.success())
}

fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new(cargo_path());
    // Snapshots are compared, never written, by the check.
    command.args(args).current_dir(root()?).env("INSTA_UPDATE", "no").envs(env.iter().copied());
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    bail!("cargo {} ended with {status}", args.join(" "))
}
