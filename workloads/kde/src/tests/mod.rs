//! The decoder compared with its reference, with its own invariants, and with golden values computed elsewhere.

mod agreement;
mod cuda;
mod laws;
mod refusals;
mod stream;
mod work;
mod workloads;

use super::generate::{Data, Ragged, Sizes, script, structured};
use super::{Bandwidth, ClusterlessDecoder, Decoding, LocalWorkspace, Method, Options, Precision, Spikes, Track};
use ellwand_core::InputError;
use ellwand_simd::isa::Isa;

fn small() -> Sizes {
    Sizes {
        samples: 400,
        edges: 60,
        electrodes: 5,
        encoding: 60.0,
        decoding: 17.0,
        bins: 77,
        features: 2,
        seconds: 20.0,
        dims: 1,
    }
}

fn script_data(sizes: Sizes) -> Data {
    script(sizes)
}

fn structured_data(sizes: Sizes) -> Data {
    structured(sizes, 11)
}

fn cut<'a>(spikes: &'a Ragged, n_features: &[i64]) -> Vec<Spikes<'a>> {
    let mut at = 0;
    let cut = |(w, f): (&[i64], &i64)| {
        let range = w[0] as usize..w[1] as usize;
        let n = range.len() * *f as usize;
        at += n;
        Spikes { times: &spikes.times[range], features: &spikes.features[at - n..at], n_features: *f as usize }
    };
    spikes.offsets.windows(2).zip(n_features).map(cut).collect()
}

fn track(data: &Data) -> Track<'_> {
    Track { time: &data.position_time, position: &data.position, dims: data.grid_dims() }
}

fn dec_track(data: &Data) -> Track<'_> {
    Track { time: &data.dec_position_time, position: &data.dec_position, dims: data.grid_dims() }
}

impl Data {
    fn grid_dims(&self) -> usize {
        self.position.len() / self.position_time.len()
    }
}

fn fitted(data: &Data, bandwidth: &Bandwidth, method: impl Into<Options>) -> ClusterlessDecoder {
    let encoding = cut(&data.encoding, &data.n_features);
    ClusterlessDecoder::fit(track(data), &data.grid, &encoding, bandwidth, method).unwrap()
}

/// Every implementation on every instruction set of this machine.
fn methods() -> Vec<Method> {
    let mut methods = vec![Method::Scalar];
    for isa in Isa::available() {
        methods.extend([Method::Simd(isa), Method::Parallel(isa), Method::Gemm(isa)]);
    }
    methods
}

fn predicted(data: &Data, bandwidth: &Bandwidth, options: &Options) -> Vec<f32> {
    let decoding = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &decoding };
    fitted(data, bandwidth, options.method).predict(&decoding, options).unwrap()
}

fn exactly(data: &Data, bandwidth: &Bandwidth) -> (ClusterlessDecoder, Vec<f64>) {
    let decoding = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &decoding };
    let model = fitted(data, bandwidth, Method::Reference);
    let exact = model.predict_exactly(&decoding).unwrap();
    (model, exact)
}

/// Prediction in f64, by a model fitted in f64.
fn predicted_f64(data: &Data, bandwidth: &Bandwidth, options: &Options) -> Vec<f64> {
    let options = Options { precision: Precision::F64, ..*options };
    let decoding = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &decoding };
    fitted(data, bandwidth, options).predict_f64(&decoding, &options).unwrap()
}

/// Local prediction in f64.
fn local_f64(
    model: &ClusterlessDecoder,
    track: Track<'_>,
    decoding: &Decoding<'_>,
    how: impl Into<Options>,
) -> Result<Vec<f64>, InputError> {
    let (options, mut out) =
        (Options { precision: Precision::F64, ..how.into() }, vec![0.0; decoding.time_edges.len()]);
    model.local_into(track, decoding, &options, &mut LocalWorkspace::default(), &mut out).map(|()| out)
}

/// The f64 tolerance: 1e-11 absolute where the occupancy exceeds 1e-12. Returns the largest difference.
fn agree_f64(model: &ClusterlessDecoder, exact: &[f64], got: &[f64], what: &str) -> f64 {
    assert_eq!(exact.len(), got.len());
    let mut worst = 0.0_f64;
    for (i, (exact, got)) in exact.iter().zip(got).enumerate() {
        assert!(got.is_finite(), "{what}: value {i} is {got}, the reference {exact}");
        if model.occupancy()[i % model.bins()] > 1e-12 {
            assert!((got - exact).abs() <= 1e-11, "{what}: value {i} is {got}, the reference {exact}");
            worst = worst.max((got - exact).abs());
        }
    }
    worst
}

/// The f32 tolerance: 2e-4 absolute plus 1e-5 relative where the occupancy exceeds 1e-12. Returns the largest
/// difference.
fn agree(model: &ClusterlessDecoder, exact: &[f64], got: &[f32], what: &str) -> f64 {
    assert_eq!(exact.len(), got.len());
    let mut worst = 0.0_f64;
    for (i, (exact, got)) in exact.iter().zip(got).enumerate() {
        assert!(got.is_finite(), "{what}: value {i} is {got}, the reference {exact}");
        if model.occupancy()[i % model.bins()] > 1e-12 {
            let error = (f64::from(*got) - exact).abs();
            assert!(error <= 2e-4 + 1e-5 * exact.abs(), "{what}: value {i} is {got}, the reference {exact}");
            worst = worst.max(error);
        }
    }
    worst
}
