//! `sweep`: runs one plan on many machines, through an existing scheduler.
//!
//! A plan is divided into numbered shards. A task measures one shard and puts its record into the directory of results.
//! Only the files there count: the scheduler is asked about tasks, never about results.

mod emit;
mod merge;
mod plan;
mod queue;
mod results;
mod shard;
mod slurm;
mod status;
mod submit;

use ellwand_core::Registry;

use super::args::{EmitArgs, SweepCommand};
use super::exit::Outcome;

pub(super) fn sweep(registry: &Registry, command: &SweepCommand, line: Vec<String>) -> Outcome {
    match command {
        SweepCommand::Plan(args) => plan::plan(registry, args),
        SweepCommand::Submit(args) => submit::submit(registry, args, &line),
        SweepCommand::Run(args) => shard::run(registry, args, line),
        SweepCommand::Status(args) => status::status(args),
        SweepCommand::Merge(args) => merge::merge(args),
        SweepCommand::Emit(EmitArgs::K8s(args)) => emit::kubernetes(args),
    }
}

/// The class of shards that run here, or that are submitted without a flag that names hardware.
const DEFAULT: &str = "default";

/// The command that measures the missing shards of a class. Results do not record which flags or scheduler produced
/// another class.
fn remedy(class: &str) -> String {
    if class == DEFAULT {
        return "`sweep submit` measures them".into();
    }
    format!(
        "`sweep run --shard N --class {class}` measures one, `sweep submit` with the flags of the class measures all"
    )
}

/// Ascending numbers in the notation of schedulers: `0-9,12`.
fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let one = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn ranges_join_neighbours_only() {
        for (numbers, expected) in
            [(&[][..], ""), (&[3], "3"), (&[0, 1, 2], "0-2"), (&[0, 2, 3, 7], "0,2-3,7"), (&[5, 6, 8, 9], "5-6,8-9")]
        {
            assert_eq!(ranges(numbers.iter().copied()), expected);
        }
    }
}
