//! The workloads: every implementation passes its check, poisoned outputs do not, and arrays are accepted or rejected
//! by name.

use ellwand_core::{Case, Dtype, Fit, Registry, Tensor, Tensors, Value};

use ellwand_gpu_lab::testing::{Here, case, here, prepared};

fn registry() -> Registry {
    let mut registry = Registry::new();
    crate::register(&mut registry);
    registry
}

#[test]
fn every_implementation_passes_and_poison_fails() {
    let registry = registry();
    let mut passed = 0;
    for workload in registry.workloads().iter().filter(|workload| workload.name() != "kde-stream") {
        for data in ["script", "structured"] {
            for (features, dims, skip, precision) in
                [(2, 1, true, "f32"), (4, 2, false, "f32"), (2, 1, false, "f64"), (3, 2, true, "f64")]
            {
                let set = [
                    ("precision", precision.into()),
                    ("data", data.into()),
                    ("features", Value::Int(features)),
                    ("dims", Value::Int(dims)),
                    ("skip", Value::Flag(skip)),
                ];
                let case = case(&registry, workload.name(), &set);
                workload.check(&case).unwrap();
                let inputs = workload.inputs(&case, 5).unwrap();
                let expected = workload.reference(&case, &inputs).unwrap();
                for row in here(&registry, workload.name()) {
                    let Some(mut ready) = prepared(row, &case, &inputs) else { continue };
                    ready.run();
                    ready.poison(ellwand_core::Poison::Ones);
                    let spoiled =
                        ready.output().is_ok_and(|got| workload.judge(&case, &inputs, &expected, &got).passed);
                    assert!(!spoiled, "{row:?} passes poisoned");
                    ready.run();
                    let got = ready.output().unwrap();
                    let verdict = workload.judge(&case, &inputs, &expected, &got);
                    assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                    passed += 1;
                    assert!(!ready.what_ran().is_empty());
                    let name = workload.ports(&case).outputs[0].name;
                    let wide = precision == "f64" || row.name == "reference";
                    assert_eq!(got.get(name).unwrap().dtype(), if wide { Dtype::F64 } else { Dtype::F32 }, "{row:?}");
                }
                let work = workload.work(&case);
                assert!(work.items > 0 && work.flops > 0.0 && work.bytes_total() > 0, "{case}");
                assert!(workload.footprint(&case) > inputs.bytes());
                assert_eq!(workload.remarks(&case).len(), usize::from(data == "script"));
            }
        }
    }
    // kde-fit, kde-predict and kde-predict-local have 4, 5 and 4 rows at least, at 8 cases.
    assert!(passed >= 13 * 8, "{passed} only");
}

#[test]
fn working_memory_is_that_of_the_implementation() {
    let registry = registry();
    let case = case(&registry, "kde-predict", &[("data", "structured".into()), ("bins", Value::Int(600))]);
    let inputs = registry.find("kde-predict").unwrap().inputs(&case, 5).unwrap();
    let held = |name: &str| {
        let row = here(&registry, "kde-predict").into_iter().find(|row| row.name == name).unwrap();
        let mut ready = prepared(row, &case, &inputs).unwrap();
        ready.run();
        ready.readings().into_iter().find(|reading| reading.id == "working-memory").and_then(|reading| reading.value)
    };
    let (gemm, simd) = (held("gemm").unwrap(), held("simd").unwrap());
    // A whole factor instead of a strip, and what the crate packs: at least 600 columns, 256 deep.
    assert!(gemm > simd + 4.0 * 256.0 * (600.0 - 128.0 + 600.0), "{gemm} {simd}");
    assert_eq!(held("reference"), None);
}

#[test]
fn knobs_get_the_same_data_and_seeds_other_data() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let plain = case(&registry, "kde-predict", &[("data", "structured".into())]);
    let other = case(&registry, "kde-predict", &[("data", "structured".into()), ("block", Value::Float(7.0))]);
    assert_eq!(workload.data_digest(&plain), workload.data_digest(&other));
    let digest = |seed| workload.inputs(&plain, seed).unwrap().digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn options_without_effect_are_named_and_small_blocks_are_explained() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let remarks = |set: &[(&'static str, Value)]| {
        let all = [&[("data", "structured".into())], set].concat();
        workload.remarks(&case(&registry, "kde-predict", &all)).join("\n")
    };
    assert_eq!(remarks(&[]), "");
    let spikes = ("dec-spikes", Value::Int(30));
    // Thirty spikes per electrode are at most 57: a block of 60.
    let idle = remarks(&[spikes.clone(), ("block", Value::Float(200.0)), ("tile", Value::Float(5000.0))]);
    assert!(idle.contains("block, tile had no effect") && idle.contains("60 spikes x"), "{idle}");
    let plenty = remarks(&[("memory", Value::Float(1000.0))]);
    assert!(plenty.contains("memory had no effect"), "{plenty}");
    let small = remarks(&[spikes, ("block", Value::Float(12.0))]);
    assert!(small.contains("blocks of 12 spikes") && small.contains("auto uses 60 x"), "{small}");
    assert!(!small.contains("rounded"), "{small}");
    let large = remarks(&[("bins", Value::Int(5000))]);
    assert!(large.contains("a grid of 5000 bins is computed in tiles of 2048"), "{large}");
}

#[test]
fn rounded_block_sizes_are_reported_and_used() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let sized = |block: f64, tile: f64| {
        let set = [("dec-spikes", Value::Int(30)), ("block", Value::Float(block)), ("tile", Value::Float(tile))];
        case(&registry, "kde-predict", &[&[("data", "structured".into())], &set[..]].concat())
    };
    let remarks = |block, tile| workload.remarks(&sized(block, tile)).join("\n");
    let both = remarks(3.0, 7.0);
    assert!(both.contains("block = 3 is rounded up to 12 spikes, tile = 7 is rounded up to 32 bins"), "{both}");
    let one = remarks(24.0, 33.0);
    assert!(one.starts_with("tile = 33 is rounded up to 64 bins") && !one.contains("block ="), "{one}");
    assert!(!remarks(12.0, 64.0).contains("rounded"));
    // Nothing is rounded up beyond the actual number of spikes.
    let above = remarks(1000.0, 40.0);
    assert!(above.contains("tile = 40") && !above.contains("block = 1000"), "{above}");
    let small = sized(3.0, 7.0);
    let inputs = workload.inputs(&small, 5).unwrap();
    for row in here(&registry, "kde-predict").into_iter().filter(|row| row.name != "reference") {
        let Some(ready) = prepared(row, &small, &inputs) else { continue };
        assert!(ready.what_ran().contains("blocks of 12 spikes x 32 bins"), "{}", ready.what_ran());
    }
}

#[test]
fn the_memory_of_a_case_is_known_by_part() {
    let registry = registry();
    for name in ["kde-fit", "kde-predict", "kde-fit-predict", "kde-predict-local", "kde-stream"] {
        let workload = registry.find(name).unwrap();
        let plain = case(&registry, name, &[]);
        let parts = workload.memory(&plain);
        assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), workload.footprint(&plain), "{name}");
        let part = |case, wanted: &str| {
            let parts = workload.memory(case);
            parts.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, bytes)| *bytes)
        };
        let more = case(&registry, name, &[("enc-spikes", Value::Int(500_000))]);
        assert!(part(&more, "encoding spikes and model") > 10 * part(&plain, "encoding spikes and model"), "{name}");
        assert_eq!(part(&more, "track"), part(&plain, "track"), "{name}");
    }
}

#[test]
fn a_wrong_row_is_found_wherever_the_reference_looks() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let case = case(&registry, "kde-predict", &[]);
    let inputs = workload.inputs(&case, 1).unwrap();
    let expected = workload.reference(&case, &inputs).unwrap();
    let row = registry.implementations("kde-predict").into_iter().find(|row| row.name == "simd").unwrap();
    let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
    ready.run();
    let got = ready.output().unwrap();
    let values = got.f32("log_likelihood").unwrap().to_vec();
    for at in [0, 777, values.len() - 1] {
        let mut values = values.clone();
        values[at] += 0.01;
        let shape = got.get("log_likelihood").unwrap().shape();
        let bad = Tensors::new().with("log_likelihood", Tensor::new(shape, &values[..]).unwrap());
        let verdict = workload.judge(&case, &inputs, &expected, &bad);
        assert!(!verdict.passed && verdict.detail.contains("log_likelihood["), "{}", verdict.detail);
    }
    assert!(!workload.judge(&case, &inputs, &expected, &Tensors::new()).passed);
}

#[test]
fn large_cases_are_judged_in_some_rows() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let set = [
        ("samples", Value::Int(300)),
        ("edges", Value::Int(500)),
        ("enc-spikes", Value::Int(2000)),
        ("dec-spikes", Value::Int(400)),
        ("bins", Value::Int(400)),
    ];
    let case = case(&registry, "kde-predict", &set);
    let inputs = workload.inputs(&case, 1).unwrap();
    let expected = workload.reference(&case, &inputs).unwrap();
    let rows = expected.get("rows").unwrap().u64().unwrap().to_vec();
    assert!(rows.len() > 50 && rows.len() < 400 && rows[0] == 0 && rows.ends_with(&[498, 499]), "{rows:?}");
    let row = registry.implementations("kde-predict").into_iter().find(|row| row.name == "parallel").unwrap();
    let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
    ready.run();
    let verdict = workload.judge(&case, &inputs, &expected, &ready.output().unwrap());
    assert!(verdict.passed && verdict.detail.contains("of 500 rows"), "{}", verdict.detail);
}

#[test]
fn arrays_are_adopted_and_bad_ones_refused_by_name() {
    let registry = registry();
    let workload = registry.find("kde-predict-local").unwrap();
    let case = case(&registry, "kde-predict-local", &[("data", "structured".into())]);
    let good = workload.inputs(&case, 4).unwrap();
    let (adopted, inputs) = workload.adopt(&case, good.clone(), Fit::Whole).unwrap();
    assert_eq!(inputs.digest(), good.digest());
    assert_eq!(
        (adopted.text("data"), adopted.int("bins"), adopted.int("edges")),
        (Some("given"), Some(200), Some(100))
    );
    let refused = |name: &str, tensor: Option<Tensor>, part: &str| {
        let mut given = good.clone();
        given.take(name);
        if let Some(tensor) = tensor {
            given.insert(name, tensor);
        }
        let error = workload.adopt(&case, given, Fit::Whole).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error} has not '{part}'");
    };
    refused("grid", None, "grid: this array is missing");
    refused("dec_position", None, "dec_position: this array is missing");
    // 200 bins of one dimension: none of these is a list of positions, though each has as many values as some list.
    let shaped = |shape: &[usize]| Some(Tensor::zeros(Dtype::F64, shape).unwrap());
    refused(
        "grid",
        shaped(&[200, 2]),
        "its shape is [200, 2]; expected [B, 1] or [B], with the dimensions of position",
    );
    refused("grid", shaped(&[1, 200]), "its shape is [1, 200]");
    refused("dec_position", shaped(&[1, 100]), "its shape is [1, 100]");
    let plane = self::case(&registry, "kde-predict-local", &[("dims", Value::Int(2))]);
    let flat = workload.inputs(&plane, 4).unwrap().with("grid", Tensor::zeros(Dtype::F64, &[200]).unwrap());
    let error = workload.adopt(&plane, flat, Fit::Whole).unwrap_err().to_string();
    assert!(error.contains("its shape is [200]; expected [B, 2], with"), "{error}");
    refused("n_features", Some(Tensor::vector(&[2.5_f64; 8][..])), "whole numbers");
    refused("enc_spike_times_offsets", Some(Tensor::vector(&[0_i64; 3][..])), "it holds 3 values");
    let offsets = |change: &dyn Fn(&mut Vec<i64>)| {
        let mut offsets = good.get("dec_spike_times_offsets").unwrap().i64().unwrap().to_vec();
        change(&mut offsets);
        Some(Tensor::vector(&offsets[..]))
    };
    refused("dec_spike_times_offsets", offsets(&|o| o[3] = 0), "offset 3 is 0");
    refused("dec_spike_times_offsets", offsets(&|o| o[8] += 1), "offset 8");
    refused("dec_spike_times_offsets", offsets(&|o| o[0] = 1), "offset 0 is 1");
    refused("dec_features_flat", Some(Tensor::vector(&[0.0_f64; 5][..])), "it holds 5 values");
    refused("position_std", Some(Tensor::scalar(0.0)), "above 0");
    refused("waveform_std", Some(Tensor::vector(&[1.0_f64; 7][..])), "waveform_std");
    refused("time_edges", Some(Tensor::scalar(0.0)), "time_edges");
    refused("dec_position_time", Some(Tensor::vector(&[1.0_f64; 7][..])), "dec_position");
    // A recording cannot be cut to the sizes of a sweep.
    let error = workload.adopt(&adopted, good.clone(), Fit::Case).is_ok();
    assert!(error);
    let mut other = adopted.clone();
    other.set("bins", 7);
    assert!(workload.adopt(&other, good, Fit::Case).unwrap_err().to_string().contains("bins=200"));
}

#[test]
fn budgets_too_small_are_refused_before_anything_runs() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let case = case(&registry, "kde-predict", &[("memory", Value::Float(0.01))]);
    let error = workload.check(&case).unwrap_err().to_string();
    assert!(error.starts_with("memory: ") && error.contains("hint: memory="), "{error}");
}

#[test]
fn threads_and_instructions_that_the_machine_lacks_are_refused() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let threads = case(&registry, "kde-predict", &[("threads", Value::Float(100_000.0))]);
    let error = workload.check(&threads).unwrap_err().to_string();
    assert!(error.starts_with("threads: ") && error.contains("this process may use"), "{error}");
    for isa in ["avx512", "avx2", "baseline"] {
        let here = ellwand_simd::isa::Isa::available().iter().any(|have| have.name() == isa);
        let checked = workload.check(&case(&registry, "kde-predict", &[("isa", isa.into())]));
        assert_eq!(checked.is_ok(), here, "{isa}");
    }
}

#[test]
fn a_stream_decodes_all_bins_and_reports_their_latencies() {
    let registry = registry();
    let workload = registry.find("kde-stream").unwrap();
    let set = [("enc-spikes", Value::Int(300)), ("electrodes", Value::Int(6)), ("edges", Value::Int(21))];
    let case = case(&registry, "kde-stream", &set);
    let inputs = workload.inputs(&case, 5).unwrap();
    let expected = workload.reference(&case, &inputs).unwrap();
    for row in here(&registry, "kde-stream") {
        let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
        ready.poison(ellwand_core::Poison::Ones);
        assert!(!workload.judge(&case, &inputs, &expected, &ready.output().unwrap()).passed);
        ready.run();
        let verdict = workload.judge(&case, &inputs, &expected, &ready.output().unwrap());
        assert!(verdict.passed, "{row:?}: {}", verdict.detail);
        assert_eq!(verdict.compared.map(|compared| (compared.values, compared.of)), Some((21 * 200, 21 * 200)));
        let readings = ready.readings();
        let of = |id: &str| readings.iter().find(|reading| reading.id == id).and_then(|reading| reading.value);
        if row.name == "reference" {
            assert!(readings.is_empty());
            continue;
        }
        let (p50, p99, slowest) = (of("bin-p50").unwrap(), of("bin-p99").unwrap(), of("slowest-bin").unwrap());
        assert!(0.0 < p50 && p50 <= p99 && p99 <= slowest, "{row:?}: {p50} {p99} {slowest}");
        // No more than all pairs of spikes at all bins, in whole vectors.
        let operations = of("operations").unwrap();
        assert!(operations > 0.0 && operations <= 1.5 * workload.work(&case).flops, "{row:?}: {operations}");
        // Measuring the latencies does not change the answer.
        assert!(workload.judge(&case, &inputs, &expected, &ready.output().unwrap()).passed);
    }
}

/// Its densities are computed bin by bin on a pool.
#[test]
fn a_reference_that_fits_uses_all_threads() {
    use ellwand_core::Parallelism::{Many, Single};
    let registry = registry();
    for (workload, uses) in [("kde-fit", Many), ("kde-fit-predict", Many), ("kde-predict", Single)] {
        assert_eq!(registry.implementations(workload)[0].parallelism, uses, "{workload}");
    }
}

/// A case with these sizes, for the axes that the workload has.
fn sized(registry: &Registry, workload: &str, sizes: &[(&'static str, usize)]) -> Case {
    let axes = registry.find(workload).unwrap().axes();
    let known = sizes.iter().filter(|(axis, _)| axes.iter().any(|known| known.name == *axis));
    case(registry, workload, &known.map(|(axis, size)| (*axis, Value::Int(*size as i64))).collect::<Vec<_>>())
}

#[test]
fn a_run_reports_the_threads_that_its_parts_can_occupy() {
    let registry = registry();
    let ran = |workload: &str, set: &[(&'static str, usize)]| {
        let case = sized(&registry, workload, set);
        let inputs = registry.find(workload).unwrap().inputs(&case, 5).unwrap();
        let row = registry.implementations(workload).into_iter().find(|row| row.name == "parallel").unwrap();
        let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
        ready.run();
        (ready.threads().unwrap(), ready.what_ran())
    };
    let few = [("edges", 30), ("bins", 50), ("enc-spikes", 20), ("dec-spikes", 10), ("electrodes", 2)];
    let all = ellwand_simd::pool::threads();
    for (workload, items) in [("kde-fit", "bins"), ("kde-predict", "spikes and bins"), ("kde-predict-local", "spikes")]
    {
        let (threads, what_ran) = ran(workload, &few);
        assert_eq!(threads, 1, "{workload}");
        assert!(what_ran.contains(&ellwand_simd::pool::about(1, items)), "{workload}: {what_ran}");
        let many = [("bins", 640 * all), ("edges", 640 * all), ("dec-spikes", 640)];
        let (threads, what_ran) = ran(workload, &many);
        assert_eq!(threads, all, "{workload}: {what_ran}");
    }
}

#[test]
fn the_output_of_a_size_is_the_array() {
    let registry = registry();
    for workload in registry.workloads() {
        for precision in ["f32", "f64"] {
            let set = [("edges", 300), ("bins", 200), ("enc-spikes", 20), ("electrodes", 2)];
            let mut case = sized(&registry, workload.name(), &set);
            if case.get("precision").is_some() {
                case.set("precision", precision);
            }
            let inputs = workload.inputs(&case, 1).unwrap();
            let row = here(&registry, workload.name()).into_iter().find(|row| row.name == "simd").unwrap();
            let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
            ready.run();
            let parts = workload.memory(&case);
            let output = parts.iter().find(|(name, _)| *name == "output").unwrap().1;
            assert_eq!(output, ready.output().unwrap().bytes(), "{case}");
        }
    }
}
