//! Decoding one bin at a time gives the same as decoding all bins at once.

use super::super::Arrival;
use super::*;

/// Decodes bin by bin.
fn streamed(data: &Data, bandwidth: &Bandwidth, isa: Isa) -> (Vec<f32>, usize) {
    let mut stream = fitted(data, bandwidth, Method::Simd(isa)).into_stream(isa);
    let electrodes = cut(&data.decoding, &data.n_features);
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &electrodes };
    let pairs = decoding.pairs();
    let bins = stream.decoder().bins();
    let mut out = vec![f32::NAN; data.time_edges.len() * bins];
    for (row, out) in out.chunks_exact_mut(bins).enumerate() {
        let mut arrivals = Vec::new();
        for (electrode, (spikes, pairs)) in electrodes.iter().zip(&pairs).enumerate() {
            for (spike, _) in pairs.iter().filter(|(_, at)| *at == row) {
                let mark = &spikes.features[spike * spikes.n_features..][..spikes.n_features];
                arrivals.push(Arrival { electrode, mark });
            }
        }
        stream.bin(&arrivals, out).unwrap();
    }
    (out, stream.recurring())
}

#[test]
fn bins_one_by_one_agree_with_the_reference() {
    let narrow = Bandwidth { position: vec![0.8], waveform: vec![24.0] };
    let wide = Bandwidth { position: vec![60.0], waveform: vec![24.0] };
    for (sizes, bandwidth, all) in [
        (Sizes { bins: 200, ..small() }, Bandwidth::default(), true),
        (Sizes { bins: 200, encoding: 700.0, features: 4, ..small() }, Bandwidth::default(), true),
        (Sizes { bins: 130, ..small() }, wide, true),
        // Bins too far apart for the recurrence, and a box: these use the other kernels.
        (Sizes { bins: 40, ..small() }, narrow, false),
        (Sizes { dims: 2, bins: 90, ..small() }, Bandwidth { position: vec![3.0, 4.0], waveform: vec![24.0] }, false),
        (Sizes { features: 9, bins: 150, ..small() }, Bandwidth::default(), true),
        (Sizes { bins: 1, ..small() }, Bandwidth::default(), false),
    ] {
        for data in [script_data(sizes), structured_data(sizes)] {
            let (model, exact) = exactly(&data, &bandwidth);
            for isa in Isa::available() {
                let (got, recurring) = streamed(&data, &bandwidth, isa);
                agree(&model, &exact, &got, &format!("{sizes:?} on {}", isa.name()));
                assert!(all || recurring == 0, "{sizes:?}: {recurring}");
                // An electrode without encoding spikes never needs a kernel.
                assert!(!all || recurring + 1 >= sizes.electrodes, "{sizes:?}: {recurring}");
            }
        }
    }
}

#[test]
fn outliers_and_uneven_grids_agree_too() {
    let mut data = structured_data(Sizes { bins: 160, ..small() });
    for (i, x) in data.decoding.features.iter_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
        *x = [500.0, 900.0, -1e9][i % 3 * (i / 9 % 2)];
    }
    data.grid[80] += 0.05;
    let (model, exact) = exactly(&data, &Bandwidth::default());
    let (got, recurring) = streamed(&data, &Bandwidth::default(), Isa::best());
    assert_eq!(recurring, 0);
    agree(&model, &exact, &got, "uneven");
    data.grid[80] -= 0.05;
    let (model, exact) = exactly(&data, &Bandwidth::default());
    agree(&model, &exact, &streamed(&data, &Bandwidth::default(), Isa::best()).0, "outliers");
}

#[test]
fn spikes_that_do_not_fit_are_refused() {
    let data = script_data(small());
    let mut stream = fitted(&data, &Bandwidth::default(), Method::Scalar).into_stream(Isa::best());
    let mut out = vec![0.0; stream.decoder().bins()];
    let mut says = |electrode, mark: &[f64], part: &str| {
        let error = stream.bin(&[Arrival { electrode, mark }], &mut out).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    says(5, &[0.0, 0.0], "expected 5");
    says(0, &[0.0], "features of electrode 0: 1 per spike; expected 2");
    says(0, &[0.0, f64::NAN], "NaN");
    assert!(stream.bin(&[], &mut [0.0]).is_err());
    stream.bin(&[], &mut out).unwrap();
    let ground = stream.decoder().ground_process_intensity();
    assert!(out.iter().zip(ground).all(|(l, ground)| *l == -*ground as f32));
}
