//! Medians with confidence intervals, their ratios, and goals for them.

use ellwand_stats::{median, median_interval};

/// A median with its 99 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Median {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Median {
    /// `None` if there are too few samples for 99 % confidence.
    pub(super) fn of(samples: &[f64]) -> Option<Self> {
        let (low, high) = median_interval(samples, 0.99)?;
        Some(Self { value: median(samples)?, low, high })
    }

    /// The rate `amount / time`, for a median of times.
    pub(super) fn rate(self, amount: f64) -> Self {
        Self { value: amount / self.value, low: amount / self.high, high: amount / self.low }
    }

    /// The ratio to `other`. The two are independent, so each end is divided by the opposite end.
    pub(super) fn over(self, other: Self) -> Self {
        Self { value: self.value / other.value, low: self.low / other.high, high: self.high / other.low }
    }
}

/// How a figure is printed, and its lower or upper limit if there is a goal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    pub(super) show: fn(f64) -> String,
    least: Option<f64>,
    most: Option<f64>,
}

pub(super) const PERCENT: Goal = Goal::shown(|share| format!("{:.1} %", share * 100.0));
pub(super) const TIMES: Goal = Goal::shown(|ratio| format!("{ratio:.3}"));
pub(super) const TERABYTES: Goal = Goal::shown(|rate| format!("{:.3} TB/s", rate * 1e-12));
pub(super) const GIGABYTES: Goal = Goal::shown(|rate| format!("{:.2} GB/s", rate * 1e-9));
pub(super) const TERAFLOPS: Goal = Goal::shown(|rate| format!("{:.0} TFLOP/s", rate * 1e-12));
pub(super) const SECONDS: Goal = Goal::shown(|time| match time {
    time if time < 1e-3 => format!("{:.2} us", time * 1e6),
    time => format!("{:.3} ms", time * 1e3),
});

impl Goal {
    const fn shown(show: fn(f64) -> String) -> Self {
        Self { show, least: None, most: None }
    }

    pub(super) const fn at_least(self, least: f64) -> Self {
        Self { least: Some(least), ..self }
    }

    pub(super) const fn at_most(self, most: f64) -> Self {
        Self { most: Some(most), ..self }
    }

    /// This goal if `is`, otherwise none.
    pub(super) fn only_if(self, is: bool) -> Self {
        if is { self } else { Self::shown(self.show) }
    }

    pub(super) fn text(self) -> String {
        let least = self.least.map(|goal| format!("at least {}", (self.show)(goal)));
        least.or(self.most.map(|goal| format!("at most {}", (self.show)(goal)))).unwrap_or_default()
    }

    /// `reached` if the whole interval meets the goal, `short` if none of it does, otherwise `undecided`; empty without a goal.
    pub(super) fn judged(self, is: Median) -> &'static str {
        let (surely, surely_not) = match (self.least, self.most) {
            (Some(goal), _) => (is.low >= goal, is.high < goal),
            (None, Some(goal)) => (is.high <= goal, is.low > goal),
            (None, None) => return "",
        };
        match (surely, surely_not) {
            (true, _) => "reached",
            (_, true) => "short",
            _ => "undecided",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_leaves_out_as_many_samples_as_a_coin_allows() {
        let all: Vec<f64> = (1..=30).rev().map(f64::from).collect();
        let median = Median::of(&all).unwrap();
        // Fewer than 8 heads in 30 tosses: 0.26 %; fewer than 9: 0.81 %.
        assert_eq!(median, Median { value: 15.5, low: 8.0, high: 23.0 });
        assert_eq!(Median::of(&all[..7]), None, "seven samples are never so sure");
        assert_eq!(Median::of(&all[..8]).unwrap().low, 23.0);
    }

    #[test]
    fn ratios_use_the_far_ends_and_goals_need_the_whole_interval() {
        let time = Median { value: 2.0, low: 1.0, high: 4.0 };
        assert_eq!(time.rate(8.0), Median { value: 4.0, low: 2.0, high: 8.0 });
        let share = time.over(Median { value: 4.0, low: 2.0, high: 8.0 });
        assert_eq!(share, Median { value: 0.5, low: 0.125, high: 2.0 });
        assert_eq!(TIMES.at_least(0.1).judged(share), "reached");
        assert_eq!(TIMES.at_least(1.0).judged(share), "undecided");
        assert_eq!(TIMES.at_least(3.0).judged(share), "short");
        assert_eq!(TIMES.at_most(2.0).judged(share), "reached");
        assert_eq!(TIMES.at_most(0.1).judged(share), "short");
        assert_eq!(TIMES.judged(share), "");
    }
}
