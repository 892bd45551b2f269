//! The fitted encoding model.

use super::data::{Bandwidth, Spikes, Track};
use super::error::{KdeError, finite, length};
use super::options::{Options, Precision};

/// Rates below this density count as this density: the floor of the published reference.
pub const FLOOR: f64 = 1e-15;

/// The natural logarithm of [`FLOOR`]: no spike takes more than this from a bin.
pub const LOG_FLOOR: f64 = -34.538_776_394_910_684;

/// Arrays over the bins are padded to a multiple of this, so that kernels may read whole panels.
pub(super) const BIN_PADDING: usize = 32;

/// Arrays over an electrode's encoding spikes are padded to a multiple of this.
pub(super) const SPIKE_PADDING: usize = 16;

/// Factor that makes the square of a difference an exponent of 2: exp(-x^2 / 2) = 2^-(x * UNIT)^2.
pub(super) const UNIT: f64 = 0.849_321_800_288_019_1;

/// Where padding lies, in units of the kernels: its square is finite and beyond any kernel.
pub(super) const FAR: f32 = 3e18;

/// A distance in units of the kernels as f32, short of where its square would overflow.
pub(super) fn near(distance: f64) -> f32 {
    let most = FAR / 3.0;
    (distance as f32).clamp(-most, most)
}

/// A clusterless decoder: the spikes of the encoding epoch as a density over position and mark.
#[derive(Debug, Clone)]
pub struct ClusterlessDecoder {
    pub(super) dims: usize,
    pub(super) bins: usize,
    /// `[B, dims]`
    pub(super) grid: Vec<f64>,
    /// `[dims, B padded]` in units in which the position kernel is 2^-distance^2.
    pub(super) grid_units: Vec<f64>,
    pub(super) position_std: Vec<f64>,
    pub(super) track_time: Vec<f64>,
    /// `[T, dims]`
    pub(super) track_position: Vec<f64>,
    /// `[dims, 2, T padded]` in units of the kernel.
    pub(super) track_pairs: Vec<f32>,
    pub(super) electrodes: Vec<Electrode>,
    /// pi, `[B]`
    pub(super) occupancy: Vec<f64>,
    /// -ln pi, `[B padded]`; -infinity where the occupancy is 0, which leads to the floor.
    pub(super) rarity: Vec<f64>,
    /// Lambda, `[B]`
    pub(super) ground: Vec<f64>,
    /// For kernels in f64, where the model was fitted in f64.
    pub(super) wide: Option<Wide>,
}

/// What is known of one electrode. Its spikes are ordered by place, so that neighbours in memory are neighbours on the track.
#[derive(Debug, Clone)]
pub(super) struct Electrode {
    pub(super) n_features: usize,
    pub(super) waveform_std: Vec<f64>,
    /// mu: spikes per position sample.
    pub(super) mean_rate: f64,
    /// `[Ne, dims]`
    pub(super) positions: Vec<f64>,
    /// `[Ne, F]`
    pub(super) features: Vec<f64>,
    /// `[dims, Ne padded]` as `grid_units`; the padding lies infinitely far away for all purposes.
    pub(super) places: Vec<f64>,
    /// `[dims, 2, Ne padded]`, the same as pairs of f32.
    pub(super) place_pairs: Vec<f32>,
    /// `[F]`, subtracted from marks before they become f32.
    pub(super) mark_centre: Vec<f64>,
    /// `[F, Ne padded]` centred, in units in which the mark kernel is 2^-distance^2.
    pub(super) marks: Vec<f32>,
    /// `[B padded]`: the exponent of 2 of the largest position kernel of all spikes, at most 0.
    pub(super) nearest: Vec<f32>,
    /// ln(mu / Ne) and the logarithms of both kernels' constants; -infinity without spikes.
    pub(super) log_scale: f64,
    /// Whether f32 does: the mark kernel's constant is a matter of units, and with many features in small units it is so
    /// large that kernels below the smallest f32 still count. Other electrodes are computed in f64.
    pub(super) fits_f32: bool,
    /// For kernels in f64, where the model was fitted in f64.
    pub(super) wide: WideElectrode,
}

/// Places as the f64 kernels read them: as they were given, coordinate by coordinate. Differences are taken before anything
/// is scaled, so that they are as exact far from 0 as near it.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    /// `[dims, T padded]`
    pub(super) track: Vec<f64>,
    /// `[dims, B padded]`
    pub(super) grid: Vec<f64>,
    /// `[dims]`: times these, distances are in units in which the position kernel is 2^-distance^2.
    pub(super) scale: Vec<f64>,
}

/// The same of an electrode; empty in a model fitted in f32.
#[derive(Debug, Clone, Default)]
pub(super) struct WideElectrode {
    /// `[dims, Ne padded]`
    pub(super) places: Vec<f64>,
    /// `[F, Ne padded]`
    pub(super) marks: Vec<f64>,
    /// `[F]`, as `Wide::scale`.
    pub(super) scale: Vec<f64>,
}

impl Electrode {
    /// Number of encoding spikes.
    pub(super) fn spikes(&self) -> usize {
        self.features.len() / self.n_features
    }

    /// Length of a row of `marks` and `places`.
    pub(super) fn stride(&self) -> usize {
        self.spikes().next_multiple_of(SPIKE_PADDING)
    }

    /// A mark in the units and with the centre of `marks`.
    pub(super) fn mark_units(&self, feature: usize, value: f64) -> f32 {
        near((value - self.mark_centre[feature]) * (UNIT / self.waveform_std[feature]))
    }
}

/// ln of the constant of a Gaussian kernel with these widths.
pub(super) fn log_norm(widths: &[f64]) -> f64 {
    -widths.iter().map(|w| (w * (2.0 * std::f64::consts::PI).sqrt()).ln()).sum::<f64>()
}

impl ClusterlessDecoder {
    /// Fits the encoding model: `grid` holds the interior bin centres, `[B, dims]`; `electrodes` the encoding spikes.
    /// Spikes outside the time of the track are left out. Of `how` method, precision and threads count.
    ///
    /// # Errors
    /// When an argument has the wrong length, is not sorted, not finite, or a width is not above 0.
    pub fn fit(
        track: Track<'_>,
        grid: &[f64],
        electrodes: &[Spikes<'_>],
        bandwidth: &Bandwidth,
        how: impl Into<Options>,
    ) -> Result<Self, KdeError> {
        track.check("position_time", "position")?;
        let dims = track.dims;
        let bins = grid.len() / dims;
        length("grid", grid.len(), bins * dims, &format!("whole bins of {dims} dimensions"))?;
        if bins == 0 {
            return Err(KdeError::TooFew { array: "interior bins of grid".to_owned(), got: 0, least: 1 });
        }
        finite("grid", grid)?;
        if electrodes.is_empty() {
            return Err(KdeError::TooFew { array: "electrodes".to_owned(), got: 0, least: 1 });
        }
        let position_std = bandwidth.of_position(dims)?;
        for (number, spikes) in electrodes.iter().enumerate() {
            spikes.check("enc", number)?;
            bandwidth.of_waveform(spikes.n_features, number)?;
        }
        super::fit::fit(track, grid, electrodes, bandwidth, position_std, &how.into())
    }

    /// Occupancy density at each bin, `[B]`.
    pub fn occupancy(&self) -> &[f64] {
        &self.occupancy
    }

    /// Summed ground process intensity at each bin, `[B]`.
    pub fn ground_process_intensity(&self) -> &[f64] {
        &self.ground
    }

    /// Spikes per position sample of each electrode.
    pub fn mean_rates(&self) -> Vec<f64> {
        self.electrodes.iter().map(|e| e.mean_rate).collect()
    }

    /// Features of a mark of each electrode.
    pub fn n_features(&self) -> impl Iterator<Item = usize> {
        self.electrodes.iter().map(|e| e.n_features)
    }

    /// What it was fitted in; f64 serves predictions in both.
    pub fn precision(&self) -> Precision {
        if self.wide.is_some() { Precision::F64 } else { Precision::F32 }
    }

    /// Number of interior bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Coordinates of a position.
    pub fn dims(&self) -> usize {
        self.dims
    }
}
