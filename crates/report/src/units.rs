//! Numbers for people: a value with its unit, with three or four significant digits. Not used by machine-readable
//! formats.

/// Significant digits of most numbers.
pub(crate) const DIGITS: usize = 3;

/// Decimal prefixes of rates and operations.
const RATE: &[(f64, &str)] = &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
/// Units of time.
const TIME: &[(f64, &str)] = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
/// Units of size, in powers of two.
const SIZE: &[(f64, &str)] = &[
    (1_152_921_504_606_846_976.0, "EiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];

/// Text for an unavailable value.
pub const UNAVAILABLE: &str = "n/a";

/// Formats `value` in `unit` for people: `12.3 µs`, `41.7 GB/s`, `120 M/s`, `62.1 %`, `3.21x`.
///
/// Units with a scale: `s`, `B`, `B/s`, `1/s`, `FLOP/s`; `1` is a fraction, shown in per cent; `x` is a ratio. Any
/// other unit follows the plain number; an empty unit is omitted.
pub fn human(value: f64, unit: &str) -> String {
    match unit {
        "1" if value.is_finite() => format!("{} %", percent(value, DIGITS)),
        _ => precise(value, unit, DIGITS),
    }
}

/// A rate without its time, for a text that names the item: `120 M`.
pub(crate) fn rate(value: f64) -> String {
    human(value, "1/s").trim_end_matches("/s").trim_end().to_string()
}

/// [`human`] with the given number of significant digits.
pub(crate) fn precise(value: f64, unit: &str, digits: usize) -> String {
    if !value.is_finite() {
        return UNAVAILABLE.to_string();
    }
    match unit {
        "1" => format!("{} %", significant(value * 100.0, digits)),
        "x" | "ratio" => format!("{}x", significant(value, digits)),
        _ => {
            let scale = scale_of(value, unit);
            join(&significant(value / scale.factor, digits), &scale.suffix)
        }
    }
}

/// A fraction in per cent; below one per cent, the last digit carries no information.
fn percent(value: f64, digits: usize) -> String {
    significant(value * 100.0, if value.abs() < 0.01 { digits - 1 } else { digits })
}

/// Formats a share without needless zeros: `1 %`, `2.5 %`.
pub fn share(share: f64) -> String {
    format!("{} %", trim(&format!("{:.2}", share * 100.0)))
}

/// A text as the start of a line.
pub(crate) fn capitalized(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// Formats a ratio: `3.21x`.
pub fn ratio(value: f64) -> String {
    precise(value, "x", DIGITS)
}

/// Formats a range at one scale with a single unit: `12.1–12.9 µs`. Ends that would look the same get up to 6 digits.
pub fn range(low: f64, high: f64, unit: &str) -> String {
    if !low.is_finite() || !high.is_finite() {
        return UNAVAILABLE.to_string();
    }
    let scale = match unit {
        "1" => Scale { factor: 1.0, suffix: "%".into() },
        "x" | "ratio" => Scale { factor: 1.0, suffix: String::new() },
        _ => scale_of(if low.abs() > high.abs() { low } else { high }, unit),
    };
    let ends = |digits| match unit {
        "1" => [low, high].map(|end| percent(end, digits)),
        _ => [low, high].map(|end| significant(end / scale.factor, digits)),
    };
    let [low, high] = (DIGITS..=6).map(ends).find(|[low, high]| low != high).unwrap_or_else(|| ends(DIGITS));
    join(&format!("{low}–{high}"), &scale.suffix)
}

/// Text for a time below the timer resolution.
pub fn below_resolution(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) => format!("below resolution ({})", human(seconds, "s")),
        None => "below resolution".to_string(),
    }
}

/// A tick label or another short number: `1`, `10`, `1k`, `10k`, `1.5M`.
#[cfg(any(feature = "plots", test))]
pub(crate) fn short(value: f64, digits: usize) -> String {
    let (factor, prefix) = choose(RATE, value);
    let text = if value.abs() < 1e-3 && value != 0.0 {
        format!("{value:e}")
    } else {
        trim(&significant(value / factor, digits)).to_string()
    };
    format!("{text}{prefix}")
}

/// Formats `value` with `digits` significant digits, in scientific notation outside 0.001 .. 100000.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    // Round first, because rounding can change the decade: 9.996 becomes 10.0, not 10.00.
    let scientific = format!("{value:.*e}", digits - 1);
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if !(-3..5).contains(&exponent) {
        return scientific;
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    format!("{value:.decimals$}")
}

struct Scale {
    factor: f64,
    suffix: String,
}

fn scale_of(value: f64, unit: &str) -> Scale {
    let (scales, rest) = match unit {
        "s" => (TIME, ""),
        "B" => (SIZE, ""),
        "1/s" => (RATE, "/s"),
        "B/s" | "FLOP/s" | "Hz" => (RATE, unit),
        other => return Scale { factor: 1.0, suffix: other.to_string() },
    };
    let (factor, prefix) = choose(scales, value);
    Scale { factor, suffix: format!("{prefix}{rest}") }
}

/// The largest scale at which the rounded value is at least 1, or the smallest scale.
fn choose(scales: &[(f64, &'static str)], value: f64) -> (f64, &'static str) {
    let rounded: f64 = format!("{:.*e}", DIGITS - 1, value.abs()).parse().unwrap_or(0.0);
    let fits = |(factor, _): &&(f64, &'static str)| rounded >= *factor * 0.999_999;
    let last = scales.last().copied().unwrap_or((1.0, ""));
    if rounded == 0.0 {
        scales.iter().find(|(f, _)| *f == 1.0).copied().unwrap_or(last)
    } else {
        scales.iter().find(fits).copied().unwrap_or(last)
    }
}

fn join(number: &str, suffix: &str) -> String {
    if suffix.is_empty() { number.to_string() } else { format!("{number} {suffix}") }
}

/// A number without zeros at its end.
pub(crate) fn trim(text: &str) -> &str {
    if text.contains('.') && !text.contains('e') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Makes text from a record safe for a terminal or table: removes control characters, which could move the cursor or
/// break a line.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_string()
}

/// Number of processor cores, in words.
pub fn cores(count: i64) -> String {
    if count == 1 { "1 core".into() } else { format!("{count} cores") }
}

/// Formats a Unix time stamp as ISO 8601 UTC (civil-from-days over the 400-year Gregorian cycle).
pub fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years count from 1 March 0000, so the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_core_is_no_plural() {
        assert_eq!([0, 1, 2].map(cores), ["0 cores", "1 core", "2 cores"]);
    }

    #[test]
    fn values_are_written_with_their_unit() {
        let cases = [
            (12.34e-6, "s", "12.3 µs"),
            (999.96e-9, "s", "1.00 µs"),
            (0.42e-9, "s", "0.420 ns"),
            (61.0, "s", "61.0 s"),
            (41.72e9, "B/s", "41.7 GB/s"),
            (1.98e9, "Hz", "1.98 GHz"),
            (345e6, "Hz", "345 MHz"),
            (1536.0, "B", "1.50 KiB"),
            (120.4e6, "1/s", "120 M/s"),
            (7.5, "1/s", "7.50 /s"),
            (0.6213, "1", "62.1 %"),
            (1.043, "1", "104 %"),
            (3.2149, "x", "3.21x"),
            (123.4, "x", "123x"),
            (0.076_603, "", "0.0766"),
            (7.66e-5, "", "7.66e-5"),
            (4.25, "bits", "4.25 bits"),
            (0.0, "s", "0 s"),
            (f64::NAN, "s", "n/a"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(human(value, unit), expected, "{value} {unit}");
        }
    }

    #[test]
    fn ranges_and_ticks() {
        assert_eq!(range(12.1e-6, 12.94e-6, "s"), "12.1–12.9 µs");
        assert_eq!(range(900e-9, 1.1e-6, "s"), "0.900–1.10 µs");
        assert_eq!(range(0.5, 0.625, "1"), "50.0–62.5 %");
        assert_eq!(range(0.9994, 1.0004, "x"), "0.999–1.00");
        assert_eq!(range(0.9996, 1.0004, "x"), "0.9996–1.000", "it has a width");
        assert_eq!(range(1.2301e-6, 1.2302e-6, "s"), "1.2301–1.2302 µs");
        assert_eq!(range(2.0, 2.0, "x"), "2.00–2.00");
        for (value, text) in
            [(1.0, "1"), (10.0, "10"), (1000.0, "1k"), (10_000.0, "10k"), (1.5e6, "1.5M"), (0.25, "0.25")]
        {
            assert_eq!(short(value, DIGITS), text);
        }
        assert_eq!(clean("a\u{1b}[31mb\nc"), "a [31mb c");
    }

    /// Parses a formatted number, using the units above.
    fn parse(text: &str) -> f64 {
        let end = text.find(|c: char| !(c.is_ascii_digit() || ".-+e".contains(c))).unwrap_or(text.len());
        let number: f64 = text[..end].trim().parse().unwrap();
        let suffix = text[end..].trim();
        let factor = match suffix.chars().next() {
            None => 1.0,
            Some('%') => 0.01,
            Some('n') => 1e-9,
            Some('µ') => 1e-6,
            Some('m') => 1e-3,
            Some('k') => 1e3,
            Some('M') => 1e6,
            Some('G') => 1e9,
            Some('T') => 1e12,
            _ => 1.0,
        };
        number * factor
    }

    proptest! {
        #[test]
        fn what_is_shown_is_the_value_to_three_digits(exponent in -12.0_f64..15.0, unit in prop::sample::select(vec!["s", "B/s", "1/s", "FLOP/s", "1", "x", ""])) {
            let value = 10_f64.powf(exponent);
            let shown = human(value, unit);
            let allowed = if unit == "1" && value < 0.01 { 0.050_001 } else { 0.005_001 };
            prop_assert!((parse(&shown) / value - 1.0).abs() <= allowed, "{} {} -> {}", value, unit, shown);
            prop_assert!(shown.chars().count() <= 16, "{}", shown);
        }

        #[test]
        fn order_is_kept_within_a_unit(a in 1e-9_f64..1e3, factor in 1.02_f64..1e3) {
            prop_assert!(parse(&human(a, "s")) < parse(&human(a * factor, "s")));
        }
    }

    #[test]
    fn dates_of_known_stamps() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199_999), "2024-02-29T23:59:59Z");
        assert_eq!(utc(1_709_251_200_000), "2024-03-01T00:00:00Z");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01T00:00:00Z");
    }
}
