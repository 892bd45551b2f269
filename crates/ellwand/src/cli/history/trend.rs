//! `history trend`: a time by commit, its ratio to a reference, and where that changed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ellwand_core::InputError;
use ellwand_core::stats::median_step;
use ellwand_history::{Line, Machine, Point, Query, Ratio, Reference, Store, Trend};
use ellwand_report::units::{clean, cores, human, range, ratio, share};
use serde_json::json;

use super::remarks::{logs, remarks};
use super::table::Table;
use super::{date, short};
use crate::cli::args::{Form, TrendArgs};
use crate::cli::exit::{Exit, Failure, Outcome};
use crate::cli::output;

/// Last points of a line that the table always shows.
const LAST: usize = 12;

/// Minimum number of ratios in which a change can be found: 4 after it and some 10 before.
const FEWEST: usize = 14;

pub(super) fn trend(store: &mut Store, args: &TrendArgs) -> Outcome {
    let Reference { case, implementation } = &args.what;
    let (workload, is_case) = case.split_once('/').map_or((case.as_str(), false), |(workload, _)| (workload, true));
    let query = Query {
        workload: workload.to_string(),
        case: is_case.then(|| case.clone()),
        implementation: implementation.clone(),
        axes: args.axes.clone(),
        machine: args.machine.clone(),
        reference: args.reference.clone(),
        across_machines: args.across_machines,
        rope: args.rope,
    };
    let trend = ellwand_history::trend(store, &query)?;
    let machines = store.machines()?;
    let files = args.output.as_deref().map(|file| files(file, &trend, args.overwrite)).transpose()?;
    output::result(|out| match args.format {
        Form::Json => writeln!(out, "{:#}", json!(trend)),
        _ => write_text(&trend, &machines, args, out),
    })?;
    match files.as_deref() {
        Some([page]) if page.extension().is_some_and(|ending| ending == "html") => {
            write_page(page, &trend, &machines, &format!("{case}:{implementation}"), args.rope)?;
        }
        Some(files) => files.iter().zip(&trend.lines).try_for_each(|(path, line)| draw(path, line, &machines))?,
        None => {}
    }
    Ok(if trend.lines.is_empty() { Exit::Nothing } else { Exit::Ok })
}

/// Writes one plot per line, or a page of all lines.
fn files(file: &Path, trend: &Trend, overwrite: bool) -> Result<Vec<PathBuf>, Failure> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ends = |ending: &str| file.extension().is_some_and(|own| own == ending);
    if !ends("svg") && !ends("html") {
        let problem = format!("{} is not the name of a plot or page", file.display());
        return Err(InputError::new("-o", problem, "a name that ends in .svg or .html").into());
    }
    let named = |at: usize| file.with_file_name(format!("{stem}-{}.svg", at + 1));
    let files: Vec<PathBuf> = match trend.lines.len() {
        1 => vec![file.to_path_buf()],
        _ if ends("html") => vec![file.to_path_buf()],
        lines => (0..lines).map(named).collect(),
    };
    files.iter().try_for_each(|file| output::new_file(file, &[], overwrite))?;
    Ok(files)
}

/// The title of a line.
fn title(line: &Line) -> String {
    format!("{}:{}", clean(&line.series.case), clean(&line.series.implementation))
}

/// Device, caches and machines of a line.
fn place(line: &Line, machines: &[Machine]) -> String {
    let named = |id: &String| match machines.iter().find(|machine| machine.id == *id) {
        Some(machine) => format!("{}, {} ({})", clean(&machine.cpu), cores(machine.cores), &id[..id.len().min(8)]),
        None => id.clone(),
    };
    let machines: Vec<String> = line.machines.iter().map(named).collect();
    format!("{} · {} caches · {}", clean(&line.series.device), line.series.caches, machines.join("; "))
}

/// The commit of a point, or its date.
pub(super) fn label(point: &Point) -> String {
    point.commit.as_ref().map_or_else(|| date(point.started_ms), |commit| short(commit, point.changed))
}

fn write_text(trend: &Trend, machines: &[Machine], args: &TrendArgs, out: &mut dyn Write) -> io::Result<()> {
    for (index, line) in trend.lines.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", title(line))?;
        writeln!(out, "{}", place(line, machines))?;
        write_line(line, args, out)?;
    }
    output::prose(out, |out| {
        if trend.lines.iter().any(|line| line.points.iter().any(|point| point.low.is_some())) {
            writeln!(out, "\nintervals are between the processes of a run, or over the slots of a run of one process")?;
        }
        if trend.machines > 1 && !args.across_machines {
            writeln!(
                out,
                "\n{} machines, each a separate series: their times are never joined, because a slower machine would \
                 look like slower code. --across-machines joins their ratios to the reference.",
                trend.machines
            )?;
        } else if trend.machines > 1 {
            writeln!(
                out,
                "\n{} machines: only their ratios make one series. Times of different machines are never joined, \
                 because a slower machine would look like slower code.",
                trend.machines
            )?;
        }
        Ok(())
    })
}

fn write_line(line: &Line, args: &TrendArgs, out: &mut dyn Write) -> io::Result<()> {
    // The reference as the user named it: an id with every axis would widen the table.
    let against = line.reference.as_ref().map(|name| match &args.reference {
        Some(Reference { case, implementation }) => format!("ratio to {case}:{implementation}"),
        _ => format!("ratio to {}", clean(name)),
    });
    let several = line.machines.len() > 1;
    let head = ["commit", "date"].into_iter().chain(several.then_some("machine")).chain(["time", "95 % interval"]);
    let head = head.map(str::to_string);
    let head: Vec<String> = head.chain(against.clone()).chain(against.map(|_| "95 % interval".into())).collect();
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    let mut hidden = 0;
    for (at, point) in line.points.iter().enumerate() {
        let change = line.changes.iter().find(|change| change.point == at);
        let near = line.changes.iter().any(|change| change.point == at + 1);
        if !args.full && at + LAST < line.points.len() && change.is_none() && !near {
            hidden += 1;
            continue;
        }
        let interval = point.low.zip(point.high).map(|(low, high)| range(low, high, "s"));
        let when = date(point.committed_ms.unwrap_or(point.started_ms));
        let commit = point.commit.as_ref().map_or_else(|| "-".into(), |commit| short(commit, point.changed));
        let mut cells = vec![commit, when];
        cells.extend(several.then(|| point.machine.chars().take(8).collect()));
        cells.extend([human(point.seconds, "s"), interval.unwrap_or_default()]);
        if line.reference.is_some() {
            let ends = point.ratio.and_then(|ratio| ratio.low.zip(ratio.high));
            cells.push(point.ratio.map_or_else(|| "-".into(), |Ratio { value, .. }| ratio(value)));
            cells.push(ends.map_or_else(String::new, |(low, high)| range(low, high, "x")));
        }
        cells.extend(change.map(|change| format!("<- {}", percent(change.before, change.after))));
        table.row(cells);
    }
    table.write(out)?;
    output::prose(out, |out| {
        if hidden > 0 {
            writeln!(out, "{hidden} earlier runs are not shown; --full shows them")?;
        }
        for change in &line.changes {
            let (before, after) = (ratio(change.before), ratio(change.after));
            let point = &line.points[change.point];
            let runs = line.points.len() - change.point;
            writeln!(
                out,
                "changed by {} at {}: {before} to {after}, {runs} runs since",
                percent(change.before, change.after),
                label(point)
            )?;
        }
        let texts = unchanged(line, args.rope).into_iter().chain(remarks(line, args.rope));
        texts.into_iter().try_for_each(|text| writeln!(out, "{text}"))
    })
}

/// Why a line has no change points.
fn unchanged(line: &Line, rope: f64) -> Option<String> {
    let ratios = line.points.iter().filter(|point| point.ratio.is_some()).count();
    match &line.unreferenced {
        Some(why) => Some(format!(
            "no change points: {}. They need the ratio to a reference of the same run, because a slower host slows \
             down both.",
            clean(why)
        )),
        None if !line.changes.is_empty() || line.recent.is_some() => None,
        None if ratios < FEWEST => {
            Some(format!("no change points: they need some {FEWEST} runs, but this series has {ratios}"))
        }
        None => {
            let scatter = scatter(&line.points).map_or_else(String::new, |scatter| {
                format!("; the ratios of two consecutive runs differ by {} (median)", human(scatter, "1"))
            });
            let rest = line.without_ratio.as_ref().map_or_else(String::new, |_| format!(" in the other {ratios} runs"));
            Some(format!("no change of more than {} was found{rest}{scatter}", share(rope)))
        }
    }
}

/// Median difference of the ratios of consecutive runs, as a share: a change must exceed it.
fn scatter(points: &[Point]) -> Option<f64> {
    median_step(&logs(points)).map(f64::exp_m1)
}

pub(super) fn percent(before: f64, after: f64) -> String {
    format!("{:+.1} %", 100.0 * (after / before - 1.0))
}

#[cfg(feature = "plots")]
fn draw(path: &Path, line: &Line, machines: &[Machine]) -> Result<(), Failure> {
    use ellwand_report::TrendPoint;
    let against = line.reference.as_ref().map(|name| clean(name));
    let value = |point: &Point| match point.ratio.filter(|_| against.is_some()) {
        Some(Ratio { value, low, high }) => Some((value, low, high)),
        None if against.is_none() => Some((point.seconds, point.low, point.high)),
        None => None,
    };
    // Points without a ratio are omitted among ratios.
    let shown: Vec<(usize, TrendPoint)> = line
        .points
        .iter()
        .enumerate()
        .filter_map(|(at, point)| {
            let (value, low, high) = value(point)?;
            Some((at, TrendPoint { label: label(point), value, low, high }))
        })
        .collect();
    let place_of = |at: usize| shown.iter().position(|(point, _)| *point == at);
    let changes = line.changes.iter().filter_map(|change| Some((place_of(change.point)?, change.after))).collect();
    let plot = ellwand_report::draw_trend(&ellwand_report::Trend {
        name: "trend".into(),
        title: format!("{}:{}", clean(&line.series.workload), clean(&line.series.implementation)),
        subtitle: format!("{} · {}", clean(&line.series.case), place(line, machines)),
        unit: if against.is_some() { "x".into() } else { "s".into() },
        label: against.map_or_else(|| "time of an iteration".into(), |name| format!("ratio to {name}")),
        mean: line.changes.first().map(|change| change.before),
        changes,
        points: shown.into_iter().map(|(_, point)| point).collect(),
    })?;
    output::text_file(path, &plot.svg)?;
    output::note(&format!("written to {}", path.display()));
    Ok(())
}

#[cfg(not(feature = "plots"))]
fn draw(path: &Path, _: &Line, _: &[Machine]) -> Result<(), Failure> {
    let problem = format!("{} cannot be drawn: this program was built without the feature `plots`", path.display());
    Err(InputError::new("-o", problem, "no -o, or a program with plots").into())
}

#[cfg(feature = "page")]
fn write_page(path: &Path, trend: &Trend, machines: &[Machine], title: &str, rope: f64) -> Result<(), Failure> {
    let mut model = json!(trend);
    model["title"] = clean(title).into();
    for (at, line) in trend.lines.iter().enumerate() {
        let shown = &mut model["lines"][at];
        shown["name"] = self::title(line).into();
        shown["place"] = place(line, machines).into();
        shown["remarks"] = remarks(line, rope).into();
        shown["unchanged"] = unchanged(line, rope).into();
        for (at, point) in line.points.iter().enumerate() {
            shown["points"][at]["label"] = label(point).into();
            shown["points"][at]["date"] = date(point.committed_ms.unwrap_or(point.started_ms)).into();
        }
    }
    ellwand_profile::write_file(path, |out| ellwand_page::history_page(&model, out).map_err(std::io::Error::other))?;
    output::note(&format!("written to {}", path.display()));
    Ok(())
}

#[cfg(not(feature = "page"))]
fn write_page(path: &Path, _: &Trend, _: &[Machine], _: &str, _: f64) -> Result<(), Failure> {
    let problem = format!("{} cannot be written: this program was built without the feature `page`", path.display());
    Err(InputError::new("-o", problem, "a name that ends in .svg").into())
}
