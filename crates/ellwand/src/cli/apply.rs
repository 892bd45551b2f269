//! `apply`: runs a kernel as a tool on the user's own arrays.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ellwand_bench::check::guarded;
use ellwand_bench::plan::{Selection, cases, check_devices_known};
use ellwand_core::device::Device;
use ellwand_core::error::{InputError, PrepareError};
use ellwand_core::implementation::Implementation;
use ellwand_core::reading::Reading;
use ellwand_core::tensor::{Tensor, Tensors};
use ellwand_core::workload::{Fit, Workload};
use ellwand_core::{Case, Registry, Value};
use serde_json::{Map, Value as Json, json};

use super::args::ApplyArgs;
use super::differences::Other;
use super::exit::{Exit, Failure, Outcome, unknown};
use super::stage::Stage;
use super::{output, plan};
use crate::arrays;

pub(super) fn apply(registry: &Registry, args: &ApplyArgs, line: &[String]) -> Outcome {
    let selection = args.selection();
    let workload = registry.select(&selection.workloads)?;
    let [workload] = &workload[..] else {
        let problem = format!("'{}' matches several workloads", args.workload);
        return Err(InputError::new("WORKLOAD", problem, "one workload").into());
    };
    let dir = &args.output;
    let case = one_case(workload.as_ref(), &selection)?;
    let given = super::given::read(&args.input, &[(workload.as_ref(), &case)])?.unwrap_or_default();
    check_devices_known(registry, &selection.devices)?;
    let registry = &plan::preferring(registry, &selection.devices);
    let chosen = implementations(registry, workload.name(), &selection)?;
    let (case, inputs) = workload.adopt(&case, given, Fit::Whole)?;
    workload.check(&case)?;
    check_contradictions(workload.as_ref(), &selection, &case)?;
    let earlier = earlier(dir, args)?;

    let expected = args.verify.then(|| workload.reference(&case, &inputs)).transpose()?;
    let mut kept: Option<(&Implementation, String, Tensors)> = None;
    let mut others = Vec::new();
    for (implementation, device) in chosen {
        let (what_ran, outputs) = computed(implementation, device, &case, &inputs)?;
        let verdict = expected.as_ref().map(|expected| workload.judge(&case, &inputs, expected, &outputs));
        if let Some(verdict) = verdict.filter(|verdict| !verdict.passed) {
            let name = format!("{}:{}", workload.name(), implementation.name);
            output::note(&format!("error: {name} is wrong: {}; nothing was written", verdict.detail));
            return Ok(Exit::Wrong);
        }
        match &kept {
            None => kept = Some((implementation, what_ran, outputs)),
            Some((_, _, first)) => others.push(Other::new(implementation, what_ran, first, &outputs)),
        }
    }
    let Some((implementation, what_ran, outputs)) = kept else {
        return Err(InputError::new("--implementation", "none was named", "at least one").into());
    };
    let readings = workload.readings(&case, &inputs, &outputs);
    print_notes(workload.as_ref(), &selection, &case, implementation);
    check(dir, &outputs, args)?;
    output::directory("-o", dir)?;
    let stage = Stage::begin(dir)?;
    let mut about = about(&case, implementation, &what_ran, &outputs, &readings, line);
    if !others.is_empty() {
        about["compared"] = others.iter().map(Other::json).collect();
    }
    write(stage.dir(), &outputs, &about)?;
    stage.place(&earlier)?;
    print(dir, &outputs, &readings, implementation, &others)
}

/// Prints what the user should know without asking: defaults that affected the result, remarks on the case, and limits.
fn print_notes(workload: &dyn Workload, selection: &Selection, case: &Case, implementation: &Implementation) {
    if let Some(chosen) = chosen_defaults(workload, selection, case) {
        output::note(&format!("note: {chosen}"));
    }
    for (axis, value) in open_defaults(workload, selection, case) {
        output::note(&format!("note: computed with --{axis} {value}, the default: the arrays do not determine it"));
    }
    for remark in workload.remarks(case) {
        output::note(&format!("note: {remark}"));
    }
    for limit in &implementation.limits {
        output::note(&format!("note: {} is right for {}", implementation.name, limit.range));
    }
}

/// What ran, and its outputs.
fn computed(
    implementation: &Implementation,
    device: &dyn Device,
    case: &Case,
    inputs: &Tensors,
) -> Result<(String, Tensors), Failure> {
    let failed = |error: &dyn Display| {
        Failure::Other(anyhow::anyhow!("{}:{} failed: {error}", implementation.workload, implementation.name))
    };
    let mut prepared = guarded("prepare", || (implementation.prepare)(case, inputs, device))
        .map_err(|error| failed(&error))?
        .map_err(|error| match error {
            PrepareError::Unsupported(why) => {
                let problem = format!("{} is unsupported for this case: {why}", implementation.name);
                InputError::new("--implementation", problem, "another implementation or case").into()
            }
            PrepareError::Failed(error) => failed(&error),
        })?;
    let synced = guarded("run", || {
        prepared.run();
        prepared.sync()
    });
    synced.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let outputs = guarded("output", || prepared.output()).map_err(|error| failed(&error))?;
    let outputs = outputs.map_err(|error| failed(&error))?;
    Ok((prepared.what_ran(), outputs))
}

/// Refuses flags that contradict the arrays.
fn check_contradictions(workload: &dyn Workload, selection: &Selection, case: &Case) -> Result<(), InputError> {
    for axis in workload.axes() {
        let Some(asked) = selection.axes.get(axis.name).map(|text| axis.parse(text)).transpose()? else { continue };
        let Some(found) = case.get(axis.name) else { continue };
        // Codes store a scale in f32, so compare it in f32.
        let same = match (&asked, found) {
            (Value::Float(a), Value::Float(b)) => *a as f32 == *b as f32,
            (a, b) => a == b,
        };
        if !same {
            let (flag, problem) = (format!("--{} {asked}", axis.name), format!("the arrays say {found}"));
            return Err(InputError::new(flag, problem, "no flag that contradicts the arrays"));
        }
    }
    Ok(())
}

/// The chosen value of axes that have several defaults and that neither the user nor the arrays decide.
fn chosen_defaults(workload: &dyn Workload, selection: &Selection, case: &Case) -> Option<String> {
    let axes = workload.axes();
    let open = axes.iter().filter(|axis| axis.default.len() > 1 && !selection.axes.contains_key(axis.name));
    let taken: Vec<String> = open
        .filter(|axis| case.get(axis.name) == axis.default.first() && matches!(axis.default[0], Value::Text(_)))
        .map(|axis| {
            let others: Vec<String> = axis.default[1..].iter().map(ToString::to_string).collect();
            format!("--{} {} (not {})", axis.name, axis.default[0], others.join(", "))
        })
        .collect();
    (!taken.is_empty()).then(|| format!("computed with {}, the first default", taken.join(", ")))
}

/// The values of axes that neither the user nor any array decides.
fn open_defaults<'a>(
    workload: &'a dyn Workload,
    selection: &'a Selection,
    case: &'a Case,
) -> impl Iterator<Item = (&'static str, &'a Value)> {
    let open = workload.open_axes().iter().copied();
    open.filter(|name| !selection.axes.contains_key(*name)).filter_map(|name| Some((name, case.get(name)?)))
}

/// The files of an earlier call in the output directory, without inputs of this one: the only files there that a call
/// may remove. Refuses such a directory unless it may be replaced: arrays of two calls would look like one result.
fn earlier(dir: &Path, args: &ApplyArgs) -> Result<Vec<PathBuf>, InputError> {
    let about = dir.join("apply.json");
    if !about.exists() {
        return Ok(Vec::new());
    }
    if !args.overwrite {
        let problem = format!("{} holds the arrays of another call", dir.display());
        return Err(InputError::new("-o", problem, "a new directory").help("--overwrite replaces them"));
    }
    let known: Json =
        std::fs::read_to_string(&about).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let files = known["arrays"].as_object().into_iter().flatten().filter_map(|(_, array)| array["file"].as_str());
    let paths = files.filter(|file| !file.contains(['/', '\\'])).map(|file| dir.join(file));
    Ok(paths.filter(|path| !is_input(path, args)).collect())
}

/// Refuses to replace an input of this call, or unasked a file that no call of this program wrote.
fn check(dir: &Path, outputs: &Tensors, args: &ApplyArgs) -> Result<(), InputError> {
    for (name, _) in outputs.iter() {
        let path = dir.join(array_file(name));
        if is_input(&path, args) {
            let problem = format!("{} is an input of this call and would be replaced", path.display());
            return Err(InputError::new("-o", problem, "another directory"));
        }
        if path.symlink_metadata().is_ok() && !args.overwrite {
            let problem = format!("{} exists and was not written by `apply`", path.display());
            return Err(InputError::new("-o", problem, "a new directory").help("--overwrite replaces it"));
        }
    }
    Ok(())
}

fn array_file(name: &str) -> String {
    format!("{name}.npy")
}

fn is_input(path: &Path, args: &ApplyArgs) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    arrays::files(&args.input).iter().any(|input| input.canonicalize().is_ok_and(|input| input == path))
}

/// The single case that the flags describe; an axis with several defaults takes the first if the arrays decide it.
fn one_case(workload: &dyn Workload, selection: &Selection) -> Result<Case, InputError> {
    for axis in workload.axes() {
        if let Some(text) = selection.axes.get(axis.name)
            && axis.parse_list(text)?.len() > 1
        {
            let (flag, problem) = (format!("--{}", axis.name), format!("'{text}' is a sweep"));
            return Err(InputError::new(flag, problem, "one value, since `apply` runs one case"));
        }
    }
    if let Some(unknown) = selection.axes.keys().find(|name| !workload.axes().iter().any(|axis| axis.name == **name)) {
        let problem = format!("{} has no such axis", workload.name());
        return Err(InputError::new(format!("--{unknown}"), problem, "an axis that `list` shows"));
    }
    let cases = cases(workload, selection)?;
    cases.into_iter().next().ok_or_else(|| InputError::new(workload.name(), "it has no case", "a workload with a case"))
}

/// The named implementations, or the last single-threaded one that can run here: registration goes from plain to fast.
fn implementations<'a>(
    registry: &'a Registry,
    workload: &str,
    selection: &Selection,
) -> Result<Vec<(&'a Implementation, &'a dyn Device)>, InputError> {
    let all = registry.implementations(workload);
    let mut chosen: Vec<&Implementation> = Vec::new();
    for name in &selection.implementations {
        let found = all.iter().copied().find(|implementation| implementation.name == *name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|implementation| implementation.name.as_str()).collect();
            unknown("--implementation", format!("'{name}' is unknown"), name, &names)
        })?;
        if chosen.iter().any(|known| known.name == found.name) {
            let problem = format!("'{name}' is named twice");
            return Err(InputError::new("--implementation", problem, "different implementations to compare"));
        }
        chosen.push(found);
    }
    if chosen.is_empty() {
        let fits = |one: &&Implementation| {
            let single = one.parallelism == ellwand_core::Parallelism::Single;
            single && selection.on_device(one) && registry.device_for(one).is_ok()
        };
        chosen.extend(all.iter().copied().rfind(fits));
    }
    if chosen.is_empty() {
        let problem = format!("{workload} has none that can run here");
        return Err(InputError::new("--implementation", problem, "another workload"));
    }
    let with_device = |chosen: &'a Implementation| {
        if !selection.on_device(chosen) {
            let problem = format!("{} runs only on {}", chosen.name, chosen.needs);
            return Err(InputError::new("--device", problem, "another implementation, or no --device"));
        }
        let device = registry.device_for(chosen).map_err(|why| {
            let expected = "one that `list` shows as available";
            InputError::new("--implementation", format!("{}: {why}", chosen.name), expected)
        })?;
        Ok((chosen, device.as_ref()))
    };
    chosen.into_iter().map(with_device).collect()
}

/// What ran, as JSON: enough to repeat the call and to read the arrays.
fn about(
    case: &Case,
    implementation: &Implementation,
    what_ran: &str,
    outputs: &Tensors,
    readings: &[Reading],
    line: &[String],
) -> Json {
    let array = |(name, tensor): (&str, &Tensor)| {
        let about = json!({ "file": array_file(name), "dtype": tensor.dtype().name(), "shape": tensor.shape() });
        (name.to_string(), about)
    };
    let arrays: Map<String, Json> = outputs.iter().map(array).collect();
    let param = |(axis, value): &(String, Value)| (axis.clone(), json!(value));
    let params: Map<String, Json> = case.params.iter().map(param).collect();
    json!({
        "ellwand": env!("CARGO_PKG_VERSION"),
        "command": line,
        "case": case.id(),
        "params": params,
        "implementation": implementation.name,
        "what_ran": what_ran,
        "arrays": arrays,
        "readings": readings,
    })
}

fn write(dir: &Path, outputs: &Tensors, about: &Json) -> Result<(), Failure> {
    for (name, tensor) in outputs.iter() {
        let path = dir.join(array_file(name));
        arrays::write(&path, tensor).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    output::text_file(&dir.join("apply.json"), &format!("{about:#}\n"))
}

fn print(
    dir: &Path,
    outputs: &Tensors,
    readings: &[Reading],
    implementation: &Implementation,
    others: &[Other],
) -> Outcome {
    output::result(|out| {
        for (name, tensor) in outputs.iter() {
            writeln!(out, "{} {} {:?}", dir.join(format!("{name}.npy")).display(), tensor.dtype(), tensor.shape())?;
        }
        for line in others.iter().flat_map(|other| other.lines(&implementation.name)) {
            writeln!(out, "{line}")?;
        }
        for reading in readings {
            let value = reading.value.map_or_else(
                || format!("unavailable ({})", reading.about),
                |value| ellwand_report::units::human(value, &reading.unit),
            );
            writeln!(out, "{:28} {value}", reading.title)?;
        }
        Ok::<_, std::io::Error>(())
    })?;
    Ok(Exit::Ok)
}
