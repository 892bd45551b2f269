//! The files of a report. Each is written under a temporary name and renamed when complete, so that a file under its
//! final name is always whole.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formats::{TITLE, spans_csv, with_plots};
use crate::plots::{Plot, draw};
use crate::{Options, Report, ReportError, format};

/// Writes `run.json`, `summary.csv`, `spans.csv` if there are spans, `report.md` and, if requested, `plots/*.png` and
/// `plots/*.svg` into `dir`, which is created if needed. Returns the files in the order written.
///
/// # Errors
/// If a file cannot be written; the error names it. Files already complete stay.
pub fn write_all(report: &Report, dir: &Path, options: &Options) -> Result<Vec<PathBuf>, ReportError> {
    let mut written = Vec::new();
    make_dir(dir)?;
    for (name, file) in [("json", "run.json"), ("csv", "summary.csv")] {
        let Some(format) = format(name) else { continue };
        if name == "csv" && report.workloads.is_empty() && !report.spans.is_empty() {
            continue;
        }
        let mut bytes = Vec::new();
        (format.write)(report, &mut bytes)?;
        written.push(write_whole(&dir.join(file), &bytes)?);
    }
    if !report.spans.is_empty() {
        let mut bytes = Vec::new();
        spans_csv(report, &mut bytes)?;
        written.push(write_whole(&dir.join("spans.csv"), &bytes)?);
    }
    let plots: Vec<Plot> = if options.plots { draw(report)? } else { Vec::new() };
    if !plots.is_empty() {
        let folder = dir.join("plots");
        make_dir(&folder)?;
        for plot in &plots {
            if let Some(png) = &plot.png {
                written.push(write_whole(&folder.join(format!("{}.png", plot.name)), png)?);
            }
            written.push(write_whole(&folder.join(format!("{}.svg", plot.name)), plot.svg.as_bytes())?);
        }
    }
    // Last, so that all plots it links to exist.
    let mut bytes = Vec::new();
    with_plots(report, &plots, &mut bytes)?;
    written.push(write_whole(&dir.join("report.md"), &bytes)?);
    Ok(written)
}

/// Names of the files that [`write_all`] writes besides the plots.
const FILES: [&str; 4] = ["run.json", "summary.csv", "spans.csv", "report.md"];

/// Existing paths in `dir` under the names that [`write_all`] uses, and the plots that a report of ours links. The report is
/// last: after a removal that fails, it still names the other plots.
pub fn existing_files(dir: &Path) -> Vec<PathBuf> {
    let report = dir.join("report.md");
    // Opening a pipe would wait for a writer.
    let text = if report.is_file() { fs::read_to_string(report).unwrap_or_default() } else { String::new() };
    let text = text.strip_prefix(TITLE).unwrap_or_default();
    let links =
        text.split("](plots/").skip(1).filter_map(|rest| Path::new(rest.split_once(')')?.0).file_stem()?.to_str());
    let plots = links.flat_map(|name| ["png", "svg"].map(|form| dir.join("plots").join(format!("{name}.{form}"))));
    plots.chain(FILES.map(|name| dir.join(name))).filter(|path| path.symlink_metadata().is_ok()).collect()
}

/// The pictures in `dir/plots`, drawn by this program or not.
pub fn pictures(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let inside = fs::read_dir(dir.join("plots")).into_iter().flatten().flatten().map(|entry| entry.path());
    inside.filter(|path| path.extension().is_some_and(|form| form == "png" || form == "svg"))
}

fn make_dir(dir: &Path) -> Result<(), ReportError> {
    fs::create_dir_all(dir).map_err(|cause| ReportError::File { path: dir.to_path_buf(), cause })
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<PathBuf, ReportError> {
    match ellwand_core::replace_file(path, |out| out.write_all(bytes)) {
        Ok(()) => Ok(path.to_path_buf()),
        Err(cause) => Err(ReportError::File { path: path.to_path_buf(), cause }),
    }
}
