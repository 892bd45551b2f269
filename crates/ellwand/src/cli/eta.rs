//! How long a sweep will still take. Cells differ by orders of magnitude, so the remaining time is predicted from the
//! work of each cell, not from their number: its implementations, and the passes of each process over inputs, reference
//! and runs, at usual speeds. Finished cells show by what factor the prediction is off. A cell with a time limit takes
//! no longer than that, but at least one process of each implementation.

/// The quantities that the cost of a cell depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Index of the workload; each has its own speed.
    pub(super) workload: usize,
    /// Implementations to measure.
    pub(super) implementations: f64,
    /// Seconds that one process of each implementation needs for its passes at the usual speeds.
    pub(super) pass_s: f64,
}

impl Load {
    /// The load of a case that needs `bytes` of memory and `flops` operations. A process passes over its arrays many
    /// times: it makes or reads the inputs, runs a first time, settles, fills slots and checks the answer twice.
    /// Averaged over all of that, an implementation reaches about 4 * 10^7 bytes/s and 2 * 10^9 operations per second,
    /// because the reference in f64 dominates.
    pub(super) fn new(workload: usize, implementations: usize, bytes: u64, flops: f64) -> Self {
        let n = implementations as f64;
        Self { workload, implementations: n, pass_s: n * (bytes as f64 / 4e7 + flops.max(0.0) / 2e9) }
    }
}

/// Predicts the remaining time.
#[derive(Debug, Clone)]
pub(super) struct Eta {
    loads: Vec<Load>,
    /// Seconds that each finished cell took; `None` for an unfinished one.
    took: Vec<Option<f64>>,
    /// Seconds per implementation, expected from the settings.
    each: f64,
    terms: Terms,
}

/// What the settings imply for each cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Processes of each implementation.
    pub(super) processes: u32,
    /// Seconds after which no further process starts.
    pub(super) limit_s: f64,
    /// True if the first processes end then too.
    pub(super) hard: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { processes: 1, limit_s: f64::INFINITY, hard: false }
    }
}

impl Eta {
    /// A prediction for these cells; `each` is the expected time of one implementation besides its passes, in seconds.
    pub(super) fn new(loads: Vec<Load>, each: f64) -> Self {
        Self { took: vec![None; loads.len()], loads, each: each.max(1e-3), terms: Terms::default() }
    }

    /// Sets the terms.
    pub(super) fn on(self, terms: Terms) -> Self {
        Self { terms, ..self }
    }

    /// Records that cell `index` took this many seconds.
    pub(super) fn done(&mut self, index: usize, seconds: f64) {
        if let Some(took) = self.took.get_mut(index) {
            *took = Some(seconds.max(1e-6));
        }
    }

    /// Cells with implementations to measure.
    pub(super) fn cells(&self) -> usize {
        self.loads.iter().filter(|load| load.implementations > 0.0).count()
    }

    /// Seconds that the cells from `index` on will take.
    pub(super) fn remaining(&self, index: usize) -> f64 {
        let all = self.slowness(None).unwrap_or(1.0);
        let mut known: Vec<(usize, f64)> = Vec::new();
        let mut left = 0.0;
        for load in self.loads.iter().skip(index) {
            let slowness = match known.iter().find(|(workload, _)| *workload == load.workload) {
                Some((_, slowness)) => *slowness,
                None => {
                    let slowness = self.slowness(Some(load.workload)).unwrap_or(all);
                    known.push((load.workload, slowness));
                    slowness
                }
            };
            left += self.predict(load, slowness);
        }
        left
    }

    /// Seconds that cell `index` alone will take.
    pub(super) fn cell(&self, index: usize) -> f64 {
        self.remaining(index) - self.remaining(index + 1)
    }

    /// Seconds of a cell that takes `slowness` times its expected time.
    fn predict(&self, load: &Load, slowness: f64) -> f64 {
        let processes = f64::from(self.terms.processes.max(1));
        let all = slowness * (self.each * load.implementations + load.pass_s * processes);
        let least = if self.terms.hard { 0.0 } else { all / processes };
        all.min(self.terms.limit_s.max(least))
    }

    /// Ratio of actual to expected time over the finished cells, of one workload or of all.
    fn slowness(&self, workload: Option<usize>) -> Option<f64> {
        let mine = |load: &Load| workload.is_none_or(|wanted| wanted == load.workload) && load.implementations > 0.0;
        let done = self.loads.iter().zip(&self.took).filter(|(load, _)| mine(load));
        let done = done.filter_map(|(load, took)| Some(((*took)?, self.predict(load, 1.0))));
        let (took, expected) = done.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (expected > 0.0).then(|| took / expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells in the order of a sweep, from small to large, and their times: 0.2 s per implementation, and for workload
    /// 1 passes three times as slow as usual.
    fn sweep() -> Vec<(Load, f64)> {
        let mut cells = Vec::new();
        for workload in 0..2 {
            for batch in [16_u64, 32, 64, 128] {
                for sequence in [256, 512, 1024, 2048] {
                    let elements = batch * sequence * 256;
                    let load = Load::new(workload, 4, 8 * elements, 10.0 * elements as f64);
                    let slow = if workload == 1 { 3.0 } else { 1.0 };
                    cells.push((load, 0.2 * 4.0 + slow * load.pass_s));
                }
            }
        }
        cells
    }

    #[test]
    fn a_slower_workload_is_learnt_from_its_own_cells() {
        let cells = sweep();
        let mut eta = Eta::new(cells.iter().map(|(load, _)| *load).collect(), 0.1);
        let total: f64 = cells.iter().map(|(_, took)| took).sum();
        let mut gone = 0.0;
        for (index, (_, took)) in cells.iter().enumerate() {
            eta.done(index, *took);
            gone += took;
            if gone > 0.6 * total && index + 1 < cells.len() {
                let off = eta.remaining(index + 1) / (total - gone);
                assert!((0.7..1.3).contains(&off), "after {:.0} %: {off}", 100.0 * gone / total);
            }
        }
        assert!(gone > 0.0 && eta.remaining(cells.len()) == 0.0);
    }

    #[test]
    fn the_forecast_of_one_workload_uses_its_first_cells() {
        let cells: Vec<(Load, f64)> = sweep().into_iter().take(16).collect();
        let mut eta = Eta::new(cells.iter().map(|(load, _)| *load).collect(), 0.1);
        let total: f64 = cells.iter().map(|(_, took)| took).sum();
        for (index, (_, took)) in cells.iter().enumerate().take(4) {
            eta.done(index, *took);
        }
        let left: f64 = cells.iter().skip(4).map(|(_, took)| took).sum();
        let off = eta.remaining(4) / left;
        assert!((0.7..1.3).contains(&off), "{off} of {total} s");
    }

    #[test]
    fn every_process_counts_and_a_limit_leaves_one_of_each_implementation() {
        let load = Load::new(0, 4, 40_000_000, 0.0);
        let expected =
            |processes, limit_s, hard| Eta::new(vec![load], 0.5).on(Terms { processes, limit_s, hard }).remaining(0);
        assert!((expected(1, f64::INFINITY, false) - 6.0).abs() < 1e-9);
        assert!((expected(4, f64::INFINITY, false) - 18.0).abs() < 1e-9);
        assert!((expected(4, 10.0, false) - 10.0).abs() < 1e-9);
        assert!((expected(4, 1.0, false) - 4.5).abs() < 1e-9);
        assert!((expected(4, 1.0, true) - 1.0).abs() < 1e-9);
    }

    /// `run gelu --batch 4,8`, two minutes: each batch with two sequences, three dimensions and two forms.
    #[test]
    fn the_first_forecast_of_a_sweep_is_about_right() {
        let mut loads = Vec::new();
        for values in [4_u64, 8].into_iter().flat_map(|batch| [256, 512].map(|sequence| batch * sequence)) {
            for elements in [64, 256, 768].map(|dimension| values * dimension) {
                loads.extend([Load::new(0, 4, 8 * elements, 10.0 * elements as f64); 2]);
            }
        }
        let eta = Eta::new(loads, 0.41).on(Terms { processes: 4, limit_s: 60.0, hard: false });
        assert!((80.0..180.0).contains(&eta.remaining(0)), "{}", eta.remaining(0));
    }

    #[test]
    fn nothing_done_means_the_expectation_and_a_skipped_cell_costs_nothing() {
        let load = Load::new(0, 2, 0, 0.0);
        let eta = Eta::new(vec![load, load, load], 0.5);
        assert!((eta.remaining(0) - 3.0).abs() < 1e-9 && eta.cells() == 3);
        assert!((eta.cell(1) - 1.0).abs() < 1e-9);
        let eta = Eta::new(vec![load, Load::new(0, 0, 1000, 1e9), load], 0.5);
        assert!((eta.remaining(0) - 2.0).abs() < 1e-9 && eta.cells() == 2);
    }
}
