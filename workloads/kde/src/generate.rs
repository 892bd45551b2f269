//! Data sets: an exact copy of the published profiling script's, and a structured one with features of real recordings.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};

use super::numpy::NumpyRng;

/// The sizes of a data set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sizes {
    /// T: position samples of the encoding epoch.
    pub(super) samples: usize,
    /// N: edges of the time bins.
    pub(super) edges: usize,
    /// E: number of electrodes.
    pub(super) electrodes: usize,
    /// Mean number of encoding spikes per electrode.
    pub(super) encoding: f64,
    /// Mean number of decoding spikes per electrode.
    pub(super) decoding: f64,
    /// B: interior bins.
    pub(super) bins: usize,
    /// F: features of a mark (in structured data every third electrode has one less).
    pub(super) features: usize,
    /// Length of the decoding epoch in seconds.
    pub(super) seconds: f64,
    /// D: 1 is a track of 100 cm, 2 a box of 100 cm by 100 cm.
    pub(super) dims: usize,
}

/// Spikes of one epoch: flat lists with one more offset than electrodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ragged {
    pub(super) times: Vec<f64>,
    pub(super) offsets: Vec<i64>,
    pub(super) features: Vec<f64>,
}

/// A complete data set, under the public array names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Data {
    pub(super) position_time: Vec<f64>,
    /// Positions, `[T, D]`.
    pub(super) position: Vec<f64>,
    /// Bin centres, `[B, D]`.
    pub(super) grid: Vec<f64>,
    pub(super) n_features: Vec<i64>,
    pub(super) encoding: Ragged,
    pub(super) time_edges: Vec<f64>,
    pub(super) decoding: Ragged,
    pub(super) dec_position_time: Vec<f64>,
    pub(super) dec_position: Vec<f64>,
}

/// Length of the track and of a side of the box, in cm.
const EXTENT: f64 = 100.0;
/// Length of the encoding epoch, in seconds.
const ENCODING: f64 = 100.0;
/// Length of the script's decoding epoch, in seconds.
pub(super) const DECODING: f64 = 20.0;

fn linspace(end: f64, n: usize) -> Vec<f64> {
    let step = end / (n.max(2) - 1) as f64;
    (0..n).map(|i| if i + 1 == n && n > 1 { end } else { i as f64 * step }).collect()
}

/// Bin centres in C order. In two dimensions an almost square grid, whose last column may be incomplete.
fn grid(bins: usize, dims: usize) -> Vec<f64> {
    if dims == 1 {
        return (0..bins).map(|b| (b as f64 + 0.5) * EXTENT / bins as f64).collect();
    }
    let side = (bins as f64).sqrt().ceil() as usize;
    let centre = |i: usize| (i as f64 + 0.5) * EXTENT / side as f64;
    (0..bins).flat_map(|b| [centre(b / side), centre(b % side)]).collect()
}

/// A path through the box: two incommensurate oscillations that visit every bin.
fn path(time: &[f64], dims: usize) -> Vec<f64> {
    let sweep = |t: f64, period: f64| EXTENT * (0.5 - 0.5 * (2.0 * std::f64::consts::PI * t / period).cos());
    if dims == 1 {
        return time.iter().map(|t| sweep(*t, 20.0)).collect();
    }
    time.iter().flat_map(|t| [sweep(*t, 7.3), sweep(*t, 1.9)]).collect()
}

/// The script's data: `default_rng(42)`, marks N(0, 1), uniformly distributed spikes. In two dimensions, which the
/// script lacks, the position follows `path`.
pub(super) fn script(sizes: Sizes) -> Data {
    let mut rng = NumpyRng::new(42);
    let mut epoch = |mean: f64, duration: f64| {
        let mut spikes = Ragged { offsets: vec![0], ..Ragged::default() };
        for _ in 0..sizes.electrodes {
            let n = rng.poisson(mean);
            let mut times: Vec<f64> = (0..n).map(|_| rng.uniform(0.0, duration)).collect();
            times.sort_by(f64::total_cmp);
            spikes.times.extend(times);
            spikes.features.extend((0..n * sizes.features).map(|_| rng.normal()));
            spikes.offsets.push(spikes.times.len() as i64);
        }
        spikes
    };
    let encoding = epoch(sizes.encoding, ENCODING);
    let decoding = epoch(sizes.decoding, sizes.seconds);
    let track = |duration: f64, n: usize| {
        let time = linspace(duration, n);
        let position = if sizes.dims == 1 { linspace(EXTENT, n) } else { path(&time, sizes.dims) };
        (time, position)
    };
    let (position_time, position) = track(ENCODING, sizes.samples);
    let (dec_position_time, dec_position) = track(sizes.seconds, sizes.edges);
    Data {
        position_time,
        position,
        grid: grid(sizes.bins, sizes.dims),
        n_features: vec![sizes.features as i64; sizes.electrodes],
        encoding,
        time_edges: dec_position_time.clone(),
        decoding,
        dec_position_time,
        dec_position,
    }
}

/// A cell: its place field, and the mark of its spikes on the electrode.
struct Cell {
    field: Vec<f64>,
    mark: Vec<f64>,
}

/// Structured data: each electrode records five cells with place fields 8 cm wide and marks of 50 to 300 microvolts
/// with a deviation of 15. A twentieth of the spikes is noise, some of it with outlying amplitudes. The second
/// electrode is silent during encoding, and every third lacks a feature (a dead wire).
pub(super) fn structured(sizes: Sizes, seed: u64) -> Data {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n_features: Vec<i64> = (0..sizes.electrodes)
        .map(|e| if e % 3 == 2 { (sizes.features as i64 - 1).max(1) } else { sizes.features as i64 })
        .collect();
    let cells: Vec<Vec<Cell>> = n_features
        .iter()
        .map(|&f| {
            let cell = |rng: &mut ChaCha8Rng| Cell {
                field: (0..sizes.dims).map(|_| rng.random_range(0.0..EXTENT)).collect(),
                mark: (0..f).map(|_| rng.random_range(50.0..300.0)).collect(),
            };
            (0..5).map(|_| cell(&mut rng)).collect()
        })
        .collect();
    let position_time = linspace(ENCODING, sizes.samples);
    let dec_position_time = linspace(sizes.seconds, sizes.edges);
    let position = path(&position_time, sizes.dims);
    let dec_position = path(&dec_position_time, sizes.dims);
    let mut epoch = |mean: f64, duration: f64, silent: Option<usize>| {
        let mut spikes = Ragged { offsets: vec![0], ..Ragged::default() };
        for (number, cells) in cells.iter().enumerate() {
            let spread = Normal::new(mean, mean.sqrt().max(1e-9)).map_or(mean, |normal| normal.sample(&mut rng));
            let n = if silent == Some(number) { 0 } else { spread.round().max(1.0) as usize };
            let mut times: Vec<(f64, Option<usize>)> = Vec::with_capacity(n);
            while times.len() < n {
                let t = rng.random_range(0.0..duration);
                if rng.random_range(0.0..1.0) < 0.05 {
                    times.push((t, None));
                    continue;
                }
                let cell = rng.random_range(0..cells.len());
                let at = path(&[t], sizes.dims);
                let square: f64 = at.iter().zip(&cells[cell].field).map(|(x, c)| ((x - c) / 8.0).powi(2)).sum();
                if rng.random_range(0.0..1.0) < (-0.5 * square).exp() {
                    times.push((t, Some(cell)));
                }
            }
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (t, cell) in times {
                spikes.times.push(t);
                mark(&mut rng, cells, cell, &mut spikes.features);
            }
            spikes.offsets.push(spikes.times.len() as i64);
        }
        spikes
    };
    let silent = (sizes.electrodes > 1).then_some(1);
    let encoding = epoch(sizes.encoding, ENCODING, silent);
    let decoding = epoch(sizes.decoding, sizes.seconds, None);
    Data {
        position_time,
        position,
        grid: grid(sizes.bins, sizes.dims),
        n_features,
        encoding,
        time_edges: dec_position_time.clone(),
        decoding,
        dec_position_time,
        dec_position,
    }
}

fn mark(rng: &mut impl Rng, cells: &[Cell], cell: Option<usize>, out: &mut Vec<f64>) {
    let n = cells[0].mark.len();
    match cell {
        Some(cell) => {
            let scatter = |rng: &mut _| Normal::new(0.0, 15.0).map_or(0.0, |normal| normal.sample(rng));
            for centre in &cells[cell].mark {
                let x = centre + scatter(rng);
                out.push(x);
            }
        }
        None => {
            // Noise; every tenth spike is far outside the range of all cells.
            let most = if rng.random_range(0..10) == 0 { 3000.0 } else { 300.0 };
            out.extend((0..n).map(|_| rng.random_range(0.0..most)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sizes(index: usize) -> Sizes {
        let table = [
            (100, 50, 4, 20.0, 10.0, 100),
            (500, 100, 8, 50.0, 30.0, 200),
            (2000, 500, 16, 200.0, 100.0, 500),
            (5000, 1000, 32, 500.0, 300.0, 1000),
            (10_000, 2000, 64, 1000.0, 400.0, 2000),
        ];
        let (samples, edges, electrodes, encoding, decoding, bins) = table[index];
        Sizes { samples, edges, electrodes, encoding, decoding, bins, features: 2, seconds: DECODING, dims: 1 }
    }

    #[test]
    fn the_script_draws_the_spikes_that_numpy_draws() {
        // Sums, ranges and pairs of the published script at its five sizes with seed 42.
        let expected = [
            (77, (15, 24), 37, (5, 14), 752),
            (429, (45, 62), 238, (23, 39), 12_835),
            (3206, (172, 223), 1601, (87, 127), 319_898),
            (15_895, (421, 544), 9596, (256, 320), 4_770_184),
            (64_039, (935, 1080), 25_551, (348, 442), 25_554_845),
        ];
        for (index, (ne, ne_range, nd, nd_range, pairs)) in expected.into_iter().enumerate() {
            let data = script(sizes(index));
            let counts = |spikes: &Ragged| -> Vec<i64> { spikes.offsets.windows(2).map(|w| w[1] - w[0]).collect() };
            let (encoding, decoding) = (counts(&data.encoding), counts(&data.decoding));
            let range = |counts: &[i64]| (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
            assert_eq!((encoding.iter().sum::<i64>(), range(&encoding)), (ne, ne_range));
            assert_eq!((decoding.iter().sum::<i64>(), range(&decoding)), (nd, nd_range));
            assert_eq!(encoding.iter().zip(&decoding).map(|(a, b)| a * b).sum::<i64>(), pairs);
        }
    }

    #[test]
    fn structured_data_has_what_the_script_lacks() {
        let sizes = Sizes { features: 4, electrodes: 7, dims: 2, bins: 90, ..sizes(1) };
        let data = structured(sizes, 3);
        assert_eq!(data.encoding.offsets[1], data.encoding.offsets[2], "a silent electrode");
        assert!(data.decoding.offsets[1] < data.decoding.offsets[2], "which fires later");
        assert_eq!(data.n_features, [4, 4, 3, 4, 4, 3, 4]);
        assert_eq!(data.grid.len(), 180);
        assert!(data.encoding.features.iter().any(|x| *x > 1000.0));
        assert_eq!(data, structured(sizes, 3));
        assert_ne!(data, structured(sizes, 4));
    }
}
