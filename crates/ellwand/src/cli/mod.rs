//! The command line: parse, call, map outcomes to exit codes. Results go to stdout, everything else to stderr.

mod apply;
mod baseline;
mod bench;
mod budgets;
mod cache;
mod ceilings;
mod certificate;
mod check;
mod chosen;
mod ci;
mod command;
mod compare;
mod contests;
mod crossing;
mod diagnosis;
mod eta;
mod exit;
mod flags;
mod given;
mod keeping;
mod list;
mod machine;
mod output;
mod progress;
mod records;
mod report;
mod run;
mod selfcheck;
mod signals;
mod spans;
mod standing;
mod verdict;
mod worker;

use std::ffi::OsString;

use ellwand_core::{DeviceKind, Registry};

pub(crate) use bench::bench;
use exit::{Exit, Failure};

/// One line about the processor, for the list of devices.
pub(crate) fn cpu_description() -> String {
    let here = ellwand_bench::environment::facts();
    format!("{}, {} cores, {}", here.cpu, here.cores, here.cpu_features.join(" "))
}

/// Runs the command line on a registry and returns the exit code (DESIGN: 0 ok, 1 error, 2 usage, 3 regression,
/// 4 undecided, 5 wrong result, 6 measured nothing, 130 interrupted).
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>, registry: &Registry) -> i32 {
    signals::quiet_panics_of_implementations();
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    // Before a command line is made and parsed: three of these begin every block of a comparison.
    if args.get(1).is_some_and(|word| word == ellwand_bench::worker::COMMAND) && args.len() == 2 {
        crossing::tell_kernels();
        return code(worker::worker(registry));
    }
    let matches = match command::command(registry).try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are answers (stdout, 0); the rest are questions back (stderr, 2).
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.code() } else { Exit::Ok.code() };
        }
    };
    let line: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let registry = &with_devices_asked_for(registry, &line, matches.subcommand_name());
    crossing::tell_kernels();
    let outcome = match matches.subcommand() {
        Some(("list", matches)) => list::list(registry, matches),
        Some(("run", matches)) => run::run(registry, matches, line),
        Some(("apply", matches)) => apply::apply(registry, matches, line),
        Some(("check", matches)) => check::check(registry, matches),
        Some(("report", matches)) => report::report(matches),
        Some(("machine", matches)) => machine::machine(registry, matches, line),
        Some(("compare", matches)) => compare::compare(registry, matches, line),
        Some(("selfcheck", matches)) if command::is_set(matches, "diagnosis") => {
            diagnosis::diagnosis(registry, matches)
        }
        Some(("selfcheck", matches)) => selfcheck::selfcheck(matches),
        _ => Ok(Exit::Usage),
    };
    code(outcome)
}

fn code(outcome: Outcome) -> i32 {
    match outcome {
        Ok(exit) => exit.code(),
        Err(failure) => failure.tell(),
    }
}

/// The registry with the devices of CUDA, and with those of Vulkan where the command line mentions them or `list` shows them
/// all; `machine` looks for these itself when it has measured.
fn with_devices_asked_for(registry: &Registry, line: &[String], command: Option<&str>) -> Registry {
    let mut registry = registry.clone();
    registry.look_for(DeviceKind::Cuda);
    let all = command == Some("list");
    let name = DeviceKind::Wgpu.to_string();
    if all || line.iter().skip(1).any(|word| word.contains(&name)) {
        registry.look_for(DeviceKind::Wgpu);
    }
    registry
}

/// What a command comes to.
type Outcome = Result<Exit, Failure>;

#[cfg(test)]
mod tests {
    use super::command::{command, selected};

    /// The commands of docs/gpu.md run nowhere here: at least they name what there is.
    #[test]
    fn commands_for_a_gpu_name_what_there_is() {
        let text = include_str!("../../../../docs/gpu.md");
        let registry = crate::registry();
        let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("ellwand ")).collect();
        assert!(commands.len() >= 5, "{commands:?}");
        for line in commands {
            let words = line.split('#').next().unwrap_or_default().split_whitespace();
            let matches =
                command(&registry).try_get_matches_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            let Some(("run" | "check", matches)) = matches.subcommand() else { continue };
            let selection = selected(&registry, matches);
            if let Err(error) = ellwand_bench::Plan::expand(&registry, &selection) {
                panic!("{line}: {error}");
            }
        }
    }
}
