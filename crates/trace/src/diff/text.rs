//! Differences as a table for a terminal; the width of a format is the width of the terminal.

use std::fmt;

use ellwand_profile::table::{fitted, named, time};
use ellwand_stats::Difference;

use super::{Diff, Node, Ratio};

/// Nodes that `{}` prints; `{:#}` prints all.
const FIRST: usize = 30;
/// Width of the path column.
const WIDTH: usize = 44;
/// Columns that a narrow terminal hides, in this order.
const LEAST: [&str; 4] = ["interval", "candidate", "baseline", "ratio"];

fn signed(ns: f64) -> String {
    let text = time(ns.abs());
    if ns < 0.0 { format!("-{text}") } else { format!("+{text}") }
}

/// The ratio and its interval; without repetitions, only the ratio of the two means.
fn ratio(ratio: Option<&Ratio>, baseline_ns: Option<f64>, candidate_ns: Option<f64>) -> (String, String) {
    let of_means = baseline_ns.zip(candidate_ns).map(|(a, b)| b / a).filter(|ratio| ratio.is_finite());
    match (ratio, of_means) {
        (Some(ratio), _) => (format!("{:.3}x", ratio.ratio), format!("{:.3} to {:.3}", ratio.low, ratio.high)),
        (None, Some(of_means)) => (format!("{of_means:.3}x"), "-".to_string()),
        (None, None) => ("-".to_string(), "-".to_string()),
    }
}

impl Node {
    /// The last names of the path, as many as fit.
    fn label(&self) -> String {
        let mut label = String::new();
        for name in self.path.iter().rev() {
            let name = named(name, WIDTH);
            if !label.is_empty() && label.chars().count() + name.chars().count() + 1 > WIDTH - 2 {
                return format!("…/{label}");
            }
            label = if label.is_empty() { name } else { format!("{name}/{label}") };
        }
        label
    }

    /// Calls and mean time per call on both sides, if the numbers of calls differ by a thousandth or more: more time
    /// may then be more work.
    fn calls(&self) -> Option<[String; 2]> {
        let (a, b) = (self.baseline_calls?, self.candidate_calls?);
        if !(a > 0.0 && b > 0.0) || (b / a - 1.0).abs() < 1e-3 {
            return None;
        }
        let count = |calls: f64| if calls.fract() == 0.0 { format!("{calls}") } else { format!("{calls:.2}") };
        let each = format!("{} -> {}", time(self.baseline_ns? / a), time(self.candidate_ns? / b));
        Some([format!("{} -> {}", count(a), count(b)), each])
    }

    fn status(&self) -> &'static str {
        match (self.baseline_ns, self.candidate_ns) {
            (None, _) => "new",
            (_, None) => "gone",
            _ => self.verdict.word(),
        }
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (&self.baseline, &self.candidate);
        let what = self.root.as_ref().map_or_else(|| "time in spans".to_string(), |root| named(root, WIDTH));
        let (value, interval) = ratio(self.ratio.as_ref(), Some(a.mean_ns), Some(b.mean_ns));
        // Digits beyond the sixth are of the subtraction from 1.
        let percent = (self.confidence * 1e6).round() / 1e4;
        let interval = if interval == "-" {
            "no interval".to_string()
        } else {
            format!("{percent} % interval within the two recordings {interval}")
        };
        writeln!(
            f,
            "{what}: {} -> {} ({}), {value} ({interval}), {} and {} repetitions",
            time(a.mean_ns),
            time(b.mean_ns),
            signed(self.change_ns),
            a.repetitions,
            b.repetitions
        )?;
        let verdict = match self.verdict {
            Difference::Undecided { .. } => "undecided".to_string(),
            decided => format!(
                "suggests {}; one recording each cannot exclude that their processes differ, `ellwand compare` can",
                decided.word()
            ),
        };
        writeln!(f, "verdict: {verdict}")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let shown = if f.alternate() { self.nodes.len() } else { self.nodes.len().min(FIRST) };
        let paths: Vec<String> = self.nodes.iter().take(shown).map(Node::label).collect();
        let heading = [
            "path".to_string(),
            format!("{:>9}", "baseline"),
            format!("{:>9}", "candidate"),
            "contribution".to_string(),
            format!("{:>8}", "ratio"),
            format!("{:>16}", "interval"),
            format!("{:<9}", "verdict"),
        ];
        let row = |(node, path): (&Node, &String)| {
            let ns = |ns: Option<f64>| ns.map_or_else(|| "-".to_string(), time);
            let (value, interval) = ratio(node.ratio.as_ref(), node.baseline_ns, node.candidate_ns);
            let change = signed(node.contribution_ns);
            let verdict = format!("{:<9}", node.status());
            vec![path.clone(), ns(node.baseline_ns), ns(node.candidate_ns), change, value, interval, verdict]
        };
        let rows = self.nodes.iter().zip(&paths).map(row);
        f.write_str("\n")?;
        fitted(f, std::iter::once(heading.to_vec()).chain(rows).collect(), &LEAST)?;
        if shown < self.nodes.len() {
            write!(f, "\n… and {} more", self.nodes.len() - shown)?;
        }
        let differing = self.nodes.iter().zip(&paths).filter_map(|(node, path)| Some((path, node.calls()?)));
        let lines: Vec<_> = differing.collect();
        if !lines.is_empty() {
            let wide = lines.iter().map(|(_, [_, each])| each.chars().count()).max().unwrap_or(0);
            let row = |path: &str, calls: &str, each: &str| vec![path.into(), calls.into(), format!("{each:<wide$}")];
            writeln!(f, "\n\ndifferent numbers of calls{}", if self.root.is_some() { " per repetition" } else { "" })?;
            let rows = lines.iter().map(|(path, [calls, each])| row(path, calls, each));
            fitted(f, std::iter::once(row("path", "calls", "time per call")).chain(rows).collect(), &[])?;
        }
        Ok(())
    }
}
