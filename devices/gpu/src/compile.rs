//! NVRTC: compiles CUDA C++ to machine code for one architecture, with a cache on disk.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};
use ellwand_core::replace_file;

use super::{GpuError, Source, find};

/// Version of NVRTC: major, minor.
///
/// # Errors
/// Why NVRTC is unavailable.
pub fn version() -> Result<(i32, i32), GpuError> {
    find::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: two out-parameters; the library is loaded.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(call("nvrtcVersion"))?;
    Ok((major, minor))
}

fn call(call: &'static str) -> impl Fn(result::NvrtcError) -> GpuError {
    move |error| GpuError::Call { call, problem: error.to_string() }
}

/// Machine code of one source, and the resources that its kernels use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code for one architecture (a cubin).
    pub cubin: Vec<u8>,
    /// Registers, local memory and spills, as reported by the assembler.
    pub resources: Vec<Resources>,
    /// Warnings of the assembler: warpgroup products that it serialised, registers that it could not move.
    pub warnings: Vec<String>,
}

/// Resources that one kernel uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Name of the kernel, mangled unless `extern "C"`.
    pub kernel: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread (arrays that are not in registers).
    pub stack_bytes: u32,
    /// Bytes spilled and reloaded because registers ran out.
    pub spill_bytes: u32,
    /// Bytes of static shared memory per block.
    pub shared_bytes: u32,
}

/// Compiles for `arch`, which must be a real architecture (`sm_90a`): NVRTC runs the assembler, and so reports its
/// warnings, only then.
///
/// # Errors
/// The compiler's messages with file and line, or why no compiler is available.
pub fn compile(source: &Source, arch: &str) -> Result<Compiled, GpuError> {
    find::nvrtc()?;
    let text = CString::new(source.whole())
        .map_err(|_| GpuError::Call { call: "nvrtcCreateProgram", problem: "the source holds a zero byte".into() })?;
    let name = CString::new(source.name).unwrap_or_default();
    let program = result::create_program(&text, Some(&name)).map_err(call("nvrtcCreateProgram"))?;
    let compiled = assemble(program, source, arch);
    // SAFETY: created above, destroyed once.
    let destroyed = unsafe { result::destroy_program(program) };
    let compiled = compiled?;
    destroyed.map_err(call("nvrtcDestroyProgram"))?;
    Ok(compiled)
}

fn assemble(program: sys::nvrtcProgram, source: &Source, arch: &str) -> Result<Compiled, GpuError> {
    let mut options: Vec<String> =
        ["--std=c++17", "--generate-line-info", "--ptxas-options=-v"].map(ToString::to_string).to_vec();
    options.push(format!("--gpu-architecture={arch}"));
    options.extend(source.options.iter().map(ToString::to_string));
    // SAFETY: the program is alive; options hold no zero byte.
    let built = unsafe { result::compile_program(program, &options) };
    // SAFETY: the program is alive.
    let log = text(&unsafe { result::get_program_log(program) }.map_err(call("nvrtcGetProgramLog"))?);
    if let Err(error) = built {
        let log = if log.trim().is_empty() { error.to_string() } else { log };
        return Err(GpuError::Compile { source_name: source.name.into(), arch: arch.into(), log });
    }
    let mut bytes = 0;
    // SAFETY: the program is compiled; one out-parameter.
    unsafe { sys::nvrtcGetCUBINSize(program, &raw mut bytes) }.result().map_err(call("nvrtcGetCUBINSize"))?;
    let mut cubin = vec![0_u8; bytes];
    // SAFETY: the buffer has the size that the library asked for.
    unsafe { sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast::<c_char>()) }
        .result()
        .map_err(call("nvrtcGetCUBIN"))?;
    Ok(Compiled { cubin, resources: resources(&log), warnings: warnings(&log) })
}

/// The assembler's numbered advice (`C7510`) and its warnings.
fn warnings(log: &str) -> Vec<String> {
    let numbered = |line: &str| {
        line.split_once("(C")
            .is_some_and(|(_, rest)| rest.get(..4).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())))
    };
    let warning = |line: &&str| line.starts_with("ptxas") && (numbered(line) || line.contains("warning"));
    log.lines().filter(warning).map(|line| line.trim().to_string()).collect()
}

/// Parses the assembler's report: for each kernel its name, then a line about memory, then a line about registers.
fn resources(log: &str) -> Vec<Resources> {
    let mut all: Vec<Resources> = Vec::new();
    let before = |line: &str, unit: &str| -> u32 {
        let words: Vec<&str> = line.split(unit).next().unwrap_or("").split_whitespace().collect();
        if line.contains(unit) { words.last().and_then(|word| word.parse().ok()).unwrap_or(0) } else { 0 }
    };
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or("").to_string();
            all.push(Resources { kernel, ..Resources::default() });
        } else if let Some(last) = all.last_mut() {
            if line.contains("bytes stack frame") {
                last.stack_bytes = before(line, " bytes stack frame");
                last.spill_bytes = before(line, " bytes spill stores") + before(line, " bytes spill loads");
            } else if line.contains(" registers") {
                last.registers = before(line, " registers");
                last.shared_bytes = before(line, " bytes smem");
            }
        }
    }
    all.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    all
}

fn text(log: &[c_char]) -> String {
    let bytes: Vec<u8> = log.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

/// Returns the machine code from the cache, or compiles the source and caches it. Also returns the compiler's name and
/// whether the code came from the cache.
///
/// # Errors
/// As [`compile`]. A cache that cannot be read or written is not an error.
pub(super) fn cached(source: &Source, arch: &str) -> Result<(Vec<u8>, String), GpuError> {
    let given = std::env::var_os("ELLWAND_CUBINS").map(PathBuf::from);
    let named = given.is_some();
    cached_in(given.or_else(folder).as_deref(), named, source, arch)
}

/// As [`cached`], with the cache folder; `named` is true if the user named it.
fn cached_in(folder: Option<&Path>, named: bool, source: &Source, arch: &str) -> Result<(Vec<u8>, String), GpuError> {
    let place = |compiler| folder.map(|folder| Place::new(folder, source, arch, compiler));
    let cached = |(cubin, compiler): (Vec<u8>, String)| (cubin, format!("{compiler}, from cache"));
    // If the user named the folder, it was filled for this run: code by any compiler will do, for this source and
    // architecture, and no compiler is needed.
    if named && let Some(found) = place(None).and_then(|place| place.read(true)) {
        return Ok(cached(found));
    }
    let compiler = version();
    let place = place(compiler.as_ref().ok().copied());
    // Without a compiler, code by any compiler will do too.
    if let Some(found) = place.as_ref().and_then(|place| place.read(compiler.is_err())) {
        return Ok(cached(found));
    }
    let cubin = compile(source, arch)?.cubin;
    if let Some(place) = place {
        place.write(&cubin);
    }
    Ok((cubin, compiler.map_or_else(|_| String::new(), called)))
}

/// Display name of a compiler version.
fn called((major, minor): (i32, i32)) -> String {
    format!("NVRTC {major}.{minor}")
}

/// `ellwand/cubins` in the user's cache directory.
fn folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("ellwand").join("cubins"))
}

/// Two files: the machine code, and its key, which holds everything the code was made from and is compared in full.
struct Place {
    cubin: PathBuf,
    key: PathBuf,
    made_from: String,
    compiler: String,
}

impl Place {
    fn new(folder: &Path, source: &Source, arch: &str, compiler: Option<(i32, i32)>) -> Self {
        let made_from = format!("{arch}\n{}\n{}", source.options.join(" "), source.whole());
        // FNV-1a is enough for a file name, since the key itself is compared.
        let hash = made_from
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        let stem = format!("{}-{arch}-{hash:016x}", source.name.trim_end_matches(".cu"));
        let compiler = compiler.map_or_else(String::new, called);
        Self {
            cubin: folder.join(format!("{stem}.cubin")),
            key: folder.join(format!("{stem}.key")),
            made_from,
            compiler,
        }
    }

    /// The code and the compiler that made it.
    fn read(&self, any_compiler: bool) -> Option<(Vec<u8>, String)> {
        let key = fs::read_to_string(&self.key).ok()?;
        let (compiler, made_from) = key.split_once('\n')?;
        let fits = made_from == self.made_from && (any_compiler || compiler == self.compiler);
        let cubin = fs::read(&self.cubin).ok().filter(|cubin| fits && !cubin.is_empty());
        cubin.map(|cubin| (cubin, compiler.to_string()))
    }

    /// Writes both files whole, the key last: a process that finds a key also finds complete code.
    fn write(&self, cubin: &[u8]) {
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(self.cubin.parent().unwrap_or(Path::new(".")))?;
            replace_file(&self.cubin, |out| out.write_all(cubin))?;
            replace_file(&self.key, |out| write!(out, "{}\n{}", self.compiler, self.made_from))
        };
        // A cache that cannot be written only costs a compilation next time.
        let _ = write();
    }
}

/// Compiles a source for `arch` into the cache in `folder`; set `$ELLWAND_CUBINS` to that folder to use it.
///
/// # Errors
/// As [`compile`].
pub fn fill_cache(folder: &Path, source: &Source, arch: &str) -> Result<Compiled, GpuError> {
    let compiled = compile(source, arch)?;
    Place::new(folder, source, arch, Some(version()?)).write(&compiled.cubin);
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_gives_back_what_fits_in_full_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("ellwand-cubins-{}", std::process::id()));
        let source = Source { name: "a.cu", text: "1", options: &["--fmad=false"] };
        let place = Place::new(&folder, &source, "sm_90a", Some((13, 0)));
        assert_eq!(place.read(false), None);
        place.write(b"code");
        let written = (b"code".to_vec(), "NVRTC 13.0".to_string());
        assert_eq!(place.read(false), Some(written.clone()));
        for other in [
            Place::new(&folder, &source, "sm_80", Some((13, 0))),
            Place::new(&folder, &Source { text: "2", ..source }, "sm_90a", Some((13, 0))),
            Place::new(&folder, &Source { options: &[], ..source }, "sm_90a", Some((13, 0))),
            Place::new(&folder, &source, "sm_90a", Some((13, 1))),
        ] {
            assert_eq!(other.read(false), None);
        }
        assert_eq!(Place::new(&folder, &source, "sm_90a", None).read(true), Some(written));
        // A truncated key, or one of another source with the same name, does not match.
        fs::write(&place.key, "NVRTC 13.0\nsm_90a\n").unwrap();
        assert_eq!(place.read(true), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn code_in_a_folder_that_the_user_names_is_taken_whichever_compiler_made_it() {
        let folder = std::env::temp_dir().join(format!("ellwand-cubins-named-{}", std::process::id()));
        // No available compiler has this name.
        let source = Source { name: "named.cu", text: "no C++", options: &[] };
        Place::new(&folder, &source, "sm_90a", Some((1, 2))).write(b"code");
        let found = cached_in(Some(&folder), true, &source, "sm_90a").unwrap();
        assert_eq!(found, (b"code".to_vec(), "NVRTC 1.2, from cache".to_string()));
        assert!(cached_in(Some(&folder), true, &source, "sm_80").is_err(), "nothing is there for it");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn assembler_output_is_read_kernel_by_kernel() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'b' for 'sm_90a'\n\
            ptxas info    : Function properties for b\n    \
            16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 256 bytes smem\n\
            ptxas info    : Compiling entry function 'a' for 'sm_90a'\n    \
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 8 registers, 372 bytes cmem[0]\n";
        let b = Resources { kernel: "b".into(), registers: 40, stack_bytes: 16, spill_bytes: 20, shared_bytes: 256 };
        let a = Resources { kernel: "a".into(), registers: 8, ..Resources::default() };
        assert_eq!(resources(log), [a, b]);
        assert!(warnings(log).is_empty());
        let warning = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized";
        assert_eq!(warnings(&format!("{log}{warning}\n")), [warning]);
    }

    #[test]
    fn compile_errors_name_file_and_line_if_there_is_a_compiler() {
        let source = Source { name: "broken.cu", text: "\nextern \"C\" __global__ void f() { x = 1; }", options: &[] };
        match compile(&source, "sm_90a").unwrap_err() {
            GpuError::Absent(why) => assert!(why.contains("ELLWAND_CUDA_LIBS"), "{why}"),
            error => assert!(error.to_string().contains("broken.cu(2)"), "{error}"),
        }
    }
}
