//! The encoders compared with constants and tables from the theory.

use super::*;
use crate::{Quality, smallest_scale};

/// Normalized second moment of the encoder's own cells by Monte Carlo: mean and standard error.
fn second_moment(lattice: Lattice, samples: usize) -> (f64, f64) {
    let codec = Codec::new(params(lattice, 16, 2)).unwrap();
    let d = codec.dimension();
    let mut rng = ChaCha8Rng::seed_from_u64(20_250_101);
    let chunk = 1 << 15;
    let (mut sum, mut squares, mut n) = (0.0f64, 0.0f64, 0usize);
    while n < samples {
        // Uniform over whole periods of every lattice here (2 Z^d), far inside the codebook.
        let x: Vec<f32> = (0..chunk * d).map(|_| rng.random::<f32>() * 16.0 - 8.0).collect();
        let (packed, flags, retries) = encode(&codec, Method::Simd(Isa::best()), &x);
        assert!(flags.iter().all(|&flag| flag == 0), "{lattice} overloaded");
        let y = decode(&codec, Method::Simd(Isa::best()), &packed, &retries);
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact(d)) {
            let e: f64 = x.iter().zip(y).map(|(x, y)| f64::from(x - y).powi(2)).sum();
            sum += e;
            squares += e * e;
        }
        n += chunk;
    }
    let (mean, n) = (sum / n as f64, n as f64);
    let unit = d as f64 * lattice.determinant().powf(2.0 / d as f64);
    (mean / unit, ((squares / n - mean * mean) / n).sqrt() / unit)
}

#[test]
fn second_moments_are_the_lattices() {
    for (lattice, known) in [(Lattice::Z2, 0.083333), (Lattice::D4, 0.076603), (Lattice::E8, 0.071682)] {
        let (moment, error) = second_moment(lattice, 10_000_000);
        assert!((moment - known).abs() < 4.0 * error + 5e-7, "{lattice}: {moment} +- {error}, known {known}");
        assert!((lattice.normalized_second_moment() - known).abs() < 1e-6, "{lattice}");
        assert!(error < 3e-5, "{lattice}: {error} proves nothing");
    }
}

/// Least MSE * 2^(2R) over the grid of scales, for normal data.
fn distance(lattice: Lattice, q: u32, levels: u32, centred: bool, vectors: usize) -> f64 {
    let x = normal(vectors * lattice.dimension(), 1.0, 2025);
    let base = Params { centred, overload: Overload::RETRY, ..params(lattice, q, levels) };
    (0..40)
        .map(|k| {
            let beta = (smallest_scale(&base) * (1.0 + 0.05 * f64::from(k))) as f32;
            let codec = Codec::new(Params { beta, ..base }).unwrap();
            let quality = Quality::measure(&codec, &x).unwrap();
            quality.mse * (2.0 * quality.rate).exp2()
        })
        .fold(f64::INFINITY, f64::min)
}

fn table(vectors: usize, tolerance: f64) {
    let rows = [
        (Lattice::D4, 3, 2, 2.115),
        (Lattice::D4, 4, 2, 1.995),
        (Lattice::D4, 5, 2, 1.819),
        (Lattice::D4, 6, 2, 1.791),
        (Lattice::D4, 7, 2, 1.758),
        (Lattice::D4, 8, 2, 1.736),
        (Lattice::D4, 4, 1, 1.946),
        (Lattice::D4, 4, 3, 1.990),
        (Lattice::E8, 3, 2, 1.974),
        (Lattice::E8, 4, 2, 1.755),
        (Lattice::E8, 8, 2, 1.523),
        (Lattice::Z2, 3, 2, 2.035),
        (Lattice::Z2, 4, 2, 3.236),
        (Lattice::Z2, 8, 2, 2.237),
    ];
    for (lattice, q, levels, known) in rows {
        let found = distance(lattice, q, levels, false, vectors);
        assert!((found / known - 1.0).abs() < tolerance, "{lattice} q {q} M {levels}: {found}, table {known}");
    }
}

#[test]
fn distortion_and_rate_of_the_authors_protocol() {
    // The table's own 20,000 vectors have about 1 % noise, and so does this sample.
    table(20_000, 0.03);
}

#[test]
#[ignore = "a minute: 400,000 vectors a row"]
fn distortion_and_rate_within_two_per_cent() {
    table(400_000, 0.02);
}

#[test]
fn centring_improves_as_computed() {
    let rows = [
        (Lattice::Z2, 4, 2, 3.16, 2.00),
        (Lattice::Z2, 2, 2, 43.0, 2.00),
        (Lattice::D4, 2, 2, 21.0, 2.62),
        (Lattice::D4, 4, 2, 2.01, 1.90),
        (Lattice::D4, 4, 3, 1.99, 1.89),
        (Lattice::E8, 2, 2, 14.0, 2.78),
        (Lattice::E8, 3, 2, 1.98, 1.83),
        (Lattice::E8, 4, 2, 1.75, 1.66),
    ];
    for (lattice, q, levels, off, on) in rows {
        let plain = distance(lattice, q, levels, false, 20_000);
        let centred = distance(lattice, q, levels, true, 20_000);
        assert!((centred / on - 1.0f64).abs() < 0.03, "{lattice} q {q} M {levels} centred: {centred}, known {on}");
        if q == 2 {
            // One-sided codebooks: their loss depends on the few vectors that reach the cap.
            assert!(plain > 4.0 * centred && plain > 0.5 * off, "{lattice} M {levels}: {plain}, known {off}");
        } else {
            assert!((plain / off - 1.0f64).abs() < 0.06, "{lattice} q {q} M {levels}: {plain}, known {off}");
        }
        assert!(centred < plain);
    }
}

#[test]
fn chosen_scale_is_near_the_best_of_the_grid_and_scales_with_the_data() {
    let base = Params { overload: Overload::RETRY, ..params(Lattice::D4, 4, 2) };
    let x = normal(40_000, 1.0, 5);
    let beta = crate::choose_beta(&base, &x).unwrap();
    assert!((0.16..0.24).contains(&beta), "{beta}");
    let large: Vec<f32> = x.iter().map(|x| x * 1024.0).collect();
    assert_eq!(crate::choose_beta(&base, &large).unwrap(), beta * 1024.0);
    assert_eq!(crate::choose_beta(&base, &[0.0; 400]).unwrap(), 1.0);
    let huge = crate::choose_beta(&base, &[3e38; 400]).unwrap_err().to_string();
    assert!(huge.contains("x: a root mean square of 3"), "{huge}");
}

/// With q = 2 the codebook is one-sided: at the scales for a balanced one most vectors decode to something far away.
#[test]
fn a_chosen_scale_never_loses_more_than_the_data() {
    let x = normal(8000, 1.0, 5);
    for (lattice, levels) in [(Lattice::Z2, 6), (Lattice::D4, 8), (Lattice::E8, 8), (Lattice::D4, 3)] {
        let base = Params { overload: Overload::RETRY, ..params(lattice, 2, levels) };
        let beta = crate::choose_beta(&base, &x).unwrap();
        let codec = crate::Codec::new(Params { beta, ..base }).unwrap();
        let mse = crate::Quality::measure(&codec, &x).unwrap().mse;
        assert!(mse < 1.0, "{lattice} M {levels}: scale {beta}, error {mse} of a power of 1");
    }
}
