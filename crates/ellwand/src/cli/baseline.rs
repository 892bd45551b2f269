//! `compare --baseline REV`: this program as it was at a git revision, built next to the work tree and kept by commit.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use ellwand_bench::commands;
use ellwand_bench::guard::Guard;
use ellwand_core::InputError;
use serde_json::Value;

use super::built::{self, Built, Package};
use super::exit::Failure;
use super::revision::git;
use super::{output, signals};

/// Builds the program of that name at a revision of the repository around the current directory and returns its path.
/// Each program is kept in `target/ellwand-baseline/COMMIT` and built only once. All revisions are built in one place,
/// where cargo recompiles only what changed since the previous build. Uses the profile and features of this program,
/// unless `args` for cargo are given.
pub(super) fn build(revision: &str, program: &Path, args: Option<&str>) -> Result<PathBuf, Failure> {
    let (kind, name) = built::target(program);
    let (root, commit) = find(revision)?;
    let all = root.join("target").join("ellwand-baseline");
    let target = all.join("target");
    // Under the same name and next to the same neighbours as the repository itself.
    let source = all.join("work").join(root.file_name().unwrap_or("source".as_ref()));
    let how = Built::of(program, args);
    if how.is_debug() {
        output::note(
            "note: this program and its baseline are debug builds, whose times mean little; run it with --release",
        );
    }
    let folder = if kind == built::EXAMPLE { "examples" } else { "" };
    let built = all.join(&commit).join(built::key(&how)).join(folder).join(&name);
    if built.is_file() {
        return Ok(built);
    }
    // Ctrl-C stops a build like a measurement, and the build ends with this program.
    let interrupt = signals::stop_on_ctrl_c(signals::NOTHING_KEPT);
    let guard = Guard::start().context("sh could not be started")?;
    let _one_at_a_time = lock(&all, interrupt)?;
    if built.is_file() {
        return Ok(built);
    }
    check_out(&root, &commit, &source)?;
    link_neighbours(&root, source.parent().unwrap_or(&root));
    output::note(&format!("building {name} at {revision} ({commit}), once"));
    let mut cargo = cargo(&root, &source);
    cargo.args(if kind == built::BENCH { &["bench", "--no-run"][..] } else { &["build"] });
    cargo.args([kind, &name]).args(&how.args);
    cargo.args(how.package.map(|package| features(&root, &source, revision, &package)).unwrap_or_default());
    cargo.args(["--message-format", "json-render-diagnostics"]).arg("--target-dir").arg(&target);
    let output = output::with_beat(
        true,
        || commands::run(&mut cargo, &guard, Duration::MAX, interrupt),
        |seconds| {
            output::note(&format!("still building {name} at {revision}: {seconds} s"));
        },
    );
    if interrupt.load(Relaxed) {
        return Err(Failure::Interrupted);
    }
    let output = output.map_err(|why| anyhow::anyhow!("{revision} cannot be built: {why}"))?;
    if !output.status.success() {
        return Err(unbuilt(revision, &name, &source, &String::from_utf8_lossy(&output.stderr)).into());
    }
    let made = executable(&output.stdout, &name)
        .with_context(|| format!("cargo built {revision} but does not say where {name} is"))?;
    keep(&made, &all.join("partial"), &built)
        .with_context(|| format!("cargo built {revision}, but {} cannot be saved", made.display()))?;
    Ok(built)
}

/// Copies by way of `partial`, so an interrupted copy never looks complete.
fn keep(made: &Path, partial: &Path, built: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(built.parent().unwrap_or(built))?;
    std::fs::copy(made, partial)?;
    std::fs::rename(partial, built)
}

/// The repository around the current directory, and the commit that a revision names in it.
fn find(revision: &str) -> Result<(PathBuf, String), InputError> {
    let refused = |problem: String, expected: &str| InputError::new("--baseline", problem, expected);
    let root = git(Path::new("."), &["rev-parse", "--show-toplevel"]).map_err(|why| {
        refused(format!("this is not a git repository ({why:#})"), "a directory inside a git work tree")
    })?;
    let root = PathBuf::from(root);
    // Ends the options, so a revision is never taken for a flag.
    let verify = ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")];
    let commit = git(&root, &verify).map_err(|_| {
        refused(format!("'{revision}' is not a revision of {}", root.display()), "a commit, tag or branch")
    })?;
    Ok((root, commit))
}

/// Cargo, run in the directory in `source` that corresponds to the current one below `root`.
fn cargo(root: &Path, source: &Path) -> Command {
    let here = std::env::current_dir().ok().and_then(|here| here.strip_prefix(root).ok().map(|here| source.join(here)));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(here.filter(|folder| folder.is_dir()).as_deref().unwrap_or(source));
    cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    cargo
}

/// The arguments that give the package at the revision its present features. Notes the features that it lacks there.
fn features(root: &Path, source: &Path, revision: &str, package: &Package) -> Vec<String> {
    let metadata = cargo(root, source).args(["metadata", "--no-deps", "--format-version", "1"]).output();
    // Cargo itself reports what it cannot read when it builds.
    let (args, lacking) = built::features(package, &metadata.map(|output| output.stdout).unwrap_or_default());
    if !lacking.is_empty() {
        output::note(&format!("note: {revision} has no feature {} and is built without it", lacking.join(", ")));
    }
    args
}

/// The error for a program that cargo did not build.
fn unbuilt(revision: &str, name: &str, source: &Path, text: &str) -> InputError {
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(12)..].join("\n");
    if text.contains(&format!("target named `{name}`")) {
        let problem = format!("{revision} has no program '{name}', the name of this program's file:\n{last}\n");
        let expected =
            "this program in a file that has the name of its cargo target; an [[example]] where cargo puts it";
        return InputError::new("--baseline", problem, expected);
    }
    let missing = text.split("failed to read `").nth(1).and_then(|rest| rest.split('`').next()).map(Path::new);
    let expected = if missing.is_some_and(|path| path.ends_with("Cargo.toml") && !path.starts_with(source)) {
        "path dependencies inside the repository, or in a directory next to it. For other packages build the revision \
         yourself, and compare the two programs: compare OLD NEW --workload NAME"
    } else {
        "a revision that builds as this program was built, or --baseline-args"
    };
    InputError::new("--baseline", format!("{revision} does not build:\n{last}\n"), expected)
}

/// The path of the program of that name, according to cargo's messages.
fn executable(messages: &[u8], name: &str) -> Option<PathBuf> {
    let messages = messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let made = messages.filter(|message| message["target"]["name"] == name);
    made.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back()
}

/// Locks the place where revisions are built until the file is dropped.
fn lock(all: &Path, interrupt: &AtomicBool) -> Result<File, Failure> {
    let opened = std::fs::create_dir_all(all).and_then(|()| File::create(all.join("lock")));
    let file = opened.with_context(|| format!("{} cannot be written", all.display()))?;
    let mut waits = false;
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if !std::mem::replace(&mut waits, true) {
            output::note("waiting for another program that builds a revision of this repository");
        }
        if interrupt.load(Relaxed) {
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(file)
}

/// Checks out a commit into the work tree in which revisions are built. Its `.git` names the repository as its common
/// directory, so it shares objects and settings but is not listed as a work tree. Files that two revisions share keep
/// their times, from which cargo knows what it need not recompile.
fn check_out(root: &Path, commit: &str, source: &Path) -> Result<(), Failure> {
    let common = git(root, &["rev-parse", "--git-common-dir"]).context("git does not say where the repository is")?;
    let own = source.join(".git");
    let git = |args: &[&str]| {
        // Named explicitly, so that git never uses the repository around it, or that of a hook, instead of this tree.
        let mut git = Command::new("git");
        git.arg("-C").arg(source).args(["--git-dir=.git", "--work-tree=."]).args(args).env_remove("GIT_INDEX_FILE");
        git.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
    };
    let place = || -> std::io::Result<bool> {
        std::fs::create_dir_all(&own)?;
        std::fs::write(own.join("commondir"), root.join(&common).as_os_str().as_encoded_bytes())?;
        std::fs::write(own.join("HEAD"), commit)?;
        Ok(git(&["checkout", "--quiet", "--force", "--detach", commit]) && git(&["clean", "-ffdxq"]))
    };
    if matches!(place(), Ok(true)) {
        return Ok(());
    }
    // A killed program leaves an incomplete tree.
    let _ = std::fs::remove_dir_all(source);
    match place().with_context(|| format!("{} cannot be written", source.display()))? {
        true => Ok(()),
        false => Err(anyhow::anyhow!("{commit} cannot be checked out in {}", source.display()).into()),
    }
}

/// Links the directories next to the repository, so that path dependencies find them next to the work tree. They are in
/// their present state, whatever the revision.
fn link_neighbours(root: &Path, work: &Path) {
    let beside = root.parent().and_then(|parent| parent.read_dir().ok()).into_iter().flatten().flatten();
    for path in beside.map(|entry| entry.path()).filter(|path| path != root && path.is_dir()) {
        // Cargo finds its hidden settings from here in any case. A directory that cannot be linked matters only if it
        // is needed.
        let name = path.file_name().filter(|name| !name.as_encoded_bytes().starts_with(b"."));
        let _ = name.map(|name| std::os::unix::fs::symlink(&path, work.join(name)));
    }
}
