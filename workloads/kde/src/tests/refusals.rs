//! Every invalid argument is rejected by name.

use super::*;

#[test]
fn bad_arguments_of_fit_are_named() {
    let data = script_data(small());
    let refused = |change: &dyn Fn(&mut Data, &mut Bandwidth), parts: &[&str]| {
        let (mut data, mut bandwidth) = (data.clone(), Bandwidth::default());
        change(&mut data, &mut bandwidth);
        let encoding = cut(&data.encoding, &data.n_features);
        let track = Track { time: &data.position_time, position: &data.position, dims: 1 };
        let error = ClusterlessDecoder::fit(track, &data.grid, &encoding, &bandwidth, Method::Scalar).unwrap_err();
        let error = error.to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error} has not {parts:?}");
    };
    refused(&|data, _| data.encoding.times.swap(0, 5), &["enc_spike_times of electrode 0", "ascending"]);
    refused(&|data, _| data.encoding.times[3] = f64::NAN, &["enc_spike_times of electrode 0", "value 3 is NaN"]);
    refused(&|data, _| data.encoding.features[1] = f64::INFINITY, &["enc_features of electrode 0", "inf"]);
    refused(&|data, _| data.position[9] = f64::NAN, &["position", "value 9"]);
    refused(&|data, _| data.position_time[9] = 0.0, &["position_time", "ascending"]);
    refused(&|data, _| data.grid[0] = f64::NAN, &["grid"]);
    refused(&|data, _| data.grid.clear(), &["interior bins", "at least 1"]);
    refused(&|data, _| data.position.truncate(3), &["position", "3 values", "400"]);
    refused(
        &|data, _| {
            data.position.clear();
            data.position_time.clear();
        },
        &["position_time", "at least 1"],
    );
    refused(&|_, bandwidth| bandwidth.position = vec![0.0], &["position_std", "above 0"]);
    refused(&|_, bandwidth| bandwidth.waveform = vec![-24.0], &["waveform_std", "-24"]);
    refused(&|_, bandwidth| bandwidth.waveform = vec![f64::NAN], &["waveform_std", "NaN"]);
    refused(&|_, bandwidth| bandwidth.waveform = vec![24.0; 3], &["waveform_std", "2 features of electrode 0"]);
    let none = ClusterlessDecoder::fit(track(&data), &data.grid, &[], &Bandwidth::default(), Method::Scalar);
    assert!(none.unwrap_err().to_string().contains("electrodes"));
}

#[test]
fn bad_arguments_of_predict_are_named() {
    let data = script_data(small());
    let model = fitted(&data, &Bandwidth::default(), Method::Scalar);
    let spikes = cut(&data.decoding, &data.n_features);
    let says = |edges: &[f64], electrodes: &[Spikes<'_>], options: &Options, part: &str| {
        let error = model.predict(&Decoding { time_edges: edges, electrodes }, options).unwrap_err().to_string();
        assert!(error.contains(part), "{error} has not {part}");
    };
    let plain = Options::new(Method::Scalar);
    says(&[1.0], &spikes, &plain, "time_edges");
    says(&[1.0, 0.0], &spikes, &plain, "ascending");
    says(&data.time_edges, &spikes[1..], &plain, "decoding has 4; expected 5");
    let mut other = spikes.clone();
    other[2] = Spikes { times: &[0.5], features: &[1.0, 2.0, 3.0], n_features: 3 };
    says(&data.time_edges, &other, &plain, "electrode 2: 3 per spike; expected 2");
    other[2] = Spikes { times: &[0.5], features: &[1.0], n_features: 2 };
    says(&data.time_edges, &other, &plain, "dec_features of electrode 2");
    other[2] = Spikes { times: &[0.5], features: &[1.0, f64::NAN], n_features: 2 };
    says(&data.time_edges, &other, &plain, "NaN");
    says(&data.time_edges, &spikes, &Options { memory: Some(1000), ..plain }, "1000 bytes do not hold one tile");
    let mut short = vec![0.0; 3];
    let decoding = Decoding { time_edges: &data.time_edges, electrodes: &spikes };
    let error = model.predict_into(&decoding, &plain, &mut Default::default(), &mut short).unwrap_err();
    assert!(error.to_string().contains("log_likelihood: it holds 3 values"));
    let says = |result: Result<(), InputError>, part: &str| assert!(result.unwrap_err().to_string().contains(part));
    let wide = Options { precision: Precision::F64, ..plain };
    says(model.predict_f64(&decoding, &wide).map(drop), "fitted in f32; expected a model fitted with Precision::F64");
    says(local_f64(&model, track(&data), &decoding, wide).map(drop), "fitted in f32");
    let mut out = vec![0.0; data.time_edges.len() * model.bins()];
    says(model.predict_into(&decoding, &wide, &mut Default::default(), &mut out), "the options say f64");
    let flat = Track { time: &[0.0], position: &[0.0, 1.0], dims: 2 };
    assert!(model.predict_local(flat, &decoding, Method::Scalar).is_err());
}
