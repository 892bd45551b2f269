//! The divergence of E-divisive with exponent 1, for all splits of a window.

/// Sums of pairwise distances of a window.
pub(super) struct Divergence {
    len: usize,
    /// At `[a * (len + 1) + b]` the sum of distances between the values in `a..b`.
    within: Vec<f64>,
}

/// A split of a window.
pub(super) struct Split {
    /// Index of the first value of the second part.
    pub(super) place: usize,
    /// Divergence of the parts.
    pub(super) divergence: f64,
}

impl Divergence {
    pub(super) fn new(values: &[f64]) -> Self {
        let len = values.len();
        let mut within = vec![0.0; (len + 1) * (len + 1)];
        for a in (0..len).rev() {
            // A longer range adds its new pairs: those of its first value with all others.
            let (mut of_first, row) = (0.0, a * (len + 1));
            for b in a + 1..=len {
                of_first += (values[a] - values[b - 1]).abs();
                within[row + b] = within[row + len + 1 + b] + of_first;
            }
        }
        Self { len, within }
    }

    /// Q of Matteson and James, equation 7: the scaled energy distance between `0..place` and `place..end`.
    pub(super) fn of(&self, place: usize, end: usize) -> f64 {
        let (n, m) = (place as f64, (end - place) as f64);
        let (left, right) = (self.within[place], self.within[place * (self.len + 1) + end]);
        let between = self.within[end] - left - right;
        // n m / (n + m) (2 between / (n m) - 2 left / (n (n - 1)) - 2 right / (m (m - 1)))
        2.0 / (n + m) * (between - left * m / (n - 1.0) - right * n / (m - 1.0))
    }

    /// The split with the largest divergence, if one is positive. Its second part may end before the window does,
    /// because the values may have changed again. Each part has at least `shortest` values, of 2 or more.
    pub(super) fn largest(&self, shortest: usize) -> Option<Split> {
        let places = shortest..(self.len + 1).saturating_sub(shortest);
        let parts = places.flat_map(|place| (place + shortest..=self.len).map(move |end| (place, end)));
        let splits = parts.map(|(place, end)| Split { place, divergence: self.of(place, end) });
        splits.filter(|split| split.divergence > 0.0).max_by(|a, b| a.divergence.total_cmp(&b.divergence))
    }
}
