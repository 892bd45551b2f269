//! Verdicts for machines that gate on them: JUnit XML and GitHub's workflow commands.

use std::io::{self, Write};

use ellwand_bench::compare::Call;
use ellwand_core::stats::Difference;

use super::compare::{Row, Said};
use super::verdict;

/// How bad a row is.
enum Grade {
    Good,
    Slower,
    Open,
    Broken,
}

fn grade(row: &Row) -> Grade {
    match row.said {
        Said::Call(Call::As(Difference::Slower) | Call::SlowerBeside(_)) => Grade::Slower,
        Said::Call(Call::As(Difference::Same | Difference::Faster)) => Grade::Good,
        Said::Call(Call::As(Difference::Undecided { .. }) | Call::Withheld)
        | Said::OneOfMany
        | Said::BelowResolution(_) => Grade::Open,
        Said::Nothing => match &row.result {
            Err((_, fate)) if fate.word() == "unsupported" => Grade::Open,
            _ => Grade::Broken,
        },
    }
}

/// One test case a row: a failure where the candidate is slower, skipped where nothing is shown, an error where an arm broke.
pub(super) fn write_junit(rows: &[Row], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    let count = |is: fn(&Grade) -> bool| rows.iter().map(grade).filter(is).count();
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<testsuite name="ellwand compare" tests="{}" failures="{}" errors="{}" skipped="{}">"#,
        rows.len(),
        count(|grade| matches!(grade, Grade::Slower)),
        count(|grade| matches!(grade, Grade::Broken)),
        count(|grade| matches!(grade, Grade::Open)),
    )?;
    for row in rows {
        let line = xml(&verdict::sentence(row, rope));
        let seconds = row.result.as_ref().map_or(0.0, |decision| decision.elapsed_s);
        let case = xml(&format!("{} against {}", row.names[1], row.names[0]));
        writeln!(out, r#"  <testcase classname="{}" name="{case}" time="{seconds:.3}">"#, xml(&row.case))?;
        match grade(row) {
            Grade::Good => writeln!(out, "    <system-out>{line}</system-out>")?,
            Grade::Slower => writeln!(out, r#"    <failure message="{line}"/>"#)?,
            Grade::Open => writeln!(out, r#"    <skipped message="{line}"/>"#)?,
            Grade::Broken => writeln!(out, r#"    <error message="{line}"/>"#)?,
        }
        writeln!(out, "  </testcase>")?;
    }
    writeln!(out, "</testsuite>")
}

/// `::error::` where the candidate is slower or an arm broke, `::warning::` where nothing is shown, `::notice::` otherwise.
pub(super) fn write_github(rows: &[Row], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    for row in rows {
        let level = match grade(row) {
            Grade::Good => "notice",
            Grade::Open => "warning",
            Grade::Slower | Grade::Broken => "error",
        };
        // Commands end at the end of a line; titles also at commas and colons.
        let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let title = escape(&row.case).replace(':', "%3A").replace(',', "%2C");
        writeln!(out, "::{level} title={title}::{}", escape(&verdict::sentence(row, rope)))?;
    }
    Ok(())
}

/// Text as an XML attribute or element; what XML 1.0 cannot hold is left out.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().filter(|c| *c >= ' ' || ['\t', '\n', '\r'].contains(c)) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_core::record::Outcome;

    fn broken(error: &str) -> Row {
        let fate = Outcome::Failed { error: error.into() };
        let names = ["a".to_string(), "b".to_string()];
        Row { case: "w/n=1,m=2".into(), names, result: Err(("the candidate", fate)), said: Said::Nothing }
    }

    fn written(write: fn(&[Row], f64, &mut dyn Write) -> io::Result<()>, row: Row) -> String {
        let mut out = Vec::new();
        write(&[row], 0.01, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hostile_text_stays_inside_its_place() {
        let text = written(write_junit, broken("<b> & \"q\"\nnext\u{1b}[0m"));
        assert!(text.contains("&lt;b&gt; &amp; &quot;q&quot;&#10;next[0m"), "{text}");
        assert!(text.contains(r#"tests="1" failures="0" errors="1" skipped="0""#), "{text}");
        let text = written(write_github, broken("50 %\n::warning::fake"));
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("::error title=w/n=1%2Cm=2::") && text.contains("50 %25%0A::warning"), "{text}");
    }
}
