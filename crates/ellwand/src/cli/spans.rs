//! `run --spans`: the components inside implementations, recorded separately from every headline timing.

use std::path::Path;

use anyhow::Context;
use ellwand_bench::spans::{self, cost};
use ellwand_bench::{Cell, Event, Instrument, Plan};
use ellwand_profile::{LaneKind, Trace, replace_file};

use super::check::named_if_long;
use super::exit::Failure;
use super::output;
use super::progress::Progress;
use super::recording::Recording;
use super::run::staying;

/// Records the components of every cell that is not in the record yet, and writes each implementation's trace next to
/// the record; returns whether the user interrupted.
pub(super) fn record(instrument: &Instrument, plan: Plan, record: &mut Recording) -> Result<bool, Failure> {
    // Before anything else runs in this process, because its spans would be included.
    let cost = cost();
    let mut progress = Progress::new(plan.cells.len());
    let (mut interrupted, mut traces) = (false, 0);
    for (index, mut cell) in plan.cells.into_iter().enumerate() {
        if !record.leave_out(instrument, &mut cell) {
            continue;
        }
        progress.cell(index, &cell.case.id());
        // This process makes inputs and reference, and prints nothing meanwhile.
        let recorded = named_if_long(&cell.case.id(), || staying(|| instrument.spans(&cell, cost, &mut |_: Event| {})));
        let Ok(recordings) = recorded else {
            interrupted = true;
            break;
        };
        for spans::Recording { mut spans, trace } in recordings {
            // A trace without components would show only empty iterations.
            if let Some(trace) = trace.filter(|trace| !spans.nodes.is_empty() || has_device(trace)) {
                let name = name(&cell, &spans.implementation);
                write(&record.dir()?.join(&name), &trace, &format!("{} · {}", spans.case.id, spans.implementation))?;
                spans.trace = Some(name);
                traces += 1;
            }
            record.writer()?.append(&spans)?;
        }
    }
    progress.finish();
    if traces > 0 {
        let plural = if traces == 1 { "trace" } else { "traces" };
        let dir = record.dir()?.display();
        output::note(&format!("{traces} {plural} (*.trace.json) in {dir}: open with Perfetto"));
    }
    Ok(interrupted)
}

/// True if the trace contains device activity.
fn has_device(trace: &Trace) -> bool {
    trace.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }))
}

/// `lattice-encode-1f3a90bc-simd.trace.json`: the digest distinguishes cases and is the same on every machine.
fn name(cell: &Cell, implementation: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(60).collect()
    };
    let digest = cell.case.digest() as u32;
    format!("{}-{digest:08x}-{}.trace.json", plain(&cell.case.workload), plain(implementation))
}

/// True if a file has the name of a trace.
pub(super) fn is_trace(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digest = |part: &str| part.len() == 8 && part.chars().all(|c| c.is_ascii_hexdigit());
    name.strip_suffix(".trace.json").is_some_and(|stem| stem.split('-').any(digest))
}

/// Writes a trace, first under a temporary name, so a partial file never looks complete.
fn write(path: &Path, trace: &Trace, process: &str) -> Result<(), Failure> {
    replace_file(path, |out| trace.write_chrome(process, out)).with_context(|| {
        format!("{} cannot be written; make room, or choose another directory with -o", path.display())
    })?;
    Ok(())
}
