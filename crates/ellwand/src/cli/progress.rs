//! The progress bar: on a terminal only, drawn between slots only, never while a clock runs.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress over a number of cells.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Time between two drawings inside a cell: drawing disturbs the caches, so it is rare.
    last: Instant,
}

/// Parts of a cell that the bar can tell apart.
const PARTS: u64 = 1000;

impl Progress {
    /// A bar for `cells` cells; invisible when stderr is no terminal.
    pub(super) fn new(cells: usize) -> Self {
        let bar = ProgressBar::new(cells as u64 * PARTS);
        // No steady tick: a background thread would draw while a slot is being timed.
        bar.set_draw_target(if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        });
        if let Ok(style) =
            ProgressStyle::with_template("{bar:28} {percent:>3}%  {elapsed} gone, {eta} to go  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self { bar, last: Instant::now() }
    }

    /// Turns to cell `index`.
    pub(super) fn cell(&mut self, index: usize, name: &str) {
        self.bar.set_position(index as u64 * PARTS);
        self.bar.set_message(name.to_string());
    }

    /// `done` of `planned` rounds of cell `index`.
    pub(super) fn rounds(&mut self, index: usize, done: u32, planned: u32) {
        if self.last.elapsed() >= Duration::from_millis(500) {
            self.last = Instant::now();
            self.bar.set_position(index as u64 * PARTS + u64::from(done) * PARTS / u64::from(planned.max(1)));
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
