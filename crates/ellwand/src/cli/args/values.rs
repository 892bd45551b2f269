//! Values of flags as types: formats, conditions of failure, shares, directories.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser, ValueParser};
use ellwand_report::{FORMATS, Format};

/// A format for results that are not a report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
    Junit,
    Github,
}

impl Form {
    /// Formats of rows.
    pub(super) const ROWS: [(&'static str, Form); 2] = [("table", Form::Table), ("json", Form::Json)];
    /// Formats of verdicts: rows, and what continuous integration reads.
    pub(crate) const VERDICTS: [(&'static str, Form); 4] =
        [("table", Form::Table), ("json", Form::Json), ("junit", Form::Junit), ("github", Form::Github)];
}

/// A format of `run`: a report, or one for continuous integration.
#[derive(Clone, Copy)]
pub(crate) enum RunFormat {
    Report(&'static Format),
    Junit,
    Github,
}

impl RunFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RunFormat::Report(format) => format.name,
            RunFormat::Junit => "junit",
            RunFormat::Github => "github",
        }
    }

    /// The same format for rows without times, if it exists.
    pub(crate) fn of_rows(self) -> Option<Form> {
        Form::ROWS.into_iter().find(|(name, _)| *name == self.name()).map(|(_, form)| form)
    }

    pub(super) fn all() -> Vec<(&'static str, Self)> {
        let all = FORMATS.iter().map(RunFormat::Report).chain([RunFormat::Junit, RunFormat::Github]);
        all.map(|format| (format.name(), format)).collect()
    }
}

/// The condition under which a command ends with an exit code other than 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailOn {
    Budget,
    Slower,
    Undecided,
    Never,
}

impl FailOn {
    pub(super) const OF_RUN: [(&'static str, FailOn); 2] = [("budget", FailOn::Budget), ("never", FailOn::Never)];
    pub(super) const OF_COMPARE: [(&'static str, FailOn); 3] =
        [("slower", FailOn::Slower), ("undecided", FailOn::Undecided), ("never", FailOn::Never)];
}

/// One of several names, each with a value.
pub(super) fn named<T>(names: impl AsRef<[(&'static str, T)]>) -> ValueParser
where
    T: Copy + Send + Sync + 'static,
{
    let names = names.as_ref().to_vec();
    let known = PossibleValuesParser::new(names.iter().map(|(name, _)| *name));
    ValueParser::new(known.try_map(move |given| {
        let value = names.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
        value.ok_or("this name is unknown")
    }))
}

/// A directory. Commands themselves refuse an empty name, with the reason.
pub(super) fn directory() -> ValueParser {
    ValueParser::new(OsStringValueParser::new().map(PathBuf::from))
}

/// An integer within these bounds.
pub(super) fn integer<T>(bounds: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let found = text.trim().parse().ok().filter(|number| bounds.contains(number));
        found.ok_or_else(|| format!("expected an integer from {} to {}", bounds.start(), bounds.end()))
    }
}

/// A percentage as a share: `0.5`, `0.5 %`.
pub(super) fn share(text: &str) -> Result<f64, &'static str> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage from 0 to 100, such as 0.5"),
    }
}

/// The region of practical equivalence of verdicts, as a share: above zero, because no two measured times are equal.
pub(super) fn region(text: &str) -> Result<f64, &'static str> {
    match share(text) {
        Ok(0.0) => {
            Err("no two times would count as the same; expected a percentage above 0 and up to 100, such as 0.5")
        }
        share => share,
    }
}

/// A part of a tolerance: a finite number of at least 0.
pub(super) fn tolerance(text: &str) -> Result<f64, &'static str> {
    let found = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    found.ok_or("expected a number of at least 0, such as 1e-4")
}

/// A duration as seconds: `20s`, `500ms`, `2m`, `1h`, or a number of seconds.
pub(super) fn seconds(text: &str) -> Result<f64, &'static str> {
    let found = duration(text).filter(|seconds| (0.1..=86_400.0).contains(seconds));
    found.ok_or("expected a time from 100ms to 24h, such as 20s or 5m")
}

/// A duration that may be zero, as seconds.
pub(super) fn age(text: &str) -> Result<f64, &'static str> {
    let found = duration(text).filter(|seconds| (0.0..=3600.0).contains(seconds));
    found.ok_or("expected a time from 0s to 1h, such as 1s or 500ms")
}

fn duration(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let factor = match text[number.len()..].trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_per_cent() {
        for (text, expected) in [("1", 0.01), ("0.5%", 0.005), ("20 %", 0.2), ("0", 0.0)] {
            assert_eq!(share(text), Ok(expected), "{text}");
        }
        for text in ["", "much", "-1", "101", "nan", "inf"] {
            assert!(share(text).unwrap_err().contains("percentage"), "{text}");
        }
    }

    #[test]
    fn a_region_of_zero_is_refused() {
        assert_eq!((region("0.5%"), region("100"), region("much")), (Ok(0.005), Ok(1.0), share("much")));
        for text in ["0", "0%", "-0", "0.0 %", "1e-400"] {
            assert!(region(text).unwrap_err().contains("above 0 and up to 100, such as 0.5"), "{text}");
        }
    }

    #[test]
    fn integers_are_within_their_bounds() {
        let integer = integer(1..=1000_u32);
        assert_eq!((integer("1"), integer(" 20"), integer("1000")), (Ok(1), Ok(20), Ok(1000)));
        for text in ["", "abc", "-1", "0", "1001", "1.5", "99999999999"] {
            assert_eq!(integer(text), Err("expected an integer from 1 to 1000".to_string()), "{text}");
        }
    }

    #[test]
    fn tolerances_are_finite_and_not_negative() {
        assert_eq!((tolerance("1e-4"), tolerance("0")), (Ok(1e-4), Ok(0.0)));
        for text in ["", "-1e-9", "nan", "inf", "1e-4x"] {
            assert!(tolerance(text).unwrap_err().contains("at least 0"), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in
            [("20s", 20.0), ("20", 20.0), ("1.5 s", 1.5), ("500ms", 0.5), ("5m", 300.0), ("1h", 3600.0)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "-5s", "0s", "soon", "20 parsecs", "nan", "inf", "1e9", "s", "10ms", "25h"] {
            assert!(seconds(text).unwrap_err().contains("20s"), "{text}");
        }
        assert_eq!((age("0s"), age("250ms")), (Ok(0.0), Ok(0.25)));
        for text in ["", "-1s", "2h", "old", "nan"] {
            assert!(age(text).unwrap_err().contains("1s"), "{text}");
        }
    }

    #[test]
    fn rows_without_times_are_a_table_or_json() {
        let of_rows = RunFormat::all().into_iter().filter(|(_, format)| format.of_rows().is_some());
        assert_eq!(of_rows.map(|(name, _)| name).collect::<Vec<_>>(), ["table", "json"]);
    }
}
