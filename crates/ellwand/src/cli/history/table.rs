//! Rows of text in columns. Cuts what exceeds a line of the terminal, which an ellipsis shows.

use std::io::{self, Write};

use crate::cli::output;

pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_within(output::width(), out)
    }

    fn write_within(&self, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let long = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(long).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            let line = line.trim_end();
            match width {
                Some(width) if line.chars().count() > width => {
                    writeln!(out, "{}…", line.chars().take(width.saturating_sub(1)).collect::<String>())?;
                }
                _ => writeln!(out, "{line}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_aligned_and_lines_end_where_the_terminal_does() {
        let mut table = Table::new(&["a", "long"]);
        table.row(["1234 µs".to_string(), "x".to_string()]);
        let text = |width| {
            let mut out = Vec::new();
            table.write_within(width, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(None), "a        long\n1234 µs  x\n");
        assert_eq!(text(Some(10)), "a        …\n1234 µs  x\n");
    }
}
