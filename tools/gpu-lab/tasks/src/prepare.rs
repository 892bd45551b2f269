//! Packs a folder for a machine with a GPU but no Rust toolchain; its script first checks, then measures.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::cuda;
use xtask::{build, root, run};

/// Largest size of the folder in bytes.
const MAX_BYTES: u64 = 40_000_000;

/// The kernel tests: package, arguments of cargo, name of the target.
const TESTS: [(&str, &[&str], &str); 6] = [
    ("ellwand-gemm", &["--lib"], "ellwand_gemm"),
    ("ellwand-layers", &["--lib"], "ellwand_layers"),
    ("ellwand-attention", &["--lib"], "ellwand_attention"),
    ("ellwand-lattice", &["--lib"], "ellwand_lattice"),
    ("ellwand-kde", &["--lib"], "ellwand_kde"),
    ("ellwand-gpu", &["--test", "calibration"], "calibration"),
];

const SCRIPT: &str = include_str!("prepare/run.sh");

/// Default architectures to compile for: those of the GPU in use.
pub(crate) const HERE: &str = "sm_90a";

/// Writes `target/gpu`, with machine code for these architectures, separated by commas. For any other architecture, the
/// machine's NVRTC compiles the sources.
pub(crate) fn prepare(architectures: &str) -> Result<()> {
    let architectures: Vec<&str> = architectures.split(',').collect();
    if let Some(unknown) = architectures.iter().find(|name| !cuda::ARCHITECTURES.contains(name)) {
        bail!("'{unknown}' is not an architecture; expected {}, separated by commas", cuda::ARCHITECTURES.join(", "));
    }
    let folder = root()?.join("target/gpu");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("bin"))?;
    let program = build(&["build", "--release", "-p", "ellwand-cli"], "ellwand")?;
    fs::copy(&program, folder.join("bin/ellwand"))?;
    let pack = |program: &Path, name: String| -> Result<()> {
        let packed = folder.join("bin").join(name);
        fs::copy(program, &packed)?;
        // The script unpacks them on the target machine.
        run(Command::new("gzip").arg("-9").arg(&packed))
    };
    for (package, kind, name) in TESTS {
        let tests = build(&[&["test", "--release", "--no-run", "-p", package], kind].concat(), name)?;
        pack(&tests, format!("tests-{name}"))?;
    }
    let diagnosis = build(&["build", "--release", "-p", "ellwand-cli", "--example", "diagnosis"], "diagnosis")?;
    pack(&diagnosis, "diagnosis".into())?;
    fs::create_dir_all(folder.join("cubins"))?;
    // Without machine code, the other machine needs the compiler.
    match cuda::compile(&folder.join("cubins"), &architectures, &[]) {
        Ok(table) => println!("{} kernels compiled", table.lines().count() - 1),
        Err(error) => println!("no precompiled kernels: {error:#}"),
    }
    fs::copy(root()?.join("peers/gpu/run.py"), folder.join("peers.py"))?;
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    }
    let bytes = weight(&folder)?;
    if bytes > MAX_BYTES {
        bail!("{} has {bytes} bytes, more than {MAX_BYTES}; choose fewer architectures", folder.display());
    }
    println!("{} has {:.1} MB; copy it to the machine and start run.sh there", folder.display(), bytes as f64 / 1e6);
    Ok(())
}

fn weight(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { weight(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
