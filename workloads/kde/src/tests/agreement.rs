//! Every implementation on every instruction set agrees with the f64 reference, on ordinary and on difficult data.

use super::*;

fn all_agree(data: &Data, bandwidth: &Bandwidth, what: &str) {
    let (model, exact) = exactly(data, bandwidth);
    for method in methods() {
        for skip in [false, true] {
            let options = Options { skip, ..Options::new(method) };
            let what = format!("{what}, {method:?}, skip {skip}");
            agree(&model, &exact, &predicted(data, bandwidth, &options), &what);
            agree_f64(&model, &exact, &predicted_f64(data, bandwidth, &options), &what);
        }
    }
    let decoding = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &decoding };
    let local = model.predict_local_exactly(dec_track(data), &decoding).unwrap();
    for method in methods() {
        let model = fitted(data, bandwidth, method);
        let got = model.predict_local(dec_track(data), &decoding, method).unwrap();
        for (i, (exact, got)) in local.iter().zip(&got).enumerate() {
            let error = (f64::from(*got) - exact).abs();
            assert!(error <= 2e-4 + 1e-5 * exact.abs(), "{what}, local, {method:?}: row {i} is {got}, exactly {exact}");
        }
        let model = fitted(data, bandwidth, Options { precision: Precision::F64, ..Options::new(method) });
        let got = local_f64(&model, dec_track(data), &decoding, method).unwrap();
        for (i, (exact, got)) in local.iter().zip(&got).enumerate() {
            assert!((got - exact).abs() <= 1e-11, "{what}, local, {method:?}: row {i} is {got}, exactly {exact}");
        }
    }
}

#[test]
fn script_data_of_every_shape() {
    for (electrodes, encoding, decoding, bins, edges) in [
        (4, 20.0, 10.0, 100, 50),
        (1, 1.0, 1.0, 1, 2),
        (3, 300.0, 40.0, 33, 20),
        (2, 15.0, 3.0, 31, 5),
        (2, 600.0, 2.0, 500, 9),
    ] {
        let sizes = Sizes { electrodes, encoding, decoding, bins, edges, ..small() };
        all_agree(&script_data(sizes), &Bandwidth::default(), &format!("{sizes:?}"));
    }
}

#[test]
fn features_and_dimensions() {
    for (features, dims) in [(1, 1), (2, 2), (3, 1), (4, 2), (9, 1), (9, 2)] {
        let sizes = Sizes { features, dims, ..small() };
        all_agree(&script_data(sizes), &Bandwidth::default(), &format!("script {features} {dims}"));
        let narrow = Bandwidth { position: vec![3.0; dims], waveform: vec![0.7; features] };
        all_agree(&script_data(sizes), &narrow, &format!("narrow {features} {dims}"));
        all_agree(&structured_data(sizes), &Bandwidth::default(), &format!("structured {features} {dims}"));
    }
}

#[test]
fn one_encoding_spike_and_outlying_marks() {
    // The published log-space form is wrong by several nats here.
    let mut data = script_data(Sizes { encoding: 1.0, decoding: 8.0, electrodes: 6, ..small() });
    all_agree(&data, &Bandwidth::default(), "one encoding spike");
    for (i, x) in data.decoding.features.iter_mut().enumerate() {
        *x = [0.0, 150.0, 190.0, 205.0, 215.0, 400.0, 5000.0, -1e9][i % 8];
    }
    all_agree(&data, &Bandwidth::default(), "outliers");
    data.decoding.features[0] = 1e300;
    all_agree(&data, &Bandwidth::default(), "an absurd outlier");
    data.encoding.features[0] = -1e300;
    all_agree(&data, &Bandwidth::default(), "an absurd encoding mark");
}

#[test]
fn marks_in_small_units_far_from_zero() {
    // Nine features in volts: the constant of the mark kernel is e^87, beyond the range of f32.
    let mut data = structured_data(Sizes { features: 9, ..small() });
    let volts = |x: &mut f64| *x = *x * 1e-6 + 3.0;
    data.encoding.features.iter_mut().for_each(volts);
    data.decoding.features.iter_mut().for_each(volts);
    all_agree(&data, &Bandwidth { position: vec![3.5], waveform: vec![24e-6] }, "volts");
}

#[test]
fn a_long_track_far_from_zero() {
    let mut data = script_data(Sizes { bins: 200, samples: 2000, ..small() });
    let far = |x: &mut f64| *x = *x * 30.0 + 1e6;
    [&mut data.grid, &mut data.position, &mut data.dec_position].into_iter().flatten().for_each(far);
    all_agree(&data, &Bandwidth::default(), "a long track");
}

#[test]
fn bins_that_were_never_visited() {
    let mut data = script_data(Sizes { bins: 300, ..small() });
    data.grid.iter_mut().for_each(|x| *x = *x * 20.0 - 900.0);
    all_agree(&data, &Bandwidth::default(), "bins far away");
    data.grid[7] = 1e300;
    all_agree(&data, &Bandwidth::default(), "a bin beyond all");
}

#[test]
fn unix_times_keep_their_resolution() {
    let mut data = script_data(small());
    let late = |t: &mut f64| *t += 1.7e9;
    let times = [&mut data.position_time, &mut data.encoding.times, &mut data.decoding.times, &mut data.time_edges];
    times.into_iter().flatten().for_each(late);
    data.dec_position_time.iter_mut().for_each(late);
    let (model, exact) = exactly(&data, &Bandwidth::default());
    let (_, early) = exactly(&script_data(small()), &Bandwidth::default());
    // Times near 1e9 s have a resolution of 1e-7 s, so a few spikes may change sides of an edge.
    let same = exact.iter().zip(&early).filter(|(a, b)| (**a - **b).abs() < 1e-3).count();
    assert!(same as f64 > 0.95 * exact.len() as f64, "{same} of {}", exact.len());
    agree(&model, &exact, &predicted(&data, &Bandwidth::default(), &Options::new(Method::Simd(Isa::best()))), "late");
}

#[test]
fn fits_agree() {
    for data in [script_data(small()), structured_data(Sizes { dims: 2, features: 3, bins: 90, ..small() })] {
        let exact = fitted(&data, &Bandwidth::default(), Method::Reference);
        for method in methods() {
            let got = fitted(&data, &Bandwidth::default(), method);
            let pairs = exact
                .occupancy()
                .iter()
                .zip(got.occupancy())
                .chain(exact.ground_process_intensity().iter().zip(got.ground_process_intensity()));
            for (exact, got) in pairs {
                assert!((exact - got).abs() <= 1e-13 + 2e-5 * exact, "{method:?}: {got} {exact}");
            }
            assert_eq!(exact.mean_rates(), got.mean_rates());
            let got = fitted(&data, &Bandwidth::default(), Options { precision: Precision::F64, ..method.into() });
            let pairs = exact.occupancy().iter().zip(got.occupancy());
            for (exact, got) in pairs.chain(exact.ground.iter().zip(&got.ground)) {
                assert!((exact - got).abs() <= 1e-12 * exact, "{method:?} in f64: {got} {exact}");
            }
        }
    }
}
