//! A case: one point of a workload's parameter space, with an identity that never changes.

use std::fmt;

/// The value of one axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number: a batch size, a number of levels.
    Int(i64),
    /// A real number: a scale.
    Float(f64),
    /// A choice or a word: a lattice, `auto`.
    Text(String),
    /// A switch.
    Flag(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            // The shortest text that reads back as the same number.
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

/// One parameter point of a workload. Parameters are in the order in which the workload declares its axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Name of the workload.
    pub workload: String,
    /// Axis names and values.
    pub params: Vec<(String, Value)>,
    /// Digest of arrays that the user gave in place of the workload's own inputs.
    pub input: Option<String>,
}

impl Case {
    /// The case of `workload` at `params`.
    pub fn new(workload: &str, params: Vec<(String, Value)>) -> Self {
        Self { workload: workload.to_string(), params, input: None }
    }

    /// The value on an axis.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.params.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
    }

    /// The whole number on an axis; `None` when it is absent or of another type.
    pub fn int(&self, axis: &str) -> Option<i64> {
        match self.get(axis) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// The number on an axis, whole or real.
    pub fn float(&self, axis: &str) -> Option<f64> {
        match self.get(axis) {
            Some(Value::Float(value)) => Some(*value),
            Some(Value::Int(value)) => Some(*value as f64),
            _ => None,
        }
    }

    /// The word on an axis.
    pub fn text(&self, axis: &str) -> Option<&str> {
        match self.get(axis) {
            Some(Value::Text(value)) => Some(value),
            _ => None,
        }
    }

    /// The switch on an axis.
    pub fn flag(&self, axis: &str) -> Option<bool> {
        match self.get(axis) {
            Some(Value::Flag(value)) => Some(*value),
            _ => None,
        }
    }

    /// Sets the value of an axis the case already has; other names are ignored.
    pub fn set(&mut self, axis: &str, value: impl Into<Value>) {
        if let Some(slot) = self.params.iter_mut().find(|(name, _)| name == axis) {
            slot.1 = value.into();
        }
    }

    /// The identity of the case, the same on every machine for ever: the workload, then `axis=value` sorted by name.
    ///
    /// An axis that joins a workload later is declared with the value that means "as before"
    /// ([`crate::Axis::neutral`]); the plan leaves a neutral value out of the case's identity by leaving it out of `params`.
    pub fn id(&self) -> String {
        let mut params: Vec<String> = self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        params.sort();
        if let Some(digest) = &self.input {
            params.push(format!("input#{digest}"));
        }
        format!("{}/{}", self.workload, params.join(","))
    }

    /// A 64-bit digest of [`Case::id`] (FNV-1a), from which the seed of the case's inputs is drawn.
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

/// FNV-1a, 64 bits (Fowler, Noll, Vo). Not for security: an identity that any language can recompute in five lines.
#[derive(Debug, Clone)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv {
    /// The empty digest.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds a text and a separator.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }

    /// The digest.
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
        // Committed digest: seeds of inputs are drawn from it, so it must be the same for ever.
        assert_eq!(case().digest(), 0x8233_60d7_a59a_505f);
    }

    #[test]
    fn given_arrays_are_part_of_the_identity() {
        let mut given = case();
        given.input = Some("00ff".into());
        assert!(given.id().ends_with(",input#00ff"));
        assert_ne!(given.digest(), case().digest());
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
