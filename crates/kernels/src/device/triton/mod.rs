//! Triton: kernels in Python files that a compiler made machine code of ahead of time (`aot.py`), found at run time.
//!
//! Neither Python nor Triton is needed here: a folder holds, for each file and architecture, a manifest with what a launch
//! must know, and the machine code of every kernel. A manifest counts only when it was made from the very text that this
//! program was built with.

#[cfg(test)]
mod interpreter;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::{Arg, GpuError, Grid, Source};

#[cfg(test)]
pub(crate) use interpreter::judge;

/// How to get what is missing.
const HELP: &str = "`cargo xtask triton` makes it, without a GPU; ELLWAND_TRITON may name the folder that holds it";

/// What a kernel that was compiled ahead of time fixes of its launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Bytes of shared memory of a block.
    pub(crate) shared: u32,
    /// Its arguments.
    pub(crate) arguments: Vec<Argument>,
    /// Addresses of scratch memory behind them, which stay null.
    pub(crate) scratch: usize,
}

/// An argument of a kernel that was compiled ahead of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    name: String,
    /// Its type, as Triton spells it.
    of: String,
    /// Whether it must be a multiple of 16.
    sixteen: bool,
}

impl Argument {
    /// Why a value is none for it.
    fn refuses(&self, arg: Arg) -> Option<String> {
        let fits = match self.of.as_str() {
            "i32" => matches!(arg, Arg::U32(_)),
            "i64" => matches!(arg, Arg::U64(_)),
            "fp32" => matches!(arg, Arg::F32(_)),
            "fp64" => matches!(arg, Arg::F64(_)),
            of => of.starts_with('*') && matches!(arg, Arg::At(_)),
        };
        if !fits {
            return Some(format!("{} of type {}", self.name, self.of));
        }
        (self.sixteen && !arg.word().is_multiple_of(16)).then(|| format!("{} as a multiple of 16", self.name))
    }
}

impl Fixed {
    /// A launch with everything that the kernel fixes.
    ///
    /// # Errors
    /// When the arguments are not those that it was compiled for.
    pub(crate) fn complete(&self, kernel: &str, grid: Grid, mut args: Vec<Arg>) -> Result<(Grid, Vec<Arg>), GpuError> {
        let problem = |problem: String| GpuError::Call { call: "cuLaunchKernel", problem };
        if args.len() != self.arguments.len() {
            let (takes, given) = (self.arguments.len(), args.len());
            return Err(problem(format!("{kernel} takes {takes} arguments, and {given} were given")));
        }
        for (argument, arg) in self.arguments.iter().zip(&args) {
            if let Some(why) = argument.refuses(*arg) {
                return Err(problem(format!("{kernel} was compiled for {why}: {arg:?}")));
            }
        }
        args.extend(std::iter::repeat_n(Arg::At(0), self.scratch));
        Ok((Grid { threads: [self.threads, 1, 1], shared: self.shared, ..grid }, args))
    }
}

/// Machine code of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The code.
    pub(super) cubin: Vec<u8>,
    /// Name of the kernel in it.
    pub(super) entry: String,
    /// What it fixes.
    pub(super) fixed: Arc<Fixed>,
    /// The compiler that made it.
    pub(super) compiler: String,
}

/// Folders that may hold machine code, the first that has some for the file and architecture counts: `$ELLWAND_TRITON`,
/// `triton` beside the program or beside its folder, the user's cache.
fn folders() -> Vec<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_TRITON") {
        return vec![PathBuf::from(given)];
    }
    let mut folders = Vec::new();
    if let Ok(program) = std::env::current_exe() {
        folders.extend(program.ancestors().skip(1).take(2).map(|folder| folder.join("triton")));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    folders.extend(cache.map(|cache| cache.join("ellwand").join("triton")));
    folders
}

/// The kernel `name` of `source` for `arch`.
///
/// # Errors
/// Why there is none: nothing was compiled for this architecture, or from another text.
pub(super) fn find(source: &Source, name: &str, arch: &str) -> Result<Found, GpuError> {
    let folders = folders();
    let stem = source.name.trim_end_matches(".py");
    // Code for the first of a generation runs on all of it, before the generations that have instructions of their own.
    let older = arch.strip_prefix("sm_8").map(|_| "sm_80");
    for arch in [Some(arch), older].into_iter().flatten() {
        for folder in &folders {
            let manifest = folder.join(format!("{stem}-{arch}.json"));
            if let Ok(text) = fs::read_to_string(&manifest) {
                return read(&text, &manifest, source, name);
            }
        }
    }
    let tried: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(GpuError::Absent(format!(
        "no machine code of Triton's {} for {arch} lies in {}; {HELP}",
        source.name,
        tried.join(", ")
    )))
}

/// Takes a kernel out of a manifest.
fn read(text: &str, at: &Path, source: &Source, name: &str) -> Result<Found, GpuError> {
    let broken = |what: &str| GpuError::Absent(format!("{} is no manifest of kernels: {what}; {HELP}", at.display()));
    let manifest: Value = serde_json::from_str(text).map_err(|error| broken(&error.to_string()))?;
    let word = |value: &Value, key: &str| value[key].as_str().map(str::to_string);
    let number = |value: &Value, key: &str| value[key].as_u64().and_then(|number| u32::try_from(number).ok());
    if word(&manifest, "source").ok_or_else(|| broken("no source"))? != source.digest() {
        return Err(GpuError::Absent(format!(
            "{} was made from another {} than this program was built with; {HELP}",
            at.display(),
            source.name
        )));
    }
    let kernels = manifest["kernels"].as_array().ok_or_else(|| broken("no kernels"))?;
    let kernel = kernels.iter().find(|kernel| kernel["kernel"] == name);
    let kernel = kernel.ok_or_else(|| broken(&format!("it knows no kernel {name}")))?;
    let missing = |key: &str| broken(&format!("{name} has no {key}"));
    let listed = |key: &str| kernel[key].as_array().ok_or_else(|| missing(key));
    let sixteens = listed("sixteens")?;
    let arguments = listed("arguments")?.iter().map(|argument| {
        let known = |at: usize| argument[at].as_str().map(str::to_string).ok_or_else(|| missing("arguments"));
        let name = known(0)?;
        let sixteen = sixteens.iter().any(|other| *other == name);
        Ok(Argument { name, of: known(1)?, sixteen })
    });
    let fixed = Fixed {
        threads: 32 * number(kernel, "warps").ok_or_else(|| missing("warps"))?,
        shared: number(kernel, "shared_bytes").ok_or_else(|| missing("shared_bytes"))?,
        arguments: arguments.collect::<Result<_, GpuError>>()?,
        scratch: number(kernel, "scratch_pointers").ok_or_else(|| missing("scratch_pointers"))? as usize,
    };
    let cubin = word(kernel, "cubin").filter(|file| !file.contains(['/', '\\'])).ok_or_else(|| missing("cubin"))?;
    let place = at.with_file_name(cubin);
    let cubin = fs::read(&place).ok().filter(|code| code.starts_with(b"\x7fELF"));
    Ok(Found {
        cubin: cubin.ok_or_else(|| broken(&format!("{} holds no machine code", place.display())))?,
        entry: word(kernel, "entry").ok_or_else(|| missing("entry"))?,
        fixed: Arc::new(fixed),
        compiler: word(&manifest, "compiler").ok_or_else(|| missing("compiler"))?,
    })
}
