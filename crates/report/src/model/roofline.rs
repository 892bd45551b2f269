//! The roofline (Williams, Waterman, Patterson 2009): measurements below the measured roofs of their machine.

use ellwand_core::ceiling::{of_device, operations};
use ellwand_core::{Ceiling, CeilingKind, Parallelism, Work};

use super::curves::{Drawn, Point, Series};
use super::{Report, Row, Section, Stats};
use crate::units::human;

/// The device of a figure and, on the CPU, the number of threads.
struct Place<'a> {
    device: &'a str,
    threads: Parallelism,
    /// Words for the file name and for the title.
    words: [String; 2],
}

impl Place<'_> {
    fn holds(&self, device: &str, threads: Parallelism) -> bool {
        device == self.device && (device != CPU || threads == self.threads)
    }
}

const CPU: &str = "cpu";

/// The places of a run: one thread and all threads of the CPU, then every other device used.
fn places(report: &Report, run: usize) -> Vec<Place<'_>> {
    let place = |threads, word: &str| Place { device: CPU, threads, words: [word.replace(' ', "-"), word.to_string()] };
    let mut places = vec![place(Parallelism::Single, "one thread"), place(Parallelism::Many, "all threads")];
    for row in report.workloads.iter().flat_map(|section| &section.rows).filter(|row| row.run == run) {
        if places.iter().all(|place| place.device != row.device) {
            let words = [row.device.replace(':', "-"), row.device.clone()];
            places.push(Place { device: &row.device, threads: Parallelism::Many, words });
        }
    }
    places
}

/// One roofline per run and place: rows with known required operations and bytes, below the roofs of that place.
pub(crate) fn rooflines(report: &Report) -> Vec<Drawn> {
    let all = (0..report.runs.len()).flat_map(|run| places(report, run).into_iter().map(move |place| (run, place)));
    all.filter_map(|(run, place)| drawn(report, run, &place)).collect()
}

/// Up to this number of points, every case is labelled.
const FEW: usize = 24;

/// Operational intensity: operations per byte.
fn intensity(row: &Row) -> Option<f64> {
    let bytes = row.work.bytes_total() as f64;
    (row.work.flops > 0.0 && bytes > 0.0).then(|| row.work.flops / bytes)
}

/// Position of a row in the figure: operational intensity and rate.
fn position(row: &Row) -> Option<(f64, &Stats)> {
    intensity(row).zip(row.stats("compute"))
}

/// The rows of a run and place, below its roofs.
fn drawn(report: &Report, run: usize, place: &Place<'_>) -> Option<Drawn> {
    let mut points: Vec<Series> = Vec::new();
    let named = named(report, run, place);
    let (mut double, mut bf16) = (false, false);
    for section in &report.workloads {
        for row in rows(section, run, place) {
            let Some((x, speed)) = position(row) else { continue };
            double |= row.work.double;
            bf16 |= row.work.bf16;
            let share = row.median("roofline-fraction").map(|share| format!("{} of the ceiling", human(share, "1")));
            let label = [Some(format!("{}, {}", section.workload, section.place(row))), share];
            let point = Point {
                x,
                y: speed.median,
                label: Some(label.into_iter().flatten().collect::<Vec<_>>().join(", ")),
                sign: row.held_up.map(|_| "≥"),
                name: named.iter().find(|(known, _)| std::ptr::eq(*known, row)).map(|(_, name)| name.clone()),
                whisker: Some((speed.p10, speed.p90)),
            };
            match points.iter_mut().find(|series| series.name == row.implementation) {
                Some(series) => series.points.push(point),
                None => points.push(Series {
                    name: row.implementation.clone(),
                    joined: false,
                    roof: None,
                    points: vec![point],
                }),
            }
        }
    }
    let all = || points.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ends = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let ceilings = &*of_device(&report.runs[run].environment.ceilings, place.device);
    let mut series = limits(ceilings, place, ends, (double, bf16))?;
    series.extend(points);
    let (number, of_run) = match report.runs.len() {
        1 => (String::new(), String::new()),
        _ => (format!("-{}", run + 1), format!(" (run {})", run + 1)),
    };
    let [file, word] = &place.words;
    Some(Drawn {
        workload: None,
        id: format!("roofline-{file}{number}"),
        title: format!("roofline, {word}{of_run}"),
        x: "required operations per required byte".into(),
        y: "operations per second".into(),
        unit: "FLOP/s",
        series,
        run,
    })
}

/// The peaks of the kinds of work that occur (`double`, `bf16`), and the slopes of the memory levels, over the range of
/// the points.
fn limits(
    ceilings: &[Ceiling],
    place: &Place<'_>,
    (low, high): (f64, f64),
    (double, bf16): (bool, bool),
) -> Option<Vec<Series>> {
    let single = Work::items("", 0);
    let peak = operations(ceilings, &single, place.threads)?.value;
    let roofs = roofs(ceilings, place);
    let slowest = roofs.iter().map(|(_, bandwidth)| *bandwidth).reduce(f64::min)?;
    let others = [(double, 5, single.clone().double(true)), (bf16, 6, single.bf16(true))];
    let others = others.into_iter().filter(|(there, ..)| *there).filter_map(|(_, number, work)| {
        // Products that are computed after widening are compared with the first peak.
        let ceiling = operations(ceilings, &work, place.threads).filter(|ceiling| ceiling.kind != CeilingKind::Fma)?;
        Some((number, ceiling))
    });
    let others: Vec<(usize, Ceiling)> = others.collect();
    let highest = others.iter().fold(peak, |highest, (_, ceiling)| highest.max(ceiling.value));
    let (left, right) = (low / 2.0, (high * 2.0).max(2.0 * highest / slowest));
    let roof = |number: usize, name: String, path: [(f64, f64); 2]| Series {
        name,
        joined: true,
        roof: Some(number),
        points: path.map(|(x, y)| Point { x, y, ..Point::default() }).into(),
    };
    let flat = |number: usize, kind: CeilingKind, peak: f64, fastest: f64| {
        // The legend has no room for more words.
        let word = if kind == CeilingKind::ProductsBf16 { "" } else { " peak" };
        let label = format!("{}{word}, {}", kind.title(), human(peak, "FLOP/s"));
        roof(number, label, [(peak / fastest, peak), (right, peak)])
    };
    // A slope ends where it meets the highest peak.
    let fastest = roofs.iter().map(|(_, bandwidth)| *bandwidth).reduce(f64::max)?;
    let mut series = vec![flat(0, CeilingKind::Fma, peak, fastest)];
    series.extend(others.iter().map(|(number, other)| flat(*number, other.kind, other.value, fastest)));
    for (index, (level, bandwidth)) in roofs.into_iter().enumerate() {
        let from = left.min(peak / bandwidth / 2.0);
        let label = format!("{level}, {}", human(bandwidth, "B/s"));
        series.push(roof(index + 1, label, [(from, from * bandwidth), (highest / bandwidth, highest)]));
    }
    Some(series)
}

fn rows<'a>(section: &'a Section, run: usize, place: &'a Place<'_>) -> impl Iterator<Item = &'a Row> {
    let there = move |row: &&Row| row.run == run && place.holds(&row.device, row.parallelism) && row.measured();
    section.rows.iter().filter(there)
}

/// The labelled points. Markers identify implementations, and cases of one workload are close together, so each
/// workload is labelled once, at its fastest point; with few points, each case is labelled at its fastest point.
fn named<'a>(report: &'a Report, run: usize, place: &'a Place<'_>) -> Vec<(&'a Row, String)> {
    let points = report.workloads.iter().map(|section| rows(section, run, place).count()).sum::<usize>();
    let several = report.workloads.len() > 1;
    let mut named: Vec<(&'a Row, String)> = Vec::new();
    for section in &report.workloads {
        let speed = |row: &Row| row.median("compute").unwrap_or(0.0);
        let mut best: Vec<&'a Row> = Vec::new();
        for row in rows(section, run, place).filter(|row| intensity(row).is_some()) {
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

/// The best stream bandwidth of each cache level, fastest level first. On a device, cache sizes are unknown: memory is
/// the footprint with the most bytes, and anything faster is some cache.
fn roofs(ceilings: &[Ceiling], place: &Place<'_>) -> Vec<(String, f64)> {
    let mut roofs: Vec<(String, f64)> = Vec::new();
    let streams = ceilings.iter().filter(|c| {
        place.holds(&c.device, c.parallelism)
            && !c.level.is_empty()
            && matches!(c.kind, CeilingKind::Copy | CeilingKind::Triad | CeilingKind::Read)
    });
    let most = streams.clone().map(|ceiling| ceiling.footprint_bytes).max().unwrap_or(0);
    for ceiling in streams {
        let level = match ceiling.footprint_bytes {
            _ if place.device == CPU => ceiling.level.clone(),
            bytes if bytes == most => "memory".to_string(),
            _ => "cache".to_string(),
        };
        match roofs.iter_mut().find(|(known, _)| *known == level) {
            Some((_, value)) => *value = value.max(ceiling.value),
            None => roofs.push((level, ceiling.value)),
        }
    }
    roofs.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Small copies on a device are launch-bound: a cache no faster than memory is not a roof.
    let memory = roofs.iter().find(|(level, _)| level == "memory").map_or(0.0, |(_, value)| *value);
    roofs.retain(|(level, value)| level != "cache" || *value > memory);
    roofs
}
