//! Proofs about the CUDA sources without a GPU: each compiles for every architecture, within its budget.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sass;
use xtask::venv::venv;
use xtask::{build, cache, root};

/// The compiler, as a Python package. Its version matches the drivers of the target machines: a driver rejects machine code of
/// a newer compiler.
const COMPILER: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Ampere, Hopper and Blackwell.
pub(crate) const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90a", "sm_100a"];

/// Reviewed resources of every kernel.
const GOLDEN: &str = "testdata/cuda/resources.csv";

/// Registers that a kernel may use beyond the table.
const SLACK: u32 = 4;

/// The folder with the compiler's libraries. Downloads them into the user's cache if they are missing.
pub(crate) fn libraries() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_CUDA_LIBS") {
        return Ok(PathBuf::from(given));
    }
    let found = package(COMPILER, "lib", "about 100 MB")
        .context("the CUDA compiler is unavailable; set ELLWAND_CUDA_LIBS to a folder with libnvrtc.so.13")?;
    if found.join("libnvrtc.so.13").exists() {
        return Ok(found);
    }
    bail!("{COMPILER} does not contain the expected libraries")
}

/// The folder `lib` or `bin` of an NVIDIA Python package, in the user's cache.
pub(crate) fn package(name: &str, folder: &str, size: &str) -> Result<PathBuf> {
    let environment = cache()?.join(name.replace("==", "-"));
    venv(&environment, &[name], &["--no-deps"], size)?;
    let versions = fs::read_dir(environment.join("lib"))?;
    let mut within =
        versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages/nvidia/cu13").join(folder)));
    within.find(|found| found.is_dir()).with_context(|| format!("{name} does not contain the expected folder {folder}"))
}

/// Compiles every source for `architectures` into `folder`. Returns the table of resources. If `options` has the features of
/// the tests, this runs the same compiler program that the tests have built.
pub(crate) fn compile(folder: &Path, architectures: &[&str], options: &[&str]) -> Result<String> {
    let driver = build(&[&["build", "--workspace", "--example", "cubins"], options].concat(), "cubins")?;
    let made = Command::new(driver)
        .arg(folder)
        .args(architectures)
        .current_dir(root()?)
        .env("ELLWAND_CUDA_LIBS", libraries()?)
        .output()?;
    if !made.status.success() {
        bail!("{}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(String::from_utf8(made.stdout)?)
}

/// Fails if a source does not compile, spills, or uses more registers than the table allows.
pub(crate) fn check(options: &[&str]) -> Result<()> {
    let folder = root()?.join("target/cubins");
    let now = compile(&folder, &ARCHITECTURES, options)?;
    sass::check(&folder)?;
    hold_against(GOLDEN, "cuda", &now)
}

/// Compares resources with the table in the file `golden`, or writes that file; `proof` names the proof in messages.
pub(crate) fn hold_against(golden: &str, proof: &str, now: &str) -> Result<()> {
    let place = root()?.join(golden);
    if std::env::var("ELLWAND_GOLDEN").is_ok_and(|value| value == "write") {
        fs::create_dir_all(place.parent().context("the table has a folder")?)?;
        fs::write(&place, now)?;
        println!("wrote {golden}");
        return Ok(());
    }
    let before = fs::read_to_string(&place).with_context(|| golden.to_string())?;
    let problems = compare(&before, now);
    if problems.is_empty() {
        println!(
            "{} kernels for {} compile, within the limits of the table",
            now.lines().count() - 1,
            ARCHITECTURES.join(", ")
        );
        return Ok(());
    }
    bail!(
        "{golden}: {}\nif this is intended: ELLWAND_GOLDEN=write cargo xtask check --only {proof}",
        problems.join("\n")
    )
}

/// Lists kernels that are worse than in the table, or missing from it.
fn compare(before: &str, now: &str) -> Vec<String> {
    let row = |line: &str| -> Option<(String, Vec<u32>)> {
        let cells: Vec<&str> = line.split(',').collect();
        let numbers = cells.get(3..)?.iter().map(|cell| cell.parse().ok()).collect::<Option<Vec<u32>>>()?;
        Some((cells[..3].join(" "), numbers))
    };
    let known: Vec<_> = before.lines().filter_map(row).collect();
    let mut problems = Vec::new();
    for (kernel, numbers) in now.lines().filter_map(row) {
        let [registers, stack, spills, ..] = numbers[..] else {
            problems.push(format!("{kernel}: a row of {} numbers", numbers.len()));
            continue;
        };
        let Some((_, old)) = known.iter().find(|(name, _)| *name == kernel) else {
            problems.push(format!("{kernel} is not in the table"));
            continue;
        };
        if registers > old[0] + SLACK {
            problems.push(format!("{kernel} needs {registers} registers, {} before", old[0]));
        }
        if stack > old[1] {
            problems.push(format!("{kernel} needs {stack} bytes of local memory, {} before", old[1]));
        }
        if spills > 0 {
            problems.push(format!("{kernel} spills {spills} bytes"));
        }
    }
    for (kernel, _) in known {
        if !now.lines().filter_map(row).any(|(name, _)| name == kernel) {
            problems.push(format!("{kernel} is in the table but is no longer built"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::compare;

    const TABLE: &str = "source,architecture,kernel,registers,stack_bytes,spill_bytes,shared_bytes\n\
                         a.cu,sm_80,f,32,0,0,0\na.cu,sm_80,g,40,16,0,256\n";

    #[test]
    fn the_same_table_fewer_registers_and_a_few_more_are_fine() {
        assert_eq!(compare(TABLE, TABLE), Vec::<String>::new());
        assert!(compare(TABLE, &TABLE.replace(",32,", ",36,").replace(",40,", ",20,")).is_empty());
    }

    #[test]
    fn more_registers_spills_and_added_or_removed_kernels_are_reported() {
        assert!(compare(TABLE, &TABLE.replace(",32,", ",37,"))[0].contains("f needs 37 registers, 32 before"));
        assert!(compare(TABLE, &TABLE.replace(",16,0,", ",16,8,"))[0].contains("g spills 8 bytes"));
        assert!(compare(TABLE, &TABLE.replace(",16,0,", ",24,0,"))[0].contains("24 bytes of local memory"));
        let renamed = compare(TABLE, &TABLE.replace(",f,", ",h,"));
        assert!(renamed[0].contains("h is not in") && renamed[1].contains("f is in"), "{renamed:?}");
    }
}
