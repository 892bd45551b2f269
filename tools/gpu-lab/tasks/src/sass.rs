//! Instructions that a kernel's machine code must contain: without them it would be correct but slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cuda;

/// The disassembler, as a Python package, in a version that knows all target architectures.
const DISASSEMBLER: &str = "nvidia-cuda-nvdisasm==13.2.51";

/// Source, architecture, and required instructions. Hopper: warpgroup products, tile copies in both directions, results
/// stored through shared memory, registers reallocated between warpgroups. Other architectures: tensor-core products,
/// operands from shared memory, asynchronous copies.
const WANTED: [(&str, &str, &[&str]); 12] = [
    (
        "hopper",
        "sm_90a",
        &[
            "HGMMA.64x128x16.F32.BF16",
            "HGMMA.64x64x16.F32.BF16",
            "UTMALDG.3D",
            "UTMASTG.3D",
            "STSM.16.M88.4",
            "USETMAXREG.DEALLOC",
            "USETMAXREG.TRY_ALLOC",
        ],
    ),
    ("bf16", "sm_80", PORTABLE),
    ("bf16", "sm_90a", PORTABLE),
    ("bf16", "sm_100a", PORTABLE),
    (
        "matmul_hopper",
        "sm_90a",
        &[
            "HGMMA.64x176x16.F32.BF16",
            "HGMMA.64x192x16.F32.BF16",
            "WARPGROUP.DEPBAR.LE gsb0, 0x1",
            "UTMALDG.3D",
            "STSM.16.M88.4",
            "USETMAXREG.DEALLOC",
            "USETMAXREG.TRY_ALLOC",
        ],
    ),
    ("matmul", "sm_80", PORTABLE),
    ("matmul", "sm_90a", PORTABLE),
    ("matmul", "sm_100a", PORTABLE),
    ("products_hopper", "sm_90a", &["HGMMA.64x128x16.F32.BF16", "WARPGROUP.DEPBAR.LE gsb0, 0x1"]),
    ("products", "sm_80", &["HMMA.16816.F32.BF16"]),
    ("products", "sm_90a", &["HMMA.16816.F32.BF16"]),
    ("products", "sm_100a", &["HMMA.16816.F32.BF16"]),
];
const PORTABLE: &[&str] = &["HMMA.16816.F32.BF16", "LDSM.16.M88.4", "LDSM.16.MT88.4", "LDGSTS"];

fn disassembler() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_NVDISASM") {
        return Ok(PathBuf::from(given));
    }
    let folder = cuda::package(DISASSEMBLER, "bin", "about 5 MB")
        .context("the disassembler is unavailable; set ELLWAND_NVDISASM to the program nvdisasm")?;
    Ok(folder.join("nvdisasm"))
}

/// The newest machine code in `folder` of a source for an architecture.
fn newest(folder: &Path, source: &str, arch: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{source}-{arch}-")) && name.ends_with(".cubin") {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    found.pop().map(|(_, path)| path).with_context(|| format!("no machine code of {source} for {arch} was built"))
}

/// The entries of `wanted` that no line of the listing contains.
fn missing<'a>(listing: &str, wanted: &[&'a str]) -> Vec<&'a str> {
    wanted.iter().copied().filter(|one| !listing.lines().any(|line| line.contains(one))).collect()
}

/// Exponentials per thread between two waits: a tile of 64 x 128 over a warpgroup's 128 threads.
const WEIGHTS: usize = 64;

/// True if, in every loop of Hopper's attention, exponentials overlap with a product: all of a tile's come between the
/// wait that leaves one product in flight and the wait that leaves zero. The assembler may move that wait forward
/// without changing the result.
fn overlapped(listing: &str) -> bool {
    let (mut loops, mut since) = (0, None);
    for line in listing.lines() {
        if line.contains("WARPGROUP.DEPBAR.LE gsb0, 0x1") {
            since = Some(0);
            loops += 1;
        } else if line.contains("WARPGROUP.DEPBAR.LE gsb0, 0x0") {
            if since.take().is_some_and(|weights| weights < WEIGHTS) {
                return false;
            }
        } else if line.contains("MUFU.EX2") {
            since = since.map(|weights: usize| weights + 1);
        }
    }
    loops == 2
}

/// Fails if machine code in `folder` lacks a required instruction or the overlap.
pub(crate) fn check(folder: &Path) -> Result<()> {
    let program = disassembler()?;
    for (source, arch, wanted) in WANTED {
        let code = newest(folder, source, arch)?;
        let made =
            Command::new(&program).arg("-c").arg(&code).output().with_context(|| program.display().to_string())?;
        if !made.status.success() {
            bail!(
                "{} cannot read {}: {}",
                program.display(),
                code.display(),
                String::from_utf8_lossy(&made.stderr).trim()
            );
        }
        let listing = String::from_utf8_lossy(&made.stdout);
        if source == "hopper" && !overlapped(&listing) {
            bail!("{source} for {arch} waits for sums before it has computed weights");
        }
        let lost = missing(&listing, wanted);
        if !lost.is_empty() {
            bail!("the machine code of {source} for {arch} contains no {}", lost.join(", no "));
        }
    }
    println!("the machine code of {} kernels uses tensor cores and copies", WANTED.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{missing, overlapped};

    #[test]
    fn a_wait_moved_before_the_weights_is_found() {
        let weights = "MUFU.EX2 R1, R1 ;\n".repeat(64);
        let [some, none] = ["0x1", "0x0"].map(|left| format!("WARPGROUP.DEPBAR.LE gsb0, {left} ;\n"));
        let right = format!("{weights}{none}{some}{weights}{none}");
        assert!(overlapped(&right.repeat(2)));
        assert!(!overlapped(&right));
        assert!(!overlapped(&format!("{right}{some}{none}{weights}")));
    }

    #[test]
    fn instructions_missing_from_a_listing_are_named() {
        let listing = "/*0000*/ HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT ;\n/*0010*/ EXIT ;\n";
        assert!(missing(listing, &["HGMMA.64x128x16"]).is_empty());
        assert_eq!(missing(listing, &["UTMALDG", "EXIT", "HMMA"]), ["UTMALDG", "HMMA"]);
    }
}
