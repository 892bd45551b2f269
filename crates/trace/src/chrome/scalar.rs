//! Values of trace events, which programs write with different types: a process may be a number or a text.

use std::fmt;

use ellwand_profile::Value;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::read::shortened;

/// Maximum number of arguments kept per event, and of characters per argument.
const MAX_ARGS: usize = 32;
const MAX_TEXT: usize = 200;

/// A value that is used if it is a number or a text; `None` if it is missing, null, an array or an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Scalar(pub(crate) Option<Value>);

impl Scalar {
    /// As a number; a text that holds a number counts too.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.0.as_ref()? {
            Value::Text(text) => text.trim().parse().ok(),
            value => number(value),
        }
        .filter(|value: &f64| value.is_finite())
    }

    /// Microseconds as nanoseconds.
    pub(crate) fn nanos(&self) -> Option<i64> {
        match &self.0 {
            Some(Value::Int(value)) => Some(value.saturating_mul(1000)),
            _ => {
                let exact = self.text().and_then(|text| exact(text.trim()));
                exact.or_else(|| self.number().map(|value| (value * 1e3).round() as i64))
            }
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.0 {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// As a key of a table: 7 and "7" identify the same thread.
    pub(crate) fn key(&self) -> String {
        match &self.0 {
            None => String::new(),
            Some(Value::Bool(value)) => value.to_string(),
            Some(Value::Int(value)) => value.to_string(),
            Some(Value::Float(value)) => value.to_string(),
            Some(Value::Text(text)) => text.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any(None)).map(Self)
    }
}

/// Takes any value. The members of an object go to the list, if there is one.
struct Any<'a>(Option<&'a mut Vec<(String, Value)>>);

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Option<Value>;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }
    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(Value::Text(value.to_string())))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Some(args) = self.0 else {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value::<serde_json::Value>()?;
            if args.len() < MAX_ARGS
                && let Some(value) = plain(value)
            {
                args.push((shortened(&name, MAX_TEXT), value));
            }
        }
        Ok(None)
    }
}

/// A time in nanoseconds, read from microseconds. Times since 1970 have more digits than an `f64`.
#[derive(Debug, Default)]
pub(crate) struct Time(pub(crate) Option<i64>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let other = || serde_json::from_str::<Scalar>(text.get()).ok()?.nanos();
        Ok(Self(exact(text.get()).or_else(other)))
    }
}

/// Decimal microseconds as the nearest nanoseconds; `None` with an exponent or out of range.
fn exact(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ns = format!("{whole}{fraction:0<3.3}").parse::<i64>().ok()?;
    let ns = ns.checked_add(fraction.as_bytes().get(3).is_some_and(|digit| *digit >= b'5').into())?;
    Some(if digits.len() < text.len() { -ns } else { ns })
}

/// The members of an object. Nested values become their JSON text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Args(pub(crate) Vec<(String, Value)>);

impl Args {
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn take_number(&mut self, name: &str) -> Option<f64> {
        let at = self.0.iter().position(|(known, value)| known == name && number(value).is_some())?;
        number(&self.0.remove(at).1)
    }

    /// Removes a count (a number of at least 0) and returns it.
    pub(crate) fn take_count(&mut self, name: &str) -> Option<u64> {
        self.take_number(name).filter(|value| *value >= 0.0).map(|value| value as u64)
    }
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Bool(_) | Value::Text(_) => None,
    }
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut args = Vec::new();
        // Some programs write a text, an array or null instead, which has no named values.
        deserializer.deserialize_any(Any(Some(&mut args)))?;
        Ok(Self(args))
    }
}

fn plain(value: serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    match value {
        Json::Null => None,
        Json::Bool(value) => Some(Value::Bool(value)),
        Json::Number(number) => number.as_i64().map(Value::Int).or_else(|| number.as_f64().map(Value::Float)),
        Json::String(text) => Some(Value::Text(shortened(&text, MAX_TEXT))),
        nested => Some(Value::Text(shortened(&nested.to_string(), MAX_TEXT))),
    }
}
