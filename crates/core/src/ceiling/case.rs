//! The table of ceilings: which cases of which workloads measure a limit of the machine.

use super::CeilingKind;
use crate::axis::{Axis, Domain};
use crate::case::{Case, Value};
use crate::workload::Workload;

/// A row of the table: a limit, and the workload that measures it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CeilingCase {
    /// What is measured.
    pub kind: CeilingKind,
    /// The workload.
    pub workload: &'static str,
    /// What its axes mean to the instrument. Others take their first default.
    pub axes: &'static [(&'static str, Role)],
    /// For [`CeilingKind::Streamed`]: the implementation whose stores pass the caches.
    pub past: Option<&'static str>,
}

/// What an axis means to the instrument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Role {
    /// The case is this limit at this word alone.
    Is(&'static str),
    /// Bytes touched in all, chosen by the caches of the machine.
    Bytes,
    /// How often one iteration goes over these bytes.
    Passes,
    /// This value fills a GPU.
    OnDevice(i64),
    /// This value for each multiprocessor fills a GPU.
    EachMultiprocessor(i64),
    /// How long an iteration is: so long that its begin and end cost nothing.
    Steps,
}

impl CeilingCase {
    /// The axis with this role.
    pub fn axis_of(&self, role: Role) -> Option<&'static str> {
        self.axes.iter().find(|(_, known)| *known == role).map(|(name, _)| *name)
    }

    /// Whether the time of the case alone is this limit.
    pub fn measures(&self, case: &Case) -> bool {
        let fits = |(axis, role): &(&str, Role)| !matches!(role, Role::Is(word) if case.text(axis) != Some(*word));
        self.past.is_none() && case.workload == self.workload && self.axes.iter().all(fits)
    }

    /// The case at `bytes`, or at the nearest number of bytes that the workload takes.
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
