//! The decoder's arguments: borrowed, typed, and checked once.

use ellwand_core::InputError;

use super::error::{ascending, at_least, finite, length};

/// The animal's positions: `position` holds `dims` coordinates for each of the ascending times.
#[derive(Debug, Clone, Copy)]
pub struct Track<'a> {
    /// Times in seconds, `[T]`, ascending.
    pub time: &'a [f64],
    /// Positions, `[T, dims]`, row-major.
    pub position: &'a [f64],
    /// Number of coordinates per position.
    pub dims: usize,
}

/// The spikes of one electrode. `features` holds `n_features` values for each of the ascending times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spikes<'a> {
    /// Times in seconds, `[n]`, ascending.
    pub times: &'a [f64],
    /// Marks, `[n, n_features]`, row-major.
    pub features: &'a [f64],
    /// Number of values per mark.
    pub n_features: usize,
}

/// Kernel widths. A single value applies to all dimensions or all features.
#[derive(Debug, Clone, PartialEq)]
pub struct Bandwidth {
    /// Standard deviation of the position kernel, in the unit of the positions: one value, or one per dimension.
    pub position: Vec<f64>,
    /// Standard deviation of the mark kernel, in the unit of the marks: one value, or one per feature.
    pub waveform: Vec<f64>,
}

impl Default for Bandwidth {
    /// The defaults of the published code: sqrt(12.5) and 24.
    fn default() -> Self {
        Self { position: vec![12.5_f64.sqrt()], waveform: vec![24.0] }
    }
}

impl Track<'_> {
    /// Checks lengths, order and values.
    pub(super) fn check(&self, time: &str, position: &str) -> Result<(), InputError> {
        at_least(format!("dimensions of {position}"), self.dims, 1)?;
        at_least(time, self.time.len(), 1)?;
        length(
            position,
            self.position.len(),
            self.time.len() * self.dims,
            &format!("{} times of {} dimensions", self.time.len(), self.dims),
        )?;
        ascending(time, self.time)?;
        finite(position, self.position)
    }

    /// Writes the piecewise linear interpolation at time `t` to `at`, extrapolating with the first or last segment.
    /// Between two samples of equal time the earlier one counts; a single sample is constant.
    pub(super) fn interpolate(&self, t: f64, at: &mut [f64]) {
        let last = self.time.len() - 1;
        let right = self.time.partition_point(|&time| time <= t).clamp(1, last.max(1)).min(last);
        let left = right.saturating_sub(1);
        let span = self.time[right] - self.time[left];
        let share = if span > 0.0 { (t - self.time[left]) / span } else { 0.0 };
        for (d, at) in at.iter_mut().enumerate() {
            let (a, b) = (self.position[left * self.dims + d], self.position[right * self.dims + d]);
            *at = a + share * (b - a);
        }
    }
}

impl Spikes<'_> {
    /// Checks lengths, order and values of electrode `electrode` of `list` (`enc` or `dec`).
    pub(super) fn check(&self, list: &str, electrode: usize) -> Result<(), InputError> {
        let times = format!("{list}_spike_times of electrode {electrode}");
        let features = format!("{list}_features of electrode {electrode}");
        at_least(format!("n_features of electrode {electrode}"), self.n_features, 1)?;
        let why = format!("{} spikes of {} features", self.times.len(), self.n_features);
        length(&features, self.features.len(), self.times.len() * self.n_features, &why)?;
        ascending(&times, self.times)?;
        finite(&features, self.features)
    }

    /// Index range of the spikes with `first <= t <= last`.
    pub(super) fn within(&self, first: f64, last: f64) -> std::ops::Range<usize> {
        let start = self.times.partition_point(|&t| t < first);
        let end = self.times.partition_point(|&t| t <= last);
        start..end.max(start)
    }
}

impl Bandwidth {
    /// The position widths, one per dimension.
    pub(super) fn of_position(&self, dims: usize) -> Result<Vec<f64>, InputError> {
        spread("position_std", &self.position, dims, &format!("{dims} dimensions"))
    }

    /// The mark widths of an electrode, one per feature.
    pub(super) fn of_waveform(&self, features: usize, electrode: usize) -> Result<Vec<f64>, InputError> {
        spread("waveform_std", &self.waveform, features, &format!("{features} features of electrode {electrode}"))
    }
}

/// Repeats a single width `n` times, or checks that there are `n`.
fn spread(array: &str, widths: &[f64], n: usize, why: &str) -> Result<Vec<f64>, InputError> {
    finite(array, widths)?;
    if let Some(at) = widths.iter().position(|&w| w <= 0.0) {
        return Err(InputError::new(array, format!("bandwidth {at} is {}", widths[at]), "a number above 0"));
    }
    match widths {
        [one] => Ok(vec![*one; n]),
        _ => length(array, widths.len(), n, &format!("one width, or one for each of {why}")).map(|()| widths.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_is_linear_inside_and_outside() {
        let track = Track { time: &[1.0, 2.0, 4.0], position: &[0.0, 5.0, 10.0, 5.0, 20.0, 1.0], dims: 2 };
        let at = |t| {
            let mut x = [0.0; 2];
            track.interpolate(t, &mut x);
            x
        };
        assert_eq!(at(1.0), [0.0, 5.0]);
        assert_eq!(at(1.5), [5.0, 5.0]);
        assert_eq!(at(3.0), [15.0, 3.0]);
        assert_eq!(at(4.0), [20.0, 1.0]);
        assert_eq!(at(0.0), [-10.0, 5.0]);
        assert_eq!(at(6.0), [30.0, -3.0]);
        let single = Track { time: &[1.0], position: &[7.0], dims: 1 };
        let mut x = [0.0];
        single.interpolate(9.0, &mut x);
        assert_eq!(x, [7.0]);
        let twice = Track { time: &[1.0, 1.0], position: &[7.0, 8.0], dims: 1 };
        twice.interpolate(1.0, &mut x);
        assert_eq!(x, [7.0]);
    }

    #[test]
    fn windows_include_both_ends() {
        let spikes = Spikes { times: &[0.0, 1.0, 1.0, 2.0, 3.0], features: &[0.0; 5], n_features: 1 };
        assert_eq!(spikes.within(1.0, 2.0), 1..4);
        assert_eq!(spikes.within(4.0, 5.0), 5..5);
        assert_eq!(spikes.within(0.5, 0.6), 1..1);
    }
}
