//! The progress bar: drawn only on a terminal and only between slots, never while a clock runs.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ellwand_bench::Cell;
use ellwand_core::Registry;
use ellwand_core::record::{Basis, Measurement};
use ellwand_report::units;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::eta::{Eta, Load, Terms};

/// Progress over a number of cells, weighted by their expected times.
pub(super) struct Progress {
    bar: ProgressBar,
    eta: Eta,
    begin: Instant,
    /// The current cell, and when it began.
    now: Option<(usize, Instant)>,
    /// Labels of the cells; if empty, the name passed with each cell is shown.
    labels: Vec<String>,
    /// Time of the last drawing within a cell: drawing disturbs the caches, so it is rare.
    last: Instant,
    /// The implementation that is getting ready, its current step, and when that began.
    step: (String, &'static str, Instant),
    /// True if a line about a step of this cell was printed.
    named: bool,
}

/// A user who has waited this long wants to see what is there.
const WAITING: Duration = Duration::from_secs(5);
/// A step before the timing that takes longer than this is printed. The disturbance by a line is then negligible.
const NAMED: Duration = Duration::from_secs(2);
/// Longest time without a line if no bar is drawn.
const SILENCE: Duration = Duration::from_secs(10);
/// Least forecast that is printed before a run begins.
const LONG_S: f64 = 60.0;
const DAY_S: f64 = 86_400.0;
/// A prediction may overflow a `Duration`; a century is as good as for ever.
const CENTURY_S: f64 = 100.0 * 365.25 * DAY_S;
/// Steps of the bar.
const PARTS: u64 = 1000;

impl Progress {
    /// A bar for `cells` cells that take about the same time; invisible if stderr is not a terminal.
    pub(super) fn new(cells: usize) -> Self {
        Self::with(Eta::new(vec![Load::new(0, 1, 0, 0.0); cells], 1.0))
    }

    /// A bar for `cells` in which each implementation takes about `each` besides its passes over the inputs.
    pub(super) fn of_cells<'a>(
        registry: &Registry,
        cells: impl Iterator<Item = &'a Cell> + Clone,
        each: Duration,
        terms: Terms,
    ) -> Self {
        let names: Vec<String> = cells.clone().map(|cell| cell.case.id()).collect();
        Self { labels: labels(&names), ..Self::with(Eta::new(loads(registry, cells), each.as_secs_f64()).on(terms)) }
    }

    /// A bar for cells with these names.
    pub(super) fn named(names: &[String]) -> Self {
        Self { labels: labels(names), ..Self::new(names.len()) }
    }

    fn with(eta: Eta) -> Self {
        let bar = ProgressBar::new(PARTS);
        // No steady tick: a background thread would draw while a slot is being timed.
        bar.set_draw_target(if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        });
        if let Ok(style) =
            ProgressStyle::with_template("{bar:14} {percent:>3}%  {elapsed} elapsed, {prefix}  {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.set_prefix("remaining time unknown");
        let now = Instant::now();
        let step = (String::new(), "", now);
        Self { bar, eta, begin: now, now: None, labels: Vec::new(), last: now, step, named: false }
    }

    /// Prints before the first cell how long a long run takes.
    pub(super) fn announce(&self) {
        if let Some(text) = forecast(self.eta.cells(), self.eta.remaining(0)) {
            self.note(&text);
        }
    }

    /// Moves on to cell `index`.
    pub(super) fn cell(&mut self, index: usize, name: &str) {
        self.learn();
        (self.now, self.named) = (Some((index, Instant::now())), false);
        let left = self.eta.remaining(index);
        self.heartbeat(index, &format!("about {} to go", human(left)));
        self.show(left);
        self.bar.set_message(self.labels.get(index).map_or_else(|| name.to_string(), Clone::clone));
    }

    /// Ends the current cell: its time improves the forecast for the others.
    fn learn(&mut self) {
        if let Some((index, since)) = self.now.take() {
            self.eta.done(index, since.elapsed().as_secs_f64());
        }
    }

    /// The label of cell `index`.
    pub(super) fn label(&self, index: usize) -> String {
        self.labels.get(index).cloned().unwrap_or_default()
    }

    /// Prints a line about a finished cell if no bar is drawn and the whole takes long enough that a user waits for it.
    pub(super) fn finished(&mut self, index: usize, measurements: &[Measurement]) {
        self.learn();
        let gone = self.begin.elapsed();
        if self.bar.is_hidden() && gone > WAITING {
            self.last = Instant::now();
            let (label, left) = (self.label(index), self.eta.remaining(index + 1));
            let rest = if left > 0.0 { format!("; about {} to go", human(left)) } else { String::new() };
            super::output::note(&format!("{label}: {}{rest}", times(measurements)));
        }
    }

    /// Reports that an implementation of cell `index` is getting ready; `doing` is its current step, in words that
    /// follow "while".
    pub(super) fn preparing(&mut self, index: usize, implementation: &str, doing: &'static str) {
        if (self.step.0.as_str(), self.step.1) != (implementation, doing) {
            self.step = (implementation.to_string(), doing, Instant::now());
        }
        let took = self.step.2.elapsed();
        let long = took >= NAMED && (!self.named || !self.bar.is_hidden());
        if self.last.elapsed() < if long { NAMED } else { SILENCE } {
            return;
        }
        (self.named, self.last) = (true, Instant::now());
        let mut text = format!("{} {implementation}: {doing}", self.label(index));
        if took >= NAMED {
            text += &format!(" ({} so far)", HumanDuration(Duration::from_secs(took.as_secs())));
        }
        if self.bar.is_hidden() {
            super::output::note(&text);
        } else {
            self.bar.set_message(text);
        }
    }

    /// Reports `done` of `planned` rounds of cell `index`.
    pub(super) fn rounds(&mut self, index: usize, done: u32, planned: u32) {
        if self.bar.is_hidden() {
            self.heartbeat(index, &format!("{done} of {planned} rounds"));
        } else if self.last.elapsed() >= Duration::from_millis(500) {
            self.last = Instant::now();
            self.bar.set_message(self.label(index));
            let open = 1.0 - f64::from(done) / f64::from(planned.max(1));
            self.show(self.eta.remaining(index + 1) + open.max(0.0) * self.eta.cell(index));
        }
    }

    /// If no bar is drawn, an occasional line shows that a long cell is still running.
    fn heartbeat(&mut self, index: usize, what: &str) {
        if self.bar.is_hidden() {
            self.line(&self.label(index), what);
        }
    }

    fn line(&mut self, name: &str, what: &str) {
        if self.last.elapsed() >= SILENCE {
            self.last = Instant::now();
            let gone = HumanDuration(Duration::from_secs(self.begin.elapsed().as_secs()));
            super::output::note(&format!("{name}: {what}, {gone} elapsed"));
        }
    }

    /// Records that the user has just got a line, so the next one may wait.
    pub(super) fn line_printed(&mut self) {
        self.last = Instant::now();
    }

    fn show(&self, left: f64) {
        self.bar.set_prefix(format!("{} to go", human(left)));
        self.advance(left);
    }

    /// Moves the bar, with `left` seconds to go.
    fn advance(&self, left: f64) {
        let gone = self.begin.elapsed().as_secs_f64();
        let left = left.clamp(0.0, CENTURY_S);
        self.bar.set_position((PARTS as f64 * gone / (gone + left).max(1e-9)) as u64);
    }

    /// Shows progress for a caller that predicts the remaining time itself.
    pub(super) fn ahead(&mut self, message: &str, left: Left) {
        if self.bar.is_hidden() {
            self.line(message, &format!("{} to go", left.describe()));
        } else if self.last.elapsed() >= Duration::from_millis(500) {
            self.last = Instant::now();
            self.bar.set_message(message.to_string());
            match left {
                Left::About(seconds) => self.show(seconds),
                Left::AtMost(seconds) => {
                    self.bar.set_prefix(format!("{} to go", left.describe()));
                    self.advance(seconds);
                }
            }
        }
    }

    /// Prints a line above the bar.
    pub(super) fn note(&self, text: &str) {
        self.aside(|| super::output::note(text));
    }

    /// Writes while the bar is hidden.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Left {
    /// By a forecast of the rest.
    About(f64),
    /// The rest of a time limit, if a forecast is missing or beyond it.
    AtMost(f64),
}

impl Left {
    fn describe(self) -> String {
        match self {
            Left::About(seconds) => format!("about {}", human(seconds)),
            // Not in coarser units: a limit must not be rounded.
            Left::AtMost(seconds) => format!("at most {:.0} s", seconds.ceil()),
        }
    }
}

/// Seconds to go, in words.
fn human(left: f64) -> HumanDuration {
    HumanDuration(Duration::from_secs_f64(left.clamp(0.0, CENTURY_S).ceil()))
}

/// The line about a run of `cases` that takes `left` seconds; `None` if it is short.
fn forecast(cases: usize, left: f64) -> Option<String> {
    let plural = if cases == 1 { "" } else { "s" };
    let text = format!("{cases} case{plural}: about {}", human(left));
    match left {
        DAY_S.. => Some(format!("warning: {text}; choose fewer cases, fewer implementations or a shorter --effort")),
        LONG_S.. => Some(format!("note: {text}")),
        _ => None,
    }
}

/// Median times of the implementations of a cell.
fn times(measurements: &[Measurement]) -> String {
    let time = |one: &Measurement| {
        let seconds = one.basis.unwrap_or(Basis::Wall).of_slots().median(&one.samples);
        let below = one.below_resolution().then(|| one.resolution_ns.map(|ns| ns / 1e9));
        let shown = seconds.map_or_else(|| one.outcome.word().to_string(), |seconds| time(seconds, below));
        format!("{} {shown}", one.implementation)
    };
    measurements.iter().map(time).collect::<Vec<String>>().join(", ")
}

/// A time as the tables print it: no time if it is below the resolution.
fn time(seconds: f64, below: Option<Option<f64>>) -> String {
    below.map_or_else(|| units::human(seconds, "s"), units::below_resolution)
}

/// Rows without their device take no time.
fn loads<'a>(registry: &Registry, cells: impl Iterator<Item = &'a Cell>) -> Vec<Load> {
    let mut names: Vec<&str> = Vec::new();
    cells
        .map(|cell| {
            let name = cell.workload.name();
            let workload = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            let flops = cell.workload.work(&cell.case).flops;
            let measured = cell.implementations.iter().filter(|row| registry.device_for(row).is_ok()).count();
            Load::new(workload, measured, cell.workload.footprint(&cell.case), flops)
        })
        .collect()
}

/// Short labels of cases (`workload/axis=value,..`), most distinguishing part first, for narrow terminals: the axes
/// that differ among the cases of a workload, then the workload.
fn labels(names: &[String]) -> Vec<String> {
    let split = |name: &String| -> (String, Vec<String>) {
        let (workload, params) = name.split_once('/').unwrap_or((name, ""));
        (workload.to_string(), params.split([',', ' ']).filter(|p| !p.is_empty()).map(str::to_string).collect())
    };
    let cases: Vec<(String, Vec<String>)> = names.iter().map(split).collect();
    // Cases of each workload, and of each workload with each parameter.
    let mut count = HashMap::<(&str, Option<&str>), usize>::new();
    for (workload, params) in &cases {
        for part in params.iter().map(|param| Some(param.as_str())).chain([None]) {
            *count.entry((workload, part)).or_default() += 1;
        }
    }
    let label = |(workload, params): &(String, Vec<String>)| {
        let of = |part| count.get(&(workload.as_str(), part)).copied().unwrap_or(0);
        let all = of(None);
        let differ: Vec<&str> = params.iter().map(String::as_str).filter(|param| of(Some(*param)) < all).collect();
        match (differ.is_empty(), all < cases.len()) {
            (true, _) => workload.clone(),
            (false, true) => format!("{workload} {}", differ.join(" ")),
            (false, false) => format!("{} {workload}", differ.join(" ")),
        }
    };
    cases.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Left, Progress, forecast, labels, time};

    #[test]
    fn a_limit_is_no_forecast() {
        assert_eq!(Left::About(149.2).describe(), "about 3 minutes");
        assert_eq!(Left::AtMost(149.2).describe(), "at most 150 s");
    }

    #[test]
    fn the_forecast_after_a_case_knows_what_the_case_took() {
        let mut progress = Progress::new(2);
        progress.cell(0, "a");
        progress.now = Instant::now().checked_sub(Duration::from_secs(16)).map(|since| (0, since));
        progress.finished(0, &[]);
        assert!(progress.eta.remaining(1) >= 16.0, "{} s", progress.eta.remaining(1));
    }

    #[test]
    fn the_time_of_a_long_run_is_printed_before_it() {
        assert_eq!(forecast(3, 59.0), None);
        assert_eq!(forecast(1, 59.0 * 60.0).unwrap(), "note: 1 case: about 59 minutes");
        let long =
            "warning: 900000 cases: about 3 weeks; choose fewer cases, fewer implementations or a shorter --effort";
        assert_eq!(forecast(900_000, 1.9e6).unwrap(), long);
        assert!(forecast(usize::MAX, f64::INFINITY).unwrap().contains("about 100 years;"));
    }

    #[test]
    fn a_time_below_the_resolution_is_not_printed() {
        assert_eq!(time(1e-9, None), "1.00 ns");
        assert_eq!(time(1e-9, Some(Some(1.5e-9))), "below resolution (1.50 ns)");
    }

    #[test]
    fn cases_are_labelled_by_what_distinguishes_them() {
        let names = |names: &[&str]| labels(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let sweep = names(&["norm/allocation=reused,batch=1,width=8", "norm/allocation=reused,batch=16,width=8"]);
        assert_eq!(sweep, ["batch=1 norm", "batch=16 norm"]);
        let both = names(&["norm/n=1,m=2", "norm/n=2,m=2", "gelu/n=1"]);
        assert_eq!(both, ["norm n=1", "norm n=2", "gelu"]);
        assert_eq!(names(&["norm/n=1 simd", "norm/n=1 scalar"]), ["simd norm", "scalar norm"]);
        assert_eq!(names(&["command"]), ["command"]);
    }
}
