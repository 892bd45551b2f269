//! Axes: declared once by a workload, they become the flags of the command line, the columns of the tables
//! and the x axes of the plots.

use std::num::{IntErrorKind, ParseIntError};

use crate::case::Value;
use crate::error::{InputError, nearest};

/// What values an axis can take.
#[derive(Debug, Clone, PartialEq)]
pub enum Domain {
    /// Whole numbers from `min` to `max`.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// Real numbers above zero, or one of the words (`auto`).
    PositiveOr(Vec<&'static str>),
    /// One of a list of words, compared without regard to case.
    Choice(Vec<&'static str>),
    /// `on` or `off`.
    Switch,
}

/// One dimension of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name: flag, column and key (`batch`).
    pub name: &'static str,
    /// Other names for the flag (`batch-sizes`, `M`).
    pub aliases: Vec<&'static str>,
    /// One line for the help text.
    pub about: &'static str,
    /// Unit shown beside the name on a plot (`vectors`); empty for a pure number or a word.
    pub unit: &'static str,
    /// Possible values.
    pub domain: Domain,
    /// The sweep when the user says nothing.
    pub default: Vec<Value>,
    /// For an axis that joined an existing workload: the value that means "as it was before", left out of the case's identity.
    pub neutral: Option<Value>,
}

/// A named set of values for some axes (`tiny` .. `realistic`).
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// Name as given to `--size`.
    pub name: &'static str,
    /// Values by axis; axes not named keep their default.
    pub values: Vec<(&'static str, Vec<Value>)>,
}

impl Axis {
    /// An axis with a single default value.
    pub fn new(name: &'static str, about: &'static str, domain: Domain, default: impl Into<Value>) -> Self {
        Self { name, aliases: Vec::new(), about, unit: "", domain, default: vec![default.into()], neutral: None }
    }

    /// A whole-number axis.
    pub fn int(name: &'static str, about: &'static str, min: i64, max: i64, default: i64) -> Self {
        Self::new(name, about, Domain::Int { min, max }, default)
    }

    /// An axis of words.
    pub fn choice(name: &'static str, about: &'static str, words: &[&'static str], default: &'static str) -> Self {
        Self::new(name, about, Domain::Choice(words.to_vec()), default)
    }

    /// The default sweep.
    #[must_use]
    pub fn sweep(mut self, values: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        self.default = values.into_iter().map(Into::into).collect();
        self
    }

    /// Other names for the flag.
    #[must_use]
    pub fn alias(mut self, aliases: &[&'static str]) -> Self {
        self.aliases = aliases.to_vec();
        self
    }

    /// Unit of the values.
    #[must_use]
    pub fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// What the axis accepts, in words.
    pub fn expected(&self) -> String {
        match &self.domain {
            Domain::Int { min, max } => format!("a whole number from {min} to {max}"),
            Domain::PositiveOr(words) if words.is_empty() => "a number above 0".to_string(),
            Domain::PositiveOr(words) => format!("a number above 0, or {}", words.join(" or ")),
            Domain::Choice(words) => format!("one of {}", words.join(", ")),
            Domain::Switch => "on or off".to_string(),
        }
    }

    /// Reads one value.
    ///
    /// # Errors
    /// When the text is not a value of this axis; the message says what is, and the nearest word.
    pub fn parse(&self, text: &str) -> Result<Value, InputError> {
        let text = text.trim();
        let bad = |problem: String| InputError::new(format!("--{}", self.name), problem, self.expected());
        match &self.domain {
            Domain::Int { min, max } => {
                let plain = text.replace('_', "");
                let value: i64 = plain.parse().map_err(|error: ParseIntError| match error.kind() {
                    IntErrorKind::PosOverflow => bad(format!("{text} is too large")),
                    IntErrorKind::NegOverflow => bad(format!("{text} is too small")),
                    _ => bad(format!("'{text}' is not a whole number")),
                })?;
                if value < *min {
                    return Err(bad(format!("{value} is too small")));
                }
                if value > *max {
                    return Err(bad(format!("{value} is too large")));
                }
                Ok(Value::Int(value))
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
                None => {
                    let error = bad(format!("'{text}' is unknown"));
                    Err(match nearest(text, words.iter().copied()) {
                        Some(word) => error.help(format!("did you mean {word}?")),
                        None => error,
                    })
                }
            },
            Domain::Switch => match text.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => Ok(Value::Flag(true)),
                "off" | "false" | "no" | "0" => Ok(Value::Flag(false)),
                _ => Err(bad(format!("'{text}' is neither on nor off"))),
            },
        }
    }

    /// Reads a comma-separated sweep, keeping the order and dropping repeats.
    ///
    /// # Errors
    /// When a value is not of this axis, or there is none.
    pub fn parse_list(&self, text: &str) -> Result<Vec<Value>, InputError> {
        let mut values = Vec::new();
        if text.trim().is_empty() {
            return Err(InputError::new(format!("--{}", self.name), "there is no value", self.expected()));
        }
        for part in text.split(',') {
            if part.trim().is_empty() {
                let problem = format!("a value is missing in '{text}'");
                return Err(InputError::new(format!("--{}", self.name), problem, self.expected()));
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
    fn whole_numbers_are_bounded() {
        let q = Axis::int("q", "", 2, 256, 4);
        assert_eq!(q.parse_list("4, 8,4").unwrap(), vec![Value::Int(4), Value::Int(8)]);
        for (text, problem) in [
            ("0", "too small"),
            ("257", "too large"),
            ("99999999999999999999", "too large"),
            ("-99999999999999999999", "too small"),
            ("four", "not a whole number"),
            ("", "no value"),
            (",", "a value is missing in ','"),
            ("4,,8", "a value is missing in '4,,8'"),
        ] {
            let error = q.parse_list(text).unwrap_err().to_string();
            assert!(error.starts_with("--q: ") && error.contains(problem), "{error}");
            assert!(error.contains("a whole number from 2 to 256"), "{error}");
        }
    }

    #[test]
    fn words_suggest_the_nearest() {
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
    }
}
