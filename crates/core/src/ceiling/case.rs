//! The ceiling table: the cases and workloads that measure the limits of the machine.

use super::CeilingKind;
use crate::axis::{Axis, Domain};
use crate::case::{Case, Value};
use crate::workload::Workload;

/// A row of the ceiling table: a limit and the workload that measures it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CeilingCase {
    /// The limit measured.
    pub kind: CeilingKind,
    /// Name of the workload.
    pub workload: &'static str,
    /// The role of each axis; all other axes take their first default.
    pub axes: &'static [(&'static str, Role)],
    /// For [`CeilingKind::Streamed`]: the implementation with ordinary stores, and the one whose stores bypass the caches.
    pub past: Option<[&'static str; 2]>,
}

/// The role of an axis in a ceiling measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Role {
    /// The limit is measured only at this word.
    Is(&'static str),
    /// Total bytes touched; chosen by the cache sizes of the machine.
    Bytes,
    /// Number of passes over these bytes per iteration.
    Passes,
    /// The value that fills a GPU.
    OnDevice(i64),
    /// The value per multiprocessor that fills a GPU.
    EachMultiprocessor(i64),
    /// Length of an iteration, chosen so that starting and ending it takes a negligible time.
    Steps,
}

impl CeilingCase {
    /// The axis with this role.
    pub fn axis_of(&self, role: Role) -> Option<&'static str> {
        self.axes.iter().find(|(_, known)| *known == role).map(|(name, _)| *name)
    }

    /// True if the time of the case alone gives this limit.
    pub fn measures(&self, case: &Case) -> bool {
        let fits = |(axis, role): &(&str, Role)| !matches!(role, Role::Is(word) if case.text(axis) != Some(*word));
        self.past.is_none() && case.workload == self.workload && self.axes.iter().all(fits)
    }

    /// The case at `bytes`, or at the nearest size that the workload accepts.
    pub fn case(&self, workload: &dyn Workload, bytes: u64) -> Case {
        let value = |axis: &Axis| {
            let role = self.axes.iter().find(|(name, _)| *name == axis.name).map(|(_, role)| role);
            let value = match (role, &axis.domain) {
                (Some(Role::Is(word)), _) => Value::Text((*word).into()),
                (Some(Role::Bytes), Domain::Int { min, max }) => Value::Int((bytes as i64).clamp(*min, *max)),
                _ => axis.default.first()?.clone(),
            };
            Some((axis.name.to_string(), value))
        };
        Case::new(workload.name(), workload.axes().iter().filter_map(value).collect())
    }
}
