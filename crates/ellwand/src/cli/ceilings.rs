//! The ceilings of this machine, measured once and cached, so that every run can report the share of them that it
//! reached.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ellwand_bench::environment::allowed_cores;
use ellwand_bench::settings::Effort;
use ellwand_bench::{Cell, Instrument, Interrupted, machine};
use ellwand_core::case::Fnv;
use ellwand_core::ceiling::{Ceiling, CeilingKind};
use ellwand_core::record::{Environment, Measurement, Settings};
use ellwand_core::{Caches, DeviceKind, InputError, Parallelism, Registry};
use ellwand_report::units;
use serde::{Deserialize, Serialize};

use super::eta::Terms;
use super::progress::Progress;
use super::{output, signals};

/// The machine, with the devices that the registry found and no ceilings yet.
pub(super) fn environment(registry: &Registry) -> Environment {
    let devices = registry.devices().iter().map(|device| (device.id().to_string(), device.about())).collect();
    Environment { devices, ..ellwand_bench::environment::detect() }
}

/// Ceilings, and the measurements they come from.
type Measured = (Vec<Ceiling>, Vec<Measurement>);

/// The registry with the calibration workloads, which a user's own program does not list.
pub(super) fn calibrated(registry: &Registry) -> Registry {
    let mut registry = registry.clone();
    if !registry.workloads().iter().any(|workload| workload.groups().contains(&"calibration")) {
        ellwand_calibration::register(&mut registry);
    }
    registry
}

/// Measures all ceilings again and caches them.
pub(super) fn measure(registry: &Registry, environment: &Environment, effort: Effort) -> Result<Measured, Interrupted> {
    let registry = &calibrated(registry);
    let measured = of_new(registry, environment, effort, &new_cells(registry, environment, None, ALL))?;
    // A quick measurement does not replace ceilings that were measured with more care.
    if replaces(effort, environment) {
        keep(environment, ALL, &measured.0);
    }
    Ok(measured)
}

/// Ceilings of data of any size.
const ALL: u64 = u64::MAX;

/// The ceilings that bound computations on up to `data` bytes. Measures and caches those that are not cached yet.
pub(super) fn of_data(registry: &Registry, environment: &Environment, data: u64) -> Result<Vec<Ceiling>, Interrupted> {
    let registry = &calibrated(registry);
    let (from, mut ceilings) = read(environment).map_or((None, Vec::new()), |known| (Some(known.data), known.ceilings));
    let new = new_cells(registry, environment, from, data.max(from.unwrap_or(0)));
    if new.iter().all(Vec::is_empty) {
        return Ok(ceilings);
    }
    let of = if data == ALL { String::new() } else { format!(" for {} of data", units::human(data as f64, "B")) };
    output::note(&format!(
        "measuring the ceilings of this machine{of} (once; `ellwand machine` measures all of them again)"
    ));
    ceilings.extend(of_new(registry, environment, Effort::Quick, &new)?.0);
    ceilings.sort_by(|a, b| order(a).cmp(&order(b)));
    keep(environment, data, &ceilings);
    Ok(ceilings)
}

/// Measures the cells of the limits and those around the crossing of stores.
fn of_new(
    registry: &Registry,
    environment: &Environment,
    effort: Effort,
    [limits, around]: &[Vec<Cell>; 2],
) -> Result<Measured, Interrupted> {
    let measured = of_cells(registry, environment, effort, limits, around)?;
    // On one processor, one thread and all threads are the same.
    if let Some(warning) = hindered(&measured.0).filter(|_| environment.cores > 1) {
        output::note(&warning);
    }
    Ok(measured)
}

/// The cells of the limits and around the crossing of stores for up to `to` bytes, without those for up to `from` bytes.
fn new_cells(registry: &Registry, environment: &Environment, from: Option<u64>, to: u64) -> [Vec<Cell>; 2] {
    let key = |cell: &Cell| (cell.case.id(), cell.implementations.first().map(|one| one.name.clone()));
    [machine::cells, machine::cells_of_crossing].map(|cells| {
        let known = from.map(|from| cells(registry, environment, from)).unwrap_or_default();
        let known: BTreeSet<_> = known.iter().map(key).collect();
        let mut new = cells(registry, environment, to);
        new.retain(|cell| !known.contains(&key(cell)));
        new
    })
}

fn order(ceiling: &Ceiling) -> (u8, &str, bool, u64) {
    let many = ceiling.parallelism == Parallelism::Many;
    (ceiling.kind as u8, &ceiling.device, many, ceiling.footprint_bytes)
}

fn keep(environment: &Environment, data: u64, ceilings: &[Ceiling]) {
    let (devices, ceilings) = (environment.devices.clone(), ceilings.to_vec());
    let kept = Kept { version: VERSION, devices, data, ceilings };
    output::cache(&kind(environment, &allowed_cores()), environment, &kept);
}

/// All threads together can do what one can. If they reached less than this share of it, other programs ran meanwhile.
const HINDERED: f64 = 0.9;

/// The warning if all threads reached less than one thread, with the worst example.
fn hindered(ceilings: &[Ceiling]) -> Option<String> {
    let rates = || ceilings.iter().filter(|one| one.device == "cpu" && matches!(one.kind.unit(), "B/s" | "FLOP/s"));
    let best = |of: &Ceiling, threads| {
        let alike = rates().filter(|one| (one.kind, &one.level, one.parallelism) == (of.kind, &of.level, threads));
        alike.max_by(|a, b| a.value.total_cmp(&b.value))
    };
    let pair = |of| best(of, Parallelism::Many).zip(best(of, Parallelism::Single));
    let share = |(many, one): &(&Ceiling, &Ceiling)| many.value / one.value;
    let worst = rates().filter_map(pair).min_by(|a, b| share(a).total_cmp(&share(b)));
    let (many, one) = worst.filter(|worst| share(worst) < HINDERED)?;
    let rate = |ceiling: &Ceiling| units::human(ceiling.value, ceiling.kind.unit());
    Some(format!(
        "warning: all threads together reached less than one thread ({} {}: {}, one thread {}), so other programs ran \
         meanwhile, and shares of such ceilings may exceed 100 %; `machine` measures them again",
        one.kind.title(),
        one.level,
        rate(many),
        rate(one)
    ))
}

/// True if ceilings measured now would be cached.
pub(super) fn replaces(effort: Effort, environment: &Environment) -> bool {
    effort != Effort::Quick || read(environment).is_none_or(|known| known.data < ALL)
}

/// Measures the ceilings of devices that are found on request, if they were requested. They are shown but not cached: a
/// run that uses such a device measures it deliberately, and a software device has the processor's limits.
pub(super) fn on_request(registry: &Registry, here: &Environment, effort: Effort) -> Result<Measured, Interrupted> {
    of_cells(registry, here, effort, &machine::cells_on_request(registry), &[])
}

fn of_cells(
    registry: &Registry,
    environment: &Environment,
    effort: Effort,
    limits: &[Cell],
    around: &[Cell],
) -> Result<Measured, Interrupted> {
    let interrupt = signals::stop_on_ctrl_c(signals::NOTHING_KEPT);
    let instrument = Instrument::new(registry, settings(effort), 42, interrupt);
    let budget = Duration::from_nanos(instrument.settings.case_budget_ns);
    let mut progress = Progress::of_cells(registry, limits.iter().chain(around), budget, Terms::default());
    let measured = machine::measure(&instrument, environment, limits, around, &mut |index, _, cell: &Cell| {
        progress.cell(index, &cell.case.id())
    });
    progress.finish();
    measured
}

/// There are many ceilings, and each is the better decile of its slots: a tenth of a second each is enough.
fn settings(effort: Effort) -> Settings {
    let settings = effort.settings();
    let (budget_ms, warm_up_ms) = match effort {
        Effort::Quick => (30, 2),
        Effort::Normal => (90, 5),
        Effort::Thorough => return settings,
    };
    Settings { case_budget_ns: budget_ms * 1_000_000, warm_up_ns: warm_up_ms * 1_000_000, ..settings }
}

/// Version of the set of ceilings and of how they are measured. Raise it with every change: ceilings cached by an older
/// program are then measured again.
const VERSION: u32 = 8;

/// The file in the cache.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// Id and description of the devices at that time: another card may later have the same id.
    devices: Vec<(String, String)>,
    /// Bytes of the largest data whose ceilings are there.
    data: u64,
    ceilings: Vec<Ceiling>,
}

/// Name of the cache file, including what changes a ceiling but is not part of the machine's fingerprint: caches set
/// the footprints, the governor the clock, huge pages the cost of a page fault, and the CPUs in use determine which
/// units they share.
fn kind(here: &Environment, allowed: &[u32]) -> String {
    let mut hash = Fnv::new();
    hash.text(&format!("{:?}", (&here.caches, &here.governor, &here.huge_pages, allowed)));
    format!("ceilings-{:08x}", hash.finish() as u32)
}

/// True if all devices that are present now were present then. Those found on request are not cached.
fn same_devices(now: &[(String, String)], then: &[(String, String)]) -> bool {
    now.iter().filter(|(id, _)| !id.starts_with("wgpu")).all(|device| then.contains(device))
}

/// The cached ceilings of this machine; `None` if there are none.
pub(super) fn stored(environment: &Environment) -> Option<Vec<Ceiling>> {
    read(environment).map(|kept| kept.ceilings)
}

fn read(environment: &Environment) -> Option<Kept> {
    let text = std::fs::read_to_string(path(environment)?).ok()?;
    // A file from another version may not parse.
    let kept: Kept = serde_json::from_str(&text).ok()?;
    if kept.version != VERSION || !same_devices(&environment.devices, &kept.devices) {
        return None;
    }
    // Impossible values mean that the file is damaged; the ceilings are then measured again.
    let plausible = |ceiling: &Ceiling| ceiling.value > 0.0 && ceiling.value < 1e16;
    (!kept.ceilings.is_empty() && kept.ceilings.iter().all(plausible)).then_some(kept)
}

/// Passes the measured size above which non-temporal stores pay on this machine, if any, to the kernels of this
/// process.
pub(super) fn set_streaming_sizes() {
    ellwand_simd::stores::measured_by(|all_threads| {
        let kept = stored(&ellwand_bench::environment::facts()).unwrap_or_default();
        let wanted = if all_threads { Parallelism::Many } else { Parallelism::Single };
        let streamed = |c: &&Ceiling| c.kind == CeilingKind::Streamed && c.device == "cpu" && c.parallelism == wanted;
        // The lower end: just below the crossing the wrong stores cost some per cent, just above it up to half of the time.
        kept.iter().find(streamed).map(|c| c.low as u64)
    });
}

pub(super) fn path(environment: &Environment) -> Option<PathBuf> {
    output::cache_path(&kind(environment, &allowed_cores()), environment)
}

/// Refuses cells that would not fit into this machine's memory, before anything is allocated. Each worker process holds
/// its own inputs and its own buffer for flushing the processor's caches; in a single process, inputs follow one
/// another.
pub(super) fn check_memory(cells: &[Cell], workers: bool, caches: Caches) -> Result<(), InputError> {
    let flush = if caches.is_warm() { 0 } else { ellwand_bench::flush_bytes() };
    match ellwand_bench::environment::available_memory() {
        Some(available) => cells.iter().try_for_each(|cell| fits(cell, workers, flush, available)),
        None => Ok(()),
    }
}

/// `flush`: bytes with which a process flushes the processor's caches; a device uses its own memory for its own caches.
fn fits(cell: &Cell, workers: bool, flush: u64, available: u64) -> Result<(), InputError> {
    let each = || cell.implementations.iter().map(|i| (cell.workload.footprint_of(&cell.case, &i.name), &i.name));
    let most = each().max_by_key(|(bytes, _)| *bytes);
    let here = cell.implementations.iter().filter(|one| one.needs == DeviceKind::Cpu).count() as u64;
    let flush = flush.saturating_mul(if workers { here } else { here.min(1) });
    let arrays = if workers {
        each().fold(0, |sum: u64, (bytes, _)| sum.saturating_add(bytes))
    } else {
        most.map_or(0, |(bytes, _)| bytes)
    };
    let needed = arrays.saturating_add(flush);
    if needed <= available {
        return Ok(());
    }
    let size = |bytes: u64| units::human(bytes as f64, "B");
    let largest = match most {
        Some((bytes, name)) if cell.implementations.len() > 1 => format!(", {name} alone {}", size(bytes)),
        _ => String::new(),
    };
    let flushing = if flush > 0 { format!(", {} of it to flush caches", size(flush)) } else { String::new() };
    let about = if needed == u64::MAX { "more than" } else { "about" };
    let (needed, available) = (size(needed), size(available));
    let problem = format!("it needs {about} {needed}{largest}{flushing}, and {available} are free");
    let error = InputError::new(cell.case.id(), problem, "a case that fits into memory");
    let mut ways = Vec::new();
    let smaller = axes_that_cost(cell);
    if !smaller.is_empty() {
        ways.push(format!("make {} smaller", smaller.join(" or ")));
    }
    if cell.implementations.len() > 1 {
        ways.push("choose fewer implementations with --implementation".into());
    }
    if flush > 0 {
        ways.push("measure with --caches warm".into());
    }
    Err(if ways.is_empty() { error } else { error.help(ways.join(", or ")) })
}

/// The axes for which half the value would need less memory.
fn axes_that_cost(cell: &Cell) -> Vec<String> {
    let needs = |case: &ellwand_core::Case| cell.workload.footprint(case);
    let costs = |axis: &&ellwand_core::Axis| {
        let Some(value) = cell.case.int(axis.name).filter(|value| *value > 1) else { return false };
        let mut half = cell.case.clone();
        half.set(axis.name, value / 2);
        // An invalid case has no footprint.
        let less = needs(&half);
        // If the case needs more than can be expressed, half the value may as well.
        let all = needs(&cell.case);
        cell.workload.check(&half).is_ok() && less > 0 && (less < all || all == u64::MAX)
    };
    cell.workload.axes().iter().filter(costs).map(|axis| format!("--{}", axis.name)).collect()
}

#[cfg(test)]
mod tests {
    use ellwand_core::record::Cache;
    use ellwand_core::{Case, CeilingKind, Provenance};

    use super::*;

    #[test]
    fn flush_buffers_count_for_each_process_that_has_them() {
        let registry = calibrated(&Registry::new());
        let workload = registry.find("copy").unwrap().clone();
        let case = Case::new("copy", vec![("bytes".into(), (1 << 20).into()), ("passes".into(), 1.into())]);
        let named = |names: &[&str]| {
            let all = registry.implementations("copy").into_iter();
            let implementations = all.filter(|one| names.contains(&&*one.name)).cloned().collect();
            Cell { workload: workload.clone(), case: case.clone(), implementations, allowed: None }
        };
        let each = workload.footprint(&case);
        let flush = 100 << 20;
        let refused = |names: &[&str], workers, available| fits(&named(names), workers, flush, available).err();
        for (names, workers, needed) in [
            (&["system", "simd"][..], true, 2 * (each + flush)),
            (&["system", "simd"], false, each + flush),
            (&["system"], true, each + flush),
        ] {
            assert_eq!(named(names).implementations.len(), names.len());
            assert!(refused(names, workers, needed).is_none(), "{names:?} {workers}");
            let why = refused(names, workers, needed - 1).unwrap().to_string();
            assert!(why.contains("to flush caches") && why.contains("--caches warm"), "{why}");
        }
        assert!(fits(&named(&["system", "simd"]), true, 0, 2 * each).is_ok(), "warm caches need nothing");
    }

    #[test]
    fn all_threads_below_one_are_a_warning() {
        let ceiling = |level: &str, parallelism, value| Ceiling {
            kind: CeilingKind::Copy,
            implementation: "simd".into(),
            device: "cpu".into(),
            parallelism,
            footprint_bytes: 1 << 20,
            level: level.into(),
            value,
            low: value,
            high: value,
            provenance: Provenance::Measured,
        };
        let (one, many) = (Parallelism::Single, Parallelism::Many);
        let mut ceilings = vec![ceiling("L2", one, 40e9), ceiling("L2", many, 80e9), ceiling("L3", one, 13e9)];
        ceilings.push(ceiling("L3", many, 1.7e9));
        let warning = hindered(&ceilings).unwrap();
        assert!(warning.contains("(copy L3: 1.70 GB/s, one thread 13.0 GB/s)"), "{warning}");
        // The best value of a level counts, and a small shortfall is noise.
        ceilings.push(ceiling("L3", many, 12e9));
        assert_eq!(hindered(&ceilings), None);
        assert_eq!(hindered(&ceilings[..1]), None, "nothing to compare with");
    }

    #[test]
    fn ceilings_of_a_machine_in_another_state_are_other_ones() {
        let cache = |bytes| Cache { level: "L3".into(), bytes, shared_by: 2 };
        let here = Environment { caches: vec![cache(32 << 20)], ..Environment::default() };
        let shrunk = Environment { caches: vec![cache(16 << 20)], ..here.clone() };
        let saving = Environment { governor: Some("powersave".into()), ..here.clone() };
        let huge = Environment { huge_pages: Some("never".into()), ..here.clone() };
        let busy = Environment { load: Some(3.0), ..here.clone() };
        let usual = kind(&here, &[0, 1]);
        assert!([shrunk, saving, huge].iter().all(|other| kind(other, &[0, 1]) != usual));
        assert!(kind(&here, &[0, 2]) != usual && kind(&busy, &[0, 1]) == usual);
    }

    #[test]
    fn a_run_measures_what_bounds_its_data_and_a_larger_one_only_the_rest() {
        let registry = calibrated(&Registry::new());
        let cache = |level: &str, bytes, shared_by| Cache { level: level.into(), bytes, shared_by };
        let caches = vec![cache("L1", 32 << 10, 1), cache("L2", 1 << 20, 1), cache("L3", 32 << 20, 2)];
        let here = Environment { cores: 2, caches, ..Environment::default() };
        let kib = |cells: &[Cell]| -> Vec<i64> {
            let one = |cell: &&Cell| {
                cell.workload.name() == "copy" && cell.implementations[0].parallelism == Parallelism::Single
            };
            cells.iter().filter(one).filter_map(|cell| Some(cell.case.int("bytes")? >> 10)).collect()
        };
        let new = |from, to: u64| {
            let [limits, around] = new_cells(&registry, &here, from, to);
            (kib(&limits), limits.iter().any(|cell| cell.workload.name() == "null"), !around.is_empty())
        };
        let all = vec![16, 512, 4 << 10, 16 << 10, 128 << 10];
        assert_eq!(new(None, 0), (all[..1].to_vec(), true, false));
        assert_eq!(new(None, 16 << 10), (all[..1].to_vec(), true, false));
        assert_eq!(new(None, 700 << 10), (all[..3].to_vec(), true, false));
        assert_eq!(new(None, ALL), (all.clone(), true, true));
        assert_eq!(new(Some(700 << 10), 3 << 20), (vec![], false, true));
        assert_eq!(new(Some(700 << 10), ALL), (all[3..].to_vec(), false, true));
        assert_eq!(new(Some(3 << 20), ALL), (all[3..].to_vec(), false, false));
    }

    #[test]
    fn one_thread_and_all_threads_have_separate_crossings() {
        let registry = calibrated(&Registry::new());
        let caches = vec![Cache { level: "L3".into(), bytes: 32 << 20, shared_by: 2 }];
        let here = Environment { cores: 2, caches, ..Environment::default() };
        let [_, around] = new_cells(&registry, &here, None, ALL);
        let threads = |of: Parallelism| {
            let one = |cell: &&Cell| cell.implementations.iter().all(|one| one.parallelism == of);
            let sizes = around.iter().filter(one).filter_map(|cell| cell.case.int("bytes"));
            assert!(around.iter().all(|cell| cell.implementations.len() == 2), "both kinds of stores");
            sizes.collect::<Vec<_>>()
        };
        let (one, all) = (threads(Parallelism::Single), threads(Parallelism::Many));
        assert!(one.len() > 4 && one == all, "{one:?} {all:?}");
    }

    #[test]
    fn another_card_under_the_same_id_is_measured_again() {
        let devices = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(id, about)| (id.to_string(), about.to_string())).collect()
        };
        let then = devices(&[("cpu", "two cores"), ("cuda:0", "card A")]);
        assert!(same_devices(&then, &then));
        assert!(same_devices(&devices(&[("cpu", "two cores")]), &then), "the card is not asked for");
        assert!(same_devices(&devices(&[("cpu", "two cores"), ("wgpu:0", "in software")]), &then));
        assert!(!same_devices(&devices(&[("cpu", "two cores"), ("cuda:0", "card B")]), &then));
        assert!(!same_devices(&devices(&[("cuda:1", "card A")]), &then), "a second one was never measured");
    }
}
