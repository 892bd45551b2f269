//! Quantities with units, as written in `ellwand.toml`: `"2 ms"`, `"0.4 ns/item"`, `"64 MB"`, `"100 k/s"`, `"2x"`.

/// A limit in seconds, bytes, items per second, or as a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limit {
    pub(super) value: f64,
    /// True if per item, not per iteration.
    pub(super) per_item: bool,
}

/// Units of time, in seconds.
const TIMES: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];
/// Units of size in bytes, decimal and binary.
const SIZES: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TB", 1e12),
];

/// Prefixes of a rate.
const RATES: [(&str, f64); 4] = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)];

/// Example of a time, for messages.
pub(super) const TIME: &str = "a time such as \"2 ms\", or an item's such as \"0.4 ns/item\" (ns, us, ms, s, min)";
pub(super) const SIZE: &str = "a size such as \"64 MB\" (B, kB, MB, GB, KiB, MiB, GiB)";
pub(super) const RATE: &str = "items a second such as \"100 k/s\" (k, M, G)";
pub(super) const RATIO: &str = "a ratio such as \"2x\"";

/// Parses a time per iteration or per item.
pub(super) fn time(text: &str) -> Result<Limit, String> {
    let (text, per_item) = match text.trim().strip_suffix("item").map(str::trim_end) {
        Some(rest) => match rest.strip_suffix('/').or_else(|| rest.strip_suffix(" per")) {
            Some(rest) => (rest, true),
            None => return Err(format!("'{text}' has no '/' before 'item'")),
        },
        None => (text, false),
    };
    Ok(Limit { value: quantity(text, &TIMES)?, per_item })
}

pub(super) fn size(text: &str) -> Result<Limit, String> {
    Ok(Limit { value: quantity(text, &SIZES)?, per_item: false })
}

/// Parses items per second.
pub(super) fn rate(text: &str) -> Result<Limit, String> {
    let number = text.trim().strip_suffix("/s").ok_or_else(|| format!("'{text}' does not end with '/s'"))?;
    Ok(Limit { value: quantity(number, &RATES)?, per_item: false })
}

/// Parses a speed-up.
pub(super) fn ratio(text: &str) -> Result<Limit, String> {
    Ok(Limit { value: quantity(text, &[("x", 1.0)])?, per_item: false })
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let text = text.trim();
    // Take the longest number: in "2e3 ms" the e belongs to the number, in "2 EB" it does not.
    let end = text.char_indices().map(|(at, _)| at).chain([text.len()]).rev();
    let number = end.filter_map(|at| Some((text[..at].trim_end().parse::<f64>().ok()?, text[at..].trim()))).next();
    let Some((value, unit)) = number else { return Err(format!("'{text}' does not begin with a number")) };
    if !(value.is_finite() && value > 0.0) {
        return Err(format!("{value} is not above 0 and finite"));
    }
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(value * factor),
        None if unit.is_empty() => Err(format!("'{text}' has no unit")),
        None => Err(format!("'{unit}' is not a unit that fits here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_with_units() {
        for (text, seconds, per_item) in [
            ("2 ms", 2e-3, false),
            ("2ms", 2e-3, false),
            (" 1.5 us ", 1.5e-6, false),
            ("3 µs", 3e-6, false),
            ("1e3 ns", 1e-6, false),
            ("2 min", 120.0, false),
            ("0.4 ns/item", 0.4e-9, true),
            ("0.4 ns / item", 0.4e-9, true),
            ("7 ns per item", 7e-9, true),
        ] {
            let limit = time(text).unwrap();
            assert!((limit.value / seconds - 1.0).abs() < 1e-12 && limit.per_item == per_item, "{text}: {limit:?}");
        }
        for (text, bytes) in [("64 MB", 64e6), ("1 GiB", 1_073_741_824.0), ("0.5 kB", 500.0), ("12B", 12.0)] {
            assert_eq!(size(text).unwrap().value, bytes, "{text}");
        }
        for (text, items) in [("100 k/s", 1e5), ("100k/s", 1e5), ("2.5 M /s", 2.5e6), ("40/s", 40.0)] {
            assert_eq!(rate(text).unwrap().value, items, "{text}");
        }
        assert_eq!((ratio("2x").unwrap().value, ratio("1.5 x").unwrap().value), (2.0, 1.5));
    }

    #[test]
    fn an_invalid_quantity_names_the_reason() {
        for (text, why) in [
            ("2", "no unit"),
            ("ms", "begin with a number"),
            ("", "begin with a number"),
            ("0 ms", "not above 0"),
            ("-1 ms", "not above 0"),
            ("inf ms", "not above 0"),
            ("nan ms", "not above 0"),
            ("2 fortnights", "'fortnights' is not a unit"),
            ("2 MB", "'MB' is not a unit"),
            ("2 ms item", "no '/'"),
        ] {
            let error = time(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(size("2 ms").unwrap_err().contains("'ms' is not a unit"));
        assert!(rate("100 k").unwrap_err().contains("does not end with '/s'"));
        assert!(rate("100 vectors/s").unwrap_err().contains("'vectors' is not a unit"));
        assert!(ratio("2").unwrap_err().contains("no unit"));
    }
}
