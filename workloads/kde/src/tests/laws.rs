//! Properties for any data: options and threads change no bit, and edge cases give the defined results.

use proptest::prelude::*;

use super::super::options::thread_bytes;
use super::super::{LOG_FLOOR, Workspace};
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn block_tile_memory_and_threads_change_no_bit(
        block in 1_usize..70, tile in 1_usize..300, seed in 0_u64..5, dims in 1_usize..3, skip: bool,
    ) {
        let sizes = Sizes { encoding: 300.0, decoding: 60.0, bins: 210, dims, features: 3, ..small() };
        let data = structured(sizes, seed);
        for isa in Isa::available() {
            let base = Options { skip, ..Options::new(Method::Simd(isa)) };
            let whole = predicted(&data, &Bandwidth::default(), &base);
            let others = [
                Options { block: Some(block), tile: Some(tile), ..base },
                Options { tile: Some(tile), ..base },
                Options { memory: Some(1_200_000 + 4000 * tile as u64), ..base },
                Options { block: Some(block), method: Method::Parallel(isa), ..base },
            ];
            for options in others {
                let got = predicted(&data, &Bandwidth::default(), &options);
                let same = got.iter().zip(&whole).all(|(a, b)| a.to_bits() == b.to_bits());
                prop_assert!(same, "{options:?}");
            }
            let whole = predicted_f64(&data, &Bandwidth::default(), &base);
            for options in others {
                let got = predicted_f64(&data, &Bandwidth::default(), &options);
                let same = got.iter().zip(&whole).all(|(a, b)| a.to_bits() == b.to_bits());
                prop_assert!(same, "{options:?} in f64");
            }
        }
    }

    #[test]
    fn shifting_time_marks_or_places_together_changes_nothing(by in -50.0_f64..50.0) {
        let data = structured_data(small());
        let (model, exact) = exactly(&data, &Bandwidth::default());
        let mut moved = data.clone();
        [&mut moved.encoding.features, &mut moved.decoding.features].into_iter().flatten().for_each(|x| *x += by);
        [&mut moved.position, &mut moved.grid].into_iter().flatten().for_each(|x| *x -= 3.0 * by);
        agree(&model, &exact, &predicted(&moved, &Bandwidth::default(), &Options::new(Method::Simd(Isa::best()))), "moved");
    }
}

#[test]
fn parts_for_many_threads_change_no_bit() {
    // Enough work to be split between threads.
    let data = structured_data(Sizes { encoding: 500.0, decoding: 200.0, bins: 300, electrodes: 6, ..small() });
    for skip in [false, true] {
        let of = |method| predicted(&data, &Bandwidth::default(), &Options { skip, ..Options::new(method) });
        let (one, many) = (of(Method::Simd(Isa::best())), of(Method::Parallel(Isa::best())));
        assert!(one.iter().zip(&many).all(|(a, b)| a.to_bits() == b.to_bits()));
        for threads in [1, 2, 3, 100] {
            let options = Options { skip, threads: Some(threads), ..Options::new(Method::Parallel(Isa::best())) };
            let got = predicted(&data, &Bandwidth::default(), &options);
            assert!(one.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()), "{threads} threads");
        }
    }
}

#[test]
fn a_workspace_serves_one_shape_after_another() {
    let mut workspace = Workspace::default();
    for sizes in [small(), Sizes { bins: 200, ..small() }, Sizes { decoding: 90.0, ..small() }, small()] {
        let data = script_data(sizes);
        let decoding = cut(&data.decoding, &data.n_features);
        let decoding = Decoding { time_edges: &data.time_edges, electrodes: &decoding };
        let options = Options::new(Method::Simd(Isa::best()));
        let model = fitted(&data, &Bandwidth::default(), options.method);
        let mut out = vec![f32::NAN; data.time_edges.len() * model.bins()];
        model.predict_into(&decoding, &options, &mut workspace, &mut out).unwrap();
        assert_eq!(out, model.predict(&decoding, &options).unwrap());
    }
}

#[test]
fn the_products_of_the_last_prediction_are_counted_and_skipping_leaves_some_out() {
    let data = structured_data(Sizes { encoding: 700.0, bins: 301, ..small() });
    let decoding = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &decoding };
    let encoding = cut(&data.encoding, &data.n_features);
    let lists = decoding.pairs();
    let all: usize = encoding.iter().zip(&lists).map(|(e, d)| e.times.len() * d.len()).sum::<usize>() * 301;
    for method in methods() {
        for precision in [Precision::F32, Precision::F64] {
            let count = |skip: bool, block: Option<usize>| {
                let options = Options { precision, skip, block, ..Options::new(method) };
                let model = fitted(&data, &Bandwidth::default(), options);
                let mut workspace = Workspace::default();
                // Twice, because the count must be that of one call.
                for _ in 0..2 {
                    if precision == Precision::F64 {
                        let mut out = vec![0.0; data.time_edges.len() * model.bins()];
                        model.predict_f64_into(&decoding, &options, &mut workspace, &mut out).unwrap();
                    } else {
                        let mut out = vec![0.0; data.time_edges.len() * model.bins()];
                        model.predict_into(&decoding, &options, &mut workspace, &mut out).unwrap();
                    }
                }
                workspace.pairs(precision) as usize
            };
            assert_eq!(count(false, None), all, "{method:?} {precision:?}");
            assert_eq!(count(false, Some(7)), all, "{method:?} {precision:?}");
            let kept = count(true, None);
            assert!(kept > 0 && kept < all, "{method:?} {precision:?}: {kept} of {all}");
        }
    }
}

#[test]
fn rows_without_spikes_are_minus_the_ground_process() {
    let mut data = script_data(small());
    data.decoding = Ragged { offsets: vec![0; 6], ..Ragged::default() };
    for method in methods() {
        let model = fitted(&data, &Bandwidth::default(), method);
        let got = predicted(&data, &Bandwidth::default(), &Options::new(method));
        for row in got.chunks_exact(model.bins()) {
            let ground = model.ground_process_intensity();
            assert!(row.iter().zip(ground).all(|(l, ground)| *l == -*ground as f32));
        }
    }
}

#[test]
fn a_spike_without_encoding_spikes_costs_the_floor_everywhere() {
    let mut data = script_data(Sizes { electrodes: 1, ..small() });
    data.encoding = Ragged { offsets: vec![0, 0], ..Ragged::default() };
    data.decoding = Ragged { times: vec![5.0, 5.0], offsets: vec![0, 2], features: vec![0.0; 4] };
    for method in methods() {
        let model = fitted(&data, &Bandwidth::default(), method);
        let got = predicted(&data, &Bandwidth::default(), &Options::new(method));
        let row = got.chunks_exact(model.bins()).find(|row| row[0] < -60.0).expect("a row with spikes");
        assert!(row.iter().all(|l| (f64::from(*l) - 2.0 * LOG_FLOOR).abs() < 1e-4), "{method:?}");
    }
}

#[test]
fn edges_belong_to_the_later_bin_and_the_last_to_the_last_but_one() {
    let edges = [0.0, 1.0, 2.0, 3.0];
    let times = [-0.1, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 3.1];
    let spikes = [Spikes { times: &times, features: &[0.0; 8], n_features: 1 }];
    let decoding = Decoding { time_edges: &edges, electrodes: &spikes };
    let pairs = decoding.pairs();
    assert_eq!(pairs[0], [(1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 2)]);
    let decoding = Decoding { time_edges: &edges[..2], electrodes: &spikes };
    assert_eq!(decoding.pairs()[0], [(1, 0), (2, 0), (3, 0)]);
}

#[test]
fn the_memory_that_is_made_stays_within_the_budget_and_the_estimate() {
    let data = structured_data(Sizes { encoding: 300.0, decoding: 900.0, bins: 700, electrodes: 4, ..small() });
    let spikes = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &spikes };
    for method in [Method::Simd(Isa::best()), Method::Parallel(Isa::best()), Method::Gemm(Isa::best())] {
        for (memory, precision) in [None, Some(6_000_000), Some(3_000_000), Some(1_800_000)]
            .into_iter()
            .flat_map(|memory| [(memory, Precision::F32), (memory, Precision::F64)])
        {
            let options = Options { memory, precision, ..Options::new(method) };
            let model = fitted(&data, &Bandwidth::default(), options);
            let mut workspace = model.workspace(&decoding, &options).unwrap();
            let values = data.time_edges.len() * model.bins();
            if precision == Precision::F32 {
                model.predict_into(&decoding, &options, &mut workspace, &mut vec![0.0; values]).unwrap();
            } else {
                model.predict_f64_into(&decoding, &options, &mut workspace, &mut vec![0.0; values]).unwrap();
            }
            let (tiling, fixed) = model.tiling(&decoding, &options).unwrap();
            let estimate = options.threads() as u64 * thread_bytes(tiling, model.dims, &options) + fixed;
            let made = workspace.bytes();
            assert!(made <= estimate, "{method:?}: {made} bytes made, {estimate} estimated");
            assert!(made * 5 > estimate * 4, "{method:?}: {made} bytes made, {estimate} estimated: too much");
            assert!(memory.is_none_or(|memory| estimate <= memory), "{method:?}: {estimate} of {memory:?}");
        }
    }
}
