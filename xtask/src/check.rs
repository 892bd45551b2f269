//! `check`: runs every step, each a command, and then reports all failures together.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use xtask::{cargo_path, root};

use crate::{inlined, python, readme, services, tidy, weights};

/// A proof that needs a tool besides Rust: its name and what runs it. `xtask help` explains each of them.
type Proof = (&'static str, fn() -> Result<()>);

const PROOFS: [Proof; 12] = [
    ("cuda", || gpu(&["cuda"])),
    ("triton", || gpu(&["triton"])),
    ("emulation", emulation),
    ("races", || needs_compiler().and_then(|()| emulated("races"))),
    ("vulkan", vulkan),
    ("slurm", || cargo(&["test", "--quiet", "-p", "ellwand-cli", "--test", "slurm"], &[("ELLWAND_REQUIRE", "slurm")])),
    ("miri", miri),
    ("address", || address(&PACKAGES_WITH_KERNELS)),
    ("python", python::check),
    ("postgres", postgres),
    ("services", || services::check(&["-p", "ellwand-trace"])),
    ("loom", loom),
];

/// Splits names of proofs, separated by commas.
pub(crate) fn proofs(names: &str) -> Result<Vec<&str>> {
    let known = PROOFS.map(|(name, _)| name);
    match names.split(',').find(|name| !known.contains(name)) {
        Some(name) => bail!("'{name}' is not a proof; expected one of {}", known.join(", ")),
        None => Ok(names.split(',').collect()),
    }
}

fn emulation() -> Result<()> {
    needs_compiler()?;
    emulated("emulation")?;
    let emulator = ["test", "--quiet", "-p", "ellwand-gpu-lab", "--lib", "--test", "kernels"];
    cargo(&emulator, &[("ELLWAND_REQUIRE", "emulation")])?;
    // Runs the program on the emulated driver.
    let program = ["test", "--quiet", "-p", "ellwand-cli", "--test", "rehearsal"];
    cargo(&program, &[("ELLWAND_REQUIRE", "emulation"), ("ELLWAND_CUDA_LIBS", &nvrtc()?)])
}

fn vulkan() -> Result<()> {
    let with = vulkan_packages();
    let required = [("ELLWAND_REQUIRE", "vulkan")];
    clippy_with("vulkan")?;
    let kernels = ["--lib", "--test", "calibration", "--test", "kernels", "--", "wgpu", "tests::cuda", "shader"];
    cargo(&[&["test", "--quiet"], &with[..], &kernels].concat(), &required)?;
    let program = ["test", "--quiet", "-p", "ellwand-cli", "--features", "vulkan"];
    cargo(&[&program[..], &["--test", "devices", "--test", "exhausted"]].concat(), &required)
}

fn postgres() -> Result<()> {
    clippy_with("postgres")?;
    let tests = ["test", "--quiet", "-p", "ellwand-history", "--features", "postgres"];
    cargo(&[&tests[..], &["--lib", "--test", "postgres"]].concat(), &[("ELLWAND_REQUIRE", "postgres")])
}

fn loom() -> Result<()> {
    // A separate folder: the flag would rebuild everything here, and rebuild it again afterwards.
    let tests =
        ["test", "--quiet", "-p", "ellwand-profile", "--lib", "--release", "--target-dir", "target/loom", "loom_"];
    cargo(&tests, &[("RUSTFLAGS", "--cfg loom")])
}

/// Runs the `unsafe` code that Miri supports, that is, without vector instructions and system calls unknown to Miri.
/// Floats are deterministic, so tests of their laws pass.
fn miri() -> Result<()> {
    let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-deterministic-floats";
    for (package, tests) in MIRI {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo", "miri", "test", "--quiet", "-p", package, "--lib", "--"]).args(*tests);
        // Variables that select this program's toolchain.
        command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        let status = command
            .current_dir(root()?)
            .env("MIRIFLAGS", flags)
            .env("PROPTEST_CASES", "2")
            // Snapshots would start a process to find it, which Miri cannot do.
            .env("INSTA_WORKSPACE_ROOT", root()?)
            .status()
            .context("Miri needs rustup")?;
        if !status.success() {
            bail!(
                "Miri on {package} ended with {status}; it needs `rustup component add miri rust-src --toolchain nightly`"
            );
        }
    }
    Ok(())
}

/// Packages to run under Miri, each with the tests to select.
const MIRI: &[(&str, &[&str])] = &[
    ("ellwand-simd", &["pool::team", "pool::slices", "buffer"]),
    ("ellwand-profile", &["heap", "names", "node", "owned", "pool", "untangle"]),
    ("ellwand-stats", &["blocks::tests::a_", "blocks::tests::the_interval", "describe::tests::quantiles", "ebh"]),
];

/// Runs the unit tests of the packages in [`MIRI`] and of `more` with AddressSanitizer, including vector instructions. Leaks are
/// ignored: the recorder keeps its pages forever.
fn address(more: &[&str]) -> Result<()> {
    let packages: Vec<&str> = MIRI.iter().flat_map(|(package, _)| ["-p", package]).collect();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let run = ["test", "--quiet", "--lib", "--target", &target, "--target-dir", "target/address"];
    // The flag is not stable yet; the sanitizer itself comes with the stable toolchain.
    // A test requests a block that no system can provide.
    let options = "detect_leaks=0:allocator_may_return_null=1";
    let env = [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address"), ("ASAN_OPTIONS", options)];
    cargo(&[&run[..], &packages, more].concat(), &env)
}

/// The crates with GPU kernels, as arguments of cargo.
const PACKAGES_WITH_KERNELS: [&str; 12] = [
    "-p",
    "ellwand-gpu",
    "-p",
    "ellwand-lattice",
    "-p",
    "ellwand-gemm",
    "-p",
    "ellwand-layers",
    "-p",
    "ellwand-attention",
    "-p",
    "ellwand-kde",
];

const POSTGRES: &str = "ellwand-history/postgres,ellwand-cli/postgres";

const VULKAN: &str = "ellwand-gpu/vulkan,ellwand-gpu-lab/vulkan,ellwand-lattice/vulkan,ellwand-gemm/vulkan,ellwand-layers/vulkan,ellwand-attention/vulkan,ellwand-kde/vulkan,ellwand-cli/vulkan";

fn vulkan_packages() -> Vec<&'static str> {
    let program = ["-p", "ellwand-gpu-lab", "-p", "ellwand-cli", "--features", VULKAN];
    [&PACKAGES_WITH_KERNELS[..], &program].concat()
}

/// Clippy on the packages whose code depends on the features of this proof.
fn clippy_with(proof: &str) -> Result<()> {
    let packages = ["-p", "ellwand-gpu-lab", "-p", "ellwand-history", "-p", "ellwand-cli"];
    let packages = [&PACKAGES_WITH_KERNELS[..], &packages].concat();
    let deny = ["--all-targets", "--", "-D", "warnings"];
    cargo(&[&["clippy"], &packages[..], &features(&[proof]), &deny].concat(), &[])
}

/// Runs every CUDA kernel on the emulator; `how` is the value of `ELLWAND_REQUIRE`.
fn emulated(how: &str) -> Result<()> {
    let required = [("ELLWAND_REQUIRE", how)];
    for tests in [&["--lib", "--", "cuda", "cublas"][..], &["--test", "calibration"]] {
        cargo(&[&["test", "--quiet"], &PACKAGES_WITH_KERNELS[..], tests].concat(), &required)?;
    }
    Ok(())
}

/// The folder of NVRTC: the emulated driver compiles kernels for Hopper with it.
fn nvrtc() -> Result<String> {
    let said = Command::new(cargo_path()).args(GPU).arg("libraries").current_dir(root()?).output()?;
    if !said.status.success() {
        bail!("{}", String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(String::from_utf8(said.stdout)?.trim().to_string())
}

const GPU: [&str; 5] = ["run", "--quiet", "-p", "ellwand-gpu-tasks", "--"];

/// A GPU task. Its program is separate.
pub(crate) fn gpu(task: &[&str]) -> Result<()> {
    cargo(&[&GPU[..], task].concat(), &[])
}

fn needs_compiler() -> Result<()> {
    if !["g++", "c++", "clang++"].into_iter().any(answers) {
        bail!("the emulation needs a C++ compiler: g++, c++ or clang++; none of them was found");
    }
    Ok(())
}

/// Runs only these proofs.
pub(crate) fn only(asked: &[&str]) -> Result<()> {
    let all = asked.iter().filter_map(|name| PROOFS.into_iter().find(|(known, _)| known == name));
    all.into_iter().try_for_each(|(_, prove)| prove())
}

/// Runs every step, and the given proofs.
pub(crate) fn check(with_readme: bool, asked: &[&str]) -> Result<()> {
    let mut failed = Vec::new();
    let mut step = |name: &str, run: &mut dyn FnMut() -> Result<()>| {
        println!("\n== {name}");
        let start = Instant::now();
        match run() {
            Ok(()) => println!("== {name}: ok, {:.0} s", start.elapsed().as_secs_f64()),
            Err(error) => {
                println!("== {name}: FAILED: {error:#}");
                failed.push(name.to_string());
            }
        }
    };
    step("format", &mut || cargo(&["fmt", "--all", "--check"], &[]));
    step("tidy", &mut tidy::tidy);
    // With the features of the tests. Without them only three stub functions differ, which README's commands compile.
    let clippy =
        [&["clippy", "--workspace", "--all-targets"][..], &features(asked), &["--", "-D", "warnings"]].concat();
    step("clippy", &mut || cargo(&clippy, &[]));
    step("weights of a real model", &mut real_weights);
    // Before the tests, so that the summary of the test runner is printed last.
    let doc_tests = [&["test", "--workspace", "--doc", "--quiet"][..], &features(asked)].concat();
    step("doc tests", &mut || cargo(&doc_tests, &[]));
    step("tests", &mut || tests(asked));
    let docs = [&["doc", "--workspace", "--no-deps", "--document-private-items"][..], &features(asked)].concat();
    step("docs", &mut || cargo(&docs, &[("RUSTDOCFLAGS", "-D warnings")]));
    step("licences and advisories", &mut deny);
    for (name, prove) in PROOFS {
        if !asked.contains(&name) {
            println!("\n== {name}: not requested (`cargo xtask check --with {name}`)");
            continue;
        }
        match name {
            _ if BY_TESTS.contains(&name) => println!("\n== {name}: among the tests"),
            // The packages and features of the tests, which are built.
            "cuda" => step(name, &mut || gpu(&[&["cuda"][..], &features(asked)].concat())),
            "address" => step(name, &mut || address(&[])),
            "services" => {
                step(name, &mut || services::check(&[&["--workspace"][..], &features(asked)].concat()));
            }
            _ => step(name, &mut || prove()),
        }
    }
    if with_readme {
        step("commands of README", &mut readme::readme);
        // These commands have built the program for release.
        step("vector instructions", &mut inlined::inlined);
    }
    if failed.is_empty() {
        println!("\nall checks passed");
        return Ok(());
    }
    bail!("failed: {}", failed.join(", "))
}

/// Tests on real data need weights; without them they print that they were skipped.
fn real_weights() -> Result<()> {
    if let Err(error) = weights::weights() {
        println!("skipped: {error:#}; the tests on real weights will print that they were skipped");
    }
    Ok(())
}

/// Proofs that the single run of all tests gives if requested.
const BY_TESTS: [&str; 5] = ["emulation", "races", "vulkan", "slurm", "postgres"];

/// Runs all tests, with nextest if installed. Proofs that tests can give are given here, so nothing is built twice and no test
/// runs twice: a requested proof fails if a test lacks what it needs.
fn tests(asked: &[&str]) -> Result<()> {
    let mut env = Vec::new();
    let libraries;
    if ["emulation", "races"].iter().any(|proof| asked.contains(proof)) {
        needs_compiler()?;
    }
    if asked.contains(&"emulation") {
        libraries = nvrtc()?;
        env.push(("ELLWAND_CUDA_LIBS", libraries.as_str()));
    }
    let required = BY_TESTS.into_iter().filter(|name| asked.contains(name)).collect::<Vec<_>>().join(",");
    env.push(("ELLWAND_REQUIRE", &required));
    if installed("nextest") {
        // One more than processors: tests wait for limits, signals and servers, which would otherwise leave a third of the machine idle.
        let threads = (std::thread::available_parallelism()?.get() + 1).to_string();
        let run = ["nextest", "run", "--workspace", "--no-fail-fast", "--test-threads", &threads];
        return cargo(&[&run[..], &features(asked)].concat(), &env);
    }
    println!(
        "cargo-nextest is not installed; the tests run one binary at a time (`cargo install cargo-nextest --locked` makes this faster)"
    );
    let each = ["test", "--workspace", "--lib", "--bins", "--tests", "--examples", "--no-fail-fast"];
    cargo(&[&each[..], &features(asked)].concat(), &env)
}

/// The features with which tests run, as arguments of cargo.
fn features(asked: &[&str]) -> Vec<&'static str> {
    let of = [("vulkan", VULKAN), ("postgres", POSTGRES)];
    of.into_iter()
        .filter(|(proof, _)| asked.contains(proof))
        .flat_map(|(_, features)| ["--features", features])
        .collect()
}

/// Checks licences, bans and sources with cargo-deny if installed.
fn deny() -> Result<()> {
    if installed("deny") {
        return cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"], &[]);
    }
    println!("skipped: cargo-deny is not installed (`cargo install cargo-deny --locked`)");
    Ok(())
}

/// True if a program runs.
pub(crate) fn answers(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success())
}

fn installed(subcommand: &str) -> bool {
    let asked = Command::new(cargo_path()).args([subcommand, "--version"]).output();
    asked.is_ok_and(|output| output.status.success())
}

pub(crate) fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new(cargo_path());
    // The check compares snapshots and never writes them.
    command.args(args).current_dir(root()?).env("INSTA_UPDATE", "no").envs(env.iter().copied());
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    bail!("cargo {} ended with {status}", args.join(" "))
}
