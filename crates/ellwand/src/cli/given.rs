//! The arrays of workloads, and those of them that the user gives.

use ellwand_core::axis::Domain;
use ellwand_core::error::did_you_mean;
use ellwand_core::tensor::Tensors;
use ellwand_core::workload::{Port, Ports, Workload};
use ellwand_core::{Case, InputError};

use super::output;
use crate::arrays;

/// An array of a workload, and the flags without which the case does not use it.
pub(super) struct Array {
    pub(super) port: Port,
    /// `--mask padding`.
    pub(super) only_with: Option<String>,
}

/// The arrays of a case, then those that another value of one axis would add.
pub(super) fn arrays_of(workload: &dyn Workload, case: &Case, which: fn(Ports) -> Vec<Port>) -> Vec<Array> {
    let mut found: Vec<Array> =
        which(workload.ports(case)).into_iter().map(|port| Array { port, only_with: None }).collect();
    for axis in workload.axes() {
        let words: Vec<&str> = match &axis.domain {
            Domain::Choice(words) => words.clone(),
            Domain::Switch => vec!["on", "off"],
            Domain::Int { .. } | Domain::Float { .. } | Domain::PositiveOr(_) => continue,
        };
        let mut added: Vec<(Port, Vec<&str>)> = Vec::new();
        for word in words {
            let Ok(value) = axis.parse(word) else { continue };
            let mut other = case.clone();
            // A case omits an axis at its neutral value.
            other.params.retain(|(name, _)| name != axis.name);
            other.params.push((axis.name.to_string(), value));
            for port in which(workload.ports(&other)) {
                if found.iter().any(|known| known.port.name == port.name) {
                    continue;
                }
                match added.iter_mut().find(|(known, _)| known.name == port.name) {
                    Some((_, words)) => words.push(word),
                    None => added.push((port, vec![word])),
                }
            }
        }
        found.extend(
            added.into_iter().map(|(port, words)| Array {
                port,
                only_with: Some(format!("--{} {}", axis.name, words.join(" or "))),
            }),
        );
    }
    found
}

/// The arrays that the user gave, if any. A misspelt name would silently drop an array and change the answer: it is
/// refused if the user typed it, and noted if it comes from a file.
///
/// # Errors
/// If a file cannot be read, no case takes a name, or every case lacks an array.
pub(super) fn read(bindings: &[String], cases: &[(&dyn Workload, &Case)]) -> Result<Option<Tensors>, InputError> {
    if bindings.is_empty() {
        return Ok(None);
    }
    let known = Known::of(cases);
    for binding in bindings {
        if let Some(name) = arrays::name_of(binding)
            && !known.takes(name)
        {
            let problem = format!("{} takes no array '{name}'", known.who);
            let error = InputError::new(format!("--input {binding}"), problem, known.expected());
            return Err(InputError { help: known.hint(name, &[]), ..error });
        }
    }
    let given = arrays::read(bindings)?;
    known.note_unused(&given);
    known.refuse_missing(cases, &given)?;
    Ok(Some(given))
}

/// The arrays that cases take.
struct Known {
    who: String,
    /// `None` if a workload does not declare its arrays.
    arrays: Option<Vec<Array>>,
}

impl Known {
    fn of(cases: &[(&dyn Workload, &Case)]) -> Self {
        let mut names: Vec<&str> = cases.iter().map(|(workload, _)| workload.name()).collect();
        names.dedup();
        let who = if names.len() > 3 { format!("{} and others", names[..3].join(", ")) } else { names.join(", ") };
        let mut all: Vec<Array> = Vec::new();
        for (workload, case) in cases {
            let arrays = arrays_of(*workload, case, |ports| ports.inputs);
            if arrays.iter().all(|array| array.only_with.is_some()) {
                return Self { who, arrays: None };
            }
            for array in arrays {
                match all.iter_mut().find(|known| known.port.name == array.port.name) {
                    Some(known) if array.only_with.is_none() => *known = array,
                    Some(_) => {}
                    None => all.push(array),
                }
            }
        }
        Self { who, arrays: (!all.is_empty()).then_some(all) }
    }

    fn names(&self) -> Vec<&'static str> {
        let taken = self.arrays.iter().flatten().filter(|array| array.only_with.is_none());
        taken.map(|array| array.port.name).collect()
    }

    fn takes(&self, name: &str) -> bool {
        self.arrays.is_none() || self.names().contains(&name)
    }

    fn expected(&self) -> String {
        let names = self.names();
        match &names[..] {
            [one] => (*one).to_string(),
            _ => format!("one of {}", names.join(", ")),
        }
    }

    /// A flag that would make the name known, or a similar name that is not given as well.
    fn hint(&self, name: &str, given: &[&str]) -> Option<String> {
        let flagged = self.arrays.iter().flatten().find(|array| array.port.name == name);
        if let Some(flags) = flagged.and_then(|array| array.only_with.as_ref()) {
            return Some(format!("{flags} takes it"));
        }
        did_you_mean(name, self.names().into_iter().filter(|name| !given.contains(name)))
    }

    /// Notes arrays of a file that nothing takes; many files contain more than one task needs.
    fn note_unused(&self, given: &Tensors) {
        let names: Vec<&str> = given.iter().map(|(name, _)| name).collect();
        let unused: Vec<String> = names
            .iter()
            .filter(|name| !self.takes(name))
            .map(|name| match self.hint(name, &names) {
                Some(hint) => format!("{name} ({hint})"),
                None => (*name).to_string(),
            })
            .collect();
        if !unused.is_empty() {
            let more = if unused.len() > 8 { format!(" and {} more", unused.len() - 8) } else { String::new() };
            let shown = unused.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
            output::note(&format!("note: arrays of the file that {} does not take: {shown}{more}", self.who));
        }
    }

    /// If no case can be computed, reports everything that is missing at once.
    fn refuse_missing(&self, cases: &[(&dyn Workload, &Case)], given: &Tensors) -> Result<(), InputError> {
        let missing = |(workload, case): &(&dyn Workload, &Case)| -> Vec<Port> {
            let inputs = workload.ports(case).inputs;
            inputs.into_iter().filter(|port| port.required && given.find(port.name).is_none()).collect()
        };
        let lacking: Vec<Vec<Port>> = cases.iter().map(missing).collect();
        let Some(first) = lacking.first().filter(|_| !lacking.iter().any(Vec::is_empty)) else { return Ok(()) };
        let names: Vec<&str> = first.iter().map(|port| port.name).collect();
        let have: Vec<&str> = given.iter().map(|(name, _)| name).collect();
        let wanted: Vec<String> =
            first.iter().map(|port| format!("{}: {} {} ({})", port.name, port.dtype, port.shape, port.about)).collect();
        let problem = format!("{} missing of {}; given: {}", names.join(", "), self.who, have.join(", "));
        Err(InputError::new("--input", problem, format!("\n    {}", wanted.join("\n    "))))
    }
}
