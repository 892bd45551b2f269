//! Recognises the file names of plots, so that only plots are replaced or removed and never the user's own pictures.

use std::collections::BTreeSet;

use ellwand_core::View;
use ellwand_core::record::Record;

use crate::model::curves_of;

/// The quantities of the figures of a workload, as parts of file names.
pub(super) const QUANTITIES: [&str; 5] = ["time", "throughput", "speedup", "memory", "of-ceiling"];

/// Name of the figure that compares several machines.
pub(super) const MACHINES: &str = "across-machines";

/// Makes a name that every file system accepts.
pub(super) fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    text.chars().map(safe).collect()
}

/// The file name of a curve.
pub(super) fn curve_file(workload: &str, id: &str) -> String {
    format!("{}-{}", file_name(workload), file_name(id))
}

/// The names of all plots that reports on given workloads, axes, devices and views can have.
#[derive(Debug, Clone, Default)]
pub struct PlotNames {
    /// Names without part or run number and without extension.
    stems: BTreeSet<String>,
}

impl PlotNames {
    /// The names for a report on these workloads, axes, devices and views.
    pub fn new<'a>(
        workloads: impl IntoIterator<Item = &'a str>,
        axes: impl IntoIterator<Item = &'a str>,
        devices: impl IntoIterator<Item = &'a str>,
        views: &[View],
    ) -> Self {
        let mut stems = BTreeSet::new();
        for workload in workloads {
            stems.extend(QUANTITIES.map(|id| format!("{}-{id}", file_name(workload))));
            stems.extend(curves_of(views, workload).map(|curve| curve_file(workload, &curve.id)));
        }
        for axis in axes {
            stems.extend(QUANTITIES.map(|id| format!("overview-{id}-{}", file_name(axis))));
        }
        let devices = devices.into_iter().map(|device| device.replace(':', "-"));
        let places = ["one-thread", "all-threads"].map(str::to_string).into_iter().chain(devices);
        stems.extend(places.map(|place| format!("roofline-{place}")));
        stems.insert(MACHINES.to_string());
        stems.extend(views.iter().filter_map(|view| match view {
            View::Parts(view) => Some(file_name(&view.title)),
            _ => None,
        }));
        Self { stems }
    }

    /// The names of all plots that a record can produce.
    pub fn of(record: &Record) -> Self {
        let all = || &record.measurements;
        let axes = all().iter().flat_map(|m| m.case.params.iter().chain(&m.case.neutral));
        Self::new(
            all().iter().map(|m| m.case.workload.as_str()),
            axes.map(|param| param.axis.as_str()),
            all().iter().map(|m| m.device.as_str()),
            &record.run.views,
        )
    }

    /// True if a file in the plot directory has one of these names.
    pub fn holds(&self, file: &str) -> bool {
        let Some(stem) = file.strip_suffix(".png").or_else(|| file.strip_suffix(".svg")) else { return false };
        let numbered = stem.rsplit_once('-').filter(|(_, number)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0')
        });
        self.stems.contains(stem) || numbered.is_some_and(|(stem, _)| self.stems.contains(stem))
    }
}
