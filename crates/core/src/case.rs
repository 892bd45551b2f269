//! A case: one point of a workload's parameter space, with an id that never changes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::InputError;

/// The value of one axis; in JSON a boolean, a number with or without a fraction, or a string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "serde_json::Value")]
pub enum Value {
    /// An integer, such as a batch size or a number of levels.
    Int(i64),
    /// A real number, such as a scale.
    Float(f64),
    /// A choice, such as a lattice or `auto`.
    Text(String),
    /// A switch, printed as `on` or `off`.
    Flag(bool),
}

impl Value {
    /// The value as a number; integers are converted.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::Flag(_) | Value::Text(_) => None,
        }
    }
}

// Serde would read an untagged enumeration through a tree that it tries against every variant: ten times the code.
impl TryFrom<serde_json::Value> for Value {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> Result<Self, Self::Error> {
        match value {
            serde_json::Value::Bool(flag) => Ok(Value::Flag(flag)),
            serde_json::Value::String(text) => Ok(Value::Text(text)),
            serde_json::Value::Number(number) => {
                let float = || number.as_f64().map(Value::Float).ok_or("the number is too large");
                number.as_i64().map(Value::Int).map_or_else(float, Ok)
            }
            _ => Err("the value of an axis is a boolean, a number or a string"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            // `{}` prints the shortest text that parses to the same number.
            Value::Float(value) => write!(f, "{value}"),
            Value::Text(value) => f.write_str(value),
            Value::Flag(value) => f.write_str(if *value { "on" } else { "off" }),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_string())
    }
}
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Flag(value)
    }
}

/// One parameter point of a workload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Case {
    /// Name of the workload.
    pub workload: String,
    /// Axis names and values, in the order in which the workload declares its axes.
    pub params: Vec<(String, Value)>,
    /// Digest of the user's own arrays, if they replace the workload's inputs.
    pub input: Option<String>,
}

impl Case {
    /// The case of `workload` at `params`.
    pub fn new(workload: &str, params: Vec<(String, Value)>) -> Self {
        Self { workload: workload.to_string(), params, input: None }
    }

    /// The value on `axis`, if the case has that axis.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.params.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
    }

    /// The integer on `axis`; `None` if the axis is missing or holds another type.
    pub fn int(&self, axis: &str) -> Option<i64> {
        match self.get(axis) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// The integer on `axis` as a count; `default` if the axis is missing or holds another type or less than 0.
    pub fn count(&self, axis: &str, default: usize) -> usize {
        self.int(axis).and_then(|value| usize::try_from(value).ok()).unwrap_or(default)
    }

    /// The integer on `axis` as a size; `default` if the axis is missing or holds another type.
    ///
    /// # Errors
    /// If the integer is not above 0.
    pub fn size(&self, axis: &str, default: usize) -> Result<usize, InputError> {
        let Some(value) = self.int(axis) else { return Ok(default) };
        let size = usize::try_from(value).ok().filter(|size| *size > 0);
        size.ok_or_else(|| InputError::setting(axis, format!("{value} is not a size"), "a whole number above 0"))
    }

    /// The number on `axis`; integers are converted.
    pub fn float(&self, axis: &str) -> Option<f64> {
        self.get(axis)?.number()
    }

    /// The word on `axis`; `None` if the axis is missing or holds another type.
    pub fn text(&self, axis: &str) -> Option<&str> {
        match self.get(axis) {
            Some(Value::Text(value)) => Some(value),
            _ => None,
        }
    }

    /// The switch on `axis`; `None` if the axis is missing or holds another type.
    pub fn flag(&self, axis: &str) -> Option<bool> {
        match self.get(axis) {
            Some(Value::Flag(value)) => Some(*value),
            _ => None,
        }
    }

    /// Sets the value of an axis that the case already has; ignores other names.
    pub fn set(&mut self, axis: &str, value: impl Into<Value>) {
        if let Some(slot) = self.params.iter_mut().find(|(name, _)| name == axis) {
            slot.1 = value.into();
        }
    }

    /// The id of the case: the workload, then `axis=value` pairs sorted by name. It is the same on every machine, for
    /// ever.
    ///
    /// An axis added to a workload later declares the value that keeps the earlier behaviour
    /// ([`crate::Axis::neutral`]). The plan keeps that value out of `params`, so the id of an older case does not
    /// change.
    pub fn id(&self) -> String {
        let mut params: Vec<String> = self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        params.sort();
        if let Some(digest) = &self.input {
            params.push(format!("input#{digest}"));
        }
        format!("{}/{}", self.workload, params.join(","))
    }

    /// A 64-bit digest of [`Case::id`] (FNV-1a); seeds the case's inputs.
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv::new();
        hash.text(&self.id());
        hash.finish()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id())
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo). Not for security; any language can recompute it in five lines.
#[derive(Debug, Clone)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv {
    /// The digest of no bytes.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds `bytes` to the digest.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds `text` and a separator, so that adjacent texts cannot merge.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }

    /// The digest of everything added so far.
    pub fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case::new(
            "lattice-encode",
            vec![
                ("q".into(), Value::Int(4)),
                ("lattice".into(), "D4".into()),
                ("beta".into(), Value::Float(0.25)),
                ("centred".into(), Value::Flag(false)),
            ],
        )
    }

    #[test]
    fn identity_is_sorted_text_and_never_changes() {
        assert_eq!(case().id(), "lattice-encode/beta=0.25,centred=off,lattice=D4,q=4");
        // Input seeds are drawn from this committed digest; changing it would change the inputs of every record.
        assert_eq!(case().digest(), 0x8233_60d7_a59a_505f);
    }

    #[test]
    fn user_arrays_are_part_of_the_id() {
        let mut given = case();
        given.input = Some("00ff".into());
        assert!(given.id().ends_with(",input#00ff"));
        assert_ne!(given.digest(), case().digest());
    }

    #[test]
    fn values_are_stored_as_plain_json() {
        for (text, value) in [
            ("-3", Value::Int(-3)),
            ("0.1", Value::Float(0.1)),
            ("2.0", Value::Float(2.0)),
            ("1.8446744073709552e+19", Value::Float(u64::MAX as f64)),
            ("\"auto\"", Value::from("auto")),
            ("true", Value::Flag(true)),
        ] {
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
        assert_eq!(serde_json::from_str::<Value>("18446744073709551615").unwrap(), Value::Float(u64::MAX as f64));
        for wrong in ["null", "[1]", "{}"] {
            assert!(serde_json::from_str::<Value>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_read_by_type() {
        let case = case();
        assert_eq!(case.int("q"), Some(4));
        assert_eq!(case.float("q"), Some(4.0));
        assert_eq!(case.text("lattice"), Some("D4"));
        assert_eq!(case.flag("centred"), Some(false));
        assert_eq!(case.int("lattice"), None);
        assert_eq!(case.get("batch"), None);
    }
}
