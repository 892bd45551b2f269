//! `compare --baseline REV`: this program as it was at a git revision, built next to the work tree and kept by commit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use ellwand_bench::commands;
use ellwand_bench::guard::Guard;
use ellwand_core::InputError;
use serde_json::Value;

use super::exit::Failure;
use super::revision::git;
use super::{bench, output, signals};

/// Builds the program of that name at a revision of the repository around the current directory; returns its path. The
/// program is kept in `target/ellwand-baseline/COMMIT` and never built twice; what it depends on is built once for all
/// revisions that agree on it.
pub(super) fn build(revision: &str, program: &Path) -> Result<PathBuf, Failure> {
    let bench = bench::target(program);
    let file = || program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = bench.map_or_else(file, ToString::to_string);
    let refused = |problem: String, expected: &str| InputError::new("--baseline", problem, expected);
    let root = git(Path::new("."), &["rev-parse", "--show-toplevel"])
        .map_err(|why| refused(format!("this is no git repository ({why:#})"), "a directory inside a git work tree"))?;
    let root = PathBuf::from(root);
    // The end of options: a revision is never taken for a flag.
    let verify = ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")];
    let commit = git(&root, &verify).map_err(|_| {
        refused(format!("'{revision}' is no revision of {}", root.display()), "a commit, tag or branch")
    })?;
    let all = root.join("target").join("ellwand-baseline");
    let (home, target) = (all.join(&commit), all.join("target"));
    // As deep and under the same name beside its neighbours as the repository itself.
    let source = home.join("work").join(root.file_name().unwrap_or("source".as_ref()));
    let built = home.join(&name);
    if built.is_file() {
        return Ok(built);
    }
    // What is built here is interrupted like a measurement, and ends with this program.
    let interrupt = signals::stop_on_ctrl_c(signals::NOTHING_KEPT);
    let guard = Guard::start().context("sh could not be started")?;
    let _tree = WorkTree::of(&root, &commit, &source)?;
    output::note(&format!("building {name} at {revision} ({commit}), once"));
    // The program's crate may lie below the root, where this command was given.
    let here = std::env::current_dir().ok().and_then(|here| here.strip_prefix(&root).ok().map(Path::to_path_buf));
    let folder =
        Some(source.join(here.unwrap_or_default())).filter(|folder| folder.is_dir()).unwrap_or_else(|| source.clone());
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    match bench {
        Some(name) => cargo.args(["bench", "--no-run", "--bench", name]),
        None => cargo.args(["build", "--release", "--bin", &name]),
    };
    cargo.args(["--message-format", "json-render-diagnostics", "--target-dir"]).arg(&target).current_dir(folder);
    cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = commands::run(&mut cargo, &guard, Duration::MAX, interrupt);
    if interrupt.load(Relaxed) {
        return Err(Failure::Interrupted);
    }
    let output = output.map_err(|why| anyhow::anyhow!("{revision} cannot be built: {why}"))?;
    if !output.status.success() {
        return Err(unbuilt(revision, &name, &String::from_utf8_lossy(&output.stderr)).into());
    }
    let made = executable(&output.stdout, &name)
        .with_context(|| format!("cargo built {revision}, and does not say where {name} is"))?;
    // In the work tree's directory first: a copy that was interrupted must not look whole, and goes with it.
    let partial = home.join("work").join(format!("{name}.partial-{}", std::process::id()));
    std::fs::copy(&made, &partial)
        .and_then(|_| std::fs::rename(&partial, &built))
        .with_context(|| format!("cargo built {revision}, and {} cannot be kept", made.display()))?;
    Ok(built)
}

/// The error about what cargo did not build.
fn unbuilt(revision: &str, name: &str, text: &str) -> InputError {
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(12)..].join("\n");
    if text.contains(&format!("target named `{name}`")) {
        let problem = format!("{revision} has no program '{name}', the name of this program's file:\n{last}\n");
        return InputError::new("--baseline", problem, "this program in a file that has the name of its cargo target");
    }
    InputError::new("--baseline", format!("{revision} does not build:\n{last}\n"), "a revision that builds")
}

/// Where cargo has put the program of that name, by its messages.
fn executable(messages: &[u8], name: &str) -> Option<PathBuf> {
    let messages = messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let made = messages.filter(|message| message["target"]["name"] == name);
    made.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back()
}

/// Links the packages beside the repository next to the work tree: its path dependencies find them there. They are as they
/// are now, whatever the revision.
fn link_neighbours(root: &Path, work: &Path) {
    let packages = root.parent().and_then(|parent| parent.read_dir().ok()).into_iter().flatten().flatten();
    let packages = packages.map(|entry| entry.path()).filter(|path| path.join("Cargo.toml").is_file());
    for path in packages.filter(|path| path != root) {
        // What cannot be linked is missed by cargo only if the program needs it.
        let _ = path.file_name().map(|name| std::os::unix::fs::symlink(&path, work.join(name)));
    }
}

/// The work tree of a commit. Dropped, it goes from the disk and from git's list: the program that it makes is kept.
struct WorkTree<'a> {
    root: &'a Path,
    source: &'a Path,
}

impl<'a> WorkTree<'a> {
    fn of(root: &'a Path, commit: &str, source: &'a Path) -> Result<Self, Failure> {
        let tree = Self { root, source };
        // What a killed program has left there may not be whole.
        tree.remove();
        let home = source.parent().unwrap_or(root);
        std::fs::create_dir_all(home).with_context(|| format!("{} cannot be written", home.display()))?;
        link_neighbours(root, home);
        git(root, &["worktree", "add", "--detach", "--force", &source.display().to_string(), commit])
            .with_context(|| format!("the work tree of {commit} cannot be made"))?;
        Ok(tree)
    }

    fn remove(&self) {
        // With the links beside it, whose targets stay.
        let work = self.source.parent();
        work.map(std::fs::remove_dir_all);
        let _ = git(self.root, &["worktree", "prune"]);
        // A directory that holds a program stays.
        work.and_then(Path::parent).map(std::fs::remove_dir);
    }
}

impl Drop for WorkTree<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
