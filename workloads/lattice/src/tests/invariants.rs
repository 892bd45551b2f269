//! The exact properties that define the code.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::{centre, reference};

fn any_code() -> impl Strategy<Value = (Lattice, u32, u32)> {
    let lattice = prop_oneof![Just(Lattice::Z2), Just(Lattice::D4), Just(Lattice::E8)];
    (lattice, prop_oneof![2u32..=9, Just(16)], 1u32..=3)
}

/// Coordinates on a grid of 1/48: ties of every kind for q = 2, 3, 4, 6, 8, 12 are frequent.
fn grid(d: usize) -> impl Strategy<Value = Vec<i64>> {
    proptest::collection::vec(prop_oneof![-2000i64..2000, (-80i64..80).prop_map(|k| 24 * k)], d)
}

fn fast() -> Method {
    Method::Simd(Isa::best())
}

/// g_0 and g_M as stored integers.
fn ends(codec: &Codec, x: &[f32]) -> ([i64; 8], [i64; 8]) {
    let first = reference::finest(codec, x, codec.inverse_scales()[0]);
    let unit = i64::from(codec.q() * codec.lattice().scale());
    let last = (0..codec.levels()).fold(first, |g, _| reference::nearest(codec.lattice(), &g[..x.len()], unit));
    (first, last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_gives_the_finest_point_modulo_the_coarsest((lattice, q, levels) in any_code(), x in grid(8)) {
        let codec = Codec::new(params(lattice, q, levels)).unwrap();
        let x: Vec<f32> = x[..codec.dimension()].iter().map(|&x| x as f32 / 48.0).collect();
        let (packed, flags, retries) = encode(&codec, fast(), &x);
        let decoded = decode(&codec, fast(), &packed, &retries);
        let (first, last) = ends(&codec, &x);
        let side = i64::from(q).pow(levels);
        let scale = f64::from(lattice.scale());
        for (k, &value) in decoded.iter().enumerate() {
            prop_assert_eq!(f64::from(value) * scale, (first[k] - side * last[k]) as f64);
        }
        // There is no overload if and only if the decoded vector is the nearest point.
        let nearest = decoded.iter().zip(first).all(|(&value, g)| f64::from(value) * scale == g as f64);
        prop_assert_eq!(flags[0] == 0, nearest);
        if nearest {
            let distance = x.iter().zip(&decoded).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>().sqrt();
            prop_assert!(distance <= lattice.covering_radius() + 1e-6, "{} away", distance);
        }
    }

    #[test]
    fn nearest_points_move_with_the_lattice(
        (lattice, q, _) in any_code(), x in grid(8), z in proptest::collection::vec(-50i64..50, 8)
    ) {
        let d = lattice.dimension();
        let scale = i64::from(lattice.scale());
        // A lattice vector from its coordinates, as stored integers.
        let mut by = [0; 8];
        for (column, z) in reference::basis(lattice).iter().zip(&z) {
            for (by, c) in by.iter_mut().zip(column) {
                *by += c * z;
            }
        }
        for unit in [48 * scale, i64::from(q) * scale] {
            let here = reference::nearest(lattice, &x[..d], unit);
            let moved: Vec<i64> = (0..d).map(|k| x[k] + by[k] * unit / scale).collect();
            let there = reference::nearest(lattice, &moved, unit);
            for k in 0..d {
                prop_assert_eq!(there[k] - here[k], by[k]);
            }
        }
    }

    #[test]
    fn codes_do_not_see_multiples_of_the_coarsest_lattice(
        (lattice, q, levels) in any_code(), x in grid(8), z in proptest::collection::vec(-3i64..=3, 8)
    ) {
        let codec = Codec::new(params(lattice, q, levels)).unwrap();
        let d = codec.dimension();
        let side = f64::from(q).powi(levels as i32);
        // Multiples of 1/16 are exact in f32 at this size.
        let x: Vec<f32> = x[..d].iter().map(|&x| x as f32 / 16.0).collect();
        let mut moved = x.clone();
        for (column, z) in reference::basis(lattice).iter().zip(&z) {
            for (value, c) in moved.iter_mut().zip(column) {
                *value += (side * (c * z) as f64 / f64::from(lattice.scale())) as f32;
            }
        }
        prop_assert_eq!(encode(&codec, fast(), &x).0, encode(&codec, fast(), &moved).0);
    }

    #[test]
    fn any_code_encodes_to_itself((lattice, q, levels) in any_code(), centred: bool, seed: u64) {
        let codec = Codec::new(Params { centred, beta: 0.37, ..params(lattice, q, levels) }).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let n = 37;
        let digits: Vec<u8> =
            (0..n * codec.levels() * codec.dimension()).map(|_| rng.random_range(0..q) as u8).collect();
        let packed = codec.pack(&digits).unwrap();
        prop_assert_eq!(&codec.digits(&packed, n).unwrap(), &digits);
        let x = decode(&codec, fast(), &packed, &vec![0; n]);
        let (again, flags, _) = encode(&codec, fast(), &x);
        prop_assert_eq!(again, packed);
        prop_assert_eq!(flags, vec![0; n]);
    }

    #[test]
    fn dropping_fine_levels_leaves_a_point_of_a_coarser_lattice((lattice, q, levels) in any_code(), seed: u64) {
        let codec = Codec::new(params(lattice, q, levels)).unwrap();
        let d = codec.dimension();
        let x = normal(16 * d, 0.15 * f64::from(q).powi(levels as i32), seed);
        let (packed, ..) = encode(&codec, fast(), &x);
        let mut digits = codec.digits(&packed, 16).unwrap();
        for dropped in 1..codec.levels() {
            for vector in digits.chunks_exact_mut(codec.levels() * d) {
                vector[..dropped * d].fill(0);
            }
            let mut coarse = vec![f32::NAN; x.len()];
            codec.decode_coarse(fast(), &packed, None, codec.levels() - dropped, &mut coarse).unwrap();
            let zeroed = codec.pack(&digits).unwrap();
            prop_assert_eq!(&coarse, &decode(&codec, fast(), &zeroed, &[0; 16]));
            let weight = i64::from(q).pow(dropped as u32);
            for vector in coarse.chunks_exact(d) {
                let stored: Vec<i64> = vector.iter().map(|&x| (x * lattice.scale() as f32) as i64).collect();
                prop_assert!(stored.iter().all(|s| s % weight == 0));
                let small: Vec<i64> = stored.iter().map(|s| s / weight).collect();
                // A lattice point is its own nearest point.
                let nearest = reference::nearest(lattice, &small, i64::from(lattice.scale()));
                prop_assert_eq!(&small[..], &nearest[..d]);
            }
        }
    }

    #[test]
    fn decoded_values_are_within_two_roundings_of_f64(
        (lattice, q, levels) in any_code(), beta in 1e-3f32..1e3, centred: bool, seed: u64
    ) {
        let codec = Codec::new(Params { beta, centred, overload: Overload::RETRY, ..params(lattice, q, levels) }).unwrap();
        let plain = Codec::new(params(lattice, q, levels)).unwrap();
        let d = codec.dimension();
        let x = normal(8 * d, 0.3 * f64::from(beta) * f64::from(q).powi(levels as i32), seed);
        let (packed, _, retries) = encode(&codec, fast(), &x);
        let got = decode(&codec, fast(), &packed, &retries);
        let points = decode(&plain, fast(), &packed, &[0; 8]);
        for (i, (&got, &point)) in got.iter().zip(&points).enumerate() {
            let scale = f64::from(beta) * (f64::from(retries[i / d]) / 3.0).exp2();
            let moved = f64::from(point) - f64::from(codec.shift()[i % d]);
            let want = moved * scale;
            let bound = 2.0 * f64::from(f32::EPSILON) * (want.abs() + scale * f64::from(point).abs());
            prop_assert!((f64::from(got) - want).abs() <= bound, "{} instead of {}", got, want);
        }
    }
}

#[test]
fn a_level_has_distinct_points_with_the_mean_that_centring_uses() {
    for (lattice, qs) in [(Lattice::Z2, 2..=9), (Lattice::D4, 2..=9), (Lattice::E8, 2..=4)] {
        for q in qs {
            let codec = Codec::new(Params { overload: Overload::None, ..params(lattice, q, 1) }).unwrap();
            let (d, n) = (codec.dimension(), codec.level_points() as usize);
            let mut index = vec![0u8; d];
            let mut digits = Vec::with_capacity(n * d);
            for _ in 0..n {
                digits.extend(&index);
                for digit in index.iter_mut().rev() {
                    *digit = (*digit + 1) % q as u8;
                    if *digit != 0 {
                        break;
                    }
                }
            }
            let x = decode(&codec, Method::Simd(Isa::best()), &codec.pack(&digits).unwrap(), &vec![0; n]);
            let distinct: HashSet<Vec<u32>> =
                x.chunks_exact(d).map(|p| p.iter().map(|v| v.to_bits()).collect()).collect();
            assert_eq!(distinct.len(), n, "{lattice} q {q}");
            let mean = centre::mean(lattice, q);
            for (k, mean) in mean.into_iter().enumerate().take(d) {
                let sum: f64 = x.iter().skip(k).step_by(d).map(|&v| f64::from(v)).sum();
                let found = sum / n as f64;
                assert!((found - mean).abs() < 1e-12, "{lattice} q {q} coordinate {k}: {found} {mean}");
            }
        }
    }
}

#[test]
fn sampled_centres_agree_with_exact_symmetry() {
    // For large q the boundary, and with it the mean, is a vanishing part of the cell.
    for q in [7, 8, 15, 16, 100, 256] {
        for (k, m) in centre::mean(Lattice::E8, q).into_iter().take(8).enumerate() {
            assert!(m.abs() < 1.5, "q {q} coordinate {k}: {m}");
        }
    }
}
