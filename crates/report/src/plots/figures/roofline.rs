//! The roofline (Williams, Waterman, Patterson 2009): measurements below the measured roofs of their own machine.

use ellwand_core::ceiling::operations;
use ellwand_core::{Ceiling, CeilingKind, Parallelism, Work};

use super::super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::super::style::{LIMIT, Style};
use super::{footer, style};
use crate::model::{Report, Row, Section};
use crate::units::human;

/// One figure a run and number of threads: rows whose required operations and bytes are both known.
pub(super) fn figures(report: &Report, names: &[(String, usize)]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for index in 0..report.runs.len() {
        for (threads, word) in [(Parallelism::Single, "one thread"), (Parallelism::Many, "all threads")] {
            let number = if report.runs.len() > 1 { format!("-{}", index + 1) } else { String::new() };
            let Some(panel) = panel(report, index, threads, names) else { continue };
            figures.push(Figure {
                name: format!("roofline-{}{number}", word.replace(' ', "-")),
                title: format!("roofline, {word}: speed against operations a byte"),
                subtitle: "roofs: multiply-add peak, and the best measured stream at each cache level · required bytes and operations".into(),
                footer: footer(report, "medians, whiskers p10–p90, names at the fastest of each"),
                workload: None,
                body: Body::Lines(vec![panel]),
            });
        }
    }
    figures
}

/// Up to so many points each case is named.
const FEW: usize = 24;

/// Operations a byte.
fn intensity(row: &Row) -> Option<f64> {
    let bytes = row.work.bytes_total() as f64;
    (row.work.flops > 0.0 && bytes > 0.0).then(|| row.work.flops / bytes)
}

fn panel(report: &Report, run: usize, threads: Parallelism, names: &[(String, usize)]) -> Option<Lines> {
    let mut points: Vec<Series> = Vec::new();
    let named = named(report, run, threads);
    let mut double = false;
    for section in &report.workloads {
        for row in rows(section, run, threads) {
            let Some((x, speed)) = intensity(row).zip(row.stats("compute")) else { continue };
            double |= row.work.double;
            let label = named.iter().find(|(known, _)| std::ptr::eq(*known, row)).map(|(_, label)| label.clone());
            let point = Point { x, y: speed.median, low: speed.p10, high: speed.p90, label };
            match points.iter_mut().find(|series| series.label == row.implementation) {
                Some(series) => series.points.push(point),
                None => points.push(Series {
                    label: row.implementation.clone(),
                    style: style(names, &row.implementation, run),
                    joined: false,
                    points: vec![point],
                }),
            }
        }
    }
    let all = || points.iter().flat_map(|series| &series.points).map(|point| point.x);
    let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let ceilings = &report.runs[run].environment.ceilings;
    let single = Work::items("", 0);
    let peak = operations(ceilings, &single, threads)?.value;
    let roofs = roofs(ceilings, threads);
    let slowest = roofs.iter().map(|(_, bandwidth)| *bandwidth).reduce(f64::min)?;
    let (left, right) = (low / 2.0, (high * 2.0).max(2.0 * peak / slowest));
    let roof = |number: usize, label: String, path: Vec<(f64, f64)>| Series {
        label,
        style: Style { number: LIMIT + number, run: 0 },
        joined: true,
        points: path.into_iter().map(|(x, y)| Point { x, y, low: y, high: y, label: None }).collect(),
    };
    let flat = |number: usize, ceiling: &str, peak: f64, fastest: f64| {
        let label = format!("{ceiling} peak, {}", human(peak, "FLOP/s"));
        roof(number, label, vec![(peak / fastest, peak), (right, peak)])
    };
    // A slope ends where it meets the peak.
    let fastest = roofs.iter().map(|(_, bandwidth)| *bandwidth).reduce(f64::max)?;
    let mut series = vec![flat(0, CeilingKind::Fma.title(), peak, fastest)];
    if let Some(ceiling) = operations(ceilings, &single.double(true), threads).filter(|_| double) {
        series.push(flat(5, CeilingKind::FmaF64.title(), ceiling.value, fastest));
    }
    for (index, (level, bandwidth)) in roofs.into_iter().enumerate() {
        let from = left.min(peak / bandwidth / 2.0);
        series.push(roof(
            index + 1,
            format!("{level}, {}", human(bandwidth, "B/s")),
            vec![(from, from * bandwidth), (peak / bandwidth, peak)],
        ));
    }
    series.extend(points);
    Some(Lines {
        title: String::new(),
        x: Scale {
            label: "required operations per required byte".into(),
            unit: String::new(),
            log: true,
            at: Vec::new(),
        },
        y: Scale { label: "operations per second".into(), unit: "FLOP/s".into(), log: true, at: Vec::new() },
        series,
        reference: None,
    })
}

fn rows(section: &Section, run: usize, threads: Parallelism) -> impl Iterator<Item = &Row> {
    section.rows.iter().filter(move |row| row.run == run && row.parallelism == threads && row.measured())
}

/// What has a name in the plot. Markers say which implementation a point is of, and cases of one workload lie close
/// together, so that a workload is named once, at its fastest point; where there are few points, at the fastest of every case.
fn named(report: &Report, run: usize, threads: Parallelism) -> Vec<(&Row, String)> {
    let points = report.workloads.iter().map(|section| rows(section, run, threads).count()).sum::<usize>();
    let several = report.workloads.len() > 1;
    let mut named: Vec<(&Row, String)> = Vec::new();
    for section in &report.workloads {
        let speed = |row: &Row| row.median("compute").unwrap_or(0.0);
        let mut best: Vec<&Row> = Vec::new();
        for row in rows(section, run, threads).filter(|row| intensity(row).is_some()) {
            match best.iter_mut().find(|known| points > FEW || known.case == row.case) {
                Some(known) if speed(row) > speed(known) => *known = row,
                Some(_) => {}
                None => best.push(row),
            }
        }
        for row in best {
            let mut parts = vec![row.implementation.clone()];
            if points <= FEW && !section.swept.is_empty() {
                parts.insert(0, section.place(row));
            }
            if several {
                parts.insert(0, section.workload.clone());
            }
            named.push((row, parts.join(", ")));
        }
    }
    named
}

/// The best stream of each cache level, fastest level first.
fn roofs(ceilings: &[Ceiling], threads: Parallelism) -> Vec<(String, f64)> {
    let mut roofs: Vec<(String, f64)> = Vec::new();
    let streams = ceilings.iter().filter(|c| {
        c.parallelism == threads
            && !c.level.is_empty()
            && matches!(c.kind, CeilingKind::Copy | CeilingKind::Triad | CeilingKind::Read)
    });
    for ceiling in streams {
        match roofs.iter_mut().find(|(level, _)| *level == ceiling.level) {
            Some((_, value)) => *value = value.max(ceiling.value),
            None => roofs.push((ceiling.level.clone(), ceiling.value)),
        }
    }
    roofs.sort_by(|a, b| b.1.total_cmp(&a.1));
    roofs
}
