//! Products of every shape against plain sums in f64, on every instruction set of this machine.

use proptest::prelude::*;

use super::panel::{Panel, Panels};
use super::{Product, Scratch, Source, cut, product, products, scratch};
use crate::isa::Isa;

fn values(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// One product with rows of C, A and B further apart than they are long; checks what must not be written, too.
fn check(isa: Isa, (m, n, k): (usize, usize, usize), transposed: bool, biased: bool, threads: bool) -> Vec<f32> {
    // Rows of C that start on a line, where n is a multiple of 16, so that some products are streamed.
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
    // SAFETY: the arrays are as long as shape and strides say.
    unsafe {
        if threads {
            products(isa, 1, |_| p, &scratch(crate::pool::threads() + 1, n, k));
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
        // SAFETY: the arrays are as long as the shape says.
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

/// The processor, for `prepare`.
struct Here;

impl ellwand_core::Device for Here {
    fn id(&self) -> &str {
        "cpu"
    }
    fn kind(&self) -> ellwand_core::DeviceKind {
        ellwand_core::DeviceKind::Cpu
    }
    fn about(&self) -> String {
        String::new()
    }
    fn time(&self, _: ellwand_core::CpuScope, body: &mut dyn FnMut()) -> ellwand_core::Timing {
        body();
        ellwand_core::Timing::default()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn every_implementation_passes_its_judge_and_poison_fails() {
    use ellwand_core::{Case, Registry, Value};
    let mut registry = Registry::new();
    super::register(&mut registry);
    let workload = registry.find("matmul").unwrap();
    for (m, n, k) in [(1, 1, 1), (7, 33, 65), (512, 800, 768), (300, 200, 3000)] {
        for transposed in [true, false] {
            let sizes = [("m", m), ("n", n), ("k", k)].map(|(axis, size)| (axis.to_owned(), Value::Int(size)));
            let mut case = Case::new("matmul", sizes.to_vec());
            case.params.push(("transposed".into(), Value::Flag(transposed)));
            let inputs = workload.inputs(&case, 42).unwrap();
            let expected = workload.reference(&case, &inputs).unwrap();
            for row in
                registry.implementations("matmul").into_iter().filter(|row| row.needs == ellwand_core::DeviceKind::Cpu)
            {
                let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
                ready.poison();
                assert!(!workload.judge(&case, &inputs, &expected, &ready.output().unwrap()).passed, "{row:?}");
                ready.run();
                let verdict = workload.judge(&case, &inputs, &expected, &ready.output().unwrap());
                assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
            }
        }
    }
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
        let widest = super::blocks(n, k).1;
        let (rows, columns) = cut(count, m, n, widest, wanted);
        prop_assert!(rows >= 1 && (1..=widest).contains(&columns));
        prop_assert!(rows * m.div_ceil(rows) >= m && columns * n.div_ceil(columns) >= n);
    }
}
