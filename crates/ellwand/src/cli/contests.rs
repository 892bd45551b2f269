//! The sides of `compare`: shell commands, programs, revisions, or implementations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ellwand_bench::Plan;
use ellwand_bench::arms::{LONG_RUN_NS, Sides, WARM_UP_NS};
use ellwand_bench::block::Spec;
use ellwand_bench::plan::{Cell, check_devices_known};
use ellwand_bench::settings::SLOT_NS;
use ellwand_bench::worker::{Asked, Launch, Open};
use ellwand_core::{Caches, Case, DeviceKind, Implementation, InputError, Parallelism, Registry, Tolerance, Work};

use super::args::CompareArgs;
use super::exit::{Failure, unknown};
use super::{baseline, ceilings, plan};

/// Two things to compare at one case.
pub(super) struct Contest {
    pub(super) case: String,
    pub(super) names: [String; 2],
    pub(super) what: What,
    /// The subject of budgets; `None` for shell commands.
    pub(super) candidate: Option<Candidate>,
}

pub(super) enum What {
    Workers(Box<Sides>),
    Commands([String; 2]),
}

/// The candidate as the subject of budgets.
pub(super) struct Candidate {
    pub(super) case: Case,
    pub(super) implementation: String,
    pub(super) parallelism: Parallelism,
    pub(super) work: Work,
    /// True if it runs on the CPU.
    pub(super) on_host: bool,
    /// The program that contains it.
    pub(super) program: PathBuf,
    /// What the workload remarks on the case.
    pub(super) remarks: Vec<String>,
}

/// How arms are run, besides what they compute.
struct Ask {
    /// Devices in order of preference, if the user chose some.
    devices: Option<Registry>,
    seed: u64,
    /// True if memory must be read for a budget.
    probes: bool,
}

/// Leaves each remark of a workload to the first contest that has it.
pub(super) fn remark_once(contests: &mut [Contest]) {
    let mut remarked = BTreeSet::new();
    for candidate in contests.iter_mut().filter_map(|contest| contest.candidate.as_mut()) {
        candidate.remarks.retain(|remark| remarked.insert(remark.clone()));
    }
}

/// The contests of two sides: shell commands, programs, or implementations.
pub(super) fn contests(registry: &Registry, args: &CompareArgs, probes: bool) -> Result<Vec<Contest>, Failure> {
    let wanted = &args.cases.device;
    check_devices_known(registry, wanted)?;
    let devices = (!wanted.is_empty()).then(|| plan::preferring(registry, wanted));
    let ask = Ask { devices, seed: args.cases.seed(), probes };
    if let Some(revision) = &args.baseline {
        return of_revision(registry, args, revision, &ask);
    }
    let [baseline, candidate] = args.sides()[..] else {
        return Err(InputError::new("CANDIDATE", "only one side is given", "two sides")
            .help("give two implementations (WORKLOAD:IMPLEMENTATION) or two records; two programs with --workload, two shell commands with --command")
            .into());
    };
    if args.command {
        return Ok(of_commands(args, [baseline, candidate])?);
    }
    if let Some(workload) = &args.workload {
        let programs = [baseline, candidate].map(Path::new);
        return Ok(of_programs(registry, args, workload, programs, &[baseline.clone(), candidate.clone()], &ask)?);
    }
    if !args.implementation.is_empty() {
        let problem = "the sides name their implementations";
        return Err(InputError::new(
            "--implementation",
            problem,
            "no --implementation, or --workload with two programs",
        )
        .into());
    }
    let given = two_sides(registry, baseline, candidate)?;
    let (cells, names) = implementations(registry, args, &given)?;
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

fn of_commands(args: &CompareArgs, sides: [&String; 2]) -> Result<Vec<Contest>, InputError> {
    args.refuse_cases("shell commands have no cases")?;
    if let Some(empty) = sides.iter().find(|command| command.trim().is_empty()) {
        return Err(InputError::new("--command", format!("'{empty}' is not a command"), "two shell commands"));
    }
    if args.prepare.len() > 2 {
        let problem = format!("it is given {} times", args.prepare.len());
        return Err(InputError::new("--prepare", problem, "once for both commands, or once for each"));
    }
    // A command may contain characters that move the cursor or start an escape sequence.
    let names = sides
        .map(|command| format!("'{}'", command.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")));
    let what = What::Commands(sides.map(String::clone));
    Ok(vec![Contest { case: "command".into(), names, what, candidate: None }])
}

/// This program at a revision, and as it is now.
fn of_revision(registry: &Registry, args: &CompareArgs, revision: &str, ask: &Ask) -> Result<Vec<Contest>, Failure> {
    let expected = "one WORKLOAD or WORKLOAD:IMPLEMENTATION: both sides are this program";
    let workload = match (&args.sides()[..], &args.workload) {
        ([one], None) => &of_only_workload(registry, one),
        ([], Some(one)) => one,
        ([], None) => return Err(InputError::new("--baseline", "no workload is given", expected).into()),
        ([.., side], _) => {
            return Err(
                InputError::new("CANDIDATE", format!("'{side}' is one too many with --baseline"), expected).into()
            );
        }
    };
    let candidate = std::env::current_exe().context("this program's own path is unknown")?;
    // Report spelling errors before anything is built.
    let names = [revision.to_string(), "the work tree".to_string()];
    of_programs(registry, args, workload, [&candidate, &candidate], &names, ask)?;
    let built = baseline::build(revision, &candidate, args.baseline_args.as_deref())?;
    Ok(of_programs(registry, args, workload, [&built, &candidate], &names, ask)?)
}

/// Two programs built on Ellwand, at every selected case and implementation.
fn of_programs(
    registry: &Registry,
    args: &CompareArgs,
    workload: &str,
    programs: [&Path; 2],
    names: &[String; 2],
    ask: &Ask,
) -> Result<Vec<Contest>, InputError> {
    for (argument, program) in ["BASE", "CANDIDATE"].into_iter().zip(programs) {
        if !program.is_file() {
            return Err(InputError::new(argument, format!("{} is not a file", program.display()), "a program")
                .help("without --workload the sides are WORKLOAD:IMPLEMENTATION"));
        }
    }
    // A name without a slash would be looked up in PATH.
    let paths = programs.map(|program| std::path::absolute(program).unwrap_or_else(|_| program.to_path_buf()));
    let launches = paths.map(Launch::program);
    let cells = Plan::expand(registry, &args.selection(workload))?.cells;
    ceilings::check_memory(&cells, true, Caches::Warm)?;
    let contest = |cell: &Cell, index: usize| Contest {
        case: format!("{} {}", cell.case.id(), cell.implementations[index].name),
        names: names.clone(),
        what: What::Workers(Box::new(sides(cell, [index, index], [&launches[0], &launches[1]], ask))),
        candidate: Some(candidate_of(cell, index, &launches[1])),
    };
    let all = cells.iter().flat_map(|cell| (0..cell.implementations.len()).map(move |index| (cell, index)));
    Ok(all.map(|(cell, index)| contest(cell, index)).collect())
}

/// The cases, each with baseline and candidate, and the names of the two.
fn implementations(
    registry: &Registry,
    args: &CompareArgs,
    [(workload, first), (other, second)]: &[(&str, &str); 2],
) -> Result<(Vec<Cell>, [String; 2]), InputError> {
    let [workload, first, other, second] = [*workload, *first, *other, *second];
    for (argument, name) in [("BASE", workload), ("CANDIDATE", other)] {
        known_workload(registry, argument, name)?;
    }
    if workload != other {
        let problem = format!("{workload} and {other} are different tasks");
        let mut there = registry.implementations(workload).into_iter().map(|one| format!("{workload}:{}", one.name));
        let other = there.clone().find(|one| *one != format!("{workload}:{first}")).or_else(|| there.next_back());
        let expected = format!("an implementation of {workload}, such as {}", other.unwrap_or_default());
        return Err(InputError::new("CANDIDATE", problem, expected));
    }
    for (argument, name) in [("BASE", first), ("CANDIDATE", second)] {
        known_implementation(registry, argument, workload, name)?;
    }
    let mut selection = args.selection(workload);
    selection.implementations = vec![first.to_string(), second.to_string()];
    // A side may run on the CPU: this chooses devices, not implementations by device.
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

/// The name with its workload, if it is an implementation of the program's only workload.
fn of_only_workload(registry: &Registry, name: &str) -> String {
    let listed = listed(registry);
    let [only] = listed[..] else { return name.into() };
    let is_one = registry.implementations(only).into_iter().any(|one| one.name == name);
    if is_one && registry.find(name).is_none() { format!("{only}:{name}") } else { name.into() }
}

/// The program's workloads without those of the self-check, which every program contains.
fn listed(registry: &Registry) -> Vec<&str> {
    let all = registry.workloads().iter().map(|workload| workload.name());
    all.filter(|name| !name.starts_with("selfcheck-")).collect()
}

/// Workload and implementation of both sides. A side without a workload uses that of the other, or the program's only
/// one.
fn two_sides<'a>(
    registry: &'a Registry,
    baseline: &'a str,
    candidate: &'a str,
) -> Result<[(&'a str, &'a str); 2], InputError> {
    let listed = listed(registry);
    let split = [baseline, candidate].map(|text| text.split_once(':'));
    let only = match listed[..] {
        [only] => Some(only),
        _ => None,
    };
    let usual = split.iter().flatten().map(|(workload, _)| *workload).next().or(only);
    let side = |argument: &str, text: &'a str, split: Option<(&'a str, &'a str)>| {
        let found = split.or_else(|| Some((usual?, text)));
        found.filter(|(workload, name)| !workload.is_empty() && !name.is_empty()).ok_or_else(|| {
            let error =
                InputError::new(argument, format!("'{text}' names no implementation"), "WORKLOAD:IMPLEMENTATION");
            let own = listed.iter().find_map(|workload| registry.implementations(workload).into_iter().next());
            match own {
                Some(one) => error.help(format!("`list` shows both, for example {}:{}", one.workload, one.name)),
                None => error,
            }
        })
    };
    Ok([side("BASE", baseline, split[0])?, side("CANDIDATE", candidate, split[1])?])
}

/// Refuses groups and patterns: a side is one implementation.
fn known_workload(registry: &Registry, argument: &str, name: &str) -> Result<(), InputError> {
    if registry.find(name).is_some() {
        return Ok(());
    }
    let known = registry.workloads().iter().map(|workload| workload.name());
    let error = InputError::new(argument, format!("there is no workload '{name}'"), "one that `list` shows");
    Err(error.near(name, known))
}

fn known_implementation(registry: &Registry, argument: &str, workload: &str, name: &str) -> Result<(), InputError> {
    let known = registry.implementations(workload).into_iter().map(|known| known.name.as_str());
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    let sides: Vec<String> = known.map(|known| format!("{workload}:{known}")).collect();
    let sides: Vec<&str> = sides.iter().map(String::as_str).collect();
    let problem = format!("{workload} has no implementation '{name}'");
    Err(unknown(argument, problem, &format!("{workload}:{name}"), &sides))
}

/// Baseline and candidate: the implementations of the cell and their programs.
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
            allowed: cell.allowed,
            probes: ask.probes,
            slot_min_ns: SLOT_NS,
            warm_up_ns: WARM_UP_NS,
            long_run_ns: LONG_RUN_NS,
            pin: implementations.iter().all(|one| one.parallelism == Parallelism::Single),
            ..Open::default()
        },
        together: true,
    };
    let exact = cell.workload.tolerance(&cell.case) == Tolerance::Exact;
    Sides { baseline: spec(0), candidate: spec(1), parallelism: implementations.map(|one| one.parallelism), exact }
}

fn candidate_of(cell: &Cell, index: usize, launch: &Launch) -> Candidate {
    let implementation = &cell.implementations[index];
    Candidate {
        case: cell.case.clone(),
        implementation: implementation.name.clone(),
        parallelism: implementation.parallelism,
        work: cell.workload.work(&cell.case),
        on_host: implementation.needs == DeviceKind::Cpu,
        program: launch.program.clone(),
        remarks: cell.workload.remarks(&cell.case),
    }
}
