//! The reference: f64, one formula after another, from the description of clusterless_kde.py in the non_local_detector
//! repository.
//!
//! One difference, which affects rounding only: the logarithm of a mark density factors out its largest term, so that
//! densities below the smallest number remain representable (`ln d = m + ln sum exp(l_i - m)`).
//!
//! It computes positions, constants, rates and rows of spikes itself: what it shares with the implementations, it cannot
//! judge.

use std::f64::consts::PI;

use super::data::{Spikes, Track};
use super::model::{ClusterlessDecoder, Electrode, FLOOR, LOG_FLOOR};
use super::rows::Decoding;

/// ln of the constant that makes the integral of a Gaussian product kernel 1.
fn log_constant(widths: &[f64]) -> f64 {
    -widths.iter().map(|w| w.ln()).sum::<f64>() - 0.5 * widths.len() as f64 * (2.0 * PI).ln()
}

/// Samples of the track.
fn samples(model: &ClusterlessDecoder) -> f64 {
    (model.track_position.len() / model.dims) as f64
}

/// Writes the position at time `t` to `at`: on the line through the last sample not after `t` and the next one; before the
/// first and after the last sample, on the line through the two samples at that end. A segment without duration is
/// constant at its first sample.
fn position(track: Track<'_>, t: f64, at: &mut [f64]) {
    let sample = |i: usize| &track.position[i * track.dims..][..track.dims];
    let last = track.time.len() - 1;
    if last == 0 {
        at.copy_from_slice(sample(0));
        return;
    }
    let next = 1 + track.time[1..last].partition_point(|&time| time <= t);
    let (from, to) = (track.time[next - 1], track.time[next]);
    let share = if to > from { (t - from) / (to - from) } else { 0.0 };
    for ((at, a), b) in at.iter_mut().zip(sample(next - 1)).zip(sample(next)) {
        *at = a + share * (b - a);
    }
}

/// Positions `[n, dims]` and marks `[n, features]` of the encoding spikes that the track covers, in order of time.
pub(super) fn encoding(track: Track<'_>, spikes: &Spikes<'_>) -> (Vec<f64>, Vec<f64>) {
    let (first, last) = (track.time[0], track.time[track.time.len() - 1]);
    let (mut positions, mut features) = (Vec::new(), Vec::new());
    let mut at = vec![0.0; track.dims];
    for (&t, mark) in spikes.times.iter().zip(spikes.features.chunks_exact(spikes.n_features)) {
        if first <= t && t <= last {
            position(track, t, &mut at);
            positions.extend_from_slice(&at);
            features.extend_from_slice(mark);
        }
    }
    (positions, features)
}

/// Spikes per sample of the track, of each electrode.
pub(super) fn rates(model: &ClusterlessDecoder) -> Vec<f64> {
    model.electrodes.iter().map(|electrode| rate(model, electrode)).collect()
}

/// Spikes per sample of the track.
fn rate(model: &ClusterlessDecoder, electrode: &Electrode) -> f64 {
    electrode.spikes() as f64 / samples(model)
}

/// The ground process of an electrode at a place of density `pi` on the track and `gamma` among its spikes (step 6 of
/// section 2.1 of the published reference).
fn ground(pi: f64, rate: f64, gamma: f64) -> f64 {
    let there = if pi > 0.0 { rate * gamma / pi } else { rate * FLOOR };
    if there > FLOOR { there } else { FLOOR }
}

/// ln of what turns the sum of both kernels over the spikes of an electrode into its rate by place and mark.
fn log_rate(model: &ClusterlessDecoder, electrode: &Electrode) -> f64 {
    log_constant(&electrode.waveform_std) + log_constant(&model.position_std) - samples(model).ln()
}

/// (spike, row) of the spikes from the first edge to the last. A spike on an edge belongs to the later row, one on the
/// last edge to the row before the last.
fn rows_of(edges: &[f64], times: &[f64]) -> Vec<(usize, usize)> {
    let mut row = 0;
    let mut rows = Vec::new();
    for (spike, &t) in times.iter().enumerate() {
        while row + 2 < edges.len() && edges[row + 1] <= t {
            row += 1;
        }
        if edges[0] <= t && t <= edges[edges.len() - 1] {
            rows.push((spike, row));
        }
    }
    rows
}

/// ln of a Gaussian product kernel without its normalising constant.
fn exponent(a: &[f64], b: &[f64], widths: &[f64]) -> f64 {
    a.iter().zip(b).zip(widths).map(|((a, b), w)| -0.5 * ((a - b) / w).powi(2)).sum()
}

/// Mean at `at` of the kernels centred on `positions`; 0 without any.
pub(super) fn density(at: &[f64], positions: &[f64], widths: &[f64]) -> f64 {
    let n = positions.len() / at.len();
    if n == 0 {
        return 0.0;
    }
    let sum: f64 = positions.chunks_exact(at.len()).map(|x| exponent(at, x, widths).exp()).sum();
    log_constant(widths).exp() * sum / n as f64
}

/// Occupancy and ground process at each bin (equation 2.1).
pub(super) fn densities(model: &ClusterlessDecoder) -> (Vec<f64>, Vec<f64>) {
    let at = |centre: &[f64]| {
        let pi = density(centre, &model.track_position, &model.position_std);
        let of = |e: &Electrode| ground(pi, rate(model, e), density(centre, &e.positions, &model.position_std));
        (pi, model.electrodes.iter().map(of).sum::<f64>())
    };
    use rayon::prelude::*;
    // Bins are independent, so the order of summation is the same for any number of threads.
    ellwand_simd::pool::run(|| model.grid.par_chunks_exact(model.dims).map(at).unzip())
}

/// ln of the mark kernels of mark `y`, as the largest term and the remainder for each encoding spike.
fn mark_terms(electrode: &Electrode, y: &[f64]) -> (f64, Vec<f64>) {
    let mut terms: Vec<f64> = electrode
        .features
        .chunks_exact(electrode.n_features)
        .map(|a| exponent(y, a, &electrode.waveform_std))
        .collect();
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    terms.iter_mut().for_each(|term| *term -= largest);
    (largest, terms)
}

/// Adds L_jb of equation 2.2 to `out`, `[rows, width]`, for the spikes `rows` (index of spike, row of `out`) of one
/// electrode, at the bins from `first` on.
pub(super) fn add_spikes(
    model: &ClusterlessDecoder,
    number: usize,
    spikes: &Spikes<'_>,
    rows: &[(usize, usize)],
    first: usize,
    width: usize,
    out: &mut [f64],
) {
    let electrode = &model.electrodes[number];
    let n = electrode.spikes();
    if rows.is_empty() {
        return;
    }
    // The position kernel does not depend on the mark: compute all of it once, [Ne, width].
    let mut places = vec![0.0; n * width];
    let bins = &model.grid[first * model.dims..][..width * model.dims];
    for (i, x) in electrode.positions.chunks_exact(model.dims).enumerate() {
        for (place, c) in places[i * width..].iter_mut().zip(bins.chunks_exact(model.dims)) {
            *place = exponent(c, x, &model.position_std).exp();
        }
    }
    let mut sums = vec![0.0; width];
    let log_rate = log_rate(model, electrode);
    for &(spike, row) in rows {
        let y = &spikes.features[spike * electrode.n_features..][..electrode.n_features];
        let (largest, terms) = mark_terms(electrode, y);
        sums.fill(0.0);
        for (term, places) in terms.iter().zip(places.chunks_exact(width)) {
            let weight = term.exp();
            sums.iter_mut().zip(places).for_each(|(sum, place)| *sum += weight * place);
        }
        for ((out, sum), pi) in out[row * width..][..width].iter_mut().zip(&sums).zip(&model.occupancy[first..]) {
            let l = if n == 0 || *pi <= 0.0 { LOG_FLOOR } else { sum.ln() + largest + log_rate - pi.ln() };
            *out += l.max(LOG_FLOOR);
        }
    }
}

/// Adds L_b of a single mark to `out`, `[B]`.
pub(super) fn add_mark(model: &ClusterlessDecoder, electrode: &Electrode, y: &[f64], out: &mut [f64]) {
    let number = model.electrodes.iter().position(|e| std::ptr::eq(e, electrode)).unwrap_or(0);
    let spike = Spikes { times: &[0.0], features: y, n_features: electrode.n_features };
    add_spikes(model, number, &spike, &[(0, 0)], 0, model.bins, out);
}

/// The log likelihood of equation 2.2 for the given `rows`, `[rows, B]`, computed in `pieces` ranges of bins on pool
/// threads.
pub(super) fn predict(model: &ClusterlessDecoder, decoding: &Decoding<'_>, rows: &[usize], pieces: usize) -> Vec<f64> {
    // Position of each requested row in the result.
    let mut place = vec![usize::MAX; decoding.time_edges.len()];
    rows.iter().enumerate().for_each(|(at, &row)| place[row] = at);
    let wanted = |pairs: Vec<(usize, usize)>| -> Vec<(usize, usize)> {
        let there = pairs.into_iter().map(|(spike, row)| (spike, place[row]));
        there.filter(|(_, at)| *at != usize::MAX).collect()
    };
    let all = decoding.electrodes.iter().map(|spikes| rows_of(decoding.time_edges, spikes.times));
    let pairs: Vec<Vec<(usize, usize)>> = all.map(wanted).collect();
    let width = model.bins.div_ceil(pieces.max(1));
    let piece = |first: usize| {
        let width = width.min(model.bins - first);
        let mut out: Vec<f64> =
            rows.iter().flat_map(|_| model.ground[first..first + width].iter().map(|g| -g)).collect();
        for (number, (spikes, pairs)) in decoding.electrodes.iter().zip(&pairs).enumerate() {
            add_spikes(model, number, spikes, pairs, first, width, &mut out);
        }
        (first, width, out)
    };
    let firsts: Vec<usize> = (0..model.bins).step_by(width).collect();
    let parts: Vec<(usize, usize, Vec<f64>)> = if pieces <= 1 {
        firsts.into_iter().map(piece).collect()
    } else {
        use rayon::prelude::*;
        ellwand_simd::pool::run(|| firsts.into_par_iter().map(piece).collect())
    };
    let mut out = vec![0.0; rows.len() * model.bins];
    for (first, width, part) in parts {
        for (out, part) in out.chunks_exact_mut(model.bins).zip(part.chunks_exact(width)) {
            out[first..first + width].copy_from_slice(part);
        }
    }
    out
}

/// The local log likelihood at the edges (equation 2.3).
pub(super) fn local(model: &ClusterlessDecoder, track: Track<'_>, decoding: &Decoding<'_>) -> Vec<f64> {
    let mut out = vec![0.0; decoding.time_edges.len()];
    let mut at = vec![0.0; model.dims];
    for (out, &t) in out.iter_mut().zip(decoding.time_edges) {
        position(track, t, &mut at);
        let pi = density(&at, &model.track_position, &model.position_std);
        for electrode in &model.electrodes {
            let gamma = density(&at, &electrode.positions, &model.position_std);
            *out -= if pi > 0.0 { rate(model, electrode) * gamma / pi } else { 0.0 };
        }
    }
    for (electrode, spikes) in model.electrodes.iter().zip(decoding.electrodes) {
        for (spike, row) in rows_of(decoding.time_edges, spikes.times) {
            position(track, spikes.times[spike], &mut at);
            let y = &spikes.features[spike * electrode.n_features..][..electrode.n_features];
            out[row] += term(model, electrode, &at, y);
        }
    }
    out
}

/// ln(mu f / pi) at a position and mark; the floor if the rate is below it or the ratio is 0.
pub(super) fn term(model: &ClusterlessDecoder, electrode: &Electrode, at: &[f64], y: &[f64]) -> f64 {
    let pi = density(at, &model.track_position, &model.position_std);
    if electrode.spikes() == 0 || pi <= 0.0 {
        return LOG_FLOOR;
    }
    let marks = electrode.features.chunks_exact(electrode.n_features);
    let joint: Vec<f64> = marks
        .zip(electrode.positions.chunks_exact(model.dims))
        .map(|(a, x)| exponent(y, a, &electrode.waveform_std) + exponent(at, x, &model.position_std))
        .collect();
    let most = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = joint.iter().map(|l| (l - most).exp()).sum();
    let l = most + sum.ln() + log_rate(model, electrode) - pi.ln();
    // Kernels beyond the range of f64 give infinity minus infinity, which is NaN.
    if l >= LOG_FLOOR { l } else { LOG_FLOOR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_on_the_segment_of_their_time() {
        let track = Track { time: &[1.0, 2.0, 4.0], position: &[0.0, 5.0, 10.0, 5.0, 20.0, 1.0], dims: 2 };
        let mut at = [0.0; 2];
        let cases =
            [(1.0, [0.0, 5.0]), (1.5, [5.0, 5.0]), (3.0, [15.0, 3.0]), (0.0, [-10.0, 5.0]), (6.0, [30.0, -3.0])];
        for (t, expected) in cases {
            position(track, t, &mut at);
            assert_eq!(at, expected, "at {t}");
        }
    }

    #[test]
    fn encoding_keeps_the_spikes_that_the_track_covers() {
        let track = Track { time: &[1.0, 1.0, 3.0], position: &[7.0, 8.0, 10.0], dims: 1 };
        let spikes = Spikes { times: &[0.0, 1.0, 2.0, 3.0, 3.5], features: &[0.0, 1.0, 2.0, 3.0, 4.0], n_features: 1 };
        assert_eq!(encoding(track, &spikes), (vec![8.0, 9.0, 10.0], vec![1.0, 2.0, 3.0]));
        let still = Track { time: &[1.0], position: &[7.0], dims: 1 };
        assert_eq!(encoding(still, &spikes), (vec![7.0], vec![1.0]));
    }
}
