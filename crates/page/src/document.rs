//! A profile as `docs/profile-format.md` describes it, with its entries as columns.

use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Why no page was written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The text is not a profile.
    #[error("not a profile: {0}")]
    Format(String),
    /// The page could not be written.
    #[error("the page could not be written")]
    Write(#[from] io::Error),
}

/// A profile as Ellwand writes it.
#[derive(Debug, Deserialize)]
pub struct Document {
    #[serde(default)]
    pub(crate) entries: Entries,
    /// Optional data of entries, as text.
    #[serde(default)]
    pub(crate) details: Option<Box<RawValue>>,
    /// Every other member; the page's script reads these unchanged.
    #[serde(flatten)]
    pub(crate) head: Map<String, Value>,
}

/// One column per field. An absent column means that no entry has a value for the field.
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

impl Document {
    /// Reads a profile that Ellwand wrote. Checks nothing: a profile from another program must be read and written by
    /// Ellwand first.
    ///
    /// # Errors
    /// [`PageError::Format`] if the text is not a profile.
    pub fn from_json(text: &[u8]) -> Result<Self, PageError> {
        serde_json::from_slice(text).map_err(|error| PageError::Format(error.to_string()))
    }

    /// Number of entries.
    pub fn spans(&self) -> usize {
        self.entries.operation.len()
    }
}
