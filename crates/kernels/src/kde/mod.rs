//! Clusterless decoding with kernel densities: where is the animal, from unsorted spikes and their marks.
//!
//! The model of the public non_local_detector repository (likelihoods/clusterless_kde.py), in its linear form: a rate over
//! position and mark is a sum of Gaussian kernels at the encoding spikes, divided by the occupancy. [`ClusterlessDecoder::fit`]
//! makes the model, [`ClusterlessDecoder::predict`] the log likelihood of each time bin at each position bin,
//! [`ClusterlessDecoder::predict_local`] at the animal's own position. Two things are settled otherwise than in the published
//! log-space form: the floor of 1e-15 is applied to the finished rate, so that an outlier says the same of every bin; and an
//! electrode without encoding spikes gives the floor, never NaN.

mod arrays;
mod data;
mod error;
mod exact;
mod fit;
mod generate;
mod judge;
mod local;
mod model;
mod numpy;
mod options;
mod plain;
mod predict;
mod reach;
mod rows;
mod sink;
mod stream;
mod sums;
#[cfg(test)]
mod tests;
mod tiles;
mod workload;
mod workload_run;
mod workload_spec;
mod workload_stream;

use ellwand_core::Registry;

pub use data::{Bandwidth, Spikes, Track};
pub use error::KdeError;
pub use local::LocalWorkspace;
pub use model::{ClusterlessDecoder, FLOOR, LOG_FLOOR};
pub use options::{Method, Options};
pub use predict::Workspace;
pub use rows::Decoding;
pub use stream::{Arrival, Stream};

/// Adds the decoder's workloads and their implementations.
pub fn register(registry: &mut Registry) {
    workload::register(registry);
}
