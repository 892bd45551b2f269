//! Finds the CUDA libraries.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::GpuError;

/// Folders to search, in order: `$ELLWAND_CUDA_LIBS`, `$CUDA_HOME`, the toolkit's usual locations, and NVIDIA's Python
/// packages. The system's loader is tried before all of them.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(given) = std::env::var_os("ELLWAND_CUDA_LIBS") {
        folders.extend(std::env::split_paths(&given));
    }
    if let Some(home) = std::env::var_os("CUDA_HOME") {
        folders.push(Path::new(&home).join("lib64"));
    }
    let mut toolkits: Vec<PathBuf> = std::fs::read_dir("/usr/local")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cuda")))
        .map(|path| path.join("lib64"))
        .collect();
    toolkits.sort();
    folders.extend(toolkits.into_iter().rev());
    folders
}

/// Asks Python for the folder of NVIDIA's packages; only if nothing else was found, since it starts a process.
fn python_folder() -> Option<PathBuf> {
    let ask = "import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], 'cu13', 'lib'))";
    let said = Command::new("python3").args(["-c", ask]).output().ok().filter(|said| said.status.success())?;
    let folder = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    folder.is_dir().then_some(folder)
}

/// The file in `folder` whose name is `stem` or begins with `stem.`; the shortest, so that an alternative build of
/// `libnvrtc.so.13` is not chosen.
fn library(folder: &Path, stem: &str) -> Option<PathBuf> {
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name == stem || name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.') && !rest.contains("alt"))
    };
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).collect();
    found.sort_by_key(|path| path.as_os_str().len());
    found.into_iter().next()
}

/// Loads NVRTC, so that cudarc then finds it by its plain name. Searches once per process.
///
/// # Errors
/// The folders that were searched.
pub(super) fn nvrtc() -> Result<(), GpuError> {
    static FOUND: OnceLock<Result<(), GpuError>> = OnceLock::new();
    FOUND.get_or_init(search).clone()
}

/// Path of cuBLAS, or its plain name if the system's loader finds it.
///
/// # Errors
/// The folders that were searched.
pub(super) fn cublas() -> Result<PathBuf, GpuError> {
    // Its dependency is in the same folder; once loaded, it is found by its plain name.
    let about = "NVIDIA's matrix library (cuBLAS, libcublas)";
    file("libcublas.so", about, &["libcublasLt.so"])
}

/// Path of CUPTI, or its plain name if the system's loader finds it.
///
/// # Errors
/// The folders that were searched.
pub(super) fn cupti() -> Result<PathBuf, GpuError> {
    file("libcupti.so", "NVIDIA's profiling library (CUPTI, libcupti)", &[])
}

fn file(stem: &str, about: &str, beneath: &[&str]) -> Result<PathBuf, GpuError> {
    for name in ["13", "12", ""].map(|version| format!("{stem}.{version}").trim_end_matches('.').to_string()) {
        // SAFETY: loads NVIDIA's library, which runs only NVIDIA's initialisers; the caller opens it again by its name.
        if let Ok(library) = unsafe { libloading::Library::new(&name) } {
            // Keep it loaded: it is hundreds of megabytes and is opened again at once.
            std::mem::forget(library);
            return Ok(PathBuf::from(name));
        }
    }
    let folder = holder(stem, about)?;
    for stem in beneath {
        if let Some(beneath) = library(&folder, stem) {
            load_for_good(&beneath)?;
        }
    }
    held(&folder, stem)
}

/// The first folder that holds the library of that stem.
fn holder(stem: &str, about: &str) -> Result<PathBuf, GpuError> {
    let tried = folders();
    let lies = |folder: &PathBuf| library(folder, stem).is_some();
    // The toolkit keeps CUPTI in a separate folder.
    let apart = tried.iter().filter_map(|folder| Some(folder.parent()?.join("extras/CUPTI/lib64")));
    let found = tried.iter().cloned().chain(apart).find(lies).or_else(|| python_folder().filter(lies));
    found.ok_or_else(|| {
        let tried: Vec<String> = tried.iter().map(|folder| folder.display().to_string()).collect();
        GpuError::Absent(format!(
            "{about} was not found: neither by the system's loader, nor in {}, nor among the packages of python3; set \
             ELLWAND_CUDA_LIBS to the folder that holds it",
            if tried.is_empty() { "/usr/local/cuda*/lib64".into() } else { tried.join(", ") }
        ))
    })
}

/// The library of that stem, which the folder must hold.
fn held(folder: &Path, stem: &str) -> Result<PathBuf, GpuError> {
    library(folder, stem).ok_or_else(|| GpuError::Absent(format!("{} holds no {stem}", folder.display())))
}

fn search() -> Result<(), GpuError> {
    // SAFETY: loads NVRTC, which runs only NVIDIA's initialisers.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return Ok(());
    }
    let folder = holder("libnvrtc.so", "the CUDA compiler library (libnvrtc)")?;
    // Load the built-in functions first: NVRTC loads them by plain name at its first compilation.
    for stem in ["libnvrtc-builtins.so", "libnvrtc.so"] {
        load_for_good(&held(&folder, stem)?)?;
    }
    // SAFETY: as above; glibc now resolves the plain name to the library that was loaded by path.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return Ok(());
    }
    Err(GpuError::Absent(format!("{} was loaded, but is not NVRTC of CUDA 12 or 13", folder.display())))
}

#[cfg(unix)]
fn load_for_good(path: &Path) -> Result<(), GpuError> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: a library of the CUDA toolkit; it runs only NVIDIA's initialisers.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    // Never unload it: others hold pointers into it.
    let absent = |error| GpuError::Absent(format!("{} cannot be loaded: {error}", path.display()));
    library.map(std::mem::forget).map_err(absent)
}

#[cfg(not(unix))]
fn load_for_good(path: &Path) -> Result<(), GpuError> {
    let problem = "cannot be loaded by its path on this system; add its folder to PATH";
    Err(GpuError::Absent(format!("{} {problem}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_by_its_stem_with_any_version() {
        let folder = std::env::temp_dir().join(format!("ellwand-find-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13", "libnvrtc.so.13.0.88", "libnvrtc.so.13", "x.so"]
        {
            std::fs::write(folder.join(name), b"").unwrap();
        }
        assert_eq!(library(&folder, "libnvrtc.so").unwrap(), folder.join("libnvrtc.so.13"));
        assert_eq!(library(&folder, "libnvrtc-builtins.so").unwrap(), folder.join("libnvrtc-builtins.so.13.0"));
        assert_eq!(library(&folder, "libcudart.so"), None);
        assert_eq!(library(&folder.join("nowhere"), "x.so"), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
