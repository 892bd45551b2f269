//! The Python package: it installs, its types are checked, and its tests run with PyTorch and JAX.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use xtask::venv::{once, pip};
use xtask::{cargo_path, root, run};

/// Packages that the tests use besides PyTorch, which `peers/torch/setup.py` installs.
const PACKAGES: [&str; 9] =
    ["cloudpickle", "jax==0.10.2", "maturin>=1.9,<2", "mypy", "pandas", "ipython", "pyright", "pytest", "pytest-xdist"];

/// The Triton version that this PyTorch requires; its interpreter needs no GPU.
const TRITON: &str = "triton==3.9.*";

/// A Python with PyTorch, Triton and JAX: the one in `$ELLWAND_PYTHON`, or one in `target/peers/torch`, created once.
fn python() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_PYTHON") {
        return Ok(PathBuf::from(given));
    }
    let setup = root()?.join("peers/torch/setup.py");
    let packages = [&PACKAGES[..], &[TRITON]].concat();
    once(&root()?.join("target/peers/torch"), &packages, "with PyTorch about 1.5 GB", |python| {
        run(Command::new("python3").arg(setup))?;
        run(pip(python).args(&packages))
    })
    .context("PyTorch, Triton and JAX are unavailable; set ELLWAND_PYTHON to a Python that has them")
}

/// Largest wheel that users should have to download, in bytes.
const WHEEL_BYTES: u64 = 10_000_000;

/// Checks types, builds the wheel, and tests it in two virtual environments: with NumPy alone and with the frameworks.
pub(crate) fn check() -> Result<()> {
    let (python, package) = (python()?, root()?.join("python"));
    let tool = |name: &str| {
        let mut tool = Command::new(&python);
        tool.args(["-m", name]).current_dir(&package).env("PYTHONDONTWRITEBYTECODE", "1");
        tool
    };
    run(tool("mypy").arg("--no-incremental"))?;
    run(tool("pyright").args(["--warnings", "--pythonpath"]).arg(&python))?;
    let wheel = wheel(&python)?;
    let passed = alone(&python, &wheel)?;
    run(pip(&python).args(["--force-reinstall", "--no-deps"]).arg(&wheel))?;
    // The tests without a framework have passed at this point; the rest takes minutes.
    run(tests(&python)?.args(passed.iter().flat_map(|test| ["--deselect", test])))
}

/// Runs the tests on the installed package: `-P` keeps the folder next to them off the path.
fn tests(python: &Path) -> Result<Command> {
    let mut tests = Command::new(python);
    tests
        // As many processes as processors: frameworks import and compile on one thread.
        .args(["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", "tests"])
        .current_dir(root()?.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(tests)
}

/// The wheel that a user gets, for both environments, built as it is released. The sdist, which must contain everything that a
/// build needs, is another folder and would compile every crate again, so it is checked but not linked.
fn wheel(python: &Path) -> Result<PathBuf> {
    let home = root()?.join("target/python");
    let (dist, fresh, sdist) = (home.join("dist"), home.join("fresh"), home.join("sdist"));
    for old in [&dist, &fresh] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
        std::fs::create_dir_all(old)?;
    }
    let maturin = |words: &[&str]| {
        let mut maturin = Command::new(python);
        maturin.args(["-m", "maturin"]).args(words).arg("-o").arg(&dist).current_dir(root()?.join("python"));
        maturin.env("CARGO_TARGET_DIR", target()?);
        run(&mut maturin)
    };
    maturin(&["sdist"])?;
    let archive = only(&dist, "tar.gz")?;
    run(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(&archive).arg("-C").arg(&fresh))?;
    mirror(&fresh, &sdist)?;
    let mut whole = Command::new(cargo_path());
    whole.args(["check", "-p", "ellwand-python"]).current_dir(&sdist).env("CARGO_TARGET_DIR", target()?);
    run(&mut whole).context("the sdist lacks files that a build needs")?;
    // The compiler does not notice a missing Python file.
    let listed = Command::new("git").args(["ls-files", "ellwand"]).current_dir(root()?.join("python")).output()?;
    anyhow::ensure!(listed.status.success() && !listed.stdout.is_empty(), "git lists no file of the package");
    for file in String::from_utf8(listed.stdout)?.lines() {
        anyhow::ensure!(sdist.join(file).exists(), "the sdist lacks {file}");
    }
    maturin(&["build", "--profile", "dist", "--compression-level", "9"])?;
    let wheel = only(&dist, "whl")?;
    let bytes = wheel.metadata()?.len();
    println!("wheel: {:.1} MB", bytes as f64 / 1e6);
    anyhow::ensure!(
        bytes <= WHEEL_BYTES,
        "{} has {bytes} bytes; expected at most {WHEEL_BYTES}: `unzip -v` lists the sizes",
        wheel.display()
    );
    Ok(wheel)
}

/// The folder where Cargo builds: dependencies are built there already.
fn target() -> Result<PathBuf> {
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from))
}

/// The only file in `folder` whose name ends with `end`.
fn only(folder: &Path, end: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => anyhow::bail!("{} files *{end} in {}; expected one", found.len(), folder.display()),
    }
}

/// Makes `to` equal to `from` but leaves equal files alone: Cargo rebuilds files newer than its last build, and all
/// files of an archive have one old date.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(to)? {
        let old = entry?.path();
        let new = from.join(old.file_name().unwrap_or_default());
        if old.is_dir() && !new.is_dir() {
            std::fs::remove_dir_all(&old)?;
        } else if old.is_file() && !new.is_file() {
            std::fs::remove_file(&old)?;
        }
    }
    for entry in std::fs::read_dir(from)? {
        let new = entry?.path();
        let old = to.join(new.file_name().unwrap_or_default());
        if new.is_dir() {
            mirror(&new, &old)?;
        } else {
            let bytes = std::fs::read(&new)?;
            if std::fs::read(&old).ok().as_ref() != Some(&bytes) {
                std::fs::write(&old, bytes)?;
            }
        }
    }
    Ok(())
}

/// Installs the wheel in a fresh environment with only NumPy: it must import, compute and have its command, and tests that need
/// a framework must be skipped with its name. Returns the tests that passed.
fn alone(python: &Path, wheel: &Path) -> Result<Vec<String>> {
    let home = root()?.join("target/python/alone");
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&home))?;
    let python = home.join("bin/python");
    run(pip(&python).arg(wheel).args(["pytest", "pytest-xdist"]))?;
    let kernel =
        "import ellwand, numpy; from ellwand import nn; assert abs(nn.gelu(numpy.ones(3, 'f'))[0] - 0.8413447) < 1e-6";
    run(Command::new(&python).args(["-P", "-c", kernel]))?;
    let words =
        ["run", "gelu", "--size", "tiny", "--effort", "quick", "--no-ceilings", "--no-plot", "--overwrite", "-o"];
    run(Command::new(home.join("bin/ellwand")).args(words).arg(home.join("out")))?;
    let done = tests(&python)?.arg("-rfEsp").output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    let (passed, rest): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("PASSED "));
    println!("{}\n{}", rest.join("\n"), String::from_utf8_lossy(&done.stderr));
    anyhow::ensure!(done.status.success(), "the tests fail with only NumPy");
    for why in ["PyTorch is not installed", "JAX is not installed"] {
        anyhow::ensure!(said.contains(why), "no skipped test says '{why}'");
    }
    Ok(passed.iter().filter_map(|line| line.strip_prefix("PASSED ")).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn a_mirror_is_equal_and_leaves_equal_files_alone() {
        let home = std::env::temp_dir().join(format!("ellwand-mirror-{}", std::process::id()));
        let (from, to) = (home.join("from"), home.join("to"));
        for (folder, files) in
            [(&from, ["same=1", "changed=new", "only/new=2"]), (&to, ["same=1", "changed=old", "gone/x=3"])]
        {
            for (name, text) in files.iter().map(|file| file.split_once('=').unwrap()) {
                let file = folder.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
        }
        let date = || fs::metadata(to.join("same")).unwrap().modified().unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::open(to.join("same")).unwrap().set_modified(old).unwrap();
        super::mirror(&from, &to).unwrap();
        assert_eq!(date(), old);
        assert_eq!(fs::read_to_string(to.join("changed")).unwrap(), "new");
        assert_eq!(fs::read_to_string(to.join("only/new")).unwrap(), "2");
        assert!(!to.join("gone").exists());
        fs::remove_dir_all(&home).unwrap();
    }
}
