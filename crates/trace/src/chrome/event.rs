//! One trace event as it appears in the file.

use serde::Deserialize;

use super::scalar::{Args, Scalar, Time};

/// The members in use, each of any type. An event that is not an object is an error with its place.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "a trace event: an object with ph, name, ts, dur, pid and tid")]
pub(crate) struct Event {
    pub(crate) ph: Scalar,
    pub(crate) name: Scalar,
    pub(crate) cat: Scalar,
    pub(crate) ts: Time,
    pub(crate) dur: Scalar,
    /// CPU time in microseconds.
    pub(crate) tdur: Scalar,
    pub(crate) pid: Scalar,
    pub(crate) tid: Scalar,
    pub(crate) id: Scalar,
    pub(crate) id2: Args,
    pub(crate) scope: Scalar,
    pub(crate) bp: Scalar,
    pub(crate) args: Args,
}

impl Event {
    /// The phase: one letter.
    pub(crate) fn phase(&self) -> char {
        self.ph.text().and_then(|text| text.chars().next()).unwrap_or('?')
    }

    pub(crate) fn category(&self) -> &str {
        self.cat.text().and_then(|text| text.split(',').next()).unwrap_or("")
    }

    /// The number that connects events of one task or arrow.
    pub(crate) fn connection(&self) -> String {
        let id2 = self.id2.0.first().map(|(name, value)| format!("{name}{value:?}")).unwrap_or_default();
        format!("{}\u{0}{}\u{0}{}{id2}", self.cat.key(), self.scope.key(), self.id.key())
    }
}
