//! Selects the figures of a report and their content.

use ellwand_core::Reading;

use super::chart::{Body, Dot, Dots, Figure, Lines, Point, Scale, Series};
use super::style::Style;
use crate::model::{AxisInfo, Bound, Report, Row, Section, Stats, distinct};
use crate::units::{human, ratio};

mod curve;
mod machines;
mod parts;
mod roofline;

/// Maximum number of panels in a figure.
const PANELS: usize = 9;

/// Makes a name that every file system accepts.
fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    text.chars().map(safe).collect()
}

/// A quantity shown on the y axis.
pub(super) struct Quantity {
    /// Part of the file name.
    pub(super) id: &'static str,
    /// Start of the title.
    title: &'static str,
    /// Axis label; `{item}` becomes the name of an item.
    label: &'static str,
    unit: &'static str,
    /// Describes the markers and whiskers.
    marks: &'static str,
    /// Value, lower and upper end of the whisker.
    of: fn(&Row) -> Option<(f64, f64, f64)>,
    /// True if a horizontal line marks 1.
    reference: bool,
    /// The sign of a value that is only a bound, because other programs held the row up.
    bound: fn(&Row) -> Option<&'static str>,
}

impl Quantity {
    /// Description of markers and whiskers, and of the signs next to some of them.
    fn about<'a>(&self, mut rows: impl Iterator<Item = &'a Row>) -> String {
        explained(self.marks, rows.any(|row| (self.of)(row).is_some() && (self.bound)(row).is_some()))
    }
}

/// A description of markers, and of the signs of bounds if there are any.
fn explained(marks: &str, bounds: bool) -> String {
    format!("{marks}{}", if bounds { "; ≤, ≥, ~: bounds, because other programs delayed rows" } else { "" })
}

/// The sign for a share or rate of a row that was held up.
fn at_least(row: &Row) -> Option<&'static str> {
    row.held_up.map(|_| "≥")
}

fn spread(stats: &Stats) -> (f64, f64, f64) {
    (stats.median, stats.p10, stats.p90)
}

pub(super) const QUANTITIES: &[Quantity] = &[
    Quantity {
        id: "time",
        title: "time of an iteration",
        label: "time of one iteration",
        unit: "s",
        marks: "medians, whiskers p10–p90",
        of: |row| row.stats("time").map(spread),
        reference: false,
        bound: |row| row.held_up.map(|_| "≤"),
    },
    Quantity {
        id: "throughput",
        title: "throughput",
        label: "{item} per second",
        unit: "1/s",
        marks: "medians, whiskers p10–p90",
        of: |row| row.stats("throughput").map(spread),
        reference: false,
        bound: at_least,
    },
    Quantity {
        id: "speedup",
        title: "speed-up",
        label: "times the speed of {baseline}",
        unit: "x",
        marks: "ratios of the two times, whiskers 95 % interval over processes",
        of: |row| {
            let speedup = &row.speedup;
            let (_, value) = speedup.shown().filter(|_| !speedup.is_baseline)?;
            let (low, high) = speedup.ends();
            Some((value, low.unwrap_or(value), high.unwrap_or(value)))
        },
        reference: true,
        bound: |row| row.speedup.shown()?.0.map(Bound::sign),
    },
    Quantity {
        id: "memory",
        title: "memory",
        label: "inputs, outputs and working memory",
        unit: "B",
        marks: "as the implementation holds it",
        of: |row| row.reading(Reading::TOTAL_MEMORY).map(|bytes| (bytes, bytes, bytes)),
        reference: false,
        bound: |_| None,
    },
    Quantity {
        id: "of-ceiling",
        title: "share of the measured ceiling",
        label: "share of the ceiling",
        unit: "1",
        marks: "medians, whiskers p10–p90",
        of: |row| row.stats("roofline-fraction").map(spread),
        reference: false,
        bound: at_least,
    },
];

/// All figures of a report, starting with those over all workloads.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let all = report.workloads.iter().flat_map(|section| &section.implementations).map(String::as_str);
    let names = looks(all, &known_looks(report));
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(machines::figure(report));
    figures.extend(overview(report, &names));
    figures.extend(roofline::figures(report, &names));
    for section in &report.workloads {
        for quantity in QUANTITIES {
            figures.extend(of_section(report, section, quantity, &names));
        }
    }
    figures.extend(parts::figures(report));
    figures.extend(curve::figures(report));
    figures
}

/// Names whose looks a view defines.
fn known_looks(report: &Report) -> Vec<(&str, usize)> {
    let names = report.implementations().flat_map(|view| view.looks.iter().take(LOOKS).enumerate());
    names.filter(|(_, name)| !name.is_empty()).map(|(look, name)| (name.as_str(), look)).collect()
}

/// Number of distinct combinations of colour and marker.
const LOOKS: usize = 42;

/// Assigns each implementation one look for all figures: the one that a view defines, otherwise one derived from its
/// name, so it is the same in other reports unless two names collide.
fn looks<'a>(all: impl Iterator<Item = &'a str>, known: &[(&str, usize)]) -> Vec<(String, usize)> {
    let mut names: Vec<(String, usize)> = Vec::new();
    for name in all {
        if names.iter().any(|(seen, _)| seen == name) {
            continue;
        }
        let given = known.iter().find(|(known, _)| *known == name).map(|(_, look)| *look);
        let letters = name.bytes().fold(0, |sum: usize, byte| (31 * sum + usize::from(byte)) % 9973);
        let free = |look: &usize| known.iter().all(|(_, own)| own != look) && names.iter().all(|(_, own)| own != look);
        let own = || (0..LOOKS).map(|step| (letters + step) % LOOKS).find(free).unwrap_or(letters % LOOKS);
        let look = given.unwrap_or_else(own);
        names.push((name.to_string(), look));
    }
    names
}

fn style(names: &[(String, usize)], implementation: &str, run: usize) -> Style {
    Style { number: names.iter().find(|(name, _)| name == implementation).map_or(0, |(_, look)| *look), run }
}

fn footer(report: &Report, marks: &str) -> String {
    // Runs with the same machine and program share one entry.
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for run in &report.runs {
        let machine = format!("{} · ellwand {}", run.machine_line(), run.ellwand);
        match groups.iter_mut().find(|(known, _)| *known == machine) {
            Some((_, starts)) => starts.push(&run.started),
            None => groups.push((machine, vec![&run.started])),
        }
    }
    let runs = groups.iter().map(|(machine, starts)| format!("{machine} · {}", starts.join(", ")));
    let runs = runs.collect::<Vec<_>>().join(" | ");
    if marks.is_empty() { runs } else { format!("{marks} · {runs}") }
}

/// The x axis: the numeric axis with the most values; of those that vary together, the first.
fn main_axis(section: &Section) -> Option<&AxisInfo> {
    let numeric = section.swept.iter().filter(|axis| axis.numeric && axis.values.len() > 1);
    // Of equally long ones the last, because workloads declare the input size last.
    numeric.max_by_key(|axis| (axis.values.len(), section.leading.contains(&axis.name)))
}

/// The other axes that vary, each with those that have one value for each value of x, as the axes of named sizes do.
fn other_axes<'a>(section: &'a Section, axis: &AxisInfo) -> (Vec<&'a AxisInfo>, Vec<&'a AxisInfo>) {
    let pair = |row: &Row, other: &AxisInfo| (row.param(&axis.name), row.param(&other.name));
    let follows = |other: &&AxisInfo| {
        let pairs = distinct(section.rows.iter().map(|row| pair(row, other)));
        pairs.len() == distinct(pairs.iter().map(|(x, _)| x)).len()
    };
    let others = section.swept.iter().filter(|other| other.name != axis.name);
    let (following, free): (Vec<_>, Vec<_>) = others.partition(follows);
    // Of axes that vary together independently of x, one names the panel.
    (free.into_iter().filter(|other| section.leading.contains(&other.name)).collect(), following)
}

fn filled(quantity: &Quantity, section: &Section) -> String {
    let item = section.item.as_deref().unwrap_or("items");
    quantity.label.replace("{item}", item).replace("{baseline}", &section.baselines.join(", "))
}

fn of_section(report: &Report, section: &Section, quantity: &Quantity, names: &[(String, usize)]) -> Vec<Figure> {
    let name = format!("{}-{}", file_name(&section.workload), quantity.id);
    let figure = |name: String, title: String, body: Body| Figure {
        name,
        title,
        subtitle: subtitle(section),
        footer: footer(report, &quantity.about(section.rows.iter())),
        workload: Some(section.workload.clone()),
        body,
    };
    let Some(axis) = main_axis(section) else {
        let chart = dots(report, section, quantity, names);
        let title = format!("{}: {}", section.workload, quantity.title);
        return chart.map(|chart| figure(name, title, Body::Dots(chart))).into_iter().collect();
    };
    let panels = panels(report, section, axis, quantity, names);
    let title = format!("{}: {} against {}", section.workload, quantity.title, axis.name);
    let many = panels.len() > PANELS;
    panels
        .chunks(PANELS)
        .enumerate()
        .map(|(index, chunk)| {
            let name = if many { format!("{name}-{}", index + 1) } else { name.clone() };
            figure(name, title.clone(), Body::Lines(chunk.to_vec()))
        })
        .collect()
}

/// The fixed axes, and the values of those that vary with x.
fn subtitle(section: &Section) -> String {
    let mut parts = vec![section.fixed_line()];
    if let Some(axis) = main_axis(section) {
        let (_, following) = other_axes(section, axis);
        let values = following.iter().map(|other| other.text()).collect::<Vec<_>>().join(" · ");
        parts.push(if values.is_empty() { values } else { format!("with {}: {values}", axis.name) });
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

fn panels(
    report: &Report,
    section: &Section,
    axis: &AxisInfo,
    quantity: &Quantity,
    names: &[(String, usize)],
) -> Vec<Lines> {
    let (others, following) = other_axes(section, axis);
    // Rows with equal values on the other axes share a panel.
    let facet = |row: &Row| row.values(others.iter().copied());
    let facets = distinct(section.rows.iter().map(facet));
    let values: Vec<f64> = axis.values.iter().filter_map(|value| value.parse().ok()).collect();
    let least = values.iter().find(|value| **value > 0.0).filter(|_| values.first().is_some_and(|low| *low >= 0.0));
    let spread = least.zip(values.last()).is_some_and(|(low, high)| high / low >= 8.0);
    let unit = if [String::new(), axis.name.clone()].contains(&axis.unit) {
        String::new()
    } else {
        format!(" ({})", axis.unit)
    };
    let together: Vec<&str> = following.iter().map(|axis| axis.name.as_str()).collect();
    let together = if together.is_empty() { String::new() } else { format!(", with {}", together.join(", ")) };
    let one = |facet_name: &String| {
        let inside = |row: &&Row| facet(row) == *facet_name;
        let series = series(report, section, axis, quantity, names, inside);
        (!series.is_empty()).then(|| Lines {
            title: if facet_name.is_empty() { section.workload.clone() } else { facet_name.clone() },
            x: Scale {
                label: format!("{}{unit}{together}", axis.name),
                unit: String::new(),
                log: spread,
                at: if values.len() <= 16 { values.clone() } else { Vec::new() },
                names: Vec::new(),
            },
            y: Scale { label: filled(quantity, section), unit: quantity.unit.into(), log: true, ..Scale::default() },
            series,
            reference: quantity.reference.then(|| (1.0, section.baselines.join(", "))),
        })
    };
    facets.iter().filter_map(one).collect()
}

fn series(
    report: &Report,
    section: &Section,
    axis: &AxisInfo,
    quantity: &Quantity,
    names: &[(String, usize)],
    inside: impl Fn(&&Row) -> bool,
) -> Vec<Series> {
    let mut all = Vec::new();
    for run in 0..report.runs.len() {
        for implementation in &section.implementations {
            let point = |row: &Row| {
                let (y, low, high) = (quantity.of)(row)?;
                let label = (quantity.bound)(row).map(str::to_string);
                Some(Point { x: row.number(&axis.name)?, y, low, high, label })
            };
            let mut points: Vec<Point> =
                section.rows_of(run, implementation).filter(&inside).filter_map(point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            if points.is_empty() {
                continue;
            }
            let label = if report.runs.len() > 1 {
                format!("{implementation} (run {})", run + 1)
            } else {
                implementation.clone()
            };
            all.push(Series { label, style: style(names, implementation, run), joined: true, points });
        }
    }
    all
}

fn dots(report: &Report, section: &Section, quantity: &Quantity, names: &[(String, usize)]) -> Option<Dots> {
    let mut groups: Vec<(String, Vec<Dot>)> = Vec::new();
    for case in &section.cases {
        let dot = |row: &Row| {
            let (value, low, high) = (quantity.of)(row)?;
            let text = if quantity.unit == "x" { ratio(value) } else { human(value, quantity.unit) };
            let text = format!("{}{text}", (quantity.bound)(row).unwrap_or_default());
            Some(Dot {
                label: row.implementation.clone(),
                style: style(names, &row.implementation, row.run),
                value,
                low,
                high,
                text,
            })
        };
        let rows: Vec<&Row> = case.rows.iter().map(|index| &section.rows[*index]).collect();
        let dots: Vec<Dot> = rows.iter().filter_map(|row| dot(row)).collect();
        let Some(first) = rows.first() else { continue };
        let run = if report.runs.len() > 1 { format!("run {} ", case.run + 1) } else { String::new() };
        let place = if section.swept.is_empty() { String::new() } else { section.place(first) };
        if !dots.is_empty() {
            groups.push((format!("{run}{place}").trim().to_string(), dots));
        }
    }
    let scale = Scale { label: filled(quantity, section), unit: quantity.unit.into(), log: true, ..Scale::default() };
    (!groups.is_empty()).then_some(Dots { scale, groups, reference: quantity.reference.then_some(1.0), bars: false })
}

/// Workloads with the same x axis, and their panels.
struct Alike<'a> {
    axis: &'a AxisInfo,
    sections: Vec<&'a Section>,
    panels: Vec<Lines>,
    /// Workloads with another axis, each with its name.
    others: Vec<String>,
}

/// All workloads that sweep the same axis, next to each other at the same scale. The largest figure also has those that
/// are alone with their axis, if there is room.
fn overview(report: &Report, names: &[(String, usize)]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for quantity in QUANTITIES.iter().filter(|quantity| !quantity.reference) {
        let mut all: Vec<Alike<'_>> = Vec::new();
        for section in &report.workloads {
            let Some(axis) = main_axis(section) else { continue };
            let mut panels = panels(report, section, axis, quantity, names);
            for panel in panels.iter_mut().filter(|panel| panel.title != section.workload) {
                panel.title = format!("{}, {}", section.workload, panel.title);
            }
            match all.iter_mut().find(|known| known.axis.name == axis.name) {
                Some(known) => {
                    known.sections.push(section);
                    known.panels.extend(panels);
                }
                None => all.push(Alike { axis, sections: vec![section], panels, others: Vec::new() }),
            }
        }
        let (mut shared, alone): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.sections.len() > 1);
        shared.retain(|one| (2..=PANELS).contains(&one.panels.len()));
        if let Some(largest) = shared.iter_mut().rev().max_by_key(|one| one.sections.len()) {
            for one in alone.into_iter().filter(|one| !one.panels.is_empty()) {
                if largest.panels.len() + one.panels.len() <= PANELS {
                    let named = one.sections.iter().map(|section| format!("{}: {}", section.workload, one.axis.name));
                    largest.others.extend(named);
                    largest.sections.extend(one.sections);
                    largest.panels.extend(one.panels);
                }
            }
        }
        figures.extend(shared.into_iter().map(|one| {
            let others = if one.others.is_empty() { String::new() } else { format!(" ({})", one.others.join(", ")) };
            Figure {
                name: format!("overview-{}-{}", quantity.id, file_name(&one.axis.name)),
                title: format!("all workloads: {} against {}{others}", quantity.title, one.axis.name),
                subtitle: common(one.sections.iter().copied()),
                footer: footer(report, &quantity.about(one.sections.iter().flat_map(|section| &section.rows))),
                workload: None,
                body: Body::Lines(one.panels),
            }
        }));
    }
    figures
}

/// Fixed parameters shared by all sections.
fn common<'a>(sections: impl Iterator<Item = &'a Section>) -> String {
    let mut shared: Option<Vec<String>> = None;
    for section in sections {
        let own: Vec<String> = section.fixed.iter().map(AxisInfo::text).collect();
        shared = Some(match shared {
            None => own,
            Some(known) => known.into_iter().filter(|text| own.contains(text)).collect(),
        });
    }
    shared.unwrap_or_default().join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_implementation_looks_the_same_in_every_report() {
        let known = [("reference", 0), ("simd", 2), ("parallel", 3)];
        let of = |names: &[&'static str]| looks(names.iter().copied(), &known);
        let (one, other) = (of(&["mine", "simd", "parallel"]), of(&["parallel", "reference", "mine"]));
        for name in ["mine", "parallel"] {
            assert_eq!(style(&one, name, 0), style(&other, name, 0), "{name}");
        }
        assert_eq!(style(&one, "parallel", 0).number, 3);
        let many: Vec<String> = (0..20).map(|number| format!("own {number}")).collect();
        let many = looks(many.iter().map(String::as_str), &known);
        let different: std::collections::BTreeSet<usize> = many.iter().map(|(_, look)| *look).collect();
        assert_eq!(different.len(), 20);
    }
}
