//! A profile as `docs/profile-format.md` describes it, with its entries as columns.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::PageError;

/// Newest version of the format that this crate reads.
const VERSION: u64 = 1;

/// A profile, read and checked.
#[derive(Debug, Deserialize)]
pub struct Document {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u64,
    #[serde(default)]
    pub(crate) entries: Entries,
    #[serde(default)]
    pub(crate) details: Vec<Detail>,
    #[serde(flatten)]
    pub(crate) head: Head,
}

/// Every member but the entries and their details; the page's script reads these as they are.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Head {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) wall_ns: Option<f64>,
    #[serde(default)]
    started_unix_ns: Option<u64>,
    #[serde(default)]
    pub(crate) clock: Value,
    #[serde(default)]
    environment: Value,
    #[serde(default)]
    cost: Value,
    #[serde(default)]
    losses: Value,
    #[serde(default)]
    pub(crate) operations: Vec<Value>,
    #[serde(default)]
    pub(crate) lanes: Vec<Value>,
    #[serde(default)]
    totals: Value,
    #[serde(default)]
    tracks: Value,
    #[serde(default)]
    summary: Value,
    #[serde(default)]
    bottlenecks: Value,
    #[serde(default)]
    breakdown: Value,
    #[serde(default)]
    memory: Value,
}

/// One column a field; an absent column is as long as the others and holds the value for none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Entries {
    pub(crate) operation: Vec<u32>,
    pub(crate) lane: Vec<u32>,
    pub(crate) parent: Vec<i64>,
    pub(crate) start_ns: Vec<f64>,
    pub(crate) duration_ns: Vec<Option<f64>>,
    pub(crate) link: Vec<u32>,
    pub(crate) detail: Vec<i64>,
}

/// Optional facts about an entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Detail {
    pub(crate) bytes: Option<f64>,
    pub(crate) items: Option<f64>,
    pub(crate) flops: Option<f64>,
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) allocations: Option<f64>,
    pub(crate) allocated_bytes: Option<f64>,
    pub(crate) freed_bytes: Option<f64>,
    pub(crate) peak_bytes: Option<f64>,
    pub(crate) rss_bytes: Option<f64>,
    pub(crate) args: Map<String, Value>,
}

impl Document {
    /// Reads a profile from JSON.
    ///
    /// # Errors
    /// [`PageError::Format`] if the text is not a profile of a known version, [`PageError::Damaged`] if its columns
    /// contradict each other.
    pub fn from_json(text: &[u8]) -> Result<Self, PageError> {
        let document: Self = serde_json::from_slice(text).map_err(|error| PageError::Format(error.to_string()))?;
        if document.format != "ellwand profile" {
            let found = &document.format;
            return Err(PageError::Format(format!("\"format\" is {found:?}; expected \"ellwand profile\"")));
        }
        if document.version > VERSION {
            return Err(PageError::Format(format!(
                "version {} is newer than this program, which reads versions up to {VERSION}; update Ellwand",
                document.version
            )));
        }
        document.check()?;
        Ok(document)
    }

    /// Number of entries.
    pub fn spans(&self) -> usize {
        self.entries.operation.len()
    }

    fn check(&self) -> Result<(), PageError> {
        let (entries, spans) = (&self.entries, self.spans());
        let lengths = [
            ("lane", entries.lane.len(), true),
            ("parent", entries.parent.len(), false),
            ("start_ns", entries.start_ns.len(), true),
            ("duration_ns", entries.duration_ns.len(), true),
            ("link", entries.link.len(), false),
            ("detail", entries.detail.len(), false),
        ];
        for (name, length, needed) in lengths {
            if length != spans && (needed || length != 0) {
                return Err(damaged(format!("entries.{name} has {length} values; entries.operation has {spans}")));
            }
        }
        let known = |name: &str, values: &[u32], count: usize| match values.iter().position(|v| *v as usize >= count) {
            Some(at) => Err(damaged(format!("entries.{name}[{at}] is {}; there are {count}", values[at]))),
            None => Ok(()),
        };
        known("operation", &entries.operation, self.head.operations.len())?;
        known("lane", &entries.lane, self.head.lanes.len())?;
        if let Some(at) = entries.lane.windows(2).position(|pair| pair.first() > pair.last()) {
            return Err(damaged(format!(
                "entries.lane[{}] is less than the one before; entries are sorted by lane",
                at + 1
            )));
        }
        for (at, parent) in entries.parent.iter().enumerate() {
            let before = usize::try_from(*parent).is_ok_and(|parent| {
                parent < at && entries.lane.get(parent).zip(entries.lane.get(at)).is_some_and(|(a, b)| a == b)
            });
            if *parent != -1 && !before {
                return Err(damaged(format!(
                    "entries.parent[{at}] is {parent}; expected an earlier entry of its lane"
                )));
            }
        }
        let details = self.details.len();
        match entries.detail.iter().position(|detail| usize::try_from(*detail).map_or(*detail != -1, |d| d >= details))
        {
            Some(at) => Err(damaged(format!("entries.detail[{at}] is {}; there are {details}", entries.detail[at]))),
            None => Ok(()),
        }
    }
}

fn damaged(what: String) -> PageError {
    PageError::Damaged(what)
}
