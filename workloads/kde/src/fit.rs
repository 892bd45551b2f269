//! Fitting: filter, interpolate, sort by position, then compute occupancy and ground process at every bin.

use ellwand_profile::span;

use ellwand_core::InputError;

use super::data::{Bandwidth, Spikes, Track};
use super::error::{at_least, finite, length};
use super::model::{
    BIN_PADDING, ClusterlessDecoder, Electrode, FAR, SPIKE_PADDING, UNIT, Wide, WideElectrode, log_norm, near,
};
use super::options::{Method, Options, Precision};
use super::{exact, local, sums};
use ellwand_simd::pool;

/// Above this, kernels below the smallest f32 can still lift a rate above the floor.
const MAX_LOG_NORM: f64 = 45.0;

impl ClusterlessDecoder {
    /// Fits the encoding model. `grid` holds the interior bin centres, `[B, dims]`; `electrodes` the encoding spikes.
    /// Spikes outside the time range of the track are ignored. Of `how`, only method, precision and threads matter.
    ///
    /// # Errors
    /// If an argument has the wrong length, is unsorted or not finite, or if a width is not positive.
    pub fn fit(
        track: Track<'_>,
        grid: &[f64],
        electrodes: &[Spikes<'_>],
        bandwidth: &Bandwidth,
        how: impl Into<Options>,
    ) -> Result<Self, InputError> {
        track.check("position_time", "position")?;
        let dims = track.dims;
        let bins = grid.len() / dims;
        length("grid", grid.len(), bins * dims, &format!("whole bins of {dims} dimensions"))?;
        at_least("interior bins of grid", bins, 1)?;
        finite("grid", grid)?;
        at_least("electrodes", electrodes.len(), 1)?;
        let position_std = bandwidth.of_position(dims)?;
        for (number, spikes) in electrodes.iter().enumerate() {
            spikes.check("enc", number)?;
            bandwidth.of_waveform(spikes.n_features, number)?;
        }
        fitted(track, grid, electrodes, bandwidth, position_std, &how.into())
    }
}

/// Arguments are already checked.
fn fitted(
    track: Track<'_>,
    grid: &[f64],
    electrodes: &[Spikes<'_>],
    bandwidth: &Bandwidth,
    position_std: Vec<f64>,
    options: &Options,
) -> Result<ClusterlessDecoder, InputError> {
    let dims = track.dims;
    let bins = grid.len() / dims;
    let padded = bins.next_multiple_of(BIN_PADDING);
    let mut grid_units = vec![0.0; dims * padded];
    for d in 0..dims {
        for b in 0..padded {
            // The padding repeats the last bin, so that it does not enlarge any box.
            grid_units[d * padded + b] = grid[b.min(bins - 1) * dims + d] * (UNIT / position_std[d]);
        }
    }
    let mut model = ClusterlessDecoder {
        dims,
        bins,
        grid: grid.to_vec(),
        grid_units,
        position_std,
        track_time: track.time.to_vec(),
        track_position: track.position.to_vec(),
        track_pairs: Vec::new(),
        electrodes: Vec::with_capacity(electrodes.len()),
        occupancy: vec![0.0; bins],
        rarity: vec![f64::NEG_INFINITY; padded],
        ground: vec![0.0; bins],
        wide: None,
    };
    if options.precision == Precision::F64 {
        model.wide = Some(Wide {
            track: columns(track.position, dims, SPIKE_PADDING),
            grid: columns(grid, dims, BIN_PADDING),
            scale: model.position_std.iter().map(|w| UNIT / w).collect(),
        });
    }
    let span = span!("encoding positions");
    for (number, spikes) in electrodes.iter().enumerate() {
        let waveform_std = bandwidth.of_waveform(spikes.n_features, number)?;
        let encoded = if options.method == Method::Reference {
            exact::encoding(track, spikes)
        } else {
            encoding(track, spikes, &model.position_std)
        };
        model.electrodes.push(electrode(&model, encoded, waveform_std));
    }
    drop(span);
    let samples = units(track.position, dims, &model.position_std);
    model.track_pairs = local::pairs(&samples, dims);
    densities(&mut model, &samples, options);
    Ok(model)
}

/// Converts rows `[n, width]` to columns `[width, n padded]`; the padding repeats the last row, so it is not an
/// outlier.
fn columns(rows: &[f64], width: usize, padding: usize) -> Vec<f64> {
    let n = rows.len() / width;
    let row = |i: usize| &rows[i.min(n - 1) * width..][..width];
    (0..width).flat_map(|d| (0..n.next_multiple_of(padding)).map(move |i| row(i)[d])).collect()
}

/// Positions `[n, dims]` as `[dims, n padded]`, in units of the kernel.
pub(super) fn units(positions: &[f64], dims: usize, widths: &[f64]) -> Vec<f64> {
    let n = positions.len() / dims;
    let stride = n.next_multiple_of(SPIKE_PADDING);
    let mut units = vec![f64::from(FAR); dims * stride];
    for (d, row) in units.chunks_exact_mut(stride.max(1)).enumerate() {
        for (unit, position) in row.iter_mut().zip(positions.chunks_exact(dims)) {
            *unit = position[d] * (UNIT / widths[d]);
        }
    }
    units
}

/// Positions `[n, dims]` and marks `[n, features]` of the spikes within the track, sorted by position.
fn encoding(track: Track<'_>, spikes: &Spikes<'_>, position_std: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (dims, f) = (track.dims, spikes.n_features);
    let kept = spikes.within(track.time[0], track.time[track.time.len() - 1]);
    let n = kept.len();
    let mut unordered = vec![0.0; n * dims];
    for (i, at) in kept.clone().zip(unordered.chunks_exact_mut(dims)) {
        track.interpolate(spikes.times[i], at);
    }
    let (mut positions, mut features) = (Vec::with_capacity(n * dims), Vec::with_capacity(n * f));
    for &i in &by_place(&unordered, dims, position_std) {
        positions.extend_from_slice(&unordered[i as usize * dims..][..dims]);
        features.extend_from_slice(&spikes.features[(kept.start + i as usize) * f..][..f]);
    }
    (positions, features)
}

/// One electrode, from the positions and marks of its spikes.
fn electrode(
    model: &ClusterlessDecoder,
    (positions, features): (Vec<f64>, Vec<f64>),
    waveform_std: Vec<f64>,
) -> Electrode {
    let (dims, f) = (model.dims, waveform_std.len());
    let n = positions.len() / dims;
    let mut mark_centre = vec![0.0; f];
    for mark in features.chunks_exact(f) {
        mark_centre.iter_mut().zip(mark).for_each(|(centre, x)| *centre += x / n as f64);
    }
    let stride = n.next_multiple_of(SPIKE_PADDING);
    let mut marks = vec![FAR; f * stride];
    for (d, row) in marks.chunks_exact_mut(stride.max(1)).enumerate() {
        for (unit, mark) in row.iter_mut().zip(features.chunks_exact(f)) {
            *unit = near((mark[d] - mark_centre[d]) * (UNIT / waveform_std[d]));
        }
    }
    let places = units(&positions, dims, &model.position_std);
    let wide = if model.wide.is_some() {
        WideElectrode {
            places: columns(&positions, dims, SPIKE_PADDING),
            marks: columns(&features, f, SPIKE_PADDING),
            scale: waveform_std.iter().map(|w| UNIT / w).collect(),
        }
    } else {
        WideElectrode::default()
    };
    let samples = model.track_time.len() as f64;
    let mean_rate = n as f64 / samples;
    let log_mark_norm = log_norm(&waveform_std);
    let log_scale =
        if n == 0 { f64::NEG_INFINITY } else { -samples.ln() + log_mark_norm + log_norm(&model.position_std) };
    Electrode {
        n_features: f,
        waveform_std,
        mean_rate,
        place_pairs: local::pairs(&places, dims),
        places,
        positions,
        features,
        mark_centre,
        fits_f32: log_mark_norm < MAX_LOG_NORM && !marks.iter().any(|x| x.abs() == FAR / 3.0),
        marks,
        nearest: vec![0.0; model.rarity.len()],
        log_scale,
        wide,
    }
}

/// Indices that sort positions so that neighbours are close together: by coordinate in one dimension, otherwise in
/// strips two kernel widths wide along the first coordinate, then by the second. Equal keys stay in time order.
fn by_place(positions: &[f64], dims: usize, widths: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..(positions.len() / dims) as u32).collect();
    let key = |i: u32| {
        let at = &positions[i as usize * dims..][..dims];
        if dims == 1 { (0.0, at[0]) } else { ((at[0] / (2.0 * widths[0])).floor(), at[1]) }
    };
    order.sort_by(|&a, &b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    order
}

/// Computes the occupancy, then the ground process of all electrodes, at every bin.
fn densities(model: &mut ClusterlessDecoder, samples: &[f64], options: &Options) {
    let (bins, method) = (model.bins, options.method);
    if method == Method::Reference {
        let (occupancy, ground) = exact::densities(model);
        (model.occupancy, model.ground) = (occupancy, ground);
        nearest_exactly(model);
    } else {
        let piece = BIN_PADDING * if method.is_parallel() { 2 } else { 8 };
        let mut pieces: Vec<sums::Piece> =
            (0..bins).step_by(piece).map(|start| sums::Piece::new(start, piece.min(bins - start))).collect();
        pool::for_each_slice_on(options.threads(), &mut pieces, 1, |_, pieces| {
            pieces.iter_mut().for_each(|piece| sums::at_bins(model, samples, method.vectors(), piece));
        });
        for piece in pieces {
            let at = piece.start..piece.start + piece.len;
            model.occupancy[at.clone()].copy_from_slice(&piece.occupancy[..piece.len]);
            model.ground[at.clone()].copy_from_slice(&piece.ground[..piece.len]);
            for (electrode, nearest) in model.electrodes.iter_mut().zip(piece.nearest.chunks_exact(piece.padded())) {
                electrode.nearest[piece.start..piece.start + nearest.len()].copy_from_slice(nearest);
            }
        }
    }
    for (rarity, &pi) in model.rarity.iter_mut().zip(&model.occupancy) {
        *rarity = if pi > 0.0 { -pi.ln() } else { f64::NEG_INFINITY };
    }
}

/// The largest position kernel at each bin, for a model fitted in f64 that also predicts in f32.
fn nearest_exactly(model: &mut ClusterlessDecoder) {
    let (dims, padded) = (model.dims, model.rarity.len());
    for electrode in &mut model.electrodes {
        let (n, stride) = (electrode.spikes(), electrode.stride());
        for b in 0..padded {
            let distance = |i: usize| -> f64 {
                (0..dims).map(|d| (model.grid_units[d * padded + b] - electrode.places[d * stride + i]).powi(2)).sum()
            };
            let least = (0..n).map(distance).fold(f64::INFINITY, f64::min);
            electrode.nearest[b] = if n == 0 { 0.0 } else { (-least as f32).max(f32::MIN) };
        }
    }
}
