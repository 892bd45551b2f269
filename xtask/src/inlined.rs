//! Finds vector instructions that the compiler left as calls. A kernel is compiled for its instruction set only if everything between
//! its instructions and the function that enables them is inlined. The compiler does not guarantee this for closures. A kernel with
//! calls takes 50 times as long but gives the same answers, so no other test detects it.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use xtask::{cargo_path, root};

/// The crates with vector kernels.
const KERNELS: [&str; 7] = [
    "ellwand_simd",
    "ellwand_calibration",
    "ellwand_lattice",
    "ellwand_gemm",
    "ellwand_layers",
    "ellwand_attention",
    "ellwand_kde",
];
/// The standard library's module of vector instructions, as in mangled names.
const MODULE: &[u8] = b"9core_arch";

/// Builds the program for release and looks for instructions among the symbols of its kernels.
pub(crate) fn inlined() -> Result<()> {
    let build = ["build", "--release", "-p", "ellwand-cli", "--message-format", "json-render-diagnostics"];
    let output = Command::new(cargo_path()).args(build).current_dir(root()?).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("cargo {} ended with {}", build.join(" "), output.status);
    }
    let (mut seen, mut calls) = (0, Vec::new());
    for message in Message::parse_stream(&output.stdout[..]) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let name = artifact.target.name.replace('-', "_");
        let library = artifact.filenames.iter().find(|file| file.extension() == Some("rlib"));
        if let (true, Some(library)) = (KERNELS.contains(&name.as_str()), library) {
            seen += 1;
            let symbols = std::fs::read(library).with_context(|| library.to_string())?;
            calls.extend(instructions(&symbols).into_iter().map(|instruction| format!("{name}: {instruction}")));
        }
    }
    if seen != KERNELS.len() {
        bail!("{seen} of {} crates with kernels were built; expected all", KERNELS.len());
    }
    if !calls.is_empty() {
        bail!(
            "these instructions are calls, not inlined into their kernels; expected loops and functions marked \
             #[inline(always)] there, no closures that take or return vectors:\n{}",
            calls.join("\n")
        );
    }
    println!("every vector instruction of {} crates is inlined", KERNELS.len());
    Ok(())
}

/// The instructions among mangled names (`_ZN4core9core_arch3x867avx512f13_mm512_add_ps17h..`).
fn instructions(bytes: &[u8]) -> BTreeSet<String> {
    let found = bytes.windows(MODULE.len()).enumerate().filter(|(_, window)| *window == MODULE);
    let rest = found.filter_map(|(at, _)| bytes.get(at + MODULE.len()..));
    rest.filter_map(|rest| parts(rest).into_iter().find(|part| part.starts_with("_mm"))).collect()
}

/// The parts of a mangled path: each is its length in digits, then the name.
fn parts(mut mangled: &[u8]) -> Vec<String> {
    let mut parts = Vec::new();
    loop {
        let digits = mangled.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = std::str::from_utf8(&mangled[..digits]).ok().and_then(|digits| digits.parse::<usize>().ok());
        let Some(part) = length.and_then(|length| mangled.get(digits..digits + length)) else { return parts };
        parts.push(String::from_utf8_lossy(part).into_owned());
        mangled = &mangled[digits + part.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_found_among_symbols() {
        let symbols = b"\0_ZN4core9core_arch3x867avx512f13_mm512_add_ps17h0123456789abcdefE\0\
            _ZN14ellwand_layers4norm17h0123456789abcdefE\0\
            _ZN4core9core_arch3x863avx14_mm256_set1_ps17h0123456789abcdefE\0_ZN4core9core_arch9";
        let found: Vec<String> = instructions(symbols).into_iter().collect();
        assert_eq!(found, ["_mm256_set1_ps", "_mm512_add_ps"]);
        assert!(instructions(b"9core_arc").is_empty());
    }
}
