//! The columns of a result table, shared by terminal and Markdown.

use std::borrow::Borrow;

use ellwand_core::record::Basis;
use ellwand_core::{CeilingKind, Metric};

use super::readings;
use crate::diagnose::{FEWEST, Limit};
use crate::grid::{Column, KEY, Tone};
use crate::model::{AxisInfo, MetricValue, ONLY, Report, Row, Section};
use crate::units::{self, UNAVAILABLE, below_resolution, human, range};

/// Order in which metric columns are dropped on a narrow terminal: rank of the median and of its spread. Metrics not
/// listed here are dropped first.
fn ranks(id: &str) -> (u8, Option<u8>) {
    match id {
        "time" => (0, Some(6)),
        "wall-time" => (5, None),
        "throughput" => (4, None),
        "roofline-fraction" => (6, None),
        "bandwidth" => (7, None),
        "cpu-time" => (8, None),
        _ => (9, None),
    }
}

/// Sign of an upper bound.
pub(super) const BOUND: &str = "≤";
/// The meaning of the signs of bounds.
pub(super) const BOUNDS: &str = "≤, ≥: bounds; ~: not even a bound; other programs delayed these rows; a speed-up is bounded by the end of its interval";

/// Rank of an axis that varies together with another.
const FOLLOWING: u8 = 10;
/// Smallest ratio to the time at which the elapsed time gets a separate column.
const DIFFERS: f64 = 1.1;

/// The columns of a section, and the metrics that are unavailable in all its rows, with the reason.
pub(crate) fn columns(report: &Report, section: &Section, repeat: bool) -> (Vec<Column>, Vec<String>) {
    let rows = &section.rows;
    let mut columns = Column::runs(report.runs.len() > 1, 1, rows.iter().map(|row| row.run));
    let mut missing = Vec::new();
    // Markdown and --full show every axis.
    let every = repeat || report.options.full;
    for axis in section.swept.iter().filter(|axis| every || section.leading.contains(&axis.name)) {
        let rank = if section.leading.contains(&axis.name) { KEY } else { FOLLOWING };
        columns.push(axis_column(axis, rank, rows, repeat));
    }
    columns.push(Column::new("implementation", false, 0, rows.iter().map(|row| row.implementation.clone())));
    if rows.iter().any(|row| row.device != rows[0].device) {
        columns.push(Column::new("device", false, 1, rows.iter().map(|row| row.device.clone())));
    }
    if rows.iter().any(|row| row.caches != rows[0].caches) {
        columns.push(Column::new("caches", false, 1, rows.iter().map(|row| row.caches.word().to_string())));
    }
    for metric in report.metrics.iter().filter(|metric| !repeats_time(metric, rows)) {
        metric_columns(metric, section, &mut columns, &mut missing);
    }
    let shown: Vec<Option<&Row>> = rows.iter().map(Some).collect();
    columns.extend(readings::columns_of(&readings::beside_time(report, section), &shown));
    speedup_columns(section, &mut columns, &mut missing);
    let first: Vec<String> =
        rows.iter().map(|row| row.first_run_s.map_or_else(|| nothing(row), |value| human(value, "s"))).collect();
    if rows.iter().any(|row| row.first_run_s.is_some()) {
        columns.push(Column::new("first run", true, 9, first));
    }
    if rows.iter().any(|row| row.diagnosis.is_some()) {
        columns.push(Column::new("limit", false, 3, rows.iter().map(limit)));
    }
    let notes: Vec<String> = rows.iter().map(|row| note(row, repeat || report.options.full)).collect();
    if notes.iter().any(|note| !note.is_empty()) {
        columns.push(Column::new("note", false, 1, notes));
    }
    (columns, missing)
}

/// The values of an axis. Without `repeat`, values that equal those of the row before are left blank, so the cases
/// stand out.
pub(super) fn axis_column<R: Borrow<Row>>(axis: &AxisInfo, rank: u8, rows: &[R], repeat: bool) -> Column {
    let cells = rows.iter().map(Borrow::borrow).enumerate().map(|(index, row): (usize, &Row)| {
        let before: Option<&Row> = index.checked_sub(1).map(|before| rows[before].borrow());
        let repeated = before.is_some_and(|before| before.case == row.case && before.run == row.run);
        if repeated && !repeat { String::new() } else { row.param(&axis.name).unwrap_or_else(|| "–".into()) }
    });
    Column::new(axis.name.clone(), axis.numeric, rank, cells)
}

/// True if a metric repeats the time in every row: the elapsed time if nothing else ran, or the CPU time of one thread.
fn repeats_time(metric: &Metric, rows: &[Row]) -> bool {
    let ratio = |row: &Row| Some(row.median(metric.id)? / row.median("time")?);
    let near = |row: &Row| ratio(row).is_none_or(|ratio| (DIFFERS.recip()..DIFFERS).contains(&ratio));
    ["wall-time", "cpu-time"].contains(&metric.id)
        && rows.iter().any(|row| ratio(row).is_some())
        && rows.iter().all(near)
}

/// What limits a row, with the share of its time.
pub(crate) fn limit(row: &Row) -> String {
    let Some(d) = &row.diagnosis else { return nothing(row) };
    if matches!(d.limit, Limit::Unexplained | Limit::FewSlots) || d.is_above() || row.below_resolution {
        return d.label();
    }
    format!("{} {:.0} %", d.label(), row.limit_share().unwrap_or(d.share) * 100.0)
}

/// Text for a missing value: a dash if the row was not measured, because the row already shows the reason.
fn nothing(row: &Row) -> String {
    if row.measured() { UNAVAILABLE.to_string() } else { "–".to_string() }
}

/// Heading of a metric: `vectors/s` for a throughput of vectors.
pub(crate) fn heading(metric: &Metric, section: &Section) -> String {
    match (metric.unit, &section.item) {
        ("1/s", Some(item)) => format!("{item}/s"),
        ("1/s", None) => "items/s".to_string(),
        _ => metric.title.to_string(),
    }
}

fn metric_columns(metric: &Metric, section: &Section, columns: &mut Vec<Column>, missing: &mut Vec<String>) {
    let (rank, spread) = ranks(metric.id);
    let head = heading(metric, section);
    let values: Vec<Option<&MetricValue>> = section.rows.iter().map(|row| row.metric(metric.id)).collect();
    let available = values.iter().flatten().any(|value| value.stats.is_some());
    if !available && metric.id != "time" {
        let measured = section.rows.iter().filter(|row| row.measured() && !row.below_resolution);
        if let Some(why) = measured.filter_map(|row| row.metric(metric.id)?.why.clone()).next() {
            missing.push(format!("{head} ({why})"));
        }
        return;
    }
    let cells = section.rows.iter().zip(&values).map(|(row, value)| cell(row, *value, metric));
    columns.push(Column::new(head, true, rank, cells));
    if let Some(rank) = spread {
        let cells = section.rows.iter().zip(&values).map(|(row, value)| {
            let stats = value.and_then(|value| value.stats).filter(|stats| stats.count >= FEWEST);
            stats.map_or_else(|| nothing(row), |stats| range(stats.p10, stats.p90, metric.unit))
        });
        columns.push(Column::new("p10–p90", true, rank, cells));
    }
}

fn cell(row: &Row, value: Option<&MetricValue>, metric: &Metric) -> String {
    match value.and_then(|value| value.stats) {
        Some(stats) if metric.unit == "1/s" => units::rate(stats.median),
        Some(stats) if metric.id == "roofline-fraction" => format!("{}{}", human(stats.median, "1"), binding(row)),
        _ if metric.id == "time" => time(row),
        Some(stats) => human(stats.median, metric.unit),
        None => nothing(row),
    }
}

/// The time of a row, or the reason why it has none.
pub(super) fn time(row: &Row) -> String {
    match row.median("time") {
        Some(time) => at_most(row.held_up.is_some(), time),
        None if row.below_resolution => below_resolution(row.resolution_s),
        None if !row.measured() => row.status.word.to_string(),
        None => UNAVAILABLE.to_string(),
    }
}

/// A time; if other programs held the row up, an upper bound.
pub(super) fn at_most(held_up: bool, seconds: f64) -> String {
    format!("{}{}", if held_up { BOUND } else { "" }, human(seconds, "s"))
}

/// Level or unit that limits the row: ` L2`, ` DRAM`, ` FMA`.
pub(super) fn binding(row: &Row) -> String {
    match &row.roof {
        Some(roof) if roof.memory_bound && !roof.ceiling.level.is_empty() => format!(" {}", roof.ceiling.level),
        Some(roof) if roof.memory_bound => " copy".to_string(),
        Some(roof) if [CeilingKind::FmaF64, CeilingKind::ProductsBf16].contains(&roof.ceiling.kind) => {
            format!(" {}", roof.ceiling.kind.title())
        }
        Some(_) => " FMA".to_string(),
        None => String::new(),
    }
}

fn speedup_columns(section: &Section, columns: &mut Vec<Column>, missing: &mut Vec<String>) {
    let rows = &section.rows;
    if rows.iter().all(|row| row.speedup.ratio.is_none()) {
        if let Some(why) = rows.iter().find(|row| row.measured()).and_then(|row| row.speedup.unavailable.clone()) {
            missing.push(format!("speed-up ({why})"));
        }
        return;
    }
    let ratio = |row: &Row| match row.speedup.ratio {
        Some(_) if row.speedup.is_baseline => "baseline".to_string(),
        Some(_) => row.speedup.text().unwrap_or_default(),
        None => nothing(row),
    };
    columns.push(Column::new("speed-up", true, 1, rows.iter().map(ratio)));
    columns.push(Column::new("95 % interval", true, 2, rows.iter().map(interval)));
}

/// The interval of a row's speed-up.
pub(super) fn interval(row: &Row) -> String {
    match row.speedup.ends() {
        _ if row.speedup.is_baseline => String::new(),
        (Some(low), Some(high)) => range(low, high, "x"),
        (Some(low), None) => format!("from {}", human(low, "x")),
        (None, Some(high)) => format!("to {}", human(high, "x")),
        (None, None) => nothing(row),
    }
}

/// Short remarks on a row.
fn note(row: &Row, full: bool) -> String {
    let mut words = Vec::new();
    if row.best {
        words.push("best".to_string());
    } else if row.tied {
        words.push("tied".to_string());
    }
    match row.samples {
        0 | FEWEST.. => {}
        1 => words.push("1 slot".to_string()),
        few => words.push(format!("{few} slots")),
    }
    if let Some(held) = row.held_up {
        words.push(held.to_string());
    }
    if row.basis.is_some_and(Basis::is_cpu) {
        words.push("CPU time".to_string());
    }
    if let Some(settles) = row.settling.filter(|settles| full && settles.remarkable) {
        let first = format!("at first {} the time", units::ratio(settles.slower_at_first));
        words.push(match settles.seconds {
            Some(seconds) => format!("settles in {} ({first})", human(seconds, "s")),
            None if settles.falls => format!("did not settle ({first})"),
            None => "settling unknown (its times rise and fall)".to_string(),
        });
    }
    // Part of a working set between two cache levels is still in the faster level.
    let possible = row.diagnosis.as_ref().is_some_and(|d| d.limit != Limit::AboveCeiling);
    if !possible && row.median("roofline-fraction").is_some_and(|share| share > 1.05) {
        words.push("above ceiling".to_string());
    }
    words.join(", ")
}

/// Colour of a row in the terminal table.
pub(crate) fn tone(row: &Row) -> Tone {
    match row.status.word {
        "measured" if row.best => Tone::Good,
        "measured" => Tone::Plain,
        _ => Tone::Bad,
    }
}

/// Maximum number of cases that a reason names; for more, it gives their number.
const NAMED: usize = 3;

/// Rows that were not measured, for one reason.
struct Reason<'a> {
    text: String,
    implementation: &'a str,
    wrong: bool,
    /// True if wrong answers differ; the text is that of the first.
    varied: bool,
    rows: usize,
    workloads: Vec<&'a str>,
    places: Vec<String>,
}

impl Reason<'_> {
    /// True if a row has the same reason, or computes another wrong answer at another case of the same workload.
    fn covers(&self, text: &str, row: &Row, workload: &str) -> bool {
        let own = (self.implementation, self.wrong) == (row.implementation.as_str(), row.status.word == "wrong");
        self.text == text || (self.wrong && own && self.workloads == [workload])
    }

    fn line(&self, sections: usize, all: usize) -> String {
        let Self { text, rows, workloads, places, .. } = self;
        let cases = |rows: usize, word: &str| format!("{rows}{word} case{}", if rows == 1 { "" } else { "s" });
        if self.varied {
            // The first case has this answer; the others have wrong ones too.
            let (first, others) = (&places[0], &places[1..]);
            let few = (1..NAMED).contains(&others.len());
            let others = if few { others.join("; ") } else { cases(rows - 1, " more") };
            return format!("{text} ({first}; also {others})");
        }
        if *rows < all && places.len() <= NAMED && *places != [ONLY] {
            return format!("{text} ({})", places.join("; "));
        }
        let place = if workloads.len() < sections { format!(" of {}", workloads.join(", ")) } else { String::new() };
        format!("{text} ({}{place})", cases(*rows, ""))
    }
}

/// Why rows were not measured: one line per implementation and reason, and one for all wrong answers of an
/// implementation in a workload. It names the cases if they are a few of several; otherwise it gives their number and,
/// unless all sections have such rows, their workloads.
pub(crate) fn reasons(sections: &[&Section]) -> Vec<String> {
    let all: usize = sections.iter().map(|section| section.cases.len()).sum();
    let mut seen: Vec<Reason<'_>> = Vec::new();
    for (section, row) in sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row))) {
        let Some(reason) = &row.status.reason else { continue };
        let text = format!("{} {}: {reason}", row.implementation, row.status.word);
        let workload = section.workload.as_str();
        let place = match section.place(row) {
            place if sections.len() == 1 => place,
            place if place == ONLY => workload.to_string(),
            place => format!("{workload}, {place}"),
        };
        match seen.iter_mut().find(|known| known.covers(&text, row, workload)) {
            Some(known) => {
                known.varied |= known.text != text;
                known.rows += 1;
                if !known.workloads.contains(&workload) {
                    known.workloads.push(workload);
                }
                if !known.places.contains(&place) {
                    known.places.push(place);
                }
            }
            None => seen.push(Reason {
                text,
                implementation: &row.implementation,
                wrong: row.status.word == "wrong",
                varied: false,
                rows: 1,
                workloads: vec![workload],
                places: vec![place],
            }),
        }
    }
    seen.iter().map(|reason| reason.line(sections.len(), all)).collect()
}
