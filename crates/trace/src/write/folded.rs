//! Folded stacks: one line per path with its self time in nanoseconds.

use std::io::{self, Write};

use ellwand_profile::{Row, Trace};

pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    for row in trace.summary().rows {
        let self_ns = row.self_ns.round() as u64;
        if self_ns == 0 {
            continue;
        }
        writeln!(out, "{} {self_ns}", path(&row))?;
    }
    Ok(())
}

/// The names of a path, separated by semicolons.
pub(super) fn path(row: &Row) -> String {
    row.path.iter().map(|name| frame(name)).collect::<Vec<_>>().join(";")
}

/// A name as a frame: the format separates frames with semicolons and stacks with line breaks.
fn frame(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_control() {
                ' '
            } else if c == ';' {
                ','
            } else {
                c
            }
        })
        .collect();
    if plain.trim().is_empty() { "(no name)".to_string() } else { plain }
}
