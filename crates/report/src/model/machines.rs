//! Several machines compared: the same cases, each time next to the share of that machine's own ceilings.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Report, Row, Section};
use crate::ReportError;

/// Results of several machines.
#[derive(Debug, Clone, Serialize)]
pub struct Machines {
    /// The machines in the order given.
    pub machines: Vec<MachineInfo>,
    /// The rows that at least two machines have, by case.
    pub rows: Vec<MachineRow>,
    /// Number of rows that only one machine has.
    pub alone: usize,
    /// Why there are no rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// A machine that measured some of the records.
#[derive(Debug, Clone, Serialize)]
pub struct MachineInfo {
    /// Fingerprint of the machine.
    pub id: String,
    /// CPU and cores, with the start of the fingerprint if another machine has the same.
    pub name: String,
}

/// A row of one machine.
#[derive(Debug, Clone, Serialize)]
pub struct MachineRow {
    /// Index into [`Machines::machines`].
    pub machine: usize,
    /// Index into [`Report::workloads`].
    pub workload: usize,
    /// Index into [`Section::rows`].
    pub row: usize,
}

impl MachineRow {
    /// The section and the row in a report.
    pub(crate) fn of<'a>(&self, report: &'a Report) -> (&'a Section, &'a Row) {
        let section = &report.workloads[self.workload];
        (section, &section.rows[self.row])
    }
}

impl Machines {
    /// Puts rows of the same case on different machines next to each other. Of several runs on a machine, the last one
    /// given counts.
    pub(super) fn new(report: &Report) -> Result<Self, ReportError> {
        let mut machines: Vec<MachineInfo> = Vec::new();
        for run in &report.runs {
            if machines.iter().all(|machine| machine.id != run.machine) {
                machines.push(MachineInfo { id: run.machine.clone(), name: run.machine_line() });
            }
        }
        if machines.len() < 2 {
            return Err(ReportError::OneMachine {
                name: machines.pop().map_or_else(String::new, |machine| machine.name),
            });
        }
        let names: Vec<String> = machines.iter().map(|machine| machine.name.clone()).collect();
        for machine in &mut machines {
            if names.iter().filter(|name| **name == machine.name).count() > 1 {
                machine.name = format!("{} ({})", machine.name, machine.id.get(..8).unwrap_or(&machine.id));
            }
        }
        let mut groups: Vec<(usize, &Row, Vec<MachineRow>)> = Vec::new();
        for (workload, section) in report.workloads.iter().enumerate() {
            for (index, row) in section.rows.iter().enumerate() {
                let id = &report.runs[row.run].machine;
                let machine = machines.iter().position(|machine| machine.id == *id).unwrap_or(0);
                let entry = MachineRow { machine, workload, row: index };
                let same = |(known, first, _): &&mut (usize, &Row, Vec<MachineRow>)| {
                    let key =
                        |row: &Row| (row.case.clone(), row.implementation.clone(), row.device.clone(), row.caches);
                    *known == workload && key(first) == key(row)
                };
                match groups.iter_mut().find(same) {
                    None => groups.push((workload, row, vec![entry])),
                    Some((_, _, members)) => {
                        members.retain(|member| member.machine != machine);
                        members.push(entry);
                    }
                }
            }
        }
        let mut rows = Vec::new();
        let mut alone = 0;
        for (_, _, mut members) in groups {
            if members.len() < 2 {
                alone += 1;
                continue;
            }
            members.sort_by_key(|member| member.machine);
            rows.extend(members);
        }
        let unavailable = rows.is_empty().then(|| nothing_common(report));
        Ok(Self { machines, rows, alone, unavailable })
    }
}

/// Why no two machines share a row: the first property of the rows in which all machines differ.
fn nothing_common(report: &Report) -> String {
    let rows = || report.workloads.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
    if rows().next().is_none() {
        return "the records have no measurements".into();
    }
    let common = |parts: usize| {
        let mut machines: BTreeMap<Vec<&str>, BTreeSet<&str>> = BTreeMap::new();
        for (section, row) in rows() {
            let identity = [&section.workload, &row.case, &row.implementation, &row.device];
            let identity = identity.iter().take(parts).map(|part| part.as_str()).collect();
            machines.entry(identity).or_default().insert(&report.runs[row.run].machine);
        }
        machines.values().any(|machines| machines.len() > 1)
    };
    let differ = [
        (1, "they measured different workloads"),
        (2, "they measured different cases; measure the same axes, sizes and arrays on both"),
        (3, "they measured different implementations of the same cases"),
        (4, "they measured the same implementations on different devices"),
    ];
    let why = differ.into_iter().find(|(parts, _)| !common(*parts));
    let why = why.map_or("one measured with warm caches and the other with cold ones", |(_, why)| why);
    format!("no two machines have a row in common: {why}")
}
