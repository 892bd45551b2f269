//! `apply`: a kernel as a tool on the user's own arrays.

use std::path::Path;

use clap::ArgMatches;
use ellwand_bench::check::guarded;
use ellwand_bench::plan::{Selection, cases, check_devices_known};
use ellwand_core::device::Device;
use ellwand_core::error::{InputError, PrepareError, nearest};
use ellwand_core::implementation::Implementation;
use ellwand_core::reading::Reading;
use ellwand_core::tensor::Tensors;
use ellwand_core::workload::{Fit, Workload};
use ellwand_core::{Case, Registry, Value};
use serde_json::json;

use super::command::{is_set, selected, text};
use super::exit::{Exit, Failure};
use super::{Outcome, output};
use crate::arrays;

pub(super) fn apply(registry: &Registry, matches: &ArgMatches, line: Vec<String>) -> Outcome {
    let selection = selected(registry, matches);
    let name = selection.workloads.first().map(String::as_str).unwrap_or_default();
    let workload = registry.select(&selection.workloads)?;
    let [workload] = &workload[..] else {
        return Err(
            InputError::new("WORKLOAD", format!("'{name}' stands for several workloads"), "one workload").into()
        );
    };
    let dir = Path::new(text(matches, "output").unwrap_or("."));
    let case = one_case(workload.as_ref(), &selection)?;
    let given = super::given::given(matches, &[(workload.as_ref(), &case)])?.unwrap_or_default();
    check_devices_known(registry, &selection.devices)?;
    let registry = &super::chosen::preferring(registry, &selection);
    let (implementation, device) = implementation(registry, workload.name(), &selection)?;
    let (case, inputs) = workload.adopt(&case, given, Fit::Whole)?;
    workload.check(&case)?;
    check_contradictions(workload.as_ref(), &selection, &case)?;
    make_room(dir, is_set(matches, "overwrite"))?;
    output::directory("-o", dir)?;

    let broken = |error: String| Failure::Other(anyhow::anyhow!("{}:{} {error}", workload.name(), implementation.name));
    let mut prepared = guarded("prepare", || (implementation.prepare)(&case, &inputs, device))
        .map_err(|error| broken(format!("failed: {error}")))?
        .map_err(|error| match error {
            PrepareError::Unsupported(why) => Failure::Input(InputError::new(
                "--implementation",
                format!("{} is unsupported for this case: {why}", implementation.name),
                "another implementation or case",
            )),
            PrepareError::Failed(error) => broken(format!("failed: {error}")),
        })?;
    guarded("run", || {
        prepared.run();
        prepared.sync()
    })
    .and_then(|synced| synced)
    .map_err(|error| broken(format!("failed: {error}")))?;
    let outputs = guarded("output", || prepared.output())
        .and_then(|output| output)
        .map_err(|error| broken(format!("failed: {error}")))?;
    if is_set(matches, "verify") {
        let expected = workload.reference(&case, &inputs)?;
        let verdict = workload.judge(&case, &inputs, &expected, &outputs);
        if !verdict.passed {
            output::note(&format!(
                "error: {}:{} is wrong: {}; nothing was written",
                workload.name(),
                implementation.name,
                verdict.detail
            ));
            return Ok(Exit::Wrong);
        }
    }
    let readings = workload.readings(&case, &inputs, &outputs);
    for remark in workload.remarks(&case) {
        output::note(&format!("note: {remark}"));
    }
    write(dir, &outputs, &about(&case, implementation, &prepared.what_ran(), &outputs, &readings, &line))?;
    tell(dir, &outputs, &readings)
}

/// What the user said of the case must be what the arrays say.
fn check_contradictions(workload: &dyn Workload, selection: &Selection, case: &Case) -> Result<(), InputError> {
    for axis in workload.axes() {
        let Some(asked) = selection.axes.get(axis.name).map(|text| axis.parse(text)).transpose()? else { continue };
        let Some(found) = case.get(axis.name) else { continue };
        // A scale is kept in f32 in codes, so that it is compared there.
        let same = match (&asked, found) {
            (Value::Float(a), Value::Float(b)) => *a as f32 == *b as f32,
            (a, b) => a == b,
        };
        if !same {
            return Err(InputError::new(
                format!("--{} {asked}", axis.name),
                format!("the arrays say {found}"),
                "no flag that contradicts the arrays",
            ));
        }
    }
    Ok(())
}

/// Refuses a directory that holds other results, or clears them: arrays of two calls side by side would be taken for one.
fn make_room(dir: &Path, overwrite: bool) -> Result<(), Failure> {
    let about = dir.join("apply.json");
    if !about.exists() {
        return Ok(());
    }
    if !overwrite {
        return Err(InputError::new(
            "-o",
            format!("{} holds the arrays of another call", dir.display()),
            "a new directory",
        )
        .help("--overwrite replaces them")
        .into());
    }
    // The JSON goes first: a directory without it does not look whole.
    let known: serde_json::Value =
        std::fs::read_to_string(&about).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    std::fs::remove_file(&about)?;
    let files = known["arrays"].as_object().into_iter().flatten().filter_map(|(_, array)| array["file"].as_str());
    for file in files.filter(|file| !file.contains(['/', '\\'])) {
        let _ = std::fs::remove_file(dir.join(file));
    }
    Ok(())
}

/// The single case that the flags describe; an axis with several defaults that the arrays decide takes its first.
fn one_case(workload: &dyn Workload, selection: &Selection) -> Result<Case, InputError> {
    for axis in workload.axes() {
        let names = std::iter::once(&axis.name).chain(&axis.aliases);
        if let Some(text) = names.filter_map(|name| selection.axes.get(*name)).next()
            && axis.parse_list(text)?.len() > 1
        {
            return Err(InputError::new(
                format!("--{}", axis.name),
                format!("'{text}' is a sweep"),
                "one value, since `apply` runs one case",
            ));
        }
    }
    if let Some(unknown) = selection.axes.keys().find(|name| !workload.axes().iter().any(|axis| axis.name == **name)) {
        return Err(InputError::new(
            format!("--{unknown}"),
            format!("{} has no such axis", workload.name()),
            "an axis that `list` shows",
        ));
    }
    let cases = cases(workload, selection)?;
    cases.into_iter().next().ok_or_else(|| InputError::new(workload.name(), "it has no case", "a workload with a case"))
}

/// The implementation named, or the last of the single-threaded ones that can run here: registration goes from plain to fast.
fn implementation<'a>(
    registry: &'a Registry,
    workload: &str,
    selection: &Selection,
) -> Result<(&'a Implementation, &'a dyn Device), InputError> {
    let all = registry.implementations(workload);
    let chosen = match selection.implementations.first().map(String::as_str) {
        Some(name) => all.iter().copied().find(|implementation| implementation.name == name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|implementation| implementation.name.as_str()).collect();
            let error = InputError::new(
                "--implementation",
                format!("'{name}' is unknown"),
                format!("one of {}", names.join(", ")),
            );
            match nearest(name, names) {
                Some(near) => error.help(format!("did you mean {near}?")),
                None => error,
            }
        })?,
        None => all
            .iter()
            .copied()
            .filter(|i| selection.on_device(i))
            .rfind(|i| registry.device_for(i).is_ok() && i.parallelism == ellwand_core::Parallelism::Single)
            .ok_or_else(|| {
                InputError::new(
                    "--implementation",
                    format!("{workload} has none that can run here"),
                    "another workload",
                )
            })?,
    };
    if !selection.on_device(chosen) {
        return Err(InputError::new(
            "--device",
            format!("{} runs on {} alone", chosen.name, chosen.needs),
            "another implementation, or no --device",
        ));
    }
    let device = registry.device_for(chosen).map_err(|why| {
        InputError::new("--implementation", format!("{}: {why}", chosen.name), "one that `list` shows as available")
    })?;
    Ok((chosen, device.as_ref()))
}

/// What ran, as JSON: enough to repeat it and to read the arrays.
fn about(
    case: &Case,
    implementation: &Implementation,
    what_ran: &str,
    outputs: &Tensors,
    readings: &[Reading],
    line: &[String],
) -> serde_json::Value {
    let arrays: serde_json::Map<String, serde_json::Value> = outputs
        .iter()
        .map(|(name, tensor)| {
            (
                name.to_string(),
                json!({ "file": format!("{name}.npy"), "dtype": tensor.dtype().name(), "shape": tensor.shape() }),
            )
        })
        .collect();
    let params: serde_json::Map<String, serde_json::Value> = case
        .params
        .iter()
        .map(|(axis, value)| {
            (axis.clone(), serde_json::to_value(ellwand_core::record::ParamValue::from(value)).unwrap_or_default())
        })
        .collect();
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

/// The arrays first, the JSON last: a directory with apply.json is complete.
fn write(dir: &Path, outputs: &Tensors, about: &serde_json::Value) -> Result<(), Failure> {
    for (name, tensor) in outputs.iter() {
        let path = dir.join(format!("{name}.npy"));
        arrays::write(&path, tensor)
            .map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", path.display()))?;
    }
    output::text_file(&dir.join("apply.json"), &format!("{about:#}\n"))
}

fn tell(dir: &Path, outputs: &Tensors, readings: &[Reading]) -> Outcome {
    output::result(|out| {
        for (name, tensor) in outputs.iter() {
            writeln!(out, "{} {} {:?}", dir.join(format!("{name}.npy")).display(), tensor.dtype(), tensor.shape())?;
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
