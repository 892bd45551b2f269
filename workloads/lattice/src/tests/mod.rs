//! Tests of the quantizer. Larger sweeps are marked `ignored`.

mod agreement;
mod container;
mod cuda;
mod dots;
mod golden;
mod invariants;
mod theory;
mod workloads;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::{Codec, CodesMut, Isa, Lattice, Method, Overload, Params};

/// Every method on this machine, the reference first.
fn methods() -> Vec<Method> {
    let mut methods = vec![Method::Reference, Method::Scalar];
    methods.extend(Isa::available().into_iter().map(Method::Simd));
    methods.push(Method::Parallel(Isa::best()));
    methods
}

fn params(lattice: Lattice, q: u32, levels: u32) -> Params {
    Params { lattice, q, levels, beta: 1.0, centred: false, overload: Overload::Flag }
}

/// Packed codes, overload flags and retries (zeros if the mode has none).
fn encode(codec: &Codec, method: Method, x: &[f32]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let n = x.len() / codec.dimension();
    // Poisoned, so that an implementation must write everything.
    let (mut packed, mut flags, mut retries) = (vec![0xa5; codec.packed_len(n)], vec![0xa5; n], vec![0xa5; n]);
    let out = CodesMut {
        packed: &mut packed,
        overload: codec.has_overload().then_some(&mut flags),
        retries: codec.has_retries().then_some(&mut retries),
    };
    codec.encode(method, x, out).unwrap();
    (packed, flags, retries)
}

fn decode(codec: &Codec, method: Method, packed: &[u8], retries: &[u8]) -> Vec<f32> {
    let mut x = vec![f32::NAN; retries.len() * codec.dimension()];
    codec.decode(method, packed, codec.has_retries().then_some(retries), &mut x).unwrap();
    x
}

fn normal(n: usize, spread: f64, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..n)
        .map(|_| {
            let value: f64 = StandardNormal.sample(&mut rng);
            (value * spread) as f32
        })
        .collect()
}

/// Values that break quantizers: lattice points, exact ties at several scales, signed zeros, subnormals and huge
/// values, with ordinary ones in between.
fn awkward(n: usize, d: usize, beta: f32, q: u32, side: f64, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut x = Vec::with_capacity(n * d);
    for v in 0..n {
        let spread = [0.2 * side, 0.05 * side, 1.0, 3.0][rng.random_range(0..4)];
        for _ in 0..d {
            let g: f64 = StandardNormal.sample(&mut rng);
            let g = g * spread;
            let special = [0.0, -0.0, 1e-40, -1e-42, 6e4, -6e4, f32::MIN_POSITIVE, -1e-9];
            x.push(match v % 8 {
                0 | 1 => (g * f64::from(beta)) as f32,
                2 => beta * g.round() as f32,
                3 => beta * 0.5 * g.round() as f32,
                4 => beta * (g * f64::from(q)).round() as f32 / q as f32,
                5 => beta * 0.5 * q as f32 * (g / f64::from(q)).round() as f32,
                6 => special[rng.random_range(0..special.len())],
                // Ties between two residuals, and residuals that differ only in the last bits.
                _ => beta * (g.round() + [0.25, -0.25, 0.249_999_99, 0.5][rng.random_range(0..4)]) as f32,
            });
        }
    }
    x
}
