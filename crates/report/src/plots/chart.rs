//! What a figure shows, before it is drawn.

/// Look of a series: the number of what it shows, and of the run. The same thing in another run keeps its colour and
/// form and changes its filling and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) number: usize,
    pub(super) run: usize,
}

/// Numbers from here on are limits, not results: grey lines without markers.
pub(super) const LIMIT: usize = 1000;

/// A point of a series with the ends of its whisker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Text next to the point.
    pub(super) label: Option<String>,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) style: Style,
    /// Whether a line joins them.
    pub(super) joined: bool,
    pub(super) points: Vec<Point>,
}

/// What an axis shows.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    pub(super) label: String,
    pub(super) unit: String,
    pub(super) log: bool,
    /// Ticks at these values and nowhere else.
    pub(super) at: Vec<f64>,
}

/// Points over a numeric axis.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) title: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) series: Vec<Series>,
    /// A horizontal line with its text (the baseline of speed-ups).
    pub(super) reference: Option<(f64, String)>,
}

/// One line of a dot chart.
#[derive(Debug, Clone)]
pub(super) struct Dot {
    pub(super) label: String,
    pub(super) style: Style,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The value in words, at the end of the line.
    pub(super) text: String,
}

/// Values over words: one line each, under headings.
#[derive(Debug, Clone)]
pub(super) struct Dots {
    pub(super) scale: Scale,
    pub(super) groups: Vec<(String, Vec<Dot>)>,
    pub(super) reference: Option<f64>,
}

/// What a figure shows.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Lines(Vec<Lines>),
    Dots(Dots),
}

/// A figure before it is drawn.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) footer: String,
    pub(super) workload: Option<String>,
    pub(super) body: Body,
}
