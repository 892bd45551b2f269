//! NVRTC: CUDA C++ to machine code of one architecture, kept on disk by source.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};

use super::{GpuError, Source, find};

/// Version of NVRTC, major and minor.
///
/// # Errors
/// Why there is none.
pub fn version() -> Result<(i32, i32), GpuError> {
    find::nvrtc().map_err(GpuError::Absent)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: two out-parameters; the library is there.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(call("nvrtcVersion"))?;
    Ok((major, minor))
}

fn call(call: &'static str) -> impl Fn(result::NvrtcError) -> GpuError {
    move |error| GpuError::Call { call, problem: error.to_string() }
}

/// Compiles for `arch` (`sm_90a`), which must be a real architecture: only then is the assembler run, and its complaints seen.
///
/// # Errors
/// The compiler's messages with file and line, or why there is no compiler.
pub fn compile(source: &Source, arch: &str) -> Result<Vec<u8>, GpuError> {
    find::nvrtc().map_err(GpuError::Absent)?;
    let text = CString::new(source.whole())
        .map_err(|_| GpuError::Call { call: "nvrtcCreateProgram", problem: "the source holds a zero byte".into() })?;
    let name = CString::new(source.name).unwrap_or_default();
    let program = result::create_program(&text, Some(&name)).map_err(call("nvrtcCreateProgram"))?;
    let compiled = cubin(program, source, arch);
    // SAFETY: created above, destroyed once.
    let destroyed = unsafe { result::destroy_program(program) };
    let cubin = compiled?;
    destroyed.map_err(call("nvrtcDestroyProgram"))?;
    Ok(cubin)
}

fn cubin(program: sys::nvrtcProgram, source: &Source, arch: &str) -> Result<Vec<u8>, GpuError> {
    let mut options = vec![format!("--gpu-architecture={arch}"), "--std=c++17".into(), "--generate-line-info".into()];
    options.extend(source.options.iter().map(ToString::to_string));
    // SAFETY: the program is alive; options hold no zero byte.
    if let Err(error) = unsafe { result::compile_program(program, &options) } {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(program) }.map_err(call("nvrtcGetProgramLog"))?;
        let log = text(&log);
        let log = if log.trim().is_empty() { error.to_string() } else { log };
        return Err(GpuError::Compile { source_name: source.name.into(), arch: arch.into(), log });
    }
    let mut bytes = 0;
    // SAFETY: the program is compiled; one out-parameter.
    unsafe { sys::nvrtcGetCUBINSize(program, &raw mut bytes) }.result().map_err(call("nvrtcGetCUBINSize"))?;
    let mut cubin = vec![0_u8; bytes];
    // SAFETY: as many bytes as the library asked for.
    unsafe { sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast::<c_char>()) }
        .result()
        .map_err(call("nvrtcGetCUBIN"))?;
    Ok(cubin)
}

fn text(log: &[c_char]) -> String {
    let bytes: Vec<u8> = log.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

/// The compiled source from the cache, or compiled now and put there. Says where it came from.
///
/// # Errors
/// As [`compile`]. A cache that cannot be read or written is no error.
pub(super) fn cached(source: &Source, arch: &str) -> Result<(Vec<u8>, &'static str), GpuError> {
    let Some(folder) = folder() else { return Ok((compile(source, arch)?, "compiled")) };
    let compiler = version();
    let place = Place::new(&folder, source, arch, compiler.as_ref().ok().copied());
    // Without a compiler, code that any compiler made for this source and architecture is good.
    if let Some(cubin) = place.read(compiler.is_err()) {
        return Ok((cubin, "from cache"));
    }
    let cubin = compile(source, arch)?;
    place.write(&cubin);
    Ok((cubin, "compiled"))
}

/// `$ELLWAND_CUBINS`, or `ellwand/cubins` in the user's cache.
fn folder() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_CUBINS") {
        return Some(PathBuf::from(given));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("ellwand").join("cubins"))
}

/// Two files: the machine code, and everything it was made from, which is compared in full.
struct Place {
    cubin: PathBuf,
    key: PathBuf,
    made_from: String,
    compiler: String,
}

impl Place {
    fn new(folder: &Path, source: &Source, arch: &str, compiler: Option<(i32, i32)>) -> Self {
        let made_from = format!("{arch}\n{}\n{}", source.options.join(" "), source.whole());
        // FNV-1a: only a name for the file, since the key itself is compared.
        let hash = made_from
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        let stem = format!("{}-{arch}-{hash:016x}", source.name.trim_end_matches(".cu"));
        let compiler = compiler.map_or_else(String::new, |(major, minor)| format!("NVRTC {major}.{minor}"));
        Self {
            cubin: folder.join(format!("{stem}.cubin")),
            key: folder.join(format!("{stem}.key")),
            made_from,
            compiler,
        }
    }

    fn read(&self, any_compiler: bool) -> Option<Vec<u8>> {
        let key = fs::read_to_string(&self.key).ok()?;
        let (compiler, made_from) = key.split_once('\n')?;
        let fits = made_from == self.made_from && (any_compiler || compiler == self.compiler);
        if fits { fs::read(&self.cubin).ok().filter(|cubin| !cubin.is_empty()) } else { None }
    }

    /// Through files of their own that are renamed, the key last: whoever finds a key finds whole code, written by anyone.
    fn write(&self, cubin: &[u8]) {
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(self.cubin.parent().unwrap_or(Path::new(".")))?;
            for (path, bytes) in
                [(&self.cubin, cubin), (&self.key, format!("{}\n{}", self.compiler, self.made_from).as_bytes())]
            {
                let own = path.with_extension(format!("{}.tmp", std::process::id()));
                fs::write(&own, bytes)?;
                fs::rename(&own, path)?;
            }
            Ok(())
        };
        // A cache that cannot be written costs a compilation the next time, nothing else.
        let _ = write();
    }
}

/// Compiles every source for `arch` into the cache in `folder`, which [`cached`] reads where `$ELLWAND_CUBINS` names it.
///
/// # Errors
/// The first source that does not compile.
pub fn fill_cache(folder: &Path, arch: &str) -> Result<usize, GpuError> {
    let compiler = version()?;
    let sources = super::sources();
    for source in &sources {
        Place::new(folder, source, arch, Some(compiler)).write(&compile(source, arch)?);
    }
    Ok(sources.len())
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
        assert_eq!(place.read(false).unwrap(), b"code");
        for other in [
            Place::new(&folder, &source, "sm_80", Some((13, 0))),
            Place::new(&folder, &Source { text: "2", ..source }, "sm_90a", Some((13, 0))),
            Place::new(&folder, &Source { options: &[], ..source }, "sm_90a", Some((13, 0))),
            Place::new(&folder, &source, "sm_90a", Some((13, 1))),
        ] {
            assert_eq!(other.read(false), None);
        }
        assert_eq!(Place::new(&folder, &source, "sm_90a", None).read(true).unwrap(), b"code");
        // A key that is torn or of another source under the same name is not believed.
        fs::write(&place.key, "NVRTC 13.0\nsm_90a\n").unwrap();
        assert_eq!(place.read(true), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
