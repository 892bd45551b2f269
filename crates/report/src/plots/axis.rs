//! Axes of a panel: maps values to positions and places the ticks.

use crate::units::{DIGITS, precise, short, trim};

/// Maximum number of digits of a label, which hide the rounding errors of multiples of the step.
const MAX_DIGITS: usize = 13;

/// How values map to positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// On a logarithmic axis with a 0: where 0 is drawn, and the smallest of the other values.
    zero: Option<(f64, f64)>,
}

/// Ratios of the smallest value to the position of 0, and least share of the logarithmic axis between them.
const STEP: [f64; 2] = [2.0, 10.0];
const STEP_SHARE: f64 = 0.08;

/// A tick; without a label it is only a grid line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: Option<String>,
}

impl Axis {
    /// An axis over all finite `values` with a margin at both ends. Logarithmic if `log` and no value is negative; 0 is then
    /// one step below the smallest positive one.
    pub(super) fn over(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        let mut positive: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        positive.sort_by(f64::total_cmp);
        positive.dedup();
        if log
            && low >= 0.0
            && let Some(&least) = positive.first()
        {
            let next = positive.get(1).map_or(STEP[1], |next| next / least).clamp(STEP[0], STEP[1]);
            let step = next.max((high / least).powf(STEP_SHARE));
            let zero = (low == 0.0).then_some((least / step, least));
            let low = zero.map_or(least, |(at, _)| at);
            // At least a factor of 2.5, so that a nearly flat line looks flat.
            let room = (high / low).ln() * 0.05;
            let grow = ((2.5_f64.ln() - (high / low).ln()) / 2.0).max(0.0) + room;
            return Some(Self { low: (low.ln() - grow).exp(), high: (high.ln() + grow).exp(), log: true, zero });
        }
        let room = if high > low { (high - low) * 0.06 } else { high.abs().max(1.0) * 0.1 };
        Some(Self { low: low - room, high: high + room, log: false, zero: None })
    }

    /// Position of a value, 0 at the lower end and 1 at the upper.
    pub(super) fn position(&self, value: f64) -> f64 {
        if self.log {
            let value = self.zero.filter(|_| value == 0.0).map_or(value, |(at, _)| at);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    pub(super) fn contains(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.position(value))
    }

    /// About `wanted` ticks with labels in `unit`.
    pub(super) fn ticks(&self, unit: &str, wanted: usize) -> Vec<Tick> {
        let Some((_, least)) = self.zero else { return self.ticks_of_values(unit, wanted) };
        let zero = Tick { value: 0.0, label: Some(label(0.0, unit, DIGITS)) };
        let others = self.ticks_of_values(unit, wanted).into_iter().filter(|tick| tick.value >= least * (1.0 - 1e-9));
        std::iter::once(zero).chain(others).collect()
    }

    fn ticks_of_values(&self, unit: &str, wanted: usize) -> Vec<Tick> {
        match unit {
            // At least two labels, or else the decimal ones.
            "B" if self.log && self.high / self.low >= 4.0 => self.binary_ticks(wanted),
            _ if self.log => {
                let ticks = self.log_ticks(unit, wanted);
                let labelled = ticks.iter().filter(|tick| tick.label.is_some()).count();
                if labelled < 2 { self.linear_ticks(unit, wanted) } else { ticks }
            }
            _ => self.linear_ticks(unit, wanted),
        }
    }

    /// Powers of two, which are round numbers of KiB and MiB.
    fn binary_ticks(&self, wanted: usize) -> Vec<Tick> {
        let (first, last) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
        let step = ((last - first + 1) as usize).div_ceil(wanted.max(1));
        let tick = |value| Tick { value, label: Some(label(value, "B", DIGITS)) };
        (first..=last).step_by(step).map(|power| tick(2_f64.powi(power))).collect()
    }

    fn log_ticks(&self, unit: &str, wanted: usize) -> Vec<Tick> {
        let decades = (self.high / self.low).log10();
        let step = ((decades / wanted.max(1) as f64).ceil() as i32).max(1);
        // With few decades, 2 and 5 are labelled too; with very few, every multiple.
        let labelled: &[i32] = match decades {
            d if d < 0.7 => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            d if d < 2.0 => &[1, 2, 5],
            _ => &[1],
        };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let mut ticks = Vec::new();
        for exponent in first..=last {
            for multiple in 1..=9 {
                // Parsing gives the number nearest to 2e-9; multiplying powers of ten would not.
                let Ok(value) = format!("{multiple}e{exponent}").parse::<f64>() else { continue };
                let major = labelled.contains(&multiple) && exponent.rem_euclid(step) == 0;
                if self.contains(value) && (major || decades < 5.0) {
                    ticks.push(Tick { value, label: major.then(|| label(value, unit, DIGITS)) });
                }
            }
        }
        ticks
    }

    fn linear_ticks(&self, unit: &str, wanted: usize) -> Vec<Tick> {
        let raw = (self.high - self.low) / wanted.max(1) as f64;
        let exponent = raw.log10().floor();
        let decade = 10_f64.powf(exponent);
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * decade).find(|step| *step >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        // Neighbouring labels differ; a step of 2.5 has a second digit. Zeros at the end are trimmed.
        let places = self.low.abs().max(self.high.abs()).log10().floor() - exponent;
        let digits = (places as usize + 2).clamp(DIGITS, MAX_DIGITS);
        (first..)
            .map(|n| n as f64 * step)
            .take_while(|value| *value <= self.high)
            // Rounds 3 * 0.1 to 0.3 for the label.
            .map(|value| format!("{value:.12e}").parse().unwrap_or(value))
            .map(|value| Tick { value, label: Some(label(value, unit, digits)) })
            .collect()
    }
}

/// The labels of ticks at the given values, with as many digits as neighbours need to differ.
pub(super) fn tick_texts(values: &[f64], unit: &str) -> Vec<String> {
    let labels = |digits| values.iter().map(|value| label(*value, unit, digits)).collect::<Vec<_>>();
    let differ = |labels: &Vec<String>| labels.windows(2).all(|pair| pair[0] != pair[1]);
    (DIGITS..MAX_DIGITS).map(labels).find(differ).unwrap_or_else(|| labels(MAX_DIGITS))
}

/// Formats a tick label: `10 µs`, `1 G`, `0.5 %`, `10k`.
fn label(value: f64, unit: &str, digits: usize) -> String {
    let text = match unit {
        "s" | "1" | "B" | "B/s" | "FLOP/s" => precise(value, unit, digits),
        "1/s" => precise(value, unit, digits).trim_end_matches("/s").trim_end().to_string(),
        "x" => return format!("{}x", short(value, digits)),
        _ => return short(value, digits),
    };
    match text.split_once(' ') {
        Some((number, suffix)) => format!("{} {suffix}", trim(number)),
        None => trim(&text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis, unit: &str) -> Vec<String> {
        axis.ticks(unit, 6).into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn decades_are_labelled_with_their_unit() {
        let axis = Axis::over([1e-7, 1e-3].into_iter(), true).unwrap();
        assert_eq!(labels(axis, "s"), ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]);
        let axis = Axis::over([1.0, 1e4].into_iter(), true).unwrap();
        assert_eq!(labels(axis, ""), ["1", "10", "100", "1k", "10k"]);
    }

    #[test]
    fn zero_is_one_step_below_the_smallest_value_of_a_logarithmic_axis() {
        let axis = Axis::over([0.0, 1.0, 100.0, 4096.0, 1e6].into_iter(), true).unwrap();
        assert_eq!(labels(axis, ""), ["0", "1", "100", "10k", "1M"]);
        let at = [0.0, 1.0, 100.0, 1e6].map(|value| axis.position(value));
        assert!(at[0] > 0.0 && at.windows(2).all(|pair| pair[0] + 0.05 < pair[1]), "{at:?}");
        assert!(at[2] < 0.5, "the small values are apart: {at:?}");
        let axis = Axis::over([-1.0, 0.0, 100.0].into_iter(), true).unwrap();
        assert!((axis.position(49.5) - 0.5).abs() < 1e-12, "negative values have no logarithm");
    }

    #[test]
    fn bytes_are_labelled_with_powers_of_two() {
        let axis = |low: f64, high: f64| Axis::over([low, high].into_iter(), true).unwrap();
        assert_eq!(labels(axis(1_100_000.0, 4_300_000.0), "B"), ["1 MiB", "2 MiB", "4 MiB"]);
        let wide = labels(axis(4096.0, 1e9), "B");
        assert!((3..=7).contains(&wide.len()) && wide.iter().all(|label| label.ends_with("iB")), "{wide:?}");
    }

    #[test]
    fn a_short_range_has_labels_too() {
        let axis = Axis::over([3.0e8, 3.1e8].into_iter(), true).unwrap();
        assert!(labels(axis, "1/s").len() >= 2);
        let axis = Axis::over([0.0, 1.0].into_iter(), false).unwrap();
        assert_eq!(labels(axis, ""), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn every_range_of_times_has_two_labels() {
        for start in 0..100 {
            let low = 1e-4 * 10_f64.powf(f64::from(start) / 100.0);
            for factor in [1.0, 1.5, 2.5, 3.0, 4.5, 6.0] {
                let axis = Axis::over([low, low * factor].into_iter(), true).unwrap();
                assert!(labels(axis, "s").len() >= 2, "{low} to {}: {:?}", low * factor, labels(axis, "s"));
            }
        }
    }

    #[test]
    fn labels_have_the_digits_that_neighbours_need_to_differ() {
        let axis = |low: f64, high: f64| Axis::over([low, high].into_iter(), false).unwrap();
        assert_eq!(labels(axis(4.321, 4.324), "")[..4], ["4.321", "4.322", "4.323", "4.324"]);
        assert_eq!(labels(axis(4.321e-3, 4.323e-3), "s")[..3], ["4.321 ms", "4.3215 ms", "4.322 ms"]);
        assert_eq!(labels(axis(0.0042, 0.0043), "1")[..3], ["0.42 %", "0.422 %", "0.424 %"]);
        assert_eq!(labels(axis(43_210.0, 43_220.0), "")[..2], ["43.21k", "43.212k"]);
        assert_eq!(tick_texts(&[1000.0, 1001.0, 2000.0], ""), ["1k", "1.001k", "2k"]);
        assert_eq!(tick_texts(&[4096.0, 8192.0], ""), ["4.1k", "8.19k"]);
    }

    #[test]
    fn one_value_and_none() {
        let axis = Axis::over([5.0].into_iter(), true).unwrap();
        assert!((axis.position(5.0) - 0.5).abs() < 1e-12);
        assert!(Axis::over([f64::NAN].into_iter(), true).is_none());
        let axis = Axis::over([0.0].into_iter(), true).unwrap();
        assert!((axis.position(0.0) - 0.5).abs() < 1e-12);
    }
}
