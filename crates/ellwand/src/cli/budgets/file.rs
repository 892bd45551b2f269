//! `ellwand.toml`: how it is found and what it may contain. Errors name the line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ellwand_core::error::nearest;
use ellwand_core::registry::matches;
use ellwand_core::{Axis, InputError, Registry, Workload};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::judge::{Bound, Budget, Side};
use super::quantity::{self, Limit};
use crate::cli::exit::unknown;
use crate::cli::output;

/// The budgets of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Budgets {
    pub(super) path: PathBuf,
    pub(super) binary_size: Option<Limit>,
    pub(super) rows: Vec<Budget>,
}

/// Name of the file.
const NAME: &str = "ellwand.toml";
const TOP: [&str; 2] = ["binary_size", "budget"];
const OWN: [&str; 8] =
    ["workload", "implementation", "time", "peak_memory", "throughput", "speedup", "at_least", "at_most"];
/// Example of a bound on readings, for messages.
const READING: &str = "a reading and a number, such as { compression = 4 }";

/// The budgets of the named file, or else of the nearest one in this directory or above; `None` without one.
pub(crate) fn find(registry: &Registry, named: Option<&Path>) -> Result<Option<Budgets>, InputError> {
    let path = match named {
        Some(path) => Some(path.to_path_buf()),
        None => std::env::current_dir().ok().and_then(|here| nearest_file(&here)),
    };
    let Some(path) = path else { return Ok(None) };
    let argument = if named.is_some() { "--config".to_string() } else { path.display().to_string() };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        InputError::new(argument, format!("{} cannot be read ({error})", path.display()), "a text file in TOML")
    })?;
    let budgets = parse(registry, &path, &text)?;
    budgets.notes().iter().for_each(|note| output::note(note));
    Ok(Some(budgets))
}

fn nearest_file(here: &Path) -> Option<PathBuf> {
    here.ancestors().map(|folder| folder.join(NAME)).find(|path| path.is_file())
}

/// Parses the text of a file.
pub(super) fn parse(registry: &Registry, path: &Path, text: &str) -> Result<Budgets, InputError> {
    let reader = Reader { registry, path, text };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reader.refused(at, error.message().to_string(), "TOML")
    })?;
    let mut budgets = Budgets { path: path.to_path_buf(), binary_size: None, rows: Vec::new() };
    for (key, value) in table.get_ref() {
        match key.get_ref().as_ref() {
            "binary_size" => budgets.binary_size = Some(reader.limit(value, quantity::size, quantity::SIZE)?),
            "budget" => {
                let expected = "tables that begin with [[budget]]";
                let DeValue::Array(rows) = value.get_ref() else {
                    return Err(reader.refused(
                        value.span().start,
                        "'budget' is not a list of tables".into(),
                        expected,
                    ));
                };
                for row in rows {
                    let DeValue::Table(table) = row.get_ref() else {
                        return Err(reader.refused(row.span().start, "a budget is not a table".into(), expected));
                    };
                    budgets.rows.push(reader.budget(table, row.span().start)?);
                }
            }
            other => return Err(reader.unknown(key, other, &TOP, "")),
        }
    }
    Ok(budgets)
}

struct Reader<'a> {
    registry: &'a Registry,
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn place(&self, at: usize) -> String {
        format!("{} line {}", self.path.display(), self.line(at))
    }

    fn refused(&self, at: usize, problem: String, expected: &str) -> InputError {
        InputError::new(self.place(at), problem, expected)
    }

    fn unknown(&self, key: &Spanned<impl Sized>, name: &str, known: &[&str], of: &str) -> InputError {
        unknown(self.place(key.span().start), format!("'{name}' is not a key{of}"), name, known)
    }

    fn limit(
        &self,
        value: &Spanned<DeValue<'_>>,
        read: fn(&str) -> Result<Limit, String>,
        expected: &str,
    ) -> Result<Limit, InputError> {
        let at = value.span().start;
        let Some(text) = value.get_ref().as_str() else {
            let problem = format!("a limit is text with a unit, not {}", a(value.get_ref().type_str()));
            return Err(self.refused(at, problem, expected));
        };
        read(text).map_err(|problem| self.refused(at, problem, expected))
    }

    fn budget(&self, table: &DeTable<'_>, start: usize) -> Result<Budget, InputError> {
        let mut budget = Budget { line: self.line(start), ..Budget::default() };
        let find = |name: &str| table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value);
        let Some(named) = find("workload") else {
            let is_typo = |key: &str| nearest(key, ["workload"]).is_some();
            if let Some(key) = table.keys().find(|key| is_typo(key.get_ref())) {
                return Err(self.unknown(key, key.get_ref(), &OWN, " of a budget"));
            }
            return Err(self.refused(start, "this budget names no workload".into(), "workload = \"NAME\""));
        };
        budget.workload = self.text(named, "a workload or a pattern of workloads")?;
        let workloads = self.workloads(named, &budget.workload)?;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "workload" => {}
                "implementation" => {
                    let pattern = self.text(value, "an implementation or a pattern of them")?;
                    self.known_implementation(value, &workloads, &pattern)?;
                    budget.implementation = Some(pattern);
                }
                "time" => budget.time = Some(self.limit(value, quantity::time, quantity::TIME)?),
                "peak_memory" => budget.peak_memory = Some(self.limit(value, quantity::size, quantity::SIZE)?),
                "throughput" => budget.throughput = Some(self.limit(value, quantity::rate, quantity::RATE)?),
                "speedup" => budget.speedup = Some(self.limit(value, quantity::ratio, quantity::RATIO)?),
                "at_least" => budget.readings.extend(self.readings(value, Side::AtLeast)?),
                "at_most" => budget.readings.extend(self.readings(value, Side::AtMost)?),
                name => {
                    let (axis, without) = self.axis(key, name, &workloads, &budget.workload)?;
                    let parsed = axis.parse(&self.plain(value)?).map_err(|error| {
                        let refused =
                            self.refused(value.span().start, format!("{name}: {}", error.problem), &error.expected);
                        InputError { help: error.help, ..refused }
                    })?;
                    budget.axes.push((axis.name.to_string(), parsed, axis.neutral.clone()));
                    budget.without.extend(without);
                }
            }
        }
        if workloads.iter().all(|workload| budget.without.iter().any(|without| without == workload.name())) {
            let problem = format!("no workload that matches '{}' has all these axes", budget.workload);
            return Err(self.refused(start, problem, "axes of one workload"));
        }
        let limits = [budget.time, budget.peak_memory, budget.throughput, budget.speedup];
        if limits.iter().all(Option::is_none) && budget.readings.is_empty() {
            let expected = "time = \"2 ms\", peak_memory = \"64 MB\", throughput = \"100 k/s\", speedup = \"2x\", at_least or at_most";
            return Err(self.refused(start, "this budget limits nothing".into(), expected));
        }
        Ok(budget)
    }

    /// Bounds on readings: `{ compression = 4 }`. Which readings a workload has is known only once it is measured.
    fn readings(&self, value: &Spanned<DeValue<'_>>, side: Side) -> Result<Vec<Bound>, InputError> {
        let DeValue::Table(table) = value.get_ref() else {
            let problem = format!("readings are limited by name, not by {}", a(value.get_ref().type_str()));
            return Err(self.refused(value.span().start, problem, READING));
        };
        let bound = |id: String, value: &Spanned<DeValue<'_>>| {
            let number = match value.get_ref() {
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
                DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
                _ => None,
            };
            let limit = number.filter(|number| number.is_finite()).ok_or_else(|| {
                let problem = format!("the limit of '{id}' is {}, not a number", a(value.get_ref().type_str()));
                self.refused(value.span().start, problem, READING)
            })?;
            Ok(Bound { id, limit, side })
        };
        table.iter().map(|(key, value)| bound(key.get_ref().to_string(), value)).collect()
    }

    fn text(&self, value: &Spanned<DeValue<'_>>, expected: &str) -> Result<String, InputError> {
        match value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() => Ok(text.to_string()),
            _ => Err(self.refused(value.span().start, "this is not text".into(), expected)),
        }
    }

    /// A value as the command line would write it.
    fn plain(&self, value: &Spanned<DeValue<'_>>) -> Result<String, InputError> {
        Ok(match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_string(),
            DeValue::Float(number) => number.as_str().to_string(),
            DeValue::Boolean(on) => if *on { "on" } else { "off" }.to_string(),
            other => {
                let problem = format!("an axis has one value, not {}", a(other.type_str()));
                return Err(self.refused(value.span().start, problem, "a number or a word; a budget for each value"));
            }
        })
    }

    fn workloads(&self, at: &Spanned<DeValue<'_>>, pattern: &str) -> Result<Vec<&dyn Workload>, InputError> {
        let known = self.registry.workloads();
        let fits = |workload: &dyn Workload| matches(pattern, workload.name());
        let found: Vec<&dyn Workload> = known.iter().map(AsRef::as_ref).filter(|w| fits(*w)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let names: Vec<&str> = known.iter().map(|workload| workload.name()).collect();
        let problem = format!("'{pattern}' is not a workload of this program");
        Err(unknown(self.place(at.span().start), problem, pattern, &names))
    }

    fn known_implementation(
        &self,
        at: &Spanned<DeValue<'_>>,
        workloads: &[&dyn Workload],
        pattern: &str,
    ) -> Result<(), InputError> {
        let mut names: Vec<&str> = workloads
            .iter()
            .flat_map(|workload| self.registry.implementations(workload.name()))
            .map(|implementation| implementation.name.as_str())
            .collect();
        if names.iter().any(|name| matches(pattern, name)) {
            return Ok(());
        }
        names.dedup();
        let problem = format!("'{pattern}' is not an implementation of it");
        Err(unknown(self.place(at.span().start), problem, pattern, &names))
    }

    /// The axis that a key means in the workloads of the budget, and those workloads that lack it.
    fn axis<'w>(
        &self,
        key: &Spanned<impl Sized>,
        name: &str,
        workloads: &[&'w dyn Workload],
        pattern: &str,
    ) -> Result<(&'w Axis, Vec<String>), InputError> {
        let (mut found, mut without) = (None, Vec::new());
        for workload in workloads {
            match workload.axes().iter().find(|axis| axis.name == name || axis.aliases.contains(&name)) {
                Some(axis) => found = found.or(Some(axis)),
                None => without.push(workload.name().to_string()),
            }
        }
        found.map(|axis| (axis, without)).ok_or_else(|| {
            let axes: BTreeSet<&str> = workloads.iter().flat_map(|workload| workload.axes()).map(|a| a.name).collect();
            let known: Vec<&str> = OWN.into_iter().chain(axes).collect();
            let error = self.unknown(key, name, &known, &format!(" of a budget and no axis of {pattern}"));
            let reading = || format!("a reading is limited by at_least = {{ {name} = 4 }} or at_most");
            InputError { help: error.help.or_else(|| Some(reading())), ..error }
        })
    }
}

fn a(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}
