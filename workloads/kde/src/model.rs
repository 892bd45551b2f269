//! The fitted encoding model.

use super::options::Precision;

/// The floor of the published reference: lower densities are raised to this value.
pub const FLOOR: f64 = 1e-15;

/// The natural logarithm of [`FLOOR`]: a spike never lowers a bin by more than this.
pub const LOG_FLOOR: f64 = -34.538_776_394_910_684;

/// Arrays over bins are padded to a multiple of this, so that kernels can read whole panels.
pub(super) const BIN_PADDING: usize = 32;

/// Arrays over an electrode's encoding spikes are padded to a multiple of this.
pub(super) const SPIKE_PADDING: usize = 16;

/// Factor that turns squared differences into exponents of 2: exp(-x^2 / 2) = 2^-(x * UNIT)^2.
pub(super) const UNIT: f64 = 0.849_321_800_288_019_1;

/// Position of padding, in units of the kernels: its square is finite and beyond any kernel.
pub(super) const FAR: f32 = 3e18;

/// A distance in units of the kernels as f32, clamped so that its square does not overflow.
pub(super) fn near(distance: f64) -> f32 {
    let most = FAR / 3.0;
    (distance as f32).clamp(-most, most)
}

/// A clusterless decoder: the encoding spikes as a density over position and mark.
#[derive(Debug, Clone)]
pub struct ClusterlessDecoder {
    pub(super) dims: usize,
    pub(super) bins: usize,
    /// Bin centres, `[B, dims]`.
    pub(super) grid: Vec<f64>,
    /// Bin centres, `[dims, B padded]`, in units in which the position kernel is 2^-distance^2.
    pub(super) grid_units: Vec<f64>,
    pub(super) position_std: Vec<f64>,
    pub(super) track_time: Vec<f64>,
    /// Position samples, `[T, dims]`.
    pub(super) track_position: Vec<f64>,
    /// Position samples as pairs of f32, `[dims, 2, T padded]`, in units of the kernel.
    pub(super) track_pairs: Vec<f32>,
    pub(super) electrodes: Vec<Electrode>,
    /// Occupancy pi, `[B]`.
    pub(super) occupancy: Vec<f64>,
    /// -ln pi, `[B padded]`; -infinity if the occupancy is 0, which gives the floor.
    pub(super) rarity: Vec<f64>,
    /// Ground process Lambda, `[B]`.
    pub(super) ground: Vec<f64>,
    /// Arrays for f64 kernels, if the model was fitted in f64.
    pub(super) wide: Option<Wide>,
}

/// One electrode. Its spikes are sorted by position, so that neighbours in memory are neighbours on the track.
#[derive(Debug, Clone)]
pub(super) struct Electrode {
    pub(super) n_features: usize,
    pub(super) waveform_std: Vec<f64>,
    /// mu: spikes per position sample.
    pub(super) mean_rate: f64,
    /// Positions of the encoding spikes, `[Ne, dims]`.
    pub(super) positions: Vec<f64>,
    /// Marks of the encoding spikes, `[Ne, F]`.
    pub(super) features: Vec<f64>,
    /// Positions, `[dims, Ne padded]`, in the units of `grid_units`; padding is out of reach of every kernel.
    pub(super) places: Vec<f64>,
    /// The same positions as pairs of f32, `[dims, 2, Ne padded]`.
    pub(super) place_pairs: Vec<f32>,
    /// Centre of the marks, `[F]`, subtracted before conversion to f32.
    pub(super) mark_centre: Vec<f64>,
    /// Centred marks, `[F, Ne padded]`, in units in which the mark kernel is 2^-distance^2.
    pub(super) marks: Vec<f32>,
    /// Exponent of 2 of the largest position kernel of all spikes at each bin, `[B padded]`, at most 0.
    pub(super) nearest: Vec<f32>,
    /// ln(mu / Ne) plus the logarithms of both kernels' constants; -infinity without spikes.
    pub(super) log_scale: f64,
    /// True if f32 suffices. The constant of the mark kernel depends on units, and with many features in small units it
    /// is so large that kernels below the smallest f32 still matter. Such electrodes are computed in f64.
    pub(super) fits_f32: bool,
    /// Arrays for f64 kernels, if the model was fitted in f64.
    pub(super) wide: WideElectrode,
}

/// Positions for the f64 kernels: unscaled, one coordinate after another. Differences are taken before scaling, so they
/// are as exact far from 0 as near it.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    /// Position samples, `[dims, T padded]`.
    pub(super) track: Vec<f64>,
    /// Bin centres, `[dims, B padded]`.
    pub(super) grid: Vec<f64>,
    /// Factors, `[dims]`, that scale distances to units in which the position kernel is 2^-distance^2.
    pub(super) scale: Vec<f64>,
}

/// Arrays of an electrode for the f64 kernels; empty in a model fitted in f32.
#[derive(Debug, Clone, Default)]
pub(super) struct WideElectrode {
    /// Positions, `[dims, Ne padded]`.
    pub(super) places: Vec<f64>,
    /// Marks, `[F, Ne padded]`.
    pub(super) marks: Vec<f64>,
    /// Factors for marks, `[F]`, like [`Wide::scale`].
    pub(super) scale: Vec<f64>,
}

impl Electrode {
    /// Number of encoding spikes.
    pub(super) fn spikes(&self) -> usize {
        self.features.len() / self.n_features
    }

    /// Length of a row of `marks` and `places`, including padding.
    pub(super) fn stride(&self) -> usize {
        self.spikes().next_multiple_of(SPIKE_PADDING)
    }

    /// Converts a mark to the units and centre of `marks`.
    pub(super) fn mark_units(&self, feature: usize, value: f64) -> f32 {
        near((value - self.mark_centre[feature]) * (UNIT / self.waveform_std[feature]))
    }
}

/// ln of the normalising constant of a Gaussian kernel with these widths.
pub(super) fn log_norm(widths: &[f64]) -> f64 {
    -widths.iter().map(|w| (w * (2.0 * std::f64::consts::PI).sqrt()).ln()).sum::<f64>()
}

impl ClusterlessDecoder {
    /// Occupancy density at each bin, `[B]`.
    pub fn occupancy(&self) -> &[f64] {
        &self.occupancy
    }

    /// Summed ground process intensity at each bin, `[B]`.
    pub fn ground_process_intensity(&self) -> &[f64] {
        &self.ground
    }

    /// Spikes per position sample, for each electrode.
    pub fn mean_rates(&self) -> Vec<f64> {
        self.electrodes.iter().map(|e| e.mean_rate).collect()
    }

    /// Number of features per mark, for each electrode.
    pub fn n_features(&self) -> impl Iterator<Item = usize> {
        self.electrodes.iter().map(|e| e.n_features)
    }

    /// The precision of the fit; a model fitted in f64 predicts in both.
    pub fn precision(&self) -> Precision {
        if self.wide.is_some() { Precision::F64 } else { Precision::F32 }
    }

    /// Number of interior bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Number of coordinates per position.
    pub fn dims(&self) -> usize {
        self.dims
    }
}
