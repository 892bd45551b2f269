//! The lines of the table of `compare`, each printed as soon as no later case can change it.

use std::io::{self, Write};

use super::args::Form;
use super::exit::Failure;
use super::progress::Progress;
use super::rows::{Row, is_final};
use super::{output, verdict};

/// The lines printed so far.
pub(super) struct Lines {
    table: bool,
    rope: f64,
    /// Number of cases of the whole comparison.
    cases: usize,
    printed: usize,
    /// The first error of stdout, which ends the command after the record is written.
    failed: Option<Failure>,
}

impl Lines {
    pub(super) fn new(form: Form, rope: f64, cases: usize) -> Self {
        Self { table: form == Form::Table, rope, cases, printed: 0, failed: None }
    }

    /// Prints the lines that are final now that the last of `rows` is measured. If that row has to wait for others, or
    /// for the end as in every format except the table, a note on stderr says that it is measured.
    pub(super) fn follow(&mut self, rows: &[Row], progress: &mut Progress) {
        let until = if self.table { self.printed + finals(&rows[self.printed..], self.cases) } else { self.printed };
        if until > self.printed {
            let fresh = &rows[self.printed..until];
            let printed = progress.aside(|| self.print(fresh));
            self.failed = self.failed.take().or(printed.err());
            self.printed = until;
        }
        if until < rows.len() && self.cases > 1 {
            let row = &rows[rows.len() - 1];
            let said = match (&row.result, is_final(row, self.cases)) {
                (Err(_), _) => "no verdict",
                (_, true) => verdict::label(row.said),
                (_, false) => "measured; its verdict depends on the later cases",
            };
            progress.note(&format!("{}: {said} ({} of {} cases)", row.case, rows.len(), self.cases));
        }
        progress.line_printed();
    }

    /// Prints the remaining lines.
    pub(super) fn end(&mut self, rows: &[Row]) -> Result<(), Failure> {
        let failed = self.failed.take().map_or(Ok(()), Err);
        failed.and_then(|()| self.print(&rows[self.printed..]))
    }

    fn print(&self, rows: &[Row]) -> Result<(), Failure> {
        let write = |out: &mut dyn Write| -> io::Result<()> {
            output::prose(out, |out| verdict::write_rows(rows, self.cases > 1, self.rope, out))
        };
        output::result(write)
    }
}

/// How many of the first of these rows can be printed now: those before the first one that may be retracted. Failures
/// at the end wait, because further failures of the same kind share their line.
fn finals(rows: &[Row], cases: usize) -> usize {
    let until = rows.iter().take_while(|row| is_final(row, cases)).count();
    if until < rows.len() {
        return until;
    }
    until - rows.iter().rev().take_while(|row| row.result.is_err()).count()
}

#[cfg(test)]
mod tests {
    use ellwand_bench::compare::Call;
    use ellwand_core::record::Outcome;
    use ellwand_core::stats::Difference;

    use super::*;
    use crate::cli::rows::Said;
    use crate::cli::rows::samples::row;

    fn failed(why: &str) -> Row {
        let result = Err(("the candidate", Outcome::Failed { error: why.into() }));
        Row { result, said: Said::Nothing, ..row(Call::Withheld, 0.0) }
    }

    #[test]
    fn a_line_waits_only_for_what_can_change_it() {
        let same = || row(Call::As(Difference::Same), 0.0);
        let slower = |evidence: f64| row(Call::As(Difference::Slower), evidence);
        assert_eq!(finals(&[same(), slower(1e4)], 9), 2);
        // A large number of cases may retract a call with little evidence; lines are printed in the order of the cases.
        assert_eq!(finals(&[same(), slower(200.0), same()], 9), 1);
        // Later failures may share the line.
        assert_eq!(finals(&[same(), failed("x"), failed("x")], 9), 1);
        assert_eq!(finals(&[failed("x"), failed("x"), same()], 9), 3);
    }
}
