//! Products of all shapes compared with plain f64 sums, on every instruction set of this machine.
#![allow(unsafe_code)]

use ellwand_core::{Case, Dtype, Fit, Registry, Tensor, Tensors, Value};
use ellwand_gpu_lab::testing::{here, prepared};
use proptest::prelude::*;

use super::panel::{Panel, Panels};
use super::product::{blocks, cut, scratch};
use super::{Product, Scratch, Source, product, products};
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;

fn values(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// One product with padded rows of C, A and B; also checks that padding is not written.
fn check(isa: Isa, (m, n, k): (usize, usize, usize), transposed: bool, biased: bool, threads: bool) -> Vec<f32> {
    // Rows of C start on a cache line if n is a multiple of 16, so that some products use streaming stores.
    let (pad_a, pad_b, pad_c) = (3, 5, 16);
    let (rows_b, length_b) = if transposed { (n, k) } else { (k, n) };
    let a = values(m * (k + pad_a), 1);
    let b = values(rows_b * (length_b + pad_b), 2);
    let bias = biased.then(|| values(n, 3));
    let mut c = super::zeros(m * (n + pad_c));
    c.fill(f32::NAN);
    let alpha = 0.5;
    let p = Product {
        m,
        n,
        k,
        a: a.as_ptr(),
        a_stride: k + pad_a,
        b: Source { at: b.as_ptr(), stride: length_b + pad_b, transposed },
        alpha,
        bias: bias.as_deref(),
        c: c.as_mut_ptr(),
        c_stride: n + pad_c,
        stream: m % 2 == 0,
    };
    // SAFETY: the arrays are as long as shape and strides require.
    unsafe {
        if threads {
            products(isa, 1, |_| p, &scratch(ellwand_simd::pool::threads() + 1, n, k));
        } else {
            product(isa, &p, &scratch(1, n, k));
        }
    }
    for i in 0..m {
        for j in 0..n + pad_c {
            let got = c[i * (n + pad_c) + j];
            if j >= n {
                assert!(got.is_nan(), "{m} {n} {k}: wrote beyond row {i}");
                continue;
            }
            let b_at = |step: usize| {
                if transposed { b[j * (k + pad_b) + step] } else { b[step * (n + pad_b) + j] }
            };
            let sum: f64 = (0..k).map(|s| f64::from(a[i * (k + pad_a) + s]) * f64::from(b_at(s))).sum();
            let want = f64::from(alpha) * sum + bias.as_ref().map_or(0.0, |bias| f64::from(bias[j]));
            let allowed = 1e-7 * (4.0 + k as f64);
            assert!(
                (f64::from(got) - want).abs() <= allowed,
                "{} {m}x{n}x{k} transposed {transposed}: [{i},{j}] is {got}, expected {want}",
                isa.name()
            );
        }
    }
    c.to_vec()
}

#[test]
fn every_tail_of_every_shape() {
    for isa in Isa::available() {
        for m in [1, 2, 5, 6, 7, 12, 13] {
            for n in [1, 7, 16, 31, 64, 65, 80, 129, 257] {
                for k in [1, 3, 16, 17, 64] {
                    check(isa, (m, n, k), true, n % 2 == 0, false);
                    check(isa, (m, n, k), false, n % 2 == 1, false);
                }
            }
        }
    }
}

#[test]
fn sums_longer_than_a_block_and_shapes_that_are_cut() {
    for isa in Isa::available() {
        for shape in [(3, 5, 385), (200, 300, 769), (400, 64, 1000)] {
            for transposed in [true, false] {
                let one = check(isa, shape, transposed, true, false);
                let many = check(isa, shape, transposed, true, true);
                let same = one.iter().zip(&many).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{shape:?} differs between one thread and many");
            }
        }
    }
}

#[test]
fn an_empty_sum_is_zero() {
    for isa in Isa::available() {
        check(isa, (3, 9, 0), false, false, false);
        check(isa, (3, 9, 0), true, true, false);
    }
}

#[test]
fn nan_and_infinity_reach_their_own_row_and_column_only() {
    for isa in Isa::available() {
        let (m, n, k) = (7, 20, 5);
        let (mut a, mut b) = (vec![1.0; m * k], vec![1.0; k * n]);
        a[2 * k + 1] = f32::NAN;
        b[3 * n + 4] = f32::INFINITY;
        let mut c = vec![0.0; m * n];
        let p = Product {
            m,
            n,
            k,
            a: a.as_ptr(),
            a_stride: k,
            b: Source { at: b.as_ptr(), stride: n, transposed: false },
            alpha: 1.0,
            bias: None,
            c: c.as_mut_ptr(),
            c_stride: n,
            stream: false,
        };
        // SAFETY: the arrays are as long as the shape requires.
        unsafe { product(isa, &p, &scratch(1, n, k)) };
        for (at, c) in c.iter().enumerate() {
            match (at / n, at % n) {
                (2, _) => assert!(c.is_nan()),
                (_, 4) => assert_eq!(*c, f32::INFINITY),
                _ => assert_eq!(*c, 5.0),
            }
        }
    }
}

#[test]
fn panels_cover_the_columns_once_and_are_nearly_equal() {
    let five: Vec<Panel> = Panels::new(80, 16, 4).collect();
    assert_eq!(five, [Panel { first: 0, columns: 48, vectors: 3 }, Panel { first: 48, columns: 32, vectors: 2 }]);
    assert_eq!(Panels::new(0, 16, 4).count(), 0);
}

#[test]
fn scratch_is_counted_and_lent_once() {
    let scratch = Scratch::new(2, 100);
    assert_eq!(scratch.bytes(), 800);
    let (a, b) = (scratch.borrow(), scratch.borrow());
    assert_ne!(a.as_ptr(), b.as_ptr());
}

#[test]
fn every_implementation_passes_its_judge_and_poison_fails() {
    let mut registry = Registry::new();
    super::register(&mut registry);
    let workload = registry.find("matmul").unwrap();
    for (m, n, k) in [(1, 1, 1), (7, 33, 65), (512, 800, 768), (300, 200, 3000)] {
        for (transposed, precision) in [(true, "f32"), (false, "f32"), (true, "bf16"), (false, "bf16")] {
            let case = case([m, n, k], transposed, precision);
            let inputs = workload.inputs(&case, 42).unwrap();
            let expected = workload.reference(&case, &inputs).unwrap();
            let mut judged = Vec::new();
            let rows = here(&registry, "matmul");
            for row in &rows {
                let Some(mut ready) = prepared(row, &case, &inputs) else { continue };
                judged.push(row.name.as_str());
                ready.poison(ellwand_core::Poison::Ones);
                assert!(!workload.judge(&case, &inputs, &expected, &ready.output().unwrap()).passed, "{row:?}");
                ready.run();
                let verdict = workload.judge(&case, &inputs, &expected, &ready.output().unwrap());
                assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                let threads = ready.threads().filter(|_| row.name == "parallel").unwrap_or(1);
                let named = row.name != "parallel" || ready.what_ran().contains(&pool::about(threads, "values"));
                assert!(named, "{row:?} {case}: {}", ready.what_ran());
            }
            assert!(precision == "bf16" || judged.len() == rows.len(), "{judged:?} only");
            assert!(["reference", "scalar", "simd", "parallel"].iter().all(|row| judged.contains(row)), "{judged:?}");
        }
    }
}

fn case([m, n, k]: [i64; 3], transposed: bool, precision: &str) -> Case {
    let sizes = [("m", m), ("n", n), ("k", k)].map(|(axis, size)| (axis.to_owned(), Value::Int(size)));
    let mut case = Case::new("matmul", sizes.to_vec());
    case.params.push(("transposed".into(), Value::Flag(transposed)));
    case.params.push(("precision".into(), precision.into()));
    case
}

#[test]
fn in_bf16_half_the_bytes_move_and_units_for_products_are_the_limit() {
    let mut registry = Registry::new();
    super::register(&mut registry);
    let workload = registry.find("matmul").unwrap();
    let [wide, narrow] = ["f32", "bf16"].map(|precision| workload.work(&case([30, 20, 10], true, precision)));
    assert_eq!((wide.bytes_total(), narrow.bytes_total()), (4 * 1100, 2 * 1100));
    assert_eq!((wide.bf16, narrow.bf16, wide.flops, narrow.flops), (false, true, 12_000.0, 12_000.0));
    // f32 is not part of a case's id, so older cases keep theirs.
    let axis = workload.axes().iter().find(|axis| axis.name == "precision").unwrap();
    assert_eq!(axis.neutral, Some("f32".into()));
}

#[test]
fn arrays_of_bf16_are_bits_and_others_are_refused_with_how_to_make_them() {
    let mut registry = Registry::new();
    super::register(&mut registry);
    let workload = registry.find("matmul").unwrap();
    let (made, other) = (case([3, 4, 5], true, "bf16"), case([1, 1, 1], true, "bf16"));
    let inputs = workload.inputs(&made, 3).unwrap();
    assert!(workload.ports(&made).inputs.iter().chain(&workload.ports(&made).outputs).all(|p| p.dtype == Dtype::U16));
    let (adopted, kept) = workload.adopt(&other, inputs.clone(), Fit::Whole).unwrap();
    assert_eq!(["m", "n", "k"].map(|axis| adopted.int(axis)), [Some(3), Some(4), Some(5)]);
    assert_eq!(kept.digest(), inputs.digest());
    let wide = workload.inputs(&case([3, 4, 5], true, "f32"), 3).unwrap();
    let refused = workload.adopt(&other, wide, Fit::Whole).unwrap_err().to_string();
    assert!(refused.starts_with("a: it holds float32; expected uint16") && refused.contains("view"), "{refused}");
}

/// A product of normal values whose outputs are so large that bf16 rounding hides as much as possible.
#[test]
fn a_product_that_lost_a_term_does_not_pass_in_bf16_and_one_summed_up_with_cut_off_sums_does() {
    let mut registry = Registry::new();
    super::register(&mut registry);
    let workload = registry.find("matmul").unwrap();
    let (m, n, k) = (24, 24, 4096);
    let case = case([m, n, k], true, "bf16");
    let inputs = workload.inputs(&case, 8).unwrap();
    let expected = workload.reference(&case, &inputs).unwrap();
    let wide = ellwand_simd::precision::widened(inputs.clone(), &super::half::INPUTS).unwrap();
    let (a, b) = (wide.f32("a").unwrap(), wide.f32("b").unwrap());
    let judged = |steps: usize| {
        let mut c = Vec::new();
        for (i, j) in (0..m as usize).flat_map(|i| (0..n as usize).map(move |j| (i, j))) {
            let row = |x: &[f32], at: usize| x[at * k as usize..][..steps].to_vec();
            let mut sum = 0.0_f32;
            // Steps of eight, as in matrix units: exact within a step, then truncated.
            for (a, b) in row(a, i).chunks(8).zip(row(b, j).chunks(8)) {
                let exact = f64::from(sum) + a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                sum = exact as f32;
                if f64::from(sum).abs() > exact.abs() {
                    sum = f32::from_bits(sum.to_bits() - 1);
                }
            }
            c.push(ellwand_simd::lanes::half::narrow(sum));
        }
        let got = Tensors::new().with("c", Tensor::new(&[m as usize, n as usize], &c[..]).unwrap());
        workload.judge(&case, &inputs, &expected, &got)
    };
    let verdict = judged(k as usize);
    assert!(verdict.passed, "{}", verdict.detail);
    assert!(!judged(k as usize - 1).passed);
}

proptest! {
    #[test]
    fn panels_are_a_partition(columns in 0_usize..2000, lanes in prop::sample::select(vec![8_usize, 16]), most in 1_usize..5) {
        let mut next = 0;
        for panel in Panels::new(columns, lanes, most) {
            prop_assert_eq!(panel.first, next);
            prop_assert!(panel.vectors <= most && panel.columns > (panel.vectors - 1) * lanes);
            next += panel.columns;
        }
        prop_assert_eq!(next, columns);
    }

    #[test]
    fn jobs_cover_c(count in 1_usize..50, m in 1_usize..5000, n in 1_usize..5000, k in 0_usize..5000, wanted in 1_usize..100) {
        let widest = blocks(n, k).1;
        let (rows, columns) = cut(count, m, n, widest, wanted);
        prop_assert!(rows >= 1 && (1..=widest).contains(&columns));
        prop_assert!(rows * m.div_ceil(rows) >= m && columns * n.div_ceil(columns) >= n);
    }
}
