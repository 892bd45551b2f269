//! `cargo bench`: a target with `harness = false` accepts the arguments that cargo and nextest pass to a test harness.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ellwand_core::registry::matches;
use ellwand_core::{InputError, Registry};

use super::exit::{Exit, Failure, Outcome};
use super::{code, output};

#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    filters: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
    help: bool,
    ignored: bool,
    /// `cargo bench` passes `--bench`; without it (`cargo test --benches`, nextest) nothing is timed.
    time: bool,
    /// A git revision to compare with.
    baseline: Option<String>,
    /// Options of `compare` with their values.
    terms: Vec<String>,
}

/// Handles cargo's arguments to a benchmark target; returns the exit code.
pub(crate) fn bench(args: &[OsString], registry: &Registry) -> i32 {
    // Worker processes run this program too.
    if args.get(1).is_some_and(|arg| arg == ellwand_bench::worker::COMMAND) {
        return super::run(args, registry);
    }
    let words: Vec<String> = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let answered = Asked::read(&words).map_err(Into::into).and_then(|asked| answer(&asked, registry));
    answered.unwrap_or_else(|failure| code(Err(failure)))
}

impl Asked {
    fn read(words: &[String]) -> Result<Self, InputError> {
        let mut asked = Self::default();
        let mut test = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_string())),
                _ => (word.as_str(), None),
            };
            match flag {
                "--bench" => asked.time = true,
                "--test" => test = true,
                "--list" => asked.list = true,
                "--help" | "-h" => asked.help = true,
                "--exact" => asked.exact = true,
                "--ignored" => asked.ignored = true,
                "--nocapture" | "--no-capture" | "--show-output" | "--include-ignored" | "--quiet" | "-q" => {}
                "--format" | "--color" | "--test-threads" | "--skip" | "--baseline" | "--baseline-args" | "--time"
                | "--at-least" | "--fail-on" => {
                    let value = joined
                        .or_else(|| words.next().cloned())
                        .ok_or_else(|| InputError::new(flag, "its value is missing", format!("a word after {flag}")))?;
                    match flag {
                        "--skip" => asked.skip.push(value),
                        "--baseline" => asked.baseline = Some(value),
                        "--baseline-args" | "--time" | "--at-least" | "--fail-on" => {
                            asked.terms.extend([flag.to_string(), value])
                        }
                        // cargo and nextest use the other formats, which are those of test harnesses.
                        "--format" if value == "github" => asked.terms.extend([flag.to_string(), value]),
                        "--format" if value == "junit" => {
                            let expected = "github; or junit from `compare` of a program";
                            return Err(InputError::new(flag, "a benchmark target writes no junit", expected));
                        }
                        _ => {}
                    }
                }
                _ if flag.starts_with('-') => {
                    let problem = "a benchmark target does not know this flag";
                    return Err(InputError::new(
                        word,
                        problem,
                        "FILTER, --list, --exact, --skip, --test, or --baseline REV with --time, --at-least, --fail-on, --format github",
                    ));
                }
                _ => asked.filters.push(word.clone()),
            }
        }
        asked.time &= !test;
        if asked.baseline.is_none()
            && let Some(flag) = asked.terms.first()
        {
            return Err(InputError::new(flag, "without --baseline there are no verdicts", "--baseline REV with it"));
        }
        Ok(asked)
    }

    /// True if the filters select `workload:implementation`.
    fn wants(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.exact {
                filter == name
            } else if filter.contains('*') {
                matches(filter, name) || matches(filter, name.split(':').next().unwrap_or(name))
            } else {
                name.contains(filter.as_str())
            }
        };
        // No benchmark is ever ignored, so `--ignored` selects none.
        !self.ignored && (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skip.iter().any(fits)
    }
}

const HELP: &str = "\
A benchmark target of cargo. `cargo bench` measures, `cargo test --benches` only checks the answers.

Usage: cargo bench --bench NAME -- [FILTER].. [OPTIONS]

  FILTER            part of WORKLOAD:IMPLEMENTATION, or a pattern with *; without a match nothing runs, and the exit code is 0,
                    because cargo gives one filter to all targets
  --exact           a FILTER is a whole name
  --skip FILTER     leave out what matches
  --list            list the names instead
  --test            check the answers instead of measuring
  --baseline REV    compare with the same target at the git revision REV
  --time TIME       with --baseline: time for each comparison
  --at-least PERCENT with --baseline: smallest change that counts
  --fail-on WHAT    with --baseline: which verdicts fail
  --format github   with --baseline: annotations for GitHub Actions
";

fn answer(asked: &Asked, registry: &Registry) -> Result<i32, Failure> {
    if asked.help {
        return output::result(|out| out.write_all(HELP.as_bytes())).map(|()| Exit::Ok.code());
    }
    let mut chosen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for known in registry.all_implementations() {
        if asked.wants(&format!("{}:{}", known.workload, known.name)) {
            chosen.entry(&known.workload).or_default().push(&known.name);
        }
    }
    if asked.list {
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
        let command = match &asked.baseline {
            Some(_) if asked.time => "compare",
            None if asked.time => "run",
            _ => "check",
        };
        let mut line: Vec<OsString> = vec![program.clone().into(), command.into(), workload.into()];
        line.extend(["--implementation".into(), implementations.join(",").into()]);
        if let ("compare", Some(revision)) = (command, &asked.baseline) {
            line.extend(["--baseline".into(), revision.into()]);
            line.extend(asked.terms.iter().map(OsString::from));
        } else if asked.time {
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(line: &str) -> Result<Asked, InputError> {
        Asked::read(&line.split_whitespace().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn only_cargo_bench_times() {
        assert!(read("--bench").unwrap().time);
        assert!(read("--bench --help").unwrap().help && read("-h").unwrap().help);
        for line in ["", "--test --bench", "--bench --test", "--exact --nocapture"] {
            assert!(!read(line).unwrap().time, "{line}");
        }
        assert!(read("--frobnicate").unwrap_err().to_string().contains("--frobnicate"));
        assert_eq!(read("--bench --baseline HEAD~1").unwrap().baseline.as_deref(), Some("HEAD~1"));
        assert!(read("--format").unwrap_err().to_string().contains("value is missing"));
        let asked = read("--bench --baseline v1 --fail-on slower --format github --format terse").unwrap();
        assert_eq!(asked.terms, ["--fail-on", "slower", "--format", "github"]);
        for line in ["--bench --time 3s", "--bench --baseline v1 --format junit"] {
            read(line).unwrap_err();
        }
    }

    #[test]
    fn filters_select_by_part_pattern_or_whole_name() {
        for (line, wanted) in [
            ("", true),
            ("--format terse", true),
            ("--color=always", true),
            ("sort", true),
            ("t:st", true),
            ("search", false),
            ("search sort", true),
            ("s*", true),
            ("*:unstable", false),
            ("--exact sort", false),
            ("--exact sort:stable", true),
            ("--skip stable", false),
            ("--ignored", false),
        ] {
            assert_eq!(read(line).unwrap().wants("sort:stable"), wanted, "{line}");
        }
    }

    #[test]
    fn results_lie_beside_what_cargo_built() {
        let built = Path::new("/w/target/release/deps/sort-0123456789abcdef");
        assert_eq!(directory(built, "T"), Path::new("/w/target/ellwand/sort-T"));
        assert_eq!(directory(Path::new("/bin/radix-sort"), "T"), Path::new("target/ellwand/radix-sort-T"));
    }
}
