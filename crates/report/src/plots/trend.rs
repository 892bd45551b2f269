//! A value by commit, with its intervals and the means between changes.

use super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::style::{LIMIT, Style};
use crate::units::clean;

/// A value by commit.
#[derive(Debug, Clone, Default)]
pub struct Trend {
    /// File name without extension.
    pub name: String,
    /// The quantity that changes over the commits.
    pub title: String,
    /// The case and the machine, as parts separated by ` · `.
    pub subtitle: String,
    /// Axis label of the values.
    pub label: String,
    /// Unit of the values: `s` or `x`.
    pub unit: String,
    /// The values in order.
    pub points: Vec<TrendPoint>,
    /// Index of the first point of each segment after the first, and the mean of each segment.
    pub changes: Vec<(usize, f64)>,
    /// Mean of the first segment; `None` draws no means.
    pub mean: Option<f64>,
}

/// A value of a [`Trend`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrendPoint {
    /// The commit, or the date.
    pub label: String,
    /// Height of the point on the y axis.
    pub value: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

/// Maximum number of commits with a label.
const LABELS: usize = 10;

impl Trend {
    pub(super) fn figure(&self) -> Figure {
        let points = self.points.iter().enumerate().map(|(at, point)| Point {
            x: at as f64,
            y: point.value,
            low: point.low.unwrap_or(point.value),
            high: point.high.unwrap_or(point.value),
            label: None,
        });
        let values = Series {
            label: "runs".into(),
            style: Style { number: 2, run: 0 },
            joined: false,
            points: points.collect(),
        };
        // Change points have a label, and so do some points between them.
        let every = self.points.len().div_ceil(LABELS).max(1);
        let mut at: Vec<usize> = (0..self.points.len()).step_by(every).collect();
        at.retain(|at| self.changes.iter().all(|(change, _)| change.abs_diff(*at) * 2 >= every));
        at.extend(self.changes.iter().map(|(change, _)| *change));
        at.sort_unstable();
        let names = at.iter().filter_map(|at| Some(clean(&self.points.get(*at)?.label)));
        let x = Scale {
            label: "commits by date".into(),
            names: names.collect(),
            at: at.iter().map(|at| *at as f64).collect(),
            ..Scale::default()
        };
        let means = self.mean.map(|mean| Series {
            label: "mean between changes".into(),
            style: Style { number: LIMIT, run: 0 },
            joined: true,
            points: self.steps(mean),
        });
        Figure {
            name: self.name.clone(),
            title: clean(&self.title),
            subtitle: clean(&self.subtitle),
            footer: "medians, whiskers 95 % interval over processes".into(),
            workload: None,
            body: Body::Lines(vec![Lines {
                title: String::new(),
                x,
                y: Scale { label: clean(&self.label), unit: self.unit.clone(), ..Scale::default() },
                series: std::iter::once(values).chain(means).collect(),
                reference: None,
            }]),
        }
    }

    /// The ends of the segments, each at its mean.
    fn steps(&self, mean: f64) -> Vec<Point> {
        let starts = std::iter::once((0, mean)).chain(self.changes.iter().copied());
        let ends = self.changes.iter().map(|(change, _)| *change as f64).chain([self.points.len() as f64]);
        let point = |x: f64, y: f64| Point { x: x - 0.5, y, low: y, high: y, label: None };
        starts.zip(ends).flat_map(|((start, mean), end)| [point(start as f64, mean), point(end, mean)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_steps_at_the_changes_and_changes_have_labels() {
        let point = |at: usize| TrendPoint { label: format!("c{at}"), value: 1.0, low: None, high: Some(1.1) };
        let trend = Trend {
            points: (0..40).map(point).collect(),
            mean: Some(1.0),
            changes: vec![(13, 2.0)],
            ..Trend::default()
        };
        let Body::Lines(panels) = trend.figure().body else { panic!("a trend is a line chart") };
        let steps: Vec<(f64, f64)> = panels[0].series[1].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(steps, [(-0.5, 1.0), (12.5, 1.0), (12.5, 2.0), (39.5, 2.0)]);
        let names = &panels[0].x.names;
        assert!(names.contains(&"c13".to_string()) && !names.contains(&"c12".to_string()), "{names:?}");
        assert_eq!(names.len(), panels[0].x.at.len());
        assert_eq!((panels[0].series[0].points[0].low, panels[0].series[0].points[0].high), (1.0, 1.1));
    }
}
