//! Verdicts for continuous integration: JUnit XML and GitHub's workflow commands.

use std::io::{self, Write};

use ellwand_bench::compare::Call;
use ellwand_core::record::Measurement;
use ellwand_core::stats::Difference;

use super::args::FailOn;
use super::budgets::{State, Verdict};
use super::exit::Failure;
use super::rows::{Row, Said, bounded};
use super::run::row_name;
use super::verdict;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grade {
    Good,
    /// Slower than the baseline, or beyond a budget.
    Bad,
    Open,
    Broken,
    /// A budget that applies to nothing.
    Idle,
}

impl Grade {
    /// The grade that matches the exit code: `--fail-on` determines whether an open or bad result fails.
    fn by(self, fail_on: FailOn) -> Self {
        match (self, fail_on) {
            (Grade::Open, FailOn::Undecided) => Grade::Bad,
            (Grade::Bad, FailOn::Never) => Grade::Open,
            (grade, _) => grade,
        }
    }
}

/// One judged result.
pub(super) struct Case {
    class: String,
    name: String,
    /// Title of the annotation, which shows neither class nor name.
    title: String,
    seconds: f64,
    grade: Grade,
    line: String,
}

impl Case {
    fn of_row(row: &Row, rope: f64) -> Self {
        let name = format!("{} against {}", row.names[1], row.names[0]);
        Self {
            class: row.case.clone(),
            title: format!("{} {name}", row.case),
            name,
            seconds: row.result.as_ref().map_or(0.0, |decision| decision.elapsed_s),
            grade: if bounded(row, rope) { Grade::Good } else { grade(row) },
            line: and(verdict::sentence(row, rope), row.result.as_ref().ok().and_then(verdict::partly)),
        }
    }

    fn of_budget(verdict: &Verdict) -> Self {
        Self {
            class: verdict.subject.clone(),
            // CI servers merge two cases of the same name.
            name: format!("budget: {}, {}", verdict.judged.what, verdict.place),
            title: verdict.subject.clone(),
            seconds: 0.0,
            grade: match verdict.judged.state {
                State::Kept => Grade::Good,
                State::Broken => Grade::Bad,
                State::Open => Grade::Open,
                State::Unmatched => Grade::Idle,
            },
            line: format!("{} ({})", verdict.judged.text, verdict.place),
        }
    }

    /// The suggestion of two records about a cell. A suggestion never fails, because records decide nothing.
    pub(super) fn of_suggestion(cell: &str, line: String, fine: bool) -> Self {
        Self {
            class: cell.to_string(),
            name: "what two records suggest".into(),
            title: cell.to_string(),
            seconds: 0.0,
            grade: if fine { Grade::Good } else { Grade::Open },
            line,
        }
    }

    /// The user or the machine interrupted a command: the part that it did not do is no success.
    fn interrupted(command: &str, what: String) -> Self {
        let [class, title, name] = [command, command, "interrupted"].map(String::from);
        Self { class, name, title, seconds: 0.0, grade: Grade::Broken, line: what }
    }

    /// A measurement: passes if it exists.
    fn of_measurement(m: &Measurement) -> Self {
        let reason = m.outcome.reason().map_or_else(String::new, |reason| format!(": {reason}"));
        Self {
            class: m.case.id.clone(),
            name: m.implementation.clone(),
            title: row_name(&m.case.id, &m.implementation),
            seconds: m.samples.iter().map(|sample| sample.wall_ns as f64 * 1e-9).fold(0.0, |sum, one| sum + one),
            grade: match m.outcome.word() {
                "measured" => Grade::Good,
                "unsupported" => Grade::Open,
                _ => Grade::Broken,
            },
            line: match m.basis {
                Some(basis) => and(format!("{} ({})", m.outcome.word(), basis.about()), partly(m)),
                None => and(format!("{}{reason}", m.outcome.word()), partly(m)),
            },
        }
    }

    /// As a workflow command of GitHub: `::error::` if it fails the command, `::warning::` if it does not but is not
    /// good either, `::notice::` otherwise.
    pub(super) fn annotate(&self, out: &mut dyn Write) -> io::Result<()> {
        let level = match self.grade {
            Grade::Good | Grade::Idle => "notice",
            Grade::Open => "warning",
            Grade::Bad | Grade::Broken => "error",
        };
        // Commands end at the end of a line; titles end also at commas and colons.
        let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let title = escape(&self.title).replace(':', "%3A").replace(',', "%2C");
        writeln!(out, "::{level} title={title}::{}", escape(&self.line))
    }

    /// The case under `--fail-on`. If nothing at all was measured, the command fails in any case.
    fn by(self, fail_on: FailOn, nothing: bool) -> Self {
        let grade = if nothing && self.grade == Grade::Open { Grade::Broken } else { self.grade.by(fail_on) };
        Self { grade, ..self }
    }

    fn is_good(&self) -> bool {
        self.grade == Grade::Good
    }
}

/// A line with its remark, if any.
fn and(line: String, remark: Option<String>) -> String {
    remark.into_iter().fold(line, |line, remark| format!("{line}; {remark}"))
}

/// The remark on an answer that the reference judged only in part.
fn partly(m: &Measurement) -> Option<String> {
    m.check.as_ref()?.compared?.remark()
}

fn grade(row: &Row) -> Grade {
    match row.said {
        Said::Call(Call::As(Difference::Slower) | Call::SlowerBeside(_)) => Grade::Bad,
        Said::Call(Call::As(Difference::Same | Difference::Faster)) => Grade::Good,
        Said::Call(Call::As(Difference::Undecided { .. }) | Call::Unsettled(_) | Call::Withheld)
        | Said::OneOfMany
        | Said::BelowResolution(_) => Grade::Open,
        Said::Nothing => match &row.result {
            Err((_, fate)) if fate.word() == "unsupported" => Grade::Open,
            _ => Grade::Broken,
        },
    }
}

/// The case for a `run` that was interrupted after `done` of `planned` measurements.
fn of_interrupted_run([done, planned]: [usize; 2]) -> Case {
    let what = format!("interrupted after {done} of {planned} planned measurements; --resume measures the others");
    Case::interrupted("ellwand run", what)
}

/// The case for a comparison that ended before all cases were compared completely.
pub(super) fn of_interrupted(what: &str) -> Case {
    Case::interrupted("ellwand compare", what.into())
}

/// The case for a comparison that could not begin.
pub(super) fn of_failure(failure: &Failure) -> Case {
    let what = failure.to_string().trim_start_matches("error: ").to_string();
    Case { name: "error".into(), ..of_interrupted(&what) }
}

/// Comparisons, then budgets.
pub(super) fn of_rows(rows: &[Row], budgets: &[Verdict], rope: f64, fail_on: FailOn) -> Vec<Case> {
    let nothing = rows.iter().all(|row| row.result.is_err());
    let rows = rows.iter().map(|row| Case::of_row(row, rope));
    rows.chain(budgets.iter().map(Case::of_budget)).map(|case| case.by(fail_on, nothing)).collect()
}

/// What `run` measured, then budgets.
fn of_run(measurements: &[Measurement], budgets: &[Verdict], fail_on: FailOn) -> Vec<Case> {
    let nothing = !measurements.iter().any(|one| one.outcome.is_measured());
    let measured = measurements.iter().map(Case::of_measurement);
    measured.chain(budgets.iter().map(Case::of_budget)).map(|case| case.by(fail_on, nothing)).collect()
}

/// One test case each: a failure if it fails the command, skipped if it does not but is not good either, an error if
/// something broke.
pub(super) fn write_suite(name: &str, cases: &[Case], out: &mut dyn Write) -> io::Result<()> {
    let count = |grade: Grade| cases.iter().filter(|case| case.grade == grade).count();
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<testsuite name="{name}" tests="{}" failures="{}" errors="{}" skipped="{}">"#,
        cases.len(),
        count(Grade::Bad),
        count(Grade::Broken),
        count(Grade::Open) + count(Grade::Idle),
    )?;
    for case in cases {
        let line = xml(&case.line);
        writeln!(
            out,
            r#"  <testcase classname="{}" name="{}" time="{:.3}">"#,
            xml(&case.class),
            xml(&case.name),
            case.seconds
        )?;
        match case.grade {
            Grade::Good => writeln!(out, "    <system-out>{line}</system-out>")?,
            Grade::Bad => writeln!(out, r#"    <failure message="{line}"/>"#)?,
            Grade::Open | Grade::Idle => writeln!(out, r#"    <skipped message="{line}"/>"#)?,
            Grade::Broken => writeln!(out, r#"    <error message="{line}"/>"#)?,
        }
        writeln!(out, "  </testcase>")?;
    }
    writeln!(out, "</testsuite>")
}

/// Writes the comparisons, and the budgets that are not kept, as GitHub's workflow commands.
pub(super) fn write_github(
    rows: &[Row],
    budgets: &[Verdict],
    (rope, fail_on): (f64, FailOn),
    cut: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let cases = of_rows(rows, budgets, rope, fail_on);
    let shown = cases.iter().enumerate().filter(|(at, case)| *at < rows.len() || !case.is_good());
    shown.map(|(_, case)| case).chain(&cut.map(of_interrupted)).try_for_each(|case| case.annotate(out))
}

/// Writes the measurements and budgets of `run` as JUnit XML. `cut`: numbers of finished and planned measurements of an
/// interrupted run.
pub(super) fn write_run_junit(
    all: &[Measurement],
    budgets: &[Verdict],
    fail_on: FailOn,
    cut: Option<[usize; 2]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut cases = of_run(all, budgets, fail_on);
    cases.extend(cut.map(of_interrupted_run));
    write_suite("ellwand run", &cases, out)
}

/// Writes what `run` could not measure, the budgets that are not kept, and how many there were. `cut` as for
/// [`write_run_junit`].
pub(super) fn write_run_github(
    all: &[Measurement],
    budgets: &[Verdict],
    fail_on: FailOn,
    cut: Option<[usize; 2]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let cases = of_run(all, budgets, fail_on);
    let good = cases.iter().filter(|case| case.is_good()).count();
    let judged = cases.iter().filter(|case| case.grade != Grade::Idle).count();
    let so_far = if cut.is_some() { " so far" } else { "" };
    // Successful measurements have no line.
    let parts = all.iter().filter_map(partly).count();
    let remark = (parts > 0).then(|| format!("in {parts} of them the reference judged a part of the answer"));
    let line = format!("{good} of {judged} measurements and budgets{so_far} are in order");
    writeln!(out, "::notice title=ellwand run::{}", and(line, remark))?;
    let bad = cases.iter().filter(|case| !case.is_good());
    bad.chain(&cut.map(of_interrupted_run)).try_for_each(|case| case.annotate(out))
}

/// Text as an XML attribute or element; omits characters that XML 1.0 does not allow.
fn xml(text: &str) -> String {
    let text: String = text.chars().filter(|c| *c >= ' ' || ['\t', '\n', '\r'].contains(c)).collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\n', "&#10;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::rows::samples::row;
    use ellwand_core::record::Outcome;

    fn broken(error: &str) -> Row {
        let fate = Outcome::Failed { error: error.into() };
        let names = ["a".to_string(), "b".to_string()];
        let result = Err(("the candidate", fate));
        let case = "w/n=1,m=2".into();
        Row { case, names, result, said: Said::Nothing, ..row(Call::Withheld, 0.0) }
    }

    fn written(write: impl FnOnce(&[Row], &mut Vec<u8>) -> io::Result<()>, row: Row) -> String {
        let mut out = Vec::new();
        write(&[row], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hostile_text_stays_inside_its_place() {
        let text = written(
            |rows, out| write_suite("x", &of_rows(rows, &[], 0.01, FailOn::Slower), out),
            broken("<b> & \"q\"\nnext\u{1b}[0m"),
        );
        assert!(text.contains("&lt;b&gt; &amp; &quot;q&quot;&#10;next[0m"), "{text}");
        assert!(text.contains(r#"tests="1" failures="0" errors="1" skipped="0""#), "{text}");
        let text = written(
            |rows, out| write_github(rows, &[], (0.01, FailOn::Slower), None, out),
            broken("50 %\n::warning::fake"),
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("::error title=w/n=1%2Cm=2 b against a::") && text.contains("50 %25%0A::warning"),
            "{text}"
        );
    }

    #[test]
    fn an_answer_that_was_judged_in_part_is_marked() {
        let record = include_str!("../../../../testdata/records/v1.jsonl");
        let mut lines = record.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut measured =
            lines.find(|line| line["kind"] == "measurement" && line["outcome"]["status"] == "measured").unwrap();
        let mut line = |compared: serde_json::Value| {
            measured["check"]["compared"] = compared;
            Case::of_measurement(&serde_json::from_value(measured.clone()).unwrap()).line
        };
        let part = line(serde_json::json!({ "values": 211, "of": 1000 }));
        assert!(
            part.ends_with("; the reference judged 211 of 1000 values of the answer; the others may be wrong"),
            "{part}"
        );
        assert!(!line(serde_json::json!({ "values": 1000, "of": 1000 })).contains("of the answer"));
    }

    #[test]
    fn ci_reports_fail_if_the_exit_code_does() {
        use crate::cli::exit::Exit;
        use crate::cli::rows::exit;
        let unsupported = || Row {
            result: Err(("the candidate", Outcome::Unsupported { why: "no such device".into() })),
            ..broken("")
        };
        let slower = || row(Call::As(Difference::Slower), 500.0);
        let undecided = || row(Call::As(Difference::Undecided { blocks_needed: None }), 0.0);
        let same = || row(Call::As(Difference::Same), 0.0);
        for fail_on in [FailOn::Slower, FailOn::Undecided, FailOn::Never] {
            for rows in [
                vec![same(), slower()],
                vec![same(), undecided()],
                vec![same(), unsupported()],
                vec![unsupported()],
                vec![same(), broken("x")],
                vec![same()],
            ] {
                let fails = exit(&rows, &[], 0.01, fail_on) != Exit::Ok;
                let [mut junit, mut github] = [Vec::new(), Vec::new()];
                write_suite("x", &of_rows(&rows, &[], 0.01, fail_on), &mut junit).unwrap();
                write_github(&rows, &[], (0.01, fail_on), None, &mut github).unwrap();
                let [junit, github] = [junit, github].map(|text| String::from_utf8(text).unwrap());
                let red = junit.contains("<failure ") || junit.contains("<error ");
                assert_eq!((red, github.contains("::error ")), (fails, fails), "{junit}{github}");
            }
        }
    }

    #[test]
    fn an_interrupted_comparison_is_an_error() {
        let text = written(
            |rows, out| {
                write_github(
                    rows,
                    &[],
                    (0.01, FailOn::Slower),
                    Some("interrupted: 1 of 3 cases were compared completely"),
                    out,
                )
            },
            broken("x"),
        );
        assert!(
            text.ends_with("::error title=ellwand compare::interrupted: 1 of 3 cases were compared completely\n"),
            "{text}"
        );
        let mut out = Vec::new();
        write_run_junit(&[], &[], FailOn::Budget, Some([12, 64]), &mut out).unwrap();
        write_run_github(&[], &[], FailOn::Budget, Some([12, 64]), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(r#"tests="1" failures="0" errors="1""#)
                && text.contains("::error title=ellwand run::interrupted after 12 of 64 planned measurements;"),
            "{text}"
        );
    }
}
