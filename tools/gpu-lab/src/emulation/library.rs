//! Libraries made by the C++ compiler: kernels for the processor, and the driver of rehearsals (`driver/driver.h`).
//!
//! Leans on nothing but the standard library, because the example and the tests that rehearse the program take this file in
//! as well.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

const HEADER: &str = concat!(
    include_str!("watch/told.h"),
    include_str!("emulate.h"),
    include_str!("intrinsics.h"),
    include_str!("tensor.h"),
    include_str!("hopper.h")
);

/// The C++ compiler, where there is one.
pub fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let works = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success());
        ["g++", "c++", "clang++"].into_iter().find(works)
    })
}

/// Why a library was not made.
#[derive(Debug)]
pub enum Unmade {
    /// There is no compiler, or no place to write to.
    Absent(String),
    /// What the compiler said.
    Refused(String),
}

impl std::fmt::Display for Unmade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Unmade::Absent(why) | Unmade::Refused(why)) = self;
        f.write_str(why)
    }
}

/// A source of kernels, its whole text and their names, compiled for the processor.
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

/// The same with a call before every access to memory, for the race detector, which is linked in the place of the compiler's own.
#[allow(dead_code)]
pub fn watched_kernels(name: &str, whole: &str, kernels: &[&str]) -> Result<PathBuf, Unmade> {
    let text = format!("#define EMULATE_WATCHED\n{}", around(whole, kernels));
    let detector = watch()?;
    let detector =
        detector.to_str().ok_or_else(|| Unmade::Absent("it lies in a folder whose name is no text".into()))?;
    let options = [&PLAIN[..], &["-g", "-fsanitize=thread", "-nodefaultlibs", detector]].concat();
    build(&format!("watched-{name}"), &[("source.cpp", &text)], &options)
}

/// The race detector (`watch/watch.h`).
#[allow(dead_code)]
pub fn watch() -> Result<PathBuf, Unmade> {
    let files = [
        ("watch.h", include_str!("watch/watch.h")),
        ("told.h", include_str!("watch/told.h")),
        ("access.cpp", include_str!("watch/access.cpp")),
        ("hooks.cpp", include_str!("watch/hooks.cpp")),
        ("told.cpp", include_str!("watch/told.cpp")),
    ];
    build("watch", &files, &["-O2", "-Wall", "-Wextra", "-DEMULATE_WATCHED"])
}

/// One file of C++ as a library.
pub fn plain(name: &str, text: &str) -> Result<PathBuf, Unmade> {
    build(name, &[("source.cpp", text)], &PLAIN)
}

/// No contraction into fused operations: a source that wants one says so.
const PLAIN: [&str; 4] = ["-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-w"];

/// Compiles files into a library under its name and what it is made of, unless that has been done.
fn build(name: &str, files: &[(&str, &str)], options: &[&str]) -> Result<PathBuf, Unmade> {
    // Threads of one program take turns, and programs do for the same library; each writes files of its own and renames them.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let compiler = compiler().ok_or_else(|| Unmade::Absent("no C++ compiler was found".into()))?;
    let all = files.iter().flat_map(|(_, text)| text.bytes()).chain(options.iter().flat_map(|option| option.bytes()));
    let hash = all.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/emulation");
    let folder = std::fs::create_dir_all(&folder).map_or_else(|_| std::env::temp_dir(), |()| folder);
    let made = folder.join(format!("{name}-{hash:016x}.so"));
    if made.exists() {
        return Ok(made);
    }
    // Where files cannot be locked the library is made twice, and nothing else happens.
    let lock = std::fs::File::create(folder.join(format!("{name}.lock")));
    let _held = lock.inspect(|file| drop(file.lock()));
    if made.exists() {
        return Ok(made);
    }
    let own = folder.join(format!("{name}-{hash:016x}-{}", std::process::id()));
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

/// The driver of rehearsals.
#[allow(dead_code)]
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
    // It bears no name in itself: who opens it by its path must not make it the driver of the whole process, as the loader would
    // by that name.
    build("driver", &files, &["-O1", "-Wall", "-Wextra", "-pthread", "-fvisibility=hidden"])
}

/// Makes a folder that `LD_LIBRARY_PATH` can name: the driver of rehearsals in the place of NVIDIA's, its management library, a
/// library of products, and the kernels of `sources` (name, whole text, kernels).
#[allow(dead_code)]
pub fn rehearsal(folder: &Path, sources: &[(&str, String, Vec<&str>)]) -> Result<(), Unmade> {
    let absent = |error: std::io::Error| Unmade::Absent(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(absent)?;
    let place = |made: PathBuf, name: &str| {
        let at = folder.join(name);
        let _ = std::fs::remove_file(&at);
        std::fs::copy(made, at).map(|_| ()).map_err(absent)
    };
    place(driver()?, "libcuda.so.1")?;
    // The loader is asked for this name first; one file under two names is one library.
    let also = folder.join("libcuda.so");
    let _ = std::fs::remove_file(&also);
    #[cfg(unix)]
    std::os::unix::fs::symlink("libcuda.so.1", also).map_err(absent)?;
    let management = [("nvml.cpp", include_str!("driver/nvml.cpp"))];
    place(build("nvml", &management, &["-O1", "-Wall", "-Wextra"])?, "libnvidia-ml.so.1")?;
    let products = [("products.cpp", include_str!("driver/products.cpp")), ("cublas.h", include_str!("cublas.cpp"))];
    place(build("products", &products, &["-O2"])?, "libcublas.so.13")?;
    for (name, whole, names) in sources {
        place(kernels(name, whole, names)?, &format!("{name}.so"))?;
    }
    Ok(())
}
