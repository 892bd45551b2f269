//! Decoding spikes: which ones are kept, and the time row of each.

use std::ops::Range;

use ellwand_core::InputError;

use super::data::Spikes;
use super::error::{ascending, at_least, electrodes, features};
use super::model::{ClusterlessDecoder, Electrode};
use super::options::Precision;

/// The decoding input: time bins given by their edges, and the spikes of each electrode in the order of the model.
#[derive(Debug, Clone, Copy)]
pub struct Decoding<'a> {
    /// Edges of the time bins, `[N]`, ascending. As in the published code, the result has N rows, of which the last
    /// never receives a spike: one on the last edge goes to row N - 2, one on an interior edge to the later row.
    pub time_edges: &'a [f64],
    /// One entry per electrode.
    pub electrodes: &'a [Spikes<'a>],
}

impl Decoding<'_> {
    /// Checks all requirements of the model.
    pub(super) fn check(&self, model: &ClusterlessDecoder) -> Result<(), InputError> {
        at_least("time_edges", self.time_edges.len(), 2)?;
        ascending("time_edges", self.time_edges)?;
        if self.electrodes.len() != model.electrodes.len() {
            return Err(electrodes(self.electrodes.len(), model.electrodes.len()));
        }
        for (number, (spikes, electrode)) in self.electrodes.iter().zip(&model.electrodes).enumerate() {
            spikes.check("dec", number)?;
            features(number, spikes.n_features, electrode.n_features)?;
        }
        Ok(())
    }

    /// The range of kept spikes of one electrode, and their rows.
    pub(super) fn rows_of(&self, spikes: &Spikes<'_>) -> (Range<usize>, impl Iterator<Item = usize>) {
        let edges = self.time_edges;
        let kept = spikes.within(edges[0], edges[edges.len() - 1]);
        let interior = &edges[1..edges.len() - 1];
        let mut row = 0;
        let rows = spikes.times[kept.clone()].iter().map(move |&t| {
            row += interior[row..].partition_point(|&edge| edge <= t);
            row
        });
        (kept, rows)
    }

    /// (spike, row) of every kept spike, by electrode.
    pub(super) fn pairs(&self) -> Vec<Vec<(usize, usize)>> {
        let of = |spikes| {
            let (kept, rows) = self.rows_of(spikes);
            kept.zip(rows).collect()
        };
        self.electrodes.iter().map(of).collect()
    }
}

/// The kept spikes of one electrode in the kernels' form.
#[derive(Debug, Default)]
pub(super) struct Marked {
    /// Index of the first kept spike.
    pub(super) first: usize,
    /// Marks, `[spikes, F]`, in the units of the model; empty if f64 kernels read them as given.
    pub(super) marks: Vec<f32>,
    /// Row of each spike, ascending.
    pub(super) rows: Vec<u32>,
}

impl Marked {
    /// Loads the kept spikes of electrode `number`, reusing the memory.
    pub(super) fn take(&mut self, model: &ClusterlessDecoder, number: usize, decoding: &Decoding<'_>) {
        let (electrode, spikes) = (&model.electrodes[number], &decoding.electrodes[number]);
        let kept = self.take_rows(number, decoding);
        let f = electrode.n_features;
        for y in spikes.features[kept.start * f..kept.end * f].chunks_exact(f) {
            self.marks.extend(y.iter().enumerate().map(|(i, &value)| electrode.mark_units(i, value)));
        }
    }

    /// Loads only the rows. Returns the range of kept spikes.
    pub(super) fn take_rows(&mut self, number: usize, decoding: &Decoding<'_>) -> Range<usize> {
        let (kept, rows) = decoding.rows_of(&decoding.electrodes[number]);
        self.clear();
        self.first = kept.start;
        self.rows.extend(rows.map(|row| row as u32));
        kept
    }

    /// Reserves memory for all spikes of an electrode.
    pub(super) fn reserve(&mut self, spikes: &Spikes<'_>, precision: Precision) {
        self.clear();
        self.rows.reserve(spikes.times.len());
        if precision == Precision::F32 {
            self.marks.reserve(spikes.features.len());
        }
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> usize {
        4 * (self.marks.capacity() + self.rows.capacity())
    }

    /// Removes the spikes but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.marks.clear();
        self.rows.clear();
    }

    /// Adds a spike in row 0.
    pub(super) fn push(&mut self, electrode: &Electrode, mark: &[f64]) {
        self.rows.push(0);
        self.marks.extend(mark.iter().enumerate().map(|(i, &value)| electrode.mark_units(i, value)));
    }

    /// The spikes in `rows`.
    pub(super) fn of_rows(&self, rows: &Range<usize>) -> Range<usize> {
        let before = |row: usize| self.rows.partition_point(|&r| (r as usize) < row);
        before(rows.start)..before(rows.end)
    }
}
