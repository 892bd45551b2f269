//! Draws README's picture of a terminal: what `run` printed, from a committed record, as SVG with the terminal's colours.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};

use xtask::{build, root};

const RECORD: &str = "results/cpu/records/zen4-2026-11-24/lattice.jsonl.gz";
const PICTURE: &str = "docs/images/run.svg";
/// The command of the record, without the options that wrote it to a directory.
const PROMPT: [&str; 2] = [
    "$ ellwand run lattice-encode lattice-decode -i scalar,simd,parallel \\",
    "    --lattice D4,E8 --batch 1000000 --overload flag --beta 1",
];
/// The picture omits everything from this line on: diagnosis and targets.
const END: &str = "time: of one iteration";

/// Size of a character cell and of the margin, in pixels, and font size.
const CELL: [f64; 2] = [7.83, 18.0];
const MARGIN: f64 = 18.0;
const FONT: u32 = 13;

/// Prints the table of the record to a pseudo-terminal (`script` of util-linux) and draws it.
pub(crate) fn picture() -> Result<()> {
    let root = root()?;
    let program = build(&["build", "--release", "-p", "ellwand-cli"], "ellwand")?;
    let file = root.join("target").join("picture.jsonl");
    let unpack = format!("gunzip -c '{RECORD}' > '{}'", file.display());
    let unpacked = Command::new("bash").args(["-ec", &unpack]).current_dir(&root).status().context("bash")?;
    if !unpacked.success() {
        bail!("{RECORD} cannot be unpacked: {unpacked}");
    }
    let report = format!("stty cols 120; '{}' report '{}'", program.display(), file.display());
    let printed = Command::new("script").args(["-qec", &report, "/dev/null"]).output().context("script")?;
    if !printed.status.success() {
        bail!("`report` ended with {}", printed.status);
    }
    let text = String::from_utf8(printed.stdout)?.replace('\r', "");
    let mut style = Piece::default();
    let printed = text.lines().take_while(|line| !line.contains(END));
    let lines: Vec<Vec<Piece>> = PROMPT.into_iter().chain(printed).map(|line| pieces(line, &mut style)).collect();
    std::fs::write(root.join(PICTURE), svg(&lines)).context(PICTURE)?;
    println!("{PICTURE}: {} lines", lines.len());
    Ok(())
}

/// Text in one style.
#[derive(Debug, Default, Clone, PartialEq)]
struct Piece {
    text: String,
    bold: bool,
    faint: bool,
    /// The foreground colour of SGR, from 30; 0 for the default colour.
    color: u8,
}

/// The pieces of a line with SGR codes. Its last style continues in the next line.
fn pieces(line: &str, style: &mut Piece) -> Vec<Piece> {
    let mut found = Vec::new();
    for (index, part) in line.split("\u{1b}[").enumerate() {
        let text = match part.split_once('m') {
            Some((codes, text)) if index > 0 => {
                for code in codes.split(';').map(|code| code.parse::<u8>().unwrap_or(0)) {
                    match code {
                        1 => style.bold = true,
                        2 => style.faint = true,
                        30..=37 => style.color = code,
                        _ => *style = Piece::default(),
                    }
                }
                text
            }
            _ => part,
        };
        if !text.is_empty() {
            found.push(Piece { text: text.into(), ..style.clone() });
        }
    }
    found
}

fn svg(lines: &[Vec<Piece>]) -> String {
    let columns = |line: &Vec<Piece>| line.iter().map(|piece| piece.text.chars().count()).sum::<usize>();
    let widest = lines.iter().map(columns).max().unwrap_or(0);
    let [width, height] = [widest as f64 * CELL[0], lines.len() as f64 * CELL[1]].map(|size| size + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"{FONT}\">\n<title>Terminal: {}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n",
        escaped(PROMPT[0].trim_end_matches([' ', '\\']))
    );
    for (row, line) in lines.iter().enumerate() {
        let y = MARGIN + (row as f64 + 0.75) * CELL[1];
        let mut column = 0;
        for piece in line {
            let length = piece.text.chars().count();
            let fill = match piece {
                Piece { color: 32, .. } => "#7ec699",
                Piece { color: 33, .. } => "#e5c07b",
                Piece { color: 31, .. } => "#e06c75",
                Piece { faint: true, .. } => "#8b919c",
                Piece { bold: true, .. } => "#ffffff",
                _ => "#d7dae0",
            };
            let weight = if piece.bold { " font-weight=\"bold\"" } else { "" };
            let x = MARGIN + column as f64 * CELL[0];
            // The length keeps columns aligned whatever the font.
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\" fill=\"{fill}\"{weight}>{}</text>",
                length as f64 * CELL[0],
                escaped(&piece.text)
            );
            column += length;
        }
    }
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_styles_and_text_stays_text() {
        let mut style = Piece::default();
        let line = pieces("a\u{1b}[1;32mb <\u{1b}[0m\u{1b}[2mc", &mut style);
        assert_eq!(line.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>(), ["a", "b <", "c"]);
        assert_eq!(
            (line[0].bold, line[1].bold, line[1].color, line[2].bold, line[2].faint),
            (false, true, 32, false, true)
        );
        assert!(pieces("wrapped\u{1b}[0m", &mut style)[0].faint && !style.faint);
        let drawn = svg(&[line]);
        assert!(drawn.contains("fill=\"#7ec699\" font-weight=\"bold\">b &lt;</text>"), "{drawn}");
    }
}
