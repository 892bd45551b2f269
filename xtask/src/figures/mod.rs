//! The GPU goals, evaluated on the results of `run.sh`: each goal with the measured figure, or why it is missing. Every
//! number comes from a record; medians have a 99 % confidence interval.

mod goals;
mod interval;
mod results;

use std::path::Path;

use anyhow::Result;

use interval::{Median, Wanted};
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
    let device = results.device.as_deref().unwrap_or("no CUDA device answered");
    let mut text = format!(
        "{device}\n\nMedians with the interval that holds them with 99 % confidence; a goal is *reached* where the whole interval says so. Times are the device's own where it has a clock.\n\n\
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

/// Creates a line, with or without a goal; `show` formats a value with its unit.
fn line(figure: String, wanted: Option<Wanted>, is: Result<Median, String>, show: impl Fn(f64) -> String) -> Line {
    let goal = match wanted {
        Some(Wanted::AtLeast(goal)) => format!("at least {}", show(goal)),
        Some(Wanted::AtMost(goal)) => format!("at most {}", show(goal)),
        None => String::new(),
    };
    match is {
        Ok(is) => {
            let measured = format!("{} ({} to {})", show(is.value), show(is.low), show(is.high));
            Line { figure, goal, measured, verdict: wanted.map_or("", |wanted| wanted.judged(is)) }
        }
        Err(why) => Line { figure, goal, measured: why.replace('|', "/"), verdict: "open" },
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}")
}

fn terabytes(rate: f64) -> String {
    format!("{:.3} TB/s", rate * 1e-12)
}

fn gigabytes(rate: f64) -> String {
    format!("{:.2} GB/s", rate * 1e-9)
}

fn teraflops(rate: f64) -> String {
    format!("{:.0} TFLOP/s", rate * 1e-12)
}

fn seconds(time: f64) -> String {
    match time {
        time if time < 1e-3 => format!("{:.2} us", time * 1e6),
        time => format!("{:.3} ms", time * 1e3),
    }
}

#[cfg(test)]
mod tests;
