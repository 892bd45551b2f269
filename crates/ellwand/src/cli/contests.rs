//! What the two sides of `compare` mean: shell commands, programs, revisions, or implementations.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ArgMatches;
use ellwand_bench::Plan;
use ellwand_bench::arms::{LONG_RUN_NS, Sides, WARM_UP_NS};
use ellwand_bench::block::Spec;
use ellwand_bench::plan::{Cell, Selection, check_devices_known};
use ellwand_bench::settings::SLOT_NS;
use ellwand_bench::worker::{Asked, Launch, Open};
use ellwand_core::error::nearest;
use ellwand_core::{Caches, Case, Implementation, InputError, Parallelism, Registry};

use super::command::{is_set, selected, text};
use super::exit::Failure;
use super::{baseline, ceilings};

/// Two things to compare at one case.
pub(super) struct Contest {
    pub(super) case: String,
    pub(super) names: [String; 2],
    pub(super) what: What,
    /// What budgets are held against; shell commands have none.
    pub(super) candidate: Option<Candidate>,
}

pub(super) enum What {
    Workers(Box<Sides>),
    Commands([String; 2]),
}

/// The candidate as a budget sees it.
pub(super) struct Candidate {
    pub(super) case: Case,
    pub(super) implementation: String,
    pub(super) parallelism: Parallelism,
    pub(super) items: u64,
    /// The program it lives in.
    pub(super) program: PathBuf,
}

/// How arms are asked, besides what they compute.
struct Ask {
    /// Devices in the order in which they are preferred, where somebody chose.
    devices: Option<Registry>,
    seed: u64,
    /// Whether memory is read, because a budget wants to know.
    probes: bool,
}

/// What the two sides mean: shell commands, programs, or implementations.
pub(super) fn contests(registry: &Registry, matches: &ArgMatches, probes: bool) -> Result<Vec<Contest>, Failure> {
    let chosen = selected(registry, matches);
    check_devices_known(registry, &chosen.devices)?;
    let devices = (!chosen.devices.is_empty()).then(|| super::chosen::preferring(registry, &chosen));
    let ask = Ask { devices, seed: matches.get_one::<u64>("seed").copied().unwrap_or(42), probes };
    let given: Vec<&String> = matches.get_many::<String>("side").into_iter().flatten().collect();
    if let Some(revision) = text(matches, "baseline") {
        let expected =
            "no sides and --workload WORKLOAD, with -i IMPLEMENTATION if not all: both sides are this program";
        if let Some(side) = given.first() {
            return Err(InputError::new("BASE", format!("'{side}' stands beside --baseline"), expected).into());
        }
        let Some(workload) = text(matches, "workload") else {
            return Err(InputError::new("--baseline", "there is no --workload", expected).into());
        };
        let candidate = std::env::current_exe().context("this program's own path is unknown")?;
        // Whatever is misspelt is told before anything is built.
        let names = [revision.to_string(), "the work tree".to_string()];
        programs_at(registry, matches, workload, [&candidate, &candidate], &names, &ask)?;
        let built = baseline::build(revision, &candidate)?;
        return Ok(programs_at(registry, matches, workload, [&built, &candidate], &names, &ask)?);
    }
    let [baseline, candidate] = given[..] else {
        return Err(InputError::new("CANDIDATE", "only one side is given", "two sides")
            .help("WORKLOAD:IMPLEMENTATION twice; with --workload two programs, with --command two shell commands")
            .into());
    };
    if is_set(matches, "command") {
        refuse_cases(registry, matches, "shell commands have no cases")?;
        let both = [baseline.clone(), candidate.clone()];
        if let Some(empty) = both.iter().find(|command| command.trim().is_empty()) {
            return Err(InputError::new("--command", format!("'{empty}' is no command"), "two shell commands").into());
        }
        let names = both.clone().map(|command| format!("'{command}'"));
        return Ok(vec![Contest { case: "command".into(), names, what: What::Commands(both), candidate: None }]);
    }
    let programs = [baseline, candidate].map(Path::new);
    if let Some(workload) = text(matches, "workload") {
        let names = programs.map(|program| program.display().to_string());
        return Ok(programs_at(registry, matches, workload, programs, &names, &ask)?);
    }
    let (cells, names) = implementations(registry, matches, baseline, candidate)?;
    ceilings::check_memory(&cells, true, Caches::Warm)?;
    let launch = Launch::this_program();
    let contest = |cell: &Cell| Contest {
        case: cell.case.id(),
        names: names.clone(),
        what: What::Workers(Box::new(sides(cell, [0, 1], [&launch, &launch], &ask))),
        candidate: Some(candidate_of(cell, 1, &launch)),
    };
    Ok(cells.iter().map(contest).collect())
}

/// Refuses flags that choose cases or implementations, where there are none: left alone they would seem to be heeded.
pub(super) fn refuse_cases(registry: &Registry, matches: &ArgMatches, why: &str) -> Result<(), InputError> {
    let asked = selected(registry, matches);
    let axis = asked.axes.keys().next().map(|axis| format!("--{axis}"));
    let size = asked.size.map(|_| "--size".to_string());
    let device = asked.devices.first().map(|_| "--device".to_string());
    let implementations = (!asked.implementations.is_empty()).then(|| "--implementation".to_string());
    match axis.or(size).or(device).or(implementations) {
        Some(flag) => Err(InputError::new(flag, why, "the same command without it")),
        None => Ok(()),
    }
}

/// Two programs built on Ellwand, at every case and implementation that is asked for.
fn programs_at(
    registry: &Registry,
    matches: &ArgMatches,
    workload: &str,
    programs: [&Path; 2],
    names: &[String; 2],
    ask: &Ask,
) -> Result<Vec<Contest>, InputError> {
    for (argument, program) in ["BASE", "CANDIDATE"].into_iter().zip(programs) {
        if !program.is_file() {
            return Err(InputError::new(argument, format!("{} is no file", program.display()), "a program")
                .help("without --workload the sides are WORKLOAD:IMPLEMENTATION"));
        }
    }
    // A name without a slash would be looked up in PATH.
    let paths = programs.map(|program| std::path::absolute(program).unwrap_or_else(|_| program.to_path_buf()));
    let launches = paths.map(Launch::program);
    let selection = Selection { workloads: vec![workload.to_string()], ..selected(registry, matches) };
    let cells = Plan::expand(registry, &selection)?.cells;
    ceilings::check_memory(&cells, true, Caches::Warm)?;
    let mut contests = Vec::new();
    for cell in &cells {
        for (index, implementation) in cell.implementations.iter().enumerate() {
            contests.push(Contest {
                case: format!("{} {}", cell.case.id(), implementation.name),
                names: names.clone(),
                what: What::Workers(Box::new(sides(cell, [index, index], [&launches[0], &launches[1]], ask))),
                candidate: Some(candidate_of(cell, index, &launches[1])),
            });
        }
    }
    Ok(contests)
}

/// The cases, each with baseline and candidate, and the names of the two.
fn implementations(
    registry: &Registry,
    matches: &ArgMatches,
    baseline: &str,
    candidate: &str,
) -> Result<(Vec<Cell>, [String; 2]), InputError> {
    let (workload, first) = side("BASE", baseline)?;
    let (other, second) = side("CANDIDATE", candidate)?;
    for (argument, name) in [("BASE", workload), ("CANDIDATE", other)] {
        known_workload(registry, argument, name)?;
    }
    if workload != other {
        return Err(InputError::new(
            "CANDIDATE",
            format!("{workload} and {other} are different tasks"),
            format!("an implementation of {workload}, such as {workload}:{second}"),
        ));
    }
    let mut selection = Selection { workloads: vec![workload.to_string()], ..selected(registry, matches) };
    for (argument, name) in [("BASE", first), ("CANDIDATE", second)] {
        known_implementation(registry, argument, workload, name)?;
    }
    selection.implementations = vec![first.to_string(), second.to_string()];
    // A side may be on the processor: devices are chosen here, not implementations by their devices.
    let sides = registry.implementations(workload).into_iter();
    if !sides.filter(|one| [first, second].contains(&one.name.as_str())).any(|one| selection.on_device(one)) {
        let problem = format!("neither side runs on {}", selection.devices.join(","));
        return Err(InputError::new("--device", problem, "a device of one of the sides, or no --device"));
    }
    selection.devices.clear();
    let mut cells = Plan::expand(registry, &selection)?.cells;
    for cell in &mut cells {
        let find = |name: &str| cell.implementations.iter().find(|known| known.name == name).cloned();
        let both: Vec<Implementation> = [first, second].into_iter().filter_map(find).collect();
        cell.implementations = both;
    }
    Ok((cells, [first.to_string(), second.to_string()]))
}

fn side<'a>(argument: &str, text: &'a str) -> Result<(&'a str, &'a str), InputError> {
    match text.split_once(':') {
        Some((workload, implementation)) if !workload.is_empty() && !implementation.is_empty() => {
            Ok((workload, implementation))
        }
        _ => Err(InputError::new(argument, format!("'{text}' names no implementation"), "WORKLOAD:IMPLEMENTATION")
            .help("`list` shows both, for example fma:simd")),
    }
}

/// Groups and patterns are no tasks: a side is one implementation.
fn known_workload(registry: &Registry, argument: &str, name: &str) -> Result<(), InputError> {
    if registry.find(name).is_some() {
        return Ok(());
    }
    let known = || registry.workloads().iter().map(|workload| workload.name());
    let error = InputError::new(argument, format!("there is no workload '{name}'"), "one that `list` shows");
    Err(match nearest(name, known()) {
        Some(near) => error.help(format!("did you mean {near}?")),
        None => error,
    })
}

fn known_implementation(registry: &Registry, argument: &str, workload: &str, name: &str) -> Result<(), InputError> {
    let known: Vec<&str> = registry.implementations(workload).into_iter().map(|known| known.name.as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let error = InputError::new(
        argument,
        format!("{workload} has no implementation '{name}'"),
        format!("one of {}", known.join(", ")),
    );
    Err(match nearest(name, known) {
        Some(near) => error.help(format!("did you mean {workload}:{near}?")),
        None => error,
    })
}

/// Baseline and candidate: which implementations of the cell, in which programs.
fn sides(cell: &Cell, which: [usize; 2], launches: [&Launch; 2], ask: &Ask) -> Sides {
    let implementations = which.map(|index| &cell.implementations[index]);
    let spec = |side: usize| Spec {
        launch: launches[side].clone(),
        open: Open {
            asked: Asked::new(&cell.case, &implementations[side].name),
            device: ask
                .devices
                .as_ref()
                .and_then(|all| Some(all.device_for(implementations[side]).ok()?.id().to_string())),
            seed: ask.seed,
            probes: ask.probes,
            slot_min_ns: SLOT_NS,
            warm_up_ns: WARM_UP_NS,
            long_run_ns: LONG_RUN_NS,
            pin: implementations.iter().all(|one| one.parallelism == Parallelism::Single),
            ..Open::default()
        },
        together: true,
    };
    Sides { baseline: spec(0), candidate: spec(1), parallelism: implementations.map(|one| one.parallelism) }
}

fn candidate_of(cell: &Cell, index: usize, launch: &Launch) -> Candidate {
    let implementation = &cell.implementations[index];
    Candidate {
        case: cell.case.clone(),
        implementation: implementation.name.clone(),
        parallelism: implementation.parallelism,
        items: cell.workload.work(&cell.case).items,
        program: launch.program.clone(),
    }
}
