//! All implementations give the same bits.

use super::*;

/// Compares every method with the reference on `n` vectors of each code of a lattice.
fn sweep(lattice: Lattice, n: usize, betas: &[f32]) {
    let mut vectors = 0;
    for q in [2, 3, 4, 5, 7, 8, 16, 256] {
        for levels in 1..=3 {
            for centred in [false, true] {
                for overload in [Overload::None, Overload::Flag, Overload::RETRY] {
                    for &beta in betas {
                        let params = Params { lattice, q, levels, beta, centred, overload };
                        // 256^3 is rejected by design.
                        let Ok(codec) = Codec::new(params) else { continue };
                        let side = f64::from(q).powi(levels as i32);
                        let seed = u64::from(q * 1000 + levels * 10 + u32::from(centred));
                        compare(&codec, &awkward(n, codec.dimension(), beta, q, side, seed));
                        vectors += n;
                    }
                }
            }
        }
    }
    assert!(vectors >= 138 * n * betas.len(), "{vectors} vectors only");
}

fn compare(codec: &Codec, x: &[f32]) {
    let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let want = encode(codec, Method::Reference, x);
    let values = bits(decode(codec, Method::Reference, &want.0, &want.2));
    for method in methods() {
        let got = encode(codec, method, x);
        assert!(got == want, "codes of {method:?} differ: {:?}", codec.params());
        let decoded = bits(decode(codec, method, &got.0, &got.2));
        assert!(decoded == values, "values of {method:?} differ: {:?}", codec.params());
        for depth in 1..codec.levels() {
            let coarse = |method| {
                let mut out = vec![f32::NAN; x.len()];
                let retries = codec.has_retries().then_some(&want.2[..]);
                codec.decode_coarse(method, &want.0, retries, depth, &mut out).unwrap();
                bits(out)
            };
            assert!(coarse(method) == coarse(Method::Reference), "{depth} levels, {method:?}: {:?}", codec.params());
        }
    }
}

#[test]
fn z2_same_bits_everywhere() {
    sweep(Lattice::Z2, 2501, &[0.7, 2.0, 1.0]);
}

#[test]
fn d4_same_bits_everywhere() {
    sweep(Lattice::D4, 2501, &[0.7, 2.0, 1.0]);
}

#[test]
fn e8_same_bits_everywhere() {
    sweep(Lattice::E8, 2501, &[0.7, 2.0, 1.0]);
}

#[test]
#[ignore = "minutes: ten million vectors per lattice"]
fn same_bits_on_ten_million() {
    for lattice in Lattice::ALL {
        sweep(lattice, 24_001, &[0.7, 2.0, 1.0]);
    }
}

#[test]
fn every_batch_size_up_to_two_chunks() {
    for (lattice, q, levels) in [(Lattice::D4, 4, 2), (Lattice::E8, 3, 2), (Lattice::Z2, 5, 3), (Lattice::E8, 8, 2)] {
        let codec = Codec::new(Params { overload: Overload::RETRY, ..params(lattice, q, levels) }).unwrap();
        for n in (0..70).chain([255, 256, 257, 511, 513]) {
            let x = awkward(n, codec.dimension(), 1.0, q, f64::from(q).powi(levels as i32), n as u64);
            let want = encode(&codec, Method::Scalar, &x);
            for isa in Isa::available() {
                assert!(encode(&codec, Method::Simd(isa), &x) == want, "{lattice} {n} vectors on {}", isa.name());
                let got = decode(&codec, Method::Simd(isa), &want.0, &want.2);
                assert!(got == decode(&codec, Method::Scalar, &want.0, &want.2), "{lattice} {n} on {}", isa.name());
            }
        }
    }
}

#[test]
fn threads_split_streams_on_bytes() {
    // 7 bits per level: pieces must still start on bytes.
    let codec = Codec::new(Params { overload: Overload::RETRY, ..params(Lattice::D4, 3, 3) }).unwrap();
    let x = normal(40_003 * 4, 5.0, 11);
    let want = encode(&codec, Method::Scalar, &x);
    let codes = encode(&codec, Method::Parallel(Isa::best()), &x);
    let values = decode(&codec, Method::Parallel(Isa::best()), &codes.0, &codes.2);
    assert!(codes == want && values == decode(&codec, Method::Scalar, &want.0, &want.2));
}

#[test]
fn not_a_number_and_infinity_overload_and_agree() {
    for lattice in Lattice::ALL {
        let codec = Codec::new(params(lattice, 4, 2)).unwrap();
        let mut x = vec![0.25f32; 3 * codec.dimension()];
        x[0] = f32::NAN;
        x[codec.dimension()] = f32::INFINITY;
        x[2 * codec.dimension()] = f32::NEG_INFINITY;
        for method in methods() {
            let (packed, flags, _) = encode(&codec, method, &x);
            assert_eq!(flags, [1, 1, 1], "{lattice} {method:?}");
            assert_eq!(packed, encode(&codec, Method::Reference, &x).0, "{lattice} {method:?}");
        }
    }
}

#[test]
fn invalid_index_is_an_error_everywhere() {
    // 81 points in 7 bits, 225 in 8, 6561 in 13, 49 in 6: all ones is not a valid index.
    for (lattice, q, levels) in
        [(Lattice::D4, 3, 2), (Lattice::Z2, 15, 2), (Lattice::E8, 3, 1), (Lattice::E8, 5, 2), (Lattice::Z2, 7, 7)]
    {
        let codec = Codec::new(Params { overload: Overload::None, ..params(lattice, q, levels) }).unwrap();
        let d = codec.dimension();
        let mut packed = vec![0; codec.packed_len(5000)];
        // Vector 4600 starts on a byte.
        packed[codec.vector_bits() * 4600 / 8..][..4].fill(0xff);
        for method in methods() {
            let error = codec.decode(method, &packed, None, &mut vec![0.0; 5000 * d]).unwrap_err();
            let named = error.argument == "packed" && error.problem.contains(" of vector 4600, ");
            assert!(named, "{lattice} q {q}, {method:?}: {error}");
        }
    }
}
