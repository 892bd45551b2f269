//! Products on codes equal products of decoded values.

use super::*;
use crate::dot::{CodedRows, Integers, OneSided, TwoSided, f32_scores};
use ellwand_core::PrepareError;

#[test]
fn every_way_gives_the_product_of_the_decoded_rows() {
    for (lattice, q, levels) in [
        (Lattice::Z2, 4, 2),
        (Lattice::Z2, 16, 2),
        (Lattice::D4, 2, 3),
        (Lattice::D4, 3, 2),
        (Lattice::D4, 4, 2),
        (Lattice::D4, 8, 1),
        (Lattice::E8, 2, 2),
        (Lattice::E8, 3, 2),
    ] {
        let codec = Codec::new(Params { beta: 0.75, overload: Overload::None, ..params(lattice, q, levels) }).unwrap();
        let (rows, blocks) = (5, 37);
        let row = blocks * codec.dimension();
        let spread = 0.15 * f64::from(q).powi(levels as i32);
        let (x, y) = (normal(rows * row, spread, 1), normal(row, spread, 2));
        let coded = CodedRows::encode(&codec, &x, rows).unwrap();
        let query = CodedRows::encode(&codec, &y, 1).unwrap();
        let decoded = |x: &[f32]| {
            let (packed, ..) = encode(&codec, Method::Reference, x);
            decode(&codec, Method::Reference, &packed, &vec![0; x.len() / codec.dimension()])
        };
        let (dx, dy) = (decoded(&x), decoded(&y));
        // Multiples of beta^2 / 4 below 2^53: exact in f64.
        let exact: Vec<f64> =
            dx.chunks_exact(row).map(|r| r.iter().zip(&dy).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()).collect();
        let same = |scores: &[f32]| scores.iter().zip(&exact).all(|(&got, &want)| got == want as f32);
        let size: f64 = dy.iter().map(|&y| f64::from(y).powi(2)).sum();
        let close =
            |scores: &[f32]| scores.iter().zip(&exact).all(|(&got, &want)| (f64::from(got) - want).abs() < 1e-5 * size);
        let mut scores = vec![f32::NAN; rows];
        match TwoSided::new(&coded) {
            Ok(table) => {
                table.scores(&coded, &query, &mut scores).unwrap();
                assert!(same(&scores), "two-sided {lattice} q {q}: {scores:?} {exact:?}");
            }
            Err(error) => {
                assert!(
                    matches!(error, PrepareError::Unsupported(_)) && codec.level_points().pow(2) > 1 << 17,
                    "{error}"
                );
            }
        }
        for isa in Isa::available() {
            let integers = Integers::new(&coded, isa).unwrap();
            scores.fill(f32::NAN);
            integers.scores(&coded, &integers.row(&query, 0), &mut scores).unwrap();
            assert!(same(&scores), "integers {lattice} q {q} on {}", isa.name());
            scores.fill(f32::NAN);
            f32_scores(isa, &dx, &dy, &mut scores).unwrap();
            assert!(close(&scores), "f32 {lattice} q {q} on {}: {scores:?} {exact:?}", isa.name());
        }
        scores.fill(f32::NAN);
        OneSided::new(&coded).unwrap().scores(&coded, &dy, &mut scores).unwrap();
        assert!(close(&scores), "one-sided {lattice} q {q}: {scores:?} {exact:?}");
    }
}

#[test]
fn impossible_tables_give_the_reason() {
    let unsupported = |params: Params, word: &str| {
        let codec = Codec::new(params).unwrap();
        let error = CodedRows::encode(&codec, &vec![0.5; 2 * codec.dimension()], 2)
            .and_then(|rows| TwoSided::new(&rows).map(drop))
            .unwrap_err();
        assert!(matches!(error, PrepareError::Unsupported(_)) && error.to_string().contains(word), "{error}");
    };
    let plain = Params { overload: Overload::None, ..params(Lattice::E8, 4, 2) };
    unsupported(plain, "two-sided");
    unsupported(Params { q: 8, ..plain }, "too large a table");
    unsupported(Params { centred: true, ..plain }, "no centring");
    unsupported(Params { overload: Overload::RETRY, ..plain }, "one scale");
}
