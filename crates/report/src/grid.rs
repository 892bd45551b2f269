//! Text tables: aligned columns; on a narrow terminal the least important ones are dropped.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::Options;

/// The role of a cell. Colour only repeats what the text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// An ordinary cell.
    #[default]
    Plain,
    /// The best row of its case.
    Good,
    /// Not measured, or to be read with caution.
    Bad,
    Strong,
    /// Repeated or explanatory text.
    Faint,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) head: String,
    /// True for numbers, which are aligned right.
    pub(crate) right: bool,
    /// Columns of rank 0 always stay; otherwise the highest rank is dropped first. Those of rank 0 and [`KEY`] identify
    /// the row.
    pub(crate) rank: u8,
    pub(crate) cells: Vec<String>,
}

impl Column {
    pub(crate) fn new(head: impl Into<String>, right: bool, rank: u8, cells: impl IntoIterator<Item = String>) -> Self {
        Self::collected(head.into(), right, rank, &mut cells.into_iter())
    }

    /// Not generic: there are some hundred kinds of cells.
    fn collected(head: String, right: bool, rank: u8, cells: &mut dyn Iterator<Item = String>) -> Self {
        Self { head, right, rank, cells: cells.collect() }
    }

    /// The number of each row's run, if the report has several: the first column of a table.
    pub(crate) fn runs(several: bool, rank: u8, runs: impl Iterator<Item = usize>) -> Vec<Self> {
        several.then(|| Self::new("run", true, rank, runs.map(|run| (run + 1).to_string()))).into_iter().collect()
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).chain([self.head.width()]).max().unwrap_or(0)
    }
}

/// The cell of a column in a row.
type Cell<'a, T> = dyn Fn(&T) -> String + 'a;

/// Makes columns for a table with a line for each of `rows`, from the heading, whether it is right-aligned, the rank,
/// and the cell of a row.
pub(crate) fn over<T>(rows: &[T]) -> impl Fn(&str, bool, u8, &Cell<'_, T>) -> Column {
    |head, right, rank, cell| Column::new(head, right, rank, rows.iter().map(cell))
}

const GAP: usize = 2;
/// Highest rank of the columns that identify the row.
pub(crate) const KEY: u8 = 1;

/// Drops columns until the table is at most `width` wide, and returns their headings. Columns of rank 0 stay at any
/// width. Restores those that fit again after a wide one was dropped, the most important first.
pub(crate) fn fit(columns: &mut Vec<Column>, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return Vec::new() };
    let mut kept = vec![true; columns.len()];
    let is_too_wide =
        |kept: &[bool]| total(columns.iter().zip(kept).filter(|(_, kept)| **kept).map(|(c, _)| c)) > width;
    let mut dropped = Vec::new();
    while is_too_wide(&kept) {
        // Of equal ranks, drop the rightmost.
        let can_go = (0..kept.len()).filter(|index| kept[*index] && columns[*index].rank > 0);
        let Some(least) = can_go.max_by_key(|index| (columns[*index].rank, *index)) else { break };
        kept[least] = false;
        dropped.push(least);
    }
    for index in dropped.iter().rev() {
        kept[*index] = true;
        kept[*index] = !is_too_wide(&kept);
    }
    let hidden = dropped.into_iter().filter(|index| !kept[*index]).map(|index| columns[index].head.clone()).collect();
    let mut stays = kept.into_iter();
    columns.retain(|_| stays.next().unwrap_or(true));
    hidden
}

/// The note that names the columns that [`fit`] dropped, if any.
pub(crate) fn hidden(heads: &[String]) -> Option<String> {
    (!heads.is_empty()).then(|| format!("hidden at this width: {}", heads.join(", ")))
}

/// Splits columns into tables of at most `width`. Each begins with the columns that identify the row: those up to the
/// last of rank 0, except those of a higher rank than [`KEY`].
pub(crate) fn split(columns: Vec<Column>, width: Option<usize>) -> Vec<Vec<Column>> {
    let keys = columns.iter().rposition(|column| column.rank == 0).map_or(0, |last| last + 1);
    let Some(width) = width.filter(|width| total(&columns) > *width) else { return vec![columns] };
    let (others, keys): (Vec<_>, Vec<_>) =
        columns.into_iter().enumerate().partition(|(index, column)| *index >= keys || column.rank > KEY);
    let only = |columns: Vec<(usize, Column)>| columns.into_iter().map(|(_, column)| column).collect::<Vec<Column>>();
    let (keys, others) = (only(keys), only(others));
    let mut tables: Vec<Vec<Column>> = Vec::new();
    for column in others {
        match tables.last_mut() {
            Some(table) if total(&*table) + GAP + column.width() <= width => table.push(column),
            _ => tables.push([keys.as_slice(), &[column]].concat()),
        }
    }
    if tables.is_empty() { vec![keys] } else { tables }
}

/// Writes the columns that fit, the notes, and a note on the hidden columns; for a full report, writes all columns, in
/// several tables if necessary.
pub(crate) fn show(
    mut columns: Vec<Column>,
    mut notes: Vec<String>,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let left_out = if options.full { Vec::new() } else { fit(&mut columns, options.width) };
    parts(columns, |_| Tone::Plain, options, out)?;
    notes.extend(hidden(&left_out));
    options.print(Tone::Faint, &notes.join(" · "), out)
}

/// Writes all columns, in several tables if necessary.
pub(crate) fn parts(
    columns: Vec<Column>,
    tone: impl Fn(usize) -> Tone,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (index, part) in split(columns, options.width).iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write(part, options.color, &tone, out)?;
    }
    Ok(())
}

impl Options {
    /// Writes a text in lines of the terminal's width; nothing if it is empty.
    pub(crate) fn print(&self, tone: Tone, text: &str, out: &mut dyn Write) -> io::Result<()> {
        if text.is_empty() {
            Ok(())
        } else {
            writeln!(out, "{}", paint(&wrap("", text, self.width, 2), tone, self.color))
        }
    }

    /// Writes a blank line and a heading.
    pub(crate) fn title(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        self.print(Tone::Strong, text, out)
    }
}

/// True if the table is at most `width` wide.
pub(crate) fn fits(columns: &[Column], width: Option<usize>) -> bool {
    width.is_none_or(|width| total(columns) <= width)
}

fn total<'a>(columns: impl IntoIterator<Item = &'a Column>) -> usize {
    columns.into_iter().map(|column| column.width() + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Writes the table; `tone` returns the tone of a row.
pub(crate) fn write(
    columns: &[Column],
    color: bool,
    tone: impl Fn(usize) -> Tone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let line = |cells: Vec<&str>| {
        let mut line = String::new();
        for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let space = widths[index] - cell.width();
            if column.right {
                line.extend(std::iter::repeat_n(' ', space));
            }
            line.push_str(cell);
            if !column.right {
                line.extend(std::iter::repeat_n(' ', space));
            }
            line.extend(std::iter::repeat_n(' ', GAP));
        }
        line.trim_end().to_string()
    };
    let head = line(columns.iter().map(|column| column.head.as_str()).collect());
    writeln!(out, "{}", paint(&head, Tone::Strong, color))?;
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    writeln!(out, "{}", paint(&rule.join(&"─".repeat(GAP)), Tone::Faint, color))?;
    for row in 0..rows {
        let cells = columns.iter().map(|column| column.cells.get(row).map_or("", String::as_str)).collect();
        writeln!(out, "{}", paint(&line(cells), tone(row), color))?;
    }
    Ok(())
}

/// Wraps `text` in the colour codes of `tone`.
pub(crate) fn paint(text: &str, tone: Tone, color: bool) -> String {
    let code = match tone {
        Tone::Plain => "",
        Tone::Good => "32",
        Tone::Bad => "33",
        Tone::Strong => "1",
        Tone::Faint => "2",
    };
    if !color || code.is_empty() || text.is_empty() {
        text.to_string()
    } else {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// `text` after `head`, broken between words into lines of at most `width` columns, with `indent` on all but the first. A
/// word that is too long gets a separate line.
pub fn wrap(head: &str, text: &str, width: Option<usize>, indent: usize) -> String {
    let width = width.unwrap_or(usize::MAX);
    let mut out = head.to_string();
    let mut used = head.width();
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 && used + 1 + word.width() > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if index > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += word.width();
    }
    out
}

/// Writes the table as Markdown.
pub(crate) fn markdown(columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
    let cell = |text: &str| text.replace('|', "\\|");
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", line(columns.iter().map(|column| cell(&column.head)).collect()))?;
    writeln!(
        out,
        "{}",
        line(columns.iter().map(|column| if column.right { "---:" } else { "---" }.to_string()).collect())
    )?;
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    for row in 0..rows {
        let text = |column: &Column| cell(column.cells.get(row).map_or("", String::as_str));
        writeln!(out, "{}", line(columns.iter().map(text).collect()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("case", false, 0, vec!["a".into(), "bb".into()]),
            Column::new("time", true, 0, vec!["1 µs".into(), "12 µs".into()]),
            Column::new("extra", true, 5, vec!["x".into(), "y".into()]),
            Column::new("note", false, 2, vec![String::new(), "best".into()]),
        ]
    }

    #[test]
    fn the_least_important_column_goes_first() {
        let mut narrow = columns();
        assert_eq!(fit(&mut narrow, Some(20)), ["extra"]);
        assert_eq!(fit(&mut narrow, Some(3)), ["note"]);
        assert_eq!(narrow.len(), 2);
        assert!(fit(&mut columns(), None).is_empty());
        // A note that is too wide for any table does not cause other columns to be hidden.
        let mut wide = columns();
        wide[3].cells[1] = "a long note".repeat(3);
        assert_eq!(fit(&mut wide, Some(24)), ["note"]);
        assert_eq!(wide.iter().map(|column| column.head.as_str()).collect::<Vec<_>>(), ["case", "time", "extra"]);
    }

    #[test]
    fn a_wide_table_is_split_and_every_part_names_its_rows() {
        let heads = |tables: &[Vec<Column>]| -> Vec<String> {
            tables.iter().map(|table| table.iter().map(|c| c.head.as_str()).collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(heads(&split(columns(), Some(20))), ["case time extra", "case time note"]);
        assert_eq!(heads(&split(columns(), None)), ["case time extra note"]);
        // Too narrow for anything: one column per table.
        assert_eq!(heads(&split(columns(), Some(3))).len(), 2);
    }

    #[test]
    fn each_part_of_a_wide_table_has_the_columns_that_name_the_row_and_no_more() {
        let mut wide = columns();
        wide.insert(1, Column::new("other axis", true, 9, vec!["7".into(), "8".into()]));
        wide.insert(1, Column::new("axis", true, KEY, vec!["3".into(), "4".into()]));
        let tables = split(wide, Some(30));
        for table in &tables {
            assert!(fits(table, Some(30)));
            assert_eq!(table.iter().take(3).map(|c| c.head.as_str()).collect::<Vec<_>>(), ["case", "axis", "time"]);
        }
        assert_eq!(tables[0][3].head, "other axis");
    }

    #[test]
    fn columns_line_up_by_display_width() {
        let mut out = Vec::new();
        write(&columns(), false, |_| Tone::Plain, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "case   time  extra  note\n────────────────────────\na      1 µs      x\nbb    12 µs      y  best\n"
        );
    }

    #[test]
    fn wrapping_keeps_words_and_indents() {
        assert_eq!(wrap("", "one two three", Some(8), 2), "one two\n  three");
        assert_eq!(wrap("  key  ", "the number of things", Some(18), 7), "  key  the number\n       of things");
        assert_eq!(wrap("", "incomprehensibilities are long", Some(10), 2), "incomprehensibilities\n  are long");
        assert_eq!(wrap("a ", "b  c", None, 2), "a b c");
        assert_eq!(wrap("  x", "", Some(1), 2), "  x");
    }
}
