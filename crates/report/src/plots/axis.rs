//! Axes of a panel: from values to positions, and where the ticks go.

use kuva::render::render_utils::generate_ticks;

use super::chart::Scale;
use crate::units::{human, short};

/// How values are spaced. kuva's own logarithmic axis cannot show less than 1e-10, takes no tick positions, and reserves
/// room for other tick texts than it draws, so that it gets logarithms on a linear axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    /// Ends, as `at` gives them.
    pub(super) ends: (f64, f64),
    log: bool,
}

/// A tick; those without a label are only grid lines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: Option<String>,
}

impl Axis {
    /// An axis over all finite `values`, with some room at both ends. Logarithmic if asked for and all are above 0.
    pub(super) fn over(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        let log = log && low > 0.0;
        let (low, high) = if log { (low.log10(), high.log10()) } else { (low, high) };
        let room = if log {
            // At least a factor of 2.5, so that a flat line does not look like a cliff.
            ((2.5_f64.log10() - (high - low)) / 2.0).max(0.0) + (high - low) * 0.05
        } else if high > low {
            (high - low) * 0.06
        } else {
            high.abs().max(1.0) * 0.1
        };
        Some(Self { ends: (low - room, high + room), log })
    }

    /// Where a value is between the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    /// 0 at the lower end and 1 at the upper.
    pub(super) fn position(&self, value: f64) -> f64 {
        (self.at(value) - self.ends.0) / (self.ends.1 - self.ends.0)
    }

    /// Ticks with labels in the scale's unit: at its own values, or about six to eight.
    pub(super) fn ticks(&self, scale: &Scale) -> Vec<Tick> {
        let labelled = |value: f64| Tick { value, label: Some(tick_text(value, &scale.unit)) };
        match &scale.at[..] {
            [] if self.log => self.log_ticks(&scale.unit),
            [] => generate_ticks(self.ends.0, self.ends.1, 6).into_iter().map(labelled).collect(),
            values => values.iter().copied().map(labelled).collect(),
        }
    }

    fn log_ticks(&self, unit: &str) -> Vec<Tick> {
        let decades = self.ends.1 - self.ends.0;
        let step = ((decades / 8.0).ceil() as i32).max(1);
        // With few decades, 2 and 5 are labelled as well; with very few, every multiple.
        let labelled: &[i32] = match decades {
            d if d < 0.7 => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            d if d < 2.0 => &[1, 2, 5],
            _ => &[1],
        };
        let mut ticks = Vec::new();
        for exponent in self.ends.0.floor() as i32..=self.ends.1.ceil() as i32 {
            for multiple in 1..=9 {
                // Parsing gives the nearest number to 2e-9; a product of powers would not.
                let Ok(value) = format!("{multiple}e{exponent}").parse::<f64>() else { continue };
                let major = labelled.contains(&multiple) && exponent.rem_euclid(step) == 0;
                if (0.0..=1.0).contains(&self.position(value)) && (major || decades < 5.0) {
                    ticks.push(Tick { value, label: major.then(|| tick_text(value, unit)) });
                }
            }
        }
        ticks
    }
}

/// A tick label: `10 µs`, `1 G`, `0.5 %`, `10k`.
fn tick_text(value: f64, unit: &str) -> String {
    let text = match unit {
        "s" | "1" | "B" => human(value, unit),
        "1/s" => human(value, unit).trim_end_matches("/s").trim_end().to_string(),
        "B/s" | "FLOP/s" => human(value, unit),
        "x" => return format!("{}x", short(value)),
        _ => return short(value),
    };
    match text.split_once(' ') {
        Some((number, suffix)) => format!("{} {suffix}", trim(number)),
        None => trim(&text).to_string(),
    }
}

fn trim(number: &str) -> &str {
    if number.contains('.') && !number.contains('e') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis, unit: &str) -> Vec<String> {
        let scale = Scale { label: String::new(), unit: unit.into(), log: axis.log, at: Vec::new() };
        axis.ticks(&scale).into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn decades_are_labelled_with_their_unit() {
        let axis = Axis::over([1e-7, 1e-3].into_iter(), true).unwrap();
        assert_eq!(labels(axis, "s"), ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]);
        let axis = Axis::over([1.0, 1e4].into_iter(), true).unwrap();
        assert_eq!(labels(axis, ""), ["1", "10", "100", "1k", "10k"]);
    }

    #[test]
    fn a_short_range_has_labels_too() {
        let axis = Axis::over([3.0e8, 3.1e8].into_iter(), true).unwrap();
        assert!(labels(axis, "1/s").len() >= 2);
        let axis = Axis::over([0.0, 1.0].into_iter(), false).unwrap();
        assert_eq!(labels(axis, ""), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
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
