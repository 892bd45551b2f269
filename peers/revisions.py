#!/usr/bin/env python3
"""Revisions that differ only in a comment: `compare --baseline` must not call one slower than the other.

    python3 peers/revisions.py PAIRS [FIRST]

Makes a git repository in target/revisions with a program that uses the facade. Each commit changes one comment, so the code is the
same but the builds differ: their folders are different, and their layouts may be. Compares PAIRS pairs of neighbouring revisions
from pair FIRST on (default 1) as a user would, with a memory-bound and a compute-bound kernel, and counts the verdicts. Exits with
1 if any verdict is red.
"""

import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "target" / "revisions"
PROGRAM = "revised"

MANIFEST = f"""[package]
name = "{PROGRAM}"
version = "0.1.0"
edition = "2024"

[dependencies]
ellwand = {{ path = "{ROOT}/crates/ellwand" }}

[workspace]
"""

MAIN = """//! Revision NUMBER of a program whose code never changes.

use ellwand::{Axis, suite};

// Comment NUMBER
fn main() {
    let mut registry = ellwand::devices();
    suite("sum")
        .axis(Axis::int("n", "numbers", 1, 1 << 24, 1 << 18))
        .input(|case, _| (0..case.usize("n") as u64).collect::<Vec<u64>>())
        .implementation("plain", |v| v.iter().fold(0_u64, |sum, x| sum.wrapping_add(*x)))
        .register(&mut registry);
    suite("chain")
        .axis(Axis::int("n", "steps", 1, 1 << 24, 20_000))
        .input(|case, _| case.usize("n") as u64)
        .implementation("plain", |n| {
            (0..*n).fold(1_u64, |x, i| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i) ^ (x >> 29))
        })
        .register(&mut registry);
    ellwand::main(registry)
}
"""


def run(*words):
    done = subprocess.run(words, cwd=HOME, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout


def build():
    # Offline: all dependencies are also the workspace's.
    run("cargo", "build", "--release", "--offline")


def commit(number):
    if number > 0:
        # After the last commit, whichever revision an earlier call left checked out.
        run("git", "reset", "--quiet", "--soft", f"revision-{number - 1}")
    run("git", "add", "--all")
    who = ["-c", "user.name=ellwand", "-c", "user.email=ellwand@example.com", "-c", "commit.gpgsign=false"]
    run("git", *who, "commit", "--quiet", "--no-verify", "-m", f"comment {number}")
    run("git", "tag", f"revision-{number}")


def write(number):
    # Every line below the comment moves by a different amount.
    (HOME / "src" / "main.rs").write_text(MAIN.replace("NUMBER\nfn", "NUMBER" + "\n//" * (number % 7) + "\nfn").replace("NUMBER", str(number)))


def begin():
    (HOME / "src").mkdir(parents=True)
    (HOME / "Cargo.toml").write_text(MANIFEST)
    (HOME / ".gitignore").write_text("/target\n/programs\n")
    # The versions with which the workspace was tested.
    shutil.copy(ROOT / "Cargo.lock", HOME / "Cargo.lock")
    run("git", "init", "--quiet")
    write(0)
    build()
    commit(0)


def program(number):
    """The program of a revision. `compare --baseline` builds the program of the same name in the other revision."""
    kept = HOME / "programs" / str(number) / PROGRAM
    if not kept.is_file():
        for missing in range(len(run("git", "tag", "--list", "revision-*").split()), number + 1):
            write(missing)
            commit(missing)
        run("git", "checkout", "--quiet", "--force", f"revision-{number}")
        build()
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOME / "target" / "release" / PROGRAM, kept)
    return kept


def main():
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit() and 1 <= int(word) <= 1000]
    if len(numbers) not in (1, 2) or len(numbers) != len(sys.argv) - 1:
        sys.exit(__doc__)
    count, first = [*numbers, 1][:2]
    for name in ("CARGO_TARGET_DIR", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        os.environ.pop(name, None)
    if not (HOME / ".git").exists():
        begin()
    verdicts, different, seconds = collections.Counter(), 0, []
    for pair in range(first, first + count):
        before, after = program(pair - 1), program(pair)
        different += before.read_bytes() != after.read_bytes()
        start = time.monotonic()
        for kernel in ("sum", "chain"):
            words = [after, "compare", "--baseline", f"revision-{pair - 1}", "--workload", kernel, "--format", "json"]
            for row in json.loads(subprocess.run(words, cwd=HOME, stdout=subprocess.PIPE).stdout):
                verdicts[row["verdict"]] += 1
                ratio = "{ratio:.4f} ({low:.4f} to {high:.4f})".format(**row) if "ratio" in row else row["reason"]
                print(f"pair {pair}, {kernel}: {row['verdict']}: {ratio}, {len(row.get('blocks', []))} blocks", flush=True)
        seconds.append(time.monotonic() - start)
    print(f"\n{count} pairs of revisions that differ in a comment, {verdicts.total()} comparisons")
    for verdict, times in sorted(verdicts.items()):
        print(f"  {times:4} {verdict}")
    print(f"programs that differ in their bytes: {different} of {count}")
    print(f"seconds per pair: median {statistics.median(seconds):.1f}, longest {max(seconds):.1f}")
    if red := sum(verdicts[word] for word in ("slower", "slower-beside", "faster")):
        sys.exit(f"{red} of the comparisons call equal code different")


if __name__ == "__main__":
    main()
