//! The outermost value of a file. Members may come in any order, so the data of both formats are collected until the
//! end.

use std::fmt;

use ellwand_profile::{FORMAT, VERSION, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::ours::Ours;
use super::{Imported, Problem};
use crate::chrome::{Events, Scalar};

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) is_array: bool,
    /// The member `format`.
    format: Option<String>,
    pub(crate) version: Option<u64>,
    has_events: bool,
    /// The first members, to describe a file that is something else.
    members: Vec<String>,
    hint: Option<&'static str>,
    ours: Ours,
    pub(crate) chrome: Events,
}

impl Document {
    /// True if the members are those of a profile.
    pub(crate) fn is_profile(&self) -> bool {
        self.is_array || self.has_events || self.format.is_some()
    }

    pub(crate) fn finish(self) -> Result<Imported, Problem> {
        match &self.format {
            Some(format) if format != FORMAT => {
                return Err(Problem::NotAProfile {
                    found: format!("its `format` is {:?}", super::shortened(format, 80)),
                });
            }
            Some(_) => {
                return Ok(Imported { trace: self.ours.finish()?, notes: Vec::new() });
            }
            None if self.is_array || self.has_events => {}
            None => return Err(Problem::NotAProfile { found: self.description() }),
        }
        if self.chrome.events() == 0 && self.is_array {
            return Err(Problem::NotAProfile { found: "an array without events".to_string() });
        }
        let (trace, notes) = self.chrome.finish();
        Ok(Imported { trace, notes })
    }

    fn description(&self) -> String {
        let members = self.members.join(", ");
        match self.hint {
            Some(hint) => hint.to_string(),
            None if members.is_empty() => "an object without members".to_string(),
            None => format!("an object with the members {members}"),
        }
    }
}

/// Reads the outermost value.
pub(crate) struct Top<'a>(pub(crate) &'a mut Document);

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a profile: an object, or an array of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, events: A) -> Result<(), A::Error> {
        self.0.is_array = true;
        self.0.chrome.list().visit_seq(events)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if self.0.members.len() < 5 {
                self.0.members.push(super::shortened(&name, 40));
            }
            member(self.0, &name, &mut members)?;
        }
        Ok(())
    }
}

fn member<'de, A: MapAccess<'de>>(document: &mut Document, name: &str, members: &mut A) -> Result<(), A::Error> {
    let Document { ours, chrome, .. } = document;
    match name {
        "format" => document.format = Some(members.next_value()?),
        "version" => {
            // Other formats have versions that are not numbers.
            if let Scalar(Some(Value::Int(version))) = members.next_value()? {
                let version = u64::try_from(version).unwrap_or(0);
                document.version = Some(version).filter(|_| document.format.as_deref() == Some(FORMAT));
                if document.version.is_some_and(|version| version > VERSION.into()) {
                    return Err(A::Error::custom("a later version"));
                }
            }
        }
        "name" => ours.name = text(members.next_value()?),
        "started_unix_ns" => ours.started_unix_ns = members.next_value()?,
        "wall_ns" => ours.wall_ns = Some(members.next_value()?),
        "clock" => ours.clock = Some(members.next_value()?),
        "environment" => ours.environment = members.next_value()?,
        "cost" => ours.cost = members.next_value()?,
        "losses" => ours.losses = members.next_value()?,
        "operations" => ours.operations = members.next_value()?,
        "lanes" => ours.lanes = members.next_value()?,
        "entries" => ours.entries = members.next_value()?,
        "details" => members.next_value_seed(ours.all_details())?,
        "totals" => ours.totals = members.next_value()?,
        "tracks" => ours.tracks = members.next_value()?,
        "traceEvents" => {
            document.has_events = true;
            members.next_value_seed(chrome.list())?;
        }
        "otherData" | "metadata" => chrome.facts(members.next_value()?),
        "deviceProperties" => chrome.devices(members.next_value()?),
        "$schema" => {
            let schema = text(members.next_value()?);
            if schema.contains("speedscope") {
                document.hint = Some("a speedscope file, which Ellwand writes but does not read");
            }
        }
        "kind" if document.members.len() == 1 => {
            members.next_value::<IgnoredAny>()?;
            document.hint =
                Some("a record of `ellwand run` or a similar file of JSON lines (`ellwand report` reads records)");
        }
        _ => {
            if let Scalar(Some(value)) = members.next_value()? {
                chrome.fact(name, value);
            }
        }
    }
    Ok(())
}

fn text(value: Scalar) -> String {
    match value.0 {
        Some(Value::Text(text)) => text,
        _ => String::new(),
    }
}
