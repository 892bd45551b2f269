//! Tables for a terminal: a summary, a breakdown, bottlenecks. The width of a format (`{:80}`) is the width of the
//! terminal; without one, or at 0, tables have all columns.

use std::fmt;

use crate::bottleneck::{Bottleneck, ambiguous};
use crate::breakdown::{Breakdown, Part};
use crate::summary::{Row, Summary};

/// Rows that `{}` prints; `{:#}` prints all.
const FIRST_ROWS: usize = 40;
/// Width of the name column.
const NAME_WIDTH: usize = 32;
/// Longest name printed in full: some names of kernels and generic functions have thousands of characters.
const LONGEST: usize = 256;

/// A text for one line of a terminal, with control characters and bidirectional controls escaped.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.push_str(&c.escape_default().to_string());
        } else {
            out.push(c);
        }
    }
    out
}

/// A printable text of at most `width` characters, shortened in the middle because names often differ at their ends.
pub fn shortened(text: &str, width: usize) -> String {
    // Do not escape the whole of a longer text.
    let count = text.chars().count();
    if count <= 2 * width {
        return without_middle(&printable(text), width);
    }
    let (start, end) = (divided(text, width).0, divided(text, count - width).1);
    without_middle(&format!("{}{}", printable(start), printable(end)), width)
}

/// The first `count` characters, and the rest.
fn divided(text: &str, count: usize) -> (&str, &str) {
    text.split_at(text.char_indices().nth(count).map_or(text.len(), |(at, _)| at))
}

/// The name of an operation, [`shortened`]; `(no name)` if it is blank.
pub fn named(name: &str, width: usize) -> String {
    shortened(if name.trim().is_empty() { "(no name)" } else { name }, width)
}

/// A name as from [`named`], followed by file name and line of its source place, if given.
fn placed(name: &str, place: Option<&str>, width: usize) -> String {
    let Some(place) = place else { return named(name, width) };
    let place = printable(place.rsplit(['/', '\\']).next().unwrap_or(place));
    format!("{} ({place})", named(name, width.saturating_sub(place.chars().count() + 3).max(SHORTEST)))
}

/// A value in three digits, in the largest unit that does not exceed it.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return "-".to_string();
    }
    let unit = units.iter().rev().find(|unit| value.abs() >= unit.0 * 0.9995).or(units.first());
    let Some((size, name)) = unit else { return value.to_string() };
    let value = value / size;
    let decimals = match value.abs() {
        0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {name}")
}

/// Nanoseconds with a sensible unit, such as `1.23 ms`.
pub fn time(ns: f64) -> String {
    if ns.is_finite() && ns.abs() >= 9.9995e14 {
        return format!("{:.2e} s", ns / 1e9);
    }
    scaled(ns, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")])
}

/// Bytes a second with a sensible unit, such as `9.00 GB/s`.
pub fn bandwidth(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")])
}

/// Bytes with a sensible unit, such as `64.0 MiB`: binary units, as on the page and in reports.
pub fn bytes(count: f64) -> String {
    const KIB: f64 = 1024.0;
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    scaled(count, &std::array::from_fn::<_, 7, _>(|power| (KIB.powi(power as i32), units[power])))
}

const THOUSANDS: &[(f64, &str)] =
    &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")];

fn count(value: u64) -> String {
    if value < 100_000 {
        return value.to_string();
    }
    scaled(value as f64, THOUSANDS)
}

/// A rate per second in three digits, such as `1.23 M`.
fn rate(value: f64) -> String {
    scaled(value, THOUSANDS).trim_end().to_string()
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        value if !value.is_finite() => "-".to_string(),
        value if value.abs() < 9.95 => format!("{value:.1} %"),
        value if value.abs() < 99_999.5 => format!("{value:.0} %"),
        value => format!("{value:.0e} %"),
    }
}

/// Columns that a narrow terminal hides, in this order.
const LEAST_TIMES: [&str; 8] = ["std", "min", "p90", "max", "p99", "p50", "mean", "wall"];
const LEAST_RESOURCES: [&str; 10] =
    ["own cost", "items", "peak", "transfer", "items/s", "GB/s", "GFLOP/s", "device", "allocated", "waiting"];

/// A column: its heading, whether a row has a value for it, and the text of that value.
type Column = (&'static str, fn(&Row) -> bool, fn(&Row, &Summary) -> String);

/// Smallest share of an operation's time at which the profiler's own cost gets a column; below, its line in the
/// breakdown is enough.
const NOTICEABLE: f64 = 0.02;

const ALWAYS: fn(&Row) -> bool = |_| true;
const TIMES: [Column; 11] = [
    ("calls", ALWAYS, |row, _| count(row.count)),
    ("total", ALWAYS, |row, _| time(row.total_ns)),
    ("self", ALWAYS, |row, _| time(row.self_ns)),
    ("wall", ALWAYS, |row, all| percent(row.share(all))),
    ("mean", ALWAYS, |row, _| time(row.mean_ns)),
    ("std", ALWAYS, |row, _| time(row.std_ns)),
    ("min", ALWAYS, |row, _| time(row.min_ns)),
    ("p50", ALWAYS, |row, _| percentile(row, row.median_ns)),
    ("p90", ALWAYS, |row, _| percentile(row, row.p90_ns)),
    ("p99", ALWAYS, |row, _| percentile(row, row.p99_ns)),
    ("max", ALWAYS, |row, _| time(row.max_ns)),
];

/// Shown if at least one row has a value.
const RESOURCES: [Column; 11] = [
    ("of cpu", |row| row.cpu_ns.is_some(), |row, all| percent(or_nan(row.cpu_share(all)))),
    ("waiting", |row| row.cpu_ns.is_some(), |row, _| time(or_nan(row.waiting_ns))),
    ("device", |row| row.device_ns > 0.0, |row, _| time(row.device_ns)),
    ("transfer", |row| row.transfer_ns > 0.0, |row, _| time(row.transfer_ns)),
    ("allocated", has_memory, |row, _| bytes(or_nan(row.memory.map(|memory| memory.allocated_bytes as f64)))),
    ("peak", has_memory, |row, _| bytes(or_nan(row.memory.map(|memory| memory.peak_bytes as f64)))),
    ("GB/s", |row| row.counters.bytes > 0, |row, _| giga(row.gb_per_s())),
    ("GFLOP/s", |row| row.counters.flops > 0.0, |row, _| giga(row.gflop_per_s())),
    ("items", has_items, |row, _| if has_items(row) { count(row.counters.items) } else { "-".to_string() }),
    ("items/s", has_items, |row, _| rate(or_nan(row.items_per_s()))),
    ("own cost", has_noticeable_cost, |row, _| time(or_nan(row.overhead_ns))),
];

/// A percentile; that of aggregated spans is an estimate, all other numbers are exact.
fn percentile(row: &Row, ns: f64) -> String {
    format!("{}{}", if row.aggregated > 0 { "~" } else { "" }, time(ns))
}

/// The value, or NaN, which is printed as a dash.
fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn giga(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_string(), |rate| format!("{rate:.2}"))
}

fn has_memory(row: &Row) -> bool {
    row.memory.is_some()
}

fn has_items(row: &Row) -> bool {
    row.counters.items > 0
}

fn has_noticeable_cost(row: &Row) -> bool {
    row.overhead_ns.is_some_and(|ns| ns >= NOTICEABLE * row.total_ns)
}

/// Spaces between two cells.
const GAP: usize = 2;
/// Characters of a name that are always printed, however narrow the terminal is.
const SHORTEST: usize = 8;

fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(line.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

fn total(lines: &[Vec<String>]) -> usize {
    widths(lines).iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// The width of the terminal, if given.
fn room(f: &fmt::Formatter<'_>) -> usize {
    f.width().filter(|width| *width > 0).unwrap_or(usize::MAX)
}

/// A text of at most `width` characters, with its middle cut out.
fn without_middle(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_string();
    }
    let end = width.saturating_sub(1) / 2;
    format!("{}…{}", divided(text, width.saturating_sub(end + 1)).0, divided(text, count - end).1)
}

/// Prints rows of cells below their headings; the first column is left-aligned, the others right-aligned. On a narrow
/// terminal, hides the columns of `least` in this order until the table fits, and then cuts names in the middle.
///
/// # Errors
/// Errors of `f`.
pub fn fitted(f: &mut fmt::Formatter<'_>, mut lines: Vec<Vec<String>>, least: &[&str]) -> fmt::Result {
    let room = room(f);
    let mut hidden = Vec::new();
    for heading in least {
        let column = lines.first().and_then(|line| line.iter().position(|cell| cell.trim() == *heading));
        if let Some(column) = column.filter(|_| total(&lines) > room) {
            lines.iter_mut().filter(|line| line.len() > column).for_each(|line| drop(line.remove(column)));
            hidden.push(*heading);
        }
    }
    let over = total(&lines).saturating_sub(room);
    let longest = widths(&lines).first().map_or(0, |width| width.saturating_sub(over).max(SHORTEST));
    for name in lines.iter_mut().filter_map(|line| line.first_mut()) {
        *name = without_middle(name, longest);
    }
    print(f, &lines)?;
    if hidden.is_empty() { Ok(()) } else { write!(f, "\nhidden at this width: {}", hidden.join(", ")) }
}

fn print(f: &mut fmt::Formatter<'_>, lines: &[Vec<String>]) -> fmt::Result {
    let widths = widths(lines);
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (index, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text.push_str(&if index == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") });
        }
        f.write_str(text.trim_end())?;
        if number + 1 < lines.len() {
            f.write_str("\n")?;
        }
    }
    Ok(())
}

/// A heading and one line per row, indented by depth. Names, including what precedes and follows them, have
/// [`NAME_WIDTH`] characters plus the room that the other columns leave.
fn lines(summary: &Summary, shown: usize, columns: &[&Column], room: usize) -> Vec<Vec<String>> {
    let (ambiguous, rows) = (ambiguous(&summary.rows), &summary.rows[..shown]);
    let mut lines = vec![vec!["operation".to_string()]];
    columns.iter().for_each(|(name, ..)| lines[0].push(name.to_string()));
    for row in rows {
        let mut line = vec![String::new()];
        columns.iter().for_each(|(.., cell)| line.push(cell(row, summary)));
        lines.push(line);
    }
    let longest = room.saturating_sub(total(&lines[..]) + GAP).clamp(NAME_WIDTH, LONGEST);
    for (row, line) in rows.iter().zip(lines.iter_mut().skip(1)) {
        // Deep rows leave room for the start of their name.
        let indent = "  ".repeat(row.depth().min(10));
        let open = if row.open > 0 { format!(" (+{} open)", row.open) } else { String::new() };
        let place = ambiguous.binary_search(&row.name()).is_ok() && !row.file.is_empty();
        let place = place.then(|| format!("{}:{}", row.file, row.line));
        let width = longest.saturating_sub(indent.len() + open.len()).max(SHORTEST);
        let name = placed(row.name(), place.as_deref(), width);
        if let Some(first) = line.first_mut() {
            *first = format!("{indent}{name}{open}");
        }
    }
    lines
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return write!(f, "no spans in {}", time(self.wall_ns));
        }
        let shown = if f.alternate() { self.rows.len() } else { self.rows.len().min(FIRST_ROWS) };
        let of = |all: &'static [Column]| -> Vec<&Column> {
            all.iter().filter(|(_, has, _)| self.rows.iter().any(has)).collect()
        };
        fitted(f, lines(self, shown, &of(&TIMES), room(f)), &LEAST_TIMES)?;
        let resources = of(&RESOURCES);
        if !resources.is_empty() {
            f.write_str("\n\n")?;
            fitted(f, lines(self, shown, &resources, room(f)), &LEAST_RESOURCES)?;
        }
        if shown < self.rows.len() {
            write!(f, "\n… and {} more", self.rows.len() - shown)?;
        }
        write!(f, "\nelapsed {}", time(self.wall_ns))?;
        if self.rows.iter().any(|row| row.aggregated > 0) {
            f.write_str("; percentiles with ~ are estimates, because spans were aggregated")?;
        }
        if let Some(last) = self.last_spans {
            write!(f, "; only the last spans of each thread ({last})")?;
        }
        let missing = [
            (self.lost, "lost"),
            (self.lost_details, "without details"),
            (self.rows.iter().map(|row| row.without_memory).sum(), "without allocations"),
            (self.sampled_out, "(outermost) skipped by sampling"),
        ];
        for (number, what) in missing.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, "; {} {} {what}", count(number), if number == 1 { "span" } else { "spans" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![vec!["part".to_string(), "time".to_string(), "share".to_string()]];
        for part in Part::ALL.into_iter().filter(|part| self.ticks(*part) > 0) {
            let bound = match part {
                Part::Cpu if self.cpu_is_least => ", at least",
                Part::Wait if self.cpu_is_least => ", at most",
                _ => "",
            };
            let name = format!("{:<15} {}{bound}", part.word(), part.about());
            lines.push(vec![name, time(self.ns(part)), percent(self.share(part))]);
        }
        lines.push(vec!["elapsed".to_string(), time(self.wall_ns()), String::new()]);
        if total(&lines) > room(f) {
            // The first word of a line is the name of the part.
            lines.iter_mut().filter_map(|line| line.first_mut()).for_each(|name| {
                name.truncate(name.find(' ').unwrap_or(name.len()));
            });
        }
        print(f, &lines)
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other columns take 28 characters.
        let width = room(f).saturating_sub(28).clamp(SHORTEST, NAME_WIDTH);
        let (name, by) = (placed(&self.operation, self.place.as_deref(), NAME_WIDTH), self.by.word());
        let name = without_middle(&name, width);
        write!(f, "{name:<width$}  {by:<7}  {:>8}  {:>7}", time(self.ns), percent(self.share))
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, shortened, time};

    #[test]
    fn times_and_bytes_have_sensible_units() {
        let times = [0.0, 0.25, 12.34, 999.4, 999.6, 1234.0, 5e7, 8.64e13, 1e20, f64::NAN, -1500.0];
        insta::assert_snapshot!(times.map(time).join(" | "), @"0 ns | 0.25 ns | 12.3 ns | 999 ns | 1.00 µs | 1.23 µs | 50.0 ms | 86400 s | 1.00e11 s | - | -1.50 µs");
        insta::assert_snapshot!([0.0, 1.0, 1536.0, 1e9].map(bytes).join(" | "), @"0 B | 1.00 B | 1.50 KiB | 954 MiB");
        assert_eq!(shortened(&"x".repeat(1 << 20), 5), "xx…xx");
        assert_eq!(shortened("a\nb", 9), "a\\nb");
    }
}
