//! Libraries built by the C++ compiler: kernels for the CPU, and the rehearsal driver (`driver/driver.h`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

const HEADER: &str = concat!(
    include_str!("watch/events.h"),
    include_str!("emulate.h"),
    include_str!("intrinsics.h"),
    include_str!("tensor.h"),
    include_str!("hopper.h")
);

/// The C++ compiler, if one is installed.
pub fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let works = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success());
        ["g++", "c++", "clang++"].into_iter().find(works)
    })
}

/// Why a library could not be built.
#[derive(Debug)]
pub enum Unmade {
    /// No compiler, or no writable folder.
    Absent(String),
    /// The compiler's messages.
    Refused(String),
}

impl std::fmt::Display for Unmade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Unmade::Absent(why) | Unmade::Refused(why)) = self;
        f.write_str(why)
    }
}

/// Compiles a kernel source (its name, complete text and kernel names) for the CPU.
pub fn kernels(name: &str, whole: &str, kernels: &[&str]) -> Result<PathBuf, Unmade> {
    plain(name, &around(whole, kernels))
}

fn around(whole: &str, kernels: &[&str]) -> String {
    let mut text = format!("#line 1 \"emulate.h\"\n{HEADER}\n{whole}\n");
    for kernel in kernels {
        text += &format!("EMULATE_KERNEL({kernel})\n");
    }
    text
}

/// As [`kernels`], with a call before every memory access; linked with this repository's race detector instead of the
/// compiler's.
pub fn watched_kernels(name: &str, whole: &str, kernels: &[&str]) -> Result<PathBuf, Unmade> {
    let text = format!("#define EMULATE_WATCHED\n{}", around(whole, kernels));
    let detector = watch()?;
    let detector = detector.to_str().ok_or_else(|| Unmade::Absent("its folder's name is not valid text".into()))?;
    let options = [&PLAIN[..], &["-g", "-fsanitize=thread", "-nodefaultlibs", detector]].concat();
    build(&format!("watched-{name}"), &[("source.cpp", &text)], &options)
}

/// Builds the race detector (`watch/watch.h`).
pub fn watch() -> Result<PathBuf, Unmade> {
    let files = [
        ("watch.h", include_str!("watch/watch.h")),
        ("events.h", include_str!("watch/events.h")),
        ("access.cpp", include_str!("watch/access.cpp")),
        ("hooks.cpp", include_str!("watch/hooks.cpp")),
        ("events.cpp", include_str!("watch/events.cpp")),
    ];
    build("watch", &files, &["-O2", "-Wall", "-Wextra", "-DEMULATE_WATCHED"])
}

/// Builds a library from one C++ file.
pub fn plain(name: &str, text: &str) -> Result<PathBuf, Unmade> {
    build(name, &[("source.cpp", text)], &PLAIN)
}

/// No automatic fused multiply-add: a source must ask for one.
const PLAIN: [&str; 4] = ["-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-w"];

/// Builds a library from files, unless one with the same name and contents exists.
fn build(name: &str, files: &[(&str, &str)], options: &[&str]) -> Result<PathBuf, Unmade> {
    // One at a time per library. Each writes temporary files and renames them.
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    let compiler = compiler().ok_or_else(|| Unmade::Absent("no C++ compiler was found".into()))?;
    let all = files.iter().flat_map(|(_, text)| text.bytes()).chain(options.iter().flat_map(|option| option.bytes()));
    let hash = all.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/emulation");
    let folder = std::fs::create_dir_all(&folder).map_or_else(|_| std::env::temp_dir(), |()| folder);
    let made = folder.join(format!("{name}-{hash:016x}.so"));
    if made.exists() {
        return Ok(made);
    }
    // If files cannot be locked, two may build the same library, which is harmless.
    let lock = std::fs::File::create(folder.join(format!("{name}.lock")));
    let _held = lock.inspect(|file| drop(file.lock()));
    if made.exists() {
        return Ok(made);
    }
    let own = format!("{name}-{hash:016x}-{}-{}", std::process::id(), TRIES.fetch_add(1, Ordering::Relaxed));
    let own = folder.join(own);
    let output = own.join("made.so");
    let absent = |error: std::io::Error| Unmade::Absent(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(&own).map_err(absent)?;
    for (file, text) in files {
        std::fs::write(own.join(file), text).map_err(absent)?;
    }
    let sources =
        files.iter().map(|(file, _)| own.join(file)).filter(|file| file.extension().is_some_and(|e| e == "cpp"));
    let said = Command::new(compiler)
        .args(["-std=c++17", "-shared", "-fPIC", "-Wl,--no-as-needed"])
        .args(options)
        .arg("-o")
        .arg(&output)
        .args(sources)
        .args(["-ldl", "-lstdc++", "-lm", "-lgcc_s", "-lc"])
        .output()
        .map_err(absent)?;
    let fate = if said.status.success() {
        std::fs::rename(&output, &made).map_err(absent)
    } else {
        Err(Unmade::Refused(String::from_utf8_lossy(&said.stderr).into_owned()))
    };
    let _ = std::fs::remove_dir_all(&own);
    fate.map(|()| made)
}

/// Builds the rehearsal driver.
pub fn driver() -> Result<PathBuf, Unmade> {
    let files = [
        ("driver.h", include_str!("driver/driver.h")),
        ("device.cpp", include_str!("driver/device.cpp")),
        ("graph.cpp", include_str!("driver/graph.cpp")),
        ("launch.cpp", include_str!("driver/launch.cpp")),
        ("memory.cpp", include_str!("driver/memory.cpp")),
        ("module.cpp", include_str!("driver/module.cpp")),
        ("stream.cpp", include_str!("driver/stream.cpp")),
    ];
    // No soname: a process that opens the driver by path must not make it the process's `libcuda`, which the loader
    // would do for that soname.
    build("driver", &files, &["-O1", "-Wall", "-Wextra", "-pthread", "-fvisibility=hidden"])
}

/// Fills a folder for `LD_LIBRARY_PATH` with the rehearsal driver as NVIDIA's, mocks of NVML and cuBLAS, and the
/// kernels of `sources` (name, complete text, kernel names).
pub fn rehearsal(folder: &Path, sources: &[(&str, String, Vec<&str>)]) -> Result<(), Unmade> {
    let absent = |error: std::io::Error| Unmade::Absent(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(absent)?;
    let place = |made: PathBuf, name: &str| {
        let at = folder.join(name);
        let _ = std::fs::remove_file(&at);
        std::fs::copy(made, at).map(|_| ()).map_err(absent)
    };
    place(driver()?, "libcuda.so.1")?;
    // The loader searches for this name first; one file under two names is one library.
    let also = folder.join("libcuda.so");
    let _ = std::fs::remove_file(&also);
    #[cfg(unix)]
    std::os::unix::fs::symlink("libcuda.so.1", also).map_err(absent)?;
    let management = [("nvml.cpp", include_str!("driver/nvml.cpp"))];
    place(build("nvml", &management, &["-O1", "-Wall", "-Wextra"])?, "libnvidia-ml.so.1")?;
    let products = [("products.cpp", include_str!("driver/products.cpp")), ("cublas.h", include_str!("cublas.cpp"))];
    place(build("products", &products, &["-O2"])?, "libcublas.so.13")?;
    let compiled = sources.par_iter();
    compiled.try_for_each(|(name, whole, names)| place(kernels(name, whole, names)?, &format!("{name}.so")))
}
