//! Clusterless decoding with kernel densities: the animal's position from unsorted spikes and their marks.
//!
//! The model of the public non_local_detector repository (likelihoods/clusterless_kde.py), in its linear form: a rate
//! over position and mark is a sum of Gaussian kernels at the encoding spikes, divided by the occupancy.
//! [`ClusterlessDecoder::fit`] builds the model, [`ClusterlessDecoder::predict`] computes the log likelihood of each
//! time bin at each position bin, and [`ClusterlessDecoder::predict_local`] at the animal's own position. Two details
//! differ from the published log-space form: the floor of 1e-15 applies to the finished rate, so that an outlier
//! affects all bins equally, and an electrode without encoding spikes gives the floor, never NaN. Results in f32 are
//! within 2e-4 + 1e-5 |LL| of the f64 reference; a model fitted with [`Precision::F64`] also predicts in f64
//! ([`ClusterlessDecoder::predict_f64`]), within 1e-11.
//!
//! ```
//! use ellwand_simd::isa::Isa;
//! use ellwand_kde::{Bandwidth, ClusterlessDecoder, Decoding, Method, Options, Spikes, Track};
//!
//! // The animal runs from 0 to 10 cm; one electrode, marks of one feature, loud in the first half of the track.
//! let time: Vec<f64> = (0..=100).map(f64::from).collect();
//! let position: Vec<f64> = time.iter().map(|t| t / 10.0).collect();
//! let grid: Vec<f64> = (0..20).map(|b| 0.25 + 0.5 * f64::from(b)).collect();
//! let heard = Spikes { times: &[10.0, 20.0, 30.0, 80.0], features: &[90.0, 95.0, 92.0, 40.0], n_features: 1 };
//! let bandwidth = Bandwidth { position: vec![1.0], waveform: vec![5.0] };
//! let track = Track { time: &time, position: &position, dims: 1 };
//! let method = Method::Parallel(Isa::best());
//! let decoder = ClusterlessDecoder::fit(track, &grid, &[heard], &bandwidth, method)?;
//!
//! // Two time bins, one loud spike in the first.
//! let spikes = [Spikes { times: &[0.01], features: &[93.0], n_features: 1 }];
//! let decoding = Decoding { time_edges: &[0.0, 0.02, 0.04], electrodes: &spikes };
//! let log_likelihood = decoder.predict(&decoding, &Options::new(method))?;
//! let first = &log_likelihood[..grid.len()];
//! let best = (0..grid.len()).max_by(|&a, &b| first[a].total_cmp(&first[b]));
//! assert!(grid[best.unwrap()] < 5.0);
//! # Ok::<(), ellwand_core::InputError>(())
//! ```

mod arrays;
mod buffers;
mod cuda;
mod cuda_local;
mod cuda_small;
mod data;
mod error;
mod exact;
mod fit;
mod generate;
mod hard;
mod judge;
mod local;
mod model;
mod numpy;
mod options;
mod plain;
mod predict;
mod product;
mod reach;
mod real;
mod rows;
mod stream;
mod sums;
#[cfg(test)]
mod tests;
mod tiles;
mod wgpu;
mod wgpu_local;
mod wide;
mod wide_sums;
mod workload;
mod workload_memory;
mod workload_run;
mod workload_spec;
mod workload_stream;
mod workload_work;

use ellwand_core::Registry;
use ellwand_gpu::Source;

pub use data::{Bandwidth, Spikes, Track};
use local::LocalWorkspace;
pub use model::{ClusterlessDecoder, FLOOR, LOG_FLOOR};
pub use options::{Method, Options, Precision};
pub use predict::Workspace;
pub use rows::Decoding;
pub use stream::{Arrival, Stream};

/// Sources of all GPU kernels, for checks that compile them all.
pub fn gpu_sources() -> Vec<&'static Source> {
    vec![&cuda::SOURCE, &cuda_local::SOURCE, &wgpu::SOURCE, &wgpu_local::SOURCE]
}

/// Registers the decoder's workloads and their implementations.
pub fn register(registry: &mut Registry) {
    workload::register(registry);
}
