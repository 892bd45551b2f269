//! Checks the exports of profiles with the programs that read them: an OpenTelemetry collector, the clients of Prometheus and
//! Perfetto, the speedscope app, and Intel's reference collector of ITT. It also builds and tests the example of a web service,
//! which is a separate workspace.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use xtask::venv::venv;
use xtask::{cache, run};

use crate::check::{answers, cargo};

/// Python packages with the readers. Rotel is a collector; its package contains the program.
const READERS: [&str; 4] =
    ["rotel==0.0.1a15", "opentelemetry-proto==1.45.2", "prometheus-client==0.26.0", "perfetto==0.59.1"];

/// The app of speedscope, with its version.
const APP: &str = "speedscope@1.25.0";

/// The folder of the speedscope app in the user's cache, downloaded once; `None`, with the reason printed, if npm or the browser
/// is missing.
fn app() -> Result<Option<PathBuf>> {
    let chromium = std::env::var("ELLWAND_CHROMIUM").unwrap_or_else(|_| "chromium".into());
    if let Some(missing) = ["npm", &chromium].into_iter().find(|program| !answers(program)) {
        println!("skipped: speedscope's own app, because {missing} does not run");
        return Ok(None);
    }
    let folder = cache()?.join(APP);
    let app = folder.join("node_modules/speedscope");
    if !app.join("dist/release/index.html").is_file() {
        println!("fetching {APP} into {} (once)", folder.display());
        std::fs::create_dir_all(&folder)?;
        let options = ["install", "--silent", "--ignore-scripts", "--no-save", "--prefix"];
        if let Err(error) = run(Command::new("npm").args(options).arg(&folder).arg(APP)) {
            println!("skipped: speedscope's own app, because {APP} is unavailable: {error:#}");
            return Ok(None);
        }
    }
    Ok(Some(app))
}

/// Runs the check. The tests of `packages` are already built.
pub(crate) fn check(packages: &[&str]) -> Result<()> {
    let python = venv(&cache()?.join("readers"), &READERS, &[], "about 60 MB")
        .context("no OpenTelemetry collector is available; installing one needs python3 and pip")?;
    let (python, app) = (python.display().to_string(), app()?.map(|app| app.display().to_string()));
    let mut required = "rotel,opentelemetry-proto,prometheus-client,perfetto".to_string();
    let mut env = vec![("ELLWAND_PYTHON", python.as_str())];
    if let Some(app) = &app {
        required += ",speedscope";
        env.push(("ELLWAND_SPEEDSCOPE", app));
    }
    env.push(("ELLWAND_REQUIRE", &required));
    let cargo = |args: &[&str]| cargo(args, &env);
    cargo(&[&["test", "--quiet"], packages, &["--test", "write", "--test", "speedscope"]].concat())?;
    cargo(&["test", "--quiet", "-p", "ellwand-profile", "--features", "itt", "--test", "itt"])?;
    let of_service = ["--manifest-path", "examples/service/Cargo.toml"];
    let built = [&of_service[..], &["--locked", "--target-dir", "target/service"]].concat();
    cargo(&[&["fmt", "--check"], &of_service[..]].concat())?;
    cargo(&[&["clippy", "--quiet", "--all-targets"], &built[..], &["--", "-D", "warnings"]].concat())?;
    cargo(&[&["test", "--quiet"], &built[..]].concat())
}
