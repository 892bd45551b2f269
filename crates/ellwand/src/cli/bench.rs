//! `cargo bench`: a target with `harness = false` accepts the arguments that cargo and nextest pass to a test harness.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use ellwand_core::Registry;

use super::args::BenchArgs;
use super::exit::{Exit, Failure, Outcome};
use super::{code, output};

/// Handles cargo's arguments to a benchmark target; returns the exit code.
pub(crate) fn bench(args: &[OsString], registry: &Registry) -> i32 {
    // Worker processes run this program too.
    if args.get(1).is_some_and(|arg| arg == ellwand_bench::worker::COMMAND) {
        return super::run(args, registry);
    }
    match BenchArgs::try_parse_from(args.iter().map(|arg| arg.to_string_lossy().into_owned())) {
        Ok(args) => answer(&args, registry).unwrap_or_else(|failure| code(Err(failure))),
        Err(error) => super::unparsed(&error),
    }
}

fn answer(args: &BenchArgs, registry: &Registry) -> Result<i32, Failure> {
    let mut chosen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for known in registry.all_implementations() {
        if args.wants(&format!("{}:{}", known.workload, known.name)) {
            chosen.entry(&known.workload).or_default().push(&known.name);
        }
    }
    if args.list {
        return list(&chosen).map(Exit::code);
    }
    if chosen.is_empty() {
        // Cargo gives one filter to every target, so that most of them have nothing to do.
        output::note("no benchmark of this target matches");
        return Ok(Exit::Ok.code());
    }
    let program = std::env::current_exe().unwrap_or_default();
    let dir = directory(&program, &output::stamp(output::unix_ms()));
    let mut worst = Exit::Ok.code();
    for (workload, implementations) in chosen {
        let command = match &args.baseline {
            Some(_) if args.times() => "compare",
            None if args.times() => "run",
            _ => "check",
        };
        let mut line: Vec<OsString> = vec![program.clone().into(), command.into(), workload.into()];
        line.extend(["--implementation".into(), implementations.join(",").into()]);
        if command == "compare" {
            line.extend(args.of_compare().into_iter().map(OsString::from));
        } else if command == "run" {
            line.extend(["--effort", "quick", "--no-ceilings", "--output"].map(OsString::from));
            line.push(dir.join(workload).into());
            // Otherwise a note would mention this flag, which a user of cargo cannot give.
            line.extend((!cfg!(feature = "plots")).then(|| "--no-plot".into()));
        }
        worst = worst.max(super::run(line, registry));
    }
    Ok(worst)
}

fn list(chosen: &BTreeMap<&str, Vec<&str>>) -> Outcome {
    output::result(|out| {
        for (workload, implementations) in chosen {
            for implementation in implementations {
                writeln!(out, "{workload}:{implementation}: benchmark")?;
            }
        }
        Ok::<_, std::io::Error>(())
    })?;
    Ok(Exit::Ok)
}

/// Name of the benchmark target built by cargo at this path, `target/PROFILE/deps/NAME-HASH`; `None` for other
/// programs.
pub(super) fn target(program: &Path) -> Option<&str> {
    program.parent().filter(|parent| parent.ends_with("deps"))?;
    let (name, hash) = program.file_stem()?.to_str()?.rsplit_once('-')?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

/// `target/ellwand/NAME-TIME`, next to cargo's own output.
fn directory(program: &Path, stamp: &str) -> PathBuf {
    let stem = || program.file_stem().map_or_else(|| "bench".into(), |stem| stem.to_string_lossy().into_owned());
    let name = target(program).map_or_else(stem, ToString::to_string);
    // target/PROFILE/deps/NAME-HASH
    let deps = program.parent().filter(|parent| parent.ends_with("deps"));
    let target =
        deps.and_then(|deps| deps.parent()?.parent()).map_or_else(|| PathBuf::from("target"), Path::to_path_buf);
    target.join("ellwand").join(format!("{name}-{stamp}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_next_to_the_build_output() {
        let built = Path::new("/w/target/release/deps/sort-0123456789abcdef");
        assert_eq!(directory(built, "T"), Path::new("/w/target/ellwand/sort-T"));
        assert_eq!(directory(Path::new("/bin/radix-sort"), "T"), Path::new("target/ellwand/radix-sort-T"));
    }
}
