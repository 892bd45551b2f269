//! Arguments of a benchmark target: those of `cargo bench`, and those that cargo and nextest pass to a test harness.

use clap::Parser;
use ellwand_core::registry::matches;

// No doc comment: clap would print it as the description of the command.
#[derive(Parser, Debug)]
#[command(
    about = "A benchmark target of cargo. `cargo bench` measures, `cargo test --benches` only checks the answers.",
    override_usage = "cargo bench --bench NAME -- [FILTER].. [OPTIONS]",
    args_override_self = true
)]
pub(crate) struct BenchArgs {
    /// Part of WORKLOAD:IMPLEMENTATION, or a pattern with *. Without a match nothing runs, and the exit code is 0, because
    /// cargo gives one filter to all targets
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// A FILTER is a whole name
    #[arg(long)]
    exact: bool,
    /// Leave out what matches
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    skip: Vec<String>,
    /// List the names instead
    #[arg(long)]
    pub(crate) list: bool,
    /// Check the answers instead of measuring
    #[arg(long)]
    test: bool,
    /// Compare with the same target at the git revision REV
    #[arg(long, value_name = "REV")]
    pub(crate) baseline: Option<String>,
    /// With --baseline: arguments for its `cargo build`
    #[arg(long, value_name = "ARGS", requires = "baseline", allow_hyphen_values = true)]
    baseline_args: Option<String>,
    /// With --baseline: time for each comparison
    #[arg(long, value_name = "TIME", requires = "baseline")]
    time: Option<String>,
    /// With --baseline: smallest change that counts
    #[arg(long, value_name = "PERCENT", requires = "baseline")]
    at_least: Option<String>,
    /// With --baseline: which verdicts fail
    #[arg(long, value_name = "WHAT", requires = "baseline")]
    fail_on: Option<String>,
    /// With --baseline: github, annotations for GitHub Actions
    #[arg(long, value_name = "FORMAT", requires_if(GITHUB, "baseline"), value_parser = format)]
    format: Option<String>,
    // `cargo bench` passes `--bench`; without it (`cargo test --benches`, nextest) nothing is timed.
    #[arg(long, hide = true)]
    bench: bool,
    #[arg(long, hide = true)]
    ignored: bool,
    #[command(flatten)]
    _harness: Harness,
}

// Arguments of a test harness that have no effect here.
#[derive(clap::Args, Debug)]
struct Harness {
    #[arg(long, hide = true, aliases = ["no-capture", "show-output", "include-ignored"])]
    nocapture: bool,
    #[arg(short, long, hide = true)]
    quiet: bool,
    #[arg(long, hide = true, alias = "test-threads")]
    color: Option<String>,
}

const GITHUB: &str = "github";

/// cargo and nextest use the other formats, which are those of test harnesses.
fn format(text: &str) -> Result<String, &'static str> {
    let junit = "a benchmark target writes no junit; expected github; or junit from `compare` of a program";
    if text == "junit" { Err(junit) } else { Ok(text.into()) }
}

impl BenchArgs {
    /// True if answers are timed and not only checked.
    pub(crate) fn times(&self) -> bool {
        self.bench && !self.test
    }

    /// The arguments of `compare` that the user gave.
    pub(crate) fn of_compare(&self) -> Vec<&str> {
        let all = [
            ("--baseline", self.baseline.as_deref()),
            ("--baseline-args", self.baseline_args.as_deref()),
            ("--time", self.time.as_deref()),
            ("--at-least", self.at_least.as_deref()),
            ("--fail-on", self.fail_on.as_deref()),
            ("--format", self.format.as_deref().filter(|format| *format == GITHUB)),
        ];
        let given = all.into_iter().filter_map(|(flag, value)| Some([flag, value?]));
        given.flatten().collect()
    }

    /// True if the filters select `workload:implementation`.
    pub(crate) fn wants(&self, name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(line: &str) -> Result<BenchArgs, clap::Error> {
        BenchArgs::try_parse_from(std::iter::once("target").chain(line.split_whitespace()))
    }

    #[test]
    fn only_cargo_bench_times() {
        assert!(read("--bench").unwrap().times());
        for line in ["--bench --help", "-h"] {
            assert!(!read(line).unwrap_err().use_stderr(), "{line}");
        }
        for line in ["", "--test --bench", "--bench --test", "--exact --nocapture --no-capture --nocapture"] {
            assert!(!read(line).unwrap().times(), "{line}");
        }
        assert!(read("--frobnicate").unwrap_err().to_string().contains("--frobnicate"));
        assert_eq!(read("--bench --baseline HEAD~1").unwrap().baseline.as_deref(), Some("HEAD~1"));
        assert!(read("--format").unwrap_err().to_string().contains("a value is required"));
        let args = read("--bench --baseline v1 --fail-on slower --format terse --format github").unwrap();
        assert_eq!(args.of_compare(), ["--baseline", "v1", "--fail-on", "slower", "--format", "github"]);
        for line in ["--bench --time 3s", "--bench --format github", "--bench --baseline v1 --format junit"] {
            read(line).unwrap_err();
        }
        for line in ["--format terse -q --quiet", "--color=always --test-threads 4", "--show-output --include-ignored"]
        {
            assert!(read(line).unwrap().of_compare().is_empty(), "{line}");
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
            ("--skip search --skip stable", false),
            ("--ignored", false),
        ] {
            assert_eq!(read(line).unwrap().wants("sort:stable"), wanted, "{line}");
        }
    }
}
