//! Triton's own interpreter as a backend of tests: the rows named `triton` are judged where there is no GPU.
//!
//! What it proves: indices, bounds, masks, the order of arguments, the promises of alignment, and arithmetic but for the
//! roundings of the machine's exponentials and quotients. What it cannot: anything about the compiler and about time.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ellwand_core::{Case, Registry, Tensors};

use super::super::judge::{judge_on, real_devices};
use super::super::{Arg, Backend, Gpu, GpuDevice, GpuError, Grid, Kernel, Source};

/// A process of Python that runs kernels.
struct Interpreter {
    wire: Mutex<Wire>,
}

struct Wire {
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    sources: BTreeSet<&'static str>,
    kernels: Vec<(&'static str, String)>,
}

fn broken(error: impl std::fmt::Display) -> GpuError {
    GpuError::Call { call: "Triton's interpreter", problem: error.to_string() }
}

impl Wire {
    /// Sends a line and what follows it; the words of the answer.
    fn ask(&mut self, line: &str, payload: &[u8]) -> Result<String, GpuError> {
        writeln!(self.asks, "{line}").map_err(broken)?;
        self.asks.write_all(payload).and_then(|()| self.asks.flush()).map_err(broken)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(broken)?;
        match answer.trim_end().split_once(' ') {
            Some(("ok", rest)) => Ok(rest.to_string()),
            _ if answer.trim_end() == "ok" => Ok(String::new()),
            Some(("error", what)) => Err(broken(format!("{line}: {what}"))),
            _ => Err(broken(format!("it ended at '{line}'"))),
        }
    }
}

impl Interpreter {
    fn start(python: &Path) -> Result<Self, String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/device/triton/interpret.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", python.display()))?;
        let (asks, answers) = child.stdin.take().zip(child.stdout.take()).ok_or("a process without streams")?;
        // It ends by itself when nobody can ask any longer.
        let wire = Wire { asks, answers: BufReader::new(answers), sources: BTreeSet::new(), kernels: Vec::new() };
        Ok(Self { wire: Mutex::new(wire) })
    }

    fn ask(&self, line: &str, payload: &[u8]) -> Result<String, GpuError> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner).ask(line, payload)
    }
}

impl Backend for Interpreter {
    fn about(&self) -> String {
        "interpreted on the processor".into()
    }

    fn alloc(&self, bytes: usize) -> Result<u64, GpuError> {
        self.ask(&format!("alloc {bytes}"), &[])?.parse().map_err(broken)
    }

    fn free(&self, address: u64) {
        let _ = self.ask(&format!("free {address}"), &[]);
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError> {
        self.ask(&format!("write {to} {}", from.len()), from).map(drop)
    }

    fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        wire.ask(&format!("read {from} {}", to.len()), &[])?;
        wire.answers.read_exact(to).map_err(broken)
    }

    fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        self.ask(&format!("fill {at} {byte} {bytes}"), &[]).map(drop)
    }

    fn kernel(&self, source: &'static Source, name: &str) -> Result<Kernel, GpuError> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        if wire.sources.insert(source.name) {
            wire.ask(&format!("source {} {}", source.name, source.text.len()), source.text.as_bytes())?;
        }
        wire.ask(&format!("kernel {} {name}", source.name), &[])?;
        wire.kernels.push((source.name, name.to_string()));
        let handle = wire.kernels.len() - 1;
        Ok(Kernel { name: name.into(), handle, ..Kernel::default() })
    }

    fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), GpuError> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        let (source, name) = wire.kernels[kernel.handle].clone();
        let words: Vec<String> = grid
            .blocks
            .iter()
            .map(u32::to_string)
            .chain(args.iter().map(|arg| format!("{}{}", arg.letter(), arg.word())))
            .collect();
        wire.ask(&format!("launch {source} {name} {}", words.join(" ")), &[]).map(drop)
    }

    fn sync(&self) -> Result<(), GpuError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), GpuError> {
        Ok(())
    }

    fn multiprocessors(&self) -> u32 {
        3
    }
}

/// What rows named `triton` are tested on: the interpreter, where `ELLWAND_TRITON_PYTHON` names a Python that has Triton and
/// numpy, and the first real GPU. `ELLWAND_REQUIRE=triton` makes a missing interpreter an error, `ELLWAND_REQUIRE=cuda` asks
/// for the GPU alone.
fn devices() -> Vec<(String, GpuDevice)> {
    static STARTED: OnceLock<Option<Gpu>> = OnceLock::new();
    let required = std::env::var("ELLWAND_REQUIRE").unwrap_or_default();
    let start = || {
        let python = std::env::var_os("ELLWAND_TRITON_PYTHON")?;
        let started = Interpreter::start(Path::new(&python)).unwrap_or_else(|error| panic!("{error}"));
        Some(Arc::new(started) as Gpu)
    };
    let mut devices = real_devices(&required);
    if required != "cuda" {
        match STARTED.get_or_init(start) {
            Some(gpu) => devices.push(("the interpreter".into(), GpuDevice::new("triton".into(), gpu.clone()))),
            None => {
                assert!(!required.contains("triton"), "set ELLWAND_TRITON_PYTHON, or let `cargo xtask check` do it");
                eprintln!("skipped: no Triton kernel is interpreted (`cargo xtask check --only triton` does it)");
            }
        }
    }
    devices
}

/// As the judge of CUDA kernels, for the rows named `triton`.
pub(crate) fn judge(registry: &Registry, case: &Case, inputs: &Tensors) {
    let judged = judge_on(registry, case, inputs, &["triton"], &devices());
    assert!(judged.is_none_or(|rows| rows.len() == 1), "{case}: nothing was judged");
}
