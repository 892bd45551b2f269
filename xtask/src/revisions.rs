//! Revisions that differ only in a comment: `compare --baseline` must not call one slower than the other.
//!
//! Creates a git repository in `target/revisions` with a program on the facade. Each commit changes one comment, so
//! that the code is the same but the builds differ: their folders are different, and their layouts may be. It compares
//! each pair of neighbours as a user would, with a memory-bound and a compute-bound kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::check::cargo_path;
use crate::root;

const PROGRAM: &str = "revised";

/// Compares `count` pairs of revisions, starting with pair `first`, and prints how often each verdict occurred.
pub(crate) fn revisions(count: &str, first: &str) -> Result<()> {
    let number = |text: &str| match text.parse::<usize>() {
        Ok(number) if (1..=1000).contains(&number) => Ok(number),
        _ => bail!("'{text}' is no number of revisions; expected 1 to 1000"),
    };
    let (count, first) = (number(count)?, number(first)?);
    let home = root()?.join("target").join("revisions");
    begin(&home)?;
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let (mut different, mut seconds) = (0, Vec::new());
    for pair in first..first + count {
        let (program, other_build) = built(&home, pair)?;
        different += usize::from(other_build);
        let start = Instant::now();
        for (kernel, said) in compared(&home, &program, pair)? {
            println!("pair {pair}, {kernel}: {said}");
            *verdicts.entry(said.split(':').next().unwrap_or("").to_string()).or_default() += 1;
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!("\n{count} pairs of revisions that differ in a comment, {} comparisons", verdicts.values().sum::<usize>());
    for (verdict, times) in &verdicts {
        println!("  {times:4} {verdict}");
    }
    println!("programs that differ in their bytes: {different} of {count}");
    println!("seconds a pair: median {:.1}, longest {:.1}", seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
    let red: usize = ["slower", "slower-beside", "faster"].iter().filter_map(|word| verdicts.get(*word)).sum();
    if red > 0 {
        bail!("{red} of the comparisons call equal code different");
    }
    Ok(())
}

/// Creates the repository with its program unless it exists.
fn begin(home: &Path) -> Result<()> {
    if home.join(".git").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(home.join("src"))?;
    let facade = root()?.join("crates").join("ellwand");
    let manifest = format!(
        "[package]\nname = \"{PROGRAM}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nellwand = {{ path = \"{}\" }}\n\n[workspace]\n",
        facade.display()
    );
    std::fs::write(home.join("Cargo.toml"), manifest)?;
    std::fs::write(home.join(".gitignore"), "/target\n/programs\n")?;
    // The versions that the workspace was tested with.
    std::fs::copy(root()?.join("Cargo.lock"), home.join("Cargo.lock"))?;
    git(home, &["init", "--quiet"])?;
    write(home, 0)?;
    let program = cargo(home)?;
    if !program.status.success() {
        bail!("the program does not build:\n{}", String::from_utf8_lossy(&program.stderr));
    }
    commit(home, 0)
}

/// Writes a program with a memory-bound and a compute-bound kernel, and one comment with `number`.
fn write(home: &Path, number: usize) -> Result<()> {
    let main = format!(
        r#"//! Revision {number} of a program whose code never changes.

use ellwand::{{Axis, suite}};

// Comment {number}{}
fn main() {{
    let mut registry = ellwand::devices();
    suite("sum")
        .axis(Axis::int("n", "numbers", 1, 1 << 24, 1 << 18))
        .input(|case, _| (0..case.usize("n") as u64).collect::<Vec<u64>>())
        .implementation("plain", |v| v.iter().fold(0_u64, |sum, x| sum.wrapping_add(*x)))
        .register(&mut registry);
    suite("chain")
        .axis(Axis::int("n", "steps", 1, 1 << 24, 20_000))
        .input(|case, _| case.usize("n") as u64)
        .implementation("plain", |n| {{
            (0..*n).fold(1_u64, |x, i| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i) ^ (x >> 29))
        }})
        .register(&mut registry);
    ellwand::main(registry)
}}
"#,
        // Every line below moves by a different amount.
        "\n//".repeat(number % 7)
    );
    std::fs::write(home.join("src").join("main.rs"), main)?;
    Ok(())
}

/// Builds the program at revision `pair`; true if its bytes differ from those of the revision before.
fn built(home: &Path, pair: usize) -> Result<(PathBuf, bool)> {
    // A separate folder for each: `compare --baseline` asks the revision for a program of the same name.
    let kept = |number: usize| home.join("programs").join(number.to_string()).join(PROGRAM);
    for number in [pair - 1, pair] {
        if kept(number).is_file() {
            continue;
        }
        for missing in revisions_so_far(home)?..=number {
            write(home, missing)?;
            commit(home, missing)?;
        }
        git(home, &["checkout", "--quiet", "--force", &format!("revision-{number}")])?;
        let output = cargo(home)?;
        if !output.status.success() {
            bail!("revision {number} does not build:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        let folder = kept(number);
        std::fs::create_dir_all(folder.parent().context("a program has no folder")?)?;
        std::fs::copy(home.join("target").join("release").join(PROGRAM), &folder)?;
    }
    let bytes = |number: usize| std::fs::read(kept(number));
    Ok((kept(pair), bytes(pair)? != bytes(pair - 1)?))
}

fn revisions_so_far(home: &Path) -> Result<usize> {
    Ok(git(home, &["tag", "--list", "revision-*"])?.lines().count())
}

fn commit(home: &Path, number: usize) -> Result<()> {
    // After the last commit, whatever revision an earlier call left checked out.
    if number > 0 {
        git(home, &["reset", "--quiet", "--soft", &format!("revision-{}", number - 1)])?;
    }
    git(home, &["add", "--all"])?;
    let who = ["-c", "user.name=ellwand", "-c", "user.email=ellwand@example.com", "-c", "commit.gpgsign=false"];
    let message = format!("comment {number}");
    git(home, &[&who[..], &["commit", "--quiet", "--no-verify", "-m", &message]].concat())?;
    git(home, &["tag", &format!("revision-{number}")]).map(|_| ())
}

/// Verdict of `compare --baseline` for each kernel.
fn compared(home: &Path, program: &Path, pair: usize) -> Result<Vec<(String, String)>> {
    let mut said = Vec::new();
    for kernel in ["sum", "chain"] {
        let before = format!("revision-{}", pair - 1);
        let output = Command::new(program)
            .args(["compare", "--baseline", &before, "--workload", kernel, "--format", "json"])
            .current_dir(home)
            .output()
            .with_context(|| format!("{} could not be started", program.display()))?;
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("pair {pair}: {}", String::from_utf8_lossy(&output.stderr)))?;
        for row in rows.as_array().into_iter().flatten() {
            let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
            let verdict = row["verdict"].as_str().unwrap_or("none");
            let blocks = row["blocks"].as_array().map_or(0, Vec::len);
            said.push((
                kernel.to_string(),
                format!(
                    "{verdict}: {:.4} ({:.4} to {:.4}), {blocks} blocks",
                    number("ratio"),
                    number("low"),
                    number("high")
                ),
            ));
        }
    }
    Ok(said)
}

fn cargo(home: &Path) -> Result<Output> {
    // Offline: all its dependencies are also the workspace's.
    Ok(Command::new(cargo_path()).args(["build", "--release", "--offline"]).current_dir(home).output()?)
}

fn git(home: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(home).args(args);
    // Git must not use a repository that encloses this one.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command.output().context("git could not be started")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
