#!/usr/bin/env python3
"""Build cost of a user's program: Ellwand, Criterion and Divan with the same two functions; ellwand-profile and puffin.

    python3 peers/build.py [NAME ..]

For each program, in a folder in the system's temporary folder: processor seconds of a cold build (with all downloads done), debug
and release; the number of crates compiled; and the median processor seconds of five rebuilds after an edit of the user's file.
Needs cargo and a quiet machine; prints a Markdown table to stdout.
"""

import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
EDITS = 5

TWO_SORTS = """
fn stable(mut x: Vec<u64>) -> Vec<u64> { x.sort(); x }
fn unstable(mut x: Vec<u64>) -> Vec<u64> { x.sort_unstable(); x }
"""

ELLWAND = """
use ellwand::{Axis, rand::RngExt, suite};
fn main() {
    ellwand::main(
        suite("sort")
            .axis(Axis::int("n", "numbers", 0, 1 << 28, 10_000).sweep([100, 10_000]))
            .input(|case, rng| (0..case.usize("n")).map(|_| rng.random()).collect::<Vec<u64>>())
            .implementation_mut("stable", |x| *x = stable(std::mem::take(x)))
            .implementation_mut("unstable", |x| *x = unstable(std::mem::take(x))),
    )
}
"""

CRITERION = """
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
fn sorts(c: &mut Criterion) {
    let mut group = c.benchmark_group("sort");
    for n in [100_u64, 10_000] {
        let input: Vec<u64> = (0..n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for (name, sort) in [("stable", stable as fn(_) -> _), ("unstable", unstable)] {
            group.bench_with_input(BenchmarkId::new(name, n), &input, |b, x| {
                b.iter_batched(|| x.clone(), sort, BatchSize::SmallInput);
            });
        }
    }
}
criterion_group!(benches, sorts);
criterion_main!(benches);
"""

DIVAN = """
fn input(n: u64) -> Vec<u64> { (0..n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect() }
#[divan::bench(args = [100, 10_000])]
fn sort_stable(bencher: divan::Bencher, n: u64) { bencher.with_inputs(|| input(n)).bench_values(stable); }
#[divan::bench(args = [100, 10_000])]
fn sort_unstable(bencher: divan::Bencher, n: u64) { bencher.with_inputs(|| input(n)).bench_values(unstable); }
fn main() { divan::main(); }
"""

PROFILE = """
use ellwand_profile::{Options, get_profiler, span};
fn main() {
    get_profiler().start(Options::default()).unwrap();
    let sorted = { let _span = span!("sort"); (stable(vec![2, 1]), unstable(vec![2, 1])) };
    println!("{sorted:?} {}", get_profiler().finish().summary());
}
"""

PUFFIN = """
fn main() {
    puffin::set_scopes_on(true);
    puffin::GlobalProfiler::lock().new_frame();
    puffin::profile_scope!("sort");
    println!("{:?}", (stable(vec![2, 1]), unstable(vec![2, 1])));
}
"""

# The lines of docs/guide.md, "Your own code", for faster release builds.
LIGHT = """
[profile.release.package]
ellwand = { opt-level = 0 }
ellwand-report = { opt-level = 0 }
clap_builder = { opt-level = 0 }
ellwand-core = { opt-level = 1 }
ellwand-bench = { opt-level = "s" }
"""

PROGRAMS = {
    "ellwand": (f'ellwand = {{ path = "{HERE}/crates/ellwand" }}', ELLWAND),
    "ellwand-light": (f'ellwand = {{ path = "{HERE}/crates/ellwand" }}\n{LIGHT}', ELLWAND),
    "criterion": ('criterion = "0.8"', CRITERION),
    "divan": ('divan = "0.1"', DIVAN),
    "ellwand-profile": (f'ellwand-profile = {{ path = "{HERE}/crates/profile" }}', PROFILE),
    "puffin": ('puffin = "0.19"', PUFFIN),
}


def cargo(folder, *args):
    """Processor seconds of the command and everything it started, and its stderr."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(["cargo", *args], cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        sys.exit(f"cargo {' '.join(args)} failed in {folder}\n{ran.stderr}")
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), ran.stderr


def measured(name, root):
    dependency, source = PROGRAMS[name]
    folder = root / name
    (folder / "src").mkdir(parents=True)
    manifest = f'[package]\nname = "user"\nversion = "0.1.0"\nedition = "2024"\n\n[dependencies]\n{dependency}\n\n[workspace]\n'
    (folder / "Cargo.toml").write_text(manifest)
    main = folder / "src" / "main.rs"
    main.write_text(TWO_SORTS + source)
    cargo(folder, "fetch")
    cells = []
    for profile in ([], ["--release"]):
        cold, printed = cargo(folder, "build", *profile)
        crates = len(set(re.findall(r"^ +Compiling (\S+ v\S+)", printed, re.M)) - {"user v0.1.0"})
        edits = []
        for edit in range(EDITS):
            main.write_text(TWO_SORTS + source + f"#[allow(dead_code)]\nfn edited() -> u64 {{ {edit} }}\n")
            edits.append(cargo(folder, "build", *profile)[0])
        cells.append((cold, statistics.median(edits), crates))
    (debug, after_debug, crates), (release, after_release, _) = cells
    return f"| {name} | {crates} | {debug:.1f} | {release:.1f} | {after_debug:.2f} | {after_release:.2f} |"


def main():
    names = sys.argv[1:] or list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; expected {', '.join(PROGRAMS)}")
    os.environ.pop("CARGO_TARGET_DIR", None)
    print("| program | crates | cold debug (CPU s) | cold release | after an edit, debug | release |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as root:
        for name in names:
            print(measured(name, pathlib.Path(root)), flush=True)


if __name__ == "__main__":
    main()
