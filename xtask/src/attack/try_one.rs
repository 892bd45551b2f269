//! One try: a fresh directory with results, a command in it, and what must hold afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use xtask::{build, root};

pub(crate) type Try = Result<()>;

/// Time after which a command counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);
/// Marks the processes of a try: children inherit it.
const MARK: &str = "ELLWAND_ATTACK";

/// Shared by all tries: the programs, and results to put at risk.
pub(crate) struct Lab {
    pub(crate) program: PathBuf,
    pub(crate) hostile: PathBuf,
    home: PathBuf,
    tries: AtomicUsize,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.home);
    }
}

impl Lab {
    pub(crate) fn new() -> Result<Self> {
        let built = ["build", "--quiet", "-p", "ellwand-cli", "--bins", "--example", "hostile"];
        let home = std::env::temp_dir().join(format!("ellwand-attack-{}", std::process::id()));
        let lab = Self {
            program: build(&built, "ellwand")?,
            hostile: build(&built, "hostile")?,
            home,
            tries: AtomicUsize::new(0),
        };
        fs::create_dir_all(lab.home.join("model"))?;
        lab.results()?;
        Ok(lab)
    }

    /// Results of each command; each try gets a copy.
    fn results(&self) -> Result<()> {
        let model = Room { dir: self.home.join("model"), mark: String::new(), program: self.program.clone() };
        fs::copy(root()?.join("testdata/fuzz/f32.npy"), model.path("x.npy"))?;
        for args in [
            &[RUN, &["-o", "run"]].concat()[..],
            &[APPLY, &["-o", "apply"]].concat(),
            &[COMPARE, &["-o", "compare"]].concat(),
            &["report", "run", "--no-plot", "-o", "report"],
        ] {
            let ran = model.ran(model.command(args))?;
            ensure!(ran.code == Some(0), "{args:?} failed: {}", ran.stderr);
        }
        Ok(())
    }

    /// A fresh directory with results in `run`, `apply`, `compare` and `report`, and an array `x.npy`.
    pub(crate) fn room(&self) -> Result<Room> {
        let number = self.tries.fetch_add(1, Relaxed);
        let dir = self.home.join(number.to_string());
        copy(&self.home.join("model"), &dir)?;
        Ok(Room { mark: dir.display().to_string(), dir, program: self.program.clone() })
    }
}

/// A short sweep, an application, a comparison: each takes about a second.
pub(crate) const RUN: &[&str] = &[
    "run",
    "lattice-encode",
    "-i",
    "scalar,simd",
    "--batch",
    "1,2",
    "--effort",
    "quick",
    "--blocks",
    "1",
    "--no-ceilings",
    "--no-plot",
];
pub(crate) const APPLY: &[&str] = &["apply", "gelu", "--input", "x=x.npy"];
pub(crate) const COMPARE: &[&str] = &["compare", "--command", "true", "true", "--blocks", "8", "--fail-on", "never"];

/// The directory of a try.
pub(crate) struct Room {
    pub(crate) dir: PathBuf,
    mark: String,
    program: PathBuf,
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.mark.is_empty() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Checks that it ended by itself, with one of these codes, without a panic, and with harmless output.
    pub(crate) fn sound(&self, codes: &[i32]) -> Try {
        let short: String = self.stderr.chars().take(2000).collect();
        ensure!(
            self.code.is_some_and(|code| codes.contains(&code)),
            "code {:?}, expected {codes:?}: {short}",
            self.code
        );
        ensure!(!self.stderr.contains("panicked at"), "a panic: {short}");
        ensure!(self.stderr.len() < 50_000, "{} bytes on stderr: {short}", self.stderr.len());
        let drawn = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        ensure!(!self.stderr.contains(drawn) && !self.stdout.contains(drawn), "control characters: {short:?}");
        ensure!(
            self.code == Some(0) || !self.stderr.trim().is_empty() || !self.stdout.is_empty(),
            "it printed nothing"
        );
        Ok(())
    }
}

impl Room {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The number of this try.
    pub(crate) fn number(&self) -> usize {
        self.dir.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0)
    }

    /// Uses another program from here on.
    pub(crate) fn program_is(&mut self, program: &Path) {
        self.program = program.to_path_buf();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args);
        self.set(&mut command);
        command
    }

    /// A shell script that runs `before`, then the program with `args`.
    pub(crate) fn after(&self, before: &str, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        let script = format!("{before}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(&self.program).args(args);
        self.set(&mut command);
        command
    }

    pub(crate) fn set(&self, command: &mut Command) {
        command.current_dir(&self.dir).env("XDG_CACHE_HOME", self.path("cache")).env(MARK, &self.mark);
        command.env("CUDA_VISIBLE_DEVICES", "").env("TMPDIR", &self.dir).stdin(Stdio::null());
    }

    /// Runs to the end, which must come in time.
    pub(crate) fn ran(&self, mut command: Command) -> Result<Ran> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        self.end(child)
    }

    pub(crate) fn end(&self, child: Child) -> Result<Ran> {
        let id = child.id().to_string();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            let late = waits.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if late {
                let _ = Command::new("kill").args(["-9", &id]).status();
            }
            late
        });
        let Output { status, stdout, stderr } = child.wait_with_output()?;
        drop(done);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ran = Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) };
        if watch.join().unwrap_or(true) {
            bail!("it did not end within {} s: {}", PATIENCE.as_secs(), ran.stderr);
        }
        Ok(ran)
    }

    /// Every file of results with its contents. Unfinished cells do not count.
    pub(crate) fn results(&self, dir: &str) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files = BTreeMap::new();
        gather(&self.path(dir), &mut files)?;
        files.retain(|path, _| !path.components().any(|part| part.as_os_str() == "ellwand-unfinished"));
        Ok(files)
    }

    /// Checks that some record of the try begins with these lines.
    pub(crate) fn keeps(&self, dir: &str, lines: &str) -> Try {
        let mut found = BTreeMap::new();
        gather(&self.dir, &mut found)?;
        let records = found.iter().filter(|(path, _)| path.ends_with("record.jsonl"));
        let mut texts = records.map(|(_, bytes)| String::from_utf8_lossy(bytes));
        ensure!(lines.is_empty() || texts.any(|text| text.starts_with(lines)), "a finished cell of {dir} is lost");
        Ok(())
    }

    /// Waits until no process of the try is left.
    pub(crate) fn alone(&self) -> Try {
        let start = Instant::now();
        loop {
            let left = self.processes()?;
            if left.is_empty() {
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(10) {
                for (id, _) in &left {
                    let _ = Command::new("kill").args(["-9", id]).status();
                }
                bail!("processes are left: {left:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn processes(&self) -> Result<Vec<(String, String)>> {
        let wanted = format!("{MARK}={}", self.mark);
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|value| value == wanted.as_bytes()) {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                left.push((entry.file_name().to_string_lossy().into_owned(), line));
            }
        }
        Ok(left)
    }
}

fn gather(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.is_file() {
            files.insert(path.clone(), fs::read(&path)?);
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
