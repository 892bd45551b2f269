//! The GPU goals, evaluated on the results of `run.sh`: each goal with the measured figure, or why it is missing. Every
//! number comes from a record; medians have a 99 % confidence interval.

mod goals;
mod interval;
mod results;

use std::path::Path;

use anyhow::Result;

use interval::{Goal, Median};
use results::Results;

/// A line of the table.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    figure: String,
    goal: String,
    measured: String,
    verdict: &'static str,
}

/// Prints the table for the results in `folder`.
pub(crate) fn figures(folder: &str) -> Result<()> {
    let results = Results::read(Path::new(folder))?;
    print!("{}", table(&results));
    Ok(())
}

fn table(results: &Results) -> String {
    let device = results.device.as_deref().unwrap_or("no CUDA device responded");
    let mut text = format!(
        "{device}\n\nMedians with their 99 % confidence interval; a goal is *reached* if the whole interval meets it. Times are device time if the device has a clock.\n\n\
         | figure | goal | measured | |\n|---|---|---|---|\n"
    );
    let parts: [fn(&Results) -> Vec<Line>; 8] = [
        goals::copies,
        goals::streaming,
        goals::lattice,
        goals::attention,
        goals::decoder,
        goals::launches,
        goals::transfers,
        goals::itself,
    ];
    for line in parts.iter().flat_map(|part| part(results)) {
        text += &format!("| {} | {} | {} | {} |\n", line.figure, line.goal, line.measured, line.verdict);
    }
    text
}

/// Creates a line.
fn line(figure: impl Into<String>, goal: Goal, is: Result<Median, String>) -> Line {
    let (measured, verdict) = match is {
        Ok(is) => {
            let [value, low, high] = [is.value, is.low, is.high].map(goal.show);
            (format!("{value} ({low} to {high})"), goal.judged(is))
        }
        Err(why) => (why.replace('|', "/"), "open"),
    };
    Line { figure: figure.into(), goal: goal.text(), measured, verdict }
}

#[cfg(test)]
mod tests;
