//! The centring constant: the mean of the codebook.
//!
//! For even q the half-open Voronoi cell is lopsided (Z at q = 4 holds -2..=1), so an M-level
//! codebook has its mean away from the origin and wastes range on one side. Encoding x/beta + z
//! and subtracting z after decoding, with z = mean(A_q) * (1 + q + .. + q^(M-1)), centres it.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::params::{Lattice, MAX_DIMENSION};
use super::scalar;

/// E8 levels with at most this many points are enumerated.
const ENUMERATED: u64 = 1 << 21;
/// Point classes sampled for larger E8 levels.
const SAMPLED: u64 = 1 << 20;

/// The constant for a whole code, in lattice units, rounded to f32 once.
pub(super) fn shift(lattice: Lattice, q: u32, levels: u32) -> [f32; MAX_DIMENSION] {
    let repunit: u64 = (0..levels).map(|m| u64::from(q).pow(m)).sum();
    mean(lattice, q).map(|m| (m * repunit as f64) as f32)
}

/// Mean of the q^d points A_q of one level, in lattice units; unused coordinates are 0.
pub(super) fn mean(lattice: Lattice, q: u32) -> [f64; MAX_DIMENSION] {
    match lattice {
        // Residuals are uniform on -ceil(q/2)..=.., so the mean is -1/2 for even q and 0 for odd q.
        Lattice::Z2 => std::array::from_fn(|k| if k < 2 && q.is_multiple_of(2) { -0.5 } else { 0.0 }),
        Lattice::D4 => d4(q),
        Lattice::E8 => e8(q),
    }
}

/// D4 in closed form.
///
/// A class modulo q D4 is a residual vector r in [-q/2, q/2)^4 and the parity of the rounded
/// point. For odd q the residuals are symmetric and so is the mean. For even q the sum of r is
/// even, the parity is free, and the odd half flips its first largest coordinate k by the sign of
/// r_k, which moves y_k by -q sign(r_k). Signs cancel except for r_k = -q/2, which has no mirror
/// image, and for r = 0, which counts as positive at k = 0.
fn d4(q: u32) -> [f64; MAX_DIMENSION] {
    let mut mean = [0.0; MAX_DIMENSION];
    if q % 2 == 1 {
        return mean;
    }
    let (q, n) = (i128::from(q), 4);
    let inner = q / 2 - 1;
    for (k, m) in mean.iter_mut().take(n).enumerate() {
        let before = (q - 1).pow(k as u32);
        let lowest = if k + 1 < n {
            before * q.pow((n - 1 - k) as u32) / 2
        } else {
            // All other coordinates are strictly inside, and their sum has the parity of q/2.
            let excess = if inner % 2 == 0 { 1 } else { -1i128 }.pow(k as u32);
            let wanted = if (q / 2) % 2 == 0 { 1 } else { -1 };
            (before + wanted * excess) / 2
        };
        let signs = i128::from(k == 0) - lowest;
        *m = -0.5 - (q * signs) as f64 / q.pow(n as u32) as f64;
    }
    mean
}

/// E8 by counting: all classes if they are few, else a fixed sample of antithetic pairs.
///
/// Only classes on the boundary of the cell contribute, because rep(-p) = -rep(p) inside. A pair therefore adds no
/// variance except on the boundary, a fraction of about 1/q: the standard error of a sampled coordinate stays below
/// 0.01 + 0.00005 q lattice units, for a cell of size q. The sums are integers, so the result is the same on every
/// machine.
fn e8(q: u32) -> [f64; MAX_DIMENSION] {
    static KNOWN: OnceLock<Mutex<HashMap<u32, [f64; MAX_DIMENSION]>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    // A poisoned lock only means that another thread panicked elsewhere; the map remains valid.
    if let Some(&mean) = known.lock().unwrap_or_else(PoisonError::into_inner).get(&q) {
        return mean;
    }
    let mut sums = [0i64; MAX_DIMENSION];
    let points = u64::from(q).pow(8.min(ENUMERATED.ilog(u64::from(q)) + 1));
    let count = if points <= ENUMERATED {
        for index in 0..points {
            let mut rest = index;
            let digits: [i32; 8] = std::array::from_fn(|_| {
                let digit = (rest % u64::from(q)) as i32;
                rest /= u64::from(q);
                digit
            });
            add(&mut sums, &scalar::e8_point(&digits, q as i32));
        }
        points
    } else {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(q));
        for _ in 0..SAMPLED {
            let digits: [i32; 8] = std::array::from_fn(|_| rng.random_range(0..q as i32));
            add(&mut sums, &scalar::e8_point(&digits, q as i32));
            let mirrored = digits.map(|b| if b == 0 { 0 } else { q as i32 - b });
            add(&mut sums, &scalar::e8_point(&mirrored, q as i32));
        }
        2 * SAMPLED
    };
    let mean = sums.map(|s| s as f64 / (2 * count) as f64);
    known.lock().unwrap_or_else(PoisonError::into_inner).insert(q, mean);
    mean
}

fn add(sums: &mut [i64; MAX_DIMENSION], point: &[i32; 8]) {
    for (sum, &coordinate) in sums.iter_mut().zip(point) {
        *sum += i64::from(coordinate);
    }
}
