//! The encoding spikes that can lift a panel of bins above the floor.
//!
//! The position kernel falls with the square of the distance, and a spike's other factors are known. All encoding
//! spikes of an electrode that are beyond the reach add less than [`FLOOR`](super::FLOOR) * 2^-24 to a rate (2^-53 in
//! f64). Such spikes are skipped: a rate above the floor keeps its value, and one below becomes the floor either way.

use super::model::{ClusterlessDecoder, Electrode, LOG_FLOOR};
use super::options::{CHUNK, Precision};

/// Spikes that are skipped or kept together.
pub(super) const GROUP: usize = 16;

/// The part of a chunk of encoding spikes that a panel of bins needs, `[start, end)`; empty if none.
pub(super) type Reach = (u16, u16);

/// From the first to the last spike of a chunk that any panel needs.
pub(super) fn union(panels: &[Reach]) -> std::ops::Range<usize> {
    let needed = panels.iter().filter(|(low, high)| low < high);
    let (low, high) = needed.fold((u16::MAX, 0), |(low, high), panel| (low.min(panel.0), high.max(panel.1)));
    usize::from(low.min(high))..usize::from(high)
}

/// Squared distance, in units of the position kernel, beyond which a spike does not affect a bin of this rarity.
pub(super) fn limit(electrode: &Electrode, rarity: f64, precision: Precision) -> f64 {
    let bits = match precision {
        Precision::F32 => 24.0,
        Precision::F64 => 53.0,
    };
    let below_floor = bits * std::f64::consts::LN_2 + (electrode.spikes() as f64).ln();
    (electrode.log_scale + rarity - LOG_FLOOR + below_floor) / std::f64::consts::LN_2
}

/// Appends the lower and upper corner in each dimension.
pub(super) fn boxes(
    rows: &[f64],
    stride: usize,
    dims: usize,
    range: std::ops::Range<usize>,
    out: &mut Vec<(f64, f64)>,
) {
    for d in 0..dims {
        let row = &rows[d * stride..][range.clone()];
        out.push(row.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x))));
    }
}

/// Squared distance between two boxes.
fn gap(a: &[(f64, f64)], b: &[(f64, f64)]) -> f64 {
    a.iter().zip(b).map(|((al, ah), (bl, bh))| (al - bh).max(bl - ah).max(0.0).powi(2)).sum()
}

/// Fills `out` with the reach of every chunk and panel, `[chunks, panels]`, for panels of `width` bins starting at bin
/// `first`. Skips spikes too far away for a result of precision `keep`; `None` skips nothing.
pub(super) fn reaches(
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    bins: (usize, usize, usize),
    keep: Option<Precision>,
    out: &mut Vec<Reach>,
    scratch: &mut Vec<(f64, f64)>,
) {
    let (first, panels, width) = bins;
    let n = electrode.spikes();
    out.clear();
    let Some(precision) = keep else {
        for start in (0..n).step_by(CHUNK) {
            out.extend(std::iter::repeat_n((0, CHUNK.min(n - start) as u16), panels));
        }
        return;
    };
    let (dims, stride, padded) = (model.dims, electrode.stride(), model.rarity.len());
    scratch.clear();
    for start in (0..n).step_by(GROUP) {
        boxes(&electrode.places, stride, dims, start..n.min(start + GROUP), scratch);
    }
    let groups = scratch.len();
    for panel in 0..panels {
        let at = first + panel * width;
        boxes(&model.grid_units, padded, dims, at..at + width, scratch);
    }
    let (group_boxes, panel_boxes) = scratch.split_at(groups);
    for start in (0..n).step_by(CHUNK) {
        let len = CHUNK.min(n - start);
        for (panel, panel_box) in panel_boxes.chunks_exact(dims).enumerate() {
            let rarest =
                model.rarity[first + panel * width..][..width].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let limit = limit(electrode, rarest, precision);
            let near = group_boxes[start / GROUP * dims..]
                .chunks_exact(dims)
                .take(len.div_ceil(GROUP))
                .enumerate()
                .filter(|(_, group)| gap(group, panel_box) <= limit)
                .map(|(group, _)| group);
            let (low, high) = near.fold((usize::MAX, 0), |(low, high), group| (low.min(group), high.max(group + 1)));
            out.push(if high == 0 { (0, 0) } else { ((low * GROUP) as u16, len.min(high * GROUP) as u16) });
        }
    }
}
