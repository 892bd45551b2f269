//! The progress bar: on a terminal only, drawn between slots only, never while a clock runs.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ellwand_bench::Plan;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::eta::{Eta, Load};

/// Progress over a number of cells, in the time that they are expected to take.
pub(super) struct Progress {
    bar: ProgressBar,
    eta: Eta,
    begin: Instant,
    /// The cell that is being measured and since when.
    now: Option<(usize, Instant)>,
    /// Time between two drawings inside a cell: drawing disturbs the caches, so it is rare.
    last: Instant,
}

/// Parts of the whole that the bar can tell apart.
const PARTS: u64 = 1000;

impl Progress {
    /// A bar for `cells` cells that take about the same time; invisible when stderr is no terminal.
    pub(super) fn new(cells: usize) -> Self {
        Self::with(Eta::new(vec![Load::new(0, 1, 0, 0.0); cells], 1.0))
    }

    /// A bar for the cells of `plan`, of which an implementation takes about `each` beside its passes over the inputs.
    pub(super) fn of_plan(plan: &Plan, each: Duration) -> Self {
        Self::with(Eta::new(loads(plan), each.as_secs_f64()))
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
            ProgressStyle::with_template("{bar:28} {percent:>3}%  {elapsed} gone, {prefix} to go  {wide_msg}")
        {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self { bar, eta, begin: now, now: None, last: now }
    }

    /// Cell `index` needs nothing: it was measured before.
    pub(super) fn skip(&mut self, index: usize) {
        self.eta.skip(index);
    }

    /// Turns to cell `index`.
    pub(super) fn cell(&mut self, index: usize, name: &str) {
        if let Some((before, since)) = self.now.take() {
            self.eta.done(before, since.elapsed().as_secs_f64());
        }
        self.now = Some((index, Instant::now()));
        self.bar.set_message(name.to_string());
        self.show(self.eta.left(index));
    }

    /// `done` of `planned` rounds of cell `index`.
    pub(super) fn rounds(&mut self, index: usize, done: u32, planned: u32) {
        if self.last.elapsed() >= Duration::from_millis(500) {
            self.last = Instant::now();
            let open = 1.0 - f64::from(done) / f64::from(planned.max(1));
            self.show(self.eta.left(index + 1) + open.max(0.0) * self.eta.cell(index));
        }
    }

    fn show(&self, left: f64) {
        let gone = self.begin.elapsed().as_secs_f64();
        // A prediction may overflow a duration; a day is as good as for ever.
        let left = left.clamp(0.0, 86_400.0);
        self.bar.set_prefix(HumanDuration(Duration::from_secs_f64(left.ceil())).to_string());
        self.bar.set_position((PARTS as f64 * gone / (gone + left).max(1e-9)) as u64);
    }

    /// Tells how far something is whose rest is foretold by its caller, in seconds.
    pub(super) fn ahead(&mut self, message: &str, left: f64) {
        if self.last.elapsed() >= Duration::from_millis(500) {
            self.last = Instant::now();
            self.bar.set_message(message.to_string());
            self.show(left);
        }
    }

    /// A line above the bar.
    pub(super) fn note(&self, text: &str) {
        self.bar.suspend(|| super::output::note(text));
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn loads(plan: &Plan) -> Vec<Load> {
    let mut names: Vec<&str> = Vec::new();
    plan.cells
        .iter()
        .map(|cell| {
            let name = cell.workload.name();
            let workload = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            let flops = cell.workload.work(&cell.case).flops;
            Load::new(workload, cell.implementations.len(), cell.workload.footprint(&cell.case), flops)
        })
        .collect()
}
