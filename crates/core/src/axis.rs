//! Axes. A workload declares each axis once; it becomes a command-line flag, a table column and the x axis of a plot.

use std::num::{IntErrorKind, ParseIntError};

use crate::case::Value;
use crate::error::InputError;

/// The values that an axis accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Domain {
    /// Integers from `min` to `max`, both included.
    Int {
        /// Smallest value accepted.
        min: i64,
        /// Largest value accepted.
        max: i64,
    },
    /// Numbers from `min` to `max`, both included.
    Float {
        /// Smallest value accepted.
        min: f64,
        /// Largest value accepted.
        max: f64,
    },
    /// Finite numbers above zero, or one of the listed words (`auto`).
    PositiveOr(Vec<&'static str>),
    /// One of the listed words; case is ignored.
    Choice(Vec<&'static str>),
    /// `on` or `off`.
    Switch,
}

/// One dimension of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name of the flag, the table column and the record key (`batch`).
    pub name: &'static str,
    /// Other names for the flag (`batch-sizes`, `M`).
    pub aliases: Vec<&'static str>,
    /// One line for the help text.
    pub about: &'static str,
    /// Unit shown with the name on a plot (`vectors`); empty for a pure number or a word.
    pub unit: &'static str,
    /// The values that the axis accepts.
    pub domain: Domain,
    /// Values swept unless the user names others.
    pub default: Vec<Value>,
    /// For an axis added to an existing workload: the value that keeps the earlier behaviour. It is omitted from the
    /// case's id.
    pub neutral: Option<Value>,
}

/// A named set of values for some axes (`tiny` .. `realistic`).
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// Name given to `--size`.
    pub name: &'static str,
    /// Values by axis; axes not named keep their default.
    pub values: Vec<(&'static str, Vec<Value>)>,
}

impl Size {
    /// A size with one value on each of these axes.
    pub fn new(name: &'static str, values: impl IntoIterator<Item = (&'static str, i64)>) -> Self {
        Self { name, values: values.into_iter().map(|(axis, value)| (axis, vec![Value::Int(value)])).collect() }
    }
}

impl Axis {
    /// An axis with a single default value.
    pub fn new(name: &'static str, about: &'static str, domain: Domain, default: impl Into<Value>) -> Self {
        Self { name, aliases: Vec::new(), about, unit: "", domain, default: vec![default.into()], neutral: None }
    }

    /// An axis of integers from `min` to `max`.
    pub fn int(name: &'static str, about: &'static str, min: i64, max: i64, default: i64) -> Self {
        Self::new(name, about, Domain::Int { min, max }, default)
    }

    /// An axis of numbers from `min` to `max`.
    pub fn float(name: &'static str, about: &'static str, min: f64, max: f64, default: f64) -> Self {
        Self::new(name, about, Domain::Float { min, max }, default)
    }

    /// An axis that takes one of `words`.
    pub fn choice(name: &'static str, about: &'static str, words: &[&'static str], default: &'static str) -> Self {
        Self::new(name, about, Domain::Choice(words.to_vec()), default)
    }

    /// Sets the values swept by default.
    #[must_use]
    pub fn sweep(mut self, values: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        self.default = values.into_iter().map(Into::into).collect();
        self
    }

    /// Sets other names for the flag.
    #[must_use]
    pub fn alias(mut self, aliases: &[&'static str]) -> Self {
        self.aliases = aliases.to_vec();
        self
    }

    /// Sets the unit of the values.
    #[must_use]
    pub fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Describes the accepted values for error messages (`an integer from 2 to 256`).
    pub fn expected(&self) -> String {
        match &self.domain {
            Domain::Int { min, max } => format!("an integer from {min} to {max}"),
            Domain::Float { min, max } => format!("a number from {min} to {max}"),
            Domain::PositiveOr(words) if words.is_empty() => "a number above 0".to_string(),
            Domain::PositiveOr(words) => format!("a number above 0, or {}", words.join(" or ")),
            Domain::Choice(words) => format!("one of {}", words.join(", ")),
            Domain::Switch => "on or off".to_string(),
        }
    }

    /// The name, then the others.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// True if the command line could give the axis this value.
    pub fn takes(&self, value: &Value) -> bool {
        match (self.parse(&value.to_string()), value) {
            // A whole number is a number as well.
            (Ok(Value::Float(_)), Value::Int(_)) => true,
            (parsed, value) => parsed.is_ok_and(|parsed| parsed == *value),
        }
    }

    /// Parses one value.
    ///
    /// # Errors
    /// If `text` is not a value of this axis. The error lists the accepted values and suggests the nearest word.
    pub fn parse(&self, text: &str) -> Result<Value, InputError> {
        let text = text.trim();
        let bad = |problem: String| InputError::setting(self.name, problem, self.expected());
        match &self.domain {
            Domain::Int { min, max } => {
                let plain = text.replace('_', "");
                let value: i64 = plain.parse().map_err(|error: ParseIntError| match error.kind() {
                    IntErrorKind::PosOverflow => bad(format!("{text} is too large")),
                    IntErrorKind::NegOverflow => bad(format!("{text} is too small")),
                    _ => bad(format!("'{text}' is not an integer")),
                })?;
                if value < *min {
                    return Err(bad(format!("{value} is too small")));
                }
                if value > *max {
                    return Err(bad(format!("{value} is too large")));
                }
                Ok(Value::Int(value))
            }
            Domain::Float { min, max } => {
                let value: f64 = text.parse().map_err(|_| bad(format!("'{text}' is not a number")))?;
                if !value.is_finite() {
                    return Err(bad(format!("{text} is not finite")));
                }
                if value < *min {
                    return Err(bad(format!("{text} is too small")));
                }
                if value > *max {
                    return Err(bad(format!("{text} is too large")));
                }
                // -0 and 0 are one case.
                Ok(Value::Float(value + 0.0))
            }
            Domain::PositiveOr(words) => {
                if let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                    return Ok(Value::Text((*word).to_string()));
                }
                let value: f64 = text.parse().map_err(|_| bad(format!("'{text}' is not a number")))?;
                if value.is_finite() && value > 0.0 {
                    Ok(Value::Float(value))
                } else {
                    Err(bad(format!("{text} is not above 0 and finite")))
                }
            }
            Domain::Choice(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                Some(word) => Ok(Value::Text((*word).to_string())),
                None => Err(bad(format!("'{text}' is unknown")).near(text, words.iter().copied())),
            },
            Domain::Switch => match text.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => Ok(Value::Flag(true)),
                "off" | "false" | "no" | "0" => Ok(Value::Flag(false)),
                _ => Err(bad(format!("'{text}' is neither on nor off"))),
            },
        }
    }

    /// Parses comma-separated values; keeps their order and drops repeats.
    ///
    /// # Errors
    /// If the list is empty or a value is not one of this axis.
    pub fn parse_list(&self, text: &str) -> Result<Vec<Value>, InputError> {
        let mut values = Vec::new();
        if text.trim().is_empty() {
            return Err(InputError::setting(self.name, "the list is empty", self.expected()));
        }
        for part in text.split(',') {
            if part.trim().is_empty() {
                let problem = format!("a value is missing in '{text}'");
                return Err(InputError::setting(self.name, problem, self.expected()));
            }
            let value = self.parse(part)?;
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_bounded() {
        let q = Axis::int("q", "", 2, 256, 4);
        assert_eq!(q.parse_list("4, 8,4").unwrap(), vec![Value::Int(4), Value::Int(8)]);
        for (text, problem) in [
            ("0", "too small"),
            ("257", "too large"),
            ("99999999999999999999", "too large"),
            ("-99999999999999999999", "too small"),
            ("four", "not an integer"),
            ("", "the list is empty"),
            (",", "a value is missing in ','"),
            ("4,,8", "a value is missing in '4,,8'"),
        ] {
            let error = q.parse_list(text).unwrap_err().to_string();
            assert!(error.starts_with("q: ") && error.contains(problem), "{error}");
            assert!(error.contains("an integer from 2 to 256"), "{error}");
        }
    }

    #[test]
    fn numbers_are_bounded_and_may_be_zero() {
        let noise = Axis::float("noise", "", -0.5, 1e3, 0.0).sweep([0.0, 0.25]);
        assert_eq!(noise.parse_list("0,-0,.25,1e3").unwrap(), [0.0, 0.25, 1e3].map(Value::Float));
        assert_eq!(noise.parse("-0").unwrap().to_string(), "0");
        assert!(noise.default.iter().chain([&Value::Int(1)]).all(|value| noise.takes(value)));
        for (text, problem) in [
            ("-0.6", "too small"),
            ("1001", "too large"),
            ("nan", "not finite"),
            ("inf", "not finite"),
            ("much", "'much' is not a number"),
        ] {
            let error = noise.parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("a number from -0.5 to 1000"), "{error}");
        }
    }

    #[test]
    fn unknown_words_suggest_the_nearest_one() {
        let lattice = Axis::choice("lattice", "", &["Z2", "D4", "E8"], "D4");
        assert_eq!(lattice.parse("e8").unwrap(), Value::Text("E8".into()));
        assert!(lattice.parse("D5").unwrap_err().to_string().contains("did you mean D4?"));
    }

    #[test]
    fn numbers_or_words() {
        let beta = Axis::new("beta", "", Domain::PositiveOr(vec!["auto"]), 1.0);
        assert_eq!(beta.parse("AUTO").unwrap(), Value::Text("auto".into()));
        assert_eq!(beta.parse("2.5e-1").unwrap(), Value::Float(0.25));
        for bad in ["0", "-1", "nan", "inf", "much"] {
            assert!(beta.parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Axis::new("centred", "", Domain::Switch, false).parse("on").unwrap(), Value::Flag(true));
        for (value, taken) in [
            (Value::Float(0.1 + 0.2), true),
            (Value::Int(3), true),
            ("auto".into(), true),
            ("AUTO".into(), false),
            (0.0.into(), false),
            (Value::Flag(true), false),
        ] {
            assert_eq!(beta.takes(&value), taken, "{value:?}");
        }
    }
}
