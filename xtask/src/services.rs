//! Exports of profiles, read by the programs that they are for: a collector of OpenTelemetry, and the clients of
//! Prometheus and Perfetto. The example of a web service is built and tested here: it is a separate workspace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cuda::{cache, run};
use crate::root;

/// Python packages with the readers. Rotel is a collector; its package holds the program.
const READERS: [&str; 4] =
    ["rotel==0.0.1a15", "opentelemetry-proto==1.45.2", "prometheus-client==0.26.0", "perfetto==0.59.1"];

/// A Python that has the readers, in the user's cache; made once.
fn python() -> Result<PathBuf> {
    let environment = cache()?.join("readers");
    // Written last, so that an environment that was left half made is made again.
    let (python, whole) = (environment.join("bin/python"), environment.join("whole"));
    if std::fs::read_to_string(&whole).is_ok_and(|text| text == READERS.join("\n")) {
        return Ok(python);
    }
    println!("installing readers of profiles into {} (about 60 MB, once)", environment.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(READERS))?;
    std::fs::write(&whole, READERS.join("\n"))?;
    Ok(python)
}

/// The check. `packages` are those whose tests are built already.
pub(crate) fn check(packages: &[&str]) -> Result<()> {
    let python = python().context("a collector of OpenTelemetry cannot be had; it comes with python3 and pip")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let cargo = |args: &[&str]| -> Result<()> {
        let mut command = Command::new(&cargo);
        let required = "rotel,opentelemetry-proto,prometheus-client,perfetto";
        command.args(args).current_dir(root()?).env("INSTA_UPDATE", "no").env("ELLWAND_REQUIRE", required);
        run(command.env("ELLWAND_PYTHON", &python))
    };
    cargo(&[&["test", "--quiet"], packages, &["--test", "write"]].concat())?;
    let of_service = ["--manifest-path", "examples/service/Cargo.toml"];
    let built = [&of_service[..], &["--locked", "--target-dir", "target/service"]].concat();
    cargo(&[&["fmt", "--check"], &of_service[..]].concat())?;
    cargo(&[&["clippy", "--quiet", "--all-targets"], &built[..], &["--", "-D", "warnings"]].concat())?;
    cargo(&[&["test", "--quiet"], &built[..]].concat())
}
